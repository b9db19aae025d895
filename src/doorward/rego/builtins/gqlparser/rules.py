"""What is wrong with a GraphQL query for a schema, by the rules of OPA's library.

`validate` walks through a query as the library does: it notes on each node what it is in the
schema, and asks the rules for a kind of node, in the order of their names, behind the nodes below.
It ends with the second error, since only the first one is named. Rules of the specification that
the library does not have are not here: integers may have 64 bits, and an empty object is a value of
any scalar or enum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

from doorward.rego.builtins.gqlparser.conflicts import Conflicts, Steps
from doorward.rego.builtins.gqlparser.nodes import Node, Position
from doorward.rego.builtins.gqlparser.parser import VALUES
from doorward.rego.builtins.gqlparser.schemas import (
    COMPOSITE,
    INPUT,
    LEAF,
    Schema,
    by_name,
    is_compatible,
    type_name,
    type_text,
)
from doorward.rego.builtins.gqlparser.suggestions import (
    any_of,
    quoted_any_of,
    similar,
    suggest,
    value_text,
)
from doorward.rego.errors import BuiltinError

__all__ = ["validate"]

_MAX_LISTS: Final = 3
"""How many lists of types introspection may have below each other."""
_LISTS: Final = frozenset({"fields", "interfaces", "possibleTypes", "inputFields"})
_VARIABLE, _INT, _FLOAT, _STRING, _BLOCK, _BOOLEAN, _NULL, _ENUM, _LIST, _OBJECT = VALUES.values()
_SCALARS: Final = frozenset({"Int", "Float", "String", "Boolean", "ID"})
_FITTING: Final = {
    _INT: ("Int", "Float", "ID"),
    _FLOAT: ("Float",),
    _STRING: ("String", "ID"),
    _BLOCK: ("String", "ID"),
    _BOOLEAN: ("Boolean",),
}
"""The scalars that a literal of a kind can be."""
_NOUNS: Final = {
    "Int": "non-integer value",
    "String": "a non string value",
    "Boolean": "a non boolean value",
    "Float": "non numeric value",
    "ID": "a non-string and non-integer value",
}


class _EnoughError(Exception):
    """There is more than one error: only the first one is named."""


def validate(schema: Schema, query: Node) -> None:
    """Check a query; BuiltinError with the first thing that is wrong, and its place. LimitError if
    a search takes too many steps. Changes the query: its nodes get their definitions.
    """
    walker = _Walker(schema, query)
    with suppress(_EnoughError):
        walker.walk()
    if walker.errors:
        position, text = walker.errors[0]
        # The library ends each error with a point, of which OPA takes the last one.
        text = text if len(walker.errors) > 1 else text.removesuffix(".")
        line, column = position or (0, 0)
        raise BuiltinError(f"{text} in GraphQL string at location {line}:{column}")


class _Walker:
    """Walks through one query."""

    def __init__(self, schema: Schema, query: Node) -> None:
        self.schema = schema
        self.query = query
        self.errors: list[tuple[Position | None, str]] = []
        self.operation: Node | None = None
        self.walked: set[str] = set()
        """The fragments that were walked through in the present operation."""
        # Reversed, since of several with one name the first counts.
        self.fragments = {each["Name"]: each for each in reversed(query["Fragments"])}
        self.steps = Steps()
        self.conflicts = Conflicts(schema, self.steps)
        self.operation_names: set[str] = set()
        self.fragment_names: set[str] = set()
        self.used_fragments: set[str] = set()
        self.cycle_roots: set[str] = set()
        self.is_in_fragments = False
        self.misplaced: set[tuple[str, Position | None]] = set()

    def add(self, node: Node, message: str) -> None:
        self.add_at(node.position, message)

    def add_at(self, position: Position | None, message: str) -> None:
        """Add an error at a position. Ends the walk with _EnoughError if it is the second one."""
        self.errors.append((position, message))
        if len(self.errors) > 1:
            raise _EnoughError

    # The way through a query

    def walk(self) -> None:
        """Walk through all operations, then through all fragments, used or not. Each walk through
        one of them goes once through each fragment that it spreads.
        """
        for operation in self.query["Operations"]:
            self.walked = set()
            self.walk_operation(operation)
        for fragment in self.query["Fragments"]:
            self.walked = set()
            self.walk_fragment(fragment)

    def walk_operation(self, operation: Node) -> None:
        """Walk through an operation: note the types of its variables and what their defaults must
        be, go through the defaults, the directives and the selections, then ask the rules for it.
        `operation` is set meanwhile.
        """
        self.operation = operation
        variables = operation["VariableDefinitions"]
        for variable in variables:
            variable["Definition"] = self.schema.types.get(type_name(variable["Type"]))
            self.check_variable(variable)
            if variable["DefaultValue"] is not None:
                self.expect(variable["DefaultValue"], variable["Type"])
        word = operation["Operation"] or "query"
        root = self.schema.roots.get(word)
        for variable in variables:
            if variable["DefaultValue"] is not None:
                self.walk_value(variable["DefaultValue"])
            self.walk_directives(variable["Directives"], "VARIABLE_DEFINITION")
        self.walk_directives(operation["Directives"], word.upper())
        self.walk_selections(root, operation["SelectionSet"])
        self.check_operation(operation)
        self.operation = None

    def walk_fragment(self, fragment: Node) -> None:
        """Walk through the definition of a fragment: note its type (None if it is unknown), go
        through the directives and the selections, then ask the rules for it.
        """
        definition = self.schema.types.get(fragment["TypeCondition"])
        fragment["Definition"] = definition
        self.walk_directives(fragment["Directives"], "FRAGMENT_DEFINITION")
        self.walk_selections(definition, fragment["SelectionSet"])
        self.check_fragment(fragment)

    def walk_directives(self, directives: list[Node], location: str) -> None:
        """Walk through the directives at a location: note on each its definition, None if it is
        unknown, and the location, go through its arguments, then ask the rules for it; at the end,
        for all.
        """
        for directive in directives:
            definition = self.schema.directives.get(directive["Name"])
            directive["Definition"] = definition
            directive["Location"] = location
            self.walk_arguments(definition, directive["Arguments"])
            self.check_directive(directive)
        self.check_unique_directives(directives)

    def walk_arguments(self, definition: Node | None, arguments: list[Node]) -> None:
        """Walk through the values of the arguments of a field or directive, whose `definition` is
        None if it is unknown: note on each the type that the declared argument expects and whether
        that has a default, then ask the rules for it. BuiltinError for an argument without a value.
        """
        for argument in arguments:
            known = by_name(definition["Arguments"], argument["Name"]) if definition else None
            value = _value_of(argument)
            if known is not None:
                self.expect(value, known["Type"])
                value["ExpectedTypeHasDefault"] = _has_default(known)
            self.walk_value(value)

    def expect(self, value: Node, type_: Node) -> None:
        """Store in a value's node the type that it must have, and the definition of that type."""
        value["ExpectedType"] = type_
        value["Definition"] = self.schema.types.get(type_name(type_))

    def walk_value(self, value: Node) -> None:
        """Walk through a value: note on a variable its declaration in the present operation, which
        counts as used, and on the items of a list and the fields of an object the type that each
        must have, if it is known. The rules are asked for the inner values first.
        """
        kind = value["Kind"]
        if kind == _VARIABLE and self.operation is not None:
            known = _variable(self.operation, value["Raw"])
            value["VariableDefinition"] = known
            if known is not None:
                known["Used"] = True
        definition, expected = value["Definition"], value["ExpectedType"]
        for child in value["Children"] if kind in (_LIST, _OBJECT) else ():
            inner = _value_of(child)
            if kind == _OBJECT:
                field = definition and self.schema.field(definition, child["Name"])
                if field is not None:
                    self.expect(inner, field["Type"])
                    inner["ExpectedTypeHasDefault"] = _has_default(field)
            elif expected is not None and expected["Elem"] is not None:
                inner["ExpectedType"] = expected["Elem"]
                inner["Definition"] = definition
            self.walk_value(inner)
        self.check_value(value)

    def walk_selections(self, parent: Node | None, selections: list[Node]) -> None:
        """Walk through selections in their order; `parent` is the type of which they are, None if
        it is unknown.
        """
        for selection in selections:
            if selection.struct == "Field":
                self.walk_field(parent, selection)
            elif selection.struct == "InlineFragment":
                self.walk_inline(parent, selection)
            else:
                self.walk_spread(parent, selection)

    def walk_field(self, parent: Node | None, field: Node) -> None:
        """Walk through a field of the type `parent`: note its definition, None if the type does not
        have it, go through its arguments, directives and subfields, then ask the rules for it.
        """
        definition: Node | None = None
        if field["Name"] == "__typename":
            definition = _TYPENAME
        elif parent is not None:
            definition = self.schema.field(parent, field["Name"])
        field["Definition"], field["ObjectDefinition"] = definition, parent
        inner = self.schema.types.get(type_name(definition["Type"])) if definition else None
        self.walk_arguments(definition, field["Arguments"])
        self.walk_directives(field["Directives"], "FIELD")
        self.walk_selections(inner, field["SelectionSet"])
        self.check_field(field, inner)

    def walk_inline(self, parent: Node | None, fragment: Node) -> None:
        """Walk through an inline fragment in selections of the type `parent`, which is also that of
        one without a type, then ask the rules for it.
        """
        fragment["ObjectDefinition"] = parent
        condition = fragment["TypeCondition"]
        inner = self.schema.types.get(condition) if condition else parent
        self.walk_directives(fragment["Directives"], "INLINE_FRAGMENT")
        self.walk_selections(inner, fragment["SelectionSet"])
        self.check_inline(fragment)

    def walk_spread(self, parent: Node | None, spread: Node) -> None:
        """Walk through a spread: note its fragment, None if it is unknown, go through the
        directives and, if this walk was not there before, through the fragment, then ask the rules
        for it.
        """
        definition = self.fragments.get(spread["Name"])
        spread["Definition"], spread["ObjectDefinition"] = definition, parent
        self.walk_directives(spread["Directives"], "FRAGMENT_SPREAD")
        if definition is not None and definition["Name"] not in self.walked:
            self.walked.add(definition["Name"])
            inner = self.schema.types.get(definition["TypeCondition"])
            self.walk_directives(definition["Directives"], "FRAGMENT_DEFINITION")
            self.walk_selections(inner, definition["SelectionSet"])
        self.check_spread(spread)

    # The rules for each kind of node, in the order of their names

    def check_variable(self, variable: Node) -> None:
        """Add an error for a variable whose type is unknown."""
        if variable["Definition"] is None:
            self.add(variable, f'Unknown type "{type_name(variable["Type"])}".')

    def check_operation(self, operation: Node) -> None:
        """Add the errors of an operation: its type has no root in the schema, it is without a name
        beside others, a variable is not used, fields conflict, a subscription has not just one
        field, or its name or a variable is declared twice. BuiltinError for an unknown type of
        operation.
        """
        word, name = operation["Operation"] or "query", operation["Name"]
        if word not in ("query", "mutation", "subscription"):
            raise BuiltinError(f'GraphQL AST: got unknown operation type "{word}"')
        if word not in self.schema.roots:
            message = f'Schema does not support operation type "{operation["Operation"]}"'
            self.add(operation, message)
        if not name and len(self.query["Operations"]) > 1:
            self.add(operation, "This anonymous operation must be the only defined operation.")
        variables = operation["VariableDefinitions"]
        where = f' in operation "{name}"' if name else ""
        for variable in variables:
            if not variable["Used"]:
                self.add(variable, f'Variable "${variable["Variable"]}" is never used{where}.')
        self.add_conflicts(operation["SelectionSet"])
        if word == "subscription" and word in self.schema.roots:
            self.check_subscription(operation)
        if name in self.operation_names:
            self.add(operation, f'There can be only one operation named "{name}".')
        self.operation_names.add(name)
        self.check_variables(variables)

    def check_subscription(self, operation: Node) -> None:
        """Rule SingleFieldSubscriptions: add an error at the second field if a subscription selects
        more than one top-level field by name, and one for each introspection field (`__…`) among
        them. Fields of fragments count; aliases do not.
        """
        quoted = f'Subscription "{operation["Name"]}"'
        name = quoted if operation["Name"] else "Anonymous Subscription"
        fields: dict[str, Node] = {}
        self.collect_top_fields(operation["SelectionSet"], fields, set())
        if len(fields) > 1:
            self.add(list(fields.values())[1], f"{name} must select only one top level field.")
        for each, field in fields.items():
            if each.startswith("__"):
                self.add(field, f"{name} must not select an introspection top level field.")

    def collect_top_fields(
        self, selections: list[Node], fields: dict[str, Node], seen: set[str]
    ) -> None:
        """Add the fields of a subscription to `fields` by name, the first of each name, and the
        names of its fragments to `seen`. After an unknown fragment the rest of its selections is
        left out, as in OPA.
        """
        for selection in selections:
            if selection.struct == "Field":
                fields.setdefault(selection["Name"], selection)
            elif selection.struct == "InlineFragment":
                self.collect_top_fields(selection["SelectionSet"], fields, seen)
            elif selection["Definition"] is None:
                return
            elif selection["Definition"]["Name"] not in seen:
                seen.add(selection["Definition"]["Name"])
                self.collect_top_fields(selection["Definition"]["SelectionSet"], fields, seen)

    def check_variables(self, variables: list[Node]) -> None:
        """Rules UniqueVariableNames and VariablesAreInputTypes, for the variables that an operation
        declares: add an error for each name that is declared again, then for each variable of a
        known type that is not a scalar, enum or input object.
        """
        for name, variable in _second_ones(variables, "Variable"):
            self.add(variable, f'There can be only one variable named "${name}".')
        for variable in variables:
            definition = variable["Definition"]
            if definition is not None and definition["Kind"] not in INPUT:
                wrong = f'cannot be non-input type "{type_text(variable["Type"])}".'
                self.add(variable, f'Variable "${variable["Variable"]}" {wrong}')

    def check_fragment(self, fragment: Node) -> None:
        """Add the errors of a fragment: its type is unknown, or not an object type, interface or
        union, it spreads itself, no spread so far uses it, fields conflict, or another fragment has
        its name. From the first call on, spreads do not count as uses.
        """
        name, condition = fragment["Name"], fragment["TypeCondition"]
        definition = fragment["Definition"]
        if definition is not None and condition and definition["Kind"] not in COMPOSITE:
            wrong = f'cannot condition on non composite type "{condition}".'
            self.add(fragment, f'Fragment "{name}" {wrong}')
        if definition is None:
            meant = suggest("Did you mean", condition, self.schema.types)
            self.add(fragment, f'Unknown type "{condition}".{meant}')
        self.check_cycles(fragment, [], {})
        self.is_in_fragments = True
        if name not in self.used_fragments:
            self.add(fragment, f'Fragment "{name}" is never used.')
        self.add_conflicts(fragment["SelectionSet"])
        if name in self.fragment_names:
            self.add(fragment, f'There can be only one fragment named "{name}".')
        self.fragment_names.add(name)

    def check_cycles(self, fragment: Node, path: list[Node], starts: dict[str, int]) -> None:
        """Rule NoFragmentCycles: add an error for each spread of a fragment within itself that is
        reached from `fragment`. `path` are the spreads that lead here, `starts` the index in it at
        which each fragment on the way begins; both are restored. A fragment is examined once for a
        query: its name is added to `cycle_roots`. Spreads of unknown fragments are passed over.
        """
        name = fragment["Name"]
        if name in self.cycle_roots:
            return
        self.cycle_roots.add(name)
        spreads = _spreads(fragment["SelectionSet"])
        if not spreads:
            return
        starts[name] = len(path)
        for spread in spreads:
            start = starts.get(spread["Name"])
            path.append(spread)
            if start is not None:
                names = [f'"{each["Name"]}"' for each in path[start:-1]]
                via = f" via {', '.join(names)}" if names else ""
                self.add(spread, f'Cannot spread fragment "{spread["Name"]}" within itself{via}.')
            elif spread["Name"] in self.fragments:
                self.check_cycles(self.fragments[spread["Name"]], path, starts)
            path.pop()
        del starts[name]

    def check_inline(self, fragment: Node) -> None:
        """Add the errors of an inline fragment: its type is unknown, or not an object type,
        interface or union, fields conflict, or no object of the type around it can be of its type.
        """
        condition, parent = fragment["TypeCondition"], fragment["ObjectDefinition"]
        known = self.schema.types.get(condition)
        if known is not None and known["Kind"] not in COMPOSITE:
            self.add(fragment, f'Fragment cannot condition on non composite type "{condition}".')
        if condition and known is None:
            self.add(fragment, f'Unknown type "{condition}".')
        self.add_conflicts(fragment["SelectionSet"])
        if not self.can_be(parent, condition):
            wrong = f'as objects of type "{parent["Name"]}" can never be of type "{condition}".'
            self.add(fragment, f"Fragment cannot be spread here {wrong}")

    def check_spread(self, spread: Node) -> None:
        """Add the errors of a spread: its fragment is unknown, or no object of the type around it
        can be of the fragment's type. Its fragment counts as used until `check_fragment` is called
        first.
        """
        name, definition = spread["Name"], spread["Definition"]
        if definition is None:
            self.add(spread, f'Unknown fragment "{name}".')
        if not self.is_in_fragments:
            self.used_fragments.add(name)
        if definition is None:
            return
        parent, condition = spread["ObjectDefinition"], definition["TypeCondition"]
        if not self.can_be(parent, condition):
            wrong = f'as objects of type "{parent["Name"]}" can never be of type "{condition}".'
            self.add(spread, f'Fragment "{name}" cannot be spread here {wrong}')

    def can_be(self, parent: Any, condition: str) -> bool:
        """Return False if no object of the type `parent` can be of the type named `condition`, so
        that a fragment on it cannot match. True if either is unknown or not an object type,
        interface or union.
        """
        known = self.schema.types.get(condition)
        if parent is None or known is None or known["Kind"] not in COMPOSITE:
            return True
        if parent["Kind"] not in COMPOSITE:
            return True
        possible = self.schema.possible
        parents = [parent] if parent["Kind"] == "OBJECT" else possible.get(parent["Name"], [])
        names = {each["Name"] for each in parents}
        return any(each["Name"] in names for each in possible.get(condition, ()))

    def check_field(self, field: Node, inner: Node | None) -> None:
        """Add the errors of a field, of which `inner` is the named type, None if it is unknown: the
        type around it does not have it, an argument is unknown, missing or given twice,
        introspection is too deep, subfields conflict, or are there or missing against the type.
        """
        definition, parent = field["Definition"], field["ObjectDefinition"]
        name = field["Name"]
        if parent is not None and definition is None:
            meant = self.suggest_field(parent, name)
            self.add(field, f'Cannot query field "{name}" on type "{parent["Name"]}".{meant}')
        if parent is not None and definition is not None:
            where = f'on field "{parent["Name"]}.{name}"'
            self.check_known_arguments(field, definition, where)
        if name in ("__schema", "__type") and self.is_deep(field, set(), 0):
            self.add(field, "Maximum introspection depth exceeded")
        if self.operation is not None:
            self.add_conflicts(field["SelectionSet"])
        if definition is not None:
            self.check_required_arguments(field, definition, f'Field "{name}"')
        if inner is not None and definition is not None:
            self.check_leaf(field, definition, inner)
        self.check_unique_arguments(field["Arguments"])

    def check_leaf(self, field: Node, definition: Node, inner: Node) -> None:
        """Rule ScalarLeafs: add an error for `field` if its type `inner` (without lists and
        non-null) is a scalar or enum and the field has a selection of subfields, or if it is
        another type and the field has none. The message shows the declared type, from `definition`.
        """
        name, is_leaf = field["Name"], inner["Kind"] in LEAF
        if is_leaf and field["SelectionSet"]:
            wrong = f'must not have a selection since type "{inner["Name"]}" has no subfields.'
            self.add(field, f'Field "{name}" {wrong}')
        if not is_leaf and not field["SelectionSet"]:
            shown = type_text(definition["Type"])
            wrong = f'of type "{shown}" must have a selection of subfields.'
            self.add(field, f'Field "{name}" {wrong} Did you mean "{name} {{ ... }}"?')

    def suggest_field(self, parent: Node, name: str) -> str:
        """Return the end of the message for an unknown field, from ` Did you mean` on: types of an
        interface or union that have the field, or else similar fields of the type; "" if there are
        none.
        """
        if parent["Kind"] in ("INTERFACE", "UNION"):
            names = self.types_with(parent, name)
            if names:
                return f" Did you mean to use an inline fragment on {quoted_any_of(names)}?"
        if parent["Kind"] in ("OBJECT", "INTERFACE"):
            names = similar(name, [each["Name"] for each in parent["Fields"]])
            if names:
                return f" Did you mean {quoted_any_of(names)}?"
        return ""

    def types_with(self, parent: Node, name: str) -> list[str]:
        """Return the names of the possible object types of `parent` that have the field `name`, and
        of their interfaces that have it: the interfaces that most of the types have first, then by
        name.
        """
        objects: list[str] = []
        counts: dict[str, int] = {}
        for possible in self.schema.possible.get(parent["Name"], ()):
            if self.schema.field(possible, name) is None:
                continue
            objects.append(possible["Name"])
            for interface in possible["Interfaces"]:
                known = self.schema.types.get(interface)
                if known is not None and self.schema.field(known, name) is not None:
                    counts[interface] = counts.get(interface, 0) + 1
        return sorted([*counts, *objects], key=lambda each: (-counts.get(each, 0), each))

    def is_deep(self, field: Node, seen: set[str], depth: int) -> bool:
        """Return True if introspection has `_MAX_LISTS` or more lists below each other, `depth` of
        them above the field. `seen` are the fragments around it. LimitError above the most steps of
        a validation.
        """
        self.steps.take()
        depth += field["Name"] in _LISTS
        return depth >= _MAX_LISTS or self.are_deep(field["SelectionSet"], seen, depth)

    def are_deep(self, selections: list[Node], seen: set[str], depth: int) -> bool:
        """Return True if `is_deep` is true for a field in `selections`, those in fragments
        included; a fragment inside itself, and an unknown one, is left out. `seen` are the
        fragments around, `depth` the lists above. LimitError after too many steps.
        """
        for selection in selections:
            self.steps.take()
            if selection.struct == "Field":
                deep = self.is_deep(selection, seen, depth)
            elif selection.struct == "InlineFragment":
                deep = self.are_deep(selection["SelectionSet"], seen, depth)
            elif selection["Name"] in seen or selection["Definition"] is None:
                continue
            else:
                inner = {*seen, selection["Name"]}
                deep = self.are_deep(selection["Definition"]["SelectionSet"], inner, depth)
            if deep:
                return True
        return False

    def check_directive(self, directive: Node) -> None:
        """Add the errors of a directive: it is unknown, is not allowed at its location (once for
        each name and place in the text), or an argument is unknown, missing or given twice.
        """
        definition, name = directive["Definition"], directive["Name"]
        if definition is None:
            self.add(directive, f'Unknown directive "@{name}".')
        else:
            self.check_known_arguments(directive, definition, f'on directive "@{name}"')
            key = name, directive.position
            if directive["Location"] not in definition["Locations"] and key not in self.misplaced:
                self.misplaced.add(key)
                location = directive["Location"]
                self.add(directive, f'Directive "@{name}" may not be used on {location}.')
            self.check_required_arguments(directive, definition, f'Directive "@{name}"')
        self.check_unique_arguments(directive["Arguments"])

    def check_known_arguments(self, node: Node, definition: Node, where: str) -> None:
        """Rule KnownArgumentNames: add an error for each argument of a field or directive that its
        definition does not declare. `where` is what the message says of the place.
        """
        for argument in node["Arguments"]:
            name = argument["Name"]
            if by_name(definition["Arguments"], name) is None:
                names = [each["Name"] for each in definition["Arguments"]]
                meant = suggest("Did you mean", name, names)
                self.add(node, f'Unknown argument "{name}" {where}.{meant}')

    def check_required_arguments(self, node: Node, definition: Node, what: str) -> None:
        """Rule ProvidedRequiredArguments: add an error for each argument of a non-null type without
        a default that is not given. `what` begins the message.
        """
        for argument in definition["Arguments"]:
            if not argument["Type"]["NonNull"] or argument["DefaultValue"] is not None:
                continue
            if by_name(node["Arguments"], argument["Name"]) is None:
                wanted = f'argument "{argument["Name"]}" of type "{type_text(argument["Type"])}"'
                self.add(node, f"{what} {wanted} is required, but it was not provided.")

    def check_unique_arguments(self, arguments: list[Node]) -> None:
        """Rule UniqueArgumentNames: add an error for each name that several arguments have."""
        for name, argument in _second_ones(arguments, "Name"):
            self.add(argument, f'There can be only one argument named "{name}".')

    def check_unique_directives(self, directives: list[Node]) -> None:
        """Rule UniqueDirectivesPerLocation: add an error for each directive that an earlier one has
        the name of, unless it is repeatable.
        """
        seen: set[str] = set()
        for directive in directives:
            definition, name = directive["Definition"], directive["Name"]
            is_repeatable = definition is not None and definition["IsRepeatable"]
            if name in seen and not is_repeatable:
                self.add(
                    directive, f'The directive "@{name}" can only be used once at this location.'
                )
            seen.add(name)

    def add_conflicts(self, selections: list[Node]) -> None:
        """Rule OverlappingFieldsCanBeMerged: add an error for each pair of fields in `selections`,
        fragments included, that have the same name in the response and cannot be merged. LimitError
        if the search takes too many steps.
        """
        for conflict in self.conflicts.within(selections):
            message = (
                f'Fields "{conflict.name}" conflict because {conflict.text()}. Use different '
                "aliases on the fields to fetch both if this was intentional."
            )
            self.add_at(conflict.position, message)

    # Values

    def check_value(self, value: Node) -> None:
        """Add the errors of a value: a variable is not declared or does not fit its position, an
        object has a field twice, or a literal does not fit its type.
        """
        kind = value["Kind"]
        if kind == _VARIABLE:
            self.check_defined(value)
        if kind == _OBJECT:
            seen: set[str] = set()
            for child in value["Children"]:
                if child["Name"] in seen:
                    self.add(child, f'There can be only one input field named "{child["Name"]}".')
                seen.add(child["Name"])
        if value["Definition"] is not None and value["ExpectedType"] is not None:
            self.check_type(value)
        if kind == _VARIABLE:
            self.check_position(value)
        if kind == _OBJECT and value["Definition"] is not None:
            self.check_one_of_variables(value)

    def check_defined(self, value: Node) -> None:
        """Rule NoUndefinedVariables: add an error for `value`, a use of a variable, if the present
        operation does not declare the variable. Outside of an operation nothing is checked.
        """
        if self.operation is None or value["VariableDefinition"] is not None:
            return
        name = self.operation["Name"]
        by = f' by operation "{name}"' if name else ""
        self.add(value, f'Variable "${value["Raw"]}" is not defined{by}.')

    def check_position(self, value: Node) -> None:
        """Rule VariablesInAllowedPosition: add an error if `value`, a use of a variable, stands
        where the declared type of the variable does not fit the expected one. An expected type may
        be null if the variable or the position has a default value. Undefined variables, positions
        of unknown type and nodes outside of an operation are not checked.
        """
        variable, expected = value["VariableDefinition"], value["ExpectedType"]
        if variable is None or expected is None or self.operation is None:
            return
        wanted = expected
        if value["ExpectedTypeHasDefault"] or _has_default(variable):
            wanted = expected.copy()
            wanted["NonNull"] = False
        if not is_compatible(variable["Type"], wanted):
            types = f'of type "{type_text(variable["Type"])}" used in position expecting type'
            self.add(value, f'Variable "${value["Raw"]}" {types} "{type_text(expected)}".')

    def check_one_of_variables(self, value: Node) -> None:
        """Rule VariablesInAllowedPosition for an input object with the directive `@oneOf`, of which
        one field is given: add an error for each nullable variable that is the value of a field.
        Other types and undefined variables are passed over. `value` must have a `Definition`.
        """
        definition = value["Definition"]
        if by_name(definition["Directives"], "oneOf") is None:
            return
        for child in value["Children"]:
            variable = child["Value"]["VariableDefinition"]
            if child["Value"]["Kind"] != _VARIABLE or variable is None:
                continue
            if not variable["Type"]["NonNull"]:
                wrong = f'is of type "{type_text(variable["Type"])}" but must be non-nullable'
                where = f'to be used for OneOf Input Object "{definition["Name"]}".'
                self.add(variable, f'Variable "${child["Value"]["Raw"]}" {wrong} {where}')

    def check_type(self, value: Node) -> None:
        """Rule ValuesOfCorrectType: add the errors of a literal that does not fit the type at its
        position, its fields if it is an object included. Of a custom scalar only null is checked,
        of a variable only whether its default can be read; items of lists are checked by calls of
        their own. The value must have an `ExpectedType` and a `Definition`.
        """
        kind, expected, definition = value["Kind"], value["ExpectedType"], value["Definition"]
        if kind == _NULL and expected["NonNull"]:
            self.add(value, f'Expected value of type "{type_text(expected)}", found null.')
        name, is_enum = definition["Name"], definition["Kind"] == "ENUM"
        if definition["Kind"] == "SCALAR" and name not in _SCALARS:
            return
        if not _is_readable(value):
            self.add(value, _unexpected(value))
        if kind == _LIST:
            if expected["Elem"] is None:
                self.add(value, _unexpected(value))
        elif kind in (_STRING, _BLOCK) and is_enum:
            self.add(value, f"{_no_enum(value)}{self.suggest_enum(value)}")
        elif kind == _ENUM:
            self.check_enum(value)
        elif kind == _OBJECT:
            self.check_object(value)
        elif kind in _FITTING and name not in _FITTING[kind]:
            self.add(value, _unexpected(value))

    def suggest_enum(self, value: Node) -> str:
        names = [each["Name"] for each in value["Definition"]["EnumValues"]]
        return suggest("Did you mean the enum value", value["Raw"], names)

    def check_enum(self, value: Node) -> None:
        """Add an error for an enum literal where the type is not an enum, or does not have this
        value; with what may be meant.
        """
        definition = value["Definition"]
        if definition["Kind"] != "ENUM":
            names = similar(value["Raw"], [each["Name"] for each in definition["EnumValues"]])
            meant = f" Did you mean the enum value {any_of(names)}?" if names else ""
            self.add(value, f"{_unexpected(value)}{meant}")
        elif by_name(definition["EnumValues"], value["Raw"]) is None:
            wrong = f'does not exist in "{type_text(value["ExpectedType"])}" enum.'
            self.add(value, f'Value "{value["Raw"]}" {wrong}{self.suggest_enum(value)}')

    def check_object(self, value: Node) -> None:
        """Add the errors of an object literal for an input type: a field that the type needs is
        missing, the type has the directive `@oneOf` and the object does not fulfil it, or a field
        is unknown.
        """
        definition, children = value["Definition"], value["Children"]
        name = definition["Name"]
        given = {child["Name"] for child in children}
        for field in definition["Fields"]:
            is_needed = field["Type"]["NonNull"] and field["DefaultValue"] is None
            if is_needed and field["Name"] not in given:
                wanted = f'of required type "{type_text(field["Type"])}" was not provided.'
                self.add(value, f'Field "{name}.{field["Name"]}" {wanted}')
        for directive in definition["Directives"]:
            if directive["Name"] == "oneOf":
                self.check_one_of(value)
        for child in children:
            if self.schema.field(definition, child["Name"]) is None:
                names = [each["Name"] for each in definition["Fields"]]
                meant = suggest("Did you mean", child["Name"], names)
                wrong = f'is not defined by type "{name}".'
                self.add(child, f'Field "{child["Name"]}" {wrong}{meant}')

    def check_one_of(self, value: Node) -> None:
        """Add an error for an object with the directive `@oneOf` that has not exactly one field, or
        whose field is null; the message then names the first field of the type.
        """
        definition, children = value["Definition"], value["Children"]
        name = definition["Name"]
        if len(children) != 1:
            self.add(value, f'OneOf Input Object "{name}" must specify exactly one key.')
        elif children[0]["Value"]["Kind"] == _NULL:
            first = definition["Fields"][0]["Name"]
            self.add(children[0]["Value"], f'Field "{name}.{first}" must be non-null.')


