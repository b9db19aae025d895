"""The one flow of a check, whatever the protocol.

    request ─ read ─▶ input ─ decide ─▶ Decision ─ write ─▶ answer
       │ RequestError            │ error            │ ResultError
       └────────────────────────▶└──── Failure ────▶└─ deny ─▶ denial

A `Codec` is the part of a protocol: it reads requests, and writes answers and denials. `CheckFlow`
does the rest for all of them: order, times, the decision log, and a denial whatever is raised. It
knows no wire.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Generic, NamedTuple, Protocol, TypeVar

from doorward.edge import FAULTS, Edge
from doorward.enforcement.errors import RequestError
from doorward.enforcement.http_input import Input
from doorward.pdp.decision import Decision, DecisionError, new_decision_id
from doorward.rego import UNDEFINED, RegoError, Undefined, Value
from doorward.verdicts import ResultError

__all__ = ["CheckFlow", "Codec", "Decider", "Denial", "Failure", "error_code"]

RequestT_contra = TypeVar("RequestT_contra", contravariant=True)
AnswerT = TypeVar("AnswerT")


class Decider(Protocol):
    """The part of the decision point (`doorward.pdp.pdp.PDP`) that a check needs."""

    @property
    def logs_decisions(self) -> bool:
        """Return True if `record` writes decisions to a log."""

    def decide(
        self, path: str, input: Value | Undefined = ..., /, *, is_parsed: bool = ...
    ) -> Decision:
        """Evaluate the document at `path`. Nothing is raised and nothing is logged: errors are in
        the decision. `is_parsed` promises that the input was read from JSON; otherwise it is
        converted.
        """

    def decide_query(
        self, text: str, input: Value | Undefined = ..., /, *, is_parsed: bool = ...
    ) -> Decision:
        """Evaluate a query of a single expression, whose value is the result. Errors are in the
        decision, and nothing is logged.
        """

    def record(
        self,
        decision: Decision,
        input: Value | Undefined = ...,
        /,
        *,
        handler_ns: int | None = ...,
        size: int = ...,
    ) -> None:
        """Write a decision to the decision log, with the duration of the request in nanoseconds;
        `size` is the approximate memory of input and result in bytes.
        """


class Failure(NamedTuple):
    """A check in which no policy decided."""

    reason: str
    """The reason code: of the request's error, the policy's error, `result_error` or
    `internal_error`."""
    decision: Decision
    """The decision to log; it has an error."""
    cause: RequestError | ResultError | None = None
    """The error of the request or of the policy's result if that is the reason; None for other
    failures."""


class Denial(NamedTuple, Generic[AnswerT]):
    """The answer to a request in which no policy decided."""

    answer: AnswerT
    logged: Decision | None
    """The decision for the log; None if the request does not count as decided."""


class Codec(Protocol[RequestT_contra, AnswerT]):
    """The part of a check that depends on the protocol."""

    def read(self, request: RequestT_contra, /) -> Input:
        """Return the input of the policy for a request; RequestError if the request is malformed or
        ambiguous.
        """

    def write(self, decision: Decision, /) -> AnswerT:
        """Return the answer to a decision without an error; ResultError if its result is not a
        verdict."""

    def deny(self, failure: Failure, /) -> Denial[AnswerT]:
        """Report a failure to operators, and return the denial."""


class CheckFlow(Generic[RequestT_contra, AnswerT]):
    """The check of one decision point over one protocol. Safe in any number of threads."""

    def __init__(
        self,
        codec: Codec[RequestT_contra, AnswerT],
        pdp: Decider,
        path: str,
        *,
        edge: Edge,
        last_resort: AnswerT,
        query: str = "",
        size_of: Callable[[RequestT_contra], int],
        observe: Callable[[float], None] | None = None,
    ) -> None:
        """Prepare checks for the protocol of `codec`. `path` is the document that decides, unless
        there is a `query`.

        `last_resort` is the denial if not even `codec.deny` works. `size_of` estimates the memory
        of a logged input in bytes, `observe` receives the seconds of each check that a policy
        decided.
        """
        self._codec = codec
        self._read = codec.read
        self._write = codec.write
        self._pdp = pdp
        self._decide = pdp.decide_query if query else pdp.decide
        self._subject = query or path
        self._path = "" if query else "/".join([part for part in path.split("/") if part])
        self._query = query or None
        self._edge = edge
        self._last_resort = last_resort
        self._size_of = size_of
        self._observe = observe

    def check(self, request: RequestT_contra) -> AnswerT:
        """Return the answer to a request; raises nothing, and what fails is a denial.

        Also logs the decision, unless the codec's denial has none to log, and passes the duration
        to `observe` if a policy decided.
        """
        started = perf_counter_ns()
        input_doc: Input | Undefined = UNDEFINED
        try:
            try:
                input_doc = self._read(request)
                decision = self._decide(self._subject, input_doc, is_parsed=True)
                if decision.error is None:
                    answer = self._write(decision)
                    if self._pdp.logs_decisions:
                        self._record(decision, input_doc, request, started)
                    if self._observe is not None:
                        self._observe((perf_counter_ns() - started) / 1e9)
                    return answer
                failure = Failure(error_code(decision.error), decision)
            except RequestError as error:
                failure = self._refusal(error)
            except ResultError as error:
                failed = decision._replace(error=DecisionError(str(error)))
                failure = Failure("result_error", failed, error)
        except FAULTS as fault:
            decision_id = new_decision_id()
            message = self._edge.report(fault, **{"decision-id": decision_id})
            input_doc = UNDEFINED
            failure = Failure("internal_error", self._make_undecided(decision_id, message))
        return self._deny(failure, input_doc, request, started)

    def refuse(self, error: RequestError) -> AnswerT:
        """Return the denial of a request that the adapter could not read, and log it without an
        input unless the codec's denial has none to log.
        """
        denial = self._codec.deny(self._refusal(error))
        if denial.logged is not None and self._pdp.logs_decisions:
            self._pdp.record(denial.logged)
        return denial.answer

    def _refusal(self, error: RequestError) -> Failure:
        """Return the failure for a request's error, with a new decision id."""
        return Failure(error.code, self._make_undecided(new_decision_id(), str(error)), error)

    def _make_undecided(self, decision_id: str, message: str) -> Decision:
        """Return a decision without a result, whose error has this message."""
        error = DecisionError(message)
        return Decision(decision_id, self._path, error=error, query=self._query)

    def _deny(
        self,
        failure: Failure,
        input_doc: Input | Undefined,
        request: RequestT_contra,
        started: int,
    ) -> AnswerT:
        """Return the protocol's denial of a failed check, and log it unless it has none to log; if
        that fails as well, return the denial at hand, which is `last_resort` if the codec failed.
        """
        # INVARIANT: a denial is at hand before anything that may fail.
        answer = self._last_resort
        try:
            answer, logged = self._codec.deny(failure)
            if logged is not None and self._pdp.logs_decisions:
                self._record(logged, input_doc, request, started)
        except FAULTS as fault:
            self._edge.report(fault, **{"decision-id": failure.decision.decision_id})
        return answer

    def _record(
        self,
        decision: Decision,
        input_doc: Input | Undefined,
        request: RequestT_contra,
        started: int,
    ) -> None:
        """Write a decision to the decision log; its duration is the time since `started`, a value
        of `perf_counter_ns`. `input_doc` is UNDEFINED if the request could not be read.
        """
        elapsed = perf_counter_ns() - started
        self._pdp.record(decision, input_doc, handler_ns=elapsed, size=self._size_of(request))


def error_code(error: Exception) -> str:
    """Return the code of a decision's error: that of its first diagnostic, or `eval_error`."""
    if isinstance(error, RegoError) and error.diagnostics:
        return error.diagnostics[0].code
    return "eval_error"
