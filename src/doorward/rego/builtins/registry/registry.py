"""The one list of built-ins: declaration beside code, operands checked once, in OPA's words.

A built-in's body takes Rego values and returns one, returns `UNDEFINED`, or raises
`BuiltinError(text)`; the caller adds name and position. Its operands have already been checked
for their outermost kind.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from importlib import import_module
from typing import Any, Final, NoReturn, TypeVar

from doorward.base.records import record
from doorward.rego.builtins.registry.foreign import guarded, is_foreign
from doorward.rego.builtins.registry.signature import Function, Type, any_, is_type, kinds
from doorward.rego.errors import OperandError
from doorward.rego.values import KINDS, Value, classes_of, kind_name

__all__ = [
    "REGISTRY",
    "Builtin",
    "Registry",
    "builtin",
    "check_name",
    "operand_error",
    "refuse_as_first",
]

Body = TypeVar("Body", bound=Callable[..., Any])


@record
class Builtin:
    """One built-in: its declaration, and `call`, which is called after the operands were checked.
    `call` takes the `Context` as its first argument if `context` is set. A `relation` (walk)
    returns an iterable of values, one for each solution.
    """

    name: str
    signature: Function
    body: Callable[..., Any]
    call: Callable[..., Any]
    category: str
    pure: bool = True
    context: bool = False
    relation: bool = False
    deprecated: str | None = None
    infix: str | None = None
    prepare: Callable[..., Callable[[str], Any]] | None = None
    """Returns, from all operands but the last one, a function of the last one (a string), for calls
    in which the others are constant; None if there is no such short cut.
    """
    inverse: Callable[[int, Any, Sequence[Any]], Iterable[Any]] | None = None
    """Returns candidates for an operand with which a call may give a wanted result, for searches
    (`builtins/inversion`); None: searches try other values.
    """
    absent: bool = False
    """True if only a capabilities file declares the built-in: calling it ends the evaluation."""

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.body) or ""

    def answered_by(self, call: Callable[..., Any], *, context: bool) -> Builtin:
        """Return a copy of the declaration with `call` in place of the code; `call` gets unchecked
        operands, after the `Context` if `context` is set. The copy counts as impure, and has no
        `infix` and no `prepare`.
        """
        return Builtin(
            name=self.name,
            signature=self.signature,
            body=call,
            call=call,
            category=self.category,
            pure=False,
            context=context,
            relation=self.relation,
            deprecated=self.deprecated,
            inverse=self.inverse,
        )


_PART: Final = "[A-Za-z_][A-Za-z0-9_]*"
_NAME: Final = re.compile(rf"(?!(?:data|input)(?:\.|\Z)){_PART}(?:\.{_PART})*")


def check_name(name: str) -> None:
    """Raise ValueError if policies cannot call a built-in `name`: `a.b` is valid, a name below
    `data` or `input` is not.
    """
    if not _NAME.fullmatch(name):
        # Generated code tells built-ins from rules (`data.a.p`) by name.
        raise ValueError(
            f"`{name}` is not a name for a built-in: use words joined by dots, such as "
            "`acme.lookup`, and not `data` or `input` as the first one"
        )


class _Entry:
    """A built-in, or the module that declares it and was not imported so far. Registries derived
    from another one share its entries, so that an import fills them all.
    """

    __slots__ = ("builtin", "module")

    def __init__(self, module: str, builtin: Builtin | None = None) -> None:
        self.module = module
        self.builtin = builtin

    def load(self) -> Builtin:
        """Return the built-in. The first call imports its module, whose decorator fills the entry;
        errors of the import pass through.
        """
        if self.builtin is None:
            # The decorator of this registry finds this very entry by its name, and fills it.
            import_module(self.module)
            # The table of names and modules is wrong otherwise; a test compares the two.
            assert self.builtin is not None, self.module
        return self.builtin


class Registry:
    """Built-ins by name, initially those of `bases`: `Registry(REGISTRY)` adds custom ones to
    OPA's. A module that `declare_in` named is imported when one of its built-ins is first read;
    testing whether a name exists imports nothing, iterating imports all. ValueError if two of
    `bases` have different built-ins of one name.
    """

    def __init__(self, *bases: Registry) -> None:
        self._entries: dict[str, _Entry] = {}
        for base in bases:
            for name, each in base._entries.items():
                if self._entries.setdefault(name, each) is not each:
                    raise ValueError(f"built-in `{name}` is declared twice")

    def declare_in(self, package: str, names: Mapping[str, str]) -> None:
        """Declare, without importing them, which built-ins the modules of `package` define: names
        separated by spaces, by module.
        """
        for module, declared in names.items():
            for name in declared.split():
                self._entries[name] = _Entry(f"{package}.{module}")

    def builtin(
        self,
        name: str,
        *args: Type,
        returns: Type | None,
        variadic: Type | None = None,
        pure: bool = True,
        context: bool = False,
        relation: bool = False,
        deprecated: str | None = None,
        infix: str | None = None,
        checked: bool = True,
        checks_deadline: bool = False,
        prepare: Callable[..., Callable[[str], Any]] | None = None,
        refuse: Callable[..., object] | None = None,
        inverse: Callable[[int, Any, Sequence[Any]], Iterable[Any]] | None = None,
    ) -> Callable[[Body], Body]:
        """Return a decorator that declares a function as the built-in `name` and returns it
        unchanged.

        `args` and `returns` are the types of its operands and result; `variadic` is that of any
        number of further operands, and such a built-in has no result. `pure=False`: the result can
        differ between two decisions on the same input. `context`: the function gets the `Context`
        first. `relation`: it returns an iterable with one value for each solution. `checked=False`:
        operands of any kind are passed to it. `checks_deadline`: the deadline is checked before
        each call, for built-ins that may take milliseconds. `prepare`: from all operands but the
        last, if they are constant, returns a function of the last one, a string. `refuse`: is
        called first when an operand has the wrong kind, and may raise OPA's own error. `inverse`:
        candidates for an operand with which the result may be a wanted one.

        An exception of a function from outside of this package, other than BuiltinError, ends the
        evaluation, and its result is converted by `from_python`. ValueError for a name that is
        taken, also by a built-in of OPA, or that policies cannot call, for parameters that do not
        fit the operands, for `variadic` with a result, for an async function, and for anything that
        is not a type.
        """

        def register(body: Body) -> Body:
            """Check the declaration against the function, add the built-in to the registry with its
            operands checked (unless `checked` is False) and, for a function that is not Doorward's,
            its exceptions and results guarded, and return the function unchanged. ValueError if the
            declaration is invalid or the name is taken, here or by one of OPA's.
            """
            check_name(name)
            if self is not REGISTRY and name in REGISTRY:
                # The compiler knows OPA's built-ins by name: another body would not always run.
                raise ValueError(f"built-in `{name}` is one of OPA's; choose another name")
            entry = self._entries.get(name) or _Entry(body.__module__)
            if entry.builtin is not None or entry.module != body.__module__:
                raise ValueError(f"built-in `{name}` is declared twice")
            if variadic is not None and returns is not None:
                # Which operand would be the output of `f(1, x)`?
                raise ValueError(
                    f"built-in `{name}` has `variadic`: use `returns=None`, it cannot have a result"
                )
            _check_parameters(name, body, len(args) + context, variadic is not None)
            _check_types(name, args, returns, variadic)
            signature = Function(args, returns, variadic)
            call: Callable[..., Any] = body
            if is_foreign(body):
                call = guarded(name, body, relation=relation)
            if checks_deadline:
                call = _checking_deadline(call)
            entry.builtin = Builtin(
                name=name,
                signature=signature,
                body=call,
                call=(
                    _check(call, _Refusal(signature, refuse), context=context or checks_deadline)
                    if checked
                    else call
                ),
                category=body.__module__.rpartition(".")[2],
                pure=pure,
                context=context or checks_deadline,
                relation=relation,
                deprecated=deprecated,
                infix=infix,
                prepare=prepare,
                inverse=inverse,
            )
            self._entries[name] = entry
            return body

        return register

    def restricted(self, names: Container[str], others: Iterable[Builtin] = ()) -> Registry:
        """Return a registry with only those of the present built-ins that are in `names`, and with
        those of `others` whose names are not among them. This registry is not changed; nothing is
        imported.
        """
        new = Registry()
        new._entries = {name: entry for name, entry in self._entries.items() if name in names}
        for each in others:
            new._entries.setdefault(each.name, _Entry(each.body.__module__, each))
        return new

    def __getitem__(self, name: str) -> Builtin:
        return self._entries[name].load()

    def get(self, name: str) -> Builtin | None:
        """Return the built-in of a name, whose module is imported now; None if there is none."""
        entry = self._entries.get(name)
        return None if entry is None else entry.load()

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[Builtin]:
        return iter([self._entries[name].load() for name in sorted(self._entries)])

    def __len__(self) -> int:
        return len(self._entries)


def _checking_deadline(body: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the `Context` and the operands that checks the deadline and then calls
    `body` with the operands alone.
    """

    @wraps(body)
    def checking(context: Any, *operands: Value) -> Any:
        context.check_deadline()
        return body(*operands)

    return checking


