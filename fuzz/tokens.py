"""Random JSON Web Tokens, keys and constraints, answered by Doorward and by OPA 1.20.2.

    python fuzz/tokens.py [--seconds 60 | --calls N] [--seed 1]

A token is a header, a payload and a signature, of which each may be of another form than the
standards say: names twice, other types, another alphabet, the wrong key, a signature cut. Keys are
texts, PEM, certificates and sets of JWK. Prints every difference between the answers of the
`io.jwt.*` built-ins; the exit code is 1 if there was one.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import json
import sys
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.x509.oid import NameOID

from fuzz.calls import campaign
from fuzz.pools import Choices

__all__ = ["call_of"]

HASHES: Final = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}
CURVES: Final = {"256": ec.SECP256R1(), "384": ec.SECP384R1(), "512": ec.SECP521R1()}
ALGORITHMS: Final = [f"{kind}{size}" for kind in ("HS", "RS", "PS", "ES") for size in HASHES] + [
    "EdDSA"
]
SECRETS: Final = ("secret", "other", "", "päss", "a" * 100)
FUNCTIONS: Final = [f"io.jwt.verify_{name.lower()}" for name in ALGORITHMS]
NOW: Final = 1_700_000_000
TIMES: Final[tuple[Any, ...]] = (
    0, 1, NOW, NOW - 1, NOW + 1, NOW + 0.5, 4e9, 9e18, 1e300, -1, "1", None, True, [], 1.5,
    NOW * 10**9,
)  # fmt: skip
NAMES: Final[tuple[Any, ...]] = (
    "a",
    "b",
    "",
    "ä",
    ["a"],
    ["a", "b"],
    [],
    None,
    1,
    {"a": 1},
    ["a", 1],
)
KEYS: Final = ("rsa", "rsa2", "ec256", "ec384", "ec512", "ed25519")


@cache
def key(name: str) -> Any:
    """The private key of a name; it is generated once in a run."""
    if name.startswith("rsa"):
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)
    if name == "ed25519":
        return ed25519.Ed25519PrivateKey.generate()
    return ec.generate_private_key(CURVES[name.removeprefix("ec")])


@cache
def pem(name: str, form: str) -> str:
    """The key of a name as PEM: `public`, `private` or a `certificate` of it."""
    private = key(name)
    encoding = serialization.Encoding.PEM
    content: bytes
    if form == "private":
        content = private.private_bytes(
            encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return content.decode()
    if form == "public":
        written = serialization.PublicFormat.SubjectPublicKeyInfo
        content = private.public_key().public_bytes(encoding, written)
        return content.decode()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    day = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(private.public_key())
        .serial_number(1)
        .not_valid_before(day)
        .not_valid_after(day + datetime.timedelta(days=10_000))
    )
    digest = None if name == "ed25519" else hashes.SHA256()
    return built.sign(private, digest).public_bytes(serialization.Encoding.PEM).decode()


def unpadded(content: bytes) -> str:
    """The URL-safe base64 of bytes, without `=`."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


@cache
def jwk(name: str) -> dict[str, Any]:
    """The public key of a name as a JWK; for other names the symmetric key of that text."""
    if name not in KEYS:
        return {"kty": "oct", "k": unpadded(name.encode())}
    public = key(name).public_key()
    if name.startswith("rsa"):
        numbers = public.public_numbers()
        size = (numbers.n.bit_length() + 7) // 8
        return {
            "kty": "RSA",
            "n": unpadded(numbers.n.to_bytes(size, "big")),
            "e": unpadded(numbers.e.to_bytes(3, "big")),
        }
    if name == "ed25519":
        raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        return {"kty": "OKP", "crv": "Ed25519", "x": unpadded(raw)}
    size = (public.curve.key_size + 7) // 8
    numbers = public.public_numbers()
    curve = {"256": "P-256", "384": "P-384", "521": "P-521"}[str(public.curve.key_size)]
    x, y = numbers.x.to_bytes(size, "big"), numbers.y.to_bytes(size, "big")
    return {"kty": "EC", "crv": curve, "x": unpadded(x), "y": unpadded(y)}


def sign(algorithm: str, name: str, content: bytes) -> bytes:
    """The signature of `content` by an algorithm with the key, or the text, of a name."""
    kind, size = algorithm[:2], algorithm[2:]
    if kind == "HS":
        return hmac.new(name.encode(), content, getattr(hashlib, f"sha{size}")).digest()
    private = key(name)
    if kind == "RS":
        return bytes(private.sign(content, padding.PKCS1v15(), HASHES[size]))
    if kind == "PS":
        salt = padding.PSS(padding.MGF1(HASHES[size]), padding.PSS.DIGEST_LENGTH)
        return bytes(private.sign(content, salt, HASHES[size]))
    if kind == "ES":
        r, s = decode_dss_signature(private.sign(content, ec.ECDSA(HASHES[size])))
        length = (private.curve.key_size + 7) // 8
        return bytes(r.to_bytes(length, "big") + s.to_bytes(length, "big"))
    return bytes(private.sign(content))


