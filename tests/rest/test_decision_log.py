"""The decision log against the events that OPA's server wrote, question for question.

Rows that differ are named in `differences.toml`.
"""

from __future__ import annotations

import base64
import gzip
import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.control.scripted import Script
from tests.corpora import GOLDEN
from tests.rest.asgi import ask
from tests.waiting import wait_until

from doorward.bundles.sources import Sources
from doorward.config.configuration import parse_config
from doorward.control.client import ServiceClient
from doorward.control.uploads import Uploads
from doorward.decision_log.log import DecisionLog
from doorward.pdp.builtin_answers import noting
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import Settings, build
from doorward.rego import REGISTRY
from doorward.rest.app import Api
from doorward.telemetry.health import Health
from doorward.telemetry.log import line_for
from doorward.telemetry.metrics import Metrics

ROOT = Path(__file__).resolve().parent.parent.parent
ROWS = GOLDEN / "decisionlog.jsonl.gz"
RULES = tomllib.loads(Path(__file__).with_name("differences.toml").read_text())["log"]
VARYING = ("decision_id", "time", "timestamp", "metrics")


def rows() -> list[Any]:
    with gzip.open(ROWS, "rt", encoding="utf-8") as lines:
        document = [json.loads(line, parse_float=str, parse_int=str) for line in lines]
    return [pytest.param(row, id=row["id"]) for row in document]


@pytest.mark.parametrize("row", rows())
def test_the_events_are_those_of_opa(
    row: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = row["files"]["config.yaml"].replace("@COLLECTOR@", "http://collector")
    config = parse_config(text, environment={})
    lines: list[bytes] = []
    recorded = [{"status": int(each["status_sent"])} for each in row.get("uploads", ())]
    path = row["uploads"][0]["path"] if recorded else ""
    script = Script({path: recorded})
    upload = config.decision_logs.upload
    sinks: list[Uploads] = []
    if upload is not None:
        client = ServiceClient(config.services[upload.service], transport=script)
        sinks.append(Uploads(upload, client))
    log = DecisionLog(
        lines.append if config.decision_logs.console else None,
        line_for("json"),
        labels={"id": "UUID", "version": "VALUE", **config.labels},
        # OPA masks by policies only; what is masked by name is ours, and can be turned off.
        options=replace(config.decision_logs, mask_credentials=False),
        sinks=sinks,
    )
    monkeypatch.chdir(tmp_path)
    for name, content in row["files"].items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    match row["flags"]:
        case []:
            loaded = Sources([name for name in row["files"] if name.endswith(".rego")]).load()
        case ["-b", bundle]:
            loaded = Sources(bundles=[bundle]).load()
    notes = config.nd_builtin_cache
    settings = Settings(registry=noting(REGISTRY) if notes else REGISTRY, notes_answers=notes)
    pdp = PDP(build(loaded, settings), log if config.decision_logs.is_enabled else None)
    app = Api(pdp, config, Health(), Metrics("1"))
    for step in row["steps"]:
        body = base64.b64decode(step["body_b64"]) if "body_b64" in step else None
        content = (step.get("body") or "").encode() if body is None else body
        answer = ask(app, step["method"], step["path"], content, step.get("headers"))
        assert answer.status == int(step["status"])
    for sender in sinks:
        wait_until(lambda: not (log._queue or log._lines or log._open))
        for _ in recorded:
            sender.send()
    pdp.close()
    actual = b"".join(lines).splitlines()
    events = [json.loads(line, parse_float=str, parse_int=str) for line in actual]
    mine = [without(event) for event in events]
    want = [without(event) for event in row["events"]]
    # A request that was refused is repeated.
    refused = sum([answer["status"] != 200 for answer in recorded])
    sent = script.contents(path)[refused:]
    mine += [without(event) for content in sent for event in as_text(content)]
    taken = [each for each in row.get("uploads", ()) if each["status_sent"] == "200"]
    want += [without(event) for each in taken for event in each["body"]]
    if mine == want:
        assert row["id"] not in RULES["ids"], "does not differ any more"
    elif row["id"] not in RULES["ids"]:
        assert mine == want
    if row["id"] not in RULES["ids"]:
        own = events + [each for content in sent for each in as_text(content)]
        others = [*row["events"], *[event for each in taken for event in each["body"]]]
        for mine_of, theirs in zip(own, others, strict=True):
            assert {*theirs["metrics"]} <= {*mine_of["metrics"]}
    said = [record.getMessage() for record in caplog.records]
    for line in row.get("log_errors", ()) if row["id"] not in RULES["ids"] else ():
        assert stem(line["msg"]) in map(stem, said)


def as_text(content: bytes) -> Any:
    return json.loads(gzip.decompress(content), parse_float=str, parse_int=str)


def without(event: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in event.items() if key not in VARYING}
    for name, answers in kept.get("nd_builtin_cache", {}).items():
        if name in ("time.now_ns", "uuid.rfc4122"):
            kept["nd_builtin_cache"][name] = dict.fromkeys(answers, "VALUE")
    return kept


def stem(message: str) -> str:
    """A message as far as it is not made of Go's words for a value."""
    return message.partition("unexpected rule format")[0]
