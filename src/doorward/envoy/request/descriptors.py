"""gRPC messages become protojson, by a compiled `FileDescriptorSet` (`proto-descriptor`).

Knows services, methods and messages; whether a request is gRPC at all is `bodies`' business.
"""

from __future__ import annotations

import base64
import binascii
import struct
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message, message_factory

from doorward.enforcement.errors import RequestParseError
from doorward.rego import Value
from doorward.rego.golang import json_float

__all__ = ["MAX_DESCRIPTOR_SIZE", "Services", "load_services"]

MAX_DESCRIPTOR_SIZE: Final = 64 * 1024 * 1024
_INLINE: Final = "base64:"


class Services:
    """The gRPC services of a compiled FileDescriptorSet.

    The constructor raises a DecodeError, TypeError or KeyError if the set is malformed or lacks an
    import.
    """

    def __init__(self, descriptor_set: bytes) -> None:
        """Read a serialized FileDescriptorSet, which must have all imports. Raise google.protobuf's
        DecodeError if the bytes are malformed, TypeError or KeyError for files that do not fit
        together.
        """
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set).file
        self._pool = descriptor_pool.DescriptorPool()
        for file in files:
            self._pool.Add(file)
        for file in files:
            # Found now: a file whose imports are missing must stop start-up, not a request.
            self._pool.FindFileByName(file.name)

    def read(self, path: list[str], body: bytes) -> tuple[Value, bool]:
        """Return the first gRPC message of a body as protojson, and True if the body is cut off in
        it.

        `path` is `[service, method]`. The value is None for an empty body, an unknown or
        client-streaming method, a compressed message or a message that is cut. Raise
        RequestParseError for another path, less than 5 bytes or a malformed message.
        """
        if len(path) != 2:
            raise RequestParseError("invalid parsed path")
        if not body:
            return None, False
        if len(body) < 5:
            raise RequestParseError("less than 5 bytes")
        method = self._method(*path)
        # The flag of a gRPC message: 1 is compressed, and OPA-Envoy leaves those unparsed, too.
        if method is None or method.client_streaming or body[0] != 0:
            return None, False
        (length,) = struct.unpack_from(">I", body, 1)
        # Envoy sends the beginning of a long body: what is missing is told apart from malformed.
        if length > len(body) - 5:
            return None, True
        kind = message_factory.GetMessageClass(method.input_type)
        try:
            parsed = kind.FromString(body[5 : 5 + length])
        except message.DecodeError as error:
            reason = (
                "field contains invalid UTF-8"
                if "UTF-8" in str(error)
                else ("cannot parse invalid wire-format data")
            )
            raise RequestParseError(f"proto: {reason}") from None
        try:
            return _to_value(json_format.MessageToDict(parsed)), False
        except (json_format.Error, TypeError, ValueError) as error:
            raise RequestParseError(f"proto: {error}") from None

    def _method(self, service: str, name: str) -> Any:
        """Return the descriptor of a method; None if the service or the method is unknown."""
        try:
            descriptor = self._pool.FindServiceByName(service)
        except KeyError:
            return None
        return descriptor.methods_by_name.get(name)


def load_services(source: str) -> Services:
    """Return the services of a descriptor set in the file `source`, or in base64 after `base64:`.

    Raise OSError if the file cannot be read, ValueError if it is too large or not a descriptor set.
    """
    try:
        if source.startswith(_INLINE):
            return Services(base64.b64decode(source[len(_INLINE) :], validate=True))
        path = Path(source)
        if path.stat().st_size > MAX_DESCRIPTOR_SIZE:
            raise ValueError(
                f"the file of proto-descriptor is larger than {MAX_DESCRIPTOR_SIZE} bytes"
            )
        return Services(path.read_bytes())
    except (message.DecodeError, binascii.Error, TypeError, KeyError) as error:
        raise ValueError(
            "the file of proto-descriptor is not a descriptor set, as `protoc "
            f"--descriptor_set_out` writes it: {error}"
        ) from None


def _to_value(value: Any) -> Value:
    """Return protojson with its floats as exact JSON numbers."""
    if isinstance(value, dict):
        return {name: _to_value(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_to_value(item) for item in value]
    return json_float(value) if isinstance(value, float) else value
