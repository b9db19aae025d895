"""An AuthzRequest becomes the one document that a policy decides on.

`to_input` is pure but for `resolve`, which follows the links of host paths. It refuses what the
daemon could read otherwise (`errors`), and gives everything else under one name each: the fields
that policies for other plugins know, the action, and views in which every spelling of the same
power looks the same. docs/docker.md shows each field with an example.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

import orjson

from doorward.base.records import record
from doorward.docker.request import (
    builds,
    limits,
    mounts,
    networks,
    owners,
    secrets,
    security,
)
from doorward.docker.request.archives import NO_ARCHIVE, archive_views
from doorward.docker.request.call import AuthzRequest, Caller, Target, parse_target
from doorward.docker.request.errors import (
    AmbiguousRequestError,
    InvisibleBodyError,
    MalformedRequestError,
    OldVersionError,
    RequestError,
    WaitError,
)
from doorward.docker.request.facts import NO_CONTAINER
from doorward.docker.request.images import (
    NO_IMAGE,
    Image,
    parse_image,
    registry_of_address,
    registry_of_name,
)
from doorward.docker.request.model.readers import Notes
from doorward.docker.request.model.table import read_body, read_query
from doorward.docker.request.mounts import Mount, Resolve
from doorward.docker.request.routes import IMPORT, Route, find_route
from doorward.docker.request.solves import solve_views

__all__ = [
    "Draft",
    "Input",
    "InputOptions",
    "begin_input",
    "finish_input",
    "is_rollback",
    "refuse_to_wait",
    "refused_input",
    "resolve_path",
    "resolver",
    "roll_back",
    "to_input",
]

Input: TypeAlias = dict[str, Any]


@record
class InputOptions:
    """The options of reading requests."""

    minimum_version: tuple[int, ...] = (1, 24)
    """API versions below are refused: a start could carry a HostConfig there."""
    mask_env: bool = False
    """True if the policy sees the names but not the values of environment variables."""
    protected: tuple[str, ...] = ()
    """Host paths that this daemon and this plugin use: their data, sockets and policies."""
    protected_ports: tuple[int, ...] = ()
    """Where the decision point is expected: who publishes one of them could take its place."""


_USUAL: Final = InputOptions()
_NO_CALLER: Final[dict[str, Any]] = {"uid": -1, "groups": [], "container": ""}
_MAX_STEPS: Final = 4096
_LONGEST_VERSION: Final = 8
"""One character more than the longest that is one."""
_VERSION: Final = re.compile(r"[1-9][0-9]?\.(?:0|[1-9][0-9]{0,3})")


def resolve_path(path: str) -> str | None:
    """Return `path` with its links followed on this host; None if the system refuses the path, such
    as one with a NUL.
    """
    try:
        # Not strict: the daemon creates a folder of `Binds` that does not exist.
        return os.path.realpath(path)
    except (OSError, ValueError):
        return None


def refuse_to_wait(_path: str) -> NoReturn:
    """Raise WaitError, in place of `resolve_path` where nobody may wait: a path may lead to a host
    that is away.
    """
    raise WaitError


def resolver(root: str) -> Resolve:
    """Return a function like `resolve_path` for a host whose file system is mounted at `root`.

    Absolute links lead to paths below `root`, and `..` never leads out of it. Missing files keep
    their names. It returns None after `_MAX_STEPS` parts or if a link cannot be read.
    """

    def resolve(path: str) -> str | None:
        """Return a path of the host, below `root`, with its links followed; parts that do not exist
        stay as they are. None after `_MAX_STEPS` parts, for a NUL, and if a link cannot be read.
        """
        done: list[str] = []
        waiting = path.split("/")[::-1]
        # Links may lead in a circle, which the kernel would end with ELOOP.
        for _ in range(_MAX_STEPS):
            if not waiting:
                return "/" + "/".join(done)
            part = waiting.pop()
            if part in ("", "."):
                continue
            if part == "..":
                del done[-1:]
                continue
            try:
                link = os.readlink(os.path.join(root, *done, part))
            except FileNotFoundError:
                link = ""
            except ValueError:  # NUL
                return None
            except OSError as error:
                if error.errno != errno.EINVAL:  # EINVAL: there is something, and no link
                    return None
                link = ""
            # An absolute link begins again at the root of the host, not of
            # this process.
            if link.startswith("/"):
                done = []
            if link:
                waiting += link.split("/")[::-1]
            else:
                done.append(part)
        return None

    return resolve


class Draft(NamedTuple):
    """A parsed request before the host is asked for facts, such as the links of a path."""

    request: AuthzRequest
    options: InputOptions
    target: Target
    route: Route
    name: str
    notes: Notes
    body: Any
    visible: bool
    trusted: bool


def to_input(
    request: AuthzRequest, options: InputOptions | None = None, resolve: Resolve = resolve_path
) -> Input:
    """Return the policy's input for a request. Raise RequestError for a request that is refused
    without asking a policy; errors of `resolve` pass through. `options`: by default
    `InputOptions()`.
    """
    return finish_input(begin_input(request, options), resolve)


def begin_input(request: AuthzRequest, options: InputOptions | None = None) -> Draft:
    """Parse a request without asking the host for facts; `finish_input` makes the policy's input of
    the result. Raise RequestError for a request that is refused without asking a policy.
    """
    options = options or _USUAL
    target = parse_target(request.uri)
    route, name = find_route(request.method, target.route)
    if route.action == "image.pull" and _is_import(target.query):
        route = IMPORT
    _check_version(target.version, options.minimum_version)
    visible, trusted = _check_body(request, route)
    model = route.model
    notes = Notes(views=set(model.judged) if route.action in _BY_ACTION else set())
    read_query(model.query, target.query, notes)
    if name and model.name is not None:
        model.name(name, notes, "path")
    body = None
    if request.body is not None:
        body = read_body(request.body, model.body, notes, model.templates)
    return Draft(request, options, target, route, name, notes, body, visible, trusted)


def is_rollback(draft: Draft) -> bool:
    """Return True if a request rolls a service back: the daemon then takes its previous
    specification, and nothing of the body.
    """
    return draft.route.action == "service.update" and bool(
        draft.target.query.get("rollback", [""])[0]
    )


def roll_back(draft: Draft, previous: Any) -> Draft:
    """Return the draft of a service's rollback with its `previous` specification as the body.

    A specification that is not known (None), or not of the types of the model, is noted as a fault.
    """
    # Copies: the same draft is read once more if the call has to wait.
    notes = Notes([*draft.notes.unknown], [*draft.notes.faults], {*draft.notes.views})
    body: Any = {}
    try:
        if previous is None:
            raise MalformedRequestError("the previous specification is not known")
        body = read_body(orjson.dumps(previous), draft.route.model.body, notes)
    except RequestError:
        # To administrators alone: the daemon wrote it, and they may use what has no type.
        notes.faults.append(("query.rollback", _NO_ROLLBACK))
    return draft._replace(body=body, notes=notes)


_NO_ROLLBACK: Final = (
    "left out by all but administrators where the daemon does not describe the previous"
    " specification of this version of the service"
)


def finish_input(draft: Draft, resolve: Resolve = resolve_path) -> Input:
    """Return the policy's input for a request: OPA's fields, and the views with credentials masked.

    Raise MalformedRequestError for a query parameter of a build with JSON that the daemon would
    refuse. Errors of `resolve`, such as WaitError, pass through.
    """
    request, options, target, route, name, notes, body, visible, trusted = draft
    views = _views_by_template(body, target, notes, resolve)
    if views is None:
        views = _views(route.action, body, target, name, resolve)
    if request.solve is not None:
        views |= solve_views(request.solve)
    if request.archive is not None:
        views |= archive_views(request.archive, route.action, target.query, views)
        if views["archive"]["kinds"]:
            notes.views.add("archive")
    # Before anything takes a value from them: `target` and `BindMounts` below come from the views.
    views = secrets.mask_views(views)
    if body is None and route.kind == "withheld":
        views["registry"] = ""  # only the body says which
    masked = secrets.mask_body(route.action, body, env=options.mask_env)
    query, path = _mask_target(request, target)
    identified = request.identified
    return {
        "User": request.user if identified else "",
        "AuthMethod": request.auth_method,
        "Method": request.method,
        "Path": path,
        "PathPlain": target.path,
        "PathArr": target.path.split("/"),
        "Query": query,
        "Headers": secrets.mask_headers(request.headers),
        "Body": masked,
        "BindMounts": mounts.bind_mounts(views["mounts"]),
        "phase": "request",
        "identified": identified,
        "caller": _caller(request.caller),
        "action": route.action,
        "api_version": target.version,
        "target": views.pop("target", name),
        "body": masked,
        "body_visible": visible,
        "query_trusted": trusted,
        "protected": list(options.protected),
        "protected_ports": list(options.protected_ports),
        "open_listeners": [],
        "inspects": False,
        "unknown_fields": notes.unknown,
        "untyped": [{"field": at, "type": text} for at, text in dict.fromkeys(notes.faults)],
        "beyond": sorted(notes.views),
        "owner": _owner(route.action, body, target),
        **views,
    }


def _caller(caller: Caller | None) -> dict[str, Any]:
    """Return the facts that the proxy knows of the caller besides its name; without a caller,
    values that stand for unknown ones.
    """
    if caller is None:
        return _NO_CALLER
    return {
        "uid": caller.uid,
        "groups": list(caller.groups),
        "container": caller.container,
    }


def _owner(action: str, body: Any, target: Target) -> dict[str, Any]:
    """Return the owners that a request itself names; those of the object that it acts on are added
    later, when the daemon was asked.
    """
    labels = owners.label_values(action, body, target.query)
    return {**owners.NO_OWNER, "labels": labels} if labels else owners.NO_OWNER


def _is_import(query: Mapping[str, list[str]]) -> bool:
    """Return True if a request to create an image imports an archive: its query has `fromSrc` and
    no `fromImage`.
    """
    return not query.get("fromImage", [""])[0] and bool(query.get("fromSrc", [""])[0])


def _mask_target(request: AuthzRequest, target: Target) -> tuple[dict[str, list[str]], str]:
    """Return the query without secrets, and the request's path with it."""
    query = secrets.mask_query(target.query)
    return query, request.uri if query == target.query else secrets.mask_path(request.uri, query)


