"""The table of `hard_comparison` as models of Django; imported when the settings are there."""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models

__all__ = ["model_of"]


class Fields(models.Model):  # type: ignore[misc]  # Django has no types
    """The columns of both databases."""

    id = models.IntegerField(primary_key=True)
    i = models.BigIntegerField(null=True)
    n = models.DecimalField(max_digits=40, decimal_places=10, null=True)
    x = models.FloatField(null=True)
    f = models.FloatField(null=True)
    s = models.TextField(null=True)
    t = models.CharField(max_length=20, null=True)
    k = models.CharField(max_length=5, null=True)
    c = models.CharField(max_length=5, null=True)
    d = models.DateField(null=True)
    z = models.DateTimeField(null=True)
    o = models.BooleanField(null=True)
    u = models.UUIDField(null=True)

    class Meta:
        app_label = "filters"
        abstract = True


class Hard(Fields):
    """A row of MariaDB."""

    class Meta:
        app_label = "filters"
        db_table = "hard"
        managed = False


class HardOfPostgresql(Fields):
    """A row of PostgreSQL."""

    j = models.JSONField(null=True)
    g = ArrayField(models.TextField(null=True), null=True)
    h = ArrayField(models.FloatField(null=True), null=True)

    class Meta:
        app_label = "filters"
        db_table = "hard"
        managed = False


def model_of(dialect: str) -> Any:
    return HardOfPostgresql if dialect == "postgresql" else Hard
