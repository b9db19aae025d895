"""Django: middleware, permissions of objects, the admin, system checks.

    MIDDLEWARE = ["doorward.integrations.django.PolicyMiddleware", …]
    AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend",
                               "doorward.integrations.django.PolicyBackend"]
    DOORWARD = {"POINT": "shop.policies.point"}   # a DecisionPoint, or a function that returns it

Further keys of `DOORWARD`: `OPTIONS` (an `HttpOptions`), `DERIVE_TARGET`, and three documents:
`PERMISSIONS` decides permissions (`django/allow`), `ROWS` filters rows (`django/rows`), `MASKS`
masks columns (`django/masks`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache, reduce, wraps
from io import BytesIO
from operator import or_
from typing import Any, Final

from doorward.base.digits import parse_digits
from doorward.base.exporting import missing

try:
    from django.conf import settings
except ModuleNotFoundError as error:
    raise missing("doorward[django]", error) from None
from django.core import checks
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.core.signals import setting_changed
from django.db import models
from django.http import HttpRequest, HttpResponse
from django.utils.module_loading import import_string

from doorward.enforcement.check import HttpCheck, HttpOptions
from doorward.enforcement.errors import RequestError
from doorward.enforcement.refusals import log_failure
from doorward.enforcement.rows import conditions_of_rows, masks_of_rows
from doorward.filters import FilterError, Masks, fault, without_relation
from doorward.filters.django import to_q
from doorward.integrations.wsgi import apply, denial, read_request
from doorward.pdp import Decision, DecisionPoint
from doorward.rego import from_python
from doorward.verdicts import Verdict

__all__ = [
    "PolicyAdminMixin",
    "PolicyBackend",
    "PolicyMiddleware",
    "PolicyQuerySet",
    "check_settings",
    "decide",
    "document_of",
    "get_point",
    "masks_for",
    "permitted_rows",
    "rows_for",
    "user_document",
]

PERMISSIONS: Final = "django/allow"
ROWS: Final = "django/rows"
MASKS: Final = "django/masks"
MAX_ONE_BY_ONE: Final = 1_000
"""The largest number of rows in the admin that a policy decides one by one, if it cannot be a
condition.
"""
THIS_ROW: Final[Mapping[str, str]] = {"row": ""}
"""The default of `tables`: the policy reads rows of the model itself as `input.row`."""
_TEXTS: Final = (time, timedelta, bytes, bytearray, memoryview)
_MIDDLEWARE: Final = f"{__name__}.PolicyMiddleware"
_BACKEND: Final = f"{__name__}.PolicyBackend"
_CORS: Final = "corsheaders.middleware.CorsMiddleware"
"""Middleware that may be in front of the policy: it answers preflights, which have no
credentials.
"""


def _setting(name: str, default: Any) -> Any:
    return getattr(settings, "DOORWARD", {}).get(name, default)


@lru_cache(maxsize=1)
def get_point() -> DecisionPoint:
    """Return the decision point of the settings, cached; raise `ImproperlyConfigured` if it is
    missing, cannot be imported or is not a DecisionPoint.
    """
    point = _setting("POINT", None)
    if isinstance(point, str):
        try:
            point = import_string(point)
        except ImportError as error:
            raise ImproperlyConfigured(f'DOORWARD["POINT"]: {error}') from error
    if callable(point):
        point = point()
    if not isinstance(point, DecisionPoint):
        raise ImproperlyConfigured(
            'the setting DOORWARD["POINT"] must be a DecisionPoint, or the dotted name of one'
        )
    return point


def _forget_point(*, setting: str, **_: object) -> None:
    """Drop the cached decision point when a test changes the setting `DOORWARD`."""
    if setting == "DOORWARD":
        get_point.cache_clear()


setting_changed.connect(_forget_point)


class PolicyMiddleware:
    """Middleware that decides each request with the sidecar's input, and answers denials itself.

    Views find the `Verdict` in `request.doorward`.
    """

    sync_capable = True
    async_capable = False
    doorward_decides = True

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response
        self._options: HttpOptions = _setting("OPTIONS", HttpOptions())
        self._derive_target = bool(_setting("DERIVE_TARGET", False))
        self._check = HttpCheck(get_point().pdp, self._options)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Return the response of the view, with the headers that the policy adds; for a denied
        request the response of the denial. The view gets the verdict as `request.doorward`.
        """
        verdict = self._decide(request)
        if not verdict.allowed:
            return _answer(verdict)
        request.doorward = verdict
        response = self._get_response(request)
        for name, value in verdict.response_headers:
            response.headers[name] = value
        return response

    def _decide(self, request: HttpRequest) -> Verdict:
        """Return the verdict on a request; one that is malformed or that strict mode refuses is
        denied with 400.

        Headers that clients may not send are removed from `request.META`; for an allowed request
        the policy's headers are set in it. A body above `max_body` is not read: the policy sees one
        that is cut.
        """
        options = self._options
        meta = request.META
        environ = {"wsgi.url_scheme": request.scheme, "SERVER_PROTOCOL": "HTTP/1.1", **meta}
        # Behind WSGI Django reads no body without a length; behind ASGI it has read all there is.
        environ["wsgi.input_terminated"] = False
        for key in ("SCRIPT_NAME", "PATH_INFO"):  # Django has them as text, WSGI their bytes
            environ[key] = meta.get(key, "").encode().decode("latin-1")
        if (scope := getattr(request, "scope", None)) is not None:
            environ |= _from_scope(scope)
        length = parse_digits(meta.get("CONTENT_LENGTH") or "0")
        if not options.skip_body:
            if length is not None and length <= options.max_body:
                environ["wsgi.input"] = BytesIO(request.body)
            else:
                # Cut, whatever it holds: what the policy may not see is not read for it.
                environ["wsgi.input"] = BytesIO(b" " * (options.max_body + 1))
        try:
            read = read_request(environ, options, derive_target=self._derive_target)
        except RequestError as error:
            return self._check.refuse(error)
        verdict = self._check.check(read)
        for name in [key for key in meta if key.startswith("HTTP_") and key not in environ]:
            del meta[name]  # what no client may send
        if verdict.allowed:
            apply(verdict, meta)
        return verdict


