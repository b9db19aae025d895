"""Tokens, where the recorded answers are silent: attacks, the cache, the limits."""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import encodebytes, urlsafe_b64encode
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from tests.rego.builtins.calls import invoke

from doorward.rego.builtins import REGISTRY, Context, Environment
from doorward.rego.builtins.jose.token_cache import VerifiedTokens
from doorward.rego.builtins.tokens import MAX_ANSWERS
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.numbers import Number
from doorward.rego.values import Value

SECOND = 1_000_000_000
NOW = 1_700_000_000
SECRET: Value = {"kty": "oct", "k": "c2VjcmV0"}


@pytest.fixture(scope="module")
def public_pem() -> str:
    key = rsa.generate_private_key(65537, 2048).public_key()
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def context(now: int = NOW, tokens: VerifiedTokens | None = None) -> Context:
    return Context(Environment(tokens=tokens), now_ns=now * SECOND)


def sign(payload: dict[str, Any], key: Value = SECRET, **header: Any) -> str:
    token: str = REGISTRY["io.jwt.encode_sign"].call({"alg": "HS256", **header}, payload, key)
    return token


def decode_verify(at: Context, token: str, constraints: dict[str, Any]) -> Any:
    return REGISTRY["io.jwt.decode_verify"].call(at, token, constraints)


def encode(value: object) -> str:
    text: str = REGISTRY["base64url.encode_no_pad"].call(json.dumps(value))
    return text


def test_a_signed_token_verifies_with_its_secret_alone() -> None:
    token = sign({"sub": "bob"})
    assert decode_verify(context(), token, {"secret": "secret"})[0] is True
    assert decode_verify(context(), token, {"secret": "Secret"}) == [False, {}, {}]


def test_a_token_without_a_signature_is_never_valid(public_pem: str) -> None:
    for algorithm in ("none", "None", ""):
        token = f"{encode({'alg': algorithm})}.{encode({'sub': 'bob'})}."
        assert decode_verify(context(), token, {"secret": "secret"}) == [False, {}, {}]
        assert decode_verify(context(), token, {"cert": public_pem}) == [False, {}, {}]


def test_a_public_key_is_no_hmac_secret(public_pem: str) -> None:
    octets = REGISTRY["base64url.encode_no_pad"].call(public_pem)
    token = sign({"sub": "mallory"}, {"kty": "oct", "k": octets})
    assert decode_verify(context(), token, {"cert": public_pem}) == [False, {}, {}]
    for name in ("rs256", "ps256", "es256", "eddsa"):
        verify = REGISTRY[f"io.jwt.verify_{name}"]
        assert verify.call(context(), token, public_pem) is False


def test_a_shared_secret_verifies_no_asymmetric_token() -> None:
    token = f"{encode({'alg': 'RS256'})}.{encode({})}.{encode('x')}"
    assert decode_verify(context(), token, {"secret": "secret"}) == [False, {}, {}]


@pytest.mark.parametrize("cached", [False, True])
def test_a_token_holds_from_nbf_until_exp(cached: bool) -> None:
    tokens = VerifiedTokens() if cached else None
    token = sign({"nbf": NOW, "exp": NOW + 10})
    for now, valid in [(NOW, True), (NOW + 9, True), (NOW + 10, False), (NOW - 1, False)]:
        assert decode_verify(context(now, tokens), token, {"secret": "secret"})[0] is valid
    last = Context(Environment(tokens=tokens), now_ns=(NOW + 10) * SECOND - 10_000)
    assert decode_verify(last, token, {"secret": "secret"})[0] is True


@pytest.mark.parametrize(
    ("claims", "constraints"),
    [
        ({"exp": True, "iss": "me"}, {"iss": "you"}),
        ({"nbf": [], "aud": "x"}, {"aud": "y"}),
        ({"nbf": None, "exp": NOW - 1}, {}),
        ({"exp": "1"}, {}),
        ({"nbf": []}, {}),
    ],
)
def test_a_claim_that_is_not_a_number_is_an_error_where_nothing_before_it_refuses(
    claims: dict[str, Any], constraints: dict[str, Value]
) -> None:
    """Issuer, audience, end and begin, in this order, as OPA 1.20.2 asks."""
    token = sign(claims)
    if constraints or ("exp" in claims and claims["exp"] != "1"):
        assert decode_verify(context(), token, {"secret": "secret", **constraints})[0] is False
    else:
        with pytest.raises(BuiltinError):
            decode_verify(context(), token, {"secret": "secret"})


