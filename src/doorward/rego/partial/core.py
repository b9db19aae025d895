"""Programs as the partial evaluator reads them: one call, one equation or one term an expression.

The language without its sugar: names are resolved, `:=` and `==` are `=`, `some` is gone, nested
calls are in expressions of their own. Every value that is known is a `Constant`, however large:
a composite term of constants does not exist, it is a constant itself (`array`, `object_`, `set_`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import Any, Final, TypeAlias

from doorward.base.records import mutable, record
from doorward.rego.source import NOWHERE, Span
from doorward.rego.values import Value, equal, from_key, make_object, make_set, to_key

__all__ = [
    "DATA",
    "EQUALITY",
    "FALSE",
    "INPUT",
    "TRUE",
    "Array",
    "Body",
    "Call",
    "Comprehension",
    "Constant",
    "Every",
    "Expr",
    "Object",
    "Operator",
    "Ref",
    "Rule",
    "Set",
    "Term",
    "Var",
    "With",
    "array",
    "bodies",
    "changed",
    "equation",
    "inner_terms",
    "is_ground",
    "is_path",
    "kind_of",
    "map_parts",
    "negated_as",
    "object_",
    "parts",
    "set_",
    "variables",
]

EQUALITY: Final = "eq"


class Constant:
    """A known value of any kind."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        # Identity first, since `equal` walks through collections.
        return type(other) is Constant and (
            self.value is other.value or equal(self.value, other.value)
        )

    def __hash__(self) -> int:
        return hash(to_key(self.value))

    def __repr__(self) -> str:
        return f"Constant({self.value!r})"


@record(guarded=False)
class Var:
    """A variable; a wildcard is `$0`, `$1`, …"""

    name: str


@record(guarded=False)
class Ref:
    """A reference `head[a][b]`: `parts` are the head and the operands. `input` alone is a reference
    too.
    """

    parts: tuple[Term, ...]


@record(guarded=False)
class Array:
    """An array with at least one item that is not constant; a known array is a `Constant`."""

    items: tuple[Term, ...]


@record(guarded=False)
class Object:
    """An object with at least one key or value that is not constant; a known object is a
    `Constant`.
    """

    items: tuple[tuple[Term, Term], ...]


@record(guarded=False)
class Set:
    """A set with at least one member that is not constant; a known set is a `Constant`."""

    items: tuple[Term, ...]


Operator: TypeAlias = str | Ref
"""The callee of a call: the name of a built-in, or the path of a function below `data`."""


@record(guarded=False)
class Call:
    """A call inside a term, as the last step of simplification restores it."""

    operator: Operator
    args: tuple[Term, ...]
    location: Span = field(default=NOWHERE, compare=False)
    """The span of the operator in the policy."""


@record(guarded=False)
class Comprehension:
    """A comprehension. `kind`: array, set or object; only objects have a `key`."""

    kind: str
    key: Term | None
    term: Term
    body: Body


Term: TypeAlias = Constant | Var | Ref | Array | Object | Set | Call | Comprehension


@record(guarded=False)
class With:
    """A `with`. `target` is a path below `input` or `data`, or the name of a built-in. With
    `names_builtin`, the variable at the head of `value` is part of a built-in's name.
    """

    target: Ref
    value: Term
    names_builtin: bool = False


@record(guarded=False)
class Every:
    """An `every key, value in domain { body }`."""

    key: Term
    value: Term
    domain: Term
    body: Body


@record(guarded=False)
class Expr:
    """One expression: a call `operator(args)`; without an operator, the one term in `args`, which
    must not be false; or an `every`.

    If a call has one operand more than its function declares, the last one is unified with the
    result. `generated`: the compiler made the expression from a part of another one.
    """

    args: tuple[Term, ...]
    operator: Operator | None = None
    negated: bool = False
    withs: tuple[With, ...] = ()
    every: Every | None = None
    generated: bool = field(default=False, compare=False)
    span: Span = field(default=NOWHERE, compare=False)
    location: Span = field(default=NOWHERE, compare=False)
    """The span of the operator in the policy."""

    @property
    def is_equation(self) -> bool:
        return self.operator == EQUALITY


Body: TypeAlias = tuple[Expr, ...]


