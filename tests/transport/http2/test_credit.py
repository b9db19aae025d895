"""Frames that ask for nothing are paid with a credit that grows up to its beginning, no further."""

from __future__ import annotations

import pytest

from doorward.transport.http2.codes import Http2Error
from doorward.transport.http2.credit import Credit
from doorward.transport.http2.limits import Limits

LIMITS = Limits(credit=100, credit_per_second=10, credit_per_request=3)


def affordable(credit: Credit, now: float) -> int:
    """The frames that may arrive at once."""
    for count in range(10 * LIMITS.credit):
        try:
            credit.charge(1, now)
        except Http2Error:
            return count
    return 10 * LIMITS.credit


def test_a_connection_begins_with_the_whole_credit() -> None:
    assert affordable(Credit(LIMITS, 0.0), 0.0) == 100


@pytest.mark.parametrize("seconds", [20.0, 1_000.0, 1_000_000.0])
def test_time_restores_the_credit_and_no_more(seconds: float) -> None:
    credit = Credit(LIMITS, 0.0)
    affordable(credit, 0.0)
    assert 100 <= affordable(credit, seconds) <= 102
    assert affordable(credit, seconds) <= 1


def test_a_connection_that_did_nothing_for_long_has_no_more() -> None:
    assert affordable(Credit(LIMITS, 0.0), 1_000_000.0) <= 2 * 100 + 1


def test_requests_restore_the_credit_and_no_more() -> None:
    credit = Credit(LIMITS, 0.0)
    for _ in range(10_000):
        credit.earn()
    assert 100 <= affordable(credit, 0.0) <= 100 + LIMITS.credit_per_request
