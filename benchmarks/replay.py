"""What a replay costs: decisions a second and core, and memory against the length of the log.

    python -m benchmarks.replay [EVENTS ...] [--markdown docs/replay.md]    # 1 and 10 million

The log is that of the people policy: a hundred tokens, all three methods, written as `doorward run`
writes it, with the tokens in it, compressed by gzip. It is made in a temporary folder for each
length. One process reads it, decides each event and counts; its time is that of the processor.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.case import signed_token
from benchmarks.cases import EXAMPLE, SECRET, people
from benchmarks.page import machine, marked, put
from benchmarks.plots import line_plot
from doorward.rego import Engine

BLOCK = 10_000
TOKENS = 100
START = 1_800_000_000
MILLION = 1_000_000
RATE = 20_000
GROWTH = 0.1
PICTURE = "replay.svg"


@dataclass(frozen=True, slots=True)
class Row:
    """One replay: bytes of the log before it was compressed, seconds of CPU, MB of memory."""

    events: int
    size: int
    seconds: float
    peak: float

    @property
    def rate(self) -> float:
        return self.events / self.seconds


def replayed(length: int) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        log, secrets = Path(folder, "log.jsonl.gz"), Path(folder, "secrets.json")
        secrets.write_text(json.dumps({"secrets": {"jwt": SECRET}}))
        size = write_log(log, length)
        report, seconds, peak = measured(log, [str(EXAMPLE), str(secrets)])
        assert report["kinds"]["unchanged"] == length, report["kinds"]
        return Row(length, size, seconds, peak)


def page(rows: Sequence[Row]) -> str:
    lines = [
        "Written by `python -m benchmarks.replay --markdown docs/replay.md`. Goals: at least "
        f"{RATE:,} events\na second and core, and memory that differs by less than "
        f"{GROWTH:.0%} from a million events to\nten million.\n",
        "| events | log, MB | CPU, s | events a second and core | memory at most, MB |",
        "|---:|---:|---:|---:|---:|",
    ]
    base = next((row.peak for row in rows if row.events >= MILLION), 0.0)
    for row in rows:
        rate = marked(f"{row.rate:,.0f}", missed=row.rate < RATE)
        is_larger = row.events > MILLION and abs(row.peak / base - 1) >= GROWTH
        peak = marked(f"{row.peak:.1f}", missed=is_larger)
        lines.append(
            f"| {row.events:,} | {row.size / 1e6:,.0f} | {row.seconds:.1f} | {rate} | {peak} |"
        )
    picture = f"![Memory of a replay by the length of the log]({PICTURE})"
    return "\n".join([*lines, "", picture, "", machine(), ""])


def plot(rows: Sequence[Row]) -> str:
    points = [(float(row.events), row.peak) for row in rows]
    highest = 20 * math.ceil(max(row.peak for row in rows) / 15)
    return line_plot(
        {"one process": points}, across="events", up="MB of memory at most", highest=highest
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="What a replay of a decision log costs")
    parser.add_argument("lengths", nargs="*", type=int, metavar="EVENTS")
    parser.add_argument("--markdown", type=Path, help="write the figures and the plot")
    options = parser.parse_args(arguments)
    rows = []
    for length in options.lengths or (MILLION, 10 * MILLION):
        rows.append(replayed(length))
        print(rows[-1], f"{rows[-1].rate:,.0f} events a second and core", flush=True)
    if options.markdown:
        put(options.markdown, page(rows), "replayed")
        options.markdown.with_name(PICTURE).write_text(plot(rows))
    return 0


def measured(log: Path, policy: list[str]) -> tuple[dict[str, Any], float, float]:
    """The report of one process, the CPU seconds that it took, and its peak memory in MB."""
    policies = [word for path in policy for word in ("--policy", path)]
    command = [sys.executable, "-m", "doorward", "replay", "--log", str(log), *policies]
    code = (
        "import resource, subprocess, sys, json; "
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, check=True); "
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); "
        "seconds, peak = used.ru_utime + used.ru_stime, used.ru_maxrss; "
        "print(json.dumps([json.loads(done.stdout), seconds, peak]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command, "--format", "json", "--parallel", "1"],
        stdout=subprocess.PIPE,
        check=True,
    )
    report, seconds, peak = json.loads(done.stdout)
    return report, seconds, peak / 1024


def write_log(path: Path, length: int) -> int:
    """So many events, in blocks that repeat; how many bytes those are when they are read."""
    block = "".join(json.dumps(event) + "\n" for event in events(min(length, BLOCK))).encode()
    stored = gzip.compress(block, 1) if path.suffix == ".gz" else block
    times = max(1, length // BLOCK)
    with path.open("wb") as file:
        for _ in range(times):
            file.write(stored)
    return len(block) * times


def events(number: int) -> Iterator[dict[str, Any]]:
    """Events of the people policy with their recorded answers."""
    case = people()
    query = Engine({"policy.rego": case.source}, case.data).prepare(case.query)
    tokens = [signed_token(claims(each), SECRET) for each in range(TOKENS)]
    for index in range(number):
        document: Any = copy.deepcopy(case.input)
        http = document["attributes"]["request"]["http"]
        http["headers"]["authorization"] = f"Bearer {tokens[index % TOKENS]}"
        http["method"] = ("GET", "POST", "DELETE")[index % 3]
        seconds = START + index // 10
        second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        yield {
            "decision_id": f"00000000-0000-4000-8000-{index:012d}",
            "input": document,
            "labels": {"id": "benchmark", "version": "0"},
            "level": "info",
            "metrics": {"timer_rego_query_eval_ns": 8000, "timer_server_handler_ns": 20000},
            "msg": "Decision Log",
            "path": "envoy/authz/allow",
            "result": query.value(document, now_ns=seconds * 1_000_000_000),
            "time": f"{second}Z",
            "timestamp": f"{second}.000000000Z",
            "type": "openpolicyagent.org/decision_logs",
        }


def claims(number: int) -> dict[str, Any]:
    """What the token of a user says."""
    role = "admin" if number % 2 else "guest"
    return {"role": role, "sub": "Ym9i", "nbf": number, "exp": 1 << 32}


if __name__ == "__main__":
    raise SystemExit(main())
