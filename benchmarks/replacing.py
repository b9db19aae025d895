"""A snapshot that is replaced -> how long the Checks take that come meanwhile.

    python -m benchmarks.replacing [--rounds 5] [--rules 1000] [--megabytes 53] [--only TEXT]

A server is asked one Check after the other, a millisecond apart, while the file of its policy, or
its bundle with much data, is replaced by another version. What counts are the Checks from the
change until half a second after the first answer by the new version, which is asked for over
HTTP. The client is another process than the server, and shares its processors.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import http1_load
from benchmarks.cases import CASES
from benchmarks.large_data import document
from benchmarks.served import Server, started
from benchmarks.served_loads import GrpcLoad
from benchmarks.start import policy

__all__ = ["Meanwhile", "bundle", "main", "replaced"]

PAUSE: Final = 0.001
AFTERWARDS: Final = 0.5
LATEST: Final = 120.0
OBJECT_BYTES: Final = 950
"""About what an object of the large document takes as JSON."""
VERSION: Final = http1_load.request_bytes("GET", "/v1/data/version/number")
HEADER: Final = (
    f"{'milliseconds of a Check meanwhile':40} {'p50':>7} {'p99':>7} {'worst':>7} {'s':>6}"
)


@dataclass(slots=True)
class Meanwhile:
    """What was measured of one change: milliseconds of Checks, and seconds until it was there."""

    times: list[float]
    seconds: float

    def row(self) -> str:
        """The row for a terminal."""
        times = sorted(self.times)
        p99 = times[int(len(times) * 0.99)]
        figures = f"{statistics.median(times):7.2f} {p99:7.1f} {times[-1]:7.1f}"
        return f"{figures} {self.seconds:6.2f} ({len(times)} Checks)"


def rules(count: int, version: int) -> bytes:
    """The policy of so many rules, in a bundle with a version."""
    return bundle({"policy.rego": policy(count).encode()}, version)


def bundle(files: dict[str, bytes], version: int) -> bytes:
    """A bundle with a package that has its version."""
    files = files | {"version.rego": f"package version\n\nnumber := {version}\n".encode()}
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz", compresslevel=1) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return target.getvalue()


def replaced(
    path: Path, content: bytes, check: Callable[[], None], version: Callable[[], int], number: int
) -> Meanwhile:
    """Write another version of a file, as editors do: by renaming; and ask meanwhile."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    times: list[float] = []
    begun = time.monotonic()
    new.rename(path)
    seconds = 0.0
    while not seconds or time.monotonic() - begun < seconds + AFTERWARDS:
        started = time.perf_counter()
        check()
        times.append((time.perf_counter() - started) * 1000)
        now = time.monotonic() - begun
        if now > LATEST:
            raise SystemExit(f"{path.name} is not replaced within {LATEST:.0f} s")
        if not seconds and len(times) % 10 == 0 and version() == number:
            seconds = now
        time.sleep(PAUSE)
    return Meanwhile(times, seconds)


def measure(make: Callable[[int], bytes], rounds: int) -> list[Meanwhile]:
    """The changes of a server's bundle, one after the other."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file, socket = folder / "bundle.tar.gz", folder / "socket"
        file.write_bytes(make(0))
        server = Server(
            "doorward",
            (
                *(sys.executable, "-m", "doorward", "run", "--server", "--log-level", "error"),
                *("--addr", f"unix://{socket}", "--bundle", str(file)),
                *("--set", f"plugins.envoy_ext_authz_grpc.addr=unix://{socket}.grpc"),
                *("--set", "plugins.envoy_ext_authz_grpc.path=envoy/authz/allow"),
            ),
        )
        with started(server, folder, socket):
            load = GrpcLoad(f"{socket}.grpc", 1)
            connections = http1_load.Connections(str(socket), [VERSION], 1)

            def version() -> int:
                return int(json.loads(connections.run(1)[0]).get("result", -1))

            try:
                load.run(200)
                return [
                    replaced(file, make(number), lambda: _check(load), version, number)
                    for number in range(1, rounds + 1)
                ]
            finally:
                load.close()
                connections.close()


def _check(load: GrpcLoad) -> None:
    load.run(1)


def main(arguments: list[str] | None = None) -> int:
    """Print a row for each change."""
    parser = argparse.ArgumentParser(description="how long Checks take while a bundle is replaced")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rules", type=int, default=1_000)
    parser.add_argument("--megabytes", type=float, default=53)
    parser.add_argument("--only", default="", help="works whose name holds this")
    options = parser.parse_args(arguments)
    objects = int(options.megabytes * 1_000_000 / OBJECT_BYTES)
    people = CASES["people"]().source.encode()

    def data(version: int) -> bytes:
        content = {"users": document(objects), "version_of_data": version}
        files = {"policy.rego": people, "data.json": json.dumps(content).encode()}
        return bundle(files, version)

    print(HEADER)
    works = {
        f"{options.rules:,} rules": lambda number: rules(options.rules, number),
        f"a bundle of {options.megabytes:.0f} MB of data": data,
    }
    for name, make in works.items():
        if options.only in name:
            for change in measure(make, options.rounds):
                print(f"{name:40} {change.row()}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
