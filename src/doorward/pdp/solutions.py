"""The solutions of a query as OPA counts them: which rows of an evaluation are solutions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from doorward.base.records import record
from doorward.rego import Query, Value
from doorward.rego.tools import (
    ArrayComprehension,
    Call,
    Expr,
    ObjectComprehension,
    Ref,
    SetComprehension,
    SomeDecl,
    Var,
    children,
    count_step,
)

__all__ = ["Solution", "solutions_of"]


@record
class Solution:
    """One solution of a query: the value of each expression in written order, and of each named
    variable.
    """

    expressions: tuple[tuple[Expr, Value], ...]
    bindings: dict[str, Value]


def solutions_of(query: Query, rows: Iterable[tuple[Value, ...]]) -> Iterator[Solution]:
    """Yield the solutions of `query` among `rows`, with its expressions in written order.

    A false value is a result only if the query is one expression that does not iterate; otherwise
    its row is skipped. Must run `within` the deadline of the evaluation, and counts a step for each
    row.
    """
    count = len(query.variables)
    body = query.body
    order = sorted(
        [n for n, expr in enumerate(body) if not isinstance(expr.term, SomeDecl)],
        # The compiler has put the expressions into an order of its own.
        key=lambda n: body[n].span.start,
    )
    needs_true = len(body) > 1 or _iterates(query.source)
    for row in rows:
        count_step()
        values = [row[count + n] for n in order]
        if needs_true and any(value is False for value in values):
            continue
        named = zip(query.variables, row[:count], strict=True)
        expressions = zip([body[n] for n in order], values, strict=True)
        yield Solution(tuple(expressions), dict(named))


def _iterates(node: object) -> bool:
    """Return True if a reference in the node contains a variable, or `walk` is called;
    comprehensions do not count.
    """
    if isinstance(node, tuple):
        return any(map(_iterates, node))
    if isinstance(node, (ArrayComprehension, SetComprehension, ObjectComprehension)):
        return False
    if isinstance(node, Ref) and any(isinstance(arg, Var) for arg in node.args):
        return True
    if isinstance(node, Call) and node.name == "walk":
        return True
    return any(map(_iterates, children(node)))  # type: ignore[arg-type]  # any node has children
