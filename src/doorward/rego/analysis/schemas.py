"""JSON schemas as types: what METADATA and the command line say of `input` and `data`.

Only what types can say is taken over: kinds, properties, items, `anyOf`, `allOf`, and references
inside the same schema. A schema never makes a policy's evaluation stricter, and none is fetched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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

__all__ = ["SchemaError", "Schemas", "annotated_documents", "check_annotations", "schema_type"]

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


def annotated_documents(
    rule: Rule, module: Module, modules: Sequence[Module], schemas: Schemas | None, rules: TypeNode
) -> TypeNode | list[Diagnostic] | None:
    """What the annotations of a rule say of documents; None if they say nothing of them."""
    named = [item for block in _around(rule, module, modules) for item in _schemas(block)]
    tree = TypeNode()
    errors: list[Diagnostic] = []
    for item in named:
        try:
            type_ = _type_of(item, schemas)
        except SchemaError as error:
            errors.append(Diagnostic(TYPE_ERROR, str(error), rule.span))
            continue
        if type_ is not None:
            _override(tree, item["path"], type_, rules)
    return errors or (tree if tree.children else None)


def _around(rule: Rule, module: Module, modules: Sequence[Module]) -> Iterator[Annotations]:
    """The annotations that hold for a rule, the widest scope first."""
    path = module.package.path
    for other in modules:
        if path[: len(other.package.path)] == other.package.path:
            yield from (a for a in other.annotations if a.scope == "subpackages")
    for other in modules:
        if other.package.path == path:
            yield from (a for a in other.annotations if a.scope == "package")
    yield from (a for a in rule.annotations if a.scope == "document")
    yield from (a for a in rule.annotations if a.scope == "rule")


def _schemas(annotations: Annotations) -> Iterator[dict[str, Any]]:
    listed = annotations.fields.get("schemas")
    if isinstance(listed, list):
        yield from listed


def _type_of(item: Mapping[str, Any], schemas: Schemas | None) -> Type | None:
    name = item.get("schema")
    if name is None:
        return schema_type(item.get("definition"))
    if schemas is None:
        return None
    if tuple(name[1:]) not in schemas:
        raise SchemaError(f"undefined schema: {'.'.join(map(str, name))}")
    return schema_type(schemas[tuple(name[1:])])


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
