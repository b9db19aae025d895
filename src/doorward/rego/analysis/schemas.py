"""JSON schemas as types: what METADATA and the command line say of `input` and `data`.

Only what types can say is taken over: kinds, properties, items, `anyOf`, `allOf`, and references
inside the same schema. A schema never makes a policy's evaluation stricter, and none is fetched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from doorward.rego.analysis.environment import TypeNode
from doorward.rego.analysis.types import object_of, union_of
from doorward.rego.builtins.registry.signature import (
    ArrayType,
    ObjectType,
    Type,
    any_,
    boolean,
    null,
    number,
    string,
)
from doorward.rego.errors import CALL_ERRORS, TYPE_ERROR, Diagnostic
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import Annotations, Module, Rule
from doorward.rego.values import Key

__all__ = ["AnnotatedDocuments", "SchemaError", "Schemas", "check_annotations", "schema_type"]

Schemas = Mapping[tuple[str, ...], Any]
"""Schemas by name: `schema.user` under ("user",), the type of all input under ()."""

_SCALARS: Final[Mapping[str, Type]] = {
    "boolean": boolean,
    "integer": number,
    "null": null,
    "number": number,
    "string": string,
}
_MAX_DEPTH: Final = 50
_MAX_PARTS: Final = 20_000
"""Schemas inside each other that are followed: references can double them at each level."""


class SchemaError(Exception):
    """The schema cannot be read; the text is OPA's where OPA has one."""


def schema_type(schema: Any) -> Type:
    """The type of the values that `schema` describes; SchemaError if it is not a JSON Schema."""
    # Few policies have schemas: the others do not pay for what reads them.
    from doorward.rego.builtins.json_schema.reader import read_schema
    from doorward.rego.golang.json import marshal, unmarshal

    try:
        read_schema(unmarshal(marshal(schema)))
    except CALL_ERRORS as error:
        raise SchemaError(f"unable to compile the schema: {error}") from None
    except RecursionError:
        raise SchemaError("unable to compile the schema: it is nested too deeply") from None
    return _Reader(schema).type(schema, 0)


@dataclass(slots=True)
class _Reader:
    root: Any
    left: int = _MAX_PARTS

    def type(self, schema: Any, depth: int) -> Type:
        self.left -= 1
        if not isinstance(schema, dict) or depth > _MAX_DEPTH or self.left < 0:
            return any_
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return self.type(self._find(reference), depth + 1)
        kinds = _kinds(schema)
        for name in ("anyOf", "allOf"):
            parts = schema.get(name)
            if isinstance(parts, list) and parts:
                return self._combined(name, schema, parts, depth)
        if "object" in kinds or (not kinds and schema.get("properties")):
            return self._object(schema, depth)
        if "array" in kinds or (not kinds and schema.get("items")):
            return self._array(schema, depth)
        # Of several kinds OPA takes one; we take what all of them admit.
        return union_of(_SCALARS[kind] for kind in kinds) if kinds else any_

    def _combined(self, name: str, schema: Mapping[str, Any], parts: list[Any], depth: int) -> Type:
        if name == "anyOf":
            return union_of(self.type(part, depth + 1) for part in parts)
        own = {key: value for key, value in schema.items() if key != "allOf"}
        types = [self.type(part, depth + 1) for part in (*parts, own) if part]
        objects = [t for t in types if isinstance(t, ObjectType)]
        if len(objects) == len(types):
            return object_of((f for t in objects for f in t.fields), objects[0].rest)
        return next((t for t in types if t != any_), any_)

    def _object(self, schema: Mapping[str, Any], depth: int) -> Type:
        properties = schema.get("properties")
        if not isinstance(properties, dict) or not properties:
            return ObjectType((), (any_, any_))
        fields = ((str(name), self.type(part, depth + 1)) for name, part in properties.items())
        return object_of(fields, None)

    def _array(self, schema: Mapping[str, Any], depth: int) -> Type:
        items = schema.get("items")
        if isinstance(items, list):
            return ArrayType(tuple(self.type(item, depth + 1) for item in items))
        return ArrayType((), self.type(items, depth + 1) if isinstance(items, dict) else any_)

    def _find(self, reference: str) -> Any:
        fragment = reference.partition("#")[2]
        schema = self.root
        for part in fragment.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            schema = schema.get(name) if isinstance(schema, dict) else None
        return schema


