"""One immutable view of policies, data and configuration: what a decision sees.

A snapshot is built aside and checked whole before anyone decides by it; nothing in it changes
afterwards but the store of queries that were prepared, which only saves work. A path becomes a
query by quoting each segment, so that no text of a path is ever read as Rego.

Paths come from clients, and a query costs milliseconds to prepare. So nothing is prepared for a
path without rules, one query is prepared at a time, what was not used lately is dropped, and
the paths that the configuration names never are.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import field, replace
from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from doorward.base.records import record
from doorward.bundles.loader import Loaded
from doorward.bundles.owners import Owners
from doorward.bundles.sources import Sources
from doorward.config.limits import DEADLINE, MAX_ITEMS
from doorward.pdp.kept_residuals import KeptResiduals
from doorward.pdp.partial_queries import PartialQueries
from doorward.pdp.process_memory import resident_memory
from doorward.rego import (
    REGISTRY,
    UNDEFINED,
    CompileError,
    Diagnostic,
    Engine,
    Environment,
    EvalError,
    Options,
    Query,
    Registry,
    Undefined,
    Value,
    compile,
    to_json,
)
from doorward.rego.shared import (
    CANCEL_ERROR,
    COMPILE_ERROR,
    CacheCounts,
    Capabilities,
    Key,
    Marks,
    Source,
    gc_paused,
)

if TYPE_CHECKING:
    from doorward.rego.tools import SavedPrograms

__all__ = [
    "INTEGER",
    "Document",
    "PathKey",
    "Settings",
    "Snapshot",
    "build",
    "document_ref",
    "read",
]

_log: Final = logging.getLogger(__name__)

PathKey = str | tuple[str, ...]
"""A document by its path: `a/b`, or its segments where one of them may hold a slash."""

MAX_PREPARED: Final = 1_000
"""Queries kept, beside those of the configuration: half of them from before the last change of
generation, which dropped those that had not been used since the one before."""
MAX_CACHED: Final = 1_024
"""Characters of the longest path that is kept: a longer one is prepared each time."""
MAX_SEGMENTS: Final = 100
"""Names in a path to rules or below them; OPA has no limit, and takes as long as they are many."""
PREPARE_WITHIN: Final = 5.0
"""Seconds that a query waits for its turn to be prepared."""

_KEYWORDS: Final = frozenset(
    {"and", "as", "contains", "default", "else", "every", "false", "if", "import", "in"}
    | {"not", "null", "or", "package", "some", "true", "with"}
)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)
INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}\Z")
"""A segment of a path that is an index."""


@record
class Settings:
    """The settings of compilation and evaluation; the same for every snapshot of one server."""

    v0: bool = False
    deadline: float | None = DEADLINE
    """Seconds that one evaluation may take; None for as long as it likes."""
    max_items: int | None = MAX_ITEMS
    """How much the collections and texts that one evaluation makes may hold; None: not counted."""
    max_errors: int = 10
    """Errors that a CompileError reports; 0: all."""
    environment: Environment = field(default_factory=Environment)
    capabilities: Capabilities | None = None
    """What policies may use; None for everything."""
    registry: Registry = REGISTRY
    """The built-ins that there are."""
    notes_answers: bool = False
    """Whether decisions say what built-ins that ask the world answered; they are `noting` then."""
    marked: bool = False
    """Whether decisions carry which rules answered, and where others failed."""
    saved: SavedPrograms | None = None
    """Where compiled policies are kept for the next start."""

    def options(self, rego_versions: Mapping[str, int] = MappingProxyType({})) -> Options:
        """Return the compiler's options. `rego_versions` are the versions that single files set."""
        return Options(
            v0=self.v0,
            rego_versions=rego_versions,
            environment=replace(self.environment, memory=resident_memory),
            max_items=self.max_items,
            max_errors=self.max_errors,
            capabilities=self.capabilities,
            registry=self.registry,
            marked=self.marked,
            saved=self.saved,
        )


class Document(Protocol):
    """A document with a value for each input."""

    def value(self, input: Any = ..., /) -> Any: ...

    def answer(self, input: Any = ..., /) -> Any: ...

    def marked_answer(
        self, input: Any = ..., answered: dict[str, dict[Key, Value]] | None = None, /
    ) -> tuple[Any, Marks]: ...


