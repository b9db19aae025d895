"""The People API over every database that it supports, PostgreSQL being a real server."""

from __future__ import annotations

import asyncio
import io
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import pytest
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

from people.app import create_app
from people.store import PeopleStore

_NUMBERS: Final = itertools.count(1)


class Client:
    """Sends requests to the service in this process, and keeps the access log that it writes."""

    def __init__(self, store: PeopleStore) -> None:
        self.log = io.StringIO()
        self._app = create_app(store, self.log)

    def __call__(
        self,
        method: str,
        target: str,
        *,
        json: object = None,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://people") as client:
                return await client.request(
                    method, target, json=json, content=content, headers=headers
                )

        return asyncio.run(send())


@pytest.fixture(params=["memory", "file", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PeopleStore]:
    match request.param:
        case "memory":
            store = PeopleStore(":memory:")
        case "file":
            store = PeopleStore(f"sqlite:///{tmp_path}/people.db")
        case _:
            store = PeopleStore(request.getfixturevalue("empty_database"))
    yield store
    store.close()


@pytest.fixture
def service(store: PeopleStore) -> Client:
    return Client(store)


@pytest.fixture
def client() -> Iterator[Client]:
    """The service over a database in memory, for what does not depend on the database."""
    store = PeopleStore(":memory:")
    yield Client(store)
    store.close()


@pytest.fixture
def empty_database(postgresql: str) -> str:
    import psycopg

    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS people")
    return postgresql


@pytest.fixture(scope="module")
def postgresql(postgresql_server: str) -> Iterator[str]:
    """The URL of an empty database: no module of tests meets the tables of another one."""
    import psycopg

    name = f"module_{next(_NUMBERS)}"
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        yield postgresql_server.removesuffix("postgres") + name
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The URL of a PostgreSQL server of this test run: own data, own port, on loopback."""
    programs = _find_programs()
    # Not pytest's own folder: PostgreSQL refuses to run as root, and other users cannot enter it.
    with tempfile.TemporaryDirectory(prefix="people-pg-") as folder:
        data = Path(folder, "data")
        data.mkdir()
        user = _give_away(folder, data)
        subprocess.run(
            [*user, programs / "initdb", "-D", data, "-U", "people", "-A", "trust", "--no-sync",
             "-E", "UTF8", "--no-locale"],
            check=True, stdout=subprocess.DEVNULL, cwd="/", timeout=PATIENCE,
        )  # fmt: skip
        port = free_port()
        server = subprocess.Popen(
            [*user, programs / "postgres", "-D", data, "-p", str(port), "-k", "",
             "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "shared_buffers=16MB"],
            cwd="/", stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            _wait_for(server, port)
            yield f"postgresql://people@127.0.0.1:{port}/postgres"
        finally:
            server.terminate()
            server.wait(timeout=PATIENCE)


def _find_programs() -> Path:
    candidates = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if program := shutil.which("initdb"):
        candidates.insert(0, Path(program).resolve().parent)
    for folder in candidates:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    pytest.skip("PostgreSQL (initdb and postgres) is not installed")


def _give_away(folder: str, data: Path) -> list[str]:
    """As root, hand the folder to an ordinary user; the command prefix that becomes that user."""
    if os.geteuid() != 0:
        return []
    if (setpriv := shutil.which("setpriv")) is None:
        pytest.skip("PostgreSQL does not run as root, and setpriv is not installed")
    uid, gid = 65534, 65534  # nobody
    os.chmod(folder, 0o755)
    os.chown(data, uid, gid)
    return [setpriv, f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--"]


def _wait_for(server: subprocess.Popen[bytes], port: int) -> None:
    import psycopg

    def answers() -> bool:
        assert server.poll() is None
        try:
            psycopg.connect(
                f"postgresql://people@127.0.0.1:{port}/postgres", connect_timeout=10
            ).close()
        except psycopg.OperationalError:
            return False
        return True

    wait_until(answers)
