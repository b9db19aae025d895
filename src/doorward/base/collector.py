"""Python's cyclic garbage collector, paused while much is made that stays.

Compiling and loading make millions of objects, nearly all of which live on. Each full collection
looks at all of them again, which made 10,000 rules cost 16 times what 1,000 cost. The collector
belongs to the process: the engine pauses it only while it compiles, and never where a program has
turned it off; for longer, only commands and servers do.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["freezes", "gc_frozen", "gc_once", "gc_paused", "untracker"]

_is_freezing = False


@contextmanager
def gc_paused() -> Iterator[None]:
    """Context in which Python's garbage collector is off for the whole process; it is on again
    afterwards. Does nothing if it is off already: of nested or concurrent uses, the end of the
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
    """Context without garbage collection, with one collection of the young generations at its end.
    Objects made inside then belong to the oldest generation, and are not traversed by each younger
    one.
    """
    with gc_paused():
        try:
            yield
        finally:
            gc.collect(1)


@contextmanager
def gc_frozen() -> Iterator[None]:
    """Context without garbage collection, for the start of a process. Unless an exception ends it,
    all objects are frozen at its end: the collector never traverses or frees them. `freezes`
    returns True inside.
    """
    global _is_freezing
    _is_freezing = True
    try:
        with gc_paused():
            yield
            gc.freeze()
    finally:
        _is_freezing = False


def freezes() -> bool:
    """Return True inside of `gc_frozen`, in any thread."""
    return _is_freezing


def untracker() -> Callable[[object], None]:
    """Return a function that removes a value from the garbage collector. The value must refer to
    nothing that can refer back to it, or both are never freed. Without CPython's C API the function
    does nothing.

    A `dict` is tracked again when a container is put into it.
    """
    try:
        import ctypes  # few load so much

        function = ("PyObject_GC_UnTrack", ctypes.pythonapi)
    except (ImportError, AttributeError):
        # A Python without it, or another one than CPython: the collector traverses the value.
        return lambda _value: None
    return ctypes.PYFUNCTYPE(None, ctypes.py_object)(function)
