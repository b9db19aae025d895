"""The plugin's decision, asked from the loop: at once where it need not wait, else by a thread."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from doorward.cancellation import Cancellation
from doorward.docker.plugin import Judged, Plugin
from doorward.docker.reply import Verdict
from doorward.docker.request.call import AuthzRequest
from doorward.docker.request.errors import WaitError
from doorward.edge import FAULTS, Edge
from doorward.history import History
from doorward.transport.pool import Pool

__all__ = ["PluginDecisions"]

_EDGE: Final = Edge("docker-proxy-decision", "a decision failed: denied")

LONG: Final = 64 * 1024
"""Bytes of a body from which on it is read by a thread: that takes milliseconds."""
_NONE: Final = Verdict(False, "internal error", "doorward:fault")
_BUSY: Final = Verdict(False, "too many requests wait for a decision", "doorward:busy")


class PluginDecisions:
    """Decides by a plugin, for the coroutines of one loop. Whatever fails is a denial."""

    def __init__(self, plugin: Plugin, pool: Pool, loop: asyncio.AbstractEventLoop) -> None:
        self._plugin = plugin
        self._pool = pool
        self._loop = loop
        self._history = History()

    async def judge(self, request: AuthzRequest) -> Judged:
        """The verdict on a request, and the request as it goes to the daemon."""
        if request.body is None or len(request.body) < LONG:
            try:
                return self._judge(request, may_wait=False)
            except WaitError:
                pass
        result: asyncio.Future[Judged] = self._loop.create_future()
        work = partial(self._judge, request, may_wait=True)
        cancellation = Cancellation()
        if not self._pool.submit(work, partial(_resolve, result), cancellation, self._history):
            return Judged(_BUSY, None, None, "")
        try:
            return await result
        except asyncio.CancelledError:
            cancellation.cancel()
            raise

    def _judge(self, request: AuthzRequest, *, may_wait: bool) -> Judged:
        try:
            return self._plugin.judge(request, may_wait=may_wait)
        except WaitError:
            raise
        except FAULTS as fault:
            _EDGE.report(fault)
            return Judged(_NONE, None, None, "")


def _resolve(result: asyncio.Future[Judged], judged: Judged) -> None:
    if not result.done():
        result.set_result(judged)
