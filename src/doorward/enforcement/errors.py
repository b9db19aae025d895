"""Why a request got no decision of the policy: the reasons that become a 400.

The texts after `request_parse_error:` are opa-envoy-plugin's (Go's); the reasons of strict mode
are ours. Neither repeats what a client sent beyond a short, quoted piece.
"""

from __future__ import annotations

from typing import Final

__all__ = ["AmbiguousRequestError", "RequestError", "RequestParseError", "shown"]

LONGEST_EXCERPT: Final = 40
"""Characters of a client's text that a reason may repeat."""


class RequestError(Exception):
    """The request is answered with HTTP 400; `code` is the reason code, `str` the text."""

    code: str = "request_error"


class RequestParseError(RequestError):
    """Path, query or body cannot be read."""

    code = "request_parse_error"


class AmbiguousRequestError(RequestError):
    """The application could read the request otherwise than the policy would (strict mode)."""

    code = "request_ambiguous"


def shown(text: str) -> str:
    """A piece of the client's text for a reason: quoted, ASCII, short."""
    cut = text if len(text) <= LONGEST_EXCERPT else text[:LONGEST_EXCERPT] + "..."
    return '"' + cut.encode("ascii", "backslashreplace").decode().replace('"', '\\"') + '"'
