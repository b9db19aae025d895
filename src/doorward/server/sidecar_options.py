"""The options with which a decision point is started, and the first steps that depend on them.

A single process and a parent of workers begin alike: with options, files, settings of the compiler,
sockets. Nothing here serves or waits.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from socket import socket as Socket
from typing import TYPE_CHECKING, Any, Final, TypeVar

from doorward import __version__
from doorward.base.collector import gc_paused
from doorward.base.records import record
from doorward.bundles.loader import Loaded
from doorward.bundles.sources import Sources
from doorward.config.configuration import (
    EXT_AUTHZ,
    EXT_PROC,
    FORWARD_AUTH,
    Config,
    ConfigError,
    identified,
)
from doorward.config.schema import read_section
from doorward.config.trace_options import asks_for_traces
from doorward.control.status import ToldStatus
from doorward.pdp.builtin_answers import noting
from doorward.pdp.snapshot import Settings, Snapshot
from doorward.rego import REGISTRY, Environment, Registry, RegoError
from doorward.rego.shared import Capabilities, ResponseCache, Span, VerifiedTokens
from doorward.rest.authorization import Access
from doorward.rest.server import BindError, bind
from doorward.telemetry.traced_sender import TracedSender
from doorward.transport.tls import TlsContext, TlsError, TlsOptions

if TYPE_CHECKING:
    from doorward.envoy.ext_proc.options import Options as ExtProcOptions
    from doorward.envoy.options import Options
    from doorward.forward.options import Options as ForwardOptions
    from doorward.rego.tools import SavedPrograms
    from doorward.telemetry.tracing import Tracer
    from doorward.transport.peers import Peers

__all__ = [
    "Shared",
    "SidecarOptions",
    "StartupError",
    "all_addresses",
    "announce",
    "bind_all",
    "envoy_options",
    "ext_proc_options",
    "forward_options",
    "identified_options",
    "import_parts",
    "load",
    "plugin_sections",
    "plugin_warnings",
    "reread",
    "settings_of",
    "tls_context",
    "tracer_of",
    "warm",
    "write_to_stderr",
]

_log: Final = logging.getLogger(__name__)
T = TypeVar("T")


class StartupError(Exception):
    """The reason why the decision point cannot start; the message is for the operator."""


@record
class SidecarOptions:
    """The options of `doorward run --server`."""

    sources: Sources = field(default_factory=Sources)
    config: Config = field(default_factory=Config)
    addresses: Sequence[str] = ("localhost:8181",)
    diagnostic_addresses: Sequence[str] = ()
    console: bool = False
    """True if the diagnostic listeners serve the console."""
    docker_log: str = ""
    """The audit log of a Docker plugin whose decisions the console also shows; "" for none."""
    log_format: str = "json"
    log_timestamp_format: str = ""
    """A layout of Go's; "" is RFC 3339 to the second."""
    watch: bool = True
    capabilities: Capabilities | None = None
    registry: Registry = REGISTRY
    max_errors: int = 10
    """The largest number of errors in policies that are reported; 0: all."""
    grace: float = 10.0
    wait: float = 0.0
    unix_permissions: int = 0o755
    access: Access = field(default_factory=Access)
    tls: TlsOptions | None = None
    workers: int = 1
    read_config: Callable[[], Config] | None = None
    """Reads the configuration again, for SIGHUP; None: it is not reloaded."""
    ready_timeout: float = 0.0
    """Seconds in which bundles and discovery must be active before anything is served; 0: serve at
    once.
    """
    cache_folder: Path | None = None
    """The folder that stores compiled policies for the next start; None: they are not stored."""
    sender: TracedSender | None = None
    """Sends the requests of `http.send` if requests are traced; else None."""


@record
class Shared:
    """The snapshot and sockets that one of several workers gets from its parent. A worker reads,
    binds and fetches nothing itself.
    """

    snapshot: Snapshot
    sockets: Sequence[Socket]
    """The sockets of the HTTP API, in the order of `all_addresses`."""
    checks: Sequence[Socket]
    """The sockets of this worker's gRPC server for Envoy's authorization."""
    processors: Sequence[Socket]
    """The sockets of this worker's gRPC server for external processing."""
    write: Callable[[bytes], object]
    """Writes lines of the decision log."""
    peers: Peers | None = None
    """The other workers, for a console that shows all of them; None without a console."""
    status: ToldStatus = field(default_factory=ToldStatus)


