"""The installer against a real daemon: in force without a restart, and undone when it fails."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from examples.docker.private_daemon import PrivateDaemon, missing
from tests.docker.test_chain import Other, Says
from tests.waiting import wait_until

from doorward.cli.docker import command
from doorward.docker.daemon import ConfigFile, Daemon, DaemonError, call_plugin
from doorward.docker.doctor import diagnose, is_in_force
from doorward.docker.installer import Installation, install, uninstall
from doorward.docker.plugin import Plugin
from doorward.docker.server import PluginServer, bind_unix
from doorward.docker.units import Process, service_unit, socket_unit

ALLOW = "package policy.docker.authz\n\nallow := input.action != `container.delete`\n"


def nothing(_text: str) -> None:
    pass


@pytest.fixture
def wanted(daemon: PrivateDaemon, unique: str, tmp_path: Path) -> Iterator[Installation]:
    policy = tmp_path / "policy.rego"
    policy.write_text(ALLOW)
    found = Installation(
        name=f"{unique}i",
        policies=[str(policy)],
        daemon_json=daemon.config,
        pidfile=daemon.pidfile,
        socket=daemon.socket,
        systemd=False,
        state=tmp_path / "state",
        audit_log=str(tmp_path / "audit.log"),
        pack_folder=tmp_path / "pack",
    )
    yield found
    if found.name in found.config.plugins():
        uninstall(found, nothing)


def following(process: subprocess.Popen[str]) -> list[str]:
    """The lines that a process prints, as they come."""
    lines: list[str] = []
    output = process.stdout
    assert output is not None

    def follow() -> None:
        for line in output:
            lines.append(line)

    threading.Thread(target=follow, daemon=True).start()
    return lines


def test_install_is_in_force_at_once(
    daemon: PrivateDaemon, wanted: Installation, tmp_path: Path
) -> None:
    daemon.config.write_text('{"shutdown-timeout": 7, "max-concurrent-downloads": 2}')
    container = daemon.docker("run", "-d", "--network", "none", "img:1", "sleep", "3600")
    identifier = container.stdout.strip()
    pid = daemon.docker("inspect", "-f", "{{.State.Pid}}", identifier).stdout
    client = ["docker", "--config", str(tmp_path), "-H", f"unix://{daemon.socket}"]
    with subprocess.Popen([*client, "events"], stdout=subprocess.PIPE, text=True) as events:
        try:
            lines = following(events)
            wait_until(lambda: daemon.docker("volume", "create", "seen").returncode or lines)
            said: list[str] = []
            install(wanted, said.append)
            assert said[-1] == "a request to the daemon reached the plugin: it is in force"
            assert list(wanted.config.read()) == [
                "shutdown-timeout",
                "max-concurrent-downloads",
                "authorization-plugins",
            ]
            assert is_in_force(wanted)
            denied = daemon.docker("rm", "-f", identifier)
            assert f"authorization denied by plugin {wanted.name}" in denied.stderr
            assert daemon.docker("inspect", "-f", "{{.State.Pid}}", identifier).stdout == pid
            # once more changes nothing but the process
            install(wanted, said.append)
            assert wanted.config.plugins() == [wanted.name]
            assert is_in_force(wanted)
            levels = {finding.level for finding in diagnose(wanted)}
            assert "fail" not in levels, list(diagnose(wanted))
            uninstall(wanted, said.append)
            assert not is_in_force(wanted)
            assert list(wanted.config.read()) == ["shutdown-timeout", "max-concurrent-downloads"]
            assert not Path(wanted.listens).exists()
            assert isinstance(wanted.supervisor, Process)
            assert wanted.supervisor.pid() is None
            assert daemon.docker("rm", "-f", identifier).returncode == 0
            # The stream is the one that was there before.
            destroyed = wait_until(
                lambda: any("container destroy" in line for line in lines) or events.poll()
            )
            assert destroyed is True, "the stream of events was cut"
        finally:
            events.terminate()
    audit = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    assert {"allow", "deny"} == {line["decision"] for line in audit}


def refused(wanted: Installation, daemon: PrivateDaemon, reason: str) -> None:
    """Installing fails for `reason`, with the file and the daemon as they were."""
    before = wanted.config.content()
    with pytest.raises(DaemonError, match=reason):
        install(wanted, nothing)
    assert wanted.config.content() == before
    assert daemon.alive
    assert daemon.raw("GET", "/v1.41/containers/json").status == 200
    assert isinstance(wanted.supervisor, Process)
    assert wanted.supervisor.pid() is None


def test_broken_configuration_is_refused(daemon: PrivateDaemon, wanted: Installation) -> None:
    daemon.config.write_text('{"debug": true,}')
    try:
        refused(wanted, daemon, "no valid JSON")
        daemon.config.write_text('{"authorization-plugins": "one"}')
        refused(wanted, daemon, "no list of names")
        daemon.config.write_text('{"debug": true, "debug": false}')
        refused(wanted, daemon, "a key is there twice")
    finally:
        daemon.config.write_text("{}\n")


def test_no_url_is_refused(daemon: PrivateDaemon, wanted: Installation) -> None:
    refused(replace(wanted, policies=(), url="not a url"), daemon, "not a URL")


def test_policy_that_does_not_compile_is_refused(
    daemon: PrivateDaemon, wanted: Installation, tmp_path: Path
) -> None:
    (tmp_path / "policy.rego").write_text("package policy.docker.authz\nallow if x")
    refused(wanted, daemon, "rego_unsafe_var_error")


def test_plugin_that_cannot_start_is_refused(
    daemon: PrivateDaemon, wanted: Installation, tmp_path: Path
) -> None:
    occupied = tmp_path / "occupied"
    occupied.write_text("no socket")
    refused(replace(wanted, plugin_socket=str(occupied)), daemon, "the plugin does not start")


def test_plugin_that_cannot_start_again_leaves_the_old_one_in_force(
    daemon: PrivateDaemon, wanted: Installation, tmp_path: Path
) -> None:
    install(wanted, nothing)
    with pytest.raises(DaemonError, match="the plugin does not start"):
        install(replace(wanted, audit_log=str(tmp_path / "no" / "such")), nothing)
    assert is_in_force(wanted)
    assert daemon.raw("GET", "/v1.41/containers/json").status == 200
    assert daemon.raw("DELETE", "/v1.41/containers/x").status == 403


def test_process_that_already_serves_the_socket_is_not_taken_for_ours(
    daemon: PrivateDaemon, wanted: Installation, tmp_path: Path
) -> None:
    """It would decide, by its own policies, while the installer says that ours are in force."""
    other = Plugin(Says(True))
    path = tmp_path / "other.sock"
    server = PluginServer(bind_unix(str(path)), other.answer, threads=4)
    server.start()
    squatted = replace(wanted, plugin_socket=str(path))
    try:
        refused(squatted, daemon, "the plugin does not start: .*other.sock")
        assert call_plugin(str(path), "/Plugin.Activate") == {"Implements": ["authz"]}
        with pytest.raises(DaemonError, match=r"process \d+ still serves"):
            uninstall(squatted, nothing)
    finally:
        server.close()


def test_configuration_that_cannot_be_written_takes_everything_back(
    daemon: PrivateDaemon, wanted: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_paths: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patched:
        patched.setattr("doorward.docker.daemon.os.replace", fail)
        refused(wanted, daemon, "operation not permitted; everything is as it was")
    assert not Path(wanted.listens).exists()


def test_daemon_whose_pidfile_is_wrong_is_found_by_its_socket(
    daemon: PrivateDaemon, wanted: Installation, tmp_path: Path
) -> None:
    elsewhere = replace(wanted, pidfile=tmp_path / "none.pid")
    assert elsewhere.daemon.pid() == wanted.daemon.pid()
    said: list[str] = []
    install(elsewhere, said.append)
    assert said[-1].endswith("it is in force")
    uninstall(elsewhere, said.append)


def test_process_of_an_installer_that_was_killed_is_known_again(
    daemon: PrivateDaemon, wanted: Installation
) -> None:
    install(wanted, nothing)
    supervisor = wanted.supervisor
    assert isinstance(supervisor, Process)
    pid = supervisor.pid()
    (wanted.state / f"{wanted.name}.pid").unlink()
    assert supervisor.pid() == pid
    uninstall(wanted, nothing)
    assert supervisor.pid() is None
    assert not Path(wanted.listens).exists()


def test_bad_name_is_refused(daemon: PrivateDaemon, wanted: Installation) -> None:
    refused(replace(wanted, name="../x"), daemon, "a plugin's name")


def test_other_configuration_file_is_refused(
    daemon: PrivateDaemon, wanted: Installation, tmp_path: Path
) -> None:
    with pytest.raises(DaemonError, match="use --daemon-json"):
        install(replace(wanted, daemon_json=tmp_path / "daemon.json"), nothing)


def test_unreached_plugin_is_undone(
    daemon: PrivateDaemon, wanted: Installation, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Other()
    daemon.plugin(f"{unique}x", other.answer)
    daemon.chain(f"{unique}x")
    other.allow = False
    before = wanted.config.content()
    quick = Daemon.wait_until
    monkeypatch.setattr(
        Daemon, "wait_until", lambda *a, asked, seconds=2.0: quick(*a, asked=asked, seconds=2.0)
    )
    try:
        with pytest.raises(DaemonError, match="everything is as it was"):
            install(wanted, nothing)
        assert wanted.config.content() == before
        assert daemon.alive
        other.allow = True
        assert daemon.raw("GET", "/v1.41/containers/json").status == 200
    finally:
        daemon.chain()
        daemon.end_plugin(f"{unique}x")


def test_plugin_flag_is_refused(unique: str, wanted: Installation, tmp_path: Path) -> None:
    reason = missing()
    if reason:
        pytest.skip(reason)
    folder = Path(f"/tmp/dwf-{unique}")
    folder.mkdir()
    second = PrivateDaemon(folder)
    second.prepare()
    second.plugin(f"{unique}f", Other().answer)
    try:
        second.start(f"--authorization-plugin={unique}f")
        flagged = replace(
            wanted,
            daemon_json=second.config,
            pidfile=second.pidfile,
            socket=second.socket,
        )
        refused(flagged, second, "started with --authorization-plugin")
        # The daemon starts again with a plugin that its file names, and not without it.
    finally:
        second.stop()
        subprocess.run(["rm", "-rf", str(folder)], check=True)


def test_daemon_starts_with_the_plugin_that_its_file_names(
    unique: str, wanted: Installation
) -> None:
    folder = Path(f"/tmp/dwb-{unique}")
    folder.mkdir()
    second = PrivateDaemon(folder)
    second.prepare()
    installed = replace(
        wanted,
        name=f"{unique}b",
        daemon_json=second.config,
        pidfile=second.pidfile,
        socket=second.socket,
    )
    said: list[str] = []
    try:
        install(installed, said.append)
        assert said[-1] == "dockerd does not run: the plugin is in force when it starts"
        second.start()
        assert is_in_force(installed)
        uninstall(installed, said.append)
        assert second.alive
        assert second.raw("GET", "/v1.41/containers/json").status == 200
    finally:
        installed.supervisor.stop()
        second.stop()
        subprocess.run(["rm", "-rf", str(folder)], check=True)


def test_unreachable_policy_server_is_a_warning_and_denies(
    daemon: PrivateDaemon, wanted: Installation
) -> None:
    said: list[str] = []
    remote = replace(wanted, policies=(), url="http://127.0.0.1:9/v1/data/policy/docker/authz")
    install(remote, said.append)
    assert any("WARNING: policy server cannot be reached" in line for line in said)
    answer = daemon.raw("GET", "/v1.41/containers/json")
    assert (answer.status, answer.message) == (
        403,
        f"authorization denied by plugin {wanted.name}: policy server cannot be reached",
    )
    uninstall(remote, said.append)
    assert daemon.raw("GET", "/v1.41/containers/json").status == 200


def test_shipped_policies_decide_by_default(daemon: PrivateDaemon, wanted: Installation) -> None:
    said: list[str] = []
    packed = replace(wanted, policies=())
    install(packed, said.append)
    assert (wanted.pack_folder / "data.json").exists()
    answer = daemon.json(
        "POST", "/v1.41/containers/create", {"Image": "img:1", "HostConfig": {"Privileged": True}}
    )
    assert answer.message.endswith(": privileged is not allowed")
    uninstall(packed, said.append)


def test_dry_run_changes_nothing(daemon: PrivateDaemon, wanted: Installation) -> None:
    before = wanted.config.content()
    arguments = ["--name", wanted.name, "--daemon-json", str(daemon.config), "--no-systemd"]
    arguments += ["--pidfile", str(daemon.pidfile), "--docker-socket", daemon.socket]
    result = CliRunner().invoke(command, ["install", "--dry-run", *arguments])
    assert result.exit_code == 0, result.output
    assert f'would append "{wanted.name}" to authorization-plugins' in result.output
    assert wanted.config.content() == before
    status = CliRunner().invoke(command, ["status", *arguments], standalone_mode=False)
    assert status.return_value == 1


def test_configuration_file_is_replaced_whole(tmp_path: Path) -> None:
    file = ConfigFile(tmp_path / "daemon.json")
    assert file.read() == {}
    file.path.write_text('{"b": 1, "a": [2]}')
    file.path.chmod(0o640)
    file.write({**file.read(), "authorization-plugins": ["x"]})
    assert file.path.read_text() == (
        '{\n  "b": 1,\n  "a": [\n    2\n  ],\n  "authorization-plugins": [\n    "x"\n  ]\n}\n'
    )
    assert file.path.stat().st_mode & 0o777 == 0o640
    assert file.backup.read_text() == '{"b": 1, "a": [2]}'


def test_link_to_the_configuration_file_stays(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere" / "real.json"
    target.parent.mkdir()
    target.write_text("{}")
    file = ConfigFile(tmp_path / "daemon.json")
    file.path.symlink_to(target)
    file.write({"authorization-plugins": ["x"]})
    assert file.path.is_symlink()
    assert json.loads(target.read_text()) == {"authorization-plugins": ["x"]}
    file.restore(b"{}")
    assert (file.path.is_symlink(), target.read_text()) == (True, "{}")
    assert [path.name for path in target.parent.iterdir()] == ["real.json"]


def test_units_start_before_the_daemon() -> None:
    socket = socket_unit("doorward", "/run/docker/plugins/doorward.sock")
    assert "Before=docker.service" in socket
    assert "SocketMode=0600" in socket
    service = service_unit("doorward", ["/usr/bin/doorward", "docker", "serve", "-p", "http://x"])
    assert "ExecStart=/usr/bin/doorward docker serve -p http://x\n" in service
    assert "Requires=doorward-doorward.socket" in service
