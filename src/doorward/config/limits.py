"""The default limits of one evaluation.

A module of its own: decisions need it, and must not pay for the import of the configuration.
"""

from __future__ import annotations

from typing import Final

__all__ = ["DEADLINE", "MAX_ITEMS"]

DEADLINE: Final = 5.0
"""Seconds."""

MAX_ITEMS: Final = 10_000_000
"""Items that the collections and texts that it makes may hold together: about 1 GB."""
