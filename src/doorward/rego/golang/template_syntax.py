"""Go's `text/template`: text to tree. What the tree means is in `templates`.

    template  = { text | "{{" action "}}" }
    action    = pipeline | "if" … "end" | "range" … "end" | "with" … "end" | "define" name … "end"
              | "block" name pipeline … "end" | "template" name [ pipeline ] | "break" | "continue"
    pipeline  = [ variables ( ":=" | "=" ) ] command { "|" command }
    command   = operand { operand }

Nesting is at most `MAX_DEPTH` deep, a template at most `MAX_SOURCE` characters long. Complex
numbers are errors.
"""

from __future__ import annotations

import re
from dataclasses import field
from math import inf, isfinite, nan
from typing import Final, TypeAlias

from doorward.base.records import mutable, record
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang.octets import combine
from doorward.rego.golang.strings import is_word_character

__all__ = [
    "Action",
    "Block",
    "Branch",
    "Call",
    "Command",
    "Constant",
    "Fields",
    "Function",
    "Jump",
    "Node",
    "Operand",
    "Overflow",
    "Pipeline",
    "Template",
    "Text",
    "Variable",
    "parse_template",
]

MAX_DEPTH: Final = 50
"""The most levels of nested actions, and of parentheses; more is a LimitError."""
MAX_SOURCE: Final = 1 << 16
"""The most characters of a template; more is a LimitError."""


@record
class Constant:
    """A number, string or boolean in the template, or None for nil."""

    value: int | float | str | bool | None


@record
class Overflow:
    """An integer of 64 bits without a sign, which is an error where it is evaluated."""

    text: str


@record
class Variable:
    """A variable `$name`; `$` is the data that the template was called with."""

    name: str


@record
class Function:
    """The name of a function, such as `printf`."""

    name: str


@record
class Fields:
    """Access to fields, such as `$x.a.b`: `of` is the operand before the first point; None for
    `.a.b`, which reads the dot, the present value.
    """

    of: Operand | None
    names: tuple[str, ...]


@record
class Command:
    """One command of a pipeline: an operand, or a function followed by its operands."""

    operands: tuple[Operand, ...]


@record
class Pipeline:
    """Commands, each of which gets the result of the one before as its last operand. `variables`
    are set to the result: declared with `:=`, or changed (`assigns`) with `=`.
    """

    commands: tuple[Command, ...]
    variables: tuple[str, ...] = ()
    assigns: bool = False


Operand: TypeAlias = Constant | Overflow | Variable | Function | Fields | Pipeline


@record
class Text:
    """Text outside of actions, copied to the output."""

    text: str


@record
class Action:
    """An action that is a pipeline, such as `{{.name}}`; its value is printed unless it sets
    variables.
    """

    pipeline: Pipeline


@record
class Branch:
    """An action `if`, `with` or `range`."""

    kind: str
    pipeline: Pipeline
    then: Block
    otherwise: Block


@record
class Call:
    """An action `template`, which executes the template `name` with the value of `pipeline`, None
    for nil. A `block` becomes a definition and such a call.
    """

    name: str
    pipeline: Pipeline | None


@record
class Jump:
    """An action `break` or `continue`."""

    kind: str


Node: TypeAlias = Text | Action | Branch | Call | Jump
Block: TypeAlias = tuple[Node, ...]


@mutable
class Template:
    """The main text of a template, and the templates that it defines."""

    main: Block = ()
    defined: dict[str, Block] = field(default_factory=dict)


@record
class _Token:
    """One token of an action."""

    kind: str
    text: str