def _from_scope(scope: Any) -> dict[str, Any]:
    """Return the additions to a WSGI environment that only the ASGI scope of a request has: HTTP
    version, raw path with query (`RAW_URI`), and that the body ends (`wsgi.input_terminated`).
    """
    environ = {"wsgi.input_terminated": True, "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}"}
    if scope.get("raw_path") is not None:
        query = scope.get("query_string", b"")
        sent = scope["raw_path"] + (b"?" + query if query else b"")
        environ["RAW_URI"] = sent.decode("latin-1")
    return environ


def _answer(verdict: Verdict) -> HttpResponse:
    """Return the response of a denial, with its headers and body."""
    status, headers, body = denial(verdict)
    response = HttpResponse(body, status=int(status[:3]))
    del response.headers["content-type"]
    for name, value in headers:
        response.headers[name] = value
    return response


def document_of(value: Any) -> Any:
    """Return an object as a policy sees it: the value of its `as_policy_input()`; for a model
    `{"model": LABEL, "pk": KEY, "fields": {…}}`; otherwise the object itself.
    """
    if hasattr(value, "as_policy_input"):
        return value.as_policy_input()
    if not isinstance(value, models.Model):
        return value
    fields = {
        field.attname: _plain(field, value)
        for field in value._meta.concrete_fields
        if not field.is_relation or field.many_to_one or field.one_to_one
    }
    return {"model": value._meta.label_lower, "pk": value.pk, "fields": fields}


def _plain(field: Any, instance: Any) -> Any:
    """Return the value of a model's field for the input: the name of a file, a time with a zone in
    UTC, and Django's text for times of day, durations and bytes. Others are unchanged: the engine
    converts UUIDs, decimals and dates.
    """
    value = field.value_from_object(instance)
    if isinstance(field, models.FileField):
        return value.name
    if isinstance(value, datetime) and value.utcoffset() is not None:
        return value.astimezone(UTC)  # as filters compare it
    # What stands for no one value of Rego is the text that Django's own serializers write.
    return field.value_to_string(instance) if isinstance(value, _TEXTS) else value