def identified_options(options: SidecarOptions) -> SidecarOptions:
    """Return the options with the labels `id` and `version` in the configuration, and with a traced
    sender if requests are traced.
    """
    is_traced = options.config.tracing is not None or asks_for_traces(os.environ)
    sender = TracedSender() if is_traced else None
    return replace(options, config=identified(options.config), sender=sender)


def _saved_programs(folder: Path) -> SavedPrograms:
    from doorward.rego.tools import SavedFolder, SavedPrograms  # and pickle, for --cache-dir only

    return SavedPrograms(SavedFolder(folder), with_code=True)


def settings_of(options: SidecarOptions) -> Settings:
    """Return the settings of compilation and evaluation that the options and the configuration
    define.
    """
    config = options.config
    caching, notes = config.caching, config.nd_builtin_cache
    return Settings(
        saved=None if options.cache_folder is None else _saved_programs(options.cache_folder),
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


# The modules of a part are imported where the configuration asks for it: those of Envoy's services
# and of decision logs take a fifth of what a server takes until it is ready.


def import_parts(options: SidecarOptions) -> None:
    """Import the modules that the configuration needs, so that workers share their memory after the
    fork.
    """
    config = options.config
    if config.decision_logs.is_enabled:
        import doorward.server.open_log
    if FORWARD_AUTH in config.plugins:
        import doorward.forward.app
    if EXT_AUTHZ in config.plugins:
        import doorward.envoy.server
    if EXT_PROC in config.plugins:
        import doorward.envoy.ext_proc.server
    if options.console:
        import doorward.console  # noqa: F401  # what they define is used by workers


def envoy_options(config: Config) -> Options | None:
    """Return the options of Envoy's authorization server; None if it is not configured. ConfigError
    if they are not valid.
    """
    return _plugin_options(config, EXT_AUTHZ, _envoy_section, [])


def ext_proc_options(config: Config) -> ExtProcOptions | None:
    """Return the options of Envoy's external processing; None if it is not configured. ConfigError
    if they are not valid.
    """
    return _plugin_options(config, EXT_PROC, _ext_proc_section, [])


def forward_options(config: Config) -> ForwardOptions | None:
    """Return the options of the endpoints for proxies; None if they are not configured. ConfigError
    if they are not valid.
    """
    return _plugin_options(config, FORWARD_AUTH, _forward_section, [])


def _envoy_section() -> type[Options]:
    """Import the module of the options of Envoy's authorization now; return their class."""
    from doorward.envoy.options import Options

    return Options


def _ext_proc_section() -> type[ExtProcOptions]:
    """Import the module of the options of response filtering now; return their class."""
    from doorward.envoy.ext_proc.options import Options

    return Options


def _forward_section() -> type[ForwardOptions]:
    """Import the module of the options of forward-auth now; return their class."""
    from doorward.forward.options import Options

    return Options


_SECTIONS: Final[Mapping[str, Callable[[], type]]] = {
    EXT_AUTHZ: _envoy_section,
    EXT_PROC: _ext_proc_section,
    FORWARD_AUTH: _forward_section,
}


def plugin_sections() -> Mapping[str, type]:
    """Import and return the section classes of `plugins`, by the plugins' names."""
    return {name: section() for name, section in _SECTIONS.items()}


def _plugin_options(
    config: Config, name: str, section: Callable[[], type[T]], warnings: list[str]
) -> T | None:
    """Return the options of a plugin, and add warnings to `warnings`; None if it is not configured.
    ConfigError if they are not valid.
    """
    block = config.plugins.get(name)
    return None if block is None else read_section(section(), block, warnings)


def plugin_warnings(config: Config) -> tuple[str, ...]:
    """Return the warnings of all plugin blocks; raise `ConfigError` if one is invalid."""
    warnings: list[str] = []
    for name, section in _SECTIONS.items():
        _plugin_options(config, name, section, warnings)
    return tuple(warnings)


def load(options: SidecarOptions) -> Loaded:
    """Read the policies and data of the options' files and bundles, and log their warnings. Raise
    LoadError if any of them cannot be read or parsed.
    """
    loaded = options.sources.load()
    for note in loaded.notes:
        _log.warning(note)
    return loaded


def warm(
    snapshot: Snapshot,
    config: Config,
    envoy: Options | None,
    ext_proc: ExtProcOptions | None,
    access: Access,
) -> None:
    """Generate the code of all rules, and prepare the documents that the configuration names, so
    that the first requests are fast. Raise CompileError if one cannot be prepared.
    """
    with gc_paused():
        snapshot.warm_rules()
        logs = config.decision_logs
        snapshot.warm([logs.drop_decision, logs.mask_decision] if logs.is_enabled else [])
        if access.authorizes:
            snapshot.warm([config.default_authorization_decision])
        if envoy is not None and not envoy.query:
            snapshot.warm([envoy.path])
        if ext_proc is not None:
            snapshot.warm([ext_proc.document])
            snapshot.warm([each.rule for each in ext_proc.lists.values()])


def announce(options: SidecarOptions, snapshot: Snapshot) -> None:
    """Log all warnings of the configuration, and the addresses and revision that are about to be
    served.
    """
    for warning in (*options.config.warnings, *plugin_warnings(options.config)):
        _log.warning(warning)
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
    """Return all HTTP addresses: the API itself, then health and metrics only, then proxies."""
    forward = forward_options(options.config)
    proxies = [] if forward is None else [forward.addr]
    return [*options.addresses, *options.diagnostic_addresses, *proxies]


def bind_all(options: SidecarOptions) -> list[Socket]:
    """Bind the sockets of the HTTP API, in the order of `all_addresses`. Raise `StartupError`, with
    all closed, if one cannot be bound.
    """
    bound: list[Socket] = []
    try:
        for address in all_addresses(options):
            bound.append(bind(address, unix_permissions=options.unix_permissions))
    except BindError as error:
        for each in bound:
            each.close()
        raise StartupError(str(error)) from None
    return bound


def reread(options: SidecarOptions, follow: Callable[[Config], object]) -> None:
    """Read the configuration again and pass it to `follow`; labels `id` and `version` that it does
    not set stay those of the start. Does nothing without `read_config`.

    ConfigError, StartupError and RegoError are logged, not raised.
    """
    if options.read_config is None:
        return
    try:
        config = options.read_config()
        labels = {name: options.config.labels[name] for name in ("id", "version")}
        follow(replace(config, labels={**labels, **config.labels}))
    except (ConfigError, StartupError, RegoError) as error:
        _log.error(
            "The configuration was not reloaded; the previous one stays active.",
            extra={"error": str(error)},
        )
        return
    for warning in config.warnings:
        _log.warning(warning)
    _log.info("Configuration reloaded.")


def tls_context(options: TlsOptions) -> TlsContext:
    """Load certificates and key; raise `StartupError` if they cannot be used."""
    try:
        return TlsContext.load(options)
    except TlsError as error:
        raise StartupError(f"TLS: {error}") from None


def tracer_of(options: SidecarOptions) -> Tracer | None:
    """Return the tracer, and set it on `options.sender`, if the configuration or the environment
    turns traces on; else return None. Without OpenTelemetry's packages, raise StartupError if the
    configuration asks for traces, and log a warning if only the environment does. Raise ConfigError
    for settings that are not valid.
    """
    if options.sender is None:
        return None
    try:
        from doorward.telemetry.tracing import tracer_for  # it needs the extra `otel`
    except ImportError:
        missing = "traces need OpenTelemetry: pip install 'doorward[otel]'"
        if options.config.tracing is not None:
            raise StartupError(f"distributed_tracing: {missing}") from None
        # A platform may set the variables for everything that it runs.
        _log.warning("Traces are off.", extra={"error": missing})
        return None
    options.sender.tracer = tracer_for(options.config.tracing)
    return options.sender.tracer


def _runtime(config: Config) -> Mapping[str, Any]:
    """Return the value of `opa.runtime()`: configuration, version and, as in OPA, all environment
    variables.
    """
    return {
        "config": dict(config.document),
        "env": dict(os.environ),
        "version": __version__,
        "commit": "",
    }


def _print(text: str, span: Span) -> None:
    _log.info(text, extra={"line": str(span)})


def write_to_stderr(lines: bytes) -> None:
    """Write bytes to standard error, and flush it."""
    sys.stderr.buffer.write(lines)
    sys.stderr.buffer.flush()
