"""Documents that a query may read: those of the input and of data (base), and of rules (virtual).

Only names count: a reference counts up to its first variable, and a condition that fails early
still reads all that follows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cmp_to_key
from typing import NamedTuple, TypeAlias

from doorward.rego.analysis.calls import Callees
from doorward.rego.analysis.dependencies import parts_below, parts_of, targets
from doorward.rego.analysis.tree import RuleNode
from doorward.rego.analysis.variables import ROOTS
from doorward.rego.syntax.nodes import Body, Ref, Scalar, Var
from doorward.rego.values import Key, compare, from_key, to_key

__all__ = ["Documents", "Path", "input_paths", "read_documents"]

Path: TypeAlias = tuple[Key, ...]
"""A path such as `("input", "user")` or `("data", "roles")`, its parts in key form."""


class Documents(NamedTuple):
    """The paths of the documents that a query reads, sorted as Rego sorts arrays. `base` contains
    no path below another of its paths.
    """

    base: list[Path]
    virtual: list[Path]


def read_documents(body: Body, callees: Callees) -> Documents:
    """Return the documents that `body` reads, directly or through rules. The path of an input or
    base document ends before its first operand that is not a scalar, and is left out if a path
    above it is read too.
    """
    base: set[Path] = set()
    read: dict[int, RuleNode] = {}
    for part in _parts(body, callees, read):
        base.update(_base(part, callees))
    virtual: list[Path] = [("data", *node.path) for node in read.values()]
    return Documents(_order(_outer(base)), _order(virtual))


def input_paths(body: Body, callees: Callees) -> list[Path]:
    """Return the paths at which `body` and the rules it uses may read the input, such as
    `("user",)`, sorted; a path ends before its first operand that is not a constant. [()] if all of
    the input is read, [] if nothing. Paths below another one are left out.
    """
    paths: set[Path] = set()
    for part in _parts(body, callees, {}):
        if isinstance(part, Var) and part.name == "input":
            paths.add(())
        elif isinstance(part, Ref) and isinstance(part.head, Var) and part.head.name == "input":
            names = [each.value if isinstance(each, Scalar) else None for each in part.args]
            known = names.index(None) if None in names else len(names)
            paths.add(tuple([to_key(name) for name in names[:known]]))
    return [()] if () in paths else _order(_outer(paths))


def _parts(body: Body, callees: Callees, read: dict[int, RuleNode]) -> Iterator[object]:
    """Yield every node of `body` and of the rules that it uses, directly or through others. The
    tree nodes of these rules are added to `read`, by `id`.
    """
    waiting: list[object] = [part for expr in body for part in parts_below(expr)]
    while waiting:
        part = waiting.pop()
        yield part
        for node in targets(part, callees):
            if id(node) not in read:
                read[id(node)] = node
                waiting += [p for d in node.definitions for p in parts_of(d.rule)]


def _base(part: object, callees: Callees) -> Iterator[Path]:
    """Yield the path of the input or base document that `part` refers to, with `input` or `data` as
    first key and without operands from the first that is not a scalar. Nothing for `data` itself or
    other parts, or if rules define the document, a part above it, or documents below it.
    """
    if isinstance(part, Var) and part.name == "input":
        yield ("input",)
    if not isinstance(part, Ref) or not isinstance(part.head, Var):
        return
    path: list[Key] = [part.head.name]
    if part.head.name not in ROOTS:
        return
    node: RuleNode | None = callees.root if part.head.name == "data" else None
    for operand in part.args:
        if not isinstance(operand, Scalar):
            break
        path.append(to_key(operand.value))
        if node is not None:
            node = node.children.get(path[-1])
            if node is not None and node.definitions:
                return
    if node is None and (len(path) > 1 or path[0] == "input"):
        yield tuple(path)


def _outer(paths: set[Path]) -> list[Path]:
    """Return the paths that do not lie below another one of them; the empty path, which is above
    all, does not count.
    """
    return [path for path in paths if not any(path[:n] in paths for n in range(1, len(path)))]


def _order(paths: Sequence[Path]) -> list[Path]:
    return sorted(paths, key=cmp_to_key(_compare))


def _compare(a: Path, b: Path) -> int:
    return compare([from_key(key) for key in a], [from_key(key) for key in b])
