"""Credentials are removed from an event of the decision log by their names and forms, at any depth.

Not OPA's: it logs them unless a policy masks them. A value with the name of a credential is removed
and listed under `erased`. In a text that contains one (a token, a query, JSON), that part is
replaced and the path is listed under `masked`. The names are defined in `rego/credentials.py`.

Most events have credentials at the same paths (a header). So the paths of recent events are masked
first, and one search in the encoded rest decides if there may be more; then a walk without
recursion finds all, and remembers their paths for the next events. Containers on the way to a
hidden value are copied, the rest is shared.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias
from urllib.parse import unquote_plus

import orjson

from doorward.rego import Value
from doorward.rego.shared import (
    MASKED,
    Boxed,
    assigns_credential,
    credential_members,
    has_credential_names,
    mask_credentials,
    may_contain_credentials,
    may_hold_credentials,
    mentions_credential,
    names_all_below,
    names_credential,
    sorted_values,
)

__all__ = ["DOCUMENTS", "hide_credentials"]

DOCUMENTS: Final[tuple[str, ...]] = ("input", "result", "nd_builtin_cache")
_ASKED: Final = ("query", "path")
"""Fields with text from a client: the query, and the end of the path."""
_TELLING: Final = ("io.jwt.", "opa.runtime")
"""Built-ins whose operands are tokens and keys, or whose answer contains the environment
variables.
"""
LISTED: Final = 1_000
"""The largest number of paths that an event lists; values at further paths are hidden as well."""
NAMES: Final = 4_096
REMEMBERED: Final = 64
"""The longest name that is cached, in characters, and the number of cached decision paths."""
LOCATIONS: Final = 8
DEPTH: Final = 16
"""The largest number of names in a remembered location."""

# A quote that is not closed hides the rest of its line: where the value ends is not known.
_SETTING: Final = re.compile(r"(^|[?&;\s])([^=&?;\s]{1,64})=(\"[^\"\n]*+\"?|'[^'\n]*+'?|[^&;\s]+)")
# A quoted value hides the rest of its line, too: it may contain escaped quotes, commas and braces.
_LINE: Final = re.compile(
    r"((?:^|[\n{,])[ \t-]*+([\"']?)([^\s:\"'{},][^\n:\"'{},]{0,63})\2[ \t]*:[ \t]+)"
    r"([\"'][^\n]*+|[^\s\[{][^\n{},]*+)"
)
"""A line of YAML, or a member of an object that YAML writes in braces."""
_FORM: Final = re.compile(r"[^\s=&]*+(?:=[^\s=&]*+)?(?:&[^\s=&]*+(?:=[^\s=&]*+)?)*+")
"""A form (`a=1&b=2`), or a single word."""

Location: TypeAlias = tuple[str, ...]
"""The keys from the event to a value, all of them names of objects."""


def hide_credentials(event: dict[str, Any]) -> dict[str, Any]:
    """Return `event` without credentials in its documents, error, query and path; the same object
    if there are none. Lists up to `LISTED` paths under `erased` and `masked`.
    """
    is_secret = "result" in event and _is_below_credentials(
        event.get("path") or event.get("query", "")
    )
    # These two are for a walk: a result that is secret as a whole, and operands of built-ins, which
    # are names, have no known location.
    hidden = _NOT_SURE if is_secret or "nd_builtin_cache" in event else _known.hide(event)
    public, erased, masked = hidden or _mask_event(event, is_secret=is_secret)
    for name in _ASKED:
        text = event.get(name, "")
        if text and (hidden_text := _mask_credentials(text, is_encoded=False)) != text:
            public = {**public, name: hidden_text}
            masked = [*masked, f"/{name}"]
    if "error" in event:
        # Errors of built-ins quote their operands.
        walk = _Walk({"error": event["error"]})
        if walk.erased or walk.masked:
            public = {**public, **walk.documents}
            erased, masked = [*erased, *walk.erased], [*masked, *walk.masked]
    if not erased and not masked:
        return event
    for name, paths in (("erased", erased), ("masked", masked)):
        if paths:
            # In order, so that an event does not show in which way they were found.
            public[name] = [*event.get(name, ()), *sorted(paths)[:LISTED]]
    return public


Hidden: TypeAlias = tuple[dict[str, Any], list[str], list[str]]
"""An event or its masked copy, the paths that were removed, and the paths that were replaced."""

_NOT_SURE: Final[Hidden | None] = None


class _Known:
    """The locations of recent credentials, grouped by the object that contains them. Safe in any
    number of threads.
    """

    def __init__(self) -> None:
        self._locations: dict[Location, dict[str, str]] = {}
        """By object, the names of credentials with the paths that events list. INVARIANT: replaced
        as a whole, never changed, since any thread may be reading it.
        """

    def hide(self, event: dict[str, Any]) -> Hidden | None:
        """Return the event without the credentials at known locations, with the paths that were
        removed or masked; None if there may be credentials elsewhere, so that a walk must search
        for them.
        """
        public = event
        erased: list[str] = []
        masked: list[str] = []
        # INVARIANT: read once, as a whole; `learn` puts another dict in its place.
        for parent, names in self._locations.items():
            value = public
            for key in parent:
                value = value.get(key)  # type: ignore[assignment] # looked at below
                if type(value) is not dict:
                    break
            else:
                changed = _change(value, names, erased, masked)
                if changed is not value:
                    public = _with(public, parent, changed)
        rest = _without_raw_bodies(public)
        if rest is None:
            return None
        documents = (rest.get("input"), rest.get("result"))
        try:
            # One search in the text is faster than a walk, and errs only towards a walk.
            encoded = orjson.dumps(documents, default=_plain)
        except TypeError:
            return None  # numbers, names or depths that are not everybody's JSON
        return None if may_hold_credentials(encoded) else (public, erased, masked)

    def learn(self, locations: list[Location]) -> None:
        """Remember locations; beyond `LOCATIONS` the oldest are forgotten."""
        # Without a lock: what another thread learns meanwhile may be forgotten, and the next walk
        # finds it again.
        known = [(parent, name) for parent, names in self._locations.items() for name in names]
        new = [(each[:-1], each[-1]) for each in locations]
        remembered = [*[each for each in known if each not in new], *new][-LOCATIONS:]
        by_parent: dict[Location, dict[str, str]] = {parent: {} for parent, _ in remembered}
        for parent, name in remembered:
            by_parent[parent][name] = _path((*parent, name))
        self._locations = by_parent


_known: Final = _Known()


def _change(
    value: dict[Any, Any], names: dict[str, str], erased: list[str], masked: list[str]
) -> dict[Any, Any]:
    """Return a copy of an object in which the credentials under `names` are removed or masked; the
    object itself if there are none. `names` maps the names to examine to the paths of their values
    in the event, which are added to `erased` or `masked`.
    """
    changed = value
    for name, path in names.items():
        item: Any = value.get(name)
        kind = type(item)
        if item is None or kind is bool:
            continue
        named = _kinds[name]
        if named == _ALL or (named == _ONE and kind is not dict):
            changed = value.copy() if changed is value else changed
            del changed[name]
            erased.append(path)
        elif kind is str and (text := _mask_under(named, item)) != item:
            changed = value.copy() if changed is value else changed
            changed[name] = text
            masked.append(path)
    return changed


def _with(event: dict[str, Any], location: Location, value: dict[Any, Any]) -> dict[str, Any]:
    """Return a copy of an event with `value` at a location; only the objects on the way are
    copied.
    """
    if not location:
        return value
    copy = outer = event.copy()
    for key in location[:-1]:
        outer[key] = outer = outer[key].copy()
    outer[location[-1]] = value
    return copy


def _plain(value: object) -> Any:
    """Convert a value that orjson does not know so that its texts can be searched: 0 for a number
    that keeps its text, a list for a set. TypeError for any other.
    """
    if isinstance(value, float):
        return 0
    if isinstance(value, frozenset):
        return sorted_values(value)
    raise TypeError(type(value).__name__)


_HTTP: Final = ("attributes", "request", "http")
_RAW: Final = ("raw_body", "rawBody")


def _without_raw_bodies(event: dict[str, Any]) -> dict[str, Any] | None:
    """Return the event without the base64 bodies of Envoy's requests; None if one of them contains
    a credential or is not a text.
    """
    http = event.get("input")
    for key in _HTTP:
        if type(http) is not dict:
            return event
        http = http.get(key)
    if type(http) is not dict or ("rawBody" not in http and "raw_body" not in http):
        return event
    rest = http.copy()
    for name in _RAW:
        text = rest.pop(name, "")
        if type(text) is not str or _mask_credentials(text, is_encoded=True) != text:
            return None
    return _with(event, ("input", *_HTTP), rest)


def _mask_event(event: dict[str, Any], *, is_secret: bool) -> Hidden:
    """Search all values of an event; return the masked event and the paths. `is_secret` removes its
    result. Remembers where credentials were.
    """
    documents = {name: event[name] for name in DOCUMENTS if name in event}
    if is_secret:
        del documents["result"]
    answers = documents.get("nd_builtin_cache", _NOTHING)
    telling = [name for name, each in answers.items() if _tells(name, each)]
    if telling:
        remaining = {name: each for name, each in answers.items() if name not in telling}
        documents["nd_builtin_cache"] = remaining
    walk = _Walk(documents)
    # Not where a body had a credential: its own text must be left out as well, which a known
    # location would not do.
    if walk.locations and not walk.is_below_body:
        _known.learn(walk.locations)
    public, bodies = _without_bodies(walk)
    paths = [*bodies, *(["/result"] if is_secret else [])]
    paths += [f"/nd_builtin_cache/{name}" for name in telling]
    others = {name: value for name, value in event.items() if name not in DOCUMENTS}
    return {**others, **public}, [*walk.erased, *paths], walk.masked


def _tells(name: str, answers: Mapping[str, Value]) -> bool:
    """Return True if the operands or answers of a built-in may contain a credential. The operands
    are the keys of `answers`.
    """
    return name.startswith(_TELLING) or any(
        _mask_credentials(operands, is_encoded=False) != operands for operands in answers
    )


def _without_bodies(walk: _Walk) -> tuple[dict[str, Any], list[str]]:
    """Return the documents without the texts of a body whose `parsed_body` contained a credential,
    and the paths of these texts.

    In the text of a body a credential may be written in many ways: escaped, in parts, in base64.
    """
    if not walk.is_below_body:
        return walk.documents, []
    copy = outer = dict(walk.documents)
    for key in ("input", *_HTTP):
        inner = outer.get(key)
        if type(inner) is not dict:
            return walk.documents, []
        outer[key] = outer = inner.copy()
    bodies = []
    for name in ("body", *_RAW):
        path = _path(("input", *_HTTP, name))
        if outer.get(name) and path not in walk.erased and path not in walk.masked:
            del outer[name]
            bodies.append(path)
    return copy, bodies


@lru_cache(maxsize=REMEMBERED)
def _is_below_credentials(path: str) -> bool:
    """Return True if the path of a decision names a credential, so that its result is one:
    `secrets/db`, `login/token`.
    """
    kinds = [_kinds[name] for name in re.findall(r"[^/.\[\]\"\s]+", path)]
    return _ALL in kinds or kinds[-1:] == [_ONE]


class _Walk:
    """A search for credentials in all values of documents. Its results are the masked `documents`,
    the paths that were `erased` or `masked`, and the `locations` at which other events may have
    credentials. A container is known by its number, the index in `_nodes`.
    """

    def __init__(self, documents: dict[str, Any]) -> None:
        self.erased: list[str] = []
        self.masked: list[str] = []
        self.locations: list[Location] = []
        self.is_below_body = False
        """True if something was found in `parsed_body`."""
        # Each collection, the number of the one that it lies in, and its key there.
        self._nodes: list[tuple[Any, int, Any]] = [(documents, 0, "")]
        self._removed: dict[int, set[Any]] = {}
        self._change: dict[int, dict[Any, Any]] = {}
        for number, (value, _, _) in enumerate(self._nodes):  # it grows on the way
            if type(value) is dict:
                self._walk_object(number, value)
            else:
                self._walk_list(number, value)
        self.documents: dict[str, Any] = self._changed_copy() or documents

    def _walk_object(self, number: int, value: dict[Any, Any]) -> None:
        """Record the fields of the object `value`, container `number`, that must be removed or
        masked, and queue the containers in it.
        """
        fields = credential_members(value)
        for key, item in value.items():
            kind = type(item)
            if item is None or kind is bool:
                continue
            named = _kinds[key] if type(key) is str else 0
            if named == _ALL or (named == _ONE and kind is not dict) or key in fields:
                self._removed.setdefault(number, set()).add(key)
                self._note(self.erased, number, key)
            elif kind is str:
                self._mask_text(number, key, item, named)
            elif (kind is dict or kind is list or kind is frozenset) and item:
                self._nodes.append((item, number, key))

    def _walk_list(self, number: int, value: Any) -> None:
        """Record the items of the array or set `value`, container `number`, that must be masked,
        and queue the containers in it. A set with texts or collections is walked as its sorted
        array, and becomes an array if something in it is masked.
        """
        if type(value) is frozenset:
            if not any(type(item) is str or isinstance(item, Boxed) for item in value):
                return
            _, parent, key = self._nodes[number]
            value = sorted_values(value)
            self._nodes[number] = value, parent, key
        for index, item in enumerate(value):
            kind = type(item)
            if kind is str:
                self._mask_text(number, index, item)
            elif (kind is dict or kind is list or kind is frozenset) and item:
                self._nodes.append((item, number, index))

    def _mask_text(self, number: int, key: Any, text: str, named: int = 0) -> None:
        """Record the masked form of `text`, the value at `key` of the container `number`, if it has
        a credential in it. `named` is the kind of its name in `_kinds`, 0 for a harmless name or an
        item of a list.
        """
        masked = _mask_under(named, text)
        if masked != text:
            self._change.setdefault(number, {})[key] = masked
            self._note(self.masked, number, key)

    def _note(self, paths: list[str], number: int, key: Any) -> None:
        """Add the path of a hidden value, at `key` of the container `number`, to `paths`; add it to
        `locations` as well if other events may have a credential there and it has fewer than
        `LOCATIONS`. A path below `input.parsed_body` sets `is_below_body` instead.
        """
        keys = [key]
        while number:
            _, number, key = self._nodes[number]
            keys.append(key)
        keys.reverse()
        paths.append(_path(keys))
        if keys[:2] == ["input", "parsed_body"]:
            self.is_below_body = True
        elif len(self.locations) < LOCATIONS and _is_location(keys):
            self.locations.append(tuple(keys))

    def _changed_copy(self) -> Any:
        """Return a copy of the documents with all recorded changes; None if there are none.
        Containers without a change are shared.
        """
        removed, changed = self._removed, self._change
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


def _path(keys: Sequence[Any]) -> str:
    """Return keys as a path with slashes, which are not escaped."""
    return "".join([f"/{each}" for each in keys])


def _is_location(keys: list[Any]) -> bool:
    """Return True if a path that had a credential in one event may be remembered, to look there
    first in other events.

    Not `name` and `key`: whether their values are credentials depends on other members. Not paths
    with indexes or long names or more than `DEPTH` names, and not the operands of built-ins.
    """
    return (
        len(keys) <= DEPTH
        and keys[0] != "nd_builtin_cache"
        and all(type(each) is str and len(each) <= REMEMBERED for each in keys)
        and keys[-1].lower() not in ("name", "key")
    )


_ONE, _ALL, _ENCODED, _BODY = 1, 2, 3, 4
"""Kinds of names: the text is a credential; all values below are; it is base64; it is a body."""


class _Kinds(dict[str, int]):
    """The kind of each recently seen name: `_ALL` and `_ONE` are names of credentials (for `_ONE`,
    unless the value is an object), `_ENCODED` of base64, `_BODY` of a body; 0 for others. Computed
    at the first look-up; emptied when it has `NAMES` names.
    """

    def __missing__(self, name: str) -> int:
        """Return the kind of a name that was not looked up before; names of up to `REMEMBERED`
        characters are stored.
        """
        kind = 0
        if names_all_below(name):
            kind = _ALL
        elif names_credential(name) or _without_looks(name) is not name:
            kind = _ONE
        elif name in _RAW:
            kind = _ENCODED
        elif name.lower() == "body":
            kind = _BODY
        # Clients choose names: neither their number nor their length may fill the memory.
        if len(name) <= REMEMBERED:
            if len(self) >= NAMES:
                self.clear()
            self[name] = kind
        return kind


_kinds: Final = _Kinds()


def _mask_credentials(text: str, *, is_encoded: bool, is_body: bool = False) -> str:
    """Return `text` with the credentials in it masked. If it is not known where one ends, the
    result is `MASKED` alone; without credentials, `text` itself. `is_encoded`: the text may be
    base64, which is decoded and searched too. `is_body`: it is the body of a request; in one of
    unknown format, a mere mention of a credential's name makes the result `MASKED`.
    """
    masked_text = _without_looks(text)
    if "=" in text:
        masked_text = _SETTING.sub(_mask_setting, masked_text)
    if ": " in text or ":\t" in text:
        masked_text = _LINE.sub(_mask_line, masked_text)
    if is_encoded:
        decoded = _decode(text)
        if decoded and _mask_credentials(decoded, is_encoded=False, is_body=True) != decoded:
            return MASKED
    if '"' in text and has_credential_names(text):
        return MASKED
    if assigns_credential(masked_text) or (
        is_body and _is_unknown(text) and mentions_credential(masked_text)
    ):
        return MASKED
    return masked_text


def _mask_under(named: int, text: str) -> str:
    """Return a text with the credentials in it masked; `named` is the kind of its name in `_kinds`.
    A text of base64 is decoded and searched too; a body of unknown format that mentions the name of
    a credential becomes `MASKED`.
    """
    return _mask_credentials(text, is_encoded=named == _ENCODED, is_body=named == _BODY)


def _is_unknown(body: str) -> bool:
    """Return True if a body is neither JSON nor a form, so that names and values cannot be told
    apart. An empty body and a single word count as forms.
    """
    if _FORM.fullmatch(body):
        return False
    try:
        orjson.loads(body)
    except ValueError:
        return True
    return False


def _without_looks(text: str) -> str:
    """Return the text with tokens and keys masked that are recognised by their form."""
    # Three dotted names are a host more often than a token, whose header is JSON in base64.
    return mask_credentials(text) if may_contain_credentials(text) else text


def _mask_setting(match: re.Match[str]) -> str:
    """Return a setting such as `token=x` with its value masked, if its decoded name is a
    credential's; else unchanged.
    """
    name = unquote_plus(match[2])
    return f"{match[1]}{match[2]}={MASKED}" if names_credential(name) else match[0]


def _mask_line(match: re.Match[str]) -> str:
    """Return a line such as `token: x` with its value masked, if its name is a credential's; else
    unchanged.
    """
    return f"{match[1]}{MASKED}" if names_credential(match[3].rstrip()) else match[0]


def _decode(text: str) -> str:
    """Decode base64 to text; "" if it is not valid."""
    try:
        return base64.b64decode(text, validate=True).decode("utf-8", errors="replace")
    except (binascii.Error, ValueError):
        return ""
