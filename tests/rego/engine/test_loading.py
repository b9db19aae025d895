"""What an engine takes besides policies and data: schemas, versions by file, timers."""

from __future__ import annotations

import pytest

from doorward.rego import CompileError, Engine
from doorward.rego.timers import NAMES, Timers

POLICY = "package p\n\nallow if input.user == 1\n"
USER = {"type": "object", "properties": {"user": {"type": "string"}}}


def messages(error: CompileError) -> list[str]:
    return [diagnostic.message for diagnostic in error.diagnostics]


def test_a_schema_of_the_input_is_checked_when_compiling() -> None:
    with pytest.raises(CompileError) as caught:
        Engine(modules={"p.rego": POLICY}, schemas={(): USER})
    assert messages(caught.value) == ["match error"]
    assert Engine(modules={"p.rego": POLICY}).prepare("data.p.allow").value({"user": 1}) is True


def test_a_query_is_checked_against_the_schema_of_the_input() -> None:
    engine = Engine(schemas={(): USER})
    with pytest.raises(CompileError, match=r"undefined ref: input.usr"):
        engine.prepare("input.usr")


def test_a_schema_is_found_by_the_name_that_metadata_gives() -> None:
    text = "package p\n\n# METADATA\n# schemas:\n# - input: schema.user\nallow if input.usr\n"
    with pytest.raises(CompileError, match=r"undefined ref: input.usr"):
        Engine(modules={"p.rego": text}, schemas={("user",): USER})
    with pytest.raises(CompileError, match=r"undefined schema: schema.user"):
        Engine(modules={"p.rego": text}, schemas={})


def test_a_schema_that_is_none_is_an_error_of_compiling() -> None:
    with pytest.raises(CompileError) as caught:
        Engine(modules={"p.rego": POLICY}, schemas={(): {"type": "thing"}})
    [message] = messages(caught.value)
    assert message.startswith(
        "unable to compile the schema: has a primitive type that is NOT VALID"
    )


def test_schemas_stay_with_other_policies_and_other_data() -> None:
    engine = Engine(schemas={(): USER})
    with pytest.raises(CompileError):
        engine.with_modules({"p.rego": POLICY})
    with pytest.raises(CompileError):
        engine.with_data({"x": 1}).prepare("input.usr")


def test_files_may_be_of_the_other_version() -> None:
    old, new = "package old\n\np { true }\n", "package new\n\np if true\n"
    modules = {"old.rego": old, "new.rego": new}
    engine = Engine(modules=modules, rego_versions={"old.rego": 0})
    assert engine.prepare("data").value() == {"old": {"p": True}, "new": {"p": True}}
    engine = Engine(modules=modules, v0=True, rego_versions={"new.rego": 1})
    assert engine.prepare("data.new.p").value() is True
    with pytest.raises(CompileError):
        Engine(modules=modules)


def test_data_in_the_place_of_a_rule_is_refused_by_who_asks() -> None:
    engine = Engine(modules={"p.rego": "package a.b\n\nc := 1\n"}, data={"a": {"b": {"c": 2}}})
    assert engine.prepare("data.a.b.c").value() == 1
    with pytest.raises(CompileError) as caught:
        engine.check_data()
    assert str(caught.value) == (
        "1 error occurred: p.rego:3: rego_compile_error: conflicting rule for data path a/b/c found"
    )
    engine.with_data({"a": {"x": 2}}).check_data()


def test_timers_say_how_long_parsing_and_compiling_took() -> None:
    timers = Timers()
    engine = Engine(modules={"p.rego": POLICY}, timers=timers)
    before = timers.document()
    assert before["timer_rego_module_parse_ns"] > 0 < before["timer_rego_module_compile_ns"]
    assert before["timer_rego_query_parse_ns"] == before["timer_rego_query_compile_ns"] == 0
    engine.prepare("data.p.allow")
    after = timers.document()
    assert after["timer_rego_query_parse_ns"] > 0 < after["timer_rego_query_compile_ns"]
    assert list(after) == [f"timer_{name}_ns" for name in NAMES] == sorted(after)


def test_the_generated_python_of_a_query_can_be_read() -> None:
    engine = Engine(modules={"p.rego": POLICY})
    assert engine.prepare("data.p.allow").emit().count("def query.value(") == 1
    several = engine.prepare("x := 1; data.p.allow").emit()
    assert several.count("def query(") == 1
