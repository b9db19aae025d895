"""Constraints of `io.jwt.decode_verify`: keys, and what claims must say."""

from __future__ import annotations

from dataclasses import field
from fractions import Fraction
from functools import lru_cache
from math import isfinite
from typing import Any, Final

from doorward.base.records import record
from doorward.rego.builtins.jose.compact import Header, Object
from doorward.rego.builtins.jose.jwk import VerificationKey, public_part, verification_keys
from doorward.rego.builtins.jose.jws import ALGORITHMS, Algorithm
from doorward.rego.errors import BuiltinError
from doorward.rego.golang.octets import to_bytes
from doorward.rego.numbers import exact
from doorward.rego.values import UNDEFINED, Key, Value, from_key, kind_name, sorted_keys

__all__ = [
    "Constraints",
    "constraints_of",
    "meets",
    "read_claim",
    "read_constraints",
    "verified_by_any",
]


@record
class Constraints:
    """The constraints of io.jwt.decode_verify. A constraint that is "" is not checked; `keys` is
    None if the key is `secret`; `time` is in nanoseconds, None for the decision's time.
    """

    alg: str = ""
    iss: str = ""
    aud: str = ""
    secret: bytes = field(default=b"", repr=False)
    keys: tuple[VerificationKey, ...] | None = field(default=None, repr=False)
    time: float | None = None

    def verifies(self, header: Header, signed: bytes, signature: bytes) -> bool:
        """Return True if the secret or one of the keys verifies the signature with the header's
        algorithm; False also for an unknown algorithm. The constraint `alg` is not checked here.
        """
        # RFC 9864 has another name for the one curve of EdDSA here.
        algorithm = ALGORITHMS.get("EdDSA" if header.alg == "Ed25519" else header.alg)
        if algorithm is None:
            return False
        if self.keys is None:
            return algorithm.verify(self.secret, signed, signature)
        return verified_by_any(algorithm, header, self.keys, signed, signature)


def read_constraints(options: Object) -> Constraints:
    """Read the constraints of `io.jwt.decode_verify` as OPA does: `alg`, `aud`, `cert`, `iss`,
    `secret` (strings) and `time`. BuiltinError for an unknown or invalid one, for a `cert` without
    a valid key, or if there is not exactly one of `cert` and `secret` (an empty `secret` does not
    count); LimitError for a `cert` that is too large.
    """
    values: dict[str, Any] = {}
    for key in sorted_keys(options):
        value = options[key]
        if type(key) is not str:
            raise BuiltinError(f"token validation constraint must be a string, not {_kind(key)}")
        if key == "time":
            values[key] = _constraint_time(value)
        elif key not in {"alg", "aud", "cert", "iss", "secret"}:
            raise BuiltinError(f"unknown token validation constraint: {key}")
        elif not isinstance(value, str):
            raise BuiltinError(f"{key} constraint: must be a string")
        elif key == "cert":
            values["keys"] = tuple(map(public_part, verification_keys(value)))
        elif key == "secret":
            values[key] = to_bytes(value)
        else:
            values[key] = value
    constraints = Constraints(**values)
    if constraints.keys is not None and constraints.secret:
        raise BuiltinError("duplicate key constraints")
    if constraints.keys is None and not constraints.secret:
        raise BuiltinError("no key constraint")
    return constraints


def constraints_of(options: Object) -> tuple[Constraints, Object]:
    """Read the constraints object, and return it too. If all constraints are strings, both come
    from a cache, since a policy uses the same ones for every token; nobody may modify the object.
    BuiltinError for an unknown or invalid constraint, or if there is not exactly one of `cert` and
    `secret`; LimitError for a `cert` that is too large.
    """
    # Most policies have one set: it is compared in C, while a key for the cache is made first.
    for last in _last:
        if options == last[1]:
            return last
    for value in options.values():
        if type(value) is not str:
            return read_constraints(options), options
    read = _cached_constraints(tuple(options.items()))
    _last[:] = [read]
    return read


_last: Final[list[tuple[Constraints, Object]]] = []
"""The constraints that were read last, strings all of them; empty at first."""


@lru_cache(maxsize=64)
def _cached_constraints(items: tuple[tuple[Key, Value], ...]) -> tuple[Constraints, Object]:
    options = dict(items)
    return read_constraints(options), options


def _kind(key: Key) -> str:
    return kind_name(from_key(key))


def _constraint_time(value: Value) -> float:
    """The constraint `time` in nanoseconds, as a float as in OPA; BuiltinError unless it is a
    finite number ≥ 0.
    """
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


def meets(constraints: Constraints, claims: Object) -> bool:
    """Return True if issuer and audience of the claims satisfy the constraints. As in OPA, the
    claim and the constraint `aud` are there both or not at all. Times are not checked here.
    """
    if constraints.iss:
        issuer = claims.get("iss")
        if not isinstance(issuer, str) or issuer != constraints.iss:
            return False
    if "aud" not in claims:
        return not constraints.aud
    audience = claims["aud"]
    return constraints.aud in (audience if isinstance(audience, list) else [audience])


def read_claim(claims: Object, name: str) -> int | Fraction | None:
    """Return the exact number in a claim, such as `exp`; None if it is absent. BuiltinError if it
    is not a number, also for null.
    """
    value = claims.get(name, UNDEFINED)
    if type(value) is int:
        return value
    if value is UNDEFINED:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BuiltinError(f"{name} value must be a number")
    return exact(value)


def verified_by_any(
    algorithm: Algorithm,
    header: Header,
    keys: tuple[VerificationKey, ...],
    signed: bytes,
    signature: bytes,
) -> bool:
    """Return True if a key verifies the signature: the first key with the `kid` of the token alone
    if there is one, whatever `alg` that key names, otherwise any key that does not name another
    algorithm.
    """
    if header.kid:
        for key in keys:
            # The key that the token names decides alone: another key must not stand in for it.
            if key.key_id == header.kid:
                return algorithm.verify(key.material, signed, signature)
    for key in keys:
        fits = not key.algorithm or key.algorithm == header.alg
        if fits and algorithm.verify(key.material, signed, signature):
            return True
    return False
