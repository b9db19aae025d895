"""Supervision of the plugin: systemd's socket and service, or a process of our own.

With systemd the socket is there before the daemon starts and outlives the plugin's process, so a
plugin that is restarted makes calls wait and none fail. Without it, the plugin is a process in a
session of its own, and starting it at boot is the machine's business.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from doorward.base.os_errors import describe_os_error
from doorward.base.records import record
from doorward.docker.install.daemon import DaemonError
from doorward.docker.processes import command_line
from doorward.docker.unix_http import call_plugin, listener_pid
from doorward.docker.watch.status import INSTANCE

__all__ = [
    "Process",
    "Supervisor",
    "Systemd",
    "decisions_unit",
    "has_systemd",
    "service_unit",
    "socket_unit",
]

_ACTIVE: Final = {"Implements": ["authz"]}
_START: Final = 300.0
_END: Final = 300.0
"""Seconds after which a process is taken to hang that begins or ends, on a busy machine. One that
ends instead of beginning is noticed at once."""
_SYSTEMCTL: Final = 60.0
"""Seconds after which systemctl counts as failed."""
_START_CODE: Final = "from doorward.cli.main import main; main()"
UNITS: Final = Path("/etc/systemd/system")

Check: TypeAlias = Callable[[], None]
"""Raises DaemonError if the plugin that answers now must be replaced by the earlier one."""


def no_check() -> None:
    """Do nothing: whatever plugin answers is accepted."""


class Supervisor(Protocol):
    """Starts the plugin's service and ends it."""

    def start(self, arguments: Sequence[str], check: Check = ...) -> None:
        """Start the service with these arguments, in place of one that runs, and call `check`. If
        it does not start or `check` raises DaemonError, the earlier one is started again and
        DaemonError is raised.
        """

    def stop(self) -> None:
        """End the service, and remove what `start` wrote. DaemonError if it does not end."""

    def describe(self, arguments: Sequence[str]) -> list[str]:
        """Return the steps of `start`, as text; nothing is changed."""


def has_systemd() -> bool:
    """Return True if systemd runs this machine."""
    return Path("/run/systemd/system").is_dir()


def wait_for(socket: str, instance: str, seconds: float = _START) -> bool:
    """Wait until the plugin that was started with the token `instance` gives it back at `socket`
    and is an authorization plugin; return False if it does not within `seconds`.
    """
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        answer = call_plugin(socket, "/Doorward.Instance", timeout=1.0)
        if answer == {"Instance": instance} and is_plugin(socket):
            return True
        time.sleep(0.05)
    return False


def is_plugin(socket: str) -> bool:
    """Return True if an authorization plugin answers at `socket`."""
    return bool(call_plugin(socket, "/Plugin.Activate", timeout=1.0) == _ACTIVE)


def socket_unit(name: str, socket: str) -> str:
    """Return the text of the socket unit, which listens at `socket` before docker.service
    starts.
    """
    return f"""\
[Unit]
Description=Socket of the Docker authorization plugin {name}
Documentation=https://docs.docker.com/engine/extend/plugins_authorization/
# The daemon does not start without the plugin that its configuration names.
Before=docker.service docker.socket

[Socket]
ListenStream={socket}
SocketMode=0600
DirectoryMode=0700
Backlog=1024
# A restart of the service must not take the socket away.
RemoveOnStop=no

[Install]
WantedBy=sockets.target
RequiredBy=docker.service
"""


def service_unit(name: str, command: Sequence[str], instance: str = "") -> str:
    """Return the text of the service unit; the process reports `instance`, by which the installer
    knows it.
    """
    environment = f"Environment={INSTANCE}={instance}\n" if instance else ""
    return f"""\
[Unit]
Description=Docker authorization plugin {name}
Requires=doorward-{name}.socket
After=doorward-{name}.socket
Before=docker.service
# Without the plugin everyone is locked out: it is started again for as long as it takes.
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
{environment}ExecStart={shlex.join(command)}
Restart=always
RestartSec=200ms
# A plugin that is stopped or hangs would hold up every request to the daemon.
WatchdogSec=3
WatchdogSignal=SIGKILL
# Calls under way are answered before the process ends.
KillSignal=SIGTERM
TimeoutStopSec=15
NoNewPrivileges=yes
ProtectSystem=strict
LogsDirectory=doorward
# It follows links of host paths, everywhere, and changes nothing.
ProtectHome=read-only
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
CapabilityBoundingSet=CAP_DAC_READ_SEARCH

[Install]
WantedBy=multi-user.target
"""


