"""Facts that only the daemon knows, asked while a request is decided: containers, volumes,
networks.

A user who may start a program in a container has the power that the container was given when it was
created, by any user. A named volume may be a folder of the host, and a part of an identifier may be
the host's network. With this, a policy sees them. The daemon asks the plugin about each question
too: a header that nobody else can guess identifies it, and it is allowed. All questions about one
request share a deadline; what is not answered by then is in the input as not known, and the shipped
policies deny it.
"""

from __future__ import annotations

import hmac
import http.client
import re
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

from doorward.docker.request.call import AuthzRequest
from doorward.docker.request.errors import RequestError, WaitError
from doorward.docker.request.images import parse_image
from doorward.docker.request.limits import after_update, create_resources
from doorward.docker.request.model.objects import OBJECTS
from doorward.docker.request.model.readers import Notes
from doorward.docker.request.model.table import VIEWS, read_type
from doorward.docker.request.mounts import Mount, Resolve, host_mount, unknown_volume, volume_mounts
from doorward.docker.request.networks import BUILT_IN, create_ports, network_reference
from doorward.docker.request.owners import LABEL, Named, named_objects
from doorward.docker.request.security import cgroup_view, create_security, device_view
from doorward.docker.unix_http import UnixConnection
from doorward.rego import from_json

__all__ = ["ENTERING", "NO_CONTAINER", "ContainerFacts"]

ENTERING: Final = frozenset(
    {
        "container.archive.get",
        "container.archive.put",
        "container.attach",
        "container.commit",
        "container.exec",
        "container.export",
        "container.rename",
        "container.restart",
        "container.start",
        "container.unpause",
        "container.update",
        "exec.start",
        "network.connect",
    }
)
"""Actions on a container that is there already, whose power matters.

Who renames a container makes another one of what was judged a moment before; who starts an `exec`
that someone else created gets its output.
"""

NO_CONTAINER: Final[dict[str, Any]] = {"asked": False, "known": False, "missing": False}
_ATTACHING: Final = frozenset({"container.restart", "container.start"})
"""Actions at which the daemon looks for the networks that a container has joined."""
_CREATING: Final = frozenset({"container.create", "service.create", "service.update"})
_MAX_QUESTIONS: Final = 32
"""Volumes and networks asked about for one request; further ones count as unknown."""
_HEADER: Final = "X-Doorward-Self"
_DEADLINE: Final = 2.0
"""Seconds for all questions about one request together."""
_MAX_ANSWER: Final = 4 << 20
_HEXADECIMAL: Final = re.compile(r"[0-9a-f]{1,63}")


