"""The folder of compiled policies that commands share: where it is, and the option without it.

$DOORWARD_CACHE_DIR            where the variable is set; nothing is saved where it is empty
$XDG_CACHE_HOME/doorward       else
~/.cache/doorward              where that is not set either
"""

from __future__ import annotations

import os
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
    help="Do not use or write the cache of compiled policies.",
)
"""The option of commands that compile policies and end."""


def saved_programs() -> SavedPrograms | None:
    """Return the cache of compiled policies that commands share; None if nothing may be cached."""
    folder = saved_folder()
    if folder is None:
        return None
    from doorward.rego.tools import SavedPrograms  # few commands compile policies

    return SavedPrograms(folder)


def saved_folder() -> SavedFolder | None:
    """Return the folder in which commands cache things for the next; None with --no-cache.

    None as well if the user has no folder of their own, or DOORWARD_CACHE_DIR is empty.
    """
    path = "" if click.get_current_context().meta.get(_OFF) else _path()
    if not path:
        return None
    from pathlib import Path  # a command without policies does not need it

    from doorward.rego.tools import SavedFolder

    return SavedFolder(Path(path))


def _path() -> str:
    """Return the path of the cache folder; "" if nothing may be cached."""
    chosen = os.environ.get(VARIABLE)
    if chosen is not None:
        return chosen
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "doorward") if _is_of_user(base) else ""


def _is_of_user(base: str) -> bool:
    """Return True if an absolute folder, or its parent if it does not exist, belongs to the user:
    under `sudo` the home may be another's.
    """
    existing = base if os.path.exists(base) else os.path.dirname(base)
    try:
        return os.path.isabs(base) and os.stat(existing).st_uid == os.geteuid()
    except OSError:
        return False
