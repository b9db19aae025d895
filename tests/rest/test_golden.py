"""The HTTP API against what OPA's server answered, for the endpoints that are there.

Steps that change policies or data by endpoints that come later are done by hand between requests.
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
from urllib.parse import unquote

import pytest
from tests.corpora import GOLDEN
from tests.rest.asgi import Answer, ask

from doorward.pdp.config import Config, parse_config
from doorward.pdp.health import Health
from doorward.pdp.loader import Loaded
from doorward.pdp.metrics import Metrics
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.rego.json_text import from_json
from doorward.rest.app import Api

ROOT = Path(__file__).resolve().parent.parent.parent
ROWS = GOLDEN / "rest.jsonl.gz"
RULES = tomllib.loads(Path(__file__).with_name("differences.toml").read_text())
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
BUILD = re.compile(r'("(?:version|build_\w+)": ?)"[^"]*"')
TIMER = re.compile(r'("(?:timer|counter)_\w+": ?)\d+')


def rows() -> list[Any]:
    with gzip.open(ROWS, "rt", encoding="utf-8") as lines:
        document = [json.loads(line) for line in lines]
    return [pytest.param(row, id=row["id"]) for row in document if is_ours(row)]


def is_ours(row: dict[str, Any]) -> bool:
    """Whether every step is an endpoint that is there, or one that can be done by hand."""
    flags = all(flag.startswith("--set=") for flag in row["flags"])
    steps = row["steps"]
    return (
        flags
        and not row.get("files")
        and not any(map(is_later, steps))
        and all(is_served(step) or is_by_hand(step) for step in steps)
        and any(is_served(step) for step in steps)
    )


def is_later(step: dict[str, Any]) -> bool:
    return any(re.search(pattern, step["path"]) for pattern in RULES["later"]["paths"])


def is_served(step: dict[str, Any]) -> bool:
    path = step["path"].partition("?")[0]
    if path.startswith(("/v1/data", "/v0/data")):
        return step["method"] not in ("PUT", "PATCH", "DELETE") or path.startswith("/v0")
    return path in ("/", "/health", "/health/", "/metrics") or path.startswith("/health/")


def is_by_hand(step: dict[str, Any]) -> bool:
    path, _, query = step["path"].partition("?")
    ok = step["response"].get("status") in (200, 204)
    return (
        step["method"] == "PUT"
        and ok
        and not query
        and path.startswith(("/v1/data", "/v1/policies/"))
        and "body" in step
        and "/0" not in path
    )


class Server:
    """An application whose policies and data the test changes by hand."""

    def __init__(self, flags: list[str]) -> None:
        settings = [flag.removeprefix("--set=") for flag in flags]
        config: Config = parse_config("", overrides=settings, environment={})
        self.modules: dict[str, str] = {}
        self.data: Any = {}
        sink = Sink() if config.decision_logs.console else None
        self.pdp = PDP(build(Loaded()), sink)
        self.app = Api(self.pdp, config, Health(), Metrics("1"))

    def put(self, path: str, body: str) -> None:
        if path.startswith("/v1/policies/"):
            self.modules[unquote(path.removeprefix("/v1/policies/"))] = body
        else:
            self.put_data([unquote(s) for s in path.split("/")[3:]], from_json(body))
        self.pdp.replace(build(Loaded(self.modules, self.data)))

    def put_data(self, path: list[str], value: Any) -> None:
        if not path:
            self.data = value
            return
        position = self.data
        for segment in path[:-1]:
            position = position.setdefault(segment, {})
        position[path[-1]] = value


class Sink:
    def record(self, *_: object, **__: object) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.mark.parametrize("row", rows())
def test_the_answer_is_that_of_opa(row: dict[str, Any]) -> None:
    server = Server(row["flags"])
    reason = next((r["reason"] for r in RULES["difference"] if row["id"] in r["ids"]), None)
    different: list[tuple[Any, Any]] = []
    for step in row["steps"]:
        if not is_served(step):
            server.put(step["path"], step["body"])
            continue
        body = base64.b64decode(step["body_b64"]) if "body_b64" in step else None
        content = (step.get("body") or "").encode() if body is None else body
        answer = ask(server.app, step["method"], step["path"], content, step.get("headers"))
        mine, want = of_answer(answer, step["response"]), of_row(step["response"])
        if mine != want:
            different.append((mine, want))
    if reason is None:
        assert not different, different[0]
    elif not different:
        pytest.fail(f"does not differ any more: {reason}")


def of_answer(answer: Answer, wanted: dict[str, Any]) -> dict[str, Any]:
    body = TIMER.sub(r"\g<1>0", BUILD.sub(r'\1"VALUE"', UUID.sub("UUID", answer.body)))
    headers = {k: v for k, v in answer.headers.items() if k != "content-length"}
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
    for rule in RULES["difference"]:
        assert set(rule["ids"]) <= run, rule["reason"]