def user_document(user: Any) -> Any:
    """Return a user as a policy sees it: `id`, `name`, `active`, `staff`, `superuser`, and
    `groups`, the names of its groups (a query). None for an anonymous one.
    """
    if not getattr(user, "is_authenticated", False):
        return None
    groups = getattr(user, "groups", None)
    return {
        "id": user.pk,
        "name": user.get_username(),
        "active": user.is_active,
        "staff": getattr(user, "is_staff", False),
        "superuser": getattr(user, "is_superuser", False),
        "groups": [] if groups is None else sorted(groups.values_list("name", flat=True)),
    }


def decide(user: Any, permission: str, obj: Any = None, **more: Any) -> Decision:
    """Decide a permission, on `obj` if it is not None. The input has `permission`, `user` unless it
    is anonymous, `object`, and `more`. A failure is logged, and its decision is not allowed.
    """
    document = {"permission": permission, **more}
    # `null` would be a value, and `input.user` in a rule would hold.
    if (known := user_document(user)) is not None:
        document["user"] = known
    if obj is not None:
        document["object"] = document_of(obj)
    point = get_point()
    decision = point.decide_now(_setting("PERMISSIONS", PERMISSIONS), document)
    log_failure(decision, point.snapshot)
    return decision


def rows_for(
    user: Any, model: type[models.Model], permission: str, tables: Mapping[str, str] = THIS_ROW
) -> models.Q:
    """Return the rows of `model` for which the document `ROWS` is true, as a condition of the
    database.

    The policy compares columns of `input.row` with `input.user` and `input.permission`. `tables`
    maps other names below `input` to relations of the model, as in `doorward.filters.django`. Raise
    FilterError or RegoError if the policy cannot be a condition.
    """
    document = {"permission": permission}
    if (known := user_document(user)) is not None:
        document["user"] = known
    pdp = get_point().pdp
    conditions = conditions_of_rows(
        pdp.snapshot,
        pdp.build_gate,
        _setting("ROWS", ROWS),
        [f"input.{name}" for name in tables],
        from_python(document, "input"),
    )
    return to_q(conditions, model, tables)


def permitted_rows(user: Any, model: type[models.Model], permission: str) -> models.Q:
    """Return the rows of `model` on which `decide` allows the permission, as a condition: partial
    evaluation of the same document, with the fields of `input.object` unknown.

    Raise FilterError or RegoError if it cannot be a condition, for example with `as_policy_input`.
    """
    if hasattr(model, "as_policy_input"):
        name = model.__name__
        raise fault(
            f"permitted_rows cannot see the columns of {name} through {name}.as_policy_input: "
            "remove that method, or decide on each object"
        )
    document: dict[str, Any] = {"permission": permission}
    if (known := user_document(user)) is not None:
        document["user"] = known
    document["object"] = {"model": model._meta.label_lower}
    pdp = get_point().pdp
    conditions = conditions_of_rows(
        pdp.snapshot,
        pdp.build_gate,
        _setting("PERMISSIONS", PERMISSIONS),
        ["input.object.pk", "input.object.fields"],
        from_python(document, "input"),
    )
    flat = without_relation(conditions, "object", "fields")
    return to_q(flat, model, {"object": ""})


def masks_for(user: Any, permission: str) -> Masks:
    """Return the columns that the document `MASKS` hides from a user: none if it is undefined or
    null for this user.

    Raise `FilterError` if no rule or data exists at its path or its value is not a mask, and
    `RegoError` if its evaluation fails; the caller must then show nothing.
    """
    document: dict[str, Any] = {"permission": permission}
    if (known := user_document(user)) is not None:
        document["user"] = known
    path = _setting("MASKS", MASKS)
    return masks_of_rows(get_point().snapshot, path, from_python(document, "input"))


class PolicyQuerySet(models.QuerySet):
    """A query set that filters by policy: `objects = PolicyQuerySet.as_manager()`, then
    `Order.objects.for_user(request.user)`.
    """

    def for_user(
        self, user: Any, permission: str = "", tables: Mapping[str, str] = THIS_ROW
    ) -> PolicyQuerySet:
        """Return the rows that the policy permits; the default permission is Django's for viewing
        the model. Raise FilterError or RegoError if the policy cannot be a condition.
        """
        meta = self.model._meta
        permission = permission or f"{meta.app_label}.view_{meta.model_name}"
        rows: PolicyQuerySet = self.filter(rows_for(user, self.model, permission, tables))
        return rows

    def values_for(self, user: Any, permission: str = "", table: str = "row") -> Any:
        """Return the rows that `for_user` permits as dictionaries without masked columns, which are
        not read from the database. Raise FilterError or RegoError if the policy cannot be a
        condition, or if its masks cannot be read.
        """
        meta = self.model._meta
        permission = permission or f"{meta.app_label}.view_{meta.model_name}"
        masked = masks_for(user, permission).of(table)
        names = [field.attname for field in meta.concrete_fields if field.attname not in masked]
        return self.for_user(user, permission, {table: ""}).values(*names)


