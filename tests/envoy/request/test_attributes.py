"""The hand-written walk over a CheckRequest misses no field that the library knows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from envoy.service.auth.v2 import external_auth_pb2 as auth_v2
from envoy.service.auth.v3 import external_auth_pb2 as auth_v3
from google.protobuf.descriptor import FieldDescriptor as Field

from doorward.envoy.request import attributes, attributes_v2
from doorward.envoy.request.messages import parse_check

SAMPLES: dict[int, Any] = {
    Field.CPPTYPE_STRING: "text",
    Field.CPPTYPE_BOOL: True,
    Field.CPPTYPE_ENUM: 1,
}


def paths(descriptor: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every way from the message down to a scalar, through the first level of well-known types."""
    for field in descriptor.fields:
        here = (*before, field)
        kind = field.message_type
        if kind is None or kind.GetOptions().map_entry or kind.full_name.startswith("google."):
            yield here
        else:
            yield from paths(kind, here)


def fill(message: Any, path: tuple[Any, ...]) -> None:
    """Sets the one field at the end of `path`."""
    for field in path[:-1]:
        value = getattr(message, field.name)
        message = value.add() if field.is_repeated else value
    field = path[-1]
    kind = field.message_type
    if kind is None:
        sample = b"bytes" if field.type == Field.TYPE_BYTES else SAMPLES.get(field.cpp_type, 7)
        setattr(message, field.name, sample)
    elif not kind.GetOptions().map_entry:
        getattr(message, field.name).seconds = 7
    elif kind.fields_by_name["value"].message_type is None:
        getattr(message, field.name)["text"] = "text"
    else:
        getattr(message, field.name)["text"].SetInParent()


def walked(request: auth_v3.CheckRequest) -> Any:
    """What the policy sees of the attributes, once the request has been on the wire."""
    return attributes.to_attributes(parse_check(request.SerializeToString()).attributes)


V3_ATTRIBUTES = auth_v3.CheckRequest.DESCRIPTOR.fields_by_name["attributes"].message_type
V3 = list(paths(V3_ATTRIBUTES))
V2 = list(paths(auth_v2.CheckRequest.DESCRIPTOR.fields_by_name["attributes"].message_type))


@pytest.mark.parametrize("path", V3, ids=lambda path: ".".join(f.name for f in path))
def test_every_field_is_walked(path: tuple[Any, ...]) -> None:
    request = auth_v3.CheckRequest()
    fill(request.attributes, path)
    attributes = json.dumps(walked(request))
    for field in path:
        assert f'"{field.json_name}"' in attributes


@pytest.mark.parametrize("path", V2, ids=lambda path: ".".join(f.name for f in path))
def test_every_v2_field_is_walked(path: tuple[Any, ...]) -> None:
    request = auth_v2.CheckRequest()
    fill(request.attributes, path)
    attributes = json.dumps(attributes_v2.to_attributes(request.attributes))
    for field in path:
        inside_oneof = field.containing_oneof is not None
        name = "".join(word.capitalize() for word in field.name.split("_"))
        assert f'"{name if inside_oneof else field.name}"' in attributes


def test_a_port_of_zero_is_there_when_it_was_set() -> None:
    request = auth_v3.CheckRequest()
    request.attributes.source.address.socket_address.port_value = 0
    assert walked(request)["source"] == {"address": {"socketAddress": {"portValue": 0}}}


@pytest.mark.parametrize("field", [field.name for field in V3_ATTRIBUTES.fields])
def test_what_is_there_and_empty_is_an_empty_object(field: str) -> None:
    request = auth_v3.CheckRequest()
    before = getattr(request.attributes, field)
    if not hasattr(before, "SetInParent"):
        return
    before.SetInParent()
    assert list(walked(request).values()) == [{}]
    assert walked(auth_v3.CheckRequest()) == {}


def test_every_value_of_a_map_is_there() -> None:
    request = auth_v3.CheckRequest()
    wanted = {"a": "1", "b": "2", "": ""}
    request.attributes.context_extensions.update(wanted)
    for name in wanted:
        request.attributes.metadata_context.filter_metadata[name]["value"] = name
    attributes = walked(request)
    assert attributes["contextExtensions"] == wanted
    assert attributes["metadataContext"]["filterMetadata"] == {
        name: {"value": name} for name in wanted
    }


def test_a_v2_address_of_nothing_is_null() -> None:
    request = auth_v2.CheckRequest()
    request.attributes.source.address.SetInParent()
    assert attributes_v2.to_attributes(request.attributes) == {
        "source": {"address": {"Address": None}}
    }
