"""Errors: diagnostics with OPA's codes and texts, and the exceptions around them.

Rendering for people happens here and nowhere else. Which diagnostic applies is decided by the
stage that found it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Final

from doorward.base.records import record
from doorward.rego.source import NOWHERE, Span

__all__ = [
    "BUILTIN_ERROR",
    "CALL_ERRORS",
    "CANCEL_ERROR",
    "COMPILE_ERROR",
    "CONFLICT_ERROR",
    "INPUT_ERROR",
    "INTERNAL_ERROR",
    "LIMIT_ERROR",
    "PARSE_ERROR",
    "RECURSION_ERROR",
    "TYPE_ERROR",
    "UNSAFE_VAR_ERROR",
    "BuiltinError",
    "CompileError",
    "Details",
    "Diagnostic",
    "EvalError",
    "EvaluationAborted",
    "Fix",
    "InputError",
    "InternalError",
    "LimitError",
    "OperandError",
    "ParseError",
    "RegoError",
    "render",
    "render_all",
]

PARSE_ERROR: Final = "rego_parse_error"
COMPILE_ERROR: Final = "rego_compile_error"
TYPE_ERROR: Final = "rego_type_error"
UNSAFE_VAR_ERROR: Final = "rego_unsafe_var_error"
RECURSION_ERROR: Final = "rego_recursion_error"

BUILTIN_ERROR: Final = "eval_builtin_error"
CANCEL_ERROR: Final = "eval_cancel_error"
CONFLICT_ERROR: Final = "eval_conflict_error"
EVAL_TYPE_ERROR: Final = "eval_type_error"
INPUT_ERROR: Final = "eval_input_error"
"""The code of errors in the input, which OPA does not have: its input is JSON when it is
evaluated.
"""
INTERNAL_ERROR: Final = "eval_internal_error"
LIMIT_ERROR: Final = "eval_limit_error"
"""The code of errors about limits on evaluation that OPA does not have."""


@record
class Details:
    """Details of an error besides its message: `lines` for people, `data` for JSON."""

    lines: tuple[str, ...]
    data: Mapping[str, object]


@record
class Fix:
    """The edit that a hint proposes: `text` replaces the text of the source between two offsets."""

    start: int
    end: int
    text: str


@record
class Diagnostic:
    """One error or warning: OPA's `code` and `message`, its position, and a hint. `details` and
    `fix` do not count for equality.
    """

    code: str
    message: str
    span: Span = NOWHERE
    hint: str | None = None
    details: Details | None = field(default=None, compare=False)
    fix: Fix | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """Return OPA's form, `file:row: code: message`, with the details on lines of their own."""
        position = f"{self.span}: " if self.span.row or self.span.file else ""
        more = self.details.lines if self.details is not None else ()
        return "\n\t".join([f"{position}{self.text}", *more])

    @property
    def text(self) -> str:
        """The code and the message, `code: message`; only the message without a code."""
        return f"{self.code}: {self.message}" if self.code else self.message


def render(diagnostic: Diagnostic) -> str:
    """Return a diagnostic as text for people: position, code and message, the source line with a
    caret, the details and the hint, each if there is one. A query is named `<query>`.
    """
    span = diagnostic.span
    position = f"{span.file}:0: " if span.file else ""
    if span.row:
        position = f"{span.file or '<query>'}:{span.row}:{span.col}: "
    lines = [f"{position}{diagnostic.text}"]
    if span.row:
        lines += _snippet(span)
    if diagnostic.details is not None:
        lines += [f"    {line}" for line in diagnostic.details.lines]
    if diagnostic.hint:
        lines.append(f"hint: {diagnostic.hint}")
    return "\n".join(lines)


def render_all(diagnostics: Iterable[Diagnostic]) -> str:
    """Return several diagnostics as text for people, one below the other in their order; a hint
    that an earlier one has is left out.
    """
    hints: set[str] = set()
    lines = []
    for each in diagnostics:
        # One hint often explains many errors.
        lines.append(render(each if each.hint not in hints else replace(each, hint=None)))
        hints |= {each.hint} if each.hint is not None else set()
    return "\n".join(lines)


