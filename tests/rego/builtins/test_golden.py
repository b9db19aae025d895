"""The built-ins against OPA's recorded answers: same value, number texts included; same error.

One test id per built-in. Queries that are more than one call go through the engine, elsewhere.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.corpora import GOLDEN
from tests.differences import KINDS, Difference, load, pin
from tests.rego.builtins.calls import NotACall, parse_call

from doorward.rego.builtins import REGISTRY, Context, Environment
from doorward.rego.errors import CALL_ERRORS, EvaluationAborted
from doorward.rego.json_text import from_json
from doorward.rego.values import UNDEFINED, to_json, to_python, to_rego

ROOT = Path(__file__).resolve().parents[3]
ALL = load("builtins")
PARTS = 16
Row = dict[str, Any]


class Answer(NamedTuple):
    """A result and its Rego text, or an error's code and message; all None: undefined."""

    json: str | None = None
    rego: str | None = None
    code: str | None = None
    message: str | None = None


def read_rows() -> Iterator[Row]:
    with gzip.open(GOLDEN / "builtins.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            try:
                row: Any = from_json(line)
            except ValueError:
                continue  # an answer of 1e99999: past MAX_DIGITS, which we refuse to read
            yield row


@cache
def rows_by_group() -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in read_rows():
        if not is_refused_before_the_call(row):
            groups.setdefault(row["group"], []).append(row)
    return groups


def groups_of(part: int) -> list[str]:
    """The groups of one of the parts in which they are compared."""
    return sorted(rows_by_group())[part::PARTS]


def is_refused_before_the_call(row: Row) -> bool:
    """The compiler's errors are not the built-ins'."""
    return str(row.get("error", {}).get("code")).startswith("rego_")


def recorded(row: Row) -> Answer:
    if "error" in row:
        return Answer(None, None, row["error"].get("code"), row["error"]["message"])
    if not row["result"]:
        return Answer()
    value = row["result"][0]["x"]
    rego = row["repr"][0] if "repr" in row else None
    return Answer(to_json(value), rego)


def answered(row: Row) -> Answer:
    """What Doorward says to `row`; NotACall where it takes more than a built-in."""
    if "data" in row or "modules" in row:
        raise NotACall(row["query"])
    call = parse_call(row["query"])
    if call.name not in REGISTRY:
        raise NotACall(call.name)
    context = Context(Environment(), now_ns=row.get("now_ns", 0))
    try:
        value = call.answer(row.get("input", UNDEFINED), context)
    except CALL_ERRORS as error:
        stops = row.get("strict") or isinstance(error, EvaluationAborted)
        return Answer(None, None, error.code, str(error)) if stops else Answer()
    if value is UNDEFINED:
        return Answer()
    rego = to_rego(value) if "repr" in row else None  # type: ignore[arg-type] # defined by now
    return Answer(to_json(to_python(value)), rego)  # type: ignore[arg-type] # defined by now


@cache
def differing(group: str) -> list[tuple[Row, Answer, Answer]]:
    """Rows whose answer is not the recorded one."""
    different = []
    for row in rows_by_group()[group]:
        try:
            got = answered(row)
        except NotACall:
            continue
        if got != (want := recorded(row)):
            different.append((row, got, want))
    return different


def show(row: Row, got: Answer, want: Answer) -> str:
    given = to_json(row["input"]) if "input" in row else "undefined"
    return f"{row['id']}: {row['query']} on {given}\n    got  {got}\n    want {want}"


def fault(got: Answer, want: Answer) -> str:
    """How an answer differs from the recorded one, as the lists of differences have it."""
    shown = f"want {want}, got {got}"
    if want.message is not None and got.message is not None:
        return f"other {'message' if got.code == want.code else 'code'}: {shown}"
    if want.message is not None:
        return f"no error: {shown}"
    if got.message is not None:
        return f"error where OPA has none: {got.message}"
    return f"other result: want {want.json} {want.rego}, got {got.json} {got.rego}"


def covered(difference: Difference, row: Row, got: Answer, want: Answer) -> bool:
    question = f"{row['query']}\n{to_json(row['input'])}" if "input" in row else row["query"]
    return difference.covers({**row, "query": question}, fault(got, want))


@pytest.mark.parametrize("part", range(PARTS))
def test_answers_as_recorded(part: int) -> None:
    rows = [row for group in groups_of(part) for row in differing(group)]
    wrong = [show(*row) for row in rows if not any(covered(d, *row) for d in ALL)]
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:20])


@pytest.mark.parametrize("difference", ALL, ids=lambda d: d.groups)
def test_a_declared_difference_is_one_and_excuses_no_other_answer(difference: Difference) -> None:
    rows = [
        (row["id"], fault(got, want))
        for group in rows_by_group()
        if re.fullmatch(difference.groups, group)
        for row, got, want in differing(group)
        if covered(difference, row, got, want)
    ]
    assert difference.pinned == {"builtins": pin(rows)}


def test_every_difference_is_of_an_allowed_kind() -> None:
    assert {difference.kind for difference in ALL} <= KINDS.keys()


def test_there_are_recorded_answers() -> None:
    assert len(rows_by_group()) > 150
