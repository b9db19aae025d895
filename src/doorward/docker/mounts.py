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
    "create_mounts",
    "host_mount",
    "mount_list",
    "volume_mounts",
]

Resolve: TypeAlias = Callable[[str], str | None]
"""A host path with its links followed; None where that cannot be known."""

_MODES: Final = re.compile(r"(?:[a-zA-Z-]+)(?:,[a-zA-Z-]+)*")
_PROPAGATION: Final = ("shared", "slave", "private")
_OVERLAY: Final = ("lowerdir", "upperdir", "workdir")


class Mount(TypedDict):
    """One mount. `type` is bind, volume, tmpfs, image, cluster, device, filesystem or other."""

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
    return Mount(
        origin=origin,
        type=type_,
        source=source,
        clean=clean,
        resolved=resolved,
        target=target,
        readonly=readonly,
        propagation=propagation,
        driver=driver,
        unresolved=unresolved,
    )


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
    """A mount of something on the host, its path cleaned and its links followed."""
    absolute = source.startswith("/") and "\x00" not in source
    clean = "/" + posixpath.normpath(source).lstrip("/") if absolute else source
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


def create_mounts(
    host: Mapping[str, Any], config: Mapping[str, Any], resolve: Resolve
) -> list[Mount]:
    """The mounts of a container that is created, or started with a HostConfig."""
    found = [
        _bind(text, host.get("VolumeDriver") or "", resolve) for text in host.get("Binds") or ()
    ]
    found += mount_list(host.get("Mounts") or (), resolve)
    for source in host.get("VolumesFrom") or ():
        name, _, mode = source.partition(":")
        readonly = "ro" in mode.split(",")
        found.append(_mount("VolumesFrom", "volume", name, "", readonly=readonly, unresolved=True))
    for target in host.get("Tmpfs") or ():
        found.append(_mount("Tmpfs", "tmpfs", "", target))
    for target in config.get("Volumes") or ():
        found.append(
            _mount("Volumes", "volume", "", target, driver=host.get("VolumeDriver") or "local")
        )
    return found


def _bind(text: str, driver: str, resolve: Resolve) -> Mount:
    """`source:target[:mode]`; a source that is no path is the name of a volume."""
    parts = text.split(":")
    if len(parts) == 1:
        return _mount("Binds", "volume", "", text, driver=driver or "local")
    if len(parts) > 3 or (len(parts) == 3 and not _MODES.fullmatch(parts[2])):
        return _mount("Binds", "other", text, "", unresolved=True)
    modes = parts[2].split(",") if len(parts) == 3 else []
    readonly = "ro" in modes
    propagation = next(
        (mode for mode in modes if mode.endswith(("shared", "slave", "private"))), ""
    )
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
    """The mounts of a `Mounts` field, those that a volume's options make included."""
    found: list[Mount] = []
    for item in mounts:
        if item is not None:
            found += _of_mounts(item, resolve)
    return found


def _of_mounts(item: Mapping[str, Any], resolve: Resolve) -> list[Mount]:
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
    known = kind if kind in ("tmpfs", "image", "cluster", "npipe") else "other"
    unresolved = known in ("other", "cluster")
    return [_mount("Mounts", known, source, target, readonly=readonly, unresolved=unresolved)]


def volume_mounts(
    driver: str, options: Mapping[str, str], target: str, resolve: Resolve
) -> list[Mount]:
    """What a volume with these driver options will be: the host's folders and devices in it."""
    if not options:
        return []
    if driver not in ("", "local"):
        return [_mount("DriverOpts", "other", "", target, driver=driver, unresolved=True)]
    kind = (options.get("type") or "").lower()
    device = options.get("device") or ""
    flags = [flag.strip() for flag in (options.get("o") or "").split(",")]
    found = []
    if kind == "tmpfs" and not device.startswith("/"):
        return [_mount("DriverOpts", "tmpfs", device, target, driver="local")]
    for flag in flags:
        name, equals, value = flag.partition("=")
        if equals and name.strip().lower() in _OVERLAY:
            found += [
                host_mount("DriverOpts", path, target, resolve, driver="local")
                for path in value.split(":")
            ]
    binds = {"bind", "rbind"} & set(flags) or kind in ("none", "bind", "")
    if device.startswith("/") or (device and binds):
        type_ = "bind" if binds else "device"
        found.append(host_mount("DriverOpts", device, target, resolve, type_=type_, driver="local"))
    elif not (found and kind == "overlay"):
        # A file system of the network, or one of the kernel's own, or nothing that we know.
        found.append(
            _mount("DriverOpts", "filesystem", device, target, driver="local", unresolved=True)
        )
    return found


def bind_mounts(mounts: Sequence[Mount]) -> list[dict[str, Any]]:
    """The host paths under the names that policies for opa-docker-authz know."""
    return [
        {"Source": mount["source"], "ReadOnly": mount["readonly"], "Resolved": mount["resolved"]}
        for mount in mounts
        if mount["type"] in ("bind", "device")
    ]
