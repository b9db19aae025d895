"""The plane of a parent of workers: the control plane without a thread.

    schedule ── Ask ──▶ asking process ──▶ services
       │ answer
       ▼
    ControlPlane ──▶ Store.activate ──▶ the next generation of workers, everywhere or nowhere

The workers have no bundles, discovery or status of their own: the parent tells them how all is.
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
from doorward.control.plane import ControlPlane
from doorward.control.rounds import Schedule
from doorward.control.status import ToldStatus
from doorward.pdp.snapshot import Settings
from doorward.pdp.store import Store
from doorward.server.asking import AskingProcess, RemoteClient
from doorward.server.worker_state import worst
from doorward.telemetry.health import Health, State

__all__ = ["ParentPlane", "has_asks", "note_told", "without_asks"]

_OWN: Final = frozenset({"bundle", "discovery", "status"})
"""Parts that are the parent's; all others are workers'."""


def has_asks(config: Config) -> bool:
    """Return True if services are asked for anything but to take decision logs."""
    return bool(config.bundles or config.discovery or config.status)


def without_asks(config: Config) -> Config:
    """The configuration of one worker: what only the parent fetches and reports is left out."""
    return replace(config, bundles={}, discovery=None, status=None)


class ParentPlane:
    """The control plane of a group of workers. For its only thread."""

    def __init__(
        self,
        config: Config,
        store: Store,
        health: Health,
        asking: AskingProcess,
        settings: Settings,
        *,
        on_config: Callable[[Config], object],
        metrics: Callable[[], Mapping[str, Any]],
    ) -> None:
        """`metrics`: the numbers of all workers, by their system."""
        self._health = health
        self._asking = asking
        self._schedule = Schedule(asking, health.parts)
        self.registry = CollectorRegistry()
        """The metrics of bundles."""
        self._metrics: BundleMetrics | None = None
        self._plane = ControlPlane(
            config,
            store,
            health,
            settings=settings,
            on_config=on_config,
            on_bundles=self._note_bundles,
            metrics=metrics,
            runner=self._schedule,
            client_for=RemoteClient,
        )

    @property
    def is_ready(self) -> bool:
        """True if discovery and each bundle have been in force once."""
        return not set(self._health.down()) & {"bundle", "discovery"}

    @property
    def news(self) -> tuple[object, ...]:
        """Something else once the workers have to be told."""
        parts = self._health.states, self._health.own_stopped
        return (self._plane.status.news, *parts)

    @property
    def descriptor(self) -> int | None:
        """Readable when `run_due` is to be called."""
        return self._asking.descriptor

    def start(self) -> None:
        """Begin to fetch and to report."""
        self._plane.start()

    def run_due(self) -> float:
        """Process outcomes that arrived and start due rounds; return seconds until the next."""
        for number, outcome in list(self._asking.receive()):
            self._schedule.note(number, outcome)
        return self._schedule.run_due()

    def reload(self, config: Config) -> None:
        """Follow a configuration that was read again; ConfigError where it cannot be."""
        self._plane.reload(config)

    def note_workers(self, states: Iterable[Mapping[str, Any]]) -> None:
        """Take the states of the workers, for the health and for the status of decision logs."""
        states = list(states)
        for name, state in worst(states).items():
            if name not in _OWN:
                self._health.set(name, state)
        uploads = [each["decision_logs"] for each in states if each["decision_logs"] is not None]
        if uploads:
            # One that failed says more than one that did not.
            self._plane.status.note_decision_logs(max(uploads, key=bool))

    def told(self) -> dict[str, Any]:
        """Return the state that each worker is sent, as JSON."""
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
        """Fetch and report no more."""
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
    """Apply in a worker what the parent sent: the value of `ParentPlane.told`."""
    for name, state in told["states"].items():
        health.set(name, State(state))
    health.failing_bundles = told["failing_bundles"]
    health.stopped_in_parent = [(name, problem) for name, problem in told["stopped"]]
    status.told, status.is_enabled = told["status"], told["reports_status"]
