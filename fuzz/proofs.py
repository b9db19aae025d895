"""Random policies about which a proof, a comparison or a list of subjects is wrong.

    python fuzz/proofs.py [--programs 10000] [--seed 0]

Each program's answers of `doorward prove`, `diff` and `who-can` are compared with what the engine
decides for all inputs of a small universe. Prints how many answers of each kind there were, and
each that an input contradicts; the exit code is 1 if there was one.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.search.proofs.comparing import Comparison

REPORT = 100
"""Programs between two reports."""


def report(comparison: Comparison, seconds: float) -> str:
    """The number of answers of each kind, on one line."""
    counts = ", ".join(f"{n} {kind}" for kind, n in sorted(comparison.answers.items()))
    return f"{seconds:.0f} s: {counts}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compare proofs with all inputs of a universe")
    parser.add_argument("--programs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    options = parser.parse_args(arguments)
    comparison = Comparison()
    printed = 0
    began = time.process_time()
    for number in range(options.programs):
        comparison.compare(options.seed + number)
        for line in comparison.wrong[printed:]:
            print(line, flush=True)
        printed = len(comparison.wrong)
        if (number + 1) % REPORT == 0:
            print(report(comparison, time.process_time() - began), flush=True)
    print(report(comparison, time.process_time() - began))
    return 1 if comparison.wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
