"""Types, as built-ins declare them and as the type checker computes with them (OPA's lattice).

`array(any_)`, `set_(string)`, `object_(any_, any_)`, `any_of(string, number)`: the words of a
declaration. Checking operands at run time needs only the outermost kind of each
(`Type.kinds`); the rest is for the compiler, the docs and the capabilities file.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from doorward.base.records import HashedOnce, record

__all__ = [
    "AnyOf",
    "ArrayType",
    "Function",
    "ObjectType",
    "ScalarType",
    "SetType",
    "Type",
    "any_",
    "any_of",
    "array",
    "boolean",
    "is_type",
    "kinds",
    "null",
    "number",
    "object_",
    "set_",
    "signature_text",
    "string",
    "tuple_",
    "type_text",
]


@record
class ScalarType:
    """The type null, boolean, number or string."""

    kind: str


@record
class ArrayType(HashedOnce):
    """An array type: `items` at fixed positions, then any number of items of type `rest` (None: no
    more).
    """

    items: tuple[Type, ...] = ()
    rest: Type | None = None
    kind: str = "array"


@record
class ObjectType(HashedOnce):
    """An object type: `fields` with constant keys (a Rego value in key form, and the type of its
    value), then any number of pairs with the key and value types in `rest` (None: no more).
    """

    fields: tuple[tuple[object, Type], ...] = ()
    rest: tuple[Type, Type] | None = None
    kind: str = "object"


@record
class SetType(HashedOnce):
    of: Type
    kind: str = "set"


@record
class AnyOf(HashedOnce):
    """A union type: one of `options`, in the order in which errors name them; without options, any
    value.
    """

    options: tuple[Type, ...] = ()
    kind: str = "any"


@record
class Function:
    """The type of a function: its operands and its result; `variadic` is the type of any number of
    further operands. `result` None: the call has no result (`print`).
    """

    args: tuple[Type, ...]
    result: Type | None
    variadic: Type | None = None
    kind: str = "function"


Type: TypeAlias = ScalarType | ArrayType | ObjectType | SetType | AnyOf | Function

null: Final = ScalarType("null")
boolean: Final = ScalarType("boolean")
number: Final = ScalarType("number")
string: Final = ScalarType("string")
any_: Final = AnyOf()


def array(of: Type) -> ArrayType:
    """The type of arrays of any length whose items have the type `of`."""
    return ArrayType((), of)


def tuple_(*items: Type) -> ArrayType:
    """The type of arrays with exactly these types of items, in this order."""
    return ArrayType(items)


def set_(of: Type) -> SetType:
    return SetType(of)


def object_(key: Type, value: Type, **fields: Type) -> ObjectType:
    """An object type: `fields` are known names with the types of their values; any other keys are
    of type `key`, their values of type `value`.
    """
    return ObjectType(tuple(fields.items()), (key, value))


def any_of(*options: Type) -> AnyOf:
    return AnyOf(options)


def is_type(type_: object) -> bool:
    """Return True if the object is a type that a declaration may use, and so are its parts;
    functions are not.
    """
    match type_:
        case ScalarType():
            return True
        case ArrayType(items, rest):
            return all(map(is_type, items)) and (rest is None or is_type(rest))
        case ObjectType(fields, rest):
            parts = [part for _, part in fields] + list(rest or ())
            return all(map(is_type, parts))
        case SetType(of):
            return is_type(of)
        case AnyOf(options):
            return all(map(is_type, options))
    return False


def kinds(type_: Type) -> tuple[str, ...]:
    """The kinds of value that `type_` accepts, such as `("array", "set")`, in the order in which
    errors name them; () if it accepts all.
    """
    if not isinstance(type_, AnyOf):
        return (type_.kind,)
    names: list[str] = []
    for option in type_.options:
        inner = kinds(option)
        if not inner:
            return ()
        names += [kind for kind in inner if kind not in names]
    return tuple(names)


def type_text(type_: Type) -> str:
    """Return a type as text for users, such as `array of string` or `number or set of any`; an
    object is only `object`, and an array of fixed items is `[string, number]`.
    """
    match type_:
        case AnyOf(options=()):
            return "any"
        case AnyOf(options=options):
            return " or ".join(type_text(option) for option in options)
        case ArrayType(items=items, rest=None):
            return f"[{', '.join(type_text(item) for item in items)}]"
        case ArrayType(rest=rest) if rest is not None:
            return f"array of {type_text(rest)}"
        case SetType(of=of):
            return f"set of {type_text(of)}"
        case ObjectType():
            return "object"
        case _:
            return type_.kind


def signature_text(signature: Function) -> str:
    """Return the operands and result of a built-in as text for users, such as `(string, number) →
    string`; `…` is behind the type of any number of operands, and no result is left out.
    """
    operands = [type_text(type_) for type_ in signature.args]
    if signature.variadic is not None:
        operands.append(f"{type_text(signature.variadic)} …")
    arrow = f" → {type_text(signature.result)}" if signature.result is not None else ""
    return f"({', '.join(operands)}){arrow}"
