"""Names of certificates: what is one, and what lies within a constraint."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from doorward.rego.builtins.x509.names import (
    Mailbox,
    in_domain,
    in_mailbox,
    in_range,
    is_domain,
    is_host,
    read_mailbox,
    unmapped,
)


@pytest.mark.parametrize(
    ("name", "host", "domain"),
    [
        ("", True, True),
        ("a", True, True),
        ("a.b:80", True, True),
        ("*.a", True, True),
        (".a", False, True),
        (".", False, False),
        ("..a", False, False),
        ("a.", False, False),
        ("a..b", False, False),
        ("a b", False, False),
        ("ä", False, False),
    ],
)
def test_hosts_and_domains(name: str, host: bool, domain: bool) -> None:
    assert (is_host(name), is_domain(name)) == (host, domain)


@pytest.mark.parametrize(
    ("text", "mailbox"),
    [
        ("a.b@c.d", Mailbox("a.b", "c.d")),
        ("a@", Mailbox("a", "")),
        (r"a\@b@c", Mailbox("a@b", "c")),
        (r'"a b\"c"@d', Mailbox('a b"c', "d")),
        ('""@d', Mailbox("", "d")),
        ("", None),
        ("a", None),
        ("@a", None),
        (".a@b", None),
        ("a.@b", None),
        ("a..b@c", None),
        ("a b@c", None),
        ("a@b.", None),
        ("a\\", None),
        ('"a', None),
        ('"a\\', None),
        ('"a\n"@b', None),
        ('"a\\\n"@b', None),
        ('"a"b', None),
    ],
)
def test_mailboxes(text: str, mailbox: Mailbox | None) -> None:
    assert read_mailbox(text) == mailbox


@pytest.mark.parametrize(
    ("name", "constraint", "permitted", "excluded"),
    [
        ("a.b", "", True, True),
        ("a.b", "B", True, True),
        ("b", ".b", False, False),
        ("a.b", ".b", True, True),
        ("ab", "b", False, False),
        ("*.b", "a.b", False, True),
        ("*.b", "a.c", False, False),
        ("*.b", "c", False, False),
    ],
)
def test_a_wildcard_is_excluded_with_one_of_its_names(
    name: str, constraint: str, permitted: bool, excluded: bool
) -> None:
    assert in_domain(name, constraint, excluded=False) is permitted
    assert in_domain(name, constraint, excluded=True) is excluded


@pytest.mark.parametrize(
    ("constraint", "within"),
    [
        ("a@B.c", True),
        ("A@b.c", False),
        ("b.c", True),
        ("c", True),
        (".b.c", False),
        ("a@@", False),
    ],
)
def test_mailboxes_within_constraints(constraint: str, within: bool) -> None:
    assert in_mailbox(Mailbox("a", "b.C"), constraint, excluded=False) is within


@pytest.mark.parametrize(
    ("address", "network", "permitted", "excluded"),
    [
        ("1.2.3.4", "1.2.0.0/16", True, True),
        ("1.3.3.4", "1.2.0.0/16", False, False),
        ("::1", "::/0", True, True),
        ("1.2.3.4", "::/0", False, False),
        ("::ffff:1.2.3.4", "::/0", False, True),
        ("::ffff:1.2.3.4", "1.2.0.0/16", False, True),
        ("::ffff:1.3.3.4", "1.2.0.0/16", False, False),
    ],
)
def test_an_address_in_another_form_is_permitted_nowhere_and_excluded_by_both(
    address: str, network: str, permitted: bool, excluded: bool
) -> None:
    range_ = ip_network(network)
    constraint = range_.network_address.packed + range_.netmask.packed
    octets = ip_address(address).packed
    assert in_range(octets, constraint, excluded=False) is permitted
    assert in_range(octets, constraint, excluded=True) is excluded
    assert len(unmapped(octets)) == (16 if address == "::1" else 4)
