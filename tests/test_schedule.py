"""The longest files of a run begin first, and what shares a daemon stays together."""

from __future__ import annotations

import json

import pytest
from tests import schedule
from tests.costs import LEAST
from tests.schedule import SECONDS, parts_of, scope_of

NAMES = [
    "tests/a/test_many.py::test[1]",
    "tests/a/test_many.py::test[2]",
    "tests/a/test_many.py::test[3]",
    "tests/docker/test_daemon.py::test",
    "tests/b/test_long.py::test",
    "tests/docker/proxy/test_commands.py::test",
    "tests/docker/test_chain.py::test",
    "tests/docker/test_plugin.py::test",
    "tests/c/test_new.py::test[1]",
    "tests/c/test_new.py::test[2]",
    "tests/console/pages/test_log.py::test",
    "tests/console/pages/test_help.py::test",
]


def test_the_costliest_parts_begin_first_and_each_test_is_in_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = {"tests/b/test_long.py": 50.0, "docker": 20.0, "console/pages": 1.0}
    monkeypatch.setattr(schedule, "read_seconds", lambda: seconds)
    parts = [[NAMES[index] for index in part] for part in parts_of(NAMES)]
    assert sorted(name for part in parts for name in part) == sorted(NAMES)
    assert [[scope_of(name.split("::")[0]) for name in part] for part in parts] == [
        ["tests/b/test_long.py"],
        ["docker"] * 2,
        ["console/pages"] * 2,
        ["tests/a/test_many.py"] * 3,
        ["tests/c/test_new.py"] * 2,
        ["docker/proxy"],
        ["tests/docker/test_plugin.py"],
    ]


def test_what_is_known_of_files_is_of_files_that_are_there() -> None:
    root = SECONDS.parent.parent
    for file, seconds in json.loads(SECONDS.read_text()).items():
        assert max(seconds) >= LEAST
        assert (root / file).is_file(), f"{file} is gone: leave its row out of tests/seconds.json"
