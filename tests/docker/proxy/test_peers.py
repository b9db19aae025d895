"""A process of the host is its user; one in a container, or in a world of its own, is nobody."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from examples.docker.private_daemon import PrivateDaemon
from tests.docker.proxied import Proxied, proxied

from doorward.docker.proxy import peers
from doorward.docker.proxy.peers import Names, Peer, PeerError

ASK = """
import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.sendall(b"GET /v1.41/containers/json HTTP/1.1\\r\\nHost: h\\r\\nConnection: close\\r\\n\\r\\n")
answer = b""
while piece := s.recv(65536): answer += piece
sys.stdout.buffer.write(answer)
"""
NAMED = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def connected() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


def test_process_of_this_host_is_no_container() -> None:
    ours, theirs = connected()
    with ours, theirs:
        peer = Peer(ours)
        assert (peer.pid, peer.uid) == (os.getpid(), os.geteuid())
        assert peer.container() is None
        peer.close()


def test_process_that_cannot_be_examined_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read(path: str) -> str:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(peers, "_read", read)
    ours, theirs = connected()
    with ours, theirs:
        peer = Peer(ours)
        with pytest.raises(PeerError) as caught:
            peer.container()
        peer.close()
    assert str(caught.value) == (
        "the calling process cannot be examined: permission denied "
        f"(the proxy must be able to read /proc/{os.getpid()})"
    )


@NAMED
@pytest.mark.parametrize(
    "world",
    [
        ["unshare", "--pid", "--fork"],
        ["unshare", "--user", "--map-root-user"],
        ["unshare", "--cgroup"],
    ],
)
def test_process_with_namespaces_of_its_own_has_no_name(behind: Proxied, world: list[str]) -> None:
    answer = ask(behind, *world)
    if answer == b"":
        pytest.skip("this system makes no such namespace")
    assert b"403" in answer.partition(b"\r\n")[0]
    assert b"a client without a name may not container.list" in answer


@pytest.fixture(scope="module")
def behind(
    daemon_started: PrivateDaemon, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxied]:
    folder = tmp_path_factory.mktemp("peers")
    consumers = {"tool": "viewer"}
    settings: dict[str, Any] = {"groups": {"root": ["viewer"]}}
    with proxied(daemon_started, folder, "admin", consumers=consumers, **settings) as daemon:
        yield daemon


def ask(behind: Proxied, *before: str) -> bytes:
    """The answer to a list of containers that a process asks for."""
    command = [*before, sys.executable, "-c", ASK, behind.socket]
    return subprocess.run(command, capture_output=True, check=False).stdout


@NAMED
def test_user_of_the_host_has_a_name_and_groups(behind: Proxied) -> None:
    assert b" 200 OK" in ask(behind).partition(b"\r\n")[0]
    line = behind.decided()[-1]
    assert line["user"] == "root"
    assert line["input"]["caller"]["uid"] == 0
    assert "root" in line["input"]["caller"]["groups"]


@NAMED
def test_socket_is_who_a_consumer_is(behind: Proxied) -> None:
    tool = behind.at("tool")
    assert b" 200 OK" in ask(tool).partition(b"\r\n")[0]
    assert behind.decided()[-1]["user"] == "socket:tool"
    refused = tool.docker("rm", "x")
    assert "user socket:tool may not container.delete" in refused.stderr


@NAMED
def test_root_in_a_container_that_sees_the_whole_host_is_not_root(behind: Proxied) -> None:
    """The strongest one there is: host namespaces, and the host's files as its root folder."""
    host = ("--pid", "host", "--network", "none", "-v", "/:/host")
    command = ("chroot", "/host", sys.executable, "-c", ASK, behind.socket)
    done = behind.docker("run", "--rm", *host, "img:1", "/bin/busybox", *command)
    assert "a client without a name may not container.list" in done.stdout, done.stderr
    denied = [each for each in behind.decided() if each["decision"] == "deny"][-1]
    assert len(denied["input"]["caller"]["container"]) in (1, 64)


ENDED = """
import os, socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
if os.fork():
    os._exit(0)
os.read(0, 1)
s.sendall(b"GET /v1.41/containers/json HTTP/1.1\\r\\nHost: h\\r\\nConnection: close\\r\\n\\r\\n")
sys.stdout.buffer.write(s.recv(65536))
"""


@NAMED
def test_connection_of_a_process_that_ended_is_nobodys(behind: Proxied) -> None:
    command = [sys.executable, "-c", ENDED, behind.socket]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.wait()  # its child has the connection
        answer, _ = process.communicate(b"x")
    assert b"the calling process ended before it could be examined" in answer


def test_names_are_remembered_for_a_while() -> None:
    names = Names()
    assert names.find(0) is None
    assert names.look_up(0).name == "root"
    known = names.find(0)
    assert known is not None
    assert known.groups == names.look_up(0).groups


def test_user_without_a_name_is_called_by_its_number() -> None:
    assert Names().look_up(3_999_999_999).name == "uid:3999999999"


def test_user_of_another_world_is_nobody() -> None:
    overflow = int(Path("/proc/sys/kernel/overflowuid").read_text())
    for uid in (overflow, -1):
        with pytest.raises(PeerError):
            Names().look_up(uid)
