"""The Data API: a path and an input, by way of the decision point, to the document at the path.

The functions here block for as long as a policy takes, and are called from worker threads.
"""

from __future__ import annotations

import os
from contextlib import suppress
from time import perf_counter_ns
from typing import Final, NamedTuple

from starlette.responses import Response

from doorward import __version__
from doorward.pdp.decision import Decision, DecisionError, RequestContext, UndefinedDocumentError
from doorward.pdp.pdp import PDP
from doorward.pdp.sizes import estimate_memory
from doorward.pdp.snapshot import INTEGER, document_ref
from doorward.rego import UNDEFINED, EvalError, RegoError, Undefined, Value
from doorward.rego.golang import marshal, object_text
from doorward.rego.shared import Key
from doorward.rest import instruments
from doorward.rest.answers import bad_request, encoded, failed, json_answer, not_found
from doorward.rest.body import Body
from doorward.rest.explanation import explained, mode_of
from doorward.rest.requests import (
    BadRequest,
    Parameters,
    input_of_parameter,
)
from doorward.telemetry.log import second_text

__all__ = [
    "ID_HEADER",
    "NO_INPUT",
    "Answer",
    "Call",
    "bad_path",
    "get_v1",
    "get_v1_text",
    "is_below",
    "post_v0",
    "post_v1",
    "post_v1_text",
    "reply",
]

NO_INPUT: Final = {
    "code": marshal("api_usage_warning"),
    "message": marshal("'input' key missing from the request"),
}
_PROVENANCE: Final = {
    "version": marshal(__version__),
    "build_commit": '""',
    # A client that others wrote takes nothing but a time: that of the code that decides.
    "build_timestamp": marshal(f"{second_text(int(os.stat(__file__).st_mtime))}Z"),
    "build_hostname": '""',
}


ID_HEADER: Final = "x-decision-id"
"""The response header with the decision's id, set if decisions are logged."""


class Answer(NamedTuple):
    """The JSON text of an answer, and the id of its decision; "" if decisions are not logged."""

    text: str
    decision_id: str


class Call:
    """The state of one request for a document: snapshot, timers and size."""

    def __init__(self, pdp: PDP, path: tuple[str, ...], context: RequestContext | None) -> None:
        """Begin a request for the document at `path`, with the newest snapshot; `context` None logs
        no headers.
        """
        self.started = perf_counter_ns()
        self.parse_ns = 0
        self.compile_ns: int | None = None
        """The nanoseconds that compiling the document took; None if it was compiled already."""
        self.size = 0
        """The estimated memory of input and result in bytes, for the decision log: without one
        inputs are not counted."""
        self.pdp = pdp
        self.snapshot = pdp.snapshot
        self.path = path
        self.context = context
        self.batch_decision_id = ""
        self.decision_id = ""
        """The id of the decision that was answered; "" if decisions are not logged."""

    def parsed(self) -> None:
        """Note, in `parse_ns`, the time since the call started: the request is parsed."""
        self.parse_ns = perf_counter_ns() - self.started

    def compile(self, *, strict: bool) -> None:
        """Compile the document if it is not compiled yet, and note the time in `compile_ns`.
        `strict`: errors of built-ins are errors.

        Errors of compilation are left to the decision.
        """
        if self.snapshot.is_prepared(self.path, strict=strict):
            return
        began = perf_counter_ns()
        with suppress(RegoError):  # the decision says what is wrong
            self.snapshot.document(self.path, strict=strict)
        self.compile_ns = perf_counter_ns() - began

    def decide(self, input: Value | Undefined, *, strict: bool = False) -> Decision:
        """Decide on an input and return the decision; documents that are secret are removed from
        its result. `strict`: errors of built-ins fail the decision.
        """
        decision = self.pdp.decide(
            self.path, input, strict=strict, is_parsed=True, snapshot=self.snapshot
        )
        # After the decision, which may use them: only the answer is without secrets.
        # INVARIANT: the answer, the log and the explanation see no secret: `record` and `encoded`
        # get this decision, and `may_explain` refuses explanations where there are secrets.
        for path in self.pdp.secrets:
            if is_below(path, self.path):
                below = path[len(self.path) :]
                decision = decision._replace(result=_without(decision.result, below))
        if decision.path.count("/") >= len(self.path) > 0:
            # As in OPA, a slash in a name is not one between two.
            names = [name.replace("/", "%2F") for name in self.path]
            decision = decision._replace(path="/".join(names))
        return decision

    def record(self, decision: Decision, input: Value | Undefined) -> None:
        """Log the decision with the time since the call began and its `size`; if the call has a
        `context`, the timers of the call are added to it.
        """
        context = self.context
        if context is not None:
            # As OPA writes it where policies read data; ours is compiled in.
            timers = {"timer_rego_external_resolve_ns": 0, **self._timers()}
            context = context._replace(timers=timers)
        elapsed = perf_counter_ns() - self.started
        self.pdp.record(
            decision, input, handler_ns=elapsed, request_context=context, size=self.size
        )

    def provenance(self) -> dict[str, str]:
        """Return the members of the `provenance` object, each as JSON: the server's version and
        build, and, if there are any, the bundles with their revisions.
        """
        bundles: dict[Key, Value] = {
            name: {"revision": "", **fields} if isinstance(fields, dict) else fields
            for name, fields in self.snapshot.bundles.items()
        }
        return {**_PROVENANCE, "bundles": marshal(bundles)} if bundles else _PROVENANCE

    def metrics(self, decision: Decision) -> dict[Key, Value]:
        """Return the timers and counters of the call, by OPA's names."""
        metrics: dict[Key, Value] = {"timer_server_handler_ns": perf_counter_ns() - self.started}
        metrics.update(self._timers())
        metrics.update(decision.metrics)
        return metrics

    def _timers(self) -> dict[str, int]:
        """Return, by OPA's names, the time of parsing the input, 1 or 0 for a query that came from
        the cache or not, and if it did not the time of compiling it.
        """
        timers = {
            "counter_server_query_cache_hit": int(self.compile_ns is None),
            "timer_rego_input_parse_ns": self.parse_ns,
        }
        if self.compile_ns is not None:
            timers["timer_rego_query_compile_ns"] = self.compile_ns
        return timers


