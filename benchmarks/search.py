"""How many faults a search finds, and how soon: mutants of policies against the policies.

    python -m benchmarks.search [--mutants 300] [--rows FILE] [--markdown docs/replay.md] [PATH ...]

Without paths: the policies of the other benchmarks with their data, of the examples and of the
Docker plugin. A PATH is a folder of others' policies, Rego v1 or v0, and is called by its name.

For each mutant the search as `doorward diff` does it looks for a request that tells it from its
original, and so does one by chance alone, which knows where an input is read and the constants that
the policies mention. All times are those of the processor, so that a busy machine changes nothing.
What none finds may be equivalent, and does not count. Random search is given the long time for
every fourth mutant that differs, and the short one for all.

With `--rows` each mutant is noted in a file as soon as it is done, and the next run goes on from
there; mutants of all policies are taken in turns, so that what is there is a fair sample.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.cases import CASES
from benchmarks.page import machine, put
from benchmarks.plots import Points, line_plot
from doorward.bundles.loader import Loaded
from doorward.bundles.sources import Sources
from doorward.rego import CompileError, RegoError
from doorward.replay.deciding import Version
from doorward.search import entry_points, search
from doorward.testing.mutants import Mutant, mutants_of

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src/doorward/docker/policies", "examples/admission/policies", "examples/mcp")
OTHERS = ("official.rego",)
"""A second policy of the same package, which stands beside an example."""
UNSUITED = ("lookup",)
"""Ten thousand rules of one kind."""
DEADLINE = 0.2
SHORT, LONG = 2.0, 20.0
SAMPLE = 4
"""Of mutants that differ, one in so many is searched by chance for the long time."""
PICTURE = "search.svg"


@dataclass(frozen=True, slots=True)
class Row:
    """When a request that tells a mutant from its original was found, in seconds of the processor;
    None: not at all. `is_sampled`: random search had the long time."""

    policy: str
    change: str
    guided: float | None
    chance: float | None
    is_sampled: bool

    @property
    def differs(self) -> bool:
        return self.guided is not None or self.chance is not None

    @property
    def kind(self) -> str:
        """The kind of change, whatever was changed."""
        return self.change.rpartition(": ")[2]


@dataclass(frozen=True, slots=True)
class Subject:
    """A policy with its mutants in the order in which they are taken."""

    name: str
    loaded: Loaded
    v0: bool
    original: Version
    mutants: list[Mutant]

    def mutated(self, mutant: Mutant) -> Version | None:
        """The policy with a fault; None where it does not compile."""
        modules = {**self.loaded.modules, mutant.file: mutant.text}
        try:
            loaded = replace(self.loaded, modules=modules)
            return Version.compile(loaded, v0=self.v0, deadline=DEADLINE)
        except CompileError:
            return None


def subjects(paths: Sequence[Path]) -> Iterator[Subject]:
    for path in paths or [ROOT / each for each in FOLDERS]:
        name = path.name if paths else str(path.relative_to(ROOT))
        yield _subject(name, path)
    for name, make in CASES.items() if not paths else ():
        if name not in UNSUITED:
            case = make()
            data: dict[Any, Any] = dict(case.data)
            yield _compiled(name, Loaded({f"{name}.rego": case.source}, data), v0=False)


def _subject(name: str, path: Path) -> Subject:
    for v0 in (False, True):
        try:
            return _compiled(name, Sources([str(path)], ignore=OTHERS, v0=v0).load(), v0=v0)
        except RegoError:
            if v0:
                raise
    raise AssertionError


def _compiled(name: str, loaded: Loaded, *, v0: bool) -> Subject:
    original = Version.compile(loaded, v0=v0, deadline=DEADLINE)
    mutants = list(mutants_of(original.snapshot.engine.trees))
    Random(7).shuffle(mutants)
    return Subject(name, loaded, v0, original, mutants)


def in_turns(subjects: Sequence[Subject], wanted: int) -> Iterator[tuple[Subject, Mutant, Version]]:
    """As many mutants, one of each policy after the other."""
    waiting = [(each, iter(each.mutants)) for each in subjects]
    while waiting and wanted > 0:
        for pair in list(waiting):
            subject, mutants = pair
            for mutant in mutants:
                version = subject.mutated(mutant)
                if version is not None:
                    yield subject, mutant, version
                    wanted -= 1
                    break
            else:
                waiting.remove(pair)
            if wanted <= 0:
                return


def found_after(old: Version, new: Version, seconds: float, *, guided: bool) -> float | None:
    """Seconds of the processor until a difference was found; None: none in `seconds`."""
    result = search(
        old,
        new,
        entry_points([old, new]),
        seconds=seconds,
        guided=guided,
        most=0,
        is_enough=lambda each: each.different > 0,
        clock=time.process_time,
    )
    return round(result.seconds, 4) if result.different else None


def measured(subject: Subject, mutant: Mutant, version: Version, number: int) -> Row:
    guided = found_after(subject.original, version, LONG, guided=True)
    chance = found_after(subject.original, version, SHORT, guided=False)
    is_sampled = (guided is not None or chance is not None) and number % SAMPLE == 0
    if is_sampled and chance is None:
        chance = found_after(subject.original, version, LONG, guided=False)
    change = f"{mutant.file}:{mutant.row} {mutant.change}"
    return Row(subject.name, change, guided, chance, is_sampled)


def table(rows: Sequence[Row]) -> str:
    """A line for each policy, and for all."""
    lines = [
        "| policy | mutants | differ | found in 2 s | found in 20 s | by chance in 2 s |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name in [*dict.fromkeys(row.policy for row in rows), ""]:
        ours = [row for row in rows if row.policy == name or not name]
        numbers = [
            len(ours),
            sum(row.differs for row in ours),
            _found(ours, "guided", SHORT),
            _found(ours, "guided", LONG),
            _found(ours, "chance", SHORT),
        ]
        cells = " | ".join(str(number) for number in numbers)
        lines.append(f"| {name or '**all**'} | {cells} |")
    return "\n".join(lines) + "\n"


def kinds(rows: Sequence[Row]) -> str:
    """A line for each kind of change: how many no search told from the original."""
    lines = ["| change | mutants | told apart by no search | share |", "|---|---:|---:|---:|"]
    for kind in [*sorted({row.kind for row in rows}), ""]:
        ours = [row for row in rows if row.kind == kind or not kind]
        alike = sum(not row.differs for row in ours)
        share = f"{alike / max(len(ours), 1):.0%}"
        lines.append(f"| {kind or '**all**'} | {len(ours)} | {alike} | {share} |")
    return "\n".join(lines) + "\n"


def _found(rows: Sequence[Row], search: str, seconds: float) -> int:
    times = [getattr(row, search) for row in rows]
    return sum(each is not None and each <= seconds for each in times)


def summary(rows: Sequence[Row]) -> str:
    """The shares of what differs."""
    differ = [row for row in rows if row.differs]
    sample = [row for row in differ if row.is_sampled]
    policies = len({row.policy for row in rows})

    def share(rows: Sequence[Row], search: str, seconds: float) -> str:
        hits = _found(rows, search, seconds)
        return f"{hits / max(len(rows), 1):.1%} ({hits} of {len(rows)})"

    return "\n".join(
        [
            f"Of {len(rows)} mutants of {policies} policies some search told {len(differ)} from",
            f"their original by a request. The other {len(rows) - len(differ)} may mean the same,",
            "or every",
            "search missed them, so the shares below are upper bounds. Of the",
            f"{len(differ)} the search found",
            f"**{share(differ, 'guided', SHORT)} in 2 s** and",
            f"**{share(differ, 'guided', LONG)} in 20 s** of a processor, random search",
            f"{share(differ, 'chance', SHORT)} in 2 s, and {share(sample, 'chance', LONG)} of a",
            "sample of them in 20 s.\n",
        ]
    )


def plot(rows: Sequence[Row]) -> str:
    """The share found by time."""
    differ = [row for row in rows if row.differs]
    sample = [row for row in differ if row.is_sampled]
    times = [0.01 * 10 ** (n / 10) for n in range(34) if 0.01 * 10 ** (n / 10) < LONG] + [LONG]

    def line(rows: Sequence[Row], search: str, longest: float) -> Points:
        shown = [each for each in times if each <= longest]
        return [(each, 100 * _found(rows, search, each) / max(len(rows), 1)) for each in shown]

    lines: Mapping[str, Points] = {
        f"guided, {len(differ)} mutants": line(differ, "guided", LONG),
        f"by chance, {len(differ)} mutants": line(differ, "chance", SHORT),
        f"by chance, {len(sample)} of them": line(sample, "chance", LONG),
    }
    return line_plot(
        lines, across="seconds of a processor", up="% of the mutants that differ", highest=100
    )


def page(rows: Sequence[Row]) -> str:
    return (
        "Written by `python -m benchmarks.search --markdown docs/replay.md`, which says what it\n"
        f"does.\n\n{summary(rows)}\n![Share of mutants found, by time]({PICTURE})\n\n"
        f"{table(rows)}\n{kinds(rows)}\n{machine()}\n"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="How many mutants of policies a search finds")
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--rows", type=Path, help="note each mutant here, and go on from there")
    parser.add_argument("--own", action="store_true", help="our policies besides PATHs")
    parser.add_argument("--markdown", type=Path, help="write the figures and the plot")
    options = parser.parse_args(arguments)
    noted: list[Any] = []
    if options.rows and options.rows.exists():
        noted = [json.loads(line) for line in options.rows.read_text().splitlines()]
    rows = [Row(**each) for each in noted]
    given = [*subjects(options.paths), *(subjects(()) if options.own and options.paths else ())]
    for number, (subject, mutant, version) in enumerate(in_turns(given, options.mutants)):
        if number < len(rows):
            continue
        row = measured(subject, mutant, version, number)
        rows.append(row)
        print(f"{number:>4} {row.policy:<32} {row.guided} {row.chance}", flush=True)
        if options.rows:
            with options.rows.open("a") as file:
                file.write(json.dumps(asdict(row)) + "\n")
    print("\n".join([table(rows), kinds(rows), summary(rows)]))
    if options.markdown:
        put(options.markdown, page(rows), "searched")
        options.markdown.with_name(PICTURE).write_text(plot(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
