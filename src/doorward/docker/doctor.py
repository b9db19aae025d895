"""What could go wrong with the plugin on this machine: each finding with what to do about it.

Looking changes nothing, but for one harmless request to the daemon.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from doorward.docker.daemon import DaemonError, call_plugin
from doorward.docker.installer import Installation
from doorward.docker.remote import PdpError, RemotePdp, UrlError
from doorward.docker.units import has_systemd

__all__ = ["Finding", "Level", "diagnose", "is_in_force"]

Level: TypeAlias = Literal["ok", "warn", "fail"]
_ACTIVE: Final = {"Implements": ["authz"]}


class Finding(NamedTuple):
    """One thing that was looked at. `advice` is "" where there is nothing to do."""

    level: Level
    what: str
    advice: str = ""


def is_in_force(installed: Installation) -> bool:
    """Whether requests to the daemon reach the plugin now: by trying it."""
    return installed.daemon.pid() is not None and installed.daemon.asks(installed.listens)


def diagnose(installed: Installation) -> Iterator[Finding]:
    """Every finding, the basic ones first."""
    yield from _process(installed)
    yield from _config(installed)
    yield from _plugin(installed)
    yield from _decision(installed)
    yield from _surroundings(installed)


def _process(installed: Installation) -> Iterator[Finding]:
    daemon = installed.daemon
    if os.geteuid() != 0:
        yield Finding("warn", "not run by root: much cannot be seen", "run it as root")
    if daemon.pid() is None:
        yield Finding("warn", f"dockerd does not run ({installed.pidfile})", "start it")
    else:
        yield Finding("ok", f"dockerd runs as {daemon.pid()}")
    if daemon.has_plugin_flag():
        yield Finding(
            "fail",
            "dockerd was started with --authorization-plugin",
            "a reload drops such plugins silently: move them into daemon.json and restart dockerd",
        )
    if any(each.startswith(("tcp://", "-Htcp", "--host=tcp")) for each in daemon.arguments()):
        verified = any(each.startswith("--tlsverify") for each in daemon.arguments())
        if not verified:
            yield Finding(
                "fail",
                "dockerd listens on TCP without --tlsverify",
                "anyone who reaches the port is a local user to the policy: verify clients",
            )


def _config(installed: Installation) -> Iterator[Finding]:
    path = installed.daemon_json
    try:
        chain = installed.config.plugins()
    except DaemonError as error:
        yield Finding("fail", str(error), "dockerd refuses to reload and to start with it: mend it")
        return
    if installed.name not in chain:
        yield Finding("warn", f"{path} does not name {installed.name}", "doorward docker install")
    else:
        position = chain.index(installed.name) + 1
        yield Finding("ok", f"{path} names {installed.name}, {position} of {len(chain)}")
    if len(set(chain)) != len(chain):
        yield Finding("warn", f"{path} names a plugin twice", "it is asked once; remove one")
    if path.exists() and path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield Finding("fail", f"{path} can be written by others", f"chmod 644 {path}")
    started_with = installed.daemon.config_file()
    if started_with and Path(started_with).resolve() != path.resolve():
        yield Finding("fail", f"dockerd reads {started_with}", f"use --daemon-json {started_with}")


def _plugin(installed: Installation) -> Iterator[Finding]:
    socket = Path(installed.listens)
    if call_plugin(str(socket), "/Plugin.Activate") == _ACTIVE:
        yield Finding("ok", f"the plugin answers at {socket}")
        mode = socket.stat().st_mode & 0o777
        if mode & 0o077:
            yield Finding("warn", f"{socket} has mode {mode:o}", f"chmod 600 {socket}")
    elif socket.exists():
        yield Finding(
            "fail",
            f"nobody answers at {socket}",
            "every request to the daemon fails after 15 seconds: start the service "
            f"(systemctl start doorward-{installed.name}) or, to get back in, take the name out "
            "of daemon.json and send SIGHUP to dockerd",
        )
    else:
        yield Finding("warn", f"there is no plugin at {socket}", "doorward docker install")
    if installed.daemon.pid() is None:
        return
    if is_in_force(installed):
        yield Finding("ok", "a request to the daemon reached the plugin: it is in force")
    else:
        yield Finding(
            "fail",
            "a request to the daemon did not reach the plugin: it is not in force",
            "doorward docker install; `docker info` does not say who is asked",
        )


def _decision(installed: Installation) -> Iterator[Finding]:
    if not installed.url:
        return
    try:
        pdp = RemotePdp(installed.url)
    except UrlError as error:
        yield Finding("fail", f"{installed.url}: {error}", "give the URL of a decision")
        return
    try:
        pdp.decide({"action": "doorward.probe", "User": "", "identified": False})
        yield Finding("ok", "the policy server answers")
    except PdpError as error:
        yield Finding("fail", str(error), "until it answers, every request is denied")
    finally:
        pdp.close()
    if installed.url.startswith("http://") and not any(
        f"://{host}" in installed.url for host in ("127.", "localhost", "[::1]")
    ):
        yield Finding(
            "warn", "the policy server is asked without TLS", "whoever is on the way may decide"
        )


def _surroundings(installed: Installation) -> Iterator[Finding]:
    for folder in ("/etc/docker/plugins", "/usr/lib/docker/plugins"):
        for suffix in ("spec", "json"):
            path = Path(folder) / f"{installed.name}.{suffix}"
            if path.exists():
                yield Finding(
                    "warn", f"{path} has the plugin's name too", "the socket goes first: remove it"
                )
    managed = Path("/run/docker/plugins")
    if managed.is_dir() and any(
        (each / f"{installed.name}.sock").exists() for each in managed.iterdir() if each.is_dir()
    ):
        yield Finding(
            "warn",
            "a managed plugin has the plugin's name",
            "it takes the place of this one at the next reload: rename one",
        )
    if not (installed.systemd and has_systemd()):
        yield Finding(
            "warn",
            "systemd does not keep the plugin running",
            "start the plugin before dockerd at boot: dockerd does not start without it",
        )
    group = _docker_group()
    if group:
        yield Finding(
            "warn",
            f"members of the group docker are local users to the policy: {', '.join(group)}",
            "they have no name there: give them certificates (doorward docker cert)",
        )


def _docker_group() -> list[str]:
    try:
        lines = Path("/etc/group").read_text().splitlines()
    except OSError:
        return []
    found = [line.split(":")[3] for line in lines if line.startswith("docker:")]
    return [name for name in ",".join(found).split(",") if name]
