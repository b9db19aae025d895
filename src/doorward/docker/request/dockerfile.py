"""The images, URLs and entitlements of a build, read from its Dockerfile.

    text -> directives -> lines joined -> instructions -> images, URLs, entitlements

Two builders in many versions read Dockerfiles. Only what all of them read alike is read here:
everything else is a `DockerfileError`, and such a file is judged by nobody. So here-documents
(which only newer builders know), variables in sources and in `--from`, quotes and escapes in
the name of an image, directives in other comments and unknown flags are errors.

What `RUN` does is not read: it runs in a container of the build.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, NoReturn

from doorward.base.digits import parse_digits

__all__ = ["MOST_DOCKERFILE", "Dockerfile", "DockerfileError", "read_dockerfile"]

MOST_DOCKERFILE: Final = 256 * 1024
"""Bytes of a file that is read."""
_LONGEST_LINE: Final = 60_000
"""Bytes of a line: the builders refuse one of 65,536."""
_LONGEST_SHOWN: Final = 40
"""Characters of a name in an error."""


class DockerfileError(Exception):
    """A file that builders could read differently, or would not read."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}" if line else message)


class Dockerfile(NamedTuple):
    """The facts of a Dockerfile that policies see, each list sorted and without repetitions."""

    images: list[str]
    """References of all images from which something is taken; no stages of the file itself."""
    remotes: list[str]
    """URLs that the daemon fetches."""
    entitlements: list[str]
    """Privileges that its `RUN` instructions need, by BuildKit's names."""
    instructions: list[str]
    """The names of its instructions, in capitals."""
    frontend: str
    """The image of the `syntax` directive; "" for none."""


def read_dockerfile(content: bytes, arguments: Mapping[str, str | None]) -> Dockerfile:
    """Return the facts of a Dockerfile that is built with these build arguments. Raise
    DockerfileError for one that builders could read differently, or would not read.
    """
    return _Reader(arguments).read(_to_text(content))


def _to_text(content: bytes) -> str:
    """Return a Dockerfile as text with its CRLF replaced by LF.

    Raise DockerfileError if it is too large, not UTF-8, has a line that is too long, or has control
    characters or spaces that builders read differently.
    """
    if len(content) > MOST_DOCKERFILE:
        raise DockerfileError(0, f"Dockerfile is larger than {MOST_DOCKERFILE} bytes")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise DockerfileError(0, "Dockerfile is not UTF-8") from None
    text = text.replace("\r\n", "\n")
    # Builders differ in which spaces they trim and where they see the end of a line.
    for number, line in enumerate(text.split("\n"), 1):
        is_plain = line.isascii() and line.isprintable()
        if not is_plain and any(_is_odd(c) for c in line):
            raise DockerfileError(
                number,
                "line of the Dockerfile has a control character or a space that is "
                "not ASCII: replace it",
            )
        if len(line) > _LONGEST_LINE:
            raise DockerfileError(
                number, f"line of the Dockerfile is longer than {_LONGEST_LINE} characters"
            )
    return text


def _is_odd(char: str) -> bool:
    return char not in " \t" and (char.isspace() or char < " " or char in "\x7f\ufeff")


class _Line(NamedTuple):
    """An instruction of a Dockerfile, with its continued lines joined."""

    number: int
    """The number of the instruction's first line, from 1."""
    text: str


_DIRECTIVE: Final = re.compile(r"#[ \t]*([a-zA-Z][a-zA-Z0-9]*)[ \t]*=(.*)")
_LIKE_DIRECTIVE: Final = re.compile(r"[ \t]*#[ \t]*(?:escape|syntax|check)[ \t]*=", re.IGNORECASE)
_DIRECTIVES: Final = frozenset({"check", "escape", "syntax"})
_REFERENCE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*")


class _Directives(NamedTuple):
    """The parser directives of a Dockerfile: its frontend image ("" for none) and its escape
    character.
    """

    frontend: str
    escape: str
    lines: int
    """The number of lines with directives."""


