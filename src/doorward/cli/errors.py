"""Errors as the commands show them: for people with the source line and a caret, as JSON like OPA.

A fault of the user never shows a traceback.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from doorward.bundles.loader import LoadError
from doorward.pdp.error_documents import diagnostic_fields
from doorward.rego import Diagnostic, RegoError
from doorward.rego.golang import marshal, object_text
from doorward.rego.shared import render_all

__all__ = ["OneOf", "documents_text", "for_people", "warn"]


class OneOf(click.ParamType[str]):
    """The type of --format or another flag with fixed values; others are refused in OPA's words."""

    name = "format"

    def __init__(self, *allowed: str, flag: str = "-f, --format") -> None:
        self.allowed = allowed
        self.flag = flag

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "|".join(self.allowed)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the allowed values that begin with `incomplete`."""
        return [CompletionItem(value) for value in self.allowed if value.startswith(incomplete)]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return an allowed value; raise UsageError in the words of Go's flag library for any
        other.
        """
        if value in self.allowed:
            return str(value)
        raise click.UsageError(
            f'invalid argument "{value}" for "{self.flag}" flag: '
            f"must be one of {{{','.join(self.allowed)}}}",
            ctx,
        )


def documents_text(error: RegoError | LoadError, *, sort_keys: bool = False) -> str:
    """Return the errors as a JSON list on one line, as `opa eval` and `opa check` write it."""
    problems = error.problems if isinstance(error, LoadError) else error.diagnostics
    return "[" + ",".join([_document(each, sort_keys=sort_keys) for each in problems]) + "]"


def _document(problem: Diagnostic | str, *, sort_keys: bool) -> str:
    """Return one error as JSON, with its fields in OPA's order or, with `sort_keys`, sorted."""
    if isinstance(problem, str):
        return object_text({"message": marshal(problem)})
    fields = diagnostic_fields(problem, sort_keys=sort_keys)
    first = {"message": fields["message"]}
    return object_text(dict(sorted(fields.items())) if sort_keys else first | fields)


def warn(notes: Sequence[str]) -> None:
    """Print notes on standard error; they do not change the exit code."""
    for note in notes:
        click.echo(f"warning: {note}", err=True)


def for_people(error: RegoError | LoadError) -> str:
    """Return the text of an error for a terminal: each message with position, source line and
    caret.
    """
    if isinstance(error, LoadError):
        return str(error).replace(" occurred during loading:", " occurred:", 1)
    count = len(error.diagnostics)
    head = "1 error occurred:" if count == 1 else f"{count} errors occurred:"
    details = render_all(error.diagnostics)
    if count == 1 and not error.diagnostics[0].span.row:
        return f"{head} {details}"
    return f"{head}\n{details}" if count else head
