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
from typing import Final

import pytest
from tests.waiting import PATIENCE, wait_until

from doorward.docker.decider.embedded import PACK
from doorward.docker.unix_http import UnixConnection

pytestmark = pytest.mark.long

AT_A_TIME: Final = 60
CALLS: Final = 3
ROUNDS: Final = 3
MEGABYTE: Final = 1 << 20
ANSWERS: Final = (b'{"Allow":true}', b'{"Err":"too many calls wait"}')
MOST: Final = 128 * MEGABYTE
"""What may stay of some 85 MB of calls at a time; without the settings, 300 MB stayed and more came
with each round."""


def write_call(number: int) -> bytes:
    text = json.dumps({"Image": "img:1", "Env": ["A=" + "x" * MEGABYTE], "HostConfig": {}})
    call = {
        "RequestMethod": "POST",
        "RequestUri": f"/v1.41/containers/create?name=b{number}",
        "RequestBody": base64.b64encode(text.encode()).decode(),
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
        wait_until(path.is_socket, "the plugin does not listen")
        yield process, str(path)
    finally:
        process.terminate()
        process.wait(PATIENCE)


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
