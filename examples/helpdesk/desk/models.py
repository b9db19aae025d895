"""Tickets and comments; their lists hold what the policy allows."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from doorward.integrations.django import PolicyQuerySet


class Status(models.TextChoices):
    """The states of a ticket."""

    OPEN = "open"
    CLOSED = "closed"


class Ticket(models.Model):
    """What a team has to do."""

    title = models.CharField(max_length=80)
    team = models.CharField(max_length=40)
    status = models.CharField(max_length=10, choices=Status, default=Status.OPEN)
    assignee = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True
    )
    due = models.DateTimeField(null=True, blank=True)

    objects = PolicyQuerySet.as_manager()

    def __str__(self) -> str:
        return self.title


class Comment(models.Model):
    """What somebody says of a ticket."""

    ticket = models.ForeignKey(Ticket, on_delete=models.CASCADE, related_name="comments")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    text = models.CharField(max_length=200)

    objects = PolicyQuerySet.as_manager()

    def __str__(self) -> str:
        return self.text
