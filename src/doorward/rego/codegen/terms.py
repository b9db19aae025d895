"""Terms to Python expressions: what they need first is written as statements on the way.

After `term(t)` everything written next runs once for each value that `t` has; the expression it
returns is that value. References are in `references`, calls in `calls`.
"""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from doorward.rego.analysis.bindings import Binding, body_vars, term_vars
from doorward.rego.codegen.block import (
    Block,
    Constants,
    attribute,
    call,
    load,
    method,
    method_of,
    runtime,
)
from doorward.rego.codegen.plan import Plan
from doorward.rego.source import Span
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
    TemplateString,
    Term,
    Var,
)
from doorward.rego.values import Value, kind_name, make_object, make_set, to_key

__all__ = ["NOT_CONSTANT", "Operand", "Read", "Terms", "constant_value"]


STATE_NAMES: Final = {
    "input": "input",
    "data": "data",
    "cache": "_cache",
    "constants": "_constants",
}
"""Local names for parts of `ctx`."""


Read: TypeAlias = tuple[str | int, ...]
"""What was read: a path below a name, or under the name of a state the slot of rules."""

_LITERAL: Final = frozenset({bool, str, int})


class _NotConstant:
    __slots__ = ()


NOT_CONSTANT: Final = _NotConstant()


@dataclass(frozen=True, slots=True)
class Operand:
    """A Python expression for a defined Rego value, with what is known of it.

    `kind`: OPA's name of its type, or "" when unknown. `value`: the value, when constant.
    `as_made`: a walk takes it in the order in which its rules made it. `of`: the kind of each of
    its items, or "".
    """

    code: ast.expr
    kind: str = ""
    value: Any = NOT_CONSTANT
    as_made: bool = False
    of: str = ""

    @property
    def is_constant(self) -> bool:
        return self.value is not NOT_CONSTANT


def constant_value(term: Term) -> Any:
    """The value of a term without variables, references and calls; else NOT_CONSTANT."""
    match term:
        case Scalar(value):
            return value
        case Array(items):
            values = [constant_value(item) for item in items]
            return NOT_CONSTANT if NOT_CONSTANT in values else values
        case Set(items):
            values = [constant_value(item) for item in items]
            return NOT_CONSTANT if NOT_CONSTANT in values else make_set(values)
        case Object(pairs):
            constants = [(constant_value(k), constant_value(v)) for k, v in pairs]
            flat = [part for pair in constants for part in pair]
            return NOT_CONSTANT if NOT_CONSTANT in flat else make_object(constants)
    return NOT_CONSTANT


