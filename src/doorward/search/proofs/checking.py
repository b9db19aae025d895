"""Replays the steps of a refutation, from the texts of the residual alone.

The checker shares no code with the refuter. Expressions are parsed again, values are compared by
queries to an engine, texts by automata, and anything that does not fit exactly is refused.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, Final, TypeAlias

from doorward.base.records import record, replace
from doorward.rego import UNDEFINED, CompileError, Engine, EvalError, to_python, to_rego
from doorward.rego.shared import ParseError, Source
from doorward.rego.tools import (
    Array,
    Call,
    Every,
    Expr,
    Module,
    Object,
    Ref,
    Rule,
    Scalar,
    Set,
    Var,
    kinds,
    parse_query,
    rewrite,
    walk,
)
from doorward.search.patience import has_result
from doorward.search.proofs.automata import (
    TOP,
    Automaton,
    have_no_text,
    of_characters,
    of_glob,
    of_pattern,
    of_text,
    union,
)
from doorward.search.proofs.intervals import rules_out
from doorward.search.proofs.reading import (
    Comparison,
    adds_member,
    denies_fields,
    denies_items,
    equate,
    equations_of,
    has_inner,
    has_number,
    is_below,
    is_constant,
    is_small,
    is_true_rule,
    meet,
    names_of,
    pair_items,
    path_of,
    put_terms,
    read_fields,
    reads,
    set_at,
    sides_of,
    start_of,
    text_of,
    turn,
    variables_of,
)
from doorward.search.proofs.steps import (
    Alias,
    Bounds,
    Cases,
    Contradiction,
    Cycle,
    Denied,
    Derived,
    Empty,
    Fails,
    Instance,
    Named,
    Opposite,
    Same,
    Shape,
    Split,
    Step,
    Texts,
    Undefined,
)

__all__ = ["Checker"]

_Values: TypeAlias = Sequence[tuple[str, Any]]
"""The texts of terms, each with the value that the term has."""
_ONE_ANSWER: Final = ("time.now_ns", "io.jwt.decode_verify")
"""Built-ins that are not pure but give the same answer for the same operands within one
evaluation.
"""
_BY_VALUE: Final = {
    # comparisons and sums
    *("eq", "equal", "neq", "lt", "lte", "gt", "gte", "plus", "minus", "mul", "count"),
    # kinds
    *("is_number", "is_string", "is_boolean", "is_null", "is_array", "is_object", "is_set"),
    # texts, which no number is
    *("startswith", "endswith", "contains", "lower", "upper", "glob.match", "regex.match"),
    *("split", "concat", "trim", "trim_prefix", "trim_suffix", "internal.member_2"),
}
"""Built-ins whose result depends only on the values of numbers, not on how they are written (`1` or
`1.0`).
"""
_TURNED_BY_NOT: Final = {"lt": ">=", "lte": ">", "gt": "<=", "gte": "<", "neq": "="}
"""For each comparison, the operator of the one that holds if it does not: Rego's order is total, so
one of the two holds for any two values.
"""
_SECONDS: Final = 1.0
"""The limit of one evaluation, in seconds of processor time."""
_SLICE: Final = 0x1000
"""The number of characters whose case is tested in one evaluation."""
_YES: Final = Expr(Scalar(True))
_NO_OPPOSITE: Final = (
    "invalid proof step: the expression is not a negated comparison, or a negated membership in a "
    "constant"
)
_SAMPLE: Final = "sample"
"""The field of the input that has the sample values of a term."""
_NO_TEXTS: Final[Sequence[Any]] = (
    *(None, False, True, 0, 1, -1.5, [], ["a"], [[]], {}, {"a": "a"}, {"": ""}),
    *(frozenset(), frozenset({"a"})),
)
"""Sample values of all types but texts."""


@record
class _Premises:
    """The expressions that hold at a step of a proof, by position. `values`: terms with the values
    that are assumed for them.
    """

    exprs: tuple[Expr, ...]
    values: tuple[tuple[str, Any], ...] = ()


class _ByPosition(tuple[Expr, ...]):
    """The expressions that hold at a step. IndexError for a negative position: it would be a second
    name of an expression, and steps compare positions.
    """

    __slots__ = ()

    def __getitem__(self, position: Any) -> Any:
        if type(position) is int and position < 0:
            raise IndexError(position)
        return super().__getitem__(position)


class Checker:
    """Checks the steps of a proof against one residual. `engine` has the policies and the support
    modules, `support` are these modules. `input` is the known part of the input,
    without the paths `unknown`.
    """

    def __init__(
        self,
        engine: Engine,
        support: Sequence[Module],
        input: Any = None,
        unknown: Sequence[Sequence[str]] = ((),),
    ) -> None:
        self._engine = engine
        self._support = support
        self._input = {} if input is None else to_python(input)
        self._unknown = unknown
        self._plain = Engine()

    def accepts(self, refutation: Step | None, texts: Sequence[str]) -> bool:
        """Return True if the steps are a valid refutation of the conjunction of `texts`. False if
        there are no steps (None), or if one does not fit or cannot be checked.
        """
        try:
            exprs = tuple(self._parse(text, number) for number, text in enumerate(texts))
            return refutation is not None and self._refutes(refutation, _Premises(exprs))
        # A step that cannot be replayed is refused: an error must never let a proof pass.
        except (CompileError, EvalError, ParseError, IndexError, ValueError):
            return False

    def _parse(self, text: str, number: int) -> Expr:
        """Parse an expression of a conjunction. A built-in called with an output operand, `f(x,
        y)`, becomes the equation `f(x) = y`. Each `_` becomes a variable with `number` in its name,
        so that those of different expressions differ.
        """
        (expr,) = parse_query(Source("", text), v0=False)
        wildcards = [name for name in variables_of(expr) if name.startswith("$")]
        expr = put_terms(expr, {name: Var(f"_any{number}_{name[1:]}") for name in wildcards})
        call = expr.term
        builtin = self._engine.registry.get(call.name) if isinstance(call, Call) else None
        if not isinstance(call, Call) or builtin is None or builtin.relation:
            return expr
        if len(call.args) != len(builtin.signature.args) + 1:
            return expr
        first: Any = Call(call.operator, call.args[:-1])
        return Expr(equate(first, call.args[-1]), expr.negated, expr.withs)

    def _refutes(self, refutation: Step, premises: _Premises) -> bool:
        """Return True if a step refutes the expressions in `premises`: at once, or by a change
        after which its further steps refute them. False for a step that does not.

        CompileError, EvalError, ParseError, IndexError and ValueError mean that a step does not
        fit.
        """
        exprs = _ByPosition(premises.exprs)
        match refutation:
            case Contradiction(positive, negative):
                one, other = exprs[positive], exprs[negative]
                is_opposite = not one.negated and other.negated and one.term == other.term
                # Equal numbers may be written in two paths, which some built-ins tell apart.
                is_opposite &= text_of(other) == f"not {text_of(one)}"
                return is_opposite and self._is_steady(one) and self._is_steady(other)
            case Cycle(positions):
                return self._is_cycle([exprs[each] for each in positions])
            case Bounds(position):
                comparisons = [self._read_comparison(expr) for expr in exprs]
                sides, others = comparisons[position], [each for each in comparisons if each]
                return sides is not None and rules_out(sides, others)
            case Denied(negative, (module, rule), body):
                return self._is_denied(exprs, negative, module, rule, body)
            case Fails(position):
                return self._fails(exprs[position], premises.values)
            case Undefined(position, call):
                return self._has_no_value(exprs[position], call, premises.values)
            case Texts(term, positions):
                return self._has_no_text(term, [exprs[each] for each in positions])
            case Empty(empty, member):
                return empty != member and denies_items(exprs[empty], exprs[member])
            case Shape(negative, reader):
                return negative != reader and denies_fields(exprs[negative], exprs[reader])
            case Cases():
                return self._is_in_cases(refutation, premises)
            case Same(first, second, then):
                values = self._pairs(exprs[first], exprs[second]) if first != second else {}
                return bool(values) and self._refutes(then, self._change(premises, values))
            case Alias(position, then):
                values = self._alias(exprs, position)
                return bool(values) and self._refutes(then, self._change(premises, values))
            case Instance(every, member, item, then):
                added = self._instance(exprs, every, member, item)
                return self._refutes(then, replace(premises, exprs=(*exprs, *added)))
            case Derived(rule, values, body, then):
                fact = self._derive_fact(exprs, rule, dict(values), body)
                return self._refutes(then, replace(premises, exprs=(*exprs, fact)))
            case Named(position, path, then):
                fact = self._rename_support(exprs[position], path)
                return self._refutes(then, replace(premises, exprs=(*exprs, fact)))
            case Opposite(positions, then):
                added = [each for n in positions for each in self._opposites(exprs[n])]
                return self._refutes(then, replace(premises, exprs=(*exprs, *added)))
            case Split(position, cases):
                bodies = self._bodies(exprs, position)
                return len(bodies) == len(cases) and all(
                    self._refutes(then, replace(premises, exprs=(*exprs, *body)))
                    for then, body in zip(cases, bodies, strict=True)
                )

    def _is_true(self, text: str) -> bool:
        return self._plain.prepare(text).value() is True

    # What an expression may depend on

    def _calls(self, expr: Expr) -> list[str]:
        """Return the names of the built-ins that an expression may call; if it reads `data`, those
        that any policy calls, too.
        """
        nodes = list(walk(expr))
        calls = _builtins_in(nodes)
        if any(isinstance(node, Ref) and node.head == Var("data") for node in nodes) or any(
            isinstance(node, Call) and node.operator.head == Var("data") for node in nodes
        ):
            calls += self._calls_of_rules
        return calls

    @cached_property
    def _calls_of_rules(self) -> list[str]:
        """The names of the built-ins that the rules of the policies call."""
        return _builtins_in([node for tree in self._engine.trees.values() for node in walk(tree)])

    def _is_pure(self, expr: Expr) -> bool:
        """Return True if an expression calls only pure built-ins and, if it reads `data`, all
        policies do; False with `with`.
        """
        builtins = [self._engine.registry.get(name) for name in self._calls(expr)]
        return not expr.withs and all(each is None or each.pure for each in builtins)

    def _is_steady(self, expr: Expr) -> bool:
        """Return True if each call in an expression has one result in one evaluation: the built-ins
        that it and, if it reads `data`, all policies call are pure or in `_ONE_ANSWER`, and it
        calls no relation. False with `with`.
        """
        for node in walk(expr):
            builtin = self._engine.registry.get(node.name) if isinstance(node, Call) else None
            if builtin is not None and builtin.relation:
                return False
        builtins = [self._engine.registry.get(name) for name in self._calls(expr)]
        return not expr.withs and all(
            each is None or each.pure or each.name in _ONE_ANSWER for each in builtins
        )

    # Steps that close

    def _is_cycle(self, exprs: Sequence[Expr]) -> bool:
        """Return True if the comparisons, in this order, form a cycle that cannot hold, such as `a
        < b`, `b <= a`. False if an expression is not a comparison, has inner bodies or is not
        steady.
        """
        links = []
        for expr in exprs:
            sides = sides_of(expr)
            if sides is None or has_inner(expr) or not self._is_steady(expr):
                return False
            links.append(sides)
        # Each comparison may be read from its left or from its right.
        paths = [[links[0]], [turn(links[0])]] if links else []
        for link in links[1:]:
            paths = [
                [*path, each]
                for path in paths
                for each in (link, turn(link))
                if self._follow(path[-1][2], each[0])
            ]
        return any(self._is_closed(path) for path in paths)

    def _read_comparison(self, expr: Expr) -> Comparison | None:
        """Return an expression as a comparison; None for other expressions, and for one that has
        inner bodies or is not steady.
        """
        is_usable = not has_inner(expr) and self._is_steady(expr)
        return sides_of(expr) if is_usable else None

    def _follow(self, term: Any, other: Any) -> bool:
        """Return True if it is certain that `term` <= `other`: they have the same text, are
        constants in this order, or sums of one term with integers in this order.
        """
        if text_of(Expr(term)) == text_of(Expr(other)) or is_below(term, other):
            return True
        are_constants = is_constant(term) and is_constant(other)
        return are_constants and self._is_true(f"{text_of(Expr(term))} <= {text_of(Expr(other))}")

    def _is_closed(self, path: Sequence[Comparison]) -> bool:
        """Return True if the comparisons, one or more in this order, lead back to their start
        (`_follow`) and cannot hold together: one of them is `<` beside `<=` and `==`, or one is
        `!=` beside `==`, or a constant is followed by a greater one.
        """
        signs = [sign for _, sign, _ in path]
        ends = [(path[-1][2], path[0][0])] + [(one[2], two[0]) for one, two in pairwise(path)]
        if not all(self._follow(*each) for each in ends):
            return False
        gaps = [each for each in ends if text_of(Expr(each[0])) != text_of(Expr(each[1]))]
        constant = [gap for gap in gaps if all(map(is_constant, gap))]
        rises = [self._is_true(f"{text_of(Expr(a))} < {text_of(Expr(b))}") for a, b in constant]
        if "!=" in signs:
            if constant != gaps:
                return False
            return signs.count("!=") == 1 and set(signs) <= {"!=", "=="} and not any(rises)
        return set(signs) <= {"<", "<=", "=="} and ("<" in signs or any(rises))

    def _is_denied(
        self,
        exprs: Sequence[Expr],
        negative: int,
        module: int,
        number: int,
        body: tuple[int, ...],
    ) -> bool:
        """Return True if the negation of a support rule at `negative` cannot hold, since the
        expressions of the rule's body are in the conjunction, at the positions `body`. False if the
        body has variables, a `with` or an expression that is not steady.
        """
        expr = exprs[negative]
        if not expr.negated or expr.withs or not isinstance(expr.term, Ref):
            return False
        tree = self._support[module]
        rule = tree.rules[number]
        if not is_true_rule(rule) or path_of(tree, rule) != names_of(expr.term, "data"):
            return False
        if len(rule.body) != len(body):
            return False
        for each, position in zip(rule.body, body, strict=True):
            same = exprs[position]
            if position == negative or text_of(each) != text_of(same) or each.withs:
                return False
            if not self._is_steady(same) or variables_of(each):
                return False
        return True

    def _fails(self, expr: Expr, values: _Values) -> bool:
        """Return True if an evaluation shows that an expression does not hold when terms have these
        values. False if it holds, calls a built-in that is not pure, or depends on unknown parts of
        the input or on how a number is written. EvalError if the evaluation fails or takes too
        long.
        """
        if not self._is_pure(expr):
            return False
        if any(has_number(value) for _, value in values) and not self._sees_values(expr, values):
            return False
        document: Any = copy.deepcopy(self._input)
        leaves: list[tuple[Any, ...]] = []
        fields: dict[str, str] = {}
        for number, (term, value) in enumerate(values):
            (parsed,) = parse_query(Source("", term), v0=False)
            leaf = names_of(parsed.term, "input")
            if leaf is None:
                fields[term] = f"term {number}"
                leaf = (fields[term],)
                if has_inner(expr) and variables_of(parsed):
                    return False
            leaves.append(leaf)
            if leaf:
                set_at(document, leaf, value)
            else:
                document = copy.deepcopy(value)
        query = self._engine.prepare(text_of(read_fields(expr, fields)))
        for path in query.documents.base:
            names = tuple(path)
            if names[:1] != ("input",) or any(names[1 : 1 + len(leaf)] == leaf for leaf in leaves):
                continue
            if any(meet(names[1:], other) for other in self._unknown):
                return False
        return not has_result(query, document, _SECONDS)

    def _has_no_value(self, expr: Expr, call: str, values: _Values) -> bool:
        """Return True if `call`, the text of a call in an expression, is certainly undefined when
        terms have these values. False for an expression with `not`, `with` or inner bodies, and if
        it does not contain the call.
        """
        if expr.negated or expr.withs or has_inner(expr):
            return False
        calls = [n for n in walk(expr) if isinstance(n, Call) and text_of(n) == call]
        if not calls:
            return False
        builtin = self._engine.registry.get(calls[0].name)
        # Others may answer for operands of any type, as `json.is_valid` does.
        if builtin is not None and builtin.name in _ONE_ANSWER:
            known = dict(values)
            for arg, declared in zip(calls[0].args, builtin.signature.args, strict=False):
                value = known.get(text_of(arg), "")
                if kinds(declared) == ("string",) and not isinstance(value, str):
                    return True
        return self._fails(Expr(equate(Var("some_value"), calls[0])), values)

    def _opposites(self, expr: Expr) -> list[Expr]:
        """Return the opposite of a negated comparison (`not a < b` gives `a >= b`), or of a negated
        membership in a constant collection (one `!=` for each member), which hold if the negation
        does. ValueError for any other expression, and for one that has inner bodies or is not
        steady.
        """
        call = expr.term
        if not expr.negated or has_inner(expr) or not self._is_steady(expr):
            raise ValueError(_NO_OPPOSITE)
        if isinstance(call, Call) and len(call.args) == 2:
            left, right = (text_of(arg) for arg in call.args)
            if call.name in _TURNED_BY_NOT:
                return [self._read(f"{left} {_TURNED_BY_NOT[call.name]} {right}")]
            if call.name == "internal.member_2" and is_constant(call.args[1]):
                members: Any = self._plain.prepare(f"sort([each | some each in {right}])").value()
                return [self._read(f"{left} != {to_rego(each)}") for each in members]
        raise ValueError(_NO_OPPOSITE)

    @staticmethod
    def _read(text: str) -> Expr:
        (expr,) = parse_query(Source("", text), v0=False)
        return expr

    def _sees_values(self, expr: Expr, values: _Values) -> bool:
        """Return True if an expression, when terms have these values, certainly treats equal
        numbers alike, however they are written: all numbers are small, keys of references are
        constants, and it calls only functions in `_BY_VALUE`.
        """
        scalars = [node.value for node in walk(expr) if isinstance(node, Scalar)]
        numbers = [each for each in scalars if isinstance(to_python(each), (int, float))]
        if not all(is_small(each) for each in [*numbers, *(value for _, value in values)]):
            return False
        keys = [arg for node in walk(expr) if isinstance(node, Ref) for arg in node.args]
        are_written = all(isinstance(key, Scalar) for key in keys)
        return are_written and set(self._calls(expr)) <= _BY_VALUE

    def _has_no_text(self, term: str, exprs: Sequence[Expr]) -> bool:
        """Return True if no text for `term` satisfies all the expressions, one of which requires a
        text. False if an expression has inner bodies or is not steady; ValueError if `_texts_of`
        does not support one.
        """
        conditions: list[tuple[Automaton, bool]] = []
        needs_text = False
        for expr in exprs:
            if not self._is_steady(expr) or has_inner(expr):
                return False
            needed, options = self._texts_of(term, expr)
            needs_text |= needed
            conditions += options
        return needs_text and have_no_text(conditions)

    def _texts_of(self, term: str, expr: Expr) -> tuple[bool, list[tuple[Automaton, bool]]]:
        """Return True if the expression requires the term to be a text, and the automata that it
        must or must not satisfy. ValueError if not supported, or if the engine's answers for
        sample values differ from the automata.
        """
        call, is_true = expr.term, not expr.negated
        if isinstance(call, Call) and call.name in ("eq", "equal") and not expr.negated:
            for inner, answer in (call.args, call.args[::-1]):
                is_answer = isinstance(answer, Scalar) and isinstance(answer.value, bool)
                if isinstance(inner, Call) and is_answer:
                    call, is_true = inner, answer == Scalar(True)
                    break
        if not isinstance(call, Call):
            raise ValueError(
                "invalid proof step: the expression is not a supported condition on a text"
            )
        # `!=` is true for the texts that its automaton refuses.
        is_accepted = is_true is not (call.name == "neq")
        automata = self._automata(term, call)
        if is_accepted and len(automata) != 1:
            automata = [union(automata)]
        conditions = [(each, is_accepted) for each in automata]
        return self._needs_text(term, expr, conditions), conditions

    def _needs_text(
        self, term: str, expr: Expr, conditions: Sequence[tuple[Automaton, bool]]
    ) -> bool:
        """Return True if an expression holds only if the term is a text, as its evaluation for
        sample values of the term shows.

        ValueError if the expression does not read the term alone, or holds for other sample texts
        than `conditions` say. So a mistake in how expressions are read, which the refuter may
        share, does not pass.
        """
        query = self._plain.prepare(text_of(read_fields(expr, {term: _SAMPLE})))
        if set(query.documents.base) != {("input", _SAMPLE)}:
            raise ValueError("invalid proof step: the expression does not read the term alone")

        def holds(document: Any) -> bool:
            return has_result(query, document, _SECONDS)

        for text in _sample_texts(expr):
            is_included = all(each.accepts(text) is accepted for each, accepted in conditions)
            if holds({_SAMPLE: text}) is not is_included:
                raise ValueError(
                    "invalid proof step: the expression holds for other texts than its automata"
                )
        return not holds({}) and not any(holds({_SAMPLE: each}) for each in _NO_TEXTS)

    def _automata(self, term: str, call: Call) -> list[Automaton]:
        """Return automata for the term's texts: a text satisfies the call if one of them accepts
        it. ValueError if the call is not supported.
        """
        around = [self._cases_of(arg, term) for arg in call.args]
        constants = [self._constant(arg) for arg in call.args]
        operand, automata = self._accepting(call, around, constants, term)
        for name in around[operand] or ():
            automata = [each.before(_case_table(name)) for each in automata]
        return automata

    def _accepting(
        self, call: Call, around: Sequence[list[str] | None], constants: Sequence[Any], term: str
    ) -> tuple[int, list[Automaton]]:
        """Return the index of the operand that depends on the term, and automata: the call holds
        for the texts of this operand that one of them accepts, `!=` for the others. `around`: by
        operand, the `lower` and `upper` calls around the term, None for one without the term;
        `constants`: by operand, UNDEFINED for others. ValueError for a call that is not supported.
        """
        match call.name, len(around):
            case (("eq" | "equal" | "neq"), 2):
                for at in (0, 1):
                    if around[at] is not None and type(constants[1 - at]) is str:
                        return at, [of_text(constants[1 - at])]
                for at in (0, 1):
                    names = around[at] or []
                    if len(names) == 1 and text_of(Expr(call.args[1 - at])) == term:
                        # `lower(x) == x`: x has no character that `lower` changes.
                        return 1 - at, [of_characters(_case_table(names[0]))]
            case "internal.member_2", 2 if around[0] is not None:
                text = f"[each | some each in {text_of(Expr(call.args[1]))}]"
                if is_constant(call.args[1]):
                    members: Any = self._plain.prepare(text).value()
                    if all(type(each) is str for each in members):
                        return 0, [of_text(each) for each in members]
            case (("startswith" | "endswith" | "contains"), 2) if around[0] is not None:
                if type(constants[1]) is str:
                    before, after = call.name != "startswith", call.name != "endswith"
                    return 0, [of_text(constants[1], before=before, after=after)]
            case "glob.match", 3 if around[2] is not None and type(constants[0]) is str:
                stops = constants[1]
                if stops is None or (isinstance(stops, list) and is_constant(call.args[1])):
                    return 2, [of_glob(constants[0], stops)]
            case "regex.match", 2 if around[1] is not None and type(constants[0]) is str:
                return 1, [of_pattern(constants[0])]
        raise ValueError("invalid proof step: no automaton is known for a call with these operands")

    def _cases_of(self, operand: Any, term: str) -> list[str] | None:
        """Return the names of `lower` and `upper` calls around a term, outermost first; None if the
        operand is anything but the term within such calls.
        """
        names: list[str] = []
        while text_of(Expr(operand)) != term:
            if not isinstance(operand, Call) or operand.name not in ("lower", "upper"):
                return None
            names.append(operand.name)
            (operand,) = operand.args
        return names

    def _constant(self, term: Any) -> Any:
        """Return the value of a constant term; UNDEFINED for other terms."""
        if not is_constant(term):
            return UNDEFINED
        return self._plain.prepare(text_of(Expr(term))).value()

    # Steps that change

    def _is_in_cases(self, cases: Cases, premises: _Premises) -> bool:
        """Return True if the cases are the values that the expression at `cases.source` allows for
        the term, one case for each, and each case is refuted.

        False if the term is a path of the input that is known, or that overlaps a path with an
        assumed value; also if the term is the whole input and another term has an assumed value, or
        the other way round.
        """
        exprs = _ByPosition(premises.exprs)
        source = exprs[cases.source]
        if has_inner(source) or not self._is_steady(source):
            return False
        if cases.reader is None:
            values = self._values(source, cases.term)
        else:
            reader = exprs[cases.reader]
            is_read = cases.reader != cases.source and not reader.negated and not reader.withs
            is_read &= not has_inner(reader) and reads(reader, cases.term)
            is_denial = source.negated and isinstance(source.term, Ref)
            is_same = text_of(Expr(source.term)) == cases.term
            values = [False] if is_read and is_denial and is_same else None
        if values is None or len(values) != len(cases.cases):
            return False
        assumed = [value for value, _ in cases.cases]
        if not all(self._is_true(f"{to_rego(v)} in {to_rego(assumed)}") for v in values):
            return False
        (parsed,) = parse_query(Source("", cases.term), v0=False)
        leaf = names_of(parsed.term, "input")
        if leaf is not None:
            others = [
                parse_query(Source("", each), v0=False)[0].term for each, _ in premises.values
            ]
            paths = [path for each in others if (path := names_of(each, "input")) is not None]
            # `meet` holds for the input itself and any part of it.
            if (not leaf and others) or any(meet(leaf, path) for path in paths):
                return False
            if not any(meet(leaf, other) for other in self._unknown):
                return False
        elif any(each == "input" for each, _ in premises.values):
            return False
        return all(
            self._refutes(then, replace(premises, values=(*premises.values, (cases.term, value))))
            for value, then in cases.cases
        )

    def _values(self, expr: Expr, term: str) -> list[Any] | None:
        """Return the values that an expression allows for a term; None unless it equates the term
        with a constant, or tests whether it is a member of one, without `not`. `expr` must have no
        `with`.
        """
        call = expr.term
        if expr.negated or not isinstance(call, Call) or len(call.args) != 2:
            return None
        if call.name in ("eq", "equal"):
            for one, other in (call.args, call.args[::-1]):
                if text_of(Expr(one)) == term and is_constant(other) and not is_constant(one):
                    return [self._constant(other)]
        is_member = call.name == "internal.member_2" and text_of(Expr(call.args[0])) == term
        if not is_member or not is_constant(call.args[1]):
            return None
        items = f"[each | some each in {text_of(Expr(call.args[1]))}]"
        values: Any = self._plain.prepare(items).value()
        return list(values)

    def _pairs(self, first: Expr, second: Expr) -> dict[str, Any]:
        """Return values for variables of the second equation, by name, if both equations equate the
        same call: the different variable at the same position of the first one. Each variable is
        paired at most once. {} if there is no such pair, or an equation has inner bodies or is not
        steady.
        """
        if not (self._is_steady(first) and self._is_steady(second)):
            return {}
        if has_inner(first) or has_inner(second):
            return {}
        for one, call in equations_of(first):
            for other, same in equations_of(second):
                if not isinstance(call, Call) or text_of(Expr(call)) != text_of(Expr(same)):
                    continue
                values: dict[str, Any] = {}
                for left, right in pair_items(one, other):
                    if not isinstance(left, Var) or not isinstance(right, Var) or left == right:
                        continue
                    used = {each.name for each in values.values()} | set(values)
                    if right.name not in used and left.name not in values:
                        values[right.name] = left
                return values
        return {}

    def _alias(self, exprs: Sequence[Expr], position: int) -> dict[str, Any]:
        """Return a variable's name and the reference or call that equals it by the equation at
        `position`; {} if there is none, or none that may replace it.
        """
        for variable, other in equations_of(exprs[position]):
            if not isinstance(variable, Var) or variable.name in ("input", "data"):
                continue
            if variable.name in variables_of(other) or has_inner(Expr(other)):
                continue
            if isinstance(other, Ref) and isinstance(other.head, Var):
                return {variable.name: other}
            heads = [n.head for each in exprs for n in walk(each) if isinstance(n, Ref)]
            if isinstance(other, Call) and variable not in heads:
                return {variable.name: other} if self._is_steady(exprs[position]) else {}
        return {}

    def _change(self, premises: _Premises, values: dict[str, Any]) -> _Premises:
        return replace(
            premises, exprs=tuple(self._replace(expr, values) for expr in premises.exprs)
        )

    def _replace(self, expr: Expr, values: dict[str, Any]) -> Expr:
        """Return an expression with terms put in for variables. It becomes `true`, so that it
        proves nothing, if the change might alter its meaning.
        """
        if not set(values) & variables_of(expr):
            return expr
        if has_inner(expr):
            every = expr.term
            is_every = isinstance(every, Every) and not expr.negated and not expr.withs
            if not isinstance(every, Every) or not is_every or has_inner(Expr(every.domain)):
                return _YES
            if any(set(values) & variables_of(each) for each in every.body):
                return _YES
            domain: Any = put_terms(Expr(every.domain), values).term
            return Expr(Every(every.key, every.value, domain, every.body))
        if expr.withs or not self._reads_by_value(expr.term, set(values)):
            return _YES
        return put_terms(expr, values)

    def _reads_by_value(self, node: Any, names: set[str]) -> bool:
        """Return True if a node depends only on the values of the named variables, and not on how
        numbers in them are written (`1` or `1.0`), so that an equal term may stand for each. False
        if that is not certain: for functions of policies, variables as keys of a reference, and
        most built-ins.
        """
        if not variables_of(Expr(node)) & names:
            return True
        if isinstance(node, Call):
            builtin = self._engine.registry.get(node.name)
            if builtin is None:
                return False
            declared = builtin.signature.args
            for number, arg in enumerate(node.args):
                if not variables_of(Expr(arg)) & names or node.name in _BY_VALUE:
                    continue
                is_result = number == len(declared)
                is_text = number < len(declared) and kinds(declared[number]) == ("string",)
                if not is_result and not is_text:
                    return False
            return all(self._reads_by_value(arg, names) for arg in node.args)
        if isinstance(node, Ref):
            is_keyed = any(variables_of(Expr(arg)) & names for arg in node.args)
            return not is_keyed and self._reads_by_value(node.head, names)
        if isinstance(node, Object):
            return all(self._reads_by_value(part, names) for pair in node.items for part in pair)
        if isinstance(node, (Array, Set)):
            return all(self._reads_by_value(item, names) for item in node.items)
        return isinstance(node, Var)

    def _instance(self, exprs: Sequence[Expr], position: int, member: int, item: str) -> list[Expr]:
        """Return the body of the `every` at `position` for an item of its domain, which the
        expression at `member` reads. ValueError if there is no such `every`, if it is negated or
        has `with`, if `item` is not such an item, or if the expression at `member` is the `every`
        itself, does not read `item`, is negated, or has `with` or a body inside.
        """
        every, reader = exprs[position], exprs[member]
        if every.negated or every.withs or not isinstance(every.term, Every):
            raise ValueError("invalid proof step: the expression is not an `every`")
        (parsed,) = parse_query(Source("", item), v0=False)
        term: Any = parsed.term
        domain = Ref(term.head, term.args[:-1])
        is_read = position != member and not reader.negated and not reader.withs
        is_read &= not has_inner(reader) and reads(reader, item)
        if not is_read:
            raise ValueError(
                "invalid proof step: the expression does not read the item, is negated, or has "
                "`with` or a body"
            )
        if text_of(Expr(domain)) != text_of(Expr(every.term.domain)):
            raise ValueError("invalid proof step: the item is not one of the domain of the `every`")
        plain = [expr for n, expr in enumerate(exprs) if n != position and not has_inner(expr)]
        outer = {name for expr in plain for name in variables_of(expr)}
        bound: dict[str, Any] = {every.term.value.name: term}
        if every.term.key is not None:
            bound[every.term.key.name] = term.args[-1]
        inner = {name for expr in every.term.body for name in variables_of(expr)}
        bound |= self._fresh(exprs, inner - set(bound) - outer)
        return [self._replace(expr, bound) for expr in every.term.body]

    def _fresh(self, exprs: Sequence[Expr], names: set[str]) -> dict[str, Any]:
        """Return a variable with a new name for each of the names; ValueError if `exprs` use one of
        the new names already, or two names get the same new one.
        """
        suffix = f"_at{len(exprs)}"
        new = {
            name: Var(f"_any{name[1:]}{suffix}" if name.startswith("$") else f"{name}{suffix}")
            for name in names
        }
        used = {name for expr in exprs for name in variables_of(expr)}
        if used & {each.name for each in new.values()} or len(set(new.values())) != len(new):
            raise ValueError("invalid proof step: a new name is in use already")
        return new

    def _bodies(self, exprs: Sequence[Expr], position: int) -> list[list[Expr]]:
        """Return the bodies of the support rule to which the expression at `position` refers, or of
        the support set in which it states a member; one of them holds if the expression does. Their
        variables get new names; those of a set end with the equation of the stated and the rule's
        member.

        Raise ValueError for other expressions, negated ones and those with `with` included, and for
        rules of another form.
        """
        expr = exprs[position]
        term: Any = expr.term
        key = None
        if expr.negated or expr.withs or not isinstance(term, (Ref, Call)):
            raise ValueError(
                "invalid proof step: the expression is negated, has `with`, or is not a reference"
            )
        if isinstance(term, Call):
            if term.name != "internal.member_2" or len(term.args) != 2:
                raise ValueError("invalid proof step: the call is not `x in support_set`")
            key, term = term.args
        rules = self._rules(names_of(term, "data"))
        if not rules and key is None and term.args:
            key = term.args[-1]
            rules = self._rules(names_of(Ref(term.head, term.args[:-1]), "data"))
        if not rules or not all(is_true_rule(r) if key is None else adds_member(r) for r in rules):
            raise ValueError("invalid proof step: no support rule of this form has the name")
        bodies = []
        for rule in rules:
            head: Any = rule.head.key
            names = {name for each in rule.body for name in variables_of(each)}
            names |= set() if head is None else variables_of(Expr(head))
            new = self._fresh(exprs, names)
            body = [self._replace(each, new) for each in rule.body]
            if key is not None:
                member = put_terms(Expr(head), new).term
                body.append(Expr(equate(key, member)))
            bodies.append(body)
        return bodies

    def _derive_fact(
        self,
        exprs: Sequence[Expr],
        rule: tuple[int, int],
        values: dict[str, str],
        body: Sequence[int],
    ) -> Expr:
        """Return the fact that a support rule gives, since its body with `values` is in the
        conjunction at the positions `body`. `rule`: the numbers of the support module and of its
        rule; `values`: the terms of its variables, as texts.

        Raise ValueError if the body is not there, or if the rule has another form; IndexError for a
        number that is too large; ParseError for a text that is not valid Rego.
        """
        tree = self._support[rule[0]]
        definition, path = tree.rules[rule[1]], path_of(tree, tree.rules[rule[1]])
        terms = {name: parse_query(Source("", v), v0=False)[0].term for name, v in values.items()}
        if path is None:
            raise ValueError("invalid proof step: the path of the rule is not constant")
        if len(definition.body) != len(body):
            raise ValueError(
                "invalid proof step: the rule's body has another number of expressions"
            )
        for each, position in zip(definition.body, body, strict=True):
            fact = exprs[position]
            if each.withs or (has_inner(each) and variables_of(each)):
                raise ValueError(
                    "invalid proof step: an expression of the body has `with`, or variables of its "
                    "own"
                )
            if text_of(put_terms(each, terms)) != text_of(fact) or not self._is_steady(fact):
                raise ValueError(
                    "invalid proof step: an expression of the body is not known to hold"
                )
        document = Ref(Var("data"), tuple(map(Scalar, path)))
        if is_true_rule(definition):
            return Expr(document)
        key: Any = definition.head.key
        is_value = key is not None and not any(isinstance(node, Call) for node in walk(key))
        if not adds_member(definition) or not is_value or not variables_of(key) <= set(terms):
            raise ValueError(
                "invalid proof step: the rule is neither true nor adds a known member to a set"
            )
        member: Any = put_terms(Expr(key), terms).term
        (fact,) = parse_query(Source("", f"{text_of(member)} in {text_of(document)}"), v0=False)
        return fact

    def _rename_support(self, expr: Expr, path: tuple[str, ...]) -> Expr:
        """Return `expr` with an input path replaced by the support rule at `path` that has its
        value.

        A support rule: one that partial evaluation added. Raise ValueError if the rule does not
        have the value of an input path, or if `expr` is negated or has `with` or a body.
        """
        (rule,) = [each for each in self._rules(path) if not each.default]
        part = self._value_of_rule(rule)
        if part is None:
            raise ValueError(
                "invalid proof step: the rule does not have the value of an input path"
            )
        if expr.negated or expr.withs or has_inner(expr):
            raise ValueError(
                "invalid proof step: no input path is replaced in an expression that is negated, "
                "or has `with` or a body"
            )
        size = len(part.args)

        def change(node: Any) -> Any:
            """Replace a reference into the input path by one into the rule."""
            is_part = isinstance(node, Ref) and len(node.args) >= size
            if not is_part or text_of(Ref(node.head, node.args[:size])) != text_of(part):
                return node
            return Ref(Var("data"), (*map(Scalar, path), *node.args[size:]))

        changed: Expr = rewrite(expr, change)
        return changed

    @staticmethod
    def _value_of_rule(rule: Rule) -> Ref | None:
        """Return the input path whose value a rule has; None if it is of another form."""
        head = rule.head
        has_more = head.key is not None or head.args is not None or rule.else_rule is not None
        if has_more or len(rule.body) != 1 or not isinstance(head.value, Var):
            return None
        for variable, term in equations_of(rule.body[0]):
            if variable == head.value and names_of(term, "input"):
                return term if isinstance(term, Ref) else None
        return None

    def _rules(self, path: tuple[str, ...] | None) -> list[Rule]:
        """Return the support rules at a path, without defaults that are false; [] for None.
        ValueError if a rule whose path is not constant may be at, above or below the path.
        """
        if path is None:
            return []
        rules = []
        for tree in self._support:
            for rule in tree.rules:
                names = path_of(tree, rule)
                if names is None and meet(start_of(tree, rule), path):
                    raise ValueError("invalid proof step: the path of a rule is not constant")
                if names == path and not (rule.default and rule.head.value == Scalar(False)):
                    rules.append(rule)
        return rules


@cache
def _case_table(name: str) -> dict[int, int]:
    """Return the code points that `lower` or `upper` changes, with their replacements.

    Raise ValueError if one changes to several characters.
    """
    table: dict[int, int] = {}
    query = Engine().prepare(f"{name}(input)")
    for first in range(0, TOP + 1, _SLICE):
        chars = [c for c in range(first, first + _SLICE) if not 0xD800 <= c <= 0xDFFF]
        changed: Any = query.answer("".join(map(chr, chars)))
        if len(changed) != len(chars):
            raise ValueError(
                f"invalid proof step: `{name}` changes a character to several, so that its texts "
                "cannot be compared"
            )
        pairs = zip(chars, map(ord, changed), strict=True)
        table |= {char: new for char, new in pairs if char != new}
    return table


def _sample_texts(expr: Expr) -> set[str]:
    """Return the texts in an expression, and texts that differ a little from them."""
    constants = [node.value for node in walk(expr) if isinstance(node, Scalar)]
    texts = {"", "a", *(str(each) for each in constants if isinstance(each, str))}
    longer = {part for each in texts for part in (f"{each}a", f"a{each}", each[1:], each[:-1])}
    return {text for each in texts | longer for text in (each, each.upper(), each.lower())}


def _builtins_in(nodes: Iterable[Any]) -> list[str]:
    """Return the names of the built-ins that calls among the nodes name, each once."""
    names = {node.name for node in nodes if isinstance(node, Call)}
    return sorted(name for name in names if not name.startswith("data."))
