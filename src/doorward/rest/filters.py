"""POST /v1/compile/PATH: a policy as a filter of rows, in the media types of OPA.

What is not known are the rows. An expression that a target cannot say is an error, and so is a mask
rule that does not exist: the answer would show more than the policy lets through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import Any, Final

from starlette.responses import Response

from doorward.base.records import record
from doorward.filters import (
    Conditions,
    FilterError,
    FilterMetadata,
    Target,
    names_for,
    read_annotations,
    short_names,
    target_of,
    to_conditions,
    to_sql_text,
    to_ucast,
)
from doorward.filters.dialects import DIALECTS
from doorward.pdp.decision import Decision, RequestContext, new_decision_id
from doorward.pdp.pdp import PDP
from doorward.pdp.residuals import residual
from doorward.pdp.sizes import estimate_memory
from doorward.pdp.snapshot import Snapshot, document_ref
from doorward.rego import UNDEFINED, CompileError, EvalError, Partial, RegoError, Undefined, Value
from doorward.rego.golang import object_text, ordered_text
from doorward.rego.shared import Timers, within
from doorward.rego.tools import parse_path, path_names, path_text
from doorward.rest.answers import (
    bad_request,
    failed,
    forbidden,
    internal_error,
    json_answer,
    metrics_text,
    not_compiled,
)
from doorward.rest.compile import decoded, texts
from doorward.rest.filter_hints import hints
from doorward.rest.requests import BadRequest, Parameters, any_document, go_kind

__all__ = ["post_filter"]

_TYPE: Final = "CompileFiltersRequestV1"
_MULTI: Final = "application/vnd.opa.multitarget+json"
_TARGETS: Final = {
    f"application/vnd.opa.{kind}.{variant}+json": (kind, variant)
    for kind, variants in {
        "ucast": ("all", "minimal", "prisma", "linq"),
        "sql": tuple(DIALECTS),
    }.items()
    for variant in variants
}
_OPTIONS: Final = (
    "disableInlining", "nondeterministicBuiltins", "maskRule", "targetDialects",
    "targetSQLTableMappings",
)  # fmt: skip
_ORDER: Final = ("ucast", *DIALECTS)
"""The order of several filters in one answer."""
_TIMERS: Final = (
    "compile_eval_constraints",
    "compile_prep_partial",
    "compile_translate_queries",
    "rego_partial_eval",
    "rego_query_compile",
    "rego_query_parse",
)
_EVALUATION: Final = "evaluating query"


class _Refused(Exception):
    """A request that gets `response` instead of a filter."""

    def __init__(self, response: Response) -> None:
        self.response = response


@record
class _Request:
    """The fields of a request for a filter of rows (POST /v1/compile/PATH)."""

    input: Value | Undefined
    unknowns: tuple[str, ...] | None
    disable_inlining: tuple[str, ...]
    mappings: Mapping[str, Any] | None
    dialects: tuple[str, ...]
    mask_rule: str
    options: Mapping[str, Any]
    """The options for the decision log: those that OPA knows and that are not empty."""


def post_filter(
    pdp: PDP,
    path: tuple[str, ...],
    parameters: Parameters,
    body: bytes,
    accept: str,
    context: RequestContext | None = None,
    *,
    serves: Callable[[tuple[str, ...]], bool] = lambda _path: True,
) -> Response:
    """Return a policy as a filter of rows (POST /v1/compile/PATH), in the media type of `accept`.
    If no row is permitted, the response has no `result`, or for several targets an empty one.
    `serves` decides whether clients may read the document at a path: a mask rule that the request
    names is one that they read.

    Logs the filter as a decision; an error response is not logged. `context` None logs no headers.
    """
    started = perf_counter_ns()
    timers = Timers(_TIMERS)
    snapshot = pdp.snapshot
    # Here `a%2Fb` is two names, as the system policy sees it (`path_of`). The access rule has
    # compared whole segments, so this only leads deeper into what is served.
    names = [name for segment in path for name in segment.split("/") if name]
    try:
        request = _request(body)
        metadata = _read_metadata(snapshot, names, request, serves)
        # METADATA is read once for both, where the request does not say them.
        if not request.unknowns:
            timers.add("compile_extract_annotations_unknowns", perf_counter_ns() - started)
        if not request.mask_rule:
            timers.add("compile_extract_annotations_mask", 0)
        chosen = _targets(accept, request.dialects)
        with timers.measure("rego_partial_eval"), within(snapshot.deadline):
            masks = _masks(snapshot, metadata, request.input, timers)
            left = _evaluate_residual(pdp, snapshot, names, request, metadata)
            conditions = _conditions(left, request, chosen)
        with timers.measure("compile_translate_queries"):
            result = _result(conditions, chosen, request, masks, many=accept == _MULTI)
    except _Refused as refused:
        return refused.response
    timers.add("server_handler", perf_counter_ns() - started)
    fields = {} if result is None else {"result": ordered_text(result)}
    if meant := hints(left, metadata.unknowns):
        fields["hints"] = ordered_text(meant)
    logged: Any = UNDEFINED if result is None else result
    decision = Decision(
        new_decision_id(),
        "/".join(names),
        logged,
        revision=snapshot.revision,
        eval_ns=perf_counter_ns() - started,
        custom={
            "mask_rule": metadata.mask_rule,
            "options": request.options,
            "type": "open-policy-agent/compile",
            "unknowns": list(metadata.unknowns),
        },
    )
    if context is not None:
        context = context._replace(timers=timers.document())
    pdp.record(decision, request.input, request_context=context, size=estimate_memory(body))
    if parameters.flag("metrics") or parameters.flag("instrument"):
        fields["metrics"] = metrics_text(timers)
    answer = json_answer(object_text(fields), pretty=parameters.flag("pretty"))
    answer.headers["content-type"] = accept
    return answer


# The request


def _request(body: bytes) -> _Request:
    """Return the request in a body; raise _Refused (400) if it is malformed."""
    try:
        return _decode(any_document(body) if body.strip() else None, body)
    except BadRequest as error:
        message = f"error(s) occurred while decoding request: {error}"
        raise _Refused(bad_request(message)) from None


def _decode(document: Value, text: bytes) -> _Request:
    """Return the fields of a filter request with their defaults; `document` is the value of the
    JSON `text`, or None without one. Raise BadRequest in the words of OPA's decoder.
    """
    fields = decoded(document, f"server.{_TYPE}", text)
    options = fields.get("options", {})
    if not isinstance(options, dict):
        raise _wrong(options, "options", "struct")
    options = {str(k).lower(): v for k, v in options.items() if v is not None}
    mappings = options.get("targetsqltablemappings")
    if mappings is not None and not isinstance(mappings, dict):
        raise _wrong(mappings, "options.targetSQLTableMappings", "map[string]interface {}")
    mask = options.get("maskrule", "")
    if not isinstance(mask, str):
        raise _wrong(mask, "options.maskRule", "string")
    return _Request(
        fields.get("input", UNDEFINED),
        texts(fields.get("unknowns"), f"{_TYPE}.unknowns"),
        texts(options.get("disableinlining"), f"{_TYPE}.options.disableInlining") or (),
        mappings,
        texts(options.get("targetdialects"), f"{_TYPE}.options.targetDialects") or (),
        mask,
        {name: options[name.lower()] for name in _OPTIONS if options.get(name.lower())},
    )


def _wrong(value: Value, name: str, wanted: str) -> BadRequest:
    """Return the error for a member of the wrong type, in Go's words."""
    return BadRequest(
        f"json: cannot unmarshal {go_kind(value)} into Go struct field {_TYPE}.{name} "
        f"of type {wanted}"
    )


