"""The requests of BuildKit that build something: what the daemon would do for them.

    bytes of a message -> fields of protobuf, all of them known -> `build` of the input

A field that is not known here, or comes twice where one counts, makes a request unreadable, and
the shipped policies refuse it. What a request says in a language of its own (LLB, source policies)
is not judged: it is `raw`. Options that name images, registries or URLs become these; the others
are given by their names, build arguments and labels by what they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from doorward.docker.request.archives import NO_FILES
from doorward.docker.request.errors import RequestError
from doorward.docker.request.images import Image, parse_image
from doorward.docker.request.schema import parse_json

__all__ = ["NOT_SOLVED", "SOLVES", "Solve", "solve_views"]

_CONTROL: Final = "/moby.buildkit.v1.Control/Solve"
_BRIDGE: Final = "/moby.buildkit.v1.frontend.LLBBridge/Solve"
SOLVES: Final = frozenset({_CONTROL, _BRIDGE})
"""The BuildKit methods whose requests are read and decided."""
NOT_SOLVED: Final[dict[str, Any]] = {
    "readable": True,
    "frontend": "",
    "options": [],
    "entitlements": [],
    "raw": False,
}
"""Members of the `build` view for a request that is not a BuildKit call."""

Fields: TypeAlias = dict[int, list[Any]]
_MOST_FIELDS: Final = 4096
_VARINT, _BYTES = 0, 2


class _UnreadableError(Exception):
    """A message that readers could read differently, or with parts that are not known here."""


class Solve(NamedTuple):
    """A call of BuildKit: the method and its Protobuf message."""

    method: str
    message: bytes


def solve_views(solve: Solve) -> dict[str, Any]:
    """Return the views of a BuildKit call: `build`, the list `images` and the first `remote` that
    it names ("" if none). If it cannot be read completely there is only `build`, with `readable`
    False.
    """
    try:
        return _control(solve.message) if solve.method == _CONTROL else _bridge(solve.message)
    except (_UnreadableError, UnicodeDecodeError, RequestError):
        return {"build": {**_BUILD, "readable": False}}


_BUILD: Final[dict[str, Any]] = {
    "buildkit": True,
    "session": True,
    "outputs": [],
    "cache_from": [],
    **NOT_SOLVED,
    **NO_FILES,
}


# Protobuf


def _fields(content: bytes, known: Mapping[int, int]) -> Fields:
    """Return the values of a Protobuf message by field number, each a list in order.

    `known` gives the wire type of each permitted field. Raise _UnreadableError for other fields,
    too many values, or a message that is cut.
    """
    fields: Fields = {}
    at = count = 0
    while at < len(content):
        key, at = _read_varint(content, at)
        number, kind = key >> 3, key & 7
        count += 1
        # A field that is not known here may change what the daemon builds.
        if known.get(number) != kind or count > _MOST_FIELDS:
            raise _UnreadableError
        value: Any
        value, at = _read_varint(content, at)
        if kind == _BYTES:
            end = at + value
            if end > len(content):
                raise _UnreadableError
            value, at = content[at:end], end
        fields.setdefault(number, []).append(value)
    return fields


def _read_varint(content: bytes, at: int) -> tuple[int, int]:
    """Return the Protobuf integer (varint) at `at`, and the position after it. Raise
    _UnreadableError if it is cut or longer than nine bytes.
    """
    value = 0
    # Nine bytes: a tenth one is for negative numbers, which none of the known fields has.
    for shift in range(0, 63, 7):
        if at >= len(content):
            raise _UnreadableError
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise _UnreadableError


def _one(fields: Fields, number: int) -> Any:
    """Return the value of a field that may occur once; None if it is absent.

    Raise _UnreadableError if it occurs more often: Protobuf would take the last, other readers may
    not.
    """
    values = fields.get(number, [])
    if len(values) > 1:
        raise _UnreadableError
    return values[0] if values else None


def _text(fields: Fields, number: int) -> str:
    """Return the text of a field; "" if it is not given. Raise _UnreadableError if it is given
    twice, UnicodeDecodeError if it is not UTF-8.
    """
    value: bytes = _one(fields, number) or b""
    return value.decode()


def _texts(fields: Fields, number: int) -> list[str]:
    """Return the texts of a field; [] if it has none. UnicodeDecodeError if one is not UTF-8."""
    return [value.decode() for value in fields.get(number, [])]


def _map(fields: Fields, number: int) -> dict[str, str]:
    """Return the Protobuf map of texts in field `number`; _UnreadableError for a repeated key."""
    entries: dict[str, str] = {}
    for content in fields.get(number, []):
        entry = _fields(content, _PAIR)
        name = _text(entry, 1)
        if name in entries:
            raise _UnreadableError
        entries[name] = _text(entry, 2)
    return entries


_PAIR: Final = {1: _BYTES, 2: _BYTES}
_ENTRY: Final = _PAIR
"""A type and its attributes."""
_CACHE: Final = dict.fromkeys((1, 2, 3, 4, 5), _BYTES)
_OF_CONTROL: Final = {
    **dict.fromkeys((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13), _BYTES),
    11: _VARINT,
    14: _VARINT,
}
_OF_BRIDGE: Final = {
    **dict.fromkeys((1, 2, 3, 11, 12, 13, 15), _BYTES),
    **dict.fromkeys((5, 6, 10, 14), _VARINT),
}


# What a request asks for


class _Request:
    """The parts of a BuildKit request that policies see, collected while its message is read."""

    def __init__(self) -> None:
        self.options: set[str] = set()
        self.images: list[Image] = []
        self.caches: list[Image] = []
        self.outputs: list[str] = []
        self.remotes: list[str] = []

    def views(self, frontend: str, entitlements: list[str], *, raw: bool) -> dict[str, Any]:
        """Return the `build`, `images` and `remote` views of a BuildKit request.

        More than one remote context adds the option `context:URL`, since the view names only the
        first. `raw`: the request says more than the views show.
        """
        if len(self.remotes) > 1:
            self.options.add("context:URL")
        build = {
            **_BUILD,
            "frontend": frontend,
            "options": sorted(self.options),
            "entitlements": sorted(set(entitlements)),
            "outputs": self.outputs,
            "cache_from": self.caches,
            "raw": raw,
        }
        remote = self.remotes[0] if self.remotes else ""
        return {"build": build, "images": self.images, "remote": remote}


def _control(content: bytes) -> dict[str, Any]:
    """Return the views of a SolveRequest of BuildKit's control API.

    Raise _UnreadableError for fields that are unknown or repeated, UnicodeDecodeError or
    RequestError for values that cannot be read.
    """
    fields = _fields(content, _OF_CONTROL)
    # Also of those that are not read below: of two values, readers take different ones.
    for number in (1, 2, 5, 8, 11, 14):
        _one(fields, number)
    request = _Request()
    _read_options(_map(fields, 7), request)
    exporters = [(_text(each, 1), _map(each, 2)) for each in _parts(fields, 13, _ENTRY)]
    old, attributes = _text(fields, 3), _map(fields, 4)
    # The fields of before `exporters`, which the daemon reads as one more of them.
    if old or attributes:
        exporters.append((old, attributes))
    for type_, values in exporters:
        _read_output(type_, values, request)
    _read_caches(_one(fields, 8) or b"", request)
    raw = any(number in fields for number in (2, 10, 12))
    return request.views(_text(fields, 6), _texts(fields, 9), raw=raw)


def _bridge(content: bytes) -> dict[str, Any]:
    """Return the views of a SolveRequest that a frontend sends through the bridge.

    Raise _UnreadableError for fields that are unknown or repeated, UnicodeDecodeError or
    RequestError for values that cannot be read.
    """
    fields = _fields(content, _OF_BRIDGE)
    for number in (1, 5, 6, 10, 11, 14):
        _one(fields, number)
    request = _Request()
    _read_options(_map(fields, 3), request)
    for each in _parts(fields, 12, _ENTRY):
        _read_cache(_text(each, 1), _map(each, 2), request)
    raw = any(number in fields for number in (1, 11, 13, 15))
    return request.views(_text(fields, 2), [], raw=raw)


def _parts(fields: Fields, number: int, known: Mapping[int, int]) -> Iterator[Fields]:
    """Yield the fields of each message in a field; `known` are the fields that are read, by their
    wire types.
    """
    for content in fields.get(number, []):
        yield _fields(content, known)


def _read_caches(content: bytes, request: _Request) -> None:
    """Read the message of cache options: add the images and options of its imports and exports to
    `request`. Raise _UnreadableError for unknown fields, and for the forms of before 2019.
    """
    fields = _fields(content, _CACHE)
    if any(number in fields for number in (1, 2, 3)):
        raise _UnreadableError  # forms of before 2019
    for number in (4, 5):
        for each in _parts(fields, number, _ENTRY):
            _read_cache(_text(each, 1), _map(each, 2), request)


_OF_CACHES: Final = frozenset({"ref", "mode", "compression", "compression-level",
    "force-compression", "oci-mediatypes", "image-manifest", "ignore-error", "digest", "src",
    "dest", "tag", "scope"})  # fmt: skip
"""Attributes of caches that reach nothing but the reference."""
_OF_OUTPUTS: Final = frozenset({
    "name", "push", "push-by-digest", "name-canonical", "unpack", "store", "tar", "dest",
    "compression", "compression-level", "force-compression", "oci-mediatypes", "oci-artifact",
    "dangling-name-prefix", "danglingName", "attestation-prefix", "rewrite-timestamp",
    "source-date-epoch", "buildinfo", "buildinfo-attrs", "context",
})  # fmt: skip
"""Attributes of outputs that reach nothing but the names."""


def _read_cache(type_: str, attributes: Mapping[str, str], request: _Request) -> None:
    """Read one cache import or export: add its image to `caches`, and unknown types and attributes
    to `options`.
    """
    if type_ not in ("registry", "local", "inline"):
        request.options.add(f"cache:{type_[:64]}")
    elif type_ == "registry":
        request.caches.append(parse_image(attributes.get("ref", "")))
    request.options.update(f"cache:{name[:64]}" for name in attributes if name not in _OF_CACHES)


def _read_output(type_: str, attributes: Mapping[str, str], request: _Request) -> None:
    """Read one exporter into `request`: its type, the images that it names (if it pushes them, also
    as caches, since their registries are contacted), and its unknown attributes as options.
    """
    request.outputs.append(type_[:64])
    names = attributes.get("name", "")
    images = [parse_image(name) for name in names.split(",")] if names else []
    request.images += images
    if attributes.get("push", "false") not in ("", "false"):
        request.caches += images  # their registries are contacted
    for name in attributes:
        if name not in _OF_OUTPUTS and not name.startswith("annotation"):
            request.options.add(f"output:{name[:64]}")


_LOCAL: Final = re.compile(r"[A-Za-z0-9_-]{0,128}")
"""The name of a folder of the client: nothing that BuildKit takes for an address."""
_DOCKER_IMAGE: Final = "docker-image://"
_GROUPS: Final = ("label", "vcs", "input-metadata")
"""Options whose rest is the user's, and whose values reach nothing."""


