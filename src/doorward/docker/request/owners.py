"""Owners of the objects of a request: the label that it gives to what it creates, and what it acts
on.

The daemon knows no owners. Where the data say `owners`, each thing has the label `LABEL` with the
name in the client certificate of who created it. What is in this module is read from the request
alone; `facts` asks the daemon for the labels of the objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from doorward.docker.request.errors import RequestError
from doorward.docker.request.networks import BUILT_IN
from doorward.docker.request.schema import parse_json

__all__ = ["LABEL", "NO_OWNER", "Named", "label_values", "named_objects"]

LABEL: Final = "doorward.owner"
NO_OWNER: Final[dict[str, Any]] = {"asked": False, "labels": [], "objects": []}
Named: TypeAlias = tuple[str, str]
"""Kind and name of an object."""


def label_values(action: str, body: Any, query: Mapping[str, list[str]]) -> list[str]:
    """Return the owners that a request names in the labels of the objects that it creates, each
    once.

    Reads the labels of builds, containers, services, tasks, and volumes in mounts.
    """
    if action == "image.build":
        return _values(_labels_of_build(query))
    if not isinstance(body, dict):
        return []
    task = (body.get("TaskTemplate") or {}).get("ContainerSpec") or {}
    labels = body.get("Labels"), task.get("Labels")
    if not any(labels) and not task and not (body.get("HostConfig") or {}).get("Mounts"):
        return []
    mounts = [*((body.get("HostConfig") or {}).get("Mounts") or ()), *(task.get("Mounts") or ())]
    volumes = [((mount or {}).get("VolumeOptions") or {}).get("Labels") for mount in mounts]
    return _values(*labels, *volumes)


def _values(*labels: Any) -> list[str]:
    """Return the owners that sets of labels name, sorted; what is not an object is left out."""
    return sorted({str(each[LABEL]) for each in labels if isinstance(each, dict) and LABEL in each})


def _labels_of_build(query: Mapping[str, list[str]]) -> Any:
    """Return the labels of a build as JSON; None if they are malformed."""
    try:
        return parse_json(query.get("labels", ["{}"])[0].encode())
    except RequestError:
        return None


def named_objects(view: Mapping[str, Any]) -> list[Named]:
    """Return the objects that a request acts on or will use, each once, by kind and name; [] for
    most actions that create, list or prune.
    """
    action = view["action"]
    find = _BY_ACTION.get(action)
    kind, _, verb = action.partition(".")
    if find is None and kind in _KINDS and verb not in ("create", "list", "prune"):
        return [(kind, view["target"])]
    return sorted({each for each in find(view) if each[1]}) if find is not None else []


_KINDS: Final = frozenset(("config", "container", "exec", "network", "secret", "service", "volume"))


def _objects_of_creation(view: Mapping[str, Any]) -> Iterator[Named]:
    """Yield the objects that a container or a service will use once it is created or changed, with
    an empty name where a field is empty. For an update of a service, the service itself comes
    first. Networks that every daemon has are left out.
    """
    if view["action"] == "service.update":
        yield "service", view["target"]
    network = view["network"]
    yield from _networks(network["names"])
    for name in (network["container"], *view["security"]["joined_containers"]):
        yield "container", name
    for link in network["links"]:
        yield "container", link.partition(":")[0].removeprefix("/")
    for mount in view["mounts"]:
        if mount["origin"] == "VolumesFrom":
            yield "container", mount["source"]
        elif mount["type"] == "volume":
            yield "volume", mount["source"]
    for image in (view["image"], *view["images"]):
        yield "image", image["reference"]
    task = ((view["body"] or {}).get("TaskTemplate") or {}).get("ContainerSpec") or {}
    for kind in ("Secret", "Config"):
        for each in task.get(f"{kind}s") or ():
            reference = each or {}
            yield kind.lower(), reference.get(f"{kind}ID") or reference.get(f"{kind}Name") or ""


def _objects_of_connection(view: Mapping[str, Any]) -> Iterator[Named]:
    """Yield the objects that a connection to a network names: the container, its links, and the
    network unless it is built in.
    """
    body = view["body"] or {}
    yield "container", body.get("Container") or ""
    for link in (body.get("EndpointConfig") or {}).get("Links") or ():
        yield "container", link.partition(":")[0].removeprefix("/")
    # An endpoint may name another network than the path.
    yield from _networks([view["target"], *view["network"]["names"]])


def _networks(names: Iterable[str]) -> Iterator[Named]:
    """Yield the networks of these names; those that every daemon has are left out."""
    for name in names:
        if name not in BUILT_IN:
            yield "network", name


def _image(view: Mapping[str, Any]) -> Iterator[Named]:
    """Yield the image that a request names: its target, or else the reference of its image."""
    yield "image", view["target"] or view["image"]["reference"]


def _images(view: Mapping[str, Any]) -> Iterator[Named]:
    """Yield the images that a request names."""
    for image in view["images"]:
        yield "image", image["reference"]


def _objects_of_tag(view: Mapping[str, Any]) -> Iterator[Named]:
    """Yield the image that gets a tag, and the image that has the new name so far."""
    yield "image", view["target"]
    yield "image", view["image"]["reference"]


def _objects_of_commit(view: Mapping[str, Any]) -> Iterator[Named]:
    """Yield the container that becomes an image, and the image that has the new name so far."""
    yield "container", view["target"]
    yield "image", view["image"]["reference"]


def _new(view: Mapping[str, Any]) -> Iterator[Named]:
    """Yield the kind and name of the volume or network to create: the daemon would reuse an
    existing volume of that name, or make a second network.
    """
    yield view["action"].partition(".")[0], str((view["body"] or {}).get("Name") or "")


_BY_ACTION: Final[Mapping[str, Callable[[Mapping[str, Any]], Iterator[Named]]]] = {
    "container.create": _objects_of_creation,
    "service.create": _objects_of_creation,
    "service.update": _objects_of_creation,
    "container.commit": _objects_of_commit,
    "network.connect": _objects_of_connection,
    "network.create": _new,
    "network.disconnect": _objects_of_connection,
    "image.build": _images,
    "image.delete": _image,
    "image.history": _image,
    "image.inspect": _image,
    "image.pull": _image,
    "image.push": _image,
    "image.save": _images,
    "image.tag": _objects_of_tag,
    "volume.create": _new,
}
