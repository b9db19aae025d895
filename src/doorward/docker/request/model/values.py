"""The types of single values, by name: what is accepted, and the words that say so.

A type is chosen by what reads the value: the daemon's own parsers, the kernel's option parser,
Go's templates, `ps`, a registry. It accepts what all of them read in one way, and no text that has
a meaning for one of them beyond the value itself. Text that only the container reads is free. Zero
values never arrive here. Every check takes time in proportion to its text.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

from doorward.docker.request.errors import RequestError
from doorward.docker.request.images import is_content, parse_image
from doorward.docker.request.schema import (
    BOOLEAN,
    INTEGER,
    LOOSE,
    STRING,
    WORDS,
    Scalar,
    parse_json,
)

__all__ = ["VALUES", "ValueType", "is_host_path", "words_type"]


class ValueType(NamedTuple):
    """One type: its JSON class, the words that describe it, and the check."""

    name: str
    scalar: Scalar
    text: str
    accepts: Callable[[Any], bool]


VALUES: Final[dict[str, ValueType]] = {}


def _add(name: str, text: str, accepts: Callable[[Any], bool], scalar: Scalar = STRING) -> None:
    assert name not in VALUES, name
    VALUES[name] = ValueType(name, scalar, text, accepts)


def _pattern(name: str, text: str, pattern: re.Pattern[str]) -> None:
    """Declare a type of texts that match a pattern."""
    match = pattern.fullmatch

    def accepts(value: str) -> bool:
        return match(value) is not None

    _add(name, text, accepts)


def words_type(text: str) -> ValueType:
    """Return the type of a few words, written `a|b|c`: one of them is accepted."""
    words = frozenset(text.split("|"))
    return ValueType(text, STRING, f"one of {', '.join(sorted(words))}", words.__contains__)


# Names

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}")
_CONTAINER: Final = re.compile(r"/?[A-Za-z0-9][A-Za-z0-9_.-]{0,254}")
_SHORT_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_IDENTIFIER: Final = re.compile(r"[0-9a-f]{12,64}|[0-9a-z]{25}")
"""How clients write an identifier: 12 or more of its digits, or 25 characters for the swarm."""
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_LABEL: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/:-]{0,254}")
_OPTION: Final = re.compile(r"[a-z][a-z0-9_.-]{0,127}")
_SYSCTL: Final = re.compile(r"[a-z][a-z0-9_]{0,63}(?:\.[a-z0-9_-]{1,64}){1,8}")
_HOST: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252})")
_ALIAS: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
_CAPABILITY: Final = re.compile(r"[A-Za-z][A-Za-z_]{1,39}")
_DEVICE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/=-]{0,127}")
_BUILD_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def _is_new(pattern: re.Pattern[str], value: str) -> bool:
    """Return True if a name matches the pattern and cannot be the identifier of something else."""
    # The daemon looks for names before identifiers: such a name would stand in for another object.
    return bool(pattern.fullmatch(value)) and not _IDENTIFIER.fullmatch(value.lstrip("/"))


_pattern("name", "a name of letters, digits, _, . and -", _NAME)
_pattern("container", "the name or identifier of a container", _CONTAINER)
_pattern("network", "the name or identifier of a network", _NAME)
_pattern("id", "an identifier of letters and digits", re.compile(r"[0-9a-z]{1,64}"))
_pattern("word", "a word of letters, digits, _, . and -", _WORD)
_pattern("label", "a key of letters, digits, ., _, :, / and -", _LABEL)
_pattern("option", "the name of an option", _OPTION)
_pattern("sysctl", "the name of a sysctl", _SYSCTL)
_pattern("sysctl-value", "numbers", re.compile(r"[0-9]{1,20}(?:[ \t][0-9]{1,20}){0,7}"))
_pattern("hostname", "a host name", _HOST)
_pattern("domain", "a domain", re.compile(r"\.|[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252})"))
_pattern("alias", "a host name", _ALIAS)
_pattern("capability", "the name of a capability", _CAPABILITY)
_pattern("device-id", "the identifier of a device", _DEVICE_ID)
_pattern("build-id", "an identifier of letters, digits, _ and -", _BUILD_ID)
_add(
    "new-name",
    "a name of letters, digits, _, . and - that is not like an identifier",
    lambda value: _is_new(_SHORT_NAME, value),
)
_add(
    "new-container",
    "a name of letters, digits, _, . and - that is not like an identifier",
    lambda value: _is_new(_CONTAINER, value),
)

# Text that only the container reads, or nobody


def _is_text(value: str) -> bool:
    return "\x00" not in value


def _is_plain(value: str) -> bool:
    return "{{" not in value and "\x00" not in value


_add("own", "text without NUL", _is_text)
_add("text", "text without NUL and without {{", _is_plain)
_add("plain", "text without {{, which a service reads as a template", _is_plain)
_add(
    "words",
    "texts without NUL",
    lambda value: all(map(_is_text, value)),
    WORDS,
)
_add(
    "capabilities",
    "names of capabilities",
    lambda value: all(map(_CAPABILITY.fullmatch, value)),
    WORDS,
)
_INSTRUCTION: Final = re.compile(
    r"(?:CMD|ENTRYPOINT|ENV|EXPOSE|HEALTHCHECK|LABEL|ONBUILD|SHELL|STOPSIGNAL|USER|VOLUME|WORKDIR)"
    r"[ \t][^\x00]*",
    re.IGNORECASE | re.DOTALL,
)
_pattern("instruction", "an instruction of a Dockerfile that sets the configuration", _INSTRUCTION)
_pattern("user", "user or user:group", re.compile(
    r"[A-Za-z0-9_][A-Za-z0-9_.$-]{0,63}(?::[A-Za-z0-9_][A-Za-z0-9_.$-]{0,63})?"
))  # fmt: skip
_pattern("group", "a group", re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.$-]{0,63}"))
_pattern("signal", "a signal", re.compile(r"[A-Z0-9][A-Z0-9+-]{0,19}"))
_pattern("keys", "keys to detach", re.compile(r"[A-Za-z0-9@,\[\]^_\\-]{1,64}"))

# Numbers

_MAX: Final = 2**63


def _is_amount(value: int) -> bool:
    return 0 <= value < _MAX


_add("boolean", "true or false", lambda _value: True, BOOLEAN)
_add("integer", "a whole number", lambda value: -_MAX <= value < _MAX, INTEGER)
_add("amount", "a whole number of 0 or more", _is_amount, INTEGER)
_add("limit", "a whole number of -1 or more", lambda value: -1 <= value < _MAX, INTEGER)
_add("adjustment", "from -1000 to 1000", lambda value: -1000 <= value <= 1000, INTEGER)
_add("port-number", "a port", lambda value: 0 <= value < 65536, INTEGER)


def _is_ratio(value: Any) -> bool:
    """Return True for a finite number from 0 to 1, other than a boolean."""
    if type(value) is bool or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and 0 <= value <= 1


_add("ratio", "from 0 to 1", _is_ratio, LOOSE)
_NUMBERS: Final = re.compile(r"[0-9]{1,6}(?:-[0-9]{1,6})?(?:,[0-9]{1,6}(?:-[0-9]{1,6})?){0,255}")
_pattern("numbers", "numbers and ranges with commas", _NUMBERS)
_pattern("number-text", "a number", re.compile(r"[0-9]{1,10}"))
_pattern("count", "a whole number of -1 or more", re.compile(r"-1|[0-9]{1,18}"))
_pattern("flag", "a boolean", re.compile(r"[01]|[Tt]rue|[Ff]alse|TRUE|FALSE|[tfTF]|yes|no|none"))
_pattern("tail", "all or a number", re.compile(r"all|-1|[0-9]{1,18}"))
_pattern("time", "a time", re.compile(r"-?[0-9][0-9A-Za-z:.+-]{0,63}"))
_pattern("size", "a number with a unit", re.compile(r"[0-9]{1,18}[bBkKmMgGtT]{0,2}"))
_pattern("storage-option", "size", re.compile(r"size"))

# Paths


def is_host_path(value: str) -> bool:
    """Return True for an absolute path of less than 4096 printable characters, without those that
    some reader on the way to mount(2) takes for something else, such as a separator.

    Empty and dot segments are accepted, since they are removed where the path is judged.
    """
    return len(value) < 4096 and value.isprintable() and _HOST_PATH.fullmatch(value) is not None


# Colons divide an entry of `Binds`, commas and backslashes the options of mount(2), `=` their
# values; braces begin a template of Go.
_HOST_PATH: Final = re.compile(r"""/[^\\,:"'`{}=]*""")
_SPECIAL: Final = frozenset("\\,:\"'`{}=")


