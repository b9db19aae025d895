"""Descriptors that were passed, and what is not one."""

from __future__ import annotations

import os
import socket

import pytest

from doorward.transport.inherited import inherited_socket


def test_descriptor_of_a_socket_is_a_socket() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        inherited = inherited_socket(str(os.dup(theirs.fileno())))
        assert inherited is not None
        with inherited:
            inherited.sendall(b"x")
        assert ours.recv(1) == b"x"


@pytest.mark.parametrize("text", ["", "x", "-1", "1.0", "9" * 30, "999999", "\u0663"])
def test_what_is_not_a_descriptor(text: str) -> None:
    assert inherited_socket(text) is None


def test_file_is_not_a_socket() -> None:
    with open(os.devnull, "rb") as file:
        assert inherited_socket(str(file.fileno())) is None
