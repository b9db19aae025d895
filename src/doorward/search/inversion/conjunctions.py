"""Values that meet several conditions of one body at once.

The repair of one condition may break another that reads the same value. Here the conditions on one
term are taken together: those on a text as languages, those on numbers by trying and by secants.

Candidates may be wrong, since other conditions are left out here: the engine decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, product, takewhile
from operator import add, sub
from typing import Any, Final, TypeAlias

from doorward.base.records import record, replace
from doorward.rego.tools import Body, Call, Expr, Node, Ref, Scalar, Term, Var, rewrite, walk
from doorward.search.terms import term_text
from doorward.search.texts.conditions import condition_of
from doorward.search.texts.languages import Language, both, complement, find_text, of_length

__all__ = ["Conjunctions", "Numbers", "Text", "names_in"]

STATES: Final = 600
"""At most this many states of an intersection of languages are visited to find one text."""
LONGEST: Final = 64
"""Lengths of texts are read from `count` only below this number."""
LEAVES: Final = 3
"""Conditions that share more numbers than this are not solved together."""
TRIED: Final = 2_500
"""At most this many combinations of numbers are tried."""

Apply: TypeAlias = Callable[[str, Sequence[Any]], Any]
"""A function that calls a built-in by its name; UNDEFINED if an operand is or the call fails."""
Values: TypeAlias = tuple[Any, ...]
Evaluate: TypeAlias = Callable[[Values], Any]

_COMPARISONS: Final = frozenset({"eq", "equal", "neq", "lt", "lte", "gt", "gte"})
_ARITHMETIC: Final = frozenset(
    {
        *("plus", "minus", "mul", "div", "rem", "abs", "round", "ceil", "floor"),
        *(f"bits.{name}" for name in ("and", "or", "xor", "negate", "lsh", "rsh")),
    }
)
_CASES: Final = frozenset({"lower", "upper"})


@record
class Text:
    """A term and the language of the texts that all conditions on it accept. `exprs`: the positions
    of these conditions in the body.
    """

    term: Term
    language: Language
    exprs: frozenset[int]

    def find(self) -> str | None:
        """Return a text that meets all conditions; None if none is found among `STATES` states."""
        return find_text(self.language, STATES)


@record
class Numbers:
    """Comparisons that share numbers. `leaves`: the terms whose values can be chosen, by their
    text; `exprs`: the positions of the comparisons in the body.
    """

    leaves: Mapping[str, Term]
    conditions: tuple[Call, ...]
    exprs: frozenset[int]

    def solutions(self, apply: Apply) -> Iterator[dict[str, Any]]:
        """Yield values of the leaves, by their texts, with which all conditions hold: at most one
        solution for each leaf, which is computed from the others. Values are tried, at most `TRIED`
        combinations for each leaf; that none is found does not prove that there is none. `apply`
        calls a built-in.
        """
        names = [*self.leaves]
        for turn in range(len(names)):
            yield from islice(self._solutions([*names[turn:], *names[:turn]], apply), 1)

    def _solutions(self, names: Sequence[str], apply: Apply) -> Iterator[dict[str, Any]]:
        """Yield values for the numbers with which all conditions hold; gives up after `TRIED`
        attempts.

        All but the last number take constants of the policy, their neighbours and small integers.
        The last one is computed from them; it takes such values as well if there are at most two
        numbers, or if nothing can be computed.
        """
        index = {text: number for number, text in enumerate(names)}
        sides = [
            (_compile(each.args[0], index, apply), _compile(each.args[1], index, apply))
            for each in self.conditions
        ]
        calls = ["equal" if each.name == "eq" else each.name for each in self.conditions]
        few = _first_values(self._constants(), len(names))
        tried = 0
        for fixed in product(*[few] * (len(names) - 1)):
            meetings = _unique([*_meetings(sides, fixed)])
            others = few if not fixed or not meetings else few[: 8 if len(fixed) == 1 else 0]
            for value in _unique([*meetings, *others]):
                tried += 1
                values = (*fixed, value)
                pairs = ((left(values), right(values)) for left, right in sides)
                if all(apply(name, pair) is True for name, pair in zip(calls, pairs, strict=True)):
                    yield dict(zip(names, values, strict=True))
                if tried > TRIED:
                    return

    def _constants(self) -> list[Any]:
        """Return the numbers in the conditions, and those sums, differences and means of two of the
        first four that are integers; those that floats cannot hold are left out.
        """
        scalars = [n.value for each in self.conditions for n in walk(each) if isinstance(n, Scalar)]
        numbers: list[Any] = [each for each in scalars if type(each) in (int, float)]
        pairs = [(a, b) for a in numbers[:4] for b in numbers[:4] if a != b]
        return _unique([*numbers, *(each for a, b in pairs for each in _integers_between(a, b))])


def _integers_between(a: float, b: float) -> Iterator[int]:
    """Yield those of the sum, the difference and the mean of two numbers that are integers; those
    that floats cannot hold are left out.
    """
    for calculate in (add, sub, lambda a, b: (a + b) / 2):
        try:
            value = calculate(a, b)
            integer = int(value)
        except OverflowError:
            continue
        if value == integer:
            yield integer


def _compile(term: Term, index: Mapping[str, int], apply: Apply) -> Evaluate:
    """Return a function from the values of the leaves to the value of a term. `index`: the position
    of each leaf among the values.
    """
    if isinstance(term, Scalar):
        constant = term.value
        return lambda values: constant
    if isinstance(term, Call):
        name = term.name
        operands = [_compile(each, index, apply) for each in term.args]
        return lambda values: apply(name, [each(values) for each in operands])
    number = index[term_text(term)]
    return lambda values: values[number]


def _meetings(sides: Sequence[tuple[Evaluate, Evaluate]], fixed: Values) -> Iterator[Any]:
    """Solve each condition for the last leaf, `fixed` being the values of the others: yield the
    value at which both sides are equal if they are linear, and the integers next to it. Candidates
    only: sides need not be linear.
    """
    for left, right in sides:
        values = [side((*fixed, at)) for at in (0, 1) for side in (left, right)]
        if not {*map(type, values)} <= {int, float}:
            continue
        try:
            # The secant of the difference of both sides, through 0 and 1, meets zero at `meeting`.
            gap, next_gap = values[0] - values[1], values[2] - values[3]
            meeting = gap / (gap - next_gap)
        except ArithmeticError:
            continue  # parallel, or too large for floats
        if abs(meeting) < 1 << 53:
            near = int(meeting)
            yield from (near if near == meeting else meeting, near + 1, near - 1)


class Conjunctions:
    """Finds the conditions of a body that limit the same text or the same numbers, and values that
    meet them together. All results are cached by the body's identity.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Body, tuple[Text | Numbers, ...]]] = {}
        self._connected: dict[tuple[int, int], tuple[Body, Body]] = {}
        self._texts: dict[Text, str | None] = {}
        self._values: dict[int, tuple[dict[str, Any], ...]] = {}

    def of(self, body: Body) -> tuple[Text | Numbers, ...]:
        """Return the groups of conditions of a body that read the same text or numbers; () if there
        are none.
        """
        known = self._known.get(id(body))
        if known is None:
            # With the body: another one may get the identity of one that is gone.
            known = self._known[id(body)] = body, (*_texts(body), *_numbers(body))
        return known[1]

    def text_of(self, group: Text) -> str | None:
        """Return a text that meets all conditions of a group; None if none was found. Cached."""
        if group not in self._texts:
            self._texts[group] = group.find()
        return self._texts[group]

    def values_of(self, group: Numbers, apply: Apply) -> tuple[dict[str, Any], ...]:
        """Return solutions of comparisons that share numbers, at most one for each leaf: the values
        of the leaves by their texts; () if none was found, which does not prove that there is none.
        Cached by the identity of the group: `apply` counts only in the first call.
        """
        # `_known` keeps each group, so that its identity is not used again.
        known = self._values.get(id(group))
        if known is None:
            known = self._values[id(group)] = tuple(group.solutions(apply))
        return known

    def connected(self, body: Body, number: int) -> Body:
        """Return the expressions of a body that share variables or input paths with the one at
        `number`, directly or through others, and itself, in the body's order. Cached.
        """
        key = id(body), number
        known = self._connected.get(key)
        if known is None:
            known = self._connected[key] = body, _connected(body, number)
        return known[1]


