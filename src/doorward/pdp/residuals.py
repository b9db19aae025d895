"""What is left of a query or a document by the active snapshot, when a part is not known.

The queries are a client's: they may not reach the network, and end at the deadline of a decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from doorward.pdp.snapshot import PathKey, Snapshot, document_ref
from doorward.pdp.turns import Turns
from doorward.rego import (
    TYPE_ERROR,
    CompileError,
    Diagnostic,
    ParseError,
    Source,
    Undefined,
    Value,
    to_json,
)
from doorward.rego.tools import Body, Call, parse_query, walk

if TYPE_CHECKING:
    # Loads all of partial evaluation.
    from doorward.rego import Partial

__all__ = ["MAX_SIZE", "UNSAFE", "residual", "residual_of_rows", "unsafe_calls"]

UNSAFE: Final = frozenset({"http.send"})
"""Built-ins that a client's own query may not call."""
MAX_SIZE: Final = 20_000
"""Expressions that one request makes at most."""


def unsafe_calls(body: Body) -> list[Diagnostic]:
    """What is wrong with a client's query: it calls what it may not."""
    return [
        Diagnostic(
            TYPE_ERROR,
            f"unsafe built-in function calls in expression: {node.name}",
            node.span,
        )
        for node in chain.from_iterable(map(walk, body))
        if isinstance(node, Call) and node.name in UNSAFE
    ]


def residual(
    snapshot: Snapshot,
    turns: Turns,
    query: str,
    unknowns: Iterable[str],
    input: Value | Undefined,
    *,
    disable_inlining: Sequence[str] = (),
    nondeterministic: bool = False,
    only_truth: bool = False,
) -> Partial:
    """What is left of `query`; the errors of `Engine.partial`, and CompileError for a query that
    calls what clients may not.
    """
    engine = snapshot.engine
    try:
        errors = unsafe_calls(parse_query(Source("", query), v0=engine.options.v0))
    except ParseError as error:
        raise CompileError(error.diagnostics) from None
    if errors:
        raise CompileError(errors)
    has_turn = turns.are_taken and turns.begin()
    try:
        return engine.partial(
            query,
            unknowns,
            input,
            disable_inlining=disable_inlining,
            nondeterministic=nondeterministic,
            deadline=snapshot.deadline,
            max_size=MAX_SIZE,
            only_truth=only_truth,
        )
    finally:
        if has_turn:
            turns.end()


def residual_of_rows(
    snapshot: Snapshot, turns: Turns, path: PathKey, unknowns: Sequence[str], input: Value
) -> Partial:
    """What is left of whether the document at `path` is true, for a filter of rows.

    As long as the snapshot is active, the same question is answered from memory.
    """
    query = document_ref(path)
    question = query, tuple(unknowns), to_json(input), True
    left = snapshot.kept_residuals.get(question)
    if left is None:
        left = residual(snapshot, turns, query, unknowns, input, only_truth=True)
        snapshot.kept_residuals.keep(question, left)
    return left
