"""The oracle's answers to the recorded programs and to OPA's own suite."""

from __future__ import annotations

import os
from hashlib import sha256
from typing import Any, Final

from tests.conformance.suite import Question, registry
from tests.oracle.asking import Oracle

from doorward.rego import REGISTRY, UNDEFINED, Registry, to_python

__all__ = ["EVERYTHING", "answer", "ask", "is_in_scope", "sample"]

Row = dict[str, Any]

EVERYTHING: Final = os.environ.get("DOORWARD_ORACLE") == "all"
"""Whether all rows are asked, and not a sample that is always the same."""

_LEFT_OUT: Final = frozenset({"rego_compile_error", "rego_parse_error", "rego_type_error"})
"""Errors of parsing and compiling that the oracle does not look for."""


def sample(rows: list[Row], key: str, share: int) -> list[Row]:
    """One in `share` of the rows, always the same ones."""
    if EVERYTHING:
        return rows
    return [row for row in rows if sha256(str(row[key]).encode()).digest()[0] % share == 0]


def is_in_scope(row: Row) -> bool:
    """Whether the oracle has something to say to a recorded row."""
    code = row.get("want_error_code") or (row.get("error") or {}).get("code")
    return code not in _LEFT_OUT


def answer(row: Row) -> list[dict[str, Any]]:
    """What the oracle says to a recorded program."""
    oracle = _oracle(row.get("modules", {}), row.get("data", {}), v0=bool(row.get("v0")))
    now = int(row["now_ns"]) if "now_ns" in row else None
    strict = bool(row.get("strict"))
    answers = oracle.answers(row["query"], row.get("input", UNDEFINED), strict=strict, now_ns=now)
    return [{name: to_python(value) for name, value in each.items()} for each in answers]


def ask(question: Question) -> list[dict[str, Any]]:
    """What the oracle says to a case of OPA's suite."""
    oracle = _oracle(question.modules, question.data, registry=registry)
    answers = oracle.answers(question.query, question.input, strict=question.strict)
    return [{name: to_python(value) for name, value in each.items()} for each in answers]


def _oracle(
    modules: dict[str, str], data: Any, *, v0: bool = False, registry: Registry = REGISTRY
) -> Oracle:
    metadata = any("rego.metadata." in text for text in modules.values())
    return Oracle(modules, data, v0=v0, metadata=metadata, registry=registry)
