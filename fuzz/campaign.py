"""Many random programs, each compared; those that differ made small and reported once."""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path

from fuzz.compare import Difference, RefusedError, compare
from fuzz.grammar import generate
from fuzz.names import generate_shadowed
from fuzz.opa import Lines, Opa, Peer
from fuzz.pools import MISSING, Program
from fuzz.shrink import shrink

__all__ = ["Report", "Shown", "campaign", "finished", "text_of"]

Compare = Callable[[Program], Difference | None]


@dataclass(frozen=True)
class Shown:
    """A difference with the program that shows it."""

    seed: str
    difference: Difference
    program: Program

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.difference}\n{text_of(self.program)}"


@dataclass
class Report:
    """What came out of many programs."""

    tried: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    shown: list[Shown] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        pace = self.tried / self.seconds if self.seconds else 0.0
        refused = ", ".join(f"{code} {number}" for code, number in self.refused.most_common())
        return (
            f"{self.tried} programs in {self.seconds:.0f} s ({pace:.1f} a second), "
            f"{len(self.shown)} differences; refused: {refused or 'none'}"
        )


def campaign(
    seed: int,
    *,
    programs: int | None = None,
    seconds: float | None = None,
    most: int = 20,
    shrinking: float = 60.0,
    compare: Compare = compare,
    generate: Callable[[str], Program] = generate,
) -> Report:
    """Programs of `seed` until there were so many, the time is over or `most` differ."""
    report, start = Report(), time.process_time()
    for number in count():
        report.seconds = time.process_time() - start
        if programs is not None and number >= programs:
            break
        if seconds is not None and report.seconds >= seconds:
            break
        name = f"{seed}-{number}"
        program = generate(name)
        report.tried += 1
        try:
            difference = compare(program)
        except RefusedError as error:
            report.refused[str(error)] += 1
            continue
        if difference is None:
            continue
        shown = _smallest(name, program, difference, shrinking, compare)
        if any(shown.program == other.program for other in report.shown):
            continue
        report.shown.append(shown)
        print(shown, flush=True)
        if len(report.shown) >= most:
            break
    report.seconds = time.process_time() - start
    return report


def _smallest(
    name: str, program: Program, difference: Difference, seconds: float, compare: Compare
) -> Shown:
    def holds(candidate: Program) -> bool:
        try:
            shown = compare(candidate)
        except RefusedError:
            return False
        return shown is not None and shown.kind == difference.kind

    small = shrink(program, holds, seconds)
    tidy = {file: re.sub(r"\n{3,}", "\n\n", text) for file, text in small.modules.items()}
    if holds(replace(small, modules=tidy)):
        small = replace(small, modules=tidy)
    try:
        left = compare(small)
    except RefusedError:
        left = None
    # What does not come up again, such as a race with a deadline, is shown as it was.
    return Shown(name, left, small) if left is not None else Shown(name, difference, program)


def text_of(program: Program) -> str:
    """A program for people."""
    lines = [f"--- {name}\n{text.strip()}" for name, text in program.modules.items()]
    lines += [f"--- data {json.dumps(program.data, ensure_ascii=False)}"]
    for value in program.inputs:
        shown = "none" if value is MISSING else json.dumps(value, ensure_ascii=False)
        lines.append(f"--- input {shown}")
    lines += [f"--- query {query}" for query in program.queries]
    return "\n".join(lines) + (" (v0)" if program.v0 else "") + (" strict" * program.strict)


def main(description: str = "") -> int:
    """What the command does; 1 if there was a difference."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, help="of processor time")
    parser.add_argument("--programs", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=20, help="differences after which to stop")
    parser.add_argument("--keep", type=Path, help="a folder for the differences, a file each")
    parser.add_argument("--opa", help="the program `opa`: its answers are compared as well")
    parser.add_argument("--lines", help="an engine that answers JSON line by line, see fuzz/opa.py")
    options = parser.parse_args()
    peer: Peer | None = Opa(options.opa) if options.opa else None
    peer = Lines(options.lines) if options.lines else peer
    if options.seconds is None and options.programs is None:
        options.seconds = 60.0
    report = campaign(
        options.seed,
        programs=options.programs,
        seconds=options.seconds,
        most=options.most,
        compare=partial(compare, peer=peer),
        generate=_program_of,
    )
    return finished(report, options.keep)


def _program_of(seed: str) -> Program:
    """A program of the grammar; in half of them names shadow each other."""
    make = generate_shadowed if int(seed.rpartition("-")[2]) % 2 else generate
    return make(seed)


def finished(report: Report, keep: Path | None) -> int:
    """Write what was found; the exit code."""
    for shown in report.shown if keep else ():
        assert keep is not None
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"{shown.seed}.txt").write_text(f"{shown}\n", encoding="utf-8")
    print(report)
    return 1 if report.shown else 0
