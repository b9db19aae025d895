"""Doorward: who may do what, decided outside the application.

Public names only, no code: a program that wants the policy language alone imports `doorward.rego`
and pays for nothing else, so nothing heavier may ever be imported from here.
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
