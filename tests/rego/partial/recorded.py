"""The recorded residuals: each row asked of the engine, and two residuals made comparable."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from tests.waiting import PATIENCE

from doorward.rego import UNDEFINED, Engine, Number, from_python
from doorward.rego.partial.evaluate import Partial
from doorward.rego.shared import number_text

__all__ = ["Row", "comparable", "residual_of"]

Row = dict[str, Any]
_GENERATED: Final = re.compile(r"[$_].*|.*\d.*")


def residual_of(row: Row) -> tuple[Engine, Partial]:
    """The engine of a row, and what partial evaluation leaves of its query."""
    engine = Engine(row["modules"], data=from_python(row.get("data") or {}), v0=bool(row.get("v0")))
    namespace = row.get("partial_namespace") or "partial"
    partial = engine.partial(
        row["query"],
        row["unknowns"],
        from_python(row["input"]) if "input" in row else UNDEFINED,
        disable_inlining=tuple(row.get("disable_inlining") or ()),
        shallow=bool(row.get("shallow_inlining")),
        nondeterministic=bool(row.get("nondeterministic")),
        namespace=None if row.get("skip_partial_namespace") else namespace,
        imports=tuple(row.get("imports") or ()),
        strict_builtin_errors=bool(row.get("strict")),
        now_ns=row.get("now_ns"),
        deadline=PATIENCE,
    )
    return engine, partial


def comparable(ast: dict[str, Any], *, unordered: bool) -> str:
    """A residual's tree as text, up to the names of generated variables; rules in any order.

    `unordered`: queries and the expressions of a body in any order as well.
    """
    packages = sorted(
        json.dumps([module["package"], sorted(_rule(rule, unordered) for rule in module["rules"])])
        for module in ast["support"]
    )
    queries = [_body(body, unordered) for body in ast["queries"]]
    return json.dumps([sorted(queries) if unordered else queries, packages])


def _rule(rule: dict[str, Any], unordered: bool) -> str:
    if unordered:
        return json.dumps([_text(rule["head"]), _body(rule["body"], unordered)])
    return _text(rule)


def _body(body: list[Any], unordered: bool) -> str:
    if unordered:
        return json.dumps(sorted(_text({**expr, "index": 0}) for expr in body))
    return _text(body)


def _text(tree: Any) -> str:
    names: dict[str, str] = {}

    def renamed(node: Any) -> Any:
        if isinstance(node, dict):
            if node.get("type") == "var":
                return {"type": "var", "value": name(node["value"])}
            return {key: renamed(value) for key, value in node.items() if key != "generated"}
        if isinstance(node, list):
            return [renamed(item) for item in node]
        if isinstance(node, str) and node.startswith("__not"):
            return name(node)
        return number_text(node) if isinstance(node, Number) else node

    def name(text: str) -> str:
        if _GENERATED.fullmatch(text):
            return names.setdefault(text, f"generated {len(names)}")
        return text

    return json.dumps(renamed(tree), sort_keys=True)
