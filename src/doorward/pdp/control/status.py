"""Status: how bundles, discovery, decision logs and plugins are, for a service, a log, metrics.

Whatever changes is said at once, by a thread of its own; what changes while an update is under way
is part of the next one. An update that fails is not repeated: the next says more.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from doorward.edge import Edge, Part, Parts, loop_thread
from doorward.pdp.control.answers import ServiceError, status_text
from doorward.pdp.control.bundle_status import BundleStatus
from doorward.pdp.control.status_options import StatusOptions
from doorward.rego.golang import marshal

if TYPE_CHECKING:
    from doorward.pdp.control.client import ServiceClient

__all__ = ["StatusReporter"]

TYPE: Final = "openpolicyagent.org/status"
_log: Final = logging.getLogger(__name__)
_EDGE: Final = Edge("status", "reporting the status failed")


class StatusReporter:
    """Knows the whole status, and reports it. Safe in any number of threads."""

    def __init__(
        self,
        *,
        plugins: Callable[[], Mapping[str, str]],
        metrics: Callable[[], Mapping[str, Any]] = dict,
        on_report: Callable[[Mapping[str, BundleStatus]], object] = lambda _statuses: None,
        parts: Parts | None = None,
    ) -> None:
        """`plugins`: the state of each; `metrics`: numbers of this process, by their system.

        `on_report` is called with the bundles at each update, where Prometheus is asked for.
        """
        self._plugins = plugins
        self._metrics = metrics
        self._on_report = on_report
        self._options: StatusOptions | None = None
        self._client: ServiceClient | None = None
        self._labels: Mapping[str, str] = {}
        self._bundles: Mapping[str, BundleStatus] = {}
        self._discovery: BundleStatus | None = None
        self._decision_logs: Mapping[str, Any] | None = None
        self._changed = threading.Event()
        self._stop = threading.Event()
        self._parts = parts or Parts()
        self._part = Part("status", within=120.0)
        self._thread: threading.Thread | None = None

    @property
    def is_enabled(self) -> bool:
        return self._options is not None

    def configure(
        self,
        options: StatusOptions | None,
        client: ServiceClient | None,
        labels: Mapping[str, str],
        *,
        starts: bool = True,
    ) -> None:
        """Report in this way from now on."""
        self._options, self._client, self._labels = options, client, dict(labels)
        if options is not None and starts:
            self.start()

    def start(self) -> None:
        """Begin to report."""
        if self._thread is not None or self._options is None:
            return
        self._thread = loop_thread(
            self._round, _EDGE, name="status", stop=self._stop, part=self._part
        )
        self._part.thread = self._thread
        self._thread.start()
        # From here on it counts: a thread that was not started yet looks like a dead one.
        self._parts.add(self._part)
        self._changed.set()

    def note_bundles(self, statuses: Mapping[str, BundleStatus]) -> None:
        self._bundles = statuses
        self._changed.set()

    def note_discovery(self, status: BundleStatus) -> None:
        self._discovery = status
        self._changed.set()

    def note_decision_logs(self, status: Mapping[str, Any]) -> None:
        """`code`, `message` and `http_code` of the last upload, or nothing."""
        if status != self._decision_logs:
            self._decision_logs = dict(status)
            self._changed.set()

    def note_plugins(self) -> None:
        self._changed.set()

    def document(self) -> dict[str, Any]:
        """The whole status, as `/v1/status` shows it."""
        shown: dict[str, Any] = {"labels": dict(self._labels)}
        if self._bundles:
            shown["bundles"] = {name: each.document() for name, each in self._bundles.items()}
        if self._discovery is not None:
            shown["discovery"] = self._discovery.document()
        if self._decision_logs is not None:
            shown["decision_logs"] = dict(self._decision_logs)
        if metrics := self._metrics():
            shown["metrics"] = dict(metrics)
        shown["plugins"] = {name: {"state": state} for name, state in self._plugins().items()}
        return shown

    def report(self) -> None:
        """Send one update everywhere it goes."""
        options = self._options
        if options is None:
            return
        document = self.document()
        if options.console:
            _log.info("Status Log", extra={"fields": {**document, "type": TYPE}})
        if options.prometheus:
            self._on_report(self._bundles)
        if options.service and self._client is not None:
            self._send(self._client, options, document)

    def _send(
        self, client: ServiceClient, options: StatusOptions, document: Mapping[str, Any]
    ) -> None:
        content = marshal(dict(document.items())).encode(errors="replace") + b"\n"
        headers = {"content-type": "application/json"}
        try:
            answer = client.request("POST", options.resource, headers=headers, content=content)
        except ServiceError as error:
            _log.error(f"status update failed: {error}.", extra={"plugin": "status"})
            return
        if not 200 <= answer.status < 300:
            text = status_text(answer.status)
            message = f"status update failed, server replied with HTTP {answer.status} {text}."
            _log.error(message, extra={"plugin": "status"})

    def _round(self) -> bool:
        self._part.rest()
        self._changed.wait()
        if self._stop.is_set():
            return False
        self._part.beat()
        self._changed.clear()
        options = self._options
        if options is not None and options.trigger == "periodic":
            self.report()
        return True

    def close(self, timeout: float = 2.0) -> None:
        """Report no more, at the latest in `timeout` seconds."""
        self._parts.remove(self._part)
        self._stop.set()
        self._changed.set()
        if self._thread is not None:
            self._thread.join(timeout)
