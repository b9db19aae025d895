"""Policies with tests to the tests, and to policies in which each test can be evaluated alone.

Each rule with a part of its name that begins with `test_` is a test, also a default or a function.
The second of two tests with one name becomes `test_x#01`, so that each has a value of its own. The
parts of the name after that are the case: the rule is changed so that it reports each case to the
runner, as early as the case's name is known, since a case that fails leaves nothing in the rule's
value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from doorward.base.records import record, replace
from doorward.rego.shared import Key, Span
from doorward.rego.tools import (
    ROOTS,
    Array,
    Body,
    Call,
    Expr,
    Module,
    Node,
    Object,
    Ref,
    Rule,
    Scalar,
    SomeDecl,
    SomeIn,
    Term,
    Var,
    head_key,
    path_text,
    walk,
)

__all__ = ["PROPERTY", "TELL_CASE", "Test", "find_tests", "has_properties"]

TELL_CASE: Final = "internal.test_case"
"""The built-in with which compiled tests report the names of a case to the runner."""

PROPERTY: Final = "never_"
"""The prefix of the names of properties (`doorward.search.proofs`)."""

_PREFIX: Final = "test_"
_SKIPPED: Final = "todo_test_"


@record
class Test:
    """One test: the package, name and span of its rule, and the path of its value. `is_table`: the
    value is an object of cases. `is_function`: the rule has parameters, so it has no value.
    """

    __test__ = False  # what pytest shall not collect by its name

    package: str
    name: str
    path: tuple[Key, ...]
    span: Span
    is_table: bool = False
    is_function: bool = False

    @property
    def is_skipped(self) -> bool:
        """True for a `todo_test_` rule."""
        return str(self.path[-1]).startswith(_SKIPPED)

    def __str__(self) -> str:
        """Return the full name, such as `data.authz_test.test_allow`."""
        return f"{self.package}.{self.name}"


def find_tests(trees: Mapping[str, Module]) -> tuple[dict[str, Module], list[Test]]:
    """Return the policies as the runner needs them, and the tests in the order of files and rules.
    A test whose name was used before becomes `test_x#01`, and tests with cases report each case
    that they try. The given trees are not changed.
    """
    counts: Counter[tuple[Key, ...]] = Counter()
    ready: dict[str, Module] = {}
    tests: list[Test] = []
    for file, tree in trees.items():
        rules = []
        for rule in tree.rules:
            names = _test_name(rule)
            if names:
                if rule.head.args == ():
                    rule = replace(rule, head=replace(rule.head, args=None))
                rule = _number_rule(rule, names, counts, tree.package.path)
                names = _test_name(rule)
                tests.append(_test(tree, rule, names))
                rule = _report_case(rule, len(names) - 1)
            rules.append(rule)
        ready[file] = replace(tree, rules=tuple(rules))
    return ready, tests


def has_properties(trees: Iterable[Module]) -> bool:
    """Return True if the name of a rule contains `never_`; then there may be properties."""
    return any(PROPERTY in rule.head.ref.span.text for tree in trees for rule in tree.rules)


def _test_name(rule: Rule) -> list[str]:
    """Return the parts of a rule's name up to and including the one that makes it a test; [] if
    none does.
    """
    ref = rule.head.ref
    names = [ref.head.name] if isinstance(ref.head, Var) else []
    for arg in ref.args:
        if not isinstance(arg, Scalar) or _is_test(names[-1]):
            break
        names.append(str(arg.value) if isinstance(arg.value, str) else "")
    return names if names and _is_test(names[-1]) else []


def _is_test(name: str) -> bool:
    return name.startswith((_PREFIX, _SKIPPED))


def _number_rule(
    rule: Rule, names: Sequence[str], counts: Counter[tuple[Key, ...]], package: Sequence[Key]
) -> Rule:
    """Return the rule, renamed `test_x#01` and so on if an earlier test has the same path, and
    count it in `counts`. A `todo_test_` rule is neither renamed nor counted.
    """
    if not names[-1].startswith(_PREFIX):
        return rule
    path = (*package, *names)
    number = counts[path]
    counts[path] += 1
    return _rename_rule(rule, len(names) - 1, f"{names[-1]}#{number:02}") if number else rule


def _rename_rule(rule: Rule, position: int, name: str) -> Rule:
    """Return the rule, and its `else` branches, with the part of its name at `position` changed to
    `name`.
    """
    ref = rule.head.ref
    if position == 0:
        ref = replace(ref, head=Var(name, ref.head.span))
    else:
        part = Scalar(name, ref.args[position - 1].span)
        ref = replace(ref, args=(*ref.args[: position - 1], part, *ref.args[position:]))
    following = rule.else_rule
    if following is not None:
        following = _rename_rule(following, position, name)
    return replace(rule, head=replace(rule.head, ref=ref), else_rule=following)


def _test(tree: Module, rule: Rule, names: Sequence[str]) -> Test:
    """Return the test for a rule; `names` are the parts of its name."""
    name = names[0] + path_text(names[1:]).removeprefix("data")
    path = (*tree.package.path, *names)
    is_open = any(not isinstance(arg, Scalar) for arg in rule.head.ref.args)
    is_table = rule.head.key is None and (is_open or head_key(rule) is not None)
    return Test(path_text(tree.package.path), name, path, rule.span, is_table, bool(rule.head.args))


# Cases


def _report_case(rule: Rule, count: int) -> Rule:
    """Return the rule with a call added to its body that reports the case being tried: directly
    after the expressions that bind the case's name. The rule itself if it has no cases or already
    reports them.

    `count` is the number of operands of the rule's reference that belong to the test's name; the
    rest is the case's.
    """
    tail = rule.head.ref.args[count:]
    if not tail or rule.head.args is not None or _reports_case(rule):
        return rule
    names, bindings = _split_case_names(tail, rule)
    body = rule.body or (Expr(Scalar(True, rule.head.span), span=rule.head.span),)
    declared = frozenset(_find_declared(body))
    for name, expr in bindings:
        body = _place_binding(body, name, expr, declared)
    position = 1 + max((_first(body, {t.name}) for t in names if isinstance(t, Var)), default=-1)
    call = Call(_operator(TELL_CASE), (Array(names, rule.head.span),), rule.head.span)
    body = (*body[:position], Expr(call, span=rule.head.span), *body[position:])
    ref = replace(rule.head.ref, args=(*rule.head.ref.args[:count], *names))
    return replace(rule, head=replace(rule.head, ref=ref), body=body)


def _reports_case(rule: Rule) -> bool:
    """Return True if the rule itself calls the built-in that reports cases."""
    calls = (node for expr in rule.body for node in walk(expr) if isinstance(node, Call))
    return any(call.name == TELL_CASE for call in calls)


def _split_case_names(
    tail: Sequence[Term], rule: Rule
) -> tuple[tuple[Term, ...], list[tuple[str, Expr]]]:
    """Return the parts of a case's name as constants and variables, and, for each part that is
    neither, a new variable with the expression that binds it.
    """
    used = {node.name for node in walk(rule) if isinstance(node, Var)}
    names: list[Term] = []
    bindings: list[tuple[str, Expr]] = []
    for number, term in enumerate(tail):
        if isinstance(term, Scalar) or (isinstance(term, Var) and term.name not in ROOTS):
            names.append(term)
            continue
        name = f"case{number}"
        while name in used:
            name += "_"
        names.append(Var(name, term.span))
        call = Call(_operator("eq"), (names[-1], term), term.span, infix=True)
        bindings.append((name, Expr(call, span=term.span)))
    return tuple(names), bindings


def _operator(name: str) -> Ref:
    first, *rest = name.split(".")
    return Ref(Var(first), tuple(map(Scalar, rest)))


def _place_binding(body: Body, name: str, expr: Expr, declared: frozenset[str]) -> Body:
    """Return `body` with `expr`, which binds `name`, directly after the first uses of the declared
    variables that it needs, or at the beginning if it needs none. Other variables are not
    considered, as in OPA: the compiler orders their expressions.
    """
    needed = [v for v in _variables(expr) if v in declared and v != name]
    firsts = [at for at in (_first(body, {each}) for each in needed) if at >= 0]
    position = 1 + max(firsts, default=0) if needed else 0
    return (*body[:position], expr, *body[position:])


def _first(body: Body, names: set[str]) -> int:
    """Return the index of the first expression that uses one of `names`; -1 if none does.
    Declarations `some x` do not count.
    """
    for position, expr in enumerate(body):
        if not isinstance(expr.term, SomeDecl) and names.intersection(_variables(expr)):
            return position
    return -1


def _variables(node: Node) -> list[str]:
    return [each.name for each in walk(node) if isinstance(each, Var)]


def _find_declared(body: Body) -> Iterator[str]:
    """Yield the names of the variables that the expressions of a body declare, by `some`, `some …
    in` or `:=`; bodies inside of them are not searched. A name may come twice.
    """
    for expr in body:
        match expr.term:
            case SomeDecl(symbols=symbols):
                yield from (var.name for var in symbols)
            case SomeIn(key=key, value=value):
                for part in (key, value):
                    yield from () if part is None else _variables(part)
            case Call(args=(target, _)) as call if call.infix and call.name == "assign":
                yield from _find_assigned(target)


def _find_assigned(target: Term) -> Iterator[str]:
    """Yield the variables in the left side of an assignment, a variable or a pattern."""
    match target:
        case Var(name=name):
            yield name
        case Array(items=items):
            for item in items:
                yield from _find_assigned(item)
        case Object(items=pairs):
            for _, value in pairs:
                yield from _find_assigned(value)
