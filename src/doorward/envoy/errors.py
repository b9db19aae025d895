"""The failed call: what OPA-Envoy does where we deny."""

from __future__ import annotations

__all__ = ["CallFailedError"]


class CallFailedError(Exception):
    """The gRPC call fails (`on-error: fail-call`): `code` is the gRPC code's name."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
