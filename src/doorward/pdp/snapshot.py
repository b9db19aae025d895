"""One immutable view of policies, data and configuration: what a decision sees.

A snapshot is built aside and checked whole before anyone decides by it; nothing in it changes
afterwards but the store of queries that were prepared, which only saves work. A path becomes a
query by quoting each segment, so that no text of a path is ever read as Rego.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from doorward.pdp.deadline import DEADLINE
from doorward.pdp.loader import Loaded
from doorward.pdp.sources import Sources
from doorward.rego import REGISTRY, Capabilities, Engine, Environment, Query, Registry
from doorward.rego.values import Key, Value, to_json

__all__ = ["PathKey", "Settings", "Snapshot", "build", "document_ref", "read"]

_log: Final = logging.getLogger(__name__)

PathKey = str | tuple[str, ...]
"""A document by its path: `a/b`, or its segments where one of them may hold a slash."""

MAX_PREPARED: Final = 1_000
"""Queries kept ready; a path asked for once more after that is compiled once more."""

_KEYWORDS: Final = frozenset(
    {"and", "as", "contains", "default", "else", "every", "false", "if", "import", "in"}
    | {"not", "null", "or", "package", "some", "true", "with"}
)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}\Z")


@dataclass(frozen=True, slots=True)
class Settings:
    """How policies are compiled and evaluated; the same for every snapshot of one server."""

    v0: bool = False
    deadline: float | None = DEADLINE
    """Seconds that one evaluation may take; None for as long as it likes."""
    max_items: int | None = None
    """How much the collections and texts that one evaluation makes may hold; None: not counted."""
    environment: Environment = field(default_factory=Environment)
    capabilities: Capabilities | None = None
    """What policies may use; None for everything."""
    registry: Registry = REGISTRY
    """The built-ins that there are."""


class Snapshot:
    """Compiled policies, their data, and the queries prepared on them so far."""

    __slots__ = ("_lock", "_prepared", "bundles", "deadline", "engine", "files", "revision")

    def __init__(
        self,
        engine: Engine,
        revision: str,
        files: Iterable[str] = (),
        deadline: float | None = None,
        bundles: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.engine = engine
        self.revision = revision
        self.files = tuple(files)
        self.deadline = deadline
        self.bundles: dict[Key, Value] = {
            name: {"revision": revision} if revision else {} for name, revision in bundles.items()
        }
        """The bundles it is made of, as decision logs and provenance show them."""
        self._prepared: dict[object, Query] = {}
        self._lock = threading.Lock()

    def document(self, path: PathKey, *, strict: bool = False) -> Query:
        """The query for the document at `path`; CompileError where it cannot be one.

        `strict`: errors of built-ins are errors, not undefined.
        """
        key = (path, strict) if strict else path
        query = self._prepared.get(key)
        if query is None:
            query = self._prepare(key, document_ref(path), strict=strict)
        return query

    def query(self, text: str, *, strict: bool = False) -> Query:
        """The query `text`, compiled once; `strict` as for `document`."""
        key = (None, text, strict)
        query = self._prepared.get(key)
        if query is None:
            query = self._prepare(key, text, strict=strict)
        return query

    def warm(self, paths: Iterable[PathKey]) -> None:
        """Prepare the queries that will be asked; CompileError where one cannot be."""
        for path in paths:
            self.document(path)

    def _prepare(self, key: object, text: str, *, strict: bool) -> Query:
        query = self.engine.prepare(text, strict_builtin_errors=strict, deadline=self.deadline)
        with self._lock:
            if len(self._prepared) >= MAX_PREPARED:
                del self._prepared[next(iter(self._prepared))]
            self._prepared[key] = query
        return query


def document_ref(path: PathKey) -> str:
    """The Rego reference for a path: `a/0/b c` -> `data.a[0]["b c"]`.

    Segments that are empty are dropped from a text; segments that are integers are indexes.
    """
    segments = [s for s in path.split("/") if s] if isinstance(path, str) else path
    return "data" + "".join(map(_operand, segments))


def _operand(segment: str) -> str:
    if _INTEGER.match(segment):
        return f"[{int(segment)}]"
    if _NAME.match(segment) and segment not in _KEYWORDS:
        return f".{segment}"
    return f"[{json.dumps(segment)}]"


def read(
    paths: Sequence[str], *, ignore: Sequence[str] = (), settings: Settings | None = None
) -> Snapshot:
    """The snapshot of files and folders: LoadError or CompileError, or one that can decide.

    An archive with signatures is refused: there is no key to verify them with.
    """
    settings = settings or Settings()
    loaded = Sources(paths, ignore=ignore, v0=settings.v0, signed=True).load()
    for note in loaded.notes:
        _log.warning(note)
    return build(loaded, settings)


def build(loaded: Loaded, settings: Settings | None = None) -> Snapshot:
    """Compile what was loaded. CompileError carries everything that is wrong with it."""
    settings = settings or Settings()
    engine = Engine(
        modules=loaded.modules,
        data=loaded.data,
        v0=settings.v0,
        rego_versions=loaded.rego_versions,
        environment=settings.environment,
        max_items=settings.max_items,
        capabilities=settings.capabilities,
        registry=settings.registry,
    )
    engine.check_data()
    revision = _revision(loaded)
    return Snapshot(engine, revision, loaded.files, settings.deadline, loaded.revisions)


def _revision(loaded: Loaded) -> str:
    """Twelve hexadecimal digits that differ when a policy or any data differs."""
    if loaded.digest:
        return loaded.digest[:12]
    digest = hashlib.sha256()
    for name, text in sorted(loaded.modules.items()):
        for part in (name, text):
            content = part.encode("utf-8", errors="surrogatepass")
            digest.update(b"%d:" % len(content) + content)
    digest.update(to_json(loaded.data).encode("utf-8", errors="surrogatepass"))
    return digest.hexdigest()[:12]
