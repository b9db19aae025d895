"""Immutable values that are made in great numbers: immutable to the type checker.

A frozen dataclass writes each field through `object.__setattr__`, which makes it three times as
slow to create as one that is not; a build creates hundreds of thousands of spans and nodes. A
`record` is frozen for mypy and for readers, compared and hashed by its fields, and at run time a
plain dataclass with slots. What is created once or seldom stays `@dataclass(frozen=True)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

__all__ = ["record"]

_C = TypeVar("_C")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[_C]) -> type[_C]:
    """The dataclass that `cls` declares, with slots, equality and a hash."""
    # A class that says itself what is equal says itself how that is hashed.
    own_hash = cls.__dict__.get("__hash__") is not None
    return dataclass(slots=True, unsafe_hash=not own_hash)(cls)
