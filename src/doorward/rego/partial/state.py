"""The mutable state of the evaluator: bindings, what is unknown, what was saved.

Everything is undone in reverse order as the search goes back, so one state serves the whole search.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, TypeAlias

from doorward.base.records import record
from doorward.rego.analysis.variables import ROOTS
from doorward.rego.errors import LIMIT_ERROR, EvalError
from doorward.rego.partial.core import (
    Body,
    Comprehension,
    Constant,
    Expr,
    Operator,
    Ref,
    Rule,
    Term,
    Var,
    With,
    changed,
    equation,
    is_path,
    map_parts,
    parts,
)
from doorward.rego.source import NOWHERE
from doorward.rego.values import UNDEFINED, Value, lookup, to_key

__all__ = [
    "Bindings",
    "Disabled",
    "Names",
    "Replaced",
    "Saved",
    "Support",
    "Unknowns",
    "apply",
    "plug",
]

MAX_TERM: Final = 100_000
"""The most parts of one term, shared parts counted each time."""


class Bindings:
    """The bindings of one body: for each bound variable its term, and the bindings in which that
    term is read. `number` tells the evaluations of bodies apart; 0 is the query.
    """

    __slots__ = ("number", "unknown", "values")

    def __init__(self, number: int) -> None:
        self.number = number
        self.values: dict[str, tuple[Term, Bindings]] = {}
        self.unknown: dict[str, int] = {}
        """How often each variable was marked as unknown."""


def apply(term: Term, bindings: Bindings) -> tuple[Term, Bindings]:
    """Follow a variable through its bindings. Return the final term, a `Var` if it is unbound, and
    the bindings in which to read it.
    """
    while type(term) is Var:
        bound = bindings.values.get(term.name)
        if bound is None:
            break
        term, bindings = bound
    return term, bindings


def plug(term: Term, bindings: Bindings) -> Term:
    """Return `term` with its bound variables replaced; unbound ones keep their names, and
    comprehensions stay unchanged. EvalError if the result exceeds `MAX_TERM` parts.
    """
    if type(term) is Var:
        term, bindings = apply(term, bindings)
    kind = type(term)
    if kind is Constant or kind is Comprehension or kind is Var or is_path(term):
        return term
    return _Plugging(lambda name, _: Var(name)).plug(term, bindings)


class _Plugging:
    """Replaces the bound variables of one term. A variable is looked up once, however often it
    occurs: `x1 = [x0, x0]; x2 = [x1, x1]; …` would otherwise take time proportional to the length
    of its text.
    """

    __slots__ = ("_done", "_name", "_sizes")

    def __init__(self, name: Callable[[str, Bindings], Term]) -> None:
        self._name = name
        self._done: dict[tuple[int, int], Term] = {}
        self._sizes: dict[int, int] = {}

    def plug(self, term: Term, bindings: Bindings) -> Term:
        """Return the term with bound variables replaced, and unbound ones by what the function
        `_name` returns for them; comprehensions are returned unchanged. EvalError if the term has
        more than `MAX_TERM` parts, counting shared parts each time.
        """
        if type(term) is Var:
            target, where = apply(term, bindings)
            if type(target) is Var:
                return self._name(target.name, where)
            if type(target) is Constant:
                return target
            done = self._done.get((id(target), id(where)))
            if done is None:
                done = self._done[id(target), id(where)] = self.plug(target, where)
            return done
        kind = type(term)
        if kind is Constant or kind is Comprehension or is_path(term):
            return term
        result = map_parts(term, lambda part: self.plug(part, bindings))
        if type(result) is not Constant:
            # Parts that are shared count each time: written out as text they are as large as that.
            size = 1 + sum([self._sizes.get(id(part), 1) for part in parts(result)])
            if size > MAX_TERM:
                text = f"a term of the residual is too large: it has more than {MAX_TERM} parts"
                raise EvalError(LIMIT_ERROR, text, NOWHERE)
            self._sizes[id(result)] = size
        return result


class Names:
    """The variables of the residual: each variable of each body gets its own name."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, int], str] = {}
        self._taken: set[str] = set()

    def of(self, name: str, bindings: Bindings) -> str:
        """Return the residual name of a variable: `x` of body 3 is `x3`, with `_` at its end if
        that name is taken; variables of the query, `input` and `data` keep their names.
        """
        if name in ROOTS:
            return name
        key = name, bindings.number
        target = self._names.get(key)
        if target is None:
            # Body 0 is the query; its variables are those that the caller reads.
            target = f"{name}{bindings.number}" if bindings.number else name
            # `x1` may be a name of the query as well.
            while target in self._taken:
                target += "_"
            self._names[key] = target
            self._taken.add(target)
        return target

    def reserve(self, names: Iterable[str]) -> None:
        """Reserve the names of the query's variables, so that no other variable gets them."""
        for name in names:
            self._names[name, 0] = name
            self._taken.add(name)

    def plug(self, term: Term, bindings: Bindings) -> Term:
        """Return `term` as it appears in the residual: bound variables replaced by their values,
        unbound ones under their residual names. Comprehensions, which `close` makes ready for it,
        are returned unchanged. EvalError if the result has too many parts.
        """
        if type(term) is Var:
            term, bindings = apply(term, bindings)
            if type(term) is Var:
                return Var(self.of(term.name, bindings))
        kind = type(term)
        if kind is Constant or kind is Comprehension or is_path(term):
            return term
        return _Plugging(lambda name, where: Var(self.of(name, where))).plug(term, bindings)

    def close(self, term: Term, bindings: Bindings) -> Term:
        """Return a comprehension that does not depend on bindings outside: the values of its bound
        variables become equations in its body. Other terms are returned unchanged, even with
        comprehensions inside.
        """
        if type(term) is Comprehension:
            names = dict.fromkeys(_free(term))
            bound = [name for name in bindings.values if name in names]
            equations = [
                equation(Var(self.of(name, bindings)), self.plug(Var(name), bindings))
                for name in bound
            ]
            named = self._name_variables(term, bindings)
            assert isinstance(named, Comprehension)
            return replace(named, body=(*named.body, *equations))
        return term

    def _name_variables(self, term: Term, bindings: Bindings) -> Term:
        """Return `term` with each variable in it, bound or not, replaced by the variable that
        stands for it in the residual, also inside comprehensions. Values of bound variables are not
        put in.
        """
        if type(term) is Var:
            return Var(self.of(term.name, bindings))
        if type(term) is Comprehension:
            key = None if term.key is None else self._name_variables(term.key, bindings)
            body = tuple([self._residual_names_in(expr, bindings) for expr in term.body])
            return replace(term, key=key, term=self._name_variables(term.term, bindings), body=body)
        if type(term) is Constant:
            return term
        return map_parts(term, lambda part: self._name_variables(part, bindings))

    def _residual_names_in(self, expr: Expr, bindings: Bindings) -> Expr:
        """Return an expression with all its variables under their residual names."""

        def change(term: Term) -> Term:
            """Name the variables of a term."""
            return self._name_variables(term, bindings)

        return map_expr(expr, change)

    def closed_expr(self, expr: Expr, bindings: Bindings) -> Expr:
        """Return an expression, such as an `every`, as it appears in the residual: bound variables
        replaced by their values, unbound ones under their residual names, and the comprehensions in
        it made self-contained. EvalError if a term gets too many parts.
        """

        def change(term: Term) -> Term:
            """Return a term as it appears in the residual, with the comprehensions in it, at any
            depth, made self-contained.
            """
            if type(term) is Comprehension:
                return self.close(term, bindings)
            if type(term) in (Constant, Var):
                return self.plug(term, bindings)
            return map_parts(term, change)

        return map_expr(expr, change)


