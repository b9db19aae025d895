"""A discovered configuration is followed as a whole, and the one of the file wins over it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.control.test_bundles import Service, archive

from doorward.bundles.loader import Loaded
from doorward.config.bundle_options import MAX_BUNDLES
from doorward.config.configuration import Config, ConfigError, parse_config
from doorward.control.bundle_status import BundleStatus
from doorward.control.plane import Change, ControlPlane
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.pdp.store import Store
from doorward.telemetry.health import Health, State


class World:
    def __init__(self, folder: Path, **config: Any) -> None:
        self.service = Service()
        text = json.dumps(
            {
                "services": {"s": {"url": "http://s"}},
                "discovery": {"resource": "bundles/discovery", "persist": True},
                "persistence_directory": str(folder),
                **config,
            }
        )
        loaded = Loaded()
        self.pdp = PDP(build(loaded))
        self.health = Health()
        self.configs: list[Config] = []
        self.plane = ControlPlane(
            parse_config(text, environment={}),
            Store(self.pdp, loaded),
            self.health,
            transport=self.service,
            environment={"HOST": "b"},
            prepare=lambda config, _: Change(commit=lambda: self.configs.append(config)),
        )

    def discover(self, document: Any) -> str:
        """What is wrong with a document that is discovered."""
        self.service.bundles["/bundles/discovery"] = archive({"data.json": document})
        assert self.plane.discovery is not None
        self.plane.discovery.poll()
        return self.plane.discovery.status.message


def test_bundles_come_and_go_with_the_configuration(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.service.put("b", {"data.json": {"x": 1}})
    assert world.health.states["discovery"] is State.NOT_READY
    assert world.discover({"bundles": {"app": {"resource": "bundles/${HOST}"}}}) == ""
    assert world.health.states == {"discovery": State.OK, "bundle": State.NOT_READY}
    world.plane.bundles.poll("app")
    assert world.pdp.decide("x").result == 1
    assert world.health.states["bundle"] is State.OK
    assert world.discover({"default_decision": "/a/b"}) == ""
    assert world.configs[-1].default_decision == "a/b"
    # Without a word of bundles they stay, as in OPA, and go on being fetched.
    assert world.pdp.snapshot.bundles == {"app": {}}
    world.service.put("b", {"data.json": {"x": 2}})
    world.plane.bundles.poll("app")
    assert world.pdp.decide("x").result == 2
    assert world.discover({"bundles": {}, "default_decision": "/a/b"}) == ""
    assert world.pdp.snapshot.bundles == {}
    # The next start begins with what was discovered last.
    again = World(tmp_path)
    assert again.plane.discovery is not None
    again.plane.discovery.activate_saved()
    assert again.plane.config.default_decision == "a/b"


def test_bundles_that_stay_keep_their_service(tmp_path: Path) -> None:
    world = World(tmp_path, discovery={"resource": "bundles/discovery", "service": "s"})
    world.service.put("b", {"data.json": {"x": 1}})
    bundles = {"app": {"service": "t", "resource": "bundles/b"}}
    services = {"t": {"url": "http://t"}}
    assert world.discover({"services": services, "bundles": bundles}) == ""
    world.plane.bundles.poll("app")
    assert world.discover({"default_decision": "/a/b"}) == ""
    world.service.put("b", {"data.json": {"x": 2}})
    world.plane.bundles.poll("app")
    assert world.pdp.decide("x").result == 2


def test_what_the_file_says_wins(tmp_path: Path) -> None:
    world = World(tmp_path, default_decision="/mine", labels={"a": "mine"})
    assert world.discover({"default_decision": "/a/b", "labels": {"a": "b", "c": "d"}}) == ""
    assert world.plane.config.default_decision == "mine"
    assert world.plane.config.labels == {"a": "mine", "c": "d"}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"services": {"s": {"url": "http://evil"}}}, "updates to the discovery service"),
        ({"bundles": {"a": {"service": "z"}}}, 'service name "z" not found'),
        ({"keys": {"k": {"key": "other", "algorithm": "HS256"}}}, "updates to keys"),
    ],
)
def test_what_cannot_be_followed_leaves_the_one_before(
    document: Any, message: str, tmp_path: Path
) -> None:
    world = World(tmp_path, keys={"k": {"key": "secret", "algorithm": "HS256"}})
    assert world.discover({"default_decision": "/a"}) == ""
    assert message in world.discover(document)
    assert world.plane.config.default_decision == "a"
    # It is asked for again, and a good one is followed.
    assert world.discover({"default_decision": "/c"}) == ""
    assert world.plane.config.default_decision == "c"


def test_a_reload_of_the_file_is_followed_but_not_another_discovery(tmp_path: Path) -> None:
    world = World(tmp_path)
    boot = world.plane.config
    other = parse_config("services: {s: {url: http://s}}", environment={})
    with pytest.raises(ConfigError, match="`discovery` cannot change"):
        world.plane.reload(other)
    assert world.plane.config is boot


def test_a_reload_at_the_end_of_a_round_is_followed_by_the_next(tmp_path: Path) -> None:
    world = World(tmp_path)
    discovery, reloads = world.plane.discovery, [world.plane.config]
    assert discovery is not None
    note = discovery._on_change

    def reload(status: BundleStatus) -> None:
        note(status)
        if reloads and status.last_successful_activation:
            world.plane.reload(replace(reloads.pop(), labels={"app": "after"}))

    discovery._on_change = reload
    assert world.discover({"default_decision": "/a/b"}) == ""
    discovery.poll()
    assert [each.labels.get("app") for each in world.configs] == [None, "after"]
    # Only once: what is active is not applied again.
    discovery.poll()
    assert len(world.configs) == 2


def test_more_bundles_than_there_may_be_leave_the_ones_in_force(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.service.put("b", {"data.json": {"x": 1}})
    assert world.discover({"bundles": {"app": {"resource": "bundles/b"}}}) == ""
    world.plane.bundles.poll("app")
    many = {f"b{number}": {"resource": "bundles/b"} for number in range(MAX_BUNDLES + 1)}
    assert world.discover({"bundles": many}).endswith("bundles must contain at most 1000 bundles")
    assert world.pdp.decide("x").result == 1


def test_a_configuration_that_arrives_after_the_end_is_ignored(tmp_path: Path) -> None:
    world = World(tmp_path)
    discovery = world.plane.discovery
    assert discovery is not None
    handle_request = world.service.handle_request

    def close_first(request: httpx.Request) -> httpx.Response:
        discovery.close()
        return handle_request(request)

    world.service.handle_request = close_first  # type: ignore[method-assign]
    assert world.discover({"default_decision": "/a/b"}) == ""
    assert not discovery.is_ready
    assert world.configs == []


def test_a_bundle_named_discovery_is_not_the_configuration_of_the_next_start(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    world.service.put("b", {"data.json": {"default_decision": "/of/the/bundle"}})
    bundles = {"discovery": {"resource": "bundles/b", "persist": True}}
    assert world.discover({"bundles": bundles, "default_decision": "/a/b"}) == ""
    world.plane.bundles.poll("discovery")
    assert world.pdp.decide("default_decision").result == "/of/the/bundle"
    again = World(tmp_path)
    assert again.plane.discovery is not None
    again.plane.discovery.activate_saved()
    assert again.plane.config.default_decision == "a/b"
    again.service.bundles.clear()
    again.plane.bundles.start()
    again.plane.bundles.close()
    assert again.pdp.decide("default_decision").result == "/of/the/bundle"


def test_a_document_that_cannot_be_evaluated_has_its_error_as_message(tmp_path: Path) -> None:
    world = World(tmp_path, discovery={"resource": "bundles/discovery", "decision": "config"})
    module = "package config\n\nlabels := {1} if true\n\nlabels := {2} if true\n"
    world.service.bundles["/bundles/discovery"] = archive({"a.rego": module})
    assert world.plane.discovery is not None
    world.plane.discovery.poll()
    assert "eval_conflict_error" in world.plane.discovery.status.message
    assert world.plane.discovery.status.diagnostics == ()
