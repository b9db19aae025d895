"""Lenses: values of an evaluation that know how to change the input to get another value.

This module knows nothing of rules; `interpreter.py` builds the lenses of rules from these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

from doorward.base.records import record
from doorward.rego import UNDEFINED, BuiltinError, from_json, to_json
from doorward.rego.shared import from_key, to_key
from doorward.rego.tools import Builtin, equal, iterate, kinds, lookup, variants, witnesses

__all__ = [
    "APPEND",
    "FALSY",
    "TRUTHY",
    "Lens",
    "Put",
    "Want",
    "call_lens",
    "composite",
    "constant",
    "is_truthy",
    "item_lens",
    "path_lens",
    "put_at",
    "to_be",
]

SAMPLES: Final = 24
"""At most this many candidates are tried for one value."""
KEYS: Final = 2_000
"""At most this many items of a collection are searched for one with a wanted value."""
CHOSEN: Final = 6
"""At most this many keys of items with a wanted value are tried."""
APPEND: Final = object()
"""A key in a path that means the position after the last item of an array."""

Put: TypeAlias = Callable[["Want", Any], Iterator[Any]]


@record
class Want:
    """The value to reach: any value that `accepts` returns True for. `samples` are values to try.
    UNDEFINED among them means that there should be no value.
    """

    accepts: Callable[[Any], bool]
    samples: Sequence[Any] = ()


def is_truthy(value: Any) -> bool:
    """Return True if an expression with this value holds."""
    return value is not UNDEFINED and value is not False


TRUTHY: Final = Want(is_truthy, (True, "a", 1, ["a"], {"a": "a"}))
FALSY: Final = Want(lambda value: not is_truthy(value), (UNDEFINED, False))


def to_be(value: Any) -> Want:
    """Return a `Want` that accepts only values equal to this one."""
    return Want(lambda other: other is not UNDEFINED and equal(value, other), (value,))


class Lens:
    """A value that a search can change through the input. `value` is UNDEFINED if there is none.
    `put(want, input)` yields changed inputs; it is None if no input changes the value. `shape`: a
    composite value with None in place of undefined parts. `items`: the lenses of its parts by key.
    `grow(key, input)` yields inputs with a new part, under the key if that is not None.
    """

    __slots__ = ("grow", "items", "put", "shape", "value")

    def __init__(
        self,
        value: Any,
        put: Put | None,
        *,
        shape: Any = None,
        items: Mapping[Any, Lens] | None = None,
        grow: Callable[[Any, Any], Iterator[Any]] | None = None,
    ) -> None:
        self.value = value
        self.put = put
        self.shape = shape
        self.items = items
        self.grow = grow

    def changed(self, want: Want, input: Any) -> Iterator[Any]:
        """Yield inputs, changed from `input`, with which this value may be a wanted one. If no
        input changes the value, yield `input` itself if the value is wanted already, otherwise
        nothing.
        """
        if self.put is not None:
            yield from self.put(want, input)
        elif want.accepts(self.value):
            yield input


def constant(value: Any) -> Lens:
    """Return the lens of a value that no input changes."""
    return Lens(value, None)


def chosen(want: Want, more: Sequence[Any] = ()) -> Iterator[Any]:
    """Yield the samples that `want` accepts; if it accepts none, the values of `more` that it
    accepts.
    """
    is_empty = True
    for values in (want.samples, more):
        for value in values:
            if want.accepts(value):
                is_empty = False
                yield value
        if not is_empty:
            return


# The input


def path_lens(input: Any, path: tuple[Any, ...], others: Sequence[Any]) -> Lens:
    """Return the lens of a path of the input, UNDEFINED if nothing is there. `others` are values to
    try if no sample is accepted.
    """
    value = input
    for key in path:
        value = UNDEFINED if key is APPEND else lookup(value, key)
        if value is UNDEFINED:
            break

    def put(want: Want, changing: Any) -> Iterator[Any]:
        """Yield copies of the input `changing` with a wanted value at the path, for the first
        `SAMPLES` values; sets become arrays, and UNDEFINED removes the value.
        """
        for sample in islice(chosen(want, others), SAMPLES):
            document = sample if sample is UNDEFINED else to_document(sample)
            yield put_at(changing, path, document)

    return Lens(value, put)


def to_document(value: Any) -> Any:
    """Convert a value to part of an input: sets become arrays."""
    if isinstance(value, (str, int, float, type(None))):
        return value
    return from_json(to_json(value))


def put_at(document: Any, path: Sequence[Any], value: Any) -> Any:
    """Return a copy of the document with another value at a path; UNDEFINED removes it, and makes
    the whole document {}. Objects on the way, or arrays for integer keys and `APPEND`, are created
    and replace other values. At a key that JSON cannot have, such as an integer in an object,
    nothing is changed, but what is missing above it becomes null.
    """
    if not path:
        return {} if value is UNDEFINED else value
    key, rest = path[0], path[1:]
    if key is APPEND or (type(key) is int and not isinstance(document, dict)):
        return _put_item(document if isinstance(document, list) else [], key, rest, value)
    fields = document if isinstance(document, dict) else {}
    if type(key) is not str:
        return document  # no document has such a key
    if value is UNDEFINED and not rest:
        return {name: item for name, item in fields.items() if name != key}
    if value is UNDEFINED and key not in fields:
        return document
    return {**fields, key: put_at(fields.get(key), rest, value)}


def _put_item(items: list[Any], key: Any, rest: Sequence[Any], value: Any) -> list[Any]:
    """Return a copy of an array with the value at `rest` of the item at index `key`, or of a new
    item for `APPEND` and indices beyond the end; at most 256 gaps are filled with null. UNDEFINED
    removes what is there, the item if `rest` is empty.
    """
    if key is APPEND or key >= len(items):
        if value is UNDEFINED:
            return items
        filling = 0 if key is APPEND else min(key - len(items), 256)
        return [*items, *[None] * filling, put_at(None, rest, value)]
    if value is UNDEFINED and not rest:
        return [*items[:key], *items[key + 1 :]]
    return [*items[:key], put_at(items[key], rest, value), *items[key + 1 :]]


# Parts


def item_lens(owner: Lens, key: Lens) -> Lens:
    """Return the lens of the item under a key of a collection, UNDEFINED if there is none. A change
    goes through the item, the collection or the key; constant if neither collection nor key depends
    on the input.
    """
    known = None
    if owner.items is not None and key.value is not UNDEFINED:
        known = owner.items.get(to_key(key.value))
    value = known.value if known is not None else UNDEFINED
    if known is None and UNDEFINED not in (owner.value, key.value):
        value = lookup(owner.value, key.value)

    def put(want: Want, input: Any) -> Iterator[Any]:
        """Yield inputs with which the item may be wanted, by a change of the item, the collection
        or the key.
        """
        if known is not None:
            yield from known.changed(want, input)
        elif owner.grow is not None and key.value is not UNDEFINED and want.accepts(key.value):
            yield from owner.grow(key.value, input)
        if owner.put is not None and known is None:
            yield from _put_container(owner, key.value, want, input)
        if key.put is not None:
            yield from _put_key(owner, key, want, input)

    return Lens(value, None if owner.put is None and key.put is None else put)


def _put_container(owner: Lens, key: Any, want: Want, input: Any) -> Iterator[Any]:
    """Yield inputs in which the collection is replaced by one with a wanted item under the key, for
    the first `SAMPLES` wanted items. A missing collection is created; an empty object may become an
    array if the key is an integer.
    """
    base = owner.shape if owner.value is UNDEFINED else owner.value
    # An empty object may as well become an array.
    bases = [base, []] if base == {} and type(key) is int else [base]
    samples = [_with_item(b, key, each) for each in islice(chosen(want), SAMPLES) for b in bases]
    container = Want(lambda each: want.accepts(_lookup(each, key)), samples)
    yield from owner.changed(container, input)


def _lookup(owner: Any, key: Any) -> Any:
    """Return the item under a key, UNDEFINED if there is none or if either is undefined."""
    return UNDEFINED if owner is UNDEFINED or key is UNDEFINED else lookup(owner, key)


def _with_item(owner: Any, key: Any, item: Any) -> Any:
    """Return a copy of a collection with an item under a key; UNDEFINED removes the item, in an
    array also all after it. For an integer key from 0 to 255 anything but an object or array
    becomes an array, for other keys anything but an object becomes an object. With UNDEFINED as the
    key nothing is added.
    """
    if type(key) is int and 0 <= key < 256 and not isinstance(owner, dict):
        items = owner if isinstance(owner, list) else []
        if item is UNDEFINED:
            return items[:key]
        return [*items[:key], *[None] * (key - len(items)), item, *items[key + 1 :]]
    fields = owner if isinstance(owner, dict) else {}
    if key is UNDEFINED:
        return fields
    if item is UNDEFINED:
        return {name: each for name, each in fields.items() if name != to_key(key)}
    return {**fields, to_key(key): item}


def _put_key(owner: Lens, key: Lens, want: Want, input: Any) -> Iterator[Any]:
    """Yield inputs in which `key` is another key of `owner`, one whose item is wanted; for at most
    `CHOSEN` of the first `KEYS` keys, two inputs each.

    If undefined is wanted, also inputs with a key that `owner` does not have.
    """
    number = 0
    value = owner.value
    pairs = islice(iterate(value), KEYS) if isinstance(value, (list, dict, frozenset)) else ()
    for other, item in pairs:
        if number < CHOSEN and want.accepts(item):
            number += 1
            yield from islice(key.changed(to_be(other), input), 2)
    if want.accepts(UNDEFINED):
        absent = Want(lambda each: want.accepts(_lookup(owner.value, each)), ("~", UNDEFINED))
        yield from islice(key.changed(absent, input), 2)


def composite(value: Any, shape: Any, items: Mapping[Any, Lens]) -> Lens:
    """Return the lens of an array, object or set; a change is applied to its parts one after
    another, for the first `SAMPLES` wanted values, and only to a value with the same keys. It is
    constant if all parts are.
    """

    def put(want: Want, input: Any) -> Iterator[Any]:
        """Yield inputs in which every part has its value in a wanted sample, for the first
        `SAMPLES`; nothing for sets and for samples with other keys.
        """
        for sample in islice(chosen(want), SAMPLES):
            targets = _targets(sample, items)
            if targets is not None:
                yield from _put_all(targets, input)

    is_constant = all(each.put is None for each in items.values())
    return Lens(value, None if is_constant else put, shape=shape, items=items)


def _targets(sample: Any, items: Mapping[Any, Lens]) -> list[tuple[Lens, Any]] | None:
    """Return each part with the value it must get for `sample`; None if the sample has other parts
    or is a set.
    """
    if not isinstance(sample, (list, dict)) or len(sample) != len(items):
        return None
    pairs = [(items.get(to_key(key)), item) for key, item in iterate(sample)]
    if any(lens is None for lens, _ in pairs):
        return None
    return [(lens, item) for lens, item in pairs if lens is not None]


def _put_all(targets: Sequence[tuple[Lens, Any]], input: Any) -> Iterator[Any]:
    """Yield inputs in which each lens gets its value, changed one after another, in at most three
    ways for each lens. A lens that has its value already, or whose value in `targets` is None,
    stays.
    """
    if not targets:
        yield input
        return
    (lens, item), *rest = targets
    # An item that says nothing stands where an inverse knows none.
    is_right = item is None or (lens.value is not UNDEFINED and equal(lens.value, item))
    inputs = iter([input]) if is_right else lens.changed(to_be(item), input)
    for changed in islice(inputs, 3):
        yield from _put_all(rest, changed)


# Calls


def call_lens(
    builtin: Builtin | None,
    apply: Callable[[Sequence[Any]], Any],
    operands: Sequence[Lens],
    others: Sequence[Any],
) -> Lens:
    """Return the lens of a built-in's result. A change sets one operand to a value that the
    built-in's inverse or `others` give, and that `apply` confirms, and undefined other operands to
    examples of their type. The value is UNDEFINED if an operand is undefined.
    """
    values = [each.value for each in operands]
    value = UNDEFINED if any(each is UNDEFINED for each in values) else apply(values)
    types = builtin.signature.args if builtin is not None else ()

    def put(want: Want, input: Any) -> Iterator[Any]:
        """Yield inputs with which the result may be wanted, each by a change of one operand."""
        known = [
            _value_or_example(lens, types[i] if i < len(types) else None)
            for i, lens in enumerate(operands)
        ]
        for position, lens in enumerate(operands):
            if lens.put is None:
                continue

            def accepts(each: Any, position: int = position) -> bool:
                """Return True if the result with this operand is as wanted."""
                if each is UNDEFINED:
                    return want.accepts(UNDEFINED)
                return want.accepts(apply([*known[:position], each, *known[position + 1 :]]))

            samples = _candidates(builtin, position, want, known, others)
            for changed in lens.changed(Want(accepts, samples), input):
                yield from _put_all(_missing(operands, known, position), changed)

    return Lens(value, None if all(each.put is None for each in operands) else put)


def _missing(
    operands: Sequence[Lens], known: Sequence[Any], position: int
) -> list[tuple[Lens, Any]]:
    """Return the operands, except that at `position`, that are undefined and can be changed, with
    their values in `known`: the values of all operands, examples for undefined ones.
    """
    pairs = enumerate(zip(operands, known, strict=True))
    return [
        (lens, value)
        for number, (lens, value) in pairs
        if number != position and lens.value is UNDEFINED and lens.put is not None
    ]


def _value_or_example(lens: Lens, type_: Any) -> Any:
    """Return a lens's value; if it is undefined, its shape, or else an example of the operand's
    type.
    """
    if lens.value is not UNDEFINED:
        return lens.value
    return lens.shape if lens.shape is not None else witnesses(kinds(type_))[0]


def _candidates(
    builtin: Builtin | None,
    position: int,
    want: Want,
    known: Sequence[Any],
    others: Sequence[Any],
) -> list[Any]:
    """Return values for the operand at `position` that may give a wanted result, by the built-in's
    inverse, at most `SAMPLES` for each of the first `SAMPLES` wanted results. If there are none,
    the first `SAMPLES` of `others` and UNDEFINED. `known`: the values of all operands, examples
    for undefined ones.
    """
    candidates: list[Any] = []
    if builtin is not None and builtin.inverse is not None:
        for sample in islice(chosen(want), SAMPLES):
            if sample is UNDEFINED:
                candidates.append(UNDEFINED)
                continue
            try:
                candidates += islice(builtin.inverse(position, sample, known), SAMPLES)
            except _WRONG_KIND:
                continue  # what is wanted is nothing that it answers
    return candidates or [*others[:SAMPLES], UNDEFINED]


_WRONG_KIND: Final = (
    ArithmeticError,
    AttributeError,
    BuiltinError,
    LookupError,
    TypeError,
    ValueError,
)


def near(value: Any) -> list[Any]:
    """Return a value and variants that are close to it, the value first."""
    return [value, *variants(value)]


def key_value(key: Any) -> Lens:
    """Return the constant lens of a key of an object or set, converted from its key form."""
    return constant(from_key(key))
