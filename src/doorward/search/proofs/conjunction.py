"""A conjunction of expressions as the refuter works on it: its texts, and changes of it.

A variable has one value in the whole conjunction, so it is a term like a part of the input. A
change that is not possible in an expression drops it, which makes the conjunction weaker.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from doorward.rego import Registry
from doorward.rego.shared import Source
from doorward.rego.tools import (
    And,
    Array,
    ArrayComprehension,
    Call,
    Every,
    Expr,
    Node,
    Not,
    Object,
    ObjectComprehension,
    Or,
    Ref,
    Scalar,
    Set,
    SetComprehension,
    SomeDecl,
    SomeIn,
    TemplateString,
    Term,
    Var,
    format_tree,
    kinds,
    parse_query,
    rewrite,
    walk,
)

__all__ = [
    "OPERATORS",
    "PLAIN",
    "Conjunction",
    "equal_terms",
    "equation",
    "free_names",
    "fresh_name",
    "has_scope",
    "instantiate",
    "is_prefix",
    "is_read",
    "items_of",
    "operands",
    "readers_of",
    "rename",
    "substitute",
]

OPERATORS: Final = {
    **{"lt": "<", "lte": "<=", "gt": ">", "gte": ">="},
    **{"eq": "=", "equal": "=", "neq": "!="},
}
PLAIN: Final = frozenset(
    {
        *("eq", "equal", "neq", "lt", "lte", "gt", "gte", "plus", "minus", "mul"),
        *("internal.member_2", "count", "startswith", "endswith", "contains", "lower", "upper"),
        *("is_number", "is_string", "is_boolean", "is_null", "is_array", "is_object", "is_set"),
        *("glob.match", "regex.match", "split", "concat", "trim", "trim_prefix", "trim_suffix"),
    }
)
"""Built-ins that give equal answers for equal operands. Others may tell `1` from `1.0`, which are
equal numbers, and an input may contain either.
"""
_SCOPES: Final = (
    ArrayComprehension,
    SetComprehension,
    ObjectComprehension,
    Every,
    SomeDecl,
    SomeIn,
    Not,
    And,
    Or,
    TemplateString,
)
_TRUE: Final = Expr(Scalar(True))


class Conjunction:
    """Expressions that must all hold for one input and one value of each variable."""

    def __init__(self, exprs: Sequence[Expr], registry: Registry) -> None:
        self.exprs = tuple(exprs)
        self._registry = registry

    @classmethod
    def parse(cls, texts: Sequence[str], registry: Registry) -> Conjunction:
        """Parse expressions in Rego. Each `_` gets a name that no other expression has. ParseError
        for an invalid text.
        """
        return cls([_parse(text, n, registry) for n, text in enumerate(texts)], registry)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The expressions in Rego, in their order."""
        return tuple(format_tree((expr,)).strip() for expr in self.exprs)

    def names_outside(self, position: int) -> set[str]:
        """Return the variables of the expressions, except of the one at `position` and of those
        that have bodies inside.
        """
        others = [expr for n, expr in enumerate(self.exprs) if n != position]
        return {name for expr in others if not has_scope(expr) for name in free_names(expr)}

    def substitute(self, values: Mapping[str, Term]) -> Conjunction:
        """Return the conjunction with terms put in for variables."""
        exprs = [substitute(expr, values, self._registry) for expr in self.exprs]
        return Conjunction(exprs, self._registry)

    def extend(self, exprs: Sequence[Expr]) -> Conjunction:
        """Return a conjunction with these expressions added at the end, so that positions stay
        valid.
        """
        return Conjunction([*self.exprs, *exprs], self._registry)


def _parse(text: str, position: int, registry: Registry) -> Expr:
    """Parse an expression; a built-in called with an output operand becomes an equation, and each
    `_` a name.
    """
    (expr,) = parse_query(Source("", text), v0=False)
    wildcards = {name for name in free_names(expr) if name.startswith("$")}
    expr = rename(expr, {name: Var(f"_any{position}_{name[1:]}") for name in wildcards})
    builtin = registry.get(expr.term.name) if isinstance(expr.term, Call) else None
    if builtin is None or builtin.relation:
        return expr
    return _result_as_equation(expr, len(builtin.signature.args))


