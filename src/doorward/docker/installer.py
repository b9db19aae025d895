"""Puts the plugin into a daemon's chain and takes it out again, in the one order that is safe.

A daemon that is told to load a plugin which does not answer ends itself, with everyone locked out.
So: the service runs and answers first, then the configuration names it, then the daemon reloads,
and then a real request has to arrive. Whatever fails undoes what was done before, in reverse.
Taking out goes the other way round: nothing is stopped while the daemon still asks it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from doorward.docker.daemon import KEY, ConfigFile, Daemon, DaemonError
from doorward.docker.embedded import PACK, EmbeddedPdp
from doorward.docker.remote import PdpError, RemotePdp, UrlError, check_url
from doorward.docker.units import Process, Supervisor, Systemd, has_systemd
from doorward.pdp.loader import LoadError
from doorward.rego import RegoError

__all__ = ["Installation", "check_name", "copy_pack", "install", "uninstall"]

Say = Callable[[str], None]
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")
_PLUGINS: Final = Path("/run/docker/plugins")


@dataclass(frozen=True, slots=True)
class Installation:
    """What is to be installed, and where."""

    name: str = "doorward"
    url: str = ""
    policies: Sequence[str] = ()
    daemon_json: Path = Path("/etc/docker/daemon.json")
    pidfile: Path = Path("/var/run/docker.pid")
    socket: str = "/var/run/docker.sock"
    """The daemon's."""
    plugin_socket: str = ""
    systemd: bool = True
    audit_log: str = ""
    state: Path = Path("/run/doorward")
    pack_folder: Path = Path("/etc/doorward/docker")
    """Where the shipped policies are put, to be edited, when nothing else decides."""
    extra: Sequence[str] = ()
    """Further options of `doorward docker serve`."""

    @property
    def listens(self) -> str:
        """Where the daemon looks for a plugin of this name."""
        return self.plugin_socket or str(_PLUGINS / f"{self.name}.sock")

    @property
    def daemon(self) -> Daemon:
        return Daemon(self.pidfile, self.socket)

    @property
    def config(self) -> ConfigFile:
        return ConfigFile(self.daemon_json)

    @property
    def supervisor(self) -> Supervisor:
        if self.systemd:
            return Systemd(self.name, self.listens)
        return Process(self.name, self.listens, self.state)

    @property
    def arguments(self) -> list[str]:
        """Of `doorward docker serve`."""
        found = ["--socket", self.listens]
        if self.url:
            found += ["--pdp", self.url]
        for path in self.policies or ([] if self.url else [str(self.pack_folder)]):
            found += ["--policy", os.path.abspath(path)]
        if self.audit_log:
            found += ["--audit-log", self.audit_log]
        return [*found, *self.extra]


def check_name(name: str) -> None:
    """DaemonError for what can be no plugin's name."""
    if not _NAME.fullmatch(name):
        raise DaemonError("a plugin's name is small letters, digits and ._-")


def install(wanted: Installation, say: Say, *, dry_run: bool = False) -> None:
    """Install, or bring up to date. DaemonError with everything as it was where that fails."""
    config = wanted.config
    document = _check(wanted)
    named = wanted.name in document.get(KEY, [])
    if dry_run:
        for step in _plan(wanted, named=named):
            say(f"would {step}" if not step.startswith(("its", "the")) else f"  {step}")
        return
    running = wanted.daemon.check_process()
    if not wanted.url and not wanted.policies:
        copy_pack(wanted.pack_folder, say)
    _take_service(wanted, say)
    before = config.content()
    try:
        if not named:
            document[KEY] = [*document.get(KEY, []), wanted.name]
            config.write(document)
            say(f"{config.path} names {wanted.name}; the old file is {config.backup}")
        if not running:
            say("dockerd does not run: the plugin is in force when it starts")
            return
        wanted.daemon.reload()
        if not wanted.daemon.wait_until(wanted.listens, asked=True):
            raise DaemonError("no request reached the plugin after the reload")
    except DaemonError as error:
        try:
            _undo(wanted, before, named=named)
        except DaemonError as other:
            raise DaemonError(f"{error}; and not everything could be taken back: {other}") from None
        if running and wanted.daemon.pid() is None:
            raise DaemonError(
                f"{error}; dockerd has ended: start it, the old file is back"
            ) from None
        raise DaemonError(f"{error}; everything is as it was") from None
    say("a request to the daemon reached the plugin: it is in force")


