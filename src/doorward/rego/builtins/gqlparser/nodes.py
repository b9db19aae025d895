"""The parts of GraphQL documents, as the structs of the Go library of OPA, and as objects.

`STRUCTS` has the fields of each: from it come new nodes, the objects that policies see, less
positions and everything empty, and the way back, in which Go's decoder looks for names in any case
and tries a selection as a field, a spread and an inline fragment, in this order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from doorward.rego.errors import BuiltinError
from doorward.rego.values import Key, Value, kind_name

__all__ = ["Node", "Object", "Position", "from_object", "new", "to_object"]

Object = dict[Key, Value]
Position = tuple[int, int]
"""The line and column of a node in its text."""

STRUCTS: Final[dict[str, dict[str, str]]] = {
    name: dict(field.split(":") for field in fields.split())
    for name, fields in {
        "QueryDocument": "Operations:OperationDefinition[] Fragments:FragmentDefinition[] "
        "Comment:CommentGroup",
        "SchemaDocument": "Schema:SchemaDefinition[] SchemaExtension:SchemaDefinition[] "
        "Directives:DirectiveDefinition[] Definitions:Definition[] Extensions:Definition[] "
        "Comment:CommentGroup",
        "SchemaDefinition": "Description:string Directives:Directive[] "
        "OperationTypes:OperationTypeDefinition[] BeforeDescriptionComment:CommentGroup "
        "AfterDescriptionComment:CommentGroup EndOfDefinitionComment:CommentGroup",
        "OperationTypeDefinition": "Operation:string Type:string Comment:CommentGroup",
        "DirectiveDefinition": "Description:string Name:string Arguments:ArgumentDefinition[] "
        "Locations:string[] IsRepeatable:bool BeforeDescriptionComment:CommentGroup "
        "AfterDescriptionComment:CommentGroup",
        "Definition": "Kind:string Description:string Name:string Directives:Directive[] "
        "Interfaces:string[] Fields:FieldDefinition[] Types:string[] "
        "EnumValues:EnumValueDefinition[] BuiltIn:bool BeforeDescriptionComment:CommentGroup "
        "AfterDescriptionComment:CommentGroup EndOfDefinitionComment:CommentGroup",
        "FieldDefinition": "Description:string Name:string Arguments:ArgumentDefinition[] "
        "DefaultValue:Value Type:Type Directives:Directive[] "
        "BeforeDescriptionComment:CommentGroup AfterDescriptionComment:CommentGroup",
        "ArgumentDefinition": "Description:string Name:string DefaultValue:Value Type:Type "
        "Directives:Directive[] BeforeDescriptionComment:CommentGroup "
        "AfterDescriptionComment:CommentGroup",
        "EnumValueDefinition": "Description:string Name:string Directives:Directive[] "
        "BeforeDescriptionComment:CommentGroup AfterDescriptionComment:CommentGroup",
        "OperationDefinition": "Operation:string Name:string "
        "VariableDefinitions:VariableDefinition[] Directives:Directive[] SelectionSet:selections "
        "Comment:CommentGroup",
        "VariableDefinition": "Variable:string Type:Type DefaultValue:Value "
        "Directives:Directive[] Comment:CommentGroup Definition:Definition Used:bool",
        "FragmentDefinition": "Name:string VariableDefinition:VariableDefinition[] "
        "TypeCondition:string Directives:Directive[] SelectionSet:selections "
        "Definition:Definition Comment:CommentGroup",
        "Field": "Alias:string Name:string Arguments:Argument[] Directives:Directive[] "
        "SelectionSet:selections Comment:CommentGroup Definition:FieldDefinition "
        "ObjectDefinition:Definition",
        "FragmentSpread": "Name:string Directives:Directive[] ObjectDefinition:Definition "
        "Definition:FragmentDefinition Comment:CommentGroup",
        "InlineFragment": "TypeCondition:string Directives:Directive[] SelectionSet:selections "
        "ObjectDefinition:Definition Comment:CommentGroup",
        "Argument": "Name:string Value:Value Comment:CommentGroup",
        "Directive": "Name:string Arguments:Argument[] ParentDefinition:Definition "
        "Definition:DirectiveDefinition Location:string",
        "Value": "Raw:string Children:ChildValue[] Kind:int Comment:CommentGroup "
        "Definition:Definition VariableDefinition:VariableDefinition ExpectedType:Type "
        "ExpectedTypeHasDefault:bool",
        "ChildValue": "Name:string Value:Value Comment:CommentGroup",
        "Type": "NamedType:string Elem:Type NonNull:bool",
        "CommentGroup": "List:Comment[]",
        "Comment": "Value:string Position:Position",
        "Position": "Start:int End:int Line:int Column:int Src:Source",
        "Source": "Name:string Input:string BuiltIn:bool",
    }.items()
}
"""The fields of each struct and their types: `x[]` is an array of `x`, other names are structs."""

_EXACT: Final = {
    "OperationDefinition": frozenset({"Comment"}),
    "FragmentDefinition": frozenset({"Comment"}),
    "InlineFragment": frozenset({"Comment"}),
    "Field": frozenset({"Comment"}),
}
"""The structs that are read by functions of their own, which take the exact names, also that of
the position, but not these fields.
"""
_SELECTIONS: Final = ("Field", "FragmentSpread", "InlineFragment")
_REQUIRED: Final = {
    "FieldDefinition": "Type",
    "ArgumentDefinition": "Type",
    "VariableDefinition": "Type",
}
"""A field without which OPA panics."""


class Node(dict[str, Any]):
    """A part of a document: all fields of its struct, and its position in the text, if it has
    one.
    """

    __slots__ = ("position", "struct")

    def __init__(self, struct: str, position: Position | None, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.struct = struct
        self.position = position

    def copy(self) -> Node:
        """A node with the same fields."""
        return Node(self.struct, self.position, self)


def _zero(kind: str) -> Any:
    """Return the empty value of a field's type: [], "", False or 0, and None for a struct."""
    if kind.endswith("[]") or kind == "selections":
        return []
    return {"string": "", "bool": False, "int": 0}.get(kind)


