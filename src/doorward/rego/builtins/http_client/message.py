"""Messages between `http.send` and a sender: plain values, no I/O.

A sender is any `context.HTTPSender`; the one that reaches the network is `sender`.
"""

from __future__ import annotations

from dataclasses import field

from doorward.base.records import record

__all__ = ["Certificates", "HTTPRequest", "HTTPResponse", "SendError", "Source"]


class SendError(Exception):
    """No response came; the text says why and holds no credentials."""

    timed_out = False
    is_network = True
    """False for what is wrong on this side, or with the body of a response, as in OPA."""


@record
class Source:
    """The source of a PEM text: it is here, in a file, or in an environment variable."""

    kind: str
    value: str = field(repr=False)


@record
class Certificates:
    """The TLS settings of a request; requests with equal ones share connections."""

    authorities: tuple[Source, ...] = ()
    system_authorities: bool = True
    client_certificate: Source | None = None
    client_key: Source | None = None
    server_name: str = ""
    verify: bool = True


@record
class HTTPRequest:
    """One request; `timeout` in seconds covers all of it, retries included."""

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
    """A whole response; header names are lower case."""

    status_code: int
    status: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = field(default=b"", repr=False)

    def header(self, name: str) -> str:
        """The header's value, several joined by commas; empty if there is none."""
        return ", ".join([value for key, value in self.headers if key == name])
