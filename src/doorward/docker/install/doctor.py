"""Dangers to the plugin on this machine: each finding with what to do about it.

Looking changes nothing, but for one harmless request to the daemon.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from doorward.base.counting import counted
from doorward.docker.audit import OFF
from doorward.docker.decider.embedded import PACK
from doorward.docker.decider.remote import RemotePdp, UrlError, accepts_writes, check_url
from doorward.docker.decider.trial import why_undecided
from doorward.docker.install.buildkit import answers_past_plugins, is_for_root_alone
from doorward.docker.install.daemon import DaemonError, Reach
from doorward.docker.install.installer import Installation
from doorward.docker.install.units import has_systemd
from doorward.docker.install.upgrade import copies, show_differences
from doorward.docker.request.daemon_settings import DaemonSettings
from doorward.docker.unix_http import call_plugin
from doorward.docker.watch.status import TRIAL, PluginStatus, read_status

__all__ = [
    "REACHED",
    "Finding",
    "Level",
    "diagnose",
    "is_in_force",
    "past_plugins",
    "state_findings",
]

Level: TypeAlias = Literal["ok", "warn", "fail"]
_ACTIVE: Final = {"Implements": ["authz"]}
_NOBODY: Final = 65534
"""The user and group that no file belongs to."""
_TRIAL: Final = 300.0
"""Seconds for the plugin to put usual requests to the decision point."""


class Finding(NamedTuple):
    """The result of one check: its level, the text `what`, and what to do about it; `advice` is ""
    if there is nothing to do.
    """

    level: Level
    what: str
    advice: str = ""


def is_in_force(installed: Installation) -> bool:
    """Return True if requests to the daemon reach the plugin now: by trying it."""
    return installed.daemon.asks(installed.listens)


def diagnose(installed: Installation) -> Iterator[Finding]:
    """Yield the findings about the daemon, its configuration, the plugin, its files and decisions,
    and the system around them, the basic ones first. What only a running plugin can tell is left
    out if it does not answer.
    """
    status = read_status(installed.listens)
    yield from _process(installed)
    yield from _config(installed)
    yield from _plugin(installed, status)
    if status is not None:
        yield from state_findings(status)
        written = [each for each in (status.audit_log,) if each != OFF]
        yield from _writable([*status.policies, *written])
        yield from _check_copies(status.policies)
    yield from _decision(installed, status)
    yield from _surroundings(installed)


def _process(installed: Installation) -> Iterator[Finding]:
    """Yield findings about the daemon's process: if it runs, its flags, its open listeners, and if
    BuildKit answers without the plugin.
    """
    daemon = installed.daemon
    if os.geteuid() != 0:
        yield Finding(
            "warn", "doctor is not run as root, so much cannot be checked", "run it as root"
        )
    if daemon.pid() is None:
        yield Finding("warn", f"dockerd does not run ({installed.pidfile})", "start it")
    else:
        yield Finding("ok", f"dockerd runs as process {daemon.pid()}")
    if daemon.has_plugin_flag():
        yield Finding(
            "fail",
            "dockerd was started with --authorization-plugin",
            "move its plugins into daemon.json, since a reload silently drops those of the option, "
            "and restart dockerd without it",
        )
    settings = DaemonSettings.read(str(installed.daemon_json), daemon.arguments()[1:])
    if settings.open_listeners:
        yield _open_finding(settings.open_listeners)
    yield from past_plugins(installed)


def _open_finding(listeners: Iterable[str]) -> Finding:
    """Return the finding for listeners of dockerd on TCP that ask for no client certificate."""
    return Finding(
        "fail",
        f"dockerd listens on {', '.join(listeners)} without verifying its clients: "
        "the shipped policies then treat no caller as a local user",
        'set tlsverify and tlscacert in daemon.json, or remove the address from "hosts"',
    )


def past_plugins(installed: Installation) -> Iterator[Finding]:
    """Yield a finding if BuildKit answers at the daemon's socket although no plugin was asked: a
    failure, or only a warning if nobody but root can reach the socket.
    """
    if not answers_past_plugins(installed.socket):
        return
    if is_for_root_alone(installed.socket):
        yield Finding(
            "warn",
            "BuildKit answers at the daemon's socket without asking any plugin; only "
            "root can open that socket",
            "keep that socket to root, and give users client certificates",
        )
        return
    yield Finding(
        "fail",
        "OPEN: BuildKit answers over HTTP/2 at the daemon's socket without asking any plugin",
        'keep the socket to root ("group": "root" in daemon.json) and give users client '
        "certificates (doorward docker cert): on TLS the daemon speaks HTTP/1.1 only",
    )


def _config(installed: Installation) -> Iterator[Finding]:
    """Yield findings about daemon.json: that it can be read, names the plugin once, is protected,
    and is the file that dockerd reads.

    If it cannot be read, that is the only finding.
    """
    path = installed.daemon_json
    try:
        chain = installed.config.plugins()
    except DaemonError as error:
        yield Finding(
            "fail", str(error), "fix the file: dockerd refuses to start and to reload with it"
        )
        return
    if installed.name not in chain:
        yield Finding("warn", f"{path} does not name {installed.name}", "doorward docker install")
    else:
        position = chain.index(installed.name) + 1
        yield Finding("ok", f"{path} names {installed.name}, plugin {position} of {len(chain)}")
    if len(set(chain)) != len(chain):
        yield Finding(
            "warn",
            f"{path} names a plugin twice",
            "remove one of the two: dockerd asks a plugin only once",
        )
    if path.exists() and path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield Finding(
            "fail", f"{path} can be written by users other than root", f"chmod 644 {path}"
        )
    started_with = installed.daemon.config_file()
    if started_with and Path(started_with).resolve() != path.resolve():
        yield Finding("fail", f"dockerd reads {started_with}", f"use --daemon-json {started_with}")


def _plugin(installed: Installation, status: PluginStatus | None) -> Iterator[Finding]:
    """Yield findings about the plugin's socket, and last how far a request to the daemon gets."""
    socket = Path(installed.listens)
    answers = status is not None or call_plugin(str(socket), "/Plugin.Activate") == _ACTIVE
    if answers:
        yield Finding("ok", f"the plugin answers at {socket}")
        mode = socket.stat().st_mode & 0o777
        if mode & 0o077:
            yield Finding("warn", f"{socket} has mode {mode:o}", f"chmod 600 {socket}")
    elif socket.exists():
        yield Finding(
            "fail",
            f"the plugin at {socket} does not answer",
            "doorward docker install starts it again; to get back in without it, "
            "remove its name from daemon.json and send SIGHUP to dockerd",
        )
    else:
        yield Finding("warn", f"there is no plugin at {socket}", "doorward docker install")
    yield REACHED[installed.daemon.reach(installed.listens)]


