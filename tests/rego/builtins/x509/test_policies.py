"""Policies of chains: RFC 5280, 6.1, with the updates of RFC 9618."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import pytest

from doorward.rego.builtins.x509.policies import ANY_POLICY, has_valid_policies

A, B, C = (1, 2, 3), (1, 2, 4), (1, 2, 5)


def certificate(name: str, *policies: Any, issuer: str = "", **fields: Any) -> Any:
    """A certificate with what counts here."""
    values: dict[str, Any] = {
        "policies": list(policies),
        "policy_mappings": [],
        "require_explicit_policy": None,
        "inhibit_policy_mapping": None,
        "inhibit_any_policy": None,
    }
    names = SimpleNamespace(raw=name), SimpleNamespace(raw=issuer or f"issuer of {name}")
    return SimpleNamespace(subject=names[0], issuer=names[1], **(values | fields))


ROOT = certificate("root")
EXPLICIT: Final[dict[str, Any]] = {"require_explicit_policy": 0}


@pytest.mark.parametrize(
    ("below", "valid"),
    [
        ([certificate("m"), certificate("l")], True),
        ([certificate("m", **EXPLICIT), certificate("l")], False),
        ([certificate("m", A, **EXPLICIT), certificate("l", A)], True),
        ([certificate("m", A, **EXPLICIT), certificate("l", B)], False),
        ([certificate("m", A, **EXPLICIT), certificate("l")], False),
        ([certificate("m", ANY_POLICY, **EXPLICIT), certificate("l", B)], True),
        ([certificate("m", ANY_POLICY, **EXPLICIT), certificate("l", ANY_POLICY)], True),
        ([certificate("m", A, **EXPLICIT), certificate("l", ANY_POLICY)], True),
        (
            [certificate("m", A, inhibit_any_policy=0, **EXPLICIT), certificate("l", ANY_POLICY)],
            False,
        ),
        # A self-issued certificate may have any policy, unless it is the last.
        (
            [
                certificate("m", A, inhibit_any_policy=0, **EXPLICIT),
                certificate("m", ANY_POLICY, issuer="m"),
                certificate("l", A),
            ],
            True,
        ),
        ([certificate("m", A, require_explicit_policy=2), certificate("l", B)], True),
        ([certificate("m", A, require_explicit_policy=1), certificate("l", B)], False),
        (
            [
                certificate("m", A, require_explicit_policy=1),
                certificate("n", A),
                certificate("l", B),
            ],
            False,
        ),
        ([certificate("l", require_explicit_policy=0)], False),
        ([certificate("l", require_explicit_policy=1)], True),
        ([certificate("m", A, require_explicit_policy=-1), certificate("l")], True),
        # Mappings.
        (
            [certificate("m", A, policy_mappings=[(A, B)], **EXPLICIT), certificate("l", B)],
            True,
        ),
        (
            [certificate("m", A, policy_mappings=[(A, B)], **EXPLICIT), certificate("l", A)],
            False,
        ),
        (
            [
                certificate("m", ANY_POLICY, policy_mappings=[(A, B)], **EXPLICIT),
                certificate("l", B),
            ],
            True,
        ),
        (
            [certificate("m", C, policy_mappings=[(A, B)], **EXPLICIT), certificate("l", B)],
            False,
        ),
        ([certificate("m", A, policy_mappings=[(A, ANY_POLICY)]), certificate("l", A)], False),
        (
            [
                certificate("n", A, B, inhibit_policy_mapping=0, **EXPLICIT),
                certificate("m", A, B, policy_mappings=[(A, C)]),
                certificate("l", A),
            ],
            False,
        ),
        (
            [
                certificate("n", A, B, inhibit_policy_mapping=0, **EXPLICIT),
                certificate("m", A, B, policy_mappings=[(A, C)]),
                certificate("l", B),
            ],
            True,
        ),
        # A policy from which nothing follows ends, and what leads to it with it.
        (
            [
                certificate("n", A, B, **EXPLICIT),
                certificate("m", A),
                certificate("l", B),
            ],
            False,
        ),
    ],
)
def test_chains(below: list[Any], valid: bool) -> None:
    assert has_valid_policies([*reversed(below), ROOT]) is valid


def test_a_root_alone_has_no_policies_to_check() -> None:
    assert has_valid_policies([certificate("root", require_explicit_policy=0)])