def _is_relative(value: str) -> bool:
    """Return True for a printable relative path that stays below its folder."""
    return (
        not value.startswith("/")
        and value.isprintable()
        and _SPECIAL.isdisjoint(value)
        and ".." not in value.split("/")
    )


_add("path", 'an absolute path without \\ , : " { } =', is_host_path)
_add("relative-path", 'a path without .. and \\ , : " { } =', _is_relative)
_add("own-path", "a path without NUL and {{", _is_plain)
_add(
    "source",
    'a name, an image, or an absolute path without \\ , : " { } =',
    lambda value: is_host_path(value) or bool(_NAME.fullmatch(value)) or _is_image(value),
)
_MODE: Final = frozenset({
    "ro", "rw", "z", "Z", "nocopy", "cached", "consistent", "delegated", "private", "rprivate",
    "shared", "rshared", "slave", "rslave",
})  # fmt: skip


def _is_bind(value: str) -> bool:
    """Return True for `target` or `source:target[:modes]`; the source is a host path or a volume's
    name.
    """
    parts = value.split(":")
    if len(parts) == 1:
        return is_host_path(value)
    if len(parts) > 3 or not is_host_path(parts[1]):
        return False
    if len(parts) == 3 and not _MODE.issuperset(parts[2].split(",")):
        return False
    return is_host_path(parts[0]) or bool(_NAME.fullmatch(parts[0]))


