"""The part of an answer that its caller may see.

    document of the daemon -> without the values of Env, without the things of others

The policy says with its decision (`answers`) whether values of environment variables are shown, and
whose things alone: `narrow` has the daemon filter what it lists, so that limits and streams of
events are right, and `editor` leaves out of the document what is another's all the same. An answer
that is edited is read as a whole, up to a limit; the others are streams that pass as they come.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from doorward.docker.request.call import Target
from doorward.docker.request.owners import LABEL
from doorward.docker.request.secrets import MASK, mask_address, mask_env

__all__ = ["MOST_ANSWER", "Edit", "View", "ViewError", "editor", "narrow", "read_view"]

MOST_ANSWER: Final = 32 << 20
"""Bytes of an answer that is edited."""
Edit: TypeAlias = Callable[[bytes], bytes]
"""Returns the part of a JSON document that may be seen, both as bytes; raises ValueError if it is
not JSON."""


class ViewError(ValueError):
    """The policy's `answers` have the wrong form, or a request's filters cannot be narrowed to an
    owner.
    """


class View(NamedTuple):
    """The part of an answer that a caller may see."""

    env: bool
    """The values of environment variables."""
    owner: str
    """Nothing but the things of this one; "" for all."""


def read_view(answers: Any) -> View:
    """Return the view in the `answers` member of a policy's result.

    None gives the default: credentials masked and no filter by owner. Raise ViewError unless
    `answers` is an object in which `env`, if present, is a boolean and `owner`, if present, a
    string; null is neither. Other members are ignored.
    """
    if answers is None:
        return View(False, "")
    if type(answers) is not dict:
        raise ViewError("`answers` of the policy decision must be an object with `env` or `owner`")
    env, owner = answers.get("env", False), answers.get("owner", "")
    if type(env) is not bool or type(owner) is not str:
        raise ViewError(
            "`answers` of the policy decision is invalid: `env` must be a boolean and `owner` a "
            "string"
        )
    return View(env, owner)


# What the daemon lists

_NARROWED: Final = frozenset(
    {"config.list", "container.list", "secret.list", "service.list", "system.events"}
)
"""The lists that the daemon filters by a label itself."""


def narrow(action: str, target: Target, view: View) -> Target:
    """Return the target with a filter for the owner's label added to its `filters` parameter.

    The target is unchanged if the view has no owner, or if the daemon knows no such filter for
    `action`. Raise ViewError if the `filters` of the request cannot be read.
    """
    if not view.owner or action not in _NARROWED:
        return target
    text = target.query.get("filters", [""])[0] or "{}"
    try:
        filters = {name: _as_map(values) for name, values in json.loads(text).items()}
        labels = _as_set(filters.get("label") or {})
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise ViewError(
            "the request's query parameter `filters` must be a JSON object of Docker's filters, "
            'such as {"name": ["web"]}'
        ) from None
    # Added to those of the client: the daemon requires all labels of a filter.
    filters["label"] = {**labels, f"{LABEL}={view.owner}": True}
    query = {**target.query, "filters": [json.dumps(filters)]}
    return target._replace(query=query)


def _as_map(values: Any) -> Any:
    """Return the values of a filter as an object if they are an array, as older clients send them:
    the daemon reads either all filters in one form or all in the other.
    """
    return {str(each): True for each in values} if type(values) is list else values


def _as_set(values: Any) -> dict[str, bool]:
    """Return the values of a filter that are true; AttributeError if they are not an object."""
    return {str(name): True for name, is_on in values.items() if is_on is True}


# Documents


def editor(action: str, view: View) -> Edit | None:
    """Return the function that filters and masks the body of a response to `action`; None if this
    response passes unchanged.

    The function takes and returns JSON as bytes. It raises ValueError, KeyError, TypeError or
    AttributeError for a body that does not have the expected form.
    """
    filter_ = _FILTERS.get(action) if view.owner else None
    masks = not view.env and action in _MASKED
    if filter_ is None and not masks:
        return None

    def edit(content: bytes) -> bytes:
        """Return an answer of the daemon filtered for its reader and with credentials masked; raise
        ValueError if it is not JSON.
        """
        document = orjson.loads(content)
        if filter_ is not None:
            document = filter_(document, view.owner)
        if masks:
            document = _mask(document)
        return orjson.dumps(document)

    return edit


_MASKED: Final = frozenset(
    {
        "config.inspect",
        "config.list",
        "container.inspect",
        "image.history",
        "image.inspect",
        "plugin.inspect",
        "plugin.list",
        "service.inspect",
        "service.list",
        "system.info",
        "task.inspect",
        "task.list",
    }
)
"""The documents that may hold values of environment variables, or other secrets."""
_MOST_DEPTH: Final = 64


def _mask(value: Any, depth: int = 0) -> Any:
    """Return a JSON value with its credentials masked; ValueError if it is nested too deeply."""
    if depth > _MOST_DEPTH:
        raise ValueError("the Docker daemon's answer is nested too deeply")
    if type(value) is dict:
        return {name: _mask_member(name, item, depth) for name, item in value.items()}
    if type(value) is list:
        return [_mask(item, depth + 1) for item in value]
    return value


def _mask_member(name: str, item: Any, depth: int) -> Any:
    """Return one member of an object, masked if its name says that it may hold credentials: the
    values of `Env`, all of `CreatedBy` and `Data`, and the credentials in an address `…Proxy`.
    Items of `Env` that are not texts are left out. Other members are searched.
    """
    if name == "Env" and type(item) is list:
        # Dropped, not passed: only a text can be masked.
        return mask_env([each for each in item if type(each) is str])
    if name in ("CreatedBy", "Data") and type(item) is str:
        return MASK if item else item
    if name.endswith("Proxy") and type(item) is str:
        return mask_address(item)
    return _mask(item, depth + 1)


def _owner_of(labels: Any) -> str:
    """Return the owner among an object's labels; "" if there is none."""
    return str(labels.get(LABEL) or "") if type(labels) is dict else ""


