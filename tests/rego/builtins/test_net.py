"""Networks, where the recorded answers are silent: bounds, mapped addresses, look-ups."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from threading import Event, active_count

import pytest
from tests.rego.builtins.calls import invoke
from tests.waiting import PATIENCE

from doorward.rego.builtins import REGISTRY, Context, Environment
from doorward.rego.builtins.registry.resolver import MAX_PENDING, resolve
from doorward.rego.errors import BuiltinError, EvaluationAborted, LimitError
from doorward.rego.values import Value, make_set


def call(name: str, *operands: Value) -> Value:
    answer: Value = invoke(name, *operands)
    return answer


def test_a_mapped_address_is_the_address_itself() -> None:
    assert call("net.cidr_contains", "10.0.0.0/8", "::ffff:10.1.2.3") is True
    assert call("net.cidr_contains", "10.0.0.0/" + "0" * 5000 + "8", "10.1.2.3") is True
    assert call("net.cidr_expand", "::ffff:10.0.0.0/127") == make_set(["10.0.0.0", "10.0.0.1"])


def test_networks_of_mapped_addresses_are_merged_as_those_of_ipv4() -> None:
    merged = call("net.cidr_merge", ["::ffff:10.0.0.0/105", "10.128.0.0/9", "2001:db8::1/32"])
    assert merged == make_set(["10.0.0.0/8", "2001:db8::/32"])
    assert call("net.cidr_merge", ["::ffff:10.1.2.3/104"]) == make_set(["10.0.0.0/8"])


def test_addresses_of_several_last_parts_are_expanded() -> None:
    addresses = [f"10.0.{third}.{last}" for third in (254, 255) for last in range(256)]
    assert call("net.cidr_expand", "10.0.255.7/23") == make_set(addresses)
    assert call("net.cidr_expand", "10.0.0.5/31") == make_set(["10.0.0.4", "10.0.0.5"])


def test_all_of_ipv6_holds_no_ipv4() -> None:
    assert call("net.cidr_contains", "::/0", "10.1.2.3") is False


@pytest.mark.parametrize("cidr", ["10.0.0.0/8", "2001:db8::/64", "::/0"])
def test_too_large_a_network_is_not_expanded(cidr: str) -> None:
    with pytest.raises(LimitError, match="more than 65536 addresses"):
        call("net.cidr_expand", cidr)


def test_too_many_networks_are_not_merged() -> None:
    with pytest.raises(LimitError, match="more than 10000 networks"):
        call("net.cidr_merge", ["10.0.0.0/8"] * 10_001)


def test_a_host_that_is_not_allowed_is_not_looked_up() -> None:
    environment = Environment(lookup=lambda name, seconds: ["10.0.0.1"], allow_net=frozenset({"a"}))
    assert look_up(Context(environment), "A") == make_set(["10.0.0.1"])
    with pytest.raises(BuiltinError, match=r"unallowed host: b\.example"):
        look_up(Context(environment), "b.example")


def test_networks_hold_nothing_where_there_is_nothing() -> None:
    assert call("net.cidr_contains_matches", ["10.0.0.0/8", "::/0"], []) == frozenset()
    assert call("net.cidr_contains_matches", [], ["no network"]) == frozenset()
    with pytest.raises(BuiltinError, match="invalid CIDR address: bad"):
        call("net.cidr_contains_matches", ["bad"], [[1]])


def test_nobody_waits_for_a_resolver_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = Event()

    def hang(*_args: object, **_options: object) -> list[object]:
        hanging.wait(PATIENCE)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    try:
        for _ in range(MAX_PENDING):
            with pytest.raises(TimeoutError):
                resolve("a.example", 0.001)
        threads = active_count()
        with pytest.raises(TimeoutError):
            resolve("a.example", 0.01)
        assert active_count() <= threads  # no further thread waits
    finally:
        hanging.set()
    assert resolve("a.example", PATIENCE) == []


@pytest.mark.parametrize(
    "name",
    [
        *("127.0.0.1\0x", "127.1", "0x7f.1", "2130706433", "127.0.0.1 ", "[::1]", "127.0.0.1%lo"),
        *("", ".", "a..b", ".a", "-a", "a-", "a" * 64, "a." * 127 + "b", "é.example", "a b", "a/b"),
    ],
)
def test_what_is_no_domain_name_to_go_is_not_looked_up(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(socket, "getaddrinfo")
    with pytest.raises(OSError):
        resolve(name, PATIENCE)


@pytest.mark.parametrize(
    "name", ["a", "a.example.", "a_b", "_a.b-c", "xn--a", "1e2", "a." * 126 + "b"]
)
def test_a_domain_name_is_looked_up_as_it_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(host: bytes, *_args: object, **_options: object) -> list[object]:
        assert host == name.encode()
        return [(0, 0, 0, "", ("fe80::1%eth0", 0)), (0, 0, 0, "", ("10.0.0.1", 0))] * 2

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    assert resolve(name, PATIENCE) == ["fe80::1", "10.0.0.1"]


def test_a_name_that_the_resolver_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object, **_options: object) -> list[object]:
        raise socket.gaierror(-2, "not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(OSError, match="not known"):
        resolve("a.example", PATIENCE)


def looking_up(actual: Iterable[str] | OSError) -> Context:
    def lookup(name: str, seconds: float) -> Iterable[str]:
        if isinstance(actual, OSError):
            raise actual
        return actual

    return Context(Environment(lookup=lookup))


def look_up(context: Context, name: str) -> Value:
    answer: Value = REGISTRY["net.lookup_ip_addr"].call(context, name)
    return answer


def test_a_name_has_the_same_addresses_throughout_a_decision() -> None:
    addresses = [["10.0.0.1", "::1", "::ffff:10.0.0.2"], ["10.0.0.9"]]
    context = Context(Environment(lookup=lambda name, seconds: addresses.pop(0)))
    first = look_up(context, "a.example")
    assert first == make_set(["10.0.0.1", "::1", "10.0.0.2"])
    assert look_up(context, "a.example") is first


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(BuiltinError, match=r"lookup a\.example: no such host"):
        look_up(looking_up(OSError()), "a.example")


def test_a_look_up_that_takes_too_long_stops_the_evaluation() -> None:
    with pytest.raises(EvaluationAborted, match="timed out"):
        look_up(looking_up(TimeoutError()), "a.example")
    with pytest.raises(EvaluationAborted, match="timed out"):
        look_up(Context(Environment(), deadline=0.0), "a.example")


def test_an_address_is_its_own_name() -> None:
    assert resolve("127.0.0.1", 5) == ["127.0.0.1"]
    assert resolve("fe80::1%eth0", 5) == ["fe80::1"]
