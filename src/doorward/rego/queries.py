"""Queries: prepared once, evaluated many times, from many threads.

    text ─check─▶ body in order ─generate─▶ fast code ─▶ answer
                                              └─ error ─▶ exact code ─▶ OPA's answer or error

A query belongs to an engine, and can be bound to another one with the same policies.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import copy
from sys import gettrace, settrace
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from doorward.rego.analysis.dependencies import has_effects, in_order, nodes_read
from doorward.rego.analysis.documents import Documents, Path, input_paths, read_documents
from doorward.rego.analysis.evaluation_order import query_in_steps
from doorward.rego.analysis.passes import check_query
from doorward.rego.analysis.scope import source_name
from doorward.rego.analysis.tree import RuleNode, path_text
from doorward.rego.clock import CLOCK
from doorward.rego.code import Code
from doorward.rego.codegen.constants import Constants
from doorward.rego.codegen.marks import Marks
from doorward.rego.codegen.program import Unit, unit
from doorward.rego.codegen.query import query_bindings, query_value, query_variables
from doorward.rego.conversion import from_python
from doorward.rego.errors import (
    CANCEL_ERROR,
    INTERNAL_ERROR,
    LIMIT_ERROR,
    CompileError,
    EvalError,
)
from doorward.rego.partial.options import PartialOptions
from doorward.rego.query_text import parse_query_text, parse_surroundings
from doorward.rego.runtime.evaluation import Evaluation
from doorward.rego.source import Source
from doorward.rego.syntax.nodes import Body, Import
from doorward.rego.time_limits import TooDeepError, run_in_time
from doorward.rego.values import UNDEFINED, Key, to_python

if TYPE_CHECKING:
    from doorward.rego.engine import Engine
    from doorward.rego.partial.context import PartialTracer
    from doorward.rego.partial.evaluate import Partial

__all__ = ["PartialQuery", "Query"]

Work: TypeAlias = Callable[[Evaluation], Any]
"""A function that evaluates compiled code and returns the answer."""
_LIMITS: Final = frozenset({CANCEL_ERROR, INTERNAL_ERROR, LIMIT_ERROR})
"""The codes of errors that exact code would not avoid, so that the evaluation is not repeated."""


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
        evaluation = engine.evaluation(input, strict=self.options.strict_builtin_errors)
        if now_ns is not None:
            evaluation.now_ns = now_ns
        if deadline is not None:
            evaluation.deadline = time.monotonic() + deadline
        lowered = engine.policies.lowered
        left: Partial = run_in_time(
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
            path, imported = parse_surroundings(package, imports, v0=options.v0)
            self.source: Body = parse_query_text(text, v0=options.v0, imports=imported)
        if options.capabilities is not None:
            problems = options.capabilities.problems_of_query(self.source)
            if problems:
                raise CompileError(problems)
        with options.measure("rego_query_compile"):
            self._compile(path, imported)

    def _compile(self, path: tuple[str, ...], imported: tuple[Import, ...]) -> None:
        """Check the parsed query (`source`) against the engine's policies, in the package `path`
        with the imports `imported`, generate its code, and set `body`, `variables` and the private
        attributes that evaluations read. The code for rows of bindings of a query with one
        expression is generated only when somebody reads rows. CompileError if the query is invalid.
        """
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
        """The exact code of the query's program, which decides the error of an evaluation."""
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
        """Return the generated Python of the query as text, without that of the rules: for its
        single value if it has one expression, otherwise for rows; with `strict_builtin_errors` the
        exact code. CompileError if Python's compiler refuses a rule, or if the query's code nests
        too deeply to be printed.
        """
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
        """The most similar existing path for each path below `data` that the query reads and that
        does not exist, if there is one; both as text.
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
        if (tracer := gettrace()) is not None:  # pragma: no cover - coverage.py is off in it
            # A debugger is to stop in a rule, not where its code is generated.
            settrace(None)
            try:
                self.warm()
            finally:
                settrace(tracer)
        return self.answer(input, now_ns=now_ns)

    def answer(self, input: Any = UNDEFINED, *, now_ns: int | None = None) -> Any:
        """Return the value of the query's only expression; UNDEFINED if it has none, and of several
        values the first in Rego's order. `input` is parsed JSON or comes from `from_python`; it is
        not checked, since that takes longer than many policies. ValueError for several expressions,
        EvalError if the evaluation fails or exceeds the deadline.
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
            return self._repeat_exactly(state, error, lambda: self._exact_function(single=True))
        except RecursionError:
            return self._run(state, single=True)

    def _answer_in_time(self, state: Evaluation) -> Any:
        """Return the value of the query's only expression from an evaluation with a deadline;
        UNDEFINED if it has none. EvalError if the evaluation fails or the deadline passes. Apart
        from `_run`, and shorter, because every decision passes here.
        """
        before = CLOCK.check_deadline
        CLOCK.check_deadline = state.halt_if_late
        try:
            return self._value(state)  # type: ignore[misc]  # a query that `_is_plain` has one
        except EvalError as error:
            return self._repeat_exactly(state, error, lambda: self._exact_function(single=True))
        except RecursionError:
            return self._run(state, single=True)
        finally:
            CLOCK.check_deadline = before

    def marked_answer(
        self, input: Any = UNDEFINED, answered: dict[str, dict[Key, Any]] | None = None
    ) -> tuple[Any, Marks]:
        """Return the value of the query's only expression, and the marks that marked code recorded,
        for `Policies.read_marks`; {} if the code is not marked. The input is parsed JSON or comes
        from `from_python`, and is not checked. `answered`: a dict that receives the results of
        built-ins that are not pure, by name, then by operands as JSON. ValueError for several
        expressions, EvalError if the evaluation fails.
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
        InputError if `from_python` cannot convert `input`; EvalError if the evaluation fails or
        exceeds the deadline.
        """
        if input is not UNDEFINED:
            input = from_python(input, "input")
        evaluation = self.evaluation(input, now_ns=now_ns)
        rows = self.rows_of(evaluation)
        # Values that share their parts can be exponentially larger as JSON: within the deadline.
        results: list[dict[str, Any]] = run_in_time(lambda _: self._to_results(rows), evaluation)
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
        is undefined; solutions with a false expression are included. InputError if `from_python`
        cannot convert `input`; EvalError if the evaluation fails or exceeds the deadline.
        """
        if input is not UNDEFINED:
            input = from_python(input, "input")
        return self.rows_of(self.evaluation(input, now_ns=now_ns))

    def rows_of(self, evaluation: Evaluation) -> list[tuple[Any, ...]]:
        """Return one tuple for each solution: the values of `variables`, then of the expressions in
        order (True for those without a value); UNDEFINED for an unbound variable. [] if the query
        is undefined. The code for rows may be generated at the first call. `evaluation` comes from
        `evaluation()`, and its `errors` can be read afterwards. EvalError if the evaluation fails.
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
        """Return the value of the query's only expression, UNDEFINED if it has none; without
        `single`, the rows of all expressions, a tuple for each solution. EvalError if exact code
        fails, too.
        """
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
            return self._repeat_exactly(evaluation, error, exact)

    def _run_at_any_depth(self, work: Work, evaluation: Evaluation) -> Any:
        """Return the result of `work`. If rules nest too deeply for Python's stack, they are
        evaluated one by one first, and `work` again; TooDeepError if that is not possible or not
        enough.
        """
        try:
            return run_in_time(work, evaluation)
        except TooDeepError:
            run_in_time(self._answer_rules, evaluation)
            return run_in_time(work, evaluation)

    def _answer_rules(self, evaluation: Evaluation) -> None:
        """Evaluate the rules that the query reads, each after those it reads, so that a long chain
        does not nest in Python's stack; their answers stay in the evaluation's cache. Errors are
        left to the query itself, except limits and the deadline.

        Raise TooDeepError if that is not possible: the evaluation is traced, a rule has outside
        effects, or a single rule is too deep.
        """
        if self._in_order is None:
            self._in_order = self._rules_in_order()
        if evaluation.tracer is not None or not self._in_order:
            raise TooDeepError
        # Bottom up: each rule finds the answers of those below it in the cache.
        for node in self._in_order:
            document = evaluation.root.find(node.path)
            if document is None or document.evaluate is None or document.is_function:
                continue
            try:
                evaluation.value_of(document)
            except RecursionError:
                raise TooDeepError from None
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

    def _repeat_exactly(
        self, evaluation: Evaluation, error: EvalError, exact: Callable[[], Work]
    ) -> Any:
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
