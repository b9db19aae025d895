"""`to_input` on every captured call, and on each pitfall from raw bytes."""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from doorward.docker.replay import Past, read_requests
from doorward.docker.request.call import AuthzRequest, parse_request, parse_target
from doorward.docker.request.errors import RequestError
from doorward.docker.request.input import InputOptions, to_input

CREATE = "/v1.41/containers/create"
JSON = {"Content-Type": "application/json"}


def links(path: str) -> str | None:
    return {"/srv/link": "/etc"}.get(path, path)


def of_body(body: Any, uri: str = CREATE, method: str = "POST", **others: Any) -> dict[str, Any]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = others.pop("headers", JSON)
    request = AuthzRequest(method, uri, headers=headers, body=content or None, **others)
    return to_input(request, resolve=links)


def of_query(uri: str, method: str = "POST", **headers: str) -> dict[str, Any]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return to_input(AuthzRequest(method, uri, headers=named), resolve=links)


def refusal(*arguments: Any, **others: Any) -> str:
    with pytest.raises(RequestError) as caught:
        of_body(*arguments, **others)
    return f"{caught.value.code}: {caught.value}"


@pytest.fixture(scope="module")
def captured(docker_captures: Path) -> list[Past]:
    files = [path for path in sorted(docker_captures.glob("*.json")) if path.name != "index.json"]
    return [past for past in read_requests(files) if past.raw is not None]


def test_every_captured_call_has_one_reading(captured: list[Past]) -> None:
    actions: Counter[str] = Counter()
    for past in captured:
        input_doc = to_input(parse_request(past.raw or b""), resolve=links)
        actions[input_doc["action"]] += 1
        assert input_doc["unknown_fields"] == [], past.location
        assert input_doc["query_trusted"] or input_doc["action"] in STREAMS, past.location
    assert len(captured) > 290
    assert actions["unknown"] == 0
    assert actions["container.create"] == 23
    assert len(actions) > 75


STREAMS = {"container.archive.put", "image.build", "image.import", "image.load"}


def test_captured_calls_are_what_their_commands_say(captured: list[Past]) -> None:
    by_run: dict[str, dict[str, Any]] = {}
    for past in captured:
        input_doc = to_input(parse_request(past.raw or b""), resolve=links)
        run = Path(past.location.partition("#")[0]).stem
        if input_doc["action"] not in ("system.ping",):
            by_run.setdefault(f"{run} {input_doc['action']}", input_doc)
    view = by_run["run_cap_add container.create"]["security"]
    assert view["cap_add"] == ["NET_ADMIN", "SYS_ADMIN"]
    assert view["cap_drop"] == ["ALL"]
    assert by_run["run_privileged container.create"]["security"]["privileged"] is True
    namespaces = by_run["run_host_namespaces container.create"]["security"]["host_namespaces"]
    assert sorted(namespaces) == ["ipc", "network", "pid", "user", "uts"]
    [mount, *_] = by_run["run_volume_bind container.create"]["mounts"]
    assert (mount["type"], mount["clean"], mount["origin"]) == ("bind", "/etc", "Binds")
    device = by_run["run_gpus container.create"]["devices"]
    assert device["requests"][0]["capabilities"] == [["gpu"]]
    service = by_run["service_create service.create"]
    assert service["security"]["cap_add"] == ["SYS_ADMIN"]
    assert service["mounts"][0]["clean"] == "/etc"
    assert service["resources"]["memory"] == 64 << 20
    assert service["image"]["name"] == "docker.io/library/img"
    assert by_run["pull_fail image.pull"]["image"]["name"] == "docker.io/library/busybox"
    assert by_run["push image.push"]["image"]["registry"] == "127.0.0.1:9"
    assert by_run["update container.update"]["resources"]["memory"] == 128 << 20
    build = by_run["build_classic image.build"]
    assert build["network"]["mode"] == "none"
    assert build["images"][0]["tag"] == "built"
    assert (build["body_visible"], build["query_trusted"]) == (False, False)
    security = by_run["run_security_opt container.create"]["security"]
    assert security["seccomp"] == security["apparmor"] == "unconfined"
    assert security["masked_paths"] == security["readonly_paths"] == "none"


SPELLINGS = [
    b'{"HostConfig":{"Privileged":true}}',
    b'{"hostconfig":{"privileged":true}}',
    b'{"HOSTCONFIG":{"PRIVILEGED":true}}',
    '{"Ho\u017ftConfig":{"Privileged":true}}'.encode(),
    b'{"\\u0048ostConfig":{"Privileged":true}}',
    '{"Ho\u017ftConfig":{"Privileged":true,"\u212aernelMemory":1}}'.encode(),
]


