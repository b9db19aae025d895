"""A second generator: another service, other ids, claims, logs and attacks than the benchmark's.

A clinic. Ids are `P00017`, `ORD-000123`, ULIDs and UUIDs; roles are in `realm_access.roles`, wards
and patients in claims of their own; an API has a version in its paths, pages a slash at the end.
"""

from __future__ import annotations

import json
import random
import re
import time
import uuid
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.learn.logs import gathered

from doorward.learn.documents import POLICY
from doorward.learn.output import make_files
from doorward.learn.templates import Limits
from doorward.rego import Engine

WARDS = ["icu", "surgery", "cardio", "maternity", "er", "onco", "neuro"]
DRUGS = [
    *("aspirin", "ibuprofen", "morphine", "insulin", "heparin", "warfarin", "amoxicillin"),
    *("metformin", "losartan", "albuterol", "gabapentin", "sertraline", "prednisone"),
    *("omeprazole", "atorvastatin"),
]
REPORTS = [f"2027-W{week:02}.pdf" for week in range(1, 30)]
BASE32 = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
EVENTS = 8_000


class User(NamedTuple):
    """Somebody of the clinic; `weight`: how much of the traffic is theirs."""

    name: str
    role: str
    weight: int
    ward: str = ""
    patient: str = ""


class Request(NamedTuple):
    """Who asks for what."""

    user: User
    method: str
    path: str


USERS = [
    *[User(f"Nurse.{n}", "NURSE", 3, WARDS[n % 7]) for n in range(40)],
    *[User(f"dr-{n}", "DOCTOR", 4, WARDS[n % 7]) for n in range(15)],
    *[User(f"bill{n}", "BILLING", 3) for n in range(6)],
    *[User(f"aud{n}", "AUDITOR", 2) for n in range(3)],
    *[User(f"root{n}", "ADMIN", 2) for n in range(2)],
    *[User(f"pat{n}", "PATIENT", 1, "", f"P{n:05}") for n in range(60)],
]
BY_ROLE = {role: [each for each in USERS if each.role == role] for role in {u.role for u in USERS}}
RULES = {
    # role: method, path with what may vary in braces
    "NURSE": ["GET /api/v2/wards/{ward}/beds/{bed}", "PUT /api/v2/wards/{ward}/beds/{bed}",
              "GET /api/v2/patients/{patient}/vitals", "POST /api/v2/patients/{patient}/vitals"],
    "DOCTOR": ["GET /api/v2/patients/{patient}/records/{uuid}",
               "PUT /api/v2/patients/{patient}/records/{uuid}",
               "GET /api/v2/patients/{patient}/vitals", "POST /api/v2/prescriptions/{drug}",
               "GET /api/v2/wards/{ward}/beds/{bed}"],
    "BILLING": ["GET /api/v2/invoices/{ulid}", "GET /api/v2/orders/{order}",
                "POST /api/v2/invoices"],
    "AUDITOR": ["GET /reports/{report}", "GET /api/v2/invoices/{ulid}"],
    "ADMIN": ["DELETE /api/v2/patients/{patient}", "POST /api/v2/admin/export"],
    "PATIENT": ["GET /api/v2/patients/{own}", "GET /api/v2/patients/{own}/records/{uuid}"],
    "": ["GET /api/v2/me", "GET /{locale}/help/"],
}  # fmt: skip
PATTERNS = {
    "bed": r"\d+", "patient": r"P\d{5}", "uuid": UUID, "drug": "|".join(DRUGS),
    "ulid": "[0-9A-Z]{26}", "order": r"ORD-\d{6}", "report": r"\d{4}-W\d\d\.pdf",
    "locale": "en|de|fr",
}  # fmt: skip


def fill(rng: random.Random, template: str, user: User) -> str:
    """A path of a template for a user."""
    values = {
        "ward": user.ward,
        "own": user.patient,
        "bed": str(rng.randrange(1, 40)),
        "patient": f"P{rng.randrange(300):05}",
        "uuid": str(uuid.UUID(int=rng.getrandbits(128), version=4)),
        "drug": rng.choice(DRUGS),
        "ulid": "01H" + "".join([rng.choice(BASE32) for _ in range(23)]),
        "order": f"ORD-{rng.randrange(10**6):06}",
        "report": rng.choice(REPORTS),
        "locale": rng.choice(["en", "de", "fr"]),
    }
    return template.format(**values)


def legitimate(rng: random.Random) -> Request:
    user = rng.choices(USERS, [each.weight for each in USERS])[0]
    method, template = rng.choice([*RULES[user.role], *RULES[""]]).split()
    return Request(user, method, fill(rng, template, user))


