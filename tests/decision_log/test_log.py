"""Every answered decision becomes one line, or is counted as lost."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.waiting import PATIENCE, WatchedLock, wait_until

from doorward.bundles.loader import Loaded
from doorward.config.configuration import DecisionLogs
from doorward.decision_log import log as decision_log
from doorward.decision_log.log import DecisionLog
from doorward.edge import Parts
from doorward.pdp.builtin_answers import noting
from doorward.pdp.decision import Answered, Decision, DecisionError
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import Settings, Snapshot, build
from doorward.rego import REGISTRY, UNDEFINED, from_json, to_json
from doorward.rego.values import make_set
from doorward.telemetry.log import line_for

POLICY = """\
package a

allow if input.user == "ann"
"""


class Lines:
    """Where the lines go; may be told to stand still, or to fail."""

    def __init__(self) -> None:
        self.content = b""
        self.open = threading.Event()
        self.open.set()
        self.begun = 0
        self.fails = False

    def write(self, lines: bytes) -> None:
        self.begun += 1
        self.open.wait(PATIENCE)
        if self.fails:
            raise BrokenPipeError
        self.content += lines

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.content.splitlines()]


def snapshot_of(**modules: str) -> Snapshot:
    return build(Loaded({"a.rego": POLICY} | modules))


def log_to(lines: Lines, **options: Any) -> DecisionLog:
    return DecisionLog(
        lines.write,
        line_for("json"),
        labels={"id": "me", "app": "demo"},
        options=DecisionLogs(console=True, **options),
    )


def logged(input: Any = UNDEFINED, snapshot: Snapshot | None = None, **options: Any) -> Any:
    """The events of one decision, and why some were lost."""
    lines = Lines()
    log = log_to(lines, **options)
    pdp = PDP(snapshot or snapshot_of(), log)
    pdp.record(pdp.decide("a/allow", input), input, handler_ns=7)
    pdp.close()
    return lines.events, log.lost


def test_an_event_names_the_bundles_that_decided() -> None:
    policy = {"a.rego": POLICY}
    snapshot = build(Loaded(policy, revisions={"b.tar.gz": "r1", "folder": ""}))
    ((event,), _) = logged({}, snapshot)
    assert event["bundles"] == {"b.tar.gz": {"revision": "r1"}, "folder": {}}
    ((event,), _) = logged({})
    assert "bundles" not in event


def test_an_event_has_the_shape_of_opa() -> None:
    (event,), lost = logged({"user": "ann"})
    assert lost == {}
    assert event["msg"] == "Decision Log"
    assert event["type"] == "openpolicyagent.org/decision_logs"
    assert event["level"] == "info"
    assert event["labels"] == {"id": "me", "app": "demo"}
    assert event["path"] == "a/allow"
    assert event["input"] == {"user": "ann"}
    assert event["result"] is True
    assert event["metrics"]["timer_server_handler_ns"] == 7
    assert event["metrics"]["timer_rego_query_eval_ns"] > 0
    assert event["timestamp"].endswith("Z")
    assert "error" not in event


RULES = """\
# METADATA
# labels:
#   team: platform
package b

default allow := false

# METADATA
# labels:
#   severity: low
allow if {
	input.method == "GET"
	is_owner
}

