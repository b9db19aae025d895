"""What a replay costs: decisions a second and core, and memory against the length of the log.

    python benchmarks/replay.py [EVENTS ...]        # default: 20000 and 200000 events

The log is that of the people policy: a hundred tokens, all three methods, written as `doorward run`
writes it, with the tokens in it. It is rebuilt in a temporary folder for each length.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.case import signed_token
from benchmarks.cases import EXAMPLE, SECRET, people
from doorward.rego import Engine

BLOCK = 10_000
TOKENS = 100
START = 1_800_000_000


def main(lengths: list[int]) -> None:
    print(f"{'events':>10}  {'MB':>6}  {'CPU s':>7}  {'events/s of CPU':>15}  {'peak MB':>7}")
    for length in lengths:
        with tempfile.TemporaryDirectory() as folder:
            log, secrets = Path(folder, "log.jsonl"), Path(folder, "secrets.json")
            secrets.write_text(json.dumps({"secrets": {"jwt": SECRET}}))
            write_log(log, length)
            report, seconds, peak = measured(log, [str(EXAMPLE), str(secrets)])
            assert report["kinds"]["unchanged"] == length, report["kinds"]
            size = log.stat().st_size / 1e6
            rate = length / seconds
            print(f"{length:>10,}  {size:>6.0f}  {seconds:>7.2f}  {rate:>15,.0f}  {peak:>7.0f}")


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


def write_log(path: Path, length: int) -> None:
    """So many events, in blocks that repeat."""
    block = "".join(json.dumps(event) + "\n" for event in events(min(length, BLOCK)))
    with path.open("w") as file:
        for _ in range(max(1, length // BLOCK)):
            file.write(block)


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
    main([int(each) for each in sys.argv[1:]] or [20_000, 200_000])
