"""Names to references: rules and imports become `data.…`, declared variables become unique.

After this pass a module reads without its imports: every `Var` is a local variable, `input` or
`data`; every operator of a call is a built-in's name or a reference to a function below `data`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from doorward.rego.analysis.scope import Names, Scope, pattern_vars
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

__all__ = ["Resolver", "resolve_modules", "resolve_query"]

ROOTS = frozenset({"input", "data"})
_KINDS = {
    ArrayComprehension: "arraycomprehension",
    SetComprehension: "setcomprehension",
    ObjectComprehension: "objectcomprehension",
    Set: "set",
    Ref: "ref",
    Call: "call",
    TemplateString: "templatestring",
}


def resolve_modules(
    modules: Sequence[Module], *, strict: bool = False
) -> tuple[list[Module], list[Diagnostic]]:
    """Every module with its names resolved, and what is wrong with the names."""
    exports: dict[tuple[str, ...], set[str]] = {}
    for module in modules:
        names = exports.setdefault(module.package.path, set())
        names.update(_rule_name(rule) for rule in module.rules)
    resolved, errors = [], []
    for module in modules:
        package = module.package.path
        resolver = Resolver(package, exports[package], module.imports, strict=strict)
        resolved.append(resolver.module(module))
        errors += resolver.names.errors
    return resolved, errors


def resolve_query(
    body: Body,
    package: tuple[str, ...] = (),
    exports: Iterable[str] = (),
    imports: Sequence[Import] = (),
) -> tuple[Body, list[Diagnostic]]:
    """A query's body with its names resolved, as if it stood in `package`."""
    resolver = Resolver(package, exports, imports)
    scope = Scope(resolver.names)
    resolved = resolver.body(body, scope)
    return resolved, resolver.names.errors


def _rule_name(rule: Rule) -> str:
    head = rule.head.ref.head
    return head.name if isinstance(head, Var) else ""


@dataclass(slots=True)
class _Imported:
    path: Ref | Var
    span: Span
    used: bool = False