def test_the_cache_answers_only_for_the_same_key_and_constraints() -> None:
    tokens = VerifiedTokens()
    token = sign({"iss": "me"})
    first = decode_verify(context(tokens=tokens), token, {"secret": "secret"})
    assert decode_verify(context(tokens=tokens), token, {"secret": "secret"})[2] is first[2]
    assert decode_verify(context(tokens=tokens), token, {"secret": "other"})[0] is False
    strict = {"secret": "secret", "iss": "you"}
    assert decode_verify(context(tokens=tokens), token, strict)[0] is False
    assert decode_verify(context(tokens=tokens), token + "x", {"secret": "secret"})[0] is False
    assert REGISTRY["io.jwt.verify_hs384"].call(context(tokens=tokens), token, "secret") is False


def test_a_token_is_cached_for_a_few_sets_of_constraints() -> None:
    tokens = VerifiedTokens()
    names = [f"name{number}" for number in range(3 * MAX_ANSWERS)]
    token = sign({"aud": names})
    for name in [*names, *names]:
        constraints = {"secret": "secret", "aud": name}
        first = decode_verify(context(tokens=tokens), token, constraints)
        assert decode_verify(context(tokens=tokens), token, dict(constraints))[2] is first[2]
        entry, count = tokens.get(token), 0
        while entry is not None:
            entry, count = entry[-1], count + 1
        assert count <= MAX_ANSWERS
    assert len(tokens) == 1


def test_the_cache_answers_only_for_the_same_algorithm() -> None:
    tokens = VerifiedTokens()
    token = sign({})
    for size, valid in [(256, True), (384, False), (512, False), (256, True)]:
        verify = REGISTRY[f"io.jwt.verify_hs{size}"]
        assert verify.call(context(tokens=tokens), token, "secret") is valid


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512", "RS256"])
def test_a_token_of_another_algorithm_than_asked_for_is_not_valid(algorithm: str) -> None:
    constraints = {"secret": "secret", "alg": algorithm}
    assert decode_verify(context(), sign({}), constraints)[0] is (algorithm == "HS256")


def test_a_token_that_did_not_verify_is_not_kept() -> None:
    tokens = VerifiedTokens()
    decode_verify(context(tokens=tokens), sign({}), {"secret": "other"})
    REGISTRY["io.jwt.verify_hs256"].call(context(tokens=tokens), sign({}), "other")
    assert len(tokens) == 0


def test_a_time_of_its_own_is_not_cached() -> None:
    tokens = VerifiedTokens()
    token = sign({"exp": NOW})
    for time, valid in [(0, True), (NOW * SECOND, False)]:
        answer = decode_verify(context(tokens=tokens), token, {"secret": "secret", "time": time})
        assert answer[0] is valid
    assert len(tokens) == 0


@pytest.mark.parametrize("value", [["x"], {"x": 1}, 1, None, True])
def test_a_constraint_of_the_wrong_kind_is_an_error_with_a_cache_too(value: Any) -> None:
    for tokens in (None, VerifiedTokens()):
        with pytest.raises(BuiltinError, match="iss constraint: must be a string"):
            decode_verify(context(tokens=tokens), sign({}), {"secret": "secret", "iss": value})


def test_the_cache_is_bounded_and_keeps_what_is_used() -> None:
    tokens = VerifiedTokens(capacity=10)
    tokens.put(("mine",), 1)
    for n in range(1000):
        tokens.put((n,), n)
        assert tokens.get(("mine",)) == 1
        assert len(tokens) <= 10


def test_threads_that_fill_the_cache_at_the_same_time_drop_entries_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokens = VerifiedTokens(capacity=4)
    for name in "ab":
        tokens.put((name,), name)

    class Overtaken:
        """A lock that another thread gets first, which adds an entry."""

        def __enter__(self) -> None:
            monkeypatch.undo()
            tokens.put(("c",), "c")

        def __exit__(self, *_raised: object) -> None:
            """Nothing is held."""

    monkeypatch.setattr(tokens, "_lock", Overtaken())
    tokens.put(("d",), "d")
    assert len(tokens) == 4


def test_very_long_and_deeply_nested_tokens_are_refused() -> None:
    with pytest.raises(LimitError, match="longer than"):
        REGISTRY["io.jwt.decode"].call("a" * (1024 * 1024 + 1))
    token = sign({})
    for _ in range(10):
        header = encode({"alg": "HS256", "cty": "JWT"})
        token = f"{header}.{REGISTRY['base64url.encode_no_pad'].call(token)}."
    with pytest.raises(LimitError, match="more than 8 levels of nested JWTs"):
        REGISTRY["io.jwt.decode"].call(token)


def test_no_error_tells_a_key() -> None:
    with pytest.raises(BuiltinError) as caught:
        sign({}, {"kty": "oct", "k": "sécret"})
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_what_is_signed_verifies(algorithm: str) -> None:
    token = sign({"a": 1}, alg=algorithm)
    verify = REGISTRY[f"io.jwt.verify_{algorithm.lower()}"]
    assert verify.call(context(), token, "secret") is True
    assert verify.call(context(), token[:-2] + "AA", "secret") is False


