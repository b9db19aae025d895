"""What a large document of base data takes in memory: its parts, a server, and workers.

python -m benchmarks.large_data --objects 100000 --workers 2

The document has objects of ten members, nested three deep. Numbers are multiples of its text:
settled and at the peak, above the same process without it. `json` and `orjson` are what Python's
own dicts take. Workers are counted by their share (PSS), all processes together.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from random import Random
from socket import AF_UNIX
from socket import socket as Socket
from typing import Any

READ = """
import gc, json, sys
from pathlib import Path
def lines(name):
    return dict(line.split(":", 1) for line in Path(name).read_text().splitlines() if ":" in line)
def now():
    status = lines("/proc/self/status")
    return [int(status[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM")]
{load}
before = now()[0]
content = Path(sys.argv[1]).read_bytes()
value = read(content)
del content
gc.collect()
print(json.dumps([each - before for each in now()]))
"""
READERS = {
    "json": "from json import loads as read",
    "orjson": "from orjson import loads as read",
    "doorward": "from doorward.rego.golang import read_data as read",
}
POLICY = "package p\n\nallow if data.users[input.user].active\n"


def document(objects: int) -> dict[str, Any]:
    chance = Random(1)
    return {
        f"user{number:06d}": {
            "active": number % 2 == 0,
            **{
                f"member{each}": {
                    "inner": {
                        "deep": f"value {number} {each} {chance.randbytes(15).hex()}",
                        "n": number * each,
                        "f": number / 7,
                    }
                }
                for each in range(9)
            },
        }
        for number in range(objects)
    }


def parsed(path: Path, reader: str) -> tuple[float, float]:
    """What a process takes that reads the text and keeps the value."""
    code = READ.format(load=READERS[reader])
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    settled, peak = json.loads(done.stdout)
    return settled, peak


def pids(parent: int) -> list[int]:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [parent, *map(int, children)]


def kilobytes(path: Path, name: str) -> int:
    (line,) = [line for line in path.read_text().splitlines() if line.startswith(f"{name}:")]
    return int(line.split()[1])


def answers(path: str) -> bool:
    with Socket(AF_UNIX) as caller:
        try:
            caller.connect(path)
            caller.sendall(b"GET /health?plugins HTTP/1.0\r\n\r\n")
            return b" 200 " in caller.recv(64)
        except OSError:
            return False


def served(*arguments: str) -> tuple[float, float, float]:
    """Of a server: bytes settled (the share of all processes), peak of the first one, and its
    seconds of CPU until it answers."""
    with tempfile.TemporaryDirectory() as name:
        address = f"{name}/socket"
        command = [sys.executable, "-m", "doorward", "run", "--server", "--log-level=error"]
        process = subprocess.Popen([*command, f"--addr=unix://{address}", *arguments])
        try:
            until = time.monotonic() + 300
            while not answers(address) and time.monotonic() < until:
                time.sleep(0.1)
            time.sleep(2)
            status = Path(f"/proc/{process.pid}/status")
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            rollups = [Path(f"/proc/{pid}/smaps_rollup") for pid in pids(process.pid)]
            shares = [kilobytes(each, "Pss") for each in rollups]
            return sum(shares) * 1024, kilobytes(status, "VmHWM") * 1024, cpu
        finally:
            process.terminate()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        empty, full = Path(name) / "empty", Path(name) / "full"
        for each in (empty, full):
            each.mkdir()
            (each / "p.rego").write_text(POLICY)
        path = full / "data.json"
        path.write_text(json.dumps({"users": document(options.objects)}))
        size = path.stat().st_size
        print(f"{options.objects:,} objects, {size / 1e6:.0f} MB of text\n")
        print("| what | settled | peak | CPU s |\n|---|---|---|---|")
        for reader in READERS:
            settled, peak = parsed(path, reader)
            print(f"| parsed by {reader} | {settled / size:.2f} | {peak / size:.2f} | |")
        archive = f"{name}/bundle.tar.gz"
        with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
            packed.add(full, ".")
        workers = f"--workers={options.workers}"
        for what, before, after in (
            ("one process", [str(empty)], [str(full)]),
            ("one process, from a bundle", [str(empty)], ["--bundle", archive]),
            (f"{options.workers} workers", [workers, str(empty)], [workers, str(full)]),
        ):
            first, second = served(*before), served(*after)
            settled, peak, cpu = (b - a for a, b in zip(first, second, strict=True))
            print(f"| served by {what} | {settled / size:.2f} | {peak / size:.2f} | {cpu:.1f} |")


if __name__ == "__main__":
    main()
