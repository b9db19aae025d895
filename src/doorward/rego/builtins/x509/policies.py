"""The policies of a chain of certificates: RFC 5280, 6.1, as RFC 9618 updates it.

The tree of the RFC is a graph here, level by level: level i has the policies that are valid for
the first i certificates below the root, each with the policies of the level above that lead to it.
It is empty as soon as a certificate has no policies. A chain is refused only if one of its
certificates demands an explicit policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Final

from doorward.base.records import mutable
from doorward.rego.builtins.x509.certificates import Certificate
from doorward.rego.builtins.x509.der import Oid

__all__ = ["has_valid_policies"]

ANY_POLICY: Final = (2, 5, 29, 32, 0)


@mutable(eq=False)
class _Node:
    """A policy at one level. `expected` are the policies of the next certificate that follow from
    it.
    """

    policy: Oid
    expected: list[Oid]
    parents: set[_Node] = field(default_factory=set)
    children: set[_Node] = field(default_factory=set)


class _Graph:
    """The policies that are valid so far, by level and policy."""

    def __init__(self) -> None:
        self.levels: list[dict[Oid, _Node]] = [{ANY_POLICY: _Node(ANY_POLICY, [ANY_POLICY])}]

    @property
    def last(self) -> dict[Oid, _Node]:
        return self.levels[-1]

    def insert(self, policy: Oid, parents: Sequence[_Node]) -> _Node:
        """Add a policy to the last level, below `parents`, and return its node."""
        node = _Node(policy, [policy], set(parents))
        for parent in parents:
            parent.children.add(node)
        self.last[policy] = node
        return node

    def remove(self, level: int, policy: Oid) -> None:
        """Take a policy out of a level, with its links to the levels above and below; do nothing if
        it is not there.
        """
        node = self.levels[level].pop(policy, None)
        if node is not None:
            for parent in node.parents:
                parent.children.discard(node)
            for child in node.children:
                child.parents.discard(node)

    def prune(self) -> None:
        """Take out the policies of the levels between the first and the last from which no policy
        of the level below follows, from the bottom up; the first and the last level stay.
        """
        for level in range(len(self.levels) - 2, 0, -1):
            for policy in [p for p, node in self.levels[level].items() if not node.children]:
                self.remove(level, policy)

    def add_level(self, policies: Sequence[Oid], *, allows_any: bool) -> None:
        """Add a level for the next certificate, with those of its `policies` that the level above
        expects, or all of them if any policy is in that level. If any policy is among them and
        `allows_any`, the others that the level above expects are added too. Policies above from
        which none follows are taken out.
        """
        above = self.last
        by_expected: dict[Oid, list[_Node]] = {}
        for node in above.values():
            for policy in node.expected:
                by_expected.setdefault(policy, []).append(node)
        self.levels.append({})
        for policy in policies:
            if policy == ANY_POLICY:
                continue
            parents = by_expected.get(policy, [])
            if not parents and ANY_POLICY in above:
                parents = [above[ANY_POLICY]]
            if parents:
                self.insert(policy, parents)
        if ANY_POLICY in policies and allows_any:
            for policy, parents in by_expected.items():
                if policy not in self.last:
                    self.insert(policy, parents)
        self.prune()

    def map(self, mappings: dict[Oid, list[Oid]]) -> None:
        """Apply policy mappings: each key of `mappings` that is a policy of the last level is
        followed in the next certificate by the policies of its list instead of by itself. If the
        last level has any policy, a key that is missing there is added below that.
        """
        for issuer, subjects in mappings.items():
            node = self.last.get(issuer)
            if node is None and ANY_POLICY in self.last:
                node = self.insert(issuer, [self.last[ANY_POLICY]])
            if node is not None:
                node.expected = subjects

    def is_valid(self) -> bool:
        """Return True if some policy is valid for the whole chain: the last level has any policy,
        or the graph still has a policy that follows from any policy alone. The levels must be
        pruned.
        """
        return ANY_POLICY in self.last or any(
            node.policy != ANY_POLICY and {parent.policy for parent in node.parents} == {ANY_POLICY}
            for level in self.levels
            for node in level.values()
            if len(node.parents) == 1
        )


def has_valid_policies(chain: Sequence[Certificate]) -> bool:
    """Return True if the policies of a chain, from the leaf to the root, are valid. False if a
    certificate below the root demands an explicit policy and no policy is valid for all of them, or
    if one maps any policy where mappings count. True for a chain of one certificate. Signatures and
    times are not checked.
    """
    if len(chain) == 1:
        return True
    graph: _Graph | None = _Graph()
    # How many certificates may follow until a policy must be explicit, until mappings no longer
    # count, and until any policy no longer counts.
    explicit = mapping = any_policy = len(chain)
    below = list(reversed(chain[:-1]))
    for position, certificate in enumerate(below, 1):
        is_last = position == len(below)
        is_self_issued = certificate.issuer.raw == certificate.subject.raw
        policies = certificate.policies or []
        if not policies:
            graph = None
        if graph is None and explicit == 0:
            return False
        if graph is not None:
            allows_any = any_policy > 0 or (not is_last and is_self_issued)
            graph.add_level(policies, allows_any=allows_any)
            if not is_last and not _map_policies(graph, certificate, is_allowed=mapping > 0):
                return False
        if is_last:
            break
        if not is_self_issued:
            explicit, mapping = max(explicit - 1, 0), max(mapping - 1, 0)
            any_policy = max(any_policy - 1, 0)
        explicit = _least(explicit, certificate.require_explicit_policy)
        mapping = _least(mapping, certificate.inhibit_policy_mapping)
        any_policy = _least(any_policy, certificate.inhibit_any_policy)
    explicit = max(explicit - 1, 0)
    # RFC 5280, 6.1.5: the leaf counts as well, but only with a limit of 0.
    if chain[0].require_explicit_policy == 0:
        explicit = 0
    return explicit > 0 or (graph is not None and graph.is_valid())


def _least(count: int, limit: int | None) -> int:
    """Return the smaller of a count and a certificate's limit; a negative one does not count."""
    return count if limit is None or limit < 0 else min(count, limit)


def _map_policies(graph: _Graph, certificate: Certificate, *, is_allowed: bool) -> bool:
    """Apply the policy mappings of a certificate; where they are not allowed, the policies that
    they map are taken out. Return False if `ANY_POLICY` is on a side of an allowed one, so that the
    chain is refused.
    """
    mappings: dict[Oid, list[Oid]] = {}
    for issuer, subject in certificate.policy_mappings:
        if not is_allowed:
            graph.remove(len(graph.levels) - 1, issuer)
            graph.prune()
        elif ANY_POLICY in (issuer, subject):
            return False
        else:
            mappings.setdefault(issuer, []).append(subject)
    graph.map(mappings)
    return True