class ContainerFacts:
    """Asks the daemon, over its Unix socket, about the objects that requests name. Safe in any
    number of threads.
    """

    def __init__(
        self,
        socket: str,
        resolve: Resolve,
        *,
        deadline: float = _DEADLINE,
        owners: bool = False,
        translate: Callable[[bytes], bytes] = bytes,
    ) -> None:
        """Ask the daemon at `socket`, for at most `deadline` seconds for one request.

        `owners`: also ask for the owners of the objects that a request names. `translate` is
        applied to the bytes of each answer.
        """
        self._socket = socket
        self._resolve = resolve
        self._deadline = deadline
        self._owners = owners
        self._translate = translate
        self._nonce = secrets.token_hex(32)
        self._root = ""

    def is_own(self, request: AuthzRequest) -> bool:
        """Return True if a request is a question that this object sent to the daemon, which asks
        the plugin about it as about any request. A secret header identifies it.
        """
        if request.method != "GET":
            return False
        token = request.headers.get(_HEADER, "")
        # In constant time: to guess this header is to get past every policy.
        return hmac.compare_digest(token.encode(errors="replace"), self._nonce.encode())

    def join(self, view: dict[str, Any], *, may_wait: bool = True) -> None:
        """Add the daemon's answers about the objects that a request names to its input.

        Changes `view` in place. Raise WaitError if the daemon has to be asked and `may_wait` is
        False; `view` is then incomplete and must be dropped. With owners, only the first
        `_MAX_QUESTIONS` objects are asked for: if there are more, `asked` in `owner` is False.
        """
        action = view["action"]
        questions = self._questions(may_wait=may_wait)
        if self._owners:
            named = named_objects(view)
            if action in _ATTACHING:
                named += _late_references(view["target"], questions)
            objects = [_object_view(kind, name, questions) for kind, name in named[:_MAX_QUESTIONS]]
            is_all = len(named) <= _MAX_QUESTIONS
            view["owner"] = {**view["owner"], "asked": is_all, "objects": objects}
        if action in ENTERING:
            if action == "exec.start":
                container = self._container_of_exec(view["target"], questions)
            elif action == "network.connect":
                container = self._container(view["network"]["container"], questions)
            else:
                container = self._container(view["target"], questions)
            view["container"] = container
            view["beyond"] = _ALL
            # The limits after the update are what counts: a request names only those it changes.
            if action == "container.update" and container["known"]:
                view["resources"] = after_update(container["resources"], view["resources"])
        elif action in _CREATING or action == "volume.create":
            # Before the first container the daemon may still be starting, and not answer.
            self._root = self._root or _data_root(questions)
            if self._root:
                view["protected"] = [*view["protected"], self._root]
            view["mounts"] = self._with_volumes(view["mounts"], questions)
            view["network"] = _with_networks(view["network"], questions)
            shared = {*view["security"]["host_namespaces"]}
            if "host" in view["network"]["names"]:
                shared.add("network")
            shared |= self._shared_namespaces(view["security"]["joined_containers"], questions)
            view["security"] = {**view["security"], "host_namespaces": sorted(shared)}
            if shared and "security" not in view["beyond"]:
                view["beyond"] = [*view["beyond"], "security"]

    def container(self, name: str) -> dict[str, Any]:
        """Return the container `name` as a policy sees it; it may be missing or unknown."""
        return self._container(name, self._questions())

    def previous_spec(self, name: str, version: str, *, may_wait: bool = True) -> Any:
        """Return the specification that the service `name` had before that of `version`, as the
        daemon describes it; None if it has another version now, or is not described.

        Raise WaitError if `may_wait` is False.
        """
        answer = self._questions(may_wait=may_wait).ask("services", name)
        if type(answer) is not dict or str((answer.get("Version") or {}).get("Index")) != version:
            return None
        return answer.get("PreviousSpec")

    def _questions(self, *, may_wait: bool = True) -> _Questions:
        deadline = time.monotonic() + self._deadline if may_wait else None
        return _Questions(self._socket, self._nonce, deadline, self._translate)

    def _container_of_exec(self, name: str, questions: _Questions) -> dict[str, Any]:
        """Return the view of the container in which an exec runs. If the daemon does not know the
        exec, that view has `missing` True; without a usable answer, it has only `asked` True.
        """
        answer = questions.ask("exec", name, "/json")
        if answer is None or answer is _MISSING:
            return {**NO_CONTAINER, "asked": True, "missing": answer is _MISSING}
        return self._container(str(answer.get("ContainerID") or ""), questions)

    def _container(self, name: str, questions: _Questions) -> dict[str, Any]:
        """Return the view of the container that the daemon knows by this name.

        `known` is False if the daemon does not answer, if its answer cannot be read, or if the name
        may be another container's identifier; `missing` is True if there is no such container.
        """
        view: dict[str, Any] = {**NO_CONTAINER, "asked": True}
        answer = questions.ask("containers", name, "/json")
        if answer is None or answer is _MISSING:
            return {**view, "missing": answer is _MISSING}
        if _is_shadow("container", name, answer, questions):
            return view
        try:
            view |= _view(answer, self._resolve)
        except (LookupError, TypeError, AttributeError, RequestError):
            return view
        mounts = self._with_volumes(view["mounts"], questions)
        return {**view, "known": True, "mounts": mounts}

    def _shared_namespaces(self, joined: list[str], questions: _Questions) -> set[str]:
        """Return the namespaces of the host that the containers in `joined` use, directly or by
        joining other containers. `unknown` is among them if the daemon does not describe a
        container, or if more than `_MAX_QUESTIONS` would have to be asked for.
        """
        shared: set[str] = set()
        waiting, seen = list(joined), set(joined)
        # Containers may join each other in a circle, which `seen` ends.
        while waiting and len(seen) <= _MAX_QUESTIONS:
            container = self._container(waiting.pop(), questions)
            security = container["security"] if container["known"] else _UNKNOWN_SECURITY
            shared.update(security["host_namespaces"])
            others = set(security["joined_containers"]) - seen
            waiting += others
            seen |= others
        return shared | set(_UNKNOWN_SECURITY["host_namespaces"] if waiting else ())

    def _volumes_of(self, name: str, questions: _Questions) -> list[Mount]:
        """Return the mounts that `VolumesFrom` takes from another container: none if it does not
        exist, an unknown volume if the daemon does not describe it.
        """
        answer = questions.ask("containers", name, "/json")
        if answer is _MISSING:
            return []
        mounts = answer.get("Mounts") if answer is not None else None
        if mounts is None or _is_shadow("container", name, answer, questions):
            return [unknown_volume(name)]
        return [_mount(each, self._resolve) for each in mounts]

    def _with_volumes(self, mounts: list[Mount], questions: _Questions) -> list[Mount]:
        """Return the mounts, followed by those behind `VolumesFrom` and the host paths of named
        volumes.

        A volume that the daemon does not describe, and each after the first `_MAX_QUESTIONS`, is
        added as an unknown volume; one that does not exist yet adds nothing.
        """
        joined = list(mounts)
        for mount in mounts:
            if mount["origin"] == "VolumesFrom":
                joined += self._volumes_of(mount["source"], questions)
        names = sorted(
            {
                mount["source"]
                for mount in joined
                if mount["type"] == "volume"
                and mount["source"]
                and mount["origin"] != "VolumesFrom"
            }
        )
        for name in names[:_MAX_QUESTIONS]:
            answer = questions.ask("volumes", name)
            if answer is None:
                joined.append(unknown_volume(name))
            elif answer is not _MISSING:
                options, driver = answer.get("Options") or {}, answer.get("Driver") or ""
                joined += volume_mounts(driver, options, "", self._resolve)
                if OBJECTS["volume"]({"Name": driver, "Options": options}) is not None:
                    # Made before there was a type for it, or by an administrator.
                    joined.append(unknown_volume(name))
        return joined + [unknown_volume(name) for name in names[_MAX_QUESTIONS:]]


