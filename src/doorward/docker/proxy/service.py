"""The running proxy: its parts put together, started in order, and ended together."""

from __future__ import annotations

import gc
import grp
import http.client
import logging
import os
import signal
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field
from functools import partial
from typing import Final

from doorward.base.digits import parse_digits
from doorward.base.os_errors import describe_os_error
from doorward.base.records import record, replace
from doorward.docker.audit import OFF, AuditLog
from doorward.docker.decider.embedded import DECISION, PACK, EmbeddedPdp
from doorward.docker.decider.remote import DEADLINE, RemotePdp, check_url
from doorward.docker.memory import return_large_blocks
from doorward.docker.plugin import Plugin, PluginOptions
from doorward.docker.proxy.pin_requests import PinJudge
from doorward.docker.proxy.pins import Pins
from doorward.docker.proxy.recordings import LARGEST, Recordings
from doorward.docker.proxy.server import Listener, ProxyServer
from doorward.docker.request.daemon_settings import DAEMON_CONFIG, PIDFILE
from doorward.docker.request.facts import ContainerFacts
from doorward.docker.request.host import HostFacts
from doorward.docker.request.input import resolve_path, resolver
from doorward.docker.request.protected import protected_paths
from doorward.docker.server import BACKLOG, BindError, bind_tcp, open_inherited, tls_context
from doorward.docker.unix_http import UnixConnection
from doorward.docker.watch.notify import READY, STOPPING, WATCHDOG, Notifier, watchdog_seconds
from doorward.edge import Edge, loop_thread
from doorward.transport import unix_sockets
from doorward.transport.unix_sockets import PathTakenError

__all__ = ["SHARED", "SIGNALS", "Consumer", "ProxyOptions", "ProxyService", "open_listeners"]

SIGNALS: Final = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGTERM})
SHARED: Final = "shared"
"""The name under which a service manager hands over the socket for users of the host."""
_FIRST_INHERITED: Final = 3
_ASKING: Final = 10.0
"""Seconds for a list of the daemon."""
_MOST_ANSWER: Final = 64 << 20
_BEATS: Final = 3
"""Signs of life in the time in which the service manager expects one."""
_EDGE: Final = Edge("docker-proxy-watchdog", "the watchdog could not be notified")
_log: Final = logging.getLogger(__name__)


@record
class Consumer:
    """A program with its own socket file; a process that can open it is this consumer to the
    policy.
    """

    name: str
    path: str
    group: str = ""
    """The group that may open it; "" for none, only this process's user."""


@record
class ProxyOptions:
    """The options of `doorward docker proxy`."""

    daemon: str
    """The daemon's own socket."""
    socket: str = ""
    """Where users of the host come; "" for none."""
    group: str = ""
    """The group that may open `socket`; "" for none, only this process's user."""
    consumers: Sequence[Consumer] = ()
    listen: str = ""
    """`host:port` for clients with certificates; needs the three files."""
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
    daemon_json: str = DAEMON_CONFIG
    pidfile: str = PIDFILE
    pins: str = ""
    """The folder for the bind mounts that pin the host paths of users; "" for no pins."""
    pins_state: str = ""
    """The file in which they are written down."""
    host_root: str = ""
    """Where the host's file system is mounted, for a proxy in a container."""
    record: str = ""
    """The folder of recordings of `exec` and `attach`; "" for none."""
    record_largest: int = LARGEST
    """Bytes of one recording."""
    grace: float = 10.0
    """Seconds for streams that are open at the end."""
    plugin: PluginOptions = field(default_factory=PluginOptions)


