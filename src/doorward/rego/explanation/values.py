"""The values behind an expression: what each part of it was when it was asked.

    lower(input.name) == data.owner      lower(input.name): "ann", input.name: "Ann", data.owner: …

Only what has been computed already, or is a pure call on it, is looked at; nothing is asked of the
world again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from doorward.rego.analysis.bindings import as_call
from doorward.rego.analysis.variables import ROOTS
from doorward.rego.builtins.registry import Registry
from doorward.rego.builtins.registry.context import Context
from doorward.rego.errors import CALL_ERRORS, EvalError
from doorward.rego.explanation.recorder import Sample
from doorward.rego.explanation.secrets import without_secrets
from doorward.rego.runtime.evaluation import Document, Evaluation, merge
from doorward.rego.syntax.nodes import (
    Array,
    Call,
    Every,
    Expr,
    Object,
    Ref,
    Scalar,
    Set,
    SomeIn,
    Term,
    Var,
)
from doorward.rego.values import UNDEFINED, lookup, make_object, make_set, to_key

__all__ = ["Failed", "value_of", "values_of"]

MAX_VALUES: Final = 12
"""The most parts of one expression whose values are shown."""

PATIENCE: Final = 0.5
"""The limit of one repeated call, in seconds."""


class Failed:
    """Stands for the value of a call whose built-in raised an error, with the error's message."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


class _Unknown:
    """The type of `_UNKNOWN`, which stands for a value that the evaluation did not compute."""

    __slots__ = ()


_UNKNOWN: Final = _Unknown()
_INFIX: Final = frozenset({"eq", "assign", "equal", "neq", "lt", "lte", "gt", "gte"})


def values_of(expr: Expr, sample: Sample, registry: Registry) -> dict[str, Any]:
    """Return the parts of `expr` with their values, by their text and outermost first, at most
    `MAX_VALUES`. Parts that were not computed are left out; UNDEFINED and `Failed` count as values.
    """
    reader = _Reader(sample.evaluation, sample.bound, registry)
    reader.under(expr)
    operands = dict(_operands(expr))
    reader.bind(operands)
    value_texts: dict[str, Any] = {}
    for term in _parts(expr, operands):
        if len(value_texts) >= MAX_VALUES:
            break
        label = " ".join(without_secrets(term).split())
        value = reader.value(term)
        if label and value is not _UNKNOWN and label not in value_texts:
            value_texts[label] = value
    return value_texts


def value_of(term: Term, sample: Sample, registry: Registry) -> Any:
    """Return the value of one term; UNDEFINED if it has none, a call in it fails, or it was not
    computed.
    """
    value = _Reader(sample.evaluation, sample.bound, registry).value(term)
    return UNDEFINED if value is _UNKNOWN or isinstance(value, Failed) else value


def _operands(expr: Expr) -> Iterator[tuple[str, Term]]:
    """Yield the generated variables of a negated call with the operands they stand for."""
    for each in expr.before:
        assert isinstance(each.term, Call)
        local, term = each.term.args
        assert isinstance(local, Var)
        yield local.name, term


def _parts(expr: Expr, operands: Mapping[str, Term]) -> Iterator[Term]:
    """Yield the terms whose values explain an expression: both sides of a comparison, the domain of
    `some … in` and `every`, or the reference, call or variable that the expression is, each with
    the terms inside it; nothing for another expression.
    """
    match expr.term:
        case SomeIn(_, _, domain) | Every(_, _, domain):
            yield from _below(domain, operands)
        case Call(_, args) as called if called.infix and called.name in _INFIX:
            # That a comparison does not hold is what is explained; its sides are what matters.
            for arg in args:
                yield from _below(arg, operands)
        case Ref() | Call() | Var() as term:
            yield from _below(term, operands)


def _below(term: Term, operands: Mapping[str, Term]) -> Iterator[Term]:
    """Yield the variables, references and calls in `term`, which may be one itself, outer ones
    first. A generated variable in `operands` is replaced by the parts of its term. Comprehensions
    are not searched.
    """
    parts: Iterable[Term] = ()
    match term:
        case Var(name) if name in operands:
            parts = (operands[name],)
        case Var(name) if not term.is_wildcard and name != "data":
            yield term
        case Ref(head, args):
            yield term
            parts = [
                part for part in (head, *args) if not (isinstance(part, Var) and part.name in ROOTS)
            ]
        case Call(_, args):
            yield term
            parts = args
        case Array(items) | Set(items):
            parts = items
        case Object(pairs):
            parts = [item for pair in pairs for item in pair]
    for part in parts:
        yield from _below(part, operands)


