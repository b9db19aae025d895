"""One response, from the headers of its request to its trailers: messages in, answers out.

    request_headers ─▶ response_headers ─▶ response_body ─▶ response_trailers
         new              requested            awaited           decided

A message in another order, or from a filter that does not send whole bodies, ends the call with a
status that is not OK, which Envoy answers with an error of its own. `finish` says that a call is
complete where the response was decided, and nowhere else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from doorward.edge import FAULTS, Edge
from doorward.enforcement.body_paths import PathError
from doorward.enforcement.errors import RequestError
from doorward.enforcement.flow import error_code
from doorward.enforcement.http_input import HttpRequest, Input, join_headers, to_input
from doorward.enforcement.lists import Hidden, ListError, find_hidden
from doorward.envoy.ext_proc import messages
from doorward.envoy.ext_proc.bodies import BodyError, State, parse_body, state_of, to_bytes
from doorward.envoy.ext_proc.changes import HIDDEN, change
from doorward.envoy.ext_proc.messages import Message, Mutation
from doorward.envoy.ext_proc.options import Options
from doorward.envoy.ext_proc.verdict import FIELDS, ResponseVerdict, read_response_verdict
from doorward.pdp.decision import Decision, DecisionError, new_decision_id
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import Snapshot
from doorward.rego import UNDEFINED, RegoError, Undefined, Value
from doorward.telemetry.rate_limited_log import RateLimitedLog
from doorward.transport.grpc.status import GrpcError, Status
from doorward.verdicts import FORBIDDEN, ResultError

__all__ = ["Observer", "Outcome", "Processor", "ResponseExchange"]

_log: Final = logging.getLogger(__name__)
_EDGE: Final = Edge("ext_proc", "the decision on a response failed")
# `ProcessingMode.BodySendMode`. BUFFERED_PARTIAL (3) is refused: past its limit Envoy passes
# the rest on unread.
_BUFFERED: Final = 2
_HEAD: Final = 4096
"""The estimated memory in bytes of an input without its body."""
_GROWTH: Final = 8
"""The estimated memory of a parsed body as a multiple of its size."""
_BODY: Final = ("response", "parsed_body")
"""The path of the parsed body below `input`."""
_FLAGS: Final = frozenset({"allow", "stream"})
"""Fields of the decision that are booleans and so never contain parts of a body."""
_NONE: Final = 0
"""The number of Envoy's body mode NONE: bodies are not sent."""
Outcome: TypeAlias = Literal["passed", "filtered", "denied", "unread", "failed"]
_Stage: TypeAlias = Literal["new", "requested", "awaited", "decided", "unread", "foreign"]

READ_HEADERS: Final = ("accept-encoding", "range", "if-range")
"""Request headers that may lead to a compressed or partial response, which cannot be filtered."""
CONDITIONS: Final = ("if-match", "if-modified-since", "if-none-match", "if-unmodified-since")
"""Conditions that make a response depend on an earlier one, which another user may have got. They
are removed from reads; a write keeps them, since they protect what is written."""
_READS: Final = frozenset({"GET", "HEAD"})
STALE: Final = frozenset(
    {"accept-ranges", "content-digest", "content-md5", "digest", "etag", "expires"}
    | {"last-modified", "repr-digest", "surrogate-control", "trailer", "x-accel-expires"}
)
"""Response headers that describe the body before filtering, or let caches serve it to others."""
_CACHES: Final = "-cache-control"
_ENVOY_HEADERS: Final = (
    *("ext_authz_", "rbac_access_denied", "jwt_authn_access_denied", "local_rate_limited"),
    *("request_payload_too_large", "request_overall_timeout", "request_header_timeout"),
    *("route_not_found", "cluster_not_found", "no_healthy_upstream", "maintenance_mode"),
    *("upstream_reset_", "upstream_response_timeout", "response_timeout"),
    *("upstream_per_try_timeout", "upstream_max_stream_duration_reached", "duration_timeout"),
    *("max_duration_timeout", "stream_idle_timeout", "overload", "upgrade_failed"),
)
"""Prefixes of `response.code_details` of responses that Envoy made itself, without data of the
application. All other responses count as the application's."""


