"""Persons become rows of one table, in SQLite or PostgreSQL, through SQLAlchemy.

The only module that knows SQL. Safe to call from many threads. Ids are decimal strings that are
assigned once and never used again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import sqlalchemy as sql
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.pool import QueuePool

from people.person import NewPerson, Person

DEFAULT_URL: Final = "sqlite:///people.db"
PAGE: Final = 1000
SAMPLE: Final = (NewPerson("John", "Doe"), NewPerson("Jane", "Doe"))
WAIT: Final = 5  # seconds for a connection, a lock or a statement
_ID: Final = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)  # what a 64-bit row number can be

_metadata = sql.MetaData()
_people = sql.Table(
    "people",
    _metadata,
    # SQLite makes row numbers that are never reused only of an INTEGER primary key.
    sql.Column(
        "id",
        sql.BigInteger().with_variant(sql.Integer(), "sqlite"),
        sql.Identity(),
        primary_key=True,
    ),
    sql.Column("firstname", sql.Unicode(200), nullable=False),
    sql.Column("lastname", sql.Unicode(200), nullable=False),
    sqlite_autoincrement=True,
)


class PeopleStore:
    """The table of people behind one database URL."""

    def __init__(self, url: str = DEFAULT_URL) -> None:
        self._engine = _create_engine(read_url(url))
        _metadata.create_all(self._engine)

    def add_sample(self) -> None:
        """Put John and Jane Doe into a table that holds nobody."""
        if not self.list_people():
            for person in SAMPLE:
                self.add(person)

    def list_people(self, *, after: str = "0") -> list[Person]:
        """Up to `PAGE` people, in the order of their ids, from the one after id `after`."""
        query = (
            sql.select(_people).where(_people.c.id > int(after)).order_by(_people.c.id).limit(PAGE)
        )
        with self._engine.connect() as connection:
            return [_to_person(row) for row in connection.execute(query)]

    def find(self, person_id: str) -> Person | None:
        """The person with that id, if there is one."""
        if not is_id(person_id):
            return None
        query = sql.select(_people).where(_people.c.id == int(person_id))
        with self._engine.connect() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else _to_person(row)

    def add(self, person: NewPerson) -> Person:
        """Store a person and give it an id."""
        statement = (
            sql.insert(_people)
            .values(firstname=person.firstname, lastname=person.lastname)
            .returning(_people.c.id)
        )
        with self._engine.begin() as connection:
            number = connection.execute(statement).scalar_one()
        return Person(str(number), person.firstname, person.lastname)

    def delete(self, person_id: str) -> bool:
        """Remove the person with that id; whether there was one."""
        if not is_id(person_id):
            return False
        statement = sql.delete(_people).where(_people.c.id == int(person_id))
        with self._engine.begin() as connection:
            return connection.execute(statement).rowcount == 1

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()


def is_id(text: str) -> bool:
    """Whether the text is written as ids are, so that one person has one address only."""
    return _ID.fullmatch(text) is not None


def read_url(text: str) -> URL:
    """A database URL; `:memory:` and `postgres://…`, as people write them, included."""
    if text == ":memory:":
        return make_url("sqlite://")
    url = make_url(text)
    if url.drivername in {"postgres", "postgresql"}:
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in {"sqlite", "postgresql"}:
        raise ValueError(f"`{url.get_backend_name()}` is not a database that this service keeps")
    return url


def _create_engine(url: URL) -> Engine:
    if url.get_backend_name() == "postgresql":
        return sql.create_engine(
            url,
            pool_pre_ping=True,
            pool_timeout=WAIT,
            connect_args={
                "connect_timeout": WAIT,
                "options": f"-c statement_timeout={WAIT * 1000} -c lock_timeout={WAIT * 1000}",
            },
        )
    in_memory = url.database in {None, "", ":memory:"}
    engine = sql.create_engine(
        url,
        # A database in memory lives in its connection: there is one, and threads take turns.
        poolclass=QueuePool,
        pool_size=1 if in_memory else 5,
        max_overflow=0,
        pool_timeout=WAIT,
        connect_args={"check_same_thread": False, "timeout": WAIT},
    )
    if not in_memory:
        sql.event.listen(engine, "connect", _use_write_ahead_log)
    return engine


def _use_write_ahead_log(connection: Any, _record: Callable[..., Any]) -> None:
    # Readers do not wait for the writer.
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.close()


def _to_person(row: sql.Row[Any]) -> Person:
    return Person(str(row.id), row.firstname, row.lastname)
