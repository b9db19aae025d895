"""What it costs that generated code notes which rules answered: CPU of a decision with and without.

python -m benchmarks.marks [--rounds 40] [--markdown]

Both codes decide in turns in one process; the least of all rounds counts, since everything else
that the machine does can only add.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from benchmarks.case import Case
from benchmarks.cases import CASES
from doorward.rego import Engine, Query

ROUND = 0.01
"""Seconds of processor time that one round of one code takes, about."""


def prepared(case: Case, *, marked: bool) -> Query:
    """The query of a case, with the deadline that servers set."""
    engine = Engine({"policy.rego": case.source}, case.data, marked=marked)
    return engine.prepare(case.query, deadline=5.0)


def seconds_per_call(call: Callable[[Any], object], input: Any, count: int) -> float:
    before = time.process_time()
    for _ in range(count):
        call(input)
    return (time.process_time() - before) / count


def measure(case: Case, rounds: int) -> tuple[float, float]:
    """Microseconds of a decision without and with marks."""
    marked = prepared(case, marked=True)
    calls: list[Callable[[Any], Any]] = [prepared(case, marked=False).answer, marked.marked_answer]
    assert calls[1](case.input)[0] == calls[0](case.input)
    count = max(int(ROUND / max(seconds_per_call(calls[0], case.input, 3), 1e-7)), 1)
    least = [float("inf"), float("inf")]
    for _ in range(rounds):
        for n, call in enumerate(calls):
            least[n] = min(least[n], seconds_per_call(call, case.input, count))
    return least[0] * 1e6, least[1] * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    print("| case | without, µs | with, µs | more, µs | more, % |")
    print("|---|---|---|---|---|")
    for make in CASES.values():
        case = make()
        without, marked = measure(case, options.rounds)
        more = marked - without
        share = f"{more / without * 100:.1f}"
        print(f"| {case.name} | {without:.2f} | {marked:.2f} | {more:.2f} | {share} |")


if __name__ == "__main__":
    main()
