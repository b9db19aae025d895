"""Lists as of this moment: the clock is a parameter of what is kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from doorward.enforcement.rows import conditions_of_rows
from doorward.filters import FilterError, to_sql
from doorward.pdp import DecisionPoint, from_modules

EXPIRES = "time.parse_rfc3339_ns(input.docs.expires_at)"


def clause(point: DecisionPoint) -> Any:
    conditions = conditions_of_rows(
        point.snapshot, point.pdp.build_gate, "f/allow", ["input.docs"], {}
    )
    return to_sql(conditions, {"docs": {"expires_at": "moment"}}, "postgresql")


@pytest.mark.parametrize(
    ("body", "hours"),
    [
        (f"{EXPIRES} > time.now_ns()", 0),
        (f"not {EXPIRES} < time.now_ns()", 0),
        (f"now := time.now_ns(); {EXPIRES} >= now", 0),
        (f"{EXPIRES} > time.now_ns() - 3600000000000", -1),
    ],
)
def test_the_clock_is_a_parameter_of_lists(body: str, hours: int) -> None:
    with from_modules({"f.rego": f"package f\nallow if {{ {body} }}"}) as point:
        before = datetime.now(UTC) + timedelta(hours=hours)
        moments = [clause(point).parameters[-1] for _ in range(2)]
        after = datetime.now(UTC) + timedelta(hours=hours)
        assert before - timedelta(milliseconds=1) <= moments[0] < moments[1] <= after
        assert point.snapshot.kept_residuals.counts.hits == 1


def test_tokens_that_expire_are_verified_for_each_list() -> None:
    body = 'io.jwt.decode_verify("x.y.z", {"secret": "s"})[0]'
    with from_modules({"f.rego": f"package f\nallow if {body}"}) as point:
        assert clause(point).text == "0 = 1"


def test_what_cannot_be_a_filter_at_any_time_is_an_error() -> None:
    body = f"{EXPIRES} + time.now_ns() > 5"
    with (
        from_modules({"f.rego": f"package f\nallow if {body}"}) as point,
        pytest.raises(FilterError, match="plus"),
    ):
        clause(point)
