"""A digest changes with the form that it is of, and with no other."""

from __future__ import annotations

import pytest
from scripts.emit_digest import FORMS, Program, digest_of

RULE = "package t\n\np if { startswith(lower(input.a), input.b); input.c == 1 }\n"


def digests(text: str, query: str = "data.t.p") -> dict[str, str]:
    program = Program("t", {"t.rego": text}, query)
    return {form: digest_of(program, form, str) for form in FORMS}


def test_each_form_has_a_digest_of_its_own() -> None:
    assert len(set(digests(RULE).values())) == len(FORMS)
    assert digests(RULE) == digests(RULE)


@pytest.mark.parametrize("form", FORMS)
def test_another_program_has_another_digest(form: str) -> None:
    other = RULE.replace("input.c == 1", "input.c == 2")
    assert digests(RULE)[form] != digests(other)[form]


def test_the_order_of_a_body_counts() -> None:
    first, second = "input.c == 1", "input.a"
    texts = [f"package t\n\np if {{ {a}; {b} }}\n" for a, b in ((first, second), (second, first))]
    assert digests(texts[0])["orders"] != digests(texts[1])["orders"]


def test_a_query_counts_where_it_is_compiled() -> None:
    one, other = digests(RULE), digests(RULE, "data.t.p == data.t.p")
    differing = {form for form in FORMS if one[form] != other[form]}
    assert differing == set(FORMS) - {"flat", "steps"}


def test_a_refused_program_has_the_digest_of_its_error() -> None:
    refused = digests("package t\n\np if x\n")
    assert len({refused[form] for form in FORMS if form != "code"}) == 1
