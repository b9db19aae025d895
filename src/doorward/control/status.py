"""Status: the state of bundles, discovery, decision logs and plugins, for a service, the log and
metrics.

Every change is reported at once, by a thread of its own; changes during a report are part of the
next one. A report that fails is not repeated: the next one contains more.
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
    """The interface that gives `/v1/status` its content."""

    @property
    def is_enabled(self) -> bool:
        """True if reports of the status are configured."""

    def document(self) -> dict[str, Any]:
        """Return the whole status as JSON."""


class ToldStatus:
    """The status for `/v1/status` in a worker process: a copy of the one that the parent process
    sent.
    """

    def __init__(self) -> None:
        self.is_enabled = False
        """True if the parent reports its status."""
        self.told: dict[str, Any] = {}
        """The status that the parent sent last."""

    def document(self) -> dict[str, Any]:
        return self.told


class StatusReporter:
    """Collects the status of all parts, and reports it; thread-safe."""

    def __init__(
        self,
        *,
        plugins: Callable[[], Mapping[str, str]],
        metrics: Callable[[], Mapping[str, Any]] = dict,
        on_report: Callable[[Mapping[str, BundleStatus]], object] = lambda _statuses: None,
        runner: Runner | None = None,
    ) -> None:
        """Prepare reports of the status; `configure` says where they go. `plugins` returns the
        state of each plugin; `metrics` the metrics of this process, by system. `on_report` is
        called with the bundles at each report if Prometheus is configured.
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
        """The number of changes so far."""

    @property
    def is_enabled(self) -> bool:
        """True if reports are configured."""
        return self._options is not None

    def configure(
        self,
        options: StatusOptions | None,
        client: Client | None,
        labels: Mapping[str, str],
        *,
        starts: bool = True,
    ) -> None:
        """Report with these options, client and labels from now on. `options` None turns reports
        off; without a client none is sent to a service. With `starts` False, reports begin when
        `start` is called, unless they have begun before.
        """
        self._options, self._client, self._labels = options, client, dict(labels)
        if options is not None and starts:
            self.start()

    def start(self) -> None:
        """Start reporting; does nothing if it is started or not configured."""
        if self._task is None and self._options is not None:
            self._task = self._runner.start(Job("status", _EDGE, 120.0, self._run_round))

    def _note(self) -> None:
        """Count a change, and wake the thread that reports it."""
        # Without a lock: only the parent of workers looks at it, which has one thread.
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
        """Set the state of uploads, `code`, `message` and `http_code`, empty after a success; a
        change is reported.
        """
        # Each upload ends here, and most end alike: only a change is news.
        if status != self._decision_logs:
            self._decision_logs = dict(status)
            self._note()

    @property
    def decision_logs(self) -> Mapping[str, Any] | None:
        """The state after the last upload; None before the first."""
        return self._decision_logs

    def document(self) -> dict[str, Any]:
        """Return the whole status as a JSON object, as reports and `/v1/status` have it: labels,
        metrics and the states of plugins as of now, and the last statuses of bundles, discovery and
        decision logs, where there are any.
        """
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
        """Send one report to all configured destinations, in this thread; failures are logged."""
        drive(self._reports())

    def _reports(self) -> Steps[None]:
        """Report the present status once to each configured destination: log, Prometheus and
        service; nothing happens if reports are off. Yields its request to the runner. A failure to
        send is logged, not raised.
        """
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
        """Send the status to the service; a failure, or a status other than 2xx, is logged and not
        raised. A lone surrogate in a text becomes `?`.
        """
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

    def _run_round(self) -> Steps[None]:
        """Report the status, unless the trigger is manual; the next round waits for a change."""
        options = self._options
        if options is not None and options.trigger == "periodic":
            yield from self._reports()

    def close(self, timeout: float = 2.0) -> None:
        """Stop reporting; wait at most `timeout` seconds for a report in progress."""
        if self._task is not None:
            self._task.stop(timeout)
