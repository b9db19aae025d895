"""Types of everything in a body, and what can never hold: OPA's `rego_type_error`.

Bodies come flat (`flatten`): each expression is one call, one equation or one term. A variable
gets its type from the first expression that says something about it; every later one must be able
to meet that type. Nothing is reported that could hold for some input: what is not known is `any`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from doorward.rego.analysis.environment import (
    Globals,
    Scope,
    constant,
    is_constant,
)
from doorward.rego.analysis.reference_types import bodies_of, check_references
from doorward.rego.analysis.type_errors import (
    Finding,
    arguments_error,
    match_error,
    ref_text,
    undefined_function,
)
from doorward.rego.analysis.types import (
    UNKNOWN,
    bounded,
    has_unknown,
    object_of,
    select,
    type_of,
    unifies,
    union,
    union_of,
    values_of,
)
from doorward.rego.analysis.variables import ROOTS
from doorward.rego.builtins.registry.signature import (
    AnyOf,
    ArrayType,
    Function,
    ObjectType,
    SetType,
    Type,
    any_,
    string,
)
from doorward.rego.syntax.nodes import (
    Array,
    ArrayComprehension,
    Body,
    Call,
    Expr,
    Object,
    ObjectComprehension,
    Ref,
    Scalar,
    Set,
    SetComprehension,
    Term,
    Var,
    With,
)
from doorward.rego.values import from_key

__all__ = ["Inference", "callee_name"]

_TEMPLATE: Final = "internal.template_string"
Comprehension = ArrayComprehension | SetComprehension | ObjectComprehension


def callee_name(operator: Ref) -> str:
    """Return the dotted name under which a built-in is declared, such as `io.jwt.decode`."""
    return Call(operator, ()).name


class Inference:
    """Infers types in the flat bodies of one rule or query. INVARIANT: the bodies outlive it; the
    types of a comprehension are kept by its identity.
    """

    def __init__(self, globals_: Globals) -> None:
        self.globals = globals_
        self._comprehensions: dict[int, tuple[Type, list[Finding]]] = {}

    def body(self, body: Body, scope: Scope) -> list[Finding]:
        """Return the type errors in `body`; the types of its variables are added to `scope`."""
        findings: list[Finding] = []
        for expr in body:
            findings += self._expr(expr, scope)
        return findings

    def _expr(self, expr: Expr, scope: Scope) -> Iterator[Finding]:
        """Yield the type errors of one expression: those in comprehensions (of several with errors,
        only those of the last), then in references, then of the call itself, unless that error only
        follows from the earlier ones.
        """
        around = scope
        if expr.withs:
            values = [(item.target, self.type(item.value, scope)) for item in expr.withs]
            scope = scope.below_replacements(values)
        closures: list[Finding] = []
        for comprehension in _comprehensions(expr):
            inside = self._comprehension(comprehension, scope)[1]
            # Only the errors of the last comprehension that has any are reported.
            closures = inside or closures
        yield from closures
        references = list(check_references(expr, scope, self))
        yield from references
        problem = self._check_expr(expr, scope, around)
        if problem is not None and not (problem.follows and (closures or references)):
            yield problem

    def _check_expr(self, expr: Expr, scope: Scope, around: Scope) -> Finding | None:
        """Return the first type error of an expression itself: of its `with` replacements, its
        equation or its call, without those in its operands; None if there is none. Variables
        without a type get one in `scope`; `around` is the scope outside of the `with`.
        """
        for item in expr.withs:
            problem = self._replacement(item, scope, around)
            if problem is not None:
                return problem
        if not isinstance(expr.term, Call):
            return None
        if expr.term.name in ("eq", "assign") and len(expr.term.args) == 2:
            return self._equation(expr, expr.term, scope)
        if expr.term.name == _TEMPLATE and self.globals.builtin(_TEMPLATE) is None:
            # A template string needs no built-in in the registry, unlike the call of that name.
            parts, result = expr.term.args
            self.fit(parts, any_, scope)
            self.fit(result, string, scope)
            return None
        return self._call(expr, expr.term, scope)

    def _replacement(self, item: With, scope: Scope, around: Scope) -> Finding | None:
        """Return the error if a `with` replaces a function by one of a type that does not unify
        with it, or without known types by one of another number of operands; None otherwise, also
        for a document. `around`: the scope outside of the `with`.
        """
        target, value = self._function(item.target, scope), self._function(item.value, scope)
        if target is None or value is None:
            # The function that calls the one it replaces has no type in `scope`, but operands.
            target, value = self._function(item.target, around), self._function(item.value, around)
            if target is None or value is None or len(target.args) == len(value.args):
                return None
        elif unifies(target, value):
            return None
        name = ref_text(item.target)
        return arguments_error(name, "arity mismatch", value.args, target.args, item.span)

    def _function(self, term: Term, scope: Scope) -> Function | None:
        """Return the type of the function or built-in that a term names, as the value of a `with`
        does; None for others.
        """
        if not isinstance(term, (Ref, Var)):
            return None
        operator = term if isinstance(term, Ref) else Ref(term, (), term.span)
        type_ = self._callee(operator, scope)
        return type_ if isinstance(type_, Function) else None

    def _callee(self, operator: Ref, scope: Scope) -> Type:
        """Return the type of a call's operator, a Function if it is one. Otherwise UNKNOWN, or for
        a name below `data` or a variable the type that it has: any if nothing is known of it.
        """
        if isinstance(operator.head, Var) and (
            operator.head.name in ROOTS
            # As in OPA, a variable whose type is known by now hides built-ins that begin with it.
            or (operator.args and scope.variable(operator.head.name) is not None)
        ):
            return scope.reference(operator)
        return self.globals.builtin(callee_name(operator)) or UNKNOWN

    def _equation(self, expr: Expr, call: Call, scope: Scope) -> Finding | None:
        """Return the error if the sides of an equation can never be equal; else None. Variables
        without a type get one in `scope`.
        """
        left, right = call.args
        types = self.type(left, scope), self.type(right, scope)
        if self._meet(left, types[0], right, types[1], scope):
            return None
        return match_error(types[0], types[1], expr.span)

    def _call(self, expr: Expr, call: Call, scope: Scope) -> Finding | None:
        """Check a call against the type of its function, and return the error if its operands do
        not fit or the callee is not a function; otherwise None, also for a callee of the type any.
        The value is checked as one more operand if there is one. Variables without a type in the
        operands get the declared one in `scope`.
        """
        callee = self._callee(call.operator, scope)
        # A function with a type error counts as any; the error is reported at its definition.
        if callee == any_:
            return None
        if not isinstance(callee, Function):
            return undefined_function(call.operator, expr.span)
        expected: tuple[Type, ...] = callee.args
        if callee.variadic is not None and len(call.args) < len(expected):
            have = [self.type(arg, scope) for arg in call.args]
            return arguments_error(
                ref_text(call.operator), "too few arguments", have, expected, expr.span
            )
        if callee.result == UNKNOWN and len(call.args) > len(expected):
            # The function asks another one with an error in it, whose result nobody knows.
            have = [self.type(arg, scope) for arg in call.args]
            return arguments_error(
                ref_text(call.operator), "too many arguments", have, expected, expr.span
            )
        if callee.result is not None:
            expected = (*expected, callee.result)
        # In a literal without a type before the call, a variable may have any type that it got from
        # an operand before it; in others its type must unify.
        meets = [not has_unknown(self._type_of_literal(arg, scope)) for arg in call.args]
        for n, arg in enumerate(call.args):
            want = expected[n] if n < len(expected) else callee.variadic
            if want is None or not self.fit(arg, want, scope, meets=meets[n]):
                have = [self.type(arg, scope) for arg in call.args]
                name = ref_text(call.operator)
                return arguments_error(name, "invalid argument(s)", have, expected, expr.span)
        return None

    def _type_of_literal(self, term: Term, scope: Scope) -> Type:
        """Return the type of an array, object or set; any for other terms."""
        return self.type(term, scope) if isinstance(term, Array | Object | Set) else any_

    # Types of terms

    def type(self, term: Term, scope: Scope) -> Type:
        """Return the type of a flat term, with the types of variables in `scope`; UNKNOWN if it
        cannot be inferred yet, also for a call or template string. any if the type would have too
        many parts. The body of a comprehension is checked once.
        """
        match term:
            case Scalar(value):
                return type_of(value)
            case Var(name) if name not in ROOTS:
                return scope.variable(name) or UNKNOWN
            case Ref() | Var():
                return scope.reference(term)
            case Array(items):
                static = tuple(self.type(item, scope) for item in items)
                return bounded(ArrayType(static, None if static else any_))
            case Object(items):
                return bounded(self._object(items, scope))
            case Set(items):
                type_ = union_of(self.type(item, scope) for item in items)
                return bounded(SetType(any_ if type_ == UNKNOWN else type_))
            case ArrayComprehension() | SetComprehension() | ObjectComprehension():
                return self._comprehension(term, scope)[0]
        return UNKNOWN

    def _object(self, items: Sequence[tuple[Term, Term]], scope: Scope) -> Type:
        """Return the type of an object literal, with the types of variables in `scope`: a field for
        each constant key; of the other keys the last decides the type of the open part. An empty
        object may have any members.
        """
        fields: list[tuple[object, Type]] = []
        rest: tuple[Type, Type] | None = None
        for key, value in items:
            if is_constant(key):
                fields.append((constant(key), self.type(value, scope)))
            else:
                rest = (self.type(key, scope), self.type(value, scope))
        if not fields and rest is None:
            rest = (any_, any_)
        return object_of(fields, rest)

    def _comprehension(self, term: Comprehension, scope: Scope) -> tuple[Type, list[Finding]]:
        """Return the type of a comprehension and the errors in it. Both are inferred at the first
        call for it, in the `scope` of that call, and kept. The type is UNKNOWN if there are errors.
        """
        # Inferred once, or its errors would be reported for each use of its type.
        known = self._comprehensions.get(id(term))
        if known is None:
            inner = Scope(self.globals, scope)
            findings = self.body(term.body, inner)
            type_ = UNKNOWN if findings else bounded(self._collect(term, inner))
            known = self._comprehensions[id(term)] = type_, findings
        return known

    def _collect(self, term: Comprehension, scope: Scope) -> Type:
        """Return the type of a comprehension from that of its head, whose variables have their
        types in `scope`; a part without a type may be anything. The body must have been read into
        `scope`.
        """
        # A parameter that the body says nothing of has no type yet: it can be anything.
        if isinstance(term, ObjectComprehension):
            key, value = self.type(term.key, scope), self.type(term.value, scope)
            return ObjectType((), (_or_any(key), _or_any(value)))
        of = self.type(term.term, scope)
        if isinstance(term, SetComprehension):
            return SetType(_or_any(of))
        return ArrayType((), None if of == UNKNOWN else of)

    # Unification

    def _meet(self, a: Term, type_a: Type, b: Term, type_b: Type, scope: Scope) -> bool:
        """Return True if the two sides of an equation, `a` of the type `type_a` and `b` of
        `type_b`, can be equal. Variables without a type on one side get that of the other side, in
        `scope`; between two sides without types, arrays and objects are compared part by part, and
        a variable gets any.
        """
        unknown_a, unknown_b = has_unknown(type_a), has_unknown(type_b)
        if unknown_a and not unknown_b:
            return self.fit(a, type_b, scope)
        if unknown_b and not unknown_a:
            return self.fit(b, type_a, scope)
        if not unknown_a:
            return unifies(type_a, type_b)
        match a, b:
            case (Array(x), Array(y)):
                return len(x) == len(y) and self._all_meet(zip(x, y, strict=True), scope)
            case (Object(), Object()):
                return self._objects_meet(a, b, scope)
            case (Var(), Var()) | (Array() | Object(), Var()):
                return self._give_type(b, a, scope)
            case (Var(), Array() | Object()):
                return self._give_type(a, b, scope)
            # A set or comprehension in which only a part has no type, such as that of a parameter.
            case (Var(), _) if type_b != UNKNOWN:
                return self.fit(a, type_b, scope)
            case (_, Var()) if type_a != UNKNOWN:
                return self.fit(b, type_a, scope)
        return False

    def _give_type(self, variable: Term, term: Term, scope: Scope) -> bool:
        """Give a variable without a type that of `term`, in which variables without a type get the
        type any. Return True if the two can be equal.
        """
        self.fit(term, any_, scope)
        return self.fit(variable, self.type(term, scope), scope)

    def _all_meet(self, pairs: Iterable[tuple[Term, Term]], scope: Scope) -> bool:
        """Return True if the sides of each pair can be equal. Variables without a type on one side
        get that of the other side, in `scope`, also if a later pair cannot be equal.
        """
        return all(
            self._meet(x, self.type(x, scope), y, self.type(y, scope), scope) for x, y in pairs
        )

    def _objects_meet(self, a: Object, b: Object, scope: Scope) -> bool:
        """Return True if two objects have the same keys and values that can be equal. Variables
        without a type in one value get that of the other value, in `scope`.
        """
        others = dict(b.items)
        if len(a.items) != len(b.items) or any(key not in others for key, _ in a.items):
            return False
        return self._all_meet(((value, others[key]) for key, value in a.items), scope)

    def fit(
        self, term: Term, type_: Type, scope: Scope, *, widen: bool = False, meets: bool = True
    ) -> bool:
        """Return True if `term` can have the type `type_`. Variables in it without a type get one
        in `scope`, some of them also if the result is False; one with a type must unify with it.
        With `widen`, such a variable gets the union of both instead, and must unify only with
        `meets` (the default).
        """
        match term:
            case Var(name) if name not in ROOTS:
                known = scope.variable(name)
                if widen:
                    if meets and known is not None and not unifies(known, type_):
                        return False
                    scope.variables[name] = union(known or UNKNOWN, type_)
                elif known is not None:
                    return unifies(known, type_)
                else:
                    scope.variables[name] = type_
                return True
            case Array() | Object() | Set() if isinstance(type_, AnyOf):
                return self._fit_options(term, type_, scope, meets=meets)
            case Array(items):
                return isinstance(type_, ArrayType) and self._fit_array(
                    items, type_, scope, widen=widen, meets=meets
                )
            case Object(items):
                return isinstance(type_, ObjectType) and self._fit_object(
                    items, type_, scope, widen=widen, meets=meets
                )
            case Set(items):
                return isinstance(type_, SetType) and all(
                    self.fit(item, values_of(type_), scope, widen=widen, meets=meets)
                    for item in items
                )
        return unifies(self.type(term, scope), type_)

    def _fit_options(
        self, term: Array | Object | Set, type_: AnyOf, scope: Scope, *, meets: bool
    ) -> bool:
        """Return True if a literal fits at least one option of a union; its variables get the union
        of the fitting types, which with `meets` unify with theirs. Any literal fits the type any.
        """
        if type_.options:
            # A list, and not `any` of a generator: each option that fits adds to the types of the
            # variables.
            fits = [
                self.fit(term, option, scope, widen=True, meets=meets) for option in type_.options
            ]
            return any(fits)
        parts = term.items if not isinstance(term, Object) else _flat(term.items)
        for part in parts:
            self.fit(part, any_, scope, widen=True)
        return True

    def _fit_array(
        self, items: Sequence[Term], type_: ArrayType, scope: Scope, *, widen: bool, meets: bool
    ) -> bool:
        """Return True if the items fit an array type. Variables without a type get one in `scope`;
        `widen` and `meets` are those of `fit`.
        """
        if len(items) != len(type_.items) and type_.rest is None:
            return False
        return all(
            self.fit(item, select(type_, n), scope, widen=widen, meets=meets)
            for n, item in enumerate(items)
        )

    def _fit_object(
        self,
        items: Sequence[tuple[Term, Term]],
        type_: ObjectType,
        scope: Scope,
        *,
        widen: bool,
        meets: bool,
    ) -> bool:
        """Return True if the pairs fit an object type. Values under keys that are not constant
        always fit. Variables without a type get one in `scope`; `widen` and
        `meets` are those of `fit`.
        """
        if len(items) != len(type_.fields) and type_.rest is None:
            return False
        for key, value in items:
            if not is_constant(key):
                self.fit(value, any_, scope, widen=widen, meets=meets)
                continue
            want = select(type_, from_key(constant(key)))
            if want == UNKNOWN or not self.fit(value, want, scope, widen=widen, meets=meets):
                return False
        return True


def _or_any(type_: Type) -> Type:
    return any_ if type_ == UNKNOWN else type_


def _flat(pairs: Sequence[tuple[Term, Term]]) -> Iterator[Term]:
    """Yield the keys and values of pairs, one after the other."""
    for key, value in pairs:
        yield key
        yield value


def _comprehensions(expr: Expr) -> Iterator[Comprehension]:
    """Yield the outermost comprehensions of a flat expression: its term, operands of its call, or
    those in its inner bodies (`every`, `not`, …). Those in other terms, such as sides of nested
    arrays, are not operands of flat expressions.
    """
    match expr.term:
        case Call(_, args):
            yield from (a for a in args if isinstance(a, Comprehension))
        case ArrayComprehension() | SetComprehension() | ObjectComprehension():
            yield expr.term
        case _:
            for inner in bodies_of(expr):
                yield from _comprehensions(inner)