def _check(wanted: Installation) -> dict[str, Any]:
    """Everything that can be known beforehand; the configuration as it is."""
    check_name(wanted.name)
    if os.geteuid() != 0:
        raise DaemonError("only root may install a plugin")
    if wanted.url:
        try:
            check_url(wanted.url)
        except UrlError as error:
            raise DaemonError(f"{wanted.url}: {error}") from None
    elif wanted.policies:
        try:
            EmbeddedPdp(wanted.policies, watch=False)
        except (LoadError, RegoError) as error:
            raise DaemonError(f"the policies cannot be used: {error}") from None
    if wanted.systemd and not has_systemd():
        raise DaemonError("systemd does not run here: use --no-systemd")
    document = wanted.config.read()
    daemon = wanted.daemon
    if daemon.has_plugin_flag():
        raise DaemonError(
            "dockerd was started with --authorization-plugin: move that into "
            f"{wanted.daemon_json}, since a reload drops it, and start dockerd without it"
        )
    started_with = daemon.config_file()
    if started_with and Path(started_with).resolve() != wanted.daemon_json.resolve():
        raise DaemonError(f"dockerd reads {started_with}: use --daemon-json {started_with}")
    return document


def copy_pack(folder: Path, say: Say) -> None:
    """Put the shipped policies into `folder`, unless it is there."""
    if folder.exists():
        return
    try:
        folder.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        shutil.copytree(PACK, folder)
    except OSError as error:
        raise DaemonError(f"{folder}: {(error.strerror or 'failed').lower()}") from None
    say(f"the policies are in {folder}; who may do what stands in its data.json")


def _plan(wanted: Installation, *, named: bool) -> list[str]:
    steps = wanted.supervisor.describe(wanted.arguments)
    steps.append(f"ask {wanted.listens} whether it is an authorization plugin")
    if not named:
        steps.append(f'append "{wanted.name}" to {KEY} in {wanted.daemon_json}')
    steps.append("send SIGHUP to dockerd, and check that a request reaches the plugin")
    return steps


def _take_service(wanted: Installation, say: Say) -> None:
    wanted.supervisor.start(wanted.arguments)
    say(f"the plugin answers at {wanted.listens}")
    if wanted.url:
        _warn_unreachable(wanted.url, say)


def _warn_unreachable(url: str, say: Say) -> None:
    pdp = RemotePdp(url)
    try:
        pdp.decide({"action": "doorward.probe", "User": "", "identified": False})
    except PdpError as error:
        say(f"WARNING: {error}: until it answers, every request is denied")
    finally:
        pdp.close()


def _undo(wanted: Installation, before: bytes | None, *, named: bool) -> None:
    """The configuration first, so that the daemon asks nobody when the service ends."""
    if named:
        return
    # Where this fails the daemon still names the plugin, and the service has to stay.
    wanted.config.restore(before)
    if wanted.daemon.pid() is not None:
        wanted.daemon.reload()
        wanted.daemon.wait_until(wanted.listens, asked=False, seconds=5.0)
    wanted.supervisor.stop()


def uninstall(wanted: Installation, say: Say, *, dry_run: bool = False) -> None:
    """Take the plugin out of the chain, and only when nobody asks it any more, end it."""
    check_name(wanted.name)
    if wanted.systemd and not has_systemd():
        wanted = replace(wanted, systemd=False)  # only a process can have been started here
    config = wanted.config
    document = config.read()
    chain = [name for name in document.get(KEY, []) if name != wanted.name]
    named = wanted.name in document.get(KEY, [])
    if dry_run:
        if named:
            say(f'would take "{wanted.name}" out of {config.path} and send SIGHUP to dockerd')
        say("would end the service when no request reaches it any more")
        return
    if os.geteuid() != 0:
        raise DaemonError("only root may take a plugin out")
    if named:
        document[KEY] = chain
        if not chain:
            del document[KEY]
        before = config.content()
        config.write(document)
        say(f"{config.path} does not name {wanted.name} any more")
    if wanted.daemon.pid() is not None:
        if named:
            wanted.daemon.reload()
        if not wanted.daemon.wait_until(wanted.listens, asked=False):
            if named:
                config.restore(before)
            raise DaemonError("requests still reach the plugin: it stays, and the file too")
        say("no request reaches the plugin any more")
    wanted.supervisor.stop()
    say("the service has ended")
