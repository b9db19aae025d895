"""Values by the syntax of what parses them: Go's templates, mount(2), ps, references, addresses.

A grammar names what may stand where, and no attack. `words` are the names of this run: folders,
addresses, containers.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

__all__ = ["Grammars"]

_SPECIAL: Final = ",:\\= \t\n"
"""What some parser of mount options or of mount tables separates by."""
_TEMPLATE_FUNCTIONS: Final = ("print", "printf", "println", "html", "js", "urlquery", "len", "not")
"""Of Go's text/template."""
_MORE_FUNCTIONS: Final = ("join", "split", "title", "lower", "upper", "json")
"""Of Docker's and swarmkit's templates."""
_TEMPLATE_FIELDS: Final = (".Service.Name", ".Node.Hostname", ".Task.Slot", ".Task.Name", ".")
_FLAGS: Final = (
    "bind", "rbind", "move", "remount", "ro", "rw", "nosuid", "suid", "nodev", "dev", "noexec",
    "exec", "noatime", "relatime", "shared", "private", "slave", "sync", "dirsync",
)  # fmt: skip
"""Of mount(2), by the names that the daemon's library for mounts knows."""
_VALUES: Final = {
    "tmpfs": ("size", "mode", "uid", "gid", "nr_inodes", "nr_blocks", "mpol"),
    "overlay": ("index", "redirect_dir", "metacopy", "xino"),
    "nfs": ("addr", "nfsvers", "timeo", "port"),
    "ext4": ("data", "commit", "stripe"),
    "proc": ("hidepid", "gid"),
}
"""Options with a value, by the file system that reads them."""
_FILE_SYSTEMS: Final = ("tmpfs", "overlay", "none", "", "bind", "ext4", "nfs", "proc")
_COLUMNS: Final = (
    "pid", "ppid", "pgid", "sess", "tpgid", "sz", "vsz", "rss", "drs", "trs", "uid", "nlwp", "ni",
    "user", "comm", "args", "cmd", "command", "time", "stat",
)  # fmt: skip
_CLUSTER: Final = "axefwurHTcm"
"""One-letter options of ps in the syntax of BSD, which may stand together."""


