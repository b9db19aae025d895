"""Parts of multipart bodies, beyond the recorded rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doorward.enforcement.errors import RequestParseError
from doorward.enforcement.multipart import MAX_PARTS, parse_media_type, parse_parts

PART = b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n'


def parts(body: bytes, boundary: str = "b") -> list[tuple[str, bytes]]:
    return [(part.name, part.content) for part in parse_parts(body, boundary)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (PART + b"1\r\n--b--", [("a", b"1")]),
        (PART + b"\r\n--b--\r\n", [("a", b"")]),
        (PART + b"--b--\r\n", [("a", b"")]),
        (PART + b"--bc\r\n--b--", [("a", b"--bc")]),
        (PART + b"x\r\n--bc\r\n--b --\r\n--b--", None),
        (PART + b"x\r\n--b  \r\n\r\ny\r\n--b--", [("a", b"x"), ("", b"y")]),
        (b"--b--", []),
        (PART.replace(b"\r\n", b"\n") + b"1\n--b--\n", [("a", b"1")]),
        (b"--b\r\nX: 1\r\n y\r\n\r\nz\r\n--b--", [("", b"z")]),
        (PART[:-2] + b" ; filename=f\r\n\r\nz\r\n--b--", [("a", b"z")]),
        (PART[:-2] + b" \r\nX: 1\r\n\r\nz\r\n--b--", [("a", b"z")]),
    ],
)
def test_parts(body: bytes, expected: list[tuple[str, bytes]] | None) -> None:
    if expected is None:
        with pytest.raises(RequestParseError):
            parts(body)
    else:
        assert parts(body) == expected


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "multipart: NextPart: EOF"),
        (PART + b"1", "unexpected EOF"),
        (b"--b\r\n X: 1\r\n\r\n", "malformed MIME header initial line:  X: 1"),
        (PART[:-2] + b"\r\r\n\r\n", 'malformed MIME header: missing colon: "\\r"'),
        (b"--b\r\n(: 1\r\n\r\n", "malformed MIME header line: (: 1"),
        (b"x" * 5000 + b"\r\n--b--", "multipart: NextPart: bufio: buffer full"),
        (b"--b\r\n\r\n\r\n" * (MAX_PARTS + 1) + b"--b--", "multipart: more than 1000 parts"),
        (b"--b\r\n" + b"A: b\r\n" * 200, "multipart: message too large"),
    ],
)
def test_what_cannot_be_read_is_refused_in_gos_words(body: bytes, message: str) -> None:
    with pytest.raises(RequestParseError) as raised:
        parts(body)
    assert str(raised.value) == message


def test_a_continuation_line_belongs_to_the_repeated_header_before_it() -> None:
    # Go joins continuation lines before it stores headers, and reads the first of two headers.
    head = b'Content-Disposition: form-data; name="a"\r\n'
    body = b"--b\r\n" + head + head.replace(b'"a"', b'"b"') + b" ; x=y\r\n\r\n1\r\n--b--"
    (part,) = parse_parts(body, "b")
    assert part.headers["content-disposition"] == 'form-data; name="a"'
    body = b"--b\r\n" + head + b"content-disposition: x\r\n ; name=b\r\n\r\n1\r\n--b--"
    assert parts(body) == [("a", b"1")]


def test_a_header_of_continuation_lines_has_a_limit() -> None:
    folded = b"X: 1\r\n" + (b" " + b"y" * 4000 + b"\r\n") * 3
    with pytest.raises(RequestParseError, match="message too large"):
        parts(b"--b\r\n" + folded + b"\r\n1\r\n--b--")


def test_the_largest_number_of_parts_is_read() -> None:
    assert len(parts(b"--b\r\n\r\n\r\n" * MAX_PARTS + b"--b--")) == MAX_PARTS


def test_an_empty_boundary_is_refused() -> None:
    with pytest.raises(RequestParseError, match="boundary is empty"):
        parts(b"--\r\n", "")


@pytest.mark.parametrize(
    ("text", "kind", "parameters"),
    [
        ("text/plain", "text/plain", {}),
        ('Text/Plain; A=b ;c="d;e\\"f"', "text/plain", {"a": "b", "c": 'd;e"f'}),
        ("a/b;", "a/b", {}),
        ("form-data; name*0=a; name*1=b", "form-data", {"name": "ab"}),
        ("form-data; name*0*=UTF-8''%C3%A9; name*1=b", "form-data", {"name": "éb"}),
        ("form-data; name*=utf-16''x", "form-data", {}),
        ("form-data; name=a; name*=utf-8''%zz", "form-data", {"name": "a"}),
        ("form-data; name*0=a; name*1*=%zz; name*2=b", "form-data", {"name": "ab"}),
        ('form-data; name="a\\[\\b"', "form-data", {"name": "a[\\b"}),
        ("form-data; name={a}", "form-data", {"name": "{a}"}),
    ],
)
def test_media_types(text: str, kind: str, parameters: dict[str, str]) -> None:
    assert parse_media_type(text) == (kind, parameters)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "a/",
        "a b",
        "a/b; c",
        "a/b; c=",
        "a/b; c=d; c=e",
        'a/b; c="d',
        "a/b; c=d e",
        "a/b; c=d;;",
        "a/b;; c=d",
        "a/b;\x1cc=d",
    ],
)
def test_what_is_no_media_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^mime: "):
        parse_media_type(text)


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_contents_come_back(contents: list[bytes]) -> None:
    body = b"".join(PART.replace(b"--b", b"--bound") + c + b"\r\n" for c in contents)
    assert parts(body + b"--bound--", "bound") == [("a", c) for c in contents]
