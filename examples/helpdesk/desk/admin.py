"""The admin, in which the policy decides row by row."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.admin import ModelAdmin, TabularInline
from django.db.models import QuerySet
from django.http import HttpRequest

from desk.models import Comment, Status, Ticket
from doorward.integrations.django import PolicyAdminMixin


class Comments(PolicyAdminMixin, TabularInline):
    """Comments of a ticket."""

    model = Comment
    extra = 0


@admin.action(description="Close the selected tickets")
def close(_admin: ModelAdmin, _request: HttpRequest, queryset: QuerySet) -> None:
    queryset.update(status=Status.CLOSED)


@admin.register(Ticket)
class Tickets(PolicyAdminMixin, ModelAdmin):
    """Tickets that a user may see, of which some may be changed."""

    list_display = ("title", "team", "status", "assignee")
    list_editable = ("status",)
    list_filter = ("team", "status")
    search_fields = ("title",)
    ordering = ("pk",)
    actions = (close,)
    inlines = (Comments,)
