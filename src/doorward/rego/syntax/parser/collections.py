"""Arrays, sets and objects, and the comprehensions that begin like them."""

from __future__ import annotations

from doorward.rego.syntax.nodes import (
    Array,
    ArrayComprehension,
    Object,
    ObjectComprehension,
    Set,
    SetComprehension,
    Term,
)
from doorward.rego.syntax.parser.cursor import Cursor
from doorward.rego.syntax.parser.productions import BodyProductions, TermProductions

__all__ = ["Collections"]


class Collections:
    """The grammar productions of composite values. Each leaves the cursor at the closing bracket,
    and returns None after recording an error.
    """

    def __init__(self, cursor: Cursor, terms: TermProductions, bodies: BodyProductions) -> None:
        self.cursor = cursor
        self.terms = terms
        self.bodies = bodies

    def parse_array(self) -> Term | None:
        """array = "[" [ "," ] terms "]" array-comprehension = "[" term "|" body "]"

        The cursor must be at the `[`, and is left at the `]`. What cannot be read as a
        comprehension is read as an array with a union in it. None after recording an error.
        """
        cursor, terms = self.cursor, self.terms
        start = cursor.token.start
        cursor.scan()
        if cursor.kind == "]":
            return Array((), cursor.through(start))
        may_be_comprehension = self._skip_comma()
        state = cursor.save()
        first = cursor.token.start
        # One term only: `[1 | 1]` is a comprehension, not a union.
        head = terms.parse_term()
        if head is None:
            return None
        items: list[Term] = []
        if cursor.kind == "|" and may_be_comprehension:
            cursor.scan()
            body = self.bodies.parse_body("]")
            if body is not None:
                return ArrayComprehension(head, body, cursor.through(start))
            if cursor.kind != ",":
                return None
            cursor.restore(state)
        else:
            items.append(terms.continue_infix(head, first, key_value=False))
            if not self._next_item("]"):
                return None
        items_of_array = terms.parse_list("]", items)
        return (
            None if items_of_array is None else Array(tuple(items_of_array), cursor.through(start))
        )

    def _skip_comma(self) -> bool:
        """Move past a leading comma, which OPA allows in a collection, if there is one. Return True
        if there was none, so that a comprehension is possible.
        """
        if self.cursor.kind != ",":
            return True
        self.cursor.scan()
        return False

    def parse_braces(self) -> Term | None:
        """set = "{" [ "," ] terms "}"
          object = "{" [ "," ] pairs "}"
          set-comprehension = "{" term "|" body "}"
          object-comprehension = "{" term-infix ":" term "|" body "}"

        `{}` is an object. Leaves the cursor at the `}`. None after recording an error.
        """
        cursor = self.cursor
        start = cursor.token.start
        cursor.scan()
        if cursor.kind == "}":
            return Object((), cursor.through(start))
        may_be_comprehension = self._skip_comma()
        state = cursor.save()
        first = cursor.token.start
        # As for arrays, one term only first: `{a | b}` is a comprehension.
        head = self.terms.parse_term()
        if head is None:
            return None
        if cursor.kind == "|" and may_be_comprehension:
            cursor.scan()
            body = self.bodies.parse_body("}")
            if body is not None:
                return SetComprehension(head, body, cursor.through(start))
            if cursor.kind != ",":
                return None
            cursor.restore(state)
            return self._parse_set(start, [])
        if cursor.kind not in ("}", ",", ":"):
            head = self.terms.continue_infix(head, first, key_value=False)
        if cursor.kind == ":":
            return self._parse_object(start, head, may_be_comprehension=may_be_comprehension)
        if cursor.kind in ("}", ","):
            if cursor.kind == ",":
                cursor.scan()
            return self._parse_set(start, [head])
        if len(cursor.errors) == state[3]:
            # The braces of a rule are a body, whose first expression begins with this term.
            self.terms.remember_infix(head, state)
        cursor.illegal("non-terminated set")
        return None

    def _parse_set(self, start: int, items: list[Term]) -> Term | None:
        """Parse what follows the first `items` of a set that begins at offset `start`; return the
        set, with the cursor at the `}`. None after recording an error.
        """
        terms = self.terms.parse_list("}", items)
        return None if terms is None else Set(tuple(terms), self.cursor.through(start))

    def _parse_object(self, start: int, key: Term, *, may_be_comprehension: bool) -> Term | None:
        """object = "{" key ":" value … "}" or object-comprehension

        Parses from the `:` after the first key on; `start` is the offset of the brace. Leaves the
        cursor at the `}`. Without `may_be_comprehension`, a `|` is an operator. None after
        recording an error.
        """
        cursor = self.cursor
        cursor.scan()
        state = cursor.save()
        first = cursor.token.start
        value = self.terms.parse_term()
        if value is None:
            return None
        if may_be_comprehension and cursor.kind == "|":
            cursor.scan()
            body = self.bodies.parse_body("}")
            if body is not None:
                return ObjectComprehension(key, value, body, cursor.through(start))
            cursor.restore(state)
            value = self.terms.parse_infix(key_value=False)
            assert value is not None, "its first term was read before"
        elif may_be_comprehension and cursor.kind in ("}", ","):
            # As in OPA, this error stands for those in the pairs, which `restore` drops.
            pairs = self._parse_pairs(start, (key, value))
            if pairs is None:
                cursor.restore(state)
                cursor.illegal("non-terminated object")
            return pairs
        else:
            value = self.terms.continue_infix(value, first, key_value=False)
        if cursor.kind not in ("}", ","):
            cursor.illegal("non-terminated object")
            return None
        return self._parse_pairs(start, (key, value))

    def _parse_pairs(self, start: int, first: tuple[Term, Term]) -> Object | None:
        """pairs = term-infix ":" term-infix { "," term-infix ":" term-infix } [ "," ]

        Parses what follows the pair `first`; returns the object with the cursor at the `}`. None
        after recording an error.
        """
        cursor, terms = self.cursor, self.terms
        pairs = [first]
        while True:
            if not self._next_item("}"):
                return None
            if cursor.kind == "}":
                return Object(tuple(pairs), cursor.through(start))
            key = terms.parse_infix(key_value=False)
            if key is None:
                return None
            if cursor.kind != ":":
                cursor.illegal('expected ":"')
                return None
            cursor.scan()
            value = terms.parse_infix(key_value=False)
            if value is None:
                return None
            pairs.append((key, value))

    def _next_item(self, end: str) -> bool:
        """Skip `,` between items, or stay at `end`; True then. False after recording an error for
        other tokens.
        """
        cursor = self.cursor
        if cursor.kind == ",":
            cursor.scan()
        elif cursor.kind != end:
            cursor.illegal(f'expected "," or "{end}"')
            return False
        return True
