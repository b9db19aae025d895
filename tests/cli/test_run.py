"""The server as a process: it starts whole or not at all, says what it does, and ends in order."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.bundles.archives import write_archive
from tests.ports import free_port
from tests.transport.certificates import Authority
from tests.waiting import PATIENCE, wait_until

POLICY = """\
package envoy.authz

default allow := false

allow if input.user == "ann"
"""
CONFIG = """\
plugins:
  envoy_ext_authz_grpc:
    addr: unix://{folder}/check.sock
    path: envoy/authz/allow
decision_logs:
  console: true
labels:
  app: demo
"""


class Process:
    """`doorward run --server` with its logs in a file."""

    code = "from doorward.cli.main import main; main()"

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self.log = folder / "log"
        self.arguments = arguments
        self.port, self.diagnostic = free_port(), free_port()
        command = [sys.executable, "-c", self.code, "run"]
        addresses = [
            f"--addr=127.0.0.1:{self.port}",
            f"--diagnostic-addr=127.0.0.1:{self.diagnostic}",
        ]
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [*command, "--server", *addresses, *arguments],
                cwd=folder,
                stderr=out,
                stdout=out,
                env={**os.environ, **environment},
            )

    @property
    def lines(self) -> list[dict[str, Any]]:
        # The last one may be half written.
        whole = self.log.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def messages(self, message: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["msg"] == message]

    def ask(self, path: str, body: Any = None, *, port: int | None = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        url = f"http://127.0.0.1:{port or self.port}{path}"
        try:
            with urllib.request.urlopen(
                urllib.request.Request(url, data), timeout=PATIENCE
            ) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def ask_text(self, path: str) -> str:
        url = f"http://127.0.0.1:{self.port}{path}"
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return str(answer.read(), "utf-8")

    def ready(self, question: str = "/health?plugins&bundles") -> bool:
        """Whether it answers that it is, or ends: what its log says comes before or after that."""

        def up() -> bool:
            try:
                return self.ask(question, port=self.diagnostic)[0] == 200
            except OSError:
                return self.process.poll() is not None

        return until(up) and self.process.poll() is None

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


def until(condition: Callable[[], bool]) -> bool:
    return wait_until(condition)


def replace(path: Path, text: str) -> None:
    """A new file in place of the old one at once: nobody reads half of it."""
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "policy.rego").write_text(POLICY)
    (tmp_path / "doorward.yaml").write_text(CONFIG.format(folder=tmp_path))
    return tmp_path


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def run(*arguments: str, **environment: str) -> Process:
        started.append(Process(folder, *arguments, **environment))
        return started[-1]

    yield run
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
        each.process.wait()


def test_the_quick_start_decides_logs_and_ends_in_order(
    folder: Path, start: Callable[..., Process]
) -> None:
    server = start("--config-file=doorward.yaml", "--ignore=.*", "policy.rego")
    assert server.ready(), server.log.read_text()
    assert (folder / "check.sock").is_socket()
    status, answer = server.ask("/v1/data/envoy/authz/allow", {"input": {"user": "ann"}})
    assert (status, answer["result"]) == (200, True)
    assert server.ask("/v1/data/envoy", port=server.diagnostic)[0] == 404
    assert server.end() == 0
    (event,) = server.messages("Decision Log")
    assert event["decision_id"] == answer["decision_id"]
    assert event["labels"]["app"] == "demo"
    assert event["path"] == "envoy/authz/allow"
    assert not (folder / "check.sock").exists()
    assert server.messages("Server shutdown.")


class Stuck(Process):
    """One with a thread that Python waits for before it ends."""

    code = """
import threading
from doorward.cli import main, run

