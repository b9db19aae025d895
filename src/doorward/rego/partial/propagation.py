"""The last step: a residual without variables that only carry a value from one place to another.

`x = input.a; y = x; gt(y, 1)` becomes `gt(input.a, 1)`. What is put in place of a variable is still
asked for: an equation whose variable nobody reads stays, since its reference may be undefined.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import replace
from functools import partial

from doorward.base.records import mutable
from doorward.rego.analysis.variables import ROOTS
from doorward.rego.partial.core import (
    DATA,
    FALSE,
    INPUT,
    TRUE,
    Array,
    Body,
    Call,
    Comprehension,
    Constant,
    Expr,
    Object,
    Ref,
    Term,
    Var,
    With,
    changed,
    equation,
    expr_terms,
    inner_terms,
    is_ground,
    is_path,
    kind_of,
    map_parts,
    parts,
    variables,
)
from doorward.rego.partial.order import expr_variables, outputs_of, outputs_of_body
from doorward.rego.partial.program import Program

__all__ = ["Propagation"]


class Propagation:
    """Simplifies bodies. The variables in `live` stay bound, since the reader of the residual knows
    them. With `whole`, a body without remaining expressions becomes `true` instead of ().
    """

    def __init__(self, program: Program, live: Iterable[str], *, whole: bool = False) -> None:
        self._program = program
        self._live = frozenset(live)
        self._whole = whole
        self._generated = 0

    def apply(self, body: Body) -> Body:
        """Return the body of a residual without the equations that only carry a value: variables
        that are equal become one, and are replaced by their constant or term. Equations of `live`
        variables are written out again at the end, as are removed ones whose value must still be
        defined. The body is returned unchanged if it is only comparisons, if equations give one
        variable two constants or a constant that a pattern cannot equal, or if a variable would be
        left unbound. With `whole`, a body without remaining expressions becomes `true`.
        """
        plain = [_is_plain(expr) for expr in body]
        # Most residuals of filters are only comparisons of paths: nothing to simplify.
        if body and all(plain):
            return body
        sets = _equal_variables(body, self._live)
        if sets is None:
            return body
        # A constant cannot head a reference (`1.a` is not Rego): such a variable stays.
        heads = set()
        others = [expr for expr, is_plain in zip(body, plain, strict=True) if not is_plain]
        for expr in others:
            for name in _heads(expr):
                root = sets.find(name)
                if root is not None:
                    root.constant = None
                    heads.add(root.name)
                else:
                    heads.add(name)
        removed: dict[str, Term] = {}
        kept: set[str] = set()
        result: list[Expr] = []
        for expr, is_plain in zip(body, plain, strict=True):
            if is_plain:
                result.append(expr)
                continue
            plugged = _Plug(sets, removed, kept, expr.negated).expr(expr)
            if _never_binds(plugged):
                return body
            if self._stays(plugged, removed, heads):
                result.append(plugged)
        # Who reads the residual knows only the live names: what was merged into another variable,
        # or put in its place, is written out again.
        for name in sorted(self._live):
            root = sets.find(name)
            if root is None:
                continue
            if root.constant is not None:
                result.append(equation(Var(name), root.constant))
            elif root.name in removed:
                result.append(equation(Var(name), removed[root.name]))
            elif root.name != name:
                result.append(equation(Var(name), Var(root.name)))
        # Under a `with` a variable may stand before what it is removed for.
        kept.update(*[variables(term) for e in result if e.withs for term in expr_terms(e)])
        return self._with_what_is_asked(body, result, removed, kept)

    def _with_what_is_asked(
        self, body: Body, result: list[Expr], removed: dict[str, Term], kept: Container[str]
    ) -> Body:
        """Append to `result` the equations of `removed` (terms by the names of their variables)
        that are still needed, and return it as a body. Needed are those that bind a variable which
        is read without being bound, those of names in `kept` or still used, and those whose value
        nothing else requires to be defined. Return `body`, the original, if a variable stays
        unbound. With `whole`, an empty result becomes `true`.
        """
        safe = {*ROOTS, *self._live}
        # An expression before the equation may have bound the variable: then it compares the two.
        used = {name for expr in result for name in expr_variables(expr)}
        unsafe = used - safe
        if unsafe:
            safe |= outputs_of_body(tuple(result), safe, self._program.arity)
            unsafe -= safe
        unneeded: dict[str, Term] = {}
        for name, value in sorted(removed.items(), reverse=True):
            again = equation(Var(name), value)
            outputs: set[str] = set()
            if unsafe:
                outputs = outputs_of(again, safe, self._program.arity)
            binds = bool(unsafe & outputs)
            unsafe -= outputs
            # `data` and bound variables are always defined; `input` may be missing.
            is_safe_root = (
                type(value) is Ref
                and len(value.parts) == 1
                and type(value.parts[0]) is Var
                and value.parts[0].name != "input"
                and value.parts[0].name in safe
            )
            if (
                binds
                or name in kept
                or name in used
                or (not is_safe_root and not _is_in(value, result))
            ):
                result.append(again)
                used.update(expr_variables(again))
                safe |= outputs or outputs_of(again, safe, self._program.arity)
            else:
                unneeded[name] = value
        # An equation that is needed may read a variable of one that was not, so far.
        while needed := [name for name in unneeded if name in used]:
            for name in needed:
                again = equation(Var(name), unneeded.pop(name))
                result.append(again)
                used.update(expr_variables(again))
        if unsafe:
            return body
        if self._whole and not result:
            return (Expr((TRUE,)),)
        return tuple(result)

    def _stays(self, expr: Expr, removed: dict[str, Term], heads: set[str]) -> bool:
        """Return True if the expression must stay, such as each with `not` or `with`. Otherwise
        return False; an equation or call that defines a variable outside `_live` is also recorded
        in `removed` under the variable's name, a reference that is equated with itself under a
        generated one. A call whose result is in `heads` stays.
        """
        if expr.negated or expr.withs:
            return True
        if expr.is_equation:
            left, right = expr.args
            if left == right:
                if type(left) is Ref:
                    # `input.a == input.a` still asks whether `input.a` is defined. Under a name
                    # that nobody reads it stays a candidate for `_with_what_is_asked`.
                    removed[f"__localcp{self._generated}__"] = left
                    self._generated += 1
                return False
            for var, value in ((left, right), (right, left)):
                if type(value) not in (Ref, Call):
                    continue
                if type(var) is Var and var.name not in self._live:
                    removed[var.name] = value
                    return False
        elif expr.operator is not None and self._program.arity(expr.operator) == len(expr.args) - 1:
            # One argument more than the function has operands: the last one is its result.
            output = expr.args[-1]
            if type(output) is Var and output.name not in self._live | heads:
                removed[output.name] = Call(expr.operator, expr.args[:-1], expr.location)
                return False
        return not _says_nothing(expr)


def _is_plain(expr: Expr) -> bool:
    """Return True if all operands are constants or paths, at least one is a path, and they are not
    equal; propagation then leaves the expression as it is. False for an `every`, and with `with`.
    """
    if expr.withs or expr.every is not None:
        return False
    args = expr.args
    paths = [arg for arg in args if type(arg) is not Constant]
    if not paths or not all(map(is_path, paths)):
        return False
    return len(args) != 2 or args[0] != args[1]


def _never_binds(expr: Expr) -> bool:
    """Return True for an equation of a pattern with a constant of another type, such as `[x] = 1`:
    OPA's compiler finds its variables unsafe.
    """
    if not expr.is_equation:
        return False
    kinds = [kind_of(term) for term in expr.args if type(term) in (Array, Object, Constant)]
    return len(set(kinds)) == 2 and not all(map(is_ground, expr.args))


def _says_nothing(expr: Expr) -> bool:
    """Return True if an expression without `not` and `with` is trivially true: a constant other
    than false, or `x == x`.
    """
    if expr.every is not None:
        return False
    if expr.operator is None:
        (term,) = expr.args
        return type(term) is Constant and term != FALSE
    # With an output, as in `equal(x, x, false)`, it says what the output is.
    return expr.operator == "equal" and len(expr.args) == 2 and expr.args[0] == expr.args[1]


@mutable(eq=False)
class _Root:
    """A set of variables that must be equal: the name of the one that represents it, and the
    constant that they equal, if there is one.
    """

    name: str
    constant: Term | None = None


class _EqualVariables:
    """Sets of variables that must be equal, with one variable that represents each set."""

    def __init__(self, live: frozenset[str]) -> None:
        self._live = live
        self._parents: dict[str, str] = {}
        self._roots: dict[str, _Root] = {}

    def find(self, name: str) -> _Root | None:
        """Return the root of the variable's set; None if it is in no set."""
        if name not in self._parents:
            return None
        while (parent := self._parents[name]) != name:
            name = parent
        return self._roots[name]

    def make(self, name: str) -> _Root:
        """Return the root of the variable's set of equal variables; a variable in no set gets one
        of its own.
        """
        root = self.find(name)
        if root is None:
            self._parents[name] = name
            root = self._roots[name] = _Root(name)
        return root

    def merge(self, a: str, b: str) -> bool:
        """Unite the sets of two variables, represented by a live variable if one of the two roots
        is live, and with the constant of either. Return False if they have different constants;
        they are united all the same.
        """
        one, other = self.make(a), self.make(b)
        if one is other:
            return True
        # The name that stands for both must be a live one if there is one.
        if one.name not in self._live:
            one, other = other, one
        self._parents[other.name] = one.name
        del self._roots[other.name]
        if one.constant is None:
            one.constant = other.constant
        return other.constant is None or one.constant == other.constant


