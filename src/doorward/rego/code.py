"""A checked program to code that can run: the functions of all files in one namespace.

A program has several such codes where queries replace functions: each call of one must then ask
which is active, which nobody else shall pay for.

The functions of a code are generated when they are first called (`codegen.lazy`), but for `emit`,
which shows the whole of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from doorward.rego.analysis.dependencies import longest_chain
from doorward.rego.analysis.passes import Program
from doorward.rego.analysis.tree import RuleNode
from doorward.rego.codegen.constants import Constants
from doorward.rego.codegen.lazy import generate_now, link_lazily
from doorward.rego.codegen.marks import MarkTable
from doorward.rego.codegen.plan import Plan
from doorward.rego.codegen.program import Linked, Unit, generate, link
from doorward.rego.codegen.sharing import lines_are_watched
from doorward.rego.options import Options

if TYPE_CHECKING:
    from doorward.rego.codegen.saved import SavedFunctions

__all__ = ["Code", "generate_code"]

MAX_CHAIN: Final = 100
"""The longest chain of rules that read each other whose functions are generated at their first
call. Each such call needs twice the stack; with longer chains all code is generated at once, so
that this does not decide if an evaluation succeeds.
"""


ALWAYS_COUNTED: Final = 1_000_000
"""With a limit of items below this, all code counts them, so that the limit is exact."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Code:
    """The generated functions of a program. `units` has the code of each file if everything was
    generated at once; it is [] if functions are generated at their first call.
    """

    plan: Plan
    units: list[Unit]
    linked: Linked
    limited: bool = False
    """True if the code that decides errors counts items."""
    in_order: list[Code] = field(default_factory=list, repr=False)
    """The code that decides errors, in a list of one once it was needed."""

    def exact(self) -> Code:
        """Return the exact code of the program, which takes each step when OPA does and so raises
        the same error: it is run if an evaluation ends in an error. It is created once, and its
        functions are compiled when they are first called. If this code is exact, it is returned
        itself.
        """
        if self.plan.exact:
            return self
        if not self.in_order:
            from doorward.rego.codegen.exact import link_exactly  # few evaluations end in an error

            # Its slots are its own, as its answers are.
            plan = replace(
                self.plan,
                exact=True,
                limited=self.limited,
                traced=False,
                marks=None,
                slots={},
                tables={},
            )
            self.in_order.append(Code(plan, [], link_exactly(plan), self.limited))
        return self.in_order[0]

    def warm(self, nodes: Iterable[RuleNode]) -> None:
        """Generate the functions of the rules at `nodes` now. Definitions that a table selects for
        a single value are left to their first call. CompileError if Python's compiler refuses one.
        """
        namespace = self.linked.namespace
        for node in nodes:
            generate_now(namespace[node.name])
            table = namespace.get(self.plan.table_name(node))
            if table is not None:
                for definition, _ in table.others:
                    generate_now(definition)


def generate_code(
    program: Program,
    options: Options,
    mocked: frozenset[str] = frozenset(),
    *,
    whole: bool = False,
    saved: SavedFunctions | None = None,
) -> Code:
    """Generate the code of `program`. Calls of the functions in `mocked` check if a `with` replaces
    them. `whole`: everything is generated now; otherwise a function is generated at its first call,
    unless its rule or a chain of rules is long. `saved`: functions from an earlier run are used.
    CompileError if Python's compiler refuses a rule, which for short rules may be noticed only at
    their first call.
    """
    limited = options.max_items is not None
    counted = limited and (options.max_items or 0) < ALWAYS_COUNTED
    is_marked = options.marked and not options.traced
    plan = Plan(
        program.callees,
        program.constant,
        program.mocked | mocked,
        prints=options.environment.on_print is not None,
        traced=options.traced,
        marks=MarkTable(program.root, program.constant) if is_marked else None,
        limited=counted,
        shares=not (options.traced or is_marked or counted or lines_are_watched()),
        graph=program.graph,
    )
    if saved is not None:
        from doorward.rego.codegen.saved import link_saved  # few programs are saved

        return Code(plan, [], link_saved(plan, saved), limited)
    if (program.graph.circular or (options.traced and options.indexed)) and not whole:
        from doorward.rego.codegen.exact import link_exactly  # few programs need it

        plan = replace(plan, exact=True, limited=limited, marks=None)
        return Code(plan, [], link_exactly(plan), limited)
    if not (whole or longest_chain(program.root, program.graph) > MAX_CHAIN):
        return Code(plan, [], link_lazily(plan), limited)
    constants = Constants()
    units = generate(plan, constants)
    return Code(plan, units, link(plan, units, constants), limited)