REACHED: Final = {
    Reach.IN_FORCE: Finding("ok", "in force: a request to the daemon reached the plugin"),
    Reach.OPEN: Finding(
        "fail",
        "OPEN: the daemon answered a request that did not reach the plugin",
        "run `doorward docker install`; a plugin in the list of `docker info` need not be asked",
    ),
    Reach.REFUSED: Finding(
        "fail",
        "LOCKED OUT: the daemon refused a request that did not reach the plugin",
        "one of the plugins that daemon.json names before this one denies every request: read "
        "their logs",
    ),
    Reach.LOCKED_OUT: Finding(
        "fail",
        "LOCKED OUT: the daemon answers with an error or not at all, and the request "
        "did not reach the plugin",
        "a plugin that daemon.json names does not answer, or refuses the request: start it, or "
        "remove its name from daemon.json and send SIGHUP to dockerd",
    ),
    Reach.NO_DAEMON: Finding("warn", "dockerd does not run: no request can be sent to it"),
}


def state_findings(status: PluginStatus) -> Iterator[Finding]:
    """Yield the findings on the status that a running plugin reports of itself, good ones (`ok`) as
    well: its decision point, audit log and watchdog, and its faults and problems, if any.
    """
    yield Finding("ok", status.decides_by)
    if status.audit_log == OFF:
        yield Finding(
            "warn", "the plugin writes no audit log", "start the plugin without `--audit-log off`"
        )
    elif status.audit_log:
        where = "standard output" if status.audit_log == "-" else status.audit_log
        yield Finding("ok", f"audit log: {where}")
    if status.watched_by:
        yield Finding("ok", f"{status.watched_by} restarts the plugin if it stops answering")
    else:
        yield Finding(
            "warn", "nothing restarts the plugin if it stops answering", "doorward docker install"
        )
    if status.broken:
        yield Finding(
            "fail",
            f"BROKEN for {status.broken_for:.0f} s: {status.broken}",
            "fix the files; until then the previous policies and data decide",
        )
    for stopped in status.stopped:
        yield Finding("fail", stopped, "restart the plugin: it no longer sees changes of its files")
    if status.open_listeners:
        yield _open_finding(status.open_listeners)
    if status.allow_on_failure:
        yield Finding(
            "warn",
            "the plugin allows requests that cannot be decided (--allow-on-failure)",
            "install it without --allow-on-failure",
        )
    if status.lost:
        lost = counted(status.lost, "line of the audit log is", "lines of the audit log are")
        yield Finding("fail", f"{lost} lost", "check if the disk of the audit log is full")
    if status.faults:
        faults = counted(status.faults, "internal error")
        yield Finding(
            "warn",
            f"{faults} in the plugin, each of which denied a request",
            "read the plugin's log",
        )


def _decision(installed: Installation, status: PluginStatus | None) -> Iterator[Finding]:
    """Yield findings about decisions: if one of the trial requests (`why_undecided`) is decided, if
    others than root may change the policy server or its answers, and if it is asked over a network
    without TLS.

    The decision point is that of the running plugin, or of `installed` if none runs; nothing
    without either.
    """
    url = status.url if status is not None else installed.url
    if status is not None:
        # By the running plugin: its options decide, and not those of this command.
        answer = call_plugin(installed.listens, TRIAL, timeout=_TRIAL)
        reason = answer["Undecided"] if answer else "the plugin does not answer"
    elif url:
        reason = _why_undecided_at(url)
    else:
        return
    if reason:
        yield Finding(
            "fail",
            f"a typical request is not decided: {reason}",
            "fix this first: until then all requests are denied",
        )
    else:
        yield Finding("ok", "a typical request is decided")
    if url:
        yield from _open_writes(url)
    if url.startswith("http://") and not any(
        f"://{host}" in url for host in ("127.", "localhost", "[::1]")
    ):
        yield Finding(
            "warn",
            "the policy server is asked without TLS",
            "anyone on the network path can change decisions: use https",
        )


