"""Partial evaluation: a query, rules, and documents that are not known, to what is left to ask.

    checked program ─lower─▶ rules ─search─▶ saved expressions ─propagate─▶ residual queries
                                       └──▶ support: rules that the queries refer to

For any values of what is unknown the residual answers as the query does. What is known is evaluated
away; what is not is saved as an expression, and every choice that remains is a query of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any, Final

from doorward.base.records import record
from doorward.rego.analysis.passes import Program as Checked
from doorward.rego.analysis.passes import resolved_modules
from doorward.rego.analysis.rule_types import check_body_types
from doorward.rego.errors import LIMIT_ERROR, EvalError
from doorward.rego.partial.context import Conflict, PartialTracer
from doorward.rego.partial.core import (
    DATA,
    INPUT,
    Body,
    Comprehension,
    Constant,
    Expr,
    Ref,
    Rule,
    Term,
    Var,
    bodies,
    equation,
    expr_terms,
    inner_terms,
    is_ground,
    is_path,
    parts,
    variables,
)
from doorward.rego.partial.data_use import DataUse, find_data_use
from doorward.rego.partial.definitions import Definitions, define
from doorward.rego.partial.lower import declared_arity, lower_modules, lower_query
from doorward.rego.partial.options import PartialOptions
from doorward.rego.partial.paths import parse_path
from doorward.rego.partial.program import Program, Settings
from doorward.rego.partial.propagation import Propagation
from doorward.rego.partial.residual import (
    body_to_json,
    body_to_nodes,
    module_to_json,
    module_to_nodes,
    sorted_rules,
    term_to_nodes,
)
from doorward.rego.partial.search import Search
from doorward.rego.partial.settled import Settled
from doorward.rego.partial.text import body_text, module_text
from doorward.rego.runtime.evaluation import Evaluation
from doorward.rego.source import NOWHERE, Span
from doorward.rego.syntax import nodes
from doorward.rego.syntax.term_order import rank
from doorward.rego.values import Boxed, Key, from_key, to_key

__all__ = ["MAX_PARTS", "Lowered", "Partial", "Question", "settings"]

MAX_SHAPES: Final = 4_096
"""The most shapes of bodies whose type checks are cached."""
MAX_UNKNOWNS: Final = 16
"""The most sets of unknown documents whose prepared rules are cached."""
MAX_PARTS: Final = 2_000_000
"""The most terms and values in one residual, counted as often as its text repeats them."""


class Partial:
    """The result of a partial evaluation. Each form of it (trees, text, JSON) is computed at its
    first use.
    """

    def __init__(
        self,
        queries: Sequence[Body],
        support: Sequence[tuple[tuple[Term, ...], list[Rule]]],
        failures: Sequence[tuple[Ref, Span]] = (),
        settled: Settled | None = None,
        consulted: Iterable[str] = (),
        conflicts: Sequence[Conflict] = (),
        definitions: Definitions | None = None,
        *,
        only_truth: bool = False,
        literals: frozenset[Key] = frozenset(),
    ) -> None:
        self._queries = queries
        self._support = support
        self._failures = failures
        self._settled = settled
        self.only_truth = only_truth
        """True if the question was only whether a document is true, not which value it has."""
        self.literals = literals
        """The scalars in the policies, in key form; others in the queries come from the input or
        data.
        """
        self.conflicts = tuple(conflicts)
        """With `only_truth`, rules that may give one document two values."""
        self.definitions = definitions
        """With `only_truth`, the definitions of the queried document, if the queries alone do not
        say where it is true: it may have other values than true and false, or several. None
        otherwise.
        """
        self.consulted = frozenset(consulted)
        """What was used: "rules", "base" for data that is not from rules, and "world" for built-ins
        that are not pure, whose calls are left in the residual.
        """

    @cached_property
    def failures(self) -> tuple[tuple[nodes.Ref, Span], ...]:
        """References to the input in comparisons that did not hold, at most 100, with their
        positions; such a name may be misspelt.
        """
        refs = [(term_to_nodes(ref), span) for ref, span in self._failures]
        return tuple([(ref, span) for ref, span in refs if isinstance(ref, nodes.Ref)])

    @cached_property
    def queries(self) -> tuple[nodes.Body, ...]:
        """The residual queries as syntax trees, one of which must hold: no query means never, an
        empty query always. Computed once.
        """
        if self._settled is None:
            return tuple([body_to_nodes(each) for each in self._queries])
        node = self._settled.node
        return tuple([tuple([node(expr) for expr in each]) for each in self._queries])

    @property
    def kept(self) -> dict[int, Any]:
        """A cache for readers of `queries`: from the `id` of an expression to the reader's result,
        None until it is stored. Only expressions that are the same objects in all residuals of
        these policies have an entry; a reader must not add others.
        """
        return {} if self._settled is None else self._settled.kept

    @cached_property
    def support(self) -> tuple[nodes.Module, ...]:
        """The modules that the queries need beside the original ones."""
        return tuple([module_to_nodes(package, rules) for package, rules in self._support])

    @cached_property
    def query_texts(self) -> tuple[str, ...]:
        """The residual queries, one of which must hold, as Rego text, each on one line; computed
        once.
        """
        return tuple([body_text(each) for each in self._queries])

    @cached_property
    def support_texts(self) -> tuple[str, ...]:
        """The support, rules that the queries refer to, as the Rego text of one module for each
        package; computed once.
        """
        return tuple([module_text(package, rules) for package, rules in self._support])

    @cached_property
    def ast(self) -> dict[str, Any]:
        """The residual queries and the support as JSON in the form of OPA's AST, under `queries`
        and `support`; computed once.
        """
        return {
            "queries": [body_to_json(each) for each in self._queries],
            "support": [module_to_json(package, rules) for package, rules in self._support],
        }


@record
class Question:
    """A query for partial evaluation: its lowered body, and what can be computed before."""

    body: Body
    settings: Settings
    program: Program
    settled: Settled | None
    names: tuple[str, ...]
    """The variables of the query."""
    live: set[str]
    """The variables and documents of the query; they stay bound in the residual."""
    document: Ref | None
    """The document whose truth the query asks for; None if the query is anything else."""


class Lowered:
    """The rules of checked policies, prepared for partial evaluation; thread-safe."""

    def __init__(self, checked: Checked, modules: Iterable[nodes.Module]) -> None:
        sources = list(modules)  # those of a restored program are parsed now
        # The checked program has its modules sorted by name, `sources` has the caller's order.
        numbers = {id(source): n for n, source in enumerate(checked.sources)}
        listed = [numbers[id(module)] for module in sources]
        resolved = resolved_modules(checked)
        # The rules that were in order as they are written are the same ones in both.
        forms = zip(resolved, checked.modules, strict=True)
        pairs = (pair for a, b in forms for pair in zip(a.rules, b.rules, strict=True))
        in_order = frozenset([id(written) for written, ordered in pairs if written is ordered])
        self._checked = checked
        self._rules = lower_modules([resolved[n] for n in listed], checked.callees, in_order)
        self._packages = [resolved[n].package.path for n in listed]
        self._right: dict[object, bool] = {}
        self._settled: dict[object, Settled] = {}

    @cached_property
    def _program(self) -> Program:
        return Program(self._rules, self._packages, self._checked.callees)

    @cached_property
    def _literals(self) -> frozenset[Key]:
        """The scalars that the rules of the policies contain, in heads, bodies and inside constant
        collections, in key form (`to_key`); computed once.
        """
        terms: list[Term] = []
        for rule in self._rules:
            for branch in rule.branches():
                terms += [*branch.path, *(branch.args or ()), *_terms_of(branch.body)]
                terms += [each for each in (branch.key, branch.value) if each is not None]
        scalars: set[Key] = set()
        waiting: list[Any] = [t.value for t in inner_terms(terms) if type(t) is Constant]
        while waiting:
            value = waiting.pop()
            if isinstance(value, dict):
                waiting += [*map(from_key, value), *value.values()]
            elif isinstance(value, frozenset):
                waiting += map(from_key, value)
            elif isinstance(value, list):
                waiting += value
            else:
                scalars.add(to_key(value))
        return frozenset(scalars)

    @cached_property
    def _for_filters(self) -> Program:
        return Program(self._rules, self._packages, self._checked.callees, all_rules=True)

    def data_use(self, entries: Iterable[tuple[str, ...]]) -> DataUse:
        """Return how the rules of the documents at `entries` use data; of all documents if
        `entries` is empty.
        """
        callees = self._checked.callees
        return find_data_use(self._rules, entries, lambda each: declared_arity(each, callees))

    def prepare(self, query: nodes.Body, settings: Settings) -> Question:
        """Return a question for `evaluate`: the resolved `query` in the evaluator's form, with
        everything that depends on `settings` but not on an input or data. It can be evaluated any
        number of times, by several threads. The variables of the query stay in the residual;
        generated ones need not.
        """
        body = lower_query(query, self._checked.callees)
        names = {name for expr in body for term in expr_terms(expr) for name in variables(term)}
        # Generated variables are not part of the query's text, so propagation may remove them.
        live = {name for name in names if not name.startswith("__local")}
        live |= {path[0].name for path in settings.documents if isinstance(path[0], Var)}
        program = self._for_filters if settings.truth else self._program
        return Question(
            body,
            settings,
            program,
            None if settings.shallow else self._settled_for(program, settings.documents),
            tuple(sorted(names)),
            live,
            _document(body) if settings.truth else None,
        )

    def evaluate(
        self, question: Question, evaluation: Evaluation, tracer: PartialTracer | None = None
    ) -> Partial:
        """Evaluate a question partially with the input, data and deadline of `evaluation`; `tracer`
        is told of each expression and rule. EvalError if its known part ends in an error, at the
        deadline, or if the residual is too large: more than `max_size` expressions, `MAX_PARTS`
        parts, or `state.MAX_TERM` parts in one term.
        """
        settings, settled, size = question.settings, question.settled, _Size()

        def well_typed(body: Body) -> Body | None:
            size.take(_terms_of(body))
            return self._well_typed(body)

        body, program = question.body, question.program
        search = Search(program, settings, evaluation, well_typed, settled, tracer)
        search.names.reserve(question.names)
        propagation = Propagation(program, question.live)
        document = question.document
        definitions = None if document is None else define(search, document)
        if document is not None and definitions is not None:
            # What contradicts itself here is for the reader of the definitions to tell.
            search.compared.add((document.parts, None))
        queries = []
        for _ in search.body(body, search.root, search.root.number):
            left = [saved.plug(search.names) for saved in search.saved[0]]
            bound = _equations_of_bindings(search)
            # Sizes are counted before types are checked and text is made, which are
            # linear in the text and not in the shared terms.
            size.take(_terms_of(bound))
            residual = well_typed((*left, *_in_order(bound)))
            if residual is not None:
                queries.append(residual if settings.shallow else propagation.apply(residual))
        packages = search.support.packages
        for rule in chain.from_iterable(search.support.packages.values()):
            size.take([*rule.path, *(rule.args or ()), rule.key, rule.value])
        support = [(package, sorted_rules(rules)) for package, rules in packages.items()]
        return Partial(
            queries,
            support,
            search.failures,
            settled,
            search.consulted,
            search.conflicts,
            definitions,
            only_truth=settings.truth,
            literals=self._literals if settings.truth else frozenset(),
        )

    def _settled_for(self, program: Program, documents: tuple[tuple[Term, ...], ...]) -> Settled:
        """Return the prepared rule bodies for a set of unknown documents. They are cached; at
        `MAX_UNKNOWNS` sets the cache is emptied.
        """
        key = program, documents
        settled = self._settled.get(key)
        if settled is None:
            settled = Settled(program, documents, self._well_typed)
            if len(self._settled) >= MAX_UNKNOWNS:
                self._settled.clear()
            self._settled[key] = settled
        return settled

    def _well_typed(self, body: Body) -> Body | None:
        """Return the body without the expressions that always hold by their types; None if it never
        holds. Dropped are negated equations of incompatible types. A type error inside a
        comprehension or `every` decides nothing, so these stay.
        """
        if self._holds_types(body):
            return body
        positive = tuple([expr for expr in body if not expr.negated])
        if not self._holds_types(positive):
            positive = tuple([expr for expr in positive if not _has_closure(expr)])
            if not self._holds_types(positive):
                return None
        return tuple(
            [
                expr
                for expr in body
                if not (expr.negated and expr.is_equation)
                or _has_closure(expr)
                or self._holds_types((*positive, replace(expr, negated=False)))
            ]
        )

    def _holds_types(self, body: Body) -> bool:
        """Return True if the residual passes the type check; a residual that fails it never holds.
        The results of up to `MAX_SHAPES` shapes of bodies are cached.
        """
        if not any(map(_may_be_wrong, body)):
            return True
        shape = _shape(body)
        known = None if shape is None else self._right.get(shape)
        if known is not None:
            return known
        result = body_to_nodes(body)
        known = not check_body_types(result, self._checked.types, self._checked.callees)
        if shape is not None:
            if len(self._right) > MAX_SHAPES:
                self._right.clear()
            self._right[shape] = known
        return known


def _document(body: Body) -> Ref | None:
    """Return the document if the query is a single path below `data`, such as `data.authz.allow`;
    None for any other query.
    """
    if len(body) != 1:
        return None
    (expr,) = body
    if expr.operator is not None or expr.negated or expr.withs or expr.every is not None:
        return None
    (term,) = expr.args
    return term if type(term) is Ref and is_path(term) and term.parts[0] == DATA else None


class _Size:
    """Counts the parts of a residual as its text repeats them, since values in memory share
    parts.
    """

    def __init__(self) -> None:
        self._count = 0

    def take(self, terms: Iterable[Any]) -> None:
        """Count the parts of `terms` at all depths, a shared part as often as the text of the
        residual repeats it, in addition to those counted before. EvalError if the total exceeds
        `MAX_PARTS`.
        """
        waiting = list(terms)
        while waiting:
            part = waiting.pop()
            self._count += 1
            if self._count > MAX_PARTS:
                text = f"the residual is too large: it has more than {MAX_PARTS} terms and values"
                raise EvalError(LIMIT_ERROR, text, NOWHERE)
            kind = type(part)
            if kind is Constant:
                part = part.value  # it counts once
                kind = type(part)
            if kind is str or kind is int or kind is Var:
                continue
            if kind is Ref:
                waiting += part.parts
                continue
            match part:
                case None | bool() | float():
                    pass
                case dict():
                    waiting += [*part, *part.values()]
                case list() | frozenset():
                    waiting += part
                case Boxed():
                    waiting.append(from_key(part))
                case Comprehension(_, key, term, body):
                    waiting += [key, term, *_terms_of(body)]
                case _:
                    waiting += parts(part)


def _terms_of(body: Body) -> list[Term]:
    return [term for expr in body for term in expr_terms(expr)]


def settings(unknowns: Iterable[str], options: PartialOptions) -> Settings:
    """Return the settings of a partial evaluation. ValueError if an unknown or a path of
    `disable_inlining` is not `input`, `data` or a path below one of them, or if `namespace` or
    `helpers` is not a name for a package.
    """
    namespace = options.namespace
    for option, name in (("namespace", namespace), ("helpers", options.helpers)):
        if name is not None and not _NAMESPACE.fullmatch(name):
            raise ValueError(
                f"{option}: `{name}` is not a name for a package: use letters, digits and `_`"
            )
    return Settings(
        tuple(map(parse_path, unknowns)),
        tuple(map(parse_path, options.disable_inlining)),
        options.shallow,
        options.nondeterministic,
        namespace,
        namespace or options.helpers,
        options.max_size,
        options.only_truth,
        options.keep_else,
    )


_NAMESPACE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def _has_closure(expr: Expr) -> bool:
    """Return True if the expression contains a comprehension or an `every`."""
    return next(bodies(expr), None) is not None


def _may_be_wrong(expr: Expr) -> bool:
    """Return True if an expression can fail the type check: it is an `every`, a call, or an
    equation neither side of which is a variable or a reference below `input`, which may have any
    type.
    """
    if expr.every is not None or (expr.operator is not None and not expr.is_equation):
        return True
    return expr.operator is not None and not any(map(_has_any_type, expr.args))


def _shape(body: Body) -> object:
    """Return a cache key for the types of a body. It contains the types of scalars instead of their
    values, and numbers instead of the names of variables. None for a body with `every`, `with`, a
    function of the policies, or other terms.
    """
    names: dict[str, int] = {}
    shape: list[object] = []
    for expr in body:
        if expr.every is not None or expr.withs or type(expr.operator) is Ref:
            return None
        shape += (expr.operator, expr.negated)
        for arg in expr.args:
            if type(arg) is Constant and isinstance(arg.value, (str, int, float, type(None))):
                shape.append(type(arg.value))
            elif type(arg) is Var:
                shape.append(names.setdefault(arg.name, len(names)))
            elif type(arg) is Ref and is_ground(arg):
                shape.append(arg)
            else:
                return None
    return tuple(shape)


def _has_any_type(term: Term) -> bool:
    """Return True if the term may be of any type: it is a variable or a reference below `input`."""
    return type(term) is Var or (type(term) is Ref and term.parts[0] == INPUT)


def _equations_of_bindings(search: Search) -> Body:
    """Return the bindings of the query's variables in the present solution as equations, in the
    order in which they were bound, their values as they appear in the residual.
    """
    names = list(search.root.values)
    return tuple([equation(Var(n), search.names.plug(Var(n), search.root)) for n in names])


def _in_order(equations: Body) -> list[Expr]:
    """Return equations in the order in which OPA prints them."""
    if len(equations) < 2:
        return list(equations)
    return sorted(equations, key=lambda e: rank(body_to_nodes((e,))[0].term))  # type: ignore[arg-type]
