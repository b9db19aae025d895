"""Functions that are generated and compiled when they are first called.

Of a thousand rules an evaluation asks a few: the code of the others is never needed. So a rule is a
stub at first. Its first call generates the code, gives it to the stub (the function stays the same
object) and continues in it. What a stub needs for that is in the default of a parameter which the
generated code does not have, since the globals are those of the whole program.

Generation needs more of Python's stack than a call. Where an evaluation has nested too deeply for
it, it runs on a stack of its own, so that it does not depend on who calls first.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import CodeType, FunctionType
from typing import Any, Final, TypeAlias

from doorward.base.collector import gc_paused
from doorward.base.records import record
from doorward.rego.analysis.dependencies import branches
from doorward.rego.analysis.tree import Definition, RuleNode
from doorward.rego.codegen.constants import Constants, bind
from doorward.rego.codegen.plan import Plan
from doorward.rego.codegen.program import Linked, definition_table, document_tree, unit
from doorward.rego.codegen.rules import (
    choose_definitions,
    definition_function,
    definitions_of,
    rule_function,
)
from doorward.rego.codegen.sharing import Group, Part, Unshared, parts
from doorward.rego.errors import CompileError, Diagnostic
from doorward.rego.runtime.exports import EXPORTS
from doorward.rego.runtime.tracing import traced
from doorward.rego.source import Source
from doorward.rego.syntax.nodes import Rule
from doorward.rego.syntax.walk import walk

__all__ = [
    "Functions",
    "Write",
    "definition_stub",
    "generate_now",
    "is_generated",
    "link_lazily",
    "rule_stub",
]

LONG_TEXT: Final = 1_500
LONG_TREE: Final = 800
"""From this many characters and nodes of a rule on, Python's compiler may refuse its code. The
shortest refused text is twice as long: one reference with a thousand variables.
"""

Write: TypeAlias = Callable[[Plan, Constants], ast.FunctionDef]
"""A function that writes the Python function of a plan and adds its constants."""


@record
class Shared:
    """The code that definitions differing only in constants share, for one of them: `member` is its
    number in the `group`, and `write` generates the code.
    """

    group: Group
    member: int
    write: Write


class Functions:
    """Compiles functions into the namespace of one program when they are needed; thread-safe."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.namespace: dict[str, Any] = {"__builtins__": {}, **EXPORTS}
        self.lock = threading.RLock()

    def function(self, name: str, source: Source, write: Write) -> Callable[..., Any]:
        """Write the code of a function by `write`, compile it now, and return the function, called
        `name` in tracebacks; it is not put into the namespace. CompileError if Python's compiler
        refuses it.
        """
        with self.lock:
            return FunctionType(self._code(source, write), self.namespace, name)

    def stub(
        self, name: str, source: Source, write: Write, shared: Shared | None = None
    ) -> FunctionType:
        """Return a function that generates and compiles its code when it is first called, and
        continues in it; that call raises CompileError if Python's compiler refuses the code. With
        `shared` it uses the code of its group, if the group can share code.
        """
        stub = FunctionType(_STUB, self.namespace, name)
        stub.__kwdefaults__ = {"generate": partial(self._generate, stub, source, write, shared)}
        return stub

    def _generate(
        self, stub: FunctionType, source: Source, write: Write, shared: Shared | None
    ) -> FunctionType:
        """Give a stub its generated code, once and under the lock, and return the stub. The code is
        that of its group if `shared` has one that can be shared, otherwise that of `write`.
        """
        with self.lock:
            if stub.__code__ is _STUB:
                code = None if shared is None else self._shared_code(stub, source, shared)
                # INVARIANT: the code before this default goes: what has it asks for none.
                stub.__code__ = self._code(source, write) if code is None else code
                stub.__kwdefaults__ = None
        return stub

    def _shared_code(self, stub: FunctionType, source: Source, shared: Shared) -> CodeType | None:
        """Return the code that the definitions of a group share, compiled at the first call; None
        if they cannot share code. The constants of this definition become a default argument of
        `stub`.
        """
        group = shared.group
        if group.code is None and group.is_shared:
            try:
                group.code = self._code(source, shared.write)
            except Unshared:
                group.is_shared = False
        if group.code is not None:
            # The code of a stub takes it for the default of `ctx`, which is always there.
            stub.__defaults__ = (group.row(shared.member),)
        return group.code

    def _code(self, source: Source, write: Write) -> CodeType:
        """Generate and compile code. If the stack is too short for it, this is repeated in another
        thread with a stack of its own. CompileError if Python's compiler refuses the code there
        too.
        """
        try:
            return self._compile(source, write)
        # Python's compiler also refuses code if the rest of the stack is too short for it.
        except (RecursionError, CompileError):
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(1, "code generation") as stack:
                return stack.submit(self._compile, source, write).result()

    @gc_paused()
    def _compile(self, source: Source, write: Write) -> CodeType:
        """Generate the code of one function by `write`, compile it, bind its constants in the
        namespace, and return it. The lock must be held. CompileError if Python's compiler refuses
        it.
        """
        constants = Constants(shared=self.namespace)
        (code,) = unit(source, [write(self.plan, constants)]).functions()
        # Before the caller installs the code, which another thread may then call at once.
        for name, value in constants.names.items():
            bind(self.namespace, name, value)
        return code


