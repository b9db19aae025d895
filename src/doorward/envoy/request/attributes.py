"""A CheckRequest's attributes become the `attributes` object of `input`, v3.

Only what is set appears, under the proto JSON names, as opa-envoy-plugin does it: this is not
protojson (64-bit integers are numbers, a Timestamp is an object, enums are numbers). The walk is
written by hand, field by field, because it is the largest part of a decision's time; a field that
Envoy adds has to be added here, and `test_every_field_is_walked` says so.
"""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import Any, Final

from envoy.config.core.v3 import base_pb2
from envoy.service.auth.v3 import attribute_context_pb2
from google.protobuf import struct_pb2

from doorward.rego import Value
from doorward.rego.golang import from_float
from doorward.rego.shared import Key

__all__ = ["from_struct_value", "to_attributes"]

Object = dict[Key, Value]

MAX_REMEMBERED: Final = 4096
"""The largest serialized `Peer`, in bytes, whose object is cached; those with certificates are
longer."""

_to_metadata: Final = base_pb2.Metadata.FromString
_to_peer: Final = attribute_context_pb2.AttributeContext.Peer.FromString
_to_tls_session: Final = attribute_context_pb2.AttributeContext.TLSSession.FromString


def to_attributes(attributes: Any) -> Object:
    """Return the object `input.attributes` for the attributes of `messages.parse_check`, with the
    names of protobuf's JSON and without empty fields. The objects of `source` and `destination` are
    shared with other requests and must not be changed.

    Raise google.protobuf's DecodeError if a part that was left as bytes is not a message.
    """
    out: Object = {}
    has = attributes.HasField
    # What is not empty is there, and need not be asked about.
    encoded: bytes
    if (encoded := attributes.source) or has("source"):
        out["source"] = _from_peer(encoded)
    if (encoded := attributes.destination) or has("destination"):
        out["destination"] = _from_peer(encoded)
    request = attributes.request
    request_part: Object = {}
    if (time := _from_time(request.time)) or request.HasField("time"):
        request_part["time"] = time
    if (http := _from_http(request.http)) or request.HasField("http"):
        request_part["http"] = http
    if request_part or has("request"):
        out["request"] = request_part
    if attributes.context_extensions:
        out["contextExtensions"] = dict(attributes.context_extensions)
    if has("metadata_context"):
        encoded = attributes.metadata_context
        out["metadataContext"] = _from_metadata(_to_metadata(encoded)) if encoded else {}
    if has("route_metadata_context"):
        encoded = attributes.route_metadata_context
        out["routeMetadataContext"] = _from_metadata(_to_metadata(encoded)) if encoded else {}
    if has("tls_session"):
        sni = _to_tls_session(attributes.tls_session).sni
        out["tlsSession"] = {"sni": sni} if sni else {}
    return out


def _from_peer(encoded: bytes) -> Object:
    """Return the object for a serialized `Peer`: `address`, `service`, `labels`, `principal` and
    `certificate`, without empty ones. DecodeError if it is malformed.

    Results for small messages are cached, since all requests of a connection have the same two: the
    result is shared and must not be changed.
    """
    return _cached_peer(encoded) if len(encoded) <= MAX_REMEMBERED else _decode_peer(encoded)


def _decode_peer(encoded: bytes) -> Object:
    """Return the object for a serialized `Peer`, without empty fields; raise DecodeError if it is
    malformed.
    """
    peer: Any = _to_peer(encoded)
    out: Object = {}
    if peer.HasField("address"):
        out["address"] = _from_address(peer.address)
    if service := peer.service:
        out["service"] = service
    if peer.labels:
        out["labels"] = dict(peer.labels)
    if principal := peer.principal:
        out["principal"] = principal
    if certificate := peer.certificate:
        out["certificate"] = certificate
    return out


_cached_peer: Final = lru_cache(maxsize=1024)(_decode_peer)


def _from_address(address: Any) -> Object:
    """Return an `Address` as `{"socketAddress": {…}}`, `{"pipe": {…}}` or `{"envoyInternalAddress":
    {…}}`; {} if it has no kind.
    """
    kind = address.WhichOneof("address")
    if kind == "socket_address":
        return {"socketAddress": _from_socket_address(address.socket_address)}
    if kind == "pipe":
        return {"pipe": _from_pipe(address.pipe)}
    if kind == "envoy_internal_address":
        return {"envoyInternalAddress": _from_internal_address(address.envoy_internal_address)}
    return {}


