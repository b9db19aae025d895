"""The command line: one file for each subcommand, each brought in only when it is asked for."""

from __future__ import annotations

__all__: list[str] = []
