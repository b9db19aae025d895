"""Bundles in registries of OCI artifacts (`type: oci`): a reference leads to a manifest.

The manifest leads to the first of its layers that is a tarball. Both are checked by their digests,
so neither the registry nor a server to which it redirects can replace them. The digest of the layer
stands for the `ETag` of a service.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Final, NamedTuple

from doorward.control.answers import Answer, Client, ServiceError, status_text

__all__ = ["Reference", "RegistryError", "parse_reference", "pull"]

LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
_MANIFESTS: Final = ", ".join(
    (
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
        "*/*",
    )
)
# OCI's distribution specification: manifests of 4 MB should be supported.
_MAX_MANIFEST: Final = 4 << 20
# Possessive (`++`, `*+`), so that a text that does not match is not tried in many ways.
_HOST: Final = re.compile(r"[A-Za-z0-9.\-_]++(?::[0-9]++)?|\[[0-9a-fA-F:.]++\](?::[0-9]++)?")
_NAME: Final = re.compile(r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*+(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*+)*+")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST: Final = re.compile(r"sha256:([0-9a-f]{64})")


class RegistryError(Exception):
    """There is no bundle; the message is OPA's if it has one. `status` is that of the registry's
    response, None without one.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class Reference(NamedTuple):
    """A reference `host/name:tag`, `host/name@digest`, or with both; requests go to the host of the
    service, not to `host`. `tag` or `digest` may be "".
    """

    name: str
    tag: str
    digest: str

    @property
    def object(self) -> str:
        """The digest or tag in the path of a manifest."""
        return self.digest or self.tag


def parse_reference(text: str) -> Reference:
    """Parse an OCI reference `host/name` with a tag, a `sha256` digest, or both; the host is
    checked and left out. Raise RegistryError, in OPA's words, if it is not valid or has neither.
    """
    host, slash, rest = text.partition("/")
    if not host:
        raise RegistryError("hostname required")
    name, at, digest = rest.partition("@")
    name, _, tag = name.partition(":")
    if not slash or not _HOST.fullmatch(host) or not _NAME.fullmatch(name):
        raise RegistryError("invalid reference")
    if (tag and not _TAG.fullmatch(tag)) or (at and not _DIGEST.fullmatch(digest)):
        raise RegistryError("invalid reference")
    if not tag and not digest:
        raise RegistryError("object required")
    return Reference(name, tag, digest)


def pull(client: Client, text: str, etag: str, limit: int) -> Answer:
    """Download the tarball that the reference `text` leads to. The answer has its digest as ETag;
    if that is still `etag`, the answer is status 304 without content.

    Raise RegistryError if the reference or the manifest is invalid, the registry answers with
    another status than 200, or the manifest says that the tarball is larger than `limit` bytes.
    Raise ServiceError if there is no response, a body is too large, or a digest is wrong.
    """
    try:
        reference = parse_reference(text)
        manifest = _fetch_manifest(client, reference, text)
    except RegistryError as error:
        message = f"download for '{text}' failed: failed to perform \"Resolve\" on source: {error}"
        raise RegistryError(message, error.status) from None
    digest, size = _layer(manifest)
    hexadecimal = digest.removeprefix("sha256:")
    if hexadecimal == etag:
        return Answer(304, {"etag": etag}, b"")
    # Before the download: the manifest, whose digest is checked, says the size.
    if size > limit:
        raise RegistryError(
            f"the bundle is larger than {limit} bytes: split it, or raise `size_limit_bytes`"
        )
    answer = client.request("GET", f"v2/{reference.name}/blobs/{digest}", limit=limit)
    _expect(answer, f"{text}@{digest}")
    _verify(answer.body, digest)
    return Answer(200, {"etag": hexadecimal}, answer.body)


def _fetch_manifest(client: Client, reference: Reference, text: str) -> dict[str, Any]:
    """Fetch and parse the manifest of a reference, and verify its digest if the reference or the
    answer names one; `text` names it in errors. RegistryError if there is none or it is not valid,
    ServiceError for a wrong digest or more than `_MAX_MANIFEST` bytes.
    """
    answer = client.request(
        "GET",
        f"v2/{reference.name}/manifests/{reference.object}",
        headers={"accept": _MANIFESTS},
        limit=_MAX_MANIFEST,
    )
    _expect(answer, text)
    # A digest in the reference protects from the registry; its own only from damage.
    if digest := reference.digest or answer.headers.get("docker-content-digest", ""):
        _verify(answer.body, digest)
    try:
        manifest = json.loads(answer.body)
    except (ValueError, RecursionError):
        raise RegistryError("the image manifest from the registry is not JSON") from None
    if not isinstance(manifest, dict):
        raise RegistryError("the image manifest from the registry is not a JSON object")
    return manifest


def _layer(manifest: dict[str, Any]) -> tuple[str, int]:
    """Return the digest and the size in bytes (0 if unknown) of the manifest's first tarball layer.
    RegistryError if there is no such layer, or its digest is not a SHA-256 digest.
    """
    layers = manifest.get("layers")
    for each in layers if isinstance(layers, list) else ():
        if isinstance(each, dict) and each.get("mediaType") == LAYER:
            digest, size = each.get("digest"), each.get("size")
            # INVARIANT: the digest has this form. It becomes a part of the blob's path, and an
            # ETag.
            if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
                raise RegistryError(
                    f"the digest of the bundle's layer, `{str(digest)[:80]}`, is not "
                    "a SHA-256 digest"
                )
            return digest, size if type(size) is int else 0
    raise RegistryError("no tarball descriptor found in the layers")


def _expect(answer: Answer, subject: str) -> None:
    """Raise RegistryError, with the status, unless the registry answered with 200. `subject` names
    what was requested in the message for 404.
    """
    if answer.status == 404:
        raise RegistryError(f"{subject}: not found", 404)
    if answer.status != 200:
        text = f"{answer.status} {status_text(answer.status)}".strip()
        raise RegistryError(f"unexpected status: {text}", answer.status)


def _verify(content: bytes, digest: str) -> None:
    """Raise RegistryError if `digest` is not `sha256:` and 64 hexadecimal digits, and ServiceError
    unless the content has it.
    """
    if (match := _DIGEST.fullmatch(digest)) is None:
        raise RegistryError(
            f"the digest `{digest[:80]}` from the registry or the image reference is not "
            "a SHA-256 digest"
        )
    if hashlib.sha256(content).hexdigest() != match[1]:
        raise ServiceError(
            f"the content from the registry does not have the digest {digest}: it was damaged or "
            "replaced"
        )