def decisions_unit(command: Sequence[str]) -> str:
    """Return the text of a unit for a decision point on this machine, which the plugin asks."""
    return f"""\
[Unit]
Description=Doorward decision point for Docker
Documentation=https://www.openpolicyagent.org/docs/latest/rest-api/
After=network.target
# The plugin denies until this answers.
Before=docker.service
StartLimitIntervalSec=0

[Service]
ExecStart={shlex.join(command)}
Restart=always
RestartSec=200ms
TimeoutStopSec=15
DynamicUser=yes
# Who can write to the decision point decides: only root comes to its socket.
RuntimeDirectory=doorward-decisions
RuntimeDirectoryMode=0700
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictRealtime=yes
LockPersonality=yes
SystemCallArchitectures=native
CapabilityBoundingSet=

[Install]
WantedBy=multi-user.target
"""


@record
class Systemd:
    """The supervisor of the plugin by systemd: a socket unit and a service unit in `folder`, named
    after the plugin.
    """

    name: str
    socket: str
    folder: Path = UNITS

    @property
    def _stem(self) -> str:
        return f"doorward-{self.name}"

    @property
    def _units(self) -> tuple[str, str]:
        """The names of the unit files."""
        return f"{self._stem}.socket", f"{self._stem}.service"

    @property
    def _commands(self) -> tuple[tuple[str, ...], ...]:
        """The calls of systemctl that put the written units in force, in order."""
        return (
            ("daemon-reload",),
            ("enable", "--now", f"{self._stem}.socket"),
            ("enable", f"{self._stem}.service"),
            # The socket stays: calls wait for the new process.
            ("restart", f"{self._stem}.service"),
        )

    def describe(self, arguments: Sequence[str]) -> list[str]:
        """Return the steps of `start`, as text; nothing is changed."""
        return [
            f"write {self.folder}/{self._stem}.socket and .service",
            *[f"systemctl {' '.join(command)}" for command in self._commands],
            f"  the service runs: {shlex.join(_program(arguments))}",
        ]

    def start(self, arguments: Sequence[str], check: Check = no_check) -> None:
        """Write the units, restart the service and call `check`.

        If a step fails, the new process does not answer or `check` raises DaemonError, the old
        units are restored and DaemonError is raised; without old units the new ones are removed.
        """
        old = self._texts()
        instance = secrets.token_hex(16)
        new = {
            f"{self._stem}.socket": socket_unit(self.name, self.socket),
            f"{self._stem}.service": service_unit(self.name, _program(arguments), instance),
        }
        try:
            self._write_and_restart(new)
            if not wait_for(self.socket, instance):
                raise DaemonError(
                    f"the plugin does not answer: `journalctl -u {self._stem}.service` says why"
                )
            check()
        except DaemonError:
            self._undo(old)
            raise

    def _undo(self, old: dict[str, str]) -> None:
        """Restore the unit files in `old`, by name, and restart the service; if `old` is empty, end
        the service and remove the new files. DaemonErrors on the way are ignored.
        """
        with suppress(DaemonError):
            if old:
                self._write_and_restart(old)
            else:
                self.stop()
        if not old:
            for unit in self._units:
                (self.folder / unit).unlink(missing_ok=True)

    def _texts(self) -> dict[str, str]:
        """Return the texts of the installed unit files by name; {} unless both exist. DaemonError
        if one cannot be read.
        """
        try:
            return {name: (self.folder / name).read_text("utf-8") for name in self._units}
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as error:
            raise DaemonError(f"{self.folder}: {_reason(error)}") from None

    def _write_and_restart(self, units: dict[str, str]) -> None:
        """Write the unit files, given by name, let systemd load and enable them, and restart the
        service. Raise DaemonError at the first step that fails; nothing is undone.
        """
        try:
            for name, text in units.items():
                (self.folder / name).write_text(text)
        except OSError as error:
            raise DaemonError(f"{self.folder}: {_reason(error)}") from None
        for command in self._commands:
            _systemctl(*command)

    def stop(self) -> None:
        """Disable, end and remove both units and the socket. Raise DaemonError if systemctl
        fails.
        """
        # The service first: a call at its socket would start it again.
        for unit in reversed(self._units):
            if (self.folder / unit).exists():
                _systemctl("disable", "--now", unit)
                (self.folder / unit).unlink()
        _systemctl("daemon-reload")
        # With `RemoveOnStop=no` systemd leaves the file.
        Path(self.socket).unlink(missing_ok=True)


