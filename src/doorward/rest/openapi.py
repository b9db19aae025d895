"""The API as an OpenAPI document, for clients that are generated."""

from __future__ import annotations

from typing import Any, Final

from doorward import __version__

__all__ = ["document"]

_FLAGS: Final = {
    "pretty": "Indent the answer.",
    "metrics": "Say how long the parts of the request took.",
    "instrument": "The same.",
    "provenance": "Say what decided: version and bundles.",
    "strict-builtin-errors": "An error of a built-in is an error, not undefined.",
}
_ANY: Final[dict[str, Any]] = {}
_EVALUATION: Final = {
    name: {"type": "object"} for name in ("subject", "action", "resource", "context")
}
_NAMES: Final = {"type": "array", "items": {"type": "string"}}
_RESIDUAL: Final[dict[str, Any]] = {
    "query": {"type": "string"},
    "input": _ANY,
    "unknowns": _NAMES,
    "options": {
        "type": "object",
        "properties": {"disableInlining": _NAMES, "nondeterministicBuiltins": {"type": "boolean"}},
    },
}
_FILTER: Final[dict[str, Any]] = {
    "input": _ANY,
    "unknowns": _NAMES,
    "options": {
        "type": "object",
        "properties": {
            "disableInlining": _NAMES,
            "maskRule": {"type": "string"},
            "targetDialects": _NAMES,
            "targetSQLTableMappings": {"type": "object"},
        },
    },
}
_ERROR: Final = {"$ref": "#/components/schemas/Error"}
_ANSWERS: Final = {
    "200": "The answer.",
    "204": "Done.",
    "207": "Some inputs were decided, others failed.",
    "304": "There is something already.",
    "400": "The request is refused.",
    "404": "There is no such thing.",
    "405": "The method is not for this path.",
    "500": "The evaluation failed.",
    "503": "There is no room for the request now.",
}


def document() -> dict[str, Any]:
    """The whole document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Doorward",
            "version": __version__,
            "description": "A policy decision point with OPA's REST API.",
        },
        "paths": dict(_paths()),
        "components": {"schemas": {"Error": _error_schema()}},
    }


def _paths() -> list[tuple[str, Any]]:
    decide = ("pretty", "metrics", "instrument", "provenance", "strict-builtin-errors")
    given = {"input": _ANY}
    get = _operation("The document, for the input in `?input=`.", decide, query={"input": "JSON"})
    post = _operation("The document for an input.", decide, _body(given))
    put = _operation("Put data.", ("metrics",), _json(_ANY), ("204", "304", "404"))
    patch = _operation("Patch data.", ("metrics",), _json(_patch()), ("204", "404"))
    delete = _operation("Remove data.", ("metrics",), answers=("204", "404"))
    shown = ("pretty", "metrics")
    policy = {"content": {"text/plain": {"schema": {"type": "string"}}}}
    policies = {
        "get": _operation("A policy.", ("pretty",), answers=("200", "404")),
        "put": _operation("Put a policy into force.", shown, policy),
        "delete": _operation("Withdraw a policy.", shown, answers=("200", "404")),
    }
    ask = _operation("Solutions of a query.", shown, _body({"query": _text(), "input": _ANY}))
    batch = _body({"inputs": {"type": "object"}, "common_input": _ANY})
    many = _operation("The document for many inputs.", decide, batch, ("200", "207"))
    v0 = _operation("The bare document for the body.", ("pretty",), _json(_ANY), ("200", "404"))
    one = _operation("AuthZEN: may this subject do this?", (), _body(_EVALUATION))
    items = {"evaluations": {"type": "array"}, "options": {"type": "object"}}
    several = _operation("AuthZEN: many evaluations.", (), _body(_EVALUATION | items))
    sought = _body(_EVALUATION | {"page": {"type": "object"}})
    health = {"bundles": "Flag", "plugins": "Flag", "exclude-plugin": "Name"}
    return [
        ("/", {"post": _operation("The default decision.", ("pretty",), _json(_ANY))}),
        ("/v1/data", {"get": get, "post": post, "put": put, "patch": patch}),
        (
            "/v1/data/{path}",
            _at("path", {"get": get, "post": post, "put": put, "patch": patch, "delete": delete}),
        ),
        ("/v0/data/{path}", _at("path", {"post": v0})),
        ("/v1/batch/data", {"post": many}),
        ("/v1/batch/data/{path}", _at("path", {"post": many})),
        ("/v1/policies", {"get": _operation("All policies.", ("pretty",))}),
        ("/v1/policies/{id}", _at("id", policies)),
        (
            "/v1/query",
            {"get": _operation("Solutions of a query.", shown, query={"q": "Rego"}), "post": ask},
        ),
        (
            "/v1/compile",
            {"post": _operation("What is left to ask of a query.", shown, _body(_RESIDUAL))},
        ),
        (
            "/v1/compile/{path}",
            _at("path", {"post": _operation("A policy as a filter.", shown, _body(_FILTER))}),
        ),
        ("/v1/config", {"get": _operation("The configuration.", ("pretty",))}),
        (
            "/v1/status",
            {"get": _operation("How bundles, discovery and plugins are.", ("pretty",))},
        ),
        ("/access/v1/evaluation", {"post": one}),
        ("/access/v1/evaluations", {"post": several}),
        *[
            (f"/access/v1/search/{kind}", {"post": _operation(f"AuthZEN: {text}?", (), sought)})
            for kind, text in (
                ("subject", "who may do this"),
                ("resource", "to what may this be done"),
                ("action", "what may be done"),
            )
        ],
        ("/health", {"get": _operation("Whether it is up.", (), query=health)}),
        ("/health/{name}", _at("name", {"get": _operation("What a policy says of it.", ())})),
        ("/metrics", {"get": _operation("Metrics for Prometheus.", ())}),
    ]


def _operation(
    summary: str,
    flags: tuple[str, ...],
    body: dict[str, Any] | None = None,
    answers: tuple[str, ...] = ("200",),
    *,
    query: dict[str, str] | None = None,
) -> dict[str, Any]:
    parameters = [_parameter(name, _FLAGS[name], {"type": "boolean"}) for name in flags]
    parameters += [_parameter(name, what, _text()) for name, what in (query or {}).items()]
    statuses = dict.fromkeys([*answers, "400", "405", "500", "503"])
    operation = {
        "summary": summary,
        "parameters": parameters,
        "responses": {status: _response(status) for status in statuses},
    }
    return operation if body is None else operation | {"requestBody": body}


def _parameter(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _response(status: str) -> dict[str, Any]:
    response: dict[str, Any] = {"description": _ANSWERS[status]}
    if status in ("400", "404", "503"):
        response["content"] = {"application/json": {"schema": _ERROR}}
    return response


def _at(name: str, operations: dict[str, Any]) -> dict[str, Any]:
    where = {"name": name, "in": "path", "required": True, "schema": _text()}
    return {"parameters": [where], **operations}


def _body(properties: dict[str, Any]) -> dict[str, Any]:
    return _json({"type": "object", "properties": properties})


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


def _patch() -> dict[str, Any]:
    operations = {"enum": ["add", "remove", "replace"]}
    fields = {"op": operations, "path": _text(), "value": _ANY}
    return {"type": "array", "items": {"type": "object", "properties": fields}}


def _text() -> dict[str, Any]:
    return {"type": "string"}


def _error_schema() -> dict[str, Any]:
    errors = {"type": "array", "items": {"type": "object"}}
    fields = {"code": _text(), "message": _text(), "errors": errors}
    return {"type": "object", "properties": fields, "required": ["code", "message"]}
