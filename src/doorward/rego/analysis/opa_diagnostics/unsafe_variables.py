"""Which variables are unsafe, as OPA finds them: on flat bodies, by what each expression can bind.

An expression can be put in order once everything it needs is bound by those before it. Nothing is
guessed about values: `[x, y] = [1, x + 1]` is unsafe, since the sum is computed before the two
sides meet. What print and template strings hold is looked at first: there a variable that nobody
binds is called undeclared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from doorward.rego.analysis.bindings import Arity
from doorward.rego.analysis.calls import Callees
from doorward.rego.analysis.opa_diagnostics.flat_variables import (
    all_vars,
    closures_of,
    expr_vars,
    outputs_of_terms,
    pattern_names,
)
from doorward.rego.analysis.opa_diagnostics.flattening import Flattener
from doorward.rego.analysis.opa_diagnostics.unification import unify
from doorward.rego.analysis.scope import source_name
from doorward.rego.analysis.variables import ROOTS
from doorward.rego.analysis.written_order import WrittenOrder
from doorward.rego.errors import COMPILE_ERROR, UNSAFE_VAR_ERROR, Diagnostic
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import (
    And,
    Array,
    ArrayComprehension,
    Body,
    Call,
    Every,
    Expr,
    Module,
    Not,
    Object,
    ObjectComprehension,
    Or,
    Ref,
    Rule,
    Set,
    SetComprehension,
    SomeDecl,
    SomeIn,
    Term,
    Var,
)
from doorward.rego.syntax.walk import Node, children

__all__ = ["check_body_safety", "check_safety"]

_KEYWORDS = frozenset({"contains", "every", "if", "in"})

_CLOSED = (ArrayComprehension, Set, SetComprehension, ObjectComprehension)

Unsafe = dict[int, tuple[Expr, set[str]]]
"""The expressions that cannot be put in order, by identity, and the variables they lack."""


def check_safety(
    modules: Sequence[Module], callees: Callees, written: WrittenOrder
) -> list[Diagnostic]:
    """The unsafe variables of all rules."""
    findings = [
        _rule(rule, callees)
        for module in modules
        for rule in _rules(module)
        if not written.has(rule)
    ]
    for kind in ("undeclared", "heads", "bodies"):
        problems = [problem for finding in findings for problem in getattr(finding, kind)]
        if problems:
            return problems
    return []


def check_body_safety(body: Body, callees: Callees) -> list[Diagnostic]:
    """The unsafe variables of a query."""
    flattener = Flattener(callees.arity, unify_equals=False, bind=False)
    _, unsafe = _Order(callees.operands, flattener).body(flattener.body(body), set(ROOTS))
    return _undeclared(unsafe, flattener) or _report(unsafe) + _captures(body, unsafe, callees)


def _captures(body: Body, unsafe: Unsafe, callees: Callees) -> list[Diagnostic]:
    """The variables that OPA adds to a query for the values of its expressions; it names them `_`.

    They are unsafe where the expression is.
    """
    captures = []
    for expr in body:
        names = set(_open(expr)) if _has_value(expr, callees) else set()
        if any(names & lacking and _is_within(part, expr) for part, lacking in unsafe.values()):
            captures.append(_unsafe("_", expr.span))
    return captures


def _is_within(part: Expr, whole: Expr) -> bool:
    return whole.span.start <= part.span.start and part.span.end <= whole.span.end


def _open(expr: Expr) -> Iterator[str]:
    """Variables outside of comprehensions, sets and keys of objects, which OPA checks later."""
    waiting: list[Node] = [expr]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Var):
            yield node.name
        elif isinstance(node, Object):
            waiting += [value for _, value in node.items]
        elif not isinstance(node, _CLOSED):
            waiting += children(node)


def _has_value(expr: Expr, callees: Callees) -> bool:
    term = expr.term
    if expr.negated or isinstance(term, (And, Every, Not, Or, SomeDecl, SomeIn)):
        return False
    if not isinstance(term, Call):
        return True
    return term.name not in ("assign", "eq") and callees.arity(term) == len(term.args)


def _rules(module: Module) -> Iterator[Rule]:
    for rule in module.rules:
        branch: Rule | None = rule
        while branch is not None:
            yield branch
            branch = branch.else_rule


@dataclass(slots=True)
class _Findings:
    """The errors of one rule, by OPA's stages: a stage with errors hides the later ones."""

    undeclared: list[Diagnostic] = field(default_factory=list)
    heads: list[Diagnostic] = field(default_factory=list)
    bodies: list[Diagnostic] = field(default_factory=list)


