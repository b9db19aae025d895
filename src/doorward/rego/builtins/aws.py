"""Requests signed for AWS (Signature Version 4), the way `http.send` takes them.

A request object goes in, the same with an `Authorization` header comes out. No I/O; the time is
an operand. The secret key is in no error.
"""

from __future__ import annotations

import hashlib
import hmac
from datetime import datetime, timedelta
from typing import Final

from doorward.rego.builtins.http import check_fields
from doorward.rego.builtins.registry import builtin, operand_error
from doorward.rego.builtins.registry.signature import any_, number, object_, string
from doorward.rego.errors import OperandError
from doorward.rego.golang import json as go_json
from doorward.rego.golang import urls as go_url
from doorward.rego.golang.octets import to_bytes
from doorward.rego.numbers import AnyNumber, integer_of
from doorward.rego.values import Key, Value, make_set, to_rego

Object = dict[Key, Value]

_SCHEME: Final = "AWS4-HMAC-SHA256"
_UNSIGNED: Final = frozenset({"authorization", "user-agent", "x-amzn-trace-id"})
_CONTENT_IN_HEADER: Final = frozenset({"s3", "glacier"})
_CONFIG: Final = ("aws_access_key", "aws_region", "aws_secret_access_key", "aws_service")


_WRONG_CONFIG: Final = "operand 2 {} AWS config parameters(s): {}"


def _refuse(request: Value, aws_config: Value, time_ns: Value) -> None:
    """Raise OperandError for the wrong operand of a signing call whose operand check failed. OPA
    checks the configuration (operand 2) first, and calls it operand 1 if it is not an object.
    Returns None if `request` is not an object or no problem is found; the registry then reports its
    own error.
    """
    if not isinstance(request, dict):
        return
    if isinstance(aws_config, dict):
        _texts(aws_config, _CONFIG, _WRONG_CONFIG)
    else:
        raise operand_error(1, aws_config, "object")


@builtin(
    "providers.aws.sign_req",
    object_(string, any_),
    object_(string, any_),
    number,
    returns=object_(any_, any_),
    refuse=_refuse,
)
def providers_aws_sign_req(request: Object, aws_config: Object, time_ns: AnyNumber) -> Object:
    """The request with the headers that sign it, as of `time_ns` nanoseconds since the epoch:
    Authorization, host, x-amz-date, for s3 and glacier the digest of the body, and the session
    token if `aws_config` has one. With `disable_payload_signing` in `aws_config` the body is not
    signed. A header that is not a string is the empty one. A missing field or one of another kind,
    a field that no request of http.send has, an invalid URL, and a time that is not an integer of
    64 bits are errors.
    """
    access_key, region, secret, service = _texts(aws_config, _CONFIG, _WRONG_CONFIG)
    stamp = _stamp(time_ns)
    request_headers = _headers(check_fields(request))
    method, url = _texts(request, ("method", "url"), "operand 1 {} request parameters(s): {}")
    parts = go_url.split(url)
    unsigned = aws_config.get("disable_payload_signing", False)
    if not isinstance(unsigned, bool):
        raise OperandError("operand 2 invalid value for 'disable_payload_signing' in AWS config")
    digest = "UNSIGNED-PAYLOAD" if unsigned else hashlib.sha256(_body(request)).hexdigest()
    added = {"host": parts.host, "x-amz-date": stamp}
    if service in _CONTENT_IN_HEADER:
        added["x-amz-content-sha256"] = digest
    token = aws_config.get("aws_session_token")
    if isinstance(token, str) and token:
        added["x-amz-security-token"] = token
    signed = {
        **added,
        **{k.lower(): v for k, v in request_headers.items() if k.lower() not in _UNSIGNED},
    }
    names = sorted(signed)
    canonical = "\n".join(
        [
            method,  # as it is: OPA does not change its case
            parts.escaped_path,
            parts.raw_query,
            *[f"{name}:{signed[name]}" for name in names],
            "",
            ";".join(names),
            digest,
        ]
    )
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    hashed = hashlib.sha256(to_bytes(canonical)).hexdigest()
    key = _signing_key(secret, stamp[:8], region, service)
    signature = _mac(key, f"{_SCHEME}\n{stamp}\n{scope}\n{hashed}").hex()
    authorization = (
        f"{_SCHEME} Credential={access_key}/{scope},"
        f"SignedHeaders={';'.join(names)},Signature={signature}"
    )
    headers: Object = {}
    headers.update({**request_headers, **added, "Authorization": authorization})
    return {**request, "headers": headers}


def _texts(fields: Object, names: tuple[str, ...], message: str) -> list[str]:
    """The string values of `names` in an object, in that order. OperandError, made from `message`,
    names all fields that are missing; if none is, it names those that are not strings.
    """
    missing = [name for name in names if name not in fields]
    if missing:
        raise OperandError(message.format("missing required", to_rego(make_set(missing))))
    values = [fields[name] for name in names]
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) != len(names):
        pairs = zip(names, values, strict=True)
        wrong = [name for name, value in pairs if not isinstance(value, str)]
        raise OperandError(message.format("invalid values for required", to_rego(make_set(wrong))))
    return texts


def _stamp(time_ns: AnyNumber) -> str:
    """Format nanoseconds since the epoch as ISO 8601 basic time in UTC, such as 20240131T120000Z;
    fractions of a second are cut off. OperandError if the time is not an integer of 64 bits.
    """
    nanoseconds = integer_of(time_ns)
    if nanoseconds is None or not -(1 << 63) <= nanoseconds < 1 << 63:
        raise OperandError("operand 3 could not convert time_ns value into a unix timestamp")
    moment = datetime(1970, 1, 1) + timedelta(seconds=nanoseconds // 1_000_000_000)
    return moment.strftime("%Y%m%dT%H%M%SZ")


def _body(request: Object) -> bytes:
    """The bytes to sign: `raw_body` if the request has it (no bytes if it is not a string),
    otherwise `body` as JSON, otherwise no bytes.
    """
    if "raw_body" in request:
        raw = request["raw_body"]
        return to_bytes(raw) if isinstance(raw, str) else b""
    return to_bytes(go_json.marshal(request["body"])) if "body" in request else b""


def _headers(request: Object) -> dict[str, str]:
    """The request's headers by name as they are spelled; what is not a string, a name too, is "".
    OperandError for `headers` that are not an object.
    """
    headers = request.get("headers", {})
    if not isinstance(headers, dict):
        raise operand_error(0, headers, "object")
    return {
        key if type(key) is str else "": value if isinstance(value, str) else ""
        for key, value in headers.items()
    }


def _mac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, to_bytes(text), "sha256")


def _signing_key(secret: str, date: str, region: str, service: str) -> bytes:
    """Derive the key of AWS Signature Version 4 for a date, region and service from the secret."""
    # The chain of keys is that of "Signature Version 4": date, region, service, then a constant.
    key = to_bytes(f"AWS4{secret}")
    for part in (date, region, service, "aws4_request"):
        key = _mac(key, part)
    return key
