"""Grants become the data of the policy: `data.json`, and nothing else.

A value of a log is only ever a JSON value here. The policy itself is a file of this package, the
same for every log.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, Final

from doorward.base.records import record
from doorward.learn.access import ENVOY, LIST, Attribute, Location
from doorward.learn.grants import Grant
from doorward.learn.groups import Condition
from doorward.learn.templates import Part, Values
from doorward.rego import Engine

__all__ = [
    "POLICY",
    "POLICY_TEST",
    "QUERY",
    "Claims",
    "document_of",
    "engine_of",
    "identifier_of",
    "to_text",
]

QUERY: Final = "data.learned.authz.allow"
_FOLDER: Final = files("doorward.learn") / "policies"
POLICY: Final = (_FOLDER / "policy.rego").read_text(encoding="utf-8")
POLICY_TEST: Final = (_FOLDER / "policy_test.rego").read_text(encoding="utf-8")

WORDS: Final = frozenset({"scope", "scp"})
"""Claims that hold several values in one text, separated by spaces."""
_EXAMPLES: Final = {
    "int": "17",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "date": "2020-01-31",
    "hex": "0123456789abcdef",
    "padded": "017",
    "ulid": "01HZZZZZZZZZZZZZZZZZZZZZZZ",
}
_MEMBER: Final = "a-member"
_OTHER: Final = "another-value"


def identifier_of(grant: Grant, sets: Mapping[str, Values]) -> str:
    """Return an identifier of a grant that is the same in every run: 12 hexadecimal digits of a
    digest of its host, method, template and group. A set counts by its source, not by its words,
    which may differ.
    """
    parts = [
        [part.kind, sets[part.value].source if part.kind == "set" else part.value, part.attribute]
        for part in grant.parts
    ]
    text = json.dumps([grant.host, grant.method, parts, grant.who])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def to_text(document: Any) -> str:
    """JSON for a file: sorted, in ASCII, a line for each value, so that changes can be read."""
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=True) + "\n"


@record
class Claims:
    """Where the claims of a subject are: in a token, or at paths of the input; which claims may be
    numbers; and the form of the subject's requests.
    """

    location: Location
    form: str = ENVOY
    scalars: frozenset[Attribute] = frozenset()

    @property
    def are_of_token(self) -> bool:
        return not self.location

    @property
    def root(self) -> tuple[str, ...]:
        """The path of the claims in the input of a test; `("claims",)` if they are of a token or
        have no path.
        """
        return (self.location[0] if self.location else ()) or ("claims",)

    def path(self, attribute: Attribute) -> list[str]:
        """Return the path of an attribute below the claims; [] for the name of the user, which is
        not a claim.
        """
        return list(attribute[1:])

    def location_of(self, attribute: Attribute) -> tuple[str, ...]:
        """Return the path of an attribute from the root of the input of a test, in which the claims
        of a token stand under `claims`. For the user's name, which is not a claim, the path at
        which the input has it.
        """
        return (*self.root, *attribute[1:]) if attribute[0] == "claims" else self.location[1]

    def document(self) -> dict[str, Any]:
        """Return the part of the data that describes where the claims are: `from` (`token` or
        `input`), and the paths `claims`, `user` and `scalars`.
        """
        scalars = [self.path(each) for each in sorted(self.scalars) if each[0] == "claims"]
        if self.are_of_token:
            return {"from": "token", "claims": [], "user": [], "scalars": scalars}
        claims, user = self.location
        return {"from": "input", "claims": [*claims], "user": [*user], "scalars": scalars}


def document_of(
    grants: Mapping[str, Grant], sets: Mapping[str, Values], claims: Claims
) -> dict[str, Any]:
    """Return the data of the learned policy for grants by their identifiers."""
    used = sorted({p.value for grant in grants.values() for p in grant.parts if p.kind == "set"})
    rules = {identifier: _rule(identifier, grant, claims) for identifier, grant in grants.items()}
    routes: dict[str, Any] = {}
    for identifier in sorted(rules):
        grant = grants[identifier]
        by_method = routes.setdefault(grant.host, {}).setdefault(grant.method, {})
        by_method.setdefault(str(len(grant.parts)), []).append(rules[identifier])
    learned = {
        "version": 1,
        "form": claims.form,
        "subject": claims.document(),
        "sets": {name: dict.fromkeys(sets[name].words, True) for name in used},
        "routes": routes,
    }
    learned["tests"] = _tests(grants, learned, claims)
    document: dict[str, Any] = {"learned": learned}
    if not claims.are_of_token:
        # There are no tokens to verify; a proof needs to know it.
        document["token"] = {}
    return document


def engine_of(document: Mapping[str, Any]) -> Engine:
    """Return an engine with the learned policy and this data."""
    return Engine({"policy.rego": POLICY}, dict(document))


def _rule(identifier: str, grant: Grant, claims: Claims) -> dict[str, Any]:
    """Return one rule of the data: its identifier, path, the conditions on a subject (`who`), the
    permitted query parameters, and the fields that must have a value of the subject (`owned`).
    """
    return {
        "id": identifier,
        "path": [_part(each, claims) for each in grant.parts],
        "who": [[_condition(each, grant, claims) for each in grant.who]],
        "query": list(grant.query),
        "owned": [
            {"in": part, "name": name, "claim": claims.path(attribute)}
            for (part, name), attribute in grant.owned
        ],
    }


def _part(part: Part, claims: Claims) -> dict[str, Any]:
    return {"claim": claims.path(part.attribute)} if part.kind == "own" else {part.kind: part.value}


def _condition(condition: Condition, grant: Grant, claims: Claims) -> dict[str, Any]:
    """Return a condition on a claim as the data have it: `{"claim": PATH, "value": …, "is": …}`,
    where `is` is `text`, `list` or `words`.
    """
    kind = "text"
    if condition.attribute in grant.lists:
        kind = "words" if condition.attribute[-1] in WORDS else "list"
    return {"claim": claims.path(condition.attribute), "value": condition.value, "is": kind}


# Tests.


def _tests(
    grants: Mapping[str, Grant], learned: Mapping[str, Any], claims: Claims
) -> dict[str, Any]:
    """Return the tests for data.json: for each rule a request that it allows (`allowed`), and, if
    one is found, a similar one that no rule allows (`denied`); the `sets` for them, and the names
    in the input that belong to the subject (`identity`).
    """
    sets = {name: {_MEMBER: True} for name in learned["sets"]}
    # Claims are in the input of a test, also where the policy has them from a token.
    subject = {**claims.document(), "from": "input", "claims": list(claims.root)}
    # With the sets of the tests, since it is by those that `policy_test.rego` decides.
    query = engine_of({"learned": {**learned, "subject": subject, "sets": sets}}).prepare(QUERY)
    allowed, denied = [], []
    for identifier in sorted(grants):
        request = _allowed_request(grants[identifier], claims)
        allowed.append({"rule": identifier, "input": request})
        for each in _near(grants[identifier], request, claims):
            if query.value(each) is False:
                denied.append({"rule": identifier, "input": each})
                break
    identity = sorted({claims.root[0], *(path[0] for path in claims.location[1:] if path)})
    return {"allowed": allowed, "denied": denied, "sets": sets, "identity": identity}


def _allowed_request(grant: Grant, claims: Claims) -> dict[str, Any]:
    """Return an input for a test of the policy: a request that the grant allows, with the sets of
    the tests. The subject has what the grant demands; attributes with any value are `subject-1`.
    """
    request: dict[str, Any] = {}
    _put(request, claims, ("claims", "sub"), "subject-1")
    if claims.location and claims.location[1]:
        _put(request, claims, ("user",), "subject-1")
    for condition in grant.who:
        value: Any = condition.value
        if condition.attribute in grant.lists and condition.attribute[-1] not in WORDS:
            value = [value]
        _put(request, claims, condition.attribute, value)
    owned = [part.attribute for part in grant.parts if part.kind == "own"]
    for attribute in [*owned, *(attribute for _, attribute in grant.owned)]:
        if _get(request, claims, attribute) is None:
            _put(request, claims, attribute, "subject-1")
    path = [_example_segment(part, request, claims) for part in grant.parts]
    request |= _http(grant, claims, path)
    for (part, name), attribute in grant.owned:
        value = _get(request, claims, attribute)
        if part == "query":
            request["parsed_query"][name] = [value]
        else:
            request["parsed_body"][name] = value
    return request


def _example_segment(part: Part, request: Mapping[str, Any], claims: Claims) -> str:
    """Return a segment of a path that matches a part of a template: for `own` the attribute of the
    subject in `request`, for a set the one word that it has in the tests.
    """
    if part.kind == "own":
        return str(_get(request, claims, part.attribute))
    if part.kind == "type":
        return _EXAMPLES[part.value]
    if part.kind == "prefix":
        return f"{part.value}017"
    return _MEMBER if part.kind == "set" else part.value


def _http(grant: Grant, claims: Claims, path: list[str]) -> dict[str, Any]:
    """Return the HTTP part of an input for a path, in the form of the log: `attributes` of Envoy,
    with a test token as `authorization` header, and `parsed_path`; or `method` and `path`. In each,
    `parsed_query` and `parsed_body` are empty.
    """
    more: dict[str, Any] = {"parsed_query": {}, "parsed_body": {}}
    if claims.form != ENVOY:
        written: Any = path if claims.form == LIST else "/" + "/".join(path)
        return {"method": grant.method, "path": written, **more}
    http: dict[str, Any] = {
        "method": grant.method,
        "path": "/" + "/".join(path),
        "headers": {"authorization": "Bearer test"},
    }
    if grant.host:
        http["host"] = grant.host
    return {"attributes": {"request": {"http": http}}, "parsed_path": path, **more}


def _near(grant: Grant, request: dict[str, Any], claims: Claims) -> Iterable[dict[str, Any]]:
    """Return inputs for tests that should be denied, unless another rule allows them: a request of
    a grant with one difference, such as another owner, subject or word, or a longer path. The most
    telling differences come first.
    """
    path = [_example_segment(part, request, claims) for part in grant.parts]
    order = {"own": 0, "set": 2, "type": 3, "prefix": 3, "word": 4}
    changes: list[tuple[int, dict[str, Any]]] = []
    for position, part in enumerate(grant.parts):
        other = [*path[:position], _OTHER, *path[position + 1 :]]
        changes.append((order[part.kind], {**request, **_http(grant, claims, other)}))
    if grant.who:
        nobody = json.loads(json.dumps(request))
        for condition in grant.who:
            _put(nobody, claims, condition.attribute, "another-value")
        changes.append((1, nobody))
    changes.append((5, {**request, **_http(grant, claims, [*path, _OTHER])}))
    return [change for _, change in sorted(changes, key=lambda each: each[0])]


def _put(request: dict[str, Any], claims: Claims, attribute: Attribute, value: Any) -> None:
    """Set an attribute of the subject in an input, in place. A list is appended to a list that is
    there; otherwise the value replaces what is there.
    """
    inner: dict[str, Any] = request
    *above, last = claims.location_of(attribute)
    for name in above:
        inner = inner.setdefault(name, {})
    known = inner.get(last)
    is_second = type(known) is list and type(value) is list
    inner[last] = [*known, *value] if is_second and known is not None else value


def _get(request: Mapping[str, Any], claims: Claims, attribute: Attribute) -> Any:
    """Return an attribute of the subject in an input; None if it is absent."""
    value: Any = request
    for name in claims.location_of(attribute):
        value = value.get(name) if isinstance(value, dict) else None
    return value
