"""The control plane of one decision point: its services, bundles, discovery and status together.

    configuration (file, then discovered) -> clients -> bundles, status, and the HTTP API

`apply` may be called at any time; unchanged parts continue.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

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
from doorward.pdp.store import Store
from doorward.rego import Value
from doorward.rego.golang import marshal
from doorward.telemetry.health import Health, State

if TYPE_CHECKING:
    import httpx

    from doorward.config.services import Service
    from doorward.control.answers import Client
    from doorward.telemetry.tracing import Tracer

__all__ = ["ControlPlane", "followed"]

_log: Final = logging.getLogger(__name__)
_FIXED: Final = {
    each.key: name
    for name, each in options_of(Config).items()
    if not each.is_reloadable and each.key not in ("discovery", "storage")
}
"""The keys of the configuration that take effect only after a restart, each with its field.
`discovery` is not among them: `reload` refuses a change of it.
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
        on_config: Callable[[Config], object] = lambda _config: None,
        on_bundles: Callable[[Mapping[str, BundleStatus]], object] = lambda _statuses: None,
        metrics: Callable[[], Mapping[str, Any]] = dict,
        environment: Mapping[str, str] | None = None,
        transport: httpx.BaseTransport | None = None,
        tracer: Tracer | None = None,
        parts: Parts | None = None,
        runner: Runner | None = None,
        client_for: Callable[[Service], Client] | None = None,
    ) -> None:
        """`on_config` is called with each configuration that is applied after the first;
        `on_bundles` with the statuses at each report for Prometheus. `transport`: in place of the
        network, for tests. `tracer`: makes a span of each request. `runner`: runs the parts, by
        default in threads. `client_for` makes the client of a service.
        """
        self._boot = self._config = config
        self._health = health
        self._settings = settings or Settings()
        self._on_config = on_config
        self._environment = environment
        self._transport = transport
        self._tracer = tracer
        self._lock = threading.RLock()
        self._clients: dict[str, Client] = {}
        self._client_for = client_for or self._http_client
        self.is_started = False
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
        self._follow(config)
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

    def client(self, service: str) -> Client | None:
        """Return the client of a service; None if the configuration does not have it."""
        return self._clients.get(service)

    def start(self) -> None:
        """Start downloading bundles and configuration, and reporting the status."""
        self.is_started = True
        self.status.start()
        self.note_status()
        self.bundles.start()
        if self.discovery is not None:
            self.discovery.start()

    def close(self) -> None:
        """Stop downloading and reporting, and close all connections."""
        if self.discovery is not None:
            self.discovery.close()
        self.bundles.close()
        self.status.close()
        for client in self._clients.values():
            client.close()

    def reload(self, config: Config) -> None:
        """Apply a configuration that was read again; with discovery, at the next download.
        ConfigError if `discovery` has changed.
        """
        with self._lock:
            if config.discovery != self._boot.discovery:
                raise ConfigError("`discovery` cannot change: restart to apply it")
            self._boot = config
            if self.discovery is None:
                self.apply(config)
            else:
                # What is discovered next is laid over the new file.
                self.discovery.forget()

    def apply(self, config: Config) -> None:
        """Apply another configuration, and call `on_config`. Keys that need a restart are logged
        and not applied. Raise what `Store.deactivate` raises if a bundle cannot be removed.
        """
        with self._lock:
            changed = [
                name
                for name in _FIXED
                if config.document.get(name) != self._config.document.get(name)
            ]
            for name in changed:
                _log.warning(f"`{name}` changed: restart to apply it")
            self._follow(config)
            self._on_config(config)

    def _http_client(self, service: Service) -> Client:
        """Return a client of a service over httpx."""
        # It brings httpx, and with that 60 modules that no other decision point needs.
        from doorward.control.client import ServiceClient

        return ServiceClient(service, transport=self._transport, tracer=self._tracer)

    def _follow(self, config: Config) -> None:
        """Apply a configuration to clients, status and bundles. Clients of unchanged services stay;
        others are replaced and then closed.
        """
        older = self._clients
        self._clients = {
            name: running
            if (running := older.get(name)) is not None and running.service == service
            else self._client_for(service)
            for name, service in config.services.items()
        }
        self._config = config
        status = config.status
        client = self._clients.get(status.service) if status is not None else None
        starts = self.is_started
        self.status.configure(status, client, config.labels, starts=starts)
        self.note_status()
        self.bundles.configure(config.bundles, self._clients, starts=starts)
        # Last: pollers and reports used the old clients until they got the new ones above.
        for name, each in older.items():
            if self._clients.get(name) is not each:
                each.close()

    def _discover(self, document: Value) -> None:
        """Apply a discovered document as configuration; values of the configuration file win.
        ConfigError if it is invalid or changes a setting of discovery itself.
        """
        if not isinstance(document, dict):
            raise ConfigError("the discovered configuration is not an object")
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
        """Update the health and the status reports with the statuses of all bundles."""
        bundles = self.bundles
        if statuses or "bundle" in self._health.states:
            self._health.set("bundle", State.OK if bundles.is_ready else State.NOT_READY)
        self._health.failing_bundles = dict(bundles.failing)
        self.status.note_bundles(statuses)

    def _note_discovery(self, status: BundleStatus) -> None:
        """Update the health and the status reports with the status of discovery."""
        if self.discovery is not None and self.discovery.is_ready:
            self._health.set("discovery", State.OK)
        self.status.note_discovery(status)

    def _states(self) -> dict[str, str]:
        return {name: state.value for name, state in self._health.states.items()}


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
