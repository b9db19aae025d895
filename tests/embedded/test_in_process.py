"""A decision point in one's own process: read, watched, logged and explained."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import wait_until

from doorward.bundles.signatures import Verification
from doorward.embedded.in_process import MAX_HISTORIES, MAX_WAITING
from doorward.pdp import DecisionPoint, LoadError, from_bundle, from_folder, from_modules
from doorward.pdp.decision import Decision
from doorward.pdp.snapshot import Settings
from doorward.rego import UNDEFINED, CompileError, EvalError, InputError
from doorward.transport.slow_calls import STALL, History

POLICY = """package shop

default allow := false

allow if input.user in data.owners

answer := {"allowed": input.user in data.owners, "http_status": 401}

slow := count([1 |
	some x in numbers.range(1, 300)
	some y in numbers.range(1, 100)
	x < y + input.n
])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.rego").write_text(POLICY)
    (tmp_path / "data.json").write_text('{"owners": ["ann"]}')
    return tmp_path


def test_a_folder_decides_and_data_is_added(folder: Path) -> None:
    with from_folder(folder, data={"limits": (1, 2)}) as point:
        assert point.decide_now("shop/allow", {"user": "ann"}).allowed
        assert not point.decide_now("shop/allow", {"user": "bob"}).allowed
        assert point.decide_now(("limits",)).result == [1, 2]
        assert point.decide_now("shop/nothing").result is UNDEFINED
        assert not point.decide_now("shop/nothing").allowed


def test_data_that_files_define_too_is_refused(folder: Path) -> None:
    with pytest.raises(LoadError, match="merge error"):
        from_folder(folder, data={"owners": {"ann": 1}})
    with pytest.raises(InputError, match=r"data\.owner"):
        from_folder(folder, data={"owner": b"ann"})


def test_an_object_allows_by_its_field_and_nothing_else_does() -> None:
    results = ["true", "{}", '{"allowed": 1}', '{"allowed": "true"}', "1", '"true"', "[true]"]
    rules = "\n".join(f"r{n} := {text}" for n, text in enumerate(results))
    with from_modules({"r.rego": f'package r\n{rules}\nobject := {{"allowed": true}}\n'}) as point:
        allowed = [point.decide_now(f"r/r{n}").allowed for n in range(len(results))]
        assert allowed == [True] + [False] * 6
        assert point.decide_now("r/object").allowed


@dataclass
class Request:
    user: str
    roles: tuple[str, ...] = ()


def test_the_log_holds_each_decision_with_its_converted_input(folder: Path) -> None:
    lines: list[bytes] = []
    with from_folder(folder, log=lines.append) as point:
        allowed = point.decide_now("shop/allow", Request("ann", ("x",)))
        failed = asyncio.run(point.decide("shop/allow", {"user": b"ann"}))
        masked = point.decide_now("shop/allow", {"user": "bob", "password": "secret"})
    events = {e["decision_id"]: e for e in map(json.loads, b"".join(lines).splitlines())}
    assert events[allowed.decision_id]["input"] == {"user": "ann", "roles": ["x"]}
    assert events[allowed.decision_id]["result"] is True
    assert isinstance(failed.error, InputError)
    assert not failed.allowed
    assert "input.user is of the class bytes" in events[failed.decision_id]["error"]["message"]
    assert "secret" not in json.dumps(events[masked.decision_id])


def test_a_change_of_files_is_seen_and_a_broken_one_is_not(folder: Path) -> None:
    with from_folder(folder, data={"extra": 1}).watch(interval=0.01) as point:
        assert point.watch() is point
        (folder / "data.json").write_text('{"owners": ["bob"]}')
        wait_until(lambda: point.decide_now("shop/allow", {"user": "bob"}).allowed)
        assert point.decide_now("extra").result == 1
        (folder / "shop.rego").write_text("package shop\nallow if")
        wait_until(lambda: point.health.reload_error)
        assert point.decide_now("shop/allow", {"user": "bob"}).allowed
    with from_modules({}) as without, pytest.raises(ValueError, match="no files to watch"):
        without.watch()


