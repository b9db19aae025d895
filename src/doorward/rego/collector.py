"""Python's cyclic garbage collector, paused while much is made that stays.

Compiling and loading make millions of objects, nearly all of which live on. Each full collection
looks at all of them again, which made 10,000 rules cost 15 times what 1,000 cost. The collector
belongs to the process: what pauses it is a command or a server, never the engine by itself.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["gc_once", "gc_paused"]


@contextmanager
def gc_paused() -> Iterator[None]:
    """Context in which no thread collects garbage; it is collected afterwards. Of nested uses the
    first one ends the pause for all.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def gc_once() -> Iterator[None]:
    """Context without garbage collection, at whose end everything moves to the oldest generation,
    instead of being traversed by each generation.
    """
    with gc_paused():
        try:
            yield
        finally:
            gc.collect(1)
