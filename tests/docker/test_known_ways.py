"""Ways to the host that an earlier version let through, with their effects on the daemon.

Each test first sends the request to a daemon that asks nobody, and looks at what comes of it. Then
the shipped policies are in force, and the same request is refused.
"""

from __future__ import annotations

import http.server
import json
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from examples.docker.private_daemon import Answer, PrivateDaemon
from tests.docker.guarded import guard, write_policies
from tests.docker.swarm_tasks import wait_for_task
from tests.ports import free_port
from tests.waiting import PATIENCE

CANARY = "canary-of-the-host"
CREATE = "/containers/create"
SLEEP = ["sleep", "86400"]
LAN = "10.79.3"
BEHIND = "10.80.0.0/16"


@pytest.fixture(scope="module")
def name(unique: str) -> str:
    return f"{unique}w"


@pytest.fixture(scope="module")
def folders(daemon_started: PrivateDaemon) -> Path:
    """A folder with one that users may mount, and one beside it that they may not."""
    folder = daemon_started.folder / "ways"
    for each in ("allowed/a,", "allowed/b", "hidden"):
        (folder / each).mkdir(parents=True)
    (folder / "hidden" / "canary").write_text(CANARY)
    return folder


@contextmanager
def enforced(
    daemon: PrivateDaemon, name: str, folders: Path, **settings: Any
) -> Iterator[PrivateDaemon]:
    """The daemon behind the shipped policies, in which a local user is an operator."""
    with tempfile.TemporaryDirectory() as folder:
        policies = write_policies(
            Path(folder, "docker"), allow=str(folders / "allowed"), **settings
        )
        with guard(daemon, name, policies) as guarded:
            yield guarded


def read_canary(pid: int) -> str:
    """What a process finds at the mount."""
    command = ["nsenter", f"--target={pid}", "--mount", "/bin/busybox", "cat", "/v/canary"]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


def process_of(daemon: PrivateDaemon, container: str) -> int:
    answer = daemon.raw("GET", f"/containers/{container}/json")
    return int(json.loads(answer.body)["State"]["Pid"])


@pytest.fixture
def swarm(daemon: PrivateDaemon) -> Iterator[PrivateDaemon]:
    address = f"127.0.0.1:{free_port()}"
    wanted = {"ListenAddr": address, "AdvertiseAddr": address}
    answer = daemon.json("POST", "/swarm/init", wanted)
    assert answer.status == 200, answer.message
    yield daemon
    daemon.raw("POST", "/swarm/leave?force=1")


def test_template_makes_another_option_of_a_volume(
    swarm: PrivateDaemon, name: str, folders: Path
) -> None:
    """The manager expands it after every policy: `size=1,bind` is not what was asked for."""
    options = {
        "type": "tmpfs",
        "device": str(folders / "hidden"),
        "o": 'size=1{{printf "%c" 44}}bind',
    }
    mount = {
        "Type": "volume",
        "Target": "/v",
        "VolumeOptions": {"DriverConfig": {"Name": "local", "Options": options}},
    }
    service = {
        "Name": "template",
        "TaskTemplate": {
            "ContainerSpec": {"Image": "img:1", "Command": SLEEP, "Mounts": [mount]},
            "RestartPolicy": {"Condition": "none"},
        },
    }
    assert swarm.json("POST", "/services/create", service).status == 201
    assert read_canary(wait_for_task(swarm, "template", PATIENCE)) == CANARY
    assert swarm.raw("DELETE", "/services/template").status == 200
    with enforced(swarm, name, folders) as guarded:
        refused = guarded.json("POST", "/services/create", service)
        assert refused.status == 403
        assert "must be an option of a volume" in refused.message, refused.message
        mount["VolumeOptions"] = {}
        assert guarded.json("POST", "/services/create", service).status == 201
        mount["Source"] = '{{print "admin"}}vol'
        refused = guarded.json("POST", "/services/create", {**service, "Name": "other"})
        assert refused.status == 403
        assert guarded.raw("DELETE", "/services/template").status == 200


