"""One immutable view of policies, data and configuration, by which a decision is made.

A snapshot is built and checked completely before it is used. Nothing in it changes afterwards
except the cache of prepared queries, which only saves time. A path becomes a query by quoting each
segment, so that no text of a path is ever parsed as Rego.

Paths come from clients, and a query costs milliseconds to prepare. So nothing is prepared for a
path without rules, one query is prepared at a time, queries that were not used lately are dropped,
and those that the configuration names never are.
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

from doorward.base.collector import gc_paused
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
"""The path of a document: `a/b`, or its segments if one of them may contain a slash."""

MAX_PREPARED: Final = 1_000
"""The largest number of cached queries, those of the configuration not counted. They are in two
generations; the older one is dropped when the newer one is full.
"""
MAX_CACHED: Final = 1_024
"""The longest query text that is cached, in characters; longer ones are compiled each time."""
MAX_SEGMENTS: Final = 100
"""The largest number of names in a path that has rules. OPA has no limit, and its time grows with
the number.
"""
PREPARE_WITHIN: Final = 5.0
"""Seconds that a query waits for others to be compiled, if there is no deadline."""

_KEYWORDS: Final = frozenset(
    {"and", "as", "contains", "default", "else", "every", "false", "if", "import", "in"}
    | {"not", "null", "or", "package", "some", "true", "with"}
)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)
INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}\Z")
"""Matches a segment of a path that is an index."""


@record
class Settings:
    """The settings of compilation and evaluation; the same for every snapshot of one server."""

    v0: bool = False
    deadline: float | None = DEADLINE
    """The longest time of one evaluation, in seconds; None for no limit."""
    max_items: int | None = MAX_ITEMS
    """The limit of the collections and texts that one evaluation creates; None for no limit."""
    max_errors: int = 10
    """Errors that a CompileError reports; 0: all."""
    environment: Environment = field(default_factory=Environment)
    capabilities: Capabilities | None = None
    """The built-ins and features that policies may use; None for all."""
    registry: Registry = REGISTRY
    """The available built-ins."""
    notes_answers: bool = False
    """True if decisions carry the answers of impure built-ins; `registry` must then come from
    `noting`.
    """
    marked: bool = False
    """True if decisions carry the rules that answered, and where others failed."""
    saved: SavedPrograms | None = None
    """The store of compiled policies for the next start; None: they are not saved."""

    def options(self, rego_versions: Mapping[str, int] = MappingProxyType({})) -> Options:
        """Return the options for the compiler. `rego_versions` are the versions of Rego of single
        files, by name, which precede `v0`.
        """
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
    """A document that can be evaluated: `value` and `answer` return its value for an input;
    `marked_answer` also returns the outcomes of its rules: that one answered, or the row of the
    condition that failed.
    """

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
        before: Snapshot | None = None,
    ) -> None:
        """Take an engine and the contents, `loaded`, that it was built from.

        `deadline`: seconds for each evaluation, None for no limit. `notes_answers`: decisions
        also return what built-ins that are not deterministic answered. `before`: an earlier
        snapshot, whose compiled queries are used again if it has the same policies and deadline.
        """
        loaded = loaded or Loaded()
        self.engine = engine
        self.is_marked = engine.options.marked
        """True if the policies note marks, which `Policies.read_marks` reads."""
        self.revision = revision
        self.files = loaded.files
        self.deadline = deadline
        self.notes_answers = notes_answers
        self.bundles = _show_bundles(loaded.revisions)
        """The bundles in the snapshot with their revisions, as decision logs and provenance show
        them.
        """
        self.bundle_of: Mapping[str, str] = loaded.bundle_of
        """The name of the bundle that contains a policy, by the policy's file."""
        self.kept_residuals = KeptResiduals()
        """Cached residuals of filters."""
        self.partial_queries = PartialQueries()
        """Cached queries that are prepared for partial evaluation."""
        self.owners = Owners(loaded.roots)
        """The paths that bundles own; clients may not write there."""
        self._queries: _Queries
        # INVARIANT: a compiled query depends on the policies, and has the deadline in it; data is
        # bound to it for each snapshot (`_bind`).
        if before and before.engine.policies is engine.policies and before.deadline == deadline:
            self._queries = before._queries
        else:
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
        """Return a snapshot of the same policies with other, already parsed data. Nothing is
        compiled. The new snapshot starts without stored residuals and prepared partial queries,
        which depend on the data; this one keeps its own.

        `bundles` are the new revisions of bundles, if they changed. Raise `CompileError` if a rule
        and the data define the same path.
        """
        engine = self.engine.with_data(data, is_parsed=True)
        engine.check_data()
        changed = copy(self)
        changed.engine = engine
        # Residuals contain values of the data, so that they are wrong for other data.
        changed.kept_residuals = KeptResiduals()
        # Prepared partial queries are bound to an engine, and so to its data.
        changed.partial_queries = PartialQueries()
        changed.revision = revision
        if bundles is not None:
            changed.bundles = _show_bundles(bundles)
        # Bound now, not at the next request: what the configuration names must stay ready.
        changed._pinned = {key: _bind(each, engine) for key, each in self._pinned.items()}
        # Other queries are bound to the old data; `_queries` still has them compiled.
        changed._ready, changed._before, changed._nowhere = dict(changed._pinned), {}, {}
        return changed

    def is_nowhere(self, path: str) -> bool:
        """Return True if `path`, which the configuration names, is empty or has neither rules nor
        data. Each result is cached for good, so `path` must not come from clients.
        """
        known = self._nowhere.get(path)
        if known is None:
            operands = _operands(path)
            known = self._nowhere[path] = not path or (
                not self.engine.has_rules(operands)
                and isinstance(self.engine.base_document(operands), Undefined)
            )
        return known

    def base_document(self, path: PathKey) -> Value | Undefined:
        """Return the base data at `path`, without the rules; UNDEFINED if there is none."""
        document: Value | Undefined = self.engine.base_document(_operands(path))
        return document

    def document(self, path: PathKey, *, strict: bool = False) -> Document:
        """Return the document at `path`, compiled now or taken from the cache. If its path has no
        rules, its value is the data. If it does not compile, its evaluation raises CompileError.
        With `strict`, an error of a built-in is raised; otherwise it makes its expression
        undefined.

        Raise CompileError for more than `MAX_SEGMENTS` names, and EvalError if other threads
        compile for so long that the wait for them times out.
        """
        next(self._lookups)
        # INVARIANT: the keys of documents, strict documents and queries are never equal: a path is
        # a text or a tuple of texts only.
        key = (path, strict) if strict else path
        return self._ready.get(key) or self._document(key, path, strict=strict)

    def is_prepared(self, path: PathKey, *, strict: bool = False) -> bool:
        """Return True if the document at `path` is in the cache, so that nothing needs to be
        compiled; always False for a path without rules. `strict`: the one in which errors of
        built-ins are errors.
        """
        key = (path, strict) if strict else path
        return key in self._ready or key in self._before

    def has_rule_at(self, path: PathKey) -> bool:
        """Return True if a rule is at `path` or at a prefix of it."""
        return self.engine.has_rule_at(_operands(path))

    def query(self, text: str, *, strict: bool = False) -> Query:
        """Return the compiled query `text`, from the cache if it is there. With `strict`, an error
        of a built-in is raised; otherwise it makes its expression undefined. Raise CompileError if
        it does not compile, and EvalError if other threads compile for so long that the wait for
        them times out.
        """
        next(self._lookups)
        key = (None, text, strict)
        query = self._ready.get(key) or self._prepare(key, text, strict=strict)
        if not isinstance(query, Query):
            query.value()  # raises the error of the compiler
        assert isinstance(query, Query)
        return query

    def cache_counts(self) -> dict[str, CacheCounts]:
        """Return entries, hits and misses by cache: those of `Engine.cache_counts`, `queries`
        (compiled queries) and `filters` (cached residuals).
        """
        return {
            **self.engine.cache_counts(),
            "filters": self.kept_residuals.counts,
            "queries": self._queries.counts,
        }

    def warm_rules(self) -> None:
        """Generate the code of every rule now: clients may request any document."""
        self.engine.policies.warm()

    def warm(self, paths: Iterable[PathKey]) -> None:
        """Prepare the documents at `paths`, with the code of their rules, and never drop them from
        the cache. Paths without rules need nothing and are passed over. Raise `CompileError` if one
        cannot be prepared.
        """
        for path in paths:
            document = self.document(path)
            if isinstance(document, _Broken):
                document.value()
            if isinstance(document, Query):
                document.warm()
                self._pinned[path] = self._ready[path] = document

    def _document(self, key: object, path: PathKey, *, strict: bool) -> Document:
        """Prepare the document at a path that is not among the recent ones; the data itself if no
        rule or package is at or below the path. With `strict`, its evaluation raises errors of
        built-ins. Raise CompileError if the path has more than `MAX_SEGMENTS` names.
        """
        operands = _operands(path)
        if not (self.engine.has_rules(operands) or self.engine.has_package(operands)):
            next(self._queries.unprepared)
            # Not cached: a client may ask for any path, and a look-up in the data costs little.
            return _Base(self.engine.base_document(operands))
        # Compiling takes longer with each segment, and any client can send a long path.
        if len(operands) > MAX_SEGMENTS:
            next(self._queries.unprepared)
            message = f"the path has more than {MAX_SEGMENTS} names"
            raise CompileError([Diagnostic(COMPILE_ERROR, message)])
        return self._prepare(key, document_ref(path), strict=strict)

    def _prepare(self, key: object, text: str, *, strict: bool) -> Document:
        """Return the query `text`, bound to the engine, from the older generation of the cache or
        compiled, and put it into the newer one unless it is longer than `MAX_CACHED`; one that does
        not compile is a document that raises its error. With `strict`, errors of built-ins are
        errors; `key` must stand for text and `strict` together. EvalError if the wait for other
        compilations is too long.
        """
        document = self._before.get(key)
        if document is None:
            document = _bind(self._queries.get(key, text, strict=strict), self.engine)
        # Without a lock: at worst a document is put into a generation that was just dropped, and
        # prepared again.
        if len(text) <= MAX_CACHED:
            self._ready[key] = document
            # Two generations come close to "least recently used" without a lock for each lookup.
            if len(self._ready) > len(self._pinned) + MAX_PREPARED // 2:
                self._before, self._ready = self._ready, dict(self._pinned)
        return document