def _check_types(
    name: str, args: Sequence[Type], returns: Type | None, variadic: Type | None
) -> None:
    """Raise ValueError if a declared type is not one of `doorward.rego.types`; None for `returns`
    and `variadic` stands for no type.
    """
    types = {f"operand {number}": type_ for number, type_ in enumerate(args, start=1)}
    types |= {"result": returns or any_, "variadic operand": variadic or any_}
    for role, type_ in types.items():
        if not is_type(type_):
            text = f"built-in `{name}`: the type of its {role} is `{type_!r}`"
            raise ValueError(f"{text}; use one of `doorward.rego.types`, as `types.string`")


def _check_parameters(name: str, body: Callable[..., Any], count: int, variadic: bool) -> None:
    """Raise ValueError unless the function `body` of the built-in `name` has `count` parameters
    and, exactly if `variadic`, also `*rest`. Keyword parameters count.
    """
    parameters = inspect.signature(body).parameters.values()
    positional = [p for p in parameters if p.kind is not p.VAR_POSITIONAL]
    rest = len(positional) != len(parameters)
    if len(positional) != count or rest != variadic:
        expected = _parameters_text(count, variadic=variadic)
        actual = _parameters_text(len(positional), variadic=rest)
        raise ValueError(f"built-in `{name}` needs a function with {expected}, not {actual}")