@pytest.mark.parametrize("body", SPELLINGS)
def test_spellings_of_a_key_are_one(body: bytes) -> None:
    input_doc = of_body(body)
    assert input_doc["security"]["privileged"] is True
    assert input_doc["body"]["HostConfig"]["Privileged"] is True
    assert input_doc["unknown_fields"] == []


def test_keys_of_maps_stay_as_they_are() -> None:
    body = {"Labels": {"a": "1", "A": "2"}, "HostConfig": {"Sysctls": {"Net.X": "1"}}}
    input_doc = of_body(body)
    assert input_doc["body"]["Labels"] == {"a": "1", "A": "2"}
    assert input_doc["security"]["sysctls"] == {"Net.X": "1"}


TWICE = "ambiguous: body names the field"
REFUSED = [
    (b'{"Image":"a","Image":"b"}', "ambiguous: body names a key twice"),
    (b'{"Image":"a","image":"b"}', f"{TWICE} Image twice"),
    (b'{"image":"a","IMAGE":"b"}', f"{TWICE} Image twice"),
    (b'{"HostConfig":{"Binds":[],"binds":null}}', f"{TWICE} HostConfig.Binds twice"),
    (b'{"x":1,"X":2}', "ambiguous: body names a field of its top level twice"),
    (b'{"x":{"a":1,"A":2}}', "ambiguous: body names a field of (unknown) twice"),
    (
        b'{"privileged":true}',
        "ambiguous: body has the field privileged outside of HostConfig: move it there",
    ),
    (b'{"Memory":1}', "ambiguous: body has the field memory outside of HostConfig: move it there"),
    (
        b'{"CPUSET":"0"}',
        "ambiguous: body has the field cpuset outside of HostConfig: move it there",
    ),
    (b'{"Image":"a"}{}', "malformed: body is not one JSON value"),
    (b'{"Image":"a"', "malformed: body is not one JSON value"),
    (b"[]", "malformed: body field (whole) must be an object"),
    (b'"x"', "malformed: body field (whole) must be an object"),
    (b'{"Image":"\xff"}', "malformed: body is not UTF-8"),
    (b'\xef\xbb\xbf{"Image":"a"}', "malformed: body is not one JSON value"),
    (b'{"Image":"\\ud800x"}', "malformed: body is not UTF-8"),
    (b"[" * 5000, "malformed: body is not one JSON value"),
    (b'{"x":' + b"[" * 100 + b"]" * 100 + b"}", "malformed: body is nested deeper than 64 levels"),
    (b'{"StopTimeout":' + b"9" * 6000 + b"}", "malformed: body is not one JSON value"),
    (b'{"x":1e999}', "malformed: body has a number that is out of range"),
    (b'{"x":NaN}', "malformed: body is not one JSON value"),
    (b'{"StopTimeout":1.5}', "malformed: body field StopTimeout must be an integer in range"),
    (b'{"StopTimeout":1e3}', "malformed: body field StopTimeout must be an integer in range"),
    (
        b'{"StopTimeout":99999999999999999999}',
        "malformed: body field StopTimeout must be an integer in range",
    ),
    (
        b'{"HostConfig":{"Privileged":"true"}}',
        "malformed: body field HostConfig.Privileged must be a boolean",
    ),
    (
        b'{"HostConfig":{"Privileged":1}}',
        "malformed: body field HostConfig.Privileged must be a boolean",
    ),
    (
        b'{"HostConfig":{"Binds":"/:/h"}}',
        "malformed: body field HostConfig.Binds must be an array",
    ),
    (
        b'{"HostConfig":{"Binds":[1]}}',
        "malformed: body field HostConfig.Binds must hold strings only",
    ),
    (b"", "invisible: request body is not visible to the policy"),
]


@pytest.mark.parametrize(("body", "reason"), REFUSED)
def test_bodies_with_two_readings_are_refused(body: bytes, reason: str) -> None:
    assert refusal(body) == reason


@pytest.mark.parametrize(
    "uri",
    [
        "/v1.41/containers/create",
        "/containers/create",
        "/v1.41/containers/%63reate",
        "/v1.41/containers%2Fcreate",
        "http://x/v1.41/containers/create",
        "http:/v1.41/containers/create",
        "http:///v1.41/containers/create",
        "/%761.41/containers/create",
        "/v1.41/containers/create?name=c",
    ],
)
def test_ways_to_one_route(uri: str) -> None:
    assert of_body({}, uri)["action"] == "container.create"


