"""Routes of an application without a policy decision.

    def test_every_route_is_decided_on(undecided_routes):
        assert undecided_routes(app) == []

Middleware, dependencies and decorators that call a policy have the attribute `doorward_decides`,
those of `doorward.integrations` and a project's own. Applications are inspected, not run: a
decision inside a view is not seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

__all__ = ["undecided_routes"]

MARK: Final = "doorward_decides"
"""The attribute, set to True, by which a middleware, dependency or view says that it decides."""


def undecided_routes(app: Any, *, public: Iterable[str] = ()) -> list[str]:
    """Return the paths of routes without a policy decision, sorted, for an application of
    Starlette, FastAPI or Flask, or Django's settings module; [] if all are decided. `public`: paths
    that need no decision. TypeError for any other application, unless a deciding middleware wraps
    it.
    """
    if _decides(app):
        return []
    if hasattr(app, "url_map"):
        paths = _flask(app)
    elif hasattr(app, "routes"):
        paths = _starlette(app)
    elif hasattr(app, "ROOT_URLCONF"):
        paths = _django(app)
    else:
        raise TypeError(
            f"routes of {type(app).__name__} are not known: give an application of Starlette, "
            "FastAPI or Flask, or Django's settings module"
        )
    return sorted(set(paths) - set(public))


def _decides(part: Any) -> bool:
    return getattr(part, MARK, False) is True


def _starlette(app: Any, prefix: str = "") -> Iterator[str]:
    """Yield the paths of routes without a decision in a Starlette or FastAPI application, mounted
    ones included; nothing if a middleware decides on all.
    """
    if any(_decides(each.cls) for each in getattr(app, "user_middleware", ())):
        return
    for route in app.routes:
        path = prefix + getattr(route, "path", "")
        inner = getattr(route, "app", None)
        if hasattr(route, "methods") or hasattr(route, "dependant") or inner is None:
            if not _decides(getattr(route, "endpoint", None)) and not _depends(
                getattr(route, "dependant", None)
            ):
                yield path
        elif hasattr(inner, "routes"):
            yield from _starlette(inner, path)
        elif not _decides(inner):
            yield path


def _depends(dependant: Any) -> bool:
    """Return True if a FastAPI dependency of the route, or one below it, decides; False for
    None.
    """
    if dependant is None:
        return False
    return _decides(dependant.call) or any(map(_depends, dependant.dependencies))


def _flask(app: Any) -> Iterator[str]:
    """Yield the rules of routes without a decision in a Flask application; nothing if a hook or
    middleware decides on all.
    """
    if _decides(app.wsgi_app) or any(map(_decides, app.before_request_funcs.get(None, ()))):
        return
    for rule in app.url_map.iter_rules():
        blueprint = rule.endpoint.rpartition(".")[0]
        hooks = app.before_request_funcs.get(blueprint, ()) if blueprint else ()
        if not _decides(app.view_functions[rule.endpoint]) and not any(map(_decides, hooks)):
            yield rule.rule


def _django(settings: Any) -> Iterator[str]:
    """Yield the paths of routes without a decision in a Django project, whose URL patterns are
    imported; nothing if a middleware decides on all.
    """
    from importlib import import_module

    for name in settings.MIDDLEWARE:
        module, _, attribute = name.rpartition(".")
        if _decides(getattr(import_module(module), attribute)):
            return
    yield from _patterns(import_module(settings.ROOT_URLCONF).urlpatterns, "/")


def _patterns(patterns: Iterable[Any], prefix: str) -> Iterator[str]:
    """Yield the paths without a decision below URL patterns; `prefix` is the path that leads to
    them.
    """
    for pattern in patterns:
        path = prefix + str(pattern.pattern)
        if hasattr(pattern, "url_patterns"):
            yield from _patterns(pattern.url_patterns, path)
        elif not _decides(pattern.callback):
            yield path
