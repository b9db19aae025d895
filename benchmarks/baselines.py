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
    table = {("GET", f"host-{n:05}", 443): f"service-{n:05}" for n in range(data["rules"])}

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


PRELOADED = re.compile(r"^(LD_PRELOAD|LD_LIBRARY_PATH)=").search


def docker(data: Mapping[str, Any]) -> Twin:
    users, limits = set(data["users"]), data["limits"]
    capabilities, forbidden = set(data["capabilities"]), tuple(data["forbidden"])
    registries = tuple(data["registries"])

    def allow(request: Any) -> bool:
        body = request["body"]
        host = body["HostConfig"]
        get = host.get
        deny = set()
        for field, said in (
            ("Privileged", "privileged"),
            ("PublishAllPorts", "publishes all ports"),
            ("OomKillDisable", "may not be killed when memory is short"),
        ):
            if get(field) is True:
                deny.add(said)
        for field, said in (
            ("NetworkMode", "network of the host"),
            ("PidMode", "processes of the host"),
            ("IpcMode", "memory of the host"),
            ("UTSMode", "names of the host"),
            ("UsernsMode", "users of the host"),
            ("CgroupnsMode", "control groups of the host"),
        ):
            if get(field) == "host":
                deny.add(said)
        if get("NetworkMode", "").startswith("container:"):
            deny.add("network of another container")
        if get("CgroupParent", "") != "":
            deny.add("control group of its own choice")
        memory, pids = get("Memory", 0), get("PidsLimit", 0)
        if not memory > 0:
            deny.add("no limit of memory")
        if memory > limits["memory"]:
            deny.add("too much memory")
        if get("MemorySwap", 0) > memory:
            deny.add("swaps")
        if get("NanoCpus", 0) > limits["cpus"] * 1_000_000_000:
            deny.add("too many processors")
        if not pids > 0:
            deny.add("no limit of processes")
        if pids > limits["pids"]:
            deny.add("too many processes")
        if body.get("User") in ("", "0", "root"):
            deny.add("runs as root")
        for capability in get("CapAdd") or ():
            if capability not in capabilities:
                deny.add(f"capability {capability}")
        for option in get("SecurityOpt") or ():
            if option.endswith("unconfined") or option.startswith("label=disable"):
                deny.add(f"option {option}")
        for bind in get("Binds") or ():
            source = bind.split(":")[0]
            if source.startswith(forbidden):
                deny.add(f"mounts {source}")
            if "docker.sock" in bind:
                deny.add(f"mounts the daemon by {bind}")
        for mount in get("Mounts") or ():
            if mount.get("Type") == "bind" and not mount["Source"].startswith("/srv/"):
                deny.add(f"mounts {mount['Source']}")
            if mount.get("BindOptions", {}).get("Propagation") in ("shared", "rshared"):
                deny.add(f"shares {mount['Source']}")
        for device in get("Devices") or ():
            deny.add(f"device {device['PathOnHost']}")
        for name in get("Sysctls") or ():
            if not name.startswith("net."):
                deny.add(f"kernel parameter {name}")
        for port, bindings in (get("PortBindings") or {}).items():
            for binding in bindings:
                if float(binding["HostPort"]) < 1024:
                    deny.add(f"port {binding['HostPort']} for {port}")
        image = body["Image"]
        if not (image.startswith(registries) and "@sha256:" in image):
            deny.add(f"image {image}")
        for variable in body.get("Env") or ():
            if PRELOADED(variable):
                deny.add(f"variable {variable}")
        return request["user"] in users and not deny

    return allow
