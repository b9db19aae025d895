"""The index by itself: which rules are left for which values, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.rego.codegen.rule_index import RuleIndex, Selection, split_escaped
from doorward.rego.source import Source
from doorward.rego.syntax.parser import parse_module


def select(policy: str, **values: Any) -> Selection:
    """What is left of the rules of `policy` for the members of an input."""
    module = parse_module(Source("t.rego", f"package t\n\n{policy}"))
    chains = [[rule] for rule in module.rules]
    index = RuleIndex(chains, lambda path: path == ["t"], prints=True)
    return index.select(lambda subject: values.get(str(subject[1])))


RULES = """
p if input.a == 1

p if input.a = [1, _]

p if { input.a; print(1) }

p if { input.b == 2; input.a == x }

p if data.t
"""


@pytest.mark.parametrize(
    ("values", "want"),
    [
        # Level `a` comes first, and there what compares nothing, then what takes any value.
        ({"a": 1, "b": 2}, [2, 4, 3, 0]),
        ({"a": [1, 5], "b": 0}, [2, 4, 1, 0]),
        ({"a": [1], "b": 2}, [2, 4, 3, 0]),
        ({"a": "x", "b": 3}, [2, 4]),
    ],
)
def test_rules_are_left_in_the_order_of_their_comparisons(
    values: dict[str, Any], want: list[int]
) -> None:
    assert [number for number, _ in select(RULES, **values).chains] == want


@pytest.mark.parametrize("body", ["input.a == input", "input in input.a", "input.a = data"])
def test_a_whole_document_is_a_reference_that_is_not_indexed(body: str) -> None:
    assert [number for number, _ in select(f"p if {{ {body} }}").chains] == [0]


@pytest.mark.parametrize(
    ("body", "value", "is_left"),
    [
        ('x = input.a; x in {"k": 3, "l": 4}', 3, True),
        ('x = input.a; x in {"k": 3, "l": 4}', "k", False),
        ('x = input.a; glob.match("a/*", ["/"], x)', "a/b", True),
        ('x = input.a; glob.match("a/*", ["/"], x)', "a/b/c", False),
        ('x = input.a; glob.match("a/*", null, x)', "b", True),
        # As in OPA, which compares the text with the backslash, before it calls the built-in.
        ("x = input.a; glob.match(`a\\*b`, [`/`], x)", "a*b", False),
        ("{ input.a == 1 } or { true }", 2, True),
    ],
)
def test_members_globs_and_alternatives_are_compared(body: str, value: Any, is_left: bool) -> None:
    policy = f"import future.keywords.or\n\np if {{ {body} }}\n\np if input.a == 99\n"
    assert [number for number, _ in select(policy, a=value).chains] == ([0] if is_left else [])


def test_one_answer_is_enough_where_all_that_are_left_say_the_same() -> None:
    policy = "p := 1 if input.a == 1\n\np := 2 if input.a == 2\n\np := 1 if input.b"
    assert select(policy, a=1, b=1).one
    assert not select(policy, a=2, b=1).one
    assert not select("p contains 1 if input.a", a=1).one


def test_too_many_alternatives_are_none() -> None:
    either = [f"{{ input.a == {n} }} or {{ input.b == {n} }}" for n in range(6)]
    policy = "import future.keywords\n\np if {{ {} }}"
    assert select(policy.format(either[0]), a=9, b=9).chains == ()
    assert select(policy.format("; ".join(either)), a=9, b=9).chains == ((0, (0,)),)


@pytest.mark.parametrize(
    ("text", "want"),
    [("a/b", ["a", "b"]), ("", [""]), ("a\\/b/", ["a\\/b", ""]), ("\\\\/", ["\\\\", ""])],
)
def test_text_is_split_between_delimiters(text: str, want: list[str]) -> None:
    assert split_escaped(text, "/") == want
