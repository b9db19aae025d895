"""Several plugins in order: all must grant, and ours behaves first, in the middle and last."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from examples.docker.private_daemon import PrivateDaemon

from doorward.docker.decider.answer import Answer
from doorward.docker.plugin import Plugin, Response
from doorward.rego.values import Value


class Says:
    """Decides what it is told to, and keeps the inputs."""

    def __init__(self, result: Value) -> None:
        self.result = result
        self.inputs: list[dict[str, object]] = []

    def decide(self, input: dict[str, object]) -> Answer:
        self.inputs.append(input)
        return Answer(self.result)


class Other:
    """A plugin of somebody else."""

    def __init__(self) -> None:
        self.allow = True
        self.calls: list[str] = []

    def answer(self, path: str, body: bytes) -> Response:
        if path == "/Plugin.Activate":
            return Response(200, b'{"Implements":["authz"]}')
        phase = path.rpartition(".")[2]
        self.calls.append(f"{phase} {json.loads(body)['RequestUri']}")
        allowed = json.dumps({"Allow": self.allow, "Msg": "not by me"}).encode()
        return Response(200, allowed)


@pytest.fixture(params=["first", "middle", "last"])
def chain(
    daemon: PrivateDaemon, unique: str, request: pytest.FixtureRequest
) -> Iterator[tuple[PrivateDaemon, Says, list[Other]]]:
    ours, others = Says(True), [Other(), Other()]
    names = [f"{unique}o1", f"{unique}o2"]
    for name, other in zip(names, others, strict=True):
        daemon.plugin(name, other.answer)
    daemon.plugin(f"{unique}us", Plugin(ours).answer)
    names.insert({"first": 0, "middle": 1, "last": 2}[request.param], f"{unique}us")
    daemon.chain(*names)
    yield daemon, ours, others
    daemon.chain()
    for name in names:
        daemon.end_plugin(name)


def test_all_grant(chain: tuple[PrivateDaemon, Says, list[Other]]) -> None:
    daemon, ours, others = chain
    done = daemon.docker("ps", "-q")
    assert done.returncode == 0, done.stderr
    assert [actual["action"] for actual in ours.inputs] == ["container.list"]
    for other in others:
        # Besides: the ping, and at any moment the answer to a call that came before the chain.
        listed = [call.split()[0] for call in other.calls if "/containers/json" in call]
        assert listed == ["AuthZReq", "AuthZRes"]


def test_ours_denies(chain: tuple[PrivateDaemon, Says, list[Other]], unique: str) -> None:
    daemon, ours, _ = chain
    ours.result = {"allow": False, "messages": ["no\x1b[31m\nway"]}
    answer = daemon.raw("GET", "/v1.41/containers/json")
    reason = f"authorization denied by plugin {unique}us: no [31m way"
    assert (answer.status, answer.message) == (403, reason)


@pytest.mark.parametrize("which", [0, 1])
def test_another_denies(
    chain: tuple[PrivateDaemon, Says, list[Other]], unique: str, which: int
) -> None:
    daemon, _, others = chain
    others[which].allow = False
    answer = daemon.raw("GET", "/v1.41/containers/json")
    reason = f"authorization denied by plugin {unique}o{which + 1}: not by me"
    assert (answer.status, answer.message) == (403, reason)


def test_two_plugins_in_each_order(daemon: PrivateDaemon, unique: str) -> None:
    ours, other = Says(True), Other()
    us, them = f"{unique}p1", f"{unique}p2"
    daemon.plugin(us, Plugin(ours).answer)
    daemon.plugin(them, other.answer)
    try:
        for names in ((us, them), (them, us)):
            daemon.chain(*names)
            ours.result, other.allow = True, True
            assert daemon.raw("GET", "/v1.41/images/json").status == 200
            ours.result = False
            assert daemon.raw("GET", "/v1.41/images/json").status == 403
            ours.result, other.allow = True, False
            assert daemon.raw("GET", "/v1.41/images/json").status == 403
    finally:
        daemon.chain()
        daemon.end_plugin(us)
        daemon.end_plugin(them)
