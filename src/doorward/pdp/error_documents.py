"""Errors of the compiler as JSON, in the form of OPA's API and commands."""

from __future__ import annotations

import re
from typing import Any, Final

from doorward.rego import Diagnostic, RegoError
from doorward.rego.golang import marshal, object_text, ordered_text, read_json
from doorward.rego.shared import PARSE_ERROR

__all__ = ["diagnostic_document", "diagnostic_fields", "errors_text"]

# What OPA finds where it makes rules of what it has parsed: without a line.
_PATH_OF_RULE: Final = re.compile(
    r"cannot be used for rule|keyword is required before|keyword is required for"
    r"|conflicts with built-in|^package expected|^empty module|annotation scope"
    r"|^unexpected package$|^rule must have|^rule argument list"
)


def diagnostic_fields(diagnostic: Diagnostic, *, sort_keys: bool = False) -> dict[str, str]:
    """Return OPA's fields of a finding, each value as JSON text: `code`, `message`, `location`,
    `details`.

    A field that the finding does not have is left out; `message` is always there. `sort_keys` sorts
    the names inside `location` and `details`.
    """
    fields = {"code": marshal(diagnostic.code)} if diagnostic.code else {}
    fields["message"] = marshal(_summary(diagnostic))
    span = diagnostic.span
    # An error without a position, such as a limit, has no location.
    if span.row or span.source.name or span.source.text:
        where = {"file": marshal(span.file), "row": str(span.row), "col": str(span.col)}
        fields["location"] = _object(where, sort_keys=sort_keys)
    details = _details(diagnostic, sort_keys=sort_keys)
    if details:
        fields["details"] = details
    return fields


def diagnostic_document(diagnostic: Diagnostic) -> dict[str, Any]:
    """Return the fields of `diagnostic_fields` as values instead of JSON texts."""
    return {name: read_json(text) for name, text in diagnostic_fields(diagnostic).items()}


def errors_text(error: RegoError) -> str:
    """Return all findings in one text as OPA logs them, headed by their number. Below a parse error
    stand its line and a caret.
    """
    texts = []
    for each in error.diagnostics:
        text, line = str(each), _line_of(each)
        if line is not None:
            text += f"\n\t{line[0]}\n\t{' ' * line[1]}^"
        texts.append(text)
    if len(texts) == 1:
        return f"1 error occurred: {texts[0]}"
    return f"{len(texts)} errors occurred:\n" + "\n".join(texts)


def _details(diagnostic: Diagnostic, *, sort_keys: bool) -> str:
    """Return the details of a finding as JSON: actual and expected types of a type error, the line
    of a parse error; "" for other findings.
    """
    if diagnostic.details is not None:
        data = {k: ordered_text(v, sort_keys=True) for k, v in diagnostic.details.data.items()}
        return _object(data, sort_keys=sort_keys)
    line = _line_of(diagnostic)
    if line is None:
        return ""
    return _object({"line": marshal(line[0]), "idx": str(line[1])}, sort_keys=sort_keys)


def _line_of(diagnostic: Diagnostic) -> tuple[str, int] | None:
    """Return the source line of a parse error and the offset of the error in it, in bytes. At the
    end of the text or at white space this is the last byte before it. None for findings that OPA
    prints without a line, and without source.
    """
    if diagnostic.code != PARSE_ERROR or _PATH_OF_RULE.search(diagnostic.message):
        return None
    span = diagnostic.span
    text = span.source.text.encode(errors="replace")
    if not text:
        return None
    # OPA counts bytes, not characters.
    offset = len(span.source.text[: span.start].encode(errors="replace"))
    if not text[offset : offset + 1].strip():
        offset = len(text[: offset + 1].rstrip()) - 1
    offset = max(offset, 0)
    begin = max(text.rfind(b"\n", 0, offset), text.rfind(b"\r", 0, offset)) + 1
    line = re.split(rb"[\r\n]", text[begin:], maxsplit=1)[0].decode(errors="replace")
    return line, offset - begin


def _object(fields: dict[str, str], *, sort_keys: bool) -> str:
    return object_text(dict(sorted(fields.items())) if sort_keys else fields)


def _summary(diagnostic: Diagnostic) -> str:
    """The message without the lines of detail that OPA puts below it."""
    return diagnostic.message.partition("\n\t")[0]