def _read_metadata(
    snapshot: Snapshot,
    names: Sequence[str],
    request: _Request,
    serves: Callable[[tuple[str, ...]], bool],
) -> FilterMetadata:
    """Return the unknown documents and the mask rule of a filter. Each that the request does not
    name is taken from the METADATA of the rule at `names`.

    Raise _Refused if a path is malformed, the METADATA is invalid, or the request names a mask rule
    that is not served.
    """
    quoted = next((name for name in names if '"' in name), None)
    if quoted is not None:
        raise _Refused(bad_request(f"invalid path: invalid ref term '{quoted}'"))
    try:
        for path in request.unknowns or ():
            parse_path(path)
    except ValueError as error:
        message = f"error(s) occurred while parsing unknowns: failed to parse ref: {error}"
        raise _Refused(bad_request(message)) from None
    mask = _mask_rule(request.mask_rule, names)
    # One that METADATA names is the choice of the policy's author, and not checked.
    if mask and not serves(tuple(map(str, _mask_path(mask)))):
        raise _Refused(forbidden())
    # Reading METADATA parses all policies again.
    if request.unknowns and mask:
        return FilterMetadata(request.unknowns, mask)
    try:
        annotated = read_annotations(snapshot.engine, names)
    except FilterError as error:
        raise _Refused(not_compiled(error, _EVALUATION, "evaluation_error")) from None
    return FilterMetadata(request.unknowns or annotated.unknowns, mask or annotated.mask_rule)


