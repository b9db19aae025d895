"""Columns of the types that applications have: filters compare what `document_of` gives."""

from __future__ import annotations

import datetime
import enum
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import (
    ARRAY,
    JSON,
    DateTime,
    ForeignKey,
    Interval,
    LargeBinary,
    Numeric,
    Text,
    Uuid,
    create_engine,
    select,
)
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from doorward.filters import Column, Conditions, FilterError, to_conditions, to_sql
from doorward.filters.columns import to_document
from doorward.filters.sqlalchemy import describe, document_of, where
from doorward.rego import Engine, InputError
from doorward.testing.filters import assert_filter_matches

TENANT = uuid.UUID("0b5e4a1e-6d2f-4c53-9a27-3f1f6f0c2d11")


class Status(enum.Enum):
    """Names are stored, values are what a policy sees."""

    DRAFT = "draft"
    PUBLIC = "public"
    OLD = 3


class Base(DeclarativeBase):
    """The mapped classes of these tests."""


class Folder(Base):
    """What documents are in."""

    __tablename__ = "folders"
    id: Mapped[int] = mapped_column(primary_key=True)
    tenant: Mapped[uuid.UUID]
    docs: Mapped[list[Doc]] = relationship(back_populates="folder")


class Doc(Base):
    """A row with a column of each type."""

    __tablename__ = "docs"
    id: Mapped[int] = mapped_column(primary_key=True)
    tenant: Mapped[uuid.UUID | None]
    plain: Mapped[str | None] = mapped_column(Uuid(as_uuid=False))
    status: Mapped[Status | None]
    day: Mapped[datetime.date | None]
    price: Mapped[Decimal | None] = mapped_column(Numeric(10, 2))
    meta: Mapped[Any] = mapped_column(JSON, nullable=True)
    name: Mapped[str | None]
    photo: Mapped[bytes | None] = mapped_column(LargeBinary)
    folder_id: Mapped[int | None] = mapped_column(ForeignKey("folders.id"))
    folder: Mapped[Folder | None] = relationship(back_populates="docs")


class Event(Base):
    """A row whose times and arrays PostgreSQL alone keeps."""

    __tablename__ = "events"
    id: Mapped[int] = mapped_column(primary_key=True)
    expires: Mapped[Any] = mapped_column(DateTime(timezone=True), nullable=True)
    naive: Mapped[Any] = mapped_column(DateTime, nullable=True)
    took: Mapped[Any] = mapped_column(Interval, nullable=True)
    tags: Mapped[Any] = mapped_column(ARRAY(Text), nullable=True)
    spans: Mapped[Any] = mapped_column(ARRAY(Interval), nullable=True)
    deep: Mapped[Any] = mapped_column(ARRAY(Text, dimensions=2), nullable=True)
    meta: Mapped[Any] = mapped_column(JSON, nullable=True)


@pytest.fixture
def session() -> Iterator[Session]:
    engine = create_engine("sqlite://")
    Base.metadata.create_all(
        engine, tables=[Folder.metadata.tables[n] for n in ("folders", "docs")]
    )
    with Session(engine) as opened:
        folder = Folder(tenant=TENANT)
        opened.add_all(
            [
                Doc(
                    tenant=TENANT,
                    plain=str(TENANT),
                    status=Status.PUBLIC,
                    day=datetime.date(2026, 11, 23),
                    price=Decimal("1.10"),
                    meta={"owner": "ann", "level": 2, "tags": ["a", "b"], "ok": True},
                    name="KELVIN",
                    photo=b"\0",
                    folder=folder,
                ),
                Doc(
                    tenant=uuid.UUID(int=1),
                    status=Status.DRAFT,
                    day=datetime.date(1999, 1, 1),
                    price=Decimal("0.10"),
                    meta={"owner": "bob", "level": 1.5, "tags": [], "ok": False},
                    name="\u212aelvin ",
                ),
                Doc(status=Status.OLD, meta={"tags": [{"k": 1}], "ok": None}, name="x"),
                Doc(),
            ]
        )
        opened.flush()
        yield opened
    engine.dispose()


