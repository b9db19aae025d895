"""The control plane of one decision point: its services, bundles, discovery and status together.

    configuration (file, then discovered) -> clients -> bundles, status, and the HTTP API

`apply` may be called at any time; unchanged parts continue. It applies a configuration whole or not
at all: what can fail comes first, and what the configuration before used is closed last.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from doorward.config.blocks import Block, overlaid
from doorward.config.configuration import Config, ConfigError, config_of
from doorward.config.schema import options_of
from doorward.control.bundle_status import BundleStatus
from doorward.control.bundles import Bundles
from doorward.control.discovery import Discovery
from doorward.control.rounds import Runner, Threads
from doorward.control.saved_bundles import SavedBundles
from doorward.control.status import StatusReporter
from doorward.edge import Parts
from doorward.pdp.snapshot import Settings
from doorward.pdp.store import BusyError, NotReplacedError, Store
from doorward.rego import Value
from doorward.rego.golang import marshal
from doorward.telemetry.health import Health, State

if TYPE_CHECKING:
    import httpx

    from doorward.config.services import Service
    from doorward.control.answers import Client
    from doorward.telemetry.tracing import Tracer

__all__ = ["Change", "ControlPlane", "Prepare", "followed"]

_log: Final = logging.getLogger(__name__)
_FIXED: Final = {
    each.key: name
    for name, each in options_of(Config).items()
    if not each.is_reloadable and each.key not in ("discovery", "storage")
}
"""The keys of the configuration that take effect only after a restart, each with its field.
`discovery` is not among them: `reload` refuses a change of it.
"""


CLOSE_WITHIN: Final = 10.0
"""The seconds for which `close` waits for a configuration that is being applied."""


class Change(NamedTuple):
    """A change to another configuration, prepared by a part outside of the control plane. One of
    the two functions is called, once.
    """

    commit: Callable[[], object] = lambda: None
    """Puts the change into effect; it must not fail."""
    abandon: Callable[[], object] = lambda: None
    """Undoes what was prepared; the configuration before stays in effect."""


Prepare: TypeAlias = Callable[[Config, Mapping[str, "Client"]], Change]
"""Prepares a change to a configuration, whose services have these clients by name; ConfigError if
that is impossible.
"""


class ControlPlane:
    """Downloads bundles and configuration, and reports the status. `start` is called once the
    servers are ready.
    """

    def __init__(
        self,
        config: Config,
        store: Store,
        health: Health,
        *,
        settings: Settings | None = None,
        prepare: Prepare = lambda _config, _clients: Change(),
        on_bundles: Callable[[Mapping[str, BundleStatus]], object] = lambda _statuses: None,
        metrics: Callable[[], Mapping[str, Any]] = dict,
        environment: Mapping[str, str] | None = None,
        transport: httpx.BaseTransport | None = None,
        tracer: Tracer | None = None,
        parts: Parts | None = None,
        runner: Runner | None = None,
        client_for: Callable[[Service], Client] | None = None,
    ) -> None:
        """Prepare what `config` names: services, bundles, discovery and status reports; `start`
        begins.

        `prepare` prepares other parts for each configuration after the first; `on_bundles` is
        called with the statuses at each report for Prometheus. `transport`: in place of the
        network, for tests. `tracer`: makes a span of each request. `runner`: runs the parts, by
        default in threads. `client_for` makes the client of a service.
        """
        self._boot = self._config = config
        self._health = health
        self._settings = settings or Settings()
        self._prepare = prepare
        self._environment = environment
        self._transport = transport
        self._tracer = tracer
        self._lock = threading.RLock()
        self._clients: dict[str, Client] = {}
        self._client_for = client_for or self._http_client
        self.is_started = False
        self._is_closing = False
        saved = SavedBundles(config.persistence_directory)
        runner = runner or Threads(parts or health.parts)
        self.status = StatusReporter(
            plugins=self._states, metrics=metrics, on_report=on_bundles, runner=runner
        )
        self.bundles = Bundles(
            store,
            v0=self._settings.v0,
            saved=saved,
            on_change=self._note_bundles,
            runner=runner,
        )
        self.discovery: Discovery | None = None
        self._health.set("discovery", State.NOT_READY if config.discovery else State.OK)
        self._use(config, self._clients_for(config))
        self._configure_bundles(config, self._clients)
        if config.discovery is not None:
            self.discovery = Discovery(
                config.discovery,
                self._clients.get(config.discovery.bundle.service),
                self._discover,
                settings=self._settings,
                saved=saved,
                on_change=self._note_discovery,
                runner=runner,
            )

    @property
    def config(self) -> Config:
        """The active configuration."""
        return self._config

    @property
    def clients(self) -> Mapping[str, Client]:
        """The clients of the services of the active configuration, by name."""
        return self._clients

    def start(self) -> None:
        """Start the periodic work: reporting the status, downloading bundles and following
        discovery. A saved discovered configuration is applied before this returns; failures are in
        the status.
        """
        self.is_started = True
        self.status.start()
        self.note_status()
        self.bundles.start()
        if self.discovery is not None:
            self.discovery.start()

    def stop_following(self) -> None:
        """Apply no further configuration. Wait at most `CLOSE_WITHIN` seconds for one that is being
        applied.
        """
        self._is_closing = True
        if self.discovery is not None:
            self.discovery.close()
        if self._lock.acquire(timeout=CLOSE_WITHIN):
            self._lock.release()

    def close(self) -> None:
        """Apply no further configuration, stop downloading and reporting, and close the clients of
        all services. Waits a few seconds at most for a configuration that is being applied and a
        report in progress.
        """
        self.stop_following()
        self.bundles.close()
        self.status.close()
        for client in self._clients.values():
            client.close()

    def reload(self, config: Config) -> None:
        """Apply a configuration that was read again; with discovery, at the next download. Raise
        ConfigError if `discovery` has changed or the configuration cannot be applied, CompileError
        if other policies need a bundle that it does not have.
        """
        with self._lock:
            if config.discovery != self._boot.discovery:
                raise ConfigError(
                    "the configuration key `discovery` cannot change while Doorward "
                    "runs: restart to apply it"
                )
            if self.discovery is None:
                self.apply(config)
            else:
                # What is discovered next is laid over the new file.
                self.discovery.forget()
            self._boot = config

    def apply(self, config: Config) -> None:
        """Apply another configuration, or raise an error and leave the one before. Keys that need a
        restart are logged and not applied. Clients of unchanged services stay; others are closed
        once nothing uses them any more.

        CompileError if remaining policies need a bundle that the configuration does not have;
        ConfigError if another part cannot follow it, changes before it take too long, or the plane
        is closing.
        """
        with self._lock, ExitStack() as undo:
            if self._is_closing:
                raise ConfigError("shutting down")
            before, older = self._config, self._clients
            clients = self._clients_for(config)
            undo.callback(_close_others, clients, older)
            change = self._prepare(config, clients)
            undo.callback(change.abandon)
            self._configure_bundles(config, clients)
            undo.pop_all()
            self._use(config, clients)
            # Last: the parts of the configuration before send with its clients what still waits.
            undo.callback(_close_others, older, clients)
            change.commit()
            for name in _FIXED:
                if config.document.get(name) != before.document.get(name):
                    _log.warning(
                        f"the configuration key `{name}` changed: restart Doorward to apply it"
                    )

    def _http_client(self, service: Service) -> Client:
        """Return a client of a service over httpx."""
        # It brings httpx, and with that 60 modules that no other decision point needs.
        from doorward.control.client import ServiceClient

        return ServiceClient(service, transport=self._transport, tracer=self._tracer)

    def _clients_for(self, config: Config) -> dict[str, Client]:
        """Return a client of each service, by name: of an unchanged service the one that runs, of
        others a new one.
        """
        return {
            name: running
            if (running := self._clients.get(name)) is not None and running.service == service
            else self._client_for(service)
            for name, service in config.services.items()
        }

    def _configure_bundles(self, config: Config, clients: Mapping[str, Client]) -> None:
        """Poll the bundles of a configuration, or raise CompileError or ConfigError and poll those
        before.
        """
        try:
            self.bundles.configure(config.bundles, clients, starts=self.is_started)
        except (BusyError, NotReplacedError) as error:
            raise ConfigError(f"bundles: {error}") from None

    def _use(self, config: Config, clients: dict[str, Client]) -> None:
        """Make a configuration and its clients the active ones, and report the status as it says.
        Bundles and other parts are not changed. Reports begin at once if the plane is started.
        """
        self._clients, self._config = clients, config
        status = config.status
        client = clients.get(status.service) if status is not None else None
        self.status.configure(status, client, config.labels, starts=self.is_started)
        self.note_status()

    def _discover(self, document: Value) -> None:
        """Apply a discovered document as configuration; values of the configuration file win.
        ConfigError if it is invalid or changes a setting of discovery itself; errors of `apply`
        pass through.
        """
        if not isinstance(document, dict):
            raise ConfigError(
                "the discovered configuration must be an object: check `discovery.decision`"
            )
        from doorward.config.yaml_block import read_block  # it brings a parser of YAML

        with self._lock:
            environment = os.environ if self._environment is None else self._environment
            block = read_block(marshal(document), file="discovery", environment=environment)
            assert self._boot.discovery is not None
            _check_fixed(block, self._boot, self._boot.discovery.bundle.service)
            config = config_of(overlaid(block, self._boot.block), labels=self._boot.labels)
            for warning in config.warnings:
                _log.warning(warning)
            self.apply(self._with_bundles(config))

    def _with_bundles(self, config: Config) -> Config:
        """Return a discovered configuration, with the active bundles and their services if it does
        not name bundles. As in OPA, only `bundles: {}` deactivates them.
        """
        if not config.document.keys().isdisjoint(("bundle", "bundles")):
            return config
        current = self._config
        names = {each.service for each in current.bundles.values()}
        services = {name: each for name, each in current.services.items() if name in names}
        return replace(config, bundles=current.bundles, services={**services, **config.services})

    def note_status(self) -> None:
        """Set the health of the status plugin, if reports are configured: OK once started."""
        if self.status.is_enabled:
            self._health.set("status", State.OK if self.is_started else State.NOT_READY)

    def _note_bundles(self, statuses: Mapping[str, BundleStatus]) -> None:
        """Pass the statuses of all bundles to the health checks and the status reports, after each
        attempt to load one. The health of `bundle` is OK once all were activated.
        """
        bundles = self.bundles
        # Without bundles there is no such part; one that was there is OK after the last bundle.
        if statuses or "bundle" in self._health.states:
            self._health.set("bundle", State.OK if bundles.is_ready else State.NOT_READY)
        self._health.failing_bundles = dict(bundles.failing)
        self.status.note_bundles(statuses)

    def _note_discovery(self, status: BundleStatus) -> None:
        """Report the status of discovery; its health becomes OK once discovery is ready."""
        if self.discovery is not None and self.discovery.is_ready:
            self._health.set("discovery", State.OK)
        self.status.note_discovery(status)

    def _states(self) -> dict[str, str]:
        return {name: state.value for name, state in self._health.states.items()}


def _close_others(clients: Mapping[str, Client], kept: Mapping[str, Client]) -> None:
    """Close the clients that are not among `kept`."""
    for name, each in clients.items():
        if kept.get(name) is not each:
            each.close()


def followed(config: Config, boot: Config) -> Config:
    """Return `config` with the values that need a restart taken from `boot`: the configuration that
    is really in effect.
    """
    fixed = {name: getattr(boot, name) for name in _FIXED.values()}
    return replace(config, tracing=boot.tracing, **fixed)


def _check_fixed(discovered: Block, boot: Config, service: str) -> None:
    """Raise ConfigError if a discovered configuration changes what its own download depends on: the
    service of discovery, or one of the `keys` in the configuration file.
    """
    for key in ("services", "keys"):
        known = boot.block.plain().get(key)
        new = discovered.plain().get(key)
        if not isinstance(known, Mapping) or not isinstance(new, Mapping):
            continue
        for name, value in new.items():
            if name in known and value != known[name] and (key == "keys" or name == service):
                subject = (
                    "the discovery service" if key == "services" else "keys of the configuration"
                )
                raise ConfigError(f"updates to {subject} are not allowed")
