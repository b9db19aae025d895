"""Rules to Python functions: one for each node of the tree that has rules.

    complete rule     returns its value, the default, or UNDEFINED
    function          the same, of its operands
    partial rules     return the set or object that all of them fill together

A function that can have only one answer returns it where it comes up; the others compare every
further answer with the first, since two different ones are a conflict.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, get_args

from doorward.base.records import record
from doorward.rego.analysis.evaluation_order import definition_in_steps, rule_in_steps
from doorward.rego.analysis.failures import has_one_answer
from doorward.rego.analysis.multiplicity import (
    is_pattern,
    multiplicity_of_rules,
)
from doorward.rego.analysis.tree import Definition, RuleNode
from doorward.rego.analysis.variables import term_vars
from doorward.rego.codegen.bodies import trace
from doorward.rego.codegen.choice import Choice
from doorward.rego.codegen.constants import Constants
from doorward.rego.codegen.emit.ast_nodes import (
    call,
    load,
    locate,
    method,
    method_of,
    runtime,
    store,
    subscript,
)
from doorward.rego.codegen.function import finish, finish_function, new_function
from doorward.rego.codegen.index import choose
from doorward.rego.codegen.listed_sets import is_listed
from doorward.rego.codegen.lookups import read
from doorward.rego.codegen.marks import ANSWERED
from doorward.rego.codegen.operand import NOT_CONSTANT, Operand, constant_value
from doorward.rego.codegen.patterns import match
from doorward.rego.codegen.plan import Plan
from doorward.rego.codegen.reading_ahead import (
    plain_references,
    prefetch,
    read_for_rounds,
    references_of,
    share_reads,
)
from doorward.rego.codegen.sharing import Group, Part, Rows, Unshared, parts
from doorward.rego.codegen.state import FunctionKind, FunctionState
from doorward.rego.codegen.terms import count_item, key, term
from doorward.rego.source import Source, Span
from doorward.rego.syntax.nodes import Array, Object, Ref, Rule, Set, Term

__all__ = [
    "choose_definitions",
    "definition_function",
    "definitions_of",
    "one_rule_function",
    "piece_function",
    "rule_function",
    "rule_functions",
]


def rule_functions(
    node: RuleNode, plan: Plan, constants: Constants
) -> Iterator[tuple[Source, ast.FunctionDef]]:
    """Yield the functions for the rules at `node`, each with its source. If a table chooses among
    the definitions, each has its own function, or shares one with others that differ in constants,
    and the table is recorded in `plan`.
    """
    choice = choose_definitions(node, plan)
    if choice is not None:
        definitions = definitions_of(node)
        rows: dict[int, tuple[int, tuple[Any, ...]]] = {}
        for part in parts(definitions, plan):
            for written, function in _definition_functions(node, part, plan, constants):
                yield written.definition.rule.span.source, function
                if written.group is not None:
                    first = written.numbers[0]
                    for position, number in enumerate(written.numbers):
                        rows[number] = first, written.group.row(position)
        plan.add_table(node, choice, definitions, rows)
    yield node.definitions[0].rule.span.source, rule_function(node, choice, plan, constants)


def definitions_of(node: RuleNode) -> list[Definition]:
    """Return the definitions of a node without its default."""
    return [d for d in node.definitions if not d.rule.default]


def choose_definitions(node: RuleNode, plan: Plan) -> Choice | None:
    """Return the table that chooses among the definitions of `node` by a value of the input or an
    operand; None if each definition is tried, as always in exact and traced code.
    """
    return None if plan.in_order else choose(definitions_of(node), plan.failures)


def rule_function(
    node: RuleNode, choice: Choice | None, plan: Plan, constants: Constants
) -> ast.FunctionDef:
    """Write the function that returns the answer of the rules at `node`. `choice`: the table that
    chooses among the definitions, which are functions of their own; None if they are written into
    this one.
    """
    # What is in functions of their own is looked through there.
    definitions = definitions_of(node) if choice is None else []
    own = parts([_in_order(d, plan) for d in definitions], plan)
    try:
        return _rule_function(node, choice, own, plan, constants)
    # Found out only while writing: the code names something of one definition alone.
    except Unshared:
        own = [each for part in own for each in part.alone()]
        return _rule_function(node, choice, own, plan, constants)


def _rule_function(
    node: RuleNode,
    choice: Choice | None,
    rule_parts: Sequence[Part],
    plan: Plan,
    constants: Constants,
) -> ast.FunctionDef:
    """Return the Python function that evaluates the rules at `node`: one that takes the evaluation
    and, for a function of the policy, its operands. It tries the definitions in `rule_parts` in
    turn (they must be all of the node's, apart from defaults), or with `choice`, a table of
    definitions by an operand's value, those that are chosen at run time. Unshared if the code for a
    part that several definitions share must name something of one of them.
    """
    final = _final(definitions_of(node), plan)
    defaults = [d for d in node.definitions if d.rule.default]
    multiplicity = multiplicity_of_rules(
        [*defaults, *(part.definition for part in rule_parts)],
        plan.callees,
        prints=plan.prints,
        bound=frozenset().union(*(part.variables for part in rule_parts)),
    )
    kind = FunctionKind.RULE if choice is None else FunctionKind.CHOICE
    if node.is_function:
        kind = FunctionKind.FUNCTION
    state = new_function(plan, constants, kind, multiplicity)
    rules = _rules_at(state, node, final)
    with state.code.at(node.definitions[0].rule.span):
        if choice is None:
            share_reads(state, _references([part.definition for part in rule_parts]))
            _all_definitions(state, rules, rule_parts)
        else:
            _choose_definitions(state, rules, choice)
        if node.is_function:
            args = ("ctx", *rules.args)
            return finish_function(state, node, args, is_chosen=choice is not None)
        args = ("ctx", f"*{rules.listed}") if rules.listed else ("ctx",)
        return finish(state, node.name, args)


def _definition_functions(
    node: RuleNode, part: Part, plan: Plan, constants: Constants
) -> list[tuple[Part, ast.FunctionDef]]:
    """Return the part with its function, in a list; if its definitions cannot share code after all,
    one part with its function for each.
    """
    try:
        return [(part, definition_function(node, part, plan, constants))]
    except Unshared:
        return [(each, definition_function(node, each, plan, constants)) for each in part.alone()]


def definition_function(
    node: RuleNode, part: Part, plan: Plan, constants: Constants
) -> ast.FunctionDef:
    """Return the Python function of one definition, or of a group that shares code: it returns its
    value, or a partial one fills its parameter `out`. For a group, the last parameter holds the
    constants of one definition.
    """
    number, definition, group = part.numbers[0], _in_order(part.definition, plan), part.group
    state = _one_rule(definition, plan, constants, part.variables)
    rules = _rules_at(state, node)
    args = ["ctx", *rules.args]
    out = "" if rules.have_one_answer else state.temps.fresh("out")
    args += [out] if out else []
    with state.code.at(definition.rule.span), _row_parameter(state, group, args):
        share_reads(state, _references([definition]))
        if rules.have_one_answer:
            _single(state, rules, [Part(definition, (number,))], None)
        else:
            _fill(state, rules, definition, out, leave=_nothing)
        return finish(state, plan.definition_name(node, number), args)


@contextmanager
def _row_parameter(state: FunctionState, group: Group | None, args: list[str]) -> Iterator[None]:
    """Return a context in which the constants of a group come from a parameter, a row of them,
    whose name is appended to `args`. Without a group nothing changes.
    """
    if group is None:
        yield
        return
    row = state.temps.fresh("row")
    args.append(row)
    names = [state.temps.fresh("constant") for _ in group.operands]
    for n, name in enumerate(names):
        state.temps.bind_at_start(name, subscript(load(row), n))
    with group.written_into(state, names, lambda n: subscript(load(row), len(names) + n)):
        yield


def one_rule_function(
    node: RuleNode, definition: Definition, plan: Plan, constants: Constants, *, first: bool
) -> ast.FunctionDef:
    """Write the function that returns the value of one definition, UNDEFINED if it has none.
    `first`: it returns the first value; otherwise two different values are a conflict error.
    """
    state = _one_rule(definition, plan, constants)
    rules, rule = _rules_at(state, node), definition.rule
    with state.code.at(rule.span):
        answer = state.temps.fresh_shared("answer")
        state.code.assign(answer, runtime("UNDEFINED"))
        with _rule_scope(state, rule, rules.args, leave=lambda: load(answer)):
            value = _head_value(state, rule).code
            if first:
                state.code.return_value(value)
            else:
                _join(state, rules, answer, value, rule.span)
        state.code.return_value(load(answer))
        return finish(state, node.name, ("ctx", *rules.args))


def piece_function(
    node: RuleNode, definition: Definition, count: int, plan: Plan, constants: Constants
) -> ast.FunctionDef:
    """Write the function that evaluates one definition of a set or object and adds its items to the
    parameter `out`: only items whose first `count` keys equal the parameters before it.
    """
    state = _one_rule(definition, plan, constants)
    keys = [state.temps.fresh(f"key{n}") for n in range(count)]
    out = state.temps.fresh("out")
    with state.code.at(definition.rule.span):
        _fill(state, _Rules(node), definition, out, keys, leave=_nothing)
        return finish(state, node.name, ("ctx", *keys, out))


def _one_rule(
    definition: Definition,
    plan: Plan,
    constants: Constants,
    bound: frozenset[str] = frozenset(),
) -> FunctionState:
    """Return the state for writing the function of one definition. `bound`: variables that have a
    value before it begins, such as those for the constants of a group.
    """
    multiplicity = multiplicity_of_rules(
        [definition], plan.callees, prints=plan.prints, bound=bound
    )
    return new_function(plan, constants, FunctionKind.DEFINITION, multiplicity)


def _references(definitions: Sequence[Definition]) -> Iterator[Ref]:
    return (ref for definition in definitions for ref in references_of(definition.rule))


@record
class _Rules:
    """How one Python function for the rules at a node takes operands and returns answers."""

    node: RuleNode
    args: tuple[str, ...] = ()
    """The names of the parameters for the operands of a function."""
    listed: str = ""
    """For sets whose members can be listed, the parameter that is True if the caller wants the
    list; "" otherwise.
    """
    final: tuple[bool, ...] = ()
    """For each definition, True if its first success is the answer of all."""

    def is_final(self, number: int) -> bool:
        """Return True if the first success of a definition is the answer of all; False if `final`
        does not say so.
        """
        return number < len(self.final) and self.final[number]

    @property
    def have_one_answer(self) -> bool:
        return self.node.is_complete or self.node.is_function

    @property
    def join(self) -> ast.expr:
        """Code that names the runtime function which compares a further answer with the first and
        raises the conflict: one for functions, one for rules.
        """
        return runtime("one_of_function" if self.node.is_function else "one")


def _rules_at(state: FunctionState, node: RuleNode, final: tuple[bool, ...] = ()) -> _Rules:
    """Return how the rules at `node` take their arguments and return their answer, with new names
    for a function's arguments, and for the parameter that asks for a list if the node may be
    listed. `final`: for each definition, True if its first success is the answer of all; () for
    none.
    """
    count = len(node.definitions[0].rule.head.args or ()) if node.is_function else 0
    args = tuple([state.temps.fresh(f"arg{n}") for n in range(count)])
    listed = state.temps.fresh("as_list") if is_listed(node, state.plan) else ""
    return _Rules(node, args, listed, final)


def _in_order(definition: Definition, plan: Plan) -> Definition:
    """Return a definition that may raise an error rewritten in steps, so that they run in OPA's
    order. Others are returned unchanged, and all of them in exact and traced code.
    """
    if plan.exact or plan.traced or not plan.failures.rule(definition.rule):
        return definition
    return definition_in_steps(definition, plan.callees)


def _final(definitions: Sequence[Definition], plan: Plan) -> tuple[bool, ...]:
    """Return for each definition True if its first success may be returned as the answer of all
    definitions: they all have the same constant value, none has an `else`, and no later one that
    may raise an error is evaluated before it in OPA. Above `MAX_COMPARED` definitions, True only
    from the last one on that may raise an error.
    """
    rules = [d.rule for d in definitions]
    if not has_one_answer(rules) or any(rule.else_rule for rule in rules):
        return (False,) * len(rules)
    # Only later ones count: exact code decides about an error too many, but one that does not come
    # up is lost.
    failing = [n for n, rule in enumerate(rules) if plan.failures.rule(rule)]
    last = failing[-1] if failing else 0
    if last == 0 or len(rules) > MAX_COMPARED:
        return tuple([n >= last for n in range(len(rules))])
    from doorward.rego.codegen.rule_index import RuleIndex  # few rules need it, all pay for it

    chains = [[rule_in_steps(rule, plan.callees)] for rule in rules]
    index = RuleIndex(chains, plan.is_virtual, prints=plan.prints)
    return tuple(
        [
            not any(index.may_overtake(later, n) for later in failing if later > n)
            for n in range(len(rules))
        ]
    )


MAX_COMPARED: Final = 64
"""The most definitions whose order in OPA's index is computed."""


# Complete rules and functions


def _all_definitions(state: FunctionState, rules: _Rules, rule_parts: Sequence[Part]) -> None:
    """Write all definitions of a node, one after the other, and the return of its value: the answer
    or default of a complete rule or function, else the collection.
    """
    if rules.have_one_answer:
        _single(state, rules, rule_parts, rules.node.default)
        return
    out = _collection(state, rules)
    for part in rule_parts:
        is_last = part is rule_parts[-1] and part.group is None and not rules.node.children
        leave = (lambda: _collection_value(rules, out)) if is_last else None
        with _rounds(state, part.group):
            _fill(state, rules, part.definition, out, leave=leave)
    _return_collection(state, rules, out)


@contextmanager
def _rounds(state: FunctionState, group: Group | None) -> Iterator[None]:
    """Return a context for code that runs once for each definition of a group, in a loop over rows
    of their constants; the rows are filled at its end, when it is known which positions they
    contain. If `group` is None, the code runs once and nothing is written.
    """
    if group is None:
        yield
        return
    calls = state.counters.calls
    names = [state.temps.fresh("constant") for _ in group.operands]
    positions = state.temps.fresh("positions")
    target = ast.Tuple(elts=[store(name) for name in names], ctx=ast.Store())
    rows = Rows()
    iterable = state.constants.add(rows)
    inner = group.written_into(state, names, lambda n: subscript(load(positions), n))
    with state.code.at(group.definition.rule.span):
        _prefetch(state, group.definition)
        read_for_rounds(state, group.definition.rule)
        with state.scope(), inner:
            state.code.loop(target, iterable)
            yield
    if group.positions:
        last = store(positions)
        target.elts.append(last)
        locate(last, target.lineno, target.col_offset)
    # Now, since writing the code has decided which positions a row contains.
    rows.extend(group.rows())
    if state.counters.calls > calls:
        # One call that is written is many that are made.
        state.counters.add_call()


def _single(
    state: FunctionState, rules: _Rules, rule_parts: Sequence[Part], default: Definition | None
) -> None:
    """Append to the generated code the definitions of a complete rule or function, in which each
    further answer is compared with the first unless none can differ, and the return of the default
    or UNDEFINED.
    """
    if len(rule_parts) >= 2 and not state.plan.in_order:
        _prefetch(state, rule_parts[0].definition)
    leave = _fallback_value(state, default)
    if len(rule_parts) == 1 and rule_parts[0].group is None and not rules.is_final(0):
        _alternatives(state, rules, rule_parts[0].definition.rule, leave)
    else:
        _write_joined(state, rules, rule_parts, leave)
    _fallback(state, default)


def _write_joined(
    state: FunctionState,
    rules: _Rules,
    rule_parts: Sequence[Part],
    leave: Callable[[], ast.expr] | None,
) -> None:
    """Append to the generated code what evaluates definitions in order and raises a conflict error
    if two answers differ. A final definition, after which no answer can differ, returns its answer
    at once. `leave`: makes the code for the value to return where the last definition fails; None
    if code follows.
    """
    answer = ""
    for n, part in enumerate(rule_parts):
        rule = part.definition.rule
        if rules.is_final(n):
            is_last = part is rule_parts[-1] and part.group is None and not answer
            with (
                _rounds(state, part.group),
                _rule_scope(state, rule, rules.args, leave=leave if is_last else None),
            ):
                value = _head_value(state, rule).code
                _note_answer(state, rule)
                state.code.return_value(value)
        else:
            if not answer:
                answer = state.temps.fresh_shared("answer")
                state.code.assign(answer, runtime("UNDEFINED"))
            with _rounds(state, part.group):
                _definition(state, rules, part.definition, answer)
    if answer:
        _return_if_defined(state, answer)


def _choose_definitions(state: FunctionState, rules: _Rules, choice: Choice) -> None:
    """Append to the generated code a loop over the definitions that the table of `choice` selects
    for the value of its source (a parameter, or a path below `input`), then the return: of their
    common answer or the default, or of the set or object that they filled. The loop ends with the
    first answer if no later one can differ.
    """
    single = rules.have_one_answer
    out = state.temps.fresh("answer") if single else _collection(state, rules)
    if single:
        state.code.assign(out, runtime("UNDEFINED"))
    value: ast.expr
    if isinstance(choice.source, int):
        value = load(rules.args[choice.source])
    else:
        document = state.code.bind_temp(state.of_evaluation("input"))
        value = read(state, document, choice.source)
    rule, span = state.temps.fresh("rule"), state.temps.fresh("span")
    table = load(state.plan.table_name(rules.node))
    candidates = call(runtime("candidates"), table, value)
    with state.scope():
        target = ast.Tuple(elts=[store(rule), store(span)], ctx=ast.Store())
        state.loop(target, candidates)
        operands = [load(name) for name in ("ctx", *rules.args)]
        if not single:
            state.code.run(call(load(rule), *operands, load(out)))
        else:
            answer = state.code.bind_temp(call(load(rule), *operands))
            state.code.test_defined(answer)
            if all(rules.final):
                state.code.return_value(answer)
            else:
                state.code.assign(out, call(rules.join, load(out), answer, load(span)))
    if single:
        _return_if_defined(state, out)
        _fallback(state, rules.node.default)
    else:
        _return_collection(state, rules, out)


def _fallback(state: FunctionState, default: Definition | None) -> None:
    """Write a return of the default, or of UNDEFINED if there is none, for the case that no
    definition had an answer. Nothing is written if the code ends with a return already.
    """
    # Code after a return would never run.
    if state.code.written and isinstance(state.code.written[-1], ast.Return):
        return
    if default is None:
        state.code.return_value(runtime("UNDEFINED"))
        return
    with state.code.at(default.rule.span):
        state.code.return_value(_head_value(state, default.rule).code)


def _fallback_value(
    state: FunctionState, default: Definition | None
) -> Callable[[], ast.expr] | None:
    """Return a function that makes code for the default, or for UNDEFINED without one; None if the
    default must be computed or traced.
    """
    if default is None:
        return lambda: runtime("UNDEFINED")
    rule, value = default.rule, default.rule.head.value
    if state.plan.traced or (value is not None and constant_value(value) is NOT_CONSTANT):
        return None
    return lambda: _head_value(state, rule).code


def _prefetch(state: FunctionState, definition: Definition) -> None:
    """Write a read of the first reference without variables in the first expression of a
    definition, for later reads. Writes nothing if there is none, or if the expression has a `with`
    or is not a term. The read is not tested, so that no other definition fails by it.
    """
    if not definition.rule.body:
        return
    first = definition.rule.body[0]
    tested = first.before[0].term if first.before else first.term
    if isinstance(tested, get_args(Term)) and not first.withs:
        for ref in plain_references(tested):
            if not any(True for _ in term_vars(ref)):
                with state.code.at(ref.span):
                    prefetch(state, ref)
                return


def _definition(state: FunctionState, rules: _Rules, definition: Definition, answer: str) -> None:
    """Append to the generated code one of several definitions of a complete rule or function,
    `else` branches included. Its value is stored in the variable `answer`; if that has another
    value already, the code raises a conflict error.
    """
    rule = definition.rule
    if rule.else_rule is None:
        with _rule_scope(state, rule, rules.args):
            value = _head_value(state, rule).code
            _note_answer(state, rule)
            _join(state, rules, answer, value, rule.span)
        return
    # The first branch that holds ends the chain by `return`, which must not end the rule.
    function = state.code.inner_function(state.temps.fresh("chain"))
    with state.counters.scope(), state.code.redirect_to(function):
        _alternatives(state, rules, rule, lambda: runtime("UNDEFINED"))
        state.code.return_value(runtime("UNDEFINED"))
    result = state.code.bind_temp(call(load(function.name)))
    with state.scope():
        state.code.test_defined(result)
        _join(state, rules, answer, result, rule.span)


def _join(state: FunctionState, rules: _Rules, answer: str, value: ast.expr, span: Span) -> None:
    where = state.constants.add(span)
    state.code.assign(answer, call(rules.join, load(answer), value, where))


def _alternatives(
    state: FunctionState, rules: _Rules, rule: Rule, leave: Callable[[], ast.expr] | None
) -> None:
    """Write a rule and its `else` branches, each of which returns its answer if it holds. `leave`:
    makes the code for the value to return where the last branch fails; None if code follows.
    """
    branch: Rule | None = rule
    while branch is not None:
        _branch(state, rules, branch, leave if branch.else_rule is None else None)
        branch = branch.else_rule


def _branch(
    state: FunctionState, rules: _Rules, rule: Rule, leave: Callable[[], ast.expr] | None
) -> None:
    """Write one branch, which returns its answer if it holds. If it may have several answers, all
    are computed and compared first; but a constant one is returned at once, unless what OPA
    evaluates after it may raise an error. `leave`: makes the code for the value to return where the
    branch fails; None if code follows.
    """
    answer = ""
    with state.code.capture() as statements:
        loops = state.counters.loops
        with _rule_scope(state, rule, rules.args, leave=leave):
            value = _head_value(state, rule)
            several = state.multiplicity.may_have_several(rule)
            assert several or state.counters.loops == loops, "an answer for each round"
            if not several or (value.is_constant and not _may_go_on(state, rules, rule)):
                _note_answer(state, rule)
                state.code.return_value(value.code)
            else:
                answer = state.temps.fresh_shared("answer")
                _join(state, rules, answer, value.code, rule.span)
    if answer:
        state.code.assign(answer, runtime("UNDEFINED"))
    state.code.splice(statements)
    if answer:
        with state.scope():
            state.code.test_defined(load(answer))
            _note_answer(state, rule)
            state.code.return_value(load(answer))


def _may_go_on(state: FunctionState, rules: _Rules, rule: Rule) -> bool:
    """Return True if OPA evaluates more of `rule` after its first answer and that may raise an
    error, so that a constant answer must not be returned at once: the rule may fail, and the rules
    of its node do not all have one and the same constant answer.
    """
    if not state.plan.failures.rule(rule):
        return False
    return not has_one_answer([d.rule for d in rules.node.definitions if not d.rule.default])


def _return_if_defined(state: FunctionState, answer: str) -> None:
    """Write code that returns the value of the variable `answer` if it is defined, and otherwise
    goes on.
    """
    with state.scope():
        state.code.test_defined(load(answer))
        state.code.return_value(load(answer))


# Partial rules


def _collection(state: FunctionState, rules: _Rules) -> str:
    """Write a new collection for the rules of a node to fill, and return its name: an object, a
    set, or a list for a set whose members can be listed.
    """
    out = state.temps.fresh("out")
    empty: ast.expr = ast.Dict(keys=[], values=[])
    if rules.listed:
        empty = ast.List(elts=[], ctx=ast.Load())
    elif rules.node.is_set_of_members:
        empty = call(runtime("set"))
    state.code.assign(out, empty)
    return out


def _fill(
    state: FunctionState,
    rules: _Rules,
    definition: Definition,
    out: str,
    keys: Sequence[str] = (),
    *,
    leave: Callable[[], ast.expr] | None,
) -> None:
    """Write one definition, which adds its items to the set or object `out`, or its members to the
    list `out` if `rules.listed`. With `keys`, only items whose first keys equal these variables are
    added. `leave`: makes the code for the value to return where the definition fails; None if code
    follows.
    """
    rule = definition.rule
    several = state.plan.mark(rule) is not None and state.multiplicity.may_have_several(rule)
    answered = ""
    if several:
        # Of many answers one is noted, behind the loop.
        answered = state.temps.fresh_shared("answered")
        state.code.assign(answered, ast.Constant(value=False))
    # A member of a set is its own key, behind those of the objects around the set.
    patterns = (*definition.tail, *([rule.head.key] if rule.head.key is not None else []))
    with _rule_scope(state, rule, keys, patterns, leave=None if several else leave):
        if rules.node.is_set_of_members:
            assert rule.head.key is not None
            member = term(state, rule.head.key)
            if rules.listed:
                state.code.run(method_of(load(out), "append", member.code))
            else:
                hashed = key(state, member)
                trace(state, rule, holds=True)
                state.code.run(method_of(load(out), "add", hashed))
        else:
            _insert(state, definition, out)
        count_item(state)
        if several:
            state.code.assign(answered, ast.Constant(value=True))
        else:
            _note_answer(state, rule)
    if several:
        with state.scope():
            state.code.test(load(answered))
            _note_answer(state, rule)


def _return_collection(state: FunctionState, rules: _Rules, out: str) -> None:
    """Write a return of the set or object, with the answers of rules below it."""
    node = rules.node
    if node.children and not node.is_set_of_members:
        span = state.constants.add(node.definitions[0].rule.span)
        where = state.constants.add(node.path), span
        state.code.run(method("add_children", load(out), *where))
    state.code.return_value(_collection_value(rules, out))


def _collection_value(rules: _Rules, out: str) -> ast.expr:
    """Return code for the finished value of the collection in the variable `out`: a frozenset or an
    object. For a set whose members can be listed, it is a list if the caller of the function asks
    for one.
    """
    node = rules.node
    if rules.listed:
        as_list, as_set = call(runtime("distinct"), load(out)), call(runtime("as_set"), load(out))
        return ast.IfExp(test=load(rules.listed), body=as_list, orelse=as_set)
    if node.is_set_of_members:
        return call(runtime("frozenset"), load(out))
    if node.children or any(len(d.tail) > 1 or d.is_set for d in node.definitions):
        return call(runtime("freeze"), load(out))
    return load(out)


def _nothing() -> ast.expr:
    return ast.Constant(value=None)


def _insert(state: FunctionState, definition: Definition, out: str) -> None:
    """Append to the generated code what puts the member or value of a definition into the set or
    object in the variable `out`, below the keys of its tail (the computed rest of its path); two
    values for one key are an error at run time.
    """
    rule = definition.rule
    path = [term(state, part).code for part in definition.tail]
    span = state.constants.add(rule.span)
    if rule.head.key is not None:
        member = term(state, rule.head.key).code
        trace(state, rule, holds=True)
        keys = ast.Tuple(elts=path, ctx=ast.Load())
        state.code.run(call(runtime("insert_member_at"), load(out), keys, member, span))
        return
    value = _head_value(state, rule).code
    if len(path) == 1:
        state.code.run(call(runtime("insert"), load(out), path[0], value, span))
    else:
        keys = ast.Tuple(elts=path, ctx=ast.Load())
        state.code.run(call(runtime("insert_at"), load(out), keys, value, span))


# Heads


def _note_answer(state: FunctionState, rule: Rule) -> None:
    """Write code that records the answer of the definition in the marks, if the plan records its
    outcomes.
    """
    number = state.plan.mark(rule)
    if number is not None:
        state.code.note(number, ANSWERED)


def _head_value(state: FunctionState, rule: Rule) -> Operand:
    """Write the value of a rule's head, `true` if none is written, and return it as an operand.
    Traced code then reports that the rule holds.
    """
    value = rule.head.value
    if value is None:
        operand = Operand(ast.Constant(value=True), "boolean", True)
    else:
        operand = term(state, value)
    trace(state, rule, holds=True)
    return operand


@contextmanager
def _rule_scope(
    state: FunctionState,
    rule: Rule,
    args: Sequence[str],
    patterns: Sequence[Term] | None = None,
    *,
    leave: Callable[[], ast.expr] | None = None,
) -> Iterator[None]:
    """Return a context in which code runs for each solution of a branch of a rule: its parameters
    and body are appended to the generated code before it.

    The variables `args` are matched with the parameters, or with `patterns`, of which those that
    need variables of the body are matched after it. `leave`: makes the code that a failing test
    returns, None if code follows the rule.
    """
    head = rule.head
    scope = state.env.scope(state.multiplicity.outer(rule))
    with scope, state.code.at(rule.span), state.scope(), state.code.leaving(leave):
        trace(state, rule)
        # Of a set or object the others fail in most evaluations: only an answer is noted.
        is_joined = rule.head.key is not None or patterns is not None
        if not is_joined:
            state.code.note_failures(state.plan.mark(rule))
        late: list[tuple[Term, str]] = []
        for parameter, arg in zip(head.args or (), args, strict=False) if patterns is None else ():
            match(state, parameter, Operand(load(arg)))
        for pattern, arg in zip(patterns or (), args, strict=False):
            # OPA compares a key that is a collection with a variable, behind the body.
            is_behind = (
                state.plan.exact
                and pattern is not head.key
                and isinstance(pattern, Array | Object | Set)
            )
            if not is_behind and is_pattern(
                pattern, state.env.names(), state.env.outer, state.plan.callees.arity
            ):
                match(state, pattern, Operand(load(arg)))
            else:
                late.append((pattern, arg))
        state.writers.body(state, rule.body)
        for pattern, arg in late:
            match(state, pattern, Operand(load(arg)))
        yield
