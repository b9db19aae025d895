"""Recorded calls of built-ins, answered without the engine: the built-ins alone are on trial.

Most recorded queries are one call, `x := f(input[0], {1, 2})`, or one operation, `x := a % b`.
`parse_call` reads those, and nothing else of Rego: anything more is the engine's business.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from doorward.rego.builtins import REGISTRY, Context, Environment
from doorward.rego.errors import BuiltinError
from doorward.rego.json_text import from_json
from doorward.rego.numbers import parse_number
from doorward.rego.values import UNDEFINED, Undefined, Value, make_object, make_set

__all__ = ["Call", "NotACall", "invoke", "parse_call"]

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<string>\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[a-z_][\w.]*)"
    r"|(?P<mark>:=|==|!=|<=|>=|[-+*/%<>&|\[\](){},:]))",
    re.ASCII,
)
_INFIX: Final = {
    "+": "plus",
    "-": "minus",
    "*": "mul",
    "/": "div",
    "%": "rem",
    "==": "equal",
    "!=": "neq",
    "<": "lt",
    "<=": "lte",
    ">": "gt",
    ">=": "gte",
    "&": "and",
    "|": "or",
    "in": "internal.member_2",
}


def invoke(name: str, *operands: Value, context: Context | None = None) -> Any:
    """What the built-in gives, in a decision of its own if no `context` is given."""
    declared = REGISTRY[name]
    if not declared.context:
        return declared.call(*operands)
    return declared.call(context or Context(Environment()), *operands)


class NotACall(Exception):
    """The query is not of the shape that is read here."""


@dataclass(frozen=True)
class Call:
    """`name` with its operands: values, `("input", n)`, or calls again."""

    name: str
    operands: tuple[Any, ...]

    @property
    def is_declared(self) -> bool:
        """True if it, and each call in its operands, is of a built-in with so many operands."""
        inner = [call for operand in self.operands for call in _calls(operand)]
        return (
            self.name in REGISTRY
            and len(self.operands) == len(REGISTRY[self.name].signature.args)
            and all(call.is_declared for call in inner)
        )

    def answer(self, input_: Value, context: Context | None = None) -> Value | Undefined:
        """What the built-in says; undefined where an operand is. BuiltinError carries the name."""
        context = context or Context(Environment(), now_ns=0)
        values = [_value(operand, input_, context) for operand in self.operands]
        if any(value is UNDEFINED for value in values):
            return UNDEFINED
        if self.name not in REGISTRY:
            raise NotACall(self.name)
        declared = REGISTRY[self.name]
        if len(values) != len(declared.signature.args):
            raise NotACall(self.name)
        operands = [context, *values] if declared.context else values
        try:
            return declared.call(*operands)  # type: ignore[no-any-return] # `call` returns Any
        except BuiltinError as error:
            named = type(error)(f"{self.name}: {error}")
            raise named from None


@dataclass(frozen=True)
class _Input:
    index: int | None


@dataclass(frozen=True)
class _Composite:
    kind: str
    items: tuple[Any, ...]


def _calls(operand: Any) -> list[Call]:
    if isinstance(operand, _Composite):
        return [call for item in operand.items for call in _calls(item)]
    return [operand] if isinstance(operand, Call) else []


def _value(operand: Any, input_: Value, context: Context) -> Any:
    if isinstance(operand, Call):
        return operand.answer(input_, context)
    if isinstance(operand, _Input):
        if operand.index is None:
            return input_
        inside = isinstance(input_, list) and operand.index < len(input_)
        return input_[operand.index] if inside else UNDEFINED  # type: ignore[index] # a list here
    if isinstance(operand, _Composite):
        items = [_value(item, input_, context) for item in operand.items]
        if operand.kind == "object":
            return make_object(zip(items[::2], items[1::2], strict=True))
        return make_set(items) if operand.kind == "set" else items
    return operand


def parse_call(query: str) -> Call:
    """The call that `x := …` makes; NotACall for any other query."""
    reader = _Reader(query)
    reader.expect("x")
    reader.expect(":=")
    term = reader.term()
    if reader.here in _INFIX:
        term = Call(_INFIX[reader.take()], (term, reader.term()))
    if not isinstance(term, Call) or reader.here:
        raise NotACall(query)
    return term


class _Reader:
    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if not match:
                raise NotACall(text)
            self.tokens.append(match.group().strip())
            position = match.end()
        self.tokens.append("")
        self.at = 0

    @property
    def here(self) -> str:
        return self.tokens[self.at]

    def take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def expect(self, token: str) -> None:
        if self.take() != token:
            raise NotACall(token)

    def until(self, end: str, *, pairs: bool = False) -> tuple[Any, ...]:
        items: list[Any] = []
        while self.here != end:
            items.append(self.term())
            if pairs and len(items) % 2:
                self.expect(":")
            elif self.here != end:
                self.expect(",")
        self.take()
        return tuple(items)

    def term(self) -> Any:
        token = self.take()
        if token[:1] == '"':
            try:
                return json.loads(token)
            except ValueError:
                raise NotACall(token) from None
        if token in {"null", "true", "false"}:
            return from_json(token)
        if token[:1].isdigit() or (token[:1] == "-" and token[1:2].isdigit()):
            return parse_number(token)
        if token == "[":
            return _Composite("array", self.until("]"))
        if token == "{":
            return self.braces()
        if token == "input":
            return self.input()
        if token == "set" and self.here == "(":
            self.take()
            self.expect(")")
            return frozenset()
        if self.here == "(" and token[:1].isalpha():
            self.take()
            return Call(token, self.until(")"))
        raise NotACall(token)

    def input(self) -> _Input:
        if self.here != "[":
            return _Input(None)
        self.take()
        index = self.take()
        self.expect("]")
        if not index.isdigit():
            raise NotACall(index)
        return _Input(int(index))

    def braces(self) -> _Composite:
        if self.here == "}":
            self.take()
            return _Composite("object", ())
        start = self.at
        self.term()
        is_object = self.here == ":"
        self.at = start
        return _Composite("object" if is_object else "set", self.until("}", pairs=is_object))
