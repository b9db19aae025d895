"""What grows and what does not: rules, data, threads. Numbers beside the limits they must keep.

    python benchmarks/scaling.py [--json]

CPU time of one process; memory is what the process holds more after than before.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.access import rbac
from benchmarks.case import Case
from benchmarks.cases import CASES, lookup, people
from benchmarks.engines import doorward
from doorward.rego import Engine, from_json

__all__ = ["MEASURES", "Measure"]

MEGABYTES = 100
THREADS = 8
ROUNDS = 7


@dataclass(frozen=True, slots=True)
class Measure:
    """One number and the most that it may be."""

    name: str
    value: float
    unit: str
    limit: float

    @property
    def holds(self) -> bool:
        return self.value <= self.limit


def spent(work: Callable[[], object]) -> float:
    """CPU seconds that `work` takes; what is collected before is not on its time."""
    gc.collect()
    begin = time.process_time()
    work()
    return time.process_time() - begin


def microseconds(case: Case, times: int = 20_000) -> float:
    decide, value = doorward(case), case.input
    assert decide(value) == case.expected

    def work() -> None:
        for _ in range(times):
            decide(value)

    return min(spent(work) for _ in range(ROUNDS)) / times * 1e6


def rules() -> Iterator[Measure]:
    """A decision among 10,000 rules costs what one among 10 does."""
    few, many = microseconds(lookup(10)), microseconds(lookup(10_000))
    yield Measure("decision among 10,000 rules / among 10", many / few, "times", 1.5)


def bindings() -> Iterator[Measure]:
    few, many = microseconds(rbac(1_000)), microseconds(rbac(100_000))
    yield Measure("decision on 100,000 bindings / on 1,000", many / few, "times", 1.2)


def compiled(count: int) -> float:
    case = lookup(count)
    return min(spent(lambda: Engine({"a.rego": case.source})) for _ in range(2))


def compilation() -> Iterator[Measure]:
    few, many = compiled(1_000), compiled(10_000)
    yield Measure("compiling 1,000 rules", few, "seconds", 2)
    yield Measure("compiling 10,000 rules / 1,000", many / few, "times", 11)


def resident() -> int:
    """Bytes of memory that this process holds."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def document(size: int) -> str:
    """JSON like that of a directory of users, of about so many bytes."""
    r = random.Random(7)

    def user(number: int) -> dict[str, Any]:
        return {
            "id": number,
            "name": f"user-{number}",
            "mail": f"user-{number}@mail.example",
            "groups": [f"group-{r.randrange(500)}" for _ in range(6)],
            "active": number % 7 != 0,
            "address": {"street": f"{number} Long Street", "city": f"city-{number % 300}"},
            "quota": number * 1.5,
        }

    one = len(json.dumps(user(100_000))) + 18
    return json.dumps({"users": {f"user-{n}": user(n) for n in range(size // one)}})


def loading() -> Iterator[Measure]:
    text = document(MEGABYTES << 20)
    gc.collect()
    before = resident()
    results: list[Any] = []
    seconds = spent(lambda: results.append(from_json(text)))
    gc.collect()
    memory = resident() - before
    Engine(data=results[0]).prepare('data.users["user-1"].name').value()
    yield Measure(f"loading {MEGABYTES} MB of data", seconds, "seconds", 4)
    yield Measure("memory of it after loading / its size", memory / len(text), "times", 4)


def threads() -> Iterator[Measure]:
    """Wrong answers of eight threads that share one query."""
    wrong: list[object] = []
    cases = [make() for make in CASES.values() if make is not CASES["lookup"]]
    queries = [(doorward(case), case) for case in cases]

    def ask(number: int) -> None:
        for turn in range(300):
            decide, case = queries[(number + turn) % len(queries)]
            if decide(case.input) != case.expected:
                wrong.append(case.name)

    running = [threading.Thread(target=ask, args=(n,)) for n in range(THREADS)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    yield Measure("wrong answers of eight threads on shared queries", len(wrong), "answers", 0)


def token() -> Iterator[Measure]:
    yield Measure("people policy, token verified", microseconds(people(), 2_000), "µs", 15)


MEASURES = (token, rules, bindings, compilation, loading, threads)


def measured() -> Iterator[Measure]:
    for measure in MEASURES:
        yield from measure()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="what grows, and what must not")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    results = []
    for measure in measured():
        results.append(measure)
        if not options.json:
            mark = "" if measure.holds else "  MISSED"
            print(f"{measure.name:50} {measure.value:10.2f} {measure.unit:8} {measure.limit}{mark}")
    if options.json:
        print(json.dumps([asdict(measure) for measure in results], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
