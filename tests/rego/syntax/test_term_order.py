"""The order of terms: OPA's, and equal terms have equal keys."""

from __future__ import annotations

from doorward.rego.numbers import parse_number
from doorward.rego.source import Source
from doorward.rego.syntax.nodes import Scalar, Set, Term
from doorward.rego.syntax.opa_json import term_to_json
from doorward.rego.syntax.parser import parse_module
from doorward.rego.syntax.term_order import (
    distinct,
    distinct_in_order,
    expr_rank,
    last_pairs,
    pairs_in_order,
    rank,
)


def test_bodies_are_ordered_by_what_they_contain() -> None:
    """Declarations come before terms, then calls, then `every`, whatever stands first."""
    inner = (
        *("some x; x = 1", "some x in y", "some x, z in y", "x", "x or y", "x and y", "not {x; y}"),
        *("not x", "x with input as 1", "x with input as 2", "f(x)", "every x in y {x}"),
        *("every z, x in y {x}", "x; y"),
    )
    texts = [f"[1 | {each}]" for each in inner]
    module = parse_module(
        Source(
            "p.rego",
            "package p\nimport future.keywords.and\nimport future.keywords.or\n"
            f"import future.keywords.not\nq := {{{', '.join(texts)}}}\n",
        )
    )
    value = module.rules[0].head.value
    assert isinstance(value, Set)
    orders = [expr_rank(each.body[0])[0] for each in value.items]  # type: ignore[union-attr]
    assert orders == [0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 3, 3, 1]
    assert len({rank(each) for each in value.items}) == len(texts)
    assert len(term_to_json(value)["value"]) == len(texts)


def test_of_equal_members_the_first_remains() -> None:
    one, number, text = Scalar(1), Scalar(parse_number("1.0")), Scalar("a")
    assert distinct([text, one, number]) == [text, one]
    assert distinct_in_order([text, number, one]) == [number, text]


def test_of_equal_keys_the_first_key_and_the_last_value_remain() -> None:
    one, number, text = Scalar(1), Scalar(parse_number("1.0")), Scalar("a")
    pairs: list[tuple[Term, Term]] = [(text, one), (one, text), (number, one)]
    assert last_pairs(pairs) == [(text, one), (one, one)]
    assert pairs_in_order(pairs) == [(one, one), (text, one)]
    assert isinstance(pairs_in_order(pairs)[0][0].value, int)  # type: ignore[union-attr]
