"""A changed decision log loses no event, and one that cannot be opened is refused each time."""

from __future__ import annotations

import gzip
import json
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from doorward.bundles.loader import Loaded
from doorward.config.configuration import Config, ConfigError, parse_config
from doorward.control.plane import ControlPlane
from doorward.control.uploads import THREADS
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.pdp.store import Store
from doorward.server.decision_logging import DecisionLogging
from doorward.server.sidecar_options import SidecarOptions, StartupError
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics


class World:
    """A decision point, and a service that records its events with the tokens they came with."""

    def __init__(self, config: Config) -> None:
        self.received: list[tuple[str, int]] = []
        loaded = Loaded()
        self.pdp = PDP(build(loaded))
        self.health = Health()
        self.plane = ControlPlane(
            config,
            Store(self.pdp, loaded),
            self.health,
            prepare=lambda config, clients: self.logging.prepare(config, clients),
            transport=httpx.MockTransport(self.respond),
        )
        self.logging = DecisionLogging(
            SidecarOptions(config=config),
            self.pdp,
            self.plane,
            self.health,
            Metrics("1"),
            write=lambda _line: None,
            watched=lambda log: log,
            tracer=None,
        )

    def respond(self, request: httpx.Request) -> httpx.Response:
        events = json.loads(gzip.decompress(request.content))
        numbers = [(request.headers["authorization"], each["input"]) for each in events]
        self.received += numbers
        return httpx.Response(200)

    def decide(self, number: int) -> None:
        self.pdp.record(self.pdp.decide("p", number), number)

    def close(self) -> None:
        self.plane.stop_following()
        self.pdp.close()
        self.plane.close()


def upload_threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith("decision-log-upload")}


def configured(token: str, **logs: Any) -> Config:
    """Uploads that begin only when a log is closed."""
    service = {"url": "http://s", "credentials": {"bearer": {"token": token}}}
    pauses = {"min_delay_seconds": 3_000, "max_delay_seconds": 3_000}
    document = {
        "services": {"s": service},
        "decision_logs": {"service": "s", "reporting": pauses, **logs},
    }
    return parse_config(json.dumps(document), environment={})


def test_events_that_wait_are_sent_with_the_credentials_before() -> None:
    world = World(configured("one"))
    world.logging.start()
    world.decide(1)
    world.plane.apply(configured("two"))
    world.decide(2)
    world.close()
    assert world.received == [("Bearer one", 1), ("Bearer two", 2)]


def test_events_before_the_start_wait_and_uploads_begin_once() -> None:
    before = upload_threads()
    world = World(configured("one"))
    world.decide(1)
    world.plane.apply(configured("two"))
    assert "decision_logs" not in world.health.states
    world.logging.start()
    assert len(upload_threads() - before) == THREADS
    world.close()
    assert world.received == [("Bearer one", 1)]


def test_uploads_that_start_while_the_log_before_is_closed_begin_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running = upload_threads()
    world = World(configured("one"))
    before = world.logging._open.log
    assert before is not None
    close = before.close

    def start_first() -> None:
        world.logging.start()
        close()

    monkeypatch.setattr(before, "close", start_first)
    world.plane.apply(configured("two"))
    assert len(upload_threads() - running) == THREADS
    world.close()


def test_a_log_is_watched_after_it_replaced_another_and_after_one_was_given_up() -> None:
    world = World(configured("one"))
    world.logging.start()
    watched = {"decision-log": None, "decision-log-upload": None}
    world.plane.apply(configured("two"))
    assert world.health.parts.problems == watched
    world.logging.prepare(configured("three"), world.plane.clients).abandon()
    assert world.health.parts.problems == watched
    world.close()
    assert world.health.parts.problems == {}


def test_a_log_that_cannot_be_opened_is_refused_each_time(tmp_path: Path) -> None:
    world = World(configured("one"))
    world.logging.start()
    broken = configured("two", file={"path": str(tmp_path / "none" / "log")})
    for _ in range(2):
        with pytest.raises(
            ConfigError, match=r"^decision_logs: \S*/log: no such file or directory$"
        ):
            world.plane.apply(broken)
    assert world.plane.config == configured("one")
    world.decide(1)
    world.close()
    assert world.received == [("Bearer one", 1)]


def test_a_start_with_a_log_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=r"decision_logs: .*none/log"):
        World(configured("one", file={"path": str(tmp_path / "none" / "log")}))
