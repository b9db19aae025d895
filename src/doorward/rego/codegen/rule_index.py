"""The rules of a document that OPA evaluates for an input, their order, and whether one is enough.

OPA leaves out rules that cannot hold since a path below `input` or base data, or an operand of a
function, has not the value that the rule compares it with. No answer depends on that, but which
errors are reported does: what precedes the comparison is not evaluated either. So this follows
OPA 1.20 in what it compares and what it does not:

- a reference as an expression, or the side of an equation with a variable: the path is there;
- `=` and `==` with a scalar, or an array of scalars and variables; a collection at the path fits
  a scalar that it holds, since `x in input.xs` is kept the same way;
- `in` and `glob.match` with constants;
- the operands of `and` together, those of `or` as alternatives.

Comparisons of one path with several constants are alternatives, and end what is compared. The
order is that of a trie whose levels are the paths, the one that most rules compare first: rules
that do not compare it precede those that do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from doorward.base.records import record
from doorward.rego.analysis.variables import ROOTS
from doorward.rego.codegen.operand import NOT_CONSTANT, constant_value
from doorward.rego.runtime.operations import values
from doorward.rego.syntax.nodes import (
    And,
    Array,
    Body,
    Call,
    Expr,
    Object,
    Or,
    Ref,
    Rule,
    Scalar,
    Set,
    SomeIn,
    Term,
    Var,
)
from doorward.rego.values import UNDEFINED, Key, equal, to_key

__all__ = ["RuleIndex", "Selection", "Subject"]

Subject: TypeAlias = tuple[Key, ...]
"""What a rule compares: `input` or `data` and a path below it, or `args` and a number."""

ANY: Final = 1
ARRAY: Final = 2
CONSTANT: Final = 3
GLOB: Final = 4
"""The order in which the children of a node of the trie are searched."""

MAX_PATHS: Final = 32
"""The most alternatives of one rule; with more of them, the index compares none."""

_ANY: Final = Var("__any__")
_EQUATIONS: Final = frozenset({"eq", "assign", "equal"})
_COLLECTIONS: Final = frozenset({list, dict, frozenset})
_SPECIAL: Final = frozenset("[?{*")


@record
class _Test:
    """A test by which the index selects a rule: the value of `subject` must match the term `value`.
    `split`: for a glob, the delimiters at which the subject's text is split first.
    """

    subject: Subject
    value: Term
    split: str = ""

    @property
    def is_var(self) -> bool:
        return isinstance(self.value, Var)


@record
class Selection:
    """The rules to evaluate. `chains`: for each, the number of the chain (a rule with its `else`
    branches) and the numbers of the branches in it. `one`: the first answer is enough, since all
    have the same constant value.
    """

    chains: tuple[tuple[int, tuple[int, ...]], ...]
    one: bool


class RuleIndex:
    """The index of the rules of one document, as chains of a rule and its `else` branches.
    `is_virtual` returns True if there are rules on or below a path below `data`, which is then not
    indexed. `prints`: output of `print` is received, so that rules that print are always evaluated.
    """

    def __init__(
        self,
        chains: Sequence[Sequence[Rule]],
        is_virtual: Callable[[Sequence[Any]], bool],
        *,
        prints: bool,
    ) -> None:
        counts: Counter[Subject] = Counter()
        spans: dict[Subject, tuple[Any, ...]] = {}
        paths: list[list[_Paths]] = []
        for rules in chains:
            readers = [_Reader(rule, is_virtual, counts, spans) for rule in rules]
            paths.append([reader.paths_of_rule(prints=prints) for reader in readers])
        # As OPA's `refindices.Sorted`: the most frequent first, of equal ones the first in the
        # text.
        self._subjects = sorted(counts, key=lambda subject: (-counts[subject], spans[subject]))
        tests = [test for rules in paths for rule in rules for path in rule for test in path]
        self._splits = {
            subject: sorted({t.split for t in tests if t.subject == subject and t.split})
            for subject in self._subjects
        }
        self._rules = [[list(map(self._levels, rule)) for rule in rules] for rules in paths]
        self._values = [[_constant_head(rule) for rule in rules] for rules in chains]

    def _levels(self, path: Sequence[_Test]) -> list[_Level]:
        """Return the levels of the index's trie for the tests of `path`: one for each subject of
        the index, the most frequent one first. The tests are [] for a subject that `path` does not
        test, and a single one that fits any value if one of them is a variable. The first subject
        with several tests is the last level: the subjects after it are left out. [] if `path` has
        no tests.
        """
        levels = []
        for subject in self._subjects if path else ():
            tests = [test for test in path if test.subject == subject]
            if any(test.is_var for test in tests):
                tests = [_Test(subject, _ANY)]
            levels.append((subject, tests))
            if len(tests) > 1:
                break
        return levels

    def may_overtake(self, chain: int, other: int) -> bool:
        """Return True if the rule `chain`, which comes after `other` in the text, may be evaluated
        before it for some input.
        """
        return any(
            _may_be_less(path, than)
            for rule in self._rules[chain]
            for path in rule
            for than_rule in self._rules[other]
            for than in than_rule
        )

    def select(self, read: Callable[[Subject], Any]) -> Selection:
        """Return the rules that OPA evaluates, in its order, each as the number of its chain with
        those of its branches that the index leaves, and whether all of them have the same constant
        answer, so that one is enough. `read` returns the value of a subject (a path or operand that
        rules compare), UNDEFINED if it has none; it is called at most once for each, and its errors
        pass through.
        """
        known: dict[Subject, Any] = {}

        def value_of(subject: Subject) -> Any:
            """Return the value of a subject, read once."""
            if subject not in known:
                known[subject] = read(subject)
            return known[subject]

        chosen = []
        for number, rules in enumerate(self._rules):
            ranks = [
                min((r for levels in rule for r in self._ranks(levels, value_of)), default=None)
                for rule in rules
            ]
            fitting = tuple([n for n, rank in enumerate(ranks) if rank is not None])
            if fitting:
                first = min(rank for rank in ranks if rank is not None)
                chosen.append((first, number, fitting))
        chosen.sort()
        values = [self._values[number][n] for _, number, fitting in chosen for n in fitting]
        one = all(value is not None and value == values[0] for value in values)
        return Selection(tuple([(number, fitting) for _, number, fitting in chosen]), one)

    def _ranks(
        self, levels: Sequence[_Level], value_of: Callable[[Subject], Any]
    ) -> Iterator[tuple[Any, ...]]:
        """Yield a sort key for each position in the trie at which the values of the subjects lead
        to a rule; nothing if one of its tests fails. `levels`: the tests of the rule, from
        `_levels`.
        """
        rank: tuple[Any, ...] = ()
        for subject, tests in levels:
            if not tests:
                rank = (*rank, (0,))
                continue
            value = value_of(subject)
            fits = [each for test in tests for each in self._fits(test, value)]
            if len(tests) > 1:
                yield from ((*rank, each) for each in fits)
                return
            if not fits:
                return
            rank = (*rank, min(fits))
        yield rank

    def _fits(self, test: _Test, value: Any) -> Iterator[tuple[Any, ...]]:
        """Yield a sort key for each way in which `value` passes a test: for a collection, one for
        each item that equals the constant. Nothing if it fails or is UNDEFINED. A string also
        passes an array if its parts do, split by the delimiters of a glob on the same subject.
        """
        if value is UNDEFINED:
            return
        match test.value:
            case Array(items):
                yield from _fits_array(ARRAY, items, value)
                if type(value) is str:
                    for number, split in enumerate(self._splits[test.subject]):
                        parts: list[Any] = split_escaped(value, split)
                        yield from _fits_array(GLOB + number, items, parts)
            case Scalar(constant):
                if type(value) in _COLLECTIONS:
                    for position, member in enumerate(values(value)):
                        if equal(member, constant):
                            yield (CONSTANT, position)
                elif equal(value, constant):
                    yield (CONSTANT, 0)
            case _:
                yield (ANY,)


def _may_be_less(path: Sequence[_Level], than: Sequence[_Level]) -> bool:
    """Return True if the index may reach a rule with the tests `path` before one with the tests
    `than`; both as returned by `RuleIndex._levels`.
    """
    for (_, tests), (_, others) in zip(path, than, strict=False):
        if tests != others or len(tests) > 1:
            # What is not compared is met first.
            return bool(others)
    return len(path) < len(than)


def _fits_array(level: int, items: Sequence[Term], value: Any) -> Iterator[tuple[Any, ...]]:
    """Yield a sort key that begins with `level` if `value` is an array whose items match the tested
    `items`; nothing otherwise.
    """
    if type(value) is not list or len(value) != len(items):
        return
    if all(_fits_item(item, part) for item, part in zip(items, value, strict=True)):
        yield (level, *[1 if isinstance(item, Scalar) else 0 for item in items])


def _fits_item(item: Term, value: Any) -> bool:
    """Return True if a value may be that of an item in the index: a scalar must equal it, anything
    else always may.
    """
    return not isinstance(item, Scalar) or equal(item.value, value)


def split_escaped(text: str, delimiters: str) -> list[str]:
    """Split `text` at each character of `delimiters` that no backslash escapes. Backslashes stay in
    the parts.
    """
    parts, start, is_escaped = [], 0, False
    for n, char in enumerate(text):
        if char == "\\" or is_escaped:
            is_escaped = not is_escaped
        elif char in delimiters:
            parts.append(text[start:n])
            start = n + 1
    return [*parts, text[start:]]


_Level: TypeAlias = tuple[Subject, list[_Test]]
"""A subject of the index, and the tests on it."""
_Path: TypeAlias = list[_Test]
_Paths: TypeAlias = list[_Path]
"""The alternatives of one rule: it can hold if all tests of at least one alternative fit."""


class _Reader:
    """Collects the tests by which the index selects a rule: the comparisons in its body, or in an
    operand of `and` or `or`.
    """

    def __init__(
        self,
        rule: Rule,
        is_virtual: Callable[[Sequence[Any]], bool],
        counts: Counter[Subject],
        spans: dict[Subject, tuple[Any, ...]],
        outer: Sequence[_Test] = (),
        constants: Mapping[str, Term] | None = None,
    ) -> None:
        self.rule = rule
        self.is_virtual = is_virtual
        self.counts = counts
        self.spans = spans
        self.outer = outer
        self.constants = dict(constants or {})
        self.tests: _Path = []
        self.choices: list[_Paths] = []

    def paths_of_rule(self, *, prints: bool) -> _Paths:
        """Read the rule and return its alternatives, each a list of tests that must all pass. With
        `prints`, a rule with a call of `print` as an expression of its body has one alternative
        without tests, so it is always evaluated.
        """
        # A rule that prints is always evaluated.
        if not prints or not any(map(_is_print, self.rule.body)):
            self.body(self.rule.body)
        return self.paths()

    def paths(self) -> _Paths:
        """Return the collected tests as alternatives: one list of tests for each combination of
        choices, such as the operands of `or`. Above `MAX_PATHS` combinations the choices are left
        out, so that any input passes them.
        """
        paths = [self.tests]
        for choices in self.choices:
            if len(paths) * len(choices) > MAX_PATHS:
                return [self.tests]
            paths = [[*path, *choice] for path in paths for choice in choices]
        return paths

    def body(self, body: Body) -> None:
        """Collect the tests of a body's expressions; negated ones and those with `with` have
        none.
        """
        for expr in body:
            if not expr.negated and not expr.withs:
                self._expr(expr)

    def _expr(self, expr: Expr) -> None:
        """Collect in `tests` and `choices` what one expression compares: the operands of `and`
        together, those of `or` as alternatives if both compare something, references, equations,
        `in` and `glob.match`. Nothing for other expressions, which any input then fits. Negated
        ones and those with `with` must not come here.
        """
        match expr.term:
            case And(left, right):
                both = self._operand(left), self._operand(right)
                for choices in both:
                    self._require(choices)
            case Or(left, right):
                first, second = self._operand(left), self._operand(right)
                if first and second:
                    self._require([*first, *second])
            case SomeIn(key, value, domain):
                head, args = _parts(domain)
                self._equation(value, Ref(head, (*args, key or _ANY)))
            case Ref() as ref:
                self._one_way(ref, _ANY, {})
            case Var(name) as document if name in ROOTS:
                self._one_way(document, _ANY, {})
            case Call(_, (left, right)) as call if call.name in _EQUATIONS:
                self._equation(left, right)
            case Call(_, (item, collection)) as call if call.name == "internal.member_2":
                self._member(item, collection)
            case Call(_, (pattern, delimiters, text)) as call if call.name == "glob.match":
                self._glob(pattern, delimiters, text)

    def _operand(self, body: Body) -> _Paths:
        """Return the tests in an operand of `and` or `or` as alternatives, each a list of tests
        that must all pass; [] if any input passes the operand. Variables of the operand are its
        own, so a test with one becomes a test that the path exists.
        """
        # A Counter of its own, since `_require` counts the tests that are kept.
        inner = _Reader(
            self.rule,
            self.is_virtual,
            Counter(),
            self.spans,
            (*self.tests, *self.outer),
            self.constants,
        )
        inner.body(body)
        paths = inner.paths()
        if len(paths) == 1 and not paths[0]:
            return []
        return [[replace(t, value=_ANY) if t.is_var else t for t in path] for path in paths]

    def _require(self, choices: _Paths) -> None:
        """Require that one of the alternatives `choices` passes: the tests of a single one are
        added to `tests`, several alternatives to `self.choices`. Does nothing for [].
        """
        if len(choices) == 1:
            for test in choices[0]:
                self._insert(test)
        elif choices:
            self.counts.update([test.subject for path in choices for test in path])
            self.choices.append(choices)

    # Equations

    def _equation(self, left: Term, right: Term) -> None:
        """Collect the test of an equation, or of a membership written as `xs[_] == x`, whichever
        side the subject (a path or operand that the index reads) is on; the left side is tried
        first. Constants of variables are recorded. Nothing if neither side is a subject.
        """
        if self._any_item(left, right) or self._any_item(right, left):
            return
        if not self._one_way(left, right, self.constants):
            self._one_way(right, left, self.constants)

    def _any_item(self, ref: Term, term: Term) -> bool:
        """Collect the test of an equation like `input.xs[_] = 1`, whose last operand is not a
        constant: the collection, a path or parameter that the index reads, contains the constant.
        Return True; False, with nothing collected, for other equations.
        """
        if not isinstance(ref, Ref) or not ref.args or isinstance(ref.args[-1], Scalar):
            return False
        subject = self._subject(replace(ref, args=ref.args[:-1]))
        value = self.constants.get(term.name, term) if isinstance(term, Var) else term
        if subject is None or not isinstance(value, Scalar):
            return False
        self._insert(_Test(subject, value))
        return True

    def _one_way(self, left: Term, right: Term, constants: dict[str, Term]) -> bool:
        """Add the test of an equation whose left side is a subject: a path or parameter that the
        index can compare. Return False, and add no test, if it is not, or if the right side cannot
        be indexed. `constants`: what variables equal; a constant on the right of a variable is
        added to it.
        """
        if isinstance(left, Var) and left.name not in ROOTS:
            if _is_constant(right):
                constants[left.name] = right
            subject = self._resolve(left) if _is_indexed(right) else None
            if subject is None:
                return False
            self._insert(_Test(subject, right))
            return True
        subject = self._subject(left)
        if subject is None:
            return False
        if not isinstance(right, Var):
            if not _is_indexed(right):
                return False
        elif right.name in ROOTS:  # to OPA a reference
            return False
        else:
            right = constants.get(right.name, right)
        self._insert(_Test(subject, right))
        return True

    def _member(self, item: Term, collection: Term) -> None:
        """Collect the tests of `item in collection`: that the subject `item` (a path or operand
        that the index reads) equals one of the constants in the collection, as alternatives, or
        that the subject `collection`, unless it is an operand of a function, contains the constant
        or variable `item`. Nothing for other forms.
        """
        subject = self._resolve(item) if isinstance(item, Var) else None
        if subject is not None:
            if isinstance(collection, Var):
                collection = self.constants.get(collection.name, collection)
            for member in _members(collection):
                self._insert(_Test(subject, member))
            return
        if isinstance(item, Var) and item.name not in ROOTS:
            item = self.constants.get(item.name, item)
        elif not isinstance(item, Scalar):
            return
        subject = self._subject(collection)
        if subject is None and isinstance(collection, Var):
            subject = self._resolve(collection)
        if subject is not None and subject[0] != "args":
            self._insert(_Test(subject, item))

    def _glob(self, pattern: Term, delimiters: Term, text: Term) -> None:
        """Collect the test of a call of `glob.match` with a constant pattern: the subject's text,
        split at the delimiters, must match the parts of the pattern.
        """
        parts = _glob_parts(constant_value(pattern), constant_value(delimiters))
        subject = self._resolve(text) if isinstance(text, Var) else None
        if parts is not None and subject is not None:
            split, items = parts
            self._insert(_Test(subject, Array(items), split))

    def _insert(self, test: _Test) -> None:
        """Add a test and count its subject. A test is left out if the same subject is tested
        against the same value already. One of the subject against a variable is replaced by one
        against another term.
        """
        # Before the rest, as in OPA: a test that is left out counts for the order of the levels,
        # too.
        self.counts[test.subject] += 1
        for n, other in enumerate(self.tests):
            if other.subject == test.subject:
                if other.value == test.value:
                    return
                if other.is_var and not test.is_var:
                    self.tests[n] = test
                    return
        self.tests.append(test)

    # Subjects

    def _resolve(self, var: Var) -> Subject | None:
        """Return the subject that an earlier test equates with the variable, or `("args", n)` for
        the parameter at position `n`, which is recorded in `spans`; None if it is neither.
        """
        for test in (*self.tests, *self.outer):
            if test.value == var:
                return test.subject
        for number, parameter in enumerate(self.rule.head.args or ()):
            if parameter == var:
                # OPA's reference to an operand has no location, which precedes every other.
                self.spans.setdefault(("args", number), ("", 0, number))
                return ("args", number)
        return None

    def _subject(self, term: Term) -> Subject | None:
        """Return the path below `input` or base data that a term names; None for other terms, and
        for a path with rules. The first position of each path is recorded, for the order of the
        index.
        """
        head, args = _parts(term)
        if not (isinstance(head, Var) and head.name in ROOTS):
            return None
        if not all(isinstance(arg, Scalar) for arg in args):
            return None
        path = [to_key(arg.value) for arg in args if isinstance(arg, Scalar)]
        if head.name == "data" and self.is_virtual(path):
            return None
        subject = (head.name, *path)
        self.spans.setdefault(subject, (head.span.file, head.span.row, head.span.col))
        return subject


def _parts(term: Term) -> tuple[Term, tuple[Term, ...]]:
    return (term.head, term.args) if isinstance(term, Ref) else (term, ())


def _is_print(expr: Expr) -> bool:
    return isinstance(expr.term, Call) and expr.term.name == "print"


def _is_indexed(term: Term) -> bool:
    """Return True for a scalar, for a variable except `input` and `data`, and for an array of
    scalars and variables.
    """
    match term:
        case Scalar():
            return True
        case Var(name):
            return name not in ROOTS
        case Array(items):
            return all(isinstance(item, (Scalar, Var)) for item in items)
    return False


def _is_constant(term: Term) -> bool:
    return constant_value(term) is not NOT_CONSTANT


def _members(collection: Term) -> Sequence[Term]:
    """Return the items of a collection, an object's values; () for other terms."""
    match collection:
        case Array(items) | Set(items):
            return items
        case Object(pairs):
            return [value for _, value in pairs]
    return ()


