"""A help desk of Django with its admin: policies decide on requests, on each row of the admin, and
on lists.

    python examples/helpdesk/manage.py demo

Then http://127.0.0.1:8000/admin/ (ann, bob or root; the password is `demo`), and

    curl http://127.0.0.1:8000/tickets -H "X-Demo-User: ann"
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from django.conf import settings
from django.core.management import call_command, execute_from_command_line

from doorward.pdp import from_folder

HERE = Path(__file__).resolve().parent
point = from_folder(HERE / "policy.rego", HERE / "requests.rego").watch()

settings.configure(
    ALLOWED_HOSTS=["127.0.0.1", "localhost", "testserver"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": os.environ.get("HELPDESK_DATABASE", str(HERE / "helpdesk.sqlite3")),
        }
    },
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    # `runserver` does not hand on the target as it was sent; gunicorn does, without DERIVE_TARGET.
    DOORWARD={
        "POINT": point,
        "DERIVE_TARGET": True,
        "PERMISSIONS": "desk/allow",
        "ROWS": "desk/rows",
    },
    INSTALLED_APPS=[
        "django.contrib.admin",
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.messages",
        "django.contrib.sessions",
        "django.contrib.staticfiles",
        "desk",
    ],
    MIDDLEWARE=[
        "doorward.integrations.django.PolicyMiddleware",
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    ROOT_URLCONF="desk.urls",
    SECRET_KEY="only for this example",
    STATIC_URL="/static/",
    DEBUG=True,
    TEMPLATES=[
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
    USE_TZ=True,
)


def fill() -> None:
    """Make the tables, three users and their tickets, where there are none yet."""
    call_command("migrate", run_syncdb=True, verbosity=0)
    from desk.models import Comment, Status, Ticket
    from django.contrib.auth.models import Group, User

    if User.objects.exists():
        return
    User.objects.create_superuser("root", password="demo")
    people = {
        name: User.objects.create_user(name, password="demo", is_staff=True)
        for name in ("ann", "bob")
    }
    people["ann"].groups.add(Group.objects.create(name="network"))
    people["bob"].groups.add(Group.objects.create(name="office"))
    for title, team, status, assignee in (
        ("no link on port 7", "network", Status.OPEN, "ann"),
        ("new cable", "network", Status.CLOSED, None),
        ("printer is out of paper", "office", Status.OPEN, "bob"),
        ("phone rings twice", "office", Status.OPEN, "ann"),
    ):
        ticket = Ticket.objects.create(
            title=title, team=team, status=status, assignee=people.get(assignee or "")
        )
        for name, text in (("ann", "seen"), ("bob", "later")):
            Comment.objects.create(ticket=ticket, author=people[name], text=text)


if __name__ == "__main__":
    if sys.argv[1:] == ["demo"]:
        import django

        django.setup()
        fill()
        sys.argv[1:] = ["runserver", "--noreload"]
    execute_from_command_line(sys.argv)
