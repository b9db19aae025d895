"""`doorward run --workers` with bundles, discovery and status: in force everywhere or nowhere."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.bundles.archives import write_archive
from tests.cli.test_run import Process
from tests.waiting import PATIENCE, wait_until

FAST = {"min_delay_seconds": 0, "max_delay_seconds": 1}


class Service:
    """Bundles by path, with their ETags; what is posted is kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.contents: dict[str, bytes] = {}
        self.posted: dict[str, list[Any]] = {}
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                content = service.contents.get(self.path)
                if content is None:
                    self.send_response(404)
                    self.end_headers()
                    return
                etag = f'"{hashlib.sha256(content).hexdigest()}"'
                is_known = self.headers.get("if-none-match") == etag
                self.send_response(304 if is_known else 200)
                self.send_header("etag", etag)
                self.end_headers()
                if not is_known:
                    self.wfile.write(content)

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["content-length"]))
                service.posted.setdefault(self.path, []).append(content)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_arguments: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def put(self, path: str, files: dict[str, Any]) -> None:
        texts = {
            name: content if isinstance(content, str) else json.dumps(content)
            for name, content in files.items()
        }
        write_archive(self.folder / "made.tar.gz", texts)
        self.contents[path] = (self.folder / "made.tar.gz").read_bytes()

    def put_policies(self, number: int) -> None:
        manifest = {"revision": f"r{number}", "roots": ["app", "facts"]}
        policy = f"package app\n\nnumbers := {{{number}, data.facts.n}}\n"
        files = {".manifest": manifest, "p.rego": policy, "facts/data.json": {"n": number}}
        self.put("/app.tar.gz", files)

    def statuses(self) -> list[Any]:
        return [json.loads(each) for each in self.posted.get("/status", ())]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    server = Service(tmp_path)
    yield server
    server.server.shutdown()
    server.server.server_close()


@pytest.fixture
def start(tmp_path: Path, service: Service) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def run(config: dict[str, Any], *arguments: str) -> Process:
        config = {"services": {"s": {"url": service.url}}, **config}
        (tmp_path / "c.json").write_text(json.dumps(config))
        started.append(Process(tmp_path, "--config-file=c.json", "--workers=2", *arguments))
        return started[-1]

    yield run
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait(PATIENCE)


def bundles(**more: Any) -> dict[str, Any]:
    return {"bundles": {"app": {"service": "s", "resource": "app.tar.gz", "polling": FAST, **more}}}


def numbers(process: Process) -> Any:
    """What decides; a worker that was killed meanwhile answers nothing."""
    with contextlib.suppress(OSError):
        return process.ask("/v1/data/app/numbers")[1].get("result")


def decides(process: Process, *expected: int) -> bool:
    """Whether every worker decides by this, as several requests in a row tell."""
    return all(numbers(process) == list(expected) for _ in range(8))


def has_no_numbers(process: Process) -> bool:
    """Whether a worker answers, and nothing is defined there any more."""
    with contextlib.suppress(OSError):
        return "result" not in process.ask("/v1/data/app/numbers")[1]
    return False


def status(process: Process) -> Any:
    return process.ask("/v1/status")[1]["result"]


def workers(process: Process) -> list[Any]:
    """What a worker knows of all of them; nothing while they are not ready."""
    _, health = process.ask("/health?plugins")
    return health["workers"] if isinstance(health, dict) else []


