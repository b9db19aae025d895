"""Other people's Python code in an evaluation: what it raises and what it returns.

A built-in that is not ours may raise anything and return any object. Here an exception becomes the
end of the evaluation, whether errors are strict or not: an expression that is undefined because a
function has a bug would make `not` true. What is returned becomes a Rego value or is such an error.
This is the one module of the language that catches every exception.

An exception's text may quote the input. It goes into the hint, which only people see who run the
policy themselves, and never into the message, which servers log and send.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Final

from doorward.rego.conversion import from_python
from doorward.rego.errors import CANCEL_ERROR, BuiltinError, EvaluationAborted
from doorward.rego.values import UNDEFINED

__all__ = ["ForeignError", "foreign_code", "guarded", "is_foreign"]

MAX_TEXT: Final = 1000
"""The most characters of an exception that are shown."""

_OURS: Final = "doorward.rego."
_ENDS: Final = (KeyboardInterrupt, SystemExit)
"""Exceptions that end a process from its main thread and are passed on. Every other exception
belongs to the code that raised it: a CancelledError of asyncio there must not cancel the caller of
the decision.
"""
_AS_THEY_ARE: Final = frozenset({str, bool, int, type(None), type(UNDEFINED)})


class ForeignError(Exception):
    """Code from outside Doorward raised its `__cause__`; the message says what and where."""


@contextmanager
def foreign_code() -> Iterator[None]:
    """Return a context manager that raises ForeignError for any exception in its body, except
    KeyboardInterrupt and SystemExit.
    """
    try:
        yield
    except _ENDS:
        raise
    except BaseException as error:
        raise ForeignError(_message_of(error)) from error


def is_foreign(body: Callable[..., Any]) -> bool:
    """Return True if a built-in's body is from a module outside of `doorward.rego`."""
    return not str(getattr(body, "__module__", "")).startswith(_OURS)


def guarded(name: str, body: Callable[..., Any], *, relation: bool) -> Callable[..., Any]:
    """Wrap a custom built-in. Its result becomes a Rego value (of a `relation`, each solution
    does). BuiltinError, KeyboardInterrupt and SystemExit are passed on; any other exception, and a
    result that Rego does not have, ends the evaluation. ValueError if `body` is an async function.
    """
    if iscoroutinefunction(body):
        raise ValueError(f"built-in `{name}` is a coroutine: policies cannot await")
    to_value = _values if relation else _value

    @wraps(body)
    def call(*operands: Any) -> Any:
        """Call the body and convert its result. BuiltinError, KeyboardInterrupt, SystemExit and the
        EvaluationAborted of a passed deadline are passed on. In place of another EvaluationAborted,
        one with the built-in's name before its text is raised; for any other exception
        EvaluationAborted is raised, with the exception's text in `hint` only.
        """
        try:
            result = body(*operands)
            return result if type(result) in _AS_THEY_ARE else to_value(result)
        except BuiltinError:
            raise
        except EvaluationAborted as halt:
            if halt.code == CANCEL_ERROR:
                raise
            raise EvaluationAborted(f"{name}: {halt}") from halt
        except _ENDS:
            raise
        except BaseException as error:
            ended = EvaluationAborted(f"{name}: the built-in raised {type(error).__name__}")
            ended.hint = _message_of(error)
            raise ended from error

    return call


def _value(result: Any) -> Any:
    return from_python(result, copy=True)


def _values(solutions: Any) -> list[Any]:
    return list(map(_value, solutions))


def _message_of(error: BaseException) -> str:
    """The class and text of an exception, cut at `MAX_TEXT` characters, and the line that raised
    it, if that is not in this module.
    """
    import traceback  # only what went wrong needs it

    text = "".join(traceback.format_exception_only(error)).strip()
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}…"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    if not frames:
        return text
    last = frames[-1]
    return f"{text} ({last.filename}:{last.lineno}, in {last.name})"
