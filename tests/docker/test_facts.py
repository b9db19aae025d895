"""A container's own power, asked of the real daemon while an exec is decided."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from examples.docker.private_daemon import PrivateDaemon

from doorward.docker.embedded import PACK, EmbeddedPdp
from doorward.docker.facts import ContainerFacts
from doorward.docker.inputs import resolve_path
from doorward.docker.plugin import Plugin
from doorward.docker.requests import AuthzRequest


@pytest.fixture
def asking(daemon: PrivateDaemon, unique: str, tmp_path: Path) -> Iterator[PrivateDaemon]:
    """The daemon behind the shipped policies, which ask it about containers."""
    shutil.copytree(PACK, tmp_path / "pack")
    data = json.loads((PACK / "data.json").read_text())
    data["docker"]["users"] = {"alice": ["developer"], "carol": ["admin"]}
    (tmp_path / "pack" / "data.json").write_text(json.dumps(data))
    pdp = EmbeddedPdp([str(tmp_path / "pack")], watch=False)
    facts = ContainerFacts(daemon.socket, resolve_path)
    daemon.plugin(f"{unique}v", Plugin(pdp, facts=facts).answer)
    daemon.chain(f"{unique}v")
    yield daemon
    daemon.chain()
    daemon.end_plugin(f"{unique}v")


@pytest.mark.parametrize(
    ("options", "reaches"),
    [
        ((), False),
        (("--privileged",), True),
        (("-v", "/etc:/h"), True),
        (("--pid", "host"), True),
        (("--cap-add", "SYS_ADMIN"), True),
        (("--device", "/dev/null"), True),
        (("--security-opt", "seccomp=unconfined"), True),
        (("--security-opt", "systempaths=unconfined"), True),
        (("-v", "outside:/h"), True),
        (("-v", "inside:/h"), False),
    ],
)
def test_exec_needs_what_the_container_may(
    asking: PrivateDaemon, options: tuple[str, ...], reaches: bool
) -> None:
    bound = ("-o", "type=none", "-o", "o=bind", "-o", "device=/etc")
    assert asking.docker("volume", "create", *bound, "outside", user="carol").returncode == 0
    arguments = ("--network", "none", *options, "img:1", "sleep", "3600")
    created = asking.docker("create", *arguments, user="carol")
    assert created.returncode == 0, created.stderr
    container = created.stdout.strip()
    # Asked of the API, since a container that does not run cannot be asked by the command line.
    answer = asking.json("POST", f"/v1.41/containers/{container}/exec", {"Cmd": ["id"]})
    if reaches:
        assert answer.message.endswith(": container reaches the host")
    else:
        assert answer.status == 409  # allowed, and not running
    assert asking.docker("rm", container, user="carol").returncode == 0


def test_container_that_is_not_there_is_the_daemons_to_say(asking: PrivateDaemon) -> None:
    answer = asking.json("POST", "/v1.41/containers/nobody/exec", {"Cmd": ["id"]})
    assert answer.status == 404


def test_only_our_own_questions_are_allowed() -> None:
    facts = ContainerFacts("/nonexistent", resolve_path)
    for headers in ({}, {"X-Doorward-Self": ""}, {"X-Doorward-Self": "x" * 64}):
        assert not facts.is_own(AuthzRequest("GET", "/containers/x/json", headers=headers))
    assert facts.container("x") == {"asked": True, "known": False, "missing": False}
