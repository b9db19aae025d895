"""An in-process client that sends paths and headers to an ASGI application as they are."""

from __future__ import annotations

import asyncio
import gzip
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message


@dataclass
class Answer:
    """What came back; `body` is unzipped text."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes = b""

    @property
    def body(self) -> str:
        zipped = self.headers.get("content-encoding") == "gzip"
        return (gzip.decompress(self.raw) if zipped else self.raw).decode()


def ask(
    app: ASGIApp,
    method: str,
    target: str,
    body: bytes | list[bytes] = b"",
    headers: dict[str, str] | list[tuple[bytes, bytes]] | None = None,
) -> Answer:
    """One request; `body` may come in several pieces."""
    path, _, query = target.partition("?")
    chunks = [body] if isinstance(body, bytes) else list(body)
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": headers if isinstance(headers, list) else _encoded(headers or {}),
        "server": ("127.0.0.1", 8181),
        "client": ("127.0.0.1", 1),
    }
    answer = Answer()

    async def receive() -> Message:
        chunk = chunks.pop(0) if chunks else b""
        return {"type": "http.request", "body": chunk, "more_body": bool(chunks)}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {k.decode(): v.decode("latin-1") for k, v in message["headers"]}
        else:
            answer.raw += message.get("body", b"")

    async def serve() -> None:
        await app(scope, receive, send)

    asyncio.run(serve())
    return answer


def _encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]
