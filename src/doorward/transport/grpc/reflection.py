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
"""The methods of both versions, whose messages differ in name only."""


MAX_CONVERSATIONS: Final = 20
"""The largest number of open calls: each may wait for a client that does not read."""
MAX_ANSWERS: Final = 64
"""The largest number of requests, each of at most `MAX_REQUEST` bytes, whose responses are
cached."""
MAX_REQUEST: Final = 256


class Reflection:
    """gRPC server reflection for the services of one server; used on the loop only."""

    def __init__(self, services: tuple[str, ...]) -> None:
        self._services = (*services, _SERVICE)
        self._servicer: Any = None
        self._calls: list[Call] = []
        self._answers: dict[bytes, list[bytes]] = {}

    @property
    def streaming(self) -> Mapping[str, StreamMethod]:
        return dict.fromkeys(_METHODS, self._open)

    def _open(self, call: Call) -> _Conversation:
        """Start a conversation; the first one imports grpcio's reflection service."""
        if self._servicer is None:
            # It brings grpcio, 10 MB that no other call needs.
            from grpc_reflection.v1alpha.reflection import ReflectionServicer

            self._servicer = ReflectionServicer(self._services)
        return _Conversation(self, call)

    def answer(self, message: bytes) -> list[bytes]:
        """Return the serialized responses to a serialized reflection request; those to short
        requests are cached. A name that is not known gets an error response. Raise GrpcError
        INTERNAL if the request cannot be decoded. At least one call must have been opened before.
        """
        answers = self._answers.get(message)
        if answers is None:
            try:
                request = reflection_pb2.ServerReflectionRequest.FromString(message)
            except DecodeError:
                problem = "message is not a ServerReflectionRequest"
                raise GrpcError(Status.INTERNAL, problem) from None
            responses = self._servicer.ServerReflectionInfo(iter([request]), None)
            answers = [each.SerializeToString() for each in responses]
            # Clients choose the bytes of requests, so nothing is cached past a fixed size.
            if len(message) <= MAX_REQUEST and len(self._answers) < MAX_ANSWERS:
                self._answers[message] = answers
        return answers

    def admit(self, call: Call) -> None:
        """Count a call as open; raise GrpcError RESOURCE_EXHAUSTED if too many are."""
        # Counted here again instead of at each end: a call may end by a reset of its stream.
        self._calls = [each for each in self._calls if each.is_open]
        if len(self._calls) >= MAX_CONVERSATIONS:
            message = f"more than {MAX_CONVERSATIONS} reflection calls are open: try again later"
            raise GrpcError(Status.RESOURCE_EXHAUSTED, message)
        self._calls.append(call)


class _Conversation:
    """One reflection call. A client that does not read its responses gets no further ones."""

    def __init__(self, reflection: Reflection, call: Call) -> None:
        self._reflection = reflection
        self._call = call
        self._is_admitted = False

    def receive(self, message: bytes) -> None:
        """Answer one request; the first one counts the call as open. Raise GrpcError if the message
        cannot be decoded, if responses wait to be read, or if too many calls are open.
        """
        # A short request has a long response: unread ones must not pile up.
        if self._call.pending:
            raise GrpcError(Status.RESOURCE_EXHAUSTED, "the client does not read the responses")
        if not self._is_admitted:
            self._reflection.admit(self._call)
            self._is_admitted = True
        for response in self._reflection.answer(message):
            self._call.send(response)

    def half_close(self) -> None:
        self._call.end()

    def cancel(self) -> None:
        """Do nothing: no state is kept between messages."""
