"""The members of data without which rules can deny more and can never allow more.

    rules + entries ─flow─▶ where each variable may come from in data ─uses─▶ DataUse

A condition that reads a member of data has no answer once the member is gone, and an iteration has
one solution less. Neither can make a decision true that was not, as long as nothing on its way asks
for the absence or the size of a value: `not`, `every` over it, comprehensions, `with`, `default`
and `else`, comparisons of the collection, indexes of a list, built-ins that take it. Those members
are not removable. The analysis is one-sided: what it cannot follow is not removable either.

A location is a path below `data`, with `ANY` for a key that is not known. A variable has one name
in all rules (`lower` numbers them), so that one table says where each may come from.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from doorward.base.records import record
from doorward.rego.partial.core import (
    TRUE,
    Body,
    Comprehension,
    Constant,
    Expr,
    Object,
    Operator,
    Ref,
    Rule,
    Term,
    Var,
    expr_terms,
    parts,
)

__all__ = ["ANY", "DataMember", "DataUse", "Location", "find_data_use"]

ANY: Final = None
MAX_LOCATIONS: Final = 20_000
"""The most locations that variables may come from; with more, no data is removable."""
MAX_DEPTH: Final = 32

Location: TypeAlias = tuple[str | int | None, ...]
Arity: TypeAlias = Callable[[Operator], int | None]

_FLAG, _SET, _VALUE, _OTHER = "flag", "set", "value", "other"
_MEMBERS: Final = {"internal.member_2": 2, "internal.member_3": 3}
_VERDICTS: Final = ("allow", "allowed", "decision")
"""The keys of an answer object whose value tells if it allows."""


@record
class DataUse:
    """How policies use data, by location: a path of keys, in which `ANY` is any key. `reads`: all
    data that is read; `values`: data whose value is compared or returned; `lists`: arrays whose
    indexes matter. `absences`: pairs `(count, location)` where the absence of a member matters,
    except at the first `count` keys, where only a variable has one value less.
    """

    reads: frozenset[Location]
    values: frozenset[Location]
    lists: frozenset[Location]
    absences: frozenset[tuple[int, Location]]

    def root(self, data: Any) -> DataMember:
        """Return the member for the whole document `data`, from which its removable members can be
        reached.
        """
        patterns = tuple(self.reads), tuple(self.values), tuple(self.lists)
        return DataMember((), data, patterns, tuple(self.absences), is_removable=False)


class DataMember:
    """A value in base data that rules read, and its location. `is_removable`: without it, rules can
    deny more and never allow more.
    """

    __slots__ = ("_absences", "_patterns", "is_removable", "location", "value")

    def __init__(
        self,
        location: tuple[str | int, ...],
        value: Any,
        patterns: tuple[tuple[Location, ...], ...],
        absences: tuple[tuple[int, Location], ...],
        *,
        is_removable: bool,
    ) -> None:
        self.location = location
        self.value = value
        self.is_removable = is_removable
        self._patterns = patterns
        self._absences = absences

    def children(self) -> list[DataMember]:
        """Return the members of this object or array that the rules read; `is_removable` says of
        each if it can be removed by itself. Return [] if the value is used as a whole, here or
        above.
        """
        depth = len(self.location)
        reads, values, lists = self._patterns
        if any(len(each) <= depth for each in (*values, *(p for _, p in self._absences))):
            return []
        is_ordered = isinstance(self.value, list) and any(len(each) == depth for each in lists)
        members = []
        for key, value in _items(self.value):
            patterns = tuple([_below(each, depth, key) for each in (reads, values, lists)])
            if patterns[0]:
                below = tuple([each for each in self._absences if _is_at(each[1], depth, key)])
                is_needed = any(first <= depth for first, _ in below)
                members.append(
                    DataMember(
                        (*self.location, key),
                        value,
                        patterns,
                        below,
                        is_removable=not is_ordered and not is_needed,
                    )
                )
        return members


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the string keys and values of an object in the order of the keys, or the indexes and
    items of an array; () for other values.
    """
    if isinstance(value, dict):
        return sorted((k, v) for k, v in value.items() if type(k) is str)
    return enumerate(value) if isinstance(value, list) else ()


