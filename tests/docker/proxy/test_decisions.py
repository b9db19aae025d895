"""Work of the proxy that fails in a thread is a denial, and nobody waits for it for ever."""

from __future__ import annotations

import asyncio

from tests.waiting import PATIENCE

from doorward.docker.plugin import Judged, Plugin
from doorward.docker.proxy.decisions import LONG, PluginDecisions
from doorward.docker.request.call import AuthzRequest
from doorward.docker.request.errors import WaitError
from doorward.edge import counts
from doorward.transport.pool import Pool


class Failing(Plugin):
    """Must wait each time, even in a thread."""

    def __init__(self) -> None:
        pass

    def judge(self, request: AuthzRequest, **_options: object) -> Judged:
        raise WaitError


async def verdicts(*bodies: bytes) -> tuple[list[Judged], int]:
    """The verdicts on requests with these bodies, and the calls that the pool counts afterwards."""
    loop = asyncio.get_running_loop()
    pool = Pool(loop, 1, name="test")
    decisions = PluginDecisions(Failing(), pool, loop)
    requests = [AuthzRequest("POST", "/v1.41/x", "", "", {}, body) for body in bodies]
    judged = [await asyncio.wait_for(decisions.judge(request), PATIENCE) for request in requests]
    decisions.close()
    pool.close()
    return judged, pool.queued


def test_work_that_raises_in_a_thread_is_denied() -> None:
    before = counts()["docker-proxy-decision"]
    judged, queued = asyncio.run(verdicts(b"{}", b"x" * LONG))
    assert [(each.verdict.allow, each.verdict.rule) for each in judged] == [
        (False, "doorward:fault"),
        (False, "doorward:fault"),
    ]
    assert queued == 0
    assert counts()["docker-proxy-decision"] == before + 2
