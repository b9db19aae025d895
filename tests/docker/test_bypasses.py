"""Requests by which an attacker reached the host through the shipped policies: all are refused.

Each was tried on a real daemon, which obeyed. The first list is decided without the daemon, the
second with what the daemon says of a container (`--inspect`).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.docker.pack import pack_pdp

from doorward.docker.audit import AuditLog
from doorward.docker.plugin import Plugin
from doorward.docker.replay import replay
from doorward.docker.request.call import AuthzRequest
from doorward.docker.request.errors import RequestError
from doorward.docker.request.input import InputOptions, to_input
from doorward.docker.request.protected import protected_paths
from doorward.docker.request.secrets import mask_address

CREATE = "/v1.41/containers/create"
JSON = {"Content-Type": "application/json"}


def decide(
    uri: str,
    body: Any = None,
    *,
    method: str = "POST",
    data: dict[str, Any] | None = None,
    protected: tuple[str, ...] = (),
    auth_method: str = "",
    **headers: str,
) -> tuple[bool, list[str]]:
    """Whether the pack allows a request of an operator on the socket, and what it objects to."""
    content = None if body is None else json.dumps(body).encode()
    given = {name.replace("_", "-"): text for name, text in headers.items()}
    if content is not None:
        given.setdefault("Content-Type", "application/json")
    request = AuthzRequest(method, uri, headers=given, body=content, auth_method=auth_method)
    try:
        view = to_input(request, InputOptions(protected=protected))
    except RequestError as error:
        return False, [str(error)]
    result: Any = pack_pdp().decide(view).result
    return result["allow"], result.get("messages", [])


def volume(**options: str) -> dict[str, Any]:
    return {"Name": "v", "Driver": "local", "DriverOpts": options}


def mounted(**options: str) -> dict[str, Any]:
    config = {"DriverConfig": {"Name": "local", "Options": options}}
    mount = {"Type": "volume", "Target": "/v", "VolumeOptions": config}
    return {"Image": "img", "HostConfig": {"Mounts": [mount]}}


VOLUMES = [
    {"type": "tmpfs", "o": "rbind", "device": "."},
    {"type": "tmpfs", "o": "bind", "device": "etc"},
    {"type": "tmpfs", "o": "size=1,bind", "device": "../../etc"},
    {"type": "tmpfs", "o": "rbind,ro", "device": "/etc"},
    {"type": "ext4", "o": "bind", "device": "/etc"},
    {"type": "tmpfs", "o": "remount", "device": "tmpfs"},
    {"type": "tmpfs", "o": "rshared", "device": "tmpfs"},
    {"type": "overlay", "o": "lowerdir=etc", "device": "overlay"},
    {"type": "overlay", "o": "lowerdir+=/etc", "device": "overlay"},
    {"type": "proc", "device": "proc"},
    {"type": "ext4", "device": "/dev/sda1"},
    {"type": "ext4", "device": "sda1"},
    {"type": "tmpfs", "device": "tmpfs", "subpath": "/"},
]


@pytest.mark.parametrize("options", VOLUMES)
def test_volume_whose_options_reach_the_host(options: dict[str, str]) -> None:
    assert decide("/v1.41/volumes/create", volume(**options))[0] is False
    assert decide(CREATE, mounted(**options))[0] is False
    spec = {"Image": "img", "Mounts": mounted(**options)["HostConfig"]["Mounts"]}
    assert decide("/v1.41/services/create", {"TaskTemplate": {"ContainerSpec": spec}})[0] is False


@pytest.mark.parametrize("options", ["", "size=64m,mode=0700", "ro,nosuid,nodev,noexec,uid=1"])
def test_volume_in_memory_is_allowed(options: str) -> None:
    wanted = {"type": "tmpfs", "device": "tmpfs", **({"o": options} if options else {})}
    assert decide("/v1.41/volumes/create", volume(**wanted)) == (True, [])


def test_tmpfs_with_options_that_are_not_its_own() -> None:
    assert decide(CREATE, {"HostConfig": {"Tmpfs": {"/t": "rw,size=1m"}}})[0] is True
    assert decide(CREATE, {"HostConfig": {"Tmpfs": {"/t": "rw,bind"}}})[0] is False
    mount = {"Type": "tmpfs", "Target": "/t", "TmpfsOptions": {"Options": [["noexec"]]}}
    assert decide(CREATE, {"HostConfig": {"Mounts": [mount]}})[0] is True
    mount["TmpfsOptions"] = {"Options": [["rbind"]]}
    assert decide(CREATE, {"HostConfig": {"Mounts": [mount]}})[0] is False


@pytest.mark.parametrize("target", ["host", "k3j2h1", "0" * 64, "a1b2c3d4e5f6g7h8i9j0k1l2m"])
@pytest.mark.parametrize("position", ["Networks", "TaskTemplate"])
def test_service_in_the_network_of_the_host(target: str, position: str) -> None:
    networks = [{"Target": target}]
    task: dict[str, Any] = {"ContainerSpec": {"Image": "img"}}
    body: dict[str, Any] = {"TaskTemplate": task}
    (task if position == "TaskTemplate" else body)["Networks"] = networks
    assert decide("/v1.41/services/create", body)[0] is False


VERSIONS = ["1.0000000023", "01.23", "1.023", "1.41.", "1.41.0", ".1.41", "1..41", "1", "001.41"]


@pytest.mark.parametrize("version", VERSIONS)
def test_version_is_written_in_one_way(version: str) -> None:
    assert decide(f"/v{version}/containers/c/start", {"Privileged": True})[0] is False
    with pytest.raises(RequestError, match="API version"):
        to_input(AuthzRequest("GET", f"/v{version}/containers/json"))


FORMS = ["application/x-www-form-urlencoded", "Multipart/Form-Data; boundary=x"]


@pytest.mark.parametrize("content_type", [*FORMS, "application/x-tar", ""])
@pytest.mark.parametrize(
    "uri",
    [
        "/v1.41/build?t=ok&networkmode=none",
        "/v1.41/images/create?fromImage=ok",
        "/v1.41/images/create?fromSrc=-&repo=ok",
    ],
)
def test_query_that_a_form_replaces(uri: str, content_type: str) -> None:
    assert decide(uri, Content_Type=content_type)[0] is False


def test_archive_whose_query_decides_nothing_is_allowed_unless_it_is_a_form() -> None:
    assert decide("/v1.41/images/load", Content_Type="application/x-tar")[0] is True
    assert decide("/v1.41/images/load", Content_Type=FORMS[0])[0] is False


def test_pull_that_looks_like_an_import() -> None:
    uri = "/v1.41/images/create?fromImage=evil.io/x&fromSrc=-&repo=ok"
    view = to_input(AuthzRequest("POST", uri))
    assert (view["action"], view["image"]["name"]) == ("image.pull", "evil.io/x")
    view = to_input(AuthzRequest("POST", "/v1.41/images/create?fromImage=&fromSrc=-&repo=ok"))
    assert (view["action"], view["image"]["name"]) == ("image.import", "docker.io/library/ok")


def test_certificate_without_a_name_is_not_a_local_user() -> None:
    uri = "/v1.41/containers/json"
    assert decide(uri, method="GET")[0] is True
    allowed, messages = decide(uri, method="GET", auth_method="TLS")
    assert (allowed, messages) == (False, ["a client without a name may not container.list"])


LOGGING = [
    {"Type": "splunk", "Config": {"splunk-url": "http://x"}},
    {"Type": "fluentd", "Config": {"fluentd-address": "unix:///run/docker.sock"}},
    {"Type": "", "Config": {"syslog-address": "unixgram:///run/x"}},
    {"Type": "json-file", "Config": {"gelf-address": "udp://x"}},
]


@pytest.mark.parametrize("config", LOGGING)
def test_log_driver_that_sends_from_the_host(config: dict[str, Any]) -> None:
    assert decide(CREATE, {"HostConfig": {"LogConfig": config}})[0] is False
    driver = {"Name": config["Type"], "Options": config["Config"]}
    task = {"ContainerSpec": {"Image": "img"}, "LogDriver": driver}
    assert decide("/v1.41/services/create", {"TaskTemplate": task})[0] is False


def test_usual_logs_are_allowed() -> None:
    config = {"Type": "json-file", "Config": {"max-size": "1m"}}
    assert decide(CREATE, {"HostConfig": {"LogConfig": config}}) == (True, [])


def test_folder_of_a_checkpoint_and_annotations() -> None:
    uri = "/v1.41/containers/c/start?checkpoint=x&checkpoint-dir=/etc"
    assert decide(uri) == (False, ["folder of the checkpoint may not be chosen"])
    body = {"HostConfig": {"Annotations": {"org.systemd.property.X": "1"}}}
    assert decide(CREATE, body)[0] is False


def test_inputs_name_what_the_plugin_protects() -> None:
    request = AuthzRequest("GET", "/v1.41/info")
    view = to_input(request, InputOptions(protected=("/opt/data",)))
    assert view["protected"] == ["/opt/data"]


def test_what_the_daemon_and_the_plugin_use_is_protected_wherever_it_is(tmp_path: Path) -> None:
    link = tmp_path / "audit"
    link.symlink_to(tmp_path / "logs")
    paths = protected_paths([str(link), "", "-", "/opt/docker"])
    assert {"/opt/docker", str(link), str(tmp_path / "logs"), sys.prefix} <= set(paths)
    assert "/" not in paths


ADDRESSES = [
    ("user:pw@registry.io/x", "***@registry.io/x"),
    ("https://user:pw@host/x.tar", "https://***@host/x.tar"),
    ("//user:pw@host/share", "//***@host/share"),
    ("busybox:1@sha256:" + "a" * 64, "busybox:1@sha256:" + "a" * 64),
    ("git@host:x", "git@host:x"),
    ("host/a@b", "host/a@b"),
]


@pytest.mark.parametrize(("text", "masked"), ADDRESSES)
def test_password_in_an_address_is_masked(text: str, masked: str) -> None:
    assert mask_address(text) == masked


def test_password_stands_nowhere_in_the_input() -> None:
    uri = "/v1.41/images/create?fromImage=user:planted@registry.io/x"
    assert "planted" not in json.dumps(to_input(AuthzRequest("POST", uri)))
    options = {"type": "cifs", "device": "//user:planted@host/share"}
    body = json.dumps(volume(**options)).encode()
    request = AuthzRequest("POST", "/v1.41/volumes/create", headers=JSON, body=body)
    assert "planted" not in json.dumps(to_input(request)["mounts"])


def test_refused_request_is_in_the_audit_log_with_its_action(tmp_path: Path) -> None:
    audit = AuditLog(str(tmp_path / "log"))
    plugin = Plugin(pack_pdp(), audit=audit)
    uri = "/v1.41/images/create?fromImage=user:planted@registry.io/x"
    call = {"RequestMethod": "POST", "RequestUri": uri, "RequestHeaders": {"Content-Type": "x"}}
    plugin.answer("/AuthZPlugin.AuthZReq", json.dumps(call).encode())
    audit.close()
    [line] = (tmp_path / "log").read_text().splitlines()
    entry = json.loads(line)
    assert (entry["action"], entry["decision"]) == ("image.pull", "deny")
    assert "planted" not in line
    assert entry["uri"].startswith("/v1.41/images/create?fromImage=")


def test_log_goes_on_after_a_line_that_was_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    audit = AuditLog(str(path), with_input=True)
    plugin = Plugin(pack_pdp(), audit=audit)
    call = json.dumps({"RequestMethod": "GET", "RequestUri": "/v1.41/info"}).encode()
    plugin.answer("/AuthZPlugin.AuthZReq", call)
    write = os.write
    with monkeypatch.context() as patched:
        patched.setattr("os.write", lambda fd, line: write(fd, line[:40]))
        plugin.answer("/AuthZPlugin.AuthZReq", call)
    plugin.answer("/AuthZPlugin.AuthZReq", call)
    audit.close()
    assert audit.lost == 1
    assert [replayed.decision for replayed in replay([path], pack_pdp())] == ["allow", "allow"]


NETWORKS: list[tuple[dict[str, Any], str]] = [
    (
        {"IPAM": {"Config": [{"Subnet": "140.82.112.0/20"}]}},
        "subnet 140.82.112.0/20 is not allowed",
    ),
    ({"IPAM": {"Config": [None, {"subnet": "0.0.0.0/1"}]}}, "subnet 0.0.0.0/1 is not allowed"),
    (
        {"Options": {"com.docker.network.bridge.name": "br0"}},
        "network option com.docker.network.bridge.name is not allowed",
    ),
    ({"IPAM": {"Driver": "remote"}}, "address driver remote is not allowed"),
    ({"Driver": "macvlan"}, "network driver macvlan is not allowed"),
]


@pytest.mark.parametrize(("config", "message"), NETWORKS)
def test_network_that_takes_what_is_the_hosts(config: dict[str, Any], message: str) -> None:
    """The host routes the addresses of a bridge into it: a whole provider's, if it may."""
    assert decide("/v1.41/networks/create", {"Name": "n", **config}) == (False, [message])


