"""Which variables `a = b` binds, given what is bound before: the safety side of unification."""

from __future__ import annotations

from doorward.rego.analysis.opa_diagnostics.flat_variables import pattern_names
from doorward.rego.analysis.variables import ROOTS
from doorward.rego.syntax.nodes import (
    Array,
    ArrayComprehension,
    Object,
    ObjectComprehension,
    Ref,
    SetComprehension,
    Term,
    Var,
)

__all__ = ["unify"]

_COMPREHENSIONS = (ArrayComprehension, SetComprehension, ObjectComprehension)


def unify(safe: set[str], a: Term, b: Term) -> set[str]:
    """The variables that the equation binds."""
    unifier = _Unifier(safe)
    unifier.unify(a, b)
    return unifier.unified


class _Unifier:
    def __init__(self, safe: set[str]) -> None:
        self.safe = safe
        self.unified: set[str] = set()
        self.unknown: dict[str, set[str]] = {}
        """Variables that become bound once all those beside them are."""

    def is_safe(self, name: str) -> bool:
        return name in ROOTS or name in self.safe or name in self.unified

    def unify(self, a: Term, b: Term) -> None:
        a, b = _as_reference(a), _as_reference(b)
        if isinstance(b, Var) and not isinstance(a, Var):
            a, b = b, a
        match a, b:
            case Var(x), Var(y):
                self._two(x, y)
            case Var(x), Array() | Object():
                self._composite(x, b)
            case Var(x), Ref(head):
                if self._is_known(head):
                    self.mark(x)
            case Var(x), _:
                self.mark(x)
            case (Ref(head), Array() | Object() as other) | (
                Array() | Object() as other,
                Ref(head),
            ):
                if self._is_known(head):
                    self.mark_all(other)
            case (Array(), comprehension) | (comprehension, Array()) if isinstance(
                comprehension, _COMPREHENSIONS
            ):
                self.mark_all(a if isinstance(a, Array) else b)
            case (Object() as other, ObjectComprehension()) | (
                ObjectComprehension(),
                Object() as other,
            ):
                self.mark_all(other)
            case Array(x_items), Array(y_items):
                if len(x_items) == len(y_items):
                    for x_item, y_item in zip(x_items, y_items, strict=True):
                        self.unify(x_item, y_item)
            case Object(x_pairs), Object(y_pairs):
                self._objects(x_pairs, y_pairs)

    def _is_known(self, head: Term) -> bool:
        """Return True if what a reference looks into is bound; a scalar is."""
        return not isinstance(head, Var) or self.is_safe(head.name)

    def _two(self, x: str, y: str) -> None:
        if self.is_safe(y):
            self.mark(x)
        elif self.is_safe(x):
            self.mark(y)
        else:
            self.unknown.setdefault(x, set()).add(y)
            self.unknown.setdefault(y, set()).add(x)

    def _composite(self, x: str, term: Term) -> None:
        if self.is_safe(x):
            self.mark_all(term)
            return
        lacking = {name for name in pattern_names(term) if not self.is_safe(name)}
        if lacking:
            self.unknown.setdefault(x, set()).update(lacking)
        else:
            self.mark(x)

    def _objects(self, a: tuple[tuple[Term, Term], ...], b: tuple[tuple[Term, Term], ...]) -> None:
        others = dict(b)
        if len(a) == len(b):
            for key, value in a:
                if key in others:
                    self.unify(value, others[key])

    def mark_all(self, term: Term) -> None:
        for name in pattern_names(term):
            self.mark(name)

    def mark(self, name: str) -> None:
        """`name` is bound, and with it whatever waited for it alone."""
        if name in self.unified:
            return
        self.unified.add(name)
        for beside in self.unknown.pop(name, ()):
            self.mark(beside)
        for waiting, needs in list(self.unknown.items()):
            needs.discard(name)
            if not needs and waiting in self.unknown:
                del self.unknown[waiting]
                self.mark(waiting)


def _as_reference(term: Term) -> Term:
    """`input` and `data` are references, not variables."""
    if isinstance(term, Var) and term.name in ROOTS:
        return Ref(term, (), term.span)
    return term
