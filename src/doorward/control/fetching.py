"""The part that all kinds of credentials share: fetching them, and their errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import httpx

__all__ = ["CredentialsError", "Fetch", "document_of", "read_text"]

_MAX_FILE: Final = 1 << 20

Fetch: TypeAlias = Callable[[httpx.Request], httpx.Response]
"""Sends a request for a token, with deadlines and a bounded body."""


class CredentialsError(Exception):
    """Credentials that cannot be had; the text holds no secret."""


def read_text(path: str) -> str:
    """Read a file with credentials; raise `CredentialsError` if that fails."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(_MAX_FILE)
    except OSError as error:
        reason = (error.strerror or "failed").lower()
        raise CredentialsError(f"open {path}: {reason}") from None
    except UnicodeDecodeError:
        raise CredentialsError(f"{path}: not UTF-8") from None


def document_of(response: httpx.Response, subject: str) -> dict[str, Any]:
    """Parse the response as a JSON object; errors call it `subject`."""
    try:
        document = response.json()
    except (ValueError, RecursionError):
        raise CredentialsError(f"{subject} is not JSON") from None
    if not isinstance(document, dict):
        raise CredentialsError(f"{subject} is not an object")
    return document
