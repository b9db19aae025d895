"""The order of docs/frameworks.md: CORS first, then the policy, then what finds out who asks.

A browser sends no credentials with a preflight, so a policy that needs some would refuse every one;
and a script cannot read a denial without the headers of CORS. What is denied asks no
authentication.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import flask_cors
import pytest
from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.test import Client, override_settings
from django.urls import path
from fastapi import Depends, FastAPI
from flask import Flask, g
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from doorward.integrations import asgi
from doorward.integrations.django import check_settings, get_point
from doorward.integrations.fastapi import install, require
from doorward.integrations.flask import Doorward
from doorward.pdp import DecisionPoint, from_modules

ORIGIN: Final = "https://shop.example"
POLICY: Final = """package envoy.authz

http := input.attributes.request.http

default allow := false

allow if startswith(http.headers.authorization, "Bearer ")
"""
PREFLIGHT: Final = """
allow if {
	http.method == "OPTIONS"
	http.headers.origin
	http.headers["access-control-request-method"]
}
"""
ORDERS: Final = """package orders

default allow := false

allow if input.user == "ann"
"""
PREFLIGHT_HEADERS: Final = {
    "Origin": ORIGIN,
    "Access-Control-Request-Method": "GET",
    "Access-Control-Request-Headers": "authorization",
}
tokens: list[str] = []
"""Those that an authentication was to find the user of."""


@pytest.fixture
def point() -> Iterator[DecisionPoint]:
    tokens.clear()
    with from_modules({"p.rego": POLICY, "o.rego": ORDERS}) as opened:
        yield opened


class Authentication(AuthenticationBackend):
    async def authenticate(self, conn: HTTPConnection) -> Any:
        token = conn.headers.get("authorization", "")
        tokens.append(token)
        return AuthCredentials(), SimpleUser(token.removeprefix("Bearer "))


def check_order(client: Any, *, refuses_others: bool = False) -> None:
    """The answers of a client with `options` and `get`, whatever the framework is."""

    def headers_of(answer: Any) -> Mapping[str, str]:
        return {name.lower(): value for name, value in answer.headers.items()}

    def get(**headers: str) -> Any:
        return client.get("/order", headers={"Origin": ORIGIN, **headers})

    preflight = client.options("/order", headers=PREFLIGHT_HEADERS)
    assert preflight.status_code in (200, 204)
    shown = headers_of(preflight)
    assert shown["access-control-allow-origin"] == ORIGIN
    assert "authorization" in shown["access-control-allow-headers"].lower()
    denied = get()
    assert denied.status_code == 403
    assert headers_of(denied)["access-control-allow-origin"] == ORIGIN
    assert tokens == []
    allowed = get(Authorization="Bearer ann")
    assert (allowed.status_code, tokens) == (200, ["Bearer ann"])
    assert headers_of(allowed)["access-control-allow-origin"] == ORIGIN
    if refuses_others:
        assert get(Authorization="Bearer bob").status_code == 403
    # Without what makes it a preflight, a request is like any other.
    assert client.options("/order").status_code == 403


def test_starlette(point: DecisionPoint) -> None:
    def order(request: Request) -> JSONResponse:
        return JSONResponse({"user": request.user.display_name})

    app = Starlette(
        routes=[Route("/order", order)],
        middleware=[
            Middleware(CORSMiddleware, allow_origins=[ORIGIN], allow_headers=["Authorization"]),
            Middleware(asgi.Authorization, point=point),
            Middleware(AuthenticationMiddleware, backend=Authentication()),
        ],
    )
    with TestClient(app) as client:
        check_order(client)


def test_fastapi(point: DecisionPoint) -> None:
    app = FastAPI()
    install(app, point)
    # The last one that is added is asked first.
    app.add_middleware(AuthenticationMiddleware, backend=Authentication())
    app.add_middleware(asgi.Authorization, point=point)
    app.add_middleware(CORSMiddleware, allow_origins=[ORIGIN], allow_headers=["Authorization"])
    may_read = require("orders/allow", input=lambda each: {"user": each.user.display_name})

    @app.get("/order", dependencies=[Depends(may_read)])
    async def order() -> dict[str, str]:
        return {}

    with TestClient(app) as client:
        check_order(client, refuses_others=True)


def test_flask() -> None:
    tokens.clear()
    app = Flask(__name__)
    flask_cors.CORS(app, origins=[ORIGIN])

    @app.before_request
    def authenticate() -> None:
        from flask import request

        if token := request.headers.get("Authorization"):
            tokens.append(token)
            g.user = token.removeprefix("Bearer ")

    @app.get("/order")
    def order() -> dict[str, str]:
        return {"user": g.user}

    # Flask-CORS adds its headers behind every hook: a rule of the policy lets preflights through.
    with from_modules({"p.rego": POLICY + PREFLIGHT}) as point:
        Doorward(app, point, derive_target=True)
        check_order(app.test_client())


def order_of_django(request: HttpRequest) -> HttpResponse:
    return JsonResponse({"user": request.doorward_user})


class AuthenticateInDjango:
    """Finds out who asks, as Django's own middleware does."""

    def __init__(self, get_response: Any) -> None:
        self._get_response = get_response

    def __call__(self, request: Any) -> Any:
        token = request.headers.get("Authorization", "")
        tokens.append(token)
        request.doorward_user = token.removeprefix("Bearer ")
        return self._get_response(request)


urlpatterns = [path("order", order_of_django)]


def test_django(point: DecisionPoint) -> None:
    changes: dict[str, Any] = {
        "ROOT_URLCONF": __name__,
        "DOORWARD": {**settings.DOORWARD, "POINT": point},
        "CORS_ALLOWED_ORIGINS": [ORIGIN],
        "MIDDLEWARE": [
            "corsheaders.middleware.CorsMiddleware",
            "doorward.integrations.django.PolicyMiddleware",
            f"{__name__}.AuthenticateInDjango",
        ],
    }
    get_point.cache_clear()
    with override_settings(**changes):
        assert not [each for each in check_settings(None) if each.id == "doorward.W001"]
        check_order(Client())
    get_point.cache_clear()
