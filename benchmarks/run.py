"""Cases x engines -> a table of CPU microseconds per decision.

All engines of a case take turns within one run, round by round, so that a machine that slows
down slows all of them. The clock is the CPU time of this process; a round lasts about as long for
a slow contender as for a fast one. The minimum says what the code costs, the median what this
machine made of it.

    python benchmarks/run.py [--only people] [--rounds 15] [--json] [--markdown FILE]
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cases import CASES, Case
from benchmarks.engines import Decide, Missing, engines
from benchmarks.page import page, put
from benchmarks.rows import OURS, Measured
from benchmarks.scaling import measured

ROUND_NS = 20_000_000


def spent(decide: Decide, value: Any, times: int) -> int:
    begin = time.process_time_ns()
    for _ in range(times):
        decide(value)
    return time.process_time_ns() - begin


def calibrated(decide: Decide, value: Any) -> int:
    """How many decisions make a round."""
    times = 1
    while (cost := spent(decide, value, times)) < ROUND_NS // 10 and times < 1_000_000:
        times *= 4
    return max(1, times * ROUND_NS // max(cost, 1))


def prepared(case: Case, make: Callable[[], Decide]) -> Decide:
    """A contender that is known to give the right answer."""
    decide = make()
    try:
        answer = decide(case.input)
    except (LookupError, ValueError) as error:
        raise Missing("cannot run it") from error
    if answer != case.expected or type(answer) is not type(case.expected):
        raise Missing(f"answers {answer!r} instead of {case.expected!r}")
    return decide


def measure(case: Case, rounds: int) -> list[Measured]:
    """Every contender of the case, in turns."""
    table: list[Measured] = []
    running: list[tuple[Measured, Decide, int]] = []
    for name, make in engines(case):
        table.append(row := Measured(name))
        try:
            decide = prepared(case, make)
        except (Missing, ImportError) as reason:
            row.missing = str(reason)
            continue
        running.append((row, decide, calibrated(decide, case.input)))
    for _ in range(rounds):
        for row, decide, times in running:
            gc.collect()
            row.rounds.append(spent(decide, case.input, times) / times / 1000)
    return table


def ratio(row: Measured, table: list[Measured]) -> str:
    """How many times ours; with the token cached or not, whichever is the same work."""
    cached = ", token cached" if row.name.endswith(", token cached") else ""
    ours = next((other for other in table if other.name == OURS + cached), None)
    return f"{row.least / ours.least:9.2f}" if ours and ours.rounds else f"{'-':>9}"


def printed(case: str, table: list[Measured]) -> None:
    print(f"\n{case:30} {'min us':>10} {'median us':>10} {'/ ours':>9}")
    for row in table:
        if row.missing is not None:
            print(f"  {row.name:28} {row.missing}")
        else:
            print(f"  {row.name:28} {row.least:10.2f} {row.middle:10.2f} {ratio(row, table)}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="CPU time per decision, side by side")
    parser.add_argument("--only", action="append", choices=sorted(CASES), help="one case or more")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true", help="every round of every contender")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the page, scaling too")
    options = parser.parse_args(arguments)
    results: dict[str, list[Measured]] = {}
    if not options.json:
        print(f"CPU microseconds per decision, Python {platform.python_version()}, one process")
    for name in options.only or CASES:
        results[name] = measure(CASES[name](), options.rounds)
        if not options.json:
            printed(name, results[name])
    if options.markdown:
        put(options.markdown, page(results, list(measured())))
    if options.json:
        rows = {name: [asdict(row) for row in table] for name, table in results.items()}
        print(json.dumps({"python": platform.python_version(), "cases": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