def children(process: Process) -> list[int]:
    """In the order of their start: the first is what asks services."""
    pid = process.process.pid
    return [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def asking(process: Process) -> int:
    return children(process)[0]


def test_snapshots_and_deltas_are_in_force_in_every_worker(
    service: Service, start: Callable[..., Process]
) -> None:
    service.put_policies(1)
    logs = {"service": "s", "reporting": {"min_delay_seconds": 0, "max_delay_seconds": 1}}
    config = {**bundles(), "status": {"service": "s", "prometheus": True}, "decision_logs": logs}
    process = start(config)
    wait_until(lambda: process.ready() and decides(process, 1))
    wait_until(lambda: process.ask("/health?bundles")[0] == 200)
    changes = [{"op": "upsert", "path": "/facts/n", "value": 7}]
    manifest = {"revision": "r2", "roots": ["app", "facts"]}
    service.put("/app.tar.gz", {".manifest": manifest, "patch.json": {"data": changes}})
    wait_until(lambda: decides(process, 1, 7))
    wait_until(lambda: status(process)["bundles"]["app"]["type"] == "delta")
    counted = "bundle_loaded_counter"
    wait_until(lambda: counted in status(process).get("metrics", {}).get("prometheus", {}))
    # What cannot be in force is so nowhere, and said by every worker.
    service.put("/app.tar.gz", {".manifest": manifest, "p.rego": "package app\n\nx := nowhere.x\n"})
    wait_until(lambda: "errors" in status(process)["bundles"]["app"])
    wait_until(lambda: process.ask("/health?policies")[0] == 500)
    assert process.ask("/health?bundles")[0] == 200
    assert decides(process, 1, 7)
    service.put_policies(3)
    wait_until(lambda: decides(process, 3))
    wait_until(lambda: status(process)["bundles"]["app"]["active_revision"] == "r3")

    def is_told(shown: Any) -> bool:
        """Whether the service was told the same; each worker hears of news by itself."""
        return shown["bundles"] in [each.get("bundles") for each in service.statuses()]

    # The service is told the same, and what the workers' parts are with it.
    wait_until(lambda: is_told(status(process)))
    wait_until(lambda: status(process)["plugins"]["bundle"] == {"state": "OK"})
    # It is the workers that send decisions.
    wait_until(lambda: "/logs" in service.posted)
    wait_until(lambda: status(process)["plugins"].get("decision_logs") == {"state": "OK"})
    wait_until(lambda: "decision_logs" in status(process))
    newest = 'last_success_bundle_activation{active_revision="r3",name="app"}'
    wait_until(lambda: newest in process.ask_text("/metrics"))
    assert 'bundle_loaded_counter{name="app"}' in process.ask_text("/metrics")
    wait_until(lambda: len({each["revision"] for each in workers(process)}) == 1)
    assert process.end() == 0


def test_what_asks_for_bundles_may_die(service: Service, start: Callable[..., Process]) -> None:
    service.put_policies(1)
    process = start(bundles(), f"--ready-timeout={PATIENCE:g}")
    assert process.ready()
    assert decides(process, 1)  # nothing was served before
    before = asking(process)
    os.kill(before, signal.SIGKILL)
    service.put_policies(2)
    wait_until(lambda: decides(process, 2))
    wait_until(lambda: before not in children(process))
    # When the parent dies, nothing is left.
    left = children(process)
    process.end(signal.SIGKILL)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left))


def test_bundles_that_do_not_come_in_time_end_the_start(
    start: Callable[..., Process],
) -> None:
    process = start(bundles(), "--ready-timeout=1")
    assert process.process.wait(PATIENCE) == 1
    assert "bundles were not ready within" in process.log.read_text()


def test_discovered_configuration_reaches_every_worker(
    service: Service, start: Callable[..., Process], tmp_path: Path
) -> None:
    service.put_policies(1)
    discovered = {**bundles(), "decision_logs": {"console": True}, "labels": {"found": "yes"}}
    service.put("/discovery", {"data.json": discovered})
    discovery = {"service": "s", "resource": "discovery", "polling": FAST}
    process = start({"discovery": discovery, "default_decision": "/app/numbers"})
    wait_until(lambda: process.ready() and decides(process, 1))
    wait_until(lambda: len(process.messages("Decision Log")) > 0)
    assert process.messages("Decision Log")[-1]["labels"]["found"] == "yes"
    service.put("/discovery", {"data.json": {"labels": {"found": "no"}}})

    def labels() -> set[str]:
        answers = [process.ask("/v1/config")[1]["result"]["labels"] for _ in range(8)]
        return {answer["found"] for answer in answers}

    # Without `bundles` it changes the rest alone: bundles and their data stay, as in OPA.
    wait_until(lambda: labels() == {"no"})
    assert decides(process, 1)
    # What the file says is followed again on SIGHUP.
    document = json.loads((tmp_path / "c.json").read_text())
    document["default_decision"] = "/system/other"
    (tmp_path / "c.json").write_text(json.dumps(document))
    process.process.send_signal(signal.SIGHUP)

    def default() -> Any:
        with contextlib.suppress(OSError):
            return process.ask("/v1/config")[1]["result"]["default_decision"]

    wait_until(lambda: {default() for _ in range(8)} == {"/system/other"})
    assert process.end() == 0


def test_a_configuration_that_is_wrong_is_followed_nowhere(
    service: Service, start: Callable[..., Process], tmp_path: Path
) -> None:
    service.put_policies(1)
    process = start(bundles())
    wait_until(lambda: process.ready() and decides(process, 1))
    (tmp_path / "c.json").write_text('{"services": 1}')
    process.process.send_signal(signal.SIGHUP)
    wait_until(
        lambda: process.messages(
            "The configuration was not reloaded; the previous one stays active."
        )
    )
    assert decides(process, 1)
    (tmp_path / "c.json").write_text("{}")
    process.process.send_signal(signal.SIGHUP)
    wait_until(lambda: process.messages("Configuration reloaded."))
    wait_until(lambda: has_no_numbers(process))
    assert process.end() == 0