class Observer(Protocol):
    """A receiver of the outcome of each response, with its reason code ("" if none) and duration in
    seconds.
    """

    def observe(self, outcome: Outcome, reason: str, seconds: float) -> None: ...


class _Response(NamedTuple):
    """The status and the headers (names in lower case) of a response."""

    status: int
    headers: dict[str, str]


class _Denied(Exception):
    """A response is denied for another reason than the policy's verdict; `code` is the reason
    code.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Processor:
    """The state that all response exchanges of a server share; `open` starts an exchange."""

    def __init__(self, pdp: PDP, options: Options, observer: Observer | None = None) -> None:
        self.pdp = pdp
        self.options = options
        self.path = options.document
        self._observer = observer
        self._quiet = RateLimitedLog()
        self._stream_rule: tuple[Snapshot | None, bool] = None, False
        self._body_fields: tuple[Snapshot | None, dict[str, bool]] = None, {}

    def open(self) -> ResponseExchange:
        """Return a new exchange, for one call of Envoy."""
        return ResponseExchange(self)

    def has_stream_rule(self, snapshot: Snapshot) -> bool:
        """Return True if the policy has a rule `stream`, so that it may let responses pass unread.

        The answer is remembered for the latest snapshot.
        """
        # Read and written as one tuple: exchanges of several threads may meet here.
        known, has_rule = self._stream_rule
        if known is not snapshot:
            has_rule = snapshot.has_rule_at(f"{self.path}/stream")
            self._stream_rule = snapshot, has_rule
        return has_rule

    def reads_body(self, snapshot: Snapshot, name: str) -> bool:
        """Return True if the field `name` of the decision may contain parts of the response body.

        That is so for the field `set`, and for a field whose rule reads the body, or may read it as
        far as is known. The answers are remembered for the latest snapshot.
        """
        known, fields = self._body_fields
        if known is not snapshot:
            fields = {}
            self._body_fields = snapshot, fields
        if name not in fields:
            document: Any = snapshot.document(f"{self.path}/{name}")
            paths = getattr(document, "input_paths", [()])
            # `set` puts values into bodies: what they are is left out whatever they are made of.
            fields[name] = name == "set" or any(path[:2] == _BODY[: len(path)] for path in paths)
        return fields[name]

    def note(self, outcome: Outcome, reason: str, started: int) -> None:
        """Report an outcome to the observer; `started` is a value of `perf_counter_ns`."""
        if self._observer is not None:
            self._observer.observe(outcome, reason, (perf_counter_ns() - started) / 1e9)

    def complain(self, message: str, reason: str, decision_id: str) -> None:
        """Log an error, at most once a second for each reason; `more` counts the suppressed ones.

        Without the limit a sender of bad responses could fill the log.
        """
        more = self._quiet.suppressed(reason)
        if more is not None:
            extra = {"reason": reason, "decision-id": decision_id, "more": more}
            _log.error(message, extra=extra)


class ResponseExchange:
    """The exchange of messages with Envoy about one request and its response, in order. Each
    message may be answered in another thread, never two at once.
    """

    def __init__(self, processor: Processor) -> None:
        self._processor = processor
        self._stage: _Stage = "new"
        self._method = ""
        self._input: Input = {}
        self._response = _Response(0, {})
        self._snapshot: Snapshot | None = None
        """The policies of the decision; None before it."""

    def answer(self, message: bytes) -> bytes:
        """Return the serialized answer to a serialized message of Envoy, and go on to the next
        stage.

        Raise GrpcError, which ends the call, if the bytes are not a message, the message comes out
        of order, the response has no valid status, or the filter has the wrong modes
        (`_check_modes`).
        """
        read = messages.read_message(message)
        # Envoy sends its modes with the first message of a stream only.
        if self._stage == "new":
            self._check_modes(read)
        match read.phase, self._stage:
            # INVARIANT: each message is answered once and in its order. Envoy takes an answer for
            # that of the message it waits for, so that a spurious one could pass a response.
            case "request_headers", "new":
                return self._on_request(read)
            case "response_headers", "new" | "requested":
                return self._on_response(read)
            case "response_body", "awaited":
                return self._on_body(read)
            case "response_body", "unread":
                return self._on_unread_body()
            # Where the filter refuses the override, the body of Envoy's own answer
            # comes all the same.
            case "response_body", "foreign":
                return messages.CONTINUE_BODY
            case "response_trailers", "decided":
                return messages.write_trailers({name.decode("latin-1") for name, _ in read.headers})
            case "response_trailers", "foreign" | "unread":
                return messages.write_trailers(())
        problem = f"Envoy sent {read.phase or 'an unknown message'} out of order"
        raise GrpcError(Status.FAILED_PRECONDITION, problem)

    def finish(self) -> None:
        """Raise GrpcError (ABORTED) if the call ends before the response was decided or passed on
        without a decision."""
        # To end with OK tells Envoy that nothing more is needed: the response would go out unread,
        # with `failure_mode_allow: false`, too.
        if self._stage not in ("decided", "unread", "foreign"):
            raise GrpcError(Status.ABORTED, "Envoy ended the call before the response was decided")

    def close(self) -> None:
        self._input = {}

    def _check_modes(self, first: Message) -> None:
        """Raise GrpcError, and log the reason, unless Envoy sends response bodies whole (BUFFERED),
        sends no request bodies, and follows answers (no `observability_mode`).
        """
        # Envoy would ignore the answers: better an error at once than a filter that
        # filters nothing.
        if first.is_observed:
            why = "set observability_mode to false: Envoy ignores every answer in that mode"
        # Absent modes are refused as well: Envoy leaves the field out where no body is sent.
        elif first.modes != (_NONE, _BUFFERED):
            why = "set response_body_mode to BUFFERED and request_body_mode to NONE"
        else:
            return
        self._processor.complain(f"Responses are not filtered: {why}", "filter_modes", "")
        raise GrpcError(Status.FAILED_PRECONDITION, why)

    # The request

    def _on_request(self, message: Message) -> bytes:
        """Read the request headers into the input, set the stage, and return the answer that lets
        the request pass.

        The answer removes headers that would lead to a compressed or partial response, and for GET
        and HEAD the conditions too; it removes nothing if the response passes unread anyway. A
        request that is malformed or, with `strict`, ambiguous is denied (400), logged and counted.
        """
        options = self._processor.options
        started = perf_counter_ns()
        try:
            request = _to_request(message, is_strict=options.strict)
            self._method = request.method
            self._input = to_input(request, strict=options.strict, skip_body=True)
        except RequestError as error:
            self._stage = "decided"
            decision = Decision(new_decision_id(), self._processor.path)
            decision = decision._replace(error=DecisionError(str(error)))
            self._record(decision, UNDEFINED, started, 0)
            self._processor.note("denied", error.code, started)
            text = f"{error.code}: {error}"
            return messages.write_denial(400, (), text, f"doorward_{error.code}")
        if message.filter_metadata:
            attributes: Any = self._input["attributes"]
            attributes["metadataContext"] = {"filterMetadata": message.filter_metadata}
        self._stage = "requested"
        # A response that passes unread may stay compressed and partial.
        if self._is_passed_before_response():
            return messages.write_headers("request_headers", Mutation())
        # The application must send a whole, plain response; a 304 would let a client use what it
        # cached for another user.
        removed = READ_HEADERS + (CONDITIONS if self._method in _READS else ())
        present = {name for name, _ in message.headers}
        removed = tuple([name for name in removed if name.encode() in present])
        return messages.write_headers("request_headers", Mutation(remove=removed))

    def _is_passed_before_response(self) -> bool:
        """Return True if the policy's `stream` is true for the request alone, whatever the response
        will be; a failed decision gives False.
        """
        processor = self._processor
        snapshot = processor.pdp.snapshot
        if not processor.has_stream_rule(snapshot):
            return False
        path = f"{processor.path}/stream"
        answer = processor.pdp.decide(path, self._input, is_parsed=True, snapshot=snapshot)
        return answer.error is None and answer.result is True

    # The response

    def _on_response(self, message: Message) -> bytes:
        """Return the answer to response headers: ask for the body, decide at once, or pass unread.
        Stores the headers and sets the stage.

        A response that Envoy made itself passes unread. A readable JSON body is asked for unless
        the policy's `stream` is true. Raise GrpcError if the request headers did not come or the
        status is malformed.
        """
        details = message.attributes.get("response.code_details", "")
        # Before the stage is checked: Envoy's own answer may come without the request's headers.
        if isinstance(details, str) and details.startswith(_ENVOY_HEADERS):
            self._stage = "foreign"
            return messages.write_unread(Mutation())
        if self._stage == "new":
            problem = "the request's headers are missing: set request_header_mode to SEND"
            raise GrpcError(Status.FAILED_PRECONDITION, problem)
        headers = messages.to_headers(message.headers)
        status = headers.pop(":status", "")
        # `int` would take other digits, blanks and signs as well.
        if not (status.isascii() and status.isdecimal() and len(status) == 3):
            raise GrpcError(
                Status.INVALID_ARGUMENT, "the response headers from Envoy have no :status"
            )
        self._response = _Response(int(status), headers)
        # HEAD, 204 and 304 have no body message, so that this is the only chance to decide.
        state = state_of(int(status), headers, has_body=not message.ends)
        if state == "unread" and not self._passes_unread():
            self._stage = "awaited"
            return messages.CONTINUE_RESPONSE
        return self._answer_guarded(state, None, 0)

    def _passes_unread(self) -> bool:
        """Return True if the policy's `stream` is true for this response with `body_state`
        `unread`.

        A failed decision gives False.
        """
        processor = self._processor
        snapshot = processor.pdp.snapshot
        if not processor.has_stream_rule(snapshot):
            return False
        input = self._with_response("unread")
        path = f"{processor.path}/stream"
        answer = processor.pdp.decide(path, input, is_parsed=True, snapshot=snapshot)
        return answer.error is None and answer.result is True

    def _with_response(self, state: State, **more: Value) -> Input:
        """Return a copy of the input with the object `response` added; `more` are further fields of
        it.
        """
        response: dict[Any, Value] = {
            "status": self._response.status,
            "headers": dict[Any, Value](self._response.headers),
            "body_state": state,
            **more,
        }
        return {**self._input, "response": response}

    def _on_body(self, message: Message) -> bytes:
        """Decide on a whole response body, and return the answer."""
        # A body that trailers follow does not end its stream. It is whole all the same: the filter
        # said at the beginning that it sends bodies whole, and another piece would not be answered.
        return self._answer_guarded("parsed", message.body, len(message.body))

    def _on_unread_body(self) -> bytes:
        """Return, log and count as failed the denial (403) of a response whose body came although
        the policy let it pass unread.

        That happens if the filter does not accept `mode_override`.
        """
        started = perf_counter_ns()
        decision = Decision(new_decision_id(), self._processor.path)
        why = _Denied(
            "mode_override_refused",
            "the policy lets the response pass unread, but Envoy sends its body: set "
            "allow_mode_override of the filter ext_proc to true",
        )
        return self._fail(decision, self._input, why, started, "unread", 0)

    def _answer_guarded(self, state: State, body: bytes | None, size: int) -> bytes:
        """Decide on a response and return the answer; any exception of the decision becomes a
        denial (403).

        The fault is logged with an id. `body` None means that no body will be read; `size` is the
        body's size in bytes.
        """
        started = perf_counter_ns()
        # INVARIANT: decided from here on, or on its way out by an exception, which is not OK.
        decision = Decision(new_decision_id(), self._processor.path)
        try:
            return self._decide(state, body, started)
        except FAULTS as fault:
            fault_id = _EDGE.report(fault, **{"decision-id": decision.decision_id})
        return self._fail(
            decision, UNDEFINED, _Denied("internal_error", fault_id), started, state, size
        )

    def _decide(self, state: State, body: bytes | None, started: int) -> bytes:
        """Decide on a response, log the decision, set the stage, and return the serialized answer.

        `body` None means that no body will be read; `b""` that it is empty. What cannot be parsed,
        decided or applied is denied (403), in a dry run too; a dry run lets all other responses
        pass unchanged.
        """
        processor = self._processor
        options = processor.options
        # One snapshot for the decision and the lists: a reload in between must not mix policies.
        snapshot = self._snapshot = processor.pdp.snapshot
        value: Value = None
        plain = body or b""
        if body is None:
            input = self._with_response(state)
        # A body was announced and is empty, which the headers could not tell.
        elif not body:
            state = "none"
            input = self._with_response(state, size=0)
        else:
            encoding = self._response.headers.get("content-encoding", "")
            try:
                value, plain = parse_body(body, encoding, options.max_body)
            except BodyError as error:
                # No policy is asked about a body that two readers could understand in two ways.
                decision = Decision(new_decision_id(), processor.path, revision=snapshot.revision)
                input = self._with_response("opaque", size=len(body))
                why = _Denied(error.code, str(error))
                return self._fail(decision, input, why, started, "opaque", len(body))
            input = self._with_response(state, size=len(plain), parsed_body=value)
        size = len(plain)
        decision = processor.pdp.decide(processor.path, input, is_parsed=True, snapshot=snapshot)
        if decision.error is not None:
            why = _Denied(error_code(decision.error), str(decision.error))
            return self._fail(decision, input, why, started, state, size)
        try:
            verdict = read_response_verdict(decision.result)
        except ResultError as error:
            return self._fail(
                decision, input, _Denied("result_error", str(error)), started, state, size
            )
        if not verdict.allowed:
            return self._deny(decision, input, verdict, started, state, size)
        try:
            if body is None or state == "none":
                return self._pass_headers(decision, input, verdict, started, state)
            hidden = self._find_hidden(snapshot, verdict, input, value)
            left = _apply(verdict, hidden, value)
        except (_Denied, RegoError) as error:
            why = error if isinstance(error, _Denied) else _Denied(error_code(error), str(error))
            return self._fail(decision, input, why, started, state, size)
        is_changed = left is not value
        self._stage = "decided"
        self._log_answer(
            decision, input, "filtered" if is_changed else "passed", started, state, size, hidden
        )
        if options.dry_run:
            return messages.CONTINUE_BODY
        # An unchanged body goes out plain as well, since `_mutation` removes its encoding.
        was_encoded = plain is not body
        new_body = to_bytes(left) if is_changed else plain if was_encoded else None
        return messages.write_body(self._mutation(verdict, new_body, state), new_body)

    def _pass_headers(
        self,
        decision: Decision,
        input: Input,
        verdict: ResponseVerdict,
        started: int,
        state: State,
    ) -> bytes:
        """Return the answer to an allowed response that has no body or whose body is not read.

        Also sets the stage and logs the decision. Raise _Denied if the body cannot be read and the
        policy's `stream` is not true, or if the verdict changes a body that passes unread.
        """
        is_answered_with_body = state == "none" and self._stage == "awaited"
        if state != "none":
            # Envoy ignores a body mutation in the answer to headers: the change would
            # be lost in silence.
            if verdict.stream and verdict.reads_body:
                raise _Denied(
                    "result_error",
                    "`stream` passes the response unread: `keep`, `remove`, `set` and `lists` must "
                    "not be given",
                )
            if not verdict.stream:
                raise _Denied(f"response_{state}", _UNREADABLE[state])
        self._stage = "unread" if state != "none" else "decided"
        outcome: Outcome = "unread" if state != "none" else "passed"
        self._log_answer(decision, input, outcome, started, state, 0, None)
        if self._processor.options.dry_run:
            mutation = Mutation()
        elif state != "none":
            mutation = Mutation(verdict.added, verdict.removed)
        else:
            mutation = self._mutation(verdict, None, state)
        if state != "none":
            return messages.write_unread(mutation)
        if is_answered_with_body:
            return messages.write_body(mutation, None)
        return messages.write_headers("response_headers", mutation)

    def _find_hidden(
        self, snapshot: Snapshot, verdict: ResponseVerdict, input: Input, value: Value
    ) -> Hidden:
        """Return the list items that the rules of the configured lists hide.

        Raise _Denied if the verdict names an unknown list or a list cannot be filtered, and
        RegoError if a rule fails.
        """
        lists = self._processor.options.lists
        if verdict.lists is not None:
            unknown = verdict.lists - lists.keys()
            if unknown:
                configured = ", ".join(sorted(lists)) or "none"
                raise _Denied(
                    "result_error",
                    f"`lists` names {min(unknown)}, which is not one of the configured lists "
                    f"({configured})",
                )
            lists = {name: each for name, each in lists.items() if name in verdict.lists}
        try:
            return find_hidden(snapshot, lists, input, value)
        except ListError as error:
            raise _Denied("response_list", str(error)) from None

    def _mutation(self, verdict: ResponseVerdict, body: bytes | None, state: State) -> Mutation:
        """Return the header changes of an allowed response, with a new body or None for the same
        one.

        Removes validators and cache headers that no longer hold, corrects `content-length`, removes
        `content-encoding` if the body is new, and sets `cache-control: private` unless the policy
        sets one; `no-store` is kept.
        """
        headers = self._response.headers
        removed = [name for name in headers if name in STALE or name.endswith(_CACHES)]
        added = list(verdict.added)
        if body is not None:
            # Envoy answers 500 where a mutated body has another length than the header says.
            added.append(("content-length", str(len(body))))
            if "content-encoding" in headers:
                removed.append("content-encoding")
        elif state == "none" and headers.get("content-length", "0") != "0":
            removed.append("content-length")
        # A shared cache must not serve one user's body to another one.
        if not any([name.lower() == "cache-control" for name, _ in verdict.added]):
            is_stored = "no-store" not in headers.get("cache-control", "").lower()
            added.append(("cache-control", "private" if is_stored else "private, no-store"))
        return Mutation(added, [*removed, *verdict.removed])

    # Denials

    def _deny(
        self,
        decision: Decision,
        input: Input,
        verdict: ResponseVerdict,
        started: int,
        state: State,
        size: int,
    ) -> bytes:
        """Return the denial that the policy decided, with its status, headers and body; log it and
        set the stage.

        In a dry run the denial is logged and the response passes unchanged.
        """
        if self._processor.options.dry_run:
            self._log_answer(decision, input, "denied", started, state, size, None, "dry_run")
            return self._let_pass(state)
        self._stage = "decided"
        self._log_answer(decision, input, "denied", started, state, size, None, "denied")
        headers = verdict.headers
        return messages.write_denial(verdict.status, headers, verdict.body, "doorward_denied")

    def _let_pass(self, state: State) -> bytes:
        """Return the answer that lets a response pass unchanged in a dry run; sets the stage."""
        if self._stage == "awaited":
            self._stage = "decided"
            return messages.CONTINUE_BODY
        if state == "none":
            self._stage = "decided"
            return messages.write_headers("response_headers", Mutation())
        self._stage = "foreign"
        return messages.write_unread(Mutation())

    def _fail(
        self,
        decision: Decision,
        input: Input | Undefined,
        why: _Denied,
        started: int,
        state: State,
        size: int,
    ) -> bytes:
        """Return a denial (403, empty body) for a response that could not be decided or filtered.

        Also sets the stage, and logs the decision with the error and a rate-limited line in the
        log. A dry run does not change this.
        """
        self._stage = "decided"
        # INVARIANT: a failure denies in a dry run, too: nobody knows what the policy
        # would have said.
        decision = decision._replace(error=DecisionError(str(why)))
        self._log_answer(decision, input, "failed", started, state, size, None, why.code)
        message = "A response was denied, because it could not be decided or filtered"
        self._processor.complain(message, why.code, decision.decision_id)
        return messages.write_denial(FORBIDDEN, (), "", f"doorward_{why.code}")

    # What is told of it

    def _log_answer(
        self,
        decision: Decision,
        input: Input | Undefined,
        outcome: Outcome,
        started: int,
        state: State,
        size: int,
        hidden: Hidden | None,
        reason: str = "",
    ) -> None:
        """Log a decision with its outcome, body size and list counts, and report it to the
        observer. `hidden`: the items that were left out of lists; None if no lists were decided on.
        """
        processor = self._processor
        if processor.pdp.logs_decisions:
            record: dict[str, Any] = {"outcome": outcome, "body_state": state, "size": size}
            if reason:
                record["reason"] = reason
            if hidden is not None and hidden.counts:
                record["lists"] = hidden.record(processor.options.lists)
            decision = decision._replace(custom={"response": record})
            self._record(decision, input, started, size)
        processor.note(outcome, reason, started)

    def _record(
        self, decision: Decision, input: Input | Undefined, started: int, size: int
    ) -> None:
        """Write a decision to the decision log if there is one.

        Unless `log-bodies` is set, the body and the fields made of it are left out and named as
        erased.
        """
        pdp = self._processor.pdp
        if not pdp.logs_decisions:
            return
        # The log must not become the place where hidden fields can be read.
        if not self._processor.options.log_bodies:
            snapshot = self._snapshot or pdp.snapshot
            decision, input = _without_body(
                decision, input, lambda name: self._processor.reads_body(snapshot, name)
            )
            size = 0
        elapsed = perf_counter_ns() - started
        pdp.record(decision, input, handler_ns=elapsed, size=_HEAD + _GROWTH * size)


_UNREADABLE: Final[dict[State, str]] = {
    "unread": "`stream` is true when it is evaluated alone, and not true in the decision",
    "opaque": "the body is not JSON, and the policy does not let it pass unread",
    "encoded": "the body is compressed by other means than gzip",
    "partial": "the response has only a part of the body",
}


def _apply(verdict: ResponseVerdict, hidden: Hidden, value: Value) -> Value:
    """Return the body after the verdict and the hidden items; `value` itself if nothing changes.

    Raise _Denied if a path does not fit the body or the body as a whole is hidden; an object or
    list may become empty.
    """
    drop = {path: indexes for path, indexes in hidden.items.items() if indexes}
    if verdict.keep is None and not verdict.remove and not verdict.set and not drop:
        return value
    try:
        left: Any = change(
            value, keep=verdict.keep, remove=verdict.remove, set=verdict.set, drop=drop
        )
    except PathError as error:
        raise _Denied("response_path", str(error)) from None
    if left is HIDDEN:
        raise _Denied(
            "response_path",
            "nothing of the response body would be left: the policy must keep a part of it",
        )
    return left  # type: ignore[no-any-return]  # JSON


def _without_body(
    decision: Decision, input: Input | Undefined, has_body_of: Callable[[str], bool]
) -> tuple[Decision, Input | Undefined]:
    """Return decision and input without the response body, and without unknown fields and fields
    that may contain parts of it (`has_body_of`, by name).

    JSON pointers to what is left out, at most 100, are in `erased` of the returned decision.
    """
    erased: list[str] = []
    response: Any = None if isinstance(input, Undefined) else input.get("response")
    if isinstance(response, dict) and "parsed_body" in response:
        without_body = {name: each for name, each in response.items() if name != "parsed_body"}
        assert not isinstance(input, Undefined)
        input = {**input, "response": without_body}
        erased.append("/input/response/parsed_body")
    result: Any = decision.result
    if isinstance(result, dict):
        remaining: Any = {
            name: each
            for name, each in result.items()
            if name in FIELDS and (name in _FLAGS or not has_body_of(name))
        }
        erased += [f"/result/{name}" for name in result if name not in remaining]
        decision = decision._replace(result=remaining)
    return decision._replace(erased=tuple(erased[:100])), input


def _to_request(message: Message, *, is_strict: bool) -> HttpRequest:
    """Return the HTTP request that a message of request headers describes.

    Raise RequestError if its headers are malformed or, with `is_strict`, ambiguous.
    """
    pseudo: dict[bytes, str] = {}
    pairs: list[tuple[bytes, bytes]] = []
    for name, value in message.headers:
        if name.startswith(b":"):
            pseudo[name] = value.decode("utf-8", "replace")
        else:
            pairs.append((name, value))
    headers, host, _ = join_headers(pairs, frozenset(), strict=is_strict)
    attributes = message.attributes
    protocol = attributes.get("request.protocol", "HTTP/1.1")
    return HttpRequest(
        pseudo.get(b":method", ""),
        pseudo.get(b":path", ""),
        headers,
        host=pseudo.get(b":authority", host),
        scheme=pseudo.get(b":scheme", "http"),
        protocol=protocol if isinstance(protocol, str) else "HTTP/1.1",
        source=_to_address(attributes.get("source.address")),
        destination=_to_address(attributes.get("destination.address")),
    )


def _to_address(value: Value) -> tuple[str, int] | None:
    """Return `("10.0.0.1", 80)` for `10.0.0.1:80`; None if the value is not an address with a
    port.
    """
    host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    if not host or not (port.isascii() and port.isdecimal() and len(port) <= 5):
        return None
    return host.strip("[]"), int(port)
