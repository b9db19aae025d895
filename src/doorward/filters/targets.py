"""Targets of filters, and what each of them can express."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from doorward.base.records import record
from doorward.filters.dialects import DIALECTS

__all__ = ["PYTHON", "Target", "target_of", "unsupported"]

_COMPARISONS: Final = frozenset({"eq", "neq", "lt", "lte", "gt", "gte"})
_LISTS: Final = _COMPARISONS | {"internal.member_2"}
_ALL: Final = _LISTS | {"startswith", "endswith", "contains"}
_SQL: Final = frozenset({"not", "field-ref"})


@record
class Target:
    """A language that filters are written in, with the built-ins and features that it can express.

    `kind` is `ucast` or `sql`, `variant` the UCAST variant or SQL dialect.
    """

    kind: str
    variant: str
    builtins: frozenset[str]
    features: frozenset[str]
    shown: str
    """The name of the target in error messages."""

    def lacks_builtin(self, name: str) -> bool:
        return name not in self.builtins


def _sql(dialect: str) -> Target:
    builtins = _ALL if DIALECTS[dialect].has_patterns else _LISTS
    return Target("sql", dialect, builtins, _SQL, f"SQL ({dialect})")


_TARGETS: Final = {("sql", name): _sql(name) for name in DIALECTS} | {
    ("ucast", "all"): Target("ucast", "all", _ALL, _SQL, "UCAST (all)"),
    ("ucast", "prisma"): Target("ucast", "prisma", _ALL, frozenset({"not"}), "UCAST (prisma)"),
    ("ucast", "linq"): Target("ucast", "linq", _LISTS, frozenset(), "UCAST (LINQ)"),
    ("ucast", "minimal"): Target("ucast", "minimal", _COMPARISONS, frozenset(), "UCAST"),
}

PYTHON: Final = Target("python", "", _ALL, _SQL, "Python")
"""The target for callers in the same process: it supports every condition."""


def target_of(kind: str, variant: str) -> Target:
    """Return the target of a kind and a variant, which may be in any case; an unknown UCAST variant
    is `minimal`.

    Raise ValueError in OPA's words for others.
    """
    target = _TARGETS.get((kind, variant.lower()))
    if target is not None:
        return target
    if kind == "ucast":
        return _TARGETS["ucast", "minimal"]
    if kind == "sql":
        raise ValueError(f"unsupported variant for sql: {variant}")
    raise ValueError(f"unknown target/dialect combination: {kind}/{variant}")


def unsupported(targets: Iterable[Target], name: str) -> str:
    """Return an error text with the targets that do not support the built-in `name`; "" if all
    do.
    """
    return "\n".join(
        f"unsupported for {each.shown}" for each in targets if each.lacks_builtin(name)
    )


def missing_feature(targets: Iterable[Target], feature: str) -> str:
    """Return an error text with the targets that do not support a feature; "" if all do."""
    return "\n".join(
        f'unsupported feature "{feature}" for {each.shown}'
        for each in targets
        if feature not in each.features
    )