def _texts(body: Body) -> Iterator[Text]:
    """Yield each term with two or more conditions on its text or length, at least one of them on
    its text, and the language that all of them accept. Conditions that have `with` or call `lower`
    or `upper` are left out.
    """
    groups: dict[str, list[tuple[int, Language, bool]]] = {}
    for number, written in enumerate(body):
        expr = _inline(written)
        condition = None if expr.withs or _reads_case(expr) else condition_of(expr)
        length = _length_of(expr)
        if condition is not None:
            groups.setdefault(condition[0], []).append((number, condition[1], True))
        elif length is not None:
            groups.setdefault(length[0], []).append((number, length[1], False))
    for text, group in groups.items():
        # A collection has a length, too.
        if len(group) > 1 and any(is_of_text for _, _, is_of_text in group):
            numbers = [number for number, _, _ in group]
            language = both([each for _, each, _ in group])
            term = _find_term(_inline(body[numbers[0]]), text)
            if term is not None:
                yield Text(term, language, frozenset(numbers))


def _inline(expr: Expr) -> Expr:
    """Return an expression as it was written: the compiler moves operands of a negated expression
    into assignments before it, and here they are put back. Other expressions have none and are
    unchanged.
    """
    operands: dict[str, Term] = {}
    for each in expr.before:
        match each.term:
            case Call(args=(Var(name), term)):
                operands[name] = term
    if not operands:
        return expr

    def replacement(node: Node) -> Node:
        return operands.get(node.name, node) if isinstance(node, Var) else node

    return rewrite(replace(expr, before=()), replacement)


