"""Expressions that are saved in the same form whatever is known, found once for policies and
unknowns.

    __local1__ = input.docs.level        is saved as
    lte(__local1__, 3)                   lte(input.docs.level, 3)
    not input.docs.secret = true         not input.docs.secret = true

Most of a filter is of that kind: comparisons of columns with constants. The search saves them in
one step, and the simplification that follows has nothing to do with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from doorward.base.records import record
from doorward.rego.partial.core import (
    INPUT,
    Body,
    Constant,
    Expr,
    Ref,
    Rule,
    Term,
    Var,
    changed,
    expr_terms,
    is_path,
    negated_as,
    variables,
)
from doorward.rego.partial.program import Program
from doorward.rego.partial.residual import body_to_nodes
from doorward.rego.partial.state import Saved, Unknowns
from doorward.rego.syntax import nodes

__all__ = ["Run", "Settled", "Step"]


@record
class Run:
    """Expressions that are saved one after another without a change."""

    saved: tuple[Saved, ...]


Step: TypeAlias = Expr | Run


class Settled:
    """The steps of rules for one set of unknowns, computed once for each rule; thread-safe.
    `well_typed` returns a body without expressions that its types decide, and None if the body
    never holds.
    """

    def __init__(
        self,
        program: Program,
        documents: Sequence[tuple[Term, ...]],
        well_typed: Callable[[Body], Body | None],
    ) -> None:
        self._program = program
        self._unknowns = Unknowns(documents)
        self._well_typed = well_typed
        self._steps: dict[int, tuple[Step, ...]] = {}
        self._own: dict[int, Expr] = {}  # held, so that no other expression has their ids
        self._nodes: dict[int, nodes.Expr] = {}
        self.kept: dict[int, Any] = {}
        """Results that readers of residuals cache for shared trees, by the `id` of the tree; None
        until a reader stores one.
        """

    def node(self, expr: Expr) -> nodes.Expr:
        """Return the syntax tree of an expression. For one that these steps prepared it is always
        the same object, and gets an entry in `kept` (None until a reader stores a result); for
        others a new one.
        """
        node = self._nodes.get(id(expr))
        if node is None:
            (node,) = body_to_nodes((expr,))
            if id(expr) in self._own:
                # Where another thread made one as well, its node counts: `kept` knows a node by its
                # id, which a node that nobody holds would leave to another expression.
                node = self._nodes.setdefault(id(expr), node)
                self.kept.setdefault(id(node), None)
        return node

    def steps(self, rule: Rule) -> tuple[Step, ...]:
        """Return the body of a rule in steps: runs of expressions that can be saved unchanged, and
        others.
        """
        steps = self._steps.get(id(rule))
        if steps is None:
            # Without a lock: two threads may build them at once, and `_own` holds the expressions
            # of both.
            steps = self._steps[id(rule)] = tuple(self._build_steps(rule))
        return steps

    def _build_steps(self, rule: Rule) -> Iterator[Step]:
        """Yield the steps of a rule's body: a `Run` for expressions that can be saved unchanged one
        after another, whatever is known, and each other expression itself.
        """
        run: list[Saved] = []
        for expr in self._without_names(rule):
            settled = self._settle(expr)
            if settled is not None:
                self._own[id(settled)] = settled
                run.append(Saved(settled, None, None))
                continue
            if run:
                yield Run(tuple(run))
                run = []
            yield expr
        if run:
            yield Run(tuple(run))

    def _without_names(self, rule: Rule) -> Body:
        """Return the rule's body with variables that only name an unknown reference (`x = input.a`,
        used once behind it) replaced by that reference in calls, and without their equations. A
        call is rewritten only if it can then be saved unchanged, or compares the reference with
        known input; others, and the body if there is no such variable, stay as they are.
        """
        uses = Counter(_variables_of(rule))
        named: dict[str, int] = {}
        for index, expr in enumerate(rule.body):
            name = self._names(expr)
            # Twice: in its equation, and where it is used.
            if name is not None and uses[name] == 2:
                named[name] = index
        if not named:
            return rule.body
        body: list[Expr | None] = list(rule.body)
        for index, expr in enumerate(rule.body):
            used = [arg.name for arg in expr.args if type(arg) is Var and arg.name in named]
            # A name before its equation, or under `with`, is left as it is.
            if not used or expr.operator is None or expr.is_equation or expr.withs:
                continue
            if any(named[name] >= index for name in used):
                continue
            args = [self._operand(arg, rule.body, named) for arg in expr.args]
            rewritten = changed(expr, tuple(args), expr.withs, expr.every)
            if self._settle(rewritten) is not None or self._is_comparison(rewritten, rule.body):
                body[index] = rewritten
                for name in used:
                    body[named[name]] = None
        return tuple([expr for expr in body if expr is not None])

    def _is_comparison(self, expr: Expr, body: Body) -> bool:
        """Return True if `expr`, without `not`, calls a built-in of two declared operands with an
        unknown reference and a variable that `body` equates with a known part of the input.
        """
        operator = expr.operator
        if expr.negated or type(operator) is not str or len(expr.args) != 2:
            return False
        if self._program.arity(operator) != 2:
            return False
        left, right = expr.args
        for one, other in ((left, right), (right, left)):
            if self._is_unknown(one) and type(other) is Var:
                return any(self._is_known_input(other, each) for each in body)
        return False

    def _is_known_input(self, var: Var, expr: Expr) -> bool:
        """Return True if an expression equates the variable with a part of the input that contains
        nothing unknown.
        """
        if not expr.is_equation or expr.negated or expr.withs or var not in expr.args:
            return False
        left, right = expr.args
        value = right if left == var else left
        if type(value) is not Ref or not is_path(value) or value.parts[0] != INPUT:
            return False
        return not self._unknowns.reaches(value.parts, None)

    def _names(self, expr: Expr) -> str | None:
        """Return the variable that an equation makes equal to an unknown reference; None for other
        expressions, and for an equation with `not` or `with`.
        """
        if not expr.is_equation or expr.negated or expr.withs:
            return None
        left, right = expr.args
        for var, value in ((left, right), (right, left)):
            if type(var) is Var and self._is_unknown(value):
                return var.name
        return None

    @staticmethod
    def _operand(arg: Term, body: Body, named: dict[str, int]) -> Term:
        """Return the reference that a named operand stands for, or the operand itself."""
        if type(arg) is not Var or arg.name not in named:
            return arg
        left, right = body[named[arg.name]].args
        return right if left == arg else left

    # Single expressions

    def _settle(self, expr: Expr) -> Expr | None:
        """Return the expression that the search would save for `expr`, whatever is known; None for
        an `every`, for an expression with `with`, and if that depends on known values or on types.
        """
        if expr.withs or expr.every is not None or not self._is_settled(expr):
            return None
        plain = Expr(expr.args, expr.operator, expr.negated, span=expr.span, location=expr.location)
        positive = negated_as(plain, negated=False, withs=())
        if plain.negated and self._well_typed((positive,)) is None:
            return None
        return plain

    def _is_settled(self, expr: Expr) -> bool:
        """Return True if the search saves `expr` in the same form whatever the known values are: a
        reference to an unknown document alone, an equation of an unknown reference with a constant
        or with another such reference, or a call of a built-in whose operands are constants and at
        least one unknown reference, without an output. The caller excludes `with` and `every`.
        """
        args, operator = expr.args, expr.operator
        if operator is None:
            return self._is_unknown(args[0])
        if expr.is_equation:
            left, right = args
            if type(left) is Constant or type(right) is Constant:
                return self._is_unknown(left) or self._is_unknown(right)
            return self._is_unknown(left) and self._is_unknown(right) and left != right
        if type(operator) is not str or self._program.arity(operator) != len(args):
            return False
        return any(map(self._is_unknown, args)) and all(
            type(arg) is Constant or self._is_unknown(arg) for arg in args
        )

    def _is_unknown(self, term: Term) -> bool:
        return type(term) is Ref and is_path(term) and self._unknowns.reaches(term.parts, None)


def _variables_of(rule: Rule) -> Iterator[str]:
    """Yield the names of the variables in the head and body of one branch of a rule, once for each
    occurrence, those in comprehensions included.
    """
    heads = [*rule.path, *(rule.args or ())]
    heads += [term for term in (rule.key, rule.value) if term is not None]
    for term in heads:
        yield from variables(term)
    for expr in rule.body:
        for term in expr_terms(expr):
            yield from variables(term)
