"""`with`: documents and functions replaced while an expression is evaluated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from doorward.rego.partial.core import (
    DATA,
    INPUT,
    Constant,
    Expr,
    Operator,
    Ref,
    Term,
    Var,
    With,
    expr_terms,
    parts,
)
from doorward.rego.partial.state import plug
from doorward.rego.runtime.operations import lookup, put_path
from doorward.rego.values import UNDEFINED, Value

if TYPE_CHECKING:
    from doorward.rego.partial.search import Search, Site, Solutions

Path = tuple[Term, ...]


class Replaced:
    """What stands for parts of `data` and for functions, and answers that are good meanwhile."""

    def __init__(self) -> None:
        self.data: Any = UNDEFINED
        self._targets: list[tuple[Path, ...]] = []
        self._functions: list[dict[Operator, Term]] = []
        self._numbers: list[int] = []
        self._count = 0
        self._cache: list[dict[Path, tuple[Any]]] = [{}]

    def push(self, targets: tuple[Path, ...], functions: Mapping[Operator, Term]) -> None:
        self._targets.append(targets)
        self._cache.append({})
        self.push_functions(functions)

    def pop(self) -> None:
        self._targets.pop()
        self._cache.pop()
        self.pop_functions()

    def push_functions(self, functions: Mapping[Operator, Term], *, hide: bool = False) -> None:
        before = self._functions[-1] if self._functions and not hide else {}
        self._functions.append({**before, **functions})
        self._count += 1
        self._numbers.append(self._count if self._functions[-1] else 0)

    def pop_functions(self) -> None:
        self._functions.pop()
        self._numbers.pop()

    @property
    def functions_number(self) -> int:
        """Another one for each replacement of functions; 0 where none is replaced."""
        return self._numbers[-1] if self._numbers else 0

    def function(self, operator: Operator) -> Term | None:
        """What stands for a function; None for the function itself."""
        return self._functions[-1].get(operator) if self._functions else None

    def covers(self, path: Sequence[Term]) -> bool:
        """Whether a part of `data` is replaced as a whole, so that rules there do not count."""
        return any(
            len(target) <= len(path) and tuple(path[: len(target)]) == target
            for targets in self._targets
            for target in targets
        )

    def find(self, keys: Sequence[Value]) -> Any:
        """What stands at a path below `data` because of `with`; UNDEFINED if nothing does."""
        value: Any = self.data
        for key in keys:
            if value is UNDEFINED:
                break
            value = lookup(value, key)
        return value

    def cached(self, path: Path) -> tuple[Any] | None:
        return self._cache[-1].get(path)

    def cache(self, path: Path, value: Any) -> None:
        self._cache[-1][path] = (value,)


def kept(search: Search, site: Site) -> tuple[With, ...]:
    """The replacements that the residual needs: those of functions are done."""
    return tuple([item for item in site.expr.withs if not _is_function(search, item.target)])


def _is_function(search: Search, target: Ref) -> bool:
    head = target.parts[0]
    return (head != INPUT and head != DATA) or search.program.function(target) is not None


def under_with(search: Search, site: Site) -> Solutions:
    """The ways in which an expression holds while parts of the documents are replaced.

    What it refers to stays in rules of their own where it is not known: only there the residual
    can be evaluated under the same replacement.
    """
    functions: dict[Operator, Term] = {}
    documents: list[tuple[Path, Term]] = []
    disabled: list[Path] = []
    for item in site.expr.withs:
        if _is_function(search, item.target):
            disabled += _references(item.value)
            functions[operator_of(item.target)] = plug(item.value, site.bindings)
            continue
        if search.unknowns.inside(item.value, site.bindings):
            yield from _save_whole(search, site)
            return
        disabled += [*_references(item.target), *_references(item.value)]
        documents.append((item.target.parts, plug(item.value, site.bindings)))
    bare = Expr(site.expr.args, site.expr.operator, every=site.expr.every)
    for term in expr_terms(bare):
        disabled += _references(term)
    if type(bare.operator) is Ref:
        disabled.append(bare.operator.parts)
    yield from _evaluated(search, site, functions, documents, tuple(disabled))


def _save_whole(search: Search, site: Site) -> Solutions:
    """An expression whose replacement is not known: all of it is left to the residual."""
    expr, bindings = site.expr, site.bindings
    outputs: list[Term] = []
    if expr.is_equation or (expr.operator is None and expr.every is None):
        outputs = list(expr.args)
    elif expr.operator is not None:
        from doorward.rego.partial.functions import arity_of

        if arity_of(search, expr.operator) == len(expr.args) - 1:
            outputs = [expr.args[-1]]
    count = 0
    try:
        for term in outputs:
            count += search.mark_outputs(term, bindings)
        yield from search.save(expr, bindings, bindings, site)
    finally:
        search.unknowns.unmark(count)


def _evaluated(
    search: Search,
    site: Site,
    functions: Mapping[Operator, Term],
    documents: Sequence[tuple[Path, Term]],
    disabled: tuple[Path, ...],
) -> Solutions:
    replaced = search.replaced
    new_input, new_data = search.input, replaced.data
    for path, value in documents:
        keys = [part.value for part in path[1:] if type(part) is Constant]
        assert type(value) is Constant
        if path[0] == INPUT:
            old = new_input.value if type(new_input) is Constant else {}
            new_input = Constant(put_path(old, keys, value.value))
        else:
            new_data = put_path({} if new_data is UNDEFINED else new_data, keys, value.value)
    targets = tuple([path for path, _ in documents])

    def enter() -> tuple[Term | None, Any]:
        before = search.input, replaced.data
        search.input, replaced.data = new_input, new_data
        replaced.push(targets, functions)
        search.disabled.push(disabled)
        return before

    def leave(before: tuple[Term | None, Any]) -> None:
        search.disabled.pop()
        replaced.pop()
        search.input, replaced.data = before

    before = enter()
    is_inside = True
    solutions = search.evaluate(site)
    try:
        while next(solutions, solutions) is not solutions:
            leave(before)
            is_inside = False
            yield
            before = enter()
            is_inside = True
    finally:
        if is_inside:
            leave(before)


def operator_of(target: Ref) -> Operator:
    """A built-in by its name, a function by its path."""
    head = target.parts[0]
    if head == DATA or type(head) is not Var:
        return target
    rest = [str(part.value) for part in target.parts[1:] if type(part) is Constant]
    return ".".join([head.name, *rest])


def _references(term: Term) -> list[Path]:
    """Constant prefixes of the references in `term`."""
    paths: list[Path] = []
    waiting: list[Term] = [term]
    while waiting:
        each = waiting.pop()
        if type(each) is Ref:
            count = 1
            while count < len(each.parts) and type(each.parts[count]) is Constant:
                count += 1
            paths.append(each.parts[:count])
        waiting += _all_parts(each)
    return paths


def _all_parts(term: Term) -> list[Term]:
    from doorward.rego.partial.core import Comprehension

    if type(term) is Comprehension:
        inner = [term.term, *([] if term.key is None else [term.key])]
        return inner + [part for expr in term.body for part in expr_terms(expr)]
    return list(parts(term))
