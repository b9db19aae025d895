"""Server reflection (`grpc.reflection.v1alpha` and `v1`): the services, and their types.

`grpcio-reflection` makes the responses; this module is the stream around them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.message import DecodeError
from grpc_reflection.v1alpha import reflection_pb2

from doorward.transport.grpc.methods import Call, StreamMethod
from doorward.transport.grpc.status import GrpcError, Status

__all__ = ["Reflection"]

_SERVICE: Final = "grpc.reflection.v1alpha.ServerReflection"
_METHODS: Final = (
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
)
"""The messages of both are the same but for their names."""


class Reflection:
    """Reflection for the services of one server."""

    def __init__(self, services: tuple[str, ...]) -> None:
        self._services = (*services, _SERVICE)
        self._servicer: Any = None

    @property
    def streaming(self) -> Mapping[str, StreamMethod]:
        return dict.fromkeys(_METHODS, self._open)

    def _open(self, call: Call) -> _Conversation:
        if self._servicer is None:
            # It brings grpcio, 10 MB that no other call needs.
            from grpc_reflection.v1alpha.reflection import ReflectionServicer

            self._servicer = ReflectionServicer(self._services)
        return _Conversation(self._servicer, call)


class _Conversation:
    def __init__(self, servicer: Any, call: Call) -> None:
        self._servicer = servicer
        self._call = call

    def receive(self, message: bytes) -> None:
        try:
            request = reflection_pb2.ServerReflectionRequest.FromString(message)
        except DecodeError:
            raise GrpcError(Status.INTERNAL, "message is not a ServerReflectionRequest") from None
        for response in self._servicer.ServerReflectionInfo(iter([request]), None):
            self._call.send(response.SerializeToString())

    def half_close(self) -> None:
        self._call.end()

    def cancel(self) -> None:
        """Nothing is kept between messages."""
