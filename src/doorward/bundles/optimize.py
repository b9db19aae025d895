"""Optimize policies for the entrypoints of a bundle, as `opa build -O` does.

For each entrypoint in turn, partial evaluation with the input and foreign data unknown gives rules
that decide the same, and these replace the rules that they come from. Rules that no entrypoint
reads stay unchanged. Each entrypoint starts from the rules that the one before left.
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
"""The folder of the new policies in the bundle."""
_SAFE: Final = re.compile(r"[A-Za-z0-9_-]+\Z", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)


class OptimizeError(Exception):
    """A path that cannot be an entrypoint; the message is OPA's."""


def entrypoints_of(modules: Mapping[str, str], options: Options) -> list[Entrypoint]:
    """Return the documents that METADATA declares as entrypoints, in the order of file names and
    rules, each once. Raise ParseError for a policy that is not valid.
    """
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
    """Return the path of a rule up to its first part that is not constant: `a.b[x]` -> (package, a,
    b).
    """
    name = rule.head.ref.head
    assert isinstance(name, Var)
    return (*package, name.name, *_constants(rule.head.ref.args))


@record
class Optimizer:
    """Rewrites policies by partial evaluation, with these options, so that they decide the
    entrypoints faster.
    """

    options: Options
    shallow: bool
    """True (`-O1`): rules that depend on unknown values are referred to. False (`-O2`): they are
    inlined.
    """
    namespace: str = "partial"
    """The package of helper rules that partial evaluation generates."""
    roots: Sequence[str] = ("",)
    """The paths below `data` that the bundle owns; all other data is unknown."""

    def optimize(
        self, modules: Mapping[str, str], data: Any, entrypoints: Iterable[Entrypoint]
    ) -> dict[str, str]:
        """Return the texts of all policies by file name, optimized for the entrypoints. New
        policies are below `optimized/`; a policy that loses all its rules is left out. Raise
        OptimizeError if an entrypoint is undefined or too short, RegoError if the policies cannot
        be compiled or evaluated.
        """
        trees: dict[str, Module] = dict(compile(modules, self.options).modules)
        read = _with_annotations(modules, trees, self.options)
        used: Counter[str] = Counter()
        added: dict[str, Module] = {}
        for entrypoint in entrypoints:
            new = self._residual({**trees, **added}, data, entrypoint)
            named = {_file_of(each, used): each for each in new}
            covered = {path for each in new for path in _cover(each)}
            # Only what the residual defines is taken away: other rules may be read by
            # somebody else.
            trees = dict(_without(trees, covered))
            added = {**dict(_without(added, covered)), **named}
        texts = {name: self._text(read[name], trees[name], modules[name]) for name in trees}
        target: Target = "v0" if self.options.v0 else "v1"
        return texts | {name: format_tree(each, target=target) for name, each in added.items()}

    def _text(self, original: Module, remaining: Module, text: str) -> str:
        """Return the text of a policy after the optimization removed some of its rules: `original`
        is the policy before, with `text`, and `remaining` the policy with the rules that stay.
        Comments in the rows of removed rules are removed too, since their METADATA would apply to
        the next rule. If all rules remain, the result is `text`.
        """
        if len(remaining.rules) == len(original.rules):
            return text
        spans = {rule.span for rule in remaining.rules}
        gone = [rule for rule in original.rules if rule.span not in spans]
        rows = {row for rule in gone for row in _rows(rule, remaining)}
        other_comments = tuple([each for each in original.comments if each.span.row not in rows])
        trimmed = replace(remaining, comments=other_comments)
        return format_module(trimmed, target="v1" if remaining.v1 else "v0")

    def _residual(
        self, modules: Mapping[str, Module], data: Any, entrypoint: Entrypoint
    ) -> list[Module]:
        """Return the modules that decide an entrypoint for any input; if its own rules must stay,
        only the support modules of the residual. Raise OptimizeError if it has fewer than two
        names, or is always undefined, RegoError if the policies cannot be compiled or evaluated.
        """
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
            disable_inlining=tuple(_find_replaced(modules.values())),
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
        """Return a module that defines the entrypoint by the residual queries, one rule for
        each.
        """
        *package, name = entrypoint
        head = Head(Ref(Var(name), ()), None, None, Var(RESULT), assign=not self.options.v0)
        rules = tuple([Rule(head, body) for body in queries])
        return Module(Package(tuple(package)), (), rules)


