"""Every reader of multipart bodies sees what the policy sees, or strict mode refuses the body."""

from __future__ import annotations

from itertools import islice

import pytest
from tests.enforcement.forms import content_type, disagreeing, mutated
from tests.envoy.deciders import request

from doorward.enforcement.errors import AmbiguousRequestError, RequestError
from doorward.enforcement.strict_multipart import StrictPart, check_multipart
from doorward.envoy.options import Options
from doorward.envoy.request.input import to_input

STRICT = Options(strict=True)
BODIES = 12_000
HEAD = 'Content-Disposition: form-data; name="a"'


def post(body: bytes) -> bytes:
    headers = {"content-type": content_type(), "content-length": str(len(body))}
    return request("/", "POST", headers, raw_body=body)


# The readers leave the files open that they keep uploads in.
@pytest.mark.long
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_all_readers_agree_on_what_passes() -> None:
    passed = 0
    for body in islice(mutated(1), BODIES):
        try:
            parts = check_multipart("BB", body)
            seen = to_input(post(body), STRICT)["parsed_body"]
        except RequestError:
            continue
        passed += 1
        assert isinstance(seen, dict)
        assert {name: len(values) for name, values in seen.items()} == {  # type: ignore[arg-type]
            part.name: sum(other.name == part.name for other in parts) for part in parts
        }, body
        assert disagreeing(parts, body) == [], body
    assert passed > BODIES / 50


def body_of(head: str = HEAD, content: str = "1", *, after: str = "") -> bytes:
    return f"--BB\r\n{head}\r\n\r\n{content}\r\n--BB--\r\n{after}".encode()


REFUSED: list[tuple[bytes, str]] = [
    (body_of(f'{HEAD}\r\nContent-Disposition: form-data; name="b"'), "header twice in a part"),
    (body_of(content="1\n--BB\n\n\n2"), "boundary that is not on a line of its own"),
    (body_of(content="1--BB"), "boundary that is not on a line of its own"),
    (body_of(content="1\r\n--BB--"), "boundary that is not on a line of its own"),
    (body_of(after="--BB\r\n"), "multipart body does not end with its boundary"),
    (body_of() + body_of(), "boundary that is not on a line of its own"),
    (f"--BB\r\n{HEAD}\r\n--BB--".encode(), "part without a head and a blank line"),
    (f"--BB\r\n{HEAD}\n\n1\r\n--BB--".encode(), "part without a head and a blank line"),
    (body_of(HEAD + "\r\n b: c"), "head of a part that can be read in two ways"),
    (body_of(HEAD + "\nb: c"), "head of a part that can be read in two ways"),
    (body_of(HEAD + "\r\nb"), "head of a part that can be read in two ways"),
    (body_of(HEAD + "\r\nb : c"), "head of a part that can be read in two ways"),
    (body_of(HEAD + "\r\nb: \0"), "head of a part that can be read in two ways"),
    (body_of().replace(b'"a"', b'"\xff"'), "head of a part that can be read in two ways"),
    (body_of(HEAD + "\r\nb: c" * 100), "head of a part that can be read in two ways"),
    (body_of(HEAD + '; name="b"'), "part whose name can be read in two ways"),
    (body_of(HEAD + "; b=c"), "part whose name can be read in two ways"),
    (body_of(HEAD.replace('"a"', '"a\\"b"')), "part whose name can be read in two ways"),
    (body_of(HEAD.replace('"a"', '"a\\b"')), "part whose name can be read in two ways"),
    (body_of(HEAD.replace('"a"', '" a"')), "part whose name can be read in two ways"),
    (body_of(HEAD.replace('"a"', '"a%22"')), "part whose name can be read in two ways"),
    (
        body_of(HEAD.replace('"a"', '"=?utf-8?q?a?="')),
        "part whose name can be read in two ways",
    ),
    (body_of(HEAD.replace('"a"', '"a;b"')), "part whose name can be read in two ways"),
    (body_of(HEAD + '; filename="a/b"'), "part whose file name can be read in two ways"),
    (body_of(HEAD + '; filename="&lt;"'), "part whose file name can be read in two ways"),
    (body_of(HEAD + '; filename=".."'), "part whose file name can be read in two ways"),
    (body_of(HEAD + '; filename="x; name=b"'), "part whose file name can be read in two ways"),
    (body_of(HEAD + '; filename=""'), "part whose file name can be read in two ways"),
    (body_of(content="1").replace(b"1\r\n", b"\xff\r\n"), "form field is not UTF-8"),
    (body_of(HEAD + "\r\ncontent-length: 2"), "content-length of a part is not its length"),
    (body_of(HEAD + "\r\ncontent-type: multipart/mixed"), "parts within a part"),
    (body_of(HEAD + "\r\ncontent-type: a; charset=utf-7"), "body is not in UTF-8"),
    (body_of(HEAD + "\r\ncontent-type: ;"), "content type cannot be read"),
    (body_of(HEAD.replace('"a"', '"_charset_"')), "form that names its charset in a field"),
    (
        body_of(HEAD, f'1\r\n--BB\r\n{HEAD}; filename="b"\r\n\r\n2'),
        "name of both a field and a file",
    ),
]


@pytest.mark.parametrize(("body", "reason"), REFUSED)
def test_what_readers_see_otherwise_is_refused(body: bytes, reason: str) -> None:
    for check in (lambda: check_multipart("BB", body), lambda: to_input(post(body), STRICT)):
        with pytest.raises(AmbiguousRequestError) as raised:
            check()
        assert str(raised.value) == reason


@pytest.mark.parametrize("boundary", ["a b", "a\tb", "a" * 71, "a@b", "é"])
def test_a_boundary_that_could_be_cut_is_refused(boundary: str) -> None:
    with pytest.raises(AmbiguousRequestError, match="boundary of unusual characters"):
        check_multipart(boundary, b"")


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (body_of(), StrictPart("a", None, b"1")),
        (body_of(content=""), StrictPart("a", None, b"")),
        (body_of(content="--B\r\n\r\nx\r"), StrictPart("a", None, b"--B\r\n\r\nx\r")),
        (body_of(HEAD + '; filename="b; c.txt"'), StrictPart("a", "b; c.txt", b"1")),
        (body_of(HEAD + '; filename=""', ""), StrictPart("a", "", b"")),
        (body_of("content-disposition:form-data;name=a"), StrictPart("a", None, b"1")),
        (body_of(HEAD.replace('"a"', '"é[0][b.c]"')), StrictPart("é[0][b.c]", None, b"1")),
        (body_of(HEAD + "\r\nContent-Length: 1\r\nX-Y: z"), StrictPart("a", None, b"1")),
    ],
)
def test_what_clients_send_passes(body: bytes, part: StrictPart) -> None:
    assert check_multipart("BB", body) == [part]
    assert to_input(post(body), STRICT) == to_input(post(body), Options())


@pytest.mark.parametrize("cut", range(1, len(HEAD) + 3))
def test_a_body_that_is_cut_in_the_head_of_a_part_is_refused(cut: int) -> None:
    whole = body_of().replace(b"--BB--", b"--BB\r\n")
    body = whole + f"{HEAD}\r\n".encode()[:cut]
    for options in (STRICT, Options()):
        with pytest.raises(RequestError):
            to_input(post(body), options)
