"""Routes without a decision; the frameworks' own are in tests/integrations."""

from __future__ import annotations

from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount, Route, WebSocketRoute

from doorward.integrations.asgi import Authorization
from doorward.pdp import from_modules
from doorward.testing.routes import undecided_routes


async def endpoint(_request: Any) -> None:
    return None


raw: Any = endpoint


async def decided(_request: Any) -> None:
    return None


decided.doorward_decides = True  # type: ignore[attr-defined] # as a decorator would


def test_mounted_applications_are_gone_through() -> None:
    with from_modules({}) as point:
        routes = [
            Route("/a", endpoint),
            Route("/b", decided),
            WebSocketRoute("/ws", endpoint),
            Mount("/m", routes=[Route("/c", endpoint), Route("/d", decided)]),
            Mount("/guarded", Authorization(Starlette(routes=[Route("/e", endpoint)]), point)),
            Mount("/raw", raw),
        ]
        app = Starlette(routes=routes)
        assert undecided_routes(app) == ["/a", "/m/c", "/raw", "/ws"]
        assert undecided_routes(app, public=["/a", "/ws"]) == ["/m/c", "/raw"]
        assert undecided_routes(Authorization(app, point)) == []
        guarded = Starlette(routes=routes, middleware=[Middleware(Authorization, point=point)])
        assert undecided_routes(guarded) == []
