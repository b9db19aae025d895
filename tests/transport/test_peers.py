"""Questions between workers: answered in time, or left out, and nobody waits for longer."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE, wait_until

from doorward.edge import Parts
from doorward.transport import peers
from doorward.transport.peers import Mailbox, Peers


@pytest.fixture
def mailboxes() -> Iterator[list[Mailbox]]:
    group = [Mailbox() for _ in range(3)]
    yield group
    for each in group:
        each.close()


def ask(asker: Peers, question: Mapping[str, Any], within: float = PATIENCE) -> dict[int, Any]:
    return asyncio.run(asker.ask(question, within))


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_all_that_answer_are_heard(mailboxes: list[Mailbox]) -> None:

    def answer(number: int, question: Mapping[str, Any]) -> Any:
        return [number, question["text"] * 1_000]

    group = [Peers(number, mailboxes) for number in range(3)]
    parts = Parts()
    for each in group:
        each.serve(partial(answer, each.number), parts)
    before = descriptors()
    for _ in range(50):
        assert ask(group[1], {"text": "é"}) == {n: [n, "é" * 1_000] for n in (0, 2)}
    assert set(parts.problems.values()) == {None}
    wait_until(lambda: descriptors() == before)
    for each in group:
        each.close()


def test_who_does_not_answer_is_left_out(mailboxes: list[Mailbox]) -> None:
    asker, slow = Peers(0, mailboxes), Peers(1, mailboxes)
    released = threading.Event()
    slow.serve(lambda _question: released.wait(PATIENCE), Parts())
    assert ask(asker, {}, within=0.05) == {}
    released.set()
    slow.close()


def test_who_knows_is_heard_before_those_that_are_silent(mailboxes: list[Mailbox]) -> None:
    asker, other = Peers(0, mailboxes), Peers(1, mailboxes)
    other.serve(lambda question: question["known"], Parts())

    def first(known: Any, within: float) -> tuple[Any, bool]:
        return asyncio.run(asker.ask_who_knows({"known": known}, within))

    # The third one does not answer, and is not waited for.
    began = time.monotonic()
    assert first("here", PATIENCE) == ("here", False)
    assert time.monotonic() - began < PATIENCE / 2
    assert first(None, 0.05) == (None, False)
    third = Peers(2, mailboxes)
    third.serve(lambda _question: None, Parts())
    assert first(None, PATIENCE) == (None, True)
    third.close()
    other.close()


def test_a_slow_answer_does_not_stop_the_next(mailboxes: list[Mailbox]) -> None:
    asker, other = Peers(0, mailboxes[:2]), Peers(1, mailboxes[:2])
    released = threading.Event()

    def answer(question: Mapping[str, Any]) -> Any:
        return released.wait(PATIENCE) if question["is_slow"] else "soon"

    other.serve(answer, Parts())
    assert ask(asker, {"is_slow": True}, within=0.05) == {}
    assert ask(asker, {"is_slow": False}) == {1: "soon"}
    released.set()
    other.close()


def test_a_question_that_nobody_waits_for_is_not_answered(mailboxes: list[Mailbox]) -> None:
    asker, late = Peers(0, mailboxes[:2]), Peers(1, mailboxes[:2])
    assert ask(asker, {"text": "old"}, within=0.01) == {}
    heard: list[Any] = []

    def answer(question: Mapping[str, Any]) -> Any:
        heard.append(question)
        return True

    late.serve(answer, Parts())
    assert ask(asker, {"text": "new"}) == {1: True}
    assert heard == [{"text": "new"}]
    late.close()


def test_a_full_mailbox_refuses_at_once(mailboxes: list[Mailbox]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        taken = 0
        while mailboxes[1].put(b"{}", theirs):
            taken += 1
            assert taken < 100_000
    assert ask(Peers(0, mailboxes[:2]), {}) == {}


def test_what_fails_or_is_too_long_is_no_answer(
    mailboxes: list[Mailbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "ANSWER", 1_000)
    asker, other = Peers(0, mailboxes[:2]), Peers(1, mailboxes[:2])
    answers = {"short": "x", "long": "x" * 1_000, "none": None}
    parts = Parts()
    other.serve(lambda question: answers[question["name"]], parts)
    assert ask(asker, {"name": "unknown"}) == {}
    assert ask(asker, {"name": "long"}) == {}
    assert ask(asker, {"name": "none"}) == {1: None}
    assert ask(asker, {"name": "short"}) == {1: "x"}
    assert ask(asker, {"name": "short", "more": "x" * peers.QUESTION}) == {}
    assert set(parts.problems.values()) == {None}
    other.close()


def test_half_an_answer_is_none(mailboxes: list[Mailbox]) -> None:
    """A worker may be killed while it answers."""

    def killed() -> None:
        while (taken := mailboxes[1].take()) is None:
            os.sched_yield()
        question, end = taken
        assert set(question) == {"until"}
        end.send(json.dumps({"a": "b"}).encode()[:4])
        end.close()

    thread = threading.Thread(target=killed)
    thread.start()
    assert ask(Peers(0, mailboxes[:2]), {}) == {}
    thread.join(PATIENCE)
