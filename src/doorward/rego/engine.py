"""Compile once, evaluate many times, from many threads.

An `Engine` holds checked modules, the code made of them and the data they read; a `Query` is one
question put to it. Both are immutable. Changing modules or data gives another engine, which
shares with this one whatever did not change.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, replace
from types import FunctionType
from typing import Any, Final

from doorward.rego.analysis.documents import Documents, read_documents
from doorward.rego.analysis.hints import near_path
from doorward.rego.analysis.passes import Options, Program, check, check_query, report
from doorward.rego.analysis.resolve import resolve_query
from doorward.rego.analysis.schemas import Schemas
from doorward.rego.analysis.scope import source_name
from doorward.rego.analysis.tree import check_base_data, path_text
from doorward.rego.builtins import REGISTRY, Environment, Registry
from doorward.rego.capabilities import Capabilities
from doorward.rego.clock import CLOCK
from doorward.rego.codegen.block import Constants
from doorward.rego.codegen.plan import Plan
from doorward.rego.codegen.program import Linked, Unit, generate, link, unit
from doorward.rego.codegen.query import query_bindings, query_value, query_variables
from doorward.rego.collector import postponed
from doorward.rego.errors import (
    COMPILE_ERROR,
    INTERNAL_ERROR,
    CompileError,
    Diagnostic,
    EvalError,
    ParseError,
)
from doorward.rego.runtime.evaluation import Evaluation
from doorward.rego.runtime.operations import lookup_data
from doorward.rego.source import Source
from doorward.rego.syntax.nodes import Body, Import, Module
from doorward.rego.syntax.parser import parse_import, parse_module, parse_query
from doorward.rego.timers import Timers
from doorward.rego.values import UNDEFINED, check_value, to_python

__all__ = ["Engine", "Query", "parse_term"]


@dataclass(frozen=True)
class Engine:
    """Policies and data, ready to be asked.

    `modules` maps file names to Rego text; `data` is what `data` holds besides the rules.
    CompileError carries every diagnostic, parse errors included. `traced`: evaluations report to
    their `tracer` each rule and expression they ask, which makes them slower. `max_items`: how much
    the collections and texts that one evaluation makes may hold together, in items; 64 characters
    count as one. More is an EvalError. Without it nothing is counted. `capabilities`: what policies
    and queries may use of all that is there. `schemas`: those that METADATA can name, and under ()
    that of all input; types are checked against them when compiling, never when evaluating.
    `rego_versions`: 0 or 1 for files that are not what `v0` says. `rewrite`: what is made of the
    parsed policies before they are checked. `timers`: where compiling and preparing note how long
    they took.
    """

    modules: Mapping[str, str] = field(default_factory=dict)
    data: Any = field(default_factory=dict)
    v0: bool = False
    strict: bool = False
    registry: Registry = REGISTRY
    environment: Environment = field(default_factory=Environment)
    max_errors: int = 10
    traced: bool = False
    max_items: int | None = None
    capabilities: Capabilities | None = None
    schemas: Schemas | None = None
    rego_versions: Mapping[str, int] = field(default_factory=dict)
    rewrite: Callable[[Mapping[str, Module]], dict[str, Module]] | None = field(
        default=None, repr=False, compare=False
    )
    timers: Timers | None = field(default=None, repr=False, compare=False)
    _state: _Compiled = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_value(self.data, "data")
        if self.capabilities is not None:
            object.__setattr__(self, "registry", self.capabilities.registry(self.registry))
            limited_net = self.capabilities.environment(self.environment)
            object.__setattr__(self, "environment", limited_net)
        with postponed():
            object.__setattr__(self, "_state", self._compiled())

    def _compiled(self) -> _Compiled:
        with self._measured("rego_module_parse"):
            parsed = self._parsed()
        with self._measured("rego_module_compile"):
            options = Options(self.strict, self.max_errors, self.schemas)
            program = check(list(parsed.values()), self.registry, options)
            prints = self.environment.on_print is not None
            limited = self.max_items is not None
            return _Compiled(parsed, program, prints=prints, traced=self.traced, limited=limited)

    def _parsed(self) -> dict[str, Module]:
        parsed: dict[str, Module] = {}
        errors: list[Diagnostic] = []
        # METADATA is read only where something asks for it: elsewhere it is a comment, even broken.
        annotations = self.schemas is not None or any(
            "rego.metadata." in text for text in self.modules.values()
        )
        for name, text in self.modules.items():
            v0 = self.rego_versions[name] == 0 if name in self.rego_versions else self.v0
            try:
                parsed[name] = parse_module(
                    Source(name, text), v0=v0, annotations=annotations, builtins=self.registry
                )
                if self.capabilities is not None:
                    errors += self.capabilities.problems(parsed[name], v0=v0)
            except ParseError as error:
                errors += error.diagnostics
        if errors:
            raise CompileError(errors)
        return parsed if self.rewrite is None else self.rewrite(parsed)

    def _measured(self, stage: str) -> AbstractContextManager[None]:
        return nullcontext() if self.timers is None else self.timers.measure(stage)

    def check_data(self) -> None:
        """CompileError where a rule stands in a place that `data` fills.

        In an evaluation the rule wins, and hides the data; who loads policies and data together
        refuses that.
        """
        errors = check_base_data(self._state.program.modules, self.data)
        if errors:
            raise CompileError(report(errors, self.max_errors))

    def with_data(self, data: Any) -> Engine:
        """An engine with the same policies and other data; nothing is compiled again."""
        check_value(data, "data")
        new = object.__new__(Engine)
        for item in fields(self):
            object.__setattr__(new, item.name, getattr(self, item.name))
        object.__setattr__(new, "data", data)
        object.__setattr__(new, "_state", self._state.on_other_data())
        return new

    def with_modules(self, modules: Mapping[str, str]) -> Engine:
        """An engine with other policies on the same data."""
        return replace(self, modules=modules)

    def prepare(
        self,
        query: str,
        *,
        strict_builtin_errors: bool = False,
        deadline: float | None = None,
        package: str = "",
        imports: Iterable[str] = (),
    ) -> Query:
        """A question that can be put many times.

        `deadline`: seconds that one evaluation may take. `package` and `imports` are what the
        query sees as if it stood in a module. CompileError if it cannot be compiled.
        """
        return Query(
            self,
            query,
            strict_builtin_errors=strict_builtin_errors,
            deadline=deadline,
            package=package,
            imports=tuple(imports),
        )

    def has_rules(self, path: Iterable[str | int]) -> bool:
        """Whether rules stand at a path below `data`, on the way to it, or below it.

        A number beside the names of rules counts: to the compiler that is an error of types.
        """
        node = self._state.linked.root
        for key in path:
            child = node.children.get(key)
            if child is None:
                return type(key) is int and bool(node.children)
            if child.evaluate is not None or child.is_function:
                return True
            node = child
        return bool(node.children)

    def base_document(self, path: Iterable[str | int]) -> Any:
        """What is given as data at a path, whatever rules say; UNDEFINED if there is nothing."""
        value = self.data
        for key in path:
            value = lookup_data(value, key)
            if value is UNDEFINED:
                break
        return value

    def documents(self, query: str) -> Documents:
        """What a query may read: the input and data it reads, and the rules it asks.

        The query need not make sense, as long as it can be parsed: CompileError otherwise.
        """
        body, _ = resolve_query(_parse_query(query, v0=self.v0))
        return read_documents(body, self._state.program.callees)

    @property
    def trees(self) -> Mapping[str, Module]:
        """The policies as they were parsed, by file name."""
        return self._state.parsed

    def emit(self) -> dict[str, str]:
        """The generated Python of each file, as text."""
        return {item.file: item.text() for item in self._state.units}


MAX_VARIANTS: Final = 16
"""Programs kept for queries that replace functions; each is the whole code once more."""


class _Compiled:
    """A checked program, its code, and the answers that hold for its data.

    Code for queries that replace functions is made apart, when such a query comes.
    """

    def __init__(
        self,
        parsed: Mapping[str, Module],
        program: Program,
        *,
        prints: bool,
        traced: bool,
        limited: bool,
        mocked: frozenset[str] = frozenset(),
    ) -> None:
        self.parsed = parsed
        self.program = program
        self.prints = prints
        self.traced = traced
        self.constants = Constants()
        self.plan = Plan(
            program.callees,
            program.constant,
            program.mocked | mocked,
            prints=prints,
            traced=traced,
            limited=limited,
        )
        self.units: list[Unit] = generate(self.plan, self.constants)
        self.linked: Linked = link(self.plan, self.units, self.constants)
        # Apart, since an answer that is undefined may be an error where errors are strict.
        self.answers: dict[bool, dict[int, Any]] = {False: {}, True: {}}
        self._variants: dict[frozenset[str], _Compiled] = {}
        self._lock = threading.Lock()

    def on_other_data(self) -> _Compiled:
        new = object.__new__(_Compiled)
        new.__dict__.update(self.__dict__)
        new.answers = {False: {}, True: {}}
        new._variants = {}
        new._lock = threading.Lock()
        return new

    def mocking(self, names: frozenset[str]) -> _Compiled:
        """The same program with calls of `names` open to replacement."""
        if names <= self.plan.mocked:
            return self
        with self._lock:
            found = self._variants.get(names)
            if found is None:
                if len(self._variants) >= MAX_VARIANTS:
                    self._variants.pop(next(iter(self._variants)))
                found = self._variants[names] = _Compiled(
                    self.parsed,
                    self.program,
                    prints=self.prints,
                    traced=self.traced,
                    limited=self.plan.limited,
                    mocked=names,
                )
            return found


def parse_term(text: str) -> Any:
    """The Rego value that a ground term stands for: `{"a": {1, 2}}`.

    CompileError if it is not a term; ValueError if it has no value.
    """
    value = Engine().prepare(text).value()
    if value is UNDEFINED:
        raise ValueError("the term has no value")
    return value


class Query:
    """One prepared question; safe in any number of threads."""

    def __init__(
        self,
        engine: Engine,
        text: str,
        *,
        strict_builtin_errors: bool,
        deadline: float | None,
        package: str,
        imports: tuple[str, ...],
    ) -> None:
        self.engine = engine
        self.text = text
        self.strict = strict_builtin_errors
        self.deadline = deadline
        with engine._measured("rego_query_parse"):
            self.source: Body = _parse_query(text, v0=engine.v0)
        if engine.capabilities is not None:
            problems = engine.capabilities.problems_of_query(self.source)
            if problems:
                raise CompileError(problems)
        path, imported = _surroundings(package, imports, v0=engine.v0)
        with engine._measured("rego_query_compile"):
            self._compile(path, imported)

    def _compile(self, path: tuple[str, ...], imported: tuple[Import, ...]) -> None:
        engine = self.engine
        checked = check_query(self.source, engine._state.program, path, imported)
        self.body: Body = checked.body
        state = engine._state.mocking(checked.mocked)
        self._state = state
        self._root = state.linked.root
        self._answers = state.answers[self.strict]
        self._columns = query_variables(checked.body)
        self.variables = [source_name(name) for name in self._columns]
        self._value = self._single() if len(checked.body) == 1 else None
        # A decision reads the value: code for rows is generated when somebody reads rows.
        self._bindings = self._function(single=False) if self._value is None else None
        is_plain = not self.strict and engine.max_items is None
        self._is_plain = is_plain and self._value is not None

    def _single(self) -> Callable[[Evaluation], Any]:
        """What gives the value of the only expression: where that is a rule, its own function."""
        rule = self._state.plan.only_rule(self.body[0])
        if rule is None:
            return self._function(single=True)
        answer: Callable[[Evaluation], Any] = self._state.linked.namespace[rule]
        return answer

    def _function(self, *, single: bool) -> Callable[[Evaluation], Any]:
        made, names = self._generate(single=single)
        (code,) = made.functions()
        # What Python does not find among a function's globals it looks for here: so the names of
        # the program are shared by all its queries.
        names["__builtins__"] = self._state.linked.namespace
        return FunctionType(code, names)

    def _generate(self, *, single: bool) -> tuple[Unit, dict[str, Any]]:
        """The code, and its names beside those of the program."""
        state = self._state
        constants = Constants(shared=state.linked.namespace)
        if single:
            function = query_value("query.value", self.body[0], state.plan, constants)
        else:
            function = query_bindings("query", self.body, self._columns, state.plan, constants)
        return unit(Source("", self.text), [function]), constants.names

    def emit(self) -> str:
        """The generated Python of the query, as text."""
        return self._generate(single=self._value is not None)[0].text()

    def evaluation(
        self, input: Any = UNDEFINED, *, now_ns: int | None = None, deadline: float | None = None
    ) -> Evaluation:
        """The state for one evaluation; `deadline` in seconds from now overrides the query's.

        As in `answer`, nothing looks through the input.

        Another thread may `cancel()` it while `value_of` or `rows_of` work on it.
        """
        engine = self.engine
        new = Evaluation(input, engine.data, self._answers, self._root, engine.environment)
        if self.strict:
            new.strict = True
        new.room = engine.max_items
        if now_ns is not None:
            new.now_ns = now_ns
        seconds = self.deadline if deadline is None else deadline
        if seconds is not None:
            new.deadline = time.monotonic() + seconds
        return new

    @property
    def documents(self) -> Documents:
        """What the query may read: the input and data it reads, and the rules it asks."""
        return read_documents(self.body, self.engine._state.program.callees)

    @property
    def near_misses(self) -> dict[str, str]:
        """Paths below `data` that it reads and that lead nowhere, and the ones most like them."""
        root, data = self.engine._state.program.root, self.engine.data
        read = [path for path in self.documents.base if path[0] == "data"]
        near = {path: near_path(path, root, data) for path in read}
        return {path_text(path[1:]): found for path, found in near.items() if found is not None}

    def value(self, input: Any = UNDEFINED, *, now_ns: int | None = None) -> Any:
        """The value of the query's only expression as a Rego value, or UNDEFINED.

        Of several values the first in Rego's order. ValueError for a query of several
        expressions; InputError where `input` is not made of Rego values; EvalError when evaluation
        stops.
        """
        if input is not UNDEFINED:
            check_value(input, "input")
        return self.answer(input, now_ns=now_ns)

    def answer(self, input: Any = UNDEFINED, *, now_ns: int | None = None) -> Any:
        """`value` for an input that was parsed from JSON, or made by `from_python`.

        It is not looked through before, which takes longer than many policies.
        """
        if self._is_plain and now_ns is None:
            # `evaluation`, written out: this stands before every decision.
            engine = self.engine
            state = Evaluation(input, engine.data, self._answers, self._root, engine.environment)
            if self.deadline is not None:
                state.deadline = time.monotonic() + self.deadline
                return _run(self._value, state)  # type: ignore[arg-type] # as below
        elif self._value is None:
            raise ValueError("the query has several expressions: use results()")
        else:
            return _run(self._value, self.evaluation(input, now_ns=now_ns))
        try:
            return self._value(state)  # type: ignore[misc] # a query that `_is_plain` has one
        except RecursionError:
            raise _too_deep() from None

    def value_of(self, evaluation: Evaluation) -> Any:
        """The same for an evaluation made before, with a tracer, or to read its `errors`."""
        if self._value is None:
            raise ValueError("the query has several expressions: use rows_of()")
        return _run(self._value, evaluation)

    def results(self, input: Any = UNDEFINED, *, now_ns: int | None = None) -> list[dict[str, Any]]:
        """Every binding of the query's variables, JSON-ready; [] when the query is undefined."""
        if input is not UNDEFINED:
            check_value(input, "input")
        results: list[dict[str, Any]] = _run(self._results, self.evaluation(input, now_ns=now_ns))
        return results

    def _results(self, evaluation: Evaluation) -> list[dict[str, Any]]:
        count = len(self._columns)
        results = []
        for row in self.rows_of(evaluation):
            if all(v is not False for v in row[count:]):
                named = zip(self.variables, row[:count], strict=True)
                results.append({name: to_python(v) for name, v in named})
        return results

    def rows(self, input: Any = UNDEFINED, *, now_ns: int | None = None) -> list[tuple[Any, ...]]:
        """For each solution the values of `variables`, then of the expressions in order."""
        if input is not UNDEFINED:
            check_value(input, "input")
        return self.rows_of(self.evaluation(input, now_ns=now_ns))

    def rows_of(self, evaluation: Evaluation) -> list[tuple[Any, ...]]:
        """The same for an evaluation made before, whose `errors` can be read afterwards."""
        if self._bindings is None:
            self._bindings = self._function(single=False)
        rows: list[tuple[Any, ...]] = _run(self._bindings, evaluation)
        return rows


def _run(work: Callable[[Evaluation], Any], evaluation: Evaluation) -> Any:
    """What `work` makes of an evaluation, whose clock the work on values can look at meanwhile."""
    before = CLOCK.look
    CLOCK.look = evaluation.halt_if_late if evaluation.deadline is not None else None
    try:
        return work(evaluation)
    except RecursionError:
        raise _too_deep() from None
    finally:
        CLOCK.look = before


def _too_deep() -> EvalError:
    return EvalError(INTERNAL_ERROR, "evaluation nests too deeply")


def _parse_query(text: str, *, v0: bool) -> Body:
    try:
        body = parse_query(Source("", text), v0=v0)
    except ParseError as error:
        raise CompileError(error.diagnostics) from None
    if not body:
        raise CompileError([Diagnostic(COMPILE_ERROR, "empty query cannot be compiled")])
    return body


def _surroundings(
    package: str, imports: Sequence[str], *, v0: bool
) -> tuple[tuple[str, ...], tuple[Import, ...]]:
    path: tuple[str, ...] = ()
    if package:
        text = f"package {package.removeprefix('data.')}"
        path = parse_module(Source("", text), v0=v0).package.path
    return path, tuple(parse_import(Source("", f"import {item}"), v0=v0) for item in imports)
