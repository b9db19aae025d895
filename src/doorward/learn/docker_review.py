"""Review and report of what was learned of Docker's daemon: a row for each value of a setting."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import yaml

from doorward.base.counting import counted
from doorward.learn.docker import ROLES, LearnedCalls, Value, role_of, settle
from doorward.learn.docker_calls import Calls
from doorward.learn.docker_closed import SETTINGS, ports_of
from doorward.learn.docker_roles import roles
from doorward.learn.grants import ALLOW, ASK
from doorward.learn.observations import Cell
from doorward.learn.report import code
from doorward.learn.review import checking_row, read_decision, rows_in, when
from doorward.learn.templates import Limits

__all__ = ["docker_markdown", "docker_yaml", "keep_decisions"]

_HEAD = """\
# Written by `doorward learn`. The values to review first are on top. Yours are `decision` (allow or
# deny; empty takes the proposal, and a question then grants nothing) and `note`: the next run keeps
# them.
"""


def _order(value: Value) -> tuple[int, bool, bool, float, tuple[str, str], str, str]:
    """Return the sort key for the review: first granted values with little support (roles and new
    ones before others), then questions, then the rest.
    """
    rank = 0 if value.is_odd else 1 if value.proposal != ALLOW else 2
    share = value.share if value.is_odd else 1.0
    is_later = value.setting != ROLES, not value.is_new
    return rank, *is_later, share, value.setting, value.holder, value.value


def _rows(learned: LearnedCalls) -> list[Value]:
    """Return the values that no other value covers, in the order of the review."""
    return sorted([each for each in learned.values if not each.is_covered], key=_order)


def docker_yaml(learned: LearnedCalls) -> str:
    """Return the text of review.yaml."""
    rows = [_row(each) for each in _rows(learned)]
    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return _HEAD + yaml.dump(
        {"values": rows}, Dumper=dumper, sort_keys=False, allow_unicode=False, width=2**20
    )


def _row(value: Value) -> dict[str, Any]:
    """Return one value as a row of review.yaml, its keys in the order of the file; `new` and `look`
    (the reason to look at it) only where there is something to say.
    """
    row: dict[str, Any] = {
        "id": value.identifier,
        "decision": value.decision,
        "note": value.note,
        "proposal": value.proposal,
        "setting": ".".join(value.setting),
        "value": value.value,
        **({"role": value.holder} if value.is_shared else {"user": value.users[0]}),
    }
    if value.is_new:
        row["new"] = True
    if value.reason:
        row["look"] = value.reason
    row["support"] = {
        "calls": value.cell.count,
        "days": value.cell.days.bit_count(),
        "first": when(value.cell.first),
        "last": when(value.cell.last),
        "example": value.cell.example,
    }
    if value.is_shared:
        row["support"] |= {"users": len(value.users), "of": value.members}
    return row


def keep_decisions(learned: LearnedCalls, text: str, name: str) -> None:
    """Copy the decisions and notes of an earlier review.yaml to the values with the same
    identifiers, then apply decisions to related values (`settle`); changes `learned` in place.

    `text` is `""` if there is no earlier file; otherwise values that it lacks are marked as new.
    Values with a decision or note that the log no longer shows are added again. Raise LearnError if
    the file is not a review or a decision is invalid.
    """
    if text:
        old: dict[str, Value] = {}
        for row, location in rows_in(text, name, "values"):
            with checking_row(location):
                value = _read_row(row, location)
                old[value.identifier] = value
        for each in learned.values:
            before = old.pop(each.identifier, None)
            each.is_new = before is None
            if before is not None:
                each.decision, each.note = before.decision, before.note
        learned.values += [each for each in old.values() if each.decision or each.note]
    settle(learned)


def _read_row(row: Any, location: str) -> Value:
    """Return a value of an earlier review, with an empty count.

    Raise KeyError, TypeError, AttributeError or ValueError if the row is invalid, LearnError for an
    invalid decision.
    """
    section, _, name = row["setting"].partition(".")
    user, role = row.get("user"), row.get("role")
    holder = role if role in roles() and user is None else role_of(user)
    decision = read_decision(row["decision"], location)
    texts = (section, name, row["value"], decision, str(row.get("note") or ""), holder)
    if any(type(each) is not str for each in texts) or (section, name) not in SETTINGS:
        raise ValueError
    if section == "limits" and not 0 <= float(texts[2]) < math.inf:
        raise ValueError
    if section == "ports" and name == "ranges":
        ports_of(texts[2])
    users = () if user is None else (user,)
    value = Value((section, name), texts[2], holder, users, Cell(), ASK, "no longer seen")
    value.decision, value.note = texts[3], texts[4]
    return value


def docker_markdown(learned: LearnedCalls, calls: Calls, limits: Limits) -> str:
    """Return the text of learned.md: the values of each role and user with their evidence, and what
    was left out.
    """
    return "\n".join(_lines(learned, calls, limits)) + "\n"


def _lines(learned: LearnedCalls, calls: Calls, limits: Limits) -> Iterator[str]:
    """Yield the lines of the report in Markdown: the values learned for each role and then for each
    user, the lines and calls left out, and the parameters.
    """
    yield "# What was learned\n"
    yield f"From {counted(calls.events, 'call')}. data.json is for the shipped policies.\n"
    yield (
        "A value shows that it was used, not that this was right: an account that was misused "
        "during the whole log\nlooks like one in normal use. Settings that the shipped data keep "
        "closed are only opened by your decision in\nreview.yaml. The values of one user are in a "
        "role of that user; values that are spread evenly over all users of\na role are in that "
        "role, which also gives them to new users.\n"
    )
    if calls.without_input:
        yield (
            f"{counted(calls.without_input, 'call')} had no input in the log (`--audit-input`): "
            "for them only the action is known.\n"
        )
    by_title: defaultdict[tuple[bool, str], list[Value]] = defaultdict(list)
    for each in _rows(learned):
        by_title[not each.is_shared, each.holder if each.is_shared else each.users[0]].append(each)
    for (is_personal, name), values in sorted(by_title.items()):
        title = f"The role {name}" if not is_personal else code(name) or "On the Unix socket"
        yield f"## {title}\n"
        yield from (_line(each) for each in values)
        yield ""
    yield "## Left out\n"
    yield f"- {counted(calls.unreadable, 'line')} that are not requests"
    for (user, action), number in sorted(calls.denied.items()):
        yield f"- {code(user)} was denied {code(action)} {counted(number, 'time')}"
    yield "\n## Parameters\n"
    yield f"`--floor {limits.floor}` `--events {limits.events}`"


def _line(value: Value) -> str:
    """Return the line of learned.md for one value: its state (granted or not), its evidence, and
    the reason to look at it.
    """
    state = "granted" if value.is_granted else "not granted"
    users = f" by {len(value.users)} of {value.members} users" if value.is_shared else ""
    reason = f"; look: {code(value.reason)}" if value.reason else ""
    return (
        f"- {state}: {'.'.join(value.setting)} {code(value.value)}, "
        f"{counted(value.cell.count, 'call')}{users} from {when(value.cell.first)} to "
        f"{when(value.cell.last)}, for example {code(value.cell.example)}{reason}"
    )
