"""The running plugin: its parts put together, started in order, and ended together."""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Sequence
from dataclasses import field
from functools import partial
from typing import Final

from doorward import __version__
from doorward.base.records import record, replace
from doorward.docker.audit import OFF, AuditLog
from doorward.docker.decider.embedded import DECISION, PACK, EmbeddedPdp
from doorward.docker.decider.remote import DEADLINE, RemotePdp, check_url
from doorward.docker.decider.trial import why_undecided
from doorward.docker.memory import return_large_blocks
from doorward.docker.plugin import Plugin, PluginOptions, Response, Waiting
from doorward.docker.request.daemon_settings import DAEMON_CONFIG, PIDFILE
from doorward.docker.request.facts import ContainerFacts
from doorward.docker.request.host import HostFacts
from doorward.docker.request.input import resolve_path, resolver
from doorward.docker.request.protected import protected_paths
from doorward.docker.server import (
    LISTEN_FD,
    THREADS,
    PluginServer,
    bind_tcp,
    bind_unix,
    take_inherited,
    tls_context,
)
from doorward.docker.watch.notify import (
    NOTIFY_FD,
    READY,
    STOPPING,
    WATCHDOG,
    Notifier,
    watchdog_seconds,
)
from doorward.docker.watch.status import CALL, INSTANCE, TRIAL, PluginStatus, to_document
from doorward.edge import Edge, counts, loop_thread
from doorward.rego import UNDEFINED
from doorward.transport.slow_calls import History

__all__ = ["SIGNALS", "OwnersError", "Service", "ServiceOptions", "bind"]

_ORPHANED: Final = signal.SIGUSR1
"""The signal that this process sends itself when its watchdog has ended."""
SIGNALS: Final = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGTERM, _ORPHANED})
_BEATS: Final = 3
"""Signs of life in the time in which the watching process expects one."""

_EDGE: Final = Edge("docker-watchdog", "the watchdog could not be notified")
_log: Final = logging.getLogger(__name__)


@record
class ServiceOptions:
    """The options of `doorward docker serve`."""

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
    """A file, `-` for standard output, or `audit.OFF`."""
    audit_input: bool = False
    log_only_denied: bool = False
    threads: int = THREADS
    daemon_json: str = DAEMON_CONFIG
    pidfile: str = PIDFILE
    """The daemon's: what they say of its sockets decides whether anybody is a local user."""
    inspect: str = ""
    """The daemon's socket, which is asked about the objects of a request; "" asks nothing."""
    host_root: str = ""
    """Where the host's file system is mounted, for a plugin that lives in one of its own."""
    plugin: PluginOptions = field(default_factory=PluginOptions)


class OwnersError(Exception):
    """The policies' data enable `owners`, but callers have no names here, or the plugin may not ask
    the daemon for the labels of objects.
    """


