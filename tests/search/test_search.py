"""Requests that two versions decide differently are found, made small, and proved by a test."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from random import Random
from time import thread_time
from typing import Any

import pytest

from doorward.bundles.loader import Loaded
from doorward.cli import diff
from doorward.cli.main import run
from doorward.rego import Engine, Value
from doorward.replay.compare import allows
from doorward.replay.deciding import Version
from doorward.replay.events import Event
from doorward.search import Search, are_same, entry_points, rego_test
from doorward.search import search as search_for
from doorward.search.candidates import Candidates
from doorward.search.shape import shape_of
from doorward.testing import Suite
from doorward.testing import run as run_tests

search = partial(search_for, clock=thread_time)
"""By the processor's time, which what else runs on the machine does not take."""

OLD = """package app

default allow := false

allow if {
	http.method == "GET"
	glob.match("/people/*", ["/"], http.path)
	some role in input.user.roles
	role in data.readers
}

allow if {
	claims.role == "admin"
	count(input.items) > 2
}

claims := payload if {
	[_, token] := split(http.headers.authorization, " ")
	[verified, _, payload] := io.jwt.decode_verify(token, {"secret": secret})
	verified
}

secret := data.secret

http := input.request.http

listed if regex.match(`^v[0-9]+$`, lower(input.version))
"""
DATA: Any = {"readers": ["guest", "owner"], "secret": "s3cret"}


def version(source: str) -> Version:
    return Version.compile(Loaded({"p.rego": source}, DATA))


def searched(new: str, path: str = "app/allow", **options: Any) -> Search:
    def is_enough(result: Search) -> bool:
        return bool(result.findings)

    return search(version(OLD), version(new), [path], seconds=20, is_enough=is_enough, **options)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ('== "GET"', '!= "GET"', "new-allow"),
        ('"/people/*"', '"/people/**"', "new-allow"),
        ("role in data.readers", 'role == "guest"', "new-deny"),
        ("> 2", ">= 2", "new-allow"),
        ('== "admin"', '== "guest"', "new-deny"),
        ("	verified\n", "", ""),
    ],
)
def test_a_changed_condition_is_found(old: str, new: str, kind: str) -> None:
    if not kind:
        # What does not verify has no claims: the change means nothing.
        result = search(version(OLD), version(OLD.replace(old, new)), ["app/allow"], seconds=0.2)
        assert result.findings == []
        assert result.candidates > 100
        return
    kinds = {kind, "new-allow", "new-deny"}
    (finding,) = searched(OLD.replace(old, new), most=1).findings
    assert finding.kind in kinds
    assert allows(finding.new) is (finding.kind == "new-allow")


def test_a_finding_is_small_and_both_engines_agree_on_it() -> None:
    new = OLD.replace("[0-9]+", "[0-9]*")
    (finding,) = searched(new, "app/listed", most=1).findings
    assert finding.input in ({"version": "v"}, {"version": "V"})
    answers = [Engine({"p": text}, DATA).prepare("data.app.listed") for text in (OLD, new)]
    assert answers[1].value(finding.input) is True
    assert answers[0].value(finding.input) is not True


@pytest.mark.parametrize("change", [('== "GET"', '!= "GET"'), ("> 2", "> 3"), ("[0-9]+", "[0-9]*")])
def test_the_test_of_a_finding_holds_for_the_new_version_only(change: tuple[str, str]) -> None:
    new = OLD.replace(*change)
    path = "app/listed" if change[0] == "[0-9]+" else "app/allow"
    (finding,) = searched(new, path, most=1).findings
    module = f"package app_test\n\n{rego_test(finding)}\n"
    outcomes = {}
    for name, source in (("old", OLD), ("new", new)):
        suite = Suite(Loaded({"p.rego": source, "p_test.rego": module}, DATA))
        outcomes[name] = [result.outcome for result in run_tests(suite)]
    assert outcomes == {"old": ["FAIL"], "new": ["PASS"]}


