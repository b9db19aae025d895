"""The collector is paused for a while, and never left so."""

from __future__ import annotations

import gc
import sys

import pytest

from doorward.base.collector import freezes, gc_frozen, gc_once, gc_paused, untracker
from doorward.rego import CompileError, Engine, from_json


def test_no_collection_meanwhile_and_again_afterwards() -> None:
    with gc_paused():
        assert not gc.isenabled()
        with gc_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_ends_it_too() -> None:
    with pytest.raises(CompileError), gc_paused():
        Engine({"a.rego": "package a\n\np := x"})
    assert gc.isenabled()


def test_the_engine_pauses_the_collector_only_while_it_compiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    query = Engine({"a.rego": "package a\n\np := 1"}).prepare("data.a.p")
    assert gc.isenabled()
    assert query.value() == 1
    assert gc.isenabled()

    def refuse() -> None:
        raise AssertionError("the library paused the collector")

    monkeypatch.setattr(gc, "disable", refuse)
    assert query.value() == 1
    from_json("[" + "1," * (1 << 20) + "1]")


def test_who_turned_the_collector_off_finds_it_off() -> None:
    gc.disable()
    try:
        with gc_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_new_objects_are_of_the_oldest_generation_afterwards() -> None:
    with gc_once():
        assert not gc.isenabled()
        lists = [[n] for n in range(10_000)]
    oldest = set(map(id, gc.get_objects(generation=2)))
    assert gc.isenabled()
    assert all(id(each) in oldest for each in lists)


def test_what_stays_is_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    # Not really frozen: it would stay so, and to unfreeze it would free what other tests froze.
    collecting: list[bool] = []
    monkeypatch.setattr(gc, "freeze", lambda: collecting.append(gc.isenabled()))
    with gc_frozen():
        assert freezes()
        assert not gc.isenabled()
        assert not collecting
    assert collecting == [False]
    assert gc.isenabled()
    assert not freezes()


def test_an_error_freezes_nothing() -> None:
    before = gc.get_freeze_count()
    with pytest.raises(CompileError), gc_frozen():
        Engine({"a.rego": "package a\n\np := x"})
    assert gc.get_freeze_count() == before
    assert gc.isenabled()
    assert not freezes()


def test_a_dict_is_tracked_again_when_a_container_is_put_into_it() -> None:
    value: dict[str, object] = {"a": [1]}
    assert gc.is_tracked(value)
    untrack = untracker()
    untrack(value)
    untrack(value)
    assert not gc.is_tracked(value)
    value["b"] = [value]
    assert gc.is_tracked(value)


def test_values_stay_tracked_where_python_has_no_ctypes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctypes", None)
    value: dict[str, object] = {"a": [1]}
    untracker()(value)
    assert gc.is_tracked(value)
