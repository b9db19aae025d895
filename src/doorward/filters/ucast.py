"""Conditions as UCAST: the JSON that libraries of many languages read.

A number keeps its digits; where a double holds it exactly it is written as JSON libraries write it.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

from doorward.filters.conditions import Comparison, Conditions, Field, comparisons, is_always
from doorward.filters.mappings import Names
from doorward.rego import Number
from doorward.rego.shared import number_text, parse_number

__all__ = ["to_ucast"]


def to_ucast(conditions: Conditions, names: Names) -> dict[str, Any] | None:
    """Return the conditions as a UCAST tree; {} for all rows, None for no row.

    Raise FilterError for relations and groups, ValueError for a malformed mapping in `names`.
    """
    if not conditions:
        return None
    if is_always(conditions):
        return {}
    bodies = [[_node(each, names) for each in comparisons(body)] for body in conditions]
    return _compound("or", [_compound("and", nodes) for nodes in bodies])


def _compound(operator: str, nodes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a node that joins others; a single node is not wrapped, except by `not`."""
    if len(nodes) == 1 and operator != "not":
        return nodes[0]
    return {"operator": operator, "type": "compound", "value": nodes}


def _node(comparison: Comparison, names: Names) -> dict[str, Any]:
    """Return the UCAST node of a comparison, `{"field", "operator", "type": "field", "value"}`,
    with `{"field"}` as the value if that is a column. The node of a negated comparison is inside of
    a node `not`.
    """
    value = comparison.value
    node = {
        "field": ".".join(names.of(comparison.field)),
        "operator": comparison.operator,
        "type": "field",
        "value": {"field": ".".join(names.of(value))} if isinstance(value, Field) else _json(value),
    }
    return _compound("not", [node]) if comparison.negated else node


def _json(value: Any) -> Any:
    """Return a value with numbers as OPA writes them."""
    if isinstance(value, list):
        return [_json(item) for item in value]
    return _number(value) if isinstance(value, Number) else value


def _number(number: Number) -> Any:
    """Return an int or Number that JSON shows as OPA writes it: in the form of its double if the
    shortest digits of the double have the same value, else with its own digits.
    """
    text = number_text(number)
    double = float(text)
    try:
        is_exact = Decimal(repr(double)) == Decimal(text)
    except InvalidOperation:
        # An exponent that Decimal does not hold.
        is_exact = False
    if not is_exact:
        return number
    # Go's JSON writes an exponent only from 1e21 on and below 1e-6; Python's `repr` already below
    # 1e-4.
    if double.is_integer() and abs(double) < 1e21:
        return int(double)
    if 1e-6 <= abs(double) < 1e-4:
        return parse_number(format(Decimal(repr(double)), "f"))
    return parse_number(repr(double))
