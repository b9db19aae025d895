"""Much JSON, read piece by piece: the same values as at once, in less memory."""

from __future__ import annotations

import gc
import json
import sys
import time
from contextlib import nullcontext
from random import Random
from typing import Any

import pytest

from doorward.base.collector import gc_frozen
from doorward.rego import json_pieces, json_text
from doorward.rego.golang import JSONError, read_data, read_json
from doorward.rego.json_pieces import from_pieces
from doorward.rego.json_text import MUCH, from_json
from doorward.rego.values import to_json


@pytest.fixture(params=[7, 64, 1000])
def window(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Windows so small that everything is cut somewhere, and kinds of objects known at once."""
    monkeypatch.setattr(json_pieces, "WINDOW", request.param)
    monkeypatch.setattr(json_pieces, "_SEVERAL", 8)
    monkeypatch.setattr(json_pieces, "_OFTEN", 2)
    monkeypatch.setattr(json_pieces, "_TRIED", 3)
    return int(request.param)


TEXTS = [
    '{"a": {"b": [1, 2.50, -0, 1e5, -1E+2, true, false, null]}, "c": {}, "d": []}',
    '["x", "é\\u00e9\\n"]',
    '[[], [[]], {}, {"a": {}}, "", 0]',
    '  [ 1 , 2 , { "a" : 3 } ]  ',
    f'{{"a": {{{" " * 300}}}, "b": [{" " * 300}]}}',
    "17",
    "-1.5e-7",
    '"text"',
    "null",
    '{"a": 1, "a": 2, "b": {"c": 1, "c": [3]}}',
    '["\\ud800", {"\\udfff": "\\ud83d\\ude00", "k": ["\\udc00"]}, "grüße, 東京"]',
    json.dumps([{"id": n, "x": {"y": [n, n / 3, f"t{n},]}}"]}} for n in range(200)]),
    json.dumps({f"k{n}": {"a": {"b": n}, "c": f'quoted " }}, {n}'} for n in range(200)}),
    json.dumps({f"k{n}": n * 1.5 for n in range(500)}, indent=2),
    json.dumps([[n, -n] for n in range(500)]),
    json.dumps([f"a,b{n}" for n in range(500)]),
    "[" * 40 + "1" + "]" * 40,
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.usefixtures("window")
def test_a_text_in_pieces_has_the_same_value(text: str) -> None:
    whole, pieces = from_json(text), from_pieces(text.encode())
    assert to_json(pieces) == to_json(whole)
    assert repr(pieces) == repr(whole)


def test_random_documents_have_the_same_value(window: int) -> None:
    chance = Random(window)

    def value(depth: int) -> Any:
        kind = chance.randrange(8 if depth else 5)
        if kind < 5:
            return (
                [chance.random(), chance.randrange(-99, 10**12), 'q"},]' * chance.randrange(4)][
                    kind % 3
                ]
                if kind < 3
                else chance.choice([True, False, None])
            )
        names = chance.sample("abcdefgh", chance.randrange(6))
        if kind == 5:
            return [value(depth - 1) for _ in range(chance.randrange(12))]
        return {name: value(depth - 1) for name in names}

    for _ in range(60):
        document = [value(4) for _ in range(12)]
        for indent in (None, 1):
            text = json.dumps(document, indent=indent)
            assert repr(from_pieces(text.encode())) == repr(from_json(text))


WRONG = ["", " ", "{", "[1", '{"a"', '{"a":', '{"a":1', '{"a":1,}', "[1,]", "[1 2]", '{"a" 1}']
WRONG += [
    "1 2",
    "tru",
    "-",
    "1.",
    "NaN",
    "[Infinity]",
    '"x',
    "{1: 2}",
    '{"a": 1 "b": 2}',
    "}",
    "[}",
]


@pytest.mark.parametrize("text", WRONG)
@pytest.mark.usefixtures("window")
def test_what_is_no_json_is_none_in_pieces_either(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        from_pieces(text.encode())


@pytest.mark.long
def test_text_that_is_cut_or_not_utf8_is_refused(window: int) -> None:
    text = TEXTS[-6].encode()
    for end in range(1, len(text), 97):
        with pytest.raises(ValueError, match=r"\w"):
            from_pieces(text[:end])
    with pytest.raises(ValueError, match=r"\w"):
        from_pieces(b'["' + b"\xff" * window + b'"]')


@pytest.mark.long
def test_what_is_wrong_with_much_text_is_said_as_ever() -> None:
    for wrong in (b"[" + b"1," * MUCH + b"]", b'{"a": 1} x' + b" " * MUCH, b"[" * MUCH):
        with pytest.raises(JSONError) as said:
            read_json(wrong)
        with pytest.raises(JSONError) as said_of_data:
            read_data(wrong)
        assert str(said_of_data.value) == str(said.value)


def objects(count: int) -> bytes:
    return json.dumps(
        {f"u{n}": {"name": f"n{n}", "at": {"x": n, "y": -n}, "on": True} for n in range(count)}
    ).encode()


def test_objects_with_the_same_keys_share_them() -> None:
    value: Any = from_pieces(objects(3_000))
    one = value["u2999"]
    assert type(one) is dict
    assert sys.getsizeof(one) < 0.7 * sys.getsizeof({"name": "n", "at": {}, "on": True})
    assert list(one) == ["name", "at", "on"]
    # It can be copied and changed like any other.
    changed = {**one, "more": 1}
    copied = one.copy()
    copied["more"] = 1
    del copied["at"]
    assert changed == {"name": "n2999", "at": {"x": 2999, "y": -2999}, "on": True, "more": 1}
    assert copied == {"name": "n2999", "on": True, "more": 1}
    assert "more" not in one
    assert one == {"name": "n2999", "at": {"x": 2999, "y": -2999}, "on": True}


def test_strings_are_looked_up_where_they_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_pieces, "_TRIED", 64)

    def member(number: int) -> dict[str, Any]:
        groups: Any = [f"group {number % 3}", number]
        # What a key holds may be of another kind later.
        city: Any = f"city {number % 5}" if number != 250 else {"name": f"n{number}"}
        return {"id": f"id {number}", "city": city, "groups": groups, "n": number}

    members = [member(number) for number in range(300)]
    value: Any = from_pieces(json.dumps(members).encode())
    assert value == members
    assert [list(each) for each in value] == [list(each) for each in members]
    assert len({id(each["city"]) for each in value[100:250]}) == 5
    assert len({id(each["groups"][0]) for each in value[100:]}) == 3


def test_strings_are_forgotten_where_too_many_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(json_pieces, "_TRIED", 64)
    monkeypatch.setattr(json_text, "KEPT", 100)
    # They repeat at once, and never again.
    members = [{"a": f"text {number // 2}", "b": number} for number in range(2_000)]
    value: Any = from_pieces(json.dumps(members).encode())
    assert value == members
    same = [one["a"] is other["a"] for one, other in zip(value[::2], value[1::2], strict=True)]
    assert same.count(False) < 30


def test_so_many_sets_of_keys_are_shared_and_no_more() -> None:
    kinds = json_pieces.KINDS
    many = [{f"k{n % (2 * kinds)}": n, "z": 1} for n in range(100 * kinds)]
    value: Any = from_pieces(json.dumps(many).encode())
    assert value == many
    large = [{f"k{n}": n for n in range(40)} for _ in range(100)]
    assert from_pieces(json.dumps(large).encode()) == large


def test_time_grows_with_the_text_whatever_its_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_pieces, "WINDOW", 1 << 12)

    def seconds(text: bytes) -> float:
        begun = time.process_time()
        from_pieces(text)
        return time.process_time() - begun

    deep = b'{"a":' * 60 + b"[" + b",".join([b'"x,}]"'] * 20_000) + b"]" + b"}" * 60
    cut = b"[" + b",".join([b'{"a":[{"b":"},"},{"c":1}]}'] * 5_000) + b"]"
    for text in (deep, cut):
        pieces = min(seconds(text) for _ in range(3))
        begun = time.process_time()
        from_json(text)
        assert pieces < 30 * (time.process_time() - begun) + 0.5


def objects_in(value: Any) -> list[Any]:
    """The objects of a value, the arrays that are their members, and their fractions."""
    if isinstance(value, list):
        return [each for item in value for each in objects_in(item)]
    if not isinstance(value, dict):
        return []
    members = [each for each in value.values() if isinstance(each, list | float)]
    return [value, *members, *[each for item in value.values() for each in objects_in(item)]]


@pytest.mark.parametrize("is_frozen", [False, True])
def test_the_collector_has_nothing_to_traverse_unless_it_is_frozen(
    is_frozen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = json.dumps(
        {f"k{n}": {"a": [n, n / 3, [n]], "b": {"c": n / 7}, "d": {}} for n in range(200)}
    ).encode()
    # Not really frozen: it would stay so, and to unfreeze it would free what other tests froze.
    monkeypatch.setattr(gc, "freeze", lambda: None)
    with gc_frozen() if is_frozen else nullcontext():
        value = from_pieces(content)
    objects = objects_in(value)
    tracked = [gc.is_tracked(each) for each in objects if each is not value]
    assert len(tracked) == 200 * 5
    assert any(tracked) == is_frozen
    if not is_frozen:
        traversed = set(map(id, gc.get_objects()))
        assert not any(id(each) in traversed for each in objects if each is not value)
    assert to_json(value) == to_json(from_json(content))
