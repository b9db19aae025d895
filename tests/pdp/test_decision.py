"""A decision carries its id, its metrics, and an error as OPA writes it."""

from __future__ import annotations

import os
import re
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from doorward.bundles.loader import Loaded
from doorward.pdp.decision import Decision, DecisionError, error_document, new_decision_id
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.rego.errors import CompileError, Diagnostic, EvalError
from doorward.rego.source import Source, Span
from doorward.rego.values import UNDEFINED


def test_an_id_is_a_random_uuid() -> None:
    for _ in range(200):
        text = new_decision_id()
        assert uuid.UUID(text).version == 4
        assert str(uuid.UUID(text)) == text


def test_ids_are_never_given_twice_by_any_thread() -> None:
    with ThreadPoolExecutor(8) as threads:
        batches = threads.map(lambda _: [new_decision_id() for _ in range(500)], range(16))
        ids = [id_ for batch in batches for id_ in batch]
    assert len(set(ids)) == len(ids)


# Newer Pythons warn where another test has left a thread; the child does nothing that minds.
@pytest.mark.system
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_makes_ids_of_its_own() -> None:
    new_decision_id()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, new_decision_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    of_child = os.read(read, 100).decode()
    assert of_child not in {new_decision_id() for _ in range(200)}


def test_a_decision_without_a_result_is_undefined() -> None:
    decision = Decision("id", "a/b")
    assert decision.result is UNDEFINED
    assert decision.error is None
    assert decision.metrics == {"timer_rego_query_eval_ns": 0}


def test_an_error_is_written_as_opa_writes_it() -> None:
    span = Span(Source("p.rego", "package p\n"), 0, 7, 1, 1)
    evaluation = EvalError("eval_conflict_error", "two answers", span)
    document = {
        "code": "eval_conflict_error",
        "message": "two answers",
        "location": {"file": "p.rego", "row": 1, "col": 1},
    }
    assert error_document(evaluation) == document
    diagnostic = Diagnostic("rego_type_error", "no")
    assert error_document(CompileError([diagnostic, diagnostic])) == [
        {"code": "rego_type_error", "message": "no"},
        {"code": "rego_type_error", "message": "no"},
    ]
    source = Source("q.rego", "p := {")
    (parse,) = error_document(
        CompileError([Diagnostic("rego_parse_error", "no", Span(source, 5, 6, 1, 6))])
    )
    assert parse["details"] == {"line": "p := {", "idx": 5}
    assert error_document(DecisionError("undefined decision")) == {"message": "undefined decision"}


def test_a_decision_cannot_be_changed_only_copied() -> None:
    decision = Decision("id", "a/b", result=True)
    failed = decision._replace(error=DecisionError("no"))
    assert decision.error is None
    assert re.fullmatch("no", str(failed.error))


def test_a_decision_explains_itself() -> None:
    policy = 'package a\n\ndefault allow := false\n\nallow if input.user == "root"\n'
    snapshot = build(Loaded({"a.rego": policy}))
    decision = PDP(snapshot).decide("a/allow", {"user": "ann", "password": "hunter2!"})
    assert decision.explain(snapshot, {"user": "ann"}).text() == (
        "data.a.allow is false, its default\n"
        '  a.rego:5: `input.user == "root"` does not hold\n'
        '    input.user: "ann"'
    )
    question = PDP(snapshot).decide_query("data.a.allow == true", {"user": "ann"})
    assert "does not hold" in question.explain(snapshot, {"user": "ann"}).text()
