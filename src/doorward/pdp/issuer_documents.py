"""Documents of identity providers: JSON objects with a limit of size and time.

Redirects are not followed, since a document is trusted because of its URL. A name that occurs twice
in an object is an error, since readers may take different values.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Final

import httpx

from doorward.base.os_errors import os_reason
from doorward.http_client.deadlines import finished_by, with_deadlines
from doorward.http_client.decoding import DecodingError, decoded_body

__all__ = ["WITHIN", "DocumentError", "fetch_document", "issuer_client"]

WITHIN: Final = 10.0
"""The longest time for one document, in seconds."""
MAX_BYTES: Final = 1 << 20


class DocumentError(Exception):
    """A document that cannot be fetched or used; the message is the reason."""

    def __init__(
        self, reason: str, *, status: int | None = None, is_too_long: bool = False
    ) -> None:
        super().__init__(reason)
        self.status = status
        """The status of the response; None if there was no response in time."""
        self.is_too_long = is_too_long
        """True if the body exceeds `MAX_BYTES`, or takes longer than `WITHIN`."""


def issuer_client(transport: httpx.BaseTransport | None = None) -> httpx.Client:
    """Return a client for `fetch_document`, whose connections observe the deadline of
    `finished_by`. It does not follow redirects. The caller closes it.
    """
    return with_deadlines(httpx.Client(transport=transport, timeout=WITHIN))


def fetch_document(
    client: httpx.Client,
    url: str,
    *,
    method: str = "GET",
    form: Mapping[str, str] | None = None,
    auth: httpx.BasicAuth | None = None,
) -> dict[str, Any]:
    """Return the JSON object at a URL; `form` is sent as the body, URL-encoded. Raise DocumentError
    if the status is not 200, the body exceeds `MAX_BYTES` or is not a JSON object with unique
    names, the exchange takes longer than `WITHIN` seconds, or the connection fails. Its text does
    not contain the URL.
    """
    until = time.monotonic() + WITHIN
    body = bytearray()
    headers = {"accept": "application/json"}
    data = None if form is None else dict(form)
    status = None
    try:
        with (
            finished_by(until),
            client.stream(method, url, data=data, headers=headers, auth=auth) as answer,
        ):
            if answer.status_code != httpx.codes.OK:
                reason = f"status {answer.status_code}"
                raise DocumentError(reason, status=answer.status_code)
            for part in decoded_body(answer):
                body += part
                if len(body) > MAX_BYTES:
                    raise DocumentError(
                        f"the issuer's answer is larger than {MAX_BYTES} bytes", is_too_long=True
                    )
                # The client's timeout counts for each read: a byte at a time would last for ever.
                if time.monotonic() > until:
                    raise DocumentError(
                        f"the issuer's answer took longer than {WITHIN:g} seconds", is_too_long=True
                    )
            status = answer.status_code
        document = json.loads(body, object_pairs_hook=_unique_names)
    except (httpx.HTTPError, httpx.InvalidURL, OSError, DecodingError) as error:
        # Not its text: that of an HTTP library's error may contain the URL with credentials.
        raise DocumentError(os_reason(error) or type(error).__name__) from None
    except (ValueError, RecursionError):
        raise DocumentError(
            "the issuer's answer is not JSON, or an object in it repeats a name", status=status
        ) from None
    if not isinstance(document, dict):
        raise DocumentError("the issuer's answer is not a JSON object", status=status)
    return document


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of `pairs`; ValueError if a name occurs twice, since other readers may take
    its other value.
    """
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("an object in the JSON document repeats a name")
    return unique
