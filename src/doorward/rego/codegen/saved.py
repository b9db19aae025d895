"""The functions of a linked program as plain values, and back: what was generated once is kept.

Every name of the namespace is saved, with the functions that were generated so far: code that is
generated later numbers its constants behind them. Built-ins are saved by their names.
"""

from __future__ import annotations

import marshal
from functools import partial
from types import FunctionType
from typing import Any, TypeAlias

from doorward.base.records import record
from doorward.rego.analysis.tree import RuleNode
from doorward.rego.codegen.constants import bind
from doorward.rego.codegen.lazy import Functions, definition_stub, is_generated, rule_stub
from doorward.rego.codegen.plan import Plan
from doorward.rego.codegen.program import Linked, document_tree
from doorward.rego.codegen.rules import definitions_of
from doorward.rego.runtime.exports import EXPORTS
from doorward.rego.runtime.operations import Candidates

__all__ = ["SavedFunctions", "link_saved", "save_functions"]

Chosen: TypeAlias = "tuple[int, ...]"


@record
class SavedFunctions:
    """The functions of a program in a form that can be saved. `code`: the byte code of functions by
    name, None if it was not generated. `rows`: the constants of definitions that share code.
    `tables`: the numbers of the definitions that each value of a table chooses, and of the others.
    `builtins`: the names that stand for parts of built-ins. `slots` and `call_slots`: for each
    node, by its number in the tree, where evaluations keep its answers.
    """

    code: dict[str, bytes | None]
    rows: dict[str, tuple[Any, ...]]
    tables: dict[str, tuple[dict[Any, Chosen], Chosen]]
    builtins: tuple[str, ...]
    constants: dict[str, Any]
    slots: dict[int, int]
    call_slots: dict[int, int]


def save_functions(plan: Plan, linked: Linked) -> SavedFunctions:
    """Return what restores the functions of a linked program: marshalled code (None for a function
    whose code was not generated yet), rows of shared code, tables of candidates, names of
    built-ins, constants, and the slots of `plan` by the numbers of nodes. What the runtime exports
    is not saved. The program may go on being used by other threads.
    """
    code: dict[str, bytes | None] = {}
    rows: dict[str, tuple[Any, ...]] = {}
    tables: dict[str, tuple[dict[Any, Chosen], Chosen]] = {}
    builtins: list[str] = []
    constants: dict[str, Any] = {}
    # A copy, since another thread may generate code meanwhile, which adds names.
    for name, value in dict(linked.namespace).items():
        if name in EXPORTS or name == "__builtins__":
            continue
        if name.startswith(_PARTS):
            builtins.append(name)
        elif isinstance(value, FunctionType) and value.__globals__ is linked.namespace:
            code[name] = marshal.dumps(value.__code__) if is_generated(value) else None
            if value.__defaults__ is not None:
                (rows[name],) = value.__defaults__
        elif isinstance(value, Candidates):
            by_value = {key: _numbers(chosen) for key, chosen in value.by_value.items()}
            tables[name] = by_value, _numbers(value.others)
        else:
            constants[name] = value
    numbers = plan.root.numbers()
    slots, call_slots = (
        {numbers[node]: slot for node, slot in each.items()}
        for each in (plan.slots, plan.call_slots)
    )
    return SavedFunctions(code, rows, tables, tuple(builtins), constants, slots, call_slots)


def link_saved(plan: Plan, saved: SavedFunctions) -> Linked:
    """Return the program of `plan` with the saved functions; those without code are generated at
    their first call. The tree of `plan` must be the one with which they were saved. LookupError if
    it has other rules or built-ins.
    """
    nodes = list(plan.root.walk())
    for slots, known in ((plan.slots, saved.slots), (plan.call_slots, saved.call_slots)):
        slots.update({id(nodes[n]): slot for n, slot in known.items()})
    functions = Functions(plan)
    for name in saved.builtins:
        bind(functions.namespace, name, _part_of_builtin(plan, name))
    for name, value in saved.constants.items():
        bind(functions.namespace, name, value)
    for node in nodes:
        if node.definitions:
            _link_node(functions, node, saved)
    return Linked(functions.namespace, document_tree(plan.root, plan, functions.namespace))


def _link_node(functions: Functions, node: RuleNode, saved: SavedFunctions) -> None:
    """Bind the functions of one node, from saved code where there is some and otherwise as stubs
    that generate theirs, and its table of definitions, to their names in the namespace. KeyError if
    a function is not among the saved ones.
    """
    bind(functions.namespace, node.name, _fill_stub(rule_stub(functions, node), saved))
    name = functions.plan.table_name(node)
    if name not in saved.tables:
        return
    definitions = []
    for number, definition in enumerate(definitions_of(node)):
        stub = _fill_stub(definition_stub(functions, node, number, definition), saved)
        bind(functions.namespace, stub.__name__, stub)
        definitions.append((stub, definition.rule.span))
    by_value, others = saved.tables[name]
    pick = partial(map, definitions.__getitem__)
    table = {key: tuple(pick(chosen)) for key, chosen in by_value.items()}
    bind(functions.namespace, name, Candidates(table, tuple(pick(others))))


def _fill_stub(stub: FunctionType, saved: SavedFunctions) -> FunctionType:
    """Give a stub its saved code and constants, and return it; unchanged if its code was not
    generated when it was saved. KeyError if it is not among the saved functions.
    """
    code = saved.code[stub.__name__]
    if code is not None:
        row = saved.rows.get(stub.__name__)
        stub.__defaults__ = None if row is None else (row,)
        # Safe only because `saved.folder` reads nothing that another user could have written.
        stub.__code__ = marshal.loads(code)
        stub.__kwdefaults__ = None
    return stub


def _numbers(chosen: tuple[tuple[Any, Any], ...]) -> Chosen:
    return tuple([int(stub.__name__.rpartition("#")[2]) for stub, _ in chosen])


_PARTS = ("fn.", "body.")
"""The prefixes before the name of a built-in that stand for its function, and for the function that
its inlined call uses.
"""


def _part_of_builtin(plan: Plan, name: str) -> Any:
    """Return the function for a name of generated code: `fn.count` is the built-in with its operand
    checks, `body.count` without them. KeyError if there is no such built-in.
    """
    part, _, builtin = name.partition(".")
    declared = plan.callees.registry[builtin]
    return declared.call if part == "fn" else declared.body
