"""Policies with tests in them to results: which rules are tests, and what each of them says.

A rule is a test if its name begins with `test_`; `todo_test_` is found and skipped. It passes if
its value is true, a table test if all of its cases are. Nothing else passes: not `1`, not a set.
Two rules of one name are two tests, the second `test_x#01`, as with `opa test`.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from doorward.pdp.loader import Loaded
from doorward.rego import REGISTRY, Capabilities, Engine, Environment, Query, Registry
from doorward.rego.analysis.schemas import Schemas
from doorward.rego.analysis.tree import path_text
from doorward.rego.builtins.token_cache import VerifiedTokens
from doorward.rego.errors import INTERNAL_ERROR, EvalError
from doorward.rego.explanation import Mask, explain
from doorward.rego.runtime.evaluation import Tracer
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import Module, Rule, Scalar, Var
from doorward.rego.values import UNDEFINED, Key, from_key
from doorward.testing.cases import Case, CaseTracer, case_name
from doorward.testing.tracers import Both

__all__ = ["Result", "Suite", "Test", "run", "run_one", "why"]

TIMEOUT: Final = 5.0
"""Seconds that one test may take, as with `opa test`."""

MAX_OUTPUT: Final = 1 << 20
"""Characters of `print` kept of one test."""

_PREFIX: Final = "test_"
_SKIPPED: Final = "todo_test_"


@dataclass(frozen=True, slots=True)
class Test:
    """One test: where it stands, what it is called, and the rule to ask for it."""

    __test__ = False  # what pytest shall not collect by its name

    package: str
    name: str
    path: tuple[Key, ...]
    span: Span
    has_cases: bool = False

    @property
    def is_skipped(self) -> bool:
        return self.name.rpartition(".")[2].startswith(_SKIPPED)

    def __str__(self) -> str:
        """`data.authz_test.test_allow`."""
        return f"{self.package}.{self.name}"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one test. `error` is what stopped it; `output` is what it printed."""

    test: Test
    passed: bool = False
    error: EvalError | None = None
    duration_ns: int = 0
    output: str = ""
    cases: Mapping[str, Case] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """PASS, FAIL, ERROR or SKIPPED."""
        if self.test.is_skipped:
            return "SKIPPED"
        if self.error is not None:
            return "ERROR"
        return "PASS" if self.passed else "FAIL"

    @property
    def outcomes(self) -> list[str]:
        """One for each case, or for the test as a whole."""
        if not self.cases:
            return [self.outcome]
        leaves = [leaf for case in self.cases.values() for leaf in case.leaves]
        return ["PASS" if leaf.passed else "FAIL" for leaf in leaves]


class Suite:
    """Policies and the tests in them. CompileError if they do not compile."""

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
    ) -> None:
        self.output: list[str] = []
        """What the test that runs now has printed."""
        environment = environment or Environment(tokens=VerifiedTokens())
        engine = Engine(
            modules=loaded.modules,
            data=loaded.data,
            v0=v0,
            rego_versions=loaded.rego_versions,
            max_errors=max_errors,
            registry=registry,
            environment=replace(environment, on_print=self._print),
            capabilities=capabilities,
            schemas=schemas,
        )
        engine.check_data()
        self.trees = engine.trees
        renamed, self.tests = _find(loaded.modules, self.trees)
        self.engine = engine if renamed is loaded.modules else engine.with_modules(renamed)

    @cached_property
    def traced(self) -> Engine:
        """The same policies, reporting what they ask."""
        return replace(self.engine, traced=True)

    # Rules are asked by their path, under one query that asks nothing: to compile one for each test
    # would cost more than the test.

    @cached_property
    def query(self) -> Query:
        """What tests are evaluated under."""
        return self.engine.prepare("true")

    @cached_property
    def traced_query(self) -> Query:
        """The same, traced."""
        return self.traced.prepare("true")

    def matching(self, pattern: str) -> list[Test]:
        """The tests whose full name a regular expression finds; BuiltinError if it is none."""
        match = REGISTRY["regex.match"].call
        match(pattern, "")
        return [test for test in self.tests if match(pattern, str(test))]

    def _print(self, text: str, _span: Span) -> None:
        if sum(map(len, self.output)) < MAX_OUTPUT:
            self.output.append(f"{text}\n")


def run(
    suite: Suite,
    tests: Sequence[Test] | None = None,
    *,
    timeout: float | None = TIMEOUT,
    tracer: Tracer | None = None,
) -> Iterator[Result]:
    """The results of `tests`, by default all, in the order in which they stand in the files."""
    for test in suite.tests if tests is None else tests:
        yield run_one(suite, test, timeout=timeout, tracer=tracer)