def _of_labels(items: Any, owner: str, *path: str) -> list[Any]:
    """Return the items that carry the owner's label; [] for None. The labels of an item are at
    `path` + `Labels`.

    An item without labels there belongs to no owner and is left out.
    """
    remaining = []
    for item in items or ():
        labels = item
        for name in (*path, "Labels"):
            labels = labels.get(name) if type(labels) is dict else None
        if _owner_of(labels) == owner:
            remaining.append(item)
    return remaining


def _containers(document: Any, owner: str) -> Any:
    """Return the objects of an owner that have their labels at the top, as containers do."""
    return _of_labels(document, owner)


def _specs(document: Any, owner: str) -> Any:
    """Return the swarm objects of an owner, with labels in `Spec`."""
    return _of_labels(document, owner, "Spec")


def _tasks(document: Any, owner: str) -> Any:
    """Return the tasks of an owner, with labels in the specification of their container."""
    return _of_labels(document, owner, "Spec", "ContainerSpec")


def _images(document: Any, owner: str) -> Any:
    """Return the images with the owner's label, and those without any owner's label: they were
    pulled.
    """
    return [item for item in document or () if _owner_of(item.get("Labels")) in ("", owner)]


def _networks(document: Any, owner: str) -> Any:
    """Return the networks of an owner, and Docker's own three without the containers in them, which
    old versions of the API list: those are everybody's.
    """
    remaining = []
    for item in document or ():
        if _owner_of(item.get("Labels")) == owner:
            remaining.append(item)
        elif item.get("Name") in ("bridge", "host", "none"):
            # Of the known members only: a newer daemon's further ones stay hidden.
            known = {name: item[name] for name in _OF_NETWORK if name in item}
            remaining.append({**known, "Containers": {}})
    return remaining


_OF_NETWORK: Final = (
    "Name", "Id", "Created", "Scope", "Driver", "EnableIPv4", "EnableIPv6", "IPAM", "Internal",
    "Attachable", "Ingress", "ConfigFrom", "ConfigOnly", "Options", "Labels",
)  # fmt: skip
"""The members of a network that say nothing of who uses it."""


def _volumes(document: Any, owner: str) -> Any:
    """Return the list of volumes with those of an owner alone."""
    return {**document, "Volumes": _of_labels(document.get("Volumes"), owner)}


def _disk(document: Any, owner: str) -> Any:
    """Return the disk usage of an owner's objects; the sizes of shared layers are 0 and the build
    cache is empty.
    """
    filters: Mapping[str, Callable[[Any, str], Any]] = {
        "Containers": _containers,
        "Images": _images,
        "Volumes": _containers,
    }
    # Built of the known members only: a newer daemon's further ones stay hidden.
    filtered = {
        name: filters[name](document.get(name), owner) for name in filters if name in document
    }
    return {"LayersSize": 0, **filtered, "BuildCache": []}


_FILTERS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "config.list": _specs,
    "container.list": _containers,
    "image.list": _images,
    "network.list": _networks,
    "secret.list": _specs,
    "service.list": _specs,
    "system.df": _disk,
    "task.list": _tasks,
    "volume.list": _volumes,
}
