"""The measured decisions: policy, data, input, query and the answer that is right.

A policy is a file in `policies/`, or the example's own; data and input are made here, so that a
reader sees their size.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import baselines
from benchmarks.access import attributes, exchange, graph, rbac
from benchmarks.admission import docker, kubernetes
from benchmarks.case import Case, policy, signed_token

__all__ = ["CASES", "Case", "checkrequest_input", "lookup", "signed_token"]

EXAMPLE = Path(__file__).resolve().parent.parent / "examples/people/policy.rego"
SECRET = "a secret that only the benchmark knows"
RULES = 10_000


def checkrequest_input(token: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """What a policy sees of a POST that Envoy asks about: every attribute that Envoy fills in."""
    text = json.dumps(body, separators=(",", ":"))
    headers = {
        ":authority": "127.0.0.1:18000",
        ":method": "POST",
        ":path": "/people",
        ":scheme": "http",
        "accept": "*/*",
        "authorization": f"Bearer {token}",
        "content-length": str(len(text)),
        "content-type": "application/json",
        "user-agent": "curl/7.88.1",
        "x-envoy-auth-partial-body": "false",
        "x-forwarded-proto": "http",
        "x-request-id": "f011920e-24c5-4b9d-adb5-746fe38c85ab",
    }
    http = {
        "id": "7841960863415274046",
        "method": "POST",
        "headers": headers,
        "path": "/people",
        "host": "127.0.0.1:18000",
        "scheme": "http",
        "size": len(text),
        "protocol": "HTTP/1.1",
        "body": text,
    }
    return {
        "attributes": {
            "source": {"address": {"socketAddress": {"address": "127.0.0.1", "portValue": 41326}}},
            "destination": {
                "address": {"socketAddress": {"address": "127.0.0.1", "portValue": 18000}}
            },
            "request": {"time": {"seconds": int(time.time()), "nanos": 216003000}, "http": http},
            "metadataContext": {},
            "routeMetadataContext": {},
        },
        "parsed_path": ["people"],
        "parsed_query": {},
        "parsed_body": dict(body),
        "truncated_body": False,
        "version": {"encoding": "protojson", "ext_authz": "v3"},
    }


def people() -> Case:
    now = int(time.time())
    subject = base64.urlsafe_b64encode(b"alice").rstrip(b"=").decode()
    claims = {"nbf": now - 3600, "exp": now + 86400, "role": "admin", "sub": subject}
    return Case(
        name="people",
        source=EXAMPLE.read_text(),
        query="data.envoy.authz.allow",
        data={"secrets": {"jwt": SECRET}},
        input=checkrequest_input(
            signed_token(claims, SECRET), {"firstname": "Bob", "lastname": "Rego"}
        ),
        expected=True,
        baselines={"by hand": baselines.people, "by hand, token cached": baselines.people_cached},
        has_token=True,
    )


def lookup(rules: int = RULES) -> Case:
    """So many rules that test one constant each."""
    key = f"{rules * 777 // 1000:05}"
    lines = policy("lookup").splitlines(keepends=True)
    one = next(line for line in lines if line.startswith("service :="))
    table = "".join(one.replace("00000", f"{each:05}") for each in range(rules))
    return Case(
        name="lookup",
        source="".join(line for line in lines if line is not one) + table,
        query="data.lookup.service",
        data={"rules": rules},
        input={"method": "GET", "host": f"host-{key}", "port": 443},
        expected=f"service-{key}",
        baselines={"by hand": baselines.lookup},
        too_much_for_regopy="" if rules <= 1_000 else "not built within two minutes",
    )


def iteration() -> Case:
    containers = [
        {
            "name": f"container-{n}",
            "image": f"registry.internal/team/app-{n}:1.{n}",
            "privileged": False,
            "volumes": [{"path": f"/srv/{n}"}, {"path": "/tmp"}],
        }
        for n in range(30)
    ]
    return Case(
        name="iteration",
        source=policy("iteration"),
        query="data.iteration.allow",
        data={},
        input={"containers": containers},
        expected=True,
        baselines={"by hand": baselines.iteration},
    )


def text() -> Case:
    return Case(
        name="text",
        source=policy("text"),
        query="data.text.allow",
        data={},
        input={
            "path": "/v1/tenants/Acme-Corp/reports/2026/11",
            "host": "ACME-corp.example.com",
            "agent": "billing/2.4 (linux)",
            "request_id": "f011920e-24c5-4b9d-adb5-746fe38c85ab",
            "tag": "ACME-CORP-f011920e",
        },
        expected=True,
        baselines={"by hand": baselines.text},
    )


CASES = {
    case.__name__: case
    for case in (
        people,
        docker,
        rbac,
        attributes,
        kubernetes,
        lookup,
        graph,
        exchange,
        iteration,
        text,
    )
}
