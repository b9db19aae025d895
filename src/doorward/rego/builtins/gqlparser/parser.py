"""The text of a GraphQL query or schema becomes nodes, by the grammar of OPA's library.

The grammar is a little wider than that of the specification: a string stands for a keyword at some
places, a fragment may have variables, and a list of selections or fields that is not there is
another thing than an empty one. Comments stay with the token that they are before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from doorward.rego.builtins.gqlparser.nodes import Node, Position, new
from doorward.rego.builtins.gqlparser.tokens import (
    BLOCK,
    COMMENT,
    END,
    FLOAT,
    INT,
    NAME,
    STRING,
    Lexer,
    Token,
)
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang.json import quote

__all__ = ["VALUES", "parse_query", "parse_schema"]

VALUES: Final = {
    name: number
    for number, name in enumerate(
        ("variable", "int", "float", "string", "block", "boolean", "null", "enum", "list", "object")
    )
}
"""The numbers of the kinds of values."""
_LITERALS: Final = {
    INT: VALUES["int"],
    FLOAT: VALUES["float"],
    STRING: VALUES["string"],
    BLOCK: VALUES["block"],
}
_WORDS: Final = {
    "true": VALUES["boolean"],
    "false": VALUES["boolean"],
    "null": VALUES["null"],
}
_OPERATIONS: Final = ("query", "mutation", "subscription")
_KINDS: Final = {
    "scalar": "SCALAR",
    "type": "OBJECT",
    "interface": "INTERFACE",
    "union": "UNION",
    "enum": "ENUM",
    "input": "INPUT_OBJECT",
}
_LOCATIONS: Final = frozenset(
    {"QUERY", "MUTATION", "SUBSCRIPTION", "FIELD", "FRAGMENT_DEFINITION", "FRAGMENT_SPREAD"}
    | {"INLINE_FRAGMENT", "VARIABLE_DEFINITION", "SCHEMA", "SCALAR", "OBJECT", "FIELD_DEFINITION"}
    | {"ARGUMENT_DEFINITION", "INTERFACE", "UNION", "ENUM", "ENUM_VALUE", "INPUT_OBJECT"}
    | {"INPUT_FIELD_DEFINITION"}
)


def parse_query(text: str, most: int) -> Node:
    """Parse a query of at most `most` tokens. BuiltinError for another text, in the library's
    words, with line and column; LimitError for more tokens.
    """
    return _Parser(text, most).query()


def parse_schema(text: str, most: int) -> Node:
    """Parse a schema of at most `most` tokens, without a check of what it says. BuiltinError for
    another text, in the library's words, with line and column; LimitError for more tokens.
    """
    return _Parser(text, most).schema()


def _describe(token: Token) -> str:
    return f"{token.kind} {quote(token.value)}" if token.value else token.kind


class _Parser:
    """Reads one text. `following` is the next token; `comment` are the comments before it, None
    if there are none.
    """

    def __init__(self, text: str, most: int) -> None:
        self.lexer = Lexer(text)
        self.most = most
        self.count = 0
        self.comment: Node | None = None
        self.previous = self.following = Token(END, "", 1, 1)
        self.advance()

    # Tokens

    def advance(self) -> Token:
        """Read the token after the following one and make it the following one; return the one that
        was it before, as `previous`. Skipped comments become `comment`. LimitError for too many
        tokens.
        """
        self.previous = self.following
        self.comment = None
        comments: list[Node] = []
        while True:
            self.count += 1
            if self.count > self.most:
                raise LimitError(f"GraphQL: Document contains more than {self.most} tokens")
            token = self.lexer.read()
            if token.kind != COMMENT:
                break
            comments.append(new("Comment", Value=token.value))
        self.following = token
        if comments:
            self.comment = new("CommentGroup", List=comments)
        return self.previous

    @property
    def position(self) -> Position:
        return self.following.line, self.following.column

    def fail(self, token: Token, message: str) -> BuiltinError:
        return BuiltinError(f"{message} in GraphQL string at location {token.line}:{token.column}")

    def unexpected(self, token: Token | None = None) -> BuiltinError:
        token = token or self.following
        return self.fail(token, f"Unexpected {_describe(token)}")

    def expect(self, kind: str) -> Token:
        """Move past the next token, which must be of this kind, and return it. BuiltinError for
        another token.
        """
        if self.following.kind != kind:
            raise self.fail(self.following, f"Expected {kind}, found {self.following.kind}")
        return self.advance()

    def keyword(self, word: str) -> Node | None:
        """Move past the next token, which must be the name `word`, and return the comments before
        it, None if there are none. BuiltinError for another token.
        """
        comment = self.comment
        if self.following.kind != NAME or self.following.value != word:
            actual = _describe(self.following)
            raise self.fail(self.following, f"Expected {quote(word)}, found {actual}")
        self.advance()
        return comment

    def skip(self, kind: str) -> bool:
        """Move past the next token and return True if it is of this kind; otherwise stay and return
        False.
        """
        if self.following.kind != kind:
            return False
        self.advance()
        return True

    def name(self) -> str:
        return self.expect(NAME).value

    def many(self, start: str, end: str, read: Callable[[], Any]) -> list[Any]:
        """Read nodes by `read` between the signs `start` and `end`, perhaps none, and return them;
        [], and nothing read, where `start` is not there.
        """
        items: list[Any] = []
        if self.skip(start):
            while self.following.kind != end:
                items.append(read())
            self.advance()
        return items

    def some(self, start: str, end: str, read: Callable[[], Any]) -> tuple[list[Any], Node | None]:
        """Read nodes by `read` between the signs `start` and `end`, at least one; return them and
        the comments before the second sign. [] and None, and nothing read, where the first one is
        not there. BuiltinError if there is no node.
        """
        items: list[Any] = []
        if not self.skip(start):
            return items, None
        while self.following.kind != end:
            items.append(read())
        if not items:
            actual = self.following.kind
            raise self.fail(self.following, f"expected at least one definition, found {actual}")
        comment = self.comment
        self.advance()
        return items, comment

    # Queries

    def query(self) -> Node:
        """Read operations and fragments up to the end, and return the document, which may have
        none. BuiltinError for anything else.
        """
        document = new("QueryDocument", self.position)
        while self.following.kind != END:
            if self.following.kind == "{" or (
                self.following.kind == NAME and self.following.value in _OPERATIONS
            ):
                document["Operations"].append(self.operation())
            elif self.following.kind == NAME and self.following.value == "fragment":
                document["Fragments"].append(self.fragment_definition())
            else:
                raise self.unexpected()
        return document

    def operation(self) -> Node:
        """Read and return an operation: `query name(variables) @directives { selections }`, with
        `query`, `mutation` or `subscription`; a set of selections alone is a query without a name.
        """
        if self.following.kind == "{":
            position = self.position
            node = new("OperationDefinition", position, Operation="query")
            node["SelectionSet"] = self.selection_set()
            return node
        node = new("OperationDefinition", self.position, Comment=self.comment)
        node["Operation"] = self.operation_type()
        if self.following.kind == NAME:
            node["Name"] = self.advance().value
        node["VariableDefinitions"] = self.variable_definitions()
        node["Directives"] = self.directives()
        node["SelectionSet"] = self.selection_set()
        return node

    def operation_type(self) -> str:
        """Read and return `query`, `mutation` or `subscription`. BuiltinError for another token."""
        token = self.advance()
        if token.value not in _OPERATIONS:
            raise self.unexpected(token)
        return token.value

    def variable_definitions(self) -> list[Node]:
        return self.some("(", ")", self.variable_definition)[0]

    def variable_definition(self) -> Node:
        """Read and return the definition of a variable: `$name: type = default @directives`. The
        default is constant.
        """
        node = new("VariableDefinition", self.position, Comment=self.comment)
        node["Variable"] = self.variable()
        self.expect(":")
        node["Type"] = self.type()
        if self.skip("="):
            node["DefaultValue"] = self.value(is_constant=True)
        node["Directives"] = self.directives()
        return node

    def variable(self) -> str:
        self.expect("$")
        return self.name()

    def selection_set(self) -> list[Node]:
        """Read and return the selections in braces. BuiltinError if there is not at least one."""
        if self.following.kind != "{":
            raise self.fail(self.following, f"Expected {{, found {self.following.kind}")
        return self.some("{", "}", self.selection)[0]

    def selection(self) -> Node:
        return self.fragment() if self.following.kind == "..." else self.field()

    def field(self) -> Node:
        """Read and return a field: `alias: name(arguments) @directives { selections }`. Without an
        alias the name is both.
        """
        node = new("Field", self.position, Comment=self.comment)
        node["Alias"] = node["Name"] = self.name()
        if self.skip(":"):
            node["Name"] = self.name()
        node["Arguments"] = self.arguments()
        node["Directives"] = self.directives()
        if self.following.kind == "{":
            node["SelectionSet"] = self.selection_set()
        return node

    def arguments(self, *, is_constant: bool = False) -> list[Node]:
        return self.some("(", ")", lambda: self.argument(is_constant=is_constant))[0]

    def argument(self, *, is_constant: bool) -> Node:
        """Read and return an argument: `name: value`, without variables in the value if
        `is_constant`.
        """
        node = new("Argument", self.position, Comment=self.comment)
        node["Name"] = self.name()
        self.expect(":")
        node["Value"] = self.value(is_constant=is_constant)
        return node

    def fragment(self) -> Node:
        """Read and return what `...` begins: a spread if a name other than `on` follows, otherwise
        an inline fragment, with or without a type. BuiltinError if it is malformed.
        """
        comment = self.comment
        self.expect("...")
        position = self.position
        if self.following.kind == NAME and self.following.value != "on":
            node = new("FragmentSpread", position, Comment=comment, Name=self.name())
            node["Directives"] = self.directives()
            return node
        node = new("InlineFragment", position, Comment=comment)
        if self.following.value == "on":
            self.advance()
            node["TypeCondition"] = self.name()
        node["Directives"] = self.directives()
        node["SelectionSet"] = self.selection_set()
        return node

    def fragment_definition(self) -> Node:
        """Read and return a fragment: `fragment name(variables) on type @directives { selections
        }`, the variables optional. BuiltinError for the name `on`.
        """
        node = new("FragmentDefinition", self.position, Comment=self.comment)
        self.keyword("fragment")
        if self.following.value == "on":
            raise self.unexpected()
        node["Name"] = self.name()
        node["VariableDefinition"] = self.variable_definitions()
        self.keyword("on")
        node["TypeCondition"] = self.name()
        node["Directives"] = self.directives()
        node["SelectionSet"] = self.selection_set()
        return node

    def value(self, *, is_constant: bool) -> Node:
        """Read and return a value. A name that is not `true`, `false` or `null` is the value of an
        enum. BuiltinError for a variable if `is_constant`, and for what is not a value.
        """
        token, position = self.following, self.position
        if token.kind == "[":
            node = new("Value", position, Kind=VALUES["list"], Comment=self.comment)
            node["Children"] = self.many("[", "]", lambda: self.list_item(is_constant=is_constant))
            return node
        if token.kind == "{":
            node = new("Value", position, Kind=VALUES["object"], Comment=self.comment)
            node["Children"] = self.many(
                "{", "}", lambda: self.object_field(is_constant=is_constant)
            )
            return node
        if token.kind == "$" and not is_constant:
            return new("Value", position, Kind=VALUES["variable"], Raw=self.variable())
        kind = _LITERALS.get(token.kind)
        if token.kind == NAME:
            kind = _WORDS.get(token.value, VALUES["enum"])
        if kind is None:
            raise self.unexpected()
        self.advance()
        return new("Value", position, Kind=kind, Raw=token.value)

    def list_item(self, *, is_constant: bool) -> Node:
        return new("ChildValue", Value=self.value(is_constant=is_constant))

    def object_field(self, *, is_constant: bool) -> Node:
        """Read and return a field of an object literal: `name: value`, without variables if
        `is_constant`.
        """
        node = new("ChildValue", self.position, Comment=self.comment)
        node["Name"] = self.name()
        self.expect(":")
        node["Value"] = self.value(is_constant=is_constant)
        return node

    def directives(self, *, is_constant: bool = False) -> list[Node]:
        """Read and return the directives that are here, perhaps none. With `is_constant` their
        arguments must not hold variables.
        """
        nodes: list[Node] = []
        while self.skip("@"):
            node = new("Directive", self.position)
            node["Name"] = self.name()
            node["Arguments"] = self.arguments(is_constant=is_constant)
            nodes.append(node)
        return nodes

    def type(self) -> Node:
        """Read and return a type: a name or a type in brackets, with `!` behind it or not."""
        if self.skip("["):
            node = new("Type", self.position, Elem=self.type())
            self.expect("]")
        else:
            node = new("Type", self.position)
            node["NamedType"] = self.name()
        node["NonNull"] = self.skip("!")
        return node

    # Schemas

    def schema(self) -> Node:
        """Read definitions and extensions up to the end, and return the document; it may be empty.
        BuiltinError for anything else, and for a description before an extension.
        """
        document = new("SchemaDocument", self.position)
        while self.following.kind != END:
            heading = self.description()
            word = self.following.value
            if self.following.kind != NAME:
                raise self.unexpected()
            if word in _KINDS:
                document["Definitions"].append(self.definition(heading))
            elif word == "schema":
                document["Schema"].append(self.schema_definition(heading))
            elif word == "directive":
                document["Directives"].append(self.directive_definition(heading))
            elif word == "extend":
                if heading["Description"]:
                    raise self.unexpected(self.previous)
                self.extension(document)
            else:
                raise self.unexpected()
        document["Comment"] = self.comment
        return document

    def description(self) -> dict[str, Any]:
        """Read the description before a definition; return it, and the comments before that."""
        if self.following.kind not in (STRING, BLOCK):
            return {"Description": "", "BeforeDescriptionComment": None}
        comment = self.comment
        return {"Description": self.advance().value, "BeforeDescriptionComment": comment}

    def named_part(self, struct: str) -> Node:
        """Read a name and, before it, a description, and return a new node with them; the comments
        before an empty description are lost.
        """
        heading = self.description()
        fields = heading if heading["Description"] else {}
        node = new(struct, self.position, AfterDescriptionComment=self.comment, **fields)
        node["Name"] = self.name()
        return node

    def schema_definition(self, heading: dict[str, Any]) -> Node:
        """Read and return `schema @directives { operation: type … }`, at least one if there are
        braces. `heading` has its description and the comments before that.
        """
        comment = self.keyword("schema")
        node = new("SchemaDefinition", self.position, AfterDescriptionComment=comment, **heading)
        node["Directives"] = self.directives(is_constant=True)
        types = self.some("{", "}", self.operation_type_definition)
        node["OperationTypes"], node["EndOfDefinitionComment"] = types
        return node

    def operation_type_definition(self) -> Node:
        """Read and return the root type of an operation: `query: type`."""
        node = new("OperationTypeDefinition", self.position, Comment=self.comment)
        node["Operation"] = self.operation_type()
        self.expect(":")
        node["Type"] = self.name()
        return node

    def definition(self, heading: dict[str, Any]) -> Node:
        kind = self.following.value
        comment = self.keyword(kind)
        return self.type_definition(kind, AfterDescriptionComment=comment, **heading)

    def type_definition(self, kind: str, *, extends: bool = False, **fields: Any) -> Node:
        """Read the definition of a type behind its keyword `kind` (such as `interface`), or with
        `extends` its extension, and return a node with the `fields` added. As in OPA's library, an
        extension of an interface has no interfaces, and the directives of that of an input object
        may have variables. BuiltinError if it is malformed.
        """
        node = new("Definition", self.position, Kind=_KINDS[kind], **fields)
        node["Name"] = self.name()
        if kind == "type" or (kind == "interface" and not extends):
            node["Interfaces"] = self.interfaces()
        node["Directives"] = self.directives(is_constant=not (extends and kind == "input"))
        if kind == "union":
            node["Types"] = self.members()
        elif kind != "scalar":
            name = "EnumValues" if kind == "enum" else "Fields"
            read = {"enum": self.enum_value, "input": self.input_field}.get(
                kind, self.field_definition
            )
            node[name], node["EndOfDefinitionComment"] = self.some("{", "}", read)
        return node

    def interfaces(self) -> list[str]:
        """Read and return the names after `implements`, with `&` between them; [], and nothing
        read, without the word.
        """
        if self.following.value != "implements":
            return []
        self.advance()
        return self.names("&")

    def names(self, mark: str) -> list[str]:
        """Read names with `mark` between them and perhaps before the first one, at least one, and
        return them. BuiltinError if there is none.
        """
        self.skip(mark)
        names = [self.name()]
        while self.skip(mark):
            names.append(self.name())
        return names

    def members(self) -> list[str]:
        return self.names("|") if self.skip("=") else []

    def field_definition(self) -> Node:
        """Read and return the field of a type: `name(arguments): type @directives`, with a
        description before it or not.
        """
        node = self.named_part("FieldDefinition")
        node["Arguments"] = self.argument_definitions()
        self.expect(":")
        node["Type"] = self.type()
        node["Directives"] = self.directives(is_constant=True)
        return node

    def argument_definitions(self) -> list[Node]:
        return self.some("(", ")", lambda: self.input_value("ArgumentDefinition"))[0]

    def input_field(self) -> Node:
        return self.input_value("FieldDefinition")

    def input_value(self, struct: str) -> Node:
        """Read an argument or the field of an input object, `name: type = default @directives` with
        a description before it, and return it as a node of `struct`. The default and the directives
        are constant. BuiltinError if it is malformed.
        """
        node = self.named_part(struct)
        self.expect(":")
        node["Type"] = self.type()
        if self.skip("="):
            node["DefaultValue"] = self.value(is_constant=True)
        node["Directives"] = self.directives(is_constant=True)
        return node

    def enum_value(self) -> Node:
        node = self.named_part("EnumValueDefinition")
        node["Directives"] = self.directives(is_constant=True)
        return node

    def extension(self, document: Node) -> None:
        """Read an extension (`extend schema …` or `extend type …`) and append it to the document's
        `SchemaExtension` or `Extensions`. BuiltinError if it is malformed, is of another kind, or
        extends by nothing.
        """
        comment = self.keyword("extend")
        kind = self.following.value
        if kind == "schema":
            self.keyword("schema")
            node = new("SchemaDefinition", self.position, AfterDescriptionComment=comment)
            node["Directives"] = self.directives(is_constant=True)
            types = self.some("{", "}", self.operation_type_definition)
            node["OperationTypes"], node["EndOfDefinitionComment"] = types
            document["SchemaExtension"].append(node)
        elif kind in _KINDS:
            self.keyword(kind)
            node = self.type_definition(kind, extends=True, AfterDescriptionComment=comment)
            document["Extensions"].append(node)
        else:
            raise self.unexpected()
        parts = ("Directives", "OperationTypes", "Interfaces", "Fields", "Types", "EnumValues")
        if not any(node.get(part) for part in parts):
            raise self.unexpected()

    def directive_definition(self, heading: dict[str, Any]) -> Node:
        """Read and return the definition of a directive: `directive @name(arguments) repeatable on
        A | B`, with a `|` before the first location or not. `heading` has its description and the
        comments before that. BuiltinError for an unknown location.
        """
        comment = self.keyword("directive")
        self.expect("@")
        node = new("DirectiveDefinition", self.position, AfterDescriptionComment=comment, **heading)
        node["Name"] = self.name()
        node["Arguments"] = self.argument_definitions()
        if self.following.kind == NAME and self.following.value == "repeatable":
            node["IsRepeatable"] = True
            self.advance()
        self.keyword("on")
        self.skip("|")
        node["Locations"] = [self.location()]
        while self.skip("|"):
            node["Locations"].append(self.location())
        return node

    def location(self) -> str:
        """Read and return the name of a location. BuiltinError for one not in `_LOCATIONS`."""
        token = self.expect(NAME)
        if token.value not in _LOCATIONS:
            raise self.unexpected(token)
        return token.value
