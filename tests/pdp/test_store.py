"""Every change is whole or not at all, and costs what it changes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE

from doorward.bundles.edit import Operation, PathNotFoundError
from doorward.bundles.loader import Loaded
from doorward.bundles.owners import OwnedError
from doorward.bundles.sources import Sources
from doorward.pdp import store as store_module
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import Snapshot, build
from doorward.pdp.store import BusyError, PolicyNotFoundError, Store
from doorward.rego import CompileError

POLICY = "package a\n\nallow if data.users[input.user].ok\n"


def store_of(loaded: Loaded | None = None, **more: Any) -> tuple[PDP, Store]:
    loaded = loaded or Loaded({"a.rego": POLICY}, {"users": {"ann": {"ok": True}}})
    pdp = PDP(build(loaded))
    return pdp, Store(pdp, loaded, **more)


def allows(pdp: PDP, user: str) -> bool:
    return pdp.decide("a/allow", {"user": user}).result is True


def test_decisions_follow_what_is_put_patched_and_deleted() -> None:
    pdp, store = store_of()
    assert store.put(("users", "bob"), {"ok": True})
    assert allows(pdp, "bob")
    store.patch([Operation("replace", ("users", "bob", "ok"), False)])
    assert not allows(pdp, "bob")
    store.delete(("users", "ann"))
    assert not allows(pdp, "ann")
    assert not store.put(("users", "bob"), {"ok": True}, only_new=True)
    assert not allows(pdp, "bob")


def test_a_snapshot_in_use_never_changes() -> None:
    pdp, store = store_of()
    before = pdp.snapshot
    document = before.document("a/allow")
    store.put(("users", "bob"), {"ok": True})
    assert document.value({"user": "bob"}) != True  # noqa: E712  # undefined is not false
    assert before.engine.data == {"users": {"ann": {"ok": True}}}


def test_policies_are_built_inside_and_data_outside_of_what_surrounds_builds() -> None:
    steps: list[str] = []

    @contextmanager
    def building() -> Iterator[None]:
        steps.append("begins")
        yield
        steps.append("ends")

    _, store = store_of(building=building, prepare=lambda _snapshot: steps.append("prepared"))
    store.put(("users", "bob"), {"ok": True})
    assert steps == []
    store.put_policy("b.rego", "package b\n\np := 1\n")
    assert steps == ["begins", "prepared", "ends"]


def test_a_patch_is_done_whole_or_not_at_all() -> None:
    pdp, store = store_of()
    before = pdp.snapshot
    with pytest.raises(PathNotFoundError):
        store.patch([Operation("add", ("new",), 1), Operation("remove", ("nothing",))])
    assert pdp.snapshot is before


def test_what_is_prepared_serves_other_data_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    pdp, store = store_of(prepare=lambda snapshot: snapshot.warm(["a/allow"]))
    assert allows(pdp, "ann")
    monkeypatch.setattr("doorward.rego.Engine.prepare", None)
    store.put(("users", "bob"), {"ok": True})
    assert allows(pdp, "bob")


def test_data_where_a_rule_stands_is_refused() -> None:
    pdp, store = store_of()
    before = pdp.snapshot
    with pytest.raises(CompileError, match="conflicting rule for data path a/allow"):
        store.put(("a", "allow"), True)
    assert pdp.snapshot is before
    store.put(("a", "other"), True)


def test_policies_are_put_replaced_and_withdrawn() -> None:
    pdp, store = store_of()
    assert store.put_policy("b.rego", "package b\n\np := 1\n")
    assert pdp.decide("b/p").result == 1
    assert not store.put_policy("b.rego", "package b\n\np := 1\n")
    assert store.put_policy("b.rego", "package b\n\np := 2\n")
    assert pdp.decide("b/p").result == 2
    assert list(store.policies) == ["a.rego", "b.rego"]
    store.delete_policy("b.rego")
    assert list(store.policies) == ["a.rego"]
    with pytest.raises(PolicyNotFoundError, match=r"policy id"):
        store.delete_policy("b.rego")


def test_policies_that_are_wrong_change_nothing() -> None:
    pdp, store = store_of()
    store.put_policy("f.rego", "package f\n\nf(x) := x\n")
    store.put_policy("g.rego", "package g\n\np := data.f.f(1)\n")
    before = pdp.snapshot
    for text in ("", "package b\n\np := x\n", "package a\n\nallow := 1 if { f(\n"):
        with pytest.raises(CompileError):
            store.put_policy("b.rego", text)
    with pytest.raises(CompileError, match=r"undefined function data\.f\.f"):
        store.delete_policy("f.rego")
    with pytest.raises(CompileError, match="conflicting rule for data path users"):
        store.put_policy("b.rego", "package users\n\nann := 1\n")
    assert pdp.snapshot is before


def test_each_change_has_its_own_revision() -> None:
    pdp, store = store_of()
    changes: list[Callable[[], object]] = [
        lambda: store.put(("x",), 1, text=b"1"),
        lambda: store.put(("x",), 2, text=b"2"),
        lambda: store.patch([Operation("add", ("y",), 1)], text=b"[]"),
        lambda: store.delete(("x",)),
        lambda: store.put_policy("b.rego", "package b\n"),
        lambda: store.delete_policy("b.rego"),
    ]
    seen = {pdp.snapshot.revision}
    for change in changes:
        change()
        seen.add(pdp.snapshot.revision)
    assert len(seen) == len(changes) + 1


def test_data_changes_while_a_policy_is_compiled() -> None:
    """The compiler works outside of the lock; what was written meanwhile is in the result."""
    compiling, written = threading.Event(), threading.Event()

    def prepare(snapshot: Snapshot) -> None:
        compiling.set()
        assert written.wait(PATIENCE)

    pdp, store = store_of(prepare=prepare)
    thread = threading.Thread(target=store.put_policy, args=("b.rego", "package b\n\np := 1\n"))
    thread.start()
    assert compiling.wait(PATIENCE)
    store.put(("users", "bob"), {"ok": True})
    assert allows(pdp, "bob")
    written.set()
    thread.join(PATIENCE)
    assert allows(pdp, "bob")
    assert pdp.decide("b/p").result == 1


def test_many_writers_never_show_half_a_change() -> None:
    policy = "package a\n\nsame if data.w.a == data.w.b\n"
    pdp, store = store_of(Loaded({"a.rego": policy}, {"w": {"a": 0, "b": 0}}))
    halves: list[object] = []
    ended = threading.Event()

    def write(first: int) -> None:
        for value in range(first, first + 200):
            both: Any = {"a": value, "b": value}
            store.put(("w",), both)
            store.patch([Operation("replace", ("w", name), -value) for name in "ab"])
            with pytest.raises(PathNotFoundError):
                store.patch(
                    [Operation("replace", ("w", "a"), "half"), Operation("remove", ("w", "c"))]
                )

    def compile() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            store.put_policy("a.rego", f"{policy}\n# {number}\n")

    def read() -> None:
        while not ended.is_set():
            if pdp.decide("a/same").result is not True:
                halves.append(pdp.snapshot.engine.data)

    writers = [threading.Thread(target=write, args=(1_000 * n,)) for n in range(3)]
    others = [threading.Thread(target=each) for each in (compile, read, read)]
    for thread in (*writers, *others):
        thread.start()
    for thread in writers:
        thread.join(PATIENCE)
    ended.set()
    for thread in others:
        thread.join(PATIENCE)
    assert not halves
    assert pdp.decide("a/same").result is True


def test_who_waits_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "WAIT", 0.01)

    def prepare(snapshot: Snapshot) -> None:
        with pytest.raises(BusyError):
            other.put_policy("c.rego", "package c\n")

    _, other = store_of(prepare=prepare)
    other.put_policy("b.rego", "package b\n")
    assert list(other.policies) == ["a.rego", "b.rego"]


def test_files_that_change_leave_what_was_added() -> None:
    pdp, store = store_of()
    store.put(("users", "bob"), {"ok": True})
    store.put_policy("b.rego", "package b\n\np := 1\n")
    store.load(Loaded({"a.rego": POLICY}, {"users": {"cid": {"ok": True}}}, digest="0" * 64))
    assert [allows(pdp, user) for user in ("ann", "bob", "cid")] == [False, True, True]
    assert pdp.decide("b/p").result == 1
    assert pdp.snapshot.revision != "0" * 12


def test_files_alone_have_the_revision_of_their_contents() -> None:
    pdp, store = store_of()
    store.load(Loaded({"a.rego": POLICY}, {"users": {}}, digest="0" * 64))
    assert pdp.snapshot.revision == "0" * 12


def test_what_files_withdraw_is_withdrawn_and_what_is_broken_changes_nothing() -> None:
    pdp, store = store_of(Loaded({"a.rego": POLICY, "b.rego": "package b\n\np := 1\n"}))
    store.put_policy("c.rego", "package c\n\np := 1\n")
    store.load(Loaded({"a.rego": POLICY}, digest="1"))
    assert list(store.policies) == ["c.rego", "a.rego"]
    before = pdp.snapshot
    with pytest.raises(CompileError):
        store.load(Loaded({"a.rego": POLICY, "d.rego": "package c.p\n\nq := 1\n"}, digest="2"))
    assert pdp.snapshot is before


@pytest.fixture
def bundle(tmp_path: Path) -> Sources:
    folder = tmp_path / "bundle"
    (folder / "b").mkdir(parents=True)
    (folder / ".manifest").write_text('{"roots": ["b"]}')
    (folder / "b" / "p.rego").write_text("package b\n\nallow := data.b.ok\n")
    (folder / "b" / "data.json").write_text('{"ok": 1, "old": 1}')
    return Sources(bundles=[str(folder)])


def test_what_a_bundle_owns_is_its_own(bundle: Sources) -> None:
    _, store = store_of(bundle.load())
    (name,) = store.policies
    for change in (
        lambda: store.put(("b", "ok"), 2),
        lambda: store.put((), {}),
        lambda: store.patch([Operation("add", ("b", "new"), 2)]),
        lambda: store.delete(("b",)),
        lambda: store.put_policy("x.rego", "package b.c\n"),
        lambda: store.put_policy(bundle.bundles[0] + "/b/p.rego", "package x\n"),
    ):
        with pytest.raises(OwnedError):
            change()
    with pytest.raises(OwnedError):
        store.delete_policy(name)
    store.put(("c",), 1)


def test_nobody_writes_where_the_server_keeps_keys() -> None:
    pdp, store = store_of()
    store.reserve("identity")
    keys = {"jwks": "a", "issuer": "i"}
    for kept in (None, keys):
        if kept:
            store.keep(("identity", "main"), keys)  # type: ignore[arg-type]
        for change in (
            lambda: store.put(("identity",), {"main": {"jwks": "forged"}}),
            lambda: store.put(("identity", "main", "jwks"), "forged"),
            lambda: store.put(("identity", "other"), {"jwks": "forged"}, only_new=True),
            lambda: store.put((), {"identity": {}}),
            lambda: store.patch([Operation("add", ("identity", "main", "jwks"), "forged")]),
            lambda: store.patch([Operation("add", ("c",), 1), Operation("remove", ("identity",))]),
            lambda: store.delete(("identity",)),
            lambda: store.delete(("identity", "main")),
            lambda: store.put_policy("x.rego", 'package identity.main\njwks := "forged"\n'),
            lambda: store.put_policy("x.rego", 'package identity\nmain := "forged"\n'),
        ):
            with pytest.raises(OwnedError, match="configuration"):
                change()
        data: Any = pdp.snapshot.engine.data
        assert data.get("identity", {}).get("main") == kept
    store.put(("identities",), {"main": 1})


def test_keys_stay_whatever_files_and_bundles_bring(bundle: Sources) -> None:
    pdp, store = store_of(bundle.load())
    store.reserve("identity")
    store.keep(("identity", "main"), {"jwks": "a"})
    brought: Any
    for brought in ({"identity": {"main": {"jwks": "old"}}}, {"identity": "text"}, {}):
        store.load(Loaded({}, brought, digest=str(brought), roots={"all": ("",)}))
        data: Any = pdp.snapshot.engine.data
        assert data["identity"]["main"] == {"jwks": "a"}
        store.keep(("identity", "main"), {"jwks": "a"})


@pytest.mark.parametrize(
    ("root", "left"), [("c/x", [1, 2]), ("c/9", [1, 2]), ("c/0", [2]), ("c/0/x", [1, 2])]
)
def test_a_root_below_an_array_of_a_client_is_taken_over(
    root: str, left: list[Any], bundle: Sources
) -> None:
    pdp, store = store_of(bundle.load())
    store.put(("c",), [1, 2])
    manifest = Path(bundle.bundles[0]) / ".manifest"
    manifest.write_text(json.dumps({"roots": ["b", root]}))
    store.load(bundle.load())
    data: Any = pdp.snapshot.engine.data
    assert data["c"] == left


def test_what_could_not_be_kept_does_not_come_with_the_next_load() -> None:
    loaded = Loaded({"a.rego": "package identity\n\nmain := 1"})
    pdp, store = store_of(loaded)
    with pytest.raises(CompileError):
        store.keep(("identity", "main"), 2)
    store.load(replace(loaded, digest="next"))
    assert pdp.snapshot.engine.data == {}


def test_a_bundle_that_takes_over_a_root_removes_what_was_there(bundle: Sources) -> None:
    pdp, store = store_of(bundle.load())
    store.put(("c", "ours"), 1)
    store.put(("d",), 1)
    manifest = Path(bundle.bundles[0]) / ".manifest"
    manifest.write_text('{"roots": ["b", "c"]}')
    (Path(bundle.bundles[0]) / "b" / "data.json").write_text('{"ok": 2}')
    store.load(bundle.load())
    assert pdp.snapshot.engine.data == {"b": {"ok": 2}, "d": 1}