def test_rollback_brings_back_what_an_administrator_wrote(
    swarm: PrivateDaemon, name: str, folders: Path
) -> None:
    """The daemon takes no word of the body, but the specification before the last update."""

    def spec(**more: Any) -> dict[str, Any]:
        container = {"Image": "img:1", "Command": SLEEP, **more}
        task = {"ContainerSpec": container, "RestartPolicy": {"Condition": "none"}}
        return {"Name": "rolled", "TaskTemplate": task}

    def inspect_service() -> dict[str, Any]:
        document: dict[str, Any] = json.loads(swarm.raw("GET", "/services/rolled").body)
        return document

    def update(daemon: PrivateDaemon, rest: str = "", ahead: int = 0, **more: Any) -> Answer:
        while True:
            version = inspect_service()["Version"]["Index"] + ahead
            target = f"/services/rolled/update?version={version}{rest}"
            answer = daemon.json("POST", target, spec(**more))
            # The manager notes how an update goes, in a version of its own.
            if "out of sequence" not in answer.message and (ahead or not is_late(answer)):
                return answer

    def is_late(answer: Answer) -> bool:
        return "query.rollback must be left out" in answer.message

    mount = {"Type": "bind", "Source": str(folders / "hidden"), "Target": "/v"}
    rollback = "&rollback=previous"
    assert swarm.json("POST", "/services/create", spec(Mounts=[mount])).status == 201
    assert update(swarm).status == 200
    assert update(swarm, rollback).status == 200
    assert inspect_service()["Spec"]["TaskTemplate"]["ContainerSpec"]["Mounts"] == [mount]
    assert update(swarm).status == 200
    with enforced(swarm, name, folders) as guarded:
        assert "may not be mounted" in update(guarded, rollback).message
        # Of another version, the previous specification is not known.
        assert is_late(update(guarded, rollback, ahead=1000))
        assert "Mounts" not in inspect_service()["Spec"]["TaskTemplate"]["ContainerSpec"]
        assert update(guarded, Env=["A=b"]).status == 200
        assert update(guarded, rollback, Mounts=[mount]).status == 200
        assert "Mounts" not in inspect_service()["Spec"]["TaskTemplate"]["ContainerSpec"]
        assert "Env" not in inspect_service()["Spec"]["TaskTemplate"]["ContainerSpec"]
    assert swarm.raw("DELETE", "/services/rolled").status == 200


def test_escaped_comma_leads_out_of_the_folder(
    daemon: PrivateDaemon, name: str, folders: Path
) -> None:
    """The kernel reads `a\\,` as one name, where options end at commas elsewhere."""
    allowed = folders / "allowed"
    away = "/".join([".."] * len((allowed / "a,").parts[1:]))
    lower = f"{allowed}/b:{allowed}/a\\,/{away}{folders}/hidden"
    volume = {
        "Name": "escaped",
        "Driver": "local",
        "DriverOpts": {"type": "overlay", "device": "overlay", "o": f"lowerdir={lower}"},
    }
    container = {
        "Image": "img:1",
        "Cmd": SLEEP,
        "HostConfig": {"NetworkMode": "none", "Binds": ["escaped:/v"]},
    }
    assert daemon.json("POST", "/volumes/create", volume).status == 201
    assert daemon.json("POST", f"{CREATE}?name=escaped", container).status == 201
    assert daemon.raw("POST", "/containers/escaped/start").status == 204
    assert read_canary(process_of(daemon, "escaped")) == CANARY
    with enforced(daemon, name, folders) as guarded:
        # What was made before the policies were in force is judged as well.
        assert guarded.raw("POST", "/containers/escaped/restart?t=0").status == 403
        assert guarded.json("POST", f"{CREATE}?name=again", container).status == 403
        refused = guarded.json("POST", "/volumes/create", {**volume, "Name": "second"})
        assert "DriverOpts must be" in refused.message, refused.message
    assert daemon.raw("DELETE", "/containers/escaped?force=1").status == 204
    assert daemon.raw("DELETE", "/volumes/escaped").status == 204


def device_to(address: str) -> str:
    words = ["ip", "route", "get", address]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def lan() -> Iterator[str]:
    """An interface of the host, and a range behind it."""
    device = "dw-ways"
    for words in (
        ("link", "add", device, "type", "bridge"),
        ("addr", "add", f"{LAN}.1/24", "dev", device),
        ("link", "set", device, "up"),
        ("route", "add", BEHIND, "via", f"{LAN}.254"),
    ):
        subprocess.run(["ip", *words], check=True, capture_output=True)
    yield device
    subprocess.run(["ip", "link", "del", device], check=True, capture_output=True)


def test_network_takes_the_addresses_of_the_host(
    daemon: PrivateDaemon, name: str, folders: Path, lan: str
) -> None:
    network = {
        "Name": "taken",
        "Driver": "bridge",
        "IPAM": {"Config": [{"Subnet": "10.80.4.0/24"}]},
    }
    assert f"dev {lan}" in device_to("10.80.4.9")
    assert daemon.json("POST", "/networks/create", network).status == 201
    assert f"dev {lan}" not in device_to("10.80.4.9")
    assert daemon.raw("DELETE", "/networks/taken").status == 204
    with enforced(daemon, name, folders) as guarded:
        refused = guarded.json("POST", "/networks/create", network)
        assert f"subnet overlaps {BEHIND}, which the host uses" in refused.message
        network["IPAM"] = {"Config": [{"Subnet": "10.81.4.0/24"}]}
        assert guarded.json("POST", "/networks/create", network).status == 201
        assert guarded.raw("DELETE", "/networks/taken").status == 204


