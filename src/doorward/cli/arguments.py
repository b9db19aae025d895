"""Positional arguments with a help text, and the options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

from doorward.cli.errors import OneOf

__all__ = ["Argument", "argument", "bundle_option", "data_option", "style_option"]

F = TypeVar("F", bound=Callable[..., Any])


class Argument(click.Argument):
    """A positional argument with a help text, which releases of click before 8.5 accept and do not
    show. `flags` are flags that people may take it for: the error about one names the argument.
    """

    def __init__(
        self, param_decls: Sequence[str], *, help: str, flags: Sequence[str] = (), **attributes: Any
    ) -> None:
        super().__init__(param_decls, **attributes)
        self.help = help
        self.flags = flags


def argument(
    name: str, *, help: str, flags: Sequence[str] = (), **attributes: Any
) -> Callable[[F], F]:
    """Return a decorator that gives a command a positional argument with a help text."""
    return click.argument(name, cls=Argument, help=help, flags=flags, **attributes)


def style_option(*styles: str, default: str, help: str = "Output format.") -> Callable[[F], F]:
    """Return a decorator that gives a command the option `-f, --format`, passed as the parameter
    `style`.
    """
    return click.option(
        "-f",
        "--format",
        "style",
        type=OneOf(*styles),
        default=default,
        show_default=True,
        help=help,
    )


data_option: Final = click.option(
    "-d",
    "--data",
    multiple=True,
    metavar="PATH",
    help="File or folder with policies and data; repeatable.",
)
"""The option `-d, --data` of commands that evaluate or examine a query."""

bundle_option: Final = click.option(
    "-b", "--bundle", multiple=True, metavar="PATH", help="Bundle; repeatable."
)
"""The option `-b, --bundle` beside `data_option`."""
