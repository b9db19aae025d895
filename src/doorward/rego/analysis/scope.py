"""Which names a body declares, and what each use of a name stands for.

A declared variable (`:=`, `some`, `every`, a parameter) gets a name that no other scope shares:
`x@3`. The part before `@` is what the author wrote (`source_name`). Variables that are only used
(`x = 1`, `xs[i]`) keep their names: they belong to the body in which they stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from doorward.rego.errors import COMPILE_ERROR, Diagnostic
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import (
    Array,
    Call,
    Expr,
    Object,
    SomeDecl,
    SomeIn,
    Term,
    Var,
)

__all__ = ["Names", "Scope", "pattern_vars", "source_name"]


def source_name(name: str) -> str:
    """The name as the author wrote it; `_` for a wildcard."""
    return "_" if name.startswith("$") else name.partition("@")[0]


def pattern_vars(term: Term) -> Iterator[Var]:
    """The variables that a pattern binds: object keys are not among them."""
    match term:
        case Var():
            yield term
        case Array(items):
            for item in items:
                yield from pattern_vars(item)
        case Object(items):
            for _, value in items:
                yield from pattern_vars(value)


@dataclass(slots=True)
class Declared:
    """One declared name of a scope: the unique name, how it came to be, whether it was used."""

    unique: str
    how: str
    span: Span
    used: bool = False


@dataclass(slots=True)
class Names:
    """Makes names unique within one module, and collects what is wrong with them."""

    strict: bool = False
    count: int = 0
    errors: list[Diagnostic] = field(default_factory=list)

    def fresh(self, name: str) -> str:
        self.count += 1
        return f"{name}@{self.count}"

    def report(self, message: str, span: Span) -> None:
        self.errors.append(Diagnostic(COMPILE_ERROR, message, span))


class Scope:
    """The names one body declares. A name is declared from its declaration on; an earlier use
    in the same body is an error, as is declaring it twice."""

    def __init__(self, names: Names, parent: Scope | None = None) -> None:
        self.names = names
        self.parent = parent
        self.declared: dict[str, Declared] = {}
        self.pending: set[str] = set()
        self.referenced: set[str] = set()

    def expect(self, body: Iterable[Expr]) -> None:
        """Note what `body` will declare, so that uses before the declaration are seen."""
        for expr in body:
            term = expr.term
            if isinstance(term, Call) and term.name == "assign" and term.infix:
                self.pending.update(v.name for v in pattern_vars(term.args[0]))
            elif isinstance(term, SomeDecl):
                self.pending.update(v.name for v in term.symbols)
            elif isinstance(term, SomeIn):
                for part in (term.key, term.value):
                    if part is not None:
                        self.pending.update(v.name for v in pattern_vars(part))

    def declare(self, var: Var, how: str) -> Var:
        """`var` under its unique name; `how` is "assigned", "declared" or "argument"."""
        name = var.name
        if var.is_wildcard:
            return var
        before = self.declared.get(name)
        if before is not None and before.how == "argument" and how != "argument":
            self.names.report(f"arg {name} redeclared", var.span)
        elif before is not None and how != "argument":
            self.names.report(f"var {name} {before.how} above", var.span)
        elif name in self.referenced and how != "argument":
            self.names.report(f"var {name} referenced above", var.span)
        if before is None:
            unique = self.names.fresh(name)
            self.declared[name] = Declared(unique, how, var.span)
            return Var(unique, var.span)
        return Var(before.unique, var.span)

    def find(self, name: str) -> Declared | None:
        """The declaration that a use of `name` here refers to, marked as used."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.declared.get(name)
            if found is not None:
                found.used = True
                return found
            if name in scope.pending:
                # In a closure that stands before the declaration, the name is the closure's own.
                if scope is self:
                    scope.referenced.add(name)
                return None
            scope = scope.parent
        return None

    def is_local(self, name: str) -> bool:
        """Whether `name` is, or will be, declared here or outside."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.declared or name in scope.pending:
                return True
            scope = scope.parent
        return False

    def close(self) -> None:
        """Report what was declared and never used: `some x` always, the rest when strict."""
        for name, declared in self.declared.items():
            if declared.used:
                continue
            if declared.how == "declared":
                self.names.report(f"declared var {name} unused", declared.span)
            elif self.names.strict and declared.how == "assigned":
                self.names.report(f"assigned var {name} unused", declared.span)
            elif self.names.strict and declared.how == "argument":
                self.names.report(
                    f"unused argument {name}. (hint: use _ (wildcard variable) instead)",
                    declared.span,
                )
