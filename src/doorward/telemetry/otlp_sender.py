"""Send messages of OTLP to a collector, over HTTP or gRPC; a message that is not accepted in its
time is dropped.
"""

from __future__ import annotations

import gzip
import ssl
import threading
import time
from typing import Any, Final, Protocol

from doorward import __version__
from doorward.base.os_errors import describe_os_error
from doorward.config.blocks import ConfigError
from doorward.config.trace_options import TraceOptions

__all__ = ["SPANS", "OtlpError", "OtlpSender", "sender_for"]

_FIRST_PAUSE: Final = 0.5
"""Seconds until the second attempt; the pauses double."""
# OTLP's own list, in which 500 is missing.
_RETRIED: Final = frozenset({429, 502, 503, 504})
# CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, ABORTED, OUT_OF_RANGE, UNAVAILABLE, DATA_LOSS.
_RETRIED_CODES: Final = frozenset({1, 4, 8, 10, 11, 14, 15})
"""Status codes of gRPC after which OTLP tries again: the collector is away or overloaded."""
_AGENT: Final = f"Doorward/{__version__}"


class OtlpError(Exception):
    """A message that the collector did not accept; the text says why."""


SPANS: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
"""The gRPC method that takes spans."""


class OtlpSender(Protocol):
    """Sends messages. `send` is for one thread, `close` for any."""

    def send(self, message: bytes) -> None:
        """Send a message, and wait for the response; raise OtlpError if the collector did not
        accept it in time.
        """

    def close(self) -> None:
        """Abort a message that is being sent; later ones fail."""


class _Attempts:
    """Repeats attempts that may succeed later, until `timeout` seconds are over or the sender is
    closed.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._closed = threading.Event()

    def send(self, message: bytes) -> None:
        """Send a message, with pauses between attempts that double; raise OtlpError if none
        succeeds in time, or the error is permanent.
        """
        until, pause = time.monotonic() + self._timeout, _FIRST_PAUSE
        while True:
            error = self._attempt(message, max(until - time.monotonic(), 0.1))
            if error is None:
                return
            text, may_succeed = error
            if not may_succeed or time.monotonic() + pause >= until or self._closed.wait(pause):
                raise OtlpError(text)
            pause *= 2

    def _attempt(self, message: bytes, seconds: float) -> tuple[str, bool] | None:
        """Send once within `seconds`. Return None on success; else the error, and True if another
        attempt may succeed.
        """
        raise NotImplementedError

    def close(self) -> None:
        self._closed.set()


class _HttpSender(_Attempts):
    """A sender over HTTP. The constructor raises ConfigError if certificates cannot be used."""

    def __init__(self, options: TraceOptions) -> None:
        super().__init__(options.timeout)
        import httpx

        from doorward.http_client.deadlines import with_deadlines  # brings httpx

        # A client that was closed meanwhile raises a RuntimeError.
        self._errors = (httpx.HTTPError, httpx.InvalidURL, OSError, RuntimeError)
        self._options = options
        verify = _context(options) if options.is_encrypted else False
        headers = {"content-type": "application/x-protobuf", "user-agent": _AGENT}
        if options.zips:
            headers["content-encoding"] = "gzip"
        client = httpx.Client(verify=verify, headers={**headers, **options.headers})
        self._client = with_deadlines(client)

    def _attempt(self, message: bytes, seconds: float) -> tuple[str, bool] | None:
        """Send a message once over HTTP within `seconds`. Return None if the status is 2xx, else
        the reason, and True if another attempt may succeed: after an error of the network, or a
        status in `_RETRIED`.
        """
        from doorward.http_client.deadlines import finished_by
        from doorward.http_client.errors import describe_failure

        content = gzip.compress(message, mtime=0) if self._options.zips else message
        try:
            request = self._client.build_request(
                "POST", self._options.target, content=content, timeout=seconds
            )
            # What the answer says beside its status is not read: it would have to be bounded.
            with finished_by(time.monotonic() + seconds):
                response = self._client.send(request, stream=True)
                response.close()
        except self._errors as error:
            return describe_failure(error), True
        if response.is_success:
            return None
        status = response.status_code
        return f"the collector answered with {status}", status in _RETRIED

    def close(self) -> None:
        super().close()
        self._client.close()


class _GrpcSender(_Attempts):
    """A sender over gRPC. The constructor raises ConfigError if certificates cannot be read."""

    def __init__(self, options: TraceOptions, method: str) -> None:
        super().__init__(options.timeout)
        import grpc

        self._error = grpc.RpcError
        zips = grpc.Compression.Gzip if options.zips else grpc.Compression.NoCompression
        if options.is_encrypted:
            files = options.ca_certificate, options.private_key, options.certificate
            credentials = grpc.ssl_channel_credentials(*map(_read, files))
            self._channel: Any = grpc.secure_channel(options.target, credentials, None, zips)
        else:
            self._channel = grpc.insecure_channel(options.target, None, zips)
        self._export = self._channel.unary_unary(method)
        self._headers = tuple(options.headers.items())

    def _attempt(self, message: bytes, seconds: float) -> tuple[str, bool] | None:
        """Send once over gRPC. Return None on success; else the error, and True if another attempt
        may succeed.
        """
        try:
            self._export(message, timeout=seconds, metadata=self._headers)
        except self._error as error:
            code: Any = error.code()
            return f"the collector answered with {code.name}", code.value[0] in _RETRIED_CODES
        return None

    def close(self) -> None:
        super().close()
        self._channel.close()


def sender_for(options: TraceOptions, method: str) -> OtlpSender:
    """Return the sender for the options; with gRPC it calls `method`. Raise ConfigError if
    certificates cannot be read.
    """
    if options.protocol == "grpc":
        return _GrpcSender(options, method)
    return _HttpSender(options)


def _context(options: TraceOptions) -> ssl.SSLContext:
    """Return the TLS context for a collector over HTTP, with its `ca_certificate` or else the
    system's authorities, and the client certificate, if any. With `allow_insecure_tls` it verifies
    nothing. Raise ConfigError if a file cannot be used.
    """
    try:
        # Not `create_default_context`: from Python 3.13 on it refuses what Go accepts.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if options.ca_certificate:
            context.load_verify_locations(options.ca_certificate)
        else:
            context.load_default_certs()
        if options.certificate:
            # Without a passphrase OpenSSL would ask at the terminal.
            context.load_cert_chain(options.certificate, options.private_key or None, "")
        if options.allow_insecure_tls:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
    except OSError as error:
        reason = describe_os_error(error)
        raise ConfigError(f"traces: the certificates cannot be loaded: {reason}") from None
    return context


def _read(path: str) -> bytes | None:
    """Return the bytes of a file with certificates or a key; None for "". Raise ConfigError if it
    cannot be read.
    """
    if not path:
        return None
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        reason = describe_os_error(error)
        raise ConfigError(f"traces: open {path}: {reason}") from None
