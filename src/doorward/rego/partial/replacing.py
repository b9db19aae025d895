"""`with`: documents and functions replaced while an expression is evaluated."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

from doorward.rego.partial.context import SearchContext, Site, Solutions
from doorward.rego.partial.core import (
    DATA,
    INPUT,
    Comprehension,
    Constant,
    Expr,
    Operator,
    Ref,
    Term,
    Var,
    With,
    changed,
    expr_terms,
    parts,
)
from doorward.rego.partial.functions import arity_of
from doorward.rego.partial.reached import reached
from doorward.rego.partial.state import plug
from doorward.rego.runtime.operations import put_path
from doorward.rego.values import UNDEFINED

Path = tuple[Term, ...]


def kept(search: SearchContext, site: Site) -> tuple[With, ...]:
    """Return the `with` of an expression that the residual needs: those of documents. Replaced
    functions are evaluated during the search.
    """
    return tuple([item for item in site.expr.withs if not _is_function(search, item.target)])


def _is_function(search: SearchContext, target: Ref) -> bool:
    """Return True if the target of a `with` is a built-in or a function of the policies."""
    head = target.parts[0]
    return (head != INPUT and head != DATA) or search.program.function(target) is not None


def under_with(search: SearchContext, site: Site) -> Solutions:
    """Yield for each solution of an expression while its `with` is in effect. An expression with an
    unknown replacement value is saved unchanged. The documents that it refers to are not inlined
    meanwhile, because the residual evaluates them under the same `with`.
    """
    functions: dict[Operator, With] = {}
    documents: list[tuple[Path, Term]] = []
    disabled: list[Path] = []
    for item in site.expr.withs:
        # An unknown value cannot be put into the document, so the residual keeps the `with`.
        if search.unknowns.inside(item.value, site.bindings):
            yield from _save_whole(search, site)
            return
        if _is_function(search, item.target):
            disabled += _references(item.value)
            value = item.value if item.names_builtin else plug(item.value, site.bindings)
            functions[operator_of(item.target)] = replace(item, value=value)
            continue
        disabled += [*_references(item.target), *_references(item.value)]
        documents.append((item.target.parts, plug(item.value, site.bindings)))
    bare = Expr(site.expr.args, site.expr.operator, every=site.expr.every)
    for term in expr_terms(bare):
        disabled += _references(term)
    if type(bare.operator) is Ref:
        disabled.append(bare.operator.parts)
    yield from _evaluate(search, site, functions, documents, tuple(disabled))


def functions_for(search: SearchContext, expr: Expr) -> tuple[With, ...]:
    """Return the `with` of all functions in effect if `expr`, a comprehension or `every` in it, or
    a rule that any of these leads to calls one of the functions; () otherwise. A `with` for a
    target that `expr` replaces itself is left out.
    """
    functions = search.replaced.functions
    if not functions or not _calls(search, expr, functions):
        return ()
    own = {item.target for item in expr.withs}
    return tuple([item for item in functions.values() if item.target not in own])


def _calls(search: SearchContext, expr: Expr, functions: Container[Operator]) -> bool:
    """Return True if an expression, or a rule that it leads to, calls one of `functions`."""
    return any(
        type(each) is Expr and each.operator in functions for each in reached(search.program, expr)
    )


def _save_whole(search: SearchContext, site: Site) -> Solutions:
    """Save an expression with its `with` unchanged in the residual, and yield once. Variables that
    it would bind are unknown until the caller continues.
    """
    expr, bindings = site.expr, site.bindings
    outputs: list[Term] = []
    if expr.is_equation or (expr.operator is None and expr.every is None):
        outputs = list(expr.args)
    elif expr.operator is not None and arity_of(search, expr.operator) == len(expr.args) - 1:
        outputs = [expr.args[-1]]
    # What a comprehension reads of the body around it is the same variable in the residual.
    args = tuple([search.names.close(arg, bindings) for arg in expr.args])
    expr = changed(expr, args, expr.withs, expr.every)
    count = 0
    try:
        for term in outputs:
            count += search.mark_outputs(term, bindings)
        yield from search.save(expr, bindings, bindings, site)
    finally:
        search.unknowns.unmark(count)


def _evaluate(
    search: SearchContext,
    site: Site,
    functions: Mapping[Operator, With],
    documents: Sequence[tuple[Path, Term]],
    disabled: tuple[Path, ...],
) -> Solutions:
    """Yield the solutions of the expression at `site` while the replacements of its `with` are in
    effect: `documents` (paths with their values), `functions` (operators with the `with` that
    replaces them), and no inlining of the paths in `disabled`. They are suspended at each yield,
    and ended when the caller stops early or an error passes.
    """
    replaced = search.replaced
    new_input, new_data = search.input, replaced.data
    for path, value in documents:
        keys = [part.value for part in path[1:] if type(part) is Constant]
        if path[0] == INPUT:
            assert type(value) is Constant
            old = new_input.value if type(new_input) is Constant else {}
            new_input = Constant(put_path(old, keys, value.value))
        else:
            # A function is not a document: nothing is there.
            document = value.value if type(value) is Constant else UNDEFINED
            new_data = put_path({} if new_data is UNDEFINED else new_data, keys, document)
    targets = tuple([path for path, _ in documents])

    def enter() -> tuple[Term | None, Any]:
        """Put the replacements into effect. Return the input and data before them, for `leave`."""
        before = search.input, replaced.data
        search.input, replaced.data = new_input, new_data
        replaced.push(targets, functions)
        search.disabled.push(disabled)
        return before

    def leave(before: tuple[Term | None, Any]) -> None:
        """Restore the state before the replacements."""
        search.disabled.pop()
        replaced.pop()
        search.input, replaced.data = before

    before = enter()
    is_inside = True
    solutions = search.evaluate(site)
    try:
        while next(solutions, solutions) is not solutions:
            leave(before)
            is_inside = False
            yield
            before = enter()
            is_inside = True
    finally:
        if is_inside:
            leave(before)


def operator_of(target: Ref) -> Operator:
    """Return a built-in's name or a function's reference for the target of a `with`."""
    head = target.parts[0]
    if head == DATA or type(head) is not Var:
        return target
    rest = [str(part.value) for part in target.parts[1:] if type(part) is Constant]
    return ".".join([head.name, *rest])


def _references(term: Term) -> list[Path]:
    """Return the constant prefix of each reference in a term, at any depth: its parts up to the
    first that is not constant, in no particular order.
    """
    paths: list[Path] = []
    waiting: list[Term] = [term]
    while waiting:
        each = waiting.pop()
        if type(each) is Ref:
            count = 1
            while count < len(each.parts) and type(each.parts[count]) is Constant:
                count += 1
            paths.append(each.parts[:count])
        waiting += _all_parts(each)
    return paths


def _all_parts(term: Term) -> list[Term]:
    """Return the terms directly inside a term, of a comprehension also those of its heads and of
    the expressions of its body.
    """
    if type(term) is Comprehension:
        inner = [term.term, *([] if term.key is None else [term.key])]
        return inner + [part for expr in term.body for part in expr_terms(expr)]
    return list(parts(term))
