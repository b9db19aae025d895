"""Programs made smaller as long as they show the same difference.

Nothing is known here of how a program was made: modules are parsed, and what is between two
places of the text is cut or replaced by a part of itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from doorward.rego import RegoError
from doorward.rego.source import Source
from doorward.rego.syntax.nodes import Expr, Import, Module, Ref, Rule, Scalar, Var, With
from doorward.rego.syntax.parser import parse_module
from doorward.rego.syntax.walk import Node, children, walk
from fuzz.pools import MISSING, Program

__all__ = ["shrink"]

Test = Callable[[Program], bool]
PLAIN: Final = ("true", "1", '"a"', "input.a")


def shrink(program: Program, holds: Test, seconds: float = 60.0) -> Program:
    """The smallest program found in time for which `holds` is still true."""
    end = time.monotonic() + seconds
    again = True
    while again and time.monotonic() < end:
        again = False
        for candidates in (_parts, _texts, _documents):
            step = _step(program, candidates, holds, end)
            while step is not None:
                program, again = step, True
                step = _step(program, candidates, holds, end)
    return program


def _step(
    program: Program,
    candidates: Callable[[Program], Iterator[Program]],
    holds: Test,
    end: float,
) -> Program | None:
    for candidate in candidates(program):
        if time.monotonic() > end:
            return None
        if holds(candidate):
            return candidate
    return None


def _parts(program: Program) -> Iterator[Program]:
    """Without a module, a query, an input; without strict errors."""
    for name in program.modules:
        rest = {other: text for other, text in program.modules.items() if other != name}
        yield replace(program, modules=rest)
    if len(program.queries) > 1:
        for query in program.queries:
            yield replace(program, queries=[query])
    if len(program.inputs) > 1:
        for number in range(len(program.inputs)):
            yield replace(program, inputs=[program.inputs[number]])
    if program.strict:
        yield replace(program, strict=False)


def _texts(program: Program) -> Iterator[Program]:
    """With less text in one module, larger cuts first; with one rule for a query."""
    for name, text in program.modules.items():
        try:
            module = parse_module(Source(name, text), v0=program.v0)
        except RegoError:
            continue
        cuts = sorted(_cuts(module), key=lambda cut: cut[0] - cut[1] + len(cut[2]))
        for start, end, new in dict.fromkeys(cuts):
            if len(new) < end - start:
                shorter = text[:start] + new + text[end:]
                yield replace(program, modules={**program.modules, name: shorter})
    yield from _smaller_queries(program)


def _smaller_queries(program: Program) -> Iterator[Program]:
    if len(program.queries) != 1 or program.queries[0].count(".") > 3:
        return
    for name, text in program.modules.items():
        try:
            module = parse_module(Source(name, text), v0=program.v0)
        except RegoError:
            continue
        for rule in module.rules:
            assert isinstance(rule.head.ref.head, Var)
            query = "data." + ".".join([*module.package.path, rule.head.ref.head.name])
            if query.startswith(program.queries[0]) and query != program.queries[0]:
                yield replace(program, queries=[query])


def _cuts(module: Module) -> Iterator[tuple[int, int, str]]:
    """Start, end and what is to stand there instead."""
    statements: tuple[Import | Rule, ...] = (*module.imports, *module.rules)
    for item in statements:
        yield item.span.start, item.span.end, ""
    for node in walk(module):
        for body in _bodies(node):
            yield from _body_cuts(body)
        if isinstance(node, With):
            yield node.span.start, node.span.end, ""
        if isinstance(node, Rule) and node.else_rule is not None:
            yield node.else_rule.span.start, node.else_rule.span.end, ""
        if not isinstance(node, Module | Rule | With):
            yield from _term_cuts(node)


def _bodies(node: Node) -> Iterator[tuple[Expr, ...]]:
    for name in ("body", "left", "right"):
        body = getattr(node, name, None)
        if isinstance(body, tuple) and body and isinstance(body[0], Expr):
            yield body


def _body_cuts(body: tuple[Expr, ...]) -> Iterator[tuple[int, int, str]]:
    for number, expr in enumerate(body):
        if number + 1 < len(body):
            yield expr.span.start, body[number + 1].span.start, ""
        elif number:
            yield body[number - 1].span.end, expr.span.end, ""
        yield expr.span.start, expr.span.end, "true"
        if expr.negated:
            yield expr.span.start, expr.span.start + len("not "), ""


def _term_cuts(node: Node) -> Iterator[tuple[int, int, str]]:
    span = node.span
    if span.end <= span.start:
        return
    if not isinstance(node, Scalar):
        for plain in PLAIN:
            yield span.start, span.end, plain
    for child in children(node):
        inner = child.span
        if span.start <= inner.start < inner.end <= span.end and inner.text != span.text:
            yield span.start, span.end, inner.text
            # A list without one of its items.
            after = span.source.text[inner.end : span.end]
            if after.startswith(", "):
                yield inner.start, inner.end + 2, ""
            before = span.source.text[span.start : inner.start]
            if before.endswith(", "):
                yield inner.start - 2, inner.end, ""
    if isinstance(node, Ref) and node.args:
        last = node.args[-1]
        cut = last.span.start - 1
        if span.start < cut < span.end:
            yield cut, span.end, ""


def _documents(program: Program) -> Iterator[Program]:
    """With less data or input."""
    for smaller in _smaller(program.data):
        if isinstance(smaller, dict):
            yield replace(program, data=smaller)
    for number, value in enumerate(program.inputs):
        for smaller in _smaller(value) if value is not MISSING else ():
            inputs = [*program.inputs[:number], smaller, *program.inputs[number + 1 :]]
            yield replace(program, inputs=inputs)


def _smaller(value: Any) -> Iterator[Any]:
    match value:
        case dict() if value:
            yield {}
            for key in value:
                yield {other: item for other, item in value.items() if other != key}
            for key, item in value.items():
                for smaller in _smaller(item):
                    yield {**value, key: smaller}
        case list() if value:
            yield []
            for number in range(len(value)):
                yield [*value[:number], *value[number + 1 :]]
            for number, item in enumerate(value):
                for smaller in _smaller(item):
                    yield [*value[:number], smaller, *value[number + 1 :]]
        case str() if len(value) > 1:
            yield "a"
        case float() | int() if value not in (0, 1) and not isinstance(value, bool):
            yield 1
