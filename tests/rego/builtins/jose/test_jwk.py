"""Keys of every kind: what is signed with the private one verifies with the public one."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from doorward.rego.builtins import REGISTRY, Context, Environment
from doorward.rego.builtins.jose.jwk import USELESS, parse_key_set, verification_keys
from doorward.rego.errors import BuiltinError, LimitError


def number(value: int, size: int = 0) -> str:
    octets = value.to_bytes(size or (value.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


def rsa_jwk(bits: int = 2048) -> tuple[Any, dict[str, str]]:
    key = rsa.generate_private_key(65537, bits)
    n = key.private_numbers()
    public = {"kty": "RSA", "n": number(n.public_numbers.n), "e": "AQAB"}
    return key, {**public, "d": number(n.d), "p": number(n.p), "q": number(n.q)}


def ec_jwk(curve: ec.EllipticCurve, name: str) -> tuple[Any, dict[str, str]]:
    key = ec.generate_private_key(curve)
    n = key.private_numbers()
    size = (curve.key_size + 7) // 8
    point = n.public_numbers
    private = {"x": number(point.x, size), "y": number(point.y, size)}
    return key, {"kty": "EC", "crv": name, **private, "d": number(n.private_value, size)}


def okp_jwk() -> tuple[Any, dict[str, str]]:
    key = ed25519.Ed25519PrivateKey.generate()
    x = number(int.from_bytes(key.public_key().public_bytes_raw(), "big"), 32)
    d = number(int.from_bytes(key.private_bytes_raw(), "big"), 32)
    return key, {"kty": "OKP", "crv": "Ed25519", "x": x, "d": d}


RSA, RSA_JWK = rsa_jwk()
PAIRS = {
    **{f"{family}{size}": (RSA, RSA_JWK) for family in ("RS", "PS") for size in (256, 384, 512)},
    "ES256": ec_jwk(ec.SECP256R1(), "P-256"),
    "ES384": ec_jwk(ec.SECP384R1(), "P-384"),
    "ES512": ec_jwk(ec.SECP521R1(), "P-521"),
    "EdDSA": okp_jwk(),
}


def sign(algorithm: str, jwk: dict[str, str], **header: Any) -> str:
    token: str = REGISTRY["io.jwt.encode_sign"].call({"alg": algorithm, **header}, {"a": 1}, jwk)
    return token


def verify(algorithm: str, token: str, keys: str) -> Any:
    return REGISTRY[f"io.jwt.verify_{algorithm.lower()}"].call(Context(Environment()), token, keys)


def public(jwk: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in jwk.items() if name not in {"d", "p", "q"}}


@pytest.mark.parametrize("algorithm", PAIRS)
def test_what_the_private_key_signs_the_public_key_verifies(algorithm: str) -> None:
    key, jwk = PAIRS[algorithm]
    token = sign(algorithm, jwk)
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    for keys in (pem, json.dumps(public(jwk)), json.dumps({"keys": [public(jwk)]})):
        assert verify(algorithm, token, keys) is True
        header, payload, signature = token.split(".")
        assert verify(algorithm, f"{header}.{payload}x.{signature}", keys) is False
        assert verify(algorithm, f"{header}.{payload}.", keys) is False


@pytest.mark.parametrize("missing", [{"p"}, {"q"}, {"p", "q"}])
def test_an_rsa_key_needs_its_factors_to_sign(missing: set[str]) -> None:
    jwk = {name: value for name, value in RSA_JWK.items() if name not in missing}
    keys: list[Any] = [jwk, {"keys": [jwk]}]
    for key in keys:
        with pytest.raises(BuiltinError, match=f'missing "{min(missing)}" value'):
            sign("RS256", key)


def test_the_key_that_the_token_names_is_the_only_one_tried() -> None:
    other = rsa_jwk()[1]
    keys = [{**public(other), "kid": "a"}, {**public(RSA_JWK), "kid": "b"}]
    text = json.dumps({"keys": keys})
    assert verify("RS256", sign("RS256", RSA_JWK, kid="b"), text) is True
    assert verify("RS256", sign("RS256", RSA_JWK, kid="a"), text) is False
    assert verify("RS256", sign("RS256", RSA_JWK), text) is True


def test_a_key_for_another_algorithm_is_not_tried() -> None:
    for algorithm, valid in [("RS256", True), ("RS512", False)]:
        text = json.dumps({"keys": [{**public(RSA_JWK), "alg": algorithm}]})
        assert verify("RS256", sign("RS256", RSA_JWK), text) is valid


def test_parsed_keys_are_kept() -> None:
    text = json.dumps(public(RSA_JWK))
    assert verification_keys(text) is verification_keys(text)


P256 = PAIRS["ES256"][1]
OKP = PAIRS["EdDSA"][1]


@pytest.mark.parametrize(
    "keys",
    [
        [],
        "x",
        {"keys": 1},
        {"keys": [1]},
        {"kty": "x"},
        {"kty": 1},
        {"kty": "RSA", "n": "AQAB"},
        {"kty": "RSA", "n": "*", "e": "AQAB"},
        {"kty": "RSA", "n": "A", "e": "AQAB"},
        {"kty": "RSA", "n": 1, "e": "AQAB"},
        {**public(RSA_JWK), "kid": 1},
        {**public(P256), "crv": "P-1"},
        {**public(P256), "x": "AQ"},
        {**public(OKP), "crv": "X448"},
        {**public(OKP), "x": "AQ"},
        {**OKP, "x": okp_jwk()[1]["x"]},
        {**RSA_JWK, "d": "AQ"},
    ],
)
def test_what_is_no_key_is_an_error_without_its_material(keys: Any) -> None:
    with pytest.raises(BuiltinError) as caught:
        parse_key_set(json.dumps(keys))
    assert str(caught.value).startswith("jwk.Parse: ")
    assert RSA_JWK["d"] not in str(caught.value)


READ = public(RSA_JWK)
CERTIFICATE = base64.b64encode(b"no certificate").decode()
MEMBERS: list[tuple[dict[str, Any], bool]] = [
    ({"kid": None, "use": None, "key_ops": None, "x5u": None, "x5t": "", "x5c": []}, True),
    ({"alg": "A128GCM", "use": "any", "key_ops": ["verify", None, "x"], "other": 1}, True),
    ({"n": READ["n"][:5] + "\r\n" + READ["n"][5:] + "\n"}, True),
    ({"n": READ["n"] + "=" * (-len(READ["n"]) % 4)}, True),
    ({"n": READ["n"].replace("-", "+").replace("_", "/")}, True),
    ({"e": "f_________8"}, True),
    ({"alg": None}, False),
    ({"alg": ""}, False),
    ({"alg": "hs256"}, False),
    ({"use": 1}, False),
    ({"x5u": []}, False),
    ({"x5t": 1}, False),
    ({"x5t#S256": {}}, False),
    ({"key_ops": "verify"}, False),
    ({"key_ops": [1]}, False),
    ({"x5c": None}, False),
    ({"x5c": "AA=="}, False),
    ({"x5c": [None]}, False),
    ({"x5c": ["AA"]}, False),
    ({"x5c": [CERTIFICATE]}, False),
    ({"n": READ["n"] + "="}, False),
    ({"n": READ["n"] + "=" * (-len(READ["n"]) % 4) + "\n"}, False),
    ({"n": "+" + READ["n"][:40] + "--"}, False),
    ({"e": "AQAB="}, False),
    ({"e": "AQAAAAAAAAAB"}, False),
    ({"keys": None}, False),
]


@pytest.mark.parametrize(("members", "is_read"), MEMBERS)
def test_each_member_of_a_key_is_read_as_opa_reads_it(
    members: dict[str, Any], is_read: bool
) -> None:
    """By the answers of OPA 1.20.2: one key that cannot be read makes its whole set unreadable."""
    key = {**READ, **members}
    for document in (key, {"keys": [READ, key]} if "keys" not in members else key):
        if is_read:
            verification_keys(json.dumps(document))
        else:
            with pytest.raises(BuiltinError, match="failed to parse a JWK key"):
                verification_keys(json.dumps(document))


@pytest.mark.parametrize("octets", [b"\0", b"\0\0\0"])
def test_coordinates_have_the_length_of_their_curve(octets: bytes) -> None:
    point = public(P256)
    x = octets + base64.urlsafe_b64decode(point["x"] + "=")
    longer = {**point, "x": base64.urlsafe_b64encode(x).rstrip(b"=").decode()}
    with pytest.raises(BuiltinError, match="length"):
        verification_keys(json.dumps(longer))


def test_a_point_that_is_not_on_its_curve_is_no_key() -> None:
    point = public(P256)
    with pytest.raises(BuiltinError, match="invalid elliptic curve key"):
        verification_keys(json.dumps({**point, "y": point["x"]}))


@pytest.mark.parametrize("n", ["AQ", "Ag", "Dw"])
def test_a_modulus_of_no_key_verifies_nothing_and_hides_no_other(n: str) -> None:
    keys = {"keys": [{"kty": "RSA", "n": n, "e": "AQAB"}, public(RSA_JWK)]}
    useless, good = verification_keys(json.dumps(keys))
    assert useless.material is USELESS
    assert good.material is not USELESS


@pytest.mark.parametrize(
    ("n", "e", "message"),
    [
        ("AA", "AQAB", 'missing "n" value'),
        ("AQ", "AAA", 'missing "e" value'),
        ("AQ", "Ag", "must be a positive odd integer"),
    ],
)
def test_numbers_that_are_no_rsa_key_are_refused(n: str, e: str, message: str) -> None:
    keys = {"keys": [{"kty": "RSA", "n": n, "e": e}, public(RSA_JWK)]}
    with pytest.raises(BuiltinError, match=message):
        verification_keys(json.dumps(keys))


def test_a_key_for_agreement_verifies_nothing() -> None:
    (key,) = verification_keys(json.dumps({**public(OKP), "crv": "X25519"}))
    assert key.material is USELESS


def test_key_material_is_bounded() -> None:
    with pytest.raises(LimitError, match="more than 1000 keys"):
        parse_key_set(json.dumps({"keys": [public(RSA_JWK)] * 1001}))
    with pytest.raises(LimitError, match="longer than 16384 bits"):
        parse_key_set(json.dumps({"kty": "RSA", "n": number(1 << 16_500), "e": "AQAB"}))
    with pytest.raises(LimitError, match="longer than"):
        verification_keys(" " * (4 * 1024 * 1024 + 1))


@pytest.mark.parametrize(
    ("algorithm", "jwk"),
    [("RS256", P256), ("PS256", OKP), ("ES256", RSA_JWK), ("EdDSA", RSA_JWK), ("HS256", RSA_JWK)],
)
def test_an_algorithm_signs_with_its_own_kind_of_key_only(
    algorithm: str, jwk: dict[str, str]
) -> None:
    with pytest.raises(BuiltinError, match=f"{algorithm} needs a"):
        sign(algorithm, jwk)


def test_nothing_is_signed_with_an_empty_set() -> None:
    with pytest.raises(BuiltinError, match="the key set is empty"):
        REGISTRY["io.jwt.encode_sign_raw"].call('{"alg": "HS256"}', "{}", '{"keys": []}')


def test_an_rsa_key_whose_numbers_do_not_fit_signs_nothing() -> None:
    other = rsa_jwk()[1]
    for name in ("p", "q", "d"):
        with pytest.raises(BuiltinError, match="invalid RSA key"):
            sign("RS256", {**RSA_JWK, name: other[name]})


def test_factors_of_a_large_rsa_key_are_not_computed() -> None:
    large = number((1 << 5000) + 1, 626)
    with pytest.raises(LimitError, match="4096 bits and no `p`"):
        sign("RS256", {"kty": "RSA", "n": large, "e": "AQAB", "d": large})


@pytest.mark.parametrize("algorithm", ["none", "RSA-OAEP", "ES256K", "A128KW", "Ed25519"])
@pytest.mark.parametrize("kid", [{}, {"kid": "one"}])
def test_a_key_that_is_not_for_signatures_verifies_nothing(
    algorithm: str, kid: dict[str, str]
) -> None:
    """OPA 1.20.2: neither by its name nor by the algorithm of the token's header."""
    key = {**public(RSA_JWK), **kid}
    token = sign("RS256", RSA_JWK, **kid)
    other = {**key, "alg": algorithm}
    assert verify("RS256", token, json.dumps(key)) is True
    assert verify("RS256", token, json.dumps(other)) is False
    assert verify("RS256", token, json.dumps({"keys": [other, public(RSA_JWK)]})) is True


