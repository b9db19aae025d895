"""Inverses of built-ins: candidates for one operand with which a call may give a wanted result.

    lower(x) == "a"   ─invert_lower(0, "a", ["Q"])─▶   "a", "A"

Each stands beside a declaration as `inverse=`. It is called with `i`, the position of the operand
from 0, with `want`, the wanted result, and with `o`, all present operands; an operand that is
undefined has some value of its kind. Candidates may be wrong: the caller tries each one in the
built-in, and takes an exception for no candidates. Sizes are bounded, since wanted values may be
large by chance.
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, islice
from math import floor
from typing import Any, Final

from doorward.base.digits import parse_digits
from doorward.rego.builtins.inversion import is_value
from doorward.rego.builtins.inversion.witnesses import (
    glob_witnesses,
    group_witnesses,
    instances_of,
    regex_witnesses,
)
from doorward.rego.golang import json as go_json
from doorward.rego.golang import urls as go_url
from doorward.rego.golang.layouts import time_text
from doorward.rego.golang.octets import from_bytes, to_bytes
from doorward.rego.values import from_key, iterate, kind_name, sorted_values, to_json, to_key

__all__ = ["Inverse", "variants", "witnesses"]

Inverse = Callable[[int, Any, Sequence[Any]], Iterable[Any]]

LONGEST: Final = 4_096
"""The most characters or items of a candidate."""
LATER: Final = 1_000_000_000
"""A second in nanoseconds: a step to candidates further away, since large numbers are often times.
"""
_DAY: Final = 86_400 * 10**9
_RFC3339: Final = "2006-01-02T15:04:05.999999999Z07:00"
_WITNESSES: Final[dict[str, list[Any]]] = {
    "null": [None],
    "boolean": [True, False],
    "number": [0, 1],
    "string": ["a", ""],
    "array": [[], ["a"]],
    "object": [{}, {"a": "a"}],
    "set": [frozenset(), frozenset({"a"})],
}


def witnesses(kinds: Iterable[str]) -> list[Any]:
    """Return two or so example values of each of these kinds; of every kind if `kinds` is empty."""
    return [value for kind in kinds or _WITNESSES for value in _WITNESSES[kind]]


def variants(value: Any) -> list[Any]:
    """Values other than `value` to try in its place: close to it on both sides in Rego's order, and
    further away. Mostly of the same kind; for null and sets, values of other kinds.
    """
    match kind_name(value):
        case "boolean":
            return [not value]
        case "number":
            others = (value + 1, value - 1, value * 10, value + LATER, value - LATER, 0)
            return [other for other in others if is_value(other)]
        case "string":
            return [f"{value}a", value[:-1], f"a{value}", ""] if value else ["a"]
        case "array":
            return [[*value[:LONGEST], "a"], *([value[:-1]] if value else [])]
        case "object":
            return [{**value, "a": "b"}, {}] if value else [{"a": "a"}]
    return ["a", 1, {}]


def _truth(want: Any, yes: Iterable[Any], no: Iterable[Any]) -> Iterable[Any]:
    return yes if want is True else no


# Comparisons


def invert_equal(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return _truth(want, [o[1 - i]], variants(o[1 - i]))


def invert_neq(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return invert_equal(i, not want, o)


def invert_order(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [o[1 - i], *variants(o[1 - i])]


def invert_member(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Candidates for operand `i` of `x in collection` (or of `k, x in collection`) for which the
    result may be `want`. If true is wanted: the first 64 members or keys of the collection, or a
    collection with the item added. If false is wanted: values near the first members, the same
    keys, or empty collections.
    """
    item, collection = o[-2:]
    kind = kind_name(collection)
    if i == len(o) - 2:
        items = [value for _, value in iterate(collection)][:64] if kind in _HOLDING else []
        return _truth(want, items, [other for value in items[:4] for other in variants(value)])
    if i == 0:
        return [key for key, _ in iterate(collection)][:64] if kind in _HOLDING else []
    if want is not True:
        return [[], {}]
    if len(o) == 3:
        return [{**(collection if kind == "object" else {}), to_key(o[0]): item}]
    if kind == "set":
        return [collection | {to_key(item)}]
    if kind == "object":
        return [{**collection, "a": item}]
    return [[*collection, item] if kind == "array" else [item]]


_HOLDING: Final = ("array", "object", "set")


def invert_kind(kind: str) -> Inverse:
    """Return the inverse of `is_<kind>`: values of that kind if true is wanted, otherwise values of
    all others.
    """
    others = [value for other, values in _WITNESSES.items() if other != kind for value in values]
    return lambda _i, want, _o: _truth(want, _WITNESSES[kind], others)


