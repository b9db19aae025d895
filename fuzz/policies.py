"""Mutations of real policies: those of this repository, or of any folder.

A policy and its tests are changed in one to three places: a condition, an operator, a constant, a
rule, a name or an import. What a test says before and after is not known here; the engines are to
agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any, Final

from doorward.rego import RegoError
from doorward.rego.source import Source
from doorward.rego.syntax.format import format_source
from doorward.rego.syntax.nodes import Module, Object, Scalar, Var, With
from doorward.rego.syntax.parser import parse_module
from doorward.rego.syntax.walk import walk
from doorward.testing.mutants import Mutant, mutants_of
from fuzz.names import shadow
from fuzz.pools import Program

__all__ = ["Policies", "read_policies"]

ROOT: Final = Path(__file__).resolve().parent.parent
OWN: Final = tuple(ROOT / name for name in ("src/doorward/docker/policies", "examples"))
LARGEST: Final = 60_000
"""Characters of the modules of one program."""
_INPUTS: Final[tuple[Any, ...]] = ({}, {"user": "ann", "method": "GET", "path": ["a"], "roles": []})


@dataclass(frozen=True)
class Policies:
    """The modules of one folder, with the packages that are asked, and inputs that tests name."""

    name: str
    modules: dict[str, str]

    @cached_property
    def trees(self) -> dict[str, Module]:
        return {name: parse_module(Source(name, text)) for name, text in self.modules.items()}

    @cached_property
    def mutants(self) -> list[Mutant]:
        return list(mutants_of(self.trees))

    @cached_property
    def queries(self) -> list[str]:
        paths = dict.fromkeys(tree.package.path for tree in self.trees.values())
        return ["data" + "".join(f'["{part}"]' for part in path) for path in paths]

    @cached_property
    def inputs(self) -> list[Any]:
        """What tests put in place of the input, where it is written out."""
        values = [
            _value(node.value)
            for tree in self.trees.values()
            for node in walk(tree)
            if isinstance(node, With) and node.target == Var("input")
        ]
        return [value for value in values if value is not None] or list(_INPUTS)

    def program(self, random: Random) -> Program:
        """A mutation of the policies."""
        modules = dict(self.modules)
        program = Program(
            modules,
            {},
            random.sample(self.inputs, min(2, len(self.inputs))),
            random.sample(self.queries, min(3, len(self.queries))),
        )
        if self.mutants and random.random() < 0.5:
            mutant = random.choice(self.mutants)
            program = replace(program, modules={**modules, mutant.file: mutant.text})
        return shadow(program, random) if random.random() < 0.8 else program


def _value(term: Any) -> Any:
    match term:
        case Scalar(value) if isinstance(value, (str, bool, int)) or value is None:
            return value
        case Object(items):
            pairs = [(_value(key), _value(value)) for key, value in items]
            return {key: value for key, value in pairs if isinstance(key, str)}
        case _:
            return None


def read_policies(folders: Sequence[Path] = OWN) -> list[Policies]:
    """The policies below some folders, each folder with files of its own; old ones as v1."""
    return [each for folder in folders for each in _read(folder)]


def _read(folder: Path) -> Iterator[Policies]:
    by_folder: dict[Path, dict[str, str]] = {}
    for path in sorted(folder.rglob("*.rego")):
        text = _modern(path.name, path.read_text(encoding="utf-8", errors="replace"))
        if text is not None:
            by_folder.setdefault(path.parent, {})[path.name] = text
    for parent, modules in by_folder.items():
        if sum(map(len, modules.values())) < LARGEST:
            yield Policies(str(parent.relative_to(folder)), modules)


def _modern(name: str, text: str) -> str | None:
    """The text as v1; None where that cannot be."""
    try:
        parse_module(Source(name, text))
    except RegoError:
        try:
            text = format_source(Source(name, text), v0=True, target="v1")
            parse_module(Source(name, text))
        except RegoError:
            return None
    return text
