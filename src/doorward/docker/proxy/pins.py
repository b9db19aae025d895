"""Folders of the host that were judged, held so that their path cannot be led elsewhere.

    path that was judged -> descriptor, without links -> bind mount in a folder of root's -> daemon

Between the creation of a container and its start, days may pass, and a folder may become a link to
another one. So the daemon is given a mount of the judged folder in place of its path. Pins outlive
this process; after a restart of the host they are made again before the daemon starts, from the
paths that are written down. Where one leads elsewhere now, or nobody who asked for it may mount it
any more, its container does not start.
"""

from __future__ import annotations

import ctypes
import errno
import json
import logging
import os
import re
import secrets
import stat
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Final, TypeAlias

from doorward.base.os_errors import describe_os_error
from doorward.docker.proxy.pin_requests import PinnedRequest, to_pinned_request
from doorward.docker.request.input import Draft

__all__ = ["PINNED", "PinError", "Pins"]

_log: Final = logging.getLogger(__name__)

PINNED: Final = frozenset({"container.create", "volume.create"})
"""The actions whose folders are pinned."""
MOST_PINS: Final = 4096
MOST_REQUESTS: Final = 4
"""Requests that are remembered beside a pin."""
NEW: Final = 60.0
"""Seconds in which a container must be there for which a folder was pinned."""
_DETACH: Final = 2
"""MNT_DETACH."""
# One number on all architectures that Docker runs on.
_OPENAT2: Final = 437
_HOW: Final = struct.Struct("=QQQ")
_NO_LINKS: Final = 0x02 | 0x04
"""RESOLVE_NO_MAGICLINKS and RESOLVE_NO_SYMLINKS."""
_BIND: Final = 0x1000 | 0x4000
"""MS_BIND and MS_REC: what is mounted below is there for a container without pins as well."""
_PLAIN_MODES: Final = frozenset(
    {"ro", "rw", "private", "rprivate", "shared", "rshared", "slave", "rslave"}
)
_NAME: Final = re.compile(r"[0-9a-f]{16}")
_LENGTH: Final = 16
_libc: Final = ctypes.CDLL(None, use_errno=True)
_Pin: TypeAlias = Callable[[str], str]
"""The pin of a source, as it stands in a request."""


class PinError(Exception):
    """A folder that cannot be held; the message says why."""


