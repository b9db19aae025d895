"""The endpoints on `doorward run`, in one process and in several, and the command of the kit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.test_run import Process
from tests.ports import free_port
from tests.waiting import PATIENCE

from acceptance.wire import send, write_request
from doorward.cli.kit import command
from doorward.forward.kit import OAUTH2_PROXY, PROXY_FILES, Site, to_files

POLICY = """package envoy.authz

default allow := false

allow if input.attributes.request.http.path == "/open"
"""
QUESTION = (
    ("x-forwarded-method", "GET"), ("x-forwarded-host", "a.example"), ("x-forwarded-proto", "http"),
)  # fmt: skip


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def run(block: str, *arguments: str) -> Process:
        (tmp_path / "policy.rego").write_text(POLICY)
        (tmp_path / "config.yaml").write_text(f"plugins:\n  forward_auth: {block}\n")
        started.append(Process(tmp_path, "--config-file=config.yaml", *arguments, "policy.rego"))
        return started[-1]

    yield run
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
        each.process.wait()


@pytest.mark.parametrize("workers", [[], ["--workers=2"]], ids=["one", "two"])
def test_proxies_ask_on_an_address_of_their_own(
    start: Callable[..., Process], workers: list[str]
) -> None:
    port = free_port()
    block = f"{{addr: '127.0.0.1:{port}', secret: sixteen-characters-at-least, other: 1}}"
    server = start(block, *workers)
    assert server.ready(), server.log.read_text()

    def ask(target: str, secret: str = "sixteen-characters-at-least") -> int:
        headers = (*QUESTION, ("x-forwarded-uri", target), ("x-doorward-secret", secret))
        question = write_request("GET", "/auth/traefik", headers)
        return send(port, question, within=PATIENCE).status

    assert (ask("/open"), ask("/closed"), ask("/open", "another")) == (200, 403, 403)
    assert send(port, write_request("GET", "/v1/data"), within=PATIENCE).status == 404
    assert server.ask("/auth/traefik")[0] == 404
    assert server.end() == 0
    warning = "config.yaml:2: plugins.forward_auth.other: unknown key, ignored"
    assert server.messages(warning)


def test_a_wrong_option_keeps_the_server_from_starting(start: Callable[..., Process]) -> None:
    server = start("{secret: short}")
    assert server.process.wait(PATIENCE) != 0
    assert "forward_auth.secret must be 16 to 512" in server.log.read_text()


def test_the_kit_writes_the_files_of_a_proxy(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("a-secret-of-the-proxy\n")
    runner = CliRunner()
    wanted = ["forward", "--proxy=traefik", f"--secret-file={tmp_path / 'secret.txt'}"]
    done = runner.invoke(command, [*wanted, "--header=x-user", f"-o{tmp_path}"])
    assert done.exit_code == 0, done.output
    assert "a-secret-of-the-proxy" in (tmp_path / "dynamic.yaml").read_text()
    again = runner.invoke(command, [*wanted, f"-o{tmp_path}"])
    assert "exists; use --force" in again.output
    shown = runner.invoke(command, ["forward", "--proxy=haproxy"])
    assert "# ---- haproxy.cfg" in shown.output
    wrong = runner.invoke(command, ["forward", "--proxy=nginx", "--listen=nowhere"])
    assert (
        wrong.exit_code,
        "`nowhere` is not an address of the form HOST:PORT" in wrong.output,
    ) == (2, True)


@pytest.mark.parametrize("proxy", sorted(PROXY_FILES))
def test_the_headers_of_oauth2_proxy_are_the_policys(proxy: str) -> None:
    wanted = ["forward", f"--proxy={proxy}", "--oauth2-proxy", "--header=x-auth-request-user"]
    shown = CliRunner().invoke(command, wanted)
    assert shown.exit_code == 0
    site = Site(response_headers=("x-auth-request-user", *OAUTH2_PROXY[1:]))
    for text in to_files(proxy, site).values():
        assert text in shown.output
    for name in OAUTH2_PROXY:
        assert name in shown.output
