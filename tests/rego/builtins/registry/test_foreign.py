"""Built-ins that are not ours: whatever they raise or return, an evaluation ends in order."""

from __future__ import annotations

import math
import traceback
from asyncio import CancelledError
from collections.abc import Callable
from enum import StrEnum
from fractions import Fraction
from typing import Any

import pytest

from doorward.rego import (
    REGISTRY,
    UNDEFINED,
    BuiltinError,
    Context,
    Engine,
    EvalError,
    Query,
    Registry,
    parse_term,
    types,
)
from doorward.rego.builtins.registry.foreign import ForeignError, foreign_code
from doorward.rego.shared import EvaluationAborted


class Colour(StrEnum):
    RED = "red"


def ask(body: Callable[..., Any], **options: Any) -> Query:
    """A rule that calls `body` with the input."""
    registry = Registry(REGISTRY)
    registry.builtin("acme.f", types.any_, returns=types.any_, **options)(body)
    text = "package a\n\np := acme.f(input)\n\nallow if not acme.f(input)\n"
    return Engine({"a.rego": text}, registry=registry).prepare("data.a.p")


def raising(error: BaseException) -> Callable[[Any], Any]:
    def body(_value: Any) -> Any:
        raise error

    return body


@pytest.mark.parametrize(
    "error",
    [
        KeyError("secret"),
        RecursionError("deep"),
        MemoryError(),
        StopIteration(),
        OSError(2, "gone"),
        AssertionError(),
        CancelledError(),
        GeneratorExit(),
        BaseException("odd"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("strict", [False, True])
def test_an_exception_ends_the_evaluation_and_names_the_builtin(
    error: BaseException, strict: bool
) -> None:
    engine = ask(raising(error)).engine
    for rule, text in (("data.a.p", "acme.f(input)"), ("data.a.allow", "acme.f(input)")):
        with pytest.raises(EvalError) as caught:
            engine.prepare(rule, strict_builtin_errors=strict).value("s")
        assert caught.value.code == "eval_builtin_error"
        assert caught.value.message.startswith("acme.f: the built-in raised ")
        assert caught.value.span.row in (3, 5)
        assert caught.value.span.text == text


def test_what_an_exception_says_is_for_people_only() -> None:
    with pytest.raises(EvalError) as caught:
        ask(raising(KeyError("secret"))).value("s")
    error = caught.value
    assert "secret" not in str(error)
    assert "secret" not in error.message
    assert "hint: KeyError: 'secret' (" in error.render()
    assert f"{__file__}:" in error.render()
    assert isinstance(error.__cause__, KeyError)
    assert traceback.extract_tb(error.__cause__.__traceback__)[-1].filename == __file__


def test_an_exception_without_an_end_or_a_text_is_shown_nevertheless() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    with pytest.raises(EvalError) as caught:
        ask(raising(Mute())).value(1)
    assert "Mute" in caught.value.render()
    with pytest.raises(EvalError) as caught:
        ask(raising(ValueError("x" * 10**6))).value(1)
    assert len(caught.value.render()) < 3000


def test_an_error_of_a_builtin_makes_its_expression_undefined() -> None:
    query = ask(raising(BuiltinError("no such article")))
    assert query.value(1) is UNDEFINED
    strict = query.engine.prepare("data.a.p", strict_builtin_errors=True)
    with pytest.raises(EvalError, match=r"^a\.rego:3: eval_builtin_error: acme\.f: no such "):
        strict.value(1)


def test_a_halt_ends_the_evaluation_and_names_the_builtin() -> None:
    with pytest.raises(EvalError, match=r"eval_builtin_error: acme\.f: gone$"):
        ask(raising(EvaluationAborted("gone"))).value(1)


def test_a_builtin_can_look_at_the_deadline() -> None:
    def endless(context: Context, _value: Any) -> Any:
        while True:
            context.check_deadline()

    query = ask(endless, context=True).engine.prepare("data.a.p", deadline=0.05)
    with pytest.raises(EvalError) as caught:
        query.value(1)
    assert caught.value.code == "eval_cancel_error"
    assert "acme" not in caught.value.message


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_a_signal_raises_is_not_stopped(error: type[BaseException]) -> None:
    with pytest.raises(error):
        ask(raising(error())).value(1)


@pytest.mark.parametrize(
    ("returned", "value"),
    [
        ((1, "a"), [1, "a"]),
        ({"a": {1}}, {"a": frozenset({1})}),
        ([{True}], parse_term("[{true}]")),
        (Colour.RED, "red"),
        ({Colour.RED: Colour.RED}, {"red": "red"}),
        (1.5, 1.5),
        (None, None),
        (UNDEFINED, UNDEFINED),
    ],
)
def test_what_is_returned_becomes_a_value(returned: Any, value: Any) -> None:
    answer = ask(lambda _value: returned).value(1)
    assert answer == value
    assert type(answer) is type(value)


@pytest.mark.parametrize(
    "returned", [object(), b"x", Fraction(1, 2), float("nan"), {"a": [object()]}, {b"x": 1}]
)
def test_what_is_no_value_is_an_error(returned: Any) -> None:
    with pytest.raises(EvalError, match=r"acme\.f: the built-in raised InputError$"):
        ask(lambda _value: returned).value(1)


def test_what_is_returned_can_be_changed_later() -> None:
    kept: list[int] = [1]
    answer = ask(lambda _value: kept).value(1)
    kept.append(2)
    assert answer == [1]


def test_what_came_in_can_be_returned() -> None:
    for text in ('{true: {"a", [1]}, {1}: 1.0, "s": null}', "{{true}, [false]}", "1e2"):
        value = Engine().prepare(text).value()
        assert ask(lambda value: value).value(value) == value


def test_the_solutions_of_a_relation_are_values_too() -> None:
    def numbers(value: Any) -> Any:
        yield (value, 1)
        if value == "bad":
            raise LookupError(value)
        yield (value, 2)

    registry = Registry(REGISTRY)
    registry.builtin("acme.all", types.any_, returns=types.any_, relation=True)(numbers)
    engine = Engine(registry=registry)
    results = engine.prepare('acme.all("x", [k, n])').results()
    assert [row["n"] for row in results] == [1, 2]
    with pytest.raises(EvalError, match=r"acme\.all: the built-in raised LookupError"):
        engine.prepare('acme.all("bad", x)').results()


def test_a_coroutine_is_refused() -> None:
    async def body(_value: Any) -> Any:
        return 1

    with pytest.raises(ValueError, match=r"built-in `acme\.f` is a coroutine"):
        ask(body)


def test_bodies_checked_where_they_are_called_are_guarded_as_well() -> None:
    registry = Registry(REGISTRY)

    @registry.builtin("acme.first", types.string, types.string, returns=types.string)
    def acme_first(a: str, b: str) -> str:
        return {"a": b}[a]

    text = 'package a\n\np := acme.first(input.x, "y")\n'
    query = Engine({"a.rego": text}, registry=registry).prepare("data.a.p")
    assert query.value({"x": "a"}) == "y"
    assert query.value({"x": 1}) is UNDEFINED
    with pytest.raises(EvalError, match=r"acme\.first: the built-in raised KeyError"):
        query.value({"x": "b"})


def test_registries_join_unless_they_differ() -> None:
    one, two = Registry(REGISTRY), Registry()
    one.builtin("acme.one", returns=types.number)(lambda: 1)
    two.builtin("acme.two", returns=types.number)(lambda: 2)
    joined = Registry(REGISTRY, one, two)
    assert Engine(registry=joined).prepare("acme.one() + acme.two()").value() == 3
    two.builtin("acme.one", returns=types.number)(lambda: 2)
    with pytest.raises(ValueError, match=r"built-in `acme\.one` is declared twice"):
        Registry(one, two)


def test_what_c_code_raises_has_no_line() -> None:
    with pytest.raises(EvalError) as caught:
        ask(math.sqrt).value(-1)
    assert caught.value.message == "acme.f: the built-in raised ValueError"
    assert caught.value.diagnostics[0].hint == f"ValueError: {caught.value.__cause__}"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_foreign_code_does_not_stop_what_a_signal_raises(error: type[BaseException]) -> None:
    with pytest.raises(error), foreign_code():
        raise error


def test_foreign_code_raises_one_kind_of_error() -> None:
    with pytest.raises(ForeignError, match="ValueError: x"), foreign_code():
        raise ValueError("x")