def _read_directives(lines: list[str]) -> _Directives:
    """Return the parser directives (`# syntax=`, `# escape=`, `# check=`) in the first lines of a
    Dockerfile; reading ends at the first other line.

    Raise DockerfileError for a directive that is repeated, indented, empty or after `check`, at
    which old builders stop, for a value that is not valid, and for a first line that begins with
    `#!`.
    """
    seen: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        match = _DIRECTIVE.fullmatch(line)
        value = match[2].strip(" \t") if match else ""
        name = match[1].lower() if match and value else ""
        if name not in _DIRECTIVES:
            if number == 1 and line.startswith("#!"):
                raise DockerfileError(1, "first line of the Dockerfile begins with `#!`: remove it")
            if _LIKE_DIRECTIVE.match(line):
                problem = (
                    "has no value" if line[0] == "#" else "is not at the beginning of its line"
                )
                raise DockerfileError(number, f"parser directive of the Dockerfile {problem}")
            break
        if name in seen or "check" in seen:
            raise DockerfileError(
                number,
                f"parser directive {name} of the Dockerfile is repeated, or follows "
                "directive check",
            )
        seen[name] = value
    escape = seen.get("escape", "\\")
    if escape not in ("\\", "`"):
        raise DockerfileError(0, "parser directive escape of the Dockerfile must be \\ or `")
    frontend = seen.get("syntax", "")
    if frontend and not _REFERENCE.fullmatch(frontend):
        raise DockerfileError(0, "parser directive syntax of the Dockerfile must name an image")
    return _Directives(frontend, escape, len(seen))


def _join_lines(lines: list[str], escape: str, skip: int) -> Iterator[_Line]:
    """Yield each instruction with its continuation lines joined, and the number of its first line.

    Skips the first `skip` lines, empty lines and comments.
    """
    at = skip
    while at < len(lines):
        number, line = at + 1, lines[at].lstrip(" \t")
        at += 1
        if not line or line.startswith("#"):
            continue
        text, goes_on = _without_escape(line, escape)
        while goes_on and at < len(lines):
            line = lines[at]
            at += 1
            stripped = line.lstrip(" \t")
            # All builders drop comments and empty lines within a continued instruction.
            if not stripped or stripped.startswith("#"):
                continue
            piece, goes_on = _without_escape(line, escape)
            text += piece
        yield _Line(number, text)


def _without_escape(line: str, escape: str) -> tuple[str, bool]:
    """Return a line without the escape character that ends it, and without blanks after that, and
    True: the next line continues it. If no escape ends it, or two, return it unchanged, and False.
    """
    stripped = line.rstrip(" \t")
    if not stripped.endswith(escape) or stripped.endswith(escape * 2):
        return line, False
    return stripped[:-1], True


