"""Services that lie: whatever they send, a request ends, with a reason and in bounded memory."""

from __future__ import annotations

import contextlib
import gzip
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from socketserver import BaseRequestHandler, ThreadingTCPServer

import pytest

from doorward.config.bundle_options import BundleOptions
from doorward.config.configuration import parse_config
from doorward.config.services import Service
from doorward.control.answers import ServiceError
from doorward.control.client import ServiceClient
from doorward.control.downloads import Download, Downloader, DownloadError
from doorward.control.rounds import drive
from doorward.rego.shared import Timers

LIMIT = 1 << 20


class _Server(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    answer = b""


class _Handler(BaseRequestHandler):
    """Sends the same bytes to each client, and closes."""

    def handle(self) -> None:
        assert isinstance(self.server, _Server)
        self.request.recv(1 << 16)
        with contextlib.suppress(OSError):  # the client has heard enough
            self.request.sendall(self.server.answer)


@pytest.fixture
def say() -> Iterator[Callable[[bytes], ServiceClient]]:
    """A client of a server that says these bytes."""
    server = _Server(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    client = ServiceClient(Service("s", url))

    def saying(answer: bytes) -> ServiceClient:
        server.answer = answer.replace(b"URL", url.encode())
        return client

    yield saying
    client.close()
    server.shutdown()
    server.server_close()


def answer(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    lines = [f"HTTP/1.1 {status}", f"content-length: {size}", "connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


BOMB = gzip.compress(bytes(1 << 25))
LIES = {
    "more than is allowed": (answer(b"x" * (LIMIT + 1)), "larger than"),
    "a bomb": (answer(BOMB, "content-encoding: gzip"), "larger than"),
    "bombs in bombs": (
        answer(gzip.compress(gzip.compress(BOMB)), "content-encoding: gzip, gzip, gzip"),
        "neither gzip nor deflate",
    ),
    "nobody asked for this": (answer(b"x", "content-encoding: br"), "neither gzip nor deflate"),
    "half of what is packed": (answer(BOMB[:50], "content-encoding: gzip"), "unexpected EOF"),
    "less than is announced": (answer(b"x", length=1_000), "unexpected EOF"),
    "nothing": (b"", "EOF"),
    "no HTTP": (b"SSH-2.0-OpenSSH_9\r\n\r\n", ""),
    "a header without an end": (b"HTTP/1.1 200 OK\r\nx: " + b"y" * (1 << 20), ""),
    "too many headers": (answer(b"", *[f"x{n}: y" for n in range(100_000)]), ""),
    "two lengths": (answer(b"xx", "content-length: 1"), ""),
    "a length below zero": (b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nx", ""),
    "a redirect to itself": (answer(b"", "location: URL/x", status="302 Found"), "redirect"),
    "a redirect to a file": (answer(b"", "location: file:///etc/passwd", status="302 Found"), ""),
    "a redirect to nowhere": (answer(b"", "location: http://", status="302 Found"), ""),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_an_error_in_bounded_memory(
    lie: str, say: Callable[[bytes], ServiceClient]
) -> None:
    content, reason = LIES[lie]
    client = say(content)
    tracemalloc.start()
    try:
        with pytest.raises(ServiceError) as error:
            client.request("GET", "bundle", limit=LIMIT)
        assert tracemalloc.get_traced_memory()[1] < 16 * LIMIT
    finally:
        tracemalloc.stop()
    assert reason in str(error.value)


def options() -> BundleOptions:
    text = '{"services": {"s": {"url": "http://s"}}, "bundles": {"b": {"resource": "b"}}}'
    return parse_config(text, environment={}).bundles["b"]


@pytest.mark.parametrize(
    "content",
    [
        answer(b""),
        answer(b"{}", "content-type: application/json"),
        answer(gzip.compress(b"no archive")),
        answer(gzip.compress(bytes(1 << 12))[:-4]),
        answer(b"", "etag: x", status="204 No Content"),
        answer(b"", "etag: x", status="500 Internal Server Error"),
    ],
)
def test_what_is_no_bundle_leaves_nothing_behind(
    content: bytes, say: Callable[[bytes], ServiceClient]
) -> None:
    downloader = Downloader(options(), say(content))
    with pytest.raises(DownloadError):
        drive(downloader.fetch(Timers(())))
    assert downloader.etag == ""


def test_nothing_new_is_no_bundle_where_there_was_none(
    say: Callable[[bytes], ServiceClient],
) -> None:
    client = say(answer(b"", status="304 Not Modified"))
    assert drive(Downloader(options(), client).fetch(Timers(()))) == Download(None, "")
