"""X.509 certificates and keys: parsed into objects, chains verified.

Input is PEM, or base64 of PEM or of DER. The objects are those of `x509.objects`, verification is
`x509.chain`, at the time of the clock or the one given. Bounds: `MAX_TEXT` characters,
`MAX_CERTIFICATES` certificates, `MAX_KEYS` keys of `MAX_KEY` bytes; long texts are read with an
eye on the clock.
"""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from doorward.rego.builtins.encoding import base64_bytes
from doorward.rego.builtins.jose.jwk import is_rsa_key
from doorward.rego.builtins.registry import builtin, refuse_as_first
from doorward.rego.builtins.registry.context import Context
from doorward.rego.builtins.registry.signature import any_, array, boolean, object_, string, tuple_
from doorward.rego.builtins.x509 import pem
from doorward.rego.builtins.x509.chain import Options, Unverified, verified_chain
from doorward.rego.builtins.x509.der import read, read_all
from doorward.rego.builtins.x509.objects import (
    certificate_fields,
    certificate_object,
    request_object,
)
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang.octets import from_bytes
from doorward.rego.numbers import exact
from doorward.rego.values import Key, Value, iterate, sorted_keys

MAX_TEXT: Final = 4 * 1024 * 1024
MAX_CERTIFICATES: Final = 100
MAX_KEYS: Final = 100
MAX_KEY: Final = 16 * 1024
_USUAL: Final = 16
"""How many times `LONG` a text is from which it is watched: short ones come with each request."""

Object = dict[Key, Value]
_OBJECT: Final = object_(string, any_)
_BEGIN: Final = "-----BEGIN"
_MALFORMED: Final = "x509: malformed certificate"


