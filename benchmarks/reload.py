"""A change of a policy -> the seconds until decisions are made by it, at rest and under load.

The decision point is in this process. Under load threads decide without a pause, which is more than
any server does: each of them wants the interpreter all the time. Files change once in a while, or
all the time.

python benchmarks/reload.py [--changes 20] [--threads 10] [--files 1]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from doorward.bundles.sources import Sources
from doorward.pdp.pdp import PDP
from doorward.pdp.reload import Watcher
from doorward.pdp.snapshot import Snapshot, read
from doorward.telemetry.health import Health

PEOPLE = Path(__file__).resolve().parent.parent / "examples/people/policy.rego"
LATEST = 60.0


class Point:
    """A decision point over a folder of policies, of which one says which version is in force."""

    def __init__(self, folder: Path, files: int) -> None:
        self.folder = folder
        for number in range(files):
            text = PEOPLE.read_text().replace("package envoy.authz", f"package p{number}")
            (folder / f"p{number}.rego").write_text(text)
        self.write(0)
        self.pdp = PDP(self.read())
        paths = (str(folder),)
        self.watcher = Watcher(
            Sources(paths).files,
            lambda: self.read(self.pdp.snapshot),
            self.pdp.replace,
            health=Health(),
            building=self.pdp.build_gate.building,
        )

    def read(self, before: Snapshot | None = None) -> Snapshot:
        return read([str(self.folder)], before=before)

    def write(self, version: int) -> None:
        """As editors and ConfigMaps do: by renaming."""
        new = self.folder / "version.new"
        new.write_text(f"package version\n\nnumber := {version}\n")
        new.rename(self.folder / "version.rego")

    @property
    def version(self) -> int:
        result = self.pdp.decide("version/number").result
        assert isinstance(result, int)
        return result


@contextmanager
def repeated(count: int, work: Callable[[], object]) -> Iterator[None]:
    """`work` again and again, in `count` threads."""
    end = threading.Event()

    def run() -> None:
        while not end.is_set():
            work()

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        end.set()
        for thread in threads:
            thread.join()


def measure(point: Point, changes: int, first: int) -> list[float]:
    """The seconds from each change to the first decision by it."""
    seconds = []
    for version in range(first, first + changes):
        begin = time.monotonic()
        point.write(version)
        while point.version < version and time.monotonic() - begin < LATEST:
            time.sleep(0.005)
        seconds.append(time.monotonic() - begin)
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description="how long a change takes to come into force")
    parser.add_argument("--changes", type=int, default=20)
    parser.add_argument("--threads", type=int, default=10)
    parser.add_argument("--files", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        point = Point(Path(folder), options.files)
        point.watcher.start()
        first = 1

        def write_neighbour() -> None:
            (Path(folder) / "data.json").write_text(f'{{"now": {time.monotonic()}}}')
            time.sleep(0.02)

        for name, deciding, writing in (
            ("at rest", 0, 0),
            ("neighbours change all the time", 0, 1),
            (f"{options.threads} threads decide", options.threads, 0),
            (f"{options.threads} threads decide, neighbours change", options.threads, 1),
        ):
            decide = repeated(deciding, lambda: point.pdp.decide("p0/allow", {"a": 1}))
            with decide, repeated(writing, write_neighbour):
                seconds = measure(point, options.changes, first)
            first += options.changes
            print(
                f"{name:45} median {statistics.median(seconds):6.2f} s   max {max(seconds):6.2f} s"
            )
        point.watcher.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
