"""URLs from outside never raise when they are split."""

from __future__ import annotations

import pytest

from doorward.base.urls import split_url


def test_a_url_is_split() -> None:
    parts = split_url("https://a.example:1/b?c#d")
    assert (parts.scheme, parts.netloc, parts.path) == ("https", "a.example:1", "/b")


@pytest.mark.parametrize(
    "text",
    [
        "http://[",
        "http://[::g]/",
        "http://a]/",
        "http://ex℀mple.com/",
        "http://a:65536/",
        "http://a:x/",
    ],
)
def test_a_url_that_python_refuses_has_no_parts(text: str) -> None:
    assert split_url(text) == ("", "", "", "", "")
