"""The residuals that OPA recorded: equal but for the rows of tests/differences/partial.toml."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final

import pytest
from tests.corpora import PARTIAL, rows
from tests.differences import load
from tests.rego.partial.recorded import Row, comparable, residual_of

from doorward.rego import RegoError
from doorward.rego.shared import parse_number

pytestmark = pytest.mark.long

DIFFERENCES: Final = {row: each for each in load("partial") for row in each.ids}


def _decode(line: str) -> Any:
    return json.loads(line, parse_float=parse_number)


@cache
def recorded() -> list[Row]:
    return list(rows(PARTIAL, _decode))


def test_the_list_names_recorded_rows() -> None:
    ids = {row["id"] for row in recorded()}
    is_whole = any(row["group"] == "suite" for row in recorded())
    assert not is_whole or DIFFERENCES.keys() <= ids


@pytest.mark.parametrize("part", range(16))
def test_residuals_are_those_of_opa(part: int) -> None:
    wrong = []
    for row in recorded()[part::16]:
        fault = _fault(row)
        if bool(fault) != (row["id"] in DIFFERENCES):
            wrong.append((row["id"], fault or "is equal: take it from the list"))
    assert not wrong


def _fault(row: Row) -> str:
    """How the answer differs from the recorded one; "" if it does not."""
    try:
        _, partial = residual_of(row)
    except RegoError as error:
        mine = [(each.code, without_details(each.message)) for each in error.diagnostics]
        want = [
            (each.get("code"), without_details(each["message"])) for each in row.get("error", ())
        ]
        return "" if mine == want else f"{mine} {want}"
    except ValueError as error:
        return "" if [{"message": str(error)}] == row.get("error") else f"{error}"
    if "error" in row:
        return "there is no error"
    unordered = bool(row.get("unordered"))
    actual = comparable(partial.ast, unordered=unordered)
    expected = comparable(row["ast"], unordered=unordered)
    return "" if actual == expected else f"{partial.query_texts} {partial.support_texts}"


def without_details(message: str) -> str:
    """A message without the words of Go's reader of certificates."""
    return message.partition(" asn1: ")[0]
