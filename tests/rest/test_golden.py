"""The HTTP API against what OPA's server answered: every recorded row, step by step.

Rows that differ are named in `differences.toml` with the reason; one that does not differ fails.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.corpora import GOLDEN
from tests.rego.partial.recorded import comparable
from tests.rest.asgi import Answer, ask

from doorward.bundles.sources import Sources
from doorward.config.configuration import Config, ConfigError, identified, parse_config
from doorward.pdp.decision import Answered
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import Settings, build
from doorward.pdp.store import Store
from doorward.rego.shared import parse_number
from doorward.rest.app import Api
from doorward.rest.authorization import Access
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics

ROOT = Path(__file__).resolve().parent.parent.parent
ROWS = (GOLDEN / "rest.jsonl.gz", GOLDEN / "rest-more.jsonl.gz")
RULES = tomllib.loads(Path(__file__).with_name("differences.toml").read_text())
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
BUILD = re.compile(r'("(?:version|build_\w+)": ?)"[^"]*"')
NANOSECONDS = re.compile(r"\b1\d{18}\b")
TIMER = re.compile(r'("(?:timer|counter)_\w+": ?)\d+')


def rows() -> list[Any]:
    answered: list[Any] = []
    for file in ROWS:
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            answered += [json.loads(line) for line in lines]
    return [pytest.param(row, id=row["id"]) for row in answered]


class Server:
    """The application as `doorward run --server FLAGS` makes it, in the current folder."""

    def __init__(self, flags: list[str]) -> None:
        settings = [flag.removeprefix("--set=") for flag in flags if flag.startswith("--set=")]
        files = [flag for flag in flags if not flag.startswith("-")]
        is_bundle = "-b" in flags
        sources = Sources(
            paths=() if is_bundle else files,
            bundles=files if is_bundle else (),
            v0="--v0-compatible" in flags,
        )
        config: Config = identified(parse_config("", overrides=settings, environment={}))
        sink = Sink() if config.decision_logs.console else None
        loaded, how = sources.load(), Settings(v0=sources.v0)
        pdp = PDP(build(loaded, how), sink)
        store = Store(pdp, loaded, how)
        authentication: Any = "token" if "--authentication=token" in flags else "off"
        access = Access(authentication, "--authorization=basic" in flags)
        self.app = Api(pdp, config, Health(), Metrics("1"), store=store, access=access)


class Sink:
    def record(self, answered: Answered) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.mark.parametrize("row", rows())
def test_the_answer_is_that_of_opa(
    row: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = next((r["reason"] for r in RULES["difference"] if row["id"] in r["ids"]), None)
    monkeypatch.chdir(tmp_path)
    for name, text in row.get("files", {}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    different = differences(row)
    if reason is None:
        assert not different, different[0]
    elif not different:
        pytest.fail(f"does not differ any more: {reason}")


def differences(row: dict[str, Any]) -> list[tuple[Any, Any]]:
    """What was answered and what OPA answered, for the steps in which the two differ."""
    try:
        server = Server(row["flags"])
    except ConfigError as error:
        return [(str(error), "a server")]
    different: list[tuple[Any, Any]] = []
    for step in row["steps"]:
        body = base64.b64decode(step["body_b64"]) if "body_b64" in step else None
        content = (step.get("body") or "").encode() if body is None else body
        answer = ask(server.app, step["method"], step["path"], content, step.get("headers"))
        mine, want = of_answer(answer, step["response"]), of_row(step["response"])
        if step["path"].startswith("/v1/compile"):
            mine, want = up_to_names(mine), up_to_names(want)
        unordered = row.get("unordered") or step["response"].get("unordered")
        if unordered:
            mine, want = sorted_at(mine, unordered), sorted_at(want, unordered)
        if mine != want:
            different.append((mine, want))
    return different


def up_to_names(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer of partial evaluation up to the names that are generated."""
    body = answer.get("body") or ""
    if '"queries"' not in body:
        return answer
    document = json.loads(NANOSECONDS.sub("0", body), parse_float=parse_number)
    result = document["result"]
    shown = comparable({"support": [], **result}, unordered=False)
    return answer | {"body": document | {"result": shown}}


def sorted_at(answer: dict[str, Any], name: str) -> dict[str, Any]:
    """An answer whose list under `name` OPA gives in any order."""
    document = json.loads(answer["body"])
    document[name] = sorted(document.get(name, []), key=json.dumps)
    return answer | {"body": document}


def of_answer(answer: Answer, wanted: dict[str, Any]) -> dict[str, Any]:
    body = TIMER.sub(r"\g<1>0", BUILD.sub(r'\1"VALUE"', UUID.sub("UUID", answer.body)))
    ours = ("content-length", "x-decision-id")
    headers = {k: v for k, v in answer.headers.items() if k not in ours}
    actual = {"status": answer.status, "headers": headers}
    if "body" in wanted:
        actual["body"] = body
    return actual


def of_row(response: dict[str, Any]) -> dict[str, Any]:
    if "failed" in response:
        return response
    actual = {"status": response["status"], "headers": response["headers"]}
    if "body" in response:
        actual["body"] = UUID.sub("UUID", response["body"]).replace('"DECISION-ID"', '"UUID"')
    return actual


def test_every_reason_names_rows_that_are_run() -> None:
    run = {str(row.id) for row in rows()}
    every = [name for rule in RULES["difference"] for name in rule["ids"]]
    assert len(set(every)) == len(every)
    for rule in RULES["difference"]:
        assert set(rule["ids"]) <= run, rule["reason"]
