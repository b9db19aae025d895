"""One function holds the whole answer to a Check: decode, input, decision, encode.

`make_check` builds it for a decision point and options; it takes the bytes of a CheckRequest and
returns those of a CheckResponse, and knows no transport. The order of the parts is that of
`enforcement/flow.py`; here are the parts that Envoy's protocol decides. Whatever the bytes are, the
function answers. What fails is denied; only with `on-error: fail-call` does it raise
`CallFailedError` instead, for the server to end the call with, as OPA-Envoy does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias, cast

from doorward.edge import Edge
from doorward.enforcement.errors import RequestError, RequestParseError
from doorward.enforcement.flow import CheckFlow, Decider, Denial, Failure
from doorward.envoy.errors import CallFailedError
from doorward.envoy.options import Options
from doorward.envoy.request.descriptors import Services
from doorward.envoy.request.input import Input, MalformedRequestError, Version, to_input
from doorward.envoy.response import ResultError, to_denial, to_refusal, to_response
from doorward.pdp.decision import Decision
from doorward.pdp.sizes import estimate_memory
from doorward.telemetry.rate_limited_log import RateLimitedLog

__all__ = ["Check", "Decider", "Observer", "make_check"]

Check: TypeAlias = Callable[[bytes], bytes]
_Answer: TypeAlias = bytes | CallFailedError

_log: Final = logging.getLogger(__name__)

# Without it gRPC would make a failed call of a fault, which a proxy may be told to let through.
_EDGE: Final = Edge("check", "Check failed")
_OPA_REASONS: Final = {
    "eval_error": "envoyauth_eval_error",
    "result_error": "envoyauth_result_error",
}
"""OPA-Envoy's reason codes in `error_counter` by ours; other codes are the same in both."""


class Observer(Protocol):
    """A receiver of measurements: `observe` gets the duration of a check in seconds, `count_error`
    the reason code of each check without a decision.
    """

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
    """Return a function from serialized CheckRequest to serialized CheckResponse, for one API
    version.

    With `on-error: deny` it never raises: what fails is denied. With `fail-call` it raises
    CallFailedError if the bytes are not a CheckRequest or no decision can be made; only a request
    whose path, query or body cannot be parsed, or that is ambiguous, is still answered with 400.
    `services` decodes gRPC bodies; `observer` is told durations and failures.
    """
    fails_calls = options.on_error == "fail-call"
    flow: CheckFlow[bytes, _Answer] = CheckFlow(
        _EnvoyCodec(options, services, observer, version),
        pdp,
        options.path,
        edge=_EDGE,
        last_resort=_fault() if fails_calls else to_denial("internal_error", "", version),
        query=options.query,
        size_of=estimate_memory,
        observe=observer.observe if observer is not None else None,
    )
    decide = flow.check
    if not fails_calls:
        # Then no answer is a failed call; the usual check is spared one function.
        return cast(Check, decide)

    def check(request: bytes) -> bytes:
        """Return the serialized answer to a CheckRequest; raise CallFailedError in place of a
        denial if no decision can be made.
        """
        answer = decide(request)
        if isinstance(answer, CallFailedError):
            raise answer
        return answer

    return check


def _fault() -> CallFailedError:
    return CallFailedError("UNKNOWN", "internal error")


class _EnvoyCodec:
    """Envoy's part of a check: reads requests, writes answers and denials.

    With `on-error: fail-call` a denial of a failure is a `CallFailedError` object, not bytes.
    """

    def __init__(
        self,
        options: Options,
        services: Services | None,
        observer: Observer | None,
        version: Version,
    ) -> None:
        self._options = options
        self._services = services
        self._observer = observer
        self._version: Version = version
        self._fails_calls = options.on_error == "fail-call"
        self._dry_run = options.dry_run
        self._id_header = options.decision_id_header
        self._quiet = RateLimitedLog()

    def read(self, request: bytes) -> Input:
        return to_input(request, self._options, self._services, self._version)

    def write(self, decision: Decision) -> bytes:
        """Return the serialized CheckResponse of a decision: in a dry run OK for a denial as well,
        with the decision's id in a header if the options name one. Raise ResultError if its result
        is unusable.
        """
        return to_response(
            decision.result,
            decision.decision_id,
            dry_run=self._dry_run,
            version=self._version,
            id_header=self._id_header,
        )

    def deny(self, failure: Failure) -> Denial[_Answer]:
        """Return the denial for a check in which no policy decided, and the decision to log.

        Also counts the failure with the observer, under OPA-Envoy's reason code where it has one.
        """
        reason = _OPA_REASONS.get(failure.reason, failure.reason)
        if self._observer is not None:
            self._observer.count_error(reason)
        if isinstance(failure.cause, RequestError):
            return self._deny_request(failure.cause, failure.decision)
        if failure.reason == "internal_error":
            return Denial(
                self._or_failed_call(_fault(), reason, failure.decision), failure.decision
            )
        return self._deny_decision(failure, reason)

    def _deny_request(self, error: RequestError, decision: Decision) -> Denial[_Answer]:
        """Return a denial (HTTP 400) of a request that is unreadable or ambiguous.

        A malformed message is also reported in the log; with `on-error: fail-call` it fails the
        call and is left out of the decision log.
        """
        if isinstance(error, MalformedRequestError):
            self._complain("Malformed CheckRequest", error.code, decision.decision_id)
            if self._fails_calls:
                # grpc-go fails such a call before OPA-Envoy sees it, so it does not count as
                # decided.
                return Denial(CallFailedError("INTERNAL", str(error)), None)
        # OPA-Envoy's answer to a parse error carries no metadata.
        is_bare = isinstance(error, RequestParseError) or self._version == "v2"
        answer = to_refusal(
            error,
            "" if is_bare else decision.decision_id,
            id_header=self._id_header,
            header_id=decision.decision_id,
        )
        return Denial(answer, decision)

    def _deny_decision(self, failure: Failure, reason: str) -> Denial[_Answer]:
        """Return the denial, or with `on-error: fail-call` the failed call, for a policy that
        failed, is undefined or returned an unusable result; and the decision to log, without the
        error if its answer merely cannot be sent.

        Also writes a rate-limited line to the log.
        """
        decision = failure.decision
        self._complain("Decision failed", reason, decision.decision_id)
        code = failure.cause.code if isinstance(failure.cause, ResultError) else "UNKNOWN"
        # An answer that cannot be sent is, to OPA-Envoy, a decision that was made.
        logged = decision._replace(error=None) if code == "INTERNAL" else decision
        failed_call = CallFailedError(code, str(decision.error))
        return Denial(self._or_failed_call(failed_call, reason, decision), logged)

    def _or_failed_call(
        self, failed_call: CallFailedError, reason: str, decision: Decision
    ) -> _Answer:
        """Return `failed_call` with `on-error: fail-call`, else a serialized denial with `reason`
        and the id of `decision`.
        """
        if self._fails_calls:
            return failed_call
        return to_denial(reason, decision.decision_id, self._version, id_header=self._id_header)

    def _complain(self, message: str, reason: str, decision_id: str) -> None:
        """Log an error, at most once a second for each reason; `more` counts the suppressed ones.

        Without the limit a sender of bad requests could fill the log.
        """
        more = self._quiet.suppressed(reason)
        if more is not None:
            extra = {"reason": reason, "decision-id": decision_id, "more": more}
            # A code and an id: what a request says belongs in the decision log only.
            _log.error(message, extra=extra)
