"""The document of a response policy becomes a verdict, or an error that denies.

    {"allow": true, "keep": [["items", "*", "id"]], "lists": ["people"]}

`allow` must be exactly true. A name that means nothing here is an error: `removes` would hide
nothing. Rules that help the policy are in another package. `http_status`, `body` and `headers` are
those of a denial, `response_headers_to_add` and `response_headers_to_remove` those of OPA-Envoy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from doorward.enforcement.body_paths import Path, PathError
from doorward.envoy.ext_proc.changes import read_path
from doorward.rego import Undefined, Value
from doorward.rego.shared import Key, from_key, sorted_keys
from doorward.verdicts import (
    FORBIDDEN,
    Pairs,
    ResultError,
    check_headers,
    failed,
    object_of,
    read_body,
    read_headers,
    read_http_status,
    read_names,
)

__all__ = ["FIELDS", "MAX_PATHS", "ResponseVerdict", "read_response_verdict"]

FIELDS: Final = (
    *("allow", "stream", "keep", "remove", "set", "lists", "http_status", "body", "headers"),
    *("response_headers_to_add", "response_headers_to_remove"),
)
"""The fields that a decision on a response may have."""
MAX_PATHS: Final = 100_000
"""The largest number of members in a field of paths."""
_MOST_NAMES: Final = 5
"""The largest number of unknown fields that an error names."""
_FRAMING: Final = frozenset(
    {"connection", "content-encoding", "content-length", "content-range", "keep-alive", "te"}
    | {"trailer", "transfer-encoding", "upgrade"}
)
"""Headers that frame or encode a body; a policy must not change them."""


class ResponseVerdict(NamedTuple):
    """What a policy decided on a response. `status`, `headers` and `body` are those of a denial;
    all other fields apply to an allowed response.
    """

    allowed: bool
    status: int = FORBIDDEN
    """The HTTP status of a denial."""
    headers: Pairs = ()
    body: str = ""
    stream: bool = False
    """Pass a response whose body is not read."""
    keep: tuple[Path, ...] | None = None
    remove: tuple[Path, ...] = ()
    set: tuple[tuple[Path, Value], ...] = ()
    lists: frozenset[str] | None = None
    """The lists that are filtered; None: each one that the configuration names."""
    added: Pairs = ()
    """Headers to add to an allowed response."""
    removed: tuple[str, ...] = ()

    @property
    def reads_body(self) -> bool:
        """True if the verdict keeps, removes or sets paths of the body, or names lists to
        filter.
        """
        return self.keep is not None or bool(self.remove or self.set or self.lists)


def read_response_verdict(result: Value | Undefined) -> ResponseVerdict:
    """Return the verdict that the policy's result describes.

    Raise ResultError for a boolean or another type than an object, an unknown field, a field with a
    value of the wrong type or form, a denial whose status is below 200, 204 or 304, or a header
    that frames the body. Fields that are only for the other outcome, such as `keep` in a denial,
    are not checked.
    """
    # A policy for requests by mistake: `true` would let every response pass as it is.
    if isinstance(result, bool):
        raise ResultError(
            "the decision on the response is a boolean: it must be an object with `allow`"
        )
    document = object_of(result)
    unknown = [name for name in sorted_keys(document) if name not in FIELDS]
    # Before `allow` is read: a misspelt `remove` in an allowed response would hide nothing.
    if unknown:
        names = ", ".join([f"`{name}`" for name in unknown[:_MOST_NAMES]])
        raise failed(
            names, "unknown field of the policy's result; put helper rules into another package"
        )
    if not _read_flag(document, "allow"):
        headers = check_headers(read_headers(document, "headers", "response headers"))
        status = read_http_status(document)
        # The first do not end a response, and the others have no body.
        if status < 200 or status in (204, 304):
            raise failed(
                "response http status",
                f"a denial cannot have the status {status}: use another one, such as 403",
            )
        return ResponseVerdict(False, status, headers, read_body(document))
    subject = "response headers to send to client"
    added = check_headers(read_headers(document, "response_headers_to_add", subject))
    removed = read_names(document, "response_headers_to_remove", "response headers to remove")
    removed = [name.lower() for name in removed]
    # `_mutation` sets these by the body that is really sent.
    if not _FRAMING.isdisjoint([*removed, *[name.lower() for name, _ in added]]):
        raise failed(
            "response headers",
            "the policy must not change a header that frames the body, such as content-length",
        )
    return ResponseVerdict(
        True,
        stream=_read_flag(document, "stream"),
        keep=_read_paths(document, "keep") if "keep" in document else None,
        remove=_read_paths(document, "remove"),
        set=tuple([_read_set(each) for each in _items(document, "set")]),
        lists=_read_lists(document),
        added=added,
        removed=tuple(removed),
    )


def _read_flag(document: dict[Key, Value], name: str) -> bool:
    """Return a boolean of the result, False by default; ResultError for another type."""
    flag = document.get(name, False)
    if not isinstance(flag, bool):
        raise failed(name, "the field in the policy's result must be a boolean")
    return flag


def _items(document: dict[Key, Value], name: str) -> Iterator[Any]:
    """Yield the members of an array or set in the result; nothing if the field is missing.

    Raise ResultError for another type or more than `MAX_PATHS` members.
    """
    items: Any = document.get(name, [])
    if not isinstance(items, (list, frozenset)):
        raise failed(name, "the field in the policy's result must be an array or a set")
    if len(items) > MAX_PATHS:
        raise failed(name, f"the field in the policy's result has more than {MAX_PATHS} members")
    yield from map(from_key, items) if isinstance(items, frozenset) else items


def _read_paths(document: dict[Key, Value], name: str) -> tuple[Path, ...]:
    """Return the paths in a field of the result; `()` if it is missing, ResultError if one is
    malformed.
    """
    return tuple([_path(name, each) for each in _items(document, name)])


def _path(name: str, value: Any) -> Path:
    """Return one member of a field as a path; raise ResultError if it is malformed."""
    try:
        return read_path(value)
    except PathError as error:
        raise failed(name, str(error)) from None


def _read_set(value: Any) -> tuple[Path, Value]:
    """Return `{"path": …, "value": …}` as a pair; raise ResultError for any other form."""
    if not isinstance(value, dict) or value.keys() != {"path", "value"}:
        raise failed("set", "each member must be an object with only `path` and `value`")
    return _path("set", value["path"]), _plain(value["value"])


def _plain(value: Any) -> Value:
    """Return a copy of a value, checked to be JSON; raise ResultError for a set or a key that is
    not a text.
    """
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        if not all([isinstance(key, str) for key in value]):
            raise failed(
                "set", "a `value` must not contain an object with a key that is not a string"
            )
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, frozenset):
        # Its order would be ours, not the policy's.
        raise failed(
            "set", "a `value` must not contain a set, which JSON does not have: use an array"
        )
    return value  # type: ignore[no-any-return]  # JSON


def _read_lists(document: dict[Key, Value]) -> frozenset[str] | None:
    """Return the names of the lists to filter; None, meaning every list, if the field is missing.

    Raise ResultError if a member is not a text.
    """
    if "lists" not in document:
        return None
    names = list(_items(document, "lists"))
    if not all([isinstance(name, str) for name in names]):
        raise failed("lists", "each member must be the name of a list")
    return frozenset(names)
