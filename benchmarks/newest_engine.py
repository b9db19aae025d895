"""Kinds of policies and built-ins next to the engine of OPA 1.20.2, measured in the same run.

    python benchmarks/newest_engine.py [--only TEXT] [--rounds 5] [--markdown docs/against_opa.md]

Both engines get the same input and answer `data.case.answer` in turns; each answer is reduced to a
number or a boolean, so that nothing is written as JSON on either side. OPA's engine comes from the
wheel that the fuzzer uses (`fuzz/opa_engine.py`) and reads query and input for each answer: what a
constant takes is taken off. Since OPA hashes and orders containers while it reads them, a second
figure holds the reading of the input on both sides. CPU time of all threads: those of
OPA's collector count. `--markdown` writes the rows between two marks of that page, losses first.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.kinds import KINDS, Kind
from benchmarks.page import machine
from doorward.rego import Engine, from_json
from fuzz.opa_engine import Library, library

QUERY: Final = "data.case.answer"
CONSTANT: Final = "data.case.constant"
ROUND_SECONDS: Final = 0.05
BEGIN: Final = "<!-- kinds: begin -->\n"
END: Final = "<!-- kinds: end -->\n"


@dataclass(slots=True)
class Row:
    """Microseconds of CPU time: for reading the input from JSON, and for an answer to it."""

    kind: Kind
    reading: float
    ours: float
    opa_reading: float
    theirs: float

    @property
    def ratio(self) -> float:
        """How many times OPA's time an answer takes; nan where OPA's reading hides it."""
        return self.ours / self.theirs if self.theirs > self.opa_reading / 20 else math.nan

    @property
    def whole(self) -> float:
        """How many times OPA's time reading and answering take."""
        return (self.reading + self.ours) / (self.opa_reading + self.theirs)


class Peer:
    """OPA's engine in this process, with policies and data."""

    def __init__(self, modules: str) -> None:
        self._library = Library(str(library()))
        self._handle = self._library.new()
        self._call("AddPolicy", b"case.rego", modules.encode())

    def answer(self, query: str, input: bytes) -> Any:
        """The value of the first expression of the query; an error where there is none."""
        results = json.loads(self._call("EvalQuery", query.encode(), input, 0, 0))
        return results["result"][0]["expressions"][0]["value"]

    def close(self) -> None:
        """Give back what the engine holds."""
        self._library.destroy(self._handle)

    def _call(self, name: str, *operands: Any) -> str:
        answer = self._library.call(name, self._handle, *operands)
        if answer.startswith(('{"error":{', '{"error":"')):
            raise ValueError(answer[:500])
        return answer


def input_text(value: Any) -> str:
    """An input as JSON."""
    return json.dumps(value)


def least(answer: Callable[[], object]) -> float:
    """Microseconds of CPU time for one answer, over so many that a round can be measured."""
    times = 1
    gc.collect()
    while True:
        begin = time.process_time()
        for _ in range(times):
            answer()
        spent = time.process_time() - begin
        if spent > ROUND_SECONDS / 2 or times > 100_000:
            return spent / times * 1e6
        times *= 4


def measure(kind: Kind, rounds: int) -> Row:
    """One row. ValueError where the answers differ: nothing is compared then."""
    policies = f"package case\n\nconstant := 1\n\n{kind.policy}"
    text = input_text(kind.input(Random(1))).encode()
    value = from_json(text)
    query = Engine({"case.rego": policies}).prepare(QUERY)
    peer = Peer(policies)
    try:
        ours, theirs = query.value(value), peer.answer(QUERY, text)
        if ours != theirs:
            raise ValueError(f"{kind.name}: {ours!r} here, {theirs!r} in OPA")
        jobs: list[Callable[[], object]] = [
            lambda: from_json(text),
            lambda: query.answer(value),
            lambda: peer.answer(CONSTANT, b"{}"),
            lambda: peer.answer(CONSTANT, text),
            lambda: peer.answer(QUERY, text),
        ]
        turns = [[least(job) for job in jobs] for _ in range(rounds)]
    finally:
        peer.close()
    reading, answer, call, opa_reading, opa = (min(each) for each in zip(*turns, strict=True))
    return Row(kind, reading, answer, opa_reading - call, opa - opa_reading)


def printed(row: Row) -> str:
    """The row for a terminal."""
    figures = f"{row.ours:11.1f} {row.theirs:11.1f} {row.ratio:7.2f} {row.whole:7.2f}"
    return f"{row.kind.name[:48]:48} {figures}"


def page(rows: list[Row], rounds: int) -> Iterator[str]:
    """The rows as Markdown, losses first and in bold."""
    lost = sum(row.ratio > 1 for row in rows)
    yield (
        f"Written by `python benchmarks/newest_engine.py`: microseconds of CPU time, least of "
        f"{rounds} rounds, {len(rows)} kinds, of which OPA 1.20.2 takes less in {lost}.\n"
        f"{machine()}\n\n"
        "| kind | doorward | OPA 1.20.2 | doorward / OPA | with its input read |\n"
        "|---|---|---|---|---|\n"
    )
    for row in sorted(rows, key=lambda row: -row.ratio if row.ratio > 0 else 0):
        name = row.kind.name.replace("|", "\\|")
        figures = f"{row.ours:.1f} | {row.theirs:.1f} | {_bold(row.ratio)} | {_bold(row.whole)}"
        yield f"| {name} | {figures} |\n"


def _bold(ratio: float) -> str:
    if math.isnan(ratio):
        return "-"
    return f"**{ratio:.2f}**" if ratio > 1 else f"{ratio:.2f}"


def put(path: Path, text: str) -> None:
    """Write the rows between the two marks of a page."""
    content = path.read_text()
    head, begin, rest = content.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{path}: the marks {BEGIN.strip()} and {END.strip()} are not there")
    path.write_text(head + begin + text + end + tail)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and write the page where one was named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", default=[], help="kinds whose name holds this")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="the page to write rows into")
    options = parser.parse_args(arguments)
    print(f"{'kind':48} {'ours us':>11} {'OPA us':>11} {'ratio':>7} {'whole':>7}")
    rows: list[Row] = []
    for kind in KINDS:
        if options.only and not any(text in kind.name for text in options.only):
            continue
        rows.append(measure(kind, options.rounds))
        print(printed(rows[-1]), flush=True)
    if options.markdown:
        put(options.markdown, "".join(page(rows, options.rounds)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
