"""The errors of the servers for Envoy: a call that fails, and a server that cannot start."""

from __future__ import annotations

__all__ = ["CallFailedError", "StartError"]


class CallFailedError(Exception):
    """The gRPC call must end with an error (`on-error: fail-call`); `code` is a gRPC code's name,
    such as `UNKNOWN`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class StartError(Exception):
    """The server cannot start: its address is malformed or not available, or its options cannot be
    followed.
    """
