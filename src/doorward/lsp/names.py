"""Symbols that the names in a policy refer to: rules, input, variables, imports, built-ins.

A name in a text is an `Occurrence` of a `Symbol`; a reference has one for each of its constant
parts, so `data.roles.admin` names a package and a rule. Names are resolved as the compiler resolves
them. Only trees are known here, no texts or files.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from typing import Final, NamedTuple

from doorward.rego.shared import Span
from doorward.rego.tools import (
    ROOTS,
    Call,
    Head,
    Import,
    Module,
    Node,
    Package,
    Ref,
    Resolver,
    Scalar,
    Var,
    children,
    import_name,
    walk,
)

__all__ = ["Occurrence", "Symbol", "occurrences", "resolve_text", "text_of"]

_ALIAS: Final = re.compile(r"\bas\s+(\w+)\s*\Z")


class Symbol(NamedTuple):
    """`kind` is data, input, local, alias or builtin; two symbols of a kind differ in `path`. The
    path of a local variable or an alias begins with its file.
    """

    kind: str
    path: tuple[str, ...]


class Occurrence(NamedTuple):
    """A symbol's name at a span of a text. `defines`: the symbol is defined here."""

    symbol: Symbol
    span: Span
    defines: bool = False
    whole: bool = False
    """True if the name is written alone, without the path that leads to it, so that a rename may
    collide with other names of its file.
    """


def occurrences(
    module: Module, exports: Iterable[str], builtins: Container[str]
) -> list[Occurrence]:
    """Return all names of a module, in the order of the text and without duplicates. `exports` are
    the names of the rules of its package, also those of other files.
    """
    return list(dict.fromkeys(_Names(module, exports, builtins).all()))


def text_of(span: Span) -> str:
    """The name that a span shows, without quotes."""
    return span.text.strip('"`')


