"""Masks of a policy, applied to an event of the decision log as OPA does.

A mask removes or replaces the value at a path below `/input`, `/result` or `/nd_builtin_cache`.
Values are never changed: a masked event contains changed copies of the containers on the path, and
shares the rest. `erased` and `masked` list the paths, never the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from doorward.base.records import record
from doorward.rego import Value, to_rego
from doorward.rego.shared import Key, json_key, kind_name, sorted_keys, sorted_values

__all__ = ["Mask", "MaskError", "apply", "as_json", "read_masks"]

_CONTAINERS: Final = (dict, list, frozenset)
_ROOTS: Final = ("input", "result", "nd_builtin_cache")


class MaskError(Exception):
    """A mask that is not valid; the event must not be logged without it."""


@record
class Mask:
    """One mask: with the `op` `remove`, the value at `path` is removed; with `upsert`, it is
    replaced by `value`.
    """

    path: tuple[str, ...]
    op: str = "remove"
    value: Value = None

    def __str__(self) -> str:
        return "/" + "/".join(self.path)


def read_masks(rules: Value) -> list[Mask]:
    """Return the masks in a mask policy's value, an array or a set; raise `MaskError`, with OPA's
    text, if it is not valid.
    """
    if isinstance(rules, frozenset):
        return [_read_mask(rule) for rule in sorted_values(rules)]
    if isinstance(rules, list):
        return [_read_mask(rule) for rule in rules]
    raise MaskError(f"unexpected rule format {to_rego(rules)} ({kind_name(rules)})")


def _read_mask(rule: Value) -> Mask:
    """Return the mask that one rule of the policy describes: an object with `op` and `path`, or a
    text, the path to remove. Raise MaskError for another form, an unknown `op`, or a path that
    `_parts` refuses.
    """
    if isinstance(rule, str):
        return Mask(_parts(rule))
    if not isinstance(rule, dict):
        raise MaskError(f"invalid mask rule format encountered: {kind_name(rule)}")
    path, op = rule.get("path", ""), rule.get("op", "")
    if not isinstance(path, str) or not isinstance(op, str):
        raise MaskError("mask path and op must be strings")
    # An unknown operation is an error, as a mask without effect would log what it hides.
    if op not in ("remove", "upsert"):
        raise MaskError(f"mask op is not supported: {op}")
    return Mask(_parts(path), op, rule.get("value"))


def _parts(path: str) -> tuple[str, ...]:
    """Split a mask's path: `/input/a` -> `("input", "a")`. Raise MaskError unless it begins with a
    slash and an allowed root.
    """
    if not path:
        raise MaskError("mask must be non-empty")
    if not path.startswith("/"):
        raise MaskError("mask must be slash-prefixed")
    parts = tuple(path[1:].split("/"))
    if parts[0] not in _ROOTS:
        raise MaskError(f"mask prefix not allowed: {parts[0]}")
    return parts


def as_json(value: Any) -> Any:
    """Return a value as JSON has it, in which masks name its parts: sets become sorted arrays, and
    the keys of objects texts. Only containers on the way to these are copied; the same object if
    there are none.
    """
    # Without recursion: a client decides how deep its input is.
    nodes: list[tuple[Any, int, Any]] = [([value], 0, 0)]
    own = {0}
    for number, (each, parent, key) in enumerate(nodes):  # it grows on the way
        inner = each
        if type(each) is frozenset:
            inner = sorted_values(each)
        elif type(each) is dict and not all([type(name) is str for name in each]):
            inner = {json_key(name): each[name] for name in sorted_keys(each)}
        if inner is not each:
            own.add(number)
            nodes[number] = inner, parent, key
        items = inner.items() if type(inner) is dict else enumerate(inner)
        nodes += [(item, number, name) for name, item in items if type(item) in _CONTAINERS]
    for number in range(len(nodes) - 1, 0, -1):  # what lies inside before the outside
        each, parent, key = nodes[number]
        if number in own:
            if parent not in own:
                own.add(parent)
                outer, grandparent, name = nodes[parent]
                nodes[parent] = outer.copy(), grandparent, name
            nodes[parent][0][key] = each
    return nodes[0][0][0]


def apply(event: dict[str, Any], masks: Sequence[Mask]) -> dict[str, Any]:
    """Return a copy of the event with all masks applied, and their paths added to `erased` and
    `masked`; the event and its values are not changed. A removal of something that does not exist
    has no effect; an `upsert` creates missing objects, but not a missing document.
    """
    changed = dict(event)
    erased: list[str] = list(changed.get("erased", ()))
    masked: list[str] = list(changed.get("masked", ()))
    for mask in masks:
        root, rest = mask.path[0], mask.path[1:]
        if root not in changed:
            continue
        try:
            if mask.op == "remove":
                if rest:
                    changed[root] = _without(changed[root], rest)
                else:
                    del changed[root]
                erased.append(str(mask))
            else:
                changed[root] = _with(changed[root], rest, mask.value) if rest else mask.value
                masked.append(str(mask))
        # As in OPA: a path that does not exist is not an error.
        except LookupError:
            continue
    if erased:
        changed["erased"] = erased
    if masked:
        changed["masked"] = masked
    return changed


def _without(value: Value, path: tuple[str, ...]) -> Value:
    """Return a copy of `value` without the part at `path`, which must not be empty; items behind a
    removed one move up. Raise `LookupError` if there is no such part.
    """
    key, rest = path[0], path[1:]
    if isinstance(value, dict):
        if rest:
            return {**value, key: _without(value[key], rest)}
        if key not in value:
            raise KeyError(key)
        return {k: v for k, v in value.items() if k != key}
    if isinstance(value, list):
        index = _index(value, key)
        inner = [_without(value[index], rest)] if rest else []
        return [*value[:index], *inner, *value[index + 1 :]]
    raise LookupError(key)


def _with(value: Value, path: tuple[str, ...], new: Value) -> Value:
    """Return a copy of `value` with `new` at `path`; missing objects are created. Raise LookupError
    if a value on the way is not an object or array, or an index does not exist.
    """
    key, rest = path[0], path[1:]
    if isinstance(value, dict):
        copied: dict[Key, Value] = {}
        return {**value, key: _with(value.get(key, copied), rest, new) if rest else new}
    if isinstance(value, list):
        index = _index(value, key)
        inner = _with(value[index], rest, new) if rest else new
        return [*value[:index], inner, *value[index + 1 :]]
    raise LookupError(key)


def _index(items: Sequence[Value], key: str) -> int:
    """Return an array index; raise LookupError if `key` is not one or out of range."""
    if not (key.isascii() and key.isdecimal()) or int(key) >= len(items):
        raise LookupError(key)
    return int(key)
