"""Rules that the residual refers to: what could not be put in place of a reference."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from doorward.rego.analysis.variables import ROOTS
from doorward.rego.partial.context import SearchContext
from doorward.rego.partial.core import (
    DATA,
    TRUE,
    Body,
    Constant,
    Expr,
    Rule,
    Term,
    Var,
    equation,
    variables,
)
from doorward.rego.partial.propagation import Propagation
from doorward.rego.partial.state import Bindings, Saved, body_of
from doorward.rego.values import operand_text, to_key

__all__ = ["add_complete", "add_function", "add_partial", "known_documents"]

Path = tuple[Term, ...]


def known_documents(search: SearchContext) -> Hashable:
    """Return a hashable key for the input and data that `with` has replaced; None if no `with` is
    in effect.
    """
    known = search.replaced.known()
    if known is None:
        return None
    return known, to_key(search.input.value) if type(search.input) is Constant else None


def add_complete(
    search: SearchContext, path: Path, rule: Rule, own: Bindings, saved: Sequence[Saved]
) -> None:
    """Add the residual of one branch of a complete rule to the support under `path`. Nothing is
    added if it never holds by its types. `own`: the bindings of the rule's variables.
    """
    body = search.well_typed(body_of(saved, search.names))
    if body is None:
        return
    assert rule.value is not None
    value = search.names.plug(rule.value, own)
    body = _simple(search, body, [value])
    if rule.default:
        value, body = _value_of_default(value, body)
    package = rule.package + len(search.support.add_namespace((DATA,))) - 1
    search.support.add(
        Rule(search.support.add_namespace(path), None, None, value, body, package, rule.default)
    )


def add_partial(search: SearchContext, rule: Rule, own: Bindings, saved: Sequence[Saved]) -> bool:
    """Add the residual of one branch of a partial rule, whose body left the expressions `saved`, to
    the support (the rules that the residual contains) and return True; `own` are the bindings of
    its variables. Return False, with nothing added, if the types in it say that it never holds.
    """
    body = search.well_typed(body_of(saved, search.names))
    if body is None:
        return False
    names = search.names
    path = search.support.add_namespace(rule.path)
    location = (path[0], *[names.plug(part, own) for part in path[1:]])
    # `p.a contains x` is a set from the start, `p[a] contains x` with its first member, and objects
    # likewise; where nothing is left to ask, they have that one.
    at = next((n for n, part in enumerate(path) if n and type(part) is not Constant), len(path))
    is_filled = at < len(path) - (not rule.is_set)
    if saved and is_filled and type(location[at]) is Constant:
        key = Var(f"__key{own.number}__")
        body = (equation(key, location[at]), *body)
        location = (*location[:at], key, *location[at + 1 :])
    key_ = None if rule.key is None else names.plug(rule.key, own)
    value = None if rule.value is None else names.plug(rule.value, own)
    live = [*location, *([] if key_ is None else [key_]), *([] if value is None else [value])]
    body = _simple(search, body, live)
    search.support.add(Rule(location, None, key_, value, body, _package_of(location), rule.default))
    return True


def add_function(
    search: SearchContext, location: Path, rule: Rule, own: Bindings, saved: Sequence[Saved]
) -> None:
    """Add the residual of one branch of a function, its parameters unknown, to the support at
    `location`. Nothing is added if it never holds by its types.
    """
    body = search.well_typed(body_of(saved, search.names))
    if body is not None:
        assert rule.value is not None
        value = search.names.plug(rule.value, own)
        args = tuple([search.names.plug(arg, own) for arg in rule.args or ()])
        # The namespace makes the path longer, and the package with it.
        package = rule.package + len(location) - len(rule.path)
        search.support.add(Rule(location, args, None, value, body, package, rule.default))


def _package_of(path: Path) -> int:
    """Return the number of parts of a reference that form its package, `data` included. The package
    ends before the last plain name: `data.a.b.c[x]` has the package `data.a.b`.
    """
    end = 2
    for location in range(2, len(path)):
        part = path[location]
        if type(part) is not Constant or not isinstance(part.value, str):
            break
        if not operand_text(part.value).startswith("."):
            break
        end = location
    return end


def _value_of_default(value: Term, body: Body) -> tuple[Term, Body]:
    """Return the value and body of a default rule in the support. If the body is one equation that
    defines the value, its right side becomes the value, and the body `true`.
    """
    if len(body) == 1 and body[0].is_equation and body[0].args[0] == value:
        return body[0].args[1], (Expr((TRUE,)),)
    return value, body


def _simple(search: SearchContext, body: Body, head: Sequence[Term]) -> Body:
    """Return the body of a support rule simplified, with the variables of `head` left bound, and
    `true` if nothing of it remains; unchanged with `settings.shallow`.
    """
    if search.settings.shallow:
        return body
    # The head reads these, so propagation must leave them bound.
    live = {name for term in head for name in variables(term)} - ROOTS
    return Propagation(search.program, live, whole=True).apply(body)
