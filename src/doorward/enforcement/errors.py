"""Why a request got no decision of the policy: the reasons that become a 400.

The texts after `request_parse_error:` are opa-envoy-plugin's (Go's); the reasons of strict mode
are ours. Neither repeats what a client sent beyond a short, quoted piece.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["AmbiguousRequestError", "RequestError", "RequestParseError", "shown"]

LONGEST_EXCERPT: Final = 40
"""The largest number of characters of a client's text in an error message."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class RequestError(Exception):
    """A request that is answered with HTTP 400; `code` is the reason code, `str(error)` the
    text.
    """

    code: str = "request_error"


class RequestParseError(RequestError):
    """The path, query or body of a request cannot be parsed."""

    code = "request_parse_error"


class AmbiguousRequestError(RequestError):
    """The application could read the request otherwise than the policy would (strict mode)."""

    code = "request_ambiguous"


def shown(text: str) -> str:
    """Return a client's text for an error message: in quotes, as printable ASCII with other
    characters escaped, and cut after `LONGEST_EXCERPT` characters.
    """
    cut = text if len(text) <= LONGEST_EXCERPT else text[:LONGEST_EXCERPT] + "..."
    escaped = cut.encode("ascii", "backslashreplace").decode().replace('"', '\\"')
    return '"' + _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", escaped) + '"'