def invert_type_name(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return _WITNESSES.get(want, [])


# Numbers


def invert_plus(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [want - o[1 - i]]


def invert_minus(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Candidates for operand `i` of `-`: the number that gives `want`; if `want` is a set, sets
    with which the difference may be `want`.
    """
    if kind_name(want) == "set":
        return [want | o[1], want] if i == 0 else [o[0] - want]
    return [want + o[1]] if i == 0 else [o[0] - want]


def invert_mul(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return _quotients(want, o[1 - i])


def invert_div(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [want * o[1]] if i == 0 else _quotients(o[0], want)


def _quotients(value: Any, divisor: Any) -> Iterator[Any]:
    """Yield `value // divisor` if both are integers, then `value / divisor`; nothing for a zero
    divisor.
    """
    if divisor:
        if type(value) is int and type(divisor) is int:
            yield value // divisor
        yield value / divisor


def invert_rem(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Candidates for operand `i` of `%`, dividend (0) or divisor (1), for which the remainder may
    be `want`.
    """
    value, divisor = o
    if i == 0:
        near = value - value % divisor if type(value) is int else 0
        return [want + divisor * n for n in (0, 1, 10, 1_000, 1_000_000, -1)] + [near + want]
    return [value - want, value - want or 1, want + 1]


def invert_abs(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [want, -want]


def invert_rounding(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [want, want + 0.25, want - 0.25]


def invert_range(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Return the end of the range `want` that the operand `i` is, as a list; [] for an empty range,
    and for the step.
    """
    return [want[0] if i == 0 else want[-1]] if want and i < 2 else []


def invert_bits(name: str) -> Inverse:
    """Return the inverse of `bits.<name>`: a function of the position `i` of an operand, the wanted
    result and all operands, which returns candidates for operand `i` with which the call may give
    the result.
    """

    def invert(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
        """Return candidates for operand `i` with which the call may give `want`, the others being
        as in `o`; for the number of bits of a shift, and for an unknown name, 0 to 64.
        """
        match name:
            case "and":
                return [want, want | ~o[1 - i]]
            case "or":
                return [want, want & ~o[1 - i]]
            case "xor":
                return [want ^ o[1 - i]]
            case "negate":
                return [~want]
            case "lsh" if i == 0:
                return [want >> min(o[1], 4_096)]
            case "rsh" if i == 0:
                return [want << min(o[1], 4_096)]
        return range(65)

    return invert


# Collections


def invert_count(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Collections or texts with `want` items, made by shortening or extending the present operand;
    [] if `want` is not an integer from 0 to 256.
    """
    if type(want) is not int or not 0 <= want <= 256:
        return []
    return _resize(o[0], want)


def _resize(value: Any, size: int) -> Iterator[Any]:
    """Yield a collection or text of the kind of `value` with `size` items: its first ones, then new
    ones (`a` in a text, in a collection different from all others); for an array also one with
    copies of the last item. For another kind an array of new items. Last, a text of `size`
    characters.
    """
    missing = range(size - len(value) if kind_name(value) in (*_HOLDING, "string") else size)
    present = set(value) if kind_name(value) in ("object", "set") else set()
    names = (name for n in count() if (name := f"k{n}") not in present)
    match kind_name(value):
        case "string":
            yield value[:size] + "a" * len(missing)
        case "object":
            fields = dict(list(value.items())[:size])
            yield fields | dict(zip(names, missing, strict=False))
        case "set":
            members = sorted_values(value)[:size]
            yield frozenset([*map(to_key, members), *islice(names, len(missing))])
        case "array":
            yield [*value[:size], *[f"k{n}" for n in missing]]
            yield [*value[:size], *(value[-1:] or [{}]) * len(missing)]
        case _:
            yield [f"k{n}" for n in range(size)]
    yield "a" * size


def invert_sum(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Arrays whose sum is `want`: that number alone, or the first 64 of the present numbers with
    one more, or with the last one changed.
    """
    rest: list[Any] = [value for _, value in iterate(o[0])][:64]
    numbers = [value for value in rest if kind_name(value) == "number"]
    return [[want], [*numbers, want - sum(numbers)], [*numbers[:-1], want - sum(numbers[:-1])]]


def invert_one_item(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Candidates for `product`, `max` and `min`: arrays of `want` alone, of the first 64 present
    items (or all but the first of them) with `want` added, and of `want` with another value.
    """
    rest: list[Any] = [value for _, value in iterate(o[0])][:64]
    beside = [[*rest, want], [*rest[1:], want]] if rest else []
    return [[want], *beside, [want, *variants(want)[:1]], [want, 1], [want, want]]


def invert_same(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Return `want` alone: for casts, which return their operand as it is or as an array or set."""
    return [want]


def invert_flatten(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Return arrays that `array.flatten` turns into `want`: `want` itself, `want` with its end in a
    nested array, cut into two nested arrays, or nested as a whole.
    """
    cuts = [[want[:n], want[n:]] for n in range(1, min(len(want), 8))]
    last = [[*want[:n], want[n:]] for n in range(1, min(len(want), 8))]
    return [want, *last, *cuts, [want]]


def invert_sorted(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [want, want[::-1], [*want[1:], *want[:1]]]


def invert_all(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [[want], []]


def invert_array_concat(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Return the part of `want` that operand `i` contributes beside the other one, and all of
    `want`.
    """
    if i == 0:
        return [want[: len(want) - len(o[1])], want]
    return [want[len(o[0]) :], want]


def invert_array_reverse(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [want[::-1]]


def invert_array_slice(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Arrays whose slice is `want` for operand 0 ([] for a start that is not from 0 to 256); the
    integers from 0 to 16 for the bounds.
    """
    items, start, stop = o
    if i == 0 and 0 <= start <= 256:
        return [[*items[:start], *["a"] * (start - len(items)), *want, *items[stop:]]]
    return [] if i == 0 else range(17)


def invert_object_get(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Candidates for operand `i` of `object.get`: the present object with `want` under the key or
    path, and {} (0); keys that have the value `want`, of the first 256 (1); or `want` as the
    default (2).
    """
    owner, key, _ = o
    if i == 0:
        path = key if isinstance(key, list) else [key]
        return [_put(owner, path, want), {}]
    if i == 1:
        return [name for name, value in list(iterate(owner))[:256] if to_key(value) == to_key(want)]
    return [want]


def _put(owner: Any, path: Sequence[Any], value: Any) -> Any:
    """Return a copy of the object with `value` at `path`; values on the path that are not objects
    are replaced by objects. Nothing is changed in place.
    """
    if not path:
        return value
    fields = owner if isinstance(owner, dict) else {}
    key = to_key(path[0])
    return {**fields, key: _put(fields.get(key), path[1:], value)}


def invert_object_keys(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [{key: o[0].get(key, "a") for key in want}]


def invert_object_filter(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [want, {**o[0], **want}] if i == 0 else [[from_key(key) for key in want]]


def invert_object_remove(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Candidates for `object.remove`: the object `want` itself (0), or the keys of the present
    object that `want` does not have (1).
    """
    if i == 0:
        return [want]
    return [[from_key(key) for key in o[0] if key not in want]]


def invert_object_union(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [want, {key: item for key, item in want.items() if key not in o[1 - i]}]


def invert_document_edit(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Candidates for built-ins that remove or replace parts of a document: `want`, and the present
    document with `want` merged into it. [] for other operands than the document (0).
    """
    return [] if i != 0 else [want, _merge(o[0], want)]


def _merge(one: Any, other: Any) -> Any:
    """Merge two documents recursively and return the result; where one of them is not an object,
    `other` is taken.
    """
    if not isinstance(one, dict) or not isinstance(other, dict):
        return other
    return one | {key: _merge(one.get(key), item) for key, item in other.items()}


def invert_union_n(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Return arrays of objects whose union may be `want`: the first 16 present ones with one of
    them replaced by `want` or by the fields that the others lack, `want` alone, or `want` added to
    them.
    """
    parts = o[0][:16]
    # One of them brings what the others lack, or all of it.
    lacking = [
        {key: item for key, item in want.items() if not any(key in other for other in others)}
        for n in range(len(parts))
        for others in [[each for each in [*parts[:n], *parts[n + 1 :]] if isinstance(each, dict)]]
    ]
    replaced = [
        [*parts[:n], part, *parts[n + 1 :]]
        for n in range(len(parts))
        for part in (lacking[n], want)
    ]
    return [*replaced, [want], [*parts, want]]


def invert_reachable(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Initial nodes (operand 1) for `graph.reachable`: an array of the nodes in `want`, then arrays
    of each of the first 64 nodes of the graph alone. [] for the graph (operand 0).
    """
    if i != 1:
        return []
    nodes = [from_key(key) for key in want]
    return [nodes, *[[from_key(key)] for key in list(o[0])[:64]]]


def invert_object_subset(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Candidates for operand `i` of `object.subset`, superset (0) or subset (1). If true is wanted:
    the other operand, or for the superset, if both are of one kind, the two together. If not: empty
    collections (0), or collections with a member that the superset probably lacks (1).
    """
    if want is not True:
        return [{}, []] if i == 0 else [{"~": "~"}, ["~"]]
    if i == 1 or kind_name(o[0]) != kind_name(o[1]):
        return [o[1 - i]]
    return [{**o[0], **o[1]} if kind_name(o[0]) == "object" else [*o[0], *o[1]]]


def invert_intersection(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [want, want | (o[i] - o[1 - i])]


def invert_set_union(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [want, want - o[1 - i]]


def invert_set_of_sets(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [frozenset({to_key(want)})]


def invert_match_schema(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Candidates for `json.match_schema`: the present document with examples of the schema merged
    into it if `want` begins with true, and otherwise documents that probably do not match. For
    operand 1: schemas that accept everything, and only null.
    """
    if i != 0:
        return [{}, {"type": "null"}]
    schema = go_json.unmarshal(o[1]) if isinstance(o[1], str) else o[1]
    return _truth(want[0], [_merge(o[0], each) for each in instances_of(schema)], [{}, "1"])


# Strings


def invert_startswith(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Candidates for `startswith`: texts with the present prefix (0), or prefixes of the present
    text (1). If false is wanted: texts and prefixes that do not fit.
    """
    text, base = o
    if i == 1:
        return _truth(want, [text, text[:1], ""], [f"{text}~", "~"])
    return _truth(want, [base, f"{base}a", f"{base}{text}"], ["", f"~{base}", text[1:]])


def invert_endswith(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Candidates for `endswith`: texts with the present suffix (0), or suffixes of the present text
    (1). If false is wanted: texts and suffixes that do not fit.
    """
    text, base = o
    if i == 1:
        return _truth(want, [text, text[-1:], ""], [f"{text}~", "~"])
    return _truth(want, [base, f"a{base}", f"{text}{base}"], ["", f"{base}~", text[:-1]])


def invert_contains(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Candidates for `contains`: texts that contain the present needle (0), or needles in the
    present text (1). If false is wanted: texts and needles that do not fit.
    """
    text, base = o
    if i == 1:
        return _truth(want, [text, text[:1], ""], [f"{text}~", "~"])
    return _truth(want, [base, f"a{base}a", f"{text}{base}"], ["", text.replace(base, "")])


def invert_any_match(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Candidates for operand `i` of `strings.any_prefix_match` or `strings.any_suffix_match`. If
    true is wanted: the first 16 texts of the other operand, each in place of the first item of
    operand `i`, if that is an array of several items, and then each alone. If not: values that
    probably match nothing.
    """
    other = o[1 - i]
    texts = [other] if isinstance(other, str) else [value for _, value in iterate(other)][:16]
    rest = o[i][1:LONGEST] if isinstance(o[i], list) else []
    return _truth(want, [*[[each, *rest] for each in texts if rest], *texts], ["~", "", []])


def invert_lower(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [want, want.upper(), want.title(), want.swapcase()]


def invert_upper(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [want, want.lower(), want.title(), want.swapcase()]


def invert_split(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Texts that split into `want` (operand 0; an item that is null may be any text), or common
    delimiters such as `/` (operand 1).
    """
    if i != 0:
        return ["/", ",", " ", ".", ":", "-"]
    parts = ["a" if part is None else str(part) for part in want[:256]]
    joined = o[1].join(parts)
    return [joined, f"{joined}{o[1]}a"]


def invert_concat(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Candidates for `concat`: arrays of strings that join to `want`, some of them with as many
    items as the present array (operand 1), or common delimiters such as `/` (operand 0).
    """
    delimiter, parts = o
    if i == 0:
        return ["/", ",", " ", ".", ":", "-", ""]
    size = len(parts)
    if delimiter:
        cut = [want.split(delimiter), want.split(delimiter, max(size - 1, 0))]
        return [*cut, want.rsplit(delimiter, max(size - 1, 0)), [want]]
    return [[want], *[[want[:n], *[""] * (size - 2), want[n:]] for n in range(min(len(want), 16))]]


def invert_replace(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Texts for `replace` (operand 0) with which the result may be `want`: `want` with the new text
    turned back into the old one or, if the new text is empty, with the old one once to three times
    in front; and `want` itself. [] for the other operands.
    """
    _, old, new = o
    if i != 0:
        return []
    # What was left out may have been there more than once.
    return [want.replace(new, old), want] if new else [*(old * n + want for n in (1, 2, 3)), want]


def invert_replace_n(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Two texts for `strings.replace_n` (operand 1): `want` with the first 16 replacements all
    undone, one after the other, without those whose new text is empty; and `want` itself. [] for
    the patterns (operand 0).
    """
    if i == 0:
        return []
    text = want
    for old, new in list(o[0].items())[:16]:
        text = text.replace(new, old) if new else text
    return [text, want]


def invert_trim(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Texts for `trim` and its variants (operand 0): `want` alone, between two of the first
    character of the cut set, and with that repeated on one side until it is as long as the present
    text, at most `LONGEST` times. [] for the cut set (operand 1).
    """
    if i != 0:
        return []
    edge = o[1][:1]
    more = edge * min(max(len(o[0]) - len(want), 1), LONGEST)  # as long as the text is
    return [want, f"{edge}{want}{edge}", f"{more}{want}", f"{want}{more}"]


def invert_trim_prefix(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    text, prefix = o
    return [f"{prefix}{want}", want] if i == 0 else [text.removesuffix(want)]


def invert_trim_suffix(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    text, suffix = o
    return [f"{want}{suffix}", want] if i == 0 else [text.removeprefix(want)]


def invert_trim_space(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [want, f" {want} "]


def invert_substring(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Candidates for `substring`: texts with `want` at the offset (0; [] for a negative offset or
    one above `LONGEST`), the offset of `want` in the present text (1), or its length and -1 (2).
    """
    text, offset, length = o
    if i != 0:
        return [text.find(want)] if i == 1 else [len(want), -1]
    if not 0 <= offset <= LONGEST:
        return []
    head = text[:offset].ljust(offset, "a")
    rest = [text[offset + length :]] if length >= 0 else []
    return [*[f"{head}{want}{each}" for each in rest], f"{head}{want}", f"{head}{want}a"]


def invert_indexof(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Candidates for `indexof`: texts with the needle at index `want` (0), or needles at that index
    (1). A wanted -1 gives texts and needles that do not fit; no texts for an index of 4096 or more.
    """
    text, needle = o
    if i == 1:
        return ["~"] if want < 0 else [text[want:], text[want : want + 1]]
    if want < 0:
        return [text.replace(needle, ""), ""]
    fill = "b" if needle.startswith("a") else "a"
    return (
        [f"{text[:want].ljust(want, fill)}{needle}", fill * want + needle] if want < 4_096 else []
    )


def invert_strings_count(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Texts for `strings.count` (operand 0) that contain the needle `want` times. [] for the
    needle, for a negative count, or if they would be longer than `LONGEST`.
    """
    text, part = o
    if i != 0 or not 0 <= want * (len(part) + 1) <= LONGEST:
        return []
    # As long as the text is.
    filled = (part * want).ljust(min(len(text), LONGEST), "~")
    return ["~".join([part] * want), filled, part * want, f"{part * want}~"]


def invert_reverse(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [want[::-1]]


def invert_format_int(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [int(want[:64], int(o[1]))] if i == 0 else [10, 16, 8, 2]


_VERB: Final = re.compile(r"%[^a-zA-Z%]{0,16}([a-zA-Z%])")


def invert_sprintf(i: int, want: Any, o: Sequence[Any]) -> Iterator[Any]:
    """Yield arrays of arguments for `sprintf`: the text `want` is divided at the literal parts of
    the format (of both only the first `LONGEST` characters), once from the left and once from the
    right, and each part is read back as its verb wrote it, or taken as text. Nothing for the format
    (operand 0), or if `want` does not fit it.
    """
    if i == 0:
        return
    verbs, between, rest = [], [""], o[0][:LONGEST]
    while (match := _VERB.search(rest)) is not None:
        between[-1] += rest[: match.start()] + ("%" if match[1] == "%" else "")
        rest = rest[match.end() :]
        if match[1] != "%":
            verbs.append(match[1])
            between.append("")
    between[-1] += rest
    for from_right in (False, True):
        parts = _cut(want[:LONGEST], between, from_right=from_right)
        if len(parts) == len(verbs):
            yield [_scan_verb(verb, part) for verb, part in zip(verbs, parts, strict=True)]
            yield parts


def _cut(text: str, between: Sequence[str], *, from_right: bool) -> list[str]:
    """Return the parts of `text` between the literal texts in `between`: `_cut("a-b", ["", "-",
    ""], from_right=False)` is ["a", "b"]; where an inner literal text is empty, `text` is cut at a
    space. [] if the text does not begin and end with the outer ones, or there are fewer than two.
    `from_right` looks for the literal texts from the end.
    """
    first, *inner = between
    if not inner or not (text.startswith(first) and text.endswith(inner[-1])):
        return []
    text = text[len(first) : len(text) - len(inner.pop())]
    parts = []
    for literal in reversed(inner) if from_right else inner:
        head, _, tail = (
            text.rpartition(literal or " ") if from_right else text.partition(literal or " ")
        )
        parts.append(tail if from_right else head)
        text = head if from_right else tail
    return [text, *reversed(parts)] if from_right else [*parts, text]


def _scan_verb(verb: str, text: str) -> Any:
    """Return the value that a verb of a format wrote as `text`: for `d` an integer, for `x` and `X`
    a hexadecimal one, read from the first 64 characters; for `q` the text between the quotes, with
    its escapes as they are; for `v` an integer if the text is one of fewer than 19 characters;
    otherwise the text itself. ValueError if there is no integer for `d`, `x` or `X`.
    """
    match verb:
        case "d":
            return int(text[:64])
        case "x" | "X":
            return int(text[:64], 16)
        case "q":
            return text[1:-1]
        case "v" if parse_digits(text.removeprefix("-")) is not None and len(text) < 19:
            return int(text)
    return text


def invert_glob(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return _truth(want, glob_witnesses(o[0]), ["", "~", f"~{o[2]}"]) if i == 2 else []


def invert_regex(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return _truth(want, regex_witnesses(o[0]), ["", "~", f"~{o[1]}"]) if i == 1 else []


def invert_regex_find(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Texts (operand 1) in which the pattern may find the first 16 items of `want`: its texts
    joined in several ways, and examples of the pattern; or, if an item is an array, texts made for
    the wanted groups of each match. [] for other operands.
    """
    if i != 1:
        return []
    if any(isinstance(each, list) for each in want[:16]):
        of_groups = [each[1:] for each in want[:16] if isinstance(each, list)]
        return [text for groups in of_groups for text in group_witnesses(o[0], groups)]
    parts = [each if isinstance(each, str) else "a" for each in want[:16]]
    return ["".join(parts), " ".join(parts), "/".join(parts), *regex_witnesses(o[0])]


def invert_regex_split(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [each.join(want[:256]) for each in regex_witnesses(o[0])] if i == 1 else []


def invert_regex_replace(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Texts for `regex.replace` (operand 0) with which the result may be `want`: `want`, and `want`
    with the new text turned back into examples of the pattern. [] for other operands.
    """
    if i != 0:
        return []
    old = regex_witnesses(o[1])
    return [want, *[want.replace(o[2], each) if o[2] else f"{each}{want}" for each in old]]


def invert_template_match(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Texts (operand 1) that match the first `LONGEST` characters of the template, each delimited
    pattern replaced by an example; if false is wanted, texts that do not. [] for other operands or
    if a delimiter is empty.
    """
    if i != 1 or not (o[2] and o[3]):
        return []
    text, rest = "", o[0][:LONGEST]
    while o[2] in rest and o[3] in rest:
        head, _, rest = rest.partition(o[2])
        inner, _, rest = rest.partition(o[3])
        text += head + next(iter(regex_witnesses(inner)), "")
    return _truth(want, [text + rest], ["~", ""])


# Encodings


def _encode(text: str) -> str:
    return base64.b64encode(to_bytes(text)).decode()


def _url_encode(text: str) -> str:
    return base64.urlsafe_b64encode(to_bytes(text)).decode()


def _url_decode(text: str) -> str:
    return from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def invert_base64_encode(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [_url_decode(want.replace("+", "-").replace("/", "_"))]


def invert_base64_decode(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [_encode(want), _url_encode(want), _url_encode(want).rstrip("=")]


def invert_valid(yes: str, no: str) -> Inverse:
    """Return the inverse of a built-in such as `json.is_valid`: the text `yes` if true is wanted,
    otherwise the text `no` and "".
    """
    return lambda _i, want, _o: [yes] if want is True else [no, ""]


def invert_hex_encode(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [from_bytes(bytes.fromhex(want))]


def invert_hex_decode(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [to_bytes(want).hex()]


def invert_marshal(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [go_json.unmarshal(want)] if i == 0 else []


def invert_yaml_marshal(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Return a list of the value that the YAML text `want` means. BuiltinError if it is not YAML,
    LimitError beyond the limits of `golang.yaml`.
    """
    from doorward.rego.golang import yaml as go_yaml  # it brings a parser that few need

    return [go_yaml.unmarshal(want)]


def invert_unmarshal(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [to_json(want)]


def invert_query_encode(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [go_url.query_unescape(want)]


def invert_query_decode(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [go_url.query_escape(want), want]


def invert_encode_object(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    pairs = [pair.partition("=") for pair in want.split("&")[:256]]
    return [{go_url.query_unescape(k): [go_url.query_unescape(v)] for k, _, v in pairs}]


def invert_decode_object(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Return a list of one URL query, with the names and values of the object `want`, at most 256
    names with 256 values each; values that are not strings are left out.
    """
    pairs = [
        f"{go_url.query_escape(key)}={go_url.query_escape(value)}"
        for key, values in list(want.items())[:256]
        for value in (values if isinstance(values, list) else [values])[:256]
        if isinstance(key, str) and isinstance(value, str)
    ]
    return ["&".join(pairs)]


def invert_uri_parse(i: int, want: Any, o: Sequence[Any]) -> Iterator[Any]:
    """Yield two URIs made of the parts in `want`, an object as `uri.parse` returns it with any
    parts missing: one with its `hostname` and `port`, one with its `host`. The scheme is `https` if
    only the host is given. `i` and `o` do not matter.
    """
    part = want.get
    query = f"?{part('raw_query')}" if part("raw_query") else ""
    fragment = f"#{part('fragment')}" if part("fragment") else ""
    rest = f"{part('path') or part('raw_path') or ''}{query}{fragment}"
    # A part may have been changed without the whole: all ways to write a host.
    for host in (":".join(p for p in (part("hostname"), part("port")) if p), part("host") or ""):
        scheme = part("scheme") or ("https" if host else "")
        below = rest if rest.startswith(("/", "?", "#")) or not rest else f"/{rest}"
        yield f"{scheme}://{host}{below}" if host else f"{scheme}:{rest}" if scheme else rest


# Time, units and versions


def invert_parse_ns(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Texts in the layout of operand 0 for the time `want` and for times a day, a month and a year
    before and after it, without those beyond 64 bits. [] for the layout itself.
    """
    # A layout may leave out what is small: days, months and years around as well.
    near = [want + sign * days * _DAY for days in (0, 1, 31, 366) for sign in (1, -1)]
    return [time_text(o[0], each) for each in near if _is_moment(each)] if i == 1 else []


def invert_rfc3339(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [time_text(_RFC3339, want)] if _is_moment(want) else []


def _is_moment(ns: Any) -> bool:
    return type(ns) is int and abs(ns) < 1 << 63


def invert_duration(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [f"{int(want)}ns"]


def _like(stamp: Any, ns: int) -> Any:
    """A time of `ns` nanoseconds in the form of the operand `stamp`: a number, or an array with the
    zone of `stamp`.
    """
    return [ns, *stamp[1:]] if isinstance(stamp, list) and stamp else ns


def _moment(stamp: Any) -> int:
    """The nanoseconds of a time operand, an integer or an array that begins with one; 0 for others,
    such as floats.
    """
    ns = stamp[0] if isinstance(stamp, list) and stamp else stamp
    return ns if type(ns) is int else 0


def invert_date(i: int, want: Any, o: Sequence[Any]) -> Iterator[Any]:
    """Yield times in nanoseconds on the date `want`, `[year, month, day]`, at the present operand's
    time of day and 12 hours before and after. Parts that are missing count as 1, years before 2 as
    2026.
    """
    year, month, day = [each if type(each) is int else 1 for each in (*want, None, None, None)][:3]
    year = year if year > 1 else 2_026
    before = (year - 1) // 4 - (year - 1) // 100 + (year - 1) // 400 - 477
    months = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    days = (year - 1970) * 365 + before + months[month - 1] + (is_leap and month > 2) + day - 1
    of_day = _moment(o[0]) % _DAY
    for hours in (0, 12, -12):
        yield _like(o[0], days * _DAY + of_day + hours * 3_600 * 10**9)


def invert_clock(i: int, want: Any, o: Sequence[Any]) -> Iterator[Any]:
    """Yield times in nanoseconds, on the present operand's day, at the clock time `want`, `[hour,
    minute, second]`: in UTC, then in each zone of whole hours.
    """
    hour, minute, second = [each if type(each) is int else 0 for each in (*want, 0, 0, 0)][:3]
    start = _moment(o[0]) // _DAY * _DAY
    of_day = (hour * 3_600 + minute * 60 + second) * 10**9
    for shift in (0, *range(-14, 15)):  # zones
        yield _like(o[0], start + (of_day + shift * 3_600 * 10**9) % _DAY)


def invert_weekday(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    now = _moment(o[0])
    return [_like(o[0], now + days * _DAY) for days in range(7)]


def invert_add_date(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Candidates for `time.add_date`. For the time (operand 0): those that come within three days
    of `want` when the present years (as 365 days), months (as 30) and days are added. For years,
    months and days: 0, 1 and -1.
    """
    if i != 0:
        return [0, 1, -1]
    days = o[1] * 365 + o[2] * 30 + o[3]
    return [want - (days + near) * _DAY for near in (0, *range(-3, 4))]


def invert_diff(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Times in nanoseconds at about the distance `want`, `[years, months, days, hours, minutes,
    seconds]`, from the other operand, before and after it. Years count as 365 days, months as 30.
    """
    years, months, days, hours, minutes, seconds = [
        each if type(each) is int else 0 for each in (*want, *[0] * 6)
    ][:6]
    length = ((years * 365 + months * 30 + days) * 86_400) * 10**9
    length += (hours * 3_600 + minutes * 60 + seconds) * 10**9
    other = _moment(o[1 - i])
    return [
        _like(o[i], other + sign * (length + near * _DAY)) for near in (0, 1) for sign in (1, -1)
    ]


def invert_time_format(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Return a list of the time in nanoseconds that the ISO text `want` means, in the form of
    operand 0, whose layout is ignored; a text without a zone is local time. ValueError for another
    text.
    """
    from datetime import datetime  # few ask for it

    moment = datetime.fromisoformat(want)
    return [_like(o[0], floor(moment.timestamp()) * 10**9 + moment.microsecond * 1_000)]


def invert_to_number(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [to_json(want), want, str(want)]


def invert_units(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Texts that mean the number `want`, without a unit and with units such as `1.5Ki`, `2k` or
    `500m`.
    """
    amount = want if type(want) is int else float(want)
    binary = [f"{amount / 1024**n:g}{u}i" for n, u in enumerate("KMG", 1)]
    return [
        f"{amount}",
        *binary,
        f"{amount * 1000}m",
        f"{amount / 1000:g}k",
        f"{amount / 10**6:g}M",
    ]


def invert_semver(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Candidates for operand `i` of `semver.compare`: versions equal to, above and below the other
    operand's. If operand `i` now has a pre-release part, those above also with that part.
    ValueError if the other version does not begin with three numbers.
    """
    other = o[1 - i]
    parts = other.lstrip("v").partition("-")[0].partition("+")[0].split(".")
    major, minor, patch = [int(each[:18]) for each in parts[:3]]
    above = [f"{major}.{minor}.{patch + 1}", f"{major + 1}.0.0", f"{major}.{minor}.{patch}"]
    below = [f"{major}.{minor}.{patch}-a", f"{major}.{minor}.{max(patch - 1, 0)}", "0.0.0-a"]
    _, dash, release = o[i].partition("-")  # what the text has of a pre-release stays
    marked = [f"{each}-{release}" for each in above] if dash else []
    return [other, *marked, *above, *below]


def invert_valid_semver(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return _truth(want, ["1.0.0"], ["a"])


def invert_uuid(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Return a list of one UUID, of the version in the object `want` or of version 4."""
    version = want.get("version")
    if type(version) is not int or not 0 <= version < 16:
        version = 4
    return [f"00000000-0000-{version:x}000-8000-000000000000"]


# Networks


def invert_cidr(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Candidates for operand `i` of `net.cidr_contains` and `net.cidr_intersects`. If true is
    wanted: addresses and networks inside, equal to, and around the other operand; ValueError if
    that is neither an address nor a network. Otherwise: fixed ones that are probably elsewhere.
    """
    from ipaddress import ip_network  # few ask for it

    if want is not True:
        return ["0.0.0.1", "255.255.255.254", "::1", "203.0.113.0/32"]
    network = ip_network(o[1 - i], strict=False)
    address = network.network_address
    wide = [f"{address}/{network.max_prefixlen}"]
    near = [str(address + 1)] if network.num_addresses > 1 else []
    sizes = [network.prefixlen - bits for bits in (1, 8, 16) if network.prefixlen > bits]
    around = [str(network.supernet(new_prefix=size)) for size in sizes]
    return [*near, str(address), o[1 - i], *wide, *around]


def invert_cidr_expand(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    return [f"{min(map(str, want), default='10.0.0.0')}/32"]


# Tokens

_HEADER: Final = {"alg": "HS256", "typ": "JWT"}
_FOREVER: Final = 4_102_444_800


def sign_token(header: Any, claims: Any, secret: str, size: str = "256") -> str:
    """A compact JWT with these claims, signed with HMAC-SHA2 of `size` bits. The header's `alg` is
    replaced; a header that is not an object becomes `{"alg": …, "typ": "JWT"}`.
    """
    fields: Any = {**(header if isinstance(header, dict) else _HEADER), "alg": f"HS{size}"}
    parts = [_url_encode(to_json(each)).rstrip("=") for each in (fields, claims)]
    text = ".".join(parts)
    digest = hmac.digest(secret.encode(), text.encode(), f"sha{size}")
    return f"{text}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def invert_decode_token(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
    """Return a list of one token with the header and claims of `want`, signed with some secret."""
    header, claims = [*want, None, None][:2]
    return [sign_token(header, claims if isinstance(claims, dict) else {}, "a")]


def invert_decode_verify(i: int, want: Any, o: Sequence[Any]) -> Iterator[Any]:
    """Yield tokens (operand 0), signed with the `secret` of the constraints, for which
    `io.jwt.decode_verify` may give `want`; one signed with another secret if `want` begins with
    false. Nothing for the constraints, or without a secret.
    """
    valid, header, claims = [*want, None, None, None][:3]
    constraints = o[1]
    secret = constraints.get("secret")
    if i != 0 or not isinstance(secret, str):
        return
    if valid is False:
        yield sign_token(None, {}, f"{secret}~")
        return
    fields = claims if isinstance(claims, dict) else {}
    demanded = {key: constraints[key] for key in ("iss", "aud") if key in constraints}
    yield sign_token(header, {**demanded, "nbf": 0, "exp": _FOREVER, **fields}, secret)
    yield sign_token(header, {**demanded, **fields}, secret)


def invert_verify_token(size: str) -> Inverse:
    """Return the inverse of `io.jwt.verify_hs<size>`: it keeps the claims of the present token and
    signs them with the secret.
    """

    def invert(i: int, want: Any, o: Sequence[Any]) -> Iterable[Any]:
        """Return a list of the token signed again with the secret, or with another one if true is
        not wanted; [] for the secret.
        """
        if i != 0:
            return []
        parts = o[0].split(".")
        claims = go_json.unmarshal(_url_decode(parts[1])) if len(parts) == 3 else {}
        return [sign_token(None, claims, o[1] if want is True else f"{o[1]}~", size)]

    return invert