def _parameters_text(count: int, *, variadic: bool) -> str:
    return f"{count} parameter{'s' * (count != 1)}{' and `*rest`' * variadic}"


def operand_error(position: int, value: Value, *expected: str) -> OperandError:
    """Build, but do not raise, OPA's error for operand `position` (from 1) of the wrong kind;
    `expected` are the right kinds.
    """
    want = expected[0] if len(expected) == 1 else "one of {" + ", ".join(expected) + "}"
    return OperandError(f"operand {position} must be {want} but got {kind_name(value)}")


def refuse_as_first(*operands: Value) -> None:
    """Raise OperandError for the first operand that is not a string, numbered operand 1: OPA counts
    each operand of some built-ins of strings as the first.
    """
    raise operand_error(1, next(o for o in operands if not isinstance(o, str)), "string")


def _check(body: Callable[..., Any], refusal: _Refusal, *, context: bool) -> Callable[..., Any]:
    """Wrap the body in a check of its operands' kinds, which raises OperandError, or the error of
    the built-in's `refuse`, for a wrong one. It is specialised by their number, since every call
    runs it. The body itself is returned if its operands may be of any kind. `context`: the
    `Context` comes before the operands and is passed on.
    """
    if not any(map(kinds, refusal.signature.args)):
        return body
    classes = [_classes(type_) for type_ in refusal.signature.args]
    # The forms for a number of operands take no further ones.
    arity = len(classes) if refusal.signature.variadic is None else 4
    if context:
        return (
            (_context_1, _context_2)[arity - 1](body, refusal, *classes)
            if arity < 3
            else (_context_n(body, refusal, classes))
        )
    if arity == 1:
        return _unary(body, refusal, classes[0])
    if arity == 2:
        return _binary(body, refusal, classes[0], classes[1])
    if arity == 3:
        return _ternary(body, refusal, classes[0], classes[1], classes[2])

    def call(*operands: Value) -> Any:
        """Call the body; OperandError, or the built-in's own error, for a wrong kind."""
        for want, operand in zip(classes, operands, strict=False):
            if type(operand) not in want:
                refusal.refuse(operands)
        return body(*operands)

    return call


