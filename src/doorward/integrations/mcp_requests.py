"""Requests of the Model Context Protocol as policies see them, whatever library serves them."""

from __future__ import annotations

from typing import Any, Final

from pydantic_core import to_jsonable_python

from doorward.rego import InputError, from_python

__all__ = ["FREE", "INVALID_REQUEST", "params_of", "subject_of", "to_value"]

INVALID_REQUEST: Final = -32600
"""The code of JSON-RPC for a request that is refused."""
FREE: Final = frozenset({"initialize", "ping", "server/discover", "logging/setLevel"})
"""They say and do nothing that is not the connection's own."""


def params_of(message: Any) -> dict[str, Any]:
    """The parameters of a request without its metadata about the connection."""
    if hasattr(message, "model_dump"):
        message = message.model_dump(by_alias=True, mode="json", exclude_none=True)
        message = message.get("params", message)
    params = message if isinstance(message, dict) else {}
    return {key: value for key, value in params.items() if key != "_meta"}


def subject_of(params: dict[str, Any]) -> str:
    """Return the subject of a request: a name or URI, that of its reference before its own."""
    ref = params.get("ref")
    for fields in (ref if isinstance(ref, dict) else {}, params):
        for key in ("name", "uri", "taskId"):
            if isinstance(fields.get(key), str):
                return str(fields[key])
    return ""


def to_value(argument: Any) -> Any:
    """Convert a validated argument to a Rego value; a type without a counterpart becomes JSON."""
    try:
        return from_python(argument, copy=True)
    except InputError:
        return to_jsonable_python(argument)
