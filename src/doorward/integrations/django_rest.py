"""Django REST framework: permissions of views and of the objects that they get."""

from __future__ import annotations

from typing import Any

from rest_framework.permissions import BasePermission

from doorward.integrations.django import decide

__all__ = ["PolicyPermission"]


class PolicyPermission(BasePermission):
    """For `permission_classes`: decides on the view, then on the object that it gets.

    The permission is the action of the view set, or the method in small letters. On lists and
    creations only `has_permission` decides.
    """

    def has_permission(self, request: Any, view: Any) -> bool:
        """Whether the policy allows the request to the view."""
        return self._allows(request, view)

    def has_object_permission(self, request: Any, view: Any, obj: Any) -> bool:
        """Whether the policy allows it for the object."""
        return self._allows(request, view, obj)

    def _allows(self, request: Any, view: Any, obj: Any = None) -> bool:
        action = getattr(view, "action", None) or request.method.lower()
        return decide(
            request.user, action, obj, view=type(view).__name__, method=request.method
        ).allowed
