"""A shared secret becomes the tokens of the matrix: good ones, and every kind that must not pass.

Written out with the standard library, since half of them are tokens that no library would make.
"""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

LIFETIME: Final = 24 * 3600
ALICE: Final = "YWxpY2U"  # alice
BOB: Final = "Ym9i"  # bob


def make_tokens(secret: str, now: int | None = None) -> dict[str, str]:
    """Tokens by the names that the matrix uses."""
    now = int(time.time()) if now is None else now
    guest = {"nbf": now - 60, "exp": now + LIFETIME, "role": "guest", "sub": ALICE}
    admin = {**guest, "role": "admin", "sub": BOB}
    signed = {
        "guest": guest,
        "admin": admin,
        "elsewhere": {**guest, "sub": "Y2Fyb2w"},  # carol
        "expired": {**admin, "exp": now - 1},
        "not_yet_valid": {**admin, "nbf": now + LIFETIME},
        "nbf_missing": _without(admin, "nbf"),
        "nbf_string": {**admin, "nbf": str(now - 60)},
        "nbf_float": {**admin, "nbf": now - 60.5},
        "nbf_whole_float": {**admin, "nbf": float(now - 60)},
        "exp_missing": _without(admin, "exp"),
        "exp_string": {**admin, "exp": str(now + LIFETIME)},
        "exp_float": {**admin, "exp": now + LIFETIME + 0.5},
        "exp_whole_float": {**admin, "exp": float(now + LIFETIME)},
        "exp_null": {**admin, "exp": None},
        "role_capital": {**admin, "role": "Admin"},
        "role_list": {**admin, "role": ["admin"]},
        "role_missing": _without(admin, "role"),
        "role_unknown": {**admin, "role": "root"},
        "sub_missing": _without(admin, "sub"),
        "sub_no_base64": {**admin, "sub": "b!b"},
        "sub_number": {**admin, "sub": 7},
        "sub_padded": {**admin, "sub": ALICE + "="},
        "sub_capital": {**admin, "sub": "Qm9i"},  # Bob
    }
    tokens = {name: sign(claims, secret) for name, claims in signed.items()}
    tokens["wrong_secret"] = sign(admin, secret + "x")
    tokens["empty_secret"] = sign(admin, "")
    tokens["cut_signature"] = tokens["admin"][:-4]
    tokens["no_signature"] = tokens["admin"].rpartition(".")[0] + "."
    tokens["other_claims"] = _with_claims(tokens["guest"], admin)
    tokens["alg_none"] = _encode({"alg": "none", "typ": "JWT"}) + "." + _encode(admin) + "."
    tokens["alg_none_signed"] = sign(admin, secret, algorithm="none")
    tokens["hs512"] = sign(admin, secret, algorithm="HS512", digest="sha512")
    tokens["rs256"] = _sign_rs256(admin)
    tokens["garbage"] = "garbage"
    tokens["garbage_in_three_parts"] = "a.b.c"
    return tokens


def sign(
    claims: Mapping[str, Any], secret: str, *, algorithm: str = "HS256", digest: str = "sha256"
) -> str:
    """A token with an HMAC signature; the algorithm is what the header claims."""
    text = _encode({"alg": algorithm, "typ": "JWT"}) + "." + _encode(claims)
    return text + "." + _encode_bytes(hmac.digest(secret.encode(), text.encode(), digest))


def _sign_rs256(claims: Mapping[str, Any]) -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    text = _encode({"alg": "RS256", "typ": "JWT"}) + "." + _encode(claims)
    return text + "." + _encode_bytes(key.sign(text.encode(), padding.PKCS1v15(), SHA256()))


def _with_claims(token: str, claims: Mapping[str, Any]) -> str:
    header, _, signature = token.split(".")
    return f"{header}.{_encode(claims)}.{signature}"


def _without(claims: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in claims.items() if key != name}


def _encode(document: Mapping[str, Any]) -> str:
    return _encode_bytes(json.dumps(document, separators=(",", ":")).encode())


def _encode_bytes(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
