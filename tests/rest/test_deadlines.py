"""No request takes much longer than its deadline, whatever multiplies, nor outlives its client.

Each attack is minutes of work, or gigabytes, where nothing bounds it. Time is the time of the
processor, so that a busy machine changes nothing; the bound is that of the requests that are
allowed a dozen deadlines, and some for what is read and written.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sys
import threading
import time
from typing import Any, Final

import pytest
from tests.rest.asgi import ask
from tests.waiting import PATIENCE, wait_until

from doorward.base.cancellation import Cancellation, is_stopped
from doorward.bundles.loader import Loaded
from doorward.config.configuration import parse_config
from doorward.pdp.decision import Answered
from doorward.pdp.pdp import PDP
from doorward.pdp.residuals import MAX_EXPRESSIONS, MAX_TEXT
from doorward.pdp.snapshot import Settings, build
from doorward.pdp.store import Store
from doorward.rego import EvalError, Value
from doorward.rego.shared import Key
from doorward.rest.app import CLIENT_LEFT, Api
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics
from doorward.transport.http1.asgi import CANCELLATION

pytestmark = pytest.mark.long

DEADLINE: Final = 0.05
BOUND: Final = 3.0 if sys.gettrace() is None else 30.0
"""Seconds of CPU time: twelve deadlines, and what takes its time by the size of the request."""
MEMORY: Final = 1 << 30
"""Bytes that a request may take: each attack would take several times as many."""

MANY: Final = "numbers.range(1, 4000000)"
DOUBLED: Final = [f"d{n} := [{', '.join([f'd{n - 1}'] * 8)}]" for n in range(1, 12)]
POLICY: Final = f"""package p

d0 := [input, input]

{chr(10).join(DOUBLED)}

loop := [x | some x in {MANY}; some y in {MANY}]

rows contains [x, y] if {{ some x in {MANY}; some y in {MANY} }}

slow if {{ some x in {MANY}; some y in {MANY}; x + y < 0 }}

part if {{ some x in {MANY}; input.fruits.a == x }}

include if input.fruits.a == 1

allow if {{ not slow; input.subject }}

