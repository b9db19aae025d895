"""The table of routes: every path of the HTTP API, who may ask there, and what answers.

The rows stand in the order in which the documentation lists them.
"""

from __future__ import annotations

from typing import Any, Final

from doorward.rest import authzen, endpoints, rules
from doorward.rest.route import RequestBody, Route, Routes

__all__ = ["ROUTES"]

_DECIDE: Final = ("pretty", "metrics", "instrument", "provenance", "strict-builtin-errors")
_MODES: Final = "Explanation to return: notes, fails, full, debug or why"
_COMMON_QUERY: Final = ("pretty", "metrics")
_ANY: Final[dict[str, Any]] = {}
_TEXT: Final = {"type": "string"}
_NAMES: Final = {"type": "array", "items": _TEXT}
_EVALUATION: Final = {
    name: {"type": "object"} for name in ("subject", "action", "resource", "context")
}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


_PATCH: Final = {
    "type": "array",
    "items": _object({"op": {"enum": ["add", "remove", "replace"]}, "path": _TEXT, "value": _ANY}),
}
_RESIDUAL: Final = _object(
    {
        "query": _TEXT,
        "input": _ANY,
        "unknowns": _NAMES,
        "options": _object(
            {"disableInlining": _NAMES, "nondeterministicBuiltins": {"type": "boolean"}}
        ),
    }
)
_FILTER: Final = _object(
    {
        "input": _ANY,
        "unknowns": _NAMES,
        "options": _object(
            {
                "disableInlining": _NAMES,
                "maskRule": _TEXT,
                "targetDialects": _NAMES,
                "targetSQLTableMappings": {"type": "object"},
            }
        ),
    }
)
_INPUT: Final = RequestBody(_object({"input": _ANY}), is_authorized=True)
_DOCUMENT: Final = RequestBody(_ANY, is_authorized=True)
_INPUTS: Final = RequestBody(
    _object({"inputs": {"type": "object"}, "common_input": _ANY}), is_authorized=True
)
_FILTERED: Final = RequestBody(_FILTER)
_ONE: Final = RequestBody(_object(_EVALUATION), is_authorized=True)
_MANY: Final = RequestBody(
    _object(_EVALUATION | {"evaluations": {"type": "array"}, "options": {"type": "object"}}),
    is_authorized=True,
)
_SOUGHT: Final = RequestBody(
    _object(_EVALUATION | {"page": {"type": "object"}}), is_authorized=True
)

_HEALTH: Final = (
    Route(
        path="/health",
        methods=("GET",),
        endpoint=endpoints.get_health,
        name="health",
        access=rules.PROBES,
        body=None,
        summary="Report the health of the server.",
        query={
            "bundle": "Flag",
            "bundles": "Flag",
            "exclude-plugin": "Name",
            "plugins": "Flag",
            "policies": "Flag",
        },
        says_methods=True,
    ),
    Route(
        path="/health/{name}",
        methods=("GET",),
        endpoint=endpoints.get_policy_health,
        name="health",
        access=rules.PROBES,
        body=None,
        summary="Report the health that `data.system.health` computes.",
        says_methods=True,
    ),
    Route(
        path="/metrics",
        methods=("GET", "HEAD"),
        endpoint=endpoints.get_metrics,
        name="metrics",
        access=rules.PROBES,
        body=None,
        summary="Metrics for Prometheus.",
        says_methods=True,
    ),
)

_PAGES: Final = (
    Route(
        path="/",
        methods=("GET", "HEAD"),
        endpoint=endpoints.get_index,
        name="index",
        access=rules.EVERYBODY,
        body=None,
        summary="A start page.",
        says_methods=True,
    ),
    Route(
        path="/",
        methods=("POST",),
        endpoint=endpoints.post_default,
        name="index",
        access=rules.DEFAULT,
        body=_DOCUMENT,
        summary="Evaluate the default decision.",
        flags=("pretty",),
        says_methods=True,
    ),
    Route(
        path="/openapi.json",
        methods=("GET", "HEAD"),
        endpoint=endpoints.get_openapi,
        name="openapi",
        access=rules.EVERYBODY,
        body=None,
        summary="This API as an OpenAPI document.",
        flags=("pretty",),
        says_methods=True,
    ),
    Route(
        path="/console[/{page}]",
        methods=("GET", "HEAD", "POST"),
        endpoint=endpoints.get_console,
        name="console",
        access=rules.CONSOLE,
        body=None,
        summary="",
        is_literal=True,
    ),
)

