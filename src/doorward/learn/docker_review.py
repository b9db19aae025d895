"""Review and report of what was learned of Docker's daemon: a row for each value of a setting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from doorward.counting import counted
from doorward.learn.docker import SETTINGS, Calls, LearnedCalls, Value
from doorward.learn.grants import ALLOW, ASK
from doorward.learn.observations import Cell, LearnError
from doorward.learn.report import code
from doorward.learn.review import read_decision, read_yaml, when
from doorward.learn.templates import Limits

__all__ = ["docker_markdown", "docker_yaml", "keep_decisions"]

_HEAD = """\
# Written by `doorward learn`. What needs a look most is first. Yours are `decision` (allow or deny;
# empty takes the proposal, and what is asked opens nothing) and `note`: the next run keeps them.
"""


def _order(value: Value) -> tuple[int, float, str, str, tuple[str, ...], str]:
    """Roles that few calls of their users need, then questions, then the rest."""
    rank = 0 if value.is_odd else 1 if value.proposal != ALLOW else 2
    share = value.share if value.is_odd else 1.0
    return rank, share, value.section, value.name, value.users, value.value


def docker_yaml(learned: LearnedCalls) -> str:
    """The file."""
    rows = [_row(each) for each in sorted(learned.values, key=_order)]
    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return _HEAD + yaml.dump(
        {"values": rows}, Dumper=dumper, sort_keys=False, allow_unicode=False, width=2**20
    )


def _row(value: Value) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": value.identifier,
        "decision": value.decision,
        "note": value.note,
        "proposal": value.proposal,
        "setting": f"{value.section}.{value.name}",
        "value": value.value,
        "users": list(value.users),
    }
    if value.reason:
        row["look"] = value.reason
    row["support"] = {
        "calls": value.cell.count,
        "days": value.cell.days.bit_count(),
        "first": when(value.cell.first),
        "last": when(value.cell.last),
        "example": value.cell.example,
    }
    return row


def keep_decisions(learned: LearnedCalls, text: str, name: str) -> None:
    """Give values the decisions of an earlier review. LearnError for what is not one."""
    if not text:
        return
    try:
        rows = read_yaml(text, name)["values"] or []
        old = {each.identifier: each for each in [_read_row(row, name) for row in rows]}
    except (TypeError, KeyError, AttributeError, ValueError):
        raise LearnError(f"{name}: the file is not a review; move it away to start again") from None
    for each in learned.values:
        before = old.pop(each.identifier, None)
        if before is not None:
            each.decision, each.note = before.decision, before.note
    learned.values += [each for each in old.values() if each.decision or each.note]


def _read_row(row: Any, location: str) -> Value:
    """A value of an earlier run, as one that is no longer seen."""
    section, _, name = row["setting"].partition(".")
    users = tuple(row["users"])
    decision = read_decision(row["decision"], location)
    texts = (section, name, row["value"], decision, str(row.get("note") or ""), *users)
    if any(type(each) is not str for each in texts) or (section, name) not in SETTINGS or not users:
        raise ValueError
    return Value(section, name, texts[2], users, Cell(), ASK, "no longer seen", texts[3], texts[4])


def docker_markdown(learned: LearnedCalls, calls: Calls, limits: Limits) -> str:
    """The page, for each user what was learned, and what was left out."""
    return "\n".join(_lines(learned, calls, limits)) + "\n"


def _lines(learned: LearnedCalls, calls: Calls, limits: Limits) -> Iterator[str]:
    yield "# What was learned\n"
    yield f"From {counted(calls.events, 'call')}. data.json is for the shipped policies.\n"
    yield (
        "A value shows that something was used, and not that it is right: somebody who misuses an "
        "account slowly looks\nlike one who works. Nothing that the shipped data keep closed is "
        "opened without your decision in review.yaml.\nSettings count for all users: only roles "
        "are a user's own.\n"
    )
    if calls.without_input:
        yield (
            f"{counted(calls.without_input, 'call')} had no input in the log (`--audit-input`): of "
            "those only the action is known.\n"
        )
    for user in sorted({user for each in learned.values for user in each.users}):
        yield f"## {code(user) if user else 'On the Unix socket'}\n"
        for each in sorted(learned.values, key=_order):
            if user in each.users:
                state = "granted" if each.is_granted else "not granted"
                reason = f"; look: {code(each.reason)}" if each.reason else ""
                yield (
                    f"- {state}: {each.section}.{each.name} {code(each.value)}, "
                    f"{counted(each.cell.count, 'call')}, for example "
                    f"{code(each.cell.example)}{reason}"
                )
        yield ""
    yield "## Left out\n"
    yield f"- {counted(calls.unreadable, 'line')} that are not a request"
    for (user, action), number in sorted(calls.denied.items()):
        yield f"- {code(user)} was denied {code(action)} {counted(number, 'time')}"
    yield "\n## Parameters\n"
    yield f"`--floor {limits.floor}` `--events {limits.events}`"
