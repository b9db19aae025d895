"""Declarations of built-ins as OPA's capabilities files hold them, and back.

A built-in that only a file declares has a type and no code: policies that call it can be checked,
and tested with something in its place; calling it ends the evaluation, as in OPA.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, NoReturn

from doorward.rego.builtins.registry import Builtin, check_name
from doorward.rego.builtins.registry.signature import (
    AnyOf,
    ArrayType,
    Function,
    ObjectType,
    ScalarType,
    SetType,
    Type,
)
from doorward.rego.conversion import from_python
from doorward.rego.errors import INTERNAL_ERROR, EvaluationAborted
from doorward.rego.values import from_key, to_json, to_key

__all__ = ["from_declaration", "to_declaration"]

MAX_DEPTH: Final = 50
"""The most levels of nesting in the types of a declaration."""

_DEPRECATED: Final = "the capabilities file says so"
_SCALARS: Final = ("boolean", "null", "number", "string")


def to_declaration(builtin: Builtin) -> dict[str, Any]:
    """Return the entry of a built-in in a capabilities file, as JSON: its name, its type, and those
    of the flags `infix`, `relation`, `nondeterministic` and `deprecated` that it has.
    """
    signature = builtin.signature
    declaration: dict[str, Any] = {"type": "function"}
    if signature.args:
        declaration["args"] = [_type(each) for each in signature.args]
    if signature.result is not None:
        declaration["result"] = _type(signature.result)
    if signature.variadic is not None:
        declaration["variadic"] = _type(signature.variadic)
    entry: dict[str, Any] = {"name": builtin.name, "decl": declaration}
    if builtin.infix:
        entry["infix"] = builtin.infix
    if builtin.relation:
        entry["relation"] = True
    if not builtin.pure:
        entry["nondeterministic"] = True
    if builtin.deprecated is not None:
        entry["deprecated"] = True
    return entry


_KINDS: Final = ("null", "boolean", "number", "string", "array", "object", "set", "any")
_ORDER: Final = {kind: number for number, kind in enumerate(_KINDS)}
"""The order in which OPA lists the expected kinds of an operand."""


def _type(type_: Type) -> dict[str, Any]:
    """Return a type in the notation of capabilities files, as JSON; the options of a union are in
    OPA's order, and empty parts are left out. The type must not contain a function.
    """
    match type_:
        case ScalarType(kind):
            return {"type": kind}
        case SetType(of):
            return {"type": "set", "of": _type(of)}
        case AnyOf(options):
            # The order in which OPA lists them.
            kinds = sorted(map(_type, options), key=lambda each: _ORDER[each["type"]])
            return {"type": "any"} | ({"of": kinds} if kinds else {})
        case ArrayType(items, rest):
            fixed = {"static": [_type(each) for each in items]} if items else {}
            return {"type": "array"} | fixed | ({"dynamic": _type(rest)} if rest else {})
    assert isinstance(type_, ObjectType)  # no operand of a built-in is a function
    document: dict[str, Any] = {"type": "object"}
    if type_.fields:
        document["static"] = [
            {"key": _key_json(key), "value": _type(each)} for key, each in type_.fields
        ]
    if type_.rest:
        document["dynamic"] = {"key": _type(type_.rest[0]), "value": _type(type_.rest[1])}
    return document


def _key_json(key: object) -> object:
    value = from_key(key)  # type: ignore[arg-type]  # fields are declared in key form
    return json.loads(to_json(value))


def from_declaration(entry: dict[str, Any]) -> Builtin:
    """Return a built-in without code from an entry of a capabilities file; calling it ends the
    evaluation. ValueError for an invalid name or type, KeyError without a `name`.
    """
    name, declaration = str(entry["name"]), entry.get("decl")
    check_name(name)
    try:
        signature = _signature(declaration)
    except ValueError as error:
        raise ValueError(f"built-in `{name}`: {error}") from None
    body = _absent(name)
    return Builtin(
        name=name,
        signature=signature,
        body=body,
        call=body,
        category="from_declaration",
        pure=entry.get("nondeterministic") is not True,
        deprecated=_DEPRECATED if entry.get("deprecated") is True else None,
        absent=True,
    )


def _signature(declaration: Any) -> Function:
    """Return the function type in `decl` of a built-in's entry; no `result` is None. ValueError if
    it is not an object of type `function`, contains an invalid type, or has both `variadic` and
    `result`.
    """
    if not isinstance(declaration, dict) or declaration.get("type") != "function":
        raise ValueError("`decl` must be an object of type function")
    args = _list(declaration, "args")
    result, variadic = (declaration.get(name) for name in ("result", "variadic"))
    if result is not None and variadic is not None:
        raise ValueError("`decl` has `variadic`: it cannot have a `result`")
    return Function(
        tuple([_read(each) for each in args]),
        None if result is None else _read(result),
        None if variadic is None else _read(variadic),
    )


def _read(document: Any, depth: int = 0) -> Type:
    """Parse a type in the notation of capabilities files, which is nested in `depth` others. A set
    without `of` is one of any; `any` without `of` is the type any. ValueError if it is invalid or
    nested more than `MAX_DEPTH` deep.
    """
    if depth > MAX_DEPTH:
        raise ValueError(f"types are nested more than {MAX_DEPTH} levels deep")
    kind = document.get("type") if isinstance(document, dict) else None
    if kind in _SCALARS:
        return ScalarType(kind)
    if kind == "any":
        return AnyOf(tuple([_read(each, depth + 1) for each in _list(document, "of")]))
    if kind == "set":
        return SetType(_read(document.get("of") or {"type": "any"}, depth + 1))
    if kind == "array":
        items = tuple([_read(each, depth + 1) for each in _list(document, "static")])
        dynamic = document.get("dynamic")
        return ArrayType(items, None if dynamic is None else _read(dynamic, depth + 1))
    if kind == "object":
        return _read_object(document, depth + 1)
    raise ValueError("a type must be an object with the name of a type under `type`")


def _read_object(document: dict[str, Any], depth: int) -> ObjectType:
    """Parse an object type with its `static` and `dynamic` parts, both optional, whose types are
    nested in `depth` others; keys are put in key form. ValueError if it is invalid or nested too
    deeply.
    """
    fields = []
    for each in _list(document, "static"):
        if not isinstance(each, dict) or "key" not in each:
            raise ValueError(
                "`static` of an object type must be a list of objects with `key` and `value`"
            )
        fields.append((to_key(from_python(each["key"])), _read(each.get("value"), depth)))
    dynamic = document.get("dynamic")
    if dynamic is None:
        return ObjectType(tuple(fields))
    if not isinstance(dynamic, dict):
        raise ValueError("`dynamic` of an object type must be an object with `key` and `value`")
    return ObjectType(
        tuple(fields), (_read(dynamic.get("key"), depth), _read(dynamic.get("value"), depth))
    )


def _list(document: dict[str, Any], field: str) -> list[Any]:
    """Return the list in `field`, [] if it is absent or null; ValueError, with the name of the
    field, if it is not a list.
    """
    items = document.get(field)
    if items is not None and not isinstance(items, list):
        raise ValueError(f"`{field}` must be a list")
    return items or []


def _absent(name: str) -> Callable[..., NoReturn]:
    """Return the body of a built-in that only a capabilities file declares; it raises
    EvaluationAborted, with a hint.
    """

    def absent(*_operands: object) -> NoReturn:
        """Raise EvaluationAborted: the built-in is declared by a capabilities file and has no
        code.
        """
        halt = EvaluationAborted("unsupported built-in")
        halt.code = INTERNAL_ERROR
        halt.hint = (
            f"only the capabilities file declares {name}: name its code with --builtins, "
            f"or put another function in its place, `with {name} as …`"
        )
        raise halt

    return absent
