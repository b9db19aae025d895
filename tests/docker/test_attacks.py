"""Ways by which users reached the host through the policies of an earlier version.

Each was tried on a real daemon, which obeyed. The list is decided here without one; what Debian's
daemon shows is shown below, with what came of the request and that it is refused now.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from examples.docker.private_daemon import PrivateDaemon
from tests.docker.guarded import guard, write_policies

from doorward.docker.decider.embedded import EmbeddedPdp
from doorward.docker.request.call import AuthzRequest
from doorward.docker.request.errors import RequestError
from doorward.docker.request.input import InputOptions, to_input

CREATE = "/v1.41/containers/create"
ALLOWED = "/srv/allowed"


@pytest.fixture(scope="module")
def pdp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPdp]:
    """The shipped policies, with a folder that users may mount."""
    folder = write_policies(
        tmp_path_factory.mktemp("attacks") / "docker",
        allow=ALLOWED,
        users={"alice": ["developer"], "bob": ["viewer"], "olga": ["operator"]},
    )
    decider = EmbeddedPdp([str(folder)], watch=False)
    yield decider
    decider.close()


def decide(
    pdp: EmbeddedPdp, user: str, method: str, uri: str, body: Any = None, **changes: Any
) -> dict[str, Any]:
    """The decision on a request of a user; a refusal of the input is one, too."""
    content = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} if body is not None else {}
    request = AuthzRequest(method, uri, user, "TLS", headers, content)
    try:
        view = {**to_input(request, InputOptions(protected_ports=(8181,))), "inspects": True}
    except RequestError as error:
        return {"allow": False, "messages": [str(error)]}
    result: Any = pdp.decide({**view, **changes}).result
    return dict(result)


def service(**spec: Any) -> dict[str, Any]:
    return {"Name": "s", "TaskTemplate": {"ContainerSpec": {"Image": "img", **spec}}}


def service_volume(source: str = "v", **options: str) -> dict[str, Any]:
    driver = {"DriverConfig": {"Name": "local", "Options": options}} if options else {}
    mount = {"Type": "volume", "Source": source, "Target": "/v", "VolumeOptions": driver}
    return service(Mounts=[mount])


def overlay(lower: str) -> dict[str, Any]:
    options = {"type": "overlay", "device": "overlay", "o": f"lowerdir={lower}"}
    return {"Name": "v", "Driver": "local", "DriverOpts": options}


def host(**fields: Any) -> dict[str, Any]:
    return {"Image": "img", "HostConfig": fields}


SERVICES = "/v1.41/services/create"
VOLUMES = "/v1.41/volumes/create"
NETWORKS = "/v1.41/networks/create"
ATTACKS: list[tuple[str, str, str, str, Any]] = [
    # what, user, method, target, body
    (
        "template in volume options",
        "olga",
        "POST",
        SERVICES,
        service_volume(type="tmpfs", device="/etc", o='size=1{{printf "%c" 44}}bind'),
    ),
    (
        "template in a volume's name",
        "olga",
        "POST",
        SERVICES,
        service_volume('{{print "admin"}}vol'),
    ),
    (
        "template in the environment",
        "olga",
        "POST",
        SERVICES,
        service(Env=["A={{.Node.Hostname}}"]),
    ),
    ("template in the host name", "olga", "POST", SERVICES, service(Hostname="{{.Service.Name}}")),
    (
        "template in a mount's target",
        "olga",
        "POST",
        SERVICES,
        service(Mounts=[{"Type": "volume", "Source": "v", "Target": "/{{.Service.Name}}"}]),
    ),
    (
        "escaped comma",
        "alice",
        "POST",
        VOLUMES,
        overlay(f"{ALLOWED}/b:{ALLOWED}/a\\,/../../../etc"),
    ),
    ("overlay", "alice", "POST", VOLUMES, overlay(f"{ALLOWED}/a:{ALLOWED}/b")),
    (
        "tmpfs with a policy of memory",
        "alice",
        "POST",
        VOLUMES,
        {
            "Name": "v",
            "DriverOpts": {"type": "tmpfs", "device": "tmpfs", "o": "size=1,mpol=bind:0"},
        },
    ),
    (
        "arguments of ps",
        "bob",
        "GET",
        f"/v1.41/containers/c/top?ps_args={quote('-osz=PID,args axe')}",
        None,
    ),
    ("registry by its address", "bob", "GET", "/v1.41/distribution/10.0.0.1:5000/x/json", None),
    ("custom registry", "bob", "GET", "/v1.41/distribution/evil.example/x/json", None),
    (
        "image of a custom registry",
        "alice",
        "POST",
        "/v1.41/images/create?fromImage=evil.example/x",
        None,
    ),
    ("search at a registry", "bob", "GET", "/v1.41/images/search?term=127.0.0.1:5000/x", None),
    ("runtime", "alice", "POST", CREATE, host(Runtime="runc")),
    ("new privileges", "alice", "POST", CREATE, host(SecurityOpt=["no-new-privileges=false"])),
    (
        "new privileges with a colon",
        "alice",
        "POST",
        CREATE,
        host(SecurityOpt=["no-new-privileges:0"]),
    ),
    ("seccomp of the daemon", "alice", "POST", CREATE, host(SecurityOpt=["seccomp=builtin"])),
    (
        "ulimit",
        "alice",
        "POST",
        CREATE,
        host(Ulimits=[{"Name": "nofile", "Soft": 1 << 20, "Hard": 1 << 20}]),
    ),
    (
        "all addresses",
        "alice",
        "POST",
        CREATE,
        host(PortBindings={"80/tcp": [{"HostIp": "0.0.0.0", "HostPort": "8080"}]}),
    ),
    (
        "all addresses of IPv6",
        "alice",
        "POST",
        CREATE,
        host(PortBindings={"80/tcp": [{"HostIp": "::", "HostPort": "8080"}]}),
    ),
    (
        "all addresses by a network",
        "alice",
        "POST",
        NETWORKS,
        {"Name": "n", "Options": {"com.docker.network.bridge.host_binding_ipv4": "0.0.0.0"}},
    ),
    (
        "port of the decision point",
        "alice",
        "POST",
        CREATE,
        host(PortBindings={"80/tcp": [{"HostIp": "::1", "HostPort": "8181"}]}),
    ),
    (
        "port of the decision point in a range",
        "alice",
        "POST",
        CREATE,
        host(PortBindings={"80/tcp": [{"HostPort": "8100-8200"}]}),
    ),
    (
        "device whose absence is told",
        "alice",
        "POST",
        CREATE,
        host(BlkioDeviceReadBps=[{"Path": "/root/secret", "Rate": 1}]),
    ),
    (
        "sysctl of an endpoint",
        "alice",
        "POST",
        CREATE,
        {
            "Image": "img",
            "NetworkingConfig": {
                "EndpointsConfig": {
                    "n": {
                        "DriverOpts": {
                            "com.docker.network.endpoint.sysctls": "net.ipv4.ip_forward=1"
                        }
                    }
                }
            },
        },
    ),
    ("NUL in the source of a bind", "alice", "POST", CREATE, host(Binds=[f"{ALLOWED}\x00/x:/v"])),
    (
        "NUL in the source of a mount",
        "alice",
        "POST",
        CREATE,
        host(Mounts=[{"Type": "bind", "Source": f"{ALLOWED}/a\x00", "Target": "/v"}]),
    ),
]


@pytest.mark.parametrize(
    ("user", "method", "uri", "body"),
    [each[1:] for each in ATTACKS],
    ids=[each[0] for each in ATTACKS],
)
def test_attack_is_refused(pdp: EmbeddedPdp, user: str, method: str, uri: str, body: Any) -> None:
    decision = decide(pdp, user, method, uri, body)
    assert decision["allow"] is False
    assert decision["messages"]


SIBLINGS: list[tuple[str, str, str, Any]] = [
    # the same without the trick
    ("olga", "POST", SERVICES, service_volume()),
    ("olga", "POST", SERVICES, service_volume(type="tmpfs", device="tmpfs", o="size=1m")),
    ("olga", "POST", SERVICES, service(Env=["A=b"], Hostname="h")),
    (
        "alice",
        "POST",
        VOLUMES,
        {"Name": "v", "DriverOpts": {"type": "none", "o": "bind", "device": ALLOWED}},
    ),
    ("bob", "GET", "/v1.41/containers/c/top?ps_args=-ef", None),
    ("bob", "GET", "/v1.41/distribution/busybox/json", None),
    ("bob", "GET", "/v1.41/images/search?term=busybox", None),
    ("alice", "POST", "/v1.41/images/create?fromImage=ghcr.io/x/y", None),
    ("alice", "POST", CREATE, host(SecurityOpt=["no-new-privileges"])),
    (
        "alice",
        "POST",
        CREATE,
        host(PortBindings={"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8080"}]}),
    ),
    ("alice", "POST", CREATE, host(Binds=[f"{ALLOWED}/x:/v"])),
    (
        "alice",
        "POST",
        NETWORKS,
        {"Name": "n", "Options": {"com.docker.network.bridge.host_binding_ipv4": "127.0.0.1"}},
    ),
]


@pytest.mark.parametrize(("user", "method", "uri", "body"), SIBLINGS)
def test_request_without_the_trick_is_allowed(
    pdp: EmbeddedPdp, user: str, method: str, uri: str, body: Any
) -> None:
    decision = decide(pdp, user, method, uri, body)
    assert decision["allow"] is True, decision["messages"]


@pytest.fixture
def homes(tmp_path: Path) -> Iterator[EmbeddedPdp]:
    """The shipped policies, with a folder of each user."""
    folder = write_policies(tmp_path / "docker", allow="/home/{user}/projects")
    data = json.loads((folder / "data.json").read_text())
    users = ("alice", "bob", "..", ".", "a/b", "{user}", "")
    data["docker"]["users"] = {user: ["developer"] for user in users}
    (folder / "data.json").write_text(json.dumps(data))
    decider = EmbeddedPdp([str(folder)], watch=False)
    yield decider
    decider.close()


@pytest.mark.parametrize(
    ("user", "source", "allowed"),
    [
        ("alice", "/home/alice/projects/x", True),
        ("alice", "/home/alice/projects", True),
        ("alice", "/home/alice/projects2", False),
        ("alice", "/home/alice", False),
        ("alice", "/home/bob/projects/x", False),
        ("alice", "/home/alice/projects/../../bob/projects", False),
        ("bob", "/home/bob/projects/x", True),
        ("..", "/home/../projects", False),
        ("..", "/projects", False),
        (".", "/home/projects", False),
        ("a/b", "/home/a/b/projects", False),
        ("", "/home/projects", False),
    ],
)
def test_user_mounts_folders_of_their_own(
    homes: EmbeddedPdp, user: str, source: str, allowed: bool
) -> None:
    decision = decide(homes, user, "POST", CREATE, host(Binds=[f"{source}:/v"]))
    assert decision["allow"] is allowed, decision


def test_role_adds_values_that_its_users_may_choose(tmp_path: Path) -> None:
    folder = write_policies(
        tmp_path / "docker",
        users={"alice": ["developer"], "bob": ["developer", "networks"], "eve": ["networks"]},
        roles={
            "networks": {
                "capabilities": {"allow": ["NET_ADMIN"]},
                "mounts": {"allow": ["/srv/networks"]},
                "registries": {"allow": ["registry.example"]},
                # What is closed to all is open for this role.
                "networks": {"join_containers": True},
            }
        },
    )
    decider = EmbeddedPdp([str(folder)], watch=False)
    try:
        for body in (host(CapAdd=["NET_ADMIN"]), host(Binds=["/srv/networks/x:/v"])):
            assert decide(decider, "bob", "POST", CREATE, body)["allow"] is True
            assert decide(decider, "alice", "POST", CREATE, body)["allow"] is False
            assert decide(decider, "eve", "POST", CREATE, body)["allow"] is False
        pull = "/v1.41/images/create?fromImage=registry.example/x"
        assert decide(decider, "bob", "POST", pull)["allow"] is True
        assert decide(decider, "alice", "POST", pull)["allow"] is False
        joined = host(PidMode="container:c")
        assert decide(decider, "bob", "POST", CREATE, joined)["allow"] is True
        assert decide(decider, "alice", "POST", CREATE, joined)["allow"] is False
        for body in (host(CapAdd=["SYS_ADMIN"]), host(Binds=["/srv:/v"])):
            assert decide(decider, "bob", "POST", CREATE, body)["allow"] is False
    finally:
        decider.close()


def test_image_that_is_mounted_is_judged_as_one_that_is_run(pdp: EmbeddedPdp) -> None:
    body = host(Mounts=[{"Type": "image", "Source": "evil.example/x", "Target": "/v"}])
    view = to_input(
        AuthzRequest(
            "POST", "/v1.48/containers/create", "alice", "TLS",
            {"Content-Type": "application/json"}, json.dumps(body).encode(),
        )
    )  # fmt: skip
    assert [image["name"] for image in view["images"]] == ["evil.example/x"]
    assert decide(pdp, "alice", "POST", CREATE, body)["allow"] is True  # "**" is allowed here


def test_name_like_an_identifier_is_no_digest() -> None:
    for reference, digest in [("deadbeefcafe", ""), ("a" * 64, "a" * 64), ("ab:1", "")]:
        body = json.dumps({"Image": reference}).encode()
        headers = {"Content-Type": "application/json"}
        view = to_input(AuthzRequest("POST", CREATE, headers=headers, body=body))
        assert view["image"]["digest"] == digest


def test_login_is_decided_without_its_body(pdp: EmbeddedPdp) -> None:
    """Daemons from 20.10.27 on do not show it; older ones do, with the registry."""
    headers = {"Content-Type": "application/json", "Content-Length": "120"}
    withheld = to_input(AuthzRequest("POST", "/v1.54/auth", "olga", "TLS", headers))
    decision: Any = pdp.decide(withheld).result
    assert decision["allow"] is True, decision["messages"]
    assert decide(pdp, "olga", "POST", "/v1.41/auth")["allow"] is True
    refused = decide(pdp, "alice", "POST", "/v1.41/auth")
    assert refused["messages"] == ["the registry of a login is not shown by this daemon"]
    shown = {"serveraddress": "https://index.docker.io/v1/", "username": "a", "password": "b"}
    assert decide(pdp, "alice", "POST", "/v1.41/auth", shown)["allow"] is True
    elsewhere = {**shown, "serveraddress": "http://169.254.169.254/"}
    assert decide(pdp, "olga", "POST", "/v1.41/auth", elsewhere)["allow"] is False


# On the daemon


@pytest.fixture(scope="module")
def name(unique: str) -> str:
    return f"{unique}k"


@pytest.fixture(scope="module")
def guarded(
    daemon_started: PrivateDaemon, name: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PrivateDaemon]:
    """The daemon behind the shipped policies, which ask it about containers."""
    allowed = daemon_started.folder / "shared"
    allowed.mkdir()
    policies = write_policies(
        tmp_path_factory.mktemp("policies") / "docker",
        allow=str(allowed),
        users={"alice": ["developer"], "bob": ["viewer"], "carol": ["admin"]},
    )
    with guard(daemon_started, name, policies) as daemon:
        yield daemon


@pytest.mark.parametrize("entry", ["start", "restart"])
def test_folder_that_became_a_link_is_not_mounted(guarded: PrivateDaemon, entry: str) -> None:
    """Between create and start there may be minutes: the path is resolved again."""
    folder = guarded.folder / "shared" / f"project-{entry}"
    folder.mkdir()
    (folder / "mine").touch()
    target = f"swap-{entry}"
    done = guarded.docker(
        "create", "--network", "none", "--name", target, "-v", f"{folder}:/v", "img:1", "ls", "/v",
        user="alice",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert guarded.docker(entry, target, user="alice").returncode == 0
    # What still runs is not started again, and has shown its files already.
    assert guarded.docker("wait", target, user="carol").returncode == 0
    shutil.rmtree(folder)
    folder.symlink_to("/etc")
    # The daemon mounts what is there then: an administrator sees the host's files.
    shown = guarded.docker("start", "-a", target, user="carol")
    assert "hostname" in shown.stdout.split()
    refused = guarded.docker(entry, target, user="alice")
    assert "container reaches the host: host path" in refused.stderr
    assert guarded.docker("rm", "-f", target, user="carol").returncode == 0


def test_processes_of_the_host_are_not_listed(guarded: PrivateDaemon) -> None:
    done = guarded.docker(
        "run", "-d", "--network", "none", "--name", "listed", "img:1", "sleep", "1000", user="carol"
    )
    assert done.returncode == 0, done.stderr
    words = ["listed", "-osz=PID,args", "axe"]
    shown = guarded.docker("top", *words, user="carol")
    assert shown.stdout.split()[:2] == ["PID", "COMMAND"]  # it takes sizes for identifiers
    refused = guarded.docker("top", *words, user="bob")
    assert "query.ps_args must be one of" in refused.stderr
    assert "sleep" in guarded.docker("top", "listed", user="bob").stdout
    assert guarded.docker("rm", "-f", "listed", user="carol").returncode == 0


def test_escaped_comma_reaches_no_other_folder(guarded: PrivateDaemon) -> None:
    shared = guarded.folder / "shared"
    for folder in ("a,", "b"):
        (shared / folder).mkdir()
    away = "/".join([".."] * len((shared / "a,").parts[1:]))
    lower = f"{shared}/b:{shared}/a\\,/{away}/etc"
    document = {
        "Name": "escaped",
        "DriverOpts": {"type": "overlay", "device": "overlay", "o": f"lowerdir={lower}"},
    }
    refused = guarded.json("POST", VOLUMES, document)
    assert refused.status == 403
    assert "DriverOpts" in refused.message or "host path" in refused.message


def test_denial_says_the_line_that_would_allow_it(guarded: PrivateDaemon) -> None:
    refused = guarded.docker("run", "--cap-add", "NET_ADMIN", "img:1", "true", user="alice")
    assert '(to allow it, in the data: "capabilities": {"allow": ["NET_ADMIN"]})' in refused.stderr
    refused = guarded.docker("run", "img:1", "true", user="bob")
    assert '"users": {"bob": ["developer"]}' in refused.stderr
