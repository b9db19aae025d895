"""Docker's audit log becomes data of the shipped policies, and opens nothing closed there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.learn.docker_logs import (
    NOTHING,
    SHIPPED,
    added,
    allows,
    call,
    create,
    data_of,
    entry,
    learn,
)
from tests.learn.logs import gathered

from doorward.learn import docker_calls
from doorward.learn.docker_roles import roles
from doorward.learn.observations import LearnError
from doorward.learn.output import make_files, write_files
from doorward.learn.reading import Options
from doorward.learn.templates import Limits


def test_users_get_the_least_role_and_what_they_use() -> None:
    used = [
        ("ann", create("ann")),
        ("ann", call("ann", "GET", "/containers/json")),
        ("bob", call("bob", "GET", "/info")),
    ]
    files = learn(used)
    data = data_of(files)
    assert data["users"] == {"ann": ["developer", "user ann"], "bob": ["viewer"]}
    assert data["local_roles"] == data["images"]["allow"] == []
    assert added(files, "user ann") == {"images": {"allow": ["docker.io/library/busybox"]}}
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


def test_what_a_role_did_together_opens_nothing_closed_either() -> None:
    users = [f"dev{n}" for n in range(8)]
    hostile = [(user, create(user, **host)) for user in users for host in DANGEROUS.values()]
    files = learn([*hostile, *[(user, create(user)) for user in users]])
    assert added(files, "developer")["images"]["allow"] == ["docker.io/library/busybox"]
    for settings in (data_of(files), *data_of(files)["roles"].values()):
        assert_no_wider(settings)
    for _, input in hostile:
        assert not allows(files, input)


def assert_no_wider(settings: dict[str, Any]) -> None:
    """Compare settings, of all or of a role, with the shipped ones."""
    values = {
        (section, name): value
        for section, names in settings.items()
        if section in SHIPPED and isinstance(names, dict) and section not in ("users", "limits")
        for name, value in names.items()
    }
    for (section, name), value in values.items():
        if (section, name) in (("images", "allow"), ("mounts", "allow"), ("ports", "ranges")):
            continue
        most = SHIPPED[section][name]
        if isinstance(value, list):
            assert set(value) <= set(most), (section, name)
        elif isinstance(value, bool):
            assert value in (False, most), (section, name)
    ports = settings.get("ports", {})
    assert ports.get("first", 1024) >= 1024
    assert all(1024 <= first <= last <= 65535 for first, last in ports.get("ranges", []))
    for folder in settings.get("mounts", {}).get("allow", []):
        assert folder.startswith("/srv/")
    assert settings.get("owners", False) is False
    assert "admin" not in settings.get("local_roles", [])
    assert all("admin" not in names for names in settings.get("users", {}).values())


def test_learned_data_are_never_wider_than_the_shipped_ones() -> None:
    inputs = [("ann", create("ann", **host)) for host in DANGEROUS.values()]
    files = learn(inputs)
    for settings in (data_of(files), added(files, "user ann")):
        assert_no_wider(settings)


def test_a_folder_is_learned_as_it_is() -> None:
    files = learn([("ann", create("ann", Binds=["/srv/app/data:/data"]))])
    assert data_of(files)["mounts"]["allow"] == []
    assert added(files, "user ann")["mounts"]["allow"] == ["/srv/app/data"]


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
    files = learn([("ann", input)])
    assert data_of(files)["mounts"]["allow"] == []
    assert "mounts" not in added(files, "user ann")


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
        files = learn(again, folder=tmp_path)
        assert added(files, "user ann") == {"capabilities": {"allow": ["NET_ADMIN"]}}
        assert data_of(files)["capabilities"]["allow"] == []
    document["values"][0]["setting"] = "owners.none"
    (tmp_path / "review.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(LearnError, match=r"review\.yaml: value 1 is not as .*: undo the edit"):
        learn(inputs, folder=tmp_path)


def test_one_user_alone_can_be_learned_from() -> None:
    lines = [entry(n, "ann", create("ann")) for n in range(9)]
    lines += [entry(n, "bob", create("bob", "nginx")) for n in range(9)]
    files = make_files(gathered(lines, Options(only="ann")), Limits(), NOTHING).files
    assert data_of(files)["users"] == {"ann": ["developer", "user ann"]}
    assert data_of(files)["roles"] == {
        "user ann": {"images": {"allow": ["docker.io/library/busybox"]}}
    }


def test_names_of_users_are_only_data() -> None:
    evil = "../../etc/x\n- id: y\n`<script>`"
    files = learn([(evil, {**create("ann"), "User": evil})])
    assert evil in data_of(files)["users"]
    assert len(yaml.safe_load(files["review.yaml"])["values"]) == 5
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
    monkeypatch.setattr(docker_calls, "MAX_CELLS", 20)
    with pytest.raises(LearnError, match="--only"):
        learn([("ann", create("ann", f"image{n}")) for n in range(30)], 1)


def test_roles_are_those_of_the_shipped_policies() -> None:
    assert set(roles()) == {
        "viewer", "developer", "builder", "image-builder", "buildkit", "login", "operator",
    }  # fmt: skip
    assert "container.create" in roles()["developer"]


def test_audit_logs_and_other_logs_are_not_mixed() -> None:
    lines = [
        entry(1, "ann", create("ann")),
        {"method": "GET", "path": "/a", "status": 200, "user": "x"},
    ]
    with pytest.raises(LearnError, match="folder of its own"):
        make_files(gathered(lines), Limits(), NOTHING)
