"""The cache of responses: its bound, and who goes first."""

from __future__ import annotations

from doorward.rego.builtins.http_client.cache import ResponseCache, StoredResponse
from doorward.rego.builtins.http_client.message import HTTPResponse


def stored(size: int) -> StoredResponse:
    return StoredResponse(HTTPResponse(200, "200 OK", (), b"x" * size), 0)


def test_the_one_stored_first_goes_first() -> None:
    cache = ResponseCache(capacity=3000)
    for name in "abc":
        cache.put(name, stored(488))
    assert len(cache) == 3
    cache.put("a", stored(0))
    cache.put("d", stored(488))
    assert [cache.get(name) is not None for name in "abcd"] == [True, False, True, True]


def test_what_is_larger_than_the_cache_is_not_stored() -> None:
    cache = ResponseCache(capacity=1000)
    cache.put("a", stored(0))
    cache.put("a", stored(1000))
    assert len(cache) == 0


def test_what_is_not_fresh_goes_when_it_is_looked_for() -> None:
    now = 0
    cache = ResponseCache(stale_after=10, clock=lambda: now * 1_000_000_000)
    response = HTTPResponse(200, "200 OK")
    cache.put("old", StoredResponse(response, 5_000_000_000))
    cache.put("fresh", StoredResponse(response, 50_000_000_000))
    now = 9
    assert cache.get("old") is not None
    now = 11
    assert cache.get("old") is None
    assert cache.get("fresh") is not None
    assert len(cache) == 1