def refused_input(request: AuthzRequest) -> Input:
    """Return the log's description of a request that no policy decided: its action, target and path
    without secrets; `{}` if its target cannot be read.
    """
    try:
        target = parse_target(request.uri)
        route, name = find_route(request.method, target.route)
    except RequestError:
        return {}
    _, path = _mask_target(request, target)
    return {"action": route.action, "target": name, "Path": path}


def _check_version(text: str, minimum: tuple[int, ...]) -> None:
    """Raise AmbiguousRequestError unless the version is spelled as the daemon does, OldVersionError
    if it is below `minimum`.

    An empty text passes. The daemon reads `1.0000000023` as 1.23, so other spellings are refused.
    """
    if not text:
        return
    # Cut, since clients choose the text and the cache keeps it.
    parts = _version(text[:_LONGEST_VERSION])
    if not parts:
        raise AmbiguousRequestError("API version in the path must be written like 1.45")
    if parts < minimum:
        minimum_text = ".".join(map(str, minimum))
        raise OldVersionError(f"API version is below the minimum of {minimum_text}")


@lru_cache(256)
def _version(text: str) -> tuple[int, ...]:
    """Return the numbers of a version; () if it is written in another way."""
    return tuple(map(int, text.split("."))) if _VERSION.fullmatch(text) else ()