def is_below(path: tuple[str, ...], above: tuple[str, ...]) -> bool:
    """Return True if `path` is `above` or below it; segments that are equal integers (`0`, `00`)
    match.
    """
    if path[: len(above)] == above:
        return True
    return len(path) >= len(above) and all(map(_is_same, path, above))


def _is_same(segment: str, other: str) -> bool:
    """Return True if two segments of a path are equal, or equal as integers."""
    if segment == other:
        return True
    return bool(INTEGER.match(segment) and INTEGER.match(other)) and int(segment) == int(other)


def _without(value: Value | Undefined, path: tuple[str, ...]) -> Value | Undefined:
    """Return a copy of `value` without the part at `path`, in an array with null in its place;
    `value` itself if it has no such part. UNDEFINED if `path` is empty, so that nothing is left.
    """
    if not path:
        return UNDEFINED
    if isinstance(value, list) and INTEGER.match(path[0]) and 0 <= int(path[0]) < len(value):
        inner = _without(value[int(path[0])], path[1:])
        return [
            (None if isinstance(inner, Undefined) else inner) if number == int(path[0]) else item
            for number, item in enumerate(value)
        ]
    if not isinstance(value, dict) or path[0] not in value:
        return value
    inner = _without(value[path[0]], path[1:])
    # A copy: the value is the snapshot's own data, which other decisions read.
    rest = {name: each for name, each in value.items() if name != path[0]}
    return rest if isinstance(inner, Undefined) else {**rest, path[0]: inner}


def get_v1(
    pdp: PDP, path: tuple[str, ...], parameters: Parameters, context: RequestContext | None = None
) -> Response:
    """Return the response to GET /v1/data/PATH with the input in the parameter `input`.

    400 for a malformed input, 500 if the evaluation failed or the path has a quote or NUL; an
    undefined document has no `result`.
    """
    return _response(get_v1_text(pdp, path, parameters, context), parameters)


def get_v1_text(
    pdp: PDP, path: tuple[str, ...], parameters: Parameters, context: RequestContext | None = None
) -> Answer | Response:
    """Return the answer to GET /v1/data/PATH, or a whole response if it is an error. The input is
    the query parameter `input`; `pretty` is left to the caller.
    """
    call = Call(pdp, path, context)
    input: Value | Undefined = UNDEFINED
    if texts := parameters.values("input"):
        if pdp.logs_decisions:
            call.size = sum([estimate_memory(text.encode()) for text in texts])
        try:
            input = input_of_parameter(texts)
        except BadRequest as error:
            return bad_request(str(error))
    return _answer_v1(call, input, parameters, warn=False)


def post_v1(
    pdp: PDP,
    path: tuple[str, ...],
    parameters: Parameters,
    body: Body,
    context: RequestContext | None = None,
) -> Response:
    """Return the response to POST /v1/data/PATH with the body `{"input": …}`.

    400 for a malformed body, 500 if the evaluation failed or the path has a quote or NUL; an
    undefined document has no `result`.
    """
    return _response(post_v1_text(pdp, path, parameters, body, context), parameters)


def post_v1_text(
    pdp: PDP,
    path: tuple[str, ...],
    parameters: Parameters,
    body: Body,
    context: RequestContext | None = None,
) -> Answer | Response:
    """Return the answer to POST /v1/data/PATH, or a whole response if it is an error."""
    call = Call(pdp, path, context)
    if pdp.logs_decisions:
        call.size = body.size
    try:
        input = body.input()
    except BadRequest as error:
        return bad_request(str(error))
    return _answer_v1(call, input, parameters, warn=isinstance(input, Undefined))


