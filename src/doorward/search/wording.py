"""Residuals in the words of the policies: with the names of their rules, and few variables.

data.doorward_access.app.roles    ─▶ data.app.roles
not data.doorward_access.__not1__ ─▶ not { the body of the rule }
data.users[input.user][__local2__7] in data.readers ─▶ data.users[input.user][_] in data.readers
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from doorward.base.digits import parse_digits
from doorward.rego.tools import Body, Expr, Module, Node, Ref, Rule, Scalar, Var, rewrite, walk

__all__ = ["in_words", "name_variables"]

_GENERATED: Final = ("__local", "_term_", "_ref_")
_NEGATION: Final = "__not"


def in_words(
    body: Sequence[Expr], support: Sequence[Module], namespace: str, write: Callable[[Expr], str]
) -> Iterator[str]:
    """Yield the texts of a conjunction's expressions for users; `write` makes the text of one
    expression.

    References to copies of rules in the support, below `data.NAMESPACE`, become references to the
    rules themselves; a negated rule that only the support has becomes `not { … }` with its body.
    """
    bodies: dict[str, list[Body]] = {}
    for module in support:
        for rule in module.rules if module.package.path == (namespace,) else ():
            if _name(rule).startswith(_NEGATION):
                bodies.setdefault(_name(rule), []).append(rule.body)
    for expr in body:
        names = _path_of(expr.term) if expr.negated and isinstance(expr.term, Ref) else ()
        denied = bodies.get(names[-1], []) if names[:1] == (namespace,) else []
        if not denied:
            yield write(_restore_names(expr, namespace))
        for each in denied:
            texts = [write(_restore_names(inner, namespace)) for inner in each]
            yield f"not {{ {'; '.join(texts)} }}"


def name_variables(exprs: Sequence[Expr]) -> list[Expr]:
    """Return expressions in which a generated variable that occurs once is `_`, and others have
    short names.
    """
    counts = Counter(node.name for expr in exprs for node in walk(expr) if isinstance(node, Var))
    generated = [name for name in counts if _is_generated(name)]
    often = [name for name in generated if counts[name] > 1]
    names = {name: "_" for name in generated}
    taken = set(counts)
    for name in often:
        names[name] = next(each for each in _short_names() if each not in taken)
        taken.add(names[name])

    def change(node: Node) -> Node:
        return Var(names.get(node.name, node.name)) if isinstance(node, Var) else node

    return [rewrite(expr, change) for expr in exprs]


def _is_generated(name: str) -> bool:
    """Return True for a variable that partial evaluation or the compiler named, such as `_3`."""
    return name.startswith(_GENERATED) or (name[:1] == "_" and parse_digits(name[1:]) is not None)


def _short_names() -> Iterator[str]:
    """Yield `x`, `y`, `z`, …, then `x1`, `x2`, … without end."""
    yield from "xyzuvw"
    number = 0
    while True:
        number += 1
        yield f"x{number}"


def _name(rule: Rule) -> str:
    """The first name of a rule's head; "" if the head is not a variable."""
    return rule.head.ref.head.name if isinstance(rule.head.ref.head, Var) else ""


def _path_of(ref: Ref) -> tuple[str, ...]:
    """Return the names of a path below `data`; () for other references."""
    if ref.head != Var("data") or not all(isinstance(arg, Scalar) for arg in ref.args):
        return ()
    return tuple(str(arg.value) for arg in ref.args if isinstance(arg, Scalar))


def _restore_names(expr: Expr, namespace: str) -> Expr:
    """Return an expression with the policies' rules in place of their copies in the support, whose
    paths begin with `namespace`.
    """
    first = Scalar(namespace)

    def change(node: Node) -> Node:
        """Remove the namespace from a reference below `data`."""
        if isinstance(node, Ref) and node.head == Var("data") and node.args[:1] == (first,):
            return Ref(node.head, node.args[1:])
        return node

    changed: Expr = rewrite(expr, change)
    return changed
