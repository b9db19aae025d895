"""What each built-in answers, one line each: `call => Rego text`, `undefined` or `error: text`.

The lines stand in cases/<category>.txt, one file for each module that declares built-ins. Line
breaks in an error are written as `\\n`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rego.builtins.calls import Call, parse_call

from doorward.rego.builtins import REGISTRY, Context, Environment
from doorward.rego.errors import BuiltinError, EvaluationAborted, LimitError
from doorward.rego.values import Undefined, to_rego

FOLDER = Path(__file__).parent / "cases"
NOW = 1_700_000_000_000_000_000
ELSEWHERE = {"print", "walk"}
"""Built-ins that no term can call."""


def cases(category: str) -> list[tuple[str, str]]:
    lines = (FOLDER / f"{category}.txt").read_text(encoding="utf-8").split("\n")
    return [(call, want) for call, arrow, want in (s.rpartition(" => ") for s in lines) if arrow]


CATEGORIES = sorted(path.stem for path in FOLDER.glob("*.txt"))
CASES = [(*case, category) for category in CATEGORIES for case in cases(category)]


def answer(call: Call) -> str:
    context = Context(Environment(random=bytes), now_ns=NOW)
    try:
        value = call.answer(None, context)
    except LimitError as error:
        return f"limit: {error}"
    except EvaluationAborted as error:
        return f"error: {error}"
    except BuiltinError as error:
        return "error: " + str(error).partition(": ")[2].replace("\n", "\\n")
    return "undefined" if isinstance(value, Undefined) else to_rego(value)


@pytest.mark.parametrize(("call", "want", "_category"), CASES, ids=[case[0] for case in CASES])
def test_answers(call: str, want: str, _category: str) -> None:
    assert answer(parse_call(f"x := {call}")) == want


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_builtin_of_the_category_is_called(category: str) -> None:
    called = {parse_call(f"x := {call}").name for call, _ in cases(category)}
    declared = {builtin.name for builtin in REGISTRY if builtin.category == category}
    assert declared - ELSEWHERE <= called


def test_every_builtin_says_what_it_does() -> None:
    assert [builtin.name for builtin in REGISTRY if not builtin.doc] == []
