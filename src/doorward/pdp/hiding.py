"""Credentials taken out of a decision log event by their names and looks, at any depth.

Not OPA's: it logs them unless a policy masks them. What has the name of a credential is removed and
listed under `erased`; of texts that hold one (a token, a query, JSON) that part is replaced and the
path listed under `masked`. What a credential is called is defined once, in `rego/credentials.py`.

One walk without recursion finds everything; what lies on the way to it is copied, the rest shared.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_plus

from doorward.rego import (
    MASKED,
    Boxed,
    Value,
    has_credential_names,
    hide_looks,
    may_look,
    names_all_below,
    names_credential,
    sorted_values,
)

__all__ = ["DOCUMENTS", "hide_credentials"]

DOCUMENTS: Final[tuple[str, ...]] = ("input", "result", "nd_builtin_cache")
_TELLING: Final = ("io.jwt.", "opa.runtime")
"""Built-ins whose operands are tokens and keys, or whose answer is the process's environment."""
LISTED: Final = 1_000
"""Paths that an event lists; what is at others is hidden as well."""
NAMES: Final = 4_096
REMEMBERED: Final = 64
"""Names that are remembered, and the characters of the longest of them."""
SHAPES: Final = 1_024
WIDEST: Final = 64
"""Shapes of objects that are remembered, and the members of the largest of them."""
HARMLESS: Final = 1_024
SHORT: Final = 256
"""Texts without a credential that are remembered, and the characters of the longest of them."""

_SETTING: Final = re.compile(r"(^|[?&;\s])([^=&?;\s]{1,64})=([^&;\s]+)")
_NAMED: Final = (("name", "value"), ("key", "value"), ("key", "rawValue"), ("key", "raw_value"))
_KEYS_OF_JWK: Final = frozenset({"d", "dp", "dq", "k", "p", "q", "qi"})
_OF_PAIRS: Final = frozenset({"kty", "rawValue", "raw_value", "value", "Value"})


def hide_credentials(event: dict[str, Any]) -> dict[str, Any]:
    """`event` without the credentials of its input and result."""
    documents = {name: event[name] for name in DOCUMENTS if name in event}
    is_secret = "result" in documents and _is_below_credentials(
        event.get("path", event.get("query", ""))
    )
    if is_secret:
        del documents["result"]
    answers = documents.get("nd_builtin_cache", _NOTHING)
    telling = [name for name, each in answers.items() if _tells(name, each)]
    if telling:
        kept = {name: each for name, each in answers.items() if name not in telling}
        documents["nd_builtin_cache"] = kept
    walk = _Walk(documents)
    shown, bodies = _without_bodies(walk)
    erased = [*walk.erased, *bodies, *(["/result"] if is_secret else [])]
    erased += [f"/nd_builtin_cache/{name}" for name in telling]
    if not erased and not walk.masked:
        return event
    changed = event.copy()
    for name in DOCUMENTS:
        changed.pop(name, None)
    changed |= shown
    for name, paths in (("erased", erased), ("masked", walk.masked)):
        if paths:
            changed[name] = [*changed.get(name, ()), *paths[:LISTED]]
    return changed


def _tells(name: str, answers: Mapping[str, Value]) -> bool:
    """Whether operands of a built-in hold a credential, which are in the names of its answers."""
    return name.startswith(_TELLING) or any(
        _without_credentials(operands, is_encoded=False) != operands for operands in answers
    )


_HTTP: Final = ("input", "attributes", "request", "http")


def _without_bodies(walk: _Walk) -> tuple[dict[str, Any], list[str]]:
    """The documents without the body if `parsed_body` had a credential, and the path of that body.

    As text the body may write it in many ways: escaped, in parts, in base64.
    """
    paths = [*walk.erased, *walk.masked]
    if not any(path.startswith("/input/parsed_body") for path in paths):
        return walk.documents, []
    copy = outer = dict(walk.documents)
    for key in _HTTP:
        inner = outer.get(key)
        if type(inner) is not dict:
            return walk.documents, []
        outer[key] = outer = inner.copy()
    bodies = []
    for name in ("body", "raw_body", "rawBody"):
        path = "/".join(["", *_HTTP, name])
        if outer.get(name) and path not in paths:
            del outer[name]
            bodies.append(path)
    return copy, bodies


