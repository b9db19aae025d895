"""Meanings of the variables of a residual: columns, related rows and known values.

A reference such as `input.docs.comments[i].author` goes from row to row. Each relation on its way
is one row in the conditions: the same relation of the same row with the same variable is the same
row, and so is each relation to one row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import count
from typing import Final, TypeAlias, TypeGuard

from doorward.base.records import record
from doorward.filters.conditions import Comparison, Condition, Conditions, Field, Group, Some
from doorward.filters.folding import FUNCTIONS, OBJECT_GET
from doorward.filters.hints import COLUMN, DEFAULTS, INDEX, VARIABLE
from doorward.rego.shared import Key, to_key
from doorward.rego.tools import ROOTS, Array, Call, Object, Ref, Scalar, Set, Term, Var

__all__ = ["Index", "Known", "Meaning", "Place", "Scope", "UnclearError", "is_variable"]


class UnclearError(ValueError):
    """A term is neither a column, a row nor known, so no filter can be made; `hint` says what to
    write.
    """

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@record
class Place:
    """What a term refers to: a row; with a `name`, a column or relation of it; with a `function`,
    the result of this built-in for the column (with `operand` or `default`).
    """

    row: str
    name: str = ""
    function: str = ""
    operand: str = ""
    default: Key = None

    @property
    def field(self) -> Field | None:
        """The column as a field; None for a row of a table.

        For a relation it may be an element, which has no name.
        """
        if not self.name and "#" not in self.row:
            return None
        return Field(self.row, self.name, (), self.function, self.operand, self.default)


@record
class Index:
    """The variable index of a relation, such as `i` in `input.t.items[i]`, which stands for one of
    its rows.
    """

    number: int


Known: TypeAlias = Scalar | Array | Set | Object
Meaning: TypeAlias = Place | Index | Known
_INPUT: Final = Var("input")
_NO_VALUE: Final = "a term is neither a column of a table nor a known value"
_Key: TypeAlias = tuple[Place, Index | None]


def is_variable(term: Term) -> TypeGuard[Var]:
    """Return True for a variable. A whole document, `input` or `data`, is written like one, but has
    its value: no equation binds it, and no row is chosen by it.
    """
    return isinstance(term, Var) and term.name not in ROOTS


class Scope:
    """The meanings of the variables of one body, and the rows that it chooses.

    `outer` is the body around it, whose rows it may use, and with `sees` also its variables.
    `only_one`: the body may not choose further rows, as behind `not`.
    """

    def __init__(
        self, outer: Scope | None = None, *, sees: bool = True, only_one: bool = False
    ) -> None:
        self._outer = outer
        self._seen = outer if sees else None
        self._only_one = only_one
        # INVARIANT: shared by all scopes of a filter: `logic` and the writers keep rows by name, so
        # no two may have the same.
        self._numbers: Iterator[int] = outer._numbers if outer is not None else count(1)
        self._indexed: dict[Index, Place] = outer._indexed if outer is not None else {}
        self._meanings: dict[str, Meaning] = {}
        self._rows: dict[_Key, str] = {}

    # Variables

    def meaning(self, name: str) -> Meaning | None:
        """Return what a variable means here or in a scope around; None if it has no meaning."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope._meanings:
                return scope._meanings[name]
            scope = scope._seen
        return None

    def bind(self, name: str, meaning: Meaning) -> None:
        """Set what a variable means in this scope; never `input` or `data` (`is_variable`)."""
        assert name not in ROOTS
        self._meanings[name] = meaning

    def begins_here(self, term: Term) -> bool:
        """Return True if a term begins with `input` or with a variable that has a meaning here; for
        a call of a built-in that databases can compute, if its first operand does.
        """
        if isinstance(term, Call):
            return _is_function(term) and self.begins_here(term.args[0])
        head = term.head if isinstance(term, Ref) else term
        return isinstance(head, Var) and (
            (head.name == "input" and isinstance(term, Ref)) or self.meaning(head.name) is not None
        )

    # References

    def read(self, term: Term) -> Meaning:
        """Return the meaning of a term: a place or a known value; raise UnclearError if it has
        none.

        A reference through a relation chooses a row of it.
        """
        match term:
            case Scalar() | Array() | Set() | Object():
                return term
            case Var(name) if name in ROOTS:
                message = f"the whole document `{name}` is neither a column nor a known value"
                raise UnclearError(message, COLUMN)
            case Var(name):
                meaning = self.meaning(name)
                if meaning is None:
                    raise UnclearError(f"the variable {name} has no known value", VARIABLE)
                return meaning
            # INVARIANT: only the names of related rows have a `#` (`Place.field`, `Field.name`), so
            # no table may.
            case Ref(Var("input"), (Scalar(str() as table), *rest)) if "#" not in table:
                return self._along(Place(table), rest)
            case Ref(Var(name), rest) if isinstance(location := self.meaning(name), Place):
                return self._along(location, rest)
            case Call() if _is_function(term):
                return self._read_call(term)
        raise UnclearError(_NO_VALUE, COLUMN)

    def _read_call(self, call: Call) -> Place:
        """Return the meaning of a call for which `_is_function` is true: for `object.get` the
        column with its default, otherwise, as for `lower(input.t.name)`, the column with the
        built-in and its second operand, a known text. UnclearError for other operands, and for a
        column that is itself the result of a built-in.
        """
        if call.name == OBJECT_GET:
            return self._with_default(call)
        location = self.read(call.args[0])
        operand = self.read(call.args[1]) if len(call.args) > 1 else Scalar("")
        text = operand.value if isinstance(operand, Scalar) else None
        if not isinstance(location, Place) or location.field is None or not isinstance(text, str):
            raise UnclearError(_NO_VALUE, COLUMN)
        if location.function:
            raise UnclearError(
                "a built-in cannot be applied to the result of another one, as in "
                "lower(trim_space(...))",
                COLUMN,
            )
        return Place(location.row, location.name, call.name, text)

    def _with_default(self, call: Call) -> Place:
        """Return the meaning of `object.get(row, "column", 1)`, also with `["column"]` and with
        variables of a known value: the column and its default. UnclearError if the operands are not
        a row, the name of a column and a known scalar.
        """
        terms: list[Term | Meaning] = [
            self.read(each) if isinstance(each, (Ref, Var)) else each for each in call.args
        ]
        row, name, default = terms
        if isinstance(name, Array) and len(name.items) == 1:
            (name,) = name.items
        match row, name, default:
            case Place(name=""), Scalar(str() as column), Scalar(value):
                return Place(row.row, column, OBJECT_GET, "", to_key(value))
        raise UnclearError(
            "the operands of object.get must be a row, the name of a column and a known scalar",
            DEFAULTS,
        )

    def field(self, term: Term) -> Field | None:
        """Return the column or relation that a term stands for; None if it stands for a row of a
        table or a known value, and where `read` raises UnclearError. As with `read`, a reference
        through a relation chooses a row of it.
        """
        if type(term) is not Ref and type(term) is not Var and type(term) is not Call:
            return None
        if type(term) is Ref and len(term.args) == 2 and term.head == _INPUT:
            table, column = term.args  # what most references are
            if type(table) is Scalar and type(column) is Scalar:
                names = table.value, column.value
                if (
                    isinstance(names[0], str)
                    and isinstance(names[1], str)
                    and (names[1] and "#" not in names[0])
                ):
                    return _field(names[0], names[1])
        try:
            location = self.read(term)
        except UnclearError:
            return None
        return location.field if isinstance(location, Place) else None

    def _along(self, location: Place, parts: Sequence[Term]) -> Place:
        """Return the place that the parts of a reference lead to from `location`, choosing rows of
        relations.

        Raise UnclearError if they lead to no column or row.
        """
        for part in parts:
            match part:
                case _ if location.function:
                    raise UnclearError(_NO_VALUE, COLUMN)
                case Scalar(""):  # without a name a place is a row or an element
                    raise UnclearError("a column or key has no name", COLUMN)
                case Scalar(str() as name) if not location.name:
                    location = Place(location.row, name)
                case Scalar(str() as name):
                    location = Place(self._row(location, None), name)
                case Var(name) if location.name and is_variable(part):
                    location = Place(self._row(location, self._index(name)))
                case _:
                    raise UnclearError(_NO_VALUE, INDEX)
        return location

    def _index(self, name: str) -> Index:
        """Return the index that a variable in brackets stands for, a new one unless it has a
        meaning.

        Raise UnclearError if the variable stands for something else, or must not choose a row here.
        """
        meaning = self.meaning(name)
        if meaning is None and not self._only_one:
            meaning = Index(next(self._numbers))
            self.bind(name, meaning)
        if not isinstance(meaning, Index):
            raise UnclearError(
                f"`[{name}]` after a relation must be a variable of its own, for any related row, "
                f"but {name} has another meaning, or no row can be chosen here",
                INDEX,
            )
        return meaning

    def _row(self, location: Place, index: Index | None) -> str:
        """Return the name of the row that a relation leads to: the same name for the same relation
        and index. `index` is None for a relation to one row.

        Raise UnclearError, only with an index, if a new row must not be chosen here or the index is
        used for two relations.
        """
        scope: Scope | None = self
        while scope is not None:
            # Along `_outer` and not `_seen`: a rule's variables end at its border, rows do not.
            if (location, index) in scope._rows:
                return scope._rows[location, index]
            scope = scope._outer
        if index is not None:
            if self._only_one:
                raise UnclearError("the row of a relation must be chosen before `not`", VARIABLE)
            if self._indexed.setdefault(index, location) != location:
                raise UnclearError("the same index is used for two relations", INDEX)
        name = f"{location.name}#{next(self._numbers)}"
        self._rows[location, index] = name
        return name

    def each(self, location: Place) -> str:
        """Return a new name for a row of a relation, such as `items#3`, that the body does not
        choose.
        """
        return f"{location.name}#{next(self._numbers)}"

    # What was asked for

    @property
    def asks_for_rows(self) -> bool:
        """True if the body chooses rows of relations."""
        return bool(self._rows)

    def around(
        self, conditions: Sequence[Condition], *, negated: bool = False
    ) -> tuple[Condition, ...]:
        """Return the conditions of the body. Those on rows that the body chooses are put into
        conditions that such rows exist or, with `negated`, that none do.
        """
        if not self._rows:
            return tuple(conditions)
        rows = {row: key for key, row in self._rows.items()}
        needs = [_rows_in(each) & rows.keys() for each in conditions]
        result = [
            each for each, group_needs in zip(conditions, needs, strict=True) if not group_needs
        ]
        for group in _group_connected(rows, needs):
            parts = [
                each
                for each, group_needs in zip(conditions, needs, strict=True)
                if group_needs & group
            ]
            result.append(_nest_rows([(r, rows[r]) for r in rows if r in group], parts, negated))
        return tuple(result)


