"""What a user creates bears its name, before the policy sees the request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from doorward.docker.proxy.labels import CREATING, label_owner
from doorward.docker.request.call import AuthzRequest, Caller
from doorward.docker.request.input import Draft, begin_input, finish_input
from doorward.docker.request.owners import LABEL

ANN = Caller("ann", "peer")
MINE = {LABEL: "ann"}
VOLUME = {"Type": "volume", "Target": "/v"}
BIND = {"Type": "bind", "Source": "/a", "Target": "/b"}
OWN_VOLUME = {**VOLUME, "VolumeOptions": {"Labels": MINE}}
LABELLED_VOLUME = {**VOLUME, "VolumeOptions": {"NoCopy": True, "Labels": {"x": "1"}}}


def draft_of(path: str, body: Any = None) -> Draft:
    content = None if body is None else json.dumps(body).encode()
    headers = {} if body is None else {"content-type": "application/json"}
    request = AuthzRequest("POST", path, "ann", "peer", headers, content, caller=ANN)
    return begin_input(request)


@pytest.mark.parametrize(
    ("path", "body", "labelled"),
    [
        ("/volumes/create", {"Name": "v"}, {"Name": "v", "Labels": MINE}),
        ("/networks/create", {"Name": "n"}, {"Name": "n", "Labels": MINE}),
        ("/configs/create", {"Name": "c"}, {"Name": "c", "Labels": MINE}),
        ("/secrets/create", {"Name": "s"}, {"Name": "s", "Labels": MINE}),
        (
            "/volumes/create",
            {"Name": "v", "Labels": {"x": "1", LABEL: "bob"}},
            {"Name": "v", "Labels": {"x": "1", LABEL: "bob"}},
        ),
        ("/containers/create", {"HostConfig": None}, {"HostConfig": None, "Labels": MINE}),
        (
            "/containers/create",
            {"Labels": {"x": "1"}, "HostConfig": {"Mounts": [VOLUME, BIND, LABELLED_VOLUME]}},
            {
                "Labels": {**MINE, "x": "1"},
                "HostConfig": {
                    "Mounts": [
                        OWN_VOLUME,
                        BIND,
                        {**VOLUME, "VolumeOptions": {"NoCopy": True, "Labels": {**MINE, "x": "1"}}},
                    ]
                },
            },
        ),
        (
            "/services/create",
            {"TaskTemplate": {"ContainerSpec": {"Mounts": [VOLUME]}}},
            {
                "Labels": MINE,
                "TaskTemplate": {"ContainerSpec": {"Labels": MINE, "Mounts": [OWN_VOLUME]}},
            },
        ),
        ("/services/create", {"TaskTemplate": None}, {"TaskTemplate": None, "Labels": MINE}),
        ("/containers/c/exec", {"Cmd": ["x"]}, {"Cmd": ["x"]}),
    ],
)
def test_whatever_is_created_gets_the_label(path: str, body: Any, labelled: Any) -> None:
    assert label_owner(draft_of(f"/v1.41{path}", body), "ann").body == labelled


@pytest.mark.parametrize("text", ["", "{}", "null", '{"x":"1"}', f'{{"{LABEL}":"bob"}}'])
def test_an_image_that_is_built_gets_the_label(text: str) -> None:
    labelled = label_owner(draft_of(f"/v1.41/build?t=x&labels={text}"), "ann").target.query
    (labels,) = labelled.pop("labels")
    assert json.loads(labels) == {**MINE, **(json.loads(text or "{}") or {})}
    assert labelled == {"t": ["x"]}


def test_every_creation_with_a_body_is_known() -> None:
    paths = ("configs", "containers", "networks", "secrets", "services", "volumes")
    actions = {draft_of(f"/v1.41/{each}/create", {}).route.action for each in paths}
    assert actions | {"image.build"} == CREATING


def test_labels_of_one_user_are_not_in_the_same_request_of_another() -> None:
    # In the order of Go's encoder, so that the third request is read by a template.
    host = {"Binds": None, "ContainerIDFile": "", "Mounts": [VOLUME]}
    body = json.dumps({"Image": "a", "HostConfig": host}, separators=(",", ":")).encode()
    is_by_template = []
    for user in ("ann", "ann", "ann", "bob"):
        caller = Caller(user, "peer")
        headers = {"content-type": "application/json"}
        request = AuthzRequest(
            "POST", "/v1.41/containers/create", user, "peer", headers, body, caller=caller
        )
        draft = begin_input(request)
        is_by_template.append(draft.notes.template is not None)
        labelled = label_owner(draft, user)
        assert labelled.body["HostConfig"]["Mounts"] == [
            {**VOLUME, "VolumeOptions": {"Labels": {LABEL: user}}}
        ]
        assert finish_input(labelled, lambda path: path)["owner"]["labels"] == [user]
    assert is_by_template[-2:] == [True, True]
