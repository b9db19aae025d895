"""A log is decided on all cores: chunks go to forked copies of this process.

The copies have the compiled policies already. At most two chunks for each process are in progress,
so that a log of any size is read only as fast as it is decided.
"""

from __future__ import annotations

import gc
import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Final, Protocol, Self, TypeVar

from doorward.base.records import record
from doorward.rego import Value, to_json
from doorward.replay.causes import cause_of
from doorward.replay.compare import UNCHANGED, Answer, kind_of
from doorward.replay.deciding import Version, comparable, recorded_answer
from doorward.replay.events import Event, events_of
from doorward.replay.reading import CHUNK, Chunk, ReplayError, chunks_of
from doorward.replay.tally import Example, Tally

__all__ = ["Counts", "Job", "Work", "replay"]

USERS: Final = (
    ("user",),
    ("user", "id"),
    ("user", "name"),
    ("subject", "id"),
    ("User",),
    ("attributes", "source", "principal"),
)
"""The paths at which an input may name the user; the first one with a value counts."""
LONGEST: Final = 200
"""The name of a group is cut after this many characters."""
EXAMPLE_BYTES: Final = 64 << 10
"""An example contains no input or answer whose JSON has more characters than this."""


@record
class Job:
    """A comparison of policies on the events of a log: those of `new` with those of `old`, or with
    the recorded answers if `old` is None. Only events of the documents in `paths` are decided, all
    if it is empty. Changes are also counted by the values at the paths `by` of the input.
    """

    new: Version
    old: Version | None = None
    paths: frozenset[str] = frozenset()
    by: tuple[tuple[str, ...], ...] = ()

    def empty(self) -> Tally:
        """Return a tally of no events."""
        return Tally()

    def decide(self, content: bytes) -> Tally:
        """Return the tally of the events in some lines of a log. Events of other paths than `paths`
        and lines that are not events are only counted, in `of_other_paths` and `no_events`.
        """
        tally = Tally()
        for event in events_of(content):
            if event is None:
                tally.no_events += 1
            elif not self.paths or event.path in self.paths:
                self._event(event, tally)
            else:
                tally.of_other_paths += 1
        return tally

    def _event(self, event: Event, tally: Tally) -> None:
        """Decide one event and count it: every event by kind, one that changes also by path, user,
        input values, rule and cause, one that cannot be replayed by path and reason.
        """
        now = self.new.answer(event)
        if self.old is None:
            before, now = recorded_answer(event), comparable(event, now)
        else:
            before = self.old.answer(event)
        kind = kind_of(before, now)
        tally.count(kind, event.time_ns)
        if kind == UNCHANGED:
            return
        target = event.path or event.query
        tally.group("path", target[:LONGEST], kind)
        if kind == "not-replayable":
            tally.count_missing(now.missing or before.missing)
            return
        tally.group("user", _user(event.input), kind)
        for path in self.by:
            tally.group("input." + ".".join(path), _text_at(event.input, path), kind)
        self._explain(event, kind, (before, now), tally)

    def _explain(
        self, event: Event, kind: str, answers: tuple[Answer, Answer], tally: Tally
    ) -> None:
        """Count a change by rule and cause, which takes a traced evaluation, and add it as an
        example if there is room. Both are cut to `LONGEST` characters.
        """
        before, now = answers
        old = None if self.old is None else self.old.trail(event)
        known = frozenset[str]() if self.old is None else self.old.definitions
        rule, text = cause_of(kind, old, self.new.trail(event), known)
        if now.error:
            text = now.error
        tally.group("rule", rule[:LONGEST], kind)
        tally.group("cause", text[:LONGEST], kind)
        key = kind, rule[:LONGEST], text[:LONGEST]
        if tally.wants_example(key):
            target = event.path or event.query
            example = Example(
                event.decision_id,
                event.time_ns,
                target,
                before=_show(before),
                now=_show(now),
                input=_as_json(event.input),
            )
            tally.add_examples(key, [example])


