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
"""Ours: OPA's input is JSON by then."""
INTERNAL_ERROR: Final = "eval_internal_error"
LIMIT_ERROR: Final = "eval_limit_error"
"""Ours: OPA does not bound what an evaluation makes."""


@record
class Details:
    """Details of an error besides its message: `lines` for people, `data` for JSON."""

    lines: tuple[str, ...]
    data: Mapping[str, object]


@record
class Fix:
    """The edit that a hint proposes: `text` in the source in place of the text between two
    offsets."""

    start: int
    end: int
    text: str


@record
class Diagnostic:
    """One finding: OPA's `code` and `message`, where, and what to do about it."""

    code: str
    message: str
    span: Span = NOWHERE
    hint: str | None = None
    details: Details | None = field(default=None, compare=False)
    fix: Fix | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """OPA's form, `file:row: code: message`, its details on lines of their own."""
        position = f"{self.span}: " if self.span.row or self.span.file else ""
        more = self.details.lines if self.details is not None else ()
        return "\n\t".join([f"{position}{self.text}", *more])

    @property
    def text(self) -> str:
        """Code and message."""
        return f"{self.code}: {self.message}" if self.code else self.message


def render(diagnostic: Diagnostic) -> str:
    """Format a diagnostic for people: position, code, message, the source line with a caret, the
    hint.
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
    """Format several diagnostics for people; the same hint is shown once."""
    said: set[str] = set()
    lines = []
    for each in diagnostics:
        lines.append(render(each if each.hint not in said else replace(each, hint=None)))
        said |= {each.hint} if each.hint is not None else set()
    return "\n".join(lines)


def _snippet(span: Span) -> list[str]:
    """Return the source line of a span with a caret; at the end of a text its last line with
    code.
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
    lead = "".join("\t" if c == "\t" else " " for c in text[: start - first])
    width = max(1, min(span.end - start, len(text) - len(lead)))
    return [f" {number} | {text}", f" {' ' * len(number)} | {lead}{'^' * width}"]


class RegoError(Exception):
    """A policy or query that cannot be compiled or evaluated; `diagnostics` says why."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        """OPA's text for a list of errors."""
        lines = [str(d) for d in self.diagnostics]
        if len(lines) == 1:
            return f"1 error occurred: {lines[0]}"
        return f"{len(lines)} errors occurred:\n" + "\n".join(lines)

    def render(self) -> str:
        """Every diagnostic with its source line, for people."""
        return render_all(self.diagnostics)


class ParseError(RegoError):
    """The text is not Rego."""


class CompileError(RegoError):
    """The modules do not make a program; carries every diagnostic found (parse errors too)."""


class EvalError(RegoError):
    """Evaluation stopped. One diagnostic: OPA's code, message and the place in the policy."""

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
    """Input or data that is not made of Rego values, such as a tuple or bytes.

    No policy can match it, so that none is asked.
    """

    def __init__(self, message: str) -> None:
        super().__init__((Diagnostic(INPUT_ERROR, message),))

    def __str__(self) -> str:
        return self.diagnostics[0].message


class InternalError(RegoError):
    """A fault of ours, never of the policy."""


class BuiltinError(Exception):
    """Raised by a built-in's body; the caller adds the name, the position and the consequence.

    Without strict errors the expression becomes undefined; with them, `EvalError`.
    """

    code: str = BUILTIN_ERROR


class OperandError(BuiltinError):
    """An operand of the wrong kind or value; OPA's code for these is eval_type_error."""

    code = EVAL_TYPE_ERROR


class EvaluationAborted(Exception):
    """Raised by a built-in's body to end the evaluation, strict or not; its text is the whole text.

    No `BuiltinError`, so that nobody on the way can take it for one and continue.
    """

    code: str = BUILTIN_ERROR
    hint: str | None = None
    """For people who run the policy themselves; never logged or sent."""


class LimitError(EvaluationAborted):
    """More than Doorward bounds a built-in to, where OPA has no bound and gives an answer.

    It ends the evaluation: were the expression undefined, `not` would take it for a no.
    """

    code = LIMIT_ERROR


CALL_ERRORS: Final = (BuiltinError, EvaluationAborted)
"""What a call of a built-in may raise."""
