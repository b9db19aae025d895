"""The gRPC server on grpcio (`transport: grpcio`): Checks come in as bytes, and go out as bytes.

grpcio's synchronous server with handlers that parse nothing: `check` does all the work, and this
module all the I/O. A stream whose message has not come takes a thread of many, and ends after a
while, sooner where there are many such streams; how many Checks are worked on is counted apart from
that. Serves `envoy.service.auth.v3`, `v2`, `grpc.health.v1` and, when asked, reflection. A server
that cannot listen does not start: that is an error of its caller's start-up, not a line in the log.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import TYPE_CHECKING, Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from doorward.base.os_errors import describe_os_error
from doorward.config.limits import DEADLINE
from doorward.edge import Edge, Part, Parts, loop_thread
from doorward.envoy.addresses import AddressError, clear_stale_socket, parse_address
from doorward.envoy.check import Check
from doorward.envoy.errors import CallFailedError
from doorward.envoy.options import Options
from doorward.envoy.request.input import Version
from doorward.envoy.serving import (
    SERVICES,
    STUCK_AFTER,
    StartError,
    State,
    traced_check,
    warn_if_public,
)

if TYPE_CHECKING:
    from doorward.telemetry.tracing import Tracer

__all__ = ["GrpcioServer"]

MAX_CONCURRENT_CALLS: Final = 1024
"""The largest number of open calls; further ones are refused with RESOURCE_EXHAUSTED."""

MAX_STREAMS: Final = 100
"""The largest number of calls on one connection; a client holds back further ones."""
RECEIVERS: Final = 256
"""The number of threads for calls; most of them wait for a message or for a free slot."""
RECEIVE_TIMEOUT: Final = 2.0
"""Seconds within which the message of a call must arrive: a proxy sends it at once."""
CROWDED: Final = RECEIVERS // 2
"""Above this number of calls without a message, `CROWDED_TIMEOUT` replaces `RECEIVE_TIMEOUT`."""
CROWDED_TIMEOUT: Final = 0.1

_SILENT: Final = Edge("silent-streams", "the streams of silent clients could not be ended")
_log: Final = logging.getLogger(__name__)


class GrpcioServer:
    """A gRPC server for Checks on grpcio: `start` listens, `stop` ends open calls within its
    grace.
    """

    def __init__(
        self,
        checks: dict[Version, Check],
        options: Options,
        on_state: Callable[[State], object] = lambda _state: None,
        *,
        parts: Parts | None = None,
        deadline: float = DEADLINE,
        tracer: Tracer | None = None,
    ) -> None:
        """Prepare a server for Checks that does not listen yet; raise StartError if `addr` is
        malformed.

        `checks` has the check function of each API version. `on_state` is told each change of
        state, `parts` get the threads to watch, `deadline` is the evaluation deadline in seconds.
        """
        self._options = options
        self._on_state = on_state
        self._parts = parts or Parts()
        self._progress = _Progress(deadline)
        self._poller = Part("check-server", within=0)
        try:
            self._address = parse_address(options.addr)
        except AddressError as error:
            raise StartError(f"cannot listen on {error}") from None
        self._health = health.HealthServicer()
        self._pool = ThreadPoolExecutor(max(RECEIVERS, options.threads), thread_name_prefix="check")
        self._silent = _SilentStreams()
        slots = threading.Semaphore(options.threads)
        self._server = grpc.server(
            self._pool,
            handlers=[
                _to_handler(SERVICES[version], check, slots, self._silent, self._progress, tracer)
                for version, check in checks.items()
            ],
            options=[
                # On by default: a second process at the same port would start, and take
                # a share of the calls.
                ("grpc.so_reuseport", 0),
                ("grpc.max_concurrent_streams", MAX_STREAMS),
                ("grpc.server_max_pending_requests", 1000),
                ("grpc.server_max_pending_requests_hard_limit", 3000),
                ("grpc.max_receive_message_length", options.grpc_max_recv_msg_size),
                ("grpc.max_send_message_length", options.grpc_max_send_msg_size),
            ],
            maximum_concurrent_rpcs=MAX_CONCURRENT_CALLS,
        )
        self._names = [SERVICES[version] for version in checks]
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        if options.enable_reflection:
            names = (*self._names, health.SERVICE_NAME, reflection.SERVICE_NAME)
            reflection.enable_server_reflection(names, self._server)
        self.port = 0
        """The TCP port listened on; 0 for a Unix socket."""
        on_state("NOT_READY")

    @property
    def address(self) -> str:
        """The address that is listened on, in gRPC's form."""
        return self._address.target

    def start(self) -> None:
        """Listen and serve in threads; raise StartError if the address is not available.

        Also sets health to SERVING and the state to OK, or to ERROR if it fails.
        """
        try:
            self._bind()
        except StartError:
            self._on_state("ERROR")
            self._pool.shutdown(wait=False)
            raise
        self._silent.start()
        before = set(threading.enumerate())
        self._server.start()
        self._watch(before)
        self._set_health(health_pb2.HealthCheckResponse.SERVING)
        self._on_state("OK")
        _log.info("Starting gRPC server.", extra={"addr": self.address})
        warn_if_public(self._address)

    def _bind(self) -> None:
        """Bind the address and set `port`; raise StartError if it is not available.

        A stale socket file is deleted first; the new one gets the mode of `socket-mode`.
        """
        path = self._address.path
        try:
            if path is None:
                port = self._listen()
                self.port = 0 if self.address.startswith("unix") else port
                return
            clear_stale_socket(path)
            # Nobody may connect in the moment between the socket's making and its mode.
            before = os.umask(0o777 & ~(self._options.socket_mode & 0o700))
            try:
                self._listen()
            finally:
                os.umask(before)
            path.chmod(self._options.socket_mode)
        except (AddressError, OSError, RuntimeError) as error:
            reason = describe_os_error(error) if isinstance(error, OSError) else str(error)
            raise StartError(f"cannot listen on {self._options.addr}: {reason}") from None

    def _listen(self) -> int:
        """Add the address to the server and return its port; raise RuntimeError if it cannot be
        bound.
        """
        port = self._server.add_insecure_port(self.address)
        if port == 0:
            raise RuntimeError("the address is in use, or is not an address of this machine")
        return port

    def _watch(self, before: set[threading.Thread]) -> None:
        """Register the threads of the server with `/health`, so that stuck or dead ones are seen.

        `before` are the threads that ran before grpcio started.
        """
        self._parts.add(self._progress.part)
        self._parts.add(self._silent.part)
        # grpcio does not name the thread that takes the calls: it is the one that was started.
        came = [thread for thread in threading.enumerate() if thread not in before]
        if len(came) == 1:
            self._poller.thread = came[0]
            self._parts.add(self._poller)

    def _set_health(self, status: health_pb2.HealthCheckResponse.ServingStatus) -> None:
        for name in ("", *self._names):
            self._health.set(name, status)

    def stop(self, grace: float = 5.0) -> None:
        """Accept no more calls, let open calls end within `grace` seconds, and close; blocks until
        then.

        grpcio deletes the socket file itself.
        """
        self._on_state("NOT_READY")
        for part in (self._progress.part, self._silent.part, self._poller):
            self._parts.remove(part)
        # Before the server stops: a client that watches leaves before its calls are refused.
        self._health.enter_graceful_shutdown()
        self._server.stop(grace).wait(grace + 1)
        self._silent.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the server ends, at most `timeout` seconds (None: forever); return False on
        timeout.
        """
        return not self._server.wait_for_termination(timeout)


class _Progress:
    """A context manager around each check that shows `/health` when checks are running and none
    ends.
    """

    def __init__(self, deadline: float) -> None:
        self.part = Part("check-workers", within=STUCK_AFTER + 4 * deadline)
        self._lock = threading.Lock()
        self._running = 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._running:
                self.part.beat()
            self._running += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._running -= 1
            if self._running:
                self.part.beat()
            else:
                self.part.rest()


class _SilentStreams:
    """The calls whose message has not arrived, oldest first; a thread cancels those that wait too
    long.

    Above `CROWDED` such calls the limit is shorter, so that threads stay free for other calls.
    """

    def __init__(self) -> None:
        self._began: dict[grpc.ServicerContext, float] = {}
        self._stopped = threading.Event()
        self._wake = threading.Event()
        self.part = Part("silent-streams", within=STUCK_AFTER)
        self._thread = loop_thread(
            self._cancel_old, _SILENT, name="silent-streams", stop=self._stopped, part=self.part
        )

    def start(self) -> None:
        self._thread.start()
        self.part.thread = self._thread

    def stop(self) -> None:
        self._stopped.set()
        self._wake.set()

    def receive(self, messages: Iterator[bytes], context: grpc.ServicerContext) -> bytes | None:
        """Return the message of a call; None if the call ended or was cancelled without one.
        Blocks; meanwhile `_cancel_old` may cancel the call.
        """
        # INVARIANT: a dict keeps its order, so that the oldest calls come first in `_cancel_old`.
        self._began[context] = monotonic()
        if len(self._began) > CROWDED:
            self._wake.set()
        try:
            return next(messages, None)
        except grpc.RpcError:
            return None
        finally:
            self._began.pop(context, None)

    def _cancel_old(self) -> bool:
        """Wait for the next round and cancel the calls whose message has not arrived in
        `RECEIVE_TIMEOUT` seconds, or `CROWDED_TIMEOUT` if more than `CROWDED` calls wait; return
        False once stopped.
        """
        self._wake.wait(RECEIVE_TIMEOUT / 4)
        self._wake.clear()
        is_crowded = len(self._began) > CROWDED
        if self._stopped.wait(CROWDED_TIMEOUT / 4 if is_crowded else 0):
            return False
        self.part.beat()
        timeout = min(RECEIVE_TIMEOUT, CROWDED_TIMEOUT) if is_crowded else RECEIVE_TIMEOUT
        # A copy: the threads of calls add and remove theirs meanwhile.
        for context, began in list(self._began.items()):
            # Oldest first: all that follow are younger.
            if monotonic() - began < timeout:
                break
            self._began.pop(context, None)
            context.cancel()  # type: ignore[no-untyped-call]  # the stubs have no types
        if len(self._began) > CROWDED:
            self._wake.set()
        self.part.rest()
        return True


def _to_handler(
    service: str,
    check: Check,
    slots: threading.Semaphore,
    silent: _SilentStreams,
    progress: _Progress,
    tracer: Tracer | None,
) -> grpc.GenericRpcHandler[bytes, bytes]:
    """Return the grpcio handler of `service`, whose method Check runs `check` in one of `slots`.

    A call fails with DEADLINE_EXCEEDED if no message came, and with its own code on
    CallFailedError. A call that its client has given up while it waited for a slot is not decided.
    """

    def handle(messages: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        """Wait for the message of a call and a free slot, and return the check's answer.

        b"" if the caller gave up meanwhile; a failure aborts the call.
        """
        request = silent.receive(messages, context)
        if request is None:
            context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "no message came")
        # Taken only with the message at hand: a silent stream must not hold a slot.
        with slots:
            # A call that was given up while it waited is not decided.
            if not context.is_active():
                return b""
            try:
                with progress:
                    if tracer is None:
                        return check(request)
                    path, header = f"/{service}/Check", _header_of(context)
                    return traced_check(tracer, header, path, check, request)
            except CallFailedError as error:
                context.abort(grpc.StatusCode[error.code], error.message)

    # To the caller it is one message and one answer; a stream here, so that the wait is ours.
    method = grpc.stream_unary_rpc_method_handler(handle)
    return grpc.method_handlers_generic_handler(service, {"Check": method})


def _header_of(context: grpc.ServicerContext) -> Callable[[str], str | None]:
    """Return a function that gives a metadata value of the call by name; None if missing or
    binary.
    """
    fields = {name: value for name, value in context.invocation_metadata()}

    def header(name: str) -> str | None:
        value = fields.get(name)
        return value if isinstance(value, str) else None

    return header
