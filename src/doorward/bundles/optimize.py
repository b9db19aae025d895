"""Policies optimized for the decisions that are asked for, as `opa build -O` does it.

Data flow, for each entrypoint in turn: policies and data -> partial evaluation, with the input and
data of others unknown -> rules that decide the same -> those take the place of the rules they come
from. What no entrypoint reads stays as it is. The rules of one entrypoint are those that the next
one starts from.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from doorward.base.records import record
from doorward.rego import Options, compile
from doorward.rego.shared import Source
from doorward.rego.tools import (
    Body,
    Head,
    Module,
    Node,
    Package,
    Ref,
    Rule,
    Scalar,
    Target,
    Var,
    With,
    format_module,
    format_tree,
    names_of_packages,
    parse_module,
    resolve_modules,
    walk,
)

__all__ = ["Entrypoint", "OptimizeError", "Optimizer", "entrypoints_of"]

Entrypoint = tuple[str, ...]
"""The path of a document below `data`."""

RESULT: Final = "__result__"
PREFIX: Final = "optimized"
"""The folder of the new policies."""
_SAFE: Final = re.compile(r"[A-Za-z0-9_-]+\Z", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)


class OptimizeError(Exception):
    """An entrypoint that cannot be one, in OPA's words."""


def entrypoints_of(modules: Mapping[str, str], options: Options) -> list[Entrypoint]:
    """The documents that METADATA calls entrypoints, in the order of files and rules."""
    named: dict[Entrypoint, None] = {}
    for name, text in sorted(modules.items()):
        if "METADATA" not in text:
            continue
        module = parse_module(Source(name, text), v0=options.is_v0(name), annotations=True)
        package = module.package.path
        if any(each.fields.get("entrypoint") is True for each in module.annotations):
            if any(
                each.fields.get("entrypoint") is True and each.scope in ("package", "subpackages")
                for each in module.annotations
            ):
                named[package] = None
            for rule in module.rules:
                if any(each.fields.get("entrypoint") is True for each in rule.annotations):
                    named[_path_of(package, rule)] = None
    return list(named)


def _path_of(package: Sequence[str], rule: Rule) -> Entrypoint:
    """The path of a rule up to its first part that is not constant."""
    name = rule.head.ref.head
    assert isinstance(name, Var)
    return (*package, name.name, *_constants(rule.head.ref.args))


@record
class Optimizer:
    """An optimizer of policies."""

    options: Options
    shallow: bool
    """Whether rules that know something unknown are referred to, and not written out (`-O1`)."""
    namespace: str = "partial"
    """The package of rules that have to be made up."""
    roots: Sequence[str] = ("",)
    """What the bundle owns of `data`; all else is unknown."""

    def optimize(
        self, modules: Mapping[str, str], data: Any, entrypoints: Iterable[Entrypoint]
    ) -> dict[str, str]:
        """The policies, by file name, as Rego. OptimizeError for an entrypoint that cannot be one;
        what the compiler and the evaluation of `Engine.partial` raise."""
        trees: dict[str, Module] = dict(compile(modules, self.options).modules)
        read = _with_annotations(modules, trees, self.options)
        used: Counter[str] = Counter()
        added: dict[str, Module] = {}
        for entrypoint in entrypoints:
            new = self._residual({**trees, **added}, data, entrypoint)
            named = {_file_of(each, used): each for each in new}
            covered = {path for each in new for path in _cover(each)}
            trees = dict(_without(trees, covered))
            added = {**dict(_without(added, covered)), **named}
        texts = {name: self._text(read[name], trees[name], modules[name]) for name in trees}
        target: Target = "v0" if self.options.v0 else "v1"
        return texts | {name: format_tree(each, target=target) for name, each in added.items()}

    def _text(self, read: Module, left: Module, before: str) -> str:
        """A policy with those of its rules that are left, and its comments but for those of the
        others: METADATA that stayed behind would speak of the next rule."""
        if len(left.rules) == len(read.rules):
            return before
        spans = {rule.span for rule in left.rules}
        gone = [rule for rule in read.rules if rule.span not in spans]
        rows = {row for rule in gone for row in _rows(rule, left)}
        other_comments = tuple([each for each in read.comments if each.span.row not in rows])
        trimmed = replace(left, comments=other_comments)
        return format_module(trimmed, target="v1" if left.v1 else "v0")

    def _residual(
        self, modules: Mapping[str, Module], data: Any, entrypoint: Entrypoint
    ) -> list[Module]:
        """The modules that decide an entrypoint for the input."""
        name = f"data.{'.'.join(entrypoint)}"
        if len(entrypoint) < 2:
            raise OptimizeError(
                f"invalid entrypoint {name}: to create optimized support module, the entrypoint "
                "ref must have at least two components in addition to the 'data' root"
            )
        engine = compile(modules, self.options).bind(data, is_parsed=True)
        left = engine.partial(
            f"{_reference(entrypoint)} = {RESULT}",
            ["input", *_foreign(modules.values(), self.roots)],
            disable_inlining=tuple(_replace(modules.values())),
            shallow=self.shallow,
            namespace=None,
            helpers=self.namespace,
        )
        if not left.queries and not left.support:
            raise OptimizeError(f"undefined entrypoint {name}")
        new = list(left.support)
        # A query that asks for the entrypoint itself would define it by itself: its rules, or what
        # the support has of them, stay.
        if left.queries and not any(_asks(body, entrypoint) for body in left.queries):
            new.append(self._define(entrypoint, left.queries))
        return new

    def _define(self, entrypoint: Entrypoint, queries: Sequence[Body]) -> Module:
        """A module that defines the entrypoint by the residual queries, one rule for each."""
        *package, name = entrypoint
        head = Head(Ref(Var(name), ()), None, None, Var(RESULT), assign=not self.options.v0)
        rules = tuple([Rule(head, body) for body in queries])
        return Module(Package(tuple(package)), (), rules)