@pytest.mark.parametrize(
    "condition",
    [
        "count({[1 | input.a], [1 | input.NAME]}) == 1",
        "count({{x: 1 | x := input.a}: 1, {x: 1 | x := input.NAME}: 2}) == 1",
        'count({$"{input.a}", $"{input.NAME}"}) == 1',
    ],
)
def test_versions_with_another_member_of_a_set_are_not_the_same(condition: str) -> None:
    texts = [
        f"package app\n\nallow if {{ {condition.replace('NAME', name)} }}\n" for name in ("a", "b")
    ]
    assert are_same(version(texts[0]), version(texts[0]))
    assert not are_same(version(texts[0]), version(texts[1]))


def test_the_shape_knows_what_is_compared_where() -> None:
    material = shape_of([version(OLD).snapshot.engine])
    locations = dict(material.shape.locations())
    assert list(locations["request", "http", "method"].values.values()) == ["GET"]
    assert {"guest", "owner"} <= set(locations["user", "roles", "*"].values.values())
    assert "/people/a" in locations["request", "http", "path"].values.values()
    assert "v0" in locations["version",].values.values()
    token = locations["request", "http", "headers", "authorization"]
    assert list(token.secrets) == ["s3cret"]
    assert token.claims is not None
    assert list(token.claims.below("role").values.values()) == ["admin"]
    sizes = [len(each) for each in locations["items",].values.values() if isinstance(each, list)]
    assert sorted(sizes) == [2, 3]


def test_names_and_values_that_stand_in_data_are_followed() -> None:
    policy = """package p

allow if {
	some rule in data.rules
	every condition in rule.conditions { holds(condition) }
}

holds(condition) if input[condition.document][condition.attribute] == condition.value

scopes := {scope | some scope in split(input.scope, " ")}

granted if {
	some scope in scopes & {"a"}
	scope == "read:all"
}
"""
    conditions = [{"document": "subject", "attribute": "role", "value": "owner"}]
    data: Any = {"rules": [{"conditions": conditions}]}
    engine = Engine({"p.rego": policy}, data)
    locations = dict(shape_of([engine]).shape.locations())
    assert "owner" in locations["subject", "role"].values.values()
    assert "read:all" in locations["scope",].values.values()


EXCHANGE = """package exchange

token := {"payload": io.jwt.decode(input.token)[1]}

claims := token.payload if io.jwt.verify_hs256(input.token, data.secret)

granted contains scope if {
	some scope in wanted & given
	regex.match(`^[a-z]+:[a-z]+$`, scope)
}

wanted := {scope | some scope in split(input.scope, " ")}

given := {scope | some scope in split(claims.scope, " ")}

mine if input.path == ["users", claims.sub]

whole if indexof(json.marshal(claims.exp), ".") == -1
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[a-z]+$", "[a-z]*$"),
        ('["users", claims.sub]', '["users", claims.scope]'),
        ("== -1", ">= -1"),
    ],
)
def test_what_is_compared_with_the_claims_of_a_token_is_found(old: str, new: str) -> None:
    versions = version(EXCHANGE), version(EXCHANGE.replace(old, new))

    def is_enough(result: Search) -> bool:
        return bool(result.findings)

    result = search(*versions, entry_points(versions), seconds=30, most=1, is_enough=is_enough)
    assert len(result.findings) == 1


def test_places_that_are_compared_know_each_other() -> None:
    locations = dict(shape_of([version(EXCHANGE).snapshot.engine]).shape.locations())
    claims = ("token", "<claims>")
    assert locations["scope",] in locations[*claims, "scope"].peers
    assert locations[*claims, "sub"] in locations["path", "*"].peers
    assert ["users", "a"] in locations["path",].values.values()
    assert list(locations["token",].secrets) == ["s3cret"]


def test_many_conditions_that_are_in_data_are_met_one_after_the_other() -> None:
    policy = """package p

