"""`review.yaml`: a row for each grant and each question, and the decisions of a person about them.

    learned + rows of the last run ─review─▶ rows ─granted─▶ grants of the policy

The next run keeps decisions and notes by the id of a row. A row with a decision stays when its
requests are no longer in the log. The file is written and read as plain YAML: values of a log are
quoted scalars, and a row that was changed beyond `decision` and `note` is used as it was learned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from datetime import UTC, datetime
from typing import Any, Final

import yaml

from doorward.base.records import mutable
from doorward.learn.documents import identifier_of
from doorward.learn.grants import ALLOW, ASK, Evidence, Grant, Learned
from doorward.learn.groups import Condition, who_text
from doorward.learn.observations import LearnError
from doorward.learn.segments import LONGEST, MOST, TYPES, Numbered, type_of
from doorward.learn.templates import Part, Values, path_text
from doorward.rego import BuiltinError
from doorward.rego.golang import unmarshal
from doorward.rego.shared import EvaluationAborted

__all__ = [
    "DENY",
    "Row",
    "checking_row",
    "granted",
    "read_decision",
    "read_rows",
    "read_yaml",
    "review",
    "rows_in",
    "to_yaml",
    "when",
]

DENY: Final = "deny"
MAX_FILE: Final = 16 << 20
MOST_ROWS: Final = 20
"""At most this many new words are shown for a row."""
_HEAD: Final = """\
# Written by `doorward learn`. The rows to review first are on top. Yours are `decision` (allow or
# deny; empty takes the proposal, and a question then grants nothing) and `note`: the next run keeps
# them.
"""


@mutable
class Row:
    """A grant or a question, and the answer of a person to it."""

    identifier: str
    grant: Grant
    decision: str = ""
    note: str = ""
    is_unused: bool = False
    words: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The words of the closed sets that the grant names."""
    new_words: frozenset[str] = frozenset()
    """The words of those sets, and parameters, that the last run did not have."""

    @property
    def is_granted(self) -> bool:
        """True if the person's decision is to allow; without a decision, if the proposal is and the
        log still shows the row.
        """
        if self.decision:
            return self.decision == ALLOW
        return self.grant.proposal == ALLOW and not self.is_unused

    @property
    def order(self) -> tuple[int, float, str]:
        """The sort key of the review: suspicious grants, then questions, then other grants, and
        last the rows that the log no longer shows.
        """
        score = self.grant.score
        if self.is_unused:
            return 3, 0.0, self.identifier
        if self.grant.proposal == ASK:
            return 1, -score, self.identifier
        return (0 if score >= 1 or self.new_words else 2), -score, self.identifier


def review(learned: Learned, before: Iterable[Row]) -> list[Row]:
    """Return the rows of this run with earlier decisions, in the order of the review. Rows of
    `before` that the log no longer shows are kept, and marked as unused in place, if they grant
    something, have a decision or note, or were unused before.
    """
    rows: dict[str, Row] = {}
    for grant in learned.grants:
        identifier = identifier_of(grant, learned.sets)
        words = {p.value: learned.sets[p.value].words for p in grant.parts if p.kind == "set"}
        number = 2
        while identifier in rows:
            identifier = f"{identifier[:12]}-{number}"
            number += 1
        rows[identifier] = Row(identifier, grant, words=words)
    for old in before:
        row = rows.get(old.identifier)
        if row is not None:
            row.decision, row.note = old.decision, old.note
            row.new_words = _words_of(row) - _words_of(old)
        elif old.decision or old.note or old.is_granted or old.is_unused:
            old.is_unused = True
            rows[old.identifier] = old
    return sorted(rows.values(), key=lambda each: each.order)


def _words_of(row: Row) -> frozenset[str]:
    return frozenset({word for words in row.words.values() for word in words} | {*row.grant.query})


def granted(rows: Iterable[Row]) -> tuple[dict[str, Grant], dict[str, Values]]:
    """Return the policy's grants by identifier, and the sets of words they use. Sets that have one
    name but other words are renamed, in `rows` too.
    """
    grants: dict[str, Grant] = {}
    sets: dict[str, Values] = {}
    for row in sorted(rows, key=lambda each: (each.is_unused, each.identifier)):
        if not row.is_granted:
            continue
        parts = []
        for part in row.grant.parts:
            if part.kind == "set":
                part = Part("set", _name_for(part.value, row.words[part.value], sets))
            parts.append(part)
        row.grant.parts = tuple(parts)
        row.words = {p.value: sets[p.value].words for p in parts if p.kind == "set"}
        grants[row.identifier] = row.grant
    return grants, sets