def is_right(request: Request) -> bool:
    """The true policy."""
    user = request.user
    for rule in [*RULES[user.role], *RULES[""]]:
        method, template = rule.split()
        values = {name: f"({pattern})" for name, pattern in PATTERNS.items()}
        values |= {"ward": user.ward or "-", "own": user.patient or "-"}
        if method == request.method and re.fullmatch(template.format(**values), request.path):
            return True
    return False


def attack(rng: random.Random) -> Request:
    """Another's record or ward, a stolen account, a scan, a role that creeps."""
    nurse, patient = rng.choice(BY_ROLE["NURSE"]), rng.choice(BY_ROLE["PATIENT"])
    ward = rng.choice([each for each in WARDS if each != nurse.ward])
    return rng.choice(
        [
            Request(patient, "GET", fill(rng, "/api/v2/patients/{patient}/records/{uuid}", nurse)),
            Request(nurse, "GET", f"/api/v2/wards/{ward}/beds/{rng.randrange(1, 40)}"),
            Request(USERS[3], "DELETE", f"/api/v2/patients/P{rng.randrange(300):05}"),
            Request(USERS[61], "GET", f"/backup{rng.randrange(99)}.zip"),
            Request(USERS[44], "POST", "/api/v2/admin/export"),
            Request(USERS[62], "GET", f"/reports/{rng.choice(REPORTS)}"),
        ]
    )


def claims(user: User) -> dict[str, Any]:
    more = {name: value for name, value in user._asdict().items() if value and name != "weight"}
    del more["role"], more["name"]
    return {"sub": user.name, "realm_access": {"roles": [user.role]}, "iat": 1, **more}


def line_of(form: str, number: int, request: Request) -> dict[str, Any]:
    seconds = 1_800_000_000 + number * 14 * 86_400 // EVENTS
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    segments = request.path[1:].split("/")
    common = {"decision_id": f"x{number}", "path": "clinic/allow", "timestamp": moment}
    if form == "access":
        return {
            "start_time": moment, "method": request.method, "path": request.path,
            "response_code": 200, "authority": "clinic.example", "request_id": f"r{number}",
            "claims": claims(request.user),
        }  # fmt: skip
    if form == "list":
        token = {"payload": claims(request.user)}
        input: dict[str, Any] = {"method": request.method, "path": segments, "token": token}
        return {**common, "input": input, "result": True}
    http = {"method": request.method, "path": request.path, "host": "clinic.example:8443"}
    metadata = {"filterMetadata": {"envoy.filters.http.jwt_authn": claims(request.user)}}
    attributes = {"request": {"http": http}, "metadataContext": metadata}
    input = {"attributes": attributes, "parsed_path": segments, "parsed_query": {}}
    return {**common, "input": input, "result": {"allowed": True}}


class Learned:
    """Who may do what, by the files that were written."""

    def __init__(self, data: dict[str, Any]) -> None:
        learned = data["learned"]
        learned["form"] = "list"
        learned["subject"] |= {"from": "input", "claims": ["claims"], "user": []}
        learned["routes"] = {"": next(iter(learned["routes"].values()))}
        policy = Engine({"p.rego": POLICY}, {**data, "token": {}})
        self._query = policy.prepare("data.learned.authz.allow")

    def allows(self, request: Request) -> bool:
        input: dict[str, Any] = {
            "method": request.method,
            "path": request.path[1:].split("/"),
            "claims": claims(request.user),
        }
        return self._query.value(input) is True


@pytest.mark.long
@pytest.mark.parametrize("form", ["list", "envoy", "access"])
def test_the_learner_does_not_know_this_service(tmp_path: Path, form: str) -> None:
    rng = random.Random(f"clinic {form}")
    requests = [attack(rng) if rng.random() < 0.01 else legitimate(rng) for _ in range(EVENTS)]
    lines = [line_of(form, number, each) for number, each in enumerate(requests)]
    files = make_files(gathered(lines), Limits(), tmp_path).files
    learned = Learned(json.loads(files["data.json"]))
    held_out = [legitimate(rng) for _ in range(1_500)]
    assert sum(map(learned.allows, held_out)) >= 0.97 * len(held_out)
    for _ in range(4_000):
        request = legitimate(rng)
        if rng.random() < 0.7:  # another subject, method or segment
            segments = request.path.split("/")
            segments[rng.randrange(1, len(segments))] = rng.choice(
                [*WARDS, "export", "7", "P00017", "admin", rng.choice(DRUGS)]
            )
            method = rng.choice(["GET", "PUT", "POST", "DELETE", request.method])
            path = rng.choice([request.path, "/".join(segments)])
            request = Request(rng.choice(USERS), method, path)
        assert is_right(request) or not learned.allows(request), request
    assert not [each for each in requests if learned.allows(each) and not is_right(each)]
