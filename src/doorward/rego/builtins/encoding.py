"""Encodings: base64, hex, JSON, URL queries, URIs, YAML.

Declares and checks; how Go writes each format is in `doorward.rego.golang`. Strings are bytes here
(`golang.octets`). Bounds: JSON nesting (what Python's stack can follow, about 1,000 levels), the
indentation of `json.marshal_with_options` (`MAX_INDENT` characters each), YAML's size and alias
expansion (`golang.yaml`).
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterable
from typing import Final

from doorward.rego.builtins.inversion import inverse
from doorward.rego.builtins.registry import builtin
from doorward.rego.builtins.registry.context import Context
from doorward.rego.builtins.registry.signature import (
    ObjectType,
    any_,
    any_of,
    array,
    boolean,
    object_,
    set_,
    string,
)
from doorward.rego.errors import BuiltinError, LimitError, OperandError
from doorward.rego.golang import base64
from doorward.rego.golang import json as go_json
from doorward.rego.golang import urls as go_url
from doorward.rego.golang import yaml as go_yaml
from doorward.rego.golang.octets import from_bytes, scrub, to_bytes
from doorward.rego.values import Key, Value, from_key, json_key, kind_name, sorted_keys, to_rego

MAX_WHITE: Final = 16 * 1024 * 1024
"""The most characters that json.marshal_with_options may write as indentation."""

MAX_INDENT: Final = 64
"""The most characters of `indent` and `prefix` in json.marshal_with_options."""


@builtin("base64.encode", string, returns=string, inverse=inverse("base64_encode"))
def base64_encode(x: str) -> str:
    """The bytes of `x` in standard base64, padded."""
    return base64.encode(to_bytes(x))


@builtin("base64.decode", string, returns=string, inverse=inverse("base64_decode"))
def base64_decode(x: str) -> str:
    """The string whose standard base64 is `x`; line ends in it do not count. Invalid base64, or
    missing padding, is an error.
    """
    return from_bytes(base64.decode(x))


@builtin(
    "base64.is_valid",
    string,
    returns=boolean,
    checked=False,
    inverse=inverse("valid", "YQ==", "~"),
)
def base64_is_valid(x: Value) -> bool:
    """Return true if `x` is a string that base64.decode can decode."""
    if not isinstance(x, str):
        return False
    return base64.is_valid(x)


@builtin("base64url.encode", string, returns=string, inverse=inverse("base64_encode"))
def base64url_encode(x: str) -> str:
    """The bytes of `x` in URL-safe base64, padded."""
    return base64.url_encode(to_bytes(x))


@builtin("base64url.encode_no_pad", string, returns=string, inverse=inverse("base64_encode"))
def base64url_encode_no_pad(x: str) -> str:
    """The bytes of `x` in URL-safe base64 without padding."""
    return base64.url_encode(to_bytes(x)).rstrip("=")


@builtin("base64url.decode", string, returns=string, inverse=inverse("base64_decode"))
def base64url_decode(x: str) -> str:
    """The string that the URL-safe base64 text `x` encodes, with or without padding. Invalid base64
    is an error.
    """
    if x.isalnum():
        try:
            # Nothing to translate, nothing to refuse: the common case at half the price.
            return binascii.a2b_base64(x + "==="[: -len(x) % 4], strict_mode=True).decode()
        except ValueError:
            pass
    return from_bytes(base64.url_decode(x))


@builtin("hex.encode", string, returns=string, inverse=inverse("hex_encode"))
def hex_encode(x: str) -> str:
    """The bytes of `x` as lower-case hexadecimal digits."""
    return to_bytes(x).hex()


@builtin("hex.decode", string, returns=string, inverse=inverse("hex_decode"))
def hex_decode(x: str) -> str:
    """The string whose bytes `x` spells in hexadecimal digits, upper or lower case. Another
    character, or an odd number of digits, is an error.
    """
    octets = to_bytes(x)
    bad = re.search(rb"[^0-9A-Fa-f]", octets)
    if bad:
        code = bad[0][0]
        character = chr(code)
        quoted = f" '{character}'" if character.isprintable() else ""
        raise BuiltinError(f"encoding/hex: invalid byte: U+{code:04X}{quoted}")
    if len(octets) % 2:
        raise BuiltinError("encoding/hex: odd length hex string")
    return from_bytes(binascii.unhexlify(octets))


@builtin("json.marshal", any_, returns=string, checks_deadline=True, inverse=inverse("marshal"))
def json_marshal(x: Value) -> str:
    """The compact JSON text of `x`; sets become arrays, keys that are not strings their text."""
    return go_json.marshal(x)


_MARSHAL_OPTIONS: Final = ObjectType(
    fields=(("pretty", boolean), ("indent", string), ("prefix", string)), rest=(string, any_)
)


@builtin(
    "json.marshal_with_options",
    any_,
    _MARSHAL_OPTIONS,
    returns=string,
    checks_deadline=True,
    inverse=inverse("marshal"),
)
def json_marshal_with_options(x: Value, opts: dict[Key, Value]) -> str:
    """`x` as JSON text: on several lines if the option `pretty` is true, or if it is absent and
    `indent` or `prefix` is given; otherwise compact. An unknown option, or one of the wrong kind,
    is an error. LimitError for an `indent` or `prefix` of more than `MAX_INDENT` characters, or
    more than `MAX_WHITE` characters of indentation.
    """
    texts = {"indent": "\t", "prefix": ""}
    pretty = "indent" in opts or "prefix" in opts
    for position, key in enumerate(sorted_keys(opts)):
        option = opts[key]
        if type(key) is not str:
            kind = kind_name(from_key(key))
            raise OperandError(
                f"operand 2 failed to stringify key {to_rego(from_key(key))} at index {position}: "
                f"operand 0 must be string but got {kind}"
            )
        if key == "pretty":
            if not isinstance(option, bool):
                raise OperandError('operand 2 key "pretty" failed cast to bool')
            pretty = option
        elif key in texts:
            texts[key] = _marshal_text(key, option)
        else:
            raise OperandError(f'operand 2 object contained unknown key "{scrub(key)}"')
    compact = go_json.marshal(x)
    if not pretty:
        return compact
    return texts["prefix"] + go_json.indent(compact, texts["prefix"], texts["indent"], MAX_WHITE)


def _marshal_text(key: str, option: Value) -> str:
    """Return the string of option `key` of json.marshal_with_options. OperandError if it is not a
    string, LimitError if it is longer than `MAX_INDENT`.
    """
    if not isinstance(option, str):
        raise OperandError(
            f'operand 2 key "{key}" failed cast to string: '
            # OPA's number for this operand.
            f"operand 0 must be string but got {kind_name(option)}"
        )
    if len(option) > MAX_INDENT:
        raise LimitError(f'operand 2 key "{key}" is longer than {MAX_INDENT} characters')
    return option


@builtin("json.unmarshal", string, returns=any_, checks_deadline=True, inverse=inverse("unmarshal"))
def json_unmarshal(x: str) -> Value:
    """The value of the JSON text `x`; numbers keep their text, of equal keys the last wins. Invalid
    JSON is an error; LimitError for JSON that nests too deeply or has a number that is too large.
    """
    return go_json.unmarshal(x)


@builtin(
    "json.is_valid",
    string,
    returns=boolean,
    checked=False,
    checks_deadline=True,
    inverse=inverse("valid", "{}", "{"),
)
def json_is_valid(x: Value) -> bool:
    """Return true if `x` is a string that holds one JSON text; false for other kinds. LimitError
    for a long text that nests deeper than Python's stack.
    """
    return isinstance(x, str) and go_json.is_valid(x)


@builtin(
    "urlquery.encode",
    string,
    returns=string,
    checks_deadline=True,
    inverse=inverse("query_encode"),
)
def urlquery_encode(x: str) -> str:
    """`x` escaped for use as a name or value in a URL query; a space becomes `+`."""
    return go_url.query_escape(x)


@builtin(
    "urlquery.decode",
    string,
    returns=string,
    checks_deadline=True,
    inverse=inverse("query_decode"),
)
def urlquery_decode(x: str) -> str:
    """`x` without its escapes: `+` becomes a space, `%xx` a byte. An invalid escape is an error."""
    return go_url.query_unescape(x)


MAX_QUERY: Final = 1 << 24
"""The most characters of a query that urlquery.encode_object writes; more is a LimitError."""

_QUERY_VALUE: Final = any_of(string, array(string), set_(string))


@builtin(
    "urlquery.encode_object",
    object_(string, _QUERY_VALUE),
    returns=string,
    context=True,
    inverse=inverse("encode_object"),
)
def urlquery_encode_object(context: Context, object: dict[Key, Value]) -> str:
    """The names and values of an object as a URL query string, sorted by name; each item of an
    array or set becomes a pair of its own. A value that is neither a string nor an array or set of
    strings is an error; LimitError for more than `MAX_QUERY` characters.
    """
    pairs: list[str] = []
    size = 0
    names = {json_key(key): object[key] for key in sorted_keys(object)}
    for name in sorted(names, key=to_bytes):
        for value in context.checked_iter(_query_values(names[name]), 1):
            pairs.append(f"{go_url.query_escape(name)}={go_url.query_escape(value)}")
            size += len(pairs[-1])
            if size > MAX_QUERY:
                raise LimitError(f"the encoded query is longer than {MAX_QUERY} characters")
    return "&".join(pairs)


def _query_values(value: Value) -> list[str]:
    """The values of one query parameter: a string alone, the items of an array, or a set's members
    in Rego's order. OperandError for another value, or if an item is not a string.
    """
    if isinstance(value, str):
        return [value]
    items: Iterable[Value] = ()
    if isinstance(value, list):
        items = value
    elif isinstance(value, frozenset):
        items = [from_key(key) for key in sorted_keys(value)]
    texts = [item for item in items if isinstance(item, str)]
    if not isinstance(value, (list, frozenset)) or len(texts) != len(value):
        raise OperandError("operand 1 values must be string, array[string], or set[string]")
    return texts


@builtin(
    "urlquery.decode_object",
    string,
    returns=object_(string, array(string)),
    checks_deadline=True,
    inverse=inverse("decode_object"),
)
def urlquery_decode_object(x: str) -> dict[str, list[str]]:
    """The names of a URL query, each with its values in order. An invalid escape, a semicolon, and
    too many pairs are errors.
    """
    return go_url.parse_query(x)


_URI: Final = ObjectType(rest=(string, string))


@builtin("uri.parse", string, returns=_URI, checks_deadline=True, inverse=inverse("uri_parse"))
def uri_parse(uri: str) -> dict[str, str]:
    """The parts that `uri` has of scheme, hostname, port, path, raw_path, raw_query, fragment. An
    invalid URI is an error.
    """
    return go_url.parse(uri)


@builtin(
    "uri.is_valid",
    string,
    returns=boolean,
    checked=False,
    checks_deadline=True,
    inverse=inverse("valid", "https://a/", "%"),
)
def uri_is_valid(uri: Value) -> bool:
    """Return true if `uri` is a string that uri.parse can read, and not empty; a relative reference
    is valid too.
    """
    if not isinstance(uri, str) or not uri:
        return False
    try:
        go_url.parse(uri)
    except BuiltinError:
        return False
    return True


@builtin("yaml.marshal", any_, returns=string, context=True, inverse=inverse("yaml_marshal"))
def yaml_marshal(context: Context, x: Value) -> str:
    """The YAML text of `x`, in blocks, keys sorted. A string that YAML cannot hold is an error;
    LimitError for a value that is too large.
    """
    return go_yaml.marshal(x, context.checked_iter, context.enforce_deadline)


@builtin("yaml.unmarshal", string, returns=any_, context=True, inverse=inverse("unmarshal"))
def yaml_unmarshal(context: Context, x: str) -> Value:
    """The value of the first document in the YAML text `x`; its keys become strings, further
    documents are ignored. Invalid YAML is an error; LimitError for a text beyond the limits of
    `golang.yaml` on size, aliases and nesting.
    """
    with context.enforce_deadline(len(x)):
        return go_yaml.unmarshal(x)


@builtin(
    "yaml.is_valid",
    string,
    returns=boolean,
    context=True,
    checked=False,
    inverse=inverse("valid", "{}", "{"),
)
def yaml_is_valid(context: Context, x: Value) -> bool:
    """Return true if `x` is a string that yaml.unmarshal can read; false for other kinds.
    LimitError for a text beyond the limits of `golang.yaml` on size, aliases and nesting.
    """
    if not isinstance(x, str):
        return False
    try:
        # A LimitError is not a BuiltinError: `not yaml.is_valid(x)` must not hold for a text that
        # is only too large.
        yaml_unmarshal(context, x)
    except BuiltinError:
        return False
    return True
