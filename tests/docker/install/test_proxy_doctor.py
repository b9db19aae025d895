"""The doctor finds what leads past the proxy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from examples.docker.private_daemon import PrivateDaemon
from tests.docker.proxied import Proxied, proxied

from doorward.docker.install.proxy_doctor import diagnose_proxy


@pytest.fixture
def behind(daemon: PrivateDaemon, tmp_path: Path) -> Iterator[Proxied]:
    with proxied(daemon, tmp_path, "admin") as proxy:
        yield proxy


def said(behind: Proxied, daemon: PrivateDaemon, *arguments: str) -> dict[str, str]:
    findings = diagnose_proxy(
        behind.socket, daemon.socket, daemon_json=daemon.config, arguments=list(arguments)
    )
    return {finding.what: finding.level for finding in findings}


def test_daemon_that_only_root_and_the_proxy_reach_is_fine(
    behind: Proxied, daemon: PrivateDaemon
) -> None:
    os.chmod(daemon.socket, 0o600)
    findings = said(behind, daemon, "-H", f"unix://{daemon.socket}")
    assert set(findings.values()) == {"ok"}, findings


def test_other_ways_to_the_daemon_are_found(behind: Proxied, daemon: PrivateDaemon) -> None:
    arguments = ("-H", "fd://", "-H", "tcp://0.0.0.0:2375", "--host=unix:///run/other.sock")
    findings = said(behind, daemon, *arguments)
    text = "\n".join(what for what, level in findings.items() if level == "fail")
    for part in ("fd://", "tcp://0.0.0.0:2375", "/run/other.sock, which bypasses the proxy"):
        assert part in text


def test_socket_that_others_can_open_is_found(behind: Proxied, daemon: PrivateDaemon) -> None:
    os.chmod(daemon.socket, 0o666)
    os.chmod(daemon.folder, 0o755)
    try:
        assert f"users other than root can open {daemon.socket}, which bypasses the proxy" in said(
            behind, daemon
        )
    finally:
        os.chmod(daemon.socket, 0o600)
        os.chmod(daemon.folder, 0o700)


def test_container_with_the_real_socket_is_found(behind: Proxied, daemon: PrivateDaemon) -> None:
    mount = f"{daemon.folder}:/d"
    created = daemon.docker(
        "create", "--name", "holder", "--network", "none", "-v", mount, "img:1", "id"
    )
    assert created.returncode == 0, created.stderr
    try:
        assert any("container holder can use" in what for what in said(behind, daemon))
    finally:
        daemon.docker("rm", "holder")


def test_proxy_that_does_not_answer_is_found(behind: Proxied, daemon: PrivateDaemon) -> None:
    findings = diagnose_proxy("/nowhere", daemon.socket, daemon_json=daemon.config, arguments=[])
    assert next(findings).what == "nothing answers at /nowhere"


def test_daemon_socket_that_is_a_plain_file_is_found(behind: Proxied, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, problem in (("file", "is not a socket"), ("none", "cannot be found: no such file")):
        path = str(tmp_path / name)
        findings = diagnose_proxy(behind.socket, path, daemon_json=tmp_path, arguments=[])
        assert any(f"{path} {problem}" in finding.what for finding in findings)
