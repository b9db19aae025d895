"""Names to references: rules and imports become `data.…`, declared variables become unique.

After this pass a module reads without its imports: every `Var` is a local variable, `input` or
`data`; every operator of a call is a built-in's name or a reference to a function below `data`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from operator import is_
from typing import Final

from doorward.base.records import mutable, record, replace
from doorward.rego.analysis.metadata import FUNCTIONS as METADATA_CALLS
from doorward.rego.analysis.scope import Names, Scope, Stage, pattern_vars, some_vars
from doorward.rego.analysis.type_errors import ref_text
from doorward.rego.analysis.variables import ROOTS, body_vars, term_vars
from doorward.rego.errors import Diagnostic
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import (
    And,
    Array,
    ArrayComprehension,
    Body,
    Call,
    Every,
    Expr,
    Head,
    Import,
    Module,
    Not,
    Object,
    ObjectComprehension,
    Or,
    Ref,
    Rule,
    Scalar,
    Set,
    SetComprehension,
    SomeDecl,
    SomeIn,
    TemplateString,
    Term,
    Var,
    With,
)
from doorward.rego.syntax.walk import Node, walk

__all__ = ["Resolver", "import_name", "names_of_packages", "resolve_modules", "resolve_query"]

_KINDS = {
    ArrayComprehension: "arraycomprehension",
    SetComprehension: "setcomprehension",
    ObjectComprehension: "objectcomprehension",
    Set: "set",
    Ref: "ref",
    Call: "call",
    TemplateString: "templatestring",
}


def names_of_packages(modules: Iterable[Module]) -> dict[tuple[str, ...], frozenset[str]]:
    """Return the names of the rules that all modules of a package define, by its path; for a
    reference as a head, its first name.
    """
    names: dict[tuple[str, ...], set[str]] = {}
    for module in modules:
        names_of_package = names.setdefault(module.package.path, set())
        names_of_package.update(_rule_name(rule) for rule in module.rules)
    return {path: frozenset(names_of_package) for path, names_of_package in names.items()}


@record(guarded=False)
class Resolved:
    """Modules with resolved names, the errors in the names, and True if some module calls a
    function of `rego.metadata`.
    """

    modules: list[Module]
    errors: list[Diagnostic]
    ask_metadata: bool


def resolve_modules(
    modules: Sequence[Module],
    exports: Mapping[tuple[str, ...], frozenset[str]],
    *,
    strict: bool = False,
    builtins: Container[str] = (),
) -> Resolved:
    """Return every module with its names resolved, and the errors of the first stage that has any.
    `exports`: the names of the rules of each package. `builtins`: the names of the built-ins, which
    a variable of the same name can hide. `strict`: report what OPA's strict mode does, such as
    unused variables and imports.
    """
    resolved, errors, ask_metadata = [], [], False
    for module in modules:
        package = module.package.path
        options = ResolverOptions(strict, module.v1, builtins)
        resolver = Resolver(package, exports[package], module.imports, options)
        done = resolver.module(module)
        # Rare: only then is the cost of collecting free variables paid, by a second run.
        if resolver.shares_names:
            options = replace(options, collect_free=True)
            resolver = Resolver(package, exports[package], module.imports, options)
            done = resolver.module(module)
        resolved.append(done)
        errors += resolver.names.errors
        ask_metadata |= resolver.asks_metadata
    first = min((stage for stage, _ in errors), default=Stage.LOCALS)
    return Resolved(resolved, [e for stage, e in errors if stage == first], ask_metadata)


def resolve_query(
    body: Body,
    package: tuple[str, ...] = (),
    exports: Iterable[str] = (),
    imports: Sequence[Import] = (),
) -> tuple[Body, list[Diagnostic]]:
    """Return a query's body with its names resolved as in `package`, and the errors; [] if there
    are none. `exports`: the names of the rules in the package.
    """
    resolver = Resolver(package, exports, imports)
    resolver.may_shadow = True  # as in OPA: `input := 1` is a variable of the query
    scope = Scope(resolver.names)
    resolved = resolver.body(body, scope)
    return resolved, [problem for _, problem in resolver.names.errors]


def _rule_name(rule: Rule) -> str:
    """Return the first name of a rule's reference; "" if it is not a name."""
    head = rule.head.ref.head
    return head.name if isinstance(head, Var) else ""


@mutable
class _Imported:
    """A document that a name stands for, and whether the name occurs."""

    path: Ref | Var
    used: bool = False


