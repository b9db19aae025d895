"""Credentials are found by the names beside them, also in texts that are encoded a few times."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from doorward.rego.credentials import assigns_credential, mentions_credential


def encoded(text: str, times: int) -> str:
    first = "".join(f"%{ord(char):02x}" for char in text)
    for _ in range(times - 1):
        first = quote(first)
    return first if times else text


@pytest.mark.parametrize("times", [0, 1, 3])
def test_a_name_is_found_in_an_encoded_text(times: int) -> None:
    assert mentions_credential(encoded("password: hunter2", times))
    assert assigns_credential(encoded("api_key=abcdefgh", times))


def test_what_is_encoded_more_often_is_not_decoded_without_end() -> None:
    assert not mentions_credential(encoded("password: hunter2", 4))
    assert not assigns_credential(encoded("api_key=abcdefgh", 4))
