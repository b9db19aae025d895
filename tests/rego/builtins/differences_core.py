"""The deliberate differences of operators, numbers, collections, strings, patterns and times."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from tests.rego.builtins.differences import Difference, Row

from doorward.rego.values import to_json

__all__ = ["CORE_DIFFERENCES", "QUERY_DIFFERENCES"]

_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_NUMERIC: Final = (
    r"plus|minus|mul|div|rem|abs|ceil|floor|round|bits\..*|sum|product|numbers\..*|format_int"
)


def _has_large_number(row: Row) -> bool:
    texts = _NUMBER.findall(to_json([row.get("input"), row.get("result")]) + row["query"])
    return any(abs(Fraction(text)) >= 1 << 63 for text in texts)


def _has_zero_result(row: Row) -> bool:
    return bool(row.get("result")) and row["result"][0]["x"] == 0


CORE_DIFFERENCES: Final = (
    Difference(
        _NUMERIC,
        "integers are exact at any size; OPA 1.18 rounds them to 64 bits, and newer ones no more",
        _has_large_number,
    ),
    Difference(
        "mul|product",
        "a product of integers is exact, and 0 has no sign; OPA 1.18 says -0 past 32 bits",
        _has_zero_result,
    ),
    Difference(
        "min",
        "null is the least value; OPA 1.18 overlooks it in sets only, and newer ones no more",
        lambda row: "null" in row["query"],
    ),
    Difference(
        "replace|strings.replace_n|strings.render_template",
        "a string is Unicode: what Go cuts into bytes that are no UTF-8 is U+FFFD",
        lambda row: "\\x" in row.get("repr", [""])[0],
    ),
    Difference(
        "regex.template_match",
        "OPA keeps templates and plain patterns in one cache, and so takes one for the other",
        lambda row: row["input"][:2] == ["a.b", "axb"],
    ),
    Difference(
        "glob.match",
        "OPA's library cuts characters outside ASCII before `?` and `[…]`, and misses the match",
        lambda row: (
            re.search(r"[?\[].*[^\x00-\x7f]|[^\x00-\x7f].*[?\[]", str(row["input"])) is not None
        ),
    ),
    Difference(
        "time.add_date",
        "a sum past 64 bits is out of range; in Go it comes round on the other side",
        lambda row: any(isinstance(n, int) and abs(n) > 1 << 62 for n in row["input"][1:]),
    ),
    Difference(
        "strings.render_template",
        "what is wrong with a template is said in our words, not in those of Go's library",
        message_only=True,
    ),
    Difference(
        "units.parse",
        "a unit is said as it was written; Go puts its bytes into small letters one by one",
        lambda row: "\ufffd" in row["error"]["message"],
        message_only=True,
    ),
    Difference(
        "sort",
        "equal numbers of different texts keep their order; Go's sort puts long arrays in any",
        lambda row: "1, 1.0" in to_json(row["result"]).replace(",", ", "),
    ),
    Difference(
        "json.patch",
        "OPA panics when the whole document is removed; an error here",
        lambda row: row.get("error", {}).get("code") == "panic",
    ),
)

QUERY_DIFFERENCES: Final = (
    Difference(
        "internal.member_3",
        "a member of a set is its own key, as in `some k, v in xs`; OPA 1.18 forgets sets here",
        lambda row: row["query"].endswith('{1, "a"}))'),
    ),
    Difference(
        "json.marshal",
        "integers are exact at any size",
        lambda row: "*" in row["query"] and _has_large_number(row),
    ),
)
