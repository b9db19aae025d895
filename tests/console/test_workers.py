"""A console over several worker processes: each of them shows what all of them decided."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.ports import free_port
from tests.waiting import PATIENCE, pause, wait_until

POLICY = """package app

default allow := false

allow if input.user == "ann"
"""
WORKERS = 3


class Group:
    """Three workers with a console."""

    def __init__(self, folder: Path) -> None:
        (folder / "p.rego").write_text(POLICY)
        (folder / "shadow.rego").write_text(POLICY.replace("ann", "bob"))
        (folder / "audit.log").write_text('{"decision_id": "d-1", "decision": "deny"}\n')
        (folder / "doorward.yaml").write_text(
            f"shadow:\n  paths: [{folder}/shadow.rego]\n  share: 1.0\n  max_age_seconds: 60\n"
        )
        self.main, self.diagnostic = (f"127.0.0.1:{free_port()}" for _ in range(2))
        command = [sys.executable, "-m", "doorward", "run", "--server", "--addr", self.main]
        command += ["--diagnostic-addr", self.diagnostic, "--console", f"--workers={WORKERS}"]
        command += ["--console-docker-log", str(folder / "audit.log")]
        command += ["-c", str(folder / "doorward.yaml"), str(folder / "p.rego")]
        self.log = folder / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stderr=log)
        wait_until(lambda: self.ask("health")[0] == 200)

    def pids(self) -> list[int]:
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return sorted(map(int, children.split()))

    def ask(self, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """The answer of the worker that takes the connection."""
        data = None if body is None else json.dumps(body).encode()
        host = self.diagnostic if body is None else self.main
        request = urllib.request.Request(f"http://{host}/{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                return response.status, json.loads(response.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())
        except OSError:
            return 0, None

    def of_all(self, path: str) -> Any:
        """The answer once every worker has part in it: one that has little time is left out."""

        def answered() -> Any:
            status, document = self.ask(f"console/api/{path}")
            if status in (0, 503):  # a worker that was replaced meanwhile, or has little time
                return None
            assert status == 200, document
            silent = [each for each in document.get("workers", ()) if each.get("is_silent")]
            silent += [*document.get("missing", ()), *document.get("silent", ())]
            return None if silent else document

        return wait_until(answered)

    def decide(self, times: int) -> None:
        for number in range(times):
            user = "ann" if number % 2 else "bob"
            assert self.ask("v1/data/app/allow", {"input": {"user": user}})[0] == 200

    def message(self, after: str = "") -> tuple[str, dict[str, Any]]:
        """The first message of a stream that goes on from an id, with its own."""
        url = f"http://{self.diagnostic}/console/api/decisions"
        request = urllib.request.Request(url, headers={"Last-Event-ID": after} if after else {})
        with urllib.request.urlopen(request, timeout=PATIENCE) as stream:
            lines = [stream.readline().decode().strip() for _ in range(2)]
        return lines[0].removeprefix("id: "), json.loads(lines[1].removeprefix("data: "))

    def spread(self) -> dict[str, Any]:
        """Decide until every worker has, and return a message that shows them."""
        seen: dict[str, Any] = {}

        def is_spread() -> bool:
            self.decide(10)
            seen.update(self.message()[1])
            return {each["worker"] for each in seen["decisions"]} == set(range(WORKERS))

        wait_until(is_spread)
        return seen


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    group = Group(tmp_path_factory.mktemp("group"))
    yield group
    group.process.send_signal(signal.SIGTERM)
    assert group.process.wait(PATIENCE) == 0, group.log.read_text()
    assert "Traceback" not in group.log.read_text()


def test_every_page_shows_what_all_decided(group: Group) -> None:
    message = group.spread()
    assert (message["workers"], message["silent"]) == (WORKERS, [])
    assert [each["id"] for each in message["docker"]] == ["d-1"]
    times = [each["time_ms"] for each in message["decisions"]]
    assert times == sorted(times)
    for each in message["decisions"][-12:]:
        detail = group.of_all(f"decisions/{each['id']}")
        assert detail["path"] == "app/allow"
        assert detail["why"]
    assert group.of_all("decisions/d-1")["path"] == "docker"
    wait_until(lambda: group.ask("console/api/decisions/unknown")[0] == 404)


def test_counts_are_those_of_all(group: Group) -> None:
    group.spread()

    def counts() -> Any:
        """What the page of policies says, once that of revisions has part of every worker too."""
        policies = group.of_all("policies")
        status, revisions = group.ask("console/api/revisions")
        counted = [each["decisions"] for each in revisions] if status == 200 else []
        return policies if counted == [policies["decisions"]] else None

    policies = wait_until(counts)
    definitions = {
        each["row"]: each for each in policies["files"][file_of(policies)]["definitions"]
    }
    # Half of the decisions were of one user, half of the other.
    half = policies["decisions"] // 2
    assert (definitions[5]["answered"], definitions[5]["failed"]) == (half, half)
    wait_until(lambda: group.of_all("shadow")["kinds"].get("new-deny", 0) == half)
    differences = group.of_all("shadow")["differences"]
    assert {each["kind"] for each in differences} == {"new-deny", "new-allow"}


def file_of(policies: dict[str, Any]) -> str:
    (name,) = policies["files"]
    return str(name)


def test_the_state_of_every_worker_is_shown(group: Group) -> None:
    state = group.of_all("state")
    assert [each["worker"] for each in state["workers"]] == list(range(WORKERS))
    for each in state["workers"]:
        assert each["threads"]["peers-0"] is None
        assert list(each["status"]) == ["labels", "plugins"]
        assert each["minute"]["decisions"] >= 0


def test_a_worker_that_does_not_answer_is_named_and_another_takes_its_place(group: Group) -> None:
    group.spread()
    last, _ = group.message()
    *numbers, _docker = last.split(".")
    assert len(numbers) == WORKERS
    pids = group.pids()
    pause(pids[-1])
    try:
        # Connections that the stopped one took are not answered: others are.
        wait_until(lambda: _is_silent(group))
    finally:
        with suppress(ProcessLookupError):  # its parent ends one that is silent for long
            os.kill(pids[-1], signal.SIGKILL)
    wait_until(lambda: len(set(group.pids()) - {pids[-1]}) == WORKERS)
    wait_until(lambda: group.message()[1]["silent"] == [])
    # A stream from before shows what the new worker decides.
    new: dict[str, Any] = {}

    def is_shown() -> bool:
        group.decide(10)
        new.update(group.message(last)[1])
        return {each["worker"] for each in new["decisions"]} == set(range(WORKERS))

    wait_until(is_shown)


def _is_silent(group: Group) -> bool:
    url = f"http://{group.diagnostic}/console/api/state"
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            workers = json.loads(response.read())["workers"]
    except OSError:
        return False  # the one that is stopped took the connection
    return [each.get("is_silent", False) for each in workers].count(True) == 1


def test_new_policies_have_new_workers_and_the_page_goes_on(group: Group, tmp_path: Path) -> None:
    group.spread()
    last, _ = group.message()
    before = group.of_all("state")["workers"][0]["revision"]
    file = group.log.parent / "p.rego"
    file.write_text(POLICY.replace("ann", "eve"))

    def revisions() -> set[str]:
        return {each["revision"] for each in group.of_all("state")["workers"]}

    wait_until(lambda: before not in revisions())
    group.spread()
    wait_until(lambda: group.message(last)[1]["silent"] == [])
    assert group.of_all("policies")["decisions"] > 0
    file.write_text(POLICY)
    wait_until(lambda: revisions() == {before})