@lru_cache(maxsize=REMEMBERED)
def _is_below_credentials(path: str) -> bool:
    """Whether the path of a decision names a credential: `secrets/db`, `login/token`."""
    kinds = [_kinds[name] for name in re.findall(r"[^/.\[\]\"\s]+", path)]
    return _ALL in kinds or kinds[-1:] == [_ONE]


class _Walk:
    """The walk through some documents: the paths that were removed, and replaced."""

    def __init__(self, documents: dict[str, Any]) -> None:
        self.erased: list[str] = []
        self.masked: list[str] = []
        # Each collection, the number of the one that it lies in, and its key there.
        self._nodes: list[tuple[Any, int, Any]] = [(documents, 0, "")]
        self._removed: dict[int, set[Any]] = {}
        self._changed: dict[int, dict[Any, Any]] = {}
        self._rests: dict[int, dict[Any, Any]] = {}
        """Of objects with names that say something: what is left to look at."""
        texts: list[str] = []
        self._find(texts)
        if _may_hide("\n".join(texts)):
            unknown = [text for text in texts if text not in _harmless]
            if _may_hide("\n".join(unknown)):
                self._mask_texts()
        self.documents: dict[str, Any] = self._copies() or documents

    def _find(self, texts: list[str]) -> None:
        """Note every collection, what is hidden by its name, and all texts.

        Most events have a hundred values and one to hide: here every step counts.
        """
        nodes, add, note, shapes = self._nodes, self._nodes.append, texts.append, _shapes
        number = -1
        for value, _, _ in nodes:  # it grows on the way
            number += 1
            if type(value) is not dict:
                self._list(number, value, note)
                continue
            shape = shapes[tuple(value)]
            if shape is not _PLAIN:
                value = self._without_named(number, value, shape)
            for key, item in value.items():
                kind = type(item)
                if kind is str:
                    note(item)
                elif (kind is dict or kind is list or kind is frozenset) and item:
                    add((item, number, key))

    def _mask_texts(self) -> None:
        """Note what is hidden of texts."""
        for number, (value, _, _) in enumerate(self._nodes):
            value = self._rests.get(number, value)
            for key, item in value.items() if type(value) is dict else enumerate(value):
                if type(item) is str and _may_hide(item):
                    self._text(number, key, item)

    def _without_named(self, number: int, value: dict[Any, Any], shape: _Shape) -> dict[Any, Any]:
        """What is left to look at of an object, some of whose names say something."""
        fields = _fields_of_pair(value) if shape.may_be_pair else ()
        kinds = shape.kinds
        if not kinds and not fields:
            return value
        rest = self._rests[number] = value.copy()
        for key in (*kinds, *fields):
            item = rest.pop(key, None)
            kind = type(item)
            if item is None or kind is bool:
                continue
            named = kinds.get(key, 0)
            if named == _ALL or (named == _ONE and kind is not dict) or key in fields:
                self._removed.setdefault(number, set()).add(key)
                self.erased.append(self._path(number, key))
            elif named == _ENCODED and kind is str:
                self._text(number, key, item, is_encoded=True)
            else:
                rest[key] = item
        return rest

    def _list(self, number: int, value: Any, note: Callable[[str], None]) -> None:
        """Note what is in an array, or a set, which becomes an array where anything changes."""
        if type(value) is frozenset:
            if not any(type(item) is str or isinstance(item, Boxed) for item in value):
                return
            _, parent, key = self._nodes[number]
            value = sorted_values(value)
            self._nodes[number] = value, parent, key
        for index, item in enumerate(value):
            kind = type(item)
            if kind is str:
                note(item)
            elif (kind is dict or kind is list or kind is frozenset) and item:
                self._nodes.append((item, number, index))

    def _text(self, number: int, key: Any, text: str, *, is_encoded: bool = False) -> None:
        shown = _without_credentials(text, is_encoded=is_encoded)
        if shown != text:
            self._changed.setdefault(number, {})[key] = shown
            self.masked.append(self._path(number, key))

    def _path(self, number: int, key: Any) -> str:
        keys = [key]
        while number:
            _, number, key = self._nodes[number]
            keys.append(key)
        return "".join([f"/{each}" for each in reversed(keys)])

    def _copies(self) -> Any:
        """The documents with their changes; None if there are none."""
        removed, changed = self._removed, self._changed
        copy: Any = None
        for number in range(len(self._nodes) - 1, -1, -1):  # what lies inside before the outside
            if number in removed or number in changed:
                value, parent, key = self._nodes[number]
                copy = value.copy()
                for name in removed.get(number, ()):
                    del copy[name]
                for name, item in changed.get(number, _NOTHING).items():
                    copy[name] = item
                if number:
                    changed.setdefault(parent, {})[key] = copy
        return copy