class PolicyBackend:
    """A backend for `user.has_perm(perm, obj)` by policy. Active superusers never reach it: Django
    allows them everything before it calls a backend. Inactive users have no permission.

    It authenticates nobody. It does not derive from Django's base class, whose module needs the
    application `django.contrib.auth`; the middleware must work without it.
    """

    def authenticate(self, request: Any, **_credentials: Any) -> None:
        """Return None: other backends authenticate users."""

    async def aauthenticate(self, request: Any, **_credentials: Any) -> None:
        """Return None: other backends authenticate users."""

    def get_user(self, user_id: Any) -> None:
        """Return None: other backends load users."""

    async def aget_user(self, user_id: Any) -> None:
        """Return None: other backends load users."""

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        """Return True if the user is active and the policy allows `perm`, on `obj` unless it is
        None.
        """
        # False does not deny: Django asks the next backend then.
        return bool(user_obj.is_active) and decide(user_obj, perm, obj).allowed

    async def ahas_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        """Return True if `has_perm` does, which runs in a thread."""
        from asgiref.sync import sync_to_async

        return bool(await sync_to_async(self.has_perm)(user_obj, perm, obj))


class PolicyAdminMixin:
    """A mixin for `ModelAdmin` and inlines: the policy decides which rows the admin shows and
    changes, also for superusers. The permissions have Django's names.

    Lists, searches, autocompletion, histories and choices of related objects contain the rows that
    the user may view or change. A row that the user may not change cannot be edited in a list or an
    inline. Actions run only if each selected row allows their permissions (by default `change`).
    """

    opts: Any
    model: Any
    admin_site: Any

    # Permissions

    def has_view_permission(self, request: Any, obj: Any = None) -> bool:
        """Return True if the user may view or change `obj`; with None, in general."""
        obj = self._row_of_model(obj)
        return self._allows(request, "view", obj) or self._allows(request, "change", obj)

    def has_add_permission(self, request: Any, *_: Any) -> bool:
        """Return True if the user may add a row."""
        return self._allows(request, "add")

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        """Return True if the user may change `obj`; with None, in general."""
        return self._allows(request, "change", self._row_of_model(obj))

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        """Return True if the user may delete `obj`; with None, in general."""
        return self._allows(request, "delete", self._row_of_model(obj))

    def has_module_permission(self, request: Any) -> bool:
        """Return True if the user may view or change the model in general, so that it is listed."""
        return self.has_view_permission(request)

    def _row_of_model(self, obj: Any) -> Any:
        """Return `obj` if it is a row of this model; None otherwise, since Django passes the parent
        object to an inline.
        """
        return obj if isinstance(obj, self.model) else None

    def _allows(self, request: Any, verb: str, obj: Any = None) -> bool:
        """Return True if the user is active staff and the policy allows `verb`, on `obj` unless it
        is None.
        """
        user = request.user
        is_known = bool(user.is_active and user.is_staff)
        return is_known and decide(user, self._permission(verb), obj).allowed

    def _permission(self, verb: str) -> str:
        return f"{self.opts.app_label}.{verb}_{self.opts.model_name}"

    # Rows

    def get_queryset(self, request: Any) -> Any:
        """Return the rows that the user may view or change."""
        return self.allowed_rows(request, super().get_queryset(request))  # type: ignore[misc]

    def allowed_rows(
        self, request: Any, queryset: Any, verbs: Sequence[str] = ("view", "change")
    ) -> Any:
        """Return the rows of a query set on which the user has one of the permissions; none for
        users who are not active staff.

        If the policy cannot be a condition, it decides each row, up to `MAX_ONE_BY_ONE`; raise
        PermissionDenied for more. Raise RegoError if its evaluation fails.
        """
        user = request.user
        if not (user.is_active and user.is_staff):
            return queryset.none()
        try:
            conditions = [permitted_rows(user, self.model, self._permission(v)) for v in verbs]
        except FilterError as error:
            rows = list(queryset[: MAX_ONE_BY_ONE + 1])
            if len(rows) > MAX_ONE_BY_ONE:
                raise PermissionDenied(
                    f"more than {MAX_ONE_BY_ONE} rows, and the policy cannot be a database "
                    f"condition: {error}"
                ) from error
            allowed = [row.pk for row in rows if any(self._allows(request, v, row) for v in verbs)]
            return queryset.filter(pk__in=allowed)
        return queryset.filter(reduce(or_, conditions))

    def get_field_queryset(self, db: Any, db_field: Any, request: Any) -> Any:
        """Return the choices of a relation; filtered by policy if the admin of the related model
        has this mixin.
        """
        queryset = super().get_field_queryset(db, db_field, request)  # type: ignore[misc]
        other = self._admin_of(db_field.remote_field.model)
        if other is None:
            return queryset
        # Django gives None where the related admin sets no order: the field is to take its own
        # default.
        if queryset is None:
            queryset = db_field.remote_field.model._default_manager.using(db)
        return other.allowed_rows(request, queryset)

    def get_list_filter(self, request: Any) -> list[Any]:
        """Return the list filters; those by a relation offer only objects that the user may view,
        if the admin of the related model has this mixin.
        """
        filters = super().get_list_filter(request)  # type: ignore[misc]
        return [self._list_filter(each) for each in filters]

    def _list_filter(self, name: Any) -> Any:
        """Return a filter that offers only permitted objects, if `name` is a relation to a model
        whose admin has this mixin, or leads to one by `__`; else `name`.
        """
        # The admin is an application that not every project has.
        from django.contrib.admin.utils import get_fields_from_path

        if not isinstance(name, str):
            return name
        field = get_fields_from_path(self.model, name)[-1]
        if not field.is_relation or self._admin_of(field.related_model) is None:
            return name
        return name, _related_list_filter()

    def _admin_of(self, model: Any) -> PolicyAdminMixin | None:
        """Return the admin of a model if it has this mixin; else None."""
        admin = self.admin_site._registry.get(model)
        return admin if isinstance(admin, PolicyAdminMixin) else None

    # Changes

    def get_changelist_formset(self, request: Any, **options: Any) -> Any:
        """Return the formset of an editable list, in which the fields of rows that the user may not
        change are disabled, and deletion of those that the user may not delete.
        """
        formset = super().get_changelist_formset(request, **options)  # type: ignore[misc]
        return self._guard_formset(formset, request)

    def get_formset(self, request: Any, obj: Any = None, **options: Any) -> Any:
        """Return the formset of an inline, in which the fields of rows that the user may not change
        are disabled, and deletion of those that the user may not delete.
        """
        formset = super().get_formset(request, obj, **options)  # type: ignore[misc]
        return self._guard_formset(formset, request)

    def _guard_formset(self, formset: Any, request: Any) -> Any:
        """Return a formset class in which the fields of saved rows are disabled unless the user may
        change them, and deletion unless the user may delete them.
        """
        admin = self

        class Guarded(formset):
            """The formset class of the admin, with fields disabled by policy."""

            def add_fields(self, form: Any, index: int | None) -> None:
                """Add the fields; those of a saved row are disabled if the user may not change it,
                and its deletion if the user may not delete it.
                """
                super().add_fields(form, index)
                row = form.instance
                if row._state.adding:
                    return
                may_change = admin._allows(request, "change", row)
                may_delete = admin._allows(request, "delete", row)
                for name, field in form.fields.items():
                    if name == "DELETE":
                        field.disabled = not may_delete
                    # Not the key, by which the formset finds the row of a form.
                    elif name != row._meta.pk.name:
                        field.disabled = field.disabled or not may_change

        return Guarded

    def get_actions(self, request: Any) -> dict[str, Any]:
        """Return the actions, each of which raises PermissionDenied, before it runs, unless each
        selected row allows all of its permissions (`change` if it names none).
        """
        actions = super().get_actions(request)  # type: ignore[misc]
        return {name: (self._guard_action(run), *rest) for name, (run, *rest) in actions.items()}

    def _guard_action(self, run: Any) -> Any:
        """Return an action that raises PermissionDenied, before it runs, unless each selected row
        allows all of its permissions (by default `change`).
        """
        verbs = tuple(getattr(run, "allowed_permissions", ())) or ("change",)

        @wraps(run)
        def guarded(admin: Any, request: Any, queryset: Any) -> Any:
            """Run the action if the policy allows all of its permissions on every selected row;
            else raise PermissionDenied before it runs.
            """
            for row in queryset.iterator():
                if not all(self._allows(request, verb, row) for verb in verbs):
                    raise PermissionDenied
            return run(admin, request, queryset)

        return guarded

    def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
        """Save a row. Raise PermissionDenied if an existing row, as it is stored now, may not be
        changed, or is not stored any more.
        """
        if change:
            # The form has changed `obj` already: the policy must decide on the row as it is
            # stored.
            stored = self.model._base_manager.filter(pk=obj.pk).first()
            if stored is None or not self._allows(request, "change", stored):
                raise PermissionDenied
        super().save_model(request, obj, form, change)  # type: ignore[misc]

    def delete_model(self, request: Any, obj: Any) -> None:
        """Delete a row. Raise PermissionDenied unless the user is active staff and the policy
        allows `delete` on the row.
        """
        if not self._allows(request, "delete", obj):
            raise PermissionDenied
        super().delete_model(request, obj)  # type: ignore[misc]

    def delete_queryset(self, request: Any, queryset: Any) -> None:
        """Delete all rows; raise PermissionDenied, and delete none, if the user may not delete one
        of them.
        """
        if not all(self._allows(request, "delete", row) for row in queryset):
            raise PermissionDenied
        super().delete_queryset(request, queryset)  # type: ignore[misc]


