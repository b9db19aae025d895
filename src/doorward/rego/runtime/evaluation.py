"""The state of one evaluation: its input, its data, what it has computed, whom it may ask.

Generated functions take it as `ctx`. A `with` makes another one for the expression it is on.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Protocol, TypeAlias

from doorward.base.cancellation import is_stopped
from doorward.base.records import mutable, record
from doorward.rego.builtins.registry.context import Context, Environment
from doorward.rego.errors import (
    CALL_ERRORS,
    CANCEL_ERROR,
    CONFLICT_ERROR,
    LIMIT_ERROR,
    BuiltinError,
    EvalError,
    EvaluationAborted,
    LimitError,
)
from doorward.rego.runtime.call_cache import CachedCall, CallCache
from doorward.rego.runtime.comprehensions import PLAIN, Results
from doorward.rego.runtime.comprehensions import Site as ComprehensionSite
from doorward.rego.runtime.groups import Groups
from doorward.rego.runtime.operations import (
    MISSING,
    as_set,
    insert_at,
    items,
    lookup_data,
    lookup_data_path,
    lookup_path,
    open_at,
    put_path,
    values,
)
from doorward.rego.source import NOWHERE, Span
from doorward.rego.syntax.nodes import Expr, Rule
from doorward.rego.values import (
    SYSTEM,
    UNDEFINED,
    Boxed,
    Key,
    from_key,
    lookup,
    sorted_keys,
    sorted_values,
    to_key,
    to_rego,
)

__all__ = ["CHECK_INTERVAL", "BaseData", "DataNode", "Document", "Evaluation", "Site", "Tracer"]

CHECK_INTERVAL: Final = 64
"""The most items that are processed between two checks of the deadline."""

FIRST: Final = 8
"""The number of items before the first check, since the time for one is not known yet."""

SLOW: Final = 0.005
"""The seconds between two deadline checks above which the next check comes after fewer steps."""

TEXT_OF_ITEM: Final = 64
"""A string counts as one item for each of this many characters."""

UNCOUNTED: Final = "uncounted"
"""The code of the internal error after which an evaluation is repeated with code that counts items.
"""

GROWTH: Final = 64 << 20
"""The most bytes that the process may grow by before an evaluation is repeated by code that counts
items.
"""

MEMORY_INTERVAL: Final = 0.001
"""The least seconds between two readings of the process's memory; one takes as long as a hundred
steps.
"""

MAX_ORDERED: Final = 64
"""The most sets whose sorted members are remembered."""

MAX_ERRORS: Final = 100
"""The most errors of built-ins that one evaluation keeps."""


@record
class Site:
    """A call in the policy: the built-in's name and the place."""

    name: str
    span: Span


@mutable(eq=False)
class Document:
    """A node of the tree of rules, as evaluations use it. `evaluate` computes the rules of this
    node; None if it has none, or they are functions. `slot` is the key of its answer in
    `Evaluation.cache`, or in `constants` if `constant` is True.
    """

    name: str
    slot: int = -1
    constant: bool = False
    evaluate: Callable[..., Any] | None = None
    is_function: bool = False
    part: Callable[..., Any] | None = None
    """Computes the part of a partial object that a look-up at one key needs."""
    children: dict[Key, Document] = field(default_factory=dict)
    order: tuple[Key, ...] = ()
    """The keys of `children` in Rego's order, which is the order of evaluation."""

    def find(self, path: Sequence[Key]) -> Document | None:
        """Return the node at a path below this one; None if there is none."""
        node: Document | None = self
        for key in path:
            node = node.children.get(key) if node is not None else None
        return node


DataNode: TypeAlias = tuple[Document | None, Any]
"""A path below `data` at run time: its rules and its base data (`BaseData`, or a plain value if no
`with` changes it).
"""


@record
class BaseData:
    """Base data at a path under a `with` that replaces parts of it. `stored` is the original,
    `over` has the new values, `targets` are the paths that were replaced. At and below a target
    only the new value counts. A document above a target is the merge of both, so it has members of
    the original that the new value lacks. So the data here is not one value, and paths must be
    followed step by step.
    """

    over: Any
    stored: Any
    targets: tuple[tuple[Any, ...], ...] = ()

    def replaced(self, path: Sequence[Any], value: Any, span: Span) -> BaseData:
        """Return this data with `value` put at a path; UNDEFINED as `value` removes what is there.
        EvalError at `span` for an invalid path.
        """
        over = _put(self.over, path, value, span)
        stored = _put(self.stored, path, value, span) if value is UNDEFINED else self.stored
        return BaseData(over, stored, (*self.targets, tuple(path)))

    def at(self, path: Sequence[Any]) -> BaseData | Any:
        """Return the data at a path: the plain value if one replaces it or a document above it,
        otherwise the BaseData below; UNDEFINED if nothing is there.
        """
        base: Any = self.over if () in self.targets else self
        for key in path:
            base = _member(base, key)
        return base


