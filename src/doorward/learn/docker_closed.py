"""The values that are never learned, however often they are used: only a person opens them.

The shipped data of Docker's policies are the upper bound: what they keep closed is a question.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

from doorward.docker.decider.embedded import PACK
from doorward.learn.docker_calls import LIMITS, Setting

__all__ = ["CLOSED", "LISTS", "SETTINGS", "shipped_data", "why_closed"]

LISTS: Final[Mapping[Setting, str]] = {
    ("capabilities", "allow"): "capability",
    ("logging", "drivers"): "log driver",
    ("logging", "options"): "log option",
    ("mounts", "volume_drivers"): "volume driver",
    ("networks", "drivers"): "network driver",
    ("networks", "options"): "network option",
    ("builds", "outputs"): "output of a build",
    ("queries", "unverified"): "action with a query that is not verified",
    ("sysctls", "allow"): "sysctl",
    ("registries", "allow"): "registry",
}
"""Settings for which a part of the shipped list is learned."""
CLOSED: Final[Mapping[Setting, str]] = {
    ("mounts", "nfs"): "NFS export",
    ("mounts", "volumes_from"): "volumes of another container",
    ("networks", "join_containers"): "namespace of another container",
    ("networks", "services"): "network of a service that could be an identifier",
    ("ports", "addresses"): "address of the host",
    ("remotes", "allow"): "URL that the daemon fetches",
    ("runtimes", "allow"): "runtime",
    ("ulimits", "allow"): "ulimit",
}
"""Settings that the shipped data keep closed: their values are only asked about, never granted."""
SETTINGS: Final = frozenset(
    {*LISTS, *CLOSED, ("users", "roles"), ("images", "allow"), ("mounts", "allow")}
    | {("networks", "subnets"), ("ports", "ranges"), ("builds", "unlimited")}
    | {("limits", each) for each in LIMITS}
)
"""All settings that learned values can belong to."""
SYSTEM: Final = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/root"),
    *("/run", "/sbin", "/sys", "/usr", "/var/cache", "/var/lib", "/var/log", "/var/run"),
    *("/var/spool", "/var/tmp", "/tmp"),
)
"""System folders: nothing below them is learned, nor a folder that contains one of them."""
_NAME: Final = re.compile(r"[a-z0-9]+(?:[._:/-]+[a-z0-9]+)*\Z")
_FOLDER: Final = re.compile(r"(?:/[A-Za-z0-9._@+ -]+){2,32}\Z")


@cache
def shipped_data() -> Any:
    """The settings of the shipped data file: one object for all callers, not to be changed."""
    return json.loads((PACK / "data.json").read_text(encoding="utf-8"))["docker"]


def why_closed(setting: Setting, value: str) -> str:
    """Return the reason, as text for people, why only a person may open a value of a setting,
    whatever the evidence; "" if it may be learned. ValueError for a port range that is not two
    numbers.
    """
    if setting in CLOSED:
        return f"the shipped data allow no {CLOSED[setting]}"
    if setting in LISTS:
        inside = value in shipped_data()[setting[0]][setting[1]]
        return "" if inside else f"the shipped data do not allow this {LISTS[setting]}"
    if setting == ("images", "allow"):
        return (
            ""
            if _NAME.match(value)
            else "the name of the image must be small letters and digits with separators between"
        )
    if setting == ("mounts", "allow"):
        return _why_not_mounted(value)
    if setting == ("networks", "subnets"):
        return _why_not_subnet(value)
    if setting == ("ports", "ranges"):
        first, last = ports_of(value)
        shipped = shipped_data()["ports"]
        inside = shipped["first"] <= first <= last <= shipped["last"]
        return "" if inside else "the shipped data do not allow these ports"
    if setting == ("builds", "unlimited") or setting[0] == "limits":
        return ""
    return "this setting is never learned: change it by hand"


def ports_of(value: str) -> tuple[int, int]:
    """Return the first and last port of `first-last`; ValueError if these are not two numbers."""
    first, _, last = value.partition("-")
    return int(first), int(last)


def _why_not_mounted(folder: str) -> str:
    """Return the reason why a folder is never learned; "" if it may be."""
    if not _FOLDER.match(folder) or ".." in folder.split("/") or "." in folder.split("/"):
        return "the folder is not a plain path of at least two names"
    inside = f"{folder}/"
    if any(inside.startswith(f"{each}/") or each.startswith(inside) for each in SYSTEM):
        return "the folder is a part of the system"
    return ""


def _why_not_subnet(value: str) -> str:
    """Return the reason why a subnet is never learned; "" if the shipped data allow it."""
    try:
        subnet: Any = ipaddress.ip_network(value)
        allowed: Iterable[Any] = [
            ipaddress.ip_network(each) for each in shipped_data()["networks"]["subnets"]
        ]
    except ValueError:
        return "it is not a subnet"
    if any(each.version == subnet.version and subnet.subnet_of(each) for each in allowed):
        return ""
    return "the shipped data do not allow this subnet"
