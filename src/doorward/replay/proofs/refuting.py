"""Refutes a conjunction of a residual, for any input: the steps, or None where it cannot.

Every rule may leave expressions out: fewer conditions are a weaker conjunction, so a refutation of
some of them refutes all. An expression that is not understood is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Final

from doorward.pdp.access import ALL, Unknowns, put
from doorward.rego import CompileError, Engine, EvalError, Value, from_key, parse_term
from doorward.rego.tools import (
    Array,
    Body,
    Call,
    Expr,
    Module,
    Object,
    Ref,
    Scalar,
    Set,
    Term,
    Var,
    compare,
    format_tree,
    walk,
)
from doorward.replay.proofs.steps import Bounds, Cases, Contradiction, Denied, Fails, Step

__all__ = ["Refuter"]

VALUES: Final = 256
"""Values of one leaf that are put in."""
LEAVES: Final = 3
"""Leaves that are put in at once."""
WORK: Final = 20_000
"""Expressions evaluated for one conjunction."""
_FLIPPED: Final = {"lt": "gt", "gt": "lt", "lte": "gte", "gte": "lte", "eq": "eq", "equal": "eq"}


class Refuter:
    """Refutes conjunctions of one residual. `engine` has its support modules as well; `unknowns`
    are the parts of the input that are not known, with the rest of it."""

    def __init__(self, engine: Engine, support: Sequence[Module], unknowns: Unknowns = ALL) -> None:
        self._engine = engine
        self._support = support
        self._unknowns = unknowns
        self._work = 0

    def refute(self, body: Body) -> Step | None:
        """Why no input makes all expressions of `body` true; None where that is not known."""
        self._work = WORK
        body = tuple(body)
        texts = [format_tree((expr,)).strip() for expr in body]
        usable = [not expr.withs and _is_pure(expr, self._engine) for expr in body]
        return (
            self._contradiction(texts, usable)
            or self._bounds(body)
            or self._denied(body, texts, usable)
            or self._cases(body, texts, usable, {})
        )

    def _contradiction(self, texts: Sequence[str], usable: Sequence[bool]) -> Step | None:
        known = {text: number for number, text in enumerate(texts) if usable[number]}
        for text, number in known.items():
            negative = known.get(f"not {text}")
            if negative is not None:
                return Contradiction(number, negative)
        return None

    def _bounds(self, body: Body) -> Step | None:
        limits = [(number, limit) for number, expr in enumerate(body) if (limit := _limit(expr))]
        for (first, one), (second, other) in combinations(limits, 2):
            if one[0] == other[0] and (_excludes(one, other) or _excludes(other, one)):
                return Bounds(first, second)
        return None

    def _denied(self, body: Body, texts: Sequence[str], usable: Sequence[bool]) -> Step | None:
        known = {text: number for number, text in enumerate(texts) if usable[number]}
        for number, expr in enumerate(body):
            if not expr.negated or expr.withs or not isinstance(expr.term, Ref):
                continue
            path = _path(expr.term, "data")
            for m, module in enumerate(self._support):
                for r, rule in enumerate(module.rules):
                    head = rule.head
                    name = (*module.package.path, *_name(head.ref))
                    is_true = head.value is None or head.value == Scalar(True)
                    is_plain = head.args is None and head.key is None and not rule.default
                    if name != path or not (is_true and is_plain):
                        continue
                    inner = [format_tree((each,)).strip() for each in rule.body]
                    if all(
                        t in known and not _variables(e)
                        for t, e in zip(inner, rule.body, strict=True)
                    ):
                        return Denied(number, (m, r), tuple(known[text] for text in inner))
        return None

    def _cases(
        self,
        body: Body,
        texts: Sequence[str],
        usable: Sequence[bool],
        leaves: Mapping[tuple[str, ...], Value],
    ) -> Step | None:
        """Put in the values that a leaf can have, one after the other."""
        for number, text in enumerate(texts):
            if usable[number] and self._fails(text, leaves):
                return Fails(number)
        if len(leaves) >= LEAVES:
            return None
        for number, expr in enumerate(body):
            leaf = _choices(expr)
            if leaf is None or any(_are_nested(leaf[0], other) for other in leaves):
                continue
            path, values = leaf
            if self._unknowns.is_known(path):
                continue
            cases = []
            for value in values[: VALUES + 1]:
                refutation = self._cases(body, texts, usable, {**leaves, path: value})
                if refutation is None:
                    break
                cases.append((value, refutation))
            if len(cases) == len(values):
                return Cases(path, number, tuple(cases))
            if not leaves and self._work <= 0:
                return None
        return None

    def _fails(self, text: str, leaves: Mapping[tuple[str, ...], Value]) -> bool:
        """Return True if an expression reads only the leaves, and does not hold with them."""
        if self._work <= 0:
            return False
        try:
            query = self._engine.prepare(text, deadline=0.2)
            paths = [tuple(map(str, path)) for path in query.input_paths]
            if not all(
                any(path[: len(leaf)] == leaf for leaf in leaves) or self._unknowns.is_known(path)
                for path in paths
            ):
                return False
            self._work -= 1
            return not query.results(self._document(leaves))
        except (CompileError, EvalError):
            return False  # an error decides nothing

    def _document(self, leaves: Mapping[tuple[str, ...], Value]) -> Value:
        document = self._unknowns.input
        for path, value in leaves.items():
            document = put(document, path, value)
        return document


def _are_nested(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    size = min(len(one), len(other))
    return one[:size] == other[:size]


def _is_pure(expr: Expr, engine: Engine) -> bool:
    """Return True if an expression has one answer for one input: nothing in it asks the world."""
    calls = [node.name for node in walk(expr) if isinstance(node, Call)]
    reads_rules = any(isinstance(n, Ref) and n.head == Var("data") for n in walk(expr))
    if reads_rules or any(name.startswith("data.") for name in calls):
        for module in engine.policies.program.modules:
            calls += [node.name for node in walk(module) if isinstance(node, Call)]
    builtins = [engine.registry.get(name) for name in calls if not name.startswith("data.")]
    return all(each is not None and each.pure for each in builtins)


def _variables(expr: Expr) -> bool:
    """Return True if an expression has variables of its own."""
    names = {node.name for node in walk(expr) if isinstance(node, Var)}
    operators = {node.operator.head for node in walk(expr) if isinstance(node, Call)}
    return bool(names - {"input", "data"} - {op.name for op in operators if isinstance(op, Var)})


def _name(ref: Ref) -> tuple[str, ...]:
    first = (ref.head.name,) if isinstance(ref.head, Var) else ()
    return (*first, *[str(arg.value) for arg in ref.args if isinstance(arg, Scalar)])


def _path(term: Term, root: str) -> tuple[str, ...] | None:
    """The names below `input` or `data`; None for what is not such a path."""
    if not isinstance(term, Ref) or term.head != Var(root):
        return None
    names = [arg.value for arg in term.args if isinstance(arg, Scalar)]
    if len(names) != len(term.args) or not all(isinstance(name, str) for name in names):
        return None
    return tuple(str(name) for name in names)


def _constant(term: Term) -> tuple[Value] | None:
    if not isinstance(term, (Scalar, Array, Object, Set)) or any(
        isinstance(node, (Var, Ref, Call)) for node in walk(term)
    ):
        return None
    try:
        return (parse_term(format_tree((Expr(term),)).strip()),)
    except (CompileError, ValueError):
        return None


def _limit(expr: Expr) -> tuple[tuple[str, ...], str, Value] | None:
    """A leaf, an operator and a constant."""
    call = expr.term
    if expr.negated or expr.withs or not isinstance(call, Call) or call.name not in _FLIPPED:
        return None
    if len(call.args) != 2:
        return None
    left, right = call.args
    for term, other, name in ((left, right, call.name), (right, left, _FLIPPED[call.name])):
        path, value = _path(term, "input"), _constant(other)
        if path is not None and value is not None:
            return path, "eq" if name == "equal" else name, value[0]
    return None


def _excludes(
    low: tuple[tuple[str, ...], str, Value], high: tuple[tuple[str, ...], str, Value]
) -> bool:
    """Return True if a lower bound is above an upper one."""
    if low[1] not in ("gt", "gte", "eq") or high[1] not in ("lt", "lte", "eq"):
        return False
    order = compare(low[2], high[2])
    return order > 0 or (order == 0 and (low[1] == "gt" or high[1] == "lt"))


def _choices(expr: Expr) -> tuple[tuple[str, ...], list[Value]] | None:
    """A leaf and the values that it can have."""
    call = expr.term
    if expr.negated or expr.withs or not isinstance(call, Call):
        return None
    limit = _limit(expr)
    if limit is not None and limit[1] == "eq":
        return limit[0], [limit[2]]
    if call.name != "internal.member_2" or len(call.args) != 2:
        return None
    path, collection = _path(call.args[0], "input"), _constant(call.args[1])
    if path is None or collection is None:
        return None
    match collection[0]:
        case list(items):
            return path, items
        case frozenset() as members:
            return path, [from_key(key) for key in members]
        case dict(fields):
            return path, list(fields.values())
    return None
