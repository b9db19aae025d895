"""A decision point with its console, and where the pages have their parts.

The tests of a view need nothing else: the fixtures `served`, `browser` and `page` are in the
`conftest.py` beside this module.
"""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page
from tests.browser import CHROMIUM
from tests.ports import free_port
from tests.waiting import PATIENCE

from doorward.bundles.loader import Loaded
from doorward.bundles.sources import Sources
from doorward.config.configuration import Config
from doorward.config.configuration import Shadow as ShadowOptions
from doorward.console import AuditTail, Console, Process, Ring, Traffic
from doorward.console.pages import is_built
from doorward.pdp.pdp import PDP, Tee
from doorward.pdp.snapshot import Settings, build
from doorward.replay.deciding import Version
from doorward.replay.shadow import Shadow
from doorward.rest.app import Api
from doorward.rest.server import HttpServer, Listener, bind
from doorward.telemetry.health import Health, State
from doorward.telemetry.metrics import Metrics
from doorward.transport.peers import Peers

__all__ = [
    "EVIL",
    "NEEDS_BROWSER",
    "NEEDS_PAGES",
    "PICTURED",
    "POLICY",
    "SIGNS",
    "VIEWS",
    "Served",
    "detail",
    "rows",
]

NEEDS_PAGES = pytest.mark.skipif(not is_built(), reason="the console is not built")
NEEDS_BROWSER = [pytest.mark.skipif(CHROMIUM is None, reason="no Chromium"), NEEDS_PAGES]

EVIL = [
    "<script>window.hit=1</script>",
    "<img src=x onerror='window.hit=1'>",
    '"><svg onload=window.hit=1>',
    "javascript:window.hit=1",
    "{{constructor.constructor('window.hit=1')()}}",
    "</pre><iframe srcdoc='<script>parent.hit=1</script>'>",
    "\u202ehidden\u0000\u001b[31m",
]


POLICY = """package app

# <script>window.hit=1</script>
default allow := false

allow if {
	input.method == "GET"
	input.user == "<img src=x onerror='window.hit=1'>"
}

unused if input.never
"""


PICTURED = """package people

default allow := false

# Guests read; admins create people as well.
allow if {
	input.method == "GET"
	input.role in {"guest", "admin"}
}

allow if {
	input.method == "POST"
	input.role == "admin"
	lower(input.body.firstname) != input.user
}
"""
"""The policy of the pictures, in which nobody attacks."""


REVISIONS = {text: EVIL[0] for text in EVIL}


VIEWS = ["", "/decisions", "/log", "/request", "/policies", "/revisions", "/shadow", "/playground"]


SIGNS = {
    "": ".overview .ranks",
    "/decisions": ".tree",
    "/log": ".table .verdict",
    "/request": ".try textarea",
    "/policies": ".heat .held",
    "/revisions": ".u-wrap",
    "/shadow": ".table .verdict",
    "/playground": ".side .cm-line span",
    "/nowhere": ".state a",
}
"""What is there when a view is complete."""


