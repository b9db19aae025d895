"""CPU of a filter that is not cached, next to the engine of OPA in the same process and run.

    python -m benchmarks.filters_against_opa [--rounds 40]

OPA's engine is the release that `requirements/opa-engine.txt` names; its library makes filters as
`POST /v1/compile/PATH` does. Both are given the same policy, the input as an object, and give the
text of a WHERE clause for PostgreSQL. They take turns; a figure is the least and the median of the
rounds in milliseconds of CPU, with the threads of Go's collector. `keyed` policies leave one rule
for the user, `open` ones leave all.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import process_time_ns
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.filters import COLUMNS
from doorward.filters import to_conditions, to_sql
from doorward.pdp import from_modules
from doorward.pdp.residuals import residual_of_rows
from doorward.rego import Engine
from fuzz.opa_engine import Library, library

SIZES: Final = (10, 100)
CALLS: Final = 10
"""Filters in one turn."""
INPUT: Final[Any] = {"user": {"role": "role7", "level": 3}}
QUERY: Final = "data.documents.include"
_KEYED: Final = """
include if {{
    input.user.role == "role{number}"
    input.docs.kind == "kind{number}"
    input.docs.level <= {level}
    input.docs.level != input.user.level
}}
"""
_OPEN: Final = """
include if {{
    input.user.level >= {least}
    input.docs.kind == "kind{number}"
    input.docs.level <= {level}
    input.docs.level != input.user.level
}}
"""
POLICIES: Final = {"keyed": _KEYED, "open": _OPEN}


def write_policy(shape: str, rules: int) -> str:
    """A policy with that many rules."""
    rule = POLICIES[shape]
    texts = [rule.format(number=n, level=n % 10, least=n % 3) for n in range(rules)]
    return "package documents\n" + "".join(texts)


class OpaFilters:
    """Filters of one policy, made by OPA's library."""

    def __init__(self, path: Path, policy: str) -> None:
        self._library = Library(str(path))
        self._handle = self._library.new()
        self._call("AddPolicy", b"documents.rego", policy.encode())

    def _call(self, name: str, *texts: bytes) -> Any:
        answer = json.loads(self._library.call(name, self._handle, *texts))
        if answer.get("error"):
            raise RuntimeError(f"{name} failed: {answer['error']}")
        return answer.get("result")

    def clause(self) -> str:
        """The WHERE clause for the input."""
        known = json.dumps(INPUT).encode()
        texts = (QUERY.encode(), known, b'["input.docs"]', b"sql", b"postgresql", b"", b"")
        text: str = self._call("CompileFilters", *texts)["query"]
        return text

    def close(self) -> None:
        """End the engine."""
        self._library.destroy(self._handle)


@dataclass(frozen=True, slots=True)
class Figures:
    """Milliseconds of CPU for one filter, of each round."""

    ours: list[float]
    opa: list[float]
    kept: list[float]
    """Of ours from the cache."""

    @property
    def ratio(self) -> float:
        """Our median as a part of OPA's."""
        return median(self.ours) / median(self.opa)


def cpu_of(run: Callable[[], object], calls: int = CALLS) -> float:
    """Milliseconds of CPU of one call; all threads of the process count."""
    gc.collect()
    started = process_time_ns()
    for _ in range(calls):
        run()
    return (process_time_ns() - started) / calls / 1e6


def compare(path: Path, shape: str, rules: int, rounds: int) -> Figures:
    """Make the filter of one policy in turns."""
    policy = write_policy(shape, rules)
    engine, opa = Engine({"documents.rego": policy}), OpaFilters(path, policy)

    def make() -> str:
        left = engine.partial(QUERY, ["input.docs"], INPUT, only_truth=True)
        return to_sql(to_conditions(left), COLUMNS, "postgresql").text

    point = from_modules({"documents.rego": policy})

    def read() -> object:
        pdp = point.pdp
        gate, path = pdp.build_gate, "documents/include"
        return residual_of_rows(pdp.snapshot, gate, path, ["input.docs"], INPUT)

    for run in (make, opa.clause, read):
        run()
    if make().count("kind") != opa.clause().count("kind"):
        raise RuntimeError("the two filters do not have the same conditions")
    figures = Figures([], [], [])
    for _ in range(rounds):
        figures.ours.append(cpu_of(make))
        figures.opa.append(cpu_of(opa.clause))
        figures.kept.append(cpu_of(read, 200))
    point.close()
    opa.close()
    return figures


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="CPU of a filter that is not cached, next to OPA")
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    path = library()
    print(f"{'policy':18} {'ours':>14} {'OPA':>14} {'ratio':>6} {'kept, us':>9}")
    for shape in POLICIES:
        for rules in SIZES:
            figures = compare(path, shape, rules, rounds)
            columns = [
                f"{min(each):.2f} / {median(each):.2f}" for each in (figures.ours, figures.opa)
            ]
            kept = median(figures.kept) * 1000
            row = f"{shape} {rules} rules"
            print(f"{row:18} {columns[0]:>14} {columns[1]:>14} {figures.ratio:6.2f} {kept:9.1f}")


if __name__ == "__main__":
    main()
