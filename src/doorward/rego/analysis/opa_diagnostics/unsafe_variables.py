"""Unsafe variables, reported in OPA's words, where a body has no order (`safe_order`).

What template strings hold is looked at first: there a variable that nobody binds is called
undeclared. Those of `print` are checked before (`print_variables`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field

from doorward.base.records import mutable
from doorward.rego.analysis.calls import Callees
from doorward.rego.analysis.opa_diagnostics.flat_variables import all_vars, expr_vars
from doorward.rego.analysis.opa_diagnostics.flattening import FlatRule, Flattener
from doorward.rego.analysis.safe_order import Unsafe
from doorward.rego.analysis.scope import source_name
from doorward.rego.analysis.variables import ROOTS
from doorward.rego.errors import COMPILE_ERROR, UNSAFE_VAR_ERROR, Diagnostic
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import (
    And,
    Array,
    ArrayComprehension,
    Body,
    Call,
    Every,
    Expr,
    Not,
    Object,
    ObjectComprehension,
    Or,
    Set,
    SetComprehension,
    SomeDecl,
    SomeIn,
    Var,
)
from doorward.rego.syntax.walk import Node, children

__all__ = ["Findings", "first_stage", "query_errors", "rule_findings"]

_KEYWORDS = frozenset({"contains", "every", "if", "in"})

_CLOSED = (ArrayComprehension, Set, SetComprehension, ObjectComprehension)


def first_stage(findings: Iterable[Findings]) -> list[Diagnostic]:
    """Return the errors that OPA reports for all rules: undeclared variables if there are any, else
    those in heads, else those in bodies; [] if there are none.
    """
    listed = list(findings)
    for kind in ("undeclared", "heads", "bodies"):
        problems = [problem for each in listed for problem in getattr(each, kind)]
        if problems:
            return problems
    return []


def query_errors(
    body: Body, unsafe: Unsafe, flattener: Flattener, callees: Callees
) -> list[Diagnostic]:
    """Return the errors for the unsafe variables of a query; [] if it is safe. `unsafe` has the
    expressions without a safe order. Undeclared variables hide the other errors.
    """
    return _undeclared_variables(unsafe, flattener) or _report(unsafe) + _captures(
        body, unsafe, callees
    )


def _captures(body: Body, unsafe: Unsafe, callees: Callees) -> list[Diagnostic]:
    """Return an error for each expression of a query whose value OPA stores in a variable `_`, if
    the expression is unsafe: then so is `_`.
    """
    captures = []
    for expr in body:
        names = set(_open(expr)) if _has_value(expr, callees) else set()
        if any(names & lacking and _is_within(part, expr) for part, lacking in unsafe.values()):
            captures.append(_unsafe("_", expr.span))
    return captures


def _is_within(part: Expr, whole: Expr) -> bool:
    return whole.span.start <= part.span.start and part.span.end <= whole.span.end


def _open(expr: Expr) -> Iterator[str]:
    """Yield the names of the variables that OPA checks first, once for each occurrence, in no
    particular order: all except those in comprehensions, sets and object keys.
    """
    waiting: list[Node] = [expr]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Var):
            yield node.name
        elif isinstance(node, Object):
            waiting += [value for _, value in node.items]
        elif not isinstance(node, _CLOSED):
            waiting += children(node)


def _has_value(expr: Expr, callees: Callees) -> bool:
    """Return True if OPA stores the value of a query's expression: it is a term, or a call with a
    result other than `=` and `:=`, and not negated.
    """
    term = expr.term
    if expr.negated or isinstance(term, (And, Every, Not, Or, SomeDecl, SomeIn)):
        return False
    if not isinstance(term, Call):
        return True
    return term.name not in ("assign", "eq") and callees.arity(term) == len(term.args)


@mutable
class Findings:
    """The errors of one rule by OPA's stages; a stage with errors hides those of later stages."""

    undeclared: list[Diagnostic] = field(default_factory=list)
    heads: list[Diagnostic] = field(default_factory=list)
    bodies: list[Diagnostic] = field(default_factory=list)


