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
from collections.abc import Collection
from typing import Any, Final
from urllib.parse import unquote_plus

from doorward.rego import (
    MASKED,
    Boxed,
    has_credential_names,
    hide_looks,
    names_all_below,
    names_credential,
    sorted_values,
)

__all__ = ["hide_credentials"]

DOCUMENTS: Final[tuple[str, ...]] = ("input", "result")
LISTED: Final = 1_000
"""Paths that an event lists; what is at others is hidden as well."""
NAMES: Final = 4_096
REMEMBERED: Final = 64
"""Names that are remembered, and the characters of the longest of them."""

_SETTING: Final = re.compile(r"(^|[?&;\s])([^=&?;\s]{1,64})=([^&;\s]+)")
_NAMED: Final = (("name", "value"), ("key", "value"), ("key", "rawValue"), ("key", "raw_value"))
_KEYS_OF_JWK: Final = frozenset({"d", "dp", "dq", "k", "p", "q", "qi"})
_OF_PAIRS: Final = frozenset({"kty", "rawValue", "raw_value", "value", "Value"})
_COLLECTIONS: Final = (dict, list, frozenset)


def hide_credentials(event: dict[str, Any]) -> dict[str, Any]:
    """`event` without the credentials of its input and result."""
    documents = {name: event[name] for name in DOCUMENTS if name in event}
    is_secret = "result" in documents and _is_below_credentials(
        event.get("path", event.get("query", ""))
    )
    if is_secret:
        del documents["result"]
    walk = _Walk(documents)
    shown, bodies = _without_bodies(walk)
    erased = [*walk.erased, *bodies, *(["/result"] if is_secret else [])]
    if not erased and not walk.masked:
        return event
    changed = {name: value for name, value in event.items() if name not in DOCUMENTS}
    changed |= shown
    for name, paths in (("erased", erased), ("masked", walk.masked)):
        if paths:
            changed[name] = [*changed.get(name, ()), *paths[:LISTED]]
    return changed


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
        for number, (value, _, _) in enumerate(self._nodes):  # it grows on the way
            if type(value) is dict:
                self._object(number, value)
            else:
                self._list(number, value)
        self.documents: dict[str, Any] = self._copies() or documents

    def _object(self, number: int, value: dict[Any, Any]) -> None:
        """Note what is hidden of an object, and the collections in it."""
        add = self._nodes.append
        fields = () if _OF_PAIRS.isdisjoint(value) else _fields_of_pair(value)
        for key, item in value.items():
            kind = type(item)
            named = _kinds[key] if type(key) is str else 0
            if named or key in fields:
                if kind is bool or item is None:
                    continue
                if named == _ALL or (named == _ONE and kind is not dict) or key in fields:
                    self._removed.setdefault(number, set()).add(key)
                    self.erased.append(self._path(number, key))
                    continue
            if kind is str:
                if named or "=" in item or '"' in item or "eyJ" in item or "-----BEGIN" in item:
                    self._text(number, key, item, is_encoded=named == _ENCODED)
            elif kind in _COLLECTIONS and item:
                add((item, number, key))

    def _list(self, number: int, value: Any) -> None:
        """The same of an array or a set, which becomes an array where anything in it changes."""
        if type(value) is frozenset:
            if not any(type(item) is str or isinstance(item, Boxed) for item in value):
                return
            _, parent, key = self._nodes[number]
            value = sorted_values(value)
            self._nodes[number] = value, parent, key
        for index, item in enumerate(value):
            kind = type(item)
            if kind is str:
                if "=" in item or '"' in item or "eyJ" in item or "-----BEGIN" in item:
                    self._text(number, index, item)
            elif kind in _COLLECTIONS and item:
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
                copy = _copy(value, removed.get(number, ()), changed.get(number, {}))
                if number:
                    changed.setdefault(parent, {})[key] = copy
        return copy


def _copy(value: Any, removed: Collection[Any], changed: dict[Any, Any]) -> Any:
    copy = value.copy()
    for key in removed:
        del copy[key]
    for key, item in changed.items():
        copy[key] = item
    return copy


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


def _without_credentials(text: str, *, is_encoded: bool) -> str:
    shown = _without_looks(text)
    if "=" in text:
        shown = _SETTING.sub(_masked_setting, shown)
    if is_encoded and has_credential_names(_decoded(text)):
        return MASKED
    return MASKED if '"' in text and has_credential_names(text) else shown


def _without_looks(text: str) -> str:
    # Three dotted names are a host more often than a token, whose header is JSON in base64.
    return hide_looks(text) if "eyJ" in text or "-----BEGIN" in text else text


def _masked_setting(match: re.Match[str]) -> str:
    name = unquote_plus(match[2])
    return f"{match[1]}{match[2]}={MASKED}" if names_credential(name) else match[0]


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode("utf-8", errors="replace")
    except (binascii.Error, ValueError):
        return ""
