"""Only OK is up."""

from __future__ import annotations

import pytest

from doorward.edge import Part
from doorward.telemetry import health as health_module
from doorward.telemetry.health import POLICIES, Health, State


@pytest.mark.parametrize("state", [State.NOT_READY, State.WARN, State.ERROR])
def test_a_part_that_is_not_ok_is_down(state: State) -> None:
    health = Health()
    health.set("envoy", state)
    assert health.down() == ("envoy",)
    assert health.down(exclude=["envoy"]) == ()
    health.set("envoy", State.OK)
    assert health.down() == ()


@pytest.mark.parametrize("error", ["broken", None])
def test_the_last_reload_is_remembered(error: str | None) -> None:
    health = Health()
    health.reloaded("an earlier one")
    health.reloaded(error)
    assert health.reload_error == error


def test_reloads_that_fail_for_long_make_the_policies_a_part_that_is_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(health_module, "monotonic", lambda: now)
    health = Health(patience=60)
    health.reloaded("broken")
    now += 50
    health.reloaded("broken in another way")
    assert health.down() == ()
    now += 20
    assert health.down() == (POLICIES,)
    assert health.down(exclude=[POLICIES]) == ()
    health.reloaded(None)
    assert health.down() == ()
    health.reloaded("broken again")
    assert health.down() == ()


def test_a_thread_that_is_not_at_work_is_down() -> None:
    health = Health()
    part = Part("policy-watch", within=1)
    health.parts.add(part)
    assert (health.down(), health.stopped) == ((), ())
    for _ in range(3):
        part.failed()
    down = (("policy-watch",), (("policy-watch", "failing"),))
    assert (health.down(), health.stopped) == down
