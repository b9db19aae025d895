"""Random programs and mutated policies, answered by Doorward and by the engine of OPA 1.20.2.

    python fuzz/newest.py [--seconds 60 | --programs N] [--seed 1] [--keep FOLDER]
                          [--policies FOLDER ...]

Half of the programs are mutations of real policies: those of this repository, or of the folders
that are given; a quarter have the shapes of `fuzz/shapes.py`. Prints every difference, with the
program made as small as it can be; the exit code is 1 if there was one. The engine is downloaded
where it is not here yet (`fuzz/opa_engine.py`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fuzz import shapes
from fuzz.against_engine import compare, with_tests
from fuzz.campaign import campaign, finished
from fuzz.grammar import generate
from fuzz.names import shadow
from fuzz.opa_engine import OpaEngine, library
from fuzz.policies import OWN, Policies, read_policies
from fuzz.pools import Program

__all__ = ["program_of"]


def program_of(seed: str, policies: Sequence[Policies]) -> Program:
    """The program of a seed."""
    random = Random(seed)
    if policies and random.random() < 0.5:
        return with_tests(random.choice(policies).program(random))
    if random.random() < 0.5:
        return with_tests(shapes.generate(seed))
    number = 0
    while (program := generate(f"{seed}-{number}")).v0:
        number += 1  # OPA's engine is asked in v1 only
    return with_tests(shadow(program, random) if random.random() < 0.5 else program)


def main() -> int:
    """What the command does."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, help="of processor time")
    parser.add_argument("--programs", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=20, help="differences after which to stop")
    parser.add_argument("--keep", type=Path, help="a folder for the differences, a file each")
    parser.add_argument("--policies", type=Path, nargs="*", default=OWN, help="folders of policies")
    options = parser.parse_args()
    if options.seconds is None and options.programs is None:
        options.seconds = 60.0
    policies = read_policies(options.policies)
    opa = OpaEngine(library())
    try:
        report = campaign(
            options.seed,
            programs=options.programs,
            seconds=options.seconds,
            most=options.most,
            compare=lambda program: compare(program, opa),
            generate=lambda seed: program_of(seed, policies),
        )
    finally:
        opa.close()
    return finished(report, options.keep)


if __name__ == "__main__":
    sys.exit(main())