def _equal_variables(body: Body, live: frozenset[str]) -> _EqualVariables | None:
    """Return the sets of variables that the equations of `body` without `not` and `with` make
    equal, each with the constant that it equals, if there is one; None if one set has two different
    constants. Variables in `live` represent their sets.
    """
    sets = _EqualVariables(live)
    for expr in body:
        if not expr.is_equation or expr.negated or expr.withs:
            continue
        left, right = expr.args
        if type(left) is Var and type(right) is Var and not sets.merge(left.name, right.name):
            return None
        for var, value in ((left, right), (right, left)):
            if type(var) is Var and type(value) is Constant:
                root = sets.make(var.name)
                if root.constant is not None and root.constant != value:
                    return None
                root.constant = value
    return sets


class _Plug:
    """Replaces variables by constants and by the terms of removed equations."""

    def __init__(
        self, sets: _EqualVariables, removed: dict[str, Term], kept: set[str], negated: bool
    ) -> None:
        self._sets = sets
        self._removed = removed
        self._kept = kept
        """Variables that are not replaced everywhere; the plug adds to it."""
        self._negated = negated
        self._open: set[str] = set()
        self._withs: tuple[With, ...] = ()
        """What is in effect where a term stands."""

    def expr(self, expr: Expr) -> Expr:
        """Return an expression with its variables replaced by what they stand for, also in its
        `with` and `every`. While its operands are replaced, its `with` is in effect, under which a
        term must not be moved that it changes.
        """
        withs = tuple([replace(item, value=self.term(item.value)) for item in expr.withs])
        around, self._withs = self._withs, self._withs + expr.withs
        every = expr.every
        if every is not None:
            body = tuple([self.expr(inner) for inner in every.body])
            key, value = self.term(every.key), self.term(every.value)
            every = replace(every, key=key, value=value, domain=self.term(every.domain), body=body)
        args = tuple([self.term(arg) for arg in expr.args])
        self._withs = around
        return changed(expr, args, withs, every)

    def term(self, term: Term) -> Term:
        """Return a term with its variables replaced by the constants or removed terms that they
        stand for, at any depth, in the bodies of comprehensions too. A variable that could not be
        replaced everywhere is added to `kept`, so that its equation stays.
        """
        if type(term) is Constant:
            return term
        if type(term) is Var:
            return self.variable(term)
        if type(term) is Ref:
            return self.reference(term)
        if type(term) is Comprehension:
            key = None if term.key is None else self.term(term.key)
            body = tuple([self.expr(expr) for expr in term.body])
            return replace(term, key=key, term=self.term(term.term), body=body)
        return map_parts(term, self.term)

    def variable(self, var: Var) -> Term:
        """Return the replacement of a variable: its constant, the value of its removed equation, or
        the variable that represents its set. The value is not put in if it leads back to the
        variable, in a negated expression unless it is ground, or if it is another one under the
        `with`: then the variable is added to `_kept`.
        """
        root = self._sets.find(var.name)
        if root is not None:
            if root.constant is not None:
                return root.constant
            var = Var(root.name)
        value = self._removed.get(var.name)
        # `not` binds nothing: variables that the value brings along would be unsafe under it.
        if value is None or var.name in self._open or (self._negated and not is_ground(value)):
            return var
        if type(value) is Ref and var.name in _outputs(value):
            return var
        # The variable has its value from outside of the `with`.
        if self._withs and not _is_apart(value, self._withs):
            self._kept.add(var.name)
            return var
        # Removed equations may lead in a circle: a variable that is being replaced stays as it is.
        self._open.add(var.name)
        try:
            return self.term(value)
        finally:
            self._open.discard(var.name)

    def reference(self, ref: Ref) -> Term:
        """Return a reference with the variables in it replaced by what they stand for. If its head
        becomes a reference, the two are joined to one; a path (a constant reference) is returned
        unchanged.
        """
        if is_path(ref):
            return ref
        head = ref.parts[0]
        rest = [self.term(part) for part in ref.parts[1:]]
        if type(head) is not Var:
            return Ref((self.term(head), *rest))
        value = self.variable(head)
        inside = value.parts if type(value) is Ref else (value,)
        return Ref((*inside, *rest))


