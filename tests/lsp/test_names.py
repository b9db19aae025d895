"""What names stand for: each place that names the same thing, and no other."""

from __future__ import annotations

import pytest

from doorward.lsp import Policies, RenameError
from doorward.rego import Engine
from doorward.rego.shared import Span

AUTHZ = """package team.authz

import data.roles
import data.roles.admin as boss
import input.user as who

default allow := false

allow if {
    some role in roles.of[who.name]
    role == boss
    level(role) > data.limits.level
}

allow if {
    not data.team.authz.denied
    x := [y | some y in input.xs; y == input.user.id]
    every y in x {
        y > count(x)
    }
}

level(role) := n if {
    n := roles.levels[role]
} else := 0

denied if input["user"].blocked

names[role].first := role if some role in roles.of

again := names
"""
ROLES = """package roles

admin := "root"

of[user] := data.members[user] if some user, _ in data.members

levels := {"root": 3, admin: 2}
"""
TESTS = """package team.authz_test

import data.team.authz

test_allow if {
    authz.allow with input as {"user": {"name": "ann"}} with data.roles.levels as {"a": 1}
}

test_level if authz.level("x") == 0
"""


@pytest.fixture
def policies() -> Policies:
    policies_ = Policies()
    for name, text in {"authz": AUTHZ, "roles": ROLES, "tests": TESTS}.items():
        policies_.put(name, text)
    assert not any(policies_.diagnostics().values())
    return policies_


def at(text: str, part: str, skip: int = 0) -> int:
    """The offset in `part` behind its mark `|`."""
    position = -1
    for _ in range(skip + 1):
        position = text.index(part.replace("|", ""), position + 1)
    return position + part.index("|")


def shown(spans: list[Span]) -> list[str]:
    return sorted(f"{span.file}:{span.row}: {span.text}" for span in spans)


@pytest.mark.parametrize(
    ("file", "part", "expected"),
    [
        (
            "roles",
            "|admin := ",
            ["authz:4: admin", "roles:3: admin", "roles:7: admin"],
        ),
        ("authz", "== |boss", ["authz:11: boss", "authz:4: boss"]),
        (
            "authz",
            "level|(role) := n",
            ["authz:12: level", "authz:23: level", "tests:9: level"],
        ),
        ("authz", "roles.|of[who", ["authz:10: of", "authz:29: of", "roles:5: of"]),
        ("authz", "|denied if", ["authz:16: denied", "authz:27: denied"]),
        (
            "authz",
            "allow| if {",
            ["authz:15: allow", "authz:7: allow", "authz:9: allow", "tests:6: allow"],
        ),
        ("authz", "x := [|y", ["authz:17: y", "authz:17: y", "authz:17: y"]),
        ("authz", "every |y", ["authz:18: y", "authz:19: y"]),
        ("authz", "some |role in ro", ["authz:10: role", "authz:11: role", "authz:12: role"]),
        ("authz", "level(|role) :=", ["authz:23: role", "authz:24: role"]),
        ("authz", "|x := [", ["authz:17: x", "authz:18: x", "authz:19: x"]),
        ("authz", "blocked|", ["authz:27: blocked"]),
        ("authz", 'input["us|er"]', ["authz:17: user", 'authz:27: "user"', "authz:5: user"]),
        ("authz", "|names[role]", ["authz:29: names", "authz:31: names"]),
        ("roles", "|levels", ["authz:24: levels", "roles:7: levels", "tests:6: levels"]),
        ("roles", "of[|user]", ["roles:5: user", "roles:5: user", "roles:5: user"]),
        (
            "tests",
            "|authz.allow",
            [f"authz:{n}: authz" for n in (1, 16)] + [f"tests:{n}: authz" for n in (3, 6, 9)],
        ),
        ("authz", "|count", ["authz:19: count"]),
        ("authz", "|false", []),
    ],
)  # fmt: skip
def test_references_are_all_places_that_name_the_same(
    policies: Policies, file: str, part: str, expected: list[str]
) -> None:
    offset = at(policies.texts[file], part)
    assert shown(policies.references(file, offset)) == sorted(expected)
    assert set(policies.references(file, offset, definitions=False)) <= set(
        policies.references(file, offset)
    )


@pytest.mark.parametrize(
    ("file", "part", "expected"),
    [
        ("tests", "authz.|allow", ["authz:15: allow", "authz:7: allow", "authz:9: allow"]),
        ("tests", "|authz.allow", ["authz:1: authz"]),
        ("authz", "|roles.of[", ["roles:1: roles"]),
        ("authz", "== |boss", ["authz:4: boss"]),
        ("authz", "y| > count", ["authz:18: y"]),
        ("authz", "limits.|level", []),
        ("authz", "|again", ["authz:31: again"]),
        ("tests", "levels| as", ["roles:7: levels"]),
    ],
)
def test_definitions_are_where_it_is_said_what_a_name_is(
    policies: Policies, file: str, part: str, expected: list[str]
) -> None:
    assert shown(policies.definition(file, at(policies.texts[file], part))) == sorted(expected)


