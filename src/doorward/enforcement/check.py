"""One function decides on an HTTP request, for every adapter that does not speak Envoy's gRPC.

    HttpRequest -> input -> Decision -> Verdict

Whatever the request and the policy are, it answers; what fails is denied, and logged. The order of
the parts is that of `flow.py`.
"""

from __future__ import annotations

import asyncio
from typing import Final

from doorward.base.records import record
from doorward.edge import Edge
from doorward.enforcement.errors import RequestError
from doorward.enforcement.flow import CheckFlow, Denial, Failure
from doorward.enforcement.headers import UNTRUSTED
from doorward.enforcement.http_input import HttpRequest, Input, to_input
from doorward.enforcement.refusals import REASON_HEADER, log_failure
from doorward.pdp.decision import Decision
from doorward.pdp.pdp import PDP
from doorward.transport.slow_calls import History
from doorward.verdicts import Verdict, read_verdict

__all__ = ["MAX_BODY", "HttpCheck", "HttpOptions"]

MAX_BODY: Final = 8 * 1024
"""Bytes of a body that the policy sees; what the kit's Envoy sends."""
_HEAD: Final = 4096
"""Bytes that an input takes besides its body, about."""

_EDGE: Final = Edge("http-check", "a check failed")


@record
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
        self.options = options = options or HttpOptions()
        self.history = History()
        """Whether checks take milliseconds, so that an event loop should not wait for them."""
        size = _HEAD + options.max_body
        self._flow: CheckFlow[HttpRequest, Verdict] = CheckFlow(
            _HttpCodec(pdp, options),
            pdp,
            options.path,
            edge=_EDGE,
            last_resort=Verdict(False, reason="internal_error"),
            size_of=lambda _: size,
        )

    def check(self, request: HttpRequest) -> Verdict:
        """Decide a request and return the action; `history` notes the time that it took."""
        begun = self.history.begin()
        verdict = self._flow.check(request)
        self.history.end(begun)
        return verdict

    async def check_async(self, request: HttpRequest) -> Verdict:
        """The same on an event loop of asyncio; in a thread while it takes milliseconds."""
        if self.history.is_slow:
            return await asyncio.to_thread(self.check, request)
        return self.check(request)

    def refuse(self, error: RequestError) -> Verdict:
        """Return the verdict on a request that cannot be read: 400, with the reason."""
        return self._flow.refuse(error)


class _HttpCodec:
    """The part of a check that depends on HTTP. An answer is the verdict, which adapters apply."""

    def __init__(self, pdp: PDP, options: HttpOptions) -> None:
        self._pdp = pdp
        self._strict = options.strict
        self._skip_body = options.skip_body
        self._debug = options.debug

    def read(self, request: HttpRequest) -> Input:
        return to_input(request, strict=self._strict, skip_body=self._skip_body)

    def write(self, decision: Decision) -> Verdict:
        return read_verdict(decision.result, decision.decision_id)

    def deny(self, failure: Failure) -> Denial[Verdict]:
        """Return the refusal for a failed check: 400 for a malformed request, else a denial
        whose reason is logged.
        """
        decision, cause = failure.decision, failure.cause
        decision_id = decision.decision_id
        if isinstance(cause, RequestError):
            text = f"{cause.code}: {cause}"
            refusal = Verdict(False, 400, (), text, decision_id=decision_id, reason=cause.code)
            return Denial(refusal, decision)
        # What is wrong with a result is explained by the decision as the policy made it.
        explained = decision if cause is None else decision._replace(error=None)
        explanation = log_failure(explained, self._pdp.snapshot)
        headers = ((REASON_HEADER, explanation),) if self._debug else ()
        denial = Verdict(False, headers=headers, decision_id=decision_id, reason=failure.reason)
        return Denial(denial, decision)
