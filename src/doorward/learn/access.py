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
"""Let through, and not successful: neither use nor a denial."""

ENVOY: Final = "envoy"
LIST: Final = "list"
TEXT: Final = "text"
"""Forms of requests in an input: `attributes.request.http`, or `method` and a `path` that is a list
of segments or a text."""

Attribute: TypeAlias = tuple[str, ...]
"""Where a value is below the subject: `("claims", "department")`."""


Location: TypeAlias = tuple[tuple[str, ...], ...]
"""Where a policy has the claims and the name of a subject in its input; () for a verified token."""


class Subject(NamedTuple):
    """The caller. `values`: the texts of each attribute, in the order of attributes."""

    name: str
    values: tuple[tuple[Attribute, tuple[str, ...]], ...]
    lists: frozenset[Attribute] = frozenset()
    """Attributes whose value is a list, which can own nothing."""
    scalars: frozenset[Attribute] = frozenset()
    """Attributes whose value is a number or a boolean."""
    location: Location = ()
    form: str = ENVOY
    """That of the requests in which this is the subject."""


class Access(NamedTuple):
    """One request; `parameters` are values of query and body by `("query", name)`."""

    subject: Subject
    host: str
    method: str
    segments: tuple[str, ...]
    outcome: str
    seconds: int
    """Since the epoch; 0 where the log does not say."""
    decision_id: str
    parameters: Mapping[tuple[str, str], str]


NO_PARAMETERS: Final[Mapping[tuple[str, str], str]] = {}


def subject_key(subject: Subject) -> Any:
    """Return a key that gives subjects a total order."""
    lists, scalars = sorted(subject.lists), sorted(subject.scalars)
    return subject.name, subject.values, lists, scalars, subject.location, subject.form


def attribute_text(attribute: Attribute) -> str:
    """The name of an attribute for people: department, realm.roles."""
    return ".".join(attribute[1:] or attribute)
