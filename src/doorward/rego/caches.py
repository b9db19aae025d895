"""Counts of the hits of caches.

Caches of functions say it themselves (`counted`); the others count where they are asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, Protocol, TypeVar

__all__ = ["CacheCounts", "counted", "function_counts"]


class CacheCounts(NamedTuple):
    """The size of a cache, and the numbers of hits and misses since the start. `hits` is None if
    they are not counted, because counting takes longer than a look-up.
    """

    entries: int
    hits: int | None
    misses: int


class _Cached(Protocol):
    @property
    def cache_info(self) -> Callable[[], Any]: ...


T = TypeVar("T", bound=_Cached)
_functions: Final[dict[str, list[_Cached]]] = {}


def counted(name: str) -> Callable[[T], T]:
    """Return a decorator for a function with `cache_info`, such as one with `lru_cache`: its cache
    is counted as a part of the cache `name`. The function is returned unchanged.
    """

    def noted(function: T) -> T:
        _functions.setdefault(name, []).append(function)
        return function

    return noted


def function_counts() -> Iterator[tuple[str, CacheCounts]]:
    """Yield the name and the summed counts of each cache that `counted` registered in the modules
    loaded so far.
    """
    for name, functions in list(_functions.items()):
        infos = [each.cache_info() for each in functions]
        entries, hits, misses = (
            sum(getattr(info, field) for info in infos) for field in ("currsize", "hits", "misses")
        )
        yield name, CacheCounts(entries, hits, misses)
