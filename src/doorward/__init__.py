"""Doorward: who may do what, decided outside the application.

Public names only, no code: a program that wants the policy language alone imports `doorward.rego`
and pays for nothing else, so nothing heavier may ever be imported from here.

PYTEST_DONT_REWRITE: the plugin for pytest belongs to this package, which coverage.py's plugin has
imported before pytest looks for asserts to rewrite. There are none in it.
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
