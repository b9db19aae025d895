"""Django: the matrix through its middleware, permissions, the admin, the REST framework, checks."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
from django.conf import settings
from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.auth.models import AnonymousUser, Group, User
from django.core.exceptions import ImproperlyConfigured
from django.core.handlers.asgi import ASGIRequest
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.db import models
from django.http import HttpResponse
from django.test import Client, RequestFactory, override_settings
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory, force_authenticate
from rest_framework.viewsets import ViewSet
from tests.integrations import django_site
from tests.integrations.servers import differences, werkzeug_port
from tests.integrations.test_wsgi import DIFFERENT

from doorward.enforcement.check import HttpOptions
from doorward.filters import FilterError
from doorward.integrations.django import (
    PolicyAdminMixin,
    PolicyMiddleware,
    PolicyQuerySet,
    check_settings,
    document_of,
    get_point,
    user_document,
)
from doorward.integrations.django_rest import PolicyFilter, PolicyPermission
from doorward.pdp import from_modules
from doorward.rego import from_python, to_python

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/django"


def test_the_matrix_gets_what_it_gets_through_envoy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(django_site, "people", True)
    with override_settings(DOORWARD={"POINT": "tests.integrations.django_site.make_point"}):
        with werkzeug_port(get_wsgi_application()) as port:
            different = differences(port, django_site.arrivals)
        get_point().close()
    assert different == {name: (envoy, ours) for name, (envoy, ours, _) in DIFFERENT.items()}


def test_the_middleware_decides_before_every_view() -> None:
    client = Client()
    given = {"X-User": "eve", "X-Forwarded-User": "eve", "Authorization": "x"}
    answer = client.get("/changed", headers=given)
    assert answer.headers["x-decided"] == "yes"
    seen = answer.json()
    assert seen["X-User"] == "ann"
    assert not {"X-Forwarded-User", "Authorization"} & seen.keys()
    denied = client.get("/nowhere")
    assert (denied.status_code, denied.content) == (403, b"")
    who = client.get("/who")
    assert (who.status_code, who.content, who.headers["www-authenticate"]) == (
        401, b"who?", "Bearer",
    )  # fmt: skip
    assert client.get("/a//b").status_code == 400
    assert client.post("/body", {"a": 1}, content_type="application/json").status_code == 200
    assert client.post("/body", {"a": 2}, content_type="application/json").status_code == 403
    large = client.post("/open", {"a": "x" * 9000}, content_type="application/json")
    assert b"body is cut" in large.content
    odd = client.get("/open", CONTENT_LENGTH="x")
    assert b"content-length is not a number" in odd.content


def test_a_body_behind_asgi_is_seen_by_the_policy() -> None:
    """HTTP/2 needs no length, and Django has read the body before its middleware runs."""
    guarded = PolicyMiddleware(lambda _request: HttpResponse("arrived"))

    def ask(path: str, body: bytes, *headers: tuple[bytes, bytes]) -> HttpResponse:
        scope = {
            "type": "http",
            "http_version": "2",
            "method": "POST",
            "path": path,
            "raw_path": quote(path).encode(),
            "query_string": b"",
            "headers": [(b"host", b"testserver"), (b"content-type", b"application/json"), *headers],
        }
        return guarded(ASGIRequest(scope, BytesIO(body)))

    with override_settings(DOORWARD={**settings.DOORWARD, "OPTIONS": HttpOptions(strict=False)}):
        guarded = PolicyMiddleware(lambda _request: HttpResponse("arrived"))
        assert ask("/body", b'{"a": 1}').content == b"arrived"
        assert ask("/body", b'{"a": 2}').status_code == 403
        assert ask("/open/é", b"").content == b"arrived"
    guarded = PolicyMiddleware(lambda _request: HttpResponse("arrived"))
    assert b"body of undeclared length" in ask("/body", b'{"a": 2}').content
    assert ask("/body", b'{"a": 1}', (b"content-length", b"8")).content == b"arrived"
    assert ask("/open/é", b"").content == b"arrived"


def test_a_path_is_compared_in_the_bytes_that_were_sent() -> None:
    """Django has it as text: `/é` was refused, and U+202E was an error."""
    client = Client()
    for path in ("/open/é", "/open/\u202e", "/open/a b"):
        assert client.get(path, RAW_URI=quote(path)).status_code == 200
        assert client.get(path, RAW_URI=quote(path) + "x").status_code == 400
    with override_settings(FORCE_SCRIPT_NAME="/open"):
        assert client.get("/x", RAW_URI="/x").status_code == 200
        assert client.get("/open", RAW_URI="/open").status_code == 200
    with override_settings(FORCE_SCRIPT_NAME="/shut"):
        assert client.get("/open", RAW_URI="/open").status_code == 403


def test_the_middleware_needs_no_application_of_django() -> None:
    program = (
        "from django.conf import settings\n"
        "from doorward.pdp import from_modules\n"
        "settings.configure(ROOT_URLCONF='x', MIDDLEWARE=['doorward.integrations.django"
        ".PolicyMiddleware'], DOORWARD={'POINT': from_modules({})})\n"
        "import django; django.setup()\n"
        "from django.core.wsgi import get_wsgi_application\n"
        "get_wsgi_application()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=EXAMPLE.parents[1])


@pytest.fixture(scope="module")
def people() -> Iterator[dict[str, User]]:
    call_command("migrate", verbosity=0)
    users = {
        "ann": User.objects.create_user("ann", is_staff=True),
        "bob": User.objects.create_user("bob"),
        "idle": User.objects.create_user("idle", is_active=False),
        "root": User.objects.create_superuser("root"),
    }
    users["ann"].groups.add(Group.objects.create(name="editors"))
    yield users
    User.objects.all().delete()


def test_permissions_are_decided_by_the_policy(people: dict[str, User]) -> None:
    ann, bob = people["ann"], people["bob"]
    assert ann.has_perm("auth.view_user")
    assert ann.has_perm("auth.change_user", ann)
    assert not ann.has_perm("auth.change_user", bob)
    assert not ann.has_perm("auth.delete_user")
    assert asyncio.run(_ahas_perm(ann))
    assert ann.has_perm("own", SimpleNamespace(as_policy_input=lambda: {"kind": "own"}))
    assert not bob.has_perm("own", SimpleNamespace(as_policy_input=lambda: {"kind": "own"}))
    assert not people["idle"].has_perm("auth.view_user")
    assert not AnonymousUser().has_perm("auth.view_user")
    assert not ann.has_perm("own", object())


async def _ahas_perm(user: User) -> bool:
    from doorward.integrations.django import PolicyBackend

    answer: bool = await PolicyBackend().ahas_perm(user, "auth.view_user")
    return answer


def test_documents_hold_the_fields_of_models(people: dict[str, User]) -> None:
    document = document_of(people["bob"])
    assert document["model"] == "auth.user"
    assert document["fields"]["username"] == "bob"
    assert document["pk"] == people["bob"].pk
    assert document_of(7) == 7
    assert user_document(AnonymousUser()) is None
    assert user_document(people["ann"])["groups"] == ["editors"]


def test_every_field_of_a_model_has_a_value_for_a_policy() -> None:
    """One time of day made every permission on an object an error."""

    class Kept(models.Model):
        at = models.TimeField()
        took = models.DurationField()
        octets = models.BinaryField()
        day = models.DateField()
        moment = models.DateTimeField()
        price = models.DecimalField(max_digits=6, decimal_places=2)
        key = models.UUIDField()
        notes = models.JSONField()

        class Meta:
            app_label = "auth"

    kept = Kept(
        at=time(8, 30), took=timedelta(hours=1), octets=b"ab", day=date(2026, 1, 2),
        moment=datetime(2026, 1, 2, 3, tzinfo=UTC), price=Decimal("1.50"), key=UUID(int=1),
        notes={"a": [1, None]},
    )  # fmt: skip
    fields = to_python(from_python(document_of(kept)))["fields"]
    assert fields == {
        "id": None, "at": "08:30:00", "took": "01:00:00", "octets": "YWI=", "day": "2026-01-02",
        "moment": "2026-01-02T03:00:00Z", "price": 1.5,
        "key": "00000000-0000-0000-0000-000000000001", "notes": {"a": [1, None]},
    }  # fmt: skip


def test_lists_hold_what_the_policy_allows_one_by_one(people: dict[str, User]) -> None:
    def one_by_one(user: Any) -> list[str]:
        return [
            name
            for name, each in sorted(people.items())
            if user.has_perm("own_rows", own(username=name, is_staff=each.is_staff))
        ]

    def listed(user: Any) -> list[str]:
        rows = PolicyQuerySet(User).for_user(user).order_by("username")
        return list(rows.values_list("username", flat=True))

    assert listed(people["ann"]) == one_by_one(people["ann"]) == ["ann", "root"]
    assert listed(people["bob"]) == one_by_one(people["bob"]) == ["bob"]
    assert listed(AnonymousUser()) == []
    assert not PolicyQuerySet(User).for_user(people["ann"], "auth.delete_user").exists()
    request = SimpleNamespace(user=people["bob"], method="GET")
    view = SimpleNamespace(action="list")
    left = PolicyFilter().filter_queryset(request, User.objects.all(), view)
    assert [user.username for user in left] == ["bob"]
    split = {"POINT": from_modules({"d.rego": SPLIT})}
    with override_settings(DOORWARD=split), pytest.raises(FilterError):
        PolicyQuerySet(User).for_user(people["ann"])


def test_rows_have_no_masked_columns(people: dict[str, User]) -> None:
    rows = PolicyQuerySet(User).values_for(people["ann"]).order_by("username")
    assert [row["username"] for row in rows] == ["ann", "root"]
    assert "password" not in rows[0]
    assert "email" in rows[0]


def test_the_fixture_compares_rows_of_models(
    people: dict[str, User], assert_filter_matches: Any
) -> None:
    inputs = [
        {"permission": "list", "user": user_document(people[name])} for name in ("ann", "bob")
    ]
    rows = list(User.objects.all())
    counts = assert_filter_matches(get_point(), rows, inputs, path="django/rows", table="row")
    assert counts == [2, 1]


def own(**fields: Any) -> Any:
    return SimpleNamespace(as_policy_input=lambda: fields)


SPLIT = """package django

