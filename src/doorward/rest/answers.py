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


MAX_SPACE: Final = 1 << 24
"""Characters of white space that `?pretty` adds: an answer that takes more stays on one line."""


def json_answer(text: str, status: int = 200, *, pretty: bool = False) -> Response:
    """A JSON response; `pretty` indents it unless that would make it too long."""
    if pretty:
        with suppress(EvaluationAborted):
            text = indent(text, "", "  ", MAX_SPACE)
    return Response(text.encode("utf-8", errors="replace") + b"\n", status, media_type=_JSON)


def _error(status: int, code: str, message: str, errors: Iterable[str] = ()) -> Response:
    text = object_text(_error_fields(code, message, errors))
    return json_answer(text, status, pretty=True)


def _error_fields(code: str, message: str, errors: Iterable[str] = ()) -> dict[str, str]:
    """Return the members of an error document, as JSON by name."""
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
    """A decision with its result as JSON text; the decision has an error if that fails.

    Values that share parts can be exponentially larger as JSON, so that `deadline` (seconds)
    limits the time.
    """
    result = decision.result
    if decision.error is not None or isinstance(result, Undefined):
        return decision, ""
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
    """Timers, and what there is more, as JSON, by name."""
    return ordered_text({**timers.document(), **(more or {})}, sort_keys=True)


def bad_request(message: str) -> Response:
    return _error(400, "invalid_parameter", message)


def not_found(message: str) -> Response:
    return _error(404, "undefined_document", message)


def failed(error: Exception) -> Response:
    """500: a query that cannot be compiled, or an evaluation that failed."""
    return json_answer(object_text(failure_fields(error)), 500, pretty=True)


def failure_fields(error: Exception) -> dict[str, str]:
    """Return the fields of such an error, each as JSON."""
    if isinstance(error, RegoError) and not isinstance(error, (CompileError, ParseError)):
        documents = error_document(error)
        errors = documents if isinstance(documents, list) else [documents]
        message = "error(s) occurred while evaluating query"
        return _error_fields("internal_error", message, list(map(_one_error, errors)))
    return _error_fields("internal_error", str(error))


def not_compiled(error: CompileError, what: str, code: str = "invalid_parameter") -> Response:
    """400: policies or a query with errors in them, of which each is listed."""
    errors = [object_text(diagnostic_fields(each)) for each in error.diagnostics]
    return _error(400, code, f"error(s) occurred while {what}", errors)


def not_changed(error: Exception) -> Response:
    """A change of data or policies that was refused."""
    if isinstance(error, (PathNotFoundError, PolicyNotFoundError)):
        return _error(404, "resource_not_found", str(error))
    if isinstance(error, WriteConflictError):
        return _error(404, "resource_conflict", str(error))
    if isinstance(error, BusyError):
        return _error(503, "unavailable", "too many changes at the same time")
    return bad_request(str(error))


def internal_error(message: str) -> Response:
    return _error(500, "internal_error", message)


def busy() -> Response:
    """503: others take so much that there is no room for this request."""
    return _error(503, "unavailable", "too many large requests at the same time")


def forbidden() -> Response:
    """403 for what the configuration does not serve."""
    return _error(403, "unauthorized", _REJECTED)


def unauthorized(reason: str = _REJECTED, *, status: int = 401) -> Response:
    """401: the system policy refuses, with its reason."""
    return _error(status, "unauthorized", reason)


def no_content(status: int) -> Response:
    return Response(b"", status)


def not_allowed(methods: str) -> Response:
    """405 in the words of the router of Go's library."""
    headers = {"allow": methods, "x-content-type-options": "nosniff"}
    return Response(b"Method Not Allowed\n", 405, headers, media_type=_TEXT)


def unknown_path() -> Response:
    headers = {"x-content-type-options": "nosniff"}
    return Response(b"404 page not found\n", 404, headers, media_type=_TEXT)


def redirect(status: int, location: str, method: str) -> Response:
    """Return a redirect as Go's server writes it, with a link in its body for GET."""
    headers = {"location": location}
    if method not in ("GET", "HEAD"):
        return Response(b"", status, headers)
    words = {301: "Moved Permanently", 307: "Temporary Redirect"}[status]
    escaped = location.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    escaped = escaped.replace('"', "&#34;").replace("'", "&#39;")
    body = f'<a href="{escaped}">{words}</a>.\n\n'
    return Response(body.encode(), status, headers, media_type="text/html; charset=utf-8")


def gzip_response(answer: Response, accept: str, options: Server) -> Response:
    """Return `answer` compressed if the client accepts gzip and it is long enough; set `Vary`."""
    answer.headers["vary"] = "Accept-Encoding"
    body = bytes(answer.body)
    if "gzip" in accept and len(body) >= options.gzip_min_length:
        answer.body = gzip.compress(body, compresslevel=min(options.gzip_level, 9), mtime=0)
        answer.headers["content-encoding"] = "gzip"
        answer.headers["content-length"] = str(len(answer.body))
    return answer
