"""Facts that follow from a conjunction by the rules of its support: a rule holds if its body does.

    not data.refused, "x" in input.a ─ refused if "x" in input.a ─▶ data.refused

Only facts that contradict an expression of the conjunction are derived: a rule that it negates, or
a member of a set that it states to be empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from doorward.base.records import mutable
from doorward.rego.shared import Source
from doorward.rego.tools import (
    Array,
    Call,
    Expr,
    Module,
    Node,
    Object,
    Ref,
    Rule,
    Scalar,
    Set,
    Term,
    Var,
    format_tree,
    parse_query,
    rewrite,
    walk,
)
from doorward.search.proofs.conjunction import (
    Conjunction,
    free_names,
    has_scope,
    is_prefix,
    operands,
    rename,
)
from doorward.search.proofs.steps import Contradiction, Derived, Empty, Named, Step
from doorward.search.terms import term_text

__all__ = ["Deriving"]

DEPTH: Final = 4
"""At most this many rules are derived one from another."""
ATTEMPTS: Final = 400
"""At most this many comparisons of a fact with an expression of a body are made for one
conjunction.
"""

Path = tuple[str, ...]


@mutable
class _Facts:
    """The expressions that hold: those of a conjunction, then the facts derived from them. `steps`
    are the steps that added the latter; `attempts` are the comparisons that are left.
    """

    exprs: list[Expr]
    texts: dict[str, int]
    """The positions in `exprs`, by their text, of the facts that a step may cite: those with a
    single result in one evaluation.
    """
    steps: list[Derived | Named] = field(default_factory=list)
    attempts: int = ATTEMPTS

    def add(self, expr: Expr, added_by: Derived | Named) -> int:
        """Add a derived fact with its step; return its position."""
        self.steps.append(added_by)
        self.exprs.append(expr)
        self.texts[_text(expr)] = len(self.exprs) - 1
        return len(self.exprs) - 1


class Deriving:
    """Derives facts from known ones by the rules in `support`, the modules of a residual. Rules
    with `default`, with parameters or with `else` are not used.
    """

    def __init__(self, support: Sequence[Module]) -> None:
        self._plain: dict[Path, list[tuple[tuple[int, int], Rule]]] = {}
        self._members: dict[Path, list[tuple[tuple[int, int], Rule]]] = {}
        values: dict[Path, list[Rule]] = {}
        for m, module in enumerate(support):
            for r, rule in enumerate(module.rules):
                path = _path_of(module, rule)
                if path is None or rule.default:
                    continue
                if _is_plain(rule):
                    self._plain.setdefault(path, []).append(((m, r), rule))
                elif _adds_member(rule):
                    self._members.setdefault(path, []).append(((m, r), rule))
                values.setdefault(path, []).append(rule)
        self._named: list[tuple[Path, Ref]] = []
        for path, rules in values.items():
            term = _named_term(rules[0]) if len(rules) == 1 else None
            if term is not None:
                self._named.append((path, term))

    def close(self, conjunction: Conjunction, steady: Sequence[bool]) -> Step | None:
        """Return the steps that derive a fact which the conjunction denies, which refutes it; None
        if there is no such fact within `DEPTH` steps.

        `steady` is True for each expression with a single result in one evaluation; no others are
        used.
        """
        for number, expr in enumerate(conjunction.exprs):
            facts = _Facts(
                list(conjunction.exprs),
                {text: n for n, text in enumerate(conjunction.texts) if steady[n] and n != number},
            )
            if expr.negated and steady[number] and not has_scope(expr):
                position = self._derive_term(expr.term, facts, DEPTH)
                if position is not None:
                    return _chain(facts, Contradiction(position, number))
            collection = _empty_set(expr)
            if collection is not None:
                position = self._derive_member(collection, None, facts, DEPTH)
                if position is not None:
                    return _chain(facts, Empty(number, position))
        return None

    def _derive_rule(self, ref: Ref, facts: _Facts, depth: int) -> int | None:
        """Derive that a support rule holds, in at most `depth` steps. Return the position of the
        fact, which is added to `facts` with those it needs; None if that fails.
        """
        for index, rule in self._plain.get(_names(ref) or (), ()):
            for values, body in self._matches(rule.body, {}, facts, depth):
                return facts.add(Expr(ref), Derived(index, _as_texts(values), body, _END))
        return None

    def _derive_member(
        self, ref: Ref, member: Term | None, facts: _Facts, depth: int
    ) -> int | None:
        """Derive in at most `depth` steps that `member` is in a support set, or for None that the
        set has any member. Return the position of the fact, which is added to `facts` with those it
        needs; None if that fails.
        """
        for index, rule in self._members.get(_names(ref) or (), ()):
            key = rule.head.key
            assert key is not None  # it is what adds a member
            if any(isinstance(node, Call) for node in walk(key)):
                continue  # which may have no value
            start: dict[str, Term] | None = {}
            if member is not None:
                start = _unify(key, member, {}, free_names(Expr(key)))
            if start is None:
                continue
            for values, body in self._matches(rule.body, start, facts, depth):
                if not free_names(Expr(key)) <= values.keys():
                    continue
                text = f"{_text(rename(Expr(key), values))} in {term_text(ref)}"
                (fact,) = parse_query(Source("", text), v0=False)
                return facts.add(fact, Derived(index, _as_texts(values), body, _END))
        return None

    def _matches(
        self, body: Sequence[Expr], values: Mapping[str, Term], facts: _Facts, depth: int
    ) -> Iterator[tuple[dict[str, Term], tuple[int, ...]]]:
        """Yield values of a body's variables for which all its expressions are facts, with the
        positions of these facts. Derives missing facts in at most `depth` steps, which adds them to
        `facts`.
        """
        if not body:
            yield dict(values), ()
            return
        expr, rest = body[0], body[1:]
        for changed, position in self._instances(expr, values, facts, depth):
            for others, positions in self._matches(rest, changed, facts, depth):
                yield others, (position, *positions)

    def _instances(
        self, expr: Expr, values: Mapping[str, Term], facts: _Facts, depth: int
    ) -> Iterator[tuple[Mapping[str, Term], int]]:
        """Yield `values` with those of an expression's other variables for which it is a fact, and
        the position of the fact. Without other variables, a missing fact is derived in at most
        `depth` steps and added to `facts`.

        Each comparison with a fact is subtracted from `facts.attempts`; ends when none are left. An
        expression with inner bodies or `with` is compared by its text, never derived, and only if
        it has no variables.
        """
        names = free_names(expr)
        if has_scope(expr) or expr.withs:
            position = facts.texts.get(_text(expr))
            if position is not None and not names:
                yield values, position
            return
        bound = rename(expr, values)
        open_names = names - values.keys()
        if not open_names:
            position = self._derive(bound, facts, depth)
            if position is not None:
                yield values, position
            return
        for position in list(facts.texts.values()):
            facts.attempts -= 1
            if facts.attempts <= 0:
                return
            fact = facts.exprs[position]
            if fact.negated is expr.negated and not has_scope(fact) and not fact.withs:
                more = _unify(bound.term, fact.term, {}, open_names)
                if more is not None and open_names <= more.keys():
                    yield {**values, **more}, position

    def _derive(self, expr: Expr, facts: _Facts, depth: int) -> int | None:
        """Return the position of a fact, deriving it in at most `depth` steps if it is not known;
        None if that fails. Derived facts are added to `facts`.
        """
        position = facts.texts.get(_text(expr))
        if position is not None or expr.negated or depth <= 0:
            return position
        for path, term in self._named:
            changed = _put(expr, path, term)
            position = facts.texts.get(_text(changed)) if changed != expr else None
            if position is not None:
                return facts.add(expr, Named(position, path, _END))
        return self._derive_term(expr.term, facts, depth - 1)

    def _derive_term(self, term: Node, facts: _Facts, depth: int) -> int | None:
        """Derive in at most `depth` steps that a support rule holds or that a support set has a
        member. Return the position of the fact, which is added to `facts`; None for other terms and
        if that fails.
        """
        match term:
            case Ref() as ref:
                return self._derive_rule(ref, facts, depth)
            case Call(args=(member, Ref() as ref), name="internal.member_2"):
                return self._derive_member(ref, member, facts, depth)
        return None


_END: Final = Contradiction(0, 0)
"""A placeholder for the next step until that step is known."""


def _chain(facts: _Facts, end: Step) -> Step:
    """Return the steps that added facts, in order, ending with `end`."""
    chain = end
    for each in reversed(facts.steps):
        chain = (
            Derived(each.rule, each.values, each.body, chain)
            if isinstance(each, Derived)
            else Named(each.position, each.path, chain)
        )
    return chain


def _text(expr: Expr) -> str:
    return format_tree((expr,)).strip()


def _as_texts(values: Mapping[str, Term]) -> tuple[tuple[str, str], ...]:
    """Return the variables' names with their terms in Rego, as a step of a proof has them."""
    return tuple((name, term_text(term)) for name, term in values.items())


