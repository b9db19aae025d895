"""Bodies as Go's encoder writes them are read by another reader: both give the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doorward.docker.request.errors import RequestError
from doorward.docker.request.model.readers import Notes, Reader
from doorward.docker.request.model.table import read_body, read_type
from doorward.docker.request.schema import parse_json, read_compact
from doorward.rego import to_json

_NAMES = st.sampled_from(
    [
        "Image",
        "image",
        "Env",
        "HostConfig",
        "hostconfig",
        "Memory",
        "CapAdd",
        "Binds",
        "X",
        "x",
        "é",
    ]
)
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**65), 2**65),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=4),
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(_NAMES, inner, max_size=4)
    ),
    max_leaves=12,
)


READERS: list[Reader] = [
    read_type(name)[1] for name in ("closed-value", "ContainerCreate", "ServiceSpec")
]


def outcome(read: Any, body: bytes, reader: Reader) -> Any:
    notes = Notes(unknown=["query.x"])
    try:
        return to_json(read(body, reader, notes)), notes
    except RequestError as error:
        return f"{error.code}: {error}"


def exactly(body: bytes, reader: Reader, notes: Notes) -> Any:
    return reader(parse_json(body), notes, "")


@given(_VALUES, st.booleans())
def test_both_readers_give_the_same(value: Any, compact: bool) -> None:
    separators = (",", ":") if compact else None
    body = json.dumps(value, ensure_ascii=False, separators=separators).encode()
    for reader in READERS:
        assert outcome(read_body, body, reader) == outcome(exactly, body, reader)
        # The second time, the shapes of the objects are known.
        assert outcome(exactly, body, reader) == outcome(exactly, body, reader)


@pytest.mark.parametrize(
    "body",
    [
        b'{"Memory":1,"Memory":2}',
        b'{"Memory":1, "Image":"x"}',
        b'{"Memory":18446744073709551616}',
        b'{"x":1.50}',
        b'{"x":1e2}',
        b'{"x":-0}',
        b'{"x":"\\u0041"}',
        b'{"x":"<\\u003c"}',
        b'{"x":"\\u003C"}',
        b'{"\\u0026":1,"&":2}',
        b'{"x":"\\ud800"}',
        b'{"x":"\xff"}',
        b"[" * 300 + b"]" * 300,
        b"",
        b"{}\n\n",
    ],
)
def test_other_texts_are_left_to_the_exact_reader(body: bytes) -> None:
    assert read_compact(body) is None


def test_signs_of_html_are_escaped_as_go_escapes_them() -> None:
    assert read_compact(b'{"x\\u0026":"\\u003ca\\u003e \\u2028"}') == {"x&": "<a> \u2028"}


def test_the_line_that_the_client_of_docker_ends_a_body_with_is_read() -> None:
    assert read_compact(b'{"Image":"x"}\n') == {"Image": "x"}


def test_a_fraction_keeps_its_text() -> None:
    body = b'{"Name":"n","UpdateConfig":{"MaxFailureRatio":0.1},"New":0.2}'
    notes = Notes(unknown=["query.x"])
    document = read_body(body, READERS[2], notes)
    assert to_json(document["UpdateConfig"]["MaxFailureRatio"]) == "0.1"
    assert type(document["New"]) is not float
    assert notes.unknown == ["query.x", "New"]
