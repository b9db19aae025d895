"""The interface between the parts of the grammar.

Terms hold bodies (comprehensions) and bodies hold terms: each part knows the others by these
productions only, so that it can be tested with a plain replacement. Each production returns None
after noting an error at the cursor.
"""

from __future__ import annotations

from typing import Protocol

from doorward.rego.syntax.nodes import Body, Expr, Term

__all__ = ["BodyProductions", "TermProductions"]


class TermProductions(Protocol):
    """The grammar productions of terms."""

    def parse_term(self) -> Term | None:
        """A term without infix operators around it."""

    def parse_infix(self, *, key_value: bool = True) -> Term | None:
        """A term with its infix operators."""

    def continue_infix(self, first: Term, start: int, *, key_value: bool = True) -> Term:
        """The same, where its first term, at offset `start`, was read already."""

    def parse_list(self, end: str, items: list[Term]) -> list[Term] | None:
        """`items` and the terms up to `end`, between commas."""


class BodyProductions(Protocol):
    """The grammar productions of bodies."""

    def parse_body(self, end: str) -> Body | None:
        """The expressions up to `end`."""

    def parse_literal(self) -> Expr | None:
        """One expression with its `with` clauses."""

    def forget(self) -> None:
        """Drop what was kept of bodies and terms for going back."""
