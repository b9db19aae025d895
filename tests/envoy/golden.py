"""The rows that opa-envoy-plugin answered, and the committed list of what we answer otherwise.

Numbers are read with their text. A difference is a rule: which rows it is about is computed from
the row, and why is in differences.toml.
"""

from __future__ import annotations

import base64
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from envoy.service.auth.v3 import external_auth_pb2 as auth
from tests import corpora
from tests.corpora import GOLDEN

from doorward.rego.json_text import from_json

HERE = Path(__file__).parent
DECISION_ID = "0b1c2d3e-0000-4000-8000-000000000001"

Row = dict[str, Any]


def rows(name: str) -> list[Any]:
    """Test parameters, one for each row."""
    return [pytest.param(row, id=row["id"]) for row in corpora.rows(GOLDEN / name, from_json)]


def reasons() -> dict[str, str]:
    """Rule -> why we differ."""
    listed = tomllib.loads((HERE / "differences.toml").read_text())
    return {entry["rule"]: entry["reason"] for entry in listed["difference"]}


def recorded(row: Row) -> auth.CheckResponse:
    """The recorded answer, comparable."""
    return comparable(base64.b64decode(row["response"]["b64"]))


def comparable(response: bytes, decision_id: str = DECISION_ID) -> auth.CheckResponse:
    """The answer with its id as a placeholder and headers in order of their names (OPA's order
    over different names is random, and sorted in the recording)."""
    parsed = auth.CheckResponse.FromString(response)
    fields = parsed.dynamic_metadata.fields
    if parsed.HasField("dynamic_metadata") and fields["decision_id"].string_value == decision_id:
        fields["decision_id"].string_value = "DECISION-ID"
    for headers in (
        parsed.ok_response.headers if parsed.HasField("ok_response") else [],
        parsed.denied_response.headers if parsed.HasField("denied_response") else [],
    ):
        ordered = sorted(headers, key=lambda option: option.header.key)
        copies = [type(option).FromString(option.SerializeToString()) for option in ordered]
        for option, copy in zip(headers, copies, strict=True):
            option.CopyFrom(copy)
    return parsed


def shown(value: object) -> str:
    return json.dumps(value, indent=1, sort_keys=True, default=str)
