"""`fastapi-opa`, unchanged: its middleware lets through what the policy allows."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from fastapi_opa import OPAConfig, OPAMiddleware
from fastapi_opa.auth.auth_interface import AuthInterface
from tests.clients.server import serving
from tests.rest.asgi import ask

pytestmark = pytest.mark.system

POLICY = """package httpapi.authz

default allow := false

allow if {
    input.request_method == "GET"
    input.request_path == ["people", input.user]
}
"""


class Known(AuthInterface):  # type: ignore[misc]  # the class has no types
    """Everybody is who they say they are."""

    def authenticate(self, request: object, accepted_methods: object = None) -> dict[str, str]:
        return {"user": request.headers["user"]}  # type: ignore[attr-defined]


def test_the_middleware_follows_the_policy() -> None:
    with serving(authz=POLICY) as port:
        app = FastAPI()
        app.get("/people/{name}")(lambda name: {"name": name})
        guarded = OPAMiddleware(app, OPAConfig(Known(), f"http://127.0.0.1:{port}"))
        allowed = ask(guarded, "GET", "/people/ann", headers={"user": "ann"})
        refused = ask(guarded, "GET", "/people/ann", headers={"user": "bob"})
    assert (allowed.status, allowed.body) == (200, '{"name":"ann"}')
    assert refused.status == 401
