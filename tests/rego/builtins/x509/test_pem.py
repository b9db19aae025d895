"""PEM: which text is a block, and where it ends."""

from __future__ import annotations

import pytest

from doorward.rego.builtins.x509.pem import decode, decode_all

BLOCK = "-----BEGIN A B-----\nAQID\n-----END A B-----\n"


def test_text_around_a_block_does_not_count() -> None:
    block, end = decode(f"before\n{BLOCK}after")
    assert block is not None
    assert (block.label, block.octets) == ("A B", b"\1\2\3")
    assert end == len("before\n") + len(BLOCK)


def test_every_block_is_found() -> None:
    blocks, rest = decode_all(f"{BLOCK}between\n{BLOCK}{BLOCK}rest")
    assert [block.octets for block in blocks] == [b"\1\2\3"] * 3
    assert rest == "rest"


def test_headers_and_line_ends_are_understood() -> None:
    text = "-----BEGIN K-----\r\nProc-Type: 4\r\n\r\nAQ\r\nID\r\n-----END K-----"
    block, end = decode(text)
    assert block is not None
    assert block.octets == b"\1\2\3"
    assert end == len(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "junk-----BEGIN A-----\nAQID\n-----END A-----\n",
        "-----BEGIN A-----\nAQID\n-----END B-----\n",
        "-----BEGIN A-----\nAQI\n-----END A-----\n",
        "-----BEGIN A-----\nA*ID\n-----END A-----\n",
        "-----BEGIN A-----\nAQID\n",
    ],
)
def test_what_is_no_block_is_none(text: str) -> None:
    assert decode(text)[0] is None
    assert decode_all(text)[0] == []
