"""References that are resolved against a URL, as in Go."""

from __future__ import annotations

import pytest

from doorward.rego.errors import BuiltinError
from doorward.rego.golang.urls import read_url, resolve


@pytest.mark.parametrize(
    ("base", "reference", "expected"),
    [
        ("", "#a", "#a"),
        ("", "a", "/a"),
        ("", "../a", "/a"),
        ("", "./a", "/a"),
        ("", "././/a", "//a"),
        ("a", "?x", "/a?x"),
        ("a?x", "#f", "/a?x#f"),
        ("a?x", "?", "/a?"),
        ("a#f", "", "/a"),
        ("/a", "..//b", "/b"),
        ("urn:a", "#f", "urn:a#f"),
        ("urn:a", "b", "urn:///b"),
        ("http://a", "b", "http://a/b"),
        ("http://a/b/c", "../../../d", "http://a/d"),
        ("http://a/b/c", ".", "http://a/b/"),
        ("http://a/b/c", "..", "http://a/"),
        ("http://a/b/c", "//x/../y", "http://x/y"),
        ("http://u:p@a/b", "c%2fd", "http://u:p@a/c%2fd"),
        ("http://a/b", "HTTPS://c", "https://c"),
        ("http://a/b", "a:b", "a:b"),
    ],
)
def test_a_reference_is_resolved(base: str, reference: str, expected: str) -> None:
    assert str(resolve(read_url(base), read_url(reference))) == expected


@pytest.mark.parametrize("url", ["http://a:1:2", "HTTPS://a::1", "http://::1", "ftp://[::1]:1:2"])
def test_a_host_has_one_port(url: str) -> None:
    with pytest.raises(BuiltinError, match="invalid port"):
        read_url(url)


def test_only_hosts_of_http_have_no_other_colons() -> None:
    assert read_url("postgres://a:1,b:2/c").host == "a:1,b:2"
