"""Options of partial evaluation, besides what is unknown."""

from __future__ import annotations

from typing import Final, TypedDict

from doorward.base.records import record

__all__ = ["MAX_PARTIAL", "PartialArguments", "PartialOptions"]

MAX_PARTIAL: Final = 200_000
"""Expressions that a partial evaluation makes at most, unless the caller says otherwise."""


@record
class PartialOptions:
    """Options of a partial evaluation.

    Rules below `disable_inlining` are referred to; with `shallow` all that know something unknown
    are. Built-ins that ask the world are left to the residual, unless `nondeterministic`.
    `namespace`: the package of support modules below `data`; None: rules keep their packages, and
    those that have to be made up are in `helpers`. `package` and `imports` are what the query sees
    as if it were in a module. `strict_builtin_errors`: errors of built-ins end the evaluation.
    `max_size` bounds the expressions made on the way. `only_truth`: the residual need not tell
    `false` from undefined, and needs no support for such defaults. `keep_else`: it refers to rules
    with `else` even so, as OPA's does.
    """

    disable_inlining: tuple[str, ...] = ()
    shallow: bool = False
    nondeterministic: bool = False
    namespace: str | None = "partial"
    helpers: str = "partial"
    package: str = ""
    imports: tuple[str, ...] = ()
    strict_builtin_errors: bool = False
    max_size: int = MAX_PARTIAL
    only_truth: bool = False
    keep_else: bool = False


class PartialArguments(TypedDict, total=False):
    """The fields of `PartialOptions` as keyword arguments; a test compares the two."""

    disable_inlining: tuple[str, ...]
    shallow: bool
    nondeterministic: bool
    namespace: str | None
    helpers: str
    package: str
    imports: tuple[str, ...]
    strict_builtin_errors: bool
    max_size: int
    only_truth: bool
    keep_else: bool
