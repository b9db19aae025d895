"""Answers of the API: JSON byte for byte as OPA writes it, its error bodies, its redirects.

This is the one table from what went wrong to a status. No answer says more of a fault of ours than
that there was one.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from starlette.responses import Response

from doorward.bundles.edit import PathNotFoundError, WriteConflictError
from doorward.config.configuration import Server
from doorward.pdp.decision import Decision, DecisionError, error_document
from doorward.pdp.error_documents import diagnostic_fields
from doorward.pdp.store import BusyError, PolicyNotFoundError
from doorward.rego import UNDEFINED, BuiltinError, CompileError, EvalError, RegoError, Undefined
from doorward.rego.golang import indent, marshal, object_text, ordered_text
from doorward.rego.shared import EvaluationAborted, ParseError, Timers, within

__all__ = [
    "NO_ROOM",
    "TOO_MANY",
    "bad_request",
    "busy",
    "encoded",
    "failed",
    "failure_fields",
    "forbidden",
    "gzip_response",
    "internal_error",
    "json_answer",
    "metrics_text",
    "no_content",
    "not_allowed",
    "not_changed",
    "not_compiled",
    "not_found",
    "redirect",
    "unauthorized",
    "unknown_path",
]

_REJECTED: Final = "request rejected by administrative policy"
_JSON: Final = "application/json"
_TEXT: Final = "text/plain; charset=utf-8"
NO_ROOM: Final = "too many large requests at the same time: try again later"
"""The reason for a request whose memory is not free, since other requests take it."""
TOO_MANY: Final = "too many requests at the same time: try again later"
"""The reason for a request that no thread is free to decide, while too many others wait."""


MAX_SPACE: Final = 1 << 24
"""The largest number of white-space characters that `?pretty` adds; a longer answer stays on one
line."""


def json_answer(text: str, status: int = 200, *, pretty: bool = False) -> Response:
    """Return a JSON response with a final newline; `pretty` indents it unless it would become too
    long.
    """
    if pretty:
        with suppress(EvaluationAborted):
            # The space grows with the product of lines and depth, so a short text can become a very
            # long one.
            text = indent(text, "", "  ", MAX_SPACE)
    return Response(text.encode("utf-8", errors="replace") + b"\n", status, media_type=_JSON)


def _error(status: int, code: str, message: str, errors: Iterable[str] = ()) -> Response:
    """Return an error response as OPA writes it, indented; `errors` are JSON texts."""
    text = object_text(_error_fields(code, message, errors))
    return json_answer(text, status, pretty=True)


def _error_fields(code: str, message: str, errors: Iterable[str] = ()) -> dict[str, str]:
    """Return the members of an error document, each as JSON; `errors` is left out if it is
    empty.
    """
    fields = {"code": marshal(code), "message": marshal(message)}
    if errors:
        fields["errors"] = "[" + ",".join(errors) + "]"
    return fields


def _one_error(error: Mapping[str, Any]) -> str:
    """Return one error as JSON: code, message and location."""
    fields = {name: marshal(error[name]) for name in ("code", "message")}
    if "location" in error:
        where = error["location"]
        fields["location"] = object_text({name: marshal(where[name]) for name in where})
    return object_text(fields)


def encoded(decision: Decision, deadline: float | None) -> tuple[Decision, str]:
    """Return a decision and its result as JSON text; "" if it failed or is undefined.

    If the result cannot be encoded within `deadline` seconds, the returned decision has an error
    instead. Values that share parts can become exponentially larger as JSON.
    """
    result = decision.result
    if decision.error is not None or isinstance(result, Undefined):
        return decision, ""
    # Most decisions are booleans, which need neither the encoder nor a deadline.
    if result is True or result is False:
        return decision, "true" if result else "false"
    try:
        with within(deadline):
            return decision, marshal(result)
    except EvalError as error:
        return decision._replace(result=UNDEFINED, error=error), ""
    except (BuiltinError, EvaluationAborted) as error:
        return decision._replace(result=UNDEFINED, error=DecisionError(f"result: {error}")), ""


def metrics_text(timers: Timers, more: Mapping[str, Any] | None = None) -> str:
    """Return timers, and the members of `more`, as one JSON object with sorted names."""
    return ordered_text({**timers.document(), **(more or {})}, sort_keys=True)


def bad_request(message: str) -> Response:
    """Return 400 `invalid_parameter` with a message."""
    return _error(400, "invalid_parameter", message)


def not_found(message: str) -> Response:
    """Return 404 `undefined_document` with a message."""
    return _error(404, "undefined_document", message)


def failed(error: Exception) -> Response:
    """Return the 500 response for a query that cannot be compiled or an evaluation that failed."""
    return json_answer(object_text(failure_fields(error)), 500, pretty=True)


def failure_fields(error: Exception) -> dict[str, str]:
    """Return the members of the error document of a failed evaluation, each as JSON."""
    if isinstance(error, RegoError) and not isinstance(error, (CompileError, ParseError)):
        documents = error_document(error)
        errors = documents if isinstance(documents, list) else [documents]
        message = "error(s) occurred while evaluating query"
        return _error_fields("internal_error", message, list(map(_one_error, errors)))
    return _error_fields("internal_error", str(error))


def not_compiled(error: CompileError, activity: str, code: str = "invalid_parameter") -> Response:
    """Return the 400 response that lists every error in policies or a query. `activity` is the end
    of its message: "error(s) occurred while …".
    """
    errors = [object_text(diagnostic_fields(each)) for each in error.diagnostics]
    return _error(400, code, f"error(s) occurred while {activity}", errors)


def not_changed(error: Exception) -> Response:
    """Return the response to a refused change of data or policies: 404 if its place does not exist
    or other data is in its way, 503 if busy, else 400.
    """
    if isinstance(error, (PathNotFoundError, PolicyNotFoundError)):
        return _error(404, "resource_not_found", str(error))
    # As in OPA, a conflict is a 404, too.
    if isinstance(error, WriteConflictError):
        return _error(404, "resource_conflict", str(error))
    if isinstance(error, BusyError):
        return _error(503, "unavailable", "too many changes at the same time: try again later")
    return bad_request(str(error))


def internal_error(message: str) -> Response:
    """Return 500 `internal_error` with a message."""
    return _error(500, "internal_error", message)


def busy(reason: str = NO_ROOM) -> Response:
    """Return 503 for a request that finds no memory (`NO_ROOM`) or no thread (`TOO_MANY`)."""
    return _error(503, "unavailable", reason)


def forbidden() -> Response:
    """Return 403 for something that the configuration does not serve."""
    return _error(403, "unauthorized", _REJECTED)


def unauthorized(reason: str = _REJECTED, *, status: int = 401) -> Response:
    """Return a refusal by the system policy with its reason, 401 unless `status` says otherwise."""
    return _error(status, "unauthorized", reason)


def no_content(status: int) -> Response:
    """Return an answer with an empty body."""
    return Response(b"", status)


def not_allowed(methods: str) -> Response:
    """Return 405 in the words of Go's router; `methods` becomes the header `allow`."""
    headers = {"allow": methods, "x-content-type-options": "nosniff"}
    return Response(b"Method Not Allowed\n", 405, headers, media_type=_TEXT)