def _mask_rule(name: str, names: Sequence[str]) -> str:
    """Return the full reference of the mask rule `name`: a name that does not begin with `data.` is
    a rule in the package of the filter, whose path is `names`. "" if `name` is "".

    Raise _Refused (400) if the result is not a path.
    """
    if not name:
        return ""
    reference = name if name.startswith("data.") else f"{path_text(tuple(names[:-1]))}.{name}"
    try:
        parse_path(reference)
    except ValueError:
        message = f"error(s) occurred while parsing mask_rule name: {name} is not a path"
        raise _Refused(bad_request(message)) from None
    return reference


def _mask_path(reference: str) -> tuple[str | int, ...]:
    """Return the names below `data` of a mask rule; raise _Refused (400) for any other path."""
    try:
        root, names = path_names(reference)
    except ValueError:
        message = f"the mask rule `{reference}` is not a path, such as data.filters.mask"
        raise _Refused(bad_request(message)) from None
    if root != "data":
        raise _Refused(bad_request(f"the mask rule `{reference}` does not exist"))
    return names


def _targets(accept: str, dialects: Sequence[str]) -> list[Target]:
    """Return the formats of the filter that the header `Accept` names: one database or UCAST, or
    for `application/vnd.opa.multitarget+json` those in `dialects` (`targetDialects`).

    Raise _Refused if the header is missing, has a comma, or names an unknown format, or if
    `dialects` has an unknown one.
    """
    if not accept:
        raise _Refused(bad_request("Accept header: missing required header"))
    if "," in accept:
        raise _Refused(bad_request("Accept header: multiple headers not supported"))
    try:
        if accept == _MULTI:
            pairs = [dialect.partition("+") for dialect in dialects]
            return [target_of(kind, variant) for kind, _, variant in pairs]
        if accept == "application/json":
            return [target_of("", "")]
        if accept not in _TARGETS:
            raise _Refused(bad_request(f"Accept header: unsupported header: {accept}"))
        return [target_of(*_TARGETS[accept])]
    except ValueError as error:
        raise _Refused(internal_error(str(error))) from None


# The filter


def _masks(
    snapshot: Snapshot, metadata: FilterMetadata, input: Value | Undefined, timers: Timers
) -> Value | None:
    """Return the column masks of the mask rule, and time it; None if there is no rule or no mask.
    Raise _Refused if the rule does not exist, fails or is not an object.
    """
    if not metadata.mask_rule:
        return None
    timers.add("rego_external_resolve", 0)
    with timers.measure("compile_eval_mask_rule"):
        return _evaluate_masks(snapshot, metadata, input)