def _kinds(schema: Mapping[str, Any]) -> tuple[str, ...]:
    if "type" not in schema:
        return ()
    named = schema["type"]
    kinds = (named,) if isinstance(named, str) else named
    return tuple(kinds)


# Annotations


class AnnotatedDocuments:
    """What the annotations of a program say of documents.

    Each schema becomes a type once, however many rules name it, and annotations of packages are
    looked up by path.
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
        """What is said of documents where `rule` stands; None if nothing is."""
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
        """The annotations that hold for a rule, the widest scope first."""
        path = module.package.path
        below = self._around.get("subpackages", {})
        outer = [each for n in range(len(path) + 1) for each in below.get(path[:n], ())]
        yield from (block for _, block in sorted(outer, key=itemgetter(0)))
        yield from (block for _, block in self._around.get("package", {}).get(path, ()))
        yield from (a for a in rule.annotations if a.scope == "document")
        yield from (a for a in rule.annotations if a.scope == "rule")

    def _type_of(self, item: Mapping[str, Any]) -> Type | SchemaError | None:
        name = item.get("schema")
        if name is None:
            return self._converted(item.get("definition"))
        if self._named is None:
            return None
        if tuple(name[1:]) not in self._named:
            return SchemaError(f"undefined schema: {'.'.join(map(str, name))}")
        return self._converted(self._named[tuple(name[1:])])

    def _converted(self, schema: Any) -> Type | SchemaError:
        # INVARIANT: schemas and annotations live as long as this, so that no identity comes twice.
        if id(schema) not in self._types:
            try:
                self._types[id(schema)] = schema_type(schema)
            except SchemaError as error:
                self._types[id(schema)] = error
        return self._types[id(schema)]


def _schemas(annotations: Annotations) -> Iterator[dict[str, Any]]:
    listed = annotations.fields.get("schemas")
    if isinstance(listed, list):
        yield from listed


def _override(tree: TypeNode, path: Sequence[Key], type_: Type, rules: TypeNode) -> None:
    root, below = path[0], path[1:]
    known = tree.children.get(root) or rules.children.get(root) or TypeNode(any_)
    tree.children[root] = TypeNode(_with(known.extent(), below, type_))


def _with(type_: object, path: Sequence[Key], new: Type) -> Type:
    """`type_` with `new` at `path`."""
    if not path:
        return new
    fields = type_.fields if isinstance(type_, ObjectType) else ()
    rest = type_.rest if isinstance(type_, ObjectType) else (any_, any_)
    before = dict(fields).get(path[0], any_)
    return object_of((*fields, (path[0], _with(before, path[1:], new))), rest)


def check_annotations(modules: Sequence[Module]) -> list[Diagnostic]:
    """Documents and packages that are described twice."""
    first: dict[tuple[object, ...], Span] = {}
    errors: list[Diagnostic] = []
    for scope, described_path, annotation in _described(modules):
        before = first.setdefault((scope, *described_path), annotation.span)
        if before != annotation.span:
            message = f"{scope} annotation redeclared: {before}"
            errors.append(Diagnostic(TYPE_ERROR, message, annotation.span))
    return errors


def _described(
    modules: Sequence[Module],
) -> Iterator[tuple[str, tuple[object, ...], Annotations]]:
    for module in modules:
        for annotation in module.annotations:
            if annotation.scope in ("package", "subpackages"):
                yield annotation.scope, module.package.path, annotation
        for rule in module.rules:
            path = tuple(getattr(arg, "value", None) for arg in rule.head.ref.args)
            for annotation in rule.annotations:
                if annotation.scope == "document":
                    yield "document", path, annotation
