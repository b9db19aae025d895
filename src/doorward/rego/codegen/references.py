"""References to Python: documents and rules by name.

A reference below `data` is followed through the tree of rules while its operands are constant.
Where it meets a rule, the rule is evaluated and the rest is looked up in its answer. Where it
leaves the tree it reads base data. Where an operand is open inside the tree, the tree is walked
when the code runs, node by node.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence

from doorward.rego.analysis.tree import RuleNode
from doorward.rego.codegen.emit.ast_nodes import call, load, method, method_of, runtime, store
from doorward.rego.codegen.listed_sets import is_listed
from doorward.rego.codegen.lookups import lookup_in, lookup_path
from doorward.rego.codegen.operand import NOT_CONSTANT, Operand, constant_value
from doorward.rego.codegen.patterns import is_open, match
from doorward.rego.codegen.state import FunctionState
from doorward.rego.codegen.terms import term
from doorward.rego.syntax.nodes import Ref, Term, Var
from doorward.rego.values import Key, to_key

__all__ = ["members_of_rules", "name_of_rules", "ref", "rule_answer", "rule_value"]


def ref(state: FunctionState, reference: Ref) -> Operand:
    """Append to the generated code what reads `reference`, and return its value as an operand. Code
    written after this runs once for each of its values, and not at all if it is undefined.
    """
    head = reference.head
    if isinstance(head, Var) and head.name == "data":
        return _data(state, reference)
    if isinstance(head, Var) and head.name == "input":
        return _document_path(state, "input", reference.args)
    return lookup_path(state, term(state, head), reference.args)


def _data(state: FunctionState, reference: Ref) -> Operand:
    """Append to the generated code what evaluates a reference below `data`, and return the operand
    that holds its value: from a rule and what its answer contains, from base data, or from a
    document of both. Operands that are not constant inside the tree of rules become a walk at run
    time. For a function, which is not a document, the code fails.
    """
    node: RuleNode | None = state.plan.root
    path: list[Key] = []
    for n, operand in enumerate(reference.args):
        assert node is not None
        if node.definitions and not node.is_function:
            return _rule_path(state, node, reference.args[n:])
        value = constant_value(operand)
        if value is NOT_CONSTANT:
            if path and not node.children:
                return _base(state, reference.args)
            # At the root not all of the base data is listed.
            return _nodes(state, path, reference.args[n:])
        key = to_key(value)
        path.append(key)
        node = node.children.get(key)
        if node is None:
            return _base(state, reference.args)
    assert node is not None
    if node.is_function:  # below a package that a `with` replaces
        state.code.test(ast.Constant(value=False))
        return Operand(ast.Constant(value=None))
    return _rule_path(state, node, ()) if node.definitions else _document(state, path)


def _rule_path(state: FunctionState, node: RuleNode, operands: Sequence[Term]) -> Operand:
    """Append to the generated code a lookup of `operands` in the answer of the rules at `node`,
    with loops for open ones, and return its value. A rule that only renames a path of the input is
    read there. In exact code, rules that make a set or object key by key compute only the part at
    the known keys.
    """
    alias = state.plan.alias(node)
    if alias is not None:
        return _document_path(state, "input", (*alias.args, *operands))
    if operands and isinstance(operands[0], Var) and operands[0].is_wildcard:
        return lookup_path(state, members_of_rules(state, node), operands)
    if not state.plan.exact or not state.plan.is_keyed(node):
        return lookup_path(state, rule_value(state, node), operands)
    known = list(itertools.takewhile(lambda operand: not is_open(state, operand), operands))
    if not known:
        return lookup_path(state, rule_value(state, node), operands)
    # No conflict at another key may fail the lookup.
    path = ast.Tuple(elts=[term(state, operand).code for operand in known], ctx=ast.Load())
    part = method_of(load(node.name), "part", load(state.env.evaluation), path)
    return lookup_path(state, Operand(state.code.bind_temp(part)), operands)


def _base(state: FunctionState, operands: Sequence[Term]) -> Operand:
    """Append to the generated code a lookup in base data and return the document, tested to be
    defined; open operands become loops. In exact code a constant path is read by `base_at`, as one,
    and others node by node.
    """
    if not state.plan.exact:
        return _document_path(state, "data", operands)
    values = [constant_value(operand) for operand in operands]
    if NOT_CONSTANT in values:
        return _nodes(state, (), operands)
    path = state.constants.add(tuple(values))
    temp = method_of(load(state.env.evaluation), "base_at", path)
    value = state.code.bind_temp(temp, holds="document")
    state.code.test_defined(value)
    return Operand(value)


def _document_path(state: FunctionState, document: str, operands: Sequence[Term]) -> Operand:
    """Write a lookup of a path below `input` or base data and return its value. Parts that were
    read before are used again.
    """
    base = Operand(state.of_evaluation(document), is_tree=True)
    return lookup_path(state, base, operands, lookup_in(document))


def rule_value(state: FunctionState, node: RuleNode) -> Operand:
    """Write the answer of the rules at `node`, computed at most once in an evaluation, with a test
    that it is defined; return it.
    """
    key = (state.env.evaluation, state.plan.slot(node))
    known = state.reads.recall(key)
    if known is None:
        known = rule_answer(state, node)
        state.reads.remember(key, known)
    return Operand(known)


def members_of_rules(state: FunctionState, node: RuleNode) -> Operand:
    """Append to the generated code what gives the collection to iterate for the values of the rules
    at `node`, with a test that it is defined, and return it: their answer, or, if the node may be
    listed and its set was not read before, a set's members as a sorted list.
    """
    slot = state.plan.slot(node)
    if state.reads.knows((state.env.evaluation, slot)) or not is_listed(node, state.plan):
        return rule_value(state, node)
    key = (state.env.evaluation, ~slot)
    known = state.reads.recall(key)
    if known is None:
        store = state.of_evaluation("constants" if state.plan.is_constant(node) else "cache")
        arguments = load(node.name), ast.Constant(value=slot), store
        members = method_of(load(state.env.evaluation), "listed", *arguments)
        known = state.code.bind_temp(members, holds=name_of_rules(node))
        state.reads.remember(key, known)
    return Operand(known)


def rule_answer(state: FunctionState, node: RuleNode) -> ast.Name:
    """Append to the generated code what reads the answer of the rules at `node` from the
    evaluation's cache, or computes and stores it there. Return the variable that holds it; its
    value may be UNDEFINED, which is not tested.
    """
    cache = state.of_evaluation("constants" if state.plan.is_constant(node) else "cache")
    slot = ast.Constant(value=state.plan.slot(node))
    evaluation = load(state.env.evaluation)
    temp = state.temps.holding(name_of_rules(node))
    state.code.assign(temp, method_of(cache, "get", slot, runtime("MISSING")))
    missing = ast.Compare(left=load(temp), ops=[ast.Is()], comparators=[runtime("MISSING")])
    cached = ast.Subscript(value=cache, slice=slot, ctx=ast.Store())
    answer = call(load(node.name), evaluation)
    if is_listed(node, state.plan):
        answer = method_of(evaluation, "as_set", load(node.name), slot, cache)
    compute = ast.Assign(targets=[store(temp), cached], value=answer)
    state.code.add(ast.If(test=missing, body=[compute], orelse=[]))
    return load(temp)


def name_of_rules(node: RuleNode) -> str:
    """Return the last name in the path of a node; "" if it is not a string."""
    return node.path[-1] if node.path and isinstance(node.path[-1], str) else ""


def _document(state: FunctionState, path: Sequence[Key]) -> Operand:
    """Write the whole document at a path (base data with the answers of rules), with a test that it
    is defined, and return it.
    """
    where = state.constants.add(tuple(path))
    temp = state.code.bind_temp(
        method_of(load(state.env.evaluation), "document_at", where), holds="document"
    )
    state.code.test_defined(temp)
    return Operand(temp)


def _nodes(state: FunctionState, path: Sequence[Key], operands: Sequence[Term]) -> Operand:
    """Append to the generated code a walk along `operands` through nodes of rules and base data
    that are known only at run time, from the node at the constant `path`, and return the document
    at its end, tested to be defined. Open operands become loops.
    """
    evaluation = load(state.env.evaluation)
    where = state.constants.add(tuple(path))
    node: ast.expr = state.code.bind_temp(method_of(evaluation, "node_at", where), holds="node")
    for operand in operands:
        if is_open(state, operand):
            key, inner = state.temps.holding("key"), state.temps.holding("node")
            target = ast.Tuple(elts=[store(key), store(inner)], ctx=ast.Store())
            state.loop(target, method("checked_items", method_of(evaluation, "children", node)))
            match(state, operand, Operand(load(key)))
            node = load(inner)
        else:
            child = method_of(evaluation, "child", node, term(state, operand).code)
            node = state.code.bind_temp(child, holds="node")
    temp = state.code.bind_temp(method_of(evaluation, "document_of", node), holds="document")
    state.code.test_defined(temp)
    return Operand(temp)
