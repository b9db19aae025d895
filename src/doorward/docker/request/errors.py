"""Why a request is refused before any policy is asked: one class for each kind of doubt.

The message goes to the client, so it names fields and never repeats their values.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AmbiguousRequestError",
    "InvisibleBodyError",
    "MalformedRequestError",
    "OldVersionError",
    "RequestError",
    "WaitError",
]


class RequestError(Exception):
    """A request that no policy may be asked about; denied with this message."""

    code: ClassVar[str] = "request"


class MalformedRequestError(RequestError):
    """Not readable at all: no AuthZReq, no URL, no JSON."""

    code = "malformed"


class AmbiguousRequestError(RequestError):
    """The daemon could read it otherwise than a policy would."""

    code = "ambiguous"


class InvisibleBodyError(RequestError):
    """The daemon acts on something that the plugin is not shown."""

    code = "invisible"


class OldVersionError(RequestError):
    """An API version below the minimum; its routes read fields that newer ones do not have."""

    code = "old_version"


class WaitError(Exception):
    """A fact that needs a wait, for a disk, a server or the daemon, where the caller must not wait.

    The caller decides again in a thread.
    """
