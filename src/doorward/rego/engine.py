"""Compile once, evaluate many times, from many threads.

Policies are compiled once (`compile` gives `Policies`) and bound to data (`Policies.bind` gives an
`Engine`); a `Query` is one question put to an engine. None of them changes. Other data gives
another engine on the same policies; other policies are compiled again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import cached_property
from sys import gettrace, settrace
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Unpack
from weakref import WeakKeyDictionary

from doorward.base.cancellation import is_stopped
from doorward.rego.analysis.dependencies import has_effects, in_order, nodes_read
from doorward.rego.analysis.documents import Documents, Path, input_paths, read_documents
from doorward.rego.analysis.evaluation_order import query_in_steps
from doorward.rego.analysis.passes import CheckOptions, Program, check, check_query, report
from doorward.rego.analysis.resolve import resolve_query
from doorward.rego.analysis.scope import source_name
from doorward.rego.analysis.tree import RuleNode, data_conflicts, insert_rules, path_text
from doorward.rego.builtins import Environment, Registry
from doorward.rego.caches import CacheCounts, function_counts
from doorward.rego.clock import CLOCK
from doorward.rego.code import Code, generate_code
from doorward.rego.codegen.constants import Constants
from doorward.rego.codegen.marks import Mark, Marks
from doorward.rego.codegen.program import Unit, unit
from doorward.rego.codegen.query import query_bindings, query_value, query_variables
from doorward.rego.conversion import from_python
from doorward.rego.errors import (
    CANCEL_ERROR,
    COMPILE_ERROR,
    INTERNAL_ERROR,
    LIMIT_ERROR,
    CompileError,
    Diagnostic,
    EvalError,
    ParseError,
)
from doorward.rego.modules import (
    Policy,
    Preparation,
    are_same,
    parse_modules,
    texts_of,
    unchanged_modules,
)
from doorward.rego.options import OptionArguments, Options
from doorward.rego.partial.options import PartialArguments, PartialOptions
from doorward.rego.runtime.evaluation import Evaluation
from doorward.rego.runtime.operations import lookup_data
from doorward.rego.source import Source
from doorward.rego.syntax.nodes import Body, Import, Module
from doorward.rego.syntax.parser import parse_import, parse_module, parse_query
from doorward.rego.values import UNDEFINED, Key, to_python

if TYPE_CHECKING:
    from doorward.rego.codegen.saved import SavedFunctions
    from doorward.rego.partial.context import PartialTracer
    from doorward.rego.partial.evaluate import Lowered, Partial, Question

__all__ = ["Engine", "PartialQuery", "Policies", "Query", "compile", "parse_term", "within"]

Work: TypeAlias = Callable[[Evaluation], Any]
"""A function that evaluates compiled code and returns the answer."""

_UNSAFE_VALUE: Final = "var _ is unsafe"
_LABELS: Final = "labels:"
MAX_VARIANTS: Final = 16
"""The most codes that are cached for queries that replace functions; each is a copy of the whole
program.
"""
MAX_QUESTIONS: Final = 64
LONGEST_QUESTION: Final = 1_024
"""The most prepared queries kept for partial evaluation, and the most characters of one with its
unknowns.
"""


def compile(
    modules: Mapping[str, Policy],
    options: Options | None = None,
    *,
    before: Policies | None = None,
    prepare: Preparation | None = None,
) -> Policies:
    """Compile policies: `modules` maps file names to Rego text, a `Source`, or parsed modules.
    Raise CompileError with all parse errors, or the errors of the first failed check.

    `options`: by default `Options()`. `before`: policies compiled earlier, whose results for
    unchanged modules are reused; they are returned if nothing changed. `prepare`: a function that
    returns the modules to compile in place of the parsed ones, and notes for `Policies.notes`; it
    must depend on nothing else. With `Options.saved` and without `before`, a program that an
    earlier run saved is loaded instead.
    """
    options = options or Options()
    if before is not None and prepare is None and before.is_from(modules, options):
        return before
    saved = options.saved if before is None else None
    key = None
    if saved is not None:
        from doorward.rego.saved.keys import key_of  # commands have such a folder, few others

        with options.measure("rego_module_parse"):
            key = key_of(modules, options, prepare)
    if saved is not None and key is not None:
        with options.measure("rego_module_compile"):
            known = saved.read(key, modules, options, prepare)
            if known is not None:
                return Policies(
                    known.modules,
                    options,
                    known.program,
                    functions=known.functions,
                    notes=known.notes,
                )
    with options.measure("rego_module_parse"):
        same: dict[str, Module] = {}
        if before is not None:
            same = unchanged_modules(modules, options, before.modules, before.options)
        parsed = parse_modules({**modules, **same}, options)
        notes: object = None
        if prepare is not None:
            parsed, notes = prepare(parsed)
    with options.measure("rego_module_compile"):
        checked = CheckOptions(options.strict, options.max_errors, options.schemas)
        earlier = before.program if before is not None and same else None
        program = check(list(parsed.values()), options.allowed_registry(), checked, earlier)
        return Policies(parsed, options, program, key=key, notes=notes)


class Policies:
    """Compiled policies without data; thread-safe. `modules` are the policies as they were parsed,
    by file name.
    """

    def __init__(
        self,
        modules: Mapping[str, Module],
        options: Options,
        program: Program,
        *,
        functions: SavedFunctions | None = None,
        key: str | None = None,
        notes: Any = None,
    ) -> None:
        """`functions`: code that an earlier run saved. `key`: the key under which this program is
        saved; None if it is not. `notes`: those of `prepare`.
        """
        self.modules = modules
        self.options = options
        self.program = program
        self.code = generate_code(program, options, saved=functions)
        self.notes = notes
        self._key = key
        self._variants: dict[frozenset[str], Code] = {}
        self._traced: dict[bool, Policies] = {}
        if options.traced:
            self._traced[options.indexed] = self
        self._rule_tree: RuleNode | None = None
        self._lowered: Lowered | None = None
        self._labels: dict[int, dict[str, Any]] = {}
        self._questions: dict[tuple[str, tuple[str, ...], PartialOptions], Question] = {}
        self._lock = threading.Lock()
        if options.saved is not None and not options.saved.with_code:
            self._save()

    @property
    def registry(self) -> Registry:
        """The built-ins that the policies may call."""
        return self.program.registry

    def is_from(self, modules: Mapping[str, Policy], options: Options) -> bool:
        """Return True if `modules` are the texts from which these policies were compiled, with the
        same names and with options that are equal. False for parsed modules, which may have been
        changed, and after a preparation.
        """
        if self.notes is not None or options != self.options:
            return False
        return options.timers is self.options.timers and are_same(modules, self.modules)

    @property
    def texts(self) -> dict[str, str]:
        """The texts of the policies by file name."""
        return texts_of(self.modules)

    @property
    def rule_tree(self) -> RuleNode:
        """The tree of rules below `data`, each at its constant prefix; built at the first
        access.
        """
        if self._rule_tree is None:
            self._rule_tree = insert_rules(self.program.modules)
        return self._rule_tree

    def question(self, query: str, unknowns: tuple[str, ...], options: PartialOptions) -> Question:
        """Return a query prepared for partial evaluation, from a cache of at most `MAX_QUESTIONS`.
        CompileError if it cannot be compiled; ValueError if an unknown, a path of
        `disable_inlining` or the namespace is invalid.
        """
        key = query, unknowns, options
        question = self._questions.get(key)
        if question is None:
            from doorward.rego.partial.evaluate import settings  # few ask for it

            resolved = self._resolve(query, options.package, options.imports)
            question = self.lowered.prepare(resolved, settings(unknowns, options))
            # Emptied instead of an LRU: callers ask a few queries again and again.
            if len(self._questions) >= MAX_QUESTIONS:
                self._questions.clear()
            if len(query) + sum(map(len, unknowns)) <= LONGEST_QUESTION:
                self._questions[key] = question
        return question

    def _resolve(self, query: str, package: str, imports: tuple[str, ...]) -> Body:
        """Return the resolved body of a query for partial evaluation. CompileError if it is
        invalid.
        """
        v0 = self.options.v0
        body = _parse_query(query, v0=v0)
        path, imported = _surroundings(package, imports, v0=v0)
        try:
            check_query(body, self.program, path, imported)
        except CompileError as error:
            # An expression's value is not asked for: it cannot be unsafe.
            remaining = [each for each in error.diagnostics if each.message != _UNSAFE_VALUE]
            raise CompileError(remaining or error.diagnostics) from None
        node = self.program.root.find(path) if path else None
        exports = () if node is None else tuple(map(str, node.children))
        resolved, _ = resolve_query(body, path, exports, imported)
        return resolved

    @property
    def lowered(self) -> Lowered:
        """The rules in the form for partial evaluation; computed at the first access."""
        from doorward.rego.partial.evaluate import Lowered  # few ask for it

        with self._lock:
            if self._lowered is None:
                self._lowered = Lowered(self.program, self.modules.values())
            return self._lowered

    @property
    def definitions(self) -> list[Mark]:
        """The definitions whose outcomes marked code records, by their numbers; [] without
        `Options.marked`.
        """
        return [] if self.code.plan.marks is None else list(self.code.plan.marks.definitions)

    def read_marks(self, marks: Marks) -> list[Mark]:
        """Return the outcomes recorded in `marks`, which `Query.marked_answer` returned, in the
        order of the policies; [] if the code is not marked. The marks must be of these policies.
        """
        table = self.code.plan.marks
        return [] if table is None else list(table.read(marks))

    def labels(self, mark: Mark) -> dict[str, Any]:
        """Return the `labels` that METADATA gives to a definition, its package and the packages
        above; of equal names the nearest wins. {} if there are none.
        """
        labels = self._labels.get(mark.number)
        if labels is None:
            from doorward.rego.analysis.metadata import labels_at  # few policies have labels

            modules = self._modules_with_labels
            labels = labels_at(mark.rule.span, modules) if modules else {}
            self._labels[mark.number] = labels
        return labels

    @cached_property
    def _modules_with_labels(self) -> list[Module]:
        """The modules parsed with their METADATA; [] if no policy contains `labels:`."""
        text = self.texts
        if not any(_LABELS in each for each in text.values()):
            return []
        return [self._parse_annotated(name, module) for name, module in self.modules.items()]

    def _parse_annotated(self, name: str, module: Module) -> Module:
        """Return the module parsed again with its METADATA; the module as it is if its METADATA is
        invalid.
        """
        try:
            return parse_module(
                module.span.source,
                v0=self.options.is_v0(name),
                annotations=True,
                builtins=self.registry,
            )
        except ParseError:
            return module  # its METADATA is broken: a comment, as for everybody else

    def bind(self, data: Any, *, is_parsed: bool = False) -> Engine:
        """Return an engine for these policies with `data`; nothing is compiled. `is_parsed`: the
        data is parsed JSON or was converted before, and is neither checked nor converted. Otherwise
        InputError for data that is not a Rego value.
        """
        return Engine(data=data, policies=self, is_parsed=is_parsed)

    def traced(self, *, indexed: bool = False) -> Policies:
        """Return the same policies with code that reports to an evaluation's tracer; they are not
        checked again, and the result is cached. `indexed`: rules that OPA's index excludes are not
        evaluated.
        """
        with self._lock:
            if indexed not in self._traced:
                options = replace(self.options, traced=True, indexed=indexed)
                self._traced[indexed] = Policies(self.modules, options, self.program)
            return self._traced[indexed]

    def code_for(self, mocked: frozenset[str]) -> Code:
        """Return code in which calls of the functions in `mocked` can be replaced by `with`. Up to
        `MAX_VARIANTS` such codes are cached.
        """
        # Policies that use `with` themselves have code that checks for these replacements already.
        if mocked <= self.code.plan.mocked:
            return self.code
        with self._lock:
            code = self._variants.get(mocked)
            if code is None:
                if len(self._variants) >= MAX_VARIANTS:
                    self._variants.pop(next(iter(self._variants)))
                code = generate_code(self.program, self.options, mocked)
                self._variants[mocked] = code
            return code

    def warm(self) -> None:
        """Generate the code of every rule now, so that the first decision is not slower. A
        definition that a table selects by value is left to its first call. The program is then
        saved, if `Options.saved` includes code. CompileError if Python's compiler refuses a rule.
        """
        self.code.warm(node for node in self.program.root.walk() if node.definitions)
        if self.options.saved is not None and self.options.saved.with_code:
            self._save()

    def _save(self) -> None:
        """Save the program for the next run, once; nothing if it was loaded or cannot be saved."""
        if self.options.saved is not None and self._key is not None:
            self.options.saved.write(self._key, self.program, self.code, self.notes)
            self._key = None

    def emit(self) -> dict[str, str]:
        """Return the generated Python of each file as text, by file name. CompileError if it nests
        too deeply.
        """
        code = self.whole_code()
        return {item.file: item.text(code.linked.namespace) for item in code.units}

    def whole_code(self, mocked: frozenset[str] = frozenset()) -> Code:
        """Return the code for calls of `mocked`, with the functions of all files generated."""
        code = self.code_for(mocked)
        return code if code.units else generate_code(self.program, self.options, mocked, whole=True)


class Engine:
    """Policies and data that can be queried; thread-safe. `modules` maps file names to Rego text,
    `data` is the base data, and every other argument is a field of `Options`. Raise CompileError
    for invalid policies and InputError for data that is not a Rego value.

    `policies` are policies compiled before, in place of `modules` and options; TypeError if these
    are passed too.
    """

    __slots__ = ("_answers", "_lock", "data", "environment", "policies")

    policies: Policies
    data: Any
    environment: Environment
    """The access of built-ins to the outside world: clock, network, caches, output of `print`."""

    def __init__(
        self,
        modules: Mapping[str, Policy] | None = None,
        data: Any = None,
        *,
        policies: Policies | None = None,
        is_parsed: bool = False,
        **options: Unpack[OptionArguments],
    ) -> None:
        data = {} if data is None else data
        if not is_parsed:
            data = from_python(data, "data")
        if policies is None:
            policies = compile(modules or {}, Options(**options))
        elif modules is not None or options:
            raise TypeError("`modules` and options cannot be combined with compiled `policies`")
        self.policies = policies
        self.data = data
        self.environment = policies.options.allowed_environment()
        self._answers: WeakKeyDictionary[Code, _Answers] = WeakKeyDictionary()
        self._lock = threading.Lock()

    @property
    def options(self) -> Options:
        """The options with which the policies were compiled."""
        return self.policies.options

    @property
    def registry(self) -> Registry:
        """The built-ins that policies and queries may call."""
        return self.policies.registry

    @property
    def trees(self) -> Mapping[str, Module]:
        """The policies as they were parsed, by file name."""
        return self.policies.modules

    def cache_counts(self) -> dict[str, CacheCounts]:
        """Return the counts of the caches that decisions share, by name: responses of `http.send`,
        verified tokens (`tokens`, if that cache counts), and caches of functions such as compiled
        patterns.
        """
        environment = self.environment
        known = dict(function_counts()) | {"http.send": environment.responses.counts}
        # A cache of somebody else need not count.
        counts = getattr(environment.tokens, "counts", None)
        return known | {"tokens": counts} if isinstance(counts, CacheCounts) else known

    def check_data(self) -> None:
        """Raise CompileError if a rule is at a path where `data` has a value. In an evaluation the
        rule would hide the data.
        """
        errors = list(data_conflicts(self.policies.rule_tree, self.data))
        if errors:
            raise CompileError(report(errors, self.options.max_errors))

    def with_data(self, data: Any, *, is_parsed: bool = False) -> Engine:
        """Return an engine with the same policies and other data; nothing is compiled. `is_parsed`:
        as in `Policies.bind`.
        """
        return self.policies.bind(data, is_parsed=is_parsed)

    def with_modules(self, modules: Mapping[str, Policy]) -> Engine:
        """Return an engine with other policies on the same data, compiled with the same options.
        CompileError if they are invalid.
        """
        return compile(modules, self.options, before=self.policies).bind(self.data)

    def prepare(
        self,
        query: str,
        *,
        strict_builtin_errors: bool = False,
        deadline: float | None = None,
        package: str = "",
        imports: Iterable[str] = (),
    ) -> Query:
        """Prepare a query for repeated use. Raise CompileError if it cannot be compiled, and
        ParseError for an invalid `package` or import.

        `deadline`: seconds that one evaluation may take; None for no limit.
        `strict_builtin_errors`: an error of a built-in ends the evaluation, instead of making its
        expression undefined. `package` and `imports` are visible to the query as in a module.
        """
        return Query(
            self,
            query,
            strict_builtin_errors=strict_builtin_errors,
            deadline=deadline,
            package=package,
            imports=tuple(imports),
        )

    def prepare_partial(
        self,
        query: str,
        unknowns: Iterable[str] = ("input",),
        options: PartialOptions | None = None,
    ) -> PartialQuery:
        """Prepare a query for repeated partial evaluation with `unknowns` (paths such as
        `input.resource`, `data.rows`). `options`: by default `PartialOptions()`. CompileError as
        for `prepare`; ValueError for an invalid path or namespace.
        """
        return PartialQuery(self, query, tuple(unknowns), options or PartialOptions())

    def partial(
        self,
        query: str,
        unknowns: Iterable[str] = ("input",),
        input: Any = UNDEFINED,
        *,
        now_ns: int | None = None,
        deadline: float | None = None,
        tracer: PartialTracer | None = None,
        **options: Unpack[PartialArguments],
    ) -> Partial:
        """Evaluate `query` partially, once: `prepare_partial` and `PartialQuery.evaluate` in one
        call, with their errors. `options` are the fields of `PartialOptions`.
        """
        prepared = self.prepare_partial(query, unknowns, PartialOptions(**options))
        return prepared.evaluate(input, now_ns=now_ns, deadline=deadline, tracer=tracer)

    def _evaluation(self, input: Any, *, strict: bool) -> Evaluation:
        """Return the state for an evaluation without a query. With `strict`, an error of a built-in
        ends the evaluation.
        """
        code = self.policies.code
        code = code.exact() if strict else code
        answers = self.answers(code, strict=strict)
        new = Evaluation(input, self.data, answers, code.linked.root, self.environment)
        new.strict, new.exact = strict, code.plan.exact
        if code.plan.limited:
            new.count_from_here()
        if code.plan.marks is not None:
            new.marks = code.plan.marks.blank.copy()
        return new

    def has_rules(self, path: Iterable[str | int]) -> bool:
        """Return True if there are rules above, at or below a path below `data`. An integer key
        beside the names of rules also gives True: the compiler reports such a reference as a type
        error.
        """
        node = self.policies.code.linked.root
        for key in path:
            child = node.children.get(key)
            if child is None:
                return type(key) is int and bool(node.children)
            if child.evaluate is not None or child.is_function:
                return True
            node = child
        return bool(node.children)

    def has_rule_at(self, path: Iterable[str | int]) -> bool:
        """Return True if there is a rule at or above a path below `data`."""
        node = self.policies.code.linked.root
        for key in path:
            child = node.children.get(key)
            if child is None:
                return False
            if child.evaluate is not None or child.is_function:
                return True
            node = child
        return False

    def base_document(self, path: Iterable[str | int]) -> Any:
        """Return the data at a path, ignoring rules; UNDEFINED if there is none."""
        value = self.data
        for key in path:
            value = lookup_data(value, key)
            if value is UNDEFINED:
                break
        return value

    def documents(self, query: str) -> Documents:
        """Return the documents that a query may read: input, base data and rules. CompileError if
        the query cannot be parsed; other errors in it are ignored.
        """
        body, _ = resolve_query(_parse_query(query, v0=self.options.v0))
        return read_documents(body, self.policies.program.callees)

    def emit(self) -> dict[str, str]:
        """Return the generated Python of each file as text, by file name. CompileError if it nests
        too deeply.
        """
        return self.policies.emit()

    def answers(self, code: Code, *, strict: bool) -> dict[int, Any]:
        """Return the cache of answers that depend only on data, by slot, for the compiled `code`.
        All evaluations share it and add to it. `strict`: the separate cache for evaluations in
        which an error of a built-in is an error.
        """
        with self._lock:
            # By code and weakly: each code numbers its slots itself, and a dropped code frees its
            # answers.
            answers = self._answers.get(code)
            if answers is None:
                answers = self._answers[code] = _Answers()
            return answers.strict if strict else answers.lenient


class _Answers:
    """The answers of rules that do not read the input, by their slot. Those for strict built-in
    errors are separate, since an answer that is undefined may be an error there.
    """

    __slots__ = ("lenient", "strict")

    def __init__(self) -> None:
        self.lenient: dict[int, Any] = {}
        self.strict: dict[int, Any] = {}


def parse_term(text: str) -> Any:
    """Return the Rego value of a ground term such as `{"a": {1, 2}}`. CompileError for text that is
    not a valid query; ValueError if the term is undefined, or for several expressions.
    """
    value = Engine().prepare(text).value()
    if value is UNDEFINED:
        raise ValueError("the term is undefined, so it has no value")
    return value


class PartialQuery:
    """A query prepared for partial evaluation; thread-safe."""

    __slots__ = ("_question", "engine", "options", "text")

    def __init__(
        self, engine: Engine, text: str, unknowns: tuple[str, ...], options: PartialOptions
    ) -> None:
        self.engine = engine
        self.text = text
        self.options = options
        self._question = engine.policies.question(text, unknowns, options)

    def evaluate(
        self,
        input: Any = UNDEFINED,
        *,
        now_ns: int | None = None,
        deadline: float | None = None,
        tracer: PartialTracer | None = None,
    ) -> Partial:
        """Evaluate partially and return the residual: for any values of the unknowns it gives the
        same result as the query. Raise EvalError if the known part fails, after `deadline` seconds,
        or if the residual exceeds `PartialOptions.max_size`; InputError for an invalid input.
        `now_ns`: the time for built-ins. `tracer` receives each evaluation and solution.
        """
        if input is not UNDEFINED:
            input = from_python(input, "input")
        engine = self.engine
        evaluation = engine._evaluation(input, strict=self.options.strict_builtin_errors)
        if now_ns is not None:
            evaluation.now_ns = now_ns
        if deadline is not None:
            evaluation.deadline = time.monotonic() + deadline
        lowered = engine.policies.lowered
        left: Partial = _run(
            lambda _: lowered.evaluate(self._question, evaluation, tracer), evaluation
        )
        return left


class Query:
    """A prepared query; thread-safe. `variables` are the names in its results. `Engine.prepare`
    makes queries and describes the arguments.
    """

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
        options = engine.options
        with options.measure("rego_query_parse"):
            self.source: Body = _parse_query(text, v0=options.v0)
        if options.capabilities is not None:
            problems = options.capabilities.problems_of_query(self.source)
            if problems:
                raise CompileError(problems)
        path, imported = _surroundings(package, imports, v0=options.v0)
        with options.measure("rego_query_compile"):
            self._compile(path, imported)

    def _compile(self, path: tuple[str, ...], imported: tuple[Import, ...]) -> None:
        """Check the query and generate its code. CompileError if it is invalid."""
        policies = self.engine.policies
        checked = check_query(self.source, policies.program, path, imported)
        self.body: Body = checked.body
        code = policies.code_for(checked.mocked)
        self._mocked = checked.mocked
        self._fast = code
        self._code = self._exact if self.strict else code
        self._root = self._code.linked.root
        self._answers = self.engine.answers(self._code, strict=self.strict)
        self._columns = query_variables(checked.body, policies.program.callees.arity)
        self.variables = [source_name(name) for name in self._columns]
        is_single = len(checked.body) == 1
        self._value = self._function(self._code, single=True) if is_single else None
        # A decision reads the value: code for rows is generated when somebody reads rows.
        self._bindings = None if is_single else self._function(self._code, single=False)
        self._exact_work: dict[bool, Work] = {}
        self._in_order: list[RuleNode] | None = None
        self._counts = self._code.plan.limited
        self._marks = self._code.plan.marks
        # The fast path of `answer` sets up nothing for exact, counting or marked code.
        is_plain = not (self._code.plan.exact or self._counts or self._marks)
        self._is_plain = is_plain and self._value is not None

    @property
    def _exact(self) -> Code:
        """The code that decides errors."""
        return self._fast.exact()

    def _function(self, code: Code, *, single: bool) -> Callable[[Evaluation], Any]:
        """Return the function for the value of the only expression, if `single`, which for
        `data.a.p` is the function of the rule itself; otherwise the function that returns all rows.
        """
        rule = code.plan.only_rule(self.body[0]) if single else None
        if rule is not None:
            answer: Callable[[Evaluation], Any] = code.linked.namespace[rule]
            return answer
        compiled, names = self._generate(code, single=single)
        (function,) = compiled.functions()
        # What Python does not find among a function's globals it looks for here: so the names of
        # the program are shared by all its queries.
        names["__builtins__"] = code.linked.namespace
        return FunctionType(function, names)

    def _generate(self, code: Code, *, single: bool) -> tuple[Unit, dict[str, Any]]:
        """Return the query's code, for the value of its only expression if `single`, otherwise for
        all rows; and its names in addition to the program's.
        """
        plan, body = code.plan, self.body
        if not plan.traced and (plan.exact or plan.failures.body(body)):
            body = query_in_steps(body, plan.callees)
        constants = Constants(shared=code.linked.namespace)
        if single:
            function = query_value("query.value", body, plan, constants)
        else:
            function = query_bindings("query", body, self._columns, plan, constants)
        return unit(Source("", self.text), [function]), constants.names

    def bind(self, engine: Engine) -> Query:
        """Return the same query for another engine; nothing is compiled. ValueError if that engine
        has other policies.
        """
        if engine.policies is not self.engine.policies:
            raise ValueError("the query was prepared by an engine with other policies")
        # Everything but the data belongs to the policies, and is shared.
        bound = copy(self)
        bound.engine = engine
        bound._answers = engine.answers(self._code, strict=self.strict)
        return bound

    def emit(self) -> str:
        """Return the generated Python of the query as text. CompileError if it nests too deeply."""
        code = self._code if self.strict else self.engine.policies.whole_code(self._mocked)
        compiled, names = self._generate(code, single=self._value is not None)
        return compiled.text(names)

    def warm(self) -> None:
        """Generate the code of all rules that the query may read, so that no decision waits for it.
        A definition that a table selects by value is left to its first call. CompileError if
        Python's compiler refuses a rule.
        """
        self._code.warm(self.rules_read)

    @property
    def rules_read(self) -> list[RuleNode]:
        """The nodes of the rules that the query may read, directly or through others."""
        program = self.engine.policies.program
        return nodes_read(self.body, program.callees, program.graph)

    def evaluation(
        self, input: Any = UNDEFINED, *, now_ns: int | None = None, deadline: float | None = None
    ) -> Evaluation:
        """Return the state for one evaluation, to be passed to `value_of` or `rows_of`. Another
        thread may call its `cancel()` meanwhile. `now_ns`: the time for built-ins. `deadline`:
        seconds from now, in place of the query's own. `input` must be parsed JSON or a result of
        `from_python`; it is not checked.
        """
        engine = self.engine
        new = Evaluation(input, engine.data, self._answers, self._root, engine.environment)
        new.strict, new.exact = self.strict, self._code.plan.exact
        if self._counts:
            new.count_from_here()
        if self._marks is not None:
            new.marks = self._marks.blank.copy()
        if now_ns is not None:
            new.now_ns = now_ns
        seconds = self.deadline if deadline is None else deadline
        if seconds is not None:
            new.deadline = time.monotonic() + seconds
        return new

    @property
    def documents(self) -> Documents:
        """The documents that the query may read: the input and data, and the rules."""
        return read_documents(self.body, self.engine.policies.program.callees)

    @property
    def input_paths(self) -> list[Path]:
        """The paths at which the query may read the input, such as `("user", "name")`; [()] if it
        reads all of it.
        """
        return input_paths(self.body, self.engine.policies.program.callees)

    @property
    def near_misses(self) -> dict[str, str]:
        """For each path below `data` that the query reads and that does not exist, the most similar
        existing path, if there is one; both as text.
        """
        from doorward.rego.analysis.hints import near_path

        root, data = self.engine.policies.program.root, self.engine.data
        read = [path for path in self.documents.base if path[0] == "data"]
        near = {path: near_path(path, root, data) for path in read}
        return {path_text(path[1:]): misses for path, misses in near.items() if misses is not None}

    def value(self, input: Any = UNDEFINED, *, now_ns: int | None = None) -> Any:
        """Return the value of the query's only expression; UNDEFINED if it has none, and of several
        values the first in Rego's order. `now_ns`: the time for built-ins, in nanoseconds.

        Raise ValueError for a query of several expressions, InputError if `from_python` cannot
        convert `input`, and EvalError if the evaluation fails or exceeds the deadline.
        """
        if input is not UNDEFINED:
            input = from_python(input, "input")
        if (tracer := gettrace()) is not None:
            # A debugger is to stop in a rule, not where its code is generated.
            settrace(None)
            self.warm()
            settrace(tracer)
        return self.answer(input, now_ns=now_ns)

    def answer(self, input: Any = UNDEFINED, *, now_ns: int | None = None) -> Any:
        """Return the same as `value` for an input that is parsed JSON or comes from `from_python`.
        The input is not checked, since that takes longer than many policies.
        """
        if self._is_plain and now_ns is None:
            # `evaluation`, written out: this precedes every decision.
            engine = self.engine
            state = Evaluation(input, engine.data, self._answers, self._root, engine.environment)
            if self.deadline is not None:
                state.deadline = time.monotonic() + self.deadline
                return self._answer_in_time(state)
        elif self._value is None:
            raise ValueError("the query has several expressions: use results()")
        else:
            return self._run(self.evaluation(input, now_ns=now_ns), single=True)
        try:
            return self._value(state)  # type: ignore[misc] # a query that `_is_plain` has one
        except EvalError as error:
            return self._exactly(state, error, lambda: self._exact_function(single=True))
        except RecursionError:
            return self._run(state, single=True)

    def _answer_in_time(self, state: Evaluation) -> Any:
        """Return the value for an evaluation with a deadline. The same as `_run` for a single
        value, written out because every decision passes here.
        """
        before = CLOCK.check_deadline
        CLOCK.check_deadline = state.halt_if_late
        try:
            return self._value(state)  # type: ignore[misc]  # a query that `_is_plain` has one
        except EvalError as error:
            return self._exactly(state, error, lambda: self._exact_function(single=True))
        except RecursionError:
            return self._run(state, single=True)
        finally:
            CLOCK.check_deadline = before

    def marked_answer(
        self, input: Any = UNDEFINED, answered: dict[str, dict[Key, Any]] | None = None
    ) -> tuple[Any, Marks]:
        """Return the same as `answer`, and the marks that marked code recorded, for
        `Policies.read_marks`; {} if the code is not marked. `answered`: a dict that receives the
        results of built-ins, if they record them.
        """
        table = self._marks
        if table is None or self.strict or self._counts or self._value is None:
            state = self.evaluation(input)
            state.answered = answered
            return self.value_of(state), {} if table is None else state.marks
        # As in `answer`, `evaluation` written out.
        engine = self.engine
        state = Evaluation(input, engine.data, self._answers, self._root, engine.environment)
        state.marks = table.blank.copy()
        if answered is not None:
            state.answered = answered
        if self.deadline is not None:
            state.deadline = time.monotonic() + self.deadline
        return self._run(state, single=True), state.marks

    def value_of(self, evaluation: Evaluation) -> Any:
        """Return the value for an evaluation from `evaluation()`, which may have a tracer and whose
        `errors` can be read afterwards. ValueError for a query of several expressions; EvalError if
        the evaluation fails.
        """
        if self._value is None:
            raise ValueError("the query has several expressions: use rows_of()")
        return self._run(evaluation, single=True)

    def results(self, input: Any = UNDEFINED, *, now_ns: int | None = None) -> list[dict[str, Any]]:
        """Return one dict for each solution, with the values of the query's variables for JSON. []
        if the query is undefined; solutions in which an expression is false are left out.
        InputError and EvalError as for `value`.
        """
        if input is not UNDEFINED:
            input = from_python(input, "input")
        evaluation = self.evaluation(input, now_ns=now_ns)
        rows = self.rows_of(evaluation)
        # Values that share their parts can be exponentially larger as JSON: within the deadline.
        results: list[dict[str, Any]] = _run(lambda _: self._to_results(rows), evaluation)
        return results

    def _to_results(self, rows: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
        """Return each row as a dict from variable name to value; rows in which an expression is
        false are left out.
        """
        count = len(self._columns)
        return [
            {
                name: to_python(value)
                for name, value in zip(self.variables, row[:count], strict=True)
            }
            for row in rows
            if all(value is not False for value in row[count:])
        ]

    def rows(self, input: Any = UNDEFINED, *, now_ns: int | None = None) -> list[tuple[Any, ...]]:
        """Return one tuple for each solution: the values of `variables`, then of the expressions in
        order (True for those without a value); UNDEFINED for an unbound variable. [] if the query
        is undefined; solutions with a false expression are included. InputError and EvalError as
        for `value`.
        """
        if input is not UNDEFINED:
            input = from_python(input, "input")
        return self.rows_of(self.evaluation(input, now_ns=now_ns))

    def rows_of(self, evaluation: Evaluation) -> list[tuple[Any, ...]]:
        """Return the rows, as `rows` does, for an evaluation from `evaluation()`, whose `errors`
        can be read afterwards. EvalError if the evaluation fails.
        """
        if self._bindings is None:
            self._bindings = self._function(self._code, single=False)
        rows: list[tuple[Any, ...]] = self._run(evaluation, single=False)
        return rows

    def document_of(self, evaluation: Evaluation, path: Sequence[Key]) -> Any:
        """Return the document at a path below `data` for an existing evaluation, as a query for the
        path would; UNDEFINED if there is none. EvalError if a rule fails.
        """

        def read(each: Evaluation) -> Any:
            return each.document_at(path)

        return self._evaluate(evaluation, read, lambda: read)

    def _run(self, evaluation: Evaluation, *, single: bool) -> Any:
        """Evaluate and return the value, or without `single` the rows."""
        work = self._value if single else self._bindings
        assert work is not None
        return self._evaluate(evaluation, work, lambda: self._exact_function(single=single))

    def _evaluate(self, evaluation: Evaluation, work: Work, exact: Callable[[], Work]) -> Any:
        """Return the result of `work`. If it raises EvalError, the result of exact code, or its
        error.

        INVARIANT: all evaluations end here, or in `answer` in the same way: fast code reports
        errors that OPA does not have, so `exact` has the last word.
        """
        try:
            return self._run_at_any_depth(work, evaluation)
        except EvalError as error:
            return self._exactly(evaluation, error, exact)

    def _run_at_any_depth(self, work: Work, evaluation: Evaluation) -> Any:
        """Return the result of `work`, even if rules nest too deeply for Python's stack."""
        try:
            return _run(work, evaluation)
        except _TooDeepError:
            _run(self._answer_rules, evaluation)
            return _run(work, evaluation)

    def _answer_rules(self, evaluation: Evaluation) -> None:
        """Evaluate the rules that the query reads, each after those it reads, so that a long chain
        does not nest in Python's stack; their answers stay in the evaluation's cache. Errors are
        left to the query itself, except limits and the deadline.

        Raise _TooDeepError if that is not possible: the evaluation is traced, a rule has outside
        effects, or a single rule is too deep.
        """
        if self._in_order is None:
            self._in_order = self._rules_in_order()
        if evaluation.tracer is not None or not self._in_order:
            raise _TooDeepError
        # Bottom up: each rule finds the answers of those below it in the cache.
        for node in self._in_order:
            document = evaluation.root.find(node.path)
            if document is None or document.evaluate is None or document.is_function:
                continue
            try:
                evaluation.value_of(document)
            except RecursionError:
                raise _TooDeepError from None
            except EvalError as error:
                if error.code in _LIMITS:
                    raise
                # Reported where the query asks for this rule.

    def _rules_in_order(self) -> list[RuleNode]:
        """Return the rules that the query reads, each after those it reads; [] if one has outside
        effects.
        """
        program = self.engine.policies.program
        nodes = nodes_read(self.body, program.callees, program.graph)
        if has_effects(nodes, program.callees):
            return []
        read = {id(node) for node in nodes}
        return [node for node in in_order(program.root, program.graph) if id(node) in read]

    def _exact_function(self, *, single: bool) -> Work:
        """Return the exact code of the query, for its value or without `single` for its rows;
        compiled at the first call.
        """
        work = self._exact_work.get(single)
        if work is None:
            work = self._exact_work[single] = self._function(self._exact, single=single)
        return work

    def _exactly(self, evaluation: Evaluation, error: EvalError, exact: Callable[[], Work]) -> Any:
        """Evaluate again with exact code, which takes OPA's steps in OPA's order, after faster code
        raised `error`, and return the result. Raise the error of exact code if that fails too;
        `error` itself if the code was exact already or a limit was exceeded.
        """
        if self._code.plan.exact or error.code in _LIMITS:
            raise error
        answers = self.engine.answers(self._exact, strict=False)
        evaluation.repeat(self._exact.linked.root, answers)
        try:
            return self._run_at_any_depth(exact(), evaluation)
        except EvalError as again:
            # The first one's traceback leads through the rules.
            same = again.diagnostics == error.diagnostics
            final = error if same else again.with_traceback(error.__traceback__)
            # Its cause is what a built-in of somebody else raised.
            raise final from final.__cause__


