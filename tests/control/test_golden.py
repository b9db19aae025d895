"""Bundles, discovery and status against what OPA's server did: every recorded row, in this process.

The recorded server plays its script over a transport of its own, and nothing waits: each bundle is
asked for as often as it was. Rows that differ are named in `differences.toml` with the reason; one
that does not differ any more fails.
"""

from __future__ import annotations

import base64
import gzip
import json
import logging
import re
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from tests.control.scripted import Script
from tests.corpora import GOLDEN
from tests.rest.asgi import ask
from tests.waiting import wait_until

from doorward.bundles.loader import Loaded, LoadError
from doorward.bundles.sources import Sources
from doorward.config.configuration import Config, ConfigError, identified, parse_config
from doorward.control.plane import Change, ControlPlane
from doorward.control.uploads import Uploads
from doorward.decision_log.log import DecisionLog
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import Settings, build
from doorward.pdp.store import Store
from doorward.rego import Environment
from doorward.rest.app import Api
from doorward.telemetry.health import Health, State
from doorward.telemetry.log import line_for
from doorward.telemetry.metrics import Metrics

ROWS = GOLDEN / "serve.jsonl.gz"
RULES = tomllib.loads(Path(__file__).with_name("differences.toml").read_text())
ELSEWHERE = {
    "config": "tests/cli/test_recorded_configurations.py",
    "serve/file/ready-timeout": "tests/cli/test_run.py",
}
"""Groups and rows that other tests run."""
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r'"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z"')
SAMPLE = re.compile(r"^(\w+)", re.MULTILINE)
MOST = 12
"""Rounds in which every request that was recorded must have come."""


def rows() -> list[Any]:
    with gzip.open(ROWS, "rt", encoding="utf-8") as lines:
        answered = [json.loads(line) for line in lines]
    return [
        pytest.param(row, id=row["id"])
        for row in answered
        if ELSEWHERE.keys().isdisjoint((row["group"], row["id"]))
    ]


class Server:
    """The decision point of one row, as far as the control plane goes."""

    def __init__(self, row: dict[str, Any], script: Script) -> None:
        text = json.dumps(row.get("config", {})).replace("TLSSERVER", "tlsserver")
        text = text.replace("http://SERVER", "http://server").replace("CWD", str(Path.cwd()))
        environment = row.get("env") or {}
        config = identified(parse_config(text, environment=environment))
        runtime = {"config": dict(config.document), "env": {}}
        settings = Settings(environment=Environment(runtime=runtime))
        files = [name for name in row.get("files") or {} if name.endswith(".rego")]
        flags = row.get("flags") or []
        sources = Sources(files, bundles=flags[1:] if flags[:1] == ["-b"] else [])
        loaded = sources.load() if sources else Loaded()
        self.pdp = PDP(build(loaded, settings))
        store = Store(self.pdp, loaded, settings)
        self.health = Health()
        self.script = script
        self.apis: list[Api] = []
        self.plane = ControlPlane(
            config,
            store,
            self.health,
            settings=settings,
            environment=environment,
            transport=script,
            prepare=lambda config, _: Change(commit=lambda: self.follow(config)),
        )
        api = Api(
            self.pdp,
            config,
            self.health,
            Metrics("1"),
            store=store,
            status=self.plane.status,
        )
        self.apis.append(api)
        self.log: DecisionLog | None = None
        self.uploads: Uploads | None = None
        self.log_to(config)

    def follow(self, config: Config) -> None:
        for api in self.apis:
            api.follow(config)
        self.log_to(config)

    def log_to(self, config: Config) -> None:
        options = config.decision_logs
        if options.upload is None or self.log is not None:
            return
        client = self.plane.clients[options.upload.service]
        status = self.plane.status.note_decision_logs
        self.uploads = Uploads(options.upload, client, on_status=status)
        self.log = DecisionLog(
            None,
            line_for("json"),
            labels=config.labels,
            # What is masked by name is ours.
            options=replace(options, mask_credentials=False),
            sinks=[self.uploads],
        )
        self.pdp.log_to(self.log)
        self.health.set("decision_logs", State.OK)

    def send(self, row: dict[str, Any]) -> None:
        """Send what was decided, as often as OPA did."""
        self.settle()
        uploads = self.uploads
        if uploads is None:
            return
        resource = f"/{uploads.options.resource.strip('/')}"
        wanted = len(row["requests"].get(resource, ()))
        for _ in range(MOST if uploads.options.trigger != "manual" else 0):
            uploads.send()
            if len(self.script.requests[resource]) >= wanted:
                break

    def close(self) -> None:
        if self.log is not None:
            self.log.close()
        self.plane.close()

    def settle(self) -> None:
        """Wait until what was decided is in the buffer."""
        if (log := self.log) is not None:
            wait_until(lambda: not (log._queue or log._lines or log._open))

    def begin(self) -> None:
        """What `start` does, without threads."""
        self.plane.is_started = True
        self.plane.note_status()
        if self.plane.discovery is not None:
            self.plane.discovery.activate_saved()

    def play(self, wanted: dict[str, int]) -> None:
        """Ask until so many requests came for each path; for a bundle that is a file, once."""
        for name, options in self.plane.config.bundles.items():
            if options.resource.startswith("file:"):
                self.plane.bundles.poll(name)
        for _ in range(MOST):
            if all(len(self.script.requests[path]) >= count for path, count in wanted.items()):
                break
            if self.plane.discovery is not None:
                self.plane.discovery.poll()
                self.plane.status.report()
            for name, options in self.plane.config.bundles.items():
                path = f"/{options.resource.partition('?')[0].strip('/')}"
                have = next(
                    (len(v) for k, v in self.script.requests.items() if k.endswith(path)), 0
                )
                count = next((n for k, n in wanted.items() if k.endswith(path)), MOST)
                if have < count:
                    self.plane.bundles.poll(name)
                    self.plane.status.report()
        self.plane.status.report()


