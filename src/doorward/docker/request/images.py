"""Image references taken apart as the engine does: registry, repository, tag, digest.

`busybox` is `docker.io/library/busybox:latest`. What is a content identifier and no name, or no
reference at all, is `unresolved`: which image it is only the daemon knows.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, TypedDict

__all__ = [
    "NO_IMAGE",
    "Image",
    "is_content",
    "parse_image",
    "registry_of_address",
    "registry_of_name",
]

_HUB: Final = "docker.io"
# The daemon reads the first as docker.io, and docker.io stands for the second.
_HUB_HOSTS: Final = ("index.docker.io", "registry-1.docker.io")
_DIGEST: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")
_TAG: Final = re.compile(r"[\w][\w.-]{0,127}", re.ASCII)
_IDENTIFIER: Final = re.compile(r"(?:sha256:)?[0-9a-f]{1,64}")
_FULL_ID: Final = re.compile(r"(?:sha256:)?[0-9a-f]{64}")
"""A whole identifier, which the daemon takes for no name; a part of one may be a name."""
_COMPONENT: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_PATH: Final = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_DOMAIN: Final = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9a-fA-F:.]+\])(?::[0-9]{1,5})?")
_MAX: Final = 1024
_SHORT: Final = 256
"""Bytes of a reference that is remembered: the same images are asked for again and again."""


class Image(TypedDict):
    """One reference. `registry`, `repository` and `tag` are "" where `unresolved`."""

    reference: str
    registry: str
    repository: str
    name: str
    """`registry/repository`, the text that an allow-list is compared with."""
    tag: str
    digest: str
    unresolved: bool


NO_IMAGE: Final = Image(
    reference="", registry="", repository="", name="", tag="", digest="", unresolved=False
)


def parse_image(reference: str, tag: str = "") -> Image:
    """Return the parts of an image reference; `tag` is a tag or digest that the request has in
    another field. A reference that is malformed, or may be an identifier, is `unresolved`.
    """
    if len(reference) + len(tag) <= _SHORT:
        return _parse_short(reference, tag)
    return _parse(reference, tag)


def _parse(reference: str, tag: str) -> Image:
    """Return the parts of an image reference by the daemon's rules, with `docker.io`, `library/`
    and the tag `latest` filled in. `tag` is a tag or digest to be added, "" for none. `unresolved`
    if it is malformed, may also be an identifier, or has more than `_MAX` characters.
    """
    complete = reference
    if tag:
        complete = f"{reference}@{tag}" if _DIGEST.fullmatch(tag) else f"{reference}:{tag}"
    rest, at, digest = complete.partition("@")
    # A colon with a slash behind it is that of a port.
    name, colon, tag_part = rest.rpartition(":")
    if not colon or "/" in tag_part:
        name, tag_part = rest, ""
    domain, slash, path = name.partition("/")
    if not slash or not _is_domain(domain):
        domain, path = _HUB, name
    if domain in _HUB_HOSTS:
        domain = _HUB
    if domain == _HUB and "/" not in path:
        path = f"library/{path}"
    valid = (
        len(complete) <= _MAX
        and _DOMAIN.fullmatch(domain)
        and _PATH.fullmatch(path)
        and (not colon or not tag_part or _TAG.fullmatch(tag_part))
        and (not at or _DIGEST.fullmatch(digest))
    )
    # `abc` is a name and the start of an identifier: the daemon tries both, so nobody knows here.
    if not valid or _IDENTIFIER.fullmatch(complete):
        return Image(
            reference=complete[:_MAX],
            registry="",
            repository="",
            name="",
            tag="",
            digest=complete if _FULL_ID.fullmatch(complete) else "",
            unresolved=True,
        )
    return Image(
        reference=complete,
        registry=domain,
        repository=path,
        name=f"{domain}/{path}",
        tag=tag_part or ("" if digest else "latest"),
        digest=digest.lower(),
        unresolved=False,
    )


def is_content(reference: str) -> bool:
    """Return True if a reference is an identifier, or the start of one."""
    return _IDENTIFIER.fullmatch(reference) is not None


_parse_short: Final = lru_cache(1024)(_parse)


def registry_of_address(address: str) -> str:
    """Return the registry at an address for credentials, which may be a URL."""
    host = re.sub(r"\A[A-Za-z][A-Za-z0-9+.-]*://", "", address).partition("/")[0]
    return _HUB if host in ("", *_HUB_HOSTS) else host


def registry_of_name(name: str) -> str:
    """Return the registry of the images with this name, which may be only a part of one;
    `docker.io` if it names none.
    """
    domain, slash, _ = name.partition("/")
    return registry_of_address(domain) if slash and _is_domain(domain) else _HUB


def _is_domain(text: str) -> bool:
    """Return True if the first part of a name is a registry, by the engine's rule."""
    return "." in text or ":" in text or text == "localhost" or text != text.lower()
