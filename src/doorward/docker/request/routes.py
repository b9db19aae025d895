"""The engine API's routes: method and path to the action that a policy names.

The patterns match the whole decoded path without its version, as the daemon's router does. A route
says what kind of body the daemon acts on, because what the daemon acts on and the plugin is not
shown has to be refused. What no pattern matches is `unknown`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from doorward.docker.request import bodies
from doorward.docker.request.schema import Type

__all__ = ["IMPORT", "ROUTES", "UNKNOWN", "Kind", "Route", "find_route"]

Kind: TypeAlias = Literal["none", "json", "optional", "stream"]
"""What the daemon reads of the body.

`none`: nothing, but a form in a POST would replace the query. `json`: always JSON. `optional`:
JSON if there is a body. `stream`: a tar archive or a connection that is taken over; the plugin is
never shown it.
"""


@dataclass(frozen=True, slots=True)
class Route:
    """One action of the engine API."""

    method: str
    pattern: re.Pattern[str]
    action: str
    kind: Kind
    schema: Type
    query: frozenset[str] | None = None
    """The parameters that the daemon reads, where they change what a request does."""


UNKNOWN: Final = Route("", re.compile(""), "unknown", "stream", bodies.ANY)


def _route(
    method: str,
    path: str,
    action: str,
    kind: Kind = "none",
    schema: Type = bodies.ANY,
    *,
    query: str | None = None,
) -> Route:
    pattern = path.replace("{name}", "(?P<name>.+)").replace("{other}", "(?P<other>.+)")
    names = None if query is None else frozenset(query.split())
    return Route(method, re.compile(pattern), action, kind, schema, names)


_BUILD: Final = """
    buildargs buildid cachefrom cgroupparent cpuperiod cpuquota cpusetcpus cpusetmems cpushares
    dockerfile extrahosts forcerm isolation labels memory memswap networkmode nocache outputs
    platform pull q remote rm securityopt session shmsize squash t target ulimits version
