"""Compares lists with decisions: random policies through each way in, on each database.

    python -m tests.filters.row_comparison --seconds 120 --postgresql URL --mariadb PORT

The ways in are `POST /v1/compile/PATH`, `to_sql`, SQLAlchemy and Django. A list must hold exactly
the rows that are allowed one by one; the text of the HTTP interface, which trusts the types of
columns, may leave out rows with NULL. A refusal (FilterError, 400) does not count as a difference.
It is a process of its own since Django's settings are one for a process. Writes one line of JSON
for each difference, and a summary at the end; the exit code is 1 if there were differences.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import time
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import django
import sqlalchemy
from django.conf import settings
from sqlalchemy import (
    ARRAY,
    JSON,
    Boolean,
    Date,
    DateTime,
    Double,
    Enum,
    Integer,
    Numeric,
    String,
    Text,
    Uuid,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from tests.filters.random_policies import (
    COLUMNS,
    Draw,
    document,
    draw_input,
    draw_policy,
    draw_rows,
)

from doorward.enforcement.rows import conditions_of_rows
from doorward.filters import Column, FilterError, to_sql
from doorward.filters.sqlalchemy import where
from doorward.pdp import DecisionPoint, from_modules
from doorward.rego import CompileError, InputError, RegoError, from_python, to_json
from doorward.rest.filters import post_filter
from doorward.rest.requests import parameters

ROWS: Final = 60
INPUTS: Final = 2
SEED: Final = 20261123
PATH: Final = "f/allow"
DECLARED: Final = {"choice": "text", "array": Column("array", item=Column("text"))}
"""Kinds of columns that are declared otherwise."""
Rows: TypeAlias = set[int]
_OWN: Final = {
    "sqlite": " u char(32), d date, e datetime, c varchar(9) collate nocase, m text, g text)",
    "postgresql": " u uuid, d date, e timestamptz, c text collate nocase, m jsonb, g text[])",
    "mysql": " u uuid, d date, e datetime(6), c varchar(9) collate utf8mb4_general_ci,"
    " m longtext, g text)",
}
"""The columns that only applications have: no text of the HTTP interface compares them."""
_DDL: Final = {
    "sqlite": [
        "create table doc (id integer primary key, a numeric, b real, s text collate nocase,"
        " t varchar(9), ok boolean," + _OWN["sqlite"],
        "create table plain (id integer primary key, a numeric, b real, s text, t text,"
        " ok boolean)",
    ],
    "postgresql": [
        "drop table if exists doc",
        "drop table if exists plain",
        "drop collation if exists nocase",
        "create collation nocase"
        " (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        "create table doc (id int primary key, a numeric, b double precision,"
        " s text collate nocase, t text, ok boolean," + _OWN["postgresql"],
        "create table plain (id int primary key, a numeric, b double precision,"
        ' s text collate "C", t text collate "C", ok boolean)',
    ],
    "mysql": [
        "drop table if exists doc",
        "drop table if exists plain",
        "create table doc (id int primary key, a decimal(9,3), b double,"
        " s varchar(20) collate utf8mb4_general_ci, t varchar(20) collate utf8mb4_unicode_nopad_ci,"
        " ok boolean," + _OWN["mysql"] + " character set utf8mb4",
        "create table plain (id int primary key, a decimal(9,3), b double, s varchar(20),"
        " t varchar(20), ok boolean) character set utf8mb4 collate utf8mb4_nopad_bin",
    ],
}

INDEXED: Final = {"doc": ["a", "b", "s", "t", "ok", "u", "d", "e", "c"], "plain": list("abst")}
"""Columns with an index, in which a database looks up what it compares in its own way."""


class Base(DeclarativeBase):
    """The mapped classes of this program."""


class Doc(Base):
    """A row."""

    __tablename__ = "doc"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    a: Mapped[Any] = mapped_column(Numeric, nullable=True)
    b: Mapped[float | None] = mapped_column(Double)
    s: Mapped[str | None] = mapped_column(Text)
    t: Mapped[str | None] = mapped_column(String(20))
    ok: Mapped[bool | None] = mapped_column(Boolean)
    u: Mapped[uuid.UUID | None] = mapped_column(Uuid)
    d: Mapped[datetime.date | None] = mapped_column(Date)
    e: Mapped[datetime.datetime | None] = mapped_column(DateTime(timezone=True))
    c: Mapped[str | None] = mapped_column(Enum("a", "A", "b b", native_enum=False))
    m: Mapped[Any] = mapped_column(JSON().with_variant(JSONB(), "postgresql"), nullable=True)
    g: Mapped[list[str] | None] = mapped_column(ARRAY(Text))


class Refusal(Exception):
    """A filter that was refused."""


@dataclass
class Tally:
    """The number of comparisons, and the differences."""

    policies: int = 0
    filtered: int = 0
    lists: int = 0
    rows: int = 0
    refused: int = 0
    differences: int = 0
    by_way: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)


class Comparison:
    """Databases with the rows, and each way in to them."""

    def __init__(self, rows: list[tuple[Any, ...]], urls: dict[str, str]) -> None:
        self._rows = rows
        self._engines: dict[str, sqlalchemy.Engine] = {}
        for dialect, url in urls.items():
            self._engines[dialect] = engine = sqlalchemy.create_engine(url)
            with engine.begin() as connection:
                for statement in _DDL[dialect]:
                    connection.exec_driver_sql(statement)
                for table, names in INDEXED.items():
                    for name in names:
                        index = f"create index {table}_{name} on {table} ({name})"
                        connection.exec_driver_sql(index)
                mark = "?" if dialect == "sqlite" else "%s"
                for table, count in (("doc", len(COLUMNS) + 1), ("plain", 6)):
                    insert = f"insert into {table} values ({', '.join([mark] * count)})"
                    stored = [_stored(row, dialect)[:count] for row in rows]
                    connection.exec_driver_sql(insert, stored)

    def close(self) -> None:
        for engine in self._engines.values():
            engine.dispose()

    def _selected(self, dialect: str, table: str, condition: str, values: tuple[Any, ...]) -> Rows:
        with self._engines[dialect].connect() as connection:
            # Without parameters no driver looks at percent signs.
            text = f"select id from {table} where {condition}"
            cursor = connection.connection.cursor()
            try:
                cursor.execute(text, values) if values else cursor.execute(text)
                return {number for (number,) in cursor.fetchall()}
            finally:
                cursor.close()

    def entries(
        self, point: DecisionPoint, known: Any, nulls: Any, *, typed: bool
    ) -> Iterator[tuple[str, Callable[[], Rows]]]:
        """Each way in, by its name, as a function that gives the rows or raises a Refusal."""
        for dialect in self._engines:
            yield f"to_sql {dialect}", partial(self._to_sql, point, known, nulls, dialect)
            yield f"sqlalchemy {dialect}", partial(self._mapped, point, known, nulls, dialect)
            yield f"django {dialect}", partial(self._django, point, known, nulls, dialect)
            if typed:
                yield f"http {dialect}", partial(self._http, point, known, dialect)

    def _conditions(self, point: DecisionPoint, known: Any) -> Any:
        snapshot, turns = point.snapshot, point.pdp.build_gate
        return conditions_of_rows(snapshot, turns, PATH, ["input.doc"], known)

    def _to_sql(self, point: DecisionPoint, known: Any, nulls: Any, dialect: Any) -> Rows:
        conditions = self._conditions(point, known)
        columns: dict[str, Any] = {name: DECLARED.get(kind, kind) for name, kind in COLUMNS.items()}
        clause = to_sql(conditions, {"doc": columns}, dialect, nulls=nulls)
        text = clause.text if clause.parameters else clause.text.replace("%%", "%")
        return self._selected(dialect, "doc", text, clause.parameters)

    def _mapped(self, point: DecisionPoint, known: Any, nulls: Any, dialect: str) -> Rows:
        clause = where(self._conditions(point, known), {"doc": Doc}, nulls=nulls)
        with self._engines[dialect].connect() as connection:
            try:
                return set(connection.scalars(sqlalchemy.select(Doc.id).where(clause)))
            except sqlalchemy.exc.StatementError as error:
                if isinstance(error.orig, FilterError):
                    raise error.orig from None
                raise

    def _django(self, point: DecisionPoint, known: Any, nulls: Any, dialect: str) -> Rows:
        from tests.filters.row_comparison_models import Doc as Model

        from doorward.filters.django import to_q

        clause = to_q(self._conditions(point, known), Model, {"doc": ""}, nulls=nulls)
        selection = Model.objects.using(dialect).filter(clause)
        return set(selection.values_list("id", flat=True))

    def _http(self, point: DecisionPoint, known: Any, dialect: str) -> Rows:
        request = {
            "input": json.loads(to_json(known)),
            "unknowns": ["input.doc"],
            "options": {"targetSQLTableMappings": {"doc": {"$self": "plain"}}},
        }
        accept = f"application/vnd.opa.sql.{dialect}+json"
        answer = post_filter(
            point.pdp, tuple(PATH.split("/")), parameters(b""), json.dumps(request).encode(), accept
        )
        body = json.loads(bytes(answer.body))
        if answer.status_code != 200:
            assert body["code"] in ("evaluation_error", "invalid_parameter", "internal_error"), body
            raise Refusal(body["code"])
        query = body.get("result", {}).get("query")
        if query is None:
            return set()
        condition = query.removeprefix("WHERE ") or "1 = 1"
        return self._selected(dialect, "plain", condition, ())

    # Comparisons

    def compare(self, draw: Draw, tally: Tally, started: float) -> None:
        """One policy with its inputs."""
        typed = draw.chance(0.3)
        nulls = draw.choice(["null", "undefined"])
        text = draw_policy(draw, typed=typed)
        data = draw_input(draw)
        inputs = [draw_input(draw) for _ in range(INPUTS)]
        try:
            point = from_modules({"f.rego": text}, data)
            known = [from_python(each, "input", copy=True) for each in inputs]
        except (CompileError, InputError):
            return  # constants of different types, or members that are one in Rego
        tally.policies += 1
        before = tally.lists
        differences = []
        with point:
            for given, document_ in zip(inputs, known, strict=True):
                allowed = self._allowed(point, document_, nulls)
                for name, select in self.entries(point, document_, nulls, typed=typed):
                    if "doc.g" in text and "postgresql" not in name:
                        continue  # which alone has arrays
                    why = self._difference(name, select, allowed, tally)
                    if why:
                        differences.append({"way": name, "why": why, "input": repr(given)})
        tally.filtered += tally.lists > before
        if differences:
            seconds = round(time.monotonic() - started, 1)
            difference = {"seconds": seconds, "policies": tally.policies, "policy": text}
            difference |= {"nulls": nulls, "data": repr(data), "differences": differences}
            tally.differences += 1
            sys.stdout.write(json.dumps(difference) + "\n")
            sys.stdout.flush()

    def _difference(
        self, name: str, select: Callable[[], Rows], allowed: Rows, tally: Tally
    ) -> str:
        """How a list differs from the decisions; "" if it does not."""
        try:
            selected = select()
        except (RegoError, Refusal) as error:
            tally.refused += 1
            tally.reasons[_reason(error)] += 1
            return ""
        except Exception as error:  # a fault of ours, or a database's error
            return repr(error)
        tally.lists += 1
        tally.rows += len(self._rows)
        tally.by_way[name] += 1
        exempt = set()
        if name.startswith("http"):
            exempt = {row[0] for row in self._rows if None in row[:6]}
        wider, missing = selected - allowed, allowed - selected - exempt
        if not wider and not missing:
            return ""
        return f"wider {sorted(wider)[:5]}, missing {sorted(missing)[:5]}"

    def _allowed(self, point: DecisionPoint, known: Any, nulls: str) -> Rows:
        allowed = set()
        for row in self._rows:
            whole = {**known, "doc": document(row, nulls=nulls)}
            if point.decide_now(PATH, whole, is_parsed=True).allowed:
                allowed.add(row[0])
        return allowed


def _stored(row: tuple[Any, ...], dialect: str) -> tuple[Any, ...]:
    """A row as the programs that are compared keep it."""
    cells = dict(zip(COLUMNS, row[1:], strict=True))
    if dialect == "sqlite" and cells["u"] is not None:
        cells["u"] = cells["u"].replace("-", "")
    if cells["e"] is not None and dialect != "postgresql":
        cells["e"] = cells["e"].replace("T", " ").removesuffix("Z")
    if cells["m"] is not None:
        cells["m"] = json.dumps(cells["m"])
    if dialect != "postgresql":
        cells["g"] = None
    return (row[0], *cells.values())


def _reason(error: Exception) -> str:
    first = str(error).partition("\n")[0].partition(": ")[2] or str(error)
    return " ".join(first.split()[:5])


def set_up(urls: dict[str, str]) -> None:
    """Configure Django for these databases."""
    databases: dict[str, Any] = {"default": {"ENGINE": "django.db.backends.sqlite3"}}
    for dialect, url in urls.items():
        parts = urlsplit(url)
        engine = {"sqlite": "sqlite3"}.get(dialect, dialect)
        databases[dialect] = {
            "ENGINE": f"django.db.backends.{engine}",
            "NAME": parts.path[1:],
            "USER": parts.username,
            "HOST": parts.hostname,
            "PORT": parts.port,
        }
    if "mysql" in urls:
        import pymysql

        pymysql.install_as_MySQLdb()  # the driver that Django asks for has to be compiled
    settings.configure(
        DATABASES=databases, DEFAULT_AUTO_FIELD="django.db.models.AutoField", USE_TZ=True
    )
    django.setup()


def main() -> int:
    reader = argparse.ArgumentParser(description="compare lists with decisions")
    reader.add_argument("--policies", type=int, default=0, help="how many; 0: until the seconds")
    reader.add_argument("--seconds", type=float, default=30.0)
    reader.add_argument("--seed", default=SEED)
    reader.add_argument("--postgresql", default="", help="URL of a database")
    reader.add_argument("--mariadb", type=int, default=0, help="port of a server")
    reader.add_argument("--stop-after", type=int, default=20, help="policies that differ")
    options = reader.parse_args()
    warnings.simplefilter("ignore", sqlalchemy.exc.SAWarning)
    with TemporaryDirectory() as folder:
        urls = {"sqlite": f"sqlite:///{Path(folder, 'rows.db')}"}
        if options.postgresql:
            urls["postgresql"] = options.postgresql.replace("postgresql:", "postgresql+psycopg:")
        if options.mariadb:
            urls["mysql"] = f"mysql+pymysql://root@127.0.0.1:{options.mariadb}/test?charset=utf8mb4"
        set_up(urls)
        draw = Draw(f"{options.seed}")
        comparison = Comparison(draw_rows(draw, ROWS), urls)
        tally, started = Tally(), time.monotonic()
        while tally.differences < options.stop_after:
            if options.policies:
                if tally.policies >= options.policies:
                    break
            elif time.monotonic() - started > options.seconds:
                break
            comparison.compare(draw, tally, started)
        comparison.close()
    summary = {
        "seconds": round(time.monotonic() - started, 1),
        "policies": tally.policies,
        "with_filter": tally.filtered,
        "lists": tally.lists,
        "rows": tally.rows,
        "refused": tally.refused,
        "differences": tally.differences,
        "by_way": dict(tally.by_way),
        "reasons": dict(tally.reasons.most_common(25)),
    }
    sys.stdout.write(json.dumps(summary) + "\n")
    return 1 if tally.differences else 0


if __name__ == "__main__":
    sys.exit(main())
