"""The kind of difference between two answers to the same event.

An answer allows if it is true, or an object whose `allowed`, `allow` or `decision` is true, as the
policies for Envoy, for the Docker daemon and for AuthZEN answer. Everything else refuses, errors
and undefined answers included.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from doorward.rego import UNDEFINED, Undefined, Value, from_json, to_json

__all__ = ["KINDS", "UNCHANGED", "Answer", "ListCount", "allows", "kind_of"]

UNCHANGED: Final = "unchanged"
KINDS: Final = {
    UNCHANGED: "the same answer",
    "new-allow": "refused before, allowed now",
    "new-deny": "allowed before, refused now",
    "new-error": "answered before, fails now",
    "changed": "still allowed or still refused, with another answer",
    "not-replayable": "needs data that the log does not contain",
}
"""The kinds of differences between two answers, with their meanings for reports."""

_VERDICTS: Final = ("allowed", "allow", "decision")


class ListCount(NamedTuple):
    """The counts of a filtered list in a response: `items`, the number of all its items; `shown`,
    of those that the client gets; `hidden`, a digest of the positions of the removed items.
    """

    items: int
    shown: int
    hidden: str


class Answer(NamedTuple):
    """The answer of policies to one event: `value`, UNDEFINED without a result, or `error`, the
    message of a failed evaluation. `missing`: the values that the log lacks for an answer, "" if
    none; `is_late`: True if the error is an exceeded deadline.
    """

    value: Value | Undefined = UNDEFINED
    error: str = ""
    missing: str = ""
    is_late: bool = False
    lists: Mapping[str, ListCount] | None = None
    """The counts of a response's filtered lists by name; None if they are not known."""


def kind_of(before: Answer, now: Answer) -> str:
    """Return the kind of difference, a key of `KINDS`, between two answers. An error that replaces
    an answer that allowed is `new-deny`, since an error refuses.
    """
    if before.missing or now.missing:
        return "not-replayable"
    if now.error:
        return UNCHANGED if before.error else "new-deny" if allows(before) else "new-error"
    if _is_same(before, now):
        return UNCHANGED
    if allows(before) is allows(now):
        return "changed"
    return "new-allow" if allows(now) else "new-deny"


def allows(answer: Answer) -> bool:
    """Return True if an answer allows the request; False for errors and undefined answers too."""
    value = answer.value
    if isinstance(value, dict):
        return any(value.get(name) is True for name in _VERDICTS)
    return value is True


def _is_same(before: Answer, now: Answer) -> bool:
    """Return True if two answers are equal; a set equals the array in the log, and 1 equals 1.0.

    False if the recorded decision failed, or if both have lists and these differ.
    """
    if before.error:
        return False
    if before.lists is not None and now.lists is not None and before.lists != now.lists:
        return False
    a, b = before.value, now.value
    if isinstance(a, Undefined) or isinstance(b, Undefined):
        return a is b
    if type(a) is bool or type(b) is bool:
        return a is b
    # A set is an array in the log, and a number may be written in several ways.
    return to_json(a) == to_json(b) or _equal(_as_logged(a), _as_logged(b))


def _as_logged(value: Value) -> Value:
    return from_json(to_json(value))


def _equal(a: Value, b: Value) -> bool:
    """Return True if two JSON values are equal; unlike in Python, true does not equal 1."""
    if type(a) is bool or type(b) is bool:
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all([_equal(value, b[key]) for key, value in a.items()])
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all([_equal(x, y) for x, y in zip(a, b, strict=True)])
    return a == b
