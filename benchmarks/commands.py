"""Commands -> CPU seconds and memory, next to OPA's: starting, checking, running tests.

    python -m benchmarks.commands [--opa PATH] [--only TEXT] [--rounds 7] [--tests FOLDER]
                                  [--folders-v0 FOLDER] [--markdown docs/performance.md]

Each command is a process of its own, the byte code of its modules is there already, as after an
installation, and all take turns: the least of the rounds counts. Without `--opa` there is no peer.
Policies of others are given by path: `--tests` runs all tests of a folder in one command,
`--folders-v0` those of each folder below it (`*/*`) in a command of its own, `v0` for policies of
version 0. `--markdown` writes the rows between two marks of that page. Rows that are not measured
stay there, and OPA's figures without `--opa`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.cases import lookup
from benchmarks.page import machine

BEGIN, END = "<!-- commands: begin -->", "<!-- commands: end -->"
ONE_RULE = "package a\n\nallow if input.x == 1\n"
EMPTY = "an empty Python"
COLUMNS = 7
OPA = "$opa"
"""Stands for the peer's path in a command."""

HEAD = """Written by `python -m benchmarks.commands --markdown docs/performance.md`: CPU
seconds (user and system) and memory (RSS, MB) of a process, byte code cached, least of {rounds}
rounds in turns. OPA is version 1.9.0{earlier}; a goal is a multiple of its CPU.
What misses its goal is set in bold. Processes below {floor:.0f} MB are not told apart: that is what
measures them.
{machine}

| command | doorward | OPA | times | goal | doorward MB | OPA MB |
|---|---|---|---|---|---|---|
"""


@dataclass(slots=True)
class Work:
    """Commands that do the same; several are one after the other, and their costs added."""

    name: str
    ours: list[list[str]]
    theirs: list[list[str]] = field(default_factory=list)
    goal: float | None = None
    """How many times OPA's CPU it may take."""
    prepare: Callable[[], object] = field(default=int, kw_only=True)
    """Writes the files of the commands; called only for work that is measured."""
    next_to_ours: bool = False
    """Whether the peer is another command of ours: the name says which."""
    again: bool = False
    """Whether what the run before compiled is there."""


@dataclass(slots=True)
class Cost:
    """CPU seconds, and the most memory of one process in MB."""

    seconds: float = math.inf
    memory: float = math.inf

    def least(self, other: Cost) -> None:
        self.seconds = min(self.seconds, other.seconds)
        self.memory = min(self.memory, other.memory)


@dataclass(slots=True)
class Row:
    work: Work
    ours: Cost = field(default_factory=Cost)
    theirs: Cost = field(default_factory=Cost)

    @property
    def times(self) -> float:
        return self.ours.seconds / self.theirs.seconds


def cost(commands: list[list[str]], environment: dict[str, str], folder: Path) -> Cost:
    """Return what `commands` take, run in `folder` one after the other.

    SystemExit if one of them fails otherwise than a failed test does.
    """
    total = Cost(0.0, 0.0)
    for command in commands:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 2):  # 2: tests that fail, for both
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
        total.seconds += used.ru_utime + used.ru_stime
        total.memory = max(total.memory, used.ru_maxrss / 1000)
    return total