def _below(patterns: Iterable[Location], depth: int, key: str | int) -> tuple[Location, ...]:
    """Return the patterns that lead to `key` at `depth`, or below it."""
    return tuple([each for each in patterns if _is_at(each, depth, key)])


def _is_at(pattern: Location, depth: int, key: str | int) -> bool:
    """Return True if the pattern is longer than `depth` and has `key` or `ANY` there."""
    return len(pattern) > depth and pattern[depth] in (ANY, key)


def find_data_use(
    rules: Sequence[Rule], entries: Iterable[tuple[str, ...]], arity: Arity
) -> DataUse:
    """Return how the documents at `entries` use data, with all rules that they need; no `entries`
    means all documents. If the analysis exceeds its limits, the result has no reads, so that no
    member is removable.
    """
    documents = list(entries)
    try:
        # The first run only finds the rules that are reached; the second flow is over those alone.
        uses = _Uses(_Flow(rules, arity))
        uses.enter(documents)
        # What rules that are not reached hand to functions, such as tests, does not count.
        reached = [rule for rule in rules if uses.has_visited(rule)]
        uses = _Uses(_Flow(reached, arity))
        uses.enter(documents)
    except _TooMany:
        return DataUse(frozenset(), frozenset(), frozenset(), frozenset())
    return DataUse(
        frozenset(uses.reads),
        frozenset(uses.values),
        frozenset(uses.lists),
        frozenset(uses.absences),
    )


class _TooMany(Exception):
    """Raised if the locations exceed `MAX_LOCATIONS` in number or `MAX_DEPTH` in length."""


class _Group:
    """All rules of one constant path below `data`; the path ends before the first variable. `kind`
    is one of `_FLAG`, `_SET`, `_VALUE` and `_OTHER`.
    """

    def __init__(self, path: Location) -> None:
        self.path = path
        self.rules: list[Rule] = []
        self.kind = _OTHER

    @property
    def has_default(self) -> bool:
        return any(rule.default for rule in self.rules)

    @property
    def branches(self) -> Iterator[Rule]:
        """Yield all rules of the group, each followed by its `else` branches."""
        for rule in self.rules:
            yield from rule.branches()


def _matches(left: Location, right: Location) -> bool:
    """Return True if the two locations may agree up to the end of the shorter one; `ANY` matches
    any key.
    """
    return all([a is ANY or b is ANY or a == b for a, b in zip(left, right, strict=False)])