class Snapshot:
    """Compiled policies, their data, and the queries prepared on them so far."""

    __slots__ = (
        "_before",
        "_lookups",
        "_nowhere",
        "_pinned",
        "_queries",
        "_ready",
        "bundle_of",
        "bundles",
        "deadline",
        "engine",
        "files",
        "is_marked",
        "kept_residuals",
        "notes_answers",
        "owners",
        "partial_queries",
        "revision",
    )

    def __init__(
        self,
        engine: Engine,
        revision: str,
        loaded: Loaded | None = None,
        deadline: float | None = None,
        *,
        notes_answers: bool = False,
    ) -> None:
        loaded = loaded or Loaded()
        self.engine = engine
        self.is_marked = engine.options.marked
        """Whether answers come with what `Engine.read_marks` reads."""
        self.revision = revision
        self.files = loaded.files
        self.deadline = deadline
        self.notes_answers = notes_answers
        self.bundles = _show_bundles(loaded.revisions)
        """The bundles it is made of, as decision logs and provenance show them."""
        self.bundle_of: Mapping[str, str] = loaded.bundle_of
        """The bundle that a policy is from, by its file."""
        self.kept_residuals = KeptResiduals()
        """What is left of filters that were made before."""
        self.partial_queries = PartialQueries()
        """The queries that were prepared for partial evaluation."""
        self.owners = Owners(loaded.roots)
        """What bundles own, where nobody else may write."""
        self._queries = _Queries(engine, deadline)
        self._lookups = self._queries.lookups
        self._pinned: dict[object, Document] = {}
        self._ready: dict[object, Document] = {}
        self._before: dict[object, Document] = {}
        self._nowhere: dict[str, bool] = {}

    def with_data(
        self,
        data: dict[Key, Value],
        revision: str,
        *,
        bundles: Mapping[str, str] | None = None,
    ) -> Snapshot:
        """The same policies with other, already parsed data; nothing is compiled again.

        `bundles` are their revisions if they changed. Raise `CompileError` if a rule and the data
        define the same path.
        """
        engine = self.engine.with_data(data, is_parsed=True)
        engine.check_data()
        changed = copy(self)
        changed.engine = engine
        # Residuals contain values of the data, so that they are wrong for other data.
        changed.kept_residuals = KeptResiduals()
        changed.partial_queries = PartialQueries()
        changed.revision = revision
        if bundles is not None:
            changed.bundles = _show_bundles(bundles)
        changed._pinned = {key: _bind(each, engine) for key, each in self._pinned.items()}
        changed._ready, changed._before, changed._nowhere = dict(changed._pinned), {}, {}
        return changed

    def is_nowhere(self, path: str) -> bool:
        """Return True if neither a rule nor data exists at the configured `path`."""
        known = self._nowhere.get(path)
        if known is None:
            operands = _operands(path)
            known = self._nowhere[path] = not path or (
                not self.engine.has_rules(operands)
                and isinstance(self.engine.base_document(operands), Undefined)
            )
        return known

    def base_document(self, path: PathKey) -> Value | Undefined:
        """The base data at `path`, without the rules; undefined if there is none."""
        document: Value | Undefined = self.engine.base_document(_operands(path))
        return document

    def document(self, path: PathKey, *, strict: bool = False) -> Document:
        """Return the query of the document at `path`; its value is a CompileError where there
        cannot be one.

        `strict`: errors of built-ins are errors, not undefined.
        """
        next(self._lookups)
        key = (path, strict) if strict else path
        return self._ready.get(key) or self._document(key, path, strict=strict)

    def is_prepared(self, path: PathKey, *, strict: bool = False) -> bool:
        """Return True if the query of the document at `path` is compiled and cached."""
        key = (path, strict) if strict else path
        return key in self._ready or key in self._before

    def has_rule_at(self, path: PathKey) -> bool:
        """Return True if a rule is at `path`, or on the way to it."""
        return self.engine.has_rule_at(_operands(path))

    def query(self, text: str, *, strict: bool = False) -> Query:
        """The query `text`, compiled once; `strict` as for `document`."""
        next(self._lookups)
        key = (None, text, strict)
        query = self._ready.get(key) or self._prepare(key, text, strict=strict)
        if not isinstance(query, Query):
            query.value()  # raises the error of the compiler
        assert isinstance(query, Query)
        return query

    def cache_counts(self) -> dict[str, CacheCounts]:
        """Return the counts of `Engine.cache_counts`, and those of compiled queries and of filters
        of these policies."""
        return {
            **self.engine.cache_counts(),
            "filters": self.kept_residuals.counts,
            "queries": self._queries.counts,
        }

    def warm_rules(self) -> None:
        """Generate the code of every rule: clients may ask for any document."""
        self.engine.policies.warm()

    def warm(self, paths: Iterable[PathKey]) -> None:
        """Prepare the documents at `paths` permanently, with the code of their rules.

        Raise `CompileError` if one cannot be prepared.
        """
        for path in paths:
            document = self.document(path)
            if isinstance(document, _Broken):
                document.value()
            if isinstance(document, Query):
                document.warm()
                self._pinned[path] = self._ready[path] = document

    def _document(self, key: object, path: PathKey, *, strict: bool) -> Document:
        """Prepare the document at a path that is not in the cache of recent ones."""
        operands = _operands(path)
        if not self.engine.has_rules(operands):
            next(self._queries.unprepared)
            return _Base(self.engine.base_document(operands))
        # Compiling takes longer with each segment, and any client can send a long path.
        if len(operands) > MAX_SEGMENTS:
            next(self._queries.unprepared)
            message = f"a path has at most {MAX_SEGMENTS} names"
            raise CompileError([Diagnostic(COMPILE_ERROR, message)])
        return self._prepare(key, document_ref(path), strict=strict)

    def _prepare(self, key: object, text: str, *, strict: bool) -> Document:
        """Prepare the query of a document, or take it from the cache."""
        document = self._before.get(key)
        if document is None:
            document = _bind(self._queries.get(key, text, strict=strict), self.engine)
        if len(text) <= MAX_CACHED:
            self._ready[key] = document
            # Two generations come close to "least recently used" without a lock for each lookup.
            if len(self._ready) > len(self._pinned) + MAX_PREPARED // 2:
                self._before, self._ready = self._ready, dict(self._pinned)
        return document


