"""Hints for errors of the parser, from spellings of other languages.

OPA's messages say which token was not expected. The text around an error often shows what the
author meant, and how to change it. Only texts that the parser refused come here, and only the line
of an error is searched, up to a limit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Final, NamedTuple

from doorward.rego.errors import Diagnostic, Fix
from doorward.rego.source import Source, Span
from doorward.rego.syntax.habits import HABITS, Habit
from doorward.rego.syntax.keywords import FUTURE_KEYWORDS
from doorward.rego.syntax.lexer import BRACKETS, Lexer, Token, loose_tokens

__all__ = ["add_hints"]

MAX_LINE: Final = 500
"""The most characters of a line that are searched on either side of an error."""
MAX_TEXT: Final = 1 << 16
"""The most characters of a text, after the last statement, in which brackets are counted; a longer
one gets no hint about them.
"""

_NEAR: Final = 2
"""The most characters between a wrong spelling and the place where the parser reported the error.
"""


class _Hint(NamedTuple):
    """The text of a hint, and the edit that it proposes; None if there is none."""

    text: str
    fix: Fix | None = None


class _ErrorContext(NamedTuple):
    """The line of an error with the content of strings and comments blanked out, and the index `at`
    of the error in it.
    """

    source: Source
    line: str
    at: int
    first: int
    """The offset of the line's first searched character in the source."""

    def fix(self, start: int, end: int, text: str) -> Fix:
        """Return the edit that replaces the characters from `start` to `end` of the line by
        `text`.
        """
        return Fix(self.first + start, self.first + end, text)

    def text(self, start: int, end: int) -> str:
        """Return the source from `start` to `end` of the line."""
        return self.source.text[self.first + start : self.first + end]


_HIDDEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|`[^`]*`|#.*')
_SEMICOLON: Final = "`;` separates two conditions of a line: leave it out at the end"
_LIST: Final = re.compile(r'non-terminated object$|expected "," or')
_CLOSED: Final = re.compile(r"unexpected (?:eof|[)\]}]) token")
_WORD: Final = re.compile(r"\b[A-Za-z_]+\b(?=\s+[\w\"`\[{(])")
_LONG_KEYWORDS: Final = ("contains", "default", "else", "every", "import", "package", "some")

_BY_MESSAGE: Final = tuple(
    (re.compile(pattern), hint)
    for pattern, hint in (
        (
            r"^illegal escape sequence",
            r"write `\\` for a backslash in double quotes; backquotes take it as it is: `\d+`",
        ),
        (r"^expected fraction", "digits follow the point of a number: `1.0`"),
        (r"^illegal number format", "numbers are decimal: `16`, `1.5`, `1e3`"),
        (r"expected else value term", "the value of `else` stands after `:=`: `else := value`"),
        (r"^package expected", "a policy begins with `package name`"),
        (r"^empty module", "a policy begins with `package name`"),
    )
)

_LIMITS: Final = {
    "operators follow each other": (
        'write a collection: `x in {a, b}`, `sum([a, b])`, `concat("", [a, b])`'
    ),
    "else branches follow each other": (
        "look the value up in an object: `object.get(values, key, default)`"
    ),
}
"""Hints by the end of the messages that are not OPA's: the limits of this parser. They come before
the others: a text of this length has something of each habit that these look for.
"""


def add_hints(
    source: Source, errors: Sequence[Diagnostic], statement: int | None = 0
) -> list[Diagnostic]:
    """Return `errors` with hints and fixes where possible; the same hint is given once per line. If
    none has one, the last error may get a hint about an unbalanced bracket, searched from
    `statement` on, the offset of the last statement; None: it is not searched.
    """
    hinted: set[tuple[int, str]] = set()
    result = []
    for error in errors:
        hint = _hint(error, _context_of(source, error.span))
        # OPA reports several errors for one mistake: one hint for them is enough.
        if hint is not None and (error.span.row, hint.text) not in hinted:
            hinted.add((error.span.row, hint.text))
            error = replace(error, hint=hint.text, fix=hint.fix)
        result.append(error)
    return result if hinted or statement is None else _add_bracket(source, result, statement)


def _hint(error: Diagnostic, context: _ErrorContext) -> _Hint | None:
    """Return the first hint that applies to a parse error, the surest kind first: limits, imports,
    habits of other languages, keywords, heads, separators, messages; None if none does.
    """
    return (
        # From the surest hint to the vaguest. A habit comes before the messages: OPA's text names
        # the token that was not expected, which is often behind the mistake.
        _of_limit(error)
        or _of_import(error)
        or _of_habit(context)
        or _of_keyword(error, context)
        or _of_head(error, context)
        or _of_separator(error, context)
        or _of_message(error, context)
    )


def _context_of(source: Source, span: Span) -> _ErrorContext:
    """Return the line of a span, up to `MAX_LINE` characters on either side, with strings and
    comments blanked out, and the index of the span in it.
    """
    text = source.text
    first = max(text.rfind("\n", 0, span.start) + 1, span.start - MAX_LINE)
    end = text.find("\n", span.start)
    last = min(len(text) if end < 0 else end, span.start + MAX_LINE)
    return _ErrorContext(source, _HIDDEN.sub(_blank, text[first:last]), span.start - first, first)


def _blank(match: re.Match[str]) -> str:
    """Return as many blanks in place of a comment or of the inside of a string."""
    hidden = match.group()
    if hidden.startswith("#"):
        return " " * len(hidden)
    # INVARIANT: the length stays the same, since fixes are offsets into the source.
    return hidden[0] + " " * (len(hidden) - 2) + hidden[-1]


def _of_limit(error: Diagnostic) -> _Hint | None:
    """Return the hint for a policy with too many operators or `else` branches in sequence
    (`_LIMITS`); None for other errors.
    """
    for end, hint in _LIMITS.items():
        if error.message.endswith(end):
            return _Hint(hint)
    return None


def _of_habit(context: _ErrorContext) -> _Hint | None:
    """Return the hint for a spelling of another language within `_NEAR` characters of the error;
    None if there is none.
    """
    for habit in HABITS:
        for match in habit.pattern.finditer(context.line):
            if match.start() - _NEAR <= context.at <= match.end() + _NEAR - 1:
                return _Hint(habit.hint, _habit_fix(habit, match, context))
    return None


def _habit_fix(habit: Habit, match: re.Match[str], context: _ErrorContext) -> Fix | None:
    """Return the edit that a habit proposes for a match. None if it proposes none or only for an
    indented line, which this is not, or if the group for `{1}` did not match.
    """
    if habit.fix is None or (habit.only_indented and not context.line[:1].isspace()):
        return None
    group = "cut" if "cut" in habit.pattern.groupindex else 0
    if "{1}" not in habit.fix:
        return context.fix(*match.span(group), habit.fix)
    if match[1] is None:
        return None
    return context.fix(*match.span(group), habit.fix.replace("{1}", context.text(*match.span(1))))


def _of_keyword(error: Diagnostic, context: _ErrorContext) -> _Hint | None:
    """Return a hint, with a fix, for a word in the line that is almost a keyword, if the error says
    that one was expected; None otherwise.
    """
    if not re.search("unexpected if keyword|for rule name|package expected", error.message):
        return None
    for match in _WORD.finditer(context.line):
        near = get_close_matches(match[0], _LONG_KEYWORDS, 1, 0.8)
        if near and near[0] != match[0]:
            return _Hint(f"did you mean `{near[0]}`?", context.fix(*match.span(), near[0]))
    return None


def _of_import(error: Diagnostic) -> _Hint | None:
    """Return a hint, with a fix, for the import of a misspelt keyword, if one is similar, or of a
    path that does not begin with a root such as `data`, to which `data.` is added; None for other
    errors.
    """
    span, path = error.span, error.span.text
    if "unexpected keyword, must be one of" in error.message:
        last = path.rpartition(".")[2]
        near = get_close_matches(last, sorted(FUTURE_KEYWORDS), 1, 0.6)
        if near:
            text = f"did you mean `future.keywords.{near[0]}`?"
            return _Hint(text, Fix(span.end - len(last), span.end, near[0]))
    elif "unexpected import path, must begin with" in error.message:
        text = f"policies and data are imported below `data`: `import data.{path}`"
        return _Hint(text, Fix(span.start, span.start, "data."))
    return None


def _of_head(error: Diagnostic, context: _ErrorContext) -> _Hint | None:
    """Return a hint for a rule head of Rego v0 without the keywords of v1, with a fix if the brace
    or the key follows on its line; None for other errors.
    """
    if error.message.startswith("`if` keyword is required"):
        brace = context.line.find("{", context.at)
        return _Hint(
            "write `if` before the body: `allow if { … }`; a policy of Rego v0 is rewritten by "
            "`doorward fmt --v0-v1 -w`, and read as it is with --v0-compatible",
            context.fix(brace, brace, "if ") if brace >= 0 else None,
        )
    if error.message.startswith("`contains` keyword is required"):
        key = re.compile(r"\[\s*([\w.]+)\s*\]").search(context.line, context.at)
        return _Hint(
            "write `contains`: `deny contains message if { … }`",
            context.fix(*key.span(), f" contains {key[1]}") if key else None,
        )
    return None


def _of_separator(error: Diagnostic, context: _ErrorContext) -> _Hint | None:
    """Return a hint, with an edit that fixes it, for a parse error at a comma between conditions, a
    superfluous semicolon, or a place where a comma between items seems to be missing; None for
    other errors.
    """
    message, at = error.message, context.at
    before, after = context.line[:at].rstrip(), context.line[at + 1 :].strip()
    if message.startswith("unexpected , token: expected \\n or ;"):
        text = "write each condition on its own line, or `;` between them"
        return _Hint(text, context.fix(at, at + 1, ";" if after else ""))
    stripped = context.source.text.rstrip()
    if message.startswith("unexpected ; token") or before.endswith(";"):
        end = at + 1 if message.startswith("unexpected ; token") else len(before)
        return _Hint(_SEMICOLON, context.fix(end - 1, end, ""))
    if message.startswith("unexpected eof") and stripped.endswith(";"):
        return _Hint(_SEMICOLON, Fix(len(stripped) - 1, len(stripped), ""))
    within = before or context.line[:1].isspace()
    if within and _LIST.search(message) and not _CLOSED.match(message):
        end = len(context.source.text[: context.first + at].rstrip())
        return _Hint("a comma is missing before this", Fix(end, end, ","))
    return None


def _of_message(error: Diagnostic, context: _ErrorContext) -> _Hint | None:
    """Return the hint that belongs to the message of a parse error, without an edit except where an
    `if` seems to be missing; None if there is none.
    """
    message = error.message
    for pattern, hint in _BY_MESSAGE:
        if pattern.search(message):
            return _Hint(hint)
    before = context.line[: context.at].strip()
    if message == "non-terminated string":
        if context.line[context.at : context.at + 1] == "`":
            return _Hint("the closing backquote of this string is missing")
        return _Hint(
            "the closing quote is missing here; write a string of several lines in backquotes"
        )
    if message.startswith("unexpected if keyword") and not before:
        return _Hint("a rule begins with its name: `allow if { … }`; a condition needs no `if`")
    if re.search("for rule name$|conflicts with built-in|for rule head$", message):
        return _of_condition(context, before)
    return None


def _of_condition(context: _ErrorContext, before: str) -> _Hint | None:
    """Return a hint for an expression in the place of a rule. `before` is the text before it in the
    line; only if there is any, the hint has a fix. None if nothing is likely.
    """
    if before:
        text = "`if` is missing before this condition, or a line break"
        return _Hint(text, context.fix(context.at, context.at, "if "))
    if context.line[:1].isspace():
        return _Hint("write a body of several conditions in braces: `if { … }`")
    if re.match(r"[A-Za-z_]\w*\s+[\w\"\[{(]", context.line):
        return None
    return _Hint("a policy consists of rules: `name := value`, `name if { … }`")


def _add_bracket(source: Source, errors: list[Diagnostic], statement: int) -> list[Diagnostic]:
    """Return `errors`, the last of them with a hint about an unbalanced bracket if there is one
    between `statement` and the error; unchanged if the text from `statement` on is longer than
    `MAX_TEXT`.
    """
    if not errors or len(source.text) - statement > MAX_TEXT:
        return errors
    hint = _of_brackets(source, errors[-1].span, statement)
    return [*errors[:-1], replace(errors[-1], hint=hint)] if hint else errors


def _of_brackets(source: Source, span: Span, statement: int) -> str | None:
    """Return a hint about the bracket between the offset `statement` and `span` that is not closed
    or closes another one; None if all up to `span` are balanced.
    """
    opened: list[Token] = []
    lexer = Lexer(source)
    for token in loose_tokens(lexer, lexer.after(statement)):
        if token.kind in BRACKETS:
            opened.append(token)
        elif token.kind in BRACKETS.values():
            if opened and BRACKETS[opened[-1].kind] == token.kind:
                opened.pop()
            elif token.start <= span.start:
                return _unmatched_text(token, opened, lexer)
            else:
                break
    # What is closed in a wrong order was told above; the innermost is the likeliest.
    return _unclosed_text(opened[-1], lexer) if opened and opened[-1].start <= span.start else None


def _unmatched_text(token: Token, opened: Sequence[Token], lexer: Lexer) -> str:
    """Return the hint for a closing bracket that does not match the last one in `opened`, or has
    none to close because `opened` is empty.
    """
    if opened:
        return f"`{token.kind}` does not close {_token_and_row(opened[-1], lexer)}"
    return f"nothing is open that `{token.kind}` could close"


def _unclosed_text(token: Token, lexer: Lexer) -> str:
    return f"{_token_and_row(token, lexer)} is not closed"


def _token_and_row(token: Token, lexer: Lexer) -> str:
    return f"the `{token.kind}` of row {lexer.span(token.start, token.end).row}"