def test_data_changes_while_decisions_go_on() -> None:
    with from_modules({"shop.rego": POLICY}, {"owners": ["ann"]}) as point:
        point.store.put(("owners",), ["bob"])
        assert point.decide_now("shop/allow", {"user": "bob"}).allowed


def test_why_is_told_without_credentials() -> None:
    with from_modules({"shop.rego": POLICY}, {"owners": ["ann"]}) as point:
        text = point.explain("shop/allow", {"user": "bob", "token": "secret"}).text()
        assert "input.user in data.owners" in text
        assert "secret" not in text


def test_a_bundle_is_verified_unless_it_is_said_that_it_is_not(folder: Path) -> None:
    with from_bundle(folder) as point:
        assert point.decide_now("shop/allow", {"user": "ann"}).allowed
    (folder / ".signatures.json").write_text('{"signatures": ["x.y.z"]}')
    with pytest.raises(LoadError, match="verification key not provided"):
        from_bundle(folder)
    with pytest.raises(LoadError):
        from_bundle(folder, verification=Verification("key"))
    with from_bundle(folder, skip_verify=True) as point:
        assert point.decide_now("shop/allow", {"user": "ann"}).allowed
    with pytest.raises(ValueError, match="exclude each other"):
        from_bundle(folder, skip_verify=True, verification=Verification("key"))


def test_what_does_not_compile_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(CompileError):
        from_modules({"a.rego": "package a\np if x > 1"})
    with pytest.raises(LoadError, match="no such file"):
        from_folder(tmp_path / "missing")


def test_a_coroutine_decides_slow_policies_in_threads() -> None:
    async def decide(point: DecisionPoint) -> None:
        history = point._history("shop/slow")
        while not history.is_slow:
            await point.decide("shop/slow", {"n": 0})
        went_on = 0
        pending = asyncio.ensure_future(point.decide("shop/slow", {"n": 0}))
        while not pending.done():
            went_on += 1
            await asyncio.sleep(0)
        assert went_on > 1
        assert (await pending).error is None
        point._waiting = MAX_WAITING
        assert "too many" in str((await point.decide("shop/slow", {"n": 0})).error)

    with from_modules({"shop.rego": POLICY}, {"owners": []}) as point:
        asyncio.run(decide(point))


def test_a_policy_that_waits_stays_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    loop_thread = threading.get_ident()
    waits: list[bool] = []

    async def decide(point: DecisionPoint) -> None:
        answer = point.pdp.decide

        def wait(*arguments: Any, **options: Any) -> Decision:
            waits.append(threading.get_ident() == loop_thread)
            threading.Event().wait(2 * STALL)  # as http.send does, without the processor
            return answer(*arguments, **options)

        monkeypatch.setattr(point.pdp, "decide", wait)
        while not point._history("shop/allow").is_slow:
            await point.decide("shop/allow", {})
        waits.clear()
        for _ in range(50):
            await point.decide("shop/allow", {})

    with from_modules({"shop.rego": POLICY}, {"owners": []}) as point:
        asyncio.run(decide(point))
    assert not any(waits), "the loop waited"


def test_histories_are_bounded() -> None:
    with from_modules({}) as point:
        for n in range(MAX_HISTORIES + 5):
            asyncio.run(point.decide(f"a/{n}")) if n % 400 == 0 else point._history(f"a/{n}")
        assert len(point._histories) <= MAX_HISTORIES


def test_a_deadline_ends_a_decision_with_an_error() -> None:
    with from_modules({"shop.rego": POLICY}, settings=Settings(deadline=0.0)) as point:
        decision: Any = point.decide_now("shop/slow", {"n": 0})
        assert isinstance(decision.error, EvalError)
        assert not decision.allowed


def test_a_history_is_slow_by_its_average_and_fast_again_below_another() -> None:
    history = History()
    states = []
    for elapsed in (0.002, 0.0008, 0.0001):
        for _ in range(200):
            history.note(elapsed)
        states.append(history.is_slow)
    assert states == [True, True, False]
    assert History(assumed=0.001).is_slow
