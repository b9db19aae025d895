"""The world as built-ins may know it: the clock, randomness, the environment, caches.

`Environment` is shared by all decisions of an engine; a `Context` lives for one decision, so that
`time.now_ns` and the random built-ins give one answer however often a policy asks.
"""

from __future__ import annotations

import _weakrefset
import gc
import os
import sys
import time
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from itertools import repeat
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from doorward.base.cancellation import is_stopped
from doorward.base.records import record
from doorward.rego.builtins.http_client.cache import ResponseCache
from doorward.rego.builtins.registry.resolver import resolve
from doorward.rego.errors import CANCEL_ERROR, BuiltinError, EvaluationAborted

if TYPE_CHECKING:
    from doorward.rego.builtins.http_client.message import HTTPRequest, HTTPResponse
    from doorward.rego.errors import EvalError
    from doorward.rego.source import Span
    from doorward.rego.values import Key, Value

__all__ = ["LONG", "Context", "Environment", "HTTPSender", "TokenCache"]

LONG: Final = 2048
"""A text of at least this many characters is read with deadline checks, where these cost time; a
shorter one is read quickly enough without.
"""
_CALLS: Final = 2000
"""The number of Python calls in library code between two checks of the deadline."""
_CALLS_LATE: Final = 50
"""The same after a check that had to be put off."""
T = TypeVar("T")


class TokenCache(Protocol):
    """A bounded cache of verified tokens. `get` returns None for an unknown key; it does not know
    when a token expires: `builtins.tokens`, which stores that in the entry, checks it at every use.
    """

    def get(self, key: Hashable) -> Any: ...

    def put(self, key: Hashable, value: Any) -> None: ...


class HTTPSender(Protocol):
    """Sends one request for `http.send`; blocks, and returns by `deadline` (monotonic seconds).
    Raises `SendError` if there is no response.
    """

    def send(self, request: HTTPRequest, deadline: float | None) -> HTTPResponse: ...


def _unknown_memory() -> int:
    """Return 0: without a function that measures it, growth of memory is never noticed."""
    return 0


@record
class Environment:
    """The parts of the outside world that built-ins may use, shared by the decisions of an engine;
    a test can replace every part."""

    clock: Callable[[], int] = time.time_ns
    """Returns the time in nanoseconds since the epoch."""
    random: Callable[[int], bytes] = os.urandom
    """Returns this many random bytes."""
    runtime: Mapping[str, Any] = field(default_factory=dict)
    """The value that `opa.runtime()` returns; it holds no secrets unless the caller put them
    there.
    """
    tokens: TokenCache | None = None
    """The cache of verified tokens; None: every token is verified at each use."""
    http: HTTPSender | None = None
    """Sends requests; None for the default sender, made when it is first needed."""
    responses: ResponseCache = field(default_factory=ResponseCache)
    """The cache of http.send's responses that outlive a decision."""
    allow_net: frozenset[str] | None = None
    """Host names (lower case) that http.send and net.lookup_ip_addr may reach; None for all."""
    lookup: Callable[[str, float], Iterable[str]] = resolve
    """Returns the addresses of a host name within a number of seconds; OSError if it has none."""
    on_print: Callable[[str, Span], None] | None = None
    """Receives each text that a policy prints; None: calls of `print` are not evaluated at all."""
    on_test_case: Callable[[Sequence[Value]], None] | None = None
    """Receives the names of each test case that `internal.test_case` reports."""
    max_items: int | None = None
    """The limit of `Options.max_items` on items of collections, read by evaluations; None for no
    limit.
    """
    memory: Callable[[], int] = _unknown_memory
    """Returns the bytes that this process uses in memory; 0 if that is not known."""


_CALLBACK_FILES: Final = (weakref.__file__, _weakrefset.__file__)
"""The files of Python's library whose functions are called when an object is freed."""


def _must_finish(frame: FrameType | None) -> bool:  # pragma: no cover - not seen
    """Return True if an exception here would do harm or be lost: in an import, which would leave
    modules behind that lack names, and in a function that the interpreter calls between two
    instructions (`__del__`, `gc.callbacks`, weak references), whose exceptions it prints and drops.
    """
    callbacks = {getattr(each, "__code__", None) for each in gc.callbacks}
    while frame is not None:
        code = frame.f_code
        if code in callbacks or code.co_name == "__del__" or code.co_filename in _CALLBACK_FILES:
            return True
        if code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