class Pins:
    """Bind mounts (pins) that keep the files and folders of the host that were judged, so that a
    path cannot lead elsewhere later; a file stores them for the next start. Safe in any number of
    threads.
    """

    def __init__(
        self,
        folder: str,
        state: str,
        in_use: Callable[[], bytes | None] = lambda: None,
        why_refused: Callable[[PinnedRequest], str] | None = None,
    ) -> None:
        """Prepare `folder`, read the stored pins, and restore their mounts. Raise PinError if
        the stored pins cannot be read, OSError if `folder` cannot be created.

        `folder` is the place of the mounts, in the mount namespace of the daemon; `state` is the
        file that stores the pins. `in_use` returns the daemon's documents that name all mounts in
        use, None if the daemon does not answer. `why_refused` decides a stored request before its
        pin is mounted again; `""` allows it.
        """
        self._in_use = in_use
        self._why_refused = why_refused
        self._since: dict[str, float] = {}
        self._state = Path(state)
        self._lock = threading.Lock()
        os.makedirs(folder, mode=0o700, exist_ok=True)
        # `makedirs` leaves a folder as it is that is there already.
        os.chmod(folder, 0o700)
        # As the kernel names its mounts.
        self.folder = os.path.realpath(folder)
        self._requests: dict[str, list[PinnedRequest]] = {}
        self._paths = self._read()
        self._restore()

    # Between runs

    def _read(self) -> dict[str, str]:
        """Return the paths of the stored pins by name, and put their requests into `_requests`; {}
        if there is no file. Stored pins that are not valid are left out. Raise PinError if the file
        cannot be read or is not a JSON object.
        """
        try:
            document = json.loads(self._state.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError):
            document = None
        if type(document) is not dict:
            raise PinError(
                f"{self._state} cannot be read: remove the file to start without the "
                "pinned folders of earlier containers"
            )
        paths: dict[str, str] = {}
        for name, stored in document.items():
            pin = _read_pin(stored)
            if pin is not None and _NAME.fullmatch(name):
                paths[name], self._requests[name] = pin
        return paths

    def _write(self) -> None:
        """Store the pins in their file, replaced in one step. Raise PinError if that fails."""
        try:
            self._replace()
        except OSError as error:
            reason = describe_os_error(error)
            raise PinError(f"{self._state} cannot be written: {reason}") from None

    def _replace(self) -> None:
        """Write the file of the pins beside the old one, and rename it; OSError if that fails."""
        self._state.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = self._state.with_suffix(".new")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(
                {
                    name: {"path": path, "requests": self._requests.get(name, [])}
                    for name, path in self._paths.items()
                },
                file,
            )
            # Before the rename: a crash of the host must not leave an empty file under the name.
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._state)

    def _restore(self) -> None:
        """Mount the stored pins again that are not mounted, as after a reboot. A pin that is not
        allowed any more or cannot be mounted is logged and left out.
        """
        mounted = _mount_points()
        for name, path in self._paths.items():
            point = f"{self.folder}/{name}"
            if point in mounted:
                continue
            with suppress(OSError):
                _remove(point)
            try:
                self._check(name)
                self._mount(path, point)
            except PinError as error:
                why = {"path": path, "why": str(error)}
                _log.error(
                    "A pinned host folder cannot be mounted again after a restart", extra=why
                )

    def _check(self, name: str) -> None:
        """Raise PinError unless at least one of the requests that asked for this pin is still
        allowed.

        Does nothing if no `why_refused` was given.
        """
        if self._why_refused is None:
            return
        reasons = [self._why_refused(request) for request in self._requests.get(name, [])]
        if "" not in reasons:
            raise PinError(reasons[0] if reasons else "no request that asked for it is stored")

    # Pins

    def pin(self, path: str, request: PinnedRequest | None = None) -> str:
        """Return the path of a pin: a bind mount of the file or folder that `path` leads to now.

        A pin of the same folder under the same path is used again. `request` is stored with the
        pin. At `MOST_PINS` pins the unused ones are unmounted first. Raise PinError if `path` does
        not exist or cannot be mounted, if a symbolic link is on the way, if all `MOST_PINS` pins
        are in use, or if the pin cannot be stored.
        """
        with self._lock:
            descriptor = _open(path)
            try:
                known = self._find(path, os.fstat(descriptor))
                if known is not None:
                    self._remember(known.rpartition("/")[2], request)
                    return known
                if len(self._paths) >= MOST_PINS and not self._release():
                    raise PinError(
                        f"{MOST_PINS} host folders are pinned for containers already: "
                        "remove containers, and try again"
                    )
                name = secrets.token_hex(8)
                point = f"{self.folder}/{name}"
                _mount_on(descriptor, path, point)
            finally:
                os.close(descriptor)
            self._paths[name] = path
            self._since[name] = monotonic()
            self._requests[name] = [] if request is None else [request]
            try:
                self._write()
            except PinError:
                # After a restart of the host nothing would mount it again.
                self._remove_pin(name)
                raise
            return point

    def _remember(self, name: str, request: PinnedRequest | None) -> None:
        """Store one more request for a pin, unless it is None or stored already, or the pin has
        `MOST_REQUESTS` of them.
        """
        requests = self._requests.setdefault(name, [])
        if request is None or request in requests or len(requests) >= MOST_REQUESTS:
            return
        requests.append(request)
        try:
            self._write()
        except PinError:
            requests.pop()
            raise

    def _release(self) -> bool:
        """Unmount all pins that no container or volume uses, and remove them from the file; True if
        there is room for another. Raise PinError if the file cannot be written.

        False if the daemon does not answer. A pin younger than `NEW` seconds stays: its container
        may not have been created yet.
        """
        documents = self._in_use()
        if documents is None:
            return False
        until = monotonic() - NEW
        before = len(self._paths)
        for name in list(self._paths):
            point = f"{self.folder}/{name}"
            # By bytes anywhere in the documents: too many kept pins are harmless, one
            # too few is not.
            if point.encode() in documents or self._since.get(name, 0.0) > until:
                continue
            self._remove_pin(name)
        if len(self._paths) < before:
            # Before another mount can fail: a start would make again what the file has.
            self._write()
        return len(self._paths) < MOST_PINS

    def _remove_pin(self, name: str) -> None:
        """Unmount a pin and forget it; the file still has it."""
        point = f"{self.folder}/{name}"
        _libc.umount2(point.encode(), _DETACH)
        with suppress(OSError):
            _remove(point)
        del self._paths[name]
        self._since.pop(name, None)
        self._requests.pop(name, None)

    def _find(self, path: str, status: os.stat_result) -> str | None:
        """Return the mount point of the pin with this path and the same device and inode; None if
        there is none.
        """
        for name, other in self._paths.items():
            if other == path:
                point = f"{self.folder}/{name}"
                with suppress(OSError):
                    pinned = os.stat(point)
                    if (pinned.st_dev, pinned.st_ino) == (status.st_dev, status.st_ino):
                        return point
        return None

    def _mount(self, path: str, point: str) -> None:
        """Mount a path of the host, opened once, on a mount point; raise PinError if it cannot be
        opened or mounted.
        """
        descriptor = _open(path)
        try:
            _mount_on(descriptor, path, point)
        finally:
            os.close(descriptor)

    def translate(self, content: bytes) -> bytes:
        """Return a JSON text of the daemon in which the path of each pin is replaced by the host
        path that it was made for.
        """
        before, *parts = content.split(self.folder.encode() + b"/")
        if not parts:
            return content
        return b"".join([before, *map(self._translate_pin, parts)])

    def _translate_pin(self, rest: bytes) -> bytes:
        """Return the host path of a pin, followed by the remaining text. `rest` is the text after
        the folder of pins and a slash: it begins with the name of a pin. Unchanged, with the
        folder, if no pin has this name.
        """
        path = self._paths.get(rest[:_LENGTH].decode("ascii", errors="replace"))
        # A longer name is not a pin's, though it begins like one.
        if path is None or rest[_LENGTH : _LENGTH + 1].isalnum():
            return self.folder.encode() + b"/" + rest
        # Escaped, since the bytes stand within a string of the daemon's JSON.
        return json.dumps(path)[1:-1].encode() + rest[_LENGTH:]

    # Requests

    def replace(self, draft: Draft, resolved: Mapping[str, str]) -> Draft:
        """Return the draft with pins in place of the host's folders; `resolved` has the judged path
        of each source. Raise PinError if a pin cannot be made or a source was not judged.
        """
        body = draft.body
        if type(body) is not dict:
            return draft
        pin = partial(self._pin_source, resolved, to_pinned_request(draft))
        if draft.route.action == "volume.create":
            return draft._replace(body=self._volume(body, "DriverOpts", pin))
        host = body.get("HostConfig")
        if type(host) is not dict:
            return draft
        return draft._replace(body={**body, "HostConfig": self._host(host, draft, pin)})

    def _host(self, host: dict[str, Any], draft: Draft, pin: _Pin) -> Any:
        """Return a copy of a HostConfig in which pins replace the host's paths: the sources of
        `Binds` and bind mounts, and the devices in the driver options of volumes. Entries of
        `Binds` may move to `Mounts`. Raise PinError if a path was not judged or cannot be pinned.
        """
        binds: list[Any] = []
        mounts: list[Any] = []
        for text in host.get("Binds") or ():
            mount = self._bind(text, draft, pin)
            (binds if isinstance(mount, str) else mounts).append(mount)
        for mount in host.get("Mounts") or ():
            if mount and mount.get("Type") == "bind":
                mount = {**mount, "Source": pin(mount.get("Source") or "")}
            elif mount and (driver := (mount.get("VolumeOptions") or {}).get("DriverConfig")):
                options = mount["VolumeOptions"]
                driver = self._volume(driver, "Options", pin)
                mount = {**mount, "VolumeOptions": {**options, "DriverConfig": driver}}
            mounts.append(mount)
        changed = dict(host)
        for name, rows in (("Binds", binds), ("Mounts", mounts)):
            if rows or host.get(name):
                changed[name] = rows
        return changed

    def _bind(self, text: str, draft: Draft, pin: _Pin) -> Any:
        """Return an entry of `Binds` with its source replaced by a pin, as an object for `Mounts`:
        the daemon does not create a missing source of one.

        It stays text if its modes or the API version do not permit that, and unchanged if its
        source is a volume's name. Raise PinError if the source was not judged or cannot be pinned.
        """
        source, *rest = text.split(":")
        if not source.startswith("/"):
            return text
        point = pin(source)
        modes = rest[1].split(",") if len(rest) > 1 else []
        version = tuple(map(int, draft.target.version.split("."))) if draft.target.version else ()
        # `Mounts` came with API 1.25, and has no words for modes such as `z` and `Z`.
        if not _PLAIN_MODES.issuperset(modes) or (version and version < (1, 25)):
            return ":".join([point, *rest])
        mount: dict[str, Any] = {"Type": "bind", "Source": point, "Target": rest[0]}
        if "ro" in modes:
            mount["ReadOnly"] = True
        propagation = [mode for mode in modes if mode not in ("ro", "rw")]
        if propagation:
            mount["BindOptions"] = {"Propagation": propagation[0]}
        return mount

    def _volume(self, body: dict[str, Any], name: str, pin: _Pin) -> Any:
        """Return `body` with the `device` in its options `name` replaced by a pin; the same body if
        the device is not an absolute path. Raise PinError if the device was not judged or cannot be
        pinned.
        """
        options = body.get(name) or {}
        device = options.get("device") or ""
        if not device.startswith("/"):
            return body
        return {**body, name: {**options, "device": pin(device)}}

    def _pin_source(
        self, resolved: Mapping[str, str], request: PinnedRequest | None, source: str
    ) -> str:
        """Pin the path to which a source led when it was judged, and return the pin; PinError if it
        was not judged, or the pin cannot be made.
        """
        path = resolved.get(source)
        if not path:
            raise PinError(f"host path {source} was not part of the request when it was decided")
        return self.pin(path, request)


