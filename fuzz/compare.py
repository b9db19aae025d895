"""A program put to the engine, the oracle and perhaps to OPA: where their answers differ.

An outcome is a pair: `value` and the value as Rego text, `undefined` and nothing, `error` and its
code, `refused` and the code, or `crash` and the class of a Python exception, which is never right.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tests.oracle.asking import Oracle, OutOfScopeError

from doorward.pdp.solutions import solutions_of
from doorward.rego import UNDEFINED, CompileError, Engine, EvalError, RegoError, to_rego
from doorward.rego.errors import (
    CANCEL_ERROR,
    INTERNAL_ERROR,
    RECURSION_ERROR,
    UNSAFE_VAR_ERROR,
    InternalError,
)
from doorward.rego.queries import Query
from doorward.rego.source import Source
from doorward.rego.syntax.nodes import (
    ArrayComprehension,
    Call,
    Every,
    Expr,
    Object,
    ObjectComprehension,
    Ref,
    Rule,
    Scalar,
    SetComprehension,
    TemplateString,
    Var,
    With,
)
from doorward.rego.syntax.parser import parse_module, parse_query
from doorward.rego.syntax.walk import Node, children, walk
from fuzz.opa import LOST_TYPE, Peer, as_json, canonical
from fuzz.pools import MISSING, Program

__all__ = [
    "DEADLINE",
    "Difference",
    "Outcome",
    "RefusedError",
    "compare",
    "contradicts",
    "engine_outcome",
    "values_of",
]

Outcome = tuple[str, str]
DEADLINE: Final = 5.0
STEPS: Final = 20_000
"""Expressions that the oracle evaluates before it gives up."""
REPEATS: Final = 8
"""How often a peer that compiles otherwise is asked again: OPA checks types in random order."""
_UNCHECKED_OPERAND: Final = "an operand in a collection that only newer releases check"
_ROOTS: Final = frozenset({"data", "input"})
_COMPREHENSIONS: Final = (ArrayComprehension, SetComprehension, ObjectComprehension)
_LIMITS: Final = frozenset({CANCEL_ERROR, INTERNAL_ERROR})
"""Errors of the engine that are limits of its own."""
_COMPILING: Final = frozenset(
    {"rego_type_error", "rego_unsafe_var_error", "rego_recursion_error", "rego_compile_error"}
)
_SHARED: Final = frozenset({UNSAFE_VAR_ERROR, RECURSION_ERROR})
"""Errors of compiling that the oracle finds as well."""


class RefusedError(Exception):
    """There is nothing to compare: the program is refused, as it should be, or takes too long."""


@dataclass(frozen=True)
class Difference:
    """What the engine says to a query, and what the other one says."""

    kind: str
    """What stays the same while the program is made smaller."""
    got: str
    want: str
    query: str = ""
    number: int = -1
    """Which input; -1 if none was looked at."""

    def __str__(self) -> str:
        context = f"{self.query}, input {self.number}" if self.query else "compiling"
        return f"{context}: {self.kind}\n  got  {self.got}\n  want {self.want}"


def compare(program: Program, peer: Peer | None = None) -> Difference | None:
    """The first difference; RefusedError if nothing can be compared."""
    engine = _engine(program)
    oracle = _oracle(program)
    if peer is not None:
        difference = _compare_acceptance(program, engine, peer)
        if difference is not None:
            return difference
    if isinstance(engine, tuple):
        if engine[0] == "crash":
            return Difference(f"crash {engine[1]}", engine[1], "no crash")
        if engine[1] in _SHARED and isinstance(oracle, Oracle):
            return Difference(f"refused {engine[1]}", engine[1], "accepted")
        raise RefusedError(engine[1])
    if isinstance(oracle, tuple):
        return Difference(f"accepted {oracle[1]}", "accepted", oracle[1])
    for query in program.queries:
        difference = _compare_query(program, engine, oracle, query)
        if difference is None and peer is not None:
            difference = _compare_with_peer(program, engine, oracle, query, peer)
        if difference is not None:
            return difference
    return None


def _compare_acceptance(
    program: Program, engine: Engine | Outcome, peer: Peer
) -> Difference | None:
    """Whether one takes what the other refuses; of the errors the first codes must be equal."""
    code = peer.accepts(program)
    if code == "rego_parse_error":
        raise RefusedError("a newer language than the peer's")
    if code == LOST_TYPE:
        raise RefusedError("a type that the peer loses")
    ours = engine[1] if isinstance(engine, tuple) and engine[0] == "refused" else ""
    if isinstance(engine, tuple) and engine[0] == "crash":
        return None
    if ours == code:
        return None
    if any(peer.accepts(program) != code for _ in range(REPEATS)):
        raise RefusedError("the peer contradicts itself")
    if contradicts(program) or (code == UNSAFE_VAR_ERROR and _has_every(program)):
        raise RefusedError("a program to which the peer contradicts itself")
    if _says(program, "used as reference"):
        raise RefusedError("a function that only newer releases miss the call of")
    if not code and _says(program, "invalid argument(s)"):
        raise RefusedError(_UNCHECKED_OPERAND)
    return Difference(f"compiling: {ours or 'accepted'} for {code or 'accepted'}", ours, code)


def _says(program: Program, text: str, query: str = "") -> bool:
    """Whether the engine refuses the program, or `query` of it, with an error that says `text`."""
    try:
        engine = Engine(program.modules, program.data, v0=program.v0)
        if query:
            engine.prepare(query)
    except CompileError as error:
        return any(text in each.message for each in error.diagnostics)
    return False


def contradicts(program: Program) -> bool:
    """Whether OPA has two answers to what `program` says.

    Where a comprehension reads a variable of the body around it, OPA may miss that it is unsafe,
    or that the whole expression is undefined; of `{lower("B"): 1, "b": x} = …` it binds nothing;
    a rule that stands in for a function counts as true if it is undefined; what a `with` puts down
    is looked at in a comprehension of a rule, and not in one of a query. Renamed, written out or
    named by a variable first, each has another answer: there is none to compare with.
    """
    return any(
        _shares_variables(node) or _has_computed_keys(node) or _names_rule(node)
        for node in _nodes(program)
    ) or _replaces_inside(program)


def _has_every(program: Program) -> bool:
    """OPA refuses `every y in ys { x; y }; count(ys, x)`, and takes it with `x = count(ys)`."""
    return any(isinstance(node, Every) for node in _nodes(program))


def _nodes(program: Program) -> Iterator[Node]:
    for name, text in program.modules.items():
        yield from walk(parse_module(Source(name, text), v0=program.v0))
    for query in program.queries:
        for expr in parse_query(Source("", query), v0=program.v0):
            yield from walk(expr)


def _shares_variables(node: Node) -> bool:
    names = {part.name for part in _outside(node) if isinstance(part, Var)} - _ROOTS
    return any(
        names & {part.name for part in walk(inner) if isinstance(part, Var)}
        for inner in _outside(node)
        if isinstance(inner, _COMPREHENSIONS)
    )


def _has_computed_keys(node: Node) -> bool:
    return isinstance(node, Object) and any(isinstance(key, Call) for key, _ in node.items)


def _names_rule(node: Node) -> bool:
    if not isinstance(node, With) or isinstance(node.value, Scalar):
        return False
    head = node.target.head if isinstance(node.target, Ref) else node.target
    is_input = isinstance(head, Var) and head.name == "input"
    return not is_input and isinstance(node.value, (Ref, Var))


def _replaces_inside(program: Program) -> bool:
    """Whether a `with` stands in a comprehension of a query."""
    return any(
        isinstance(node, With)
        for query in program.queries
        for expr in parse_query(Source("", query), v0=program.v0)
        for closure in walk(expr)
        if isinstance(closure, _COMPREHENSIONS)
        for node in walk(closure)
    )


def _fills_in_variable(node: Node) -> bool:
    """Whether releases before 1.18 take the variable in a template string for one of any type."""
    return isinstance(node, TemplateString) and any(
        isinstance(part, Expr) and isinstance(part.term, Var) for part in node.parts
    )


def _outside(node: Node) -> Iterator[Node]:
    """What is in a rule or comprehension, but for the comprehensions in it."""
    if isinstance(node, (Rule, Expr, *_COMPREHENSIONS)):
        waiting = list(children(node))
        while waiting:
            part = waiting.pop()
            yield part
            if not isinstance(part, _COMPREHENSIONS):
                waiting += children(part)


def _compare_with_peer(
    program: Program, engine: Engine, oracle: Oracle, query: str, peer: Peer
) -> Difference | None:
    for number, value in enumerate(program.inputs):
        input_ = UNDEFINED if value is MISSING else value
        want = peer.outcome(program, query, value)
        got = _json_outcome(engine, query, input_, strict=program.strict)
        if want is None or got is None or got == want:
            continue
        if _once(got) == _once(want):
            # OPA walks a key of a package twice that data and rules both have, and a set with a
            # call in it in the order of what it has for the call.
            continue
        kinds = got[0], want[0]
        if kinds == ("error", "error"):
            continue
        if "error" in kinds:
            # Newer releases leave out more rules for their index: the oracle knows which.
            newest = oracle_outcome(oracle, query, input_, strict=program.strict)
            if (newest[0] == "error") == (got[0] == "error"):
                continue
        elif contradicts(program):
            raise RefusedError("a program to which the peer contradicts itself")
        if want[1] in _COMPILING or got[1] in _COMPILING:
            if _replaces_inside(program):
                raise RefusedError("a program to which the peer contradicts itself")
            if any(map(_fills_in_variable, _nodes(program))):
                raise RefusedError("a type that the peer loses")
            if _says(program, "invalid argument(s)", query):
                raise RefusedError(_UNCHECKED_OPERAND)
            return Difference(f"query: {got[1]} for {want[1]}", got[1], want[1], query, number)
        return Difference(f"OPA: {got[0]} for {want[0]}", got[1], want[1], query, number)
    return None


def _once(outcome: Outcome) -> Any:
    """An outcome with each row once, whatever their order."""
    if outcome[0] != "value":
        return outcome
    rows = json.loads(outcome[1])
    return sorted({canonical(row) for row in rows})


def _json_outcome(engine: Engine, query: str, input_: Any, *, strict: bool) -> Outcome | None:
    try:
        prepared = engine.prepare(query, strict_builtin_errors=strict, deadline=DEADLINE)
        if prepared.variables:
            rows = prepared.results(input_)
        else:
            rows = [{"": value} for value in values_of(prepared, input_)]
    except EvalError as error:
        return None if error.code in _LIMITS else ("error", error.code)
    except CompileError as error:
        return "error", error.diagnostics[0].code
    return "value", canonical([{name: as_json(v) for name, v in row.items()} for row in rows])


def _engine(program: Program) -> Engine | Outcome:
    try:
        return Engine(program.modules, program.data, v0=program.v0)
    except CompileError as error:
        return "refused", error.diagnostics[0].code
    except Exception as error:
        return "crash", type(error).__name__


def _oracle(program: Program) -> Oracle | Outcome:
    try:
        return Oracle(program.modules, program.data, v0=program.v0)
    except RegoError as error:
        return "refused", error.diagnostics[0].code
    except (OutOfScopeError, LookupError) as error:
        raise RefusedError("out of scope") from error


def _compare_query(
    program: Program, engine: Engine, oracle: Oracle, query: str
) -> Difference | None:
    for number, value in enumerate(program.inputs):
        input_ = UNDEFINED if value is MISSING else value
        got = engine_outcome(engine, query, input_, strict=program.strict)
        if got[0] == "error" and got[1] in _LIMITS:
            continue
        try:
            want = oracle_outcome(oracle, query, input_, strict=program.strict)
        except (OutOfScopeError, LookupError, RecursionError):
            continue
        kind = _difference(got, want)
        if kind:
            return Difference(kind, " ".join(got), " ".join(want), query, number)
    return None


def _difference(got: Outcome, want: Outcome) -> str:
    """What differs; "" if nothing does, or nothing that the oracle knows."""
    if got == want or (got[0] == "error" and want[0] == "error"):
        return ""
    if got[0] == "crash":
        return f"crash {got[1]}"
    if got[0] == "refused":
        return f"refused {got[1]}" if got[1] in _SHARED and want[0] != "refused" else ""
    if want[0] == "refused":
        return f"accepted {want[1]}"
    if "error" in (got[0], want[0]):
        return f"{got[0]} for {want[0]}"
    return "result"


def engine_outcome(engine: Engine, query: str, input_: Any, *, strict: bool = False) -> Outcome:
    """What the engine says."""
    try:
        prepared = engine.prepare(query, strict_builtin_errors=strict, deadline=DEADLINE)
        if prepared.variables:
            count = len(prepared.variables)
            answers = [
                dict(zip(prepared.variables, row[:count], strict=True))
                for row in prepared.rows(input_)
                if all(value is not False for value in row[count:])
            ]
            return _rows(answers)
        values = values_of(prepared, input_)
    except InternalError as error:
        return "crash", str(error)
    except EvalError as error:
        return "error", error.code
    except CompileError as error:
        return "refused", error.diagnostics[0].code
    except Exception as error:
        return "crash", type(error).__name__
    return ("value", to_rego(values)) if values else ("undefined", "")


def values_of(prepared: Query, input_: Any) -> list[Any]:
    """What the last expression of a query without variables says, in each of its solutions."""
    solutions = solutions_of(prepared, prepared.rows(input_))
    return [solution.expressions[-1][1] for solution in solutions if solution.expressions]


def oracle_outcome(oracle: Oracle, query: str, input_: Any, *, strict: bool = False) -> Outcome:
    """What the oracle says; OutOfScopeError if that would take too long."""
    try:
        answers = oracle.answers(query, input_, strict=strict, steps=STEPS)
    except EvalError as error:
        return "error", error.code
    except CompileError as error:
        return "refused", error.diagnostics[0].code
    if not answers:
        return "undefined", ""
    if "" in answers[0]:
        return "value", to_rego([answer[""] for answer in answers])
    return _rows(answers)


def _rows(rows: list[dict[str, Any]]) -> Outcome:
    if not rows:
        return "undefined", ""
    return "value", "; ".join(
        ", ".join(f"{name} = {to_rego(value)}" for name, value in sorted(row.items()))
        for row in rows
    )
