"""The parts of the grammar, put together over one cursor."""

from __future__ import annotations

from functools import partial
from typing import Final

from doorward.rego.syntax.lexer import END, NUMBER, PART, RAW_END, RAW_PART, STRING
from doorward.rego.syntax.parser.bodies import Bodies
from doorward.rego.syntax.parser.collections import Collections
from doorward.rego.syntax.parser.cursor import Cursor
from doorward.rego.syntax.parser.literals import parse_constant, parse_number, parse_string
from doorward.rego.syntax.parser.rules import Rules
from doorward.rego.syntax.parser.templates import parse_template
from doorward.rego.syntax.parser.terms import Operand, Terms

__all__ = ["Grammar"]

_NUMBERS: Final = (NUMBER, "-", ".")
_CONSTANTS: Final = ("true", "false", "null")
_TEMPLATES: Final = (PART, END, RAW_PART, RAW_END)


class Grammar:
    """Connects the productions of terms, bodies and rules over one cursor. The table of operands is
    filled last, since terms contain collections, and collections contain terms and bodies.
    """

    def __init__(self, cursor: Cursor) -> None:
        operands: dict[str, Operand] = {
            STRING: partial(parse_string, cursor),
            **dict.fromkeys(_NUMBERS, partial(parse_number, cursor)),
            **dict.fromkeys(_CONSTANTS, partial(parse_constant, cursor)),
        }
        self.terms = Terms(cursor, operands)
        self.bodies = Bodies(cursor, self.terms)
        collections = Collections(cursor, self.terms, self.bodies)
        self.terms.add_operand("[", collections.parse_array)
        self.terms.add_operand("{", collections.parse_braces)
        for kind in _TEMPLATES:
            self.terms.add_operand(kind, partial(parse_template, cursor, self.bodies))
        self.rules = Rules(cursor, self.terms, self.bodies)
