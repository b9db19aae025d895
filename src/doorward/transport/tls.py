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

from doorward.base.os_errors import describe_os_error, describe_unreadable
from doorward.base.records import record

__all__ = ["CIPHER_SUITES", "HANDSHAKE", "MINIMUMS", "TlsContext", "TlsError", "TlsOptions"]

_log: Final = logging.getLogger(__name__)

HANDSHAKE: Final = 5.0
"""Seconds that a TLS handshake may take."""
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
"""OpenSSL's names of the TLS 1.2 suites by Go's names. Those of 1.3 cannot be chosen, as in Go."""


class TlsError(Exception):
    """A certificate, key or cipher suite cannot be used; the message says which and why."""


@record
class TlsOptions:
    """The certificate files and TLS choices of one server."""

    certificate: str
    private_key: str
    client_ca: str | None = None
    """The file of the CA that signs clients' certificates; None for none."""
    verifies_clients: bool = False
    """True if clients must present a certificate of that CA."""
    minimum: str = "1.2"
    cipher_suites: Sequence[str] = ()
    """Go's names of the TLS 1.2 suites to use; empty for OpenSSL's default."""
    refresh: float = 0.0
    """Seconds between two checks for changed files; 0 for never."""

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of certificate, key and, if any, client CA."""
        return tuple(filter(None, (self.certificate, self.private_key, self.client_ca)))


class _AlertingObject(ssl.SSLObject):
    """A TLS object that sends its alert before a failed handshake ends the connection.

    asyncio closes a connection whose handshake fails before it sends the alert with the reason. So
    the first failure is reported as a wait for the client, which makes asyncio send the alert. The
    connection ends when the client leaves, or with the time for handshakes.
    """

    outgoing: ssl.MemoryBIO
    _failure: ssl.SSLError | None = None

    def do_handshake(self) -> None:
        """Do the next step of the handshake, as `ssl.SSLObject.do_handshake` does. If it fails and
        an alert is ready to be sent, raise SSLWantReadError instead of the failure, which each
        later call raises.
        """
        if self._failure is not None:
            raise self._failure
        try:
            super().do_handshake()
        # Both are subclasses of SSLError, and mean that the handshake goes on.
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            if not self.outgoing.pending:
                raise
            self._failure = error
            raise ssl.SSLWantReadError(
                ssl.SSL_ERROR_WANT_READ, "the TLS handshake has failed, and its alert must be sent"
            ) from error


class TlsContext(ssl.SSLContext):
    """The TLS context of listeners; each connection begins with the newest certificates."""

    _options: TlsOptions
    _newest: ssl.SSLContext
    _seen: tuple[Any, ...]
    _next: float

    @classmethod
    def load(cls, options: TlsOptions) -> TlsContext:
        """Return a context of the files of `options`; raise TlsError if they cannot be used."""
        context = cls(ssl.PROTOCOL_TLS_SERVER)
        context._options = options
        # Before the files are read: a change in between is noticed by the next `refresh`.
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
        """Load the certificate files again if they changed; does nothing within `refresh` seconds
        of the last time, or if `refresh` is 0.

        Call it often. Files that cannot be used are logged once, and the old certificates stay.
        """
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
                "The new TLS certificates cannot be used; the previous ones stay in use.",
                extra={"error": str(error)},
            )
        else:
            _log.info("TLS certificates were reloaded.")
        # After a failure as well: the same files are not tried, and logged, again.
        self._seen = signature


def _signature(options: TlsOptions) -> tuple[Any, ...]:
    """Return a value that changes when one of the certificate files changes."""
    return tuple(map(_stat, options.files))


def _stat(path: str) -> Any:
    """Return device, inode, size and times of a file; None if it cannot be read."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _context(options: TlsOptions) -> ssl.SSLContext:
    """Return a server context of the files of `options`; raise TlsError naming what cannot be
    used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslobject_class = _AlertingObject
    context.minimum_version = MINIMUMS[options.minimum]
    # Renegotiation lets one client cost CPU again and again; compression leaks secrets (CRIME).
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    # TLS listeners speak HTTP/1.1 only: a client that prefers h2 must not choose it.
    context.set_alpn_protocols(["http/1.1"])
    pair = options.certificate, options.private_key
    subject, form = " and ".join(pair), "a certificate and its private key, both in PEM"
    # OpenSSL does not say which of the two it could not read.
    if unreadable := describe_unreadable(pair):
        raise TlsError(unreadable)
    try:
        context.load_cert_chain(*pair, _no_password)
        if options.client_ca is not None:
            subject, form = options.client_ca, "certificates in PEM"
            context.load_verify_locations(options.client_ca)
        if options.cipher_suites:
            subject, form = "cipher suites", "names of cipher suites"
            context.set_ciphers(":".join(CIPHER_SUITES[name] for name in options.cipher_suites))
    except (OSError, ssl.SSLError) as error:
        raise TlsError(f"{subject}: {_reason(error, form)}") from None
    if options.verifies_clients:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _no_password() -> str:
    """Return "", since OpenSSL would otherwise ask for the key's password at the terminal."""
    return ""


def _reason(error: OSError, form: str) -> str:
    """Return the cause of a TLS error in lower case, for a message; `not FORM` if it has none."""
    if isinstance(error, ssl.SSLError):
        return error.reason.lower().replace("_", " ") if error.reason else f"not {form}"
    return describe_os_error(error)