def map_expr(expr: Expr, change: Callable[[Term], Term]) -> Expr:
    """Return `expr` with `change` applied to its terms: its operands, the values of its `with`
    (unless one names a built-in), and the domain, variables and body of `every`. The parts of terms
    are left to `change`.
    """
    every = expr.every
    if every is not None:
        body = tuple([map_expr(inner, change) for inner in every.body])
        domain = change(every.domain)
        key, value = change(every.key), change(every.value)
        every = replace(every, key=key, value=value, domain=domain, body=body)
    withs = tuple([w if w.names_builtin else replace(w, value=change(w.value)) for w in expr.withs])
    return changed(expr, tuple([change(arg) for arg in expr.args]), withs, every)


def _free(term: Term) -> Iterator[str]:
    """Yield the names of all variables in a term, `data` and `input` included, once for each
    occurrence, including those in comprehensions.
    """
    if type(term) is Var:
        yield term.name
    elif type(term) is Comprehension:
        yield from _free(term.term)
        if term.key is not None:
            yield from _free(term.key)
        for expr in term.body:
            yield from _free_of(expr)
    else:
        for part in parts(term):
            yield from _free(part)


def _free_of(expr: Expr) -> Iterator[str]:
    """Yield the names of all variables in an expression, in its `every` and the values of its
    `with` too, once for each occurrence. Targets of `with`, and the declaration of an `every`'s
    variables, do not count as occurrences.
    """
    for arg in expr.args:
        yield from _free(arg)
    for item in expr.withs:
        if not item.names_builtin:
            yield from _free(item.value)
    if expr.every is not None:
        yield from _free(expr.every.domain)
        for inner in expr.every.body:
            yield from _free_of(inner)