allow if {
	some rule in data.rules
	every condition in rule { input[condition.name] == condition.value }
}
"""
    data: Any = {"rules": [[{"name": f"n{n}", "value": f"v{n}"} for n in range(5)]]}
    old, new = (
        Version.compile(Loaded({"p.rego": text}, data))
        for text in (policy, policy.replace("allow if {", "allow if {\n\tfalse"))
    )
    result = search(
        old, new, ["p/allow"], seconds=30, most=0, is_enough=lambda each: each.different > 0
    )
    assert result.different == 1


def test_documents_are_searched_in_turns() -> None:
    """The second of two documents does not wait until the time of the first is over."""
    new = OLD.replace("[0-9]+", "[0-9]*")
    result = search(
        version(OLD),
        version(new),
        ["app/allow", "app/listed"],
        seconds=60,
        is_enough=lambda each: each.different > 0,
    )
    assert result.different == 1
    assert result.seconds < 30


def test_the_same_seed_makes_the_same_candidates_and_changes_none() -> None:
    def inputs_of(seed: int) -> list[Value]:
        candidates = Candidates(shape_of([version(OLD).snapshot.engine]), Random(seed))
        inputs = []
        for _ in range(200):
            inputs.append(candidates.new())
            candidates.keep(inputs[-1])
        shown = [json.dumps(each) for each in inputs]
        for _ in range(200):
            candidates.new()
        assert [json.dumps(each) for each in inputs] == shown
        return inputs

    assert inputs_of(1) == inputs_of(1)
    assert inputs_of(1) != inputs_of(2)


def test_inputs_of_tests_are_tried_too() -> None:
    tests = 'package t\n\ntest_a if data.app.allow with input as {"odd": {"deep": [1, "x"]}}\n'
    engine = Engine({"p.rego": OLD, "t.rego": tests}, DATA)
    assert shape_of([engine]).examples == [{"odd": {"deep": [1, "x"]}}]


@pytest.mark.parametrize("source", ["in data", "in a rule beside it"])
def test_inputs_of_a_test_are_those_of_each_version(source: str) -> None:
    tests = (
        "package t\n\ntest_a if {\n\tsome case in cases\n\tdata.app.allow with input as case\n}\n"
    )
    engines = []
    for odd in ("x", "y"):
        cases = [{"odd": odd}]
        rule = "cases := data.cases" if source == "in data" else f"cases := {json.dumps(cases)}"
        data = {**DATA, "cases": cases} if source == "in data" else DATA
        engines.append(Engine({"p.rego": OLD, "t.rego": f"{tests}\n{rule}\n"}, data))
    assert shape_of(engines).examples == [{"odd": "x"}, {"odd": "y"}]


def test_rules_that_nobody_asks_are_entry_points() -> None:
    assert entry_points([version(OLD)]) == ["app/allow", "app/listed"]
    assert entry_points([version(OLD), version("package app\n\nallow := 1")]) == ["app/allow"]


def test_documents_that_properties_ask_are_entry_points() -> None:
    source = "package app\n\nallow if input.a\n\nnever_x if {\n\tallow\n\tinput.x\n}\n"
    assert entry_points([version(source)]) == ["app/allow"]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for name, source in (("old", OLD), ("new", OLD.replace("> 2", "> 0"))):
        (tmp_path / f"{name}.rego").write_text(source)
    (tmp_path / "data.json").write_text(json.dumps(DATA))
    names = ("old.rego", "new.rego")
    return ["-d", str(tmp_path / "data.json"), *[str(tmp_path / name) for name in names]]


@pytest.mark.long
def test_the_command_reports_and_ends_with_what_ci_needs(
    files: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diff, "search", search)
    given = ["--query", "data.app.allow", "--time", "1s", *files]
    assert run(["diff", "--format", "json", "--fail-on", "new-allow", *given]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["findings"][0]["kind"] == "new-allow"
    assert document["findings"][0]["rule"].endswith("data.app.allow")
    assert document["tried"] > 0
    assert run(["diff", "--fail-on", "new-deny", *given]) == 0
    assert "requests tried" in capsys.readouterr().out
    assert run(["diff", "--format", "markdown", *given]) == 0
    assert "```rego" in capsys.readouterr().out


def test_versions_without_a_common_document_are_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.rego").write_text(f"package {name}\n\np := 1\n")
    assert run(["diff", str(tmp_path / "a.rego"), str(tmp_path / "b.rego")]) == 1
    assert "no document in common" in capsys.readouterr().err


def test_time_that_runs_out_is_no_difference() -> None:
    slow = "count([1 | some i in numbers.range(1, 500); some j in numbers.range(1, 500)]) > 0"
    sources = "allow if input.x == 1", f"allow if {{ input.x == 1; {slow} }}"
    old, new = (
        Version.compile(Loaded({"p.rego": f"package app\n\n{each}\n"}, {}), deadline=0.001)
        for each in sources
    )
    result = search(old, new, ["app/allow"], seconds=0.1)
    assert (result.different, result.findings) == (0, [])
    assert new.answer(_event({"x": 1})).is_late


def _event(input: Any) -> Event:
    return Event("", "app/allow", "", input, None, False, 0, (), {}, {})


def test_a_query_for_what_is_not_there_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.rego").write_text("package app\n\nallow if input.x\n")
    files = [str(tmp_path / "p.rego")] * 2
    assert run(["diff", "--query", "data.app.alow", *files]) == 1
    assert "neither version has data.app.alow" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("new", "options", "code"),
    [
        ("package p\n\n# the same\na  if input.x == 1\n", [], 0),
        ("package p\n\na if input.x == 1.0\n", [], 3),
        ("package p\n\na if input.x == 2\n", [], 0),
        ("package p\n\na if input.x == 2\n", ["--fail-on", "change"], 2),
        ("package p\n\na if input.x in {1}\n", [], 3),
        ("package p\n\na if input.x in {1}\n", ["--searched"], 0),
        (f'package p\n\na if {{ input.x == 1; crypto.md5(input.y) == "{"0" * 32}" }}\n', [], 0),
        (f'package p\n\na if {{ input.x == 1; crypto.md5(input.y) != "{"0" * 32}" }}\n', [], 0),
        (
            'package p\n\na if input.x == 1\n\na if crypto.md5(input.y) == "0"\n',
            ["--searched"],
            3,
        ),
    ],
)
def test_no_finding_ends_with_0_only_where_that_is_known(
    tmp_path: Path, new: str, options: list[str], code: int
) -> None:
    (tmp_path / "a.rego").write_text("package p\n\na if input.x == 1\n")
    (tmp_path / "b.rego").write_text(new)
    files = [str(tmp_path / name) for name in ("a.rego", "b.rego")]
    assert run(["diff", "--query", "data.p.a", "--time", "300ms", *options, *files]) == code


@pytest.mark.long
def test_what_was_never_reached_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.rego").write_text("package p\n\na if input.x == 1\n")
    added = 'a if {\n\tcrypto.md5(input.y) == "0"\n\tinput.z\n}\n'
    (tmp_path / "b.rego").write_text(f"package p\n\na if input.x == 1\n\n{added}")
    files = [str(tmp_path / name) for name in ("a.rego", "b.rego")]
    assert run(["diff", "--time", "2s", *files]) == 3
    shown, error = capsys.readouterr()
    assert error == (
        "no difference was found, but requests that were not tried may differ: "
        "search longer with --time\n"
    )
    assert 'b.rego:6 `crypto.md5(input.y) == "0"`' in shown
    assert "no request reached this: " in shown
    assert "Conditions on results of crypto.md5 can be met by chance only." in shown


def test_what_prepares_a_negation_is_no_expression_of_its_own() -> None:
    text = "package p\n\na if {\n\tinput.x == 1\n\tnot lower(input.y) in data.closed\n}\n"
    old, new = (
        Version.compile(Loaded({"p.rego": each}, {"closed": ["b"]}))
        for each in ("package p\n\na if input.x == 1\n", text)
    )
    result = search(old, new, ["p/a"], seconds=20, is_enough=lambda each: bool(each.findings))
    assert {each.text for each in result.reach} == {
        "input.x == 1",
        "not lower(input.y) in data.closed",
    }


def test_a_constant_that_only_one_version_has_is_tried_first() -> None:
    names = ", ".join(f'"act.{number}"' for number in range(200))
    old = (
        "package p\n\nallow if {\n\tinput.action in actions\n\tinput.body.a == [1, 2]\n"
        '\tinput.body.b.c == "x"\n}\n\n'
        f"actions := {{{names}}}\n\n"
        "test_a if allow with input as "
        '{"action": "act.7", "body": {"a": [1, 2], "b": {"c": "x"}}}\n'
    )
    new = old.replace("actions := {", 'actions := {"act.new", ')
    versions = [Version.compile(Loaded({"p.rego": each}, {})) for each in (old, new)]
    result = search(
        versions[0], versions[1], ["p/allow"], seconds=20, is_enough=lambda each: each.different > 0
    )
    assert result.findings[0].input["action"] == "act.new"
    assert result.candidates < 1_000
