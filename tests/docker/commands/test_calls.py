"""A command of `docker` means the call that the real command line was recorded to make."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from doorward.docker.commands.calls import COMMANDS, read_docker, read_docker_command
from doorward.docker.commands.options import CommandError
from doorward.docker.commands.values import read_time
from doorward.docker.replay import read_requests
from doorward.docker.request.call import parse_request
from doorward.docker.request.errors import RequestError
from doorward.docker.request.input import to_input

RECORDED = [
    *("run_plain", "run_volume_bind", "run_mount_bind", "run_mount_volume", "run_tmpfs"),
    *("run_mount_volume_driveropts_bind", "run_privileged", "run_cap_add", "run_security_opt"),
    *("run_ports", "run_limits", "run_cgroup_parent", "run_gpus", "run_host_namespaces"),
    *("run_device", "run_user_hostname_env", "run_logdriver", "run_detached", "run_detached2"),
    *("run_volumes_from", "run_net_container", "run_nonexist", "exec", "exec_privileged"),
    *("exec_it", "ps_all", "images", "inspect", "logs", "logs_follow", "start", "restart"),
    *("kill_signal", "wait_stop", "rm_force", "rmi", "pull_fail", "volume_create_bind"),
    *("volume_create", "volume_rm", "build_classic"),
]
COMMANDS_IN = {
    "build_classic": "docker build -t img:built --build-arg TOK=secret --network none "
    "--memory 64m folder",
    "exec_it": "docker exec -it c2 echo hello",
    "logs_follow": "docker logs -f c2",
    "wait_stop": "docker stop -t 0 c2b",
}
"""Commands that were recorded inside others."""


def recorded_inputs(folder: Path, name: str) -> list[dict[str, Any]]:
    """The inputs of the calls that a recorded command made."""
    raws = [past.raw for past in read_requests([folder / f"{name}.json"])]
    requests = [parse_request(raw) for raw in raws if raw is not None]
    return [to_input(each, resolve=lambda path: path) for each in requests]


@pytest.mark.parametrize("name", RECORDED)
def test_a_command_is_the_call_of_the_real_command_line(name: str, docker_captures: Path) -> None:
    recorded = json.loads((docker_captures / f"{name}.json").read_text())["command"]
    input_doc = read_docker(COMMANDS_IN.get(name, recorded), "")
    calls = recorded_inputs(docker_captures, name)
    (call, *_) = [each for each in calls if each["action"] == input_doc["action"]]
    # The version of the API, the client, and for logs an identifier that the daemon told it.
    for each in ("Path", "PathPlain", "PathArr", "Headers", "api_version"):
        del input_doc[each], call[each]
    if input_doc["action"] == "container.logs":
        assert (input_doc.pop("target"), len(call.pop("target"))) == ("c2", 64)
    assert input_doc == call


def container(command: str, user: str = "") -> dict[str, Any]:
    """The body that a command makes."""
    body: dict[str, Any] = json.loads(read_docker_command(command, user).body or b"{}")
    return body


def test_options_are_read_as_the_command_line_reads_them() -> None:
    joined = container("docker run -itp 80:80 -v=/a:/b --rm=false --name x -- alpine -v x")
    apart = container("docker run -i -t -p 80:80 -v /a:/b --name x alpine -v x")
    assert joined == apart
    assert joined["Cmd"] == ["-v", "x"]
    assert joined["HostConfig"]["AutoRemove"] is False
    assert (joined["AttachStdin"], joined["StdinOnce"], joined["Tty"]) == (True, True, True)
    longer = read_docker_command("docker --host tcp://x -D container run \\\n --privileged img", "")
    assert json.loads(longer.body or b"")["HostConfig"]["Privileged"] is True
    named = read_docker_command("docker create --name a&b --platform linux/arm64 img", "ann")
    assert named.uri.endswith("/containers/create?name=a%26b&platform=linux%2Farm64")
    assert (named.user, named.auth_method, named.identified) == ("ann", "TLS", True)


TIMES = [
    ("1700000000", "1700000000"),
    ("1700000000.5", "1700000000.5"),
    ("0", "0"),
    ("1m30s", "1699999910"),
    ("2023-11-14", "1699920000.000000000"),
    ("2023-11-14Z", "1699920000.000000000"),
    ("2023-11-14T22", "1699999200.000000000"),
    ("2023-11-14T22:13Z", "1699999980.000000000"),
    ("2023-11-14T22:13:20.000000007+01:00", "1699996400.000000007"),
]


@pytest.mark.parametrize(("text", "sent"), TIMES)
def test_times_are_those_of_the_api(text: str, sent: str) -> None:
    assert read_time(text, 1_700_000_000.0) == sent


@pytest.mark.parametrize("text", ["x", "-10m", "2023-13-01", "2023-11-14T25", "1.", "5y", "\u0665"])
def test_what_is_not_a_time(text: str) -> None:
    with pytest.raises(CommandError, match="is not a time"):
        read_docker_command(f"docker logs --until={text} c", "")


def test_times_of_logs_are_parameters_of_the_request() -> None:
    uri = read_docker_command("docker logs --since 1 --until 2023-11-14 c", "").uri
    assert uri.endswith("tail=all&since=1&until=1699920000.000000000")
    assert "since" not in read_docker_command("docker logs --since= c", "").uri
    assert read_docker("docker logs --since 10m c", "")["action"] == "container.logs"


PORTS = [
    ("80", {"80/tcp": [("", "")]}),
    ("8000-8001:80-81", {"80/tcp": [("", "8000")], "81/tcp": [("", "8001")]}),
    ("8000-8010:80", {"80/tcp": [("", "8000-8010")]}),
    ("[::1]:53:53/udp", {"53/udp": [("::1", "53")]}),
    ("127.0.0.1::80", {"80/tcp": [("127.0.0.1", "")]}),
]


@pytest.mark.parametrize(("port", "bindings"), PORTS)
def test_ports_are_bound(port: str, bindings: dict[str, list[tuple[str, str]]]) -> None:
    body = container(f"docker run -p {port} img")
    rows = {
        name: [(each["HostIp"], each["HostPort"]) for each in hosts]
        for name, hosts in body["HostConfig"]["PortBindings"].items()
    }
    assert rows == bindings
    assert set(body["ExposedPorts"]) == set(bindings)


# Compared with docker's client 28.2.
DEVICES = [
    ("/dev/a", ("/dev/a", "/dev/a", "rwm")),
    ("/dev/a:mr", ("/dev/a", "/dev/a", "mr")),
    ("/dev/a:/b", ("/dev/a", "/b", "rwm")),
    ("/dev/a:/b/..:r", ("/dev/a", "/b/..", "r")),
    ("//dev/../dev/a/", ("/dev/a", "/dev/a", "rwm")),
    ("/dev//a:/dev//b", ("/dev//a", "/dev/b", "rwm")),
]


@pytest.mark.parametrize(("device", "parts"), DEVICES)
def test_devices_are_those_of_the_client(device: str, parts: tuple[str, str, str]) -> None:
    (mapped,) = container(f"docker run --device {device} img")["HostConfig"]["Devices"]
    names = ("PathOnHost", "PathInContainer", "CgroupPermissions")
    assert tuple(mapped[name] for name in names) == parts


# Compared with docker's client 28.2.
@pytest.mark.parametrize(
    ("options", "attached"),
    [
        ("create", (False, True, True, False)),
        ("create -i", (True, True, True, True)),
        ("create -a stdin", (True, False, False, False)),
        ("create -a STDOUT -i", (True, True, False, True)),
        ("run -a stderr -a stdin", (True, False, True, False)),
        ("run -d -i", (False, False, False, False)),
    ],
)
def test_streams_are_attached_as_by_the_client(options: str, attached: tuple[bool, ...]) -> None:
    body = container(f"docker {options} img")
    names = ("AttachStdin", "AttachStdout", "AttachStderr", "StdinOnce")
    assert tuple(body[name] for name in names) == attached


def test_the_address_of_a_host_has_no_brackets() -> None:
    body = container("docker run --add-host a=[::1] --add-host b:host-gateway img")
    assert body["HostConfig"]["ExtraHosts"] == ["a:::1", "b:host-gateway"]


def test_values_are_those_of_the_api() -> None:
    command = """docker run --device /dev/a:r --device /dev/b --ulimit nproc=5
        --gpus '"device=0,1",driver=x' --health-cmd x --health-interval 1m30s --stop-timeout 5
        --memory-swap -1 --cap-add sys_admin --cap-drop SYS_ADMIN --network a --net-alias b
        --ip 10.0.0.2 --link-local-ip 169.254.1.1 --add-host x=1.2.3.4 --sysctl a=b --init
        --restart on-failure:3 --device-write-bps /dev/sda:1mb --blkio-weight-device /dev/sda:5
        --mount type=tmpfs,dst=/t,tmpfs-size=1m,tmpfs-mode=700 --mount src=v,dst=/v,ro,volume-nocopy
        --no-healthcheck=false --read-only img"""
    body = container(command.replace("\n", " "))
    host = body["HostConfig"]
    assert [each["PathInContainer"] for each in host["Devices"]] == ["/dev/a", "/dev/b"]
    assert [each["CgroupPermissions"] for each in host["Devices"]] == ["r", "rwm"]
    assert host["Ulimits"] == [{"Name": "nproc", "Soft": 5, "Hard": 5}]
    assert host["RestartPolicy"] == {"Name": "on-failure", "MaximumRetryCount": 3}
    (request,) = host["DeviceRequests"]
    assert (request["DeviceIDs"], request["Driver"], request["Count"]) == (["0", "1"], "x", 0)
    assert body["Healthcheck"] == {"Test": ["CMD-SHELL", "x"], "Interval": 90 * 10**9}
    assert (body["StopTimeout"], host["MemorySwap"], host["Init"]) == (5, -1, True)
    assert (host["CapAdd"], host["CapDrop"]) == (["CAP_SYS_ADMIN"], None)
    endpoint = body["NetworkingConfig"]["EndpointsConfig"]["a"]
    assert endpoint["Aliases"] == ["b"]
    assert endpoint["IPAMConfig"] == {"IPv4Address": "10.0.0.2", "LinkLocalIPs": ["169.254.1.1"]}
    assert (host["ExtraHosts"], host["Sysctls"]) == (["x:1.2.3.4"], {"a": "b"})
    assert host["BlkioDeviceWriteBps"] == [{"Path": "/dev/sda", "Rate": 1 << 20}]
    assert host["Mounts"][0]["TmpfsOptions"] == {"SizeBytes": 1 << 20, "Mode": 0o700}
    assert host["Mounts"][1] == {
        **{"Type": "volume", "Source": "v", "Target": "/v", "ReadOnly": True},
        "VolumeOptions": {"NoCopy": True},
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("all", {"Count": -1}),
        ("2", {"Count": 2}),
        ("count=2", {"Count": 2}),
        ("device=GPU-1", {"Count": 0, "DeviceIDs": ["GPU-1"]}),
        ("device=0,driver=x", {"Count": 0, "DeviceIDs": ["0"], "Driver": "x"}),
        ("device=0,1", {"Count": 1, "DeviceIDs": ["0"]}),
        ("driver=x", {"Count": 1, "Driver": "x"}),
        ('all,"capabilities=compute,utility"', {"Capabilities": [["compute", "utility", "gpu"]]}),
        ("options=a=b", {"Count": 1, "Options": {"a": "b"}}),
    ],
)
def test_gpus_are_read_as_the_client_reads_them(value: str, expected: dict[str, Any]) -> None:
    (request,) = container(f"docker run --gpus '{value}' img")["HostConfig"]["DeviceRequests"]
    assert expected.items() <= request.items()


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("docker", "`docker ` is not supported here"),
        ("docker cp a b:/c", "`docker cp` is not supported here; use one of"),
        (
            "docker compose up -d",
            "`docker compose` is a client program of its own, which makes many",
        ),
        (
            "docker buildx build .",
            "`docker buildx` is a client program of its own, which makes many",
        ),
        ("docker stack deploy -c x y", "`docker stack` is a client program of its own"),
        ("docker run", "names no image"),
        ("docker run --privileged", "names no image"),
        ("docker run --nothing img", "the option `--nothing` of `docker run` is not supported"),
        ("docker run -Z img", "the option `-Z`"),
        ("docker run -v", "`-v` needs a value"),
        ("docker run --rm=maybe img", "`--rm` must be true or false"),
        ("docker run --env-file x img", "`--env-file`: a file of the client is not read"),
        ("docker run --security-opt seccomp=x.json img", "write its content into the command"),
        ("docker run -v ./x:/y img", "use an absolute path"),
        ("docker run -m lots img", "`-m`: `lots` is not a size"),
        ("docker run -m 1e999999999g img", "not a size"),
        ("docker run --cpus 1e999999999 img", "not a number of CPUs"),
        ("docker run --pids-limit x img", "not an integer"),
        ("docker run --ulimit 5 img", "`5` is not NAME=SOFT or NAME=SOFT:HARD, such as"),
        ("docker run --ulimit =5 img", "`=5` is not NAME=SOFT or NAME=SOFT:HARD, such as"),
        ("docker run --ulimit nofile=x img", "`x` is not an integer"),
        ("docker run --device-read-bps 1m img", "`1m` is not DEVICE:VALUE, such as /dev/sda:100"),
        ("docker run --blkio-weight-device 10 img", "`10` is not DEVICE:VALUE, such as"),
        ("docker run --health-interval 5x img", "not a duration"),
        ("docker run --device /dev/a:/dev/b:x img", "is not HOST:CONTAINER:PERMISSIONS"),
        ("docker run --device /dev/a:/dev/b:r:x img", "is not HOST:CONTAINER:PERMISSIONS"),
        ("docker run -a out img", "is not a stream"),
        ("docker run -d -a stdout img", "`-a` and `-d` exclude each other"),
        ("docker run --add-host a img", "is not NAME:ADDRESS"),
        ("docker run --add-host a=x img", "is not NAME:ADDRESS"),
        ("docker run --add-host a=fe80::1%eth0 img", "is not NAME:ADDRESS"),
        ("docker run --device /dev/a:/dev/b:rrw img", "each at most once"),
        ("docker run --device :/dev/b:r img", "is not HOST:CONTAINER:PERMISSIONS"),
        ("docker run --device /dev/a::rw img", "the path `` of the device is not absolute"),
        ("docker run --device /dev/a:x img", "the path `x` of the device is not absolute"),
        ("docker run --device /dev/a:rrw img", "the path `rrw` of the device is not absolute"),
        ("docker run --device /dev/a:rw:r img", "the path `rw` of the device is not absolute"),
        ("docker run --gpus some img", "`some` is not an integer"),
        ("docker run --gpus= img", "not an integer"),
        ("docker run --gpus cards=2 img", "`--gpus`: the field `cards` is unknown: use"),
        ("docker run --gpus 1,count=2 img", "the field `count` is repeated"),
        ("docker run -p x:80 img", "not a port"),
        ("docker run -p 1-2:80-82 img", "ranges of different lengths"),
        ("docker run -p 1-9999 img", "a range of 1 to 1000 ports"),
        ("docker run --mount type=bind,nothing=1 img", "the field `nothing`"),
        ("docker run --mount type=tmpfs,dst=/t,tmpfs-mode=9 img", "not an octal mode"),
        ("docker run --network name=a,ip=1.2.3.4 img", "leave the other fields out"),
        ("docker run 'x", "not complete"),
        ("docker exec c", "a container and a command"),
        ("docker ps c", "must not have a name"),
        ("docker rm a b", "must have exactly one name"),
        ("docker pull", "must have exactly one name"),
        ("docker volume create a b", "takes at most one name"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_reason(command: str, problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        read_docker_command(command, "")


def test_a_call_about_which_no_policy_is_asked_is_refused() -> None:
    with pytest.raises(RequestError):
        read_docker("docker rm ../../images/x", "")


def test_every_command_makes_a_call_with_an_action() -> None:
    arguments = {"exec": "c true", "container exec": "c true", "ps": "", "images": "", "run": "img"}
    arguments |= {"build": ".", "builder build": ".", "image build": "."}
    arguments |= {"container ls": "", "container ps": "", "image ls": ""}
    for name in COMMANDS:
        input_doc = read_docker(f"docker {name} {arguments.get(name, 'name')}", "")
        assert input_doc["action"] != "unknown", name
        assert input_doc["unknown_fields"] == [], name
