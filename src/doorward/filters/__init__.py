"""Policies as filters of rows: what is left of a decision, as conditions that databases know.

    policy ─partial evaluation─▶ residual ─to_conditions─▶ conditions ─▶ UCAST, SQL, …

What cannot be a condition is a FilterError that names the expression, never a wider filter. Nothing
here opens a connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from doorward.base.exporting import exporter as _exporter

if TYPE_CHECKING:
    from doorward.filters.annotations import FilterMetadata, read_annotations
    from doorward.filters.columns import (
        Column,
        Columns,
        Kind,
        Nulls,
        Relation,
        Relations,
        to_document,
    )
    from doorward.filters.conditions import (
        Comparison,
        Conditions,
        Field,
        FilterError,
        Group,
        Some,
        fault,
        is_always,
        without_relation,
    )
    from doorward.filters.mappings import Names, names_for, short_names
    from doorward.filters.masks import Masks, read_masks
    from doorward.filters.sql import Clause, Dialect, to_sql
    from doorward.filters.sql_text import to_sql_text
    from doorward.filters.targets import PYTHON, Target, target_of
    from doorward.filters.translate import to_conditions
    from doorward.filters.ucast import to_ucast
else:
    __getattr__ = _exporter(
        __name__,
        {
            "annotations": "FilterMetadata read_annotations",
            "conditions": (
                "Comparison Conditions Field FilterError Group Some fault is_always "
                "without_relation"
            ),
            "columns": "Column Columns Kind Nulls Relation Relations to_document",
            "masks": "Masks read_masks",
            "mappings": "Names names_for short_names",
            "sql": "Clause Dialect to_sql",
            "sql_text": "to_sql_text",
            "targets": "PYTHON Target target_of",
            "translate": "to_conditions",
            "ucast": "to_ucast",
        },
        below="doorward.filters",
    )

__all__ = [
    "PYTHON",
    "Clause",
    "Column",
    "Columns",
    "Comparison",
    "Conditions",
    "Dialect",
    "Field",
    "FilterError",
    "FilterMetadata",
    "Group",
    "Kind",
    "Masks",
    "Names",
    "Nulls",
    "Relation",
    "Relations",
    "Some",
    "Target",
    "fault",
    "is_always",
    "names_for",
    "read_annotations",
    "read_masks",
    "short_names",
    "target_of",
    "to_conditions",
    "to_document",
    "to_sql",
    "to_sql_text",
    "to_ucast",
    "without_relation",
]