def _find_term(expr: Expr, text: str) -> Term | None:
    """Return the first reference, variable or call in an expression with this text, or None."""
    nodes = (node for node in walk(expr) if isinstance(node, (Ref, Var, Call)))
    return next((node for node in nodes if term_text(node) == text), None)


def _reads_case(expr: Expr) -> bool:
    """Return True if an expression calls `lower` or `upper`, whose tables of all characters are
    large.
    """
    return any(isinstance(node, Call) and node.name in _CASES for node in walk(expr))


def _length_of(expr: Expr) -> tuple[str, Language] | None:
    """Return the term in `count(term) < 5` and the language of texts with such a length, or of all
    others behind `not`.

    None if the expression has `with` or is not a comparison of a length, on the left side, with a
    constant below `LONGEST`.
    """
    call = expr.term
    if expr.withs or not isinstance(call, Call) or call.name not in _COMPARISONS:
        return None
    left, right = call.args
    if not (isinstance(left, Call) and left.name == "count" and isinstance(right, Scalar)):
        return None
    size = right.value
    if type(size) is not int or not 0 <= size < LONGEST:
        return None
    language = {
        "lt": of_length(0, size - 1) if size else complement(of_length(0, None)),
        "lte": of_length(0, size),
        "gt": of_length(size + 1, None),
        "gte": of_length(size, None),
        "neq": complement(of_length(size, size)),
    }.get(call.name, of_length(size, size))
    return term_text(left.args[0]), complement(language) if expr.negated else language


def _numbers(body: Body) -> Iterator[Numbers]:
    """Yield the groups of comparisons in a body that share numbers. Only groups with arithmetic in
    one of their comparisons, and with at most `LEAVES` numbers, are yielded.
    """
    groups: list[tuple[dict[str, Term], list[int]]] = []
    for number, expr in enumerate(body):
        leaves = _leaves_of(expr)
        if not leaves:
            continue
        shared = [group for group in groups if group[0].keys() & leaves.keys()]
        for group in shared:
            groups.remove(group)
        terms = {text: term for group in shared for text, term in group[0].items()} | leaves
        groups.append((terms, [*(n for group in shared for n in group[1]), number]))
    for terms, members in groups:
        conditions = tuple(term for n in members if isinstance(term := body[n].term, Call))
        if len(terms) <= LEAVES and any(map(_calculates, conditions)):
            yield Numbers(terms, conditions, frozenset(members))


