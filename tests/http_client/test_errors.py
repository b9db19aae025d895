"""Errors of requests name them, and quote nothing that may be a credential."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from doorward.http_client.errors import describe_failure, describe_request


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://h/x", 'Get "https://h/x"'),
        ("https://u:p@h/x", 'Get "https://u:***@h/x"'),
        ("https://u@h/x", 'Get "https://u:***@h/x"'),
        ("https://u:p@q@h", 'Get "https://u:***@h"'),
        ("https://h/a@b", 'Get "https://h/a@b"'),
        ("http://[u:p@h", 'Get "http://[u:***@h"'),
    ],
)
def test_a_request_is_named_without_its_password(url: str, expected: str) -> None:
    assert describe_request("GET", url) == expected


def encode() -> None:
    "geheim\xe9".encode("ascii")


def send() -> None:
    raise httpx.LocalProtocolError("Illegal header value b'geheim\\n'")


@pytest.mark.parametrize("action", [encode, send])
def test_a_header_that_cannot_be_sent_is_not_quoted(action: Callable[[], None]) -> None:
    with pytest.raises((httpx.HTTPError, ValueError)) as caught:
        action()
    text = describe_failure(caught.value)
    assert "characters that HTTP does not allow" in text
    assert "geheim" not in text
    assert "xe9" not in text
