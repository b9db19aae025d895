"""Flask: every request is decided before its view, or single views with a decorator.

Doorward(app, point)                       # before_request: every request

@app.get("/people/<int:id>")
@requires("people/read", input=lambda: {"user": g.user, "id": request.view_args["id"]})
def person(id): ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from io import BytesIO
from typing import Any, Final, ParamSpec, TypeVar

from doorward.base.exporting import missing, renamed

try:
    from flask import Flask, Response, current_app, g, make_response, request
except ModuleNotFoundError as error:
    raise missing("doorward[flask]", error) from None

from doorward.enforcement.check import HttpCheck, HttpOptions
from doorward.enforcement.errors import RequestError
from doorward.enforcement.http_input import to_input
from doorward.enforcement.refusals import REASON_HEADER, log_failure
from doorward.enforcement.rows import conditions_of_rows
from doorward.filters import Nulls
from doorward.integrations.wsgi import apply, denial, read_request
from doorward.pdp import Decision, DecisionPoint
from doorward.rego import from_python
from doorward.verdicts import ResultError, Verdict, read_verdict

__all__ = ["Doorward", "requires", "row_filter"]

P = ParamSpec("P")
R = TypeVar("R")

__getattr__ = renamed(__name__, {"filtered": "row_filter"})

_NAME: Final = "doorward"
_DEFAULTS: Final = HttpOptions()


class Doorward:
    """The extension: it stores the decision point of an application, and decides each request.

    With `every=False` only views with the decorator `requires` are decided. `options` and
    `derive_target` are those of `doorward.integrations.wsgi`.
    """

    def __init__(
        self,
        app: Flask,
        point: DecisionPoint,
        options: HttpOptions | None = None,
        *,
        every: bool = True,
        derive_target: bool = False,
    ) -> None:
        self.point = point
        self.options = options or _DEFAULTS
        self.derive_target = derive_target
        self._check = HttpCheck(point.pdp, self.options)
        app.extensions[_NAME] = self
        if every:
            # In front of the hooks that are there already: nothing acts before the decision.
            app.before_request_funcs.setdefault(None, []).insert(0, self.before_request)
            app.after_request(self.after_request)

    def before_request(self) -> Response | None:
        """Return the response of a denial; None if the current request is allowed. The verdict is
        stored in `g.doorward`, unless the request is malformed, and the policy's headers are set in
        the environment.
        """
        try:
            read = read_request(request.environ, self.options, derive_target=self.derive_target)
        except RequestError as error:
            return _answer(self._check.refuse(error))
        verdict = self._check.check(read)
        g.doorward = verdict
        if not verdict.allowed:
            return _answer(verdict)
        apply(verdict, request.environ)
        return None

    before_request.doorward_decides = True  # type: ignore[attr-defined] # for doorward.testing

    def after_request(self, response: Response) -> Response:
        """Return the response, to which the headers of the policy are added if it allowed the
        request.
        """
        verdict: Verdict | None = g.get(_NAME)
        if verdict is not None and verdict.allowed:
            for name, value in verdict.response_headers:
                response.headers.add(name, value)
        return response


def requires(
    path: str, *, input: Callable[[], Any] | None = None
) -> Callable[[Callable[P, R]], Callable[P, R | Response]]:
    """Decorate a view so that it runs only if the document at `path` allows the request; otherwise
    the denial is returned.

    `input` returns the input, in the context of the request; without it, it is the sidecar's. The
    view finds the `Decision` in `g.decision`.
    """

    def decorate(view: Callable[P, R]) -> Callable[P, R | Response]:
        """Return the view, guarded by the policy."""

        @wraps(view)
        def decided(*args: P.args, **kwargs: P.kwargs) -> R | Response:
            """Run the view if the policy allows the request; otherwise return the denial."""
            extension: Doorward = current_app.extensions[_NAME]
            verdict = _verdict(extension, path, input)
            return view(*args, **kwargs) if verdict.allowed else _answer(verdict)

        decided.doorward_decides = True  # type: ignore[attr-defined] # for doorward.testing
        return decided

    return decorate


def row_filter(
    path: str, tables: Mapping[str, Any], *, input: Mapping[str, Any], nulls: Nulls = "null"
) -> Any:
    """Return a condition for `select(…).where(…)`: the rows for which the document at `path` is
    true (extra `sqlalchemy`). Needs the context of a request or application.

    `tables` and `nulls` are those of `doorward.filters.sqlalchemy.where`, the tables by their names
    below `input` in the policy; `input` is the rest of the input. Raise FilterError or RegoError if
    the policy cannot be a condition.
    """
    from doorward.filters.sqlalchemy import where  # the extra is for those who filter

    point = current_app.extensions[_NAME].point
    known = from_python(dict(input), "input")
    unknowns = [f"input.{name}" for name in tables]
    conditions = conditions_of_rows(point.snapshot, point.pdp.build_gate, path, unknowns, known)
    return where(conditions, tables, nulls=nulls)


def _verdict(extension: Doorward, path: str, make: Callable[[], Any] | None) -> Verdict:
    """Return the verdict on the current request: a denial if the policy fails, its result has a
    wrong form, or the request cannot be parsed or is refused by strict mode.

    Stores the decision, if one was made, in `g.decision`. Errors of `make` other than RequestError
    are raised.
    """
    try:
        document = _input(extension) if make is None else make()
    except RequestError as error:
        return Verdict(False, 400, body=f"{error.code}: {error}", reason=error.code)
    decision: Decision = extension.point.decide_now(path, document)
    g.decision = decision
    why = log_failure(decision, extension.point.snapshot)
    headers = ((REASON_HEADER, why),) if why and extension.options.debug else ()
    if decision.error is not None:
        return Verdict(False, headers=headers, decision_id=decision.decision_id)
    try:
        return read_verdict(decision.result, decision.decision_id)
    except ResultError:
        return Verdict(
            False, headers=headers, decision_id=decision.decision_id, reason="result_error"
        )


def _input(extension: Doorward) -> Any:
    """Return the current request as the sidecar's input. A body that is too long or of undeclared
    length is not read; the policy gets a body that is marked as cut. Raise RequestError if the
    request cannot be parsed or strict mode refuses it.
    """
    options = extension.options
    # A copy, since `read_request` takes out headers and replaces the body.
    environ = dict(request.environ)
    is_endless = request.content_length is None and "HTTP_TRANSFER_ENCODING" in environ
    if is_endless or (request.content_length or 0) > options.max_body:
        # Cut, whatever it holds: what the policy may not see is not read for it.
        environ["wsgi.input"] = BytesIO(b" " * (options.max_body + 1))
        environ["wsgi.input_terminated"] = True
    elif not options.skip_body:
        environ["wsgi.input"] = BytesIO(request.get_data())
    read = read_request(environ, options, derive_target=extension.derive_target)
    return to_input(read, strict=options.strict, skip_body=options.skip_body)


def _answer(verdict: Verdict) -> Response:
    """Return Flask's response to a denied request."""
    status, headers, body = denial(verdict)
    response = make_response(body, int(status[:3]))
    response.headers.clear()
    response.headers.extend(headers)
    return response
