"""The status goes where it is asked for, and what cannot be sent is said."""

from __future__ import annotations

import json
import logging
from typing import Any

import httpx
import pytest
from tests.waiting import wait_until

from doorward.config.services import Service
from doorward.config.status_options import StatusOptions
from doorward.control.bundle_status import BundleStatus, time_text
from doorward.control.client import ServiceClient
from doorward.control.status import StatusReporter


class Sink:
    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.updates: list[Any] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.updates.append((request.url.path, json.loads(request.content)))
        return httpx.Response(self.status)


def reporter(sink: Sink, **options: Any) -> StatusReporter:
    status = StatusReporter(plugins=lambda: {"bundle": "OK"}, metrics=lambda: {"m": 1})
    client = ServiceClient(Service("s", "http://s"), transport=httpx.MockTransport(sink))
    status.configure(StatusOptions(service="s", **options), client, {"id": "1"}, starts=False)
    return status


def test_every_change_is_reported() -> None:
    sink = Sink()
    status = reporter(sink, partition="p")
    status.start()
    wait_until(lambda: sink.updates)
    status.note_bundles({"a": BundleStatus("a", "r1", last_request=1_500_000_000)})
    wait_until(lambda: "bundles" in sink.updates[-1][1])
    path, update = sink.updates[-1]
    assert path == "/status/p"
    assert update["labels"] == {"id": "1"}
    assert update["plugins"] == {"bundle": {"state": "OK"}}
    assert update["metrics"] == {"m": 1}
    assert update["bundles"]["a"]["active_revision"] == "r1"
    assert update["bundles"]["a"]["last_request"] == "1970-01-01T00:00:01.5Z"
    status.note_decision_logs({"code": "decision_log_error", "message": "no"})
    wait_until(lambda: "decision_logs" in sink.updates[-1][1])
    status.close()


@pytest.mark.system
def test_an_update_that_is_refused_is_said(caplog: pytest.LogCaptureFixture) -> None:
    status = reporter(Sink(500))
    status.report()
    assert "server replied with HTTP 500 Internal Server Error." in caplog.text
    status.configure(
        StatusOptions(service="s"),
        ServiceClient(Service("s", "http://127.0.0.1:1")),
        {},
        starts=False,
    )
    status.report()
    assert 'status update failed: Post "http://127.0.0.1:1/status":' in caplog.text


def test_the_console_and_the_metrics_get_it_too(caplog: pytest.LogCaptureFixture) -> None:
    reports: list[Any] = []
    status = StatusReporter(plugins=dict, on_report=reports.append)
    status.configure(StatusOptions(console=True, prometheus=True), None, {}, starts=False)
    status.note_discovery(BundleStatus("discovery"))
    with caplog.at_level(logging.INFO):
        status.report()
    assert caplog.messages == ["Status Log"]
    assert caplog.records[0].__dict__["fields"]["type"] == "openpolicyagent.org/status"
    assert reports == [{}]


def test_without_an_option_nothing_is_reported() -> None:
    status = StatusReporter(plugins=dict)
    status.report()
    status.start()
    assert not status.is_enabled
    assert time_text(0) == "0001-01-01T00:00:00Z"
