"""Ways past the proxy on this machine: each finding with what to do about it."""

from __future__ import annotations

import http.client
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from doorward.base.os_errors import describe_os_error
from doorward.docker.install.doctor import Finding
from doorward.docker.request.daemon_settings import DaemonSettings
from doorward.docker.unix_http import UnixConnection

__all__ = ["diagnose_proxy"]

_USUAL: Final = ("/run/docker.sock", "/var/run/docker.sock")
_TIMEOUT: Final = 20.0
_MOST: Final = 16 << 20


def diagnose_proxy(
    proxy: str, daemon: str, *, daemon_json: Path, arguments: list[str]
) -> Iterator[Finding]:
    """Yield the findings of all checks of the proxy's socket, `proxy`, and of ways to the daemon's
    own socket, `daemon`, past it. `arguments` are those of the running dockerd.
    """
    yield from _proxy(proxy)
    yield from _private(daemon)
    yield from _find_bypasses(daemon, daemon_json, arguments)
    yield from _containers(daemon)


def _proxy(path: str) -> Iterator[Finding]:
    """Yield findings about the proxy's socket; only a failure if nothing answers there."""
    if _get(path, "/_ping") is None:
        yield Finding(
            "fail", f"nothing answers at {path}", "start `doorward docker proxy` with this --socket"
        )
        return
    yield Finding("ok", f"the daemon answers through {path}")
    if stat.S_IMODE(os.stat(path).st_mode) & stat.S_IWOTH:
        yield Finding("warn", f"every user of this host can open {path}", f"chmod 660 {path}")


def _private(path: str) -> Iterator[Finding]:
    """Yield the findings on the daemon's own socket at `path`: failures if it is missing, is at a
    usual path, or can be opened by others than root; `ok` if only root can open it.
    """
    try:
        status = os.stat(path)
    except OSError as error:
        problem = f"{path} cannot be found: {describe_os_error(error)}"
    else:
        problem = "" if stat.S_ISSOCK(status.st_mode) else f"{path} is not a socket"
    if problem:
        yield Finding("fail", problem, "name the daemon's socket with --docker-socket")
        return
    if os.path.realpath(path) in {os.path.realpath(each) for each in _USUAL}:
        yield Finding(
            "fail",
            f"the daemon's own socket is {path}, where every program looks for it",
            'move it: set "hosts": ["unix:///run/docker-private/docker.sock"] in daemon.json',
        )
    mode = stat.S_IMODE(status.st_mode)
    for_others = mode & stat.S_IWOTH or (mode & stat.S_IWGRP and status.st_gid != 0)
    if (status.st_uid != 0 or for_others) and _can_be_entered(Path(path).parent):
        yield Finding(
            "fail",
            f"users other than root can open {path}, which bypasses the proxy",
            f'set "group": "root" in daemon.json, or run chmod 700 {Path(path).parent}',
        )
    else:
        yield Finding("ok", f"only root can open {path}")


def _can_be_entered(folder: Path) -> bool:
    """Return True if a user other than root may get into `folder` and all folders above it: for
    each of them the owner is not root, or its group or others have execute permission.
    """
    for each in (folder, *folder.parents):
        status = each.stat()
        if not status.st_mode & (stat.S_IXGRP | stat.S_IXOTH) and status.st_uid == 0:
            return False
    return True


def _find_bypasses(path: str, daemon_json: Path, arguments: list[str]) -> Iterator[Finding]:
    """Yield a finding for each address, besides the Unix socket at `path`, at which dockerd listens
    by `daemon_json` or its `arguments`, and so bypasses the proxy: a warning if clients need
    certificates there, else a failure.
    """
    settings = DaemonSettings.read(str(daemon_json), arguments)
    unverified = settings.open_listeners
    if unverified:
        yield Finding(
            "fail",
            f"dockerd listens on {', '.join(unverified)} without verifying its clients",
            'remove the address from "hosts" in daemon.json, or set tlsverify and tlscacert',
        )
    others = [each for each in settings.listeners if each not in unverified]
    socket_path = os.path.realpath(path)
    for each in others:
        name = each.removeprefix("unix://")
        if each.startswith("fd://"):
            yield Finding(
                "fail",
                "dockerd listens on the socket of systemd's docker.socket (fd://), "
                "which bypasses the proxy",
                "run systemctl mask docker.socket, and start dockerd without -H fd://",
            )
        elif each.startswith("unix://") and os.path.realpath(name) != socket_path:
            yield Finding(
                "fail",
                f"dockerd also listens at {name}, which bypasses the proxy",
                'remove the address from "hosts" in daemon.json and from dockerd\'s options',
            )
        elif each.startswith("tcp://"):
            yield Finding(
                "warn",
                f"dockerd accepts clients with certificates at {each}, which bypasses the proxy",
                "let the proxy listen there (--listen), or run the plugin as well",
            )


def _containers(path: str) -> Iterator[Finding]:
    """Yield a finding for each container that mounts the daemon's own socket, or a folder that
    contains it; none if the daemon does not answer.
    """
    socket_path = os.path.realpath(path)
    for container in _get(path, "/containers/json?all=1") or ():
        # Folders above the socket count as well: a container can walk down to it.
        for mount in container.get("Mounts") or ():
            source = os.path.realpath(str(mount.get("Source") or "/nowhere"))
            if socket_path == source or socket_path.startswith(source.rstrip("/") + "/"):
                name = str((container.get("Names") or ["?"])[0]).removeprefix("/")
                yield Finding(
                    "fail",
                    f"container {name} can use the daemon's own socket: it mounts {source}",
                    "let the proxy create a socket for it instead: --consumer NAME=PATH",
                )


def _get(path: str, target: str) -> Any:
    """Send a GET request to the Unix socket at `path` and return the body: parsed JSON if it begins
    with `[` or `{`, else the first `_MOST` bytes.

    None for a status other than 200, for JSON that is invalid or longer than `_MOST` bytes, and if
    no response comes.
    """
    connection = UnixConnection(path, _TIMEOUT)
    try:
        connection.request("GET", target, headers={"Host": "docker"})
        response = connection.getresponse()
        content = response.read(_MOST)
        if response.status != 200:
            return None
        return json.loads(content) if content[:1] in b"[{" and content else content
    except (OSError, ValueError, RecursionError, http.client.HTTPException):
        return None
    finally:
        connection.close()
