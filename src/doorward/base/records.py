"""Dataclasses with slots that are fast to declare and to create: records, which are immutable, and
`mutable` classes.

A class of `dataclasses` takes a fifth of a millisecond to declare and three times as long if it is
frozen, since each of its methods is compiled: a hundred of them were a third of the start of a
command. Both are compared, hashed and shown by methods that all classes share, and their `__init__`
is compiled when the first instance is created. For everything else they are dataclasses.

A record cannot be changed: setting a field is an error at run time too, since a changed key would
be lost in its dictionary. `guarded=False` leaves this to mypy, because a guarded record takes three
times as long to create (370 ns instead of 127). It is for the spans, tokens and intermediate trees
of which a build creates hundreds of thousands; `tests/test_house_rules.py` lists their modules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from typing import Any, Final, NoReturn, TypeVar, dataclass_transform, overload

__all__ = ["HashedOnce", "mutable", "record", "remember", "replace"]

_C = TypeVar("_C")
_FACTORY: Final = object()
"""The default of a parameter whose value a factory creates."""


class HashedOnce:
    """A base class of records that are large and often used as keys: each computes its hash only
    once.
    """

    __slots__ = ("_hash",)
    _hash: int


@overload
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[_C]) -> type[_C]: ...
@overload
def record(*, guarded: bool = ..., kw_only: bool = ...) -> Callable[[type[_C]], type[_C]]: ...
def record(
    cls: type[_C] | None = None, *, guarded: bool = True, kw_only: bool = False
) -> type[_C] | Callable[[type[_C]], type[_C]]:
    """Return the dataclass that `cls` declares, immutable, with slots, equality and a hash. Without
    `cls`, return a decorator.

    `guarded=False`: only mypy refuses to set a field. `kw_only`: as in `dataclasses`.
    """
    if cls is None:
        return lambda declared: _record(declared, guarded=guarded, kw_only=kw_only)
    return _record(cls, guarded=guarded, kw_only=kw_only)


@overload
@dataclass_transform(field_specifiers=(field,))
def mutable(cls: type[_C]) -> type[_C]: ...
@overload
def mutable(*, eq: bool = ...) -> Callable[[type[_C]], type[_C]]: ...
def mutable(
    cls: type[_C] | None = None, *, eq: bool = True
) -> type[_C] | Callable[[type[_C]], type[_C]]:
    """Return the dataclass that `cls` declares, with slots; its fields can be set. Without `cls`,
    return a decorator. Instances with equal fields are equal and have no hash; with `eq=False` each
    is equal to itself only.
    """
    if cls is None:
        return lambda declared: _mutable(declared, eq=eq)
    return _mutable(cls, eq=eq)


def replace(old: _C, /, **changes: Any) -> _C:
    """Return a copy of a record with other values of some fields, like `dataclasses.replace` in a
    fifth of the time. `__post_init__` is not called, so that the values are not checked.
    AttributeError for an unknown field.
    """
    kind = type(old)
    copy = _copies.get(kind)
    if copy is None:
        copy = _copies[kind] = _compiled_copy(kind)
    new: _C = copy(old)
    for name, value in changes.items():
        _put(new, name, value)
    return new


remember: Final = object.__setattr__
"""Stores a value that a record has computed from its fields, such as its hash, in a slot of its
own.
"""
_put: Final = remember
_copies: Final[dict[type, Callable[[Any], Any]]] = {}


def _compiled_copy(kind: type) -> Callable[[Any], Any]:
    """Compile and return a function that copies an instance field by field, without `__init__`."""
    names: dict[str, Any] = {"make": object.__new__, "kind": kind, "put": _put}
    lines = [f"put(new, {each.name!r}, old.{each.name})" for each in fields(kind)]
    if "__setattr__" not in kind.__dict__:
        lines = [f"new.{each.name} = old.{each.name}" for each in fields(kind)]
    exec("\n ".join(["def copy(old):", "new = make(kind)", *lines, "return new"]), names)
    copy: Callable[[Any], Any] = names["copy"]
    return copy


def _record(cls: type[_C], *, guarded: bool, kw_only: bool) -> type[_C]:
    """Turn a class into a slotted dataclass with shared methods; `guarded` makes it immutable.
    Methods that the class defines itself remain, except `__init__`.
    """
    attributes = dict(cls.__dict__)
    record_class = _slotted(cls, kw_only=kw_only)
    compared = _compared(record_class)
    methods: dict[str, Callable[..., Any]] = {
        "__eq__": _equality(compared),
        "__hash__": _hash_once(compared) if issubclass(cls, HashedOnce) else _hash(compared),
        "__repr__": _text,
    }
    if guarded:
        methods |= {"__setattr__": _refuse, "__delattr__": _refuse}
        methods |= {"__getstate__": _state, "__setstate__": _restore}
    for name, method in methods.items():
        # A class that says itself what is equal says itself how that is hashed.
        if attributes.get(name) is None:
            setattr(record_class, name, method)
    record_class.__init__ = _first_init(record_class, guarded=guarded)
    done: type[_C] = record_class
    return done


def _mutable(cls: type[_C], *, eq: bool) -> type[_C]:
    """Turn a class into a slotted dataclass with shared methods, whose fields can be set. Methods
    that the class defines itself remain, except `__init__`.
    """
    own = set(cls.__dict__)
    class_ = _slotted(cls, kw_only=False)
    if eq and "__eq__" not in own:
        class_.__eq__ = _equality(_compared(class_))
        class_.__hash__ = None
    if "__repr__" not in own:
        class_.__repr__ = _text
    class_.__init__ = _first_init(class_, guarded=False)
    done: type[_C] = class_
    return done


def _slotted(cls: type, *, kw_only: bool) -> Any:
    """Return the dataclass that `cls` declares, with slots and without generated methods. `kw_only`
    as in `dataclasses`. Gives `cls` its name as its docstring if it has none.
    """
    if cls.__doc__ is None:
        cls.__doc__ = f"{cls.__name__}."  # dataclasses would look for a signature
    return dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)(cls)


def _compared(record_class: Any) -> Callable[[Any], Any]:
    """Return a function that returns the values of an instance's fields with `compare`, by which
    instances are compared: a tuple, or the value itself of a single field.
    """
    names = [each.name for each in fields(record_class) if each.compare]
    return attrgetter(*names) if names else lambda self: ()


def _equality(compared: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return an `__eq__` under which two instances are equal if they have the same class and
    `compared` returns equal values for both.
    """

    def equal(self: Any, other: object) -> Any:
        return compared(self) == compared(other) if type(other) is type(self) else NotImplemented

    return equal


