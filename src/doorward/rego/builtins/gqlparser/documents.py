"""GraphQL documents as the objects that OPA's policies know, and back to text.

graphql-core's tree becomes an object with the names of the Go library that OPA uses, less its
positions and everything empty. Text is the way back: an object is written as GraphQL and read
again, so that there is one reader only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from doorward.rego.errors import BuiltinError
from doorward.rego.golang.json import quote
from doorward.rego.values import Key, Value, kind_name

__all__ = [
    "Object",
    "from_query",
    "from_schema",
    "query_text",
    "schema_text",
    "unexpected_string",
]

Object = dict[Key, Value]

_VARIABLE, _INT, _FLOAT, _STRING, _BLOCK, _BOOLEAN, _NULL, _ENUM, _LIST, _OBJECT = range(10)
_SCALARS: Final = {
    "int_value": _INT,
    "float_value": _FLOAT,
    "enum_value": _ENUM,
}
_DEFINITIONS: Final = {
    "enum_type": "ENUM",
    "input_object_type": "INPUT_OBJECT",
    "interface_type": "INTERFACE",
    "object_type": "OBJECT",
    "scalar_type": "SCALAR",
    "union_type": "UNION",
}


def _without_empty_lists(pairs: Iterable[tuple[str, Value]]) -> Object:
    """An object of the pairs, without those whose value is an empty list."""
    return {name: value for name, value in pairs if value != []}


def _name(node: Any) -> str:
    """The name of a node of graphql-core; "" for a node without a name, such as an anonymous
    query.
    """
    return str(node.name.value) if node.name else ""


def _description(node: Any) -> str:
    """The description string of a definition, or ""."""
    return str(node.description.value) if getattr(node, "description", None) else ""


def from_query(document: Any) -> Object:
    """Convert graphql-core's document of a query to an object with `Operations` and `Fragments`, as
    OPA shows it. BuiltinError if the document defines types, or describes something.
    """
    operations: list[Value] = []
    fragments: list[Value] = []
    for node in document.definitions:
        _refuse_description(node)
        if node.kind == "operation_definition":
            operations.append(_operation(node))
        elif node.kind == "fragment_definition":
            fragments.append(_fragment(node))
        else:
            raise BuiltinError("Unexpected type definition in GraphQL query")
    return _without_empty_lists([("Operations", operations), ("Fragments", fragments)])


def _refuse_description(node: Any) -> None:
    """Raise BuiltinError, in the words of OPA's library, if a definition or variable of a query has
    a description: graphql-core reads it, OPA does not.
    """
    text = getattr(node, "description", None)  # releases before 3.3 have none there
    if text is None:
        return
    token = text.loc.start_token
    problem = unexpected_string(token)
    if node.kind == "variable_definition":
        problem = f"Expected $, found {problem.split()[1]}"
    column = token.column + (3 if text.block else 1)  # OPA's library counts the quotes
    raise BuiltinError(f"{problem} in GraphQL string at location {token.line}:{column}")


def unexpected_string(token: Any) -> str:
    """Return the message of OPA's library for a string, a token of graphql-core, at a position
    where no string may be: `Unexpected String "x"`.
    """
    shown = f" {quote(token.value)}" if token.value else ""
    return f"Unexpected {token.kind.value}{shown}"


def _operation(node: Any) -> Object:
    """The object of a query, mutation or subscription; empty lists are left out. BuiltinError if a
    variable has a description.
    """
    for variable in node.variable_definitions or ():
        _refuse_description(variable)
    return _without_empty_lists(
        [
            ("Operation", node.operation.value),
            ("Name", _name(node)),
            ("VariableDefinitions", [_variable(v) for v in node.variable_definitions or ()]),
            ("Directives", _directives(node)),
            ("SelectionSet", _selections(node)),
        ]
    )


def _fragment(node: Any) -> Object:
    """The object of a fragment definition; empty lists are left out."""
    return _without_empty_lists(
        [
            ("Name", _name(node)),
            ("VariableDefinition", [_variable(v) for v in node.variable_definitions or ()]),
            ("TypeCondition", _name(node.type_condition)),
            ("Directives", _directives(node)),
            ("SelectionSet", _selections(node)),
        ]
    )


def _variable(node: Any) -> Object:
    """The object of a variable definition: `Variable`, `Type`, `Used` (False) and, if there are
    any, its default value and directives.
    """
    variable: Object = {"Variable": _name(node.variable), "Type": _type(node.type), "Used": False}
    if node.default_value is not None:
        variable["DefaultValue"] = _value(node.default_value)
    directives = _directives(node)
    return {**variable, "Directives": directives} if directives else variable


def _selections(node: Any) -> list[Value]:
    return [_selection(item) for item in node.selection_set.selections]


def _selection(node: Any) -> Object:
    """The object of a field, fragment spread or inline fragment in a selection set. A field without
    an alias has its name as `Alias`.
    """
    directives = ("Directives", _directives(node))
    if node.kind == "fragment_spread":
        return _without_empty_lists([("Name", _name(node)), directives])
    inner: list[Value] = _selections(node) if node.selection_set else []
    if node.kind == "inline_fragment":
        condition = _name(node.type_condition) if node.type_condition else ""
        return _without_empty_lists(
            [("TypeCondition", condition), directives, ("SelectionSet", inner)]
        )
    name = _name(node)
    return _without_empty_lists(
        [
            ("Alias", str(node.alias.value) if node.alias else name),
            ("Name", name),
            ("Arguments", _arguments(node)),
            directives,
            ("SelectionSet", inner),
        ]
    )


def _arguments(node: Any) -> list[Value]:
    return [{"Name": _name(arg), "Value": _value(arg.value)} for arg in node.arguments or ()]


def _directives(node: Any) -> list[Value]:
    """The directives on a node, each an object with its name, its arguments if there are any, and
    an empty `Location`; [] for none.
    """
    return [
        _without_empty_lists([("Name", _name(d)), ("Arguments", _arguments(d)), ("Location", "")])
        for d in node.directives or ()
    ]


def _type(node: Any) -> Object:
    """The object of a type reference: `NamedType` or `Elem` for a list, and `NonNull`."""
    required = node.kind == "non_null_type"
    inner = node.type if required else node
    if inner.kind == "list_type":
        return {"NamedType": "", "Elem": _type(inner.type), "NonNull": required}
    return {"NamedType": _name(inner), "NonNull": required}


def _value(node: Any) -> Object:
    """The object of a literal or variable: its text `Raw`, its `Kind` as a number, and its
    `Children`.
    """
    raw, kind = "", 0
    children: list[Value] = []
    if node.kind == "variable":
        raw, kind = _name(node), _VARIABLE
    elif node.kind == "string_value":
        raw, kind = (_block_text(node), _BLOCK) if node.block else (node.value, _STRING)
    elif node.kind == "boolean_value":
        raw, kind = "true" if node.value else "false", _BOOLEAN
    elif node.kind == "null_value":
        raw, kind = "null", _NULL
    elif node.kind == "list_value":
        kind = _LIST
        children = [{"Name": "", "Value": _value(item)} for item in node.values]
    elif node.kind == "object_value":
        kind = _OBJECT
        children = [{"Name": _name(f), "Value": _value(f.value)} for f in node.fields]
    else:
        raw, kind = node.value, _SCALARS[node.kind]
    return _without_empty_lists(
        [("Raw", raw), ("Kind", kind), ("Children", children), ("ExpectedTypeHasDefault", False)]
    )


def _block_text(node: Any) -> str:
    """The text of a block string without the common indentation of its lines and without blank
    lines at both ends; "" if all lines are blank. The first line keeps its indentation, which, as
    in OPA and other than in the specification, counts for the common one.
    """
    source = node.loc.source.body[node.loc.start + 3 : node.loc.end - 3].replace('\\"""', '"""')
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    indents = [len(line) - len(line.lstrip(" \t")) for line in lines if line.strip(" \t")]
    common = min(indents, default=0)
    lines = [lines[0], *(line[common:] for line in lines[1:])]
    texts = [number for number, line in enumerate(lines) if line.strip(" \t")]
    return "\n".join(lines[texts[0] : texts[-1] + 1]) if texts else ""


def from_schema(document: Any) -> Object:
    """Convert graphql-core's document of a schema to an object with its definitions, by kind, as
    OPA shows it. BuiltinError if the document contains an operation or a fragment.
    """
    parts: dict[str, list[Value]] = {
        "Schema": [],
        "SchemaExtension": [],
        "Directives": [],
        "Definitions": [],
        "Extensions": [],
    }
    for node in document.definitions:
        kind = node.kind
        if kind in {"schema_definition", "schema_extension"}:
            name = "Schema" if kind == "schema_definition" else "SchemaExtension"
            parts[name].append(_schema(node))
        elif kind == "directive_definition":
            parts["Directives"].append(_directive_definition(node))
        elif kind.endswith("_definition") and kind.removesuffix("_definition") in _DEFINITIONS:
            parts["Definitions"].append(_definition(node, kind.removesuffix("_definition")))
        elif kind.endswith("_extension") and kind.removesuffix("_extension") in _DEFINITIONS:
            parts["Extensions"].append(_definition(node, kind.removesuffix("_extension")))
        else:
            raise BuiltinError("Unexpected operation or fragment in GraphQL schema")
    return _without_empty_lists(parts.items())


def _schema(node: Any) -> Object:
    """The object of a `schema { ... }` block: description, directives and root operation types."""
    operations: list[Value] = [
        {"Operation": o.operation.value, "Type": _name(o.type)} for o in node.operation_types or ()
    ]
    return _without_empty_lists(
        [
            ("Description", _description(node)),
            ("Directives", _directives(node)),
            ("OperationTypes", operations),
        ]
    )


def _directive_definition(node: Any) -> Object:
    """The object of a `directive @name(...) on ...` definition."""
    return _without_empty_lists(
        [
            ("Description", _description(node)),
            ("Name", _name(node)),
            ("Arguments", [_input_value(arg) for arg in node.arguments or ()]),
            ("Locations", [location.value for location in node.locations]),
            ("IsRepeatable", bool(node.repeatable)),
        ]
    )


def _definition(node: Any, kind: str) -> Object:
    """The object of the definition or extension of a type; `kind` is graphql-core's node kind
    without `_definition` or `_extension`.
    """
    fields: list[Value] = []
    if kind == "input_object_type":
        fields = [_input_value(field) for field in node.fields or ()]
    elif kind in {"object_type", "interface_type"}:
        fields = [_field(field) for field in node.fields or ()]
    return _without_empty_lists(
        [
            ("Kind", _DEFINITIONS[kind]),
            ("Description", _description(node)),
            ("Name", _name(node)),
            ("Directives", _directives(node)),
            ("Interfaces", [_name(i) for i in getattr(node, "interfaces", None) or ()]),
            ("Fields", fields),
            ("Types", [_name(t) for t in getattr(node, "types", None) or ()]),
            ("EnumValues", [_enum_value(v) for v in getattr(node, "values", None) or ()]),
            ("BuiltIn", False),
        ]
    )


def _field(node: Any) -> Object:
    """The object of a field definition: its arguments, type and directives."""
    return _without_empty_lists(
        [
            ("Description", _description(node)),
            ("Name", _name(node)),
            ("Arguments", [_input_value(arg) for arg in node.arguments or ()]),
            ("Type", _type(node.type)),
            ("Directives", _directives(node)),
        ]
    )


def _input_value(node: Any) -> Object:
    """The object of an argument or input field, with `DefaultValue` if it has one."""
    value = _without_empty_lists(
        [
            ("Description", _description(node)),
            ("Name", _name(node)),
            ("Type", _type(node.type)),
            ("Directives", _directives(node)),
        ]
    )
    if node.default_value is not None:
        value["DefaultValue"] = _value(node.default_value)
    return value


def _enum_value(node: Any) -> Object:
    """The object of one value of an enum definition."""
    return _without_empty_lists(
        [
            ("Description", _description(node)),
            ("Name", _name(node)),
            ("Directives", _directives(node)),
        ]
    )


def _get(node: Value, name: str) -> Value:
    """The field `name` of an AST object, None if absent; BuiltinError if `node` is not an
    object.
    """
    if not isinstance(node, dict):
        raise BuiltinError(f"GraphQL AST node must be object but got {kind_name(node)}")
    return node.get(name)


def _items(node: Value, name: str) -> list[Value]:
    """The array in field `name`, [] if absent; BuiltinError if it is not an array, or `node` is not
    an object.
    """
    items = _get(node, name)
    if items is None:
        return []
    if not isinstance(items, list):
        raise BuiltinError(f"GraphQL AST: {name} must be array but got {kind_name(items)}")
    return items


def _string(node: Value, name: str) -> str:
    """The string in field `name`, "" if absent; BuiltinError if it is not a string, or `node` is
    not an object.
    """
    text = _get(node, name)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise BuiltinError(f"GraphQL AST: {name} must be string but got {kind_name(text)}")
    return text


def _word(node: Value, name: str) -> str:
    """The string in field `name`, "" if absent. BuiltinError if it is not a string of ASCII
    letters, digits and `_`, since other text would become part of the document, or if `node` is not
    an object.
    """
    text = _string(node, name)
    if text and not (text.isascii() and text.replace("_", "a").isalnum()):
        raise BuiltinError(f"GraphQL AST: {name} must be one name of letters, digits and `_`")
    return text


def _names(node: Value, name: str) -> list[str]:
    """The strings in the array of field `name`, [] if absent. BuiltinError if it is not an array,
    or an item is not a string of ASCII letters, digits and `_`.
    """
    items: list[Value] = [{"Name": item} for item in _items(node, name)]
    return [_word(item, "Name") for item in items]


def query_text(query: Value) -> str:
    """Write a query document's object back as GraphQL text; operations first, then fragments.
    BuiltinError for a field of the wrong kind, or a name that is not one of GraphQL; unknown fields
    are ignored.
    """
    parts = [_operation_text(item) for item in _items(query, "Operations")]
    for item in _items(query, "Fragments"):
        variables = _variables_text(item, "VariableDefinition")
        head = f"fragment {_word(item, 'Name')}{variables} on {_word(item, 'TypeCondition')}"
        parts.append(f"{head}{_directives_text(item)} {_selections_text(item)}")
    return "\n".join(parts)


def _variables_text(node: Value, name: str) -> str:
    """Variable definitions as `($x: T = default, ...)`, "" if there are none."""
    variables = [
        f"${_word(v, 'Variable')}: {_type_text(_get(v, 'Type'))}"
        f"{_default_text(v)}{_directives_text(v)}"
        for v in _items(node, name)
    ]
    return f"({', '.join(variables)})" if variables else ""


def _operation_text(node: Value) -> str:
    """An operation's object as GraphQL text: keyword, name, variables, directives and
    selections.
    """
    variables = _variables_text(node, "VariableDefinitions")
    head = f"{_word(node, 'Operation') or 'query'} {_word(node, 'Name')}"
    return f"{head}{variables}{_directives_text(node)} {_selections_text(node)}"


def _selections_text(node: Value) -> str:
    items = [_selection_text(item) for item in _items(node, "SelectionSet")]
    return "{ " + " ".join(items) + " }" if items else ""


def _selection_text(node: Value) -> str:
    """A field, fragment spread or inline fragment as GraphQL text. An object with `TypeCondition`
    or without `Name` is an inline fragment, one without `Alias` a fragment spread.
    """
    directives, inner = _directives_text(node), _selections_text(node)
    if not isinstance(node, dict) or "TypeCondition" in node or "Name" not in node:
        condition = _word(node, "TypeCondition")
        return f"... {f'on {condition}' if condition else ''}{directives} {inner}"
    name = _word(node, "Name")
    if "Alias" not in node:
        return f"...{name}{directives}"
    alias = _word(node, "Alias")
    prefix = f"{alias}: " if alias and alias != name else ""
    return f"{prefix}{name}{_arguments_text(node)}{directives} {inner}"


def _arguments_text(node: Value) -> str:
    """The arguments of a field or directive as `(name: value, ...)`, "" if there are none."""
    items = [
        f"{_word(arg, 'Name')}: {_value_text(_get(arg, 'Value'))}"
        for arg in _items(node, "Arguments")
    ]
    return f"({', '.join(items)})" if items else ""


def _directives_text(node: Value) -> str:
    items = [f" @{_word(d, 'Name')}{_arguments_text(d)}" for d in _items(node, "Directives")]
    return "".join(items)


def _type_text(node: Value) -> str:
    """A type reference as GraphQL text, such as `[T!]!`."""
    element = _get(node, "Elem")
    inner = f"[{_type_text(element)}]" if element is not None else _word(node, "NamedType")
    return f"{inner}!" if _get(node, "NonNull") is True else inner


def _default_text(node: Value) -> str:
    default = _get(node, "DefaultValue")
    return f" = {_value_text(default)}" if default is not None else ""


def _value_text(node: Value) -> str:
    """A value's object as GraphQL text, by its `Kind`; strings are quoted. BuiltinError for the
    `Raw` of another scalar if it has characters that no number, name or variable has.
    """
    kind, raw = _get(node, "Kind") or 0, _string(node, "Raw")
    if kind == _VARIABLE:
        return f"${_word(node, 'Raw')}"
    if kind in (_STRING, _BLOCK):
        return quote(raw)
    if kind in (_LIST, _OBJECT):
        items = _items(node, "Children")
        texts = [_value_text(_get(item, "Value")) for item in items]
        if kind == _LIST:
            return f"[{', '.join(texts)}]"
        names = [_word(item, "Name") for item in items]
        return "{" + ", ".join(f"{n}: {t}" for n, t in zip(names, texts, strict=True)) + "}"
    if not all(c.isascii() and (c.isalnum() or c in "_+-.") for c in raw):
        raise BuiltinError("GraphQL AST: Raw must be one literal, such as `1`, `true` or `RED`")
    return raw


def schema_text(schema: Value) -> str:
    """Write a schema document's object back as GraphQL text, one definition a line. BuiltinError
    for a field of the wrong kind, a name that is not one of GraphQL, or an unknown kind of
    definition; unknown fields are ignored.
    """
    parts = [_schema_text(item, "schema") for item in _items(schema, "Schema")]
    parts += [_schema_text(item, "extend schema") for item in _items(schema, "SchemaExtension")]
    parts += [_directive_definition_text(item) for item in _items(schema, "Directives")]
    parts += [_definition_text(item, "") for item in _items(schema, "Definitions")]
    parts += [_definition_text(item, "extend ") for item in _items(schema, "Extensions")]
    return "\n".join(parts)


def _describe(node: Value) -> str:
    """The description as a quoted string and a space, or ""."""
    text = _string(node, "Description")
    return f"{quote(text)} " if text else ""


def _schema_text(node: Value, word: str) -> str:
    """A schema block as GraphQL text; `word` is `schema` or `extend schema`."""
    items = [f"{_word(o, 'Operation')}: {_word(o, 'Type')}" for o in _items(node, "OperationTypes")]
    block = " { " + " ".join(items) + " }" if items else ""
    description = "" if word.startswith("extend") else _describe(node)
    return f"{description}{word}{_directives_text(node)}{block}"


def _directive_definition_text(node: Value) -> str:
    """A directive definition as GraphQL text. BuiltinError if a location is not a word; locations
    that are not strings are left out.
    """
    locations = [location for location in _items(node, "Locations") if isinstance(location, str)]
    if not all(location.replace("_", "A").isalpha() for location in locations):
        raise BuiltinError("GraphQL AST: Locations must be names, such as `FIELD`")
    repeatable = " repeatable" if _get(node, "IsRepeatable") is True else ""
    head = f"{_describe(node)}directive @{_word(node, 'Name')}{_parameters_text(node)}"
    return f"{head}{repeatable} on {' | '.join(locations)}"


def _parameters_text(node: Value) -> str:
    items = [_input_text(item) for item in _items(node, "Arguments")]
    return f"({', '.join(items)})" if items else ""


def _input_text(node: Value) -> str:
    """An argument or input field as `name: Type = default @directives`."""
    kind = _type_text(_get(node, "Type"))
    head = f"{_describe(node)}{_word(node, 'Name')}: {kind}"
    return f"{head}{_default_text(node)}{_directives_text(node)}"


def _field_text(node: Value) -> str:
    head = f"{_describe(node)}{_word(node, 'Name')}{_parameters_text(node)}"
    return f"{head}: {_type_text(_get(node, 'Type'))}{_default_text(node)}{_directives_text(node)}"


def _enum_text(node: Value) -> str:
    return f"{_describe(node)}{_word(node, 'Name')}{_directives_text(node)}"


_WORDS: Final = {
    "ENUM": "enum",
    "INPUT_OBJECT": "input",
    "INTERFACE": "interface",
    "OBJECT": "type",
    "SCALAR": "scalar",
    "UNION": "union",
}


def _definition_text(node: Value, extend: str) -> str:
    """A type definition as GraphQL text; `extend` is "extend " for an extension, otherwise "". An
    extension has no description. BuiltinError for an unknown `Kind`.
    """
    word = _WORDS.get(_string(node, "Kind"))
    if word is None:
        raise BuiltinError(f"GraphQL AST: Kind of a definition must be one of {', '.join(_WORDS)}")
    head = f"{'' if extend else _describe(node)}{extend}{word} {_word(node, 'Name')}"
    interfaces = _names(node, "Interfaces")
    if interfaces:
        head += " implements " + " & ".join(interfaces)
    head += _directives_text(node)
    types = " | ".join(_names(node, "Types"))
    write: Callable[[Value], str] = _enum_text if word == "enum" else _field_text
    fields = [write(item) for item in _items(node, "EnumValues" if word == "enum" else "Fields")]
    block = " { " + " ".join(fields) + " }" if fields else ""
    return f"{head}{f' = {types}' if types else ''}{block}"
