"""Failed requests to other servers as text, in the form of Go's errors: `Get "URL": reason`. What
was sent is not quoted, since it may be a credential: the texts of HTTP libraries quote it.
"""

from __future__ import annotations

import re
from typing import Final

import httpx

from doorward.base.os_errors import os_reason

__all__ = ["describe_failure", "describe_request"]

_END: Final = re.compile(r"[/?#]|\Z")
_UNSENDABLE: Final = (
    "a header or the URL of the request has characters that HTTP does not allow: remove line "
    "breaks, and letters outside ASCII, from headers, tokens and keys"
)


def describe_request(method: str, url: str) -> str:
    """The method and URL as Go's errors show them, `Get "http://…"`, with `***` for a password."""
    # Also of a URL that `urlsplit` refuses.
    head, slashes, rest = url.partition("//")
    end = _END.search(rest).start()  # type: ignore[union-attr] # the end always matches
    user, at, host = rest[:end].rpartition("@")
    address = f"{user.partition(':')[0]}:***@{host}" if at else host
    return f'{method.capitalize()} "{head}{slashes}{address}{rest[end:]}"'


def describe_failure(error: Exception) -> str:
    """Return the reason of the system's error that led to `error`, else its own text, or its class
    if it has none, with a lower-case first letter. Of a request that cannot be sent because of a
    character, the text is ours.
    """
    if isinstance(error, httpx.LocalProtocolError | UnicodeEncodeError):
        return _UNSENDABLE
    text = os_reason(error) or str(error) or type(error).__name__
    return text[:1].lower() + text[1:]