_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_WORD: Final = re.compile(_NAME)
_PLAIN: Final = r"([A-Za-z0-9._/:@+-]*)"
_ARGUMENT: Final = re.compile(rf"({_NAME})(?:=(?:{_PLAIN}|\"{_PLAIN}\"|'{_PLAIN}'))?")
_VARIABLE: Final = re.compile(rf"\$(?:{{({_NAME})}}|({_NAME}))")
_STAGE: Final = re.compile(r"[a-z][a-z0-9_.-]*")
_FLAG: Final = re.compile(r"--([a-z][a-z-]*)(?:=([^\"'\\`\s]*))?")
_PLATFORM: Final = re.compile(r"--platform=[A-Za-z0-9/_.${}-]+")
_LOCAL: Final = re.compile(r"[^\s\"'\\`$:@<>|]+")
"""A source in the context: nothing that a builder takes for an address or expands."""
_URL: Final = re.compile(r"https?://[A-Za-z0-9._~:/?#@!&()*+,;=%-]+")
_ON_GITHUB: Final = "github.com/"
"""Without a scheme, old BuildKit takes it for a repository."""
_COPY_FLAGS: Final = frozenset({"chmod", "chown", "exclude", "from", "link", "parents"})
_ADD_FLAGS: Final = frozenset(
    {"checksum", "chmod", "chown", "exclude", "keep-git-dir", "link", "unpack"}
)
_EXPANDED: Final = frozenset({"chmod", "chown", "mount"})
"""Flags in whose values variables are harmless; those of a mount are looked at by themselves."""
_RUN_FLAGS: Final = frozenset({"device", "mount", "network", "security"})
_MOUNTS: Final = frozenset({"bind", "cache", "secret", "ssh", "tmpfs"})
_INERT: Final = frozenset(
    {
        "CMD", "ENTRYPOINT", "ENV", "EXPOSE", "HEALTHCHECK", "LABEL", "MAINTAINER", "SHELL",
        "STOPSIGNAL", "USER", "VOLUME", "WORKDIR",
    }
)  # fmt: skip
"""Instructions that fetch nothing."""
_WITH_DOCUMENTS: Final = frozenset({"ADD", "COPY", "ONBUILD", "RUN"})
_ENTITLED: Final = {
    ("network", "host"): "network.host",
    ("security", "insecure"): "security.insecure",
}
_USUAL: Final = frozenset({("network", "default"), ("network", "none"), ("security", "sandbox")})


