"""`docker build` by the real daemon's BuildKit, behind the shipped policies."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from examples.docker.private_daemon import Answer, PrivateDaemon
from tests.docker.buildkit import Session

from doorward.docker.decider.embedded import PACK, EmbeddedPdp
from doorward.docker.plugin import Plugin

CONTEXT = {"Dockerfile": b"FROM img:1\nCOPY hello /hello\nRUN cat /hello\n", "hello": b"hello\n"}
Behind = Callable[..., PrivateDaemon]


@pytest.fixture
def behind(daemon: PrivateDaemon, unique: str, tmp_path: Path) -> Iterator[Behind]:
    """The daemon behind the shipped policies, where everyone on the socket has these roles."""
    servers: list[EmbeddedPdp] = []

    def start(*roles: str, **settings: object) -> PrivateDaemon:
        shutil.copytree(PACK, tmp_path / "pack")
        data = json.loads((PACK / "data.json").read_text())
        data["docker"] |= {"local_roles": list(roles), **settings}
        (tmp_path / "pack" / "data.json").write_text(json.dumps(data))
        servers.append(EmbeddedPdp([str(tmp_path / "pack")], watch=False))
        daemon.plugin(f"{unique}b", Plugin(servers[0]).answer)
        daemon.chain(f"{unique}b")
        return daemon

    yield start
    daemon.chain()
    daemon.end_plugin(f"{unique}b")
    servers[0].close()


def build(daemon: PrivateDaemon, session: str, **query: str) -> Answer:
    """What the docker command sends with DOCKER_BUILDKIT=1 and without buildx."""
    given = {
        "t": "built:1", "remote": "client-session", "version": "2", "session": session,
        "networkmode": "none", "cachefrom": "[]", "buildargs": "{}", "labels": "{}",
        "ulimits": "null", "cgroupparent": "", "cpuperiod": "0", "cpuquota": "0",
        "cpusetcpus": "", "cpusetmems": "", "cpushares": "0", "dockerfile": "", "memory": "0",
        "memswap": "0", "rm": "1", "shmsize": "0", "target": "", "buildid": "", "nocache": "1",
        **query,
    }  # fmt: skip
    headers = [("Content-Type", "application/x-tar"), ("Content-Length", "0")]
    return daemon.raw("POST", f"/v1.41/build?{urlencode(given)}", headers=headers)


def test_developer_who_is_a_builder_builds(behind: Behind, tmp_path: Path) -> None:
    daemon = behind("developer", "builder")
    with Session(daemon.socket, tmp_path, CONTEXT) as session:
        answer = build(daemon, session.identifier)
    assert answer.status == 200
    lines = [json.loads(line) for line in answer.body.splitlines() if line.strip()]
    assert not [line for line in lines if "error" in line], lines
    assert [line for line in lines if line.get("id") == "moby.image.id"], lines
    inspected = json.loads(daemon.raw("GET", "/v1.41/images/built:1/json").body)
    assert inspected["RepoTags"] == ["built:1"]
    daemon.chain()
    daemon.raw("DELETE", "/v1.41/images/built:1?force=1")


def test_developer_alone_opens_no_session_and_builds_nothing(
    behind: Behind, tmp_path: Path
) -> None:
    daemon = behind("developer")
    with Session(daemon.socket, tmp_path, CONTEXT) as session:
        assert session.status == 403
        assert "a local user may not build.session" in session.refusal
        assert "may not image.build" in build(daemon, session.identifier).message
    answer = daemon.raw("POST", "/v1.41/grpc", headers=[("Content-Length", "0")])
    assert "may not build.grpc" in answer.message


REFUSED = [
    ({"networkmode": "host"}, "network namespace of the host may not be used"),
    ({"remote": "http://127.0.0.1:1/x"}, "the daemon may not fetch http://127.0.0.1:1/x"),
    ({"remote": "client-session", "version": "1"}, "the daemon may not fetch client-session"),
    ({"outputs": '[{"type":"registry"}]'}, "output registry of a build is not allowed"),
    ({"outputs": '[{"TYPE":"image","ATTRS":{"push":"true"}}]'}, "output image of a build is"),
    ({"outputs": '[{"Type":"local","Power":1}]'}, "output unknown of a build is not allowed"),
    ({"outputs": '[{"Type":"local"'}, "body is not one JSON value"),
    ({"securityopt": "seccomp=unconfined"}, "seccomp profile may not be changed"),
    ({"cgroupparent": "/"}, "parent of the control group may not be chosen"),
    ({"superpower": "1"}, "is unknown to the policy"),
]


@pytest.mark.parametrize(("query", "reason"), REFUSED)
def test_what_the_request_shows_is_judged(
    behind: Behind, query: dict[str, str], reason: str
) -> None:
    assert reason in build(behind("developer", "builder"), "x", **query).message


def test_caches_are_images_and_limits_are_refused(behind: Behind) -> None:
    images = {"allow": ["docker.io/library/*"], "require_digest": False}
    limits = {"memory": 64 << 20, "cpus": 0, "pids": 0}
    daemon = behind("builder", images=images, limits=limits)
    message = build(daemon, "x", cachefrom='["evil.io/x"]', memory="1024").message
    assert "BuildKit does not apply the limits" in message
    assert "image evil.io/x is not allowed" in message


def test_dockerfile_gets_no_network_of_the_host_by_itself(behind: Behind, tmp_path: Path) -> None:
    daemon = behind("builder")
    context = {"Dockerfile": b"FROM img:1\nRUN --network=host id\n"}
    with Session(daemon.socket, tmp_path, context) as session:
        answer = build(daemon, session.identifier, networkmode="")
    assert answer.status == 200
    assert b'"error"' in answer.body
    assert b"uid=0" not in answer.body


def test_body_that_hides_behind_an_empty_length_is_no_form(behind: Behind) -> None:
    """The daemon drops a length beside a transfer encoding, and does not say that it is 0."""
    daemon = behind("builder")
    form = b"networkmode=host"
    headers = [
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("Content-Length", "0"),
        ("Transfer-Encoding", "chunked"),
    ]
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(form), form)
    answer = daemon.raw("POST", "/v1.41/build?version=2&networkmode=none", body, headers)
    assert answer.status in (400, 403)
