"""Strict mode refuses what can be read in two ways, with the reasons of docs/strict.md."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from envoy.service.auth.v3 import external_auth_pb2 as auth
from google.protobuf import descriptor_pb2
from hypothesis import given
from hypothesis import strategies as st
from tests.enforcement.test_strict_multipart import REFUSED as PARTS_REFUSED
from tests.envoy.deciders import request

from doorward.enforcement import strict
from doorward.enforcement.errors import (
    AmbiguousRequestError,
    RequestError,
    RequestParseError,
    shown,
)
from doorward.envoy.options import Options
from doorward.envoy.request.descriptors import Services
from doorward.envoy.request.input import to_input

STRICT = Options(strict=True)
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
PARTS = "multipart/form-data; boundary=BB"
ENCODED = "Content-Transfer-Encoding: base64"
BRACKETS = "with brackets that can be read in two ways"
DEEP = shown("a" + "[b]" * 33)
PART = '--BB\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n'


def post(body: str | bytes, kind: str | None = JSON, **headers: str) -> bytes:
    length = len(body.encode() if isinstance(body, str) else body)
    actual = {"content-length": str(length)} if length else {}
    actual |= {name.replace("_", "-"): value for name, value in headers.items()}
    if kind is not None:
        actual["content-type"] = kind
    if isinstance(body, bytes):
        return request("/", "POST", actual, raw_body=body)
    return request("/", "POST", actual, body)


def get(path: str = "/", method: str = "GET", **headers: str) -> bytes:
    return request(path, method, {name.replace("_", "-"): value for name, value in headers.items()})


def to(target: str, body: str, kind: str = FORM) -> bytes:
    headers = {"content-length": str(len(body)), "content-type": kind}
    return request(target, "POST", headers, body)


def with_header_map(*names: str, value: bytes = b"x") -> bytes:
    check = auth.CheckRequest()
    http = check.attributes.request.http
    http.method, http.path = "GET", "/"
    for name in names:
        http.header_map.headers.add(key=name, raw_value=value)
    encoded: bytes = check.SerializeToString(deterministic=True)
    return encoded


REFUSED: list[tuple[bytes, str]] = [
    (get(method="get"), "method is not in capitals"),
    (get(method=""), "method is not in capitals"),
    (get("http://h/x"), "path does not start with a slash"),
    (get("h:443", "CONNECT"), "path does not start with a slash"),
    (get("", "GET"), "path does not start with a slash"),
    (get("*"), "path does not start with a slash"),
    (get("/a b"), "control character or space in the target"),
    (get("/a\tb"), "control character or space in the target"),
    (get("/a?b=\x01"), "control character or space in the target"),
    (get("/café"), "character outside ASCII in the target"),
    (get("/a#b"), "fragment in the target"),
    (get("/a?b#c"), "fragment in the target"),
    (get("/a%00b"), "encoded NUL in the target"),
    (get("/a?b=%00"), "encoded NUL in the target"),
    (get("/a%0d%0ab"), "encoded control character in the path"),
    (get("/a%7Fb"), "encoded control character in the path"),
    (get("/a\\b"), "backslash in the path"),
    (get("/a%5Cb"), "backslash in the path"),
    (get("/a%2fb"), "encoded slash in the path"),
    (get("/a%2Fb"), "encoded slash in the path"),
    (get("/a/%2e%2E/b"), "encoded dot in the path"),
    (get("/%70eople"), "needless encoding in the path"),
    (get("/%50eople"), "needless encoding in the path"),
    (get("/people%2D1"), "needless encoding in the path"),
    (get("/a%252Fb"), "doubly encoded character in the path"),
    (get("//a"), "empty segment in the path"),
    (get("/a//b?c"), "empty segment in the path"),
    (get("/a//"), "empty segment in the path"),
    (get("/./a"), "dot segment in the path"),
    (get("/a/.."), "dot segment in the path"),
    (get("/../a?b"), "dot segment in the path"),
    (get("/a;b=c/d"), "path parameter (;) in the path"),
    (get("/..;/a"), "path parameter (;) in the path"),
    (get("/%C0%AFx"), "path is not UTF-8"),
    (get("/%ED%A0%80"), "path is not UTF-8"),
    (get("/?a=1&A=2"), 'query parameters that differ only in case: "A"'),
    (
        get("/?" + "%C3%A9" * 257 + "=1"),
        "name of a query parameter is too long to compare",
    ),
    (get("/?a%00b=1"), "encoded NUL in the target"),
    (get("/?_method=DELETE"), "method override in the query"),
    (request("/", headers={"X-A": "1"}), "header name is not in small letters"),
    (request("/", headers={"x_user": "1"}), "underscore in a header name"),
    (
        request("/", headers={"x.user": "1"}),
        "header name with a character that CGI makes an underscore of",
    ),
    (
        request("/", "POST", {"x-http-method-override": "DELETE"}),
        "header that overrides the method or the path",
    ),
    (
        request("/", headers={"x-original-url": "/a"}),
        "header that overrides the method or the path",
    ),
    *[
        (request("/", headers={name: host}), f"host {shown(host)} is not a name or an address")
        for host in (
            *("a.com/admin?", "a.com/admin#", "a@b", "a.com?x", "a\\b", "a b", "a,b", "a%2fb", "é"),
            *("a:80:90", "a:b", "a:", "[::1", "::1", "a\n"),
        )
        for name in ("host", ":authority")
    ],
    (request("/", headers={":path": "/a"}), "headers and request line differ"),
    (request("/", headers={":method": "PUT"}), "headers and request line differ"),
    (request("/", headers={"host": "a", ":authority": "b"}), "host and :authority differ"),
    (get(authorization="Bearer a,Bearer b"), "more than one authorization header"),
    (get(authorization="Bearer a, b"), "more than one authorization header"),
    (get(proxy_authorization="Basic a,Basic b"), "more than one proxy-authorization header"),
    (get(authorization="Basic Ym9iOg==,a=b"), "more than one authorization header"),
    (get(authorization="Basic Ym9iOjE=,a=b; c"), "more than one authorization header"),
    (get(authorization="Digest a=b,Ym9iOg=="), "more than one authorization header"),
    (get(authorization="Bearer a=,Bearer b=c"), "more than one authorization header"),
    (get(authorization="Digest a=1,Bearer b"), "more than one authorization header"),
    (
        get(authorization="Digest a=1,b=" + "x" * 8192),
        "authorization header with parameters is too long",
    ),
    (
        get(authorization='Digest a=1, b="c, d=e'),
        "quote without an end in the authorization header",
    ),
    (with_header_map("authorization", "x", "Authorization"), "more than one authorization header"),
    (with_header_map("content-type", "content-type"), "more than one content-type header"),
    (with_header_map("x-user", "X-User"), "header name is not in small letters"),
    (with_header_map("x-user", "x_user"), "underscore in a header name"),
    (
        with_header_map("x!user"),
        "header name with a character that CGI makes an underscore of",
    ),
    (with_header_map("x-rewrite-url"), "header that overrides the method or the path"),
    (with_header_map("authorization", value=b"a, b"), "more than one authorization header"),
    (with_header_map(":path", value=b"/other"), "headers and request line differ"),
    (
        with_header_map("upgrade", value=b"h2c"),
        "upgrade whose body or further requests nobody checks",
    ),
    (
        get(method="POST", upgrade="websocket"),
        "upgrade whose body or further requests nobody checks",
    ),
    (get(upgrade="h2c"), "upgrade whose body or further requests nobody checks"),
    (post('{"a":1', x_envoy_auth_partial_body="true"), "body is cut"),
    (post('{"a":1', x_envoy_auth_partial_body="false,true"), "body is cut"),
    (post("", content_length="7"), "body was not passed on by the proxy"),
    (post("{}", content_length="7"), "content-length is not the body's"),
    (post("{}", content_length="1"), "content-length is not the body's"),
    (post("{}", content_length="+2"), "content-length is not the body's"),
    (post("{}", content_length="2, 2"), "content-length is not the body's"),
    (request("/", "POST", {"content-type": JSON}, "{}", b"{}"), "two bodies"),
    (post(b"\x1f\x8b\x08", content_encoding="gzip"), "body is compressed"),
    (post('{"a":1}', None), "body without a content type"),
    *(
        (request("/", "POST", {"content-type": kind}, body), "body of undeclared length")
        for kind, body in (
            (JSON, "{}"),
            (f"{JSON}; charset=utf-8", "{}"),
            ("application/json-patch+json", "[]"),
            (FORM, "a=1"),
            (PARTS, PART + "--BB--"),
            ("text/plain", "a"),
            ("application/xml", "<a/>"),
            ("application/octet-stream", "a"),
        )
    ),
    *(
        (request("/", headers={name: "/a"}), "header that overrides the method or the path")
        for name in (
            "x-http-method",
            "x-http-method-override",
            "x-method-override",
            "x-original-url",
            "x-original-uri",
            "x-rewrite-url",
        )
    ),
    (post("a", "text/plain, text/html"), "more than one content type"),
    (post("a", "text/plain; a=1; a=2"), "content type cannot be read"),
    (post("a", "; a"), "content type cannot be read"),
    (
        post("a", f'{PARTS}; a="application/json"'),
        'content type "multipart/form-data; boundary=BB; a=\\"app..." can be read in two ways',
    ),
    (
        post('{"a":1}', "Application/JSON"),
        'content type "Application/JSON" can be read in two ways',
    ),
    (post("a", "text/json"), 'content type "text/json" can be read in two ways'),
    (
        post("a", "application/vnd.api+json"),
        'content type "application/vnd.api+json" can be read in two ways',
    ),
    *(
        (post(body, kind), f"content type {shown(kind)} can be read in two ways")
        for body, kind in (
            ("a", "application/jsonl"),
            ("a", "application/x-json"),
            ("a", "application/x-ndjson"),
            ("a", "application/json-seq"),
            ("a=1", f"{FORM}; charset*=utf-8''utf-8"),
            (PART + "--BB--", "multipart/form-data; boundary*=utf-8''BB"),
            (PART + "--BB--", "multipart/form-data; boundary*0=B; boundary*1=B"),
            (PART + "--BB--", "multipart/mixed; boundary=BB"),
            (PART + "--BB--", "multipart/related; boundary=BB"),
            (PART + "--BB--", "multipart/other; boundary=BB"),
        )
    ),
    (post('{"a":1}', f"{JSON}; charset=utf-16"), "body is not in UTF-8"),
    (post('{"a":1}', FORM), "JSON under another content type"),
    (post(' ["a"]', "text/plain"), "JSON under another content type"),
    (post('{"a":1}{"a":2}', "text/plain"), "JSON under another content type"),
    (post('\n{"a":1} trailing', "application/octet-stream"), "JSON under another content type"),
    (post(b'\xef\xbb\xbf{"a":1}', "application/octet-stream"), "JSON under another content type"),
    (post(b'{"a":"\xff"}'), "JSON is not in UTF-8"),
    (post('{"a":1,"a":1}'), 'duplicate JSON key "a"'),
    (post('[{"b":{"a":1,"a":2}}]'), 'duplicate JSON key "a"'),
    (post('{"a":1,"\\u0061":2}'), 'duplicate JSON key "a"'),
    (
        post('{"firstname":"x","FIRSTNAME":"Bob"}'),
        'JSON keys that differ only in case: "FIRSTNAME"',
    ),
    (post('{"k":1,"\u212a":2}'), 'JSON keys that differ only in case: "\\u212a"'),
    (post('{"a":1,"\uff21":2}'), 'JSON keys that differ only in case: "\\uff21"'),
    (post('{"\u00e9":1,"e\u0301":2}'), 'JSON keys that differ only in case: "e\\u0301"'),
    (get("/?a=1&%EF%BD%81=2"), 'query parameters that differ only in case: "\\uff41"'),
    (post("a=1&%EF%BD%81=2", FORM), 'form fields that differ only in case: "\\uff41"'),
    (post('{"a\\u0000":1}'), "escaped NUL in JSON"),
    (post('{"a":"\\ud800"}'), "half a surrogate pair in JSON"),
    (post('{"a":"\\udc00"}'), "half a surrogate pair in JSON"),
    (post('{"a":"\\ud83dx\\ude00"}'), "half a surrogate pair in JSON"),
    (post('{"a":1e999}'), "number that no double can hold"),
    (post('{"a":' + "9" * 400 + "}"), "number that no double can hold"),
    (post('{"a":1} null'), "more than one JSON value"),
    (post('{"a\\nb":1,"a\\nb":2}'), 'duplicate JSON key "a\\x0ab"'),
    (post("a=1&A=2", FORM), 'form fields that differ only in case: "A"'),
    (post("%C3%A9" * 257 + "=1", FORM), "name of a form field is too long to compare"),
    (post('{"' + "é" * 257 + '":1}'), "name of a JSON key is too long to compare"),
    (post("%20role=1", FORM), 'name of a form field that can be read in two ways: " role"'),
    (post("role+=1", FORM), 'name of a form field that can be read in two ways: "role "'),
    (post("a%FF=1", FORM), "form field is not UTF-8"),
    (post("a=%FF", FORM), "form field is not UTF-8"),
    (post("a.b=1&a_b=2", FORM), 'form fields that are one variable to PHP: "a_b"'),
    (post("a=é", FORM), "character in the form that must be encoded"),
    (post("a=1\n", FORM), "character in the form that must be encoded"),
    (get("/?%20role=1"), 'name of a query parameter that can be read in two ways: " role"'),
    (get("/?role%C2%A0=1"), 'name of a query parameter that can be read in two ways: "role\\xa0"'),
    (get("/?a%FF=1"), "query parameter is not UTF-8"),
    (get("/?a=%C0%AF"), "query parameter is not UTF-8"),
    (get("/?a.b=1&a_b=2"), 'query parameters that are one variable to PHP: "a_b"'),
    (post('{"a":9007199254740993}'), "number with more digits than a double has"),
    (post('{"a":0.10000000000000000001}'), "number with more digits than a double has"),
    (post('{"a":1e-999}'), "number with more digits than a double has"),
    (post("0." + "0" * 800 + "1"), "number with more digits than a double has"),
    (post('{"a":1}'.encode("utf-16"), "text/plain"), "JSON under another content type"),
    (post('{"a":1}'.encode("utf-16-le"), "text/plain"), "JSON under another content type"),
    (post('{"a":1}'.encode("utf-16-be").decode(), "a/b"), "JSON under another content type"),
    (post("!!" + '{"a":1}'.encode("utf-16-le").decode(), "a/b"), "JSON under another content type"),
    (post('{"a":1}'.encode("utf-32"), "text/plain"), "JSON under another content type"),
    (post(b'{"a":1}', "application/grpc"), "JSON under another content type"),
    (post(f'{{"a":{"1" * 4301}}}', "text/plain"), "JSON under another content type"),
    (post('{"a":"\n"}', "text/plain"), "JSON under another content type"),
    (post('{"a":[{"__pr\\u006fto__":{"b":1}}]}'), "JSON key that is the prototype to JavaScript"),
    (post("a%00=1", FORM), "NUL in the name of a form field"),
    (post("_method=DELETE", FORM), "method override in the body"),
    (post("_METHOD=DELETE", FORM), "method override in the body"),
    (get("/?_Method=DELETE"), "method override in the query"),
    (get("/?.method=DELETE"), "method override in the query"),
    (get("/?_method[]=DELETE"), "method override in the query"),
    (get("/?X-HTTP-Method-Override=DELETE"), "method override in the query"),
    (get("/?x-tunneled-method=DELETE"), "method override in the query"),
    (post(".method=DELETE", FORM), "method override in the body"),
    (post("X-HTTP-Method-Override=DELETE", FORM), "method override in the body"),
    (post('{"_method":"DELETE"}'), "method override in the body"),
    (post('{"\\u005fMETHOD":"DELETE"}', f"{JSON}; charset=utf-8"), "method override in the body"),
    (post(PART.replace('"a"', '"_METHOD"') + "--BB--", PARTS), "method override in the body"),
    (get("/a%3Bb=1"), "path parameter (;) in the path"),
    (get("/a%3bb=1"), "path parameter (;) in the path"),
    (get("/?a%20b=1&a_b=2"), 'query parameters that are one variable to PHP: "a_b"'),
    (post("a+b=1&a_b=2", FORM), 'form fields that are one variable to PHP: "a_b"'),
    (get("/?a[1]=x"), 'query parameters whose numbers do not begin at 0 or leave some out: "a"'),
    (
        get("/?a[__proto__]=1"),
        'name of a query parameter that is left out by some readers: "a[__proto__]"',
    ),
    (get("/?user_id=1&user[id=2"), f'name of a query parameter {BRACKETS}: "user[id"'),
    (post("user_id=1&user[id=2", FORM), f'name of a form field {BRACKETS}: "user[id"'),
    (
        post(PART + PART.replace('"a"', '"a[b"') + "--BB--", PARTS),
        f'name of a form field {BRACKETS}: "a[b"',
    ),
    (
        post(PART.replace('"a"', '"a[b]x"; filename="f"') + "--BB--", PARTS),
        f'name of a form field {BRACKETS}: "a[b]x"',
    ),
    (post("user=x]=y", FORM), 'form field whose name can end in two places: "user"'),
    *[
        (post(body, kind), f"content type {shown(kind)} can be read in two ways")
        for body, kind in (
            ("role=admin", "application/urlencoded"),
            ("role=admin", "text/plain; x=URLencoded"),
            ('{"x":"&role=admin&"}', f"{JSON}; x=urlencoded"),
            (PART + "--BB--", "text/plain; x=multipart; boundary=BB"),
            (PART + "--BB--", f"{PARTS}; x=urlencoded"),
            (PART + "--BB--", "application/multipart; boundary=BB"),
        )
    ],
    (post("", transfer_encoding="chunked"), "body was not passed on by the proxy"),
    *[
        (to(target, body, kind), 'form field that has another value in the query: "a"')
        for target, body, kind in (
            ("/?a=1", "a=2", FORM),
            ("/?a=1", "a=1&a=2", FORM),
            ("/?A=1", "a=2", FORM),
            ("/?a[b]=1", "a[c]=1", FORM),
            ("/?a[b]=1", "a=1", FORM),
            ("/?a=2", PART + "--BB--", PARTS),
        )
    ],
    *[
        (to(target, body, JSON), 'JSON key that has another value in the query: "a"')
        for target, body in (
            ("/?a=1", '{"a":2}'),
            ("/?a={ok}", '{"a":"{admin}"}'),
            ("/?A=1", '{"a":"2"}'),
            ("/?a=1", '{"a":null}'),
            ("/?a=1", '{"a":[1,1]}'),
            ("/?a[b]=1", '{"a":{"b":2}}'),
        )
    ],
    (get("/?a[]=1&a[0]=2"), 'query parameter with and without a number: "a[0]"'),
    (get("/?a[b]=1&a=2"), 'query parameter that is both a value and a collection: "a"'),
    (get("/?a=2&a[b]=1"), 'query parameter that is both a value and a collection: "a[b]"'),
    (get("/?a" + "[b]" * 33), f"name of a query parameter with more than 32 keys: {DEEP}"),
    (get("/?" + "a&" * 1000), "more than 1000 query parameters"),
    (post("a&" * 1000, FORM), "more than 1000 form fields"),
    (get("/?a[][0]=1"), f'name of a query parameter {BRACKETS}: "a[][0]"'),
    (post("a[]=1&a[0]=2", FORM), 'form field with and without a number: "a[0]"'),
    (post("a=2&a[b]=1", FORM), 'form field that is both a value and a collection: "a[b]"'),
    (get("/?user=x%5d=y"), 'query parameter whose name can end in two places: "user"'),
    (post("a" + "[b]" * 33, FORM), f"name of a form field with more than 32 keys: {DEEP}"),
    (post("a=%C3%A9", f"{FORM}; charset=us-ascii"), "body is not in ASCII"),
    (post('{"a":"é"}', f"{JSON}; charset=us-ascii"), "body is not in ASCII"),
    (
        post(PART.replace("1", "é") + "--BB--", f"{PARTS}; charset=us-ascii"),
        "body is not in ASCII",
    ),
    (post(PART + "--BB--", "multipart/form-data"), "multipart body without a boundary"),
    (post("x\r\n" + PART + "--BB--", PARTS), "text in front of the first part"),
    (post(PART + "--BB--", "multipart/form-data; boundary=a#b"), "boundary of unusual characters"),
    (post(PART, PARTS), "multipart body does not end with its boundary"),
    (post(PART + "--BB--\r\nx", PARTS), "multipart body does not end with its boundary"),
    (
        post(PART.replace('; name="a"', "") + "--BB--", PARTS),
        "part whose name can be read in two ways",
    ),
    (
        post(PART.replace("name=", "name*=UTF-8''b; name=") + "--BB--", PARTS),
        "part whose name can be read in two ways",
    ),
    (
        post(
            PART.replace("\r\n\r\n", "\r\nContent-Transfer-Encoding: base64\r\n\r\n") + "--BB--",
            PARTS,
        ),
        "encoded part",
    ),
    (
        post(PART.replace("\r\n\r\n", "\r\nContent-Type: text/json\r\n\r\n") + "--BB--", PARTS),
        'content type "text/json" can be read in two ways',
    ),
]

PASSED: list[bytes] = [
    get(),
    get("/people/1?x=1&x=2&y=a/b"),
    get("/.well-known/x/..a/b.c"),
    get("/a%20b/caf%C3%A9/100%25"),
    get("/~user/a:b@c/$x/(y)!*'+,="),
    get("*", "OPTIONS"),
    get("/?next=http://host//path"),
    get(authorization="Bearer a.b-c_d~e+f/g=="),
    get(authorization='Digest username="a, b", realm="x", nc=1'),
    get(authorization="AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host;x, Signature=c"),
    get(upgrade="websocket"),
    *[get(host=host) for host in ("", "a", "A_b.example.com.", "a-1:8080", "10.0.0.1", "[::1]:80")],
    request("/", headers={"host": "a", ":authority": "a", ":path": "/", ":method": "GET"}),
    with_header_map("authorization", "cookie", "cookie"),
    post("", content_length="0"),
    post('{"a":1}', content_length="7"),
    post('{"a":"é"}', content_length="10"),
    post(b'{"a":1}', content_length="7", x_envoy_auth_partial_body="false"),
    post('{"a":1}', f"{JSON}; charset=utf-8"),
    post('{"a":1}', f"{JSON}; charset=UTF-8", content_encoding="identity"),
    post('[{"a":1},{"a":2}]', "application/json-patch+json"),
    post('{"a":"\\ud83d\\ude00 \\u00e9"}'),
    post("null"),
    post(' {"a":1}\r\n'),
    post('\n\t{"a":1}', f"{JSON}; charset=utf-8"),
    post('[{"_method":"DELETE"}]'),
    post('{"request":{"_method":"DELETE"}}'),
    post("[0e99999999999999999999,-0.0E-99999999999999999999,0e1]"),
    post("[9007199254740992,-9007199254740992,1e22,0.1,1.50,100000000000000000000,5e-324]"),
    post(b"\0\0\0\0\0", "application/grpc"),
    post("a b=x y&c[d]=1&e.f=2&=3&g", FORM),
    post("a=1&a=2&b=c%20d", FORM),
    to("/?a=1&next=/x", "b=2&next=%2Fx"),
    to("/?a=1", PART + "--BB--", PARTS),
    to("/?a=1&b=x&c=true&d=1&d=2&e", '{"a":1,"b":"x","c":true,"d":[1,"2"],"f":{"a":2}}', JSON),
    to("/?a=1", '[{"a":2}]', JSON),
    post("a=1&b=~", f"{FORM}; charset=us-ascii"),
    post('{"a":"\\u00e9"}', f"{JSON}; charset=us-ascii"),
    get("/?ids[]=1&ids[]=2&user[name]=x&user[roles][]=a"),
    get("/?q=a%3Bb"),
    get("/?" + "&".join([f"a{n}=1" for n in range(1000)])),
    post(PART.replace('"a"', '"ids[]"') * 2 + "--BB--", PARTS),
    post("{not json}", "text/plain"),
    post("[see] below", "text/plain"),
    post("2026-01-01 text", "text/plain"),
    post("<a/>", "application/xml"),
    post(b"\x89PNG\r\n\x00", "image/png"),
    post(PART + "--BB--\r\n", PARTS),
    post(PART + PART + "--BB--", PARTS),
]


@pytest.mark.parametrize(("raw", "reason"), REFUSED)
def test_what_can_be_read_in_two_ways_is_refused(raw: bytes, reason: str) -> None:
    with pytest.raises(AmbiguousRequestError) as raised:
        to_input(raw, STRICT)
    assert str(raised.value) == reason


@pytest.mark.parametrize("raw", PASSED)
def test_what_has_one_reading_is_read_as_in_compatible_mode(raw: bytes) -> None:
    assert to_input(raw, STRICT) == to_input(raw, Options())


@pytest.mark.parametrize("raw", [post('{"a":1}x'), post("{"), get("/?a=%zz"), get("/?a=1;b=2")])
def test_what_cannot_be_read_is_refused_as_in_compatible_mode(raw: bytes) -> None:
    with pytest.raises(RequestParseError) as in_strict_mode:
        to_input(raw, STRICT)
    with pytest.raises(RequestParseError) as compatible:
        to_input(raw, Options())
    assert str(in_strict_mode.value) == str(compatible.value)


def test_bodies_are_not_looked_at_when_no_policy_reads_them() -> None:
    options = Options(strict=True, skip_request_body_parse=True)
    assert "parsed_body" not in to_input(post('{"a":1,"a":2}'), options)


def test_a_compressed_grpc_message_is_refused_where_messages_are_read() -> None:
    raw = post(b"\1\0\0\0\0", "application/grpc")
    with pytest.raises(AmbiguousRequestError, match="body is compressed"):
        to_input(raw, STRICT, Services(b""))
    assert to_input(raw, STRICT)["parsed_body"] is None


def test_hostile_bodies_take_no_time() -> None:
    """Each would take minutes if reading it were quadratic."""
    keys = ",".join([f'"k{n}":0' for n in range(100_000)])
    for body in (
        "{" + keys + ',"k99999":1}',
        "[" * 300 + '"' + '\\"' * 500_000,
        '{"a":' * 200 + "[1," * 400_000,
        '"' + "\\u0041" * 300_000 + '\\ud800"',
    ):
        for options in (STRICT, Options()):
            with suppress(RequestError):
                to_input(post(body), options)


def test_reasons_hold_no_more_than_a_piece_of_the_request() -> None:
    secret = "s" * 100
    with pytest.raises(AmbiguousRequestError) as raised:
        to_input(post(f'{{"{secret}":1,"{secret}":2}}'), STRICT)
    assert len(str(raised.value)) < 80


def test_every_reason_is_documented_and_every_documented_reason_is_tested(root: Path) -> None:
    rows = re.findall(
        r"^\| ([^|]+) \| [^|]+\|$", (root / "docs/strict.md").read_text(), re.MULTILINE
    )
    documented = {row for row in rows if row != "reason"}
    given: set[Any] = {
        re.sub(r' "(?:[^"\\]|\\.)*" ', " … ", reason) for _, reason in [*REFUSED, *PARTS_REFUSED]
    }
    given = {re.sub(r':? "(?:[^"\\]|\\.)*"$', "", reason) for reason in given}
    # These two cannot be met before another reason is: they guard what is checked first.
    shadowed = {"NUL in the name of a query parameter", "NUL in the name of a JSON key"}
    assert documented - shadowed == given


@pytest.mark.parametrize(
    "raw",
    [
        post("[" * 100_000, "text/plain"),
        post('{"a":"\\ud800\\ud800"}'),
        post('{"a":"\\ud800\\n"}'),
    ],
)
def test_more_that_can_be_read_in_two_ways(raw: bytes) -> None:
    with pytest.raises(AmbiguousRequestError):
        to_input(raw, STRICT)


def test_a_grpc_frame_that_is_cut_is_refused() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto3")
    file.message_type.add(name="M")
    file.service.add(name="S").method.add(name="Do", input_type=".t.M", output_type=".t.M")
    services = Services(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    raw = request("/t.S/Do", "POST", {"content-type": "application/grpc"}, raw_body=b"\0\0\0\0\1")
    with pytest.raises(AmbiguousRequestError, match="body is cut"):
        to_input(raw, STRICT, services)


def test_names_that_json_does_not_have_are_refused_as_in_compatible_mode() -> None:
    with pytest.raises(RequestParseError, match="invalid character 'N'"):
        to_input(post('{"a":NaN}'), STRICT)


NAMES = st.text(alphabet="aAkK\u212a\u017fsS\u00e9\u00c9e\u0301", min_size=1, max_size=3)


@given(st.lists(st.tuples(NAMES, st.booleans()), max_size=4))
def test_an_object_that_passes_is_the_same_to_every_reader(pairs: list[tuple[str, bool]]) -> None:
    body = "{" + ",".join(f"{json.dumps(name)}:{json.dumps(flag)}" for name, flag in pairs) + "}"
    try:
        built = to_input(post(body), STRICT)
    except AmbiguousRequestError:
        return
    assert built["parsed_body"] == dict(reversed(pairs)) == dict(pairs)
    for fold in (str.lower, str.upper, str.casefold):
        assert len({fold(name) for name, _ in pairs}) == len(pairs)


def test_header_names_are_remembered_within_bounds_and_only_when_they_are_right() -> None:
    for number in range(3 * strict.MAX_REMEMBERED):
        to_input(request("/", headers={f"x-{number}": "1", "accept": "*/*"}), STRICT)
    to_input(request("/", headers={"x" * strict.MAX_REMEMBERED: "1", "x-long": "1"}), STRICT)
    remembered = vars(strict)["_right_names"]
    assert "accept" in remembered
    assert "x-long" not in remembered
    assert len(remembered) <= 2 * strict.MAX_REMEMBERED
    for name in ("Accept", "x_1", "x-rewrite-url"):
        for _ in range(2):
            with pytest.raises(AmbiguousRequestError):
                to_input(request("/", headers={"accept": "*/*", name: "1"}), STRICT)
        assert name not in remembered