_DATA: Final = (
    Route(
        path="/v1/data[/{path}]",
        methods=("GET",),
        endpoint=endpoints.get_document,
        name="v1/data",
        access=rules.EXPLAINED,
        body=None,
        summary="Evaluate a document with the input in `?input=`.",
        flags=_DECIDE,
        query={"explain": _MODES, "input": "JSON"},
        zips=True,
    ),
    Route(
        path="/v1/data[/{path}]",
        methods=("POST",),
        endpoint=endpoints.post_document,
        name="v1/data",
        access=rules.EXPLAINED,
        body=_INPUT,
        summary="Evaluate a document with an input.",
        flags=_DECIDE,
        query={"explain": _MODES},
        zips=True,
    ),
    Route(
        path="/v1/data[/{path}]",
        methods=("PUT",),
        endpoint=endpoints.change_data,
        name="v1/data",
        access=rules.CHANGES,
        body=RequestBody(_ANY, unzips=False),
        summary="Create or replace data.",
        flags=("metrics",),
        answers=("204", "304", "404"),
    ),
    Route(
        path="/v1/data[/{path}]",
        methods=("PATCH",),
        endpoint=endpoints.change_data,
        name="v1/data",
        access=rules.CHANGES,
        body=RequestBody(_PATCH, unzips=False),
        summary="Change data with JSON Patch operations.",
        flags=("metrics",),
        answers=("204", "404"),
    ),
    Route(
        path="/v1/data/{path}",
        methods=("DELETE",),
        endpoint=endpoints.remove_data,
        name="v1/data",
        access=rules.CHANGES,
        body=None,
        summary="Delete data.",
        flags=("metrics",),
        answers=("204", "404"),
    ),
    Route(
        path="/v0/data[/{path}]",
        methods=("POST",),
        endpoint=endpoints.post_v0_document,
        name="v0/data",
        access=rules.DOCUMENTS,
        body=_DOCUMENT,
        summary="Evaluate a document with the body as input; the response is the bare result.",
        flags=("pretty",),
        answers=("200", "404"),
        zips=True,
    ),
    Route(
        path="/v1/batch/data[/{path}]",
        methods=("POST",),
        endpoint=endpoints.post_batch,
        name="v1/batch/data",
        access=rules.EXPLAINED,
        body=_INPUTS,
        summary="Evaluate a document with many inputs.",
        flags=_DECIDE,
        query={"explain": _MODES},
        answers=("200", "207"),
        zips=True,
    ),
)

