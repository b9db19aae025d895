"""The decision point: it evaluates a path for an input by one snapshot, and returns a `Decision`.

`decide` never raises because of a policy, an input or a built-in: a failure is a Decision with an
error, whose result is `UNDEFINED`, which no adapter may treat as "allow". Protocols and their
responses are not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns, time_ns
from typing import Final, Protocol

from doorward.edge import FAULTS, Edge
from doorward.pdp.build_gate import BuildGate
from doorward.pdp.decision import (
    Answered,
    Decision,
    DecisionError,
    RecordedMarks,
    RequestContext,
    new_decision_id,
)
from doorward.pdp.residuals import parse_client_query, unsafe_calls
from doorward.pdp.snapshot import Document, PathKey, Snapshot
from doorward.pdp.solutions import solutions_of
from doorward.rego import UNDEFINED, CompileError, Query, RegoError, Undefined, Value, from_python
from doorward.rego.shared import Key, within

__all__ = ["PDP", "DecisionObserver", "DecisionSink", "Tee"]

_EDGE: Final = Edge("decide", "evaluation failed")
_BUILTINS: Final = Edge("builtin", "a built-in raised an exception")

SHORT: Final = 1_000
"""Queries of up to so many characters cannot exceed the limit of expressions and are not checked
for it.
"""

Notes = dict[str, dict[Key, Value]]
"""The answers of built-ins by name, and then by the operands as JSON."""

# What `Decision(…)` does, without the function in between: every decision makes one.
_to_decision: Final[Callable[[type[Decision], tuple[object, ...]], Decision]] = tuple.__new__
_to_answered: Final[Callable[[type[Answered], tuple[object, ...]], Answered]] = tuple.__new__


class DecisionSink(Protocol):
    """A destination of answered decisions: the decision log."""

    def record(self, answered: Answered, /) -> None:
        """Take an answered decision, to write it later."""

    def close(self) -> None:
        """Write what is still to be written; later decisions are lost."""


class DecisionObserver(Protocol):
    """An observer of answered decisions. `observe` is called on the request's thread, and must
    return at once.
    """

    def observe(self, answered: Answered, /) -> None: ...


class Tee:
    """A sink that passes each decision to an observer, and then to another sink if there is one.

    `close` closes the other sink but not the observer, which belongs to its creator.
    """

    def __init__(self, observer: DecisionObserver, sink: DecisionSink | None) -> None:
        self._observer = observer
        self._sink = sink

    def record(self, answered: Answered) -> None:
        """Pass the decision to the observer, and to the log if there is one."""
        self._observer.observe(answered)
        if self._sink is not None:
            self._sink.record(answered)

    def close(self) -> None:
        """Close the other sink, if there is one."""
        if self._sink is not None:
            self._sink.close()


class PDP:
    """A decision point: decides by the active snapshot of policies and data, and passes decisions
    to the decision log. Safe in any number of threads.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        sink: DecisionSink | None = None,
        *,
        secrets: Sequence[tuple[str, ...]] = (),
    ) -> None:
        """Decide by `snapshot` and log to `sink`; None: no log. `secrets` are paths of data that
        policies read but that pages and API never display.
        """
        self._snapshot = snapshot
        self._sink = sink
        self.secrets = tuple(secrets)
        self.on_denied: Callable[[Value | Undefined], object] | None = None
        """Called with the input of each decision by path whose result is not `true`; it must not
        raise.
        """
        self.build_gate = BuildGate()
        """Evaluations take turns through it while the next snapshot is built."""

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot of the next decision."""
        return self._snapshot

    def replace(self, snapshot: Snapshot) -> None:
        """Decide by `snapshot` from now on; decisions under way keep the one they began with."""
        self._snapshot = snapshot

    def log_to(self, sink: DecisionSink | None) -> DecisionSink | None:
        """Log decisions to `sink` from now on; return the sink that was used before. None: no
        log.
        """
        before, self._sink = self._sink, sink
        return before

    @property
    def logs_decisions(self) -> bool:
        """True if there is a decision log; without one, `record` does nothing."""
        return self._sink is not None

    def decide(
        self,
        path: PathKey,
        input: Value | Undefined = UNDEFINED,
        *,
        strict: bool = False,
        is_parsed: bool = False,
        snapshot: Snapshot | None = None,
    ) -> Decision:
        """Evaluate the document at `path` for `input`; with `strict`, errors of built-ins are
        errors of the decision and not undefined.

        `snapshot` decides instead of the active one. `is_parsed` promises that the input was read
        from JSON; otherwise it is converted, and a value that JSON does not have becomes the
        decision's error. Nothing is raised, and nothing is written to the decision log (`record`
        does that); `on_denied` is called if the result is not `true`.
        """
        # Read once: `replace` in another thread must not change the policies of one decision.
        if snapshot is None:
            snapshot = self._snapshot
        result: Value | Undefined = UNDEFINED
        error: Exception | None = None
        notes: Notes | None = {} if snapshot.notes_answers else None
        marks: RecordedMarks | None = None
        # Usually no build is under way: one attribute is all that this costs then.
        has_turn = self.build_gate.are_taken and self.build_gate.begin()
        # After the wait for a turn, which is not part of the evaluation.
        started = perf_counter_ns()
        try:
            if not is_parsed and input is not UNDEFINED:
                input = from_python(input, "input")
            if snapshot.is_marked:
                document = snapshot.document(path, strict=strict)
                result, outcomes = document.marked_answer(input, notes)
                marks = RecordedMarks(snapshot.engine.policies, outcomes)
            elif notes is not None:
                result = _evaluate_and_note(snapshot.document(path, strict=strict), input, notes)
            else:
                result = snapshot.document(path, strict=strict).answer(input)
        except RegoError as raised:
            error = raised
            _note_cause(raised)
        except FAULTS as fault:
            error = DecisionError(_EDGE.report(fault))
        finally:
            if has_turn:
                self.build_gate.end()
        elapsed = perf_counter_ns() - started
        # Behind the measured time, and outside of the turn.
        if result is not True and self.on_denied is not None:
            self.on_denied(input)
        path_text = path if type(path) is str else "/".join(path)
        number, revision = new_decision_id(), snapshot.revision
        fields = (
            number,
            path_text,
            result,
            error,
            revision,
            elapsed,
            None,
            "",
            notes,
            marks,
            None,
            (),
        )
        # `tuple.__new__` saves the call of NamedTuple's constructor, which runs for each decision.
        return _to_decision(Decision, fields)

    def decide_query(
        self,
        text: str,
        input: Value | Undefined = UNDEFINED,
        *,
        strict: bool = False,
        is_parsed: bool = False,
    ) -> Decision:
        """Evaluate a query of a single expression, and return its value as the result; UNDEFINED
        without a solution.

        Several values are an error of the decision; of a query with variables, solutions with the
        value false do not count. With `strict`, errors of built-ins are errors of the decision.
        `is_parsed` promises that the input was read from JSON.
        """
        return self._decide_query(text, input, _only_value, strict=strict, is_parsed=is_parsed)

    def solve(self, text: str, input: Value | Undefined = UNDEFINED) -> Decision:
        """Evaluate a client's query; the result is a list of the bindings of each solution, or
        UNDEFINED if there is none.

        The input must come from JSON. A query that calls `http.send` is an error of the decision,
        since a client could make requests from this machine; so is one that exceeds the limits of
        clients' queries.
        """
        return self._decide_query(text, input, _bindings, strict=False, is_parsed=True)

    def _decide_query(
        self,
        text: str,
        input: Value | Undefined,
        read: Callable[[Query, Value | Undefined, Notes | None], Value | Undefined],
        *,
        strict: bool,
        is_parsed: bool,
    ) -> Decision:
        """Evaluate a query as a decision; `read` turns its solutions into the result.

        Errors and internal faults become the decision's error; none is raised. With `strict`,
        errors of built-ins are errors of the decision. `is_parsed` promises that the input was read
        from JSON.
        """
        snapshot = self._snapshot
        result: Value | Undefined = UNDEFINED
        error: Exception | None = None
        notes: Notes | None = {} if snapshot.notes_answers else None
        has_turn = self.build_gate.are_taken and self.build_gate.begin()
        started = perf_counter_ns()
        try:
            if not is_parsed and input is not UNDEFINED:
                input = from_python(input, "input")
            if read is _only_value and notes is None:
                query = snapshot.query(text, strict=strict)
                result = _only_value(query, input, None) if query.variables else query.answer(input)
            else:
                # What is done with the solutions belongs to the time of the evaluation.
                with within(snapshot.deadline):
                    if read is _bindings and len(text) > SHORT:
                        parse_client_query(text, v0=snapshot.engine.options.v0)
                    result = read(snapshot.query(text, strict=strict), input, notes)
        except (RegoError, DecisionError) as raised:
            error = raised
            _note_cause(raised)
        except FAULTS as fault:
            error = DecisionError(_EDGE.report(fault))
        finally:
            if has_turn:
                self.build_gate.end()
        elapsed = perf_counter_ns() - started
        return Decision(
            new_decision_id(), "", result, error, snapshot.revision, elapsed, text, builtins=notes
        )

    def record(
        self,
        decision: Decision,
        input: Value | Undefined = UNDEFINED,
        *,
        handler_ns: int | None = None,
        request_context: RequestContext | None = None,
        size: int = 0,
    ) -> None:
        """Pass an answered decision to the decision log, with the snapshot that is active now,
        which may be newer than the decision's; nothing happens without a log.

        The adapter calls this once for each response, with the time that it took, `handler_ns`.
        Returns at once, unless the log is full and `when_full` is `wait`; the log's thread does
        most of the work. `size` is the approximate memory of input and result in bytes; it bounds
        the queue of the log.
        """
        sink = self._sink  # another thread may take it away meanwhile
        if sink is not None:
            snapshot, now = self._snapshot, time_ns()
            fields = decision, input, snapshot, handler_ns, request_context, size, now, None
            sink.record(_to_answered(Answered, fields))

    def close(self) -> None:
        """Write the decisions that are still queued for the decision log, and close it."""
        sink = self._sink
        if sink is not None:
            sink.close()


def _note_cause(error: Exception) -> None:
    """Count and log the exception of a custom built-in that caused `error`, if there is one. Then
    drop the frames of `error`, which would keep the evaluation's memory.
    """
    if error.__cause__ is not None:
        _BUILTINS.report(error.__cause__)
    _drop_frames(error)


def _drop_frames(error: BaseException | None) -> None:
    """Remove the tracebacks of an error, its causes and contexts. Their frames would keep
    everything that the evaluation created until the decision log has written the decision.
    """
    while error is not None and error.__traceback__ is not None:
        error.__traceback__ = None
        _drop_frames(error.__cause__)
        error = error.__context__


def _evaluate_and_note(
    document: Document, input: Value | Undefined, notes: Notes
) -> Value | Undefined:
    """Return the document's value for `input`, and add the answers that impure built-ins gave to
    `notes`, for the decision log.
    """
    if not isinstance(document, Query):
        return document.answer(input)  # type: ignore[no-any-return] # no built-in is asked
    evaluation = document.evaluation(input)
    evaluation.answered = notes
    return document.value_of(evaluation)  # type: ignore[no-any-return]


def _bindings(query: Query, input: Value | Undefined, notes: Notes | None) -> Value | Undefined:
    """Return the bindings of each solution of a client's query, UNDEFINED without solutions. The
    answers of impure built-ins are added to `notes` unless it is None. Raise CompileError if the
    query calls a built-in that clients may not.
    """
    errors = unsafe_calls(query.source)
    if errors:
        raise CompileError(errors[:1])
    evaluation = query.evaluation(input)
    evaluation.answered = notes
    solutions = solutions_of(query, query.rows_of(evaluation))
    bindings: list[Value] = [{k: v for k, v in each.bindings.items()} for each in solutions]
    return bindings or UNDEFINED


def _only_value(query: Query, input: Value | Undefined, notes: Notes | None) -> Value | Undefined:
    """Return the only value of a query, UNDEFINED without one; raise `DecisionError` if it has
    several. False values of a query with variables are skipped.

    Answers of impure built-ins are added to `notes` unless it is None.
    """
    evaluation = query.evaluation(input)
    evaluation.answered = notes
    if not query.variables:
        result: Value | Undefined = query.value_of(evaluation)
        return result
    # As in OPA, `false` is not a solution where variables are requested.
    values = [row[-1] for row in query.rows_of(evaluation) if row[-1] is not False]
    if len(values) > 1:
        raise DecisionError("multiple evaluation results")
    return values[0] if values else UNDEFINED
