"""Random keys, tokens that are signed, and requests to AWS, as Doorward and OPA 1.20.2 answer.

    python fuzz/keys.py [--seconds 60 | --calls N] [--seed 1]

Private keys of each kind in each form (PKCS #1, PKCS #8, SEC 1, encrypted, DER in base64) alone and
with other blocks, some with bytes changed; pairs of them with certificates; JWKs that sign, with
members that are missing, of other types and in other encodings; headers and payloads of tokens;
requests, headers and configurations of AWS. Of a signature that is made by chance only the length
is compared, and that OPA verifies it. Prints every difference between the answers; the exit code is
1 if there was one.
"""

from __future__ import annotations

import base64
import json
import sys
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, rsa, x25519

from doorward.rego import Engine
from fuzz.calls import JsonText, campaign
from fuzz.pools import Choices
from fuzz.tokens import ALGORITHMS, SECRETS, jwk, pem, unpadded
from fuzz.tokens import key as token_key

__all__ = ["call_of"]

Call = tuple[str, list[Any]]

KEYS: Final = (
    "rsa", "rsa2", "ec256", "ec384", "ec512", "ed25519", "x25519", "ec224", "dsa", "ed448",
    "rsa-e3", "ec-k1",
)  # fmt: skip
FORMATS: Final = ("PKCS8", "TraditionalOpenSSL")
REGIONS: Final = ("us-east-1", "eu-central-1", "é", "a b", "A/b")
SERVICES: Final = ("s3", "glacier", "execute-api", "S3", "ec2", "é")
URLS: Final = (
    "https://a.example/", "https://a.example", "http://a.example:8080/x/y?b=1&a=2",
    "https://a.example/a b",
    "https://a.example/%41%2f?x=%20", "https://a.example/é?é=ü", "https://A.Example/x#f",
    "a.example/x",
    "/x", "https://u:p@a.example/", "https://[::1]:80/x", "https://a.example/x?a=1&a=0&b",
    "mailto:a",
    "https://a.example//x/../y", "https://a.example/?", "https://a.example/%zz",
    "https://a.example:x/",
    "https://a.example/x;y?a=b;c", "http://", "://", "https://a.example/+?a+b=c+d",
    "https://a.example/*'()",
)  # fmt: skip
HEADERS: Final = (
    "content-type", "Content-Type", "X-Amz-Date", "x-amz-date", "Host", "host", "Authorization",
    "User-Agent",
    "X-Amzn-Trace-Id", "x-a", "X-A", "", "é", "X-Amz-Security-Token", "x-amz-content-sha256",
)  # fmt: skip
DETERMINISTIC: Final = ("HS", "RS", "Ed")


@cache
def key(name: str) -> Any:
    """The private key of a name."""
    if name == "x25519":
        return x25519.X25519PrivateKey.generate()
    if name == "ed448":
        return ed448.Ed448PrivateKey.generate()
    if name == "dsa":
        return dsa.generate_private_key(1024)
    if name == "ec224":
        return ec.generate_private_key(ec.SECP224R1())
    if name == "ec-k1":
        return ec.generate_private_key(ec.SECP256K1())
    if name == "rsa-e3":
        return rsa.generate_private_key(public_exponent=3, key_size=2048)
    return token_key(name)


@cache
def private(name: str, form: str, encoding: str = "PEM", password: str = "") -> bytes:
    """A private key in a form; PKCS #8 where the form does not know its kind."""
    encryption: Any = serialization.NoEncryption()
    if password:
        encryption = serialization.BestAvailableEncryption(password.encode())
    try:
        content: bytes = key(name).private_bytes(
            getattr(serialization.Encoding, encoding),
            getattr(serialization.PrivateFormat, form),
            encryption,
        )
    except ValueError:
        return private(name, "PKCS8", encoding, password)
    return content