def _systemctl(*arguments: str) -> None:
    """Run `systemctl`; raise DaemonError if it cannot be run or takes too long, and with its first
    line of errors if it fails.
    """
    try:
        done = subprocess.run(
            ["systemctl", *arguments], capture_output=True, check=False, timeout=_SYSTEMCTL
        )
    except subprocess.TimeoutExpired:
        raise DaemonError(
            f"systemctl {arguments[0]}: did not end within {_SYSTEMCTL:g} s: try again"
        ) from None
    except OSError as error:
        raise DaemonError(f"systemctl {arguments[0]}: {_reason(error)}") from None
    if done.returncode:
        errors = done.stderr.decode(errors="replace").strip().splitlines() or ["failed"]
        raise DaemonError(f"systemctl {arguments[0]}: {errors[0]}")


def _reason(error: OSError | UnicodeDecodeError) -> str:
    """Return the reason of an error of a file or program, in lower case."""
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    return describe_os_error(error)


_ERROR: Final = "Error: "
"""What an error of the command line begins with."""


def _message(line: str) -> str:
    """Return the member `msg` of a line of the log; the line itself if it has none."""
    try:
        return str(json.loads(line)["msg"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return line


@record
class Process:
    """The supervisor of the plugin without systemd: a process in a session of its own, known by a
    file with its number in `folder`.
    """

    name: str
    socket: str
    folder: Path = Path("/run/doorward")

    @property
    def _pidfile(self) -> Path:
        return self.folder / f"{self.name}.pid"

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    def describe(self, arguments: Sequence[str]) -> list[str]:
        """Return the lines that a dry run prints for the start of the service."""
        return [
            f"start in the background: {shlex.join(_program([*arguments, '--watchdog']))}",
            f"  its log goes to {self.log}; starting it at boot, before dockerd, is up to you",
        ]

    def start(self, arguments: Sequence[str], check: Check = no_check) -> None:
        """End the service that runs, start a new one and call `check`. If the new one does not
        start or `check` raises DaemonError, the earlier one is started again and the error raised.
        """
        old = self._running()
        if old:
            self.stop()
        try:
            self._start(_program([*arguments, "--watchdog"]))
            check()
        except DaemonError:
            if self.pid() is not None:
                self.stop()
            if old:
                self._start(old)
            raise

    def _running(self) -> list[str]:
        """Return the words of the command line of the running service; [] if none runs."""
        pid = self.pid()
        if pid is None:
            return []
        return command_line(pid)

    def _start(self, program: Sequence[str]) -> None:
        """Start a program in the background, write the pidfile, and wait until the plugin answers.

        Raise DaemonError if a file cannot be written, or if the process ends, logs an error or does
        not answer within `_START` seconds; it is then ended.
        """
        instance = secrets.token_hex(16)
        try:
            self.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            with self.log.open("ab") as log:
                os.chmod(self.log, 0o600)
                begun = log.tell()
                process = subprocess.Popen(
                    program,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    env={**os.environ, INSTANCE: instance},
                    start_new_session=True,
                )
        except OSError as error:
            raise DaemonError(f"{self.folder}: {_reason(error)}") from None
        try:
            # At once, so that the next run knows the process if this one is killed now.
            self._pidfile.write_text(f"{process.pid}\n")
        except OSError as error:
            self._end(process.pid)
            process.wait()
            self._pidfile.unlink(missing_ok=True)
            raise DaemonError(f"{self._pidfile}: {_reason(error)}") from None
        until = time.monotonic() + _START
        while not wait_for(self.socket, instance, 0.5):
            has_ended = process.poll() is not None or self._errors(begun)
            if has_ended or time.monotonic() > until:
                self._end(process.pid)
                process.wait()
                self._pidfile.unlink(missing_ok=True)
                raise DaemonError(f"the plugin does not start: {self._last_words(begun)}")
        # The process outlives us; what it ends with is for the next `stop` to see.
        process.returncode = 0

    def _lines(self, begun: int) -> list[str]:
        return self.log.read_bytes()[begun:].decode(errors="replace").strip().splitlines()

    def _errors(self, begun: int) -> list[str]:
        """Return the messages of the errors in the log behind offset `begun`. They say why the
        plugin does not start: its watchdog only tries again.
        """
        lines = self._lines(begun)
        return [line.removeprefix(_ERROR) for line in lines if line.startswith(_ERROR)]

    def _last_words(self, begun: int) -> str:
        """Return the last error, or else the last line, in the log behind offset `begun`, at most
        300 characters; `see FILE` if there is no line.
        """
        if errors := self._errors(begun):
            return errors[-1][:300]
        lines = self._lines(begun)
        return _message(lines[-1])[:300] if lines else f"see {self.log}"

    def pid(self) -> int | None:
        """Return the id of the plugin's process: from the pidfile, or else of the one that listens
        or is starting; None if there is none.
        """
        try:
            pid: int | None = int(self._pidfile.read_text())
        except (OSError, ValueError):
            pid = None
        if not self._serves(pid):
            pid = listener_pid(self.socket)
        return pid if self._serves(pid) else self._starting()

    def _starting(self) -> int | None:
        """Return the id of a plugin process that does not listen yet, None if there is none. Its
        installer was killed before it could write the pidfile.
        """
        pids = {int(path.name) for path in Path("/proc").glob("[0-9]*") if self._is_ours(path)}
        # Of a watchdog and its plugin the watchdog, which ends both.
        return next((pid for pid in sorted(pids) if _parent(pid) not in pids), None)

    def _is_ours(self, process: Path) -> bool:
        """Return True if the process of the folder `process` in /proc is one of this user and
        serves this installation; False if it has ended.
        """
        try:
            return process.stat().st_uid == os.geteuid() and self._serves(int(process.name))
        except OSError:
            return False

    def _serves(self, pid: int | None) -> bool:
        """Return True if the process is a `doorward docker serve` for this socket; False for
        None.
        """
        if pid is None:
            return False
        command = command_line(pid)
        # Of the installer itself, which may have the same words, these are not neighbours.
        pairs = set(pairwise(command))
        return {("docker", "serve"), ("--socket", self.socket)} <= pairs

    def stop(self) -> None:
        """End the plugin's process, if it runs, by SIGTERM, and remove the pidfile. Raise
        DaemonError if it does not end within `_END` seconds, or if another process still serves the
        socket then.
        """
        until = time.monotonic() + _END
        while True:
            pid = self.pid()
            self._pidfile.unlink(missing_ok=True)
            if pid is not None:
                self._end(pid)
            # The socket decides, not the process: another one may have taken the place over.
            if not is_plugin(self.socket):
                return
            other = listener_pid(self.socket)
            # A plugin whose watchdog was killed becomes one itself, and is then the listener.
            if time.monotonic() > until or (other is not None and command_line(other)):
                who = "an unknown process" if other is None else f"process {other}"
                raise DaemonError(
                    f"{self.socket} is still served by {who}, which this installation did not"
                    " start: end it and try again"
                )
            time.sleep(0.05)

    def _end(self, pid: int) -> None:
        """Send SIGTERM and wait until the process has ended; raise DaemonError after `_END`
        seconds, or if the signal cannot be sent.
        """
        try:
            os.kill(pid, signal.SIGTERM)
            # A process that was stopped does not act on SIGTERM before it is continued.
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            return
        except OSError as error:
            raise DaemonError(f"cannot end the plugin, process {pid}: {_reason(error)}") from None
        until = time.monotonic() + _END
        # A process that has ended has no command, and waits for the one that started it.
        while command_line(pid):
            if time.monotonic() > until:
                raise DaemonError(
                    f"the plugin, process {pid}, did not end within {_END:g} s: kill "
                    "it and try again"
                )
            time.sleep(0.05)


def _parent(pid: int) -> int:
    """Return the id of a process's parent, 0 if the process has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    # From the last `)` on: a process may have spaces and brackets in its name (proc(5)).
    return int(text.rpartition(")")[2].split()[1])


def _program(arguments: Sequence[str]) -> list[str]:
    """Return the command that runs `doorward docker serve` with these arguments, by the same
    installation of Doorward as this process.
    """
    script = Path(sys.executable).with_name("doorward")
    start = [str(script)] if script.exists() else [sys.executable, "-c", _START_CODE]
    return [*start, "docker", "serve", *arguments]
