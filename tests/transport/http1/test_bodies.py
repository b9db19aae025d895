"""Bodies of all connections share one budget, and give their bytes back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest
from tests.transport.http1.wire import Wire, responses

from doorward.transport.http1.bodies import BodyBudget
from doorward.transport.http1.connection import LATER, Answer, Application, Respond
from doorward.transport.http1.limits import Limits
from doorward.transport.http1.messages import Request, Response

HEAD = b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
LIMITS = Limits(body_buffered=1000)


def answer(request: Request, _respond: object) -> Response:
    return Response(200, b"", b"%d" % len(request.body))


Make: TypeAlias = Callable[..., Wire]


@pytest.fixture
def wire() -> Iterator[Make]:
    wires: list[Wire] = []

    def make(bodies: BodyBudget, to: Answer = answer) -> Wire:
        wires.append(Wire(Application(to), LIMITS, bodies))
        return wires[-1]

    yield make
    for each in wires:
        each.abort()
        each.run()
        each.loop.close()


def test_bodies_that_arrive_on_many_connections_share_a_budget(wire: Make) -> None:
    bodies = BodyBudget(1000, free=100)
    slow = [wire(bodies) for _ in range(4)]
    for each in slow:
        assert each.send(HEAD % 400 + b"x" * 350) == b""
    assert bodies.taken == 1000
    for each in slow:
        assert each.send(b"x" * 10) == b"" or each.half_closed
    assert bodies.taken <= 1000


def test_body_beyond_the_budget_is_refused_and_its_share_is_free(wire: Make) -> None:
    bodies = BodyBudget(1000, free=100)
    first, second = wire(bodies), wire(bodies)
    first.send(HEAD % 900 + b"x" * 899)
    assert bodies.taken == 799
    refusal = (
        b"503 Service Unavailable: "
        b"too many request bodies are being read at the same time: try again later\n"
    )
    assert responses(second.send(HEAD % 900 + b"x" * 400)) == [(503, refusal)]
    assert second.half_closed
    assert bodies.taken == 799
    assert responses(first.send(b"x")) == [(200, b"900")]
    assert bodies.taken == 0


def test_short_bodies_are_answered_where_nothing_is_left(wire: Make) -> None:
    bodies = BodyBudget(100, free=100)
    assert wire(bodies).send(HEAD % 900 + b"x" * 200) == b""
    assert bodies.taken == 100
    for _ in range(3):
        assert responses(wire(bodies).send(HEAD % 100 + b"x" * 100)) == [(200, b"100")]


def test_share_comes_back_with_the_connection(wire: Make) -> None:
    bodies = BodyBudget(1000, free=0)
    each = wire(bodies)
    each.send(HEAD % 900 + b"x" * 300)
    assert bodies.taken == 300
    each.abort()
    assert bodies.taken == 0


def test_share_is_kept_for_as_long_as_a_thread_has_the_request(wire: Make) -> None:
    bodies = BodyBudget(1000, free=0)
    waiting: list[Request] = []

    def later(request: Request, _respond: Respond) -> Response:
        waiting.append(request)
        return LATER

    each = wire(bodies, later)
    each.send(HEAD % 900 + b"x" * 900)
    each.abort()
    assert bodies.taken == 900
    thread = threading.Thread(target=waiting.clear)
    thread.start()
    thread.join()
    assert bodies.taken == 0
    assert responses(wire(bodies).send(HEAD % 900 + b"x" * 900)) == [(200, b"900")]


def test_body_that_is_handed_over_in_pieces_takes_nothing(wire: Make) -> None:
    bodies = BodyBudget(10_000, free=0)
    each = wire(bodies)
    each.send(HEAD % 5000 + b"x" * 1500)
    assert bodies.taken == 0
