"""JSON schemas as types: what METADATA and the command line say of `input` and `data`.

Only what types can say is taken over: kinds, properties, items, `anyOf`, `allOf`, and references
inside the same schema. A schema never makes a policy's evaluation stricter, and none is fetched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from doorward.base.records import mutable
from doorward.rego.analysis.environment import TypeNode
from doorward.rego.analysis.types import object_of, union_of
from doorward.rego.builtins.registry.signature import (
    ArrayType,
    ObjectType,
    Type,
    any_,
    boolean,
    number,
    string,
)
from doorward.rego.errors import CALL_ERRORS, TYPE_ERROR, Diagnostic
from doorward.rego.pointers import read_name
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import Annotations, Module, Rule
from doorward.rego.values import Key

__all__ = ["AnnotatedDocuments", "SchemaError", "Schemas", "check_annotations", "schema_type"]

Schemas = Mapping[tuple[str, ...], Any]
"""JSON schemas by the name under which METADATA refers to them: `schema.user` is ("user",). The
schema of the whole input is ().
"""

_SCALARS: Final[Mapping[str, Type]] = {
    "boolean": boolean,
    "string": string,
    "integer": number,
    "number": number,
}
"""The scalar types in OPA's order; `null` among others has no effect there."""
_MAX_DEPTH: Final = 50
_MAX_PARTS: Final = 20_000
"""At most this many nested schemas are followed, since references can double their number at each
level.
"""


class SchemaError(Exception):
    """Raised for a schema that cannot be read. The message is OPA's if OPA has one."""


def schema_type(schema: Any) -> Type:
    """Return the type of the values that `schema` describes. Parts beyond the limits of depth and
    number have the type any. SchemaError if it is not a JSON Schema, is nested too deeply, or has
    an `allOf` that cannot be merged.
    """
    # Few policies have schemas: the others do not pay for what reads them.
    from doorward.rego.builtins.json_schema.reader import read_schema
    from doorward.rego.golang.json import marshal, unmarshal

    try:
        read_schema(unmarshal(marshal(schema)))
    except (*CALL_ERRORS, ValueError) as error:
        raise SchemaError(f"unable to compile the schema: {error}") from None
    except RecursionError:
        raise SchemaError("unable to compile the schema: it is nested too deeply") from None
    return _Reader(schema).type(schema, 0)


@mutable
class _Part:
    """The parts of a schema that decide a type; `allOf` joins several."""

    schema: Mapping[str, Any]
    kinds: list[str]
    properties: list[tuple[str, Any]]
    items: list[Any]
    is_list: bool
    """True if `items` is one schema for all items, not one for each position."""


@mutable
class _Reader:
    """Reads a schema as a type in the way OPA does; keywords that it does not know allow any
    value.
    """

    root: Any
    left: int = _MAX_PARTS

    def type(self, schema: Any, depth: int) -> Type:
        return self._type(_part(schema), depth)

    def _type(self, part: _Part, depth: int) -> Type:
        """Return the type for a part of the schema: that of its `$ref`, its `anyOf`, its merged
        `allOf`, or the first of its kinds in OPA's order of preference. any for a schema that says
        none of these, and beyond the limits `_MAX_DEPTH` and `_MAX_PARTS` (each call counts one in
        `left`). SchemaError if an `allOf` cannot be merged.
        """
        # Counted for each part, since `$ref` can visit one part any number of times.
        self.left -= 1
        if depth > _MAX_DEPTH or self.left < 0:
            return any_
        if isinstance(reference := part.schema.get("$ref"), str):
            return self.type(self._find(reference), depth + 1)
        if any_of := _schemas_of(part.schema, "anyOf"):
            return self._any_of(part, any_of, depth)
        if all_of := _schemas_of(part.schema, "allOf"):
            return self._type(_all_of(part, all_of), depth + 1)
        # Of several kinds OPA takes one.
        for kind, scalar in _SCALARS.items():
            if kind in part.kinds:
                return scalar
        if "object" in part.kinds or (part.properties and "array" not in part.kinds):
            return self._object(part, depth)
        return self._array(part, depth) if "array" in part.kinds or part.items else any_

    def _any_of(self, part: _Part, parts: Sequence[Any], depth: int) -> Type:
        """Return the union of the types of the schemas in `anyOf`. If the schema also has a `type`,
        the type that the keywords beside `anyOf` describe is one more option if it is an object
        type without further keys.
        """
        types = [self.type(each, depth + 1) for each in parts]
        if part.kinds:
            rest = {key: value for key, value in part.schema.items() if key != "anyOf"}
            core = self.type(rest, depth + 1)
            if isinstance(core, ObjectType) and core.rest is None:
                types.append(core)
        return union_of(types)

    def _object(self, part: _Part, depth: int) -> Type:
        """Return the type of an object with the schema's properties and no others; of any object if
        the schema has none.
        """
        if not part.properties:
            return ObjectType((), (any_, any_))
        fields = ((name, self.type(each, depth + 1)) for name, each in part.properties)
        return object_of(fields, None)

    def _array(self, part: _Part, depth: int) -> Type:
        """Return the type of an array: with one type for each position if `items` is a list, one
        for all items if it is a schema, and any items if there are none.
        """
        types = tuple([self.type(item, depth + 1) for item in part.items])
        if part.is_list and types:
            return ArrayType(types)
        return ArrayType((), types[0] if types else any_)

    def _find(self, reference: str) -> Any:
        """Return the part of the schema that a `$ref` such as `#/definitions/user` names, the whole
        schema for `#`; None if there is none. Other documents are never read: of their addresses
        only the fragment counts.
        """
        fragment = reference.partition("#")[2]
        schema = self.root
        for part in fragment.split("/")[1:]:
            schema = schema.get(read_name(part)) if isinstance(schema, dict) else None
        return schema