_TYPENAME: Final = Node(
    "FieldDefinition",
    None,
    {
        "Name": "__typename",
        "Arguments": [],
        "Type": Node("Type", None, {"NamedType": "String", "Elem": None, "NonNull": False}),
    },
)
"""The field that each type has."""


def _second_ones(nodes: Iterable[Node], field: str) -> Iterator[tuple[str, Node]]:
    """Yield each name that several nodes have in a field, with the second one of these nodes."""
    counts: dict[str, int] = {}
    for node in nodes:
        name = node[field]
        if counts.get(name) == 1:
            yield name, node
        counts[name] = counts.get(name, 0) + 1


def _value_of(node: Node) -> Node:
    """The value of an argument or child; BuiltinError if it has none, at which OPA panics."""
    value = node["Value"]
    if value is None:
        raise BuiltinError(f"GraphQL AST: {node.struct}.Value is missing")
    node_of_value: Node = value
    return node_of_value


def _has_default(definition: Node) -> bool:
    """Return True for a default that is not null."""
    default = definition["DefaultValue"]
    return default is not None and default["Kind"] != _NULL


def _variable(operation: Node, name: str) -> Node | None:
    variables: Iterable[Node] = operation["VariableDefinitions"]
    return next((each for each in variables if each["Variable"] == name), None)


