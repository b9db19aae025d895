"""Many calls, slow policy servers and restarts, against a real daemon."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from examples.docker.private_daemon import PrivateDaemon
from tests.waiting import PATIENCE, wait_until

from doorward.docker.install.installer import Installation, install, uninstall
from doorward.docker.install.units import Process
from doorward.docker.watch.status import read_status


class Slow(BaseHTTPRequestHandler):
    """A policy server that takes its time and allows."""

    protocol_version = "HTTP/1.1"
    let_go: Callable[[], object] = staticmethod(lambda: time.sleep(0.2))
    lock = threading.Lock()
    under_way = most = 0
    """Requests at the same time, now and at the most."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        with Slow.lock:
            Slow.under_way += 1
            Slow.most = max(Slow.most, Slow.under_way)
        type(self).let_go()
        with Slow.lock:
            Slow.under_way -= 1
        self.send_response(200)
        self.send_header("Content-Length", "15")
        self.end_headers()
        self.wfile.write(b'{"result":true}')

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 512
    daemon_threads = True


@pytest.fixture
def slow_url() -> Iterator[str]:
    server = Server(("127.0.0.1", 0), Slow)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1/data/policy/docker/authz"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def wanted(daemon: PrivateDaemon, unique: str, tmp_path: Path) -> Iterator[Installation]:
    policy = tmp_path / "policy.rego"
    policy.write_text("package policy.docker.authz\n\nallow := true\n")
    installation = Installation(
        name=f"{unique}e",
        policies=[str(policy)],
        daemon_json=daemon.config,
        pidfile=daemon.pidfile,
        socket=daemon.socket,
        systemd=False,
        state=tmp_path / "state",
        audit_log=str(tmp_path / "audit.log"),
    )
    yield installation
    if installation.name in installation.config.plugins():
        uninstall(installation, lambda _text: None)


def nothing(_text: str) -> None:
    pass


def test_a_thousand_calls_with_pauses_are_never_repeated(
    daemon: PrivateDaemon, wanted: Installation
) -> None:
    install(wanted, nothing)
    before = len(daemon.log)
    for number in range(1000):
        assert daemon.raw("GET", "/v1.41/containers/json").status == 200
        if number % 50 == 0:
            time.sleep(0.12)
    log = daemon.log[before:]
    assert "retrying" not in log.lower()
    assert "Unable to connect to plugin" not in log


def test_two_hundred_at_once_with_a_slow_policy_server(
    daemon: PrivateDaemon, wanted: Installation, slow_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("--timeout", "60")
    install(replace(wanted, policies=(), url=slow_url, extra=arguments), nothing)
    monkeypatch.setattr(Slow, "most", 0)
    answer_late = Slow.let_go

    def let_go() -> None:
        """However slowly calls come: the first ones wait until there are several."""
        answer_late()
        wait_until(lambda: Slow.most >= 4)

    monkeypatch.setattr(Slow, "let_go", staticmethod(let_go))
    statuses: list[int] = []

    def ask() -> None:
        statuses.append(daemon.raw("GET", "/v1.41/containers/json").status)

    threads = [threading.Thread(target=ask) for _ in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 200


def test_policy_server_that_hangs_denies_at_the_deadline(
    daemon: PrivateDaemon, wanted: Installation, slow_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()
    monkeypatch.setattr(Slow, "let_go", staticmethod(lambda: ended.wait(PATIENCE)))
    arguments = ("--timeout", "0.5")
    hanging = replace(wanted, policies=(), url=slow_url, extra=arguments, may_be_undecided=True)
    install(hanging, nothing)
    answer = daemon.raw("GET", "/v1.41/containers/json")
    ended.set()
    assert answer.message.endswith(": policy server did not answer in time")


def test_requests_survive_a_restart_of_the_plugin(
    daemon: PrivateDaemon, wanted: Installation
) -> None:
    install(wanted, nothing)
    statuses: list[int] = []
    stop = threading.Event()

    def keep_asking() -> None:
        while not stop.is_set():
            statuses.append(daemon.raw("GET", "/v1.41/containers/json").status)

    threads = [threading.Thread(target=keep_asking) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(statuses) > 10, "nobody is answered")
    supervisor = wanted.supervisor
    assert isinstance(supervisor, Process)
    supervisor.start(wanted.arguments)
    before = len(statuses)
    wait_until(lambda: len(statuses) > before + 10, "nobody is answered any more")
    stop.set()
    for thread in threads:
        thread.join()
    assert set(statuses) == {200}


def test_plugin_that_is_gone_denies_and_comes_back(
    daemon: PrivateDaemon, wanted: Installation
) -> None:
    install(wanted, nothing)
    supervisor = wanted.supervisor
    supervisor.stop()
    before = len(daemon.log)
    answers: list[int] = []
    thread = threading.Thread(
        target=lambda: answers.append(daemon.raw("GET", "/v1.41/containers/json").status)
    )
    thread.start()
    wait_until(lambda: "Unable to connect to plugin" in daemon.log[before:])
    assert answers == []  # the daemon waits for the plugin, and lets nobody through
    supervisor.start(wanted.arguments)
    thread.join()
    assert answers == [200]


def test_policies_reload_by_themselves(daemon: PrivateDaemon, wanted: Installation) -> None:
    install(wanted, nothing)
    policy = Path(wanted.policies[0])
    policy.write_text("package policy.docker.authz\n\nallow := false\n")
    wait_until(lambda: daemon.raw("GET", "/v1.41/info").status == 403)
    policy.write_text("package policy.docker.authz\n\nallow := broken(\n")
    wait_until(lambda: (status := read_status(wanted.listens)) and status.broken)
    assert daemon.raw("GET", "/v1.41/info").status == 403


def test_planted_secrets_are_in_nothing_that_is_written(
    daemon: PrivateDaemon, wanted: Installation, tmp_path: Path
) -> None:
    planted = "hunter2planted"
    install(replace(wanted, extra=("--audit-input", "--log-level", "debug")), nothing)
    (tmp_path / "context").mkdir()
    (tmp_path / "context" / "Dockerfile").write_text("FROM img:1\nARG A\n")
    commands = (
        ("login", "-u", "u", "-p", planted, "127.0.0.1:9"),
        ("build", "--build-arg", f"A={planted}", str(tmp_path / "context")),
        ("run", "--rm", "--network", "none", "-e", f"A={planted}", "img:1", "true"),
        ("volume", "create", "-o", f"o=user=u,password={planted}", "-o", "type=cifs", "planted"),
        ("swarm", "join", "--token", f"SWMTKN-1-{planted}", "127.0.0.1:9"),
    )
    for command in commands:
        daemon.docker(*command)
    headers = [("Cookie", planted), ("X-Auth-Token", planted)]
    daemon.raw("GET", "/v1.41/containers/json", headers=headers)
    secret = f'{{"Name":"s","Data":"{planted}"}}'.encode()
    daemon.raw("POST", "/v1.41/secrets/create", secret, [("Content-Type", "application/json")])
    audit = (tmp_path / "audit.log").read_text()
    for action in ("system.auth", "image.build", "container.create", "volume.create"):
        assert f'"action": "{action}"' in audit
    for action in ("swarm.join", "secret.create"):
        assert f'"action": "{action}"' in audit
    for path in [tmp_path / "audit.log", *(tmp_path / "state").iterdir()]:
        assert planted not in path.read_text(), path
