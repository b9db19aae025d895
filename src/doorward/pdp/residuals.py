"""Residuals of queries and documents by the active snapshot, with unknown parts of input or data.

The queries come from clients: they may not call built-ins that reach the network, and end at the
deadline of a decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from doorward.pdp.build_gate import BuildGate
from doorward.pdp.snapshot import PathKey, Snapshot, document_ref
from doorward.rego import CompileError, Diagnostic, PartialOptions, Undefined, Value, to_rego
from doorward.rego.shared import COMPILE_ERROR, TYPE_ERROR, ParseError, Source
from doorward.rego.tools import Body, Call, Expr, Node, parse_query, walk

if TYPE_CHECKING:
    # Loads all of partial evaluation.
    from doorward.rego import Partial

__all__ = [
    "MAX_EXPRESSIONS",
    "MAX_SIZE",
    "MAX_TEXT",
    "UNSAFE",
    "parse_client_query",
    "residual",
    "residual_of_rows",
    "unsafe_calls",
]

UNSAFE: Final = frozenset({"http.send"})
"""Built-ins that a client's own query may not call."""
MAX_TEXT: Final = 262_144
"""The longest query of a client, in characters: parsing it takes less than a second."""
MAX_EXPRESSIONS: Final = 1_000
"""The largest number of expressions in a client's query, those of its comprehensions included: some
passes of the compiler take quadratic time.
"""
MAX_SIZE: Final = 20_000
"""The largest number of expressions that partial evaluation of one request may produce."""


def parse_client_query(text: str, *, v0: bool) -> Body:
    """Return the body of a client's query. Raise CompileError if it has more than `MAX_TEXT`
    characters or `MAX_EXPRESSIONS` expressions, or is not valid Rego.
    """
    if len(text) > MAX_TEXT:
        raise _refusal(f"the Rego query has more than {MAX_TEXT} characters")
    try:
        body = parse_query(Source("", text), v0=v0)
    except ParseError as error:
        raise CompileError(error.diagnostics) from None
    if sum([isinstance(node, Expr) for node in _nodes(body)]) > MAX_EXPRESSIONS:
        raise _refusal(f"the Rego query has more than {MAX_EXPRESSIONS} expressions")
    return body


def _refusal(message: str) -> CompileError:
    return CompileError([Diagnostic(COMPILE_ERROR, message)])


def _nodes(body: Body) -> Iterator[Node]:
    return chain.from_iterable(map(walk, body))


def unsafe_calls(body: Body) -> list[Diagnostic]:
    """Return an error for each call in a client's query of a built-in in `UNSAFE`; [] if there is
    none.
    """
    return [
        Diagnostic(
            TYPE_ERROR,
            f"unsafe built-in function calls in expression: {node.name}",
            node.span,
        )
        for node in _nodes(body)
        if isinstance(node, Call) and node.name in UNSAFE
    ]


def residual(
    snapshot: Snapshot,
    turns: BuildGate,
    query: str,
    unknowns: Iterable[str],
    input: Value | Undefined,
    *,
    disable_inlining: Sequence[str] = (),
    nondeterministic: bool = False,
    only_truth: bool = False,
    keep_else: bool = False,
) -> Partial:
    """Return the residual of `query`: what is left of it when `unknowns` are not known. Waits for a
    turn while a snapshot is built. The options are those of `PartialOptions`.

    Raise CompileError, also if the query calls a built-in that clients may not, or exceeds a limit;
    ParseError, or ValueError for malformed unknowns; EvalError or InputError if the evaluation
    fails. The prepared query is cached in the snapshot.
    """
    options = PartialOptions(
        disable_inlining=tuple(disable_inlining),
        nondeterministic=nondeterministic,
        max_size=MAX_SIZE,
        only_truth=only_truth,
        keep_else=keep_else,
    )
    key = query, tuple(unknowns), options
    prepared = snapshot.partial_queries.get(key)
    # A cached query has passed this test: its text and unknowns are part of the key.
    if prepared is None and (errors := _unsafe_calls_in(query, snapshot)):
        raise CompileError(errors)
    has_turn = turns.are_taken and turns.begin()
    try:
        if prepared is None:
            prepared = snapshot.engine.prepare_partial(*key)
            snapshot.partial_queries.keep(key, prepared)
        return prepared.evaluate(input, deadline=snapshot.deadline)
    finally:
        if has_turn:
            turns.end()


def _unsafe_calls_in(query: str, snapshot: Snapshot) -> list[Diagnostic]:
    """Return an error for each call in a client's query that it may not have; [] if there is none.
    Raise CompileError if the query is too long or not valid Rego.
    """
    return unsafe_calls(parse_client_query(query, v0=snapshot.engine.options.v0))


def residual_of_rows(
    snapshot: Snapshot, turns: BuildGate, path: PathKey, unknowns: Sequence[str], input: Value
) -> Partial:
    """Return the residual of a filter of rows: the conditions under which the document at `path` is
    true. Raise CompileError, also if a limit is exceeded, ValueError for malformed `unknowns`,
    and EvalError if the evaluation fails.

    It is cached with the snapshot; a hit does not evaluate anything.
    """
    query = document_ref(path)
    # As Rego, which tells sets from arrays and numbers from booleans, as conditions do.
    question = query, tuple(unknowns), to_rego(input), True
    left = snapshot.kept_residuals.get(question)
    if left is None:
        left = residual(snapshot, turns, query, unknowns, input, only_truth=True)
        snapshot.kept_residuals.keep(question, left)
    return left
