"""Python's cyclic garbage collector, paused while much is made that stays.

Compiling and loading make millions of objects, nearly all of which live on. Each full collection
looks at all of them again, which made 10,000 rules cost 15 times what 1,000 cost. The collector
belongs to the process: what pauses it is a command or a server, never the engine by itself.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["freezes", "gc_frozen", "gc_once", "gc_paused", "untracker"]

_is_freezing = False


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


@contextmanager
def gc_frozen() -> Iterator[None]:
    """No collection meanwhile; what is there at the end stays, and is never traversed: for the
    start of a process."""
    global _is_freezing
    _is_freezing = True
    try:
        with gc_paused():
            yield
            gc.freeze()
    finally:
        _is_freezing = False


def freezes() -> bool:
    """Return True inside of `gc_frozen`."""
    return _is_freezing


def untracker() -> Callable[[object], None]:
    """A function after which the collector does not track a value, which must refer to nothing that
    can refer to it again: else both would never be freed.

    It is a function of Python's C API. A `dict` is tracked again when a container is put into it.
    """
    try:
        import ctypes  # few load so much

        function = ("PyObject_GC_UnTrack", ctypes.pythonapi)
    except (ImportError, AttributeError):
        # A Python without it, or another one than CPython: the collector traverses the value.
        return lambda _value: None
    return ctypes.PYFUNCTYPE(None, ctypes.py_object)(function)
