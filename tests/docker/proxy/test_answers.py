"""A caller sees of an answer what its policy says: no values of Env, and its own things alone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from examples.docker.private_daemon import PrivateDaemon
from tests.docker.proxied import Proxied, proxied

from doorward.docker.proxy.answers import View, ViewError, editor, narrow, read_view
from doorward.docker.request.call import parse_target
from doorward.docker.request.owners import LABEL

NONE = ("--network", "none")
MINE, THEIRS = {LABEL: "a"}, {LABEL: "b"}


def edited(action: str, view: View, document: Any) -> Any:
    edit = editor(action, view)
    return document if edit is None else json.loads(edit(json.dumps(document).encode()))


def test_view_of_a_policy_that_says_none_hides_values() -> None:
    assert read_view(None) == View(False, "")
    assert read_view({"env": True, "owner": "a"}) == View(True, "a")


@pytest.mark.parametrize("answers", [[], "x", {"env": 1}, {"env": "true"}, {"owner": None}])
def test_view_that_is_not_one_is_an_error(answers: Any) -> None:
    with pytest.raises(ViewError):
        read_view(answers)


def test_values_of_env_are_masked_wherever_they_are() -> None:
    document = {
        "Config": {"Env": ["A=secret", "B"], "Cmd": ["x"]},
        "Deep": [{"Spec": {"Env": ["C=secret"]}}],
    }
    hidden = edited("container.inspect", View(False, ""), document)
    assert hidden["Config"] == {"Env": ["A=***", "B"], "Cmd": ["x"]}
    assert hidden["Deep"][0]["Spec"]["Env"] == ["C=***"]
    assert edited("container.inspect", View(True, ""), document) == document
    history = edited("image.history", View(False, ""), [{"CreatedBy": "ENV A=secret"}])
    assert history == [{"CreatedBy": "***"}]


@pytest.mark.parametrize(
    ("action", "document", "hidden"),
    [
        (
            "system.info",
            {"HttpProxy": "http://u:secret@p:1", "HttpsProxy": "", "NoProxy": None},
            {"HttpProxy": "http://***@p:1", "HttpsProxy": "", "NoProxy": None},
        ),
        ("config.inspect", {"Spec": {"Data": "c2VjcmV0"}}, {"Spec": {"Data": "***"}}),
        ("config.list", [{"Spec": {"Data": ""}}], [{"Spec": {"Data": ""}}]),
        ("image.inspect", {"Config": {"Env": [7, "A=secret"]}}, {"Config": {"Env": ["A=***"]}}),
        ("task.list", [{"Env": {"A": "x"}, "Data": [1]}], [{"Env": {"A": "x"}, "Data": [1]}]),
    ],
)
def test_secrets_of_documents_are_masked(action: str, document: Any, hidden: Any) -> None:
    assert edited(action, View(False, ""), document) == hidden
    assert edited(action, View(True, ""), document) == document


LISTS: list[tuple[str, Any, Any]] = [
    (
        "container.list",
        [{"Labels": MINE}, {"Labels": THEIRS}, {"Labels": None}, {}],
        [{"Labels": MINE}],
    ),
    ("image.list", [{"Labels": MINE}, {"Labels": THEIRS}, {}], [{"Labels": MINE}, {}]),
    ("service.list", [{"Spec": {"Labels": MINE}}, {"Spec": {}}], [{"Spec": {"Labels": MINE}}]),
    ("secret.list", [{"Spec": {"Labels": THEIRS}}], []),
    (
        "network.list",
        [
            {"Name": "bridge", "Id": "1", "Containers": {"c": {"Name": "db"}}, "Newer": 7},
            {"Name": "x", "Labels": THEIRS},
            {"Name": "host", "Labels": MINE, "Containers": {"c": {}}},
        ],
        [
            {"Name": "bridge", "Id": "1", "Containers": {}},
            {"Name": "host", "Labels": MINE, "Containers": {"c": {}}},
        ],
    ),
    (
        "volume.list",
        {"Volumes": [{"Labels": MINE}, {"Labels": {}}], "Warnings": None},
        {"Volumes": [{"Labels": MINE}], "Warnings": None},
    ),
    (
        "system.df",
        {"Containers": [{"Labels": THEIRS}], "Images": None, "BuildCache": [{}], "LayersSize": 9},
        {"Containers": [], "Images": [], "BuildCache": [], "LayersSize": 0},
    ),
    ("task.list", [{"Spec": {"ContainerSpec": {"Labels": THEIRS}}}, {"Spec": {}}], []),
]  # fmt: skip


@pytest.mark.parametrize(("action", "document", "kept"), LISTS)
def test_list_has_the_things_of_its_owner_alone(action: str, document: Any, kept: Any) -> None:
    assert edited(action, View(True, "a"), document) == kept
    assert edited(action, View(True, ""), document) == document


@pytest.mark.parametrize("filters", ["", '{"label":["x"]}', '{"label":{"x":true}}'])
def test_daemon_filters_what_it_lists_by_the_label(filters: str) -> None:
    target = parse_target(f"/events?filters={filters}")
    narrowed = json.loads(narrow("system.events", target, View(True, "a")).query["filters"][0])
    assert narrowed["label"][f"{LABEL}=a"] is True
    assert narrowed["label"].get("x", True) is True
    assert narrow("system.events", target, View(True, "")) is target


def test_all_filters_of_a_request_have_one_form() -> None:
    """Old clients and the Python client send arrays; the daemon takes no mixture."""
    target = parse_target('/containers/json?filters={"name":["a","b"],"status":[]}')
    narrowed = json.loads(narrow("container.list", target, View(True, "x")).query["filters"][0])
    label = {f"{LABEL}=x": True}
    assert narrowed == {"name": {"a": True, "b": True}, "status": {}, "label": label}


def test_filter_that_cannot_be_read_is_refused() -> None:
    for text in ("[", "[]", '{"label":7}', '"x"'):
        with pytest.raises(ViewError):
            narrow(
                "container.list", parse_target(f"/containers/json?filters={text}"), View(True, "a")
            )


@pytest.fixture(scope="module")
def owned(
    daemon_started: PrivateDaemon, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxied]:
    folder = tmp_path_factory.mktemp("owned")
    users = {"root": ["admin"], "socket:a": ["developer"], "socket:b": ["operator"]}
    consumers = {"a": "developer", "b": "operator", "v": "viewer"}
    settings: dict[str, Any] = {
        "owners": True,
        "local_roles": [],
        "users": {**users, "socket:v": ["viewer"]},
    }
    with proxied(daemon_started, folder, consumers=consumers, **settings) as daemon:
        yield daemon


def test_what_a_user_creates_is_its_own_and_others_do_not_see_it(owned: Proxied) -> None:
    a, b = owned.at("a"), owned.at("b")
    done = a.docker("run", "-d", "--name", "of-a", "-e", "X=secret", *NONE, "img:1", "sleep", "999")
    assert done.returncode == 0, done.stderr
    try:
        assert a.docker("volume", "create", "vol-a").returncode == 0
        assert a.docker("ps", "--format", "{{.Names}}").stdout == "of-a\n"
        assert a.docker("ps", "-a", "-n", "1", "--format", "{{.Names}}").stdout == "of-a\n"
        assert b.docker("ps", "-a", "--format", "{{.Names}}").stdout == ""
        assert a.docker("volume", "ls", "-q").stdout == "vol-a\n"
        assert b.docker("volume", "ls", "-q").stdout == ""
        assert "container of-a is not yours" in b.docker("stop", "of-a").stderr
        label = f'{{{{index .Config.Labels "{LABEL}"}}}}'
        assert a.docker("inspect", "-f", label, "of-a").stdout == "socket:a\n"
        assert "X=secret" in a.docker("inspect", "of-a").stdout
        soon = str(int(time.time()) + 1)
        since = ("events", "--since", "1h", "--until", soon, "--format", "{{.Action}}")
        assert "start" in a.docker(*since).stdout
        assert "start" not in b.docker(*since).stdout
        taken = b.docker("run", "--label", f"{LABEL}=socket:a", *NONE, "img:1", "true")
        assert "may not name another user" in taken.stderr
    finally:
        for each in (("rm", "-f", "of-a"), ("volume", "rm", "vol-a")):
            assert owned.docker(*each).returncode == 0


def test_viewer_sees_no_values_of_env(
    daemon_started: PrivateDaemon, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("viewed")
    with proxied(daemon_started, folder, "admin", consumers={"w": "viewer"}) as daemon:
        daemon.docker("create", "--name", "env", "-e", "X=secret", *NONE, "img:1", "true")
        try:
            seen = daemon.at("w").docker("inspect", "env").stdout
            assert "X=***" in seen
            assert "secret" not in seen
            assert "X=secret" in daemon.docker("inspect", "env").stdout
        finally:
            daemon.docker("rm", "env")
