"""The options `--set` and `--set-file`: values of a configuration, besides those of its file."""

from __future__ import annotations

from typing import Final

import click

__all__ = ["file_option", "option"]

option: Final = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a key of the configuration, in place of the value in the file; repeatable.",
)
file_option: Final = click.option(
    "--set-file",
    "setting_files",
    multiple=True,
    metavar="KEY=FILE",
    help="Set a key of the configuration to the content of a file; repeatable.",
)
