"""A checked program to callable code: functions compiled per file, linked in one namespace."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any, Final

from doorward.base.records import record
from doorward.rego.analysis.tree import RuleNode
from doorward.rego.clock import count_step
from doorward.rego.codegen.choice import Choice
from doorward.rego.codegen.constants import Constants, bind
from doorward.rego.codegen.plan import Plan, Table
from doorward.rego.codegen.rules import rule_functions
from doorward.rego.errors import COMPILE_ERROR, CompileError, Diagnostic
from doorward.rego.runtime.evaluation import Document
from doorward.rego.runtime.exports import EXPORTS
from doorward.rego.runtime.operations import Candidates
from doorward.rego.runtime.tracing import traced
from doorward.rego.source import Source, Span
from doorward.rego.values import sorted_keys

__all__ = ["Linked", "Unit", "definition_table", "document_tree", "generate", "link", "unit"]


@record
class Unit:
    """The generated functions of one policy file."""

    source: Source
    tree: ast.Module

    @property
    def file(self) -> str:
        return self.source.name

    def functions(self) -> Iterator[CodeType]:
        """Return the compiled code of each function, as an iterator. Raise CompileError at the
        call, with one diagnostic for each function that Python's compiler refuses.
        """
        try:
            module = self._compile_tree(self.tree)
        except _REFUSALS as refusal:
            errors = [d for d in map(self._refuse, self.tree.body) if d is not None]
            raise CompileError(errors or [self._diagnostic(self.tree.body[0], refusal)]) from None
        # Taken from the module's constants, not by executing it: to tools that trace lines, a
        # rule's head is reached when it is evaluated.
        return (code for code in module.co_consts if isinstance(code, CodeType))

    def _compile_tree(self, tree: ast.Module) -> CodeType:
        """Compile a tree under the policy's file name."""
        # No file name of a system holds a NUL; the name of a policy given as text may.
        name = self.file.replace("\0", "\ufffd") or "<query>"
        # Without `dont_inherit` the `from __future__` of this module would hold for the policy's
        # code.
        return compile(tree, name, "exec", dont_inherit=True, optimize=0)

    def _refuse(self, function: ast.stmt) -> Diagnostic | None:
        """Return the diagnostic for a function that Python's compiler refuses; None if it accepts
        it.
        """
        try:
            self._compile_tree(ast.Module(body=[function], type_ignores=[]))
        except _REFUSALS as refusal:
            return self._diagnostic(function, refusal)
        return None

    def _diagnostic(self, function: ast.stmt, refusal: Exception) -> Diagnostic:
        """Return the diagnostic for a function that Python's compiler refuses, at the position of
        its rule.
        """
        row, col = function.lineno, function.col_offset
        # A line ends only with `\n`, also where `splitlines` sees another break.
        start = sum(len(line) + 1 for line in self.source.text.split("\n")[: row - 1]) + col
        span = Span(self.source, start, start, row, col + 1)
        message = "rule is too long to be compiled: split it"
        if not isinstance(refusal, (RecursionError, MemoryError)):
            message = f"rule cannot be compiled: {refusal}"
        return Diagnostic(COMPILE_ERROR, message, span)

    def text(self, names: Mapping[str, Any]) -> str:
        """Return the functions as Python text for reading; `names` are the objects they use.
        CompileError if they nest too deeply.
        """
        from doorward.rego.codegen.listing import listing  # only `emit` needs it

        return listing(self.source, self.tree, names)


_REFUSALS: Final = (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError)
"""The errors with which Python's compiler refuses code, mostly for too deeply nested blocks or
terms.
"""


@record
class Linked:
    """A program that can be evaluated: its namespace, and the tree of its rules."""

    namespace: dict[str, Any]
    root: Document


def generate(plan: Plan, constants: Constants) -> list[Unit]:
    """Return the compiled units of all files that define rules, one for each file, in the order of
    the tree of rules; the result is deterministic. `constants` receives what the code refers to.
    Each node counts a step of the limit on work.
    """
    functions: dict[str, list[ast.stmt]] = defaultdict(list)
    sources: dict[str, Source] = {}
    for node in plan.root.walk():
        count_step()
        if node.definitions:
            for source, function in rule_functions(node, plan, constants):
                functions[source.name].append(function)
                sources.setdefault(source.name, source)
    return [unit(sources[file], body) for file, body in functions.items()]


def unit(source: Source, body: list[ast.stmt]) -> Unit:
    """Return the unit of the functions `body` of one source, which are not compiled yet."""
    return Unit(source, ast.Module(body=body, type_ignores=[]))


def link(plan: Plan, units: Sequence[Unit], constants: Constants) -> Linked:
    """Return the compiled functions of the units in one namespace, which contains only what
    generated code may use: exports of the runtime, constants, functions and tables, no built-ins of
    Python. Functions report to a tracer if the plan is traced. CompileError if Python's compiler
    refuses a function.
    """
    # INVARIANT: generated code reaches nothing of Python but what is in this namespace.
    namespace: dict[str, Any] = {"__builtins__": {}, **EXPORTS}
    for name, value in constants.names.items():
        bind(namespace, name, value)
    rules = {node.name: node for node in plan.root.walk() if node.definitions}
    for item in units:
        for code in item.functions():
            name, node = code.co_name, rules.get(code.co_name)
            function: Callable[..., Any] = FunctionType(code, namespace, name)
            reports = plan.traced and node is not None
            bind(namespace, name, traced(name, function) if reports else function)
    for name, table in plan.tables.items():
        _bind_rows(namespace, plan, table)
        functions = [
            (namespace[plan.definition_name(table.node, n)], span)
            for n, span in enumerate(table.spans)
        ]
        bind(namespace, name, definition_table(table.choice, functions))
    return Linked(namespace, document_tree(plan.root, plan, namespace))


def _bind_rows(namespace: dict[str, Any], plan: Plan, table: Table) -> None:
    """Bind the functions of definitions that share code, each with its constants."""
    for number, (first, row) in table.rows.items():
        name = plan.definition_name(table.node, number)
        code = namespace[plan.definition_name(table.node, first)].__code__
        function = namespace.setdefault(name, FunctionType(code, namespace, name))
        function.__defaults__ = (row,)


def definition_table(
    choice: Choice, functions: Sequence[tuple[Callable[..., Any], Span]]
) -> Candidates:
    """Return a table of the functions of definitions, by the values that choose among them."""
    by_value = {key: tuple([functions[n] for n in ns]) for key, ns in choice.candidates.items()}
    return Candidates(by_value, tuple([functions[n] for n in choice.others]))


def document_tree(node: RuleNode, plan: Plan, namespace: dict[str, Any]) -> Document:
    """Return the tree of rules from `node` on, in the form that evaluations read: names, functions
    of `namespace`, slots of the caches, and children in Rego's order. Functions have no slot there.
    """
    result = Document(node.name, is_function=node.is_function)
    if node.definitions and not node.is_function:
        result.slot = plan.slot(node)
        result.constant = plan.is_constant(node)
        result.evaluate = namespace[node.name]
        result.part = getattr(result.evaluate, "part", None) if plan.is_keyed(node) else None
    for key, child in node.children.items():
        result.children[key] = document_tree(child, plan, namespace)
    # Sorted once here instead of in each evaluation.
    result.order = tuple(sorted_keys(result.children))
    return result
