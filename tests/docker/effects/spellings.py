"""Values for fields: every way to write what the daemon accepts, the dangerous ones often.

A pool belongs to a kind of value (a path, a namespace, an option string), never to a route. Which
pool a field draws from is decided by its name and the values that its description lists; a field
that no pool is made for draws from all of them.
"""

from __future__ import annotations

import random
import re
from typing import Any, Final

from tests.docker.effects.schema import Field

__all__ = ["assign", "generate", "respelled"]

PATHS: Final = (
    "/etc", "/etc/", "//etc", "/usr/../etc", "etc", ".", "..", "../../etc", "/proc", "/dev/null",
    "/dev/zero", "/", "tmpfs", "none", "/nonexistent", "volume",
)  # fmt: skip
NAMESPACES: Final = ("host", "private", "container:{id}", "none", "shareable", "", "default")
FLAGS: Final = (
    "bind", "rbind", "bind,ro", "size=1m", "size=1,bind", "size=1m,rbind", "ro", "rw,rbind",
    "remount", "rshared", "lowerdir=/etc:/usr", "mode=0700",
)  # fmt: skip
TYPES: Final = ("tmpfs", "none", "bind", "ext4", "proc", "sysfs", "overlay", "nfs", "")
OPTIONS: Final = (
    "seccomp=unconfined", "seccomp:unconfined", "apparmor=unconfined", "label=disable",
    "label:disable", "no-new-privileges", "no-new-privileges:false", "systempaths=unconfined",
)  # fmt: skip
CAPABILITIES: Final = ("SYS_ADMIN", "cap_sys_admin", "CAP_NET_ADMIN", "ALL", "all", "CHOWN")
BINDS: Final = (
    "/etc:/h", "/etc:/h:ro", "/usr/../etc:/h", "//etc//:/h:rshared", "volume:/h", "/h",
    "/proc:/h:rslave",
)  # fmt: skip
NUMBERS: Final = (0, -1, 1, 100, 50_000, 100_000, 1 << 20, 64 << 20, 1 << 40, 2**63 - 1, -1000)
WORDS: Final = ("x", "1", "c 1:3 rwm", "a *:* rwm", "/x", "127.0.0.1", "json-file", "syslog")
STRINGS: Final = (
    *PATHS, *NAMESPACES, *FLAGS, *TYPES, *OPTIONS, *CAPABILITIES, *BINDS, *WORDS
)  # fmt: skip
_POOLS: Final = (
    (r"(?i)binds", BINDS),
    (r"(?i)cap(ability)?_?(add|drop)", CAPABILITIES),
    (r"(?i)security_?opt", OPTIONS),
    (r"(?i)mode$|^cgroup$", NAMESPACES),
    (r"(?i)path|source|target|device|folder|dir$|parent", PATHS),
)


def _string(random_: random.Random, field: Field) -> str:
    if field.values and random_.random() < 0.9:
        return str(random_.choice(field.values))
    for pattern, pool in _POOLS:
        if re.search(pattern, field.name) and random_.random() < 0.9:
            return random_.choice(pool)
    return random_.choice(STRINGS)


def _map(random_: random.Random, field: Field) -> dict[str, Any]:
    if field.name == "Options" or field.name.endswith("Opts"):
        # The options of a driver: each pool under the key that reads it, and others.
        options = {
            "type": random_.choice(TYPES),
            "o": random_.choice(FLAGS),
            "device": random_.choice(PATHS),
        }
        return {key: value for key, value in options.items() if random_.random() < 0.85}
    if field.name == "Tmpfs":
        return {"/t": random_.choice(FLAGS)}
    item = field.item or Field(field.name, "string")
    return {random_.choice(("/h", "x", "80/tcp", "net.ipv4.ip_forward")): generate(random_, item)}


def generate(random_: random.Random, field: Field) -> Any:
    """A value of the field's type."""
    match field.kind:
        case "object":
            chosen = [each for each in field.fields if random_.random() < 0.6]
            return {each.name: generate(random_, each) for each in chosen}
        case "array":
            assert field.item is not None
            return [generate(random_, field.item) for _ in range(random_.choice((1, 1, 2)))]
        case "map":
            return _map(random_, field)
        case "boolean":
            return random_.random() < 0.7
        case "integer" | "number":
            return random_.choice(NUMBERS)
        case _:
            return _string(random_, field)


def assign(random_: random.Random, field: Field, body: dict[str, Any], name: str) -> None:
    """Put a value for the field `name` of the object `field` into `body`."""
    [chosen] = [each for each in field.fields if each.name == name]
    if chosen.kind == "object" and isinstance(body.get(name), dict):
        inner = random_.choice(chosen.fields)
        assign(random_, chosen, body[name], inner.name)
    else:
        body[name] = generate(random_, chosen)


def respelled(random_: random.Random, value: Any) -> Any:
    """The same to Go's decoder: other cases of keys."""
    if isinstance(value, dict):
        spelled: dict[str, Any] = {}
        for key, item in value.items():
            other = key.swapcase() if key.isalpha() and random_.random() < 0.1 else key
            is_map = key in ("Labels", "Options", "Tmpfs")
            spelled[other] = item if is_map else respelled(random_, item)
        return spelled
    if isinstance(value, list):
        return [respelled(random_, item) for item in value]
    return value