_TOKEN: Final = re.compile(
    r"(?P<space>[ \t\r\n]+)"
    r"|(?P<string>\"(?:[^\"\\\n]|\\.)*\"|`[^`]*`)"
    r"|(?P<char>'(?:[^'\\\n]|\\.)+')"
    r"|(?P<number>[+-]?(?:0[xX][0-9a-fA-F_]*\.?[0-9a-fA-F_]*(?:[pP][+-]?[0-9_]*)?"
    r"|0[bB][01_]*|0[oO][0-7_]*"
    r"|(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9_]*)?))"
    r"|(?P<field>\.\w+)"
    r"|(?P<dot>\.)"
    r"|(?P<variable>\$\w*)"
    r"|(?P<word>\w+)"
    r"|(?P<mark>:=|[=|,()])"
)
_SPACES: Final = " \t\r\n"
_NAMED: Final = frozenset({"field", "variable", "word"})
_KEYWORDS: Final = frozenset(
    {"if", "range", "with", "else", "end", "define", "block", "template", "break", "continue"}
)


def _syntax_error(problem: str) -> BuiltinError:
    """Return Go's error for a template that cannot be parsed."""
    return BuiltinError(f"template: template: {problem}")


def _lex(source: str) -> list[str | list[_Token]]:
    """Split a template into its texts, perhaps empty, and the tokens of each action, in order. Trim
    markers (`{{-`, `-}}`) are applied to the texts, comments left out. BuiltinError for an action
    that is empty, not closed, or has an unknown character.
    """
    pieces: list[str | list[_Token]] = []
    at = 0
    trim = False
    while True:
        start = source.find("{{", at)
        text = source[at:] if start < 0 else source[at:start]
        if trim:
            text = text.lstrip(_SPACES)
        if start < 0:
            pieces.append(text)
            return pieces
        at = start + 2
        if source[at : at + 1] == "-" and source[at + 1 : at + 2] in set(_SPACES):
            text = text.rstrip(_SPACES)
            at += 1
        pieces.append(text)
        # A comment begins here, or behind the one space of a trim marker.
        behind = at + (source[at - 1] == "-")
        tokens, at, trim = _comment(source, behind) or _action(source, at)
        if tokens:
            pieces.append(tokens)


def _comment(source: str, at: int) -> tuple[list[_Token], int, bool] | None:
    """Read a comment in an action at `at`; None if there is none. Return [] for its tokens, the
    offset after it, and True if white space after it is to be trimmed. BuiltinError if it is not
    closed.
    """
    if not source.startswith("/*", at):
        return None
    end = source.find("*/", at + 2)
    closing = re.compile(r"(?:[ \t\r\n](-))?\}\}").match(source, end + 2) if end >= 0 else None
    if not closing:
        raise _syntax_error("unclosed comment")
    return [], closing.end(), closing[1] is not None


def _action(source: str, at: int) -> tuple[list[_Token], int, bool]:
    """Read the tokens of an action from `at`, behind its `{{`, to its `}}`. Return them with their
    spaces, the offset behind the `}}`, and True if it is `-}}`, which trims the white space behind
    it. BuiltinError if it is empty, not closed, or has a character that no token has.
    """
    tokens: list[_Token] = []
    while True:
        trimmed = source[at : at + 1] in set(_SPACES) and source.startswith("-}}", at + 1)
        if trimmed or source.startswith("}}", at):
            if all(token.kind == "space" for token in tokens):
                raise _syntax_error("missing value for command")
            return tokens, at + (4 if trimmed else 2), trimmed
        match = _TOKEN.match(source, at)
        if not match:
            raise _syntax_error("unclosed action" if at >= len(source) else "unexpected character")
        if match.lastgroup in _NAMED and not all(
            map(is_word_character, match.group().lstrip(".$"))
        ):
            raise _syntax_error("bad character")
        at = match.end()
        if match.lastgroup == "space" and source.startswith("-}}", at):
            at -= 1  # the last space belongs to the trim marker
        tokens.append(_Token(match.lastgroup or "", match.group()))


def parse_template(source: str) -> Template:
    """Parse a template. BuiltinError, in Go's words, if it is invalid; LimitError if it is too long
    or nested too deeply.
    """
    if len(source) > MAX_SOURCE:
        raise LimitError(f"template is longer than {MAX_SOURCE} characters")
    parser = _Parser(_lex(source))
    parser.template.main, _ = parser.block(frozenset(), 0, loops=0, top=True)
    return parser.template


