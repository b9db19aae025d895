"""A site of Django in one file: a policy decides on each request, and on permissions of objects.

python examples/django/shop.py runserver
curl http://127.0.0.1:8000/orders/1 -H "X-Demo-User: ann"
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_backends
from django.core.management import execute_from_command_line
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path

from doorward.pdp import from_folder

HERE = Path(__file__).resolve().parent
point = from_folder(HERE / "policy.rego", HERE / "permissions.rego").watch()

settings.configure(
    ALLOWED_HOSTS=["127.0.0.1", "localhost", "testserver"],
    AUTHENTICATION_BACKENDS=["doorward.integrations.django.PolicyBackend"],
    # `runserver` does not hand on the target as it was sent; gunicorn does, without DERIVE_TARGET.
    DOORWARD={"POINT": point, "DERIVE_TARGET": True, "PERMISSIONS": "shop/allow"},
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes"],
    MIDDLEWARE=["doorward.integrations.django.PolicyMiddleware"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="only for this example",
    USE_TZ=True,
)
application = get_wsgi_application()

ORDERS = {1: {"id": 1, "owner": "ann"}, 2: {"id": 2, "owner": "bob"}}


class Order:
    """What the policy sees of an order is what it says itself."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    def as_policy_input(self) -> dict[str, Any]:
        return self.fields


class Visitor:
    """A user who is in no database; yours has a model."""

    is_active = is_authenticated = True
    pk = None

    def __init__(self, name: str) -> None:
        self._name = name

    def get_username(self) -> str:
        return self._name

    def has_perm(self, permission: str, obj: object) -> bool:
        return any(each.has_perm(self, permission, obj) for each in get_backends())


def order(request: HttpRequest, number: int) -> HttpResponse:
    """One order, to its owner."""
    fields = ORDERS.get(number)
    user = Visitor(request.headers.get("x-demo-user", ""))
    if fields is None or not user.has_perm("shop.view_order", Order(fields)):
        return HttpResponse(status=404)
    return JsonResponse(fields)


urlpatterns = [path("orders/<int:number>", order)]

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