@pytest.mark.parametrize(
    "body",
    [
        f'input.docs.tenant == "{TENANT}"',
        f'input.docs.tenant == "{str(TENANT).upper()}"',
        f'not input.docs.tenant in ["{TENANT}", "x", 5, null]',
        f'input.docs.plain != "{TENANT}"',
        "input.docs.tenant < 5",
        "input.docs.tenant == null",
        'input.docs.status == "public"',
        'input.docs.status == "PUBLIC"',
        'input.docs.status > "draft"',
        "input.docs.status <= 3",
        'not input.docs.status in ["draft", 3]',
        'startswith(input.docs.status, "pub")',
        'input.docs.day > "2026"',
        'input.docs.day <= "1999-01-01"',
        'not input.docs.day < "2000-01-01 "',
        'startswith(input.docs.day, "2026-1")',
        'startswith(input.docs.day, "2")',
        'input.docs.day == "1999-1-1"',
        "input.docs.price == 1.1",
        "input.docs.price in [0.1, 1]",
        'input.docs.meta.owner == "ann"',
        'not input.docs.meta.owner == "ann"',
        "input.docs.meta.level < 2",
        "input.docs.meta.ok",
        "not input.docs.meta.ok",
        '"a" in input.docs.meta.tags',
        "some tag in input.docs.meta.tags; tag.k == 1",
        'every tag in input.docs.meta.tags { tag != "a" }',
        'lower(input.docs.name) == "kelvin"',
        'startswith(lower(trim_space(input.docs.name)), "k")',
        'trim(input.docs.name, " n") == "x"',
        'x := upper(input.docs.name); contains(x, "ELV")',
        'every each in ["x", "y"] { each != input.docs.name }',
        "count(input.docs.meta.tags) > 0",
        "count(input.docs.meta.tags) == 0",
        "not count(input.docs.meta.tags) >= 1",
        "count(input.docs.meta.owner) > 0",
        "not count(input.docs.meta.owner) == 0",
        "count(input.docs.meta) == 0",
        'object.get(input.docs, "name", "x") == "x"',
        'not object.get(input.docs, "price", 1) < 2',
        'known := object.get(input.docs, "day", "1999"); known < "2000"',
        'regex.match("^KEL", input.docs.name)',
        'regex.match("x$", input.docs.name)',
        'not regex.match("^KELVIN$", input.docs.name)',
        'not glob.match("xn", null, input.docs.meta.owner)',
        'glob.match("**VIN", [], input.docs.name)',
        'glob.match("*L*", null, input.docs.name)',
        f'input.docs.folder.tenant == "{TENANT}"',
    ],
)
def test_lists_hold_what_decisions_about_documents_allow(session: Session, body: str) -> None:
    rows = session.scalars(select(Doc)).all()
    policy = f"package f\n\nallow if {{ {body} }}"
    if "lower(trim" in body:
        with pytest.raises(FilterError, match="nested call"):
            assert_filter_matches(policy, rows, [{}], path="f/allow", table="docs")
        return
    for nulls in ("null", "undefined"):
        counts = assert_filter_matches(
            policy,
            rows,
            [{}],
            path="f/allow",
            table="docs",
            nulls=nulls,
        )
        assert counts[0] < len(rows) or body == "input.docs.tenant < 5" or "not " in body


def test_documents_have_the_keys_of_filters(session: Session) -> None:
    for model in (Folder, Doc):
        row = session.scalars(select(model)).first()
        keys = set(document_of(row))
        columns = {each.key: each.columns[0].type for each in model.__mapper__.column_attrs}
        compared = {name for name, type_ in columns.items() if describe(type_).kind is not None}
        assert keys == compared | set(model.__mapper__.relationships.keys())


def test_documents_hold_the_relations_that_are_named(session: Session) -> None:
    doc = session.scalars(select(Doc)).first()
    assert "folder" not in document_of(doc, [])
    assert document_of(doc)["folder"] == {"id": 1, "tenant": str(TENANT)}
    inside = document_of(doc, ["folder.docs"])["folder"]["docs"]
    assert [each["name"] for each in inside] == ["KELVIN"]
    with pytest.raises(LookupError, match="no relation owner"):
        document_of(doc, ["owner"])


def refusal(body: str, dialect: Any = None) -> str:
    left = Engine({"f.rego": f"package f\nallow if {{ {body} }}"}).partial(
        "data.f.allow", ["input.docs", "input.events"], {}, only_truth=True
    )
    with pytest.raises(FilterError) as caught:
        compile_clause(to_conditions(left), dialect or postgresql.dialect())  # type: ignore[no-untyped-call]
    return str(caught.value)


def compile_clause(conditions: Conditions, dialect: Any) -> None:
    clause = where(conditions, {"docs": Doc, "events": Event})
    str(select(Doc.id).where(clause).compile(dialect=dialect))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('input.docs.photo == "x"', "docs.photo holds bytes, which have no value in Rego"),
        ('input.events.naive == "x"', "holds times without a time zone"),
        ("input.events.took == 5", "holds times of a day or spans of time"),
        ('"x" in input.events.spans', "holds times of a day or spans of time"),
        ('"x" in input.events.deep', "is an array of arrays"),
        ('input.events.expires < "2026"', "whose texts are not in order"),
        ('contains(input.docs.day, "11")', "a filter cannot search for a part of a date"),
        (f'input.docs.tenant < "{TENANT}"', "can only be compared by == and in"),
        ("input.docs.status == input.docs.name", "can only be compared with known values"),
        ("input.docs.tenant == input.docs.name", "columns of different types"),
        ('input.docs.meta == "x"', "is a document of JSON"),
        ('input.events.meta.k == "x"', "jsonb"),
        ('lower(input.docs.tenant) == "x"', "columns of texts"),
        ('lower(input.docs.name) < "x"', "cannot be compared by order"),
        ("time.parse_rfc3339_ns(input.docs.name) > 5", "columns of times: docs.name"),
        ("time.parse_rfc3339_ns(input.docs.status) > 5", "columns of times: docs.status"),
        ("time.parse_rfc3339_ns(input.docs.meta) > 5", "columns of times: docs.meta"),
        ("time.parse_rfc3339_ns(input.docs.meta.k) > 5", "columns of times: docs.meta"),
        ("count(input.docs.folder.docs) > 1", "count can only ask whether there are rows"),
        ("count(input.docs.name)", "is not a declared relation"),
        ("not count(input.docs.name)", "is not a declared relation"),
        ('regex.match("a.b", input.docs.name)', "invalid builtin `regex.match`"),
        ('glob.match("*b", [], input.docs.name)', "invalid builtin `glob.match`"),
        ("io.jwt.decode(input.docs.name)[0].a == 1", "invalid builtin `io.jwt.decode`"),
        ('some d in input.docs.tenant; d == "x"', "is not a declared relation"),
    ],
)
def test_refusals_say_why_and_what_to_write(body: str, reason: str) -> None:
    message = refusal(body)
    assert reason in message
    assert "hint: " in message or "spans" in reason or "arrays" in reason


