"""Template strings in bodies: what they need of the expressions around them."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.rego import CompileError, Engine, Registry


def answer(body: str) -> Any:
    return Engine({"t.rego": f"package t\n\np := x if {{ {body} }}"}).prepare("data.t.p").value({})


@pytest.mark.parametrize(
    ("part", "text"),
    [("[n | true]", "[1]"), ("count([n | true])", "1"), ("[[n | true] | true]", "[[1]]")],
)
def test_a_comprehension_waits_for_what_the_body_binds_later(part: str, text: str) -> None:
    assert answer(f'x := $"<{{{part}}}>"; n = 1') == f"<{text}>"
    assert answer(f'n = 1; x := $"<{{{part}}}>"') == f"<{text}>"


def test_what_a_comprehension_binds_itself_is_its_own() -> None:
    assert answer('x := $"{[n | some n in [2]]}"; n = 1') == "[2]"


@pytest.mark.parametrize("part", ["x", "[x | true]", "[y | y = x]"])
def test_a_template_cannot_be_made_of_itself(part: str) -> None:
    with pytest.raises(CompileError, match="var x is unsafe"):
        answer(f'x = $"{{{part}}}"')


@pytest.mark.parametrize(
    ("body", "is_refused"),
    [
        ('w == 1; $"x{w}" == "x"; w.c', False),
        ('w == -1; w.c < $"x{w}"', False),
        ('w == {"a": 1}; $"{w with input as 1}" == "x"; w.c', False),
        ('w == 1; not $"x{w}" == "y"; w.c', False),
        ('w == 1; w.c; $"x{w}" == "x"', True),  # read before
        ('w == 1; $"x{[w]}" == "x"; w.c', True),
        ('w == 1; $"{$"{w}"}" == "x"; w.c', True),
        ('w == 1; y := [$"{w}" | true]; w.c', True),
        ('w == 1; u := w; $"x{w}" == "x"; u.c', True),
        ('w == 1; $"x{w}" == 1', True),
    ],
)
def test_a_variable_in_a_template_may_be_anything_afterwards(body: str, is_refused: bool) -> None:
    """As in OPA, for which a template is a call with `{w}` in an operand of type any."""
    text = f"package a\n\nt(w) := 1 if {{ {body} }}\n"
    if is_refused:
        with pytest.raises(CompileError, match="rego_type_error"):
            Engine({"a.rego": text})
    else:
        Engine({"a.rego": text})


def test_a_template_needs_no_built_in_in_the_registry() -> None:
    policy = 'package t\n\np := $"{input.x}!"\n'
    engine = Engine({"t.rego": policy}, registry=Registry())
    assert engine.prepare("data.t.p").value({"x": 1}) == "1!"