candidates := [{{"type": "file", "id": sprintf("%d", [i])}} | some i in numbers.range(1, 1000)]
"""
HEALTH: Final = "package system.health\n\nslow if data.p.slow\n"
LARGE: Final[dict[Key, Value]] = {str(number): number for number in range(20_000)}
ROWS: Final = f"x := {MANY}[_]; y := {MANY}[_]"
SUBJECT: Final = {"subject": {"type": "user", "id": "ann"}, "action": {"name": "read"}}
RESOURCE: Final = {"resource": {"type": "file", "id": ""}}
SQL: Final = {"accept": "application/vnd.opa.sql.postgresql+json"}


def shared(levels: int) -> str:
    """A query whose last value has four to the power of `levels` items."""
    steps = [f"a{n} := [a{n - 1}, a{n - 1}, a{n - 1}, a{n - 1}]" for n in range(1, levels)]
    return "; ".join(["a0 := [1]", *steps])


ATTACKS: Final[dict[str, tuple[str, str, Any]]] = {
    "rows": ("POST", "/v1/query", {"query": ROWS}),
    "rows-get": ("GET", "/v1/query?q=x:=numbers.range(1,4000000)[_]%3By:=x", None),
    "rows-explained": ("POST", "/v1/query?explain=full&pretty&metrics", {"query": ROWS}),
    "rows-false": ("POST", "/v1/query", {"query": f"{ROWS}; x == -y"}),
    "walks": (
        "POST",
        "/v1/query",
        {"query": "walk(input, [p, v]); walk(input, q)", "input": LARGE},
    ),
    "shared": ("POST", "/v1/query", {"query": shared(20)}),
    "shared-explained": ("POST", "/v1/query?explain=why", {"query": shared(20)}),
    "expressions": (
        "POST",
        "/v1/query",
        {"query": ";".join([f"x{n} := 1" for n in range(9000)])},
    ),
    "text": ("POST", "/v1/query", {"query": f"x := [{','.join(['1'] * 300_000)}]"}),
    "loop": ("POST", "/v1/data/p/loop", {}),
    "set": ("POST", "/v1/data/p/rows", {}),
    "all": ("POST", "/v1/data", {"input": [1]}),
    "documents": ("POST", "/v1/data/p/d11", {"input": [1, 2]}),
    "documents-pretty": ("POST", "/v1/data/p/d6?pretty", {"input": [1, 2]}),
    "documents-v0": ("POST", "/v0/data/p/d11", [1, 2]),
    "documents-explained": ("POST", "/v1/data/p/d5?explain=full&pretty", {"input": 1}),
    "documents-why": ("POST", "/v1/data/p/d5?explain=why", {"input": 1}),
    "explained": ("POST", "/v1/data/p/slow?explain=full", {}),
    "why": ("POST", "/v1/data/p/slow?explain=why", {}),
    "instrumented": ("POST", "/v1/data/p/slow?instrument&metrics&provenance", {}),
    "batch": ("POST", "/v1/batch/data/p/slow", {"inputs": {str(n): n for n in range(200)}}),
    "batch-common": (
        "POST",
        "/v1/batch/data/p/include",
        {"inputs": {str(n): {"q": 1} for n in range(20_000)}, "common_input": LARGE},
    ),
    "evaluation": (
        "POST",
        "/access/v1/evaluation",
        {**SUBJECT, **RESOURCE},
    ),
    "evaluations": (
        "POST",
        "/access/v1/evaluations",
        {**SUBJECT, "evaluations": [RESOURCE] * 1000},
    ),
    "search": ("POST", "/access/v1/search/resource", {**SUBJECT, "resource": {"type": "file"}}),
    "compile": ("POST", "/v1/compile", {"query": "data.p.part == true"}),
    "compile-rows": ("POST", "/v1/compile", {"query": f"{ROWS}; input.x == y"}),
    "compile-products": (
        "POST",
        "/v1/compile",
        {"query": ";".join([f"input.a{n} == {{1, 2}}[_]" for n in range(40)])},
    ),
    "compile-expressions": ("POST", "/v1/compile", {"query": ";".join(["input.x"] * 9000)}),
    "filter": ("POST", "/v1/compile/p/part", {}),
    "filter-mask": ("POST", "/v1/compile/p/include", {"options": {"maskRule": "data.p.slow"}}),
    "patch": ("PATCH", "/v1/data/x", [{"op": "add", "path": "/0", "value": 1}] * 9000),
    "patch-keys": (
        "PATCH",
        "/v1/data/y",
        [{"op": "add", "path": f"/z/k{n}", "value": 1} for n in range(9000)],
    ),
    "health": ("GET", "/health/slow", None),
}


@pytest.fixture(scope="module", autouse=True)
def freeze_objects() -> None:
    """Keep collections of garbage from the objects that earlier tests left: to visit them takes
    seconds, which no attack took."""
    gc.collect()
    gc.freeze()


class Sink:
    """The first answers that the decision log gets.

    The log itself bounds what waits there (`tests/decision_log`). All answers would take more the
    faster the machine is: a gigabyte for a batch.
    """

    def __init__(self) -> None:
        self.answered: list[Answered] = []

    def record(self, answered: Answered) -> None:
        if len(self.answered) < 10:
            self.answered.append(answered)

    def close(self) -> None:
        """There is nothing to write."""


def api(deadline: float = DEADLINE) -> Api:
    text = "authzen: {decision: p/allow, search: {resource: p/candidates}}"
    settings = Settings(deadline=deadline)
    policies = {"p.rego": POLICY, "health.rego": HEALTH}
    loaded = Loaded(policies, {"x": [*range(20_000)], "y": {**LARGE, "z": LARGE}})
    pdp = PDP(build(loaded, settings), Sink())
    config = parse_config(text, environment={})
    return Api(pdp, config, Health(), Metrics("1"), store=Store(pdp, loaded, settings))


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_what_multiplies_is_bounded(attack: tuple[str, str, Any]) -> None:
    method, target, document = attack
    app = api()
    body = b"" if document is None else json.dumps(document).encode()
    headers = {"content-type": "application/json", "accept-encoding": "gzip"}
    headers |= SQL if target.startswith("/v1/compile/") else {}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    answer = ask(app, method, target, body, headers)
    assert time.process_time() - began < BOUND
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < MEMORY // 1024
    assert answer.status in (200, 204, 207, 400, 500)


def test_rows_are_bounded_by_items_where_there_is_time() -> None:
    answer = ask(api(deadline=60.0), "POST", "/v1/query", json.dumps({"query": ROWS}).encode())
    assert "evaluation makes more than" in answer.body


@pytest.mark.parametrize("target", ["/v1/query", "/v1/compile"])
@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("; ".join(["true"] * (MAX_EXPRESSIONS + 1)), "query has more than 1000 expressions"),
        (f"[x | {'true; ' * MAX_EXPRESSIONS} x := 1]", "query has more than 1000 expressions"),
        (f'"{"a" * MAX_TEXT}"', "query has more than 262144 characters"),
    ],
)
def test_a_query_of_a_client_is_bounded(target: str, query: str, message: str) -> None:
    answer = ask(api(), "POST", target, json.dumps({"query": query}).encode())
    assert answer.status == 400
    assert message in answer.body


@pytest.mark.parametrize("target", ["/v1/query", "/v1/compile"])
def test_a_query_of_as_many_expressions_as_are_allowed_is_answered(target: str) -> None:
    query = "; ".join(["true"] * MAX_EXPRESSIONS)
    answer = ask(api(deadline=60.0), "POST", target, json.dumps({"query": query}).encode())
    assert answer.status == 200


# Clients that leave


def leave(target: str, body: bytes, sink: Sink) -> int:
    """The status of a request whose client leaves once it is evaluated; the deadline is far."""
    app = api(deadline=10 * PATIENCE)
    app._service.pdp.log_to(sink)
    cancellation = Cancellation()
    status = 0

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)

    scope = {
        "type": "http",
        "method": "POST",
        "path": target,
        "raw_path": target.encode(),
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
        CANCELLATION: cancellation,
    }

    def cancel() -> None:
        wait_until(lambda: cancellation._thread is not None)
        cancellation.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    asyncio.run(app(scope, receive, send))
    thread.join()
    return status


@pytest.mark.parametrize(
    ("target", "document"),
    [
        ("/v1/data/p/slow", {}),
        ("/v0/data/p/slow", {}),
        ("/v1/query", {"query": "data.p.slow"}),
        ("/v1/compile", {"query": "data.p.part == true"}),
        ("/v1/batch/data/p/slow", {"inputs": {str(n): n for n in range(50)}}),
        (
            "/access/v1/evaluations",
            {**SUBJECT, "evaluations": [RESOURCE] * 9},
        ),
        ("/access/v1/search/resource", {**SUBJECT, "resource": {"type": "file"}}),
    ],
)
def test_work_ends_when_its_client_leaves(target: str, document: Any) -> None:
    sink = Sink()
    began = time.monotonic()
    assert leave(target, json.dumps(document).encode(), sink) in (200, 500)
    assert time.monotonic() - began < 10 * PATIENCE
    for answered in sink.answered[:1]:
        error = answered.decision.error
        assert error is None or (isinstance(error, EvalError) and "cancelled" in str(error))
    assert not is_stopped()


def test_a_request_whose_client_left_before_is_not_evaluated() -> None:
    sink, cancellation = Sink(), Cancellation()
    cancellation.cancel()
    app = api()
    app._service.pdp.log_to(sink)
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Any) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/data/p/include",
        "query_string": b"",
        "headers": [],
        CANCELLATION: cancellation,
    }
    asyncio.run(app(scope, receive, send))
    assert (statuses, sink.answered) == ([CLIENT_LEFT], [])