class _Flow:
    """Computes the locations that each variable may come from."""

    def __init__(self, rules: Sequence[Rule], arity: Arity) -> None:
        self.arity = arity
        self.groups: dict[Location, _Group] = {}
        for rule in rules:
            path = _constant_path(rule)
            self.groups.setdefault(path, _Group(path)).rules.append(rule)
        self.origins: defaultdict[str, set[Location]] = defaultdict(set)
        self.occurrences: Counter[str] = Counter()
        self.bindings: Counter[str] = Counter()
        """How often each variable may get its value; if more than once, the values are compared."""
        self._expressions = [
            expr for rule in rules for each in rule.branches() for expr in _nest(each.body)
        ]
        for rule in rules:
            for branch in rule.branches():
                self._count(branch)
        for expr in self._expressions:
            self._count_patterns(expr)
        for group in self.groups.values():
            group.kind = self._kind(group)
        self._settle()

    # Counts.

    def _count(self, rule: Rule) -> None:
        """Add the variables of one branch of a rule, its head and body, to `occurrences` (each time
        they stand there) and to `bindings` (each time one may get its value; parameters are given
        one by each call). `else` branches are counted by their own calls.
        """
        for term in (*rule.path[1:], *(rule.args or ()), rule.key, rule.value):
            if term is not None:
                self.occurrences.update(_variables(term))
        self.bindings.update([name for arg in rule.args or () for name in _variables(arg)])
        for expr in rule.body:
            self._count_expr(expr)

    def _count_expr(self, expr: Expr) -> None:
        """Add the variables in an expression, and in the bodies and heads of its `every` and
        comprehensions, to `occurrences` (each time they stand there) and to `bindings` (each time
        one may get its value: declared by `every`, a side of an equation, or an output of a call).
        """
        inner: list[Expr] = []
        if expr.every is not None:
            declared = [*_variables(expr.every.key), *_variables(expr.every.value)]
            self.occurrences.update([*declared, *_variables(expr.every.domain)])
            self.bindings.update(declared)
            inner += expr.every.body
        for term in (*expr.args, *(each.value for each in expr.withs)):
            self.occurrences.update(_variables(term))
            for each in _comprehensions(term):
                inner += each.body
                heads = [each.term, *([] if each.key is None else [each.key])]
                self.occurrences.update([name for head in heads for name in _variables(head)])
        for term in expr.args if expr.is_equation else self.results(expr):
            if type(term) is Var:
                self.bindings[term.name] += 1
        for expression in inner:
            self._count_expr(expression)

    def _count_patterns(self, expr: Expr) -> None:
        """Count the variables in array and object patterns, in an equation or the result of a call,
        as bound; not if the other side of the equation is a new variable, since then nothing is
        taken apart.
        """
        terms = expr.args if expr.is_equation else self.results(expr)
        for number, term in enumerate(terms):
            other = terms[1 - number] if expr.is_equation else term
            is_new = type(other) is Var and self.bindings[other.name] == 1
            if type(term) not in (Var, Ref) and not is_new:
                self.bindings.update(_variables(term))

    def results(self, expr: Expr) -> tuple[Term, ...]:
        """Return the operands of a call after the declared ones, which receive its result; () for
        an equation or a single term. Of a variadic or unknown function it is the last operand.
        """
        if expr.operator is None or expr.is_equation:
            return ()
        number = self.arity(expr.operator)
        return expr.args[-1:] if number is None else expr.args[number:]

    def is_wildcard(self, term: Term) -> bool:
        """Return True for a variable that occurs only once in all rules."""
        return type(term) is Var and self.occurrences[term.name] == 1

    # Kinds of rules.

    def _kind(self, group: _Group) -> str:
        """Classify the rules of one path: `_SET`; `_FLAG`, whose only value is true, besides a
        default of false if there is one; `_VALUE`, a single rule without default and iteration; or
        `_OTHER`, also for `else` and names with variables, whose use of data is not followed.
        """
        rules = group.rules
        if any(rule.otherwise is not None or not rule.is_ground for rule in rules):
            return _OTHER
        if all(rule.is_set for rule in rules):
            return _SET
        defined = [rule for rule in rules if not rule.default]
        if all(rule.value == TRUE for rule in defined) and all(
            rule.value == Constant(False) and rule.args is None for rule in rules if rule.default
        ):
            return _FLAG
        # Two values would be an error, which one member less could take away.
        if len(rules) == 1 and not rules[0].default and not self._iterates(rules[0]):
            return _VALUE
        return _OTHER

    def _iterates(self, rule: Rule) -> bool:
        """Return True if a rule's body may have several solutions: it calls `walk`, or a reference
        in it has a variable that no equation, call, parameter or `every` binds.
        """
        for expr in _nest(rule.body):
            if expr.operator == "walk":
                return True
            for term in expr_terms(expr):
                for ref in _references(term):
                    if any(type(p) is Var and not self.bindings[p.name] for p in ref.parts[1:]):
                        return True
        return False

    # Origins.

    def _settle(self) -> None:
        """Propagate locations through the bindings of all rules until nothing changes. Raise
        `_TooMany` above `MAX_LOCATIONS` locations or `MAX_DEPTH` keys.
        """
        # Ends: locations are only added, and their number is bounded.
        while True:
            before = sum(map(len, self.origins.values()))
            for expr in self._expressions:
                self._bind(expr)
            after = sum(map(len, self.origins.values()))
            if after == before:
                return
            if after > MAX_LOCATIONS:
                raise _TooMany

    def _bind(self, expr: Expr) -> None:
        """Add to `origins` the locations in data that an expression may give to its variables: the
        items of the domain to the value of an `every`, either side of an equation to the variables
        of the other, and in a call of a policy's function the operands to its parameters, and its
        value to the result.
        """
        if expr.every is not None:
            self._add(expr.every.value, self.descend(self.locations(expr.every.domain), ANY))
        elif expr.is_equation:
            left, right = expr.args
            self._add(left, self.locations(right))
            self._add(right, self.locations(left))
        # The result of a built-in has no location: `_Uses` records its operands as values.
        elif type(expr.operator) is Ref:
            for rule in self.group_of(expr.operator).branches:
                for parameter, arg in zip(rule.args or (), expr.args, strict=False):
                    self._add(parameter, self.locations(arg))
                assert rule.value is not None  # a function's
                for result in self.results(expr):
                    self._add(result, self.locations(rule.value))

    def _add(self, term: Term, locations: set[Location]) -> None:
        """Add locations to the origins of `term`, if it is a variable."""
        # A pattern needs no origins: what it takes apart is recorded as a value, at any depth.
        if type(term) is Var and locations:
            self.origins[term.name] |= locations

    def group_of(self, operator: Ref) -> _Group:
        """Return the group of a function's rules; KeyError if the policies do not define it."""
        path = tuple([p.value for p in operator.parts[1:] if isinstance(p, Constant)])
        return self.groups[path]  # type: ignore[index]

    def locations(self, term: Term) -> set[Location]:
        """Return the locations in data that a term's value may come from, also through rules; an
        empty set for a term that is neither a variable nor a reference.
        """
        if type(term) is Var:
            return {()} if term.name == "data" else self.origins.get(term.name, set())
        if type(term) is not Ref:
            return set()
        known = self.locations(term.parts[0])
        for part in term.parts[1:]:
            known = self.descend(known, _key_of(part))
        return known

    def find_anchored(self, term: Term) -> Iterator[tuple[int, Location]]:
        """Yield the locations that a term's value may come from, as pairs `(count, location)`. The
        first `count` keys are the location of the value of the term's head variable; 0 if there is
        no such variable or a rule leads elsewhere.
        """
        head = term.parts[0] if type(term) is Ref else term
        if type(head) is not Var or head.name == "data":
            yield from ((0, each) for each in self.locations(term))
            return
        for origin in self.locations(head):
            known = {origin}
            for part in term.parts[1:] if type(term) is Ref else ():
                known = self.descend(known, _key_of(part))
            for location in known:
                is_inside = location[: len(origin)] == origin
                yield (len(origin) if is_inside else 0), location

    def descend(self, locations: Iterable[Location], key: str | int | None) -> set[Location]:
        """Return the locations one key below each of `locations`, and those of the values that
        rules have there. `ANY` as the key is any key. Raise `_TooMany` for a location that already
        has `MAX_DEPTH` keys.
        """
        reached: set[Location] = set()
        for location in locations:
            if len(location) >= MAX_DEPTH:
                raise _TooMany
            reached.add((*location, key))
            reached |= self._values_at((*location, key))
        return reached

    def _values_at(self, location: Location) -> set[Location]:
        """Return the locations in data that the values of rules at `location` may come from: of
        complete rules and functions at or above it, or of the members if it is one key below a set.
        Keys behind the rule's path are not followed into its value here.
        """
        values: set[Location] = set()
        for group in self.groups_at(location):
            depth = len(location) - len(group.path)
            for rule in group.branches:
                term = rule.key if rule.is_set else rule.value
                if term is not None and (depth == 1 if rule.is_set else depth >= 0):
                    values |= self.locations(term)
        return values

    def groups_at(self, location: Location) -> list[_Group]:
        """Return the groups of rules whose path is `location` or a prefix of it; `ANY` matches any
        key.
        """
        return [
            group
            for path, group in self.groups.items()
            if len(location) >= len(path) and _matches(location, path)
        ]

    def groups_below(self, location: Location) -> list[_Group]:
        """Return the groups of rules whose path is longer than `location` and begins with it; `ANY`
        matches any key.
        """
        return [
            group
            for path, group in self.groups.items()
            if len(location) < len(path) and _matches(location, path)
        ]


