"""Bodies up to the size that a daemon shows take bounded time and memory, whatever they hold."""

from __future__ import annotations

import base64
import json
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.docker.pack import pack_pdp
from tests.waiting import PATIENCE, wait_until

from doorward.docker.plugin import Plugin, Response
from doorward.docker.request.model.readers import MOST_ITEMS
from doorward.docker.server import (
    BODY_BUDGET,
    LONG,
    LONG_THREADS,
    LONG_WAITING,
    PluginServer,
    bind_unix,
)
from doorward.docker.unix_http import UnixConnection

pytestmark = pytest.mark.system

HUNDRED_THOUSAND = 100_000
TEXTS = [f"{number:x}" for number in range(HUNDRED_THOUSAND)]
BODIES: dict[str, dict[str, Any]] = {
    "variables": {"Env": TEXTS},
    "labels": {"Labels": dict.fromkeys(TEXTS, "")},
    "capabilities": {"HostConfig": {"CapAdd": TEXTS}},
    "binds": {"HostConfig": {"Binds": TEXTS}},
    "settings": {"HostConfig": {"Sysctls": dict.fromkeys(TEXTS, "")}},
    "fields": dict.fromkeys(TEXTS, 0),
    "fields below": {"New": dict.fromkeys(TEXTS, 0)},
    "rows": {"HostConfig": {"Mounts": [{}] * HUNDRED_THOUSAND}},
}


def call(body: dict[str, Any]) -> bytes:
    text = json.dumps({"Image": "a", **body}, separators=(",", ":")).encode()
    return json.dumps(
        {
            "User": "alice",
            "UserAuthNMethod": "TLS",
            "RequestMethod": "POST",
            "RequestUri": "/v1.41/containers/create",
            "RequestHeaders": {"Content-Type": "application/json"},
            "RequestBody": base64.b64encode(text).decode(),
        }
    ).encode()


@pytest.fixture(scope="module")
def plugin() -> Plugin:
    return Plugin(pack_pdp())


@pytest.mark.parametrize("name", BODIES)
def test_dictionary_of_texts_is_refused_before_a_policy_sees_it(plugin: Plugin, name: str) -> None:
    reply = json.loads(plugin.answer("/AuthZPlugin.AuthZReq", call(BODIES[name])).body)
    assert reply["Allow"] is False
    assert f"holds more than {MOST_ITEMS} items" in reply["Msg"]


def test_few_long_bodies_are_read_at_a_time(tmp_path: Path) -> None:
    """The others wait, up to a number; those beyond it are denied at once."""
    going, most, running = threading.Event(), 0, 0
    lock, started = threading.Lock(), threading.Semaphore(0)

    def begin(_path: str, _body: bytes) -> Response:
        nonlocal most, running
        with lock:
            running += 1
            most = max(most, running)
        started.release()
        going.wait()
        with lock:
            running -= 1
        return Response(200, b'{"Allow":true}')

    path = str(tmp_path / "s")
    server = PluginServer(bind_unix(path), begin)
    server.start()
    statuses: list[int] = []

    def ask() -> None:
        connection = UnixConnection(path, PATIENCE)
        connection.request("POST", "/AuthZPlugin.AuthZReq", b"x" * LONG)
        status = connection.getresponse().status
        connection.close()
        with lock:
            statuses.append(status)
            if statuses.count(503) == 8:
                going.set()

    threads = [threading.Thread(target=ask) for _ in range(LONG_WAITING + 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    server.close(grace=2.0)
    assert sorted(statuses) == [200] * LONG_WAITING + [503] * 8
    assert most == LONG_THREADS


PART = 2 << 20
"""Bytes that each of many slow clients sends of a body."""


def begin_call(path: str) -> socket.socket:
    """A client that sends a part of a call, and no more."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(PATIENCE)
    client.connect(path)
    head = b"POST /AuthZPlugin.AuthZReq HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    client.sendall(head % (2 * PART) + b"x" * PART)
    return client


def wait_for_bytes(server: PluginServer, size: int) -> None:
    wait_until(lambda: server.bodies.taken == size, f"bodies do not take {size} bytes")


def test_bodies_that_are_arriving_share_a_budget(tmp_path: Path) -> None:
    """Calls beyond it are denied; short ones and those within it are answered."""
    path = str(tmp_path / "s")
    server = PluginServer(bind_unix(path), lambda _path, _body: Response(200, b'{"Allow":true}'))
    server.start()
    clients: list[socket.socket] = []
    within = BODY_BUDGET // (PART - LONG)
    try:
        for number in range(within):
            clients.append(begin_call(path))
            wait_for_bytes(server, (number + 1) * (PART - LONG))
        refused = begin_call(path)
        assert refused.recv(64).startswith(b"HTTP/1.1 503 ")
        refused.close()
        assert server.bodies.taken <= BODY_BUDGET
        connection = UnixConnection(path, PATIENCE)
        connection.request("POST", "/AuthZPlugin.AuthZReq", b"x" * LONG)
        assert connection.getresponse().read() == b'{"Allow":true}'
        connection.close()
        for client in clients[1:]:
            client.close()
        wait_for_bytes(server, PART - LONG)
        clients[0].sendall(b"x" * PART)
        assert clients[0].recv(64).startswith(b"HTTP/1.1 200 ")
        wait_for_bytes(server, 0)
    finally:
        for client in clients:
            client.close()
        server.close(grace=2.0)
