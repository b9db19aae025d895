"""Every way to put a folder or device into a container becomes one list of mounts.

Binds, Mounts, volume options, tmpfs and volumes of other containers look different on the wire and
have the same power. A host path is given as sent, cleaned as the kernel would read it, and with
its symbolic links followed (`resolved`); links can change between the decision and the mount, so a
policy should allow only folders in which users cannot make links. What a named volume or another
container really holds only the daemon knows: those are `unresolved`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypedDict

__all__ = [
    "Mount",
    "Resolve",
    "bind_mounts",
    "bound",
    "create_mounts",
    "host_mount",
    "mount_list",
    "mounts_anything",
    "unknown_volume",
    "volume_mounts",
]

Resolve: TypeAlias = Callable[[str], str | None]
"""Returns a host path with its links followed; None if they cannot be followed."""

_MODES: Final = re.compile(r"(?:[a-zA-Z-]+)(?:,[a-zA-Z-]+)*")
_PROPAGATION: Final = ("shared", "slave", "private")
_OVERLAY: Final = ("lowerdir", "upperdir", "workdir")
_BIND: Final = frozenset({"bind", "rbind"})
_VOLUME_OPTIONS: Final = frozenset({"type", "o", "device", "size"})
"""What the local driver reads; newer drivers may read more, and then it is not known what."""
_TMPFS_FLAGS: Final = frozenset({
    "async", "atime", "defaults", "dev", "diratime", "dirsync", "exec", "mand", "noatime", "nodev",
    "nodiratime", "noexec", "nomand", "norelatime", "nostrictatime", "nosuid", "relatime", "ro",
    "rw", "strictatime", "suid", "sync",
})  # fmt: skip
_TMPFS_VALUES: Final = frozenset({"size", "mode", "uid", "gid", "nr_inodes", "nr_blocks", "mpol"})
"""Options of a tmpfs that cannot reach anything on the host. A list of what is harmless, because
mount(2) obeys flags before it looks at the type: `bind` with `type=tmpfs` mounts the device."""


_MOUNTING: Final = frozenset({"Binds", "Mounts", "VolumesFrom", "Tmpfs", "VolumeDriver"})
"""Fields of a HostConfig that mount something."""


class Mount(TypedDict):
    """One mount: bind, volume, tmpfs, image, nfs, cluster, device, filesystem or other."""

    origin: str
    """The field it comes from: `Binds`, `Mounts`, `DriverOpts`, `VolumesFrom`, `Tmpfs`, …"""
    type: str
    source: str
    clean: str
    resolved: str
    target: str
    readonly: bool
    propagation: str
    driver: str
    unresolved: bool


def _mount(
    origin: str,
    type_: str,
    source: str,
    target: str,
    *,
    clean: str = "",
    resolved: str = "",
    readonly: bool = False,
    propagation: str = "",
    driver: str = "",
    unresolved: bool = False,
) -> Mount:
    """Return a row of the `mounts` view with these values as they are; no path is cleaned or
    resolved. Defaults are those of a mount that uses nothing on the host.
    """
    return {
        "origin": origin,
        "type": type_,
        "source": source,
        "clean": clean,
        "resolved": resolved,
        "target": target,
        "readonly": readonly,
        "propagation": propagation,
        "driver": driver,
        "unresolved": unresolved,
    }


def host_mount(
    origin: str,
    source: str,
    target: str,
    resolve: Resolve,
    *,
    type_: str = "bind",
    readonly: bool = False,
    propagation: str = "",
    driver: str = "",
) -> Mount:
    """Return the row of a mount from the host, with its path cleaned and its links followed. It is
    `unresolved` if the source is not an absolute path or if `resolve` returns None.
    """
    absolute = source.startswith("/") and "\x00" not in source
    clean = _clean(source) if absolute else source
    resolved = resolve(clean) if absolute else None
    return _mount(
        origin,
        type_,
        source,
        target,
        clean=clean,
        resolved=resolved or "",
        readonly=readonly,
        propagation=propagation,
        driver=driver,
        unresolved=resolved is None,
    )


def _clean(path: str) -> str:
    """Return an absolute path without empty and dot segments, as the kernel would read it."""
    if "//" not in path and "/." not in path and path[-1] != "/":
        return path
    # `normpath` keeps two slashes at the start, which POSIX allows to mean something else.
    return "/" + posixpath.normpath(path).lstrip("/")


def mounts_anything(host: Mapping[str, Any]) -> bool:
    """Return True if one of the fields that a HostConfig sets mounts something."""
    return not _MOUNTING.isdisjoint(host)


def bound(binds: Sequence[str], resolve: Resolve) -> list[Mount]:
    """Return the mounts of `Binds` without a volume driver."""
    return [_bind(text, "", resolve) for text in binds]


def create_mounts(
    host: Mapping[str, Any], config: Mapping[str, Any], resolve: Resolve
) -> list[Mount]:
    """Return a row for each mount of a container that is created, or started with a HostConfig.

    The order is Binds, Mounts, VolumesFrom, Tmpfs, Volumes, VolumeDriver.
    """
    if _MOUNTING.isdisjoint(host) and not config.get("Volumes"):
        return []
    rows = [
        _bind(text, host.get("VolumeDriver") or "", resolve) for text in host.get("Binds") or ()
    ]
    rows += mount_list(host.get("Mounts") or (), resolve)
    for source in host.get("VolumesFrom") or ():
        name, _, mode = source.partition(":")
        readonly = "ro" in mode.split(",")
        # Unresolved until `facts` asks the daemon what that container really has.
        rows.append(_mount("VolumesFrom", "volume", name, "", readonly=readonly, unresolved=True))
    for target, options in (host.get("Tmpfs") or {}).items():
        rows.append(_tmpfs("Tmpfs", "", target, (options or "").split(",")))
    for target in config.get("Volumes") or ():
        rows.append(
            _mount("Volumes", "volume", "", target, driver=host.get("VolumeDriver") or "local")
        )
    if host.get("VolumeDriver"):
        # It makes the volumes that the image declares as well.
        rows.append(_mount("VolumeDriver", "volume", "", "", driver=host["VolumeDriver"]))
    return rows


def _bind(text: str, driver: str, resolve: Resolve) -> Mount:
    """Return the mount of one entry of Binds, `source:target[:mode]`.

    A source that is not an absolute path is the name of a volume, which is unresolved; a path alone
    is the target of a new volume. An entry that cannot be read has the type `other` and is
    unresolved. `driver` is the driver of volumes, `""` for `local`.
    """
    parts = text.split(":")
    if len(parts) == 1:
        return _mount("Binds", "volume", "", text, driver=driver or "local")
    if len(parts) > 3 or (len(parts) == 3 and not _MODES.fullmatch(parts[2])):
        return _mount("Binds", "other", text, "", unresolved=True)
    modes = parts[2].split(",") if len(parts) == 3 else []
    readonly = "ro" in modes
    spread = [mode for mode in modes if mode.endswith(("shared", "slave", "private"))]
    propagation = spread[0] if spread else ""
    if parts[0].startswith("/"):
        return host_mount(
            "Binds", parts[0], parts[1], resolve, readonly=readonly, propagation=propagation
        )
    return _mount(
        "Binds",
        "volume",
        parts[0],
        parts[1],
        readonly=readonly,
        propagation=propagation,
        driver=driver or "local",
        unresolved=True,
    )


def mount_list(mounts: Sequence[Mapping[str, Any] | None], resolve: Resolve) -> list[Mount]:
    """Return the rows for the entries of a `Mounts` field, including those for host folders and
    devices that the driver options of a volume mount.
    """
    rows: list[Mount] = []
    for item in mounts:
        if item is not None:
            rows += _of_mounts(item, resolve)
    return rows


def _of_mounts(item: Mapping[str, Any], resolve: Resolve) -> list[Mount]:
    """Return the rows for an entry of `Mounts`: its own, and behind a volume's those for its driver
    options.
    """
    kind = item.get("Type") or ""
    source, target = item.get("Source") or "", item.get("Target") or ""
    readonly = bool(item.get("ReadOnly"))
    if kind == "bind":
        options = item.get("BindOptions") or {}
        propagation = options.get("Propagation") or ""
        return [
            host_mount(
                "Mounts", source, target, resolve, readonly=readonly, propagation=propagation
            )
        ]
    if kind == "volume":
        driver = (item.get("VolumeOptions") or {}).get("DriverConfig") or {}
        name = driver.get("Name") or "local"
        volume = _mount(
            "Mounts",
            "volume",
            source,
            target,
            readonly=readonly,
            driver=name,
            # A volume without a name is new; what one with a name holds was decided before.
            unresolved=bool(source),
        )
        return [volume, *volume_mounts(name, driver.get("Options") or {}, target, resolve)]
    if kind == "tmpfs":
        return [_tmpfs("Mounts", source, target, _tmpfs_flags(item.get("TmpfsOptions") or {}))]
    known = kind if kind in ("image", "cluster", "npipe") else "other"
    unresolved = known in ("other", "cluster")
    return [_mount("Mounts", known, source, target, readonly=readonly, unresolved=unresolved)]


def _tmpfs(origin: str, source: str, target: str, flags: Sequence[str]) -> Mount:
    """Return the row of a tmpfs; its type is `other`, and it is unresolved, if its options may
    reach anything besides memory.
    """
    harmless = _is_harmless([flag.strip() for flag in flags])
    kind = "tmpfs" if harmless else "other"
    return _mount(origin, kind, source, target, unresolved=not harmless)


def _tmpfs_flags(options: Mapping[str, Any]) -> list[str]:
    """Return the flags of `TmpfsOptions.Options`: `[["size", "1m"], ["ro"]]` -> `["size=1m",
    "ro"]`.

    `["?"]`, which no policy takes for harmless, if they have another form.
    """
    flags = options.get("Options") or ()
    if type(flags) is not list or not all(type(each) is list for each in flags):
        return ["?"]
    return ["=".join(map(str, each)) for each in flags]


def volume_mounts(
    driver: str, options: Mapping[str, str], target: str, resolve: Resolve
) -> list[Mount]:
    """Return the rows for what a volume with this driver and these driver options mounts, such as a
    folder of the host; `target` is its path in the container. None without options. What is not
    understood, such as options of another driver than `local`, is an unresolved row.
    """
    if not options:
        return []
    if driver not in ("", "local"):
        return [_mount("DriverOpts", "other", "", target, driver=driver, unresolved=True)]
    # An option that only a newer daemon reads could name a folder.
    if not options.keys() <= _VOLUME_OPTIONS:
        return [_mount("DriverOpts", "other", "", target, driver="local", unresolved=True)]
    kind = (options.get("type") or "").lower()
    device = options.get("device") or ""
    flags = [flag.strip() for flag in (options.get("o") or "").split(",")]
    # The kernel ignores the type of a bind mount, and resolves a relative device against the
    # working directory of the daemon, which is not known here: such a mount stays unresolved.
    if _BIND & {flag.lower() for flag in flags} or kind in ("none", "bind", ""):
        return [host_mount("DriverOpts", device, target, resolve, driver="local")]
    if kind == "tmpfs":
        if _is_harmless(flags):
            return [_mount("DriverOpts", "tmpfs", device, target, driver="local")]
        return [_mount("DriverOpts", "other", device, target, driver="local", unresolved=True)]
    layers = [
        host_mount("DriverOpts", path, target, resolve, driver="local")
        for name, equals, value in (flag.partition("=") for flag in flags)
        if equals and name.strip().lower().rstrip("+") in _OVERLAY
        for path in value.split(":")
    ]
    if kind == "overlay" and layers:
        return layers
    if kind in ("nfs", "nfs4") and len(flags[0]) < 64 and flags[0].startswith("addr="):
        export = flags[0].removeprefix("addr=") + device
        return [_mount("DriverOpts", "nfs", export, target, driver="local", unresolved=True)]
    if device.startswith("/") and not device.startswith("//"):
        # A device node in an allowed folder may be any disk: its path says nothing.
        node = host_mount("DriverOpts", device, target, resolve, type_="device", driver="local")
        return [*layers, Mount(**{**node, "unresolved": True})]
    unknown = _mount("DriverOpts", "filesystem", device, target, driver="local", unresolved=True)
    return [*layers, unknown]


def unknown_volume(name: str) -> Mount:
    """Return the mount of a named volume about which the daemon gave no answer."""
    return _mount("Volume", "other", name, "", unresolved=True)


def _is_harmless(flags: Sequence[str]) -> bool:
    """Return True if the options of a tmpfs are all known and reach nothing outside of it."""
    return all(
        flag in _TMPFS_FLAGS or not flag or (equals and name in _TMPFS_VALUES)
        for flag in flags
        for name, equals, _ in [flag.partition("=")]
    )


def bind_mounts(mounts: Sequence[Mount]) -> list[dict[str, Any]]:
    """Return the mounts of host folders and devices with the field names that policies for
    opa-docker-authz read: `Source`, `ReadOnly` and `Resolved`.
    """
    return [
        {"Source": mount["source"], "ReadOnly": mount["readonly"], "Resolved": mount["resolved"]}
        for mount in mounts
        if mount["type"] in ("bind", "device")
    ]
