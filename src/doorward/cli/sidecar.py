"""The running decision point: its parts put together, started in order, and ended together.

Everything that can fail does so before anything is served. Adapters never see each other; what
they share is the decision point, the health and the metrics that are made here.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from socket import socket as Socket
from typing import TYPE_CHECKING, Any, Final

from doorward import __version__
from doorward.edge import Edge, Told, repeat
from doorward.envoy.metrics import Metrics as EnvoyMetrics
from doorward.envoy.options import Options, OptionsError, from_block
from doorward.envoy.server import PLUGIN, Server, StartError, make_server
from doorward.forward.app import ForwardAuth
from doorward.forward.options import PLUGIN as FORWARD
from doorward.forward.options import Options as ForwardOptions
from doorward.forward.options import OptionsError as ForwardOptionsError
from doorward.forward.options import from_block as forward_from_block
from doorward.pdp.builtin_answers import noting
from doorward.pdp.config import Config, ConfigError, identified
from doorward.pdp.config import Shadow as ShadowOptions
from doorward.pdp.control.bundle_metrics import BundleMetrics
from doorward.pdp.control.bundle_status import BundleStatus
from doorward.pdp.control.log_file import LogFile
from doorward.pdp.control.outbox import SpoolError
from doorward.pdp.control.plane import ControlPlane
from doorward.pdp.control.status import Status, ToldStatus
from doorward.pdp.control.uploads import Uploads
from doorward.pdp.decision_log import DecisionLog, EventSink
from doorward.pdp.health import Health, State
from doorward.pdp.loader import Loaded
from doorward.pdp.log import line_for, stamp_for
from doorward.pdp.metrics import Metrics
from doorward.pdp.pdp import PDP, DecisionSink, Tee
from doorward.pdp.reload import Watcher
from doorward.pdp.snapshot import Settings, Snapshot, build
from doorward.pdp.sources import Sources
from doorward.pdp.store import Store
from doorward.pdp.trace_options import asks_for_traces
from doorward.pdp.traced_sender import TracedSender
from doorward.pdp.yaml_block import Block
from doorward.rego import (
    REGISTRY,
    Capabilities,
    Environment,
    Registry,
    ResponseCache,
    Span,
    VerifiedTokens,
)
from doorward.rest.app import Api
from doorward.rest.authorization import Access
from doorward.rest.request_log import RequestLog
from doorward.rest.server import MAX_CONNECTIONS, BindError, HttpServer, Listener, bind
from doorward.transport.tls import TlsContext, TlsError, TlsOptions

if TYPE_CHECKING:
    from doorward.console import Console
    from doorward.pdp.control.answers import Client
    from doorward.pdp.identity import Identity
    from doorward.pdp.identity_options import Issuer
    from doorward.pdp.tracing import Tracer
    from doorward.replay.shadow import Shadow
    from doorward.transport.peers import Peers

__all__ = [
    "Shared",
    "Sidecar",
    "SidecarOptions",
    "StartupError",
    "announce",
    "bind_all",
    "envoy_options",
    "identified_options",
    "load",
    "reread",
    "settings_of",
    "tls_context",
    "warm",
]

_log: Final = logging.getLogger(__name__)
_EDGE: Final = Edge("supervisor", "watching over the parts failed")
_ROUND: Final = 5.0
"""Seconds between two looks at the parts; a signal is noticed at once."""
_READY_ROUND: Final = 0.05
_KEYS_WITHIN: Final = 5.0
"""Seconds in which the keys of issuers are waited for before anything is served."""
_PROBES: Final = 100
"""Connections of the listeners that probes and scrapers use."""


class StartupError(Exception):
    """What keeps the decision point from starting, in words for the operator."""


@dataclass(frozen=True, slots=True)
class SidecarOptions:
    """How `doorward run --server` was called."""

    sources: Sources = field(default_factory=Sources)
    config: Config = field(default_factory=Config)
    addresses: Sequence[str] = ("localhost:8181",)
    diagnostic_addresses: Sequence[str] = ()
    console: bool = False
    """Whether the diagnostic listeners serve the console."""
    docker_log: str = ""
    """The audit log of a Docker plugin, whose decisions the console shows as well."""
    log_format: str = "json"
    log_timestamp_format: str = ""
    """A layout of Go's; RFC 3339 to the second without."""
    watch: bool = True
    capabilities: Capabilities | None = None
    registry: Registry = REGISTRY
    max_errors: int = 10
    """Errors of policies that are reported; 0: all."""
    grace: float = 10.0
    wait: float = 0.0
    unix_permissions: int = 0o755
    access: Access = field(default_factory=Access)
    tls: TlsOptions | None = None
    workers: int = 1
    read_config: Callable[[], Config] | None = None
    """Reads the configuration again, for SIGHUP."""
    ready_timeout: float = 0.0
    """Seconds in which bundles and discovery must be ready before anything is served; 0: nothing
    waits for them."""
    sender: TracedSender | None = None
    """What policies send requests with, where requests are traced."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What one of several workers has from its parent: nothing is read, bound or fetched again."""

    snapshot: Snapshot
    sockets: Sequence[Socket]
    """Of the HTTP API, in the order of `all_addresses`."""
    checks: Sequence[Socket]
    """Of this worker's gRPC server."""
    write: Callable[[bytes], object]
    """Writes lines of the decision log."""
    peers: Peers | None = None
    """The other workers, where a console shows all of them."""
    status: ToldStatus = field(default_factory=ToldStatus)


