"""Which bodies are read, and the one value of each."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doorward.enforcement.bodies import MAX_DEPTH
from doorward.envoy.ext_proc import bodies
from doorward.envoy.ext_proc.bodies import BodyError, parse_body, state_of, to_bytes
from doorward.rego import to_json


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1.10,"b":[1e5,-0,12345678901234567890123,0.1e-7]}',
        '{"a":"x: y","b":"\\":","c":"\\\\","é":"\\u00e9"}',
        '{"a":":","b" : "b\\" :"}',
        "[]",
        ' {"a" :1}\n',
        '"2026-01-01"',
        "-0",
        "[-0]",
        "0",
        "1.10",
        "12345678901234567.5",
    ],
)
def test_a_body_comes_back_with_its_digits(text: str) -> None:
    value, plain = parse_body(text.encode(), "", 1000)
    assert plain == text.encode()
    again = to_bytes(value).decode()
    assert json.loads(again, parse_float=str, parse_int=str) == json.loads(
        text, parse_float=str, parse_int=str
    )


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2}',
        '{"a" :1,"a":2}',
        '{"a":1,"\\u0061":2}',
        '{"a":":","a"\t:2}',
        '[{"b":1},{"a":{"c":1,"c":1}}]',
        '{"a":1.5,"a":1.5}',
        '{"a\\\\":1,"a\\\\":2}',
        "",
        " ",
        "NaN",
        "[1,]",
        "{}{}",
        '"\\ud800"',
        '{"\\udc00":1}',
        "\ufeff{}",
    ],
)
def test_a_body_with_two_readings_or_none_is_refused(text: str) -> None:
    with pytest.raises(BodyError) as caught:
        parse_body(text.encode(), "", 1000)
    assert caught.value.code == "response_malformed"


@pytest.mark.parametrize("depth", [*range(MAX_DEPTH - 16, MAX_DEPTH + 16), 10 * MAX_DEPTH])
def test_a_body_is_nested_as_deeply_as_requests_are(depth: int) -> None:
    text = b"[" * depth + b"]" * depth
    if depth <= MAX_DEPTH:
        assert to_bytes(parse_body(text, "", 10_000)[0]) == text
    else:
        with pytest.raises(BodyError, match="not JSON"):
            parse_body(text, "", 10_000)


def test_a_body_that_grows_is_not_decompressed_to_its_end() -> None:
    bomb = gzip.compress(bytes(100 << 20), compresslevel=1)
    tracemalloc.start()
    try:
        with pytest.raises(BodyError) as caught:
            parse_body(bomb, "gzip", 1000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.code == "response_too_large"
    assert peak < 10 << 20


JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.sampled_from([":", '":']),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=10,
)


@given(JSON, st.sampled_from([(",", ":"), (", ", ": "), (" ,", "\n :")]), st.booleans())
def test_both_ways_to_read_give_one_value(
    value: Any, separators: tuple[str, str], ascii: bool
) -> None:
    text = json.dumps(value, separators=separators, ensure_ascii=ascii)
    try:
        body = text.encode()
    except UnicodeEncodeError:
        return
    exact = bodies._parse_exactly(body)
    fast = bodies._parse_plain(body)
    assert fast is bodies._NOT_SURE or to_json(fast) == to_json(exact)
    assert to_json(json.loads(to_bytes(exact))) == to_json(value)


@given(st.lists(st.tuples(st.sampled_from('ab":'), JSON), min_size=1, max_size=4))
def test_a_key_that_comes_twice_is_always_found(pairs: list[tuple[str, Any]]) -> None:
    names = [json.dumps(name) for name, _ in pairs]
    text = (
        "{" + ",".join(f"{n}:{json.dumps(v)}" for n, (_, v) in zip(names, pairs, strict=True)) + "}"
    )
    if len(set(names)) == len(names):
        parse_body(text.encode(), "", 10_000)
    else:
        with pytest.raises(BodyError):
            parse_body(text.encode(), "", 10_000)


@pytest.mark.parametrize(
    ("status", "headers", "has_body", "state"),
    [
        (200, {"content-type": "application/json"}, True, "unread"),
        (200, {"content-type": "Application/JSON ; charset=utf-8"}, True, "unread"),
        (200, {"content-type": "application/json;charset=latin-1"}, True, "opaque"),
        (200, {"content-type": 'application/json;charset="utf-16"'}, True, "opaque"),
        (200, {"content-type": "application/json, text/html"}, True, "opaque"),
        (200, {"content-type": "application/json;a=1;charset=x"}, True, "opaque"),
        (200, {"content-type": "xapplication/json"}, True, "opaque"),
        (200, {}, True, "opaque"),
        (200, {}, False, "none"),
        (206, {"content-type": "application/json"}, True, "partial"),
        (200, {"content-type": "application/json", "content-encoding": "zstd"}, True, "encoded"),
        (200, {"content-type": "application/json", "content-encoding": "identity"}, True, "unread"),
    ],
)
def test_the_state_of_a_body(
    status: int, headers: dict[str, str], has_body: bool, state: str
) -> None:
    assert state_of(status, headers, has_body=has_body) == state


def test_a_hostile_content_type_takes_no_time() -> None:
    assert state_of(200, {"content-type": "application/json" + ";a=" * 5000}, has_body=True)
