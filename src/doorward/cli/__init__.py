"""The command line: one file for each subcommand, each imported only when it is called."""

from __future__ import annotations

__all__: list[str] = []