@pytest.mark.parametrize(
    ("body", "builtins"),
    [
        ("io.jwt.decode(input.docs.name)[0].a == 1", ["io.jwt.decode"]),
        ("io.jwt.decode(input.docs.name)[0].a", ["io.jwt.decode"]),
        ("not io.jwt.decode(input.docs.name)[0].a == 1", ["io.jwt.decode"]),
        ('some x in split(input.docs.name, ","); lower(x) == "a"', ["split"]),
        ('x := split(input.docs.name, ",")[0]; y := x; y == "a"', ["split"]),
        ('a := split(input.docs.name, ",")[0]; substring(a, 0, 1) == "a"', ["split", "substring"]),
    ],
)
def test_a_built_in_that_no_filter_can_have_is_the_only_error_about_its_result(
    body: str, builtins: list[str]
) -> None:
    message = refusal(body)
    errors = [line for line in message.splitlines() if "pe_fragment_error" in line]
    named = [line.rpartition("`")[0].rpartition("`")[2] for line in errors]
    assert (named, "__local" in message) == (builtins, False)


def test_other_errors_beside_a_built_in_are_named_too() -> None:
    message = refusal("io.jwt.decode(input.docs.name)[0].a == 1; input.docs.size + 1 > 3")
    assert "invalid builtin `io.jwt.decode`" in message
    assert "gt: nested call operand: plus(input.docs.size, 1)" in message
    assert "2 errors occurred" in message


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("time.parse_rfc3339_ns(input.events.expires) > 5", "does not store the zone of a time"),
        ('"x" in input.events.tags', "has no arrays"),
    ],
)
@pytest.mark.parametrize("dialect", [mysql.dialect(), sqlite.dialect()])
def test_databases_without_a_type_are_refused(body: str, reason: str, dialect: Any) -> None:
    assert reason in refusal(body, dialect)


def test_names_in_documents_are_literals_to_every_driver() -> None:
    message = refusal('input.docs.meta["a\'b"] == "x"', sqlite.dialect())
    assert "a key or letter with a quote" in message


def test_documents_of_json_and_trimmed_texts_are_refused_on_mysql() -> None:
    assert "cannot read columns of JSON" in refusal('input.docs.meta.k == "x"', mysql.dialect())
    assert "cannot trim texts" in refusal('trim_space(input.docs.name) == "x"', mysql.dialect())


def test_declared_kinds_are_those_that_programs_keep_in_one_way() -> None:
    left = Engine({"f.rego": f'package f\nallow if input.docs.a == "{TENANT}"'}).partial(
        "data.f.allow", ["input.docs"], {}, only_truth=True
    )
    conditions = to_conditions(left)
    clause = to_sql(conditions, {"docs": {"a": "uuid"}}, "postgresql")
    assert clause.parameters == (TENANT,)
    with pytest.raises(FilterError, match="sqlite keeps in several ways"):
        to_sql(conditions, {"docs": {"a": "uuid"}}, "sqlite")
    with pytest.raises(FilterError, match="is not one of boolean"):
        to_sql(conditions, {"docs": {"a": "choice"}}, "postgresql")
    with pytest.raises(FilterError, match="holds no"):
        to_sql(conditions, {"docs": {"a": Column(None, "holds no value")}}, "postgresql")


def test_times_without_a_zone_have_no_document() -> None:
    row = Event(expires=datetime.datetime(2026, 11, 23))
    with pytest.raises(InputError, match="without a time zone"):
        document_of(row)
    zone = datetime.timezone(datetime.timedelta(hours=2))
    row.expires = datetime.datetime(2026, 11, 23, 1, tzinfo=zone)
    assert document_of(row)["expires"] == "2026-11-22T23:00:00Z"


def test_a_text_that_is_not_a_uuid_has_no_document() -> None:
    column = Column("uuid")
    assert to_document(column, str(TENANT).upper(), "docs.tenant") == str(TENANT)
    with pytest.raises(InputError, match=r"docs\.tenant is not a UUID"):
        to_document(column, "tenant-1", "docs.tenant")
