"""The check answers whatever happens, in a thread when it is slow."""

from __future__ import annotations

import asyncio
import threading

from doorward.enforcement.check import HttpCheck, HttpOptions
from doorward.enforcement.http_input import HttpRequest
from doorward.pdp import from_modules
from doorward.pdp.snapshot import Settings

POLICY = """package a

allow if input.parsed_path == ["ok"]

conflict := 1

conflict := 2 if input.parsed_path

slow if count([1 | some x in numbers.range(1, 50000); x > count(input.parsed_path)]) > 1
"""
REQUEST = HttpRequest("GET", "/ok", {}, "a.example")


def test_what_fails_is_denied_with_its_reason() -> None:
    with from_modules({"a.rego": POLICY}) as point:
        reasons = {
            path: HttpCheck(point.pdp, HttpOptions(path=path)).check(REQUEST)
            for path in ("a/allow", "/a/allow/", "a/conflict", "a/nothing", "a")
        }
    assert {path: (v.allowed, v.status, v.reason) for path, v in reasons.items()} == {
        "a/allow": (True, 403, ""),
        "/a/allow/": (True, 403, ""),
        "a/conflict": (False, 403, "eval_conflict_error"),
        "a/nothing": (False, 403, "result_error"),
        "a": (False, 403, "eval_conflict_error"),
    }


def test_a_deadline_denies() -> None:
    with from_modules({"a.rego": POLICY}, settings=Settings(deadline=0.0)) as point:
        verdict = HttpCheck(point.pdp, HttpOptions(path="a/slow")).check(REQUEST)
    assert (verdict.allowed, verdict.reason) == (False, "eval_cancel_error")


def test_slow_checks_leave_the_event_loop() -> None:
    threads: set[str] = set()

    class Watched(HttpCheck):
        def check(self, request: HttpRequest) -> object:  # type: ignore[override] # as it is
            threads.add(threading.current_thread().name)
            return super().check(request)

    async def ask(check: HttpCheck) -> None:
        for _ in range(200):
            await check.check_async(REQUEST)
            if len(threads) > 1:
                return

    with from_modules({"a.rego": POLICY}) as point:
        asyncio.run(ask(Watched(point.pdp, HttpOptions(path="a/slow"))))
    assert len(threads) > 1
