"""The table of `row_comparison` as a model of Django; imported when the settings are there."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models

__all__ = ["Doc"]


class Doc(models.Model):  # type: ignore[misc]  # Django has no types
    """A row."""

    id = models.IntegerField(primary_key=True)
    a = models.DecimalField(max_digits=9, decimal_places=3, null=True)
    b = models.FloatField(null=True)
    s = models.TextField(null=True)
    t = models.CharField(max_length=20, null=True)
    ok = models.BooleanField(null=True)
    u = models.UUIDField(null=True)
    d = models.DateField(null=True)
    e = models.DateTimeField(null=True)
    c = models.CharField(max_length=9, null=True)
    m = models.JSONField(null=True)
    g = ArrayField(models.TextField(null=True), null=True)

    class Meta:
        app_label = "filters"
        db_table = "doc"
        managed = False