class Resolver:
    """Resolves the names of one module."""

    def __init__(
        self,
        package: tuple[str, ...],
        exports: Iterable[str],
        imports: Sequence[Import],
        *,
        strict: bool = False,
    ) -> None:
        self.package = package
        self.names = Names(strict)
        self.rules: Mapping[str, None] = dict.fromkeys(exports)
        self.imports: dict[str, _Imported] = {}
        for item in imports:
            head = item.path.head if isinstance(item.path, Ref) else item.path
            if isinstance(head, Var) and head.name in ROOTS:
                self.imports[_import_name(item)] = _Imported(item.path, item.span)

    def module(self, module: Module) -> Module:
        rules = tuple(self.rule(rule) for rule in module.rules)
        if self.names.strict:
            for imported in self.imports.values():
                if not imported.used:
                    self.names.report(f"import {imported.path.span.text} unused", imported.span)
        return replace(module, rules=rules)

    # Rules

    def rule(self, rule: Rule, arguments: Scope | None = None) -> Rule:
        name = _rule_name(rule)
        if name in ROOTS:
            self.names.report(
                f"rules must not shadow {name} (use a different rule name)", rule.span
            )
        outer = arguments or Scope(self.names)
        args = rule.head.args
        if args is not None and arguments is None:
            args = tuple(self._parameter(arg, outer) for arg in args)
        elif args is not None:
            args = tuple(self.term(arg, outer) for arg in args)
        scope = Scope(self.names, outer)
        body = self.body(rule.body, scope, close=False)
        head = self._head(rule.head, args, scope)
        otherwise = None
        if rule.else_rule is not None:
            otherwise = self.rule(rule.else_rule, outer)
        scope.close()
        if arguments is None:
            outer.close()
        return replace(rule, head=head, body=body, else_rule=otherwise)

    def _head(self, head: Head, args: tuple[Term, ...] | None, scope: Scope) -> Head:
        ref = head.ref
        prefix = tuple(Scalar(part, ref.span) for part in self.package)
        name = Scalar(ref.head.name if isinstance(ref.head, Var) else "", ref.head.span)
        rest = tuple(self.term(arg, scope) for arg in ref.args)
        return replace(
            head,
            ref=Ref(Var("data", ref.span), (*prefix, name, *rest), ref.span),
            args=args,
            key=None if head.key is None else self.term(head.key, scope),
            value=None if head.value is None else self.term(head.value, scope),
        )

    def _parameter(self, term: Term, scope: Scope) -> Term:
        for var in pattern_vars(term):
            if var.name in ROOTS:
                self.names.report(
                    f"args must not shadow {var.name} (use a different variable name)", var.span
                )
        seen = {v.name for v in pattern_vars(term)}
        for var in pattern_vars(term):
            if var.name in seen and var.name not in scope.declared and var.name not in ROOTS:
                scope.declare(var, "argument")
        return self.term(term, scope, use=False)

    # Bodies

    def body(self, body: Body, scope: Scope, *, close: bool = True) -> Body:
        scope.expect(body)
        resolved = tuple(self.expr(expr, scope) for expr in body)
        if close:
            scope.close()
        return resolved

    def expr(self, expr: Expr, scope: Scope) -> Expr:
        withs = tuple(self._with(w, scope) for w in expr.withs)
        term = expr.term
        resolved: Term | SomeDecl | SomeIn | Every | Not | And | Or
        if isinstance(term, SomeDecl):
            resolved = replace(
                term, symbols=tuple(self._declare(v, "declared", scope) for v in term.symbols)
            )
        elif isinstance(term, SomeIn):
            resolved = self._some_in(term, scope)
        elif isinstance(term, Every):
            resolved = self._every(term, scope)
        elif isinstance(term, Not):
            resolved = replace(term, body=self.body(term.body, Scope(self.names, scope)))
        elif isinstance(term, (And, Or)):
            left = self.body(term.left, Scope(self.names, scope))
            right = self.body(term.right, Scope(self.names, scope))
            resolved = replace(term, left=left, right=right)
        elif isinstance(term, Call) and term.infix and term.name == "assign":
            if expr.negated:
                self.names.report("cannot assign vars inside negated expression", expr.span)
            resolved = self._assign(term, scope)
        else:
            resolved = self.term(term, scope)
        return replace(expr, term=resolved, withs=withs)

    def _some_in(self, term: SomeIn, scope: Scope) -> SomeIn:
        domain = self.term(term.domain, scope)
        key = None if term.key is None else self._pattern(term.key, "declared", scope)
        value = self._pattern(term.value, "declared", scope)
        for part in (key, value):
            for var in pattern_vars(part) if part is not None else ():
                self._mark_used(var, scope)
        return replace(term, key=key, value=value, domain=domain)

    def _mark_used(self, var: Var, scope: Scope) -> None:
        for declared in scope.declared.values():
            if declared.unique == var.name and not self.names.strict:
                declared.used = True

    def _every(self, term: Every, scope: Scope) -> Every:
        domain = self.term(term.domain, scope)
        inner = Scope(self.names, scope)
        key = None if term.key is None else self._declare(term.key, "declared", inner)
        value = self._declare(term.value, "declared", inner)
        body = self.body(term.body, Scope(self.names, inner))
        inner.close()
        return replace(term, key=key, value=value, domain=domain, body=body)

    def _assign(self, call: Call, scope: Scope) -> Call:
        target, value = call.args
        resolved = self.term(value, scope)
        pattern = self._pattern(target, "assigned", scope)
        return replace(call, args=(pattern, resolved))

    def _pattern(self, term: Term, how: str, scope: Scope) -> Term:
        match term:
            case Var():
                return self._declare(term, how, scope)
            case Array(items):
                return replace(term, items=tuple(self._pattern(i, how, scope) for i in items))
            case Object(items):
                pairs = tuple((self.term(k, scope), self._pattern(v, how, scope)) for k, v in items)
                return replace(term, items=pairs)
        if how == "assigned":
            kind = _KINDS.get(type(term))
            if kind is None and isinstance(term, Scalar):
                kind = _scalar_kind(term)
            self.names.report(f"cannot assign to {kind}", term.span)
            return term
        return self.term(term, scope)

    def _declare(self, var: Var, how: str, scope: Scope) -> Var:
        if var.name in ROOTS:
            self.names.report(
                f"variables must not shadow {var.name} (use a different variable name)", var.span
            )
            return var
        return scope.declare(var, how)

    def _with(self, item: With, scope: Scope) -> With:
        target = item.target
        head = target.head if isinstance(target, Ref) else target
        resolved: Term = target
        if isinstance(head, Var) and head.name not in ROOTS:
            resolved = self._global(head.name, target.span) or target
            if isinstance(target, Ref) and resolved is not target:
                resolved = _append(resolved, target.args, target.span)
        elif isinstance(target, Ref):
            resolved = target
        if not isinstance(resolved, (Ref, Var)):
            resolved = target
        return replace(item, target=resolved, value=self.term(item.value, scope))

    # Terms

    def term(self, term: Term, scope: Scope, *, use: bool = True) -> Term:
        match term:
            case Scalar():
                return term
            case Var(name):
                return self._var(term, name, scope, use=use)
            case Ref(head, args):
                first = self.term(head, scope)
                rest = tuple(self.term(arg, scope) for arg in args)
                return _append(first, rest, term.span)
            case Call():
                return self._call(term, scope)
            case Array(items) | Set(items):
                inner = tuple(self.term(i, scope, use=use) for i in items)
                return replace(term, items=inner)
            case Object(items):
                pairs = tuple((self.term(k, scope), self.term(v, scope, use=use)) for k, v in items)
                return replace(term, items=pairs)
            case ArrayComprehension(head, body) | SetComprehension(head, body):
                inner_scope = Scope(self.names, scope)
                resolved = self.body(body, inner_scope, close=False)
                result = replace(term, term=self.term(head, inner_scope), body=resolved)
                inner_scope.close()
                return result
            case ObjectComprehension(key, value, body):
                inner_scope = Scope(self.names, scope)
                resolved = self.body(body, inner_scope, close=False)
                comprehension = replace(
                    term,
                    key=self.term(key, inner_scope),
                    value=self.term(value, inner_scope),
                    body=resolved,
                )
                inner_scope.close()
                return comprehension
            case TemplateString(parts):
                return replace(
                    term,
                    parts=tuple(p if isinstance(p, str) else self.expr(p, scope) for p in parts),
                )

    def _var(self, var: Var, name: str, scope: Scope, *, use: bool = True) -> Term:
        if name in ROOTS or var.is_wildcard:
            return var
        declared = scope.declared.get(name) if not use else scope.find(name)
        if declared is not None:
            return Var(declared.unique, var.span)
        if scope.is_local(name):
            return var
        return self._global(name, var.span) or var

    def _global(self, name: str, span: Span) -> Ref | Var | None:
        imported = self.imports.get(name)
        if imported is not None:
            imported.used = True
            return replace(imported.path, span=span)
        if name in self.rules:
            path = tuple(Scalar(part, span) for part in (*self.package, name))
            return Ref(Var("data", span), path, span)
        return None

    def _call(self, call: Call, scope: Scope) -> Call:
        args = tuple(self.term(arg, scope) for arg in call.args)
        operator = call.operator
        head = operator.head
        if isinstance(head, Var) and head.name not in ROOTS and not call.infix:
            if scope.is_local(head.name):
                scope.find(head.name)
                operator = replace(operator, head=Var(f"{head.name}@", head.span))
            else:
                target = self._global(head.name, head.span)
                if target is not None:
                    operator = _operator(target, operator)
        return replace(call, operator=operator, args=args)


def _operator(target: Ref | Var, operator: Ref) -> Ref:
    joined = _append(target, operator.args, operator.span)
    return joined if isinstance(joined, Ref) else Ref(joined, (), operator.span)


def _append(head: Term, args: tuple[Term, ...], span: Span) -> Ref | Term:
    """`head` followed by `args`, as one reference."""
    if not args:
        return head
    if isinstance(head, Ref):
        return Ref(head.head, head.args + args, span)
    return Ref(head, args, span)


def _import_name(item: Import) -> str:
    if item.alias is not None:
        return item.alias
    if isinstance(item.path, Ref) and item.path.args:
        last = item.path.args[-1]
        if isinstance(last, Scalar):
            return str(last.value)
    head = item.path.head if isinstance(item.path, Ref) else item.path
    return head.name if isinstance(head, Var) else ""


def _scalar_kind(term: Scalar) -> str:
    if term.value is None:
        return "null"
    if isinstance(term.value, bool):
        return "boolean"
    return "string" if isinstance(term.value, str) else "number"