def _check_body(request: AuthzRequest, route: Route) -> tuple[bool, bool]:
    """Return two flags: the policy sees the body or there is none to see, and the daemon will use
    the query as it was read.

    The daemon reads a form in the body of a POST, PUT or PATCH as its query, and does not show
    forms to plugins. It reports the last Content-Type of several but uses the first, so only a
    request without a body or without that header certainly has no form. Raise InvisibleBodyError if
    the route needs a body that is not visible, or if a form could replace the query.
    """
    if request.body is not None:
        return True, True
    headers = {name.lower(): value for name, value in request.headers.items()}
    empty = headers.get("content-length") == "0"
    trusted = (
        empty or "content-type" not in headers or request.method not in ("POST", "PUT", "PATCH")
    )
    if route.kind == "withheld":
        # The daemon takes nothing but JSON here, which is not a form, and no parameters.
        return False, True
    if route.kind == "json":
        raise InvisibleBodyError("request body is not visible to the policy")
    if route.kind == "stream" and not trusted and _is_form(headers.get("content-type", "")):
        raise InvisibleBodyError(
            "request body is a form, whose fields the daemon would use instead of "
            "the query parameters"
        )
    if route.kind in ("none", "optional") and not trusted:
        raise InvisibleBodyError(
            "request body is not visible to the policy, and may replace the query parameters"
        )
    return empty or route.kind != "stream", trusted