class _Writer(Choices):
    """Writes one call."""

    def call(self) -> tuple[str, list[Any]]:
        """The name of a built-in and its operands."""
        algorithm = self.pick(ALGORITHMS)
        name = self._key_name(algorithm)
        token = self._token(algorithm, name)
        chosen = self.chance()
        if chosen < 0.1:
            return "io.jwt.decode", [token]
        if chosen < 0.5:
            verify = f"io.jwt.verify_{algorithm.lower()}"
            if self.chance() < 0.1:
                verify = self.pick(FUNCTIONS)
            return verify, [token, self._key(algorithm, name)]
        return "io.jwt.decode_verify", [token, self._constraints(algorithm, name)]

    def _key_name(self, algorithm: str) -> str:
        if algorithm.startswith("HS"):
            return self.pick(SECRETS)
        if algorithm.startswith("ES"):
            return f"ec{algorithm[2:]}" if self.chance() < 0.9 else self.pick(["ec256", "ec384"])
        return "ed25519" if algorithm == "EdDSA" else self.pick(["rsa", "rsa", "rsa2"])

    # Tokens

    def _token(self, algorithm: str, name: str, depth: int = 0) -> str:
        header: dict[str, Any] = {"alg": algorithm}
        if self.chance() < 0.4:
            header["typ"] = self.pick(["JWT", "jwt", "", 1, None, "at+jwt"])
        if self.chance() < 0.4:
            header["kid"] = self.pick(["a", "b", "", 1, None])
        if self.chance() < 0.08:
            header["alg"] = self.pick(
                ["none", "None", "", algorithm.lower(), f"{algorithm} ", 1, None, *ALGORITHMS]
            )
        if self.chance() < 0.04:
            del header["alg"]
        for field, values in (
            ("cty", ["JWT", "jwt", "x", 1, None]),
            ("crit", [["b64"], ["exp"], [], "b64", None]),
            ("b64", [False, True]),
            ("enc", ["A128GCM", None]),
            ("zip", ["DEF"]),
            ("jwk", [jwk("rsa"), {}]),
            ("x5c", [["a"]]),
        ):
            if self.chance() < 0.03:
                header[field] = self.pick(values)
        payload: Any = {}
        for field, choices in (
            ("iss", NAMES), ("aud", NAMES), ("exp", TIMES), ("nbf", TIMES), ("iat", TIMES),
            ("sub", NAMES),
        ):  # fmt: skip
            if self.chance() < 0.35:
                payload[field] = self.pick(choices)
            if field in ("iss", "aud") and self.chance() < 0.3:
                payload[field] = self.pick(["a", "b", ["a", "b"]])
        if depth < 2 and self.chance() < 0.04:
            header["cty"] = "JWT"
            payload = self._token(algorithm, name, depth + 1)
        body = self._text(payload) if not isinstance(payload, str) else payload
        parts = [self._encoded(self._text(header)), self._encoded(body)]
        content = ".".join(parts).encode()
        try:
            signature = sign(algorithm, name, content)
        except (KeyError, ValueError):
            signature = b""
        if self.chance() < 0.08:
            signature = self._damaged(signature)
        parts.append(self._encoded(signature))
        if self.chance() < 0.04:
            parts = self.pick([parts[:2], [*parts, ""], [*parts, "a"], [*parts[:2], ""], parts[:1]])
        token = ".".join(parts)
        if self.chance() < 0.02:
            token = self.pick([f" {token}", f"{token}\n", f"{token} ", token.upper(), ""])
        return token

    def _text(self, value: Any) -> str:
        text = json.dumps(value, ensure_ascii=self.chance() < 0.5)
        if self.chance() < 0.9:
            return text
        return self.pick(
            [f" {text} ", f"{text}x", f"\ufeff{text}", "[]", "null", '"a"', "1", "", "{", text[:-1],
             text.replace("{", '{"alg":"none",', 1), text.replace("{", '{"iss":"b","aud":"a",', 1),
             text.replace("}", ',"alg":"HS256"}'), text.replace('"', '"\\u0000', 1),
             text.replace("a", "\\u0061"), text.replace("1", "1.0"), text.replace("0", "0e0"),
             text.replace(":", ": ").replace(",", " ,\n"), "{" * 5 + text]
        )  # fmt: skip

    def _encoded(self, content: bytes | str) -> str:
        raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        if self.chance() < 0.01:
            raw += self.pick([b"\xff", b"\xc3", b"\x00"])
        text = unpadded(raw)
        if self.chance() < 0.94:
            return text
        padded = base64.urlsafe_b64encode(raw).decode()
        return self.pick(
            [padded, f"{text}=", f"{text}==", base64.b64encode(raw).decode(), f"{text}A",
             text.replace("-", "+").replace("_", "/"), f"{text[:4]}\n{text[4:]}", f"{text} ",
             text[:-1], text[:-1] + self.pick("ABQgwxyz"), text.replace("A", "%41", 1),
             f"\r\n{text}"]
        )  # fmt: skip

    def _damaged(self, signature: bytes) -> bytes:
        if not signature:
            return b"a"
        flipped = bytes([signature[0] ^ 1, *signature[1:]])
        return self.pick(
            [b"", flipped, signature[:-1], signature + b"\0", b"\0" + signature, signature[::-1],
             bytes(len(signature)), signature * 2]
        )  # fmt: skip

    # Keys

    def _key(self, algorithm: str, name: str) -> Any:
        """A key as an operand: mostly the one that signed."""
        if self.chance() < 0.12:
            name = self.pick([*KEYS, *SECRETS])
        if name not in KEYS:
            if self.chance() < 0.8:
                return name
            return self._set(name)
        chosen = self.chance()
        if chosen < 0.3:
            return self._decorated(pem(name, "public"))
        if chosen < 0.5:
            return self._decorated(pem(name, "certificate"))
        if chosen < 0.54:
            return pem(name, "private")
        if chosen < 0.57:
            return self.pick(["", "x", "{}", "[]", "null", '{"keys":[]}', 1, None, [], {}])
        return self._set(name)

    def _decorated(self, text: str) -> str:
        if self.chance() < 0.85:
            return text
        other = pem(self.pick(KEYS), self.pick(["public", "certificate", "private"]))
        return self.pick(
            [text.strip(), f"\n{text}", f"x\n{text}", f"{text}x", text + other, other + text,
             text.replace("\n", "\r\n"), text.replace("PUBLIC KEY", "RSA PUBLIC KEY"),
             text.replace("-----BEGIN", " -----BEGIN"), text.replace("A", "B", 3), text[:-30],
             text.replace("\n", "", 2), text.replace("-----\n", "-----\nA: b\n\n", 1)]
        )  # fmt: skip

    def _set(self, name: str) -> str:
        """A JWK, or a set with it, as JSON."""
        one = self._jwk(name)
        if self.chance() < 0.25:
            return json.dumps(one)
        keys = [self._jwk(self.pick([*KEYS, *SECRETS])) for _ in range(self.pick([0, 0, 1, 2]))]
        keys.insert(self.pick(range(len(keys) + 1)), one)
        if self.chance() < 0.05:
            others: list[Any] = [{}, {"kty": "x"}, None, 1, {"kty": "RSA"}, {"kty": "oct"}]
            keys.insert(0, self.pick(others))
        holder: dict[str, Any] = {"keys": keys}
        if self.chance() < 0.03:
            holder = self.pick(
                [{"Keys": keys}, {"keys": keys[0]}, {"keys": {"a": one}}, {**one, **holder}]
            )
        return json.dumps(holder)

    def _jwk(self, name: str) -> dict[str, Any]:
        fields = dict(jwk(name))
        for field, values, chance in (
            ("kid", ["a", "a", "b", "b", ""], 0.5),
            ("kid", [1, None], 0.02),
            ("alg", ALGORITHMS, 0.2),
            ("alg", ["x", "", 1, None, "RSA-OAEP"], 0.04),
            ("use", ["sig", "sig", "enc"], 0.15),
            ("use", ["", "x", 1], 0.02),
            ("key_ops", [["verify"], ["sign"], [], ["encrypt"]], 0.1),
            ("key_ops", ["verify", None], 0.02),
            ("x5c", [[], ["a"], "a"], 0.02),
            ("x5t", ["a", "", unpadded(b"a" * 20)], 0.02),
            ("x5u", ["a", "", "http://a"], 0.02),
            ("d", ["AQAB"], 0.02),
        ):
            if self.chance() < chance:
                fields[field] = self.pick(values)
        if self.chance() < 0.03:
            field = self.pick(list(fields))
            fields[field] = self.pick(["", "A", "AA", "====", "+/", 1, None, [], "AQAB"])
        if self.chance() < 0.01:
            fields.pop(self.pick(list(fields)))
        return fields

    def _constraints(self, algorithm: str, name: str) -> Any:
        fields: dict[str, Any] = {}
        if self.chance() < 0.97:
            name_of_key = "secret" if algorithm.startswith("HS") else "cert"
            fields[name_of_key] = self._key(algorithm, name)
        if self.chance() < 0.03:
            fields[self.pick(["secret", "cert"])] = self.pick(["secret", pem("rsa", "public"), 1])
        for field, values, chance in (
            ("alg", [algorithm, algorithm, algorithm, *ALGORITHMS, "none", "", 1, None], 0.25),
            ("iss", ["a", "b"], 0.2),
            ("iss", NAMES, 0.03),
            ("aud", ["a", "b"], 0.3),
            ("aud", NAMES, 0.03),
            ("time", [NOW * 10**9, (NOW + 1) * 10**9, 0], 0.6),
            ("time", [-1, 1.5, 1e300, "1", None, NOW], 0.04),
            ("x", [1], 0.02),
            ("Iss", ["a"], 0.02),
        ):
            if self.chance() < chance:
                fields[field] = self.pick(values)
        return fields if self.chance() < 0.99 else self.pick([{}, [], "a", None])


def call_of(seed: int | str) -> tuple[str, list[Any]]:
    """The call of a seed: the name of a built-in and its operands."""
    return _Writer(Random(seed)).call()


if __name__ == "__main__":
    sys.exit(campaign(__doc__, call_of))