@record
class Saved:
    """An expression of the residual. Its terms are read in the bindings `left`, the right side of
    an equation in `right` if there is one, and the values of its `with` in `around`: those of the
    body around the `with`. If `left` is None, so is `around`, and the expression is final.
    """

    expr: Expr
    left: Bindings | None
    right: Bindings | None
    around: Bindings | None = None

    def plug(self, names: Names) -> Expr:
        """Return the expression as it appears in the residual: variables in its operands, and in
        the values of its `with`, replaced by their values in the bindings they belong to. An
        expression that is final (`left` is None) is returned unchanged. A `with` that replaces a
        built-in by another keeps its value, which is a name.
        """
        left, right, around = self.left, self.right, self.around
        if left is None or around is None:
            return self.expr
        expr = self.expr
        withs = tuple(
            [
                w if w.names_builtin else replace(w, value=names.plug(w.value, around))
                for w in expr.withs
            ]
        )
        if expr.every is not None:
            return replace(names.closed_expr(expr, left), withs=withs)
        if expr.is_equation and right is not None:
            one, other = expr.args
            args: tuple[Term, ...] = names.plug(one, left), names.plug(other, right)
        else:
            args = tuple([names.plug(arg, left) for arg in expr.args])
        return changed(expr, args, withs)


Path: TypeAlias = tuple[Term, ...]