class Service:
    """One plugin with its decider, server and audit log. Errors in its options are raised when it
    is made or started.
    """

    def __init__(self, options: ServiceOptions) -> None:
        self._options = options
        self._decider: RemotePdp | EmbeddedPdp
        if options.url:
            self._decider = RemotePdp(options.url, deadline=options.deadline)
        else:
            self._decider = EmbeddedPdp(
                options.policies, path=options.decision, deadline=options.deadline
            )
        self._audit: AuditLog | None = None
        if options.audit_log != OFF:
            self._audit = AuditLog(
                options.audit_log,
                with_input=options.audit_input,
                denied_only=options.log_only_denied,
            )
        if options.plugin.allow_on_failure:
            _log.warning("DANGER: --allow-on-failure allows requests that cannot be decided")
        resolve = resolver(options.host_root) if options.host_root else resolve_path
        owners = _has_owners(self._decider, options)
        facts = None
        if options.inspect:
            facts = ContainerFacts(options.inspect, resolve, owners=owners)
        self._host = HostFacts(config=options.daemon_json, pidfile=options.pidfile)
        self.plugin = Plugin(
            self._decider,
            _protect_own_paths(options),
            audit=self._audit,
            resolve=resolve,
            facts=facts,
            host=self._host,
            waits=bool(options.url),
        )
        self._trials = History()
        self._notifier = Notifier()
        self._ended = threading.Event()
        self._listener, ours = bind(options)
        self._serving = f"Serves {self._listener.getsockname()}"
        self._server = PluginServer(
            self._listener,
            self.begin,
            context=_context(options),
            threads=options.threads,
            unlink=ours,
            is_watched=LISTEN_FD in os.environ and NOTIFY_FD in os.environ,
        )

    def start(self) -> None:
        """Begin to answer calls in threads, and return. Raise BindError if the server does not
        begin.
        """
        # What is there now stays: the collector need not look at it again at every decision.
        gc.collect()
        gc.freeze()
        return_large_blocks()
        self._server.start()
        _log.info("Docker plugin serves.")

    def begin(self, path: str, body: bytes) -> Response | Waiting:
        """Answer a call of the daemon or of Doorward's own commands, or return the work that a
        thread must do.
        """
        if path == CALL:
            return Response(200, json.dumps(to_document(self.status())).encode())
        if path == TRIAL:
            return Waiting(self._try_deciding, self._trials)
        return self.plugin.begin(path, body)

    def _try_deciding(self) -> Response:
        """Answer with the reason why the decider cannot decide, "" if it can, in the member
        `Undecided`.
        """
        reason = why_undecided(self._decider, self._options.plugin.inputs)
        return Response(200, json.dumps({"Undecided": reason}).encode())

    def status(self) -> PluginStatus:
        """Return the options of this plugin and its present problems; revision and reload errors
        only if it decides by policies of its own, not by a policy server.
        """
        options = self._options
        plugin_status = PluginStatus(
            open_listeners=tuple(self._host.listeners),
            pid=os.getpid(),
            version=__version__,
            watched_by=self._notifier.watcher,
            url=options.url,
            policies=() if options.url else tuple(options.policies),
            decision="" if options.url else options.decision,
            audit_log=options.audit_log,
            inspect=options.inspect,
            allow_on_failure=options.plugin.allow_on_failure,
            lost=self._audit.lost if self._audit is not None else 0,
            faults=sum(counts().values()),
        )
        if isinstance(self._decider, RemotePdp):
            return plugin_status
        health = self._decider.health
        return replace(
            plugin_status,
            revision=self._decider.revision,
            broken=health.reload_error or "",
            broken_for=health.failing_for,
            stopped=tuple(f"{name} is {problem}" for name, problem in health.stopped),
        )

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then let open calls end and close everything; SIGHUP
        reopens the audit log. If the watchdog of this process has ended, the process becomes the
        watchdog (exec) and this does not return. Raise BindError if the server does not begin.

        `SIGNALS` must be blocked before this object is made: threads inherit the mask, and only
        `sigwait` may take these signals.
        """
        # Before the first answer: who has one may rely on being restarted. Calls wait meanwhile.
        self._notifier.send(READY, f"STATUS={self._serving}")
        self.start()
        interval = watchdog_seconds()
        if interval is not None:
            loop_thread(
                partial(self._beat, interval / _BEATS), _EDGE, name="watchdog", stop=self._ended
            ).start()
        while (number := signal.sigwait(SIGNALS)) in (signal.SIGHUP, _ORPHANED):
            if number == signal.SIGHUP:
                if self._audit is not None:
                    self._audit.reopen()
            elif self._notifier.orphaned:
                self._become_watchdog()
        _log.info("Docker plugin ends.")
        self._notifier.send(STOPPING)
        self._ended.set()
        self.close()

    def _beat(self, seconds: float) -> bool:
        """Wait `seconds`, then report to the watchdog; return False when the service ends or the
        watchdog has ended.

        A stuck server reports nothing, so that the watchdog replaces it. If our watchdog was
        stopped, as by SIGSTOP, it is sent SIGCONT.
        """
        if self._ended.wait(seconds):
            return False
        if self._server.is_stuck:
            return True
        broken = self.status().broken
        text = f"Broken policies, older ones decide: {broken}" if broken else self._serving
        sent = self._notifier.send(WATCHDOG, "STATUS=" + " ".join(text.split())[:1000])
        if not sent and self._notifier.watched:
            if self._notifier.orphaned:
                os.kill(os.getpid(), _ORPHANED)
                return False
            os.kill(os.getppid(), signal.SIGCONT)  # our watchdog was stopped: it reads nothing
        return True

    def _become_watchdog(self) -> None:
        """Replace this process by a watchdog on the same socket, which restarts the plugin."""
        _log.error("The watchdog has ended: this process takes its place")
        self._server.drain()
        self._decider.close()
        self._close_audit()
        # Handed over, never closed: calls wait in its queue until the new plugin serves.
        self._listener.set_inheritable(True)
        environment = {**os.environ, LISTEN_FD: str(self._listener.fileno())}
        # Its other end is gone; a process with this variable would take itself for a watched one.
        del environment[NOTIFY_FD]
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)

    def close(self) -> None:
        """Close the server, the decider, the audit log and the notifier, in this order."""
        self._server.close()
        self._decider.close()
        self._close_audit()
        self._notifier.close()

    def _close_audit(self) -> None:
        if self._audit is not None:
            self._audit.close()


def _has_owners(decider: RemotePdp | EmbeddedPdp, options: ServiceOptions) -> bool:
    """Return True if the data enable `owners`; False for a remote decider.

    Raise OwnersError, after closing the decider, if callers have no names here or the daemon may
    not be asked for labels.
    """
    if isinstance(decider, RemotePdp) or decider.setting("owners") is not True:
        return False
    try:
        if decider.setting("local_roles") not in (UNDEFINED, []):
            raise OwnersError(
                "`owners` needs the names of callers, and on the Unix socket a "
                "plugin sees none: set `local_roles` to [] (then only clients with "
                "certificates have roles), or run `doorward docker proxy`, which "
                "knows its callers, in front of the daemon"
            )
        if not options.inspect:
            raise OwnersError(
                "`owners` needs --inspect: only the Docker daemon knows the labels "
                "of containers and other objects"
            )
    except OwnersError:
        decider.close()
        raise
    return True


def _protect_own_paths(options: ServiceOptions) -> PluginOptions:
    """Return the plugin's options with the files and sockets of this service and its daemon, and
    the TCP port of the policy server, marked as protected, so that policies can refuse access to
    them.
    """
    used = [
        *(options.policies if not options.url else ()),
        *(options.certificate, options.key, options.authority),
        *(options.audit_log if options.audit_log != OFF else "", options.socket, options.inspect),
    ]
    url = check_url(options.url) if options.url else None
    ports = (url.port,) if url is not None and not url.socket else ()
    inputs = replace(options.plugin.inputs, protected=protected_paths(used), protected_ports=ports)
    return replace(options.plugin, inputs=inputs, instance=os.environ.get(INSTANCE, ""))


def bind(options: ServiceOptions) -> tuple[socket.socket, bool]:
    """Return the listening socket, and True if this process must remove its file. Raise BindError
    if none can be inherited or bound.
    """
    sockets = take_inherited()
    if sockets is not None:
        # What a watchdog left behind is its successor's, who is not a watched process.
        return sockets, LISTEN_FD in os.environ and NOTIFY_FD not in os.environ
    if options.listen:
        return bind_tcp(options.listen), False
    return bind_unix(options.socket), True


def _context(options: ServiceOptions) -> ssl.SSLContext | None:
    """Return the TLS context for `--listen`, which accepts only clients with a certificate of the
    authority; None if the service listens on a Unix socket. BindError if a file cannot be used.
    """
    if not options.listen:
        return None
    return tls_context(
        certificate=options.certificate, key=options.key, authority=options.authority
    )