def _context_n(
    body: Callable[..., Any], refusal: _Refusal, classes: Sequence[Container[type]]
) -> Callable[..., Any]:
    """Return a function that calls `body`, with a context and any number of operands, after a check
    of their kinds. OperandError, or the built-in's own error, for a wrong kind.
    """

    def call(context: object, *operands: Value) -> Any:
        """Call the body; OperandError, or the built-in's own error, for a wrong kind."""
        for want, operand in zip(classes, operands, strict=False):
            if type(operand) not in want:
                refusal.refuse(operands)
        return body(context, *operands)

    return call


def _context_1(
    body: Callable[..., Any], refusal: _Refusal, want: Container[type]
) -> Callable[..., Any]:
    """Return a function that calls `body`, with a context and one operand, after a check of its
    kind.
    """

    def call(context: object, a: Value) -> Any:
        """Call the body; OperandError, or the built-in's own error, for a wrong kind."""
        if type(a) not in want:
            refusal.refuse((a,))
        return body(context, a)

    return call


def _context_2(
    body: Callable[..., Any],
    refusal: _Refusal,
    first: Container[type],
    second: Container[type],
) -> Callable[..., Any]:
    """Return a function that calls `body`, with a context and two operands, after a check of their
    kinds.
    """

    def call(context: object, a: Value, b: Value) -> Any:
        """Call the body; OperandError, or the built-in's own error, for a wrong kind."""
        if type(a) not in first or type(b) not in second:
            refusal.refuse((a, b))
        return body(context, a, b)

    return call


def _unary(
    body: Callable[..., Any], refusal: _Refusal, want: Container[type]
) -> Callable[..., Any]:
    """Return a function that calls `body` with one operand after a check of its kind."""

    def call(a: Value) -> Any:
        """Call the body; OperandError, or the built-in's own error, for a wrong kind."""
        if type(a) not in want:
            refusal.refuse((a,))
        return body(a)

    return call


def _binary(
    body: Callable[..., Any],
    refusal: _Refusal,
    first: Container[type],
    second: Container[type],
) -> Callable[..., Any]:
    """Return a function that calls `body` with two operands after a check of their kinds."""

    def call(a: Value, b: Value) -> Any:
        """Call the body; OperandError, or the built-in's own error, for a wrong kind."""
        if type(a) not in first or type(b) not in second:
            refusal.refuse((a, b))
        return body(a, b)

    return call


def _ternary(
    body: Callable[..., Any],
    refusal: _Refusal,
    first: Container[type],
    second: Container[type],
    third: Container[type],
) -> Callable[..., Any]:
    """Return a function that calls `body` with three operands if their classes are in `first`,
    `second` and `third`, and raises the error of `refusal` otherwise.
    """

    def call(a: Value, b: Value, c: Value) -> Any:
        """Return what the built-in's body returns for three operands; OperandError, or the
        built-in's own error, if one is of the wrong kind.
        """
        if type(a) not in first or type(b) not in second or type(c) not in third:
            refusal.refuse((a, b, c))
        return body(a, b, c)

    return call


@record
class _Refusal:
    """The error for a call in which an operand has the wrong kind. `first` is the declaration's
    `refuse`.
    """

    signature: Function
    first: Callable[..., object] | None

    def refuse(self, operands: tuple[Value, ...]) -> NoReturn:
        """Raise OPA's OperandError for the first operand of the wrong kind; the declaration's
        `refuse` is called before and may raise its own error.
        """
        if self.first is not None:
            self.first(*operands)
        expected = [kinds(type_) for type_ in self.signature.args]
        wrong = [
            bool(w) and kind_name(o) not in w for w, o in zip(expected, operands, strict=False)
        ]
        position = wrong.index(True)
        raise operand_error(position + 1, operands[position], *expected[position])


def _classes(type_: Type) -> frozenset[type]:
    """Return the Python classes of the values that `type_` admits, by its outermost kinds alone;
    for any, those of all values.
    """
    return frozenset(c for kind in kinds(type_) or KINDS for c in classes_of(kind))


REGISTRY: Final = Registry()
builtin: Final = REGISTRY.builtin