class _Parser:
    """Parses the pieces of `_lex`; `variables` are the names in scope, `template` collects the
    definitions. Its methods raise BuiltinError, in Go's words, for invalid syntax.
    """

    def __init__(self, pieces: list[str | list[_Token]]) -> None:
        self.pieces = pieces
        self.position = 0
        self.template = Template()
        self.variables: list[str] = ["$"]

    def block(
        self, ends: frozenset[str], depth: int, *, loops: int, top: bool = False
    ) -> tuple[Block, list[_Token]]:
        """Parse nodes up to an action that begins with one of `ends`. Return them and that action's
        tokens, [] at the end of the template. `loops` is the number of `range` around them; `top`
        allows `define`. BuiltinError for invalid syntax and if the template ends before one of
        `ends`; LimitError if `depth` is above `MAX_DEPTH`.
        """
        if depth > MAX_DEPTH:
            raise LimitError(f"template is nested more than {MAX_DEPTH} deep")
        nodes: list[Node] = []
        while self.position < len(self.pieces):
            piece = self.pieces[self.position]
            self.position += 1
            if isinstance(piece, str):
                if piece:
                    nodes.append(Text(piece))
                continue
            tokens = _strip(piece)
            word = tokens[0].text if tokens[0].kind == "word" else ""
            if word in ends:
                return tuple(nodes), tokens
            node = self.action(word, tokens, depth, loops=loops, top=top)
            if node is not None:
                nodes.append(node)
        if ends:
            raise _syntax_error("unexpected EOF")
        return tuple(nodes), []

    def action(
        self, word: str, tokens: list[_Token], depth: int, *, loops: int, top: bool
    ) -> Node | None:
        """Return the node of the action whose first token is `word`, with the block up to its `end`
        for one that has a block; None for `define`, which is recorded in `template`, as is the
        template of a `block`. `loops` is the number of `range` around it, `depth` that of blocks;
        `top` allows `define`. BuiltinError if its syntax is invalid, or if it is not allowed here,
        such as `break` outside of `range`, `else` or `end`.
        """
        if word not in _KEYWORDS:
            return Action(self.pipeline(tokens))
        if word in {"if", "with", "range"}:
            return self.branch(word, tokens[1:], depth, loops=loops + (word == "range"))
        if word in {"break", "continue"}:
            if not loops:
                raise _syntax_error(f"{{{{{word}}}}} outside {{{{range}}}}")
            if len(tokens) > 1:
                raise _syntax_error(f"unexpected token in {{{{{word}}}}}")
            return Jump(word)
        if word == "template" or word == "block":
            name, rest = _name(tokens)
            call = Call(name, self.pipeline(rest) if rest else None)
            if word == "block":
                if not rest:
                    raise _syntax_error("missing value for block clause")
                self.define(name, depth)
            return call
        if word == "define" and top:
            name, rest = _name(tokens)
            if rest:
                raise _syntax_error("unexpected token in define clause")
            self.define(name, depth)
            return None
        raise _syntax_error(f"unexpected {{{{{word}}}}}")

    def define(self, name: str, depth: int) -> None:
        """Parse the body of `define` or `block` up to its `end`, with no variables but `$`, and
        store it in `template` under the name. A body without text never replaces another.
        BuiltinError for two with text, or if it is invalid.
        """
        outer, self.variables = self.variables, ["$"]
        body, end = self.block(frozenset({"end"}), depth + 1, loops=0)
        self.variables = outer
        _check_end(end)
        known = self.template.defined.get(name)
        if known and _has_text(known) and _has_text(body):
            raise _syntax_error(f"multiple definition of template {name}")
        if not known or _has_text(body):
            self.template.defined[name] = body

    def branch(self, kind: str, tokens: list[_Token], depth: int, *, loops: int) -> Branch:
        """Parse `if`, `with` or `range` (`kind`), from the `tokens` behind that word on, with its
        `else`, up to and including `end`. Variables declared in it go out of scope. `loops` counts
        the `range` around its body, itself included; `depth` the blocks around it.
        """
        scope = len(self.variables)
        pipeline = self.pipeline(_strip(tokens), ranges=kind == "range")
        then, end = self.block(frozenset({"else", "end"}), depth + 1, loops=loops)
        otherwise: Block = ()
        outer_loops = loops - (kind == "range")
        if end[0].text == "else":
            rest = _strip(end[1:])
            # As in Go: `else if` in an `if` and `else with` in a `with`, but no `else range`.
            if rest and rest[0].text == kind and kind != "range":
                # The `end` that it reads is that of this action as well.
                nested = self.branch(kind, rest[1:], depth + 1, loops=outer_loops)
                del self.variables[scope:]
                return Branch(kind, pipeline, then, (nested,))
            if rest:
                raise _syntax_error("unexpected token in {{else}}")
            otherwise, end = self.block(frozenset({"end"}), depth + 1, loops=outer_loops)
        _check_end(end)
        del self.variables[scope:]
        return Branch(kind, pipeline, then, otherwise)

    def pipeline(self, tokens: list[_Token], *, ranges: bool = False, depth: int = 0) -> Pipeline:
        """[ variables ( ":=" | "=" ) ] command { "|" command }

        Declared variables are in scope from here on. `ranges` allows two variables. BuiltinError
        for an unknown variable, or for a constant that a value is piped into; LimitError if
        `depth`, the number of parentheses around it, is above `MAX_DEPTH`.
        """
        if depth > MAX_DEPTH:
            raise LimitError(f"template is nested more than {MAX_DEPTH} deep")
        names, sign, rest = _declaration(tokens, ranges=ranges)
        # Also those that are only assigned, and in the commands: that a variable has no value is an
        # error when it is executed.
        self.variables += names
        commands = tuple(self.command(part, depth) for part in _split(rest))
        for position, command in enumerate(commands):
            if position and isinstance(command.operands[0], (Constant, Overflow)):
                raise _syntax_error("non executable command in pipeline")
        return Pipeline(commands, tuple(names), assigns=sign == "=")

    def command(self, tokens: list[_Token], depth: int) -> Command:
        """operand { operand }

        Parse all `tokens`, in which spaces separate the operands and may also be at both ends;
        `depth` is that of the parentheses around. BuiltinError if there is no operand, one is
        invalid, or two are not separated.
        """
        operands: list[Operand] = []
        tokens = _strip(tokens)
        at = 0
        while at < len(tokens):
            if tokens[at].kind == "space":
                at += 1
                continue
            if at and operands and tokens[at - 1].kind != "space":
                raise _syntax_error(f"unexpected {tokens[at].text} in operand")
            operand, at = self.operand(tokens, at, depth)
            operands.append(operand)
        if not operands:
            raise _syntax_error("missing value for command")
        return Command(tuple(operands))

    def operand(self, tokens: list[_Token], at: int, depth: int) -> tuple[Operand, int]:
        """Parse the operand at position `at` of `tokens`, a pipeline in parentheses (nested `depth`
        deep so far) or a single token, with the fields behind it (`.a.b`); return it and the
        position behind it. BuiltinError if it is invalid, such as a constant with fields, or nested
        too deeply.
        """
        token = tokens[at]
        operand: Operand
        if token.text == "(":
            end = _closing(tokens, at)
            operand = self.pipeline(_strip(tokens[at + 1 : end]), depth=depth + 1)
            at = end
        elif token.kind == "field":
            operand = Fields(None, (token.text[1:],))
        else:
            operand = self.term(token)
        at += 1
        names: list[str] = []
        while at < len(tokens) and tokens[at].kind == "field":
            names.append(tokens[at].text[1:])
            at += 1
        if names:
            if isinstance(operand, (Constant, Overflow)) or operand == Fields(None, ()):
                raise _syntax_error("unexpected . after term")
            if isinstance(operand, Fields) and operand.of is None:
                operand = Fields(None, (*operand.names, *names))
            else:
                operand = Fields(operand, tuple(names))
        return operand, at

    def term(self, token: _Token) -> Operand:
        """Return the operand that a single token stands for: `.`, a variable in scope, `true`,
        `false`, `nil`, a function, a number, a character or a string. BuiltinError for an unknown
        variable or function, an invalid literal, or another token.
        """
        match token.kind:
            case "dot":
                return Fields(None, ())
            case "variable":
                if token.text not in self.variables:
                    raise _syntax_error(f"undefined variable {token.text}")
                return Variable(token.text)
            case "word":
                if token.text in {"true", "false"}:
                    return Constant(token.text == "true")
                if token.text == "nil":
                    return Constant(None)
                if token.text not in _FUNCTIONS:
                    raise _syntax_error(f"function {token.text} not defined")
                return Function(token.text)
            case "number":
                return _number(token.text)
            case "char":
                return Constant(_character(token.text))
            case "string":
                return Constant(_unquote(token.text))
        raise _syntax_error(f"unexpected {token.text} in operand")