class ProxyService:
    """One proxy. Everything that can fail does so when it is made or started."""

    def __init__(self, options: ProxyOptions) -> None:
        self._options = options
        self._decider: RemotePdp | EmbeddedPdp
        if options.url:
            self._decider = RemotePdp(options.url, deadline=options.deadline)
        else:
            self._decider = EmbeddedPdp(
                options.policies,
                path=options.decision,
                deadline=options.deadline,
                # Unlike the plugin, it also narrows what the daemon answers.
                shows_answers=True,
            )
        self._audit: AuditLog | None = None
        if options.audit_log != OFF:
            self._audit = AuditLog(
                options.audit_log,
                with_input=options.audit_input,
                denied_only=options.log_only_denied,
            )
        self._listeners, self._files = open_listeners(options)
        protecting = _protect_own_paths(options, _paths(self._listeners))
        host = HostFacts(config=options.daemon_json, pidfile=options.pidfile)
        self._pins: Pins | None = None
        if options.pins:
            judge = PinJudge(self._decider, protecting, host, self._audit)
            self._pins = Pins(
                options.pins,
                options.pins_state,
                partial(_in_use, options.daemon),
                judge.why_refused,
            )
        resolve = resolver(options.host_root) if options.host_root else resolve_path
        translate = bytes if self._pins is None else self._pins.translate
        self._plugin = Plugin(
            self._decider,
            protecting,
            audit=self._audit,
            resolve=resolve,
            facts=ContainerFacts(
                options.daemon, resolve, owners=self._has_owners(), translate=translate
            ),
            host=host,
            waits=bool(options.url),
        )
        self._notifier = Notifier()
        self._ended = threading.Event()
        recordings = Recordings(options.record, options.record_largest) if options.record else None
        self._server = ProxyServer(
            self._listeners,
            options.daemon,
            self._plugin,
            pins=self._pins,
            recordings=recordings,
            has_owners=self._has_owners,
        )

    def _has_owners(self) -> bool:
        """Return True if the policies' data sets `owners`; False for a policy server, whose data is
        not known here.
        """
        if isinstance(self._decider, RemotePdp):
            return False  # what it decides by is not known here
        return self._decider.setting("owners") is True

    def start(self) -> None:
        """Begin to serve in threads, and return. Raise ProxyError if that does not begin."""
        # What is there now stays: the collector need not look at it again at every decision.
        gc.collect()
        gc.freeze()
        return_large_blocks()
        self._server.start()
        _log.info("Docker proxy serves.")

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then let open requests end; SIGHUP reopens the audit log.

        `SIGNALS` must be blocked before this object is made: threads inherit the mask, and only
        `sigwait` may take these signals.
        """
        self.start()
        self._notifier.send(READY, "STATUS=Serves")
        interval = watchdog_seconds()
        if interval is not None:
            beat = partial(self._beat, interval / _BEATS)
            loop_thread(beat, _EDGE, name="watchdog", stop=self._ended).start()
        while signal.sigwait(SIGNALS) == signal.SIGHUP:
            if self._audit is not None:
                self._audit.reopen()
        _log.info("Docker proxy ends.")
        self._notifier.send(STOPPING)
        self._ended.set()
        self.close()

    def _beat(self, seconds: float) -> bool:
        """Wait `seconds`, then tell systemd's watchdog that the server lives; return False when it
        ends.

        A stuck server sends nothing, so that systemd restarts it.
        """
        if self._ended.wait(seconds):
            return False
        if not self._server.is_stuck:
            self._notifier.send(WATCHDOG)
        return True

    def close(self) -> None:
        """End the service and block until then: remove the files of the sockets that it created,
        unless a successor has replaced them, let open requests end within the configured grace
        time, and close decision point and audit log.
        """
        # Before the server ends: nobody connects any more to a socket that will not answer.
        for path, inode in self._files:
            with suppress(OSError):
                # A successor may have bound the path already: its socket is not ours to remove.
                if os.stat(path).st_ino == inode:
                    os.unlink(path)
        self._server.close(self._options.grace)
        self._decider.close()
        if self._audit is not None:
            self._audit.close()
        self._notifier.close()


def _in_use(daemon: str) -> bytes | None:
    """Return the daemon's lists of containers and volumes, one after the other; None unless it
    answers both with status 200 and at most `_MOST_ANSWER` bytes.
    """
    documents = b""
    for target in ("/containers/json?all=1", "/volumes"):
        connection = UnixConnection(daemon, _ASKING)
        try:
            connection.request("GET", target, headers={"Host": "docker"})
            response = connection.getresponse()
            content = response.read(_MOST_ANSWER + 1)
            if response.status != 200 or len(content) > _MOST_ANSWER:
                return None
            documents += content
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
    return documents


def _paths(listeners: Sequence[Listener]) -> list[str]:
    """Return the files of the Unix sockets, also of those from a service manager."""
    names = [each.socket.getsockname() for each in listeners]
    return [name for name in names if isinstance(name, str)]


def _protect_own_paths(options: ProxyOptions, sockets: Sequence[str]) -> PluginOptions:
    """Return the options of decisions with the files and sockets of this proxy and its daemon, and
    the TCP port of the policy server, marked as protected, so that policies can refuse access to
    them. A failed decision is always a denial here.
    """
    used = [
        *(options.policies if not options.url else ()),
        *(options.certificate, options.key, options.authority),
        *(options.audit_log if options.audit_log != OFF else "", options.daemon),
        *sockets,
        *(options.pins, options.pins_state, options.record),
    ]
    url = check_url(options.url) if options.url else None
    ports = (url.port,) if url is not None and not url.socket else ()
    inputs = replace(options.plugin.inputs, protected=protected_paths(used), protected_ports=ports)
    return replace(options.plugin, inputs=inputs, allow_on_failure=False)


def open_listeners(options: ProxyOptions) -> tuple[list[Listener], list[tuple[str, int]]]:
    """Return the listening sockets, and path and inode of each socket file that this process must
    remove.

    Sockets inherited from systemd come first and are not bound again. Raise BindError if a socket
    cannot be inherited or bound, or if there are none.
    """
    listeners = list(_inherit_listeners())
    files: list[tuple[str, int]] = []
    rows = [("", options.socket, options.group)] if options.socket else []
    rows += [(each.name, each.path, each.group) for each in options.consumers]
    known = {each.consumer for each in listeners}
    for name, path, group in rows:
        if name in known:
            continue  # the service manager listens there
        listener = _bind(path, group)
        listeners.append(Listener(listener, name))
        files.append((path, os.stat(path).st_ino))
    if options.listen:
        context = tls_context(
            certificate=options.certificate, key=options.key, authority=options.authority
        )
        listeners.append(Listener(bind_tcp(options.listen), tls=context))
    if not listeners:
        raise BindError("no socket to serve: give --socket, --consumer or --listen")
    return listeners, files


def _bind(path: str, group: str) -> socket.socket:
    """Return a socket that listens at `path`, with mode 0600, or 0660 for `group` if that is not
    empty.

    Creates the folder. Raise BindError if the group is unknown, the path is in use, or binding
    fails.
    """
    try:
        gid = grp.getgrnam(group).gr_gid if group else -1
        os.makedirs(os.path.dirname(path) or ".", mode=0o755, exist_ok=True)
        listener = unix_sockets.bind_unix(path, mode=0o600, backlog=BACKLOG)
        if group:
            # In this order: with the mode first, the group of this process could connect meanwhile.
            os.chown(path, -1, gid)
            os.chmod(path, 0o660)
        return listener
    except KeyError:
        raise BindError(f"listen {path}: there is no group `{group}`: create it") from None
    except PathTakenError as error:
        raise BindError(f"listen {path}: {error}") from None
    except OSError as error:
        raise BindError(f"listen {path}: {describe_os_error(error)}") from None


def _inherit_listeners() -> Sequence[Listener]:
    """Return the sockets passed by systemd (`LISTEN_FDS`); none if `LISTEN_PID` is another process.

    The `FileDescriptorName` is the consumer's name; `SHARED` means no consumer. Raise BindError
    unless each descriptor is a socket and has its own name.
    """
    # sd_listen_fds(3): the variables of another process may have been inherited.
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return ()
    names = os.environ.get("LISTEN_FDNAMES", "").split(":")
    count = parse_digits(os.environ.get("LISTEN_FDS", "0"))
    if len(names) != count or len(set(names)) != count:
        raise BindError("each socket of the service manager needs a FileDescriptorName of its own")
    return [
        Listener(open_inherited(str(_FIRST_INHERITED + number)), "" if name == SHARED else name)
        for number, name in enumerate(names)
    ]
