"""Errors as the commands show them: for people with the source line and a caret, as JSON like OPA.

A fault of the user never shows a traceback.
"""

from __future__ import annotations

from typing import Any

import click

from doorward.pdp.go_json import object_text
from doorward.pdp.loader import LoadError
from doorward.rego.builtins.go_json import marshal
from doorward.rego.errors import PARSE_ERROR, Diagnostic, RegoError, render

__all__ = ["OneOf", "documents_text", "for_people"]


class OneOf(click.ParamType[str]):
    """The value of --format: one of several, refused in OPA's words."""

    name = "format"

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "|".join(self.allowed)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value in self.allowed:
            return str(value)
        raise click.UsageError(
            f'invalid argument "{value}" for "-f, --format" flag: '
            f"must be one of {{{','.join(self.allowed)}}}",
            ctx,
        )


def documents_text(error: RegoError | LoadError, *, sort_keys: bool = False) -> str:
    """The JSON list of errors, as `opa eval` and `opa check` write it, on one line."""
    if isinstance(error, LoadError):
        found = [object_text({"message": marshal(message)}) for message in error.messages]
    else:
        found = [_document(each, sort_keys=sort_keys) for each in error.diagnostics]
    return "[" + ",".join(found) + "]"


def _document(diagnostic: Diagnostic, *, sort_keys: bool) -> str:
    fields = {"message": marshal(_summary(diagnostic))}
    if diagnostic.code:
        fields["code"] = marshal(diagnostic.code)
    span = diagnostic.span
    if span.row or span.source.name or span.source.text:
        where = {"file": marshal(span.file), "row": str(span.row), "col": str(span.col)}
        fields["location"] = _object(where, sort_keys=sort_keys)
    line = span.source.line(span.row) if diagnostic.code == PARSE_ERROR else ""
    if line:
        fields["details"] = _object(
            {"line": marshal(line), "idx": str(span.col - 1)}, sort_keys=sort_keys
        )
    return _object(fields, sort_keys=sort_keys)


def _object(fields: dict[str, str], *, sort_keys: bool) -> str:
    return object_text(dict(sorted(fields.items())) if sort_keys else fields)


def _summary(diagnostic: Diagnostic) -> str:
    """The message without the lines of detail that OPA puts below it."""
    return diagnostic.message.partition("\n\t")[0]


def for_people(error: RegoError | LoadError) -> str:
    """What is wrong, where, and what the source says there."""
    if isinstance(error, LoadError):
        return str(error).replace(" occurred during loading:", " occurred:", 1)
    count = len(error.diagnostics)
    head = "1 error occurred:" if count == 1 else f"{count} errors occurred:"
    return "\n".join([head, *map(render, error.diagnostics)])
