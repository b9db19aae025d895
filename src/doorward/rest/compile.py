"""POST /v1/compile: what is left of a client's query when a part of the documents is not known."""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response

from doorward.base.records import record
from doorward.pdp.pdp import PDP
from doorward.pdp.residuals import residual
from doorward.rego import UNDEFINED, CompileError, RegoError, Undefined, Value
from doorward.rego.golang import object_text, ordered_text
from doorward.rego.shared import PARSE_ERROR, Timers
from doorward.rego.tools import parse_path
from doorward.rest import instruments
from doorward.rest.answers import (
    bad_request,
    failed,
    internal_error,
    json_answer,
    metrics_text,
    not_compiled,
)
from doorward.rest.explanation import mode_of
from doorward.rest.requests import BadRequest, Parameters, any_document, fold_fields, go_kind

__all__ = ["decoded", "post_compile", "texts"]

_TYPE: Final = "CompileRequestV1"


@record
class _Request:
    """The fields of a request for residual queries (POST /v1/compile)."""

    query: str
    input: Value | Undefined
    unknowns: tuple[str, ...]
    disable_inlining: tuple[str, ...]
    nondeterministic: bool


def post_compile(pdp: PDP, parameters: Parameters, body: bytes) -> Response:
    """Return the residual queries of a query (POST /v1/compile), with `unknowns` not known. 400 for
    a malformed request or query, 500 if the evaluation fails. It is not logged as a decision.
    """
    snapshot = pdp.snapshot
    timers = Timers(("rego_partial_eval", "rego_query_compile", "rego_query_parse"))
    with timers.measure("server_handler"):
        try:
            request = _request(any_document(body), body)
        except BadRequest as error:
            return bad_request(f"error(s) occurred while decoding request: {error}")
        if not request.query.strip():
            return bad_request("missing required 'query' value")
        try:
            for path in request.unknowns:
                parse_path(path)
        except ValueError as error:
            return bad_request(f"error(s) occurred while parsing unknowns: {error}")
        try:
            with timers.measure("rego_partial_eval"):
                left = residual(
                    snapshot,
                    pdp.build_gate,
                    request.query,
                    request.unknowns,
                    request.input,
                    disable_inlining=request.disable_inlining,
                    nondeterministic=request.nondeterministic,
                )
        except CompileError as error:
            if not error.diagnostics[0].code:  # a statement, and no query
                message = error.diagnostics[0].message
                return bad_request(f"error(s) occurred while parsing query: {message}")
            is_parsed = error.diagnostics[0].code != PARSE_ERROR
            return not_compiled(error, "compiling module(s)" if is_parsed else "parsing query")
        except RegoError as error:
            return failed(error)
        except ValueError as error:
            return internal_error(f"failed to parse ref: {error}")
        result = ordered_text({name: part for name, part in left.ast.items() if part})
    fields = {"result": result}
    if mode_of(parameters) is not None:
        # The search for what is left notes nothing.
        fields["explanation"] = "[]"
    if parameters.flag("metrics") or parameters.flag("instrument"):
        more = instruments.for_compile(left.consulted) if parameters.flag("instrument") else {}
        if "base" in left.consulted:
            # Data is in memory: OPA times here how long its store takes.
            more["timer_rego_external_resolve_ns"] = 0
        fields["metrics"] = metrics_text(timers, more)
    return json_answer(object_text(fields), pretty=parameters.flag("pretty"))


def _request(document: Value, text: bytes) -> _Request:
    """Return the fields of a compile request with their defaults; `document` is the value of the
    JSON `text`. Raise BadRequest in the words of OPA's decoder.
    """
    fields = decoded(document, f"types.{_TYPE}", text)
    options = decoded(fields.get("options"), f"struct field {_TYPE}.options of type object")
    nondeterministic = options.get("nondeterministicbuiltins", False)
    if not isinstance(nondeterministic, bool):
        raise _wrong(nondeterministic, f"{_TYPE}.options.nondeterministicBuiltins", "bool")
    query = fields.get("query", "")
    if not isinstance(query, str):
        raise _wrong(query, f"{_TYPE}.query", "string")
    unknowns = texts(fields.get("unknowns"), f"{_TYPE}.unknowns")
    inlining = texts(options.get("disableinlining"), f"{_TYPE}.options.disableInlining")
    return _Request(
        query,
        fields.get("input", UNDEFINED),
        ("input",) if unknowns is None else unknowns,
        inlining or (),
        nondeterministic,
    )


def decoded(document: Value, go_type: str, text: bytes = b"") -> dict[str, Any]:
    """Return the members of an object by their names in lower case, without those that are null; {}
    for null. `text` is the JSON of the object, which has the order of its names.

    Raise BadRequest for any other value: Go's decoder cannot put it into a `go_type`.
    """
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise BadRequest(
            f"json: cannot unmarshal {go_kind(document)} into Go value of type {go_type}"
        )
    fields = fold_fields(document, text)
    return {name: value for name, value in fields.items() if value is not None}


def texts(value: Value, name: str) -> tuple[str, ...] | None:
    """Return a list of strings as a tuple; None if it is null or missing. BadRequest, in Go's words
    with the field's `name`, for another type.
    """
    if value is None:
        return None
    if not isinstance(value, list):
        raise _wrong(value, name, "[]string")
    for number, item in enumerate(value):
        if not isinstance(item, str):
            raise BadRequest(
                f"json: cannot unmarshal {go_kind(item)} into {name}.{number} of type string"
            )
    return tuple(value)  # type: ignore[arg-type]  # strings, all of them


def _wrong(value: Value, name: str, wanted: str) -> BadRequest:
    """Return the error of Go for a value of another kind than the field `name` has; `wanted` is
    Go's type.
    """
    kind = go_kind(value)
    return BadRequest(f"json: cannot unmarshal {kind} into Go struct field {name} of type {wanted}")
