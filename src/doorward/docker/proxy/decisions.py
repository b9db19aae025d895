"""The plugin's decision, asked from the loop: at once where it need not wait, else by a thread.

What a user creates is labelled before it is decided, and the folders that it mounts are pinned when
it was allowed: what comes back is what goes to the daemon.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from doorward.base.cancellation import Cancellation
from doorward.docker.plugin import Judged, Plugin
from doorward.docker.proxy.labels import label_owner
from doorward.docker.proxy.pins import PINNED, PinError, Pins
from doorward.docker.reply import ADMIN, Verdict
from doorward.docker.request.call import AuthzRequest
from doorward.docker.request.errors import WaitError
from doorward.docker.request.input import Draft
from doorward.edge import FAULTS, Edge
from doorward.transport.pool import Pool
from doorward.transport.slow_calls import History

__all__ = ["PluginDecisions"]

_EDGE: Final = Edge(
    "docker-proxy-decision", "a decision on a request of the Docker proxy failed: denied"
)

LONG: Final = 64 * 1024
"""Bytes of a body from which on it is read by a thread: that takes milliseconds."""
LONG_THREADS: Final = 2
"""Long bodies that are read at the same time: one becomes twenty times its bytes in memory."""
LONG_WAITING: Final = 32
"""Long bodies that are read or wait; further ones are refused."""
_FAULT: Final = Verdict(False, "internal error", "doorward:fault")
_BUSY: Final = Verdict(
    False, "too many requests wait for a decision: try again later", "doorward:busy"
)


class PluginDecisions:
    """Decides by a plugin, for the coroutines of one loop. Whatever fails is a denial."""

    def __init__(
        self,
        plugin: Plugin,
        pool: Pool,
        loop: asyncio.AbstractEventLoop,
        *,
        pins: Pins | None = None,
        has_owners: Callable[[], bool] = bool,
    ) -> None:
        """Take the plugin that decides and the pool that it runs in; also begin a pool for long
        requests.

        `has_owners` returns True if objects that a user creates get the user's label.
        """
        self._plugin = plugin
        self._pool = pool
        self._long_pool = Pool(loop, LONG_THREADS, name="docker-proxy-long", most=LONG_WAITING)
        self._loop = loop
        self._pins = pins
        self._has_owners = has_owners
        self._history = History()

    async def judge(self, request: AuthzRequest) -> Judged:
        """Return the verdict on a request, and the request as it goes to the daemon, with pins in
        place of the folders that it mounts. Faults, a pin that cannot be made and a full pool are
        denials.
        """
        judged = await self._judge_somewhere(request)
        if self._pins is not None and _has_folders(judged):
            return await self._run_in_thread(partial(self._pin, self._pins, judged))
        return judged

    async def _judge_somewhere(self, request: AuthzRequest) -> Judged:
        """Judge a request in the loop, or in a thread if it is long or must wait."""
        work = partial(self._judge, request, may_wait=True)
        # A pool of its own: long bodies may take all its threads, and others do not wait for them.
        if request.body is not None and len(request.body) >= LONG:
            return await self._run_in_thread(work, self._long_pool)
        try:
            return self._judge(request, may_wait=False)
        except WaitError:
            return await self._run_in_thread(work)

    def close(self) -> None:
        """Drop the long bodies that wait."""
        self._long_pool.close()

    async def _run_in_thread(self, work: Callable[[], Judged], pool: Pool | None = None) -> Judged:
        """Do work in a thread of a pool (by default the plugin's) and wait for its result: a denial
        if it fails, a refusal at once if the pool is full. Cancelling the wait cancels the work.
        """
        result: asyncio.Future[Judged] = self._loop.create_future()
        cancellation = Cancellation()
        pool = pool or self._pool
        guarded = partial(_run_guarded, work)
        if not pool.submit(guarded, partial(_resolve, result), cancellation, self._history):
            return Judged(_BUSY, None, None, "")
        try:
            return await result
        except asyncio.CancelledError:
            cancellation.cancel()
            raise

    def _judge(self, request: AuthzRequest, *, may_wait: bool) -> Judged:
        """Return the plugin's verdict on a request, which creates objects with the user's label if
        there are owners. A fault is reported and denied. Raise WaitError if the decision has to
        wait and `may_wait` is False.
        """
        try:
            prepare = None
            if request.method == "POST" and request.user and self._has_owners():
                prepare = partial(_label, request.user)
            return self._plugin.judge(request, may_wait=may_wait, prepare=prepare)
        except WaitError:
            raise
        except FAULTS as fault:
            _EDGE.report(fault)
            return Judged(_FAULT, None, None, "")

    def _pin(self, pins: Pins, judged: Judged) -> Judged:
        """Return the judged request with each judged bind source replaced by a pin.

        If a pin cannot be made, return a denial with the reason instead.
        """
        assert judged.draft is not None
        assert judged.input is not None
        resolved = {
            # By what was judged, not by the path now: the folder may have become a link meanwhile.
            row["source"]: row["resolved"]
            for row in judged.input["mounts"]
            if row["type"] == "bind" and not row["unresolved"]
        }
        try:
            return judged._replace(draft=pins.replace(judged.draft, resolved))
        except PinError as error:
            verdict = Verdict(False, str(error), "doorward:pins")
            return judged._replace(verdict=verdict, draft=None)


def _run_guarded(work: Callable[[], Judged]) -> Judged:
    """Return the result of `work`; a failure is reported and becomes a denial."""
    # INVARIANT: nothing is raised to the pool, where nobody would set the result that is awaited.
    try:
        return work()
    except FAULTS as fault:
        _EDGE.report(fault)
        return Judged(_FAULT, None, None, "")


def _label(owner: str, draft: Draft) -> Draft:
    return label_owner(draft, owner)


def _has_folders(judged: Judged) -> bool:
    """Return True if the bind mounts of a request have to be pinned: it was allowed, its action is
    in `PINNED`, and it has some. Those of admins are not pinned: they may mount everything.
    """
    verdict, draft, input_doc = judged.verdict, judged.draft, judged.input
    if not verdict.allow or verdict.rule == ADMIN or draft is None or input_doc is None:
        return False
    if draft.route.action not in PINNED:
        return False
    return any(row["type"] == "bind" for row in input_doc["mounts"])


def _resolve(result: asyncio.Future[Judged], judged: Judged) -> None:
    """Set the result of a decision, unless its wait has ended already."""
    # The client may have left while the thread decided, and the wait was cancelled.
    if not result.done():
        result.set_result(judged)