def run_one(
    suite: Suite, test: Test, *, timeout: float | None = TIMEOUT, tracer: Tracer | None = None
) -> Result:
    """The result of one test."""
    if test.is_skipped:
        return Result(test)
    cases = CaseTracer(path_text(test.path), test.path) if test.has_cases else None
    listeners = [each for each in (cases, tracer) if each is not None]
    # Under a debugger or coverage.py too: there, nothing may be read ahead of its line.
    is_watched = bool(listeners) or sys.gettrace() is not None
    query = suite.traced_query if is_watched else suite.query
    if cases is not None:
        # Fresh answers: cases of a rule that another test has asked would not be heard of.
        query = suite.traced.with_data(suite.traced.data).prepare("true")
    suite.output.clear()
    started = time.perf_counter_ns()
    answer: Any = UNDEFINED
    error: EvalError | None = None
    try:
        evaluation = query.evaluation(deadline=timeout)
        if listeners:
            evaluation.tracer = Both(listeners)
        answer = evaluation.document_at(test.path)
    except EvalError as raised:
        error = raised
    except RecursionError:
        error = EvalError(INTERNAL_ERROR, "evaluation nests too deeply", test.span)
    elapsed = time.perf_counter_ns() - started
    groups = _cases(cases, answer) if cases is not None and error is None else {}
    passed = all(c.passed for c in groups.values()) if groups else answer is True
    return Result(test, passed and error is None, error, elapsed, "".join(suite.output), groups)


def why(suite: Suite, result: Result, *, full: bool = False) -> str:
    """Why a test failed: the conditions that did not hold, and their values. It is run again.

    Nothing is masked: what stands in a test is for everyone to read who can read the test.
    """
    name = path_text(result.test.path)
    return explain(suite.traced, name, deadline=TIMEOUT, mask=Mask()).text(full=full)


def _cases(tracer: CaseTracer, answer: Any) -> dict[str, Case]:
    top = Case("")
    for names, held in tracer.tried.items():
        group = top
        for name in names:
            group = group.cases.setdefault(name, Case(name))
        group.passed = held and _is_true(answer, names)
    top.settle()
    return top.cases


def _is_true(answer: Any, names: Sequence[str]) -> bool:
    """Whether a table's answer has `true` for a case."""
    for name in names:
        if not isinstance(answer, dict):
            return False
        key = next((key for key in answer if case_name(from_key(key)) == name), None)
        answer = UNDEFINED if key is None else answer[key]
    return answer is True


# Finding


def _find(
    texts: Mapping[str, str], trees: Mapping[str, Module]
) -> tuple[Mapping[str, str], list[Test]]:
    """The tests; and the policies, with the second of two equal names changed."""
    changed = dict(texts)
    tests: list[Test] = []
    seen: Counter[tuple[Key, ...]] = Counter()
    known: set[tuple[Key, ...]] = set()
    for file, tree in trees.items():
        edits: list[tuple[Span, str]] = []
        for rule in tree.rules:
            test = _test(tree, rule)
            if test is None:
                continue
            prefix = _prefix(tree, rule)
            number = seen[prefix]
            seen[prefix] += 1
            if number:
                name = f"{test.path[-1]}__{number:02}"
                while name in texts[file]:
                    name += "_"
                edits.append((rule.head.ref.head.span, name))
                test = replace(test, name=f"{test.name}#{number:02}", path=(*test.path[:-1], name))
            if test.path not in known:
                known.add(test.path)
                tests.append(test)
        for span, name in reversed(edits):
            changed[file] = changed[file][: span.start] + name + changed[file][span.end :]
    return (changed if changed != texts else texts), tests


def _test(tree: Module, rule: Rule) -> Test | None:
    """The test that a rule is, or is a case of."""
    names = [rule.head.ref.head.name] if isinstance(rule.head.ref.head, Var) else []
    for arg in rule.head.ref.args:
        if not (isinstance(arg, Scalar) and isinstance(arg.value, str)):
            break
        names.append(arg.value)
    at = next((n for n, name in enumerate(names) if name.startswith((_PREFIX, _SKIPPED))), None)
    if at is None or rule.default or rule.head.args is not None:
        return None
    own = names[: at + 1]
    more = len(rule.head.ref.args) > at
    path = (*tree.package.path, *own)
    has_cases = more and rule.head.key is None
    return Test(path_text(tree.package.path), ".".join(own), path, rule.span, has_cases)


def _prefix(tree: Module, rule: Rule) -> tuple[Key, ...]:
    """The constant part of a rule's name: what two tests may not share."""
    keys: list[Key] = [*tree.package.path, rule.head.ref.head.span.text]
    for arg in rule.head.ref.args:
        if not isinstance(arg, Scalar):
            break
        keys.append(str(arg.value))
    return tuple(keys)
