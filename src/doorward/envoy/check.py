"""One function holds the whole answer to a Check: decode, input, decision, encode.

`make_check` builds it for a decision point and options; it takes the bytes of a CheckRequest and
returns those of a CheckResponse, and knows no transport. Whatever the bytes are, it answers. What
fails is denied; only with `on-error: fail-call` does it raise `CallFailedError` instead, for the
server to end the call with, as OPA-Envoy does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter_ns
from typing import Final, Protocol, TypeAlias

from doorward.edge import FAULTS, Edge
from doorward.enforcement.errors import RequestError, RequestParseError
from doorward.envoy.errors import CallFailedError
from doorward.envoy.options import Options
from doorward.envoy.request.descriptors import Services
from doorward.envoy.request.input import Input, MalformedRequestError, Version, to_input
from doorward.envoy.response import ResultError, to_denial, to_refusal, to_response
from doorward.pdp.decision import Decision, DecisionError, new_decision_id
from doorward.pdp.sizes import estimate_memory
from doorward.rego import UNDEFINED, RegoError, Undefined, Value
from doorward.telemetry.rate_limited_log import RateLimitedLog

__all__ = ["Check", "Decider", "Observer", "make_check"]

Check: TypeAlias = Callable[[bytes], bytes]

_log: Final = logging.getLogger(__name__)

# Without it gRPC would make a failed call of a fault, which a proxy may be told to let through.
_EDGE: Final = Edge("check", "Check failed")


class Decider(Protocol):
    """The part of the decision point (`doorward.pdp.pdp.PDP`) that a check needs."""

    @property
    def logs_decisions(self) -> bool:
        """Asked once: a decision point has a log, or it has none."""

    def decide(
        self, path: str, input: Value | Undefined = ..., /, *, is_parsed: bool = ...
    ) -> Decision: ...

    def decide_query(
        self, text: str, input: Value | Undefined = ..., /, *, is_parsed: bool = ...
    ) -> Decision: ...

    def record(
        self,
        decision: Decision,
        input: Value | Undefined = ...,
        /,
        *,
        handler_ns: int | None = ...,
        size: int = ...,
    ) -> None: ...


class Observer(Protocol):
    """An observer of durations and failures (`metrics.Metrics`)."""

    def observe(self, seconds: float) -> None: ...

    def count_error(self, reason: str) -> None: ...


def make_check(
    pdp: Decider,
    options: Options,
    *,
    services: Services | None = None,
    observer: Observer | None = None,
    version: Version = "v3",
) -> Check:
    """The check function for one version of the API."""
    return _Checker(pdp, options, services, observer, version).check


class _Checker:
    def __init__(
        self,
        pdp: Decider,
        options: Options,
        services: Services | None,
        observer: Observer | None,
        version: Version,
    ) -> None:
        self._pdp = pdp
        self._options = options
        self._services = services
        self._observer = observer
        self._version: Version = version
        self._fails_calls = options.on_error == "fail-call"
        self._path = "/".join([part for part in options.path.split("/") if part])
        self._decide = pdp.decide_query if options.query else pdp.decide
        self._subject = options.query or options.path
        self._is_timed = pdp.logs_decisions or observer is not None
        self._id_header = options.decision_id_header
        self._quiet = RateLimitedLog()
        self._denial = to_denial("internal_error", "", version)

    def check(self, request: bytes) -> bytes:
        """The answer to a serialized CheckRequest."""
        started = perf_counter_ns() if self._is_timed else 0
        try:
            return self._check(request, started)
        except CallFailedError:
            raise
        except FAULTS as fault:
            decision_id = new_decision_id()
            said = _EDGE.report(fault, **{"decision-id": decision_id})
            return self._deny(decision_id, DecisionError(said), started)

    def _deny(self, decision_id: str, error: DecisionError, started: int) -> bytes:
        """Return a denial that needs nothing else, whatever fails besides."""
        denial = self._denial
        try:
            self._count("internal_error")
            self._record(self._failed_decision(decision_id, error), UNDEFINED, started)
            denial = to_denial(
                "internal_error", decision_id, self._version, id_header=self._id_header
            )
        except FAULTS as another:
            _EDGE.report(another, **{"decision-id": decision_id})
        if self._fails_calls:
            raise CallFailedError("UNKNOWN", "internal error") from None
        return denial

    def _failed_decision(self, decision_id: str, error: DecisionError) -> Decision:
        """Return the decision to log for a request that no policy decided."""
        query = self._options.query or None
        return Decision(decision_id, "" if query else self._path, error=error, query=query)

    def _check(self, request: bytes, started: int) -> bytes:
        try:
            input_doc = to_input(request, self._options, self._services, self._version)
        except RequestError as error:
            return self._refuse(error, started)
        decision = self._decide(self._subject, input_doc, is_parsed=True)
        if decision.error is not None:
            return self._fail(decision, input_doc, _code_of(decision.error), started)
        try:
            response = to_response(
                decision.result,
                decision.decision_id,
                dry_run=self._options.dry_run,
                version=self._version,
                id_header=self._id_header,
            )
        except ResultError as error:
            decision = decision._replace(error=DecisionError(str(error)))
            return self._fail(decision, input_doc, "envoyauth_result_error", started, error.code)
        if self._is_timed:
            elapsed = perf_counter_ns() - started
            if self._pdp.logs_decisions:
                self._pdp.record(
                    decision, input_doc, handler_ns=elapsed, size=estimate_memory(request)
                )
            if self._observer is not None:
                self._observer.observe(elapsed / 1e9)
        return response

    def _count(self, reason: str) -> None:
        if self._observer is not None:
            self._observer.count_error(reason)

    def _complain(self, what: str, reason: str, decision_id: str) -> None:
        """One line per second and reason: senders of requests must not be able to fill the log."""
        more = self._quiet.suppressed(reason)
        if more is None:
            return
        extra = {"reason": reason, "decision-id": decision_id, "more": more}
        _log.error(what, extra=extra)

    def _record(self, decision: Decision, input_doc: Input | Undefined, started: int) -> None:
        if self._pdp.logs_decisions:
            self._pdp.record(decision, input_doc, handler_ns=perf_counter_ns() - started)

    def _refuse(self, error: RequestError, started: int) -> bytes:
        """Refuse a request that no policy decided: it is unreadable or ambiguous."""
        self._count(error.code)
        decision = self._failed_decision(new_decision_id(), DecisionError(str(error)))
        if isinstance(error, MalformedRequestError):
            self._complain("Malformed CheckRequest", error.code, decision.decision_id)
            if self._fails_calls:
                raise CallFailedError("INTERNAL", str(error))
        self._record(decision, UNDEFINED, started)
        # OPA-Envoy's answer to a parse error carries no metadata.
        bare = isinstance(error, RequestParseError) or self._version == "v2"
        return to_refusal(
            error,
            "" if bare else decision.decision_id,
            id_header=self._id_header,
            header_id=decision.decision_id,
        )

    def _fail(
        self, decision: Decision, input_doc: Input, reason: str, started: int, code: str = "UNKNOWN"
    ) -> bytes:
        """A policy that failed, is undefined, or returned what is not an answer."""
        self._count(reason)
        # An answer that cannot be sent is, to OPA-Envoy, a decision that was made.
        logged = decision._replace(error=None) if code == "INTERNAL" else decision
        self._record(logged, input_doc, started)
        self._complain("Decision failed", reason, decision.decision_id)
        if self._fails_calls:
            raise CallFailedError(code, str(decision.error))
        return to_denial(reason, decision.decision_id, self._version, id_header=self._id_header)


def _code_of(error: Exception) -> str:
    if isinstance(error, RegoError) and error.diagnostics:
        return error.diagnostics[0].code
    return "envoyauth_eval_error"
