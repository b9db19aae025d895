"""TLS of listeners: certificates that are exchanged without a restart.

A connection keeps what it began with; the next one gets the newest. Files that cannot be used never
replace those that can.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Sequence
from time import monotonic
from typing import Any, Final

from doorward.base.records import record

__all__ = ["CIPHER_SUITES", "HANDSHAKE", "MINIMUMS", "TlsContext", "TlsError", "TlsOptions"]

_log: Final = logging.getLogger(__name__)

HANDSHAKE: Final = 5.0
"""Seconds that a client has to begin."""
MINIMUMS: Final = {
    "1.0": ssl.TLSVersion.TLSv1,
    "1.1": ssl.TLSVersion.TLSv1_1,
    "1.2": ssl.TLSVersion.TLSv1_2,
    "1.3": ssl.TLSVersion.TLSv1_3,
}
CIPHER_SUITES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
"""Suites of TLS 1.2 as Go names them, and OpenSSL. Those of 1.3 cannot be chosen, as in Go."""


class TlsError(Exception):
    """Certificates or keys that cannot be used; the message says which and why."""


@record
class TlsOptions:
    """Files and choices of one server."""

    certificate: str
    private_key: str
    client_ca: str | None = None
    """Who signs the certificates of clients."""
    verifies_clients: bool = False
    """Whether clients must have one."""
    minimum: str = "1.2"
    cipher_suites: Sequence[str] = ()
    """Go's names; without any those of OpenSSL's default."""
    refresh: float = 0.0
    """Seconds between two looks at the files; 0: never."""

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.certificate, self.private_key, self.client_ca)))


class _AlertingObject(ssl.SSLObject):
    """A handshake whose failure its client is told.

    asyncio closes a connection whose handshake fails before it sends what OpenSSL has left to say:
    the alert with the reason. So a failure with an alert says once that it waits for the client,
    which makes asyncio send it. The connection ends when the client leaves, as it does on an alert,
    or with the time for handshakes.
    """

    outgoing: ssl.MemoryBIO
    _failure: ssl.SSLError | None = None

    def do_handshake(self) -> None:
        """Do the handshake; after a failure, first ask the transport to send the alert, then raise
        it.
        """
        if self._failure is not None:
            raise self._failure
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            if not self.outgoing.pending:
                raise
            self._failure = error
            raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "the alert is sent") from error


class TlsContext(ssl.SSLContext):
    """The TLS context of listeners: each connection is begun with the newest certificates."""

    _options: TlsOptions
    _newest: ssl.SSLContext
    _seen: tuple[Any, ...]
    _next: float

    @classmethod
    def load(cls, options: TlsOptions) -> TlsContext:
        """TlsError where the files cannot be used."""
        context = cls(ssl.PROTOCOL_TLS_SERVER)
        context._options = options
        context._seen = _signature(options)
        context._newest = _context(options)
        context._next = monotonic() + options.refresh
        return context

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *arguments: Any, **options: Any
    ) -> ssl.SSLObject:
        """Return a TLS object of the newest certificates; called by asyncio for each connection."""
        wrapped = self._newest.wrap_bio(incoming, outgoing, *arguments, **options)
        assert isinstance(wrapped, _AlertingObject)
        wrapped.outgoing = outgoing
        return wrapped

    def refresh(self) -> None:
        """Look at the files, if it is time; to be called every now and then."""
        if not self._options.refresh or monotonic() < self._next:
            return
        self._next = monotonic() + self._options.refresh
        signature = _signature(self._options)
        if signature == self._seen:
            return
        try:
            self._newest = _context(self._options)
        except TlsError as error:
            _log.error(
                "TLS certificates cannot be used; the old ones are.", extra={"error": str(error)}
            )
        else:
            _log.info("TLS certificates were exchanged.")
        self._seen = signature


def _signature(options: TlsOptions) -> tuple[Any, ...]:
    return tuple(map(_stat, options.files))


def _stat(path: str) -> Any:
    """Return what identifies the content of a file: device, inode, size and times; None if it
    cannot be read.
    """
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _context(options: TlsOptions) -> ssl.SSLContext:
    """Return a server context with the certificates of `options`; the error names the file that
    cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslobject_class = _AlertingObject
    context.minimum_version = MINIMUMS[options.minimum]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.set_alpn_protocols(["http/1.1"])
    path = options.certificate
    try:
        context.load_cert_chain(options.certificate, options.private_key, _no_password)
        if options.client_ca is not None:
            path = options.client_ca
            context.load_verify_locations(options.client_ca)
        if options.cipher_suites:
            path = "cipher suites"
            context.set_ciphers(":".join(CIPHER_SUITES[name] for name in options.cipher_suites))
    except (OSError, ssl.SSLError) as error:
        raise TlsError(f"{path}: {_reason(error)}") from None
    if options.verifies_clients:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _no_password() -> str:
    """Without it OpenSSL asks at the terminal."""
    return ""


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not usable").lower().replace("_", " ")
    return (error.strerror or "not usable").lower()