def _constant_head(rule: Rule) -> Any:
    """Return the constant value of a rule in key form, in a tuple of one; None for a rule with
    `contains`, an open reference, or a computed value.
    """
    if rule.head.key is not None or any(not isinstance(a, Scalar) for a in rule.head.ref.args):
        return None
    value = True if rule.head.value is None else constant_value(rule.head.value)
    return None if value is NOT_CONSTANT else (to_key(value),)


def _glob_parts(pattern: Any, delimiters: Any) -> tuple[str, tuple[Term, ...]] | None:
    """Return the delimiters in one text, "." if the list is empty, and the pattern as an array of
    texts and, for `*`, variables. None if the pattern has other wildcards, or either operand is not
    a constant of its type.
    """
    if type(pattern) is not str or type(delimiters) is not list:
        return None
    if any(type(each) is not str for each in delimiters):
        return None
    split = "".join(delimiters) if delimiters else "."
    parts = split_escaped(pattern, split)
    if any(part != "*" and _is_pattern(part) for part in parts):
        return None
    return split, tuple([_ANY if part == "*" else Scalar(part) for part in parts])


def _is_pattern(part: str) -> bool:
    """Return True if a part of a glob matches more than its own text."""
    is_escaped = False
    for char in part:
        if char == "\\":
            is_escaped = not is_escaped
        elif char in _SPECIAL and not is_escaped:
            return True
        else:
            is_escaped = False
    return False
