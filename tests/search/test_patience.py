"""An evaluation that a busy machine makes late is done again, and one that takes too long ends."""

from __future__ import annotations

import pytest

from doorward.rego import Engine, EvalError
from doorward.search import patience
from doorward.search.patience import has_result, patiently


def late(deadline: float) -> None:
    """End with the error of a deadline, without any work."""
    engine = Engine()
    query = engine.prepare("some x in numbers.range(1, 1000); x < 0")
    query.rows_of(query.evaluation(deadline=-1.0))


def test_what_is_late_without_the_processor_is_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "process_time", lambda: 0.0)
    deadlines: list[float] = []

    def work(deadline: float) -> str:
        deadlines.append(deadline)
        if len(deadlines) < 3:
            late(deadline)
        return "done"

    assert patiently(work, 0.5) == "done"
    assert deadlines == [0.5, 2.0, 8.0]


def test_what_has_had_the_processor_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 1.0])
    monkeypatch.setattr(patience, "process_time", lambda: next(times))
    with pytest.raises(EvalError):
        patiently(late, 0.5)


def test_nothing_is_done_again_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "process_time", lambda: 0.0)
    with pytest.raises(EvalError):
        patiently(late, 0.5)


def test_other_errors_are_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "process_time", lambda: 0.0)
    engine = Engine({"p.rego": "package p\n\nx := 1 if input.a\n\nx := 2 if input.b\n"})
    with pytest.raises(EvalError):
        has_result(engine.prepare("data.p.x"), {"a": True, "b": True}, 1.0)


def test_a_query_that_is_false_or_undefined_has_no_result() -> None:
    query = Engine().prepare("x := input.a; x > 1")
    assert has_result(query, {"a": 2}, 1.0)
    assert not has_result(query, {"a": 1}, 1.0)
    assert not has_result(query, {}, 1.0)