@mutable(eq=False)
class Rule:
    """One rule. `path` is its reference, which begins with `data`; the operands are constants or
    variables, and the first `package` parts are its package. `args` are the parameters of a
    function, None for other rules. `key` is the member that `contains` adds; then `value` is None.
    `otherwise` is its `else`.
    """

    path: tuple[Term, ...]
    args: tuple[Term, ...] | None
    key: Term | None
    value: Term | None
    body: Body
    package: int
    default: bool = False
    otherwise: Rule | None = None
    span: Span = NOWHERE
    before: tuple[Rule, ...] = ()
    """The rule and `else` branches that come before this `else` branch, in order; () for a rule
    that is not an `else`.
    """

    @property
    def is_set(self) -> bool:
        return self.value is None

    @property
    def is_ground(self) -> bool:
        """True if the reference has no variables: the rule is complete, or a set or a function."""
        return all(type(part) is not Var for part in self.path[1:])

    def branches(self) -> Iterator[Rule]:
        """Yield this rule and its `else` branches in order."""
        rule: Rule | None = self
        while rule is not None:
            yield rule
            rule = rule.otherwise

    @property
    def first(self) -> Rule:
        """The rule that `else` continues, which may be this one."""
        return self.before[0] if self.before else self


INPUT: Final = Var("input")
DATA: Final = Var("data")
TRUE: Final = Constant(True)
FALSE: Final = Constant(False)


def equation(left: Term, right: Term, like: Expr | None = None) -> Expr:
    """Return the expression `left = right`. It takes its position and its `with` from the
    expression `like` if there is one.
    """
    if like is None:
        return Expr((left, right), EQUALITY)
    return Expr((left, right), EQUALITY, withs=like.withs, span=like.span)


def array(items: Iterable[Term]) -> Term:
    """Return the array of `items` in their order, as a constant if they all are constants."""
    terms = tuple(items)
    if all(type(term) is Constant for term in terms):
        return Constant([term.value for term in terms])  # type: ignore[union-attr]
    return Array(terms)


def set_(items: Iterable[Term]) -> Term:
    """Return the set of `items` without repetitions of equal terms, as a constant if they all are
    constants.
    """
    terms = tuple(dict.fromkeys(items))
    if all(type(term) is Constant for term in terms):
        return Constant(make_set([term.value for term in terms]))  # type: ignore[union-attr]
    return Set(terms)


def object_(items: Iterable[tuple[Term, Term]]) -> Term:
    """Return the object of `items` (keys and values), as a constant if they all are constants; of
    equal keys the last value counts, at the place of the first.
    """
    pairs = dict(items)
    if all(type(k) is Constant and type(v) is Constant for k, v in pairs.items()):
        return Constant(make_object([(k.value, v.value) for k, v in pairs.items()]))  # type: ignore[union-attr]
    return Object(tuple(pairs.items()))


def object_items(term: Term) -> Iterator[tuple[Term, Term]]:
    """Yield the keys and values of an object term, constant or not, in its order; of a constant
    both as constants.
    """
    if type(term) is Constant:
        value: Any = term.value
        for key, item in value.items():
            yield Constant(from_key(key)), Constant(item)
    else:
        assert type(term) is Object
        yield from term.items


_KINDS: Final[dict[type, str]] = {Array: "array", Object: "object", Set: "set"}
_VALUE_KINDS: Final[dict[type, str]] = {list: "array", dict: "object", frozenset: "set"}


def kind_of(term: Term) -> str:
    """Return "array", "object" or "set" for a collection, constant or not; "" for all other terms,
    comprehensions included.
    """
    if type(term) is Constant:
        return _VALUE_KINDS.get(type(term.value), "")
    return _KINDS.get(type(term), "")


def is_ground(term: Term) -> bool:
    """Return True if the term contains no variable, apart from the head of a reference.
    Comprehensions and calls count as not ground.
    """
    kind = type(term)
    if kind is Constant:
        return True
    if kind is Var or kind is Comprehension or kind is Call:
        return False
    if type(term) is Ref:
        return all(map(is_ground, term.parts[1:]))
    return all(map(is_ground, parts(term)))