is_owner if input.user == "ann"
"""


def test_rules_that_answered_and_that_failed_are_logged() -> None:
    files = Loaded({"b.rego": RULES} | {f"{n}.rego": f"package c\np{n} := 1" for n in range(3)})
    pdp_log = Lines()
    pdp = PDP(build(files, Settings(marked=True)), log_to(pdp_log, rules=True))
    for user in ("ann", "bob"):
        input: Any = {"method": "GET", "user": user}
        pdp.record(pdp.decide("b/allow", input), input)
    pdp.record(pdp.decide("nowhere"), {})
    pdp.record(pdp.decide_query("1"), {})
    pdp.close()
    allowed, denied, nowhere, query = pdp_log.events
    allow = {"path": "b.allow", "file": "b.rego", "row": 11}
    owner = {"path": "b.is_owner", "file": "b.rego", "row": 16}
    assert allowed["custom"] == {"rules": [allow, owner]}
    assert allowed["rule_labels"] == [{"severity": "low", "team": "platform"}, {"team": "platform"}]
    assert denied["custom"] == {"rules": [allow | {"failed": 13}, owner | {"failed": 16}]}
    assert "rule_labels" not in denied
    assert "custom" not in nowhere
    assert "custom" not in query


def test_rules_are_those_of_the_policies_that_decided() -> None:
    marked = Settings(marked=True)
    lines = Lines()
    pdp = PDP(build(Loaded({"b.rego": RULES}), marked), log_to(lines, rules=True))
    decision = pdp.decide("b/allow", {"method": "GET", "user": "ann"})
    pdp.replace(build(Loaded({"a.rego": POLICY}), marked))
    pdp.record(decision, {})
    pdp.close()
    (event,) = lines.events
    assert [each["path"] for each in event["custom"]["rules"]] == ["b.allow", "b.is_owner"]
    assert event["rule_labels"] == [{"severity": "low", "team": "platform"}, {"team": "platform"}]


def test_rules_and_answers_of_builtins_are_logged_together() -> None:
    files = Loaded({"a.rego": "package a\n\nallow if time.now_ns() > 0"})
    settings = Settings(marked=True, notes_answers=True, registry=noting(REGISTRY))
    lines = Lines()
    pdp = PDP(build(files, settings), log_to(lines, rules=True))
    pdp.record(pdp.decide("a/allow"))
    pdp.close()
    (event,) = lines.events
    assert event["custom"] == {"rules": [{"path": "a.allow", "file": "a.rego", "row": 3}]}
    assert list(event["nd_builtin_cache"]) == ["time.now_ns"]


def test_rules_are_bounded_and_logged_only_if_wanted() -> None:
    text = "\n".join(["package a", *[f"p{n} if input.x" for n in range(70)]])
    snapshot = build(Loaded({"a.rego": text}), Settings(marked=True))
    for wanted, expected in ((True, 64), (False, None)):
        lines = Lines()
        pdp = PDP(snapshot, log_to(lines, rules=wanted))
        pdp.record(pdp.decide("a", {"x": 1}), {"x": 1})
        pdp.close()
        (event,) = lines.events
        if expected is None:
            assert "custom" not in event
        else:
            assert len(event["custom"]["rules"]) == expected
            assert event["custom"]["rules_left_out"] == 6


def test_what_is_undefined_has_no_result_and_no_input_no_input() -> None:
    (event,), _ = logged()
    assert "result" not in event
    assert "input" not in event


def test_an_error_stands_in_place_of_the_result() -> None:
    lines = Lines()
    log = log_to(lines)
    snapshot = snapshot_of()
    log.record(
        Answered(Decision("id", "a/b", error=DecisionError("undefined decision")), 1, snapshot)
    )
    log.close()
    assert lines.events[0]["error"] == {"message": "undefined decision"}
    assert lines.events[0]["decision_id"] == "id"


def test_a_query_is_logged_as_such() -> None:
    lines = Lines()
    pdp = PDP(snapshot_of(), log_to(lines))
    pdp.record(pdp.decide_query("1 == 1"))
    pdp.close()
    assert lines.events[0]["query"] == "1 == 1"
    assert "path" not in lines.events[0]


def request(**headers: str) -> dict[str, Any]:
    return {"attributes": {"request": {"http": {"headers": headers}}}}


def test_the_authorization_header_is_erased_unless_told_otherwise() -> None:
    (event,), _ = logged(request(authorization="Bearer secret", accept="x"))
    assert "secret" not in json.dumps(event)
    assert event["erased"] == ["/input/attributes/request/http/headers/authorization"]
    assert event["input"] == request(accept="x")
    (event,), _ = logged(request(authorization="Bearer secret"), mask_credentials=False)
    assert event["input"] == request(authorization="Bearer secret")


def test_a_mask_policy_may_put_something_in_place_of_what_is_erased() -> None:
    rule = """\
