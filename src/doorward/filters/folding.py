"""Built-ins that make a text of a text, as replacements that every database does alike.

    lower(column) == "ok"      replace(replace(column, 'O', 'o'), 'K', 'k') … = 'ok'

What a database calls lower case depends on its collation. Only the letters of the known text
matter: each letter that Rego makes one of them is replaced by it, and the text that this gives is
equal to the known one exactly where Rego's is. Other letters stay, and are in no known text.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from doorward.filters.conditions import fault
from doorward.filters.hints import MEMBERS
from doorward.rego.golang import lower, upper

__all__ = ["FUNCTIONS", "OBJECT_GET", "REPLACE", "TRIMS", "folding_of", "pairs_of"]

OBJECT_GET: Final = "object.get"
FUNCTIONS: Final = {
    "lower": 1,
    "upper": 1,
    "trim": 2,
    "trim_left": 2,
    "trim_right": 2,
    "trim_space": 1,
    "time.parse_rfc3339_ns": 1,
    "count": 1,
    OBJECT_GET: 3,
}
"""The built-ins on texts that a filter can use, with their number of operands."""
REPLACE: Final = "replace"
"""The name of the function in predicates whose `operand` is pairs of letters to replace."""
TRIMS: Final = frozenset({"trim", "trim_left", "trim_right"})
"""The functions in predicates whose `operand` is the letters to trim."""
MAX_LETTERS: Final = 64
"""At most this many letters are replaced to change the case of a text."""
LAST_CASED: Final = 0x1F000
"""The code point from which on no letter has two cases."""
# Go's unicode.IsSpace; Python's `str.strip` takes U+001C to U+001F as well.
_SPACES: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
    "\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
_CASES: Final = {"lower": lower, "upper": upper}


def folding_of(function: str, operand: str, text: str) -> tuple[str, str] | None:
    """Return the function of predicates, and its operand, that replace a built-in in a comparison
    of its result with `text`.

    `("lower", "", "ab")` -> `("replace", "AaBb")`, each letter before the one that replaces it.
    None if `lower` or `upper` never returns `text`; FilterError if too many letters have two cases.
    """
    if function == "trim_space":
        return "trim", _SPACES
    if function in TRIMS:
        return function, operand
    fold = _CASES[function]
    if fold(text) != text:
        return None
    letters = _letters(function)
    # In any order: what one replacement writes is folded already, and no other replaces it.
    pairs = "".join(
        [other + letter for letter in sorted(set(text)) for other in letters.get(letter, ())]
    )
    if len(pairs) > 2 * MAX_LETTERS:
        message = f"{function}: the known text has more than {MAX_LETTERS} letters with two cases"
        raise fault(message, MEMBERS)
    return REPLACE, pairs


def pairs_of(operand: str) -> list[tuple[str, str]]:
    """Return the pairs of letters to replace and their replacements: `"KkOo"` -> `[("K", "k"),
    ("O", "o")]`.
    """
    return list(zip(operand[::2], operand[1::2], strict=True))


@cache
def _letters(function: str) -> dict[str, list[str]]:
    """Return, by letter, the other letters that `function` (`lower` or `upper`) turns into it.

    Computed once for each function, for all letters of Unicode.
    """
    fold = _CASES[function]
    others: dict[str, list[str]] = {}
    for code in range(LAST_CASED):
        letter = chr(code)
        if not "\ud800" <= letter <= "\udfff" and (folded := fold(letter)) != letter:
            others.setdefault(folded, []).append(letter)
    return others
