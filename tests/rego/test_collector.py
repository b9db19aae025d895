"""The collector is put off for a while, and never left so."""

from __future__ import annotations

import gc

import pytest

from doorward.rego import CompileError, Engine
from doorward.rego.collector import postponed


def test_no_collection_meanwhile_and_again_afterwards() -> None:
    with postponed():
        assert not gc.isenabled()
        with postponed():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_ends_it_too() -> None:
    with pytest.raises(CompileError):
        Engine({"a.rego": "package a\n\np := x"})
    assert gc.isenabled()


def test_who_turned_the_collector_off_finds_it_off() -> None:
    gc.disable()
    try:
        Engine({"a.rego": "package a\n\np := 1"})
        assert not gc.isenabled()
    finally:
        gc.enable()
