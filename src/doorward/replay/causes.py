"""The cause of a change: the definition or the condition that made the difference.

If both versions are available, it is a definition that held in one and not in the other. Two
definitions are the same if their rule and text are, whatever row they are on. Compared with a
recorded answer, only the new version is available: the definition that allowed, or the conditions
that refused.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final, NamedTuple

from doorward.rego.shared import Location, Trail

__all__ = ["Cause", "cause_of"]


class Cause(NamedTuple):
    """The reason why a decision changed. `rule`: the rule's name and position, "" if it is not
    known; `text`: the definition or condition that differs, as a sentence.
    """

    rule: str
    text: str


NAMED: Final = 3
"""At most this many conditions are named in the text of a cause."""
_UNKNOWN: Final = Cause("", "no rule was evaluated")


def cause_of(kind: str, before: Trail | None, now: Trail, known: Set[str]) -> Cause:
    """Return the cause of a change of `kind`, a key of `KINDS`; a `Cause` without a rule if it is
    not known. `before` is None if the old policies are not available; `known` are the texts of
    their definitions.
    """
    refused = _cause_of_failure(now.failed)
    if kind == "new-deny":
        return refused or _cause_of_loss(before, now) or _UNKNOWN
    if kind == "new-error":
        return refused or _UNKNOWN
    location = _find_new(before, now, known)
    if location is not None:
        return Cause(str(location), f"`{location.text}` holds")
    if kind == "changed" and refused is not None:
        return refused
    return _cause_of_loss(before, now) or _cause_of_pass(before) or _UNKNOWN


def _key(location: Location) -> tuple[str, str]:
    """Return what names a definition in both versions: its rule and its text, without the file and
    line.
    """
    return location.rule, location.text


def _find_new(before: Trail | None, now: Trail, known: Set[str]) -> Location | None:
    """Return a definition that holds now and did not hold before; None if there is none.

    Of several, the outermost one whose text the old version does not contain (`known`), otherwise
    the innermost one. Without the old version (`before` is None), the second outermost of all that
    hold now, or the only one.
    """
    if before is None:
        # The outermost is the decided document itself; the definition inside of it says more.
        return now.answered[min(1, len(now.answered) - 1)] if now.answered else None
    answered_before = {_key(location) for location in before.answered}
    fresh = [location for location in now.answered if _key(location) not in answered_before]
    new = [location for location in fresh if location.text not in known]
    return new[0] if new else fresh[-1] if fresh else None


def _cause_of_loss(before: Trail | None, now: Trail) -> Cause | None:
    """Return the cause "this definition held, and does not", for the innermost definition that held
    before and does not hold now. None if there is none, or if the old version is not available.
    """
    if before is None:
        return None
    remaining = {_key(location) for location in now.answered}
    gone = [location for location in before.answered if _key(location) not in remaining]
    return Cause(str(gone[-1]), f"`{gone[-1].text}` held, and does not") if gone else None


def _cause_of_pass(before: Trail | None) -> Cause | None:
    """Return the cause "this condition is not required any more", for the first condition that
    failed before; None if none failed, or if the old version is not available.
    """
    if before is None or not before.failed:
        return None
    location = before.failed[0]
    return Cause(str(location), f"`{location.text}` is not required any more")


def _cause_of_failure(failed: Sequence[Location]) -> Cause | None:
    """Return the cause "these conditions do not hold"; None if `failed` is empty.

    `failed` has several conditions if several definitions got equally far; at most `NAMED` are
    named.
    """
    if not failed:
        return None
    texts = " nor ".join([f"`{location.text}`" for location in failed[:NAMED]])
    message = f"{texts} does not hold" if len(failed) == 1 else f"neither {texts} holds"
    return Cause(str(failed[0]), message)
