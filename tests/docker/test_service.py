"""The plugin as a process: socket activation, a remote daemon's specification, the commands."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from examples.docker.private_daemon import PrivateDaemon
from tests.forking import run_command
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

from doorward.cli.docker import command
from doorward.docker.install.certificates import issue_client, issue_server, make_authority
from doorward.docker.install.doctor import state_findings
from doorward.docker.install.units import decisions_unit, service_unit, socket_unit
from doorward.docker.unix_http import call_plugin
from doorward.docker.watch.status import read_status

ALLOW = "package policy.docker.authz\n\nallow := input.action != `image.list`\n"
SERVE = [sys.executable, "-c", "from doorward.cli.main import main; main()", "docker", "serve"]


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.rego"
    path.write_text(ALLOW)
    return path


def wait_for(path: str) -> None:
    wait_until(lambda: call_plugin(path, "/Plugin.Activate"), "the plugin does not answer")


def ask(path: str, body: bytes) -> Any:
    """What the plugin answers, however long that takes."""
    return call_plugin(path, "/AuthZPlugin.AuthZReq", body, timeout=PATIENCE)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments), standalone_mode=False)


@pytest.mark.parametrize("program", [("serve",), ("proxy", "--daemon=/none")])
@pytest.mark.parametrize("path", ["", "/", " "])
def test_the_root_cannot_decide(program: tuple[str, ...], path: str) -> None:
    message = "--decision must be the path of a document below the root"
    assert message in str(run(*program, f"--decision={path}").exception)


def test_process_serves_and_leaves_nothing_behind(policy: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "p.sock")
    command_line = [*SERVE, "--socket", path, "--policy", str(policy)]
    with subprocess.Popen(command_line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_for(path)
        body = json.dumps({"RequestMethod": "GET", "RequestUri": "/images/json"}).encode()
        denied = {"Allow": False, "Msg": "denied by policy"}
        assert ask(path, body) == denied
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert json.loads(out)["action"] == "image.list"
    assert not Path(path).exists()


def test_audit_log_can_be_moved_away(policy: Path, tmp_path: Path) -> None:
    path, log = str(tmp_path / "p.sock"), tmp_path / "audit"
    arguments = ["--socket", path, "--policy", str(policy), "--audit-log", str(log)]
    body = json.dumps({"RequestMethod": "GET", "RequestUri": "/info"}).encode()
    process = subprocess.Popen([*SERVE, *arguments], stderr=subprocess.DEVNULL)
    try:
        wait_for(path)
        ask(path, body)
        log.rename(tmp_path / "audit.1")
        process.send_signal(signal.SIGHUP)
        wait_until(log.exists, "no new log was begun")
        ask(path, body)
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0
    assert len(log.read_text().splitlines()) == 1
    assert len((tmp_path / "audit.1").read_text().splitlines()) == 1


def test_without_an_audit_log_everything_else_is_the_same(policy: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "p.sock")
    body = json.dumps({"RequestMethod": "GET", "RequestUri": "/images/json"}).encode()
    with subprocess.Popen(
        [*SERVE, "--socket", path, "--policy", str(policy), "--audit-log", "off"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        wait_for(path)
        process.send_signal(signal.SIGHUP)
        assert ask(path, body) == {"Allow": False, "Msg": "denied by policy"}
        status = read_status(path)
        assert status is not None
        findings = [each.what for each in state_findings(status)]
        assert "the plugin writes no audit log" in findings
        process.terminate()
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, b""), err
    assert not (tmp_path / "off").exists()


def test_socket_of_the_service_manager_outlives_the_process(policy: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "p.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(16)
    # What systemd does between fork and exec: the socket is descriptor 3, and its number is ours.
    start = (
        "import os, sys; os.dup2(int(sys.argv[1]), 3); os.set_inheritable(3, True); "
        "os.environ['LISTEN_PID'] = str(os.getpid()); os.environ['LISTEN_FDS'] = '1'; "
        "os.execv(sys.argv[2], sys.argv[2:])"
    )
    launcher = [sys.executable, "-c", start, str(listener.fileno())]
    for _ in range(2):
        process = subprocess.Popen(
            [*launcher, *SERVE, "--policy", str(policy)],
            pass_fds=[listener.fileno()],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_for(path)
        finally:
            process.terminate()
            assert process.wait(PATIENCE) == 0
        assert Path(path).exists()
    listener.close()


@pytest.fixture
def specification(daemon: PrivateDaemon, unique: str) -> Iterator[Path]:
    folder = Path("/etc/docker/plugins")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{unique}r.json"
    yield path
    daemon.chain()
    path.unlink(missing_ok=True)


def test_remote_plugin_by_a_specification(
    daemon: PrivateDaemon, unique: str, specification: Path, policy: Path, tmp_path: Path
) -> None:
    make_authority(tmp_path)
    issue_server(tmp_path, ["localhost", "127.0.0.1"])
    issue_client(tmp_path, "daemon")
    port = free_port()
    specification.write_text(
        json.dumps(
            {
                "Name": f"{unique}r",
                "Addr": f"https://localhost:{port}",
                "TLSConfig": {
                    "InsecureSkipVerify": False,
                    "CAFile": str(tmp_path / "ca.pem"),
                    "CertFile": str(tmp_path / "daemon-cert.pem"),
                    "KeyFile": str(tmp_path / "daemon-key.pem"),
                },
            }
        )
    )
    command_line = [*SERVE, "--listen", f"127.0.0.1:{port}", "--policy", str(policy)]
    command_line += ["--tls-cert-file", str(tmp_path / "server-cert.pem")]
    command_line += ["--tls-private-key-file", str(tmp_path / "server-key.pem")]
    command_line += ["--tls-ca-cert-file", str(tmp_path / "ca.pem")]
    process = subprocess.Popen(command_line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: listens(port), "the plugin does not listen")
        daemon.chain(f"{unique}r")
        assert daemon.raw("GET", "/v1.41/containers/json").status == 200
        answer = daemon.raw("GET", "/v1.41/images/json")
        assert answer.message == f"authorization denied by plugin {unique}r: denied by policy"
        daemon.chain()
    finally:
        process.terminate()
        process.wait(PATIENCE)


def test_service_needs_sense() -> None:
    for arguments in (
        ["--pdp", "nonsense"],
        ["--pdp", "http://x/", "--policy", "y"],
        ["--listen", "127.0.0.1:1"],
        ["--timeout", "0"],
        ["--threads", "0"],
        ["--minimum-api-version", "x"],
        ["--policy", "/nonexistent"],
        ["--audit-log", "/nonexistent/x"],
    ):
        path = f"/tmp/dw-{os.getpid()}.sock"
        done = run_command(["docker", "serve", "--socket", path, *arguments])
        assert (done.returncode, done.stderr[:7]) == (1, "Error: "), arguments


def test_certificates_by_command(tmp_path: Path) -> None:
    folder = ["--folder", str(tmp_path / "certs")]
    assert run("cert", "ca", *folder).return_value == 0
    assert run("cert", "server", "host.example", "10.0.0.1", *folder).return_value == 0
    assert run("cert", "user", "alice", "--days", "30", *folder).return_value == 0
    names = sorted(path.name for path in (tmp_path / "certs").iterdir())
    assert names == [
        "alice-cert.pem",
        "alice-key.pem",
        "ca-key.pem",
        "ca.pem",
        "server-cert.pem",
        "server-key.pem",
    ]
    for name in names:
        mode = (tmp_path / "certs" / name).stat().st_mode & 0o777
        assert mode == (0o600 if "key" in name else 0o644)
    assert "exists already" in str(run("cert", "user", "alice", *folder).exception)
    assert "a user's name" in str(run("cert", "user", "a/b", *folder).exception)
    assert "cannot be read" in str(run("cert", "user", "x", "--folder", str(tmp_path)).exception)


def test_replay_shows_what_changed(docker_captures: Path, tmp_path: Path) -> None:
    names = ("run_privileged.json", "ps_all.json")
    result = run("replay", *(str(docker_captures / name) for name in names))
    assert result.return_value == 1
    assert "allow -> deny  container.create" in result.output
    assert "privileged is not allowed" in result.output
    assert "requests, 1 changed" in result.output


def test_replay_by_two_deciders_is_refused(docker_captures: Path, policy: Path) -> None:
    file = str(docker_captures / "ps_all.json")
    result = run("replay", file, "--policy", str(policy), "--data", str(policy.parent))
    assert "cannot be combined: give one of them" in str(result.exception)


def test_replay_of_the_audit_log(policy: Path, tmp_path: Path) -> None:
    log = tmp_path / "audit"
    path = str(tmp_path / "p.sock")
    arguments = ["--audit-log", str(log), "--audit-input", "--socket", path]
    process = subprocess.Popen([*SERVE, *arguments, "--policy", str(policy)])
    try:
        wait_for(path)
        for uri in ("/images/json", "/info"):
            body = json.dumps({"RequestMethod": "GET", "RequestUri": uri}).encode()
            ask(path, body)
    finally:
        process.terminate()
        process.wait(PATIENCE)
    same = run("replay", str(log), "--policy", str(policy))
    assert (same.return_value, same.output) == (0, "2 requests, 0 changed\n")
    policy.write_text("package policy.docker.authz\n\nallow := false\n")
    other = run("replay", str(log), "--policy", str(policy))
    assert other.return_value == 1
    assert "allow -> deny  system.info" in other.output
    (tmp_path / "junk").write_text("{")
    assert "line is not JSON" in str(run("replay", str(tmp_path / "junk")).exception)


def test_doctor_without_a_daemon_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "daemon.json").write_text('{"authorization-plugins": ["x", "x"]}')
    result = run(
        "doctor",
        *("--daemon-json", str(tmp_path / "daemon.json"), "--pidfile", str(tmp_path / "pid")),
        *("--docker-socket", str(tmp_path / "d.sock"), "--socket", str(tmp_path / "p.sock")),
        *("-p", "http://127.0.0.1:9/x"),
    )
    assert result.return_value == 1
    assert "warn  dockerd does not run" in result.output
    assert "names a plugin twice" in result.output
    assert (
        "fail  a typical request is not decided: policy server cannot be reached" in result.output
    )
    assert result.output.count("->") >= 4


SOCKET = "/run/docker/plugins/doorward.sock"
PROGRAM = "/opt/doorward/bin/doorward"
POLICIES = "/etc/doorward/docker"
PLUGIN = [PROGRAM, "docker", "serve", "--socket", SOCKET, "--data", POLICIES]
UNITS = {
    "doorward-doorward.socket": socket_unit("doorward", SOCKET),
    "doorward-doorward.service": service_unit("doorward", PLUGIN),
    "doorward-decisions.service": decisions_unit(
        [
            *(PROGRAM, "run", "--server", "--unix-socket-perm=666"),
            *("--addr=unix:///run/doorward-decisions/socket", POLICIES),
        ]
    ),
}


def test_shipped_units_are_those_of_the_installer(root: Path) -> None:
    folder = root / "deploy/systemd"
    assert {path.name: path.read_text() for path in folder.glob("*.*")} == UNITS


def test_units_are_what_systemd_takes(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("`systemd-analyze` is missing")
    for name, text in UNITS.items():
        # It looks for the program that a unit starts.
        (tmp_path / name).write_text(text.replace(PROGRAM, "/bin/true"))
    files = [str(tmp_path / name) for name in UNITS]
    done = subprocess.run([program, "verify", *files], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_shipped_policies_are_copied_to_be_edited(tmp_path: Path) -> None:
    folder = tmp_path / "etc" / "docker"
    result = run("policies", str(folder))
    assert result.return_value == 0
    assert (folder / "data.json").exists()
    assert "defines who may do what" in result.output
    (folder / "data.json").write_text("{}")
    assert "exists already" in str(run("policies", str(folder)).exception)
    assert (folder / "data.json").read_text() == "{}"