@pytest.mark.parametrize("algorithm", PAIRS)
def test_a_private_key_verifies_where_claims_are_checked_alone(algorithm: str) -> None:
    """OPA 1.20.2: `decode_verify` takes its public part, and `verify_rs256` nothing."""
    private = PAIRS[algorithm][1]
    token = sign(algorithm, private)
    assert verify(algorithm, token, json.dumps(private)) is False

    def is_valid(text: str) -> Any:
        decode_verify = REGISTRY["io.jwt.decode_verify"]
        context = Context(Environment(), now_ns=0)
        return decode_verify.call(context, text, {"cert": json.dumps(private)})[0]

    assert is_valid(token) is True
    assert is_valid(f"{token[:-8]}AAAAAAAA") is False


@pytest.mark.parametrize("curve", [ec.SECP256K1(), ec.BrainpoolP256R1()])
def test_a_pem_key_of_a_curve_that_is_not_of_nist_is_refused(curve: ec.EllipticCurve) -> None:
    """As in OPA, whose libraries do not know it."""
    key = ec.generate_private_key(curve).public_key()
    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    with pytest.raises(BuiltinError, match="unsupported elliptic curve"):
        verification_keys(pem)


@pytest.mark.parametrize("name", ["dp", "dq", "qi"])
@pytest.mark.parametrize("value", ["AQAB", 1, None])
def test_a_private_key_whose_exponents_do_not_fit_signs_nothing(name: str, value: Any) -> None:
    with pytest.raises(BuiltinError, match=r"invalid RSA key|value for key|is missing"):
        parse_key_set(json.dumps({**RSA_JWK, name: value}))