class Tracer(Protocol):
    """Receives the events of one evaluation of traced code, in the thread that evaluates. What is
    made of the events (explanations, coverage) is not known here.
    """

    def enter(self, evaluation: Evaluation, name: str, operands: tuple[Any, ...]) -> None:
        """Called before the rules at `name`, such as `data.a.p`, are evaluated; for a function with
        its `operands`.
        """

    def leave(self, name: str, answer: Any) -> None:
        """Called after the rules at `name` were evaluated, with their answer; UNDEFINED also if an
        error ended the evaluation.
        """

    def trace(
        self, evaluation: Evaluation, node: Rule | Expr, holds: bool, bound: Mapping[str, Any]
    ) -> None:
        """Called when `node` is about to be evaluated or, if `holds`, when it holds; `bound`: its
        variables with values.
        """


_NO_MOCKS: Final[Mapping[str, Any]] = {}
_NO_PRESETS: Final[dict[int, Any]] = {}
_NO_PARTS: Final[dict[tuple[int, tuple[Key, ...]], Any]] = {}


class Evaluation(Context):
    """The state of one evaluation, and what built-ins may know of it. `cache` holds the answers of
    this evaluation by slot; `constants` holds the answers that depend on data alone, and is shared
    by all evaluations on the same data.
    """

    # Most evaluations never set these: the class holds them, so that making one stays cheap.
    strict = False
    steps_left = FIRST
    check_interval = FIRST
    """The number of steps between two checks of the deadline, adapted by `_check_deadline`."""
    last_check = -math.inf
    """The time of the last deadline check, on the monotonic clock."""
    mocks: Mapping[str, Any] = _NO_MOCKS
    presets: dict[int, Any] = _NO_PRESETS
    """The values that a `with` sets in place of rules, by slot."""
    replaced: frozenset[Document] = frozenset()
    """The nodes of rules that a `with` replaces, with all nodes below; there only `data` is read.
    """
    tracer: Tracer | None = None
    sorted_sets: dict[int, tuple[frozenset[Key], list[Any]]] | None = None
    """The sorted members of sets that were iterated."""
    parts: dict[tuple[int, tuple[Key, ...]], Any] = _NO_PARTS
    """The parts of partial sets and objects that were computed for look-ups, by slot and key."""
    exact = False
    """True if the code is that of `codegen/exact.py`."""
    base: BaseData | None = None
    """The base data for exact code, with the replacements of `with`; None if nothing is replaced,
    then it is `data`.
    """
    printed = 0
    """The number of texts that `print` has written so far."""
    not_printed = 0
    """The number of texts that an earlier run of this evaluation already printed; the repetition
    skips them.
    """
    items_left: int | None = None
    """The number of items that may still be made; None if items are not counted."""
    counts_items = False
    """True if the running code counts the items that it makes."""
    marks: Any = None
    """The outcomes of definitions by number (`codegen.marks`); None if the code does not record
    them.
    """
    uncounted_steps = 0
    memory_before: int | None = None
    """The bytes of memory of the process when the deadline was first checked."""
    memory_due = -math.inf
    """The time of the next reading of the process's memory."""
    call_cache: CallCache | None = None
    """The answers of functions, once they are cached."""
    groups: Groups | None = None
    """The items of collections, grouped for loops that look for some of them."""
    results: Results | None = None
    """The results of comprehensions, by the variable that they depend on."""
    grouped: dict[ComprehensionSite, tuple[dict[Key, Any], Any]] | None = None
    """The items of comprehensions in groups, and the result where there is no group, by
    comprehension.
    """
    checks = 0
    """The number of deadline checks so far."""
    checks_before_cache = 4
    """The number of deadline checks after which functions use the cache."""

    def __init__(
        self,
        input: Any,
        data: Any,
        constants: dict[int, Any],
        root: Document,
        environment: Environment,
    ) -> None:
        self.input = input
        self.data = data
        self.cache: dict[int, Any] = {}
        self.caches_calls = False
        """True if functions use `call_cache`; it is read at each call, and an attribute here is
        fastest.
        """
        self.constants = constants
        self.root = root
        self.environment = environment

    def failed(self, error: BuiltinError | EvaluationAborted, site: Site) -> Any:
        """Return UNDEFINED after a built-in's error, which is added to `errors` (at most
        `MAX_ERRORS`). Raise EvalError if the evaluation is strict, or if `error` aborts the
        evaluation.
        """
        # Fail closed: a limit or deadline never becomes undefined, since `not` would read that as
        # "no".
        if isinstance(error, EvaluationAborted):
            text = f"{site.name}: {error}" if isinstance(error, LimitError) else str(error)
            raise EvalError(error.code, text, site.span, error.hint) from error.__cause__
        failure = EvalError(error.code, f"{site.name}: {error}", site.span)
        if self.strict:
            raise failure
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(failure)
        return UNDEFINED

    def call_builtin(self, site: Site, function: Callable[..., Any], *operands: Any) -> Any:
        """Return the result of the built-in `function` called at `site`; UNDEFINED if it raises
        BuiltinError, which `errors` then holds. EvalError instead if the evaluation is strict or
        the built-in aborts it.
        """
        try:
            return function(*operands)
        except CALL_ERRORS as error:
            return self.failed(error, site)

    # Limits: every round of every walk is counted, and so are the ways to work without walking

    def cancel(self) -> None:
        """Stop this evaluation soon, from any thread, with OPA's `eval_cancel_error`."""
        # One assignment, so that no lock is needed; the next deadline check ends the evaluation.
        (self.origin or self).deadline = -math.inf

    def count_step(self) -> None:
        """Count a step for the deadline; called by functions that call several others. At some
        steps the deadline is checked: EvalError if it has passed, the evaluation was cancelled, or
        it must be repeated by code that counts items.
        """
        self.steps_left -= 1
        if self.steps_left < 0:
            self._check_deadline()

    def count_call(self) -> bool:
        """Count a step; return True if answers of the function are cached. At some steps the
        deadline is checked: EvalError if it has passed, the evaluation was cancelled, or it must be
        repeated by code that counts items.
        """
        self.steps_left -= 1
        if self.steps_left < 0:
            self._check_deadline()
        return self.caches_calls

    def cached_call(self, slot: int, *operands: Any) -> CachedCall | None:
        """Return the cached call of the function at `slot` with these operands, or a new one whose
        answer is MISSING until the caller stores it; None if the caller must evaluate the function
        without the cache. Switches the cache off for a while if no function finds answers in it.
        """
        cache = self.call_cache
        if cache is None:
            cache = self.call_cache = CallCache()
        call = cache.find(slot, operands, always=False, keeps_undefined=True)
        if not cache.is_useful:
            cache.is_useful = True
            self.caches_calls = False
            self.checks_before_cache = self.checks * 8
        return call

    def printing_call(
        self, slot: int, *operands: Any, keeps_undefined: bool = False
    ) -> CachedCall | None:
        """Return the cached call of the function at `slot` with these operands, or a new one whose
        answer is MISSING until the caller stores it. It serves functions that print and exact code:
        their calls are cached even if that does not pay. UNDEFINED is stored as an answer only with
        `keeps_undefined`. None if the cache is full.
        """
        if self.call_cache is None:
            self.call_cache = CallCache()
        return self.call_cache.find(slot, operands, always=True, keeps_undefined=keeps_undefined)

    def values(self, collection: Any) -> Iterable[Any]:
        """Return the values of a collection in Rego's order; () for other values. They count for
        the deadline, so EvalError may be raised here or during the iteration.
        """
        if type(collection) is list:
            # As in `checked_items`, inline: this is in the innermost loop of most policies.
            steps_left = self.steps_left - len(collection)
            if steps_left >= 0:
                self.steps_left = steps_left
                return collection
        elif type(collection) is frozenset:
            return self.checked_items(self._members(collection))
        elif type(collection) is dict and len(collection) > CHECK_INTERVAL:
            pieces = self._pieces(sorted_keys(collection))
            return (collection[key] for piece in pieces for key in piece)
        return self.checked_items(values(collection))

    def matching(self, collection: Any, path: tuple[str, ...], value: Any) -> Iterable[Any]:
        """Return the values of a collection in Rego's order, () for other values; items whose part
        at `path` differs from `value` may be left out. They count for the deadline, so EvalError
        may be raised here or during the iteration.
        """
        if self.groups is None:
            self.groups = Groups()
        group = self.groups.find(collection, path, value, self.values, with_keys=False)
        return self.values(collection) if group is None else self.checked_items(group)

    def matching_items(
        self, collection: Any, path: tuple[str, ...], value: Any
    ) -> Iterable[tuple[Any, Any]]:
        """Return (key, value) pairs of a collection in Rego's order, () for other values; pairs
        whose value differs from `value` at `path` may be left out. They count for the deadline, so
        EvalError may be raised here or during the iteration.
        """
        if self.groups is None:
            self.groups = Groups()
        group = self.groups.find(collection, path, value, self.items, with_keys=True)
        return self.items(collection) if group is None else self.checked_items(group)

    def recall(self, site: ComprehensionSite, value: Any) -> Any:
        """Return the stored result of the comprehension at `site` for `value`, the only variable
        that it depends on; None if there is none, always for a value other than a string or an
        integer.
        """
        results = self.results
        if results is None:
            results = self.results = Results()
        if type(value) not in PLAIN:
            return None
        result = results.get((site, value))
        if result is not None:
            results.hits += 1
        return result

    def remember(self, site: ComprehensionSite, value: Any, result: Any) -> None:
        """Store the result of the comprehension at `site` for `value`, if that is a string or an
        integer, and if enough stored results were found again and there is room. `recall` must have
        been called before.
        """
        results = self.results
        if results is not None and type(value) in PLAIN:
            results.add(site, value, result)

    def group(self, site: ComprehensionSite, value: Key) -> Any:
        """Return the result of the comprehension at `site` for `value`, from its groups; None if
        its items are not grouped yet.
        """
        known = self.grouped.get(site) if self.grouped is not None else None
        if known is None:
            return None
        groups, empty = known
        return groups.get(value, empty)

    def keep_groups(
        self, site: ComprehensionSite, groups: dict[Key, Any], value: Key, is_set: bool
    ) -> Any:
        """Keep the groups of the items of the comprehension at `site`, and return the one for
        `value`. They are lists or, for a set, sets of keys.
        """
        empty: Any = frozenset() if is_set else []
        if is_set:
            groups = {group: frozenset(members) for group, members in groups.items()}
        if self.grouped is None:
            self.grouped = {}
        self.grouped[site] = groups, empty
        return groups.get(value, empty)

    def _members(self, collection: frozenset[Key]) -> list[Any]:
        """Return the members of a set in order. A set of collections is sorted only once, unless
        more than `MAX_ORDERED` others were sorted since.
        """
        # One member stands for all: scalars are sorted faster than they are looked up, and a wrong
        # guess only sorts again.
        if len(collection) < 2 or type(next(iter(collection))) is not Boxed:
            return sorted_values(collection)
        if self.sorted_sets is None:
            self.sorted_sets = {}
        # By identity, which is safe as long as the set is held beside its members.
        known = self.sorted_sets.get(id(collection))
        if known is None or known[0] is not collection:
            if len(self.sorted_sets) >= MAX_ORDERED:
                self.sorted_sets.clear()
            known = self.sorted_sets[id(collection)] = (collection, sorted_values(collection))
        return known[1]

    def items(self, collection: Any) -> Iterable[tuple[Any, Any]]:
        """Return the (key, value) pairs of a collection in Rego's order; () for other values. They
        count for the deadline, so EvalError may be raised here or during the iteration.
        """
        if type(collection) is list:
            listed: Iterable[Any] = self.checked_items(collection)
            return enumerate(listed)
        if type(collection) is dict:
            self.steps_left -= len(collection)
            if self.steps_left >= 0:
                return items(collection)
            if len(collection) > self.check_interval:
                pieces = self._pieces(sorted_keys(collection))
                return ((from_key(key), collection[key]) for piece in pieces for key in piece)
            self._check_deadline()
            return items(collection)
        return self.checked_items(items(collection))

    def checked_items(self, items: Any) -> Iterable[Any]:
        """Return the items of a sequence, which count for the deadline. A sequence longer than the
        check interval is returned as an iterator that checks the deadline before each slice.
        EvalError past the deadline.
        """
        steps_left = self.steps_left - len(items)
        if steps_left >= 0:
            self.steps_left = steps_left
        elif len(items) > self.check_interval:
            return itertools.chain.from_iterable(self._pieces(items))
        else:
            self._check_deadline()
        return items  # type: ignore[no-any-return]

    def related(self, answers: Iterable[Any]) -> Iterable[Any]:
        """Yield the results of a relation, a built-in with several results such as `walk`, as they
        are computed. The deadline is checked before each batch.
        """
        return itertools.chain.from_iterable(self._batches(iter(answers)))

    def _pieces(self, items: Sequence[Any]) -> Iterator[Sequence[Any]]:
        """Yield slices of at most `check_interval` items of a sequence, checking the deadline
        before each (EvalError).
        """
        start = 0
        while start < len(items):
            self._check_deadline()
            end = start + self.check_interval
            yield items[start:end]
            start = end

    def _batches(self, items: Iterator[Any]) -> Iterator[list[Any]]:
        """Yield lists of items of an iterator, each as long as the present check interval, the last
        one perhaps shorter; the deadline is checked before each (EvalError).
        """
        while batch := list(itertools.islice(items, self.check_interval)):
            self._check_deadline()
            yield batch

    def _check_deadline(self) -> None:
        """Raise EvalError with `eval_cancel_error` if the deadline has passed or the evaluation was
        cancelled, and with `UNCOUNTED` if items must be counted (`_check_growth`). Also adapts the
        number of steps until the next check: it doubles up to `CHECK_INTERVAL`, and shrinks if more
        than `SLOW` seconds passed. After some checks, functions use the cache.
        """
        whole: Any = self.origin or self
        self.checks += 1
        if self.checks >= self.checks_before_cache:
            self.caches_calls = True
        now = time.monotonic()
        if not whole.counts_items and self.environment.max_items is not None:
            whole._check_growth(self.check_interval, now)
        deadline = whole.deadline
        interval = CHECK_INTERVAL
        if is_stopped() or (deadline is not None and now > deadline):
            raise EvalError(CANCEL_ERROR, "caller cancelled query execution", NOWHERE)
        if deadline is not None:
            # Items of this loop are expensive: look at the clock more often.
            if now - self.last_check > SLOW:
                interval = max(self.check_interval // 8, 1)
            elif self.check_interval < CHECK_INTERVAL:
                interval = self.check_interval * 2
            self.last_check = now
        self.check_interval = self.steps_left = interval

    def _check_growth(self, steps: int, now: float) -> None:
        """Raise EvalError with the code `UNCOUNTED` if the steps exceed the limit of items or the
        process grew by more than `GROWTH` bytes: the evaluation must be repeated by code that
        counts items. Memory is read at most every `MEMORY_INTERVAL` seconds.
        """
        limit = self.environment.max_items
        self.uncounted_steps += steps
        is_over = limit is not None and self.uncounted_steps > limit
        if now < self.memory_due and not is_over:
            return
        self.memory_due = now + MEMORY_INTERVAL
        memory = self.environment.memory()
        if self.memory_before is None:
            self.memory_before = memory
        if is_over or memory - self.memory_before > GROWTH:
            raise EvalError(
                UNCOUNTED, "the evaluation uses much memory: its items must be counted", NOWHERE
            )

    def halt_if_late(self) -> None:
        """Raise EvalError with `eval_cancel_error` if the deadline has passed or the evaluation was
        cancelled. Long operations on values call this.
        """
        deadline = (self.origin or self).deadline
        if deadline is not None and (time.monotonic() > deadline or is_stopped()):
            raise EvalError(CANCEL_ERROR, "caller cancelled query execution", NOWHERE)

    def count_from_here(self) -> None:
        """Count items from now on, if there is a limit."""
        self.items_left = self.environment.max_items
        self.counts_items = True

    def count_items(self, count: int, span: Span) -> None:
        """Subtract `count` items, by which collections grow, from those that the evaluation has
        left (that of the query, also under `with`); EvalError at `span` if none is left. Items must
        be counted: `count_from_here` was called, with a limit.
        """
        whole: Any = self.origin or self
        whole.items_left -= count
        if whole.items_left < 0:
            raise EvalError(LIMIT_ERROR, self._limit_message(), span)

    def charge(self, items: int) -> None:
        """Count `items` against the limit of the whole evaluation, also under `with`; LimitError
        above it. Counting begins with the first call; without a limit nothing is counted.
        """
        whole: Any = self.origin or self
        if whole.items_left is None:
            whole.items_left = self.environment.max_items
        if whole.items_left is not None:
            whole.items_left -= items
            if whole.items_left < 0:
                raise LimitError(self._limit_message())

    def _limit_message(self) -> str:
        return f"evaluation makes more than {self.environment.max_items} items"

    def count_size(self, value: Any, span: Span) -> Any:
        """Count the items in a collection that was made, of a text one for each `TEXT_OF_ITEM`
        characters, and return `value`; EvalError at `span` above the limit. Other values do not
        count. Items must be counted (`count_from_here`).
        """
        kind = type(value)
        if kind is str:
            self.count_items(len(value) // TEXT_OF_ITEM, span)
        elif kind is list or kind is dict or kind is frozenset:
            self.count_items(len(value), span)
        return value

    def repeat(self, root: Document, constants: dict[int, Any]) -> None:
        """Prepare this evaluation to run again, with the exact program of `root`. Drops the
        computed answers, errors, marks and the tracer; items are counted from now on, and texts
        that were already printed are not printed again.
        """
        self.root, self.constants = root, constants
        self.count_from_here()
        # What `groups`, `results` and `grouped` hold may stay: exact code does not read them.
        self.cache, self.parts, self.marks = {}, _NO_PARTS, {}  # whose code is not marked
        self.call_cache = None
        # Exact code reports them again, in OPA's order.
        self.errors.clear()
        self.tracer, self.exact = None, True
        self.printed, self.not_printed = 0, self.printed

    def replace(
        self,
        inputs: Sequence[tuple[Sequence[Any], Any]],
        data: Sequence[tuple[Sequence[Any], Any]],
        functions: Sequence[tuple[str, Any]],
        span: Span = NOWHERE,
        read_above: bool = False,
    ) -> Evaluation:
        """Return the evaluation under a `with`: parts of the input and data replaced, functions
        mocked. It shares the deadline and limits of the original one. `inputs` and `data` are pairs
        of a path and its value, `functions` of a name and its mock. EvalError at `span` for an
        invalid path, or if exact code must decide because replaced data is read from above;
        EvalError also if the deadline has passed. `read_above`: a rule reads a document above the
        replaced data.
        """
        origin = self.origin or self
        assert isinstance(origin, Evaluation)
        # Rules that use `with` twice double the work at each level without any loop.
        origin.count_step()
        new = Evaluation(self.input, self.data, self.constants, self.root, self.environment)
        new.origin = origin
        new.strict, new.deadline, new.steps_left = self.strict, self.deadline, self.steps_left
        new.check_interval, new.last_check = self.check_interval, self.last_check
        new.mocks = {**self.mocks, **dict(functions)} if functions else self.mocks
        new.presets, new.replaced = self.presets, self.replaced
        new.exact, new.base, new.marks = self.exact, self.base, self.marks
        if self.tracer is not None:
            new.tracer = self.tracer
        for path, value in inputs:
            new.input = _put(new.input, path, value, span)
        if data:
            new.presets = dict(self.presets)
        for path, value in data:
            if self.exact:
                new.base = (new.base or BaseData(UNDEFINED, self.data)).replaced(path, value, span)
            elif _is_mixed(new.data, path, value, read_above=read_above):
                # Exact code decides: it follows paths, and does not look at one value.
                raise EvalError(
                    CONFLICT_ERROR,
                    "`with` replaces a part of a document in data that a rule reads as a whole: "
                    "only exact code can do that",
                    span,
                )
            new.data = _put(new.data, path, value, span)
            node = self.root.find(path)
            if node is not None:
                new.replaced = new.replaced.union(_preset(new.presets, node, value))
        # No answer is taken over: each may depend on what is replaced.
        new.cache = dict(new.presets)
        # Constants depend on data and functions alone, so a `with input` goes on sharing them.
        if data or functions:
            new.constants = dict(new.presets)
        return new

    def without_mocks(self) -> Evaluation:
        """Return an evaluation with the same input and data, in which no function is replaced."""
        new = self.replace((), (), ())
        new.mocks = _NO_MOCKS
        # Those of `self` may have been computed with the replaced functions.
        new.constants = dict(self.presets)
        return new

    def mock(self, mock: Any, site: Site, *operands: Any) -> Any:
        """Return the answer of the replacement `mock` for the call at `site`."""
        return mock.answer(self, site, operands)

    def trace(self, node: Rule | Expr, holds: bool, bound: Mapping[str, Any]) -> None:
        """Report to the tracer, if there is one, that `node` is about to be evaluated or, if
        `holds`, that it holds. `bound`: its variables with values.
        """
        if self.tracer is not None:
            self.tracer.trace(self, node, holds, bound)

    def print(self, span: Span, *operands: list[Any]) -> None:
        """Write one text to the environment's `on_print` for each combination of the operands'
        values, separated by spaces. An operand without values reads `<undefined>`. Texts that an
        earlier run of this evaluation printed are skipped.
        """
        whole: Any = self.origin or self
        sink = self.environment.on_print
        assert sink is not None  # only then is there code that prints
        shown = [[_print_text(v) for v in values] or ["<undefined>"] for values in operands]
        for words in itertools.product(*shown):
            if whole.printed >= whole.not_printed:
                sink(" ".join(words), span)
            whole.printed += 1

    # Documents whose path is known only now

    def value_of(self, node: Document) -> Any:
        """Return the value of the rules at `node`, which must have some, computed once per
        evaluation; UNDEFINED if there is none. An answer that depends on data alone is stored for
        all evaluations on the same data.
        """
        # `constants` outlives the evaluation: it is shared by all with the same data.
        store = self.constants if node.constant else self.cache
        answer = store.get(node.slot, MISSING)
        if answer is MISSING:
            assert node.evaluate is not None
            # INVARIANT: rules are not recursive (`analysis` refuses it), so this never asks for its
            # own slot.
            answer = store[node.slot] = self.as_set(node.evaluate, node.slot, store)
        return answer

    def listed(self, rules: Callable[..., Any], slot: int, store: dict[int, Any]) -> Any:
        """Return the members of the set that `rules` build as a sorted list without repetitions,
        computed once per evaluation and stored in `store` under `~slot`. If the set itself is
        stored under `slot`, return that.
        """
        answer = store.get(slot, MISSING)
        if answer is MISSING:
            # `~slot` is negative, so it is never the slot of another rule.
            answer = store.get(~slot, MISSING)
            if answer is MISSING:
                answer = store[~slot] = rules(self, True)
        return answer

    def as_set(self, rules: Callable[..., Any], slot: int, store: dict[int, Any]) -> Any:
        """Return the answer of `rules`, computed now; if `listed` stored the members of its set in
        `store`, the set of these. Nothing is stored.
        """
        members = store.get(~slot, MISSING)
        return rules(self) if members is MISSING else as_set(members)

    def document(self, node: Document | None, base: Any, *, hidden: Key | None = None) -> Any:
        """Return the whole document at `node`: `base`, its base data, merged with the answers of
        rules there and below, which are computed or taken from the cache; unless both have an
        object at a path, base data wins there. UNDEFINED for a function; base data alone if `node`
        is None (no rules) or replaced by a `with`. `hidden`: a key whose rules are skipped. Errors
        of rules pass through.
        """
        base = _value_of_base(base)
        if node is None or node in self.replaced:
            return base
        if node.is_function:
            return UNDEFINED
        if node.evaluate is not None:
            return merge(base, self.value_of(node))
        merged: dict[Key, Any] = dict(base) if type(base) is dict else {}
        is_plain = not merged and not self.replaced
        for key in node.order:
            if hidden is not None and key == hidden:
                continue
            child = node.children[key]
            if is_plain and child.evaluate is not None and not child.is_function:
                # `value_of`, written out: most packages are rules without data of their own.
                store = self.constants if child.constant else self.cache
                value = store.get(child.slot, MISSING)
                if value is MISSING:
                    value = store[child.slot] = self.as_set(child.evaluate, child.slot, store)
            else:
                value = self.document(child, merged.get(key, UNDEFINED))
            if value is not UNDEFINED:
                merged[key] = value
        return merged

    def add_children(
        self, out: dict[Key, Any], path: Sequence[Key], span: Span, only: Sequence[Key] = ()
    ) -> None:
        """Insert the answers of the rules below `path` into `out`, which the partial rules at
        `path` have filled. EvalError at `span` if a key has two values. `only`: the keys of a
        lookup; rules for other keys are skipped.
        """
        node = self.root.find(path)
        assert node is not None
        for below, value in self._answers_below(node, (), only):
            if value is MISSING:
                open_at(out, below, span)
            else:
                insert_at(out, below, value, span)

    def _answers_below(
        self, node: Document, path: tuple[Any, ...], only: Sequence[Key]
    ) -> Iterator[tuple[tuple[Any, ...], Any]]:
        """Yield the defined answers of the rules below `node`, each with its path, and MISSING for
        a node without rules; functions are left out. `only`: the keys of a lookup, level by level;
        other keys are skipped.
        """
        for key in node.order if not only else [k for k in node.order if k == only[0]]:
            child, below = node.children[key], (*path, from_key(key))
            if child.evaluate is not None:
                value = self.value_of(child)
                if value is not UNDEFINED:
                    yield below, value
            elif not child.is_function:
                yield below, MISSING
                yield from self._answers_below(child, below, only[1:])

    def base_at(self, path: Sequence[Any]) -> Any:
        """Return base data at a path, for exact code; UNDEFINED if there is none."""
        if self.base is None:
            return lookup_data_path(self.data, path)
        return _value_of_base(self.base.at(path))

    def document_at(self, path: Sequence[Key]) -> Any:
        """Return the whole document at a path below `data`; UNDEFINED if there is none. The path ()
        leaves out `data.system`.
        """
        if path:
            return self.document(*self.node_at(path))
        node, base = self.node_at(())
        return self.document(node, self._list_members(node, base), hidden=SYSTEM)

    def document_of(self, node: DataNode) -> Any:
        """Return the whole document at `node`; UNDEFINED if there is none."""
        return self.document(*node)

    def node_at(self, path: Sequence[Key]) -> DataNode:
        """Return the node of rules and the base data at a path below `data`. The node is None if
        there are no rules or a `with` replaced them. If there is no data, the data is UNDEFINED, or
        in exact code a `BaseData` without a value.
        """
        node = self.root.find(path)
        names = [from_key(key) for key in path]
        if self.exact:
            base = (self.base or BaseData(UNDEFINED, self.data)).at(names)
        else:
            base = lookup_path(self.data, names)
        return None if node in self.replaced else node, base

    def child(self, parent: DataNode, key: Any) -> DataNode:
        """Return the node one key below `parent`. If there is nothing: (None, UNDEFINED), or below
        base data that a `with` replaced in part (None, a `BaseData` without a value).
        """
        node, base = parent
        if node is not None and node.part is not None:
            return None, lookup(merge(_value_of_base(base), node.part(self, (key,))), key)
        node, base = self._open(parent)
        return self._below(node, key), _member(base, key)

    def children(self, parent: DataNode) -> list[tuple[Any, DataNode]]:
        """Return the keys directly below `parent`, each with its node. Keys of base data come
        first, in Rego's order, then keys that only rules have, in Rego's order. [] if there is
        nothing below.
        """
        node, base = self._open(parent)
        whole = _value_of_base(self._list_members(node, base))
        if node is None:
            if whole is base:
                return [(key, (None, value)) for key, value in items(base)]
            return [(key, (None, _member(base, key))) for key, _ in items(whole)]
        # As in OPA: what data holds, then what rules add to it.
        names = [from_key(key) for key in sorted_keys(whole)] if type(whole) is dict else []
        names += [
            from_key(key) for key in node.order if type(whole) is not dict or key not in whole
        ]
        return [(k, (self._below(node, k), _member(base, k))) for k in names]

    def _list_members(self, node: Document | None, base: Any) -> Any:
        """Return the base data at `node` for listing its members. For the root, as in OPA, the
        server's own documents are left out, unless a `with` sets them; they can be read by name.
        """
        if node is not self.root:
            return base
        if type(base) is BaseData:
            return BaseData(base.over, without_system(base.stored), base.targets)
        return without_system(base)

    def _below(self, node: Document | None, key: Any) -> Document | None:
        """Return the node of the rules one key below `node`; None if there is none or a `with`
        replaced it.
        """
        inner = node.children.get(to_key(key)) if node is not None else None
        return None if inner in self.replaced else inner

    def _open(self, parent: DataNode) -> DataNode:
        """Return `parent` in a form whose children can be read one by one: if rules define its
        whole value, that is computed and returned as data without a node.
        """
        node, base = parent
        if node is not None and (node.evaluate is not None or node.is_function):
            return None, self.document(node, base)
        return parent


def _member(base: Any, key: Any) -> Any:
    """Return what is under one key. For a plain value: the value there, UNDEFINED if there is none.

    For a `BaseData`: the new value if a `with` replaced exactly this path, otherwise a `BaseData`,
    which is never UNDEFINED itself, even if nothing is under the key: `_value_of_base` tells.
    """
    if type(base) is not BaseData:
        return lookup(base, key)
    over = lookup(base.over, key)
    targets = tuple([target[1:] for target in base.targets if target[:1] == (key,)])
    return over if () in targets else BaseData(over, lookup_data(base.stored, key), targets)


def _value_of_base(base: Any) -> Any:
    """Return base data as one plain value, the parts that a `with` replaced merged in."""
    if type(base) is not BaseData:
        return base
    return base.stored if base.over is UNDEFINED else merge(base.over, base.stored)


def without_system(data: Any) -> Any:
    """Return all base data without the server's own documents, which can only be read by name."""
    if type(data) is not dict or SYSTEM not in data:
        return data
    return {key: value for key, value in data.items() if key != SYSTEM}


def _is_mixed(data: Any, path: Sequence[Any], value: Any, *, read_above: bool) -> bool:
    """Return True if a `with` that puts `value` at `path` of base data makes OPA read old and new
    data mixed, which exact code must do: the path leads into an array, or with `read_above`,
    `value` lacks members of what it replaces or the path is in the server's own documents.
    """
    if read_above and path[:1] == (SYSTEM,):
        return True
    for key in path:
        if type(data) is not dict:
            # The items of an array on the way are still found by their numbers.
            return type(data) is list
        data = data.get(key, UNDEFINED)
    return read_above and _hides(value, data)


def _hides(value: Any, data: Any) -> bool:
    """Return True if `data` has a key, at any depth, that `value` lacks, so that `value` in its
    place hides a part of it.
    """
    if type(value) is not dict or type(data) is not dict:
        return False
    return any(key not in value or _hides(value[key], data[key]) for key in data)


def _put(value: Any, path: Sequence[Any], new: Any, span: Span) -> Any:
    """Return a copy of `value` with `new` at a path; UNDEFINED as `new` removes what is there.
    EvalError at `span` for an invalid path.
    """
    try:
        return put_path(value, path, new)
    except ValueError as error:
        raise EvalError(CONFLICT_ERROR, str(error), span) from None


def merge(base: Any, value: Any) -> Any:
    """Return base data merged with the answer of rules: objects key by key, otherwise `base` wins.
    UNDEFINED as `base` gives `value`.
    """
    if base is UNDEFINED:
        return value
    if type(base) is not dict or type(value) is not dict:
        return base
    # The loop below decides about keys that both have.
    joined = {**value, **base}
    for key in base.keys() & value.keys():
        joined[key] = merge(base[key], value[key])
    return joined


def _print_text(value: Any) -> str:
    return value if type(value) is str else to_rego(value)


def _preset(presets: dict[int, Any], node: Document, value: Any) -> Iterator[Document]:
    """Store `value` in `presets` as the answer of the rules at `node`, and its parts as the answers
    of the rules below; yield all these nodes. The iterator must be consumed.
    """
    yield node
    if node.evaluate is not None:
        presets[node.slot] = value
    for key, child in node.children.items():
        yield from _preset(presets, child, lookup(value, from_key(key)))
