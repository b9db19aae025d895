"""The server that `bench --e2e` measures: a process of its own, asked over a Unix socket."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from socket import AF_UNIX, SOCK_STREAM
from socket import socket as Socket
from types import TracebackType
from typing import Any, Final
from urllib.parse import quote

from doorward.base.os_errors import os_reason
from doorward.bundles.loader import LoadError
from doorward.rego import Undefined, Value, to_json
from doorward.rego.shared import Key

__all__ = ["BenchServer", "arguments_of", "question"]

STARTING: Final = 60.0
"""Seconds within which the server must answer after its start."""
_PAUSE: Final = 0.02
_WITHIN: Final = 60.0


def arguments_of(options: Mapping[str, Any]) -> list[str]:
    """Return the arguments of `doorward run` that correspond to the options of `bench`; signatures
    of bundles are not verified.
    """
    arguments = [f"--ignore={each}" for each in options["ignore"]]
    arguments += [f"--builtins={each}" for each in options["builtins"]]
    for name in ("config_file", "shutdown_grace_period", "shutdown_wait_period"):
        if options[name] is not None:
            arguments.append(f"--{name.replace('_', '-')}={options[name]}")
    if options["v0_compatible"]:
        arguments.append("--v0-compatible")
    if options["bundle"]:
        arguments += ["--bundle", "--skip-verify"]
    return [*arguments, "--", *options["data"], *options["bundle"]]


def question(
    text: str, input: Value | Undefined, options: Mapping[str, Any]
) -> tuple[str, dict[Key, Value]]:
    """Return the path and the body of the request that OPA's `bench` sends for a query; an
    undefined input is sent as {}.
    """
    body: dict[Key, Value] = {"input": {} if isinstance(input, Undefined) else input}
    if options["partially"]:
        path = "compile"
        body |= {"query": text, "unknowns": list(options["unknowns"])}
    elif text.startswith("data.") and all(map(str.isidentifier, text.split("."))):
        path = text.replace(".", "/")
    else:
        path = "query"
        body["query"] = text
    return f"/v1/{quote(path)}{'?metrics=true' if options['metrics'] else ''}", body


class _Connection(HTTPConnection):
    """An HTTP connection to the measured server over its Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_WITHIN)
        self._path = path

    def connect(self) -> None:
        """Connect to the server's Unix socket; OSError if it does not listen."""
        self.sock = Socket(AF_UNIX, SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _object(text: bytes) -> dict[str, Any]:
    """Return the JSON object of an answer; raise LoadError if it is not one."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise LoadError(["the server's answer is not a JSON object"])
    return answer


class BenchServer:
    """A context manager: a server process on a Unix socket in a folder of its own.

    Entering blocks until it answers; raise LoadError, with its output, if it does not start.
    Leaving ends it.
    """

    def __init__(self, arguments: Sequence[str], *, grace: float) -> None:
        """Prepare a server, not started, and its folder. `arguments` are those of `doorward run`;
        `grace` are the seconds that the server gets to end.
        """
        self._arguments = arguments
        self._grace = grace
        self._folder = tempfile.TemporaryDirectory(prefix="doorward-bench-")
        self._path = os.path.join(self._folder.name, "socket")
        self._connection = _Connection(self._path)

    def __enter__(self) -> BenchServer:
        """Start the server and block until it answers; stop it and raise LoadError, with its
        output, if it ends or does not answer within `STARTING` seconds.
        """
        command = [
            sys.executable,
            "-m",
            "doorward",
            "run",
            "--server",
            f"--addr=unix://{self._path}",
        ]
        # A file: a pipe that nobody reads would stop the server once it is full.
        self._log = open(os.path.join(self._folder.name, "log"), "w+b")
        self._process = subprocess.Popen(
            [*command, "--log-level=error", *self._arguments], stdout=self._log, stderr=self._log
        )
        until = time.monotonic() + STARTING
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                self.__exit__(None, None, None)
                raise LoadError([self._said or "the server did not start in time"])
            time.sleep(_PAUSE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        """Terminate the server, kill it after its grace period, and delete its folder."""
        self._connection.close()
        self._process.terminate()
        try:
            self._process.wait(self._grace + 5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.seek(0)
        lines = self._log.read(1 << 16).decode(errors="replace").splitlines()
        self._said = "\n".join(line.removeprefix("error: ") for line in lines if line[:1] != "{")
        self._log.close()
        self._folder.cleanup()

    def _answers(self) -> bool:
        """Return True if the server answered `GET /health`; close the connection if it did not."""
        try:
            self._connection.request("GET", "/health")
            return self._connection.getresponse().read() is not None
        except (OSError, HTTPException):
            self._connection.close()
            return False

    def ask(self, path: str, body: dict[Key, Value]) -> dict[str, Any]:
        """Send `body` to `path` and return the answer. Raise LoadError if it is an error, is not a
        JSON object or does not come.
        """
        headers = {"content-type": "application/json"}
        try:
            self._connection.request("POST", path, to_json(body), headers)
            response = self._connection.getresponse()
            text = response.read()
        except (OSError, HTTPException) as error:
            raise LoadError([f"the server does not answer: {os_reason(error) or error}"]) from None
        answer = _object(text)
        if response.status == 200:
            return answer
        message = answer.get("message", "")
        errors = [each.get("message", "") for each in answer.get("errors") or ()]
        raise LoadError(
            errors or [f"request failed, the server replied with HTTP {response.status}: {message}"]
        )
