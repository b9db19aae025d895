"""CheckRequest bytes become a message of which only what each request has of its own is parsed.

Envoy's own classes make an object of each message that is looked at, and most of them are the same
from one request to the next. So the attributes are declared here once more, on the same wire, with
the peers, the metadata and the TLS session left as the bytes that they came in: who walks them
remembers them by these, or sees at once that they are empty. The request itself is Envoy's type.

The declaration is made of Envoy's, so that it has every field that the library knows. What it
leaves out: of a peer or metadata that comes in several pieces, which the wire format would merge
and no encoder makes, the last counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from envoy.service.auth.v3 import attribute_context_pb2
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

__all__ = ["parse_check"]

_PACKAGE: Final = "doorward.envoy"
_THEIRS: Final = attribute_context_pb2.AttributeContext.DESCRIPTOR
_READ_AS_BYTES: Final = (
    "source",
    "destination",
    "metadata_context",
    "route_metadata_context",
    "tls_session",
)
_Field: Final = descriptor_pb2.FieldDescriptorProto


def _declaration() -> descriptor_pb2.FileDescriptorProto:
    """Return a descriptor like Envoy's CheckRequest that keeps five fields as undecoded bytes.

    They are `optional`, so that an empty field differs from a missing one.
    """
    file = descriptor_pb2.FileDescriptorProto(
        name="doorward/envoy/check.proto",
        package=_PACKAGE,
        syntax="proto3",
        dependency=[_THEIRS.file.name],
    )
    attributes = file.message_type.add(name="Attributes")
    theirs = descriptor_pb2.DescriptorProto()
    _THEIRS.CopyToProto(theirs)
    attributes.field.extend(theirs.field)
    for field in attributes.field:
        if field.name in _READ_AS_BYTES:
            # "Optional" tells one that is empty from one that is not there, as with a message.
            field.oneof_index = len(attributes.oneof_decl)
            attributes.oneof_decl.add(name=f"_{field.name}")
            field.proto3_optional = True
            field.type = _Field.TYPE_BYTES
            field.ClearField("type_name")
    for entry in theirs.nested_type:
        if entry.options.map_entry:
            # A map is one by a type within its own message.
            attributes.nested_type.append(entry)
            for field in attributes.field:
                if field.type_name == f".{_THEIRS.full_name}.{entry.name}":
                    field.type_name = f".{_PACKAGE}.Attributes.{entry.name}"
    check = file.message_type.add(name="Check")
    check.field.add(
        name="attributes",
        number=1,
        type=_Field.TYPE_MESSAGE,
        label=_Field.LABEL_OPTIONAL,
        type_name=f".{_PACKAGE}.Attributes",
    )
    return file


def _parser() -> Callable[[bytes], Any]:
    """Return the function that decodes a CheckRequest, with five fields left as bytes
    (`_declaration`); registers the declaration in protobuf's pool.
    """
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(_declaration().SerializeToString())
    descriptor = pool.FindMessageTypeByName(f"{_PACKAGE}.Check")
    return message_factory.GetMessageClass(descriptor).FromString


parse_check: Final = _parser()
"""Decodes a serialized CheckRequest of v3; raises google.protobuf's DecodeError if it is
malformed."""
