"""The settings of the daemon that the plugin has to know: where it listens, and which paths of the
host it uses. Read from daemon.json and from the daemon's command line, the only place that does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from doorward.base.records import record

__all__ = ["DAEMON_CONFIG", "PIDFILE", "DaemonSettings", "read_arguments"]

DAEMON_CONFIG: Final = "/etc/docker/daemon.json"
PIDFILE: Final = "/var/run/docker.pid"
_MAX_CONFIG: Final = 4 << 20
"""The bytes of a daemon.json. dockerd has no limit: what is longer is not read, and says so."""
_CLUSTER: Final = re.compile(r"-[Dhv]*H")
"""Letters without a value may stand before one that has one."""
_PATH_OPTION: Final = re.compile(r"(?:^|=|^-[A-Za-z]{1,4})(?:unix://)?(/.*)", re.DOTALL)
"""An argument with an absolute path: alone, behind `=`, or behind the letter of an option."""
_LOCAL: Final = ("unix://", "fd://", "npipe://")


@record
class DaemonSettings:
    """The settings of a daemon: those of its daemon.json, and the arguments of its command line
    without the program.
    """

    config: str
    document: dict[str, Any]
    """The content of `config`; {} if there is no such file, or it is not known."""
    is_known: bool
    """False if `config` is there and was not read: too long, no JSON object, no permission."""
    arguments: tuple[str, ...]

    @classmethod
    def read(cls, config: str, arguments: Sequence[str] = ()) -> DaemonSettings:
        """Read the daemon.json at the path `config`, or at the one that `--config-file` names in
        `arguments`, as dockerd does.
        """
        path = [config, *_values(arguments, "--config-file")][-1]
        document: Any = {}
        is_known = True
        try:
            with Path(path).open("rb") as file:
                content = file.read(_MAX_CONFIG + 1)
            is_known = len(content) <= _MAX_CONFIG
            document = json.loads(content or b"{}") if is_known else {}
        except FileNotFoundError:
            pass
        except (OSError, ValueError, RecursionError):
            is_known = False
        if type(document) is not dict:
            document, is_known = {}, False
        return cls(path, document, is_known, tuple(arguments))

    @property
    def listeners(self) -> list[str]:
        """Each address at which the daemon listens, those of daemon.json first; [] if neither it
        nor the command line names one.
        """
        option = self.document.get("hosts")
        hosts = [each for each in option if type(each) is str] if type(option) is list else []
        hosts += _values(self.arguments, "--host") + _values(self.arguments, "-H")
        return [host for host in hosts if host]

    @property
    def open_listeners(self) -> list[str]:
        """The sorted addresses, other than local sockets (unix://, fd://, npipe://), at which the
        daemon listens without verifying its clients: none if `tlsverify` is set in daemon.json or
        on the command line. Where daemon.json is not known one of them says so, since it may name
        any.
        """
        if self.document.get("tlsverify") is True or _flag(self.arguments, "tlsverify"):
            return []
        hosts = {host for host in self.listeners if not host.startswith(_LOCAL)}
        if not self.is_known:
            hosts.add(f"any address ({self.config} cannot be read)")
        return sorted(hosts)

    @property
    def paths(self) -> list[str]:
        """daemon.json itself, and each absolute path in it or on the command line, sorted: folders,
        sockets, keys and the programs that the daemon starts, whatever the option is called.
        """
        matches = (_PATH_OPTION.search(each) for each in (*_texts(self.document), *self.arguments))
        return sorted({self.config, *(match[1] for match in matches if match)})


def read_arguments(pidfile: str) -> list[str]:
    """Return the arguments, without the program, of the process that a pidfile names; empty if it
    does not run or the file cannot be read.
    """
    try:
        pid = int(Path(pidfile).read_bytes()[:20])
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return []
    return line.decode(errors="replace").split("\0")[1:-1]


def _texts(document: Any) -> Iterator[str]:
    """Yield each string in a JSON document that is not a key."""
    left = [document]
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value


def _flag(arguments: Sequence[str], name: str) -> bool:
    """Return True if a boolean option is given and true: the last one of several counts."""
    value = False
    for each in arguments:
        option, equals, text = each.partition("=")
        if option in (f"--{name}", f"-{name}"):
            value = not equals or text.lower() in ("1", "t", "true")
    return value


def _values(arguments: Sequence[str], name: str) -> list[str]:
    """Return the values of an option that may be repeated, in each spelling: `--host X`,
    `--host=X`, `-H X` and `-HX`.
    """
    values: list[str] = []
    for number, each in enumerate(arguments):
        if each == name:
            values += arguments[number + 1 : number + 2]
        elif name != "-H" and each.startswith(f"{name}="):
            values.append(each.removeprefix(f"{name}="))
        elif name == "-H" and (cluster := _CLUSTER.match(each)):
            rest = each[cluster.end() :].removeprefix("=")
            values += [rest] if rest else arguments[number + 1 : number + 2]
    return values