class Terms(Block):
    """Writes terms. `env` maps each bound Rego variable to what holds its value."""

    def __init__(self, constants: Constants, plan: Plan) -> None:
        super().__init__(constants)
        self.plan = plan
        self.env: dict[str, Operand] = {}
        self.state = "ctx"
        self.taken.update(("ctx", *STATE_NAMES.values()))
        self.outer: frozenset[str] = frozenset()
        self.seen: dict[Read, ast.Name] = {}
        """What was read where the nest still stands."""
        self.maybe: dict[Read, ast.Name] = {}
        """What was read but may be UNDEFINED: the nest has not tested it yet."""
        self.always: dict[Read, ast.Name] = {}
        """What the function reads in any case, before whatever is written next: the same."""

    @contextmanager
    def nest(self) -> Iterator[None]:
        """Tests and walks opened inside are closed again at the end, and what they read is
        forgotten."""
        seen, maybe = dict(self.seen), dict(self.maybe)
        with super().nest():
            yield
        self.seen, self.maybe = seen, maybe

    def recall(self, key: Read) -> ast.Name | None:
        """What was read under `key` before, tested to be defined."""
        found = self.seen.get(key)
        if found is None:
            found = self.maybe.get(key) or self.always.get(key)
            if found is not None:
                self.seen[key] = found
                self.defined(found)
        return found

    def remember(self, key: Read, found: ast.Name) -> None:
        """`found`, which may be UNDEFINED, was just read under `key`; from here on it is not."""
        if self.block is self.statements:
            self.always[key] = found
        self.seen[key] = found
        self.defined(found)

    # What the other parts of the writer provide

    @abstractmethod
    def ref(self, term: Ref) -> Operand: ...

    @abstractmethod
    def call(self, term: Call) -> Operand: ...

    @abstractmethod
    def body(self, body: Body) -> None: ...

    @abstractmethod
    def expression_value(self, expr: Expr) -> Operand: ...

    # Names of the evaluation's state

    def of_state(self, part: str) -> ast.expr:
        """`ctx.input` and its like; the function's own `ctx` is read once at its start."""
        value = attribute(load(self.state), part)
        if self.state != "ctx":
            return value
        name = STATE_NAMES[part]
        self.prelude.setdefault(name, value)
        return load(name)

    def is_known(self, term: Term) -> bool:
        """Whether `term` can be computed with what is bound."""
        probe = Binding(self.env.keys(), self.outer, self.plan.callees.arity)
        probe.value(term)
        return not probe.missing()

    # Terms

    def constant(self, value: Value) -> Operand:
        code: ast.expr
        if value is None or (isinstance(value, (bool, str, int)) and type(value) in _LITERAL):
            code = ast.Constant(value=value)
        else:
            code = self.constants.add(value)
        return Operand(code, kind_name(value), value, of=_items_kind(value))

    def term(self, term: Term) -> Operand:
        """The value of `term`; what is written next runs for each of its values."""
        with self.at(term.span):
            value = constant_value(term)
            if value is not NOT_CONSTANT:
                return self.constant(value)
            match term:
                case Var(name):
                    return self._variable(name)
                case Ref():
                    return self.ref(term)
                case Call():
                    return self.call(term)
                case Array(items):
                    parts = [operand.code for operand in self.terms(items)]
                    return Operand(ast.List(elts=parts, ctx=ast.Load()), "array")
                case Set(items):
                    members = [self.key(operand) for operand in self.terms(items)]
                    inner = ast.Tuple(elts=members, ctx=ast.Load())
                    return Operand(call(runtime("frozenset"), inner), "set")
                case Object(pairs):
                    return self._object(pairs)
                case ArrayComprehension() | SetComprehension() | ObjectComprehension():
                    return self.comprehension(term)
                case TemplateString():  # pragma: no branch - scalars are constants
                    return self.template(term)
        raise AssertionError(term)

    def _variable(self, name: str) -> Operand:
        if name == "input":
            held = self.of_state("input")
            self.defined(held)
            return Operand(held)
        if name == "data":
            return self.ref(Ref(Var("data"), ()))
        return self.env[name]

    def _object(self, pairs: tuple[tuple[Term, Term], ...]) -> Operand:
        operands = self.terms([term for pair in pairs for term in pair])
        keys: list[ast.expr | None] = [self.key(key) for key in operands[::2]]
        values = [value.code for value in operands[1::2]]
        return Operand(ast.Dict(keys=keys, values=values), "object")

    def terms(self, terms: Sequence[Term]) -> list[Operand]:
        """The values of several terms; one that binds what another needs is written first."""
        found: dict[int, Operand] = {}
        waiting = list(range(len(terms)))
        while waiting:
            n = next((n for n in waiting if self.is_known(terms[n])), waiting[0])
            waiting.remove(n)
            found[n] = self.term(terms[n])
        return [found[n] for n in range(len(terms))]

    def key(self, operand: Operand) -> ast.expr:
        """The key form of a value."""
        if operand.is_constant:
            key = to_key(operand.value)
            plain = key is None or type(key) in (str, int)
            return ast.Constant(value=key) if plain else self.constants.add(key)  # type: ignore[arg-type]
        if operand.kind in ("string", "number"):
            return operand.code
        return call(runtime("to_key"), operand.code)

    # Closures

    def comprehension(
        self, term: ArrayComprehension | SetComprehension | ObjectComprehension
    ) -> Operand:
        """The collected values; the nest that collects them is closed again."""
        out = self.fresh()
        saved, outer, walked = dict(self.env), self.outer, self.walked
        heads = (term.key, term.value) if isinstance(term, ObjectComprehension) else (term.term,)
        self.outer = outer | closure_outer(term.body, heads)
        match term:
            case ArrayComprehension(inner, body):
                self.assign(out, ast.List(elts=[], ctx=ast.Load()))
                with self.nest():
                    self.body(body)
                    self._collect(out, "append", self.term(inner).code)
                result = Operand(load(out), "array")
            case SetComprehension(inner, body):
                self.assign(out, call(runtime("set")))
                with self.nest():
                    self.body(body)
                    self._collect(out, "add", self.key(self.term(inner)))
                result = Operand(self.hold(call(runtime("frozenset"), load(out))), "set")
            case ObjectComprehension(key, value, body):  # pragma: no branch - the last of them
                self.assign(out, ast.Dict(keys=[], values=[]))
                with self.nest():
                    self.body(body)
                    held, item = self.terms((key, value))
                    place = self.constants.add(key.span)
                    self.run(call(runtime("collect"), load(out), held.code, item.code, place))
                    self.count_one()
                result = Operand(load(out), "object")
        # However often it walks, a comprehension has one value.
        self.env, self.outer, self.walked = saved, outer, walked
        return result

    def _collect(self, out: str, add: str, value: ast.expr) -> None:
        self.run(method_of(load(out), add, value))
        self.count_one()

    def count_one(self) -> None:
        """A collection has grown by one item."""
        if self.plan.limited:
            self.run(self.counted("made", ast.Constant(value=1), self.span))

    def counted(self, how: str, what: ast.expr, span: Span) -> ast.expr:
        return method(how, what, self.constants.add(span))

    def template(self, term: TemplateString) -> Operand:
        """The text; an expression that is undefined or fails reads `<undefined>`."""
        parts: list[ast.expr] = []
        for part in term.parts:
            if isinstance(part, str):
                parts.append(ast.Constant(value=part))
                continue
            held = self.fresh()
            self.assign(held, runtime("UNDEFINED"))
            saved = dict(self.env)
            with self.nest():
                self.assign(held, self.expression_value(part).code)
            self.env = saved
            self.shared.add(held)
            parts.append(call(runtime("template_text"), load(held)))
        joined = ast.Tuple(elts=parts, ctx=ast.Load())
        text = self.hold(method_of(ast.Constant(value=""), "join", joined))
        if self.plan.limited:
            self.run(self.counted("sized", text, term.span))
        return Operand(text, "string")


def _items_kind(value: Value) -> str:
    """The kind that all items of an array or set are of."""
    if not isinstance(value, (list, frozenset)):
        return ""
    return "string" if value and all(type(item) is str for item in value) else ""


def closure_outer(body: Body, heads: tuple[Term, ...]) -> frozenset[str]:
    """Variables of a closure that stand outside of the closures inside it."""
    names = {v.name for v in body_vars(body, closures=False)}
    for head in heads:
        names.update(v.name for v in term_vars(head, closures=False))
    return frozenset(names)
