"""Chains of certificates, verified as Go's `crypto/x509` verifies them.

A leaf, intermediates and one root become a chain, or an error says why there is none. Checked are
signatures (SHA-1 and older are refused), validity at a moment, that issuers may issue, path
lengths, policies, purposes, name constraints and the name asked for. An extension that is critical
and not understood ends it. Bounds: `MAX_SIGNATURES` checked for one leaf; names and constraints are
as many as certificates hold, so the caller looks at the clock at each name. Why the chain is not
built by `cryptography.x509.verification` is in docs/design.md, "The repository".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from ipaddress import ip_address
from typing import Any, Final

from doorward.base.records import mutable, record
from doorward.rego.builtins.x509.certificates import Certificate
from doorward.rego.builtins.x509.names import (
    in_domain,
    in_mailbox,
    in_range,
    is_host,
    read_mailbox,
    unmapped,
)
from doorward.rego.builtins.x509.policies import has_valid_policies
from doorward.rego.builtins.x509.public_keys import ECDSA, ED25519, RSA
from doorward.rego.golang import urls

__all__ = ["ANY_PURPOSE", "Options", "Unverified", "verified_chain"]

ANY_PURPOSE: Final = 0
SERVER_PURPOSE: Final = 1
MAX_SIGNATURES: Final = 100
"""The most signatures checked in search of a chain for one leaf; after that it is not verified."""

SECOND: Final = 1_000_000_000
_CERTIFICATE_SIGNING: Final = 1 << 5
_LABEL: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")


class Unverified(Exception):
    """The certificate cannot be verified by any chain; the message says why."""


@record
class Options:
    """The requirements on a chain: a host name or IP address ("" for none), the time in nanoseconds
    since the epoch, and purposes (Go's numbers) of which one must fit.
    """

    now_ns: int
    name: str = ""
    purposes: tuple[int, ...] = (SERVER_PURPOSE,)


def verified_chain(
    certificates: Sequence[Certificate], options: Options, check_deadline: Callable[[], None]
) -> list[Certificate]:
    """Return a chain from the last certificate (the leaf) to the first (the root, which is
    trusted). Raise Unverified if there is none, or the leaf is not for the name. A leaf that is the
    root itself is a chain alone. `check_deadline` is called for each certificate and name.
    """
    root, *intermediates, leaf = certificates
    search = _Search(root, _without_repetitions(intermediates), options, check_deadline)
    search.check_validity(leaf)
    if options.name:
        _check_name(leaf, options.name)
    chains = iter([[leaf]]) if leaf.raw == root.raw else search.chains([leaf])
    for chain in chains:
        if (
            has_valid_policies(chain)
            and _is_for(options.purposes, chain)
            and _is_within_constraints(chain, check_deadline)
        ):
            return chain
    raise Unverified("certificate signed by unknown authority")


def _without_repetitions(certificates: Sequence[Certificate]) -> list[Certificate]:
    return list({certificate.raw: certificate for certificate in certificates}.values())


@mutable
class _Search:
    """The search for chains. `signatures` counts those checked so far."""

    root: Certificate
    intermediates: list[Certificate]
    options: Options
    check_deadline: Callable[[], None]
    signatures: int = 0

    def chains(self, chain: list[Certificate]) -> Iterator[list[Certificate]]:
        """Yield the chains that begin with `chain`, continue through intermediates and end with the
        root, each link checked: issuer, signature, validity, and that the issuer may issue here.
        Policies, purposes and names are not checked, nor is the last certificate of `chain`. After
        `MAX_SIGNATURES` no more are found.
        """
        child = chain[-1]
        if self._continues(chain, self.root):
            yield [*chain, self.root]
        for parent in _by_key(self.intermediates, child):
            # As in Go, only a root may be an authority without an extension that says so, as those
            # of versions 1 and 2 are.
            if self._continues(chain, parent) and parent.basic_constraints and parent.is_ca:
                yield from self.chains([*chain, parent])

    def _continues(self, chain: list[Certificate], parent: Certificate) -> bool:
        """Return True if `parent`, which is not in `chain` yet, has issued its last certificate, is
        valid, and allows a chain of this length. Counts the signatures that it checks: after
        `MAX_SIGNATURES` each further one counts as wrong.
        """
        child = chain[-1]
        if parent.subject.raw != child.issuer.raw or parent.key.value is None:
            return False
        if _is_in(parent, chain):
            return False
        self.signatures += 1
        if self.signatures > MAX_SIGNATURES or not _has_issued(parent, child):
            return False
        try:
            self.check_validity(parent)
        except Unverified:
            return False
        is_limited = parent.basic_constraints and parent.max_path >= 0
        return not is_limited or len(chain) - 1 <= parent.max_path

    def check_validity(self, certificate: Certificate) -> None:
        """Raise Unverified if the certificate is not valid at the time in the options, or has a
        critical extension that is not understood. Checks the deadline.
        """
        self.check_deadline()
        if certificate.unhandled:
            raise Unverified("unhandled critical extension")
        start, end = certificate.not_before.timestamp(), certificate.not_after.timestamp()
        if not int(start) * SECOND <= self.options.now_ns <= int(end) * SECOND:
            raise Unverified("certificate has expired or is not yet valid")


def _by_key(candidates: Sequence[Certificate], child: Certificate) -> list[Certificate]:
    """Return candidates in the order in which Go tries them: those with the key that the child
    names as its issuer's first, then those of which the key is not known, then others.
    """

    wanted = child.authority_key or b""

    def rank(candidate: Certificate) -> int:
        """Return 0 for a certificate with the wanted key, also if neither names one, 2 for one with
        another key, and 1 if only one of the two is known.
        """
        own = candidate.subject_key or b""
        if own == wanted:
            return 0
        return 2 if own and wanted else 1

    return sorted(candidates, key=rank)


def _is_in(candidate: Certificate, chain: Sequence[Certificate]) -> bool:
    """Return True if a certificate of the chain has the candidate's subject, key and alternative
    names: two that sign each other make no endless chain. As in Go, a first one with this subject
    and key of which only one of the two has names makes it False.
    """
    names = candidate.alternative_names()
    for certificate in chain:
        if (certificate.subject.raw, certificate.key.raw) == (
            candidate.subject.raw,
            candidate.key.raw,
        ):
            others = certificate.alternative_names()
            if (names is None) != (others is None):
                return False
            if names == others:
                return True
    return False


def _has_issued(issuer: Certificate, child: Certificate) -> bool:
    """Return True if `issuer` may sign certificates, by its constraints and key usage, and has
    signed `child`; times and names are not compared.
    """
    # The constraints of a certificate of version 3 say whether it is an authority.
    may_sign = issuer.is_ca if issuer.basic_constraints else issuer.version < 3
    if not may_sign or (issuer.key_usage and not issuer.key_usage & _CERTIFICATE_SIGNING):
        return False
    return _is_signed(issuer, child)


_PKCS1: Final = {4: "SHA256", 5: "SHA384", 6: "SHA512"}
_ECDSA: Final = {10: "SHA256", 11: "SHA384", 12: "SHA512"}
_PSS: Final = {13: "SHA256", 14: "SHA384", 15: "SHA512"}
"""The hashes of the signature algorithms that count, by Go's numbers; MD5 and SHA-1 do not."""
_PURE_ED25519: Final = 16


def _is_signed(issuer: Certificate, child: Certificate) -> bool:
    """Return True if the signature of `child` is that of the issuer's key, by an algorithm that is
    neither unknown nor insecure; False for an RSA key of fewer than `MIN_RSA_BITS`.
    """
    # only chains need it
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    kind, number = issuer.key.algorithm, child.algorithm
    name = {RSA: {**_PKCS1, **_PSS}, ECDSA: _ECDSA}.get(kind, {}).get(number)
    how: tuple[Any, ...] = ()
    if name is not None:
        hash_ = getattr(hashes, name)()
        pss = padding.PSS(padding.MGF1(hash_), padding.PSS.DIGEST_LENGTH)
        if kind == ECDSA:
            how = (ec.ECDSA(hash_),)
        else:
            how = (pss if number in _PSS else padding.PKCS1v15(), hash_)
    elif (kind, number) != (ED25519, _PURE_ED25519):
        return False
    try:
        key: Any = load_der_public_key(issuer.key.raw)
        if kind == RSA and key.key_size < MIN_RSA_BITS:
            return False
        key.verify(child.signature, child.signed, *how)
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        return False
    return True


MIN_RSA_BITS: Final = 1024
"""The fewest bits of an RSA key whose signatures count."""


def _is_for(purposes: tuple[int, ...], chain: Sequence[Certificate]) -> bool:
    """Return True if all certificates of the chain allow one of `purposes`, the same for all. A
    certificate without extended key usages allows each.
    """
    left = set(purposes)
    if ANY_PURPOSE in left:
        return True
    for certificate in chain:
        allowed = certificate.purposes
        if (allowed or certificate.unknown_purposes) and ANY_PURPOSE not in allowed:
            left &= set(allowed)
    return bool(left)


def _check_name(leaf: Certificate, name: str) -> None:
    """Raise Unverified unless the leaf's alternative names include this DNS name (also by a
    wildcard) or IP address (which may be in brackets). The common name does not count.
    """
    is_bracketed = len(name) >= 3 and name[0] == "[" and name[-1] == "]"
    address = _read_address(name[1:-1] if is_bracketed else name)
    if address is not None:
        if any(unmapped(each) == address for each in leaf.names.addresses):
            return
    elif any(_matches(pattern, name) for pattern in leaf.names.dns):
        return
    raise Unverified("certificate is not valid for the name")


def _read_address(text: str) -> bytes | None:
    """Return the bytes of an IP address; None for another text, and for one with a zone."""
    try:
        return None if "%" in text else unmapped(ip_address(text).packed)
    except ValueError:
        return None


def _matches(pattern: str, name: str) -> bool:
    """Return True if a DNS name of a certificate covers `name`; `*` as its first label covers
    exactly one label. Other names must be equal.
    """
    pattern, name = _lowered(pattern), _lowered(name)
    host = name.removesuffix(".")
    if not _is_host_name(host) or not _is_pattern(pattern):
        return pattern == name and name not in ("", ".")
    first, *rest = pattern.split(".")
    label, *others = host.split(".")
    return rest == others and first in ("*", label)


def _lowered(name: str) -> str:
    """Return a name with its ASCII letters in lower case."""
    return "".join([each.lower() if each.isascii() else each for each in name])


def _is_pattern(pattern: str) -> bool:
    """Return True for a host name whose first label may be `*`, beside others."""
    first, dot, rest = pattern.partition(".")
    return _is_host_name(rest if first == "*" and dot else pattern)


def _is_host_name(name: str) -> bool:
    """Return True for labels of letters, digits, `-` (not at the beginning) and `_`."""
    labels = name.split(".")
    return all(label and label[0] != "-" and _LABEL.issuperset(label) for label in labels)


def _is_within_constraints(
    chain: Sequence[Certificate], check_deadline: Callable[[], None]
) -> bool:
    """Return True if the names of each certificate are within the name constraints of those above
    it. Below any constraint, a name that cannot be read is within none, nor is a URI without a host
    or with an IP address.
    """
    for position, certificate in enumerate(chain):
        issuers = [issuer for issuer in chain[position + 1 :] if issuer.has_constraints]
        if certificate.names.is_empty or not issuers:
            continue
        names = certificate.names
        hosts = [_host_of(uri) for uri in names.uris]
        mailboxes = [read_mailbox(each) for each in names.emails]
        if None in hosts or None in mailboxes or not all(map(is_host, names.dns)):
            return False
        readable_mailboxes = [each for each in mailboxes if each is not None]
        for issuer in issuers:
            kinds: list[tuple[Sequence[Any], Sequence[Any], Sequence[Any], _IsIn]] = [
                (names.addresses, issuer.permitted.addresses, issuer.excluded.addresses, in_range),
                (names.dns, issuer.permitted.dns, issuer.excluded.dns, in_domain),
                (hosts, issuer.permitted.uris, issuer.excluded.uris, in_domain),
                (readable_mailboxes, issuer.permitted.emails, issuer.excluded.emails, in_mailbox),
            ]
            for each, permitted, excluded, is_in in kinds:
                if not _are_allowed(each, permitted, excluded, is_in, check_deadline):
                    return False
    return True


_IsIn = Callable[..., bool]


def _are_allowed(
    names: Sequence[Any],
    permitted: Sequence[Any],
    excluded: Sequence[Any],
    is_in: _IsIn,
    check_deadline: Callable[[], None],
) -> bool:
    """Return True if no name is excluded, and each is permitted if any constraint permits names of
    its kind. `check_deadline` is called for each name, and may raise: a certificate may hold
    thousands of names and of constraints, and their product is what costs.
    """
    for name in names:
        check_deadline()
        if any(is_in(name, constraint, excluded=True) for constraint in excluded):
            return False
        if permitted and not any(
            is_in(name, constraint, excluded=False) for constraint in permitted
        ):
            return False
    return True


def _host_of(uri: str) -> str | None:
    """Return the host of a URI, without its port; None without a host, for an IP address, and for a
    port that cannot be read.
    """
    host = urls.read_url(uri).host
    if ":" in host and not host.endswith("]"):
        host = host.partition(":")[0]
    if not host or host.startswith("[") or _read_address(host) is not None:
        return None
    return host