@record
class ResolverOptions:
    """The options of name resolution. `builtins`: the names of built-ins; `Resolver.shares_names`
    becomes True if an undeclared variable has one of them. With `collect_free`, such a variable in
    a body hides the built-in from the calls in that body, as in OPA.
    """

    strict: bool = False
    v1: bool = True
    builtins: Container[str] = ()
    collect_free: bool = False


_DEFAULTS: Final = ResolverOptions()


class Resolver:
    """Resolves the names of one module. Errors are collected in `names.errors`. `shares_names`
    becomes True if a variable has the name of a built-in, `asks_metadata` if a function of
    `rego.metadata` is called.
    """

    def __init__(
        self,
        package: tuple[str, ...],
        exports: Iterable[str],
        imports: Sequence[Import],
        options: ResolverOptions = _DEFAULTS,
    ) -> None:
        self.package = package
        self.options = options
        self.shares_names = False
        self.names = Names(options.strict)
        self.in_head = False
        self.in_parameters = False
        self.asks_metadata = False
        self.may_shadow = not (options.v1 or options.strict)
        self.rules: Mapping[str, None] = dict.fromkeys(exports)
        self.imports: dict[str, _Imported] = {}
        for item in imports:
            head = item.path.head if isinstance(item.path, Ref) else item.path
            if isinstance(head, Var) and head.name in ROOTS:
                self.imports[import_name(item)] = _Imported(item.path)

    def module(self, module: Module) -> Module:
        """Return the module with the names in its rules resolved; its imports are checked."""
        rules = tuple(self.rule(rule) for rule in module.rules)
        self._check_imports(module.imports)
        return replace(module, rules=rules)

    def _check_imports(self, imports: Sequence[Import]) -> None:
        """Report imports that have the name of an earlier import (in v0 only in strict mode), and
        in strict mode also those that are not used.
        """
        first: dict[str, Import] = {}
        for item in imports:
            name = import_name(item)
            imported = self.imports.get(name)
            if self.names.strict and imported is not None and not imported.used:
                message = f"{_import_text(item)} unused"
                self.names.report(message, item.span, Stage.REFERENCES)
            before = first.setdefault(name, item)
            if before is not item and not self.may_shadow:
                message = f"import must not shadow {_import_text(before)}"
                self.names.report(message, item.span, Stage.IMPORTS)

    # Rules

    def rule(self, rule: Rule) -> Rule:
        """Return a rule and its `else` branches with their names resolved. Errors are reported,
        among them a rule named `input` or `data` (in v0 only in strict mode) and, in strict mode,
        unused parameters.
        """
        name = _rule_name(rule)
        if name in ROOTS and not self.may_shadow:
            message = f"rules must not shadow {name} (use a different rule name)"
            self.names.report(message, rule.span, Stage.ROOTS)
        outer = Scope(self.names)
        args = rule.head.args or ()
        self._check_parameters(args, rule.span)
        for arg in args:
            self._declare_parameter(arg, outer)
        resolved = self._branch(rule, outer)
        outer.close_parameters(rule.head.span)
        return resolved

    def _branch(self, rule: Rule, outer: Scope) -> Rule:
        """Return one branch of a rule and the `else` branches after it with names resolved, each
        branch in a scope of its own inside `outer`. Parameters that are patterns add equations at
        the end of the body. Unused variables are reported after the head, which may have the only
        use of one.
        """
        self.names.begin_rule()
        scope = Scope(self.names, outer, parameters=True, free=self._free_names(rule.body))
        body = self.body(rule.body, scope, close=False)
        args, equations = self._parameters(rule.head.args or (), scope)
        # The scope is closed after the head, in which a variable of the body may have its only use.
        head = self._head(rule.head, args or None, scope)  # `f() := 1` is the rule `f`
        scope.close()
        otherwise = rule.else_rule
        if otherwise is not None:
            otherwise = self._branch(otherwise, outer)
        return replace(rule, head=head, body=body + equations, else_rule=otherwise)

    def _head(self, head: Head, args: tuple[Term, ...] | None, scope: Scope) -> Head:
        """Return a head with names resolved in `scope`, in which its body was resolved, and the
        resolved parameters `args`, None unless it is a function; its reference becomes a full path
        below `data`.
        """
        ref = head.ref
        prefix = tuple(Scalar(part, ref.span) for part in self.package)
        name = Scalar(ref.head.name if isinstance(ref.head, Var) else "", ref.head.span)
        self.in_head = True
        rest = tuple(self.term(arg, scope) for arg in ref.args)
        key = None if head.key is None else self.term(head.key, scope)
        value = None if head.value is None else self.term(head.value, scope)
        self.in_head = False
        resolved = Ref(Var("data", ref.span), (*prefix, name, *rest), ref.span)
        return replace(head, ref=resolved, args=args, key=key, value=value)

    def _check_parameters(self, args: tuple[Term, ...], span: Span) -> None:
        """Report an error, at `span`, if a parameter is named `input` or `data`; only one."""
        for arg in args:
            for var in pattern_vars(arg):
                if var.name in ROOTS:
                    message = f"args must not shadow {var.name} (use a different variable name)"
                    self.names.report(message, span, Stage.REFERENCES)
                    return

    def _declare_parameter(self, term: Term, scope: Scope) -> None:
        """Declare the variables of a parameter in `scope`; one that an earlier parameter declares
        counts as used instead. Calls in it are reported as errors to `names`.
        """
        scope.declared_at = term.span
        for call in _calls(term):
            self.names.report("rule arguments cannot contain calls", call.span)
        for var in _parameter_vars(term):
            before = scope.declared.get(var.name)
            if before is not None:
                before.used = True
            else:
                scope.declare(var, "argument")

    def _parameters(
        self, args: tuple[Term, ...], scope: Scope
    ) -> tuple[tuple[Term, ...], tuple[Expr, ...]]:
        """Return the parameters of a branch with names resolved in the scope of its body, and the
        equations that its body gets. As in OPA, no name in them means a rule or an import, and a
        parameter that must be evaluated becomes a variable that the body compares with it.
        """
        self.in_parameters = True
        resolved = [self.term(arg, scope, use=False) for arg in args]
        self.in_parameters = False
        equations = []
        for n, arg in enumerate(resolved):
            if any(map(_is_evaluated, walk(arg))):
                resolved[n] = Var(self.names.fresh("arg"), arg.span)
                operator = Ref(Var("eq", arg.span), (), arg.span)
                equation = Call(operator, (resolved[n], arg), arg.span, infix=True)
                equations.append(Expr(equation, span=arg.span))
        return tuple(resolved), tuple(equations)

    # Bodies

    def body(self, body: Body, scope: Scope, *, close: bool = True) -> Body:
        """Return a body with names resolved; its declarations and uses are recorded in `scope`.
        With `close` its unused variables are reported.
        """
        scope.expect(body)
        resolved = []
        for expr in body:
            scope.declared_at = expr.span
            resolved.append(self.expr(expr, scope))
        if close:
            scope.close()
        return tuple(resolved)

    def _free_names(self, body: Body) -> frozenset[str]:
        """Return the variables of a body that have the name of a built-in and occur in no value of
        a `with`; none without the option `collect_free`.
        """
        if not self.options.collect_free:
            return frozenset()
        free = {var.name for var in body_vars(body, closures=False)}
        for item in (item for expr in body for item in expr.withs):
            free -= {node.name for node in walk(item.value) if isinstance(node, Var)}
        return frozenset(name for name in free if name in self.options.builtins)

    def _inner(self, scope: Scope, body: Body, *, joined: bool = False) -> Scope:
        """Return the scope for `body`, which is part of an expression in the body of `scope`.
        `joined`: it is an operand of `and` or `or`.
        """
        free = self._free_names(body)
        return Scope(self.names, scope, free=free, joined=joined or scope.joined)

    def expr(self, expr: Expr, scope: Scope) -> Expr:
        """Return `expr` with each name resolved: rules and imports become references below `data`,
        and variables the unique ones of `scope`. What `expr` declares (`some`, `:=`) is added to
        `scope`, after the values of `with` were resolved; the bodies of `every`, `not`, `and` and
        `or` get inner scopes. Errors, such as an assignment below a `not`, are recorded in `names`,
        not raised. If nothing changes and there is no `with`, `expr` itself is returned.
        """
        withs = tuple([self._with(w, scope) for w in expr.withs])
        term = expr.term
        resolved: Term | SomeDecl | SomeIn | Every | Not | And | Or
        if isinstance(term, SomeDecl):
            symbols = tuple(scope.declare(v, "declared", term.span) for v in term.symbols)
            resolved = replace(term, symbols=symbols)
        elif isinstance(term, SomeIn):
            resolved = self._some_in(term, scope)
        elif isinstance(term, Every):
            resolved = self._every(term, scope)
        elif isinstance(term, Not):
            if not term.braces and any(_is_assignment(inner) for inner in term.body):
                self.names.report("cannot assign vars inside negated expression", expr.span)
            resolved = replace(term, body=self.body(term.body, self._inner(scope, term.body)))
        elif isinstance(term, (And, Or)):
            left = self.body(term.left, self._inner(scope, term.left, joined=True))
            right = self.body(term.right, self._inner(scope, term.right, joined=True))
            resolved = replace(term, left=left, right=right)
        elif isinstance(term, Call) and _is_assignment(expr) and self._assigns(term):
            if expr.negated:
                self.names.report("cannot assign vars inside negated expression", expr.span)
            resolved = self._assign(term, scope)
        elif isinstance(term, Call):
            resolved = self._call(term, scope, is_term=False)
        else:
            resolved = self.term(term, scope)
        if resolved is term and not withs:
            return expr
        return replace(expr, term=resolved, withs=withs)

    def _some_in(self, term: SomeIn, scope: Scope) -> SomeIn:
        """Return `some … in` with names resolved, the domain first. Variables of its key and value
        that the domain does not mention are declared in `scope` and count as used; the others, and
        `input` and `data`, keep their meaning.
        """
        domain = self.term(term.domain, scope)
        # What the collection is made of is not bound by walking it. Nor is a document: to OPA
        # `some input in xs` asks if the input is in it, whatever an import is called.
        known = {v.name for v in term_vars(term.domain)} | ROOTS
        named = {v.name: v for v in some_vars(term) if not v.is_wildcard}
        for name, var in named.items():
            if name not in known:
                scope.declare(var, "declared", term.span)
                if name in scope.declared:
                    scope.declared[name].used = True
        key = None if term.key is None else self.term(term.key, scope)
        return replace(term, key=key, value=self.term(term.value, scope), domain=domain)

    def _every(self, term: Every, scope: Scope) -> Every:
        """Return an `every` with names resolved, the domain in `scope`; its variables, except
        wildcards, and the declarations of its body are in a scope of their own. Errors are recorded
        in `names`.
        """
        domain = self.term(term.domain, scope)
        inner = self._inner(scope, term.body)
        inner.declared_at = term.body[0].span if term.body else term.span
        key = term.key
        if key is not None and not key.is_wildcard:
            key = inner.declare(key, "declared", term.span)
        value = term.value
        if not value.is_wildcard:
            value = inner.declare(value, "declared", term.span)
        body = self.body(term.body, inner)
        return replace(term, key=key, value=value, domain=domain, body=body)

    def _assigns(self, call: Call) -> bool:
        """Return True if `:=` assigns: False if a rule or import is named `assign`."""
        return self._global("assign", call.span) is None

    def _assign(self, call: Call, scope: Scope) -> Call:
        """Return `target := value` with names resolved; the target's variables are declared. A
        target `input` or `data` is reported (in v0 only in strict mode).
        """
        target, value = call.args
        resolved = self.term(value, scope)
        if isinstance(target, Var) and target.name in ROOTS and not self.may_shadow:
            message = f"variables must not shadow {target.name} (use a different variable name)"
            self.names.report(message, target.span, Stage.ROOTS)
        pattern = self._pattern(target, scope)
        return replace(call, args=(pattern, resolved))

    def _pattern(self, term: Term, scope: Scope) -> Term:
        """Return the left side of `:=` with its variables declared in `scope` under new names; keys
        of objects are resolved as terms. Anything but variables, arrays and objects is recorded as
        an error and returned unchanged.
        """
        match term:
            case Var():
                return scope.declare(term, "assigned")
            case Array(items):
                return replace(term, items=tuple(self._pattern(i, scope) for i in items))
            case Object(items):
                pairs = tuple((self.term(k, scope), self._pattern(v, scope)) for k, v in items)
                return replace(term, items=pairs)
        kind = _scalar_kind(term) if isinstance(term, Scalar) else _KINDS.get(type(term))
        self.names.report(f"cannot assign to {kind}", term.span)
        return term

    def _with(self, item: With, scope: Scope) -> With:
        """Return a `with` with the names in its value resolved, and a target that is a rule or
        import replaced by its path; the target is never a local variable. Its use is recorded in
        `scope`, errors in `names`.
        """
        target = item.target
        head = target.head if isinstance(target, Ref) else target
        resolved: Term = target
        if isinstance(head, Var):
            resolved = self._global(head.name, target.span) or target
            if isinstance(target, Ref) and resolved is not target:
                resolved = _append(resolved, target.args, target.span)
            if isinstance(resolved, Ref):
                self._seen_from(scope, resolved)
        assert isinstance(resolved, (Ref, Var))  # names stand for paths
        return replace(item, target=resolved, value=self.term(item.value, scope))

    # Terms

    def term(self, term: Term, scope: Scope, *, use: bool = True) -> Term:
        """Return a term with names resolved. Without `use`, its variables (itself, in items and in
        values of objects) do not count as used, and only declarations of `scope` itself and its
        parameters are seen.
        """
        match term:
            case Scalar():
                return term
            case Ref():
                return self._ref(term, scope)
            case Var():
                return self._var(term, scope, use=use)
            case Call():
                return self._call(term, scope)
            case Array() | Object() | Set() if term.is_ground:
                return term
            case Array(items) | Set(items):
                inner = tuple(self.term(i, scope, use=use) for i in items)
                return replace(term, items=inner)
            case Object(items):
                pairs = tuple((self.term(k, scope), self.term(v, scope, use=use)) for k, v in items)
                return replace(term, items=pairs)
            case ArrayComprehension(head, body) | SetComprehension(head, body):
                inner_scope = Scope(self.names, scope, in_head=self.in_head)
                resolved = self.body(body, inner_scope, close=False)
                result = replace(term, term=self.term(head, inner_scope), body=resolved)
                inner_scope.close()
                return result
            case ObjectComprehension(key, value, body):
                inner_scope = Scope(self.names, scope, in_head=self.in_head)
                resolved = self.body(body, inner_scope, close=False)
                comprehension = replace(
                    term,
                    key=self.term(key, inner_scope),
                    value=self.term(value, inner_scope),
                    body=resolved,
                )
                inner_scope.close()
                return comprehension
        assert isinstance(term, TemplateString)
        parts = tuple(p if isinstance(p, str) else self.expr(p, scope) for p in term.parts)
        return replace(term, parts=parts)

    def _terms(self, terms: tuple[Term, ...], scope: Scope) -> tuple[Term, ...]:
        """Return terms with names resolved in `scope`, in their order; `terms` itself if nothing in
        them changes.
        """
        resolved = [self.term(term, scope) for term in terms]
        return terms if all(map(is_, resolved, terms)) else tuple(resolved)

    def _ref(self, ref: Ref, scope: Scope) -> Term:
        """Return a reference with names resolved: an import or rule at its head becomes its path, a
        local variable the unique one of `scope`. `ref` itself if nothing in it changes. Uses, and
        uses of `input` and `data`, are recorded in `scope`.
        """
        head, args = ref.head, ref.args
        first = self.term(head, scope)
        if isinstance(first, Var) and first.name in ROOTS:
            scope.refer(first.name)  # as in OPA, a document itself is not counted
        rest = self._terms(args, scope)
        if args and first is head and rest is args:
            return ref
        return _append(first, rest, ref.span)

    def _var(self, var: Var, scope: Scope, *, use: bool = True) -> Term:
        """Return the meaning of a variable: a declared variable under its unique name, the path of
        a rule or import, or the variable itself, with the suffix `@` if it hides a built-in. Its
        use in the scope is recorded, and `shares_names` is set if it has the name of a built-in.
        Without `use` only this scope's own declarations count, and the variable does not count as
        used.
        """
        if var.is_wildcard:
            return var
        name = var.name
        declared = scope.find(name) if use else scope.own(name)
        if declared is not None:
            return Var(declared.unique, var.span)
        if not scope.is_local(name):
            target = self._global(name, var.span)
            if target is not None:
                return self._seen_from(scope, target)
        if use and name not in ROOTS:
            if name in self.options.builtins:
                self.shares_names = True
                if scope.is_free(name):
                    var = Var(f"{name}@", var.span)
            scope.refer(name)
        return var

    def _seen_from(self, scope: Scope, target: Ref | Var) -> Ref | Var:
        """Return `target`, the path of a rule or import, as it is read in `scope`. If a pattern
        such as `[data] := …` has declared a variable with the name of its document, the path begins
        with that variable, as in OPA.
        """
        root = target.head if isinstance(target, Ref) else target
        assert isinstance(root, Var)  # names stand for paths
        declared = scope.find(root.name)
        if declared is None:
            if isinstance(target, Ref):
                scope.refer(root.name)
            return target
        local = Var(declared.unique, root.span)
        return replace(target, head=local) if isinstance(target, Ref) else local

    def _global(self, name: str, span: Span) -> Ref | Var | None:
        """Return the path, with `span`, of the import or else the rule with this name; None if
        there is neither, or while parameters are resolved. An import is marked as used.
        """
        if self.in_parameters:
            return None
        imported = self.imports.get(name)
        if imported is not None:
            imported.used = True
            return replace(imported.path, span=span)
        if name in self.rules:
            path = tuple(Scalar(part, span) for part in (*self.package, name))
            return Ref(Var("data", span), path, span)
        return None

    def _call(self, call: Call, scope: Scope, *, is_term: bool = True) -> Call:
        """Return a call with names resolved. A callee that is a local variable gets the suffix `@`,
        so that no function has its name. With `is_term` (inside a term) that is reported as an
        error, except in heads and before the variable's declaration. A call of `rego.metadata` sets
        `asks_metadata`.
        """
        args = self._terms(call.args, scope)
        self.asks_metadata |= call.name in METADATA_CALLS
        operator = call.operator
        head = operator.head
        if isinstance(head, Var):
            if scope.is_local(head.name) or scope.is_free(head.name):
                declared = scope.find(head.name)
                if declared is None and not scope.is_free(head.name):
                    scope.refer(head.name)
                elif is_term and not self.in_head:
                    message = f"called function {ref_text(operator)} shadowed"
                    self.names.report(message, call.span)
                operator = replace(operator, head=Var(f"{head.name}@", head.span))
            else:
                target = self._global(head.name, head.span)
                if target is not None:
                    operator = _operator(self._seen_from(scope, target), operator)
        if args is call.args and operator is call.operator:
            return call
        return replace(call, operator=operator, args=args)


