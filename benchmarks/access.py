"""Measured questions of access: roles, attributes, groups within groups, exchange of tokens."""

from __future__ import annotations

import time
from random import Random
from typing import Any

from benchmarks import baselines
from benchmarks.case import Case, policy, signed_token

__all__ = ["attributes", "exchange", "graph", "rbac"]

ROLES = 1_000
BINDINGS = 10_000
EDGES = 5_000
SECRET = "another secret of the benchmark"


def rbac(bindings: int = BINDINGS) -> Case:
    """A thousand roles, and so many users who have four of them each."""
    kinds = ["doc", "dataset", "job", "secret", "user"]
    roles = {
        f"role{n}": [{"action": action, "type": kinds[n % 5]} for action in ("read", "list", "use")]
        for n in range(ROLES)
    }
    bound = {f"user{n}": [f"role{(n + k) % ROLES}" for k in range(4)] for n in range(bindings)}
    return Case(
        name="rbac",
        source=policy("rbac"),
        query="data.rbac.allow",
        data={"roles": roles, "bindings": bound},
        input={"user": "user17", "action": "use", "type": "doc"},
        expected=True,
        baselines={"by hand": baselines.rbac},
    )


def attributes() -> Case:
    def statement(number: int) -> dict[str, Any]:
        return {
            "effect": "deny" if number % 7 == 6 else "permit",
            "actions": ["read", "list"] if number % 3 else ["write", "delete"],
            "conditions": [
                {
                    "operator": "equal",
                    "document": "resource",
                    "attribute": "project",
                    "value": f"project-{number % 20}",
                },
                {
                    "operator": "any",
                    "document": "subject",
                    "attribute": "groups",
                    "values": [f"group-{number % 10}", f"group-{number % 15}"],
                },
                {
                    "operator": "at_least",
                    "document": "subject",
                    "attribute": "clearance",
                    "value": number % 4,
                },
            ],
        }

    policies = [
        {"enabled": bool(n % 5), "statements": [statement(n * 4 + k) for k in range(4)]}
        for n in range(25)
    ]
    return Case(
        name="attributes",
        source=policy("attributes"),
        query="data.attributes.allow",
        data={"policies": policies},
        input={
            "action": "read",
            "subject": {"groups": ["group-1", "group-3", "group-5"], "clearance": 3},
            "resource": {"project": "project-5"},
        },
        expected=True,
    )


def graph() -> Case:
    r = Random(5)
    edges: dict[str, list[str]] = {f"group-{n}": [] for n in range(1_000)}
    for n in range(EDGES):
        edges[f"group-{n % 1_000}"].append(f"group-{r.randrange(1_000)}")
    return Case(
        name="graph",
        source=policy("graph"),
        query="data.graph.allow",
        data={"edges": edges},
        input={"group": "group-0", "target": "group-999"},
        expected=True,
    )


def exchange() -> Case:
    now = int(time.time())
    claims = {
        "sub": "alice",
        "aud": "exchange",
        "nbf": now - 60,
        "exp": now + 86400,
        "scope": "orders:read orders:write people:read reports:*",
    }
    return Case(
        name="exchange",
        source=policy("exchange"),
        query="data.exchange.grant",
        data={"secret": SECRET, "audience": "exchange", "domain": "services.example"},
        input={
            "headers": {"authorization": f"Bearer {signed_token(claims, SECRET)}"},
            "form": {
                "scope": "people:read orders:read  admin:all",
                "client_id": "SVC-Billing@clients",
            },
            "now": now,
        },
        expected={
            "sub": "ALICE|svc-billing",
            "aud": "https://billing.services.example/",
            "scope": "orders:read people:read",
            "act": {"sub": "YWxpY2U"},
            "exp": now + 300,
        },
        has_token=True,
    )