_FUNCTIONS: Final = frozenset(
    [
        "and",
        "or",
        "not",
        "len",
        "index",
        "slice",
        "print",
        "printf",
        "println",
        "html",
        "js",
        "urlquery",
        "call",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
    ]
)


def _strip(tokens: list[_Token]) -> list[_Token]:
    """Return the tokens without spaces at both ends."""
    start, end = 0, len(tokens)
    while start < end and tokens[start].kind == "space":
        start += 1
    while end > start and tokens[end - 1].kind == "space":
        end -= 1
    return tokens[start:end]


def _name(tokens: list[_Token]) -> tuple[str, list[_Token]]:
    """Return the quoted name after a keyword such as `define`, and the tokens after it;
    BuiltinError if there is none.
    """
    rest = _strip(tokens[1:])
    if not rest or rest[0].kind != "string":
        raise _syntax_error(f"missing name in {{{{{tokens[0].text}}}}} clause")
    return _unquote(rest[0].text), _strip(rest[1:])


def _check_end(tokens: list[_Token]) -> None:
    """Raise BuiltinError if anything follows the word `end`."""
    if len(tokens) != 1:
        raise _syntax_error("unexpected token in end")


def _has_text(block: Block) -> bool:
    """Return True if the block does anything: it has a node other than blank text."""
    return any(not isinstance(node, Text) or node.text.strip() for node in block)