def test_a_field_that_must_be_understood_and_is_not_makes_a_token_invalid() -> None:
    headers: list[dict[str, Any]] = [
        {"crit": ["b64"], "b64": False},
        {"crit": ["exp", "x"], "x": 1},
    ]
    for header in headers:
        assert decode_verify(context(), sign({}, **header), {"secret": "secret"})[0] is False
    token = sign({}, crit=["alg"])
    assert decode_verify(context(), token, {"secret": "secret"})[0] is True


def test_a_fraction_of_a_second_counts_as_written() -> None:
    token = REGISTRY["io.jwt.encode_sign_raw"].call(
        '{"alg": "HS256"}', '{"nbf": 1.5893857701234e+09}', '{"kty": "oct", "k": "c2VjcmV0"}'
    )
    for nanoseconds, valid in [(1589385770123400000, True), (1589385770123300000, False)]:
        constraints = {"secret": "secret", "time": nanoseconds}
        assert decode_verify(context(), token, constraints)[0] is valid


@pytest.mark.parametrize(
    ("crit", "text"),
    [("exp", "must be a list"), ([], "nonempty list"), (["exp", 1], "must be a list of strings")],
)
def test_a_list_of_critical_fields_is_one(crit: Any, text: str) -> None:
    with pytest.raises(BuiltinError, match=f"crit: .*{text}"):
        decode_verify(context(), sign({}, crit=crit), {"secret": "secret"})


def test_what_verified_once_is_remembered_for_its_key(public_pem: str) -> None:
    tokens = VerifiedTokens()
    token, at = sign({"a": 1}), context(tokens=tokens)
    for secret, valid in [("secret", True), ("secret", True), ("other", False)]:
        assert REGISTRY["io.jwt.verify_hs256"].call(at, token, secret) is valid
    assert len(tokens) == 1
    key = ec.generate_private_key(ec.SECP256R1())
    jwk = invoke("crypto.x509.parse_rsa_private_key", private_pem(key))
    signed = sign({"a": 1}, jwk, alg="ES256")
    public = public_of(key)
    for pem, valid in [(public, True), (public, True)]:
        assert REGISTRY["io.jwt.verify_es256"].call(at, signed, pem) is valid
    assert REGISTRY["io.jwt.verify_es256"].call(at, signed, public_pem) is False
    assert len(tokens) == 2


def private_pem(key: Any) -> str:
    octets: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return octets.decode()


def public_of(key: Any) -> str:
    octets: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return octets.decode()


def test_headers_too_long_to_keep_are_read_as_others() -> None:
    token = sign({"a": 1}, x="y" * 20_000)
    assert decode_verify(context(), token, {"secret": "secret"})[0] is True
    assert REGISTRY["io.jwt.decode"].call(token)[1] == {"a": 1}


def test_a_time_past_all_floats_is_refused() -> None:
    for time in (10**400, Number("1e400")):
        with pytest.raises(BuiltinError, match="token time constraint"):
            decode_verify(context(), sign({}), {"secret": "secret", "time": time})


def test_tokens_inside_each_other_are_verified_up_to_the_eighth() -> None:
    token = sign({"a": 1})
    for _ in range(7):
        token = nested(token)
    assert decode_verify(context(), token, {"secret": "secret"})[2] == {"a": 1}
    with pytest.raises(LimitError, match="more than 8 levels of nested JWTs"):
        decode_verify(context(), nested(token), {"secret": "secret"})


def nested(token: str) -> str:
    payload = REGISTRY["base64url.encode_no_pad"].call(token)
    signed = f"{encode({'alg': 'HS256', 'cty': 'JWT'})}.{payload}"
    digest = hmac.digest(b"secret", signed.encode(), "sha256")
    return f"{signed}.{urlsafe_b64encode(digest).decode().rstrip('=')}"


def test_a_key_too_short_for_the_signature_is_refused() -> None:
    key = rsa.generate_private_key(65537, 1024)
    jwk = invoke("crypto.x509.parse_rsa_private_key", private_pem(key))
    with pytest.raises(BuiltinError, match="RSA key is too short for PS512"):
        sign({}, jwk, alg="PS512")


@pytest.mark.parametrize(
    ("size", "hash_"), [(256, hashes.SHA256()), (384, hashes.SHA384()), (512, hashes.SHA512())]
)
def test_the_salt_of_a_token_is_as_long_as_the_hash(size: int, hash_: hashes.HashAlgorithm) -> None:
    """OPA 1.20.2: `decode_verify` wants that, `verify_ps256` takes any."""
    key = rsa.generate_private_key(65537, 2048)
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    salt = hash_.digest_size
    for length in (0, 20, salt - 1, salt, salt + 1, 100):
        signed = f"{_part({'alg': f'PS{size}'})}.{_part({})}"
        scheme = padding.PSS(padding.MGF1(hash_), length)
        signature = key.sign(signed.encode(), scheme, hash_)
        token = f"{signed}.{urlsafe_b64encode(signature).rstrip(b'=').decode()}"
        answer = invoke("io.jwt.decode_verify", token, {"cert": public})
        assert isinstance(answer, list)
        assert answer[0] is (length == salt)
        assert invoke(f"io.jwt.verify_ps{size}", token, public) is True


