"""A server's decision logs survive `kill -9` and a service that is away."""

from __future__ import annotations

import gzip
import json
import signal
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_run import Process
from tests.waiting import wait_until

DECISIONS = 200


class Sink(ThreadingHTTPServer):
    """Collects decision logs; `away` answers 503."""

    def __init__(self) -> None:
        self.away = False
        self.events: list[Any] = []
        super().__init__(("127.0.0.1", 0), Collector)


class Collector(BaseHTTPRequestHandler):
    server: Sink

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["content-length"]))
        is_away = self.server.away
        if not is_away:
            self.server.events += json.loads(gzip.decompress(content))
        self.send_response(503 if is_away else 200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def sink() -> Iterator[Sink]:
    server = Sink()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def start(tmp_path: Path, sink: Sink) -> Iterator[Callable[[], Process]]:
    started: list[Process] = []
    (tmp_path / "p.rego").write_text("package p\n\nallow if input.n > 3\n")
    config = {
        "services": {"s": {"url": f"http://127.0.0.1:{sink.server_address[1]}"}},
        "decision_logs": {
            "service": "s",
            "file": {"path": str(tmp_path / "decisions.jsonl")},
            "reporting": {"min_delay_seconds": 0, "max_delay_seconds": 1},
            "spool": {"directory": str(tmp_path / "spool")},
        },
    }
    (tmp_path / "c.json").write_text(json.dumps(config))

    def run() -> Process:
        started.append(Process(tmp_path, "-c", "c.json", "p.rego"))
        assert started[-1].ready()
        return started[-1]

    yield run
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()


def decide(process: Process, numbers: range) -> None:
    for n in numbers:
        status, answer = process.ask("/v1/data/p/allow", {"input": {"n": n}})
        assert status == 200
        assert "decision_id" in answer


def events_in(spool: Path) -> int:
    """How many events wait on disk, in a journal or in chunks; 0 while one becomes the other."""
    try:
        lines = [path.read_bytes().count(b"\n") for path in spool.rglob("*.jsonl")]
        chunks = [json.loads(gzip.decompress(path.read_bytes())) for path in spool.rglob("*.gz")]
    except (EOFError, OSError, ValueError):
        return 0
    return sum(lines) + sum(map(len, chunks))


def test_events_survive_a_process_that_is_killed_and_a_service_that_is_away(
    start: Callable[[], Process], sink: Sink, tmp_path: Path
) -> None:
    sink.away = True
    process = start()
    decide(process, range(DECISIONS))
    # What a process that is killed loses is what had no time yet to get on disk.
    wait_until(lambda: events_in(tmp_path / "spool") >= DECISIONS)
    decide(process, range(DECISIONS, DECISIONS + 5))
    process.end(signal.SIGKILL)
    sink.away = False
    again = start()
    decide(again, range(DECISIONS + 5, DECISIONS + 10))

    def arrived() -> set[int]:
        return {event["input"]["n"] for event in sink.events}

    wait_until(lambda: arrived() >= {*range(DECISIONS), DECISIONS + 9})
    assert again.end() == 0
    assert arrived() >= {*range(DECISIONS), *range(DECISIONS + 5, DECISIONS + 10)}
    event = sink.events[0]
    assert event["path"] == "p/allow"
    assert set(event) >= {"decision_id", "input", "labels", "metrics", "timestamp"}
    assert not {"level", "msg", "type"} & set(event)
    lines = (tmp_path / "decisions.jsonl").read_text().splitlines()
    assert len(lines) >= DECISIONS + 5
    assert not list((tmp_path / "spool").rglob("*.gz"))
