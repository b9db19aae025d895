"""Objects: reading by path, keys, selections and unions; JSON patches and JSON Schema.

A path is an array of keys; through an array it goes by index, through a set by member. The paths of
json.filter, json.remove and json.patch are pointers (`json_patch.pointers`); an `EditTree` bounds
what a patch makes. `json_schema` reads schemas (drafts 4, 6 and 7) and matches documents:
references reach only into the schema itself, patterns are RE2, the words are OPA's.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias, cast

from doorward.rego.builtins.inversion import inverse
from doorward.rego.builtins.json_patch.edit_tree import EditTree
from doorward.rego.builtins.json_patch.operations import apply_patch
from doorward.rego.builtins.json_patch.pointers import select, without
from doorward.rego.builtins.json_schema.preparing import prepare_schema, read_json
from doorward.rego.builtins.json_schema.rules import findings
from doorward.rego.builtins.registry import builtin, operand_error
from doorward.rego.builtins.registry.context import Context
from doorward.rego.builtins.registry.operands import refuse_operand
from doorward.rego.builtins.registry.signature import (
    ObjectType,
    any_,
    any_of,
    array,
    boolean,
    null,
    object_,
    set_,
    string,
    tuple_,
)
from doorward.rego.clock import count_step
from doorward.rego.errors import BuiltinError, LimitError, OperandError
from doorward.rego.values import (
    UNDEFINED,
    Key,
    Undefined,
    Value,
    equal,
    kind_name,
    lookup,
    sorted_values,
    to_key,
    to_python,
)

__all__ = ["at_path"]

Object: TypeAlias = "dict[Key, Value]"
Keys: TypeAlias = "Object | frozenset[Key] | list[Value]"

_OBJECT = object_(any_, any_)
_KEYS = any_of(_OBJECT, set_(any_), array(any_))


@builtin(
    "object.get",
    _OBJECT,
    any_,
    any_,
    returns=any_,
    checked=False,
    inverse=inverse("object_get"),
)
def object_get(object_: Value, key: Value, default: Value) -> Value:
    """The value under `key` in an object, or at the path of keys and indexes where `key` is an
    array ([]: the object itself); `default` if there is none.
    """
    if type(object_) is not dict:
        raise operand_error(1, object_, "object")
    if type(key) is str:
        return object_.get(key, default)
    if type(key) is not list:
        return object_.get(to_key(key), default)
    value = at_path(object_, key)
    return default if isinstance(value, Undefined) else value


def at_path(value: Value, path: list[Value]) -> Value | Undefined:
    """The value that the keys of `path` lead to, one level after the other; UNDEFINED if a key is
    missing or a value on the way is not a collection. [] gives the value itself.
    """
    target: Value | Undefined = value
    for step in path:
        # `lookup`, written out for an object and a name, as most steps are.
        if type(target) is dict and type(step) is str:
            target = target.get(step, UNDEFINED)
        elif target is UNDEFINED:
            return UNDEFINED
        else:
            target = lookup(target, step)
    return target


@builtin("object.keys", _OBJECT, returns=set_(any_), inverse=inverse("object_keys"))
def object_keys(object_: Object) -> frozenset[Key]:
    """The keys of the object."""
    return frozenset(object_)


@builtin(
    "object.filter",
    _OBJECT,
    _KEYS,
    returns=_OBJECT,
    checks_deadline=True,
    inverse=inverse("object_filter"),
)
def object_filter(object_: Object, keys: Keys) -> Object:
    """A copy of the object with only these keys: the items of an array, the members of a set, or
    the keys of an object. Keys that it does not have are ignored.
    """
    names = _keys(keys)
    if len(object_) < len(names):
        return {key: object_[key] for key in names if key in object_}
    return {key: value for key, value in object_.items() if key in names}


@builtin(
    "object.remove",
    _OBJECT,
    _KEYS,
    returns=_OBJECT,
    checks_deadline=True,
    inverse=inverse("object_remove"),
)
def object_remove(object_: Object, keys: Keys) -> Object:
    """A copy of the object without these keys: the items of an array, the members of a set, or the
    keys of an object.
    """
    unwanted = _keys(keys)
    return {key: value for key, value in object_.items() if key not in unwanted}


def _keys(keys: Keys) -> dict[Key, None]:
    return dict.fromkeys(map(to_key, keys) if isinstance(keys, list) else keys)


@builtin(
    "object.union",
    _OBJECT,
    _OBJECT,
    returns=_OBJECT,
    checks_deadline=True,
    inverse=inverse("object_union"),
)
def object_union(a: Object, b: Object) -> Object:
    """The union of two objects; where both have a key, nested objects are merged, otherwise `b`
    wins. Of equal objects it is `a`.
    """
    # They may differ in the texts of numbers.
    return a if len(a) == len(b) and equal(a, b) else _unite_objects(a, b)


def _unite_objects(a: Object, b: Object) -> Object:
    """Return the union of two objects; under a key of both, objects are united in turn, and
    otherwise the value of `b` wins. Counts a step, so EvalError if the deadline of the thread
    passes.
    """
    count_step()
    united = dict(a)
    for key, value in b.items():
        united[key] = _unite_values(united[key], value) if key in united else value
    return united


def _unite_values(mine: Value, theirs: Value) -> Value:
    """Return two objects merged recursively; if one value is not an object, the second value."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        return _unite_objects(mine, theirs)
    return theirs