def _show_bundles(revisions: Mapping[str, str]) -> dict[Key, Value]:
    """Return the bundles with their revisions as logs show them: `{"name": {"revision": "…"}}`, {}
    for one without.
    """
    return {
        name: {"revision": revision} if revision else {} for name, revision in revisions.items()
    }


class _Queries:
    """The queries that were compiled for some policies. Snapshots of the same policies with other
    data share them.
    """

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
        """Advances at each request for a document or query."""
        self.unprepared: Final = count()
        """Advances at each request that needs no compiled query: data only, or a refused path."""

    @property
    def counts(self) -> CacheCounts:
        """The entries, hits and misses of the cache; a miss is a query that was compiled."""
        prepared = _steps(self.lookups) - _steps(self.unprepared)
        entries = len(self._ready) + len(self._before)
        return CacheCounts(entries, max(prepared - self._compiled, 0), self._compiled)

    def get(self, key: object, text: str, *, strict: bool) -> Document:
        """Return the query `text`, cached under `key`, or compiled; one that does not compile is
        returned as `_Broken`. `strict`: errors of built-ins are errors. Waits while another thread
        compiles, at most for the deadline or, without one, `PREPARE_WITHIN` seconds; EvalError
        after that.
        """
        # One at a time: whatever clients ask for, they cannot take all of the processor for it.
        if not self._lock.acquire(timeout=self._deadline or PREPARE_WITHIN):
            message = "too many paths are being compiled for the first time: try again later"
            raise EvalError(CANCEL_ERROR, message)
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
        """Compile a query, with errors of built-ins as errors if `strict`, and count it; return a
        document that raises the error if it does not compile.
        """
        self._compiled += 1
        try:
            return self._engine.prepare(text, strict_builtin_errors=strict, deadline=self._deadline)
        except CompileError as error:
            # Cached like others: a client that repeats a wrong path must not have it compiled each
            # time.
            return _Broken(error)