class _Uses:
    """Collects the locations that the entry points use, in `reads`, `values`, `absences` and
    `lists`. The argument `absence_matters` of its methods is True where a missing member may make a
    decision true, such as below `not`.
    """

    def __init__(self, flow: _Flow) -> None:
        self._flow = flow
        self.reads: set[Location] = set()
        self.values: set[Location] = set()
        self.absences: set[tuple[int, Location]] = set()
        self.lists: set[Location] = set()
        self._visited: set[tuple[Location, bool]] = set()
        self._mentioned: set[Location] = set()
        self._verdicts: set[str] = set()
        """The variables that are used only as the verdict of an answer."""
        self._answers: set[int] = set()
        """The identities of the objects that entry points return."""

    def has_visited(self, rule: Rule) -> bool:
        """Return True if the entry points given to `enter` may need the rule."""
        path = _constant_path(rule)
        return (path, False) in self._visited or (path, True) in self._visited

    def enter(self, entries: Sequence[tuple[str, ...]]) -> None:
        """Record what of data the documents at `entries` use, with all rules that they need; all
        documents if there are no entries. If an entry returns an object, a variable under `allow`,
        `allowed` or `decision` in it is not recorded as a value, unless it is used elsewhere too.
        Call it once.
        """
        groups = list(self._flow.groups.values())
        if entries:
            groups = [each for each in groups if any(_matches(each.path, e) for e in entries)]
        terms = [(group, _answer_of(group)) for group in groups]
        answers = [(group, term) for group, term in terms if term is not None]
        names = {name for _, term in answers for name in _verdict_names(term)}
        self._answers = {id(term) for _, term in answers}
        # Twice: where the body binds it, and in the answer itself.
        self._verdicts = {name for name in names if self._flow.occurrences[name] == 2}
        for group in groups:
            self._visit(group, absence_matters=False)
        for group, term in answers:
            # Another rule reads the answer, and what that does with its members is not followed.
            if group.path in self._mentioned:
                self._visit(group, absence_matters=True)
            for key, value in term.items:
                if not _is_verdict(key, value, self._verdicts):
                    self._value(value, absence_matters=False)

    def _visit(self, group: _Group, *, absence_matters: bool) -> None:
        """Record the reads of a group (the rules at one path), with those of their heads and
        bodies, at most once for each value of `absence_matters`. That is always True for groups of
        kind `_OTHER` (with `else`, or whose answers the analysis does not follow).
        """
        absence_matters |= group.kind == _OTHER
        if (group.path, absence_matters) in self._visited:
            return
        self._visited.add((group.path, absence_matters))
        for rule in group.branches:
            self._body(rule.body, absence_matters=absence_matters)
            for term in (*rule.path[1:], *(rule.args or ()), rule.key, rule.value):
                if term is None:
                    continue
                if type(term) in (Var, Ref):
                    self._read(term, absence_matters=absence_matters)
                else:
                    self._value(term, absence_matters=absence_matters)

    def _body(self, body: Body, *, absence_matters: bool) -> None:
        for expr in body:
            self._expr(expr, absence_matters=absence_matters)

    def _expr(self, expr: Expr, *, absence_matters: bool) -> None:
        """Record the reads of data in an expression, in `reads` and `values`, or in `absences`
        where a missing member may make the decision true. That is so with `absence_matters`
        (everywhere in it), below `not`, in an expression with `with`, and in the domain of an
        `every`. A test of membership reads the members of its collection; with a key, the
        collection is recorded in `lists` too.
        """
        for item in expr.withs:
            self._read(item.target, absence_matters=True)
            self._value(item.value, absence_matters=True)
        # Below `not` a missing member can make the expression true.
        absence_matters |= expr.negated or bool(expr.withs)
        if expr.every is not None:
            self._read(expr.every.domain, absence_matters=True)
            self._body(expr.every.body, absence_matters=absence_matters)
        elif expr.operator is None:
            for term in expr.args:
                self._condition(term, absence_matters=absence_matters)
        elif expr.is_equation:
            self._equation(*expr.args, absence_matters=absence_matters)
        elif type(expr.operator) is Ref:
            self._call(expr, expr.operator, absence_matters=absence_matters)
        elif expr.operator in _MEMBERS and len(expr.args) == _MEMBERS[expr.operator]:
            *values, collection = expr.args
            for term in values:
                self._value(term, absence_matters=absence_matters)
            if type(collection) in (Var, Ref):
                self._read(collection, absence_matters=absence_matters)
                if not absence_matters:
                    self.reads |= self._flow.descend(self._flow.locations(collection), ANY)
                if len(values) == 2:
                    self.lists |= self._flow.locations(collection)
            else:
                self._value(collection, absence_matters=absence_matters)
        else:
            for term in expr.args:
                self._value(term, absence_matters=absence_matters)

    def _condition(self, term: Term, *, absence_matters: bool) -> None:
        """Record a term that an expression only tests for truth. `absence_matters`: a missing
        member of the data may make the decision true here.
        """
        if type(term) in (Var, Ref):
            self._read(term, absence_matters=absence_matters)
        else:
            self._value(term, absence_matters=absence_matters)

    def _equation(self, left: Term, right: Term, *, absence_matters: bool) -> None:
        """Record the two sides of an equation. If both are variables or references, and this is the
        only equation that binds one of the variables, both are reads, since no value is compared;
        otherwise both are values. An object that an entry point returns is left to `enter`, unless
        `absence_matters`.
        """
        for term, other in ((left, right), (right, left)):
            if type(other) not in (Var, Ref) or type(term) not in (Var, Ref):
                continue
            if type(term) is Var and self._flow.bindings[term.name] == 1:
                self._read(term, absence_matters=absence_matters)
                self._read(other, absence_matters=absence_matters)
                if term.name not in self._verdicts:
                    self._visit_defaults(other)
                return
        if id(right) in self._answers and not absence_matters:
            return  # `enter` looks into it
        for term, other in ((left, right), (right, left)):
            self._value(term, absence_matters=absence_matters, is_true=other == TRUE)

    def _call(self, expr: Expr, operator: Ref, *, absence_matters: bool) -> None:
        """Record the operands of a call of a policy's function, and visit the function. An operand
        that is a variable or reference and meets only plain parameters is recorded as read; any
        other, which is compared with a pattern or is a larger term, as used by its value.
        """
        group = self._flow.group_of(operator)
        self._mentioned.add(group.path)
        self._visit(group, absence_matters=absence_matters)
        for number, term in enumerate(expr.args):
            patterns = [(rule.args or ())[number : number + 1] for rule in group.branches]
            if type(term) in (Var, Ref) and all(not p or type(p[0]) is Var for p in patterns):
                self._read(term, absence_matters=absence_matters)
            else:
                self._value(term, absence_matters=absence_matters)

    # Terms.

    def _read(self, term: Term, *, absence_matters: bool) -> None:
        """Record that a reference is followed without a comparison of its value. Also visits the
        rules at its locations, and those below them, of which the absence matters.
        """
        if type(term) is Ref:
            self._operands(term, absence_matters=absence_matters)
        for first, location in self._flow.find_anchored(term):
            if absence_matters:
                self.absences.add((first, location))
            else:
                self.reads.add(location)
            for group in self._flow.groups_at(location):
                self._mentioned.add(group.path)
                self._visit(group, absence_matters=absence_matters)
            for group in self._flow.groups_below(location):
                self._mentioned.add(group.path)
                self.absences.add((0, location))
                self._visit(group, absence_matters=True)

    def _operands(self, term: Ref, *, absence_matters: bool) -> None:
        """Record the operands of a reference as values. Where an operand may be an index and is not
        a wildcard, the locations before it are added to `lists`.
        """
        known = self._flow.locations(term.parts[0])
        for part in term.parts[1:]:
            key = _key_of(part)
            if type(key) is not str and not self._flow.is_wildcard(part):
                self.lists |= known
            self._value(part, absence_matters=absence_matters)
            known = self._flow.descend(known, key)

    def _value(self, term: Term, *, absence_matters: bool, is_true: bool = False) -> None:
        """Record in `values` the locations of a term whose value is compared or returned, at any
        depth, and visit the rules there. In a comprehension, and in rules that add members to a
        set, absence matters. Defaults are visited as well, unless `is_true`: the value is compared
        with true, so a default of false does not matter.
        """
        if type(term) is Comprehension:
            self._body(term.body, absence_matters=True)
            for head in (term.key, term.term):
                if head is not None:
                    self._value(head, absence_matters=True)
        elif type(term) is Var or type(term) is Ref:
            self._read(term, absence_matters=absence_matters)
            self.values |= self._flow.locations(term)
            if not is_true:
                self._visit_defaults(term)
            for location in self._flow.locations(term):
                for group in self._flow.groups_at(location):
                    if group.kind == _SET and len(location) == len(group.path):
                        self._visit(group, absence_matters=True)
        else:
            for part in parts(term):
                self._value(part, absence_matters=absence_matters)

    def _visit_defaults(self, term: Term) -> None:
        """Visit rules with a default at the locations of `term`, with `absence_matters`: they have
        a value even without data, so a missing member changes the value to the default.
        """
        for location in self._flow.locations(term):
            for group in self._flow.groups_at(location):
                if group.has_default:
                    self._visit(group, absence_matters=True)


