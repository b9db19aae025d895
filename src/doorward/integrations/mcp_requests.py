"""Requests of the Model Context Protocol as policies see them, independent of the library that
serves them.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic_core import ValidationError, to_jsonable_python

from doorward.rego import InputError, from_python

__all__ = [
    "FREE",
    "INVALID_REQUEST",
    "describe_invalid",
    "params_of",
    "subject_of",
    "to_value",
]

INVALID_REQUEST: Final = -32600
"""The JSON-RPC error code of a request that is refused."""
FREE: Final = frozenset({"initialize", "ping", "server/discover", "logging/setLevel"})
"""Methods about the connection itself, which no policy decides."""


def params_of(message: Any) -> dict[str, Any]:
    """Return the parameters of a request without `_meta`, its metadata about the connection; {} if
    it has none.
    """
    if hasattr(message, "model_dump"):
        message = message.model_dump(by_alias=True, mode="json", exclude_none=True)
        message = message.get("params", message)
    params = message if isinstance(message, dict) else {}
    return {key: value for key, value in params.items() if key != "_meta"}


def subject_of(params: dict[str, Any]) -> str:
    """Return the name, URI or task id that a request is about, preferably that of its `ref`; "" if
    there is none.
    """
    ref = params.get("ref")
    for fields in (ref if isinstance(ref, dict) else {}, params):
        for key in ("name", "uri", "taskId"):
            if isinstance(fields.get(key), str):
                return str(fields[key])
    return ""


def describe_invalid(error: ValidationError) -> str:
    """Return which arguments are invalid and why, without their values."""
    faults = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
    return f"invalid arguments: {'; '.join(faults)}"


def to_value(argument: Any) -> Any:
    """Return a validated argument as a Rego value. An argument without a form in Rego becomes the
    JSON value that pydantic makes of it.
    """
    try:
        return from_python(argument, copy=True)
    except InputError:
        return to_jsonable_python(argument)