def _steps(counter: count[int]) -> int:
    """Return how often a counter was advanced. Only its `repr` tells that without advancing it."""
    return int(repr(counter).removeprefix("count(").removesuffix(")"))


def _bind(document: Document, engine: Engine) -> Document:
    """Return a query bound to an engine; another document unchanged, as it needs none."""
    return document.bind(engine) if isinstance(document, Query) else document


class _Base:
    """A document without rules: its value is the data at its path."""

    __slots__ = ("_value",)

    def __init__(self, value: Value | Undefined) -> None:
        self._value = value

    def value(self, input: Value | Undefined = UNDEFINED, /) -> Value | Undefined:
        return self._value

    answer = value

    def marked_answer(
        self, input: Value | Undefined = UNDEFINED, answered: object = None, /
    ) -> tuple[Any, Marks]:
        """Return the value and no outcomes of rules, since there are no rules."""
        return self._value, {}


class _Broken:
    """A query that does not compile: each evaluation raises the CompileError again."""

    __slots__ = ("_diagnostics",)

    def __init__(self, error: CompileError) -> None:
        self._diagnostics = error.diagnostics

    def value(self, input: Value | Undefined = UNDEFINED, answered: object = None, /) -> NoReturn:
        """Raise the CompileError of the query."""
        # A new error each time: a shared one would collect the frames of all evaluations.
        raise CompileError(self._diagnostics)

    answer = marked_answer = value


