"""A daemon that remembers every byte that it gets, and answers as it is told."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import PATIENCE

__all__ = ["OK", "FakeDaemon", "fake_daemon", "talk"]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}"


class FakeDaemon:
    """Answers each piece of bytes that is received with `answer`."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.received: list[bytes] = []
        self.answer = OK
        self.closes = False
        """Whether a connection ends after its first answer."""
        self.answers_after = b""
        """The last bytes of a request that is answered; empty for every piece of bytes."""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(64)
        self._ends: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def content(self) -> bytes:
        """All that came that is not a question of the proxy itself."""
        return b"".join(each for each in self.received if b"x-doorward-self" not in each.lower())

    @property
    def connections(self) -> int:
        """The connections that were made so far."""
        return len(self._ends)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                end, _ = self._listener.accept()
                self._ends.append(end)
                threading.Thread(target=self._answer, args=(end,), daemon=True).start()

    def _answer(self, end: socket.socket) -> None:
        with contextlib.suppress(OSError), end:
            while content := end.recv(1 << 16):
                self.received.append(content)
                if not content.endswith(self.answers_after):
                    continue
                # What is set once the answer is there is for the next one.
                closes = self.closes
                end.sendall(self.answer)
                if closes:
                    return

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._ends:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@contextmanager
def fake_daemon(path: Path) -> Iterator[FakeDaemon]:
    daemon = FakeDaemon(path)
    try:
        yield daemon
    finally:
        daemon.close()


def talk(path: str, content: bytes, *, until: bytes = b"") -> bytes:
    """Send bytes, and read until these come, or the other side closes."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE)
        client.connect(path)
        with contextlib.suppress(BrokenPipeError):
            client.sendall(content)
        received = b""
        resets = 0
        while not (until and until in received):
            try:
                piece = client.recv(1 << 16)
            except ConnectionResetError:
                # Once, before what is there to read, where some of what was sent was left unread.
                resets += 1
                if resets > 1:
                    break
                continue
            if not piece:
                break
            received += piece
        return received