@builtin("crypto.x509.parse_certificates", string, returns=array(_OBJECT), context=True)
def crypto_x509_parse_certificates(context: Context, certs: str) -> list[Value]:
    """The objects of one or more certificates."""
    with context.watching(len(certs) // _USUAL):
        return [_certificate(octets, uri_strings=True) for octets in _certificates(certs)]


def _certificate(octets: bytes, *, uri_strings: bool) -> Object:
    try:
        return certificate_object(octets, uri_strings=uri_strings)
    except (ValueError, IndexError):
        raise BuiltinError(_MALFORMED) from None


def _bounded(text: str) -> str:
    if len(text) > MAX_TEXT:
        raise LimitError(f"longer than {MAX_TEXT} characters")
    return text


def _certificates(text: str) -> list[bytes]:
    """The DER of each certificate."""
    if not _bounded(text).startswith(_BEGIN):
        octets = base64_bytes(text)
        if not octets.startswith(_BEGIN.encode()):
            return _split(octets)
        text = from_bytes(octets)
    blocks, _ = pem.decode_all(text)
    for block in blocks:
        if block.label != "CERTIFICATE":
            raise BuiltinError(f"PEM block type is '{block.label}', expected CERTIFICATE")
    return _split(b"".join([block.octets for block in blocks]))


def _split(octets: bytes) -> list[bytes]:
    try:
        found = [element.raw for element in islice(read_all(octets), MAX_CERTIFICATES + 1)]
    except ValueError:
        raise BuiltinError(_MALFORMED) from None
    if len(found) > MAX_CERTIFICATES:
        raise LimitError(f"more than {MAX_CERTIFICATES} certificates")
    for der in found:
        _certificate(der, uri_strings=False)
    return found


_VERIFIED: Final = tuple_(boolean, array(_OBJECT))


@builtin(
    "crypto.x509.parse_and_verify_certificates",
    string,
    returns=_VERIFIED,
    context=True,
    pure=False,
)
def crypto_x509_parse_and_verify_certificates(context: Context, certs: str) -> list[Value]:
    """`[true, chain]` from the last certificate to the first, the root, or `[false, []]`."""
    return _verified(context, certs, lambda: Options(_now(context)), uri_strings=True)


@builtin(
    "crypto.x509.parse_and_verify_certificates_with_options",
    string,
    _OBJECT,
    returns=_VERIFIED,
    context=True,
    pure=False,
)
def crypto_x509_parse_and_verify_certificates_with_options(
    context: Context, certs: str, options: Object
) -> list[Value]:
    """As without options: CurrentTime (nanoseconds), DNSName, KeyUsages."""
    return _verified(context, certs, lambda: _options(options, _now(context)), uri_strings=False)


def _now(context: Context) -> int:
    """Seconds by the clock: a policy's idea of the time does not make a certificate valid."""
    return context.environment.clock() // 1_000_000_000


def _verified(
    context: Context, certs: str, options: Callable[[], Options], *, uri_strings: bool
) -> list[Value]:
    with context.watching(len(certs) // _USUAL):
        try:
            found = _certificates(certs)
        except BuiltinError:
            return [False, []]
        wanted = options()
        if len(found) < 2:
            return [False, []]
        try:
            fields = [certificate_fields(octets) for octets in found]
            chain = verified_chain(fields, wanted, context.check_deadline)
        except (Unverified, ValueError):
            return [False, []]
        return [True, [_certificate(found[n], uri_strings=uri_strings) for n in chain]]


_PURPOSES: Final = (
    "KeyUsageAny",
    "KeyUsageServerAuth",
    "KeyUsageClientAuth",
    "KeyUsageCodeSigning",
    "KeyUsageEmailProtection",
    "KeyUsageIPSECEndSystem",
    "KeyUsageIPSECTunnel",
    "KeyUsageIPSECUser",
    "KeyUsageTimeStamping",
    "KeyUsageOCSPSigning",
    "KeyUsageMicrosoftServerGatedCrypto",
    "KeyUsageNetscapeServerGatedCrypto",
    "KeyUsageMicrosoftCommercialCodeSigning",
    "KeyUsageMicrosoftKernelCodeSigning",
)


def _options(given: Object, now: int) -> Options:
    name, purposes = "", Options(now).purposes
    for key in sorted_keys(given):
        value = given[key]
        if key == "DNSName":
            if not isinstance(value, str):
                raise BuiltinError("'DNSName' should be a string")
            name = value
        elif key == "CurrentTime":
            now = _whole("CurrentTime", value) // 1_000_000_000
        elif key == "MaxConstraintComparisons":
            _whole("MaxConstraintComparisons", value)
        elif key == "KeyUsages":
            purposes = _purposes(value) or purposes
        else:
            raise BuiltinError("invalid key option")
    return Options(now, name, purposes)


def _whole(name: str, value: Value) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BuiltinError(f"'{name}' should be a number")
    number = exact(value)
    if not isinstance(number, int):
        raise BuiltinError(f"'{name}' should be a valid int64 number")
    return number


def _purposes(value: Value) -> tuple[int, ...]:
    if not isinstance(value, (list, frozenset)):
        raise BuiltinError("'KeyUsages' should be an Array or Set")
    names = [item for _, item in iterate(value)]
    wrong = [str(name) for name in names if name not in _PURPOSES]
    if wrong:
        shown = " ".join(wrong)
        raise BuiltinError(f"invalid entries for 'KeyUsages' found: [{shown}]")
    return tuple(_PURPOSES.index(str(name)) for name in names)


@builtin("crypto.x509.parse_certificate_request", string, returns=_OBJECT, context=True)
def crypto_x509_parse_certificate_request(context: Context, csr: str) -> Object:
    """The object of a certificate request."""
    with context.watching(len(csr) // _USUAL):
        return _request(_bounded(csr))


def _request(text: str) -> Object:
    octets = b""
    if not text.startswith("-----BEGIN CERTIFICATE REQUEST-----"):
        octets = base64_bytes(text)
        text = from_bytes(octets)
    block, _ = pem.decode(text)
    if block is not None and block.label != "CERTIFICATE REQUEST":
        raise BuiltinError("invalid PEM-encoded certificate signing request")
    try:
        return request_object(block.octets if block else octets)
    except (ValueError, IndexError) as error:
        raise BuiltinError(f"asn1: structure error: {error}") from None


@builtin(
    "crypto.x509.parse_keypair",
    string,
    string,
    returns=_OBJECT,
    context=True,
    refuse=refuse_as_first,
)
def crypto_x509_parse_keypair(context: Context, cert: str, pem: str) -> Object:
    """The object of a certificate chain and the private key of its first certificate."""
    with context.watching((len(cert) + len(pem)) // _USUAL):
        return _pair(cert, pem)


def _pair(cert: str, pem: str) -> Object:
    certificates = _certificates(cert)
    if not certificates:
        raise BuiltinError("tls: failed to find any PEM data in certificate input")
    leaf = _certificate(certificates[0], uri_strings=False)
    keys = [block for block in _blocks(pem) if block.label.endswith("PRIVATE KEY")]
    if not keys:
        raise BuiltinError("tls: failed to find any PEM data in key input")
    key = _load_private(keys[0])
    public = _public_numbers(key)
    if type(public) is not type(leaf["PublicKey"]) or _kind(public) != _kind(leaf["PublicKey"]):
        raise BuiltinError("tls: private key type does not match public key type")
    if public != leaf["PublicKey"]:
        raise BuiltinError("tls: private key does not match public key")
    return {
        "Certificate": [b64encode(octets).decode() for octets in certificates],
        "PrivateKey": _private_object(key),
        "SupportedSignatureAlgorithms": None,
        "OCSPStaple": None,
        "SignedCertificateTimestamps": None,
        "Leaf": leaf,
    }


def _kind(public: Value) -> list[str]:
    return sorted(map(str, public)) if isinstance(public, dict) else []


def _blocks(text: str) -> list[pem.Block]:
    if not _bounded(text).startswith(_BEGIN):
        text = from_bytes(base64_bytes(text))
    return pem.decode_all(text)[0]


@builtin("crypto.x509.parse_rsa_private_key", string, returns=_OBJECT)
def crypto_x509_parse_rsa_private_key(pem: str) -> Value:
    """A private key (of any kind, despite the name) as a JWK; null for text without one."""
    if not pem:
        raise BuiltinError("input PEM data was empty")
    blocks = [block for block in _blocks(pem) if block.label.endswith("PRIVATE KEY")]
    return _jwk(_load_private(blocks[0])) if blocks else None


@builtin("crypto.parse_private_keys", string, returns=array(_OBJECT))
def crypto_parse_private_keys(keys: str) -> Value:
    """The objects of all private keys in PEM, or base64 of PEM; what is none is left out."""
    if not keys:
        return None
    try:
        blocks = _blocks(keys)
    except BuiltinError:
        return []
    found = [block for block in blocks if block.label.endswith("PRIVATE KEY")]
    if len(found) > MAX_KEYS:
        raise LimitError(f"more than {MAX_KEYS} private keys")
    return [_private_object(_load_private(block)) for block in found]


def _load_private(block: pem.Block) -> Any:
    # only policies that handle private keys need it
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    try:
        if len(block.octets) > MAX_KEY:
            raise ValueError("too long")
        read(block.octets)
        key = load_der_private_key(block.octets, None, unsafe_skip_rsa_key_validation=True)
        if isinstance(key, RSAPrivateKey) and not is_rsa_key(key.private_numbers()):
            raise ValueError("numbers that do not fit")
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BuiltinError("tls: failed to parse private key") from None
    return key


def _public_numbers(key: Any) -> Value:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa  # loaded by now

    public = key.public_key()
    if isinstance(public, rsa.RSAPublicKey):
        numbers = public.public_numbers()
        return {"N": numbers.n, "E": numbers.e}
    if isinstance(public, ec.EllipticCurvePublicKey):
        point = public.public_numbers()
        return {"Curve": {}, "X": point.x, "Y": point.y}
    return b64encode(public.public_bytes_raw()).decode()


def _private_object(key: Any) -> Value:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa  # loaded by now

    public = _public_numbers(key)
    if isinstance(key, rsa.RSAPrivateKey) and isinstance(public, dict):
        n = key.private_numbers()
        return {
            **public,
            "D": n.d,
            "Primes": [n.p, n.q],
            "Precomputed": {"Dp": n.dmp1, "Dq": n.dmq1, "Qinv": n.iqmp, "CRTValues": []},
        }
    if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(public, dict):
        return {**public, "D": key.private_numbers().private_value}
    if isinstance(key, ed25519.Ed25519PrivateKey):
        raw = key.private_bytes_raw() + key.public_key().public_bytes_raw()
        return b64encode(raw).decode()
    raise BuiltinError("tls: found unknown private key type")


def _jwk(key: Any) -> Value:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa  # loaded by now

    if isinstance(key, rsa.RSAPrivateKey):
        n = key.private_numbers()
        public = n.public_numbers
        numbers = {"n": public.n, "e": public.e, "d": n.d, "p": n.p, "q": n.q}
        numbers |= {"dp": n.dmp1, "dq": n.dmq1, "qi": n.iqmp}
        jwk: Object = {"kty": "RSA"}
        jwk.update({name: _number(value) for name, value in numbers.items()})
        return jwk
    if isinstance(key, ec.EllipticCurvePrivateKey):
        private = key.private_numbers()
        point = private.public_numbers
        size = (key.curve.key_size + 7) // 8
        coordinates = {"x": point.x, "y": point.y, "d": private.private_value}
        curve = f"P-{key.curve.key_size}"
        parts = {name: _number(value, size) for name, value in coordinates.items()}
        return {"kty": "EC", "crv": curve, "x": parts["x"], "y": parts["y"], "d": parts["d"]}
    if isinstance(key, ed25519.Ed25519PrivateKey):
        d, x = key.private_bytes_raw(), key.public_key().public_bytes_raw()
        return {"kty": "OKP", "crv": "Ed25519", "d": _unpadded(d), "x": _unpadded(x)}
    raise BuiltinError("unknown private key type")


def _number(value: int, size: int = 0) -> str:
    return _unpadded(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


def _unpadded(octets: bytes) -> str:
    return urlsafe_b64encode(octets).rstrip(b"=").decode()