package system.log

mask contains {"op": "upsert", "path": path, "value": count(token)} if {
    path := "/input/attributes/request/http/headers/authorization"
    token := input.input.attributes.request.http.headers.authorization
}
"""
    snapshot = snapshot_of(**{"mask.rego": rule})
    (event,), _ = logged(request(authorization="Bearer secret"), snapshot)
    assert event["input"] == request(authorization=13)  # type: ignore[arg-type]  # a number
    assert event["erased"] == event["masked"]


def test_a_mask_that_fails_loses_the_event_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    snapshot = snapshot_of(**{"mask.rego": 'package system.log\nmask := {"/labels/id"}'})
    with caplog.at_level(logging.ERROR):
        events, lost = logged({"user": "ann"}, snapshot)
    assert (events, lost) == ([], {"event": 1})
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0] == "Log event masking failed: mask prefix not allowed: labels."
    assert "Decision log events lost" in messages


def test_a_dropped_event_is_neither_written_nor_lost() -> None:
    snapshot = snapshot_of(**{"d.rego": 'package system.log\ndrop if input.path == "a/allow"'})
    assert logged({"user": "ann"}, snapshot) == ([], {})
    # With other names for the policies nothing is dropped.
    events, _ = logged({"user": "ann"}, snapshot, drop_decision="other/drop")
    assert len(events) == 1


def test_values_json_does_not_have_are_written_all_the_same() -> None:
    input = {"set": make_set([2, 1]), "big": 10**30, "\ud800": "\ud800"}
    input |= {"text": from_json("[1.50, 1e400, -0]")}
    (event,), lost = logged(input)
    assert lost == {}
    assert event["input"]["set"] == [1, 2]
    assert event["input"]["big"] == 10**30


def test_numbers_keep_their_text() -> None:
    lines = Lines()
    log = log_to(lines)
    log.record(Answered(Decision("id", "a"), from_json("[1.50, 1e400, -0, 1E5]"), snapshot_of()))
    log.close()
    assert b'"input":[1.50,1e400,-0,1E5]' in lines.content


def test_a_full_queue_counts_what_it_loses_and_keeps_the_rest() -> None:
    lines = Lines()
    lines.open.clear()
    reasons: list[str] = []
    log = DecisionLog(
        lines.write,
        line_for("json"),
        labels={},
        options=DecisionLogs(console=True, buffer_size=5),
        on_lost=reasons.append,
    )
    snapshot = snapshot_of()
    for number in range(20):
        log.record(Answered(Decision(str(number), "a"), UNDEFINED, snapshot))
    lines.open.set()
    log.close()
    assert log.lost["queue_full"] == len(reasons) > 0
    assert len(lines.events) + len(reasons) == 20


def test_events_that_wait_are_bounded_in_bytes_too() -> None:
    lines = Lines()
    lines.open.clear()
    log = log_to(lines, buffer_bytes=100_000)
    snapshot, large = snapshot_of(), "x" * 40_000
    log.record(Answered(Decision("first", "a"), UNDEFINED, snapshot))
    wait_until(lambda: lines.begun)  # the writer has it, and is stopped
    for number in range(5):
        log.record(Answered(Decision(str(number), "a"), large, snapshot, size=len(large)))
    assert log.lost == {"queue_bytes": 3}
    lines.open.set()
    wait_until(lambda: len(lines.events) == 3)
    log.record(Answered(Decision("after", "a"), large, snapshot, size=len(large)))
    log.close()
    assert [event["decision_id"] for event in lines.events] == ["first", "0", "1", "after"]


def test_an_event_that_is_larger_than_the_limit_waits_alone() -> None:
    lines = Lines()
    lines.open.clear()
    log = log_to(lines, buffer_bytes=1)
    log.record(Answered(Decision("first", "a"), UNDEFINED, snapshot_of()))
    wait_until(lambda: lines.begun)
    for number in range(2):
        log.record(Answered(Decision(str(number), "a"), UNDEFINED, snapshot_of()))
    lines.open.set()
    log.close()
    assert [event["decision_id"] for event in lines.events] == ["first", "0"]
    assert log.lost == {"queue_bytes": 1}


def test_what_cannot_be_written_is_lost_and_counted() -> None:
    lines = Lines()
    lines.fails = True
    log = log_to(lines)
    log.record(Answered(Decision("1", "a"), UNDEFINED, snapshot_of()))
    log.close()
    assert log.lost == {"write": 1}


class UnknownError(Exception):
    """What a library raises that nobody thought of."""


@pytest.mark.parametrize("error", [UnknownError(), MemoryError(), RecursionError(), SystemExit()])
def test_an_event_that_fails_is_lost_and_the_next_is_written(error: BaseException) -> None:
    lines, parts, failing = Lines(), Parts(), [True]

    def line(fields: Mapping[str, Any]) -> bytes:
        if failing:
            raise error
        return line_for("json")(fields)

    log = DecisionLog(lines.write, line, labels={}, options=DecisionLogs(console=True), parts=parts)
    snapshot = snapshot_of()
    for number in range(5):
        log.record(Answered(Decision(str(number), "a"), UNDEFINED, snapshot))
    wait_until(lambda: log.lost == {"event": 5})
    failing.clear()
    log.record(Answered(Decision("last", "a"), UNDEFINED, snapshot))
    wait_until(lambda: bool(lines.content))
    assert parts.problems == {"decision-log": None}
    log.close()
    assert [event["decision_id"] for event in lines.events] == ["last"]
    assert parts.problems == {}


@pytest.mark.parametrize("error", [UnknownError(), MemoryError(), SystemExit()])
def test_a_writer_that_fails_in_any_way_is_counted_and_asked_again(error: BaseException) -> None:
    content, parts, failing = [], Parts(), [True]

    def write(lines: bytes) -> None:
        if failing:
            raise error
        content.append(lines)

    log = DecisionLog(
        write, line_for("json"), labels={}, options=DecisionLogs(console=True), parts=parts
    )
    snapshot = snapshot_of()
    number = 0
    while parts.problems["decision-log"] is None:
        log.record(Answered(Decision(f"{number}", "a"), UNDEFINED, snapshot))
        number += 1
        lost = number
        wait_until(lambda wanted=lost: sum(log.lost.values()) == wanted)  # type: ignore[misc]  # the stubs' lambda has no default
    assert parts.problems == {"decision-log": "failing"}
    assert set(log.lost) == {"fault"}
    failing.clear()
    log.record(Answered(Decision("last", "a"), UNDEFINED, snapshot))
    wait_until(lambda: parts.problems["decision-log"] is None)
    log.close()
    assert b'"decision_id":"last"' in b"".join(content)
    assert log.lost == {"fault": number}


def test_a_writer_that_hangs_is_known_to_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_log, "STUCK_AFTER", 0.05)
    lines, parts = Lines(), Parts()
    lines.open.clear()
    log = DecisionLog(
        lines.write, line_for("json"), labels={}, options=DecisionLogs(console=True), parts=parts
    )
    log.record(Answered(Decision("1", "a"), UNDEFINED, snapshot_of()))
    wait_until(lambda: parts.problems == {"decision-log": "stuck"})
    lines.open.set()
    wait_until(lambda: parts.problems == {"decision-log": None})
    log.close()


def test_nothing_is_taken_after_the_end() -> None:
    log = log_to(Lines())
    log.close()
    log.record(Answered(Decision("1", "a"), UNDEFINED, snapshot_of()))
    log.close()
    assert log.lost == {"closed": 1}


class Building(WatchedLock):
    """The lock of a log's builders, which says whether anybody has had to wait for it."""

    def acquire(self, *, blocking: bool) -> bool:
        return self._lock.acquire(blocking=blocking)

    def release(self) -> None:
        self._lock.release()


