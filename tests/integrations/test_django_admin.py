"""The admin of Django, as a member of the staff uses it: refused rows stay out of reach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.admin import ModelAdmin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.core.management import call_command
from django.test import Client, RequestFactory, override_settings
from django.test.utils import setup_test_environment, teardown_test_environment
from tests.integrations import django_admin_site

from doorward.integrations import django as integration
from doorward.integrations.django import PolicyAdminMixin, decide, permitted_rows

pytestmark = pytest.mark.long

SETTINGS: dict[str, Any] = {
    "DOORWARD": {"POINT": "tests.integrations.django_admin_site.make_point"},
    "ROOT_URLCONF": "tests.integrations.django_admin_site",
    "AUTHENTICATION_BACKENDS": ["django.contrib.auth.backends.ModelBackend"],
    "MIDDLEWARE": [
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    "TEMPLATES": [
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "APP_DIRS": True,
            "OPTIONS": {
                "context_processors": [
                    "django.template.context_processors.request",
                    "django.contrib.auth.context_processors.auth",
                    "django.contrib.messages.context_processors.messages",
                ]
            },
        }
    ],
    "STATIC_URL": "/static/",
}
NAMES = ["ada", "alan", "abel", "grace", "linus"]
VISIBLE = ["abel", "ada", "alan"]


@pytest.fixture
def users() -> Iterator[dict[str, User]]:
    call_command("migrate", verbosity=0)
    setup_test_environment()  # pages say what they were made of
    with override_settings(**SETTINGS):
        accounts = {name: User.objects.create_user(name, first_name="first") for name in NAMES}
        User.objects.filter(username="abel").update(is_active=False)
        accounts["staff"] = User.objects.create_user("zoe", password="secret", is_staff=True)
        for name in ("open", "closed"):
            group = Group.objects.create(name=name)
            accounts["ada"].groups.add(group)
        kind = ContentType.objects.get_for_model(User)
        for flag in (1, 2, 3):
            LogEntry.objects.create(
                user=accounts["ada"], content_type=kind, object_id=str(accounts["ada"].pk),
                object_repr=f"note{flag}", action_flag=flag,
            )  # fmt: skip
        yield {name: User.objects.get(pk=each.pk) for name, each in accounts.items()}
        User.objects.all().delete()
        Group.objects.all().delete()
    teardown_test_environment()


@pytest.fixture
def browser(users: dict[str, User]) -> Client:
    client = Client()
    answer = client.post("/admin/login/", {"username": "zoe", "password": "secret"})
    assert answer.status_code == 302
    return client


def text_of(answer: Any) -> str:
    assert answer.status_code == 200, (answer.status_code, answer.content)
    return str(answer.content.decode())


def edit(users: dict[str, User], names: list[str], value: str) -> dict[str, Any]:
    form: dict[str, Any] = {
        "form-TOTAL_FORMS": len(names), "form-INITIAL_FORMS": len(names), "_save": "Save",
    }  # fmt: skip
    for number, name in enumerate(names):
        form |= {f"form-{number}-id": users[name].pk, f"form-{number}-first_name": value}
    return form


def first_names() -> dict[str, str]:
    return dict(User.objects.filter(username__in=NAMES).values_list("username", "first_name"))


def test_the_rows_of_a_permission_are_those_that_are_decided_on_one_by_one(
    users: dict[str, User],
) -> None:
    for verb in ("view", "change", "delete", "add"):
        permission = f"auth.{verb}_user"
        condition = permitted_rows(users["staff"], User, permission)
        listed = set(User.objects.filter(condition))
        assert listed == {
            user for user in User.objects.all() if decide(users["staff"], permission, user).allowed
        }


def test_a_list_shows_what_may_be_seen(browser: Client) -> None:
    for query in ("", "?q=a", "?o=-1", "?all=1"):
        page = text_of(browser.get(f"/admin/auth/user/{query}"))
        assert [name for name in sorted(NAMES) if f">{name}<" in page] == VISIBLE
    page = text_of(browser.get("/admin/auth/user/"))
    assert ("open" in page, "closed" in page) == (True, False)  # the filter by group


def test_a_list_changes_what_may_be_changed(browser: Client, users: dict[str, User]) -> None:
    page = browser.get("/admin/auth/user/")
    shown = [form.instance.username for form in page.context["cl"].formset.forms]
    assert sorted(shown) == VISIBLE
    answer = browser.post("/admin/auth/user/", edit(users, shown, "changed"))
    assert answer.status_code == 302
    expected = dict.fromkeys(NAMES, "first") | {"ada": "changed", "alan": "changed"}
    assert first_names() == expected
    # rows that the list did not show
    answer = browser.post("/admin/auth/user/", edit(users, ["grace", "linus", "ada"], "forged"))
    assert first_names() == expected or first_names() == expected | {"ada": "forged"}
    assert {first_names()[name] for name in ("grace", "linus", "abel")} == {"first"}


@pytest.mark.parametrize(
    ("action", "names", "status"),
    [
        ("rename", ["ada", "alan"], 302),
        ("rename", ["ada", "abel"], 403),
        ("rename", ["ada", "grace"], 302),
        ("export", ["abel", "ada", "grace"], 200),
        ("delete_selected", ["alan"], 302),
        ("delete_selected", ["abel"], 403),
        ("delete_selected", ["grace"], 302),
    ],
)
def test_an_action_runs_on_rows_that_allow_it(
    action: str, names: list[str], status: int, browser: Client, users: dict[str, User]
) -> None:
    form = {"action": action, "_selected_action": [users[n].pk for n in names], "post": "yes"}
    answer = browser.post("/admin/auth/user/", form)
    assert answer.status_code == status
    renamed = set(User.objects.filter(last_name="renamed").values_list("username", flat=True))
    left = set(User.objects.filter(username__in=NAMES).values_list("username", flat=True))
    assert renamed == (
        {"ada", "alan"} & set(names) if (action, status) == ("rename", 302) else set()
    )
    assert left == set(NAMES) - (
        {"alan"} if (action, names) == ("delete_selected", ["alan"]) else set()
    )
    if action == "export":
        assert answer.content == b"abel,ada"


def test_all_rows_are_those_that_may_be_seen(browser: Client, users: dict[str, User]) -> None:
    form = {"action": "export", "select_across": "1", "_selected_action": [users["ada"].pk]}
    assert browser.post("/admin/auth/user/", form).content == b"abel,ada,alan"


@pytest.mark.parametrize("page", ["change", "history", "delete"])
def test_a_page_of_a_row_that_is_refused_is_not_there(
    page: str, browser: Client, users: dict[str, User]
) -> None:
    for name, status in (("ada", 200), ("grace", 302)):
        answer = browser.get(f"/admin/auth/user/{users[name].pk}/{page}/")
        assert answer.status_code == status, name
    answer = browser.post(f"/admin/auth/user/{users['grace'].pk}/{page}/", {"post": "yes"})
    assert answer.status_code in (302, 405)
    assert User.objects.filter(username="grace").exists()
    abel = browser.post(f"/admin/auth/user/{users['abel'].pk}/delete/", {"post": "yes"})
    assert abel.status_code == 403


def test_names_are_completed_from_rows_that_may_be_seen(browser: Client) -> None:
    query = "app_label=admin&model_name=logentry&field_name=user&term="
    answer = browser.get(f"/admin/autocomplete/?{query}").json()
    assert sorted(each["text"] for each in answer["results"]) == VISIBLE


def test_choices_are_rows_that_may_be_seen(browser: Client, users: dict[str, User]) -> None:
    page = text_of(browser.get(f"/admin/auth/user/{users['ada'].pk}/change/"))
    assert (">open<" in page, ">closed<" in page) == (True, False)


def test_an_inline_shows_and_changes_its_rows_one_by_one(
    browser: Client, users: dict[str, User]
) -> None:
    ada = users["ada"]
    page = browser.get(f"/admin/auth/user/{ada.pk}/change/")
    text = text_of(page)
    assert [flag for flag in (1, 2, 3) if f"note{flag}" in text] == [1, 2]
    notes = {each.action_flag: each.pk for each in LogEntry.objects.filter(user=ada)}
    form: dict[str, Any] = {
        "username": "ada", "first_name": "x", "last_name": "", "groups": [],
        "logentry_set-TOTAL_FORMS": 2, "logentry_set-INITIAL_FORMS": 2,
    }  # fmt: skip
    shown = [each.instance.action_flag for each in page.context["inline_admin_formsets"][0].formset]
    for number, flag in enumerate(shown):
        form |= {
            f"logentry_set-{number}-id": notes[flag], f"logentry_set-{number}-user": ada.pk,
            f"logentry_set-{number}-object_repr": "changed",
            f"logentry_set-{number}-action_flag": flag,
            f"logentry_set-{number}-DELETE": "on" if flag == 2 else "",
        }  # fmt: skip
    answer = browser.post(f"/admin/auth/user/{ada.pk}/change/", form)
    assert answer.status_code == 302, text_of(answer)
    left = LogEntry.objects.filter(pk__in=notes.values()).order_by("action_flag")
    assert [each.object_repr for each in left] == ["changed", "note2", "note3"]


def test_a_policy_that_is_no_filter_decides_on_each_row(
    users: dict[str, User], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        User,
        "as_policy_input",
        lambda self: {"fields": {"username": self.username, "is_active": self.is_active}},
        raising=False,
    )
    admin = django_admin_site.site._registry[User]
    request: Any = RequestFactory().get("/")
    request.user = users["staff"]
    assert sorted(each.username for each in admin.get_queryset(request)) == VISIBLE
    monkeypatch.setattr(integration, "MAX_ONE_BY_ONE", 2)
    with pytest.raises(PermissionDenied, match="more than 2 rows, and the policy cannot be"):
        admin.get_queryset(request)


def test_a_filter_by_a_relation_of_a_relation_offers_only_visible_objects(
    users: dict[str, Any],
) -> None:
    class Entries(PolicyAdminMixin, ModelAdmin):
        list_filter = ("user__groups", "action_flag")

    request: Any = RequestFactory().get("/")
    request.user = users["staff"]
    entries = Entries(LogEntry, django_admin_site.site)
    (path, filter_), other = entries.get_list_filter(request)
    assert (path, other) == ("user__groups", "action_flag")
    field = User._meta.get_field("groups")
    offered = filter_(field, request, {}, LogEntry, entries, path).lookup_choices
    assert [name for _, name in offered] == ["open"]
