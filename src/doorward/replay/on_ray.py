"""A log, decided on the machines of a Ray cluster.

    files ─units─▶ Ray Data ─map_batches(Decider)─▶ tallies ─in order─▶ Tally

Policies are sent as texts, and each actor compiles them once. A unit is a part of a plain file, or
a whole file that is compressed; actors read it themselves, so that files must be at the same path
on every machine. A unit is decided again where its actor or its machine is lost; tallies are merged
in the order of the log, so that a report is that of one machine.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import ray
from ray.data import ActorPoolStrategy, DataContext

from doorward.base.records import record
from doorward.bundles.loader import Loaded
from doorward.replay.deciding import Version
from doorward.replay.reading import Chunk, ReplayError, chunks_of, is_compressed
from doorward.replay.tally import Tally
from doorward.replay.work import C, C_co, Job, Work

__all__ = ["Recipe", "Sent", "replay_on_ray"]

UNIT: Final = 8 << 20
"""The bytes of a plain file that one unit of work has."""
LOCAL: Final = "local"


@record
class Recipe:
    """The parts of a `Job` in a form that can be sent to another machine; `v0`: the policies are
    Rego v0.
    """

    new: Loaded
    old: Loaded | None = None
    v0: bool = False
    paths: frozenset[str] = frozenset()
    by: tuple[tuple[str, ...], ...] = ()

    def empty(self) -> Tally:
        """Return a tally of no events."""
        return Tally()

    def job(self) -> Job:
        """Compile the policies and return the job that decides with them; CompileError if one does
        not compile.
        """
        compiled = partial(Version.compile, v0=self.v0)
        old = None if self.old is None else compiled(self.old)
        return Job(compiled(self.new), old, self.paths, self.by)


class _Unit(NamedTuple):
    """A unit of work: `length` bytes of a file from `start` on, or the complete file for a negative
    length. `number`: its position in the log.
    """

    number: int
    file: str
    start: int
    length: int


class Sent(Protocol[C_co]):
    """A job that can be sent to another machine, where `job` compiles it. `Recipe` is one for
    replays.
    """

    def empty(self) -> C_co:
        """Return the counts of no lines."""

    def job(self) -> Work[C_co]:
        """Return the job, compiled on the machine where it is called."""


class _Decider:
    """An actor on another machine: it holds a job and computes the result of units."""

    def __init__(self, recipe: Sent[Any]) -> None:
        self._job = recipe.job()

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        """Decide the units of a batch; return their numbers, pickled counts (`b""` for an error)
        and errors (`""` for none).
        """
        columns = [batch[name] for name in _Unit._fields]
        units = [
            _Unit(int(number), str(file), int(start), int(length))
            for number, file, start, length in zip(*columns, strict=True)
        ]
        answers = [self._answer(unit) for unit in units]
        return {
            "number": [unit.number for unit in units],
            "counts": [b"" if isinstance(each, str) else pickle.dumps(each) for each in answers],
            "error": [each if isinstance(each, str) else "" for each in answers],
        }

    def _answer(self, unit: _Unit) -> Any:
        """Return the counts of a unit; as a text, the message of the ReplayError that ended it."""
        total = self._job.empty()
        try:
            for chunk in _chunks(unit):
                counts = self._job.decide(chunk.read())
                counts.taken = chunk.taken
                total.merge(counts)
        except ReplayError as error:
            return str(error)
        return total


def _chunks(unit: _Unit) -> Iterator[Chunk]:
    """Yield the chunks of a unit; ReplayError if the file cannot be read."""
    if unit.length < 0:
        yield from chunks_of([unit.file])
    else:
        yield Chunk(unit.file, unit.start, unit.length, None, unit.length)


def _units(files: Sequence[str], size: int) -> Iterator[_Unit]:
    """Yield the units of the files, numbered in order: parts of about `size` bytes of plain files,
    and complete compressed ones. ReplayError if a file cannot be read.
    """
    number = 0
    for file in files:
        if is_compressed(file):
            yield _Unit(number, file, 0, -1)
            number += 1
            continue
        for chunk in chunks_of([file], size=size):
            yield _Unit(number, chunk.file, chunk.start, chunk.length)
            number += 1


def replay_on_ray(
    files: Sequence[str],
    recipe: Sent[C],
    *,
    address: str,
    actors: int,
    on_progress: Callable[[C], object] = lambda _counts: None,
    size: int = UNIT,
) -> C:
    """Return the tally of all events in `files`, decided on a Ray cluster.

    `address` is that of a cluster, or `local`; it is ignored if this process is connected to Ray
    already. At most `actors` actors of one processor each decide; 0 means one for each processor.
    Calls `on_progress` with the tally after each unit. Raise ReplayError if a file cannot be read,
    or if the cluster is not available or fails.
    """
    total = recipe.empty()
    units = [{**unit._asdict()} for unit in _units([os.path.abspath(f) for f in files], size)]
    is_ours = not ray.is_initialized()
    try:
        if is_ours:
            _connect(address)
        resources: dict[str, float] = ray.cluster_resources()
        processors = int(resources.get("CPU", 1))
        for counts in _in_order(_rows(units, recipe, actors or processors)):
            total.merge(counts)
            on_progress(total)
    except (ray.exceptions.RayError, ConnectionError, ValueError) as error:
        raise ReplayError(f"ray: {_summary(error)}") from None
    finally:
        if is_ours:
            ray.shutdown()
    return total


def _connect(address: str) -> None:
    """Connect to a Ray cluster, or start a local one; ConnectionError on failure."""
    # Ray would send statistics of its use to its makers.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    known: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address == LOCAL:
        known["include_dashboard"] = False
    try:
        ray.init(address, **known)
    except Exception as error:  # a node that does not start in time has no class of its own
        raise ConnectionError(_summary(error)) from error


def _summary(error: Exception) -> str:
    """Return the last line of an error's text, or its type's name if it has no text."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]


def _rows(units: list[dict[str, Any]], recipe: Sent[Any], actors: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each unit, in the order of `units`: its number, its pickled counts and its
    error. The number of actors grows from one to at most `actors`. Changes the settings of Ray Data
    in this process: it keeps the order, and logs errors only.
    """
    context = DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    blocks = min(len(units), max(4 * actors, 200))
    data = ray.data.from_items(units, override_num_blocks=blocks)
    # One actor is enough to go on: a machine that is lost is not waited for.
    pool = ActorPoolStrategy(min_size=1, max_size=actors)
    decided = data.map_batches(
        _Decider,
        fn_constructor_args=(recipe,),
        batch_size=1,
        batch_format="numpy",
        compute=pool,
        num_cpus=1,
    )
    yield from decided.iter_rows()


def _in_order(rows: Iterator[dict[str, Any]]) -> Iterator[Any]:
    """Yield the counts in the order of the units. Rows that come early wait in memory. ReplayError
    if a unit failed.
    """
    waiting: dict[int, Any] = {}
    number = 0
    for row in rows:
        if row["error"]:
            raise ReplayError(row["error"])
        waiting[row["number"]] = pickle.loads(row["counts"])
        while number in waiting:
            yield waiting.pop(number)
            number += 1