@lru_cache(maxsize=1)
def _related_list_filter() -> Any:
    """Return the class of the admin's filter by a relation that offers only objects which the user
    may see; made at the first use, since not every project has the admin.
    """
    # The admin is an application that not every project has.
    from django.contrib.admin.filters import RelatedFieldListFilter

    class PolicyRelatedFieldListFilter(RelatedFieldListFilter):
        """A filter of the admin by a relation that offers only objects which the user may see."""

        def field_choices(self, field: Any, request: Any, model_admin: Any) -> list[Any]:
            """Return the choices for related objects that the user may see: those in the queryset
            of the related model's admin, which must be registered and have our mixin.
            """
            choices = super().field_choices(field, request, model_admin)
            other = model_admin.admin_site._registry[field.related_model]
            allowed = set(other.get_queryset(request).values_list("pk", flat=True))
            return [choice for choice in choices if choice[0] in allowed]

    return PolicyRelatedFieldListFilter


@checks.register(checks.Tags.security)
def check_settings(app_configs: Sequence[Any] | None, **_: Any) -> list[Any]:
    """Return errors and warnings for `manage.py check` about settings with which no policy decides:
    no decision point, no document, neither middleware nor backend of ours, or other middleware in
    front of it.
    """
    messages: list[Any] = []
    try:
        point = get_point()
    except ImproperlyConfigured as error:
        return [checks.Error(str(error), id="doorward.E001")]
    middleware = list(settings.MIDDLEWARE)
    backends = list(settings.AUTHENTICATION_BACKENDS)
    if _MIDDLEWARE in middleware:
        before = middleware[: middleware.index(_MIDDLEWARE)]
        if others := [each for each in before if each != _CORS]:
            messages.append(
                checks.Warning(
                    f"{others[0]} acts before the policy decides: put {_MIDDLEWARE} first",
                    id="doorward.W001",
                )
            )
    elif _BACKEND not in backends:
        messages.append(
            checks.Warning(
                f"no policy decides: add {_MIDDLEWARE} or {_BACKEND}, unless the application is"
                " wrapped by doorward.integrations.wsgi or asgi",
                id="doorward.W002",
            )
        )
    path = _setting("PERMISSIONS", PERMISSIONS)
    if _BACKEND in backends and point.snapshot.is_nowhere(path):
        messages.append(
            checks.Error(
                f"there is no document at {path}: load a policy that defines it, or name another "
                "one in DOORWARD['PERMISSIONS']",
                id="doorward.E002",
            )
        )
    return messages
