"""OPA's conformance suite as pytest parameters: one case for each note."""

from __future__ import annotations

import json
import time
import tomllib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.corpora import SUITE, needs, rows

from doorward.rego import (
    REGISTRY,
    UNDEFINED,
    Engine,
    Registry,
    from_json,
    from_python,
    parse_term,
    to_json,
)
from doorward.rego.builtins.registry.signature import null, string
from doorward.rego.errors import RegoError
from doorward.rego.values import equal

__all__ = ["KNOWN_FAILURES", "Question", "fault", "parameters", "registry"]

KNOWN_FAILURES: dict[str, str] = tomllib.loads(
    (Path(__file__).parent / "known_failures.toml").read_text(encoding="utf-8")
)

registry = Registry(REGISTRY)


@registry.builtin("test.sleep", string, returns=null, pure=False)
def test_sleep(duration: str) -> None:
    """The one built-in that the suite adds for itself."""
    time.sleep(int(duration.removesuffix("ms")) / 1000)


def parameters() -> list[Any]:
    """The cases, each under its note; a note that stands twice gets a number."""
    if not SUITE.is_file():
        return [pytest.param(None, marks=needs(SUITE), id="suite")]
    seen: Counter[str] = Counter()
    actual = []
    for case in rows(SUITE):
        note = case["note"]
        seen[note] += 1
        name = note if seen[note] == 1 else f"{note} ({seen[note]})"
        reason = KNOWN_FAILURES.get(name)
        marks = [pytest.mark.xfail(reason=reason)] if reason else []
        actual.append(pytest.param(case, id=name, marks=marks))
    return actual


def fault(
    case: dict[str, Any], ask: Callable[[Question], list[dict[str, Any]]] | None = None
) -> str | None:
    """What is wrong with the answer of the engine, or of `ask`, to `case`; None if nothing."""
    try:
        got = (ask or _ask)(_question(case))
    except RegoError as error:
        return _error_fault(case, error)
    if "want_error" in case or "want_error_code" in case:
        return f"no error: {got}"
    if "want_result" not in case:
        return None
    want: Any = [_value(row) for row in case["want_result"]]
    given: Any = [from_python(row) for row in got]
    if case.get("sort_bindings"):
        want, given = _ordered(want), _ordered(given)
    # OPA's own runner compares sets of rows.
    want, given = sorted(want, key=to_json), sorted(given, key=to_json)
    return None if equal(given, want) else f"want {to_json(want)}, got {to_json(given)}"


@dataclass(frozen=True)
class Question:
    """What a case asks."""

    modules: dict[str, str]
    data: Any
    query: str
    input: Any
    strict: bool


def _question(case: dict[str, Any]) -> Question:
    modules = {f"test-{n}.rego": text for n, text in enumerate(case.get("modules") or ())}
    data = _value(case["data"]) if "data" in case else {}
    input_ = UNDEFINED
    if "input" in case:
        input_ = _value(case["input"])
    elif "input_term" in case:
        input_ = parse_term(case["input_term"])
    return Question(modules, data, case["query"], input_, case.get("strict_error", False))


def _ask(question: Question) -> list[dict[str, Any]]:
    engine = Engine(question.modules, question.data, registry=registry)
    query = engine.prepare(question.query, strict_builtin_errors=question.strict)
    return query.results(question.input)


def _error_fault(case: dict[str, Any], error: RegoError) -> str | None:
    if "want_error" not in case and "want_error_code" not in case:
        return str(error)
    code = error.diagnostics[0].code
    if case.get("want_error_code", code) != code:
        return f"want {case['want_error_code']}, got {error}"
    if case.get("want_error", "") not in str(error):
        return f"want {case['want_error']!r}, got {error}"
    return None


def _value(data: Any) -> Any:
    return from_json(json.dumps(data))


def _ordered(value: Any) -> Any:
    """`value` with its arrays in an order of our own: the suite does not care for theirs."""
    if isinstance(value, list):
        return sorted((_ordered(item) for item in value), key=to_json)
    if isinstance(value, dict):
        return {key: _ordered(item) for key, item in value.items()}
    return value
