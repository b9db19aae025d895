"""Digests, against the published test vectors and on bytes that are no text."""

from __future__ import annotations

import pytest

from doorward.rego.builtins import REGISTRY


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("crypto.md5", "900150983cd24fb0d6963f7d28e17f72"),
        ("crypto.sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        ("crypto.sha256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    ],
)
def test_digests_of_abc(name: str, digest: str) -> None:
    assert REGISTRY[name].call("abc") == digest


def test_a_digest_of_bytes_that_are_no_text() -> None:
    octets = REGISTRY["hex.decode"].call("ff")
    assert REGISTRY["crypto.md5"].call(octets) == "00594fd4f42ba43fc1ca0427a0576295"


def test_codes_of_rfc_2202_and_4231() -> None:
    key, text = "Jefe", "what do ya want for nothing?"
    codes = {name: REGISTRY[f"crypto.hmac.{name}"].call(text, key) for name in _CODES}
    assert codes == _CODES
    assert REGISTRY["crypto.hmac.equal"].call(codes["md5"], _CODES["md5"]) is True
    assert REGISTRY["crypto.hmac.equal"].call(codes["md5"], codes["sha1"]) is False


_CODES = {
    "md5": "750c783e6ab0b503eaa86e310a5db738",
    "sha1": "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
    "sha256": "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
    "sha512": (
        "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65"
        "f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737"
    ),
}
