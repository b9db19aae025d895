"""Policies of many rules -> what a server takes until it is ready, and its first decisions.

    python -m benchmarks.start [--rules 1 1000 10000] [--rounds 3] [--markdown docs/performance.md]

The rules are ordinary ones: a default, an alias for a part of the input, and `allow` with two
conditions each, half of them `startswith`. CPU is of the server's process, from its start until
`/health` answers; then the same question is asked twice, which must take the same time. Next to it
OPA's engine compiles the same policy and answers once, in this process (`fuzz/opa_engine.py`):
OPA's server does that and starts. `--markdown` writes the rows between two marks of that page.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.page import machine, put
from fuzz.opa_engine import Library, library

__all__ = ["Start", "main", "policy"]

INPUT: Final = {"attributes": {"request": {"http": {"method": "GET", "path": "/none"}}}}
PATH: Final = "/v1/data/envoy/authz/allow"
LATEST: Final = 120.0
LEAST: Final = 0.02

HEAD: Final = """Written by `python -m benchmarks.start --markdown docs/performance.md`: CPU seconds
of a server until it is ready, byte code cached, least of {rounds} starts, and milliseconds of its
first and second decision. *OPA's engine* is OPA 1.20.2 compiling the same rules and answering once,
without a server.
{machine}

| rules | ready | first decision | second | memory MB | OPA's engine | ready / OPA's engine |
|---|---|---|---|---|---|---|
"""


@dataclass(slots=True)
class Start:
    """What one server took: CPU seconds, milliseconds of two decisions, MB of memory."""

    ready: float
    first: float
    second: float
    memory: float


def policy(rules: int) -> str:
    """So many rules for requests, half of them with a prefix."""
    text = (
        "package envoy.authz\n\ndefault allow := false\n\nhttp := input.attributes.request.http\n"
    )
    for n in range(rules):
        path = f'http.path == "/svc{n}/items"' if n % 2 else f'startswith(http.path, "/svc{n}/")'
        method = "GET" if n % 3 else "POST"
        text += f'\nallow if {{\n\thttp.method == "{method}"\n\t{path}\n}}\n'
    return text


def start(file: Path, address: Path, environment: dict[str, str]) -> Start:
    """Start a server, ask it twice, and end it."""
    command = [str(Path(sys.executable).parent / "doorward"), "run", "--server"]
    command += ["--addr", f"unix://{address}", str(file)]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + LATEST
        while not _is_ready(address):
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{' '.join(command)} does not start")
            time.sleep(0.02)
        ready = _cpu(process.pid)
        first, second = _decide(address), _decide(address)
        return Start(ready, first, second, _memory(process.pid))
    finally:
        process.terminate()
        process.wait()
        address.unlink(missing_ok=True)


def _ask(address: Path, method: str, path: str, body: Any = None) -> int:
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    try:
        connection.sock.connect(str(address))
        connection.request(method, path, None if body is None else json.dumps(body))
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


def _is_ready(address: Path) -> bool:
    try:
        return _ask(address, "GET", "/health") == 200
    except OSError:
        return False


def _decide(address: Path) -> float:
    begin = time.perf_counter()
    if _ask(address, "POST", PATH, {"input": INPUT}) != 200:
        raise SystemExit("the server does not decide")
    return (time.perf_counter() - begin) * 1000


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith("VmRSS"))


def opa(text: str) -> float:
    """CPU seconds in which OPA's engine compiles a policy and answers once."""
    bridge = Library(str(library()))
    handle = bridge.new()
    try:
        begin = time.process_time()
        bridge.call("AddPolicy", handle, b"policy.rego", text.encode())
        query, value = b"data.envoy.authz.allow", json.dumps(INPUT).encode()
        answer = bridge.call("EvalQuery", handle, query, value, 0, 0)
        seconds = time.process_time() - begin
    finally:
        bridge.destroy(handle)
    if '"value":false' not in answer.replace(" ", ""):
        raise SystemExit(f"OPA does not decide: {answer[:200]}")
    return seconds


def measure(counts: list[int], rounds: int) -> Iterator[str]:
    """The rows of the table; ours and theirs take turns."""
    with tempfile.TemporaryDirectory() as name:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": f"{name}/bytecode"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        file, address = Path(name) / "policy.rego", Path(name) / "socket"
        file.write_text(policy(1))
        start(file, address, environment)  # fills the cache of byte code
        for count in counts:
            text = policy(count)
            file.write_text(text)
            turns = [(start(file, address, environment), opa(text)) for _ in range(rounds)]
            yield row(count, [each for each, _ in turns], min(theirs for _, theirs in turns))


def row(count: int, starts: list[Start], theirs: float) -> str:
    """A row of the table: the least of each figure."""
    ready = min(each.ready for each in starts)
    first, second = (min(getattr(s, name) for s in starts) for name in ("first", "second"))
    memory = min(each.memory for each in starts)
    cells = [f"{count:,}", f"{ready:.2f}", f"{first:.1f}", f"{second:.1f}", f"{memory:.0f}"]
    # Of one rule the engine takes nothing that could be compared.
    cells += [f"{theirs:.2f}", f"{ready / theirs:.1f}" if theirs >= LEAST else ""]
    return f"| {' | '.join(cells)} |"


def main(given: list[str] | None = None) -> int:
    """Print the rows, and write them into a page."""
    parser = argparse.ArgumentParser(description="what a server takes until it is ready")
    parser.add_argument("--rules", type=int, nargs="+", default=[1, 1_000, 10_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--markdown", type=Path, help="the page to write the rows into")
    options = parser.parse_args(given)
    head = HEAD.format(rounds=options.rounds, machine=machine())
    lines = []
    for line in measure(options.rules, options.rounds):
        print(line, flush=True)
        lines.append(f"{line}\n")
    if options.markdown is not None:
        put(options.markdown, head + "".join(lines), "start")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
