"""Lines of logs, and what is learned of them, for the tests of the learner."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from doorward.learn.access import ALLOWED, LIST, Access, Subject
from doorward.learn.documents import QUERY, Claims, document_of, engine_of
from doorward.learn.gathering import Gather, Gathered
from doorward.learn.grants import Learned, learn
from doorward.learn.groups import who_text
from doorward.learn.observations import Observations
from doorward.learn.output import make_files
from doorward.learn.reading import Options
from doorward.learn.review import granted, review
from doorward.learn.templates import Limits, path_text
from doorward.rego import Query

DAY = 86_400
START = 1_800_000_000


def subject(name: str, *roles: str, **claims: str) -> Subject:
    values: dict[tuple[str, ...], tuple[str, ...]] = {("claims", "sub"): (name,)}
    values |= {("claims", claim): (value,) for claim, value in claims.items()}
    lists: frozenset[tuple[str, ...]] = frozenset()
    if roles:
        values["claims", "roles"] = tuple(sorted(roles))
        lists = frozenset({("claims", "roles")})
    return Subject(name, tuple(sorted(values.items())), lists)


def access(
    who: Subject,
    path: str,
    method: str = "GET",
    *,
    outcome: str = ALLOWED,
    day: int = 0,
    number: int = 0,
    parameters: Mapping[tuple[str, str], str] | None = None,
) -> Access:
    segments = tuple(path[1:].split("/"))
    time = START + day * DAY + number % DAY
    return Access(who, "", method, segments, outcome, time, f"d-{number:06}", parameters or {})


def observed(accesses: Iterable[Access]) -> Observations:
    observations = Observations()
    for each in accesses:
        observations.add(each)
    return observations


def learned_from(accesses: Iterable[Access], **limits: Any) -> Learned:
    return learn(observed(accesses), Limits(**limits))


def rules(learned: Learned) -> set[str]:
    """Each rule that is proposed, for people."""
    return {
        f"{each.method} {path_text(each.parts)} {who_text(each.who)}"
        for each in learned.grants
        if each.proposal == "allow"
    }


def policy_of(learned: Learned) -> Query:
    """The policy of what is proposed, with claims in the input."""
    grants, sets = granted(review(learned, []))
    claims = Claims((("claims",), ()), LIST)
    return engine_of(document_of(grants, sets, claims)).prepare(QUERY)


def asks(query: Query, who: Subject, path: str, method: str = "GET", **more: Any) -> bool:
    """The answer of a policy to a request in the form of a service that asks."""
    claims: dict[str, Any] = {}
    for attribute, values in who.values:
        claims[attribute[-1]] = list(values) if attribute in who.lists else values[0]
    segments = path[1:].split("/")
    return query.value({"method": method, "path": segments, "claims": claims, **more}) is True


def line(
    who: str, path: str, method: str = "GET", *, number: int = 0, **more: Any
) -> dict[str, Any]:
    """A line of OPA's decision log."""
    day = number % 10
    return {
        "decision_id": f"d-{number:06}",
        "path": "httpapi/authz/allow",
        "timestamp": f"2027-01-{day + 10:02}T08:00:00Z",
        "input": {
            "method": method,
            "path": path[1:].split("/"),
            "claims": {"sub": who, "roles": ["clerk"]},
        },
        "result": True,
        **more,
    }


def gathered(documents: Iterable[Any], options: Options | None = None) -> Gathered:
    return Gather(options or Options()).decide(text_of(documents).encode())


def text_of(documents: Iterable[Any]) -> str:
    return "".join([json.dumps(each) + "\n" for each in documents])


def files_of(documents: Sequence[Any], folder: Path, **limits: Any) -> Mapping[str, str]:
    return make_files(gathered(documents), Limits(**limits), folder).files