def _read_pin(stored: Any) -> tuple[str, list[PinnedRequest]] | None:
    """Return the path and the requests of a stored pin, which may be its path alone; None if it is
    not a path that can be opened.
    """
    path: Any = stored
    requests: Any = []
    if type(stored) is dict:
        path, requests = stored.get("path"), stored.get("requests")
    if type(path) is not str or not path.startswith("/") or "\0" in path:
        return None
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return None
    is_list = type(requests) is list
    return path, [each for each in requests if type(each) is dict] if is_list else []


def _open(path: str) -> int:
    """Open `path` without reading it and return the descriptor, which the caller closes.

    Raise PinError if the path does not exist, cannot be opened, or has a symbolic link anywhere on
    the way.
    """
    # -100 is AT_FDCWD, which an absolute path ignores; 24 is the size of `open_how`.
    how = ctypes.create_string_buffer(_HOW.pack(os.O_PATH | os.O_CLOEXEC, 0, _NO_LINKS), _HOW.size)
    descriptor = _libc.syscall(
        _OPENAT2, ctypes.c_int(-100), ctypes.c_char_p(os.fsencode(path)), how, ctypes.c_size_t(24)
    )
    if descriptor >= 0:
        return int(descriptor)
    number = ctypes.get_errno()
    if number == errno.ENOENT:
        raise PinError(f"host path {path} does not exist: create it first")
    if number == errno.ELOOP:
        raise PinError(f"host path {path} now leads through a symbolic link")
    raise PinError(f"host path {path} cannot be opened to pin it: {os.strerror(number).lower()}")


def _mount_on(descriptor: int, path: str, point: str) -> None:
    """Create `point` and bind-mount the file or folder that is open at `descriptor` there.

    Raise PinError, which names the host path `path`, if `point` exists or the mount fails; in the
    second case `point` is removed again.
    """
    is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
    try:
        if is_folder:
            os.mkdir(point, 0o700)
        else:
            os.close(os.open(point, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise PinError(f"host path {path} cannot be pinned: {describe_os_error(error)}") from None
    # By the descriptor: mount(2) with the path would follow it, and its links, once more.
    source = f"/proc/self/fd/{descriptor}".encode()
    if _libc.mount(source, point.encode(), None, ctypes.c_ulong(_BIND), None):
        number = ctypes.get_errno()
        _remove(point)
        raise PinError(f"host path {path} cannot be pinned: {os.strerror(number).lower()}")


def _remove(point: str) -> None:
    """Remove the file or empty folder that served as a mount point; raise OSError if that fails."""
    try:
        os.unlink(point)
    except IsADirectoryError:
        os.rmdir(point)


def _mount_points() -> set[str]:
    """Return the paths at which something is mounted, as this process sees them."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        return {line.split()[4] for line in file}
