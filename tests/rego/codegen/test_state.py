"""The parts of the state alone, and that each has one owner."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.parsing import parsed
from tests.rego.codegen.writing import state_for, text_of

from doorward.rego.codegen import state as module
from doorward.rego.codegen.emit import builder, temporaries
from doorward.rego.codegen.emit.ast_nodes import load, store
from doorward.rego.codegen.emit.builder import Builder
from doorward.rego.codegen.emit.temporaries import Temporaries
from doorward.rego.codegen.operand import Operand
from doorward.rego.codegen.state import Counters, Environment, Reads

OWNERS = {
    builder: Builder.__slots__,
    temporaries: Temporaries.__slots__,
    module: (*Counters.__slots__, *Environment.__slots__, *Reads.__slots__),
}
"""The attributes by the module that may change them."""

CODEGEN = Path(str(module.__file__)).parent
MUTATORS = {"add", "append", "clear", "extend", "insert", "pop", "remove", "setdefault", "update"}


def changes(path: Path) -> Iterator[str]:
    """The attributes, not of `self`, that a file assigns, deletes from, or changes by a method."""
    for node in ast.walk(parsed(path.read_text())):
        match node:
            case ast.Attribute(value=ast.Name(id="self")):
                pass
            case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.Subscript(value=ast.Attribute(attr=name), ctx=ast.Store() | ast.Del()):
                yield name
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr=name), attr=method)):
                if method in MUTATORS:
                    yield name


def test_each_attribute_of_the_state_is_changed_by_one_module() -> None:
    owners = {name: Path(str(owner.__file__)) for owner, names in OWNERS.items() for name in names}
    wrong = {
        f"{path.name}: {name}"
        for path in CODEGEN.rglob("*.py")
        for name in set(changes(path)) & owners.keys()
        if owners[name] != path
    }
    assert not wrong


def test_bindings_end_with_their_scope() -> None:
    env = Environment()
    env.bind("x", Operand(load("x")))
    names = env.names()
    with env.scope(frozenset({"x", "y"})):
        env.bind("y", Operand(load("y")))
        assert "y" in env
        assert env.outer == {"x", "y"}
    assert "y" not in env
    assert env.get("y") is None
    assert env.outer == frozenset()
    env.bind("z", Operand(load("z")))
    assert set(names) == {"x", "z"}


def test_an_evaluation_ends_with_its_scope() -> None:
    env = Environment()
    with env.same_evaluation():
        env.enter("_1")
        assert env.evaluation == "_1"
    assert env.evaluation == "ctx"


@pytest.fixture
def code() -> Builder:
    return Builder(Temporaries())


def test_what_was_read_in_any_case_stays_known(code: Builder) -> None:
    reads = Reads(code)
    with code.scope(), reads.scope():
        reads.remember(("input", "a"), load("a"))
        reads.remember(("input", "b"), load("b"))
        assert reads.recall(("input", "b")) is not None
    # `a` was read before the first test; `b` only behind it.
    assert reads.knows(("input", "a"))
    assert not reads.knows(("input", "b"))
    assert reads.recall(("input", "b")) is None
    assert reads.recall(("input", "a")) is not None
    text = ast.unparse(code.written[-1:])  # type: ignore[arg-type]
    assert text.startswith("if a is not rt.UNDEFINED:")


def test_what_was_read_without_a_test_is_tested_when_it_is_needed(code: Builder) -> None:
    reads = Reads(code)
    code.test(load("t"))
    reads.note(("input", "a"), load("a"))
    reads.note_untested(("input", "b"), load("b"))
    assert code.opened is not None
    assert reads.recall(("input", "a")) is not None
    assert reads.recall(("input", "a")) is not None
    assert reads.recall(("input", "b")) is not None
    code.run(load("end"))
    (test,) = code.written
    assert ast.unparse(test).split("\n")[0] == (
        "if t and a is not rt.UNDEFINED and (b is not rt.UNDEFINED):"
    )


def test_what_went_into_a_function_of_its_own_is_forgotten(code: Builder) -> None:
    reads = Reads(code)
    before = reads.always
    reads.note(("input", "a"), load("a"))
    reads.forget_since(before)
    assert not reads.knows(("input", "a"))


def test_the_nearest_object_is_read_from(code: Builder) -> None:
    reads = Reads(code)
    reads.share(("input", "a", "b"), load("ab"), "get")
    base, rest = reads.nearest(load("input"), ["a", "b", "c"])
    assert (base.id, rest, reads.getter(base)) == ("ab", ["c"], "get")
    base, rest = reads.nearest(load("input"), ["a", "b"])
    assert (base.id, rest, reads.getter(base)) == ("input", ["a", "b"], None)


def test_what_is_of_data_is_marked(code: Builder) -> None:
    reads = Reads(code)
    code.temps.note_copy("y", "x")
    assert not reads.is_of_data(load("y"))
    reads.mark_data("x")
    assert reads.is_of_data(load("y"))
    assert reads.is_of_data(load("data"))


def test_loops_are_counted_where_they_stand() -> None:
    counters = Counters()
    with counters.scope(), counters.one_value():
        counters.add_loop(counted=False)
        counters.add_loop(counted=False)
        assert (counters.loops, counters.uncounted) == (2, 2)
        counters.add_loop(counted=True)
        assert counters.uncounted == 0
    assert (counters.loops, counters.uncounted) == (0, 0)
    counters.add_call()
    assert (counters.calls, counters.number_uncounted_loop(), counters.number_uncounted_loop()) == (
        1,
        1,
        2,
    )


def test_a_part_of_the_evaluation_is_read_once_at_the_start() -> None:
    state = state_for()
    assert ast.unparse(state.of_evaluation("cache")) == "_cache"
    assert state.temps.at_start.keys() == {"_cache"}
    state.env.enter("_1")
    assert ast.unparse(state.of_evaluation("input")) == "_1.input"


def test_a_loop_is_counted_and_closed_with_its_scope() -> None:
    state = state_for()
    with state.scope():
        state.loop(store("x"), load("xs"), counted=False)
        state.code.run(load("x"))
        assert (state.counters.loops, state.counters.uncounted, state.code.loops) == (1, 1, 1)
    assert (state.counters.loops, state.counters.uncounted, state.code.loops) == (1, 0, 0)
    assert text_of(state) == ["for x in xs:", "    x"]
