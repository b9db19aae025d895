"""The measured policies written by hand in Python: what a compiler could at best arrive at.

Each function takes the same input as the policy and gives the same answer. Nothing here is shared
with the engine, and nothing is left out that the policy asks for.
"""

from __future__ import annotations

import base64
import hmac
import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

Twin = Callable[[Any], object]


def decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def verified_claims(token: str, secret: bytes) -> dict[str, Any] | None:
    """The claims of an HS256 token, or None when anything about it is wrong."""
    try:
        signed, _, signature = token.rpartition(".")
        header, _, payload = signed.partition(".")
        if json.loads(decoded(header)).get("alg") != "HS256":
            return None
        if not hmac.compare_digest(
            hmac.digest(secret, signed.encode(), "sha256"), decoded(signature)
        ):
            return None
        claims = json.loads(decoded(payload))
    except ValueError:
        return None
    return claims if isinstance(claims, dict) else None


def people(data: Mapping[str, Any]) -> Twin:
    """The people policy; the token is verified for every decision."""
    return _people(data, lambda token, secret: verified_claims(token, secret))


def people_cached(data: Mapping[str, Any]) -> Twin:
    """The people policy; a token that was verified once is known from then on."""
    known: dict[tuple[str, bytes], dict[str, Any] | None] = {}

    def claims_of(token: str, secret: bytes) -> dict[str, Any] | None:
        key = token, secret
        if key in known:
            return known[key]
        known[key] = verified_claims(token, secret)
        return known[key]

    return _people(data, claims_of)


def _people(
    data: Mapping[str, Any], claims_of: Callable[[str, bytes], dict[str, Any] | None]
) -> Twin:
    secret = data["secrets"]["jwt"].encode()
    people_or_below = re.compile(r"/people[^.]*").fullmatch

    def allow(request: Any) -> bool:
        http = request["attributes"]["request"]["http"]
        if request.get("truncated_body"):
            return False
        parts = http["headers"].get("authorization", "").split(" ")
        if not secret or len(parts) != 2:
            return False
        claims = claims_of(parts[1], secret)
        if claims is None:
            return False
        begin, end = claims.get("nbf"), claims.get("exp")
        if type(begin) is not int or type(end) is not int:
            return False
        if not begin * 1_000_000_000 <= time.time_ns() < end * 1_000_000_000:
            return False
        method, role = http["method"], claims.get("role")
        if method == "GET":
            return role in ("guest", "admin") and people_or_below(http["path"]) is not None
        if method != "POST" or role != "admin" or http["path"] != "/people":
            return False
        body = request["parsed_body"]
        first = body.get("firstname") if isinstance(body, dict) else None
        subject = claims.get("sub")
        if not isinstance(first, str) or not isinstance(subject, str):
            return False
        return first.lower() != decoded(subject).decode().lower()

    return allow


def rbac(data: Mapping[str, Any]) -> Twin:
    bindings, roles = data["bindings"], data["roles"]

    def allow(request: Any) -> bool:
        action, kind = request["action"], request["type"]
        for role in bindings.get(request["user"], ()):
            for grant in roles.get(role, ()):
                if grant["action"] == action and grant["type"] == kind:
                    return True
        return False

    return allow


def lookup(data: Mapping[str, Any]) -> Twin:
    table = {("GET", f"host-{n:04}", 443): f"service-{n:04}" for n in range(data["rules"])}

    def service(request: Any) -> str:
        return table.get((request["method"], request["host"], request["port"]), "none")

    return service


def iteration(data: Mapping[str, Any]) -> Twin:
    prefixes = ("registry.internal/", "docker.io/library/")
    forbidden = {"/", "/etc", "/proc", "/var/run"}

    def allow(request: Any) -> bool:
        deny = set()
        for container in request["containers"]:
            name, image = container["name"], container["image"]
            if container.get("privileged"):
                deny.add(f"{name} is privileged")
            if not image.startswith(prefixes):
                deny.add(f"{name} uses {image}")
            for volume in container["volumes"]:
                if volume["path"] in forbidden:
                    deny.add(f"{name} mounts {volume['path']}")
        return not deny

    return allow


def text(data: Mapping[str, Any]) -> Twin:
    tenant_name = re.compile(r"^[a-z][a-z0-9-]{2,30}$").search
    any_host = re.compile(r"[^.]*\.example\.com").fullmatch

    def allow(request: Any) -> bool:
        path = request["path"]
        segments = path.strip("/").split("/")
        if segments[0] != "v1":
            return False
        tenant = segments[2].lower()
        host = f"{tenant}.example.com"
        return (
            host == request["host"].lower()
            and tenant_name(tenant) is not None
            and any_host(host) is not None
            and ".." not in path
            and request["agent"].replace(" ", "/").endswith("(linux)")
            and f"{tenant.upper()}-{request['request_id'][:8]}" == request["tag"]
        )

    return allow
