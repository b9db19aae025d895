"""A client of BuildKit without buildx: the session over which the daemon reads a build's context.

The daemon upgrades `POST /session` and then calls us over it, in gRPC. A server on a Unix socket
answers; bytes are carried between the two. Files are sent as the daemon's fsutil wants them: a
packet for each entry, the content of those that it asks for, and an end that it repeats.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from types import TracebackType
from typing import Final

import grpc

__all__ = ["Session", "carry"]

_METHODS: Final = ("/moby.filesync.v1.FileSync/DiffCopy", "/grpc.health.v1.Health/Check")
_STAT, _REQUEST, _DATA, _END = range(4)


class Session:
    """An open session that offers the files of a context; a context manager."""

    def __init__(self, daemon: str, folder: Path, files: dict[str, bytes]) -> None:
        self.identifier = secrets.token_hex(12)
        self.status = 0
        """Of the daemon's answer: 101 where the session is open."""
        self.refusal = ""
        self._daemon = daemon
        self._socket = str(folder / "session.sock")
        self._files = sorted(files.items())
        self._server = grpc.server(futures.ThreadPoolExecutor(8))
        self._ends: list[socket.socket] = []

    def __enter__(self) -> Session:
        copy = grpc.stream_stream_rpc_method_handler(_Files(self._files).copy)
        check = grpc.unary_unary_rpc_method_handler(lambda _request, _context: b"\x08\x01")
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(
                    "moby.filesync.v1.FileSync", {"DiffCopy": copy}
                ),
                grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": check}),
            )
        )
        self._server.add_insecure_port(f"unix:{self._socket}")
        self._server.start()
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._server.stop(None).wait()

    def _open(self) -> None:
        """Ask the daemon to upgrade, and carry bytes from then on."""
        daemon = socket.socket(socket.AF_UNIX)
        self._ends.append(daemon)
        daemon.connect(self._daemon)
        lines = [
            "POST /v1.41/session HTTP/1.1",
            "Host: docker",
            "Connection: Upgrade",
            "Upgrade: h2c",
            "Content-Length: 0",
            f"X-Docker-Expose-Session-Uuid: {self.identifier}",
            "X-Docker-Expose-Session-Name: test",
            "X-Docker-Expose-Session-Sharedkey: ",
            *(f"X-Docker-Expose-Session-Grpc-Method: {method}" for method in _METHODS),
        ]
        daemon.sendall("\r\n".join([*lines, "", ""]).encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = daemon.recv(1)
            if not byte:
                break
            head += byte
        self.status = int(head.split(b" ", 2)[1])
        if self.status != 101:
            self.refusal = daemon.recv(65536).decode()
            return
        server = socket.socket(socket.AF_UNIX)
        self._ends.append(server)
        server.connect(self._socket)
        for source, sink in ((daemon, server), (server, daemon)):
            threading.Thread(target=carry, args=(source, sink), daemon=True).start()


def carry(source: socket.socket, sink: socket.socket) -> None:
    """Carry bytes one way until one side ends."""
    with contextlib.suppress(OSError):
        while chunk := source.recv(65536):
            sink.sendall(chunk)
        sink.shutdown(socket.SHUT_WR)


class _Files:
    """Messages are bytes: what little of protobuf there is in them is written here."""

    def __init__(self, files: list[tuple[str, bytes]]) -> None:
        self._files = files

    def copy(self, requests: Iterator[bytes], _context: object) -> Iterator[bytes]:
        for name, content in self._files:
            entry = _text(1, name.encode()) + _number(2, 0o644) + _number(5, len(content))
            yield _number(1, _STAT) + _text(2, entry)
        yield _number(1, _STAT)
        for request in requests:
            fields = _fields(request)
            kind, identifier = fields.get(1, 0), fields.get(3, 0)
            if kind == _REQUEST:
                content = self._files[identifier][1]
                for part in (content, b"") if content else (b"",):
                    yield (
                        _number(1, _DATA)
                        + _number(3, identifier)
                        + (_text(4, part) if part else b"")
                    )
            elif kind == _END:
                yield _number(1, _END)
                return


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _text(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _fields(message: bytes) -> dict[int, int]:
    """The numbers in a message, by field; what is not a number is left out."""
    numbers, at = {}, 0

    def read() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = read()
        if key & 7 == 0:
            numbers[key >> 3] = read()
        else:
            at += read()
    return numbers