def _outputs(ref: Ref) -> set[str]:
    return {name for part in ref.parts[1:] for name in _names(part)}


def _names(term: Term) -> Iterator[str]:
    """Yield the variables of a term, once for each occurrence, `data` and `input` included, but not
    those in comprehensions.
    """
    if type(term) is Var:
        yield term.name
    elif type(term) is not Comprehension:
        for part in parts(term):
            yield from _names(part)


def _head(ref: Ref) -> str:
    head = ref.parts[0]
    return head.name if type(head) is Var else ""


def _heads(expr: Expr) -> Iterator[str]:
    """Return the variables that are heads of references in an expression, `data` and `input`
    included, in comprehensions and inner bodies too; "" for a head that is not a variable.
    """
    terms = expr_terms(expr)
    if all(type(term) is Constant or type(term) is Var or is_path(term) for term in terms):
        return (_head(term) for term in terms if type(term) is Ref)
    return (_head(each) for each in inner_terms(expr_terms(expr)) if type(each) is Ref)


def _is_in(value: Term, body: Iterable[Expr]) -> bool:
    """Return True if `value`, or a reference that begins with the reference `value`, must have a
    value for `body` to hold: it is an operand or a part of one, and not only inside of a
    comprehension. In an expression with a `with` that may replace it, only the values of the `with`
    count.
    """
    waiting: list[Term] = []
    for expr in body:
        if expr.withs and not _is_apart(value, expr.withs):
            waiting += [item.value for item in expr.withs]  # another value is read there
        else:
            waiting += _terms_needed(expr)
    while waiting:
        term = waiting.pop()
        if type(term) is Comprehension:
            continue
        if type(value) is Ref and type(term) is Ref:
            if term.parts[: len(value.parts)] == value.parts:
                return True
        elif term == value:
            return True
        waiting += parts(term)
    return False


