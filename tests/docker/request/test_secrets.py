"""Credentials in requests are masked, and the rest of an address is left as it was written."""

from __future__ import annotations

import pytest

from doorward.docker.request.secrets import mask_address, mask_body

ADDRESSES = [
    ("nfs://user:pw@host/x", "nfs://***@host/x"),
    ("user:pw@host", "***@host"),
    ("https://host/x", "https://host/x"),
    ("registry/app:1@sha256:00", "registry/app:1@sha256:00"),
]


@pytest.mark.parametrize(("text", "masked"), ADDRESSES)
def test_an_address_keeps_all_but_its_password(text: str, masked: str) -> None:
    assert mask_address(text) == masked


@pytest.mark.parametrize(("text", "masked"), ADDRESSES)
def test_options_of_drivers_are_masked_as_addresses_are(text: str, masked: str) -> None:
    volume = mask_body("volume.create", {"DriverOpts": {"device": text, "token": "t"}}, env=True)
    assert volume == {"DriverOpts": {"device": masked, "token": "***"}}
    network = mask_body("network.create", {"Options": {"parent": text}}, env=True)
    assert network == {"Options": {"parent": masked}}


def test_passwords_in_lists_of_options_are_masked() -> None:
    options = {"DriverOpts": {"o": "username=a,password=b,vers=3"}}
    masked = mask_body("volume.create", options, env=True)
    assert masked == {"DriverOpts": {"o": "username=a,password=***,vers=3"}}
