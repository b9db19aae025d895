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
    """A request that is denied without asking a policy; the message is the reason that the client
    gets.
    """

    code: ClassVar[str] = "request"


class MalformedRequestError(RequestError):
    """The request cannot be read: it is not an AuthZReq, or its URL or JSON is malformed."""

    code = "malformed"


class AmbiguousRequestError(RequestError):
    """The daemon could read the request in another way than the policy."""

    code = "ambiguous"


class InvisibleBodyError(RequestError):
    """The daemon acts on a part of the request that the plugin cannot see."""

    code = "invisible"


class OldVersionError(RequestError):
    """The request has an API version below the minimum, whose routes read fields that newer
    versions do not have.
    """

    code = "old_version"


class WaitError(Exception):
    """A fact can only be had by waiting for a disk, a server or the daemon, and the caller must not
    wait. The caller decides again in a thread.
    """
