"""Values by the syntax of what parses them: Go's templates, mount(2), ps, references, addresses.

A grammar names what may stand where, and no attack. `words` are the names of this run: folders,
addresses, containers.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

__all__ = ["Grammars"]

_ESCAPES: Final = ("\\,", "\\:", "\\\\", "\\054", "\x00", "")
"""What the parsers of paths and of mount options read as one character, or as the end."""
_TEMPLATE_FUNCTIONS: Final = (
    "print",
    "printf",
    "println",
    "join",
    "split",
    "title",
    "lower",
    "env",
)
_TEMPLATE_FIELDS: Final = (".Service.Name", ".Node.Hostname", ".Task.Slot", ".Task.Name", ".")
_OPTION_KEYS: Final = (
    "size", "mode", "uid", "lowerdir", "upperdir", "workdir", "bind", "rbind", "ro", "rw",
    "remount", "addr", "nosuid", "mpol", "noexec",
)  # fmt: skip
_FILE_SYSTEMS: Final = ("tmpfs", "overlay", "none", "", "bind", "ext4", "nfs", "proc")
_PS_COLUMNS: Final = ("pid", "args", "cmd", "comm", "sz", "vsz", "user", "ppid")
_PS_FLAGS: Final = ("a", "x", "e", "-e", "-f", "u", "-A", "ww")


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
        kind = "allowed" if self.often(0.7) else "hidden"
        path = self.pick(*self.words[kind])
        if self.often(0.15):
            path = path.replace("/", "//", 1) if self.often(0.5) else f"{path}/."
        if self.often(0.1):
            path = f"{path}{self.pick(*_ESCAPES)}"
        return path

    def climb(self, path: str) -> str:
        """A path that goes up from `path` to the root and down again."""
        depth = len([part for part in path.split("/") if part])
        return f"{path}/" + "/".join([".."] * depth) + self.pick(*self.words["hidden"])

    # Go's templates

    def template(self) -> str:
        """An action, with a function, a text or a field."""
        kind = self.random.randrange(4)
        if kind == 0:
            return "{{" + self.pick(*_TEMPLATE_FIELDS) + "}}"
        if kind == 1:
            letter = self.pick(",", "=", "/", ":")
            return '{{printf "%c" ' + str(ord(letter)) + "}}"
        if kind == 2:
            return '{{print "' + self.pick(",", "bind", "/", *self.words["hidden"]) + '"}}'
        return "{{" + self.pick(*_TEMPLATE_FUNCTIONS) + ' "' + self.pick("a", ",", "%s") + '"}}'

    def template_of(self, character: str) -> str:
        """An action whose result is one character."""
        action = self.pick('print "%s"', 'printf "%%s" "%s"', 'printf "%%c" %d')
        value: str | int = ord(character) if "%d" in action else character
        return "{{" + action % value + "}}"

    def text(self, plain: str) -> str:
        """A text, in which a part may be a template."""
        if self.often(0.5):
            return plain
        return self.pick(plain + self.template(), self.template() + plain, self.template())

    # options of mount(2)

    def option(self, *, templates: bool) -> str:
        key = self.pick(*_OPTION_KEYS)
        if key in ("lowerdir", "upperdir", "workdir"):
            layers = [self.layer() for _ in range(self.random.choice((1, 2, 2, 3)))]
            return f"{key}={':'.join(layers)}"
        if key in ("bind", "rbind", "ro", "rw", "remount", "nosuid", "noexec"):
            return key
        value = self.pick("1m", "0700", "0", "127.0.0.1")
        return f"{key}={self.text(value) if templates else value}"

    def layer(self) -> str:
        path = self.pick(*self.words["allowed"])
        if self.often(0.4):
            path = path + self.pick(*_ESCAPES)
        return self.climb(path) if self.often(0.5) else path

    def options(self, *, templates: bool) -> dict[str, str]:
        """Options of a volume: the type, the device and what mount(2) parses."""
        separator = "," if not templates or self.often(0.5) else self.template_of(",")
        count = self.random.choice((1, 1, 2, 2, 3))
        text = separator.join(self.option(templates=templates) for _ in range(count))
        kind = self.pick(*_FILE_SYSTEMS, "tmpfs", "overlay")
        device = self.pick("tmpfs", "overlay", self.path(), self.path())
        return {"type": kind, "o": text, "device": device}

    # ps

    def ps(self) -> str:
        """Arguments of ps: flags, and columns with other names."""
        words = [
            "".join(
                self.random.sample(("a", "x", "e", "f", "w", "u"), self.random.choice((1, 2, 3)))
            )
        ]
        if self.often(0.3):
            words = [self.pick(*_PS_FLAGS)]
        if self.often(0.7):
            first = self.pick(*_PS_COLUMNS)
            column = f"{first}=PID" if self.often(0.6) else first
            rest = self.pick(*_PS_COLUMNS)
            words.insert(0, self.pick("-o", "-o ", "o ", "--format=") + f"{column},{rest}")
        return " ".join(words)

    # references and addresses

    def reference(self) -> str:
        """The name of an image, of a registry that nobody may use as well."""
        registry = self.pick("", "docker.io/", *(f"{each}/" for each in self.words["servers"]))
        name = self.pick("img", "library/x", "a/b")
        return registry + name + self.pick("", ":1", ":latest", "@sha256:" + "a" * 64)

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