def _name_for(name: str, words: tuple[str, ...], sets: dict[str, Values]) -> str:
    """Add a set of words to `sets` under `name`, or with a number behind it if `sets` has other
    words under that name; return the new name.
    """
    known = name
    number = 2
    while known in sets and sets[known].words != words:
        known = f"{name}-{number}"
        number += 1
    sets[known] = Values(known, words, "")
    return known


# Text.


def to_yaml(rows: Iterable[Row]) -> str:
    """Return the text of review.yaml, with keys in reading order."""
    document = {"rules": [_row(each) for each in rows]}
    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return _HEAD + yaml.dump(
        document, Dumper=dumper, sort_keys=False, allow_unicode=False, width=2**20
    )


def when(seconds: int) -> str:
    """Return seconds since the epoch as a time in UTC, such as `2026-01-31T12:00:00Z`; "" for 0."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if seconds else ""


def _row(row: Row) -> dict[str, Any]:
    """Return a row as the object that stands for it in review.yaml; of its new words, only the
    first `MOST_ROWS` in order.
    """
    grant, evidence = row.grant, row.grant.evidence
    document: dict[str, Any] = {
        "id": row.identifier,
        "decision": row.decision,
        "note": row.note,
        "proposal": grant.proposal,
        "request": f"{grant.method} {grant.host}{path_text(grant.parts)}",
        "who": who_text(grant.who),
    }
    if row.is_unused:
        document["unused"] = True
    reasons = [*grant.reasons]
    if row.new_words:
        reasons.append(f"{len(row.new_words)} words are new since the last run")
        document["new"] = sorted(row.new_words)[:MOST_ROWS]
    if reasons:
        document["look"] = reasons
    if grant.rarest:
        document["rarest"] = list(grant.rarest)
    document["support"] = {
        "requests": evidence.events,
        "users": evidence.users,
        "of": evidence.members,
        "spread": evidence.spread,
        "share": round(evidence.share, 6),
        "days": evidence.days,
        "first": when(evidence.first),
        "last": when(evidence.last),
        "example": evidence.example,
        "denied": evidence.denied,
    }
    document["rule"] = {
        "host": grant.host,
        "method": grant.method,
        "path": [{each.kind: each.value or list(each.attribute)} for each in grant.parts],
        "who": [
            {
                "claim": list(each.attribute),
                "value": each.value,
                "list": each.attribute in grant.lists,
            }
            for each in grant.who
        ],
        "query": list(grant.query),
        "owned": [
            {"in": part, "name": name, "claim": list(attribute)}
            for (part, name), attribute in grant.owned
        ],
        "sets": {name: list(words) for name, words in sorted(row.words.items())},
    }
    return document


def read_rows(text: str, name: str) -> list[Row]:
    """Return the rows of an earlier review.yaml, [] if its `rules` are empty or null; LearnError if
    it is invalid.
    """
    rows: list[Row] = []
    for each, location in rows_in(text, name, "rules"):
        with checking_row(location):
            rows.append(_read_row(each, location))
    return rows


def rows_in(text: str, name: str, member: str) -> list[tuple[Any, str]]:
    """Return the items of the list `member` in an earlier review.yaml, each with its location for
    errors; [] if `member` is empty or null. LearnError if it is missing or not a list.
    """
    try:
        rows = read_yaml(text, name)[member] or []
    except (TypeError, KeyError):
        rows = None
    if not isinstance(rows, list):
        raise LearnError(f"{name}: the file is not a review; move it away to start again")
    return [(each, f"{name}: {member[:-1]} {number}") for number, each in enumerate(rows, 1)]


@contextmanager
def checking_row(location: str) -> Iterator[None]:
    """Turn the errors of reading a row of review.yaml that a person has broken into LearnError."""
    try:
        yield
    except (TypeError, KeyError, ValueError, AttributeError):
        raise LearnError(
            f"{location} is not as `doorward learn` wrote it: undo the edit, or move the file away "
            "to start again without its decisions"
        ) from None


def read_yaml(text: str, name: str) -> Any:
    """Parse a YAML text of bounded size; LearnError if it is invalid or too large."""
    try:
        return unmarshal(text, max_text=MAX_FILE)
    except BuiltinError as error:
        problem = str(error).strip().splitlines()[0]
        raise LearnError(f"{name}: the file is not YAML: {problem}") from None
    except EvaluationAborted as error:
        raise LearnError(f"{name}: the file is above a limit: {error}") from None


def read_decision(value: Any, location: str) -> str:
    """Return a decision: allow, deny, or ""; LearnError for others, such as `no`, which YAML reads
    as false.
    """
    if value is not None and value not in ("", ALLOW, DENY):
        raise LearnError(
            f"{location}: a row has the decision `{value!s:.20}`: write allow, deny, or nothing"
        )
    return str(value or "")


def _read_row(row: Any, location: str) -> Row:
    """Return a row of review.yaml. ValueError, KeyError, TypeError or AttributeError if it is
    invalid, LearnError for an invalid decision.
    """
    decision = read_decision(row["decision"], location)
    note = row.get("note") or ""
    rule = row["rule"]
    words = {_word(name): tuple(map(_word, words)) for name, words in rule["sets"].items()}
    parts = tuple([_read_part(each, words) for each in rule["path"]])
    if not 0 < len(parts) <= MOST:
        raise ValueError
    grant = Grant(
        _word(rule["host"]),
        _word(rule["method"]),
        parts,
        tuple([Condition(_attribute(each["claim"]), _word(each["value"])) for each in rule["who"]]),
        _read_evidence(row["support"]),
        ALLOW if row["proposal"] == ALLOW else ASK,
        (),
        tuple(map(_word, rule["query"])),
        tuple(
            [
                ((each["in"], _word(each["name"])), _attribute(each["claim"]))
                for each in rule["owned"]
            ]
        ),
        frozenset([_attribute(each["claim"]) for each in rule["who"] if each["list"] is True]),
    )
    if any(each[0][0] not in ("query", "body") for each in grant.owned):
        raise ValueError
    return Row(_word(row["id"]), grant, decision, str(note), bool(row.get("unused")), words)


def _read_part(part: Mapping[str, Any], words: Mapping[str, Any]) -> Part:
    """Return a part of a template from its only member, whose name is its kind: `{"word": "users"}`
    is a constant segment, `{"word": []}` an empty one. Raise ValueError, TypeError or
    AttributeError if it is invalid or names a set that is not in `words`.
    """
    ((kind, value),) = part.items()
    if kind == "own":
        return Part("own", "", _attribute(value))
    if kind == "type" and value in TYPES.values():
        return Part("type", value)
    if kind == "prefix" and type(type_of(f"{_word(value)}017")) is Numbered:
        return Part("prefix", value)
    if kind == "set" and value in words:
        return Part("set", value)
    if kind == "word":
        return Part("word", _word(value) if value != [] else "")
    raise ValueError


def _read_evidence(support: Mapping[str, Any]) -> Evidence:
    """Return the evidence of a row. KeyError, TypeError or ValueError if it is invalid."""
    return Evidence(
        events=int(support["requests"]),
        users=int(support["users"]),
        days=int(support["days"]),
        first=_seconds(support["first"]),
        last=_seconds(support["last"]),
        example=_word(support["example"]),
        members=int(support["of"]),
        spread=float(str(support["spread"])),
        share=float(str(support["share"])),
        denied=int(support["denied"]),
    )


def _seconds(text: Any) -> int:
    return int(datetime.fromisoformat(text).timestamp()) if text else 0


def _attribute(value: Any) -> tuple[str, ...]:
    """Return the path of an attribute; ValueError if it is invalid."""
    if type(value) is not list or not value or value[0] not in ("claims", "user"):
        raise ValueError
    return tuple(map(_word, value))


def _word(value: Any) -> str:
    """Return `value`; raise ValueError unless it is a text of at most `LONGEST` characters."""
    if type(value) is not str or len(value) > LONGEST:
        raise ValueError
    return value
