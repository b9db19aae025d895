"""Messages between `http.send` and a sender: plain values, no I/O.

A sender is any `context.HTTPSender`; the one that reaches the network is `sender`.
"""

from __future__ import annotations

from dataclasses import field

from doorward.base.records import record

__all__ = ["Certificates", "HTTPRequest", "HTTPResponse", "SendError", "Source"]


class SendError(Exception):
    """A request got no response; the message says why, and holds no credentials."""

    timed_out = False
    """True if the time for the request is over; then it is not repeated."""
    is_network = True
    """True for a failure of the network, which `raise_error: false` reports under `NETWORK_ERROR`;
    False for one of this machine or in a response's body, as in OPA.
    """


@record
class Source:
    """Where a PEM text comes from: the text itself, a file, or an environment variable."""

    kind: str
    value: str = field(repr=False)


@record
class Certificates:
    """The TLS settings of a request; requests with equal settings share connections."""

    authorities: tuple[Source, ...] = ()
    system_authorities: bool = True
    client_certificate: Source | None = None
    client_key: Source | None = None
    server_name: str = ""
    verify: bool = True


@record
class HTTPRequest:
    """One HTTP request; `timeout` in seconds limits all of it, retries included."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = field(default=b"", repr=False)
    timeout: float = 5.0
    follow_redirects: bool = False
    retries: int = 0
    allowed_hosts: frozenset[str] | None = None
    certificates: Certificates = Certificates()


@record
class HTTPResponse:
    """A complete HTTP response; header names are in lower case."""

    status_code: int
    status: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = field(default=b"", repr=False)

    def header(self, name: str) -> str:
        """The value of the header `name`, which is in lower case; several are joined by commas. ""
        if there is none.
        """
        return ", ".join([value for key, value in self.headers if key == name])
