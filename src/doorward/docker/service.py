"""The running plugin: its parts put together, started in order, and ended together."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from doorward.docker.audit import AuditLog
from doorward.docker.embedded import DECISION, PACK, EmbeddedPdp
from doorward.docker.facts import ContainerFacts
from doorward.docker.inputs import resolve_path, resolver
from doorward.docker.plugin import Plugin, PluginOptions
from doorward.docker.protected import daemon_paths, protected_paths
from doorward.docker.remote import DEADLINE, RemotePdp
from doorward.docker.server import THREADS, PluginServer, bind_tcp, bind_unix, inherited
from doorward.docker.units import INSTANCE

__all__ = ["SIGNALS", "Service", "ServiceOptions"]

SIGNALS: Final = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGTERM})

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """How `doorward docker serve` was called."""

    socket: str = ""
    """Where to listen; "" for the socket of the service manager."""
    listen: str = ""
    """`host:port` for a plugin on another machine; needs the three files."""
    certificate: str = ""
    key: str = ""
    authority: str = ""
    url: str = ""
    policies: Sequence[str] = (str(PACK),)
    decision: str = DECISION
    deadline: float = DEADLINE
    audit_log: str = "-"
    audit_input: bool = False
    threads: int = THREADS
    inspect: str = ""
    """The daemon's socket, to ask what a container may that a request is for; "" asks nothing."""
    host_root: str = ""
    """Where the host's file system is mounted, for a plugin that lives in one of its own."""
    plugin: PluginOptions = field(default_factory=PluginOptions)


class Service:
    """One plugin. Everything that can fail does so when it is made or started."""

    def __init__(self, options: ServiceOptions) -> None:
        self._decider: RemotePdp | EmbeddedPdp
        if options.url:
            self._decider = RemotePdp(options.url, deadline=options.deadline)
        else:
            self._decider = EmbeddedPdp(
                options.policies, path=options.decision, deadline=options.deadline
            )
        self._audit = AuditLog(options.audit_log, with_input=options.audit_input)
        if options.plugin.allow_on_failure:
            _log.warning("DANGER: --allow-on-failure allows whatever nobody decides")
        resolve = resolver(options.host_root) if options.host_root else resolve_path
        facts = ContainerFacts(options.inspect, resolve) if options.inspect else None
        self.plugin = Plugin(
            self._decider, _protecting(options), audit=self._audit, resolve=resolve, facts=facts
        )
        listener, context, ours = _listener(options)
        self._server = PluginServer(
            listener, self.plugin.answer, context=context, threads=options.threads, unlink=ours
        )

    def start(self) -> None:
        """Answer from now on."""
        # What is there now stays: the collector need not look at it again at every decision.
        gc.collect()
        gc.freeze()
        self._server.start()
        _log.info("Docker plugin serves.")

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then let what is under way end; SIGHUP reopens the log.

        `SIGNALS` must have been blocked before this was made, since its threads take no signals.
        """
        self.start()
        while signal.sigwait(SIGNALS) == signal.SIGHUP:
            self._audit.reopen()
        _log.info("Docker plugin ends.")
        self.close()

    def close(self) -> None:
        self._server.close()
        self._decider.close()
        self._audit.close()


def _protecting(options: ServiceOptions) -> PluginOptions:
    """The plugin's options, which know what this service and its daemon use on the host."""
    used = [
        *(options.policies if not options.url else ()),
        *(options.certificate, options.key, options.authority),
        *(options.audit_log, options.socket, options.inspect),
        *daemon_paths(),
    ]
    inputs = replace(options.plugin.inputs, protected=protected_paths(used))
    return replace(options.plugin, inputs=inputs, instance=os.environ.get(INSTANCE, ""))


def _listener(options: ServiceOptions) -> tuple[socket.socket, ssl.SSLContext | None, bool]:
    """The socket, its TLS context, and whether its file is ours to remove."""
    if options.listen:
        listener, context = bind_tcp(
            options.listen,
            certificate=options.certificate,
            key=options.key,
            authority=options.authority,
        )
        return listener, context, False
    given = inherited()
    if given is not None:
        return given, None, False
    return bind_unix(options.socket), None, True