def test_what_stands_in_comments_and_strings_is_no_name(policies: Policies) -> None:
    policies.put("c", 'package c\n\n# allow count\np := "allow count" )\n\nq := "p"\n')
    for part in ("# al|low", '"al|low', "cou|nt\n", '"|p"'):
        offset = at(policies.texts["c"], part)
        assert policies.references("c", offset) == []
        assert policies.hover("c", offset) == ""


def renamed(policies: Policies, file: str, part: str, name: str) -> dict[str, str]:
    """The texts after a renaming."""
    texts = dict(policies.texts)
    edits = policies.renamed(file, at(texts[file], part), name)
    for changed, fixes in edits.items():
        for fix in sorted(fixes, key=lambda each: -each.start):
            text = texts[changed]
            texts[changed] = text[: fix.start] + fix.text + text[fix.end :]
    return texts


INPUT = {"user": {"name": "ann", "id": 7, "blocked": False}, "xs": [7, 8]}
DATA = {"members": {"ann": ["root"]}, "limits": {"level": 2}}


@pytest.mark.parametrize(
    ("file", "part", "name", "rule"),
    [
        ("roles", "|admin := ", "chief", "data.team.authz.allow"),
        ("authz", "== |boss", "chief", "data.team.authz.allow"),
        ("authz", "level|(role) := n", "rank", "data.team.authz.allow"),
        ("authz", "roles.|of[who", "given", "data.team.authz.allow"),
        ("authz", "x := [|y", "z", "data.team.authz.allow"),
        ("authz", "every |y", "z", "data.team.authz.allow"),
        ("authz", "some |role in roles.of[", "r", "data.team.authz.allow"),
        ("authz", "|names[role]", "people", "data.team.authz.again"),
        ("roles", "|levels", "ranks", "data.team.authz.allow"),
        ("authz", "|who.name", "somebody", "data.team.authz.allow"),
    ],
)
def test_renaming_changes_no_answer(
    policies: Policies, file: str, part: str, name: str, rule: str
) -> None:
    texts = renamed(policies, file, part, name)
    assert texts != policies.texts
    before, after = (
        Engine(dict(each), DATA).prepare(rule).value(INPUT) for each in (policies.texts, texts)
    )
    assert before == after
    assert before is True or "root" in str(before)


@pytest.mark.parametrize(
    ("file", "part", "name", "said"),
    [
        ("authz", "|count", "size", "the symbol at this position cannot be renamed"),
        ("authz", 'input["us|er"]', "person", "the symbol at this position cannot be renamed"),
        ("authz", "package team.|authz", "x", "the symbol at this position cannot be renamed"),
        ("authz", "limits.|level", "x", "the symbol at this position cannot be renamed"),
        ("authz", "|denied if", "allow", "`allow` is already the name of something else"),
        ("authz", "|denied if", "x", "`x` is already the name of something else in authz"),
        ("authz", "|x := [", "denied", "`denied` is already the name of something else in authz"),
        ("authz", "|x := [", "roles", "`roles` is already the name of something else in authz"),
        ("authz", "|denied if", "not a name", "`not a name` is not a valid name"),
        ("authz", "|denied if", "some", "`some` is not a valid name"),
        ("authz", "|denied if", "input", "`input` is not a valid name"),
    ],
)
def test_a_renaming_that_would_change_the_meaning_is_refused(
    policies: Policies, file: str, part: str, name: str, said: str
) -> None:
    with pytest.raises(RenameError, match=said):
        renamed(policies, file, part, name)


def test_while_something_is_broken_nothing_is_renamed(policies: Policies) -> None:
    policies.put("roles", f"{ROLES}\nbroken := )\n")
    with pytest.raises(RenameError, match="some policies have errors"):
        renamed(policies, "authz", "|denied if", "refused")


def test_what_can_be_renamed_is_known_before(policies: Policies) -> None:
    span = policies.renamable("authz", at(AUTHZ, "== |boss"))
    assert span is not None
    assert span.text == "boss"
    assert policies.renamable("authz", at(AUTHZ, "|count")) is None


def test_an_import_may_have_the_name_of_a_document() -> None:
    policies = Policies()
    policies.put("lib", "package lib.input\n\nuser := 1\n")
    policies.put("a", "package a\n\nimport data.lib.input\n\np if input.user == 1\n")
    offset = at(policies.texts["lib"], "|user :=")
    assert shown(policies.references("lib", offset)) == ["a:5: user", "lib:3: user"]