_LIMITS: Final = frozenset({CANCEL_ERROR, INTERNAL_ERROR, LIMIT_ERROR})
"""The codes of errors that exact code would not avoid, so that the evaluation is not repeated."""


def _run(work: Callable[[Evaluation], Any], evaluation: Evaluation) -> Any:
    """Return `work(evaluation)`. Meanwhile long operations on values in this thread check the
    evaluation's deadline. _TooDeepError if Python's stack is exhausted.
    """
    # Restored afterwards: an evaluation may run within another one of this thread.
    before = CLOCK.check_deadline
    CLOCK.check_deadline = evaluation.halt_if_late if evaluation.deadline is not None else None
    try:
        return work(evaluation)
    except RecursionError:
        raise _TooDeepError from None
    finally:
        CLOCK.check_deadline = before


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Context with a time limit for work on values outside an evaluation, such as writing JSON:
    operations in it raise EvalError after `seconds`, or once the caller is gone. None removes the
    limit, even one that the thread has outside. The limit from before applies again at the end.
    """
    until = None if seconds is None else time.monotonic() + seconds

    def check() -> None:
        if until is not None and (time.monotonic() > until or is_stopped()):
            raise EvalError(CANCEL_ERROR, "caller cancelled query execution")

    before = CLOCK.check_deadline
    CLOCK.check_deadline = check
    try:
        yield
    finally:
        CLOCK.check_deadline = before


class _TooDeepError(EvalError):
    """An evaluation needed more stack than Python has."""

    def __init__(self) -> None:
        super().__init__(INTERNAL_ERROR, "evaluation nests too deeply")


def _parse_query(text: str, *, v0: bool) -> Body:
    """Parse a query, as Rego v0 if `v0`; CompileError if it is invalid or empty."""
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
    """Return the parsed package path and imports of a query, read as Rego v0 if `v0`; `data.`
    before the package is ignored. ParseError if one is invalid.
    """
    path: tuple[str, ...] = ()
    if package:
        text = f"package {package.removeprefix('data.')}"
        path = parse_module(Source("", text), v0=v0).package.path
    return path, tuple(parse_import(Source("", f"import {item}"), v0=v0) for item in imports)
