"""A document of an issuer is one JSON object of a bounded size, from the address that was asked."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from doorward.pdp import issuer_documents
from doorward.pdp.issuer_documents import DocumentError, fetch_document, issuer_client

URL = "https://issuer.example/keys"


def fetch(answer: httpx.Response | Exception, **more: Any) -> Any:
    def respond(request: httpx.Request) -> httpx.Response:
        if isinstance(answer, Exception):
            raise answer
        assert request.headers["accept"] == "application/json"
        return answer

    with issuer_client(httpx.MockTransport(respond)) as client:
        return fetch_document(client, URL, **more)


def test_a_document_is_an_object() -> None:
    assert fetch(httpx.Response(200, json={"keys": []})) == {"keys": []}
    assert fetch(httpx.Response(200, json={}), method="POST", form={"code": "c"}) == {}


@pytest.mark.parametrize(
    ("answer", "reason", "status"),
    [
        (httpx.Response(302, headers={"location": "https://evil.example"}), "status 302", 302),
        (httpx.Response(500, json={}), "status 500", 500),
        (httpx.Response(200, json=[1]), "not a JSON object", 200),
        (httpx.Response(200, text="{"), "not JSON", 200),
        (httpx.Response(200, text='{"a": 1, "a": 2}'), "an object in it repeats a name", 200),
        (httpx.Response(200, text="[" * 100_000), "not JSON", 200),
        (httpx.ConnectError("no"), "ConnectError", None),
        (httpx.ReadTimeout("no"), "ReadTimeout", None),
    ],
)
def test_what_is_none_says_why(answer: Any, reason: str, status: int | None) -> None:
    with pytest.raises(DocumentError, match=reason) as raised:
        fetch(answer)
    assert (raised.value.status, raised.value.is_too_long) == (status, False)


def test_a_document_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        DocumentError, match="issuer's answer is larger than 1048576 bytes"
    ) as raised:
        fetch(httpx.Response(200, text=" " * (2 << 20)))
    assert raised.value.is_too_long
    monkeypatch.setattr(issuer_documents, "WITHIN", -1.0)
    with pytest.raises(DocumentError, match="issuer's answer took longer") as raised:
        fetch(httpx.Response(200, json={"keys": []}))
    assert raised.value.is_too_long
