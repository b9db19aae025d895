"""Nothing gets past the redirect: every bypass and what must come of it, in a real network.

The tests run in their order, and each leaves the pod as the next one says it needs it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.redirect.bypasses import (
    ADMIN_INTERFACE,
    APPLICATION,
    DECISION_POINT,
    EVERYONE,
    INSIDE,
    NOBODY,
    OUTSIDE,
    PORTS,
    READ_ARRIVES,
    REQUESTS,
    REST,
    Bypass,
)
from tests.redirect.conftest import Run
from tests.redirect.pod import INIT

DIRECT = [
    Bypass(
        name=origin, origin=origin, parts=(NOBODY,), statuses=(200,), arrives=READ_ARRIVES,
        why="without the redirect nothing stands in front of an application",
    )
    for origin in EVERYONE
]  # fmt: skip
PORTS_OF_THE_LAYER = (APPLICATION, ADMIN_INTERFACE, DECISION_POINT, REST)
NAMES = [bypass.name for bypass in (*PORTS, *REQUESTS)]


def verify(run: Run, *arguments: str) -> int:
    done = run.pod.network.pod.doorward(*INIT, *arguments, "--verify", check=False)
    return done.returncode


def check(run: Run, bypass: Bypass) -> None:
    statuses, arrivals = run.go(bypass)
    assert (statuses, arrivals) == (bypass.statuses, bypass.arrives), bypass.why


@pytest.mark.parametrize("bypass", DIRECT, ids=lambda bypass: bypass.name)
def test_before_the_init_step_the_application_is_open_and_verify_says_so(
    run: Run, bypass: Bypass
) -> None:
    assert verify(run) == 1
    check(run, bypass)


def test_the_init_step_closes_it_for_those_outside(run: Run) -> None:
    run.pod.init()
    assert verify(run) == 0
    for origin in OUTSIDE:
        check(run, Bypass(name="", why="its port leads to Envoy", origin=origin, parts=(NOBODY,)))


@pytest.mark.parametrize("origin", INSIDE)
def test_without_the_capture_of_loopback_a_neighbour_still_gets_past(run: Run, origin: str) -> None:
    assert verify(run, "--capture-loopback") == 1
    (bypass,) = (bypass for bypass in DIRECT if bypass.origin == origin)
    check(run, replace(bypass, why="loopback is not redirected unless asked for"))


def test_the_capture_of_loopback_closes_it_for_neighbours(run: Run) -> None:
    run.pod.init("--capture-loopback")
    assert verify(run, "--capture-loopback") == 0
    for origin in INSIDE:
        check(run, Bypass(name="", why="its port leads to Envoy", origin=origin, parts=(NOBODY,)))


@pytest.mark.parametrize("bypass", PORTS, ids=lambda bypass: bypass.name)
def test_every_port_leads_to_envoy(run: Run, bypass: Bypass) -> None:
    check(run, bypass)


@pytest.mark.parametrize("bypass", REQUESTS, ids=lambda bypass: bypass.name)
def test_no_request_gets_past(run: Run, bypass: Bypass) -> None:
    check(run, bypass)


@pytest.mark.parametrize("bypass", REQUESTS, ids=lambda bypass: bypass.name)
def test_no_request_of_a_neighbour_gets_past_either(run: Run, bypass: Bypass) -> None:
    check(run, replace(bypass, origin="neighbour6"))


def test_a_dead_decision_point_lets_nothing_through(run: Run) -> None:
    run.pod.kill_pdp()
    try:
        for bypass in PORTS:
            if bypass.port in PORTS_OF_THE_LAYER:
                check(run, replace(bypass, statuses=(403,), arrives=(), why=bypass.name))
    finally:
        run.pod.start_pdp()


def test_a_dead_envoy_lets_nothing_through(run: Run) -> None:
    run.pod.kill_envoy()
    before = run.pod.arrivals()
    try:
        for bypass in PORTS:
            if bypass.port in PORTS_OF_THE_LAYER:
                with pytest.raises(ConnectionRefusedError):
                    run.go(bypass)
        assert run.pod.arrivals() == before
    finally:
        run.pod.start_envoy()


def test_all_of_it_works_again_by_itself(run: Run) -> None:
    for bypass in PORTS:
        if bypass.port == APPLICATION:
            check(run, bypass)


def test_a_half_removed_redirect_is_seen(run: Run) -> None:
    run.pod.network.pod.run("nft", "delete table ip6 doorward")
    assert verify(run, "--capture-loopback") == 1
    check(run, next(bypass for bypass in DIRECT if bypass.origin == "client6"))
    run.pod.init("--capture-loopback")
    assert verify(run, "--capture-loopback") == 0


@pytest.mark.parametrize("bypass", DIRECT, ids=lambda bypass: bypass.name)
def test_after_the_redirect_was_removed_the_application_is_open_and_verify_says_so(
    run: Run, bypass: Bypass
) -> None:
    run.pod.remove_redirect()
    assert verify(run) == 1
    check(run, bypass)


def test_ways_have_names_of_their_own() -> None:
    assert len(set(NAMES)) == len(NAMES)
