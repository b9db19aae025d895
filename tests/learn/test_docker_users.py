"""What is learned of one user of Docker is not another's, whatever a log says."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.learn.docker_logs import (
    NOTHING,
    added,
    allows,
    call,
    create,
    data_of,
    entry,
    learn,
    started,
)
from tests.learn.logs import gathered

from doorward.learn.docker import SEVERAL, VARYING
from doorward.learn.docker_roles import roles
from doorward.learn.output import make_files, write_files
from doorward.learn.templates import Limits

ALICE: dict[str, Any] = {"Memory": 256 << 20, "NanoCpus": 10**9, "PidsLimit": 100}
NEEDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "image": ({"image": "team/web"}, {"image": "team/api"}),
    "mount": ({"Binds": ["/srv/alice:/d"]}, {"Binds": ["/srv/bob:/d"]}),
    "port": (
        {"PortBindings": {"80/tcp": [{"HostPort": "8080"}]}},
        {"PortBindings": {"80/tcp": [{"HostPort": "9090"}]}},
    ),
    "capability": ({"CapAdd": ["CHOWN"]}, {"CapAdd": ["KILL"]}),
    "log driver": (
        {"LogConfig": {"Type": "local", "Config": {}}},
        {"LogConfig": {"Type": "none", "Config": {}}},
    ),
    "sysctl": (
        {"Sysctls": {"net.ipv4.ip_unprivileged_port_start": "80"}},
        {"Sysctls": {"net.ipv4.ping_group_range": "0 1"}},
    ),
}


@pytest.mark.parametrize("need", NEEDS)
def test_each_user_may_what_they_did_and_not_what_another_did(need: str) -> None:
    alice, bob = NEEDS[need]
    files = learn(
        [
            ("alice", create("alice", **alice)),
            ("alice", create("alice")),
            ("bob", create("bob", **bob)),
            ("bob", create("bob")),
        ]
    )
    assert allows(files, create("alice", **alice))
    assert allows(files, create("bob", **bob))
    assert not allows(files, create("alice", **bob))
    assert not allows(files, create("bob", **alice))
    assert not allows(files, create("eve"))


def test_a_ceiling_is_of_one_user() -> None:
    files = learn(
        [("alice", create("alice", **ALICE)), ("bob", create("bob")), ("carl", create("carl"))]
    )
    assert data_of(files)["limits"] == {"memory": 64 << 20, "cpus": 1, "pids": 100}
    assert added(files, "user bob")["limits"] == {"cpus": 0, "pids": 0}
    assert allows(files, create("alice", **ALICE))
    assert allows(files, create("bob"))
    assert not allows(files, create("alice"))  # without limits of processors
    assert not allows(files, create("bob", **ALICE))
    assert not allows(files, create("alice", **{**ALICE, "Memory": 257 << 20}))


def test_a_network_is_of_one_user() -> None:
    def network(user: str, subnet: str, driver: str = "bridge") -> dict[str, Any]:
        ipam = {"Driver": "default", "Config": [{"Subnet": subnet}]}
        return call(user, "POST", "/networks/create", {"Name": "n", "Driver": driver, "IPAM": ipam})

    alice, bob = network("alice", "10.1.0.0/24"), network("bob", "10.2.0.0/24", "overlay")
    files = learn([("alice", alice), ("bob", bob)])
    assert allows(files, alice)
    assert allows(files, bob)
    for user, subnet, driver in [
        ("alice", "10.2.0.0/24", "bridge"),
        ("alice", "10.1.0.0/24", "overlay"),
        ("alice", "10.1.0.0/16", "bridge"),
        ("bob", "10.1.0.0/24", "overlay"),
        ("bob", "10.2.0.0/24", "bridge"),
    ]:
        assert not allows(files, network(user, subnet, driver)), (user, subnet, driver)


def test_who_starts_a_container_again_needs_what_it_has() -> None:
    mounted = create("alice", "team/web", Binds=["/srv/alice:/d"])
    files = learn(
        [
            ("alice", mounted),
            ("bob", started("bob", mounted)),
            ("carl", started("carl", create("carl"))),
        ]
    )
    assert allows(files, started("bob", mounted))
    assert allows(files, started("carl", create("carl")))
    assert not allows(files, started("carl", mounted))
    assert not allows(files, started("alice", create("alice", "other")))


def test_digests_are_asked_of_those_who_used_them() -> None:
    pinned = "team/web@sha256:" + "0" * 64
    files = learn(
        [
            ("alice", create("alice", pinned)),
            ("bob", create("bob", "team/web")),
        ],
        25,
    )
    assert data_of(files)["images"]["require_digest"] is True
    assert allows(files, create("alice", pinned))
    assert not allows(files, create("alice", "team/web"))
    assert allows(files, create("bob", "team/web"))


def test_requests_on_the_unix_socket_are_a_user_of_their_own() -> None:
    files = learn([("", create("", "team/web")), ("bob", create("bob", "team/api"))])
    assert data_of(files)["local_roles"] == ["developer", "local users"]
    local, bob = create("", "team/web"), create("bob", "team/api")
    for each in (local, bob):
        each["open_listeners"] = []
        assert allows(files, each)
    assert not allows(files, {**create("", "team/api"), "open_listeners": []})
    assert not allows(files, create("bob", "team/web"))


def test_a_certificate_without_a_name_teaches_nothing() -> None:
    nameless = {**create("bob"), "User": ""}
    files = learn([("", nameless), ("bob", call("bob", "GET", "/info"))])
    assert data_of(files)["local_roles"] == []


@pytest.mark.parametrize("name", ["viewer", "operator", "admin", "user bob", "local users", ""])
def test_a_name_of_a_user_that_is_a_name_of_a_role_gives_nothing(name: str) -> None:
    """A role of a user's own cannot be another's, nor a shipped one."""
    mine = create(name, "team/web") if name else create("", "team/web")
    mine["open_listeners"] = []
    files = learn([(name, mine), ("bob", call("bob", "GET", "/info"))])
    data = data_of(files)
    assert data["users"]["bob"] == ["viewer"]
    assert not data["roles"].keys() & roles().keys()
    assert all("admin" not in names for names in data["users"].values())
    assert not allows(files, create("bob", "team/web"))


DEVELOPERS = [f"dev{n}" for n in range(10)]


def spread(image: str, users: list[str]) -> list[tuple[str, dict[str, Any]]]:
    return [(user, create(user, image)) for user in users]


def test_what_all_of_a_role_use_is_the_roles() -> None:
    inputs = [*spread("team/web", DEVELOPERS), *spread("team/own", DEVELOPERS[:1])]
    files = learn([*inputs, ("view", call("view", "GET", "/info"))])
    assert added(files, "developer")["images"]["allow"] == ["docker.io/team/web"]
    assert added(files, "user dev0")["images"]["allow"] == ["docker.io/team/own"]
    assert data_of(files)["users"]["dev1"] == ["developer"]
    assert not allows(files, create("dev1", "team/own"))
    assert not allows(files, create("view", "team/web"))
    row = next(
        each
        for each in yaml.safe_load(files["review.yaml"])["values"]
        if each["value"] == "docker.io/team/web"
    )
    assert (row["role"], row["support"]["users"], row["support"]["of"]) == ("developer", 10, 10)
    assert "## The role developer" in files["learned.md"]


def test_half_of_a_role_is_not_the_role() -> None:
    files = learn(
        [*spread("team/web", DEVELOPERS), *spread("team/half", DEVELOPERS[: SEVERAL + 1])]
    )
    assert added(files, "developer")["images"]["allow"] == ["docker.io/team/web"]
    for n, user in enumerate(DEVELOPERS):
        assert allows(files, create(user, "team/half")) is (n <= SEVERAL)


def test_few_users_are_no_role() -> None:
    users = DEVELOPERS[: SEVERAL - 1]
    files = learn([*spread("team/web", users), ("new", call("new", "POST", "/containers/c/kill"))])
    assert added(files, "developer") == {}
    assert all(allows(files, create(user, "team/web")) for user in users)
    assert data_of(files)["users"]["new"] == ["developer"]
    assert not allows(files, create("new", "team/web"))


def test_one_who_did_seldom_what_is_usual_may_and_others_are_asked() -> None:
    usual = spread("team/web", DEVELOPERS[:SEVERAL])
    lines = [entry(n * 50 + k, *each) for n in range(9) for k, each in enumerate(usual)]
    extra = [("dev8", create("dev8", "team/web")), ("dev8", create("dev8", "evil/miner"))]
    lines += [entry(900 + n, *each) for n, each in enumerate(extra)]
    lines += [entry(n, "dev8", call("dev8", "POST", "/containers/c/kill")) for n in range(9)]
    files = make_files(gathered(lines), Limits(), NOTHING).files
    assert allows(files, create("dev8", "team/web"))
    assert not allows(files, create("dev8", "evil/miner"))


def test_a_denial_for_one_user_keeps_the_role_from_having_it(tmp_path: Path) -> None:
    few = spread("team/web", DEVELOPERS[:3])
    write_files(learn(few), tmp_path)
    decide(tmp_path, "docker.io/team/web", "user", "dev0", "deny")
    files = learn(spread("team/web", DEVELOPERS), folder=tmp_path)
    assert added(files, "developer").get("images") is None
    assert not allows(files, create("dev0", "team/web"))
    assert allows(files, create("dev1", "team/web"))


def test_a_denial_for_a_role_is_one_for_its_users(tmp_path: Path) -> None:
    inputs = spread("team/web", DEVELOPERS)
    write_files(learn(inputs), tmp_path)
    decide(tmp_path, "docker.io/team/web", "role", "developer", "deny")
    files = learn(inputs, folder=tmp_path)
    assert not any(allows(files, create(user, "team/web")) for user in DEVELOPERS)
    write_files(files, tmp_path)
    decide(tmp_path, "docker.io/team/web", "user", "dev3", "allow")
    files = learn(inputs, folder=tmp_path)
    assert [user for user in DEVELOPERS if allows(files, create(user, "team/web"))] == ["dev3"]


def test_a_denied_ceiling_denies_higher_ones(tmp_path: Path) -> None:
    small, large = 64 << 20, 1 << 30
    inputs = [("ann", create("ann", Memory=small)), ("ann", create("ann", Memory=large))]
    write_files(learn(inputs), tmp_path)
    decide(tmp_path, str(large), "user", "ann", "deny")
    more = [*inputs, ("ann", create("ann", Memory=2 * large)), ("ann", create("ann", Memory=0))]
    files = learn(more, folder=tmp_path)
    assert allows(files, create("ann", Memory=small))
    for memory in (large, 2 * large, 0):
        assert not allows(files, create("ann", Memory=memory))


def decide(folder: Path, value: str, kind: str, name: str, decision: str) -> None:
    """Write a decision into the review."""
    document = yaml.safe_load((folder / "review.yaml").read_text())
    rows = [
        each for each in document["values"] if each["value"] == value and each.get(kind) == name
    ]
    assert rows
    for row in rows:
        row["decision"] = decision
    (folder / "review.yaml").write_text(yaml.safe_dump(document))


def test_ports_that_vary_are_a_range_and_others_are_not() -> None:
    def published(port: int) -> dict[str, Any]:
        return create("ann", PortBindings={"80/tcp": [{"HostPort": str(port)}]})

    near = [entry(n, "ann", published(8000 + n)) for n in range(24)]
    far = [entry(n, "ann", published(2000 + 3000 * n)) for n in range(12)]
    files = make_files(gathered(near), Limits(), NOTHING).files
    assert added(files, "user ann")["ports"] == {"ranges": [[8000, 8023]]}
    assert not allows(files, published(8024))
    files = make_files(gathered([*far, *far]), Limits(), NOTHING).files
    assert "ports" not in added(files, "user ann")


def test_a_denied_part_of_what_varies_keeps_the_rest_from_being_learned(tmp_path: Path) -> None:
    def mounted(number: int) -> dict[str, Any]:
        return create("ann", Binds=[f"/srv/jobs/{number}:/d"])

    few = [entry(n, "ann", mounted(n % VARYING)) for n in range(3 * VARYING)]
    files = make_files(gathered(few), Limits(), NOTHING).files
    assert allows(files, mounted(1000))
    few = [entry(n, "ann", mounted(n)) for n in range(VARYING - 1)]
    write_files(make_files(gathered(few), Limits(), NOTHING).files, tmp_path)
    decide(tmp_path, "/srv/jobs/3", "user", "ann", "deny")
    many = [entry(n, "ann", mounted(n)) for n in range(40)]
    files = make_files(gathered(many), Limits(), tmp_path).files
    assert "mounts" not in added(files, "user ann")


def test_one_call_counts_once() -> None:
    """Many mounts of one folder in a request are not many requests."""
    input = create("ann", Binds=[f"/srv/x/y:/d{n}" for n in range(40)])
    usual = [entry(n, "ann", create("ann")) for n in range(9)]
    files = make_files(gathered([*usual, entry(1, "ann", input)]), Limits(), NOTHING).files
    assert "mounts" not in added(files, "user ann")


def test_what_only_an_admin_could_do_is_asked_as_that() -> None:
    files = learn([("ann", create("ann", Privileged=True))])
    rows = yaml.safe_load(files["review.yaml"])["values"]
    row = next(each for each in rows if each["value"] == "admin")
    assert row["proposal"] == "ask"
    assert "container.create (privileged)" in row["look"]
    assert not allows(files, create("ann", Privileged=True))


def test_random_logs_give_each_user_their_own_requests_only() -> None:
    """Of a random log: all that a user did often is allowed, and of what they never did only what
    all users of their role do."""
    rng = random.Random(30)
    images = [f"team/{n}" for n in range(6)]
    for _ in range(6):
        users = [f"user{n}" for n in range(rng.randint(2, 8))]
        own = {
            user: [
                (rng.choice(images), f"/srv/{rng.randrange(4)}/x", 8000 + rng.randrange(4))
                for _ in range(3)
            ]
            for user in users
        }

        def request(user: str, need: tuple[str, str, int]) -> dict[str, Any]:
            image, folder, port = need
            ports = {"80/tcp": [{"HostPort": str(port)}]}
            return create(user, image, Binds=[f"{folder}:/d"], PortBindings=ports)

        files = learn([(user, request(user, need)) for user in users for need in own[user]])
        shared = added(files, "developer")
        images_of_all = shared.get("images", {}).get("allow", [])
        folders_of_all = shared.get("mounts", {}).get("allow", [])
        ports_of_all = shared.get("ports", {}).get("ranges", [])
        for user in users:
            for need in own[user]:
                assert allows(files, request(user, need))
            for other in users:
                for image, folder, port in own[other]:
                    wrong = request(user, (image, folder, port))
                    of_user = [set(values) for values in zip(*own[user], strict=True)]
                    is_own = (
                        (image in of_user[0] or f"docker.io/{image}" in images_of_all)
                        and (folder in of_user[1] or folder in folders_of_all)
                        and (port in of_user[2] or [port, port] in ports_of_all)
                    )
                    assert allows(files, wrong) is is_own, (user, other, image, folder, port)
