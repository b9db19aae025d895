"""The example of Django with its admin, in a process of its own: Django is configured once in each.

Prints what the lists of its users hold; raises where a list and a decision differ.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "helpdesk"))
os.environ["HELPDESK_DATABASE"] = ":memory:"


def main() -> None:
    import django

    manage: Any = import_module("manage")
    django.setup()
    manage.fill()
    desk: Any = import_module("desk.models")
    Comment, Ticket = desk.Comment, desk.Ticket
    from django.contrib.auth.models import User
    from django.test import Client

    from doorward.filters.django import columns_of, document_of, relations_of
    from doorward.integrations.django import check_settings, decide, permitted_rows, user_document
    from doorward.testing.filters import assert_filter_matches

    assert check_settings(None) == []
    result: dict[str, Any] = {}
    users = list(User.objects.order_by("pk"))
    for user in users:
        for model in (Ticket, Comment):
            for verb in ("view", "change", "delete"):
                permission = f"desk.{verb}_{model._meta.model_name}"
                listed = set(model.objects.filter(permitted_rows(user, model, permission)))
                allowed = {
                    row for row in model.objects.all() if decide(user, permission, row).allowed
                }
                assert listed == allowed, permission
        answer = Client().get("/tickets", headers={"x-demo-user": user.username})
        result[user.username] = answer.json()["tickets"]
    inputs = [{"permission": "desk.view_ticket", "user": user_document(user)} for user in users]
    rows = list(Ticket.objects.all())
    result["counts"] = assert_filter_matches(
        manage.point, rows, [*inputs, {}], path="desk/rows", table="row"
    )
    for model in (Ticket, Comment):
        compared = {name for name, column in columns_of(model).items() if column.kind is not None}
        row = model.objects.first()
        assert set(document_of(row)) == compared | set(relations_of(model)), model
    client = Client()
    assert client.get("/elsewhere").status_code == 403
    assert client.post("/admin/login/", {"username": "ann", "password": "demo"}).status_code == 302
    result["pages"] = [
        client.get(f"/admin/desk/ticket/{number}/change/").status_code for number in range(1, 5)
    ]
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
