"""The variables that flat expressions bind: by walking a reference, by unification, by a call.

Two trees have flat bodies: that of the syntax, for safety and the order of bodies, and that of
partial evaluation. `FlatTerms` knows the classes of one tree; what binds what is the same in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from doorward.base.records import record
from doorward.rego.syntax.keywords import ROOTS

__all__ = ["FlatTerms"]


@record
class FlatTerms:
    """How to read the terms of one kind of tree, by class. `path` gives the head and the operands
    of a reference, `parts` the terms directly inside a composite one. `values`: classes of terms
    that are known as a whole. `is_object`: tells whether a comprehension makes an object.
    """

    var: type
    ref: type
    array: type
    object_: type
    comprehensions: tuple[type, ...]
    values: tuple[type, ...]
    path: Callable[[Any], tuple[Any, Sequence[Any]]]
    parts: Callable[[Any], Iterable[Any]]
    is_object: Callable[[Any], bool]

    def pattern_names(self, term: Any) -> Iterator[str]:
        """Yield the variables that matching `term` with a value binds, once for each occurrence:
        `term` itself, or those in items of arrays, values (not keys) of objects and operands of
        references; none in other terms. `input` and `data` are left out.
        """
        kind = type(term)
        if kind is self.var:
            if term.name not in ROOTS:
                yield term.name
        elif kind is self.ref:
            for operand in self.path(term)[1]:
                yield from self.pattern_names(operand)
        elif kind is self.array:
            for item in term.items:
                yield from self.pattern_names(item)
        elif kind is self.object_:
            for _, value in term.items:
                yield from self.pattern_names(value)

    def walked_names(self, terms: Iterable[Any], safe: AbstractSet[str]) -> set[str]:
        """Return the variables in operands of references in `terms`, at any depth outside of
        comprehensions, which are bound by iteration; those that are bound already may be among
        them. A reference counts only if its head is in `safe`, a document, or not a variable.
        """
        names: set[str] = set()
        for term in terms:
            kind = type(term)
            if kind is self.ref:
                head, operands = self.path(term)
                inner = type(head)
                if inner is not self.var or head.name in safe or head.name in ROOTS:
                    for operand in operands:
                        names.update(self._operand_names(operand))
            elif kind is not self.var and kind not in self.comprehensions:
                names |= self.walked_names(self.parts(term), safe)
        return names

    def _operand_names(self, term: Any) -> Iterator[str]:
        """Yield the variables that `term`, an operand of a reference, binds or reads, once for each
        occurrence: at any depth, but not the heads of references inside it nor what is in
        comprehensions. `input` and `data` are left out.
        """
        kind = type(term)
        if kind is self.var:
            if term.name not in ROOTS:
                yield term.name
        elif kind not in self.comprehensions:
            for part in self.path(term)[1] if kind is self.ref else self.parts(term):
                yield from self._operand_names(part)

    def equation_names(self, left: Any, right: Any, safe: AbstractSet[str]) -> set[str]:
        """Return the variables that `left = right` binds, besides those its references iterate
        over.
        """
        unification = _Unification(self, safe)
        unification.unify(left, right)
        return unification.unified

    def call_names(
        self, args: Sequence[Any], count: int | None, safe: AbstractSet[str]
    ) -> set[str]:
        """Return the variables that a call binds: by iteration, and in the operands after the
        `count` declared ones if all variables in the declared ones are safe. None as `count`
        (unknown): an empty set.
        """
        if count is None:
            return set()
        names = self.walked_names(args, safe)
        if count >= len(args):
            return names
        # To OPA what is in sets and keys is not needed; without its value there is no call.
        needed = {name for arg in args[:count] for name in self._operand_names(arg)}
        if not needed <= names | safe:
            return set()
        return names.union(*map(self.pattern_names, args[count:]))


class _Unification:
    """Collects the variables that are bound when two terms are made equal."""

    def __init__(self, terms: FlatTerms, safe: AbstractSet[str]) -> None:
        self.terms = terms
        self.safe = safe
        self.unified: set[str] = set()
        self.unknown: dict[str, set[str]] = {}
        """For each unbound variable, the variables that must be bound for it to become bound."""

    def is_safe(self, name: str) -> bool:
        return name in self.safe or name in self.unified

    def unify(self, a: Any, b: Any) -> None:
        """Add to `unified` the variables that become bound when `a = b` holds, given those that are
        safe (bound before) or already in `unified`. Arrays of equal length and objects with the
        same keys are compared part by part; a pattern is bound as a whole where the other side is a
        known value. A variable equal to another unbound one is recorded in `unknown`, and marked
        later, when that one is bound.
        """
        terms = self.terms
        kind, other_kind = type(a), type(b)
        if self._is_var(b) and not self._is_var(a):
            a, b = b, a
        if self._is_var(a):
            self._variable(a.name, b)
        elif kind is other_kind is terms.array:
            if len(a.items) == len(b.items):
                for left, right in zip(a.items, b.items, strict=True):
                    self.unify(left, right)
        elif kind is other_kind is terms.object_:
            self._objects(a.items, b.items)
        else:
            for pattern, other in ((a, b), (b, a)):
                if self._takes_apart(type(pattern), other):
                    self.mark_all(pattern)

    def _is_var(self, term: Any) -> bool:
        """Return True for a variable other than `input` and `data`."""
        kind = type(term)
        return kind is self.terms.var and term.name not in ROOTS

    def _variable(self, name: str, other: Any) -> None:
        """Mark what the equation of a variable with `other` binds: the variable if `other` is
        known, or the variables in `other` if the variable is bound. If neither is and `other` is a
        variable, an array or an object, record in `unknown` what they wait for. Sets count as
        known.
        """
        kind = type(other)
        if self._is_var(other):
            self._two(name, other.name)
        elif kind is self.terms.array or kind is self.terms.object_:
            self._composite(name, other)
        elif kind is not self.terms.ref or self._is_known(other):
            self.mark(name)

    def _takes_apart(self, pattern: type, other: Any) -> bool:
        """Return True if matching an array or object with `other` binds the variables in it:
        `pattern` is one of these classes, and `other` is known, or a comprehension that can give
        such a value.
        """
        terms, kind = self.terms, type(other)
        if pattern is not terms.array and pattern is not terms.object_:
            return False
        if kind is terms.ref:
            return self._is_known(other)
        if kind in terms.comprehensions:
            return pattern is terms.array or terms.is_object(other)
        return kind is terms.var or kind in terms.values  # the variable is a document

    def _is_known(self, ref: Any) -> bool:
        """Return True if a reference starts with `input`, `data`, a bound variable, or another term
        than a variable.
        """
        head = self.terms.path(ref)[0]
        kind = type(head)
        return kind is not self.terms.var or head.name in ROOTS or self.is_safe(head.name)

    def _two(self, x: str, y: str) -> None:
        """Mark one of two variables if the other is bound; if neither is, record in `unknown` that
        each becomes bound with the other.
        """
        if self.is_safe(y):
            self.mark(x)
        elif self.is_safe(x):
            self.mark(y)
        else:
            self.unknown.setdefault(x, set()).add(y)
            self.unknown.setdefault(y, set()).add(x)

    def _composite(self, x: str, term: Any) -> None:
        """Mark what `x = term` binds, for an array or object `term`: its variables if `x` is bound,
        or `x` if all of them are; otherwise record in `unknown` that `x` waits for those that are
        not.
        """
        if self.is_safe(x):
            self.mark_all(term)
            return
        lacking = {name for name in self.terms.pattern_names(term) if not self.is_safe(name)}
        if lacking:
            self.unknown.setdefault(x, set()).update(lacking)
        else:
            self.mark(x)

    def _objects(self, a: Sequence[tuple[Any, Any]], b: Sequence[tuple[Any, Any]]) -> None:
        """Unify the values under equal keys of two objects, given as pairs; do nothing if their
        sizes differ. Keys that only one has are passed over.
        """
        others = dict(b)
        if len(a) == len(b):
            for key, value in a:
                if key in others:
                    self.unify(value, others[key])

    def mark_all(self, term: Any) -> None:
        """Mark all variables of a pattern as bound."""
        for name in self.terms.pattern_names(term):
            self.mark(name)

    def mark(self, name: str) -> None:
        """Mark `name` as bound, then the variables that `unknown` has for it (those of its other
        side), and then every variable that waited for nothing else. A variable that is marked
        already is passed over.
        """
        if name in self.unified:
            return
        self.unified.add(name)
        for beside in self.unknown.pop(name, ()):
            self.mark(beside)
        # A copy: marking a variable removes its entry.
        for waiting, needs in list(self.unknown.items()):
            needs.discard(name)
            if not needs and waiting in self.unknown:
                del self.unknown[waiting]
                self.mark(waiting)