@cache
def private_jwk(name: str) -> dict[str, Any]:
    """The private key of a name as a JWK; for other names the symmetric key of that text."""
    fields = dict(jwk(name))
    if fields["kty"] == "RSA":
        numbers = key(name).private_numbers()
        members = {"d": numbers.d, "p": numbers.p, "q": numbers.q, "dp": numbers.dmp1}
        members |= {"dq": numbers.dmq1, "qi": numbers.iqmp}
        for member, value in members.items():
            fields[member] = unpadded(value.to_bytes((value.bit_length() + 7) // 8, "big"))
    elif fields["kty"] == "EC":
        numbers = key(name).private_numbers()
        size = (key(name).curve.key_size + 7) // 8
        fields["d"] = unpadded(numbers.private_value.to_bytes(size, "big"))
    elif fields["kty"] == "OKP":
        raw = key(name).private_bytes(
            serialization.Encoding.Raw,
            serialization.PrivateFormat.Raw,
            serialization.NoEncryption(),
        )
        fields["d"] = unpadded(raw)
    return fields


@cache
def _signing_query() -> Any:
    policy = "package t\n\np := io.jwt.encode_sign(input[0], input[1], input[2])\n"
    return Engine({"t.rego": policy}).prepare("data.t.p")


def sign(*operands: Any) -> str:
    """The token that Doorward signs: a header, a payload and a JWK."""
    token: str = _signing_query().answer(list(operands))
    return token


class _Writer(Choices):
    """Writes one call."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.is_odd = self.chance() < 0.3

    def call(self) -> Call:
        """The name of a built-in and its operands."""
        return self.weighted(
            (20, self._private_keys), (12, self._key_pair), (45, self._signing), (25, self._aws)
        )

    def odd(self, chance: float = 0.2) -> bool:
        """Return True by `chance`, and only in a part of the calls, so that others are valid."""
        return self.is_odd and self.chance() < chance

    # Private keys

    def _private_text(self) -> str:
        """A private key as PEM, or as DER or PEM in base64."""
        name = self.pick(KEYS[:7] if self.chance() < 0.8 else KEYS)
        form = self.pick(FORMATS)
        password = "x" if self.chance() < 0.04 else ""
        if self.chance() < 0.12:
            content = self._damaged(
                private(name, form, "DER", password), is_curve=name.startswith("ec")
            )
            return base64.b64encode(content).decode()
        if self.chance() < 0.12:
            content = self._damaged(
                private(name, form, "DER", password), is_curve=name.startswith("ec")
            )
            label = self.pick(["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "KEY"])
            body = base64.encodebytes(content).decode()
            return f"-----BEGIN {label}-----\n{body}-----END {label}-----\n"
        text = private(name, form, "PEM", password).decode()
        return text if not self.odd(0.4) else self._changed(text)

    def _damaged(self, content: bytes, *, is_curve: bool) -> bytes:
        """Bytes, in some cases changed."""
        raw = bytearray(content)
        # Not those of curves: OPA does not compare the public key in them with the private one. And
        # nothing behind the key, which OPA does not read in some forms.
        for _ in range(self.pick([0, 1, 1, 2]) if self.is_odd and not is_curve else 0):
            at = self.pick(range(min(len(raw), self.pick([12, 20]))))
            chosen = self.chance()
            if chosen < 0.6:
                raw[at] = self.pick([raw[at] ^ (1 << self.pick(range(8))), 0, 255])
            elif chosen < 0.8:
                del raw[at : at + self.pick([1, 2])]
            else:
                raw[at:at] = self.pick([b"\0", b"\x05\0", b"\xff"])
        return bytes(raw)

    def _changed(self, text: str) -> str:
        return self.pick(
            [text.strip(), f"\n{text}", f"x\n{text}", f"{text}x", text.replace("\n", "\r\n"),
             text.replace("PRIVATE KEY", "PUBLIC KEY"), text.replace("PRIVATE", "RSA PRIVATE"),
             text.replace("RSA PRIVATE", "PRIVATE"), text.replace("EC PRIVATE", "PRIVATE"),
             text.replace("-----\n", "-----\nProc-Type: 4,ENCRYPTED\n\n", 1), text[:-30], text[30:],
             text.replace("-----\n", "-----\nA: b\n\n", 1), text.replace("\n", "", 2), text + text,
             text.replace("-----BEGIN", " -----BEGIN"), f" {text}"]
        )  # fmt: skip

    def _bundle(self) -> str:
        """Private keys with other blocks."""
        blocks = [self._private_text() for _ in range(self.pick([0, 1, 1, 1, 2, 3]))]
        if self.chance() < 0.3:
            other = pem(self.pick(["rsa", "ec256"]), self.pick(["public", "certificate"]))
            parameters = (
                "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
            )
            blocks.insert(
                self.pick(range(len(blocks) + 1)), self.pick([other, parameters, "x\n", "\n"])
            )
        text = "".join(blocks)
        if self.chance() < 0.1:
            return base64.b64encode(text.encode()).decode()
        return text

    def _private_keys(self) -> Call:
        name = self.pick(["crypto.parse_private_keys", "crypto.x509.parse_rsa_private_key"])
        if self.odd(0.1):
            return name, [
                self.pick(["", " ", "x", "====", "e30=", 1, None, [], "-----BEGIN A-----"])
            ]
        return name, [self._bundle()]

    def _key_pair(self) -> Call:
        name = self.pick(KEYS[:6])
        certificate = pem(name, "certificate")
        if self.chance() < 0.3:
            extra = pem(self.pick(KEYS[:6]), self.pick(["certificate", "public"]))
            certificate = self.pick([certificate + extra, extra + certificate])
        if self.odd():
            certificate = self._changed(certificate)
        text = private(name, self.pick(FORMATS)).decode()
        if self.chance() < 0.2:
            text = self._bundle()
        return "crypto.x509.parse_keypair", [certificate, text]

    # Tokens

    def _signing(self) -> Call:
        algorithm = self.pick(ALGORITHMS)
        name = self._key_name(algorithm)
        header = self._header(algorithm)
        signing_key = self._signing_key(name)
        if "crv" in signing_key and str(header.get("alg")).startswith("HS"):
            signing_key = private_jwk("rsa")  # OPA takes a key of Ed25519 for the secret of HMAC
        payload = self._payload()
        if algorithm[:2] not in DETERMINISTIC and self.chance() < 0.2:
            return self._verification(algorithm)
        if self.chance() < 0.5:
            return "io.jwt.encode_sign", [header, payload, signing_key]
        key_text = self._text(signing_key)
        if key_text.endswith("x") or key_text.count('"alg"') > 1:
            # OPA does not read what is behind a key, and stops at the first of equal members.
            key_text = json.dumps(signing_key)
        return "io.jwt.encode_sign_raw", [self._text(header), self._text(payload), key_text]

    def _verification(self, algorithm: str) -> Call:
        """The call that verifies a token of Doorward's."""
        name = f"ec{algorithm[2:]}" if algorithm.startswith("ES") else self.pick(["rsa", "rsa2"])
        token = sign({"alg": algorithm}, {"a": 1}, private_jwk(name))
        return f"io.jwt.verify_{algorithm.lower()}", [token, pem(name, "public")]

    def _key_name(self, algorithm: str) -> str:
        if self.odd(0.2):
            return self.pick([*KEYS[:6], *SECRETS])
        if algorithm.startswith("HS"):
            return self.pick(SECRETS)
        if algorithm.startswith("ES"):
            return f"ec{algorithm[2:]}"
        return "ed25519" if algorithm == "EdDSA" else self.pick(["rsa", "rsa2"])

    def _header(self, algorithm: str) -> dict[str, Any]:
        header: dict[str, Any] = {"alg": algorithm}
        if self.chance() < 0.5:
            header["typ"] = self.pick(["JWT", "JWT", "jwt", "", "at+jwt", 1, None])
        for name, values in (
            ("kid", ["a", "", 1, None]), ("cty", ["JWT", "x"]),
            ("crit", [["exp"], [], "b64", ["b64"]]),
            ("b64", [True, False]), ("x", [{"a": [1, "é"]}, "<&>", 1.0]), ("é", ["\u2028"]),
            ("jwk", [{}, jwk("rsa")]), ("x5c", [["a"], "a"]), ("jku", ["http://a", 1]),
        ):  # fmt: skip
            if self.odd(0.15):
                header[name] = self.pick(values)
        if self.odd(0.2):
            header["alg"] = self.pick(["none", "", algorithm.lower(), "HS1", 1, None, *ALGORITHMS])
        if self.odd(0.05):
            del header["alg"]
        return header

    def _payload(self) -> Any:
        payload: dict[str, Any] = {}
        for name in ("iss", "exp", "é", "a", "b"):
            if self.chance() < 0.4:
                payload[name] = self.pick([1, 1.5, "x", None, True, ["<&>"], {"a": []}, "\u2028"])
        if self.odd(0.1):
            return JsonText('{"a": 1.0, "b": 1e3, "c": 123456789012345678901234567890}')
        return payload

    def _signing_key(self, name: str) -> Any:
        fields = dict(private_jwk(name))
        for member, values, chance in (
            ("kid", ["a", "", 1], 0.1), ("use", ["sig", "enc", "x", "", 1], 0.1),
            ("alg", [*ALGORITHMS, "x", "", 1, None], 0.15),
            ("key_ops", [["sign"], ["verify"], [], "sign", ["x"]], 0.1), ("x5t", ["a", ""], 0.03),
            ("x5c", [[], ["a"], "a"], 0.03), ("x", ["a", 1], 0.01), ("y", ["a"], 0.01),
        ):  # fmt: skip
            if self.is_odd and self.chance() < chance:
                fields[member] = self.pick(values)
        if self.odd(0.3):
            member = self.pick(sorted(fields))
            text = fields[member] if isinstance(fields[member], str) else ""
            fields[member] = self.pick(
                ["", "A", "AA", "AQAB", f"{text}=", f"{text}A", f"AA{text}", text[:-2],
                 text.replace("-", "+").replace("_", "/"), f" {text}", 1, None, [], f"{text}\n"]
            )  # fmt: skip
        elif self.odd(0.2):  # not both: OPA computes what an RSA key does not have
            fields.pop(self.pick(sorted(fields)))
        if self.odd(0.05):
            return self.pick(
                [{"keys": [fields]}, {"keys": []}, {}, [], "a", jwk("rsa"), jwk("ec256")]
            )
        return fields

    def _text(self, value: Any) -> str:
        text = value if isinstance(value, JsonText) else json.dumps(value, ensure_ascii=False)
        if not self.odd(0.25):
            return text
        return self.pick(
            [f" {text}\n", f"{text}x", text.replace(": ", ":"), "", "{", "x", "null", "[]", '"a"',
             text.replace("{", '{"alg":"none",', 1), text.replace("}", ',"alg":"HS256"}'),
             text.replace("a", "\\u0061"), text[:-1], f"\ufeff{text}",
             text.replace('"alg"', '"Alg"')]
        )  # fmt: skip

    # AWS

    def _aws(self) -> Call:
        request: dict[str, Any] = {
            "method": self.pick(["GET", "get", "POST", "PUT", "é"]),
            "url": self.pick(URLS[:6] if self.chance() < 0.6 else URLS),
        }
        if self.chance() < 0.6:
            headers: dict[str, Any] = {}
            for _ in range(self.pick([0, 1, 2, 3, 4])):
                value: Any = self.pick(["a", "a  b", " a ", "", "é", "a\nb", ["a", "b"], [], [""]])
                name = self.pick(HEADERS)
                if name.lower() in map(str.lower, headers):
                    continue  # of two spellings OPA signs either
                headers[name] = value if not self.odd(0.1) else self.pick([1, None, [1]])
            request["headers"] = headers
        if self.chance() < 0.4:
            request["body"] = self.pick([{}, {"b": 1, "a": [1.0, "<é>"]}, "x", 1, None, [], True])
        if self.chance() < 0.2:
            request["raw_body"] = self.pick(["", "x", "é\n", 1, None])
        config: dict[str, Any] = {
            "aws_access_key": "AKID", "aws_secret_access_key": self.pick(["secret", "é"]),
            "aws_region": self.pick(REGIONS[:2] if self.chance() < 0.8 else REGIONS),
            "aws_service": self.pick(SERVICES[:3] if self.chance() < 0.8 else SERVICES),
        }  # fmt: skip
        if self.chance() < 0.2:
            config["aws_session_token"] = self.pick(["t", "", "é", 1, None])
        if self.odd(0.1):
            request[self.pick(["timeout", "x", "force_cache", "tls_use_system_certs"])] = 1
        if self.chance() < 0.2:
            config["disable_payload_signing"] = self.pick([True, False, "true", 1, None])
        for fields in (request, config):
            if self.odd(0.2):
                fields[self.pick(sorted(fields))] = self.pick(["", 1, None, [], {}, "x"])
            if self.odd(0.1):
                fields.pop(self.pick(sorted(fields)))
        moment: Any = self.pick([1_700_000_000_123_456_789, 0, 1, 951_827_696_000_000_000])
        if self.odd():
            moment = JsonText(
                self.pick(["1.5", "1.0", "-1", "1e18", "9223372036854775807", "9223372036854775808",
                           "1e30", "253402300800000000000", "-0", "1e400"])
            )  # fmt: skip
        return "providers.aws.sign_req", [request, config, moment]


def call_of(seed: int | str) -> Call:
    """The call of a seed: the name of a built-in and its operands."""
    return _Writer(Random(seed)).call()


if __name__ == "__main__":
    sys.exit(campaign(__doc__, call_of))
