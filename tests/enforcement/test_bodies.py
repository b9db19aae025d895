"""JSON, gRPC and limits of bodies, beyond the recorded rows."""

from __future__ import annotations

import struct

import pytest
from google.protobuf import descriptor_pb2

from doorward.enforcement.bodies import MAX_DEPTH, parse_body, parse_json
from doorward.enforcement.errors import RequestParseError
from doorward.envoy.request.descriptors import Services, load_services
from doorward.rego.golang.json_decoder import MAX_EXPLAINED
from doorward.rego.json_text import from_json
from doorward.rego.values import Value, to_json

GRPC = {"content-type": "application/grpc"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":1} null', {"a": 1}),
        ("1 null ", 1),
        ('"\\ud800"', "\ufffd"),
        ('{"\\udc00":["\\ud83d\\ude00"]}', {"\ufffd": ["\U0001f600"]}),
        (b'"\xff"', "\ufffd"),
    ],
)
def test_json_that_only_go_accepts_is_read_as_go_reads_it(text: str | bytes, value: Value) -> None:
    assert parse_json(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "EOF"),
        ("{", "unexpected EOF"),
        ("[1 2]", "invalid character '2' after array element"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
        ("nul1", "invalid character '1' in literal null (expecting 'l')"),
        ("-x", "invalid character 'x' in numeric literal"),
        ("1.x", "invalid character 'x' after decimal point in numeric literal"),
        ("1ex", "invalid character 'x' in exponent of numeric literal"),
        ("1 [", "error: invalid character '[' after top-level value"),
        ("1 1.5", "error: invalid character '1.5' after top-level value"),
        ("1 x", "invalid character 'x' looking for beginning of value"),
        ("1 ,", "invalid character ',' looking for beginning of value"),
        ("NaN", "invalid character 'N' looking for beginning of value"),
        ("1e99999", "number exponent is out of range"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "JSON is nested too deeply"),
        ('{"a":' * 100_000, "JSON is nested too deeply"),
    ],
)
def test_what_is_no_json_is_refused_in_gos_words(text: str, message: str) -> None:
    with pytest.raises(RequestParseError) as raised:
        parse_json(text)
    assert str(raised.value) == message


def test_brackets_within_strings_do_not_count_as_depth() -> None:
    text = '["' + "[{" * MAX_DEPTH + '\\""]'
    assert parse_json(text) == from_json(text)
    wide = "[" + ",".join(["[]"] * 2 * MAX_DEPTH) + "]"
    assert parse_json(wide) == from_json(wide)


def descriptor_set() -> bytes:
    """One service with a unary method over a message of a string and a double."""
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto3")
    message = file.message_type.add(name="M")
    field = descriptor_pb2.FieldDescriptorProto
    for number, (name, kind) in enumerate(
        [("some_text", field.TYPE_STRING), ("f", field.TYPE_DOUBLE), ("n", field.TYPE_INT64)], 1
    ):
        message.field.add(name=name, number=number, type=kind, label=field.LABEL_OPTIONAL)
    message.field.add(
        name="again", number=4, type=field.TYPE_MESSAGE, type_name=".t.M",
        label=field.LABEL_REPEATED,
    )  # fmt: skip
    file.service.add(name="S").method.add(name="Do", input_type=".t.M", output_type=".t.M")
    encoded: bytes = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    return encoded


def frame(message: bytes, *, flag: int = 0, length: int | None = None) -> bytes:
    return struct.pack(">BI", flag, len(message) if length is None else length) + message


def read(body: bytes, path: list[str] | None = None) -> tuple[Value, bool]:
    return parse_body(GRPC, "", body, path or ["t.S", "Do"], Services(descriptor_set()))


def test_grpc_messages_are_protojson_with_gos_numbers() -> None:
    message = b"\x0a\x01x" + b"\x11" + struct.pack("<d", 1e6) + b"\x18\x05" + b"\x22\x03\x0a\x01y"
    value, truncated = read(frame(message))
    assert not truncated
    assert to_json(value) == '{"again":[{"someText":"y"}],"f":1000000,"n":"5","someText":"x"}'


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"\0\0\0\0", "less than 5 bytes"),
        (frame(b"\xff"), "proto: cannot parse invalid wire-format data"),
        (frame(b"\x22\x00" + b"\x22\xff\x01" * 3), "proto: cannot parse invalid wire-format data"),
    ],
)
def test_grpc_bodies_that_cannot_be_read_are_refused(body: bytes, message: str) -> None:
    with pytest.raises(RequestParseError) as raised:
        read(body)
    assert str(raised.value) == message


def test_grpc_bodies_that_are_not_read() -> None:
    assert read(frame(b"", flag=1)) == (None, False)
    assert read(frame(b"", length=9)) == (None, True)
    assert read(frame(b""), ["t.T", "Do"]) == (None, False)
    assert parse_body(GRPC, "", frame(b""), ["t.S", "Do"], None) == (None, False)


def test_a_text_that_is_no_descriptor_set_is_an_error() -> None:
    with pytest.raises(ValueError, match="not a descriptor set"):
        load_services("base64:////")
    with pytest.raises(ValueError, match="not a descriptor set"):
        load_services("base64:!")
    with pytest.raises(OSError, match="No such file"):
        load_services("/no/such/file")


def test_long_texts_are_refused_without_an_explanation() -> None:
    with pytest.raises(RequestParseError, match=r"^invalid JSON$"):
        parse_json('["' + "x" * MAX_EXPLAINED)


def test_a_multipart_body_without_a_boundary_is_not_read() -> None:
    assert parse_body({"content-type": "multipart/form-data"}, "x", b"", [""], None) == (
        None,
        False,
    )


def test_an_empty_grpc_body_is_not_read() -> None:
    assert Services(descriptor_set()).read(["t.S", "Do"], b"") == (None, False)
