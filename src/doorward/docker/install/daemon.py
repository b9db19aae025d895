"""The daemon as the installer meets it: its process, its configuration file, its socket.

Nothing here decides or changes policies. The configuration file is changed only by whole, and a
daemon is only ever told to read it again.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import shutil
import signal
import time
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Any, Final

from doorward.base.os_errors import describe_os_error
from doorward.base.records import record
from doorward.docker.plugin import PROBE_HEADER
from doorward.docker.processes import command_line
from doorward.docker.unix_http import UnixConnection, call_plugin, listener_pid

__all__ = ["ConfigFile", "Daemon", "DaemonError", "Reach"]

KEY: Final = "authorization-plugins"
FLAG: Final = "--authorization-plugin"
PROBE_TIMEOUT: Final = 20.0
"""Seconds for the daemon to answer a ping; a plugin that is stopped holds it up for ever."""
_MAX_CONFIG: Final = 1 << 20


class DaemonError(Exception):
    """The reason why the installer cannot go on, in words for the operator."""


class Reach(Enum):
    """The outcome of a probe of the daemon."""

    IN_FORCE = "in force"
    """The request reached the plugin: the plugin decides."""
    OPEN = "open"
    """The daemon answered without asking the plugin: nothing is decided."""
    REFUSED = "refused"
    """The daemon refuses the request, and the plugin was not asked: another one denied it."""
    LOCKED_OUT = "locked out"
    """The daemon gives no answer, or one of status 500 or more, as when a plugin does not
    answer.
    """
    NO_DAEMON = "no daemon"


@record
class ConfigFile:
    """The daemon's `daemon.json`. A file that the daemon would refuse is never changed."""

    path: Path

    def read(self) -> dict[str, Any]:
        """Return the members of daemon.json in their order; `{}` if there is no file, or it is
        empty.

        Raise DaemonError if it cannot be read, is larger than `_MAX_CONFIG` bytes, is not a JSON
        object, repeats a key, or its plugins are not a list of names.
        """
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise DaemonError(f"cannot read {self.path}: {describe_os_error(error)}") from None
        if len(content) > _MAX_CONFIG:
            raise DaemonError(f"{self.path} is larger than {_MAX_CONFIG} bytes")
        try:
            document = json.loads(content or b"{}", object_pairs_hook=_unique)
        except (ValueError, RecursionError) as error:
            raise DaemonError(f"{self.path} is not valid JSON: {error}") from None
        if not isinstance(document, dict):
            raise DaemonError(f"{self.path} is not a JSON object")
        plugins = document.get(KEY, [])
        if not isinstance(plugins, list) or not all(isinstance(each, str) for each in plugins):
            raise DaemonError(f"{self.path}: `{KEY}` must be a list of names of plugins")
        return document

    def plugins(self) -> list[str]:
        """Return the names of the authorization plugins, in the order in which they are asked; []
        if there are none. Raise DaemonError if daemon.json cannot be read or is not valid.
        """
        return list(self.read().get(KEY, []))

    def write(self, document: dict[str, Any], *, keep_old: bool) -> None:
        """Replace the file in one step, with the same owner and mode, 0644 for a new file;
        `keep_old` copies the old one to `backup` first.

        Raise DaemonError if that fails.
        """
        text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
        try:
            content = text.encode()
        except UnicodeEncodeError:
            # Half of a pair of escapes, which JSON allows and UTF-8 does not have.
            content = (json.dumps(document, indent=2) + "\n").encode()
        try:
            if keep_old and self.path.exists():
                shutil.copy2(self.path, self.backup)
            self._replace(content)
        except OSError as error:
            raise DaemonError(f"cannot write {self.path}: {describe_os_error(error)}") from None

    def _replace(self, content: bytes) -> None:
        """Replace the file's content in one step; a symbolic link stays and its target is replaced.

        A new file has mode 0644. Raise OSError if that fails, and then the old content is
        unchanged.
        """
        # A link is followed: what it points to is replaced, and the link stays.
        target = Path(os.path.realpath(self.path))
        target.parent.mkdir(parents=True, exist_ok=True)
        # One name, so that what a killed installer left is written over.
        name = target.with_name(f".{target.name}.doorward")
        name.unlink(missing_ok=True)
        try:
            with name.open("xb") as file:
                file.write(content)
                file.flush()
                # Before the rename: after a power cut the daemon would not start with
                # an empty file.
                os.fsync(file.fileno())
            if target.exists():
                old = target.stat()
                os.chown(name, old.st_uid, old.st_gid)
                os.chmod(name, old.st_mode & 0o7777)
            else:
                os.chmod(name, 0o644)
            os.replace(name, target)
        except OSError:
            name.unlink(missing_ok=True)
            raise

    @property
    def backup(self) -> Path:
        """The path for a copy of the file as it was before Doorward."""
        return self.path.with_name(f"{self.path.name}.before-doorward")

    def restore(self, content: bytes | None) -> None:
        """Make the content of the file what it was before: `content`, or no file at all for None. A
        file that has this content is not written again. Raise DaemonError if that fails.
        """
        try:
            if content is None:
                self.path.unlink(missing_ok=True)
            elif self.content() != content:
                self._replace(content)
        except OSError as error:
            raise DaemonError(f"cannot restore {self.path}: {describe_os_error(error)}") from None

    def content(self) -> bytes | None:
        """Return the current bytes of the file; None if there is none. OSError if it cannot be
        read.
        """
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None


