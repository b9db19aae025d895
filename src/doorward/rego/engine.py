"""Compile once, evaluate many times, from many threads.

Policies are compiled once (`compile` gives `Policies`) and bound to data (`Policies.bind` gives an
`Engine`); a `Query` is one question put to an engine. None of them changes. Other data gives
another engine on the same policies; other policies are compiled again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Unpack
from weakref import WeakKeyDictionary

from doorward.rego.analysis.documents import Documents, read_documents
from doorward.rego.analysis.passes import report
from doorward.rego.analysis.resolve import resolve_query
from doorward.rego.analysis.tree import data_conflicts
from doorward.rego.builtins import Environment, Registry
from doorward.rego.caches import CacheCounts, function_counts
from doorward.rego.code import Code
from doorward.rego.conversion import from_python
from doorward.rego.errors import CompileError
from doorward.rego.modules import Policy
from doorward.rego.options import OptionArguments, Options
from doorward.rego.partial.options import PartialArguments, PartialOptions
from doorward.rego.policies import Policies, compile
from doorward.rego.queries import PartialQuery, Query
from doorward.rego.query_text import parse_query_text
from doorward.rego.runtime.evaluation import Evaluation
from doorward.rego.runtime.operations import lookup_data
from doorward.rego.syntax.nodes import Module
from doorward.rego.values import UNDEFINED

if TYPE_CHECKING:
    from doorward.rego.partial.context import PartialTracer
    from doorward.rego.partial.evaluate import Partial

__all__ = ["Engine", "parse_term"]


class Engine:
    """Policies and data that can be queried; thread-safe. `modules` maps file names to Rego text,
    `data` is the base data, and further arguments are fields of `Options`. Raise CompileError for
    invalid policies and InputError for data that is not a Rego value.

    `policies` are policies compiled before, in place of `modules` and options; TypeError if these
    are passed too. `is_parsed`: the data is parsed JSON or was converted before, and is not
    checked.
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
            raise TypeError("give either compiled `policies`, or `modules` and options, not both")
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
        """Return an engine with the same policies and other data; nothing is compiled. InputError
        for data that is not a Rego value. `is_parsed`: the data is parsed JSON or was converted
        before, and is not checked.
        """
        return self.policies.bind(data, is_parsed=is_parsed)

    def with_modules(self, modules: Mapping[str, Policy]) -> Engine:
        """Return an engine with other policies on the same data, compiled with the same options.
        CompileError if they are invalid.
        """
        policies = compile(modules, self.options, before=self.policies)
        return policies.bind(self.data, is_parsed=True)  # it was checked for this engine

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
        `input.resource`, `data.rows`). `options`: by default `PartialOptions()`. Raise CompileError
        if the query cannot be compiled, ParseError for an invalid `package` or import in the
        options, and ValueError for an invalid path or namespace.
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
        call. `options` are the fields of `PartialOptions`. The errors are those of both:
        CompileError, ParseError and ValueError of the preparation, EvalError and InputError of the
        evaluation.
        """
        prepared = self.prepare_partial(query, unknowns, PartialOptions(**options))
        return prepared.evaluate(input, now_ns=now_ns, deadline=deadline, tracer=tracer)

    def evaluation(self, input: Any, *, strict: bool) -> Evaluation:
        """Return a new state for evaluating rules without a query, with `input`, which is not
        checked. With `strict`, an error of a built-in ends the evaluation, and the exact code of
        the rules is used.
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

    def has_package(self, path: Iterable[str | int]) -> bool:
        """Return True if a path below `data` is that of a package, or a prefix of the path of
        packages or rules, and no rule is at or above it. Its document is an object, empty if no
        rule below it is defined and there is no data. False for `data` itself.
        """
        node = self.policies.code.linked.root
        for key in path:
            child = node.children.get(key)
            if child is None or child.evaluate is not None or child.is_function:
                return False
            node = child
        return node is not self.policies.code.linked.root

    def has_rule_at(self, path: Iterable[str | int]) -> bool:
        """Return True if there is a rule or function at or above a path below `data`; rules below
        it do not count.
        """
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
        body, _ = resolve_query(parse_query_text(query, v0=self.options.v0))
        return read_documents(body, self.policies.program.callees)

    def emit(self) -> dict[str, str]:
        """Return the generated Python of each file as text, by file name. CompileError if Python's
        compiler refuses a rule, or if the code nests too deeply to be printed.
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
    not a valid query, EvalError if it cannot be evaluated; ValueError if the term is undefined, or
    for several expressions.
    """
    value = Engine().prepare(text).value()
    if value is UNDEFINED:
        raise ValueError(f"the term is undefined: `{text[:80]}`")
    return value
