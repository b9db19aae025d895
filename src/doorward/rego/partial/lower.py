"""Resolved modules and queries to the evaluator's form, stage by stage as OPA's compiler goes.

Each stage runs over all rules before the next one begins: so generated variables get the numbers
that they have in OPA. A stage makes new expressions and changes none.

1. Names, `:=`, `some`, `every` without a key; `print` is left out.
2. Calls out of terms, into expressions of their own.
3. References and comprehensions out of the heads of comprehensions and rules, and out of `with`.
4. Bodies in an order in which everything is bound before it is used (`order`).
5. `==` is `=`; references and comprehensions out of operands.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import islice

from doorward.base.records import replace
from doorward.rego.analysis.bindings import names_function
from doorward.rego.analysis.calls import Callees
from doorward.rego.analysis.scope import pattern_vars
from doorward.rego.analysis.variables import ROOTS
from doorward.rego.analysis.written_order import is_rule_in_order
from doorward.rego.partial.core import (
    DATA,
    EQUALITY,
    TRUE,
    Body,
    Call,
    Comprehension,
    Constant,
    Every,
    Expr,
    Operator,
    Ref,
    Rule,
    Term,
    Var,
    With,
    array,
    changed,
    equation,
    map_parts,
    object_,
    parts,
    set_,
)
from doorward.rego.partial.names import Locals
from doorward.rego.partial.order import in_safe_order
from doorward.rego.syntax import nodes
from doorward.rego.syntax.term_order import rank
from doorward.rego.syntax.walk import walk

__all__ = ["declared_arity", "lower_modules", "lower_query"]

_TRUE = Expr((TRUE,))
_PLAIN = frozenset({nodes.Scalar, nodes.Var})
_ATOMS = frozenset({Constant, Var})
_KINDS = {
    nodes.ArrayComprehension: "array",
    nodes.SetComprehension: "set",
    nodes.ObjectComprehension: "object",
}


def lower_modules(
    modules: Sequence[nodes.Module], callees: Callees, in_order: Container[int] = ()
) -> list[Rule]:
    """Return the rules of resolved modules in the evaluator's form, in the order of files and text,
    with their `else` branches linked below them. `in_order` has the ids of rules whose bodies are
    known to need no reordering. Generated variables avoid all names that the modules use.
    """
    taken = {name for module in modules for name in _reserved_names(module)}
    stages = _Stages(Locals(taken=taken), callees)
    rules = [(rule, len(m.package.path) + 1) for m in modules for rule in m.rules]
    # For all rules first, as in OPA: the numbers of all other generated variables depend on it.
    keys = [stages.head_operands(rule) for rule, _ in rules]
    lowered = [
        stages.rule(rule, module_key, package)
        for (rule, package), module_key in zip(rules, keys, strict=True)
    ]
    for (rule, _), new in zip(rules, lowered, strict=True):
        if id(rule) in in_order or _is_in_order(rule, callees):
            stages.in_order.update([id(branch) for branch in new.branches()])
    stages.finish([branch for rule in lowered for branch in rule.branches()])
    return lowered


def _is_in_order(rule: nodes.Rule, callees: Callees) -> bool:
    """Return True if a quick check shows that the bodies of a rule and its `else` branches are safe
    in the order in which they are written; False may also mean that this is not known.
    """
    branch: nodes.Rule | None = rule
    while branch is not None:
        if not is_rule_in_order(branch, callees.arity):
            return False
        branch = branch.else_rule
    return True


def _is_computed(operand: nodes.Term) -> bool:
    """Return True for an operand of a head that must be computed: `input` and `data` too."""
    if isinstance(operand, nodes.Var):
        return operand.name in ROOTS
    return type(operand) not in _PLAIN


def _reserved_names(module: nodes.Module) -> Iterator[str]:
    """Yield the variables of a module if its text contains `__local`, the prefix of generated
    variables, or is not known; otherwise nothing.
    """
    text = module.span.source.text
    if not text or "__local" in text:
        yield from (node.name for node in walk(module) if isinstance(node, nodes.Var))


def lower_query(body: nodes.Body, callees: Callees) -> Body:
    """Return a resolved query in the evaluator's form, after all stages of lowering; generated
    variables are named `__localq0__`, ….
    """
    taken = {n.name for expr in body for n in walk(expr) if isinstance(n, nodes.Var)}
    stages = _Stages(Locals("q", taken=taken), callees)
    rule = Rule((DATA,), None, None, TRUE, stages.body(body), 1)
    stages.finish([rule])
    return rule.body


def declared_arity(operator: Operator, callees: Callees) -> int | None:
    """Return the number of operands that a function or built-in declares; None if it is variadic,
    unknown, or a rule that is not a function.
    """
    if type(operator) is str:
        builtin = callees.registry.get(operator)
        if builtin is None or builtin.signature.variadic is not None:
            return None
        return len(builtin.signature.args)
    assert isinstance(operator, Ref)
    path = [part.value for part in operator.parts[1:] if isinstance(part, Constant)]
    names = tuple([nodes.Scalar(str(part)) for part in path])
    return callees.arity(nodes.Call(nodes.Ref(nodes.Var("data"), names), ()))


class _Stages:
    """The stages of lowering over one set of rules, with the state that they share: generated names
    and the rules that a stage may skip. The methods change `Rule`s in place, expressions never.
    """

    def __init__(self, locals_: Locals, callees: Callees) -> None:
        self.locals = locals_
        self.callees = callees
        self.in_order: set[int] = set()
        """The identities of rules whose bodies need no reordering."""
        self.closures = 0
        """The number of comprehensions and `every` so far."""
        self.replacements = 0
        """The number of `with` so far."""
        self.without_closures: set[int] = set()
        self.without_replacements: set[int] = set()

    def finish(self, rules: Sequence[Rule]) -> None:
        """Apply the stages behind the resolving of names to `rules`, which are changed in place:
        calls out of terms, references and comprehensions out of heads and `with`, bodies in a safe
        order (unless the rule is in `in_order`, so known to be), and references out of operands.
        Each stage runs over all rules before the next begins, so that generated variables are
        numbered as in OPA.
        """
        for rule in rules:
            self.split_calls_of(rule)
        for rule in rules:
            if id(rule) not in self.without_closures:
                rule.body = self.plain_heads(rule.body)
        for rule in rules:
            self.plain_rule_head(rule)
        for rule in rules:
            if id(rule) not in self.without_replacements:
                rule.body = self.plain_withs(rule.body)
        for rule in rules:
            if id(rule) not in self.in_order:
                known = {name for arg in rule.args or () for name in _names(arg)}
                # After calls and heads were moved out, since those expressions take part in the
                # order.
                rule.body = in_safe_order(rule.body, known, self.arity)
        for rule in rules:
            rule.body = self.plain_operands(rule.body)

    def arity(self, operator: Operator) -> int | None:
        """Return the number of operands that a function declares; None if it is variadic, unknown,
        or a rule that is not a function.
        """
        return declared_arity(operator, self.callees)

    # 1. Names

    def head_operands(self, rule: nodes.Rule) -> dict[int, Var]:
        """Return new variables for the operands of a rule's reference that must be computed, by
        position.
        """
        args = rule.head.ref.args
        return {n: self.locals.fresh() for n, arg in enumerate(args) if _is_computed(arg)}

    def rule(self, rule: nodes.Rule, keys: dict[int, Var], package: int) -> Rule:
        """Lower a rule and its `else` branches. The variables of its parameters get their generated
        names first; `keys` has, by position, the variables for computed operands of its reference,
        `package` is the length of its package path.
        """
        for arg in rule.head.args or ():
            for var in pattern_vars(arg):
                self.locals.named(var.name)
        return self.branch(rule, keys, package)

    def branch(self, rule: nodes.Rule, keys: dict[int, Var], package: int) -> Rule:
        """Lower one branch of a rule and the `else` branches after it. `package` is the length of
        its package path; `keys` has, by position in the rule's reference, the variables for
        operands that are computed, and an equation for each is added to the body. A missing value
        is `true`. Later branches get those before them in `before`. The ids of branches without
        comprehension and `every`, or without `with`, are recorded, so that later stages skip them.
        """
        before = self.closures, self.replacements
        head = rule.head
        for term in (*(head.args or ()), head.key, head.value, *head.ref.args):
            if term is not None and type(term) not in _PLAIN:
                self._declare_inside(term)
        body = list(self.body(rule.body)) if rule.body else [_TRUE]
        path: list[Term] = [DATA]
        for n, arg in enumerate(head.ref.args):
            if n in keys:
                body.append(Expr((keys[n], self.term(arg)), EQUALITY, generated=True))
            path.append(keys[n] if n in keys else self.term(arg))
        key = None if head.key is None else self.term(head.key)
        value = None if head.value is None else self.term(head.value)
        if key is None and value is None:
            value = TRUE
        otherwise = rule.else_rule
        lowered = Rule(
            tuple(path),
            None if head.args is None else tuple(map(self.term, head.args)),
            key,
            value,
            tuple(body),
            package,
            rule.default,
            None if otherwise is None else self.branch(otherwise, keys, package),
            rule.span,
        )
        for later in islice(lowered.branches(), 1, None):
            later.before = (lowered, *later.before)
        if self.closures == before[0]:
            self.without_closures.add(id(lowered))
        if self.replacements == before[1]:
            self.without_replacements.add(id(lowered))
        return lowered

    def _declare_inside(self, term: nodes.Term) -> None:
        """Give generated names to the variables that comprehensions in a rule's head declare, so
        that they get lower numbers than those of the body.
        """
        for node in walk(term):
            match node:
                case nodes.Expr(term=nodes.Call(infix=True, args=args) as call):
                    if call.name == "assign":
                        self._declare(args[0])
                case nodes.SomeDecl(symbols):
                    for var in symbols:
                        self._declare(var)
                case nodes.SomeIn(key, value):
                    self._declare(*((value,) if key is None else (key, value)))
                case nodes.Every(key, value):
                    self._declare(*((value,) if key is None else (key, value)))

    def _declare(self, *patterns: nodes.Term) -> None:
        """Give generated names to the variables of patterns now, so that they get the next
        numbers.
        """
        for pattern in patterns:
            for var in pattern_vars(pattern):
                self.locals.named(var.name)

    def body(self, body: nodes.Body) -> Body:
        """Lower a body to the expressions that its expressions become, in order; `true` if nothing
        is left of it.
        """
        node = [lowered for expr in body for lowered in self.expr(expr)]
        return tuple(node) or (_TRUE,)

    def expr(self, expr: nodes.Expr) -> list[Expr]:
        """Return the expressions that an expression becomes, in order: none for `some x` (whose
        names are declared in `locals`) and for `print`, two or more for some `and`, otherwise one.
        Names become generated variables where needed, `:=` becomes `=`, and `or` and a `not` with a
        body become comparisons of comprehensions with empty arrays.
        """
        match expr.term:
            case nodes.SomeDecl(symbols):
                for var in symbols:
                    self.locals.named(var.name)
                return []
            case nodes.SomeIn():
                return [self._mark(self._some_in(expr.term), expr)]
            case nodes.Every():
                return [self._mark(self._every(expr.term), expr)]
            case nodes.Not(body):
                return self._close(expr, (self.body(body),), holds=False)
            case nodes.And():
                return self._both(expr, expr.term)
            case nodes.Or(left, right):
                return self._close(expr, (self.body(left), self.body(right)), holds=True)
            case nodes.Call() as call if call.name == "print" and not call.infix:
                return []
            # Names get their numbers in OPA's order: value, `with`, target.
            case nodes.Call(args=(_, value)) as call if call.infix and call.name == "assign":
                operand = self.term(value)
                withs = self._withs(expr)
                sides = self.term(call.args[0]), operand
                return [Expr(sides, EQUALITY, withs=withs, span=expr.span)]
            case nodes.Call(operator, args) as call:
                operands = tuple([self.term(arg) for arg in args])
                name, location = self.operator(call), operator.span
                withs = self._withs(expr)
                return [
                    Expr(operands, name, expr.negated, withs, span=expr.span, location=location)
                ]
            case term:
                operands = (self.term(term),)
                withs = self._withs(expr)
                return [Expr(operands, None, expr.negated, withs, span=expr.span)]

    def _mark(self, lowered: Expr, expr: nodes.Expr) -> Expr:
        return replace(lowered, negated=expr.negated, withs=self._withs(expr), span=expr.span)

    def _both(self, expr: nodes.Expr, both: nodes.And) -> list[Expr]:
        """Lower `and` to the expressions of its operands. An operand in braces with variables,
        which are its own, becomes a comprehension instead; so does one with a `with` of its own
        under the `with` of the whole, since an expression has one level of them.
        """
        lowered: list[Expr] = []
        for operand, braces in zip((both.left, both.right), both.braces, strict=True):
            body = self.body(operand)
            has_variables = braces and any(map(_has_local, operand))
            if has_variables or (expr.withs and any([each.withs for each in body])):
                lowered += self._close(expr, (body,), holds=True)
            elif expr.withs:
                lowered += [replace(each, withs=self._withs(expr)) for each in body]
            else:
                lowered += body
        return lowered

    def _close(self, expr: nodes.Expr, bodies: Sequence[Body], *, holds: bool) -> list[Expr]:
        """Return one expression that is true if any of `bodies` holds, or with `holds` False if
        none does. Each body becomes a comprehension that is compared with an empty array, so its
        variables stay local. Counts in `closures`.
        """
        self.closures += 1
        # Each body becomes `[true | body]`, which is [] if it does not hold.
        answers = array([Comprehension("array", None, TRUE, body) for body in bodies])
        none = Constant([[] for _ in bodies])
        lowered = Expr((answers, none), "neq" if holds else "equal")
        return [self._mark(lowered, expr)]

    def _some_in(self, term: nodes.SomeIn) -> Expr:
        """Lower `some k, v in xs` to the equation `v = xs[k]`, and `some v in xs` to the same with
        a new variable as the key. The declared variables get their generated names in the order of
        their names, as in OPA.
        """
        key = self.locals.fresh() if term.key is None else None
        declared = [var.name for p in (term.key, term.value) if p for var in pattern_vars(p)]
        for name in sorted(declared):
            self.locals.named(name)
        value = self.term(term.value)
        domain = self.term(term.domain)
        operand: Term | None = key
        if term.key is not None:
            operand = self.term(term.key)
        assert operand is not None
        inside = domain.parts if type(domain) is Ref else (domain,)
        return Expr((value, Ref((*inside, operand))), EQUALITY)

    def _every(self, term: nodes.Every) -> Expr:
        """Lower an `every` to an expression, its body too, and count it in `closures`; a missing
        key gets a new variable.
        """
        self.closures += 1
        domain = self.term(term.domain)
        key = self.locals.fresh() if term.key is None else self.term(term.key)
        value = self.term(term.value)
        return Expr((), every=Every(key, value, domain, self.body(term.body)))

    def _withs(self, expr: nodes.Expr) -> tuple[With, ...]:
        return tuple([self._with(item) for item in expr.withs]) if expr.withs else ()

    def _with(self, item: nodes.With) -> With:
        """Lower a `with` and count it in `replacements`. Its target becomes a reference, in which
        operands that are references keep their head alone. A value that names a built-in or
        function (`names_builtin`) stays a name, not a variable.
        """
        self.replacements += 1
        target = item.target
        name = target if isinstance(target, nodes.Ref) else nodes.Ref(target, ())
        where = Ref(
            tuple(
                [
                    part if type(part) is not Ref else part.parts[0]
                    for part in (Var(name.head.name), *map(self.term, name.args))  # type: ignore[union-attr]
                ]
            )
        )
        value = item.value
        if isinstance(value, nodes.Var) and self.callees.registry.get(value.name) is not None:
            return With(where, Ref((Var(value.name),)), names_builtin=True)
        head = value.head if isinstance(value, nodes.Ref) else value
        is_name = isinstance(head, nodes.Var) and head.name not in ROOTS
        names_builtin = is_name and names_function(item, self.callees.arity)
        return With(where, self.term(value), names_builtin)

    def operator(self, call: nodes.Call) -> Operator:
        """Return the reference of a policy's function, which begins with `data`, or the name of a
        built-in.
        """
        operator = call.operator
        if isinstance(operator.head, nodes.Var) and operator.head.name == "data":
            return Ref((DATA, *[self.term(arg) for arg in operator.args]))
        return call.name

    # Terms

    def term(self, term: nodes.Term) -> Term:
        """Convert a term of a resolved module to the evaluator's form, at any depth; calls stay in
        it. The items of sets and objects are sorted as OPA does, `input` and `data` become
        references without operands, and a template string a call of `internal.template_string`.
        Comprehensions are counted in `closures`.
        """
        if type(term) is nodes.Scalar:
            return Constant(term.value)
        if type(term) is nodes.Var:
            return Ref((Var(term.name),)) if term.name in ROOTS else self.locals.named(term.name)
        if type(term) is nodes.Ref:
            first = self.term(term.head)
            inside = first.parts if type(first) is Ref else (first,)
            return Ref((*inside, *[self.term(arg) for arg in term.args]))
        match term:
            case nodes.Call(operator, args):
                operands = tuple([self.term(arg) for arg in args])
                return Call(self.operator(term), operands, operator.span)
            case nodes.Array(items):
                return array([self.term(item) for item in items])
            case nodes.Set(items):
                return set_(map(self.term, sorted(items, key=rank)))
            case nodes.Object(items):
                ordered = sorted(items, key=lambda pair: rank(pair[0]))
                return object_([(self.term(k), self.term(v)) for k, v in ordered])
            case nodes.ObjectComprehension(key, value, body):
                self.closures += 1
                inner = self.body(body)
                return Comprehension("object", self.term(key), self.term(value), inner)
            case nodes.ArrayComprehension(head, body) | nodes.SetComprehension(head, body):
                self.closures += 1
                inner = self.body(body)
                return Comprehension(_KINDS[type(term)], None, self.term(head), inner)
        assert isinstance(term, nodes.TemplateString)
        return Call("internal.template_string", (array(map(self._part, term.parts)),))

    def _part(self, part: str | nodes.Expr) -> Term:
        """Lower one part of a template string: text and scalars become constants, an expression
        becomes a set comprehension, which is empty if the expression is undefined, and counts in
        `closures`.
        """
        if isinstance(part, str):
            return Constant(part)
        assert isinstance(part.term, nodes.Term)
        if isinstance(part.term, nodes.Scalar):
            return self.term(part.term)
        self.closures += 1
        node = self.locals.fresh()
        value = Expr((node, self.term(part.term)), EQUALITY, withs=self._withs(part))
        return Comprehension("set", None, node, (value,))

    # 2. Calls

    def split_calls_of(self, rule: Rule) -> None:
        """Move the calls in the head and body of one branch of a rule into expressions of the body,
        those of the head last; changes the rule in place.
        """
        added: list[Expr] = []
        if rule.args is not None:
            rule.args = tuple([self.split_term(arg, added) for arg in rule.args])
        if rule.key is not None:
            rule.key = self.split_term(rule.key, added)
        if rule.value is not None:
            rule.value = self.split_term(rule.value, added)
        rule.body = self.split_calls((*rule.body, *added))

    def split_calls(self, body: Body) -> Body:
        """Move the calls in the terms of a body into expressions of their own."""
        out: list[Expr] = []
        for expr in body:
            self.split_expr(expr, out)
        return tuple(out)

    def split_expr(self, expr: Expr, out: list[Expr]) -> None:
        """Append `expr` to `out`, preceded by an expression for each call inside its terms; these
        get the same `with`, but not the `not`. Calls in the values of the `with` get neither. The
        domain of an `every` becomes a variable.
        """
        if expr.withs:
            withs = [replace(item, value=self.split_term(item.value, out)) for item in expr.withs]
            expr = replace(expr, withs=tuple(withs))
        if expr.every is not None:
            domain = self.locals.fresh()
            binds = Expr((domain, expr.every.domain), EQUALITY, generated=True)
            self.split_expr(replace(binds, withs=expr.withs, span=expr.span), out)
            inner = self.split_calls(expr.every.body)
            out.append(replace(expr, every=replace(expr.every, domain=domain, body=inner)))
            return
        added: list[Expr] = []
        args = tuple([self.split_term(arg, added) for arg in expr.args])
        # A call that was inside the expression is evaluated under its `with` too.
        out += [replace(new, withs=expr.withs, span=expr.span) for new in added]
        out.append(changed(expr, args, expr.withs))

    def split_term(self, term: Term, out: list[Expr]) -> Term:
        """Return `term` without calls: each is appended to `out` as an expression with its result
        in a new variable, inner ones first. The head of a reference that is neither a variable nor
        a reference becomes a variable too. Calls in a comprehension, its heads included, become
        expressions of its own body.
        """
        match term:
            case Constant() | Var():
                return term
            case Call(operator, args):
                operands = [self.split_term(arg, out) for arg in args]
                result = self.locals.fresh()
                call = Expr((*operands, result), operator, generated=True, location=term.location)
                out.append(call)
                return result
            case Ref(items):
                if type(items[0]) is Var and all([type(item) in _ATOMS for item in items]):
                    return term
                split = [self.split_term(item, out) for item in items]
                if type(split[0]) not in (Var, Ref):
                    subject = self.locals.fresh()
                    out.append(Expr((subject, split[0]), EQUALITY, generated=True))
                    split[0] = subject
                return Ref(tuple(split))
            case Comprehension(_, key, head, body):
                added: list[Expr] = []
                if key is not None:
                    key = self.split_term(key, added)
                head = self.split_term(head, added)
                return replace(term, key=key, term=head, body=self.split_calls((*body, *added)))
        return map_parts(term, lambda part: self.split_term(part, out))

    # 3. Heads and replacements

    def plain_heads(self, body: Body) -> Body:
        """Return the body with each head term of a comprehension that contains a reference or
        comprehension replaced by a variable, which the comprehension's body binds.
        """
        return map_comprehensions(body, self._plain_head)

    def _plain_head(self, node: Comprehension) -> Comprehension:
        """Return the comprehension with each head term that contains a reference or comprehension
        replaced by a variable, bound at the end of its body; itself if there are none.
        """
        key, term = node.key, node.term
        added: list[Expr] = []
        if key is not None and is_evaluated(key):
            key = self._bind(key, added)
        if is_evaluated(term):
            term = self._bind(term, added)
        return replace(node, key=key, term=term, body=(*node.body, *added)) if added else node

    def plain_rule_head(self, rule: Rule) -> None:
        """Replace each term of a rule's head (key, value, parameters) that contains a reference or
        comprehension by a variable, bound at the end of the body; changes the rule in place.
        """
        added: list[Expr] = []
        if rule.key is not None:
            rule.key = self._value(rule.key, added)
        if rule.value is not None:
            rule.value = self._value(rule.value, added)
        if rule.args is not None:
            rule.args = tuple([self._value(arg, added) for arg in rule.args])
        rule.body = (*rule.body, *added)

    def _value(self, term: Term, added: list[Expr]) -> Term:
        """Return a term of a rule's head: itself if it contains no reference or comprehension,
        otherwise a new variable, whose equation is appended to `added`.
        """
        (term,) = map_comprehensions((Expr((term,)),), self._plain_head)[0].args
        return self._bind(term, added) if is_evaluated(term) else term

    def _bind(self, term: Term, out: list[Expr], like: Expr | None = None) -> Var:
        """Append an equation of a new variable with `term` to `out`, with the position and `with`
        of `like`; return the variable.
        """
        var = self.locals.fresh()
        out.append(replace(equation(var, term, like), generated=True))
        return var

    def plain_withs(self, body: Body) -> Body:
        """Return the body with an equation before each expression whose `with` has a computed
        value; the `with` then reads the variable. Names of functions stay.
        """
        out: list[Expr] = []
        for expr in map_bodies(body, self.plain_withs):
            withs = []
            for item in expr.withs:
                if is_evaluated(item.value) and not self._names_function(item):
                    item = replace(item, value=self._bind(item.value, out))
                withs.append(item)
            out.append(replace(expr, withs=tuple(withs)) if withs else expr)
        return tuple(out)

    def _names_function(self, item: With) -> bool:
        """Return True if the value of a `with` names a built-in, or a function of the policies by
        its path.
        """
        if item.names_builtin:
            return True
        value = item.value
        return type(value) is Ref and value.parts[0] == DATA and self.arity(value) is not None

    # 5. Operands

    def plain_operands(self, body: Body) -> Body:
        """Return the body with references and comprehensions inside operands replaced by variables,
        which equations before the expression bind; `==` becomes `=`. Equations and single terms
        keep an outermost reference.
        """
        out: list[Expr] = []
        for expr in body:
            if expr.operator == "equal" and len(expr.args) == 2:
                expr = replace(expr, operator=EQUALITY)
            if expr.every is not None:
                domain = self._operand(expr.every.domain, expr, out)
                inner = self.plain_operands(expr.every.body)
                out.append(replace(expr, every=replace(expr.every, domain=domain, body=inner)))
                continue
            is_equation = expr.operator is None or expr.is_equation
            each = self._outermost if is_equation else self._operand
            args = tuple([each(arg, expr, out) for arg in expr.args])
            out.append(changed(expr, args, expr.withs))
        return tuple(out)

    def _outermost(self, term: Term, expr: Expr, out: list[Expr]) -> Term:
        """Return `term` for a position in which a reference or comprehension may stand: it stays
        one, but those inside it become variables, whose equations, with the `with` of `expr`, are
        appended to `out`. The equations of a comprehension's body stay in that body.
        """
        if type(term) is Ref:
            if all([type(part) in _ATOMS for part in term.parts]):
                return term
            rest = [self._operand(part, expr, out) for part in term.parts[1:]]
            return Ref((term.parts[0], *rest))
        if type(term) is Comprehension:
            return replace(term, body=self.plain_operands(term.body))
        return self._operand(term, expr, out)

    def _operand(self, term: Term, expr: Expr, out: list[Expr]) -> Term:
        """Return `term` with references and comprehensions, itself included, replaced by new
        variables, whose equations, with the `with` of `expr`, are appended to `out`.
        """
        match term:
            case Constant() | Var():
                return term
            case Ref() | Comprehension():
                return self._bind(self._outermost(term, expr, out), out, expr)
        return map_parts(term, lambda part: self._operand(part, expr, out))


def is_evaluated(term: Term) -> bool:
    """Return True if the term contains references, that to the function of a call included, or
    comprehensions.
    """
    if type(term) is Ref or type(term) is Comprehension:
        return True
    return any(map(is_evaluated, parts(term)))


def map_bodies(body: Body, change: object) -> Body:
    """Return `body` with `change`, from a body to a body, applied to the bodies of its
    comprehensions and `every`. Closures inside those are left to `change`.
    """
    assert callable(change)

    def whole(node: Comprehension) -> Comprehension:
        return replace(node, body=change(node.body))

    return tuple([_map_closures(expr, whole, change) for expr in body])


def map_comprehensions(body: Body, change: object) -> Body:
    """Return `body` with `change`, from a comprehension to a comprehension, applied to all its
    comprehensions, the inner ones first.
    """
    assert callable(change)

    def below(inner: Body) -> Body:
        return map_comprehensions(inner, change)

    def whole(node: Comprehension) -> Comprehension:
        """Apply `change` to one comprehension, its body changed before."""
        lowered = change(replace(node, body=below(node.body)))
        assert isinstance(lowered, Comprehension)
        return lowered

    return tuple([_map_closures(expr, whole, below) for expr in body])


def _map_closures(expr: Expr, whole: object, below: object) -> Expr:
    """Return the expression with its comprehensions, at any depth in its operands, domain and
    `with`, replaced by what `whole` returns for them, and the body of its `every` by what `below`
    returns. `whole` itself goes into comprehensions inside of one.
    """
    assert callable(whole)
    assert callable(below)

    def change(term: Term) -> Term:
        """Return a term with `whole` applied to its outermost comprehensions, at any depth."""
        if type(term) is Comprehension:
            node = whole(term)
            assert isinstance(node, Comprehension)
            return node
        return term if type(term) in (Constant, Var) else map_parts(term, change)

    if expr.every is not None:
        every = expr.every
        inner = below(every.body)
        expr = replace(expr, every=replace(every, domain=change(every.domain), body=inner))
    if expr.withs:
        withs = [replace(item, value=change(item.value)) for item in expr.withs]
        expr = replace(expr, withs=tuple(withs))
    if any(type(arg) not in (Constant, Var) for arg in expr.args):
        expr = replace(expr, args=tuple([change(arg) for arg in expr.args]))
    return expr


def _has_local(expr: nodes.Expr) -> bool:
    """Return True if an expression has a variable other than `input` and `data`."""
    names = (node.name for node in walk(expr) if isinstance(node, nodes.Var))
    return any(name not in ROOTS for name in names)


def _names(term: Term) -> Iterable[str]:
    """Yield the names of the variables in a term, `data` and `input` included, each as often as it
    occurs; none of those inside comprehensions.
    """
    if type(term) is Var:
        yield term.name
    for part in parts(term):
        yield from _names(part)
