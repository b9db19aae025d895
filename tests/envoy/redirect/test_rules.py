"""The init step against the kernel's real rules, by each back end, in namespaces of its own."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.envoy.namespaces import Namespace, doorward, make_namespace, need_namespaces, program
from tests.waiting import PATIENCE

from doorward.envoy.redirect.tracking import untracked_by_iptables, untracked_by_nft

BACK_ENDS = ("nft", "iptables-nft", "iptables-legacy", "iptables")
SIDECAR = ("envoy", "redirect", "-p", "8000", "-u", "1111", "-w", "8282")
EVERYTHING = (
    *SIDECAR, "-w", "15,9090", "-o", "9001", "-i", "10.0.0.0/8,192.0.2.1/32,0.0.0.0/0",
    "-i", "fd00::/64,2001:db8::1/128,::ffff:192.0.2.0/120", "--capture-loopback",
)  # fmt: skip
LEFT = ("-A PREROUTING -p udp -j ACCEPT", "-A OUTPUT -p udp -j ACCEPT")


@pytest.fixture
def inside() -> Iterator[Namespace]:
    need_namespaces()
    with make_namespace("rules") as created:
        yield created


@pytest.fixture(params=BACK_ENDS)
def back_end(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    program(name)
    return name


def rules(inside: Namespace) -> str:
    """Everything that any back end has in force, without counters."""
    listings = [inside.run("nft", "-s", "list", "ruleset").stdout]
    for name in ("iptables-legacy", "ip6tables-legacy"):
        listings.append(inside.run(name, "-t", "nat", "-S").stdout)
    return "".join(listings)


@pytest.mark.parametrize("arguments", [SIDECAR, EVERYTHING], ids=["sidecar", "everything"])
def test_rules_come_into_force_and_go(
    inside: Namespace, back_end: str, arguments: tuple[str, ...]
) -> None:
    by = ("--backend", back_end)
    assert inside.doorward(*arguments, *by, "--verify", check=False).returncode == 1
    assert inside.doorward(*arguments, *by).stdout == f"the redirection is in force ({back_end})\n"
    verified = inside.doorward(*arguments, *by, "--verify")
    assert (verified.stdout, verified.stderr) == ("", "")
    before = rules(inside)
    assert (
        inside.doorward(*arguments, *by).stdout
        == f"the redirection is in force already ({back_end})\n"
    )
    assert rules(inside) == before
    assert "removed" in inside.doorward("envoy", "redirect", "--remove").stdout
    assert "doorward" not in rules(inside).lower()
    assert inside.doorward("envoy", "redirect", "--remove").stdout == ""


def test_what_others_made_is_left_alone(inside: Namespace, back_end: str) -> None:
    if back_end == "nft":
        inside.run("nft", "add table ip mine { chain a { tcp dport 1 accept; }; }")
    else:
        for rule in LEFT:
            inside.run(back_end, "-t", "nat", *rule.split())
    before = rules(inside)
    inside.doorward(*EVERYTHING, "--backend", back_end)
    inside.doorward("envoy", "redirect", "--remove")
    after = rules(inside)
    for line in before.splitlines():
        assert line in after
    assert "doorward" not in after.lower()


@pytest.mark.parametrize(
    "damage",
    [
        ("-F", "DOORWARD_IN"),
        ("-D", "DOORWARD_IN", "1"),
        ("-D", "PREROUTING", "1"),
        ("-D", "OUTPUT", "1"),
        ("-A", "DOORWARD_LOCAL", "-p", "tcp", "-j", "ACCEPT"),
        ("-I", "DOORWARD_IN", "-p", "tcp", "--dport", "8080", "-j", "RETURN"),
        ("-I", "PREROUTING", "-p", "tcp", "--dport", "8080", "-j", "ACCEPT"),
        ("-R", "DOORWARD_LOCAL", "1", "-m", "owner", "--uid-owner", "0", "-j", "RETURN"),
        ("-A", "PREROUTING", "-p", "tcp", "-j", "DOORWARD_IN"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("variant", ["iptables-nft", "iptables-legacy", "ip6tables-nft"])
def test_damaged_chains_are_seen_and_repaired(
    inside: Namespace, variant: str, damage: tuple[str, ...]
) -> None:
    program(variant)
    by = ("--backend", variant.replace("ip6", "ip"))
    inside.doorward(*EVERYTHING, *by)
    inside.run(variant, "-t", "nat", *damage)
    seen = inside.doorward(*EVERYTHING, *by, "--verify", check=False)
    assert seen.returncode == 1
    assert variant in seen.stderr
    assert inside.doorward(*EVERYTHING, *by).stdout.startswith("the redirection is in force (")
    inside.doorward(*EVERYTHING, *by, "--verify")
    inside.doorward("envoy", "redirect", "--remove")
    assert "DOORWARD" not in rules(inside)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("delete table ip6 doorward", "there is no table ip6 doorward"),
        ("flush chain ip doorward inbound", "missing: tcp dport 15 return"),
        ("delete chain ip doorward prerouting", "missing: chain prerouting"),
        ("insert rule ip doorward inbound tcp dport 8080 accept", "not ours: tcp dport 8080"),
        ("add rule ip6 doorward local tcp dport 8080 return", "not ours: tcp dport 8080"),
        (
            "insert rule ip doorward inbound meta l4proto tcp redirect to :8000 "
            'comment "all other connections go to the proxy"',
            "in the wrong place",
        ),
    ],
)
def test_a_damaged_table_is_seen_and_repaired(inside: Namespace, damage: str, said: str) -> None:
    inside.doorward(*EVERYTHING, "--backend", "nft")
    inside.run("nft", damage)
    seen = inside.doorward(*EVERYTHING, "--backend", "nft", "--verify", check=False)
    assert seen.returncode == 1
    assert said in seen.stderr
    assert inside.doorward(*EVERYTHING).stdout == "the redirection is in force (nft)\n"
    inside.doorward(*EVERYTHING, "--verify")


def test_a_half_made_set_is_completed(inside: Namespace) -> None:
    inside.run("iptables-nft", "-t", "nat", "-N", "DOORWARD_IN")
    assert "in force" in inside.doorward(*SIDECAR, "--backend", "iptables-nft").stdout
    inside.doorward(*SIDECAR, "--verify")


def test_other_options_replace_the_rules(inside: Namespace, back_end: str) -> None:
    inside.doorward(*EVERYTHING, "--backend", back_end)
    inside.doorward(*SIDECAR, "--backend", back_end)
    inside.doorward(*SIDECAR, "--backend", back_end, "--verify")
    assert "9001" not in rules(inside)
    assert inside.doorward(*EVERYTHING, "--verify", check=False).returncode == 1


def test_another_back_end_takes_the_place_of_the_first(inside: Namespace) -> None:
    for name in ("iptables-legacy", "iptables-nft", "nft"):
        inside.doorward(*SIDECAR, "--backend", name)
        assert rules(inside).count("dport 8282") == 2  # once for IPv4, once for IPv6
    assert "DOORWARD" not in rules(inside)


def test_rules_are_found_by_whichever_means_they_were_made(
    inside: Namespace, back_end: str
) -> None:
    inside.doorward(*SIDECAR, "--backend", back_end)
    inside.doorward(*SIDECAR, "--verify")
    assert "in force already" in inside.doorward(*SIDECAR).stdout


def test_only_the_ports_that_are_named(inside: Namespace, back_end: str) -> None:
    only = (*SIDECAR, "--only", "8080,8443", "--capture-loopback")
    inside.doorward(*only, "--backend", back_end)
    inside.doorward(*only, "--backend", back_end, "--verify")
    assert "dport 8443" in rules(inside)


def test_who_stays_repairs_and_ends_when_told(inside: Namespace) -> None:
    command = inside.command(*doorward(), *SIDECAR, "--stay")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as staying:
        try:
            assert staying.stdout is not None
            assert staying.stdout.readline() == "the redirection is in force (nft)\n"
            inside.run("nft", "flush ruleset")
            assert staying.stdout.readline() == "the redirection is in force (nft)\n"
        finally:
            staying.terminate()
        assert staying.wait(PATIENCE) == 0
    inside.doorward(*SIDECAR, "--verify")


def test_what_a_dry_run_prints_is_what_comes_into_force(inside: Namespace) -> None:
    script = inside.doorward(*EVERYTHING, "--dry-run").stdout
    assert "doorward" not in rules(inside)
    inside.run("nft", "-f", "-", input=script)
    inside.doorward(*EVERYTHING, "--verify")


def test_net_admin_is_enough_and_needed(inside: Namespace) -> None:
    user = (program("setpriv"), "--reuid=65534", "--regid=65534", "--clear-groups")
    only = (*user, "--inh-caps=-all,+net_admin", "--ambient-caps=-all,+net_admin")
    none = (*user, "--inh-caps=-all")
    if inside.run(*none, *doorward(), "version", check=False).returncode != 0:
        pytest.skip("another user cannot read this checkout")
    for step in ((), ("--verify",), ("--remove",)):
        refused = inside.doorward(*SIDECAR, *step, before=none, check=False)
        assert refused.returncode == 1
        assert "NET_ADMIN is needed" in refused.stderr
    for name in ("nft", "iptables-nft"):
        inside.doorward(*SIDECAR, "--backend", name, before=only)
        inside.doorward(*SIDECAR, "--verify", before=only)
    for name in ("nft", "iptables-nft"):
        inside.doorward("envoy", "redirect", "--remove", "--backend", name, before=only)
    assert "doorward" not in rules(inside).lower()


def test_no_list_of_protocols_is_needed(inside: Namespace, back_end: str) -> None:
    if not Path("/etc/protocols").exists():
        pytest.skip("there is no /etc/protocols to hide")
    hidden = 'mount --bind /dev/null /etc/protocols && exec "$@"'
    before = (program("unshare"), "--mount", "sh", "-c", hidden, "sh")
    assert "in force" in inside.doorward(*EVERYTHING, "--backend", back_end, before=before).stdout
    inside.doorward(*EVERYTHING, "--verify", before=before)
    inside.doorward(*EVERYTHING, "--verify")


def test_no_shell_and_no_environment_is_used(inside: Namespace, tmp_path: Path) -> None:
    trap = tmp_path / "sh"
    trap.write_text("#!/bin/true\n")
    trap.chmod(trap.stat().st_mode | stat.S_IXUSR)
    before = (program("env"), "-i", f"PATH={tmp_path}", f"SHELL={trap}", "IFS=8")
    inside.doorward(*SIDECAR, before=before)
    inside.doorward(*SIDECAR, "--verify")
    assert os.listdir(tmp_path) == ["sh"]


@pytest.mark.parametrize(
    "rule",
    [
        ("iptables-nft", "-t", "raw", "-A", "PREROUTING", "-p", "tcp", "-j", "CT", "--notrack"),
        ("iptables-nft", "-t", "raw", "-A", "PREROUTING", "-p", "tcp", "-j", "NOTRACK"),
        ("ip6tables-nft", "-t", "raw", "-A", "OUTPUT", "-j", "CT", "--notrack"),
        ("iptables-legacy", "-t", "raw", "-A", "PREROUTING", "-p", "tcp", "-j", "CT", "--notrack"),
    ],
)
def test_a_rule_that_ends_connection_tracking_is_reported(
    inside: Namespace, rule: tuple[str, ...]
) -> None:
    inside.doorward(*SIDECAR)
    inside.doorward(*SIDECAR, "--verify")
    if inside.run(*rule, check=False).returncode != 0:
        pytest.skip(f"this kernel has no table raw for {rule[0]}")
    seen = inside.doorward(*SIDECAR, "--verify", check=False)
    assert seen.returncode == 1
    assert "so that they pass the redirection" in seen.stderr + seen.stdout


def test_a_rule_of_nftables_that_ends_connection_tracking_is_reported(inside: Namespace) -> None:
    inside.doorward(*SIDECAR)
    inside.run("nft", "add", "table", "inet", "past")
    hook = "{ type filter hook prerouting priority raw; }"
    inside.run("nft", "add", "chain", "inet", "past", "first", hook)
    inside.run("nft", "add", "rule", "inet", "past", "first", "tcp", "dport", "8080", "notrack")
    seen = inside.doorward(*SIDECAR, "--verify", check=False)
    assert seen.returncode == 1
    said = seen.stderr + seen.stdout
    assert "nft: table inet past: chain first: `tcp dport 8080 notrack`" in said


def test_rules_that_keep_tracking_are_not_reported() -> None:
    listed = 'table ip a {\n chain b {\n  accept comment "notrack"\n  tcp dport 1 notrack\n }\n}\n'
    assert len(list(untracked_by_nft(listed))) == 1
    assert list(untracked_by_iptables("-P PREROUTING ACCEPT\n-A PREROUTING -j CT --zone 1\n")) == []
