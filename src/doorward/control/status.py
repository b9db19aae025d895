"""Status: how bundles, discovery, decision logs and plugins are, for a service, a log, metrics.

Whatever changes is said at once, by a thread of its own; what changes while an update is under way
is part of the next one. An update that fails is not repeated: the next says more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from doorward.config.status_options import StatusOptions
from doorward.control.answers import Client, ServiceError, status_text
from doorward.control.bundle_status import BundleStatus
from doorward.control.rounds import Ask, Job, Runner, Steps, Task, Threads, drive
from doorward.edge import Edge, Parts
from doorward.rego.golang import marshal

__all__ = ["Status", "StatusReporter", "ToldStatus"]

TYPE: Final = "openpolicyagent.org/status"
_log: Final = logging.getLogger(__name__)
_EDGE: Final = Edge("status", "reporting the status failed")


class Status(Protocol):
    """The content of `/v1/status`."""

    @property
    def is_enabled(self) -> bool: ...

    def document(self) -> dict[str, Any]: ...


class ToldStatus:
    """The status in one of several workers: what their parent told it."""

    def __init__(self) -> None:
        self.is_enabled = False
        """Whether the parent reports its status."""
        self.told: dict[str, Any] = {}

    def document(self) -> dict[str, Any]:
        return self.told


class StatusReporter:
    """Knows the whole status, and reports it. Safe in any number of threads."""

    def __init__(
        self,
        *,
        plugins: Callable[[], Mapping[str, str]],
        metrics: Callable[[], Mapping[str, Any]] = dict,
        on_report: Callable[[Mapping[str, BundleStatus]], object] = lambda _statuses: None,
        runner: Runner | None = None,
    ) -> None:
        """`plugins`: the state of each; `metrics`: numbers of this process, by their system.

        `on_report` is called with the bundles at each update, where Prometheus is asked for.
        """
        self._plugins = plugins
        self._metrics = metrics
        self._on_report = on_report
        self._options: StatusOptions | None = None
        self._client: Client | None = None
        self._labels: Mapping[str, str] = {}
        self._bundles: Mapping[str, BundleStatus] = {}
        self._discovery: BundleStatus | None = None
        self._decision_logs: Mapping[str, Any] | None = None
        self._runner = runner or Threads(Parts())
        self._task: Task | None = None
        self.news = 0
        """How often something changed."""

    @property
    def is_enabled(self) -> bool:
        return self._options is not None

    def configure(
        self,
        options: StatusOptions | None,
        client: Client | None,
        labels: Mapping[str, str],
        *,
        starts: bool = True,
    ) -> None:
        """Use these options, client and labels for reports from now on."""
        self._options, self._client, self._labels = options, client, dict(labels)
        if options is not None and starts:
            self.start()

    def start(self) -> None:
        """Start reporting."""
        if self._task is None and self._options is not None:
            self._task = self._runner.start(Job("status", _EDGE, 120.0, self._round))

    def _note(self) -> None:
        self.news += 1
        if self._task is not None:
            self._task.wake()

    def note_bundles(self, statuses: Mapping[str, BundleStatus]) -> None:
        self._bundles = statuses
        self._note()

    def note_discovery(self, status: BundleStatus) -> None:
        self._discovery = status
        self._note()

    def note_decision_logs(self, status: Mapping[str, Any]) -> None:
        """Set the state of uploads: `code`, `message`, `http_code`; empty after success."""
        if status != self._decision_logs:
            self._decision_logs = dict(status)
            self._note()

    @property
    def decision_logs(self) -> Mapping[str, Any] | None:
        """The outcome of the last upload; None before the first."""
        return self._decision_logs

    def document(self) -> dict[str, Any]:
        """The whole status, as `/v1/status` shows it."""
        result: dict[str, Any] = {"labels": dict(self._labels)}
        if self._bundles:
            result["bundles"] = {name: each.document() for name, each in self._bundles.items()}
        if self._discovery is not None:
            result["discovery"] = self._discovery.document()
        if self._decision_logs is not None:
            result["decision_logs"] = dict(self._decision_logs)
        if metrics := self._metrics():
            result["metrics"] = dict(metrics)
        result["plugins"] = {name: {"state": state} for name, state in self._plugins().items()}
        return result

    def report(self) -> None:
        """Send one update everywhere it goes."""
        drive(self._reports())

    def _reports(self) -> Steps[None]:
        """Report the status to each configured destination: console, Prometheus, service."""
        options = self._options
        if options is None:
            return
        document = self.document()
        if options.console:
            _log.info("Status Log", extra={"fields": {**document, "type": TYPE}})
        if options.prometheus:
            self._on_report(self._bundles)
        if options.service and self._client is not None:
            yield from self._send(self._client, options, document)

    def _send(
        self, client: Client, options: StatusOptions, document: Mapping[str, Any]
    ) -> Steps[None]:
        """Send the status to the service; a failure is logged, not raised."""
        # A lone surrogate in a message must not stop the report: UTF-8 cannot encode it.
        content = marshal(dict(document.items())).encode(errors="replace") + b"\n"
        headers = {"content-type": "application/json"}
        try:
            answer = yield Ask(client, options.resource, "POST", headers, content)
        except ServiceError as error:
            _log.error(f"status update failed: {error}.", extra={"plugin": "status"})
            return
        if not 200 <= answer.status < 300:
            text = status_text(answer.status)
            message = f"status update failed, server replied with HTTP {answer.status} {text}."
            _log.error(message, extra={"plugin": "status"})

    def _round(self) -> Steps[None]:
        options = self._options
        if options is not None and options.trigger == "periodic":
            yield from self._reports()

    def close(self, timeout: float = 2.0) -> None:
        """Stop reporting; wait at most `timeout` seconds."""
        if self._task is not None:
            self._task.stop(timeout)
