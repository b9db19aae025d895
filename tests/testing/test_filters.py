"""The fixture that compares the lists of an application with its decisions."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from doorward.enforcement.rows import conditions_of_rows
from doorward.filters import FilterError
from doorward.testing import filters

POLICY = """package docs

default read := false

read if input.doc.owner == input.user

read if {
	input.doc.level <= 1
	not input.doc.hidden == true
}
"""
ROWS: list[dict[str, Any]] = [
    {"id": 1, "owner": "ann", "level": 9, "hidden": True, "at": b"x"},
    {"id": 2, "owner": "bob", "level": 1, "hidden": None, "at": b"x"},
    {"id": 3, "owner": None, "level": 1.5, "hidden": False, "at": b"x"},
]
INPUTS = [{"user": "ann"}, {"user": "bob"}, {}]


class Base(DeclarativeBase):
    pass


class Doc(Base):
    __tablename__ = "fixture_docs"
    id: Mapped[int] = mapped_column(primary_key=True)
    owner: Mapped[str | None]
    level: Mapped[float | None]
    hidden: Mapped[bool | None]
    at: Mapped[bytes]


def test_rows_of_mappings_are_compared(assert_filter_matches: Any) -> None:
    counts = assert_filter_matches(POLICY, ROWS, INPUTS, path="docs/read", table="doc")
    assert counts == [2, 1, 1]


def test_columns_may_have_any_name(assert_filter_matches: Any) -> None:
    policy = "package docs\n\nread if input.doc.Row == input.user\n"
    rows = [{"Row": "ann", "row_": 1}, {"Row": "bob", "row_": 2}]
    users = [{"user": "ann"}, {"user": "eve"}]
    counts = assert_filter_matches(policy, rows, users, path="docs/read", table="doc")
    assert counts == [1, 0]


def test_rows_of_sqlalchemy_are_compared(assert_filter_matches: Any) -> None:
    database = create_engine("sqlite://")
    Base.metadata.create_all(database)
    with Session(database) as session:
        session.add_all([Doc(**row) for row in ROWS])
        session.flush()
        rows = session.scalars(select(Doc)).all()
        counts = assert_filter_matches(
            POLICY, rows, INPUTS, path="docs/read", table="doc", nulls="undefined"
        )
    database.dispose()
    assert counts == [2, 1, 1]


def test_a_list_that_differs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def wider(*arguments: Any) -> Any:
        return (*conditions_of_rows(*arguments), ())

    monkeypatch.setattr(filters, "conditions_of_rows", wider)
    with pytest.raises(AssertionError, match=r"input 0: 1 rows are listed and refused: .*'id': 3"):
        filters.assert_filter_matches(POLICY, ROWS, INPUTS, path="docs/read", table="doc")
    monkeypatch.setattr(filters, "conditions_of_rows", lambda *_: ())
    with pytest.raises(AssertionError, match="input 0: 2 rows are allowed and not listed"):
        filters.assert_filter_matches(POLICY, ROWS, INPUTS, path="docs/read", table="doc")


def test_what_cannot_be_compared_is_an_error(assert_filter_matches: Any) -> None:
    with pytest.raises(AssertionError, match="rows must not be empty"):
        assert_filter_matches(POLICY, [], INPUTS, path="docs/read", table="doc")
    policy = "package docs\n\nread if input.doc.at == 1\n"
    with pytest.raises(FilterError, match=r"doc\.at is not declared"):
        assert_filter_matches(policy, ROWS, INPUTS, path="docs/read", table="doc")
