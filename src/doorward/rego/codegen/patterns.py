"""Taking values apart: what `=` and `:=`, parameters and operands of walks bind and test."""

from __future__ import annotations

import ast
from dataclasses import replace

from doorward.rego.analysis.negation import is_generated
from doorward.rego.codegen.block import call, load, method_of, name_of, runtime, store
from doorward.rego.codegen.terms import NOT_CONSTANT, Operand, Terms, constant_value
from doorward.rego.syntax.nodes import Array, Object, Term, Var
from doorward.rego.values import equal, to_key

__all__ = ["Patterns", "equality", "is_class"]


class Patterns(Terms):
    """Writes matches of a pattern with a known value."""

    def match(self, pattern: Term, known: Operand) -> None:
        """Bind what is open in `pattern`; what is written next runs only if it matches."""
        match pattern:
            case Var(name) if name not in self.env and name not in ("input", "data"):
                if not pattern.is_wildcard:
                    self._bind(name, known)
                return
            case Array(items) if not self.is_known(pattern):
                self._match_array(items, known)
                return
            case Object(pairs) if not self.is_known(pattern):
                self._match_object(pairs, known)
                return
        self.test(self.equal(self.term(pattern), known))

    def target(self, pattern: Term, kind: str = "") -> ast.Name:
        """What a walk assigns, always a value of `kind` if that is given: the variable itself
        where `pattern` is a new one."""
        if (
            isinstance(pattern, Var)
            and not pattern.is_wildcard
            and pattern.name not in self.env
            and pattern.name not in ("input", "data")
        ):
            name = self.fresh(pattern.name.partition("@")[0])
            self.env[pattern.name] = Operand(load(name), kind)
            return store(name)
        return store(self.fresh())

    def match_target(self, pattern: Term, target: ast.Name) -> None:
        """Match what a walk assigned to `target`, unless that was the variable itself."""
        bound = self.env.get(pattern.name) if isinstance(pattern, Var) else None
        if bound is None or name_of(bound.code) != target.id:
            self.match(pattern, Operand(load(target.id)))

    def _bind(self, name: str, known: Operand) -> None:
        if known.is_constant and isinstance(known.code, ast.Constant):
            self.env[name] = known
            return
        wish = "" if is_generated(name) else name.partition("@")[0]
        # Bound to a variable it is an object like any other: walked in Rego's order.
        self.env[name] = replace(known, code=self.hold(known.code, wish), as_made=False)

    def _match_array(self, items: tuple[Term, ...], known: Operand) -> None:
        held = self.hold(known.code)
        self.test(_shape(held, "" if known.kind == "array" else "list", len(items)))
        parts = [
            Operand(
                ast.Subscript(value=held, slice=ast.Constant(value=n), ctx=ast.Load()), known.of
            )
            for n in range(len(items))
        ]
        # Parts that are known first: they may refuse before anything is bound.
        for item, part in zip(items, parts, strict=True):
            self.match(item, part)

    def _match_object(self, pairs: tuple[tuple[Term, Term], ...], known: Operand) -> None:
        held = self.hold(known.code)
        self.test(_shape(held, "dict", len({_key_text(k) for k, _ in pairs})))
        for key, value in pairs:
            constant = constant_value(key)
            if constant is NOT_CONSTANT:
                code = self.key(self.term(key))
            else:
                code = self.key(self.constant(constant))
            part = self.hold(method_of(held, "get", code, runtime("UNDEFINED")))
            self.defined(part)
            self.match(value, Operand(part))

    def equal(self, a: Operand, b: Operand) -> ast.expr:
        return equality(a, b)


def equality(a: Operand, b: Operand) -> ast.expr:
    """A test of two values for equality, in Python's own terms where that is exact."""
    if a.is_constant and b.is_constant:
        return ast.Constant(value=equal(a.value, b.value))
    if a.is_constant:
        a, b = b, a
    if b.is_constant and (b.value is None or b.value is True or b.value is False):
        return ast.Compare(left=a.code, ops=[ast.Is()], comparators=[b.code])
    plain = ast.Compare(left=a.code, ops=[ast.Eq()], comparators=[b.code])
    if "string" in (a.kind, b.kind) or (a.kind == "number" and b.kind == "number"):
        return plain
    if b.is_constant and type(b.value) is int and b.value not in (0, 1):
        return plain
    general = call(runtime("equal"), a.code, b.code)
    if isinstance(a.code, ast.Name) and isinstance(b.code, ast.Name):
        # Values that differ for Python differ for Rego; those that do not are looked at again,
        # since `1 == True`.
        exact = ast.BoolOp(op=ast.Or(), values=[is_class(a.code, "str"), general])
        return ast.BoolOp(op=ast.And(), values=[plain, exact])
    return general


def is_class(value: ast.expr, name: str) -> ast.Compare:
    """A test for the value's Python class, which tells its kind."""
    return ast.Compare(
        left=call(runtime("type"), value), ops=[ast.Is()], comparators=[runtime(name)]
    )


def _shape(held: ast.Name, kind: str, size: int) -> ast.expr:
    """A test for the size, and for the class where it is not known."""
    fits = ast.Compare(
        left=call(runtime("len"), held),
        ops=[ast.Eq()],
        comparators=[ast.Constant(value=size)],
    )
    return ast.BoolOp(op=ast.And(), values=[is_class(held, kind), fits]) if kind else fits


def _key_text(key: Term) -> object:
    constant = constant_value(key)
    return id(key) if constant is NOT_CONSTANT else to_key(constant)