def _calculates(condition: Call) -> bool:
    """Return True if a condition contains arithmetic: `input.a + 1 == input.b`."""
    return any(isinstance(each, Call) and each.name in _ARITHMETIC for each in walk(condition))


def _leaves_of(expr: Expr) -> dict[str, Term]:
    """Return the variables and input paths that a comparison of numbers reads, by their texts. {}
    for other expressions: negated, with `with`, or with anything but numbers and arithmetic.
    """
    call = expr.term
    if expr.withs or expr.negated or not isinstance(call, Call):
        return {}
    if call.name not in _COMPARISONS or len(call.args) != 2:
        return {}
    leaves: dict[str, Term] = {}
    return leaves if all(_read_leaves(each, leaves) for each in call.args) else {}


def _read_leaves(term: Term, leaves: dict[str, Term]) -> bool:
    """Add the parts of the input and variables in an arithmetic term to `leaves`. Return False if
    the term contains anything else; `leaves` may have changed all the same.
    """
    match term:
        case Scalar(value):
            return type(value) in (int, float)
        case Call() if term.name in _ARITHMETIC:
            return all(_read_leaves(each, leaves) for each in term.args)
        case Var(name) if name not in ("input", "data"):
            leaves[term_text(term)] = term
            return True
        case Ref(Var("input"), args) if all(isinstance(each, Scalar) for each in args):
            leaves[term_text(term)] = term
            return True
    return False


def _first_values(constants: Sequence[Any], leaf_count: int) -> list[Any]:
    """Return the values of one number to try first: the constants and their neighbours, then the
    first integers from zero, fewer for more numbers; if there is only one number (`leaf_count`),
    also the integers after each constant.
    """
    size = {1: 400, 2: 24, 3: 6}[leaf_count]
    near = [each + n for each in constants for n in (0, 1, -1)]
    after = (each + n for each in constants for n in range(size)) if leaf_count == 1 else iter(())
    return _unique([*near, *range(size), *islice(after, TRIED)])


def _unique(values: Sequence[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def _connected(body: Body, number: int) -> Body:
    """Return the expressions of a body that share variables or input paths with the one at
    `number`, directly or through others, and itself, in the body's order.
    """
    read = [_read_by(expr) for expr in body]
    members = {number}
    waiting = [number]
    while waiting:
        one = read[waiting.pop()]
        near = {n for n, other in enumerate(read) if n not in members and _overlap(one, other)}
        members |= near
        waiting += near
    return tuple(body[n] for n in sorted(members))


def names_in(body: Body) -> frozenset[str]:
    """Return the names of the variables in some expressions, without `input` and `data`."""
    return frozenset(path[0] for expr in body for path in _read_by(expr) if path[0] != "input")


def _read_by(expr: Expr) -> frozenset[tuple[Any, ...]]:
    """Return the input paths that an expression reads, each up to its first key that is not
    constant (`("input", "a")`), and its variables (`("x",)`).
    """
    paths: set[tuple[Any, ...]] = set()
    operators = {id(node.operator.head) for node in walk(expr) if isinstance(node, Call)}
    for node in walk(expr):
        match node:
            case Var() if id(node) in operators:
                pass
            case Ref(Var("input"), args):
                keys = takewhile(lambda each: isinstance(each, Scalar), args)
                paths.add(("input", *(each.value for each in keys if isinstance(each, Scalar))))
            case Var(name) if name not in ("input", "data"):
                paths.add((name,))
    return frozenset(paths)


def _overlap(one: frozenset[tuple[Any, ...]], other: frozenset[tuple[Any, ...]]) -> bool:
    """Return True if a path of either set is equal to or above a path of the other one."""
    return any(a[: len(b)] == b[: len(a)] for a in one for b in other)