class _Names:
    """The names of one module. Its methods yield the occurrences in a part of the tree."""

    def __init__(self, module: Module, exports: Iterable[str], builtins: Container[str]) -> None:
        self.module = module
        self.file = module.span.file
        self.package = module.package.path
        self.exports = frozenset(exports)
        self.builtins = builtins
        self.imports = {
            import_name(item): item for item in module.imports if _path_of(item)[0] in ROOTS
        }
        self.locals: dict[int, str] = {}
        """The local variables by the offset of each use; the value is a name that no other variable
        of the module has.
        """
        self.declared: set[int] = set()
        self._find_locals()

    def _find_locals(self) -> None:
        """Store in `locals`, for each local variable of a rule, a name that is unique in the
        module, by the offset in the text where the variable stands; and in `declared` the offsets
        of those that are declared (`:=`, `some`, parameters).
        """
        resolved = Resolver(self.package, self.exports, self.module.imports).module(self.module)
        for rule in resolved.rules:
            for node in walk(rule):
                if isinstance(node, Var) and not node.is_wildcard and node.name not in ROOTS:
                    start = node.span.start
                    if "@" in node.name:
                        self.declared.add(start)
                    # One that is only used belongs to its rule.
                    unique = node.name if "@" in node.name else f"{node.name}@@{rule.span.start}"
                    self.locals[start] = unique

    def all(self) -> Iterator[Occurrence]:
        """Yield the occurrences of names in the module: package, imports, then rules in order. One
        may come twice.
        """
        yield from self._package(self.module.package)
        for item in self.module.imports:
            yield from self._import(item)
        for rule in self.module.rules:
            yield from self._node(rule)

    def _package(self, package: Package) -> Iterator[Occurrence]:
        """Yield the parts of the package's path; the last one defines the package."""
        for n, term in enumerate(package.terms, start=1):
            path = package.path[:n]
            yield Occurrence(Symbol("data", path), term.span, defines=path == package.path)

    def _import(self, item: Import) -> Iterator[Occurrence]:
        """Yield the names in an import: the parts of its path below `data` or `input`, and its
        alias.
        """
        path = item.path
        if isinstance(path, Ref) and isinstance(path.head, Var) and path.head.name in ROOTS:
            yield from self._segments(path.head.name, (), path.args)
        # The tree has the alias without its place.
        alias = _ALIAS.search(item.span.text) if item.alias is not None else None
        if alias is not None:
            span = item.span
            start = span.start + alias.start(1)
            alias_span = Span(span.source, start, start + len(alias[1]), span.row, 0)
            yield Occurrence(Symbol("alias", (self.file, alias[1])), alias_span, defines=True)

    def _node(self, node: Node) -> Iterator[Occurrence]:
        """Yield the occurrences of names in a node and in all that is below it, without infix
        operators.
        """
        if isinstance(node, Head):
            yield from self._head(node)
        elif isinstance(node, Call):
            if not node.infix:
                yield from self._reference(node.operator)
            for arg in node.args:
                yield from self._node(arg)
        elif isinstance(node, Ref):
            yield from self._reference(node)
        elif isinstance(node, Var):
            yield from self._reference(Ref(node, (), node.span))
        else:
            for child in children(node):
                yield from self._node(child)

    def _head(self, head: Head) -> Iterator[Occurrence]:
        """Yield the names in a rule's head: the rule's own path, marked as a definition, and the
        names in parameters, key and value.
        """
        name = head.ref.head
        if isinstance(name, Var):
            path = (*self.package, name.name)
            yield Occurrence(Symbol("data", path), name.span, defines=True, whole=True)
            yield from self._segments("data", path, head.ref.args, defines=True)
        for part in (*(head.args or ()), head.key, head.value):
            if part is not None:
                yield from self._node(part)

    def _reference(self, ref: Ref) -> Iterator[Occurrence]:
        """Yield the names in a reference. Its first name is, in this order, a local, an import, a
        rule of the package, a root or a built-in, though a built-in precedes a local that is not
        declared. A root and a first name with another meaning are left out; the names after them
        are yielded.
        """
        head = ref.head
        if not isinstance(head, Var):
            yield from self._node(head)
            yield from self._segments("", (), ref.args)
            return
        name = head.name
        start = head.span.start
        if start in self.declared or (start in self.locals and not self._is_builtin(ref)):
            symbol = Symbol("local", (self.file, self.locals[start]))
            yield Occurrence(symbol, head.span)
            yield from self._segments("", (), ref.args)
        elif name in self.imports:
            yield from self._visit_import(self.imports[name], head, ref)
        elif name in self.exports:
            path = (*self.package, name)
            yield Occurrence(Symbol("data", path), head.span, whole=True)
            yield from self._segments("data", path, ref.args)
        elif name in ROOTS:
            yield from self._segments(name, (), ref.args)
        elif self._is_builtin(ref):
            yield Occurrence(Symbol("builtin", (_dotted_name(ref),)), ref.span)
        else:
            yield from self._segments("", (), ref.args)

    def _is_builtin(self, ref: Ref) -> bool:
        return _dotted_name(ref) in self.builtins

    def _visit_import(self, item: Import, head: Var, ref: Ref) -> Iterator[Occurrence]:
        """Yield the names in a reference `ref` whose head is the name or alias of an import."""
        root, path = _path_of(item)
        symbol = Symbol(root, path)
        if item.alias is not None:
            symbol = Symbol("alias", (self.file, item.alias))
        yield Occurrence(symbol, head.span, whole=item.alias is None)
        yield from self._segments(root, path, ref.args)

    def _segments(
        self, root: str, path: tuple[str, ...], args: Iterable[Node], *, defines: bool = False
    ) -> Iterator[Occurrence]:
        """Yield the names in `args`, operands of a reference that has led to `path` of kind `root`
        so far. Each leading constant string names the path extended by it; after the first other
        operand only names inside operands are yielded. With `root` "" constants have no symbol and
        are left out. `defines`: the paths that are named are also defined there.
        """
        constant = bool(root)
        for arg in args:
            if isinstance(arg, Scalar) and isinstance(arg.value, str):
                path = (*path, arg.value)
                if constant:
                    yield Occurrence(Symbol(root, path), arg.span, defines=defines)
            else:
                constant = False
                yield from self._node(arg)


def _dotted_name(ref: Ref) -> str:
    """Return a reference with its parts joined by dots, as the name of a built-in has them, such as
    `io.jwt.decode`; "" if a part is not a constant string.
    """
    parts = [ref.head.name if isinstance(ref.head, Var) else ""]
    for arg in ref.args:
        if not (isinstance(arg, Scalar) and isinstance(arg.value, str)):
            return ""
        parts.append(arg.value)
    return ".".join(parts)


def _path_of(item: Import) -> tuple[str, tuple[str, ...]]:
    """Return the root (`data`, `input`, …) and the path below it that an import names."""
    path = item.path
    if isinstance(path, Var):
        return path.name, ()
    root = path.head.name if isinstance(path.head, Var) else ""
    return root, tuple([str(arg.value) for arg in path.args if isinstance(arg, Scalar)])


def resolve_text(name: str, module: Module, exports: Container[str]) -> Symbol | None:
    """Return the likely symbol of a dotted name in a text that cannot be parsed: an import, a rule
    in `exports`, or a path below `data` or `input`. None if it is none of these.
    """
    first, *rest = name.split(".")
    for item in module.imports:
        if import_name(item) == first:
            root, path = _path_of(item)
            return Symbol(root, (*path, *rest))
    if first in exports:
        return Symbol("data", (*module.package.path, first, *rest))
    return Symbol(first, tuple(rest)) if first in ROOTS and rest else None
