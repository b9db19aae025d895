"""The longest files of a run begin first, and what shares a daemon stays together."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from tests import schedule
from tests.costs import LEAST
from tests.schedule import SECONDS, Numbered, Scheduling, scope_of

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


class Node:
    """A process of the run: keeps the positions of the tests that it is told to run."""

    shutting_down = False

    def __init__(self) -> None:
        self.gateway = SimpleNamespace(id="gw0")
        self.tests: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.tests += indices

    def shutdown(self) -> None:
        self.shutting_down = True


@pytest.fixture
def scheduling(monkeypatch: pytest.MonkeyPatch) -> Scheduling:
    seconds = {"tests/b/test_long.py": 50.0, "docker": 20.0, "console/pages": 1.0}
    monkeypatch.setattr(schedule, "read_seconds", lambda: seconds)
    option = SimpleNamespace(tx=["popen"], loadscopereorder=True)
    config: Any = SimpleNamespace(option=option, getvalue=lambda name: getattr(option, name))
    return Scheduling(config)


def run(scheduling: Scheduling, node: Node) -> list[str]:
    """The tests in the order in which a process runs them."""
    scheduling.add_node(node)
    scheduling.add_node_collection(node, NAMES)
    scheduling.schedule()
    done: list[str] = []
    while len(done) < len(node.tests):
        position = node.tests[len(done)]
        done.append(NAMES[position])
        scheduling.mark_test_complete(node, position)
    return done


def test_the_longest_begin_first_and_each_test_runs_once(scheduling: Scheduling) -> None:
    node = Node()
    done = run(scheduling, node)
    assert sorted(done) == sorted(NAMES)
    assert [scope_of(name.split("::")[0]) for name in done] == [
        "tests/b/test_long.py",
        *["docker"] * 2,
        *["console/pages"] * 2,
        *["tests/a/test_many.py"] * 3,
        *["tests/c/test_new.py"] * 2,
        "docker/proxy",
        "tests/docker/test_plugin.py",
    ]
    assert scheduling.tests_finished
    assert not scheduling.has_pending
    assert node.shutting_down


def test_names_have_the_positions_of_a_list() -> None:
    assert [Numbered(NAMES).index(name) for name in NAMES] == [*range(len(NAMES))]


def test_what_is_known_of_files_is_of_files_that_are_there() -> None:
    root = SECONDS.parent.parent
    for file, seconds in json.loads(SECONDS.read_text()).items():
        assert max(seconds) >= LEAST
        assert (root / file).is_file(), f"{file} is gone: leave its row out of tests/seconds.json"
