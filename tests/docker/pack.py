"""The policies of the package, compiled once for all tests of a process.

Tests of Docker put copies of them into folders, beside data of their own. A snapshot of such a
folder shares the compiled policies, which never change, with those before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any, Final

import pytest

from doorward.bundles.loader import Loaded
from doorward.docker.decider.embedded import PACK, EmbeddedPdp
from doorward.pdp import snapshot as module
from doorward.pdp.snapshot import Settings, Snapshot, build, read
from doorward.rego import Environment

__all__ = ["compiled_once", "pack_pdp", "pack_with_tests"]


@cache
def pack_pdp() -> EmbeddedPdp:
    """Decides by the policies as they are shipped; nobody closes it."""
    return EmbeddedPdp(watch=False)


@cache
def pack_with_tests() -> Snapshot:
    """The policies together with their tests."""
    return read([str(PACK)])


@contextmanager
def compiled_once() -> Iterator[None]:
    """Context in which snapshots of the shipped policies, or of copies, are compiled once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "build", _build_shared)
        yield


_ENVIRONMENT: Final = Environment()
"""The environment of all snapshots. It keeps responses of http.send; the policies do not use it."""
_SNAPSHOTS: Final[dict[tuple[object, ...], Snapshot]] = {}
"""The first snapshot of some policies and settings."""


@cache
def _shipped() -> dict[str, str]:
    """The names of the shipped policies by their texts."""
    return {path.read_text(): str(path) for path in PACK.glob("*.rego")}


def _build_shared(
    loaded: Loaded,
    settings: Settings | None = None,
    *,
    before: Snapshot | None = None,
    **options: Any,
) -> Snapshot:
    """As `build`. Copies of the shipped policies have the names of these if nothing else is loaded,
    and what was compiled for the names and settings is used again.
    """
    settings = settings or Settings()
    environment = replace(settings.environment, responses=_ENVIRONMENT.responses)
    texts = set(loaded.modules.values())
    is_copy = len(texts) == len(loaded.modules) and texts <= set(_shipped())
    if not is_copy or loaded.bundle_of or environment != _ENVIRONMENT:
        return build(loaded, settings, before=before, **options)
    settings = replace(settings, environment=_ENVIRONMENT)
    loaded = replace(loaded, modules=dict(sorted((_shipped()[text], text) for text in texts)))
    key = (*loaded.modules, settings.marked, settings.deadline)
    snapshot = build(loaded, settings, before=_SNAPSHOTS.get(key), **options)
    _SNAPSHOTS.setdefault(key, snapshot)
    return snapshot
