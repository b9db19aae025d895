"""What an editor asks of policies, answered from their texts."""

from __future__ import annotations

import pytest

from doorward.lsp import Policies
from doorward.rego import REGISTRY, Registry, types

AUTHZ = """package authz

import data.roles as r

# Who may read.
allow if {
    some role in input.roles
    r.level(role) > 2
    startswith(role, "a")
}
"""
ROLES = "package roles\n\nlevel(name) := data.levels[name]\n"


@pytest.fixture
def policies() -> Policies:
    policies_ = Policies()
    policies_.put("authz", AUTHZ)
    policies_.put("roles", ROLES)
    return policies_


def at(text: str, part: str) -> int:
    return text.index(part) + 1


def test_policies_in_order_have_no_diagnostics(policies: Policies) -> None:
    assert policies.diagnostics() == {"authz": [], "roles": []}


def test_an_error_is_reported_at_its_file(policies: Policies) -> None:
    policies.put("roles", "package roles\n\nlevel(name) := x\n")
    diagnostic = policies.diagnostics()
    assert [each.message for each in diagnostic["roles"]] == ["var x is unsafe"]
    assert diagnostic["authz"] == []


def test_while_one_cannot_be_parsed_the_others_are_still_checked(policies: Policies) -> None:
    policies.put("roles", "package roles\n\nlevel(name) := \n\nother := x\n")
    policies.put("more", "package more\n\np := data.roles.level(1)\n\nq := y\n")
    diagnostic = policies.diagnostics()
    assert diagnostic["authz"] == []
    assert [each.message for each in diagnostic["more"]] == ["var y is unsafe"]
    assert diagnostic["roles"][0].code == "rego_parse_error"


def test_a_path_that_almost_leads_to_a_rule_is_told(policies: Policies) -> None:
    text = "package p\n\np if data.authz.alow\n\nq := data.roles.unlike\n\nr := data.authz.alow\n"
    policies.put("p", text)
    diagnostic = policies.diagnostics()["p"]
    assert [(each.code, each.message, each.hint) for each in diagnostic] == [
        ("doorward_near_name", "no rule defines data.authz.alow", "did you mean `allow`?")
    ] * 2
    assert [text[each.fix.start : each.fix.end] for each in diagnostic if each.fix] == ["alow"] * 2


def test_an_import_of_all_data_has_no_similar_path(policies: Policies) -> None:
    policies.put("p", "package p\n\nimport data\n\np if data.authz.allow\n")
    assert policies.diagnostics()["p"] == []


def test_hover_shows_signatures_and_rules(policies: Policies) -> None:
    assert "startswith(string, string) → boolean" in policies.hover("authz", at(AUTHZ, "starts"))
    shown = policies.hover("authz", at(AUTHZ, "allow"))
    assert shown == "```rego\nallow\n```\nWho may read."
    assert "level(name)" in policies.hover("authz", at(AUTHZ, "level"))
    assert policies.hover("authz", 0) == ""


def test_definitions_are_found_through_imports_and_in_the_rule(policies: Policies) -> None:
    (rule,) = policies.definition("authz", at(AUTHZ, "level"))
    assert (rule.file, rule.row) == ("roles", 3)
    (variable,) = policies.definition("authz", AUTHZ.index("role, "))
    assert (variable.file, variable.row, variable.col) == ("authz", 7, 10)
    (imported,) = policies.definition("authz", AUTHZ.index("r.level"))
    assert imported.row == 3


def test_names_are_found_while_somebody_types(policies: Policies) -> None:
    policies.put("authz", AUTHZ.replace("> 2", "> "))
    assert policies.definition("authz", at(AUTHZ, "level"))


def test_completions_go_on_from_what_is_written(policies: Policies) -> None:
    def texts(line: str) -> list[str]:
        policies.put("authz", f"{AUTHZ}\nx if {line}")
        return [c.text for c in policies.completions("authz", len(AUTHZ) + 6 + len(line))]

    assert texts("startsw") == ["startswith"]
    assert texts("io.jwt.decode_") == ["io.jwt.decode_verify"]
    assert texts("r.") == ["r.level"]
    assert texts("data.ro") == ["data.roles.level"]
    assert "allow" in texts("al")
    assert "input" in texts("in")