def test_the_end_waits_for_events_that_a_request_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_log, "_TURN", 1)
    lines, builds = Lines(), threading.Event()
    log = log_to(lines)
    lock, build = Building(), log._line_of

    def build_late(entry: Any) -> Any:
        builds.set()
        # Until the log's thread waits for this event, or has ended without it.
        wait_until(lambda: lock.was_taken or not log._thread.is_alive())
        return build(entry)

    monkeypatch.setattr(log, "_building", lock)
    monkeypatch.setattr(log, "_line_of", build_late)
    answered = Answered(Decision("1", "a"), UNDEFINED, snapshot_of())
    request = threading.Thread(target=log.record, args=[answered])
    request.start()
    assert builds.wait(PATIENCE)
    log.close(timeout=PATIENCE)
    request.join()
    assert [event["decision_id"] for event in lines.events] == ["1"]
    assert log.lost == {}


def test_a_request_that_waits_for_room_while_the_log_is_closed_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log, waits, closed = log_to(Lines()), threading.Event(), threading.Event()
    enqueue = log._enqueue

    def refuse_late(answered: Answered) -> str:
        waits.set()
        assert closed.wait(PATIENCE)
        return enqueue(answered)

    monkeypatch.setattr(log, "_enqueue", refuse_late)
    answered = Answered(Decision("1", "a"), UNDEFINED, snapshot_of())
    request = threading.Thread(target=log.record, args=[answered])
    request.start()
    assert waits.wait(PATIENCE)
    log.close()
    closed.set()
    request.join()
    assert log.lost == {"closed": 1}