def identified_options(options: SidecarOptions) -> SidecarOptions:
    """The options with the id that the decision point has in its logs, and how it sends."""
    is_traced = options.config.tracing is not None or asks_for_traces(os.environ)
    sender = TracedSender() if is_traced else None
    return replace(options, config=identified(options.config), sender=sender)


def settings_of(options: SidecarOptions) -> Settings:
    """How policies are compiled and evaluated."""
    config = options.config
    caching, notes = config.caching, config.nd_builtin_cache
    return Settings(
        v0=options.sources.v0,
        capabilities=options.capabilities,
        registry=noting(options.registry) if notes else options.registry,
        notes_answers=notes,
        marked=options.console or config.decision_logs.rules,
        deadline=config.evaluation.deadline,
        max_items=config.evaluation.max_items,
        max_errors=options.max_errors,
        environment=Environment(
            runtime=_runtime(config),
            tokens=VerifiedTokens(caching.tokens),
            responses=ResponseCache(
                caching.response_bytes * caching.response_percentage // 100,
                stale_after=caching.stale_seconds,
            ),
            on_print=_print,
            http=options.sender,
        ),
    )


def envoy_options(config: Config) -> Options | None:
    """The options of the gRPC server, where there is to be one."""
    block = config.plugins.get(PLUGIN)
    return None if block is None else _envoy_options(block)


def forward_options(config: Config) -> ForwardOptions | None:
    """The options of the endpoints for proxies, where there are to be some."""
    block = config.plugins.get(FORWARD)
    if block is None:
        return None
    try:
        options, _ = forward_from_block(block.plain())
    except ForwardOptionsError as error:
        raise ConfigError(f"{block.location(error.key)} {error.message}") from None
    return options


def _warn_of_unknown_keys(config: Config) -> None:
    """Once, where `forward_options` read a block that could be used."""
    block = config.plugins.get(FORWARD)
    for key in forward_from_block(block.plain())[1] if block is not None else ():
        assert block is not None  # or there are no keys
        _log.warning(f"{block.location(key)}: unknown key, ignored")


def load(options: SidecarOptions) -> Loaded:
    """The policies and data as files have them now."""
    loaded = options.sources.load()
    for note in loaded.notes:
        _log.warning(note)
    return loaded


def warm(snapshot: Snapshot, config: Config, envoy: Options | None, access: Access) -> None:
    """Prepare the questions to come."""
    logs = config.decision_logs
    snapshot.warm([logs.drop_decision, logs.mask_decision] if logs.is_enabled else [])
    if access.authorizes:
        snapshot.warm([config.default_authorization_decision])
    if envoy is not None and not envoy.query:
        snapshot.warm([envoy.path])


def announce(options: SidecarOptions, snapshot: Snapshot) -> None:
    """Say in the log what is about to be served."""
    for warning in options.config.warnings:
        _log.warning(warning)
    _warn_of_unknown_keys(options.config)
    _log.info(
        "Initializing server.",
        extra={
            "addrs": list(options.addresses),
            "diagnostic-addrs": list(options.diagnostic_addresses),
            "revision": snapshot.revision,
            **({"workers": options.workers} if options.workers > 1 else {}),
        },
    )