def _empty_set(expr: Expr) -> Ref | None:
    """Return the support set that an expression such as `count(set) == 0` states to be empty; None
    for other expressions.
    """
    sides = operands(expr)
    for count, limit, signs in () if sides is None else _readings(*sides):
        is_count = isinstance(count, Call) and count.name == "count" and len(count.args) == 1
        least = limit.value if isinstance(limit, Scalar) and type(limit.value) is int else None
        if is_count and isinstance(count, Call) and least is not None:
            (collection,) = count.args
            is_none = (least == 0 and signs in ("=", "<=")) or (least == 1 and signs == "<")
            if is_none and isinstance(collection, Ref) and _names(collection) is not None:
                return collection
    return None


def _readings(left: Term, sign: str, right: Term) -> Iterator[tuple[Term, Term, str]]:
    """Yield a comparison twice, as left side, right side and sign: as it is written, and with the
    sides exchanged and the sign turned, `>` for `<`.
    """
    turned = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
    yield left, right, sign
    yield right, left, turned.get(sign, sign)


def _names(ref: Ref) -> Path | None:
    """Return the names of a path below `data`; None for other references."""
    if ref.head != Var("data"):
        return None
    names = [arg.value for arg in ref.args if isinstance(arg, Scalar)]
    texts = tuple(name for name in names if isinstance(name, str))
    return texts if len(texts) == len(ref.args) else None


