"""The sockets that a service manager hands over."""

from __future__ import annotations

import os

import pytest

from doorward.docker.proxy.service import ProxyOptions, open_listeners
from doorward.docker.server import BindError


@pytest.mark.parametrize("count", ["x", "", "2", "-1", "9" * 30])
def test_number_of_sockets_that_is_not_that_of_their_names_is_an_error(
    count: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    monkeypatch.setenv("LISTEN_FDS", count)
    monkeypatch.setenv("LISTEN_FDNAMES", "shared")
    with pytest.raises(BindError, match="FileDescriptorName of its own"):
        open_listeners(ProxyOptions("/run/docker.sock"))