def _open_writes(url: str) -> Iterator[Finding]:
    """Yield a finding if any local user may change the policies and data of the policy server at
    `url`.
    """
    try:
        parts = check_url(url)
    except UrlError:
        return
    if parts.socket:
        is_open = _is_for_everybody(parts.socket)
    else:
        is_open = accepts_writes(parts)
    if is_open:
        yield Finding(
            "fail",
            "any local user can change the policy server's policies and data, and "
            "with them its decisions",
            "let the server listen on a Unix socket that only root can open "
            "(docs/docker.md), or give it --authentication=token with "
            "--authorization=basic",
        )


def _is_for_everybody(path: str) -> bool:
    """Return True if a user without any right of its own may connect to a Unix socket; False also
    if it cannot be examined.

    The kernel is asked as such a user, since access lists may say more than modes; without the
    rights for that, the modes of the socket and of the folders around it count.
    """
    program = shutil.which("test")
    if os.geteuid() == 0 and program is not None:
        command = [program, "-w", path]
        nobody: dict[str, Any] = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
        return subprocess.run(command, check=False, **nobody).returncode == 0
    try:
        if not os.stat(path).st_mode & stat.S_IWOTH:
            return False
        return all(folder.stat().st_mode & stat.S_IXOTH for folder in Path(path).parents)
    except OSError:
        return False


def _why_undecided_at(url: str) -> str:
    """Return the reason why the policy server at `url` decides nothing; `""` if it decides."""
    try:
        pdp = RemotePdp(url)
    except UrlError as error:
        return f"{url}: {error}"
    try:
        return why_undecided(pdp)
    finally:
        pdp.close()


def _surroundings(installed: Installation) -> Iterator[Finding]:
    """Yield findings about the machine around the plugin, none if all is well: other plugins of the
    same name, nothing that starts this one at boot, and members of the group docker, whom the
    policy cannot tell apart.
    """
    for folder in ("/etc/docker/plugins", "/usr/lib/docker/plugins"):
        for suffix in ("spec", "json"):
            path = Path(folder) / f"{installed.name}.{suffix}"
            if path.exists():
                yield Finding(
                    "warn",
                    f"{path} describes another plugin with the same name",
                    "remove this file: dockerd uses the plugin's socket and ignores the file",
                )
    managed = Path("/run/docker/plugins")
    if managed.is_dir() and any(
        (each / f"{installed.name}.sock").exists() for each in managed.iterdir() if each.is_dir()
    ):
        yield Finding(
            "warn",
            "a managed plugin of Docker has the same name as this plugin",
            "rename one of them: after its next reload dockerd asks the managed plugin instead",
        )
    if not (installed.systemd and has_systemd()):
        yield Finding(
            "warn",
            "systemd does not start the plugin at boot",
            "start the plugin at boot by other means, before dockerd, which does not start without "
            "it",
        )
    group = _docker_group()
    if group:
        yield Finding(
            "warn",
            f"the policy cannot tell apart the members of the group docker ({', '.join(group)}): "
            "each is a local user without a name",
            "give them certificates (doorward docker cert)",
        )


def _check_copies(policies: Iterable[str]) -> Iterator[Finding]:
    """Yield a finding for each folder that has copies of the shipped policies, which no upgrade of
    the package changes: a failure if they differ from this version's, else a warning.
    """
    for folder in map(Path, policies):
        if folder != PACK and folder.is_dir() and copies(folder):
            differ = any(show_differences(folder))
            yield Finding(
                "fail" if differ else "warn",
                f"{folder} has copies of the shipped policies"
                + (", which differ from this version's" if differ else ""),
                f"run `doorward docker upgrade {folder}`",
            )


def _writable(paths: Iterable[str]) -> Iterator[Finding]:
    """Yield a finding for each path that users other than root can change.

    Of a folder, only the first such file is named. Paths that cannot be read are skipped.
    """
    for path in filter(None, paths):
        folder = Path(path)
        for each in [folder, *(sorted(folder.rglob("*")) if folder.is_dir() else ())]:
            try:
                status = each.stat()
            except OSError:
                continue
            if status.st_uid != 0 or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                yield Finding(
                    "fail",
                    f"{each} can be changed by users other than root",
                    f"chown root {each}; chmod go-w {each}",
                )
                break


def _docker_group() -> list[str]:
    """Return the members of the group docker; empty if `/etc/group` cannot be read or has none."""
    try:
        lines = Path("/etc/group").read_text().splitlines()
    except OSError:
        return []
    members = [line.split(":")[3] for line in lines if line.startswith("docker:")]
    return [name for name in ",".join(members).split(",") if name]