class _Reader:
    """Reads the instructions of one file, one after the other."""

    def __init__(self, arguments: Mapping[str, str | None]) -> None:
        self._given = arguments
        self._arguments: dict[str, str | None] = {}
        """The values of `ARG` before the first stage; None for those that nobody knows here."""
        self._stages: list[str] = []
        self._images: set[str] = set()
        self._remotes: set[str] = set()
        self._entitlements: set[str] = set()
        self._instructions: set[str] = set()
        self._line = 0

    def read(self, text: str) -> Dockerfile:
        """Return the images, URLs, entitlements, instructions and frontend of a Dockerfile. A
        reader reads one file only.

        Raise DockerfileError for anything that cannot be judged: unknown instructions, constructs
        that builders read differently, build arguments `BUILDKIT_…`, and a file without a stage.
        """
        lines = text.split("\n")
        directives = _read_directives(lines)
        for name in self._given:
            if name.startswith("BUILDKIT_"):
                raise DockerfileError(
                    0,
                    f"build argument {name} changes how the Dockerfile is read, which is not "
                    "supported",
                )
        for line in _join_lines(lines, directives.escape, directives.lines):
            self._line = line.number
            self._read_instruction(line.text)
        if not self._stages:
            self._refuse("file has no stage: begin one with FROM")
        return Dockerfile(
            sorted(self._images),
            sorted(self._remotes),
            sorted(self._entitlements),
            sorted(self._instructions),
            directives.frontend,
        )

    def _refuse(self, message: str) -> NoReturn:
        raise DockerfileError(self._line, message)

    def _read_instruction(self, text: str, *, later: bool = False) -> None:
        """Read one instruction, with its continuation lines joined, and add what it names to this
        reader: instruction, stage, images, URLs and entitlements. `later` is True for the
        instruction after ONBUILD, which builds from this image run.

        Raise DockerfileError for one that is unknown or cannot be judged, has a here-document, or
        comes before the first FROM without being ARG.
        """
        name, _, rest = text.strip(" \t").replace("\t", " ").partition(" ")
        name, rest = name.upper(), rest.lstrip(" ")
        self._instructions.add(name)
        if name in _WITH_DOCUMENTS and "<<" in text:
            self._refuse(
                "here-documents are not read alike by all builders: write the commands in one "
                "line, or copy a file"
            )
        if not self._stages and name not in ("ARG", "FROM"):
            self._refuse(
                f"instruction {name[:_LONGEST_SHOWN]} comes before the first FROM, where only ARG "
                "may stand"
            )
        if name == "FROM" and not later:
            self._read_stage(rest)
        elif name == "ARG":
            self._read_arguments(rest)
        elif name in ("ADD", "COPY", "RUN"):
            self._read_step(name, rest, later=later)
        elif name == "ONBUILD" and not later:
            self._read_instruction(rest, later=True)
        elif name in ("FROM", "ONBUILD"):
            self._refuse(f"instruction {name} may not stand after ONBUILD")
        elif name not in _INERT:
            after = " after ONBUILD" if later else ""
            self._refuse(f"instruction {name[:_LONGEST_SHOWN]} is unknown{after}")

    # Stages

    def _read_arguments(self, text: str) -> None:
        """Store the arguments of an ARG before the first FROM, which FROM may use; ignore later
        ones.

        A build argument of the request overrides the default. The value is None, unknown, if a name
        is repeated. A line that cannot be read with certainty makes all arguments so far unknown,
        and every word of it.
        """
        if self._stages:
            return  # of a stage: nothing that is read here depends on it
        for word in text.split():
            match = _ARGUMENT.fullmatch(word)
            if match is None:
                # The name of a variable may stand in what is not read.
                self._arguments = dict.fromkeys([*self._arguments, *_WORD.findall(text)])
                return
            name, value = match[1], match[2] or match[3] or match[4]
            if name in self._arguments:
                value = None
            elif name in self._given:
                value = self._given[name]
            self._arguments[name] = value

    def _read_stage(self, text: str) -> None:
        """Read the words after FROM, and begin a stage; its image is added unless it is `scratch`
        or an earlier stage. A `--platform` is ignored. Raise DockerfileError for another form, a
        variable without a known value, and a number or name that builders read differently.
        """
        words = text.split()
        while words and _PLATFORM.fullmatch(words[0]):
            words = words[1:]
        if len(words) not in (1, 3) or (len(words) == 3 and words[1].lower() != "as"):
            self._refuse("FROM is not of the form IMAGE [AS NAME]")
        reference = self._expand(words[0])
        if parse_digits(reference) is not None:
            self._refuse("FROM names a number: name an image or a stage")
        if reference.lower() in self._stages:
            if reference not in self._stages:
                self._refuse(
                    "FROM writes the name of an earlier stage in capitals: write it as behind AS"
                )
        elif reference != "scratch":
            self._images.add(reference)
        name = words[2] if len(words) == 3 else ""
        if name and (not _STAGE.fullmatch(name) or name in self._stages or name == "scratch"):
            self._refuse(
                f"name {name[:_LONGEST_SHOWN]} of a stage is repeated, reserved or not in small "
                "letters: choose another"
            )
        self._stages.append(name)

    def _expand(self, word: str) -> str:
        """Return the reference of an image with its variables replaced by the arguments before the
        first FROM (with the request's build arguments). DockerfileError if one of them is not
        known, and if the result is not a plain reference.
        """

        def value(match: re.Match[str]) -> str:
            """Return the value of one variable; DockerfileError if it is not known."""
            known = self._arguments.get(match[1] or match[2])
            if known is None:
                self._refuse(
                    f"value of {match[0]} is not known: give it by ARG before the first FROM"
                )
            return known

        reference = _VARIABLE.sub(value, word)
        if not _REFERENCE.fullmatch(reference):
            self._refuse("image is not a plain reference, such as alpine:3.20")
        return reference

    # Steps

    def _read_step(self, name: str, text: str, *, later: bool) -> None:
        """Read the flags of ADD, COPY or RUN, and the sources of ADD. `later`: it stands after
        ONBUILD. Raise DockerfileError for an unknown flag or value, for a variable in a flag that
        is not in `_EXPANDED`, and for a source that is neither a plain path nor a URL.
        """
        flags, rest = self._split_flags(text)
        known = {"ADD": _ADD_FLAGS, "COPY": _COPY_FLAGS, "RUN": _RUN_FLAGS}[name]
        for flag, value in flags:
            if flag not in known:
                listed = ", ".join(sorted(known))
                self._refuse(f"flag --{flag} of {name} is unknown: use one of {listed}")
            if "$" in value and flag not in _EXPANDED:
                self._refuse(f"--{flag} has a variable: write its value")
            if flag == "from":
                self._take_from(value, later=later)
            elif flag == "mount":
                self._read_mount(value, later=later)
            elif flag == "device":
                self._entitlements.add("device")
            elif name == "RUN" and (flag, value) not in _USUAL:
                entitlement = _ENTITLED.get((flag, value))
                if entitlement is None:
                    values = sorted(each for of, each in (*_USUAL, *_ENTITLED) if of == flag)
                    self._refuse(f"value of --{flag} is unknown: use one of {', '.join(values)}")
                self._entitlements.add(entitlement)
        if name == "ADD":
            self._read_sources(rest)

    def _split_flags(self, text: str) -> tuple[list[tuple[str, str]], str]:
        """Return the `--NAME=VALUE` flags at the start of an instruction, and the rest of it.

        A flag without a value has `""`. Raise DockerfileError for flags of another form or with
        quotes.
        """
        flags = []
        while text.startswith("--"):
            word, _, rest = text.replace("\t", " ").partition(" ")
            match = _FLAG.fullmatch(word)
            if match is None:
                name = word.partition("=")[0][:_LONGEST_SHOWN]
                self._refuse(f"flag {name} is not of the form --NAME=VALUE, or has quotes")
            flags.append((match[1], match[2] or ""))
            text = rest.lstrip(" ")
        return flags, text

    def _take_from(self, reference: str, *, later: bool) -> None:
        """Add the image of a `--from` to the images; a stage of the file adds nothing.
        DockerfileError for a stage that does not come before, for any stage after ONBUILD
        (`later`), and for other texts.
        """
        if (number := parse_digits(reference)) is not None:
            if later or number >= len(self._stages) - 1:
                self._refuse(f"--from={number} does not name an earlier stage: stages count from 0")
        elif not _REFERENCE.fullmatch(reference):
            self._refuse("--from names neither a stage nor an image")
        elif later or reference not in self._stages[:-1]:
            if reference.lower() in self._stages:
                self._refuse("--from does not name an earlier stage in small letters")
            self._images.add(reference)

    def _read_mount(self, value: str, *, later: bool) -> None:
        """Read a RUN --mount, and add the image that it mounts to the images. Raise DockerfileError
        for an unknown type, and for a `from` that is neither an image nor an earlier stage; after
        ONBUILD (`later`) for any stage.
        """
        for pair in value.split(","):
            key, _, content = pair.partition("=")
            if key.lower() == "from":
                self._take_from(content, later=later)
            elif key.lower() == "type" and content not in _MOUNTS:
                self._refuse(
                    f"type {content[:_LONGEST_SHOWN]} of --mount is unknown: use one of "
                    f"{', '.join(sorted(_MOUNTS))}"
                )

    def _read_sources(self, text: str) -> None:
        """Add the URLs among the sources of ADD, words or a JSON array whose last one is the
        destination, to the remotes. Raise DockerfileError for invalid JSON, and for Git addresses
        and others that are neither a plain path nor a URL.
        """
        if text.startswith("["):
            try:
                words = json.loads(text)
            except (ValueError, RecursionError):
                self._refuse("sources of ADD are not a JSON array: write valid JSON")
            if type(words) is not list or any(type(word) is not str for word in words):
                self._refuse("sources of ADD are not all strings: quote each in the JSON array")
        else:
            words = text.split()
        for word in words[:-1]:
            if _URL.fullmatch(word):
                self._remotes.add(word)
            elif not _LOCAL.fullmatch(word) or word.lower().startswith(_ON_GITHUB):
                self._refuse(
                    "source of ADD is neither a plain path nor a URL with http: copy it instead"
                )