_add("bind", "source:target[:modes] of paths or a volume's name", _is_bind)
_pattern(
    "volumes-from",
    "a container, and ro or rw",
    re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}(?::(?:ro|rw))?"),
)
_TMPFS_FLAGS: Final = frozenset({
    "async", "atime", "defaults", "dev", "diratime", "dirsync", "exec", "mand", "noatime", "nodev",
    "nodiratime", "noexec", "nomand", "norelatime", "nostrictatime", "nosuid", "relatime", "ro",
    "rw", "strictatime", "suid", "sync",
})  # fmt: skip
_TMPFS_OPTION: Final = re.compile(
    r"size=[0-9]{1,18}[kKmMgG%]?|mode=[0-7]{1,4}|[ug]id=[0-9]{1,10}|nr_(?:inodes|blocks)="
    r"[0-9]{1,18}[kKmMgG]?"
)


def _is_tmpfs_option(value: str) -> bool:
    return value in _TMPFS_FLAGS or bool(_TMPFS_OPTION.fullmatch(value))


_add(
    "tmpfs-options",
    "options of a tmpfs: size, mode, uid, gid, nr_inodes, nr_blocks and flags",
    lambda value: all(map(_is_tmpfs_option, value.split(","))),
)
_add(
    "tmpfs-option",
    "an option of a tmpfs or its value",
    lambda value: value in _TMPFS_FLAGS or bool(_WORD.fullmatch(value)),
)
_add("volume-option", "an option of a volume", _is_plain)
_pattern(
    "network-option", "an option of a network", re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,127}")
)

# Networks


def _is_address(value: str) -> bool:
    """Return True for an IP address in its canonical form."""
    try:
        # One spelling only: leading zeros are octal to some readers and decimal to others.
        return str(ipaddress.ip_address(value)) == value.lower() and "%" not in value
    except ValueError:
        return False


def _is_range(value: str) -> bool:
    """Return True for ADDRESS/BITS, with the address in its canonical form and BITS that do not
    begin with 0.
    """
    address, slash, bits = value.partition("/")
    if not slash or not bits.isascii() or not bits.isdecimal() or (bits + " ")[0] == "0":
        return False
    try:
        ipaddress.ip_interface(value)
    except ValueError:
        return False
    return _is_address(address)