_NOTHING: Final[dict[Any, Any]] = {}


_ONE, _ALL, _ENCODED = 1, 2, 3
"""What a name says: a text is a credential; all below is; a text is in base64."""


class _Kinds(dict[str, int]):
    """What each name that was met lately says; 0 for nothing."""

    def __missing__(self, name: str) -> int:
        kind = 0
        if names_all_below(name):
            kind = _ALL
        elif names_credential(name) or _without_looks(name) is not name:
            kind = _ONE
        elif name in ("raw_body", "rawBody"):
            kind = _ENCODED
        if len(name) <= REMEMBERED:
            if len(self) >= NAMES:
                self.clear()
            self[name] = kind
        return kind


_kinds: Final = _Kinds()


class _Shape(NamedTuple):
    """What the names of an object say, whatever its values are."""

    kinds: dict[str, int]
    may_be_pair: bool


_PLAIN: Final = _Shape({}, may_be_pair=False)


def _shape(names: tuple[Any, ...]) -> _Shape:
    texts = [name for name in names if type(name) is str]
    kinds = {name: kind for name in texts if (kind := _kinds[name])}
    may_be_pair = not _OF_PAIRS.isdisjoint(texts)
    return _Shape(kinds, may_be_pair) if kinds or may_be_pair else _PLAIN


class _Shapes(dict[tuple[Any, ...], _Shape]):
    """The shapes of objects that came lately, by their names in order: most inputs are alike."""

    def __missing__(self, names: tuple[Any, ...]) -> _Shape:
        shape = _shape(names)
        if len(names) <= WIDEST and all(
            type(name) is str and len(name) <= REMEMBERED for name in names
        ):
            if len(self) >= SHAPES:
                self.clear()
            self[names] = shape
        return shape


_shapes: Final = _Shapes()


def _fields_of_pair(value: dict[Any, Any]) -> frozenset[str]:
    """The members of an object that are credentials because of what another member says."""
    if "kty" in value:
        return _KEYS_OF_JWK
    lowered = {key.lower(): key for key in value if type(key) is str and len(key) <= 9}
    fields = set()
    for name, field in _NAMED:
        said = value.get(lowered.get(name, ""))
        if type(said) is str and names_credential(said) and field.lower() in lowered:
            fields.add(lowered[field.lower()])
    return frozenset(fields)


def _may_hide(text: str) -> bool:
    """Whether there may be a credential in a text: a look at it that costs next to nothing."""
    return "=" in text or '"' in text or may_look(text)


_harmless: Final[set[str]] = set()
"""Texts that came lately and are shown as they are; no text with a credential gets in here."""


def _without_credentials(text: str, *, is_encoded: bool) -> str:
    if is_encoded:
        return _shown(text, is_encoded=True)
    if text in _harmless:
        return text
    shown = _shown(text, is_encoded=False)
    if shown == text and len(text) <= SHORT:
        if len(_harmless) >= HARMLESS:
            _harmless.clear()
        _harmless.add(text)
    return shown


def _shown(text: str, *, is_encoded: bool) -> str:
    shown = _without_looks(text)
    if "=" in text:
        shown = _SETTING.sub(_masked_setting, shown)
    if is_encoded and has_credential_names(_decoded(text)):
        return MASKED
    return MASKED if '"' in text and has_credential_names(text) else shown


def _without_looks(text: str) -> str:
    # Three dotted names are a host more often than a token, whose header is JSON in base64.
    return hide_looks(text) if may_look(text) else text


def _masked_setting(match: re.Match[str]) -> str:
    name = unquote_plus(match[2])
    return f"{match[1]}{match[2]}={MASKED}" if names_credential(name) else match[0]


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode("utf-8", errors="replace")
    except (binascii.Error, ValueError):
        return ""
