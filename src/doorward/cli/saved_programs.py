"""The folder of compiled policies that commands share: where it is, and the option without it.

$DOORWARD_CACHE_DIR            where the variable is set; nothing is saved where it is empty
$XDG_CACHE_HOME/doorward       else
~/.cache/doorward              where that is not set either
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from doorward.rego.tools import SavedFolder, SavedPrograms

__all__ = ["VARIABLE", "option", "saved_folder", "saved_programs"]

VARIABLE: Final = "DOORWARD_CACHE_DIR"
_OFF: Final = "doorward.no_cache"


def _note(ctx: click.Context, _param: click.Parameter, is_off: bool) -> None:
    ctx.meta[_OFF] = is_off


option: Final = click.option(
    "--no-cache",
    is_flag=True,
    expose_value=False,
    callback=_note,
    help="Compile policies again even if they did not change, and save nothing.",
)
"""The option of commands that compile policies and end."""


def saved_programs() -> SavedPrograms | None:
    """The programs that commands leave for the next; None as for `saved_folder`."""
    folder = saved_folder()
    if folder is None:
        return None
    from doorward.rego.tools import SavedPrograms  # few commands compile policies

    return SavedPrograms(folder)


def saved_folder() -> SavedFolder | None:
    """The folder of what commands leave for the next; None with `--no-cache`, or where the user
    has no folder of their own."""
    path = None if click.get_current_context().meta.get(_OFF) else _folder()
    if path is None:
        return None
    from doorward.rego.tools import SavedFolder

    return SavedFolder(path)


def _folder() -> Path | None:
    chosen = os.environ.get(VARIABLE)
    if chosen is not None:
        return Path(chosen) if chosen else None
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):
        return _of_user(Path(base))
    try:
        return _of_user(Path.home() / ".cache")
    except RuntimeError:  # the user has no home
        return None


def _of_user(base: Path) -> Path | None:
    """The folder below one of the user's own: under `sudo` the home may be another's."""
    existing = base if base.exists() else base.parent
    try:
        return base / "doorward" if existing.stat().st_uid == os.geteuid() else None
    except OSError:
        return None