_add("address", "an IP address in its usual spelling", _is_address)
_add("cidr", "a range of IP addresses in its usual spelling", _is_range)
_pattern("mac", "a MAC address", re.compile(r"[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5}"))
_pattern("port", "a port or range, with or without /tcp, /udp or /sctp", re.compile(
    r"[0-9]{1,5}(?:-[0-9]{1,5})?(?:/(?:tcp|udp|sctp))?"
))  # fmt: skip
_pattern("host-port", "a port or a range", re.compile(r"[0-9]{1,5}(?:-[0-9]{1,5})?"))
_pattern(
    "dns-option", "an option of resolv.conf", re.compile(r"[a-z][a-z0-9-]{0,31}(?::[0-9]{1,5})?")
)
_pattern("network-mode", "bridge, host, none, container:NAME or a network's name", re.compile(
    r"(?:container:)?[A-Za-z0-9][A-Za-z0-9_.-]{0,254}"
))  # fmt: skip
_pattern("namespace", "host, private, shareable, none or container:NAME", re.compile(
    r"host|private|shareable|none|container:[A-Za-z0-9][A-Za-z0-9_.-]{0,254}"
))  # fmt: skip
_pattern("link", "a container and its alias", re.compile(
    r"/?[A-Za-z0-9][A-Za-z0-9_.-]{0,254}(?::[A-Za-z0-9_/][A-Za-z0-9_./-]{0,254})?"
))  # fmt: skip


def _is_extra_host(value: str) -> bool:
    """Return True for HOST:ADDRESS or HOST=ADDRESS; ADDRESS may be `host-gateway`."""
    name, colon, address = value.partition(":")
    if "=" in name:
        name, colon, address = value.partition("=")
    if not colon or not _HOST.fullmatch(name):
        return False
    return address == "host-gateway" or _is_address(address.removeprefix("[").removesuffix("]"))


def _is_host_line(value: str) -> bool:
    address, _, names = value.partition(" ")
    return _is_address(address) and all(map(_HOST.fullmatch, names.split(" ")))


_add("extra-host", "NAME:ADDRESS", _is_extra_host)
_add("host-line", "ADDRESS NAME", _is_host_line)

# Images and registries


def _is_image(value: str) -> bool:
    return is_content(value) or not parse_image(value)["unresolved"]


_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


def _is_new_image(value: str) -> bool:
    """Return True for a name that an image may be tagged with: no digest, no identifier, and
    nothing that cannot be resolved.
    """
    image = parse_image(value)
    if image["unresolved"] or image["digest"]:
        return False
    return not _IDENTIFIER.fullmatch(image["reference"].partition(":")[0])


_add("image", "the name of an image, or its whole identifier", _is_image)
_add("new-image", "the name of an image that is not like an identifier", _is_new_image)
_add(
    "tag",
    "a tag or a digest",
    lambda value: bool(_TAG.fullmatch(value) or _DIGEST.fullmatch(value)),
)
_pattern("new-tag", "a tag", _TAG)
_pattern("platform", "a platform", re.compile(r"[A-Za-z0-9_]{1,32}(?:/[A-Za-z0-9_.]{1,32}){0,3}"))
_pattern("search-term", "a name of small letters", re.compile(r"[a-z0-9][A-Za-z0-9_.:/-]{0,254}"))
_pattern("registry", "a registry", re.compile(r"(?:https?://)?[A-Za-z0-9][A-Za-z0-9_.:/-]{0,254}"))
_pattern("url", "a URL", re.compile(r"-|[A-Za-z0-9][A-Za-z0-9+._:/@#?&=%~-]{0,2047}"))

# Resources

_ULIMITS: Final = frozenset({
    "core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc",
    "rss", "rtprio", "rttime", "sigpending", "stack",
})  # fmt: skip
_add("ulimit", f"one of {', '.join(sorted(_ULIMITS))}", _ULIMITS.__contains__)
_pattern("device-rule", "a rule for devices", re.compile(
    r"[abc] (?:[0-9]{1,6}|\*):(?:[0-9]{1,6}|\*) [rwm]{1,3}"
))  # fmt: skip
_pattern("constraint", "a constraint of a placement", re.compile(
    r"[a-z][A-Za-z0-9._-]{0,127} ?[=!]= ?[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}"
))  # fmt: skip
_PS: Final = frozenset(
    ("-ef", "ef", "aux", "-aux", "axu", "-e", "-A", "ax", "-o pid", "-opid", "-eo pid,comm")
)
_add("ps-options", f"one of {', '.join(sorted(_PS))}", _PS.__contains__)

