"""Random programs for residuals and filters, for `residuals.py`.

    f([x, 1]) := false if …  else := …     functions: patterns, constants, `else`, default, no value
    f(x, 9), y := f(x), f(x)[_], o[f(x)]   their calls: as conditions, with an output, in references
    not, every, comprehensions, with       around them
    o[k].a contains x, data.g[k][_]        documents of any depth, below base data, with open keys

Rules refer to those before them only. What is unknown is a part of `input`, and of data at times. A
program for rows reads the columns `input.u.a`, `b` and `c`, so that many become filters, and half
of these read related rows as well: the list `input.u.cs`, whose rows have the list `ms`, and the
object `input.u.f`. The others read documents of any form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final, Literal

from doorward.rego import CompileError, Engine, EvalError, from_python
from fuzz.pools import Choices, Program, literal

__all__ = ["QUERY", "Question", "generate"]

QUERY: Final = "data.p.allow"
UNKNOWNS: Final = (
    ("input",), ("input.u",), ("input.u",), ("input.u.a",), ("input.u.a", "input.u.b"),
    ("input.u", "data.d"), ("input.u.l", "data.d.a"), ("input.u.o.x",), ("input.k", "input.u.l"),
)  # fmt: skip
COLUMNS: Final = ("input.u.a", "input.u.b", "input.u.c")
FIELDS: Final = {"c": ("n", "t", "ok"), "m": ("k", "j"), "f": ("l", "s")}
"""The columns of related rows: numbers, texts and booleans by their position in `CELLS`."""
CELLS: Final[dict[str, Sequence[Any]]] = {
    "a": (0, 1, 2, 3, None), "b": ("", "a", "b", "x", None), "c": (True, False, None),
    "n": (0, 1, 2, None), "t": ("a", "b", "", None), "ok": (True, False, None),
    "k": ("a", "b", None), "j": (0, 1, None), "l": (0, 1, 2, None), "s": ("a", "b", None),
}  # fmt: skip
"""The values of each column of a row and of related rows."""
RELATED: Final = (
    "input.u.cs[_].n", "input.u.cs[_].t", "input.u.cs[_].ok", "input.u.f.l", "input.u.f.s",
    "input.u.cs[_].ms[_].k", "input.u.f", "input.u.cs[_]", "input.u.cs[_].ms[_].j",
)  # fmt: skip
PATHS: Final = (
    "input.u.a", "input.u.b", "input.u.l", "input.u.o", "input.u", "input.u.l[0]", "input.u.o.x",
    "input.u.l[_]", "input.u.o[_]", "input.k", "data.d.a", "data.d", "data.g.l", "data.g.l[_]",
    "data.g.o", "data.g.o.x",
)  # fmt: skip
SCALARS: Final[tuple[Any, ...]] = (0, 1, 2, "a", "b", True, False, None)
VALUES: Final[tuple[Any, ...]] = (
    *SCALARS, [], [1], [1, "a"], ["a", "b"], {}, {"a": 1}, {"x": "a"}, {"x": 1, "y": [1]}, "", "x",
)  # fmt: skip
LISTS: Final = ("[1, 2]", '["a", 1]', "[]", '{"a", "b"}', '{"x": 1, "y": "a"}', "[[1, 2], [2, 1]]")
BASE: Final[dict[str, Any]] = {
    "d": {"a": 1, "b": "a", "x": 1},
    "g": {"l": [1, "a"], "o": {"x": 1, "y": "a"}, "z": {"q": 1}},
}
CALLS: Final = (
    "count(@)", "lower(@)", "abs(@)", "type_name(@)", "to_number(@)", "is_number(@)", "upper(@)",
    'object.get(@, "x", @)', "array.concat(@, [1])", 'startswith(@, "a")', "is_null(@)", "max(@)",
    'sprintf("%v", [@])', 'concat(",", [@, "a"])', "object.keys(@)", "is_boolean(@)",
)  # fmt: skip
COLLECTIONS: Final = ("input.u.l", "input.u.l", "input.u.o", "input.u", "data.d", "data.g.l")
OPERATORS: Final = ("==", "==", "!=", "<", ">=", "=")
ATTEMPTS: Final = 5
"""How often a rule is written again that does not compile."""


@dataclass
class Question(Program):
    """A program with what is unknown. The first input has what is known, each has the rest; their
    member `d` is `data.d` where that is unknown."""

    unknowns: tuple[str, ...] = ("input",)
    is_rows: bool = False
    """True where the inputs differ in the scalars of `input.u` alone, or in its related rows."""
    nulls: Literal["null", "undefined"] = "null"
    """How a row has a column without a value: as null, or "undefined", without the column."""
    options: dict[str, Any] = field(default_factory=dict)
    """Of the partial evaluation, besides what is unknown."""
    asks_opa: bool = False


def generate(seed: int | str) -> Question:
    """The program of a seed; in most, decisions differ."""
    random = Random(seed)
    question = _Writer(random).question()
    attempts = random.choice([0, ATTEMPTS, ATTEMPTS])
    while attempts and not _varies(question):
        question = _Writer(random).question()
        attempts -= 1
    return question


def _varies(question: Question) -> bool:
    """Whether the first decisions of a program differ, with the whole input unknown."""
    query = Engine(question.modules, from_python(question.data)).prepare(QUERY)
    answers = []
    for given in question.inputs:
        try:
            answers.append(query.value(from_python(given)))
        except EvalError as error:
            answers.append(error.code)
        except Exception as error:
            answers.append(f"crash {type(error).__name__}")  # for the comparison to report
    return any(each != answers[0] for each in answers)


@dataclass(frozen=True)
class _Function:
    name: str
    count: int
    row: str = ""
    """The letter of the table of which the first parameter is a related row."""


class _Writer(Choices):
    """Writes rules. `scope` lists the variables that have values; those of related rows begin with
    the letter of their table in `FIELDS` and `w`: `cw7`."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.is_rows = self.chance() < 0.5
        self.is_related = self.is_rows and self.chance() < 0.5
        self.functions: list[_Function] = []
        self.complete: list[str] = []
        self.sets: list[str] = []
        self.objects: list[str] = []
        self.deep: list[str] = []
        self.number = 0
        self.modules: dict[str, str] = {}
        self.is_plain = self.chance() < 0.6
        """True if most terms are scalars, paths and calls, so that decisions depend on them."""
        self.is_logical = self.chance() < 0.2

    def question(self) -> Question:
        """A whole program with inputs."""
        if self.chance() < 0.4:
            self._module("lib", "data.lib.", self.pick([1, 2, 3]))
        if self.chance() < 0.25:
            self._module("g.h", "data.g.h.", self.pick([1, 2]))
        self._module("p", "", self.pick([1, 2, 2, 3, 4]), last=True)
        modules = self.modules
        unknowns: tuple[str, ...] = ("input.u",) if self.is_rows else self.pick(UNKNOWNS)
        options: dict[str, Any] = {}
        if self.chance() < 0.12:
            options["shallow"] = True
        elif self.chance() < 0.12:
            options["disable_inlining"] = (
                self.pick(["data.p", "data.lib", "data.p.f1", "data.g.h"]),
            )
        if self.chance() < 0.25:
            options["keep_else"] = True
        return Question(
            modules, BASE, self._inputs(), [QUERY],
            unknowns=unknowns, is_rows=self.is_rows, options=options,
            nulls="undefined" if self.is_rows and self.chance() < 0.3 else "null",
        )  # fmt: skip

    def _inputs(self) -> list[Any]:
        k = self.pick(SCALARS)
        if self.is_related:
            return [{"u": self._related_row(), "k": k} for _ in range(20)]
        if self.is_rows:
            rows = [self._cells("abc") for _ in range(12)]
            ends: list[tuple[Any, ...]] = [(1, "a", True), (2, "b", False), (None, None, None)]
            rows += [dict(zip("abc", values, strict=True)) for values in ends]
            return [{"u": row, "k": k} for row in rows]
        return [self._input(k) for _ in range(12)]

    def _cells(self, names: Sequence[str]) -> dict[str, Any]:
        return {name: self.pick(CELLS[name]) for name in names}

    def _related_row(self) -> dict[str, Any]:
        row = self._cells("abc")
        row["f"] = self._cells(FIELDS["f"]) if self.chance() < 0.7 else None
        row["cs"] = [self._cells(FIELDS["c"]) for _ in range(self.pick([0, 0, 1, 1, 2, 3]))]
        for each in row["cs"]:
            each["ms"] = [self._cells(FIELDS["m"]) for _ in range(self.pick([0, 1, 2]))]
        return row

    def _input(self, k: Any) -> Any:
        if self.chance() < 0.04:
            return self.pick(VALUES)
        u: Any = {
            "a": self.pick(VALUES),
            "b": self.pick(VALUES),
            "l": [self.pick(VALUES) for _ in range(self.pick([0, 1, 2, 3]))],
            "o": {key: self.pick(VALUES) for key in self.pick(["", "x", "xy", "ax"])},
        }
        for key in "ablo":
            if self.chance() < 0.12:
                u.pop(key)
        if self.chance() < 0.05:
            u = self.pick(VALUES)
        d = {key: self.pick(VALUES) for key in self.pick(["a", "ab", "xa", ""])}
        return {"u": u, "k": k, "d": d}

    # Modules and rules

    def _module(self, package: str, prefix: str, count: int, *, last: bool = False) -> None:
        """Add a package. `prefix` is how others name its rules; the last one has the query."""
        imports = (
            "import future.keywords.and\nimport future.keywords.or\n" if self.is_logical else ""
        )
        self.modules[f"{package}.rego"] = f"package {package}\n\n{imports}"
        before = self._state()
        for _ in range(count):
            self._add_rules(package)
        if not last:
            self._rename(before, prefix)
            return
        for _ in range(ATTEMPTS * 2):
            if self._fits(package, self._allow()):
                return
        self._fits(package, "allow if input.u.a == 1\n")

    def _fits(self, package: str, rules: str) -> bool:
        """Add rules to a package if they compile."""
        file = f"{package}.rego"
        modules = self.modules | {file: f"{self.modules[file]}\n{rules}"}
        try:
            Engine(modules, BASE)
        except CompileError:
            return False
        self.modules = modules
        return True

    def _state(self) -> list[int]:
        return [
            len(each)
            for each in (self.functions, self.complete, self.sets, self.objects, self.deep)
        ]

    def _rename(self, before: Sequence[int], prefix: str) -> None:
        """Name the rules of a package as other packages do."""
        self.functions[before[0] :] = [
            replace(each, name=prefix + each.name) for each in self.functions[before[0] :]
        ]
        for names, start in zip(
            (self.complete, self.sets, self.objects, self.deep), before[1:], strict=True
        ):
            names[start:] = [prefix + name for name in names[start:]]

    def _add_rules(self, package: str) -> None:
        """Add rules for another name, if some of them compile."""
        self.number += 1
        write: Callable[[str], tuple[list[Any], Any, str]] = self.weighted(
            (6, lambda: self._function),
            (2, lambda: self._complete),
            (0.7, lambda: self._by_item),
            (1.5, lambda: self._set),
            (1.5, lambda: self._object),
            (1.5, lambda: self._deep),
        )
        for _ in range(ATTEMPTS):
            names, name, rules = write(str(self.number))
            if self._fits(package, rules):
                names.append(name)
                return

    def _function(self, number: str) -> tuple[list[Any], Any, str]:
        name, count = f"f{number}", self.pick([1, 1, 1, 2])
        row = self.pick(["c", "c", "m"]) if self.is_related and self.chance() < 0.4 else ""
        rules = []
        if self.chance() < 0.4:
            rules.append(f"default {name}({', '.join(['_'] * count)}) := {self._constant()}")
        for _ in range(self.pick([1, 1, 2, 2, 3])):
            rules.append(self._definition(name, count, row))
        return self.functions, _Function(name, count, row), "\n\n".join(rules) + "\n"

    def _definition(self, name: str, count: int, row: str) -> str:
        scope: list[str] = [self._name(row)] if row else []
        others = [self._parameter(scope) for _ in range(count - len(scope))]
        parameters = ", ".join([*scope[: 1 if row else 0], *others])
        if self.chance() < 0.1:
            return f"{name}({parameters}) := {self._term(scope, 1)}{self._else(scope)}"
        inside = list(scope)
        block = self._block(inside, self.pick([1, 1, 2]))
        return f"{name}({parameters}){self._value(inside)} if {block}{self._else(scope)}"

    def _else(self, scope: list[str]) -> str:
        text = ""
        while self.chance() < 0.3:
            inside = list(scope)
            block = self._block(inside, 1)
            text += f" else{self._value(inside)} if {block}"
        if text and self.chance() < 0.3:
            text += f" else := {self._known()}"
        return text

    def _parameter(self, scope: list[str]) -> str:
        def name() -> str:
            if scope and self.chance() < 0.05:
                return self.pick(scope)
            chosen = self._name()
            scope.append(chosen)
            return chosen

        return self.weighted(
            (6, name),
            (1.5, self._known),
            (0.3, lambda: "_"),
            (0.6, lambda: f"[{name()}, {self.pick([name, self._known])()}]"),
            (0.4, lambda: f'{{"x": {self.pick([name, self._known])()}}}'),
            (0.3, lambda: "input.k"),
        )

    def _value(self, scope: Sequence[str]) -> str:
        return self.weighted(
            (2, lambda: ""),
            (3, lambda: f" := {self._constant()}"),
            (1, lambda: " := false"),
            (2 if scope else 0, lambda: f" := {self._variable(scope)}"),
            (1, lambda: f" := {self._term(scope, 1)}"),
        )

    def _complete(self, number: str) -> tuple[list[Any], Any, str]:
        name = f"q{number}"
        rules = []
        if self.chance() < 0.4:
            rules.append(f"default {name} := {self._constant()}")
        for _ in range(self.pick([1, 1, 2, 2, 3])):
            body = self._block([], self.pick([1, 1, 2]))
            rules.append(f"{name}{self._value(())} if {body}{self._else([])}")
        return self.complete, name, "\n\n".join(rules) + "\n"

    def _by_item(self, number: str) -> tuple[list[Any], Any, str]:
        """A rule with three values or more, each for an item of a collection: several may hold."""
        name = f"q{number}"
        items = self.pick(["data.g.l", "data.g.o"] if self.is_rows else COLLECTIONS)
        rules = [f"default {name} := {self._known()}"] if self.chance() < 0.3 else []
        for _ in range(self.pick([3, 3, 4, 5])):
            x = self._name() if self.chance() < 0.5 else "x"
            choice = self.pick([f"some {x} in {items}", f"{x} := {items}[_]", f"{x} = {items}[_]"])
            tests = [f"{x} == {self._known()}"]
            if self.chance() < 0.3:
                tests.append(f"{self._path()} == {self._known()}")
            body = "\n".join(f"\t{each}" for each in [choice, *tests])
            rules.append(f"{name} := {self._constant()} if {{\n{body}\n}}")
        return self.complete, name, "\n\n".join(rules) + "\n"

    def _set(self, number: str) -> tuple[list[Any], Any, str]:
        name = f"s{number}"
        rules = [self._contains(name) for _ in range(self.pick([1, 2, 2]))]
        return self.sets, name, "\n\n".join(rules) + "\n"

    def _contains(self, head: str) -> str:
        if self.chance() < 0.25:
            return f"{head} contains {self._known()}"
        scope: list[str] = []
        body = self._block(scope, self.pick([1, 2]))
        return f"{head} contains {self._term(scope, 1)} if {body}"

    def _object(self, number: str) -> tuple[list[Any], Any, str]:
        name = f"o{number}"
        rules = []
        for _ in range(self.pick([1, 2, 2])):
            scope: list[str] = []
            body = self._block(scope, self.pick([1, 2]))
            key = self.pick([self._known(), '"a"', '"x"', self._term(scope, 1)])
            rules.append(f"{name}[{key}] := {self._term(scope, 1)} if {body}")
        return self.objects, name, "\n\n".join(rules) + "\n"

    def _deep(self, number: str) -> tuple[list[Any], Any, str]:
        name = f"r{number}"
        rules = []
        for _ in range(self.pick([1, 2, 3])):
            scope: list[str] = []
            body = self._block(scope, self.pick([1, 2]))
            key, other = self._term(scope, 1), self._term(scope, 1)
            head = self.pick(
                [f"{name}[{key}].a", f"{name}[{key}][{other}]", f"{name}.a[{key}]", f"{name}.a.b",
                 f"{name}.x", f"{name}[{key}].x.y"]
            )  # fmt: skip
            ending = self._ending(scope)
            rules.append(f"{head}{ending} if {body}")
        return self.deep, name, "\n\n".join(rules) + "\n"

    def _ending(self, scope: Sequence[str]) -> str:
        """What is behind a deep reference in a head."""
        return self.weighted(
            (2, lambda: f" := {self._term(scope, 1)}"),
            (1, lambda: f" := {self._known()}"),
            (1, lambda: f" contains {self._term(scope, 1)}"),
            (1, lambda: ""),
        )

    def _allow(self) -> str:
        rules = []
        if self.chance() < 0.4:
            rules.append(f"default allow := {self.pick(['false', 'false', 'true', self._known()])}")
        for _ in range(self.pick([1, 1, 1, 2])):
            body = self._block([], self.pick([1, 2, 2, 3]))
            head = self.weighted(
                (5, lambda: "allow"),
                (1, lambda: f"allow := {self.pick(['true', 'false', self._known()])}"),
                (1, lambda: f"allow := {self._term((), 1)}"),
            )
            rules.append(f"{head} if {body}{self._else([]) if self.chance() < 0.3 else ''}")
        return "\n\n".join(rules) + "\n"

    # Terms

    def _name(self, table: str = "") -> str:
        self.number += 1
        return f"{table}w{self.number}" if table else f"x{self.number}"

    def _variable(self, scope: Sequence[str]) -> str:
        """A variable that has a value; of a related row mostly one of its columns."""
        name = self.pick(scope)
        if name[1:2] != "w" or self.chance() < 0.05:
            return name
        if name[0] == "c" and self.chance() < 0.1:
            return f"{name}.ms[_].{self.pick(FIELDS['m'])}"
        return f"{name}.{self.pick(FIELDS[name[0]])}"

    def _related_rows(self, scope: Sequence[str]) -> tuple[str, str]:
        """A list of related rows, and the letter of its table."""
        rows = [name for name in scope if name.startswith("cw")]
        if rows and self.chance() < 0.6:
            return f"{self.pick(rows)}.ms", "m"
        return ("input.u.cs[_].ms", "m") if self.chance() < 0.1 else ("input.u.cs", "c")

    def _constant(self) -> str:
        """A constant that is a collection more often."""
        return literal(self.pick(VALUES)) if self.chance() < 0.3 else self._known()

    def _known(self) -> str:
        return literal(self.pick(SCALARS if self.is_rows or self.chance() < 0.7 else VALUES))

    def _path(self) -> str:
        if self.is_related and self.chance() < 0.3:
            return self.pick(RELATED)
        if self.is_rows and self.chance() < 0.85:
            return self.pick(COLUMNS)
        known = ("input.k", "input.k", "data.g.l[_]", "data.d.a", "input", "input.u", "data.d")
        return self.pick(known if self.is_rows else (*PATHS, "input"))

    def _term(self, scope: Sequence[str], depth: int = 0) -> str:
        deep = depth > 2
        rows = 0.3 if self.is_rows else 1
        if self.is_plain and self.chance() < 0.85:
            return self.weighted(
                (2, self._path),
                (2.5, self._known),
                (4 if scope else 0, lambda: self._variable(scope)),
                (2 if self.functions and not deep else 0, lambda: self._call(scope, depth + 1)),
                (0.7 if self.complete else 0, lambda: self.pick(self.complete)),
            )
        return self.weighted(
            (3, self._path),
            (3, self._known),
            (4 if scope else 0, lambda: self._variable(scope)),
            (2 if self.functions and not deep else 0, lambda: self._call(scope, depth + 1)),
            (1 if self.complete else 0, lambda: self.pick(self.complete)),
            (0 if deep else 1.2, lambda: self._reference(scope, depth + 1)),
            (0 if deep else 0.6 * rows, lambda: self._comprehension(scope, depth + 1)),
            (0 if deep else 0.5 * rows, lambda: self._builtin(scope, depth + 1)),
            (
                0 if deep else 0.4 * rows,
                lambda: f"[{self._term(scope, depth + 1)}, {self._term(scope, depth + 1)}]",
            ),
            (0 if deep else 0.2 * rows, lambda: f'{{"a": {self._term(scope, depth + 1)}}}'),
            (0 if deep else 0.2 * rows, lambda: f"{{{self._term(scope, depth + 1)}, 1}}"),
            (
                0 if deep else 0.3 * rows,
                lambda: f"({self._term(scope, depth + 1)} + {self._term(scope, depth + 1)})",
            ),
            (
                0 if deep else 0.3,
                lambda: f"({self._term(scope, depth + 1)} == {self._term(scope, depth + 1)})",
            ),
            (0 if deep else 0.3, lambda: f"({self._term(scope, depth + 1)} in {self.pick(LISTS)})"),
        )

    def _call(self, scope: Sequence[str], depth: int = 1) -> str:
        function = self.pick(self.functions)
        return f"{function.name}({self._operands(function, scope, depth)})"

    def _operands(self, function: _Function, scope: Sequence[str], depth: int) -> str:
        operands = [
            self.pick([self._known(), self._known(), self._path(), self._term(scope, depth)])
            for _ in range(function.count)
        ]
        if function.row and self.chance() < 0.9:
            rows = [name for name in scope if name.startswith(f"{function.row}w")]
            places = ["input.u.cs[_]"] if function.row == "c" else ["input.u.cs[_].ms[_]"]
            operands[0] = self.pick([*rows, *rows, *places])
        return ", ".join(operands)

    def _builtin(self, scope: Sequence[str], depth: int) -> str:
        first, *rest = self.pick(CALLS).split("@")
        return first + "".join([self._term(scope, depth) + text for text in rest])

    def _key(self, scope: Sequence[str], depth: int) -> str:
        return self.weighted(
            (1.5, lambda: f"[{self.pick(['_', self._name()])}]"),
            (2, lambda: f"[{self._term(scope, depth)}]"),
            (1, lambda: self.pick([".a", ".x", ".b", "[0]", "[1]"])),
        )

    def _reference(self, scope: Sequence[str], depth: int) -> str:
        head = self.weighted(
            (2 if self.objects else 0, lambda: self.pick(self.objects)),
            (2 if self.deep else 0, lambda: self.pick(self.deep)),
            (1.5 if self.sets else 0, lambda: self.pick(self.sets)),
            (1 if self.functions else 0, lambda: self._call(scope, depth)),
            (1.5 if self.complete else 0, lambda: self.pick(self.complete)),
            (0.7, lambda: self.pick(["data.g", "data.lib", "data.g.h", "data.g.o", "data.d"])),
            (0.5, self._path),
            (0.3 if scope else 0, lambda: self._variable(scope)),
        )
        return head + "".join(
            [self._key(scope, depth + 1) for _ in range(self.pick([0, 1, 1, 1, 2]))]
        )

    def _comprehension(self, scope: Sequence[str], depth: int) -> str:
        inside = list(scope)
        body = "; ".join([self._expr(inside, depth + 1) for _ in range(self.pick([1, 1, 2]))])
        new = [self._variable([name]) for name in inside if name not in scope]
        term = self.pick([*new, "1", self._term(inside, depth + 1)])
        form = self.pick(["[@ | #]", "{@ | #}", "count({@ | #})", "count([@ | #])", '{"a": @ | #}'])
        return form.replace("@", term).replace("#", body)

    # Expressions

    def _block(self, scope: list[str], count: int) -> str:
        """A body in braces, whose variables are added to `scope`."""
        return "{ " + "; ".join([self._expr(scope) for _ in range(count)]) + " }"

    def _expr(self, scope: list[str], depth: int = 0) -> str:
        functions = bool(self.functions)
        rows = 0.4 if self.is_rows else 1
        deep = depth > 2
        if self.is_plain and self.chance() < (0.35 if functions else 0.55):
            return self._simple(scope)
        text = self.weighted(
            (4, lambda: self._comparison(scope, depth)),
            (9 if functions else 0, lambda: self._condition(scope, depth)),
            (1, lambda: self._term(scope, depth + 1)),
            (1, lambda: self._binding(scope, depth)),
            (4 if self.is_related else 1.2, lambda: self._some(scope, depth)),
            (
                4 if self.sets or self.objects or self.deep else 0,
                lambda: self._member(scope, depth),
            ),
            (2 if self.complete else 0, lambda: self._rule(scope, depth)),
            (0 if deep else 2, lambda: f"not {self._plain(scope, depth + 1)}"),
            (0 if deep else 1.6 * rows, lambda: self._every(scope, depth)),
            (1 if self.is_related else 0, lambda: self._rows_at_all(scope)),
            (
                0 if deep else 0.8 * rows,
                lambda: (
                    f"{self._comprehension(scope, depth)} {self.pick(OPERATORS)} {self._known()}"
                ),
            ),
            (1 if self.is_logical and not deep else 0, lambda: self._logical(scope, depth)),
        )
        if self.chance() < (0.16 if functions else 0.08) and not text.startswith("some"):
            text += self._with(scope)
        return text

    def _rows_at_all(self, scope: Sequence[str]) -> str:
        """Whether there are related rows, or a value among a column of theirs."""
        domain, table = self._related_rows(scope)
        field = self.pick(FIELDS[table])
        return self.pick(
            [f"count({domain}) {self.pick(['>', '==', '!='])} 0", f"{domain}[_].{field}",
             f"{domain}[_].{field} == {self._known()}",
             f"not {domain}[_].{field} == {self._known()}",
             f"{self._known()} in {{w | w := {domain}[_].{field}}}", f"{domain}[_]",
             f'object.get({domain}[_], "{field}", {self._known()}) == {self._known()}']
        )  # fmt: skip

    def _simple(self, scope: Sequence[str]) -> str:
        """A comparison that a column or variable may well fulfil."""
        left = self._variable(scope) if scope and self.chance() < 0.7 else self._path()
        operator = self.pick(["==", "==", "!=", "<", ">="])
        return self.pick([left, f"not {left}", *[f"{left} {operator} {self._known()}"] * 4])

    def _plain(self, scope: list[str], depth: int) -> str:
        """An expression that may stand behind `not`."""
        functions = bool(self.functions)
        return self.weighted(
            (3, lambda: self._comparison(scope, depth)),
            (4 if functions else 0, lambda: self._condition(list(scope), depth, binds=False)),
            (1.5, lambda: self._term(scope, depth)),
            (
                2 if self.sets or self.objects or self.deep else 0,
                lambda: self._member(list(scope), depth),
            ),
            (1.5 if self.complete else 0, lambda: self._rule(scope, depth)),
        )

    def _comparison(self, scope: Sequence[str], depth: int) -> str:
        operator = self.pick(OPERATORS)
        left = self._path() if self.chance() < 0.6 else self._term(scope, depth + 1)
        right = self._known() if self.chance() < 0.6 else self._term(scope, depth + 1)
        return f"{left} {operator} {right}"

    def _rule(self, scope: Sequence[str], depth: int) -> str:
        name = self.pick(self.complete)
        return self.pick(
            [name, f"{name} == {self._known()}", f"{name}{self._key(scope, depth + 1)}",
             f"{name}{self._key(scope, depth + 1)} {self.pick(OPERATORS)} {self._known()}",
             f"{name} {self.pick(OPERATORS)} {self._term(scope, depth + 1)}"]
        )  # fmt: skip

    def _condition(self, scope: list[str], depth: int, *, binds: bool = True) -> str:
        """A call of a function in any form."""
        function = self.pick(self.functions)
        operands = self._operands(function, scope, depth + 1)
        call = f"{function.name}({operands})"

        def output() -> str:
            name = self._name()
            scope.append(name)
            return name

        return self.weighted(
            (3, lambda: call),
            (3, lambda: f"{call} == {self._known()}"),
            (1, lambda: f"{call} {self.pick(OPERATORS)} {self._term(scope, depth + 1)}"),
            (2, lambda: f"{function.name}({operands}, {self._known()})"),
            (1, lambda: f"{function.name}({operands}, {self._term(scope, depth + 1)})"),
            (1 if binds else 0, lambda: f"{function.name}({operands}, {output()})"),
            (0.5, lambda: f"{function.name}({operands}, _)"),
            (1 if binds else 0, lambda: f"{output()} := {call}"),
            (0.5 if binds else 0, lambda: f"[{output()}, _] = {call}"),
            (0.5, lambda: f"{function.name}({operands}, [_, {self._known()}])"),
            (0.5, lambda: f"{call} in {self.pick(LISTS)}"),
            (0.5, lambda: f"{self._known()} = {call}"),
            (0.5, lambda: f"[{call}, 1] = [{self._known()}, 1]"),
        )

    def _binding(self, scope: list[str], depth: int) -> str:
        term, name = self._term(scope, depth + 1), self._name()
        text = self.pick(
            [f"{name} := {term}", f"{name} = {term}", f"[{name}, _] = {term}",
             f'{{"a": {name}}} = {term}', f"walk({term}, [_, {name}])"]
        )  # fmt: skip
        scope.append(name)
        return text

    def _some(self, scope: list[str], depth: int) -> str:
        if self.is_related and self.chance() < 0.75:
            domain, table = self._related_rows(scope)
            name = self._name(table)
            scope.append(name)
            return self.weighted(
                (5, lambda: f"some {name} in {domain}"),
                (1, lambda: f"{name} := {domain}[_]"),
                (1, lambda: f"{name} = {domain}[_]"),
                (0.5, lambda: f"some _, {name} in {domain}"),
            )
        key, name = self._name(), self._name()
        lists = [
            *LISTS,
            self._path(),
            *self.sets,
            *self.objects,
            *self.deep,
            self._term(scope, depth + 1),
        ]
        domain = self.pick(lists)
        if self.chance() < 0.5:
            scope.append(name)
            return f"some {name} in {domain}"
        scope += [key, name]
        return f"some {key}, {name} in {domain}"

    def _member(self, scope: list[str], depth: int) -> str:
        name = self.pick([*self.sets, *self.objects, *self.deep])
        key = self._key(scope, depth + 1)
        return self.weighted(
            (2, lambda: f"{name}{key}"),
            (2, lambda: f"{name}{key} {self.pick(OPERATORS)} {self._term(scope, depth + 1)}"),
            (1, lambda: f"{self._term(scope, depth + 1)} in {name}"),
            (1, lambda: f"{name}{key}{self._key(scope, depth + 1)}"),
            (0.6, lambda: f"{name} {self.pick(['==', '!='])} {self._term(scope, depth + 1)}"),
            (0.6, lambda: f"count({name}) {self.pick(OPERATORS)} {self.pick('012')}"),
        )

    def _every(self, scope: Sequence[str], depth: int) -> str:
        inside = list(scope)
        if self.is_related and self.chance() < 0.7:
            domain, table = self._related_rows(scope)
            name = self._name(table)
            return f"every {name} in {domain} {self._inner([*inside, name], depth + 1)}"
        key, name = self._name(), self._name()
        domain = self.pick(
            [*LISTS, self._path(), self._term(scope, depth + 1), *self.sets, *self.objects]
        )
        variables = self.pick([name, f"{key}, {name}"])
        inside += variables.split(", ")
        return f"every {variables} in {domain} {self._inner(inside, depth + 1)}"

    def _inner(self, scope: list[str], depth: int) -> str:
        count = self.pick([1, 1, 2])
        return "{ " + "; ".join([self._expr(scope, depth + 1) for _ in range(count)]) + " }"

    def _logical(self, scope: list[str], depth: int) -> str:
        left, right = self._comparison(scope, depth + 1), self._plain(list(scope), depth + 1)
        return f"{left} {self.pick(['and', 'or'])} {self.pick(['', 'not '])}{right}"

    def _with(self, scope: Sequence[str]) -> str:
        targets = ["input.u.a", "input.u", "input.k", "data.d.a", "data.g.l", "data.g.o", "input"]
        targets += [each for each in (*self.complete, *self.sets, *self.objects)]
        target = self.pick(targets)
        if self.functions and self.chance() < 0.6:
            target = self.pick(self.functions).name
            others = [each.name for each in self.functions]
            value = self.pick(
                [self._known(), *others, "is_number", self._path(), self._term(scope, 1)]
            )
        else:
            value = self.pick([self._known(), self._known(), self._term(scope, 1)])
        if not target.startswith(("data.", "input")) and target[0] in "fqso":
            target = f"data.p.{target}" if target not in _names(self.functions) else target
        return f" with {target} as {value}"


def _names(functions: Sequence[_Function]) -> set[str]:
    return {each.name for each in functions}