def _show_bundles(revisions: Mapping[str, str]) -> dict[Key, Value]:
    return {
        name: {"revision": revision} if revision else {} for name, revision in revisions.items()
    }


class _Queries:
    """The queries that were prepared on some policies, whatever the data."""

    def __init__(self, engine: Engine, deadline: float | None) -> None:
        # Data comes and goes; what is prepared must not keep it.
        self._engine = engine.with_data({})
        self._deadline = deadline
        self._ready: dict[object, Document] = {}
        self._before: dict[object, Document] = {}
        self._lock = threading.Lock()
        self._compiled = 0
        # Steps of `count` are atomic, and take less time than a lock.
        self.lookups: Final = count()
        """Advances for each document and query that somebody asks for."""
        self.unprepared: Final = count()
        """The same for those that no query is prepared for."""

    @property
    def counts(self) -> CacheCounts:
        """Return the entries, hits and misses of the cache."""
        prepared = _steps(self.lookups) - _steps(self.unprepared)
        entries = len(self._ready) + len(self._before)
        return CacheCounts(entries, max(prepared - self._compiled, 0), self._compiled)

    def get(self, key: object, text: str, *, strict: bool) -> Document:
        """The compiled query `text`, cached under `key`."""
        # One at a time: whatever clients ask for, they cannot take all of the processor for it.
        if not self._lock.acquire(timeout=self._deadline or PREPARE_WITHIN):
            raise EvalError(CANCEL_ERROR, "too many paths are being compiled for the first time")
        try:
            document = self._ready.get(key) or self._before.get(key)
            if document is None:
                document = self._compile(text, strict=strict)
            if len(text) <= MAX_CACHED:
                self._ready[key] = document
                if len(self._ready) > MAX_PREPARED // 2:
                    self._before, self._ready = self._ready, {}
            return document
        finally:
            self._lock.release()

    def _compile(self, text: str, *, strict: bool) -> Document:
        """Prepare a query; the error of one that does not compile is cached in its place."""
        self._compiled += 1
        try:
            return self._engine.prepare(text, strict_builtin_errors=strict, deadline=self._deadline)
        except CompileError as error:
            return _Broken(error)