def test_a_round_during_which_the_log_is_closed_is_not_the_last_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines, snapshot = Lines(), snapshot_of()
    log = log_to(lines)
    report, closing = log._report, threading.Thread(target=lambda: log.close(timeout=PATIENCE))

    def close_now(**options: bool) -> None:
        if closing.ident is None:
            log.record(Answered(Decision("2", "a"), UNDEFINED, snapshot))
            closing.start()
            wait_until(lambda: log._closed)
        report(**options)

    monkeypatch.setattr(log, "_report", close_now)
    log.record(Answered(Decision("1", "a"), UNDEFINED, snapshot))
    wait_until(lambda: closing.ident is not None and not closing.is_alive())
    assert [event["decision_id"] for event in lines.events] == ["1", "2"]
    assert log.lost == {}


def test_a_writer_that_hangs_does_not_hold_up_the_end_for_ever() -> None:
    lines = Lines()
    lines.open.clear()
    log = log_to(lines)
    for number in range(3):
        log.record(Answered(Decision(str(number), "a"), UNDEFINED, snapshot_of()))
    log.close(timeout=0.1)
    assert sum(log.lost.values()) >= 1
    lines.open.set()


# Who builds, and when


def test_events_are_built_by_requests_in_turns_and_keep_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decision_log, "GATHER", PATIENCE)
    lines = Lines()
    log = log_to(lines)
    snapshot = snapshot_of()
    for number in range(decision_log._TURN):
        log.record(Answered(Decision(str(number), "a"), UNDEFINED, snapshot))
    assert sum(each.built for each in log._lines) == decision_log._TURN
    log.record(Answered(Decision("large", "a"), UNDEFINED, snapshot, size=100_000))
    for number in range(decision_log._TURN):
        log.record(Answered(Decision(f"after-{number}", "a"), UNDEFINED, snapshot))
    # What takes long is left to the log's thread.
    assert sum(each.built for each in log._lines) == decision_log._TURN
    log.close()
    assert log.lost == {}
    assert [event["decision_id"] for event in lines.events] == [
        *[str(number) for number in range(decision_log._TURN)],
        "large",
        *[f"after-{number}" for number in range(decision_log._TURN)],
    ]


def test_events_of_many_threads_are_written_in_order_and_none_twice() -> None:
    lines = Lines()
    log = log_to(lines, buffer_size=20_000)
    snapshot = snapshot_of()

    def record(thread: int) -> None:
        for number in range(1_000):
            size = 100_000 if number % 250 == 0 else 0
            answered = Answered(Decision(f"{thread}/{number}", "a"), UNDEFINED, snapshot, size=size)
            log.record(answered)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(record, range(4)))
    log.close(timeout=PATIENCE)
    assert log.lost == {}
    ids = [event["decision_id"].split("/") for event in lines.events]
    assert len(ids) == 4_000
    for thread in range(4):
        assert [int(number) for each, number in ids if each == str(thread)] == [*range(1_000)]


