"""A real Envoy with the kit's configuration, a decision point on responses, and an application that
answers byte for byte what a test says."""

from __future__ import annotations

import dataclasses
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml
from tests.envoy.deciders import Fixed
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

from doorward.bundles.loader import Loaded
from doorward.envoy.ext_proc.options import ListOptions, Options
from doorward.envoy.ext_proc.server import ExtProcServer
from doorward.envoy.kit.bootstrap import Bootstrap, to_document
from doorward.envoy.options import Options as CheckOptions
from doorward.envoy.server import make_server
from doorward.pdp.decision import Answered
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build

__all__ = ["ENVOY", "MAX_RESPONSE", "Answer", "Stack", "http_response", "serve"]

ENVOY: Final = Path(sys.executable).with_name("envoy")
MAX_RESPONSE: Final = 64 * 1024

Write = Callable[[socket.socket], object]


def http_response(
    body: bytes = b"",
    *,
    status: str = "200 OK",
    headers: Mapping[str, str] | None = None,
    content_type: str = "application/json",
    length: bool = True,
) -> bytes:
    """A response as an application writes it."""
    fields = {"content-type": content_type} if content_type else {}
    if length:
        fields["content-length"] = str(len(body))
    fields |= headers or {}
    head = "".join([f"{name}: {value}\r\n" for name, value in fields.items()])
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes
    raw: bytes


class Log:
    """Keeps what was decided."""

    def __init__(self) -> None:
        self.answered: list[Answered] = []

    def record(self, answered: Answered) -> None:
        self.answered.append(answered)

    def close(self) -> None:
        """Nothing to write."""


class Stack:
    """What runs, and what was seen."""

    def __init__(
        self, folder: Path, policies: Mapping[str, str], lists: Mapping[str, ListOptions]
    ) -> None:
        self.folder = folder
        self.lists = lists
        self.log = Log()
        self.pdp = PDP(build(Loaded(dict(policies))), self.log)
        self.responses: dict[str, bytes | Write] = {}
        self.requests: list[bytes] = []
        self.options = Options(
            addr=f"unix://{folder}/r.sock", lists=lists, max_body=MAX_RESPONSE // 2
        )
        self.port = free_port()
        self.processor: ExtProcServer | None = None

    def start_processor(self, **changes: Any) -> ExtProcServer:
        """Decide on responses from now on."""
        self.options = dataclasses.replace(self.options, **changes)
        self.processor = ExtProcServer(self.pdp, self.options)
        self.processor.start()
        return self.processor

    def stop_processor(self, grace: float = 0) -> None:
        """Decide no more."""
        if self.processor is not None:
            self.processor.stop(grace)
            self.processor = None

    def send(
        self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request, and all that comes back until the connection ends."""
        with closing(
            socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        ) as client:
            fields = {"host": "x", "connection": "close", **(headers or {})}
            lines = [f"{method} {path} HTTP/1.1", *[f"{k}: {v}" for k, v in fields.items()]]
            client.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
            raw = b""
            with suppress(ConnectionResetError):
                while chunk := client.recv(1 << 16):
                    raw += chunk
        return read_answer(raw)


def read_answer(raw: bytes) -> Answer:
    head, _, body = raw.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    if headers.get("transfer-encoding") == "chunked":
        body = _join_chunks(body)
    code = status.split(" ")[1] if " " in status else "0"
    return Answer(int(code), headers, body, raw)


def _join_chunks(body: bytes) -> bytes:
    joined = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        count = int(size, 16)
        if not count:
            break
        joined += rest[:count]
        body = rest[count + 2 :]
    return joined


class _Application:
    """Reads heads of requests, and writes what the table says for their path."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with closing(client), suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                more = client.recv(1 << 16)
                if not more:
                    return
                head += more
            self._stack.requests.append(head)
            path = head.split(b" ")[1].decode().partition("?")[0]
            answer = self._stack.responses[path]
            if callable(answer):
                answer(client)
            else:
                first, _, rest = answer.partition(b"\r\n")
                client.sendall(first + b"\r\nconnection: close\r\n" + rest)

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@contextmanager
def serve(
    folder: Path,
    policies: Mapping[str, str],
    lists: Mapping[str, ListOptions] | None = None,
    *,
    change: Callable[[dict[str, Any]], object] = lambda _filter: None,
    late_after: float = PATIENCE,
    processors: tuple[str, ...] = ("unix:r.sock",),
) -> Iterator[Stack]:
    """`late_after`: seconds of a message. `change`: differences from the kit's filter.

    `processors`: the addresses that decide on responses."""
    stack = Stack(folder, policies, lists or {})
    with ExitStack() as ends:
        application = ends.enter_context(closing(_Application(stack)))
        check = make_server(Fixed(True), CheckOptions(addr=f"unix://{folder}/c.sock"))
        check.start()
        ends.callback(check.stop, 0)
        stack.start_processor()
        ends.callback(stack.stop_processor)
        document = to_document(
            Bootstrap(
                listen=f"127.0.0.1:{stack.port}",
                upstream=f"127.0.0.1:{application.port}",
                pdp=("unix:c.sock",),
                responses=processors,
                timeout=PATIENCE,
                upstream_timeout=PATIENCE,
                response_timeout=late_after,
                max_response=MAX_RESPONSE,
            )
        )
        [chain] = document["static_resources"]["listeners"][0]["filter_chains"]
        filters = chain["filters"][0]["typed_config"]["http_filters"]
        change(next(each for each in filters if "ext_proc" in each["name"])["typed_config"])
        (folder / "envoy.yaml").write_text(yaml.safe_dump(document))
        command = [
            *(str(ENVOY), "-c", "envoy.yaml", "--disable-hot-restart", "--concurrency", "1"),
            *("--file-flush-interval-msec", "100"),
        ]
        log = ends.enter_context((folder / "envoy.log").open("wb"))
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.DEVNULL)
        ends.callback(process.wait, PATIENCE)
        ends.callback(process.terminate)
        stack.responses["/ready"] = http_response(b"{}")
        wait_until(lambda: _is_ready(stack, process))
        stack.requests.clear()
        stack.log.answered.clear()
        yield stack


def _is_ready(stack: Stack, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None
    try:
        return bool(re.match(rb"HTTP/1.1 [2-5]", stack.send("/ready").raw))
    except OSError:
        return False