def _result_as_equation(expr: Expr, count: int) -> Expr:
    """Return a call with one operand more than the `count` declared ones as an equation of the call
    with that operand: `f(x, y)` as `f(x) = y`. A call without it is returned unchanged.
    """
    call = expr.term
    assert isinstance(call, Call)
    if len(call.args) != count + 1:
        return expr
    inner = Call(call.operator, call.args[:-1])
    return Expr(
        Call(Ref(Var("eq"), ()), (inner, call.args[-1]), infix=True), expr.negated, expr.withs
    )


def equal_terms(left: Term, right: Term) -> Call:
    """Return the call of the equation `left = right`."""
    return Call(Ref(Var("eq"), ()), (left, right), infix=True)


def substitute(expr: Expr, values: Mapping[str, Term], registry: Registry) -> Expr:
    """Return an expression with equal terms put in for variables, in an `every` only in the domain;
    unchanged if it has none of the variables. Otherwise it becomes `true` if it has `with`, if it
    has inner bodies and is not an `every` whose body does without the variables, or if equal
    numbers in another notation might change it.
    """
    if free_names(expr).isdisjoint(values):
        return expr
    if has_scope(expr):
        every = expr.term
        if isinstance(every, Every) and not expr.negated and not expr.withs:
            inner = {name for part in every.body for name in free_names(part)}
            if inner.isdisjoint(values) and not has_scope(Expr(every.domain)):
                domain: Any = rename(Expr(every.domain), values).term
                return Expr(Every(every.key, every.value, domain, every.body))
        return _TRUE
    if expr.withs or not _is_indifferent(expr.term, values, registry):
        return _TRUE
    return rename(expr, values)


def _is_indifferent(node: Any, names: Container[str], registry: Registry) -> bool:
    """Return True if a node's result certainly does not depend on how equal numbers in the
    variables `names` are written. `node` must have no inner bodies.
    """
    match node:
        case Call(args=args):
            builtin = registry.get(node.name)
            if builtin is None:
                return not _mentions(node, names)
            types = builtin.signature.args
            for number, arg in enumerate(args):
                is_text = number < len(types) and set(kinds(types[number])) == {"string"}
                # A result beside the operands is compared only.
                is_safe = is_text or node.name in PLAIN or number == len(types)
                if _mentions(arg, names) and not is_safe:
                    return False
            return all(_is_indifferent(arg, names, registry) for arg in args)
        case Ref(head=head, args=args):
            # What a key finds may depend on how a number is written.
            is_in_key = any(_mentions(arg, names) for arg in args)
            return not is_in_key and _is_indifferent(head, names, registry)
        case Array(items=items) | Set(items=items):
            return all(_is_indifferent(item, names, registry) for item in items)
        case Object(items=pairs):
            return all(_is_indifferent(part, names, registry) for pair in pairs for part in pair)
    return True


def _mentions(node: Any, names: Container[str]) -> bool:
    return any(isinstance(each, Var) and each.name in names for each in walk(node))


def rename(expr: Expr, values: Mapping[str, Term]) -> Expr:
    """Return an expression with terms put in for variables; nested references are joined into
    one.
    """

    def change(node: Node) -> Node:
        """Replace a variable, or join a reference whose head is a reference."""
        if isinstance(node, Call):
            # Its operator is a reference, whose head is not a variable.
            return node
        if isinstance(node, Ref) and isinstance(node.head, Ref):
            return Ref(node.head.head, (*node.head.args, *node.args))
        return values.get(node.name, node) if isinstance(node, Var) else node

    changed: Expr = rewrite(expr, change)
    return changed


def has_scope(expr: Expr) -> bool:
    """Return True if an expression has names of its own, in a body inside it."""
    return any(isinstance(node, _SCOPES) for node in walk(expr))


