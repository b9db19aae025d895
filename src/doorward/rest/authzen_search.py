"""AuthZEN's searches: which subjects, resources or actions the policy would permit.

Candidates come from a document that the configuration names; the policy decides each of them, so
that a result is what an evaluation permits. A page ends where its limit or the time of a search is
reached, and its token says where to continue, for the same request only.
"""

from __future__ import annotations

import base64
import hashlib
import json
from time import monotonic
from typing import Any, Final

from starlette.responses import Response

from doorward.base.cancellation import is_stopped
from doorward.config.configuration import Authzen
from doorward.pdp.decision import Decision, RequestContext, new_decision_id
from doorward.pdp.pdp import PDP
from doorward.rego import Undefined, Value, to_python
from doorward.rego.golang import marshal, object_text
from doorward.rego.shared import Key
from doorward.rest.answers import json_answer
from doorward.rest.authzen import (
    DEADLINES,
    FAILED,
    PERMITTED,
    InvalidError,
    error,
    input_of,
    put,
    request_of,
    to_answer,
)
from doorward.rest.body import Body

__all__ = ["MAX_LIMIT", "post_search"]

MAX_LIMIT: Final = 1_000
"""The largest number of results on one page."""
MAX_TOKEN: Final = 256


def post_search(
    pdp: PDP,
    options: Authzen,
    kind: str,
    body: Body,
    context: RequestContext | None = None,
) -> Response:
    """Return a page of the entities that the policy permits (POST /access/v1/search/KIND).

    404 if the search is not configured, 400 for a malformed request, 500 if the policy fails.
    """
    source = options.search.get(kind)
    if source is None:
        return error(404, f"searches for {kind}s are not configured: set `authzen.search.{kind}`")
    try:
        request = request_of(body)
        input = input_of(request, options.mapping, lacking=kind)
        start, limit = _page(request)
    except InvalidError as refusal:
        return error(400, str(refusal))
    search = _Search(pdp, options, kind, request, input)
    try:
        candidates = search.candidates(source)
    except _CandidatesError as failure:
        return error(500, str(failure))
    # INVARIANT: every result was decided: candidates of the document alone are never shown.
    results, position = search.page(candidates, start, limit)
    if position is None:
        return error(500, FAILED)
    token = _token(request, position) if position < len(candidates) else ""
    search.record(results, context, body.size)
    page = object_text({"next_token": marshal(token), "count": str(len(results))})
    texts = "[" + ",".join(map(marshal, results)) + "]"
    has_page = token or "page" in request
    # AuthZEN advises to put `page` first.
    fields = {"page": page, "results": texts} if has_page else {"results": texts}
    return json_answer(object_text(fields))


class _CandidatesError(Exception):
    """The document that lists the candidates cannot be used; the message is for the client."""


