"""What holds for every program: order of rules, formatting, and what another engine says."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rego.engine.programs import COMPARISONS, INPUT, document, lookups, program, question
from tests.rounds import rounds

from doorward.rego import CompileError, Engine, EvalError, from_python, to_json
from doorward.rego.source import Source
from doorward.rego.syntax.format import format_source
from doorward.rego.values import equal

pytestmark = pytest.mark.long

DIFFERENCES: Final = tomllib.loads(
    (Path(__file__).parent / "regopy_differences.toml").read_text(encoding="utf-8")
)["difference"]
QUESTIONS: Final = rounds(300)


def text_of(rules: list[str]) -> str:
    return "package p\n\n" + "\n\n".join(rules) + "\n"


def answer(*modules: str) -> str:
    """What `data.p` is, or why it cannot be told."""
    try:
        engine = Engine({f"{n}.rego": text for n, text in enumerate(modules)})
        results = engine.prepare("x := data.p").results(INPUT)
    except CompileError as error:
        return str(sorted({d.code for d in error.diagnostics}))
    return to_json(from_python(results[0]["x"]))


@settings(max_examples=rounds(60), deadline=None)
@given(st.integers(0, 10_000), st.randoms(use_true_random=False))
def test_the_order_of_rules_never_changes_a_result(seed: int, random: Random) -> None:
    rules = program(seed)
    shuffled = random.sample(rules, len(rules))
    split = random.randrange(len(rules))
    assert answer(text_of(shuffled)) == answer(text_of(rules))
    assert answer(text_of(shuffled[:split]), text_of(shuffled[split:])) == answer(text_of(rules))


@settings(max_examples=rounds(60), deadline=None)
@given(st.integers(0, 10_000))
def test_formatting_never_changes_a_result(seed: int) -> None:
    text = text_of(program(seed))
    formatted = format_source(Source("p.rego", text))
    assert answer(formatted) == answer(text)
    assert format_source(Source("p.rego", formatted)) == formatted


@settings(max_examples=rounds(150), deadline=None)
@given(st.integers(0, 1 << 32))
def test_code_that_reads_ahead_answers_as_code_that_does_not(seed: int) -> None:
    modules, r = {"p.rego": text_of(lookups(seed))}, Random(seed)
    try:
        plain = Engine(modules, traced=True)
    except CompileError:
        return
    ahead = Engine(modules)
    for turn in range(16):
        data, value, strict = {"base": document(r)}, document(r), turn % 2 == 1
        actual = outcome(ahead.with_data(data), value, strict=strict)
        wanted = outcome(plain.with_data(data), value, strict=strict)
        assert equal_or_same(actual, wanted), (modules, data, value, strict)


def outcome(engine: Engine, value: Any, *, strict: bool) -> Any:
    """What `data.p` is, or the error and its row."""
    try:
        return engine.prepare("data.p", strict_builtin_errors=strict).value(value)
    except EvalError as error:
        return error.code, error.span.row


def equal_or_same(a: Any, b: Any) -> bool:
    """Whether two answers are equal, or are the same error."""
    return a == b if isinstance(a, tuple) or isinstance(b, tuple) else equal(a, b)


def test_rego_cpp_says_the_same_but_for_what_is_known(capfd: pytest.CaptureFixture[str]) -> None:
    regopy = pytest.importorskip("regopy", reason="regopy is a development dependency")
    differing: list[str] = []
    for seed in range(QUESTIONS):
        question_ = question(seed)
        rules = [*COMPARISONS, f"answer contains v if {{ {question_} }}"]
        interpreter = regopy.Interpreter()
        interpreter.add_module("p.rego", text_of(rules))
        interpreter.set_input_term(json.dumps(INPUT))
        said = json.loads(str(interpreter.query("x := data.p.answer")))["bindings"]["x"]
        ours = json.loads(answer(text_of(rules)))["answer"]
        if unordered(said) != unordered(ours):
            differing.append(question_)
    unknown = [question_ for question_ in differing if not known(question_)]
    assert unknown == []
    assert len(differing) < QUESTIONS // 10
    capfd.readouterr()


def known(question: str) -> bool:
    return any(re.search(each["pattern"], question) for each in DIFFERENCES)


def unordered(value: Any) -> Any:
    """`value` with every array as text in one order: rego-cpp walks sets as they were made."""
    if isinstance(value, list):
        return sorted(json.dumps(unordered(item), sort_keys=True) for item in value)
    if isinstance(value, dict):
        return {key: unordered(item) for key, item in value.items()}
    return value
