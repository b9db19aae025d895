"""Every measured case of OPA, next to what this engine takes for it.

    python benchmarks/against_opa.py [--opa PATH] [--only TEXT] [--rounds 7] [--markdown FILE]

Both are given the input parsed and the query prepared. Without `--opa` the recorded figures of
`data/opa.json` stand for OPA (CPU time, engine 1.18.2 in process); with it `opa bench` runs each
case here, in turn with ours, and says what it took by the clock. A row `own X` is the case X of
`cases.py`. *cold* is the first answer of a fresh engine, with no cache filled; *unseen* the first
one of an input that was not seen before (its arrays in another order) on data bound again, with all
caches of functions emptied, but for the code.

Folders of others' policies are given by path (`--tests FOLDER`) and compared as commands: CPU time
of `doorward test` and of `opa test`.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import _lru_cache_wrapper
from pathlib import Path
from random import Random
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cases import CASES
from benchmarks.newest_engine import BEGIN, END
from benchmarks.page import machine
from doorward.base.collector import gc_paused
from doorward.rego import Engine, compile

RECORDED = Path(__file__).resolve().parent / "data/opa.json"
PICTURE = "performance.svg"
ROUND_SECONDS = 0.02
MUCH_SECONDS = 1.0
"""What is compiled longer than this is compiled once."""
OWN = "own "
KINDS_HEADING = """## Next to the newest engine, in the same run

OPA hashes and orders the input while it reads it, and Doorward when a policy needs that. So the
last column, which holds the reading of the input on both sides, says what a request costs. Where
OPA is cheaper even so, the work is in libraries: the events of libyaml become Python objects one by
one, and 62 % of a `regex.replace` with a group are calls of RE2. Formats, durations and layouts of
single values cost one Python function each, which OPA has in Go.

"""


@dataclass(slots=True)
class Question:
    """One case: what is asked of which policies and documents."""

    name: str
    modules: dict[str, str]
    query: str
    data: Any
    input: Any
    recorded_us: float
    recorded_compile_ms: float


@dataclass(slots=True)
class Row:
    """Microseconds for an answer, milliseconds for compiling."""

    name: str
    ours_us: float
    cold_us: float
    unseen_us: float
    opa_us: float
    compile_ms: float
    opa_compile_ms: float

    @property
    def ratio(self) -> float:
        return self.ours_us / self.opa_us


def questions(path: Path = RECORDED) -> Iterator[Question]:
    """The recorded cases, each with its documents."""
    content = json.loads(path.read_text())
    documents: Mapping[str, Any] = content["documents"]
    for row in content["rows"]:
        name, figures = row["name"], row["opa_1_18_2"]
        costs = figures["cpu_us"], figures["compile_ms"]
        if name.startswith(OWN):
            case = CASES[name.removeprefix(OWN)]()
            modules = {"policy.rego": case.source}
            yield Question(name, modules, case.query, dict(case.data), case.input, *costs)
            continue
        modules = dict(row["modules"])
        data = documents.get(row.get("data"), {})
        yield Question(name, modules, row["query"], data, documents.get(row.get("input")), *costs)


def least(answer: Callable[[Any], object], value: Any, rounds: int) -> float:
    """Microseconds of CPU time for one answer: the least of so many rounds."""
    times, best = 1, math.inf
    done = 0
    while done < rounds:
        gc.collect()
        begin = time.process_time()
        for _ in range(times):
            answer(value)
        spent = time.process_time() - begin
        if spent < ROUND_SECONDS / 2 and times < 1_000_000:
            times *= 4
            continue
        best = min(best, spent / times)
        done += 1
    return best * 1e6


def measure(question: Question, rounds: int, opa: str | None) -> Row:
    """One row; `opa` is measured between two halves of our rounds."""
    compiled, engine = compiling(question, rounds)
    answer = engine.prepare(question.query).answer
    begin = time.process_time()
    answer(question.input)
    cold = time.process_time() - begin
    unseen = first_answers(engine, question, rounds)
    ours = least(answer, question.input, rounds - rounds // 2)
    theirs = question.recorded_us if opa is None else benched(question, opa)
    if rounds > 1:
        ours = min(ours, least(answer, question.input, rounds // 2))
    return Row(
        question.name,
        ours,
        cold * 1e6,
        unseen,
        theirs,
        compiled * 1e3,
        question.recorded_compile_ms,
    )


def compiling(question: Question, rounds: int) -> tuple[float, Engine]:
    """The seconds in which the policies and the query are compiled, and a fresh engine of them."""
    best, spent = math.inf, 0.0
    while True:
        with gc_paused():  # as commands and servers compile
            begin = time.process_time()
            engine = compile(question.modules).bind(question.data, is_parsed=True)
            engine.prepare(question.query)
            best = min(best, time.process_time() - begin)
            spent += time.process_time() - begin
        rounds -= 1
        if rounds < 1 or spent > MUCH_SECONDS:
            return best, engine


def first_answers(engine: Engine, question: Question, rounds: int) -> float:
    """Microseconds for the first answer to an input that was not seen before."""
    text, best = json.dumps(question.input), math.inf
    for n in range(rounds):
        value = shuffled(json.loads(text), Random(n))
        query = engine.with_data(engine.data, is_parsed=True).prepare(question.query)
        gc.collect()
        for each in gc.get_objects():
            # The type as it is: to ask a lazy object of Django for its class sets it up.
            if type(each) is _lru_cache_wrapper:
                each.cache_clear()
        begin = time.process_time()
        query.answer(value)
        best = min(best, time.process_time() - begin)
    return best * 1e6


def shuffled(value: Any, order: Random) -> Any:
    """The value with its arrays in another order, all of it new."""
    if isinstance(value, dict):
        return {name: shuffled(each, order) for name, each in value.items()}
    if isinstance(value, list):
        return order.sample([shuffled(each, order) for each in value], len(value))
    return value


def benched(question: Question, opa: str) -> float:
    """Microseconds for an answer as `opa bench` measures them; nan where it cannot."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder)
        (target / "data.json").write_text(json.dumps(question.data))
        (target / "input.json").write_text(json.dumps(question.input))
        for name, text in question.modules.items():
            (target / name).write_text(text)
        files = [flag for name in ("data.json", *question.modules) for flag in ("-d", name)]
        command = [opa, "bench", "-f", "json", "-i", "input.json", *files, question.query]
        done = subprocess.run(command, cwd=target, capture_output=True, text=True, check=False)
    try:
        result = json.loads(done.stdout)
        return float(result["T"]) / float(result["N"]) / 1000
    except (ValueError, KeyError, ZeroDivisionError):
        return math.nan


