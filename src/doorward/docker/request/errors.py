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
    """An API version below the minimum, whose routes read what newer ones do not."""

    code = "old_version"


class WaitError(Exception):
    """A fact that is not known here, for a caller that must not wait for it."""
