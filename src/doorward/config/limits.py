"""The default limits of one evaluation.

A module of its own: decisions need it, and must not pay for the import of the configuration.
"""

from __future__ import annotations

from typing import Final

__all__ = ["DEADLINE", "MAX_ITEMS"]

DEADLINE: Final = 5.0
"""The default time limit of one evaluation, in seconds."""

MAX_ITEMS: Final = 10_000_000
"""The default limit of items in all collections and texts that one evaluation creates: about 1
GB.
"""
