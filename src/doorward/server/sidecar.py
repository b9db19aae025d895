"""The running decision point: its parts are put together, started in order, and ended together.

Everything that can fail does so before anything is served. Adapters never know each other; they
share the decision point, the health and the metrics that are created here.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from doorward import __version__
from doorward.base.collector import gc_frozen, gc_once
from doorward.bundles.loader import Loaded
from doorward.bundles.sources import Sources
from doorward.config.configuration import EXT_AUTHZ, EXT_PROC, Config
from doorward.config.configuration import Shadow as ShadowOptions
from doorward.control.bundle_status import BundleStatus
from doorward.control.plane import Change, ControlPlane
from doorward.control.status import Status
from doorward.edge import Edge, SignalSafeEvent, repeat
from doorward.envoy.errors import StartError
from doorward.pdp.pdp import PDP, DecisionSink, Tee
from doorward.pdp.reload import Watcher
from doorward.pdp.snapshot import Snapshot, build
from doorward.pdp.store import Store
from doorward.rest.app import Api
from doorward.rest.authorization import allows_token
from doorward.rest.request_log import RequestLog
from doorward.rest.server import MAX_CONNECTIONS, BindError, HttpServer, Listener
from doorward.server.decision_logging import DecisionLogging
from doorward.server.sidecar_options import (
    Shared,
    SidecarOptions,
    StartupError,
    all_addresses,
    announce,
    bind_all,
    envoy_options,
    ext_proc_options,
    forward_options,
    identified_options,
    load,
    reread,
    settings_of,
    tls_context,
    tracer_of,
    warm,
    write_to_stderr,
)
from doorward.telemetry.health import Health, State
from doorward.telemetry.log import line_for, stamp_for
from doorward.telemetry.metric_documents import documents_of
from doorward.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from doorward.config.identity_options import Issuer
    from doorward.console import Console
    from doorward.console.oidc import OidcLogin
    from doorward.control.answers import Client
    from doorward.control.bundle_metrics import BundleMetrics
    from doorward.decision_log.log import DecisionLog, Note
    from doorward.envoy.ext_proc.server import ExtProcServer
    from doorward.envoy.server import Server
    from doorward.pdp.identity import Identity
    from doorward.replay.shadow import Shadow

__all__ = ["Sidecar"]

_log: Final = logging.getLogger(__name__)
_EDGE: Final = Edge("supervisor", "supervising the parts failed")
_ROUND: Final = 5.0
"""Seconds between two rounds of supervision; a signal ends a round at once."""
_READY_ROUND: Final = 0.05
_KEYS_WITHIN: Final = 5.0
"""The longest time to wait for keys of issuers before serving, in seconds."""
_PROBES: Final = 100
"""The largest number of connections on listeners for health and metrics."""


class Sidecar:
    """All parts of one decision point. Call `start`, then `run`, which returns after `stop`."""

    def __init__(self, options: SidecarOptions, shared: Shared | None = None) -> None:
        """Load the policies, create all parts and bind the sockets of the HTTP API, without
        serving. `shared` is set in one of several workers, which gets snapshot and sockets from its
        parent.

        Raise StartupError, ConfigError, LoadError or CompileError if that is impossible.
        """
        if shared is None:
            options = identified_options(options)
        self._options = options
        self._shared = shared
        self._stop = SignalSafeEvent()
        self._wakes = SignalSafeEvent()
        self._reloads = False
        self.health = Health()
        self.metrics = Metrics(__version__, options.config.server.buckets)
        self._tracer = tracer_of(options)
        self._write = write_to_stderr if shared is None else shared.write
        settings = settings_of(options)
        self._envoy_options = envoy_options(options.config)
        self._ext_proc_options = ext_proc_options(options.config)
        # Looks at the files before they are read, so that no change falls between the two.
        self._watcher: Watcher | None = None
        if options.watch and options.sources and shared is None:
            self._watcher = self._make_watcher()
        started = time.monotonic()
        if shared is None:
            # What is there at the end stays, and the collector need not look at it, which takes
            # 0.4 s for 10,000 rules: compiling leaves a hundred objects that are garbage.
            with gc_frozen():
                loaded = load(options)
                snapshot = build(loaded, settings)
                self._warm(snapshot)
        else:
            loaded, snapshot = Loaded(), shared.snapshot
        self.pdp = PDP(snapshot, secrets=options.config.secrets)
        self.metrics.watch_caches(lambda: self.pdp.snapshot.engine.cache_counts())
        self._console: Console | None = None
        self._note: Note | None = None
        self._watched: Callable[[DecisionLog | None], DecisionSink | None] = lambda log: log
        self._shadow: Shadow | None = None
        if options.config.shadow is not None:
            self._open_shadow(options.config.shadow)
        if options.console:
            self._open_console()
        # `gc_once`: the collector would go through new policies several times while they are made.
        self.store = Store(self.pdp, loaded, settings, prepare=self._warm, building=gc_once)
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
            prepare=self._prepare,
            on_bundles=self._note_bundles,
            metrics=lambda: {
                "prometheus": documents_of(self.metrics.families(self.health)),
            },
            tracer=self._tracer,
        )
        # After the plane, with whose clients it sends events.
        self._logs = DecisionLogging(
            options,
            self.pdp,
            self.plane,
            self.health,
            self.metrics,
            write=self._write,
            watched=self._watched,
            tracer=self._tracer,
            note=self._note,
        )
        self._reading = time.monotonic() - started
        self._envoy = self._envoy_server()
        self._ext_proc = self._ext_proc_server()
        self._tls = None if options.tls is None else tls_context(options.tls)
        self._http = HttpServer(
            self._bind_listeners(),
            grace=options.grace,
            parts=self.health.parts,
            # A worker leaves the file of a Unix socket alone, on which the others serve.
            owns_files=shared is None,
        )

    def _open_shadow(self, options: ShadowOptions) -> None:
        """Load the candidate policies, and add a shadow to `_watched`, which observes decisions and
        decides the same inputs by the candidate. Raise `StartupError` if it cannot be loaded.
        """
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
        """Prepare the download of issuers' keys, which `start` begins; denied decisions can make it
        fetch again.
        """
        from doorward.pdp.identity import Identity  # few have one, and it brings a client

        self._identity = Identity(issuers, self.store, self.health.parts)
        self.pdp.on_denied = self._identity.note_denied

    def _wait_for_keys(self, identity: Identity) -> None:
        """Start to fetch keys, and wait for them for at most `_KEYS_WITHIN` seconds. An issuer
        without keys by then is logged; its tokens are refused until it answers.
        """
        for name in identity.start(within=_KEYS_WITHIN):
            error = identity.errors.get(name, "no answer")
            _log.error(
                "Serving without the issuer's keys: its tokens are refused until they are fetched.",
                extra={"issuer": name, "error": error},
            )

    def _open_console(self) -> None:
        """Create the console, and add its observers to `_watched`: they keep the last decisions and
        count definitions. If its pages are missing, a warning is logged.
        """
        from doorward.console import (  # few want it, and it brings much
            NOT_BUILT,
            AuditTail,
            Console,
            Process,
            Ring,
            Traffic,
            is_built,
            log_files,
            note_for_log,
        )

        self._note = note_for_log
        if not is_built():
            _log.warning(
                "The console's pages are missing in this installation.", extra={"help": NOT_BUILT}
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
        logins = [each.login for each in self._options.config.identity.values()]
        self._console = Console(
            process,
            peers=peers,
            log=lambda: log_files(self.plane.config.decision_logs),
            hosts=frozenset([login.host for login in logins if login is not None]),
        )
        access = self._options.access
        if access.authorizes and access.authentication == "token":
            self._console.check = self._lets_in
            self._console.issuers = self._logins()

    def _logins(self) -> dict[str, OidcLogin]:
        """Return the issuers at which people log in to the console, by name; {} if none is
        configured.
        """
        clients = {
            name: (issuer, issuer.login)
            for name, issuer in self._options.config.identity.items()
            if issuer.login is not None
        }
        if not clients:
            return {}
        from doorward.console.oidc import OidcLogin  # few have one, and it brings a client

        return {
            name: OidcLogin(name, issuer, client, lambda: self.pdp.snapshot.engine)
            for name, (issuer, client) in clients.items()
        }

    def _lets_in(self, token: str) -> bool:
        """Return True if the authorization policy allows a token to use the console."""
        path = self._options.config.default_authorization_decision
        return allows_token(self.pdp, path, ["console"], token)

    def _warm(self, snapshot: Snapshot) -> None:
        config, access = self._options.config, self._options.access
        warm(snapshot, config, self._envoy_options, self._ext_proc_options, access)

    @property
    def _status(self) -> Status:
        """The status of the whole decision point: in a worker the one that the parent sent."""
        return self._shared.status if self._shared else self.plane.status

    def _prepare(self, config: Config, clients: Mapping[str, Client]) -> Change:
        """Prepare the APIs and the decision log for a changed configuration, whose services have
        these clients. ConfigError if the log cannot be opened.
        """
        log = self._logs.prepare(config, clients)

        def commit() -> None:
            for api in self._apis:
                api.follow(config)
            log.commit()

        return Change(commit, log.abandon)

    def _note_bundles(self, statuses: Mapping[str, BundleStatus]) -> None:
        """Update the metrics of bundles; they are created by the first status."""
        if self._bundle_metrics is None:
            from doorward.control.bundle_metrics import BundleMetrics  # few report a status

            status = self.plane.config.status
            assert status is not None
            self._bundle_metrics = BundleMetrics(self.metrics.registry, __version__, status.buckets)
        self._bundle_metrics.note(statuses)

    def _envoy_server(self) -> Server | None:
        """Return the server of Envoy's authorization API, which `start` makes listen; None if it is
        not configured. Raise StartupError if its address is malformed or its `proto-descriptor`
        cannot be read.
        """
        options = self._envoy_options
        if options is None:
            return None
        from doorward.envoy.server import make_server  # it brings Envoy's types

        observer = None
        if options.enable_performance_metrics:
            from doorward.envoy.metrics import Metrics as EnvoyMetrics

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
            raise StartupError(f"{EXT_AUTHZ}: {error}") from None

    def _envoy_state(self, state: str) -> None:
        self.health.set(EXT_AUTHZ, State(state))

    def _ext_proc_server(self) -> ExtProcServer | None:
        """Return the server of Envoy's external processing, which `start` makes listen; None if it
        is not configured. Raise StartupError if its address is malformed.
        """
        options = self._ext_proc_options
        if options is None:
            return None
        # Few decide on responses, and Envoy's types take memory.
        from doorward.envoy.ext_proc.metrics import Metrics as ExtProcMetrics
        from doorward.envoy.ext_proc.server import ExtProcServer

        is_measured = options.enable_performance_metrics
        try:
            return ExtProcServer(
                self.pdp,
                options,
                observer=ExtProcMetrics(self.metrics.registry) if is_measured else None,
                on_state=lambda state: self.health.set(EXT_PROC, State(state)),
                parts=self.health.parts,
                deadline=self._options.config.evaluation.deadline,
                listeners=self._shared.processors if self._shared else (),
            )
        except StartError as error:
            raise StartupError(f"{EXT_PROC}: {error}") from None

    def _request_log(self) -> RequestLog | None:
        """Return the log of HTTP requests; None if the level is above `info`."""
        if not _log.isEnabledFor(logging.INFO):
            return None
        return RequestLog(
            self._write,
            line_for(self._options.log_format),
            stamp_for(self._options.log_timestamp_format),
            parts=self.health.parts,
        )

    def _bind_listeners(self) -> list[Listener]:
        """Create the request log and the applications, bind all addresses, and return each with its
        application: the API, health and metrics only, or proxies.

        Raise `StartupError` if one cannot be bound; the logs are closed then. ConfigError if the
        options of the endpoints for proxies are not valid.
        """
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
            login=self._console,
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
            from doorward.forward.app import ForwardAuth  # few proxies ask it

            # The last of `all_addresses` and of the sockets.
            addresses.pop()
            *sockets, last = sockets
            proxies = Listener(forward.addr, last, ForwardAuth(self.pdp, forward))
        for address, socket in zip(addresses, sockets, strict=True):
            is_main = len(listeners) < len(options.addresses)
            app = main if is_main else diagnostic
            most = MAX_CONNECTIONS if is_main else _PROBES
            tls = None if address.startswith(("unix:", "http://")) else self._tls
            listeners.append(
                Listener(
                    address,
                    socket,
                    app,
                    most,
                    short_path=partial(app.short_path, is_encrypted=tls is not None),
                    tls=tls,
                )
            )
        return listeners if forward is None else [*listeners, proxies]

    def _make_watcher(self) -> Watcher:
        """Return a watcher, not started, that reloads the policies when their files change."""
        return Watcher(
            self._options.sources.files,
            lambda: self.store.load(load(self._options)),
            health=self.health,
            on_reload=lambda failed: self.metrics.reloaded(failed=failed),
            building=lambda: self.pdp.build_gate.building(),
            roots=self._options.sources.roots,
        )

    def start(self) -> None:
        """Start to serve, and return. Waits before for the issuers' keys, at most `_KEYS_WITHIN`
        seconds, and serves without those that are missing; then, with `ready_timeout`, for bundles.
        Nothing is served if `stop` is called before a wait ends. Raise StartupError, with
        everything closed, if a part cannot start or bundles are late.
        """
        options = self._options
        if self._shared is None:
            announce(options, self.pdp.snapshot)
        if self._identity is not None:
            self._wait_for_keys(self._identity)
            if self._stop.is_set():
                return
        if self._console is not None:
            self._console.serve(self.health.parts)
        try:
            if options.ready_timeout > 0:
                self.plane.start()
                if not self._wait_until_ready(options.ready_timeout):
                    return
            # Before anybody can ask: bundles that were waited for are as large as files.
            gc.freeze()
            if self._envoy is not None:
                self._envoy.start()
            if self._ext_proc is not None:
                self._ext_proc.start()
            self._http.start()
        except (StartError, BindError) as error:
            self.close()
            raise StartupError(str(error)) from None
        if self._watcher is not None:
            self._watcher.start(reading=self._reading)
        if self._shared is None:
            _log.info("Server initialized.")
        if options.ready_timeout <= 0:
            self.plane.start()
        self._logs.start()

    def _wait_until_ready(self, timeout: float) -> bool:
        """Wait until bundles and discovery are active; return False if `stop` is called before.
        After `timeout` seconds close everything and raise StartupError.
        """
        until = time.monotonic() + timeout
        while set(self.health.down()) & {"bundle", "discovery"}:
            if self._stop.wait(_READY_ROUND):
                return False
            if time.monotonic() >= until:
                _log.error("Failed to wait for plugins activation.", extra={"err": "timeout"})
                self.close()
                raise StartupError(
                    f"bundles were not ready within {timeout:g} s (--ready-timeout): see the log"
                )
        return True

    def stop(self) -> None:
        """Ask `run` to end; may be called from a signal handler."""
        self._stop.set()
        self._wakes.set()

    def ask_for_reload(self) -> None:
        """Ask `run` to read the configuration again; may be called from a signal handler."""
        self._reloads = True
        self._wakes.set()

    def _reload(self) -> None:
        """Read and apply the configuration again; an invalid one is logged, and the old one stays
        active.
        """
        reread(self._options, self.plane.reload)

    def run(self) -> int:
        """Wait until `stop` is called, close all parts and return the exit code: 0, or 1 if the
        HTTP server died.
        """
        repeat(self._supervise, _EDGE, stop=self._stop)
        if not self._stop.is_set():
            _log.error("The HTTP server ended unexpectedly.")
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
        """True while the HTTP server runs."""
        return self._http.alive

    def refresh(self) -> None:
        """Read the TLS certificates again if that is due."""
        if self._tls is not None:
            self._tls.refresh()

    def _supervise(self) -> bool:
        """Wait a few seconds or for a wake-up, reload the configuration if a signal requested it,
        refresh the certificates; return True if the HTTP server runs.
        """
        tls = self._options.tls
        self._wakes.wait(min(_ROUND, (tls and tls.refresh) or _ROUND))
        # Before the flags are read: a signal that comes now ends the next wait.
        self._wakes.clear()
        if self._reloads and not self._stop.is_set():
            self._reloads = False
            self._reload()
        self.refresh()
        return self.alive

    def close(self) -> None:
        """Close all parts; the decision log after everything that takes requests, so that it has
        all answers.

        Servers come first: while requests arrive, the other parts get little time to end.
        """
        if self._console is not None:
            self._console.close()
        if self._envoy is not None:
            self._envoy.stop(self._options.grace)
        if self._ext_proc is not None:
            self._ext_proc.stop(self._options.grace)
        self._http.close()
        if self._watcher is not None:
            self._watcher.close()
        if self._shadow is not None:
            self._shadow.close()
        if self._identity is not None:
            self._identity.close()
        for api in self._apis:
            api.close()
        if self._requests is not None:
            self._requests.close()
        # No other log is opened while this one is closed; then the clients that it sends with.
        self.plane.stop_following()
        self.pdp.close()
        self.plane.close()
        if self._tracer is not None:
            self._tracer.close()