def _is_assignment(expr: Expr) -> bool:
    return isinstance(expr.term, Call) and expr.term.infix and expr.term.name == "assign"


def _operator(target: Ref | Var, operator: Ref) -> Ref:
    joined = _append(target, operator.args, operator.span)
    return joined if isinstance(joined, Ref) else Ref(joined, (), operator.span)


def _append(head: Term, args: tuple[Term, ...], span: Span) -> Ref | Term:
    """Return `head` followed by `args` as a single reference; `head` itself without `args`."""
    if not args:
        return head
    if isinstance(head, Ref):
        return Ref(head.head, head.args + args, span)
    return Ref(head, args, span)


def import_name(item: Import) -> str:
    """Return the name by which a module refers to an import: its alias, otherwise the last name of
    its path.
    """
    if item.alias is not None:
        return item.alias
    if isinstance(item.path, Ref) and item.path.args:
        last = item.path.args[-1]
        assert isinstance(last, Scalar)  # an import names what it brings
        return str(last.value)
    head = item.path.head if isinstance(item.path, Ref) else item.path
    return head.name if isinstance(head, Var) else ""


def _import_text(item: Import) -> str:
    alias = "" if item.alias is None else f" as {item.alias}"
    return f"import {ref_text(item.path)}{alias}"


def _parameter_vars(term: Term) -> Iterator[Var]:
    """Yield the variables that a parameter declares: those that a pattern binds, except `input` and
    `data`. Those of a reference are the variables in its operands and the one with which it starts,
    as in OPA even if that is `input` or `data`.
    """
    match term:
        case Var(name):
            if name not in ROOTS:
                yield term
        case Ref(head, args):
            if isinstance(head, Var):
                yield head
            for arg in args:
                yield from _parameter_vars(arg)
        case Array(items):
            for item in items:
                yield from _parameter_vars(item)
        case Object(items):
            for _, item in items:
                yield from _parameter_vars(item)


def _is_evaluated(node: Node) -> bool:
    """Return True for a part of a parameter that must be evaluated: `input`, `data`, a reference, a
    template string or a comprehension.
    """
    if isinstance(node, Var):
        return node.name in ROOTS
    return isinstance(
        node,
        (Ref, TemplateString, ArrayComprehension, SetComprehension, ObjectComprehension),
    )


def _calls(term: Term) -> Iterator[Call]:
    """Yield the outermost calls in a parameter; keys of objects, sets and comprehensions are not
    searched.
    """
    match term:
        case Call():
            yield term
        case Array(items):
            for item in items:
                yield from _calls(item)
        case Object(items):
            for _, item in items:
                yield from _calls(item)


def _scalar_kind(term: Scalar) -> str:
    """Return a scalar's type as OPA's errors name it: `null`, `boolean`, `string`, `number`."""
    if term.value is None:
        return "null"
    if isinstance(term.value, bool):
        return "boolean"
    return "string" if isinstance(term.value, str) else "number"
