"""Many inputs for one document in one request: POST /v1/batch/data/PATH, as EOPA has it.

All items see one snapshot. Each has the deadline of a decision, and all together that of a dozen.
"""

from __future__ import annotations

from time import monotonic, perf_counter_ns
from typing import Final

from starlette.responses import Response

from doorward.base.cancellation import is_stopped
from doorward.pdp.decision import DecisionError, RequestContext, new_decision_id
from doorward.pdp.pdp import PDP
from doorward.pdp.sizes import estimate_memory
from doorward.rego import Value
from doorward.rego.golang import marshal, object_text
from doorward.rego.shared import Key
from doorward.rest.answers import bad_request, json_answer
from doorward.rest.body import Body
from doorward.rest.data import NO_INPUT, Call, bad_path, reply
from doorward.rest.requests import BadRequest, Parameters, go_kind

__all__ = ["post_batch"]

DEADLINES: Final = 12
"""The time limit of a batch, in deadlines of one decision."""


def post_batch(
    pdp: PDP,
    path: tuple[str, ...],
    parameters: Parameters,
    body: Body,
    context: RequestContext | None = None,
) -> Response:
    """Return the decisions on many inputs (POST /v1/batch/data/PATH with `inputs` and
    `common_input`).

    200 if all succeeded or there are none, 207 if some failed; 500 if all failed or the path has a
    quote or NUL, 400 for a malformed body.
    """
    started = perf_counter_ns()
    try:
        inputs, common = _request(body)
    except BadRequest as error:
        return bad_request(str(error))
    refused = bad_path(path)
    if refused is not None:
        return refused
    batch_id = new_decision_id() if pdp.logs_decisions else ""
    answers = _answers(pdp, path, parameters, inputs or {}, common, context, batch_id, body.size)
    failures = sum("code" in fields for fields in answers.values())
    status = 200 if not failures else 500 if failures == len(answers) else 207
    if status == 207:
        # A string, and only where the two differ: clients of EOPA check that.
        for fields in answers.values():
            fields["http_status_code"] = '"500"' if "code" in fields else '"200"'
    fields = {"batch_decision_id": marshal(batch_id)} if batch_id else {}
    if parameters.flag("metrics") or parameters.flag("instrument"):
        fields["metrics"] = marshal({"timer_server_handler_ns": perf_counter_ns() - started})
    if answers:
        # Go writes a map in the order of its keys.
        texts = {key: object_text(answers[key]) for key in sorted(answers)}
        fields["responses"] = object_text(texts)
    if inputs is None:
        fields["warning"] = object_text({**NO_INPUT, "message": _NO_INPUTS})
    return json_answer(object_text(fields), status, pretty=parameters.flag("pretty"))


_NO_INPUTS: Final = marshal("'inputs' key missing from the request")


def _request(body: Body) -> tuple[dict[Key, Value] | None, Value]:
    """Return the inputs of a batch by key (None if missing or null) and the common input.

    Raise BadRequest if the body is malformed.
    """
    fields = body.fields("types.BatchDataRequestV1")
    if fields is None:
        return None, None
    inputs = fields.get("inputs")
    if inputs is not None and not isinstance(inputs, dict):
        raise BadRequest(
            f"body contains malformed input document: json: cannot unmarshal {go_kind(inputs)} "
            "into Go struct field BatchDataRequestV1.inputs of type map[string]any"
        )
    return inputs, fields.get("common_input")


def _answers(
    pdp: PDP,
    path: tuple[str, ...],
    parameters: Parameters,
    inputs: dict[Key, Value],
    common: Value,
    context: RequestContext | None,
    batch_id: str,
    size: int,
) -> dict[str, dict[str, str]]:
    """Return the answer to each input by key, as JSON members; one that failed has `code`.

    Inputs past the time limit of the batch, `DEADLINES` times that of one decision, or after the
    request was cancelled, are not decided and fail.
    """
    snapshot = pdp.snapshot
    until = None if snapshot.deadline is None else monotonic() + DEADLINES * snapshot.deadline
    answers: dict[str, dict[str, str]] = {}
    # Each item has the common input in a copy of its own, which may wait for the decision log.
    shared = estimate_memory(marshal(common).encode(errors="replace")) if inputs else 0
    for key, input_of_key in inputs.items():
        if is_stopped() or (until is not None and monotonic() > until):
            answers[str(key)] = _failure(DecisionError(_LATE))
            continue
        call = Call(pdp, path, context)
        # `Call` has taken the newest snapshot; all items of a batch must see one.
        call.snapshot, call.batch_decision_id = snapshot, batch_id
        input = _merge(common, input_of_key)
        call.size = size // len(inputs) + shared
        call.parsed()
        fields = reply(call, input, parameters)
        if isinstance(fields, Exception):
            fields = _failure(fields)
            if call.decision_id:
                fields["decision_id"] = marshal(call.decision_id)
        answers[str(key)] = fields
    return answers


def _failure(error: Exception) -> dict[str, str]:
    """Return the JSON members of an input that failed; the message has the error, as in EOPA."""
    return {"code": marshal("internal_error"), "message": marshal(str(error))}


_LATE: Final = "the batch took longer than its time limit: this input was not decided"


def _merge(common: Value, other: Value) -> Value:
    """Return two inputs merged: objects at any depth, and otherwise the value of `other`."""
    if not (isinstance(common, dict) and isinstance(other, dict)):
        return other
    both = {key: _merge(common[key], value) for key, value in other.items() if key in common}
    return {**common, **other, **both}
