"""The control plane begins, changes and ends as a whole."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.control.test_bundles import Service as BundleService
from tests.control.test_bundles import archive
from tests.waiting import PATIENCE

from doorward.bundles.bundle import read_download
from doorward.bundles.loader import Loaded
from doorward.config.configuration import Config, ConfigError, parse_config
from doorward.config.services import Service
from doorward.control.answers import Answer, Client, ServiceError
from doorward.control.plane import Change, ControlPlane
from doorward.edge import Part, Parts
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.pdp.store import BusyError, Store
from doorward.rego import CompileError
from doorward.telemetry.health import Health


class Watched(Parts):
    """Parts that must be well from the moment on that they count."""

    def __init__(self) -> None:
        super().__init__()
        self.added: dict[str, str | None] = {}

    def add(self, part: Part) -> None:
        self.added[part.name] = part.problem
        super().add(part)


def test_no_part_is_dead_before_it_begins(tmp_path: Path) -> None:
    document = {
        "services": {"s": {"url": "http://s"}},
        "discovery": {"resource": "discovery"},
        "bundles": {"app": {"resource": "app.tar.gz"}},
        "status": {"service": "s"},
        "persistence_directory": str(tmp_path),
    }
    config, parts = parse_config(json.dumps(document), environment={}), Watched()
    store = Store(PDP(build(Loaded())), Loaded())
    plane = ControlPlane(config, store, Health(), transport=BundleService(), parts=parts)
    plane.start()
    plane.close()
    assert parts.added == {"status": None, "bundle-app": None, "discovery": None}


class Recorded:
    """A client that records the requests of a service until it is closed."""

    def __init__(self, service: Service, log: list[str]) -> None:
        self.service = service
        self._log = log
        self._name = f"{service.url}#{service.headers.get('x', '')}"
        self.is_closed = False

    def request(self, method: str, path: str, **_more: Any) -> Answer:
        if self.is_closed:
            raise ServiceError("shutting down")
        self._log.append(f"{method} {self._name}/{path}")
        return Answer(404, {}, b"")

    def close(self) -> None:
        self.is_closed = True
        self._log.append(f"close {self._name}")


class World:
    """A control plane whose steps and requests are recorded in `log`."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.refuses = False
        self.clients: list[Recorded] = []
        loaded = Loaded()
        self.pdp = PDP(build(loaded))
        self.store = Store(self.pdp, loaded)
        self.plane = ControlPlane(
            self.config(),
            self.store,
            Health(),
            prepare=self.prepare,
            client_for=self.client_for,
        )

    def config(self, version: str = "1", *bundles: str) -> Config:
        service = {"url": "http://s", "headers": {"x": version}}
        options = {name: {"service": "s", "trigger": "manual"} for name in bundles or ["a", "b"]}
        return parse_config(
            json.dumps({"services": {"s": service}, "bundles": options}), environment={}
        )

    def client_for(self, service: Service) -> Recorded:
        self.clients.append(Recorded(service, self.log))
        return self.clients[-1]

    def prepare(self, config: Config, clients: Mapping[str, Client]) -> Change:
        if self.refuses:
            raise ConfigError("refused")
        client = clients["s"]
        before = self.plane.clients["s"]

        def commit() -> None:
            self.log.append("commit")
            before.request("POST", "waiting")
            client.request("POST", "new")

        return Change(commit, abandon=lambda: self.log.append("abandon"))

    def activate(self) -> None:
        """Two bundles, of which the first needs the second."""
        a = {".manifest": {"roots": ["a"]}, "a.rego": "package a\n\np := data.b.f(1)\n"}
        b = {".manifest": {"roots": ["b"]}, "b.rego": "package b\n\nf(x) := x\n"}
        bundles = {
            name: read_download(name, archive(files)) for name, files in (("a", a), ("b", b))
        }
        self.store.activate(bundles)


def test_parts_send_with_the_clients_before_until_they_have_changed() -> None:
    world = World()
    world.plane.apply(world.config("2"))
    assert world.log == [
        "commit",
        "POST http://s#1/waiting",
        "POST http://s#2/new",
        "close http://s#1",
    ]
    assert [each.is_closed for each in world.clients] == [True, False]


def test_a_configuration_that_a_part_refuses_changes_nothing() -> None:
    world = World()
    before, clients = world.plane.config, dict(world.plane.clients)
    world.refuses = True
    with pytest.raises(ConfigError, match="refused"):
        world.plane.apply(world.config("2", "a"))
    assert (world.plane.config, world.plane.clients) == (before, clients)
    assert world.plane.bundles.statuses.keys() == {"a", "b"}
    assert [each.is_closed for each in world.clients] == [False, True]
    # It is refused each time, and can be applied later.
    world.refuses = False
    world.plane.apply(world.config("2", "a"))
    assert [each.is_closed for each in world.clients] == [True, True, False]


def test_a_bundle_that_others_need_keeps_the_configuration_before() -> None:
    world = World()
    world.activate()
    before, clients = world.plane.config, dict(world.plane.clients)
    with pytest.raises(CompileError, match=r"data\.b\.f"):
        world.plane.apply(world.config("2", "a"))
    assert world.log == ["abandon", "close http://s#2"]
    assert (world.plane.config, world.plane.clients) == (before, clients)
    assert world.plane.bundles.statuses.keys() == {"a", "b"}
    assert world.pdp.decide("a/p").result == 1


def test_changes_that_take_too_long_keep_the_configuration_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.activate()
    before = world.plane.config

    def refuse(_names: object) -> None:
        raise BusyError("try again")

    monkeypatch.setattr(world.store, "deactivate", refuse)
    with pytest.raises(ConfigError, match="bundles: try again"):
        world.plane.apply(world.config("1", "b"))
    assert world.plane.config is before
    assert world.log == ["abandon"]


def test_nothing_is_applied_after_the_end() -> None:
    world = World()
    world.plane.close()
    with pytest.raises(ConfigError, match="shutting down"):
        world.plane.apply(world.config("2"))
    assert world.log == ["close http://s#1"]


def test_the_end_waits_for_a_configuration_that_is_being_applied() -> None:
    world = World()
    begun, goes_on = threading.Event(), threading.Event()

    def commit() -> None:
        begun.set()
        assert goes_on.wait(PATIENCE)
        world.log.append("commit")

    plane = ControlPlane(
        world.config(),
        world.store,
        Health(),
        prepare=lambda _config, _clients: Change(commit),
        client_for=world.client_for,
    )
    applying = threading.Thread(target=plane.apply, args=(world.config("2"),))
    applying.start()
    assert begun.wait(PATIENCE)
    closing = threading.Thread(target=plane.close)
    closing.start()
    goes_on.set()
    applying.join(PATIENCE)
    closing.join(PATIENCE)
    assert world.log == ["commit", "close http://s#1", "close http://s#2"]
