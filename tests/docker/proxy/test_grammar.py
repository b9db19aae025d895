"""Random requests, mutated in their bytes: those that reach the daemon are allowed when read again.

The daemon's side is read by a parser of its own (the standard library's), and each request that
came is decided as the plugin would decide it: whatever passes by another reading fails here.
For longer: `python -m tests.docker.proxy.test_grammar SECONDS`.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from email.parser import BytesParser
from pathlib import Path
from typing import Any

import pytest
from tests.docker.guarded import write_policies
from tests.docker.proxy.fake_daemon import FakeDaemon, fake_daemon
from tests.waiting import PATIENCE, wait_until

from doorward.docker.decider.embedded import EmbeddedPdp
from doorward.docker.proxy.service import Consumer, ProxyOptions, ProxyService
from doorward.docker.request.call import AuthzRequest, Caller
from doorward.docker.request.input import to_input

METHODS = ["GET", "GET", "POST", "POST", "PUT", "DELETE", "HEAD", "get", "PATCH", "CONNECT"]
PATHS = [
    "/_ping", "/containers/json", "/containers/create", "/containers/c/json", "/images/json",
    "/containers/c/archive?path=/", "/containers/c/attach/ws?stdin=1",
    "/containers/c/logs?stdout=1", "/build?remote=http://169.254.169.254/",
    "/images/create?fromImage=x", "/volumes/create",
    "/networks/create", "/plugins/x/disable", "/swarm", "/auth", "/exec/" + "a" * 64 + "/start",
    "/session", "/grpc", "/containers/c/exec", "/events", "/info", "/images/x/tag?repo=y",
]  # fmt: skip
PREFIXES = ["", "/v1.41", "/v1.41.", "/v01.41", "/v1.41/", "//v1.41", "/%761.41", "/v1.23"]
FIELDS = [
    "Content-Type: application/json", "Content-Type: text/plain", "Upgrade: tcp", "Upgrade: h2c",
    "Content-Type: application/x-www-form-urlencoded", "Connection: Upgrade", "Content-Length: 0",
    "Connection: close", "Transfer-Encoding: chunked", "transfer-encoding : chunked", "Host: y",
    "Expect: 100-continue", "X-Doorward-Self: x", "Content-Encoding: gzip", " folded: 1",
    "X-Forwarded-User: root", "Authz-User: root", "X-Registry-Auth: e30=", "TE: trailers",
    "Content-Length: 5", "Content-Length: +5", "X-HTTP-Method-Override: POST", "Upgrade: websocket",
]  # fmt: skip
BODIES = [
    {}, {"Image": "x"}, {"Image": "x", "HostConfig": {"Privileged": True}}, {"Cmd": ["sh"]},
    {"image": "x", "hostconfig": {"privileged": True}}, {"Image": "x", "Binds": ["/:/h"]},
    {"Image": "x", "HostConfig": {"Binds": ["/:/h"]}}, {"Name": "v", "DriverOpts": {"o": "bind"}},
    {"serveraddress": "169.254.169.254"}, {"Detach": False}, {"Image": "x", "Ho\u017ftConfig": {}},
]  # fmt: skip
RAW = [b"", b"null", b"[]", b"fromImage=evil", b'{"Image":"x"}{"HostConfig":{}}', b"\xff"]
PING = re.compile(r"(GET|HEAD) (/v[0-9.]+)?/_ping")
"""What is answered without a policy, whatever its version."""
CALLER = Caller("socket:v", "socket")


def make_request(choice: random.Random) -> bytes:
    """Bytes that look like a request, or nearly so."""
    path = choice.choice(PREFIXES) + choice.choice(PATHS)
    if choice.random() < 0.2:
        at = choice.randrange(1, len(path))
        path = f"{path[:at]}%{ord(path[at]):02x}{path[at + 1 :]}"
    lines = [f"{choice.choice(METHODS)} {path} HTTP/1.{choice.choice('1111110')}", "Host: x"]
    body = json.dumps(choice.choice(BODIES)).encode()
    if choice.random() < 0.3:
        body = choice.choice(RAW)
    lines += choice.choices(FIELDS, k=choice.randrange(4))
    if body and choice.random() < 0.8:
        lines.append(f"Content-Length: {len(body)}")
    content = bytearray("\r\n".join([*lines, "", ""]).encode() + body)
    for _ in range(choice.choice((0, 0, 0, 1, 3))):
        at = choice.randrange(len(content))
        content[at : at + choice.randrange(3)] = choice.choice(
            (
                b"",
                b"\n",
                b"\r\n",
                b"\0",
                b" ",
                b"\t",
                b"%",
                b":",
                b"\r\n\r\n",
                b";",
                b"\xe2\x84\xaa",
            )
        )
    return bytes(content)


class Attack:
    """A proxy whose only caller is a viewer, and the daemon behind it."""

    def __init__(self, folder: Path, daemon: FakeDaemon) -> None:
        self.daemon = daemon
        self.path = str(folder / "v.sock")
        policies = str(write_policies(folder / "policies", users={CALLER.name: ["viewer"]}))
        self.pdp = EmbeddedPdp([policies], watch=False)
        self.service = ProxyService(
            ProxyOptions(
                daemon=daemon.path,
                consumers=[Consumer("v", self.path)],
                policies=[policies],
                audit_log="off",
                deadline=60.0,
                grace=0.1,
            )
        )
        self.service.start()

    def send(self, content: bytes) -> None:
        """Send bytes, end this side, and read what there is."""
        with socket.socket(socket.AF_UNIX) as client, contextlib.suppress(OSError):
            client.settimeout(PATIENCE)
            client.connect(self.path)
            client.sendall(content)
            client.settimeout(0.05)
            client.recv(65536)

    def check(self) -> None:
        """Each request that came is in one spelling, and allowed when it is decided again."""
        for content in self.daemon.received:
            if b"x-doorward-self" in content.lower():
                continue
            head, _, body = content.partition(b"\r\n\r\n")
            line, _, fields = head.partition(b"\r\n")
            method, target, version = line.decode("ascii").split(" ")
            headers = dict(BytesParser().parsebytes(fields + b"\r\n\r\n"))
            assert version == "HTTP/1.1"
            assert not {name.lower() for name in headers} & {"x-doorward-self", "authz-user"}
            length = int(headers.get("Content-Length", "0"))
            assert len(body) == length, content
            if PING.fullmatch(f"{method} {target.partition('?')[0]}"):
                continue
            request = AuthzRequest(
                method, target, CALLER.name, CALLER.method, headers, body or None, caller=CALLER
            )
            result: Any = self.pdp.decide({**to_input(request), "inspects": True}).result
            assert result["allow"] is True, content
        self.daemon.received.clear()

    def close(self) -> None:
        self.service.close()
        self.pdp.close()


@pytest.fixture
def attack(tmp_path: Path) -> Iterator[Attack]:
    with fake_daemon(tmp_path / "d.sock") as daemon:
        attack = Attack(tmp_path, daemon)
        yield attack
        attack.close()


def test_what_reaches_the_daemon_is_allowed_when_it_is_read_again(attack: Attack) -> None:
    choice = random.Random(29)
    for _ in range(300):
        attack.send(make_request(choice))
    wait_until(lambda: attack.daemon.received)
    attack.check()


def main() -> None:
    """Attack for some seconds, with another seed each time."""
    folder, seed = Path(tempfile.mkdtemp(prefix="dw-grammar-")), time.time_ns()
    choice, count, passed = random.Random(seed), 0, 0
    until = time.monotonic() + float(sys.argv[1])
    with fake_daemon(folder / "d.sock") as daemon:
        attack = Attack(folder, daemon)
        while time.monotonic() < until:
            attack.send(b"".join(make_request(choice) for _ in range(choice.choice((1, 1, 2)))))
            count += 1
            if count % 100 == 0:
                passed += len(daemon.received)
                attack.check()
        attack.close()
    sys.stdout.write(f"seed {seed}: {count} sent, {passed} came through, each allowed\n")


if __name__ == "__main__":
    main()