# JSON within a parameter


def _document(value: str) -> Any:
    """Return a text as JSON; None if it is malformed."""
    try:
        return parse_json(value.encode())
    except (RequestError, UnicodeError):
        return None


def _are_filters(value: str) -> bool:
    """Return True if a text is the JSON object of Docker's filters: for each name an array of
    texts, or an object whose names are the texts and whose values are booleans. False for malformed
    JSON.
    """
    document = _document(value)
    if type(document) is not dict:
        return False
    for name, values in document.items():
        if not _OPTION.fullmatch(name):
            return False
        if type(values) is dict:
            if not all(type(each) is bool for each in values.values()):
                return False
        elif type(values) is not list:
            return False
        if not all(type(each) is str and _is_text(each) for each in values):
            return False
    return True


def _are_texts(value: str) -> bool:
    """Return True for a JSON object of texts and nulls, such as labels or build arguments."""
    document = _document(value)
    return type(document) is dict and all(
        (each is None or type(each) is str) and _LABEL.fullmatch(name)
        for name, each in document.items()
    )


def _are_images(value: str) -> bool:
    """Return True for a JSON array of image references."""
    document = _document(value)
    return type(document) is list and all(
        type(each) is str and _is_image(each) for each in document
    )


def _are_platforms(value: str) -> bool:
    """Return True if a text is the JSON of a platform or of an array of platforms, each an object
    of texts or a text with the JSON of one; also for an empty array. False for unknown members and
    malformed JSON.
    """
    documents = _document(value)
    for each in documents if type(documents) is list else [documents]:
        document = _document(each) if type(each) is str else each
        if type(document) is not dict or not _PLATFORM.issuperset(document):
            return False
        if not all(
            type(text) is str and _PLATFORM_PART.fullmatch(text) for text in document.values()
        ):
            return False
    return True


_PLATFORM: Final = frozenset(("architecture", "os", "variant", "os.version"))
_PLATFORM_PART: Final = re.compile(r"[A-Za-z0-9_.]{0,32}")


def _is_list(value: str) -> bool:
    """Return True if a text is a list in JSON."""
    return type(_document(value)) is list


def _or_null(check: Callable[[str], bool]) -> Callable[[str], bool]:
    """Return a check that also accepts `null`, which the clients of builds write for nothing."""
    return lambda value: value == "null" or check(value)


_add("filters", "filters in JSON", _are_filters)
_add("json-texts", "an object of texts in JSON", _or_null(_are_texts))
_add("json-images", "names of images in JSON", _or_null(_are_images))
_add("json-outputs", "a list in JSON", _or_null(_is_list))
_add("json-ulimits", "a list in JSON", _or_null(_is_list))
_add("platforms", "a platform in JSON", _are_platforms)

# What no type but an administrator's word is for


def _refuse(_value: Any) -> bool:
    """Return False: no value is accepted."""
    return False


_add("default", "left out", lambda value: value == "default")
_add("nothing", "an empty object", _refuse, LOOSE)
_add("closed", "left out by all but administrators", _refuse)
_add("closed-number", "left out by all but administrators", _refuse, INTEGER)
_add("closed-value", "left out by all but administrators", _refuse, LOOSE)


def _cache_slow_checks() -> None:
    """Cache the results of the slowest type checks, for values shorter than 256 characters."""
    for name in ("image", "address", "cidr"):
        kind = VALUES[name]
        cached = lru_cache(512)(kind.accepts)
        accepts = kind.accepts

        def check(
            value: str,
            cached: Callable[[str], bool] = cached,
            accepts: Callable[[Any], bool] = accepts,
        ) -> bool:
            """Return what `accepts` returns, from a cache for texts of less than 256 characters."""
            return cached(value) if len(value) < 256 else accepts(value)

        VALUES[name] = kind._replace(accepts=check)


_cache_slow_checks()