class _Search:
    """One AuthZEN search for permitted entities; all its decisions see one snapshot."""

    def __init__(
        self, pdp: PDP, options: Authzen, kind: str, request: dict[Key, Value], input: Value
    ) -> None:
        self._pdp = pdp
        self._options = options
        self._kind = kind
        self._input = input
        self._snapshot = pdp.snapshot
        entity: Any = request.get(kind)
        self._type = entity["type"] if kind != "action" else None

    def candidates(self, source: str) -> list[Value]:
        """Evaluate the document at the path `source`, and return the entities of the requested type
        in it; [] if it is undefined.

        Raise _CandidatesError if the evaluation fails, or the document is not a list of entities.
        """
        path = tuple(source.split("/"))
        decision = self._pdp.decide(path, self._input, is_parsed=True, snapshot=self._snapshot)
        document = decision.result
        if decision.error is not None:
            raise _CandidatesError(
                "the evaluation of the document that lists the candidates failed"
            )
        if isinstance(document, Undefined):
            return []
        listed: Any = to_python(document)
        entities = [self._entity(each) for each in listed] if isinstance(listed, list) else [None]
        if any(each is None for each in entities):
            fields = "`name`" if self._kind == "action" else "`type` and `id`"
            raise _CandidatesError(
                f"the document that lists the candidates is not a list of entities with {fields}"
            )
        # A search answers with the requested type only; the document may list others.
        return [e for e in entities if self._kind == "action" or e["type"] == self._type]  # type: ignore[index]

    def _entity(self, item: Any) -> dict[Key, Value] | None:
        """Return a candidate as an entity of AuthZEN; None if it is not one. A text is the name of
        an action if actions are searched.
        """
        if self._kind == "action":
            item = {"name": item} if isinstance(item, str) else item
            names = ("name",)
        else:
            names = ("type", "id")  # type: ignore[assignment]
        if not isinstance(item, dict):
            return None
        return item if all(isinstance(item.get(name), str) for name in names) else None

    def page(
        self, candidates: list[Value], start: int, limit: int
    ) -> tuple[list[Value], int | None]:
        """Decide on the candidates from position `start` on, and return those that are permitted,
        at most `limit`, and the position at which the next page begins; None in its place if a
        decision failed.

        The page also ends when the time of a search is over.
        """
        seconds = self._snapshot.deadline
        # Over many candidates the deadline of each decision alone bounds nothing.
        until = None if seconds is None else monotonic() + DEADLINES * seconds
        results: list[Value] = []
        for position, candidate in enumerate(candidates[start:], start):
            is_late = is_stopped() or (until is not None and monotonic() > until)
            if is_late or len(results) == limit:
                return results, position
            permitted = self._permits(candidate)
            # A page without the candidate would say that it is not permitted.
            if permitted is None:
                return results, None
            if permitted:
                results.append(self._show(candidate))
        return results, len(candidates)

    def _permits(self, candidate: Value) -> bool | None:
        """Return True if the policy permits the candidate, False if not; None if the decision
        failed.
        """
        # A copy for each: a value that a decision has seen must not be changed.
        input: dict[Key, Value] = _copy(self._input)
        put(input, self._options.mapping[self._kind], candidate)
        decision = self._pdp.decide(
            tuple(self._options.decision.split("/")),
            input,
            is_parsed=True,
            snapshot=self._snapshot,
        )
        decision, text = to_answer(decision, self._snapshot.deadline)
        return None if decision.error is not None else text.startswith(PERMITTED)

    def _show(self, candidate: Any) -> Value:
        """Return the members of an entity that identify it: `name` of an action, else `type` and
        `id`. Its properties are not shown to the client.
        """
        names = ("name",) if self._kind == "action" else ("type", "id")
        return {name: candidate[name] for name in names}

    def record(self, results: list[Value], context: RequestContext | None, size: int) -> None:
        """Log the search as one decision, whose result is `results`, the permitted entities of the
        page. `size` is the memory of the request's body in bytes.
        """
        decision = Decision(
            new_decision_id(),
            self._options.decision,
            {"results": results},
            revision=self._snapshot.revision,
        )
        self._pdp.record(decision, self._input, request_context=context, size=size)


def _copy(value: Any) -> Any:
    """Return a copy of nested objects, into which a candidate can be put."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return value


# Pages


def _page(request: dict[Key, Value]) -> tuple[int, int]:
    """Return the index of the first result of the requested page, and the most results on it; (0,
    `MAX_LIMIT`) if no page is requested. The most is `MAX_LIMIT`, also for a limit of 0. Raise
    InvalidError for a malformed page or the token of another request.
    """
    page = request.get("page")
    if page is None:
        return 0, MAX_LIMIT
    if not isinstance(page, dict):
        raise InvalidError("`page` must be an object")
    limit = page.get("limit")
    if limit is None or limit == 0:
        limit = MAX_LIMIT
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
        raise InvalidError("`page.limit` must be an integer that is not negative")
    token = page.get("token")
    if token is None or token == "":
        return 0, min(limit, MAX_LIMIT)
    return _position(request, token), min(limit, MAX_LIMIT)


def _digest(request: dict[Key, Value]) -> str:
    """Return a digest of a request, apart from its page."""
    rest = {str(key): to_python(value) for key, value in request.items() if key != "page"}
    text = json.dumps(rest, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _token(request: dict[Key, Value], position: int) -> str:
    return base64.urlsafe_b64encode(f"{position}:{_digest(request)}".encode()).decode()


def _position(request: dict[Key, Value], token: Value) -> int:
    """Return the position in a page token; raise InvalidError for a malformed token or one of
    another request.
    """
    if isinstance(token, str) and len(token) <= MAX_TOKEN:
        try:
            text = base64.urlsafe_b64decode(token.encode()).decode()
        except ValueError:
            text = ""
        number, _, digest = text.partition(":")
        # Not signed: a forged position skips results of the client's own request, and shows none.
        if number.isascii() and number.isdecimal() and digest == _digest(request):
            return int(number)
    raise InvalidError(
        "`page.token` was not returned for this request: send the other fields unchanged"
    )
