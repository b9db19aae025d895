"""A program that was saved decides, and is written, as the one that was compiled."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.corpora import SUITE, needs, rows

from doorward.rego import Engine, Options, Policies, RegoError, compile, from_json
from doorward.rego.modules import ParsedLater
from doorward.rego.policies import compile as compile_policies
from doorward.rego.saved import keys
from doorward.rego.saved.folder import SavedFolder
from doorward.rego.saved.programs import SavedPrograms

POLICY = """package a

default allow := false

allow if {
	input.user == data.owners[_]
	lower(input.path) == "/x"
}

allow if input.role in {"admin", "root"}

count_of(x) := n if n := count([y | some y in x; y > 1])

by_name[name] := role if some name, role in input.roles

every_one if every x in input.roles { x != "none" }

names contains sprintf("%v", [name]) if some name in input.names

answer := {1: [true, null], "b": {1.50, "x"}}

port := 1 if input.name == "s1"
port := 2 if input.name == "s2"
port := 3 if input.name == "s3"
port := 4 if input.name == "s4"
port := 5 if input.name == "s5"
port := 6 if input.name == "s6"
port := 7 if input.name == "s7"
port := 8 if input.name == "s8"
port := 9 if input.name == "s9"
"""
DATA = {"owners": ["ann", "bob"]}
INPUTS: list[Any] = [
    {"user": "ann", "path": "/X"},
    {"role": "root", "name": "s7", "names": [1, "a"]},
    {"roles": {"a": "b"}, "name": "none"},
    {},
]


@pytest.fixture(autouse=True)
def _short_policies_are_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "LEAST_TEXT", 0)


@pytest.fixture(params=[False, True], ids=["program", "code"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> Options:
    folder = SavedFolder(tmp_path / "saved")
    return Options(saved=SavedPrograms(folder, with_code=request.param))


def saved(modules: dict[str, str], options: Options) -> Policies:
    """The policies, restored from what an earlier compilation saved."""
    compile(modules, options).warm()
    restored = compile(modules, options)
    assert isinstance(restored.modules, ParsedLater)
    return restored


def answers(policies: Policies, query: str = "data.a") -> list[Any]:
    prepared = policies.bind(DATA).prepare(query)
    return [prepared.value(each) for each in INPUTS]


def test_a_restored_program_gives_the_same_answers_and_code(options: Options) -> None:
    plain, restored = compile({"a.rego": POLICY}), saved({"a.rego": POLICY}, options)
    for query in ("data.a", "data.a.allow", "data.a.count_of([1, 2, 3])", "data.a.port"):
        assert answers(restored, query) == answers(plain, query)
    assert restored.emit() == plain.emit()


def test_all_that_an_engine_offers_works_on_a_restored_program(options: Options) -> None:
    plain, restored = compile({"a.rego": POLICY}), saved({"a.rego": POLICY}, options)
    ours, theirs = restored.bind(DATA), plain.bind(DATA)
    assert list(ours.trees) == ["a.rego"]
    assert ours.trees["a.rego"] == theirs.trees["a.rego"]
    residual, wanted = (each.partial("data.a.allow", unknowns=["input"]) for each in (ours, theirs))
    assert str(residual.queries) == str(wanted.queries)
    mocked = "data.a.allow with data.owners as ['x']"
    assert ours.prepare(mocked.replace("'", '"')).value({"user": "x", "path": "/x"}) is True
    traced = restored.traced().bind(DATA).prepare("data.a.allow")
    assert traced.value(INPUTS[0]) is True


def test_the_texts_of_a_restored_program_are_not_parsed(options: Options) -> None:
    restored = saved({"a.rego": POLICY}, options)
    assert isinstance(restored.modules, ParsedLater)
    assert restored.texts == {"a.rego": POLICY}
    assert restored.modules._parsed is None


def test_exact_code_is_not_saved(tmp_path: Path) -> None:
    programs = SavedPrograms(SavedFolder(tmp_path / "saved"), with_code=True)
    policies = compile({"a.rego": POLICY})
    assert not programs.write("a" * 64, policies.program, policies.code.exact(), None)
    assert programs.write("a" * 64, policies.program, policies.code, None)


def test_a_restored_program_is_evaluated_partially_as_it_is_written(options: Options) -> None:
    # The order of a residual is that of the text, not that in which `y` is bound first.
    policy = (
        "package a\n\np if {\n\tinput.x == y + 1\n\tinput.z == y\n\ty = count(data.owners)\n}\n"
    )
    modules = {"b.rego": "package b\n\nq := 1 if not input.q", "a.rego": policy}
    engines = [each.bind(DATA) for each in (compile(modules), saved(modules, options))]
    wanted, residual = (each.partial("data.a.p; data.b.q = 1") for each in engines)
    assert residual.query_texts == wanted.query_texts
    changed = {**modules, "b.rego": "package b\n\nq := 2 if not input.q"}
    reloaded = compile(changed, options, before=engines[1].policies).bind(DATA)
    again = compile(changed).bind(DATA).partial("data.a.p; data.b.q = 2")
    assert reloaded.partial("data.a.p; data.b.q = 2").query_texts == again.query_texts


def test_a_restored_program_is_the_beginning_of_the_next(options: Options) -> None:
    modules = {"a.rego": POLICY, "b.rego": "package b\n\np := data.a.answer"}
    restored = saved(modules, options)
    changed = {**modules, "b.rego": "package b\n\np := data.a.port"}
    reloaded = compile(changed, options, before=restored)
    assert reloaded.emit() == compile(changed).emit()


def test_errors_of_a_restored_program_stand_where_they_are(options: Options) -> None:
    modules = {"a.rego": "package a\n\np := 1 if input.x\n\np := 2 if input.y\n"}
    errors = []
    for policies in (compile(modules), saved(modules, options)):
        with pytest.raises(RegoError) as raised:
            policies.bind({}).prepare("data.a.p").value({"x": 1, "y": 1})
        errors.append(raised.value.render())
    assert errors[0] == errors[1]
    assert "a.rego:3" in errors[0]


def test_policies_that_do_not_compile_are_not_saved(options: Options) -> None:
    for _ in range(2):
        with pytest.raises(RegoError):
            compile({"a.rego": "package a\n\np if x"}, options)
    assert options.saved is not None
    assert not options.saved.folder.path.exists()


def test_an_entry_of_other_code_is_compiled_again(options: Options) -> None:
    modules = {"a.rego": POLICY}
    saved(modules, options)
    assert options.saved is not None
    (entry,) = options.saved.folder.path.iterdir()
    for content in (
        b"",
        b"no pickle",
        pickle.dumps(1),
        pickle.dumps((1, 2)),
        pickle.dumps((1, 2, 3)),
        b"\x80\x05c\x00.",
    ):
        options.saved.folder.write(entry.stem, content)
        assert not isinstance(compile(modules, options).modules, ParsedLater)


def test_many_threads_may_parse_the_modules(options: Options) -> None:
    restored = saved({"a.rego": POLICY}, options)
    read: list[object] = []
    threads = [
        threading.Thread(target=lambda: read.append(restored.modules["a.rego"])) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(each) for each in read}) == 1


def test_the_notes_of_a_preparation_are_saved(options: Options) -> None:
    def prepare(parsed: Any) -> tuple[Any, object]:
        return {name: parsed[name] for name in ("b.rego",)}, sorted(parsed)

    modules = {"a.rego": POLICY, "b.rego": "package b\n\np := 1"}
    compile_policies(modules, options, prepare=prepare).warm()
    restored = compile_policies(modules, options, prepare=prepare)
    assert isinstance(restored.modules, ParsedLater)
    assert restored.notes == ["a.rego", "b.rego"]
    assert restored.bind({}).prepare("data").value() == {"b": {"p": 1}}
    assert restored.modules["b.rego"].package.path == ("b",)


def cases() -> Iterator[Any]:
    """Each fortieth program of OPA's suite that compiles."""
    for number, row in enumerate(rows(SUITE, from_json)):
        if number % 40 == 0 and row.get("modules"):
            yield row


@pytest.mark.long
@needs(SUITE)
def test_programs_of_the_suite_are_restored_as_they_were(options: Options) -> None:
    compared = 0
    for row in cases():
        modules = {f"test-{n}.rego": text for n, text in enumerate(row["modules"])}
        try:
            plain = Engine(modules)
        except RegoError:
            continue
        compile(modules, options).warm()
        restored = compile(modules, options)
        assert restored.emit() == plain.emit(), row["note"]
        outcomes = [outcome(policies, row) for policies in (plain.policies, restored)]
        assert outcomes[0] == outcomes[1], row["note"]
        compared += isinstance(restored.modules, ParsedLater)
    assert compared > 15


def outcome(policies: Policies, row: Any) -> Any:
    try:
        engine = policies.bind(row.get("data") or {})
        return engine.prepare(row["query"]).results(row.get("input", {}))
    except RegoError as error:
        return error.render()