def link_lazily(plan: Plan) -> Linked:
    """Return the program of `plan` with a stub for each rule, whose code is generated at its first
    call. Long rules are compiled now; CompileError if Python's compiler refuses one.
    """
    functions = Functions(plan)
    namespace = functions.namespace
    nodes = [node for node in plan.root.walk() if node.definitions]
    stubs: dict[str, FunctionType] = {}
    for node in nodes:
        stub = stubs[node.name] = rule_stub(functions, node)
        bind(namespace, node.name, traced(node.name, stub) if plan.traced else stub)
    refused: dict[Diagnostic, None] = {}
    for node in nodes:
        # Now, so that the error is reported when policies are compiled, not in a decision.
        for name in _names_of_long(node, plan):
            try:
                # In this order: the code of the node binds the names of its definitions' stubs.
                generate_now(stubs[node.name])
                generate_now(stubs.get(name) or namespace[name])
            except CompileError as error:
                refused |= dict.fromkeys(error.diagnostics)
    if refused:
        raise CompileError(list(refused))
    return Linked(namespace, document_tree(plan.root, plan, namespace))


def rule_stub(functions: Functions, node: RuleNode) -> FunctionType:
    """Return the stub of the function for the rules at `node`."""
    source = node.definitions[0].rule.span.source
    return functions.stub(node.name, source, partial(_write_rules, functions, node))


def definition_stub(
    functions: Functions,
    node: RuleNode,
    number: int,
    definition: Definition,
    shared: Shared | None = None,
) -> FunctionType:
    """Return a stub (a function that is generated at its first call) for definition `number` at
    `node`, where a table chooses among the definitions. With `shared`, it may use the code of its
    group.
    """
    name = functions.plan.definition_name(node, number)
    write = partial(definition_function, node, Part(definition, (number,)))
    return functions.stub(name, definition.rule.span.source, write, shared)


def _write_rules(
    functions: Functions, node: RuleNode, plan: Plan, constants: Constants
) -> ast.FunctionDef:
    """Return the function for the rules at `node`. If a table chooses among its definitions, their
    stubs and the table are bound in the namespace.
    """
    choice = choose_definitions(node, plan)
    function = rule_function(node, choice, plan, constants)
    name = plan.table_name(node)
    # It is there if the generation is repeated on a stack of its own (`_code`), or if the program
    # was saved with its table.
    if choice is not None and name not in functions.namespace:
        stubs = []
        definitions = definitions_of(node)
        shared = _shared_by_number(node, definitions, plan)
        for n, definition in enumerate(definitions):
            stub = definition_stub(functions, node, n, definition, shared.get(n))
            stub = functions.namespace.setdefault(stub.__name__, stub)
            stubs.append((stub, definition.rule.span))
        bind(functions.namespace, name, definition_table(choice, stubs))
    return function


def _shared_by_number(
    node: RuleNode, definitions: Sequence[Definition], plan: Plan
) -> dict[int, Shared]:
    """Return the shared code of each definition whose code differs from that of others only in
    constants, by its number; other definitions are left out.
    """
    shared = {}
    for part in parts(definitions, plan):
        if part.group is not None:
            write = partial(definition_function, node, part)
            for member, number in enumerate(part.numbers):
                shared[number] = Shared(part.group, member, write)
    return shared


def _names_of_long(node: RuleNode, plan: Plan) -> Iterable[str]:
    """Yield the names of the functions of a node's long definitions: each one's own if a table
    chooses among the definitions, otherwise the node's.
    """
    for n, definition in enumerate(definitions_of(node)):
        if any(map(_is_long, branches(definition.rule))):
            is_chosen = choose_definitions(node, plan) is not None
            yield plan.definition_name(node, n) if is_chosen else node.name


def _is_long(rule: Rule) -> bool:
    """Return True if a rule is so long that Python's compiler might refuse it."""
    if rule.span.end - rule.span.start < LONG_TEXT:
        return False
    return sum(1 for _ in walk(rule)) >= LONG_TREE


def generate_now(function: Callable[..., Any]) -> None:
    """Generate the code of a stub that was not called yet; do nothing for other functions.
    CompileError if Python's compiler refuses it.
    """
    if isinstance(function, FunctionType) and function.__code__ is _STUB:
        defaults = function.__kwdefaults__
        if defaults is not None:  # None: another thread has just done it
            defaults["generate"]()


def is_generated(function: FunctionType) -> bool:
    """Return True if a stub's code is there, or if the function is not a stub."""
    return function.__code__ is not _STUB


def _first_call(ctx: Any, *operands: Any, generate: Callable[[], FunctionType]) -> Any:
    return generate()(ctx, *operands)


_STUB: Final = _first_call.__code__
