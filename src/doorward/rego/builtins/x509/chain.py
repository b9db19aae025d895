"""Chains of certificates, verified as Go's `crypto/x509` verifies them.

A leaf, intermediates and one root become a chain, or an error says why there is none. Checked are
signatures (SHA-1 and older are refused), validity at a moment, that issuers may issue, path
lengths, name constraints, purposes and the name asked for. An extension that is critical and not
understood ends it. Bounds: `MAX_SIGNATURES` checked for one leaf; names and constraints are as
many as certificates hold, so the caller looks at the clock at each name. Why the chain is not
built by `cryptography.x509.verification` is in docs/design.md, "The repository".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import field
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from doorward.base.records import mutable, record
from doorward.rego.builtins.x509.objects import CertificateFields

__all__ = ["ANY_PURPOSE", "Options", "Unverified", "verified_chain"]

ANY_PURPOSE: Final = 0
SERVER_PURPOSE: Final = 1
MAX_SIGNATURES: Final = 100
"""The most signatures checked in search of a chain for one leaf; after that it is not verified."""

_CERTIFICATE_SIGNING: Final = 1 << 5
_WEAK: Final = frozenset({"md5", "sha1"})
_HOST: Final = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?\Z", re.ASCII)


class Unverified(Exception):
    """The certificate cannot be verified by any chain; the message says why."""


@record
class Options:
    """The requirements on a chain: a host name or IP address ("" for none), the time in seconds
    since the epoch, and purposes (Go's numbers) of which one must fit.
    """

    now: int
    name: str = ""
    purposes: tuple[int, ...] = (SERVER_PURPOSE,)


def verified_chain(
    certificates: list[CertificateFields], options: Options, check_deadline: Callable[[], None]
) -> list[int]:
    """Return the indices of a chain from the last certificate (the leaf) to the first (the root,
    which is trusted). Raise Unverified if there is none, or the leaf is not for the name. A leaf
    that is the root itself is a chain alone, whatever its purposes. `check_deadline` is called for
    each certificate and name.
    """
    search = _Search(certificates, options, check_deadline)
    leaf = len(certificates) - 1
    search.check(leaf, [])
    if options.name:
        _check_name(certificates[leaf], options.name)
    # A leaf that is itself the trusted certificate needs no issuer.
    if certificates[leaf].raw == certificates[0].raw:
        return [leaf]
    for chain in search.chains([leaf]):
        if _is_for(options.purposes, [certificates[n] for n in chain]):
            return chain
    raise Unverified("certificate signed by unknown authority")


@mutable
class _Search:
    """The search for chains. `signatures` counts those checked so far, `loaded` keeps the
    certificates that cryptography has read.
    """

    certificates: list[CertificateFields]
    options: Options
    check_deadline: Callable[[], None]
    signatures: int = 0
    loaded: dict[int, Any] = field(default_factory=dict)

    def chains(self, chain: list[int]) -> Iterable[list[int]]:
        """Yield the chains that continue `chain` to the root and whose certificates and signatures
        are valid; their purposes are not checked. A certificate occurs once in a chain.
        """
        child = self.certificates[chain[-1]]
        for parent in range(len(self.certificates) - 1):
            if parent in chain or self.certificates[parent].subject != child.issuer:
                continue
            if any(self.certificates[n].raw == self.certificates[parent].raw for n in chain):
                continue
            try:
                self.check(parent, chain)
                self.check_signature(chain[-1], parent)
            except Unverified:
                continue
            if parent == 0:
                yield [*chain, parent]
            else:
                yield from self.chains([*chain, parent])

    def check(self, index: int, chain: list[int]) -> None:
        """Raise Unverified if the certificate is not valid at the time, has a critical extension
        that is not understood, or may not issue the certificates in `chain` (the root need not be
        an authority). An empty chain means that it is the leaf. Checks the deadline.
        """
        self.check_deadline()
        certificate = self.certificates[index]
        if certificate.unhandled:
            raise Unverified("unhandled critical extension")
        if not certificate.not_before <= self.options.now <= certificate.not_after:
            raise Unverified("certificate has expired or is not yet valid")
        if not chain:
            return
        if certificate.has_constraints:
            for below in chain:
                _check_constraints(certificate, self.certificates[below], self.check_deadline)
        if index != 0 and not (certificate.basic_constraints and certificate.is_ca):
            raise Unverified("certificate is not authorized to sign other certificates")
        limited = certificate.basic_constraints and certificate.max_path >= 0
        if limited and len(chain) - 1 > certificate.max_path:
            raise Unverified("too many intermediates for path length constraint")

    def check_signature(self, child: int, parent: int) -> None:
        """Raise Unverified unless `parent` may sign certificates and has signed `child`, with a
        hash other than MD5 and SHA-1; also after more than `MAX_SIGNATURES` checks, which are
        counted in `signatures`.
        """
        # only chains need it
        from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

        issuer = self.certificates[parent]
        # The constraints of a certificate of version 3 say whether it is an authority.
        may_sign = issuer.is_ca if issuer.basic_constraints else issuer.version < 3
        if not may_sign:
            raise Unverified("invalid signature: parent certificate cannot sign this certificate")
        if issuer.key_usage and not issuer.key_usage & _CERTIFICATE_SIGNING:
            raise Unverified("invalid signature: parent certificate cannot sign this certificate")
        self.signatures += 1
        if self.signatures > MAX_SIGNATURES:
            raise Unverified(
                "signature check attempts limit reached while verifying certificate chain"
            )
        certificate = self.load(child)
        try:
            hash_ = certificate.signature_hash_algorithm
            if hash_ is not None and hash_.name in _WEAK:
                raise Unverified("insecure algorithm")
            certificate.verify_directly_issued_by(self.load(parent))
        except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError) as error:
            raise Unverified("invalid signature") from error

    def load(self, index: int) -> Any:
        """Return cryptography's object of a certificate, read once; Unverified if it cannot be
        read.
        """
        from cryptography import x509  # only chains need it
        from cryptography.exceptions import UnsupportedAlgorithm

        if index not in self.loaded:
            try:
                raw = self.certificates[index].raw
                self.loaded[index] = x509.load_der_x509_certificate(raw)
            except (ValueError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
                raise Unverified("malformed certificate") from error
        return self.loaded[index]


def _is_for(purposes: tuple[int, ...], chain: list[CertificateFields]) -> bool:
    """Return True if all certificates of the chain allow one of `purposes`, the same for all. A
    certificate without extended key usages allows each.
    """
    left = set(purposes)
    if ANY_PURPOSE in left:
        return True
    for certificate in chain:
        allowed_purposes = certificate.purposes
        if (
            allowed_purposes or certificate.unknown_purposes
        ) and ANY_PURPOSE not in allowed_purposes:
            left &= set(allowed_purposes)
    return bool(left)


def _check_name(leaf: CertificateFields, name: str) -> None:
    """Raise Unverified unless the leaf's alternative names include this DNS name or IP address
    (which may be in brackets). The common name does not count.
    """
    literal = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    try:
        address = ip_address(literal)
    except ValueError:
        host = name.lower().removesuffix(".")
        if _HOST.match(name) and any(_matches(pattern.lower(), host) for pattern in leaf.names.dns):
            return
    else:
        if address.packed in leaf.names.addresses:
            return
    raise Unverified("certificate is not valid for the name")


def _matches(pattern: str, host: str) -> bool:
    """Return True if a certificate's name covers `host`; `*` as its first label covers exactly one
    label.
    """
    first, dot, rest = pattern.removesuffix(".").partition(".")
    if first == "*" and dot:
        label, host_dot, host_rest = host.partition(".")
        return bool(label) and bool(host_dot) and host_rest == rest
    return pattern.removesuffix(".") == host


def _check_constraints(
    issuer: CertificateFields, below: CertificateFields, check_deadline: Callable[[], None]
) -> None:
    """Raise Unverified if a name of the certificate `below` breaks the issuer's name constraints.
    `check_deadline` is called for each name, and may raise.
    """
    kinds: list[tuple[Any, Any, Any, Callable[[Any, Any], bool]]] = [
        (below.names.dns, issuer.permitted.dns, issuer.excluded.dns, _in_domain),
        (below.names.emails, issuer.permitted.emails, issuer.excluded.emails, _in_mailbox),
        (below.names.uris, issuer.permitted.uris, issuer.excluded.uris, _in_uri_domain),
        (below.names.addresses, issuer.permitted.addresses, issuer.excluded.addresses, _in_range),
    ]
    for names, permitted, excluded, is_in in kinds:
        for name in names:
            # A certificate may hold thousands of names and of constraints: their product is what
            # costs.
            check_deadline()
            if any(is_in(name, constraint) for constraint in excluded):
                raise Unverified("a name is excluded by a constraint")
            if permitted and not any(is_in(name, constraint) for constraint in permitted):
                raise Unverified("a name is not permitted by any constraint")


def _in_domain(name: str, constraint: str) -> bool:
    """Return True if a DNS name is the constraint's domain or below it; with a leading dot only
    below it. An empty constraint covers all.
    """
    name, constraint = name.lower().removesuffix("."), constraint.lower()
    if not constraint:
        return True
    if constraint.startswith("."):
        return name.endswith(constraint)
    return name == constraint or name.endswith(f".{constraint}")


def _in_mailbox(name: str, constraint: str) -> bool:
    """Return True if an e-mail address equals the constraint, or is at its host or, if the
    constraint begins with a dot, below its domain.
    """
    if "@" in constraint:
        return name == constraint
    return _in_host(name.rpartition("@")[2], constraint)


def _in_uri_domain(name: str, constraint: str) -> bool:
    """Return True if the URI's host is the constraint's or, if the constraint begins with a dot,
    below its domain; False for an invalid URI.
    """
    try:
        return _in_host(urlsplit(name).hostname or "", constraint)
    except ValueError:
        return False


def _in_host(host: str, constraint: str) -> bool:
    """Return True if the host equals the constraint, or is below one with a leading dot; an empty
    one covers all. For e-mail and URIs, where subdomains are not included (RFC 5280, 4.2.1.10).
    """
    host, constraint = host.lower(), constraint.lower()
    if not constraint:
        return True
    return host.endswith(constraint) if constraint.startswith(".") else host == constraint


def _in_range(address: bytes, constraint: bytes) -> bool:
    """Return True if an IP address is in the range: an address of the same version, followed by its
    mask.
    """
    half = len(constraint) // 2
    if len(address) != half:
        return False
    mask = constraint[half:]
    pairs = zip(address, constraint[:half], mask, strict=True)
    return all(a & m == c & m for a, c, m in pairs)
