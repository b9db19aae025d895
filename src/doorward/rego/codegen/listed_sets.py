"""Sets that rules make and that others walk: their members are listed before they are hashed.

Most sets of objects (the containers of a request) are small, are filled by one loop over what is
there already, and are only walked. To put a few objects in order takes a part of the time that it
takes to hash all that is in them. So such rules collect their members in a list. Who walks the set
gets the list in order, without what is in it twice; who needs the set itself gets it hashed.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from doorward.rego.analysis.tree import RuleNode
from doorward.rego.codegen.plan import Plan
from doorward.rego.syntax.nodes import (
    ArrayComprehension,
    Call,
    Every,
    Not,
    ObjectComprehension,
    Ref,
    Rule,
    Scalar,
    SetComprehension,
    SomeIn,
    TemplateString,
)
from doorward.rego.syntax.walk import Node, children

__all__ = ["is_listed"]

_CLOSURES: Final = (ArrayComprehension, SetComprehension, ObjectComprehension, Every, Not)
"""Terms with bodies of their own, whose expressions add no members to the set."""


def is_listed(node: RuleNode, plan: Plan) -> bool:
    """Return True if the function of `node` can return the members of its set as a list, so that
    they need not be hashed: each rule has at most one loop, so the list is not longer than what is
    iterated. False in exact and traced code, and if output of `print` is received.
    """
    if plan.in_order or plan.prints or not node.is_set_of_members:
        return False
    known = plan.listed.get(id(node))
    if known is None:
        known = all(_may_be_listed(d.rule, plan) for d in node.definitions)
        plan.listed[id(node)] = known
    return known


def _may_be_listed(rule: Rule, plan: Plan) -> bool:
    """Return True if the members that a rule adds to a set may be collected in a list first: it has
    at most one loop, and members that take long to hash. False also if it calls an unknown
    function, or a built-in with several results.
    """
    # Texts and numbers are hashed in no time.
    if isinstance(rule.head.key, (Scalar, TemplateString, Call)):
        return False
    loops = 0
    waiting: deque[Node] = deque([rule])
    while waiting:
        item = waiting.popleft()
        if isinstance(item, SomeIn):
            loops += 1
        elif isinstance(item, Ref):
            # One that is bound does not loop; to tell them apart is not worth it.
            loops += sum(not isinstance(arg, Scalar) for arg in item.args)
        elif isinstance(item, Call):
            callee = plan.callees.find(item)
            if callee is None or (callee.builtin is not None and callee.builtin.relation):
                return False
        if loops > 1:
            return False
        if not isinstance(item, _CLOSURES):
            waiting += children(item)
    return True
