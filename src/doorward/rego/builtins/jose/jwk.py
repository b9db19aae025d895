"""Keys: JSON Web Keys and PEM become what `jws` verifies and signs with.

Parsing is costly and a policy names the same few keys again and again, so parsed keys are kept:
the 128 used last. Nothing here says which key may verify which token; that is `tokens`.

Each member that a key may have has one reader, as in OPA's library: a set with one key that cannot
be read is none, also where the member is not used.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from doorward.base.records import record
from doorward.rego.builtins.jose.jws import ALGORITHMS
from doorward.rego.builtins.x509 import pem
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang.json import unmarshal
from doorward.rego.golang.octets import to_bytes

__all__ = [
    "MAX_KEYS",
    "MAX_RSA_BITS",
    "USELESS",
    "VerificationKey",
    "is_rsa_key",
    "parse_key_set",
    "public_part",
    "verification_keys",
]

MAX_KEYS: Final = 1000
"""The most keys in one set; more is a LimitError. A token that matches no key costs one signature
check for each.
"""

MAX_MATERIAL: Final = 4 * 1024 * 1024
"""The most characters of a certificate, key or key set; more is a LimitError."""
MAX_RSA_BITS: Final = 16_384
MAX_EXPONENT_BITS: Final = 63
MAX_FACTORED_BITS: Final = 4096
"""The most bits of a private RSA key without its prime factors, which are then computed; more is a
LimitError.
"""

_CURVES: Final = {
    "P-256": ("SECP256R1", 32),
    "P-384": ("SECP384R1", 48),
    "P-521": ("SECP521R1", 66),
}
_PEM_CURVES: Final = frozenset({"secp224r1", "secp256r1", "secp384r1", "secp521r1"})
"""The NIST curves by their names in cryptography; Go reads EC keys of no others."""

X25519_SIZE: Final = 32
USELESS: Final = object()
"""The material of a key that can verify no signature, such as an RSA key with exponent 1: as in
OPA, it can be read, and verifies nothing.
"""


@record
class VerificationKey:
    """A key with the `alg` and `kid` that its JWK gives it, "" if none. `material` is the bytes of
    a secret, a key object of cryptography, or `USELESS`.
    """

    material: Any
    algorithm: str = ""
    key_id: str = ""


@lru_cache(maxsize=128)
def verification_keys(text: str) -> tuple[VerificationKey, ...]:
    """The keys in a PEM certificate or public key, a JWK, or a JWK set; keys of a set that are not
    for signatures are left out, private JWKs are returned as they are (see `public_part`).
    BuiltinError if the text, or any key of the set, cannot be read; LimitError if it is too large.
    Cached.
    """
    if len(text) > MAX_MATERIAL:
        raise LimitError(f"key material is longer than {MAX_MATERIAL} characters")
    block, end = pem.decode(text)
    if block is None:
        keys = _key_set(text, "failed to parse a JWK key (set)")
        return tuple([key for key in keys if _is_for_signatures(key)])
    if end < len(text):
        raise BuiltinError("extra data after a PEM certificate block")
    return (VerificationKey(_public_key(block)),)


def _is_for_signatures(key: VerificationKey) -> bool:
    """Return False if the key names an algorithm that is not a signature's, such as one of
    encryption.
    """
    return not key.algorithm or key.algorithm in ALGORITHMS


def public_part(key: VerificationKey) -> VerificationKey:
    """Return the key's public part; a key without a private part unchanged. `io.jwt.decode_verify`
    accepts a private key in this way, `io.jwt.verify_rs256` and the like do not, as in OPA.
    """
    private = getattr(key.material, "public_key", None)
    if private is None:
        return key
    return VerificationKey(private(), key.algorithm, key.key_id)


def _public_key(block: pem.Block) -> Any:
    """The public key in a PEM certificate or public key; `USELESS` for an RSA key with an exponent
    that no signature fits. BuiltinError for another block, malformed bytes, or a curve that Go does
    not know.
    """
    # cryptography is only loaded by policies that use it
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    kind = "certificate" if block.label == "CERTIFICATE" else "key"
    try:
        if block.label == "CERTIFICATE":
            key: Any = x509.load_der_x509_certificate(block.octets).public_key()
        elif block.label == "PUBLIC KEY":
            key = load_der_public_key(block.octets)
        else:
            raise BuiltinError("failed to extract a Key from the PEM certificate")
    except (ValueError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        if str(error).startswith("e must be "):
            return USELESS
        raise BuiltinError(f"failed to parse a PEM {kind}") from error
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name not in _PEM_CURVES:
        raise BuiltinError(f"failed to parse a PEM {kind}: unsupported elliptic curve")
    return key


@lru_cache(maxsize=128)
def parse_key_set(text: str) -> tuple[VerificationKey, ...]:
    """The keys, private ones too, of a JWK or a JWK set. BuiltinError if one of them cannot be
    read, LimitError for more than `MAX_KEYS` or an RSA key that is too long. Cached.
    """
    return _key_set(text, "jwk.Parse")


def _key_set(text: str, context: str) -> tuple[VerificationKey, ...]:
    """The keys of a JWK or JWK set. BuiltinError, with `context` before its text, if one of them
    cannot be read; LimitError for more than `MAX_KEYS` or an RSA key that is too long.
    """
    try:
        document = unmarshal(text)
        if not isinstance(document, dict):
            raise BuiltinError("a JWK must be an object")
        if "keys" not in document:
            return (_parse_key(document),)
        keys = document["keys"]
        if not isinstance(keys, list):
            raise BuiltinError('"keys" must be an array')
        if len(keys) > MAX_KEYS:
            raise LimitError(f"JWK set has more than {MAX_KEYS} keys")
        return tuple([_parse_key(key) for key in keys])
    except BuiltinError as error:
        raise BuiltinError(f"{context}: {error}") from None


def _parse_key(key: object) -> VerificationKey:
    """The key in one JWK object, read by its `kty`. BuiltinError if `key` is not an object, for an
    unknown kind, or for an invalid field, also one that is not used; LimitError for an RSA key that
    is too long.
    """
    if not isinstance(key, dict):
        raise BuiltinError("a JWK must be an object")
    # Go finds the last kind, in any case; the reader of that kind looks in small letters.
    kinds = [value for name, value in key.items() if str(name).lower() == "kty"]
    kind = kinds[-1] if kinds and key.get("kty", kinds[-1]) == kinds[-1] else None
    read = _KINDS.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise BuiltinError(f"invalid key type from JSON ({kind if isinstance(kind, str) else ''})")
    for name in _UNUSED_TEXTS:
        _optional(key, name)
    if "alg" in key and _optional(key, "alg") not in _ALGORITHMS:
        raise BuiltinError("failed to decode value for key alg: invalid key algorithm")
    _check_operations(key.get("key_ops"))
    if "x5c" in key:
        _check_chain(key["x5c"])
    return VerificationKey(read(key), _optional(key, "alg"), _optional(key, "kid"))


_UNUSED_TEXTS: Final = ("use", "x5u", "x5t", "x5t#S256")
_WRAPPED: Final = ("A128KW", "A192KW", "A256KW")
_ALGORITHMS: Final = frozenset(
    (
        *(f"{kind}{size}" for kind in ("HS", "RS", "PS", "ES") for size in (256, 384, 512)),
        *("ES256K", "EdDSA", "Ed25519", "none", "dir", "RSA1_5", "RSA-OAEP"),
        *(f"RSA-OAEP-{size}" for size in (256, 384, 512)),
        *_WRAPPED,
        *("ECDH-ES", *(f"ECDH-ES+{each}" for each in _WRAPPED)),
        *("PBES2-HS256+A128KW", "PBES2-HS384+A192KW", "PBES2-HS512+A256KW"),
        *("A128CBC-HS256", "A192CBC-HS384", "A256CBC-HS512"),
        *(f"A{size}GCM{kind}" for size in (128, 192, 256) for kind in ("", "KW")),
    )
)
"""The algorithm names that a key may give (RFC 7518, RFC 8812, RFC 9864)."""


def _optional(key: Mapping[Any, Any], name: str) -> str:
    """The string in field `name`, "" if absent or null; BuiltinError if it is not a string."""
    text = key.get(name)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise BuiltinError(f"failed to decode value for key {name}: expected a string")
    return text


def _check_operations(operations: object) -> None:
    """Raise BuiltinError unless `key_ops` is absent or a list of strings (or nulls). What it says
    is not used, as in OPA.
    """
    listed = [] if operations is None else operations
    if not isinstance(listed, list) or any(not isinstance(each, str | None) for each in listed):
        raise BuiltinError("failed to decode value for key key_ops: expected an array of strings")


def _check_chain(chain: object) -> None:
    """Raise BuiltinError unless `x5c` is a list, perhaps empty, of certificates in base64 (line
    breaks ignored). They are not verified and not used.
    """
    from cryptography import x509  # loaded by those who use it

    if not isinstance(chain, list):
        raise BuiltinError("failed to decode value for key x5c: expected JSON array")
    for text in chain:
        octets = to_bytes(text).translate(None, b"\r\n") if isinstance(text, str) else b""
        try:
            x509.load_der_x509_certificate(binascii.a2b_base64(octets, strict_mode=True))
        except (ValueError, x509.InvalidVersion):
            raise BuiltinError("failed to decode value for key x5c: not a certificate") from None


_BASE64: Final = re.compile(rb"[A-Za-z0-9_-]+={0,2}|[A-Za-z0-9+/]+={0,2}")
_STANDARD: Final = bytes.maketrans(b"-_", b"+/")


def _octets(key: Mapping[Any, Any], name: str) -> bytes:
    """The bytes of a required field in base64, URL-safe or standard, with or without padding, line
    breaks ignored. BuiltinError if it is absent or null, not a string, or invalid.
    """
    text = key.get(name)
    if text is None:
        raise BuiltinError(f"required field {name} is missing")
    octets = to_bytes(text) if isinstance(text, str) else b""
    is_padded = octets.endswith(b"=")
    octets = octets.translate(None, b"\r\n")
    digits = octets.rstrip(b"=").translate(_STANDARD)
    is_complete = len(octets) % 4 == 0 if is_padded else digits == octets.translate(_STANDARD)
    if not _BASE64.fullmatch(octets) or not is_complete or len(digits) % 4 == 1:
        raise BuiltinError(f"failed to decode value for key {name}: expected base64 in the JWK")
    return binascii.a2b_base64(digits + b"=" * (-len(digits) % 4))


def _integer(key: Mapping[Any, Any], name: str) -> int:
    return int.from_bytes(_octets(key, name), "big")


def _symmetric(key: Mapping[Any, Any]) -> bytes:
    return _octets(key, "k")


def _rsa(key: Mapping[Any, Any]) -> Any:
    """Return the RSA key of a JWK, private if it has `d`; `USELESS` for a public key that no
    signature can match (the exponent is 1, or the numbers are not those of a key). BuiltinError for
    a missing or invalid field, a modulus or exponent of 0, an exponent that is even or above
    `MAX_EXPONENT_BITS`, or numbers of a private key that do not fit each other; LimitError above
    `MAX_RSA_BITS`, or above `MAX_FACTORED_BITS` for a private key without its factors.
    """
    from cryptography.hazmat.primitives.asymmetric import rsa  # loaded by those who use it

    public = rsa.RSAPublicNumbers(_integer(key, "e"), _integer(key, "n"))
    if public.e.bit_length() > MAX_EXPONENT_BITS:
        raise BuiltinError("rsa public exponent too large for this platform")
    for name, number in (("n", public.n), ("e", public.e)):
        if number == 0:
            raise BuiltinError(f'missing "{name}" value')
    if public.e % 2 == 0:
        raise BuiltinError("invalid rsa public exponent: must be a positive odd integer")
    if public.e == 1 and "d" not in key:
        return USELESS
    if public.n.bit_length() > MAX_RSA_BITS:
        raise LimitError(f"RSA key is longer than {MAX_RSA_BITS} bits")
    if "d" not in key:
        try:
            return public.public_key()
        except ValueError:
            return USELESS  # nothing is signed by it, and other keys of a set are as good
    try:
        d = _integer(key, "d")
        if "p" in key and "q" in key:
            p, q = _integer(key, "p"), _integer(key, "q")
        elif public.n.bit_length() > MAX_FACTORED_BITS:
            raise LimitError(f"RSA key has more than {MAX_FACTORED_BITS} bits and no `p` and `q`")
        else:
            p, q = rsa.rsa_recover_prime_factors(public.n, public.e, d)
        computed = {
            "dp": rsa.rsa_crt_dmp1(d, p),
            "dq": rsa.rsa_crt_dmq1(d, q),
            "qi": rsa.rsa_crt_iqmp(p, q),
        }
        if any(name in key and _integer(key, name) != computed[name] for name in computed):
            raise BuiltinError("invalid RSA key")
        numbers = rsa.RSAPrivateNumbers(
            p, q, d, computed["dp"], computed["dq"], computed["qi"], public
        )
        if not is_rsa_key(numbers):
            raise BuiltinError("invalid RSA key")
        return numbers.private_key(unsafe_skip_rsa_key_validation=True)
    except (ValueError, ZeroDivisionError):
        raise BuiltinError("invalid RSA key") from None


def is_rsa_key(numbers: Any) -> bool:
    """Return True if the numbers of a private RSA key fit each other. Its factors are not tested
    for primality, as in Go: that would take cryptography a quarter of a second at 4096 bits, and
    minutes at `MAX_RSA_BITS`.
    """
    p, q, d = numbers.p, numbers.q, numbers.d
    n, e = numbers.public_numbers.n, numbers.public_numbers.e
    if min(p, q) < 3 or e < 3 or not (n & e & p & q & 1) or p * q != n:
        return False
    exponents = (numbers.dmp1, numbers.dmq1) == (d % (p - 1), d % (q - 1))
    inverse = d * e % (p - 1) == 1 and d * e % (q - 1) == 1 and numbers.iqmp * q % p == 1
    return exponents and inverse


def _elliptic(key: Mapping[Any, Any]) -> Any:
    """The EC key of a JWK, private if it has `d`. BuiltinError for a missing or invalid field, an
    unknown curve, coordinates of the wrong length, a point that is not on the curve, or a `d` that
    does not fit it.
    """
    from cryptography.hazmat.primitives.asymmetric import ec  # loaded by those who use it

    curve, size = _CURVES.get(_optional(key, "crv"), ("", 0))
    if not curve:
        raise BuiltinError(f"invalid elliptic curve {_optional(key, 'crv')}")
    for name in ("x", "y"):
        if len(_octets(key, name)) != size:
            raise BuiltinError(f"invalid {name} length for curve {key['crv']}")
    try:
        numbers = ec.EllipticCurvePublicNumbers(
            _integer(key, "x"), _integer(key, "y"), getattr(ec, curve)()
        )
        if "d" not in key:
            return numbers.public_key()
        return ec.EllipticCurvePrivateNumbers(_integer(key, "d"), numbers).private_key()
    except ValueError:
        raise BuiltinError("invalid elliptic curve key") from None


def _octet_pair(key: Mapping[Any, Any]) -> Any:
    """The Ed25519 key of a JWK, private if it has `d`; `USELESS` for a public X25519 key, which
    signs nothing. BuiltinError for other keys, such as a private X25519 key, for a missing or
    invalid field, or if `d` and `x` do not fit each other.
    """
    from cryptography.hazmat.primitives.asymmetric import ed25519  # loaded by those who use it

    curve = _optional(key, "crv")
    if curve == "X25519" and "d" not in key and len(_octets(key, "x")) == X25519_SIZE:
        return USELESS
    if curve != "Ed25519":
        raise BuiltinError(f"invalid OKP curve {curve}")
    try:
        if "d" not in key:
            return ed25519.Ed25519PublicKey.from_public_bytes(_octets(key, "x"))
        private = ed25519.Ed25519PrivateKey.from_private_bytes(_octets(key, "d"))
    except ValueError:
        raise BuiltinError("invalid OKP key") from None
    if private.public_key().public_bytes_raw() != _octets(key, "x"):
        raise BuiltinError("invalid OKP key")
    return private


_KINDS: Final[dict[str, Callable[[Mapping[Any, Any]], Any]]] = {
    "EC": _elliptic,
    "OKP": _octet_pair,
    "RSA": _rsa,
    "oct": _symmetric,
}