def _key_of(part: Term) -> str | int | None:
    """Return a string or integer key of a reference; `ANY`, which is None, for other operands."""
    if type(part) is not Constant:
        return ANY
    value = part.value
    return value if type(value) is str or type(value) is int else ANY


def _constant_path(rule: Rule) -> Location:
    """Return the keys of a rule's path up to its first variable."""
    path: list[Any] = []
    for part in rule.path[1:]:
        if type(part) is not Constant:
            break
        path.append(part.value)
    return tuple(path)


def _answer_of(group: _Group) -> Object | None:
    """Return the object that the body of a group's only rule binds to the rule's value; None if the
    group is not of kind `_VALUE` or its value is not such an object.
    """
    rule = group.rules[0]
    for expr in rule.body if group.kind == _VALUE else ():
        if expr.is_equation and expr.args[0] == rule.value and type(expr.args[1]) is Object:
            return expr.args[1]
    return None


def _verdict_names(term: Object) -> Iterator[str]:
    """Yield the names of the variables that an answer object has directly under the keys of
    verdicts (`allow`, `allowed`, `decision`).
    """
    for key, value in term.items:
        if isinstance(key, Constant) and key.value in _VERDICTS and type(value) is Var:
            yield value.name


def _is_verdict(key: Term, value: Term, names: set[str]) -> bool:
    """Return True if `key` is the key of a verdict, such as `allow`, and `value` is one of the
    variables `names`.
    """
    return (
        isinstance(key, Constant)
        and key.value in _VERDICTS
        and type(value) is Var
        and value.name in names
    )


# Terms and expressions inside of others.


def _nest(body: Body) -> Iterator[Expr]:
    """Yield the expressions of a body and of the bodies inside them (`every`, comprehensions),
    outer ones before inner ones.
    """
    for expr in body:
        yield expr
        if expr.every is not None:
            yield from _nest(expr.every.body)
        for term in expr_terms(expr):
            for each in _comprehensions(term):
                yield from _nest(each.body)


def _comprehensions(term: Term) -> Iterator[Comprehension]:
    """Yield the outermost comprehensions in a term, at any depth; those inside of others are left
    out.
    """
    if type(term) is Comprehension:
        yield term
    else:
        for part in parts(term):
            yield from _comprehensions(part)


def _references(term: Term) -> Iterator[Ref]:
    """Yield all references in a term, at any depth outside of comprehensions, outermost first."""
    if type(term) is Ref:
        yield term
    for part in parts(term):
        yield from _references(part)


def _variables(term: Term) -> Iterator[str]:
    """Yield the variable names in a term, once per occurrence, except those inside
    comprehensions.
    """
    if type(term) is Var:
        yield term.name
    else:
        for part in parts(term):
            yield from _variables(part)
