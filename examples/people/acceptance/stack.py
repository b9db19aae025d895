"""A folder and three ports become the running example: People API, decision point, Envoy.

Each part is a process in a group of its own that ends with this one at the latest. What they say
goes into files of the folder. Nothing here knows what a request should get.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import yaml

from acceptance import supervisor
from acceptance.ports import Ports
from acceptance.wire import HOST, Answer, send, write_request

EXAMPLE: Final = Path(__file__).resolve().parent.parent
PATIENCE: Final = 300.0
"""Seconds after which it is taken for granted that something never comes. A busy machine may take a
minute for what takes a moment."""
QUIET: Final = 5.0
"""Seconds without a line after which a log is at rest."""
STOPPED_WITHIN: Final = 30.0
"""Seconds after which a part is ended by force."""


class PartFailed(Exception):
    """A part did not start, or ended by itself; the text holds its last words."""


class Stack:
    """The three parts. Start it, use it, stop it; as a context manager it stops itself."""

    def __init__(
        self, folder: Path, ports: Ports, policies: tuple[str, ...] = ("policy.rego",)
    ) -> None:
        self.folder = folder
        self.ports = ports
        self.secret = secrets.token_urlsafe(32)
        self._policies = policies
        self._parts: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Stack:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start every part and wait until it answers. PartFailed when one does not."""
        _write_private(self.folder / "secrets.json", json.dumps({"secrets": {"jwt": self.secret}}))
        self._launch_people()
        self.start_pdp()
        self._launch_envoy()

    def stop(self) -> None:
        """End every part: what is in front first, by force what does not end by itself."""
        for name in ("envoy", "doorward", "people"):
            self._end(name, signal.SIGTERM)

    def start_pdp(self) -> None:
        """Start the decision point and wait until it is ready."""
        self._launch(
            "doorward",
            [
                find_program("doorward"),
                "run",
                "--server",
                *self._pdp_options(),
                *(str(EXAMPLE / policy) for policy in self._policies),
                "secrets.json",
            ],
        )
        self._wait("doorward", self._pdp_is_ready)

    def stop_pdp(self) -> None:
        """End the decision point as an operator does."""
        self._end("doorward", signal.SIGTERM)

    def kill_pdp(self) -> None:
        """End the decision point as the kernel does: its socket stays behind.

        Decisions that wait to be logged would be lost, as they must be, and tests count them: those
        of all requests that have arrived are waited for, or for a log that has come to rest.
        """
        log, arrived = self.folder / "doorward.log", len(self.arrivals())
        size, quiet_since = log.stat().st_size, time.monotonic()
        while self._allowed() < arrived and time.monotonic() < quiet_since + QUIET:
            time.sleep(0.1)
            if size != (size := log.stat().st_size):
                quiet_since = time.monotonic()
        self._kill("doorward")

    def _allowed(self) -> int:
        """How many decisions in the log allow something."""
        return sum(event.get("result") is True for event in self.decisions())

    def freeze_pdp(self) -> None:
        """Let the decision point hang: it accepts, and never answers."""
        pid = self._parts["doorward"].pid
        os.killpg(pid, signal.SIGSTOP)
        # A thread that is answering stops a little later than the signal is sent.
        ends = time.monotonic() + STOPPED_WITHIN
        while time.monotonic() < ends and set(_states(pid)) - {"T"}:
            time.sleep(0.01)

    def thaw_pdp(self) -> None:
        """Let the decision point go on."""
        os.killpg(self._parts["doorward"].pid, signal.SIGCONT)

    def check_parts(self) -> None:
        """PartFailed when a part that should run has ended."""
        for name, process in self._parts.items():
            if process.poll() is not None:
                raise PartFailed(
                    f"{name} ended with {process.returncode}\n{self._last_words(name)}"
                )

    def send(self, request: bytes, *, within: float) -> Answer:
        """Send a request as a client does. OSError when no answer comes in time."""
        return send(self.ports.envoy, request, within=within)

    def arrivals(self) -> list[str]:
        """`METHOD TARGET STATUS` of every request that the application was reached by."""
        lines = (self.folder / "people.log").read_text().splitlines()
        return [line.rpartition(" ")[0] for line in lines]

    def first_names(self) -> list[str]:
        """Who is stored, read from the database itself."""
        uri = f"file:{self.folder / 'people.db'}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True)) as database:
            rows = database.execute("SELECT firstname FROM people ORDER BY id").fetchall()
        return [row[0] for row in rows]

    def decisions(self) -> list[dict[str, Any]]:
        """The events of the decision log."""
        lines = (self.folder / "doorward.log").read_text().splitlines()
        documents = [json.loads(line) for line in lines if line.startswith("{")]
        return [document for document in documents if "decision_id" in document]

    # What another surrounding may want otherwise.

    def _people_host(self) -> str:
        return HOST

    def _pdp_options(self) -> list[str]:
        return [
            # A socket of this folder: who can reach the API may ask for decisions.
            "--addr=unix://api.sock",
            "--unix-socket-perm=700",
            f"--diagnostic-addr={HOST}:{self.ports.diagnostic}",
            "--console",
            # A log that the console searches, beside the lines on standard output.
            "--set=decision_logs.file.path=decisions.jsonl",
            f"--config-file={EXAMPLE / 'doorward.yaml'}",
        ]

    def _launch_people(self) -> None:
        self._launch(
            "people",
            [
                sys.executable, "-m", "people", "--sample", "--database-url=sqlite:///people.db",
                f"--host={self._people_host()}", f"--port={self.ports.people}",
            ],
            {"PYTHONPATH": str(EXAMPLE)},
        )  # fmt: skip
        self._wait("people", lambda: _accepts(self.ports.people))

    def _launch_envoy(self) -> None:
        self._launch(
            "envoy",
            [
                find_program("envoy"), "--config-path", str(self._write_envoy_yaml()),
                "--disable-hot-restart", "--concurrency", "2", "--log-level", "warning",
                "--file-flush-interval-msec", "1000",
            ],
        )  # fmt: skip
        self._wait("envoy", self._envoy_answers)

    def _write_envoy_yaml(self) -> Path:
        """The configuration as it is; a copy with other ports where others were chosen."""
        file = EXAMPLE / "envoy.yaml"
        if self.ports == Ports():
            return file
        document = yaml.safe_load(file.read_text())
        listener, cluster = (
            document["static_resources"]["listeners"][0],
            document["static_resources"]["clusters"][0],
        )
        endpoint = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
        listener["address"]["socket_address"]["port_value"] = self.ports.envoy
        endpoint["address"]["socket_address"]["port_value"] = self.ports.people
        copy = self.folder / "envoy.yaml"
        copy.write_text(json.dumps(document))
        return copy

    def _pdp_is_ready(self) -> bool:
        request = write_request("GET", "/health?plugins")
        return send(self.ports.diagnostic, request, within=10).status == 200

    def _envoy_answers(self) -> bool:
        return send(self.ports.envoy, write_request("GET", "/"), within=10).status == 403

    def _launch(
        self, name: str, command: list[str], environment: Mapping[str, str] | None = None
    ) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._parts[name] = subprocess.Popen(
                [sys.executable, "-I", str(supervisor.__file__), str(os.getpid()), *command],
                cwd=self.folder,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C at the terminal reaches this process alone, which ends them in order.
                start_new_session=True,
            )

    def _wait(self, name: str, is_ready: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE
        while True:
            self.check_parts()
            try:
                if is_ready():
                    return
            except OSError:
                pass  # not listening yet
            if time.monotonic() > until:
                raise PartFailed(
                    f"{name} was not ready in {PATIENCE:.0f} s\n{self._last_words(name)}"
                )
            time.sleep(0.05)

    def _end(self, name: str, how: signal.Signals) -> None:
        process = self._parts.pop(name, None)
        if process is None or process.poll() is not None:
            return
        os.killpg(process.pid, signal.SIGCONT)
        os.killpg(process.pid, how)
        try:
            process.wait(STOPPED_WITHIN)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(STOPPED_WITHIN)

    def _kill(self, name: str) -> None:
        self._end(name, signal.SIGKILL)

    def _last_words(self, name: str) -> str:
        lines = (self.folder / f"{name}.log").read_text(errors="replace").splitlines()
        return "\n".join(f"  {name}: {line}" for line in lines[-15:])


def _accepts(port: int) -> bool:
    # A connection and no request: the access log counts requests from the first one on.
    with closing(socket.create_connection(("127.0.0.1", port), timeout=10)):
        return True


def _write_private(file: Path, text: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)


def find_program(name: str) -> str:
    """The program of this environment; the one of the system where it has none."""
    beside = Path(sys.executable).with_name(name)
    program = str(beside) if beside.exists() else shutil.which(name)
    if program is None:
        raise PartFailed(f"there is no `{name}` beside {sys.executable}, nor on the PATH")
    return program


def _states(pid: int) -> list[str]:
    """The scheduler's letter for each thread of a process: `T` for a stopped one."""
    states = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # it may end meanwhile
            states.append((thread / "stat").read_text().rpartition(")")[2].split()[0])
    return states
