"""JSON Web Tokens: decode, verify, sign (RFC 7515 and 7519, as OPA reads them).

A token becomes header, payload and signature; a verified one becomes `[true, header, payload]`.
The cryptography is `jose.jws`, the keys are `jose.jwk`. What holds here:

INVARIANT: the key decides. A token is tried against the keys given, with the algorithm its header
names, and an algorithm refuses keys of another kind: no `none`, no public key as HMAC secret.
INVARIANT: the cache answers only for the same token, the same key material and constraints, and
only while `nbf <= now < exp`.

Bounds: a token is at most `MAX_TOKEN` characters and at most `MAX_NESTING` tokens deep.
"""

from __future__ import annotations

import re
from dataclasses import field
from fractions import Fraction
from functools import lru_cache
from math import isfinite
from typing import Any, Final, TypeAlias

from doorward.records import record
from doorward.rego.builtins.encoding import (
    base64url_decode,
    base64url_encode_no_pad,
)
from doorward.rego.builtins.jose.jwk import VerificationKey, parse_key_set, verification_keys
from doorward.rego.builtins.jose.jws import ALGORITHMS, Algorithm
from doorward.rego.builtins.registry import builtin
from doorward.rego.builtins.registry.context import Context
from doorward.rego.builtins.registry.signature import any_, boolean, object_, string, tuple_
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang import base64
from doorward.rego.golang.json import marshal, unmarshal
from doorward.rego.golang.octets import to_bytes
from doorward.rego.numbers import exact
from doorward.rego.values import (
    UNDEFINED,
    Key,
    Undefined,
    Value,
    from_key,
    kind_name,
    sorted_keys,
)

MAX_TOKEN: Final = 1024 * 1024
MAX_NESTING: Final = 8
MAX_HEADER_KEPT: Final = 1024
MAX_CACHED: Final = 8192
"""Longest token, in characters, that is kept in the cache of verified tokens."""

Object = dict[Key, Value]
_DOCUMENT: Final = object_(any_, any_)
_NAMED: Final = object_(string, any_)


@record(frozen=True)
class _Token:
    """The three parts of a token, still encoded."""

    header: str
    payload: str
    signature: str

    @property
    def signed(self) -> bytes:
        return to_bytes(f"{self.header}.{self.payload}")

    def decoded_signature(self) -> bytes:
        return base64.url_decode(self.signature)

    def decoded_header(self) -> Object:
        if len(self.header) <= MAX_HEADER_KEPT:
            return _kept_header(self.header)
        return _decoded_header(self.header)

    def understood_header(self) -> _Header:
        if len(self.header) <= MAX_HEADER_KEPT:
            return _kept_understood(self.header)
        return _header(_decoded_header(self.header))

    def decoded_payload(self) -> str:
        try:
            return base64url_decode(self.payload)
        except BuiltinError as error:
            raise BuiltinError(f"JWT payload had invalid encoding: {error}") from None


def _decoded_header(encoded: str) -> Object:
    try:
        text = base64url_decode(encoded)
    except BuiltinError as error:
        raise BuiltinError(f"JWT header had invalid encoding: {error}") from None
    try:
        header = _json_object(text)
    except BuiltinError as error:
        raise BuiltinError(f"bad JWT header: {error}") from None
    if "enc" in header:
        raise BuiltinError("JWT is a JWE object, which is not supported")
    return header


@lru_cache(maxsize=256)
def _kept_header(encoded: str) -> Object:
    """The header, kept: an issuer's tokens all begin with the same one."""
    return _decoded_header(encoded)


def _split(text: str) -> _Token:
    if len(text) > MAX_TOKEN:
        raise LimitError(f"encoded JWT is longer than {MAX_TOKEN} characters")
    parts = text.split(".", 3)
    if len(parts) == 1:
        raise BuiltinError("encoded JWT had no period separators")
    if len(parts) != 3:
        count = text.count(".") + 1
        raise BuiltinError(f"encoded JWT must have 3 sections, found {count}")
    return _Token(*parts)


def _json_object(text: str) -> Object:
    try:
        value = unmarshal(text)
    except BuiltinError as error:
        raise BuiltinError(f"invalid JSON: {error}") from None
    if not isinstance(value, dict):
        raise BuiltinError("decoded JSON type was not an Object")
    return value


def _text(header: Object, name: str) -> str:
    value = header.get(name, "")
    if not isinstance(value, str):
        raise BuiltinError(f"{name}: must be a string")
    return value