def _hash(compared: Callable[[Any], Any]) -> Callable[[Any], int]:
    return lambda self: hash(compared(self))


def _hash_once(compared: Callable[[Any], Any]) -> Callable[[Any], int]:
    """Return a `__hash__` that hashes what `compared` returns for an instance, at the first call,
    and stores the result in the instance.
    """

    def kept(self: Any) -> int:
        """Return the stored hash of an instance, computing and storing it at the first call."""
        try:
            known: int = self._hash
        except AttributeError:
            known = hash(compared(self))
            _put(self, "_hash", known)
        return known

    return kept


def _text(self: Any) -> str:
    """Return the text of a record, its `repr`: the class and the fields that are shown."""
    pairs = [f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr]
    return f"{type(self).__qualname__}({', '.join(pairs)})"


def _refuse(self: object, name: str, *_value: object) -> NoReturn:
    """Raise FrozenInstanceError for a change of a record."""
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _state(self: Any) -> list[Any]:
    """Return the values of all fields, for pickling."""
    return [getattr(self, each.name) for each in fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    """Set the fields of an unpickled record from the list of `_state`."""
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)


def _first_init(record_class: Any, *, guarded: bool) -> Callable[..., None]:
    """Return an `__init__` that replaces itself by a compiled one when the first record is created.
    `guarded`: for an immutable class.
    """

    def init(self: Any, *args: Any, **named: Any) -> None:
        """Compile the `__init__` of the class unless another thread did, and call it."""
        if record_class.__init__ is init:
            record_class.__init__ = _compiled_init(record_class, guarded=guarded)
        record_class.__init__(self, *args, **named)

    return init


def _compiled_init(record_class: Any, *, guarded: bool) -> Callable[..., None]:
    """Return an `__init__`, compiled as source, that sets the fields of `record_class`, a class
    with slots, as that of a dataclass does. With `guarded` it sets the slots directly, since
    `__setattr__` refuses. A field with `init=False` and no default stays unset; `__post_init__`, if
    there is one, is called at the end.
    """
    names: dict[str, Any] = {"FACTORY": _FACTORY, "put": object.__setattr__}
    plain, keyword = ["self"], list[str]()
    lines: list[str] = []
    for each in fields(record_class):
        name, value = each.name, each.name
        parameter = name
        if each.default_factory is not MISSING:
            names[f"make_{name}"] = each.default_factory
            parameter = f"{name}=FACTORY"
            value = (
                f"make_{name}() if {name} is FACTORY else {name}" if each.init else f"make_{name}()"
            )
        elif each.default is not MISSING:
            names[f"default_{name}"] = each.default
            parameter = f"{name}=default_{name}"
            if not each.init:
                value = f"default_{name}"
        elif not each.init:  # `__post_init__` sets it, or its owner
            continue
        if each.init:
            (keyword if each.kw_only else plain).append(parameter)
        names[f"set_{name}"] = getattr(record_class, name).__set__
        lines.append(f"set_{name}(self, {value})" if guarded else f"self.{name} = {value}")
    if hasattr(record_class, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join([*plain, *(["*", *keyword] if keyword else [])])
    exec("\n ".join([f"def __init__({parameters}):", *(lines or ["pass"])]), names)
    init: Any = names["__init__"]
    init.__qualname__ = f"{record_class.__qualname__}.__init__"
    init.__module__ = record_class.__module__
    return init  # type: ignore[no-any-return] # the function that was just defined
