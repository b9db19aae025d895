"""Findings of the compiler as JSON, as OPA's API and commands write them."""

from __future__ import annotations

import re
from typing import Any, Final

from doorward.rego import PARSE_ERROR, Diagnostic, Span
from doorward.rego.golang import marshal, object_text, ordered_text, read_json

__all__ = ["diagnostic_document", "diagnostic_fields"]

# What OPA finds where it makes rules of what it has parsed: without a line.
_OF_WHOLE_RULES: Final = re.compile(
    r"cannot be used for rule|keyword is required before|keyword is required for"
    r"|conflicts with built-in|^package expected|^empty module|annotation scope"
    r"|^unexpected package$|^rule must have|^rule argument list"
)


def diagnostic_fields(diagnostic: Diagnostic, *, sort_keys: bool = False) -> dict[str, str]:
    """What OPA writes of a finding, each field as JSON: code, message, location, details."""
    fields = {"code": marshal(diagnostic.code)} if diagnostic.code else {}
    fields["message"] = marshal(_summary(diagnostic))
    span = diagnostic.span
    if span.row or span.source.name or span.source.text:
        where = {"file": marshal(span.file), "row": str(span.row), "col": str(span.col)}
        fields["location"] = _object(where, sort_keys=sort_keys)
    details = _details(diagnostic, sort_keys=sort_keys)
    if details:
        fields["details"] = details
    return fields


def diagnostic_document(diagnostic: Diagnostic) -> dict[str, Any]:
    """The same as values."""
    return {name: read_json(text) for name, text in diagnostic_fields(diagnostic).items()}


def _details(diagnostic: Diagnostic, *, sort_keys: bool) -> str:
    """The line of a parse error; the types at hand and those wanted, of a type error."""
    if diagnostic.details is not None:
        data = {k: ordered_text(v, sort_keys=True) for k, v in diagnostic.details.data.items()}
        return _object(data, sort_keys=sort_keys)
    if diagnostic.code != PARSE_ERROR or _OF_WHOLE_RULES.search(diagnostic.message):
        return ""
    span = diagnostic.span
    return _line_details(span.source.text.encode(errors="replace"), span, sort_keys=sort_keys)


def _line_details(text: bytes, span: Span, *, sort_keys: bool) -> str:
    """The line at fault and the byte in it; at an end or a space what precedes it."""
    if not text:
        return ""
    offset = len(span.source.text[: span.start].encode(errors="replace"))
    if not text[offset : offset + 1].strip():
        offset = len(text[: offset + 1].rstrip()) - 1
    offset = max(offset, 0)
    begin = max(text.rfind(b"\n", 0, offset), text.rfind(b"\r", 0, offset)) + 1
    line = re.split(rb"[\r\n]", text[begin:], maxsplit=1)[0].decode(errors="replace")
    return _object({"line": marshal(line), "idx": str(offset - begin)}, sort_keys=sort_keys)


def _object(fields: dict[str, str], *, sort_keys: bool) -> str:
    return object_text(dict(sorted(fields.items())) if sort_keys else fields)


def _summary(diagnostic: Diagnostic) -> str:
    """The message without the lines of detail that OPA puts below it."""
    return diagnostic.message.partition("\n\t")[0]
