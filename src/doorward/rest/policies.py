"""The Policy API: policies by name, as text and as trees."""

from __future__ import annotations

from collections.abc import Callable

from starlette.responses import Response

from doorward.bundles.edit import StorageError
from doorward.bundles.owners import OwnedError
from doorward.pdp.store import BusyError, Store
from doorward.rego import CompileError, Diagnostic
from doorward.rego.golang import marshal, object_text, ordered_text
from doorward.rego.shared import PARSE_ERROR, Source, Span, Timers
from doorward.rego.tools import Module
from doorward.rest.answers import bad_request, json_answer, metrics_text, not_changed, not_compiled
from doorward.rest.requests import Parameters

__all__ = ["delete_policy", "get_policies", "get_policy", "put_policy"]

_COMPILING = "compiling module(s)"


def get_policies(store: Store, parameters: Parameters) -> Response:
    """Return all policies with text and syntax tree (GET /v1/policies)."""
    texts = [_policy_text(name, module) for name, module in store.policies.items()]
    result = object_text({"result": "[" + ",".join(texts) + "]"})
    return json_answer(result, pretty=parameters.flag("pretty"))


def get_policy(store: Store, name: str, parameters: Parameters) -> Response:
    """Return a policy with text and syntax tree (GET /v1/policies/ID); 404 if there is none."""
    try:
        module = store.policy(name)
    except StorageError as error:
        return not_changed(error)
    result = object_text({"result": _policy_text(name, module)})
    return json_answer(result, pretty=parameters.flag("pretty"))


def put_policy(
    store: Store, name: str, parameters: Parameters, body: bytes, read_ns: int
) -> Response:
    """Create or replace a policy (PUT /v1/policies/ID); 400 if it does not compile or cannot be
    changed, as one of a bundle, and 503 if too many changes wait.

    `read_ns` are the nanoseconds that reading the body took, for the metrics.
    """
    timers = Timers(())
    timers.add("server_read_bytes", read_ns)

    def put() -> None:
        store.put_policy(name, _text(name, body), timers=timers)

    return _change(put, timers, parameters, "invalid_parameter")


def delete_policy(store: Store, name: str, parameters: Parameters) -> Response:
    """Delete a policy (DELETE /v1/policies/ID); 404 if there is none, 400 if the others do not
    compile without it or it cannot be changed, as one of a bundle, and 503 if too many changes
    wait.
    """
    timers = Timers(())

    def delete() -> None:
        store.delete_policy(name, timers=timers)

    return _change(delete, timers, parameters, "invalid_operation")


def _change(
    change: Callable[[], None], timers: Timers, parameters: Parameters, code: str
) -> Response:
    """Run a change of policies and return the response; an error response if it was refused.

    `code` is the error code for policies that do not compile.
    """
    try:
        change()
    except CompileError as error:
        if error.diagnostics[0].message == "empty module":
            return bad_request(str(error.diagnostics[0]))
        return not_compiled(error, _COMPILING, code)
    except (StorageError, OwnedError, BusyError) as error:
        return not_changed(error)
    fields = {"metrics": metrics_text(timers)} if parameters.flag("metrics") else {}
    return json_answer(object_text(fields), pretty=parameters.flag("pretty"))


def _text(name: str, body: bytes) -> str:
    """Return a policy as text; raise CompileError with the position of the first byte that is not
    UTF-8.
    """
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        before, text = body[: error.start].decode(), body.decode(errors="replace")
        row, col = before.count("\n") + 1, error.start - body.rfind(b"\n", 0, error.start)
        span = Span(Source(name, text), len(before), len(before) + 1, row, col)
        raise CompileError([Diagnostic(PARSE_ERROR, "illegal utf-8 character", span)]) from None


def _policy_text(name: str, module: Module) -> str:
    """Return the JSON of a policy: id, text and syntax tree."""
    from doorward.rego.tools import module_to_json  # and YAML, for METADATA: few ask for trees

    fields = {
        "id": marshal(name),
        "raw": marshal(module.span.source.text),
        "ast": ordered_text(module_to_json(module)),
    }
    return object_text(fields)
