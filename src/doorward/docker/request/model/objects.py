"""The types of objects whose fields mean something only together.

A function gets an object whose fields are of their own types, and gives the name of the field that
does not fit the others with the words for it; None where all fit. Options of a volume are never a
text to be parsed by the kernel: they are of one of the forms written here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from doorward.docker.request.images import is_content, parse_image
from doorward.docker.request.model.values import VALUES, is_host_path

__all__ = ["OBJECTS"]

_Fault: TypeAlias = tuple[str, str] | None
_NAME: Final = VALUES["name"].accepts
_TMPFS: Final = VALUES["tmpfs-options"].accepts
_BIND: Final = frozenset(
    (
        "bind",
        "rbind",
        "bind,ro",
        "rbind,ro",
        "ro,bind",
        "bind,rw",
        "rbind,rw",
        "rw,bind",
        "rw,rbind",
    )
)
_EXPORT: Final = re.compile(r":/[A-Za-z0-9_./-]{0,1024}")
_NFS: Final = re.compile(
    r"addr=([0-9A-Fa-f.:]{2,39})((?:,(?:ro|rw|hard|soft|nolock|tcp|nfsvers=[34](?:\.[0-2])?))*+)"
)


def _check_mount(mount: Mapping[str, Any]) -> _Fault:
    """Return the fault of an entry of Mounts, the field and the form it should have; None if it is
    right.

    The source must fit the type, and options of other types must be absent.
    """
    kind, source = mount.get("Type") or "", mount.get("Source") or ""
    for name, owner in _OWNERS.items():
        if kind != owner and mount.get(name):
            return name, f"left out of a mount of another type than {owner}"
    if kind == "bind":
        return None if is_host_path(source) else ("Source", "an absolute path")
    if kind == "volume":
        return None if not source or _NAME(source) else ("Source", "the name of a volume")
    if kind == "tmpfs":
        return None if not source else ("Source", "left out")
    if kind == "image":
        known = is_content(source) or (source and not parse_image(source)["unresolved"])
        return None if known else ("Source", "the name of an image")
    return "Type", "one of bind, image, tmpfs, volume"


_OWNERS: Final = {
    "BindOptions": "bind",
    "VolumeOptions": "volume",
    "TmpfsOptions": "tmpfs",
    "ImageOptions": "image",
}


def _check_volume(volume: Mapping[str, Any]) -> _Fault:
    """Return the fault in the driver options of a volume, which is a request's or a mount's
    `DriverConfig`: the field and the form it should have. None if there are no options, or the
    driver is `local` and they are one of the forms of a tmpfs, a bind or NFS listed here.
    """
    field = "Options" if "Options" in volume else "DriverOpts"
    options = volume.get(field) or {}
    driver = volume.get("Name" if field == "Options" else "Driver") or "local"
    if not options:
        return None
    # Another driver may read any option as anything, a path of the host as well.
    if driver != "local":
        return field, "left out for another driver than local"
    if not options.keys() <= _LOCAL:
        return field, "only of type, o and device"
    kind, flags, device = (options.get(name) or "" for name in ("type", "o", "device"))
    if kind == "tmpfs":
        if device not in ("", "tmpfs") or (flags and not _TMPFS(flags)):
            return field, "of a tmpfs: device tmpfs, and size, mode, uid, gid and flags"
    elif kind in ("", "none", "bind"):
        if flags not in _BIND or not is_host_path(device):
            return (
                field,
                'of a bind: o bind and perhaps ro, and an absolute path without \\ , : " { } =',
            )
    elif kind in ("nfs", "nfs4"):
        if not _NFS.fullmatch(flags) or not _EXPORT.fullmatch(device):
            return field, "of NFS: addr=ADDRESS with ro, rw, nolock, nfsvers, and device :/PATH"
    else:
        return field, "of type none, tmpfs or nfs"
    return None


_LOCAL: Final = frozenset(("type", "o", "device"))


def _check_log(log: Mapping[str, Any]) -> _Fault:
    """Return the fault of the first log option whose value is not of its form; None if there is
    none. Options that are not known pass.
    """
    field = "Config" if "Config" in log else "Options"
    for name, text in (log.get(field) or {}).items():
        pattern = _LOG_OPTIONS.get(name)
        if pattern is not None and text and not pattern.fullmatch(text):
            return f"{field}.{name}", f"a value that matches {pattern.pattern}"
    return None


_KEYS: Final = re.compile(r"[A-Za-z0-9_.,/-]{1,1024}")
_EXPRESSION: Final = re.compile(r"[A-Za-z0-9_.^$*+?()|/-]{1,256}")
_COUNT: Final = re.compile(r"[0-9]{1,9}")
_SIZE: Final = re.compile(r"[0-9]{1,12}[bBkKmMgG]{0,2}")
_BOOLEAN: Final = re.compile(r"true|false")
_LOG_OPTIONS: Final[Mapping[str, re.Pattern[str]]] = {
    "compress": _BOOLEAN,
    "env": _KEYS,
    "env-regex": _EXPRESSION,
    "labels": _KEYS,
    "labels-regex": _EXPRESSION,
    "max-buffer-size": _SIZE,
    "max-file": _COUNT,
    "max-size": _SIZE,
    "mode": re.compile(r"blocking|non-blocking"),
    "tag": re.compile(r"[A-Za-z0-9_.:/-]{1,128}"),
}


def _check_reference(reference: Mapping[str, Any]) -> _Fault:
    """Return the fault of a file's name in the container that has a template (`{{`); None for
    others.
    """
    name = (reference.get("File") or {}).get("Name") or ""
    return ("File.Name", "a path") if "{{" in name else None


def _check_network(network: Mapping[str, Any]) -> _Fault:
    """Return the fault of an IPAM configuration that has a gateway or range but no subnet, which
    the daemon would then choose; None if there is none.
    """
    for config in (network.get("IPAM") or {}).get("Config") or ():
        if config and not config.get("Subnet") and any(config.values()):
            return "IPAM.Config[].Subnet", "set where a gateway or an address range is set"
    return None


OBJECTS: Final[Mapping[str, Callable[[Mapping[str, Any]], _Fault]]] = {
    "mount": _check_mount,
    "volume": _check_volume,
    "log": _check_log,
    "reference": _check_reference,
    "network": _check_network,
}
