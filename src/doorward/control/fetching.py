"""The part that all kinds of credentials share: the requests for them, and their errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import httpx

from doorward.base.os_errors import describe_os_error

__all__ = ["CredentialsError", "Fetch", "document_of", "origin_of", "read_text"]

_MAX_FILE: Final = 1 << 20

Fetch: TypeAlias = Callable[[httpx.Request], httpx.Response]
"""Sends a request for a token and returns the response, with a time limit and a bounded body;
CredentialsError if there is none.
"""


class CredentialsError(Exception):
    """Credentials are not available; the message, which contains no secret, says why."""


def origin_of(url: httpx.URL) -> tuple[str, str, int | None]:
    """Return scheme, host and port of a URL; credentials for one origin are not for another one."""
    return url.scheme, url.host, url.port


def read_text(path: str) -> str:
    """Return the text of a file with credentials. CredentialsError if it cannot be read, is not
    UTF-8, or is longer than 1 Mi characters.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_MAX_FILE + 1)
    except OSError as error:
        reason = describe_os_error(error)
        raise CredentialsError(f"open {path}: {reason}") from None
    except UnicodeDecodeError:
        raise CredentialsError(f"{path}: the file is not UTF-8") from None
    if len(text) > _MAX_FILE:
        raise CredentialsError(
            f"{path}: the file with credentials is longer than {_MAX_FILE} characters: check the "
            "path"
        )
    return text


def document_of(response: httpx.Response, subject: str) -> dict[str, Any]:
    """Return the JSON object in a response; CredentialsError, with `subject` as the name of the
    response, if there is none.
    """
    try:
        document = response.json()
    except (ValueError, RecursionError):
        raise CredentialsError(f"{subject} is not JSON") from None
    if not isinstance(document, dict):
        raise CredentialsError(f"{subject} is not a JSON object")
    return document
