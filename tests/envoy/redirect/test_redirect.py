"""The init step's options become rules; nothing here touches the kernel."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.cli.main import run
from doorward.envoy.redirect.iptables import Iptables
from doorward.envoy.redirect.nft import Nft
from doorward.envoy.redirect.rules import Redirect, read_networks, read_ports, to_rules

SIDECAR = Redirect(port=8000, user=1111, open_ports=(8282,))
EVERYTHING = Redirect(
    port=8000,
    user=1111,
    open_ports=(8282, 15),
    outbound=9001,
    networks=read_networks(["10.0.0.0/8,192.0.2.1/32", "2001:db8::/32"]),
    capture_loopback=True,
)


def test_inbound_goes_to_the_proxy_but_for_the_ports_that_stay_open() -> None:
    chains = to_rules(SIDECAR, "ip")
    assert list(chains) == ["inbound", "prerouting"]
    assert [(rule.port, rule.then) for rule in chains["inbound"]] == [
        (8282, "return"),
        (None, 8000),
    ]
    assert to_rules(SIDECAR, "ip6") == chains


def test_on_a_host_only_the_ports_that_are_named_are_redirected() -> None:
    chains = to_rules(Redirect(port=8000, user=1111, only_ports=(8080,)), "ip")
    assert [(rule.port, rule.then) for rule in chains["inbound"]] == [(8080, 8000)]


def test_captured_loopback_spares_the_proxys_own_user() -> None:
    chains = to_rules(EVERYTHING, "ip6")
    assert [(rule.user, rule.then) for rule in chains["local"]] == [
        (1111, "return"),
        (None, "inbound"),
    ]
    assert [(rule.loopback, rule.then) for rule in chains["output"]] == [
        (True, "local"),
        (False, "outbound"),
    ]


def test_dockers_resolver_stays_reachable_on_its_port_only() -> None:
    spared = [rule for rule in to_rules(EVERYTHING, "ip")["local"] if rule.destination]
    assert [(rule.destination, rule.port, rule.then) for rule in spared] == [
        ("127.0.0.11", 53, "return")
    ]


def test_networks_of_one_family_say_nothing_about_the_other() -> None:
    only = Redirect(port=8000, user=1111, outbound=9001, networks=read_networks(["10.0.0.0/8"]))
    assert [rule.then for rule in to_rules(only, "ip")["outbound"]][-1] == 9001
    assert 9001 not in [rule.then for rule in to_rules(only, "ip6")["outbound"]]


def test_a_network_of_everything_has_no_condition() -> None:
    everything = Redirect(port=1, user=1, outbound=2, networks=read_networks(["0.0.0.0/0"]))
    assert to_rules(everything, "ip")["outbound"][-1].destination is None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"port": 0}, "`0` is not a port"),
        ({"port": 65536}, "`65536` is not a port"),
        ({"outbound": 70000}, "`70000` is not a port"),
        ({"open_ports": (1, -1)}, "`-1` is not a port"),
        ({"user": -1}, "not a numeric user id"),
        ({"user": 0}, "must not run as root"),
        ({"user": 2**32 - 1}, "not a numeric user id"),
        ({"open_ports": tuple(range(1, 66))}, "more than 64 ports"),
        ({"networks": read_networks(["10.0.0.0/8"])}, "set the outbound port"),
        ({"outbound": 1, "networks": read_networks(["10.0.0.0/8"]) * 257}, "more than 256"),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Redirect(**{"port": 8000, "user": 1111, **wrong})


@pytest.mark.parametrize(
    "text", ["", "80,", "80 81", "-1", "٨٠", "080000", "http", "0", "1;reboot"]
)
def test_what_is_no_port_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a port"):
        read_ports([text])


@pytest.mark.parametrize("text", ["", "10.0.0.1/8", "10.0.0.0/33", "example.org", "10.0.0.0/8;x"])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a network"):
        read_networks([text])


def test_the_script_of_nftables_replaces_a_whole_table_at_one_moment() -> None:
    assert Nft(["ip"]).script(EVERYTHING) == (
        "table ip doorward\n"
        "delete table ip doorward\n"
        "table ip doorward {\n"
        "chain inbound {\n"
        'tcp dport 15 return comment "port 15 stays open"\n'
        'tcp dport 8282 return comment "port 8282 stays open"\n'
        'meta l4proto tcp redirect to :8000 comment "all other connections go to the proxy"\n'
        "}\n"
        "chain local {\n"
        'meta skuid 1111 meta l4proto tcp return comment "the proxy reaches the application"\n'
        'ip daddr 127.0.0.11 tcp dport 53 return comment "name resolution of Docker"\n'
        'meta l4proto tcp jump inbound comment "neighbours are treated like clients"\n'
        "}\n"
        "chain outbound {\n"
        'oifname "lo" ip daddr != 127.0.0.1 meta l4proto tcp jump inbound '
        'comment "the application calls itself"\n'
        'meta skuid 1111 meta l4proto tcp return comment "the proxy is not sent to itself"\n'
        'ip daddr 127.0.0.1 meta l4proto tcp return comment "loopback stays loopback"\n'
        'ip daddr 10.0.0.0/8 meta l4proto tcp redirect to :9001 comment "as asked for"\n'
        'ip daddr 192.0.2.1 meta l4proto tcp redirect to :9001 comment "as asked for"\n'
        "}\n"
        "chain prerouting {\n"
        "type nat hook prerouting priority -101; policy accept;\n"
        'meta l4proto tcp jump inbound comment "what comes in"\n'
        "}\n"
        "chain output {\n"
        "type nat hook output priority -101; policy accept;\n"
        'oifname "lo" meta l4proto tcp jump local comment "what neighbours send"\n'
        'meta l4proto tcp jump outbound comment "what goes out"\n'
        "}\n"
        "}\n"
    )


def test_the_script_of_iptables_puts_jumps_first() -> None:
    assert Iptables("-legacy", ["ip6"]).script(SIDECAR) == (
        "# ip6tables-legacy-restore --noflush\n"
        "*nat\n"
        ":DOORWARD_IN - [0:0]\n"
        '-A DOORWARD_IN -p tcp -m tcp --dport 8282 -m comment --comment "port 8282 stays open" '
        "-j RETURN\n"
        '-A DOORWARD_IN -p tcp -m comment --comment "all other connections go to the proxy" '
        "-j REDIRECT --to-ports 8000\n"
        '-I PREROUTING 1 -p tcp -m comment --comment "what comes in" -j DOORWARD_IN\n'
        "COMMIT\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-u", "1111"], "-p and -u are needed"),
        (["-p", "8000"], "-p and -u are needed"),
        (["-p", "8000", "-u", "root"], "`root` is not a numeric user id"),
        (["-p", "8000", "-u", "0"], "Envoy must not run as root"),
        (["-p", "8000", "-u", "00", "--dry-run"], "Envoy must not run as root"),
        (["-p", "8000,8001", "-u", "1"], "`8000,8001` is not a port"),
        (["-p", "8000", "-u", "1", "-w", "x"], "`x` is not a port"),
        (["-p", "8000", "-u", "1", "-i", "10.0.0.0/8"], "set the outbound port"),
        (["-p", "8000", "-u", "1", "--backend", "ipchains"], "ipchains"),
    ],
)
def test_wrong_arguments_end_with_1_and_a_reason(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["envoy", "redirect", *arguments]) == 1
    assert said in capsys.readouterr().err


def test_a_dry_run_prints_the_rules(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["envoy", "redirect", "-p", "8000", "-u", "1111", "--dry-run"])
    assert code == 0
    assert "8000" in capsys.readouterr().out
