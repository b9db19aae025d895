"""The smallest change of an input with which a document is true: what a caller lacks.

    input ─Inversion─▶ changed inputs ─decide─▶ one that is true ─undo what is not needed─▶ Change

A change that needs another signature is marked: a caller cannot make it alone. The time is not
changed. The engine decides each input, so that a change that is displayed is one that works.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from datetime import UTC, datetime
from typing import Any, Final

from doorward.base.records import record
from doorward.rego import UNDEFINED, Engine, EvalError, Query, to_json, to_python, to_rego
from doorward.rego.tools import path_text
from doorward.search.disclosure import Disclosure
from doorward.search.inversion import Goal, Inversion
from doorward.search.shape import shape_of
from doorward.search.tokens import read_token

__all__ = ["Change", "Edit", "smallest_change"]

SECONDS: Final = 1.0
"""The default time of a search, in seconds."""
TIMES: Final = 1.0
"""The time of the search among other times, in seconds; a single test may take `EACH` more."""
MAX_EDITS: Final = 6
"""An input with more edits than this is not edited further."""
EACH: Final = 0.2
"""The time limit of one decision, in seconds."""
WIDEST: Final = 120
"""A value with more characters than this is cut, with `…` at the end."""

_HOUR: Final = 3600 * 10**9
_HOURS: Final = (
    *range(1, 25),
    *(24 * n for n in range(2, 15)),
    24 * 30,
    24 * 366,
    24 * 3660,
    24 * 36600,
)
"""The distances in hours, before and after the current time, of the times that are tried."""

Path = tuple[Any, ...]


@record
class Edit:
    """A change of the value at a path of the input from `old` to `new`. UNDEFINED stands for a
    missing value.
    """

    path: Path
    old: Any
    new: Any

    @property
    def is_signed(self) -> bool:
        """True if the new value is a token: a caller cannot sign one."""
        return read_token(self.new) is not None


@record
class Change:
    """The edits with the lowest cost that make a document true; () if none were found. `tried`: the
    number of inputs that were decided; `input`: the input with the edits, UNDEFINED if there are
    none.
    """

    edits: tuple[Edit, ...]
    tried: int
    input: Any = UNDEFINED
    disclosure: Disclosure | None = field(default=None, compare=False)
    """Masks the values in `text` and `document`; None if there are no edits."""
    at_ns: int | None = None
    """A time (nanoseconds since the epoch) at which the unchanged input makes the document true;
    None if none was found, or if there are edits.
    """

    @property
    def is_found(self) -> bool:
        """True if edits make the document true; False also if only another time does."""
        return self.input is not UNDEFINED

    def text(self) -> str:
        """Return the change as text for a terminal: one line per edit, or one line that names
        another time or says that no change was found.
        """
        if self.at_ns is not None:
            seconds, _ = divmod(self.at_ns, 10**9)
            when = datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            return f"it is true without a change of the input at another time, such as {when}"
        if not self.is_found:
            return f"none of {self.tried} changes of the input that were tried makes it true"
        lines = ["it is true with"]
        lines += [f"  {self._edit_text(edit)}" for edit in self.edits]
        return "\n".join(lines)

    def document(self) -> dict[str, Any]:
        """Return the change as a document for JSON: `found`, `tried` and `edits`; `at_ns` only if
        another time was found. Credentials in the values are masked.
        """
        edits = [
            {
                "path": list(edit.path),
                "value": self._value(edit, edit.new),
                "removed": edit.new is UNDEFINED,
                "signed": edit.is_signed,
                # A token is changed in its claims, which are long: the new ones say enough.
                **(
                    {}
                    if edit.is_signed or edit.old is UNDEFINED
                    else {"was": self._value(edit, edit.old)}
                ),
            }
            for edit in self.edits
        ]
        document = {"found": self.is_found, "edits": edits, "tried": self.tried}
        return document if self.at_ns is None else {**document, "at_ns": self.at_ns}

    def _value(self, edit: Edit, value: Any) -> Any:
        """Return a value as a Python value, without secrets; for a token its claims. None for
        UNDEFINED and for a change without `disclosure`.
        """
        if value is UNDEFINED or self.disclosure is None:
            return None
        name = str(edit.path[-1]) if edit.path else ""
        token = read_token(value)
        return self.disclosure.value(value if token is None else token.claims, name)

    def _edit_text(self, edit: Edit) -> str:
        """Return one edit as text: ``input.role: "admin" (is "user")``, `input.role left out`, or
        for a token its claims. Values are shown as `disclosure` permits, without one as null, and
        cut at `WIDEST` characters.
        """
        name = "input" + path_text(edit.path).removeprefix("data")
        if edit.new is UNDEFINED:
            return f"{name} left out"
        value = _short(to_rego(self._value(edit, edit.new)))
        if edit.is_signed:
            return f"{name}: a token that claims {value} (it needs a signature)"
        old = (
            "" if edit.old is UNDEFINED else f" (is {_short(to_rego(self._value(edit, edit.old)))})"
        )
        return f"{name}: {value}{old}"


def smallest_change(
    engine: Engine,
    path: Sequence[str],
    input: Any,
    *,
    now_ns: int,
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Change:
    """Search for the smallest change of an input (Python values) that makes the document at a path
    true at `now_ns` (nanoseconds since the epoch). The search ends after `seconds` of `clock`, or
    at once with a single edit that needs no signature. If there is none, other times are tried with
    the same input, for at most `TIMES` more seconds; the result then has `at_ns`, or neither that
    nor edits.
    """
    search = _Search(engine, path, now_ns)
    return search.run(to_python(input), clock() + seconds, clock)


class _Search:
    """A search for the smallest change with which the document at a path is true at the time
    `now_ns`.
    """

    def __init__(self, engine: Engine, path: Sequence[str], now_ns: int) -> None:
        self._engine = engine
        self._path = path
        self._now_ns = now_ns
        self._query: Query = engine.prepare(path_text(tuple(path)), deadline=EACH)
        self._tried = 0

    def run(self, input: Any, until: float, clock: Callable[[], float]) -> Change:
        """Search by inversion until `clock` has reached `until`, a single edit without a signature
        was found, or nothing is left to try; inputs with more than `MAX_EDITS` edits are not
        changed further. Return the change with the lowest `_cost`; if none was found, a change
        without edits, with `at_ns` if another time helps.
        """
        constants = shape_of([self._engine]).constants
        goal = Goal(self._engine, "/".join(self._path), self._now_ns, constants)
        inversion = Inversion([goal])
        inversion.begin(input)
        best: tuple[tuple[int, int, int], list[Edit], Any] | None = None
        while clock() < until and not inversion.is_idle:
            for candidate in inversion.new():
                edits = list(edits_between(input, candidate))
                if self._is_true(candidate):
                    edits, candidate = self._undo(input, edits, candidate)
                    cost = _cost(edits)
                    if best is None or cost < best[0]:
                        best = cost, edits, candidate
                elif len(edits) <= MAX_EDITS and (best is None or _cost(edits) < best[0]):
                    inversion.begin(candidate)
            # One edit that the caller can make without a signature: there is no change with fewer.
            if best is not None and best[0][:2] <= (0, 1):
                break
        if best is None:
            return Change((), self._tried, at_ns=self._another_time(input, until, clock))
        return Change(tuple(best[1]), self._tried, best[2], Disclosure(self._engine, input))

    def _is_true(self, input: Any) -> bool:
        """Return True if the document is true for this input, False also after an evaluation error.
        Counts the input in `_tried`.
        """
        self._tried += 1
        try:
            return self._query.answer(input, now_ns=self._now_ns) is True
        except EvalError:
            return False

    def _another_time(self, input: Any, until: float, clock: Callable[[], float]) -> int | None:
        """Return a time in nanoseconds at which the unchanged input makes the document true: the
        one nearest to now of some times before and after it (`_HOURS`). None if it is true at none
        of them.

        The search for it ends `TIMES` seconds after `until`, a time of `clock`, or after now if
        that is later.
        """
        until = max(until, clock()) + TIMES
        for hours in sorted({*_HOURS, *(-each for each in _HOURS)}, key=abs):
            if clock() >= until:
                break
            now_ns: int = self._now_ns + hours * _HOUR
            with suppress(EvalError):
                if now_ns > 0 and self._query.answer(input, now_ns=now_ns) is True:
                    return now_ns
        return None

    def _undo(self, input: Any, edits: list[Edit], candidate: Any) -> tuple[list[Edit], Any]:
        """Leave out each edit without which the document is still true, first of all those that
        need a signature. Return the edits that are necessary, and the input with them.
        """
        for edit in sorted(edits, key=lambda each: not each.is_signed):
            left = [each for each in edits if each is not edit]
            without = apply(input, left)
            if self._is_true(without):
                edits, candidate = left, without
        return edits, candidate


def _cost(edits: Sequence[Edit]) -> tuple[int, int, int]:
    """Return the rank of edits, the best first: the number of edits that need a signature, the
    number of edits, the characters of the new values as JSON.
    """
    size = sum(len(to_json(each.new)) for each in edits if each.new is not UNDEFINED)
    return sum(each.is_signed for each in edits), len(edits), size


def edits_between(old: Any, new: Any, path: Path = ()) -> Iterator[Edit]:
    """Yield the edits that turn the document `old` into `new`: one for each different member of an
    object, at any depth. Their paths begin with `path`. Arrays and scalars are compared as a whole.
    Nothing if both are equal as JSON.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from edits_between(old.get(key, UNDEFINED), new.get(key, UNDEFINED), (*path, key))
    elif not _are_same(old, new):
        yield Edit(path, old, new)


def _are_same(old: Any, new: Any) -> bool:
    """Return True if two values have the same JSON text, or both are UNDEFINED."""
    if old is UNDEFINED or new is UNDEFINED:
        return old is new
    return to_json(old) == to_json(new)


def apply(document: Any, edits: Sequence[Edit]) -> Any:
    """Return a deep copy of a document with the edits applied; new values are shared with the
    edits. A new value UNDEFINED removes a member; missing objects on a path are created.
    """
    document = copy.deepcopy(document)
    for edit in edits:
        if not edit.path:
            document = edit.new
            continue
        *folders, name = edit.path
        target = document
        for folder in folders:
            target = target.setdefault(folder, {})
        if edit.new is UNDEFINED:
            target.pop(name, None)
        else:
            target[name] = edit.new
    return document


def _short(text: str) -> str:
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"