def new(struct: str, position: Position | None = None, /, **fields: Any) -> Node:
    """Return a node with these fields; the others are empty."""
    node = Node(struct, position, {name: _zero(kind) for name, kind in STRUCTS[struct].items()})
    node.update(fields)
    return node


def to_object(node: Node) -> Object:
    """Return the object that policies see of a node, its parts likewise: without positions, and
    without fields and items that are null or empty arrays or objects.
    """
    shown_fields: Object = {}
    for name, value in node.items():
        shown = _without_empty(value)
        if name != "Position" and shown is not None and shown != [] and shown != {}:
            shown_fields[name] = shown
    return shown_fields


def _without_empty(value: Any) -> Value:
    """Return a value of a field as policies see it: a node as an object, a list without items that
    are null or empty, and others as they are.
    """
    if isinstance(value, Node):
        return to_object(value)
    if isinstance(value, list):
        items = [_without_empty(each) for each in value]
        return [each for each in items if each is not None and each != [] and each != {}]
    shown: Value = value
    return shown


def from_object(struct: str, value: Any) -> Node:
    """Return the node of the struct `struct` that plain Python data describes, as Go's decoder
    reads it: null is an empty node, unknown fields are ignored, and names may be in another case.
    BuiltinError for data or a field of another type, and for a missing field at which OPA panics.
    """
    if value is None:
        return new(struct)
    if not isinstance(value, dict):
        raise BuiltinError(f"GraphQL AST: {struct} must be object but got {kind_name(value)}")
    node = new(struct)
    for name, kind, part in _fields(struct, value):
        if name == "Position" and struct in _EXACT:
            position = from_object("Position", part)
            node.position = position["Line"], position["Column"]
        elif part is not None:
            node[name] = _read(kind, f"{struct}.{name}", part)
    missing = _REQUIRED.get(struct)
    if missing and node[missing] is None:
        raise BuiltinError(f"GraphQL AST: {struct}.{missing} is missing")
    if struct == "Type" and not node["NamedType"] and node["Elem"] is None:
        raise BuiltinError("GraphQL AST: Type must have NamedType or Elem")
    return node


def _fields(struct: str, value: dict[str, Any]) -> Iterable[tuple[str, str, Any]]:
    """Yield the fields of `value` that its struct has, each with its type and its value, sorted by
    the names in `value`; others are left out. As in Go, names may be in another case, except in
    structs that OPA reads itself (those in `_EXACT`).
    """
    kinds = STRUCTS[struct]
    if struct in _EXACT:
        known = {**kinds, "Position": "Position"}
        for name in sorted(value):
            if name in known and name not in _EXACT[struct]:
                yield name, known[name], value[name]
        return
    folded = {name.casefold(): name for name in kinds}
    for written in sorted(value):
        name = written if written in kinds else folded.get(written.casefold(), "")
        if name:
            yield name, kinds[name], value[written]


def _read(kind: str, location: str, value: Any) -> Any:
    """Read the value of a field: `kind` is its type in `STRUCTS` (a struct, a list with `[]`,
    `selections`, `string`, `bool` or `int`), `location` its name for errors, and `value` plain data
    that is not None. BuiltinError for data of another type; a boolean is not an `int`.
    """
    if kind == "selections":
        return [_selection(each) for each in _array(location, value)]
    if kind.endswith("[]"):
        return [_item(kind[:-2], location, each) for each in _array(location, value)]
    if kind in STRUCTS:
        return from_object(kind, value)
    wanted = {"string": str, "bool": bool, "int": int}[kind]
    if type(value) is not wanted:
        raise BuiltinError(f"GraphQL AST: {location} must be {kind} but got {kind_name(value)}")
    return value


def _array(location: str, value: Any) -> list[Any]:
    """Return the value itself; BuiltinError, naming `location`, if it is not a list."""
    if not isinstance(value, list):
        raise BuiltinError(f"GraphQL AST: {location} must be array but got {kind_name(value)}")
    return value


def _item(kind: str, location: str, value: Any) -> Any:
    """Read one item of a list. Null is the empty text among strings; BuiltinError for null among
    others, and for data of another type.
    """
    if value is not None:
        return _read(kind, location, value)
    if kind == "string":
        return ""
    raise BuiltinError(f"GraphQL AST: {location} must not have null")


def _selection(value: Any) -> Node:
    """Return the node of a selection given as plain data: the first of field, spread and inline
    fragment as which it can be read. BuiltinError if it is none of them.
    """
    for struct in _SELECTIONS:
        try:
            return from_object(struct, value)
        except BuiltinError:
            continue
    # OPA leaves out what is none of them: nothing is allowed for a query that was not read.
    raise BuiltinError("GraphQL AST: a selection must be an object")