def _path_of(module: Module, rule: Rule) -> Path | None:
    """Return the path of a rule, the package's path included but not `data`; None if a part of it
    is not a constant text.
    """
    ref = rule.head.ref
    rest = [arg.value for arg in ref.args if isinstance(arg, Scalar)]
    texts = [each for each in rest if isinstance(each, str)]
    if not isinstance(ref.head, Var) or len(texts) != len(ref.args):
        return None
    return (*module.package.path, ref.head.name, *texts)


def _is_plain(rule: Rule) -> bool:
    """Return True if the rule is `true` if its body holds, without parameters, key or `else`."""
    head = rule.head
    is_true = head.value is None or head.value == Scalar(True)
    return is_true and rule.else_rule is None and head.args is None and head.key is None


def _adds_member(rule: Rule) -> bool:
    """Return True if the rule adds a member to a set."""
    head = rule.head
    is_alone = rule.else_rule is None and head.args is None
    return is_alone and head.key is not None and head.value is None


def _named_term(rule: Rule) -> Ref | None:
    """Return the input path whose value a rule has, as in `p := x if x = input.a.b`; None if the
    rule is of another form.
    """
    head = rule.head
    if head.key is not None or head.args is not None or rule.else_rule is not None:
        return None
    sides = operands(rule.body[0]) if len(rule.body) == 1 else None
    if sides is None or sides[1] != "=" or not isinstance(head.value, Var):
        return None
    for variable, term in ((sides[0], sides[2]), (sides[2], sides[0])):
        is_input = isinstance(term, Ref) and term.head == Var("input")
        if variable == head.value and is_input and isinstance(term, Ref):
            are_names = all(isinstance(arg, Scalar) for arg in term.args)
            return term if are_names and term.args else None
    return None


def _put(expr: Expr, path: Path, term: Ref) -> Expr:
    """Return an expression with the input path `term` in place of the document at `path`."""
    document = Ref(Var("data"), tuple(map(Scalar, path)))

    def change(node: Node) -> Node:
        """Replace a reference into the document."""
        if isinstance(node, Ref) and is_prefix(document, node):
            return Ref(term.head, (*term.args, *node.args[len(path) :]))
        return node

    changed: Expr = rewrite(expr, change)
    return changed


def _unify(
    pattern: Any, term: Any, values: dict[str, Term], names: set[str]
) -> dict[str, Term] | None:
    """Return `values` extended by values of the variables `names` with which `pattern` is the same
    as `term`, numbers written alike; None if there are none. Variables that have a value in
    `values` keep it; `values` is not changed.
    """
    if isinstance(pattern, Var) and pattern.name in names:
        known = values.get(pattern.name)
        if known is None:
            return {**values, pattern.name: term}
        return values if _is_same(known, term) else None
    pairs = _parts(pattern, term)
    if pairs is None:
        return values if _is_same(pattern, term) else None
    changed: dict[str, Term] | None = values
    for one, other in pairs:
        if changed is None:
            return None
        changed = _unify(one, other, changed, names)
    return changed


def _parts(pattern: Any, term: Any) -> list[tuple[Any, Any]] | None:
    """Return the parts of two terms of the same form in pairs; None for other terms."""
    match pattern, term:
        case Ref(), Ref() if len(pattern.args) == len(term.args):
            return [(pattern.head, term.head), *zip(pattern.args, term.args, strict=True)]
        case Call(), Call() if pattern.name == term.name and len(pattern.args) == len(term.args):
            return list(zip(pattern.args, term.args, strict=True))
        case (Array(), Array()) | (Set(), Set()) if len(pattern.items) == len(term.items):
            return list(zip(pattern.items, term.items, strict=True))
        case Object(), Object() if len(pattern.items) == len(term.items):
            items = zip(pattern.items, term.items, strict=True)
            return [pair for one, other in items for pair in zip(one, other, strict=True)]
    return None


def _is_same(one: Node, other: Node) -> bool:
    """Return True if two nodes are equal and their numbers are written alike."""
    # Equal numbers may be written differently, and some built-ins tell them apart.
    return one == other and all(a == b for a, b in zip(_numbers(one), _numbers(other), strict=True))


def _numbers(node: Node) -> list[str]:
    return [term_text(each) for each in walk(node) if isinstance(each, Scalar)]
