"""A candidate decides what the live policies decided, in spare time, and is never in their way."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

from doorward.bundles.loader import Loaded
from doorward.config.configuration import ConfigError, parse_config
from doorward.config.configuration import Shadow as ShadowOptions
from doorward.pdp.decision import Answered
from doorward.pdp.pdp import PDP, Tee
from doorward.pdp.snapshot import build
from doorward.replay.deciding import Version
from doorward.replay.shadow import Shadow

LIVE = """package app

default allow := false

allow if input.user == "ann"
"""
CANDIDATE = LIVE.replace('"ann"', '"bob"')


class Log:
    """A decision log that counts."""

    def __init__(self) -> None:
        self.decisions = 0
        self.is_closed = False

    def record(self, answered: Answered) -> None:
        self.decisions += 1

    def close(self) -> None:
        self.is_closed = True


class Point:
    """A decision point with a shadow, and what became of its decisions."""

    def __init__(self, candidate: str = CANDIDATE, **options: Any) -> None:
        self.kinds: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.version = Version.compile(Loaded({"c.rego": candidate}))
        self.shadow = Shadow(
            self.version,
            ShadowOptions(("c.rego",), share=1.0, **{"max_age": PATIENCE, **options}),
            on_kind=lambda kind: self.kinds.update([kind]),
            on_dropped=lambda reason: self.dropped.update([reason]),
        )
        self.log = Log()
        self.pdp = PDP(build(Loaded({"p.rego": LIVE})), Tee(self.shadow, self.log))

    def decide(self, user: str) -> None:
        document: Any = {"user": user}
        self.pdp.record(self.pdp.decide("app/allow", document), document)


def shadowed(work: Callable[[Point], None], candidate: str = CANDIDATE, **options: Any) -> Point:
    point = Point(candidate, **options)
    work(point)
    point.shadow.close()
    return point


def test_differences_are_counted_by_kind_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def work(point: Point) -> None:
        for user in ("ann", "ann", "bob", "eve"):
            point.decide(user)
        wait_until(lambda: point.kinds.total() == 4)

    with caplog.at_level(logging.INFO, logger="doorward.replay.shadow"):
        point = shadowed(work)
    assert point.kinds == {"new-deny": 2, "new-allow": 1, "unchanged": 1}
    assert point.log.decisions == 4
    kinds = {record.__dict__["kind"]: record.__dict__ for record in caplog.records}
    assert sorted(kinds) == ["new-allow", "new-deny"]
    assert len(caplog.records) == 2  # of the two for ann one is left out
    assert kinds["new-deny"]["cause"] == '`input.user == "bob"` does not hold'
    assert kinds["new-deny"]["rule"] == "c.rego:5 data.app.allow"
    assert "ann" not in str([kinds["new-deny"][name] for name in ("path", "rule", "cause")])
    shown = point.shadow.document()
    assert shown["kinds"] == point.kinds
    assert [each["kind"] for each in shown["differences"]] == ["new-allow", "new-deny", "new-deny"]
    newest, second, first = shown["differences"]
    assert (first["rule"], first["cause"]) == (
        kinds["new-deny"]["rule"],
        kinds["new-deny"]["cause"],
    )
    assert (second["cause"], newest["path"]) == ("", "app/allow")
    assert shown["candidate"] == point.version.snapshot.revision


def test_a_candidate_asks_nothing_of_the_world() -> None:
    asks = 'package app\n\nallow if http.send({"method": "GET", "url": "http://127.0.0.1:1"})\n'

    def work(point: Point) -> None:
        point.decide("ann")
        wait_until(lambda: point.kinds.total() == 1)

    assert shadowed(work, asks).kinds == {"not-replayable": 1}


def test_a_busy_candidate_drops_decisions_and_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begins, goes_on = threading.Event(), threading.Event()

    def work(point: Point) -> None:
        answer = point.version.answer

        def slow(event: Any) -> Any:
            begins.set()
            goes_on.wait(PATIENCE)
            return answer(event)

        monkeypatch.setattr(point.version, "answer", slow)
        point.decide("ann")
        assert begins.wait(PATIENCE)
        for _ in range(5):
            point.decide("ann")
        goes_on.set()
        wait_until(lambda: point.kinds.total() == 3)

    point = shadowed(work, queue=2)
    assert point.dropped == {"busy": 3}
    assert point.log.decisions == 6


def test_a_decision_that_waits_too_long_is_dropped() -> None:
    def work(point: Point) -> None:
        point.decide("ann")
        wait_until(lambda: point.dropped.total() == 1)

    assert shadowed(work, max_age=-1.0).dropped == {"late": 1}


def test_closing_the_sink_closes_the_log_and_leaves_the_shadow() -> None:
    def work(point: Point) -> None:
        point.pdp.close()
        assert point.log.is_closed
        point.decide("ann")
        wait_until(lambda: point.kinds.total() == 1)

    shadowed(work)


def test_a_server_counts_what_its_candidate_decides_otherwise(tmp_path: Path) -> None:
    for name, text in (("live", LIVE), ("candidate", CANDIDATE)):
        (tmp_path / f"{name}.rego").write_text(text)
    (tmp_path / "c.yaml").write_text(
        f"shadow: {{paths: [{tmp_path}/candidate.rego], share: 1.0, max_age_seconds: 60}}"
    )
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "doorward", "run", "--server", "--workers", "1"]
    command += ["--addr", address, "--config-file", str(tmp_path / "c.yaml")]
    server = subprocess.Popen([*command, str(tmp_path / "live.rego")], stderr=subprocess.DEVNULL)

    def answer(path: str, body: bytes | None = None) -> str:
        kind = {"content-type": "application/json"}
        request = urllib.request.Request(f"http://{address}{path}", body, kind)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                text: str = response.read().decode()
                return text
        except OSError:
            return ""

    try:
        wait_until(lambda: answer("/health") == "{}\n")
        assert '"result":true' in answer("/v1/data/app/allow", b'{"input": {"user": "ann"}}')
        expected = 'shadow_decisions_total{kind="new-deny"} 1.0'
        wait_until(lambda: expected in answer("/metrics"))
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE) == 0


def test_the_configuration_names_the_candidate() -> None:
    text = "shadow: {paths: [new/], share: 0.5, max_age_seconds: 2, queue: 7}"
    shadow = parse_config(text, environment={}).shadow
    assert shadow == ShadowOptions(("new/",), (), 0.5, 2.0, 7)
    assert parse_config("", environment={}).shadow is None


@pytest.mark.parametrize(
    "text",
    [
        "shadow: {}",
        "shadow: {paths: []}",
        "shadow: {paths: [a], share: 0}",
        "shadow: {paths: [a], share: 2}",
        "shadow: {paths: [a], max_age_seconds: 0}",
        "shadow: {paths: [a], queue: 0}",
    ],
)
def test_what_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="shadow"):
        parse_config(text, environment={})
