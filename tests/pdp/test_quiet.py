"""One line for each reason and interval, and a count of those left out."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from doorward.pdp import quiet
from doorward.pdp.quiet import Quiet


def test_the_first_line_is_written_and_the_next_are_counted() -> None:
    lines = Quiet(0.05)
    assert [lines.left_out("a") for _ in range(4)] == [0, None, None, None]
    assert lines.left_out("b") == 0
    time.sleep(0.06)
    assert lines.left_out("a") == 3
    assert lines.left_out("a") is None


def test_no_line_is_lost_between_threads() -> None:
    lines = Quiet(0.05)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: lines.left_out("a"), range(4000)))
    time.sleep(0.06)
    found.append(lines.left_out("a"))
    written = [count for count in found if count is not None]
    assert sum(written) + len(written) == 4001


def test_reasons_without_end_are_not_remembered() -> None:
    lines = Quiet(60.0)
    for number in range(3 * quiet.MAX_REASONS):
        assert lines.left_out(str(number)) == 0
    assert len(vars(lines)["_reasons"]) <= quiet.MAX_REASONS