def _is_function(call: Call) -> bool:
    """Return True if a call is one of a built-in whose value can be compared in a database."""
    return FUNCTIONS.get(call.name) == len(call.args)


@lru_cache(maxsize=1024)
def _field(table: str, column: str) -> Field:
    """Return the field of a column, the same object each time, whose hash is computed once."""
    return Field(table, column)


def _group_connected(rows: dict[str, _Key], needs: Sequence[set[str]]) -> list[set[str]]:
    """Return the rows in groups: two rows are in one group if one condition is about both, or if a
    relation leads from one to the other. `needs` has the rows of each condition.
    """
    # Each row is in a link of its own, too: one without a condition still has to exist.
    links = [*needs, *({row, location.row} & rows.keys() for row, (location, _) in rows.items())]
    groups: list[set[str]] = []
    for link in links:
        if link:
            joined = link.union(*[each for each in groups if each & link])
            groups = [joined, *[each for each in groups if not each & link]]
    order = list(rows)
    return sorted(groups, key=lambda group: min(map(order.index, group)))


def _nest_rows(
    rows: Sequence[tuple[str, _Key]], conditions: Sequence[Condition], negated: bool
) -> Condition:
    """Return the condition that these rows exist, one nested in the other.

    Each condition is placed where all of its rows are known; `negated` applies to the outermost
    row.
    """
    inner: list[Condition] = []
    left = list(conditions)
    names = [row for row, _ in rows]
    condition: Condition | None = None
    for position in range(len(rows) - 1, -1, -1):
        row, (location, index) = rows[position]
        here = [each for each in left if row in _rows_in(each)]
        left = [each for each in left if row not in _rows_in(each)]
        inner = here if condition is None else [*here, condition]
        is_outermost = position == 0
        condition = Some(
            location.row,
            location.name,
            row,
            index is not None,
            (tuple(inner),),
            negated and is_outermost,
        )
    assert condition is not None, names
    return condition


def _rows_in(condition: Condition) -> set[str]:
    """Return the rows and tables that a condition is about, except rows introduced in it."""
    match condition:
        case Comparison(field, _, value):
            return {field.table} | ({value.table} if isinstance(value, Field) else set())
        case Group(conditions):
            return _rows_in_all(conditions)
        case Some(table, _, row, _, conditions):
            return {table} | (_rows_in_all(conditions) - {row})


def _rows_in_all(conditions: Conditions) -> set[str]:
    return {row for body in conditions for each in body for row in _rows_in(each)}
