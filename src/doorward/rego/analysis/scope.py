"""The names that a body declares, and what each use of a name stands for.

A declared variable (`:=`, `some`, `every`, a parameter) gets a name that no other scope shares:
`x@3`. The part before `@` is what the author wrote (`source_name`). Variables that are only used
(`x = 1`, `xs[i]`) keep their names: they belong to the body in which they stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from enum import IntEnum
from typing import Final

from doorward.base.records import mutable
from doorward.rego.errors import COMPILE_ERROR, Diagnostic
from doorward.rego.source import NOWHERE, Span
from doorward.rego.syntax.keywords import KEYWORDS, V1_KEYWORDS
from doorward.rego.syntax.nodes import (
    Array,
    Call,
    Expr,
    Object,
    Ref,
    Set,
    SomeDecl,
    SomeIn,
    Term,
    Var,
)
from doorward.rego.syntax.walk import walk
from doorward.rego.values import Value, operand_text

__all__ = ["Names", "Scope", "Stage", "operand_source", "pattern_vars", "some_vars", "source_name"]


def source_name(name: str) -> str:
    """Return the name as the author wrote it: `x` for `x@3`, `_` for a wildcard."""
    return "_" if name.startswith("$") else name.partition("@")[0]


def operand_source(value: Value) -> str:
    """Return the text of an operand in OPA's messages: `.a`, `["b c"]`, and for a keyword
    `["if"]`.
    """
    is_keyword = isinstance(value, str) and value in _KEYWORDS
    return f'["{value}"]' if is_keyword else operand_text(value)


_KEYWORDS: Final = KEYWORDS | V1_KEYWORDS


def pattern_vars(term: Term) -> Iterator[Var]:
    """Yield the variables that a pattern binds, which excludes object keys; also `input` and
    `data`.
    """
    match term:
        case Var():
            yield term
        case Array(items):
            for item in items:
                yield from pattern_vars(item)
        case Object(items):
            for _, value in items:
                yield from pattern_vars(value)


def some_vars(term: SomeIn) -> Iterator[Var]:
    """Yield the variables that a `some … in` declares. As in OPA, these include variables in
    operands of references, in sets (unless the set is the whole value) and, in the key only, in
    keys of objects.
    """
    if term.key is not None:
        yield from _operand_vars(term.key, with_keys=True)
    if not isinstance(term.value, Set):
        yield from _operand_vars(term.value, with_keys=False)


def _operand_vars(term: Term, *, with_keys: bool) -> Iterator[Var]:
    """Yield the variables of a term outside comprehensions, without those with which references
    start and, unless `with_keys`, without those in keys of objects; also `input` and `data`.
    """
    match term:
        case Var():
            yield term
        case Ref(_, items) | Array(items) | Set(items) | Call(_, items):
            for item in items:
                yield from _operand_vars(item, with_keys=with_keys)
        case Object(pairs):
            for key, value in pairs:
                if with_keys:
                    yield from _operand_vars(key, with_keys=with_keys)
                yield from _operand_vars(value, with_keys=with_keys)


def _names(term: Term) -> Iterator[str]:
    """Yield the names of all variables of a term, also those with which references start and
    `input` and `data`, but not the names of called functions.
    """
    nodes = list(walk(term))
    called = {id(node.operator.head) for node in nodes if isinstance(node, Call)}
    yield from (node.name for node in nodes if isinstance(node, Var) and id(node) not in called)


@mutable
class Declared:
    """One declared name of a scope: its unique name, the kind of declaration, and whether it was
    used. `span` is the expression that declares it, where OPA reports errors about it.
    """

    unique: str
    how: str
    span: Span
    used: bool = False


class Stage(IntEnum):
    """The stages in which OPA checks names; errors of one stage hide those of later ones."""

    REFERENCES = 0
    ROOTS = 1
    IMPORTS = 2
    LOCALS = 3


@mutable
class Names:
    """Makes names unique within one module, and collects the errors in them."""

    strict: bool = False
    count: int = 0
    errors: list[tuple[Stage, Diagnostic]] = field(default_factory=list)
    start: int = 0

    def fresh(self, name: str) -> str:
        self.count += 1
        return f"{name}@{self.count}"

    def report(self, message: str, span: Span, stage: Stage = Stage.LOCALS) -> None:
        self.errors.append((stage, Diagnostic(COMPILE_ERROR, message, span)))

    def begin_rule(self) -> None:
        """Begin another rule: `is_clean` then ignores the errors so far."""
        self.start = len(self.errors)

    @property
    def is_clean(self) -> bool:
        """True if the present rule has no errors yet. Unused variables are only reported then."""
        return len(self.errors) == self.start


class Scope:
    """The names that one body declares. A name counts from its declaration on; to use it earlier in
    the same body is an error, as is declaring it twice, unless the use refers to a declaration of
    an enclosing body: `x := 1; y := [x | x := x + 1]`. `parameters` is the scope of a function's
    parameters around its body. `in_head`: this is a closure of a rule's head, which OPA reads
    before the body, so that a name of the body is a use there. `free`: the variables with names of
    built-ins that are used here and declared nowhere. `joined`: this is an operand of `and` or
    `or`, or a body in one, and its uses count for the body around it.
    """

    def __init__(
        self,
        names: Names,
        parent: Scope | None = None,
        *,
        parameters: bool = False,
        in_head: bool = False,
        free: frozenset[str] = frozenset(),
        joined: bool = False,
    ) -> None:
        self.names = names
        self.parent = parent
        self.in_head: bool = in_head or (parent is not None and parent.in_head)
        self.declared: dict[str, Declared] = {}
        self.pending: set[str] = set()
        self.referenced: set[str] = set()
        """Names that were used here before any declaration."""
        self.declared_at = NOWHERE
        self.free: frozenset[str] = free
        self.joined = joined
        self._around = parent.declared if parameters and parent is not None else {}

    def expect(self, body: Iterable[Expr]) -> None:
        """Add to `pending` the names that the expressions of `body` declare themselves, by `:=`,
        `some x` and `some … in`, so that `is_local` is True for them before their declaration.
        Names in inner bodies are not included.
        """
        for expr in body:
            term = expr.term
            if isinstance(term, Call) and term.name == "assign" and term.infix:
                self.pending.update(v.name for v in pattern_vars(term.args[0]))
            elif isinstance(term, SomeDecl):
                self.pending.update(v.name for v in term.symbols)
            elif isinstance(term, SomeIn):
                for part in (term.key, term.value):
                    if part is not None:
                        self.pending.update(_names(part))

    def declare(self, var: Var, how: str, span: Span | None = None) -> Var:
        """Declare `var` here and return it under its unique name. `how` is "assigned", "declared"
        or "argument"; a wildcard is declared only by "declared", and otherwise returned as it is.
        Unless `how` is "argument", a name that was declared or used before is reported as an error
        at `span`, by default at `var`. One that was declared before keeps its first unique name.
        """
        name = var.name
        if var.is_wildcard and how != "declared":
            return var
        before = self.own(name)
        reported = span or var.span
        if before is not None and before.how == "argument" and how != "argument":
            self.names.report(f"arg {name} redeclared", reported)
        elif before is not None and how != "argument":
            self.names.report(f"var {name} {before.how} above", reported)
        elif name in self.referenced and how != "argument":
            self.names.report(f"var {name} referenced above", reported)
        if before is None:
            unique = name if var.is_wildcard else self.names.fresh(name)
            self.declared[name] = Declared(unique, how, self.declared_at)
            return Var(unique, var.span)
        return Var(before.unique, var.span)

    def own(self, name: str) -> Declared | None:
        """Return the declaration of `name` here or among the parameters around this body; None
        without one. This does not count as a use.
        """
        return self.declared.get(name) or self._around.get(name)

    def find(self, name: str) -> Declared | None:
        """Return the declaration that `name` refers to, here or in an enclosing scope, and mark it
        as used. None if there is none, or if an enclosing body uses the name without declaring it.
        """
        scope: Scope | None = self
        while scope is not None:
            declared = scope.declared.get(name)
            if declared is not None:
                declared.used = True
                if self.in_head and not scope.in_head:
                    self.refer(name)
                return declared
            if name in scope.referenced and not scope.in_head:
                return None  # that body's own, declared or not
            scope = scope.parent
        return None

    def refer(self, name: str) -> None:
        """Record a use of the undeclared `name`, so that a later declaration in this body is an
        error; in an operand of `and` or `or` also for the body around it. Nothing is recorded if an
        enclosing body already uses it.
        """
        scope: Scope | None = self
        while scope is not None and scope.in_head is self.in_head:
            if name in scope.referenced:
                return
            scope = scope.parent
        self.referenced.add(name)
        if self.joined and self.parent is not None:
            self.parent.refer(name)

    def is_local(self, name: str) -> bool:
        """Return True if `name` is, or will be, declared here or in a scope around."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.declared or name in scope.pending:
                return True
            scope = scope.parent
        return False

    def is_free(self, name: str) -> bool:
        """Return True if `name` is, here or in a scope around, an undeclared variable that hides a
        built-in.
        """
        scope: Scope | None = self
        while scope is not None:
            if name in scope.free:
                return True
            scope = scope.parent
        return False

    def close(self) -> None:
        """Report unused declarations of this scope to `names`: those of `some` always, those of
        `:=` only in strict mode; none for a rule that has other errors. Nothing else changes.
        """
        unused = [(name, d) for name, d in self.declared.items() if not d.used]
        for how in ("assigned", "declared"):
            # Not for a rule that has other errors.
            if not self.names.is_clean or (how == "assigned" and not self.names.strict):
                continue
            for name, declared in unused:
                if declared.how == how:
                    self.names.report(f"{how} var {source_name(name)} unused", declared.span)

    def close_parameters(self, span: Span) -> None:
        """In strict mode, report the parameters that no branch of the function at `span` uses to
        `names`; otherwise do nothing.
        """
        for name, declared in self.declared.items():
            if self.names.strict and not declared.used:
                hint = "(hint: use _ (wildcard variable) instead)"
                self.names.report(f"unused argument {name}. {hint}", span)