def _declaration(tokens: list[_Token], *, ranges: bool) -> tuple[list[str], str, list[_Token]]:
    """Return the variables that a pipeline sets, its `:=` or `=`, and the tokens after that; [] and
    "" and all tokens if it sets none. `ranges`: there may be two variables.
    """
    words = [token for token in tokens if token.kind != "space"]
    count = 0
    if len(words) > 1 and words[0].kind == "variable":
        if words[1].text in {":=", "="}:
            count = 1
        elif ranges and len(words) > 3 and words[1].text == "," and words[2].kind == "variable":
            count = 2 if words[3].text in {":=", "="} else 0
    if not count:
        return [], "", tokens
    sign = words[2 * count - 1]
    names = [word.text for word in words[: 2 * count - 1 : 2]]
    return names, sign.text, _strip(tokens[tokens.index(sign) + 1 :])


def _split(tokens: list[_Token]) -> list[list[_Token]]:
    """Split tokens at the pipes that are not in parentheses; the pipes are left out, so n of them
    give n + 1 lists, of which some may be empty.
    """
    parts: list[list[_Token]] = [[]]
    level = 0
    for token in tokens:
        level += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "mark" else 0
        if token.kind == "mark" and token.text == "|" and level == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _closing(tokens: list[_Token], at: int) -> int:
    """Return the position of the token that closes the parenthesis at `at`; BuiltinError if there
    is none.
    """
    level = 0
    for position in range(at, len(tokens)):
        if tokens[position].kind == "mark":
            level += {"(": 1, ")": -1}.get(tokens[position].text, 0)
            if level == 0:
                return position
    raise _syntax_error("unclosed left paren")


