"""Lookups in a value to Python: paths of names, operands, and walks over what is open.

Which documents and rules there are is not known here; `references` follows those.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from doorward.rego.codegen.block import (
    Constants,
    all_of,
    attribute,
    call,
    load,
    method,
    method_of,
    on,
    runtime,
    store,
)
from doorward.rego.codegen.patterns import Patterns, is_class
from doorward.rego.codegen.plan import Plan
from doorward.rego.codegen.terms import Operand
from doorward.rego.runtime.operations import values
from doorward.rego.syntax.nodes import Array, Object, Scalar, Term, Var

__all__ = ["Lookups", "constant_names"]

SHORT: Final = 8
"""Items of a list that may be walked without counting."""

MAX_STEPS: Final = 16
"""Names of a path that are looked up in one Python expression, which nests as deep."""

MAX_FREED: Final = 16
"""One in so many walks of a function is always counted."""


class Lookups(Patterns):
    """Writes lookups."""

    def __init__(self, constants: Constants, plan: Plan) -> None:
        super().__init__(constants, plan)
        self.branches: dict[tuple[str, ...], ast.Name] = {}
        """Objects of which the function reads several members, by where they were read."""
        self.getters: dict[str, str] = {}
        """Names of functions that read a member of such an object, by its name."""
        self.of_data = {"data"}
        """Names of what was read from base data."""
        self.asked_once = False
        """Whether this function runs but once in an evaluation."""
        self.freed = 0
        """Walks whose rounds nobody counts, so far."""

    def _path(self, base: Operand, operands: Sequence[Term], lookup: str = "lookup") -> Operand:
        """`base[a][b]…`, a run of constant names in one step."""
        n = 0
        while n < len(operands):
            run = constant_names(operands[n:])
            if run:
                base = self._names(base, run)
                n += len(run)
            else:
                base = self._step(base, operands[n], lookup)
                n += 1
        return base

    def _names(self, base: Operand, names: Sequence[str]) -> Operand:
        """`base[name]…`; what was read of the same base before is not read again."""
        code = self.hold(base.code)
        key = (self.original(code.id), *names)
        known = self.recall(key)
        if known is None:
            known = self._read(code, names)
            self.remember(key, known)
        return Operand(known)

    def _read(self, base: ast.Name, names: Sequence[str]) -> ast.Name:
        """`base[name]…`, or UNDEFINED."""
        for n in range(len(names) - 1, 0, -1):
            inner = self.branches.get((base.id, *names[:n]))
            if inner is not None:
                base, names = inner, names[n:]
                break
        get = self.getters.get(base.id)
        if get is not None and len(names) == 1:
            return self.hold(call(load(get), ast.Constant(value=names[0]), runtime("UNDEFINED")))
        slow = call(runtime("lookup_path"), base, self.constants.path(names))
        if len(names) > MAX_STEPS:
            return self.hold(slow)
        held = self.fresh()
        handlers = [on(runtime("LOOKUP_ERRORS"), held, slow)]
        code: ast.expr = base
        if self.original(base.id) in self.of_data:
            # What a policy asks of its own data is there.
            self.of_data.add(held)
            handlers.insert(0, on(runtime("KeyError"), held, runtime("UNDEFINED")))
            for name in names:
                code = _member(code, name)
        else:
            # What may well be missing must not cost an exception: of the input the end of a path,
            # of an item that a walk came to anything.
            for name in names[:-1]:
                known = base.id == "input"
                code = _member(code, name) if known else _got(code, name, runtime("NOTHING"))
            code = _got(code, names[-1], runtime("UNDEFINED"))
        self.attempt(held, code, *handlers)
        return load(held)

    def _step(self, base: Operand, operand: Term, lookup: str) -> Operand:
        if self.is_open(operand):
            return self._walk(base, operand)
        key = self.term(operand)
        held = self.hold(looked_up(base, key, call(runtime(lookup), base.code, key.code)))
        if self._is_of_data(base.code):
            self.of_data.add(held.id)
        self.defined(held)
        return Operand(held, base.of)

    def _is_of_data(self, value: ast.expr) -> bool:
        return isinstance(value, ast.Name) and self.original(value.id) in self.of_data

    def is_open(self, operand: Term) -> bool:
        """Whether `operand` has variables that walking must bind."""
        match operand:
            case Var(name):
                return name not in self.env and name not in ("input", "data")
            case Array(items):
                return any(self.is_open(item) for item in items)
            case Object(pairs):
                return any(self.is_open(value) for _, value in pairs)
        return False

    def _walk(self, base: Operand, operand: Term) -> Operand:
        """A walk over `base` that binds `operand`; gives the values."""
        value = self.fresh()
        if isinstance(operand, Var) and operand.is_wildcard:
            self.walk_values(store(value), base)
            return Operand(load(value), base.of)
        key = self.target(operand)
        target = ast.Tuple(elts=[key, store(value)], ctx=ast.Store())
        if self._is_of_data(base.code):
            self.of_data.add(value)
        self.walk(target, method("items_as_made" if base.as_made else "items", base.code))
        self.match_target(operand, key)
        return Operand(load(value))

    def walk_values(self, target: ast.expr, collection: Operand) -> None:
        """A walk over the values of `collection`; constants are put in order now.

        Looking at the clock is left to the walks around and before it where this one is short.
        """
        if collection.is_constant:
            ordered = list(values(collection.value))
            held = self.constants.add(ordered)
            # A short one is like so many lines of the policy.
            short = not self.uncounted and len(ordered) <= SHORT
            self.walk(target, held if short else method("walked", held), counted=not short)
            return
        uncounted = self._may_go_uncounted()
        name = self.hold(collection.code)
        if self._is_of_data(name) and isinstance(target, ast.Name):
            self.of_data.add(target.id)
        walked: ast.expr = method("values", name)
        if uncounted:
            size = ast.Compare(
                left=call(runtime("len"), name),
                ops=[ast.LtE()],
                comparators=[ast.Constant(value=SHORT)],
            )
            short_list = ast.BoolOp(op=ast.And(), values=[is_class(name, "list"), size])
            walked = ast.IfExp(test=short_list, body=name, orelse=walked)
        self.walk(target, walked, counted=not uncounted)

    def _may_go_uncounted(self) -> bool:
        """Whether the next walk may take a short list without counting its rounds.

        Of walks inside each other one is counted, and so is one of many in a row. In a rule, which
        is asked but once, the outermost two go without.
        """
        allowed = 1
        if self.walks == self.uncounted:
            allowed = 2 if self.asked_once else 0
        if self.uncounted >= allowed:
            return False
        self.freed += 1
        return self.freed % MAX_FREED != 0

    def _branch_at(self, document: str, names: Sequence[str]) -> None:
        base = self.of_state(document)
        assert isinstance(base, ast.Name)
        held = self._read(base, names)
        self.branches[(base.id, *names)] = self.always[(base.id, *names)] = held
        get = self.fresh()
        own, other = attribute(held, "get"), call(runtime("getter"), held)
        self.assign(get, ast.IfExp(test=is_class(held, "dict"), body=own, orelse=other))
        self.getters[held.id] = get


def _member(value: ast.expr, name: str) -> ast.expr:
    return ast.Subscript(value=value, slice=ast.Constant(value=name), ctx=ast.Load())


def _got(value: ast.expr, name: str, default: ast.expr) -> ast.expr:
    return method_of(value, "get", ast.Constant(value=name), default)


def looked_up(base: Operand, key: Operand, general: ast.expr) -> ast.expr:
    """`base[key]`, or UNDEFINED: by Python itself where one look tells that it may."""
    if not isinstance(base.code, ast.Name):
        return general
    if key.is_constant:
        if type(key.value) is not int or key.value < 0:
            return general
        there = ast.Compare(
            left=call(runtime("len"), base.code), ops=[ast.Gt()], comparators=[key.code]
        )
        item = ast.Subscript(value=base.code, slice=key.code, ctx=ast.Load())
        if base.kind == "array":
            return ast.IfExp(test=there, body=item, orelse=runtime("UNDEFINED"))
        fits = ast.BoolOp(op=ast.And(), values=[is_class(base.code, "list"), there])
        return ast.IfExp(test=fits, body=item, orelse=general)
    if not isinstance(key.code, ast.Name) or key.kind not in ("", "string"):
        return general
    tests = [is_class(base.code, "dict")] if base.kind != "object" else []
    tests += [is_class(key.code, "str")] if key.kind != "string" else []
    member = method_of(base.code, "get", key.code, runtime("UNDEFINED"))
    return ast.IfExp(test=all_of(tests), body=member, orelse=general) if tests else member


def constant_names(operands: Sequence[Term]) -> list[str]:
    """The constant strings that `operands` begin with."""
    names: list[str] = []
    for operand in operands:
        if not (isinstance(operand, Scalar) and isinstance(operand.value, str)):
            break
        names.append(operand.value)
    return names