@builtin("io.jwt.decode", string, returns=tuple_(_DOCUMENT, _DOCUMENT, string))
def io_jwt_decode(jwt: str) -> list[Value]:
    """The header, payload and hexadecimal signature of a token. Nothing is verified."""
    for _ in range(MAX_NESTING):
        token = _split(jwt)
        header = token.decoded_header()
        payload = token.decoded_payload()
        if header.get("cty") == "JWT":
            jwt = payload.strip("\"'")
            continue
        claims = _json_object(payload)
        try:
            signature = token.decoded_signature()
        except BuiltinError as error:
            raise BuiltinError(f"JWT signature had invalid encoding: {error}") from None
        return [header, claims, signature.hex()]
    raise LimitError(f"more than {MAX_NESTING} JWTs inside each other")


@record(frozen=True)
class _Header:
    """The fields of a token's header that verification reads."""

    alg: str
    kid: str
    cty: str
    understood: bool = True

    @property
    def usable(self) -> bool:
        return bool(self.alg) and self.understood


_UNDERSTOOD: Final = frozenset({"alg", "crit", "cty", "kid", "typ"})


def _header(fields: Object) -> _Header:
    alg = _text(fields, "alg")
    # RFC 7515 4.1.11: a field that must be understood and is not makes a token invalid.
    critical = _critical(fields["crit"]) if "crit" in fields else ()
    understood = all(name in _UNDERSTOOD or name not in fields for name in critical)
    cty, kid = _text(fields, "cty"), _text(fields, "kid")
    _text(fields, "typ")
    return _Header(alg, kid, cty, understood)


@lru_cache(maxsize=256)
def _kept_understood(encoded: str) -> _Header:
    return _header(_kept_header(encoded))


def _critical(value: Value) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise BuiltinError("crit: must be a list")
    if not value:
        raise BuiltinError("crit: must be a nonempty list")
    names = [name for name in value if isinstance(name, str)]
    if len(names) != len(value):
        raise BuiltinError("crit: must be a list of strings")
    return tuple(names)


def _verified_by_any(
    algorithm: Algorithm,
    header: _Header,
    keys: tuple[VerificationKey, ...],
    signed: bytes,
    signature: bytes,
) -> bool:
    """Whether the key that the token names verifies it or, if it names none of them, any key."""
    if header.kid:
        for key in keys:
            if key.key_id == header.kid:
                return algorithm.verify(key.material, signed, signature)
    return any(
        algorithm.verify(key.material, signed, signature)
        for key in keys
        if not key.algorithm or key.algorithm == header.alg
    )


def _declare_hmac(size: int) -> None:
    algorithm = ALGORITHMS[f"HS{size}"]
    name = f"io.jwt.verify_hs{size}"

    def verify(context: Context, jwt: str, secret: str) -> bool:
        tokens = context.environment.tokens
        key = (name, jwt, secret)
        if tokens is not None and tokens.get(key):
            return True
        token = _split(jwt)
        valid = algorithm.verify(to_bytes(secret), token.signed, token.decoded_signature())
        if valid and tokens is not None and len(jwt) <= MAX_CACHED:
            tokens.put(key, True)
        return valid

    verify.__doc__ = f"Whether the token's HS{size} signature is that of `secret`."
    builtin(name, string, string, returns=boolean, context=True)(verify)


def _declare_asymmetric(algorithm: Algorithm, name: str) -> None:
    def verify(context: Context, jwt: str, certificate: str) -> bool:
        tokens = context.environment.tokens
        key = (name, jwt, certificate)
        if tokens is not None and tokens.get(key):
            return True
        token = _split(jwt)
        keys = verification_keys(certificate)
        signature = token.decoded_signature()
        header = token.understood_header()
        valid = _verified_by_any(algorithm, header, keys, token.signed, signature)
        if valid and tokens is not None and len(jwt) <= MAX_CACHED:
            tokens.put(key, True)
        return valid

    verify.__doc__ = (
        f"Whether the token's {algorithm.name} signature is that of a PEM certificate or public "
        "key, a JWK or one key of a JWK set."
    )
    builtin(name, string, string, returns=boolean, context=True, refuse=_refuse_certificate)(verify)


def _refuse_certificate(jwt: Value, certificate: Value) -> None:
    if isinstance(jwt, str):
        _split(jwt)


for _size in (256, 384, 512):
    _declare_hmac(_size)
    for _family in ("rs", "ps", "es"):
        _declare_asymmetric(
            ALGORITHMS[f"{_family.upper()}{_size}"], f"io.jwt.verify_{_family}{_size}"
        )
_declare_asymmetric(ALGORITHMS["EdDSA"], "io.jwt.verify_eddsa")


