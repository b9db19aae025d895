"""Calls: built-ins with known operands are called, functions are gone through rule by rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from doorward.rego.analysis.variables import ROOTS
from doorward.rego.errors import CONFLICT_ERROR, EvalError
from doorward.rego.partial.conflicts import conflicts_of_branches, find_conflict
from doorward.rego.partial.context import SearchContext, Site, Solutions
from doorward.rego.partial.core import (
    FALSE,
    Constant,
    Expr,
    Operator,
    Ref,
    Rule,
    Term,
    Var,
    variables,
)
from doorward.rego.partial.program import Node
from doorward.rego.partial.state import Bindings, as_value, plug
from doorward.rego.partial.support import add_function, known_documents
from doorward.rego.runtime.evaluation import Site as CallSite
from doorward.rego.values import UNDEFINED, Undefined, Value, equal

_CONFLICT: Final = "functions must not produce multiple outputs for same inputs"


def call(search: SearchContext, site: Site, operator: Operator, args: Sequence[Term]) -> Solutions:
    """Yield for each solution of a call; the last of `args` may be its output. A replacement by
    `with` is used instead of the function. No solution if the policies have no such function.
    """
    mock = search.replaced.function(operator)
    if mock is not None:
        instead = _function_of(search, mock)
        if instead is not None:
            # What is unknown is asked of the function that is called, not of the one it replaces.
            site = replace(site, expr=replace(site.expr, operator=instead))
            return _without_mocks(search, call, site, instead, args)
        return _constant_answer(search, site, operator, args, mock)
    if type(operator) is Ref:
        node = search.program.function(operator)
        return (
            iter(()) if node is None else _Function(search, site, operator, node, args).solutions()
        )
    assert type(operator) is str
    return _builtin(search, site, operator, args)


def _function_of(search: SearchContext, mock: Term) -> Operator | None:
    """Return the function of the policies (a reference) or built-in (a name) that the value of a
    `with` names; None if it is another term.
    """
    if type(mock) is not Ref:
        return None
    if search.program.function(mock) is not None:
        return mock
    name = ".".join(
        [str(p.value) if type(p) is Constant else p.name for p in mock.parts if type(p) is not Ref]  # type: ignore[union-attr]
    )
    return name if search.program.builtin(name) is not None else None


def _without_mocks(search: SearchContext, work: Any, site: Site, *operands: Any) -> Solutions:
    """Yield the solutions of `work(search, site, *operands)`. No function is replaced while `work`
    runs, and the replacements are in effect again at each yield.
    """
    replaced = search.replaced
    replaced.push_functions({}, hide=True)
    is_inside = True
    solutions = work(search, site, *operands)
    try:
        while next(solutions, solutions) is not solutions:
            replaced.pop_functions()
            is_inside = False
            yield
            replaced.push_functions({}, hide=True)
            is_inside = True
    finally:
        if is_inside:  # not if the caller wants no more solutions
            replaced.pop_functions()


def _constant_answer(
    search: SearchContext, site: Site, operator: Operator, args: Sequence[Term], value: Term
) -> Solutions:
    """Yield the solutions of a call whose function a `with` replaces by the constant `value`: its
    output, the last of `args`, equals `value`; without an output, `value` is not false.
    """
    if len(args) > arity_of(search, operator):
        yield from search.unify(args[-1], value, site.bindings, site.bindings, site)
    elif value != FALSE:
        yield


def arity_of(search: SearchContext, operator: Operator) -> int:
    """Return the number of operands that a function declares. For a variadic or unknown built-in
    the number is larger than any call's, so that no operand counts as an output; -1 for an unknown
    function of the policies.
    """
    count = search.program.arity(operator)
    if count is None:
        return 1_000_000 if type(operator) is str else -1
    return count


def _builtin(search: SearchContext, site: Site, name: str, args: Sequence[Term]) -> Solutions:
    """Call a built-in with its known operands and yield once for each result, or save the call if
    something in it is unknown. No solution if the result is undefined, or false in a call without
    an output. EvalError if an error of the built-in ends the evaluation.
    """
    bindings = site.bindings
    declared = search.program.builtin(name)
    assert declared is not None  # a call that compiled
    count = arity_of(search, name)
    if search.is_unknown_expr(_bare(site.expr), bindings):
        yield from search.save_call(name, args, count, site)
        return
    # Nothing is unknown here, so every operand is a constant by now.
    operands = [as_value(plug(arg, bindings)) for arg in args[:count]]
    evaluation = search.evaluation
    arguments = (evaluation, *operands) if declared.context else tuple(operands)
    answer = evaluation.call_builtin(CallSite(name, site.expr.span), declared.call, *arguments)
    if answer is UNDEFINED:
        return
    answers = answer if declared.relation else (answer,)
    for each in answers:
        if declared.signature.result is None:
            yield
        elif len(args) > count:
            yield from search.unify(args[-1], Constant(each), bindings, bindings, site)
        elif each is not False:
            yield


def _bare(expr: Expr) -> Expr:
    """Return `expr` without its `with` and `not` if it has a `with`, since the replacements are
    already in effect while it is evaluated; otherwise `expr` itself.
    """
    return replace(expr, withs=(), negated=False) if expr.withs else expr


class _Function:
    """Evaluates a call of a function of the policies."""

    def __init__(
        self, search: SearchContext, site: Site, operator: Ref, node: Node, args: Sequence[Term]
    ) -> None:
        self.search = search
        self.site = site
        self.operator = operator
        self.node = node
        self.args = tuple(args)
        self.count = len((node.default or node.rules[0]).args or ())
        self.has_result = len(args) > self.count

    def solutions(self) -> Solutions:
        """Yield once for each solution of the call. A call with an unknown operand or reach is
        saved as it is if the function has `else` that must not be inlined; it goes through a
        support function (rules that the residual refers to) if a default matters, inlining of it is
        disabled, or `shallow` is set. Any other call is inlined, rule by rule. With
        `settings.truth`, a call that meets nothing unknown yields its one value, and possible
        conflicts are recorded in `search.conflicts`.
        """
        search, node = self.search, self.node
        is_unknown = search.is_unknown_expr(_bare(self.site.expr), self.site.bindings)
        if (
            node.has_else
            and is_unknown
            and (search.settings.keep_else or not search.settings.truth)
        ):
            if search.settings.truth:
                search.conflicts += conflicts_of_branches(node.rules)
            return search.save_call(self.operator, self.args, self.count, self.site)
        if search.settings.truth and is_unknown:
            self._note_conflict()
        default = node.default
        # Without an output, a default of false fails the call as no value does.
        needed = default is not None and (self.has_result or default.value != FALSE)
        if needed or search.settings.shallow or search.disabled.has(self.operator.parts):
            bindings = self.site.bindings
            operands = (self.operator, *self.args[: self.count])
            if any(search.is_unknown(term, bindings) for term in operands):
                return self._support()
            if needed and self.has_result:
                return self._known_value()
        if search.settings.truth and not is_unknown:
            return self._known_value()
        return self._alternatives() if node.has_else and is_unknown else self._values()

    def _known_value(self) -> Solutions:
        """Yield for each way in which the output equals the function's value for known operands;
        without an output, once if the value is not false. No solution if there is no value.
        """
        search, bindings = self.search, self.site.bindings
        # All of the value first: a rule that holds excludes the default, and another rule with
        # another value is a conflict, also where their values differ from the output.
        with search.disabled.suspended():
            value = self._value()
        if self.has_result and not isinstance(value, Undefined):
            yield from search.unify(self.args[-1], Constant(value), bindings, bindings, self.site)
        elif value is not UNDEFINED and value is not False:
            yield

    def _value(self) -> Value | Undefined:
        """Return the function's value for operands that are known, from its rules with the first
        `else` branch that answers; if no rule has one, its default, and UNDEFINED if there is none.
        Nothing that it reads may be unknown. EvalError for two different values.
        """
        value: Value | Undefined = UNDEFINED
        for rule in self.node.rules:
            for branch in rule.branches():
                answered = False
                for each in self._values_of(branch):
                    if not isinstance(value, Undefined) and not equal(value, each):
                        raise EvalError(CONFLICT_ERROR, _CONFLICT, branch.span)
                    value, answered = each, True
                if answered:
                    break
        if value is UNDEFINED and self.node.default is not None:
            return next(self._values_of(self.node.default), UNDEFINED)
        return value

    def _values_of(self, rule: Rule) -> Iterator[Value]:
        """Yield the value of one rule or `else` branch for each of its solutions for known
        operands, whatever the branches before it do.
        """
        search, site, own = self.search, self.site, self.search.child()
        assert rule.value is not None
        operands, parameters = self.args[: self.count], rule.args or ()
        for _ in search.unify_all(operands, parameters, site.bindings, own, site):
            for _ in search.rule(rule, own):
                yield as_value(plug(rule.value, own))

    def _alternatives(self) -> Solutions:
        """Yield the solutions of all branches for unknown operands, those of an `else` under the
        condition that the branches before it do not apply. A default is not tried: here it is false
        and the call has no output.
        """
        for branch in self.node.branches:
            yield from self._rule(branch, [UNDEFINED], [False])

    def _values(self) -> Solutions:
        """Yield for each solution of the function's rules; of a rule with `else`, only of the first
        branch that answers. The default applies if no rule has a value, also a false one. EvalError
        for a value of false and another one in a call without an output.
        """
        # Lists of one item, here and below: `_rule` is a generator and sets them between two
        # solutions.
        before = UNDEFINED
        state: list[Any] = [before]
        for rule in self.node.rules:
            for branch in rule.branches():
                answered = [False]
                yield from self._rule(branch, state, answered)
                if answered[0]:
                    break
        if self.node.default is not None and state[0] is UNDEFINED:
            yield from self._rule(self.node.default, state, [False])

    def _note_conflict(self) -> None:
        """Append to `search.conflicts` the first two rules of the function that may give different
        values for these operands, if there are such.
        """
        search, site = self.search, self.site

        def solutions(rule: Rule, own: Bindings) -> Solutions:
            """Yield for each way in which one branch of a rule applies to the operands, its
            variables bound in `own`.
            """
            operands = self.args[: self.count]
            for _ in search.unify_all(operands, list(rule.args or ()), site.bindings, own, site):
                yield from search.branch(rule, own)

        conflict = find_conflict(search, self.node.branches, solutions)
        if conflict is not None:
            search.conflicts.append(conflict)

    def _rule(self, rule: Rule, state: list[Any], answered: list[bool]) -> Solutions:
        """Yield for each solution of one rule for the operands. Also set `answered[0]` to True and
        `state[0]` to the rule's value.

        In a call without an output, a rule with the value false does not yield; it raises EvalError
        if `state[0]` is another constant, from another rule. An unknown value is saved as an
        expression.
        """
        search, site = self.search, self.site
        bindings = search.child()
        operands, head = list(self.args), list(rule.args or ())
        assert rule.value is not None
        # A decision asks for a function's value before it compares it, so that a conflict in the
        # body counts for every output. OPA's residuals compare first, which leaves rules out.
        is_compared_last = self.has_result and search.settings.truth
        output = operands.pop() if is_compared_last else None
        if self.has_result and not is_compared_last:
            head.append(rule.value)
        for _ in search.unify_all(operands, head, site.bindings, bindings, site):
            for _ in self._holding(rule, bindings, output):
                if not self.has_result and search.unknowns.has(rule.value, bindings):
                    answered[0] = True
                    state[0] = rule.value
                    yield from search.save(Expr((rule.value,)), bindings, bindings, site)
                    continue
                result = plug(rule.value, bindings)
                answered[0] = True
                if not self.has_result and result == FALSE:
                    before = state[0]
                    if type(before) is Constant and before != result:
                        raise EvalError(CONFLICT_ERROR, _CONFLICT, rule.span)
                    state[0] = result
                    continue
                state[0] = result
                yield

    def _holding(self, rule: Rule, bindings: Bindings, output: Term | None) -> Solutions:
        """Yield for each solution of a rule's body (of an `else` branch under the condition that no
        earlier one holds); with `output` only those in which that equals the rule's value.
        """
        search, site = self.search, self.site
        for _ in search.branch(rule, bindings):
            if output is None:
                yield
            else:
                assert rule.value is not None
                yield from search.unify(output, rule.value, site.bindings, bindings, site)

    def _support(self) -> Solutions:
        """Add the function to the support, unless it is there, and save a call of it. If the
        support has it for other known documents, save a call of the original function. No solution
        if none of its rules may hold.
        """
        search = self.search
        if not search.support.is_open(self.operator.parts, known_documents(search)):
            yield from search.save_call(self.operator, self.args, self.count, self.site)
            return
        target = search.support.add_namespace(self.operator.parts)
        if not search.support.has(target):
            rules = [*self.node.branches, *([self.node.default] if self.node.default else [])]
            for rule in rules:
                self._support_rule(rule, target)
        if search.support.has(target):
            yield from search.save_call(Ref(target), self.args, self.count, self.site)

    def _support_rule(self, rule: Rule, target: tuple[Term, ...]) -> None:
        """Evaluate one rule of the function with all its parameters unknown, and add what remains,
        as rules of the function named `target`, to the support: one for each way in which the body
        may hold. The marks of the parameters are removed at the end.
        """
        search = self.search
        bindings = search.child()
        names = [name for arg in rule.args or () for name in _variables(arg)]
        for name in names:
            search.unknowns.mark(Var(name), bindings)
        try:
            with search.apart() as saved:
                for _ in (
                    search.branch(rule, bindings)
                    if rule.before
                    else search.body(rule.body, bindings, bindings.number)
                ):
                    add_function(search, target, rule, bindings, saved)
        finally:
            search.unknowns.unmark(len(names))


def _variables(term: Term) -> list[str]:
    """Return the names of the variables in a term, except `input` and `data`."""
    return [name for name in variables(term) if name not in ROOTS]