def test_completions_know_what_policies_read_and_what_is_at_hand(policies: Policies) -> None:
    policies.put("reads", 'package reads\n\np if input.request.http["method"] == input.user\n')

    def texts(line: str) -> list[str]:
        text = f"{AUTHZ}\nx if {{\n    some number in input.xs\n    {line}\n}}\n"
        policies.put("authz", text)
        return [c.text for c in policies.completions("authz", text.rindex(line) + len(line))]

    assert texts("input.") == ["input.request", "input.roles", "input.user", "input.xs"]
    assert texts("input.request.http.") == ["input.request.http.method"]
    assert texts("input.re") == ["input.request"]
    assert "number" in texts("num")
    assert texts('x == "num') == []
    assert texts("# num") == []
    assert "number" in texts('$"{num')
    assert "num" not in texts("num")


@pytest.mark.parametrize(
    ("line", "label", "operand"),
    [
        ("startswith(", "startswith(search: string, base: string) → boolean", 0),
        ('startswith("a(b,", ', "startswith(search: string, base: string) → boolean", 1),
        ("r.level(", "level(name)", 0),
        ("startswith(lower(", "lower(", 0),
        ("startswith(lower(x), ", "startswith(", 1),
        ("startswith([1, {2, 3}], ", "startswith(", 1),
        ("count([startswith(1, ", "startswith(", 1),
        ("print(1, ", "print(any …)", 1),
        ("nothing(", "", 0),
        ("(1, ", "", 0),
        ("x := [1, ", "", 0),
    ],
)
def test_signatures_are_shown_while_a_call_is_written(
    policies: Policies, line: str, label: str, operand: int
) -> None:
    text = f"{AUTHZ}\nx if {{\n    {line}\n"
    policies.put("authz", text)
    signatures, at_operand = policies.signatures("authz", text.index(line) + len(line))
    assert (bool(signatures), at_operand) == (bool(label), operand)
    for signature in signatures:
        assert label in signature.label
        assert all(part in signature.label for part in signature.parameters)


def test_a_signature_for_each_way_to_define_a_function(policies: Policies) -> None:
    text = "package f\n\n# One.\nf(1) := 2\n\n# Any.\nf(x) := x\n\nq := f("
    policies.put("f", text)
    signatures, _ = policies.signatures("f", len(text))
    assert [(each.label, each.doc) for each in signatures] == [("f(1)", "One."), ("f(x)", "Any.")]


def test_symbols_are_the_rules_of_a_file_and_of_all(policies: Policies) -> None:
    assert [rule.head.ref.span.text for rule in policies.rules("authz")] == ["allow"]
    assert policies.rules("nowhere") == []
    package = policies.package("authz")
    assert package is not None
    assert package.text == "package authz"
    assert [path for path, _ in policies.search("rolvel")] == ["data.roles.level"]
    assert len(policies.search("")) == 2


def test_built_ins_of_ones_own_are_known() -> None:
    registry = Registry(REGISTRY)
    registry.builtin("acme.price", types.string, returns=types.number)(lambda article: 1)
    known = Policies(registry)
    text = 'package a\n\np := acme.price("tea")\n'
    known.put("a", text)
    assert known.diagnostics() == {"a": []}
    assert "acme.price(string) → number" in known.hover("a", text.index("price"))
    (signature,), _ = known.signatures("a", text.index("tea"))
    assert signature.label == "acme.price(article: string) → number"


def test_formatting_leaves_what_cannot_be_parsed(policies: Policies) -> None:
    policies.put("roles", "package roles\n\n\np:=1\n")
    assert policies.formatted("roles") == "package roles\n\np := 1\n"
    policies.put("roles", "package roles\n\n\np:=\n")
    assert policies.formatted("roles") is None
    assert policies.formatted("unknown") is None
