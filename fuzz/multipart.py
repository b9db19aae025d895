"""Multipart bodies without end: what strict mode lets pass, every reader reads as the policy does.

    python fuzz/multipart.py [--seconds 60] [--seed 0]

The first body that Werkzeug, Django, Starlette or python-multipart reads otherwise ends the run.
`make test` reads some thousand bodies of one seed.
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.enforcement.forms import disagreeing, mutated

from doorward.enforcement.errors import AmbiguousRequestError
from doorward.enforcement.strict_multipart import check_multipart


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--bodies", type=int, help="end after so many")
    options = parser.parse_args()
    ends = time.monotonic() + options.seconds
    read = passed = 0
    for body in islice(mutated(options.seed), options.bodies):
        if time.monotonic() > ends:
            break
        read += 1
        try:
            parts = check_multipart("BB", body)
        except AmbiguousRequestError:
            continue
        passed += 1
        if readers := disagreeing(parts, body):
            sys.stdout.write(f"{readers} read otherwise: {body!r}\n")
            return 1
    sys.stdout.write(f"{read} bodies of seed {options.seed}, {passed} passed, all readers agreed\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
