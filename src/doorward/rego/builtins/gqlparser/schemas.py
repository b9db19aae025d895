"""A schema document becomes the types, directives and roots that queries are checked with.

The checks are those of OPA's library, which are fewer than the specification has: defaults and
arguments of directives may have values of any type, and an input object may need itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

from doorward.rego.builtins.gqlparser.nodes import Node, Position, new
from doorward.rego.builtins.gqlparser.parser import VALUES
from doorward.rego.builtins.gqlparser.prelude import prelude
from doorward.rego.errors import BuiltinError
from doorward.rego.golang.json import quote

__all__ = [
    "COMPOSITE",
    "INPUT",
    "LEAF",
    "Schema",
    "by_name",
    "is_compatible",
    "read_schema",
    "type_name",
    "type_text",
]

COMPOSITE: Final = frozenset({"OBJECT", "INTERFACE", "UNION"})
INPUT: Final = frozenset({"SCALAR", "ENUM", "INPUT_OBJECT"})
LEAF: Final = frozenset({"SCALAR", "ENUM"})
_OUTPUT: Final = ("SCALAR", "OBJECT", "INTERFACE", "UNION", "ENUM")
_FIELD_INPUT: Final = ("SCALAR", "ENUM", "INPUT_OBJECT")
_MERGED: Final = ("Directives", "Interfaces", "Fields", "Types", "EnumValues")
_REDEFINED: Final = frozenset({"include", "skip", "deprecated", "specifiedBy", "defer", "oneOf"})
"""Directives of the prelude that a schema may define again; their last definition counts."""


class Schema:
    """What a schema defines, by name; `roots` are the types of operations."""

    def __init__(self) -> None:
        self.types: dict[str, Node] = {}
        self.directives: dict[str, Node] = {}
        self.possible: defaultdict[str, list[Node]] = defaultdict(list)
        """The types that a value of a type may have."""
        self.roots: dict[str, Node] = {}
        self._fields: dict[str, dict[str, Node]] = {}

    def field(self, definition: Node, name: str) -> Node | None:
        """The first field of a type with a name; None if it has none."""
        fields = self._fields.get(definition["Name"])
        if fields is None:
            fields = {each["Name"]: each for each in reversed(definition["Fields"])}
            self._fields[definition["Name"]] = fields
        return fields.get(name)


def by_name(nodes: Iterable[Node], name: str) -> Node | None:
    """Return the first node with a name; None if there is none."""
    return next((node for node in nodes if node["Name"] == name), None)


def type_name(type_: Node) -> str:
    """Return the name in a type, without lists around it."""
    while not type_["NamedType"]:
        type_ = type_["Elem"]
    return str(type_["NamedType"])


def type_text(type_: Node) -> str:
    """Return a type as text, such as `[T!]!`."""
    mark = "!" if type_["NonNull"] else ""
    if type_["NamedType"]:
        return f"{type_['NamedType']}{mark}"
    return f"[{type_text(type_['Elem'])}]{mark}"


def _wrong(position: Position | None, message: str) -> BuiltinError:
    """Return the error for what is wrong at a position, in the library's words."""
    where = f":{position[0]}:{position[1]}" if position else ""
    return BuiltinError(
        f"Error in gqlparser SchemaDocument to Schema conversion: input{where}: {message}"
    )


def read_schema(document: Node) -> Schema:
    """Check a schema document; BuiltinError, in the library's words, if it contradicts itself."""
    return _Reader(document).read()


