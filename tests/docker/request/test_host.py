"""Ranges that the host uses and sockets on which its daemon listens, as the input has them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from doorward.docker.request import host
from doorward.docker.request.call import AuthzRequest
from doorward.docker.request.daemon_settings import DaemonSettings
from doorward.docker.request.host import HostFacts, used_ranges
from doorward.docker.request.input import InputOptions, to_input

ROUTES = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    (tmp_path / "proc/net/route").write_text(ROUTES)
    (tmp_path / "proc/net/fib_trie").write_text(
        "  |-- 10.9.8.7\n              /32 host LOCAL\n  |-- 10.9.8.255\n   /32 link BROADCAST\n"
    )
    (tmp_path / "proc/net/ipv6_route").write_text(
        f"{'fd00' + '0' * 28} 40 {'0' * 32} 00 {'0' * 32} 00000100 1 0 00000001 eth0\n"
        f"{'0' * 32} 00 {'0' * 32} 00 {'0' * 32} 00000100 1 0 00000001 eth0\n"
    )
    (tmp_path / "proc/net/if_inet6").write_text(f"{'fc00' + '0' * 27}5 02 40 00 80 eth0\n")
    (tmp_path / "etc/resolv.conf").write_text("search x\nnameserver 10.53.0.1\n")
    return tmp_path


def test_routes_addresses_gateways_and_name_servers_are_used(root: Path) -> None:
    assert {str(each) for each in used_ranges(root)} == {
        "192.168.1.0/24", "192.168.1.1/32", "10.9.8.7/32", "fd00::/64", "fc00::5/128",
        "10.53.0.1/32",
    }  # fmt: skip


def test_a_table_that_is_not_read_to_its_end_may_have_every_range(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert taken(root, "203.0.113.0/24") == []
    monkeypatch.setattr(host, "_MAX_FILE", len(ROUTES))
    assert taken(root, "203.0.113.0/24") == ["0.0.0.0/0"]


def taken(root: Path, *subnets: str) -> list[str]:
    body = {"Name": "n", "IPAM": {"Config": [{"Subnet": each} for each in subnets]}}
    headers = {"Content-Type": "application/json"}
    request = AuthzRequest(
        "POST", "/v1.41/networks/create", headers=headers, body=json.dumps(body).encode()
    )
    view = to_input(request)
    HostFacts(config=str(root / "none"), pidfile=str(root / "none"), root=str(root)).join(view)
    ranges: list[str] = view["network"]["taken"]
    return ranges


@pytest.mark.parametrize(
    ("subnet", "expected"),
    [
        ("192.168.1.128/25", ["192.168.1.0/24"]),
        ("192.168.0.0/16", ["192.168.1.0/24", "192.168.1.1/32"]),
        ("10.53.0.0/24", ["10.53.0.1/32"]),
        ("fd00::/80", ["fd00::/64"]),
        ("172.28.0.0/16", []),
        ("x", ["every range"]),
    ],
)
def test_subnet_that_overlaps_what_the_host_uses(
    root: Path, subnet: str, expected: list[str]
) -> None:
    assert taken(root, "172.31.0.0/24", subnet) == expected


LISTENERS: list[tuple[list[str], dict[str, object], list[str]]] = [
    # arguments, daemon.json, open addresses
    ([], {}, []),
    (["-H", "unix:///run/d.sock", "-H=fd://"], {}, []),
    (["-H", "tcp://0.0.0.0:2375"], {}, ["tcp://0.0.0.0:2375"]),
    (["-Htcp://:2375"], {}, ["tcp://:2375"]),
    (["-DHtcp://:2375"], {}, ["tcp://:2375"]),
    (["-DH", "tcp://:2375"], {}, ["tcp://:2375"]),
    (["-H=tcp://:2375"], {}, ["tcp://:2375"]),
    (["--host=0.0.0.0:2375"], {}, ["0.0.0.0:2375"]),
    (["--host", "tcp://x", "--tls"], {}, ["tcp://x"]),
    (["-H", "tcp://x", "--tlsverify"], {}, []),
    (["-H", "tcp://x", "--tlsverify=true"], {}, []),
    (["-H", "tcp://x", "--tlsverify=false"], {}, ["tcp://x"]),
    (["-H", "tcp://x", "--tlsverify", "--tlsverify=0"], {}, ["tcp://x"]),
    ([], {"hosts": ["unix:///x", "tcp://y"]}, ["tcp://y"]),
    ([], {"hosts": ["tcp://y"], "tlsverify": True}, []),
    ([], {"hosts": ["tcp://y"], "tlsverify": "yes"}, ["tcp://y"]),
]


@pytest.mark.parametrize(("arguments", "document", "expected"), LISTENERS)
def test_sockets_on_which_nobody_is_verified(
    tmp_path: Path, arguments: list[str], document: dict[str, object], expected: list[str]
) -> None:
    config = tmp_path / "daemon.json"
    config.write_text(json.dumps(document))
    assert DaemonSettings.read(str(config), arguments).open_listeners == expected


@pytest.mark.parametrize("content", ["[]", "{", '"x"', '{"hosts": []}' + " " * (4 << 20)])
def test_a_configuration_that_cannot_be_read_may_listen_anywhere(
    tmp_path: Path, content: str
) -> None:
    config = tmp_path / "daemon.json"
    config.write_text(content)
    settings = DaemonSettings.read(str(config), ["-H", "tcp://x"])
    assert settings.open_listeners == [f"any address ({config} cannot be read)", "tcp://x"]
    assert settings.paths == [str(config)]


def test_the_configuration_is_the_one_that_the_daemon_was_started_with(tmp_path: Path) -> None:
    config = tmp_path / "other.json"
    config.write_text('{"hosts": ["tcp://y"]}')
    for arguments in (["--config-file", str(config)], [f"--config-file={config}"]):
        settings = DaemonSettings.read(str(tmp_path / "none"), arguments)
        assert settings.open_listeners == ["tcp://y"]
        assert str(config) in settings.paths


PATHS: list[tuple[list[str], dict[str, object], set[str]]] = [
    ([], {}, set()),
    ([], {"data-root": "/srv/docker", "debug": True, "exec-root": 7}, {"/srv/docker"}),
    ([], {"hosts": ["unix:///srv/api.sock", "tcp://y"]}, {"/srv/api.sock"}),
    (
        [],
        {"runtimes": {"x": {"path": "/srv/x", "runtimeArgs": ["--log=/srv/l"]}}},
        {"/srv/x", "/srv/l"},
    ),
    (["--data-root", "/srv/a", "-g=/srv/b", "-g/srv/c"], {}, {"/srv/a", "/srv/b", "/srv/c"}),
    (
        ["-Hunix:///srv/d", "-H", "unix:///srv/e", "-DH=unix:///srv/f"],
        {},
        {"/srv/d", "/srv/e", "/srv/f"},
    ),
    (
        ["--add-runtime", "x=/srv/x", "--add-runtime=y=/srv/y", "-l", "debug"],
        {},
        {"/srv/x", "/srv/y"},
    ),
    (["-Htcp://y/srv", "--host=fd://", "--log-opt", "a=b/c"], {}, set()),
]


@pytest.mark.parametrize(("arguments", "document", "expected"), PATHS)
def test_paths_that_the_daemon_uses(
    tmp_path: Path, arguments: list[str], document: dict[str, object], expected: set[str]
) -> None:
    config = tmp_path / "daemon.json"
    config.write_text(json.dumps(document))
    settings = DaemonSettings.read(str(config), arguments)
    assert settings.paths == sorted({str(config), *expected})


def test_input_says_which_paths_the_daemon_uses(tmp_path: Path) -> None:
    config = tmp_path / "daemon.json"
    config.write_text('{"hosts": ["unix:///srv/api.sock"], "data-root": "/"}')
    view = to_input(AuthzRequest("GET", "/v1.41/info"), InputOptions(protected=("/opt/data",)))
    HostFacts(config=str(config), pidfile=str(tmp_path / "none")).join(view)
    assert {"/opt/data", "/srv/api.sock", str(config)} <= set(view["protected"])
    assert "/" not in view["protected"]


def test_input_says_where_anybody_may_call(tmp_path: Path) -> None:
    config = tmp_path / "daemon.json"
    config.write_text('{"hosts": ["tcp://0.0.0.0:2375"]}')
    view = to_input(AuthzRequest("GET", "/v1.41/info"))
    HostFacts(config=str(config), pidfile=str(tmp_path / "none")).join(view)
    assert view["open_listeners"] == ["tcp://0.0.0.0:2375"]
