"""Residual queries to conditions for callers in Python: related rows, `not`, `every` and rules.

Each body is read in three steps: what its variables stand for, then what must hold, then what must
not, since `not` chooses no rows. Nothing is left out, in either direction: what is left out behind
`not` would let through more as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from types import NoneType
from typing import Final

from doorward.filters.columns import decides
from doorward.filters.comparing import (
    COMPARISONS,
    MEMBER,
    MIRRORED,
    Comparer,
    is_comparing,
    without_idle,
)
from doorward.filters.conditions import Comparison, Condition, Field, Group, Some, to_scalar
from doorward.filters.conditions import Scalar as ScalarValue
from doorward.filters.folding import FUNCTIONS, OBJECT_GET
from doorward.filters.hints import COLUMN, EVERY, ROWS, RULE, WITH, builtin_hint
from doorward.filters.scopes import Meaning, Place, Scope, UnclearError, is_variable
from doorward.filters.searches import search_of_glob, search_of_regex
from doorward.rego.tools import (
    Array,
    Body,
    Call,
    Every,
    Expr,
    Head,
    Module,
    Object,
    Ref,
    Rule,
    Scalar,
    Set,
    Term,
    Var,
    path_text,
    walk,
)

__all__ = ["BodyReader", "names_of"]

MAX_CONDITIONS: Final = 20_000
"""The largest number of expressions that are read for one filter; those of a rule count for each
use."""

_MEANING: Final = "$wanted"
_IS_NEGATED: Final = attrgetter("negated")
_CLOCK: Final = "time.now_ns"
_EQUATIONS: Final = ("eq", "equal", "assign")
_PATTERNS: Final = ("regex.match", "glob.match")


class BodyReader:
    """Reads bodies of rules as conditions; what cannot be one is collected in `comparer.faults`.

    `cache` has comparisons made before, by the `id` of their expressions, and is filled here.
    `now_ns` replaces `time.now_ns()`.
    """

    def __init__(
        self,
        comparer: Comparer,
        support: Sequence[Module],
        cache: dict[int, Comparison | None],
        *,
        now_ns: int | None = None,
    ) -> None:
        self._now_ns = now_ns
        self._comparer = comparer
        self._kept = cache
        self._rules: dict[tuple[object, ...], list[Rule]] = {}
        for module in support:
            for rule in module.rules:
                path = (*module.package.path, *names_of(rule.head.ref))
                self._rules.setdefault(path, []).append(rule)
        self._left = MAX_CONDITIONS

    def body(self, body: Body, scope: Scope) -> tuple[Condition, ...] | None:
        """Return a body as conditions that all must hold, () if it always holds; None if it never
        holds. The variables that it defines are bound in `scope`.

        Expressions that cannot be conditions are left out and recorded as errors in the comparer:
        the result counts only if there are none. Beyond `MAX_CONDITIONS` expressions in all calls
        of this reader, one error is recorded and the result is None.
        """
        self._left -= len(body)
        if self._left < 0:
            # Only the body that passes the limit reports it.
            if self._left + len(body) >= 0:
                self._comparer.fail(
                    body[0].span,
                    f"the filter needs more than {MAX_CONDITIONS} expressions: use fewer rules",
                )
            return None
        cache = self._kept
        if self._now_ns is not None:
            body = tuple([_at_time(expr, Scalar(self._now_ns)) for expr in body])
        needed: list[Condition] = []
        for expr in body:
            # INVARIANT: the residual owns `cache` and these expressions, so that no other object
            # gets such an id. With the time put in, an expression is a new object and never in it.
            known = cache.get(id(expr))
            if known is None:
                break
            needed.append(known)
        else:
            return scope.around(sorted(needed, key=_IS_NEGATED))
        needed.clear()
        rest = self._bind_names(
            [without_idle(expr) if expr.withs else expr for expr in body], scope, needed
        )
        never = False
        failed: list[tuple[Expr, int]] = []
        # Negated ones last: they may use the rows that the others choose, and choose none
        # themselves.
        for expr in sorted(rest, key=_IS_NEGATED):
            count = len(self._comparer.faults)
            try:
                holds = self._condition(expr, scope, needed)
            except UnclearError as error:
                # The error of this expression only: the others are read on, so that one answer
                # names all.
                message = f'invalid statement "{self._comparer.text(expr)}": {error}'
                hint = error.hint
                if foreign := _foreign_builtin(expr.term):
                    # Its result is a generated variable, which says nothing to the author.
                    message, hint = f"invalid builtin `{foreign}`", builtin_hint(foreign)
                self._comparer.fail(expr.span, message, hint=hint)
                failed.append((expr, count))
                continue
            if isinstance(holds, bool):
                never = never or not holds
            elif holds is not None:
                needed.append(holds)
            elif len(self._comparer.faults) == count:
                self._comparer.fail(
                    expr.span, f'invalid statement "{self._comparer.text(expr)}"', hint=COLUMN
                )
            if len(self._comparer.faults) > count:
                failed.append((expr, count))
        if len(failed) > 1:
            self._drop_consequences(failed, scope)
        return None if never else scope.around(needed)

    def _drop_consequences(self, failed: Sequence[tuple[Expr, int]], scope: Scope) -> None:
        """Drop the errors of expressions that read the result of a built-in that no filter can
        have: they would name its generated variable. The errors on the built-ins stay. `failed` has
        the expressions of a body with errors, each with the number of errors before it.
        """
        results: set[str] = set()
        for expr, _ in failed:
            names = _open_variables(expr, scope)
            if isinstance(expr.term, Call) and _foreign_builtin(expr.term):
                results |= names & {each.name for each in expr.term.args[-1:] if type(each) is Var}
            elif not results.isdisjoint(names):
                results |= names
        faults = self._comparer.faults
        ends = [*(start for _, start in failed[1:]), len(faults)]
        left = faults[: failed[0][1]]
        for (expr, start), end in zip(failed, ends, strict=True):
            # INVARIANT: an error on a built-in is never dropped, since without errors the filter
            # counts.
            if _foreign_builtin(expr.term) or results.isdisjoint(_open_variables(expr, scope)):
                left += faults[start:end]
        faults[:] = left

    # Variables

    def _bind_names(
        self, body: Sequence[Expr], scope: Scope, needed: list[Condition]
    ) -> list[Expr]:
        """Bind variables in `scope` as far as equations define them; return the expressions that
        remain.

        For each column that is bound, the condition that it is not NULL is appended to `needed`.
        """
        left = list(body)
        while True:
            # A body has no order: an equation may need a variable that a later one defines.
            rest = [expr for expr in left if not self._bind_name(expr, scope, needed)]
            if len(rest) == len(left) or not rest:
                return rest
            left = rest

    def _bind_name(self, expr: Expr, scope: Scope, needed: list[Condition]) -> bool:
        """Bind the variable that an equation defines in `scope` and return True; return False,
        without a binding, for an expression that defines none.

        A variable without a meaning is defined by a scalar, a column or a row, not behind `not` or
        `with`. The condition that a column has a value is appended to `needed`.
        """
        call = expr.term
        if expr.negated or expr.withs or not isinstance(call, Call):
            return False
        call = _as_equation(call)
        if len(call.args) != 2:
            return False
        if Var not in map(type, call.args) or call.name not in _EQUATIONS:
            return False
        for var, term in (call.args, call.args[::-1]):
            if is_variable(var) and scope.meaning(var.name) is None:
                if not isinstance(term, Scalar) and not scope.begins_here(term):
                    continue
                try:
                    meaning = scope.read(term)
                except UnclearError:
                    # `_condition` reads the term again, and reports it.
                    return False
                scope.bind(var.name, meaning)
                needed += _require_value(meaning, partial(self._comparer.text, expr))
                return True
        return False

    # Expressions

    def _condition(
        self, expr: Expr, scope: Scope, needed: list[Condition]
    ) -> Condition | bool | None:
        """Return the condition of an expression, or a boolean if its outcome is known.

        None after an error, which may be recorded or left to the caller. Further conditions that
        must hold go to `needed`. Raise UnclearError if a term is neither a column nor known.
        """
        term = expr.term
        if expr.withs:
            self._comparer.fail(expr.span, '"with" not permitted', hint=WITH)
            return None
        if type(term) is Call and not _asks_rules(term):
            return self._translate_call(expr, term, scope)
        match term:
            case Every():
                return self._every(term, expr, scope, needed)
            case Call(Ref(Var("data"))):
                meanings = [scope.read(arg) for arg in term.args]
                for meaning in meanings:
                    needed += _require_value(meaning, partial(self._comparer.text, expr))
                return self._require_rule(names_of(term.operator), expr, scope, meanings)
            case Call(_, (key, Ref(Var("data")) as rule)) if term.name == MEMBER:
                expected = scope.read(key)
                needed += _require_value(expected, partial(self._comparer.text, expr))
                return self._require_rule(names_of(rule), expr, scope, element=expected)
            case Call(_, (Ref(Var("data")) as rule, Scalar(known))) if term.name in COMPARISONS:
                return self._value_of_rule(rule, COMPARISONS[term.name], known, expr, scope)
            case Call(_, (Scalar(known), Ref(Var("data")) as rule)) if term.name in COMPARISONS:
                operator = MIRRORED.get(term.name, term.name)
                return self._value_of_rule(rule, COMPARISONS[operator], known, expr, scope)
            case Call():
                return self._translate_call(expr, term, scope)
            case Ref(Var("data")):
                return self._require_rule(names_of(term), expr, scope)
            case Ref() | Var():
                return self._truth(expr, term, scope)
        return None

    def _translate_call(self, expr: Expr, call: Call, scope: Scope) -> Condition | bool | None:
        """Return the condition of `call`, the term of `expr`, negated if `expr` is; a boolean if
        its outcome is known. None after an error, which is recorded.

        Raise UnclearError for a variable without a known value, and for an operand of `in` or of a
        built-in such as `lower` that is neither a column nor known.
        """
        inner = Scope(scope, only_one=True) if expr.negated else scope
        written, call = call, _as_search(_as_equation(call))
        if call.name == MEMBER and inner.begins_here(call.args[1]):
            return self._element(expr, call, inner)
        if FUNCTIONS.get(call.name) == len(call.args):
            if call.name == OBJECT_GET:
                return self._truth(expr, call, scope)
            location = inner.read(call)
            assert isinstance(location, Place)
            text = partial(self._comparer.text, expr)
            there: list[Condition] = _require_value(location, text)
            if expr.negated:
                # `not f(x)` holds where f refuses x, and is undefined where there is no x.
                there = [*self._operand(expr, call, inner), Group((tuple(there),), negated=True)]
            return Group((inner.around(there),))
        read = expr if call is expr.term else replace(expr, term=call)
        if Var in map(type, call.args):
            known = tuple([_resolve_constant(arg, inner) for arg in call.args])
            read = replace(read, term=replace(call, args=known))
        compared = self._comparer.comparison(read, inner.field)
        if written.name in _PATTERNS and isinstance(compared, Comparison) and expr.negated:
            # Where an operand is undefined, so is `not` before a call: this is not an equation.
            defined = replace(compared, operator="defined", value=None, negated=False)
            return Group((inner.around([defined, compared]),))
        if _has_output(written) and isinstance(compared, Comparison) and expr.negated:
            # As `not f(x)` above: `not f(x, 1)` is the call that `f(x) == 1` in a function becomes.
            return Group((inner.around([*self._operand(expr, written, inner), compared]),))
        if id(expr) in self._kept and isinstance(compared, Comparison) and _is_plain_call(call):
            self._kept[id(expr)] = compared
        if not isinstance(compared, Comparison) or not expr.negated or not inner.asks_for_rows:
            return compared
        # `not x < 1` is undefined where x is not there; `not x == 1` holds there.
        is_equation = call.name in ("eq", "equal")
        compared = replace(compared, negated=not is_equation)
        (existence,) = inner.around([compared], negated=is_equation)
        return existence

    def _operand(self, expr: Expr, call: Call, inner: Scope) -> list[Condition]:
        """Return the condition that the first operand of a call has a value, in a list; [] if it
        always has one.
        """
        return _require_value(inner.read(call.args[0]), partial(self._comparer.text, expr))

    def _element(self, expr: Expr, call: Call, inner: Scope) -> Condition | None:
        """Return the condition that a known value or a column is an element of a column; None after
        an error. Raise UnclearError if an operand is neither a column nor known.
        """
        location, element = inner.read(call.args[1]), inner.read(call.args[0])
        value = element.field if isinstance(element, Place) else element
        if not isinstance(location, Place) or not location.name or location.function:
            value = None
        if not isinstance(value, (Field, Scalar)):
            message = f"in: a known collection is needed: {self._comparer.text(call.args[1])}"
            self._comparer.fail(expr.span, message, hint=ROWS)
            return None
        assert isinstance(location, Place)
        row = inner.each(location)
        known = to_scalar(value.value) if isinstance(value, Scalar) else value
        same = Comparison(Field(row, ""), "eq", known, text=partial(self._comparer.text, expr))
        some = Some(
            location.row, location.name, row, many=True, conditions=((same,),), text=same.text
        )
        if not expr.negated:
            return some
        # `not x in xs` is undefined where one of them is.
        operands = [*_require_value(location, same.text), *_require_value(element, same.text)]
        return Group((inner.around([*operands, replace(some, negated=True)]),))

    def _truth(self, expr: Expr, term: Term, scope: Scope) -> Condition | bool | None:
        """Return the condition that a column or row alone is true: it exists and is not false.

        A row of a table is always there, which gives a boolean; None if the term is known. Raise
        UnclearError if it is neither.
        """
        inner = Scope(scope, only_one=True) if expr.negated else scope
        location = inner.read(term)
        if not isinstance(location, Place):
            return None
        field = location.field
        if field is None:
            return not expr.negated  # a row is there
        # Not `eq true`: as a statement each value but false holds, `0` and `""` too.
        compared = Comparison(field, "ne", False, text=partial(self._comparer.text, expr))
        return Group((inner.around([compared]),), negated=True) if expr.negated else compared

    def _every(
        self, every: Every, expr: Expr, scope: Scope, needed: list[Condition]
    ) -> Condition | bool | None:
        """Return the condition of an `every` over related rows or a known collection.

        False if it never holds over the known collection; None after an error, such as for a
        negated `every` or one over a call. The condition that there is a collection goes to
        `needed`. Raise UnclearError for a path or variable that is neither a column nor known.
        """
        location = None
        if not expr.negated and isinstance(every.domain, (Ref, Var, Array, Set, Object)):
            location = scope.read(every.domain)
        if isinstance(location, (Array, Set, Object)):
            return self._every_known(every, location, scope)
        if not isinstance(location, Place) or not location.name:
            self._comparer.fail(expr.span, '"every" not permitted', hint=EVERY)
            return None
        row = scope.each(location)
        around = Scope(scope)
        around.bind(every.value.name, Place(row))
        inner = self.body(every.body, around)
        # A body that never holds fails for each row, so that `every` holds only where there is
        # none.
        fails = () if inner is None else (Group((inner,), negated=True),)
        text = partial(self._comparer.text, expr)
        # There is nothing to say of each element of null.
        needed.append(Comparison(Field(location.row, location.name), "collection", None, text=text))
        return Some(location.row, location.name, row, many=True, conditions=(fails,), negated=True)

    def _every_known(
        self, every: Every, domain: Array | Set | Object, scope: Scope
    ) -> Condition | bool:
        """Return the condition that the body of an `every` holds for each value of a known
        collection; it always holds for an empty one. False if the body never holds for one of the
        values. Errors are recorded.
        """
        pairs: Sequence[tuple[Term, Term]]
        match domain:
            case Array(items):
                pairs = [(Scalar(n), item) for n, item in enumerate(items)]
            case Set(items):
                pairs = [(item, item) for item in items]
            case Object(items):
                pairs = items
        needed: list[Condition] = []
        for key, value in pairs:
            around = Scope(scope)
            around.bind(every.value.name, around.read(value))
            if every.key is not None:
                around.bind(every.key.name, around.read(key))
            inner = self.body(every.body, around)
            if inner is None:
                return False
            needed += inner
        return Group((tuple(needed),))

    # Rules

    def _require_rule(
        self,
        path: Sequence[object],
        expr: Expr,
        scope: Scope,
        args: Sequence[Meaning] | None = None,
        *,
        element: Meaning | None = None,
    ) -> Condition | None:
        """Return the condition that a rule of the residual is true (with a default: not false), or
        that the set which it defines has `element`; negated if `expr` is.

        `args` are the operands of a function, None for any other rule. None after an error, which
        is recorded: the rule is missing, or has another form (`_is_plain`).
        """
        rules = self._rules.get(tuple(path))
        if rules and args is None and element is None and _has_default(rules):
            return self._either(rules, lambda value: value is not False, expr, scope)
        if not rules or any(not _is_plain(rule, args, element) for rule in rules):
            name = path_text([str(name) for name in path])
            self._comparer.fail(expr.span, f"the rule {name} cannot be used in a filter", hint=RULE)
            return None
        bodies: list[tuple[Condition, ...]] = []
        for rule in rules:
            if rule.default:
                continue
            # The variables of a rule are its own. Rows are not: the same relation of the same row
            # must stay one row inside and outside.
            inner = Scope(scope, sees=False)
            for parameter, meaning in zip(rule.head.args or (), args or (), strict=True):
                assert isinstance(parameter, Var)
                inner.bind(parameter.name, meaning)
            body = rule.body
            if element is not None and rule.head.key is not None:
                inner.bind(_MEANING, element)
                body = (Expr(_equation(rule.head.key), span=expr.span), *body)
            conditions = self.body(body, inner)
            if conditions is not None:
                bodies.append(conditions)
        return Group(tuple(bodies), negated=expr.negated)

    def _value_of_rule(
        self, ref: Ref, operator: str, known: object, expr: Expr, scope: Scope
    ) -> Condition | bool | None:
        """Return the condition that a rule with known values and a default, or a rule that is true
        or undefined and `known` is true, compares with `known`; False if it never does. None after
        an error.
        """
        rules = self._rules.get(names_of(ref), ())
        if known is True and not any(rule.default for rule in rules):
            # It is true or undefined.
            if operator == "eq":
                return self._require_rule(names_of(ref), expr, scope)
            if operator == "ne" and not expr.negated:
                is_true = self._require_rule(names_of(ref), expr, scope)
                return None if is_true is None else False
        if not _has_default(rules):
            name = path_text([str(name) for name in names_of(ref)])
            self._comparer.fail(expr.span, f"the rule {name} cannot be used in a filter", hint=RULE)
            return None
        other = to_scalar(known)
        return self._either(rules, lambda each: decides(each, operator, other), expr, scope)

    def _either(
        self,
        rules: Sequence[Rule],
        holds: Callable[[ScalarValue], bool],
        expr: Expr,
        scope: Scope,
    ) -> Condition:
        """Return the condition that the value of a rule passes the test `holds` or, if `expr` is
        negated, does not.

        It holds if a body with such a value holds, or if no body holds and the default passes. That
        bodies with different values exclude each other is not checked here.
        """
        bodies: list[tuple[Condition, ...]] = []
        alternatives: list[tuple[Condition, ...]] = []
        default = _value_of(rules[0])
        for rule in rules:
            if rule.default:
                default = _value_of(rule)
                continue
            conditions = self.body(rule.body, Scope(scope, sees=False))
            if conditions is not None:
                bodies.append(conditions)
                if holds(_value_of(rule)):
                    alternatives.append(conditions)
        if holds(default):
            alternatives.append((Group(tuple(bodies), negated=True),))
        return Group(tuple(alternatives), negated=expr.negated)


def _value_of(rule: Rule) -> ScalarValue:
    value = rule.head.value
    return to_scalar(value.value) if isinstance(value, Scalar) else True


def _has_default(rules: Sequence[Rule]) -> bool:
    """Return True if the definitions `rules` of one rule have exactly one default and only constant
    values; False for functions, sets, objects and rules with `else`.
    """
    if any(
        rule.else_rule is not None
        or rule.head.key is not None
        or rule.head.args is not None
        or not isinstance(rule.head.value, (Scalar, NoneType))
        for rule in rules
    ):
        return False
    return sum(rule.default for rule in rules) == 1


def _require_value(meaning: Meaning, text: Callable[[], str]) -> list[Condition]:
    """Return the condition that a column, or a function of one, has a value, in a list; [] if
    `meaning` always has one: it is known, a row or an element. `text` returns the expression for
    errors.
    """
    field = meaning.field if isinstance(meaning, Place) else None
    if field is None or not (field.column or field.function):
        return []
    return [Comparison(field, "defined", None, text=text)]


def _as_search(call: Call) -> Call:
    """Return `regex.match` or `glob.match` as an equation or search for a plain text if they are
    equivalent, else `call`.
    """
    known = [arg.value for arg in call.args if isinstance(arg, Scalar)]
    search = None
    match call.name, call.args, known:
        case "regex.match", (Scalar(), subject), [str() as pattern]:
            search = search_of_regex(pattern)
        case "glob.match", (Scalar(), Scalar(None), subject), [str() as pattern, None]:
            search = search_of_glob(pattern, has_delimiters=False)
        case "glob.match", (Scalar(), Array(), subject), [str() as pattern]:
            search = search_of_glob(pattern, has_delimiters=True)
    if search is None:
        return call
    name, text = search
    return Call(Ref(Var(name), ()), (subject, Scalar(text)))


def _at_time(expr: Expr, now: Scalar) -> Expr:
    """Return an expression with `now` in place of `time.now_ns()` as an operand of its call;
    `time.now_ns(x)` becomes `x = now`.
    """
    call = expr.term
    if not isinstance(call, Call):
        return expr
    if call.name == _CLOCK and len(call.args) == 1:
        return replace(expr, term=Call(Ref(Var("eq"), ()), (call.args[0], now), infix=True))
    if not any(isinstance(arg, Call) and arg.name == _CLOCK for arg in call.args):
        return expr
    args = [now if isinstance(arg, Call) and arg.name == _CLOCK else arg for arg in call.args]
    return replace(expr, term=replace(call, args=tuple(args)))


def _as_equation(call: Call) -> Call:
    """Return a call with an output operand as an equation: `lower(x, y)` -> `lower(x) = y`; other
    calls unchanged.
    """
    if not _has_output(call):
        return call
    operand = replace(call, args=call.args[:-1])
    return Call(Ref(Var("eq"), ()), (operand, call.args[-1]), infix=True)


def _has_output(call: Call) -> bool:
    """Return True if the last operand of a call of a built-in of `FUNCTIONS` is its value."""
    return FUNCTIONS.get(call.name, -1) == len(call.args) - 1


def _foreign_builtin(term: object) -> str:
    """Return the name of the built-in that an expression's term calls if no condition can have it,
    whatever its operands are; "" for other terms and for functions of the policies.
    """
    if type(term) is not Call or not isinstance(term.operator.head, Var):
        return ""
    name = term.name
    known = is_comparing(name) or name in FUNCTIONS or name in _PATTERNS or name in _EQUATIONS
    is_own = term.operator.head.name == "data" or name.startswith("internal.")
    return "" if known or is_own else name


def _open_variables(expr: Expr, scope: Scope) -> set[str]:
    """Return the names of the variables in an expression that have no meaning in the scope."""
    names = {node.name for node in walk(expr) if isinstance(node, Var) and is_variable(node)}
    return {name for name in names if scope.meaning(name) is None}


def _asks_rules(call: Call) -> bool:
    """Return True if the operator or an operand of a call is a path below `data`, so a rule."""
    for term in (call.operator, *call.args):
        if type(term) is Ref and type(term.head) is Var and term.head.name == "data":
            return True
    return False


def _is_plain_call(call: Call) -> bool:
    """Return True if each operand that is a reference has the form `input.TABLE.COLUMN`, which
    means the same in every scope. Only the number of keys is looked at.
    """
    return all(not isinstance(arg, Ref) or len(arg.args) == 2 for arg in call.args)


def _resolve_constant(term: Term, scope: Scope) -> Term:
    """Return the known value that a variable stands for; other terms unchanged."""
    meaning = scope.read(term) if isinstance(term, Var) else term
    return meaning if isinstance(meaning, (Scalar, Array, Set, Object)) else term


def _equation(key: Term) -> Call:
    return Call(Ref(Var("eq"), ()), (key, Var(_MEANING)), infix=True)


def _is_plain(rule: Rule, args: Sequence[Meaning] | None, meaning: Meaning | None) -> bool:
    """Return True if a rule is of the form that this module can translate: it can only be true or
    undefined or, with a `meaning` for an element, is a set. With `args` it must be a function with
    as many operands, all different variables; with None it must not be a function. Only with
    neither may it also be a default of false.
    """
    head: Head = rule.head
    if rule.else_rule is not None or (head.key is None) != (meaning is None):
        return False
    if rule.default:
        return head.value == Scalar(False) and args is None
    if head.value not in (None, Scalar(True)) or (head.args is None) != (args is None):
        return False
    names = [arg.name for arg in head.args or () if isinstance(arg, Var)]
    return len(set(names)) == len(head.args or ()) == len(args or ())


def names_of(ref: Ref) -> tuple[object, ...]:
    """Return the names of a reference below `data`, or of a rule's name in its package; a part that
    is not constant stays a term.
    """
    head = [ref.head.name] if isinstance(ref.head, Var) and ref.head.name != "data" else []
    names = [part.value if isinstance(part, Scalar) else part for part in ref.args]
    return (*head, *names)
