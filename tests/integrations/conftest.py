"""Django wants its settings before anything of it is imported."""

from __future__ import annotations

import django
from django.conf import settings

MEMORY = "file:doorward?mode=memory&cache=shared"
"""For all threads."""

if not settings.configured:
    settings.configure(
        ALLOWED_HOSTS=["*"],
        AUTHENTICATION_BACKENDS=[
            "django.contrib.auth.backends.ModelBackend",
            "doorward.integrations.django.PolicyBackend",
        ],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": MEMORY}},
        DATA_UPLOAD_MAX_NUMBER_FIELDS=None,
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        DOORWARD={"POINT": "tests.integrations.django_site.make_point", "DERIVE_TARGET": True},
        INSTALLED_APPS=[
            "django.contrib.admin",
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.messages",
            "django.contrib.sessions",
        ],
        MIDDLEWARE=["doorward.integrations.django.PolicyMiddleware"],
        # The usual one takes 0.2 s for each password.
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        ROOT_URLCONF="tests.integrations.django_site",
        SECRET_KEY="only for tests",
        USE_TZ=True,
    )
    django.setup()
