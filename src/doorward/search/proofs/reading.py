"""Expressions and terms as the checker reads them; the refuter uses none of this code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any, Final, TypeAlias

from doorward.rego.tools import (
    Array,
    Call,
    Expr,
    Module,
    Ref,
    Rule,
    Scalar,
    Var,
    format_tree,
    rewrite,
    walk,
)

__all__ = [
    "Comparison",
    "adds_member",
    "denies_fields",
    "denies_items",
    "equate",
    "equations_of",
    "has_inner",
    "has_number",
    "is_below",
    "is_constant",
    "is_small",
    "is_true_rule",
    "meet",
    "names_of",
    "pair_items",
    "path_of",
    "put_terms",
    "read_fields",
    "reads",
    "set_at",
    "sides_of",
    "start_of",
    "text_of",
    "turn",
    "variables_of",
]

Comparison: TypeAlias = tuple[Any, str, Any]
"""A term, a sign such as `<=` or `==`, and a term."""
_OF_ORDER: Final = {
    "lt": "<",
    "lte": "<=",
    "gt": ">",
    "gte": ">=",
    "eq": "==",
    "equal": "==",
    "neq": "!=",
}
_TURNED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
_LIMIT: Final = 2**26
"""Sums and products of two integers below this are exact as floats."""


def equate(left: Any, right: Any) -> Call:
    return Call(Ref(Var("eq"), ()), (left, right), infix=True)


def text_of(node: Any) -> str:
    """Return an expression or a term in the canonical layout of Rego, by which the checker
    compares.
    """
    expr = node if isinstance(node, Expr) else Expr(node)
    return format_tree((expr,)).strip()


def variables_of(node: Any) -> set[str]:
    """Return the names of the variables in a node, without `input`, `data` and operators."""
    heads = {id(each.operator.head) for each in walk(node) if isinstance(each, Call)}
    names = {n.name for n in walk(node) if isinstance(n, Var) and id(n) not in heads}
    return names - {"input", "data"}


def put_terms(expr: Expr, values: dict[str, Any]) -> Expr:
    """Return an expression with terms put in for variables; nested references are joined into
    one.
    """
    operators = {id(each.operator) for each in walk(expr) if isinstance(each, Call)}

    def new(node: Any) -> Any:
        """Replace a variable, or join a reference whose head is a reference."""
        if isinstance(node, Ref) and isinstance(node.head, Ref) and id(node) not in operators:
            return Ref(node.head.head, node.head.args + node.args)
        return values.get(node.name, node) if isinstance(node, Var) else node

    changed: Expr = rewrite(expr, new)
    return changed


def has_inner(expr: Expr) -> bool:
    """Return True if an expression contains a body (of a comprehension, `every`, `not`, `and`, `or`
    or template string) or declares names.
    """
    inner = ("Comprehension", "Every", "SomeDecl", "SomeIn", "Not", "And", "Or", "TemplateString")
    return any(type(node).__name__.endswith(inner) for node in walk(expr))


def is_constant(term: Any) -> bool:
    """Return True if a term contains no variable, reference, call or comprehension."""
    if isinstance(term, Call):
        return False
    # A comprehension has an expression with a reference or a variable in it.
    return not any(isinstance(node, (Var, Ref, Call, Expr)) for node in walk(term))


def names_of(term: Any, root: str) -> tuple[str, ...] | None:
    """Return the names of a path below `root` (`input` or `data`), () for `root` alone; None for
    other terms, such as a path with a key that is not a constant text.
    """
    if term == Var(root):
        return ()
    if not isinstance(term, Ref) or term.head != Var(root):
        return None
    names = [arg.value if isinstance(arg, Scalar) else None for arg in term.args]
    return tuple(map(str, names)) if all(type(name) is str for name in names) else None


def sides_of(expr: Expr) -> Comparison | None:
    """Return an expression as a comparison; None for other expressions, and if it is negated or has
    `with`.
    """
    call = expr.term
    if expr.negated or expr.withs or not isinstance(call, Call) or len(call.args) != 2:
        return None
    sign = _OF_ORDER.get(call.name)
    return None if sign is None else (call.args[0], sign, call.args[1])


def turn(link: Comparison) -> Comparison:
    """Return the same comparison with its sides exchanged: `a < b` -> `b > a`."""
    return link[2], _TURNED[link[1]], link[0]


def is_below(term: Any, other: Any) -> bool:
    """Return True if both terms are sums of the same term and integers, and the first is not
    greater: `x + 1` and `x + 2`, or `x` and `x + 1`.
    """
    return any(
        one == same and number <= more for one, number in _sums(term) for same, more in _sums(other)
    )


def _sums(term: Any) -> Iterator[tuple[str, int]]:
    """Yield pairs of a text and an integer: the term itself with 0, then each term in it with the
    integer that it adds to that: `x + 1` -> ("x + 1", 0), ("x", 1).
    """
    yield text_of(term), 0
    if not isinstance(term, Call) or len(term.args) != 2 or term.name not in ("plus", "minus"):
        return
    one, other = term.args
    first, second = _integer(one), _integer(other)
    if first is not None and term.name == "plus":
        yield text_of(other), first
    if second is not None:
        yield text_of(one), second if term.name == "plus" else -second


def _integer(term: Any) -> int | None:
    """Return the value of a constant integer below 2**53 in size; None for other terms."""
    value = term.value if isinstance(term, Scalar) else None
    is_small = isinstance(value, int) and type(value) is int and abs(value) < 2**53
    return value if is_small and isinstance(value, int) else None


def equations_of(expr: Expr) -> Iterator[tuple[Any, Any]]:
    """Yield an equation's two sides in both orders; nothing for other expressions, and if it is
    negated or has `with`.
    """
    sides = sides_of(expr)
    if sides is not None and sides[1] == "==":
        yield sides[0], sides[2]
        yield sides[2], sides[0]


def pair_items(one: Any, other: Any) -> list[tuple[Any, Any]]:
    """Return the items of two arrays of the same length in pairs; otherwise the two terms as one
    pair.
    """
    if isinstance(one, Array) and isinstance(other, Array) and len(one.items) == len(other.items):
        return list(zip(one.items, other.items, strict=True))
    return [(one, other)]


def reads(expr: Expr, text: str) -> bool:
    """Return True if the variable, call or reference whose text (`text_of`) is `text`, or a
    reference into it, occurs in an expression.
    """
    for node in walk(expr):
        if isinstance(node, (Var, Call)) and text_of(node) == text:
            return True
        if isinstance(node, Ref):
            for end in range(len(node.args) + 1):
                if text_of(Ref(node.head, node.args[:end])) == text:
                    return True
    return False


def read_fields(expr: Expr, fields: dict[str, str]) -> Expr:
    """Return an expression that reads fields of the input in place of terms. `fields` has, by the
    text of the term (`text_of`), the name of its field; a reference into such a term reads below
    the field.
    """
    if not fields:
        return expr

    def new(node: Any) -> Any:
        """Replace a term that has a field, or the beginning of a reference that has one."""
        if isinstance(node, (Var, Call)) and text_of(node) in fields:
            return Ref(Var("input"), (Scalar(fields[text_of(node)]),))
        if isinstance(node, Ref) and isinstance(node.head, Ref):
            node = Ref(node.head.head, node.head.args + node.args)
        if isinstance(node, Ref):
            for end in range(len(node.args) + 1):
                name = fields.get(text_of(Ref(node.head, node.args[:end])))
                if name is not None:
                    return Ref(Var("input"), (Scalar(name), *node.args[end:]))
        return node

    changed: Expr = rewrite(expr, new)
    return changed


def set_at(document: Any, leaf: Sequence[str], value: Any) -> None:
    """Set the value at a path in a document in place. Objects are added on the way, and replace
    other values there. IndexError for an empty path.
    """
    for name in leaf[:-1]:
        if not isinstance(document.get(name), dict):
            document[name] = {}
        document = document[name]
    document[leaf[-1]] = value


def denies_items(expr: Expr, member: Expr) -> bool:
    """Return True if `expr` limits the size of a collection so that `member` cannot hold: `member`
    reads an item of an empty collection or, in the input, one at an index beyond the limit, or
    states that something is in an empty collection.
    """
    if member.negated or member.withs or has_inner(member):
        return False
    references = [node for node in walk(member) if isinstance(node, Ref)]
    call = member.term
    is_member = isinstance(call, Call) and call.name == "internal.member_2"
    container = text_of(call.args[1]) if is_member and isinstance(call, Call) else None
    for collection, size in _sizes(expr):
        if size < 1 and container == collection:
            return True
        for ref in references:
            for end, key in enumerate(ref.args):
                if text_of(Ref(ref.head, ref.args[:end])) != collection:
                    continue
                # Of JSON, only an array has numbers as its keys.
                index = key.value if isinstance(key, Scalar) and ref.head == Var("input") else None
                if size < 1 or (type(index) is int and index >= size):
                    return True
    return False


def _sizes(expr: Expr) -> Iterator[tuple[str, int]]:
    """Yield a pair for each collection that an expression bounds: its text, and the greatest size
    that it allows.
    """
    sides = sides_of(expr)
    for count, sign, bound in () if sides is None else (sides, turn(sides)):
        if not isinstance(count, Call) or count.name != "count" or len(count.args) != 1:
            continue
        if isinstance(bound, Scalar) and type(bound.value) is int and sign in ("==", "<=", "<"):
            yield text_of(count.args[0]), bound.value - 1 if sign == "<" else bound.value


def denies_fields(expr: Expr, reader: Expr) -> bool:
    """Return True if `expr` states that an input path is not an object while `reader` reads a field
    of it.
    """
    call = expr.term
    if not expr.negated or expr.withs or not isinstance(call, Call) or call.name != "is_object":
        return False
    if reader.negated or reader.withs or has_inner(reader):
        return False
    path = names_of(call.args[0], "input")
    for node in walk(reader):
        if isinstance(node, Ref) and path is not None and node.head == Var("input"):
            below = names_of(Ref(node.head, node.args[: len(path) + 1]), "input")
            if below is not None and len(below) == len(path) + 1 and below[:-1] == path:
                return True
    return False


def is_true_rule(rule: Rule) -> bool:
    """Return True if a rule only has the value `true`: no parameters, key, `else`, `default`."""
    head = rule.head
    has_more = rule.default or rule.else_rule is not None or head.args is not None
    return not has_more and head.key is None and head.value in (None, Scalar(True))


def adds_member(rule: Rule) -> bool:
    """Return True if a rule adds a member to a set, without parameters, `else` or `default`."""
    head = rule.head
    has_more = rule.default or rule.else_rule is not None or head.args is not None
    return not has_more and head.key is not None and head.value is None


def path_of(tree: Module, rule: Rule) -> tuple[str, ...] | None:
    """Return the path of a rule, the package's path included but not `data`; None if a variable or
    a constant that is not a text is in it: `p[1]` is not `p["1"]`.
    """
    names = start_of(tree, rule)
    is_whole = len(names) == len(tree.package.path) + 1 + len(rule.head.ref.args)
    return names if is_whole else None


def start_of(tree: Module, rule: Rule) -> tuple[str, ...]:
    """Return the path of a rule, the package's path included but not `data`, up to its first key
    that is not a constant text.
    """
    head, args = rule.head.ref.head, rule.head.ref.args
    if not isinstance(head, Var):
        return tree.package.path
    values = [arg.value if isinstance(arg, Scalar) else None for arg in args]
    names = takewhile(lambda value: type(value) is str, values)
    return (*tree.package.path, head.name, *map(str, names))


def has_number(value: Any) -> bool:
    """Return True if a value contains a number at any depth."""
    if isinstance(value, dict):
        return any(has_number(part) for pair in value.items() for part in pair)
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(map(has_number, value))
    return not isinstance(value, (bool, str, type(None)))


def is_small(value: Any) -> bool:
    """Return True if all numbers in a value are integers below 2**26 in size, so that their sums
    are exact also as floats.
    """
    if isinstance(value, dict):
        return all(is_small(part) for pair in value.items() for part in pair)
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(map(is_small, value))
    if isinstance(value, (bool, str, type(None))):
        return True
    return type(value) is int and abs(value) < _LIMIT


def meet(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return True if one path is equal to or above the other."""
    return all(a == b for a, b in zip(one, other, strict=False))