class Grammars:
    """Writes values, at random."""

    def __init__(self, random_: random.Random, words: dict[str, Sequence[str]]) -> None:
        self.random = random_
        self.words = words

    def often(self, chance: float) -> bool:
        return self.random.random() < chance

    def pick(self, *values: str) -> str:
        return self.random.choice(values)

    # paths

    def path(self) -> str:
        """A path of the host: what users may mount, or something beside it, spelled in some way."""
        kind = "allowed" if self.often(0.6) else "hidden"
        path = self.pick(*self.words[kind])
        if self.often(0.15):
            path = path.replace("/", "//", 1) if self.often(0.5) else f"{path}/."
        if self.often(0.1):
            path = self.climb(path)
        if self.often(0.1):
            path = f"{path}{self.pick(*_SPECIAL, chr(0))}"
        return path

    def climb(self, path: str) -> str:
        """A path that goes up from `path` to the root and down again."""
        depth = len([part for part in path.split("/") if part])
        return f"{path}/" + "/".join([".."] * depth) + self.pick(*self.words["hidden"])

    # Go's templates

    def constant(self, text: str) -> str:
        """A constant of Go that is `text`: quoted, with escapes, or raw."""
        kind = self.random.randrange(4)
        if kind == 0:
            return '"' + "".join(f"\\x{ord(c):02x}" for c in text) + '"'
        if kind == 1:
            return '"' + "".join(f"\\u{ord(c):04x}" for c in text) + '"'
        return f"`{text}`" if kind == 2 and "`" not in text else f'"{text}"'

    def template_of(self, text: str) -> str:
        """An action whose result is `text`."""
        kind = self.random.randrange(5)
        if kind == 0:
            return "{{" + self.constant(text) + "}}"
        if kind == 1:
            return "{{print " + self.constant(text) + "}}"
        if kind == 2:
            return "{{printf " + self.constant("%s") + " " + self.constant(text) + "}}"
        if kind == 3:
            words = " ".join(str(ord(c)) for c in text)
            return "{{printf " + self.constant("%c" * len(text)) + f" {words}" + "}}"
        return "{{with " + self.constant(text) + "}}{{.}}{{end}}"

    def template(self) -> str:
        """Some action: a text, a field, a function, or a comment."""
        kind = self.random.randrange(4)
        if kind == 0:
            return "{{" + self.pick(*_TEMPLATE_FIELDS) + "}}"
        if kind == 1:
            return "{{/* */}}"
        if kind == 2:
            return self.template_of(self.pick(*_SPECIAL, *_FLAGS, *self.words["hidden"]))
        function = self.pick(*_TEMPLATE_FUNCTIONS, *_MORE_FUNCTIONS)
        return "{{" + function + " " + self.constant(self.pick("a", "%s", "%d")) + "}}"

    def text(self, plain: str) -> str:
        """A text, in which a part may be a template."""
        if self.often(0.5):
            return plain
        if self.often(0.3):
            return self.template_of(plain)
        return self.pick(plain + self.template(), self.template() + plain, self.template())

    # options of mount(2)

    def value(self, kind: str) -> str:
        """An option with a value, of this file system or of another."""
        names = _VALUES.get(kind) if self.often(0.8) else self.random.choice([*_VALUES.values()])
        if names is None:
            return self.flag()
        return f"{self.pick(*names)}={self.pick('1', '1m', '0700', '0', '127.0.0.1', 'on', 'off')}"

    def flag(self) -> str:
        return self.pick(*_FLAGS)

    def layer(self) -> str:
        """A folder of an overlay, perhaps with its special characters escaped for the kernel."""
        path = self.pick(*self.words["allowed"])
        if self.often(0.5):
            path = path.replace(",", "\\,").replace(":", "\\:")
        return self.climb(path) if self.often(0.4) else path

    def layers(self) -> list[str]:
        """The options that name folders: those that are read, and perhaps one that is written."""
        count = self.random.choice((1, 2, 2, 3))
        options = ["lowerdir=" + ":".join(self.layer() for _ in range(count))]
        if self.often(0.2):
            options += [f"{name}={self.layer()}" for name in ("upperdir", "workdir")]
        return options

    def option(self, kind: str = "tmpfs") -> str:
        return self.flag() if self.often(0.5) else self.value(kind)

    def options(self, *, templates: bool) -> dict[str, str]:
        """Options of a volume: the type, the device and what mount(2) parses."""
        kind = self.pick(*_FILE_SYSTEMS, "tmpfs", "overlay")
        options = self.layers() if kind == "overlay" and self.often(0.8) else []
        for _ in range(self.random.choice((0, 1, 2)) if options else self.random.choice((1, 2, 2))):
            options.append(self.option(kind))
        text = options[0]
        for each in options[1:]:
            separator = self.template_of(",") if templates and self.often(0.5) else ","
            text += separator + (self.text(each) if templates and self.often(0.2) else each)
        device = self.pick("tmpfs", "overlay", self.path(), self.path(), self.path())
        return {"type": kind, "o": text, "device": device}

    def shape(self, options: dict[str, str]) -> tuple[object, ...]:
        """What a set of options has in common with others that say the same in other words."""
        text = options["o"]
        parts = {each.partition("=")[0] for each in text.split(",")}
        return (
            options["type"],
            "/" in options["device"] and any(h in options["device"] for h in self.words["hidden"]),
            "{{" in text,
            "\\" in text,
            ".." in text,
            ":" in text,
            frozenset(each if each in ("bind", "rbind", "remount", "move") else "=" in each
                      for each in parts),
            any(flag in text for flag in ("bind", "move")),
        )  # fmt: skip

    # ps

    def ps(self) -> str:
        """Arguments of ps: clusters of letters, selections, orders, and columns with titles."""
        terms = []
        if self.often(0.9):
            letters = [letter for letter in _CLUSTER[:6] if self.often(0.5)]
            letters += [letter for letter in _CLUSTER[6:] if self.often(0.05)]
            self.random.shuffle(letters)
            terms.append("".join(letters) or self.pick("-e", "-A"))
        if self.often(0.2):
            terms.append(self.pick("-e", "-A", "-f", "--sort=pid", "-C sh", "-w", "--forest"))
        if self.often(0.7):
            first, last = self.pick(*_COLUMNS), self.pick(*_COLUMNS)
            title = "=PID" if self.often(0.6) else ""
            terms.append(self.pick("-o", "-o ", "o ", "--format=") + f"{first}{title},{last}")
        self.random.shuffle(terms)
        return " ".join(terms)

    # references and addresses

    def reference(self) -> str:
        """The name of an image, of a registry that nobody may use as well."""
        registry = self.pick("", "docker.io/", *(f"{each}/" for each in self.words["servers"]))
        name = self.pick("img", "library/x", "a/b")
        return registry + name + self.pick("", ":1", ":latest", "@sha256:" + "a" * 64)

    def mode(self, networks: Sequence[str], containers: Sequence[str]) -> str:
        """The network of a container: mostly one that there is, or that of something else."""
        if self.often(0.5):
            return self.pick("none", *networks, *networks)
        name = self.pick("host", "bridge", "default", "t-network", "Host", "user")
        if self.often(0.4):
            name = f"container:{self.pick('plain', 't-container', *containers)}"
        return f"{name}{self.pick(*' /:')}" if self.often(0.1) else name

    def driver_options(self) -> dict[str, str]:
        """Options of a network's driver, among them the names of interfaces of the host."""
        name = self.pick(
            "com.docker.network.bridge.name",
            "parent",
            "com.docker.network.bridge.host_binding_ipv4",
            "com.docker.network.bridge.gateway_mode_ipv4",
            "com.docker.network.driver.mtu",
            "com.docker.network.container_iface_prefix",
        )
        value = self.pick("lo", *self.words["interfaces"], "0.0.0.0", "routed", "1500", "eth")
        return {name: value}

    def subnet(self) -> str:
        """A range of addresses, of the host's own networks as well."""
        base = self.pick(*self.words["subnets"])
        address, _, bits = base.partition("/")
        first = address.split(".")
        if self.often(0.3):
            first[2] = str(self.random.randrange(256))
        if self.often(0.2):
            bits = str(self.random.choice((16, 24, 25, 28)))
        return ".".join(first) + f"/{bits}"
