"""Questions of one worker process to the others, for pages that show what all of them know.

    asker ─question, one end of a connection─▶ mailbox of the other ─▶ its thread ─answer─▶ asker

The parent makes a mailbox for each worker before it forks: a pair of datagram sockets, so that only
its workers can write to it, and a worker that is started again finds it. Each question brings the
connection for its answer. Nothing waits: a mailbox that is full refuses, and who does not answer in
time is left out by the asker, who says so.
"""

from __future__ import annotations

import asyncio
import json
import logging
import select
import socket
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, Final

from doorward.edge import Edge, Part, Parts, loop_thread
from doorward.transport.workers import Alarm

__all__ = ["Mailbox", "Peers"]

QUESTION: Final = 16 << 10
"""The largest question in bytes."""
ANSWER: Final = 4 << 20
"""The largest answer in bytes; a longer one is not sent."""
SENDING: Final = 1.0
"""Seconds that sending an answer may take."""
THREADS: Final = 2
"""The number of threads of a worker that answer questions, so that a slow one does not stop the
rest."""
_STUCK: Final = 60.0

_log: Final = logging.getLogger(__name__)
_EDGE: Final = Edge("peers", "a question of another worker was not answered")


class Mailbox:
    """A queue of questions for one worker, made by the parent before it forks."""

    def __init__(self) -> None:
        # Datagrams: several workers write to it, and questions must not run into each other.
        self._takes, self._puts = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._takes.setblocking(False)
        self._puts.setblocking(False)

    def fileno(self) -> int:
        """Return the descriptor that is readable while a question waits."""
        return self._takes.fileno()

    def put(self, question: bytes, answers: socket.socket) -> bool:
        """Send a question with the socket for its answer; return False if the mailbox is full or
        gone.
        """
        try:
            # The socket does not block: a full mailbox is an error at once.
            socket.send_fds(self._puts, [question], [answers.fileno()])
        except OSError:
            return False
        return True

    def take(self) -> tuple[Any, socket.socket] | None:
        """Return the next question and the socket for its answer; None if there is none. Does not
        block.
        """
        try:
            text, ends, _, _ = socket.recv_fds(self._takes, QUESTION, 1)
        # Both threads wake for one question; the slower one gets nothing.
        except BlockingIOError:
            return None
        return (json.loads(text), socket.socket(fileno=ends[0])) if ends else None

    def close(self) -> None:
        self._takes.close()
        self._puts.close()


class Peers:
    """The other worker processes, as one worker sees them: it asks them and answers them."""

    def __init__(self, number: int, mailboxes: Sequence[Mailbox]) -> None:
        """Take the mailboxes of all workers; `number` is the index of this worker's own one."""
        self.number = number
        self.count = len(mailboxes)
        self._mailboxes = mailboxes
        self._stop = threading.Event()
        self._alarm = Alarm()
        self._threads: list[threading.Thread] = []

    # Asking

    async def ask(self, question: Mapping[str, Any], within: float) -> dict[int, Any]:
        """Ask all other workers and return their answers by number.

        Workers that do not answer within `within` seconds are missing.
        """
        others = [number for number in range(self.count) if number != self.number]
        answers = await asyncio.gather(*self._questions(question, within))
        return {number: each[0] for number, each in zip(others, answers, strict=True) if each}

    async def ask_who_knows(
        self, question: Mapping[str, Any], within: float
    ) -> tuple[Any | None, bool]:
        """Return the first answer that is not None, and False.

        Without one: None, and True if every other worker answered within `within` seconds.
        """
        waiting = [asyncio.create_task(each) for each in self._questions(question, within)]
        all_answered = True
        try:
            for each in asyncio.as_completed(waiting):
                answer = await each
                all_answered = all_answered and answer is not None
                if answer and answer[0] is not None:
                    return answer[0], False
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        return None, all_answered

    def _questions(
        self, question: Mapping[str, Any], within: float
    ) -> list[Coroutine[Any, Any, tuple[Any] | None]]:
        """Return a coroutine for each other worker that asks it, within `within` seconds from
        now.
        """
        # The time goes with the question, so that a worker does not answer what nobody awaits.
        until = monotonic() + within
        text = json.dumps({**question, "until": until}).encode()
        others = [number for number in range(self.count) if number != self.number]
        return [self._ask(each, text, until) for each in others]

    async def _ask(self, number: int, question: bytes, until: float) -> tuple[Any] | None:
        """Return the answer of one worker in a tuple of one; None if it does not answer in time, if
        its mailbox is full, or for a question of more than `QUESTION` bytes.

        `until` is in monotonic seconds, which all processes of a machine share.
        """
        if len(question) > QUESTION:
            return None
        ours, theirs = socket.socketpair()
        received = bytearray()
        with ours:
            ours.setblocking(False)
            # Our copy is closed at once: the answer ends when the other worker closes its own.
            with theirs:
                if not self._mailboxes[number].put(question, theirs):
                    return None
            loop = asyncio.get_running_loop()
            try:
                async with asyncio.timeout(until - monotonic()):
                    while part := await loop.sock_recv(ours, 1 << 16):
                        received += part
                return (json.loads(received),)
            except (TimeoutError, OSError, ValueError):
                return None  # nothing, or what a worker said before it was killed

    # Answering

    def serve(self, answer: Callable[[Mapping[str, Any]], Any], parts: Parts) -> None:
        """Start threads that answer the questions of other workers by `answer`, until `close`, and
        add them to `parts`.
        """

        for number in range(THREADS):
            part = Part(f"peers-{number}", within=_STUCK)
            again = partial(self._answer_next, answer, part)
            thread = loop_thread(again, _EDGE, name=part.name, stop=self._stop, part=part)
            part.thread = thread
            parts.add(part)
            self._threads.append(thread)
            thread.start()

    def _answer_next(self, answer: Callable[[Mapping[str, Any]], Any], part: Part) -> bool:
        """Block until a question of another worker arrives or this worker stops, and send its
        answer, if another thread did not take the question. Return False once this worker stops, so
        that the thread ends. `part` counts as resting while it waits.
        """
        # Waiting for a question may take for ever, and is not being stuck.
        part.rest()
        self._wait()
        part.beat()
        taken = None if self._stop.is_set() else self._mailboxes[self.number].take()
        if taken is not None:
            _answer(*taken, answer)
        return not self._stop.is_set()

    def _wait(self) -> None:
        """Block until a question arrives or this worker stops."""
        waits = select.poll()
        waits.register(self._mailboxes[self.number], select.POLLIN)
        waits.register(self._alarm, select.POLLIN)
        waits.poll()

    def close(self) -> None:
        """End the threads that answer the other workers. Waits for each at most twice `SENDING`
        seconds.
        """
        self._stop.set()
        self._alarm.ring()
        for each in self._threads:
            each.join(SENDING * 2)


def _answer(
    question: dict[str, Any], end: socket.socket, answer: Callable[[Mapping[str, Any]], Any]
) -> None:
    """Send the answer to a question on the socket `end`, and close it.

    Nothing is sent if the question is too old or the answer too long.
    """
    with end:
        if monotonic() > question.pop("until"):
            return  # nobody waits any more
        text = json.dumps(answer(question)).encode()
        if len(text) > ANSWER:
            _log.warning(
                "A console page omits this worker's part, which is too large.",
                extra={"bytes": len(text), "limit": ANSWER},
            )
            return
        end.settimeout(SENDING)
        with suppress(OSError):  # nobody waits any more
            end.sendall(text)
