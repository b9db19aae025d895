"""`?instrument`: the names that OPA adds to its metrics, for clients that read them by name.

They count and time the operations of OPA's evaluator and the stages of its compiler. A policy that
is compiled to Python has none of those operations, so nothing was counted and no time went by.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

__all__ = ["for_compile", "for_data"]

_STAGES: Final = (
    "build_comprehension_index",
    "check_deprecated_builtins",
    "check_keyword_overrides",
    "check_safety",
    "check_types",
    "check_undefined_funcs",
    "check_unsafe_builtins",
    "check_void_calls",
    "resolve_refs",
    "rewrite_comprehension_terms",
    "rewrite_dynamic_terms",
    "rewrite_expr_terms",
    "rewrite_local_vars",
    "rewrite_print_calls",
    "rewrite_with_values",
)
_HISTOGRAM: Final = dict.fromkeys(
    (
        "75%",
        "90%",
        "95%",
        "99%",
        "99.9%",
        "99.99%",
        "count",
        "max",
        "mean",
        "median",
        "min",
        "stddev",
    ),
    0,
)


def _metrics(stages: tuple[str, ...], operations: tuple[str, ...]) -> dict[Any, Any]:
    """Return zero values under OPA's metric names of these compile stages and operations."""
    return {
        **{f"timer_query_compile_stage_{name}_ns": 0 for name in stages},
        **{f"histogram_{name}": dict(_HISTOGRAM) for name in operations},
        **{f"timer_{name}_ns": 0 for name in operations},
    }


def for_data(*, compiled: bool) -> dict[Any, Any]:
    """Return OPA's metric names for a document, with zeros; `compiled`: it was compiled for this
    request.
    """
    stages = (*_STAGES, "rewrite_to_capture_value") if compiled else ()
    operations = ("eval_op_plug", "eval_op_resolve", "eval_op_rule_index")
    return {**_metrics(stages, operations), "counter_eval_op_virtual_cache_miss": 0}


def for_compile(consulted: Collection[str]) -> dict[Any, Any]:
    """Return OPA's metric names for a partial evaluation, each with the value zero. The names of
    lookups of rules are only there if `consulted` contains "rules".
    """
    operations = (
        *_PARTIAL_OPERATIONS,
        *(("eval_op_resolve", "eval_op_rule_index") if "rules" in consulted else ()),
    )
    return _metrics((*_STAGES, "rewrite_equals"), operations)


_PARTIAL_OPERATIONS: Final = (
    "eval_op_plug",
    "partial_op_copy_propagation",
    "partial_op_save_set_contains",
    "partial_op_save_unify",
)