class _Reader:
    """Computes the values of terms from one recorded state."""

    def __init__(
        self, evaluation: Evaluation, bound: Mapping[str, Any], registry: Registry
    ) -> None:
        self.evaluation = evaluation
        self.bound = bound
        self.registry = registry

    def under(self, expr: Expr) -> None:
        """Read values from here on as under the `with` modifiers of `expr`: `evaluation` becomes
        one with their targets replaced, as far as their values are known. Functions that are
        replaced have unknown answers. Nothing changes without `with`, or if a replacement raises
        EvalError.
        """
        inputs: list[tuple[list[Any], Any]] = []
        data: list[tuple[list[Any], Any]] = []
        functions: list[tuple[str, Any]] = []
        for item in expr.withs:
            call = as_call(item.target)
            assert call is not None  # anything else is refused when compiling
            head, operands = call.operator.head, call.operator.args
            first = head.name if isinstance(head, Var) else ""
            if first not in ROOTS:
                functions.append((call.name, _UNKNOWN))
                continue
            path = [to_key(arg.value) for arg in operands if isinstance(arg, Scalar)]
            value = self.value(item.value)
            if value is not _UNKNOWN and value is not UNDEFINED and not isinstance(value, Failed):
                (inputs if first == "input" else data).append((path, value))
        if expr.withs:
            with suppress(EvalError):
                self.evaluation = self.evaluation.replace(inputs, data, functions)

    def bind(self, operands: Mapping[str, Term]) -> None:
        """Bind the generated variables in `operands` to the values of their terms, each computed
        with those before it.
        """
        for name, term in operands.items():
            self.bound = {**self.bound, name: self.value(term)}

    def value(self, term: Term) -> Any:
        """Return the value of `term`. UNDEFINED if it has none, `Failed` if it is a call that
        raised an error, _UNKNOWN if the evaluation did not compute it and it is not a pure call.
        """
        match term:
            case Scalar(value):
                return value
            case Var("input"):
                return self.evaluation.input
            case Var(name):
                return self.bound.get(name, _UNKNOWN)
            case Ref(head, args):
                return self._ref(head, args)
            case Call(_, args):
                return self._call(term, args)
            case Array(items):
                return self._make(items, list)
            case Set(items):
                return self._make(items, make_set)
            case Object(pairs):
                flat = self._make([item for pair in pairs for item in pair], list)
                if not isinstance(flat, list):
                    return flat
                return make_object(zip(flat[::2], flat[1::2], strict=True))
        return _UNKNOWN

    def _make(self, items: Any, make: Any) -> Any:
        """Return `make(values)` for the values of the terms `items`. If one has none, return
        UNDEFINED or _UNKNOWN as it is; _UNKNOWN also if a call in them raised an error.
        """
        values = [self.value(item) for item in items]
        odd = next((v for v in values if v is _UNKNOWN or v is UNDEFINED), None)
        if odd is not None:
            return odd
        return _UNKNOWN if any(isinstance(v, Failed) for v in values) else make(values)

    def _ref(self, head: Term, args: tuple[Term, ...]) -> Any:
        """Return the value of a reference in the recorded state: UNDEFINED if a key is missing, and
        the value of a part that is UNDEFINED, _UNKNOWN (it was not computed) or `Failed`. Nothing
        is evaluated that asks the world.
        """
        keys = self._make(args, list)
        if not isinstance(keys, list):
            return keys
        if isinstance(head, Var) and head.name == "data":
            return self._document(keys)
        value = self.value(head)
        for key in keys:
            if value is UNDEFINED or value is _UNKNOWN or isinstance(value, Failed):
                return value
            value = lookup(value, key)
        return value

    def _document(self, keys: list[Any]) -> Any:
        """Return the document at a path below `data`, UNDEFINED if it is missing. _UNKNOWN if the
        evaluation did not compute it, or if rules define documents below it.
        """
        node, base = self._enter_document(self.evaluation.root, self.evaluation.data)
        for key in keys:
            if base is _UNKNOWN:
                return base
            inner = node.children.get(to_key(key)) if node is not None else None
            node, base = self._enter_document(inner, lookup(base, key))
        return base if node is None else _UNKNOWN

    def _enter_document(self, node: Document | None, base: Any) -> tuple[Document | None, Any]:
        """Return the node and base data from which a path goes on. If rules define the document
        itself, the node is None and the data is their cached answer, merged with base data;
        _UNKNOWN if they were not evaluated.
        """
        if node is None or node.evaluate is None:
            return node, base
        value = self._answer(node)
        return None, value if value is _UNKNOWN else merge(base, value)

    def _answer(self, node: Document) -> Any:
        """Return the answer of the rules at a node; _UNKNOWN if they were not evaluated."""
        for store in (self.evaluation.cache, self.evaluation.constants):
            if node.slot in store:
                return store[node.slot]
        return _UNKNOWN

    def _call(self, term: Call, args: tuple[Term, ...]) -> Any:
        """Call a pure built-in again; `Failed` if it raises an error. One that checks a deadline
        has `PATIENCE` seconds. _UNKNOWN for other functions and for replaced built-ins. UNDEFINED
        or _UNKNOWN if an operand has no value or was not computed.
        """
        operands = self._make(args, list)
        if not isinstance(operands, list):
            return operands
        builtin = self.registry.get(term.name)
        if builtin is None or not builtin.pure or builtin.relation:
            return _UNKNOWN
        # A call with an output operand has no value of its own; a replaced one may have any.
        if len(args) != len(builtin.signature.args) or term.name in self.evaluation.mocks:
            return _UNKNOWN
        if builtin.context:
            deadline = time.monotonic() + PATIENCE
            operands = [Context(self.evaluation.environment, deadline=deadline), *operands]
        try:
            return builtin.call(*operands)
        except CALL_ERRORS as error:
            return Failed(f"{term.name}: {error}")
