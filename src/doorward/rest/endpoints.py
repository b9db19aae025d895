"""The endpoints of routes: from a request to the function of its topic, and in which threads.

What an answer means is for `data`, `query`, `writes` and the others; here is only what they get.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import Final

from starlette.responses import Response

from doorward import __version__
from doorward.config.configuration import active_config
from doorward.rego import from_python
from doorward.rego.golang import marshal, object_text, ordered_text
from doorward.rest import authzen, batch, data, health, policies, query, writes
from doorward.rest.answers import (
    bad_request,
    internal_error,
    json_answer,
    redirect,
    unknown_path,
)
from doorward.rest.body import Body
from doorward.rest.exchange import Exchange
from doorward.rest.requests import BadRequest
from doorward.rest.route import Endpoint

__all__ = [
    "change_data",
    "delete_policy",
    "evaluate",
    "evaluate_many",
    "filter_document",
    "find_filters",
    "get_config",
    "get_console",
    "get_document",
    "get_health",
    "get_index",
    "get_metadata",
    "get_metrics",
    "get_openapi",
    "get_policies",
    "get_policy",
    "get_policy_health",
    "get_query",
    "get_status",
    "post_batch",
    "post_compile",
    "post_default",
    "post_document",
    "post_query",
    "post_v0_document",
    "put_policy",
    "remove_data",
    "search",
]

_INDEX: Final = (
    "<!doctype html><title>Doorward</title><h1>Doorward</h1>"
    f"<p>Version {__version__}. Decisions: <code>POST /v1/data/PATH</code> with "
    '<code>{"input": …}</code>. <a href="/health">health</a> <a href="/metrics">metrics</a></p>'
)

# Health, metrics and pages


async def get_index(_: Exchange) -> Response:
    return Response(_INDEX, media_type="text/html; charset=utf-8")


async def get_health(exchange: Exchange) -> Response:
    """Answer a health check, with the parts that the query asks for."""
    # On the loop, without a thread: it must answer while all threads are busy or stuck.
    return health.get_health(exchange.service.health, exchange.parameters)


async def get_policy_health(exchange: Exchange) -> Response:
    """Answer a health check by the policy at this path."""
    service = exchange.service
    return await service.probes.run(
        health.get_health_policy, service.pdp, service.health, exchange.path
    )


async def get_metrics(exchange: Exchange) -> Response:
    service = exchange.service
    return await service.probes.run(health.get_metrics, service.metrics, service.health)


async def get_openapi(exchange: Exchange) -> Response:
    """Return the OpenAPI document of the routes."""
    from doorward.rest import openapi  # few ask for it

    document = openapi.document(exchange.service.routes)
    return json_answer(ordered_text(document), pretty=exchange.parameters.flag("pretty"))


async def get_console(exchange: Exchange) -> Response:
    """Answer a request to the console; 404 if there is none."""
    console = exchange.service.console
    return unknown_path() if console is None else await console(exchange.request, exchange.path)


# Documents


async def get_document(exchange: Exchange) -> Response:
    pdp, params, context = exchange.service.pdp, exchange.parameters, exchange.context()
    return await exchange.run(lambda: data.get_v1(pdp, exchange.path, params, context))


async def post_document(exchange: Exchange) -> Response:
    pdp, params, context = exchange.service.pdp, exchange.parameters, exchange.context()
    return await exchange.read(lambda body: data.post_v1(pdp, exchange.path, params, body, context))


async def post_v0_document(exchange: Exchange) -> Response:
    """Answer a v0 request with the document at this path."""
    return await _decide_v0(exchange, exchange.path)


async def post_default(exchange: Exchange) -> Response:
    """Answer a v0 request with the document of `default_decision`."""
    return await _decide_v0(exchange, exchange.service.config.default_path)


async def _decide_v0(exchange: Exchange, path: tuple[str, ...]) -> Response:
    """Answer a v0 request, whose whole body is the input; a body that is not JSON is a 400."""
    pdp, params, context = exchange.service.pdp, exchange.parameters, exchange.context()
    try:
        return await exchange.read(lambda body: data.post_v0(pdp, path, params, body, context))
    except BadRequest as error:
        # From reading and decompressing the body; `post_v0` refuses a malformed document in the
        # same words.
        return exchange.zip(bad_request(f"unexpected parse error for input: {error}"))


async def post_batch(exchange: Exchange) -> Response:
    """Decide all inputs of a batch."""
    pdp, params, context = exchange.service.pdp, exchange.parameters, exchange.context()
    return await exchange.read(
        lambda body: batch.post_batch(pdp, exchange.path, params, body, context)
    )


async def change_data(exchange: Exchange) -> Response:
    """Answer PUT or PATCH of a document."""
    store, path, params = exchange.service.store, exchange.path, exchange.parameters
    only_new = exchange.request.headers.get("if-none-match") == "*"

    def change(body: Body) -> Response:
        """Write or patch the data, and return the response."""
        if exchange.request.method == "PATCH":
            return writes.patch_data(store, path, params, body.text, serves=exchange.service.serves)
        return writes.put_data(store, path, params, body.text, only_new=only_new)

    return await exchange.read(change, exchange.service.changes)


async def remove_data(exchange: Exchange) -> Response:
    store, path, params = exchange.service.store, exchange.path, exchange.parameters
    return await exchange.service.changes.run(writes.delete_data, store, path, params)


# Policies, queries, filters


async def get_policies(exchange: Exchange) -> Response:
    service = exchange.service
    return await service.workers.run(policies.get_policies, service.store, exchange.parameters)


async def get_policy(exchange: Exchange) -> Response:
    service, name = exchange.service, "/".join(exchange.path)
    return await service.workers.run(policies.get_policy, service.store, name, exchange.parameters)


async def put_policy(exchange: Exchange) -> Response:
    """Create or replace a policy."""
    store, name, params = exchange.service.store, "/".join(exchange.path), exchange.parameters
    started = perf_counter_ns()

    def put(body: Body) -> Response:
        elapsed = perf_counter_ns() - started
        return policies.put_policy(store, name, params, body.text, elapsed)

    return await exchange.read(put, exchange.service.changes)


async def delete_policy(exchange: Exchange) -> Response:
    """Delete a policy."""
    service, name = exchange.service, "/".join(exchange.path)
    return await service.changes.run(
        policies.delete_policy, service.store, name, exchange.parameters
    )


async def get_query(exchange: Exchange) -> Response:
    service, params, context = exchange.service, exchange.parameters, exchange.context()
    return await service.workers.run(query.get_query, service.pdp, params, context)


async def post_query(exchange: Exchange) -> Response:
    pdp, params, context = exchange.service.pdp, exchange.parameters, exchange.context()
    return await exchange.read(lambda body: query.post_query(pdp, params, body.text, context))


async def post_compile(exchange: Exchange) -> Response:
    """Evaluate a query partially, and return the residual queries."""
    pdp, params = exchange.service.pdp, exchange.parameters

    def post(body: Body) -> Response:
        """Evaluate the query partially, and return the response."""
        from doorward.rest import compile  # few ask for it, and it loads partial evaluation

        return compile.post_compile(pdp, params, body.text)

    return await exchange.read(post)


async def find_filters(exchange: Exchange) -> Response:
    """Redirect to the path with a final slash, as OPA's router does for GET /v1/compile."""
    return exchange.zip(redirect(307, "/v1/compile/", exchange.request.method))