def _rule(rule: Rule, callees: Callees) -> _Findings:
    flattener = Flattener(callees.arity, unify_equals=False, bind=False)
    flat = flattener.rule(rule)
    head = flat.head
    args = [v for arg in head.args or () for v in all_vars(arg)]
    _, unsafe = _Order(callees.operands, flattener).body(flat.body, ROOTS | {v.name for v in args})
    known = ROOTS.union((v.name for v in args), (v.name for e in flat.body for v in expr_vars(e)))
    terms = [t for t in (head.key, head.value, *head.ref.args) if t is not None]
    lacking = [v for t in terms for v in all_vars(t) if v.name not in known]
    return _Findings(
        _undeclared(unsafe, flattener),
        _in_head(lacking) + _in_arguments(rule),
        _report(unsafe),
    )


def _in_head(lacking: Iterable[Var]) -> list[Diagnostic]:
    first: dict[str, Var] = {}
    for var in sorted(lacking, key=lambda v: (v.span.row, v.span.col)):
        first.setdefault(source_name(var.name), var)
    return [_unsafe(name, var.span) for name, var in first.items()]


def _in_arguments(rule: Rule) -> list[Diagnostic]:
    """A reference among the parameters: its head can never be bound."""
    return [
        _unsafe(source_name(arg.head.name), arg.span)
        for arg in rule.head.args or ()
        if isinstance(arg, Ref) and isinstance(arg.head, Var)
    ]


def _undeclared(unsafe: Unsafe, flattener: Flattener) -> list[Diagnostic]:
    errors = []
    for expr, names in unsafe.values():
        for inner in (expr, *_inside_captures(expr)):
            span = flattener.captured.get(id(inner))
            if span is not None:
                lacking = names if inner is expr else names & {v.name for v in expr_vars(inner)}
                for name in sorted(n for n in lacking if not n.startswith("__local")):
                    message = f"var {source_name(name)} is undeclared"
                    errors.append(Diagnostic(COMPILE_ERROR, message, span))
    return sorted(errors, key=lambda error: _place(error.span))


def _inside_captures(expr: Expr) -> Iterator[Expr]:
    """The expressions of values that `print` takes, where the call lacks what they lack."""
    if isinstance(expr.term, Array):
        for item in expr.term.items:
            if isinstance(item, SetComprehension):
                yield from item.body


def _report(unsafe: Unsafe) -> list[Diagnostic]:
    """Each variable once, where it is first missing."""
    spans: dict[str, Span] = {}
    for expr, names in unsafe.values():
        for name in sorted(names):
            if not name.startswith("__local"):
                before = spans.get(name)
                if before is None or _place(expr.span) < _place(before):
                    spans[name] = expr.span
    if spans:
        return [_unsafe(source_name(name), span) for name, span in spans.items()]
    seen: set[str] = set()
    errors = []
    for expr, names in sorted(unsafe.values(), key=lambda item: _place(item[0].span)):
        if not names <= seen:
            seen |= names
            errors.append(Diagnostic(UNSAFE_VAR_ERROR, "expression is unsafe", expr.span))
    return errors


def _place(span: Span) -> tuple[str, int, int]:
    return span.file, span.row, span.col


def _unsafe(name: str, span: Span) -> Diagnostic:
    message = f"var {name} is unsafe"
    if name in _KEYWORDS:
        message += f" (hint: `import future.keywords.{name}` to import a future keyword)"
    return Diagnostic(UNSAFE_VAR_ERROR, message, span, hint=_hint(name))


def _hint(name: str) -> str | None:
    return None if name == "_" else f"assign `{name}`, or bind it with `some {name} in …`"


