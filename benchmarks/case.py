"""What a measured decision is, and how its parts are made: policies from files, tokens."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Case", "policy", "signed_token"]

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Case:
    """One decision; `baselines` are the same logic by hand: label -> function of the data."""

    name: str
    source: str
    query: str
    data: Mapping[str, Any]
    input: Any
    expected: object
    baselines: Mapping[str, Any] = field(default_factory=dict)
    has_token: bool = False
    too_much_for_regopy: str = ""
    """Why regopy is not asked at all; "" where it is."""


def policy(name: str) -> str:
    return (HERE / "policies" / f"{name}.rego").read_text()


def signed_token(claims: Mapping[str, Any], secret: str) -> str:
    """An HS256 token, made with the standard library alone."""
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in ({"alg": "HS256", "typ": "JWT"}, claims)
    ]
    signature = hmac.digest(secret.encode(), b".".join(parts), "sha256")
    return b".".join([*parts, base64.urlsafe_b64encode(signature).rstrip(b"=")]).decode()
