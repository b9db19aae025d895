"""Users, roles and bypasses against a real daemon, with what its clients print."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from examples.docker.private_daemon import Answer, PrivateDaemon
from tests.docker.guarded import guard, write_policies

DATA: dict[str, Any] = {
    "users": {"alice": ["developer"], "bob": ["viewer"], "carol": ["admin"]},
    "local_roles": ["operator"],
}
JSON = [("Content-Type", "application/json")]
FORM = [("Content-Type", "application/x-www-form-urlencoded")]


@pytest.fixture(scope="module")
def name(unique: str) -> str:
    return f"{unique}a"


@pytest.fixture(scope="module")
def guarded(
    daemon_started: PrivateDaemon, name: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PrivateDaemon]:
    """The daemon behind the shipped policies."""
    daemon = daemon_started
    allowed = daemon.folder / "allowed"
    (allowed / "inner").mkdir(parents=True)
    (allowed / "link").symlink_to("/etc")
    (daemon.folder / "context").mkdir()
    (daemon.folder / "context" / "Dockerfile").write_text("FROM img:1\n")
    folder = tmp_path_factory.mktemp("policies") / "docker"
    with guard(daemon, name, write_policies(folder, allow=str(allowed), **DATA)):
        yield daemon


def denied(name: str, reason: str) -> str:
    return f"authorization denied by plugin {name}: {reason}"


ROLES = [
    # user, command, what is denied ("" for nothing)
    ("alice", "version", ""),
    ("alice", "ps", ""),
    ("alice", "images", ""),
    ("alice", "run --rm --network none img:1 echo hello", ""),
    ("alice", "run --rm --network none --user 1000 img:1 id -u", ""),
    ("alice", "run --rm --network none -v {folder}/allowed/inner:/v img:1 ls /v", ""),
    ("alice", "run --rm --network none -v named:/v img:1 ls /v", ""),
    ("alice", "run --rm --network none --cap-add NET_BIND_SERVICE img:1 true", ""),
    ("alice", "run --rm --network none --tmpfs /t img:1 ls /t", ""),
    ("alice", "run --privileged img:1 true", "privileged is not allowed"),
    ("alice", "run --cap-add SYS_ADMIN img:1 true", "capability SYS_ADMIN is not allowed"),
    ("alice", "run --cap-add sys_admin img:1 true", "capability SYS_ADMIN is not allowed"),
    ("alice", "run --cap-add ALL img:1 true", "capability ALL is not allowed"),
    ("alice", "run -v /:/host img:1 true", "host path / may not be mounted"),
    ("alice", "run -v /etc:/h:ro img:1 true", "host path /etc may not be mounted"),
    (
        "alice",
        "run --mount type=bind,src=/etc,dst=/h img:1 true",
        "host path /etc may not be mounted",
    ),
    (
        "alice",
        "run -v {folder}/allowed/../..:/h img:1 true",
        "host path {above} may not be mounted",
    ),
    (
        "alice",
        "run -v {folder}/allowed/link:/h img:1 true",
        "host path {folder}/allowed/link may not be mounted",
    ),
    (
        "alice",
        "run -v /var/run/docker.sock:/s img:1 true",
        "host path /var/run/docker.sock may not be mounted",
    ),
    (
        "alice",
        "run --mount type=volume,src=w,dst=/v,volume-opt=type=none,volume-opt=o=bind,"
        "volume-opt=device=/etc img:1 true",
        "host path /etc may not be mounted",
    ),
    (
        "alice",
        "volume create -o type=none -o o=bind -o device=/etc vb",
        "host path /etc may not be mounted",
    ),
    (
        "alice",
        "volume create -o type=overlay -o o=lowerdir=/etc,upperdir=/tmp/u,workdir=/tmp/w "
        "-o device=overlay vo",
        "host path /etc may not be mounted; host path /tmp/u may not be mounted; "
        "host path /tmp/w may not be mounted",
    ),
    (
        "alice",
        "volume create -o type=nfs -o o=addr=10.0.0.1 -o device=:/x vn",
        "export 10.0.0.1:/x may not be mounted",
    ),
    (
        "alice",
        "run --volumes-from c0 img:1 true",
        "volumes of another container may not be used",
    ),
    ("alice", "run --pid host img:1 true", "pid namespace of the host may not be used"),
    ("alice", "run --network host img:1 true", "network namespace of the host may not be used"),
    ("alice", "run --ipc host img:1 true", "ipc namespace of the host may not be used"),
    ("alice", "run --uts host img:1 true", "uts namespace of the host may not be used"),
    ("alice", "run --userns host img:1 true", "user namespace of the host may not be used"),
    (
        "alice",
        "run --network container:c0 img:1 true",
        "unknown namespace of the host may not be used; namespace of a container may not be joined",
    ),
    (
        "alice",
        "run --security-opt seccomp=unconfined img:1 true",
        "seccomp profile may not be changed",
    ),
    (
        "alice",
        "run --security-opt seccomp:unconfined img:1 true",
        "seccomp profile may not be changed",
    ),
    (
        "alice",
        "run --security-opt apparmor=unconfined img:1 true",
        "apparmor profile may not be changed",
    ),
    (
        "alice",
        "run --security-opt systempaths=unconfined img:1 true",
        "paths of the system may not be unmasked",
    ),
    ("alice", "run --device /dev/null img:1 true", "devices are not allowed"),
    ("alice", "run --device-cgroup-rule 'c 1:3 rwm' img:1 true", "devices are not allowed"),
    ("alice", "run --gpus all img:1 true", "devices are not allowed"),
    (
        "alice",
        "run --cgroup-parent /x img:1 true",
        "parent of the control group may not be chosen",
    ),
    ("alice", "run --sysctl kernel.shmmax=1 img:1 true", "sysctl kernel.shmmax is not allowed"),
    ("alice", "run --runtime evil img:1 true", "runtime evil is not allowed"),
    (
        "alice",
        "run --oom-score-adj -900 img:1 true",
        "the OOM score may not be below 0",
    ),
    ("alice", "run -p 80:80 img:1 true", "host port 80 may not be published"),
    ("alice", "build {folder}/context", "user alice may not image.build"),
    ("alice", "plugin disable x", "user alice may not plugin.disable"),
    ("alice", "plugin rm x", "user alice may not plugin.delete"),
    ("alice", "swarm init", "user alice may not swarm.init"),
    ("alice", "system prune -f", "user alice may not container.prune"),
    ("bob", "ps -a", ""),
    ("bob", "images", ""),
    ("bob", "info", ""),
    ("bob", "run img:1 true", "user bob may not container.create"),
    ("bob", "pull img:1", "user bob may not image.pull"),
    ("bob", "volume create v", "user bob may not volume.create"),
    ("bob", "tag img:1 img:2", "user bob may not image.tag"),
    ("bob", "rmi img:1", "user bob may not image.delete"),
    ("dora", "ps", "user dora may not container.list"),
    ("dora", "version", "user dora may not system.version"),
    ("carol", "run --rm --network none -v /etc:/h img:1 ls /h/hostname", ""),
    ("carol", "tag img:1 img:carol", ""),
    ("", "ps", ""),
    ("", "tag img:1 img:local", ""),
    ("", "run --privileged img:1 true", "privileged is not allowed"),
    ("", "plugin disable x", "a local user may not plugin.disable"),
]


@pytest.mark.parametrize(
    ("user", "command", "reason"), ROLES, ids=[f"{u or 'local'}: {c}" for u, c, _ in ROLES]
)
def test_command(guarded: PrivateDaemon, name: str, user: str, command: str, reason: str) -> None:
    words = {"folder": guarded.folder, "above": guarded.folder.parent}
    arguments = shlex.split(command.format(**words))
    done = guarded.docker(*arguments, user=user)
    if not reason:
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode != 0
    assert denied(name, reason.format(**words)) in done.stderr


def test_allowed_container_prints_what_it_prints(guarded: PrivateDaemon) -> None:
    done = guarded.docker(
        "run", "--rm", "--network", "none", "img:1", "echo", "hello", user="alice"
    )
    assert (done.returncode, done.stdout) == (0, "hello\n")


PRIVILEGED = {"Image": "img:1", "HostConfig": {"Privileged": True}}
CREATE = "/v1.41/containers/create"
UNSEEN = "request body is not visible to the policy"
RAW: list[tuple[str, str, str, bytes, list[tuple[str, str]], str]] = [
    # what, method, target, body, headers, reason
    (
        "key in small letters",
        "POST",
        CREATE,
        b'{"Image":"img:1","hostconfig":{"privileged":true}}',
        JSON,
        "privileged is not allowed",
    ),
    (
        "key in capitals",
        "POST",
        CREATE,
        b'{"Image":"img:1","HOSTCONFIG":{"PRIVILEGED":true}}',
        JSON,
        "privileged is not allowed",
    ),
    (
        "long s in a key",
        "POST",
        CREATE,
        '{"Image":"img:1","Ho\u017ftConfig":{"Privileged":true}}'.encode(),
        JSON,
        "privileged is not allowed",
    ),
    (
        "escaped key",
        "POST",
        CREATE,
        b'{"Image":"img:1","\\u0048ostConfig":{"Privileged":true}}',
        JSON,
        "privileged is not allowed",
    ),
    (
        "key named twice",
        "POST",
        CREATE,
        b'{"Image":"img:1","HostConfig":{"Privileged":true},"HostConfig":{}}',
        JSON,
        "body names a key twice",
    ),
    (
        "key named twice in two spellings",
        "POST",
        CREATE,
        b'{"Image":"img:1","HostConfig":{"Privileged":true},"hostConfig":{}}',
        JSON,
        "body names the field HostConfig twice",
    ),
    (
        "null after a value",
        "POST",
        CREATE,
        b'{"Image":"img:1","HostConfig":{"Privileged":true,"privileged":null}}',
        JSON,
        "body names the field HostConfig.Privileged twice",
    ),
    (
        "HostConfig at the top",
        "POST",
        CREATE,
        b'{"Image":"img:1","Privileged":true}',
        JSON,
        "body has the field privileged outside of HostConfig: move it there",
    ),
    (
        "Binds at the top",
        "POST",
        CREATE,
        b'{"Image":"img:1","binds":["/etc:/h"]}',
        JSON,
        "body has the field binds outside of HostConfig: move it there",
    ),
    (
        "Cpuset at the top",
        "POST",
        CREATE,
        b'{"Image":"img:1","Cpuset":"0"}',
        JSON,
        "body has the field cpuset outside of HostConfig: move it there",
    ),
    (
        "second value",
        "POST",
        CREATE,
        b'{"Image":"img:1"}{"HostConfig":{}}',
        JSON,
        "body is not one JSON value",
    ),
    (
        "trailing text",
        "POST",
        CREATE,
        b'{"Image":"img:1"} x',
        JSON,
        "body is not one JSON value",
    ),
    ("no UTF-8", "POST", CREATE, b'{"Image":"img\xff"}', JSON, "body is not UTF-8"),
    ("lone surrogate", "POST", CREATE, b'{"Image":"\\ud800"}', JSON, "body is not UTF-8"),
    (
        "deep nesting",
        "POST",
        CREATE,
        b'{"Image":"img:1","x":' + b"[" * 3000 + b"]" * 3000 + b"}",
        JSON,
        "body is not one JSON value",
    ),
    (
        "number without end",
        "POST",
        CREATE,
        b'{"Image":"img:1","StopTimeout":' + b"9" * 6000 + b"}",
        JSON,
        "body is not one JSON value",
    ),
    (
        "number past all numbers",
        "POST",
        CREATE,
        b'{"Image":"img:1","x":1e999}',
        JSON,
        "body has a number that is out of range",
    ),
    (
        "body of more than a megabyte",
        "POST",
        CREATE,
        json.dumps({**PRIVILEGED, "Labels": {"x": "y" * (1 << 20)}}).encode(),
        JSON,
        UNSEEN,
    ),
    (
        "content type with parameters",
        "POST",
        CREATE,
        json.dumps(PRIVILEGED).encode(),
        [("Content-Type", "application/json; charset=utf-8")],
        "privileged is not allowed",
    ),
    (
        "content type in capitals",
        "POST",
        CREATE,
        json.dumps(PRIVILEGED).encode(),
        [("Content-Type", "Application/JSON")],
        "privileged is not allowed",
    ),
    (
        "two content types",
        "POST",
        CREATE,
        json.dumps(PRIVILEGED).encode(),
        [("Content-Type", "application/json"), ("Content-Type", "text/plain")],
        "privileged is not allowed",
    ),
    (
        "service under another content type",
        "POST",
        "/v1.41/services/create",
        b'{"Name":"s"}',
        [("Content-Type", "text/plain")],
        UNSEEN,
    ),
    (
        "secret without content type",
        "POST",
        "/v1.41/secrets/create",
        b'{"Name":"s","Data":"eA=="}',
        [],
        UNSEEN,
    ),
    (
        "form in place of the query",
        "POST",
        "/v1.41/images/create?fromImage=good",
        b"fromImage=evil",
        FORM,
        f"{UNSEEN}, and may replace the query parameters",
    ),
    (
        "form behind a second content type",
        "POST",
        "/v1.41/images/img:1/tag?repo=good",
        b"repo=evil",
        [*FORM, ("Content-Type", "text/plain")],
        f"{UNSEEN}, and may replace the query parameters",
    ),
    (
        "parameter twice",
        "POST",
        "/v1.41/images/img:1/tag?repo=a&repo=b",
        b"",
        [],
        "query names a parameter twice",
    ),
    (
        "semicolon in the query",
        "POST",
        "/v1.41/images/img:1/tag?repo=a;tag=b",
        b"",
        [],
        "query has a semicolon",
    ),
    (
        "encoded letter in the path",
        "POST",
        "/v1.41/containers/%63reate",
        json.dumps(PRIVILEGED).encode(),
        JSON,
        "privileged is not allowed",
    ),
    (
        "encoded slash in the path",
        "POST",
        "/v1.41/containers%2Fcreate",
        json.dumps(PRIVILEGED).encode(),
        JSON,
        "privileged is not allowed",
    ),
    (
        "absolute target",
        "POST",
        "http://x/v1.41/containers/create",
        json.dumps(PRIVILEGED).encode(),
        JSON,
        "privileged is not allowed",
    ),
    (
        "strange version",
        "POST",
        "/v01.041/containers/create",
        json.dumps(PRIVILEGED).encode(),
        JSON,
        "API version in the path must be written like 1.45",
    ),
    (
        "no version",
        "POST",
        "/containers/create",
        json.dumps(PRIVILEGED).encode(),
        JSON,
        "privileged is not allowed",
    ),
    (
        "HostConfig at start in an old version",
        "POST",
        "/v1.23/containers/c0/start",
        b'{"Privileged":true}',
        JSON,
        "API version is below the minimum of 1.24",
    ),
    (
        "files by an old version",
        "POST",
        "/v1.23/containers/c0/copy",
        b'{"Resource":"/etc"}',
        JSON,
        "API version is below the minimum of 1.24",
    ),
    ("buildkit", "POST", "/v1.41/grpc", b"", [], "a local user may not build.grpc"),
    ("debug", "GET", "/debug/vars", b"", [], "a local user may not system.debug"),
    ("options", "OPTIONS", "/v1.41/x", b"", [], "a local user may not unknown"),
    (
        "programs by a colon",
        "POST",
        CREATE,
        b'{"Image":"img:1","HostConfig":{"SecurityOpt":["seccomp:unconfined"]}}',
        JSON,
        "seccomp profile may not be changed",
    ),
    (
        "capability in mixed case",
        "POST",
        CREATE,
        b'{"Image":"img:1","HostConfig":{"CapAdd":["Cap_Sys_Admin"]}}',
        JSON,
        "capability SYS_ADMIN is not allowed",
    ),
    (
        "double slashes of a bind",
        "POST",
        CREATE,
        b'{"Image":"img:1","HostConfig":{"Binds":["//etc//:/h"]}}',
        JSON,
        "host path /etc may not be mounted",
    ),
    (
        "dots in a bind",
        "POST",
        CREATE,
        b'{"Image":"img:1","HostConfig":{"Binds":["/a/../../etc:/h"]}}',
        JSON,
        "host path /etc may not be mounted",
    ),
    (
        "service with a bind",
        "POST",
        "/v1.41/services/create",
        b'{"TaskTemplate":{"ContainerSpec":{"Image":"x","mounts":[{"type":"bind","source":"/usr",'
        b'"target":"/h"}]}}}',
        JSON,
        "host path /usr may not be mounted",
    ),
    (
        "service with a capability",
        "POST",
        "/v1.41/services/create",
        b'{"TaskTemplate":{"ContainerSpec":{"Image":"x","capabilityadd":["cap_sys_admin"]}}}',
        JSON,
        "capability SYS_ADMIN is not allowed",
    ),
    (
        "service that installs a plugin",
        "POST",
        "/v1.41/services/create",
        b'{"TaskTemplate":{"Runtime":"plugin","PluginSpec":{"Name":"x","Remote":"evil"}}}',
        JSON,
        "service may not install a plugin",
    ),
    (
        "service under one of its names",
        "POST",
        "/v1.41/services/x/update?version=1",
        b'{"TaskTemplate":{"ContainerSpec":{"Image":"x","Privileges":{"Seccomp":'
        b'{"Mode":"unconfined"}}}}}',
        JSON,
        "seccomp profile may not be changed",
    ),
    (
        "SELinux type",
        "POST",
        CREATE,
        b'{"Image":"img:1","HostConfig":{"SecurityOpt":["label=type:spc_t"]}}',
        JSON,
        "security option label is not allowed",
    ),
    (
        "host network among the endpoints",
        "POST",
        CREATE,
        b'{"Image":"img:1","NetworkingConfig":{"EndpointsConfig":{"host":{}}}}',
        JSON,
        "network namespace of the host may not be used",
    ),
    (
        "relative device of a volume",
        "POST",
        "/v1.41/volumes/create",
        b'{"Name":"r","DriverOpts":{"type":"none","o":"bind","device":"etc"}}',
        JSON,
        "host path etc may not be mounted",
    ),
    (
        "volume driver",
        "POST",
        "/v1.41/volumes/create",
        b'{"Name":"r","Driver":"rexray"}',
        JSON,
        "volume driver rexray may not be used",
    ),
    (
        "devices by an update",
        "POST",
        "/v1.41/containers/c0/update",
        b'{"Devices":[{"PathOnHost":"/dev/sda","PathInContainer":"/x"}]}',
        JSON,
        "devices are not allowed",
    ),
    (
        "network driver",
        "POST",
        "/v1.41/networks/create",
        b'{"Name":"n","Driver":"macvlan","Options":{"parent":"eth0"}}',
        JSON,
        "network driver macvlan is not allowed; network option parent is not allowed",
    ),
    (
        "token of the swarm",
        "GET",
        "/v1.41/swarm",
        b"",
        [],
        "a local user may not swarm.inspect",
    ),
    (
        "scheme without authority",
        "POST",
        "http:/v1.41/containers/create",
        json.dumps(PRIVILEGED).encode(),
        JSON,
        "privileged is not allowed",
    ),
    (
        "privileged exec",
        "POST",
        "/v1.41/containers/c0/exec",
        b'{"Cmd":["sh"],"privileged":true}',
        JSON,
        "privileged is not allowed",
    ),
    (
        "field of tomorrow",
        "POST",
        CREATE,
        b'{"Image":"img:1","HostConfig":{"SuperPower":true}}',
        JSON,
        "field HostConfig.SuperPower is unknown to the policy; unknown fields are refused",
    ),
]


@pytest.mark.parametrize(
    ("method", "target", "body", "headers", "reason"),
    [row[1:] for row in RAW],
    ids=[row[0] for row in RAW],
)
def test_bypass_is_refused(
    guarded: PrivateDaemon,
    name: str,
    method: str,
    target: str,
    body: bytes,
    headers: list[tuple[str, str]],
    reason: str,
) -> None:
    answer: Answer = guarded.raw(method, target, body, headers)
    message = answer.message.partition(" (to allow it, in the data: ")[0]
    assert (answer.status, message) == (403, denied(name, reason))


def test_plain_raw_creation_is_allowed(guarded: PrivateDaemon) -> None:
    answer = guarded.json("POST", CREATE, {"Image": "img:1", "Cmd": ["true"]})
    assert answer.status == 201, answer.body


def test_ping_is_answered_to_everyone(guarded: PrivateDaemon) -> None:
    assert guarded.raw("GET", "/_ping").body == b"OK"


def test_archives_are_for_operators(guarded: PrivateDaemon, name: str) -> None:
    file = guarded.folder / "rootfs.tar"
    # What an import makes is in the query, which a form that nobody sees could replace.
    local = guarded.docker("import", str(file), "img:imported")
    assert denied(name, "a form in the body could replace the query") in local.stderr
    carol = guarded.docker("import", str(file), "img:imported", user="carol")
    assert carol.returncode == 0, carol.stderr
    alice = guarded.docker("import", str(file), "img:no", user="alice")
    assert denied(name, "user alice may not image.import") in alice.stderr
    assert Path(file).exists()