@pytest.mark.parametrize(
    "uri",
    [
        "/v1.41/containers/create/",
        "/v1.41/containers/Create",
        "/v1.41x/containers/create",
        "/v1.41/v1.41/containers/create",
        "*",
        "/x",
        "x:containers/create",
        "/v1.41/containers/x/exec/y",
    ],
)
def test_other_ways_are_unknown(uri: str) -> None:
    assert of_query(uri)["action"] == "unknown"


def test_names_may_hold_slashes() -> None:
    input_doc = of_query("/v1.41/images/a/b/c:1/json", "GET")
    assert (input_doc["action"], input_doc["target"]) == ("image.inspect", "a/b/c:1")
    input_doc = of_query("/v1.41/containers/auth/json", "GET")
    assert (input_doc["action"], input_doc["target"]) == ("container.inspect", "auth")


def test_reading_is_by_action_not_by_method() -> None:
    attach = of_query("/v1.41/containers/c/attach/ws?stdin=1", "GET")
    assert attach["action"] == "container.attach"
    assert of_query("/v1.41/containers/c/archive?path=/", "GET")["action"] == (
        "container.archive.get"
    )


TRUST = [
    ({}, True),
    ({"Content_Length": "0", "Content_Type": "text/plain"}, True),
    ({"Content_Type": "text/plain"}, False),
    ({"Content_Type": "application/x-www-form-urlencoded", "Content_Length": "9"}, False),
    ({"Content_Type": "", "Content_Length": "9"}, False),
]


@pytest.mark.parametrize(("headers", "trusted"), TRUST)
def test_query_that_a_form_may_replace_is_refused(headers: dict[str, str], trusted: bool) -> None:
    uri = "/v1.41/images/create?fromImage=good"
    if trusted:
        assert of_query(uri, **headers)["query_trusted"] is True
        return
    with pytest.raises(RequestError, match="may replace the query"):
        of_query(uri, **headers)


def test_streams_say_what_they_do_not_show() -> None:
    input_doc = of_query("/v1.41/build?t=a", Content_Type="application/x-tar")
    assert (input_doc["body_visible"], input_doc["query_trusted"]) == (False, False)
    input_doc = of_query("/v1.41/images/load", Content_Length="0")
    assert (input_doc["body_visible"], input_doc["query_trusted"]) == (True, True)


@pytest.mark.parametrize("query", ["fromImage=a&fromImage=b", "tag=a;fromImage=b", "fromImage=%zz"])
def test_queries_with_two_readings_are_refused(query: str) -> None:
    with pytest.raises(RequestError):
        of_query(f"/v1.41/images/create?{query}")


def test_parameters_that_are_lists_stay_lists() -> None:
    input_doc = of_query("/v1.41/images/get?names=x&names=y&blank=", "GET")
    assert input_doc["Query"] == {"names": ["x", "y"], "blank": [""]}
    assert [image["name"] for image in input_doc["images"]] == [
        "docker.io/library/x",
        "docker.io/library/y",
    ]


def test_old_versions_are_refused_and_can_be_let_in() -> None:
    request = AuthzRequest(
        "POST", "/v1.23/containers/c/start", headers=JSON, body=b'{"Privileged":true}'
    )
    with pytest.raises(RequestError, match=r"below the minimum of 1\.24"):
        to_input(request)
    input_doc = to_input(request, InputOptions(minimum_version=(1, 12)))
    assert input_doc["action"] == "container.start"
    assert input_doc["security"]["privileged"] is True


def test_only_a_certificate_identifies() -> None:
    assert of_body({}, user="alice", auth_method="TLS")["User"] == "alice"
    input_doc = of_body({}, user="alice")
    assert (input_doc["User"], input_doc["identified"]) == ("", False)


def test_fields_that_other_policies_know() -> None:
    input_doc = of_body(
        {"HostConfig": {"Binds": ["/srv/link:/h:ro"]}},
        f"{CREATE}?name=c",
        user="a",
        auth_method="TLS",
    )
    assert input_doc["Path"] == f"{CREATE}?name=c"
    assert input_doc["PathPlain"] == CREATE
    assert input_doc["PathArr"] == ["", "v1.41", "containers", "create"]
    assert input_doc["Query"] == {"name": ["c"]}
    assert input_doc["Method"] == "POST"
    assert input_doc["AuthMethod"] == "TLS"
    assert input_doc["Body"]["HostConfig"]["Binds"] == ["/srv/link:/h:ro"]
    assert input_doc["BindMounts"] == [
        {"Source": "/srv/link", "ReadOnly": True, "Resolved": "/etc"}
    ]