def all_addresses(options: SidecarOptions) -> list[str]:
    """What is listened on for HTTP: the API itself, then health and metrics only, then proxies."""
    forward = forward_options(options.config)
    proxies = [] if forward is None else [forward.addr]
    return [*options.addresses, *options.diagnostic_addresses, *proxies]


def bind_all(options: SidecarOptions) -> list[Socket]:
    """The listening sockets of the HTTP API; StartupError where one cannot be had."""
    bound: list[Socket] = []
    try:
        for address in all_addresses(options):
            bound.append(bind(address, unix_permissions=options.unix_permissions))
    except BindError as error:
        for each in bound:
            each.close()
        raise StartupError(str(error)) from None
    return bound


class Sidecar:
    """Every part of one decision point. `start`, then `run` until told to stop."""

    def __init__(self, options: SidecarOptions, shared: Shared | None = None) -> None:
        """`shared`: this is one of several workers."""
        if shared is None:
            options = identified_options(options)
        self._options = options
        self._shared = shared
        self._stop = Told()
        self._wakes = Told()
        self._reloads = False
        self.health = Health()
        self.metrics = Metrics(__version__)
        self._tracer = _tracer(options)
        settings = settings_of(options)
        self._envoy_options = envoy_options(options.config)
        # Looks at the files before they are read, so that no change falls between the two.
        self._watcher: Watcher | None = None
        if options.watch and options.sources and shared is None:
            self._watcher = self._watch()
        started = time.monotonic()
        if shared is None:
            loaded = load(options)
            snapshot = build(loaded, settings)
            self._warm(snapshot)
        else:
            loaded, snapshot = Loaded(), shared.snapshot
        self.pdp = PDP(snapshot, secrets=options.config.secrets)
        self.metrics.watch_caches(lambda: self.pdp.snapshot.engine.cache_counts())
        self._console: Console | None = None
        self._watched: Callable[[DecisionLog | None], DecisionSink | None] = lambda log: log
        self._shadow: Shadow | None = None
        if options.config.shadow is not None:
            self._open_shadow(options.config.shadow)
        if options.console:
            self._open_console()
        self.store = Store(self.pdp, loaded, settings, prepare=self._warm)
        self._identity: Identity | None = None
        if options.config.identity:
            self._open_identity(options.config.identity)
        self._bundle_metrics: BundleMetrics | None = None
        self._apis: list[Api] = []
        self.plane = ControlPlane(
            options.config,
            self.store,
            self.health,
            settings=settings,
            on_config=self._follow,
            on_bundles=self._note_bundles,
        )
        self._uploads: Uploads | None = None
        self.pdp.log_to(self._watched(self._decision_log(self.plane.config)))
        self._reading = time.monotonic() - started
        self._envoy = self._envoy_server()
        self._tls = None if options.tls is None else tls_context(options.tls)
        self._http = HttpServer(
            self._listeners(),
            grace=options.grace,
            parts=self.health.parts,
            owns_files=shared is None,
        )

    def _open_shadow(self, options: ShadowOptions) -> None:
        """Let a candidate decide as well. StartupError where it cannot."""
        from doorward.replay.deciding import Version  # few have one
        from doorward.replay.reading import ReplayError
        from doorward.replay.shadow import Shadow

        sources = Sources(options.paths, options.bundles, v0=self._options.sources.v0)
        try:
            candidate = Version.load(
                sources,
                registry=self._options.registry,
                deadline=self._options.config.evaluation.deadline,
            )
        except ReplayError as error:
            raise StartupError(f"shadow: {error}") from None
        shadow = self._shadow = Shadow(
            candidate,
            options,
            on_kind=self.metrics.shadowed,
            on_dropped=self.metrics.not_shadowed,
            parts=self.health.parts,
        )
        self._watched = lambda log: Tee(shadow, log)

    def _open_identity(self, issuers: Mapping[str, Issuer]) -> None:
        """Fetch the keys of issuers now and then, once it serves."""
        from doorward.pdp.identity import Identity  # few have one, and it brings a client

        self._identity = Identity(issuers, self.store, self.health.parts)
        self.pdp.on_denied = self._identity.note_denied

    def _wait_for_keys(self, identity: Identity) -> None:
        """Serve with keys where issuers answer soon; without them tokens are refused."""
        for name in identity.start(within=_KEYS_WITHIN):
            error = identity.errors.get(name, "no answer")
            _log.error("Serves without keys.", extra={"issuer": name, "error": error})

    def _open_console(self) -> None:
        """Keep the last decisions, and show them."""
        from doorward.console import (  # few want it, and it brings much
            AuditTail,
            Console,
            Process,
            Ring,
            Traffic,
            log_files,
        )

        peers = None if self._shared is None else self._shared.peers
        number = 0 if peers is None else peers.number
        # Larger than any number of the process before: nobody decides once a microsecond.
        start = time.time_ns() // 1_000
        ring, traffic, inner = Ring(start=start), Traffic(), self._watched
        self._watched = lambda log: Tee(ring, Tee(traffic, inner(log)))
        docker = self._options.docker_log if number == 0 else ""
        process = Process(
            self.pdp,
            ring,
            self.health,
            number=number,
            traffic=traffic,
            shadow=None if self._shadow is None else self._shadow.document,
            docker=AuditTail(docker, start=start) if docker else None,
            status=lambda: self._status.document(),
        )
        self._console = Console(
            process, peers=peers, log=lambda: log_files(self.plane.config.decision_logs)
        )

    def _warm(self, snapshot: Snapshot) -> None:
        warm(snapshot, self._options.config, self._envoy_options, self._options.access)

    @property
    def _status(self) -> Status:
        """The status of the whole decision point."""
        return self._shared.status if self._shared else self.plane.status

    def _follow(self, config: Config) -> None:
        for api in self._apis:
            api.follow(config)
        client = self._log_client(config)
        if (config.decision_logs, config.labels, client) == self._logging:
            return
        log = self._decision_log(config)
        before = self.pdp.log_to(self._watched(log))
        # What waits there is sent before the next begins.
        if before is not None:
            before.close()
        self._start_uploads()

    def _log_client(self, config: Config) -> Client | None:
        upload = config.decision_logs.upload
        return None if upload is None else self.plane.client(upload.service)

    def _start_uploads(self) -> None:
        if self._uploads is not None:
            self._uploads.start()
            self.health.set("decision_logs", State.OK)

    def _note_bundles(self, statuses: Mapping[str, BundleStatus]) -> None:
        if self._bundle_metrics is None:
            status = self.plane.config.status
            assert status is not None
            self._bundle_metrics = BundleMetrics(self.metrics.registry, __version__, status.buckets)
        self._bundle_metrics.note(statuses)

    def _decision_log(self, config: Config) -> DecisionLog | None:
        options = config.decision_logs
        client = self._log_client(config)
        self._logging = options, config.labels, client
        self._uploads = None
        if not options.is_enabled:
            return None
        sinks: list[EventSink] = []
        try:
            if options.file is not None:
                sinks.append(LogFile(options.file))
            if options.upload is not None:
                assert client is not None
                self._uploads = Uploads(
                    options.upload,
                    client,
                    on_lost=self.metrics.lost,
                    on_status=self.plane.status.note_decision_logs,
                    parts=self.health.parts,
                )
                sinks.append(self._uploads)
        except (OSError, SpoolError) as error:
            reason = str(error) if isinstance(error, SpoolError) else f"{error.filename}: {error}"
            raise StartupError(f"decision_logs: {reason}") from None
        console = self._shared.write if self._shared else _write_to_stderr
        return DecisionLog(
            console if options.console else None,
            line_for(self._options.log_format),
            labels=config.labels,
            options=options,
            on_lost=self.metrics.lost,
            parts=self.health.parts,
            sinks=sinks,
            stamp=stamp_for(self._options.log_timestamp_format),
            trace=None if self._tracer is None else self._tracer.logged,
            secrets=config.secrets,
        )

    def _envoy_server(self) -> Server | None:
        options = self._envoy_options
        if options is None:
            return None
        observer = None
        if options.enable_performance_metrics:
            buckets = options.grpc_request_duration_seconds_buckets
            observer = EnvoyMetrics(self.metrics.registry, buckets)
        try:
            return make_server(
                self.pdp,
                options,
                observer=observer,
                on_state=self._envoy_state,
                parts=self.health.parts,
                deadline=self._options.config.evaluation.deadline,
                listeners=self._shared.checks if self._shared else (),
                tracer=self._tracer,
            )
        except StartError as error:
            raise StartupError(f"{PLUGIN}: {error}") from None

    def _envoy_state(self, state: str) -> None:
        self.health.set(PLUGIN, State(state))

    def _request_log(self) -> RequestLog | None:
        """Where requests are lines of the log, as it is at `info` and below."""
        if not _log.isEnabledFor(logging.INFO):
            return None
        return RequestLog(
            self._shared.write if self._shared else _write_to_stderr,
            line_for(self._options.log_format),
            stamp_for(self._options.log_timestamp_format),
            parts=self.health.parts,
        )

    def _listeners(self) -> list[Listener]:
        options = self._options
        self._requests = self._request_log()
        common = self.pdp, options.config, self.health, self.metrics
        read_only = self._shared is not None
        main = Api(
            *common,
            store=self.store,
            access=options.access,
            read_only=read_only,
            status=self._status,
            requests=self._requests,
            tracer=self._tracer,
        )
        diagnostic = Api(
            *common,
            tracer=self._tracer,
            access=options.access,
            diagnostic=True,
            requests=self._requests,
            console=None if self._console is None else self._console.answer,
        )
        self._apis = [main, diagnostic]
        try:
            sockets = self._shared.sockets if self._shared else bind_all(options)
        except StartupError:
            self.pdp.close()
            if self._requests is not None:
                self._requests.close()
            raise
        listeners: list[Listener] = []
        forward = forward_options(options.config)
        addresses = all_addresses(options)
        if forward is not None:
            addresses.pop()
            *sockets, last = sockets
            proxies = Listener(forward.addr, last, ForwardAuth(self.pdp, forward))
        for address, socket in zip(addresses, sockets, strict=True):
            is_main = len(listeners) < len(options.addresses)
            app = main if is_main else diagnostic
            most = MAX_CONNECTIONS if is_main else _PROBES
            tls = None if address.startswith(("unix:", "http://")) else self._tls
            listeners.append(
                Listener(address, socket, app, most, short_path=app.short_path, tls=tls)
            )
        return listeners if forward is None else [*listeners, proxies]

    def _watch(self) -> Watcher:
        return Watcher(
            self._options.sources.files,
            lambda: self.store.load(load(self._options)),
            health=self.health,
            on_reload=lambda failed: self.metrics.reloaded(failed=failed),
            building=lambda: self.pdp.turns.building(),
            roots=self._options.sources.roots,
        )

    def start(self) -> None:
        """Serve. StartupError, with nothing left running, where a part cannot."""
        options = self._options
        if self._shared is None:
            announce(options, self.pdp.snapshot)
        if self._identity is not None:
            self._wait_for_keys(self._identity)
        if self._console is not None:
            self._console.serve(self.health.parts)
        try:
            if options.ready_timeout > 0:
                self.plane.start()
                self._wait_until_ready(options.ready_timeout)
            if self._envoy is not None:
                self._envoy.start()
            self._http.start()
        except (StartError, BindError) as error:
            self.close()
            raise StartupError(str(error)) from None
        if self._watcher is not None:
            self._watcher.start(reading=self._reading)
        # What is there now stays: the collector need not look at it again at every decision.
        gc.collect()
        gc.freeze()
        if self._shared is None:
            _log.info("Server initialized.")
        if options.ready_timeout <= 0:
            self.plane.start()
        self._start_uploads()

    def _wait_until_ready(self, timeout: float) -> None:
        """StartupError where bundles and discovery are not ready in time."""
        until = time.monotonic() + timeout
        while set(self.health.down()) & {"bundle", "discovery"}:
            if time.monotonic() >= until or self._stop.wait(_READY_ROUND):
                _log.error("Failed to wait for plugins activation.", extra={"err": "timeout"})
                self.close()
                raise StartupError("bundles were not ready in time")

    def stop(self) -> None:
        """Ask `run` to end; may be called from a signal handler."""
        self._stop.set()
        self._wakes.set()

    def ask_for_reload(self) -> None:
        """Ask `run` to read the configuration again; may be called from a signal handler."""
        self._reloads = True
        self._wakes.set()

    def _reload(self) -> None:
        """Follow the configuration as it is now; one that cannot be leaves the one before."""
        reread(self._options, self.plane.reload)

    def run(self) -> int:
        """Wait until told to stop; the exit code. A part that died ends the rest with 1."""
        repeat(self._supervise, _EDGE, stop=self._stop)
        if not self._stop.is_set():
            _log.error("The HTTP server ended by itself.")
            self.close()
            return 1
        _log.info("Shutting down...", extra={"grace": self._options.grace})
        if self._options.wait > 0:
            time.sleep(self._options.wait)
        self.close()
        _log.info("Server shutdown.")
        return 0

    @property
    def alive(self) -> bool:
        """Whether the HTTP server is at work."""
        return self._http.alive

    def refresh(self) -> None:
        """Look at the certificates again, where that is due."""
        if self._tls is not None:
            self._tls.refresh()

    def _supervise(self) -> bool:
        """Wait a moment; whether the HTTP server is alive."""
        tls = self._options.tls
        self._wakes.wait(min(_ROUND, (tls and tls.refresh) or _ROUND))
        self._wakes.clear()
        if self._reloads and not self._stop.is_set():
            self._reloads = False
            self._reload()
        self.refresh()
        return self.alive

    def close(self) -> None:
        """End every part, the decision log last, so that no answer is missing in it."""
        if self._watcher is not None:
            self._watcher.close()
        if self._console is not None:
            self._console.close()
        if self._shadow is not None:
            self._shadow.close()
        if self._identity is not None:
            self._identity.close()
        if self._envoy is not None:
            self._envoy.stop(self._options.grace)
        self._http.close()
        for api in self._apis:
            api.close()
        if self._requests is not None:
            self._requests.close()
        self.pdp.close()
        self.plane.close()
        if self._tracer is not None:
            self._tracer.close()


