"""The types of all rules, in the order in which they ask each other: the last of the checks.

What a rule gives goes into the tree of types, where rules of the same name add up. A rule with an
error counts as `any`, so that one mistake is reported once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from doorward.base.records import replace
from doorward.rego.analysis.bindings import Arity
from doorward.rego.analysis.calls import Callees
from doorward.rego.analysis.dependencies import Dependencies, branches, definitions_in_order
from doorward.rego.analysis.environment import Globals, Scope, TypeNode
from doorward.rego.analysis.inference import Inference
from doorward.rego.analysis.negation import QUERY_LOCAL
from doorward.rego.analysis.opa_diagnostics.flattening import FlatRule, Flattener
from doorward.rego.analysis.readers import Readers
from doorward.rego.analysis.schemas import (
    AnnotatedDocuments,
    SchemaError,
    Schemas,
    schema_type,
)
from doorward.rego.analysis.shapes import Shapes
from doorward.rego.analysis.tree import RuleNode, head_path
from doorward.rego.analysis.types import UNKNOWN
from doorward.rego.builtins.registry.signature import (
    Function,
    ObjectType,
    SetType,
    Type,
    any_,
    boolean,
)
from doorward.rego.errors import TYPE_ERROR, Diagnostic
from doorward.rego.syntax.nodes import Body, Call, Head, Module, Rule, Scalar, Term, Var
from doorward.rego.syntax.walk import walk
from doorward.rego.values import Boxed, Key, to_key

__all__ = ["check_body_types", "check_types", "flatten_rule"]


def check_types(
    modules: Sequence[Module],
    root: RuleNode,
    graph: Dependencies,
    callees: Callees,
    schemas: Schemas | None = None,
    called: frozenset[str] = frozenset(),
    shapes: Shapes | None = None,
) -> tuple[Globals, list[Diagnostic]]:
    """Infer the types of all rules, each after those that it reads, and return the tree of their
    types with the type errors in that order. Without annotations, rules with the same number in
    `shapes` are inferred once, unless that found errors. `schemas` are JSON schemas of `input` and
    of what METADATA names; an invalid one of the input is the only error reported then. `called`
    are the built-ins that are called somewhere.
    """
    shapes = shapes or Shapes()
    known = Globals(callees.registry, called, readers=Readers(root, graph).of)
    if schemas is not None and () in schemas:
        try:
            known.rules.put(("input",), schema_type(schemas[()]))
        except SchemaError as error:
            return known, [Diagnostic(TYPE_ERROR, str(error))]
    errors: list[Diagnostic] = []
    annotated = any(module.annotations for module in modules)
    annotations = AnnotatedDocuments(modules, schemas)
    # Definitions that differ in texts and numbers alone have the types of the first: no type
    # depends on the value of one that is an operand.
    correct: set[int] = set()
    for definition in definitions_in_order(root, graph, callees):
        shape = None if annotated else shapes.number(definition.rule)
        if shape in correct:
            continue
        count = len(errors)
        documents: tuple[TypeNode, ...] = (known.rules,)
        if annotated:
            documented = annotations.of(definition.rule, definition.module, known.rules)
            if isinstance(documented, list):
                errors += documented
            elif documented is not None:
                documents = (documented, known.rules)
        for rule in branches(definition.rule):
            errors += _check_rule(flatten_rule(rule, callees.arity), known, documents)
        if shape is not None and len(errors) == count:
            correct.add(shape)
    return known, errors


def check_body_types(
    body: Body, known: Globals, callees: Callees, called: frozenset[str] = frozenset()
) -> list[Diagnostic]:
    """Return the type errors of a query; `called` are built-ins it uses besides those of rules."""
    if not called <= known.called:
        known = known.with_calls(called)
    flattener = Flattener(callees.arity, unify_equals=False, is_typed=True, prefix=QUERY_LOCAL)
    flat = flattener.with_operands(flattener.body(body))
    return [f.diagnostic for f in Inference(known).body(flat, Scope(known))]


def flatten_rule(rule: Rule, arity: Arity) -> FlatRule:
    """Return a rule, without its `else`, in the form for type checks: one call or operand per
    expression.
    """
    flattener = Flattener(arity, unify_equals=True, is_typed=True)
    flat = flattener.rule(rule)
    return replace(flat, body=flattener.with_operands(flat.body))


def _check_rule(
    flat: FlatRule, known: Globals, documents: tuple[TypeNode, ...]
) -> list[Diagnostic]:
    """Infer the type of one rule and add it to `known`, unless a part of it is unknown; return its
    errors. A rule with errors gets the type any.
    """
    scope = Scope(known, documents=documents)
    inference = Inference(known)
    findings = inference.body(flat.body, scope)
    path, tail = head_path(flat.head.ref)
    if findings:
        # Rules that read this one must not report errors that only follow from its own.
        known.rules.put(_keys(path, tail), any_)
        return [f.diagnostic for f in findings]
    for written, name in zip(flat.rule.head.ref.args, flat.head.ref.args, strict=True):
        # A call in a head is equal to a variable: any value, where nothing else is known.
        if isinstance(written, Call):
            inference.fit(name, any_, scope)
    type_, type_path = _type_and_path(flat.head, path, tail, inference, scope)
    if type_ is not None:
        known.rules.insert(type_path, type_)
    return []


def _keys(path: Sequence[Key], tail: Sequence[Term]) -> tuple[Key, ...]:
    """Return the path of a rule in the tree of types: `path`, then the operands in `tail`. For an
    operand that is not constant stands a key that no policy can write.
    """
    rest = (to_key(t.value) if isinstance(t, Scalar) else _OPEN for t in tail)
    return ("data", *path, *rest)


_OPEN: Final = Boxed(("open",))  # type: ignore[arg-type]  # a tuple: equal to no value of a policy


def _type_and_path(
    head: Head, path: Sequence[Key], tail: Sequence[Term], inference: Inference, scope: Scope
) -> tuple[Type | None, tuple[Key, ...]]:
    """Return the type that a rule gives, and the path for it in the tree of types. Except for a
    function, the type is None if a part of it is unknown. Parameters of which the body says nothing
    get the type any, in `scope`.
    """
    for node in (node for arg in head.args or () for node in walk(arg)):
        # What the body says nothing of can be anything.
        if isinstance(node, Var) and scope.variable(node.name) is None:
            scope.variables[node.name] = any_
    value = boolean if head.value is None else inference.type(head.value, scope)
    if head.args:
        args = tuple(inference.type(arg, scope) for arg in head.args)
        return Function(args, value), _keys(path, tail)
    keys = [inference.type(term, scope) for term in tail]
    type_: Type = value
    if head.key is not None:
        value = inference.type(head.key, scope)
        type_ = SetType(value)
    for key in reversed(keys):
        type_ = ObjectType((), (key, type_))
    return (None if UNKNOWN in (value, *keys) else type_), _keys(path, ())
