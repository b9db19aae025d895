"""Heads of rules: the name, the parameters, and the key or value behind it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from doorward.base.records import replace
from doorward.rego.source import Span
from doorward.rego.syntax.lexer import WHITESPACE
from doorward.rego.syntax.nodes import (
    ArrayComprehension,
    Call,
    Head,
    ObjectComprehension,
    Ref,
    Set,
    SetComprehension,
    Term,
    Var,
)
from doorward.rego.syntax.parser.cursor import Cursor
from doorward.rego.syntax.parser.drafts import Draft
from doorward.rego.syntax.parser.names import value_name
from doorward.rego.syntax.parser.productions import TermProductions
from doorward.rego.syntax.parser.references import SUFFIXES, parse_ref
from doorward.rego.syntax.parser.terms import parse_var
from doorward.rego.syntax.walk import Node, children

__all__ = ["check_default", "head_of", "parse_head", "with_own_wildcards"]

_BINARY: Final = frozenset({"+", "-", "*", "/", "%", "&", "|", "==", "!=", ">", ">=", "<", "<="})
_CLOSURES: Final = (ArrayComprehension, SetComprehension, ObjectComprehension)


def parse_head(cursor: Cursor, terms: TermProductions, *, default: bool) -> Draft | None:
    """head = ref [ "(" [ terms ] ")" ] [ "contains" term-infix | ( ":=" | "=" ) term-infix ]

    None if no head begins here; usually an error is recorded then, but not where the text may still
    be an expression (`f().a`). Errors in key or value are recorded too, and the draft is returned.
    """
    start = cursor.token.start
    term = _parse_name(cursor, terms)
    if term is None:
        cursor.illegal("expected rule head name")
        return None
    head = head_of(term)
    if head is None:
        # `f().a` is read once more, as an expression.
        if not isinstance(term, Set) and (default or not isinstance(term, Ref)):
            cursor.error(f"rule head ref {term.span.text} invalid", term.span)
        return None
    draft = Draft(head, cursor.here(), default=default)
    if cursor.kind == "contains":
        draft.has_contains = True
        head = _parse_key(cursor, terms, head)
    elif cursor.kind in (":=", "="):
        head = _parse_value(cursor, terms, head, default=default)
    if head.value is None and head.key is None:
        draft.wrote_value = len(head.ref.args) == 1 and not head.args
    draft.head = replace(head, span=cursor.since(start))
    return draft


def _parse_name(cursor: Cursor, terms: TermProductions) -> Term | None:
    """name = var | ref

    Leaves the cursor after the variable, or after the reference or call that begins with one. An
    operator after the variable is recorded as an error, and the variable is returned. None after
    recording another error.
    """
    start = cursor.token.start
    name = parse_var(cursor)
    cursor.scan_blank()
    if cursor.kind in _BINARY:
        cursor.illegal()
    elif cursor.kind == WHITESPACE:
        cursor.scan()
    if cursor.kind in SUFFIXES:
        return parse_ref(cursor, terms, name, start)
    return name


def _parse_key(cursor: Cursor, terms: TermProductions, head: Head) -> Head:
    """key = "contains" term-infix

    Returns the head with its key. For a function or a missing term an error is recorded as well.
    """
    name = head.ref.span.text
    if head.args is not None:
        cursor.illegal(
            "the contains keyword can only be used with multi-value rule definitions "
            f"(e.g., {name} contains <VALUE> {{ ... }})"
        )
    cursor.scan()
    key = terms.parse_infix()
    if key is None:
        cursor.illegal(f"expected rule key term (e.g., {name} contains <VALUE> {{ ... }})")
    return replace(head, key=key)


def _parse_value(cursor: Cursor, terms: TermProductions, head: Head, *, default: bool) -> Head:
    """value = ( ":=" | "=" ) term-infix

    Returns the head with its value. For a missing term an error is recorded, in other words for a
    `default` rule, and the value is None.
    """
    assign = cursor.kind == ":="
    cursor.scan()
    value = terms.parse_infix()
    if value is None:
        name = head.ref.span.text
        cursor.illegal(_value_error(name, head, assign=assign, default=default))
    return replace(head, value=value, assign=assign)


def _value_error(name: str, head: Head, *, assign: bool, default: bool) -> str:
    """Return OPA's message for a head whose value, after `:=` (`assign`) or `=`, is missing;
    `default`: the head of a default rule.
    """
    if not assign:
        return f"expected rule value term (e.g., {name}[<nil>] = <VALUE> {{ ... }})"
    if head.args:
        return f"expected function value term (e.g., {name}(...) := <VALUE> {{ ... }})"
    if default:
        return f"expected default rule value term (e.g., default {name} := <VALUE>)"
    return f"expected rule value term (e.g., {name} := <VALUE> {{ ... }})"


def head_of(term: Term) -> Head | None:
    """Return the head that a term means: a name, a reference from a name, or a function call; None
    for other terms.
    """
    match term:
        case Var():
            return Head(Ref(term, (), term.span), span=term.span)
        case Ref(head=Var()):
            return Head(term, span=term.span)
        case Call(operator=Ref(head=Var())):
            return Head(term.operator, term.args, span=term.span)
        case _:
            return None


def with_own_wildcards(cursor: Cursor, head: Head) -> Head:
    """Return the head for another body of the same rule; each parameter `_` becomes a new variable,
    a `_` inside a parameter does not.
    """
    if not head.args:
        return head
    args = tuple(
        [
            Var(cursor.wildcard(), a.span) if isinstance(a, Var) and a.is_wildcard else a
            for a in head.args
        ]
    )
    return replace(head, args=args)


def check_default(cursor: Cursor, draft: Draft, span: Span) -> bool:
    """Return True if the value of a default rule has no variables, references and calls outside of
    comprehensions, and its parameters are different variables. Otherwise record errors at `span`
    and return False: one for each fault, or one alone for `p[x]` or `p contains x` without a value
    (other heads without a value mean true).
    """
    head = draft.head
    if head.value is None and draft.wrote_value:
        cursor.error("illegal default rule (must have a value)", span)
        return False
    names = () if head.value is None else _names_in(head.value)
    # As in OPA, a comprehension may be the value of a default (`_names_in` does not look into it).
    faults = [f"value cannot contain {value_name(t)}" for t in names]
    seen: set[str] = set()
    for arg in head.args or ():
        if not isinstance(arg, Var):
            faults.append(f"arguments cannot contain {value_name(arg)}")
        elif arg.name in seen:
            faults.append(f"arguments cannot be repeated {arg.name}")
        else:
            seen.add(arg.name)
    for fault in faults:
        cursor.error(f"illegal default rule ({fault})", span)
    return not faults


def _names_in(node: Node) -> Iterator[Term]:
    """Yield the variables, references and calls in a term, but not those inside them or in
    comprehensions.
    """
    if isinstance(node, Var | Ref | Call):
        yield node
    elif not isinstance(node, _CLOSURES):
        for child in children(node):
            yield from _names_in(child)
