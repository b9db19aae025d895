"""Notes in SQLite: the list and each note are decided by one policy.

flask --app examples/flask/app.py run
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flask import Flask, abort, request
from sqlalchemy import StaticPool, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from doorward.filters.sqlalchemy import document_of
from doorward.integrations.flask import Doorward, requires, row_filter
from doorward.pdp import from_folder


class Base(DeclarativeBase):
    """The mapped classes."""


class Note(Base):
    """A note."""

    __tablename__ = "notes"
    id: Mapped[int] = mapped_column(primary_key=True)
    owner: Mapped[str]
    visibility: Mapped[str]
    text: Mapped[str]


# One database in memory for all threads of the server.
engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
Base.metadata.create_all(engine)
with Session(engine) as first:
    first.add_all(
        [
            Note(owner="ann", visibility="private", text="mine"),
            Note(owner="bob", visibility="Public", text="for all"),
            Note(owner="bob", visibility="private", text="his"),
        ]
    )
    first.commit()

point = from_folder(Path(__file__).resolve().parent / "policy.rego").watch()
app = Flask(__name__)
Doorward(app, point, every=False)


def who() -> dict[str, Any]:
    """What the policy knows of a request; put your authentication here."""
    return {"user": request.headers.get("x-demo-user", "")}


def about() -> dict[str, Any]:
    """The input of a decision on one note."""
    with Session(engine) as session:
        note = session.get(Note, (request.view_args or {})["id"])
        if note is None:
            abort(404)
        return {**who(), "notes": document_of(note)}


@app.get("/notes")
def list_notes() -> list[str]:
    """What the user may read."""
    clause = row_filter("notes/read", {"notes": Note}, input=who())
    with Session(engine) as session:
        return [note.text for note in session.scalars(select(Note).where(clause))]


@app.get("/notes/<int:id>")
@requires("notes/read", input=about)
def read_note(id: int) -> str:
    """One note."""
    with Session(engine) as session:
        return session.get_one(Note, id).text