def free_names(expr: Node | Expr) -> set[str]:
    """Return the variables of an expression, including those of bodies inside it, without `input`,
    `data` and operators.
    """
    operators = {id(node.operator.head) for node in walk(expr) if isinstance(node, Call)}
    names = {n.name for n in walk(expr) if isinstance(n, Var) and id(n) not in operators}
    return names - {"input", "data"}


def operands(expr: Expr) -> tuple[Term, str, Term] | None:
    """Return the two sides and the sign of a comparison; None for other expressions, and if it is
    negated or has `with`.
    """
    call = expr.term
    if expr.negated or expr.withs or not isinstance(call, Call) or len(call.args) != 2:
        return None
    sign = OPERATORS.get(call.name)
    return None if sign is None else (call.args[0], sign, call.args[1])


def equation(expr: Expr) -> Iterator[tuple[Term, Term]]:
    """Yield an equation's two sides in both orders; nothing for other expressions, and if it is
    negated or has `with`.
    """
    sides = operands(expr)
    if sides is not None and sides[1] == "=":
        yield sides[0], sides[2]
        yield sides[2], sides[0]


def fresh_name(name: str, suffix: str) -> str:
    """Return a new name for a variable, with `suffix` at its end; a wildcard `$…` becomes
    `_any…`.
    """
    return f"_any{name[1:]}{suffix}" if name.startswith("$") else f"{name}{suffix}"


def readers_of(conjunction: Conjunction, term: Term, leave_out: int) -> Iterator[int]:
    """Yield the positions of the expressions, except that at `leave_out`, that hold only if the
    term has a value. Negated expressions and those with `with` or bodies inside do not count.
    """
    for position, expr in enumerate(conjunction.exprs):
        if position == leave_out or expr.negated or expr.withs or has_scope(expr):
            continue
        if any(is_prefix(term, node) for node in walk(expr)):
            yield position


def is_prefix(term: Term, node: Node) -> bool:
    """Return True if a node equals the term, numbers written alike, or is a reference into it."""
    if isinstance(term, Ref) and isinstance(node, Ref):
        node = Ref(node.head, node.args[: len(term.args)])
    # Equal numbers may be written differently, and some built-ins tell them apart.
    return node == term and format_tree((Expr(term),)) == format_tree((Expr(node),))  # type: ignore[arg-type]


def is_read(variable: Var, conjunction: Conjunction) -> bool:
    """Return True if an expression has a reference into the variable's value."""
    nodes = [node for expr in conjunction.exprs for node in walk(expr)]
    return any(isinstance(node, Ref) and node.head == variable for node in nodes)


def items_of(conjunction: Conjunction, domain: Term, leave_out: int) -> Iterator[tuple[int, Ref]]:
    """Yield references to items of a collection, with the position of an expression, except that at
    `leave_out`, that holds only if the item exists. Nothing for a collection that is not a
    reference.
    """
    if not isinstance(domain, Ref):
        return
    size = len(domain.args)
    for position, expr in enumerate(conjunction.exprs):
        if position == leave_out or expr.negated or expr.withs or has_scope(expr):
            continue
        for node in walk(expr):
            if isinstance(node, Ref) and len(node.args) > size and is_prefix(domain, node):
                yield position, Ref(node.head, node.args[: size + 1])


def instantiate(
    every: Every, item: Ref, outer: set[str], suffix: str, registry: Registry
) -> list[Expr]:
    """Return the body of an `every` for an item of its domain. Its variables get the suffix, except
    those in `outer`, which the expressions around the `every` have too.
    """
    values: dict[str, Term] = {every.value.name: item}
    if every.key is not None:
        values[every.key.name] = item.args[-1]
    for name in {name for expr in every.body for name in free_names(expr)} - set(values) - outer:
        values[name] = Var(fresh_name(name, suffix))
    return [substitute(expr, values, registry) for expr in every.body]
