"""Paths come from clients: what is prepared for them is bounded in time, number and size."""

from __future__ import annotations

import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from tests.waiting import PATIENCE

from doorward.bundles.loader import Loaded
from doorward.pdp import snapshot as module
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import Settings, Snapshot, build, document_ref
from doorward.rego import UNDEFINED, CompileError, Engine, EvalError

POLICY = """\
package a.b

allow if input.user == "ann"

parts[x] := x if some x in ["p", "q/r", "0"]

f(x) := x

names contains "n"

list := [10, 20]

open[x] := y if some x, y in input.open

odd["odd-key"] := 1
"""
NUMBERS = 'package numbers\n\nby[0] := 1\n\nby["0"] := 2\n'
DATA: dict[Any, Any] = {
    "a": {"users": {"ann": {"roles": [1, {"x": False}]}, "0": "zero"}, "c": None},
    "list": [[], {"k": [0]}],
    "text": "t",
    "0": {"1": "one"},
}


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries that were prepared."""
    texts: list[str] = []
    prepare = Engine.prepare

    def noting(self: Engine, query: str, **options: Any) -> Any:
        texts.append(query)
        return prepare(self, query, **options)

    monkeypatch.setattr(Engine, "prepare", noting)
    return texts


def snapshot_of(policy: str = POLICY, **settings: Any) -> Snapshot:
    modules = {"a.rego": policy, "n.rego": NUMBERS}
    return build(Loaded(modules, dict(DATA)), Settings(**settings))


PATHS = [
    "",
    "a",
    "a/b",
    "a/b/allow",
    "a/b/allow/x",
    "a/b/parts/p",
    ("a", "b", "parts", "q/r"),
    "a/b/parts/0",
    "a/b/f",
    "a/b/f/x",
    "a/b/names/n",
    "a/b/list/1",
    "a/b/list/9",
    "a/b/odd/odd-key",
    "a/b/nope",
    "a/nope/x",
    "a/c",
    "a/c/x",
    "a/users",
    "a/users/ann/roles/1/x",
    "a/users/ann/roles/-1",
    "a/users/ann/roles/+1",
    "a/users/0",
    "a/users/00",
    "list/1/k/0",
    "list/x",
    "text/0",
    "0/1",
    "numbers",
    "numbers/by/0",
    "numbers/by/1",
    "nope",
    "nope/" * 50,
]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("path", PATHS, ids=str)
def test_a_path_gives_what_its_query_gives(path: module.PathKey, strict: bool) -> None:
    def outcome(question: Any) -> Any:
        try:
            return question().value({"user": "ann"})
        except CompileError as error:
            return str(error)

    snapshot = snapshot_of()
    prepared = outcome(
        lambda: snapshot.engine.prepare(document_ref(path), strict_builtin_errors=strict)
    )
    for _ in range(2):
        assert outcome(lambda: snapshot.document(path, strict=strict)) == prepared


def test_nothing_is_prepared_for_a_path_without_rules(compiled: list[str]) -> None:
    snapshot = snapshot_of()
    for path in (("system", "health") + ("a",) * 32_000, ("a", "users") + ("x",) * 32_000):
        assert snapshot.document(path).value() is UNDEFINED
    assert snapshot.document("a/users/ann/roles/0").value() == 1
    assert compiled == []


def test_a_path_below_rules_has_a_limit_and_is_an_error_beyond_it(compiled: list[str]) -> None:
    snapshot = snapshot_of()
    longest = ("a", "b", "open") + ("0",) * (module.MAX_SEGMENTS - 3)
    assert snapshot.document(longest).value({}) is UNDEFINED
    decision = PDP(snapshot).decide((*longest, "0"))
    assert isinstance(decision.error, CompileError)
    assert len(compiled) == 1


def test_a_path_that_cannot_be_a_query_is_refused_without_another_try(compiled: list[str]) -> None:
    pdp = PDP(snapshot_of())
    for _ in range(3):
        assert isinstance(pdp.decide("a/b/allow/x").error, CompileError)
        assert isinstance(pdp.decide_query("1 +").error, CompileError)
    assert len(compiled) == 2
    with pytest.raises(CompileError):
        pdp.snapshot.warm(["a/b/allow/x"])


def test_what_clients_ask_for_drives_out_neither_the_configuration_nor_what_is_in_use(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_PREPARED", 20)
    snapshot = snapshot_of()
    snapshot.warm(["a/b/allow", "system/log/mask"])
    snapshot.document("a/b/names/in-use")
    for number in range(200):
        snapshot.document(f"a/b/names/n{number}")
        snapshot.document("a/b/names/in-use")
        snapshot.document("a/b/allow")
    assert compiled.count("data.a.b.allow") == 1
    assert compiled.count('data.a.b.names["in-use"]') == 1
    assert len(snapshot._ready) + len(snapshot._before) <= 2 * len(snapshot._pinned) + 21


def test_a_long_path_is_not_kept() -> None:
    snapshot = snapshot_of()
    path = ("a", "b", "names", "x" * 60_000)
    assert snapshot.document(path).value() is UNDEFINED
    assert path not in snapshot._ready


def test_paths_are_prepared_one_at_a_time_and_waiting_too_long_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    snapshot = snapshot_of(deadline=None)
    snapshot.warm(["a/b/allow"])
    begun, go_on, inside = threading.Event(), threading.Event(), []
    prepare = Engine.prepare

    def slow(self: Engine, query: str, **options: Any) -> Any:
        inside.append(query)
        begun.set()
        go_on.wait(PATIENCE)
        return prepare(self, query, **options)

    monkeypatch.setattr(Engine, "prepare", slow)
    monkeypatch.setattr(module, "PREPARE_WITHIN", 0.05)
    pdp = PDP(snapshot)
    with ThreadPoolExecutor(2) as workers:
        first = workers.submit(pdp.decide, "a/b/list")
        assert begun.wait(PATIENCE)
        second = workers.submit(pdp.decide, "a/b/names").result(PATIENCE)
        assert isinstance(second.error, EvalError)
        assert inside == ["data.a.b.list"]
        # What is prepared already waits for nobody.
        assert pdp.decide("a/b/allow", {"user": "ann"}).result is True
        go_on.set()
        assert first.result(PATIENCE).result == [10, 20]
    assert pdp.decide("a/b/names").error is None


@pytest.mark.long
def test_a_query_shares_the_names_of_its_program() -> None:
    rules = "".join(f"r{n} := {n} if input.x == {n}\n" for n in range(3_000))
    snapshot = build(
        Loaded({"a.rego": f"package a\n\n{rules}\nlist[x] := y if some x, y in input\n"})
    )
    snapshot.document("a/list/0")
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(1, 21):
            assert snapshot.document(f"a/list/{number}").value([1]) is UNDEFINED
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / 20 < 50_000  # once each had a copy of all names
    assert snapshot.document("a/list/0").value([1]) == 1


def test_other_data_of_the_same_policies_compiles_nothing(compiled: list[str]) -> None:
    settings = Settings()
    loaded = Loaded(modules={"a.rego": POLICY}, data={"list": [1]})
    first = build(loaded, settings)
    first.warm(["a/b"])
    first.query("data.list").warm()
    assert compiled == ["data.a.b", "data.list"]
    second = build(replace(loaded, data={"list": [2]}), settings, before=first)
    second.warm(["a/b"])
    assert second.engine.policies is first.engine.policies
    assert second.revision != first.revision
    assert [each.query("data.list").value() for each in (first, second)] == [[1], [2]]
    assert compiled == ["data.a.b", "data.list"]


def test_other_policies_and_another_deadline_have_queries_of_their_own(
    compiled: list[str],
) -> None:
    settings = Settings()
    loaded = Loaded(modules={"a.rego": POLICY})
    first = build(loaded, settings)
    changed = replace(loaded, modules={"a.rego": POLICY.replace("[10, 20]", "[30]")})
    others = [
        build(changed, settings, before=first),
        build(loaded, replace(settings, deadline=1.0), before=first),
    ]
    values = [each.query("data.a.b.list").value() for each in (first, *others)]
    assert values == [[10, 20], [30], [10, 20]]
    assert compiled == ["data.a.b.list"] * 3


def test_data_at_the_path_of_a_rule_is_refused_though_no_policy_changed() -> None:
    settings = Settings()
    loaded = Loaded(modules={"a.rego": POLICY})
    first = build(loaded, settings)
    with pytest.raises(CompileError, match="conflict"):
        build(replace(loaded, data={"a": {"b": {"list": 1}}}), settings, before=first)