class Context:
    """The data of one decision for built-ins: its time, deadline, random numbers and errors. Parts
    of a decision that are evaluated with another input (`with`) have contexts of their own; these
    have the first one as `origin` and share all of that with it.
    """

    # Most decisions never set these: the class holds them, so that making a context stays cheap.
    deadline: float | None = None
    origin: Context | None = None
    answered: dict[str, dict[Key, Value]] | None = None
    """The results of built-ins that are not pure, by name, then by their operands as JSON, for the
    decision log; None if they are not recorded.
    """
    _now_ns: int | None = None
    _drawn: dict[object, Value] | None = None
    _errors: list[EvalError] | None = None

    def __init__(
        self,
        environment: Environment,
        now_ns: int | None = None,
        deadline: float | None = None,
    ) -> None:
        self.environment = environment
        self.deadline = deadline
        self._now_ns = now_ns

    def check_deadline(self) -> None:
        """Raise EvaluationAborted if the decision's deadline has passed or its caller is gone; for
        built-ins that may take long. Does nothing without a deadline.
        """
        deadline = (self.origin or self).deadline
        if deadline is not None and (time.monotonic() > deadline or is_stopped()):
            halt = EvaluationAborted("caller cancelled query execution")
            halt.code = CANCEL_ERROR
            raise halt

    def charge(self, items: int) -> None:
        """Count `items` against the limit on items; for built-ins whose result shares parts, so
        that it holds more than is visible in it. Here nothing is counted: the engine overrides this
        where a limit is set, and raises LimitError above it.
        """

    def checked_iter(self, items: Iterable[T], every: int = 128) -> Iterator[T]:
        """Yield the items unchanged; check the deadline before the first one and then before every
        `every`-th.
        """
        left = 0
        for item in items:
            left -= 1
            if left < 0:
                self.check_deadline()
                left = every - 1
            yield item

    @contextmanager
    def enforce_deadline(self, size: int) -> Iterator[None]:
        """Return a context manager that stops library code in its body at the deadline, with
        EvaluationAborted. For this Python's profiler calls a function at each call that the code
        makes, which doubles its time; so it is done only if `size`, the length of a text, is at
        least `LONG`, there is a deadline, and no profiler is in use.
        """
        if size < LONG or (self.origin or self).deadline is None or sys.getprofile() is not None:
            yield
            return
        calls = repeat(None, _CALLS)

        def check(frame: FrameType, *_event: object) -> None:  # pragma: no cover - not seen
            """Profiler callback: check the deadline at every `_CALLS`-th call, or soon after it if
            the code there must finish.
            """
            nonlocal calls
            for _ in calls:
                return
            # A stop that is dropped would be the last one: Python removes the callback that raises.
            is_late = _must_finish(frame)
            calls = repeat(None, _CALLS_LATE if is_late else _CALLS)
            if not is_late:
                self.check_deadline()

        sys.setprofile(check)
        try:
            yield
        except BuiltinError:
            # What stopped the code may have been taken for an error of its own on the way.
            self.check_deadline()
            raise
        finally:
            sys.setprofile(None)
        self.check_deadline()

    @property
    def now_ns(self) -> int:
        """The time of the decision in nanoseconds since the epoch. The clock is read at the first
        use; later ones get the same time.
        """
        if self._now_ns is None:
            origin = self.origin
            self._now_ns = self.environment.clock() if origin is None else origin.now_ns
        return self._now_ns

    @now_ns.setter
    def now_ns(self, value: int) -> None:
        """Set the time of the decision in nanoseconds since the epoch, in place of the clock's;
        contexts with this one as `origin` take it over at their first use of the time.
        """
        self._now_ns = value

    @property
    def drawn(self) -> dict[object, Value]:
        """Results that must stay the same within one decision (uuid.rfc4122, rand.intn, …), by key;
        built-ins add to this dictionary.
        """
        if self.origin is not None:
            return self.origin.drawn
        if self._drawn is None:
            self._drawn = {}
        return self._drawn

    @property
    def errors(self) -> list[EvalError]:
        """The first few errors of built-ins that made their expression undefined; the list grows
        during the decision.
        """
        if self.origin is not None:
            return self.origin.errors
        if self._errors is None:
            self._errors = []
        return self._errors
