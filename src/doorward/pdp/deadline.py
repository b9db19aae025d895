"""How long one evaluation may take unless somebody says otherwise.

It stands by itself: whoever decides needs it, and shall not pay for reading configurations.
"""

from __future__ import annotations

from typing import Final

__all__ = ["DEADLINE"]

DEADLINE: Final = 5.0
"""Seconds."""
