"""Digests of the generated Python over every policy at hand: equal ones prove equal code.

    scripts/emit_digest.py                     one line for each set, and one for all of them
    scripts/emit_digest.py --programs FILE     also a line for each program, to find what changed
    scripts/emit_digest.py --renames FILE      with methods and locals renamed by a table

The programs are the policies of this repository and those of the recorded data of `../shared`
(`DOORWARD_SHARED`), each with its query. A refactoring of code generation keeps the digests; a
change that renames what is in generated code keeps them under its table of renames.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

from doorward.rego import REGISTRY, Engine, Environment, Registry, RegoError, from_json
from doorward.rego.types import null, string

ROOT: Final = Path(__file__).resolve().parent.parent
DATA: Final = ROOT / os.environ.get("DOORWARD_SHARED", "../shared") / "data"
SETS: Final = ("language", "negation", "heads", "with", "schema-meta", "mutants")
"""The recorded sets whose rows are programs."""

MODES: Final[Mapping[str, dict[str, Any]]] = {
    "plain": {},
    "traced": {"traced": True},
    "bounded": {"max_items": 1_000, "environment": Environment(on_print=lambda *_: None)},
}
"""The options that change what code is generated."""

REGISTERED: Final = Registry(REGISTRY)
REGISTERED.builtin("test.sleep", string, returns=null, pure=False)(lambda duration: None)


class Program(NamedTuple):
    """Policies by file name, and a query on them."""

    name: str
    modules: Mapping[str, str]
    query: str
    v0: bool = False
    modes: tuple[str, ...] = tuple(MODES)


def main() -> int:
    """Print the digests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=Path, help="write a digest for each program here")
    parser.add_argument("--renames", type=Path, help="JSON: methods and locals, old name to new")
    options = parser.parse_args()
    rename = _renaming(json.loads(options.renames.read_text())) if options.renames else _as_is
    total = hashlib.sha256()
    with open(options.programs or os.devnull, "w", encoding="utf-8") as listing:
        for name, programs in _sets():
            count, digest = _digest(programs, rename, listing)
            total.update(digest.encode())
            print(f"{digest[:16]}  {count:6}  {name}")
    print(f"{total.hexdigest()[:16]}          all")
    return 0


def _digest(
    programs: Iterator[Program], rename: Callable[[str], str], listing: TextIO
) -> tuple[int, str]:
    """How many programs there are, and the digest of what all of them become."""
    whole, count = hashlib.sha256(), 0
    for program in programs:
        count += 1
        texts = "\n".join(
            [rename(text) for mode in program.modes for text in _generated(program, mode)]
        )
        digest = hashlib.sha256(texts.encode("utf-8", "surrogatepass")).hexdigest()
        whole.update(digest.encode())
        listing.write(f"{digest} {program.name}\n")
    return count, whole.hexdigest()


def _generated(program: Program, mode: str) -> Iterator[str]:
    """The code of the policies and of the query, or the error that they are refused with."""
    try:
        engine = Engine(program.modules, v0=program.v0, registry=REGISTERED, **MODES[mode])
        for file, text in engine.emit().items():
            yield f"# {file}\n{text}"
        if program.query:
            yield engine.prepare(program.query).emit()
    except RegoError as error:
        yield f"{error}"


def _sets() -> Iterator[tuple[str, Iterator[Program]]]:
    yield "policies of the repository", _policies()
    yield "conformance", map(_case, _rows(DATA / "rego-v1.jsonl.gz"))
    for name in SETS:
        yield name, map(_row, _rows(DATA / "golden" / f"{name}.jsonl.gz"))


def _policies() -> Iterator[Program]:
    listing = subprocess.run(
        ["git", "ls-files", "-z", "*.rego"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in sorted(filter(None, listing.stdout.split("\0"))):
        yield Program(name, {name: (ROOT / name).read_text(encoding="utf-8")}, "data")


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    if not file.is_file():
        print(f"no recorded programs at `{file}`: set DOORWARD_SHARED", file=sys.stderr)
        return
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            row: Any = from_json(line)
            yield row


def _case(row: dict[str, Any]) -> Program:
    modules = {f"test-{n}.rego": text for n, text in enumerate(row.get("modules") or ())}
    return Program(row["note"], modules, row["query"])


def _row(row: dict[str, Any]) -> Program:
    # The mutants are variants of the suite's cases, and many: one mode is enough for them.
    modes = ("plain",) if row["group"] == "mutants" else tuple(MODES)
    return Program(row["id"], row.get("modules", {}), row["query"], bool(row.get("v0")), modes)


def _as_is(text: str) -> str:
    return text


def _renaming(table: Mapping[str, Mapping[str, str]]) -> Callable[[str], str]:
    """What renames methods of the evaluation (`ctx`, or a temporary under `with`), and locals."""
    methods, local = table["methods"], table["locals"]
    method = re.compile(rf"\b(ctx|_\w+)\.({'|'.join(methods)})\(")
    name = re.compile(rf"(?<![\w.'\"#])({'|'.join(local)})(?=\d*\b(?!['\"]))")

    def rename(text: str) -> str:
        text = method.sub(lambda match: f"{match[1]}.{methods[match[2]]}(", text)
        return name.sub(lambda match: local[match[0]], text)

    return rename


if __name__ == "__main__":
    sys.exit(main())