def test_what_requests_leave_is_written_by_the_thread_of_the_log() -> None:
    lines = Lines()
    log = log_to(lines)
    snapshot = snapshot_of()
    for number in range(decision_log._TURN + 3):
        log.record(Answered(Decision(str(number), "a"), UNDEFINED, snapshot))
    wait_until(lambda: len(lines.events) == decision_log._TURN + 3, "events are not written")
    log.close()


def test_policies_that_mask_run_in_the_thread_of_the_log() -> None:
    snapshot = snapshot_of(**{"mask.rego": 'package system.log\nmask := {"/input/a"}'})
    lines = Lines()
    log = log_to(lines)
    for number in range(2 * decision_log._TURN):
        log.record(Answered(Decision(str(number), "a"), {"a": 1, "b": 2}, snapshot))
    log.close()
    assert {json.dumps(event["input"]) for event in lines.events} == {'{"b": 2}'}
    assert len(lines.events) == 2 * decision_log._TURN


def test_a_full_queue_is_written_without_waiting_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_log, "GATHER", PATIENCE)
    lines = Lines()
    log = log_to(lines, buffer_size=10)
    for number in range(8):
        log.record(Answered(Decision(str(number), "a"), UNDEFINED, snapshot_of()))
    wait_until(lambda: lines.content)
    log.close()
    assert (len(lines.events), log.lost) == (8, {})


def test_a_request_need_not_wait_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_log, "WAIT", PATIENCE)
    lines = Lines()
    lines.open.clear()
    log = log_to(lines, buffer_size=1, when_full="drop")
    for number in range(3):
        log.record(Answered(Decision(str(number), "a"), UNDEFINED, snapshot_of()))
    assert log.lost["queue_full"] > 0
    lines.open.set()
    log.close()
    assert len(lines.events) + log.lost["queue_full"] == 3


def test_an_event_that_is_built_while_the_log_falls_asleep_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decision_log, "_TURN", 1)
    lines = Lines()
    log = log_to(lines)
    build, report = log._line_of, log._report
    rounds: list[None] = []

    def note(**options: bool) -> None:
        report(**options)
        rounds.append(None)

    def build_late(entry: Any) -> Any:
        # Until the log's thread has seen that nothing is queued.
        before = len(rounds)
        wait_until(lambda: len(rounds) > before and not log._waits.is_set())
        return build(entry)

    monkeypatch.setattr(log, "_report", note)
    monkeypatch.setattr(log, "_line_of", build_late)
    pdp = PDP(snapshot_of(), log)
    pdp.record(pdp.decide("a/allow", {}), {})
    wait_until(lambda: lines.content, "the event is not written")
    monkeypatch.undo()
    pdp.close()


NOTED = """package system.log

mask contains "/input/user" if input.input.user

mask contains {"op": "upsert", "path": "/result/reason", "value": "hidden"}
"""


def test_a_note_gets_as_much_as_a_mask_policy_leaves() -> None:
    """A token that is hidden by its name is there, and what a policy masks is not."""
    seen: list[Any] = []

    def note(answered: Answered, input: Any, result: Any) -> dict[str, str]:
        seen.append((answered.decision.path, input, result))
        return {"user": "ann"} if isinstance(input, dict) else {}

    lines = Lines()
    options = DecisionLogs(console=True)
    log = DecisionLog(lines.write, line_for("json"), labels={}, options=options, note=note)
    rule = 'package a\n\nanswer := {"reason": input.user, "token": "x"}\n'
    pdp = PDP(snapshot_of(**{"mask.rego": NOTED, "b.rego": rule}), log)
    token: Any = {"headers": {"authorization": "Bearer secret"}}
    inputs: list[Any] = [{"user": "ann", **token}, token, UNDEFINED]
    for input in inputs:
        pdp.record(pdp.decide("a/answer", input), input)
    pdp.close()
    assert [each["input"] for each in lines.events[:2]] == [{"headers": {}}] * 2
    assert [each.get("custom") for each in lines.events] == [
        *[{"console": {"user": "ann"}}] * 2,
        None,
    ]
    assert [input for _, input, _ in seen] == [token, token, UNDEFINED]
    assert [result for _, _, result in seen] == [{"reason": "hidden"}, None, None]


