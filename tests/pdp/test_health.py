"""Only OK is up."""

from __future__ import annotations

import pytest

from doorward.pdp.health import Health, State


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