def reread(options: SidecarOptions, follow: Callable[[Config], object]) -> None:
    """Read the configuration again and follow it; one that cannot be followed is said."""
    if options.read_config is None:
        return
    try:
        config = options.read_config()
        labels = {name: options.config.labels[name] for name in ("id", "version")}
        follow(replace(config, labels={**labels, **config.labels}))
    except (ConfigError, StartupError) as error:
        _log.error("Configuration not reloaded.", extra={"error": str(error)})
        return
    for warning in config.warnings:
        _log.warning(warning)
    _log.info("Configuration reloaded.")


def tls_context(options: TlsOptions) -> TlsContext:
    try:
        return TlsContext.load(options)
    except TlsError as error:
        raise StartupError(f"TLS: {error}") from None


def _tracer(options: SidecarOptions) -> Tracer | None:
    """What makes spans, where the configuration or the environment asks for them."""
    if options.sender is None:
        return None
    try:
        from doorward.pdp.tracing import tracer_for  # it needs the extra `otel`
    except ImportError:
        missing = "traces need OpenTelemetry: pip install 'doorward[otel]'"
        if options.config.tracing is not None:
            raise StartupError(f"distributed_tracing: {missing}") from None
        # A platform may set the variables for everything that it runs.
        _log.warning("No traces are made.", extra={"error": missing})
        return None
    options.sender.tracer = tracer_for(options.config.tracing)
    return options.sender.tracer


def _envoy_options(block: Block) -> Options:
    try:
        options, unknown = from_block(block.plain())
    except OptionsError as error:
        location = block.location(error.key) if error.key else f"{block.file}: {block.path}"
        raise ConfigError(f"{location} {error.message}") from None
    for key in unknown:
        _log.warning(f"{block.location(key)}: unknown key, ignored")
    return options


def _runtime(config: Config) -> Mapping[str, Any]:
    """What `opa.runtime()` gives policies. As in OPA that includes the environment."""
    return {
        "config": dict(config.document),
        "env": dict(os.environ),
        "version": __version__,
        "commit": "",
    }


def _print(text: str, span: Span) -> None:
    _log.info(text, extra={"line": str(span)})


def _write_to_stderr(lines: bytes) -> None:
    sys.stderr.buffer.write(lines)
    sys.stderr.buffer.flush()