class _Answers(http.server.BaseHTTPRequestHandler):
    """A registry that has nothing."""

    def do_GET(self) -> None:
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Registry(http.server.ThreadingHTTPServer):
    """Counts connections."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", free_port()), _Answers)
        self.contacts = 0

    @property
    def name(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    def get_request(self) -> Any:
        self.contacts += 1
        return super().get_request()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # what connects may speak TLS


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_daemon_asks_servers_of_the_host(
    daemon: PrivateDaemon, name: str, folders: Path, registry: Registry
) -> None:
    """From the host's network, and it gives the answer to who asked."""
    address = registry.name
    login = {"serveraddress": f"http://{address}", "username": "a", "password": "b"}
    calls: list[tuple[str, str, Any]] = [
        ("GET", f"/distribution/{address}/x/json", None),
        ("POST", f"/images/create?fromImage={address}/x&tag=1", None),
        ("POST", "/auth", login),
    ]

    def send(method: str, target: str, body: Any) -> tuple[int, str]:
        before = registry.contacts
        if body is None:
            answer = daemon.raw(method, target, headers=[("Content-Length", "0")])
        else:
            answer = daemon.json(method, target, body)
        return registry.contacts - before, answer.message

    for call in calls:
        assert send(*call)[0] > 0, call
    # Newer daemons do not show the registry of a login: developers may not log in there.
    with enforced(daemon, name, folders, local_roles=["developer"]):
        for call in calls:
            contacts, message = send(*call)
            assert contacts == 0
            shown = f"registry {address} may not be contacted"
            assert shown in message or "registry of a login is not shown" in message


UNDONE: list[tuple[str, dict[str, Any], str]] = [
    ("runtime", {"Runtime": "runc"}, "runtime runc is not allowed"),
    (
        "new privileges",
        {"SecurityOpt": ["no-new-privileges=false"]},
        "no-new-privileges may not be turned off",
    ),
    (
        "ulimit",
        {"Ulimits": [{"Name": "nofile", "Soft": 9999, "Hard": 9999}]},
        "ulimit nofile is not allowed",
    ),
    (
        "every address",
        {"PortBindings": {"80/tcp": [{"HostIp": "0.0.0.0", "HostPort": "8080"}]}},
        "ports may not be published on address 0.0.0.0",
    ),
    (
        "a device whose absence is told",
        {"BlkioDeviceReadBps": [{"Path": "/root/secret", "Rate": 1}]},
        "must be",
    ),
]
"""What a container takes back that daemon.json says for all, or what it tells of the host."""


@pytest.mark.parametrize(
    ("host", "reason"), [each[1:] for each in UNDONE], ids=[each[0] for each in UNDONE]
)
def test_container_undoes_what_the_daemon_says_for_all(
    daemon: PrivateDaemon, name: str, folders: Path, host: dict[str, Any], reason: str
) -> None:
    body = {"Image": "img:1", "Cmd": ["true"], "HostConfig": {"NetworkMode": "none", **host}}
    assert daemon.json("POST", f"{CREATE}?name=undone", body).status == 201
    assert daemon.raw("DELETE", "/containers/undone").status == 204
    with enforced(daemon, name, folders) as guarded:
        refused = guarded.json("POST", f"{CREATE}?name=undone", body)
        assert refused.status == 403
        assert reason in refused.message


def test_name_looks_like_a_digest(daemon: PrivateDaemon, name: str, folders: Path) -> None:
    """`deadbeefcafe` is a name that anybody may give to an image."""
    assert daemon.raw("POST", "/images/img:1/tag?repo=deadbeefcafe").status == 201
    body = {"Image": "deadbeefcafe", "Cmd": ["true"], "HostConfig": {"NetworkMode": "none"}}
    assert daemon.json("POST", f"{CREATE}?name=named", body).status == 201
    shown = json.loads(daemon.raw("GET", "/containers/named/json").body)
    assert not shown["Image"].startswith("sha256:deadbeefcafe")
    assert daemon.raw("DELETE", "/containers/named").status == 204
    images = {"allow": ["**"], "require_digest": True}
    with enforced(daemon, name, folders, images=images) as guarded:
        refused = guarded.json("POST", f"{CREATE}?name=named", body)
        assert "image must be named by its digest" in refused.message
        body["Image"] = str(shown["Image"]).removeprefix("sha256:")
        assert guarded.json("POST", f"{CREATE}?name=named", body).status == 201
        assert guarded.raw("DELETE", "/containers/named").status == 204
    assert daemon.raw("DELETE", "/images/deadbeefcafe").status == 200


def test_daemon_that_verifies_nobody_has_no_local_users(name: str, folders: Path) -> None:
    """A request over TCP looks like one over the Unix socket."""
    folder = Path(tempfile.mkdtemp(prefix="dwd-"))
    open_daemon = PrivateDaemon(folder)
    open_daemon.prepare()
    plugin = f"{name}t"
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.callback(open_daemon.stop)
        open_daemon.start("--tlsverify=false")
        assert open_daemon.raw("GET", "/containers/json").status == 200
        with enforced(open_daemon, plugin, folders) as guarded:
            refused = guarded.raw("GET", "/containers/json")
            assert refused.status == 403
            assert "a client without a name may not container.list" in refused.message
