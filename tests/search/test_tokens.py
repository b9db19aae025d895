"""Tokens that candidates sign are those that policies verify, and can be read and changed."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.rego import Engine
from doorward.search.tokens import Token, read_token

POLICY = """package p

claims := payload if {
	[_, token] := split(input.token, " ")
	[verified, _, payload] := io.jwt.decode_verify(token, {"secret": "s3cret"})
	verified
}
"""


def test_a_signed_token_is_verified_with_its_secret_and_no_other() -> None:
    query = Engine({"p.rego": POLICY}).prepare("data.p.claims")
    token = Token("Bearer ", {"role": "admin"})
    assert query.value({"token": token.signed("s3cret")}) == {"role": "admin"}
    assert query.value({"token": token.signed("another")}) != {"role": "admin"}


@pytest.mark.parametrize("scheme", ["", "Bearer "])
def test_what_was_signed_is_read(scheme: str) -> None:
    token = Token(scheme, {"sub": "ünï", "n": 1})
    assert read_token(token.signed("a")) == token


@pytest.mark.parametrize("value", [None, 1, [], "", "a.b", "a.b.c", "a.!.c", "..", "a.e30"])
def test_anything_else_is_no_token(value: Any) -> None:
    assert read_token(value) is None
