"""One function decides on an HTTP request, for every adapter that does not speak Envoy's gRPC.

    HttpRequest -> input -> Decision -> Verdict

Whatever the request and the policy are, it answers; what fails is denied, and logged.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Final

from doorward.edge import FAULTS, Edge
from doorward.enforcement.errors import RequestError
from doorward.enforcement.headers import UNTRUSTED
from doorward.enforcement.http_input import HttpRequest, Input, to_input
from doorward.enforcement.refusals import REASON_HEADER, log_failure
from doorward.pdp.decision import Decision, DecisionError, new_decision_id
from doorward.pdp.pdp import PDP
from doorward.rego import UNDEFINED, RegoError, Undefined
from doorward.transport.slow_calls import History
from doorward.verdicts import ResultError, Verdict, read_verdict

__all__ = ["MAX_BODY", "HttpCheck", "HttpOptions"]

MAX_BODY: Final = 8 * 1024
"""Bytes of a body that the policy sees; what the kit's Envoy sends."""
_HEAD: Final = 4096
"""Bytes that an input takes besides its body, about."""

_EDGE: Final = Edge("http-check", "a check failed")


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """Options of reading and deciding requests."""

    path: str = "envoy/authz/allow"
    """The document that decides."""
    strict: bool = True
    """Refuse what the application could read otherwise than the policy (docs/strict.md)."""
    max_body: int = MAX_BODY
    """Bytes of a body that are read for the policy."""
    skip_body: bool = False
    """Leave bodies alone; the input has no `parsed_body`."""
    stripped: frozenset[str] = UNTRUSTED
    """Headers, in lower case, that neither the policy nor the application gets to see."""
    debug: bool = False
    """Say in a header of a denial why no policy has answered: for development alone."""


class HttpCheck:
    """The check of one decision point; safe in any number of threads."""

    def __init__(self, pdp: PDP, options: HttpOptions | None = None) -> None:
        self.options = options or HttpOptions()
        self._pdp = pdp
        self._path = "/".join([part for part in self.options.path.split("/") if part])
        self.history = History()
        """Whether checks take milliseconds, so that an event loop should not wait for them."""

    def check(self, request: HttpRequest) -> Verdict:
        """Decide a request and return the action; `history` notes the time that it took."""
        begun = self.history.begin()
        started = perf_counter_ns()
        try:
            verdict = self._check(request, started)
        except FAULTS as fault:
            decision_id = new_decision_id()
            said = _EDGE.report(fault, **{"decision-id": decision_id})
            decision = Decision(decision_id, self._path, error=DecisionError(said))
            verdict = self._deny(decision, UNDEFINED, "internal_error", started)
        self.history.end(begun)
        return verdict

    async def check_async(self, request: HttpRequest) -> Verdict:
        """The same on an event loop of asyncio; in a thread while it takes milliseconds."""
        if self.history.is_slow:
            return await asyncio.to_thread(self.check, request)
        return self.check(request)

    def refuse(self, error: RequestError) -> Verdict:
        """The verdict on a request that cannot be read: 400, with the reason."""
        decision = Decision(new_decision_id(), self._path, error=DecisionError(str(error)))
        if self._pdp.logs_decisions:
            self._pdp.record(decision)
        text = f"{error.code}: {error}"
        return Verdict(False, 400, (), text, decision_id=decision.decision_id, reason=error.code)

    def _check(self, request: HttpRequest, started: int) -> Verdict:
        options = self.options
        try:
            input = to_input(request, strict=options.strict, skip_body=options.skip_body)
        except RequestError as error:
            return self.refuse(error)
        decision = self._pdp.decide(self._path, input, is_parsed=True)
        if decision.error is not None:
            return self._deny(decision, input, _code_of(decision.error), started)
        try:
            verdict = read_verdict(decision.result, decision.decision_id)
        except ResultError as error:
            failed = decision._replace(error=DecisionError(str(error)))
            why = log_failure(decision, self._pdp.snapshot)
            return self._deny(failed, input, "result_error", started, why)
        if self._pdp.logs_decisions:
            self._record(decision, input, started)
        return verdict

    def _record(self, decision: Decision, input: Input | Undefined, started: int) -> None:
        elapsed = perf_counter_ns() - started
        self._pdp.record(decision, input, handler_ns=elapsed, size=_HEAD + self.options.max_body)

    def _deny(
        self,
        decision: Decision,
        input: Input | Undefined,
        reason: str,
        started: int,
        why: str = "",
    ) -> Verdict:
        """A policy that failed, is undefined, or returned what is not an answer."""
        why = why or log_failure(decision, self._pdp.snapshot)
        if self._pdp.logs_decisions:
            self._record(decision, input, started)
        headers = ((REASON_HEADER, why),) if self.options.debug else ()
        return Verdict(False, headers=headers, decision_id=decision.decision_id, reason=reason)


def _code_of(error: Exception) -> str:
    if isinstance(error, RegoError) and error.diagnostics:
        return error.diagnostics[0].code
    return "eval_error"