def _steps(counter: count[int]) -> int:
    """Return how often a counter was advanced: only its text says so without advancing it."""
    return int(repr(counter).removeprefix("count(").removesuffix(")"))


def _bind(document: Document, engine: Engine) -> Document:
    return document.bind(engine) if isinstance(document, Query) else document


class _Base:
    """A document that no rule has a part in: it is as it was given."""

    __slots__ = ("_value",)

    def __init__(self, value: Value | Undefined) -> None:
        self._value = value

    def value(self, input: Value | Undefined = UNDEFINED, /) -> Value | Undefined:
        return self._value

    answer = value

    def marked_answer(
        self, input: Value | Undefined = UNDEFINED, answered: object = None, /
    ) -> tuple[Any, Marks]:
        """Return the value without marks: no rule has decided."""
        return self._value, {}


class _Broken:
    """A path that cannot be a query."""

    __slots__ = ("_diagnostics",)

    def __init__(self, error: CompileError) -> None:
        self._diagnostics = error.diagnostics

    def value(self, input: Value | Undefined = UNDEFINED, answered: object = None, /) -> NoReturn:
        raise CompileError(self._diagnostics)

    answer = marked_answer = value


def document_ref(path: PathKey) -> str:
    """The Rego reference for a path: `a/0/b c` -> `data.a[0]["b c"]`.

    Segments that are empty are dropped from a text; segments that are integers are indexes.
    """
    return "data" + "".join(map(_operand_text, _operands(path)))


def _operands(path: PathKey) -> list[str | int]:
    segments = [s for s in path.split("/") if s] if isinstance(path, str) else path
    return [int(s) if INTEGER.match(s) else s for s in segments]


def _operand_text(operand: str | int) -> str:
    """Return a step of a path as Rego writes it: `.name`, `["key"]` or `[0]`."""
    if isinstance(operand, int):
        return f"[{operand}]"
    if _NAME.match(operand) and operand not in _KEYWORDS:
        return f".{operand}"
    return f"[{json.dumps(operand)}]"


def read(
    paths: Sequence[str],
    *,
    ignore: Sequence[str] = (),
    settings: Settings | None = None,
    before: Snapshot | None = None,
) -> Snapshot:
    """The snapshot of files and folders: LoadError or CompileError, or one that can decide.

    `before`: as for `build`. An archive with signatures is refused: there is no key to verify them
    with.
    """
    settings = settings or Settings()
    loaded = Sources(paths, ignore=ignore, v0=settings.v0, signed=True).load()
    for note in loaded.notes:
        _log.warning(note)
    return build(loaded, settings, before=before)


def build(
    loaded: Loaded,
    settings: Settings | None = None,
    *,
    revision: str | None = None,
    is_parsed: bool = False,
    before: Snapshot | None = None,
) -> Snapshot:
    """Compile what was loaded. CompileError carries everything that is wrong with it.

    `revision`: what it is known by, if not by its contents. `is_parsed`: its data came from files,
    and is not looked through for what no policy could match. `before`: the active snapshot, of
    which the modules that did not change are taken.
    """
    settings = settings or Settings()
    with gc_paused():
        policies = compile(
            _policies(loaded),
            settings.options(loaded.rego_versions),
            before=None if before is None else before.engine.policies,
        )
        engine = policies.bind(loaded.data, is_parsed=is_parsed)
        engine.check_data()
    return Snapshot(
        engine,
        revision or _revision(loaded),
        loaded,
        settings.deadline,
        notes_answers=settings.notes_answers,
    )


def _policies(loaded: Loaded) -> Mapping[str, str | Source]:
    """The policies with the names that errors display for them."""
    if not loaded.shown_names:
        return loaded.modules
    names = loaded.shown_names
    return {name: Source(names.get(name, name), text) for name, text in loaded.modules.items()}


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
