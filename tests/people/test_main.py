"""The service as a process on a socket."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

from people.__main__ import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "people"


def send(method: str, port: int, target: str, json: object = None) -> httpx.Response:
    url = f"http://127.0.0.1:{port}{target}"
    return httpx.request(method, url, json=json, trust_env=False, timeout=PATIENCE)


def test_it_serves_on_loopback_and_ends_on_sigterm(tmp_path: Path) -> None:
    with _serve(f"sqlite:///{tmp_path}/people.db") as (process, port):
        answer = send("GET", port, "/people?x=1")
        assert answer.status_code == 200
        assert [person["firstname"] for person in answer.json()] == ["John", "Jane"]
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=PATIENCE)
    assert process.returncode in {0, -signal.SIGTERM}
    assert log.decode().startswith("GET /people?x=1 200 ")


def test_people_outlive_the_process(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/people.db"
    ada = {"firstname": "Ada", "lastname": "Lovelace"}
    with _serve(url) as (_, port):
        assert send("POST", port, "/people", ada).is_success
    with _serve(url) as (_, port):
        answer = send("GET", port, "/people/3")
    assert answer.json() == {"id": "3", **ada}


def test_an_unusable_database_is_named_without_its_password(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main(["--database-url", "mysql://u:secret@h/d"]) == 2
    assert main(["--database-url", "sqlite:////nowhere/at/all.db"]) == 1
    said = capfd.readouterr().err
    assert said.splitlines() == [
        "people: the database URL is not usable: `mysql` is not a database that this service keeps",
        "people: the database cannot be opened",
    ]


@contextmanager
def _serve(url: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "people", "--port", str(port), "--database-url", url, "--sample"],
        env={**os.environ, "PYTHONPATH": str(EXAMPLE)},
        stderr=subprocess.PIPE,
    )
    try:
        wait_until(lambda: _accepts(process, port))
        yield process, port
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=PATIENCE)


def _accepts(process: subprocess.Popen[bytes], port: int) -> bool:
    assert process.poll() is None
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
    except OSError:
        return False
    return True