def _is_form(content_type: str) -> bool:
    """Return True if the daemon reads a body of this type as parameters."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/x-www-form-urlencoded" or kind.startswith("multipart/")


_Views: TypeAlias = dict[str, Any]
_NO_VIEWS: Final[_Views] = {
    "mounts": [],
    "security": security.NO_SECURITY,
    "resources": limits.NO_RESOURCES,
    "ports": networks.NO_PORTS,
    "image": NO_IMAGE,
    "images": [],
    "network": networks.NO_NETWORK,
    "devices": security.NO_DEVICES,
    "cgroup": security.cgroup_view({}),
    "logging": limits.NO_LOGGING,
    "checkpoint": {"directory": ""},
    "remote": "",
    "registry": "",
    "build": builds.NO_BUILD,
    "archive": NO_ARCHIVE,
    "container": NO_CONTAINER,
    "unresolved": [],
}


def _views(action: str, body: Any, target: Target, name: str, resolve: Resolve) -> _Views:
    """Return the views of a request by its action, the defaults for an action without views.
    `unresolved` names the views with a part that only the daemon can resolve.
    """
    make = _BY_ACTION.get(action)
    if make is None:
        return dict(_NO_VIEWS)
    views = {**_NO_VIEWS, **make(body or {}, target, name, resolve)}
    views["unresolved"] = _unresolved_views(views)
    return views


def _unresolved_views(views: _Views) -> list[str]:
    """Return the sorted names of the views with a part that only the daemon can resolve, such as an
    image's identifier.
    """
    names = [name for name in ("image", "network", "security") if views[name]["unresolved"]]
    for name, part in _ROWS:
        rows = views[name] if part is None else views[name][part]
        if rows and any([row["unresolved"] for row in rows]):
            names.append(name)
    return sorted(names) if len(names) > 1 else names


_ROWS: Final = (("build", "cache_from"), ("images", None), ("mounts", None), ("ports", "published"))
"""Views with rows, and where in them."""


_SEEN: Final = ("User", "MacAddress", "NetworkDisabled", "ExposedPorts", "Volumes")
"""Fields of a configuration that are part of a view, but for its image."""
_NETWORKS: Final = "NetworkingConfig"


def _views_by_template(body: Any, target: Target, notes: Notes, resolve: Resolve) -> _Views | None:
    """Return the views of a container creation as a copy of those prepared for its template, the
    part of the body that it shares with earlier requests.

    Only image, name and bind mounts are read again. None if the body was not read by a template, or
    has other fields that matter; the views must then be built in full.
    """
    template = notes.template
    # By identity: where a proxy has labelled volumes, another object stands there, of which the
    # template's views know nothing.
    if template is None or body["HostConfig"] is not notes.host or any(map(body.get, _SEEN)):
        return None
    # The head may have it where the template has none, and its views are without it then.
    if body.get(_NETWORKS) is not template.members.get(_NETWORKS):
        return None
    if template.prepared is None:
        template.prepared = _prepare(template.members)
    if not template.prepared:
        return None
    views: _Views = template.prepared.copy()
    image = views["image"] = parse_image(body.get("Image") or "")
    views["target"] = target.query.get("name", _NOTHING)[0]
    binds = notes.host["Binds"]
    if binds:
        views["mounts"] = mounts.bound(binds, resolve)
    if binds or image["unresolved"] or views["unresolved"]:
        views["unresolved"] = _unresolved_views(views)
    return views


_NOTHING: Final = ("",)


def _prepare(members: Mapping[str, Any]) -> _Views:
    """Return the views of a template's members, which `_views_by_template` copies for each request.
    `{}` if they cannot be shared, because the members have mounts or secrets.
    """
    host = members["HostConfig"]
    if (
        mounts.mounts_anything(security.nonempty_fields(host))
        or secrets.mask_host(host) is not host
    ):
        return {}
    views = {**_NO_VIEWS, **_create(members, _NO_TARGET, "", refuse_to_wait), "image": NO_IMAGE}
    views["unresolved"] = _unresolved_views(views)
    return views


_NO_TARGET: Final = Target("", "", "", {})


def _create(body: Any, target: Target, _name: str, resolve: Resolve) -> _Views:
    """Return the views that the creation of a container sets, from its body; `_views` adds the
    others. `resolve` resolves the paths of mounts; its errors, such as WaitError, pass through.
    """
    host = body.get("HostConfig") or {}
    views = _host_views(host, body, body.get("NetworkingConfig") or {}, resolve)
    shared = views["security"]["host_namespaces"]
    if "host" in views["network"]["names"] and "network" not in shared:
        views["security"] = {**views["security"], "host_namespaces": [*shared, "network"]}
    views["image"] = parse_image(body.get("Image") or "")
    # An image that is mounted is read like one that is run.
    views["images"] = [
        parse_image(mount["source"]) for mount in views["mounts"] if mount["type"] == "image"
    ]
    views["target"] = target.query.get("name", [""])[0]
    return views


def _host_views(
    host: Mapping[str, Any], config: Mapping[str, Any], net: Mapping[str, Any], resolve: Resolve
) -> _Views:
    """Return the views that a HostConfig determines: mounts, security, resources, ports, network,
    devices, cgroup and logging.
    """
    host = security.nonempty_fields(host)
    return {
        "mounts": mounts.create_mounts(host, config, resolve),
        "security": security.create_security(host, config),
        "resources": limits.create_resources(host),
        "ports": networks.create_ports(host, config),
        "network": networks.create_network(host, config, net),
        "devices": security.device_view(host),
        "cgroup": security.cgroup_view(host),
        "logging": limits.logging_view(host.get("LogConfig"), driver="Type", options="Config"),
    }


def _start(body: Any, target: Target, _name: str, resolve: Resolve) -> _Views:
    """Return the views of a request that starts a container: `checkpoint`, whose folder is that in
    the query or "", and those of a HostConfig in its body (old clients).
    """
    views = _host_views(body, {}, {}, resolve) if body else {}
    directory = target.query.get("checkpoint-dir", [""])[0]
    return {**views, "checkpoint": {"directory": directory}}


def _checkpoint(body: Any, target: Target, _name: str, _resolve: Resolve) -> _Views:
    """Return the view of a request about the checkpoints of a container: the folder that holds
    them, "" for the daemon's own.
    """
    directory = body.get("CheckpointDir") or target.query.get("dir", [""])[0]
    return {"checkpoint": {"directory": directory}}


def _update(body: Any, _target: Target, _name: str, _resolve: Resolve) -> _Views:
    """Return the views of a request that updates a container."""
    return {
        "resources": limits.update_resources(body),
        "devices": security.device_view(body),
        "cgroup": security.cgroup_view(body),
    }


def _exec(body: Any, _target: Target, _name: str, _resolve: Resolve) -> _Views:
    """Return the view `security` of a request that makes an exec."""
    return {"security": security.exec_security(body)}


def _commit(_body: Any, target: Target, _name: str, _resolve: Resolve) -> _Views:
    """Return the views of a request that makes an image of a container: the image's name, and the
    container as target.
    """
    query = target.query
    image = _image_of(query, "repo", "tag")
    return {"image": image, "target": query.get("container", [""])[0]}


def _image_of(query: Mapping[str, list[str]], name: str, tag: str) -> Image:
    """Return the image that two parameters of the query name, a reference and a tag; NO_IMAGE
    without the reference.
    """
    reference = query.get(name, [""])[0]
    return parse_image(reference, query.get(tag, [""])[0]) if reference else NO_IMAGE


def _pull(_body: Any, target: Target, _name: str, _resolve: Resolve) -> _Views:
    """Return the views of a request that pulls or imports an image.

    An import has `remote`, the URL of its source, `""` for the request's body. A pull without a tag
    or digest has the tag `""`: the daemon may pull all of them.
    """
    query = target.query
    if _is_import(query):
        image = _image_of(query, "repo", "tag")
        source = query["fromSrc"][0]
        remote = "" if source == "-" else source
        return {"image": image, "target": image["reference"], "remote": remote}
    image = _image_of(query, "fromImage", "tag")
    if not query.get("tag", [""])[0] and ":" not in image["reference"].rpartition("/")[2]:
        # Without a tag the daemon may pull every one.
        image = Image(**{**image, "tag": ""})
    if not image["reference"]:
        image = parse_image("")
    return {"image": image, "target": image["reference"]}


def _push(_body: Any, target: Target, name: str, _resolve: Resolve) -> _Views:
    """Return the view of a request that pushes the image `name`."""
    return {"image": parse_image(name, target.query.get("tag", [""])[0])}


def _tag(_body: Any, target: Target, _name: str, _resolve: Resolve) -> _Views:
    """Return the view of a request that gives an image a further name: the image of that name."""
    return {"image": _image_of(target.query, "repo", "tag")}


def _of_name(_body: Any, _target: Target, name: str, _resolve: Resolve) -> _Views:
    """Return the view of a request about the image `name`."""
    return {"image": parse_image(name)}


def _build(_body: Any, target: Target, _name: str, _resolve: Resolve) -> _Views:
    """Return the views of a classic build by its query. Raise MalformedRequestError for a parameter
    with JSON that the daemon would refuse.
    """
    query = target.query
    images = [parse_image(name) for name in query.get("t", [])]
    build = builds.build_view(query)
    remote = query.get("remote", [""])[0]
    mode = query.get("networkmode", [""])[0] or "default"
    container = mode.removeprefix("container:") if mode.startswith("container:") else ""
    return {
        "images": images,
        "target": query.get("t", [""])[0],
        "remote": "" if build["buildkit"] and remote in builds.OF_THE_CLIENT else remote,
        "build": build,
        "resources": {**limits.build_resources(query), "ulimits": builds.build_ulimits(query)},
        "cgroup": security.cgroup_view({"CgroupParent": query.get("cgroupparent", [""])[0]}),
        "security": security.create_security(
            {"NetworkMode": mode, "SecurityOpt": query.get("securityopt")}, {}
        ),
        "network": {
            **networks.NO_NETWORK,
            "mode": mode,
            "container": container,
            "unresolved": bool(container),
        },
    }


def _save(_body: Any, target: Target, name: str, _resolve: Resolve) -> _Views:
    """Return the views of a request that saves images: the one in the path, or those in the query;
    `target` has their names, with commas.
    """
    names = target.query.get("names", []) if not name else [name]
    return {"images": [parse_image(each) for each in names], "target": name or ",".join(names)}


def _volume(body: Any, _target: Target, _name: str, resolve: Resolve) -> _Views:
    """Return the views of a request that creates a volume, whose driver options may name a path of
    the host.
    """
    options = {"DriverConfig": {"Name": body.get("Driver"), "Options": body.get("DriverOpts")}}
    rows = mounts.mount_list([{"Type": "volume", "VolumeOptions": options}], resolve)
    return {"mounts": rows, "target": body.get("Name") or ""}


def _network(body: Any, _target: Target, _name: str, _resolve: Resolve) -> _Views:
    """Return the views of a request that creates a network."""
    return {"network": networks.new_network(body), "target": body.get("Name") or ""}


def _auth(body: Any, _target: Target, _name: str, _resolve: Resolve) -> _Views:
    """Return the view of a login: its registry."""
    return {"registry": registry_of_address(body.get("serveraddress") or "")}


def _search(_body: Any, target: Target, _name: str, _resolve: Resolve) -> _Views:
    """Return the view of a search for images: the registry that its term names."""
    return {"registry": registry_of_name(target.query.get("term", [""])[0])}


def _distribution(_body: Any, _target: Target, name: str, _resolve: Resolve) -> _Views:
    """Return the views of a question to the registry about the image `name`; an image that cannot
    be resolved has the whole name as its registry.
    """
    image = parse_image(name)
    return {"image": image, "registry": image["registry"] or name}


def _connect(body: Any, _target: Target, name: str, _resolve: Resolve) -> _Views:
    """Return the views of a request that connects a container to the network `name`."""
    endpoints = {"EndpointsConfig": {name: body.get("EndpointConfig")}}
    network = networks.create_network({"NetworkMode": name}, {}, endpoints)
    return {"network": {**network, "container": body.get("Container") or ""}}


def _service(body: Any, _target: Target, name: str, resolve: Resolve) -> _Views:
    """Return the views of a swarm service.

    Host paths are marked `unresolved`: a task may run on any node, whose links are unknown here.
    """
    task = body.get("TaskTemplate") or {}
    spec = task.get("ContainerSpec") or {}
    network = networks.service_network(body)
    # The task runs on some node, whose links are not those of this host.
    rows = [
        Mount(**{**mount, "unresolved": True}) if mount["type"] in ("bind", "device") else mount
        for mount in mounts.mount_list(spec.get("Mounts") or (), resolve)
    ]
    return {
        "mounts": rows,
        "security": security.service_security(spec, network["names"]),
        "resources": limits.service_resources(task),
        "logging": limits.logging_view(task.get("LogDriver"), driver="Name", options="Options"),
        "ports": networks.service_ports((body.get("EndpointSpec") or {}).get("Ports") or ()),
        "image": parse_image(spec.get("Image") or ""),
        "network": network,
        "target": name or body.get("Name") or "",
    }


def _secret(body: Any, _target: Target, name: str, _resolve: Resolve) -> _Views:
    """Return the target of a request about a secret or config: the one in the path, or the name in
    the body.
    """
    return {"target": name or body.get("Name") or ""}


def _plugin(_body: Any, target: Target, name: str, _resolve: Resolve) -> _Views:
    """Return the views of a request that pulls or upgrades a plugin: its image, and as target the
    plugin in the path, or else the image.
    """
    remote = target.query.get("remote", [""])[0]
    return {"image": parse_image(remote) if remote else NO_IMAGE, "target": name or remote}


def _grpc(_body: Any, _target: Target, _name: str, _resolve: Resolve) -> _Views:
    """Return {}, the view of a connection with BuildKit: each of its calls is decided by itself."""
    return {}


_BY_ACTION: Final[Mapping[str, Callable[[Any, Target, str, Resolve], _Views]]] = {
    "build.grpc": _grpc,
    "container.create": _create,
    "container.start": _start,
    "container.update": _update,
    "container.exec": _exec,
    "container.commit": _commit,
    "checkpoint.create": _checkpoint,
    "checkpoint.delete": _checkpoint,
    "checkpoint.list": _checkpoint,
    "image.import": _pull,
    "image.pull": _pull,
    "image.push": _push,
    "image.tag": _tag,
    "image.delete": _of_name,
    "image.inspect": _of_name,
    "image.history": _of_name,
    "image.distribution": _distribution,
    "image.search": _search,
    "system.auth": _auth,
    "image.build": _build,
    "image.save": _save,
    "volume.create": _volume,
    "network.create": _network,
    "network.connect": _connect,
    "service.create": _service,
    "service.update": _service,
    "secret.create": _secret,
    "secret.update": _secret,
    "config.create": _secret,
    "config.update": _secret,
    "plugin.pull": _plugin,
    "plugin.upgrade": _plugin,
    "plugin.privileges": _plugin,
}