def rule_findings(flat: FlatRule, unsafe: Unsafe, flattener: Flattener) -> Findings:
    """Return the errors for the unsafe variables of a rule by stage, all lists empty if it is safe.
    `unsafe` has the expressions without a safe order.
    """
    head = flat.head
    args = {v.name for arg in head.args or () for v in all_vars(arg)}
    known = ROOTS.union(args, (v.name for e in flat.body for v in expr_vars(e)))
    terms = [t for t in (head.key, head.value, *head.ref.args) if t is not None]
    lacking = [v for t in terms for v in all_vars(t) if v.name not in known]
    return Findings(
        _undeclared_variables(unsafe, flattener),
        _in_head(lacking),
        _report(unsafe),
    )


def _in_head(lacking: Iterable[Var]) -> list[Diagnostic]:
    """Return an error for each variable that a head lacks, at its first occurrence."""
    first: dict[str, Var] = {}
    for var in sorted(lacking, key=lambda v: (v.span.row, v.span.col)):
        first.setdefault(source_name(var.name), var)
    return [_unsafe(name, var.span) for name, var in first.items()]


def _undeclared_variables(unsafe: Unsafe, flattener: Flattener) -> list[Diagnostic]:
    """Return an error (`var x is undeclared`) for each unbound variable in a part of a template
    string, sorted by position. Left out are parts that are only a variable (`{x}`), which are
    reported as unsafe, and generated variables.
    """
    errors = []
    for expr, names in unsafe.values():
        for inner in (expr, *_inside_captures(expr)):
            span = flattener.captured.get(id(inner))
            if span is not None:
                lacking = names if inner is expr else names & {v.name for v in expr_vars(inner)}
                for name in sorted(n for n in lacking if not n.startswith("__local")):
                    message = f"var {source_name(name)} is undeclared"
                    errors.append(Diagnostic(COMPILE_ERROR, message, span))
    return sorted(errors, key=lambda error: _place(error.span))


def _inside_captures(expr: Expr) -> Iterator[Expr]:
    """Yield the expressions inside the comprehensions that capture parts of a template string."""
    if isinstance(expr.term, Array):
        for item in expr.term.items:
            if isinstance(item, SetComprehension):
                yield from item.body


def _report(unsafe: Unsafe) -> list[Diagnostic]:
    """Return one error for each unsafe variable, at the first position where it is missing. If only
    generated variables are missing, "expression is unsafe" for the expressions instead.
    """
    spans: dict[str, Span] = {}
    for expr, names in unsafe.values():
        for name in sorted(names):
            if not name.startswith("__local"):
                before = spans.get(name)
                if before is None or _place(expr.span) < _place(before):
                    spans[name] = expr.span
    if spans:
        return [_unsafe(source_name(name), span) for name, span in spans.items()]
    seen: set[str] = set()
    errors = []
    for expr, names in sorted(unsafe.values(), key=lambda item: _place(item[0].span)):
        if not names <= seen:
            seen |= names
            errors.append(Diagnostic(UNSAFE_VAR_ERROR, "expression is unsafe", expr.span))
    return errors


def _place(span: Span) -> tuple[str, int, int]:
    return span.file, span.row, span.col


def _unsafe(name: str, span: Span) -> Diagnostic:
    """Return the error for an unsafe variable, with a hint unless the name is `_`; for a keyword
    the message also has OPA's hint.
    """
    message = f"var {name} is unsafe"
    if name in _KEYWORDS:
        message += f" (hint: `import future.keywords.{name}` to import a future keyword)"
    return Diagnostic(UNSAFE_VAR_ERROR, message, span, hint=_hint(name))


def _hint(name: str) -> str | None:
    return None if name == "_" else f"assign `{name}`, or bind it with `some {name} in …`"