def works(folder: Path, options: argparse.Namespace) -> Iterator[Work]:
    """The work, with the files that it needs in `folder`."""
    ours = str(Path(sys.executable).parent / "doorward")
    yield Work(EMPTY, [[sys.executable, "-c", ""]])
    yield Work("`import doorward.rego`", [[sys.executable, "-c", "import doorward.rego"]])

    def both(
        name: str,
        *arguments: str,
        goal: float | None = None,
        prepare: Callable[[], object] = int,
    ) -> Work:
        return Work(name, [[ours, *arguments]], [[OPA, *arguments]], goal, prepare=prepare)

    one = folder / "one.rego"
    one.write_text(ONE_RULE)
    yield both("`eval 1+1`", "eval", "1+1", goal=6)
    yield both("`check` of one rule", "check", str(one), goal=6)
    yield both("`fmt` of one rule", "fmt", str(one), goal=6)
    for rules, goal in ((1_000, 4), (10_000, 5)):
        file = folder / f"rules{rules}.rego"
        write = partial(write_rules, file, rules)
        yield both(f"`check` of {rules:,} rules", "check", str(file), goal=goal, prepare=write)
        same = both(
            f"`check` of {rules:,} rules, again", "check", str(file), goal=0.8, prepare=write
        )
        yield replace(same, again=True)
        yield from formatting(folder, ours, file, rules)
        bundle = ("-o", str(folder / "bundle.tar.gz"))
        yield both(
            f"`build` of {rules:,} rules", "build", str(file), *bundle, goal=3, prepare=write
        )
        query = ("eval", "-d", str(file), "data.x")
        same = both(f"`eval` on {rules:,} rules, again", *query, goal=0.8, prepare=write)
        yield replace(same, again=True)
    policies, schemas = folder / "policies", folder / "schemas"
    arguments = ("check", "--schema", str(schemas), str(policies))
    yield both(
        "`check --schema`, 200 packages",
        *arguments,
        goal=3,
        prepare=partial(write_annotated, policies, schemas),
    )
    for path in options.tests:
        yield both(f"`test` of {Path(path).name}", "test", path, goal=2)
    for path in options.folders_v0:
        each = [
            ["test", "--v0-compatible", *map(str, sorted(below.glob("*.rego")))]
            for below in sorted(Path(path).glob("*/*"))
            if below.is_dir()
        ]
        name = f"`test` of {len(each)} folders of {Path(path).parent.name}, one command each"
        yield Work(name, [[ours, *a] for a in each], [[OPA, *a] for a in each], 4)


def write_rules(file: Path, rules: int) -> None:
    file.write_text(lookup(rules).source)


def formatting(folder: Path, ours: str, file: Path, rules: int) -> Iterator[Work]:
    """`fmt` of policies that are formatted, and of others, next to our own `check`."""
    formatted = folder / f"formatted{rules}.rego"

    def write_formatted() -> None:
        # `lookup` writes each body on one line, which `fmt` takes apart.
        write_rules(formatted, rules)
        subprocess.run([ours, "fmt", "-w", str(formatted)], check=True)

    write_other = partial(write_rules, file, rules)
    for path, how, prepare in (
        (formatted, "formatted", write_formatted),
        (file, "other", write_other),
    ):
        name = f"`fmt` of {rules:,} {how} rules, next to our own `check`"
        command, check = [ours, "fmt", str(path)], [ours, "check", str(path)]
        yield Work(name, [command], [check], 1.3, next_to_ours=True, prepare=prepare)


def write_annotated(policies: Path, schemas: Path) -> None:
    """Write 200 packages whose METADATA name a schema of 300 kB, and the schema."""
    for each in (policies, schemas):
        each.mkdir()
    (schemas / "input.json").write_text(json.dumps(_schema(5)))
    for n in range(200):
        (policies / f"m{n}.rego").write_text(
            "# METADATA\n# schemas:\n#   - input: schema.input\n"
            f'package app.m{n}\n\ndeny contains msg if {{\n\tinput.k1.k2.k3.k4.k5 == "x{n}"\n'
            '\tsome k, v in input.k2\n\tv.k1.k2 != "y"\n\tmsg := sprintf("bad %s", [k])\n}\n'
        )


def _schema(depth: int) -> dict[str, Any]:
    if not depth:
        return {"type": "string"}
    below = {f"k{n}": _schema(depth - 1) for n in range(6)}
    return {"type": "object", "properties": below}


