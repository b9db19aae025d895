"""OpenID's AuthZEN Authorization API 1.0: subject, action, resource and context to a decision.

The policy decides with a boolean, or with `{"decision": …, "context": {…}}`; undefined is a denial.
Errors are JSON strings, as the standard has it, with the status that it names. All items of a batch
see one snapshot, and what is wrong with one item is that item's denial.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import Final

from starlette.responses import Response

from doorward.base.cancellation import is_stopped
from doorward.config.configuration import Authzen
from doorward.pdp.decision import Decision, DecisionError, RequestContext, new_decision_id
from doorward.pdp.pdp import PDP
from doorward.rego import Undefined, Value
from doorward.rego.golang import marshal, object_text
from doorward.rego.shared import Key
from doorward.rest.answers import encoded, json_answer
from doorward.rest.body import Body
from doorward.rest.requests import BadRequest

__all__ = [
    "DEADLINES",
    "EVALUATION",
    "EVALUATIONS",
    "FAILED",
    "PERMITTED",
    "SEARCH",
    "InvalidError",
    "error",
    "get_metadata",
    "input_of",
    "post_evaluation",
    "put",
    "request_of",
    "to_answer",
]

EVALUATION: Final = "/access/v1/evaluation"
EVALUATIONS: Final = "/access/v1/evaluations"
SEARCH: Final = "/access/v1/search/"
DEADLINES: Final = 12
"""The time limit of a batch, in deadlines of one decision."""
FAILED: Final = "the evaluation of the policy failed"
"""The answer to a client whose decision, or whose search, failed."""

_ENTITIES: Final[Mapping[str, tuple[str, ...]]] = {
    "subject": ("type", "id"),
    "action": ("name",),
    "resource": ("type", "id"),
}
_SEMANTICS: Final[Mapping[str, bool | None]] = {
    "execute_all": None,
    "deny_on_first_deny": False,
    "permit_on_first_permit": True,
}
"""The decision that ends a batch early, by the name of its semantics; None if none does."""


class InvalidError(Exception):
    """An AuthZEN request is malformed; the message is for the client."""


def error(status: int, message: str) -> Response:
    """Return an error response as AuthZEN defines it: a JSON string."""
    return json_answer(marshal(message), status)


def get_metadata(options: Authzen, path: tuple[str, ...]) -> Response:
    """Return the endpoint URLs of this decision point (GET /.well-known/authzen-configuration).

    404 if `policy_decision_point` is not configured, or `path` is not that of its URL.
    """
    # From the configuration: a client chooses `Host`, and could make others ask another server. The
    # standard puts the well-known path between host and path of this URL.
    base = options.policy_decision_point
    if not base or path != options.base_path:
        return error(
            404, "no metadata is configured for this path: set `authzen.policy_decision_point`"
        )
    metadata: dict[Key, Value] = {
        "policy_decision_point": base,
        "access_evaluation_endpoint": base.rstrip("/") + EVALUATION,
        "access_evaluations_endpoint": base.rstrip("/") + EVALUATIONS,
    }
    for kind in options.search:
        metadata[f"search_{kind}_endpoint"] = base.rstrip("/") + SEARCH + kind
    return json_answer(marshal(metadata))


def post_evaluation(
    pdp: PDP,
    options: Authzen,
    body: Body,
    context: RequestContext | None = None,
    *,
    many: bool = False,
) -> Response:
    """Return the decision on an evaluation, or with `many` on each of a batch. A batch without
    `evaluations` is a single evaluation.

    400 if the request is malformed; 500 if a single evaluation fails. In a batch, an item that is
    malformed or fails is a denial.
    """
    try:
        request = request_of(body)
        asker = _Asker(pdp, options, context, body.size)
        evaluations = _list_of(request) if many else []
        if evaluations:
            return asker.answer_all(evaluations, request, _ending(request))
        return asker.answer_one(request)
    except InvalidError as refusal:
        return error(400, str(refusal))


def request_of(body: Body) -> dict[Key, Value]:
    """Return the JSON object in a body; raise InvalidError if the content type is not
    `application/json`, or the body is malformed or another value.
    """
    # 400 and not 415: AuthZEN's certification expects it.
    if body.content_type.partition(";")[0].strip().lower() != "application/json":
        raise InvalidError("Content-Type must be application/json")
    try:
        request = body.document()
    except BadRequest as refusal:
        raise InvalidError(str(refusal)) from None
    if not isinstance(request, dict):
        raise InvalidError("the body must be a JSON object")
    return request


class _Asker:
    """The evaluations of one request, which all see one snapshot."""

    def __init__(
        self, pdp: PDP, options: Authzen, context: RequestContext | None, size: int
    ) -> None:
        """Prepare to decide the evaluations of one request by the newest snapshot; `size` is the
        memory of the request's body in bytes, for the decision log.
        """
        self._pdp = pdp
        self._options = options
        self._snapshot = pdp.snapshot
        self._context = context
        self._size = size
        self._batch_id = ""

    def answer_one(self, request: dict[Key, Value]) -> Response:
        """Decide one evaluation and return the response, 500 if the policy failed.

        Raise InvalidError if the request is malformed.
        """
        decision, text = self._decide(input_of(request, self._options.mapping))
        if decision.error is not None:
            return error(500, FAILED)
        return json_answer(text)

    def answer_all(
        self, evaluations: list[Value], defaults: dict[Key, Value], ending: bool | None
    ) -> Response:
        """Decide the evaluations of a batch in order, log each decision with the id of the batch,
        and return the response. To be called once.

        `defaults` has members that an item may lack. The batch ends with the first decision that
        equals `ending` (None: never). Items past the time limit, `DEADLINES` times that of one
        decision, are denied without a decision.
        """
        self._batch_id = new_decision_id()
        # The body's memory is shared by its items; each event would count it in full.
        self._size //= len(evaluations)
        seconds = self._snapshot.deadline
        until = None if seconds is None else monotonic() + DEADLINES * seconds
        texts: list[str] = []
        for item in evaluations:
            if is_stopped() or (until is not None and monotonic() > until):
                permitted, text = False, _refuse(503, "the batch took longer than its time limit")
            else:
                permitted, text = self._answer_item(item, defaults)
            texts.append(text)
            # `is`: with `ending` None no boolean ends the batch.
            if permitted is ending:
                break
        return json_answer(object_text({"evaluations": "[" + ",".join(texts) + "]"}))

    def _answer_item(self, item: Value, defaults: dict[Key, Value]) -> tuple[bool, str]:
        """Decide one evaluation of a batch; return True if it is permitted, and its JSON.

        A malformed or failed one is a denial with the error as its context.
        """
        if not isinstance(item, dict):
            return False, _refuse(400, "an evaluation must be an object")
        try:
            # AuthZEN replaces a default as a whole: `properties` of the two are not merged. An item
            # may lack what its default has, so only the sum of both is checked.
            input = input_of({**defaults, **item}, self._options.mapping)
        except InvalidError as refusal:
            return False, _refuse(400, str(refusal))
        decision, text = self._decide(input)
        if decision.error is not None:
            return False, _refuse(500, FAILED)
        # INVARIANT: `to_answer` writes `decision` first, and `object_text` keeps the order.
        return text.startswith(PERMITTED), text

    def _decide(self, input: Value) -> tuple[Decision, str]:
        """Decide on one input, log the decision, and return it with its answer as JSON. A result
        from which AuthZEN's answer cannot be made gives the decision an error; with an error the
        text is not to be used.
        """
        decision = self._pdp.decide(
            # INVARIANT: one snapshot for all items: a reload between two of them must
            # not mix policies.
            tuple(self._options.decision.split("/")),
            input,
            is_parsed=True,
            snapshot=self._snapshot,
        )._replace(batch_decision_id=self._batch_id)
        decision, text = to_answer(decision, self._snapshot.deadline)
        size = self._size + len(text)
        self._pdp.record(decision, input, request_context=self._context, size=size)
        return decision, text


def to_answer(decision: Decision, deadline: float | None) -> tuple[Decision, str]:
    """Return a decision and its JSON answer; an undefined result or an error is false.

    If the result is neither a boolean nor an object with a boolean `decision`, or its `context` is
    not an object or cannot be encoded in `deadline` seconds, the returned decision has an error,
    and the answer is not to be used.
    """
    result = decision.result
    if decision.error is not None or isinstance(result, (bool, Undefined)):
        return decision, object_text({"decision": marshal(result is True)})
    if not isinstance(result, dict) or not isinstance(result.get("decision"), bool):
        message = "the policy must decide with a boolean, or an object with a boolean `decision`"
        return decision._replace(error=DecisionError(message)), ""
    fields = {"decision": marshal(result["decision"])}
    explained = result.get("context")
    if explained is None:
        return decision, object_text(fields)
    if not isinstance(explained, dict):
        message = "the policy must give `context` as an object"
        return decision._replace(error=DecisionError(message)), ""
    encoded_answer, fields["context"] = encoded(decision._replace(result=explained), deadline)
    return decision._replace(error=encoded_answer.error), object_text(fields)


PERMITTED: Final = object_text({"decision": marshal(True)})[:-1]


def _refuse(status: int, message: str) -> str:
    """Return the JSON of a denied evaluation, with the error as its context."""
    why: dict[Key, Value] = {"error": {"status": status, "message": message}}
    return object_text({"decision": "false", "context": marshal(why)})


def _list_of(request: dict[Key, Value]) -> list[Value]:
    """Return the evaluations of a batch, [] if there are none; raise InvalidError if malformed."""
    evaluations = request.get("evaluations")
    if evaluations is not None and not isinstance(evaluations, list):
        raise InvalidError("`evaluations` must be an array")
    # An empty object may stand here beside items that have their own: members are checked after
    # merging.
    for name in (*_ENTITIES, "context"):
        if not isinstance(request.get(name, {}), dict):
            raise InvalidError(f"`{name}` must be an object")
    return evaluations or []


def _ending(request: dict[Key, Value]) -> bool | None:
    """Return the decision that ends a batch early; None if all items are evaluated.

    Raise InvalidError if the options are malformed.
    """
    options = request.get("options")
    if options is None:
        return None
    if not isinstance(options, dict):
        raise InvalidError("`options` must be an object")
    semantic = options.get("evaluations_semantic", "execute_all")
    if not isinstance(semantic, str) or semantic not in _SEMANTICS:
        known = ", ".join(_SEMANTICS)
        raise InvalidError(f"`options.evaluations_semantic` must be one of {known}")
    return _SEMANTICS[semantic]


def input_of(
    request: dict[Key, Value], mapping: Mapping[str, tuple[str, ...]], lacking: str = ""
) -> Value:
    """Return the policy's input for a request: subject, action, resource and context, each as a
    whole at the path that `mapping` has for it. Other members of the request are left out.

    In a search, `lacking` is the kind of entity to find. It is left out of the input, and of it the
    request needs only the type, of an action nothing. Raise InvalidError if the request is
    malformed.
    """
    input: dict[Key, Value] = {}
    for name, required in _ENTITIES.items():
        if name == lacking:
            if name == "action":
                continue
            # AuthZEN wants an `id` of the sought entity to be ignored.
            required = ("type",)
        entity = request.get(name)
        if entity is None:
            raise InvalidError(f"`{name}` is missing")
        if not isinstance(entity, dict):
            raise InvalidError(f"`{name}` must be an object")
        for field in required:
            value = entity.get(field)
            if not isinstance(value, str):
                problem = "is missing" if value is None else "must be a string"
                raise InvalidError(f"`{name}.{field}` {problem}")
        if not isinstance(entity.get("properties") or {}, dict):
            raise InvalidError(f"`{name}.properties` must be an object")
        if name != lacking:
            put(input, mapping[name], entity)
    context = request.get("context")
    if context is not None:
        if not isinstance(context, dict):
            raise InvalidError("`context` must be an object")
        put(input, mapping["context"], context)
    return input


def put(input: dict[Key, Value], path: tuple[str, ...], value: Value) -> None:
    """Set the value at a path of `input` in place, and create the objects on the way."""
    for name in path[:-1]:
        inner = input.setdefault(name, {})
        assert isinstance(inner, dict)  # the configuration refuses paths below one another
        input = inner
    input[path[-1]] = value
