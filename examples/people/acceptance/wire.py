"""Requests become exactly the bytes that the matrix says, and bytes that come back an `Answer`.

No HTTP library: one would correct the requests that matter here. This module knows no row and no
port but the one it is told.
"""

from __future__ import annotations

import re
import socket
import time
from contextlib import closing
from dataclasses import dataclass

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes
    seconds: float


def write_request(
    method: str,
    target: str,
    headers: tuple[tuple[str, str], ...] = (),
    body: bytes | None = None,
    *,
    chunked: bool = False,
) -> bytes:
    """One HTTP/1.1 request that ends its connection; a body is framed by length or in chunks."""
    lines = [f"{method} {target} HTTP/1.1", f"host: {HOST}", "connection: close"]
    lines += [f"{name}: {value}" for name, value in headers]
    content = body or b""
    if chunked:
        lines.append("transfer-encoding: chunked")
        middle = len(content) // 2
        parts = [part for part in (content[:middle], content[middle:]) if part]
        content = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in [*parts, b""])
    elif body is not None:
        lines.append(f"content-length: {len(content)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + content


def send(port: int, request: bytes, *, within: float, host: str = HOST) -> Answer:
    """Send the bytes and read one answer. OSError when it does not come in time or not at all."""
    begin = time.monotonic()
    with closing(socket.create_connection((host, port), timeout=within)) as connection:
        connection.sendall(request)
        received = b""
        is_head = request.startswith(b"HEAD ")
        while not _is_whole(received, is_head=is_head):
            connection.settimeout(max(0.001, begin + within - time.monotonic()))
            chunk = connection.recv(65536)
            if not chunk:
                break
            received += chunk
    if not received:
        raise ConnectionResetError("the connection was closed without an answer")
    return _read_answer(received, time.monotonic() - begin)


def _is_whole(received: bytes, *, is_head: bool) -> bool:
    head, end, body = received.partition(b"\r\n\r\n")
    if not end:
        return False
    if is_head or re.match(rb"HTTP/1.1 204 ", head):
        return True
    length = re.search(rb"\ncontent-length: (\d+)", head, re.IGNORECASE)
    # Without a length the end of the connection is the end of the body.
    return length is not None and len(body) >= int(length[1])


def _read_answer(received: bytes, seconds: float) -> Answer:
    head, _, body = received.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return Answer(int(status.split(" ")[1]), headers, body, seconds)
