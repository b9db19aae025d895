"""The decision point: path and input in, `Decision` out, by one snapshot.

`decide` never raises for a policy, an input or a built-in: what fails is a Decision with an error,
and its result is `UNDEFINED`, which no adapter may take for "allow". Wires, and what to answer on
them, are not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns, time_ns
from typing import Final, Protocol

from doorward.edge import FAULTS, Edge
from doorward.pdp.build_gate import BuildGate
from doorward.pdp.decision import Answered, Decision, DecisionError, RequestContext, new_decision_id
from doorward.pdp.residuals import parse_client_query, unsafe_calls
from doorward.pdp.snapshot import Document, PathKey, Snapshot
from doorward.pdp.solutions import solutions_of
from doorward.rego import UNDEFINED, CompileError, Query, RegoError, Undefined, Value, from_python
from doorward.rego.shared import Key, Marks, within

__all__ = ["PDP", "DecisionObserver", "DecisionSink", "Tee"]

_EDGE: Final = Edge("decide", "evaluation failed")
_BUILTINS: Final = Edge("builtin", "a built-in raised an exception")

SHORT: Final = 1_000
"""Characters of a query that need not be asked how many expressions it has."""

Notes = dict[str, dict[Key, Value]]
"""What built-ins answered: by name, and operands as JSON."""

# What `Decision(…)` does, without the function in between: every decision makes one.
_to_decision: Final[Callable[[type[Decision], tuple[object, ...]], Decision]] = tuple.__new__
_to_answered: Final[Callable[[type[Answered], tuple[object, ...]], Answered]] = tuple.__new__


class DecisionSink(Protocol):
    """A destination of answered decisions: the decision log."""

    def record(self, answered: Answered, /) -> None: ...

    def close(self) -> None: ...


class DecisionObserver(Protocol):
    """An observer of answered decisions; it must return at once."""

    def observe(self, answered: Answered, /) -> None: ...


class Tee:
    """A sink in front of another one, or of none: what observes decisions gets each of them first.

    Closing it closes the sink behind it; the observer is closed where it was made.
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
        """Close the sink."""
        if self._sink is not None:
            self._sink.close()


class PDP:
    """Policies, data and a decision log behind one function. Safe in any number of threads."""

    def __init__(
        self,
        snapshot: Snapshot,
        sink: DecisionSink | None = None,
        *,
        secrets: Sequence[tuple[str, ...]] = (),
    ) -> None:
        """`secrets`: paths of data that policies read and nobody is shown."""
        self._snapshot = snapshot
        self._sink = sink
        self.secrets = tuple(secrets)
        self.on_denied: Callable[[Value | Undefined], object] | None = None
        """Called with the input of a decision that is not `true`; it must not raise."""
        self.build_gate = BuildGate()
        """The snapshot in force, to build the next one from while this one decides."""

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot of the next decision."""
        return self._snapshot

    def replace(self, snapshot: Snapshot) -> None:
        """Decide by `snapshot` from now on; decisions under way keep the one they began with."""
        self._snapshot = snapshot

    def log_to(self, sink: DecisionSink | None) -> DecisionSink | None:
        """Log decisions to `sink` from now on; return the sink that was used before."""
        before, self._sink = self._sink, sink
        return before

    @property
    def logs_decisions(self) -> bool:
        """True if `record` does anything."""
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
        """The document at `path` for `input`; `strict`: errors of built-ins are errors.

        `snapshot`: what to decide by, where that is not the active one.
        `is_parsed`: the input was JSON, so that nothing in it has to be looked for that no policy
        could match; without, that makes a decision with an error.
        """
        if snapshot is None:
            snapshot = self._snapshot
        result: Value | Undefined = UNDEFINED
        error: Exception | None = None
        notes: Notes | None = {} if snapshot.notes_answers else None
        marks: Marks | None = None
        has_turn = self.build_gate.are_taken and self.build_gate.begin()
        started = perf_counter_ns()
        try:
            if not is_parsed and input is not UNDEFINED:
                input = from_python(input, "input")
            if snapshot.is_marked:
                document = snapshot.document(path, strict=strict)
                result, marks = document.marked_answer(input, notes)
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
        return _to_decision(Decision, fields)

    def decide_query(
        self,
        text: str,
        input: Value | Undefined = UNDEFINED,
        *,
        strict: bool = False,
        is_parsed: bool = False,
    ) -> Decision:
        """The value of a query of a single expression; more than one value is an error."""
        return self._decide_query(text, input, _only_value, strict=strict, is_parsed=is_parsed)

    def solve(self, text: str, input: Value | Undefined = UNDEFINED) -> Decision:
        """Return the solutions of a query: a list of objects, or UNDEFINED for none.

        The input was JSON. The query may not reach the network: a client that sends it could make
        requests from here.
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

        Errors and internal faults become the decision's error; none is raised.
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
        """Put an answered decision into the decision log, where there is one.

        For the adapter to call, once for each answer, when it knows what it answered and how long
        that took. Returns at once: everything costly happens elsewhere. `size` is what input and
        result take in memory, in bytes and about; it bounds what waits to be logged.
        """
        if self._sink is not None:
            snapshot, now = self._snapshot, time_ns()
            fields = decision, input, snapshot, handler_ns, request_context, size, now, None
            self._sink.record(_to_answered(Answered, fields))

    def close(self) -> None:
        """Write the decisions that still wait for the decision log, and close it."""
        if self._sink is not None:
            self._sink.close()


def _note_cause(error: Exception) -> None:
    """Log where an extension's built-in raised an error that the decision reports."""
    if error.__cause__ is not None:
        _BUILTINS.report(error.__cause__)
    _drop_frames(error)


def _drop_frames(error: BaseException | None) -> None:
    """Forget where an error was raised: its frames hold all that the evaluation made, for as long
    as the decision waits for the decision log."""
    while error is not None and error.__traceback__ is not None:
        error.__traceback__ = None
        _drop_frames(error.__cause__)
        error = error.__context__


def _evaluate_and_note(
    document: Document, input: Value | Undefined, notes: Notes
) -> Value | Undefined:
    """Evaluate the document, and add the answers of impure built-ins to `notes`."""
    if not isinstance(document, Query):
        return document.answer(input)  # type: ignore[no-any-return] # no built-in is asked
    evaluation = document.evaluation(input)
    evaluation.answered = notes
    return document.value_of(evaluation)  # type: ignore[no-any-return]


def _bindings(query: Query, input: Value | Undefined, notes: Notes | None) -> Value | Undefined:
    """Return the bindings of each solution of a query; UNDEFINED without solutions."""
    errors = unsafe_calls(query.source)
    if errors:
        raise CompileError(errors[:1])
    evaluation = query.evaluation(input)
    evaluation.answered = notes
    solutions = solutions_of(query, query.rows_of(evaluation))
    bindings: list[Value] = [{k: v for k, v in each.bindings.items()} for each in solutions]
    return bindings or UNDEFINED


def _only_value(query: Query, input: Value | Undefined, notes: Notes | None) -> Value | Undefined:
    """Return the only value of a query; raise `DecisionError` if it has several."""
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
