"""Programs with what the real OPA answered, and the rules by which ours may differ."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from tests.corpora import GOLDEN, MUTANTS
from tests.corpora import rows as read_rows
from tests.differences import load

from doorward.rego import UNDEFINED, Engine, from_python, to_json, to_python
from doorward.rego.errors import RegoError
from doorward.rego.numbers import parse_number

__all__ = ["DIFFERENCES", "PARTS", "SETS", "fault", "part_of", "rows"]

PARTS: Final = {
    "language": 20, "negation": 4, "heads": 2, "with": 2, "schema-meta": 1, "mutants": 14,
}  # fmt: skip
"""The recorded sets that are compared, and in how many parts; tests/data/README.md has them."""

SETS: Final = tuple(PARTS)

DIFFERENCES: Final = load("language")
_DECODE = json.JSONDecoder(parse_int=parse_number, parse_float=parse_number).decode

Row = dict[str, Any]


@cache
def rows(name: str) -> list[Row]:
    """The recorded programs of a set; of the mutants none where they are not here."""
    file = MUTANTS if name == "mutants" else GOLDEN / f"{name}.jsonl.gz"
    return list(read_rows(file, _DECODE)) if file.is_file() else []


def part_of(name: str, part: int) -> list[Row]:
    """One of the parts of a set: programs that were asked several queries follow each other."""
    programs, parts = rows(name), PARTS[name]
    return programs[len(programs) * part // parts : len(programs) * (part + 1) // parts]


def fault(row: Row, answer: Callable[[Row], list[dict[str, Any]]] | None = None) -> str | None:
    """How the engine's answer, or that of `answer`, differs from OPA's; None if it does not."""
    error = row.get("error")
    try:
        results = (answer or _answer)(row)
    except RegoError as raised:
        diagnostic = raised.diagnostics[0]
        if error is None:
            return f"error where OPA has none: {diagnostic}"
        codes = {e.get("code") for e in row.get("errors", (error,))}
        if (
            error.get("code") not in (None, "panic", diagnostic.code)
            and diagnostic.code not in codes
        ):
            return f"other code: want {error}, got {diagnostic}"
        wanted = [e["message"] for e in row.get("errors", (error,))]
        if not any(_same_text(text, diagnostic.message) for text in wanted):
            return f"other message: want {error}, got {diagnostic}"
        return None
    if error is not None:
        return f"no error: want {error}, got {results}"
    given, want = to_json(from_python(results)), to_json(row["result"])
    return None if given == want else f"other result: want {want}, got {given}"


class _Engines:
    """The engine of the last program, for the queries that follow each other."""

    def __init__(self) -> None:
        self._program: tuple[Any, ...] = ()
        self._engine = Engine()

    def of(self, row: Row) -> Engine:
        modules, data, v0 = row.get("modules", {}), row.get("data", {}), bool(row.get("v0"))
        program = modules, repr(data), v0  # of Python's values 1 and True are equal
        if program != self._program:
            self._engine = Engine(modules, data, v0=v0)
            self._program = program
        return self._engine


_ENGINES: Final = _Engines()


def _answer(row: Row) -> list[dict[str, Any]]:
    engine = _ENGINES.of(row)
    query = engine.prepare(row["query"], strict_builtin_errors=bool(row.get("strict")))
    now = int(row["now_ns"]) if "now_ns" in row else None
    input_ = row.get("input", UNDEFINED)
    if query.variables:
        return query.results(input_, now_ns=now)
    return [{"": to_python(actual[-1])} for actual in query.rows(input_, now_ns=now)]


def _same_text(want: str, got: str) -> bool:
    first = want.partition("\n")[0]
    return re.sub(r"__local\d+__", "_", first) == re.sub(
        r"__local\d+__", "_", got.partition("\n")[0]
    )
