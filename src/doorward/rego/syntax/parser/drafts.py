"""Rules while they are parsed, with how they were written, and the checks of v1 that need this."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from doorward.base.records import mutable
from doorward.rego.errors import PARSE_ERROR, Diagnostic
from doorward.rego.source import Span
from doorward.rego.syntax.keywords import KEYWORDS, V1_KEYWORDS
from doorward.rego.syntax.nodes import Body, Head, Rule

__all__ = ["Draft", "check_v1"]


@mutable
class Draft:
    """A rule while it is parsed, with details of its spelling that only the checks of v1 need;
    `elses` are its `else` branches.
    """

    head: Head
    span: Span
    body: Body = ()
    default: bool = False
    keyed: bool = False
    """True if the head's last operand is a key, so that no `else` may follow."""
    has_if: bool = False
    """True if `if` is written before the body."""
    has_contains: bool = False
    wrote_body: bool = True
    wrote_value: bool = True
    """False if neither a value nor a key is written."""
    elses: list[Draft] = field(default_factory=list)

    def build(self) -> Rule:
        """Return the finished rule, with its `else` branches as a chain."""
        following: Rule | None = None
        for draft in reversed([self, *self.elses]):
            following = Rule(draft.head, draft.body, draft.default, following, draft.span)
        assert following is not None
        return following


def check_v1(draft: Draft) -> Iterator[Diagnostic]:
    """Yield the errors, all at the span of the rule, of what v1 forbids although the grammar allows
    it: a keyword as its name, neither value nor body, a body without `if` (unless it is a default),
    a partial set without `contains`.
    """
    head = draft.head
    kind = "rule" if not head.args else "function"
    name = head.ref.span.text
    faults = []
    if not head.ref.args and name in KEYWORDS | V1_KEYWORDS:
        faults.append(f"{name} keyword cannot be used for rule name")
    if not draft.wrote_body and not draft.wrote_value and head.key is None:
        faults.append(f"{kind} must have value assignment and/or body declaration")
    if draft.wrote_body and not draft.has_if and not draft.default:
        faults.append(f"`if` keyword is required before {kind} body")
    if head.key is not None and not draft.has_contains:
        faults.append("`contains` keyword is required for partial set rules")
    return (Diagnostic(PARSE_ERROR, fault, draft.span) for fault in faults)