@pytest.mark.parametrize("algorithm", ["ES256", "ES384", "ES512"])
def test_the_numbers_of_a_signature_are_as_long_as_the_curve(algorithm: str) -> None:
    """OPA 1.20.2: `decode_verify` wants that, `verify_es256` takes zeros in front of them."""
    private = PAIRS[algorithm][1]
    signed, _, text = sign(algorithm, private).rpartition(".")
    signature = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    half = len(signature) // 2
    longer = b"\0" + signature[:half] + b"\0" + signature[half:]
    shown = base64.urlsafe_b64encode(longer).rstrip(b"=").decode()
    keys = json.dumps(public(private))
    decode_verify = REGISTRY["io.jwt.decode_verify"]
    for token, is_valid in ((f"{signed}.{text}", True), (f"{signed}.{shown}", False)):
        assert verify(algorithm, token, keys) is True
        context = Context(Environment(), now_ns=0)
        assert decode_verify.call(context, token, {"cert": keys})[0] is is_valid


def test_a_token_may_name_the_curve_of_eddsa() -> None:
    """OPA 1.20.2, RFC 9864."""
    key, private = PAIRS["EdDSA"]
    header = base64.urlsafe_b64encode(b'{"alg": "Ed25519"}').rstrip(b"=").decode()
    signature = base64.urlsafe_b64encode(key.sign(f"{header}.e30".encode())).rstrip(b"=").decode()
    decode_verify = REGISTRY["io.jwt.decode_verify"]
    context, keys = Context(Environment(), now_ns=0), {"cert": json.dumps(public(private))}
    assert decode_verify.call(context, f"{header}.e30.{signature}", keys)[0] is True
    assert decode_verify.call(context, f"{header}.e30.AA", keys)[0] is False


@pytest.mark.parametrize(
    ("names", "is_read"),
    [
        ({"KTY": "RSA"}, True),
        ({"kty": "RSA", "Kty": "RSA"}, True),
        ({"kty": "RSA", "KTY": "x"}, False),
    ],
)
def test_the_kind_of_a_key_is_found_in_any_case(names: dict[str, str], is_read: bool) -> None:
    """OPA 1.20.2."""
    key = names | {name: RSA_JWK[name] for name in ("n", "e")}
    token = sign("RS256", RSA_JWK)
    if is_read:
        assert verify("RS256", token, json.dumps({"keys": [key]})) is True
    else:
        with pytest.raises(BuiltinError, match="invalid key type"):
            verify("RS256", token, json.dumps({"keys": [public(RSA_JWK), key]}))