"""
_CREATE_IMAGE: Final = "changes fromImage fromSrc message platform repo tag"


# In the order of the daemon's router where two patterns could match the same path.
ROUTES: Final = (
    _route("GET", "/_ping", "system.ping"),
    _route("HEAD", "/_ping", "system.ping"),
    _route("GET", "/info", "system.info"),
    _route("GET", "/version", "system.version"),
    _route("GET", "/events", "system.events"),
    _route("GET", "/system/df", "system.df"),
    _route("POST", "/auth", "system.auth", "json", bodies.AUTH),
    _route("POST", "/session", "build.session", "stream"),
    _route("POST", "/grpc", "build.grpc", "stream"),
    _route("GET", "/debug/.+", "system.debug"),
    # containers
    _route("GET", "/containers/{name}/checkpoints", "checkpoint.list"),
    _route(
        "POST", "/containers/{name}/checkpoints", "checkpoint.create", "json", bodies.CHECKPOINT
    ),
    _route("DELETE", "/containers/{name}/checkpoints/{other}", "checkpoint.delete"),
    _route("GET", "/containers/json", "container.list"),
    _route("GET", "/containers/ps", "container.list"),
    _route("HEAD", "/containers/{name}/archive", "container.archive.stat"),
    _route("GET", "/containers/{name}/archive", "container.archive.get"),
    _route("PUT", "/containers/{name}/archive", "container.archive.put", "stream"),
    _route("POST", "/containers/{name}/copy", "container.archive.get", "json"),
    _route("GET", "/containers/{name}/export", "container.export"),
    _route("GET", "/containers/{name}/changes", "container.changes"),
    _route("GET", "/containers/{name}/json", "container.inspect"),
    _route("GET", "/containers/{name}/top", "container.top"),
    _route("GET", "/containers/{name}/logs", "container.logs"),
    _route("GET", "/containers/{name}/stats", "container.stats"),
    _route("GET", "/containers/{name}/attach/ws", "container.attach"),
    _route(
        "POST",
        "/containers/create",
        "container.create",
        "json",
        bodies.CONTAINER_CREATE,
        query="name platform",
    ),
    _route("POST", "/containers/prune", "container.prune"),
    _route("POST", "/containers/{name}/kill", "container.kill"),
    _route("POST", "/containers/{name}/pause", "container.pause"),
    _route("POST", "/containers/{name}/unpause", "container.unpause"),
    _route("POST", "/containers/{name}/restart", "container.restart"),
    _route(
        "POST",
        "/containers/{name}/start",
        "container.start",
        "optional",
        bodies.HOST_CONFIG,
        query="checkpoint checkpoint-dir detachKeys",
    ),
    _route("POST", "/containers/{name}/stop", "container.stop"),
    _route("POST", "/containers/{name}/wait", "container.wait"),
    _route("POST", "/containers/{name}/resize", "container.resize"),
    _route("POST", "/containers/{name}/attach", "container.attach"),
    _route(
        "POST", "/containers/{name}/exec", "container.exec", "json", bodies.EXEC_CREATE, query=""
    ),
    _route("POST", "/containers/{name}/rename", "container.rename"),
    _route(
        "POST",
        "/containers/{name}/update",
        "container.update",
        "json",
        bodies.CONTAINER_UPDATE,
        query="",
    ),
    _route("DELETE", "/containers/{name}", "container.delete"),
    _route("GET", "/exec/{name}/json", "exec.inspect"),
    _route("POST", "/exec/{name}/start", "exec.start", "json", bodies.EXEC_START),
    _route("POST", "/exec/{name}/resize", "exec.resize"),
    _route(
        "POST",
        "/commit",
        "container.commit",
        "optional",
        bodies.CONFIG,
        query="author changes comment container pause repo tag",
    ),
    # images
    _route("GET", "/images/json", "image.list"),
    _route("GET", "/images/search", "image.search"),
    _route("GET", "/images/get", "image.save"),
    _route("GET", "/images/{name}/get", "image.save"),
    _route("GET", "/images/{name}/history", "image.history"),
    _route("GET", "/images/{name}/json", "image.inspect"),
    _route("POST", "/images/load", "image.load", "stream", query="platform quiet"),
    _route("POST", "/images/create", "image.pull", query=_CREATE_IMAGE),
    _route("POST", "/images/prune", "image.prune"),
    _route("POST", "/images/{name}/push", "image.push", "optional", bodies.AUTH),
    _route("POST", "/images/{name}/tag", "image.tag"),
    _route("DELETE", "/images/{name}", "image.delete"),
    _route("GET", "/distribution/{name}/json", "image.distribution"),
    _route("POST", "/build", "image.build", "stream", query=_BUILD),
    _route("POST", "/build/prune", "build.prune"),
    _route("POST", "/build/cancel", "build.cancel"),
    # volumes and networks
    _route("GET", "/volumes", "volume.list"),
    _route("GET", "/volumes/{name}", "volume.inspect"),
    _route("POST", "/volumes/create", "volume.create", "json", bodies.VOLUME_CREATE, query=""),
    _route("POST", "/volumes/prune", "volume.prune"),
    _route("PUT", "/volumes/{name}", "volume.update", "json"),
    _route("DELETE", "/volumes/{name}", "volume.delete"),
    _route("GET", "/networks/?", "network.list"),
    _route("GET", "/networks/{name}", "network.inspect"),
    _route("POST", "/networks/create", "network.create", "json", bodies.NETWORK_CREATE),
    _route("POST", "/networks/prune", "network.prune"),
    _route("POST", "/networks/{name}/connect", "network.connect", "json", bodies.NETWORK_CONNECT),
    _route(
        "POST",
        "/networks/{name}/disconnect",
        "network.disconnect",
        "json",
        bodies.NETWORK_DISCONNECT,
    ),
    _route("DELETE", "/networks/{name}", "network.delete"),
    # swarm
    _route("GET", "/swarm", "swarm.inspect"),
    _route("GET", "/swarm/unlockkey", "swarm.unlockkey"),
    _route("POST", "/swarm/init", "swarm.init", "json", bodies.SWARM_INIT),
    _route("POST", "/swarm/join", "swarm.join", "json", bodies.SWARM_JOIN),
    _route("POST", "/swarm/leave", "swarm.leave"),
    _route("POST", "/swarm/update", "swarm.update", "json", bodies.SWARM_SPEC),
    _route("POST", "/swarm/unlock", "swarm.unlock", "json", bodies.SWARM_UNLOCK),
    _route("GET", "/services", "service.list"),
    _route("GET", "/services/{name}/logs", "service.logs"),
    _route("GET", "/services/{name}", "service.inspect"),
    _route("POST", "/services/create", "service.create", "json", bodies.SERVICE, query=""),
    _route(
        "POST",
        "/services/{name}/update",
        "service.update",
        "json",
        bodies.SERVICE,
        query="registryAuthFrom rollback version",
    ),
    _route("DELETE", "/services/{name}", "service.delete"),
    _route("GET", "/tasks", "task.list"),
    _route("GET", "/tasks/{name}/logs", "task.logs"),
    _route("GET", "/tasks/{name}", "task.inspect"),
    _route("GET", "/nodes", "node.list"),
    _route("GET", "/nodes/{name}", "node.inspect"),
    _route("POST", "/nodes/{name}/update", "node.update", "json"),
    _route("DELETE", "/nodes/{name}", "node.delete"),
    _route("GET", "/secrets", "secret.list"),
    _route("GET", "/secrets/{name}", "secret.inspect"),
    _route("POST", "/secrets/create", "secret.create", "json", bodies.SECRET),
    _route("POST", "/secrets/{name}/update", "secret.update", "json", bodies.SECRET),
    _route("DELETE", "/secrets/{name}", "secret.delete"),
    _route("GET", "/configs", "config.list"),
    _route("GET", "/configs/{name}", "config.inspect"),
    _route("POST", "/configs/create", "config.create", "json", bodies.SECRET),
    _route("POST", "/configs/{name}/update", "config.update", "json", bodies.SECRET),
    _route("DELETE", "/configs/{name}", "config.delete"),
    # plugins
    _route("GET", "/plugins", "plugin.list"),
    _route("GET", "/plugins/privileges", "plugin.privileges"),
    _route("GET", "/plugins/{name}/json", "plugin.inspect"),
    _route("POST", "/plugins/pull", "plugin.pull", "json", bodies.PRIVILEGES, query="name remote"),
    _route("POST", "/plugins/create", "plugin.create", "stream"),
    _route("POST", "/plugins/{name}/enable", "plugin.enable"),
    _route("POST", "/plugins/{name}/disable", "plugin.disable"),
    _route("POST", "/plugins/{name}/push", "plugin.push", "optional", bodies.ANY),
    _route("POST", "/plugins/{name}/upgrade", "plugin.upgrade", "json", bodies.PRIVILEGES),
    _route("POST", "/plugins/{name}/set", "plugin.set", "json", bodies.SETTINGS),
    _route("DELETE", "/plugins/{name}", "plugin.delete"),
)

IMPORT: Final = _route("POST", "/images/create", "image.import", "stream", query=_CREATE_IMAGE)
"""A creation of an image whose query says that it comes from an archive."""

_FIRST: Final = re.compile(r"/[a-z_]+")
"""The first segment of a path, without which no route is. All begin with one that is literal."""


def _index() -> dict[tuple[str, str], tuple[Route, ...]]:
    """The routes by their method and first segment, in order."""
    index: dict[tuple[str, str], tuple[Route, ...]] = {}
    for route in ROUTES:
        first = _FIRST.match(route.pattern.pattern)
        assert first is not None
        key = route.method, first[0]
        index[key] = (*index.get(key, ()), route)
    return index


_INDEX: Final = _index()


def _match(method: str, path: str) -> tuple[Route, str]:
    first = _FIRST.match(path)
    for route in _INDEX.get((method, first[0] if first else ""), ()):
        match = route.pattern.fullmatch(path)
        if match:
            return route, match.groupdict().get("name") or ""
    return UNKNOWN, ""


_PLAIN: Final = {
    (route.method, path): _match(route.method, path)
    for route in ROUTES
    if re.escape(path := route.pattern.pattern) == path
}
"""The routes of paths in which there is no name."""


def find_route(method: str, path: str) -> tuple[Route, str]:
    """The route of a decoded path without its version, and the name in it (`""` if none)."""
    return _PLAIN.get((method, path)) or _match(method, path)