def _snippet(span: Span) -> list[str]:
    """Return the source line of a span and a line with a caret below it. For a span at the end of
    the text, this is the last line with code. [] if there is none, or the line is empty.
    """
    row, start, text = span.row, span.start, span.source.line(span.row)
    if not text.strip() and span.start >= len(span.source.text.rstrip()):
        rows = span.source.text.split("\n")
        coded = (n for n in range(len(rows), 0, -1) if rows[n - 1].split("#")[0].strip())
        row = next(coded, 0)
        text = span.source.line(row).rstrip()
        start = sum(len(each) + 1 for each in rows[: row - 1]) + len(text)
    if not text:
        return []
    number = str(row)
    first = span.source.text.rfind("\n", 0, start) + 1
    # Tabs are kept, so that the caret stands below its column whatever their width.
    lead = "".join("\t" if c == "\t" else " " for c in text[: start - first])
    width = max(1, min(span.end - start, len(text) - len(lead)))
    return [f" {number} | {text}", f" {' ' * len(number)} | {lead}{'^' * width}"]


class RegoError(Exception):
    """A policy or query cannot be compiled or evaluated; `diagnostics` says why."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        """Return OPA's text for a list of errors, which begins with their number."""
        lines = [str(d) for d in self.diagnostics]
        if len(lines) == 1:
            return f"1 error occurred: {lines[0]}"
        return f"{len(lines)} errors occurred:\n" + "\n".join(lines)

    def render(self) -> str:
        """Return every diagnostic for people, with its source line and hint."""
        return render_all(self.diagnostics)


class ParseError(RegoError):
    """The text is not valid Rego."""


class CompileError(RegoError):
    """The modules cannot be compiled; it has every diagnostic found, parse errors included."""


class EvalError(RegoError):
    """An evaluation ended with an error. Its one diagnostic has OPA's code and message, and the
    place in the policy.
    """

    def __init__(
        self, code: str, message: str, span: Span = NOWHERE, hint: str | None = None
    ) -> None:
        super().__init__((Diagnostic(code, message, span, hint),))

    @property
    def code(self) -> str:
        return self.diagnostics[0].code

    @property
    def message(self) -> str:
        return self.diagnostics[0].message

    @property
    def span(self) -> Span:
        return self.diagnostics[0].span

    def __str__(self) -> str:
        return str(self.diagnostics[0])


class InputError(RegoError, TypeError, ValueError):
    """The input or data contains a value that Rego does not have, such as a tuple or bytes. No
    policy is evaluated with it.
    """

    def __init__(self, message: str) -> None:
        super().__init__((Diagnostic(INPUT_ERROR, message),))

    def __str__(self) -> str:
        return self.diagnostics[0].message


class InternalError(RegoError):
    """A fault of Doorward, not of the policy."""


class BuiltinError(Exception):
    """Raised by the implementation of a built-in; the caller adds the name and the position.
    Without strict errors the expression becomes undefined; with them, `EvalError` is raised.
    """

    code: str = BUILTIN_ERROR


class OperandError(BuiltinError):
    """An operand of a built-in has the wrong kind or value; OPA's code for this is
    eval_type_error.
    """

    code = EVAL_TYPE_ERROR


class EvaluationAborted(Exception):
    """Raised by a built-in to end the evaluation, with strict errors or without; its text is the
    complete message. It is not a `BuiltinError`, so that no handler of those catches it and
    continues.
    """

    code: str = BUILTIN_ERROR
    hint: str | None = None
    """A hint for people who run the policy themselves; it is never logged or sent."""


class LimitError(EvaluationAborted):
    """A built-in exceeded a limit of Doorward where OPA has no limit and gives an answer. It ends
    the evaluation: if the expression became undefined, `not` would take that for false.
    """

    code = LIMIT_ERROR


CALL_ERRORS: Final = (BuiltinError, EvaluationAborted)
"""The exceptions that a call of a built-in may raise."""
