"""What a proxy says of a request, and what it must not say."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.enforcement.errors import AmbiguousRequestError
from doorward.enforcement.http_input import HttpRequest
from doorward.forward.options import Options
from doorward.forward.request import PROXIES, SecretError, proxy_of, read_question

FORWARDED = {
    "x-forwarded-method": "GET",
    "x-forwarded-uri": "/a?b=1",
    "x-forwarded-host": "a.example",
    "x-forwarded-proto": "https",
    "x-forwarded-for": "192.0.2.1",
}
QUESTIONS: dict[str, dict[str, str]] = {
    "caddy": FORWARDED,
    "haproxy": FORWARDED,
    "traefik": FORWARDED,
    "nginx": {
        "x-original-method": "GET",
        "x-original-uri": "/a?b=1",
        "host": "a.example",
        "x-forwarded-proto": "https",
        "x-forwarded-for": "192.0.2.1",
    },
    "envoy": {"host": "a.example", "x-forwarded-proto": "https", "x-forwarded-for": "192.0.2.1"},
}


def read(name: str, *more: tuple[str, str], body: bytes = b"", **options: Any) -> HttpRequest:
    return read_pairs(name, [*QUESTIONS[name].items(), *more], body, **options)


def read_pairs(
    name: str, pairs: list[tuple[str, str]], body: bytes = b"", method: str = "GET", **options: Any
) -> HttpRequest:
    encoded = [(key.encode(), value.encode()) for key, value in pairs]
    return read_question(name, method, "/a?b=1", encoded, body, False, Options(**options))


def test_every_proxy_has_its_question() -> None:
    assert QUESTIONS.keys() == PROXIES.keys()


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_request_is_the_clients(name: str) -> None:
    request = read(name, ("accept", "*/*"), ("cookie", "a=1"))
    assert request == HttpRequest(
        "GET",
        "/a?b=1",
        {"accept": "*/*", "cookie": "a=1"},
        "a.example",
        "https",
        source=("192.0.2.1", 0),
    )


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_only_the_proxy_may_set_is_there_once(name: str) -> None:
    for header in QUESTIONS[name]:
        rest = [pair for pair in QUESTIONS[name].items() if pair[0] != header]
        value = QUESTIONS[name][header]
        if header == "x-forwarded-for":
            assert read_pairs(name, rest).source is None
            assert read_pairs(name, [*rest, (header, "a, b")]).source is None
            continue
        with pytest.raises(AmbiguousRequestError, match=f"header {header} is missing"):
            read_pairs(name, rest)
        for more in [[(header, value)] * 2, [(header, value), (header.title(), "x")]]:
            with pytest.raises(
                AmbiguousRequestError, match=f"header {header} must be sent only once"
            ):
                read_pairs(name, [*rest, *more])


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize(
    "header",
    [
        "x-original-uri",
        "x-forwarded-uri",
        "x-forwarded-method",
        "X-Original-Method",
        "x-rewrite-url",
        "x-http-method-override",
        "x-forwarded-user",
        "remote-user",
    ],
)
def test_what_another_proxy_would_set_is_refused(name: str, header: str) -> None:
    if header.lower() in QUESTIONS[name]:
        return
    with pytest.raises(AmbiguousRequestError, match="header that only a proxy may set"):
        read(name, (header, "/x"))


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("x-forwarded-proto", "ftp"),
        ("x-forwarded-proto", "https,http"),
        ("x-forwarded-host", "a,b"),
        ("x-forwarded-method", "GET,POST"),
    ],
)
def test_values_that_are_two_are_refused(header: str, value: str) -> None:
    with pytest.raises(AmbiguousRequestError, match="malformed method, scheme or host"):
        read_pairs("traefik", [*{**FORWARDED, header: value}.items()])


def test_a_secret_says_that_it_is_our_proxy() -> None:
    secret = "x" * 20
    assert read("caddy", ("X-Doorward-Secret", secret), secret=secret).headers == {}
    for pairs in [[], [("x-doorward-secret", "y" * 20)], [("x-doorward-secret", secret)] * 2]:
        with pytest.raises(SecretError):
            read("caddy", *pairs, secret=secret)


@pytest.mark.parametrize(
    ("method", "pairs", "is_cut"),
    [
        ("GET", [], False),
        ("GET", [("x-original-content-length", "")], False),
        ("GET", [("x-original-content-length", "5")], True),
        ("GET", [("x-original-transfer-encoding", "chunked")], True),
        ("GET", [("content-length", "0")], False),
        ("POST", [], True),
        ("POST", [("x-original-content-length", "0")], False),
        ("POST", [("content-length", "0")], True),
        ("POST", [("x-original-content-length", "0")] * 2, True),
        ("DELETE", [], True),
    ],
)
def test_a_body_that_is_not_seen_is_cut(
    method: str, pairs: list[tuple[str, str]], is_cut: bool
) -> None:
    question = {**FORWARDED, "x-forwarded-method": method}
    assert read_pairs("haproxy", [*question.items(), *pairs]).is_cut is is_cut


@pytest.mark.parametrize(
    ("pairs", "is_cut"),
    [
        ([("x-original-content-length", "2")], False),
        ([("x-original-content-length", "3")], True),
        ([("x-original-content-length", "2")] * 2, True),
        ([], True),
    ],
)
def test_a_body_is_as_long_as_the_client_said(pairs: list[tuple[str, str]], is_cut: bool) -> None:
    request = read("haproxy", *pairs, ("content-length", "2"), body=b"{}")
    assert (request.body, request.is_cut) == (b"{}", is_cut)
    assert request.headers == {"content-length": "2"}


def test_a_body_that_the_proxy_sends_is_the_clients() -> None:
    headers = [("content-length", "2"), ("content-type", "application/json")]
    request = read("traefik", *headers, body=b"{}")
    assert (request.body, request.is_cut, request.headers) == (b"{}", False, dict(headers))
    envoy = read("envoy", ("x-envoy-auth-partial-body", "true"), body=b"{}")
    assert envoy.is_cut
    assert read("envoy", body=b"x" * 10, max_body=10).is_cut
    assert not read("envoy", body=b"x" * 9, max_body=10).is_cut


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/auth/nginx", ("nginx", "")),
        ("/auth/caddy?x=1", ("caddy", "?x=1")),
        ("/auth/envoy/a/b?c", ("envoy", "/a/b?c")),
        ("/auth/envoy//a", ("envoy", "//a")),
        ("/auth/nginx/a", ("", "")),
        ("/auth/nginxx", ("", "")),
        ("/auth/", ("", "")),
        ("/other", ("", "")),
    ],
)
def test_an_endpoint_belongs_to_one_proxy(target: str, expected: tuple[str, str]) -> None:
    assert proxy_of(target) == expected


@pytest.mark.parametrize("name", ["envoy", "traefik"])
def test_a_client_cannot_say_that_there_is_no_body(name: str) -> None:
    for header in ("x-original-content-length", "X-Original-Transfer-Encoding"):
        with pytest.raises(AmbiguousRequestError, match="header that only a proxy may set"):
            read(name, (header, "0"))
