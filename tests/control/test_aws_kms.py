"""A key in AWS KMS signs assertions of OAuth2; a server of KMS answers."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512, HashAlgorithm
from cryptography.hazmat.primitives.serialization import load_der_public_key
from moto.server import ThreadedMotoServer
from tests.waiting import PATIENCE

from doorward.config.configuration import parse_config
from doorward.control.answers import ServiceError
from doorward.control.client import ServiceClient

pytestmark = pytest.mark.system

HASHES: dict[str, tuple[str, HashAlgorithm]] = {
    "ECDSA_SHA_256": ("ECC_NIST_P256", SHA256()),
    "ECDSA_SHA_384": ("ECC_NIST_P384", SHA384()),
    "ECDSA_SHA_512": ("ECC_NIST_P521", SHA512()),
}


@pytest.fixture(scope="module")
def kms() -> Iterator[str]:
    """The address of a server of KMS."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield f"127.0.0.1:{server.get_host_and_port()[1]}"
    server.stop()


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)


def ask(kms: str, target: str, **body: Any) -> Any:
    headers = {
        "content-type": "application/x-amz-json-1.1",
        "x-amz-target": f"TrentService.{target}",
        "authorization": "AWS4-HMAC-SHA256 Credential=testing/20261123/us-east-1/kms/aws4_request",
    }
    return httpx.post(
        f"http://{kms}/", headers=headers, content=json.dumps(body), timeout=PATIENCE
    ).json()


def client(respond: Any, algorithm: str, name: str) -> ServiceClient:
    oauth2 = {
        "token_url": "https://tokens/x",
        "aws_kms": {"name": name, "algorithm": algorithm},
        "aws_signing": {"service": "kms", "environment_credentials": {}},
        "additional_claims": {"iss": "me"},
        "thumbprint": "0aff",
    }
    document = {"services": {"s": {"url": "https://s", "credentials": {"oauth2": oauth2}}}}
    config = parse_config(json.dumps(document), environment={})
    assert not config.warnings
    return ServiceClient(config.services["s"], transport=httpx.MockTransport(respond))


def decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


@pytest.mark.parametrize("algorithm", HASHES)
def test_a_key_in_kms_signs_assertions(kms: str, algorithm: str) -> None:
    spec, digest = HASHES[algorithm]
    created = ask(kms, "CreateKey", KeyUsage="SIGN_VERIFY", KeySpec=spec)
    name = created["KeyMetadata"]["Arn"]
    public = load_der_public_key(
        base64.b64decode(ask(kms, "GetPublicKey", KeyId=name)["PublicKey"])
    )
    assert isinstance(public, EllipticCurvePublicKey)
    assertions: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        if request.url.host == "kms.us-east-1.amazonaws.com":
            assert "/us-east-1/kms/aws4_request" in request.headers["authorization"]
            body = json.loads(request.content)
            assert (body["KeyId"], body["MessageType"]) == (name, "DIGEST")
            assert body["SigningAlgorithm"] == algorithm
            headers = {k: v for k, v in request.headers.items() if k != "host"}
            sent = httpx.post(
                f"http://{kms}/", headers=headers, content=request.content, timeout=PATIENCE
            )
            return httpx.Response(sent.status_code, content=sent.content)
        if request.url.host == "tokens":
            form = parse_qs(request.content.decode())
            assert form["grant_type"] == ["client_credentials"]
            assertions.extend(form["client_assertion"])
            token = {"token_type": "bearer", "access_token": "t", "expires_in": 60}
            return httpx.Response(200, json=token)
        assert request.headers["authorization"] == "Bearer t"
        return httpx.Response(200)

    assert client(respond, algorithm, name).request("GET", "a").status == 200
    (assertion,) = assertions
    head, claims, signature = assertion.split(".")
    assert json.loads(decoded(head)) == {
        "alg": f"ES{algorithm[-3:]}",
        "typ": "JWT",
        "x5t": "Cv8=",
    }
    assert json.loads(decoded(claims))["iss"] == "me"
    octets = decoded(signature)
    half = len(octets) // 2
    numbers = [int.from_bytes(part, "big") for part in (octets[:half], octets[half:])]
    # This server of KMS hashes what it gets, a digest too; that it is one is asserted above.
    message = hashlib.new(digest.name, f"{head}.{claims}".encode()).digest()
    public.verify(encode_dss_signature(*numbers), message, ECDSA(digest))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (httpx.Response(400, json={"__type": "NotFoundException"}), "KMS answered with 400"),
        (httpx.Response(200, json={}), "KMS returned no signature"),
        (httpx.Response(200, json={"Signature": "!"}), "KMS returned no signature"),
        (httpx.Response(200, json={"Signature": "AAAA"}), "no signature for ES256"),
    ],
)
def test_what_kms_does_not_sign_fails_the_request(answer: httpx.Response, message: str) -> None:
    with pytest.raises(ServiceError, match=message):
        client(lambda _: answer, "ECDSA_SHA_256", "n").request("GET", "a")