@pytest.mark.parametrize("row", rows())
def test_a_row_ends_as_it_did_with_opa(
    row: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = next((r["reason"] for r in RULES["difference"] if row["id"] in r["ids"]), None)
    monkeypatch.chdir(tmp_path)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, text in (row.get("env") or {}).items():
        monkeypatch.setenv(name, text)
    # Nothing asks by itself: the test does.
    monkeypatch.setattr("doorward.control.bundles._Poller.start", lambda *_: None)
    monkeypatch.setattr("doorward.control.status.StatusReporter.start", lambda *_: None)
    for name, text in (row.get("files") or {}).items():
        content = base64.b64decode(text["base64"]) if isinstance(text, dict) else text.encode()
        (tmp_path / name).write_bytes(content)
    with ExitStack() as running, errors_logged() as lines:
        different = differences(row, running)
    if row["log_level"] == "error" and "exit" not in row["calls"][0]:
        different += of_logs(row, lines)
    saved = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.tar.gz")]
    if saved != row.get("files_after", [name for name in saved if name in row.get("files", ())]):
        different.append(("files", saved, row.get("files_after")))
    if reason is None:
        assert not different, different[0]
    elif not different:
        pytest.fail(f"does not differ any more: {reason}")


def differences(row: dict[str, Any], running: ExitStack) -> list[Any]:
    """What ended otherwise than with OPA; the servers are closed when `running` is."""
    script = Script(row.get("server") or {})
    calls = row["calls"]
    try:
        server = running.enter_context(closing(Server(row, script)))
    except (ConfigError, LoadError) as error:
        mine = normal(f"error: {error}")
        return [] if "exit" in calls[0] and [mine] == row["logs"] else [(mine, row["logs"])]
    if "exit" in calls[0]:
        return [("started", row["logs"])]
    server.begin()
    different: list[Any] = []
    steps = row.get("steps") or [{}]
    restarts = [index for index, stage in enumerate(steps) if "restart" in stage]
    for stage in steps:
        if "restart" in stage:
            server.plane.close()
            script = Script({**(row.get("server") or {}), **stage.get("server", {})})
            server = running.enter_context(closing(Server(row, script)))
            server.begin()
        server.play(stage.get("until_requests", {}))
    # Of the calls before a restart, those after it are repeated.
    first = max((n for n, c in enumerate(calls) if c["call"] == "GET /health"), default=0)
    server.send(row)
    for call in calls[first:] if restarts else calls:
        for number in range(call.get("times", 1)):
            different += compared(server, call)
            if not number and "max_decisions_per_second" not in str(row.get("config")):
                server.settle()  # the first event alone, as a recorded server has written it
        server.send(row)
    different += of_requests(row, server.script) if not restarts else []
    different += of_status(row, server.script) if not restarts else []
    return different


def of_status(row: dict[str, Any], script: Script) -> list[Any]:
    """The updates of the status service that OPA sent in every run and that did not come."""
    sent = [
        plain_status(json.loads(normal(content.decode())))
        for path in script.requests
        if path.startswith(("/status", "/api/v2/status"))
        for content in script.contents(path)
    ]
    want = [plain_status(update) for update in row.get("status_updates", ())]
    return [
        ("status", update, sent)
        for update in want
        if update.keys() != {"labels"} and update not in sent
    ]


def plain_status(document: Any) -> Any:
    """An update without the version, what was measured, and the order in which plugins start."""
    if isinstance(document, dict):
        left = ("metrics", "version", "size", "plugins")
        return {key: plain_status(value) for key, value in document.items() if key not in left}
    return [plain_status(each) for each in document] if isinstance(document, list) else document


class ErrorLines(logging.Handler):
    """The errors that are logged, each once and without where it came from."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[dict[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        fields = {**vars(record), **vars(record).get("fields", {})}
        line = {"msg": normal(record.getMessage())}
        if "plugin" in fields:
            line["plugin"] = fields["plugin"]
            if line["plugin"] == "bundle":
                line["name"] = fields["name"]
        if line not in self.lines:
            self.lines.append(line)


@contextmanager
def errors_logged() -> Iterator[list[dict[str, str]]]:
    handler = ErrorLines()
    log = logging.getLogger("doorward")
    log.addHandler(handler)
    try:
        yield handler.lines
    finally:
        log.removeHandler(handler)


def of_logs(row: dict[str, Any], lines: list[dict[str, str]]) -> list[Any]:
    """The errors that one of the two logs and the other does not."""
    return [] if lines == row["logs"] else [("logs", lines, row["logs"])]


def normal(text: str) -> str:
    """A text of ours with the placeholders of the recording."""
    text = TIME.sub('"TIME"', UUID.sub("UUID", text)).replace("tlsserver", "TLSSERVER")
    text = re.sub(r"event size \([0-9]+\)", "event size (N)", text)
    return text.replace("http://server", "http://SERVER")


def compared(server: Server, call: dict[str, Any]) -> list[Any]:
    method, target = call["call"].split(" ", 1)
    body = json.dumps(call["request"]).encode() if "request" in call else b""
    answer = ask(server.apis[0], method, target, body)
    text = normal(answer.body)
    if target == "/metrics":
        missing = {*call["metric_names"]} - {*SAMPLE.findall(answer.body)}
        return [(call["call"], missing)] if missing else []
    mine: Any = json.loads(text) if text else ""
    want = call["body"]
    if (answer.status, plain(mine)) != (call["status"], plain(want)):
        return [(call["call"], answer.status, plain(mine), call["status"], plain(want))]
    return []


def plain(document: Any) -> Any:
    """A document without what no two servers have alike."""
    if isinstance(document, dict):
        masked = ("ast", "metrics", "warning", "version")
        return {
            key: plain(value)
            for key, value in document.items()
            if key not in masked and not key.startswith("build_")
        }
    return [plain(each) for each in document] if isinstance(document, list) else document


SHOWN = (
    "authorization", "content-encoding", "content-type", "if-none-match", "metadata",
    "metadata-flavor", "prefer", "x-amz-content-sha256", "x-extra",
)  # fmt: skip


def of_requests(row: dict[str, Any], script: Script) -> list[Any]:
    """The requests for bundles and tokens that were not as OPA's."""
    different: list[Any] = []
    for path, wanted in row["requests"].items():
        if path.startswith(("/status", "/api/v2/status")):
            continue
        if any("events" in each for each in wanted):
            different += of_events(path, wanted, script)
        mine = [
            (each["method"], headers_of(each["headers"]), form_of(each))
            for each in script.requests[path]
        ]
        want = [
            (each["method"], headers_of(each["headers"]), each.get("form", {})) for each in wanted
        ]
        number = min(len(mine), len(want))
        if not mine or mine[:number] != want[:number]:
            different.append((path, mine[:4], want[:4]))
    return different


def of_events(path: str, wanted: list[Any], script: Script) -> list[Any]:
    """The uploads that were not as OPA's: how many events there were, and how the first looks."""
    mine = script.events(path)
    counts = [[len(events) for events in mine], [each["events"] for each in wanted]]
    if counts[0][: len(counts[1])] != counts[1]:
        return [(path, *counts)]
    for events, upload in zip(mine, wanted, strict=False):
        for event, recorded in zip(events, upload["body"], strict=False):
            first, want = plain_event(json.loads(normal(json.dumps(event)))), plain_event(recorded)
            if first != want:
                return [(path, first, want)]
    return []


def plain_event(event: dict[str, Any]) -> dict[str, Any]:
    """An event without what was measured, and the version of the server."""
    left = ("metrics", "req_id", "requested_by")
    labels = {**event["labels"], "version": ""}
    return {key: value for key, value in event.items() if key not in left} | {"labels": labels}


def form_of(request: dict[str, Any]) -> dict[str, Any]:
    """The fields of a form; of an assertion that is a token of ours, its header and claims."""
    if "urlencoded" not in request["headers"].get("content-type", ""):
        return {}
    form: dict[str, Any] = parse_qs(request["content"].decode())
    (assertion,) = form.get("client_assertion", [""])
    if assertion.startswith("eyJ"):
        header, claims = (
            json.loads(base64.urlsafe_b64decode(part + "==")) for part in assertion.split(".")[:2]
        )
        times = dict.fromkeys(claims.keys() & {"exp", "iat"}, "TIME")
        form["client_assertion"] = {"jwt_header": header, "jwt_claims": claims | times}
    return form


SIGNED = re.compile(r"(Credential=[^/]+)/[^/]+/(.*),Signature=.*")


def headers_of(headers: dict[str, str]) -> dict[str, str]:
    shown = {name: headers[name].strip() for name in SHOWN if name in headers}
    if "authorization" in shown:
        shown["authorization"] = SIGNED.sub(r"\1 \2", shown["authorization"])
    return shown


def test_every_reason_names_rows_that_are_run() -> None:
    run = {str(row.id) for row in rows()}
    every = [name for rule in RULES["difference"] for name in rule["ids"]]
    assert len(set(every)) == len(every)
    for rule in RULES["difference"]:
        assert set(rule["ids"]) <= run, rule["reason"]
