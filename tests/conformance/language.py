"""Programs with what the real OPA answered, and the rules by which ours may differ."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from doorward.rego import UNDEFINED, Engine, from_python, to_json, to_python
from doorward.rego.errors import RegoError
from doorward.rego.numbers import parse_number

__all__ = ["DIFFERENCES", "FILE", "Difference", "fault", "rows"]

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT / os.environ.get("DOORWARD_SHARED", "../shared")
FILE: Final = SHARED / "data" / "golden" / "language.jsonl.gz"
_DECODE = json.JSONDecoder(parse_int=parse_number, parse_float=parse_number).decode

Row = dict[str, Any]


def rows() -> dict[str, list[Row]]:
    """The recorded programs by group; {} where the data is missing."""
    found: dict[str, list[Row]] = {}
    if FILE.is_file():
        with gzip.open(FILE, "rt", encoding="utf-8") as lines:
            for line in lines:
                row = _DECODE(line)
                found.setdefault(row["group"], []).append(row)
    return found


def fault(row: Row) -> str | None:
    """How our answer differs from the recorded one; None when it does not."""
    error = row.get("error")
    try:
        results = _answer(row)
    except RegoError as raised:
        found = raised.diagnostics[0]
        if error is None:
            return f"error where OPA has none: {found}"
        codes = {e.get("code") for e in row.get("errors", (error,))}
        if error.get("code") not in (None, "panic", found.code) and found.code not in codes:
            return f"other code: want {error}, got {found}"
        wanted = [e["message"] for e in row.get("errors", (error,))]
        if not any(_same_text(text, found.message) for text in wanted):
            return f"other message: want {error}, got {found}"
        return None
    if error is not None:
        return f"no error: want {error}, got {results}"
    given, want = to_json(from_python(results)), to_json(row["result"])
    return None if given == want else f"other result: want {want}, got {given}"


def _answer(row: Row) -> list[dict[str, Any]]:
    engine = Engine(row.get("modules", {}), row.get("data", {}), v0=bool(row.get("v0")))
    query = engine.prepare(row["query"], strict_builtin_errors=bool(row.get("strict")))
    now = int(row["now_ns"]) if "now_ns" in row else None
    input_ = row.get("input", UNDEFINED)
    if query.variables:
        return query.results(input_, now_ns=now)
    return [{"": to_python(found[-1])} for found in query.rows(input_, now_ns=now)]


def _same_text(want: str, got: str) -> bool:
    first = want.partition("\n")[0]
    return re.sub(r"__local\d+__", "_", first) == re.sub(
        r"__local\d+__", "_", got.partition("\n")[0]
    )


@dataclass(frozen=True)
class Difference:
    """Rows of `groups` whose `fault` matches may differ, for `reason`."""

    groups: str
    fault: str
    reason: str
    applies: Callable[[Row], bool] = lambda row: True

    def may_concern(self, row: Row) -> bool:
        return re.fullmatch(self.groups, row["group"]) is not None and self.applies(row)

    def covers(self, row: Row, found: str) -> bool:
        return self.may_concern(row) and re.search(self.fault, found, re.DOTALL) is not None


def _large(row: Row) -> bool:
    """Numbers past 64 bits in the program or its recorded answer."""
    return (
        re.search(r"\d{19}|e(?:[2-9]\d|1\d\d|400)", row["query"] + str(row.get("result")))
        is not None
    )


def _is_error(code: str) -> Callable[[Row], bool]:
    return lambda row: row.get("error", {}).get("code") == code


def _replaces_by_function(row: Row) -> bool:
    text = "".join(row.get("modules", {}).values())
    return re.search(r"with [\w.\[\]]+ as (?:data\.t\.)?(?:f|g|g2)\b", text) is not None


DIFFERENCES: Final[tuple[Difference, ...]] = (
    Difference(
        "arith",
        "other result|no error",
        "integers are exact at any size; OPA rounds them to 64 bits of mantissa",
        _large,
    ),
    Difference(
        "arith|to_number",
        "other result|no error",
        "a number written as `.5` or `01` leaves as valid JSON; OPA cannot encode it",
        lambda row: "json.marshal" in row["query"],
    ),
    Difference(
        "with",
        "other message: .*http.send",
        "what is wrong with a URL is said in the words of httpx, not of Go's client",
    ),
    Difference(
        "random",
        "other message|other code|no error",
        "OPA panics on `in` with a composite value bound to a variable",
        _is_error("panic"),
    ),
    Difference(
        "inputs",
        "other message: .*conflicting rules",
        "a rule's open place is named as it was written, not by a generated variable",
    ),
    Difference(
        "random",
        "other message: .*rego_recursion_error.*rego_recursion_error",
        "of several ways round a cycle another is named, by the names as written",
        _is_error("rego_recursion_error"),
    ),
    Difference(
        "random",
        "other message: .*eval_",
        "of several errors another comes first: an order of evaluation that OPA does not promise",
        lambda row: row.get("error", {}).get("code", "").startswith("eval_"),
    ),
    Difference(
        "random",
        "other result",
        "OPA takes `if { not true }` for true where the head holds a call",
        lambda row: "if { not true }" in "".join(row["modules"].values()),
    ),
    Difference(
        "undefined",
        "other result",
        "what an operand of a negated call asks for belongs under the negation",
        lambda row: "not object.get" in "".join(row["modules"].values()),
    ),
    Difference(
        "with",
        "other result|no error",
        "a function is no value: it makes a replaced document undefined; OPA puts the name there",
        _replaces_by_function,
    ),
    Difference(
        "packages",
        "no error",
        "data beside a rule of the same path is a matter of whoever loads both (doorward.pdp)",
    ),
)
