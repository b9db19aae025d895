"""A checked program to callable code: functions compiled per file, linked in one namespace."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from doorward.rego.analysis.tree import RuleNode
from doorward.rego.codegen.block import Constants
from doorward.rego.codegen.plan import Plan
from doorward.rego.codegen.rules import rule_functions
from doorward.rego.errors import COMPILE_ERROR, CompileError, Diagnostic
from doorward.rego.runtime.evaluation import Document
from doorward.rego.runtime.exports import EXPORTS
from doorward.rego.runtime.operations import Candidates
from doorward.rego.runtime.tracing import traced
from doorward.rego.source import Source, Span
from doorward.rego.values import sorted_keys

__all__ = ["Linked", "Unit", "generate", "link"]


@dataclass(frozen=True, slots=True)
class Unit:
    """The generated functions of one policy file."""

    source: Source
    tree: ast.Module

    @property
    def file(self) -> str:
        return self.source.name

    def compile(self) -> CodeType:
        """The code; CompileError for a body that is longer than Python can follow."""
        try:
            return self._compiled(self.tree)
        except RecursionError:
            errors = [d for d in map(self._too_long, self.tree.body) if d is not None]
        raise CompileError(errors)

    def _compiled(self, tree: ast.Module) -> CodeType:
        return compile(tree, self.file or "<query>", "exec", dont_inherit=True, optimize=0)

    def _too_long(self, function: ast.stmt) -> Diagnostic | None:
        try:
            self._compiled(ast.Module(body=[function], type_ignores=[]))
        except RecursionError:
            row, col = function.lineno, function.col_offset
            start = sum(map(len, self.source.text.splitlines(keepends=True)[: row - 1])) + col
            place = Span(self.source, start, start, row, col + 1)
            return Diagnostic(COMPILE_ERROR, "rule is too long to be compiled: part it", place)
        return None

    def text(self) -> str:
        """The functions as Python text, for reading."""
        return ast.unparse(self.tree)


@dataclass(frozen=True, slots=True)
class Linked:
    """A program that can be evaluated: its namespace, and the tree of its rules."""

    namespace: dict[str, Any]
    root: Document


def generate(plan: Plan, constants: Constants) -> list[Unit]:
    """The units of every file that defines rules; deterministic."""
    functions: dict[str, list[ast.stmt]] = defaultdict(list)
    sources: dict[str, Source] = {}
    for node in plan.root.walk():
        if node.definitions:
            for source, function in rule_functions(node, plan, constants):
                functions[source.name].append(function)
                sources.setdefault(source.name, source)
    return [unit(sources[file], body) for file, body in functions.items()]


def unit(source: Source, body: list[ast.stmt]) -> Unit:
    return Unit(source, ast.Module(body=body, type_ignores=[]))


def link(plan: Plan, units: Sequence[Unit], constants: Constants) -> Linked:
    """The functions of the units, in a namespace that holds nothing but what they may use."""
    namespace: dict[str, Any] = {"__builtins__": {}, **EXPORTS, **constants.names}
    for item in units:
        # Made, not executed: to tools that trace lines, a rule's head is reached when it is asked.
        for code in item.compile().co_consts:
            if isinstance(code, CodeType):
                namespace[code.co_name] = FunctionType(code, namespace)
    if plan.traced:
        for node in plan.root.walk():
            if node.definitions:
                namespace[node.name] = traced(node.name, namespace[node.name])
    for name, (node, choice, spans) in plan.tables.items():
        made = [(namespace[plan.definition_name(node, n)], span) for n, span in enumerate(spans)]
        namespace[name] = Candidates(
            {key: tuple(made[n] for n in found) for key, found in choice.candidates.items()},
            tuple(made[n] for n in choice.others),
        )
    return Linked(namespace, _document(plan.root, plan, namespace))


def _document(node: RuleNode, plan: Plan, namespace: dict[str, Any]) -> Document:
    result = Document(node.name, is_function=node.is_function)
    if node.definitions and not node.is_function:
        result.slot = plan.slot(node)
        result.constant = plan.is_constant(node)
        result.evaluate = namespace[node.name]
    for key, child in node.children.items():
        result.children[key] = _document(child, plan, namespace)
    result.order = tuple(sorted_keys(result.children))
    return result