run.LAST = 0.2
threading.Thread(target=threading.Event().wait).start()
main.main()
"""


def test_it_ends_whatever_it_waits_for_and_says_what_that_is(folder: Path) -> None:
    server = Stuck(folder, "--shutdown-grace-period=0", "policy.rego")
    assert server.ready(), server.log.read_text()
    assert server.end() == 1
    said = server.log.read_text()
    assert "Server shutdown." in said
    assert "Timeout" in said
    assert "in wait" in said


def test_changed_policies_come_into_force_and_broken_ones_do_not(
    folder: Path, start: Callable[..., Process]
) -> None:
    server = start("policy.rego")
    assert server.ready(), server.log.read_text()

    def allowed() -> bool:
        return bool(server.ask("/v1/data/envoy/authz/allow", {"input": {}})[1]["result"])

    assert not allowed()
    replace(folder / "policy.rego", "package envoy.authz\n\nallow := true\n")
    assert until(allowed)
    replace(folder / "policy.rego", "package envoy.authz\n\nallow := nope(\n")
    assert until(lambda: server.ask("/health?policies")[0] == 500)
    assert allowed()
    assert server.ask("/health")[0] == 200
    assert server.end(signal.SIGINT) == 0
    (failure,) = server.messages("Reload failed; the previous policies stay active.")
    assert failure["level"] == "error"


def test_a_bundle_that_is_replaced_comes_into_force_whole(
    folder: Path, start: Callable[..., Process]
) -> None:
    def build(name: str, policy: str) -> None:
        files = {"/.manifest": '{"revision": "r1", "roots": ["envoy"]}', "/p.rego": policy}
        write_archive(folder / f"{name}.new", files)
        os.replace(folder / f"{name}.new", folder / name)

    build("b.tar.gz", POLICY)
    server = start("-b", "--set=decision_logs.console=true", "b.tar.gz")
    assert server.ready(), server.log.read_text()

    def allowed() -> bool:
        return bool(server.ask("/v1/data/envoy/authz/allow", {"input": {}})[1]["result"])

    assert not allowed()
    answer = server.ask("/v1/data/envoy/authz/allow?provenance", {"input": {}})[1]
    assert answer["provenance"]["bundles"] == {"b.tar.gz": {"revision": "r1"}}
    build("b.tar.gz", "package envoy.authz\n\nallow := true\n")
    assert until(allowed)
    build("b.tar.gz", "package other\n\nallow := true\n")
    assert until(lambda: server.ask("/health?policies")[0] == 500)
    assert allowed()
    assert server.end() == 0
    (failure,) = server.messages("Reload failed; the previous policies stay active.")
    assert "manifest roots [envoy] do not permit 'package other'" in failure["error"]
    event = server.messages("Decision Log")[0]
    assert event["bundles"] == {"b.tar.gz": {"revision": "r1"}}


def test_a_warning_names_the_key_that_nobody_reads(
    folder: Path, start: Callable[..., Process]
) -> None:
    with (folder / "doorward.yaml").open("a") as file:
        file.write("nope: 1\n")
    server = start(
        "-c", "doorward.yaml", "--set=plugins.envoy_ext_authz_grpc.dry_run=1", "policy.rego"
    )
    assert server.ready(), server.log.read_text()
    warned = [line["msg"] for line in server.lines if line["level"] == "warning"]
    assert "doorward.yaml:9: nope: unknown key, ignored" in warned
    assert any("plugins.envoy_ext_authz_grpc.dry_run" in message for message in warned)
    assert server.end() == 0


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ("policy.rego:package a\n\nallow := nope(1)\n", [], "policy.rego:3:10: rego_type_error"),
        ("policy.rego:package", [], "rego_parse_error"),
        ("x:", ["missing.rego"], "stat missing.rego: no such file or directory"),
        ("doorward.yaml:decision_logs: 1", [], "doorward.yaml:1: decision_logs must be an object"),
        ("doorward.yaml:bundles: {a: {}}", [], 'bundles.a.service: service name "" not found'),
        (
            "doorward.yaml:plugins: {envoy_ext_authz_grpc: {addr: 'http://x'}}",
            [],
            "doorward.yaml:1: plugins.envoy_ext_authz_grpc.addr: `http://x`: the scheme of the"
            " address must be grpc or unix",
        ),
        (
            "doorward.yaml:plugins:\n  envoy_ext_authz_grpc:\n    strict: 1",
            [],
            "doorward.yaml:3: plugins.envoy_ext_authz_grpc.strict must be true or false",
        ),
        ("x:", ["--addr=nope"], "listen nope: expected HOST:PORT"),
        ("x:", ["--pprof"], "--pprof is not supported: it profiles Go"),
        ("x:", ["--h2c"], "--h2c is not supported: the HTTP API speaks HTTP/1.1"),
        (
            "x:",
            ["--unix-socket-perm=9"],
            "--unix-socket-perm: `9` is not octal permissions, such as 755",
        ),
    ],
)
def test_what_keeps_it_from_starting_is_said_and_nothing_is_left(
    folder: Path,
    start: Callable[..., Process],
    change: str,
    arguments: list[str],
    message: str,
) -> None:
    name, _, text = change.partition(":")
    (folder / name).write_text(text)
    server = start("-c", "doorward.yaml", "policy.rego", *arguments)
    assert server.process.wait(PATIENCE) == 1
    said = server.log.read_text()
    assert message in said
    assert "Traceback" not in said
    assert not (folder / "check.sock").exists()


def test_a_port_that_is_taken_ends_it(folder: Path, start: Callable[..., Process]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = start(f"--addr=127.0.0.1:{port}", "-c", "doorward.yaml", "policy.rego")
        assert server.process.wait(PATIENCE) == 1
        assert f"listen 127.0.0.1:{port}: address already in use" in server.log.read_text()
        assert not (folder / "check.sock").exists()


def test_without_server_it_is_a_shell_that_ends_with_its_input(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from doorward.cli.main import main; main()", "run", "policy.rego"],
        cwd=folder,
        input="1 + 1\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "2\n")


def test_limits_of_a_decision_reach_the_engine(folder: Path, start: Callable[..., Process]) -> None:
    (folder / "policy.rego").write_text(
        "package a\n\np := count([1 | some i in input; some j in input])"
    )
    server = start("--set=evaluation.max_items=1000", "policy.rego")
    assert server.ready(), server.log.read_text()
    assert server.ask("/v1/data/a/p", {"input": [1] * 30})[1]["result"] == 900
    status, answer = server.ask("/v1/data/a/p", {"input": [1] * 40})
    assert status == 500
    assert "eval_limit_error" in answer


def test_authorization_stands_before_both_listeners(
    folder: Path, start: Callable[..., Process]
) -> None:
    (folder / "authz.rego").write_text(
        'package system.authz\n\ndefault allow := false\n\nallow if input.path == ["health"]\n'
    )
    server = start("--authentication=token", "--authorization=basic", "policy.rego", "authz.rego")
    assert server.ready(), server.log.read_text()
    for path, port in (("/v1/data", server.port), ("/metrics", server.diagnostic)):
        status, answer = server.ask(path, port=port)
        assert (status, json.loads(answer)["code"]) == (401, "unauthorized")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tls-cert-file=a"], "--tls-cert-file and --tls-private-key-file must be set together"),
        (["--tls-ca-cert-file=a"], "need --tls-cert-file"),
        (["--authentication=tls"], "need --tls-cert-file"),
        (["--addr=https://127.0.0.1:0"], "need --tls-cert-file"),
        (
            ["--authentication=tls", "--tls-cert-file=a", "--tls-private-key-file=b"],
            "needs --tls-ca-cert-file",
        ),
        (
            ["--tls-cert-file=a", "--tls-private-key-file=b", "--tls-cipher-suites=X"],
            "invalid cipher suite found: X",
        ),
        (["--tls-cert-file=a", "--tls-private-key-file=b"], "TLS: a: no such file"),
    ],
)
def test_tls_that_cannot_be_meant_is_refused(
    folder: Path, start: Callable[..., Process], arguments: list[str], message: str
) -> None:
    server = start(*arguments, "policy.rego")
    assert server.process.wait(PATIENCE) != 0
    assert message in server.log.read_text()


def test_the_api_is_served_over_tls(folder: Path, start: Callable[..., Process]) -> None:
    authority = Authority(folder)
    certificate, key = authority.issue("server")
    server = start(f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}", "policy.rego")
    context = ssl.create_default_context(cafile=str(authority.file))

    def answers() -> bool:
        url = f"https://127.0.0.1:{server.port}/health"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE, context=context) as answer:
                return bool(answer.status == 200)
        except urllib.error.URLError:
            return False

    assert until(answers), server.log.read_text()


BUNDLES = """\
services: {s: {url: "http://127.0.0.1:1"}}
bundles: {a: {resource: a.tar.gz}}
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_server_that_is_stopped_while_it_waits_for_bundles_ends_in_order(
    workers: int, folder: Path, start: Callable[..., Process]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as service:
        service.settimeout(PATIENCE)
        text = BUNDLES.replace("127.0.0.1:1", f"127.0.0.1:{service.getsockname()[1]}")
        (folder / "b.yaml").write_text(text)
        options = [f"--ready-timeout={PATIENCE:g}", f"--workers={workers}"]
        process = start("--config-file=b.yaml", *options, "policy.rego")
        service.accept()[0].close()
        assert process.end() == 0
    log = process.log.read_text()
    assert "Server shutdown." in log
    assert "Failed to wait" not in log


def test_a_server_whose_bundles_never_come_ends_after_its_ready_timeout(
    folder: Path, start: Callable[..., Process]
) -> None:
    (folder / "b.yaml").write_text(BUNDLES)
    process = start("--config-file=b.yaml", "--ready-timeout=1", "policy.rego")
    assert process.process.wait(PATIENCE) == 1
    assert "Failed to wait for plugins activation." in process.log.read_text()
