"""An admin of Django in which a policy decides on each row."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.http import HttpResponse
from django.urls import path

from doorward.integrations.django import PolicyAdminMixin
from doorward.pdp import DecisionPoint, from_modules

POLICY = """package django

import rego.v1

default allow := false

# The permissions on any row, which open the pages.
allow if {
	not input.object
	input.user.staff
}

# Staff sees the users of its own kind, and changes those that are active.
allow if {
	input.permission == "auth.view_user"
	visible
}

allow if {
	input.permission in {"auth.change_user", "auth.delete_user"}
	visible
	input.object.fields.is_active == true
}

visible if startswith(input.object.fields.username, "a")

allow if {
	input.permission == "auth.view_group"
	input.object.fields.name == "open"
}

# Notes on users: of other people's only those that are not deletions.
allow if {
	input.permission in {"admin.view_logentry", "admin.change_logentry"}
	input.object.fields.action_flag == 1
}

allow if {
	input.permission == "admin.view_logentry"
	input.object.fields.action_flag == 2
}
"""


def make_point() -> DecisionPoint:
    """The policy above."""
    return from_modules({"admin.rego": POLICY})


class Notes(PolicyAdminMixin, admin.TabularInline):
    """Log entries of a user."""

    model = LogEntry
    fields = ("object_repr", "action_flag")
    extra = 0


@admin.action(description="Rename")
def rename(_admin: Any, _request: Any, queryset: Any) -> None:
    """An action that names no permission."""
    queryset.update(last_name="renamed")


@admin.action(description="Export", permissions=["view"])
def export(_admin: Any, _request: Any, queryset: Any) -> HttpResponse:
    """An action for those who may view."""
    return HttpResponse(",".join(sorted(queryset.values_list("username", flat=True))))


class Users(PolicyAdminMixin, admin.ModelAdmin):
    """Users, with what the admin has for lists."""

    list_display = ("username", "first_name")
    list_display_links = ("username",)
    list_editable = ("first_name",)
    list_filter = ("groups",)
    fields = ("username", "first_name", "last_name", "groups")
    search_fields = ("username",)
    ordering = ("username",)
    actions = (rename, export)
    inlines = (Notes,)


class Groups(PolicyAdminMixin, admin.ModelAdmin):
    """Groups, of which some are visible."""

    search_fields = ("name",)
    ordering = ("name",)
    fields = ("name",)


class Source(admin.ModelAdmin):
    """A model whose field completes the names of users."""

    autocomplete_fields = ("user",)


site = admin.AdminSite()
site.register(User, Users)
site.register(Group, Groups)
site.register(LogEntry, Source)

urlpatterns = [path("admin/", site.urls)]
