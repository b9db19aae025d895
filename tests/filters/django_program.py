"""What `test_django` runs in a process of its own: Django's settings are one for a process.

    python -m tests.filters.django_program DATABASE-AS-JSON POLICIES

Writes how many policies were compared; ends with an AssertionError where a filter differs.
"""

from __future__ import annotations

import json
import sys
from random import Random
from typing import Any

import django
from django.conf import settings

settings.configure(
    DATABASES={"default": json.loads(sys.argv[1])},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    USE_TZ=True,
)
django.setup()

from django.db import connection, models  # noqa: E402  # settings come first
from tests.filters.generated import document, policy, rows  # noqa: E402  # the settings come first

from doorward.filters import Conditions, FilterError, to_conditions  # noqa: E402  # the settings come first
from doorward.filters.django import to_q  # noqa: E402  # the settings come first
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
    owner = models.ForeignKey(Owner, models.CASCADE, null=True)
    readers = models.ManyToManyField(Owner, related_name="read")

    class Meta:
        app_label = "filters"


def conditions(body: str) -> Conditions:
    engine = Engine({"f.rego": f"package f\n\ninclude if {{\n{body}\n}}\n"})
    unknowns = ["input.docs", "input.owner"]
    return to_conditions(engine.partial("data.f.include", unknowns, only_truth=True))


def compare(table: list[tuple[Any, ...]], nulls: Any, policies: int) -> int:
    draw = Random(f"django {nulls}")
    documents = {row[0]: from_python({"docs": document(row, nulls=nulls)}) for row in table}
    compared = 0
    for _ in range(policies):
        text = policy(draw)
        try:
            engine = Engine({"f.rego": text})
            partial = engine.partial("data.f.include", ["input.docs"], only_truth=True)
            clause = to_q(to_conditions(partial), Doc, {"docs": ""}, nulls=nulls)
        except (FilterError, CompileError):
            continue
        query = engine.prepare("data.f.include")
        expected = {number for number, each in documents.items() if query.value(each) is True}
        selection = Doc.objects.filter(clause)
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


def check_refusals() -> None:
    for body, relation, wanted in (
        ('input.docs.when == "x"', "", "docs.when is not declared"),
        ('input.docs.zz == "x"', "", "docs.zz is not declared"),
        ('input.docs.name == "x"', "readers", "not a relation to one row"),
        ('input.docs.name == "x"', "nothing", "has no relation nothing"),
    ):
        assert wanted in refusal(body, relation), body


def refusal(body: str, relation: str) -> str:
    try:
        to_q(conditions(body), Doc, {"docs": relation})
    except FilterError as error:
        return str(error)
    return "it is let through"


def main() -> None:
    with connection.schema_editor() as editor:
        for model in (Owner, Doc):
            editor.create_model(model)
    table = [(n + 1, *values) for n, *values in rows(Random(3), 300)]
    Doc.objects.bulk_create(
        [Doc(**dict(zip(("id", "a", "b", "s", "t", "ok"), row, strict=True))) for row in table]
    )
    count = compare(table, "null", int(sys.argv[2])) + compare(table, "undefined", int(sys.argv[2]))
    check_relations()
    check_refusals()
    sys.stdout.write(f"{count}\n")


main()
