"""Policies with tests to results: each test is evaluated alone, for the value of its rule.

A rule is a test if its name begins with `test_`; a `todo_test_` is listed and skipped. It passes if
its value is true, a table test if all of its cases do. Nothing else passes: not `1`, not a set.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any, Final

from doorward.base.collector import gc_paused
from doorward.base.records import record, replace
from doorward.bundles.loader import Loaded
from doorward.rego import (
    REGISTRY,
    UNDEFINED,
    CompileError,
    Engine,
    Environment,
    EvalError,
    Options,
    Query,
    Registry,
    Value,
    compile,
    explain,
)
from doorward.rego.shared import (
    INTERNAL_ERROR,
    Capabilities,
    Mask,
    Schemas,
    Span,
    Tracer,
    VerifiedTokens,
    parse_modules,
)
from doorward.rego.tools import Module, SavedPrograms, path_text
from doorward.testing.cases import Case, case_name, cases_of
from doorward.testing.finding import PROPERTY, Test, find_tests, has_properties

__all__ = ["Result", "Suite", "Test", "run", "run_one", "why"]

TIMEOUT: Final = 5.0
"""The default limit of one test in seconds, as in `opa test`; a longer one ends with an error."""

MAX_OUTPUT: Final = 1 << 20
"""The characters after which further texts that a test prints are dropped."""


@record
class Result:
    """The result of one test. `error` is the error that ended it, or None; `output` is what it
    printed; `cases` are those of a table test, by name.
    """

    test: Test
    passed: bool = False
    error: EvalError | None = None
    duration_ns: int = 0
    output: str = ""
    cases: Mapping[str, Case] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """The outcome: PASS, FAIL, ERROR (`error` is set) or SKIPPED (a `todo_test_` rule)."""
        if self.test.is_skipped:
            return "SKIPPED"
        if self.error is not None:
            return "ERROR"
        return "PASS" if self.passed else "FAIL"

    @property
    def outcomes(self) -> list[str]:
        """The outcomes of all cases at the lowest level; of the test itself if it has none."""
        if not self.cases:
            return [self.outcome]
        leaves = [leaf for case in self.cases.values() for leaf in case.leaves]
        return ["PASS" if leaf.passed else "FAIL" for leaf in leaves]


class Suite:
    """Compiled policies and the tests in them. Creating one raises CompileError if they do not
    compile, and checks the data. It runs one test at a time: `output` and `tried` belong to the
    current one.
    """

    def __init__(
        self,
        loaded: Loaded,
        *,
        v0: bool = False,
        max_errors: int = 10,
        environment: Environment | None = None,
        registry: Registry = REGISTRY,
        capabilities: Capabilities | None = None,
        schemas: Schemas | None = None,
        saved: SavedPrograms | None = None,
    ) -> None:
        """Compile the policies and find the tests in them. CompileError if they do not compile, or
        if a rule is at a path where the data has a value. `saved`: where compiled policies are kept
        between runs.
        """
        self.output: list[str] = []
        """The text that the current test has printed."""
        self.tried: dict[tuple[str, ...], None] = {}
        """The cases that the current test has tried, by name."""
        environment = environment or Environment(tokens=VerifiedTokens())
        options = Options(
            v0=v0,
            rego_versions=loaded.rego_versions,
            max_errors=max_errors,
            registry=registry,
            environment=replace(environment, on_print=self._print, on_test_case=self._note_case),
            capabilities=capabilities,
            schemas=schemas,
            metadata=True,
            saved=saved,
        )
        self._loaded = loaded
        self._parsed: dict[str, Module] = {}

        def prepare(parsed: dict[str, Module]) -> tuple[dict[str, Module], list[Test]]:
            self._parsed = parsed
            return find_tests(parsed)

        policies = compile(loaded.modules, options, prepare=prepare)
        self.tests: list[Test] = policies.notes
        self.engine = policies.bind(loaded.data)
        self.engine.check_data()

    @cached_property
    def trees(self) -> Mapping[str, Module]:
        """The policies as they were parsed, by file; parsed now if a saved program was used."""
        return self._parsed or parse_modules(self._loaded.modules, self.engine.options)

    @property
    def has_properties(self) -> bool:
        """True if the policies may define properties, rules that must never hold."""
        texts = self._loaded.modules.values()
        return any(PROPERTY in text for text in texts) and has_properties(self.trees.values())

    @cached_property
    def traced(self) -> Engine:
        """An engine for the same policies that reports every evaluated expression; compiled at
        first use.
        """
        with gc_paused():
            return self.engine.policies.traced().bind(self.engine.data)

    # Rules are asked by their path, under one query that asks nothing: to compile one for each test
    # would cost more than the test.

    @cached_property
    def query(self) -> Query:
        """The query under which tests are evaluated; prepared at first use."""
        return self.engine.prepare("true")

    @cached_property
    def traced_query(self) -> Query:
        """The query under which tests are evaluated with a report of every expression."""
        return self.traced.prepare("true")

    @cached_property
    def covered_query(self) -> Query:
        """A query on the same policies that reports the expressions that OPA would evaluate;
        compiled at first use.
        """
        with gc_paused():
            policies = self.engine.policies.traced(indexed=True)
        return policies.bind(self.engine.data).prepare("true")

    def matching(self, pattern: str) -> list[Test]:
        """Return the tests whose full name (`data.…`) contains a match of the regular expression;
        BuiltinError if that is invalid.
        """
        match = REGISTRY["regex.match"].call
        match(pattern, "")
        return [test for test in self.tests if match(pattern, str(test))]

    def forget(self) -> None:
        """Clear the output and cases of the last test."""
        self.output.clear()
        self.tried.clear()

    def _print(self, text: str, _span: Span) -> None:
        if sum(map(len, self.output)) < MAX_OUTPUT:
            self.output.append(f"{text}\n")

    def _note_case(self, names: Sequence[Value]) -> None:
        self.tried[tuple(map(case_name, names))] = None


def run(
    suite: Suite,
    tests: Sequence[Test] | None = None,
    *,
    timeout: float | None = TIMEOUT,
    tracer: Tracer | None = None,
) -> Iterator[Result]:
    """Yield the results of `tests`, by default of all, in order. `timeout` is the limit of one test
    in seconds, None for none; `tracer` gets the reports of the tests' expressions.
    """
    for test in suite.tests if tests is None else tests:
        yield run_one(suite, test, timeout=timeout, tracer=tracer)


def run_one(
    suite: Suite, test: Test, *, timeout: float | None = TIMEOUT, tracer: Tracer | None = None
) -> Result:
    """Run one test and return its result after at most `timeout` seconds (None: no limit); errors
    of the evaluation, its timeout included, are in the result. A `todo_test_` rule is not
    evaluated.

    `tracer` gets the reports of its expressions. Replaces the output and cases in `suite`.
    """
    if test.is_skipped:
        return Result(test)
    # Under a debugger or coverage.py too nothing may be read ahead of its line; nor before a case.
    is_watched = test.is_table or sys.gettrace() is not None
    query = suite.traced_query if is_watched else suite.query
    if tracer is not None:
        query = suite.covered_query
    # Its own output only: a test before this one may have failed in the middle.
    suite.forget()
    started = time.perf_counter_ns()
    answer: Any = UNDEFINED
    error: EvalError | None = None
    try:
        if test.is_function:
            # It has no value; the error says so.
            suite.engine.prepare(path_text(test.path))
        evaluation = query.evaluation(deadline=timeout)
        if tracer is not None:
            evaluation.tracer = tracer
        # The rule alone, not its package: other tests are not evaluated.
        answer = query.document_of(evaluation, test.path)
    except CompileError as raised:
        first = raised.diagnostics[0]
        error = EvalError(first.code, first.message, first.span)
    except EvalError as raised:
        error = raised
    except RecursionError:
        error = EvalError(INTERNAL_ERROR, "evaluation nests too deeply", test.span)
    elapsed = time.perf_counter_ns() - started
    output = "".join(suite.output)
    if error is not None or not test.is_table:
        return Result(test, error is None and answer is True, error, elapsed, output)
    top = cases_of(answer, suite.tried)
    return Result(test, top.passed, None, elapsed, output, top.cases)


def why(suite: Suite, result: Result, *, full: bool = False) -> str:
    """Run a failed test again, for at most `TIMEOUT` seconds, and return the conditions that did
    not hold, with their values, and hints about misspelled paths. `full` shows conditions that
    held, too. Nothing is masked, since a reader of the output can read the test.
    """
    name = path_text(result.test.path)
    text = explain(suite.traced, name, deadline=TIMEOUT, mask=Mask()).text(full=full)
    misses = suite.traced.prepare(name).near_misses.items()
    hints = [f"hint: there is no {path}: did you mean {near}?" for path, near in misses]
    return "\n".join([text, *hints])