def _show(answer: Answer) -> Any:
    """Return an answer for an example: `{"error": …}`, the JSON text of its value, None for an
    undefined one, or `{"characters": …}` for a text that is too long.
    """
    if answer.error:
        return {"error": answer.error}
    return _as_json(answer.value)


def _as_json(value: Any) -> str | dict[str, int] | None:
    """Return a value as JSON text; None if it is undefined, `{"characters": …}` if the text has
    more than `EXAMPLE_BYTES` characters.
    """
    if not isinstance(value, (str, int, float, bool, dict, list, frozenset, type(None))):
        return None
    text = to_json(value)
    return text if len(text) <= EXAMPLE_BYTES else {"characters": len(text)}


def _user(input: Any) -> str:
    """Return the user in an input, from the first path in `USERS` that has one; "" if none has."""
    for path in USERS:
        text = _text_at(input, path)
        if text:
            return text
    return ""


def _text_at(input: Any, path: Sequence[str]) -> str:
    """Return a string, number or boolean of the input as text, at most its first `LONGEST`
    characters; "" for other values and if there is none.
    """
    value: Value = input
    for name in path:
        if not isinstance(value, dict):
            return ""
        value = value.get(name)
    if isinstance(value, str):
        return value[:LONGEST]
    return to_json(value)[:LONGEST] if isinstance(value, (bool, int, float)) else ""


class Counts(Protocol):
    """The result of parts of a log; results can be merged into that of the whole log. `taken`: the
    bytes read, as stored.
    """

    taken: int

    def merge(self, other: Self) -> None:
        """Add the counts of the part of the log that comes next."""


C = TypeVar("C", bound=Counts)
C_co = TypeVar("C_co", bound=Counts, covariant=True)


class Work(Protocol[C_co]):
    """A job that can be done on any part of a log: `decide` returns the counts of some lines, and
    `empty` returns counts of zero, to which those are added by `merge`.
    """

    def empty(self) -> C_co:
        """Return the counts of no lines."""

    def decide(self, content: bytes) -> C_co:
        """Return the counts of some lines of a log."""


# Set before the copies are made, which is how they get it: compiled code cannot be sent.
_jobs: Final[list[Work[Any]]] = []


def replay(
    files: Sequence[str],
    job: Work[C],
    *,
    processes: int,
    on_progress: Callable[[C], object] = lambda _counts: None,
    size: int = CHUNK,
) -> C:
    """Return the tally of all events in `files`, decided in `processes` forked processes, or in
    this one for fewer than 2. `on_progress` gets the tally so far after each chunk. ReplayError if
    a file cannot be read or a process was killed.
    """
    total = job.empty()
    _jobs.append(job)
    try:
        for counts in _results(chunks_of(files, size=size), processes):
            total.merge(counts)
            on_progress(total)
    except BrokenProcessPool:
        raise ReplayError(
            "a process that reads the logs was killed, perhaps for lack of memory: use fewer "
            "processes (--parallel)"
        ) from None
    finally:
        _jobs.pop()
    return total


def _results(chunks: Iterator[Chunk], processes: int) -> Iterator[Any]:
    """Yield the counts of the chunks in their order, computed by `processes` forked processes;
    fewer than 2 means this process. At most two chunks for each process are in progress.
    """
    if processes < 2:
        yield from map(_work, chunks)
        return
    # Before the fork: a collection in a copy would write to, and so duplicate, the shared memory.
    gc.freeze()
    copies = multiprocessing.get_context("fork")
    under_way: deque[Future[Any]] = deque()
    with ProcessPoolExecutor(processes, mp_context=copies) as pool:
        for chunk in chunks:
            under_way.append(pool.submit(_work, chunk))
            # The oldest result is awaited first: tallies must be merged in the order of the log.
            if len(under_way) >= 2 * processes:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()


def _work(chunk: Chunk) -> Any:
    """Return the counts of one chunk; runs in a worker process."""
    counts = _jobs[-1].decide(chunk.read())
    counts.taken = chunk.taken
    return counts
