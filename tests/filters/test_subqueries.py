"""Subqueries of mapped classes: those of a `column_property` or a relationship are about the row
that a policy asks, however deep the condition stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import ForeignKey, and_, create_engine, exists, func, select
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    aliased,
    column_property,
    foreign,
    mapped_column,
    relationship,
)

from doorward.filters import Conditions, to_conditions
from doorward.filters.sqlalchemy import document_of, where
from doorward.rego import Engine, from_python


class Base(DeclarativeBase):
    pass


class Note(Base):
    __tablename__ = "notes"
    id: Mapped[int] = mapped_column(primary_key=True)
    doc_id: Mapped[int] = mapped_column(ForeignKey("docs.id"))


class Doc(Base):
    __tablename__ = "docs"
    id: Mapped[int] = mapped_column(primary_key=True)
    level: Mapped[int]
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("docs.id"))
    parent: Mapped[Doc | None] = relationship(remote_side=[id])
    notes: Mapped[list[Note]] = relationship(viewonly=True)


_OTHER = aliased(Note)
_COUNT: Any = select(func.count(Note.id)).where(Note.doc_id == Doc.id)
_LAST: Any = select(func.max(_OTHER.id)).where(_OTHER.doc_id == Doc.id)
MORE: dict[str, Any] = {
    "count": column_property(_COUNT.scalar_subquery()),
    "noted": column_property(exists().where(Note.doc_id == Doc.id)),
    "total": column_property(select(func.count(_OTHER.id)).scalar_subquery()),
    "same": column_property(select(func.count(Doc.id)).scalar_subquery()),
    "last": relationship(
        Note,
        primaryjoin=and_(Doc.id == foreign(Note.doc_id), Note.id == _LAST.scalar_subquery()),
        viewonly=True,
        uselist=False,
    ),
}
for _name, _attribute in MORE.items():
    setattr(Doc, _name, _attribute)


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    database = create_engine("sqlite://")
    Base.metadata.create_all(database)
    with Session(database) as session:
        for number in range(1, 20):
            parent = number * 7 % number // 2 or number // 3 or None
            session.add(Doc(id=number, level=number % 3, parent_id=parent))
        session.flush()
        session.add_all([Note(doc_id=number * number % 19 + 1) for number in range(12)])
        session.flush()
        yield session
    database.dispose()


def _filtered(body: str) -> tuple[Conditions, Any]:
    engine = Engine({"f.rego": f"package f\n\nallow if {{ {body} }}\n"})
    left = engine.partial("data.f.allow", ["input.docs"], only_truth=True)
    return to_conditions(left), engine.prepare("data.f.allow")


@pytest.mark.parametrize("is_alias", [False, True])
@pytest.mark.parametrize(
    "body",
    [
        "input.docs.count == 2",
        "input.docs.parent.count == 1",
        "input.docs.parent.count != input.docs.count",
        "input.docs.parent.level < input.docs.count",
        "some note in input.docs.notes; note.id > input.docs.count",
        "some note in input.docs.parent.notes; note.id > 2; not input.docs.noted",
        "input.docs.parent.level < input.docs.total",
        "input.docs.parent.parent.level < input.docs.same",
        "input.docs.last.id > 3",
        "input.docs.parent.last.id > input.docs.last.id",
        "not input.docs.parent.last.id > input.docs.count",
    ],
)
def test_a_subquery_is_about_the_row_that_is_asked(
    session: Session, body: str, is_alias: bool
) -> None:
    conditions, query = _filtered(body)
    entity: Any = aliased(Doc) if is_alias else Doc
    relations = ["parent.parent", "parent.last", "parent.notes", "notes", "last"]
    allowed = {
        doc.id
        for doc in session.scalars(select(Doc))
        if query.value(from_python({"docs": document_of(doc, relations)}, copy=True)) is True
    }
    assert 0 < len(allowed) < 19
    assert set(session.scalars(select(entity.id).where(where(conditions, {"docs": entity})))) == (
        allowed
    )
