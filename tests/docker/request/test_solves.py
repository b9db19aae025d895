"""Requests of BuildKit become what a policy judges; what is not known in them is unreadable."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from tests.docker.guarded import write_policies
from tests.docker.protobuf import field, mapping, solve

from doorward.docker.decider.embedded import EmbeddedPdp
from doorward.docker.request.call import AuthzRequest, Caller
from doorward.docker.request.input import to_input
from doorward.docker.request.solves import SOLVES, Solve, solve_views

CONTROL, BRIDGE = sorted(SOLVES)


def build(message: bytes, method: str = CONTROL) -> dict[str, Any]:
    view: dict[str, Any] = solve_views(Solve(method, message))["build"]
    return view


def test_methods_that_build_are_named() -> None:
    assert CONTROL == "/moby.buildkit.v1.Control/Solve"
    assert BRIDGE == "/moby.buildkit.v1.frontend.LLBBridge/Solve"


def test_usual_build_is_read() -> None:
    options = {"filename": "Dockerfile", "context": "", "build-arg:A": "b", "label:x": "y"}
    views = solve_views(
        Solve(CONTROL, solve(options=options, exporters=(("moby", {"name": "a:1"}),)))
    )
    assert views["build"] == {
        "buildkit": True,
        "session": True,
        "outputs": ["moby"],
        "cache_from": [],
        "readable": True,
        "frontend": "dockerfile.v0",
        "options": ["build-arg", "filename", "label"],
        "entitlements": [],
        "raw": False,
        "files": "hidden",
        "problem": "",
        "images": [],
        "remotes": [],
        "instructions": [],
    }
    assert [each["name"] for each in views["images"]] == ["docker.io/library/a"]
    assert views["remote"] == ""


def test_entitlements_are_listed_once_each() -> None:
    names = ("network.host", "security.insecure", "network.host")
    assert build(solve(entitlements=names))["entitlements"] == ["network.host", "security.insecure"]


OPTIONS = [
    ({"force-network-mode": "host"}, ["force-network-mode"]),
    ({"force-network-mode": "none"}, ["force-network-mode:own"]),
    ({"build-arg:BUILDKIT_SYNTAX": "evil/x"}, ["build-arg:BUILDKIT_SYNTAX"]),
    ({"cgroup-parent": "/"}, ["cgroup-parent"]),
    ({"source": "evil/x", "cmdline": "evil/x"}, ["cmdline", "source"]),
    ({"attest:sbom": "generator=evil/x"}, ["attest:generator"]),
    ({"attest:sbom": ""}, ["attest:sbom"]),
    ({"context:base": "https://example.com/x"}, ["context:URL"]),
    ({"context:base": "local:base"}, []),
    ({"context:base": "x" * 300}, ["context:URL"]),
    ({"Context": "https://example.com"}, ["Context"]),
    ({"": "x"}, [""]),
]


@pytest.mark.parametrize(("options", "names"), OPTIONS)
def test_options_have_the_names_of_what_they_reach(
    options: dict[str, str], names: list[str]
) -> None:
    for method, number in ((CONTROL, 7), (BRIDGE, 3)):
        assert build(mapping(number, options), method)["options"] == names


def test_images_and_addresses_of_options_are_judged_as_such() -> None:
    options = {
        "context": "https://example.com/a.git",
        "context:base": "docker-image://evil.example/base:1",
        "cache-from": "evil.example/cache,other/cache",
        "cache-imports": '[{"Type":"registry","Attrs":{"ref":"third.example/x"}}]',
    }
    views = solve_views(Solve(CONTROL, solve(options=options)))
    assert views["remote"] == "https://example.com/a.git"
    assert [each["registry"] for each in views["images"]] == ["evil.example"]
    registries = [each["registry"] for each in views["build"]["cache_from"]]
    assert registries == ["evil.example", "docker.io", "third.example"]


def test_what_is_pushed_contacts_its_registry() -> None:
    exporters = (("image", {"name": "evil.example/x,two.example/y", "push": "true"}),)
    view = build(solve(exporters=exporters))
    assert [each["registry"] for each in view["cache_from"]] == ["evil.example", "two.example"]
    insecure = build(solve(exporters=(("image", {"name": "x", "registry.insecure": "true"}),)))
    assert insecure["options"] == ["output:registry.insecure"]


def test_caches_of_other_kinds_are_options() -> None:
    caches = (("gha", {"url": "http://169.254.169.254"}), ("registry", {"ref": "evil.example/x"}))
    view = build(solve(caches=caches))
    assert view["options"] == ["cache:gha", "cache:url"]
    assert [each["registry"] for each in view["cache_from"]] == ["evil.example"]


@pytest.mark.parametrize("number", [2, 10, 12])
def test_instructions_of_buildkits_own_are_raw(number: int) -> None:
    assert build(solve(rest=field(number, b"x")))["raw"] is True


@pytest.mark.parametrize("number", [1, 11, 13, 15])
def test_instructions_over_the_bridge_are_raw(number: int) -> None:
    assert build(field(number, b"x") + field(2, "dockerfile.v0"), BRIDGE)["raw"] is True


UNREADABLE = [
    solve(rest=field(15, b"x")),
    solve(rest=field(99, 1)),
    solve(rest=field(6, "gateway.v0")),
    solve(rest=field(9, 1)),
    solve(rest=b"\x4d\0\0\0\0"),
    solve(rest=mapping(7, {"a": "1"}) + mapping(7, {"a": "2"})),
    solve(rest=field(7, field(1, "a") + field(1, "b") + field(2, "c"))),
    solve(rest=field(7, field(1, "a") + field(3, "c"))),
    solve(rest=field(8, b"")),
    solve(rest=field(5, "other")),
    solve(rest=b"\x4a\xff"),
    solve(rest=b"\x4a"),
    solve(rest=b"\xff" * 12),
    solve(frontend="") + field(9, b"\xff\xfe"),
    solve(options={"cache-imports": "[{"}),
    solve(options={"cache-imports": '[{"type":"registry"}]'}),
    solve(options={"cache-imports": '[{"Type":"a","Type":"registry"}]'}),
    solve(options={"cache-imports": '[{"Type":"registry","Attrs":{"ref":1}}]'}),
    solve(options={"cache-imports": "{}"}),
    field(8, field(1, "old")),
]


@pytest.mark.parametrize("message", UNREADABLE)
def test_message_that_is_not_known_as_a_whole_is_unreadable(message: bytes) -> None:
    assert build(message)["readable"] is False


def test_any_bytes_give_a_view() -> None:
    draw = Random(1)
    usual = solve(options={"filename": "x"}, entitlements=("network.host",))
    for _ in range(3000):
        message = bytearray(usual)
        for _ in range(draw.randint(1, 4)):
            message[draw.randrange(len(message))] = draw.randrange(256)
        view = build(bytes(message), draw.choice([CONTROL, BRIDGE]))
        assert type(view["readable"]) is bool


@pytest.fixture(scope="module")
def pdp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPdp]:
    folder = tmp_path_factory.mktemp("p") / "policies"
    pdp = EmbeddedPdp([str(write_policies(folder, users={"kit": ["buildkit"]}))], watch=False)
    yield pdp
    pdp.close()


def decide(pdp: EmbeddedPdp, message: bytes, method: str = CONTROL) -> Any:
    """The decision on a caller with the role `buildkit`."""
    caller = Caller("kit", "peer")
    headers = {"content-length": "0"}
    solve = Solve(method, message)
    request = AuthzRequest("POST", "/grpc", "kit", "peer", headers, caller=caller, solve=solve)
    result: Any = pdp.decide(to_input(request)).result
    return result


DENIED = {
    "entitlement network.host of a build is not allowed": solve(entitlements=("network.host",)),
    "frontend gateway.v0 of a build is not allowed": solve("gateway.v0"),
    "option cgroup-parent of a build is not allowed": solve(options={"cgroup-parent": "/"}),
    "output image of a build is not allowed": solve(exporters=(("image", {}),)),
    "instructions of BuildKit's own": solve(rest=field(2, b"x")),
    "the request of BuildKit cannot be read": solve(rest=field(99, 1)),
    "registry evil.example may not be contacted": solve(options={"cache-from": "evil.example/x"}),
    "the daemon may not fetch http://10.0.0.1/x": solve(options={"context": "http://10.0.0.1/x"}),
}


@pytest.mark.parametrize("reason", DENIED)
def test_build_beyond_the_data_is_denied(pdp: EmbeddedPdp, reason: str) -> None:
    result = decide(pdp, DENIED[reason])
    assert result["allow"] is False
    assert reason in "; ".join(result["messages"])


def test_usual_build_is_allowed(pdp: EmbeddedPdp) -> None:
    options = {"filename": "Dockerfile", "target": "x", "build-arg:A": "b", "label:x": "y"}
    exporters = (("moby", {"name": "team/app:1"}),)
    assert decide(pdp, solve(options=options, exporters=exporters))["allow"] is True
    bridged = field(2, "dockerfile.v0") + mapping(3, options)
    assert decide(pdp, bridged, BRIDGE)["allow"] is True
    assert decide(pdp, solve(""))["allow"] is True


def test_calls_that_build_nothing_are_decided_by_the_role(pdp: EmbeddedPdp) -> None:
    caller = Caller("kit", "peer")
    request = AuthzRequest("POST", "/grpc", "kit", "peer", {"content-length": "0"}, caller=caller)
    result: Any = pdp.decide(to_input(request)).result
    assert result["allow"] is True