def _with_networks(network: dict[str, Any], questions: _Questions) -> dict[str, Any]:
    """Return the network view with network identifiers replaced by the names that the daemon knows.

    Identifiers that the daemon does not know, that may mean the host's network, or that come after
    the first `_MAX_QUESTIONS`, stay in `identifiers`. `unresolved` is True if any stays, or if the
    container joins the network of another one. The mode is `host` if one of the names is.
    """
    names, unknown = set(network["names"]), []
    for name in network["identifiers"][:_MAX_QUESTIONS]:
        answer = questions.ask("networks", name)
        if answer is None or answer is _MISSING or not answer.get("Name"):
            unknown.append(name)
            continue
        names.discard(name)
        names.add(answer["Name"])
        if not str(answer.get("Id")).startswith(name):
            # A name that could be the start of the host's network's identifier as well: it is that
            # network once this one is gone.
            host = questions.ask("networks", "host")
            if type(host) is not dict or str(host.get("Id")).startswith(name):
                unknown.append(name)
    unknown += network["identifiers"][_MAX_QUESTIONS:]
    return {
        **network,
        "names": sorted(names),
        "mode": "host" if "host" in names else network["mode"],
        "identifiers": unknown,
        "unresolved": bool(unknown) or bool(network["container"]),
    }


def _object_view(kind: str, name: str, questions: _Questions) -> dict[str, Any]:
    """Return the view of an object that a request names, with its owner by label.

    An exec has the view of its container. `known` is True if the daemon described exactly this
    object; `missing` is True if the daemon has none. `owner` is `""` if there is no label.
    """
    view = {"kind": kind, "name": name, "known": False, "missing": False, "owner": ""}
    if kind == "exec":
        answer = questions.ask("exec", name, "/json")
        if type(answer) is dict:
            return _object_view("container", str(answer.get("ContainerID") or ""), questions)
        return {**view, "missing": answer is _MISSING}
    rest = "/json" if kind in ("container", "image") else ""
    answer = questions.ask(f"{kind}s", name, rest)
    if type(answer) is not dict:
        return {**view, "missing": answer is _MISSING}
    if kind in _LISTS and _is_shadow(kind, name, answer, questions):
        return view
    parent = answer if kind in ("volume", "network") else answer.get(_LABELLED.get(kind, "Spec"))
    labels = (parent or {}).get("Labels") or {}
    return {**view, "known": True, "owner": str(labels.get(LABEL) or "")}