class Served:
    """A decision point with its console, on a port of its own."""

    def __init__(self, folder: Path, peers: Peers | None = None, policy: str = POLICY) -> None:
        ring, traffic = Ring(), Traffic()
        candidate = folder / "candidate.rego"
        candidate.write_text(policy.replace('"GET"', '"POST"'))
        options = ShadowOptions((str(candidate),), share=1.0, max_age=60.0)
        self.shadow = Shadow(
            Version.load(Sources([str(candidate)])),
            options,
            on_kind=lambda _: None,
            on_dropped=lambda _: None,
        )
        self.audit = folder / "audit.log"
        self.pdp = PDP(
            build(
                Loaded({"policy.rego": policy}, revisions=REVISIONS if policy == POLICY else {}),
                Settings(marked=True),
            ),
            Tee(ring, Tee(traffic, Tee(self.shadow, None))),
        )
        health = Health()
        health.set("bundle", State.OK)
        process = Process(
            self.pdp,
            ring,
            health,
            number=0 if peers is None else peers.number,
            traffic=traffic,
            shadow=self.shadow.document,
            docker=AuditTail(str(self.audit)),
            status=lambda: {"bundles": {EVIL[0]: {"active_revision": EVIL[1]}}},
        )
        self.log = folder / "decisions.jsonl"
        self.console = Console(process, peers=peers, log=lambda: [str(self.log)])
        parts = self.pdp, Config(), health, Metrics("test")
        api = Api(*parts, diagnostic=True, console=self.console.answer)
        self.port = free_port()
        address = f"127.0.0.1:{self.port}"
        self.url = f"http://{address}/console"
        self.server = HttpServer([Listener(address, bind(address), api)])
        self.server.start()

    def close(self) -> None:
        self.console.close()
        self.shadow.close()
        self.server.close()

    def decide(self, user: str, path: str = "/") -> str:
        document: Any = {"method": "GET", "user": user, "path": path, "password": "hunter2"}
        decision = self.pdp.decide("app/allow", document)
        self.pdp.record(decision, document)
        return decision.decision_id

    def decide_people(self, number: int) -> str:
        """Record a decision of the policy of the pictures, one of a mix."""
        user, role = (("ann", "admin"), ("bob", "admin"), ("carol", "guest"), ("dave", "visitor"))[
            number % 4
        ]
        document: Any = {"method": "GET", "path": f"/people/{number % 7}"}
        if number % 3 == 1:
            document = {"method": "POST", "path": "/people", "body": {"firstname": "Bob"}}
        document |= {"user": user, "role": role}
        decision = self.pdp.decide("people/allow", document)
        self.pdp.record(decision, document)
        return decision.decision_id

    def record_hostile(self, text: str) -> str:
        """Record a decision of which everything that others may name is `text`."""
        document: Any = {"method": text, "path": text, text: text, "labels": {text: [text]}}
        decision = self.pdp.decide("app/allow", document)
        decision = decision._replace(path=text, revision=text, result={text: text})
        self.pdp.record(decision, document)
        return decision.decision_id

    def write(self, user: str, path: str) -> None:
        """Put a decision into the log, as of the past."""
        event = {
            "decision_id": f"past-{user}-{path}",
            "timestamp": "2026-11-23T10:00:00Z",
            "path": f"app/{path}",
            "input": {"method": user, "path": path, "password": "hunter2"},
            "result": user == "ann",
            "bundles": {user: {"revision": user}},
            "error": {"message": path} if user in EVIL else None,
            "custom": {"rules": [{"path": user, "file": path, "row": 1, "failed": 2}]},
        }
        with self.log.open("a") as file:
            file.write(json.dumps(event) + "\n")

    def write_people(self, number: int) -> None:
        """Put a decision of the policy of the pictures into the log."""
        event = {
            "decision_id": f"past-{number}",
            "timestamp": f"2026-11-23T10:{30 - number:02}:07Z",
            "path": "people/allow",
            "input": {"method": "GET", "path": f"/people/{number % 7}", "user": "carol"},
            "result": number % 4 > 0,
            "metrics": {"timer_rego_query_eval_ns": 9_000 + 700 * number},
            "bundles": {"people": {"revision": "2026-11-20"}},
        }
        with self.log.open("a") as file:
            file.write(json.dumps(event) + "\n")

    def status_of_a_stream(self, **headers: str) -> int:
        """What a stream is answered with; it is not read any further."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", "/console/api/decisions", headers=headers)
        status = connection.getresponse().status
        connection.close()
        return status

    def get(
        self, path: str, method: str = "GET", body: str = "", **headers: str
    ) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        content = answer.read().decode()
        connection.close()
        return answer.status, content


def rows(page: Page) -> Any:
    """The rows of the table that are elements."""
    return page.locator(".table .body .row")


def detail(page: Page) -> Any:
    """The pane with one decision."""
    return page.get_by_role("complementary", name="One decision")
