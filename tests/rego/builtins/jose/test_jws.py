"""Signatures: what the algorithms compute is what the standard library computes."""

from __future__ import annotations

import hmac

import pytest

from doorward.rego.builtins.jose.jws import ALGORITHMS


@pytest.mark.parametrize("size", [256, 384, 512])
def test_hmac_is_that_of_the_standard_library(size: int) -> None:
    algorithm = ALGORITHMS[f"HS{size}"]
    for length in (0, 1, 31, 63, 64, 65, 127, 128, 129, 300):
        key = bytes(range(256)) * 2
        key = key[:length]
        for signed in (b"", b"header.payload", bytes(1000)):
            code = hmac.digest(key, signed, f"sha{size}")
            assert algorithm.sign(key, signed) == code
            assert algorithm.verify(key, signed, code)
            assert not algorithm.verify(key, signed + b"x", code)
            assert not algorithm.verify(key + b"x", signed, code)
            assert not algorithm.verify(key, signed, code[:-1])


def test_a_key_of_another_kind_verifies_nothing() -> None:
    assert not ALGORITHMS["HS256"].verify(
        "secret", b"text", hmac.digest(b"secret", b"text", "sha256")
    )