@record(frozen=True)
class _Constraints:
    """What io.jwt.decode_verify asks of a token. Empty texts ask nothing."""

    alg: str = ""
    iss: str = ""
    aud: str = ""
    secret: str = ""
    keys: tuple[VerificationKey, ...] | None = field(default=None, repr=False)
    time: float | None = None

    def verifies(self, header: _Header, token: _Token, signature: bytes) -> bool:
        algorithm = ALGORITHMS.get(header.alg)
        if algorithm is None:
            return False
        if self.keys is None:
            return algorithm.verify(to_bytes(self.secret), token.signed, signature)
        return _verified_by_any(algorithm, header, self.keys, token.signed, signature)


def _constraints(given: Object) -> _Constraints:
    values: dict[str, Any] = {}
    for key in sorted_keys(given):
        value = given[key]
        if type(key) is not str:
            raise BuiltinError(f"token validation constraint must be a string, not {_kind(key)}")
        if key == "time":
            values[key] = _constraint_time(value)
        elif key not in {"alg", "aud", "cert", "iss", "secret"}:
            raise BuiltinError(f"unknown token validation constraint: {key}")
        elif not isinstance(value, str):
            raise BuiltinError(f"{key} constraint: must be a string")
        elif key == "cert":
            values["keys"] = verification_keys(value)
        else:
            values[key] = value
    constraints = _Constraints(**values)
    if constraints.keys is not None and "secret" in values:
        raise BuiltinError("duplicate key constraints")
    if constraints.keys is None and not constraints.secret:
        raise BuiltinError("no key constraint")
    return constraints


@lru_cache(maxsize=64)
def _kept_constraints(given: tuple[tuple[Key, Value], ...]) -> _Constraints:
    """The constraints, kept: a policy always asks for the same."""
    return _constraints(dict(given))


def _kind(key: Key) -> str:
    return kind_name(from_key(key))


def _constraint_time(value: Value) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BuiltinError("token time constraint: must be a number")
    try:
        time = float(value)
    except OverflowError:
        time = float("inf")
    if not isfinite(time):
        raise BuiltinError("token time constraint: unvalid float64")
    if time < 0:
        raise BuiltinError("token time constraint: must not be negative")
    return time


_ROUNDING_NS: Final = 2048
"""More than a float64 of nanoseconds is off; the window of a cached answer ends this early."""

_FOREVER: Final = 1 << 64

MAX_ANSWERS: Final = 4
"""Sets of constraints for which one verified token is remembered."""

_Verified: TypeAlias = tuple[Object, list[Value], int, int]
"""Constraints, the answer, and from when to when (nanoseconds) it holds."""


def _refuse_to_verify(jwt: Value, constraints: Value) -> None:
    if isinstance(constraints, dict):
        _constraints(constraints)


@builtin(
    "io.jwt.decode_verify",
    string,
    _NAMED,
    returns=tuple_(boolean, _DOCUMENT, _DOCUMENT),
    context=True,
    pure=False,
    refuse=_refuse_to_verify,
)
def io_jwt_decode_verify(context: Context, jwt: str, constraints: Object) -> list[Value]:
    """`[true, header, payload]` of a token that verifies and meets every constraint.

    Constraints: `secret` or `cert`, and `alg`, `iss`, `aud`, `time` (nanoseconds). Any other token
    is `[false, {}, {}]`; one that cannot be read is an error.
    """
    tokens = context.environment.tokens
    if tokens is None:
        return _decode_verify(jwt, constraints, context.now_ns)[0]
    known: tuple[_Verified, ...] = tokens.get(jwt) or ()
    now = context.now_ns
    for given, answer, start, end in known:
        if given == constraints and start <= now < end:
            return answer
    answer, start, end = _decode_verify(jwt, constraints, now)
    cacheable = answer[0] is True and len(jwt) <= MAX_CACHED and start <= now < end
    # Only texts are equal in Python exactly where they are in Rego.
    if cacheable and all(type(value) is str for value in constraints.values()):
        tokens.put(jwt, ((constraints, answer, start, end), *known[: MAX_ANSWERS - 1]))
    return answer


