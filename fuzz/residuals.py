"""Random programs whose residual or filter decides otherwise than the policy.

    python fuzz/residuals.py [--seconds 60 | --programs N] [--seed 1] [--keep FOLDER] [--opa 0.05]

Each program of `fuzz/unknowns.py` is evaluated partially, in each mode, and the residual with the
complete input must answer as the engine does. Where the residual of a program for rows becomes a
filter, SQLite must select with it the rows that are allowed one by one, by their related rows
as well. A part of the programs is
put to OPA 1.20.2 as well. Prints every difference, made as small as it can be; the exit code is 1
if there was one.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from doorward.filters import PYTHON, FilterError, Relation, target_of, to_conditions, to_sql
from doorward.rego import (
    UNDEFINED,
    CompileError,
    Engine,
    EvalError,
    Partial,
    RegoError,
    from_python,
)
from doorward.rego.queries import Query
from doorward.verdicts import is_allowed
from fuzz.campaign import campaign, finished
from fuzz.compare import Difference, RefusedError
from fuzz.opa import as_json, canonical
from fuzz.opa_engine import OpaEngine, library
from fuzz.pools import Program
from fuzz.unknowns import CELLS, FIELDS, QUERY, Question, generate

__all__ = ["compare", "counts"]

DEADLINE: Final = 5.0
_CONFLICT: Final = "eval_conflict_error"
_COLUMNS: Final[dict[str, Any]] = {
    "u": {"i": "number", "a": "number", "b": "text", "c": "boolean", "fi": "number"},
    "fs": {"i": "number", "l": "number", "s": "text"},
    "cs": {"i": "number", "n": "number", "t": "text", "ok": "boolean", "ui": "number"},
    "ms": {"k": "text", "j": "number", "ci": "number"},
}
_RELATIONS: Final = {
    "u": {
        "cs": Relation("cs", {"ui": "i"}),
        "f": Relation("fs", {"i": "fi"}, many=False),
    },
    "cs": {"ms": Relation("ms", {"ci": "i"})},
}
counts: Counter[str] = Counter()
"""How many residuals and filters were compared, and how many were refused."""


def compare(question: Program, opa: OpaEngine | None = None) -> Difference | None:
    """The first difference; RefusedError if nothing can be compared."""
    assert isinstance(question, Question)
    difference = _difference(question, opa)
    if difference is None:
        return None
    options = "".join([f" {name}={value}" for name, value in question.options.items()])
    return replace(difference, query=f"unknown {', '.join(question.unknowns)}{options}")


def _difference(question: Question, opa: OpaEngine | None) -> Difference | None:
    try:
        engine = Engine(question.modules, from_python(question.data))
        engine.check_data()
    except RegoError as error:
        raise RefusedError(error.diagnostics[0].code) from None
    if not question.inputs or (question.is_rows and not all(map(_is_row, question.inputs))):
        raise RefusedError("no input")
    cases = list(_cases(question))
    try:
        queries: dict[int, Query] = {}
        for base, _ in cases:
            if id(base) not in queries:
                bound = engine.with_data(from_python(base))
                queries[id(base)] = bound.prepare(QUERY, deadline=DEADLINE)
        answers = [_answer(queries[id(base)], given) for base, given in cases]
    except CompileError:
        raise RefusedError("no query") from None
    crash = next((value for code, value in answers if str(value).startswith("crash")), None)
    if crash is not None:
        return Difference(f"engine: {crash}", crash, "a decision")
    if all(code == "error" for code, _ in answers):
        raise RefusedError("errors alone")
    counts["decisions that differ"] += len({str(each) for each in answers}) > 1
    for mode in ("value", "holds", "truth"):
        difference = _residual(question, engine, mode, cases, answers)
        if difference is not None:
            return difference
    if question.is_rows:
        for kind in ("python", "flat"):
            difference = _filter(question, engine, kind, cases, answers)
            if difference is not None:
                return difference
    return None if opa is None or not question.asks_opa else _peer(question, opa, cases, answers)


def _is_row(given: Any) -> bool:
    """Whether an input has the columns of a row, of the right types, and related rows or none."""
    try:
        row = given["u"]
        return _has_columns(row, "abc") and (
            row.keys() == set("abc")
            or (
                row.keys() == {*"abc", "f", "cs"}
                and (row["f"] is None or _has_columns(row["f"], FIELDS["f"]))
                and all(_has_columns(each, FIELDS["c"]) for each in row["cs"])
                and all(_has_columns(m, FIELDS["m"]) for each in row["cs"] for m in each["ms"])
            )
        )
    except (KeyError, TypeError, AttributeError):
        return False


def _has_columns(row: Any, names: Sequence[str]) -> bool:
    return all(type(row[name]) in {type(cell) for cell in CELLS[name]} for name in names)


def _seen(row: Any, nulls: str) -> Any:
    """A row as a policy sees it that has no null."""
    if isinstance(row, dict) and nulls == "undefined":
        return {name: _seen(each, nulls) for name, each in row.items() if each is not None}
    return [_seen(each, nulls) for each in row] if isinstance(row, list) else row


def _cases(question: Question) -> Iterator[tuple[Any, Any]]:
    """Data and input for each of the inputs: where nothing is unknown they are the first one's."""
    first = question.inputs[0]
    for given in question.inputs:
        base, input_ = question.data, first
        for path in question.unknowns:
            root, *names = path.split(".")
            if root == "data":
                value = _at(given, names)
                base = base if value is UNDEFINED else _put(base, names, value)
            else:
                input_ = _put(input_, names, _seen(_at(given, names), question.nulls))
        yield base, input_