_DECIMALS: Final = "[0-9](?:_?[0-9])*"
_HEX_DIGITS: Final = "[0-9a-fA-F](?:_?[0-9a-fA-F])*"
_INTEGER: Final = re.compile(
    rf"[+-]?(?:0[xX]_?{_HEX_DIGITS}|0[bB](?:_?[01])+|0[oO](?:_?[0-7])+|(?P<octal>0(?:_?[0-7])+)"
    r"|0|[1-9](?:_?[0-9])*)"
)
_FLOAT: Final = re.compile(
    rf"[+-]?(?:{_DECIMALS}(?:\.(?:{_DECIMALS})?)?|\.{_DECIMALS})(?:[eE][+-]?{_DECIMALS})?"
)
_HEX_FLOAT: Final = re.compile(
    rf"[+-]?0[xX](?:_?{_HEX_DIGITS}(?:\.(?:{_HEX_DIGITS})?)?|\.{_HEX_DIGITS})[pP][+-]?{_DECIMALS}"
)


def _number(text: str) -> Constant | Overflow:
    """Parse a number in Go's notation: an integer of 64 bits in base 2, 8, 10 or 16, or a float; an
    `Overflow` for an integer that fits 64 bits only without a sign. BuiltinError if it is invalid,
    out of range or too long.
    """
    if len(text) > 400:
        raise _syntax_error("bad number syntax")
    match = _INTEGER.fullmatch(text)
    if match:
        integer = int(text.replace("_", ""), 8 if match["octal"] else 0)
        if -(1 << 63) <= integer < 1 << 63:
            return Constant(integer)
        if integer < 1 << 64 and text[0] not in "+-":
            return Overflow(text)
        raise _syntax_error(f'integer overflow: "{text}"')
    if not (set(text) & set(".eEpP") and isfinite(number := _float(text))):
        raise _syntax_error(f'illegal number syntax: "{text}"')
    return Constant(number)


def _float(text: str) -> float:
    """Parse a decimal or hexadecimal float; NaN if it is invalid, infinity if it is too large."""
    plain = text.replace("_", "")
    if _FLOAT.fullmatch(text):
        return float(plain)
    try:
        return float.fromhex(plain) if _HEX_FLOAT.fullmatch(text) else nan
    except OverflowError:
        return inf


_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\\'\"])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|.)",
    re.DOTALL,
)
_SIMPLE: Final = dict(zip("abfnrtv\\'\"", "\a\b\f\n\r\t\v\\'\"", strict=True))


def _unquote(text: str) -> str:
    """Return the text of a string in quotes, its escapes replaced, or in backquotes; BuiltinError
    for an invalid escape.
    """
    if text.startswith("`"):
        return text[1:-1]
    return combine(_ESCAPE.sub(_unescape, text[1:-1]))


def _unescape(match: re.Match[str]) -> str:
    """Return the character, or the byte as a lone surrogate, for an escape sequence in a string;
    BuiltinError for an invalid one.
    """
    code = _code(match, '"')
    is_byte = code >= 0x80 and (match[2] or match[5])
    return chr(0xDC00 + code if is_byte else code)


def _character(text: str) -> int:
    """Return the code of the character in a constant such as `'a'`, given with its quotes;
    BuiltinError for none or several, or an invalid escape.
    """
    inner = text[1:-1]
    match = _ESCAPE.fullmatch(inner)
    if match:
        return _code(match, "'")
    if len(inner) != 1:
        raise _syntax_error(f"malformed character constant: {text}")
    return ord(inner)


def _code(match: re.Match[str], mark: str) -> int:
    """Return the code of the character or byte that an escape sequence, matched by the pattern for
    them, stands for. Of the quotation marks only `mark`, the one around the text, may be escaped.
    BuiltinError for an unknown sequence, a code that is not a character, or an octal one above 255.
    """
    simple, byte, short, long, octal = match.groups()
    if simple and simple not in {"'", '"'} - {mark}:
        return ord(_SIMPLE[simple])
    digits = byte or short or long
    if digits is None and octal is None:
        raise _syntax_error("invalid syntax in string")
    code = int(digits, 16) if digits else int(octal, 8)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000 or (octal and code > 0xFF):
        raise _syntax_error("invalid syntax in string")
    return code
