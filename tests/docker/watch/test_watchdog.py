"""The plugin under a watching process: systemd's protocol, and our own watchdog."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE, pause, wait_until

from doorward.docker.unix_http import call_plugin, listener_pid
from doorward.docker.watch import watchdog
from doorward.docker.watch.notify import NOTIFY_FD, WATCHDOG, Notifier, watchdog_seconds

SERVE = [sys.executable, "-c", "from doorward.cli.main import main; main()", "docker", "serve"]
ACTIVE = {"Implements": ["authz"]}


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.rego"
    path.write_text("package policy.docker.authz\n\nallow := true\n")
    return path


class ServiceManager:
    """What systemd's side of the notification protocol is: a socket that datagrams come to."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\x00" + address[1:] if address.startswith("@") else address)
        self.socket.settimeout(PATIENCE)

    def receive(self) -> list[str]:
        return self.socket.recv(4096).decode().split("\n")


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServiceManager]:
    name = f"@doorward-test-{os.getpid()}"
    actual = ServiceManager(name if request.param == "abstract" else str(tmp_path / "notify"))
    yield actual
    actual.socket.close()


def test_service_manager_is_told_of_each_state(
    manager: ServiceManager, policy: Path, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [*SERVE, "--socket", str(tmp_path / "p.sock"), "--policy", str(policy)],
        env={**os.environ, "NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "300000"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        # After READY, a client may send requests at once.
        assert manager.receive() == ["READY=1", f"STATUS=Serves {tmp_path}/p.sock"]
        assert call_plugin(str(tmp_path / "p.sock"), "/Plugin.Activate") == ACTIVE
        serves = ["WATCHDOG=1", f"STATUS=Serves {tmp_path}/p.sock"]
        assert [manager.receive() for _ in range(3)] == [serves] * 3
        policy.write_text("package policy.docker.authz\n\nallow := broken(\n")
        while (state := manager.receive()) == serves:
            pass
        assert state[0] == "WATCHDOG=1"
        assert state[1].startswith("STATUS=Broken policies, older ones decide: ")
        assert "rego_parse_error" in state[1]
    finally:
        process.terminate()
    states = [manager.receive()]
    while "WATCHDOG=1" in states[-1]:
        states.append(manager.receive())
    assert states[-1] == ["STOPPING=1"]
    assert process.wait(PATIENCE) == 0


WATCHED = [
    ({}, None),
    ({"WATCHDOG_USEC": "3000000"}, 3.0),
    ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "our own"}, 3.0),
    ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, None),
    ({"WATCHDOG_USEC": "0"}, None),
    ({"WATCHDOG_USEC": "-1"}, None),
    ({"WATCHDOG_USEC": "x"}, None),
]


@pytest.mark.parametrize(("environment", "seconds"), WATCHED)
def test_watchdog_time_is_for_the_process_that_it_names(
    environment: dict[str, str], seconds: float | None
) -> None:
    named = {name: str(os.getpid()) if it == "our own" else it for name, it in environment.items()}
    assert watchdog_seconds(named) == seconds


@pytest.mark.parametrize("address", ["", "@", "relative", "vsock:2:1234"])
def test_nothing_is_sent_to_an_address_of_another_kind(address: str) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": address})
    assert notifier.send(WATCHDOG) is False
    notifier.close()


def test_watchdog_that_has_ended_is_known_from_one_that_does_not_read() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    notifier = Notifier({NOTIFY_FD: str(theirs.detach())})
    while notifier.send(WATCHDOG):
        assert not notifier.orphaned
    states = [notifier.orphaned]
    ours.close()
    assert notifier.send(WATCHDOG) is False
    assert [*states, notifier.orphaned] == [False, True]
    notifier.close()


# Our own watchdog


def children(pid: int) -> list[int]:
    """The processes that a process started; none of one that is gone."""
    with suppress(OSError):
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def kill(pid: int, number: signal.Signals) -> None:
    """Send a signal to one process: 0, which nobody is, would be everybody here."""
    assert pid > 0
    os.kill(pid, number)


class Watched:
    """`docker serve --watchdog`, and the processes that it is made of at the moment."""

    def __init__(self, folder: Path, policy: Path) -> None:
        self.path = str(folder / "p.sock")
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*SERVE, "--socket", self.path, "--policy", str(policy), "--watchdog"],
                stdout=log,
                stderr=log,
            )

    @property
    def watchdog(self) -> int:
        return listener_pid(self.path) or 0

    @property
    def plugin(self) -> int:
        actual = children(self.watchdog)
        return actual[0] if actual else 0

    def answers(self) -> Any:
        return call_plugin(self.path, "/Plugin.Activate", timeout=PATIENCE) == ACTIVE

    def wait_for_another_than(self, plugin: int) -> None:
        wait_until(lambda: self.plugin not in (0, plugin) and self.answers(), self.log.read_text)


@pytest.fixture
def watched(tmp_path: Path, policy: Path) -> Iterator[Watched]:
    watched_ = Watched(tmp_path, policy)
    wait_until(lambda: call_plugin(watched_.path, "/Plugin.Activate"), watched_.log.read_text)
    yield watched_
    if Path(watched_.path).exists():
        kill(wait_until(lambda: watched_.watchdog), signal.SIGTERM)
    watched_.process.wait(PATIENCE)
    wait_until(lambda: not Path(watched_.path).exists())


