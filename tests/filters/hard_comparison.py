"""Compares lists with decisions on hard values, in connections with settings that change them.

    python -m tests.filters.hard_comparison --seconds 120 --postgresql URL --mariadb PORT

Every row is read as an application reads it, in the same connection; `row_comparison` compares more
policies on easier values. A refusal does not count as a difference. It is a process of its own
since Django's settings are one for a process. Writes one line of JSON for each difference, and a
summary at the end; the exit code is 1 if there were differences.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import uuid
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import Any, Final

import sqlalchemy
from sqlalchemy.dialects.postgresql import CITEXT, JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from tests.filters.random_functions import DOCUMENTS, Functions
from tests.filters.row_comparison import set_up

from doorward.filters import Column, Conditions, FilterError, to_conditions, to_sql
from doorward.filters.columns import to_document
from doorward.filters.sqlalchemy import describe, where
from doorward.rego import CompileError, Engine, InputError, RegoError, from_python

ROWS: Final = 60
SEED: Final = 20261129
BIG: Final = 1 << 53
_TEXTS: Final = [
    *("", " ", "a", "A", "a ", " a", "ab", "Ab", "ä", "Ä", "a\u0308", "é", "É", "ß", "ss", "İ"),
    *("ı", "ſ", "K", "\u212a", "k", "%", "_", "a%", "\\", "\\\\", "'", '"', "!", "?", "[", "😀"),
    *("中", "\t", "\n", "a\u200b", "1", "01", "1e0", "null", "true", "\u00a0", "ﬁ", "ΑΣ", "ας"),
]
_LATIN: Final = [
    each for each in _TEXTS if each.encode("latin-1", "ignore").decode("latin-1") == each
]
_DATES: Final = ["0001-01-02", "0999-12-31", "1582-10-10", "2026-02-28", "2026-11-23", "9999-12-30"]
_TIMES: Final = [
    "1677-09-21T00:12:43.145224Z", "1969-12-31T23:59:59.999999Z", "2026-03-29T01:30:00Z",
    "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-11-23T12:00:00.000001Z",
    "2262-04-11T23:47:16.854775Z", "9999-12-30T00:00:00Z",
]  # fmt: skip
_IDS: Final = [str(uuid.UUID(int=each)) for each in (0, 5, 0xABCDEF << 90, 2**128 - 1)]
_INTEGERS: Final = [0, 1, -1, BIG, BIG + 1, -BIG - 1, (1 << 63) - 1, -(1 << 63), 10]
_DECIMALS: Final = [
    *(Decimal(each) for each in ("0.1", "0.10", "0.3", "1e20", "100000000000000000001", "-0.5")),
    *(Decimal(each) for each in ("1e-7", "12345678.0000000001", "9007199254740993", "0")),
]
_DOUBLES: Final = [
    *(0.0, -0.0, 0.1, 0.3, 0.1 + 0.2, 1 / 3, 1e20, 1e-7, 1e22, 5e-324, 1.7e308, -1.5, 2.0**53),
    *(math.nan, math.inf, -math.inf, 2.0**63, 16777217.0, 123456789.125),
]
_SINGLES: Final = [0.1, 0.5, 1 / 3, 16777216.0, 1e20, 3.25, math.nan, -math.inf]
_DOCUMENTS: Final[list[Any]] = [
    {"k": each} for each in (*_TEXTS[:12], 0.1, 0.1 + 0.2, 1e20, 10**20 + 1, BIG + 1, None, True)
] + [
    *({"k": ["a", "A", 1, 0.3]}, {"k": {"a": "x"}}, {"k": []}, {"k": {}}, {}, [], "a", 5, None),
    *({"k": each} for each in ("İ", "K", "\u212a", "ſ", "\u00a0a", "\u200ba", "a\u2003", "\x1fa")),
    *DOCUMENTS,
]
VALUES: Final[dict[str, list[Any]]] = {
    "i": _INTEGERS, "n": _DECIMALS, "x": _DOUBLES, "f": _SINGLES, "s": _TEXTS, "t": _LATIN,
    "k": ["", "a", "A", "ab", "ab c", "é", "ééééé", " a", "\\", "%"], "c": ["a", "B", "é", "x y"],
    "d": _DATES, "z": _TIMES, "o": [True, False], "u": _IDS, "j": _DOCUMENTS,
    "g": [[], ["a"], ["A", None], ["é", "a ", "\\"], [""]],
    "h": [[], [0.1], [0.1 + 0.2, 1.0], [None, 5.0]],
}  # fmt: skip
KINDS: Final[dict[str, str]] = {
    "i": "number", "n": "number", "x": "number", "f": "number", "s": "text", "t": "text",
    "k": "text", "c": "text", "d": "date", "z": "moment", "o": "boolean", "u": "uuid", "j": "json",
    "g": "array", "h": "array",
}  # fmt: skip
ONLY: Final[dict[str, dict[str, str]]] = {
    "postgresql": {"to_sql": "inxstdzoujgh", "sqlalchemy": "inxfstkcdzoujgh",
                   "django": "inxfstkdzoujgh"},
    "mysql": {"to_sql": "inxstkcdo", "sqlalchemy": "inxfstkcdou", "django": "inxfstkcdzou"},
}  # fmt: skip
"""The columns that each way in compares; `to_sql` knows no type of a column."""
_DDL: Final = {
    "postgresql": [
        "create extension if not exists citext",
        "drop table if exists hard", "drop type if exists letters",
        "drop collation if exists plain",
        "create collation plain"
        " (provider = icu, locale = 'und-u-ks-level1', deterministic = false)",
        "create type letters as enum ('a', 'B', 'é', 'x y')",
        "create table hard (id int primary key, i bigint, n numeric, x double precision, f real,"
        " s text collate plain, t citext, k char(5), c letters, d date, z timestamptz, o boolean,"
        " u uuid, j jsonb, g text[], h double precision[])",
    ],
    "mysql": [
        "drop table if exists hard",
        "create table hard (id int primary key, i bigint, n decimal(40,10), x double, f float,"
        " s varchar(20) collate utf8mb4_unicode_ci, t varchar(20) character set latin1 collate"
        " latin1_german1_ci, k char(5), c enum('a', 'B', 'é', 'x y'), d date, z datetime(6),"
        " o boolean, u uuid) character set utf8mb4",
    ],
}  # fmt: skip
INDEXED: Final = "inxfstkcdzou"
"""Columns with an index, in which a database looks up what it compares in its own way."""
SESSIONS: Final = {
    "postgresql": [
        [], ["set standard_conforming_strings = off", "set escape_string_warning = off"],
        ["set datestyle = 'german, dmy'"], ["set datestyle = 'iso, dmy'"],
        ["set timezone = 'America/New_York'"], ["set timezone = 'Europe/Berlin'"],
        ["set extra_float_digits = 3"], ["set extra_float_digits = 0"],
        ["set transform_null_equals = on"], ["set enable_seqscan = off", "set jit = off"],
        ["set bytea_output = 'escape'", "set xmloption = 'document'"],
    ],
    "mysql": [
        [], ["set sql_mode = ''"], ["set sql_mode = 'ansi_quotes,no_backslash_escapes'"],
        ["set sql_mode = 'pad_char_to_full_length'"],
        ["set sql_mode = 'pipes_as_concat,high_not_precedence,ignore_space'"],
        ["set sql_mode = 'oracle,real_as_float'"], ["set sql_mode = 'ansi,traditional'"],
        ["set time_zone = '+05:30'"], ["set time_zone = '-11:00'"],
        ["set collation_connection = utf8mb4_bin"], ["set collation_connection = latin1_bin"],
        ["set collation_connection = utf16_unicode_ci"],
        ["set collation_connection = utf8mb3_general_ci"],
        ["set optimizer_switch = 'semijoin=off,materialization=off,subquery_cache=on'"],
        ["set div_precision_increment = 0", "set sql_mode = 'high_not_precedence'"],
    ],
}  # fmt: skip
FEWER: Final = ("collation_connection", "extra_float_digits = 0")
"""Settings in which a list may be smaller than what is allowed."""
_OPERATORS: Final = ["==", "==", "!=", "<", "<=", ">", ">="]


class Base(DeclarativeBase):
    """The mapped classes of this program."""


class Hard(Base):
    """A row, as SQLAlchemy sees it on both databases."""

    __tablename__ = "hard"
    id: Mapped[int] = mapped_column(sqlalchemy.Integer, primary_key=True)
    i: Mapped[Any] = mapped_column(sqlalchemy.BigInteger)
    n: Mapped[Any] = mapped_column(sqlalchemy.Numeric)
    x: Mapped[Any] = mapped_column(sqlalchemy.Double)
    f: Mapped[Any] = mapped_column(sqlalchemy.Float(24))
    s: Mapped[Any] = mapped_column(sqlalchemy.Text)
    t: Mapped[Any] = mapped_column(sqlalchemy.String(20).with_variant(CITEXT(), "postgresql"))
    k: Mapped[Any] = mapped_column(sqlalchemy.CHAR(5))
    c: Mapped[Any] = mapped_column(sqlalchemy.Enum("a", "B", "é", "x y", name="letters"))
    d: Mapped[Any] = mapped_column(sqlalchemy.Date)
    z: Mapped[Any] = mapped_column(sqlalchemy.DateTime(timezone=True))
    o: Mapped[Any] = mapped_column(sqlalchemy.Boolean)
    u: Mapped[Any] = mapped_column(sqlalchemy.Uuid)
    j: Mapped[Any] = mapped_column(JSONB)
    g: Mapped[Any] = mapped_column(sqlalchemy.ARRAY(sqlalchemy.Text))
    h: Mapped[Any] = mapped_column(sqlalchemy.ARRAY(sqlalchemy.Double))


# Policies


class Policy:
    """A random policy over some columns."""

    def __init__(self, draw: Random, columns: str) -> None:
        self._draw = draw
        self._columns = columns
        self._rules: list[str] = []
        kinds = {name: KINDS[name] for name in columns}
        self._functions = Functions(draw, "input.docs", kinds, self._add_rule)

    def text(self) -> str:
        bodies = [self._body() for _ in range(self._draw.choice([1, 1, 2]))]
        rules = [f"include if {{\n\t{body}\n}}" for body in bodies]
        return "\n\n".join(["package f", *rules, *self._rules]) + "\n"

    def _body(self) -> str:
        return "\n\t".join([self._expression() for _ in range(self._draw.choice([1, 1, 2, 3]))])

    def _expression(self) -> str:
        draw = self._draw
        if draw.random() < 0.12:
            body = f"{self._plain()}\n\t{self._plain()}"
            return f"not {self._add_rule(body)}"
        text = self._plain()
        return f"not {text}" if draw.random() < 0.3 else text

    def _add_rule(self, body: str, parameter: str = "") -> str:
        name = f"r{len(self._rules)}"
        head = f"{name}({parameter})" if parameter else name
        self._rules.append(f"{head} if {{\n\t{body}\n}}")
        return name

    def _plain(self) -> str:
        draw = self._draw
        if draw.random() < 0.25:
            return self._functions.expression()
        name = draw.choice(self._columns)
        kind, column = KINDS[name], f"input.docs.{name}"
        if kind == "json":
            return self._document(column)
        if kind == "array":
            return f"{self._known(name)} in {column}"
        if kind == "moment":
            return self._moment(column)
        chance = draw.random()
        if chance < 0.12:
            others = [each for each in self._columns if KINDS[each] == kind and each != name]
            if others and kind != "uuid":
                return f"{column} {draw.choice(_OPERATORS)} input.docs.{draw.choice(others)}"
        if chance < 0.25:
            items = ", ".join([self._known(name) for _ in range(draw.randint(1, 4))])
            return f"{column} in [{items}]"
        if kind == "text" and chance < 0.65:
            return self._text(name, column)
        operators = ["==", "!="] if kind == "uuid" else _OPERATORS
        sides = [column, self._known(name)]
        if draw.random() < 0.2:
            sides.reverse()
        return f"{sides[0]} {draw.choice(operators)} {sides[1]}"

    def _text(self, name: str, column: str) -> str:
        draw, known = self._draw, self._known(name)
        call = draw.choice(["lower({})", "upper({})", "trim_space({})", 'trim({}, " a")', "{}"])
        text = call.format(column)
        if draw.random() < 0.5:
            return f"{draw.choice(['startswith', 'endswith', 'contains'])}({text}, {known})"
        return f"{text} {draw.choice(['==', '!='])} {known}"

    def _moment(self, column: str) -> str:
        draw, known = self._draw, draw_text(self._draw, _TIMES)
        if draw.random() < 0.3:
            return f"{column} {draw.choice(['==', '!='])} {known}"
        call = "time.parse_rfc3339_ns({})"
        right = known if known.startswith('"') and "9999" not in known else '"2026-10-25T00:30:00Z"'
        return f"{call.format(column)} {draw.choice(_OPERATORS)} {call.format(right)}"

    def _document(self, column: str) -> str:
        draw = self._draw
        known = json.dumps(draw.choice([*_TEXTS[:12], 0.1, 0.3, 1e20, 10**20, BIG, 1, None, True]))
        if draw.random() < 0.2:
            return f"{known} in {column}.k"
        if draw.random() < 0.2:
            return f'{draw.choice(["startswith", "endswith", "contains"])}({column}.k, "a")'
        if draw.random() < 0.3:
            return self._text("s", f"{column}.k")
        return f"{column}.k {draw.choice(_OPERATORS)} {known}"

    def _known(self, name: str) -> str:
        draw = self._draw
        if draw.random() < 0.08:
            return draw.choice(["null", "true", "5", '"a"', "-1.5", '""'])
        choices = VALUES[name]
        if KINDS[name] == "array":
            choices = [each for items in choices for each in items if each is not None]
        if KINDS[name] == "number" and draw.random() < 0.5:
            choices = [*_INTEGERS, *_DECIMALS, *_DOUBLES]
        finite = [each for each in choices if not (isinstance(each, float) and not _finite(each))]
        known = draw.choice(finite)
        if KINDS[name] == "text" and draw.random() < 0.1:
            known += " "
        is_integer = isinstance(known, int) and not isinstance(known, bool)
        if is_integer and len(str(known)) < 18 and draw.random() < 0.15:
            return f"{known}.{draw.choice([4, 5])}"  # which an index may round to the integer
        return str(known) if isinstance(known, Decimal) else json.dumps(known, ensure_ascii=False)


def _finite(number: float) -> bool:
    return math.isfinite(number) and (number == 0 or abs(number) > 1e-30)


def draw_text(draw: Random, texts: list[str]) -> str:
    return json.dumps(draw.choice(texts))


# Rows


def rows(draw: Random) -> list[dict[str, Any]]:
    """Rows with all values of each column, and some NULLs."""
    table = []
    for number in range(ROWS):
        cells = {
            name: None if draw.random() < 0.08 else draw.choice(values)
            for name, values in VALUES.items()
        }
        table.append({"id": number + 1, **cells})
    return table


def stored(row: dict[str, Any], dialect: str) -> dict[str, Any]:
    """A row as the programs that are compared keep it."""
    cells = dict(row)
    if dialect == "postgresql":
        cells["j"] = None if row["j"] is None else json.dumps(row["j"])
        return cells
    for name in "xf":
        if cells[name] is not None and not math.isfinite(cells[name]):
            cells[name] = None
    if cells["z"] is not None:
        cells["z"] = cells["z"].replace("T", " ").removesuffix("Z")
    return {name: value for name, value in cells.items() if name not in "jgh"}


# Ways in


@dataclass
class Tally:
    """The number of comparisons, and the differences."""

    policies: int = 0
    lists: int = 0
    rows: int = 0
    refused: int = 0
    differences: int = 0
    by_way: Counter[str] = field(default_factory=Counter)


class Comparison:
    """The databases with their rows, and the ways in."""

    def __init__(self, draw: Random, urls: dict[str, str]) -> None:
        self._engines = {name: sqlalchemy.create_engine(url) for name, url in urls.items()}
        table = rows(draw)
        for dialect, engine in self._engines.items():
            with engine.begin() as connection:
                for statement in _DDL[dialect]:
                    connection.exec_driver_sql(statement)
                for name in INDEXED:
                    connection.exec_driver_sql(f"create index hard_{name} on hard ({name})")
                cells = [stored(row, dialect) for row in table]
                names, marks = ", ".join(cells[0]), ", ".join(["%s"] * len(cells[0]))
                insert = f"insert into hard ({names}) values ({marks})"
                connection.exec_driver_sql(insert, [tuple(each.values()) for each in cells])

    def close(self) -> None:
        for engine in self._engines.values():
            engine.dispose()

    def compare(self, draw: Random, tally: Tally) -> None:
        """One policy for each way in, in a connection with random settings."""
        for dialect, engine in self._engines.items():
            session = draw.choice(SESSIONS[dialect])
            for way, columns in ONLY[dialect].items():
                if way == "django" and any("timezone" in each for each in session):
                    session = []  # it sets its own, and reads all times by that
                few = "".join(draw.sample(columns, min(len(columns), draw.choice([1, 2, 3, 5]))))
                text = Policy(draw, few).text()
                nulls = draw.choice(["null", "undefined"])
                try:
                    policy = Engine({"f.rego": text})
                    partial = policy.partial("data.f.include", ["input.docs"], only_truth=True)
                except CompileError:
                    continue  # constants of different types
                tally.policies += 1
                try:
                    conditions = to_conditions(partial)
                    filtered, read = self._WAYS[way](
                        self, engine, dialect, session, conditions, nulls, few
                    )
                except (RegoError, NotImplementedError):  # of the driver: a style of dates
                    tally.refused += 1
                    continue
                except Exception as error:  # a fault of ours, or a database's error
                    self._report(tally, way, dialect, session, nulls, text, repr(error))
                    continue
                tally.lists += 1
                tally.rows += len(read)
                tally.by_way[f"{way} {dialect}"] += 1
                query = policy.prepare("data.f.include")
                used = [name for name in few if f"docs.{name}" in text]
                decided = {n: _decide(query, row, used, nulls) for n, row in read.items()}
                wider = {n for n in filtered if decided[n] is False}
                missing = {n for n, allowed in decided.items() if allowed} - filtered
                if missing and any(each in " ".join(session) for each in FEWER):
                    missing = set()
                if wider or missing:
                    example = {
                        n: {name: repr(read[n].get(name)) for name in used}
                        for n in sorted(wider | missing)[:2]
                    }
                    why = f"wider {sorted(wider)[:5]}, missing {sorted(missing)[:5]}: {example}"
                    self._report(tally, way, dialect, session, nulls, text, why)

    def _report(self, tally: Tally, *parts: Any) -> None:
        tally.differences += 1
        names = ("way", "dialect", "session", "nulls", "policy", "why")
        difference = dict(zip(names, parts, strict=True))
        sys.stdout.write(json.dumps(difference, ensure_ascii=False) + "\n")
        sys.stdout.flush()

    def _to_sql(
        self, engine: Any, dialect: Any, session: list[str], conditions: Conditions, nulls: Any,
        names: str,
    ) -> tuple[set[int], dict[int, dict[str, Any]]]:  # fmt: skip
        columns: dict[str, Any] = {name: KINDS[name] for name in names}
        for name, item in (("g", "text"), ("h", "number")):
            if name in columns:
                columns[name] = Column("array", item=Column(item))  # type: ignore[arg-type]  # a kind
        clause = to_sql(conditions, {"docs": columns}, dialect, nulls=nulls)
        views = {name: describe(Hard.__table__.c[name].type) for name in names}
        with engine.connect() as connection:
            cursor = connection.connection.cursor()
            try:
                for statement in session:
                    cursor.execute(statement)
                cursor.execute(f"select id, {', '.join(names)} from hard")
                read = {row[0]: dict(zip(names, row[1:], strict=True)) for row in cursor.fetchall()}
                if dialect == "mysql":
                    for row in read.values():
                        row |= {"o": bool(row["o"])} if row.get("o") is not None else {}
                text = f"select id from hard docs where {clause.text}"
                cursor.execute(text, clause.parameters)
                selected = {number for (number,) in cursor.fetchall()}
            finally:
                cursor.close()
                connection.invalidate()
        return selected, {n: _documents(row, views) for n, row in read.items()}

    def _mapped(
        self, engine: Any, dialect: str, session: list[str], conditions: Conditions, nulls: Any,
        names: str,
    ) -> tuple[set[int], dict[int, dict[str, Any]]]:  # fmt: skip
        clause = where(conditions, {"docs": Hard}, nulls=nulls)
        views = {name: describe(Hard.__table__.c[name].type) for name in names}
        with engine.connect() as connection, Session(connection) as orm:
            try:
                for statement in session:
                    connection.exec_driver_sql(statement)
                columns = [getattr(Hard, name) for name in names]
                read = {
                    row[0]: dict(zip(names, row[1:], strict=True))
                    for row in orm.execute(sqlalchemy.select(Hard.id, *columns))
                }
                selected = set(orm.scalars(sqlalchemy.select(Hard.id).where(clause)))
            except sqlalchemy.exc.StatementError as error:
                if isinstance(error.orig, FilterError):
                    raise error.orig from None
                raise
            finally:
                connection.invalidate()
        return selected, {n: _documents(row, views) for n, row in read.items()}

    def _django(
        self, _engine: Any, dialect: str, session: list[str], conditions: Conditions, nulls: Any,
        names: str,
    ) -> tuple[set[int], dict[int, dict[str, Any]]]:  # fmt: skip
        from django.db import connections
        from tests.filters.hard_comparison_models import model_of

        from doorward.filters.django import columns_of, to_q

        model = model_of(dialect)
        clause = to_q(conditions, model, {"docs": ""}, nulls=nulls)
        views = {name: columns_of(model)[name] for name in names}
        connection = connections[dialect]
        try:
            with connection.cursor() as cursor:
                for statement in session:
                    cursor.execute(statement)
            objects = model.objects.using(dialect)
            read = {row.pop("id"): row for row in objects.values("id", *names)}
            selected = set(objects.filter(clause).values_list("id", flat=True))
        finally:
            connection.close()
        return selected, {n: _documents(row, views) for n, row in read.items()}

    _WAYS: Final[dict[str, Callable[..., Any]]] = {
        "to_sql": _to_sql,
        "sqlalchemy": _mapped,
        "django": _django,
    }


def _documents(row: dict[str, Any], columns: dict[str, Any]) -> dict[str, Any]:
    """A row as the policy sees it; a value that has no form in Rego is an InputError."""
    document: dict[str, Any] = {}
    for name, value in row.items():
        try:
            document[name] = to_document(columns[name], value, name)
        except InputError as error:
            document[name] = error
    return document


def _decide(query: Any, row: dict[str, Any], used: list[str], nulls: str) -> bool | None:
    """Whether the policy allows a row, by the columns that it names; None if one of several has no
    value in Rego, which counts only where it is compared.
    """
    fields = {name: row[name] for name in used}
    if any(isinstance(each, InputError) for each in fields.values()):
        return None if len(used) > 1 else False
    if nulls == "undefined":
        fields = {name: each for name, each in fields.items() if each is not None}
    value = query.value(from_python({"docs": fields}, copy=True))
    return value is True


def main() -> int:
    reader = argparse.ArgumentParser(description="compare lists with decisions on hard values")
    reader.add_argument("--policies", type=int, default=0, help="how many; 0: until the seconds")
    reader.add_argument("--seconds", type=float, default=30.0)
    reader.add_argument("--seed", default=SEED)
    reader.add_argument("--postgresql", default="", help="URL of a database")
    reader.add_argument("--mariadb", type=int, default=0, help="port of a server")
    reader.add_argument("--stop-after", type=int, default=20, help="policies that differ")
    options = reader.parse_args()
    warnings.simplefilter("ignore")
    urls = {}
    if options.postgresql:
        urls["postgresql"] = options.postgresql.replace("postgresql:", "postgresql+psycopg:")
    if options.mariadb:
        urls["mysql"] = f"mysql+pymysql://root@127.0.0.1:{options.mariadb}/test?charset=utf8mb4"
    set_up(urls)
    draw = Random(f"{options.seed}")
    comparison, tally, started = Comparison(draw, urls), Tally(), time.monotonic()
    while tally.differences < options.stop_after:
        if options.policies:
            if tally.policies >= options.policies:
                break
        elif time.monotonic() - started > options.seconds:
            break
        comparison.compare(draw, tally)
    comparison.close()
    summary = {
        "seconds": round(time.monotonic() - started, 1),
        "policies": tally.policies,
        "lists": tally.lists,
        "rows": tally.rows,
        "refused": tally.refused,
        "differences": tally.differences,
        "by_way": dict(tally.by_way),
    }
    sys.stdout.write(json.dumps(summary) + "\n")
    return 1 if tally.differences else 0


if __name__ == "__main__":
    sys.exit(main())