def _decode_verify(jwt: str, given: Object, now: int) -> tuple[list[Value], int, int]:
    """The answer, and from when until when, in nanoseconds, it is the same."""
    texts = all([type(value) is str for value in given.values()])
    constraints = _kept_constraints(tuple(given.items())) if texts else _constraints(given)
    invalid: tuple[list[Value], int, int] = [False, {}, {}], 0, 0
    for _ in range(MAX_NESTING):
        token = _split(jwt)
        header = token.understood_header()
        if not header.usable or (constraints.alg and constraints.alg != header.alg):
            return invalid
        if not constraints.verifies(header, token, token.decoded_signature()):
            return invalid
        payload = token.decoded_payload()
        if header.cty.upper() == "JWT":
            jwt = payload
            continue
        claims = _json_object(payload)
        expires, starts = _claimed(claims, "exp"), _claimed(claims, "nbf")
        seconds: Any = (float(now) if constraints.time is None else constraints.time) / 1e9
        if type(expires) is Fraction or type(starts) is Fraction:
            # A float compares with an integer by its exact value, with other numbers by its text.
            seconds = exact(seconds)
        if not _meets(constraints, claims):
            return invalid
        if (expires is not None and seconds >= expires) or (
            starts is not None and seconds < starts
        ):
            return invalid
        begin = 0 if starts is None else int(starts * 10**9) + _ROUNDING_NS
        end = _FOREVER if expires is None else int(expires * 10**9) - _ROUNDING_NS
        return [True, token.decoded_header(), claims], begin, end
    raise LimitError(f"more than {MAX_NESTING} JWTs inside each other")


def _meets(constraints: _Constraints, claims: Object) -> bool:
    if constraints.iss:
        issuer = claims.get("iss")
        if not isinstance(issuer, str) or issuer != constraints.iss:
            return False
    if "aud" not in claims:
        return not constraints.aud
    audience = claims["aud"]
    return constraints.aud in (audience if isinstance(audience, list) else [audience])


def _claimed(claims: Object, name: str) -> int | Fraction | None:
    if name not in claims:
        return None
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BuiltinError(f"{name} value must be a number")
    return exact(value)


def _refuse_to_sign(headers: Value, payload: Value, key: Value) -> None:
    _signing_key(marshal(key))


@builtin(
    "io.jwt.encode_sign",
    _NAMED,
    _NAMED,
    _NAMED,
    returns=string,
    pure=False,
    refuse=_refuse_to_sign,
)
def io_jwt_encode_sign(headers: Object, payload: Object, key: Object) -> str:
    """The signed token of a header and a payload; `key` is a JWK."""
    return _sign(marshal(headers), marshal(payload), marshal(key))


@builtin("io.jwt.encode_sign_raw", string, string, string, returns=string, pure=False)
def io_jwt_encode_sign_raw(headers: str, payload: str, key: str) -> str:
    """The signed token of a header and a payload that are JSON texts; `key` is a JWK's text."""
    return _sign(headers, payload, key)


def _sign(header_text: str, payload: str, key_text: str) -> str:
    key = _signing_key(key_text)
    name, kind = _algorithm_and_type(header_text)
    algorithm = ALGORITHMS.get(name)
    if algorithm is None:
        raise BuiltinError(f"unknown JWS algorithm: {name}")
    if kind == "" or kind == "JWT":
        try:
            unmarshal(payload)
        except BuiltinError:
            raise BuiltinError("type is JWT but payload is not JSON") from None
    signed = f"{base64url_encode_no_pad(header_text)}.{base64url_encode_no_pad(payload)}"
    signature = algorithm.sign(key.material, signed.encode())
    return f"{signed}.{_encoded(signature)}"


_NUMBER: Final = re.compile(r"[-+eE.0-9]+\Z", re.ASCII)


def _algorithm_and_type(header_text: str) -> tuple[str, Value]:
    try:
        header = unmarshal(header_text)
    except BuiltinError as error:
        # OPA's reader of headers takes any run of these for a number.
        if not _NUMBER.match(header_text):
            tail = str(error) if header_text else "cannot parse empty string"
            raise BuiltinError(
                f"missing or invalid 'alg' header: cannot parse JSON: {tail}"
                + ('; unparsed tail: ""' if not header_text else "")
            ) from None
        header = None
    name = header.get("alg", UNDEFINED) if isinstance(header, dict) else UNDEFINED
    if isinstance(name, Undefined):
        raise BuiltinError("missing or invalid 'alg' header: jwsbb: header \"alg\" not found")
    if not isinstance(name, str):
        kind = kind_name(name)
        raise BuiltinError(
            f"missing or invalid 'alg' header: value doesn't contain string; it contains {kind}"
        )
    return name, header.get("typ", "JWT") if isinstance(header, dict) else "JWT"


def _signing_key(text: str) -> VerificationKey:
    keys = parse_key_set(text)
    if not keys:
        raise BuiltinError("jwk.Parse: the key set is empty")
    return keys[0]


def _encoded(octets: bytes) -> str:
    return base64url_encode_no_pad(octets.decode("utf-8", "surrogateescape"))
