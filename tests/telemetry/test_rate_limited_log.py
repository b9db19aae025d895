"""One line for each reason and interval, and a count of those left out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from doorward.telemetry import rate_limited_log
from doorward.telemetry.rate_limited_log import RateLimitedLog


class Clock:
    """The time, as the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(rate_limited_log, "monotonic", lambda: self.now)


def test_the_first_line_is_written_and_the_next_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, lines = Clock(monkeypatch), RateLimitedLog(0.5)
    assert [lines.suppressed("a") for _ in range(4)] == [0, None, None, None]
    assert lines.suppressed("b") == 0
    clock.now += 0.6
    assert lines.suppressed("a") == 3
    assert lines.suppressed("a") is None


def test_no_line_is_lost_between_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, lines = Clock(monkeypatch), RateLimitedLog(0.5)
    with ThreadPoolExecutor(8) as threads:
        actual = list(threads.map(lambda _: lines.suppressed("a"), range(4000)))
    clock.now += 0.6
    actual.append(lines.suppressed("a"))
    written = [count for count in actual if count is not None]
    assert sum(written) + len(written) == 4001


def test_reasons_without_end_are_not_remembered() -> None:
    lines = RateLimitedLog(60.0)
    for number in range(3 * rate_limited_log.MAX_REASONS):
        assert lines.suppressed(str(number)) == 0
    assert len(vars(lines)["_reasons"]) <= rate_limited_log.MAX_REASONS
