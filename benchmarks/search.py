"""How many faults a search finds: mutants of policies against the policies, by time.

    python -m benchmarks.search [SECONDS] [MUTANTS] [POLICY ...]

Without policies: those of the other benchmarks with their data, and the Docker plugin's.

A mutant counts as different if any of the searches found a request that tells it apart: guided, and
by chance alone for as long. What none finds may be equivalent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.cases import CASES
from doorward.pdp.loader import Loaded
from doorward.pdp.sources import Sources
from doorward.rego import CompileError
from doorward.replay.deciding import Version
from doorward.replay.search import entry_points, search
from doorward.testing.mutants import Mutant, mutants_of

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = [ROOT / "src/doorward/docker/policies"]
DEADLINE = 0.2


def main(seconds: float, wanted: int, paths: list[Path]) -> None:
    policies = dict(sources(paths))
    each = max(1, wanted // len(policies))
    totals = [0, 0, 0, 0]
    print(f"{'policy':<24}{'mutants':>8}{'differ':>8}{'guided':>8}{'chance':>8}")
    for name, loaded in policies.items():
        row = measured(loaded, each, seconds)
        totals = [a + b for a, b in zip(totals, row, strict=True)]
        print(f"{name:<24}" + "".join([f"{number:>8}" for number in row]), flush=True)
    print(f"{'all':<24}" + "".join([f"{number:>8}" for number in totals]))
    print(f"guided {totals[2] / totals[1]:.1%}, by chance {totals[3] / totals[1]:.1%}")


def sources(paths: list[Path]) -> Iterator[tuple[str, Loaded]]:
    """Policies with their data, by name."""
    for path in paths or FOLDERS:
        yield path.name, Sources([str(path)]).load()
    for name, make in CASES.items() if not paths else ():
        if name != "lookup":  # ten thousand rules of one kind
            case = make()
            data: dict[Any, Any] = dict(case.data)
            yield name, Loaded({f"{name}.rego": case.source}, data)


def measured(loaded: Loaded, count: int, seconds: float) -> list[int]:
    """Mutants, those that differ, those found guided, those found by chance."""
    original = Version.compile(loaded, deadline=DEADLINE)
    hits = [
        [is_found(original, version, seconds, guided=guided) for guided in (True, False)]
        for version in compiled(loaded, original, count)
    ]
    differ = sum(any(each) for each in hits)
    return [len(hits), differ, sum(each[0] for each in hits), sum(each[1] for each in hits)]


def compiled(loaded: Loaded, original: Version, count: int) -> Iterator[Version]:
    mutants: list[Mutant] = list(mutants_of(original.snapshot.engine.trees))
    Random(7).shuffle(mutants)
    for mutant in mutants:
        try:
            version = Version.compile(
                replace(loaded, modules={**loaded.modules, mutant.file: mutant.text}),
                deadline=DEADLINE,
            )
        except CompileError:
            continue
        yield version
        count -= 1
        if count <= 0:
            return


def is_found(old: Version, new: Version, seconds: float, *, guided: bool) -> bool:
    paths = entry_points([old, new])
    result = search(
        old,
        new,
        paths,
        seconds=seconds,
        guided=guided,
        most=0,
        is_enough=lambda each: each.different > 0,
    )
    return result.different > 0


if __name__ == "__main__":
    words = sys.argv[1:]
    main(
        float(words[0]) if words else 2.0,
        int(words[1]) if len(words) > 1 else 300,
        [Path(word) for word in words[2:]],
    )