def _read_options(options: Mapping[str, str], request: _Request) -> None:
    """Read the frontend's options into `request`: contexts, caches, build arguments, entitlements
    and options that are not known. Raise RequestError for cache imports that are not JSON,
    _UnreadableError for those of another form.
    """
    for name, value in options.items():
        group = name.partition(":")[0]
        if name == "context":
            if not _LOCAL.fullmatch(value):
                request.remotes.append(value)
        elif group == "context":
            _read_named_context(value, request)
        elif name == "cache-from":
            request.caches += [parse_image(each) for each in value.split(",") if each]
        elif name == "cache-imports":
            _read_imports(value, request)
        elif group in _GROUPS:
            request.options.add(group)
        else:
            request.options.add(_name_of(name, value))


def _name_of(name: str, value: str) -> str:
    """Return the name by which policies know a frontend option. All build arguments but BuildKit's
    own are `build-arg`; a harmless network mode is `force-network-mode:own`, and an attestation
    with another generator `attest:generator`.
    """
    group, _, rest = name.partition(":")
    if group == "build-arg" and not rest.startswith("BUILDKIT_"):
        return group
    if group == "attest" and "generator" in value:
        return "attest:generator"
    if name == "force-network-mode" and value in ("", "default", "none", "sandbox"):
        return "force-network-mode:own"
    return name[:128]


def _read_named_context(value: str, request: _Request) -> None:
    """Read a named context: add its image to `images`, or `context:URL` to `options` for an
    address.

    Local contexts and other stages add nothing.
    """
    if value.startswith(_DOCKER_IMAGE):
        request.images.append(parse_image(value.removeprefix(_DOCKER_IMAGE)))
    elif not value.startswith(("local:", "input:", "oci-layout:")):
        request.options.add("context:URL")


def _read_imports(text: str, request: _Request) -> None:
    """Read the frontend option `cache-imports`, a JSON array of cache types with attributes: add
    their images and options to `request`. Raise RequestError if it is not JSON, _UnreadableError if
    it has another form.
    """
    entries: Any = parse_json(text.encode())
    if type(entries) is not list:
        raise _UnreadableError
    for each in entries:
        if type(each) is not dict or not each.keys() <= {"Type", "Attrs"}:
            raise _UnreadableError
        type_, attributes = each.get("Type", ""), each.get("Attrs") or {}
        if type(type_) is not str or type(attributes) is not dict:
            raise _UnreadableError
        if not all([type(each) is str for pair in attributes.items() for each in pair]):
            raise _UnreadableError
        _read_cache(type_, attributes, request)
