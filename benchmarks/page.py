"""Measured rows to a part of docs/performance.md: not written by hand, so never wishful."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.rows import OURS, Measured
from benchmarks.scaling import Measure

__all__ = ["page", "put"]

LIMITS = {"people": 2.5, "docker": 2.5, "rbac": 2.5}
"""How many times the program by hand each may cost."""

BUNDLE = "regopy bundle"
TIMES_FASTER = 40


HEAD = """# What a decision costs in the engine

Written by `python benchmarks/run.py --markdown docs/performance.md`; `benchmarks/README.md` says
what each case asks. All numbers are CPU time of one process, each the least of {rounds} rounds in
which all engines took turns. A number that misses its goal is set in bold.

{machine}

## Decisions

Microseconds per decision. *by hand* is the same logic written in Python, *regopy* is rego-cpp
through its Python binding with its precompiled bundle, which is handed the input with every
decision as a program has to. Goals: at least {faster} times less than regopy wherever it can run
the policy; at most 2.5 times the program by hand on people, docker and rbac.

| case | doorward | by hand | times by hand | regopy | regopy / doorward |
|---|---|---|---|---|---|
"""

CACHED = """
With a cache of verified tokens, which `doorward run` has: {texts}.
"""

SCALING = """
## What grows and what does not

| measure | value | goal |
|---|---|---|
"""


def page(results: Mapping[str, Sequence[Measured]], scaling: Sequence[Measure]) -> str:
    """The page, in Markdown."""
    rounds = max((len(row.rounds) for table in results.values() for row in table), default=0)
    lines = [HEAD.format(rounds=rounds, machine=machine(), faster=TIMES_FASTER)]
    lines += [line(name, table) for name, table in results.items()]
    texts = [text for name, table in results.items() if (text := cached(name, table))]
    if texts:
        lines.append(CACHED.format(texts=", ".join(texts)))
    lines.append(SCALING)
    for each in scaling:
        value = f"{each.value:.2f} {each.unit}" if each.value else f"0 {each.unit}"
        shown = value if each.holds else f"**{value}**"
        lines.append(f"| {each.name} | {shown} | at most {each.limit:g} |\n")
    return "".join(lines)


def put(path: Path, text: str, part: str = "measured") -> None:
    """Write `text` into this part of the file, which comes last where there is none yet."""
    begin, end = (f"<!-- {part}: {edge} -->\n" for edge in ("begin", "end"))
    before, _, rest = (path.read_text() if path.exists() else "").partition(begin)
    after = rest.partition(end)[2]
    if before and not rest:
        before += "\n"
    path.write_text(f"{before}{begin}{text}{end}{after}")


def machine() -> str:
    """Where the numbers are from."""
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    try:
        engine = f"regopy {version('regopy')}"
    except PackageNotFoundError:
        engine = "no regopy"
    return (
        f"{processor()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python "
        f"{platform.python_version()}, {engine}. Load of the machine (1, 5, 15 minutes) when it\n"
        f"was written: {load}."
    )


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    names = [text.partition(":")[2].strip() for text in lines if text.startswith("model name")]
    return names[0] if names else "unknown processor"


def least(table: Sequence[Measured], name: str) -> float | None:
    row = next((row for row in table if row.name == name and row.rounds), None)
    return None if row is None else row.least


def line(name: str, table: Sequence[Measured]) -> str:
    ours, hand, theirs = (least(table, n) for n in (OURS, "by hand", BUNDLE))
    cells = [shown(ours), shown(hand), "", shown(theirs), ""]
    if ours and hand:
        missed = ours / hand > LIMITS.get(name, float("inf"))
        cells[2] = marked(f"{ours / hand:.1f}", missed=missed)
    if ours and theirs:
        cells[4] = marked(f"{theirs / ours:.0f}", missed=theirs / ours < TIMES_FASTER)
    elif not theirs:
        cells[3] = next((row.missing for row in table if row.name == BUNDLE), None) or ""
    return f"| {name} | {' | '.join(cells)} |\n"


def cached(name: str, table: Sequence[Measured]) -> str:
    ours = least(table, f"{OURS}, token cached")
    return f"{name} {ours:.1f}" if ours else ""


def shown(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def marked(text: str, *, missed: bool) -> str:
    return f"**{text}**" if missed else text