rows if "a" in split(input.row.username, "")
"""


class Admin(PolicyAdminMixin, ModelAdmin):
    pass


def test_the_admin_allows_what_the_policy_allows(people: dict[str, User]) -> None:
    admin = Admin(User, AdminSite())
    request: Any = RequestFactory().get("/")

    def allowed(name: str, obj: Any = None) -> list[bool]:
        request.user = people[name]
        return [
            admin.has_module_permission(request),
            admin.has_view_permission(request, obj),
            admin.has_add_permission(request),
            admin.has_change_permission(request, obj),
            admin.has_delete_permission(request, obj),
        ]

    assert allowed("ann") == [True, True, False, False, False]
    assert allowed("ann", people["ann"]) == [True, True, False, True, False]
    assert allowed("ann", people["bob"]) == [True, False, False, False, False]
    assert allowed("bob") == [False] * 5
    assert allowed("root") == [True] * 5


class Users(ViewSet):
    permission_classes = (PolicyPermission,)

    def list(self, _request: Any) -> Response:
        return Response([])

    def retrieve(self, request: Any, pk: str) -> Response:
        user = User.objects.get(username=pk)
        self.check_object_permissions(request, user)
        return Response(pk)


def test_the_rest_framework_asks_about_views_and_objects(people: dict[str, User]) -> None:
    def get(action: str, user: str | None = None, **keywords: str) -> int:
        request = APIRequestFactory().get("/")
        if user:
            force_authenticate(request, people[user])
        status: int = Users.as_view({"get": action})(request, **keywords).status_code
        return status

    assert get("list", "ann") == 200
    assert get("list") == 403
    assert get("retrieve", "root", pk="ann") == 200
    assert get("retrieve", "ann", pk="ann") == 403  # the view itself is not allowed to ann


def test_checks_name_what_would_decide_nothing() -> None:
    assert check_settings(None) == []
    ours = "doorward.integrations.django.PolicyMiddleware"
    changes: list[tuple[dict[str, Any], str]] = [
        ({"DOORWARD": {}}, "doorward.E001"),
        ({"DOORWARD": {"POINT": "no.such.module"}}, "doorward.E001"),
        ({"MIDDLEWARE": ["django.middleware.common.CommonMiddleware", ours]}, "doorward.W001"),
        ({"MIDDLEWARE": [], "AUTHENTICATION_BACKENDS": []}, "doorward.W002"),
        ({"DOORWARD": {"POINT": from_modules({})}}, "doorward.E002"),
    ]
    for change, expected in changes:
        with override_settings(**change):
            assert [each.id for each in check_settings(None)] == [expected]
    with override_settings(DOORWARD={"POINT": 7}), pytest.raises(ImproperlyConfigured):
        get_point()


def test_a_route_without_a_decision_is_named(undecided_routes: Any) -> None:
    assert undecided_routes(settings) == []
    with override_settings(MIDDLEWARE=[]):
        assert undecided_routes(settings) == ["/", "/<path:rest>", "/changed"]


def test_the_example_decides_on_requests_and_orders() -> None:
    code = (
        "import sys; sys.argv = ['shop.py', 'check']; sys.path.insert(0, sys.argv_folder)\n"
        "import shop; from django.test import Client; client = Client()\n"
        "shop.execute_from_command_line(sys.argv)\n"
        "ann = {'x-demo-user': 'ann'}\n"
        "paths = ['/orders/1', '/orders/2', '/orders/3', '/admin']\n"
        "codes = [client.get(path, headers=ann).status_code for path in paths]\n"
        "print(codes, client.post('/orders/1').status_code)\n"
    )
    code = code.replace("sys.argv_folder", repr(str(EXAMPLE)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[200, 404, 404, 403] 403"