def unknown_path() -> Response:
    """Return 404 in the words of Go's server, for a path without a route."""
    headers = {"x-content-type-options": "nosniff"}
    return Response(b"404 page not found\n", 404, headers, media_type=_TEXT)


def redirect(status: int, location: str, method: str) -> Response:
    """Return a redirect (301 or 307) as Go's server writes it, with a link in the body for GET and
    HEAD.
    """
    headers = {"location": location}
    if method not in ("GET", "HEAD"):
        return Response(b"", status, headers)
    words = {301: "Moved Permanently", 307: "Temporary Redirect"}[status]
    # `&` first, or the escapes that follow would be escaped themselves.
    escaped = location.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    escaped = escaped.replace('"', "&#34;").replace("'", "&#39;")
    body = f'<a href="{escaped}">{words}</a>.\n\n'
    return Response(body.encode(), status, headers, media_type="text/html; charset=utf-8")


def gzip_response(answer: Response, accept: str, options: Server) -> Response:
    """Return `answer`, changed: compressed if `accept` has gzip and the body is long enough.

    Always sets `vary`.
    """
    answer.headers["vary"] = "Accept-Encoding"
    body = bytes(answer.body)
    if "gzip" in accept and len(body) >= options.gzip_min_length:
        # Without a time: equal answers have equal bytes.
        answer.body = gzip.compress(body, compresslevel=min(options.gzip_level, 9), mtime=0)
        answer.headers["content-encoding"] = "gzip"
        answer.headers["content-length"] = str(len(answer.body))
    return answer
