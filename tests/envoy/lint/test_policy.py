"""Policies that fail open are found; ones that say the same safely are not."""

from __future__ import annotations

import pytest

from doorward.envoy.lint.finding import RULES
from doorward.envoy.lint.policy import check_policies

HEAD = """package a

import input.attributes.request.http as request

http := input.attributes.request.http
default allow := false
cut if input.truncated_body
"""
GUILTY = [
    ("policy-open-without-body", "allow if not input.parsed_body.admin"),
    ("policy-open-without-body", 'allow if not input.parsed_body.role == "admin"'),
    ("policy-open-without-body", "allow if { not `admin` == http.body }"),
    ("policy-open-without-header", 'allow if not http.headers["x-blocked"]'),
    ("policy-open-without-header", "allow if not request.headers.authorization"),
    ("policy-header-list", 'allow if http.headers["x-role"] == "admin"'),
    ("policy-header-list", 'allow if request.headers["x-role"] != "guest"'),
    ("policy-path-query", 'allow if endswith(http.path, ".css")'),
    ("policy-path-query", 'allow if contains(request.path, "/public")'),
    ("policy-path-query", 'allow if regex.match("public", http.path)'),
    ("policy-path-query", 'allow if http.path != "/admin"'),
    ("policy-path-query", 'allow if not startswith(http.path, "/admin")'),
    ("policy-slow-http-send", 'allow if http.send({"method": "GET", "url": "x"}).body.ok'),
    ("policy-slow-http-send", 'allow if http.send({"url": "x", "timeout": "1s"}).body.ok'),
    ("policy-slow-http-send", 'allow if http.send({"url": "x", "timeout": 500000000}).body.ok'),
    ("policy-secret", 'allow if io.jwt.verify_hs256(http.headers.authorization, "secret")'),
    ("policy-secret", 'allow if io.jwt.decode_verify(input.token, {"secret": "x"})[0]'),
    ("policy-unverified-token", "allow if io.jwt.decode(input.token)[1].admin"),
]
INNOCENT = [
    "allow if input.parsed_body.admin == false",
    "allow if not cut",
    'allow if http.headers.authorization == "x"',
    "allow if { not contains(http.body, `admin`) }",
    'allow if not http.headers["x-blocked"] in {"yes"}',
    'allow if "admin" in split(http.headers["x-role"], ",")',
    'allow if startswith(http.path, "/public/")',
    'allow if http.path == "/public"',
    'allow if regex.match("^/public/", http.path)',
    'allow if glob.match("/people*", [], http.path)',
    'allow if http.send({"url": "x", "timeout": "100ms"}).body.ok',
    'allow if io.jwt.decode_verify(input.token, {"secret": data.secrets.jwt})[0]',
    "allow if { io.jwt.decode(input.token)[1].admin; io.jwt.verify_rs256(input.token, data.k) }",
]


def rules_broken_by(*texts: str, timeout: float = 0.5) -> list[tuple[str, int]]:
    files = [(f"{number}.rego", 0, text) for number, text in enumerate(texts)]
    return [(finding.rule, finding.line) for finding in check_policies(files, timeout=timeout)]


@pytest.mark.parametrize(("rule", "line"), GUILTY)
def test_a_rule_that_fails_open_is_found(rule: str, line: str) -> None:
    at = 1 if rule == "policy-unverified-token" else len(HEAD.splitlines()) + 1
    assert rules_broken_by(HEAD + line + "\n") == [(rule, at)]


@pytest.mark.parametrize("line", INNOCENT)
def test_a_rule_that_fails_closed_is_not(line: str) -> None:
    assert rules_broken_by(HEAD + line + "\n") == []


def test_an_import_may_have_the_name_of_the_input() -> None:
    text = """package a

import data.lib.input

default allow := false
allow if not input.attributes.request.http.headers["x-blocked"]
"""
    assert rules_broken_by(text) == []


def test_a_default_that_allows_is_found() -> None:
    assert rules_broken_by("package a\n\ndefault allow := true\n") == [("policy-default", 3)]


def test_a_decision_needs_a_default_somewhere_in_its_package() -> None:
    assert rules_broken_by("package a\n\nallow if input.x\n") == [("policy-no-default", 3)]
    assert (
        rules_broken_by("package a\n\nallow if input.x\n", "package a\n\ndefault allow := false\n")
        == []
    )


def test_a_missing_default_is_found_in_the_file_of_the_decision() -> None:
    texts = [
        ("other.rego", 0, "package a\n\nother if input.x\n"),
        ("decision.rego", 10, "package a\n\nallow if input.x\n"),
    ]
    findings = [(each.file, each.line, each.rule) for each in check_policies(texts)]
    assert findings == [("decision.rego", 13, "policy-no-default")]


def test_who_reads_bodies_must_look_whether_they_are_whole() -> None:
    text = "package a\n\ndefault allow := false\nallow if input.parsed_body.x == 1\n"
    assert rules_broken_by(text) == [("policy-truncated-body", 1)]
    assert rules_broken_by(text + "deny if input.truncated_body\n") == []


def test_a_policy_that_cannot_be_read_is_found() -> None:
    assert rules_broken_by("package a\n\nallow := = 1\n") == [("unreadable", 3)]


def test_every_rule_about_policies_is_proven() -> None:
    proven = {rule for rule, _ in GUILTY}
    proven |= {"policy-default", "policy-no-default", "policy-truncated-body"}
    assert proven == {rule for rule in RULES if rule.startswith("policy-")}


@pytest.mark.parametrize("name", ["never_without_a_body", "test_without_a_body"])
def test_properties_and_tests_decide_nothing(name: str) -> None:
    condition = "if { allow; not input.parsed_body.admin }\n"
    assert rules_broken_by(f"{HEAD}{name} {condition}") == []
    assert rules_broken_by(f"{HEAD}{name.replace('_', 'x')} {condition}") != []
