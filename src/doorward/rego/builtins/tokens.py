"""JSON Web Tokens: decode, verify, sign (RFC 7515 and 7519, as OPA reads them).

A token becomes header, payload and signature; a verified one becomes `[true, header, payload]`.
Parts and claims are `jose.compact`, constraints `jose.constraints`, the cryptography `jose.jws`,
the keys `jose.jwk`. What holds here:

INVARIANT: the key decides. A token is tried against the keys given, with the algorithm its header
names, and an algorithm refuses keys of another kind: no `none`, no public key as HMAC secret.
INVARIANT: the cache answers only for the same token, the same key material and constraints, and
only while `nbf <= now < exp`.

Bounds: a token is at most `jose.compact.MAX_TOKEN` characters and `MAX_NESTING` tokens deep.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final, TypeAlias

from doorward.rego.builtins.encoding import (
    base64url_encode_no_pad,
)
from doorward.rego.builtins.inversion import inverse
from doorward.rego.builtins.jose.compact import (
    Object,
    decode_header,
    decode_payload,
    json_object,
    signed_text,
    split_token,
    understand_header,
)
from doorward.rego.builtins.jose.constraints import (
    Constraints,
    constraints_of,
    meets,
    read_claim,
    read_constraints,
    verified_by_any,
)
from doorward.rego.builtins.jose.jwk import VerificationKey, parse_key_set, verification_keys
from doorward.rego.builtins.jose.jws import ALGORITHMS, LENIENT, Algorithm
from doorward.rego.builtins.registry import builtin
from doorward.rego.builtins.registry.context import Context, Environment
from doorward.rego.builtins.registry.signature import any_, boolean, object_, string, tuple_
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang import base64
from doorward.rego.golang.json import marshal, unmarshal
from doorward.rego.golang.octets import to_bytes
from doorward.rego.numbers import exact
from doorward.rego.values import (
    UNDEFINED,
    Undefined,
    Value,
    kind_name,
)

MAX_NESTING: Final = 8
"""The most tokens inside each other (`cty: JWT`); more is a LimitError."""
MAX_CACHED: Final = 8192
"""The most characters of a token that is kept in the cache of verified tokens."""

_DOCUMENT: Final = object_(any_, any_)
_NAMED: Final = object_(string, any_)


@builtin(
    "io.jwt.decode",
    string,
    returns=tuple_(_DOCUMENT, _DOCUMENT, string),
    inverse=inverse("decode_token"),
)
def io_jwt_decode(jwt: str) -> list[Value]:
    """`[header, payload, signature]` of a token, the signature in hexadecimal; of nested tokens, of
    the innermost one. Nothing is verified. A malformed token is an error; LimitError for one that
    is too long, or for more than `MAX_NESTING` tokens inside each other.
    """
    for _ in range(MAX_NESTING):
        encoded, claims_encoded, signature_encoded = split_token(jwt)
        header = decode_header(encoded)
        payload = decode_payload(claims_encoded)
        if header.get("cty") == "JWT":
            jwt = payload.strip("\"'")
            continue
        claims = json_object(payload)
        try:
            signature = base64.url_decode(signature_encoded)
        except BuiltinError as error:
            raise BuiltinError(f"JWT signature had invalid encoding: {error}") from None
        return [header, claims, signature.hex()]
    raise LimitError(f"more than {MAX_NESTING} levels of nested JWTs")


def _declare_hmac(size: int) -> None:
    """Register the built-in `io.jwt.verify_hs<size>`, with its docstring and token cache."""
    algorithm = ALGORITHMS[f"HS{size}"]
    name = f"io.jwt.verify_hs{size}"

    def verified(jwt: str, secret: str) -> bool:
        """Return True if the token's signature is that of the secret; the header is not read.
        BuiltinError if the token does not have three parts or its signature is not base64,
        LimitError if it is too long.
        """
        header, payload, signature = split_token(jwt)
        signed = signed_text(header, payload)
        return algorithm.verify(to_bytes(secret), signed, base64.url_decode(signature))

    verify = _cache_verification(name, verified)
    verify.__doc__ = f"Return true if the token's HS{size} signature is that of `secret`."
    candidates = inverse("verify_token", str(size))
    builtin(name, string, string, returns=boolean, context=True, inverse=candidates)(verify)


def _declare_asymmetric(algorithm: Algorithm, name: str) -> None:
    """Register the built-in `name`, which verifies tokens with a public key and this algorithm,
    whatever `alg` the token's header names.
    """

    def verified(jwt: str, certificate: str) -> bool:
        """Return True if one of the keys in the PEM or JWK text verifies the token. BuiltinError if
        token or keys are malformed, LimitError if they are too large.
        """
        encoded, payload, encoded_signature = split_token(jwt)
        keys = verification_keys(certificate)
        signature = base64.url_decode(encoded_signature)
        header = understand_header(encoded)
        return verified_by_any(algorithm, header, keys, signed_text(encoded, payload), signature)

    verify = _cache_verification(name, verified)
    verify.__doc__ = (
        f"Return true if the token's {algorithm.name} signature is that of a PEM certificate or "
        "public key, a JWK or one key of a JWK set."
    )
    builtin(name, string, string, returns=boolean, context=True, refuse=_refuse_certificate)(verify)


def _cache_verification(
    name: str, verified: Callable[[str, str], bool]
) -> Callable[[Context, str, str], bool]:
    """Return `verified` with the environment's token cache in front, keyed by built-in, token and
    key. Only True is stored, and only for tokens of at most `MAX_CACHED` characters.
    """

    def verify(context: Context, jwt: str, key: str) -> bool:
        """Return True if the token verifies, without computing if the cache has it. A token that
        verifies is put into the cache, unless it is longer than `MAX_CACHED`. BuiltinError for a
        malformed token or key, LimitError for one that is too large.
        """
        tokens = context.environment.tokens
        entry = (name, jwt, key)
        if tokens is not None and tokens.get(entry):
            return True
        valid = verified(jwt, key)
        if valid and tokens is not None and len(jwt) <= MAX_CACHED:
            tokens.put(entry, True)
        return valid

    return verify


def _refuse_certificate(jwt: Value, certificate: Value) -> None:
    """Raise BuiltinError if the token is a string that does not have three parts, LimitError if it
    is too long: OPA reads it before it checks the kind of the certificate. Return otherwise.
    """
    if isinstance(jwt, str):
        split_token(jwt)


for _size in (256, 384, 512):
    _declare_hmac(_size)
    for _family in ("rs", "ps", "es"):
        _name = f"{_family.upper()}{_size}"
        _declare_asymmetric(
            LENIENT.get(_name, ALGORITHMS[_name]), f"io.jwt.verify_{_family}{_size}"
        )
_declare_asymmetric(ALGORITHMS["EdDSA"], "io.jwt.verify_eddsa")


_ROUNDING_NS: Final = 2048
"""The greatest error, in nanoseconds, of a time that is held as a float64. OPA compares such times,
so a cached answer holds from this much after `nbf` and until this much before `exp`.
"""

_FOREVER: Final = 1 << 64

MAX_ANSWERS: Final = 4
"""The most sets of constraints for which the answers of one verified token are cached."""

_Verified: TypeAlias = tuple[Object, Object, Object, int, int, "_Verified | None"]
"""An entry of the cache: constraints, header and claims, the first and last time in nanoseconds at
which the answer holds, and the entry of other constraints for the same token. It is flat, and
constraints and header are shared by entries: memory that stays for each token costs time.
"""


def _refuse_to_verify(jwt: Value, constraints: Value) -> None:
    """Raise the BuiltinError or LimitError of an object with invalid constraints: OPA reads them
    before it checks the kind of the token. Return if they are valid or not an object.
    """
    if isinstance(constraints, dict):
        read_constraints(constraints)


@builtin(
    "io.jwt.decode_verify",
    string,
    _NAMED,
    returns=tuple_(boolean, _DOCUMENT, _DOCUMENT),
    context=True,
    pure=False,
    refuse=_refuse_to_verify,
    inverse=inverse("decode_verify"),
)
def io_jwt_decode_verify(context: Context, jwt: str, constraints: Object) -> list[Value]:
    """`[true, header, payload]` if the token verifies, is within its `nbf` and `exp`, and meets
    every constraint, else `[false, {}, {}]`. Constraints: `secret` or `cert`, and `alg`, `iss`,
    `aud`, `time` (nanoseconds; by default the decision's time). A token with an `aud` needs that
    constraint. A token that cannot be decoded, an `nbf` or `exp` that is not a number, and an
    invalid constraint, are errors; LimitError for a token or key that is too large, or more than
    `MAX_NESTING` nested tokens.
    """
    tokens, now = context.environment.tokens, context.now_ns
    known: _Verified | None = None if tokens is None else tokens.get(jwt)
    entry, count = known, 0
    while entry is not None:
        options, header, claims, start, end, entry = entry
        if options == constraints and start <= now < end:
            return [True, header, claims]
        count += 1
    understood, options = constraints_of(constraints)
    verified = _decode_verify(jwt, understood, now)
    if verified is None:
        return [False, {}, {}]
    header, claims, start, end = verified
    # Only texts are equal in Python exactly where they are in Rego; `time` alone is none.
    cacheable = "time" not in options and len(jwt) <= MAX_CACHED and start <= now < end
    if tokens is not None and cacheable:
        others = known if count < MAX_ANSWERS else None
        tokens.put(jwt, (options, header, claims, start, end, others))
    return [True, header, claims]


def verified_token(environment: Environment, jwt: str) -> tuple[Object, Object, Object] | None:
    """Header, payload and constraints of a token that `io.jwt.decode_verify` accepted and that is
    still in the cache; None for any other token, and for a nested one. Its time of validity is not
    checked again.
    """
    known = environment.tokens.get(jwt) if environment.tokens is not None else None
    if not known or not isinstance(known, tuple):
        return None
    constraints, header, payload, *_ = known
    # Of nested tokens the header is that of the outer one, and the claims are not.
    return None if "cty" in header else (header, payload, constraints)


def _decode_verify(
    jwt: str, constraints: Constraints, now: int
) -> tuple[Object, Object, int, int] | None:
    """Return header and claims of a token, and the nanoseconds since the epoch from which on, and
    before which, they hold. None if the signature does not verify, or the header, a claim or the
    time of checking does not meet the constraints; that time is `now`, the decision's, if they have
    none. BuiltinError for a malformed token or claim; LimitError for a token that is too large, or
    above `MAX_NESTING` nested tokens.
    """
    for _ in range(MAX_NESTING):
        encoded, encoded_payload, encoded_signature = split_token(jwt)
        header = understand_header(encoded)
        if not header.is_usable or (constraints.alg and constraints.alg != header.alg):
            return None
        signature = base64.url_decode(encoded_signature)
        # The signature comes before any claim is read: an unverified payload decides nothing.
        if not constraints.verifies(header, signed_text(encoded, encoded_payload), signature):
            return None
        payload = decode_payload(encoded_payload)
        if header.is_nested:
            jwt = payload
            continue
        claims = json_object(payload)
        if not meets(constraints, claims):
            return None
        # In OPA's order: a claim that is not a number is an error where none before it refuses.
        seconds: Any = (float(now) if constraints.time is None else constraints.time) / 1e9
        expires = read_claim(claims, "exp")
        if expires is not None and _to_compare(seconds, expires) >= expires:
            return None
        starts = read_claim(claims, "nbf")
        if starts is not None and _to_compare(seconds, starts) < starts:
            return None
        begin = 0 if starts is None else int(starts * 10**9) + _ROUNDING_NS
        end = _FOREVER if expires is None else int(expires * 10**9) - _ROUNDING_NS
        return header.fields, claims, begin, end
    raise LimitError(f"more than {MAX_NESTING} levels of nested JWTs")


def _to_compare(seconds: Any, claim: Any) -> Any:
    """Return `seconds` in the form in which OPA compares it with a claim: exactly with a fraction,
    as a float with an integer.
    """
    return exact(seconds) if type(claim) is Fraction else seconds


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
    """The signed token of a header and a payload; `key` is a JWK. It is an error if the header has
    no known `alg`, or the key is invalid or does not fit it; LimitError for a key that is too
    large.
    """
    return _sign(marshal(headers), marshal(payload), marshal(key))


@builtin("io.jwt.encode_sign_raw", string, string, string, returns=string, pure=False)
def io_jwt_encode_sign_raw(headers: str, payload: str, key: str) -> str:
    """The signed token of a header and a payload that are texts; `key` is the text of a JWK. It is
    an error if the header has no known `alg`, if the key is invalid or does not fit it, or if `typ`
    is missing, no string or JWT and the payload is not JSON; LimitError for a key that is too
    large.
    """
    return _sign(headers, payload, key)


def _sign(header_text: str, payload: str, key_text: str) -> str:
    """Return the signed compact token of a JSON header and a payload with a JWK. BuiltinError for
    an invalid key, a header without a known `alg`, a payload that is not JSON although `typ` is
    JWT, missing or not a string, or a key that does not fit the algorithm; LimitError for a key or
    JSON that is too large.
    """
    key = _signing_key(key_text)
    name, kind = _algorithm_and_type(header_text)
    algorithm = ALGORITHMS.get(name)
    if algorithm is None:
        raise BuiltinError(f"unknown JWS algorithm: {name}")
    if kind == "JWT":
        try:
            unmarshal(payload)
        except BuiltinError:
            raise BuiltinError("type is JWT but payload is not JSON") from None
    signed = f"{base64url_encode_no_pad(header_text)}.{base64url_encode_no_pad(payload)}"
    signature = algorithm.sign(key.material, signed.encode())
    return f"{signed}.{_encode(signature)}"


_NUMBER: Final = re.compile(r"[-+eE.0-9]+\Z", re.ASCII)


def _algorithm_and_type(header_text: str) -> tuple[str, str]:
    """Return the `alg` and `typ` in a JSON header text, of several members with one name the first;
    `typ` is "JWT" if it is absent or not a string. BuiltinError, in OPA's words, for invalid JSON
    or without a string `alg`.
    """
    try:
        unmarshal(header_text)
        header = json.loads(header_text, object_pairs_hook=_first_members)
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
    typ: Any = header.get("typ")
    return name, typ if isinstance(typ, str) else "JWT"


def _first_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of members, of those with the same name the first."""
    return dict(reversed(pairs))


def _signing_key(text: str) -> VerificationKey:
    """The first key of a JWK or JWK set. BuiltinError if it cannot be read or is empty, or is a
    private RSA key without its prime numbers; LimitError for too many keys or an RSA key that is
    too long.
    """
    keys = parse_key_set(text)
    if not keys:
        raise BuiltinError("jwk.Parse: the key set is empty")
    jwk: Any = unmarshal(text)
    if isinstance(jwk, dict) and isinstance(jwk.get("keys"), list):
        jwk = jwk["keys"][0]
    if isinstance(jwk, dict) and jwk.get("kty") == "RSA" and "d" in jwk:
        missing = [name for name in ("p", "q") if not jwk.get(name)]
        if missing:
            raise BuiltinError(f'jwk.Export: missing "{missing[0]}" value')
    return keys[0]


def _encode(octets: bytes) -> str:
    return base64url_encode_no_pad(octets.decode("utf-8", "surrogateescape"))
