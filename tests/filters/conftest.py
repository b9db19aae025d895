"""The databases that filters are tried on."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.people.conftest import postgresql, postgresql_server
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

__all__ = ["mariadb", "mariadb_server", "postgresql", "postgresql_server"]

NOBODY = 65534


@pytest.fixture(scope="module")
def mariadb(mariadb_server: int) -> int:
    """The port of a MariaDB server on loopback: user root, database `test`, empty again."""
    import pymysql

    connection = pymysql.connect(host="127.0.0.1", port=mariadb_server, user="root")
    with connection, connection.cursor() as cursor:
        cursor.execute("drop database if exists test")
        cursor.execute("create database test character set utf8mb4 collate utf8mb4_general_ci")
    return mariadb_server


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[int]:
    """The port of a MariaDB server of this test run, on loopback: user root."""
    install, server = shutil.which("mariadb-install-db"), shutil.which("mariadbd")
    server = server or shutil.which("mariadbd", path="/usr/sbin:/usr/libexec")
    if install is None or server is None:
        pytest.skip("MariaDB (mariadb-install-db and mariadbd) is not installed")
    # Not pytest's own folder: MariaDB refuses to run as root, and other users cannot enter it.
    with tempfile.TemporaryDirectory(prefix="filters-db-") as folder:
        data, port, user = Path(folder, "data"), free_port(), []
        data.mkdir()
        if os.geteuid() == 0:
            os.chmod(folder, 0o755)
            os.chown(data, NOBODY, -1)
            user = [f"--user={pwd.getpwuid(NOBODY).pw_name}"]
        subprocess.run(
            [install, "--no-defaults", f"--datadir={data}", *user, "--skip-test-db",
             "--auth-root-authentication-method=normal"],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=PATIENCE,
        )  # fmt: skip
        running = subprocess.Popen(
            [server, "--no-defaults", f"--datadir={data}", *user, f"--port={port}",
             f"--socket={data}/socket", "--bind-address=127.0.0.1", "--skip-name-resolve",
             "--innodb-buffer-pool-size=16M", "--innodb-flush-log-at-trx-commit=0"],
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            _wait_for(running, port)
            yield port
        finally:
            running.terminate()
            running.wait(timeout=PATIENCE)


def _wait_for(server: subprocess.Popen[bytes], port: int) -> None:
    import pymysql

    def answers() -> bool:
        assert server.poll() is None
        try:
            pymysql.connect(host="127.0.0.1", port=port, user="root").close()
        except pymysql.OperationalError:
            return False
        return True

    wait_until(answers)