def _part(document: dict[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(document).encode()).rstrip(b"=").decode()


def test_a_signature_without_its_leading_zeros_is_not_valid() -> None:
    key = rsa.generate_private_key(65537, 1024)
    for number in range(20_000):
        signed = f"{_part({'alg': 'RS256'})}.{_part({'n': number})}"
        signature = key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        if signature[0] == 0:
            break
    assert signature[0] == 0

    def verifies(octets: bytes) -> object:
        token = f"{signed}.{urlsafe_b64encode(octets).rstrip(b'=').decode()}"
        return invoke("io.jwt.verify_rs256", token, public_of(key))

    assert verifies(signature) is True
    assert verifies(signature[1:]) is False
    assert verifies(b"\0" + signature) is False


def test_a_key_whose_exponent_is_one_verifies_nothing_and_stands_in_nobodys_way() -> None:
    key = rsa.generate_private_key(65537, 2048)
    numbers = key.public_key().public_numbers()
    modulus = urlsafe_b64encode(numbers.n.to_bytes(256, "big")).rstrip(b"=").decode()
    good = {"kty": "RSA", "n": modulus, "e": "AQAB"}
    useless = {"kty": "RSA", "n": modulus, "e": "AQ"}
    signed = f"{_part({'alg': 'RS256'})}.{_part({})}"
    signature = key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    token = f"{signed}.{urlsafe_b64encode(signature).rstrip(b'=').decode()}"
    digest = hashlib.sha256(signed.encode()).digest()
    prefix = bytes.fromhex("3031300d060960864801650304020105000420")
    padded = b"\0\1" + b"\xff" * (256 - 3 - len(prefix) - 32) + b"\0" + prefix + digest
    forged = f"{signed}.{urlsafe_b64encode(padded).rstrip(b'=').decode()}"
    for keys in ([useless, good], [good, useless]):
        assert invoke("io.jwt.verify_rs256", token, json.dumps({"keys": keys})) is True
        assert invoke("io.jwt.verify_rs256", forged, json.dumps({"keys": keys})) is False
    assert invoke("io.jwt.verify_rs256", token, json.dumps(useless)) is False
    pem = _public_pem(numbers.n, 1)
    assert invoke("io.jwt.verify_rs256", token, pem) is False
    assert invoke("io.jwt.verify_rs256", forged, pem) is False


def _public_pem(modulus: int, exponent: int) -> str:
    """A public key that no library would write."""

    def element(tag: int, *contents: bytes) -> bytes:
        content = b"".join(contents)
        length = len(content)
        size = bytes([length]) if length < 128 else b"\x82" + length.to_bytes(2, "big")
        return bytes([tag]) + size + content

    def integer(number: int) -> bytes:
        return element(2, number.to_bytes(number.bit_length() // 8 + 1, "big"))

    numbers = element(0x30, integer(modulus), integer(exponent))
    algorithm = element(0x30, bytes.fromhex("06092a864886f70d0101010500"))
    key = element(0x30, algorithm, element(3, b"\0", numbers))
    return f"-----BEGIN PUBLIC KEY-----\n{encodebytes(key).decode()}-----END PUBLIC KEY-----\n"


@pytest.mark.parametrize(
    ("header", "payload", "size"),
    [
        ('{"alg":"HS256","typ":"","x":1}', "x", 43),
        ('{"alg":"HS256","typ":"x","typ":"JWT"}', "x", 43),
        ('{"alg":"HS256","typ":"JWT","typ":"x"}', "x", None),
        ('{"alg":"HS256","typ":null}', "x", None),
        ('{"alg":"HS256","typ":1}', "x", None),
        ('{"alg":"HS256","typ":1}', "{}", 43),
        ('{"alg":"HS256","alg":"HS512"}', "{}", 43),
        ('{"alg":"HS512","alg":1}', "{}", 86),
        ('{"alg":1,"alg":"HS512"}', "{}", None),
        ('{"alg":"none","alg":"HS512"}', "{}", None),
    ],
)
def test_the_first_of_equal_members_of_a_header_counts(
    header: str, payload: str, size: int | None
) -> None:
    key = '{"kty":"oct","k":"c2VjcmV0"}'
    if size is None:
        with pytest.raises(BuiltinError):
            invoke("io.jwt.encode_sign_raw", header, payload, key)
    else:
        token = invoke("io.jwt.encode_sign_raw", header, payload, key)
        assert len(token.split(".")[2]) == size