def command_seconds(*command: str) -> float:
    """User and system time of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def printed(row: Row) -> str:
    return (
        f"{row.name[:52]:52} {row.ours_us:11.1f} {row.cold_us:11.1f} {row.unseen_us:11.1f} "
        f"{row.opa_us:11.1f} "
        f"{row.ratio:7.2f} {row.compile_ms:9.1f} {row.opa_compile_ms:8.1f}"
    )


HEAD = """# Next to OPA

Written by `python benchmarks/against_opa.py --markdown docs/against_opa.md`. Microseconds
of CPU time for an answer: query prepared, input parsed, least of {rounds} rounds.
OPA's figures are {peer}. Below 1 Doorward takes less.
*cold* is the first answer of a fresh engine: it holds the generation of the code. *unseen* is the
first answer to an input not seen before (arrays in another order), with the code there and all
caches empty.

{machine}

![Doorward's time as a multiple of OPA's, case by case]({picture})

| case | doorward | cold | unseen | OPA | doorward / OPA | compile ms | OPA compile ms |
|---|---|---|---|---|---|---|---|
"""


TABLES_HEADING: Final = """
## OPA's servers, commands, start and memory, as recorded

[Performance](performance.md) has Doorward's, measured with the version that it names.
"""
OF_OTHERS: Final = (
    "Doorward",
    "bare",
    "httptools",
    "minimal",
    "prototype",
    "the same with Doorward",
)


def page(rows: list[Row], rounds: int, peer: str) -> str:
    lines = [HEAD.format(rounds=rounds, peer=peer, machine=machine(), picture=PICTURE)]
    for row in rows:
        name = row.name.replace("|", "\\|")
        ratio = f"**{row.ratio:.2f}**" if row.ratio > 1 else f"{row.ratio:.2f}"
        lines.append(
            f"| {name} | {row.ours_us:.1f} | {row.cold_us:.1f} | {row.unseen_us:.1f} "
            f"| {row.opa_us:.1f} | {ratio} "
            f"| {row.compile_ms:.1f} | {row.opa_compile_ms:.1f} |\n"
        )
    return "".join(lines)


def tables() -> str:
    """The recorded tables of OPA's servers and commands; the rows of other programs are left out,
    and Doorward's, which are those of an early version.
    """
    parts = [TABLES_HEADING]
    for table in json.loads(RECORDED.read_text())["tables"]:
        kept = [n for n, name in enumerate(table["columns"]) if name != "Doorward"]
        rows = [
            ["" if row[n].startswith("Doorward ") else row[n].removeprefix("OPA ") for n in kept]
            for row in table["rows"]
            if not row[0].startswith(OF_OTHERS)
        ]
        columns = [table["columns"][n] for n in kept]
        parts.append(f"\n{table['heading']}\n\n| {' | '.join(columns)} |\n")
        parts.append("|" + "---|" * len(columns) + "\n")
        parts += [f"| {' | '.join(row)} |\n" for row in rows]
    return "".join(parts)


def kinds_of(path: Path) -> str:
    """What `newest_engine.py` wrote into the page that is there: it measures by itself."""
    content = path.read_text() if path.exists() else f"{BEGIN}{END}"
    return "\n" + KINDS_HEADING + BEGIN + content.partition(BEGIN)[2].partition(END)[0] + END


def plot(rows: list[Row]) -> str:
    """A bar for each row, on a logarithmic scale; the middle line is OPA."""
    width, height, left = 900, 12, 380
    ordered = sorted(rows, key=lambda row: row.ratio)
    middle, unit = left + 300, 75.0  # pixels for a factor of ten
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
        f'height="{height * len(ordered) + 30}" font-family="sans-serif" font-size="9">'
    ]
    for power in range(-4, 3):
        x = middle + unit * power
        parts.append(f'<text x="{x:.0f}" y="10" text-anchor="middle">{10.0**power:g}</text>')
        bottom = height * len(ordered) + 20
        parts.append(f'<line x1="{x:.0f}" y1="14" x2="{x:.0f}" y2="{bottom}" stroke="#ccc"/>')
    for n, row in enumerate(ordered):
        y = 18 + n * height
        x = middle + unit * max(min(math.log10(row.ratio), 2.5), -4)
        start, size = min(x, middle), abs(x - middle)
        colour = "#3a7" if row.ratio <= 1 else "#c53"
        name = row.name.replace("&", "&amp;").replace("<", "&lt;")
        parts.append(f'<text x="{left - 6}" y="{y + 8}" text-anchor="end">{name}</text>')
        parts.append(
            f'<rect x="{start:.1f}" y="{y}" width="{size:.1f}" height="9" fill="{colour}"/>'
        )
    return "\n".join([*parts, "</svg>\n"])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="CPU time for each case, next to OPA's")
    parser.add_argument("--opa", metavar="PATH", help="measure this program instead of recorded")
    parser.add_argument("--only", action="append", default=[], help="cases whose name holds this")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tests", action="append", default=[], metavar="FOLDER")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the page and its plot")
    options = parser.parse_args(arguments)
    print(
        f"{'case':52} {'ours us':>11} {'cold us':>11} {'unseen us':>11} {'OPA us':>11} "
        f"{'ratio':>7} compile ms, OPA"
    )
    rows: list[Row] = []
    for question in questions():
        if options.only and not any(text in question.name for text in options.only):
            continue
        rows.append(measure(question, options.rounds, options.opa))
        print(printed(rows[-1]), flush=True)
    for folder in options.tests:
        ours = command_seconds(sys.executable, "-m", "doorward", "test", folder)
        theirs = command_seconds(options.opa, "test", folder) if options.opa else math.nan
        print(f"test {folder}: {ours:.1f} s, OPA {theirs:.1f} s, ratio {ours / theirs:.2f}")
    if options.markdown:
        peer = "of `opa bench` here" if options.opa else "recorded on a machine of the same kind"
        text = page(rows, options.rounds, peer) + tables() + kinds_of(options.markdown)
        options.markdown.write_text(text)
        (options.markdown.parent / PICTURE).write_text(plot(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
