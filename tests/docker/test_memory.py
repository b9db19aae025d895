"""What long bodies take of a plugin's memory is given back: a process of its own is looked at."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest
from tests.waiting import PATIENCE, wait_until

from benchmarks.docker_decisions import write_body
from doorward.docker.decider.embedded import PACK
from doorward.docker.unix_http import UnixConnection, call_plugin

AT_A_TIME: Final = 60
CALLS: Final = 3
ROUNDS: Final = 2
MEGABYTE: Final = 1 << 20
ANSWERS: Final = (b'{"Allow":true}', b'{"Err":"too many calls wait"}')
MOST: Final = 128 * MEGABYTE
"""What may stay of some 85 MB of calls at a time; without the settings, 300 MB stayed and more came
with each round."""


def write_call(number: int) -> bytes:
    text = json.dumps({"Image": "img:1", "Env": ["A=" + "x" * MEGABYTE], "HostConfig": {}})
    return wrap(number, text.encode())


def wrap(number: int, body: bytes) -> bytes:
    """What the daemon asks about a creation with this body."""
    call = {
        "RequestMethod": "POST",
        "RequestUri": f"/v1.41/containers/create?name=b{number}",
        "RequestBody": base64.b64encode(body).decode(),
        "RequestHeaders": {"Content-Type": "application/json"},
    }
    return json.dumps(call).encode()


def ask(path: str, numbers: Iterator[int]) -> None:
    """Calls with long bodies on a connection of their own."""
    connection = UnixConnection(path, PATIENCE)
    for number in numbers:
        connection.request("POST", "/AuthZPlugin.AuthZReq", write_call(number))
        assert connection.getresponse().read() in ANSWERS
    connection.close()


def memory_of(process: subprocess.Popen[bytes]) -> int:
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    path = tmp_path / "p.sock"
    command = [sys.executable, "-c", "from doorward.cli.main import main; main()"]
    command += ["docker", "serve", "--audit-log", "off", "--socket", str(path)]
    process = subprocess.Popen([*command, "--policy", str(PACK)], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: call_plugin(str(path), "/Plugin.Activate"), "the plugin does not answer")
        yield process, str(path)
    finally:
        process.terminate()
        process.wait(PATIENCE)


@pytest.mark.long
def test_memory_of_long_bodies_is_given_back(
    plugin: tuple[subprocess.Popen[bytes], str],
) -> None:
    process, path = plugin
    ask(path, iter(range(1)))
    before = memory_of(process)
    for _ in range(ROUNDS):
        threads = [
            threading.Thread(target=ask, args=(path, iter(range(n, n + CALLS))))
            for n in range(AT_A_TIME)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    wait_until(
        lambda: memory_of(process) - before < MOST, "the memory of the plugin is not given back"
    )


REQUESTS: Final = 100_000
PIECE: Final = 10_000
LONG_EACH: Final = 100
"""Of so many requests one has a long body."""
GROWTH: Final = 8 * MEGABYTE
"""What the second half of the requests may add."""


def write_bodies(draw: Random) -> Iterator[bytes]:
    """Calls about containers, each another one: most short, some with up to a megabyte."""
    for number in range(REQUESTS):
        size = draw.randrange(MEGABYTE - 2048) if number % LONG_EACH == 0 else draw.randrange(500)
        host = {"Memory": draw.randrange(1 << 30)} if number % 7 == 0 else {}
        config = {"Env": ["A=" + "x" * size]}
        binds = [f"/srv/{number}:/data"] if number % 3 == 0 else None
        yield wrap(number, write_body(number, binds=binds, config=config, host=host))


@pytest.mark.soak
def test_memory_stays_as_it_is_over_many_requests(
    plugin: tuple[subprocess.Popen[bytes], str],
) -> None:
    process, path = plugin
    connection = UnixConnection(path, PATIENCE)
    sizes: list[int] = []
    for number, call in enumerate(write_bodies(Random(1)), start=1):
        connection.request("POST", "/AuthZPlugin.AuthZReq", call)
        assert b'"Allow"' in connection.getresponse().read()
        if number % PIECE == 0:
            sizes.append(memory_of(process))
    connection.close()
    assert max(sizes[len(sizes) // 2 :]) - max(sizes[: len(sizes) // 2]) < GROWTH, sizes
