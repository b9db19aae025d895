"""Servers that answer constants: what parsers, loops and connections cost without a decision.

    python -m benchmarks.constant SOCKET

HTTP/1.1 at SOCKET: httptools, a loop, and nothing else. Envoy's Check at SOCKET.grpc, on Doorward's
transport: behind an Envoy this shows what of a request's time is not the decision point's.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any, Final

from httptools import HttpRequestParser

from benchmarks.check_server import constant_check
from doorward.envoy.http2_server import Http2CheckServer
from doorward.envoy.options import Options
from doorward.transport.loop import new_loop

_ANSWER: Final = (
    b"HTTP/1.1 200 OK\r\ndate: Sun, 22 Nov 2026 12:00:00 GMT\r\ncontent-type: application/json"
    b'\r\nvary: Accept-Encoding\r\ncontent-length: 16\r\n\r\n{"result":true}\n'
)


class Constant(asyncio.Protocol):
    """Answers every request with the same bytes."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.parser = HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.url = url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.last = name

    def on_body(self, body: bytes) -> None:
        self.body = body

    def on_message_complete(self) -> None:
        self.transport.write(_ANSWER)


def main(path: str) -> None:
    """Serve until SIGTERM."""
    checks = Http2CheckServer({"v3": constant_check()}, Options(addr=f"unix://{path}.grpc"))
    checks.start()
    loop = new_loop()
    server = loop.run_until_complete(loop.create_unix_server(Constant, path))
    loop.add_signal_handler(signal.SIGTERM, loop.stop)
    loop.run_forever()
    server.close()
    checks.stop(0.5)


if __name__ == "__main__":
    main(sys.argv[1])
