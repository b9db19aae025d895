"""The proxy killed, stopped or replaced, the daemon gone: no request passes undecided."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.docker.guarded import write_policies
from tests.docker.proxy.fake_daemon import OK, FakeDaemon, fake_daemon, talk
from tests.waiting import PATIENCE, pause, wait_until

from doorward.docker.unix_http import UnixConnection

HEAD = b"GET /v1.41/containers/json HTTP/1.1\r\nHost: h\r\n"
LIST = HEAD + b"Connection: close\r\n\r\n"
EVENTS = b"GET /v1.41/events HTTP/1.1\r\nHost: h\r\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n"
START = 'LISTEN_PID=$$ exec "$@"'

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the roles are root's")


class Served:
    """Processes that serve one socket, one after the other, as a service manager starts them."""

    def __init__(self, folder: Path, daemon: str) -> None:
        users = {"root": ["operator"]}
        self.audit = folder / "audit.log"
        self.path = str(folder / "s.sock")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(1024)
        self._log = (folder / "log").open("wb")
        self._command = [
            sys.executable, "-c", "from doorward.cli.main import main; main()", "docker", "proxy",
            "--daemon", daemon, "--policy", str(write_policies(folder / "policies", users=users)),
            "--audit-log", str(self.audit), "--timeout", "60", "--grace", "0.2",
        ]  # fmt: skip
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        number = self._listener.fileno()
        self.process = subprocess.Popen(
            ["sh", "-c", START, "sh", *self._command],
            preexec_fn=lambda: os.dup2(number, 3),
            pass_fds=(3,),
            env={**os.environ, "LISTEN_FDS": "1", "LISTEN_FDNAMES": "shared"},
            stderr=self._log,
        )
        return self.process

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._listener.close()
        self._log.close()


@contextmanager
def serving(folder: Path, daemon: FakeDaemon) -> Iterator[Served]:
    served = Served(folder, daemon.path)
    try:
        yield served
    finally:
        served.close()


def status(answer: bytes) -> int:
    return int(answer.split()[1]) if answer else 0


def test_connections_wait_for_the_next_process(tmp_path: Path) -> None:
    with fake_daemon(tmp_path / "d.sock") as daemon, serving(tmp_path, daemon) as served:
        assert status(talk(served.path, LIST)) == 200
        served.process.kill()
        served.process.wait()
        answers: list[bytes] = []
        client = threading.Thread(target=lambda: answers.append(talk(served.path, LIST)))
        client.start()
        served.start()
        client.join()
        assert status(answers[0]) == 200


def test_stream_of_a_process_that_is_killed_is_cut(tmp_path: Path) -> None:
    with fake_daemon(tmp_path / "d.sock") as daemon, serving(tmp_path, daemon) as served:
        daemon.answer = STREAM
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE)
            client.connect(served.path)
            client.sendall(EVENTS)
            received = b""
            while b"first" not in received:
                received += client.recv(65536)
            served.process.kill()
            with contextlib.suppress(ConnectionResetError):
                while piece := client.recv(65536):
                    received += piece
        assert not received.endswith(b"0\r\n\r\n")


def test_process_that_is_told_to_end_answers_what_is_under_way(tmp_path: Path) -> None:
    with fake_daemon(tmp_path / "d.sock") as daemon, serving(tmp_path, daemon) as served:
        assert status(talk(served.path, LIST)) == 200
        daemon.answer = STREAM
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE)
            client.connect(served.path)
            client.sendall(EVENTS)
            received = b""
            while b"first" not in received:
                received += client.recv(65536)
            served.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(ConnectionResetError):
                while client.recv(65536):
                    pass
        assert served.process.wait(PATIENCE) == 0


def test_every_answer_of_processes_that_are_replaced_was_decided(tmp_path: Path) -> None:
    with fake_daemon(tmp_path / "d.sock") as daemon, serving(tmp_path, daemon) as served:
        assert status(talk(served.path, LIST)) == 200
        stop = threading.Event()
        answers: list[int] = []

        def work() -> None:
            connection: http.client.HTTPConnection | None = None
            while not stop.is_set():
                connection = connection or UnixConnection(served.path, PATIENCE)
                try:
                    connection.request("GET", "/v1.41/containers/json", headers={"Host": "h"})
                    response = connection.getresponse()
                    response.read()
                    answers.append(response.status)
                except (OSError, http.client.HTTPException):
                    connection.close()
                    connection = None
            if connection is not None:
                connection.close()

        clients = [threading.Thread(target=work) for _ in range(4)]
        for each in clients:
            each.start()
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
            before = len(answers)
            wait_until(lambda seen=before: len(answers) > seen + 20)  # type: ignore[misc]
            served.process.send_signal(number)
            served.process.wait(PATIENCE)
            served.start()
        before = len(answers)
        wait_until(lambda: len(answers) > before + 20)
        stop.set()
        for each in clients:
            each.join()
        assert set(answers) == {200}
        written = served.audit.read_text().splitlines()
        # A process that is killed may leave one line that is cut off.
        lines = [json.loads(line) for line in written if line.endswith("}")]
        assert len(lines) >= len(written) - 1
        assert len([line for line in lines if line["decision"] == "allow"]) >= len(answers)
        count = sum(each.count(b"GET /v1.41/containers/json") for each in daemon.received)
        assert count <= len(written)


def test_process_that_is_stopped_answers_nothing_and_goes_on(tmp_path: Path) -> None:
    with fake_daemon(tmp_path / "d.sock") as daemon, serving(tmp_path, daemon) as served:
        assert status(talk(served.path, LIST)) == 200
        daemon.received.clear()
        pause(served.process.pid)
        answers: list[bytes] = []
        client = threading.Thread(target=lambda: answers.append(talk(served.path, LIST)))
        client.start()
        with socket.socket(socket.AF_UNIX) as other:
            other.connect(served.path)
            other.sendall(LIST)
        assert daemon.received == []
        served.process.send_signal(signal.SIGCONT)
        client.join()
        assert status(answers[0]) == 200


def test_daemon_that_is_gone_and_comes_back(tmp_path: Path) -> None:
    with fake_daemon(tmp_path / "d.sock") as daemon, serving(tmp_path, daemon) as served:
        assert status(talk(served.path, LIST)) == 200
        daemon.close()
        assert status(talk(served.path, LIST)) == 502
        os.unlink(daemon.path)
        assert status(talk(served.path, LIST)) == 502
        with fake_daemon(tmp_path / "d.sock") as again:
            again.answer = OK
            assert status(talk(served.path, LIST)) == 200


def test_socket_of_somebody_else_is_not_the_daemon(tmp_path: Path) -> None:
    with fake_daemon(tmp_path / "d.sock") as daemon, serving(tmp_path, daemon) as served:
        assert status(talk(served.path, LIST)) == 200
        os.unlink(daemon.path)
        script = (
            "import os, socket, sys; os.setuid(12345); s = socket.socket(socket.AF_UNIX);"
            "s.bind(sys.argv[1]); s.listen(); print(flush=True); s.accept()[0].recv(9); print(1)"
        )
        os.chmod(tmp_path, 0o777)
        for each in tmp_path.parents:
            if each.stat().st_uid == 0 and not each.stat().st_mode & 0o001:
                os.chmod(each, 0o711)
        command = [sys.executable, "-c", script, daemon.path]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            other.stdout.readline()
            daemon.close()
            answer = talk(served.path, LIST)
            other.kill()
        assert status(answer) == 502
        assert b"runs as neither root nor the proxy" in answer
