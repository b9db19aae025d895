"""The names of log formats and levels: what a command line offers before anything is logged."""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["FORMATS", "LEVELS"]

FORMATS: Final = ("text", "json", "json-pretty")
LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "error": logging.ERROR}