def document_ref(path: PathKey) -> str:
    """Return the Rego reference for a path: `a/0/b c` -> `data.a[0]["b c"]`.

    Empty segments of a text are dropped; segments that are integers become indexes.
    """
    return "data" + "".join(map(_operand_text, _operands(path)))


def _operands(path: PathKey) -> list[str | int]:
    """Return the segments of a path, integers as int; empty segments of a text are dropped."""
    segments = [s for s in path.split("/") if s] if isinstance(path, str) else path
    return [int(s) if INTEGER.match(s) else s for s in segments]


def _operand_text(operand: str | int) -> str:
    """Return a step of a path as Rego writes it: `.name`, `["key"]` or `[0]`."""
    if isinstance(operand, int):
        return f"[{operand}]"
    if _NAME.match(operand) and operand not in _KEYWORDS:
        return f".{operand}"
    # Quoted as JSON, whose strings are strings of Rego: no quote in a client's path may end one
    # (OPA's CVE-2025-46569).
    return f"[{json.dumps(operand)}]"


def read(
    paths: Sequence[str],
    *,
    ignore: Sequence[str] = (),
    settings: Settings | None = None,
    before: Snapshot | None = None,
) -> Snapshot:
    """Load files and folders, log their warnings, and build a snapshot. Raise LoadError if a file
    cannot be loaded, and CompileError if the policies are wrong.

    `before` is the active snapshot, whose unchanged modules are used again. An archive with
    signatures is refused: there is no key to verify them.
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
    """Compile loaded policies and bind them to their data. Raise CompileError with all errors, also
    those of a path that a rule and the data define.

    `revision` names the snapshot; by default it is derived from the contents. `is_parsed` promises
    that the data came from files and needs no conversion. `before` is the active snapshot, whose
    unchanged modules are used again; if no policy changed, nothing is compiled.
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
        before=before,
    )


def _policies(loaded: Loaded) -> Mapping[str, str | Source]:
    """Return the policies' texts, with the names under which errors show them if these differ."""
    if not loaded.shown_names:
        return loaded.modules
    names = loaded.shown_names
    return {name: Source(names.get(name, name), text) for name, text in loaded.modules.items()}


def _revision(loaded: Loaded) -> str:
    """Return twelve hexadecimal digits that depend on the policies and data: the first of the
    loaded digest if there is one.
    """
    if loaded.digest:
        return loaded.digest[:12]
    digest = hashlib.sha256()
    for name, text in sorted(loaded.modules.items()):
        for part in (name, text):
            # With its length: otherwise text moved from a policy to its name would give the same
            # digest.
            content = part.encode("utf-8", errors="surrogatepass")
            digest.update(b"%d:" % len(content) + content)
    digest.update(to_json(loaded.data).encode("utf-8", errors="surrogatepass"))
    return digest.hexdigest()[:12]
