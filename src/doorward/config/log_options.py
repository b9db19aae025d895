"""The names of log formats and levels, in a module without imports of the log itself: the command
line needs them at each start.
"""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["FORMATS", "LEVELS"]

FORMATS: Final = ("text", "json", "json-pretty")
LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "error": logging.ERROR}
