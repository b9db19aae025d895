"""The table of routes as an OpenAPI document, for clients that are generated."""

from __future__ import annotations

from typing import Any, Final

from doorward import __version__
from doorward.rest.route import Route, Routes

__all__ = ["document"]

_FLAGS: Final = {
    "pretty": "Indent the response.",
    "metrics": "Include the duration of each part of the request.",
    "instrument": "Include more detailed metrics.",
    "provenance": "Include the server version and the bundles that decided.",
    "strict-builtin-errors": "Return an error of a built-in instead of undefined.",
}
_ERROR: Final = {"$ref": "#/components/schemas/Error"}
_ANSWERS: Final = {
    "200": "Success.",
    "204": "Success, without a body.",
    "207": "Some inputs were evaluated, others failed.",
    "304": "The document already exists.",
    "307": "Redirect.",
    "400": "The request is invalid.",
    "404": "Not found.",
    "405": "The path does not support this method.",
    "500": "The evaluation failed.",
    "503": "The server is too busy for the request.",
}
_TEXT: Final = {"type": "string"}


def document(routes: Routes) -> dict[str, Any]:
    """Return the OpenAPI document of the routes."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Doorward",
            "version": __version__,
            "description": "A policy decision point with OPA's REST API.",
        },
        "paths": _paths(routes),
        "components": {"schemas": {"Error": _error_schema()}},
    }


def _paths(routes: Routes) -> dict[str, Any]:
    """Return the `paths` of the OpenAPI document: the operations of each path by method. HEAD, and
    routes without a summary, are left out.
    """
    paths: dict[str, Any] = {}
    for route in routes.rows:
        for path in route.paths if route.summary else ():
            operations = paths.setdefault(path, _parameters_of_path(route, path))
            for method in route.methods:
                if method != "HEAD":  # as any server answers it
                    operations[method.lower()] = _operation(route)
    return paths


def _parameters_of_path(route: Route, path: str) -> dict[str, Any]:
    """Return `{"parameters": […]}` with the parameter at the end of a path such as
    `/v1/data/{path}`; {} if there is none.
    """
    if not path.endswith("}"):
        return {}
    where = {"name": route.parameter, "in": "path", "required": True, "schema": _TEXT}
    return {"parameters": [where]}


def _operation(route: Route) -> dict[str, Any]:
    """Return the OpenAPI operation of a route: summary, access, parameters, body and responses."""
    parameters = [_parameter(name, _FLAGS[name], {"type": "boolean"}) for name in route.flags]
    parameters += [
        _parameter(name, description, _TEXT) for name, description in route.query.items()
    ]
    statuses = dict.fromkeys([*route.answers, "400", "405", "500", "503"])
    operation = {
        "summary": route.summary,
        "description": f"Available {route.access.text}.",
        "parameters": parameters,
        "responses": {status: _response(status) for status in statuses},
    }
    if route.body is None:
        return operation
    schema = {"schema": dict(route.body.schema)}
    return operation | {"requestBody": {"content": {route.body.media_type: schema}}}


def _parameter(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _response(status: str) -> dict[str, Any]:
    """Return the OpenAPI response of a status, with the error schema if its body is an error."""
    response: dict[str, Any] = {"description": _ANSWERS[status]}
    if status in ("400", "404", "503"):
        response["content"] = {"application/json": {"schema": _ERROR}}
    return response


def _error_schema() -> dict[str, Any]:
    """Return the JSON Schema of an error response, in OPA's form."""
    errors = {"type": "array", "items": {"type": "object"}}
    fields = {"code": _TEXT, "message": _TEXT, "errors": errors}
    return {"type": "object", "properties": fields, "required": ["code", "message"]}
