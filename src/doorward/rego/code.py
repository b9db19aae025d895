"""A checked program to code that can run: the functions of all files in one namespace.

A program has several such codes where queries replace functions: each call of one must then ask
which is in force, which nobody else shall pay for.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from doorward.rego.analysis.passes import Program
from doorward.rego.codegen.constants import Constants
from doorward.rego.codegen.plan import Plan
from doorward.rego.codegen.program import Linked, Unit, generate, link
from doorward.rego.options import Options

__all__ = ["Code", "generate_code"]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Code:
    """The generated functions of a program, file by file (`units`), and linked."""

    plan: Plan
    units: list[Unit]
    linked: Linked
    in_order: list[Code] = field(default_factory=list, repr=False)
    """The code that decides errors, once it was needed."""

    def exact(self) -> Code:
        """The code that decides errors, compiled function by function when it is called."""
        if self.plan.exact:
            return self
        if not self.in_order:
            from doorward.rego.codegen.exact import link_exactly  # few evaluations end in an error

            # Its slots are its own, as its answers are.
            plan = replace(self.plan, exact=True, traced=False, slots={}, tables={})
            self.in_order.append(Code(plan, [], link_exactly(plan)))
        return self.in_order[0]


def generate_code(program: Program, options: Options, mocked: frozenset[str] = frozenset()) -> Code:
    """The code of `program`, with calls of `mocked` open to replacement."""
    plan = Plan(
        program.callees,
        program.constant,
        program.mocked | mocked,
        prints=options.environment.on_print is not None,
        traced=options.traced,
        limited=options.max_items is not None,
    )
    constants = Constants()
    units = generate(plan, constants)
    return Code(plan, units, link(plan, units, constants))
