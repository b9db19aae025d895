"""Labels of owners, which objects get before their creation is decided.

A label that names somebody else stays as it is, and the policy refuses it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from doorward.docker.request.input import Draft
from doorward.docker.request.owners import LABEL

__all__ = ["CREATING", "label_owner"]

CREATING: Final = frozenset(
    {
        "config.create",
        "container.create",
        "image.build",
        "network.create",
        "secret.create",
        "service.create",
        "volume.create",
    }
)


def label_owner(draft: Draft, owner: str) -> Draft:
    """Return the draft with the owner's label on what the request creates, including new volumes of
    a container; a label that is there already stays.

    The body is changed in place, but for its HostConfig, which is replaced. Requests that create
    nothing, and builds with malformed labels, are unchanged.
    """
    action = draft.route.action
    if action == "image.build":
        return _label_build(draft, owner)
    body = draft.body
    if action not in CREATING or type(body) is not dict:
        return draft
    _add(body, owner)
    task = (body.get("TaskTemplate") or {}).get("ContainerSpec")
    if type(task) is dict:
        _add(task, owner)
        if task.get("Mounts"):
            task["Mounts"] = _label_volumes(task["Mounts"], owner)
    host = body.get("HostConfig")
    if type(host) is dict and host.get("Mounts"):
        body["HostConfig"] = {**host, "Mounts": _label_volumes(host["Mounts"], owner)}
    return draft


def _label_volumes(mounts: Iterable[Any], owner: str) -> list[Any]:
    """Return the mounts with the owner's label on the volumes among them."""
    labelled = []
    for mount in mounts:
        if mount and mount.get("Type") == "volume":
            # Copies: a template shares its mounts with the requests of other users.
            options = dict(mount.get("VolumeOptions") or {})
            _add(options, owner)
            mount = {**mount, "VolumeOptions": options}
        labelled.append(mount)
    return labelled


def _add(parent: dict[str, Any], owner: str) -> None:
    labels = parent.get("Labels") or {}
    # The client's labels last: a foreign owner's must stay, for the policy to refuse it.
    parent["Labels"] = {LABEL: owner, **labels}


def _label_build(draft: Draft, owner: str) -> Draft:
    """Return the draft with the owner's label among those of a build; unchanged if its labels
    are malformed.
    """
    query = draft.target.query
    try:
        labels = json.loads(query.get("labels", [""])[0] or "{}") or {}
    except (ValueError, RecursionError):
        return draft  # the policy refuses it
    if type(labels) is not dict:
        return draft
    text = json.dumps({LABEL: owner, **labels})
    target = draft.target._replace(query={**query, "labels": [text]})
    return draft._replace(target=target)
