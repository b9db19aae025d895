"""Images, mounts, security, limits and networks: many spellings, one view."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.docker.request.images import parse_image, registry_of_name
from doorward.docker.request.limits import build_resources, create_resources, logging_view
from doorward.docker.request.model.table import STRUCTS
from doorward.docker.request.mounts import create_mounts, mount_list, volume_mounts
from doorward.docker.request.networks import create_network, create_ports
from doorward.docker.request.schema import Array, Map, Struct, Type
from doorward.docker.request.security import (
    cgroup_view,
    create_security,
    device_view,
    nonempty_fields,
)

IMAGES = [
    ("busybox", "docker.io", "library/busybox", "latest", ""),
    ("busybox:1.36", "docker.io", "library/busybox", "1.36", ""),
    ("docker.io/busybox", "docker.io", "library/busybox", "latest", ""),
    ("index.docker.io/a/b", "docker.io", "a/b", "latest", ""),
    ("a/b/c:x", "docker.io", "a/b/c", "x", ""),
    ("localhost/x", "localhost", "x", "latest", ""),
    ("127.0.0.1:9/x/y:1", "127.0.0.1:9", "x/y", "1", ""),
    ("R/x", "R", "x", "latest", ""),
    ("r.io/x@sha256:" + "a" * 64, "r.io", "x", "", "sha256:" + "a" * 64),
    ("r.io/x:1@sha256:" + "a" * 64, "r.io", "x", "1", "sha256:" + "a" * 64),
]


@pytest.mark.parametrize(("text", "registry", "repository", "tag", "digest"), IMAGES)
def test_reference(text: str, registry: str, repository: str, tag: str, digest: str) -> None:
    image = parse_image(text)
    assert (image["registry"], image["repository"]) == (registry, repository)
    assert (image["tag"], image["digest"], image["unresolved"]) == (tag, digest, False)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a" * 64,
        "sha256:" + "a" * 64,
        "UPPER",
        "a b",
        "a//b",
        "x@sha256:1",
        "a:b:c",
        "a:-b",
        "a:!",
    ],
)
def test_what_is_no_name_is_unresolved(text: str) -> None:
    assert parse_image(text)["unresolved"]


@pytest.mark.parametrize(
    ("name", "registry"),
    [
        ("busybox", "docker.io"),
        ("library/busybox", "docker.io"),
        ("index.docker.io/x", "docker.io"),
        ("r.io/x", "r.io"),
        ("r.io:5000/x/y", "r.io:5000"),
    ],
)
def test_the_registry_of_a_name_is_that_of_its_domain(name: str, registry: str) -> None:
    assert registry_of_name(name) == registry


def same(path: str) -> str | None:
    return {"/srv/link": "/etc", "/srv/loop": None}.get(path, path)


@pytest.mark.parametrize(("host", "driver"), [({}, "local"), ({"VolumeDriver": "nfs"}, "nfs")])
def test_a_volume_without_a_name_is_of_the_driver_of_the_container(
    host: dict[str, Any], driver: str
) -> None:
    mounts = create_mounts(host, {"Volumes": {"/v": {}}}, same)
    assert {mount["driver"] for mount in mounts} == {driver}


def of_host(**host: Any) -> list[tuple[str, str, str, bool]]:
    mounts = create_mounts(host, {}, same)
    return [(m["type"], m["clean"], m["resolved"], m["unresolved"]) for m in mounts]


MOUNTS: list[tuple[dict[str, Any], list[tuple[str, str, str, bool]]]] = [
    ({"Binds": ["/etc:/h"]}, [("bind", "/etc", "/etc", False)]),
    ({"Binds": ["/a/../../etc:/h:ro,rshared"]}, [("bind", "/etc", "/etc", False)]),
    ({"Binds": ["//etc//:/h"]}, [("bind", "/etc", "/etc", False)]),
    ({"Binds": ["/srv/link:/h"]}, [("bind", "/srv/link", "/etc", False)]),
    ({"Binds": ["/srv/loop:/h"]}, [("bind", "/srv/loop", "", True)]),
    ({"Binds": ["/etc\x00/x:/h"]}, [("bind", "/etc\x00/x", "", True)]),
    ({"Binds": ["name:/h"]}, [("volume", "", "", True)]),
    ({"Binds": ["/h"]}, [("volume", "", "", False)]),
    ({"Binds": ["a:b:c:d"]}, [("other", "", "", True)]),
    ({"VolumesFrom": ["c:ro"]}, [("volume", "", "", True)]),
    ({"Tmpfs": {"/t": ""}}, [("tmpfs", "", "", False)]),
    ({"Mounts": [{"Type": "bind", "Source": "/etc"}]}, [("bind", "/etc", "/etc", False)]),
    ({"Mounts": [{"Type": "bind", "Source": "/a\x00"}]}, [("bind", "/a\x00", "", True)]),
    ({"Mounts": [{"Type": "weird", "Source": "/etc"}]}, [("other", "", "", True)]),
    ({"Mounts": [{"Type": "volume"}, None]}, [("volume", "", "", False)]),
]


@pytest.mark.parametrize(("host", "expected"), MOUNTS)
def test_mounts(host: dict[str, Any], expected: list[tuple[str, str, str, bool]]) -> None:
    assert of_host(**host) == expected


VOLUMES = [
    ("local", {"type": "none", "o": "bind", "device": "/etc"}, [("bind", "/etc", False)]),
    ("", {"type": "none", "o": "rw,rbind", "device": "/etc"}, [("bind", "/etc", False)]),
    ("local", {"o": "bind", "device": "etc"}, [("bind", "etc", True)]),
    ("local", {"o": "bind", "device": "/etc\x00/x"}, [("bind", "/etc\x00/x", True)]),
    ("local", {"type": "ext4", "device": "/dev/sda1"}, [("device", "/dev/sda1", True)]),
    ("local", {"type": "nfs", "o": "addr=x", "device": ":/x"}, [("nfs", "", True)]),
    ("local", {"type": "tmpfs", "device": "tmpfs"}, [("tmpfs", "", False)]),
    (
        "local",
        {"type": "overlay", "o": "lowerdir=/etc:/usr,upperdir=/u", "device": "overlay"},
        [("bind", "/etc", False), ("bind", "/usr", False), ("bind", "/u", False)],
    ),
    ("local", {"type": "overlay", "device": "overlay"}, [("filesystem", "", True)]),
    (
        "local",
        {"type": "ext4", "o": "lowerdir=/etc", "device": "/dev/sda1"},
        [("bind", "/etc", False), ("device", "/dev/sda1", True)],
    ),
    ("rexray", {"x": "y"}, [("other", "", True)]),
    ("local", {}, []),
]


@pytest.mark.parametrize(("driver", "options", "expected"), VOLUMES)
def test_volume_options(
    driver: str, options: dict[str, str], expected: list[tuple[str, str, bool]]
) -> None:
    actual = volume_mounts(driver, options, "/t", same)
    assert [(m["type"], m["clean"], m["unresolved"]) for m in actual] == expected
    config = {"DriverConfig": {"Name": driver, "Options": options}}
    mounts = mount_list([{"Type": "volume", "Target": "/t", "VolumeOptions": config}], same)
    assert [(m["type"], m["clean"], m["unresolved"]) for m in mounts[1:]] == expected


SECURITY: list[tuple[dict[str, Any], str, Any]] = [
    ({"CapAdd": ["sys_admin", "CAP_Net_Raw", "all"]}, "cap_add", ["ALL", "NET_RAW", "SYS_ADMIN"]),
    ({"Capabilities": ["CAP_X"]}, "cap_add", ["X"]),
    ({"SecurityOpt": ["seccomp:unconfined"]}, "seccomp", "unconfined"),
    ({"SecurityOpt": ["seccomp=unconfined"]}, "seccomp", "unconfined"),
    ({"SecurityOpt": ['seccomp={"defaultAction":"x"}']}, "seccomp", "custom"),
    ({"SecurityOpt": ["apparmor=mine"]}, "apparmor", "custom"),
    ({"SecurityOpt": ["label=disable"]}, "label_disabled", True),
    ({"SecurityOpt": ["label:disable"]}, "label_disabled", True),
    ({"SecurityOpt": ["no-new-privileges"]}, "no_new_privileges", True),
    ({"SecurityOpt": ["no-new-privileges:false"]}, "no_new_privileges", False),
    ({"MaskedPaths": []}, "masked_paths", "none"),
    ({"MaskedPaths": ["/proc/x"]}, "masked_paths", "custom"),
    ({"PidMode": "host"}, "host_namespaces", ["pid"]),
    ({"CgroupnsMode": "host"}, "host_namespaces", ["cgroup"]),
    ({"IpcMode": "container:c"}, "joined_containers", ["c"]),
    ({"Runtime": "x"}, "runtime", "x"),
    ({}, "privileged", False),
]


@pytest.mark.parametrize(("host", "field", "expected"), SECURITY)
def test_security(host: dict[str, Any], field: str, expected: Any) -> None:
    assert create_security(host, {})[field] == expected


def test_devices_of_every_kind_count() -> None:
    assert not device_view({})["any"]
    for host in (
        {"Devices": [{"PathOnHost": "/dev/x"}]},
        {"DeviceCgroupRules": ["c 1:3 rwm"]},
        {"DeviceRequests": [{"Count": -1}]},
    ):
        assert device_view(host)["any"]


def test_processors_are_one_number() -> None:
    assert create_resources({"NanoCpus": 1_500_000_000})["cpus"] == 1.5
    assert create_resources({"CpuQuota": 50_000})["cpus"] == 0.5
    assert create_resources({"CpuQuota": 50_000, "CpuPeriod": 25_000})["cpus"] == 2
    assert create_resources({"CpuQuota": -1})["cpus"] == 0
    assert build_resources({"cpuquota": ["100000"], "memory": ["x"]})["cpus"] == 1


def test_ports() -> None:
    bindings = {"80/tcp": [{"HostPort": "8080-8090"}, {"HostIp": "127.0.0.1"}], "53/udp": None}
    actual = create_ports({"PortBindings": bindings, "PublishAllPorts": True}, {})
    first, second = actual["published"]
    assert (first["first"], first["last"], first["unresolved"]) == (8080, 8090, False)
    assert (second["host_ip"], second["unresolved"]) == ("127.0.0.1", True)
    assert actual["all"] is True


def test_networks() -> None:
    actual = create_network({"NetworkMode": "container:c"}, {}, {})
    assert (actual["container"], actual["unresolved"], actual["names"]) == ("c", True, [])
    actual = create_network({"NetworkMode": "a"}, {}, {"EndpointsConfig": {"b": None}})
    assert actual["names"] == ["a", "b"]


def samples(type_: Type) -> list[Any]:
    """Values of a type that say something, and some that say nothing."""
    if isinstance(type_, Struct):
        members = {name: samples(inner) for name, inner in type_.fields.items()}
        return [{}, *[{name: value} for name, values in members.items() for value in values]]
    if isinstance(type_, Array):
        return [[], *[[value] for value in samples(type_.item)]]
    if isinstance(type_, Map):
        return [{}, *[{"80/tcp": value} for value in samples(type_.item)]]
    values: dict[str, list[Any]] = {
        "string": ["", "x", "host", "container:x", "none", "/x:/y"],
        "boolean": [False, True],
        "integer": [0, 7, -1],
        "words": [[], ["x"]],
        "loose": [None, {}],
    }
    return values[type_]


EMPTY: dict[str, Any] = {
    name: None if name.endswith("Paths") else samples(type_)[0]
    for name, type_ in STRUCTS["HostConfig"].fields.items()
}


@pytest.mark.parametrize("name", STRUCTS["HostConfig"].fields)
def test_what_a_host_config_leaves_empty_changes_no_view(name: str) -> None:
    for value in samples(STRUCTS["HostConfig"].fields[name]):
        whole = EMPTY | {name: value}
        config: dict[str, Any] = {"User": "u", "Volumes": {}, "ExposedPorts": None}
        views = [
            (
                create_mounts(host, config, same),
                create_security(host, config),
                create_resources(host),
                create_ports(host, config),
                create_network(host, config, {}),
                device_view(host),
                cgroup_view(host),
                logging_view(host.get("LogConfig"), driver="Type", options="Config"),
            )
            for host in (whole, nonempty_fields(whole))
        ]
        assert views[0] == views[1], value


def test_paths_that_are_no_longer_protected_are_seen() -> None:
    for name, view in (("MaskedPaths", "masked_paths"), ("ReadonlyPaths", "readonly_paths")):
        assert create_security(nonempty_fields(EMPTY | {name: []}), {})[view] == "none"
