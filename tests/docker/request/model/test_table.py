"""The model names everything that a daemon reads; its types refuse what two readers differ on."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from doorward.docker.request.call import AuthzRequest
from doorward.docker.request.input import to_input
from doorward.docker.request.model.table import ROUTES, STRUCTS
from doorward.docker.request.model.values import VALUES
from doorward.docker.request.routes import find_route
from doorward.docker.request.schema import LOOSE, Array, Map, Struct, Type, fold

NAMES: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "data" / "names.json").read_text(encoding="utf-8")
)
MODEL = {f"{route.method} {route.path}": route for route in ROUTES}
HEADERS = {"X-Registry-Config"}
"""What the daemon reads of the head under the name of a parameter."""


def route_of(key: str) -> Any:
    method, _, path = key.partition(" ")
    return find_route(method, path.replace("{name}", "c"))[0]


@pytest.mark.parametrize("key", NAMES)
def test_every_route_and_parameter_of_a_daemon_has_a_type(key: str) -> None:
    route = route_of(key)
    assert route.action != "unknown"
    query = route.model.query
    assert set(NAMES[key]["query"]) - HEADERS <= set(query)


def has_type(type_: Type, path: list[str]) -> bool:
    while isinstance(type_, Array | Map):
        type_ = type_.item
    if not path or type_ == LOOSE:
        return True
    assert isinstance(type_, Struct), path
    name = type_.by_fold.get(fold(path[0]))
    return name is not None and has_type(type_.fields[name], path[1:])


@pytest.mark.parametrize("key", [key for key, names in NAMES.items() if names["body"]])
def test_every_field_of_a_body_has_a_type(key: str) -> None:
    schema = route_of(key).schema
    missing = [
        field
        for field in NAMES[key]["body"]
        if not has_type(schema, [each for each in re.split(r"[.\[\]{}]+", field) if each])
    ]
    assert missing == []


def test_every_type_is_used_and_described() -> None:
    text = (Path(__file__).parents[4] / "src/doorward/docker/request/model/table.toml").read_text()
    for name, kind in VALUES.items():
        assert re.search(rf'["\]\[]{re.escape(name)}["\] ]', text), name
        assert kind.text, name
    assert set(STRUCTS) >= {"ContainerCreate", "ServiceSpec"}


TYPES: list[tuple[str, list[Any], list[Any]]] = [
    # type, accepted, refused
    (
        "name",
        ["db", "a-b_c.d", "9"],
        ["", "-a", ".a", "a b", "{{x}}", "a/b", "a\x00", "é", "a" * 256],
    ),
    ("new-name", ["db", "cafe", "web-1"], ["a" * 12, "0123456789ab", "f" * 64, "k" * 25, "{{.}}"]),
    ("new-container", ["/db", "db"], ["/" + "a" * 12, "a" * 64, "//a"]),
    ("container", ["c", "/c", "0123456789ab"], ["c/../d", "c?x", "c d"]),
    ("label", ["com.docker.compose.project", "a/b", "_x"], ["", "a b", "a=b", "{{a}}"]),
    ("own", ["{{x}}", "a\nb", "-x"], ["a\x00"]),
    ("plain", ["a{b}"], ["{{x}}", "a{{", "\x00"]),
    (
        "path",
        ["/a", "/a/../b", "/a b", "/"],
        ["a", "", "/a,b", "/a\\b", "/a:b", "/a=b", "/{{a}}", "/a\x00", "/a\n"],
    ),
    (
        "relative-path",
        ["a", "a/b", "a..b/c", "."],
        ["/a", "..", "../a", "a/../b", "a/..", "a,b", "a\\b", "a:b", "{{a}}", "a\x00", "a\n"],
    ),
    (
        "bind",
        ["/a:/b", "v:/b", "/a:/b:ro", "/a:/b:ro,z", "/b", "/a:/b:rw,rslave"],
        [
            "a\x00:/b",
            "/a\x00:/b",
            "/a\x00b:/b:ro",
            "/a:/b:ro,exec",
            "/a:/b:",
            "/a:b",
            ":/b",
            "{{x}}:/b",
            "/a:/b:ro:x",
            "../a:/b",
        ],
    ),
    ("source", ["/a", "vol", "img:1"], ["{{print 1}}", "a b", "/a\x00"]),
    (
        "image",
        ["busybox", "a.io:5000/x:1", "f" * 64, "img@sha256:" + "a" * 64],
        ["A B", "x@", "a" * 2000, "{{x}}"],
    ),
    (
        "new-image",
        ["busybox:1", "a.io/x"],
        ["f" * 64, "abcdefabcdef", "x@sha256:" + "a" * 64, "A B", "x//y"],
    ),
    ("tag", ["1", "sha256:" + "a" * 64], ["-1", "a b", "sha256:a"]),
    (
        "cidr",
        ["10.0.0.0/8", "10.1.2.3/24", "fd00::/64"],
        ["10.0.0.0", "010.0.0.0/8", "10/8", "::ffff:10.0.0.0/104x", "10.0.0.0/08"],
    ),
    ("address", ["10.0.0.1", "::1"], ["1", "0x7f.1", "010.0.0.1", "::0001", "fe80::1%eth0"]),
    ("port", ["80", "80/tcp", "80-90/udp"], ["80/icmp", "tcp/80", "80/tcp/x"]),
    ("host-port", ["80", "80-90"], ["-80", "80-", "0x50", "80,90"]),
    ("ps-options", ["-ef", "aux"], ["-o", "axe", "-osz=PID,args axe", "e"]),
    ("sysctl-value", ["1", "0 2147483647"], ["a", "1;2", "-1"]),
    (
        "filters",
        ['{"label":["a=b"]}', '{"status":{"up":true}}'],
        ["[]", "{", '{"a":"b"}', '{"a":{"b":1}}', r'{"a":["\u0000"]}', r'{"a":{"\u0000":true}}'],
    ),
    ("flag", ["1", "true", "0"], ["maybe", "11"]),
    ("adjustment", [0, -1000, 1000], [-1001, 1001]),
    ("alias", ["db", "_a.b"], ["-a", "a/b", "a b", "{{x}}", "a\n"]),
    ("boolean", [True, False], []),
    ("build-id", ["a_b-1"], ["a.b", "a/b", "a" * 65]),
    ("capabilities", [["NET_ADMIN", "ALL"]], [["NET_ADMIN", "A B"], ["CAP;"]]),
    ("capability", ["NET_ADMIN"], ["A", "NET ADMIN", "{{x}}"]),
    ("closed-number", [], [1]),
    ("closed-value", [], ["x", {"a": 1}]),
    ("constraint", ["node.role==manager", "node.id != a"], ["node.role", "==a", "a=b", "a==b c"]),
    ("default", ["default"], ["host", "Default"]),
    ("device-id", ["0", "vendor.com/gpu=all"], ["-a", "a b", "a,b"]),
    ("device-rule", ["c 1:3 rwm", "a *:* r"], ["d 1:3 r", "c 1:3", "c 1:3 x", "c 1 r"]),
    ("dns-option", ["ndots:2", "rotate"], ["a b", "ndots:", "rotate\n"]),
    ("domain", [".", "example.com"], ["-a", "a b", ".."]),
    ("group", ["0", "docker"], ["a:b", "-a", "a b"]),
    ("host-line", ["10.0.0.1 a b"], ["10.0.0.1", "a b", "10.0.0.1 a\n", "10.0.0.1 -a"]),
    ("hostname", ["a.b"], ["-a", "a b", "a\n"]),
    ("id", ["0a"], ["A", "a/b", "a" * 65]),
    ("integer", [-(2**63), 0], [2**63]),
    ("json-images", ['["busybox"]', "null"], ['["A B"]', "{}", "[1]"]),
    ("json-outputs", ["[]", "null"], ["{}", "1", "["]),
    ("json-texts", ['{"a":"b","c":null}', "null"], ['{"a b":"c"}', '{"a":1}', "[]"]),
    ("json-ulimits", ["[]", "null"], ["{}", "1", "["]),
    ("keys", ["ctrl-p,ctrl-q"], ["a b", "a;", "a" * 65]),
    ("link", ["db:alias", "/db"], ["db:a:b", "-a", "a b"]),
    ("mac", ["02:42:ac:11:00:02"], ["02:42:ac:11:00", "02:42:ac:11:00:0g"]),
    ("namespace", ["host", "container:c"], ["container:", "container:/c", "c", "host "]),
    ("network", ["n"], ["a/b", "-a", "a:b", "a\n"]),
    ("network-mode", ["host", "container:c"], ["container:", "container:a:b", "a b", "ns:/x"]),
    ("network-option", ["com.docker.network.bridge.name"], ["a b", "-a", "a=b"]),
    ("new-tag", ["1.0"], ["a/b", "-1", "sha256:" + "a" * 64]),
    ("number-text", ["1"], ["-1", "1a"]),
    ("numbers", ["0-3,5"], ["0-", "a", "0;1", ","]),
    ("option", ["a.b"], ["A", "a b", "1a"]),
    ("own-path", ["/a,b"], ["{{x}}", "a\x00"]),
    ("platform", ["linux/arm64/v8"], ["a/b/c/d/e", "a b", "/a"]),
    ("platforms", ['{"os":"linux"}'], ['{"a":"b"}', '{"os":1}', "1", '{"os":"a b"}']),
    ("port-number", [0, 65535], [-1, 65536]),
    ("registry", ["https://a.io:5000/v1/"], ["-a", "a b", "a?b", "a@b"]),
    ("search-term", ["busybox"], ["Busy", "a b", "-a"]),
    ("size", ["1m", "512MB"], ["m", "-1", "1x", "1 m"]),
    ("storage-option", ["size"], ["sizes", "dm.x"]),
    ("sysctl", ["net.ipv4.ip_forward"], ["net", "net/ipv4", "Net.x", "net.ipv4.."]),
    ("tail", ["all", "-1", "10"], ["-2", "a"]),
    ("text", ["a b"], ["{{x}}", "\x00"]),
    ("time", ["10m", "2020-01-01T00:00:00Z", "-5"], ["a", "1;2", "--1"]),
    ("tmpfs-option", ["noexec", "64m"], ["a=b", "a,b", "-a"]),
    ("ulimit", ["nofile"], ["Nofile", "a"]),
    ("url", ["-", "https://a.io/x?y=z#a:b"], ["-a", "a b", "a\n"]),
    ("user", ["0:0", "app"], ["a:b:c", "-a", "a b", "a:"]),
    ("volumes-from", ["c", "c:ro"], ["c:z", "/c", "c:ro:rw", ":ro"]),
    ("word", ["a.b-c"], ["a/b", "-a", "a" * 65]),
    ("words", [["a", ""]], [["a", "a\x00"]]),
    ("signal", ["SIGKILL", "9", "RTMIN+3"], ["kill -9", ";"]),
    ("volume-option", ["size=1m", "addr=1.2.3.4"], ["{{x}}", "\x00"]),
    (
        "tmpfs-options",
        ["size=1m,mode=0700", "rw,noexec"],
        ["bind", "size=1,bind", "rw,", "mpol=bind:0", "size=1m,lowerdir=/"],
    ),
    ("extra-host", ["a:10.0.0.1", "a:host-gateway", "a=::1"], ["a", "a:b", "a b:10.0.0.1"]),
    ("instruction", ["CMD x", "env A=b"], ["FROM x", "RUN y", "CMD"]),
    ("count", ["0", "10", "-1"], ["1.5", "--1", "x"]),
    ("limit", [-1, 0, 5], [-2, 2**63]),
    ("amount", [0, 2**63 - 1], [-1, 2**63]),
    ("ratio", [0.5, 1, 0], [2, True, "x"]),
    ("closed", [], ["x"]),
    ("nothing", [], [{"a": 1}]),
]


@pytest.mark.parametrize(("name", "accepted", "refused"), TYPES, ids=[each[0] for each in TYPES])
def test_type(name: str, accepted: list[Any], refused: list[Any]) -> None:
    accepts = VALUES[name].accepts
    assert [each for each in accepted if not accepts(each)] == []
    assert [each for each in refused if each and accepts(each)] == []


def test_every_type_has_values_that_it_is_tested_with() -> None:
    assert VALUES.keys() - {name for name, _, _ in TYPES} == set()


def untyped(uri: str, body: Any = None, method: str = "POST") -> list[str]:
    content = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} if body is not None else {}
    view = to_input(AuthzRequest(method, uri, headers=headers, body=content))
    return [each["field"] for each in view["untyped"]]


CREATE = "/v1.41/containers/create"


def test_zero_values_are_the_daemons_defaults_but_for_lists_that_mean_none() -> None:
    host = {name: None for name in STRUCTS["HostConfig"].fields}
    assert untyped(CREATE, {"HostConfig": host}) == []
    zeros = {"Binds": [], "Memory": 0, "NetworkMode": "", "Devices": [], "Sysctls": {}}
    assert untyped(CREATE, {"HostConfig": zeros}) == []
    view = to_input(AuthzRequest(
        "POST", CREATE, headers={"Content-Type": "application/json"},
        body=b'{"HostConfig": {"MaskedPaths": []}}',
    ))  # fmt: skip
    assert view["security"]["masked_paths"] == "none"


FIELDS: list[tuple[Any, list[str]]] = [
    ({"HostConfig": {"Binds": ["/a\x00:/b"]}}, ["HostConfig.Binds[]"]),
    (
        {"HostConfig": {"Mounts": [{"Type": "bind", "Source": "/a\x00", "Target": "/b"}]}},
        ["HostConfig.Mounts[].Source"],
    ),
    (
        {"HostConfig": {"Mounts": [{"Type": "bind", "Source": "vol", "Target": "/b"}]}},
        ["HostConfig.Mounts[].Source"],
    ),
    (
        {"HostConfig": {"Mounts": [{"Type": "tmpfs", "Source": "x", "Target": "/b"}]}},
        ["HostConfig.Mounts[].Source"],
    ),
    ({"HostConfig": {"Mounts": [{"Type": "volume", "Source": "vol", "Target": "/b"}]}}, []),
    (
        {"HostConfig": {"Mounts": [{"Type": "volume", "Source": "/a", "Target": "/b"}]}},
        ["HostConfig.Mounts[].Source"],
    ),
    (
        {
            "HostConfig": {
                "Mounts": [
                    {"Type": "volume", "Target": "/b", "BindOptions": {"NonRecursive": True}}
                ]
            }
        },
        ["HostConfig.Mounts[].BindOptions"],
    ),
    (
        {"HostConfig": {"LogConfig": {"Type": "json-file", "Config": {"tag": "{{.ID}}"}}}},
        ["HostConfig.LogConfig.Config{}"],
    ),
    (
        {"HostConfig": {"LogConfig": {"Type": "json-file", "Config": {"max-size": "1m;x"}}}},
        ["HostConfig.LogConfig.Config.max-size"],
    ),
    (
        {"HostConfig": {"BlkioWeightDevice": [{"Path": "/dev/sda", "Weight": 5}]}},
        ["HostConfig.BlkioWeightDevice[].Path", "HostConfig.BlkioWeightDevice[].Weight"],
    ),
    (
        {
            "NetworkingConfig": {
                "EndpointsConfig": {
                    "n": {"DriverOpts": {"com.docker.network.endpoint.sysctls": "x"}}
                }
            }
        },
        ["NetworkingConfig.EndpointsConfig{}.DriverOpts{}"],
    ),
    ({"Labels": {"a b": "c"}}, ["Labels{}"]),
    ({"Env": ["A={{x}}"], "Cmd": ["-x", "{{y}}"], "Labels": {"a": "{{z}}"}}, []),
]


@pytest.mark.parametrize(("body", "fields"), FIELDS)
def test_fields_of_no_type_are_named(body: Any, fields: list[str]) -> None:
    assert untyped(CREATE, body) == fields


VOLUMES: list[tuple[Any, list[str]]] = [
    ({"DriverOpts": {"type": "tmpfs", "device": "tmpfs", "o": "size=1m"}}, []),
    ({"Driver": "local", "DriverOpts": {"type": "tmpfs"}}, []),
    ({"DriverOpts": {"type": "tmpfs", "device": "/dev/sda"}}, ["DriverOpts"]),
    ({"DriverOpts": {"type": "tmpfs", "device": "tmpfs", "o": "bind"}}, ["DriverOpts"]),
    ({"Driver": "other", "DriverOpts": {"type": "tmpfs"}}, ["DriverOpts"]),
]


@pytest.mark.parametrize(("body", "fields"), VOLUMES)
def test_options_of_a_volume_have_one_of_the_forms_that_are_known(
    body: Any, fields: list[str]
) -> None:
    assert untyped("/v1.41/volumes/create", {"Name": "v", **body}) == fields


@pytest.mark.parametrize(("kind", "field"), [("Secrets", "Secret"), ("Configs", "Config")])
def test_the_file_of_a_secret_is_not_a_template(kind: str, field: str) -> None:
    def service(name: str) -> list[str]:
        reference = {"File": {"Name": name}, f"{field}ID": "0a", f"{field}Name": "s"}
        container = {"Image": "busybox", kind: [reference]}
        return untyped(
            "/v1.41/services/create",
            {"Name": "s", "TaskTemplate": {"ContainerSpec": container}},
        )

    assert service("/run/key") == []
    assert service("{{.Service.Name}}") != []


def test_names_and_parameters_of_no_type_are_named() -> None:
    assert untyped("/v1.41/containers/c%20d/top?ps_args=axe", method="GET") == [
        "query.ps_args",
        "path",
    ]
    assert untyped("/v1.41/containers/c/top?ps_args=-ef", method="GET") == []
    assert untyped(f"{CREATE}?name={'a' * 12}", {}) == ["query.name"]
