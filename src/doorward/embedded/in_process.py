"""Decisions inside a Python program: policies from files, watched, logged and explained.

    point = from_folder("policies", data={"secrets": {"jwt": secret}})
    decision = await point.decide("shop/allow", {"user": user})
    if not decision.allowed: ...

Files are read, decisions made and logged, and changes reloaded by the same parts as in the servers.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Final

from doorward.bundles.loader import Loaded, LoadError, merge
from doorward.bundles.signatures import Verification
from doorward.bundles.sources import Sources
from doorward.config.configuration import DecisionLogs
from doorward.config.identity_options import Issuer
from doorward.pdp.decision import Decision, DecisionError, new_decision_id
from doorward.pdp.identity import Identity
from doorward.pdp.pdp import PDP
from doorward.pdp.reload import INTERVAL, Watcher
from doorward.pdp.snapshot import PathKey, Settings, Snapshot, build
from doorward.pdp.store import Store
from doorward.rego import (
    UNDEFINED,
    Environment,
    Explanation,
    InputError,
    Undefined,
    Value,
    from_python,
)
from doorward.rego.shared import VerifiedTokens
from doorward.telemetry.health import Health
from doorward.transport.slow_calls import History, timed

__all__ = ["DecisionPoint", "from_bundle", "from_folder", "from_modules"]

THREADS: Final = 4
"""The number of threads in which slow decisions run beside an event loop."""
MAX_WAITING: Final = 1_024
"""The largest number of decisions that run or wait in these threads; further ones end with an
error.
"""
MAX_HISTORIES: Final = 1_000
"""The largest number of documents whose decision times are remembered."""

Write = Callable[[bytes], object]


def from_folder(
    *paths: str | os.PathLike[str],
    data: Mapping[str, Any] | None = None,
    ignore: Sequence[str] = (),
    log: Write | None = None,
    log_options: DecisionLogs | None = None,
    settings: Settings | None = None,
) -> DecisionPoint:
    """Return a decision point for files and folders, read as `doorward run` reads them.

    `data` is added to the data of the files, also after each reload. `log` is called with whole
    lines of JSON of the decision log (extra `server`); credentials in them are masked unless
    `log_options` turns that off. Raise LoadError or CompileError if the files cannot be used, and
    InputError if `data` has a value that Rego does not have.
    """
    sources = Sources(tuple([os.fspath(path) for path in paths]), ignore=tuple(ignore), signed=True)
    return DecisionPoint(sources, data, log=log, log_options=log_options, settings=settings)


def from_bundle(
    *paths: str | os.PathLike[str],
    data: Mapping[str, Any] | None = None,
    verification: Verification | None = None,
    skip_verify: bool = False,
    log: Write | None = None,
    log_options: DecisionLogs | None = None,
    settings: Settings | None = None,
) -> DecisionPoint:
    """Return a decision point for bundles: folders or `.tar.gz`, with manifests and signatures.

    With `verification`, every bundle must have a valid signature. Without it, a signed bundle
    raises BundleError unless `skip_verify`. Both together are a ValueError. The other parameters
    are those of `from_folder`.
    """
    if verification is not None and skip_verify:
        raise ValueError("`verification` and `skip_verify` exclude each other: give one")
    sources = Sources(
        bundles=tuple([os.fspath(path) for path in paths]),
        signed=not skip_verify,
        verification=verification,
    )
    return DecisionPoint(sources, data, log=log, log_options=log_options, settings=settings)


def from_modules(
    modules: Mapping[str, str],
    data: Mapping[str, Any] | None = None,
    *,
    log: Write | None = None,
    log_options: DecisionLogs | None = None,
    settings: Settings | None = None,
) -> DecisionPoint:
    """Return a decision point for policies in memory, by file name. The other parameters are those
    of `from_folder`. Raise CompileError if the policies are wrong, and InputError if `data` has a
    value that Rego does not have.
    """
    return DecisionPoint(
        Sources(), data, modules, log=log, log_options=log_options, settings=settings
    )


class DecisionPoint:
    """A decision point in this process: policies, data, a decision log and a watch over files.

    Safe in any number of threads. `close` ends the watch and writes out the log; a context manager
    calls it at the end.
    """

    def __init__(
        self,
        sources: Sources,
        data: Mapping[str, Any] | None = None,
        modules: Mapping[str, str] | None = None,
        *,
        log: Write | None = None,
        log_options: DecisionLogs | None = None,
        settings: Settings | None = None,
    ) -> None:
        self._sources = sources
        self._modules = dict(modules or {})
        converted = from_python(dict(data or {}), "data")
        assert isinstance(converted, dict)  # a dict becomes an object
        self._given = converted
        self.health = Health()
        """The state of the watch, and of the active policies compared with the files."""
        settings = settings or Settings(environment=Environment(tokens=VerifiedTokens()))
        loaded = self._load()
        snapshot = build(loaded, settings)
        self.pdp = PDP(snapshot, _decision_log(log, log_options, self.health))
        self.store = Store(self.pdp, loaded, settings)
        """Changes data and policies while decisions continue."""
        self._identity: Identity | None = None
        self._watcher: Watcher | None = None
        self._histories: dict[PathKey, History] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._waiting = 0
        self._lock = threading.Lock()

    def __enter__(self) -> DecisionPoint:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _load(self) -> Loaded:
        """Read the files, and add the policies and data that were passed in.

        Raise LoadError if files cannot be used, or if they and the passed data define the same
        value.
        """
        loaded = self._sources.load() if self._sources else Loaded()
        data = {**loaded.data}
        if not merge(data, self._given):
            raise LoadError(["the files and `data` define the same document: merge error"])
        # The digest is that of the files: what is given does not change.
        return replace(loaded, data=data, modules={**loaded.modules, **self._modules})

    @property
    def snapshot(self) -> Snapshot:
        """The active policies and data."""
        return self.pdp.snapshot

    def decide_now(
        self,
        path: PathKey,
        input: object = UNDEFINED,
        *,
        strict: bool = False,
        is_parsed: bool = False,
    ) -> Decision:
        """Return the decision of the document at `path`, such as `shop/allow`, for `input`; it is
        logged if there is a log.

        Raises nothing: a failure of the policy, or an input that has no Rego value, is `error` in
        the Decision. With `strict`, errors of built-ins are errors. `is_parsed` promises that the
        input was read from JSON and needs no conversion.
        """
        value: Any = input
        if not is_parsed and input is not UNDEFINED:
            try:
                value = from_python(input, "input")
            except InputError as error:
                return self._log(self._failed_decision(path, error), UNDEFINED)
        decision = self.pdp.decide(path, value, strict=strict, is_parsed=True)
        return self._log(decision, value)

    async def decide(
        self,
        path: PathKey,
        input: object = UNDEFINED,
        *,
        strict: bool = False,
        is_parsed: bool = False,
    ) -> Decision:
        """Return the decision on `input` by the document at `path`, and log it if there is a log:
        `decide_now` for asyncio. Raises nothing: a failure is `error` in the Decision.

        Most policies take microseconds and are decided on the event loop. While decisions at `path`
        take more than a millisecond on average, they run in a thread. With `MAX_WAITING` decisions
        in threads, further ones have an error. `strict`: errors of built-ins are errors;
        `is_parsed` promises that the input was read from JSON and needs no conversion.
        """
        history = self._histories.get(path) or self._history(path)
        if not history.is_slow:
            begun = history.begin()
            decision = self.decide_now(path, input, strict=strict, is_parsed=is_parsed)
            history.end(begun)
            return decision
        if self._waiting >= MAX_WAITING:
            error = DecisionError("too many decisions wait for a thread: try again later")
            return self._log(self._failed_decision(path, error), UNDEFINED)
        self._waiting += 1
        loop = asyncio.get_running_loop()
        work = partial(self.decide_now, path, input, strict=strict, is_parsed=is_parsed)
        try:
            decision, elapsed = await loop.run_in_executor(self._executor(), timed, work)
        finally:
            self._waiting -= 1
        # The time in the thread, without the wait for one: it decides if threads are still needed.
        history.note(elapsed)
        return decision

    def _history(self, path: PathKey) -> History:
        """Return the recorded times of decisions at a path, empty for a new one; those of all paths
        are forgotten when there are `MAX_HISTORIES` paths.
        """
        if len(self._histories) >= MAX_HISTORIES:
            self._histories.clear()
        return self._histories.setdefault(path, History())

    def _executor(self) -> ThreadPoolExecutor:
        """Return the threads of slow decisions, created on first use."""
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="decide")
            return self._threads

    def _failed_decision(self, path: PathKey, error: Exception) -> Decision:
        """Return a decision with an error, under a new id and the active revision."""
        path_text = path if isinstance(path, str) else "/".join(path)
        revision = self.pdp.snapshot.revision
        return Decision(new_decision_id(), path_text, error=error, revision=revision)

    def _log(self, decision: Decision, input: Value | Undefined) -> Decision:
        """Log a decision if there is a log, and return it."""
        if self.pdp.logs_decisions:
            self.pdp.record(decision, input)
        return decision

    def explain(
        self, path: PathKey, input: object = UNDEFINED, *, now_ns: int | None = None
    ) -> Explanation:
        """Evaluate the document at `path` once more, traced, and return the reasons of its value
        for `input`. A failed evaluation is `error` in the explanation.

        `now_ns` is the time for policies that read the clock, in nanoseconds since the epoch.
        Credentials in the input are masked. Raise InputError for an input that has no Rego value,
        and CompileError for a path that cannot be compiled.
        """
        value: Any = input if input is UNDEFINED else from_python(input, "input")
        path_text = path if isinstance(path, str) else "/".join(path)
        return Decision("", path_text).explain(self.pdp.snapshot, value, now_ns=now_ns)

    def watch(self, *, interval: float = INTERVAL) -> DecisionPoint:
        """Read the files again when they change, and return the decision point itself. They are
        polled every `interval` seconds unless the kernel reports changes; later calls do nothing.

        If new files cannot be used, the active policies stay; `health` and the log of this process
        say why. Raise ValueError without files.
        """
        if not self._sources:
            raise ValueError("there are no files to watch: the policies are not from files")
        with self._lock:
            if self._watcher is None:
                self._watcher = Watcher(
                    self._sources.files,
                    lambda: self.store.load(self._load()),
                    health=self.health,
                    building=self.pdp.build_gate.building,
                    interval=interval,
                )
                self._watcher.start()
        return self

    def trust(self, issuers: Mapping[str, Issuer], *, within: float = 10.0) -> DecisionPoint:
        """Fetch the keys of issuers into `data.identity` by their names, now and at intervals;
        return the decision point itself when all have answered.

        Raise LoadError if one did not answer within `within` seconds; it continues to be asked, so
        that the caller may ignore this. Raise ValueError for a second call.
        """
        if self._identity is not None:
            raise ValueError("`trust` was called before: call it once, with all issuers")
        self._identity = identity = Identity(issuers, self.store, self.health.parts)
        self.pdp.on_denied = identity.note_denied
        missing = identity.start(within=within)
        if missing:
            errors = identity.errors
            raise LoadError(
                [f"no keys of {name}: {errors.get(name, 'no answer')}" for name in missing]
            )
        return self

    def close(self) -> None:
        """End the watch, the fetching of keys and the threads, and write the queued events of the
        decision log. Decisions that run in a thread are finished; those that wait for one are
        cancelled.
        """
        with self._lock:
            watcher, self._watcher = self._watcher, None
            threads, self._threads = self._threads, None
        if watcher is not None:
            watcher.close()
        # First no more denials, then no more keys.
        if self._identity is not None:
            self.pdp.on_denied = None
            self._identity.close()
        if threads is not None:
            threads.shutdown(wait=True, cancel_futures=True)
        self.pdp.close()


def _decision_log(write: Write | None, options: DecisionLogs | None, health: Health) -> Any:
    """Return a decision log that writes with `write`; None without it."""
    if write is None:
        return None
    # They need the extra `server`, which a decision does not.
    from doorward.decision_log.log import DecisionLog
    from doorward.telemetry.log import line_for

    options = options or DecisionLogs(console=True)
    return DecisionLog(write, line_for("json"), labels={}, options=options, parts=health.parts)
