"""Clients that reset, stall and flood one server: it answers others, and ends with its memory.

    python fuzz/flood.py [--seconds 600] [--seed 0]

A server of `doorward run` decides on Checks at a Unix socket. Each of a few hostile clients opens
connections and does one thing wrong on each: it resets what it asked for, sends heads without
messages, stops in the middle of a frame, floods with frames of every kind, leaves no window for
answers, never reads, or goes away. Another client asks all the time, and must be answered. The
memory (RSS) after a first minute and at the end is printed; a growth of more than `GROWTH` ends
the run with 1, and so does a Check that is not answered in `PATIENCE` seconds.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.transport.http2.frames import data, frame, headers, reset, settings, window_update

from benchmarks import http2_load
from benchmarks.cases import CASES
from benchmarks.check_server import METHOD, request_bytes
from doorward.transport.http2.codes import FrameType, Setting
from doorward.transport.http2.connection import PREFACE
from doorward.transport.http2.hpack import Header

GROWTH: Final = 1.10
"""Times the memory after the first tenth of the run: what caches and the allocator may take."""
PATIENCE: Final = 10.0
CLIENTS: Final = 4
CALL: Final[list[Header]] = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", METHOD.encode()),
    (b":authority", b"localhost"),
    (b"te", b"trailers"),
    (b"content-type", b"application/grpc"),
]
CHECK: Final = request_bytes(CASES["people"]())
MESSAGE: Final = b"\0" + len(CHECK).to_bytes(4, "big") + CHECK
ROW: Final = range(1, 201, 2)

Attack = Callable[[random.Random], bytes]
ATTACKS: Final[dict[str, Attack]] = {
    "resets": lambda rng: b"".join(
        headers(n, CALL) + data(n, MESSAGE, end=rng.random() < 0.5) + reset(n) for n in ROW
    ),
    "heads without messages": lambda _rng: b"".join(headers(n, CALL) for n in ROW),
    "half a frame": lambda rng: (headers(1, CALL) + data(1, MESSAGE))[: rng.randrange(9, 200)],
    "settings": lambda _rng: settings((Setting.INITIAL_WINDOW_SIZE, 5)) * 900,
    "pings": lambda rng: frame(FrameType.PING, 0, 0, rng.randbytes(8)) * 900,
    "empty data": lambda _rng: headers(1, CALL) + data(1, end=False) * 900,
    "no window": lambda _rng: (
        settings((Setting.INITIAL_WINDOW_SIZE, 0))
        + b"".join(headers(n, CALL) + data(n, MESSAGE) for n in ROW)
    ),
    "small windows": lambda _rng: (
        settings((Setting.INITIAL_WINDOW_SIZE, 1))
        + b"".join(headers(n, CALL) + data(n, MESSAGE) + window_update(n, 1) * 5 for n in ROW)
    ),
    "names": lambda rng: b"".join(
        headers(n, [*CALL, (rng.randbytes(20).hex().encode(), rng.randbytes(500).hex().encode())])
        + data(n, MESSAGE)
        for n in ROW
    ),
    "continuations": lambda _rng: (
        frame(FrameType.HEADERS, 0, 1, b"\x82") + frame(FrameType.CONTINUATION, 0, 1, b"") * 900
    ),
    "large messages": lambda rng: (
        headers(1, CALL) + b"".join(data(1, rng.randbytes(16_000), end=False) for _ in range(20))
    ),
    "random bytes": lambda rng: rng.randbytes(rng.randrange(1, 5000)),
}


class Attacker:
    """One thread of hostile connections, until it is told to stop."""

    def __init__(self, path: str, seed: int) -> None:
        self._path = path
        self._rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        stalled: list[socket.socket] = []
        while not self._stop.wait(0.01):
            name = self._rng.choice(list(ATTACKS))
            end = socket.socket(socket.AF_UNIX)
            end.settimeout(0.2)
            with suppress(OSError):
                end.connect(self._path)
                end.sendall(PREFACE + settings() + ATTACKS[name](self._rng))
                self.counts[name] += 1
                if self._rng.random() < 0.3:
                    while end.recv(1 << 16):
                        pass
            # A few connections stay open without a word; the oldest of them goes.
            stalled.append(end)
            if len(stalled) > self._rng.randrange(40):
                stalled.pop(self._rng.randrange(len(stalled))).close()
        for each in stalled:
            each.close()


def memory(pid: int) -> float:
    """Megabytes that the process holds (RSS)."""
    text = Path(f"/proc/{pid}/status").read_text()
    match = re.search(r"VmRSS:\s+(\d+)", text)
    assert match is not None
    return int(match[1]) / 1024


def serve(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    case = CASES["people"]()
    (folder / "policy.rego").write_text(case.source)
    path = str(folder / "grpc")
    plugin = "plugins.envoy_ext_authz_grpc"
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "doorward", "run", "--server", "--log-level", "error"),
            *("--addr", f"unix://{folder}/http", "--set", f"{plugin}.addr=unix://{path}"),
            *("--set", f"{plugin}.path=envoy/authz/allow", str(folder / "policy.rego")),
        ],
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + 60
    while not os.path.exists(path):
        if server.poll() is not None or time.monotonic() > until:
            raise RuntimeError("the server does not start")
        time.sleep(0.05)
    return server, path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        server, path = serve(Path(temporary))
        try:
            return flood(server.pid, path, options.seconds, options.seed)
        finally:
            server.terminate()
            server.wait()


def flood(pid: int, path: str, seconds: float, seed: int) -> int:
    attackers = [Attacker(path, seed * CLIENTS + number) for number in range(CLIENTS)]
    begun = time.monotonic()
    first = longest = 0.0
    answered = reconnected = 0
    good: http2_load.Connection | None = None
    while (now := time.monotonic()) - begun < seconds:
        if not first and now - begun > seconds / 10:
            first = memory(pid)
            print(f"{first:.1f} MB after {now - begun:.0f} s", flush=True)
        try:
            good = good or http2_load.Connection(Path(path), METHOD, CHECK)
            good.run(20, 4)
        except OSError:
            # With all connections at work the server may close any that is idle.
            good, reconnected = None, reconnected + 1
        else:
            answered += 20
        longest = max(longest, time.monotonic() - now)
        if longest > PATIENCE:
            print(f"a Check took {longest:.1f} s")
            return 1
        time.sleep(0.05)
    for each in attackers:
        each.stop()
    last = memory(pid)
    counts = sum((each.counts for each in attackers), Counter[str]())
    print(f"{last:.1f} MB at the end; {answered} Checks, the slowest 20 in {longest:.2f} s")
    print(f"{sum(counts.values())} hostile connections; reconnected {reconnected} times")
    return 0 if last <= first * GROWTH else 1


if __name__ == "__main__":
    sys.exit(main())
