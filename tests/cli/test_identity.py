"""`identity` in the configuration: the server's policies verify tokens with an issuer's keys."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.test_run import Process
from tests.pdp.test_identity import ONE, POLICY, TWO, Provider
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

from doorward.config.configuration import ConfigError, parse_config


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    folder = tmp_path / "issuer"
    folder.mkdir()
    running = Provider(folder)
    yield running
    running.stop()


def serving(folder: Path, issuer: str, *arguments: str) -> Process:
    (folder / "p.rego").write_text(POLICY)
    config = f"identity: {{main: {{issuer: '{issuer}', interval_seconds: 1}}}}\n"
    (folder / "c.yaml").write_text(config)
    return Process(folder, "--config-file=c.yaml", *arguments, "p.rego")


def allows(server: Process, token: str) -> bool:
    http = {"headers": {"authorization": f"Bearer {token}"}}
    document = {"input": {"attributes": {"request": {"http": http}}}}
    status, answer = server.ask("/v1/data/envoy/authz/allow", document)
    assert status == 200
    return answer["result"] is True


def test_a_server_verifies_tokens_with_keys_that_rotate(tmp_path: Path, provider: Provider) -> None:
    server = serving(tmp_path, provider.url, "--workers=1")
    try:
        one, two = ONE.token(provider.url), TWO.token(provider.url)
        wait_until(lambda: server.ready() and allows(server, one))
        assert not allows(server, two)
        provider.publish(TWO)
        wait_until(lambda: allows(server, two))
        assert not allows(server, one)
        provider.stop()
        wait_until(lambda: "keys could not be fetched" in server.log.read_text())
        assert allows(server, two)
    finally:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0


def test_a_server_without_its_issuer_refuses_tokens(tmp_path: Path) -> None:
    server = serving(tmp_path, f"http://127.0.0.1:{free_port()}", "--workers=1")
    try:
        assert server.ready("/health")
        (said,) = server.messages(
            "Serving without the issuer's keys: its tokens are refused until they are fetched."
        )
        assert said["issuer"] == "main"
        assert not allows(server, ONE.token("http://127.0.0.1"))
    finally:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0


def test_keys_need_a_single_process(tmp_path: Path) -> None:
    server = serving(tmp_path, "https://login.example", "--workers=2")
    assert server.process.wait(PATIENCE) == 1
    assert "works in a single process only" in server.log.read_text()


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("{main: {}}", "must be a URL"),
        ("{main: {issuer: 'http://login.example'}}", "must begin with https"),
        ("{main: {issuer: 'https://a.example', jwks_url: 'x'}}", "jwks_url"),
        ("{main: {issuer: 'https://a.example', interval_seconds: 0.1}}", "interval_seconds"),
        ("{main: 5}", "main"),
    ],
)
def test_issuers_that_cannot_be_used_are_refused(block: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_config(f"identity: {block}", environment={})


def test_unknown_keys_of_an_issuer_are_named() -> None:
    text = "identity: {main: {issuer: 'https://a.example', cert: x}}"
    config = parse_config(text, environment={})
    assert any("cert" in warning for warning in config.warnings)
    assert config.identity["main"].interval == 300.0
