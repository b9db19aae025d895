"""The errors of the servers for Envoy: a call that fails, and a server that cannot start."""

from __future__ import annotations

__all__ = ["CallFailedError", "StartError"]


class CallFailedError(Exception):
    """The gRPC call fails (`on-error: fail-call`): `code` is the gRPC code's name."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class StartError(Exception):
    """The server cannot listen, or its descriptor set cannot be read."""