def test_plugin_that_is_stopped_is_replaced_and_the_calls_wait(watched: Watched) -> None:
    before = watched.plugin
    with suppress(OSError):  # it may be replaced while we look
        pause(before)
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda: answers.append(watched.answers())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [True] * 4
    watched.wait_for_another_than(before)
    assert "it is stopped" in watched.log.read_text()


def test_plugin_that_is_killed_is_started_again(watched: Watched) -> None:
    for _ in range(2):
        before = watched.plugin
        kill(before, signal.SIGKILL)
        watched.wait_for_another_than(before)


def test_signals_are_handed_on_and_end_both(watched: Watched) -> None:
    plugin = watched.plugin
    kill(watched.watchdog, signal.SIGHUP)
    assert watched.answers()
    assert watched.plugin == plugin
    watched.process.terminate()
    assert watched.process.wait(PATIENCE) == 0
    assert not Path(f"/proc/{plugin}").exists()
    assert not Path(watched.path).exists()
    assert not Path(f"{watched.path}.closing").exists()


def test_plugin_whose_watchdog_is_killed_becomes_one(watched: Watched) -> None:
    for _ in range(2):
        watchdog, plugin = watched.watchdog, watched.plugin
        kill(watchdog, signal.SIGKILL)
        assert watched.answers()
        wait_until(lambda: watched.watchdog not in (0, watchdog), watched.log.read_text)  # noqa: B023  # called at once
        assert watched.watchdog == plugin
        watched.wait_for_another_than(plugin)
    plugin = watched.plugin
    pause(plugin)
    watched.wait_for_another_than(plugin)


def test_socket_that_is_removed_is_made_anew(watched: Watched) -> None:
    before = watched.plugin
    os.unlink(watched.path)
    wait_until(lambda: Path(watched.path).exists() and watched.answers(), watched.log.read_text)
    assert watched.plugin != before
    assert Path(watched.path).stat().st_mode & 0o777 == 0o600
    assert "was removed" in watched.log.read_text()


def test_plugin_that_cannot_start_ends_the_watchdog(tmp_path: Path, policy: Path) -> None:
    policy.write_text("package policy.docker.authz\n\nallow := broken(\n")
    watched_ = Watched(tmp_path, policy)
    assert watched_.process.wait(PATIENCE) == 1
    assert "rego_parse_error" in watched_.log.read_text()
    assert not Path(watched_.path).exists()


SILENT = """
import os, signal, socket, sys, time

from doorward.docker.watch import watchdog
from doorward.docker.watch.notify import READY, Notifier
from doorward.docker.watch.watchdog import SIGNALS, Watchdog

watchdog.END = 0.2  # it answers nothing, and would not end by itself
signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
code = Watchdog(listener).run()
if code is None:
    Notifier().send(READY)
    print(os.getpid(), flush=True)
    time.sleep(3600)
sys.exit(code)
"""


def test_plugin_without_a_sign_of_life_is_replaced(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SILENT, str(tmp_path / "p.sock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first, second = (int(process.stdout.readline()) for _ in range(2))
        assert first != second
        assert not Path(f"/proc/{first}").exists()
        process.terminate()
    assert not Path(f"/proc/{second}").exists()


def test_stuck_plugin_is_told_from_a_busy_one(tmp_path: Path) -> None:
    # A policy server that does not answer holds up all threads, one call after the other.
    script = """
import json, sys
from doorward.docker import server
from doorward.docker.plugin import Response, Waiting
from doorward.transport.slow_calls import History
from threading import Event
import time
server.STUCK_AFTER = 0.5
go = Event()
wait = Waiting(lambda: go.wait() and Response(200, b"{}"), History())
found = server.PluginServer(server.bind_unix(sys.argv[1]), lambda path, body: wait, threads=2)
found.start()
print("ready", flush=True)
while not found.is_stuck:
    time.sleep(0.05)
go.set()
while found.is_stuck:
    time.sleep(0.05)
found.close()
"""
    path = str(tmp_path / "p.sock")
    command = [sys.executable, "-c", script, path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        threads = [
            threading.Thread(target=call_plugin, args=(path, "/x"), kwargs={"timeout": PATIENCE})
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert process.returncode == 0


def test_audit_goes_on_after_the_plugin_was_replaced(watched: Watched) -> None:
    body = json.dumps({"RequestMethod": "GET", "RequestUri": "/info"}).encode()
    for _ in range(2):
        plugin = watched.plugin
        call_plugin(watched.path, "/AuthZPlugin.AuthZReq", body, timeout=PATIENCE)
        kill(plugin, signal.SIGKILL)
        watched.wait_for_another_than(plugin)
    assert watched.log.read_text().count('"action": "system.info"') == 2


def test_plugin_that_sigkill_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that waits for a disk."""
    process = subprocess.Popen(["sleep", "inf"])
    plugin = object.__new__(watchdog._Plugin)
    plugin.pid, plugin._code = process.pid, None
    plugin._signs, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    other.close()
    try:
        with monkeypatch.context() as context:
            context.setattr(watchdog, "KILLED", 0.01)
            context.setattr(os, "kill", lambda _pid, _number: None)
            assert plugin.end() is None
        assert not plugin.has_ended
    finally:
        process.kill()
    wait_until(lambda: plugin.has_ended)
    assert plugin.end() == -signal.SIGKILL
    process.wait()
