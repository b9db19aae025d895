"""Items of values: those of a collection, those that it could have, and collections of lenses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import count, islice
from typing import Any, Final

from doorward.rego import UNDEFINED
from doorward.rego.shared import from_key, to_key
from doorward.rego.tools import iterate, lookup, make_set
from doorward.search.inversion.lenses import (
    APPEND,
    TRUTHY,
    Lens,
    Want,
    composite,
    constant,
    item_lens,
    to_be,
)

__all__ = [
    "ROWS",
    "Paths",
    "absent_items",
    "add_item",
    "all_items",
    "array_lens",
    "constant_item",
    "first_items",
    "fit_size",
    "is_collection",
    "lookup_path",
    "object_lens",
    "path_of_item",
    "set_lens",
    "walk_items",
]

ROWS: Final = 64
"""At most this many items of one collection are read."""


class Paths(Mapping[Any, Lens]):
    """A mapping from any key to the lens of the input at that key below a location, also for keys
    that the input does not have. Lenses are created at each access. It has length 0, since its keys
    cannot be listed.
    """

    def __init__(self, make: Callable[[Any], Lens]) -> None:
        self._make = make

    def __getitem__(self, key: Any) -> Lens:
        return self._make(key if key is APPEND else from_key(key))

    def get(self, key: Any, default: Any = None) -> Any:
        return self[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0


def is_collection(value: Any) -> bool:
    return isinstance(value, (list, dict, frozenset))


def fit_size(values: list[Any], size: int) -> Iterator[list[Any]]:
    """Yield an array that is cut to a size, or filled with the text "a" and, if it is empty or
    contains only numbers, also one filled with numbers.
    """
    missing = size - len(values)
    yield [*values[:size], *["a"] * missing]
    if missing > 0 and all(type(each) in (int, float) for each in values):
        yield [*values, *range(missing)]


def constant_item(owner: Lens, key: Any) -> Lens:
    """Return the lens of the item of a value under a constant key; its value is UNDEFINED if there
    is none.
    """
    return owner.items[key] if isinstance(owner.items, Paths) else item_lens(owner, constant(key))


def absent_items(root: Lens) -> Iterator[Lens]:
    """Yield lenses of `[path, value]` pairs that `walk` would yield if the input had a member at a
    new path of 1 to 4 names; their values are UNDEFINED. Nothing if `root` does not depend on the
    input.
    """
    for size in range(1, 5) if root.put is not None else ():
        path = tuple(f"k{number}" for number in range(size))
        item = reduce(constant_item, path, root)
        if item.value is UNDEFINED:
            yield array_lens([path_of_item(root, path, UNDEFINED), item])


def path_of_item(root: Lens, path: Sequence[Any], value: Any) -> Lens:
    """Return the lens of a path in a pair of `walk`. To change it to another path, the input gets
    `value`, the item of the pair, at that path.
    """

    def put(want: Want, input: Any) -> Iterator[Any]:
        """Yield inputs in which the item at a wanted path has the value, or a true one if the value
        is undefined.
        """
        for sample in want.samples[:4]:
            if isinstance(sample, list) and want.accepts(sample):
                there = TRUTHY if value is UNDEFINED else to_be(value)
                yield from islice(reduce(constant_item, sample, root).changed(there, input), 2)

    return Lens([*path], None if root.put is None else put)


def lookup_path(value: Any, path: Iterable[Any]) -> Any:
    """Return the value at a path of base data, UNDEFINED if there is none."""
    for key in path:
        value = lookup(value, from_key(key))
        if value is UNDEFINED:
            break
    return value


def first_items(value: Any) -> list[Any]:
    """Return the first four items of a collection; [] for other values."""
    return [item for _, item in islice(iterate(value), 4)] if is_collection(value) else []


def add_item(owner: Lens) -> Callable[[Want, Any], Iterator[Any]]:
    """Return a `put` function, which yields at most 16 inputs in which the collection `owner` has
    one more item, one of the first eight wanted ones; an object gets it under the key "a". An
    undefined or scalar `owner` counts as an empty array.
    """

    def put(want: Want, input: Any) -> Iterator[Any]:
        """Yield at most 16 inputs in which the collection, with the items that it had at first, has
        one more item, one of the first eight wanted ones.
        """
        base = owner.value if owner.value is not UNDEFINED else []
        grown: list[Any] = []
        for sample in want.samples[:8]:
            if isinstance(base, frozenset):
                grown.append(base | {to_key(sample)})
            elif sample is not UNDEFINED:
                # An array takes the place of a scalar, which has no items.
                items = base if isinstance(base, list) else []
                grown.append({**base, "a": sample} if isinstance(base, dict) else [*items, sample])

        def accepts(value: Any) -> bool:
            known = iterate(value) if is_collection(value) else ()
            return any(want.accepts(item) for _, item in islice(known, ROWS))

        yield from islice(owner.changed(Want(accepts, grown), input), 16)

    return put


def array_lens(parts: Sequence[Lens]) -> Lens:
    """Return the lens of an array; its value is UNDEFINED if a part is undefined."""
    values = [each.value for each in parts]
    shape = [None if value is UNDEFINED else value for value in values]
    value = UNDEFINED if any(each is UNDEFINED for each in values) else values
    return composite(value, shape, dict(enumerate(parts)))


def set_lens(parts: Sequence[Lens]) -> Lens:
    """Return the lens of a set; a constant UNDEFINED if a member is undefined."""
    values = [each.value for each in parts]
    if any(each is UNDEFINED for each in values):
        return constant(UNDEFINED)
    return composite(make_set(values), None, {to_key(each.value): each for each in parts})


def object_lens(keys: Sequence[Lens], values: Sequence[Lens]) -> Lens:
    """Return the lens of an object; a constant UNDEFINED if a key is undefined. If only a value is
    undefined, the lens can still be changed.
    """
    if any(each.value is UNDEFINED for each in keys):
        return constant(UNDEFINED)
    pairs = [(key.value, lens) for key, lens in zip(keys, values, strict=True)]
    items = {to_key(key): lens for key, lens in pairs}
    known = {key: lens.value for key, lens in items.items()}
    shape = {key: None if value is UNDEFINED else value for key, value in known.items()}
    value = UNDEFINED if any(each is UNDEFINED for each in known.values()) else known
    return composite(value, shape, items)


def all_items(owner: Lens) -> Iterator[tuple[Lens, Lens, bool]]:
    """Yield the items of a collection, at most `ROWS`, each as key, item and True; then items that
    could be added to it, with False, whose value is UNDEFINED. Of a value that is not a collection,
    yield only items that could be added.
    """
    value = owner.value
    if is_collection(value):
        for key, item in islice(iterate(value), ROWS):
            lens = item_lens(owner, constant(key))
            if lens.value is UNDEFINED:
                lens = Lens(item, lens.put)
            yield _key(owner, key, item), lens, True
    if isinstance(owner.items, Paths):
        yield from _absent_keys(owner.items, value)
    elif owner.put is not None:
        yield constant(UNDEFINED), Lens(UNDEFINED, add_item(owner)), False


def _key(owner: Lens, key: Any, item: Any) -> Lens:
    """Return the lens of a key of a collection. A change of a key in the input adds the same item
    under a wanted key; other keys are constant.
    """
    if not isinstance(owner.items, Paths) or type(key) is not str:
        return constant(key)
    paths = owner.items

    def put(want: Want, input: Any) -> Iterator[Any]:
        """Yield inputs that have the item under a wanted key."""
        for sample in want.samples[:8]:
            if type(sample) is str and want.accepts(sample):
                yield from islice(paths[sample].changed(to_be(item), input), 1)

    return Lens(key, put)


def _absent_keys(paths: Paths, value: Any) -> Iterator[tuple[Lens, Lens, bool]]:
    """Yield the items that could be added, as key, item and False: one appended, unless the value
    is an object with fields, and a field of a new name, if it is an object or undefined.
    """
    if not isinstance(value, dict) or not value:
        yield constant(UNDEFINED), paths[APPEND], False
    if isinstance(value, dict) or value is UNDEFINED:
        known = value if isinstance(value, dict) else {}
        name = next(name for n in count() if (name := f"k{n}") not in known)
        missing = _absent_key(paths)
        yield missing, paths[name], False


def _absent_key(paths: Paths) -> Lens:
    """Return the lens of the key of a field that could be added; its value is UNDEFINED, and a
    change adds the field.
    """

    def put(want: Want, input: Any) -> Iterator[Any]:
        """Yield inputs with a truthy value under a wanted key: at most two for each of the first 8
        samples that are such keys.
        """
        for sample in want.samples[:8]:
            if type(sample) is str and want.accepts(sample):
                yield from islice(paths[sample].changed(TRUTHY, input), 2)

    return Lens(UNDEFINED, put)


def walk_items(root: Lens, path: tuple[Any, ...], lens: Lens) -> Iterator[Lens]:
    """Yield a `[path, value]` pair for a value and for everything below it, to a depth of 8 names
    and with `ROWS` items of each collection.
    """
    yield array_lens([path_of_item(root, path, lens.value), lens])
    if len(path) < 8 and is_collection(lens.value):
        for key, _ in islice(iterate(lens.value), ROWS):
            item = constant_item(lens, key)
            if item.value is not UNDEFINED:
                yield from walk_items(root, (*path, key), item)
