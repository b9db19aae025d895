"""The docker command through the proxy, with a real daemon: all that works without it works."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from examples.docker.private_daemon import PATIENCE, PrivateDaemon
from tests.docker.proxied import Proxied, proxied
from tests.waiting import wait_until

NONE = ("--network", "none")


@pytest.fixture(scope="module")
def behind(
    daemon_started: PrivateDaemon, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxied]:
    with proxied(daemon_started, tmp_path_factory.mktemp("commands"), "admin") as daemon:
        yield daemon


def run(daemon: Proxied, *words: str, input: bytes | None = None) -> str:
    done = daemon.docker(*words, input=input)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def test_run_prints_what_the_container_prints_and_returns_its_code(behind: Proxied) -> None:
    assert run(behind, "run", "--rm", *NONE, "img:1", "echo", "hello") == "hello\n"
    done = behind.docker("run", "--rm", *NONE, "img:1", "sh", "-c", "echo no >&2; exit 7")
    assert (done.returncode, done.stderr) == (7, "no\n")


@pytest.mark.parametrize("size", [0, 10, 3 << 20])
def test_stdin_is_carried_and_ends(behind: Proxied, size: int) -> None:
    sent = os.urandom(size).hex()[:size].encode()
    out = run(behind, "run", "-i", "--rm", *NONE, "img:1", "cat", input=sent)
    assert out == sent.decode()


def test_exec_with_and_without_input(behind: Proxied) -> None:
    run(behind, "run", "-d", "--name", "ex", *NONE, "img:1", "sleep", "9999")
    try:
        assert run(behind, "exec", "ex", "echo", "x") == "x\n"
        assert run(behind, "exec", "-i", "ex", "cat", input=b"y" * 100_000) == "y" * 100_000
        assert behind.docker("exec", "ex", "sh", "-c", "exit 3").returncode == 3
        run(behind, "exec", "-d", "ex", "true")
        assert "sleep" in run(behind, "top", "ex")
        assert "A /new" in _changed(behind)
        stats = run(behind, "stats", "--no-stream", "--format", "{{.Name}}", "ex")
        assert stats == "ex\n"
    finally:
        run(behind, "rm", "-f", "ex")


def _changed(behind: Proxied) -> str:
    run(behind, "exec", "ex", "sh", "-c", "echo 1 > /new")
    return run(behind, "diff", "ex")


def test_files_are_copied_both_ways(behind: Proxied, tmp_path: Path) -> None:
    run(behind, "create", "--name", "cp", *NONE, "img:1", "true")
    try:
        (tmp_path / "f").write_bytes(os.urandom(1 << 20))
        run(behind, "cp", str(tmp_path / "f"), "cp:/f")
        run(behind, "cp", "cp:/f", str(tmp_path / "g"))
        assert (tmp_path / "g").read_bytes() == (tmp_path / "f").read_bytes()
        run(behind, "commit", "cp", "committed:1")
        run(behind, "export", "-o", str(tmp_path / "e.tar"), "cp")
        assert (tmp_path / "e.tar").stat().st_size > 1 << 20
        run(behind, "rmi", "committed:1")
    finally:
        run(behind, "rm", "cp")


def test_images_are_saved_loaded_imported_and_tagged(behind: Proxied, tmp_path: Path) -> None:
    run(behind, "tag", "img:1", "tagged:1")
    run(behind, "save", "-o", str(tmp_path / "s.tar"), "tagged:1")
    run(behind, "rmi", "tagged:1")
    assert "tagged:1" in run(behind, "load", "-i", str(tmp_path / "s.tar"))
    run(behind, "rmi", "tagged:1")
    run(behind, "import", str(behind.folder / "rootfs.tar"), "imported:1")
    assert "imported" in run(behind, "images", "--format", "{{.Repository}}")
    assert run(behind, "history", "-q", "imported:1")
    run(behind, "rmi", "imported:1")


def test_classic_build_reads_its_context(behind: Proxied, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM img:1\nCOPY f /f\nRUN cat /f\n")
    (tmp_path / "f").write_text("in the context\n" * 10)
    out = run(behind, "build", "--network", "none", "-t", "built:1", str(tmp_path))
    assert "in the context" in out
    run(behind, "rmi", "built:1")


@contextmanager
def following(daemon: Proxied, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command that streams, ended afterwards."""
    command = ["docker", "-H", f"unix://{daemon.socket}", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def test_logs_and_events_are_streamed_until_their_end(behind: Proxied) -> None:
    # With those of the last hour: the stream may begin behind the first that this test causes.
    words = ("events", "--since", "1h", "--filter", "container=lg", "--format", "{{.Action}}")
    with following(behind, *words) as events:
        script = "echo 1; sleep 9999"
        run(behind, "run", "-d", "--name", "lg", *NONE, "img:1", "sh", "-c", script)
        try:
            with following(behind, "logs", "-f", "lg") as logs:
                assert logs.stdout is not None
                assert logs.stdout.readline() == b"1\n"
                run(behind, "kill", "lg")
                assert logs.wait(PATIENCE) == 0
            assert events.stdout is not None
            seen = b""
            while b"die" not in seen:
                seen += events.stdout.readline()
            assert b"create" in seen
        finally:
            run(behind, "rm", "-f", "lg")


def test_wait_and_attach_end_with_the_container(behind: Proxied) -> None:
    run(behind, "run", "-d", "--name", "wt", *NONE, "img:1", "sh", "-c", "sleep 9999; exit 4")
    try:
        with (
            following(behind, "wait", "wt") as wait,
            following(behind, "attach", "--no-stdin", "wt") as attach,
        ):
            run(behind, "kill", "wt")
            assert wait.wait(PATIENCE) == 0
            attach.wait(PATIENCE)
    finally:
        run(behind, "rm", "-f", "wt")


def test_volumes_networks_and_the_rest(behind: Proxied) -> None:
    run(behind, "volume", "create", "v1")
    assert "v1" in run(behind, "volume", "ls", "-q")
    run(behind, "volume", "rm", "v1")
    assert "none" in run(behind, "network", "ls", "--format", "{{.Name}}")
    assert run(behind, "info", "--format", "{{.ServerVersion}}")
    assert run(behind, "version", "--format", "{{.Server.Version}}")
    assert "No such container" in behind.docker("inspect", "--type", "container", "none").stderr
    assert behind.docker("pull", "127.0.0.1:1/x").returncode != 0
    run(behind, "system", "df")


def test_client_that_leaves_ends_the_stream_at_the_daemon(behind: Proxied) -> None:
    pid = int(behind.pidfile.read_text())
    before = streams(behind)
    with ExitStack() as stack:
        run(behind, "volume", "create", "followed")
        run(behind, "volume", "rm", "followed")
        for _ in range(20):
            # A line of the past shows that the stream has come as far as the daemon.
            client = stack.enter_context(following(behind, "events", "--since", "1h"))
            assert client.stdout is not None
            assert client.stdout.readline()
        assert streams(behind) == before + 20
        during = open_files(pid)
    wait_until(lambda: open_files(pid) <= during - 15)


def test_attach_by_websocket_is_carried(behind: Proxied) -> None:
    run(behind, "run", "-d", "--name", "ws", *NONE, "img:1", "sh", "-c", "echo seen; sleep 999")
    lines = (
        "GET /v1.41/containers/ws/attach/ws?logs=1&stream=1&stdout=1 HTTP/1.1",
        "Host: docker", "Connection: Upgrade", "Upgrade: websocket", "Origin: http://docker",
        "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "", "",
    )  # fmt: skip
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE)
            client.connect(behind.socket)
            client.sendall("\r\n".join(lines).encode())
            received = b""
            while b"seen" not in received:
                piece = client.recv(65536)
                assert piece, received
                received += piece
        assert received.startswith(b"HTTP/1.1 101 ")
        assert b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in received
    finally:
        run(behind, "rm", "-f", "ws")


def streams(behind: Proxied) -> int:
    return sum(line["action"] == "system.events" for line in behind.decided())


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))
