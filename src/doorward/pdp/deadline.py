"""How long one evaluation may take unless somebody says otherwise.

A module of its own: decisions need it, and must not pay for the import of the configuration.
"""

from __future__ import annotations

from typing import Final

__all__ = ["DEADLINE"]

DEADLINE: Final = 5.0
"""Seconds."""