class Sink:
    """A sink that may fail."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.texts: list[bytes] = []

    def write(self, lines: Sequence[bytes]) -> None:
        if self.fails:
            raise OSError
        self.texts += lines

    def close(self) -> None:
        pass


@pytest.mark.parametrize("console_fails", [False, True])
def test_a_sink_that_fails_keeps_events_from_no_other(console_fails: bool) -> None:
    lines, broken, working = Lines(), Sink(fails=True), Sink()
    lines.fails = console_fails
    log = DecisionLog(
        lines.write,
        line_for("json"),
        labels={},
        options=DecisionLogs(console=True),
        sinks=(broken, working),
    )
    log.record(Answered(Decision("1", "a"), UNDEFINED, snapshot_of()))
    log.close()
    assert len(working.texts) == 1
    assert len(lines.events) == (0 if console_fails else 1)
    assert log.lost == {"write": 1}


@pytest.mark.parametrize(
    "mask",
    [
        'mask := ["/result/users/0/ssn", "/result/deep/0/0/ssn", "/result/byNumber/7"]',
        """mask contains sprintf("/result/users/%d/ssn", [n]) if some n, _ in input.result.users
mask contains sprintf("/result/deep/%d/0/ssn", [n]) if some n, _ in input.result.deep
mask contains sprintf("/result/byNumber/%s", [key]) if some key, _ in input.result.byNumber""",
        """mask contains {"op": "upsert", "path": path, "value": ""} if {
    some path in ["/result/users/0/ssn", "/result/deep/0/0/ssn", "/result/byNumber/7"]
}""",
    ],
)
def test_masks_apply_in_sets_and_below_keys_that_are_no_texts(mask: str) -> None:
    policy = """package a

allow := {"users": {user}, "deep": {{user}}, "byNumber": {7: "secret"}, "kept": {1, 2}}

user := {"name": "ann", "ssn": "secret"}
"""
    modules = {"a.rego": policy, "m.rego": f"package system.log\n\n{mask}\n"}
    lines = Lines()
    log = log_to(lines)
    pdp = PDP(build(Loaded(modules)), log)
    decision = pdp.decide("a/allow", {})
    pdp.record(decision, {})
    pdp.close()
    (event,) = lines.events
    assert b"secret" not in lines.content
    assert event["result"]["users"][0]["name"] == "ann"
    assert event["result"]["kept"] == [1, 2]
    # The decision itself is not changed.
    assert isinstance(decision.result, dict)
    assert json.loads(to_json(decision.result))["users"] == [{"name": "ann", "ssn": "secret"}]


def test_a_deep_input_is_logged_where_a_policy_masks() -> None:
    policy = {"m.rego": 'package system.log\n\nmask := ["/input/secret"]\n'}
    deep: Any = 1
    for _ in range(400):
        deep = [deep]
    ((event,), _) = logged({"secret": 1, "deep": deep}, snapshot_of(**policy))
    assert event["input"] == {"deep": deep}


def test_credentials_that_an_error_quotes_are_masked() -> None:
    policy = 'package a\n\np := time.parse_rfc3339_ns(concat("", ["password=", input.name]))\n'
    lines = Lines()
    log = log_to(lines)
    pdp = PDP(build(Loaded({"a.rego": policy})), log)
    input: Any = {"name": "hunter2"}
    pdp.record(pdp.decide("a/p", input, strict=True), input)
    pdp.close()
    (event,) = lines.events
    assert event["error"]["code"] == "eval_builtin_error"
    assert "time.parse_rfc3339_ns" in event["error"]["message"]
    assert "hunter2" not in event["error"]["message"]
    assert event["masked"] == ["/error/message"]