def test_null_is_kept_apart_from_empty() -> None:
    input_doc = of_body({"HostConfig": {"MaskedPaths": None, "ReadonlyPaths": []}})
    assert input_doc["security"]["masked_paths"] == "default"
    assert input_doc["security"]["readonly_paths"] == "none"
    assert input_doc["body"]["HostConfig"] == {"MaskedPaths": None, "ReadonlyPaths": []}


CALLS = [
    (b"", "the Docker daemon's call has no content: .* try again"),
    (b" ", "the Docker daemon's call is not one JSON value"),
    (b"[]", "the Docker daemon's call is not a JSON object"),
    (b"{}", "the Docker daemon's call has no method or no target"),
    (b'{"RequestMethod":1,"RequestUri":"/"}', "a RequestMethod that is not a string"),
    (b'{"RequestMethod":"GET","RequestUri":"/","RequestBody":"%"}', "not base64"),
    (b'{"RequestMethod":"GET","RequestUri":"/","RequestHeaders":[]}', ""),
    (b'{"RequestMethod":"GET","RequestUri":"/","RequestHeaders":{"a":1}}', "not strings"),
    (b'{"RequestMethod":"GET","RequestMethod":"POST","RequestUri":"/"}', "not one JSON value"),
]


@pytest.mark.parametrize(("call", "reason"), CALLS)
def test_calls_that_are_none_are_refused(call: bytes, reason: str) -> None:
    if not reason:
        assert parse_request(call).headers == {}
        return
    with pytest.raises(RequestError, match=reason):
        parse_request(call)


def test_all_fields_of_the_specification_pass_typed() -> None:
    body = {
        "Hostname": "h",
        "StopTimeout": 10,
        "Volumes": {"/v": {}},
        "ExposedPorts": {"22/tcp": {}},
        "HostConfig": {
            "Memory": 1,
            "NanoCPUs": 500000000,
            "MaximumIOps": 1,
            "MaximumIOBps": 1,
            "KernelMemory": 0,
            "PortBindings": {"22/tcp": [{"HostPort": "11022"}]},
            "DeviceRequests": [{"Driver": "nvidia", "Count": -1, "Capabilities": [["gpu"]]}],
            "BlkioWeightDevice": [{"Path": "/dev/x", "Weight": 1}],
        },
        "NetworkingConfig": {
            "EndpointsConfig": {"n": {"IPAMConfig": {"IPv4Address": "172.20.30.33"}}}
        },
    }
    input_doc = of_body(body)
    assert input_doc["unknown_fields"] == []
    assert input_doc["body"]["HostConfig"]["NanoCpus"] == 500000000
    assert float(input_doc["resources"]["cpus"]) == 0.5
    assert input_doc["ports"]["published"][0]["first"] == 11022
    assert input_doc["network"]["addresses"] == ["172.20.30.33"]


def test_body_is_decided_by_its_presence() -> None:
    content = base64.b64encode(b'{"HostConfig":{"Privileged":true}}').decode()
    call = {
        "RequestMethod": "POST",
        "RequestUri": CREATE,
        "RequestHeaders": {"Content-Type": "text/plain"},
        "RequestBody": content,
    }
    input_doc = to_input(parse_request(json.dumps(call).encode()))
    assert input_doc["security"]["privileged"] is True


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("/containers//json", "empty or dot segments"),
        ("/containers/./json", "empty or dot segments"),
        ("/containers/a/../json", "empty or dot segments"),
        ("/containers/%2e%2e/json", "empty or dot segments"),
        ("/containers/%ff/json", "is not UTF-8"),
        ("/containers/%zz/json", "broken escape"),
        ("/containers/a%0ab/json", "control characters"),
        ("/containers/a%7fb/json", "control characters"),
        ("/" + "a" * (1 << 20), "longer than 65536 characters"),
    ],
)
def test_a_target_that_has_two_readings_is_refused(uri: str, reason: str) -> None:
    with pytest.raises(RequestError, match=reason):
        parse_target(uri)


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("/_ping", "/_ping"),
        ("http://docker/_ping?a=1", "/_ping"),
        ("http://docker", "/"),
        ("/images/a%E2%80%8Bb/json", "/images/a\u200bb/json"),
        ("/images/.hidden/json", "/images/.hidden/json"),
    ],
)
def test_a_target_that_has_one_reading_is_read(uri: str, path: str) -> None:
    assert parse_target(uri).path == path
