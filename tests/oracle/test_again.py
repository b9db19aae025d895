"""Policies compiled after others of which some modules are the same mean what they mean alone."""

from __future__ import annotations

import re

import pytest
from tests.rounds import rounds

from doorward.rego import CompileError, Options, compile
from fuzz.grammar import generate

pytestmark = pytest.mark.long

PROGRAMS = rounds(20)


def outcome(modules: dict[str, str], options: Options, before: dict[str, str] | None) -> object:
    """The generated code without the numbers of operands and constants, or every error."""
    known = None
    if before is not None:
        try:
            known = compile(before, options)
        except CompileError:
            return None
    try:
        emitted = compile(modules, options, before=known).emit()
    except CompileError as error:
        return [(d.code, d.message, d.span) for d in error.diagnostics]
    return {name: re.sub(r"__local\d+|\b(k|at)\.\d+", "…", text) for name, text in emitted.items()}


def test_a_program_after_another_one_is_the_same_program() -> None:
    compared = 0
    for number in range(PROGRAMS):
        program, other = generate(f"again-{number}"), generate(f"other-{number}")
        options = Options(v0=program.v0)
        for changed in program.modules if len(program.modules) > 1 else ():
            rest = {name: text for name, text in program.modules.items() if name != changed}
            texts = [next(iter(other.modules.values()))] if other.v0 == program.v0 else []
            cut = program.modules[changed].rpartition("\n\n")[0]
            for text in (*texts, cut):
                for before in (rest, {**rest, changed: text}, {changed: text, **rest}):
                    again = outcome(dict(program.modules), options, before)
                    if again is not None:
                        compared += 1
                        assert again == outcome(dict(program.modules), options, None), program
    assert compared > PROGRAMS


def test_only_what_changed_is_parsed() -> None:
    texts = {"a.rego": "package a\n\np := data.b.q\n", "b.rego": "package b\n\nq := 1\n"}
    first = compile(texts)
    again = compile({**texts, "b.rego": "package b\n\nq := 2\n"}, before=first)
    assert again.modules["a.rego"] is first.modules["a.rego"]
    assert again.modules["b.rego"] is not first.modules["b.rego"]
    assert again.bind({}).prepare("data.a.p").value() == 2
    assert again.program.modules[0] is first.program.modules[0]
    # With other options, or where METADATA is read, nothing is taken over.
    for other in (compile(texts, Options(strict=True), before=first), compile(texts)):
        assert other.modules["a.rego"] is not first.modules["a.rego"]
    read = {**texts, "c.rego": "package c\n\nr := rego.metadata.rule()\n"}
    assert compile(read, before=first).modules["a.rego"] is not first.modules["a.rego"]


def test_what_others_define_is_looked_at_again() -> None:
    texts = {"a.rego": "package a\n\np := data.b.f(1)\n", "b.rego": "package b\n\nf(x) := x\n"}
    first = compile(texts)
    for text, message in (
        ("package b\n\nf(x, y) := x\n", "data.b.f has arity 2, got 1 argument"),
        ("package b\n\ng := 1\n", "undefined function data.b.f"),
        ('package b\n\nf(x) := x if x == "a"\n', "data.b.f: invalid argument(s)"),
        ("package b\n\nf(x) := data.a.p\n", "is recursive"),
    ):
        with pytest.raises(CompileError) as caught:
            compile({**texts, "b.rego": text}, before=first)
        assert message in str(caught.value)