class _Reader:
    """Reads one document. Definitions are copied before they change."""

    def __init__(self, document: Node) -> None:
        self.document = document
        self.schema = Schema()
        self.types = self.schema.types

    def read(self) -> Schema:
        """Return the schema of the document. BuiltinError for the first contradiction: in the order
        of the steps, types before directives, each by name. Without a `schema` in the document,
        types named after the operations are the roots. The root of queries also gets the fields for
        introspection.
        """
        self._define()
        self._extend()
        self._relate()
        self._direct()
        self._find_roots()
        for name in sorted(self.types):
            self._check_definition(self.types[name])
        for name in sorted(self.schema.directives):
            directive = self.schema.directives[name]
            self._check_name(directive.position, name)
            self._check_arguments(directive["Arguments"], directive)
        if not self.document["Schema"]:
            for operation in ("query", "mutation", "subscription"):
                if operation.capitalize() in self.types:
                    self.schema.roots.setdefault(operation, self.types[operation.capitalize()])
        if "query" in self.schema.roots:
            self.schema.roots["query"]["Fields"] += _introspection()
        return self.schema

    def _define(self) -> None:
        """Add the types of GraphQL itself and those of the document to `types`, as copies whose
        lists may be extended. BuiltinError for a name that is defined twice.
        """
        for definition in [*prelude()["Definitions"], *self.document["Definitions"]]:
            name = definition["Name"]
            if name in self.types:
                raise _wrong(definition.position, f"Cannot redeclare type {name}.")
            copy = definition.copy()
            for part in _MERGED:
                copy[part] = list(definition[part])
            self.types[name] = copy

    def _extend(self) -> None:
        """Add what extensions have to their types, in place; one of a type that is not defined
        defines it. BuiltinError for an extension of another kind than its type.
        """
        for extension in self.document["Extensions"]:
            name, kind = extension["Name"], extension["Kind"]
            known = self.types.setdefault(
                name, new("Definition", extension.position, Kind=kind, Name=name)
            )
            if known["Kind"] != kind:
                base = known["Kind"]
                message = (
                    f"Cannot extend type {name} because the base type is a {base}, not {kind}."
                )
                raise _wrong(extension.position, message)
            for part in _MERGED:
                known[part] += extension[part]

    def _relate(self) -> None:
        """Note in `schema.possible` which types stand behind a name: the known members of a union,
        what implements an interface, and an object or input object itself.
        """
        possible = self.schema.possible
        for definition in self.types.values():
            kind, name = definition["Kind"], definition["Name"]
            if kind == "UNION":
                members = (self.types.get(member) for member in definition["Types"])
                possible[name] += [member for member in members if member is not None]
            elif kind in ("INPUT_OBJECT", "OBJECT", "INTERFACE"):
                for interface in definition["Interfaces"]:
                    possible[interface].append(definition)
                if kind != "INTERFACE":
                    possible[name].append(definition)

    def _direct(self) -> None:
        """Add the directives of GraphQL and of the document to the schema. BuiltinError for a name
        that is defined twice, except those in `_REDEFINED`, of which the last one counts.
        """
        for directive in [*prelude()["Directives"], *self.document["Directives"]]:
            name = directive["Name"]
            if name in self.schema.directives and name not in _REDEFINED:
                raise _wrong(directive.position, f"Cannot redeclare directive {name}.")
            self.schema.directives[name] = directive

    def _find_roots(self) -> None:
        """Set the root type of each operation that the `schema` and its extensions name (a later
        one replaces an earlier one), and check their directives. BuiltinError for a second
        `schema`, a type that is not defined, and a directive that is wrong.
        """
        definitions = self.document["Schema"]
        if len(definitions) > 1:
            message = (
                "Cannot have multiple schema entry points, consider schema extensions instead."
            )
            raise _wrong(definitions[1].position, message)
        for node in [*definitions, *self.document["SchemaExtension"]]:
            for root in node["OperationTypes"]:
                operation, name = root["Operation"], root["Type"]
                if name not in self.types:
                    message = (
                        f"Schema root {operation} refers to a type {name} that does not exist."
                    )
                    raise _wrong(root.position, message)
                self.schema.roots[operation] = self.types[name]
            self._check_directives(node["Directives"], "SCHEMA")

    # Checks

    def _check_name(self, position: Position | None, name: str) -> None:
        """Raise BuiltinError for a name that begins with `__`, which only GraphQL's own names may
        do.
        """
        if name.startswith("__"):
            message = 'must not begin with "__", which is reserved by GraphQL introspection.'
            raise _wrong(position, f'Name "{name}" {message}')

    def _check_definition(self, definition: Node) -> None:
        """Check a type: its fields, the members of a union, its interfaces, that it has the parts
        that its kind must have, that no name in it is there twice, its own name and its directives.
        BuiltinError for the first violation in this order.
        """
        kind, name = definition["Kind"], definition["Name"]
        location = "INPUT_FIELD_DEFINITION" if kind == "INPUT_OBJECT" else "FIELD_DEFINITION"
        for field in definition["Fields"]:
            self._check_name(field.position, field["Name"])
            self._check_type(field["Type"])
            self._check_arguments(field["Arguments"], None)
            self._check_directives(field["Directives"], location)
        for member in definition["Types"]:
            self._check_member(definition, member)
        for interface in definition["Interfaces"]:
            self._check_interface(definition, interface)
        self._check_parts(definition)
        _check_once(definition["Fields"], f"Field {name}.")
        _check_once(definition["EnumValues"], f"Enum value {name}.")
        seen: set[str] = set()
        for member in definition["Types"]:
            if member in seen:
                message = f"Union type {name} can only include type {member} once."
                raise _wrong(definition.position, message)
            seen.add(member)
        if not definition["BuiltIn"]:
            self._check_name(definition.position, name)
        self._check_directives(definition["Directives"], kind, is_merged=True)

    def _check_type(self, type_: Node) -> None:
        """Raise BuiltinError unless the type that a reference to a type names, inside its lists, is
        defined.
        """
        name = type_name(type_)
        if name not in self.types:
            raise _wrong(type_.position, f"Undefined type {name}.")

    def _check_member(self, definition: Node, name: str) -> None:
        """Raise BuiltinError unless the member `name` of a union is a defined object type."""
        member = self.types.get(name)
        if member is None:
            raise _wrong(definition.position, f"Undefined type {quote(name)}.")
        if member["Kind"] != "OBJECT":
            message = f"{definition['Kind']} type {quote(name)} must be OBJECT."
            raise _wrong(definition.position, message)

    def _check_parts(self, definition: Node) -> None:
        """Check that an object type or interface has fields, of output types only, that an input
        object has fields, of input types only, and that an enum has valid values; other kinds are
        not examined. All named types must exist already. BuiltinError for the first violation.
        """
        kind, name = definition["Kind"], definition["Name"]
        fields = definition["Fields"]
        if kind in ("OBJECT", "INTERFACE"):
            if not fields:
                message = f"{kind} {name}: must define one or more fields."
                raise _wrong(definition.position, message)
            for field in fields:
                if self.types[type_name(field["Type"])]["Kind"] not in _OUTPUT:
                    message = f"{kind} {name}: field must be one of {', '.join(_OUTPUT)}."
                    raise _wrong(field.position, message)
        elif kind == "INPUT_OBJECT":
            if not fields:
                message = f"{kind} {name}: must define one or more input fields."
                raise _wrong(definition.position, message)
            for field in fields:
                field_kind = self.types[type_name(field["Type"])]["Kind"]
                if field_kind not in _FIELD_INPUT:
                    listed = ", ".join(_FIELD_INPUT)
                    message = f"{field_kind} {field['Name']}: field must be one of {listed}."
                    raise _wrong(field.position, message)
        elif kind == "ENUM":
            self._check_values(definition)

    def _check_values(self, definition: Node) -> None:
        """Raise BuiltinError for an enum without values or with one named `true`, `false` or
        `null`, and for an invalid directive of a value.
        """
        name = definition["Name"]
        if not definition["EnumValues"]:
            message = f"ENUM {name}: must define one or more unique enum values."
            raise _wrong(definition.position, message)
        for value in definition["EnumValues"]:
            if value["Name"] in ("true", "false", "null"):
                raise _wrong(definition.position, f"ENUM {name}: non-enum value {value['Name']}.")
            self._check_directives(value["Directives"], "ENUM_VALUE")

    def _check_arguments(self, arguments: list[Node], directive: Node | None) -> None:
        """Check the declared arguments of a field, or of a directive: each has a valid name, an
        input type that exists, and valid directives, which for an argument of `directive` must not
        be itself. BuiltinError for the first violation.
        """
        for argument in arguments:
            self._check_name(argument.position, argument["Name"])
            self._check_type(argument["Type"])
            kind = self.types[type_name(argument["Type"])]["Kind"]
            if kind not in INPUT:
                message = (
                    f"cannot use {type_text(argument['Type'])} as argument {argument['Name']} "
                    f"because {kind} is not a valid input type"
                )
                raise _wrong(argument.position, message)
            self._check_directives(argument["Directives"], "ARGUMENT_DEFINITION", directive)

    def _check_directives(
        self,
        directives: list[Node],
        location: str,
        within: Node | None = None,
        *,
        is_merged: bool = False,
    ) -> None:
        """Check directives applied at `location` (such as `OBJECT`): each has a valid name, is
        declared, allowed there, given all its arguments, and applied once unless it is repeatable.
        `is_merged`: they are those of a type and of its extensions, and may repeat. `within` is the
        directive whose declaration this is, which must not refer to itself. BuiltinError for the
        first violation.
        """
        seen: set[str] = set()
        for directive in directives:
            name = directive["Name"]
            self._check_name(directive.position, name)
            if within is not None and name == within["Name"]:
                raise _wrong(directive.position, f"Directive {name} cannot refer to itself.")
            definition = self.schema.directives.get(name)
            if definition is None:
                raise _wrong(directive.position, f"Undefined directive {name}.")
            if not is_merged and name in seen and not definition["IsRepeatable"]:
                message = f"The directive {name} can only be used once at this location."
                raise _wrong(directive.position, message)
            seen.add(name)
            if location not in definition["Locations"]:
                message = f"Directive {name} is not applicable on {location}."
                raise _wrong(directive.position, message)
            _check_given(directive, definition)

    def _check_interface(self, definition: Node, name: str) -> None:
        """Check that `definition` fulfils the interface `name` that it declares: the name is that
        of an interface, each of its fields is there with a compatible type and arguments, and the
        interfaces that it implements are declared too. BuiltinError for the first violation.
        """
        interface = self.types.get(name)
        if interface is None:
            raise _wrong(definition.position, f"Undefined type {quote(name)}.")
        if interface["Kind"] != "INTERFACE":
            message = f"{quote(name)} is a non interface type {interface['Kind']}."
            raise _wrong(definition.position, message)
        head = f"For {definition['Name']} to implement {name}"
        for required in interface["Fields"]:
            field = by_name(definition["Fields"], required["Name"])
            if field is None:
                message = f"{head} it must have a field called {required['Name']}."
                raise _wrong(definition.position, message)
            self._check_implementation(head, required, field)
        for ancestor in interface["Interfaces"]:
            if ancestor not in definition["Interfaces"]:
                message = (
                    f"cannot implement {name} because it would create a circular reference."
                    if ancestor == definition["Name"]
                    else f"must implement {ancestor} because it is implemented by {name}."
                )
                raise _wrong(definition.position, f"Type {definition['Name']} {message}")

    def _check_implementation(self, head: str, required: Node, field: Node) -> None:
        """Check the field of a type against the one that an interface has: its type is the same or
        narrower, it takes the same arguments, and any further ones are optional. BuiltinError for
        the first violation, whose message `head` begins.
        """
        name = field["Name"]
        if not self._is_covariant(required["Type"], field["Type"]):
            wanted = type_text(required["Type"])
            raise _wrong(field.position, f"{head} the field {name} must have type {wanted}.")
        same = f"{head} the field {name} must have the same arguments but"
        for argument in required["Arguments"]:
            own = by_name(field["Arguments"], argument["Name"])
            if own is None:
                raise _wrong(field.position, f"{same} it is missing {argument['Name']}.")
            if not is_compatible(argument["Type"], own["Type"]):
                raise _wrong(own.position, f"{same} {argument['Name']} has the wrong type.")
        for argument in field["Arguments"]:
            is_needed = argument["Type"]["NonNull"] and argument["DefaultValue"] is None
            if is_needed and by_name(required["Arguments"], argument["Name"]) is None:
                message = (
                    f"{head} any additional arguments on {name} must be optional or have a default "
                    f"value but {argument['Name']} is required."
                )
                raise _wrong(argument.position, message)

    def _is_covariant(self, required: Node, actual: Node) -> bool:
        """Return True if a field of the type `actual` fulfils one of the type `required`: lists are
        in the same places, nothing that may be null stands where it must not be, and the named type
        is the same, implements it or is a member of it.
        """
        while True:
            if required["NonNull"] and not actual["NonNull"]:
                return False
            name = required["NamedType"]
            if name:
                implemented = actual["NamedType"]
                return name == implemented or any(
                    each["Name"] == implemented for each in self.schema.possible.get(name, ())
                )
            if actual["Elem"] is None:
                return False
            required, actual = required["Elem"], actual["Elem"]


