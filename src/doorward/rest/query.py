"""The Query API: a query of the client's own, answered with what its variables may be."""

from __future__ import annotations

from starlette.responses import Response

from doorward.pdp.decision import RequestContext
from doorward.pdp.pdp import PDP
from doorward.pdp.sizes import estimate_memory
from doorward.rego import UNDEFINED, CompileError, EvalError, Undefined, Value
from doorward.rego.golang import object_text
from doorward.rego.shared import PARSE_ERROR, Timers
from doorward.rest.answers import (
    bad_request,
    encoded,
    failed,
    internal_error,
    json_answer,
    metrics_text,
    not_compiled,
)
from doorward.rest.explanation import explained, mode_of
from doorward.rest.requests import BadRequest, Parameters, any_document, fold_fields, go_kind

__all__ = ["get_query", "post_query"]


def get_query(pdp: PDP, parameters: Parameters, context: RequestContext | None = None) -> Response:
    """Return the solutions of the query in the parameter `q`, the last one (GET /v1/query).

    400 without it or if it does not compile, 500 if it is empty or its evaluation fails.
    """
    queries = parameters.values("q")
    if not queries:
        return bad_request("missing parameter 'q'")
    return _answer(pdp, queries[-1], UNDEFINED, parameters, context)


def post_query(
    pdp: PDP, parameters: Parameters, body: bytes, context: RequestContext | None = None
) -> Response:
    """Return the solutions of the query in the JSON body `{"query": …, "input": …}` (POST
    /v1/query).

    400 if the body is malformed or the query does not compile, 500 if the query is missing or
    empty, or its evaluation fails.
    """
    try:
        query, input = _request(any_document(body), body)
    except BadRequest as error:
        return bad_request(f"error(s) occurred while decoding request: {error}")
    return _answer(pdp, query, input, parameters, context, size=estimate_memory(body))


def _request(document: Value, text: bytes) -> tuple[str, Value | Undefined]:
    """Return query ("" if missing) and input (UNDEFINED if missing or null); raise BadRequest if
    the body is malformed.
    """
    if document is None:
        document = {}
    if not isinstance(document, dict):
        raise BadRequest(
            f"json: cannot unmarshal {go_kind(document)} into Go value of type types.QueryRequestV1"
        )
    fields = fold_fields(document, text)
    query = fields.get("query")
    if query is None:
        query = ""
    if not isinstance(query, str):
        raise BadRequest(
            f"json: cannot unmarshal {go_kind(query)} into Go struct field "
            "QueryRequestV1.query of type string"
        )
    input = fields.get("input")
    return query, UNDEFINED if input is None else input


def _answer(
    pdp: PDP,
    query: str,
    input: Value | Undefined,
    parameters: Parameters,
    context: RequestContext | None,
    *,
    size: int = 0,
) -> Response:
    """Evaluate a query, log the decision, and return its solutions or an error response; a query
    that is empty or cannot be parsed is not logged. `size` is the memory of the input in bytes.
    `context` None logs no headers.
    """
    if not query.strip():
        return internal_error("cannot evaluate empty query")
    timers = Timers(("rego_query_compile",))
    with timers.measure("server_handler"):
        decision, result = encoded(pdp.solve(query, input), pdp.snapshot.deadline)
    timers.add("rego_query_eval", decision.eval_ns)
    if context is not None:
        context = context._replace(timers=timers.document())
    error = decision.error
    if isinstance(error, CompileError):
        code = error.diagnostics[0].code
        if not code:  # a statement, and no query
            return internal_error(error.diagnostics[0].message)
        if code == PARSE_ERROR:
            return not_compiled(error, "parsing query")
    # Without solutions OPA logs null.
    logged = decision._replace(result=None) if error is None and not result else decision
    pdp.record(logged, input, request_context=context, size=size + len(result))
    if isinstance(error, CompileError):
        return not_compiled(error, "compiling query")
    if error is not None:
        return failed(error)
    fields: dict[str, str] = {}
    mode = mode_of(parameters)
    if mode is not None:
        pretty = parameters.flag("pretty")
        try:
            fields["explanation"] = explained(pdp.snapshot, query, input, mode, pretty=pretty)
        except EvalError as late:
            return failed(late)
    if parameters.flag("metrics") or parameters.flag("instrument"):
        fields["metrics"] = metrics_text(timers)
    if result:
        fields["result"] = result
    return json_answer(object_text(fields), pretty=parameters.flag("pretty"))
