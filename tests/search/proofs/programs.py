"""Small random policies with properties, and all inputs of a small universe.

The grammar is `grammar.toml`. A policy has the rules that its properties read and no others; where
a definition does not compile, another one is made in its position.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, Final

from doorward.rego import UNDEFINED, Engine, RegoError

__all__ = ["PROPERTIES", "Program", "inputs_of", "program", "rewritten", "values_of"]

_GRAMMAR: Final[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("grammar.toml").read_text(encoding="utf-8")
)
_SYMBOLS: Final[dict[str, list[str]]] = _GRAMMAR["symbols"]
_DEFINITIONS: Final[dict[str, dict[str, list[list[str]]]]] = _GRAMMAR["definitions"]
_SYMBOL: Final = re.compile("<([a-z][a-z ]*)>")
_NESTED: Final = re.compile("<(term|condition)>")
_VARIABLE: Final = re.compile(r"\b[VW]\b")
_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_WITH_RULES: Final = ("term", "condition", "literal")
"""Symbols that have more alternatives where rules may be read."""

DATA: Final[dict[str, Any]] = {
    "users": ["x", "y"],
    "roles": {"x": "adm", "y": "dev", "1": "one"},
    "n": 2,
    "flags": {"x": False, "y": None, "X": True},
    "p": {"pobj": {"k": 1}},
    "nest": {"x": {"d": ["x", 1]}, "y": {}},
    "empty": [],
    "one": [1, 1.0],
}
VALUES: Final[list[Any]] = [
    *("x", "X", "x/y", "y", "", "ſ", "K", "İ", 1, 1.0, 0, -1, 2, 9007199254740993),
    *(9007199254740992.0, True, False, None, [], ["x"], ["x", "y"], [1], [1.0, "x"], [[1]]),
    *({}, {"d": 1}, {"d": 1.0}, {"d": "x"}, {"d": False}, [{"d": "x"}], {"0": "x"}),
]
"""Equal numbers that are written differently are among them, as some built-ins tell them apart."""
ODD: Final[list[Any]] = [{}, [], "x", 1, None, True, False]
"""Inputs that have no fields, or cannot have any."""
PROPERTIES: Final = 3
_DEPTH: Final = 2
_SAMPLE: Final = 7
"""Values of each leaf, besides none at all."""
_ATTEMPTS: Final = 60
"""Definitions that are made again at most."""


@dataclass(frozen=True)
class _Part:
    """A definition: its package, the rule, which line of the rule it is, and its text."""

    package: str
    rule: str
    number: int
    text: str


@dataclass(frozen=True)
class Program:
    """Policies that compile. `modules`: their texts by file."""

    parts: tuple[_Part, ...]
    has_keywords: bool
    engine: Engine

    @property
    def modules(self) -> dict[str, str]:
        return _modules(self.parts, has_keywords=self.has_keywords)

    @property
    def data(self) -> dict[Any, Any]:
        return _data_for(self.parts)

    @property
    def text(self) -> str:
        return "\n".join(self.modules.values())


class _Writer:
    """Expands symbols."""

    def __init__(self, random: Random, *, has_keywords: bool) -> None:
        self.random = random
        self.has_keywords = has_keywords
        self._variables = 0

    def expand(self, text: str, *, reads_rules: bool, depth: int = _DEPTH) -> str:
        names: dict[str, str] = {}

        def name(match: re.Match[str]) -> str:
            if match[0] not in names:
                self._variables += 1
                names[match[0]] = f"v{self._variables}"
            return names[match[0]]

        def alternative(match: re.Match[str]) -> str:
            symbol = match[1]
            options = _SYMBOLS[symbol]
            if reads_rules and symbol in _WITH_RULES:
                options = [*options, *_SYMBOLS[f"rule {symbol}"] * 2]
            if symbol == "literal" and self.has_keywords:
                options = [*options, *_SYMBOLS["keyword literal"] * 3]
            below = depth
            if symbol == "term":
                below -= 1
                if depth <= 0:
                    options = [each for each in options if not _NESTED.search(each)]
            chosen = self.random.choice(options)
            return self.expand(chosen, reads_rules=reads_rules, depth=below)

        return _SYMBOL.sub(alternative, _VARIABLE.sub(name, text))

    def part(self, package: str, rule: str, number: int) -> _Part:
        """A definition of a rule, for one of its lines."""
        if rule.startswith("never_"):
            text = f"{rule} if {{ <about>; <long body> }}"
        else:
            text = self.random.choice(_DEFINITIONS[package][rule][number])
        reads_rules = rule == "allow" or rule.startswith("never_")
        return _Part(package, rule, number, self.expand(text, reads_rules=reads_rules))


def program(random: Random) -> Program | None:
    """A policy with properties; None where no attempt compiles."""
    writer = _Writer(random, has_keywords=random.random() < 0.2)
    parts = [writer.part("p", f"never_{number}", 0) for number in range(PROPERTIES)]
    return _compiled(writer, parts)


def rewritten(program: Program, random: Random) -> Program | None:
    """A policy with another definition for one of its rules that is not a property."""
    places = [n for n, each in enumerate(program.parts) if not each.rule.startswith("never_")]
    if not places:
        return None
    writer = _Writer(random, has_keywords=program.has_keywords)
    parts = list(program.parts)
    number = random.choice(places)
    parts[number] = writer.part(parts[number].package, parts[number].rule, parts[number].number)
    return _compiled(writer, parts)


def _compiled(writer: _Writer, parts: list[_Part]) -> Program | None:
    for _ in range(_ATTEMPTS):
        parts = _closed(writer, parts)
        modules = _modules(parts, has_keywords=writer.has_keywords)
        try:
            engine = Engine(modules, _data_for(parts))
        except RegoError as error:
            wrong = _wrong_part(error, parts, has_keywords=writer.has_keywords)
            if wrong is None:
                return None
            old = parts[wrong]
            parts[wrong] = writer.part(old.package, old.rule, old.number)
        else:
            return Program(tuple(parts), writer.has_keywords, engine)
    return None


def _closed(writer: _Writer, parts: list[_Part]) -> list[_Part]:
    """The definitions with those of all rules that they name, and without rules that none names."""
    known = {(each.package, each.rule): [] for each in parts}  # type: dict[tuple[str, str], list[_Part]]
    for each in parts:
        known[each.package, each.rule].append(each)
    needed = {key: None for key in known if key[1].startswith("never_")}
    waiting = list(needed)
    while waiting:
        key = waiting.pop()
        if key not in known:
            package, rule = key
            count = len(_DEFINITIONS[package][rule])
            known[key] = [writer.part(package, rule, number) for number in range(count)]
        for other in _named(key[0], [each.text for each in known[key]]):
            if other not in needed:
                needed[other] = None
                waiting.append(other)
    return [each for key in sorted(needed) for each in known[key]]


def _named(package: str, texts: list[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        words = set(_WORD.findall(text))
        if "q" in words:
            yield from (("q", rule) for rule in _DEFINITIONS["q"])
        if "p2" in words:
            yield "p2", "base"
        if package == "p" or "data.p." in text:
            yield from (("p", rule) for rule in _DEFINITIONS["p"] if rule in words)


def _lines(
    parts: tuple[_Part, ...] | list[_Part], package: str, *, has_keywords: bool
) -> list[tuple[str, int | None]]:
    """The lines of a module, each with the number of its definition."""
    ours = [(n, each) for n, each in enumerate(parts) if each.package == package]
    lines: list[tuple[str, int | None]] = [(f"package {package}", None)]
    if has_keywords:
        lines += [(f"import future.keywords.{each}", None) for each in ("and", "or", "not")]
    # An import stands before all rules.
    ours.sort(key=lambda each: not each[1].text.startswith("import"))
    packages = {each.package for each in parts} - {"p"} if package == "p" else set()
    lines += [(f"import data.{each}", None) for each in sorted(packages)]
    for number, part in ours:
        lines += [(line, number) for line in part.text.split("\n") if line]
    return lines


def _data_for(parts: tuple[_Part, ...] | list[_Part]) -> dict[Any, Any]:
    """The data, without a document that a rule makes as well: servers refuse both."""
    has_rule = any(each.rule == "pobj" for each in parts)
    return {name: value for name, value in DATA.items() if name != "p" or not has_rule}


def _modules(parts: tuple[_Part, ...] | list[_Part], *, has_keywords: bool) -> dict[str, str]:
    modules = {}
    for package in sorted({each.package for each in parts}):
        lines = _lines(parts, package, has_keywords=has_keywords)
        modules[f"{package}.rego"] = "".join(f"{line}\n" for line, _ in lines)
    return modules


def _wrong_part(error: RegoError, parts: list[_Part], *, has_keywords: bool) -> int | None:
    """The definition in which the first error is."""
    for each in error.diagnostics:
        if not each.span.file:
            continue
        package = each.span.file.removesuffix(".rego")
        lines = _lines(parts, package, has_keywords=has_keywords)
        number = lines[each.span.row - 1][1]
        if number is not None:
            return number
    return None


def values_of(text: str, random: Random) -> list[Any]:
    """Some values, first those that a policy writes."""
    written = [each for each in VALUES if json.dumps(each, ensure_ascii=False) in text]
    others = [each for each in VALUES if json.dumps(each, ensure_ascii=False) not in text]
    random.shuffle(written)
    random.shuffle(others)
    count = _SAMPLE - min(len(written), _SAMPLE // 2 + 1)
    return [*written[: _SAMPLE // 2 + 1], *others[:count]]


def inputs_of(text: str, random: Random) -> list[Any]:
    """All inputs that have one of some values, or none, at each leaf that a policy reads."""
    fields = []
    for name in ("a", "b"):
        is_read = f"input.{name}" in text or f'"{name}"' in text
        values = [UNDEFINED, *(values_of(text, random) if is_read else [])]
        fields.append([{} if each is UNDEFINED else {name: each} for each in values])
    inner = [{"c": {"d": each}} for each in values_of(text, random)]
    fields.append([{}, *inner, {"c": {}}, *({"c": each} for each in values_of(text, random)[:4])])
    inputs = [{**a, **b, **c} for a, b, c in product(*fields)]
    return [*inputs, *ODD]