def _part(schema: Any) -> _Part:
    """Return the parts of a schema that decide a type: only the schema itself if it has a `$ref`,
    no parts if it is not an object.
    """
    if not isinstance(schema, dict) or isinstance(schema.get("$ref"), str):
        return _Part(schema if isinstance(schema, dict) else {}, [], [], [], False)
    named, items = schema.get("type", []), schema.get("items", [])
    properties = schema.get("properties")
    return _Part(
        schema,
        [named] if isinstance(named, str) else list(named),
        list(properties.items()) if isinstance(properties, dict) else [],
        list(items) if isinstance(items, list) else [items],
        isinstance(items, list),
    )


def _schemas_of(schema: Mapping[str, Any], name: str) -> list[Any]:
    parts = schema.get(name)
    return parts if isinstance(parts, list) else []


def _all_of(part: _Part, parts: Sequence[Any]) -> _Part:
    """Return the joined parts of `allOf`, with what `part` itself adds if both are objects or both
    arrays. SchemaError if their types differ.
    """
    joined = _join([_part(each) for each in parts])
    if any(kind in part.kinds and kind in joined.kinds for kind in ("object", "array")):
        return _join([joined, part])
    if part.kinds and part.kinds != joined.kinds:
        raise SchemaError(_UNMERGED)
    return joined


def _join(parts: Sequence[_Part]) -> _Part:
    """Merge the schemas of an `allOf`, at least one, into the first, which is changed and returned.
    Each gets the kind (`object` or `array`) that its properties or items imply; then all must have
    the same kinds. Properties are added up; items are merged by position. SchemaError if kinds, or
    those of two items at one position, differ.
    """
    for part in parts:
        kind = "object" if part.properties else "array" if part.items else ""
        if kind and kind not in part.kinds:
            part.kinds.append(kind)
    first = parts[0]
    for part in parts[1:]:
        if part.kinds != first.kinds:
            kinds = " and ".join(_kinds_text(each.kinds) for each in (first, part))
            raise SchemaError(f"{_UNMERGED}: type mismatch: {kinds}")
        if "object" in part.kinds and first.properties and part.properties:
            first.properties += part.properties
        elif "array" in part.kinds and first.items and part.items:
            first.items += part.items[len(first.items) :]
            pairs = zip(first.items, part.items, strict=False)
            if any(_part(x).kinds != _part(y).kinds for x, y in pairs):
                raise SchemaError(_UNMERGED)
    return first


_UNMERGED: Final = "type checking: unable to merge these schemas"


def _kinds_text(kinds: Sequence[str]) -> str:
    """Return the kinds of a schema as OPA's error shows them: `[a,b]` for several, `Undefined` for
    none.
    """
    if len(kinds) > 1:
        return f"[{','.join(kinds)}]"
    return kinds[0] if kinds else "Undefined"


# Annotations


