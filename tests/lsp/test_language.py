"""What an editor asks of policies, answered from their texts."""

from __future__ import annotations

import pytest

from doorward.lsp import Policies

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
    found = Policies()
    found.put("authz", AUTHZ)
    found.put("roles", ROLES)
    return found


def at(text: str, part: str) -> int:
    return text.index(part) + 1


def test_policies_in_order_have_no_diagnostics(policies: Policies) -> None:
    assert policies.diagnostics() == {"authz": [], "roles": []}


def test_an_error_is_reported_at_its_file(policies: Policies) -> None:
    policies.put("roles", "package roles\n\nlevel(name) := x\n")
    found = policies.diagnostics()
    assert [each.message for each in found["roles"]] == ["var x is unsafe"]
    assert found["authz"] == []


def test_while_one_cannot_be_parsed_the_others_are_left_alone(policies: Policies) -> None:
    policies.put("roles", "package roles\n\nlevel(name) := \n")
    found = policies.diagnostics()
    assert found["authz"] == []
    assert found["roles"][0].code == "rego_parse_error"


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


def test_formatting_leaves_what_cannot_be_parsed(policies: Policies) -> None:
    policies.put("roles", "package roles\n\n\np:=1\n")
    assert policies.formatted("roles") == "package roles\n\np := 1\n"
    policies.put("roles", "package roles\n\n\np:=\n")
    assert policies.formatted("roles") is None
