"""The applications of examples/: their lists hold what their decisions allow."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy
from starlette.testclient import TestClient
from tests.people.conftest import postgresql, postgresql_server

from doorward.filters.sqlalchemy import describe, document_of
from doorward.testing.filters import assert_filter_matches

__all__ = ["postgresql", "postgresql_server"]

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
OURS = UUID(int=7)


@contextmanager
def example(name: str) -> Iterator[Any]:
    """The module of an example, which is forgotten afterwards."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / name / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        with module.point:
            yield module
    finally:
        del sys.modules[spec.name]


@pytest.fixture
def tenants(postgresql: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    url = postgresql.replace("postgresql:", "postgresql+psycopg:")
    monkeypatch.setenv("DATABASE_URL", url)
    with example("tenants") as module:
        module.sync_engine = sqlalchemy.create_engine(url)
        module.Base.metadata.create_all(module.sync_engine)
        yield module
        module.Base.metadata.drop_all(module.sync_engine)
        module.sync_engine.dispose()


def fill(module: Any) -> None:
    now = datetime.now(UTC)
    later, before = now + timedelta(hours=1), now - timedelta(hours=1)
    folder = module.Folder(name="plans")
    status = module.Status
    rows = [
        module.Doc(tenant=OURS, owner="ann", status=status.DRAFT, folder=folder),
        module.Doc(tenant=OURS, owner="bob", status=status.PUBLIC, folder=folder),
        module.Doc(tenant=OURS, owner="bob", status=status.PUBLIC, expires_at=later),
        module.Doc(tenant=OURS, owner="bob", status=status.PUBLIC, expires_at=before),
        module.Doc(tenant=OURS, owner="bob", readers=["ann", "cyd"], folder=folder),
        module.Doc(tenant=OURS, owner="bob", folder=folder),
        module.Doc(tenant=UUID(int=8), owner="ann", status=status.PUBLIC, folder=folder),
    ]
    with sqlalchemy.orm.Session(module.sync_engine) as session:
        session.add_all(rows)
        session.commit()


def test_documents_of_tenants(tenants: Any) -> None:
    fill(tenants)
    headers = {"x-demo-user": "ann", "x-demo-tenant": str(OURS)}
    with TestClient(tenants.app, headers=headers) as client:
        page = client.get("/documents").json()["docs"]
        assert sorted(doc["owner"] for doc in page) == ["ann", "bob", "bob", "bob"]
        assert client.get("/documents/count").json() == 4
        rest = client.get("/documents", params={"after": page[1]["after"]}).json()["docs"]
        assert [doc["id"] for doc in rest] == [doc["id"] for doc in page[2:]]
        assert len(client.get("/folders").json()["plans"]) == 3
        assert client.get(f"/documents/{page[0]['id']}").status_code == 200
        other = {"x-demo-user": "ann", "x-demo-tenant": str(UUID(int=9))}
        assert client.get(f"/documents/{page[0]['id']}", headers=other).status_code == 403
        assert client.get("/documents", headers=other).json() == {"docs": []}
        assert client.post("/documents/archive").json() == 1
        assert client.delete("/documents/archived").json() == 1
        assert client.get("/documents/count").json() == 3


@pytest.mark.parametrize("path", ["docs/read", "docs/change"])
def test_lists_of_tenants_hold_what_decisions_allow(tenants: Any, path: str) -> None:
    fill(tenants)
    inputs = [
        {"user": user, "tenant": str(tenant)}
        for user in ("ann", "bob", "cyd", "")
        for tenant in (OURS, UUID(int=8), "x")
    ]
    with sqlalchemy.orm.Session(tenants.sync_engine) as session:
        rows = session.scalars(sqlalchemy.select(tenants.Doc)).all()
        counts = assert_filter_matches(tenants.point, rows, inputs, path=path, table="docs")
    assert max(counts) > min(counts) == 0


def test_notes() -> None:
    with example("flask") as module:
        client = module.app.test_client()
        headers = {"x-demo-user": "ann"}
        assert client.get("/notes", headers=headers).json == ["mine", "for all"]
        assert client.get("/notes/2", headers=headers).text == "for all"
        assert client.get("/notes/3", headers=headers).status_code == 403
        assert client.get("/notes/9", headers=headers).status_code == 404
        with sqlalchemy.orm.Session(module.engine) as session:
            rows = session.scalars(sqlalchemy.select(module.Note)).all()
            users = [{"user": "ann"}, {"user": "bob"}, {}]
            counts = assert_filter_matches(
                module.point, rows, users, path="notes/read", table="notes"
            )
        assert counts == [2, 2, 1]
        # Flask's own server answers each request in a thread.
        with ThreadPoolExecutor(1) as threads:
            listed = threads.submit(client.get, "/notes", headers=headers).result()
        assert listed.json == ["mine", "for all"]
        module.engine.dispose()


def test_documents_of_examples_have_the_keys_of_their_filters(tenants: Any) -> None:
    fill(tenants)
    with sqlalchemy.orm.Session(tenants.sync_engine) as session:
        check_keys(session, tenants.Doc, tenants.Folder)
    with example("flask") as module:
        with sqlalchemy.orm.Session(module.engine) as session:
            check_keys(session, module.Note)
        module.engine.dispose()


def check_keys(session: Any, *models: Any) -> None:
    for model in models:
        row = session.scalars(sqlalchemy.select(model)).first()
        columns = {each.key: each.columns[0].type for each in model.__mapper__.column_attrs}
        compared = {name for name, type_ in columns.items() if describe(type_).kind is not None}
        relations = set(model.__mapper__.relationships.keys())
        assert set(document_of(row)) == compared | relations, model


def test_help_desk() -> None:
    program = [sys.executable, "-m", "tests.integrations.helpdesk_program"]
    done = subprocess.run(program, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["ann"] == ["no link on port 7", "new cable", "phone rings twice"]
    assert result["bob"] == ["printer is out of paper", "phone rings twice"]
    assert result["counts"] == [4, 3, 2, 0]
    assert result["pages"] == [200, 200, 302, 200]
