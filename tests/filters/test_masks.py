"""Masked columns stay in the database, or out of answers; what is not a mask is an error."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import sqlalchemy
from fastapi import Depends, FastAPI
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from starlette.testclient import TestClient

from doorward.enforcement.rows import masks_of_rows
from doorward.filters import FilterError, Masks, read_masks
from doorward.filters.sqlalchemy import without_masked
from doorward.integrations.fastapi import column_masks, install
from doorward.pdp import from_modules
from doorward.rego import EvalError

POLICY = """package m

masks.docs.salary := {"replace": {"value": null}} if not input.manager

masks.docs.salary := {} if input.manager

wrong := {"docs": ["salary"]}

both := {} if input.a

both := {"docs": {}} if input.a
"""


class Base(DeclarativeBase):
    """The mapped classes."""


class Doc(Base):
    """A row."""

    __tablename__ = "docs"
    id: Mapped[int] = mapped_column(primary_key=True)
    salary: Mapped[int]


def test_a_rule_names_the_columns_that_are_masked() -> None:
    with from_modules({"m.rego": POLICY}) as point:
        assert masks_of_rows(point.snapshot, "m/masks", {}).of("docs") == {"salary"}
        manager = masks_of_rows(point.snapshot, "m/masks", {"manager": True})
        assert manager.of("docs") == manager.of("others") == frozenset()
        with pytest.raises(FilterError, match="must be an object of tables"):
            masks_of_rows(point.snapshot, "m/wrong", {})
        with pytest.raises(FilterError, match="m/mask, which names masked columns, does not exist"):
            masks_of_rows(point.snapshot, "m/mask", {})
        with pytest.raises(EvalError):
            masks_of_rows(point.snapshot, "m/both", {"a": 1})


@pytest.mark.parametrize("mask", [True, None, {"hide": True}, {"replace": {}, "more": 1}])
def test_what_is_not_a_mask_is_an_error(mask: Any) -> None:
    with pytest.raises(FilterError, match=r"the mask of docs\.salary must be `\{\}`"):
        read_masks({"docs": {"salary": mask}})


def test_a_query_leaves_masked_columns_in_the_database() -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add(Doc(salary=7))
        session.flush()
        session.expunge_all()
        query = sqlalchemy.select(Doc).options(*without_masked(Doc, {"salary"}))
        doc = session.scalars(query).one()
        with pytest.raises(sqlalchemy.exc.InvalidRequestError):
            assert doc.salary
    with pytest.raises(LookupError, match="no column wages"):
        without_masked(Doc, {"wages"})
    engine.dispose()


def test_an_answer_has_no_masked_columns() -> None:
    app = FastAPI()
    dependency = Depends(
        column_masks("m/masks", input=lambda c: {"manager": "m" in c.query_params})
    )

    async def read_rows(masks: Any) -> list[dict[str, Any]]:
        return list(masks.drop_all("docs", [{"id": 1, "salary": 7}]))

    read_rows.__annotations__["masks"] = Annotated[Masks, dependency]
    app.get("/")(read_rows)
    with from_modules({"m.rego": POLICY}) as point:
        install(app, point)
        client = TestClient(app)
        assert client.get("/").json() == [{"id": 1}]
        assert client.get("/?m=1").json() == [{"id": 1, "salary": 7}]
