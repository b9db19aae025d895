"""Answers of the routes that no recorded row holds, as OPA's server gives them."""

from __future__ import annotations

import json

import pytest
from tests.rest.asgi import ask

from doorward.bundles.loader import Loaded
from doorward.config.configuration import Config
from doorward.pdp.decision import Answered
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.rest.app import Api
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics


class Sink:
    """The paths of the decisions that are logged."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def record(self, answered: Answered) -> None:
        self.paths.append(answered.decision.path)

    def close(self) -> None:
        """There is nothing to write."""


def api(loaded: Loaded | None = None, sink: Sink | None = None) -> Api:
    loaded = loaded or Loaded({"p.rego": "package p\n\nallow := true\n"})
    return Api(PDP(build(loaded), sink), Config(), Health(), Metrics("1"))


@pytest.mark.parametrize("target", ["/health", "/health/live", "/health?bundles"])
def test_the_health_is_not_for_head(target: str) -> None:
    assert ask(api(), "HEAD", target).status == 405


@pytest.mark.parametrize(
    ("target", "location"),
    [("/a//", "/a/"), ("/a///", "/a/"), ("/a//b", "/a/b"), ("/v1//data", "/v1/data")],
)
def test_empty_segments_are_redirected(target: str, location: str) -> None:
    answer = ask(api(), "GET", target)
    assert (answer.status, answer.headers["location"]) == (307, location)


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/v1/data/p/a%2Fb", "p/a%2Fb"),
        ("/v1/data/p%2Fallow", "p%2Fallow"),
        ("/v1/data/p/a%20b", "p/a b"),
        ("/v1/data/p/allow", "p/allow"),
        ("/v1/data", ""),
    ],
)
def test_a_slash_in_a_name_is_logged_as_one(target: str, path: str) -> None:
    sink = Sink()
    ask(api(sink=sink), "POST", target, b"{}")
    ask(api(sink=sink), "GET", target)
    assert sink.paths == [path, path]


def test_the_provenance_of_a_bundle_without_a_revision_says_so() -> None:
    loaded = Loaded({"p.rego": "package p\n"}, revisions={"a": "", "b": "1"})
    answer = json.loads(ask(api(loaded), "GET", "/v1/data?provenance").body)
    assert answer["provenance"]["bundles"] == {"a": {"revision": ""}, "b": {"revision": "1"}}