def _spreads(selections: list[Node]) -> list[Node]:
    """The spreads in selections, in the order in which OPA finds them: sets that come later first,
    and those below a set behind it.
    """
    spreads: list[Node] = []
    waiting = [selections]
    while waiting:
        for selection in waiting.pop():
            if selection.struct == "FragmentSpread":
                spreads.append(selection)
            else:
                waiting.append(selection["SelectionSet"])
    return spreads


def _is_readable(value: Node) -> bool:
    """Return True if Go can read a literal: an integer of 64 bits, a finite double in ASCII, one of
    the spellings of a boolean that `strconv.ParseBool` takes. Lists and objects if all their parts
    are, a variable if its default is or it has none; strings, enums, block strings and null always.
    BuiltinError for an unknown kind.
    """
    kind, raw = value["Kind"], value["Raw"]
    if kind == _INT:
        number = _integer(raw)
        return number is not None and -(2**63) <= number < 2**63
    if kind == _FLOAT:
        try:
            return raw.isascii() and "_" not in raw and abs(float(raw)) != float("inf")
        except ValueError:
            return False
    if kind == _BOOLEAN:
        return raw in (
            "1",
            "t",
            "T",
            "TRUE",
            "true",
            "True",
            "0",
            "f",
            "F",
            "FALSE",
            "false",
            "False",
        )
    if kind in (_LIST, _OBJECT):
        return all(
            child["Value"] is None or _is_readable(child["Value"]) for child in value["Children"]
        )
    if kind == _VARIABLE:
        variable = value["VariableDefinition"]
        default = variable and variable["DefaultValue"]
        return default is None or _is_readable(default)
    if not 0 <= kind <= _OBJECT:
        raise BuiltinError(f"GraphQL AST: unknown value kind {kind}")
    return True