def _at(document: Any, names: list[str]) -> Any:
    for name in names:
        if not isinstance(document, dict) or name not in document:
            return UNDEFINED
        document = document[name]
    return document


def _put(document: Any, names: list[str], value: Any) -> Any:
    if not names:
        return value
    members = dict(document) if isinstance(document, dict) else {}
    if len(names) == 1 and value is UNDEFINED:
        members.pop(names[0], None)
        return members
    return members | {names[0]: _put(members.get(names[0]), names[1:], value)}


def _answer(query: Query, given: Any) -> tuple[str, Any]:
    """`value` and the value, `undefined`, or `error` and its code."""
    try:
        value = query.value(from_python(given))
    except EvalError as error:
        return "error", error.code
    except Exception as error:
        return "error", f"crash {type(error).__name__}"
    return ("undefined", None) if value is UNDEFINED else ("value", value)


# Residuals


def _residual(
    question: Question, engine: Engine, mode: str, cases: list[Any], answers: list[Any]
) -> Difference | None:
    text = f"{QUERY} = x" if mode == "value" else QUERY
    options: dict[str, Any] = {"only_truth": mode == "truth", **question.options}
    try:
        left = engine.partial(
            text, question.unknowns, from_python(_known(question)), deadline=DEADLINE, **options
        )
    except EvalError as error:
        counts[f"{mode}: {error.code}"] += 1
        return None
    except Exception as error:
        return Difference(f"{mode}: crash {type(error).__name__}", repr(error), "a residual")
    counts[mode] += 1
    support = {f"support{n}.rego": each for n, each in enumerate(left.support_texts)}
    try:
        both = engine.with_modules({**question.modules, **support}) if support else engine
    except CompileError as error:
        if "rego_type_error" in [each.code for each in error.diagnostics]:
            counts[f"{mode}: support with type errors"] += 1
            return None
        return Difference(f"{mode}: support {error.diagnostics[0].code}", str(error), "a support")
    prepared = _Residual(both, left, mode)
    residual = " | ".join(left.query_texts) + "\n".join(left.support_texts)
    for number, ((base, given), (kind, value)) in enumerate(zip(cases, answers, strict=True)):
        if kind == "error" and (mode != "truth" or left.conflicts or left.definitions):
            continue  # a reader of the definitions looks for conflicts
        wanted = {canonical(as_json(value))} if kind == "value" else set()
        if mode != "value":
            wanted = {"true"} if kind == "value" and value is not False else set()
        try:
            got = prepared.solutions(base, given)
        except _Untyped:
            counts[f"{mode}: negated type error"] += 1
            return None
        except EvalError as error:
            if error.code == _CONFLICT:
                counts[f"{mode}: conflict in a residual"] += 1
                continue
            return Difference(f"{mode}: {error.code}", residual, str(wanted), number=number)
        except CompileError as error:
            return Difference(f"{mode}: {error.diagnostics[0].code}", residual, str(error))
        if kind == "error":
            if got and value == _CONFLICT:
                return Difference(f"{mode}: wide, no conflict", residual, "an error", number=number)
            continue
        if got != wanted:
            word = "wide" if got - wanted else "narrow"
            return Difference(f"{mode}: {word}", f"{got} by {residual}", str(wanted), number=number)
    return None


def _known(question: Question) -> Any:
    known = question.inputs[0]
    for path in question.unknowns:
        root, *names = path.split(".")
        if root == "input":
            known = _put(known, names, UNDEFINED) if names else {}
    return known


class _Untyped(Exception):
    """An expression inside of `not`, `every` or a comprehension of a residual has a type error: the
    one around it may hold, and cannot be evaluated.
    """


class _Residual:
    """The queries of a residual, prepared once for each data."""

    def __init__(self, engine: Engine, left: Partial, mode: str) -> None:
        self._engine = engine
        self._left = left
        self._mode = mode
        self._prepared: dict[int, tuple[Any, list[Query]]] = {}

    def solutions(self, base: Any, given: Any) -> set[str]:
        """The values of `x` or, in other modes, "true" if a query holds."""
        if id(base) not in self._prepared:
            self._prepared[id(base)] = base, list(self._queries(base))
        solutions: set[str] = set()
        if self._mode != "value" and "" in self._left.query_texts:
            return {"true"}
        for query in self._prepared[id(base)][1]:
            for row in query.results(from_python(given)):
                solutions.add(canonical(as_json(row["x"])) if self._mode == "value" else "true")
        return solutions

    def _queries(self, base: Any) -> Iterator[Query]:
        bound = self._engine.with_data(from_python(base))
        for text in filter(None, self._left.query_texts):
            try:
                yield bound.prepare(text, deadline=DEADLINE)
            except CompileError as error:
                if "rego_type_error" not in [each.code for each in error.diagnostics]:
                    raise
                if any(word in text for word in ("not ", " | ", "every ")):
                    raise _Untyped from None


