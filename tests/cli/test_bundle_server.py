"""Bundles from a real nginx that is killed, restarted, truncated and slowed at random.

Never half a bundle, never an unsigned one, and what the health says is true.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.bundles.archives import member, write_archive
from tests.cli.test_run import Process
from tests.ports import free_port
from tests.rounds import rounds
from tests.waiting import wait_until

from doorward.bundles.signing import sign

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
KEY = "a secret of at least thirty-two bytes"
FILLING = 4_000
"""Entries of data that make a bundle long enough to be cut."""
ACTIONS = ("good", "cut", "unsigned", "kill", "slow", "wrong")
"""What happens in a round: each once, then others by chance."""
ROUNDS = rounds(18)
FEWER = len(ACTIONS)
"""The same with workers, each with one that is killed."""
SERVER = """\
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    root {folder}/public;
    limit_rate {rate};
  }}
}}
"""


class Nginx:
    """A server of static files that can be killed at any moment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        (folder / "public").mkdir()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *, rate: str = "0") -> None:
        config = self.folder / "nginx.conf"
        config.write_text(SERVER.format(folder=self.folder, port=self.port, rate=rate))
        command = [NGINX, "-p", str(self.folder), "-c", str(config), "-e", "stderr"]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def publish(self, content: bytes) -> None:
        """Put a bundle in place of the one before, at once."""
        path = self.folder / "public/bundle.tar.gz"
        new = path.with_suffix(".new")
        new.write_bytes(content)
        os.replace(new, path)


def bundle(folder: Path, number: int, *, signed: bool = True) -> bytes:
    """A bundle that knows its number twice: half of it shows two numbers."""
    filling = {str(each): random.Random(each + number).random() for each in range(FILLING)}
    files = {
        ".manifest": json.dumps({"revision": f"r{number}", "roots": ["app", "first", "last"]}),
        "app/p.rego": f"package app\n\nnumbers := {{{number}, data.first.n, data.last.n}}\n",
        "first/data.json": json.dumps({"n": number, "filling": filling}),
        "last/data.json": json.dumps({"n": number}),
    }
    entries = [member(name, text) for name, text in files.items()]
    if signed:
        listed = [(name, text.encode()) for name, text in files.items()]
        entries.append(member(".signatures.json", sign(listed, KEY, "HS256", {})))
    return Path(write_archive(folder / "made.tar.gz", entries)).read_bytes()


@pytest.fixture
def nginx(tmp_path: Path) -> Iterator[Nginx]:
    if not os.path.exists(NGINX):
        pytest.skip("nginx is not installed")
    server = Nginx(tmp_path)
    yield server
    server.kill()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[int, int], Process]]:
    started: list[Process] = []

    def run(port: int, workers: int) -> Process:
        config = {
            "services": {"s": {"url": f"http://127.0.0.1:{port}", "headers": {"x-a": "b"}}},
            "keys": {"k": {"algorithm": "HS256", "key": KEY}},
            "bundles": {
                "app": {
                    "resource": "bundle.tar.gz",
                    "persist": True,
                    "signing": {"keyid": "k"},
                    "polling": {"min_delay_seconds": 0, "max_delay_seconds": 1},
                }
            },
            "persistence_directory": str(tmp_path / "kept"),
            "status": {"console": True, "prometheus": True},
        }
        (tmp_path / "c.json").write_text(json.dumps(config))
        started.append(Process(tmp_path, "--config-file=c.json", f"--workers={workers}"))
        return started[-1]

    yield run
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()


def ask(process: Process, path: str) -> tuple[int, Any]:
    """The answer of a worker; of several, one may be killed while it answers."""
    while True:
        try:
            return process.ask(path)
        except OSError:
            assert "--workers=1" not in process.arguments


def numbers(process: Process) -> Any:
    return ask(process, "/v1/data/app/numbers")[1].get("result")


def status(process: Process) -> dict[str, Any]:
    document: dict[str, Any] = ask(process, "/v1/status")[1]["result"]["bundles"]["app"]
    return document


def children(process: Process) -> list[int]:
    pid = process.process.pid
    return sorted(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def kill_one(process: Process, chance: random.Random) -> None:
    """End a worker, or what asks services for them, at once."""
    with contextlib.suppress(ProcessLookupError, IndexError):  # it has been replaced by now
        os.kill(chance.choice(children(process)), signal.SIGKILL)


@pytest.mark.parametrize(("workers", "count"), [(1, ROUNDS), (2, FEWER)])
def test_no_half_and_no_unsigned_bundle_ever_decides(
    nginx: Nginx,
    start: Callable[[int, int], Process],
    tmp_path: Path,
    workers: int,
    count: int,
) -> None:
    chance = random.Random(14)
    number = 1
    valid = {1}
    nginx.publish(bundle(tmp_path, 1))
    process = start(nginx.port, workers)
    # Nothing is there yet: it lives, and says that it has no bundle.
    assert process.ready("/health")
    wait_until(lambda: ask(process, "/health?bundles")[0] == 500)
    nginx.start()
    wait_until(lambda: ask(process, "/health?bundles")[0] == 200)

    def seen() -> int:
        """What decides now; it is one whole bundle that was signed."""
        result = numbers(process)
        assert len(result) == 1, result
        assert result[0] in valid, result
        return int(result[0])

    def is_newest(number: int) -> bool:
        known = status(process)
        return (
            seen() == number and known["active_revision"] == f"r{number}" and "message" not in known
        )

    actions = chance.sample(ACTIONS, len(ACTIONS))
    actions += chance.choices(ACTIONS, k=count - len(ACTIONS))
    for action in actions:
        number += 1
        if action == "cut":
            content = bundle(tmp_path, number)
            nginx.publish(content[: chance.randrange(1, len(content))])
        elif action == "unsigned":
            nginx.publish(bundle(tmp_path, number, signed=False))
        elif action == "wrong":
            wrong = bytearray(bundle(tmp_path, number))
            wrong[chance.randrange(len(wrong) // 2, len(wrong))] ^= 0xFF
            nginx.publish(bytes(wrong))
        elif action == "kill":
            nginx.kill()
        if action in ("cut", "unsigned", "kill", "wrong"):
            wait_until(lambda: seen() and "message" in status(process))
            assert ask(process, "/health?bundles")[0] == 200
            wait_until(lambda: ask(process, "/health?policies")[0] == 500)
            number += 1
        # A transfer that is cut in the middle, then a server that is there again.
        valid.add(number)
        nginx.kill()
        nginx.publish(bundle(tmp_path, number))
        if action == "slow":
            nginx.start(rate="4k")
            seen()
            nginx.kill()
        nginx.start()
        if workers > 1:
            kill_one(process, chance)
        wait_until(partial(is_newest, number))
    metrics = process.ask_text("/metrics")
    assert 'bundle_loaded_counter{name="app"}' in metrics
    assert "bundle_failed_load_counter{" in metrics
    # The service is gone at the next start: the last good bundle decides.
    nginx.kill()
    assert process.end() == 0
    again = start(nginx.port, workers)
    assert again.ready()
    assert numbers(again) == [number]
    wait_until(lambda: "message" in status(again))
    assert again.end() == 0
