"""Values for fields: every way to write what the daemon accepts, the dangerous ones often.

A pool belongs to a kind of value (a path, a namespace, an option string), never to a route. Which
pool a field draws from is decided by its name and the values that its description lists; a field
that no pool is made for draws from all of them. Texts in braces are replaced when the request is
sent: `{host}` is the identifier of the host's network, `{host:5}` a prefix of it.

`used` counts each spelling that was written, under the names in `SPELLINGS`.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

from tests.docker.effects.schema import Field, Path_, log_options

__all__ = ["SPELLINGS", "Writer"]

SPELLINGS: Final = (
    "case of a key", "key twice", "null", "escaped key", "number below zero", "zero",
    "number above the range", "number with a fraction or exponent", "sign or zeros before a number",
    "prefix of an identifier", "relative path", "path with dots or double slashes",
    "path through a link", "option string in another order or case", "option with a colon",
    "value in query and form", "value in the form only", "value in the query twice",
    "content type of a form", "content type twice", "escape in the path", "other API version",
    "field at the top of the body", "string for a list",
)  # fmt: skip

HOST_PATHS: Final = (
    "/etc", "/etc/", "//etc", "/usr/../etc", "etc", ".", "..", "../../etc", "/proc", "/dev",
    "/dev/null", "/", "tmpfs", "none", "/nonexistent", "{allowed}", "{allowed}/folder",
    "{allowed}/../hidden", "{allowed}/link", "{allowed}/disk", "{allowed}/./folder/", "volume",
)  # fmt: skip
TARGETS: Final = ("/h", "/h", "/t/", "/a/../h", "h")
NAMESPACES: Final = (
    "host", "private", "container:{id}", "container:{id:12}", "container:plain", "none",
    "shareable", "", "default", "{network}", "{host}", "{host:5}", "bridge",
)  # fmt: skip
FLAGS: Final = (
    "bind", "rbind", "ro", "rw", "size=1m", "remount", "rshared", "rslave", "mode=0700", "nosuid",
    "lowerdir=/etc:/usr", "uid=0", "loop", "nfsvers=4", "addr=127.0.0.1",
)  # fmt: skip
MODES: Final = (
    "ro", "rw", "z", "Z", "rshared", "rslave", "private", "nocopy", "cached", "consistent",
)  # fmt: skip
OPTIONS: Final = (
    "seccomp=unconfined", "apparmor=unconfined", "label=disable", "label=user:x",
    "no-new-privileges", "no-new-privileges=false", "systempaths=unconfined",
)  # fmt: skip
CAPABILITIES: Final = (
    "SYS_ADMIN", "NET_ADMIN", "ALL", "CHOWN", "SYS_MODULE", "NET_RAW", "DAC_READ_SEARCH",
)  # fmt: skip
NUMBERS: Final = (0, -1, 1, 2, 100, 1000, 50_000, 100_000, 1 << 20, 32 << 20, 64 << 20, 1 << 40)
EXTREMES: Final = (2**63 - 1, -1000, 2**63, 1.5, 1e3, -(2**63))
IMAGES: Final = (
    "img:1", "{evil}/x", "{good}/x", "{evil}/img:1", "img", "{evil}/x:1@sha256:" + "a" * 64,
)  # fmt: skip
URLS: Final = (
    "http://{evil}/context", "http://{good}/context", "tcp://{evil}", "unix:///run/docker.sock",
    "udp://{evil}", "{evil}/x", "http://{good}@{evil}/context", "HTTP://{evil}/context",
)  # fmt: skip
SYSCTLS: Final = (
    "net.ipv4.ip_forward", "kernel.shmmax", "kernel.core_pattern", "net.ipv4.ping_group_range",
)  # fmt: skip
VERSIONS: Final = ("1.24", "1.23", "1.0000000023", "1.41.0", "01.41", "1.40")
RULES: Final = ("c 1:3 rwm", "a *:* rwm", "b *:* r", "c 1:11 r")
WORDS: Final = ("x", "1", "true", "/x", "127.0.0.1", "root", "0", "-1", "+1", "1m", "volume")


def _file_systems() -> tuple[str, ...]:
    """What this kernel can mount, and what mount(2) takes without one."""
    lines = Path("/proc/filesystems").read_text().splitlines()
    return (*sorted(line.split()[-1] for line in lines), "none", "bind", "")


_POOLS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), pool)
    for pattern, pool in (
        (r"cap(ability|abilities)?_?(add|drop)?$", CAPABILITIES),
        (r"security_?opt", OPTIONS),
        (r"^(networkmode|.*mode|cgroup)$", NAMESPACES),
        (r"^(target|dst|destination|pathincontainer|workingdir|dir)$", TARGETS),
        (r"volumesfrom|links", ("plain", "{id}", "{id:12}", "plain:ro")),
        (r"devicecgrouprules", RULES),
        (r"^(image|fromimage|repo|t)$", IMAGES),
        (r"^(remote|fromsrc)$", URLS),
        (r"path|source|device|parent|checkpoint", HOST_PATHS),
    )
)
_ALL: Final = (
    *HOST_PATHS, *NAMESPACES, *FLAGS, *OPTIONS, *CAPABILITIES, *RULES, *IMAGES, *URLS, *WORDS,
)  # fmt: skip


_MULTIPLIES: Final = re.compile(r"(?i)replicas|completions|concurrent|parallelism")
"""Numbers that say how many containers are started: the machine has others to serve."""


class Writer:
    """Writes values of fields, and counts the spellings that it uses."""

    def __init__(self, random_: random.Random) -> None:
        self.random = random_
        self.used: Counter[str] = Counter()
        self.file_systems = _file_systems()

    def often(self, chance: float) -> bool:
        return self.random.random() < chance

    # fields

    def assign(self, field: Field, path: Path_, body: dict[str, Any]) -> None:
        """Put a value for the field at `path`, below `field`, into `body`; keep what is there."""
        name, rest = path[0], path[1:]
        chosen = _named(field, name)
        if not rest:
            body[name] = self.value(chosen)
        elif chosen.kind == "object":
            if not isinstance(body.get(name), dict):
                body[name] = {}
            self.assign(chosen, rest, body[name])
        else:
            self._assign_item(chosen, rest, body)

    def _assign_item(self, chosen: Field, rest: Path_, body: dict[str, Any]) -> None:
        """An array's or map's item, whole, with the wanted field in it."""
        item = chosen.item
        assert item is not None
        inner: Any = {}
        if item.kind == "object":
            inner = self.value(item)
            self.assign(item, rest, inner)
        else:
            holder: dict[str, Any] = {}
            self._assign_item(item, rest, holder)
            inner = holder[item.name]
        is_map = chosen.kind == "map"
        body[chosen.name] = {self._key(chosen): inner} if is_map else [inner]

    def value(self, field: Field) -> Any:
        """A value of the field's type."""
        match field.kind:
            case "object":
                chosen = [each for each in field.fields if self.often(0.7)]
                return {each.name: self.value(each) for each in chosen}
            case "array":
                return self._array(field)
            case "map":
                return self._map(field)
            case "boolean":
                return self.often(0.7)
            case "integer" | "number":
                return self.number(field.name)
            case _:
                return self.string(field.name, field.values)

    def number(self, name: str = "") -> int | float:
        if _MULTIPLIES.search(name):
            return self.random.choice((0, 1, 2))
        if self.often(0.06):
            number = self.random.choice(EXTREMES)
            above = "number above the range"
            whole = isinstance(number, int)
            self.used[above if whole else "number with a fraction or exponent"] += 1
            return number
        chosen = self.random.choice((0, -1)) if self.often(0.25) else self.random.choice(NUMBERS)
        if chosen <= 0:
            self.used["number below zero" if chosen else "zero"] += 1
        return chosen

    def _array(self, field: Field) -> Any:
        item = field.item
        assert item is not None
        if field.name == "Binds":
            return [self._bind() for _ in range(self.random.choice((1, 1, 2)))]
        items = [self.value(item) for _ in range(self.random.choice((1, 1, 2)))]
        if item.kind == "string" and self.often(0.05):
            self.used["string for a list"] += 1
            return items[0]
        return items

    def _bind(self) -> str:
        parts = [self.string("Source", ()), self.random.choice(TARGETS)]
        if self.often(0.5):
            parts.append(",".join(self.random.sample(MODES, self.random.choice((1, 1, 2)))))
        return ":".join(parts)

    def _key(self, field: Field) -> str:
        if re.search(r"(?i)ports", field.name):
            return self.random.choice(("80/tcp", "80", "53/udp", "8000-8001/tcp"))
        if re.search(r"(?i)endpoints", field.name):
            return self.random.choice(("{network}", "none", self.network()))
        if re.search(r"(?i)sysctls", field.name):
            return self.random.choice(SYSCTLS)
        return self.random.choice((*TARGETS, "x"))

    def _map(self, field: Field) -> dict[str, Any]:
        if field.name in ("Options", "DriverOpts"):
            return self._log_options() if self.often(0.3) else self.volume_options()
        if field.name == "Config":
            return self._log_options()
        if field.name == "Tmpfs":
            return {self.random.choice(TARGETS): self.flags()}
        return {self._key(field): self.value(field.item or Field("", "string"))}

    def volume_options(self) -> dict[str, str]:
        """What mount(2) takes: a type, flags and a device. The description's example is a tmpfs."""
        options = {
            "type": "tmpfs" if self.often(0.3) else self.random.choice(self.file_systems),
            "o": self.flags(),
            "device": self.counted(self.random.choice(HOST_PATHS)),
        }
        return {key: value for key, value in options.items() if self.often(0.85)}

    def _log_options(self) -> dict[str, str]:
        names = [name for each in log_options().values() for name in each]
        chosen = self.random.sample(names, self.random.choice((1, 1, 2)))
        values = (*URLS, *URLS, "true", "1", "1m", "x")
        return {name: self.counted(self.random.choice(values)) for name in chosen}

    def flags(self) -> str:
        chosen = self.random.sample(FLAGS, self.random.choice((0, 1, 1, 2)))
        text = ",".join(chosen)
        if len(chosen) > 1 or self.often(0.1):
            self.used["option string in another order or case"] += 1
            separator = self.random.choice((",", ",", ",,", ", "))
            text = text.upper() if self.often(0.1) else text.replace(",", separator)
        return text

    def string(self, name: str, values: tuple[Any, ...]) -> str:
        if values and self.often(0.9):
            return str(self.random.choice(values))
        for pattern, pool in _POOLS:
            if pattern.search(name) and self.often(0.92):
                return self.counted(self._respelled_option(self.random.choice(pool), pool))
        return self.counted(self.random.choice(_ALL))

    def _respelled_option(self, text: str, pool: tuple[str, ...]) -> str:
        if pool is CAPABILITIES and self.often(0.4):
            self.used["option string in another order or case"] += 1
            others = (f"CAP_{text}", text.lower(), f"cap_{text.lower()}", text.title())
            return self.random.choice(others)
        if pool is OPTIONS and self.often(0.3):
            self.used["option with a colon"] += 1
            return text.replace("=", ":", 1)
        return text

    def network(self) -> str:
        """The host's network, by its name or its identifier."""
        return self.counted(self.random.choice(("host", "{host}", "{host:5}", "{host:20}")))

    def counted(self, text: str) -> str:
        """Count how it is spelled."""
        if re.search(r"\{\w+:\d+\}", text):
            self.used["prefix of an identifier"] += 1
        elif text.startswith(".") or text in ("etc", "h"):
            self.used["relative path"] += 1
        elif "//" in text.partition("://")[0] or "/." in text:
            self.used["path with dots or double slashes"] += 1
        elif "/link" in text:
            self.used["path through a link"] += 1
        return text

    # the text of a body

    def body_text(self, body: dict[str, Any]) -> str:
        """JSON that Go's decoder reads as `body`, or nearly."""
        text = json.dumps(self._keys(body))
        if self.often(0.04):
            names = re.findall(r'"[A-Z]\w+"(?=: )', text)
            if names:
                name = self.random.choice(names)
                self.used["escaped key"] += 1
                escaped = f'"\\u{ord(name[1]):04x}{name[2:]}'
                text = text.replace(name, escaped, 1)
        return text

    def _keys(self, value: Any) -> Any:
        if isinstance(value, dict):
            spelled: dict[str, Any] = {}
            for key, item in value.items():
                free = key in ("Labels", "Options", "DriverOpts", "Tmpfs", "Config", "Sysctls")
                written = item if free else self._keys(item)
                other = key
                if key.isalpha() and self.often(0.06):
                    self.used["case of a key"] += 1
                    other = key.swapcase()
                if self.often(0.02):
                    self.used["null"] += 1
                    written = None
                elif self.often(0.02):
                    # The same key twice, once in another case: Go takes the last, or merges.
                    self.used["key twice"] += 1
                    spelled[key.lower()] = written
                spelled[other] = written
            return spelled
        if isinstance(value, list):
            return [self._keys(item) for item in value]
        return value

    # query, form, target

    def query_value(self, name: str) -> str:
        """A value for a parameter, whose type is not always in the description."""
        if re.search(r"(?i)mem|cpu|size|quota|period|share", name) and self.often(0.9):
            number = str(self.number())
            if self.often(0.15):
                self.used["sign or zeros before a number"] += 1
                number = self.random.choice(("+", "00", "-0")) + number.lstrip("-")
            return number
        if name in ("buildargs", "labels", "cachefrom", "ulimits", "outputs"):
            return self.random.choice(("", "{}", "[]", '["{evil}/x"]', '[{"Type":"local"}]'))
        return self.string(name, ("", "1", "2") if self.often(0.2) else ())

    def target(self, path: str, version: str = "1.41") -> str:
        """The path under a version, with an escape now and then."""
        if self.often(0.06):
            self.used["other API version"] += 1
            version = self.random.choice(VERSIONS)
        if self.often(0.05):
            self.used["escape in the path"] += 1
            at = self.random.randrange(1, len(path))
            if path[at].isalpha() and "{" not in path:
                path = f"{path[:at]}%{ord(path[at]):02x}{path[at + 1 :]}"
        return f"/v{version}{path}"


def _named(parent: Field, name: str) -> Field:
    for each in parent.fields:
        if each.name == name:
            return each
    raise LookupError(name)
