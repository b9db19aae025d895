"""FastAPI: dependencies that decide, their answers, their place in OpenAPI and in tests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, Form, Request
from sqlalchemy import create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.pool import StaticPool
from starlette.testclient import TestClient
from tests.integrations.servers import TOKENS, people_point

from doorward.enforcement.check import HttpOptions
from doorward.filters import FilterError
from doorward.integrations.asgi import Authorization
from doorward.integrations.fastapi import (
    DENIALS,
    check,
    get_point,
    install,
    require,
    row_filter,
)
from doorward.pdp import Decision, DecisionPoint, from_modules

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/fastapi/app.py"
POLICY = """package p

default allow := false

allow if input.user == "ann"

who := {"allowed": false, "http_status": 401, "headers": {"www-authenticate": "Bearer"},
	"body": "who?"}

wrong := 1

failed := true

failed := false if input.user

body if input.parsed_body.a == 1
"""


def by_user(connection: Any) -> dict[str, Any]:
    return {"user": connection.query_params.get("user")}


async def by_user_later(connection: Any) -> dict[str, Any]:
    return by_user(connection)


def app_with(point: DecisionPoint) -> FastAPI:
    app = FastAPI()
    install(app, point)
    for path in ("allow", "who", "wrong", "failed"):
        Decided = Annotated[Decision, Depends(require(f"p/{path}", input=by_user))]

        async def route(decision: Any) -> str:
            return str(decision.decision_id)

        route.__annotations__["decision"] = Decided
        app.get(f"/{path}", responses=DENIALS)(route)
    later = Depends(require("p/allow", input=by_user_later))

    @app.get("/later", dependencies=[later])
    async def read_later() -> str:
        return ""

    @app.post("/body", dependencies=[Depends(require("p/body"))])
    async def write(document: dict[str, Any]) -> dict[str, Any]:
        return document

    @app.get("/check")
    async def tell(decision: Annotated[Decision, Depends(check("p/allow", input=by_user))]) -> bool:
        return decision.allowed

    return app


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with from_modules({"p.rego": POLICY}) as point:
        yield TestClient(app_with(point))


def test_a_dependency_lets_through_or_answers_as_the_policy_says(client: TestClient) -> None:
    assert len(client.get("/allow?user=ann").json()) == 36
    denied = client.get("/allow?user=bob")
    assert (denied.status_code, denied.json()) == (403, {"detail": "Forbidden"})
    assert client.get("/later?user=ann").status_code == 200
    assert client.get("/later?user=bob").status_code == 403
    who = client.get("/who")
    assert (who.status_code, who.json()) == (401, {"detail": "who?"})
    assert who.headers["www-authenticate"] == "Bearer"


def test_debug_mode_says_why_a_dependency_refuses() -> None:
    app = FastAPI()
    misspelled = Depends(require("p/alow", input=by_user, options=HttpOptions(debug=True)))

    @app.get("/", dependencies=[misspelled])
    async def read_root() -> str:
        return ""

    with from_modules({"p.rego": POLICY}) as point:
        install(app, point)
        answer = TestClient(app).get("/")
    assert answer.status_code == 403
    reason = answer.headers["x-doorward-reason"]
    assert reason == "the path names no rule or data: did you mean p/allow?"


@pytest.mark.parametrize("path", ["/wrong", "/failed?user=ann"])
def test_what_the_policy_cannot_mean_is_denied(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 403


def test_the_input_is_the_sidecars_unless_one_is_given(client: TestClient) -> None:
    assert client.post("/body", json={"a": 1}).json() == {"a": 1}
    assert client.post("/body", json={"a": 2}).status_code == 403
    twice = client.post(
        "/body", content=b'{"a": 2, "a": 1}', headers={"content-type": "application/json"}
    )
    assert twice.status_code == 400
    assert "duplicate JSON key" in twice.json()["detail"]
    assert client.post("/body", json={"a": 1, "b": "x" * 9000}).status_code == 400
    chunked = client.post("/body", content=iter([b'{"a"', b": 1}"]))
    assert "body is cut" in chunked.json()["detail"]


def test_a_body_of_http_2_without_a_length_is_read_up_to_the_limit() -> None:
    app = FastAPI()
    small = Depends(require("p/allow", options=HttpOptions(max_body=9, strict=False)))

    @app.post("/", dependencies=[small])
    async def post(request: Request) -> Any:
        return await request.json()

    async def send(*chunks: bytes) -> tuple[int, bytes, int]:
        """The status and body of the answer, and how many chunks were received for."""
        waiting, sent = list(chunks), []

        async def receive() -> Any:
            body = waiting.pop(0)
            return {"type": "http.request", "body": body, "more_body": bool(waiting)}

        async def answer(message: Any) -> None:
            sent.append(message)

        headers = [(b"content-type", b"application/json"), (b"host", b"a.example")]
        scope = {"type": "http", "http_version": "2", "method": "POST", "headers": headers}
        where = {"path": "/", "raw_path": b"/", "query_string": b"", "scheme": "http"}
        await app({**scope, **where, "server": ("a.example", 80)}, receive, answer)
        return sent[0]["status"], sent[1]["body"], len(chunks) - len(waiting)

    with from_modules({"p.rego": "package p\n\nallow if input.parsed_body.a == 1\n"}) as point:
        install(app, point)
        assert asyncio.run(send(b'{"a"', b":1}")) == (200, b'{"a":1}', 2)
        assert asyncio.run(send(b'{"a"', b":2}"))[0] == 403
        status, body, received = asyncio.run(send(b'{"a":1}', b"   ", b" " * 9, b" "))
    assert (status, received) == (400, 2)
    assert b"more than 9 bytes needs a content-length" in body


def test_the_body_of_a_form_is_seen_behind_the_middleware() -> None:
    """FastAPI reads forms before its dependencies, and keeps none of their bytes."""
    policy = 'package p\n\nallow if input.parsed_body.a == ["1"]\n'
    every = "package envoy.authz\n\nallow := true\n"
    app = FastAPI()

    @app.post("/form", dependencies=[Depends(require("p/allow"))])
    async def form(a: Annotated[int, Form()]) -> int:
        return a

    with from_modules({"p.rego": policy, "e.rego": every}) as point:
        install(app, point)
        with pytest.raises(RuntimeError, match="give the dependency an `input`"):
            TestClient(app).post("/form", data={"a": "1"})
        client = TestClient(Authorization(app, point))
        assert client.post("/form", data={"a": "1"}).json() == 1
        assert client.post("/form", data={"a": "2"}).status_code == 403
        tight = Depends(require("p/allow", options=HttpOptions(max_body=2)))
        app.post("/tight", dependencies=[tight])(form)
        assert "body is cut" in client.post("/tight", data={"a": "1"}).text


def test_a_check_only_tells(client: TestClient) -> None:
    assert client.get("/check?user=ann").json() is True
    assert client.get("/check?user=bob").json() is False


def test_denials_are_in_the_openapi_document(client: TestClient) -> None:
    responses = client.get("/openapi.json").json()["paths"]["/allow"]["get"]["responses"]
    assert {"200", "400", "403"} <= responses.keys()


def test_tests_override_the_decision_point(client: TestClient) -> None:
    app: Any = client.app
    with from_modules({"p.rego": "package p\nallow := true"}) as other:
        app.dependency_overrides[get_point] = lambda: other
        try:
            assert client.get("/allow?user=bob").status_code == 200
        finally:
            app.dependency_overrides.clear()


def test_without_a_decision_point_nothing_is_allowed() -> None:
    app = FastAPI()

    @app.get("/", dependencies=[Depends(require("p/allow"))])
    async def read() -> None:
        return None

    with pytest.raises(LookupError, match="no decision point"):
        TestClient(app).get("/")


def test_one_policy_decides_as_in_the_sidecar() -> None:
    app = FastAPI()
    guard = Depends(require("envoy/authz/allow", options=HttpOptions()))

    @app.api_route("/people", methods=["GET", "POST"], dependencies=[guard])
    async def people() -> None:
        return None

    headers = {"authorization": f"Bearer {TOKENS['admin']}"}
    with people_point() as point:
        install(app, point)
        client = TestClient(app)
        assert client.get("/people", headers=headers).status_code == 200
        assert client.get("/people").status_code == 403
        for name, status in {"Charlie": 200, "Bob": 403}.items():
            person = {"firstname": name, "lastname": "Rego"}
            assert client.post("/people", json=person, headers=headers).status_code == status


class Base(DeclarativeBase):
    pass


class Document(Base):
    __tablename__ = "documents"
    id: Mapped[int] = mapped_column(primary_key=True)
    owner: Mapped[str]
    public: Mapped[bool | None]


DOCUMENTS = """package documents