def _with_annotations(
    modules: Mapping[str, str], trees: Mapping[str, Module], options: Options
) -> dict[str, Module]:
    """Return the modules by file name; those whose text contains METADATA are parsed again, with
    annotations.
    """
    return {
        name: parse_module(Source(name, text), v0=options.is_v0(name), annotations=True)
        if "METADATA" in text
        else trees[name]
        for name, text in modules.items()
    }


def _reference(path: Entrypoint) -> str:
    """Return the Rego reference for a path: `("a", "b c")` -> `data.a["b c"]`."""
    parts = [f".{each}" if _NAME.match(each) else f'["{each}"]' for each in path]
    return "".join(["data", *parts])


def _asks(body: Body, path: Entrypoint) -> bool:
    """Return True if a body refers to a document at or below a path."""
    return any(read[: len(path)] == path for expr in body for read in _paths(expr))


def _paths(tree: Node) -> Iterator[Entrypoint]:
    """Yield the constant beginning of each path below `data` that a resolved tree refers to."""
    for node in walk(tree):
        head = node.head if isinstance(node, Ref) else node
        if isinstance(head, Var) and head.name == "data":
            yield tuple(_constants(node.args if isinstance(node, Ref) else ()))


def _read(modules: Collection[Module]) -> set[Entrypoint]:
    """Return the paths below `data` that the rules of the modules refer to."""
    resolved = resolve_modules(list(modules), names_of_packages(modules)).modules
    return {path for module in resolved for rule in module.rules for path in _paths(rule)}


def _constants(terms: Iterable[object]) -> Iterator[str]:
    """Yield the values of the strings at the beginning of a reference's terms, up to the first term
    that is not a string.
    """
    for each in terms:
        if not isinstance(each, Scalar) or not isinstance(each.value, str):
            return
        yield each.value


def _foreign(modules: Collection[Module], roots: Sequence[str]) -> list[str]:
    """Return references to the data that policies read but that lies outside of `roots`, the paths
    that the bundle owns: it is unknown when the bundle is optimized. [] if the bundle owns all
    data. A path below another path of the result is left out.
    """
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


def _find_replaced(modules: Collection[Module]) -> list[str]:
    """Return references to the documents that any `with` in the policies replaces: their rules must
    not be inlined.

    OPA looks only at the rules of the entrypoint, so that it breaks policies in which a rule that
    these read uses `with`.
    """
    resolved = resolve_modules(list(modules), names_of_packages(modules)).modules
    withs = (node for module in resolved for node in walk(module) if isinstance(node, With))
    paths = {path for each in withs for path in _paths(each.target)}
    return sorted(_reference(path) for path in paths if path)


def _cover(module: Module) -> set[Entrypoint]:
    """Return the paths of the rules that a module defines."""
    return {_path_of(module.package.path, rule) for rule in module.rules}


def _without(
    modules: Mapping[str, Module], covered: Collection[Entrypoint]
) -> Iterator[tuple[str, Module]]:
    """Yield pairs of file name and module, without the rules at or below `covered`; modules that
    lose all rules are left out.
    """
    for name, module in modules.items():
        remaining_rules = tuple(
            [rule for rule in module.rules if not _is_covered(module, rule, covered)]
        )
        if remaining_rules or not module.rules:
            yield name, replace(module, rules=remaining_rules)


def _is_covered(module: Module, rule: Rule, covered: Collection[Entrypoint]) -> bool:
    """Return True if a rule is at or below one of the paths in `covered`."""
    path = _path_of(module.package.path, rule)
    return any(path[:length] in covered for length in range(1, len(path) + 1))


def _rows(rule: Rule, module: Module) -> Iterator[int]:
    """Yield the rows of a rule's text and of its METADATA."""
    end = rule.span.row + rule.span.text.count("\n")
    first = min([rule.span.row, *[each.span.row for each in rule.annotations]])
    yield from range(first, end + 1)


def _file_of(module: Module, used: Counter[str]) -> str:
    """Return a new file name for a module: its package's path, or `package` and a number if that
    has other characters than `_SAFE`; with a number from the second one on. Counts the name in
    `used`.
    """
    path = module.package.path
    name = "/".join(path) if all(map(_SAFE.match, path)) else f"package{sum(used.values())}"
    number = used[name]
    used[name] += 1
    return f"{PREFIX}/{name}.{number}.rego" if number else f"{PREFIX}/{name}.rego"
