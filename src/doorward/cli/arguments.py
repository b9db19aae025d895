"""Positional arguments with a text in the help of their command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

__all__ = ["Argument", "argument"]

F = TypeVar("F", bound=Callable[..., Any])


class Argument(click.Argument):
    """An argument with a text, which releases of click before 8.5 take and do not show."""

    def __init__(self, param_decls: Sequence[str], *, help: str, **attributes: Any) -> None:
        super().__init__(param_decls, **attributes)
        self.help = help


def argument(name: str, *, help: str, **attributes: Any) -> Callable[[F], F]:
    """Give a command an argument."""
    return click.argument(name, cls=Argument, help=help, **attributes)
