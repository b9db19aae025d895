"""What to write instead: hints for errors of the parser, from what other languages are used to.

OPA's messages say what was not expected. The text around an error often shows what was meant; each
`_Habit` is one such form. Only texts that have been refused come here, and only the line of an
error is looked at, up to a limit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Final, NamedTuple

from doorward.rego.errors import Diagnostic
from doorward.rego.source import Source, Span
from doorward.rego.syntax.cursor import FUTURE_KEYWORDS
from doorward.rego.syntax.lexer import BRACKETS, Lexer, Token, loose_tokens

__all__ = ["add_hints"]

MAX_LINE: Final = 500
"""Characters of a line that are looked at on either side of an error."""
MAX_TEXT: Final = 1 << 16
"""Characters of a text in which brackets are counted."""

_NEAR: Final = 2
"""How many characters may lie between what was written and where the parser gave up."""


class _Habit(NamedTuple):
    pattern: str
    hint: str


_HABITS: Final = tuple(
    (re.compile(pattern), hint)
    for pattern, hint in (
        _Habit(
            r"&&",
            "`&&` is not Rego: put the conditions on lines of their own, all of them must hold",
        ),
        _Habit(r"\|\|", "`||` is not Rego: write the rule once for each alternative"),
        _Habit(r"===", "`===` is not Rego: `==` compares"),
        _Habit(r"!==|<>|=!", "Rego writes `!=`"),
        _Habit(r"=<", "Rego writes `<=`"),
        _Habit(r"=>|->", "there are no arrows in Rego: `if` begins a body, `>=` compares"),
        _Habit(r"!(?!=)", "Rego writes `not` for `!`: `not input.x`"),
        _Habit("'", "Rego's strings stand in double quotes, or in backquotes"),
        _Habit("[“”„‘’«»]", 'these are not plain quotes: write `"`'),
        _Habit(
            "[\u00a0\u2000-\u200b\u202f\u3000]",
            "there is a blank here that is not plain, such as U+00A0: write a plain one",
        ),
        _Habit(r"\?\.", "Rego needs no `?.`: a path with a missing key is undefined"),
        _Habit(r"\?\?", "`??` is not Rego: `object.get(object, key, default)` has a default"),
        _Habit(r"\?", "`? :` is not Rego: write a rule with `else`, or two rules"),
        _Habit(r"//|/\*|^\s*--", "comments begin with `#`"),
        _Habit(r"\+\+|(?<=\s)--|[-+*/]=", "a variable keeps its value: bind another one with `:=`"),
        _Habit(
            r"\belse\s+if\b[^{]*\{",
            "`else if` takes one condition, or a body in braces: `else if { … }`",
        ),
        _Habit(r"\b(?:elif|elseif|elsif)\b", "Rego writes `else if`, and `else := value if`"),
        _Habit(
            r"\breturn\b", "a rule has its value in its head: `name := value if { … }`, no `return`"
        ),
        _Habit(
            r"^\s*(?:function|func|fun|fn|def|rule)\s+[A-Za-z_].*",
            "rules and functions begin with their name: `name if { … }`, `f(x) := value if { … }`",
        ),
        _Habit(r"\b(?:let|var|const|local|val)\b", "`x := value` binds a variable, nothing before"),
        _Habit(
            r"\b(?:for|foreach)\b",
            "Rego writes `some x in xs`, and `[x | some x in xs]` for a comprehension",
        ),
        _Habit(
            r"\b(?:any|exists)\s+\w+(?:\s*,\s*\w+)?\s+in\b|\bsome\s+\w+\s*(?::|\bof\b)",
            "Rego writes `some x in xs`",
        ),
        _Habit(
            r"\b(?:all|forall)\s+\w+(?:\s*,\s*\w+)?\s+in\b", "Rego writes `every x in xs { … }`"
        ),
        _Habit(r"\b(?:iff|ifs|fi)\b", "did you mean `if`?"),
        _Habit(
            r"\b(?:when|where|then|unless|while)\b",
            "`if` begins a body; further conditions stand on lines of their own",
        ),
        _Habit(
            r"\band\b",
            "put the conditions on lines of their own, all of them must hold; "
            "or `import future.keywords.and`",
        ),
        _Habit(
            r"\bor\b",
            "write the rule once for each alternative; or `import future.keywords.or`",
        ),
        _Habit(r"\bnot\s+in\b", "Rego writes `not x in xs`"),
        _Habit(r"\bis\b", "Rego compares with `==` and `!=`"),
        _Habit(
            r"(?<=\s)contains\s",
            "`x in xs` asks whether a collection holds a value, `contains(text, part)` a string",
        ),
        _Habit(r"\bnull\(", "`is_null(x)` asks for null"),
        _Habit(r"\b[fF](?=\")", 'a string with values in it is written `$"a {input.x}"`'),
        _Habit(r"\.[@$]", 'a key that is not a name stands in brackets: `input["@type"]`'),
        _Habit(r"^\w+\s*==", "`:=` gives a rule its value, `==` compares"),
        _Habit(
            r"^\s*default\s+\w+\s+(?![:=\s])",
            "a default has its value after `:=`: `default allow := false`",
        ),
    )
)

_HIDDEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|`[^`]*`|#.*')
_LIST: Final = re.compile(r'non-terminated object$|expected "," or')
_CLOSED: Final = re.compile(r"unexpected (?:eof|[)\]}]) token")
_WORD: Final = re.compile(r"\b[A-Za-z_]+\b(?=\s+[\w\"`\[{(])")
_LONG_KEYWORDS: Final = ("contains", "default", "else", "every", "import", "package", "some")

_SEMICOLON: Final = "`;` stands between two conditions of a line, not at its end"

_BY_MESSAGE: Final = tuple(
    (re.compile(pattern), hint)
    for pattern, hint in (
        (
            r"^`if` keyword is required",
            "write `if` before the body: `allow if { … }`; a policy of Rego v0 is rewritten by "
            "`doorward fmt --v0-v1 -w`, and read as it is with --v0-compatible",
        ),
        (r"^`contains` keyword is required", "write `contains`: `deny contains message if { … }`"),
        (
            r"^illegal escape sequence",
            r"write `\\` for a backslash in double quotes; backquotes take it as it is: `\d+`",
        ),
        (r"^expected fraction", "digits follow the point of a number: `1.0`"),
        (r"^illegal number format", "numbers are decimal: `16`, `1.5`, `1e3`"),
        (r"^unexpected ; token", _SEMICOLON),
        (r"expected else value term", "the value of `else` stands after `:=`: `else := value`"),
        (
            r"^unexpected , token: expected \\n or ;",
            "conditions stand on lines of their own, or `;` between them",
        ),
        (r"^package expected", "a policy begins with `package name`"),
        (r"^empty module", "a policy begins with `package name`"),
    )
)


def add_hints(
    source: Source, errors: Sequence[Diagnostic], statement: int | None = 0
) -> list[Diagnostic]:
    """`errors` with hints where there is something to say, of a line none twice.

    `statement` is where the last statement begins: brackets before it are closed. None: nothing is
    said of brackets.
    """
    said: set[tuple[int, str]] = set()
    result = []
    for error in errors:
        hint = error.hint or _hint(source, error)
        if hint is not None and (error.span.row, hint) not in said:
            said.add((error.span.row, hint))
            error = replace(error, hint=hint)
        result.append(error)
    return result if said or statement is None else _add_bracket(source, result, statement)


def _hint(source: Source, error: Diagnostic) -> str | None:
    line, at = _line(source, error.span)
    return (
        _of_import(error)
        or _of_habit(line, at)
        or _of_keyword(error, line)
        or _of_message(source, error, line, at)
    )


def _line(source: Source, span: Span) -> tuple[str, int]:
    """The line of an error without what strings and comments say, and where in it the error is."""
    text = source.text
    first = max(text.rfind("\n", 0, span.start) + 1, span.start - MAX_LINE)
    end = text.find("\n", span.start)
    last = min(len(text) if end < 0 else end, span.start + MAX_LINE)
    return _HIDDEN.sub(_blanked, text[first:last]), span.start - first


def _blanked(match: re.Match[str]) -> str:
    hidden = match.group()
    if hidden.startswith("#"):
        return " " * len(hidden)
    return hidden[0] + " " * (len(hidden) - 2) + hidden[-1]


def _of_habit(line: str, at: int) -> str | None:
    for pattern, hint in _HABITS:
        for match in pattern.finditer(line):
            if match.start() - _NEAR <= at <= match.end() + _NEAR - 1:
                return hint
    return None


def _of_keyword(error: Diagnostic, line: str) -> str | None:
    """A word of the line that is almost a keyword, where one was missed."""
    if not re.search("unexpected if keyword|for rule name|package expected", error.message):
        return None
    for word in _WORD.findall(line):
        near = get_close_matches(word, _LONG_KEYWORDS, 1, 0.8)
        if near and near[0] != word:
            return f"did you mean `{near[0]}`?"
    return None


def _of_import(error: Diagnostic) -> str | None:
    path = error.span.text
    if "unexpected keyword, must be one of" in error.message:
        near = get_close_matches(path.rpartition(".")[2], sorted(FUTURE_KEYWORDS), 1, 0.6)
        return f"did you mean `future.keywords.{near[0]}`?" if near else None
    if "unexpected import path, must begin with" in error.message:
        return f"policies and data are imported below `data`: `import data.{path}`"
    return None


def _of_message(source: Source, error: Diagnostic, line: str, at: int) -> str | None:
    message = error.message
    for pattern, hint in _BY_MESSAGE:
        if pattern.search(message):
            return hint
    before = line[:at].strip()
    ahead = source.text.rstrip() if message.startswith("unexpected eof") else before
    if ahead.endswith(";"):
        return _SEMICOLON
    if message == "non-terminated string":
        if line[at : at + 1] == "`":
            return "the closing backquote of this string is missing"
        return "the closing quote is missing in this line; a string of several lines stands in `…`"
    if message.startswith("unexpected if keyword") and not before:
        return "a rule begins with its name: `allow if { … }`; a condition needs no `if`"
    within = before or line[:1].isspace()
    if within and _LIST.search(message) and not _CLOSED.match(message):
        return "a comma is missing before this"
    if re.search("for rule name$|conflicts with built-in|for rule head$", message):
        return _of_condition(line, before)
    return None


def _of_condition(line: str, before: str) -> str | None:
    """Something that stands where a rule was expected, and is none."""
    if before:
        return "`if` is missing before this condition, or a line break"
    if line[:1].isspace():
        return "a body of several conditions stands in braces: `if { … }`"
    if re.match(r"[A-Za-z_]\w*\s+[\w\"\[{(]", line):
        return None
    return "a policy consists of rules: `name := value`, `name if { … }`"


def _add_bracket(source: Source, errors: list[Diagnostic], statement: int) -> list[Diagnostic]:
    """The last of `errors` with the bracket that has no other half, where there is one."""
    if not errors or len(source.text) - statement > MAX_TEXT:
        return errors
    hint = _of_brackets(source, errors[-1].span, statement)
    return [*errors[:-1], replace(errors[-1], hint=hint)] if hint else errors


def _of_brackets(source: Source, span: Span, statement: int) -> str | None:
    opened: list[Token] = []
    lexer = Lexer(source)
    for token in loose_tokens(lexer, lexer.after(statement)):
        if token.kind in BRACKETS:
            opened.append(token)
        elif token.kind in BRACKETS.values():
            if opened and BRACKETS[opened[-1].kind] == token.kind:
                opened.pop()
            elif token.start <= span.start:
                return _unmatched(token, opened, lexer)
            else:
                break
    # What is closed in a wrong order was told above; the innermost is the likeliest.
    return _unclosed(opened[-1], lexer) if opened and opened[-1].start <= span.start else None


def _unmatched(token: Token, opened: Sequence[Token], lexer: Lexer) -> str:
    if opened:
        return f"`{token.kind}` does not close {_named(opened[-1], lexer)}"
    return f"nothing is open that `{token.kind}` could close"


def _unclosed(token: Token, lexer: Lexer) -> str:
    return f"{_named(token, lexer)} is not closed"


def _named(token: Token, lexer: Lexer) -> str:
    return f"the `{token.kind}` of row {lexer.span(token.start, token.end).row}"
