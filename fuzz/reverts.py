"""Whether the fuzzer finds a defect again when its fix is taken back.

    python fuzz/reverts.py [--seconds 600] COMMIT...

For each commit, the same programs are put to the engine as it was with the commit and before it,
until one differs from the oracle before it only. Prints how long the earlier engine and the oracle
took for that, and how many programs. The exit code is 1 if a defect was not found in time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORKER = """
import json, sys
sys.path.insert(0, sys.argv[1])
from fuzz.compare import RefusedError, compare
from fuzz.grammar import generate
for line in sys.stdin:
    name = line.strip()
    try:
        difference = compare(generate(name))
    except RefusedError:
        difference = None
    print(json.dumps(difference and difference.kind), flush=True)
"""


class Worker:
    """The engine of one tree, asked by the fuzzer and the oracle of this one."""

    def __init__(self, tree: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(ROOT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree / "src")},
        )

    def kind(self, name: str) -> str | None:
        """How the program `name` differs; None if it does not."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        kind: str | None = json.loads(self.process.stdout.readline())
        return kind

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def git(*arguments: str, at: Path = ROOT, given: str | None = None) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=at, input=given, capture_output=True, text=True, check=True
    )
    return done.stdout


def first_found(fixed: Path, broken: Path, seconds: float, seed: str) -> tuple[float, int, str]:
    """Seconds, programs and what differs; "" if nothing did in time."""
    with_fix, without = Worker(fixed), Worker(broken)
    spent, number = 0.0, 0
    try:
        while spent < seconds:
            name = f"{seed}-{number}"
            number += 1
            start = time.monotonic()
            kind = without.kind(name)
            spent += time.monotonic() - start
            if kind is not None and with_fix.kind(name) is None:
                return spent, number, f"{name}: {kind}"
        return spent, number, ""
    finally:
        with_fix.close()
        without.close()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commits", nargs="+")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", default="revert")
    options = parser.parse_args()
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        fixed, broken = Path(folder) / "fixed", Path(folder) / "broken"
        try:
            for tree in (fixed, broken):
                git("worktree", "add", "--quiet", "--detach", str(tree))
            for commit in options.commits:
                subject = git("log", "-1", "--format=%h %s", commit).strip()
                git("checkout", "--quiet", "--detach", commit, at=fixed)
                git("checkout", "--quiet", "--detach", f"{commit}^", at=broken)
                spent, number, difference = first_found(
                    fixed, broken, options.seconds, options.seed
                )
                outcome = difference or "not found"
                print(f"{subject}: {spent:.0f} s, {number} programs: {outcome}", flush=True)
                missed += not difference
        finally:
            for tree in (fixed, broken):
                git("worktree", "remove", "--force", str(tree))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