class Unknowns:
    """The unknown documents, which do not change, and the stack of variables that are unknown at
    present.
    """

    def __init__(self, documents: Sequence[Path]) -> None:
        self.documents = tuple(documents)
        self.variables: list[tuple[Var, Bindings]] = []

    def mark(self, var: Var, bindings: Bindings) -> None:
        """Mark a variable as unknown until `unmark`; marks nest."""
        self.variables.append((var, bindings))
        bindings.unknown[var.name] = bindings.unknown.get(var.name, 0) + 1

    def unmark(self, count: int) -> None:
        """Remove the mark from the last `count` marked variables, in reverse order; a variable that
        was marked several times stays unknown until its last mark is removed.
        """
        # A stack: marks end in the reverse order in which the search made them.
        for _ in range(count):
            var, bindings = self.variables.pop()
            left = bindings.unknown[var.name] - 1
            if left:
                bindings.unknown[var.name] = left
            else:
                del bindings.unknown[var.name]

    def has(self, term: Term, bindings: Bindings) -> bool:
        """Return True if `term` is an unknown variable, a reference whose head is one, or a
        reference for which `reaches` is True.
        """
        if type(term) is Var:
            return term.name in bindings.unknown
        if type(term) is Ref:
            head = term.parts[0]
            if type(head) is Var and head.name in bindings.unknown:
                return True
            return self.reaches(term.parts, bindings)
        return False

    def reaches(self, path: Path, bindings: Bindings | None) -> bool:
        """Return True if one of the unknown documents is at, above or below `path`, whose first
        part is `input` or `data`. A key of either that is not constant counts as any key:
        `input[x]` reaches all of `input`. Variables in `path` are read in `bindings`; None leaves
        them open.
        """
        head = path[0]
        for document in self.documents:
            if head != document[0]:
                continue
            for document_key, part in zip(document[1:], path[1:], strict=False):
                if bindings is not None and type(part) is Var:
                    part = apply(part, bindings)[0]
                if type(part) is not Constant or type(document_key) is not Constant:
                    continue
                # Most keys are strings: compared here, without the equality of constants.
                if type(part.value) is str and type(document_key.value) is str:
                    if part.value != document_key.value:
                        break
                elif part != document_key:
                    break
            else:
                return True
        return False

    def inside(self, term: Term, bindings: Bindings) -> bool:
        """Return True if a variable in `term` is unknown, or bound to a term with an unknown
        variable.
        """
        waiting = [(term, bindings)]
        seen: set[tuple[str, int]] = set()
        while waiting:
            term, bindings = waiting.pop()
            if type(term) is Constant:
                continue
            for name in _free(term):
                if (name, bindings.number) in seen:
                    continue
                seen.add((name, bindings.number))
                target, where = apply(Var(name), bindings)
                if type(target) is not Var:
                    waiting.append((target, where))
                elif target.name in where.unknown:
                    return True
        return False