def _unexpected(value: Node) -> str:
    """Return the library's message for a literal that is not of its expected type: one of its own
    for the built-in scalars and for enums. The value must have an `ExpectedType` and a
    `Definition`.
    """
    shown, text = type_text(value["ExpectedType"]), value_text(value)
    name = "String" if shown == "[String]" else shown.removesuffix("!")
    if name == "Int" and _is_large(value["Raw"]):
        return f"Int cannot represent non 32-bit signed integer value: {text}"
    if name in _NOUNS:
        return f"{name} cannot represent {_NOUNS[name]}: {text}"
    if value["Definition"]["Kind"] == "ENUM":
        return _no_enum(value)
    return f'Expected value of type "{shown}", found {text}.'


def _no_enum(value: Node) -> str:
    shown = type_text(value["ExpectedType"])
    return f'Enum "{shown}" cannot represent non-enum value: {value_text(value)}.'


def _is_large(raw: str) -> bool:
    """Return True for an integer of more than 32 bits."""
    number = _integer(raw)
    return number is not None and not -(2**31) <= number < 2**31


def _integer(raw: str) -> int | None:
    """Return the integer that a text of decimal digits, perhaps with a sign, stands for; for one of
    20 digits or more any that does not fit 64 bits. None for another text.
    """
    digits = raw[1:] if raw[:1] in ("+", "-") else raw
    if not (digits.isascii() and digits.isdecimal()):
        return None
    significant = digits.lstrip("0") or "0"
    number = int(significant) if len(significant) < 20 else 1 << 64
    return -number if raw[0] == "-" else number