_RULES: Final = (
    Route(
        path="/v1/policies",
        methods=("GET",),
        endpoint=endpoints.get_policies,
        name="v1/policies",
        access=rules.EVERYTHING,
        body=None,
        summary="List all policies.",
        flags=("pretty",),
    ),
    Route(
        path="/v1/policies/{id}",
        methods=("GET",),
        endpoint=endpoints.get_policy,
        name="v1/policies",
        access=rules.EVERYTHING,
        body=None,
        summary="Get a policy.",
        flags=("pretty",),
        answers=("200", "404"),
    ),
    Route(
        path="/v1/policies/{id}",
        methods=("PUT",),
        endpoint=endpoints.put_policy,
        name="v1/policies",
        access=rules.POLICIES,
        body=RequestBody(_TEXT, "text/plain", unzips=False),
        summary="Create or replace a policy.",
        flags=_COMMON_QUERY,
    ),
    Route(
        path="/v1/policies/{id}",
        methods=("DELETE",),
        endpoint=endpoints.delete_policy,
        name="v1/policies",
        access=rules.POLICIES,
        body=None,
        summary="Delete a policy.",
        flags=_COMMON_QUERY,
        answers=("200", "404"),
    ),
    Route(
        path="/v1/query",
        methods=("GET",),
        endpoint=endpoints.get_query,
        name="v1/query",
        access=rules.QUERIES,
        body=None,
        summary="Evaluate an ad-hoc query.",
        flags=_COMMON_QUERY,
        query={"explain": _MODES, "q": "Rego"},
    ),
    Route(
        path="/v1/query",
        methods=("POST",),
        endpoint=endpoints.post_query,
        name="v1/query",
        access=rules.QUERIES,
        body=RequestBody(_object({"query": _TEXT, "input": _ANY}), unzips=False),
        summary="Evaluate an ad-hoc query.",
        flags=_COMMON_QUERY,
        query={"explain": _MODES},
    ),
    Route(
        # As in OPA, what is behind it has no method.
        path="/v1/query/{path}",
        methods=(),
        endpoint=endpoints.get_query,
        name="v1/query",
        access=rules.QUERIES,
        body=None,
        summary="",
    ),
    Route(
        path="/v1/compile",
        methods=("GET",),
        endpoint=endpoints.find_filters,
        name="v1/compile",
        access=rules.QUERIES,
        body=None,
        summary="Redirect to the path for filters.",
        answers=("307",),
        zips=True,
        says_methods=True,
    ),
    Route(
        path="/v1/compile",
        methods=("POST",),
        endpoint=endpoints.post_compile,
        name="v1/compile",
        access=rules.QUERIES,
        body=RequestBody(_RESIDUAL),
        summary="Partially evaluate a query.",
        flags=_COMMON_QUERY,
        zips=True,
        says_methods=True,
    ),
    Route(
        path="/v1/compile/{path}",
        methods=("GET",),
        endpoint=endpoints.filter_document,
        name="v1/compile",
        access=rules.FILTERS,
        body=_FILTERED,
        summary="Convert a policy to a filter, with a body as in a POST.",
        flags=_COMMON_QUERY,
        says_methods=True,
    ),
    Route(
        path="/v1/compile/{path}",
        methods=("POST",),
        endpoint=endpoints.filter_document,
        name="v1/compile",
        access=rules.FILTERS,
        body=_FILTERED,
        summary="Convert a policy to a database filter.",
        flags=_COMMON_QUERY,
        zips=True,
        says_methods=True,
    ),
)

_STATE: Final = (
    Route(
        path="/v1/config",
        methods=("GET", "HEAD"),
        endpoint=endpoints.get_config,
        name="v1/config",
        access=rules.EVERYTHING,
        body=None,
        summary="Get the configuration.",
        flags=("pretty",),
        says_methods=True,
    ),
    Route(
        path="/v1/status",
        methods=("GET", "HEAD"),
        endpoint=endpoints.get_status,
        name="v1/status",
        access=rules.EVERYTHING,
        body=None,
        summary="Get the status of bundles, discovery and plugins.",
        flags=("pretty",),
        says_methods=True,
    ),
)

_SEARCHES: Final = {
    "subject": "the subjects that may perform the action",
    "resource": "the resources that the action is allowed on",
    "action": "the actions that the subject may perform",
}
_AUTHZEN: Final = (
    Route(
        path="/access/v1/evaluation",
        methods=("POST",),
        endpoint=endpoints.evaluate,
        name="authzen",
        access=rules.AUTHZEN,
        body=_ONE,
        summary="AuthZEN: evaluate one access.",
        refuses=authzen.error,
        repeats=("x-request-id",),
    ),
    Route(
        path="/access/v1/evaluations",
        methods=("POST",),
        endpoint=endpoints.evaluate_many,
        name="authzen",
        access=rules.AUTHZEN,
        body=_MANY,
        summary="AuthZEN: evaluate many accesses.",
        refuses=authzen.error,
        repeats=("x-request-id",),
    ),
    *[
        Route(
            path=f"/access/v1/search/{kind}",
            methods=("POST",),
            endpoint=endpoints.search(kind),
            name="authzen",
            access=rules.AUTHZEN,
            body=_SOUGHT,
            summary=f"AuthZEN: list {results}.",
            refuses=authzen.error,
            repeats=("x-request-id",),
        )
        for kind, results in _SEARCHES.items()
    ],
    Route(
        path="/.well-known/authzen-configuration[/{path}]",
        methods=("GET", "HEAD"),
        endpoint=endpoints.get_metadata,
        name="authzen",
        access=rules.EVERYBODY,
        body=None,
        summary="AuthZEN: metadata of the decision point.",
        answers=("200", "404"),
        says_methods=True,
    ),
)

ROUTES: Final = Routes([*_PAGES, *_DATA, *_RULES, *_STATE, *_AUTHZEN, *_HEALTH])