def _evaluate_masks(
    snapshot: Snapshot, metadata: FilterMetadata, input: Value | Undefined
) -> Value | None:
    """Return the value of the mask rule; None if it is undefined, null or empty.

    Raise _Refused if the rule does not exist, fails or is not an object.
    """
    engine = snapshot.engine
    try:
        if not engine.has_rules(_mask_path(metadata.mask_rule)):
            raise _Refused(bad_request(f"the mask rule `{metadata.mask_rule}` does not exist"))
        # Strict: an error that became undefined would be no mask, and show the columns.
        query = engine.prepare(
            metadata.mask_rule, strict_builtin_errors=True, deadline=snapshot.deadline
        )
        masks: Any = query.value(input)
    except CompileError as error:
        raise _Refused(internal_error(f"prepare for mask eval: {error}")) from None
    except RegoError as error:
        raise _Refused(failed(error)) from None
    if masks is UNDEFINED or masks is None:
        return None
    if not isinstance(masks, dict):
        kind = "array" if isinstance(masks, frozenset) else go_kind(masks)
        message = (
            f"convert masks: json: cannot unmarshal {kind} into Go value of type "
            "map[string]interface {}"
        )
        raise _Refused(internal_error(message))
    return masks or None


def _evaluate_residual(
    pdp: PDP, snapshot: Snapshot, names: Sequence[str], request: _Request, metadata: FilterMetadata
) -> Partial:
    """Evaluate the filter rule at the path `names` partially, with `metadata.unknowns` not known,
    and return the residual; raise _Refused if that fails.
    """
    try:
        return residual(
            snapshot,
            pdp.build_gate,
            document_ref(tuple(names)),
            metadata.unknowns,
            request.input,
            disable_inlining=request.disable_inlining,
            nondeterministic=True,
            only_truth=True,
            keep_else=True,
        )
    except CompileError as error:
        raise _Refused(internal_error(f"prepare for partial: {error}")) from None
    except EvalError as error:
        raise _Refused(failed(error)) from None
    except ValueError as error:
        message = f"partial eval: failed to parse ref: {error}"
        raise _Refused(internal_error(message)) from None


def _conditions(left: Partial, request: _Request, targets: Sequence[Target]) -> Conditions:
    """Return the residual (`left`) as conditions on columns; raise _Refused if a target cannot
    express it.
    """
    try:
        return to_conditions(left, targets, shorts=short_names(request.mappings))
    except FilterError as error:
        raise _Refused(not_compiled(error, _EVALUATION, "evaluation_error")) from None


def _result(
    conditions: Conditions,
    targets: Sequence[Target],
    request: _Request,
    masks: Value | None,
    *,
    many: bool,
) -> dict[str, Any] | None:
    """Return the query and masks of each target by name (`many`), or of the only target.

    None for a single target if no row is permitted.
    """
    compiled: dict[str, dict[str, Any]] = {}
    for target in targets if conditions else ():
        query = _query(conditions, target, request.mappings)
        entry: dict[str, Any] = {"query": query}
        if masks is not None:
            entry["masks"] = masks
        compiled.setdefault("ucast" if target.kind == "ucast" else target.variant, entry)
    if many:
        return {name: compiled[name] for name in _ORDER if name in compiled}
    return next(iter(compiled.values()), None)


def _query(conditions: Conditions, target: Target, mappings: Mapping[str, Any] | None) -> Any:
    """Return the conditions as SQL text or as UCAST. Raise `_Refused` if the mappings do not fit,
    or SQL cannot express the conditions.
    """
    try:
        names = names_for(mappings, target)
        if target.kind == "ucast":
            return to_ucast(conditions, names)
    except ValueError as error:
        raise _Refused(internal_error(f"mappings: {error}")) from None
    try:
        return to_sql_text(conditions, names, target.variant)
    except ValueError as error:
        raise _Refused(internal_error(f"convert to queries: {error}")) from None
