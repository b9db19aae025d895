"""Ports are chosen free, and a taken one is explained."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import astuple

import pytest

from acceptance import ports
from acceptance.ports import Ports, PortTaken, choose_ports, find_owner, is_free


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_taken_port_is_not_free_and_has_an_owner(taken: int) -> None:
    assert not is_free(taken)
    assert find_owner(taken).endswith(f"(process {os.getpid()})")


def test_taken_default_ports_are_named_with_their_owner(
    taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "is_free", lambda port: port != 8080)
    monkeypatch.setattr(ports, "find_owner", lambda _port: "nginx (process 7)")
    with pytest.raises(PortTaken, match=r"port 8080 is taken by nginx \(process 7\)"):
        choose_ports(None)


def test_other_ports_are_the_first_free_ones_from_the_base(taken: int) -> None:
    chosen = astuple(choose_ports(taken))
    assert taken not in chosen
    assert min(chosen) > taken
    assert len(set(chosen)) == 3


def test_there_may_be_no_ports_left() -> None:
    with pytest.raises(PortTaken, match="no three free ports from 65534 on"):
        choose_ports(65534)


def test_the_system_chooses_when_asked() -> None:
    assert len(set(astuple(choose_ports(0)))) == 3
    assert choose_ports(0) != Ports()