def _from_socket_address(socket: Any) -> Object:
    """Return the object for a `SocketAddress`, without empty fields; a port that is set to 0 is
    included.
    """
    out: Object = {}
    if protocol := socket.protocol:
        out["protocol"] = protocol
    if address := socket.address:
        out["address"] = address
    # In a oneof: set is set, even to zero.
    if port := socket.port_value:
        out["portValue"] = port
    elif specifier := socket.WhichOneof("port_specifier"):
        if specifier == "port_value":
            out["portValue"] = 0
        else:
            out["namedPort"] = socket.named_port
    if resolver := socket.resolver_name:
        out["resolverName"] = resolver
    if socket.ipv4_compat:
        out["ipv4Compat"] = True
    if namespace := socket.network_namespace_filepath:
        out["networkNamespaceFilepath"] = namespace
    return out


def _from_pipe(pipe: Any) -> Object:
    """Return the object for a `Pipe` (a Unix socket), without empty fields."""
    out: Object = {}
    if path := pipe.path:
        out["path"] = path
    if mode := pipe.mode:
        out["mode"] = mode
    return out


def _from_internal_address(internal: Any) -> Object:
    """Return the object for an internal address of Envoy, without fields that are not set."""
    out: Object = {}
    if internal.HasField("server_listener_name"):
        out["serverListenerName"] = internal.server_listener_name
    if endpoint := internal.endpoint_id:
        out["endpointId"] = endpoint
    return out


def _from_time(time: Any) -> Object:
    """Return the object for a `Timestamp`: `seconds` and `nanos`, each left out if it is 0."""
    out: Object = {}
    if seconds := time.seconds:
        out["seconds"] = seconds
    if nanos := time.nanos:
        out["nanos"] = nanos
    return out


def _from_http(http: Any) -> Object:
    """Return the object for an `HttpRequest`, without empty fields; `rawBody` is in base64."""
    out: Object = {}
    if identifier := http.id:
        out["id"] = identifier
    if method := http.method:
        out["method"] = method
    # `dict(headers)` would go through the keys in Python, one call for each.
    headers = http.headers
    if headers:
        out["headers"] = copied = Object()
        for name in headers:
            copied[name] = headers[name]
    if http.HasField("header_map"):
        out["headerMap"] = _from_header_map(http.header_map)
    if path := http.path:
        out["path"] = path
    if host := http.host:
        out["host"] = host
    if scheme := http.scheme:
        out["scheme"] = scheme
    if query := http.query:
        out["query"] = query
    if fragment := http.fragment:
        out["fragment"] = fragment
    if size := http.size:
        out["size"] = size
    if protocol := http.protocol:
        out["protocol"] = protocol
    if body := http.body:
        out["body"] = body
    if raw_body := http.raw_body:
        # In base64, as OPA-Envoy's JSON has all bytes.
        out["rawBody"] = base64.b64encode(raw_body).decode("ascii")
    return out


def _from_header_map(header_map: Any) -> Object:
    """Return a header map as `{"headers": [{"key": …, "value": …, "rawValue": …}, …]}`, in which
    raw values are in base64 and empty fields are left out; {} if it has no header.
    """
    headers: list[Value] = []
    for header in header_map.headers:
        out: Object = {}
        if key := header.key:
            out["key"] = key
        if value := header.value:
            out["value"] = value
        if raw_value := header.raw_value:
            out["rawValue"] = base64.b64encode(raw_value).decode("ascii")
        headers.append(out)
    return {"headers": headers} if headers else {}


def _from_metadata(metadata: Any) -> Object:
    """Return a `Metadata` as `{"filterMetadata": {FILTER: {…}}, "typedFilterMetadata": {FILTER:
    {…}}}`, without an empty one: structs are plain objects, an `Any` has type URL and base64.
    """
    out: Object = {}
    if metadata.filter_metadata:
        out["filterMetadata"] = {
            name: {key: from_struct_value(value) for key, value in struct.fields.items()}
            for name, struct in metadata.filter_metadata.items()
        }
    if metadata.typed_filter_metadata:
        out["typedFilterMetadata"] = {
            name: _from_any(value) for name, value in metadata.typed_filter_metadata.items()
        }
    return out


def _from_any(packed: Any) -> Object:
    """Return a packed `Any` as `{"typeUrl": …, "value": …}`, the bytes in base64; empty fields are
    left out.
    """
    out: Object = {}
    if packed.type_url:
        out["typeUrl"] = packed.type_url
    if packed.value:
        out["value"] = base64.b64encode(packed.value).decode("ascii")
    return out


def from_struct_value(value: struct_pb2.Value) -> Value:
    """Return the plain value of a `google.protobuf.Value`, at any depth; None (null) if no kind is
    set.
    """
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return value.string_value
    if kind == "number_value":
        return from_float(value.number_value)
    if kind == "bool_value":
        return value.bool_value
    if kind == "struct_value":
        return {key: from_struct_value(item) for key, item in value.struct_value.fields.items()}
    if kind == "list_value":
        return [from_struct_value(item) for item in value.list_value.values]
    return None
