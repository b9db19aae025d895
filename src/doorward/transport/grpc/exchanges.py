"""Calls in which each message of the client gets one answer, in turn, until the client ends.

    Exchanges ─open─▶ Exchange ─answer─▶ message ─…─▶ finish ─▶ OK

`Exchanges` bounds all calls of a method: how many, how long, and what their messages may take. An
`Exchange` is one call without its transport: functions of bytes, which may run in a thread.

INVARIANT: a call ends with OK in one place, behind `Exchange.finish` of a client that has ended its
side. Whatever else ends it ends with another status, or with its stream.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from doorward.base.cancellation import Cancellation
from doorward.base.records import record
from doorward.transport.grpc.messages import Budget
from doorward.transport.grpc.methods import Call, Runner, call_method
from doorward.transport.grpc.status import GrpcError, Status

__all__ = ["Exchange", "ExchangeLimits", "Exchanges"]


class Exchange(Protocol):
    """One call without its transport; its methods may run in a thread, never two at once."""

    def answer(self, message: bytes) -> bytes:
        """Return the answer to the next message; raise GrpcError to end the call."""

    def finish(self) -> None:
        """Raise GrpcError if the client ended its side too early; else the call ends with OK."""

    def close(self) -> None:
        """Release what the call holds; called once, however it ended."""


@record
class ExchangeLimits:
    """The limits of the calls of one method, each with its reason."""

    calls: int = 4_096
    """Open calls of all connections; each is a request that a proxy works on."""
    messages: int = 16
    """Messages of one call: more than a proxy sends for any request."""
    waiting: int = 4
    """Messages of one call that may wait while another is answered: a proxy waits for each
    answer."""
    bytes: int = 128 << 20
    """Bytes of the messages of all open calls together."""
    seconds: float = 900.0
    """Seconds that a call may take: it lasts as long as the application needs."""
    message_seconds: float = 2.0
    """Seconds in which a message must arrive, from its first byte on; the first from the call's
    begin."""
    max_send: int = 2**31 - 1
    """Bytes of an answer at most."""


class Exchanges:
    """A streaming gRPC method that answers each message with one; used on the loop's thread
    only.
    """

    def __init__(
        self, make: Callable[[], Exchange], limits: ExchangeLimits, runner: Runner | None = None
    ) -> None:
        """Take the function that returns the exchange of a call, `make`, and the limits of calls.
        `runner` decides where answers are made; without it they are made on the loop.
        """
        self._make = make
        self._runner = runner
        self.limits: Final = limits
        self.budget: Final = Budget(limits.bytes)
        self.open_calls = 0

    def open(self, call: Call) -> _Turns:
        """Count a new call, set its time limits, and return its handler.

        Raise GrpcError RESOURCE_EXHAUSTED if too many calls are open; errors of `make` pass
        through.
        """
        if self.open_calls >= self.limits.calls:
            message = f"more than {self.limits.calls} calls are open: try again later"
            raise GrpcError(Status.RESOURCE_EXHAUSTED, message)
        turns = _Turns(self, call, self._make())
        # After `_make`, which may raise: a call that did not begin is never closed.
        self.open_calls += 1
        limits = self.limits
        call.limit(seconds=limits.seconds, message_seconds=limits.message_seconds)
        return turns

    def run(
        self,
        exchange: Exchange,
        message: bytes,
        done: Callable[[bytes | GrpcError], None],
        cancellation: Cancellation,
    ) -> bytes | GrpcError | None:
        """Return the answer or error of `exchange` to a message; None if `done` gets it later, on
        the loop.

        Raises nothing.
        """
        if self._runner is None:
            return call_method(exchange.answer, message)
        return self._runner.run(exchange.answer, message, done, cancellation)


class _Turns:
    """The messages of one call, answered one after the other."""

    __slots__ = (
        "_call",
        "_cancellation",
        "_count",
        "_exchange",
        "_exchanges",
        "_has_ended",
        "_is_closed",
        "_size",
        "_waiting",
    )

    def __init__(self, exchanges: Exchanges, call: Call, exchange: Exchange) -> None:
        self._exchanges = exchanges
        self._call = call
        self._exchange = exchange
        self._waiting: deque[bytes] = deque()
        self._cancellation: Cancellation | None = None
        """The cancellation of the answer that is being made in a thread; None if there is none."""
        self._count = 0
        self._size = 0
        self._has_ended = False
        self._is_closed = False

    def receive(self, message: bytes) -> None:
        """Queue a message of the client, and answer what waits unless an answer is being made in a
        thread.

        Raise GrpcError RESOURCE_EXHAUSTED if there are too many messages, too many wait, the client
        does not read the responses, or the budget of bytes has no room. The error of an answer
        passes through and ends the call.
        """
        limits = self._exchanges.limits
        self._count += 1
        if self._count > limits.messages:
            reason = f"more than {limits.messages} messages in one call"
            raise GrpcError(Status.RESOURCE_EXHAUSTED, reason)
        # Each answer would add to what waits for the client's window, without a limit.
        if self._call.pending:
            raise GrpcError(Status.RESOURCE_EXHAUSTED, "the client does not read the responses")
        if len(self._waiting) >= limits.waiting:
            reason = (
                f"more than {limits.waiting} messages wait for an answer: read the responses first"
            )
            raise GrpcError(Status.RESOURCE_EXHAUSTED, reason)
        # Last of the checks: what it takes is given back by `_close` only, by way of `_size`.
        self._exchanges.budget.take(len(message))
        self._size += len(message)
        self._waiting.append(message)
        self._go_on()

    def half_close(self) -> None:
        self._has_ended = True
        self._go_on()

    def cancel(self) -> None:
        """Drop the waiting messages, cancel the running turn and close the exchange."""
        self._waiting.clear()
        if self._cancellation is not None:
            self._cancellation.cancel()
        self._close()

    def _go_on(self) -> None:
        """Answer the waiting messages, until one has to be answered in a thread, which continues by
        `_resume`. After the last message, end the call if the client has ended its side.

        Raise GrpcError if an answer or the end is an error.
        """
        while self._waiting and self._cancellation is None:
            message = self._waiting.popleft()
            # Before `run`: it marks this turn as taken, since `receive` may come before the answer.
            cancellation = self._cancellation = Cancellation()
            answer = self._exchanges.run(self._exchange, message, self._resume, cancellation)
            if answer is None:
                return
            self._cancellation = None
            self._send(answer)
        # INVARIANT: the only OK of a call. An answer that is still being made comes first.
        if self._has_ended and self._cancellation is None:
            self._finish()
            self._close()
            self._call.end()

    def _finish(self) -> None:
        """End the exchange after the client's last message; raise GrpcError if the exchange needs
        more messages, or if it fails.
        """

        def finish(_nothing: bytes) -> bytes:
            self._exchange.finish()
            return b""

        outcome = call_method(finish, b"")
        if isinstance(outcome, GrpcError):
            raise outcome

    def _resume(self, answer: bytes | GrpcError) -> None:
        """Send the answer to a message that was made in a thread, and go on with the waiting
        messages.

        An error ends the call; nothing happens if the call has ended.
        """
        self._cancellation = None
        # A cancelled answer may arrive all the same: the thread had finished it before.
        if self._is_closed:
            return
        try:
            self._send(answer)
            self._go_on()
        except GrpcError as error:
            self._call.fail(error)

    def _send(self, answer: bytes | GrpcError) -> None:
        """Send an answer to the client. Raise it if it is a GrpcError, and raise RESOURCE_EXHAUSTED
        if it has more than `max_send` bytes: the caller ends the call with the error.
        """
        if isinstance(answer, GrpcError):
            raise answer
        most = self._exchanges.limits.max_send
        if len(answer) > most:
            raise GrpcError(
                Status.RESOURCE_EXHAUSTED,
                f"the server's response message is larger than its limit of {most} bytes",
            )
        self._call.send(answer)

    def _close(self) -> None:
        """Give back the memory and the slot of this call, and close its exchange, once."""
        if self._is_closed:
            return
        self._is_closed = True
        self._exchanges.open_calls -= 1
        self._exchanges.budget.give(self._size)
        self._exchange.close()
