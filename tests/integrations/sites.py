"""Applications that say what they route on and what the policy saw, for the servers of others.

SITE=quart hypercorn tests.integrations.sites:app
"""

from __future__ import annotations

import os
from typing import Any

from doorward.integrations import asgi, wsgi
from doorward.pdp import from_modules

POLICY = """package envoy.authz

http := input.attributes.request.http

allow := {"allowed": true, "headers": {"x-seen": json.marshal({
	"path": http.path,
	"method": http.method,
	"host": http.host,
	"body": object.get(http, "rawBody", ""),
	"headers": [name | some name, _ in http.headers],
})}}
"""
METHODS = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"]
point = from_modules({"p.rego": POLICY})


def said(route: str, method: str, headers: Any, body: bytes) -> dict[str, Any]:
    """The answer of every application."""
    return {
        "route": "/" + route.lstrip("/"),
        "method": method,
        "seen": headers.get("x-seen"),
        "body": body.decode("latin-1"),
    }


def starlette() -> Any:
    """Starlette, and what is mounted in it."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def view(request: Request) -> JSONResponse:
        route, body = request.path_params["rest"], await request.body()
        return JSONResponse(said(route, request.method, request.headers, body))

    app = Starlette(routes=[Route("/{rest:path}", view, methods=METHODS)])
    app.add_middleware(asgi.Authorization, point=point)
    return app


def fastapi(root_path: str = "") -> Any:
    """FastAPI, which knows a root path of its own."""
    from fastapi import FastAPI, Request

    app = FastAPI(root_path=root_path)

    async def view(rest: str, request: Request) -> dict[str, Any]:
        return said(rest, request.method, request.headers, await request.body())

    view.__annotations__["request"] = Request
    app.add_api_route("/{rest:path}", view, methods=METHODS)
    return app


def fastapi_inside() -> Any:
    """The middleware where FastAPI puts it."""
    app = fastapi("/pre")
    app.add_middleware(asgi.Authorization, point=point)
    return app


def fastapi_outside() -> Any:
    """The middleware around it."""
    return asgi.Authorization(fastapi("/pre"), point)


def litestar() -> Any:
    """Litestar."""
    from litestar import Litestar, Request, route

    async def view(request: Request[Any, Any, Any]) -> dict[str, Any]:
        rest = request.path_params.get("rest", "/")
        return said(rest, request.method, request.headers, await request.body())

    view.__annotations__.update({"request": Request, "return": dict})
    methods: Any = METHODS
    decorated = route(["/", "/{rest:path}"], http_method=methods, status_code=200)(view)
    return asgi.Authorization(Litestar([decorated]), point)


def quart() -> Any:
    """Quart."""
    from quart import Quart, request

    app = Quart("site")

    @app.route("/", defaults={"rest": ""}, methods=METHODS)
    @app.route("/<path:rest>", methods=METHODS)
    async def view(rest: str) -> dict[str, Any]:
        body: Any = await request.get_data()
        return said(rest, request.method, request.headers, body)

    app.asgi_app = asgi.Authorization(app.asgi_app, point)  # type: ignore[method-assign]
    return app


def flask() -> Any:
    """Flask."""
    from flask import Flask, request

    app = Flask("site")

    @app.route("/", defaults={"rest": ""}, methods=METHODS)
    @app.route("/<path:rest>", methods=METHODS)
    def view(rest: str) -> dict[str, Any]:
        return said(rest, request.method, request.headers, request.get_data())

    return wsgi.Authorization(app, point)


def pyramid() -> Any:
    """Pyramid."""
    from pyramid.config import Configurator
    from pyramid.request import Request
    from pyramid.response import Response

    def view(request: Request) -> Response:
        rest = "/".join(request.matchdict["rest"])
        return Response(json_body=said(rest, request.method, request.headers, request.body))

    with Configurator() as config:
        config.add_route("all", "/*rest")
        config.add_view(view, route_name="all")
        return wsgi.Authorization(config.make_wsgi_app(), point)


def django() -> Any:
    """Django, with its own middleware."""
    from django.conf import settings
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpRequest, HttpResponse, JsonResponse
    from django.urls import path

    def view(request: HttpRequest, rest: str = "") -> HttpResponse:
        return JsonResponse(said(rest, request.method or "", request.headers, request.body))

    settings.configure(
        ALLOWED_HOSTS=["*"],
        DOORWARD={"POINT": point},
        FORCE_SCRIPT_NAME=os.environ.get("ROOT"),
        MIDDLEWARE=["doorward.integrations.django.PolicyMiddleware"],
        ROOT_URLCONF=type("urls", (), {"urlpatterns": [path("", view), path("<path:rest>", view)]}),
    )
    import django

    django.setup()
    return get_wsgi_application()


_SITES = (
    *(starlette, fastapi, fastapi_inside, fastapi_outside, litestar, quart),
    *(flask, pyramid, django),
)
app = (
    {each.__name__: each for each in _SITES}[os.environ["SITE"]]() if "SITE" in os.environ else None
)
