"""Assertions of OAuth2 signed by a key in AWS KMS, which the key never leaves.

The claims, and the name of a key -> a request to KMS with the digest -> a JWT.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Final

import httpx

from doorward.bundles.signing import fixed_signature, signing_input
from doorward.config.services import KMS_ALGORITHMS, AwsKmsKey
from doorward.control.aws_credentials import AwsKeyChain
from doorward.control.aws_signing import sign_request
from doorward.control.fetching import CredentialsError, Fetch, document_of

__all__ = ["KmsSigner"]

_DIGESTS: Final = {"ES256": hashlib.sha256, "ES384": hashlib.sha384, "ES512": hashlib.sha512}
_LENGTHS: Final = {"ES256": 32, "ES384": 48, "ES512": 66}
"""The bytes of each of the two numbers in a signature, by algorithm."""


class KmsSigner:
    """Signs with one key in KMS; thread-safe."""

    def __init__(
        self, key: AwsKmsKey, fetch: Fetch, *, clock: Callable[[], float] = monotonic
    ) -> None:
        self._key = key
        self._fetch = fetch
        self._chain = AwsKeyChain(key.signing, fetch, clock=clock)

    def token(self, claims: Mapping[str, Any], header: Mapping[str, str]) -> str:
        """Return a JWT with these claims and header fields, signed by KMS. CredentialsError if KMS
        refuses, cannot be reached or returns no valid signature.
        """
        algorithm = KMS_ALGORITHMS[self._key.algorithm]
        text = signing_input(claims, algorithm, header)
        signature = self._sign(_DIGESTS[algorithm](text).digest())
        try:
            octets = fixed_signature(signature, _LENGTHS[algorithm])
        except (ValueError, OverflowError):
            raise CredentialsError(
                f"KMS returned no signature for {algorithm}: compare `aws_kms.algorithm` with "
                "the key's"
            ) from None
        return f"{text.decode()}.{base64.urlsafe_b64encode(octets).rstrip(b'=').decode()}"

    def _sign(self, digest: bytes) -> bytes:
        """Let KMS sign a digest, made with the hash of the key's algorithm, and return the
        signature in DER. CredentialsError if there are no AWS keys, KMS cannot be reached or
        refuses, or its response has no signature in base64.
        """
        keys = self._chain.get()
        body = {
            "KeyId": self._key.name,
            "Message": base64.b64encode(digest).decode(),
            # The digest, since KMS takes messages of at most 4096 bytes.
            "MessageType": "DIGEST",
            "SigningAlgorithm": self._key.algorithm,
        }
        headers = {
            "content-type": "application/x-amz-json-1.1",
            "x-amz-target": "TrentService.Sign",
        }
        url = f"https://kms.{keys.region}.amazonaws.com/"
        request = httpx.Request("POST", url, headers=headers, content=json.dumps(body).encode())
        request.headers.update(sign_request(request, keys, "kms", self._key.signing.version))
        response = self._fetch(request)
        if response.status_code != 200:
            raise CredentialsError(
                f"KMS answered with {response.status_code}: check that the key {self._key.name} "
                "exists, and that the AWS credentials have the permission kms:Sign"
            )
        try:
            return base64.b64decode(str(document_of(response, "the response of KMS")["Signature"]))
        except (KeyError, ValueError):
            raise CredentialsError("KMS returned no signature") from None
