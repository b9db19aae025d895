"""The lines of a log become `Gathered`: counts that merge, in one process or on many machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Final

from doorward.base.records import mutable, record
from doorward.learn.access import Access
from doorward.learn.docker_calls import Calls, is_call
from doorward.learn.observations import LearnError, Observations
from doorward.learn.reading import Options, read_access, status_of
from doorward.replay.events import documents_of
from doorward.replay.reading import chunks_of

__all__ = ["Gather", "Gathered", "failed_requests"]

MAX_FAILED: Final = 2_000_000


@mutable
class Gathered:
    """The events of a part of a log: requests of services, and calls of the Docker daemon."""

    observations: Observations = field(default_factory=Observations)
    calls: Calls = field(default_factory=Calls)
    taken: int = 0

    def merge(self, other: Gathered) -> None:
        """Add the counts of another part of the log, whose objects are used and not copied. Raise
        LearnError if there are too many combinations.
        """
        self.observations.merge(other.observations)
        self.calls.merge(other.calls)
        self.taken += other.taken


@record
class Gather:
    """A job for `doorward.replay` that counts the events of a log, in other processes or on other
    machines; it can be pickled.
    """

    options: Options

    def job(self) -> Gather:
        """Return this object: there is nothing to compile."""
        return self

    def empty(self) -> Gathered:
        """Return the counts of no lines."""
        return Gathered()

    def decide(self, content: bytes) -> Gathered:
        """Return the counts of the events in some lines of a log: calls of Docker (with the option
        `only`, those of this user), accesses, and skipped lines by reason. Nothing is decided; jobs
        have a method of this name. Raise LearnError if there are too many combinations.
        """
        gathered = Gathered()
        observations = gathered.observations
        for document in documents_of(content):
            if is_call(document):
                if self.options.only in (None, document["user"]):
                    gathered.calls.add(document)
                continue
            access = read_access(document, self.options)
            if isinstance(access, Access):
                observations.add(access)
            else:
                observations.skip(access or "not an event of a decision, access or audit log")
        return gathered


def failed_requests(files: Sequence[str]) -> frozenset[int]:
    """Return digests of the ids of requests with status 400 or more, from access logs and response
    events.

    Raise LearnError for more than `MAX_FAILED` of them, ReplayError if a file cannot be read.
    """
    failed: set[int] = set()
    for chunk in chunks_of(files):
        for document in documents_of(chunk.read()):
            known = status_of(document)
            if known is not None and known[1] >= 400:
                failed.add(known[0])
                if len(failed) > MAX_FAILED:
                    raise LearnError(
                        f"the log has more than {MAX_FAILED:,} requests that were answered with a "
                        "status of 400 or above: learn from a shorter log"
                    )
    return frozenset(failed)