def test_usual_network_is_allowed() -> None:
    config = {"Driver": "default", "Config": [{"Subnet": "172.28.0.0/16"}]}
    body = {"Name": "n", "IPAM": config, "Options": {"com.docker.network.driver.mtu": "1400"}}
    assert decide("/v1.41/networks/create", body) == (True, [])


REGISTRIES = [
    ("POST", "/v1.41/auth", {"serveraddress": "http://169.254.169.254/latest"}, "169.254.169.254"),
    ("POST", "/v1.41/auth", {"ServerAddress": "https://index.docker.io/v1/"}, "docker.io"),
    ("POST", "/v1.41/auth", {}, "docker.io"),
    ("GET", "/v1.41/images/search?term=127.0.0.1:5000/x", None, "127.0.0.1:5000"),
    ("GET", "/v1.41/images/search?term=busybox", None, "docker.io"),
    ("GET", "/v1.41/images/search?term=a/b", None, "docker.io"),
    ("GET", "/v1.41/distribution/evil.io/x/json", None, "evil.io"),
    ("GET", "/v1.41/distribution/busybox/json", None, "docker.io"),
]


@pytest.mark.parametrize(("method", "uri", "body", "registry"), REGISTRIES)
def test_registry_that_the_daemon_asks_is_shown(
    method: str, uri: str, body: Any, registry: str
) -> None:
    content = None if body is None else json.dumps(body).encode()
    view = to_input(AuthzRequest(method, uri, headers=JSON if body else {}, body=content))
    assert view["registry"] == registry


ULIMITS = [{"Name": "rtprio", "Hard": 99, "Soft": 99}]


def test_real_time_and_priority_are_not_given() -> None:
    message = "ulimit rtprio is not allowed"
    assert decide(CREATE, {"HostConfig": {"Ulimits": ULIMITS}}) == (False, [message])
    task = {"ContainerSpec": {"Image": "img", "Ulimits": ULIMITS}}
    assert decide("/v1.41/services/create", {"TaskTemplate": task}) == (False, [message])
    uri = f"/v1.41/build?ulimits={quote(json.dumps(ULIMITS))}"
    assert decide(uri, Content_Length="0") == (False, [message])
    spec = {"ContainerSpec": {"Image": "img", "OomScoreAdj": -1000}}
    assert decide("/v1.41/services/create", {"TaskTemplate": spec})[0] is False