def is_path(term: Term) -> bool:
    """Return True if the term is a reference below `input` or `data` with only constant operands,
    such as `input.a["b"]`.
    """
    if type(term) is not Ref:
        return False
    head, *rest = term.parts
    if type(head) is not Var or (head.name != "input" and head.name != "data"):
        return False
    for part in rest:  # noqa: SIM110  # a generator costs more than the rest of it
        if type(part) is not Constant:
            return False
    return True


def parts(term: Term) -> Iterator[Term]:
    """Yield the terms directly inside `term`, of a call also the reference to its function (not the
    name of a built-in); nothing for a scalar, a variable or a comprehension.
    """
    if type(term) is Constant or type(term) is Var:
        return
    match term:
        case Ref(items):
            yield from items
        case Array(items) | Set(items):
            yield from items
        case Object(pairs):
            for key, value in pairs:
                yield key
                yield value
        case Call(operator, args):
            if type(operator) is Ref:
                yield operator
            yield from args


def map_parts(term: Term, change: Callable[[Term], Term]) -> Term:
    """Return `term` with `change` applied to the terms directly inside it, except the operator of a
    call. Constants, variables and comprehensions are returned unchanged; a collection becomes a
    `Constant` if all its new parts are constants.
    """
    match term:
        case Ref(items):
            return Ref(tuple([change(item) for item in items]))
        case Array(items):
            return array([change(item) for item in items])
        case Set(items):
            return set_([change(item) for item in items])
        case Object(pairs):
            return object_([(change(key), change(value)) for key, value in pairs])
        case Call(operator, args):
            return Call(operator, tuple([change(arg) for arg in args]), term.location)
    return term


def bodies(expr: Expr) -> Iterator[Comprehension | Every]:
    """Yield the outermost comprehensions and the `every` of an expression, those in its `with`
    values included, but not those inside their bodies.
    """
    if expr.every is not None:
        yield expr.every
        waiting: list[Term] = [expr.every.domain]
    else:
        waiting = list(expr.args)
    waiting += [item.value for item in expr.withs]
    while waiting:
        term = waiting.pop(0)
        if type(term) is Comprehension:
            yield term
        else:
            waiting += parts(term)


def inner_terms(terms: Iterable[Term]) -> Iterator[Term]:
    """Yield `terms` and all terms inside them, including those in comprehensions, in no particular
    order.
    """
    waiting = list(terms)
    while waiting:
        term = waiting.pop()
        yield term
        if type(term) is Comprehension:
            waiting.append(term.term)
            if term.key is not None:
                waiting.append(term.key)
            for expr in term.body:
                waiting += expr_terms(expr)
        else:
            waiting += parts(term)


def variables(term: Term) -> Iterator[str]:
    """Yield the names of the variables in `term`, once for each occurrence, including those in
    comprehensions and the heads of references, also `input` and `data`.
    """
    return (each.name for each in inner_terms((term,)) if type(each) is Var)


def expr_terms(expr: Expr) -> list[Term]:
    """Return the terms of an expression: its operands, the targets and values of `with`, and for an
    `every` also its key, value, domain and the terms of its body. The operator is not included.
    """
    terms: list[Term] = list(expr.args)
    for item in expr.withs:
        terms += (item.target, item.value)
    if expr.every is not None:
        every = expr.every
        terms += (every.key, every.value, every.domain)
        for inner in every.body:
            terms += expr_terms(inner)
    return terms


def with_args(expr: Expr, args: Iterable[Term]) -> Expr:
    """Return `expr` with other operands and without an `every`."""
    return changed(expr, tuple(args), expr.withs)


def changed(
    expr: Expr, args: tuple[Term, ...], withs: tuple[With, ...], every: Every | None = None
) -> Expr:
    """Return `expr` with the given operands, `with` and `every`; operator, `not` and positions
    stay. Without `every` the result has none. Five times faster than `dataclasses.replace`.
    """
    return Expr(
        args,
        expr.operator,
        expr.negated,
        withs,
        every,
        expr.generated,
        expr.span,
        expr.location,
    )


def negated_as(expr: Expr, *, negated: bool, withs: tuple[With, ...]) -> Expr:
    """Return a copy of `expr` with the given `not` (`negated`) and `with`."""
    return Expr(
        expr.args,
        expr.operator,
        negated,
        withs,
        expr.every,
        expr.generated,
        expr.span,
        expr.location,
    )