class AnnotatedDocuments:
    """The types that annotations of a program give to documents by schemas. Each schema is read
    once, however many rules name it; annotations of packages are found by path.
    """

    def __init__(self, modules: Sequence[Module], schemas: Schemas | None) -> None:
        self._named = schemas
        self._types: dict[int, Type | SchemaError] = {}
        self._trees: dict[tuple[int, ...], TypeNode] = {}
        self._around: dict[str, dict[tuple[str, ...], list[tuple[int, Annotations]]]] = {}
        for position, module in enumerate(modules):
            for block in module.annotations:
                by_path = self._around.setdefault(block.scope, {})
                by_path.setdefault(module.package.path, []).append((position, block))

    def of(self, rule: Rule, module: Module, rules: TypeNode) -> TypeNode | list[Diagnostic] | None:
        """Return the types that annotations give to documents read by `rule`, or a list of the
        errors in their schemas. None if no annotation applies, or if each refers to a schema by
        name and no schemas are loaded. `rules` has the types known so far.
        """
        named = [i for block in self._blocks(rule, module) for i in _schemas(block)]
        # The same annotations say the same, as long as no rule is among what they describe.
        is_shared = all(item["path"][0] == "input" for item in named)
        key = tuple([id(item) for item in named])
        if is_shared and key in self._trees:
            tree = self._trees[key]
            return tree if tree.children else None
        tree = TypeNode()
        errors: list[Diagnostic] = []
        for item in named:
            type_ = self._type_of(item)
            if isinstance(type_, SchemaError):
                errors.append(Diagnostic(TYPE_ERROR, str(type_), rule.span))
            elif type_ is not None:
                _override(tree, item["path"], type_, rules)
        if errors:
            return errors
        if is_shared:
            self._trees[key] = tree
        return tree if tree.children else None

    def _blocks(self, rule: Rule, module: Module) -> Iterator[Annotations]:
        """Yield the METADATA blocks that apply to a rule, the widest scope first: `subpackages` of
        its package and those above it, in the order of the modules, `package`, its own `document`
        ones, and its own `rule` ones.
        """
        path = module.package.path
        below = self._around.get("subpackages", {})
        outer = [each for n in range(len(path) + 1) for each in below.get(path[:n], ())]
        yield from (block for _, block in sorted(outer, key=itemgetter(0)))
        yield from (block for _, block in self._around.get("package", {}).get(path, ()))
        yield from (a for a in rule.annotations if a.scope == "document")
        yield from (a for a in rule.annotations if a.scope == "rule")

    def _type_of(self, item: Mapping[str, Any]) -> Type | SchemaError | None:
        """Return the type of one `schemas` entry, or a SchemaError, not raised, if the schema is
        invalid or not defined; None if it names a schema and none are loaded.
        """
        name = item.get("schema")
        if name is None:
            return self._convert(item.get("definition"))
        if self._named is None:
            return None
        if tuple(name[1:]) not in self._named:
            return SchemaError(f"undefined schema: {'.'.join(map(str, name))}")
        return self._convert(self._named[tuple(name[1:])])

    def _convert(self, schema: Any) -> Type | SchemaError:
        """Return the type of a schema, or its error, which is returned and not raised; computed
        once for each schema, by its identity.
        """
        # INVARIANT: schemas and annotations live as long as this, so that no identity comes twice.
        if id(schema) not in self._types:
            try:
                self._types[id(schema)] = schema_type(schema)
            except SchemaError as error:
                self._types[id(schema)] = error
        return self._types[id(schema)]


def _schemas(annotations: Annotations) -> Iterator[dict[str, Any]]:
    """Yield the entries of an annotation's `schemas`; nothing if it has none."""
    listed = annotations.fields.get("schemas")
    if isinstance(listed, list):
        yield from listed


def _override(tree: TypeNode, path: Sequence[Key], type_: Type, rules: TypeNode) -> None:
    """Set the type of the document at `path` in `tree`. The rest of its root document (`input` or
    `data`) keeps the type that it has in `tree`, otherwise in `rules`, otherwise any.
    """
    root, below = path[0], path[1:]
    known = tree.children.get(root) or rules.children.get(root) or TypeNode(any_)
    tree.children[root] = TypeNode(_with(known.extent(), below, type_))


def _with(type_: object, path: Sequence[Key], new: Type) -> Type:
    """Return `type_` with `new` at `path`; a type on the path that is not that of an object becomes
    an open object.
    """
    if not path:
        return new
    fields = type_.fields if isinstance(type_, ObjectType) else ()
    rest = type_.rest if isinstance(type_, ObjectType) else (any_, any_)
    before = dict(fields).get(path[0], any_)
    return object_of((*fields, (path[0], _with(before, path[1:], new))), rest)


def check_annotations(modules: Sequence[Module]) -> list[Diagnostic]:
    """Return an error for each document or package that has two annotations of the same scope; []
    if there are none.
    """
    first: dict[tuple[object, ...], Span] = {}
    errors: list[Diagnostic] = []
    for scope, described_path, annotation in _describe(modules):
        before = first.setdefault((scope, *described_path), annotation.span)
        if before != annotation.span:
            message = f"{scope} annotation redeclared: {before}"
            errors.append(Diagnostic(TYPE_ERROR, message, annotation.span))
    return errors


def _describe(
    modules: Sequence[Module],
) -> Iterator[tuple[str, tuple[object, ...], Annotations]]:
    """Yield the scope, path and block of each annotation of packages and documents. In a document's
    path a part that is not constant is None; its block is repeated for each of its rules.
    """
    for module in modules:
        for annotation in module.annotations:
            if annotation.scope in ("package", "subpackages"):
                yield annotation.scope, module.package.path, annotation
        for rule in module.rules:
            path = tuple(getattr(arg, "value", None) for arg in rule.head.ref.args)
            for annotation in rule.annotations:
                if annotation.scope == "document":
                    yield "document", path, annotation
