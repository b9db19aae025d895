"""Documents of many tenants in PostgreSQL: lists, pages, counts and changes of many rows go through
one policy, which decides on each row as well.

    DATABASE_URL=postgresql+psycopg://localhost/docs uvicorn --app-dir examples/tenants app:app
"""

from __future__ import annotations

import enum
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID, uuid4

from fastapi import Depends, FastAPI, HTTPException
from sqlalchemy import ARRAY, DateTime, ForeignKey, Text, delete, func, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    mapped_column,
    relationship,
    selectinload,
    with_loader_criteria,
)
from starlette.requests import HTTPConnection

from doorward.filters.sqlalchemy import document_of
from doorward.integrations.fastapi import DENIALS, install, require, row_filter
from doorward.pdp import from_folder

PAGE = 20
DATABASE = os.environ.get("DATABASE_URL", "postgresql+psycopg://localhost/docs")


class Status(enum.Enum):
    """The policy sees the value, the database holds the name."""

    DRAFT = "draft"
    PUBLIC = "public"
    ARCHIVED = "archived"


class Base(DeclarativeBase):
    """The mapped classes."""


class Folder(Base):
    """What documents are in."""

    __tablename__ = "folders"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    docs: Mapped[list[Doc]] = relationship(back_populates="folder")


class Doc(Base):
    """A document."""

    __tablename__ = "docs"
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    tenant: Mapped[UUID]
    owner: Mapped[str]
    status: Mapped[Status] = mapped_column(default=Status.DRAFT)
    expires_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())
    readers: Mapped[list[str]] = mapped_column(ARRAY(Text), default=list)
    folder_id: Mapped[int | None] = mapped_column(ForeignKey("folders.id"))
    folder: Mapped[Folder | None] = relationship(back_populates="docs")


engine = create_async_engine(DATABASE)
make_session = async_sessionmaker(engine, expire_on_commit=False)
point = from_folder(Path(__file__).resolve().parent / "policy.rego").watch()


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Make the tables where they are not there."""
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    yield
    await engine.dispose()


app = FastAPI(title="Documents of tenants", lifespan=lifespan)
install(app, point)


async def open_session() -> AsyncIterator[AsyncSession]:
    """A session for one request."""
    async with make_session() as session:
        yield session


def who(connection: HTTPConnection) -> dict[str, Any]:
    """What the policy knows of a request; put your authentication here."""
    headers = connection.headers
    return {"user": headers.get("x-demo-user", ""), "tenant": headers.get("x-demo-tenant", "")}


Session = Annotated[AsyncSession, Depends(open_session)]
Readable = Annotated[Any, Depends(row_filter("docs/read", {"docs": Doc}, input=who))]
Changeable = Annotated[Any, Depends(row_filter("docs/change", {"docs": Doc}, input=who))]


async def about(connection: HTTPConnection) -> dict[str, Any]:
    """The input of a decision on one document: what lists compare, of one row."""
    async with make_session() as session:
        doc = await session.get(Doc, UUID(connection.path_params["id"]))
    if doc is None:
        raise HTTPException(404)
    return {**who(connection), "docs": document_of(doc, [])}


@app.get("/documents")
async def list_docs(
    session: Session, readable: Readable, after: str = ""
) -> dict[str, list[dict[str, Any]]]:
    """A page. It begins behind a row and not at a number, so that none is left out or comes twice
    when others are added."""
    order = tuple_(Doc.created_at, Doc.id)
    query = select(Doc).where(readable).order_by(Doc.created_at, Doc.id).limit(PAGE)
    if after:
        moment, _, last = after.partition("/")
        query = query.where(order > (datetime.fromisoformat(moment), UUID(last)))
    docs = (await session.scalars(query)).all()
    return {
        "docs": [
            {
                "id": str(doc.id),
                "owner": doc.owner,
                "after": f"{doc.created_at.isoformat()}/{doc.id}",
            }
            for doc in docs
        ]
    }


@app.get("/documents/count")
async def count_docs(session: Session, readable: Readable) -> int:
    """How many the user may read."""
    return await session.scalar(select(func.count()).select_from(Doc).where(readable)) or 0


@app.get("/folders")
async def list_folders(session: Session, readable: Readable) -> dict[str, list[str]]:
    """Folders with the documents in them that the user may read: on every way to a document."""
    query = (
        select(Folder)
        .options(
            selectinload(Folder.docs), with_loader_criteria(Doc, readable, include_aliases=True)
        )
        .order_by(Folder.name)
    )
    folders = (await session.scalars(query)).all()
    return {folder.name: [str(doc.id) for doc in folder.docs] for folder in folders}


@app.post("/documents/archive")
async def archive_docs(session: Session, changeable: Changeable) -> int:
    """Archive what the user may change."""
    changed = await session.execute(
        update(Doc)
        .where(changeable, Doc.status != Status.ARCHIVED)
        .values(status=Status.ARCHIVED)
        .returning(Doc.id)
    )
    count = len(changed.all())
    await session.commit()
    return count


@app.delete("/documents/archived")
async def delete_docs(session: Session, changeable: Changeable) -> int:
    """Delete what is archived and the user may change."""
    gone = await session.execute(
        delete(Doc).where(changeable, Doc.status == Status.ARCHIVED).returning(Doc.id)
    )
    count = len(gone.all())
    await session.commit()
    return count


@app.get(
    "/documents/{id}", responses=DENIALS, dependencies=[Depends(require("docs/read", input=about))]
)
async def read_doc(id: UUID, session: Session) -> dict[str, Any]:
    """One document."""
    doc = await session.get_one(Doc, id)
    return {"id": str(doc.id), "owner": doc.owner, "status": doc.status.value}
