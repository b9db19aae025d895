"""Spellings of other languages, each with Rego's own.

A habit is a pattern to search in the line of an error, a hint, and the text that replaces the match
of the pattern (or of its group `cut`); `{1}` in that text stands for the source text of group 1.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["HABITS", "Habit"]


class Habit(NamedTuple):
    """One spelling of another language. `pattern` is searched in the line of an error; `fix`
    replaces the match, None if there is no replacement.
    """

    pattern: re.Pattern[str]
    hint: str
    fix: str | None = None
    only_indented: bool = False
    """True if the fix applies only in an indented line, that is, inside a body."""


def _habit(
    pattern: str, hint: str, fix: str | None = None, *, only_indented: bool = False
) -> Habit:
    """Return a habit with its pattern compiled. `hint` is the text for an error near a match; `fix`
    is the text that replaces the match, None if there is none. With `only_indented` the fix, but
    not the hint, is only for indented lines.
    """
    return Habit(re.compile(pattern), hint, fix, only_indented)


_BINDS: Final = "a variable keeps its value: bind another one with `:=`"
_COMMENT: Final = "comments begin with `#`"
_SOME: Final = "Rego writes `some x in xs`"
_COMPARE: Final = "Rego compares with `==` and `!=`"

# The order matters, since the first match gives the hint: a longer spelling stands before one that
# is a part of it (`??` before `?`, `=!` before `!`, `is not` before `is`).
HABITS: Final = (
    # Operators
    _habit(
        # `(?<!\s)\s*+` tries each run of blanks once, from its first one: the search stays linear.
        r"(?<!\s)\s*+&&\s*",
        "`&&` is not Rego: put the conditions on lines of their own, all of them must hold",
        "; ",
        only_indented=True,
    ),
    _habit(r"\|\|", "`||` is not Rego: write the rule once for each alternative"),
    _habit(r"===", "`===` is not Rego: `==` compares", "=="),
    _habit(r"!==|<>|=!", "Rego writes `!=`", "!="),
    _habit(r"=<", "Rego writes `<=`", "<="),
    _habit(r"=>|->", "there are no arrows in Rego: `if` begins a body, `>=` compares"),
    _habit(r"!(?!=)\s*", "Rego writes `not` for `!`: `not input.x`", "not "),
    _habit(r"\?\.", "Rego needs no `?.`: a path with a missing key is undefined", "."),
    _habit(r"\?\?", "`??` is not Rego: `object.get(object, key, default)` has a default"),
    _habit(r"\?", "`? :` is not Rego: write a rule with `else`, or two rules"),
    _habit(r"\+\+|(?<=\s)--|[-+*/]=", _BINDS),
    # Quotes, blanks, comments
    _habit(r"'([^'\"#]*)'|'", "write strings in double quotes or backquotes", '"{1}"'),
    _habit('[“„«]([^“”„«»"#]*)[”“»]|[“”„‘’«»]', 'these are not plain quotes: write `"`', '"{1}"'),
    _habit(
        "[\u00a0\u2000-\u200b\u202f\u3000]",
        "this space is a special character, such as U+00A0: write an ordinary space",
        " ",
    ),
    _habit(r"//", _COMMENT, "#"),
    _habit(r"/\*|^\s*--", _COMMENT),
    # Statements
    _habit(
        r"\belse\s+if\b[^{]*\{",
        "`else if` takes one condition, or a body in braces: `else if { … }`",
    ),
    _habit(
        r"\b(?:elif|elseif|elsif)\b", "Rego writes `else if`, and `else := value if`", "else if"
    ),
    _habit(
        r"\breturn\b", "Rego has no `return`: write the value in the head, `name := value if { … }`"
    ),
    _habit(
        r"^\s*(?P<cut>(?:function|func|fun|fn|def|rule)\s+)[A-Za-z_].*",
        "rules and functions begin with their name: `name if { … }`, `f(x) := value if { … }`",
        "",
    ),
    _habit(
        r"\b(?:let|var|const|local|val)\s+",
        "`x := value` binds a variable, without a word before it",
        "",
    ),
    _habit(
        r"\b(?:for|foreach)\b",
        "Rego writes `some x in xs`, and `[x | some x in xs]` for a comprehension",
    ),
    _habit(r"\b(?P<cut>any|exists)\s+\w+(?:\s*,\s*\w+)?\s+in\b", _SOME, "some"),
    _habit(r"\bsome\s+\w+(?P<cut>\s*:|\s+of\b)", _SOME, " in"),
    _habit(
        r"\b(?P<cut>all|forall)\s+\w+(?:\s*,\s*\w+)?\s+in\b",
        "Rego writes `every x in xs { … }`",
        "every",
    ),
    _habit(r"\b(?:iff|ifs|fi)\b", "did you mean `if`?", "if"),
    _habit(
        r"\b(?:when|where|then|unless|while)\b",
        "`if` begins a body: write each further condition on its own line",
    ),
    _habit(
        r"(?<!\s)\s*+\band\b\s*",
        "put the conditions on lines of their own, all of them must hold; "
        "or `import future.keywords.and`",
        "; ",
        only_indented=True,
    ),
    _habit(r"\bor\b", "write the rule once for each alternative; or `import future.keywords.or`"),
    _habit(
        r"\b([A-Za-z_][\w.]*(?:\[[^\]]*\])*)\s+not\s+in\b",
        "Rego writes `not x in xs`",
        "not {1} in",
    ),
    _habit(r"\bis\s+not\b", _COMPARE, "!="),
    _habit(r"\bis\b", _COMPARE, "=="),
    _habit(
        r"(?<=\s)contains\s",
        "`x in xs` tests if a collection has a value, `contains(text, part)` if a text has a part",
    ),
    _habit(r"\b(?P<cut>null)\(", "`is_null(x)` tests for null", "is_null"),
    _habit(r"\b(?P<cut>[fF])(?=\")", 'a string with values in it is written `$"a {input.x}"`', "$"),
    _habit(
        r"\.([@$]\w*)", 'write a key that is not a name in brackets: `input["@type"]`', '["{1}"]'
    ),
    _habit(r"^\w+\s*(?P<cut>==)", "`:=` gives a rule its value, `==` compares", ":="),
    _habit(
        r"^\s*default\s+\w+(?P<cut>\s+)(?![:=\s])",
        "write the value of a default after `:=`: `default allow := false`",
        " := ",
    ),
)
"""Common mistakes from other languages; the first that matches near an error gives the hint."""