class Disabled:
    """Documents whose references are not replaced by their rules. `always` come from the caller;
    `with` adds more for a while.
    """

    def __init__(self, always: Sequence[Path]) -> None:
        self.always = tuple(always)
        self._passing: list[tuple[Path, ...]] = []
        self.is_suspended = False
        """True while something known is evaluated."""

    def push(self, more: tuple[Path, ...]) -> None:
        self._passing.append(more)

    def pop(self) -> None:
        self._passing.pop()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Context for an evaluation that uses nothing unknown: what `with` added does not count, so
        that the evaluation leaves nothing in the residual and its result alone says what holds.
        """
        passing, self._passing = self._passing, []
        before, self.is_suspended = self.is_suspended, True
        try:
            yield
        finally:
            self._passing, self.is_suspended = passing, before

    def from_caller(self, path: Path) -> bool:
        """Return True if the caller disabled the inlining of a document at, above or below
        `path`.
        """
        return any(_overlap(path, other) for other in self.always)

    def has(self, path: Path) -> bool:
        """Return True if the document at `path`, or one above or below it, must not be inlined."""
        if self.always and self.from_caller(path):
            return True
        return any(_overlap(path, other) for frame in self._passing for other in frame)


def _overlap(path: Path, other: Path) -> bool:
    """Return True if one path is a prefix of the other."""
    return all(a == b for a, b in zip(path, other, strict=False))


class Replaced:
    """A stack of the replacements by `with`, of parts of `data` and of functions. Values of rules
    are cached for each level.
    """

    def __init__(self) -> None:
        self.data: Any = UNDEFINED
        self._targets: list[tuple[Path, ...]] = []
        self._functions: list[dict[Operator, With]] = []
        self._numbers: list[int] = []
        self._count = 0
        # By the number of the functions too: a replacement is hidden while it is called.
        self._cache: list[dict[tuple[int, Path], tuple[Any]]] = [{}]

    def push(self, targets: tuple[Path, ...], functions: Mapping[Operator, With]) -> None:
        """Put the replacements of a `with` into effect: its targets in data, and functions."""
        self._targets.append(targets)
        self._cache.append({})
        self.push_functions(functions)

    def pop(self) -> None:
        """End the replacements of the last `push`, and drop the values cached under them."""
        self._targets.pop()
        self._cache.pop()
        self.pop_functions()

    def push_functions(self, functions: Mapping[Operator, With], *, hide: bool = False) -> None:
        """Replace functions until `pop_functions`. Those replaced before stay replaced, unless
        `hide` is set: then only `functions` are.
        """
        before = self._functions[-1] if self._functions and not hide else {}
        self._functions.append({**before, **functions})
        self._count += 1
        # 0 means that no function is replaced, so that caches may be used.
        self._numbers.append(self._count if self._functions[-1] else 0)

    def pop_functions(self) -> None:
        self._functions.pop()
        self._numbers.pop()

    @property
    def functions_number(self) -> int:
        """A number that identifies the present replacements of functions; 0 if none is replaced."""
        return self._numbers[-1] if self._numbers else 0

    def function(self, operator: Operator) -> Term | None:
        """Return the replacement of a function; None if it is not replaced."""
        item = self._functions[-1].get(operator) if self._functions else None
        return None if item is None else item.value

    @property
    def functions(self) -> Mapping[Operator, With]:
        """The present replacements of functions, without those that are hidden."""
        return self._functions[-1] if self._functions else {}

    def covers(self, path: Sequence[Term]) -> bool:
        """Return True if `with` replaces the document at `path` or one above it: rules and base
        data there do not count.
        """
        return any(
            len(target) <= len(path) and tuple(path[: len(target)]) == target
            for targets in self._targets
            for target in targets
        )

    def find(self, keys: Sequence[Value]) -> Any:
        """Return the value that `with` sets at a path below `data`; UNDEFINED if there is none."""
        value: Any = self.data
        for key in keys:
            if value is UNDEFINED:
                break
            value = lookup(value, key)
        return value

    def known(self) -> Hashable:
        """Return the present replacements by `with`, of data and functions, as a hashable key,
        equal for equal ones; None if there are none.
        """
        if not self._targets:
            return None
        functions = frozenset(self._functions[-1].items())
        return to_key(None if self.data is UNDEFINED else self.data), *self._targets, functions

    def cached(self, path: Path) -> tuple[Any] | None:
        """Return the cached value of a document as a tuple of one, UNDEFINED included; None if it
        is not cached.
        """
        return self._cache[-1].get((self.functions_number, path))

    def cache(self, path: Path, value: Any) -> None:
        self._cache[-1][self.functions_number, path] = (value,)


class Support:
    """The rules that the residual refers to, by package."""

    def __init__(self, namespace: str | None) -> None:
        self._namespace = namespace
        self.packages: dict[Path, list[Rule]] = {}
        self._known: dict[Path, Hashable] = {}

    def add_namespace(self, path: Path) -> Path:
        """Return the path in the support for the rules at `path` of the policies: `data.a.b`
        becomes `data.NAMESPACE.a.b`, and stays as it is if there is no namespace.
        """
        if self._namespace is None:
            return path
        return (path[0], Constant(self._namespace), *path[1:])

    def is_open(self, path: Path, known: Hashable) -> bool:
        """Return True if the rules at `path` may be put into the support. The first call for a path
        reserves it for the replaced documents `known`: with other ones the rules would differ, so
        calls with another key return False.
        """
        return self._known.setdefault(path, known) == known

    def has(self, location: Path) -> bool:
        """Return True if the support has a rule at or below `location`."""
        return any(
            rule.path[: len(location)] == location
            for rules in self.packages.values()
            for rule in rules
        )

    def add(self, rule: Rule) -> None:
        package = rule.path[: rule.package]
        self.packages.setdefault(package, []).append(rule)


def body_of(saved: Sequence[Saved], names: Names) -> Body:
    """Return the residual body that the saved expressions form; `true` if there are none."""
    if not saved:
        return (Expr((Constant(True),)),)
    return tuple([item.plug(names) for item in saved])


def as_value(term: Term) -> Value:
    """Return the value of a constant; AssertionError for other terms."""
    assert type(term) is Constant
    return term.value
