"""A test that leaves its process without saying so fails."""

from __future__ import annotations

import socket
from collections.abc import Callable
from threading import Event, Thread

import pytest
from tests.guard import Guard

pytestmark = pytest.mark.system


def test_what_leaves_the_process_is_seen_with_its_line() -> None:
    guard = Guard()
    guard.watch()
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
    (seen,) = guard.release()
    assert seen.startswith("socket.bind")
    assert "one.bind" in seen


def test_nothing_else_is_seen() -> None:
    guard = Guard()
    with socket.socket() as before:
        before.bind(("127.0.0.1", 0))
    guard.watch()
    for end in socket.socketpair():
        end.close()
    assert guard.release() == []
    assert guard.release() == []


def test_a_thread_that_goes_on_is_named() -> None:
    guard, gate = Guard(), Event()
    guard.watch()
    staying = Thread(target=gate.wait, name="stays")
    staying.start()
    assert guard.left(within=0.0) == ["thread stays"]
    gate.set()
    assert guard.left() == []  # not watched any more


def test_a_thread_that_ends_is_waited_for() -> None:
    guard, gate = Guard(), Event()
    guard.watch()
    ending = Thread(target=gate.wait)
    ending.start()
    gate.set()
    assert guard.left() == []


def bind_behind(*gates: Event) -> Callable[[], None]:
    def work() -> None:
        for gate in gates:
            gate.wait()
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))

    return work


def test_only_threads_of_the_test_itself_count() -> None:
    guard, gate = Guard(), Event()
    before = Thread(target=bind_behind(gate))
    before.start()
    guard.watch()
    gate.set()
    before.join()
    assert guard.release() == []
    guard.watch()
    own = Thread(target=bind_behind())
    own.start()
    own.join()
    (seen,) = guard.release()
    assert seen.startswith("socket.bind")