read if input.doc.public == true

read if input.doc.owner == input.user

loop if {
	some c in split(input.doc.owner, "")
	c == input.user
}
"""


def test_a_list_shows_what_the_policy_lets_through_one_by_one() -> None:
    database = create_engine(
        "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}
    )
    Base.metadata.create_all(database)
    rows = [(1, "ann", False), (2, "bob", True), (3, "bob", None), (4, "ANN", False)]
    with Session(database) as session:
        session.add_all([Document(id=n, owner=owner, public=p) for n, owner, p in rows])
        session.commit()
    app = FastAPI()
    tables = {"doc": Document}
    Clause = Annotated[Any, Depends(row_filter("documents/read", tables, input=by_user))]

    async def listing(clause: Any) -> list[int]:
        with Session(database) as session:
            return list(session.scalars(select(Document.id).where(clause)))

    listing.__annotations__["clause"] = Clause
    app.get("/documents")(listing)
    no_filter = Depends(row_filter("documents/loop", tables, input=by_user_later))
    app.get("/none", dependencies=[no_filter])(lambda: "never")
    with from_modules({"d.rego": DOCUMENTS}) as point:
        install(app, point)
        client = TestClient(app)
        for user in ("ann", "bob", "cid"):
            shown = client.get(f"/documents?user={user}").json()
            one_by_one = [
                n
                for n, owner, public in rows
                if point.decide_now(
                    "documents/read",
                    {"user": user, "doc": {"id": n, "owner": owner, "public": public}},
                ).allowed
            ]
            assert shown == one_by_one
        with pytest.raises(FilterError):
            client.get("/none?user=a")
    database.dispose()


def test_a_route_without_a_decision_is_named(undecided_routes: Any) -> None:
    with from_modules({"p.rego": POLICY}) as point:
        app = app_with(point)

        @app.get("/open/{id}")
        async def forgotten() -> None:
            return None

        documents = ["/docs", "/docs/oauth2-redirect", "/openapi.json", "/redoc"]
        assert undecided_routes(app, public=documents) == ["/open/{id}"]


def test_the_example_decides_on_requests_and_documents(undecided_routes: Any) -> None:
    example = run_path(str(EXAMPLE))
    client = TestClient(example["app"])
    assert client.get("/documents/1").json()["text"] == "hello"
    assert client.get("/documents/2").status_code == 403
    assert client.get("/documents/2", headers={"x-demo-user": "bob"}).status_code == 200
    assert client.get("/documents/3").status_code == 404
    assert client.get("/docs").status_code == 403
    assert undecided_routes(example["app"]) == []
    example["point"].close()
