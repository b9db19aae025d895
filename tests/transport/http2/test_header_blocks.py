"""Remembered header blocks have one budget, whatever the connections."""

from __future__ import annotations

from tests.transport.http2.frames import POST, connected, data, headers

from doorward.transport.http2.header_blocks import CACHE_BUDGET, CacheBudget, HeaderBlocks
from doorward.transport.http2.hpack import encode
from doorward.transport.http2.limits import Limits
from doorward.transport.http2.streams import Application


def test_blocks_of_all_connections_share_a_budget() -> None:
    budget = CacheBudget(100_000)
    _, application = connected()
    caches = [HeaderBlocks(application, Limits(), budget) for _ in range(10)]
    blocks = [encode([*POST, (b"x", b"%d" % n * 1000)]) for n in range(20)]
    for cache in caches:
        for block in blocks:
            assert cache.resolve(block) is not None
    assert 90_000 < budget.used <= 100_000
    assert sum([len(cache.routes) for cache in caches]) < 100
    for cache in caches:
        cache.forget()
    assert budget.used == 0


def test_a_connection_that_ends_gives_back_what_it_took() -> None:
    before = CACHE_BUDGET.used
    connection, _ = connected()
    for number in range(64):
        block = encode([*POST, (b"x", b"%d" % number * 1000)])
        connection.feed(headers(2 * number + 1, block) + data(2 * number + 1))
    assert CACHE_BUDGET.used > before + 60_000
    connection.lost()
    assert CACHE_BUDGET.used == before


def test_a_remembered_block_keeps_its_route() -> None:
    class Resolver:
        resolved = 0

        def resolve(self, request: object) -> object:
            self.resolved += 1
            return self

    application = Resolver()
    known: Application = application  # type: ignore[assignment]  # all that is called
    cache = HeaderBlocks(known, Limits(), CacheBudget(0))
    block = encode(POST)
    assert cache.resolve(block) == cache.resolve(block)
    assert (application.resolved, len(cache.routes)) == (2, 0)
