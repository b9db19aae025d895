"""Bundles, discovery and uploads of decisions, as by the `-config-file` of opa-docker-authz.

The recipe of docs/docker.md is followed: the decision point as a service with OPA's configuration,
which the plugin asks at its Unix socket.
"""

from __future__ import annotations

import base64
import gzip
import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.control.test_bundles import archive
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

from doorward.docker.decider.embedded import PACK, shipped_policies
from doorward.docker.decider.remote import RemotePdp
from doorward.docker.plugin import Plugin

DECISION = "policy/docker/authz"


class Service(http.server.ThreadingHTTPServer):
    """Serves bundles, and keeps the decisions that are uploaded."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", free_port()), _Handler)
        self.bundles: dict[str, bytes] = {}
        self.decisions: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server: Any = self.server
        self._answer(200 if (content := server.bundles.get(self.path)) else 404, content or b"")

    def do_POST(self) -> None:
        server: Any = self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/logs":
            server.decisions += json.loads(gzip.decompress(body))
        self._answer(200, b"")

    def _answer(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def put_pack(service: Service, *roles: str) -> None:
    """Serve the shipped policies, with these roles for alice."""
    data = json.loads((PACK / "data.json").read_text())
    data["docker"]["users"] = {"alice": list(roles)}
    policies = {each.name: each.read_text() for each in shipped_policies()}
    service.bundles["/bundles/docker"] = archive({"data.json": data, **policies})


@pytest.fixture
def plugin(service: Service, tmp_path: Path) -> Iterator[Plugin]:
    """A plugin that asks a decision point, which knows the service and nothing else."""
    put_pack(service, "developer")
    polling = {"min_delay_seconds": 1, "max_delay_seconds": 1}
    discovered = {
        "bundles": {"docker": {"service": "s", "resource": "bundles/docker", "polling": polling}},
        "decision_logs": {"service": "s", "resource": "logs", "reporting": polling},
    }
    service.bundles["/bundles/discovery"] = archive({"data.json": discovered})
    config = {
        "services": {"s": {"url": service.url}},
        "discovery": {"service": "s", "resource": "bundles/discovery", "polling": polling},
    }
    (tmp_path / "opa.json").write_text(json.dumps(config))
    socket = tmp_path / "s"
    words = ["run", "--server", f"--addr=unix://{socket}", f"--config-file={tmp_path}/opa.json"]
    server = subprocess.Popen(
        [sys.executable, "-m", "doorward", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    pdp = RemotePdp(f"http+unix://{quote(str(socket), safe='')}/v1/data/{DECISION}")
    try:
        wait_until(lambda: socket.exists() or server.poll() is not None)
        yield Plugin(pdp)
    finally:
        pdp.close()
        server.terminate()
        server.wait(PATIENCE)


def create(plugin: Plugin, **host: Any) -> dict[str, Any]:
    body = json.dumps({"Image": "img", "HostConfig": host}).encode()
    call = {
        "User": "alice",
        "UserAuthNMethod": "TLS",
        "RequestMethod": "POST",
        "RequestUri": "/v1.41/containers/create",
        "RequestBody": base64.b64encode(body).decode(),
        "RequestHeaders": {"Content-Type": "application/json"},
    }
    response = plugin.answer("/AuthZPlugin.AuthZReq", json.dumps(call).encode())
    reply: dict[str, Any] = json.loads(response.body)
    return reply


def test_bundles_come_by_discovery_and_decisions_are_uploaded(
    service: Service, plugin: Plugin
) -> None:
    wait_until(lambda: create(plugin)["Allow"], "the policies never came")
    assert "privileged is not allowed" in create(plugin, Privileged=True)["Msg"]
    put_pack(service, "viewer")
    wait_until(lambda: not create(plugin)["Allow"], "the new bundle never came")

    def uploaded() -> list[dict[str, Any]]:
        return [each for each in service.decisions if "privileged is not" in json.dumps(each)]

    [event, *_] = wait_until(uploaded, "the decision was never uploaded")
    assert event["path"] == DECISION
    assert event["input"]["User"] == "alice"
    assert event["result"]["allow"] is False
    assert event["bundles"] == {"docker": {}}