async def filter_document(exchange: Exchange) -> Response:
    """Answer POST /v1/compile/PATH with the policy as a filter of rows."""
    pdp, params, context = exchange.service.pdp, exchange.parameters, exchange.context()
    accept = exchange.request.headers.get("accept", "")

    def post(body: Body) -> Response:
        """Translate the document to filters, and return the response."""
        from doorward.rest import filters  # few ask for it, and it loads partial evaluation

        serves = exchange.service.serves
        return filters.post_filter(
            pdp, exchange.path, params, body.text, accept, context, serves=serves
        )

    return await exchange.read(post)


# The server itself


async def get_config(exchange: Exchange) -> Response:
    """Return the active configuration, without credentials, in a member `result`."""
    text = object_text({"result": marshal(active_config(exchange.service.config))})
    return json_answer(text, pretty=exchange.parameters.flag("pretty"))


async def get_status(exchange: Exchange) -> Response:
    """Return the last status document; an error if status is not configured."""
    status = exchange.service.status
    if status is None or not status.is_enabled:
        return internal_error("status plugin not enabled")
    text = object_text({"result": marshal(from_python(status.document()))})
    return json_answer(text, pretty=exchange.parameters.flag("pretty"))


# AuthZEN


async def evaluate(exchange: Exchange) -> Response:
    """Answer one AuthZEN evaluation."""
    return await _evaluate(exchange, many=False)


async def evaluate_many(exchange: Exchange) -> Response:
    """Answer a batch of AuthZEN evaluations."""
    return await _evaluate(exchange, many=True)


async def _evaluate(exchange: Exchange, *, many: bool) -> Response:
    """Answer an AuthZEN evaluation, with `many` a batch; the decisions are logged."""
    service, context = exchange.service, exchange.context()
    return await exchange.read(
        lambda body: authzen.post_evaluation(
            service.pdp, service.config.authzen, body, context, many=many
        )
    )


def search(kind: str) -> Endpoint:
    """Return the endpoint of a search for `kind`: `subject`, `resource` or `action`."""

    async def post_search(exchange: Exchange) -> Response:
        """Answer an AuthZEN search for one kind of entity."""
        service, context = exchange.service, exchange.context()

        def post(body: Body) -> Response:
            """Answer the search; runs in a worker thread."""
            from doorward.rest import authzen_search  # few ask for it

            options = service.config.authzen
            return authzen_search.post_search(service.pdp, options, kind, body, context)

        return await exchange.read(post)

    return post_search


async def get_metadata(exchange: Exchange) -> Response:
    return authzen.get_metadata(exchange.service.config.authzen, exchange.path)
