"""Paths of documents that a caller names: what is unknown, and what is not to be inlined."""

from __future__ import annotations

from doorward.rego.analysis.variables import ROOTS
from doorward.rego.errors import ParseError
from doorward.rego.partial.core import Constant, Term, Var
from doorward.rego.source import Source
from doorward.rego.syntax import nodes
from doorward.rego.syntax.parser import parse_query

__all__ = ["parse_path", "path_names"]


def parse_path(text: str) -> tuple[Term, ...]:
    """Parse `input`, `data` or a path such as `input.user["a b"]` to terms: a `Var` and constants.
    ValueError for text that is not valid Rego or is another term, or a path with an operand that
    is not a scalar.
    """
    try:
        body = parse_query(Source("", text))
    except ParseError as error:
        column = error.diagnostics[0].span.col - 1
        # OPA prints the text with a caret below; control characters would break the lines.
        line = f"\n\t{text}\n\t{' ' * column}^" if text.isprintable() else ""
        raise ValueError(f"failed to parse term: {error}{line}") from None
    term = body[0].term if len(body) == 1 else None
    args: tuple[nodes.Term, ...] = ()
    if isinstance(term, nodes.Var):
        head = term
    elif isinstance(term, nodes.Ref) and isinstance(term.head, nodes.Var):
        head, args = term.head, term.args
    else:
        raise _not_a_path(text)
    constant = all(isinstance(arg, nodes.Scalar) for arg in args)
    if head.name not in ROOTS or not constant:
        raise _not_a_path(text)
    names = [Constant(arg.value) for arg in args if isinstance(arg, nodes.Scalar)]
    return (Var(head.name), *names)


def path_names(text: str) -> tuple[str, tuple[str | int, ...]]:
    """Parse a path to its root, "input" or "data", and the keys below it, () for the root alone:
    `input.a[0]` is `("input", ("a", 0))`. ValueError for other text, also for keys that are neither
    strings nor integers.
    """
    head, *operands = parse_path(text)
    assert isinstance(head, Var)
    names = [part.value for part in operands if isinstance(part, Constant)]
    if not all(type(name) is str or type(name) is int for name in names):
        raise _not_a_path(text)
    return head.name, tuple(names)  # type: ignore[arg-type]  # they are names


def _not_a_path(text: str) -> ValueError:
    return ValueError(f"`{text}` is not a path below input or data, such as input.user")
