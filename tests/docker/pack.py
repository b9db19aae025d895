"""The policies of the package, compiled once for all tests of a process that only ask them."""

from __future__ import annotations

from functools import cache

from doorward.docker.decider.embedded import PACK, EmbeddedPdp
from doorward.pdp.snapshot import Snapshot, read

__all__ = ["pack_pdp", "pack_with_tests"]


@cache
def pack_pdp() -> EmbeddedPdp:
    """Decides by the policies as they are shipped; nobody closes it."""
    return EmbeddedPdp(watch=False)


@cache
def pack_with_tests() -> Snapshot:
    """The policies together with their tests."""
    return read([str(PACK)])