def _is_apart(value: Term, withs: Iterable[With]) -> bool:
    """Return True if `value` certainly is the same under the `with`: it reads only parts of the
    input that no target overlaps. False for values with a comprehension, a reference to data or a
    call of a function; also with a call of a built-in if a target is not in the input.
    """
    targets = [item.target for item in withs]
    for term in inner_terms((value,)):
        if type(term) is Comprehension:
            return False
        if type(term) is Call and any(each.parts[0] != INPUT for each in targets):
            return False  # of a function that may be replaced, or may read what is
        if type(term) is Call and type(term.operator) is not str:
            return False
        if type(term) is Ref and term.parts[0] == DATA:
            return False
        if type(term) is Ref and any(map(partial(_overlap, term), targets)):
            return False
    return True


def _overlap(ref: Ref, target: Ref) -> bool:
    """Return True if `ref` may lead to `target`, above it or into it; a part of `ref` that is not
    constant may be any key.
    """
    head, *keys = ref.parts
    pairs = zip(keys, target.parts[1:], strict=False)
    return head == target.parts[0] and all(type(a) is not Constant or a == b for a, b in pairs)


def _terms_needed(expr: Expr) -> Iterator[Term]:
    """Yield the terms that must have values for `expr` to hold, the values of its `with` included.
    The negation of a plain reference, or of an equation of such, also holds if one has no value: of
    these references only the parts, such as the keys, are yielded. All else is evaluated before the
    negation.
    """
    every = expr.every
    if every is not None:
        yield from (every.key, every.value, every.domain)
    for item in expr.withs:
        yield item.value
    for arg in expr.args:
        if expr.negated and (expr.operator is None or expr.is_equation) and type(arg) is Ref:
            yield from arg.parts
        else:
            yield arg
