"""A CheckRequest's attributes become the `attributes` object of `input`, v2.

opa-envoy-plugin gave v2 messages to Go's JSON encoder as they were: proto names in snake case, and
oneofs under the names of Go's struct fields (`address.Address.SocketAddress.PortSpecifier…`), null
where nothing is set. Envoy dropped v2 in 2021; this is for what still sends it.
"""

from __future__ import annotations

from typing import Any

from doorward.rego import Value
from doorward.rego.golang import json_float
from doorward.rego.shared import Key

__all__ = ["to_attributes"]

Object = dict[Key, Value]


def to_attributes(attributes: Any) -> Object:
    """Return the object `input.attributes` for a v2 `AttributeContext` as OPA-Envoy shows it:
    without empty fields, with snake-case names except in addresses.
    """
    out: Object = {}
    for name in ("source", "destination"):
        if attributes.HasField(name):
            out[name] = _from_peer(getattr(attributes, name))
    if attributes.HasField("request"):
        out["request"] = _from_request(attributes.request)
    if attributes.context_extensions:
        out["context_extensions"] = dict(attributes.context_extensions)
    if attributes.HasField("metadata_context"):
        out["metadata_context"] = _from_metadata(attributes.metadata_context)
    return out


def _plain(message: Any, *names: str) -> Object:
    """Return the named scalar fields of a message that are not at their default value."""
    out: Object = {}
    for name in names:
        value = getattr(message, name)
        if value:
            out[name] = value
    return out


def _from_peer(peer: Any) -> Object:
    """Return a peer of the v2 API as OPA-Envoy shows it: `service`, `principal`, `certificate`,
    `labels`, and `address` as `{"Address": …}`; only fields that are set.
    """
    out = _plain(peer, "service", "principal", "certificate")
    if peer.HasField("address"):
        out["address"] = {"Address": _from_address(peer.address)}
    if peer.labels:
        out["labels"] = dict(peer.labels)
    return out


def _from_address(address: Any) -> Value:
    """Return an `Address` as `{"SocketAddress": {…}}` or `{"Pipe": {…}}`, Go's names; None if it
    has no kind.
    """
    kind = address.WhichOneof("address")
    if kind == "socket_address":
        return {"SocketAddress": _from_socket_address(address.socket_address)}
    if kind == "pipe":
        return {"Pipe": _plain(address.pipe, "path", "mode")}
    return None


def _from_socket_address(socket: Any) -> Object:
    """Return the object for a `SocketAddress`; `PortSpecifier` is always there, as `{"PortValue":
    …}` or `{"NamedPort": …}`, null without a port.
    """
    out = _plain(socket, "protocol", "address", "resolver_name", "ipv4_compat")
    kind = socket.WhichOneof("port_specifier")
    port: Value = None
    if kind == "port_value":
        port = {"PortValue": socket.port_value}
    elif kind == "named_port":
        port = {"NamedPort": socket.named_port}
    out["PortSpecifier"] = port
    return out


def _from_request(request: Any) -> Object:
    """Return the request as `{"time": {…}, "http": {…}}`: only those that are set, without empty
    fields.
    """
    out: Object = {}
    if request.HasField("time"):
        out["time"] = _plain(request.time, "seconds", "nanos")
    if request.HasField("http"):
        http = request.http
        fields = _plain(
            http, "id", "method", "path", "host", "scheme", "query", "fragment", "size", "protocol",
            "body",
        )  # fmt: skip
        if http.headers:
            fields["headers"] = dict(http.headers)
        out["http"] = fields
    return out


def _from_metadata(metadata: Any) -> Object:
    """Return the filter metadata of the v2 API as OPA-Envoy shows it, `{"filter_metadata": {FILTER:
    {…}}}`; {} if there is none.
    """
    if not metadata.filter_metadata:
        return {}
    structs = metadata.filter_metadata.items()
    return {"filter_metadata": {name: _from_struct(struct) for name, struct in structs}}


def _from_struct(struct: Any) -> Object:
    return {name: _from_value(value) for name, value in struct.fields.items()}


def _from_value(value: Any) -> Value:
    """Return the plain value of a `google.protobuf.Value`; None (null) if no kind is set."""
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return _from_struct(value.struct_value)
    if kind == "list_value":
        return [_from_value(item) for item in value.list_value.values]
    if kind == "number_value":
        return json_float(value.number_value)
    return getattr(value, kind) if kind in ("string_value", "bool_value") else None
