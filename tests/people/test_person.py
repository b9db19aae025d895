"""What a request body may be."""

from __future__ import annotations

import json

import pytest

from people.person import MAX_NAME, BadBody, NewPerson, parse_person


def test_two_names_are_a_person() -> None:
    body = '{"firstname": "Zoë", "lastname": "O\'Neil-李"}'.encode()
    assert parse_person(body) == NewPerson("Zoë", "O'Neil-李")


def test_names_may_be_as_long_as_the_limit() -> None:
    name = "x" * MAX_NAME
    assert parse_person(json.dumps({"firstname": name, "lastname": name}).encode()).lastname == name


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not valid JSON: line 1 column 1"),
        (b"{", "not valid JSON: line 1 column 2"),
        (b"[]", "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b"\xff", "not valid UTF-8"),
        ('{"firstname": "A", "lastname": "B"}'.encode("utf-16"), "not valid UTF-8"),
        (b'\xef\xbb\xbf{"firstname": "A", "lastname": "B"}', "not valid JSON"),
        (b'{"firstname": "A", "lastname": "B"} {}', "not valid JSON: line 1 column 37"),
        (b'{"firstname": "A", "lastname": NaN}', "`NaN`"),
        (b"[" * 8000, "not (JSON that a person can be read from|valid JSON)"),
        (b"1" * 8000, "not JSON that a person can be read from"),
        (b'{"firstname": "A", "lastname": "B", "firstname": "C"}', "given twice"),
        (b'{"firstname": "A", "lastname": "B", "FIRSTNAME": "C"}', 'unknown field "FIRSTNAME"'),
        (b'{"firstname": "A", "lastname": "B", "id": "7"}', 'unknown field "id"'),
        (b'{"firstname": "A"}', "`lastname` is required"),
        (b'{"firstname": null, "lastname": "B"}', "`firstname` is required"),
        (b'{"firstname": 1, "lastname": "B"}', "`firstname` must be a string"),
        (b'{"firstname": "", "lastname": "B"}', "1 to 200 characters"),
        (b'{"firstname": "A", "lastname": "%s"}' % (b"x" * 201), "1 to 200 characters"),
        (b'{"firstname": " A", "lastname": "B"}', "white space"),
        (b'{"firstname": "A\\u0000", "lastname": "B"}', "no name has"),
        (b'{"firstname": "A\\ud800", "lastname": "B"}', "no name has"),
        (b'{"firstname": "A", "lastname": "B\\nC"}', "no name has"),
    ],
)
def test_a_bad_body_is_refused_with_its_reason(body: bytes, reason: str) -> None:
    with pytest.raises(BadBody, match=reason.replace("`", ".")):
        parse_person(body)