# Filters


def _filter(
    question: Question, engine: Engine, kind: str, cases: list[Any], answers: list[Any]
) -> Difference | None:
    options = {name: each for name, each in question.options.items() if name == "disable_inlining"}
    try:
        left = engine.partial(
            QUERY, question.unknowns, from_python(_known(question)), only_truth=True,
            keep_else=kind == "flat", deadline=DEADLINE, **options,
        )  # fmt: skip
        target = PYTHON if kind == "python" else target_of("sql", "sqlite")
        conditions = to_conditions(left, [target])
        clause = to_sql(
            conditions,
            _COLUMNS,
            "sqlite",
            relations=_RELATIONS,
            nulls=question.nulls,
        )
    except (FilterError, EvalError):
        counts[f"filter {kind}: refused"] += 1
        return None
    except Exception as error:
        return Difference(f"filter: crash {type(error).__name__}", repr(error), "a filter")
    counts[f"filter {kind}"] += 1
    counts[f"filter {kind}, neither all nor nothing"] += bool(conditions) and all(conditions)
    counts[f"filter {kind}, with related rows"] += "EXISTS" in clause.text
    selected = _selected(clause, [given["u"] for given in question.inputs])
    allowed = {
        n for n, (kind, value) in enumerate(answers) if kind == "value" and is_allowed(value)
    }
    if selected != allowed:
        word = "wide" if selected - allowed else "narrow"
        number = min(selected ^ allowed)
        return Difference(
            f"filter {kind}: {word}", f"{clause.text} {clause.parameters}", str(answers[number]),
            number=number,
        )  # fmt: skip
    return None


def _selected(clause: Any, rows: list[Any]) -> set[int]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(
            """create table u (i integer, a numeric, b text, c boolean, fi integer);
            create table fs (i integer, l numeric, s text);
            create table cs (i integer, n numeric, t text, ok boolean, ui integer);
            create table ms (k text, j numeric, ci integer);"""
        )
        for number, row in enumerate(rows):
            folder = row.get("f")
            if folder is not None:
                _insert(connection, "fs", [number, *[folder[name] for name in FIELDS["f"]]])
            cells = [row[name] for name in "abc"]
            _insert(connection, "u", [number, *cells, None if folder is None else number])
            for position, each in enumerate(row.get("cs", ())):
                comment = number * 100 + position
                cells = [each[name] for name in FIELDS["c"]]
                _insert(connection, "cs", [comment, *cells, number])
                for mark in each["ms"]:
                    _insert(connection, "ms", [*[mark[name] for name in FIELDS["m"]], comment])
        cursor = connection.execute(f"select i from u where {clause.text}", clause.parameters)
        return {number for (number,) in cursor.fetchall()}


def _insert(connection: sqlite3.Connection, table: str, values: list[Any]) -> None:
    connection.execute(f"insert into {table} values ({', '.join('?' * len(values))})", values)


# OPA


def _peer(
    question: Question, opa: OpaEngine, cases: list[Any], answers: list[Any]
) -> Difference | None:
    pairs = list(zip(cases, answers, strict=True))[:3]
    for number, ((base, given), (kind, value)) in enumerate(pairs):
        case = {"modules": question.modules, "data": base, "query": QUERY, "input": given}
        answer = opa.ask(case)
        if answer is None or kind == "error" or "error" in answer:
            counts["opa: an error"] += 1
            continue
        rows = answer["result"] or []
        got = [canonical(row["expressions"][-1]["value"]) for row in rows]
        wanted = [canonical(as_json(value))] if kind == "value" else []
        counts["opa"] += 1
        if got != wanted:
            return Difference("opa", str(wanted), str(got), number=number)
    return None


def main() -> int:
    """What the command does."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, help="of processor time")
    parser.add_argument("--programs", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=20, help="differences after which to stop")
    parser.add_argument("--keep", type=Path, help="a folder for the differences, a file each")
    parser.add_argument("--opa", type=float, default=0.0, help="the part that OPA is asked, 0 to 1")
    options = parser.parse_args()
    if options.seconds is None and options.programs is None:
        options.seconds = 60.0
    opa = OpaEngine(library()) if options.opa else None
    chance = Random(options.seed)
    try:
        report = campaign(
            options.seed,
            programs=options.programs,
            seconds=options.seconds,
            most=options.most,
            compare=lambda question: compare(question, opa),
            generate=lambda seed: replace(generate(seed), asks_opa=chance.random() < options.opa),
        )
    finally:
        if opa is not None:
            opa.close()
    print(json.dumps(counts))
    return finished(report, options.keep)


if __name__ == "__main__":
    sys.exit(main())
