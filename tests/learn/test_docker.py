"""Docker's audit log becomes data of the shipped policies, and opens nothing closed there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.learn.logs import gathered

from doorward.docker.decider.embedded import PACK, shipped_policies
from doorward.docker.request.call import AuthzRequest
from doorward.docker.request.input import InputOptions, to_input
from doorward.learn import docker
from doorward.learn.docker import roles
from doorward.learn.observations import LearnError
from doorward.learn.output import make_files, write_files
from doorward.learn.reading import Options
from doorward.learn.templates import Limits
from doorward.rego import Engine

NOTHING = Path("nothing")
SHIPPED = json.loads((PACK / "data.json").read_text())["docker"]


def call(user: str, method: str, path: str, body: Any = None) -> dict[str, Any]:
    """The input of a request with a certificate."""
    headers = {} if body is None else {"Content-Type": "application/json"}
    raw = None if body is None else json.dumps(body).encode()
    auth = "TLS" if user else ""
    request = AuthzRequest(method, f"/v1.41{path}", user, auth, headers, raw)
    return {**to_input(request, InputOptions()), "inspects": True}


def entry(number: int, user: str, input: dict[str, Any], decision: str = "allow") -> dict[str, Any]:
    """A line of the audit log, as the plugin writes it."""
    return {
        "time": f"2027-01-{10 + number % 9}T08:00:00.000000Z",
        "decision_id": f"d-{number:05}",
        "user": user,
        "method": input["Method"],
        "action": input["action"],
        "target": input["target"],
        "uri": input["Path"],
        "phase": "request",
        "decision": decision,
        "reason": "",
        "rule": "roles",
        "latency_ms": 1,
        "input": input,
    }


def create(user: str, image: str = "busybox", **host: Any) -> dict[str, Any]:
    host.setdefault("Memory", 64 << 20)
    return call(user, "POST", "/containers/create?name=c", {"Image": image, "HostConfig": host})


def learn(inputs: list[tuple[str, dict[str, Any]]], times: int = 10, folder: Path = NOTHING) -> Any:
    lines = [
        entry(number * 100 + n, user, input)
        for number in range(times)
        for n, (user, input) in enumerate(inputs)
    ]
    return make_files(gathered(lines), Limits(), folder).files


def data_of(files: Any) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(files["data.json"])["docker"]
    return data


def allows(files: Any, input: dict[str, Any]) -> bool:
    sources = {path.name: path.read_text() for path in shipped_policies()}
    engine = Engine(sources, json.loads(files["data.json"]))
    return engine.prepare("data.policy.docker.authz.allow").value(input) is True


def test_users_get_the_least_role_and_what_they_use() -> None:
    used = [
        ("ann", create("ann")),
        ("ann", call("ann", "GET", "/containers/json")),
        ("bob", call("bob", "GET", "/info")),
    ]
    files = learn(used)
    data = data_of(files)
    assert data["users"] == {"ann": ["developer"], "bob": ["viewer"]}
    assert data["local_roles"] == []
    assert data["images"]["allow"] == ["docker.io/library/busybox"]
    assert data["limits"] == {"memory": 64 << 20, "cpus": 0, "pids": 0}
    assert all(allows(files, input) for _, input in used)
    assert not allows(files, create("bob"))
    assert not allows(files, create("ann", "nginx"))
    assert not allows(files, call("eve", "GET", "/info"))
    assert not allows(files, call("", "GET", "/info"))


def test_limits_are_the_highest_that_was_asked_for() -> None:
    files = learn([("ann", create("ann")), ("ann", create("ann", Memory=128 << 20))], 15)
    assert data_of(files)["limits"] == {"memory": 128 << 20, "cpus": 0, "pids": 0}
    assert allows(files, create("ann"))
    assert not allows(files, create("ann", Memory=256 << 20))
    assert not allows(files, create("ann", Memory=0))


DANGEROUS: dict[str, dict[str, Any]] = {
    "privileged": {"Privileged": True},
    "socket": {"Binds": ["/var/run/docker.sock:/s"]},
    "root": {"Binds": ["/:/host"]},
    "etc": {"Binds": ["/etc/ssl:/x"]},
    "home": {"Binds": ["/home:/x"]},
    "host network": {"NetworkMode": "host"},
    "host processes": {"PidMode": "host"},
    "capability": {"CapAdd": ["SYS_ADMIN"]},
    "volumes of others": {"VolumesFrom": ["c"]},
    "another container": {"NetworkMode": "container:c"},
    "seccomp": {"SecurityOpt": ["seccomp=unconfined"]},
    "device": {
        "Devices": [{"PathOnHost": "/dev/sda", "PathInContainer": "/x", "CgroupPermissions": "rwm"}]
    },
    "runtime": {"Runtime": "evil"},
    "port": {"PortBindings": {"80/tcp": [{"HostPort": "22"}]}},
    "address": {"PortBindings": {"80/tcp": [{"HostIp": "10.0.0.1", "HostPort": "8080"}]}},
    "ulimit": {"Ulimits": [{"Name": "nofile", "Soft": 1, "Hard": 1}]},
    "log driver": {"LogConfig": {"Type": "syslog", "Config": {}}},
}


@pytest.mark.parametrize("name", DANGEROUS)
def test_what_the_shipped_data_keep_closed_is_not_opened(name: str) -> None:
    """An admin did it many times: others do not get it for that."""
    input = create("ann", **DANGEROUS[name])
    files = learn([("ann", input), ("ann", create("ann"))])
    assert not allows(files, input)
    assert allows(files, create("ann"))


def test_learned_data_are_never_wider_than_the_shipped_ones() -> None:
    inputs = [("ann", create("ann", **host)) for host in DANGEROUS.values()]
    data = data_of(learn(inputs))
    for section, name in [
        ("capabilities", "allow"),
        ("registries", "allow"),
        ("networks", "drivers"),
    ]:
        assert set(data[section][name]) <= set(SHIPPED[section][name])
    for section, name in [
        ("ports", "addresses"),
        ("runtimes", "allow"),
        ("ulimits", "allow"),
        ("mounts", "nfs"),
    ]:
        assert data[section][name] == []
    assert data["mounts"]["volumes_from"] is data["networks"]["join_containers"] is False
    assert data["ports"]["first"] >= 1024


def test_a_folder_is_learned_as_it_is() -> None:
    files = learn([("ann", create("ann", Binds=["/srv/app/data:/data"]))])
    assert data_of(files)["mounts"]["allow"] == ["/srv/app/data"]


@pytest.mark.parametrize(
    "folder",
    [
        "/srv",
        "/var",
        "/etc/x",
        "/run/user",
        "/proc/1",
        "/srv/../etc",
        "/srv/a*b",
        "unresolved",
        "/usr/lib",
        "/a/\n",
    ],
)
def test_a_folder_of_the_system_is_asked(folder: str) -> None:
    input = create("ann", Binds=["/srv/app/data:/data"])
    input["mounts"] = [{**input["mounts"][0], "clean": folder, "resolved": folder}]
    data = data_of(learn([("ann", input)]))
    assert data["mounts"]["allow"] == []


def test_nobody_becomes_an_admin() -> None:
    files = learn(
        [
            ("ann", call("ann", "POST", "/plugins/pull?remote=x", [])),
            ("ann", call("ann", "DELETE", "/plugins/x")),
        ]
    )
    assert data_of(files)["users"] == {}
    rows = yaml.safe_load(files["review.yaml"])["values"]
    assert {row["value"] for row in rows if row["setting"] == "users.roles"} == {"admin"}
    assert all(row["proposal"] == "ask" for row in rows if row["setting"] == "users.roles")


def test_what_was_denied_gives_no_role() -> None:
    input = call("ann", "POST", "/containers/c/kill")
    lines = [entry(n, "ann", input) for n in range(20)] + [entry(99, "ann", input, "deny")]
    files = make_files(gathered(lines), Limits(), NOTHING).files
    assert data_of(files)["users"] == {}


def test_what_was_done_once_is_asked() -> None:
    usual = [("ann", call("ann", "GET", "/info"))]
    lines = [entry(n, user, input) for n, (user, input) in enumerate(usual * 20)]
    lines.append(entry(50, "ann", create("ann", "evil/miner")))
    data = data_of(make_files(gathered(lines), Limits(), NOTHING).files)
    assert data["users"] == {"ann": ["viewer"]}
    assert data["images"]["allow"] == []


def test_decisions_of_a_person_survive(tmp_path: Path) -> None:
    inputs = [("ann", create("ann", CapAdd=["NET_ADMIN"]))]
    write_files(learn(inputs), tmp_path)
    document = yaml.safe_load((tmp_path / "review.yaml").read_text())
    for row in document["values"]:
        if row["value"] == "NET_ADMIN":
            row["decision"], row["note"] = "allow", "the VPN"
        if row["value"] == "docker.io/library/busybox":
            row["decision"] = "deny"
    (tmp_path / "review.yaml").write_text(yaml.safe_dump(document))
    for again in (inputs, [("ann", create("ann"))]):
        data = data_of(learn(again, folder=tmp_path))
        assert data["capabilities"]["allow"] == ["NET_ADMIN"]
        assert data["images"]["allow"] == []
    document["values"][0]["setting"] = "owners.none"
    (tmp_path / "review.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(LearnError, match="not a review"):
        learn(inputs, folder=tmp_path)


def test_one_user_alone_can_be_learned_from() -> None:
    lines = [entry(n, "ann", create("ann")) for n in range(9)]
    lines += [entry(n, "bob", create("bob", "nginx")) for n in range(9)]
    files = make_files(gathered(lines, Options(only="ann")), Limits(), NOTHING).files
    assert data_of(files)["users"] == {"ann": ["developer"]}
    assert data_of(files)["images"]["allow"] == ["docker.io/library/busybox"]


def test_names_of_users_are_only_data() -> None:
    evil = "../../etc/x\n- id: y\n`<script>`"
    files = learn([(evil, {**create("ann"), "User": evil})])
    assert evil in data_of(files)["users"]
    assert len(yaml.safe_load(files["review.yaml"])["values"]) == 6
    assert "<script>" not in files["learned.md"]
    assert set(files) == {"data.json", "review.yaml", "learned.md"}


def test_a_log_without_inputs_gives_roles_only() -> None:
    lines = [entry(n, "ann", create("ann")) for n in range(9)]
    for each in lines:
        del each["input"]
    files = make_files(gathered(lines), Limits(), NOTHING).files
    assert data_of(files)["users"] == {"ann": ["developer"]}
    assert data_of(files)["images"]["allow"] == []
    assert "--audit-input" in files["learned.md"]


@pytest.mark.parametrize(
    "input",
    [
        [],
        {},
        {"mounts": 1, "ports": [], "network": "x", "security": 3, "image": []},
        {"images": [1, None]},
        {
            "mounts": [1, {"type": 7}],
            "ports": {"published": [1, {"first": "x"}]},
            "resources": {"memory": "x"},
        },
    ],
)
def test_an_input_of_another_shape_teaches_nothing(input: Any) -> None:
    lines = [{**entry(n, "ann", create("ann")), "input": input} for n in range(9)]
    data = data_of(make_files(gathered(lines), Limits(), NOTHING).files)
    assert data["images"]["allow"] == data["mounts"]["allow"] == []


def test_more_values_than_memory_may_hold_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker, "MAX_CELLS", 20)
    with pytest.raises(LearnError, match="--only"):
        learn([("ann", create("ann", f"image{n}")) for n in range(30)], 1)


def test_roles_are_those_of_the_shipped_policies() -> None:
    assert set(roles()) == {"viewer", "developer", "builder", "buildkit", "login", "operator"}
    assert "container.create" in roles()["developer"]


def test_audit_logs_and_other_logs_are_not_mixed() -> None:
    lines = [
        entry(1, "ann", create("ann")),
        {"method": "GET", "path": "/a", "status": 200, "user": "x"},
    ]
    with pytest.raises(LearnError, match="folder of its own"):
        make_files(gathered(lines), Limits(), NOTHING)
