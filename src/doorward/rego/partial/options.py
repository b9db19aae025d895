"""Options of partial evaluation, besides what is unknown."""

from __future__ import annotations

from typing import Final, TypedDict

from doorward.base.records import record

__all__ = ["MAX_PARTIAL", "PartialArguments", "PartialOptions"]

MAX_PARTIAL: Final = 200_000
"""The default for the most expressions that a partial evaluation may make."""


@record
class PartialOptions:
    """The options of a partial evaluation. Rules below `disable_inlining` stay references; with
    `shallow` so do all rules that use something unknown. Built-ins that are not pure stay in the
    residual, unless `nondeterministic`. `namespace`: the package of support modules below `data`;
    None: rules keep their packages, and generated ones are in `helpers`. `package` and `imports`
    apply to the query as if it were in a module. `strict_builtin_errors`: an error of a built-in
    ends the evaluation. `max_size` limits the expressions that are made. `only_truth`: the reader
    of the residual treats `false` as undefined, so that defaults of `false` are left out.
    `keep_else`: rules with `else` stay references even with `only_truth`, as in OPA.
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
