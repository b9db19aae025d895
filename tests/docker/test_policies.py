"""The shipped policies: their own tests in Rego, and the ways around them on every view."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest
from tests.docker.pack import pack_pdp, pack_with_tests

from doorward.docker.decider.embedded import PACK
from doorward.docker.plugin import Plugin
from doorward.docker.request.call import AuthzRequest
from doorward.docker.request.errors import RequestError
from doorward.docker.request.input import to_input

TESTS = [
    (path.stem, line.split()[0])
    for path in sorted(PACK.glob("*_test.rego"))
    for line in path.read_text().splitlines()
    if line.startswith("test_")
]


@pytest.mark.parametrize(("file", "name"), TESTS)
def test_rego(file: str, name: str) -> None:
    assert pack_with_tests().document(f"policy/docker/{file}/{name}").value() is True


def test_every_action_of_the_routes_is_known_to_a_role_or_kept_for_admins() -> None:
    from doorward.docker.request.routes import ROUTES

    roles = pack_with_tests().document("policy/docker/roles/operator_actions").value()
    kept = {route.action for route in ROUTES} - set(roles)
    assert kept == {
        "build.grpc",
        "checkpoint.create",
        "checkpoint.delete",
        "checkpoint.list",
        "node.delete",
        "node.update",
        "plugin.create",
        "plugin.delete",
        "plugin.disable",
        "plugin.enable",
        "plugin.privileges",
        "plugin.pull",
        "plugin.push",
        "plugin.set",
        "plugin.upgrade",
        "swarm.init",
        "swarm.inspect",
        "swarm.join",
        "swarm.leave",
        "swarm.unlock",
        "swarm.unlockkey",
        "swarm.update",
        "system.debug",
        "volume.update",
    }


decisions = 0


def allows(body: bytes) -> bool:
    global decisions
    request = AuthzRequest(
        "POST", "/v1.41/containers/create", headers={"Content-Type": "application/json"}, body=body
    )
    try:
        input_doc = to_input(request)
    except RequestError:
        return False
    decisions += 1
    result: Any = pack_pdp().decide(input_doc).result
    return result["allow"] is True


DENIED: list[dict[str, Any]] = [
    {"Privileged": True},
    {"Binds": ["/etc:/h"]},
    {"CapAdd": ["SYS_ADMIN"]},
    {"PidMode": "host"},
    {"Mounts": [{"Type": "bind", "Source": "/", "Target": "/h"}]},
    {"SecurityOpt": ["seccomp=unconfined"]},
    {"Devices": [{"PathOnHost": "/dev/sda", "PathInContainer": "/x"}]},
    {"MaskedPaths": []},
    {"VolumesFrom": ["c"]},
    {"CgroupParent": "/x"},
]


def respell(random_: random.Random, text: str) -> str:
    """A key that Go reads as the same field."""
    letters = []
    for char in text:
        swap = random_.random()
        if swap < 0.3:
            char = char.swapcase()
        if swap > 0.9 and char in "sS":
            char = "\u017f"
        if swap > 0.9 and char in "kK":
            char = "\u212a"
        letters.append(char)
    return "".join(letters)


def mutated(random_: random.Random, value: Any, *, keys: bool = True) -> str:
    """JSON text that a lenient reader takes for `value`, or for more than it."""
    if isinstance(value, dict):
        parts = []
        for key, item in value.items():
            name = json.dumps(respell(random_, key) if keys else key)
            if random_.random() < 0.2:
                name = name.replace(name[1], f"\\u{ord(name[1]):04x}", 1)
            parts.append(f"{name}:{mutated(random_, item)}")
            if random_.random() < 0.1:
                parts.append(f"{json.dumps(key)}:{random_.choice(['null', '{}', '[]', 'false'])}")
            if random_.random() < 0.1:
                parts.append(f'"x{random_.randrange(9)}":{random_.choice(NOISE)}')
        random_.shuffle(parts)
        return "{" + ",".join(parts) + "}"
    if isinstance(value, list):
        return "[" + ",".join(mutated(random_, item) for item in value) + "]"
    if isinstance(value, str) and value and random_.random() < 0.2:
        text = json.dumps(value)
        return text.replace(text[1], f"\\u{ord(text[1]):04x}", 1)
    return json.dumps(value)


NOISE = ["1e999", "-0", '"\\ud800"', "[[[[]]]]", '{"a":1,"A":2}', "123456789012345678901234567890"]


@pytest.mark.long
def test_ten_thousand_mutations_are_never_allowed_where_the_original_is_denied() -> None:
    random_ = random.Random(20241)
    for number in range(10_000):
        host = DENIED[number % len(DENIED)]
        body = {"Image": "img:1", "Cmd": ["true"], "HostConfig": host}
        if number < len(DENIED):
            assert not allows(json.dumps(body).encode())
        if number % 7 == 0:
            body = {"Image": "img:1", **host}
        text = mutated(random_, body).encode()
        if random_.random() < 0.1:
            text += random_.choice([b" ", b"{}", b"x", b"\x00", b"\xff"])
        if random_.random() < 0.05:
            cut = random_.randrange(len(text))
            text = text[:cut]
        assert not allows(text), text
    assert decisions > 1_000, "hardly any mutation was one that the policy was asked about"


def test_mutated_calls_are_answered_and_crash_nothing() -> None:
    random_ = random.Random(5)
    plugin = Plugin(pack_pdp())
    body = base64.b64encode(json.dumps({"Image": "a", "HostConfig": DENIED[0]}).encode()).decode()
    call = {
        "User": "alice",
        "UserAuthNMethod": "TLS",
        "RequestMethod": "POST",
        "RequestUri": "/v1.41/containers/create?name=%63",
        "RequestBody": body,
        "RequestHeaders": {"Content-Type": "application/json"},
    }
    text = json.dumps(call).encode()
    for _ in range(5_000):
        broken = bytearray(text)
        for _ in range(random_.randrange(1, 4)):
            position = random_.randrange(len(broken))
            kind = random_.randrange(3)
            if kind == 0:
                broken[position] = random_.randrange(256)
            elif kind == 1:
                del broken[position : position + random_.randrange(1, 9)]
            else:
                broken[position:position] = random_.choice(
                    [b'"', b"{", b",", b"\\u0000", b"\xff", b"%"]
                )
        response = plugin.answer("/AuthZPlugin.AuthZReq", bytes(broken))
        assert response.status == 200
        assert b"internal error" not in response.body, bytes(broken)


def test_plain_body_in_any_spelling_is_allowed() -> None:
    random_ = random.Random(7)
    body = {"Image": "img:1", "HostConfig": {"AutoRemove": True, "CapDrop": ["ALL"]}}
    text = json.dumps(body)
    for _ in range(200):
        spelt = text.replace("HostConfig", respell(random_, "HostConfig"))
        assert allows(spelt.encode()), spelt


def test_random_bytes_are_denied_and_crash_nothing() -> None:
    random_ = random.Random(11)
    for _ in range(2_000):
        assert not allows(random_.randbytes(random_.randrange(1, 200)))