def _response(answer: Answer | Response, parameters: Parameters) -> Response:
    """Return the response to a decision; an error is one already."""
    if isinstance(answer, Answer):
        response = json_answer(answer.text, pretty=parameters.flag("pretty"))
        return _with_id(response, answer.decision_id)
    return answer


def _with_id(response: Response, decision_id: str) -> Response:
    """Add the header of the decision id to a response, if there is an id."""
    if decision_id:
        response.headers[ID_HEADER] = decision_id
    return response


def _answer_v1(
    call: Call, input: Value | Undefined, parameters: Parameters, *, warn: bool
) -> Answer | Response:
    """Decide and return the answer, or a whole response if it is an error.

    `warn` adds OPA's warning that the request has no input.
    """
    call.parsed()
    refused = bad_path(call.path)
    if refused is not None:
        return refused
    fields = reply(call, input, parameters)
    if isinstance(fields, Exception):
        return _with_id(failed(fields), call.decision_id)
    if warn:
        fields["warning"] = object_text(NO_INPUT)
    return Answer(object_text(fields), call.decision_id)


def reply(
    call: Call, input: Value | Undefined, parameters: Parameters
) -> dict[str, str] | Exception:
    """Decide on one input, log the decision, and return the members of the answer, each as JSON.
    Sets the decision id of `call` and adds the length of the result to its `size`.

    Returns the error, without raising it, if the decision, its encoding or the explanation failed.
    """
    strict = parameters.flag("strict-builtin-errors")
    measures = parameters.flag("metrics") or parameters.flag("instrument")
    # Compiled before the decision, so that its time is not part of the evaluation's.
    if measures or call.context is not None:
        call.compile(strict=strict)
    decision, result = encoded(call.decide(input, strict=strict), call.snapshot.deadline)
    if call.batch_decision_id:
        decision = decision._replace(batch_decision_id=call.batch_decision_id)
    call.size += len(result)
    # What cannot be sent was not answered: it is written down as the error that is sent instead.
    call.record(decision, input)
    call.decision_id = decision.decision_id if call.pdp.logs_decisions else ""
    if decision.error is not None:
        return decision.error
    fields: dict[str, str] = {}
    if call.pdp.logs_decisions:
        fields["decision_id"] = marshal(decision.decision_id)
    if parameters.flag("provenance"):
        fields["provenance"] = object_text(call.provenance())
    mode = mode_of(parameters)
    # What is undefined OPA explains as a whole, or not.
    if mode is not None and (result or mode in ("full", "why")):
        query, pretty = document_ref(call.path), parameters.flag("pretty")
        try:
            fields["explanation"] = explained(call.snapshot, query, input, mode, pretty=pretty)
        except EvalError as error:
            return error
    if measures:
        metrics = call.metrics(decision)
        if parameters.flag("instrument"):
            metrics.update(instruments.for_data(compiled=call.compile_ns is not None))
        fields["metrics"] = marshal(metrics)
    if result:
        fields["result"] = result
    return fields


def bad_path(path: tuple[str, ...]) -> Response | None:
    """Return OPA's refusal (500) of a path with a quote or a NUL; None for other paths. Doorward
    could serve such paths, but OPA's clients expect the refusal.
    """
    text = "/".join(path)
    if "\0" in text:
        return failed(DecisionError("invalid_parameter: invalid path: failed to parse query"))
    if '"' not in text:
        return None
    bad = next(segment for segment in path if '"' in segment)
    return failed(DecisionError(f"invalid_parameter: invalid path: invalid ref term '{bad}'"))


def post_v0(
    pdp: PDP,
    path: tuple[str, ...],
    parameters: Parameters,
    body: Body,
    context: RequestContext | None = None,
) -> Response:
    """Return the document itself (POST /v0/data/PATH), with the whole body as input.

    404 if it is undefined, 400 for a malformed body, 500 if the evaluation failed or the path has a
    quote or NUL.
    """
    call = Call(pdp, path, context)
    if pdp.logs_decisions:
        call.size = body.size
    try:
        input = body.document()
    except BadRequest as error:
        return bad_request(f"unexpected parse error for input: {error}")
    call.parsed()
    refused = bad_path(path)
    if refused is not None:
        return refused
    if context is not None:
        call.compile(strict=False)
    decision, result = encoded(call.decide(input), call.snapshot.deadline)
    call.size += len(result)
    if decision.error is None and isinstance(decision.result, Undefined):
        state = "undefined" if call.snapshot.has_rule_at(path) else "missing"
        message = f"document {state}: {'.'.join(['data', *path])}"
        decision = decision._replace(error=UndefinedDocumentError(message))
    # OPA logs the input that is missing as null.
    call.record(decision, None if isinstance(input, Undefined) else input)
    if isinstance(decision.error, UndefinedDocumentError):
        response = not_found(str(decision.error))
    elif decision.error is not None:
        response = failed(decision.error)
    else:
        response = json_answer(result, pretty=parameters.flag("pretty"))
    return _with_id(response, decision.decision_id if pdp.logs_decisions else "")
