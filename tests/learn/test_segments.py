"""Segments become tokens: words, types, and what a subject owns."""

from __future__ import annotations

import json

import pytest
from tests.learn.logs import subject

from doorward.learn.documents import POLICY
from doorward.learn.segments import (
    DATE,
    HEX,
    INT,
    PADDED,
    PATTERNS,
    TYPES,
    ULID,
    UUID,
    Kind,
    Numbered,
    is_plain,
    owners_in,
    tokens_of,
    type_of,
)
from doorward.rego import Engine

VALUES: dict[str, Kind] = {
    "17": INT,
    "0": INT,
    "017": PADDED,
    "01": 0,
    "0123\n": 0,
    "01HZX3K5M7N9P1Q3R5S7T9V1W3": ULID,
    "81HZX3K5M7N9P1Q3R5S7T9V1W3": 0,
    "01HZX3K5M7N9P1Q3R5S7T9V1WU": 0,
    "INV-2027-000123": Numbered("INV-2027-"),
    "P00017": Numbered("P"),
    "cust_1040": Numbered("cust_"),
    "a.b-123": Numbered("a.b-"),
    "v2": 0,
    "phone-14": 0,
    "P00017\n": 0,
    "P00017x": 0,
    "é123": 0,
    "-123": 0,
    f"P{'1' * 19}": 0,
    "-1": 0,
    "1.0": 0,
    "17\n": 0,
    "١٧": 0,
    "9" * 19: INT,
    "9" * 20: HEX,
    "9f1b6a3e-0000-4000-8000-00000000000a": UUID,
    "9F1B6A3E-0000-4000-8000-00000000000A": 0,
    "2027-01-31": DATE,
    "2027-13-01": 0,
    "2027-01-31\n": 0,
    "deadbeefdeadbeef": HEX,
    "deadbeef": 0,
    "orders": 0,
    "": 0,
}


@pytest.mark.parametrize("text", VALUES, ids=json.dumps)
def test_a_segment_has_the_type_that_the_policy_tests(text: str) -> None:
    assert type_of(text) == VALUES[text]
    query = Engine({"p.rego": POLICY}).prepare("data.learned.authz.patterns")
    patterns = query.value({})
    assert patterns == PATTERNS
    for number, name in TYPES.items():
        is_right = Engine({}).prepare(f"regex.match({json.dumps(PATTERNS[name])}, input)")
        if type_of(text) == number:
            assert is_right.value(text) is True
        elif number != HEX or VALUES[text] != INT:
            assert is_right.value(text) is not True, name


@pytest.mark.parametrize(
    "path",
    [
        "a/../b",
        "a/./b",
        "a//b",
        "",
        "a/b c",
        "a/b%2fc",
        "a;x",
        "a\\b",
        "a?b",
        "a\nb",
        "a#b",
        "\x00",
    ],
)
def test_a_path_that_two_readers_could_read_differently_is_not_plain(path: str) -> None:
    assert is_plain(path.split("/")) is (path == "")


def test_a_path_of_many_or_long_segments_is_not_plain() -> None:
    assert is_plain(["a"] * 32)
    assert not is_plain(["a"] * 33)
    assert not is_plain(["a" * 201])


def test_a_segment_that_is_a_value_of_the_subject_is_its_own() -> None:
    who = subject("ann", "admin", tenant="17")
    owners = owners_in(who)
    assert tokens_of(["u", "ann", "17", "18", "admin"], owners) == (
        "u",
        (("claims", "sub"),),
        (("claims", "tenant"),),
        INT,
        "admin",
    )
