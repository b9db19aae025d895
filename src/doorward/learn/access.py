"""One event of any log as the learner sees it: who did what, and how it ended.

An `Access` has one form for decision logs, access logs and audit logs, so that nothing behind it
knows where an event came from. Its values are those of a log: anybody who can send a request can
choose some of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

__all__ = [
    "ALLOWED",
    "DENIED",
    "ENVOY",
    "FAILED",
    "LIST",
    "NO_PARAMETERS",
    "TEXT",
    "Access",
    "Attribute",
    "Location",
    "Subject",
    "attribute_text",
    "subject_key",
]

ALLOWED: Final = "allowed"
DENIED: Final = "denied"
FAILED: Final = "failed"
"""The kind of an event that was allowed but did not succeed: it counts neither as use nor as a
denial.
"""

ENVOY: Final = "envoy"
LIST: Final = "list"
TEXT: Final = "text"
"""The forms of requests in an input: `attributes.request.http`, or `method` and a `path` that is a
list of segments or a text.
"""

Attribute: TypeAlias = tuple[str, ...]
"""The path of an attribute's value below the subject: `("claims", "department")`."""


Location: TypeAlias = tuple[tuple[str, ...], ...]
"""The path in the input at which a policy has the claims or the name of a subject; () for a
verified token.
"""


class Subject(NamedTuple):
    """The caller of a request. `values`: the texts of each attribute, in the order of
    attributes.
    """

    name: str
    values: tuple[tuple[Attribute, tuple[str, ...]], ...]
    lists: frozenset[Attribute] = frozenset()
    """Attributes of the subject whose value is a list; such an attribute cannot name the owner of a
    thing.
    """
    scalars: frozenset[Attribute] = frozenset()
    """Attributes of the subject whose value is a number or a boolean."""
    location: Location = ()
    form: str = ENVOY
    """The form of the requests in which this subject was seen."""


class Access(NamedTuple):
    """One request of a log; `parameters` are values of its query and body by `("query", name)`."""

    subject: Subject
    host: str
    method: str
    segments: tuple[str, ...]
    outcome: str
    seconds: int
    """The time of the request in seconds since the epoch; 0 if the log does not say."""
    decision_id: str
    parameters: Mapping[tuple[str, str], str]


NO_PARAMETERS: Final[Mapping[tuple[str, str], str]] = {}


def subject_key(subject: Subject) -> Any:
    """Return a key that gives subjects a total order."""
    lists, scalars = sorted(subject.lists), sorted(subject.scalars)
    return subject.name, subject.values, lists, scalars, subject.location, subject.form


def attribute_text(attribute: Attribute) -> str:
    """Return the name of an attribute for people: `("claims", "realm", "roles")` becomes
    `realm.roles`.
    """
    return ".".join(attribute[1:] or attribute)
