"""What a registry sends is what its manifest says, and credentials go nowhere else."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from doorward.config.configuration import ConfigError, parse_config
from doorward.control.answers import ServiceError
from doorward.control.client import ServiceClient
from doorward.control.registry import (
    LAYER,
    Reference,
    RegistryError,
    parse_reference,
    pull,
)

CONTENT = b"a tarball"
DIGEST = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
MANIFEST: dict[str, Any] = {
    "layers": [
        {"mediaType": "text/plain", "digest": "sha256:0", "size": 1},
        {"mediaType": LAYER, "digest": DIGEST, "size": len(CONTENT)},
    ]
}
Respond = Callable[[httpx.Request], httpx.Response]


def client(respond: Respond, *, url: str = "https://reg", **service: Any) -> ServiceClient:
    text = json.dumps({"services": {"s": {"url": url, "type": "oci", **service}}})
    config = parse_config(text, environment={})
    return ServiceClient(config.services["s"], transport=httpx.MockTransport(respond))


def registry(
    manifest: object = MANIFEST, content: bytes = CONTENT, **headers: str
) -> tuple[Respond, list[httpx.Request]]:
    seen: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if "/manifests/" in request.url.path:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return httpx.Response(200, content=json.dumps(manifest).encode(), headers=named)
        return httpx.Response(200, content=content)

    return respond, seen


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("reg/a:b", Reference("a", "b", "")),
        ("reg:5000/a/b.c-d:v1.2", Reference("a/b.c-d", "v1.2", "")),
        (f"reg/a@{DIGEST}", Reference("a", "", DIGEST)),
        (f"reg/a:b@{DIGEST}", Reference("a", "b", DIGEST)),
        ("[::1]:5000/a:b", Reference("a", "b", "")),
    ],
)
def test_references_are_read(text: str, reference: Reference) -> None:
    assert parse_reference(text) == reference


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("/bundles/app.tar.gz", "hostname required"),
        ("reg/a", "object required"),
        ("reg", "invalid reference"),
        ("reg/../a:b", "invalid reference"),
        ("reg/a:b/../../c", "invalid reference"),
        ("reg/a@sha256:00", "invalid reference"),
        ("https://reg/a:b", "invalid reference"),
    ],
)
def test_what_is_no_reference_is_refused(text: str, message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        parse_reference(text)


def test_a_layer_is_pulled_once() -> None:
    respond, seen = registry()
    # As in OPA the path of the URL is not that of the registry.
    answer = pull(client(respond, url="https://reg/x"), "other/a/b:c", "", 100)
    assert (answer.status, answer.body) == (200, CONTENT)
    etag = answer.headers["etag"]
    assert etag == DIGEST.removeprefix("sha256:")
    assert pull(client(respond), "other/a/b:c", etag, 100).status == 304
    assert [str(each.url) for each in seen] == [
        "https://reg/v2/a/b/manifests/c",
        f"https://reg/v2/a/b/blobs/{DIGEST}",
        "https://reg/v2/a/b/manifests/c",
    ]
    assert "application/vnd.oci.image.manifest.v1+json" in seen[0].headers["accept"]


def test_what_is_not_what_the_manifest_says_is_refused() -> None:
    with pytest.raises(ServiceError, match="does not have the digest sha256:"):
        pull(client(registry(content=b"another")[0]), "reg/a:b", "", 100)
    with pytest.raises(RegistryError, match="larger than 3 bytes"):
        pull(client(registry()[0]), "reg/a:b", "", 3)
    with pytest.raises(ServiceError, match="does not have the digest sha256:"):
        pull(client(registry(docker_content_digest=DIGEST)[0]), "reg/a:b", "", 100)
    with pytest.raises(ServiceError, match="does not have the digest sha256:"):
        pull(client(registry()[0]), f"reg/a@{DIGEST}", "", 100)


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ([], "is not a JSON object"),
        ({}, "no tarball descriptor found in the layers"),
        ({"layers": [{"mediaType": LAYER, "digest": "../x"}]}, "is not a SHA-256 digest"),
    ],
)
def test_a_manifest_without_a_bundle_is_refused(manifest: object, message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        pull(client(registry(manifest)[0]), "reg/a:b", "", 100)


def test_a_registry_that_refuses_is_quoted() -> None:
    missing = client(lambda _: httpx.Response(404))
    with pytest.raises(RegistryError, match='perform "Resolve" on source: reg/a:b: not found'):
        pull(missing, "reg/a:b", "", 100)
    failing = client(lambda _: httpx.Response(500))
    with pytest.raises(RegistryError, match="unexpected status: 500 Internal Server Error") as it:
        pull(failing, "reg/a:b", "", 100)
    assert it.value.status == 500


def with_tokens(realm: str) -> tuple[Respond, list[tuple[str, str | None]]]:
    """A registry that wants a token, which `realm` gives; and who was asked with what."""
    inner, _ = registry()
    seen: list[tuple[str, str | None]] = []

    def respond(request: httpx.Request) -> httpx.Response:
        given = request.headers.get("authorization")
        seen.append((str(request.url), given))
        if request.url.host == "tokens":
            return httpx.Response(200, json={"token": "t0", "expires_in": 300})
        if given != "Bearer t0":
            challenge = f'Bearer realm="{realm}",service="reg",scope="repository:a:pull"'
            return httpx.Response(401, headers={"www-authenticate": challenge})
        return inner(request)

    return respond, seen


def test_a_token_is_fetched_for_the_credentials_and_kept() -> None:
    respond, seen = with_tokens("https://tokens/token")
    own = {"bearer": {"token": "user:pass", "scheme": "Basic"}}
    asking = client(respond, credentials=own)
    assert pull(asking, "reg/a:b", "", 100).status == 200
    basic = f"Basic {base64.b64encode(b'user:pass').decode()}"
    manifest = "https://reg/v2/a/manifests/b"
    assert seen == [
        (manifest, basic),
        ("https://tokens/token?service=reg&scope=repository%3Aa%3Apull", basic),
        (manifest, "Bearer t0"),
        (f"https://reg/v2/a/blobs/{DIGEST}", "Bearer t0"),
    ]


def test_credentials_do_not_go_where_anybody_can_read_them() -> None:
    respond, seen = with_tokens("http://tokens/token")
    own = {"bearer": {"token": "user:pass", "scheme": "Basic"}}
    with pytest.raises(ServiceError, match="token service must use https"):
        pull(client(respond, credentials=own), "reg/a:b", "", 100)
    assert [url for url, _ in seen] == ["https://reg/v2/a/manifests/b"]


def test_a_host_that_the_registry_redirects_to_does_not_say_where_credentials_go() -> None:
    inner, seen = with_tokens("https://tokens/token")

    def respond(request: httpx.Request) -> httpx.Response:
        if request.url.host == "reg" and "/blobs/" in request.url.path:
            return httpx.Response(307, headers={"location": "https://store/blob"})
        if request.url.host != "store":
            return inner(request)
        seen.append((str(request.url), request.headers.get("authorization")))
        return httpx.Response(
            401, headers={"www-authenticate": 'Bearer realm="https://evil/token"'}
        )

    own = {"bearer": {"token": "user:pass", "scheme": "Basic"}}
    with pytest.raises(RegistryError, match="unexpected status: 401 Unauthorized"):
        pull(client(respond, credentials=own), "reg/a:b", "", 100)
    assert seen[-1] == ("https://store/blob", None)
    assert not [url for url, _ in seen if "evil" in url]


def test_credentials_of_other_clouds_are_refused() -> None:
    with pytest.raises(ConfigError, match="OCI service not supported"):
        client(registry()[0], credentials={"azure_managed_identity": {}})
    signing = {"environment_credentials": {}, "service": "s3"}
    with pytest.raises(ConfigError, match='cannot use aws service "s3" with service type "oci"'):
        client(registry()[0], credentials={"s3_signing": signing})
