"""The installer against a real daemon: in force without a restart, and undone when it fails."""

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
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from examples.docker.private_daemon import PrivateDaemon, missing
from tests.docker.test_chain import Other, Says
from tests.ports import free_port
from tests.waiting import PATIENCE, pause, wait_until

from doorward.cli.docker import command
from doorward.docker.install.daemon import ConfigFile, Daemon, DaemonError
from doorward.docker.install.doctor import diagnose, is_in_force
from doorward.docker.install.installer import Installation, _alone, install, uninstall
from doorward.docker.install.units import Process, service_unit, socket_unit
from doorward.docker.plugin import Plugin
from doorward.docker.server import PluginServer, bind_unix
from doorward.docker.unix_http import call_plugin, listener_pid

ALLOW = "package policy.docker.authz\n\nallow := input.action != `container.delete`\n"


def nothing(_text: str) -> None:
    pass


@pytest.fixture
def wanted(daemon: PrivateDaemon, unique: str, tmp_path: Path) -> Iterator[Installation]:
    policy = tmp_path / "policy.rego"
    policy.write_text(ALLOW)
    installation = Installation(
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
    yield installation
    if installation.name in installation.config.plugins():
        uninstall(installation, nothing)


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
        refused(wanted, daemon, "not valid JSON")
        daemon.config.write_text('{"authorization-plugins": "one"}')
        refused(wanted, daemon, "must be a list of names")
        daemon.config.write_text('{"debug": true, "debug": false}')
        refused(wanted, daemon, "the key `debug` is repeated")
    finally:
        daemon.config.write_text("{}\n")


def test_other_plugin_that_is_missing_is_named_before_a_reload(
    daemon: PrivateDaemon, wanted: Installation
) -> None:
    """Told to reload a configuration with a plugin that it does not find, dockerd ends itself."""
    install(wanted, nothing)
    names = [wanted.name, "nowhere"]
    daemon.config.write_text(json.dumps({"authorization-plugins": names}))
    try:
        for change in (install, uninstall):
            with pytest.raises(DaemonError, match="names the plugin nowhere, which does not"):
                change(wanted, nothing)
        assert wanted.config.plugins() == names
        assert daemon.alive
    finally:
        daemon.config.write_text(json.dumps({"authorization-plugins": [wanted.name]}))
    uninstall(wanted, nothing)
    daemon.config.write_text('{"authorization-plugins": ["nowhere"]}')
    try:
        refused(wanted, daemon, "names the plugin nowhere, which does not answer")
    finally:
        daemon.config.write_text("{}\n")


def test_text_that_utf8_does_not_have_stays_in_the_configuration(tmp_path: Path) -> None:
    config = ConfigFile(tmp_path / "daemon.json")
    config.path.write_text('{"labels": ["a=\\ud800", "b=\u00e9"]}')
    document = config.read()
    config.write({**document, "debug": True}, keep_old=True)
    assert config.read() == {"labels": ["a=\ud800", "b=\u00e9"], "debug": True}


def test_no_url_is_refused(daemon: PrivateDaemon, wanted: Installation) -> None:
    refused(replace(wanted, policies=(), url="not a url"), daemon, "must be a URL")


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
        with pytest.raises(DaemonError, match=r"still served by process \d+"):
            uninstall(squatted, nothing)
    finally:
        server.close()


def test_configuration_that_cannot_be_written_takes_everything_back(
    daemon: PrivateDaemon, wanted: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_paths: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patched:
        patched.setattr("doorward.docker.install.daemon.os.replace", fail)
        refused(wanted, daemon, "operation not permitted; all changes are undone")
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


def test_plugin_stays_while_the_daemon_gives_no_answer(
    daemon: PrivateDaemon, wanted: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon that does not answer may ask the plugin as soon as it does."""
    install(wanted, nothing)
    assert daemon.process is not None
    quick = Daemon.wait_until
    with monkeypatch.context() as patched:
        patched.setattr("doorward.docker.install.daemon.PROBE_TIMEOUT", 0.5)
        patched.setattr(
            Daemon,
            "wait_until",
            lambda *a, in_force, seconds=2.0: quick(*a, in_force=in_force, seconds=2.0),
        )
        pause(daemon.process.pid)
        try:
            with pytest.raises(
                DaemonError,
                match=r"cannot be uninstalled, and stays configured: .* or dockerd does not answer",
            ):
                uninstall(wanted, nothing)
        finally:
            daemon.process.send_signal(signal.SIGCONT)
    assert wanted.config.plugins() == [wanted.name]
    assert wait_until(lambda: is_in_force(wanted))
    uninstall(wanted, nothing)


KILLED = """
import importlib, os, sys

module, _, name = sys.argv[1].rpartition(".")
before = name.startswith("!")
try:
    owner = importlib.import_module(module)
except ModuleNotFoundError:
    module, _, kind = module.rpartition(".")
    owner = getattr(importlib.import_module(module), kind)
original = getattr(owner, name.strip("!"))

def killed(*arguments, **options):
    if not before:
        original(*arguments, **options)
    os.kill(os.getpid(), 9)

setattr(owner, name.strip("!"), killed)
from doorward.cli.main import main
main(sys.argv[2:])
"""
STEPS = [
    ("install", "doorward.docker.install.units.subprocess.Popen"),
    ("install", "doorward.docker.install.installer._start_service"),
    ("install", "doorward.docker.install.daemon.os.!replace"),
    ("install", "doorward.docker.install.daemon.ConfigFile.write"),
    ("install", "doorward.docker.install.daemon.Daemon.reload"),
    ("uninstall", "doorward.docker.install.daemon.ConfigFile.write"),
    ("uninstall", "doorward.docker.install.daemon.Daemon.reload"),
    ("uninstall", "doorward.docker.install.units.Process.!stop"),
    ("uninstall", "doorward.docker.install.units.os.kill"),
]


@pytest.mark.parametrize(("verb", "step"), STEPS, ids=[f"{verb}-{step}" for verb, step in STEPS])
def test_installer_that_is_killed_leaves_what_the_next_run_cleans_up(
    daemon: PrivateDaemon, wanted: Installation, verb: str, step: str
) -> None:
    where = ["--name", wanted.name, "--daemon-json", str(daemon.config), "--no-systemd"]
    where += ["--pidfile", str(daemon.pidfile), "--docker-socket", daemon.socket]
    where += ["--state", str(wanted.state)]
    if verb == "install":
        where += ["--policy", wanted.policies[0]]
    else:
        install(wanted, nothing)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, step, "docker", verb, *where], check=False, timeout=PATIENCE
    )
    assert done.returncode == -signal.SIGKILL
    assert daemon.alive
    assert daemon.raw("GET", "/v1.41/containers/json").status == 200
    install(wanted, nothing)
    assert is_in_force(wanted)
    uninstall(wanted, nothing)
    assert daemon.raw("GET", "/v1.41/containers/json").status == 200
    assert isinstance(wanted.supervisor, Process)
    assert wanted.supervisor.pid() is None
    assert not Path(wanted.listens).exists()
    assert not list(daemon.config.parent.glob(".daemon.json*"))


def test_two_installers_do_not_work_at_the_same_time(
    daemon: PrivateDaemon, wanted: Installation
) -> None:
    with _alone(wanted):
        refused(wanted, daemon, "another run of `doorward docker install` or `uninstall`")
        with pytest.raises(
            DaemonError, match="another run of `doorward docker install` or `uninstall`"
        ):
            uninstall(wanted, nothing)
    install(wanted, nothing)


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "full"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(folder)]
    subprocess.run(mount, check=True)
    with suppress(OSError), (folder / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_full_disk_takes_everything_back(
    daemon: PrivateDaemon, wanted: Installation, full_disk: Path
) -> None:
    refused(replace(wanted, state=full_disk / "state"), daemon, "no space left on device")
    assert not Path(wanted.listens).exists()
    link = full_disk / "daemon.json"
    link.touch()
    file = ConfigFile(link)
    with pytest.raises(DaemonError, match="no space left on device"):
        file.write({"authorization-plugins": ["x"]}, keep_old=True)
    assert sorted(path.name for path in full_disk.iterdir() if path.is_file()) == [
        "daemon.json",
        "daemon.json.before-doorward",
        "filler",
    ]


def test_policies_that_others_may_change_are_found(
    daemon: PrivateDaemon, wanted: Installation
) -> None:
    install(wanted, nothing)
    policy = Path(wanted.policies[0])
    assert not [each for each in diagnose(wanted) if "can be changed by users other" in each.what]
    policy.chmod(0o666)
    levels = {each.what: each.level for each in diagnose(wanted)}
    assert levels[f"{policy} can be changed by users other than root"] == "fail"


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
        Daemon,
        "wait_until",
        lambda *a, in_force, seconds=2.0: quick(*a, in_force=in_force, seconds=2.0),
    )
    try:
        with pytest.raises(DaemonError, match="all changes are undone"):
            install(wanted, nothing)
        assert wanted.config.content() == before
        assert daemon.alive
        other.allow = True
        assert daemon.raw("GET", "/v1.41/containers/json").status == 200
    finally:
        daemon.chain()
        daemon.end_plugin(f"{unique}x")


def test_failed_upgrade_says_that_the_new_service_runs(
    daemon: PrivateDaemon, wanted: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(wanted, nothing)
    before = wanted.config.content()
    with monkeypatch.context() as patched:
        patched.setattr(Daemon, "wait_until", lambda *_args, **_options: False)
        with pytest.raises(
            DaemonError, match="configuration is unchanged, and the new service runs"
        ):
            install(wanted, nothing)
    assert wanted.config.content() == before
    assert is_in_force(wanted)


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


def test_unreachable_policy_server_is_refused_unless_that_is_wanted(
    daemon: PrivateDaemon, wanted: Installation
) -> None:
    remote = replace(wanted, policies=(), url="http://127.0.0.1:9/v1/data/policy/docker/authz")
    refused(
        remote,
        daemon,
        r"no decision .* \(policy server cannot be reached\), so everyone would be locked out",
    )
    said: list[str] = []
    install(replace(remote, may_be_undecided=True), said.append)
    assert any("(policy server cannot be reached)" in line for line in said)
    answer = daemon.raw("GET", "/v1.41/containers/json")
    assert (answer.status, answer.message) == (
        403,
        f"authorization denied by plugin {wanted.name}: policy server cannot be reached",
    )
    findings = {finding.what: finding.level for finding in diagnose(replace(wanted, url=""))}
    # By the running plugin's own configuration, and not by ours.
    assert findings[f"decided by {remote.url}"] == "ok"
    assert findings["a typical request is not decided: policy server cannot be reached"] == "fail"
    uninstall(remote, said.append)
    assert daemon.raw("GET", "/v1.41/containers/json").status == 200


@pytest.fixture
def decision_point(wanted: Installation) -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-c", "from doorward.cli.main import main; main()", "run"]
    command += ["--server", f"--addr=127.0.0.1:{port}", *wanted.policies]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: listens(port), "the decision point does not listen")
        yield f"http://127.0.0.1:{port}/v1/data"
    finally:
        process.terminate()
        process.wait(PATIENCE)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_wrong_path_of_a_decision_is_refused(
    daemon: PrivateDaemon, wanted: Installation, decision_point: str
) -> None:
    remote = replace(wanted, policies=(), extra=("--timeout", "60"))
    wrong = replace(remote, url=f"{decision_point}/policy/docker/author")
    refused(
        wrong,
        daemon,
        r"author: no decision on a typical request \(policy decision is undefined\), so everyone",
    )
    install(replace(remote, url=f"{decision_point}/policy/docker/authz"), nothing)
    assert is_in_force(wanted)
    # What decides stays in force.
    with pytest.raises(DaemonError, match="policy decision is undefined"):
        install(wrong, nothing)
    assert is_in_force(wanted)
    assert daemon.raw("GET", "/v1.41/containers/json").status == 200


def test_policies_that_decide_nothing_are_refused(
    daemon: PrivateDaemon, wanted: Installation, tmp_path: Path
) -> None:
    refused(replace(wanted, extra=("--decision=policy/docker/other",)), daemon, "is undefined")
    (tmp_path / "policy.rego").write_text("package policy.dokcer.authz\n\nallow := true\n")
    refused(wanted, daemon, "policy decision is undefined")
    (tmp_path / "policy.rego").write_text("package policy.docker.authz\n\nallow := `yes`\n")
    refused(wanted, daemon, "`allow` of the policy decision is")
    # One usual request that is decided is enough: a policy may leave the rest undefined.
    policy = "package policy.docker\n\nauthz.allow if input.action == `container.create`\n"
    (tmp_path / "policy.rego").write_text(policy)
    install(wanted, nothing)


@pytest.mark.parametrize("words", [("--timeout", "soon"), ("--timeout",), ("--timeout=61",)])
def test_timeout_that_the_plugin_would_refuse_is_refused(words: tuple[str, ...]) -> None:
    unreachable = Installation(url="http://127.0.0.1:1/v1/data/p", extra=words)
    with pytest.raises(DaemonError, match="--timeout must be above 0 and at most 60 seconds"):
        install(unreachable, nothing)


def test_plugin_that_decides_nothing_is_taken_back(
    daemon: PrivateDaemon, wanted: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process may see other files and servers than the installer does."""
    monkeypatch.setattr("doorward.docker.install.installer._check_options", lambda _wanted: None)
    refused(replace(wanted, extra=("--decision", "other")), daemon, "is undefined")
    assert not Path(wanted.listens).exists()
    install(wanted, nothing)
    with pytest.raises(DaemonError, match="is undefined"):
        install(replace(wanted, extra=("--decision", "other")), nothing)
    assert is_in_force(wanted)
    assert daemon.raw("GET", "/v1.41/containers/json").status == 200


def status_of(wanted: Installation) -> tuple[int, list[str]]:
    """Exit code and lines of `doorward docker status`."""
    arguments = ["--name", wanted.name, "--daemon-json", str(wanted.daemon_json), "--no-systemd"]
    arguments += ["--pidfile", str(wanted.pidfile), "--docker-socket", wanted.socket]
    result = CliRunner().invoke(command, ["status", *arguments], standalone_mode=False)
    return result.return_value, result.output.splitlines()


def test_status_tells_in_force_from_open_and_locked_out(
    daemon: PrivateDaemon, wanted: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, lines = status_of(wanted)
    assert (code, lines[0][:5]) == (1, "OPEN:")
    assert (
        lines[1]
        == f"the plugin at {wanted.listens} does not answer: `doorward docker doctor` says why"
    )
    install(wanted, nothing)
    code, lines = status_of(wanted)
    assert (code, lines[0][:9]) == (0, "in force:")
    assert any(line.startswith(f"decided by {wanted.policies[0]} (") for line in lines)
    assert f"audit log: {wanted.audit_log}" in lines
    assert "watchdog restarts the plugin if it stops answering" in lines
    watchdog = listener_pid(wanted.listens)
    assert watchdog is not None
    plugin = int(Path(f"/proc/{watchdog}/task/{watchdog}/children").read_text())
    # Only a stopped plugin is waited for in vain.
    monkeypatch.setattr("doorward.docker.install.daemon.PROBE_TIMEOUT", 5.0)
    pause(watchdog)
    pause(plugin)
    try:
        code, lines = status_of(wanted)
        assert (code, lines[0][:11]) == (2, "LOCKED OUT:")
        levels = {each.what.partition(":")[0]: each.level for each in diagnose(wanted)}
        assert levels["LOCKED OUT"] == "fail"
    finally:
        os.kill(plugin, signal.SIGCONT)
        os.kill(watchdog, signal.SIGCONT)
    monkeypatch.undo()
    assert wait_until(lambda: is_in_force(wanted))


def test_broken_policies_are_shown_until_they_are_right(
    daemon: PrivateDaemon, wanted: Installation
) -> None:
    install(wanted, nothing)
    policy = Path(wanted.policies[0])
    policy.write_text("package policy.docker.authz\n\nallow := broken(\n")

    def broken() -> list[str]:
        return [line for line in status_of(wanted)[1] if line.startswith("BROKEN for ")]

    wait_until(broken)
    assert "rego_parse_error" in broken()[0]
    assert any(each.level == "fail" and "BROKEN" in each.what for each in diagnose(wanted))
    assert daemon.raw("GET", "/v1.41/containers/json").status == 200
    policy.write_text(ALLOW)
    wait_until(lambda: not broken())


def test_dry_run_shows_the_steps_on_any_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr("doorward.docker.install.units.has_systemd", lambda: False)
    where = ["--daemon-json", str(tmp_path / "daemon.json"), "--pidfile", str(tmp_path / "pid")]
    where += ["--docker-socket", str(tmp_path / "d.sock"), "--pack-folder", str(tmp_path / "pack")]
    result = CliRunner().invoke(command, ["install", "--dry-run", *where])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == (
        f"would send typical requests to {tmp_path}/pack, and go on only if one is decided"
    )
    assert f"would copy the shipped data to {tmp_path}/pack" in lines
    assert any("doorward-doorward.socket and .service" in line for line in lines)
    assert "but: only root may install a plugin" in lines
    assert list(tmp_path.iterdir()) == []
    url = ["-p", "http://127.0.0.1:9/v1/data/policy/docker/authz"]
    result = CliRunner().invoke(command, ["install", "--dry-run", *where, *url])
    assert result.exit_code == 0
    assert (
        "authz: no decision on a typical request (policy server cannot be reached)" in result.output
    )


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
    file.write({**file.read(), "authorization-plugins": ["x"]}, keep_old=True)
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
    file.write({"authorization-plugins": ["x"]}, keep_old=False)
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