_LABELLED: Final = {"container": "Config", "image": "Config"}
"""The member with an object's labels in the daemon's description, by kind."""


def _late_references(name: str, questions: _Questions) -> list[Named]:
    """Return the networks and linked containers that the daemon looks for by name when it starts
    the container `name`: since they were judged, somebody else may have got that name.

    A network of which the container has the whole identifier is left out: it is the same one.
    """
    answer = questions.ask("containers", name, "/json")
    if type(answer) is not dict:
        return []
    networks = (answer.get("NetworkSettings") or {}).get("Networks") or {}
    named: list[Named] = []
    for key, endpoint in networks.items():
        reference = network_reference(key, endpoint or {})
        if reference in BUILT_IN:
            continue
        network = questions.ask("networks", reference)
        if type(network) is not dict or network.get("Id") != reference:
            named.append(("network", reference))
    for link in (answer.get("HostConfig") or {}).get("Links") or ():
        named.append(("container", str(link).partition(":")[0].removeprefix("/")))
    return named


def _is_shadow(kind: str, name: str, answer: Mapping[str, Any], questions: _Questions) -> bool:
    """Return True if `name`, by which the daemon found an object of a kind (`answer`), may also be
    the beginning of another one's identifier.

    The daemon looks for names first: once this object is renamed or removed, `name` would lead to
    the other one. True also if the daemon does not list its objects.
    """
    pattern, target, member = _LISTS[kind]
    name = name.removeprefix(_DIGEST)
    if not pattern.fullmatch(name) or _identifier(answer, member).startswith(name):
        return False
    others = questions.ask_list(target.format(name))
    return others is None or any(_identifier(each, member).startswith(name) for each in others)


def _identifier(document: Mapping[str, Any], member: str) -> str:
    """Return the identifier in the daemon's description of an object, without `sha256:`."""
    return str(document.get(member)).removeprefix(_DIGEST)


_DIGEST: Final = "sha256:"
_OF_SWARM: Final = re.compile(r"[0-9a-z]{1,63}")
_WITH_PREFIX: Final = "?filters=%7B%22id%22%3A%7B%22{0}%22%3Atrue%7D%7D"
_LISTS: Final[Mapping[str, tuple[re.Pattern[str], str, str]]] = {
    "config": (_OF_SWARM, f"/configs{_WITH_PREFIX}", "ID"),
    "container": (_HEXADECIMAL, "/containers/json?all=1", "Id"),
    "image": (_HEXADECIMAL, "/images/json?all=1", "Id"),
    "network": (_OF_SWARM, "/networks", "Id"),
    "secret": (_OF_SWARM, f"/secrets{_WITH_PREFIX}", "ID"),
    "service": (_OF_SWARM, f"/services{_WITH_PREFIX}", "ID"),
}
"""Kinds of objects that the daemon also finds by the beginning of an identifier: the form of such a
beginning, the list of all that may have it, and the member with their identifiers."""


def _data_root(questions: _Questions) -> str:
    """Return the folder in which the daemon keeps images, containers and volumes; "" if the daemon
    does not tell it.
    """
    answer = questions.ask("info", "")
    root = answer.get("DockerRootDir") if type(answer) is dict else None
    return root if type(root) is str and root.startswith("/") and root != "/" else ""