@builtin(
    "object.union_n", array(_OBJECT), returns=_OBJECT, context=True, inverse=inverse("union_n")
)
def object_union_n(context: Context, objects: list[Value]) -> Object:
    """The union of all objects; under equal keys nested objects are merged, otherwise the last
    value wins. An item that is not an object is an error.
    """
    for item in objects:
        if not isinstance(item, dict):
            refuse_operand(1, "array of objects", f"array containing {kind_name(item)}")
    united: Object = {}
    # By id: parts of the operands live as long as this runs, and cannot have the id of a freed
    # copy.
    copied: set[int] = set()
    for item in context.checked_iter(objects, 1):
        _unite(united, cast(Object, item), copied, last_text=True)
    return united


def _unite(united: Object, item: Object, copied: set[int], *, last_text: bool) -> None:
    """Merge `item` into the object `united`, in place. Nested objects are merged too: `copied`
    holds the ids of those that are copies and may be changed, and further copies are added to it.
    `last_text`: an equal key at the top (such as `1` and `1.0`) is replaced too, not only its
    value.
    """
    count_step()
    for key, value in item.items():
        # Of equal keys the last text stays: `pop` first, or the dict would keep the old one.
        before = united.pop(key, None) if last_text else united.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            if id(before) not in copied:
                before = dict(before)
                copied.add(id(before))
            _unite(before, value, copied, last_text=False)
            value = before
        united[key] = value


_SUBSETS = any_of(_OBJECT, set_(any_), array(any_))


@builtin(
    "object.subset",
    _SUBSETS,
    _SUBSETS,
    returns=boolean,
    checked=False,
    checks_deadline=True,
    inverse=inverse("object_subset"),
)
def object_subset(super_: Value, sub: Value) -> bool:
    """Return true if `super` contains `sub`: the pairs of an object (recursively), the members of a
    set, or consecutive items of an array. An array contains a set if it has all its members and at
    least one item. Any other pair of kinds is an error.
    """
    if isinstance(super_, list) and isinstance(sub, frozenset):
        # An empty set is in no empty array: OPA looks at the items only.
        return bool(super_) and sub <= frozenset(map(to_key, super_))
    if type(super_) is not type(sub) or not isinstance(super_, (dict, frozenset, list)):
        raise OperandError("both arguments object.subset must be of the same type or array and set")
    return _within(super_, sub)


def _within(super_: Value, sub: Any) -> bool:
    """Return True if the collection `super_` contains `sub`, one of the same kind, as in
    `object.subset`: an object has its keys with values that equal or contain those of `sub`, a set
    its members, an array its items in a row.
    """
    if isinstance(super_, dict):
        for key, value in sub.items():
            if key not in super_:
                return False
            known = super_[key]
            compare = _within if _alike(known, value) else equal
            if not compare(known, value):
                return False
        return True
    if isinstance(super_, frozenset):
        return bool(sub <= super_)
    assert isinstance(super_, list)
    return _holds_run(super_, sub)


def _alike(super_: Value, sub: Value) -> bool:
    """Return True if both are collections of one kind."""
    return type(super_) is type(sub) and type(sub) in _COLLECTIONS


_COLLECTIONS: Final = frozenset({dict, frozenset, list})


