"""Whether the fuzzer finds a defect again when its fix is taken back.

    python fuzz/reverts.py [--seconds 600] [NUMBER...]

Each fix of `reverts.toml` is taken back in a copy of the tree as it is, and programs are put to
both until one differs from the oracle in the copy only. Prints how many seconds of processor time
the copy and the oracle took for that, and how many programs. The exit code is 1 if a defect was
not found in time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src"
WORKER = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
if sys.argv[2] == "programs":
    from fuzz.compare import RefusedError, compare
    from fuzz.grammar import generate
    def ask(name):
        try:
            return compare(generate(name))
        except RefusedError:
            return None
else:
    from fuzz.builtins import OPERANDS, difference, operands
    def ask(name):
        return next((d for n in OPERANDS if (d := difference(n, operands(n, name)))), None)
for line in sys.stdin:
    start = time.process_time()
    found = ask(line.strip())
    kind = getattr(found, "kind", found)
    print(json.dumps([kind, time.process_time() - start]), flush=True)
"""


@dataclass(frozen=True)
class Revert:
    """A fix, and the edits that take it back: file below the package, what is there, what was."""

    number: int
    what: str
    builtins: bool
    edits: tuple[tuple[str, str, str], ...]

    def apply(self, sources: Path) -> None:
        """Take the fix back in a copy of the sources; ValueError where a text is not there once."""
        for file, old, new in self.edits:
            path = sources / "doorward" / file
            text = path.read_text(encoding="utf-8")
            if text.count(old) != 1:
                raise ValueError(f"fix {self.number}: {file} has {text.count(old)} of {old!r}")
            path.write_text(text.replace(old, new), encoding="utf-8")


def reverts() -> list[Revert]:
    """The fixes of `reverts.toml`."""
    rows: list[dict[str, Any]] = tomllib.loads(
        (ROOT / "fuzz" / "reverts.toml").read_text(encoding="utf-8")
    )["revert"]
    return [
        Revert(
            row["number"],
            row["what"],
            row.get("builtins", False),
            tuple((edit["file"], edit["old"], edit["new"]) for edit in row["edit"]),
        )
        for row in rows
    ]


class Worker:
    """The engine of some sources, asked by the fuzzer and the oracle of this tree."""

    def __init__(self, sources: Path, *, builtins: bool) -> None:
        kind = "builtins" if builtins else "programs"
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(ROOT), kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=sources,
            env={**os.environ, "PYTHONPATH": str(sources)},
        )

    def kind(self, name: str) -> tuple[str | None, float]:
        """How the program `name` differs, None if it does not; seconds of processor time."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        kind, seconds = json.loads(self.process.stdout.readline())
        return kind, seconds

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def first_found(revert: Revert, seconds: float, seed: str) -> tuple[float, int, str]:
    """Seconds, programs and what differs; "" if nothing did in time."""
    with tempfile.TemporaryDirectory() as folder:
        broken = Path(folder) / "src"
        shutil.copytree(SOURCES, broken, ignore=shutil.ignore_patterns("__pycache__"))
        revert.apply(broken)
        with_fix = Worker(SOURCES, builtins=revert.builtins)
        without = Worker(broken, builtins=revert.builtins)
        spent, number = 0.0, 0
        try:
            while spent < seconds:
                name = f"{seed}-{number}"
                number += 1
                kind, taken = without.kind(name)
                spent += taken
                if kind is not None and with_fix.kind(name)[0] is None:
                    return spent, number, f"{name}: {kind}"
            return spent, number, ""
        finally:
            with_fix.close()
            without.close()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("numbers", nargs="*", type=int, help="of fixes; all unless given")
    parser.add_argument("--seconds", type=float, default=600.0, help="of processor time, for each")
    parser.add_argument("--seed", default="revert")
    options = parser.parse_args()
    missed = 0
    for revert in reverts():
        if options.numbers and revert.number not in options.numbers:
            continue
        spent, tried, difference = first_found(revert, options.seconds, options.seed)
        outcome = difference or "not found"
        unit = "rounds of calls" if revert.builtins else "programs"
        print(
            f"{revert.number} {revert.what}: {spent:.0f} s, {tried} {unit}: {outcome}", flush=True
        )
        missed += not difference
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
