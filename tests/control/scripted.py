"""A service that answers by a script, in this process: what OPA's recorded server did."""

from __future__ import annotations

import base64
import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import httpx

__all__ = ["Script"]


class _Cut(httpx.SyncByteStream):
    """A body that ends before its length."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __iter__(self) -> Iterator[bytes]:
        yield self._content
        raise httpx.RemoteProtocolError(
            "peer closed connection without sending complete message body"
        )


class Script(httpx.BaseTransport):
    """Answers by path, in order; the last answer of a path is repeated."""

    def __init__(self, answers: dict[str, list[dict[str, Any]]]) -> None:
        self.answers = answers
        self.requests: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.port == 1:
            raise httpx.ConnectError("connection refused")
        path = request.url.path
        content = request.read()
        listed = self.answers.get(path)
        number = len(self.requests[path])
        self.requests[path].append(
            {"method": request.method, "headers": dict(request.headers), "content": content}
        )
        if not listed:
            return httpx.Response(404)
        answer = listed[min(number, len(listed) - 1)]
        if answer.get("closed"):
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
        delay, limit = answer.get("delay_seconds", 0), request.extensions["timeout"]["read"]
        if delay and limit is not None and delay > limit:
            raise httpx.ReadTimeout("timed out")
        headers = {
            name: value.replace("http://SERVER", "http://server")
            for name, value in answer.get("headers", {}).items()
        }
        same = answer.get("answers_304_when_if_none_match_equals_etag")
        if same and request.headers.get("if-none-match") == headers.get("ETag"):
            return httpx.Response(304, headers=headers)
        body = base64.b64decode(answer["body_b64"]) if "body_b64" in answer else b""
        body = body or answer.get("body", "").encode()
        if "declared_length" in answer:
            return httpx.Response(answer["status"], headers=headers, stream=_Cut(body))
        return httpx.Response(answer["status"], headers=headers, content=body)

    def contents(self, path: str) -> list[bytes]:
        """What was sent to a path."""
        return [each["content"] for each in self.requests[path]]

    def events(self, path: str) -> list[list[Any]]:
        """The decisions of each upload."""
        return [json.loads(gzip.decompress(each["content"])) for each in self.requests[path]]
