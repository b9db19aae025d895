"""Django's `Q`: the rows that the policy lets through one by one, on real databases."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.rounds import rounds
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parent.parent.parent
POLICIES = rounds(25)


@pytest.mark.parametrize("vendor", ["sqlite", "postgresql", "bound", "mysql"])
def test_the_filter_decides_as_the_policy(vendor: str, request: pytest.FixtureRequest) -> None:
    database: dict[str, Any] = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
    if vendor in ("postgresql", "bound"):
        url = urlsplit(request.getfixturevalue("postgresql"))
        database = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": url.path[1:],
            "USER": url.username,
            "HOST": url.hostname,
            "PORT": url.port,
            "OPTIONS": {"server_side_binding": vendor == "bound"},
        }
    if vendor == "mysql":
        database = {
            "ENGINE": "django.db.backends.mysql",
            "NAME": "test",
            "USER": "root",
            "HOST": "127.0.0.1",
            "PORT": request.getfixturevalue("mariadb"),
        }
    done = subprocess.run(
        [sys.executable, "-m", "tests.filters.django_program", json.dumps(database), str(POLICIES)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 3 * POLICIES
