"""`learned.md`: for people, each rule with its evidence, and what was left out and why.

Every value of a log stands in backticks as a JSON string in ASCII, cut at a length, without a
character that Markdown or HTML would read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final

from doorward.base.counting import counted
from doorward.learn.grants import ALLOW, Learned
from doorward.learn.groups import who_text
from doorward.learn.observations import Observations
from doorward.learn.review import Row, when
from doorward.learn.templates import Limits, path_text

__all__ = ["code", "markdown"]

LONGEST: Final = 160
MOST: Final = 20
_ESCAPED: Final = str.maketrans({each: f"\\u{ord(each):04x}" for each in "`|<>&[]\x7f"})


def code(text: str) -> str:
    """Return a value of the log as Markdown code, whatever characters it has; cut after `LONGEST`
    characters.
    """
    cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    return f"`{json.dumps(cut)[1:-1].translate(_ESCAPED)}`"


def markdown(
    rows: Iterable[Row], learned: Learned, observations: Observations, limits: Limits
) -> str:
    """Return the text of learned.md: each rule and question with its evidence, and what was left
    out.
    """
    return "\n".join(_lines(list(rows), learned, observations, limits)) + "\n"


def _lines(
    rows: list[Row], learned: Learned, observations: Observations, limits: Limits
) -> Iterator[str]:
    """Yield the lines of learned.md: a summary, the granted rules, the questions without a
    decision, what was left out, and the parameters. Other rows are not shown.
    """
    allowed = [row for row in rows if row.is_granted]
    questions = [row for row in rows if row.grant.proposal != ALLOW and not row.decision]
    first, last = when(observations.first), when(observations.last)
    yield "# What was learned\n"
    yield f"From {counted(observations.events, 'request')}" + (
        f" between {first} and {last}." if first else " without a time."
    )
    yield (
        f"The policy has {counted(len(allowed), 'rule')}; "
        f"{counted(len(questions), 'question')} in review.yaml grant nothing.\n"
    )
    yield (
        "A rule shows that requests were made, not that they were right: an account that was "
        "misused during the\nwhole log looks like one in normal use. Rules of few users, of a "
        "small part of a group, or of requests\nthat a group rarely makes come first in "
        "review.yaml. Requests that are made once a month or once a year may\nbe missing. "
        "Requests that were not seen are denied.\n"
    )
    yield from _unseen(learned, observations)
    yield "## Rules\n"
    for row in allowed:
        yield from _rule(row)
    if questions:
        yield "## Questions, which grant nothing yet\n"
        for row in questions:
            yield from _rule(row)
    yield from _left_out(learned, observations)
    yield "## Parameters\n"
    yield (
        f"`--floor {limits.floor}` `--words {limits.words}` `--events {limits.events}` "
        f"`--users {limits.users}` `--spread {limits.spread}`"
    )


def _unseen(learned: Learned, observations: Observations) -> Iterator[str]:
    """Yield a sentence with the share of allowed requests that were the only one of their subject
    and path: an estimate of what the log does not show. Nothing for no requests.
    """
    once = sum(
        [cell.count == 1 for cells in observations.allowed.values() for cell in cells.values()]
    )
    total = sum(observations.activity.values())
    if total:
        yield (
            f"{once / total:.1%} of the requests are the only one of their subject and path: about "
            "that share of the next\nrequests will be of a kind that the log has not seen.\n"
        )


def _rule(row: Row) -> Iterator[str]:
    """Yield the lines about one rule: who, a decision, evidence, generalisations and reasons to
    look.
    """
    grant, evidence = row.grant, row.grant.evidence
    yield f"### {code(f'{grant.method} {grant.host}{path_text(grant.parts)}')}\n"
    yield f"- rule `{row.identifier}`, for {code(who_text(grant.who))}"
    if row.decision:
        yield f"- decided by a person: {row.decision}"
    if row.is_unused:
        yield "- no longer seen in the log"
    times = f", {when(evidence.first)} to {when(evidence.last)}" if evidence.first else ""
    yield (
        f"- {counted(evidence.events, 'request')} by {counted(evidence.users, 'user')} of "
        f"{evidence.members:,} on {counted(evidence.days, 'day')}{times}; for example "
        f"{code(evidence.example)}"
    )
    yield from [f"- {each}" for each in _generalisations(row)]
    yield from [f"- look: {each}" for each in grant.reasons]
    yield ""


def _generalisations(row: Row) -> Iterator[str]:
    """Yield a line, with the reason, for each part of a rule that is not copied from the requests
    in the log: segments of the path, the group, query parameters, and owned fields.
    """
    grant = row.grant
    for part in grant.parts:
        if part.kind == "own":
            yield f"{code(part.text())} must be the subject's own: no other was requested"
        elif part.kind == "type":
            yield f"{code(part.text())} is any value of this type, since many were seen"
        elif part.kind == "prefix":
            yield f"{code(part.text())} is these letters and any number of three or more digits"
        elif part.kind == "set":
            words = row.words.get(part.value, ())
            yield f"{code(part.text())} is one of {counted(len(words), 'value')} in data.json"
    if grant.who and grant.evidence.users < grant.evidence.members:
        yield (
            f"allowed to all of {code(who_text(grant.who))}, since the users who did it are spread "
            f"over the group ({grant.evidence.spread:.0%} of an even spread)"
        )
    elif not grant.who:
        yield "allowed to every subject, since all groups of the log did it"
    if grant.query:
        yield f"the query may have {', '.join(map(code, grant.query))}, with any value"
    for (where, name), attribute in grant.owned:
        claim = code(".".join(attribute))
        yield f"the field {code(name)} of the {where} must be the subject's {claim}"


def _left_out(learned: Learned, observations: Observations) -> Iterator[str]:
    """Yield the lines about skipped lines of the log, requests that are rare (with their `MOST`
    most frequent users), that have a rare word or were denied, and about subjects that searched.
    """
    yield "## Left out\n"
    for reason, number in sorted(observations.skipped.items()):
        yield f"- {counted(number, 'line')}: {code(reason)}"
    if learned.rare:
        yield (
            f"- {counted(sum(learned.rare.values()), 'request')} of a kind that is too rare to ask "
            f"about, by {counted(len(learned.rare), 'user')}:"
        )
        most = sorted(learned.rare.items(), key=lambda each: (-each[1], each[0]))[:MOST]
        for name, number in most:
            yield f"  - {code(name)}: {number:,}"
    if learned.rare_values:
        rare = counted(learned.rare_values, "request")
        yield f"- {rare} with a value that only few users used"
    denied = sum([cell.count for cells in observations.denied.values() for cell in cells.values()])
    if denied:
        yield f"- {counted(denied, 'request')} were denied: no proposed rule allows one of them"
    for subject, number in sorted(observations.searching.items(), key=lambda each: each[0].name):
        yield (
            f"- {code(subject.name)} requested so many different paths that it counts as a "
            "search: "
            f"{counted(number, 'request')}"
        )
    yield ""
