"""Flask: the hook in front of every request, the decorator, and routes without a decision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask, g, request
from flask.testing import FlaskClient
from tests.integrations.servers import TOKENS, Arrivals, differences, people_point, werkzeug_port
from tests.integrations.test_asgi import POLICY
from tests.integrations.test_wsgi import DIFFERENT

from doorward.integrations.flask import Doorward, requires
from doorward.pdp import from_modules

VIEWS = """package views

default allow := false

allow if input.user == "ann"

who := {"allowed": false, "http_status": 401, "headers": {"www-authenticate": "Bearer"},
	"body": "who?"}

wrong := 1

body if input.parsed_body.a == 1
"""


def constant() -> str:
    return "x"


def test_the_matrix_gets_what_it_gets_through_envoy() -> None:
    arrivals = Arrivals()
    app = Flask(__name__)

    @app.route("/", defaults={"path": ""}, methods=[])
    def nothing(path: str) -> str:
        return path

    @app.before_request
    def arrive() -> Any:
        arrivals.append((request.method, request.path, request.get_data()))
        return ""

    with people_point() as point:
        Doorward(app, point)
        with werkzeug_port(app) as port:
            different = differences(port, arrivals)
    assert different == {name: (envoy, ours) for name, (envoy, ours, _) in DIFFERENT.items()}


@pytest.fixture(scope="module")
def client() -> Iterator[FlaskClient]:
    app = Flask(__name__)
    with from_modules({"p.rego": POLICY, "v.rego": VIEWS}) as point:
        Doorward(app, point, derive_target=True)

        @app.get("/changed")
        def changed() -> dict[str, str]:
            return dict(request.headers)

        @app.get("/open/view")
        @requires("views/allow", input=lambda: {"user": request.args.get("user")})
        def view() -> str:
            return str(g.decision.decision_id)

        for name in ("who", "wrong"):
            app.add_url_rule(f"/open/{name}", name, requires(f"views/{name}")(constant))

        @app.post("/open/body")
        @requires("views/body")
        def body() -> Any:
            return request.get_json()

        yield app.test_client()


def test_the_hook_decides_before_every_view(client: FlaskClient) -> None:
    given = {"X-User": "eve", "X-Forwarded-User": "eve", "Authorization": "x"}
    answer = client.get("/changed", headers=given)
    assert answer.headers["x-decided"] == "yes"
    seen = {name.lower(): value for name, value in answer.get_json().items()}
    assert seen["x-user"] == "ann"
    assert not {"x-forwarded-user", "authorization"} & seen.keys()
    denied = client.get("/nowhere")
    assert (denied.status_code, denied.data) == (403, b"")
    who = client.get("/who")
    assert (who.status_code, who.data) == (401, b"who?")
    assert who.headers["www-authenticate"] == "Bearer"
    assert client.get("/a//b").status_code == 400
    assert client.get("/open/nowhere").status_code == 404


def test_the_decorator_decides_on_a_view(client: FlaskClient) -> None:
    assert len(client.get("/open/view?user=ann").data) == 36
    assert client.get("/open/view?user=bob").status_code == 403
    assert client.get("/open/who").status_code == 401
    assert client.get("/open/wrong").status_code == 403
    assert client.post("/open/body", json={"a": 1}).get_json() == {"a": 1}
    assert client.post("/open/body", json={"a": 2}).status_code == 403
    large = client.post("/open/body", json={"a": 1, "b": "x" * 9000})
    assert b"body is cut" in large.data


def test_a_route_without_a_decision_is_named(undecided_routes: Any) -> None:
    app = Flask(__name__, static_folder=None)
    app.add_url_rule("/a", "a", lambda: "")
    app.add_url_rule("/b", "b", requires("views/allow")(constant))
    assert undecided_routes(app) == ["/a"]
    assert undecided_routes(app, public=["/a"]) == []
    with from_modules({}) as point:
        Doorward(app, point)
    assert undecided_routes(app) == []
    with pytest.raises(TypeError, match="routes of object are not known"):
        undecided_routes(object())


def test_only_marked_views_are_decided_on_where_that_is_said() -> None:
    app = Flask(__name__)
    app.add_url_rule("/a", "a", lambda: "a")
    app.add_url_rule("/b", "b", requires("envoy/authz/allow")(constant))
    with people_point() as point:
        Doorward(app, point, every=False, derive_target=True)
        client = app.test_client()
        assert client.get("/a").status_code == 200
        headers = {"authorization": f"Bearer {TOKENS['admin']}"}
        assert client.get("/b", headers=headers).status_code == 403


def test_an_older_name_still_works_and_says_the_new_one() -> None:
    from doorward.integrations import fastapi, flask

    with pytest.warns(DeprecationWarning, match="flask.filtered is deprecated: use row_filter"):
        assert flask.filtered is flask.row_filter
    with pytest.warns(DeprecationWarning, match="fastapi.masked is deprecated: use column_masks"):
        assert fastapi.masked is fastapi.column_masks
    with pytest.raises(AttributeError, match="no attribute 'filter_rows'"):
        fastapi.filter_rows  # noqa: B018  # there is none
