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
"""The bytes of a body that a policy sees by default, as many as the kit's Envoy sends."""
_HEAD: Final = 4096
"""The estimated memory in bytes of an input without its body."""

_EDGE: Final = Edge("http-check", "a check failed")


@record
class HttpOptions:
    """The options by which the adapters for HTTP frameworks read and decide requests."""

    path: str = "envoy/authz/allow"
    """The document that decides."""
    strict: bool = True
    """Refuse a request that the application could read in another way than the policy
    (docs/strict.md)."""
    max_body: int = MAX_BODY
    """The largest number of bytes of a body that are read for the policy."""
    skip_body: bool = False
    """Leave bodies alone; the input has no `parsed_body`."""
    stripped: frozenset[str] = UNTRUSTED
    """Headers, in lower case, that are removed before policy and application see the request."""
    debug: bool = False
    """Add a header with the reason to a denial that no policy decided; for development only."""


class HttpCheck:
    """The check of HTTP requests at one decision point; safe in any number of threads."""

    def __init__(self, pdp: PDP, options: HttpOptions | None = None) -> None:
        """Prepare checks that `pdp` decides; `options` None stands for the defaults of
        `HttpOptions`.
        """
        self.options = options = options or HttpOptions()
        self.history = History()
        """The durations of recent checks: slow ones run in a thread, so that no event loop waits
        for them."""
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
        """Return the verdict on a request; raises nothing, and what fails is a denial.

        Blocks while the policy is evaluated, logs the decision, and notes the duration in
        `history`.
        """
        begun = self.history.begin()
        verdict = self._flow.check(request)
        self.history.end(begun)
        return verdict

    async def check_async(self, request: HttpRequest) -> Verdict:
        """Return the verdict on a request, and log the decision: `check` for asyncio. The policy is
        evaluated on the event loop, or in a thread while checks take milliseconds.
        """
        if self.history.is_slow:
            return await asyncio.to_thread(self.check, request)
        return self.check(request)

    def refuse(self, error: RequestError) -> Verdict:
        """Return the verdict (400, with the reason) for a request that cannot be read, and log
        it.
        """
        return self._flow.refuse(error)


class _HttpCodec:
    """HTTP's part of a check: its answer is a verdict, which the adapters apply."""

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
        """Return the denial for a failed check: 400 for a malformed request, else 403.

        The reason of a 403 is logged; in debug mode it is also in a header.
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