class _Order:
    """Puts flat bodies in order."""

    def __init__(self, arity: Arity, flattener: Flattener) -> None:
        self.arity = arity
        self.templates = flattener.templates

    def body(self, body: Body, globals_: set[str] | frozenset[str]) -> tuple[list[Expr], Unsafe]:
        """The expressions that can be ordered, in order, and what the others lack."""
        unsafe: Unsafe = {}
        here: set[str] = set()
        safe: set[str] = set()
        for expr in body:
            names = {v.name for v in expr_vars(expr)}
            here |= names
            safe |= names & globals_
            if names - globals_:
                unsafe[id(expr)] = expr, names - globals_
        ordered: list[Expr] = []
        bound: set[str] = set()
        here -= globals_
        waiting = [(expr, {v.name for v in expr_vars(expr, closures=True)}) for expr in body]
        fresh: set[str] | None = None
        while waiting and (fresh is None or fresh):
            rest, added = [], set[str]()
            for expr, names in waiting:
                # What names nothing that has been bound since then would fail again.
                tried = fresh is not None and names.isdisjoint(fresh | added)
                if tried or not self._ready(expr, safe, bound, here, unsafe):
                    rest.append((expr, names))
                    continue
                ordered.append(expr)
                outputs = self._outputs(expr, safe)
                safe |= outputs
                bound |= outputs
                added |= outputs
            waiting, fresh = rest, added
        around = set(globals_)
        for expr in ordered:
            self._closures(expr, around, unsafe)
            around |= {v.name for v in expr_vars(expr)}
        return ordered, unsafe

    def _ready(
        self, expr: Expr, safe: set[str], bound: set[str], here: set[str], unsafe: Unsafe
    ) -> bool:
        outputs = self._outputs(expr, safe)
        inside = {v.name for closure in closures_of(expr) for v in _all_vars(closure)} & here
        if not inside <= bound:
            if inside - bound == outputs:
                return False  # it closes over what it binds itself
            unsafe[id(expr)] = expr, inside - bound
        lacking = unsafe.get(id(expr), (expr, set[str]()))[1]
        lacking -= outputs | safe
        if not lacking:
            unsafe.pop(id(expr), None)
        return not lacking

    def _outputs(self, expr: Expr, safe: set[str]) -> set[str]:
        """Return the variables that `expr` binds when `safe` are bound."""
        if expr.negated:
            return set()
        withs = Expr(Var("input"), withs=expr.withs)
        if any(v.name not in safe for v in expr_vars(withs) if v.name not in ROOTS):
            return set()
        term = expr.term
        if isinstance(term, Every):
            return outputs_of_terms([term.domain], safe)
        if isinstance(term, Call):
            return self._call_outputs(term, safe)
        return outputs_of_terms([term], safe) if isinstance(term, Term) else set()

    def _call_outputs(self, call: Call, safe: set[str]) -> set[str]:
        if call.name in ("eq", "assign"):
            if len(call.args) != 2:
                return set()
            left, right = call.args
            outputs = known = outputs_of_terms(call.args, safe)
            known = known | safe
            if call.name == "assign":
                # Nothing goes from the left side to the right one.
                known -= {v.name for v in all_vars(left)}
            return (outputs | unify(known, left, right)) - safe
        arity = self.arity(call)
        if arity is None:
            return set()
        outputs = outputs_of_terms(call.args, safe)
        inputs = {n for arg in call.args[:arity] for n in pattern_names(arg)}
        if arity >= len(call.args) or not inputs <= outputs | safe:
            return outputs if arity >= len(call.args) else set()
        return outputs | {n for arg in call.args[arity:] for n in pattern_names(arg)}

    def _closures(self, expr: Expr, around: set[str], unsafe: Unsafe) -> None:
        heads: list[Term]
        for closure in closures_of(expr):
            if isinstance(closure, Every):
                names = {v.name for v in (closure.key, closure.value) if v is not None}
                bodies, heads = [closure.body], []
                around |= names
            elif isinstance(closure, Not):
                bodies, heads = [closure.body], []
            elif isinstance(closure, (And, Or)):
                bodies, heads = [closure.left, closure.right], []
            elif isinstance(closure, ObjectComprehension):
                bodies, heads = [closure.body], [closure.key, closure.value]
            else:
                bodies, heads = [closure.body], [closure.term]
            inside = {v.name for body in bodies for e in body for v in expr_vars(e)} | around
            lacking = {v.name for t in heads for v in all_vars(t)} - inside
            if lacking:
                known = unsafe.get(id(expr), (expr, set[str]()))[1]
                unsafe[id(expr)] = expr, known | lacking
            for body in bodies:
                unsafe.update(self.body(body, around)[1])
            if id(closure) in self.templates:
                for inner in bodies[0]:
                    names = {v.name for v in expr_vars(inner)} - around
                    free = {name for name in names if not name.startswith("__local")}
                    if free:
                        unsafe[id(inner)] = inner, free


def _all_vars(closure: object) -> Iterator[Var]:
    match closure:
        case Every(_, _, _, body) | Not(body):
            bodies = [body]
        case And(left, right) | Or(left, right):
            bodies = [left, right]
        case _:
            yield from all_vars(closure)  # type: ignore[arg-type]  # a comprehension
            return
    for body in bodies:
        for expr in body:
            yield from expr_vars(expr, closures=True)
