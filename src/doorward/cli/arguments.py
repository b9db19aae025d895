"""Positional arguments with a text in the help of their command, and the option `--format`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from doorward.cli.errors import OneOf

__all__ = ["Argument", "argument", "style_option"]

F = TypeVar("F", bound=Callable[..., Any])


class Argument(click.Argument):
    """A positional argument with a help text, which releases of click before 8.5 accept and do not
    show.
    """

    def __init__(self, param_decls: Sequence[str], *, help: str, **attributes: Any) -> None:
        super().__init__(param_decls, **attributes)
        self.help = help


def argument(name: str, *, help: str, **attributes: Any) -> Callable[[F], F]:
    """Return a decorator that gives a command a positional argument with a help text."""
    return click.argument(name, cls=Argument, help=help, **attributes)


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