def measure(options: argparse.Namespace) -> Iterator[str]:
    """The rows of the table; ours and theirs take turns."""
    first: Row | None = None
    known = {} if options.opa or not options.markdown else recorded(options.markdown)
    with tempfile.TemporaryDirectory() as name:
        # Ours and theirs read the configuration of a project in the folder where they are called.
        folder = Path(name)
        environment = dict(os.environ)
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        # Each run compiles; what a second run takes is a row of its own.
        environment["DOORWARD_CACHE_DIR"] = ""
        wanted = [
            work
            for work in works(folder, options)
            if not options.only or any(text in work.name for text in options.only)
        ]
        for work in wanted:
            work.prepare()
            row = Row(work)
            if not work.next_to_ours:
                row.theirs = known.get(work.name, Cost())
            theirs = work.theirs
            if not work.next_to_ours:
                # OPA's part of the commands, with the path that was given.
                theirs = [[options.opa, *command[1:]] for command in theirs if options.opa]
            kept = {"DOORWARD_CACHE_DIR": str(folder / "programs")} if work.again else {}
            own = environment | kept
            cost(work.ours[:1], own, folder)  # fills the cache of byte code
            for _ in range(options.rounds):
                row.ours.least(cost(work.ours, own, folder))
                if theirs:
                    row.theirs.least(cost(theirs, environment, folder))
            first = first or row
            yield line(row, first, floor())


def floor() -> float:
    """The memory of this process, which a process that it starts is said to have at least."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def line(row: Row, first: Row, least_memory: float) -> str:
    """A row of the table; what starts fast also as a multiple of an empty Python."""
    ours, theirs = row.ours, row.theirs
    memory = [f"{each.memory:.0f}" if each.memory > least_memory else "" for each in (ours, theirs)]
    cells = [row.work.name, f"{ours.seconds:.3f}", "", "", "", memory[0], ""]
    if math.isfinite(theirs.seconds):
        times = f"{row.times:.1f}"
        goal = row.work.goal
        missed = goal is not None and row.times > goal
        cells[2] = f"{theirs.seconds:.3f}"
        cells[3] = f"**{times}**" if missed else times
        cells[4] = "" if goal is None else f"{goal:g}"
        cells[6] = memory[1]
    if first.work.name == EMPTY and ours.seconds < 20 * first.ours.seconds:
        cells[1] += f" ({ours.seconds / first.ours.seconds:.1f} empty Pythons)"
    return f"| {' | '.join(cells)} |"


def rows_of(page: Path) -> dict[str, list[str]]:
    """The rows of a page by their names, as cells."""
    text = page.read_text().partition(BEGIN)[2].partition(END)[0]
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in text.splitlines()]
    return {cells[0]: cells for cells in rows if len(cells) == COLUMNS and cells[0].strip("-")}


def recorded(page: Path) -> dict[str, Cost]:
    """What OPA took by the rows of a page, by their names."""
    return {
        name: Cost(float(cells[2]), float(cells[6] or 0))
        for name, cells in rows_of(page).items()
        if re.fullmatch(r"[0-9.]+", cells[2])
    }


def put(path: Path, text: str) -> None:
    """Write `text` between the two marks of a page."""
    before, mark, rest = path.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    if not mark:
        raise SystemExit(f"{path} has no {BEGIN}")
    path.write_text(f"{before}{BEGIN}\n{text}{END}{after}")


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="CPU time and memory of commands, next to OPA's")
    parser.add_argument("--opa", type=os.path.abspath, metavar="PATH", help="the peer")
    parser.add_argument("--only", action="append", default=[], help="rows whose name holds this")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--tests", type=os.path.abspath, action="append", default=[], metavar="FOLDER"
    )
    parser.add_argument(
        "--folders-v0", type=os.path.abspath, action="append", default=[], metavar="FOLDER"
    )
    parser.add_argument("--markdown", type=Path, help="the page to write the rows into")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    options = arguments(given)
    rows: list[str] = []
    for row in measure(options):
        print(row, flush=True)
        rows.append(f"{row}\n")
    if options.markdown:
        earlier = "" if options.opa else ", measured earlier on a machine of the same kind"
        facts = {"machine": machine(), "floor": floor(), "earlier": earlier}
        text = HEAD.format(rounds=options.rounds, **facts)
        measured = {row.split("|")[1].strip() for row in rows} | {"command"}
        for name, cells in rows_of(options.markdown).items():
            if name not in measured:
                rows.append(f"| {' | '.join(cells)} |\n")
        put(options.markdown, text + "".join(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
