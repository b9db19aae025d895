"""What `test_django` runs in a process of its own: Django's settings are one for a process.

    python -m tests.filters.django_program DATABASE-AS-JSON POLICIES

Writes how many policies were compared; ends with an AssertionError where a filter differs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from decimal import Decimal
from itertools import permutations, product
from random import Random
from typing import Any

import django
from django.conf import settings

if sys.argv[1].find("mysql") > 0:
    import pymysql

    pymysql.install_as_MySQLdb()  # the driver that Django asks for has to be compiled

settings.configure(
    DATABASES={
        "default": json.loads(sys.argv[1]),
        "other": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
    },
    # Without the first nobody knows the other sides of relations.
    INSTALLED_APPS=["tests.filters", "django.contrib.contenttypes"],
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    USE_TZ=True,
)
django.setup()

from django.contrib.contenttypes.fields import GenericForeignKey  # noqa: E402  # settings come first
from django.contrib.contenttypes.models import ContentType  # noqa: E402  # settings come first
from django.db import connection, connections, models  # noqa: E402  # settings come first
from tests.filters import related  # noqa: E402  # the settings come first
from tests.filters.generated import document, policy, rows  # noqa: E402  # the settings come first

from doorward.filters import Conditions, FilterError, to_conditions  # noqa: E402  # the settings come first
from doorward.filters.django import document_of, to_q  # noqa: E402  # the settings come first
from doorward.rego import CompileError, Engine, from_python  # noqa: E402  # the settings come first


class Owner(models.Model):  # type: ignore[misc]  # Django has no types
    name = models.CharField(max_length=20)

    class Meta:
        app_label = "filters"


class Doc(models.Model):  # type: ignore[misc]
    a = models.DecimalField(max_digits=9, decimal_places=3, null=True)
    b = models.FloatField(null=True)
    s = models.TextField(null=True)
    t = models.CharField(max_length=20, null=True)
    ok = models.BooleanField(null=True)
    when = models.DateTimeField(null=True)
    photo = models.BinaryField(null=True)
    owner = models.ForeignKey(Owner, models.CASCADE, null=True)
    readers = models.ManyToManyField(Owner, related_name="read")

    class Meta:
        app_label = "filters"


class Note(models.Model):  # type: ignore[misc]
    """On rows of any model; it has no table."""

    content_type = models.ForeignKey(ContentType, models.CASCADE)
    object_id = models.IntegerField()
    subject = GenericForeignKey()

    class Meta:
        app_label = "filters"


class Folder(models.Model):  # type: ignore[misc]
    level = models.FloatField(null=True)
    name = models.CharField(max_length=20, null=True)

    class Meta:
        app_label = "filters"


class File(models.Model):  # type: ignore[misc]
    """A document of `related`."""

    a = models.DecimalField(max_digits=9, decimal_places=3, null=True)
    s = models.CharField(max_length=20, null=True)
    ok = models.BooleanField(null=True)
    folder = models.ForeignKey(Folder, models.CASCADE, null=True)
    readers = models.ManyToManyField(Owner, related_name="files")

    class Meta:
        app_label = "filters"


class Comment(models.Model):  # type: ignore[misc]
    n = models.FloatField(null=True)
    t = models.CharField(max_length=20, null=True)
    ok = models.BooleanField(null=True)
    doc = models.ForeignKey(File, models.CASCADE, related_name="comments")

    class Meta:
        app_label = "filters"


class Mark(models.Model):  # type: ignore[misc]
    k = models.CharField(max_length=20, null=True)
    comment = models.ForeignKey(Comment, models.CASCADE, related_name="marks")

    class Meta:
        app_label = "filters"


class Team(models.Model):  # type: ignore[misc]
    """Some have no code; none of these is that of a member without one."""

    code = models.CharField(max_length=20, unique=True, null=True)

    class Meta:
        app_label = "filters"


class Member(models.Model):  # type: ignore[misc]
    team = models.ForeignKey(
        Team, models.CASCADE, to_field="code", null=True, related_name="members"
    )

    class Meta:
        app_label = "filters"


class Legacy(models.Model):  # type: ignore[misc]
    """A table that Django did not create: its numbers have single precision, its texts spaces."""

    f = models.FloatField(null=True)
    c = models.CharField(max_length=4, null=True)

    class Meta:
        app_label = "filters"
        managed = False


def conditions(body: str, more: str = "") -> Conditions:
    engine = Engine({"f.rego": f"package f\n\ninclude if {{\n{body}\n}}\n{more}\n"})
    unknowns = ["input.docs", "input.owner"]
    return to_conditions(engine.partial("data.f.include", unknowns, only_truth=True))


def compare(
    model: type[models.Model],
    documents: dict[int, Any],
    make_policy: Callable[[Random], str],
    nulls: Any,
    policies: int,
) -> int:
    draw = Random(f"django {nulls}")
    known = {number: from_python({"docs": each}) for number, each in documents.items()}
    compared = 0
    for _ in range(policies):
        text = make_policy(draw)
        try:
            engine = Engine({"f.rego": text})
            partial = engine.partial("data.f.include", ["input.docs"], only_truth=True)
            clause = to_q(to_conditions(partial), model, {"docs": ""}, nulls=nulls)
        except (FilterError, CompileError):
            continue
        query = engine.prepare("data.f.include")
        expected = {number for number, each in known.items() if query.value(each) is True}
        selection = model.objects.filter(clause)
        assert set(selection.values_list("id", flat=True)) == expected, (text, selection.query)
        compared += 1
    return compared


def check_relations() -> None:
    ann, bob = Owner.objects.create(name="ann"), Owner.objects.create(name="Ann")
    ids = [row.id for row in Doc.objects.order_by("id")[:3]]
    for number, owner in zip(ids, (ann, bob, None), strict=True):
        Doc.objects.filter(id=number).update(owner=owner)
    first = Doc.objects.filter(id__in=ids)
    tables = {"docs": "", "owner": "owner"}
    mine = to_q(conditions('input.owner.name == "ann"'), Doc, tables)
    assert list(first.filter(mine).values_list("id", flat=True)) == ids[:1]
    others = to_q(conditions('not input.owner.name == "ann"'), Doc, tables)
    assert list(first.filter(others).order_by("id").values_list("id", flat=True)) == ids[1:]


def check_many_to_many() -> None:
    ann, bob = Owner.objects.order_by("id")[:2]
    first, second, third = File.objects.order_by("id")[:3]
    first.readers.add(ann, bob)
    second.readers.add(bob)
    some = File.objects.filter(id__in=[first.id, second.id, third.id])

    def selected(body: str, more: str = "") -> list[int]:
        clause = to_q(conditions(body, more), File, {"docs": ""})
        return [
            (first.id, second.id, third.id).index(each.id)
            for each in some.filter(clause).order_by("id")
        ]

    one = 'some r in input.docs.readers\nr.name == "ann"'
    assert selected(one) == [0]
    assert selected("not other", f"other if {{\n{one}\n}}") == [1, 2]
    assert selected(f'{one}\nr.name != "ann"') == []
    assert selected(f'{one}\nsome q in input.docs.readers\nq.name != "ann"') == [0]
    assert selected('every r in input.docs.readers { r.name == "Ann" }') == [1, 2]
    # and from the other side
    clause = to_q(
        conditions(f"some f in input.docs.files\nf.id == {second.id}"), Owner, {"docs": ""}
    )
    assert [owner.name for owner in Owner.objects.filter(clause)] == ["Ann"]


def check_rows_without_a_key() -> None:
    assert File.objects.filter(folder=None).exists()
    assert document_of(Folder(level=1.0))["file_set"] == []  # it is not saved
    for code in (None, "red"):
        Member.objects.create(team_id=Team.objects.create(code=code).code)
    ids = list(Member.objects.order_by("id").values_list("id", flat=True))
    for root, body, allowed in (
        (Member, "input.docs.team.id > 0", ids[1:]),
        (Member, "not input.docs.team.id", ids[:1]),
        (Team, "count(input.docs.members) == 0", [Team.objects.get(code=None).id]),
    ):
        query = Engine({"f.rego": f"package f\n\ninclude if {body}\n"}).prepare("data.f.include")
        seen = {row.id: from_python({"docs": document_of(row)}) for row in root.objects.all()}
        assert [n for n, each in sorted(seen.items()) if query.value(each) is True] == allowed, body
        selected = root.objects.filter(to_q(conditions(body), root, {"docs": ""}))
        assert list(selected.values_list("id", flat=True)) == allowed, body


def check_another_database() -> None:
    with connections["other"].schema_editor() as editor:
        for model in (Owner, Folder, File, Comment, Mark):
            editor.create_model(model)
    first = File.objects.order_by("id")[0]
    row = File.objects.using("other").create(id=first.id, a=1)
    Comment.objects.using("other").create(doc=row, t="of the other database")
    texts = [each["t"] for each in document_of(row)["comments"]]
    assert texts == ["of the other database"]


def check_calculated() -> None:
    """SQLite keeps all digits of a calculated decimal, of which programs read a few."""
    numbers = [Decimal(n) / 1000 for n in range(-500, 5000, 37)]
    rows = File.objects.bulk_create([File(id=9000 + n, a=a) for n, a in enumerate(numbers)])
    own = File.objects.filter(id__in=[row.id for row in rows])
    for factor in ("1.1", "0.5", "0.125", "1.0001"):
        own.update(a=models.F("a") * Decimal(factor))
        read = {row.id: from_python({"docs": document_of(row, [])}) for row in own.all()}
        for operator, known in product(("==", "!=", "<", ">="), ("0.1", "0.275", "1.05", "0")):
            body = f"input.docs.a {operator} {known}"
            query = Engine({"f.rego": f"package f\n\ninclude if {body}\n"}).prepare(
                "data.f.include"
            )
            allowed = {n for n, each in read.items() if query.value(each) is True}
            clause = to_q(conditions(body), File, {"docs": ""})
            selected = set(own.filter(clause).values_list("id", flat=True))
            assert selected <= allowed, body
            assert len(selected) * 2 >= len(allowed), body
            if connection.vendor != "sqlite":
                assert selected == allowed, body
    own.delete()


def check_legacy() -> None:
    number = {"mysql": "float", "postgresql": "real"}.get(connection.vendor, "double")
    with connection.cursor() as cursor:
        cursor.execute(f"create table {Legacy._meta.db_table} (id int, f {number}, c char(4))")
    numbers, texts = [0.1, 0.5, 1 / 3, 16777217.0, 1e-7, None], ["ab", "abcd", "", "a", None, "b "]
    Legacy.objects.bulk_create(
        [Legacy(id=n, f=f, c=c) for n, (f, c) in enumerate(product(numbers, texts), 1)]
    )
    documents = {row.id: {"docs": document_of(row)} for row in Legacy.objects.all()}
    known = [["f", each] for each in (0.1, 0.5, 0.333333, 16777216, 1e-7, 2**53)]
    known += [["c", each] for each in ("ab", "ab  ", "abcd", "", "    ", "a", "a   ")]
    bodies = [
        f"input.docs.{name} {operator} {json.dumps(each)}"
        for name, each in known
        for operator in ("==", "!=", "<", "<=", ">", ">=")
    ]
    bodies += [f'{name}(input.docs.c, "b")' for name in ("startswith", "endswith", "contains")]
    bodies += [
        'endswith(input.docs.c, " ")',
        'lower(input.docs.c) == "ab"',
        "input.docs.f in [0.1]",
    ]
    for body in bodies:
        clause = to_q(conditions(body), Legacy, {"docs": ""})
        query = Engine({"f.rego": f"package f\n\ninclude if {body}\n"}).prepare("data.f.include")
        expected = {n for n, each in documents.items() if query.value(from_python(each)) is True}
        assert set(Legacy.objects.filter(clause).values_list("id", flat=True)) == expected, body


def check_refusals() -> None:
    for body, relation, wanted in (
        ('input.docs.when < "x"', "", "whose texts are not in order"),
        ('input.docs.photo == "x"', "", "docs.photo holds bytes, which have no value in Rego"),
        ('input.docs.zz == "x"', "", "docs.zz is not declared"),
        ('input.docs.name == "x"', "readers", "not a relation to one row"),
        ('input.docs.name == "x"', "nothing", "has no relation nothing: to one row it has owner"),
    ):
        assert wanted in refusal(body, relation), body
    wanted = "Note.subject is not a relation to one row"
    assert wanted in refusal('input.docs.name == "x"', "subject", Note)


def refusal(body: str, relation: str, model: type[models.Model] = Doc) -> str:
    try:
        to_q(conditions(body), model, {"docs": relation})
    except FilterError as error:
        return str(error)
    return "it is let through"


def always(text: str) -> Callable[[Random], str]:
    """No other policy."""
    return lambda _draw: text


def searches() -> list[str]:
    """Policies of two texts that collations find equal."""
    return [
        f'package f\n\ninclude if {{\n\t{sign}contains(input.docs.s, "{one}")\n'
        f'\t{sign}contains(input.docs.s, "{other}")\n}}\n'
        for one, other in permutations(["ä", "a", "A"], 2)
        for sign in ("", "not ")
    ]


def main() -> None:
    if connection.vendor == "postgresql":  # of another run
        with connection.cursor() as cursor:
            cursor.execute("drop schema public cascade; create schema public")
    with connection.schema_editor() as editor:
        for model in (Owner, Doc, Folder, File, Comment, Mark, Team, Member):
            editor.create_model(model)
    table = [(n + 1, *values) for n, *values in rows(Random(3), 150)]
    Doc.objects.bulk_create(
        [Doc(**dict(zip(("id", "a", "b", "s", "t", "ok"), row, strict=True))) for row in table]
    )
    contents = related.tables(Random(4), 60)
    stored: dict[str, Any] = {"folders": Folder, "docs": File, "comments": Comment, "marks": Mark}
    for name, model in stored.items():
        columns = related.COLUMNS[name]
        model.objects.bulk_create(
            [model(**dict(zip(columns, row, strict=True))) for row in contents[name]]
        )
    count, policies = 0, int(sys.argv[2])
    for nulls in ("null", "undefined"):
        documents = {row[0]: document(row, nulls=nulls) for row in table}
        count += compare(Doc, documents, policy, nulls, policies)
        for text in searches():
            count += compare(Doc, documents, always(text), nulls, 1)
        documents = dict(enumerate(related.documents(contents, nulls), 1))
        count += compare(File, documents, related.policy, nulls, policies)
        count += compare(File, documents, lambda _: related.ALIKE, nulls, 1)
    check_relations()
    check_many_to_many()
    check_rows_without_a_key()
    check_another_database()
    check_calculated()
    check_legacy()
    check_refusals()
    sys.stdout.write(f"{count}\n")


main()
