"""The interface between the parts of the grammar.

Terms contain bodies (comprehensions) and bodies contain terms: each part knows the others by these
productions only, so that it can be tested with a plain replacement. Each production returns None
after recording an error at the cursor.
"""

from __future__ import annotations

from typing import Protocol

from doorward.rego.syntax.nodes import Body, Expr, Term
from doorward.rego.syntax.parser.cursor import State

__all__ = ["BodyProductions", "TermProductions"]


class TermProductions(Protocol):
    """The grammar productions of terms."""

    def parse_term(self) -> Term | None:
        """Parse a term without infix operators around it; the cursor is then at the token after it.
        None after recording an error.
        """

    def parse_infix(self, *, key_value: bool = True) -> Term | None:
        """Parse a term with its infix operators. `key_value` False: a comma never belongs to `k, v
        in xs`. An error in a right operand is recorded, and the term before it returned. None after
        recording another error.
        """

    def remember_infix(self, term: Term, before: State) -> None:
        """Keep `term` for a later `parse_infix` at the same place: it was parsed from the state
        `before` to the present one without an error, and no comma follows.
        """

    def continue_infix(self, first: Term, start: int, *, key_value: bool = True) -> Term:
        """Parse the infix operators after the term `first`, which begins at offset `start`; return
        the whole, or `first` if there are none. `key_value` False: a comma never belongs to `in`.
        An error in a right operand is recorded, and the term before it returned.
        """

    def parse_list(self, end: str, items: list[Term]) -> list[Term] | None:
        """Append the terms up to `end`, separated by commas, to `items`, and return it with the
        cursor at `end`. None after recording an error.
        """


class BodyProductions(Protocol):
    """The grammar productions of bodies."""

    def parse_body(self, end: str) -> Body | None:
        """Parse the expressions up to `end`, where the cursor is then. None after recording an
        error.
        """

    def parse_literal(self) -> Expr | None:
        """Parse one expression with its `with` modifiers. None after recording an error."""

    def forget(self) -> None:
        """Drop the results of bodies and terms that are kept for backtracking."""
