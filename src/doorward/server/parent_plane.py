"""The control plane of a parent of workers, which has no threads.

    schedule ── Ask ──▶ asking process ──▶ services
       │ answer
       ▼
    ControlPlane ──▶ Store.activate ──▶ the next generation of workers, everywhere or nowhere

The workers have no bundles, discovery or status of their own: the parent sends them the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from prometheus_client import CollectorRegistry

from doorward import __version__
from doorward.config.configuration import Config
from doorward.control.bundle_metrics import BundleMetrics
from doorward.control.bundle_status import BundleStatus
from doorward.control.plane import ControlPlane, Prepare
from doorward.control.rounds import Schedule
from doorward.control.status import ToldStatus
from doorward.pdp.snapshot import Settings
from doorward.pdp.store import Store
from doorward.server.asking import AskingProcess, RemoteClient
from doorward.server.worker_state import worst
from doorward.telemetry.health import Health, State

__all__ = ["ParentPlane", "has_asks", "note_told", "without_asks"]

_OWN: Final = frozenset({"bundle", "discovery", "status"})
"""Parts whose states come from the parent; all others come from the workers."""


def has_asks(config: Config) -> bool:
    """Return True if bundles, discovery or status are configured, which the parent process handles
    for all workers; decision logs do not count, since workers upload them.
    """
    return bool(config.bundles or config.discovery or config.status)


def without_asks(config: Config) -> Config:
    """Return the configuration of one worker: without bundles, discovery and status."""
    return replace(config, bundles={}, discovery=None, status=None)


class ParentPlane:
    """The control plane of a group of workers. Not thread-safe: the parent has only one thread."""

    def __init__(
        self,
        config: Config,
        store: Store,
        health: Health,
        asking: AskingProcess,
        settings: Settings,
        *,
        prepare: Prepare,
        metrics: Callable[[], Mapping[str, Any]],
    ) -> None:
        """Create the control plane of the parent, which sends its requests through `asking`.
        `prepare` is that of `ControlPlane`. `metrics` returns the metrics of all workers for status
        reports, by their system (`prometheus`).
        """
        self._health = health
        self._asking = asking
        self._schedule = Schedule(asking, health.parts)
        self.registry = CollectorRegistry()
        """The registry with the metrics of bundles."""
        self._metrics: BundleMetrics | None = None
        self._plane = ControlPlane(
            config,
            store,
            health,
            settings=settings,
            prepare=prepare,
            on_bundles=self._note_bundles,
            metrics=metrics,
            runner=self._schedule,
            client_for=RemoteClient,
        )

    @property
    def is_ready(self) -> bool:
        """True if discovery and each bundle have been activated at least once."""
        return not set(self._health.down()) & {"bundle", "discovery"}

    @property
    def news(self) -> tuple[object, ...]:
        """A value that changes when the workers must be sent the state again."""
        parts = self._health.states, self._health.own_stopped
        return (self._plane.status.news, *parts)

    @property
    def descriptor(self) -> int | None:
        """A descriptor that is readable when `run_due` must be called; None while there is none."""
        return self._asking.descriptor

    def start(self) -> None:
        """Start to download and to report; `run_due` does the work."""
        self._plane.start()

    def run_due(self) -> float:
        """Process the outcomes that have arrived and start due rounds; return the seconds until the
        next one. Does not wait for services.
        """
        # All are read first: `note` may send the next request, or start the process again.
        for number, outcome in list(self._asking.receive()):
            self._schedule.note(number, outcome)
        return self._schedule.run_due()

    def reload(self, config: Config) -> None:
        """Apply a configuration that was read again; raise ConfigError, with the old one active, if
        that is impossible.
        """
        self._plane.reload(config)

    def note_workers(self, states: Iterable[Mapping[str, Any]]) -> None:
        """Update health and status from the states of the workers: for each part that is not the
        parent's own, the worst state of any worker.
        """
        states = list(states)
        for name, state in worst(states).items():
            if name not in _OWN:
                self._health.set(name, state)
        uploads = [each["decision_logs"] for each in states if each["decision_logs"] is not None]
        if uploads:
            # One that failed says more than one that did not.
            self._plane.status.note_decision_logs(max(uploads, key=bool))

    def told(self) -> dict[str, Any]:
        """Return the state that the parent sends to each worker, as JSON values; `note_told`
        applies it.
        """
        states = self._health.states.items()
        status = self._plane.status
        return {
            "states": {name: state.value for name, state in states if name in _OWN},
            "failing_bundles": dict(self._health.failing_bundles),
            "stopped": [list(pair) for pair in self._health.own_stopped],
            "status": status.document(),
            "reports_status": status.is_enabled,
        }

    def close(self) -> None:
        """Stop downloads and reports, and kill the asking process."""
        self._plane.close()
        self._asking.close()

    def _note_bundles(self, statuses: Mapping[str, BundleStatus]) -> None:
        """Update the metrics of bundles; they are created by the first status."""
        if self._metrics is None:
            options = self._plane.config.status
            assert options is not None
            self._metrics = BundleMetrics(self.registry, __version__, options.buckets)
        self._metrics.note(statuses)


def note_told(told: Mapping[str, Any], health: Health, status: ToldStatus) -> None:
    """Apply the value of `ParentPlane.told` to the health and status of a worker."""
    for name, state in told["states"].items():
        health.set(name, State(state))
    health.failing_bundles = told["failing_bundles"]
    health.stopped_in_parent = [(name, problem) for name, problem in told["stopped"]]
    status.told, status.is_enabled = told["status"], told["reports_status"]
