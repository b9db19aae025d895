"""Django REST framework: permissions of views and objects, and lists with the permitted rows."""

from __future__ import annotations

from typing import Any

from doorward.base.exporting import missing

try:
    from rest_framework.filters import BaseFilterBackend
except ModuleNotFoundError as error:
    raise missing("djangorestframework", error) from None
from rest_framework.permissions import BasePermission

from doorward.integrations.django import decide, rows_for

__all__ = ["PolicyFilter", "PolicyPermission"]


class PolicyPermission(BasePermission):
    """A class for `permission_classes` that decides on the view, then on the object that the view
    loads.

    The permission is the action of the view set, or the method in lower case. For lists and
    creations only `has_permission` decides.
    """

    def has_permission(self, request: Any, view: Any) -> bool:
        """Return True if the policy allows the request to the view."""
        return self._allows(request, view)

    def has_object_permission(self, request: Any, view: Any, obj: Any) -> bool:
        """Return True if the policy allows the view's action on the object."""
        return self._allows(request, view, obj)

    def _allows(self, request: Any, view: Any, obj: Any = None) -> bool:
        """Return True if the policy permits the view's action, on `obj` if there is one."""
        action = getattr(view, "action", None) or request.method.lower()
        return decide(
            request.user, action, obj, view=type(view).__name__, method=request.method
        ).allowed


class PolicyFilter(BaseFilterBackend):
    """A filter backend of a view that keeps only the rows which the policy permits.

    The permission is that of `PolicyPermission`. Custom actions must call `filter_queryset`.
    """

    def filter_queryset(self, request: Any, queryset: Any, view: Any) -> Any:
        """Return the permitted rows of `queryset`. Raise FilterError or RegoError if the policy
        cannot be a condition.
        """
        action = getattr(view, "action", None) or request.method.lower()
        return queryset.filter(rows_for(request.user, queryset.model, action))
