"""What a decision point says to who sends a token."""

from __future__ import annotations

from doorward.pdp import DecisionPoint

__all__ = ["allows"]


def allows(point: DecisionPoint, token: str) -> bool:
    """Whether `data.envoy.authz.allow` lets a request with this bearer token through."""
    http = {"headers": {"authorization": f"Bearer {token}"}}
    document = {"attributes": {"request": {"http": http}}}
    return point.decide_now("envoy/authz/allow", document).allowed
