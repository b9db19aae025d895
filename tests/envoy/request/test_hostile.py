"""What a request costs grows with its length and no faster: nobody stops the others with one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from tests.envoy.deciders import Fixed, request
from tests.growth import grows

from doorward.enforcement.errors import RequestError
from doorward.envoy.check import make_check
from doorward.envoy.options import Options
from doorward.envoy.request.input import to_input

pytestmark = pytest.mark.long

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
PARTS = "multipart/form-data; boundary=BB"
PART = '--BB\r\nContent-Disposition: form-data; name="a"\r\n'
MODES = [Options(strict=True), Options()]


def post(kind: str, body: str | bytes) -> bytes:
    raw = body.encode() if isinstance(body, str) else body
    headers = {"content-type": kind, "content-length": str(len(raw))}
    return request("/", "POST", headers, raw_body=raw)


def get(path: str = "/", **headers: str) -> bytes:
    return request(path, headers=headers)


HOSTILE: dict[str, Callable[[int], bytes]] = {
    "quotes in authorization": lambda n: get(authorization='Digest a,b="' + '\\"' * n),
    "commas in authorization": lambda n: get(authorization="Digest " + "," * n),
    "a scheme of tokens": lambda n: get(authorization="a" * n + ",b"),
    "quotes in content-type": lambda n: post('text/plain; a,b="' + '\\"' * n, "a"),
    "parameters": lambda n: post(PARTS + "".join(f";a{i}=b" for i in range(n)), "a"),
    "continuations": lambda n: post(PARTS + "".join(f";a*{i}=b" for i in range(n)), "a"),
    "semicolons": lambda n: post(PARTS + ";" * n, "a"),
    "content-length": lambda n: request("/", "POST", {"content-length": "1" * n}, "a"),
    "headers": lambda n: request("/", headers={f"x-{i}": "a" for i in range(n)}),
    "capitals": lambda n: request("/", headers={f"X-{i}": "a" for i in range(n)}),
    "cookies": lambda n: get(cookie="a=b;" * n),
    "segments": lambda n: get("/a" * n),
    "slashes": lambda n: get("/" * n),
    "dots": lambda n: get("/" + "." * n),
    "encoded letters": lambda n: get("/" + "%C3%A9" * n),
    "encoded halves": lambda n: get("/" + "%C3%A9a%C3" * n),
    "parameters of a query": lambda n: get("/?" + "&".join(f"a{i}=b" for i in range(n))),
    "no parameters of a query": lambda n: get("/?" + "&" * n),
    "combining marks in a query": lambda n: get("/?" + "%CC%96%CC%81" * n),
    "combining marks in a form": lambda n: post(FORM, "%CC%96%CC%81" * n),
    "combining marks in a key": lambda n: post(JSON, '{"' + "\u0316\u0301" * n + '":1}'),
    "bytes of no text in a form": lambda n: post(FORM, b"a=" + b"\xff%ff" * n),
    "keys": lambda n: post(JSON, "{" + ",".join(f'"K{i}":1' for i in range(n)) + "}"),
    "brackets": lambda n: post(JSON, "[" * n),
    "brackets in a text": lambda n: post(JSON, "[" * 300 + '"' + '\\"' * n),
    "brackets under another type": lambda n: post("text/plain", '{"a":' * n),
    "digits": lambda n: post(JSON, "9" * n),
    "a long fraction": lambda n: post(JSON, "0." + "9" * n),
    "escapes": lambda n: post(JSON, '"' + "\\ud83d\\ude00" * n + '\\ud800"'),
    "what is not JSON": lambda n: post(JSON, '["a",' + "1," * n),
    "lines in front of the parts": lambda n: post(PARTS, "\n" * n + PART + "\r\n1\r\n--BB--"),
    "parts": lambda n: post(PARTS, f"{PART}\r\n1\r\n" * n + "--BB--"),
    "boundaries that are none": lambda n: post(PARTS, PART + "\r\n" + "\r\n--BBx" * n + "--BB--"),
    "spaces behind a boundary": lambda n: post(PARTS, "--BB" + " " * n + "\r\n--BB--"),
    "a header of a part": lambda n: post(PARTS, "--BB\r\na: " + "b" * n + "\r\n\r\n1\r\n--BB--"),
    "continued headers": lambda n: post(PARTS, "--BB\r\na: b\r\n" + " c\r\n" * n + "\r\n--BB--"),
    "parameters of a part": lambda n: post(PARTS, PART[:-2] + ";b=c" * n + "\r\n\r\n1\r\n--BB--"),
    "quotes in a part": lambda n: post(PARTS, PART[:-3] + '\\"' * n + '"\r\n\r\n1\r\n--BB--'),
}


@pytest.mark.parametrize("options", MODES, ids=["strict", "compatible"])
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_request_takes_time_in_proportion(kind: str, options: Options) -> None:
    def read(raw: bytes) -> None:
        with suppress(RequestError):
            to_input(raw, options)

    for length in (1 << 12, 1 << 16):
        assert not grows(read, HOSTILE[kind], length)


@pytest.mark.parametrize("options", MODES, ids=["strict", "compatible"])
@pytest.mark.parametrize("kind", HOSTILE)
def test_the_answer_does_not_repeat_the_request(kind: str, options: Options) -> None:
    check = make_check(Fixed(True), options)
    assert len(check(HOSTILE[kind](1 << 16))) < 1024