def _is_legacy(name: str) -> bool:
    """Return True if a plugin of this name answers at one of the sockets where dockerd looks for
    it, or has its address in a file.
    """
    for path in (f"{_SOCKETS}/{name}.sock", f"{_SOCKETS}/{name}/{name}.sock"):
        if call_plugin(path, "/Plugin.Activate") is not None:
            return True
    return any(
        Path(f"{folder}/{inner}{name}{suffix}").exists()
        for folder in ("/etc/docker/plugins", "/usr/lib/docker/plugins")
        for inner in ("", f"{name}/")
        for suffix in (".spec", ".json")
    )


_SOCKETS: Final = "/run/docker/plugins"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of JSON's pairs. ValueError if a key occurs twice: dockerd would take one
    of them.
    """
    document = dict(pairs)
    if len(document) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in document if names.count(name) > 1)
        raise ValueError(f"the key `{repeated}` is repeated: remove one")
    return document


@record
class Daemon:
    """A running daemon, or the place where one would run."""

    pidfile: Path
    socket: str

    def pid(self) -> int | None:
        """Return the process id in the pidfile if that process is a dockerd, else the id of the
        dockerd that listens on the socket; None if there is neither.
        """
        try:
            pid: int | None = int(self.pidfile.read_text())
        except (OSError, ValueError):
            pid = None
        # A pidfile outlives a crash, and its number may be another process's by now.
        if not self._is_dockerd(pid):
            pid = listener_pid(self.socket)
        return pid if self._is_dockerd(pid) else None

    def _is_dockerd(self, pid: int | None) -> bool:
        """Return True if the process `pid` runs a program whose name contains `dockerd`; False for
        None.
        """
        if pid is None:
            return False
        return "dockerd" in os.path.basename((command_line(pid) or [""])[0])

    def check_process(self) -> bool:
        """Return True if the daemon runs, False if it does not.

        Raise DaemonError if a daemon answers and its process cannot be found.
        """
        if self.pid() is not None:
            return True
        if self.probe("") is None:
            return False
        raise DaemonError(
            f"a daemon answers at {self.socket}, but {self.pidfile} does not name its process: "
            "name its pidfile with --pidfile"
        )

    def arguments(self) -> list[str]:
        """Return the words of the daemon's command line, program first; [] if it does not run."""
        pid = self.pid()
        return command_line(pid) if pid else []

    def has_plugin_flag(self) -> bool:
        """Return True if plugins were named on its command line, where a reload silently drops
        them."""
        return any(each == FLAG or each.startswith(f"{FLAG}=") for each in self.arguments())

    def config_file(self) -> str:
        """Return the value of `--config-file` on the command line of the running daemon; "" without
        it.
        """
        arguments = self.arguments()
        for number, each in enumerate(arguments):
            if each.startswith("--config-file="):
                return each.partition("=")[2]
            if each == "--config-file" and number + 1 < len(arguments):
                return arguments[number + 1]
        return ""

    def find_missing(self, plugins: Iterable[str]) -> list[str]:
        """Return those of the plugins that the daemon would not find: it ends itself when it is
        told to reload a configuration with such a name.

        Only plugins that are certainly missing are returned: none if the daemon does not list its
        managed plugins, and none whose address is in a file.
        """
        missing = [name for name in plugins if not _is_legacy(name)]
        managed = self._managed_plugins() if missing else None
        if managed is None:
            return []
        return [name for name in missing if not {name, f"{name}:latest"} & managed]

    def _managed_plugins(self) -> set[str] | None:
        """Return the names of the daemon's enabled managed plugins; None if it does not list
        them.
        """
        connection = UnixConnection(self.socket, PROBE_TIMEOUT)
        try:
            connection.request("GET", "/plugins", headers={"Host": "docker"})
            response = connection.getresponse()
            items = json.loads(response.read())
            if response.status != 200:
                return None
            return {each["Name"] for each in items or () if each["Enabled"]}
        except (OSError, ValueError, LookupError, TypeError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def reload(self) -> None:
        """Send SIGHUP, at which the daemon reads its configuration again. Raise DaemonError if it
        does not run or the signal cannot be sent.
        """
        pid = self.pid()
        if pid is None:
            raise DaemonError(f"dockerd does not run ({self.pidfile}): start it")
        try:
            os.kill(pid, signal.SIGHUP)
        except OSError as error:
            raise DaemonError(
                f"cannot send SIGHUP to dockerd, process {pid}: {describe_os_error(error)}"
            ) from None

    def probe(self, nonce: str) -> int | None:
        """Send a ping with `nonce` to the daemon. The plugin remembers the nonce if it is asked,
        which shows that the daemon asks it. Return the status of the daemon's response; None
        without one within `PROBE_TIMEOUT` seconds.
        """
        connection = UnixConnection(self.socket, PROBE_TIMEOUT)
        try:
            connection.request("GET", "/_ping", headers={"Host": "docker", PROBE_HEADER: nonce})
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def asks(self, plugin_socket: str) -> bool:
        """Return True if a request to the daemon reaches the plugin at `plugin_socket`, right
        now."""
        return self.reach(plugin_socket) is Reach.IN_FORCE

    def reach(self, plugin_socket: str) -> Reach:
        """Send a ping to the daemon and return the outcome: IN_FORCE if the plugin at
        `plugin_socket` was asked. Else OPEN for a status below 400, REFUSED for one below 500,
        NO_DAEMON if nothing answers and no dockerd runs, and LOCKED_OUT otherwise.
        """
        nonce = secrets.token_hex(16)
        status = self.probe(nonce)
        # The plugin is the witness: a daemon's answer does not tell whether it asked.
        answer = call_plugin(plugin_socket, "/Doorward.Probe", nonce.encode())
        if answer == {"Seen": True}:
            return Reach.IN_FORCE
        if status is not None and status < 500:
            return Reach.OPEN if status < 400 else Reach.REFUSED
        return Reach.NO_DAEMON if status is None and self.pid() is None else Reach.LOCKED_OUT

    def wait_until(self, plugin_socket: str, *, in_force: bool, seconds: float = 60.0) -> bool:
        """Return True once a request to the daemon reaches the plugin or, with `in_force=False`,
        once the daemon answers a request with a status below 500 and did not ask the plugin.

        Return False after `seconds`, or if the daemon ends.
        """
        expected = {Reach.IN_FORCE} if in_force else {Reach.OPEN, Reach.REFUSED}
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.pid() is None:
                return False
            # A daemon that gives no answer may ask the plugin all the same.
            if self.reach(plugin_socket) in expected:
                return True
            time.sleep(0.1)
        return False
