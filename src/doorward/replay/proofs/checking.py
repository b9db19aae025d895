"""Replays the steps of a refutation, from the texts of the residual alone.

It shares no code with the refuter: expressions are parsed again, values are compared by queries put
to an engine, and whatever does not fit exactly is refused.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Final

from doorward.rego import (
    UNDEFINED,
    CompileError,
    Engine,
    EvalError,
    ParseError,
    Source,
    to_rego,
)
from doorward.rego.tools import Call, Expr, Ref, Scalar, Var, parse_module, parse_query, walk
from doorward.replay.proofs.steps import Bounds, Cases, Contradiction, Denied, Fails, Step

__all__ = ["Checker"]

_OF_ORDER: Final = {"lt": "<", "lte": "<=", "gt": ">", "gte": ">=", "eq": "=="}


class Checker:
    """Checks steps against one residual. `engine` has the support modules beside the policies;
    `support` are their texts. `input` is what is known of it, apart from the paths `unknown`."""

    def __init__(
        self,
        engine: Engine,
        support: Sequence[str],
        input: Any = None,
        unknown: Sequence[Sequence[str]] = ((),),
    ) -> None:
        self._engine = engine
        self._support = support
        self._input = {} if input is None else input
        self._unknown = unknown
        self._plain = Engine()

    def accepts(self, refutation: Step | None, texts: Sequence[str]) -> bool:
        """Return True if the steps refute the conjunction of `texts`."""
        try:
            exprs = [_parsed(text) for text in texts]
            return refutation is not None and self._holds(refutation, exprs, texts, [])
        except (CompileError, EvalError, ParseError, IndexError, ValueError):
            return False

    def _holds(
        self,
        refutation: Step,
        exprs: Sequence[Expr],
        texts: Sequence[str],
        put: list[tuple[Any, Any]],
    ) -> bool:
        match refutation:
            case Contradiction(positive, negative):
                one, other = exprs[positive], exprs[negative]
                is_opposite = not one.negated and other.negated and one.term == other.term
                # Equal numbers may be written in two ways, which some built-ins tell apart.
                is_opposite &= texts[negative] == f"not {texts[positive]}"
                return is_opposite and self._is_steady(one) and self._is_steady(other)
            case Bounds(first, second):
                return first != second and self._are_apart(exprs[first], exprs[second])
            case Denied(negative, (module, rule), body):
                return self._is_denied(exprs, texts, negative, self._support[module], rule, body)
            case Fails(position):
                return self._fails(exprs[position], texts[position], put)
            case Cases(path, source, cases):
                known = self._values(exprs[source], path)
                values = [value for value, _ in cases]
                if known is None or len(known) != len(values):
                    return False
                if any(_meet(path, other) for other, _ in put):
                    return False
                if not any(_meet(path, other) for other in self._unknown):
                    return False
                if not all(self._is_true(f"{to_rego(v)} in {to_rego(values)}") for v in known):
                    return False
                return all(
                    self._holds(inner, exprs, texts, [*put, (path, value)])
                    for value, inner in cases
                )

    def _is_true(self, text: str) -> bool:
        return self._plain.prepare(text).value() is True

    def _is_steady(self, expr: Expr) -> bool:
        """Return True if nothing below an expression can answer in two ways for one input."""
        if expr.withs:
            return False
        nodes = list(walk(expr))
        if any(isinstance(node, Ref) and node.head == Var("data") for node in nodes) or any(
            isinstance(node, Call) and node.operator.head == Var("data") for node in nodes
        ):
            for tree in self._engine.trees.values():
                nodes += walk(tree)
        for node in nodes:
            builtin = self._engine.registry.get(node.name) if isinstance(node, Call) else None
            if builtin is not None and not builtin.pure:
                return False
        return True

    def _are_apart(self, one: Expr, other: Expr) -> bool:
        a, b = self._compared(one), self._compared(other)
        if a is None or b is None or a[0] != b[0]:
            return False
        for (_, first, low), (_, second, high) in ((a, b), (b, a)):
            if first in (">", ">=", "==") and second in ("<", "<=", "=="):
                is_strict = first == ">" or second == "<"
                if self._is_true(f"{low} {'>=' if is_strict else '>'} {high}"):
                    return True
        return False

    def _compared(self, expr: Expr) -> tuple[tuple[Any, ...], str, str] | None:
        """The path of a leaf, the sign, and the constant as Rego."""
        if expr.negated or expr.withs or not isinstance(expr.term, Call):
            return None
        name = "eq" if expr.term.name == "equal" else expr.term.name
        sign = _OF_ORDER.get(name)
        if sign is None or len(expr.term.args) != 2:
            return None
        left, right = expr.term.args
        if _leaf(left) is not None and _is_constant(right):
            return _leaf(left) or (), sign, self._rego(right)
        if _leaf(right) is not None and _is_constant(left):
            turned = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "=="}[sign]
            return _leaf(right) or (), turned, self._rego(left)
        return None

    def _rego(self, term: Any) -> str:
        value = self._plain.prepare(term.span.text).value()
        if value is UNDEFINED:
            raise ValueError("a constant without a value")
        return to_rego(value)

    def _is_denied(
        self,
        exprs: Sequence[Expr],
        texts: Sequence[str],
        negative: int,
        module_text: str,
        number: int,
        body: tuple[int, ...],
    ) -> bool:
        expr = exprs[negative]
        if not expr.negated or expr.withs or not isinstance(expr.term, Ref):
            return False
        module = parse_module(Source("support.rego", module_text), v0=False)
        rule = module.rules[number]
        head = rule.head
        wanted = ("data", *module.package.path, getattr(head.ref.head, "name", None))
        target = (getattr(expr.term.head, "name", None), *[_scalar(a) for a in expr.term.args])
        if target != wanted or head.ref.args or head.args is not None or head.key is not None:
            return False
        if rule.default or rule.else_rule is not None or len(rule.body) != len(body):
            return False
        if head.value is not None and head.value != Scalar(True):
            return False
        for each, position in zip(rule.body, body, strict=True):
            same = exprs[position]
            if each.negated != same.negated or each.withs or each.term != same.term:
                return False
            if each.span.text != texts[position]:
                return False
            if position == negative or not self._is_steady(same) or not _is_closed(each):
                return False
        return True

    def _fails(self, expr: Expr, text: str, put: Sequence[tuple[Any, Any]]) -> bool:
        if not self._is_steady(expr):
            return False
        query = self._engine.prepare(text, deadline=1.0)
        for path in query.documents.base:
            names = tuple(path)
            if names[:1] != ("input",) or any(
                names[1 : 1 + len(leaf)] == tuple(leaf) for leaf, _ in put
            ):
                continue
            if any(_meet(names[1:], other) for other in self._unknown):
                return False
        input: Any = copy.deepcopy(self._input)
        for leaf, value in put:
            at = input
            for name in leaf[:-1]:
                if not isinstance(at.get(name), dict):
                    at[name] = {}
                at = at[name]
            at[leaf[-1]] = value
        return query.results(input) == []

    def _values(self, expr: Expr, path: tuple[str, ...]) -> list[Any] | None:
        """The values that an expression leaves to the leaf at a path."""
        term = expr.term
        if not path or expr.negated or expr.withs or not isinstance(term, Call):
            return None
        if term.name in ("eq", "equal") and len(term.args) == 2:
            for leaf, constant in (term.args, term.args[::-1]):
                if _leaf(leaf) == path and _is_constant(constant):
                    return [self._plain.prepare(constant.span.text).value()]
        if term.name == "internal.member_2" and len(term.args) == 2:
            leaf, collection = term.args
            if _leaf(leaf) == path and _is_constant(collection):
                items = f"[each | some each in {collection.span.text}]"
                values: Any = self._plain.prepare(items).value()
                return list(values)
        return None


def _parsed(text: str) -> Expr:
    (expr,) = parse_query(Source("", text), v0=False)
    return expr


def _scalar(term: Any) -> Any:
    return term.value if isinstance(term, Scalar) else None


def _leaf(term: Any) -> tuple[Any, ...] | None:
    if not isinstance(term, Ref) or term.head != Var("input"):
        return None
    names = tuple(_scalar(arg) for arg in term.args)
    return names if all(isinstance(name, str) for name in names) else None


def _is_constant(term: Any) -> bool:
    # A comprehension has an expression with a reference or a variable in it.
    return not any(isinstance(node, (Var, Ref, Call, Expr)) for node in walk(term))


def _is_closed(expr: Expr) -> bool:
    """Return True if an expression has no variables: documents and built-ins only."""
    operators = [node.operator for node in walk(expr) if isinstance(node, Call)]
    heads = {id(each.head) for each in operators}
    free = [n for n in walk(expr) if isinstance(n, Var) and id(n) not in heads]
    return all(node.name in ("input", "data") for node in free)


def _meet(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return all(a == b for a, b in zip(one, other, strict=False))
