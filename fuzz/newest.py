"""Random programs and mutated policies, answered by Doorward and by the engine of OPA 1.20.2.

    python fuzz/newest.py [--seconds 60 | --programs N] [--seed 1] [--keep FOLDER]
                          [--policies FOLDER ...]

Half of the programs are mutations of real policies: those of this repository, or of the folders
that are given; a quarter have the shapes of `fuzz/shapes.py`. One of eight is written as v0, of
which OPA's engine gets the formatted text in v1. Prints every difference, with the
program made as small as it can be; the exit code is 1 if there was one. The engine is downloaded
where it is not here yet (`fuzz/opa_engine.py`).
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from doorward.rego import RegoError
from doorward.rego.shared import Source
from doorward.rego.tools import format_source
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
    """The program of a seed: in v0 with a rule of its grammar or, of the others, one of eight."""
    random = Random(seed)
    program = _random_program(seed, random, policies)
    if random.random() < 0.125:
        program = _in_v0(program)
    if program.v0:
        # Queries of v1 may need imports in v0: only documents are asked for.
        paths = [query for query in program.queries if _PATH.fullmatch(query)]
        return replace(program, queries=paths or ["data"])
    return with_tests(program)


_PATH: Final = re.compile(r"data(\.[a-z]\w*)*", re.ASCII)


def _random_program(seed: str, random: Random, policies: Sequence[Policies]) -> Program:
    if policies and random.random() < 0.5:
        return random.choice(policies).program(random)
    if random.random() < 0.5:
        return shapes.generate(seed)
    program = generate(seed)
    return shadow(program, random) if random.random() < 0.5 else program


def _in_v0(program: Program) -> Program:
    """The program written as v0; itself if v0 cannot say what it does."""
    if program.v0:
        return program
    try:
        modules = {
            name: format_source(Source(name, text), target="v0")
            for name, text in program.modules.items()
        }
    except RegoError:
        return program
    return replace(program, modules=modules, v0=True)


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
