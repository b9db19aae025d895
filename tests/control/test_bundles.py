"""Bundles go into force as a whole or not at all, and together where they need each other."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.bundles.archives import member
from tests.waiting import wait_until

from doorward.bundles.loader import Loaded
from doorward.bundles.signatures import Key, Verification
from doorward.config.configuration import parse_config
from doorward.control.bundle_metrics import BundleMetrics
from doorward.control.bundle_status import BundleStatus
from doorward.control.bundles import Bundles, backoff
from doorward.control.client import ServiceClient
from doorward.control.saved_bundles import SavedBundles
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.pdp.store import BusyError, Store
from doorward.rego import UNDEFINED
from doorward.telemetry.metrics import Metrics


def archive(files: Mapping[str, Any]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in files.items():
            text = content if isinstance(content, str) else json.dumps(content)
            info, encoded = member(name, text)
            tar.addfile(info, io.BytesIO(encoded))
    return gzip.compress(stream.getvalue(), mtime=0)


class Service(httpx.BaseTransport):
    """Serves what is in `bundles` at the moment, with ETags."""

    def __init__(self) -> None:
        self.bundles: dict[str, bytes] = {}

    def put(self, name: str, files: Mapping[str, Any]) -> None:
        self.bundles[f"/bundles/{name}"] = archive(files)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        content = self.bundles.get(request.url.path)
        if content is None:
            return httpx.Response(404)
        etag = f'"{hash(content)}"'
        if request.headers.get("if-none-match") == etag:
            return httpx.Response(304)
        return httpx.Response(200, headers={"etag": etag}, content=content)


class World:
    def __init__(self, *names: str, folder: Path | None = None, **more: Any) -> None:
        self.service = Service()
        options = {name: {"service": "s", **more} for name in names}
        text = json.dumps({"services": {"s": {"url": "http://s"}}, "bundles": options})
        config = parse_config(text, environment={})
        loaded = Loaded({"own.rego": "package own\n\np := 1\n"}, {"kept": 1})
        self.pdp = PDP(build(loaded))
        self.store = Store(self.pdp, loaded)
        saved = None if folder is None else SavedBundles(str(folder))
        self.bundles = Bundles(self.store, saved=saved)
        client = ServiceClient(config.services["s"], transport=self.service)
        self.clients = {"s": client}
        self.options = config.bundles
        self.bundles.configure(self.options, self.clients, starts=False)

    def value(self, path: str) -> Any:
        return self.pdp.decide(path, {}).result

    def message(self, name: str) -> str:
        return self.bundles.statuses[name].message


def test_two_bundles_that_need_each_other_go_into_force_at_once() -> None:
    world = World("one", "two")
    world.service.put(
        "one", {".manifest": {"roots": ["a"]}, "p.rego": "package a\n\np := data.b.f(1)\n"}
    )
    world.service.put("two", {".manifest": {"roots": ["b"]}, "p.rego": "package b\n\nf(x) := x\n"})
    world.bundles.poll("one")
    assert "error(s) occurred" in world.message("one")
    assert world.value("a/p") == UNDEFINED
    world.bundles.poll("two")
    assert world.value("a/p") == 1
    assert world.bundles.is_ready
    # Each new version is wrong with the other's old one.
    world.service.put(
        "one", {".manifest": {"roots": ["a"]}, "p.rego": "package a\n\np := data.b.g(1)\n"}
    )
    world.service.put(
        "two", {".manifest": {"roots": ["b"]}, "p.rego": "package b\n\ng(x) := x + 1\n"}
    )
    world.bundles.poll("one")
    assert world.value("a/p") == 1
    world.bundles.poll("two")
    assert world.value("a/p") == 2
    assert not world.bundles.failing


def needing_each_other(world: World) -> None:
    """Serve the bundles `one` and `two`, and download `one`, which is refused without `two`."""
    one = {".manifest": {"roots": ["a"]}, "p.rego": "package a\n\np := data.b.f(1)\n"}
    two = {".manifest": {"roots": ["b"]}, "p.rego": "package b\n\nf(x) := x\n"}
    world.service.put("one", one)
    world.service.put("two", two)
    world.bundles.poll("one")
    assert "error(s) occurred" in world.message("one")


def test_a_bundle_that_another_one_made_valid_is_there_at_the_next_start(tmp_path: Path) -> None:
    world = World("one", "two", folder=tmp_path, persist=True)
    needing_each_other(world)
    world.bundles.poll("two")
    assert world.value("a/p") == 1
    again = World("one", "two", folder=tmp_path, persist=True)
    assert again.value("a/p") == 1


def test_a_bundle_refused_under_other_options_is_not_activated_by_another_one() -> None:
    world = World("one", "two")
    needing_each_other(world)
    # As when its key is revoked, or it is to come from another service.
    verification = Verification(keys={"new": Key("secret", "HS256")}, key_id="new")
    changed = replace(world.options["one"], verification=verification)
    options = {**world.options, "one": changed}
    world.bundles.configure(options, world.clients, starts=False)
    world.bundles.poll("two")
    assert world.value("a/p") == UNDEFINED
    assert set(world.store.bundles) == {"two"}
    world.bundles.poll("one")
    assert "bundle missing .signatures.json file" in world.message("one")
    world.bundles.configure(world.options, world.clients, starts=False)
    world.bundles.poll("one")
    assert world.value("a/p") == 1


def test_what_files_and_clients_define_lives_beside_bundles_outside_of_their_roots() -> None:
    world = World("one")
    world.store.put(("a", "by_client"), 1)
    world.store.put(("free",), 2)
    world.store.put_policy("client.rego", "package a.more\n\nq := 3\n")
    files = {".manifest": {"roots": ["a"]}, "a/data.json": {"x": 1}}
    world.service.put("one", files)
    world.bundles.poll("one")
    assert world.value("") == {"a": {"x": 1}, "free": 2, "kept": 1, "own": {"p": 1}}
    world.bundles.configure({}, world.clients, starts=False)
    assert world.value("") == {"free": 2, "kept": 1, "own": {"p": 1}}


def test_bundles_that_cannot_be_removed_are_still_polled(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World("one", "two")
    for name in ("one", "two"):
        world.service.put(name, {".manifest": {"roots": [name]}, "data.json": {name: 1}})
        world.bundles.poll(name)

    def refuse(_names: object) -> None:
        raise BusyError("earlier changes took longer than 30 seconds")

    with monkeypatch.context() as patches:
        patches.setattr(world.store, "deactivate", refuse)
        with pytest.raises(BusyError):
            world.bundles.configure({}, world.clients, starts=False)
    world.service.put("one", {".manifest": {"roots": ["one"]}, "data.json": {"one": 2}})
    world.bundles.poll("one")
    assert world.value("") == {"kept": 1, "own": {"p": 1}, "one": 2, "two": 1}
    world.bundles.configure({}, world.clients, starts=False)
    assert world.value("") == {"kept": 1, "own": {"p": 1}}


class TakenFirst:
    """A lock that is taken by `first` right before anybody else gets it for the first time."""

    def __init__(self, lock: AbstractContextManager[Any], first: Callable[[], object]) -> None:
        self.lock = lock
        self.waiting = [first]

    def __enter__(self) -> None:
        while self.waiting:
            self.waiting.pop()()
        self.lock.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.lock.__exit__(*error)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_round_brings_nothing_of_a_bundle_removed_while_it_waits(
    is_there: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World("one")
    if is_there:
        world.service.put("one", {"data.json": {"x": 1}})

    def remove() -> None:
        world.bundles.configure({}, world.clients, starts=False)

    monkeypatch.setattr(world.bundles, "_lock", TakenFirst(world.bundles._lock, remove))
    world.bundles.poll("one")
    assert world.bundles.statuses == {}
    assert world.store.bundles == {}
    assert world.value("") == {"kept": 1, "own": {"p": 1}}
    assert caplog.messages == []


def test_overlapping_roots_and_data_that_is_there_already_are_refused() -> None:
    world = World("one", "two", "three")
    world.service.put("one", {".manifest": {"roots": ["a"]}, "a/data.json": {"x": 1}})
    world.service.put("two", {".manifest": {"roots": ["a/b"]}, "a/b/data.json": {"x": 1}})
    world.service.put("three", {".manifest": {"roots": ["kept"]}, "kept/data.json": {"x": 1}})
    for name in ("one", "two", "three"):
        world.bundles.poll(name)
    assert "(a overlaps a/b)" in world.message("two")
    assert "two files or bundles define `kept`" in world.message("three")
    assert world.value("a") == {"x": 1}


def test_a_delta_bundle_changes_data_and_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World("one")
    manifest = {"revision": "1", "roots": ["a"]}
    rego = "package a.rules\n\nallow if data.a.users[input.user]\n"
    world.service.put("one", {".manifest": manifest, "p.rego": rego, "a/data.json": {"users": {}}})
    world.bundles.poll("one")
    before = world.pdp.snapshot
    monkeypatch.setattr("doorward.pdp.store.build", None)
    patch = {"data": [{"op": "upsert", "path": "/a/users/ann", "value": True}]}
    world.service.put("one", {".manifest": {**manifest, "revision": "2"}, "patch.json": patch})
    world.bundles.poll("one")
    assert not world.bundles.failing
    assert world.pdp.decide("a/rules/allow", {"user": "ann"}).result is True
    assert world.pdp.snapshot.bundles == {"one": {"revision": "2"}}
    assert before.engine.data["a"] == {"users": {}}
    assert world.bundles.statuses["one"].type == "delta"
    monkeypatch.undo()
    # What was changed by it is there after the next change of files as well.
    world.store.load(Loaded({}, {"other": 1}))
    assert world.pdp.decide("a/rules/allow", {"user": "ann"}).result is True


def delta(*operations: Mapping[str, Any], roots: Sequence[str] = ("blocked",)) -> World:
    """Who is blocked, changed by a delta bundle."""
    world = World("one")
    manifest = {"roots": roots}
    world.service.put("one", {".manifest": manifest, "blocked/data.json": {"eve": True, "a": {}}})
    world.bundles.poll("one")
    world.service.put("one", {".manifest": manifest, "patch.json": {"data": operations}})
    world.bundles.poll("one")
    return world


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/blocked/org~1ann", "org/ann"),
        ("blocked/~0ann/", "~ann"),
        ("/blocked/~01", "~1"),
        ("/blocked/org%2Fann", "org/ann"),
        ("/blocked/org%7E1ann", "org/ann"),
        ("/blocked/a%20b", "a b"),
        ("/blocked/a%zz%20b", "a%zz%20b"),
    ],
)
def test_a_delta_names_keys_as_json_pointers_do(path: str, key: str) -> None:
    world = delta({"op": "upsert", "path": path, "value": True})
    assert not world.bundles.failing
    assert world.value("blocked") == {"eve": True, "a": {}, key: True}
    world = delta({"op": "upsert", "path": path, "value": True}, {"op": "remove", "path": path})
    assert world.value("blocked") == {"eve": True, "a": {}}
    world = delta(
        {"op": "upsert", "path": path, "value": True},
        {"op": "replace", "path": path, "value": False},
    )
    assert world.value("blocked") == {"eve": True, "a": {}, key: False}


@pytest.mark.parametrize("operator", ["upsert", "replace", "remove"])
@pytest.mark.parametrize(
    "path", ["/other/x", "/blockedx", "/", "", "/blocked%2Fx", "/blocked~1x", "/other"]
)
def test_a_delta_changes_nothing_outside_its_roots(operator: str, path: str) -> None:
    world = delta(
        {"op": "upsert", "path": "/blocked/new", "value": True},
        {"op": operator, "path": path, "value": {}},
    )
    assert "do not permit data patch at path" in world.message("one")
    assert world.value("blocked") == {"eve": True, "a": {}}


@pytest.mark.long
def test_a_delta_costs_what_it_changes() -> None:
    world = World("one")
    users = {str(n): {"id": n, "roles": ["a", "b"], "x": {"y": n}} for n in range(50_000)}
    world.service.put("one", {".manifest": {"roots": ["users"]}, "users/data.json": users})
    world.bundles.poll("one")
    started = time.process_time()
    for n in range(50):
        patch = {"data": [{"op": "replace", "path": f"/users/{n}/id", "value": -1}]}
        world.service.put("one", {".manifest": {"roots": ["users"]}, "patch.json": patch})
        world.bundles.poll("one")
    assert not world.bundles.failing
    # A millisecond or two each; to load it again takes hundreds.
    assert time.process_time() - started < 5
    assert world.value("users/49/id") == -1


def test_the_last_good_bundle_is_there_at_the_next_start(tmp_path: Path) -> None:
    world = World("a b/c", folder=tmp_path, persist=True)
    world.service.put("a b/c", {"data.json": {"x": 1}})
    world.service.bundles = {"/bundles/a%20b/c": next(iter(world.service.bundles.values()))}
    world.service.bundles["/bundles/a b/c"] = world.service.bundles["/bundles/a%20b/c"]
    world.bundles.poll("a b/c")
    assert (tmp_path / "bundles/a b/c/bundle.tar.gz").stat().st_mode & 0o777 == 0o600
    again = World("a b/c", folder=tmp_path, persist=True)
    assert again.value("x") == 1
    assert again.bundles.is_ready
    # A broken one is said, and nothing of it is used.
    (tmp_path / "bundles/a b/c/bundle.tar.gz").write_bytes(b"broken")
    broken = World("a b/c", folder=tmp_path, persist=True)
    assert not broken.bundles.is_ready
    assert "bundle read failed" in broken.message("a b/c")


def test_a_bundle_that_cannot_be_kept_decides_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "bundles").write_text("a file where a folder should be")
    world = World("one", folder=tmp_path, persist=True)
    world.service.put("one", {"data.json": {"x": 1}})
    world.bundles.poll("one")
    assert world.value("x") == 1


def test_a_fault_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World("one")
    world.service.put("one", {"data.json": {"x": 1}})

    def fail(*_: object, **__: object) -> None:
        raise LookupError

    monkeypatch.setattr(world.store, "activate", fail)
    world.bundles.poll("one")
    assert world.message("one") == "internal error (LookupError)"


def test_threads_ask_until_they_are_told_to_stop() -> None:
    world = World("one", polling={"min_delay_seconds": 0, "max_delay_seconds": 0})
    world.service.put("one", {"data.json": {"x": 1}})
    world.bundles.start()
    wait_until(lambda: world.bundles.is_ready)
    world.service.put("one", {"data.json": {"x": 2}})
    wait_until(lambda: world.value("x") == 2)
    world.bundles.close()
    wait_until(lambda: not [t for t in threading.enumerate() if t.name == "bundle-one"])


def test_the_pause_after_failures_grows_up_to_the_longest() -> None:
    assert backoff(60, 0) == 0.1
    assert 0.6 < backoff(60, 5) < 1.1
    assert 39 < backoff(60, 500) <= 60
    assert backoff(0.05, 0) == 0.05


def test_metrics_have_the_names_of_opa() -> None:
    metrics = Metrics("1")
    bundles = BundleMetrics(metrics.registry, "1.2", [1e3, 1e6])
    good = BundleStatus(
        "a",
        active_revision="r",
        last_successful_activation=7,
        metrics={"timer_bundle_request_ns": 5},
    )
    bundles.note({"a": good})
    bundles.note({"a": BundleStatus("a", message="no")})
    text = metrics.render().decode()
    assert 'bundle_loaded_counter{name="a"} 1.0' in text
    assert 'bundle_failed_load_counter{code="bundle_error",message="no",name="a"} 1.0' in text
    assert 'opa_info{version="1.2"} 1.0' in text
    assert (
        'bundle_loading_duration_ns_bucket{le="1000.0",name="a",stage="timer_bundle_request_ns"} 1'
        in text
    )


def test_long_polling_goes_on_after_an_error_and_ends_with_a_plain_answer() -> None:
    waits: list[str] = []
    kinds = {"content-type": "application/vnd.openpolicyagent.bundles"}
    answers = [(200, kinds), (500, {}), (304, {}), (200, {}), (500, {}), (200, kinds), (200, kinds)]

    def answer(request: httpx.Request) -> httpx.Response:
        waits.append(request.headers["prefer"].partition(";")[2])
        status, headers = answers[len(waits) - 1]
        content = archive({"data.json": {"x": len(waits)}}) if status == 200 else b""
        return httpx.Response(status, headers=headers, content=content)

    world = World("one", polling={"long_polling_timeout_seconds": 5})
    client = ServiceClient(world.clients["s"].service, transport=httpx.MockTransport(answer))
    world.bundles.configure(world.options, {"s": client}, starts=False)
    pauses = [world.bundles.poll("one") for _ in answers]
    # A server that says that it waits, but answers at once, is not asked without a pause.
    assert min(pauses) >= 0.05
    assert waits == ["wait=5", "wait=5", "wait=5", "wait=5", "", "", "wait=5"]
