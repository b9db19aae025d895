"""Signatures of AWS for requests: version 4, and version 4a, which is valid in every region.

A request, and keys -> the headers that sign it. The keys come from `aws_credentials`.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from dataclasses import field
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import httpx

from doorward.base.records import record
from doorward.control.fetching import CredentialsError
from doorward.rego import REGISTRY, Value
from doorward.rego.shared import CALL_ERRORS

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

__all__ = ["AwsKeys", "Version", "sign_request"]

Version: TypeAlias = Literal["4", "4a"]

_SCHEME: Final = "AWS4-ECDSA-P256-SHA256"
_SIGNED: Final = frozenset(
    {"content-encoding", "content-type", "if-none-match", "prefer", "x-amz-target"}
)
"""The headers of a request that its signature covers, besides those that signing adds."""
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""The order of the curve P-256."""


@record
class AwsKeys:
    """Keys of AWS, and the region in which they sign."""

    access_key: str
    secret_key: str = field(repr=False)
    region: str
    session_token: str = field(default="", repr=False)


def sign_request(
    request: httpx.Request, keys: AwsKeys, service: str, version: Version = "4"
) -> dict[str, str]:
    """Return the headers that sign `request`, to be added to it; CredentialsError if it cannot be
    signed.
    """
    if version == "4a":
        return _sign_everywhere(request, keys, service)
    return _sign_in_region(request, keys, service)


def _sign_in_region(request: httpx.Request, keys: AwsKeys, service: str) -> dict[str, str]:
    """Return the headers of signature version 4, computed by the built-in `providers.aws.sign_req`.
    CredentialsError if it fails.
    """
    config: dict[Any, Value] = {
        "aws_access_key": keys.access_key,
        "aws_secret_access_key": keys.secret_key,
        "aws_region": keys.region,
        "aws_service": service,
    }
    if keys.session_token:
        config["aws_session_token"] = keys.session_token
    unsigned: dict[Any, Value] = {
        "method": request.method,
        "url": str(request.url),
        "headers": dict(_cover_headers(request).items()),
        # Any bytes, as the language holds them.
        "raw_body": request.content.decode("utf-8", "surrogateescape"),
    }
    try:
        signed: Any = REGISTRY["providers.aws.sign_req"].call(unsigned, config, time.time_ns())
    except CALL_ERRORS as error:
        raise CredentialsError(f"cannot sign for AWS: {error}") from None
    return {str(name): str(value) for name, value in signed["headers"].items()}


def _sign_everywhere(request: httpx.Request, keys: AwsKeys, service: str) -> dict[str, str]:
    """Return the headers of signature version 4a, which is valid in every region (`*`)."""
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.hashes import SHA256

    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(request.content).hexdigest()
    added = {
        "x-amz-content-sha256": digest,
        "x-amz-date": stamp,
        "x-amz-region-set": "*",
    }
    if keys.session_token:
        added["x-amz-security-token"] = keys.session_token
    url = request.url
    covered = {**_cover_headers(request), **added, "host": url.netloc.decode("ascii")}
    if request.content:
        covered["content-length"] = str(len(request.content))
    names = sorted(covered)
    path, _, query = url.raw_path.decode("ascii").partition("?")
    canonical = "\n".join(
        [
            request.method,
            path,
            # The canonical query of AWS is sorted, and has %20 for blanks.
            "&".join(sorted(query.replace("+", "%20").split("&"))),
            # A run of blanks in a value counts as one.
            *[f"{name}:{' '.join(covered[name].split())}" for name in names],
            "",
            ";".join(names),
            digest,
        ]
    )
    scope = f"{stamp[:8]}/{service}/aws4_request"
    text = f"{_SCHEME}\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    signature = _derive_key(keys.access_key, keys.secret_key).sign(text.encode(), ECDSA(SHA256()))
    authorization = (
        f"{_SCHEME} Credential={keys.access_key}/{scope}, "
        f"SignedHeaders={';'.join(names)}, Signature={signature.hex()}"
    )
    return {**added, "authorization": authorization}


def _cover_headers(request: httpx.Request) -> dict[str, str]:
    """The headers of the request that the signature covers."""
    return {name: value for name, value in request.headers.items() if name in _SIGNED}


@lru_cache(maxsize=8)
def _derive_key(access_key: str, secret_key: str) -> EllipticCurvePrivateKey:
    """Derive the P-256 key of version 4a from an access key (NIST SP 800-108, counter mode).
    Cached. CredentialsError if no counter gives a key, which does not happen in practice.
    """
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key

    for counter in range(1, 256):
        context = access_key.encode() + bytes([counter])
        # SP 800-108: the counter, the label, a zero, the context, and the number of bits to derive
        # (256).
        fixed = b"\x00\x00\x00\x01" + _SCHEME.encode() + b"\x00" + context + b"\x00\x00\x01\x00"
        number = int.from_bytes(hmac.digest(f"AWS4A{secret_key}".encode(), fixed, "sha256"), "big")
        if number < _ORDER - 2:
            return derive_private_key(number + 1, SECP256R1())
    raise CredentialsError(
        "cannot sign for AWS with version 4a: no signing key can be derived from the access key: "
        "use another access key, or `signature_version: 4`"
    )