class _Questions:
    """The questions to the daemon that belong to one request. All must be answered until
    `deadline`; without one (None) no question may be asked, since the caller must not wait.
    """

    def __init__(
        self,
        socket: str,
        nonce: str,
        deadline: float | None,
        translate: Callable[[bytes], bytes] = bytes,
    ) -> None:
        self._translate = translate
        self._socket = socket
        self._nonce = nonce
        self._deadline = deadline
        self._answers: dict[str, Any] = {}

    def ask(self, kind: str, name: str, rest: str = "") -> Any:
        """Return the daemon's JSON object at `/KIND/NAME` followed by `rest`, or at `/KIND` if
        `name` is ""; _MISSING if there is no such object, None without a usable answer. WaitError
        if the caller must not wait.
        """
        target = f"/{kind}/{quote(name, safe='')}{rest}" if name else f"/{kind}"
        answer = self._answer(target)
        return answer if type(answer) is dict or answer is _MISSING else None

    def ask_list(self, target: str) -> list[Any] | None:
        """Return the daemon's JSON list at `target`; None without a usable answer. WaitError if the
        caller must not wait.
        """
        answer = self._answer(target)
        return answer if type(answer) is list else None

    def _answer(self, target: str) -> Any:
        """Return the daemon's answer to a GET, the same one for each question of a request: two
        rules of one decision must not be told different things. _MISSING for 404, None for any
        other failure. WaitError if the caller must not wait.
        """
        if target not in self._answers:
            self._answers[target] = self._fetch(target)
        return self._answers[target]

    def _fetch(self, target: str) -> Any:
        """Send a GET to the daemon, and return its JSON with pins replaced by host paths; _MISSING
        for 404, None for any other failure, such as no time left. WaitError if the caller must not
        wait. Nothing is remembered here.
        """
        try:
            status, content = self._get(target)
            if status == 404:
                return _MISSING
            return from_json(self._translate(content)) if status == 200 else None
        except (OSError, http.client.HTTPException, ValueError):
            return None

    def _get(self, target: str) -> tuple[int, bytes]:
        """Return status and body of a GET. WaitError if this thread may not wait, TimeoutError if
        no time is left, ValueError for a body that is too large; OSError or HTTPException without
        an answer.
        """
        if self._deadline is None:
            raise WaitError
        # One deadline for all questions: the policy is not evaluated before the last answer.
        timeout = self._deadline - time.monotonic()
        if timeout <= 0:
            raise TimeoutError("no time is left to ask the Docker daemon")
        connection = UnixConnection(self._socket, timeout)
        try:
            connection.request("GET", target, headers={"Host": "docker", _HEADER: self._nonce})
            response = connection.getresponse()
            content = response.read(_MAX_ANSWER + 1)
            if len(content) > _MAX_ANSWER:
                raise ValueError(f"the Docker daemon's answer is larger than {_MAX_ANSWER} bytes")
            return response.status, content
        finally:
            connection.close()


_MISSING: Final = object()
_ALL: Final = sorted(VIEWS)
_READ: Final = read_type("HostConfig")[1]
_UNKNOWN_SECURITY: Final[dict[str, list[str]]] = {
    "host_namespaces": ["unknown"],
    "joined_containers": [],
}


def _view(document: Mapping[str, Any], resolve: Resolve) -> dict[str, Any]:
    """Return the view of an inspected container, in the form that a request to create it would
    have. LookupError, TypeError, AttributeError or RequestError if `document` does not have the
    daemon's form.
    """
    config, notes = document["Config"], Notes()
    host = _READ(document["HostConfig"], notes, "HostConfig")
    return {
        "id": document["Id"],
        "name": document["Name"].removeprefix("/"),
        "image": parse_image(config["Image"]),
        "labels": config.get("Labels") or {},
        "security": create_security(host, config),
        "devices": device_view(host),
        "cgroup": cgroup_view(host),
        "resources": create_resources(host),
        "ports": create_ports(host, config),
        "untyped": [{"field": at, "type": text} for at, text in dict.fromkeys(notes.faults)],
        "mounts": [_mount(each, resolve) for each in document.get("Mounts") or ()],
    }


def _mount(item: Mapping[str, Any], resolve: Resolve) -> Mount:
    """Return the view of one mount of an inspected container."""
    kind = item.get("Type") or "other"
    # Where the data of a volume lie is the daemon's; its name says which volume it is.
    source = item.get("Name") if kind == "volume" else item.get("Source")
    return host_mount(
        "Container",
        source or "",
        item.get("Destination") or "",
        resolve,
        type_=kind,
        readonly=not item.get("RW"),
        propagation=item.get("Propagation") or "",
        driver=item.get("Driver") or "",
    )
