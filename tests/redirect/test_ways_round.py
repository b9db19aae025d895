"""Nothing gets past the redirect: every way round and what must come of it, in a real network.

The tests run in their order, and each leaves the pod as the next one says it needs it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.redirect.conftest import Run
from tests.redirect.pod import INIT
from tests.redirect.ways import (
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
    Way,
)

pytestmark = pytest.mark.xdist_group("redirect")

DIRECT = [
    Way(
        name=place, place=place, parts=(NOBODY,), statuses=(200,), arrives=READ_ARRIVES,
        why="without the redirect nothing stands in front of an application",
    )
    for place in EVERYONE
]  # fmt: skip
PORTS_OF_THE_LAYER = (APPLICATION, ADMIN_INTERFACE, DECISION_POINT, REST)
NAMES = [way.name for way in (*PORTS, *REQUESTS)]


def verify(run: Run, *arguments: str) -> int:
    done = run.pod.network.pod.doorward(*INIT, *arguments, "--verify", check=False)
    return done.returncode


def check(run: Run, way: Way) -> None:
    statuses, arrivals = run.go(way)
    assert (statuses, arrivals) == (way.statuses, way.arrives), way.why


@pytest.mark.parametrize("way", DIRECT, ids=lambda way: way.name)
def test_before_the_init_step_the_application_is_open_and_verify_says_so(
    run: Run, way: Way
) -> None:
    assert verify(run) == 1
    check(run, way)


def test_the_init_step_closes_it_for_those_outside(run: Run) -> None:
    run.pod.init()
    assert verify(run) == 0
    for place in OUTSIDE:
        check(run, Way(name="", why="its port leads to Envoy", place=place, parts=(NOBODY,)))


@pytest.mark.parametrize("place", INSIDE)
def test_without_the_capture_of_loopback_a_neighbour_still_gets_past(run: Run, place: str) -> None:
    assert verify(run, "--capture-loopback") == 1
    (way,) = (way for way in DIRECT if way.place == place)
    check(run, replace(way, why="loopback is not redirected unless asked for"))


def test_the_capture_of_loopback_closes_it_for_neighbours(run: Run) -> None:
    run.pod.init("--capture-loopback")
    assert verify(run, "--capture-loopback") == 0
    for place in INSIDE:
        check(run, Way(name="", why="its port leads to Envoy", place=place, parts=(NOBODY,)))


@pytest.mark.parametrize("way", PORTS, ids=lambda way: way.name)
def test_every_port_leads_to_envoy(run: Run, way: Way) -> None:
    check(run, way)


@pytest.mark.parametrize("way", REQUESTS, ids=lambda way: way.name)
def test_no_request_gets_past(run: Run, way: Way) -> None:
    check(run, way)


@pytest.mark.parametrize("way", REQUESTS, ids=lambda way: way.name)
def test_no_request_of_a_neighbour_gets_past_either(run: Run, way: Way) -> None:
    check(run, replace(way, place="neighbour6"))


def test_a_dead_decision_point_lets_nothing_through(run: Run) -> None:
    run.pod.kill_pdp()
    try:
        for way in PORTS:
            if way.port in PORTS_OF_THE_LAYER:
                check(run, replace(way, statuses=(403,), arrives=(), why=way.name))
    finally:
        run.pod.start_pdp()


def test_a_dead_envoy_lets_nothing_through(run: Run) -> None:
    run.pod.kill_envoy()
    before = run.pod.arrivals()
    try:
        for way in PORTS:
            if way.port in PORTS_OF_THE_LAYER:
                with pytest.raises(ConnectionRefusedError):
                    run.go(way)
        assert run.pod.arrivals() == before
    finally:
        run.pod.start_envoy()


def test_all_of_it_works_again_by_itself(run: Run) -> None:
    for way in PORTS:
        if way.port == APPLICATION:
            check(run, way)


def test_a_half_removed_redirect_is_seen(run: Run) -> None:
    run.pod.network.pod.run("nft", "delete table ip6 doorward")
    assert verify(run, "--capture-loopback") == 1
    check(run, next(way for way in DIRECT if way.place == "client6"))
    run.pod.init("--capture-loopback")
    assert verify(run, "--capture-loopback") == 0


@pytest.mark.parametrize("way", DIRECT, ids=lambda way: way.name)
def test_after_the_redirect_was_removed_the_application_is_open_and_verify_says_so(
    run: Run, way: Way
) -> None:
    run.pod.remove_redirect()
    assert verify(run) == 1
    check(run, way)


def test_ways_have_names_of_their_own() -> None:
    assert len(set(NAMES)) == len(NAMES)
