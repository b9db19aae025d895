"""A site of Django: views, and the policies that decide on it."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from tests.integrations.servers import Arrivals, people_point
from tests.integrations.test_asgi import POLICY

from doorward.pdp import DecisionPoint, from_modules

PERMISSIONS = """package django

default allow := false

allow if input.user.superuser

allow if {
	input.permission == "auth.view_user"
	not input.object
}

allow if {
	input.permission in {"auth.change_user", "retrieve"}
	input.object.model == "auth.user"
	input.object.fields.username == input.user.name
}

# Columns are compared one by one and in lists alike.
readable(row) if row.username == input.user.name

readable(row) if {
	row.is_staff == true
	"editors" in input.user.groups
}

masks.row.password := {"replace": {"value": null}}

rows if {
	input.permission in {"auth.view_user", "list"}
	readable(input.row)
}

allow if {
	input.permission == "own_rows"
	readable(input.object)
}

allow if {
	input.permission == "list"
	input.user
}

allow if {
	input.permission == "own"
	input.object == {"kind": "own"}
	"editors" in input.user.groups
}
"""

arrivals = Arrivals()
people = False


def make_point() -> DecisionPoint:
    """The policies of the test in hand."""
    if people:
        return people_point()
    return from_modules({"p.rego": POLICY, "d.rego": PERMISSIONS})


def echo(request: HttpRequest) -> HttpResponse:
    """What the view sees."""
    arrivals.append((request.method, request.path, request.body))
    return JsonResponse(dict(request.headers))


def anything(request: Any, **_: Any) -> HttpResponse:
    """Any other path."""
    arrivals.append((request.method, request.path, request.body))
    return HttpResponse(b"")


urlpatterns = [path("changed", echo), path("<path:rest>", anything), path("", anything)]
