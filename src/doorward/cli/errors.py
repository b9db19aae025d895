"""Errors as the commands show them: for people with the source line and a caret, as JSON like OPA.

A fault of the user never shows a traceback.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from doorward.pdp.loader import LoadError
from doorward.rego import PARSE_ERROR, Diagnostic, RegoError, Span, render_all
from doorward.rego.golang import marshal, object_text

__all__ = ["OneOf", "documents_text", "for_people", "warn"]


# What OPA finds where it makes rules of what it has parsed: without a line.
_OF_WHOLE_RULES: Final = re.compile(
    r"cannot be used for rule|keyword is required before|keyword is required for"
    r"|conflicts with built-in|^package expected|^empty module|annotation scope"
    r"|^unexpected package$|^rule must have|^rule argument list"
)


class OneOf(click.ParamType[str]):
    """The value of --format, or another flag: one of several, refused in OPA's words."""

    name = "format"

    def __init__(self, *allowed: str, flag: str = "-f, --format") -> None:
        self.allowed = allowed
        self.flag = flag

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "|".join(self.allowed)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value in self.allowed:
            return str(value)
        raise click.UsageError(
            f'invalid argument "{value}" for "{self.flag}" flag: '
            f"must be one of {{{','.join(self.allowed)}}}",
            ctx,
        )


def documents_text(error: RegoError | LoadError, *, sort_keys: bool = False) -> str:
    """The JSON list of errors, as `opa eval` and `opa check` write it, on one line."""
    if isinstance(error, LoadError):
        documents = [object_text({"message": marshal(message)}) for message in error.messages]
    else:
        documents = [_document(each, sort_keys=sort_keys) for each in error.diagnostics]
    return "[" + ",".join(documents) + "]"


def _document(diagnostic: Diagnostic, *, sort_keys: bool) -> str:
    fields = {"message": marshal(_summary(diagnostic))}
    if diagnostic.code:
        fields["code"] = marshal(diagnostic.code)
    span = diagnostic.span
    if span.row or span.source.name or span.source.text:
        where = {"file": marshal(span.file), "row": str(span.row), "col": str(span.col)}
        fields["location"] = _object(where, sort_keys=sort_keys)
    details = _details(diagnostic, sort_keys=sort_keys)
    if details:
        fields["details"] = details
    return _object(fields, sort_keys=sort_keys)


def _details(diagnostic: Diagnostic, *, sort_keys: bool) -> str:
    """The line of a parse error; the types at hand and those wanted, of a type error."""
    if diagnostic.details is not None:
        data = {name: _json(value) for name, value in diagnostic.details.data.items()}
        return _object(data, sort_keys=sort_keys)
    if diagnostic.code != PARSE_ERROR or _OF_WHOLE_RULES.search(diagnostic.message):
        return ""
    span = diagnostic.span
    return _line_details(span.source.text.encode(errors="replace"), span, sort_keys=sort_keys)


def _line_details(text: bytes, span: Span, *, sort_keys: bool) -> str:
    """The line at fault and the byte in it; at an end or a space what stands before it."""
    if not text:
        return ""
    offset = len(span.source.text[: span.start].encode(errors="replace"))
    offset = (
        len(text[: offset + 1].rstrip()) - 1 if text[offset : offset + 1].strip() == b"" else offset
    )
    offset = max(offset, 0)
    begin = max(text.rfind(b"\n", 0, offset), text.rfind(b"\r", 0, offset)) + 1
    line = re.split(rb"[\r\n]", text[begin:], maxsplit=1)[0].decode(errors="replace")
    return _object({"line": marshal(line), "idx": str(offset - begin)}, sort_keys=sort_keys)


def _json(value: object) -> str:
    """JSON of plain Python, the keys of its objects in order."""
    if isinstance(value, Mapping):
        return object_text({str(key): _json(value[key]) for key in sorted(value)})
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_json, value)) + "]"
    if value is None or isinstance(value, (str, int, float)):
        return marshal(value)
    raise TypeError(f"no JSON: {type(value).__name__}")


def _object(fields: dict[str, str], *, sort_keys: bool) -> str:
    return object_text(dict(sorted(fields.items())) if sort_keys else fields)


def _summary(diagnostic: Diagnostic) -> str:
    """The message without the lines of detail that OPA puts below it."""
    return diagnostic.message.partition("\n\t")[0]


def warn(notes: Sequence[str]) -> None:
    """Say on standard error what is no error, and should be known."""
    for note in notes:
        click.echo(f"warning: {note}", err=True)


def for_people(error: RegoError | LoadError) -> str:
    """What is wrong, where, and what the source says there."""
    if isinstance(error, LoadError):
        return str(error).replace(" occurred during loading:", " occurred:", 1)
    count = len(error.diagnostics)
    head = "1 error occurred:" if count == 1 else f"{count} errors occurred:"
    said = render_all(error.diagnostics)
    if count == 1 and not error.diagnostics[0].span.row:
        return f"{head} {said}"
    return f"{head}\n{said}" if count else head