def _with_annotations(
    modules: Mapping[str, str], trees: Mapping[str, Module], options: Options
) -> dict[str, Module]:
    """Parse the policies again with the METADATA of their rules, if they have any."""
    return {
        name: parse_module(Source(name, text), v0=options.is_v0(name), annotations=True)
        if "METADATA" in text
        else trees[name]
        for name, text in modules.items()
    }


def _reference(path: Entrypoint) -> str:
    parts = [f".{each}" if _NAME.match(each) else f'["{each}"]' for each in path]
    return "".join(["data", *parts])


def _asks(body: Body, path: Entrypoint) -> bool:
    """Return True if a body refers to a document at or below a path."""
    return any(read[: len(path)] == path for expr in body for read in _paths(expr))


def _paths(tree: Node) -> Iterator[Entrypoint]:
    """The paths below `data` that a tree whose names are resolved refers to, as far as they are
    constant."""
    for node in walk(tree):
        head = node.head if isinstance(node, Ref) else node
        if isinstance(head, Var) and head.name == "data":
            yield tuple(_constants(node.args if isinstance(node, Ref) else ()))


def _read(modules: Collection[Module]) -> set[Entrypoint]:
    """The paths below `data` that the rules of modules refer to."""
    resolved = resolve_modules(list(modules), names_of_packages(modules)).modules
    return {path for module in resolved for rule in module.rules for path in _paths(rule)}


def _constants(terms: Iterable[object]) -> Iterator[str]:
    """The names at the beginning of a path."""
    for each in terms:
        if not isinstance(each, Scalar) or not isinstance(each.value, str):
            return
        yield each.value


def _foreign(modules: Collection[Module], roots: Sequence[str]) -> list[str]:
    """Return the paths below `data` that policies read and that the bundle does not own."""
    owned = [tuple(filter(None, root.split("/"))) for root in roots]
    if () in owned:
        return []
    packages = {module.package.path for module in modules}
    foreign = {
        path
        for path in _read(modules)
        if not any(path[: len(root)] == root for root in owned) and path not in packages and path
    }
    outer = {
        path
        for path in foreign
        if not any(path[:length] in foreign for length in range(1, len(path)))
    }
    return sorted(map(_reference, outer))


def _replace(modules: Collection[Module]) -> list[str]:
    """Documents that some `with` replaces: they are not as they are known there.

    OPA looks at the rules of the entrypoint only, and breaks those that replace what it reads.
    """
    resolved = resolve_modules(list(modules), names_of_packages(modules)).modules
    withs = (node for module in resolved for node in walk(module) if isinstance(node, With))
    paths = {path for each in withs for path in _paths(each.target)}
    return sorted(_reference(path) for path in paths if path)


def _cover(module: Module) -> set[Entrypoint]:
    """The documents that a module defines."""
    return {_path_of(module.package.path, rule) for rule in module.rules}


def _without(
    modules: Mapping[str, Module], covered: Collection[Entrypoint]
) -> Iterator[tuple[str, Module]]:
    """Remove the rules of documents that are defined elsewhere now, and modules left empty."""
    for name, module in modules.items():
        remaining_rules = tuple(
            [rule for rule in module.rules if not _is_covered(module, rule, covered)]
        )
        if remaining_rules or not module.rules:
            yield name, replace(module, rules=remaining_rules)


def _is_covered(module: Module, rule: Rule, covered: Collection[Entrypoint]) -> bool:
    path = _path_of(module.package.path, rule)
    return any(path[:length] in covered for length in range(1, len(path) + 1))


def _rows(rule: Rule, module: Module) -> Iterator[int]:
    """The rows of a rule's own text and of its METADATA."""
    end = rule.span.row + rule.span.text.count("\n")
    first = min([rule.span.row, *[each.span.row for each in rule.annotations]])
    yield from range(first, end + 1)


def _file_of(module: Module, used: Counter[str]) -> str:
    """A name that no policy has: the path of the package, and a number from the second on."""
    path = module.package.path
    name = "/".join(path) if all(map(_SAFE.match, path)) else f"package{sum(used.values())}"
    number = used[name]
    used[name] += 1
    return f"{PREFIX}/{name}.{number}.rego" if number else f"{PREFIX}/{name}.rego"