def is_compatible(type_: Node, other: Node) -> bool:
    """Return True if a value of the type `type_` may stand where one of `other` is expected: the
    named types are equal, lists are in the same places, and nothing that may be null stands where
    it must not be.
    """
    while True:
        if type_["NamedType"] != other["NamedType"] or (other["NonNull"] and not type_["NonNull"]):
            return False
        if type_["Elem"] is None:
            return True
        if other["Elem"] is None:
            return False
        type_, other = type_["Elem"], other["Elem"]


def _check_once(nodes: list[Node], head: str) -> None:
    """Raise BuiltinError, its message beginning with `head`, at the first node whose name an
    earlier one has; nothing if all names differ.
    """
    seen: set[str] = set()
    for node in nodes:
        if node["Name"] in seen:
            raise _wrong(node.position, f"{head}{node['Name']} can only be defined once.")
        seen.add(node["Name"])


def _check_given(directive: Node, definition: Node) -> None:
    """Check that each argument of a directive is one that its definition declares, and that those
    of a non-null type without a default are given and not null. Values are not compared with their
    types. BuiltinError for the first violation.
    """
    name = directive["Name"]
    for argument in directive["Arguments"]:
        if by_name(definition["Arguments"], argument["Name"]) is None:
            message = f"Undefined argument {argument['Name']} for directive {name}."
            raise _wrong(argument.position, message)
    for argument in definition["Arguments"]:
        if not argument["Type"]["NonNull"] or argument["DefaultValue"] is not None:
            continue
        given: Any = by_name(directive["Arguments"], argument["Name"])
        value = given and given["Value"]
        if value is None or value["Kind"] == VALUES["null"]:
            message = f"Argument {argument['Name']} for directive {name} cannot be null."
            raise _wrong(directive.position, message)


def _introspection() -> list[Node]:
    """The fields of the root of queries that give the schema."""
    name = new(
        "ArgumentDefinition", Name="name", Type=new("Type", NamedType="String", NonNull=True)
    )
    return [
        new(
            "FieldDefinition", Name="__schema", Type=new("Type", NamedType="__Schema", NonNull=True)
        ),
        new(
            "FieldDefinition", Name="__type", Type=new("Type", NamedType="__Type"), Arguments=[name]
        ),
    ]