def _holds_run(items: list[Value], run: list[Value]) -> bool:
    """Return True if `run` occurs in `items` as consecutive items; an empty one does. By Knuth,
    Morris and Pratt, since comparing at every start would be quadratic.
    """
    if not run:
        return True
    fallback = [0] * len(run)
    at = 0
    for n in range(1, len(run)):
        while at and not equal(run[n], run[at]):
            at = fallback[at - 1]
        if equal(run[n], run[at]):
            at += 1
        fallback[n] = at
    at = 0
    for item in items:
        while at and not equal(item, run[at]):
            at = fallback[at - 1]
        if equal(item, run[at]):
            at += 1
        if at == len(run):
            return True
    return False


_PATHS = any_of(
    set_(any_of(string, array(any_))),
    array(any_of(string, array(any_))),
)
_PATCHES = array(object_(any_, any_, op=string, path=any_))


@builtin(
    "json.filter",
    _OBJECT,
    _PATHS,
    returns=_OBJECT,
    context=True,
    inverse=inverse("document_edit"),
)
def json_filter(context: Context, object_: Object, paths: list[Value] | frozenset[Key]) -> Value:
    """The object with only what lies at the paths, each a JSON pointer (its first `/` may be left
    out) or an array of keys. Of a path that leads to nothing, what exists on the way stays:
    containers, emptied, and a scalar where the path goes on.
    """
    return select(object_, context.checked_iter(_in_order(paths), 1))


@builtin(
    "json.remove",
    _OBJECT,
    _PATHS,
    returns=_OBJECT,
    context=True,
    inverse=inverse("document_edit"),
)
def json_remove(context: Context, object_: Object, paths: list[Value] | frozenset[Key]) -> Value:
    """The object without what lies at the paths, each a JSON pointer (its first `/` may be left
    out) or an array of keys. Paths that lead to nothing are ignored.
    """
    return without(object_, context.checked_iter(_in_order(paths), 1))


def _in_order(paths: list[Value] | frozenset[Key]) -> list[Value]:
    return paths if isinstance(paths, list) else sorted_values(paths)


@builtin("json.patch", any_, _PATCHES, returns=any_, context=True, inverse=inverse("document_edit"))
def json_patch(context: Context, document: Value, patches: list[Value]) -> Value:
    """The document after the operations of a JSON patch (RFC 6902): add, remove, replace, move,
    copy, test. Set members are addressed by their values. An operation that is malformed or fails,
    and a patch that removes the whole document, are errors; LimitError above the limits of
    `EditTree`.
    """
    tree = EditTree(context, document)
    for patch in context.checked_iter(patches, 1):
        apply_patch(tree, patch)
    return tree.value


MAX_ERRORS: Final = 1000
"""The most violations that json.match_schema lists; more are not reported."""

_JSON: Final = any_of(string, object_(any_, any_))
_FINDING: Final = ObjectType(
    fields=(("error", string), ("type", string), ("field", string), ("desc", string))
)


@builtin(
    "json.match_schema",
    _JSON,
    _JSON,
    returns=tuple_(boolean, array(_FINDING)),
    context=True,
    checked=False,
    inverse=inverse("match_schema"),
)
def json_match_schema(context: Context, document: Value, schema: Value) -> list[Value]:
    """`[true, []]` if the document matches the JSON Schema, else `[false, errors]` with the first
    `MAX_ERRORS` violations. Both operands are objects or JSON texts; invalid JSON, or an invalid
    schema, is an error. LimitError for a document or schema nested too deeply, or a schema with a
    cycle of `$ref`.
    """
    instance = read_json(document)
    read = prepare_schema(context, schema)
    try:
        errors = findings(read, to_python(instance), MAX_ERRORS, context.check_deadline)
    except RecursionError:
        raise LimitError("document or schema is nested too deeply") from None
    return [not errors, errors]


@builtin(
    "json.verify_schema",
    _JSON,
    returns=tuple_(boolean, any_of(string, null)),
    context=True,
    checked=False,
)
def json_verify_schema(context: Context, schema: Value) -> list[Value]:
    """`[true, null]` for a valid JSON Schema, else `[false, message]`, also for invalid JSON and
    other kinds. LimitError for one nested too deeply, or with a number or pattern that is too
    large.
    """
    try:
        prepare_schema(context, schema)
    except BuiltinError as error:
        return [False, f"jsonschema: {error}"]
    return [True, None]
