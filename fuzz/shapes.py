"""Random programs of shapes that `grammar.py` does not write, for `newest.py`.

    p[x].q[y] contains z          heads of any depth and kind, several for one name
    f({"a": [x, {y}]}, input.k)   parameters of any form
    [x, {"a": y}] = …             patterns on both sides, in references and in `some k, v in …`
    not f(p[x]) >= input.a        calls beside references, negated, with conflicts and with `with`
    {n | some n in …; [n] == g}   items with what is compared in a loop, and calls of `print`

Sets and keys with variables stand where patterns do: they match only what is known before. A rule
that does not compile is written again, so that most programs are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from doorward.rego import Engine, RegoError
from fuzz.pools import Choices, Program

__all__ = ["generate"]

NAMES: Final = ("p", "q", "r", "s", "u")
VARIABLES: Final = ("x", "y", "z", "w", "v")
PARTS: Final = ("a", "b", "c")
PATHS: Final = (
    "input", "input.a", "input.b", "input.c", "input.b[0]", "input.c.a", "input.a.b", "data.base",
    "data.base.a", "data.base.b", "data.base.c.a",
)  # fmt: skip
KEYS: Final = ('"a"', '"b"', '"c"', "0", "1", "true", '"0"', "[1]", '["a", 1]', "null", '{"a": 1}')
CONSTANTS: Final = (
    "0", "1", "2", '"a"', '"b"', "true", "false", "null", "[]", "{}", "set()", "[1]", '["a", 1]',
    "[1, 2]", '{"a": 1}', "{1}", '{"a"}', '{"a": {"b": 1}}', "[[1, 2], [2, 3]]", "{1: 2}",
    '[{"a": 1}, {"a": 2, "b": 1}]', '{["a", 1], ["b", 2]}', '{{"a": 1}}', "{[1]: 2}", "[{1}, 1]",
)  # fmt: skip
CALLS: Final = (
    "count(@)", "object.keys(@)", "lower(@)", "abs(@)", "type_name(@)", "max(@)", "sort(@)",
    "is_array(@)", "sum(@)", "json.marshal(@)", "array.concat(@, [1])", 'object.get(@, "a", @)',
    "array.slice(@, 0, 1)", "object.union(@, @)", 'sprintf("%v", [@])', 'split(@, "")',
)  # fmt: skip
REPLACED: Final = ("", ".a", ".b", ".c.a", ".a.b", ".z")
INPUTS: Final[tuple[Any, ...]] = (
    {"a": 1, "b": [1, 2], "c": {"a": {"b": 1}, "b": {"a": 2}}},
    {"a": "a", "b": [["a", 1], ["b", 2]], "c": {"a": 1, "b": "a"}},
    {"a": {"b": 1}, "b": [{"a": 1}, {"a": 2, "b": 1}], "c": ["a", "b"]},
    {"a": [1, "a"], "b": {"a": [1, 2], "b": []}, "c": False},
    {"a": True, "b": {"0": 1}, "c": [0, 1]},
    {"a": None, "b": "", "c": 0},
)
BASES: Final[tuple[Any, ...]] = (
    {"a": 1, "b": [1, 2], "c": {"a": "a"}},
    {"a": "a", "b": {"a": 1, "b": [1]}},
    {"a": ["a", "b"], "b": [["a", 1], [1, 2]], "c": {"a": {"b": 1}}},
)
ATTEMPTS: Final = 6
"""How often the rules of a name are written again that do not compile."""


def generate(seed: int | str) -> Program:
    """The program of a seed."""
    return _Shapes(Random(seed)).program()


class _Shapes(Choices):
    """Writes rules. `scope` lists the variables that a term may read; `bound` gets new ones."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.rules: list[tuple[str, int]] = []
        """The names of rules so far, with the numbers of their parameters."""
        self.bound: list[str] = []
        self.is_logical = self.chance() < 0.4
        """True if `and`, `or` and the `not` of bodies are imported."""

    # Terms

    def variable(self, scope: Sequence[str]) -> str:
        return self.pick(scope) if scope else self.pick(PATHS)

    def key(self, scope: Sequence[str], depth: int) -> str:
        deep = depth > 2
        return self.weighted(
            (3, lambda: self.pick(KEYS)),
            (3, lambda: self.pick(VARIABLES)),
            (1, lambda: self.pick(PATHS)),
            (0.5, lambda: "_"),
            (0 if deep else 1, lambda: self.pattern(scope, depth + 1)),
            (0 if deep else 0.5, lambda: self.term(scope, depth + 1)),
        )

    def reference(self, scope: Sequence[str], depth: int = 0) -> str:
        head = self.weighted(
            (3, lambda: self.pick(["input", "input.a", "input.b", "input.c"])),
            (1.5, lambda: self.pick(["data.base", "data.base.b"])),
            (3 if self.rules else 0, lambda: self.rule(scope, depth)),
            (1 if scope else 0, lambda: self.variable(scope)),
            (0.5 if depth < 2 else 0, lambda: self.call(scope, depth + 1)),
        )
        steps = [
            f".{self.pick(PARTS)}" if self.chance() < 0.35 else f"[{self.key(scope, depth + 1)}]"
            for _ in range(self.pick([0, 1, 1, 2, 2, 3]))
        ]
        return head + "".join(steps)

    def rule(self, scope: Sequence[str], depth: int) -> str:
        name, count = self.pick(self.rules)
        if not count:
            return name
        return f"{name}({', '.join(self.term(scope, depth + 1) for _ in range(count))})"

    def call(self, scope: Sequence[str], depth: int) -> str:
        functions = [rule for rule in self.rules if rule[1]]
        if functions and self.chance() < 0.5:
            name, count = self.pick(functions)
            return f"{name}({', '.join(self.term(scope, depth + 1) for _ in range(count))})"
        first, *rest = self.pick(CALLS).split("@")
        return first + "".join([self.term(scope, depth + 1) + text for text in rest])

    def term(self, scope: Sequence[str], depth: int = 0) -> str:
        deep = depth > 2
        inner = depth + 1
        return self.weighted(
            (3, lambda: self.pick(CONSTANTS)),
            (2, lambda: self.pick(PATHS)),
            (4 if scope else 0, lambda: self.variable(scope)),
            (0 if deep else 3, lambda: self.reference(scope, inner)),
            (0 if deep else 1, lambda: self.call(scope, inner)),
            (0 if deep else 1, lambda: self.comprehension(scope, inner)),
            (0 if deep else 0.4, lambda: f"[{self.term(scope, inner)}, {self.term(scope, inner)}]"),
            (0 if deep else 0.4, lambda: f"{{{self.term(scope, inner)}}}"),
            (0 if deep else 0.4, lambda: f'{{"a": {self.term(scope, inner)}}}'),
            (0 if deep else 0.4, lambda: self.infix(scope, inner)),
        )

    def infix(self, scope: Sequence[str], depth: int) -> str:
        operator = self.pick(["in", "==", "+", "-", "<", "|", "&", "!="])
        return f"({self.term(scope, depth)} {operator} {self.term(scope, depth)})"

    def comprehension(self, scope: Sequence[str], depth: int) -> str:
        inside, before = list(scope), self.bound
        self.bound = []
        body = "; ".join([self.expr(inside, depth + 1) for _ in range(self.pick([1, 1, 2]))])
        self.bound = before
        head = f"[{', '.join(sorted(set(inside)))}]"
        form = self.pick(["[@ | #]", "{@ | #}"])
        return form.replace("@", head).replace("#", body)

    def pattern(self, scope: Sequence[str], depth: int = 0, *, keys: bool = True) -> str:
        """A pattern, whose new variables are added to `bound`; `keys`: with sets and keys that are
        not constant.
        """
        deep = depth > 2

        def inner() -> str:
            return self.pattern(scope, depth + 1, keys=keys)

        def name() -> str:
            if self.chance() < 0.15:
                return "_"
            chosen = self.pick(VARIABLES)
            self.bound.append(chosen)
            return chosen

        key = self.pick(['"a"', '"b"', "1", *(["input.a", "x", "{y}"] if keys else [])])
        return self.weighted(
            (3, name),
            (1, lambda: self.pick(CONSTANTS[:14])),
            (0.4 if keys else 0, lambda: self.pick(PATHS)),
            (0 if deep else 1.5, lambda: f"[{inner()}, {inner()}]"),
            (0 if deep else 0.5, lambda: f"[{inner()}]"),
            (0 if deep else 1, lambda: f"{{{key}: {inner()}}}"),
            (0 if deep else 0.5, lambda: f'{{"b": {inner()}, "a": {inner()}}}'),
            (0 if deep or not keys else 0.3, lambda: f"{{{inner()}}}"),
        )

    # Expressions

    def expr(self, scope: list[str], depth: int = 0) -> str:
        """An expression; the variables that it may bind are added to `scope`."""
        deep = depth > 2
        logical = 1.5 if self.is_logical and not deep else 0
        text = self.weighted(
            (2, lambda: f"{self.pattern((), 1, keys=False)} := {self.term(scope, depth)}"),
            (3, lambda: f"{self.pattern(scope)} = {self.reference(scope, depth)}"),
            (1, lambda: f"{self.pattern(scope, keys=False)} = {self.pattern(scope, keys=False)}"),
            (2.5, lambda: self.some(scope, depth)),
            (2, lambda: f"{self.reference(scope, depth)}[{self.pattern(scope, 1)}]"),
            (2, lambda: self.comparison(scope, depth)),
            (1, lambda: self.reference(scope, depth)),
            (0.4, lambda: f"walk({self.term(scope, 2)}, [{self.pattern(scope, 2)}, _])"),
            (0 if deep else 1.5, lambda: self.negation(scope, depth)),
            (0 if deep else 0.6, lambda: self.every(scope, depth)),
            (logical, lambda: self.logic(scope, depth)),
            (0.3, lambda: f"print({self.term(scope, 2)}, {self.pattern(scope, 2)})"),
            (0 if depth else 0.7, self.groups),
        )
        # What a `with` behind `some` reads are declarations of the `some` to OPA.
        if self.chance() < 0.2 and not text.startswith("some "):
            text += self.modifier(scope)
        scope += [name for name in dict.fromkeys(self.bound) if name not in scope]
        self.bound = []
        return text

    def groups(self) -> str:
        """A loop, and a comprehension in it of the items that are in the group of the loop's."""
        part = self.pick(
            ["[@]", "[@, type_name(@)]", "type_name(@)", '{"a": @}', "@.a", "[@.a]", "count(@)"]
        )
        collected = self.pick(["[@1 | @2]", "{@1 | @2}", "{@1 | @2}", "{@1: 1 | @2}"])
        own, other = part.replace("@", "m"), part.replace("@", "n")
        behind = self.pick(["", "", "; b := n.b", "; n != 1"])
        head = self.pick(["n", "n.a", "[n, 1]", "b" if "b :=" in behind else "n"])
        operator = self.pick(["==", "==", "="])
        inner = f"some n in {self.pick(PATHS)}; {other} {operator} g{behind}"
        text = collected.replace("@1", head).replace("@2", inner)
        self.bound += ["g", "l"]
        return f"some m in {self.pick(PATHS)}\n\tg := {own}\n\tl := {text}"

    def some(self, scope: Sequence[str], depth: int) -> str:
        domain = self.reference(scope, depth) if self.chance() < 0.7 else self.pick(CONSTANTS[9:])
        pattern = self.pattern(scope, 1)
        if self.chance() < 0.3:
            pattern = f"{self.pattern(scope, 2)}, {pattern}"
        return f"some {pattern} in {domain}"

    def comparison(self, scope: Sequence[str], depth: int) -> str:
        operator = self.pick(["==", "!=", "<", ">=", "in", "in"])
        return f"{self.term(scope, depth + 1)} {operator} {self.term(scope, depth + 1)}"

    def negation(self, scope: Sequence[str], depth: int) -> str:
        before, self.bound = self.bound, []
        if self.is_logical and self.chance() < 0.4:
            text = f"{{ {self.inner(scope, depth)} }}"
        elif self.is_logical and self.chance() < 0.15:
            text = f"({self.reference(scope, depth + 1)}{self.modifier(scope)})"
        else:
            text = self.weighted(
                (2, lambda: self.reference(scope, depth + 1)),
                (2, lambda: self.comparison(scope, depth)),
                (1, lambda: self.call(scope, depth)),
                (1, lambda: f"{self.pick(PATHS)} >= {self.call(scope, depth)}"),
            )
        self.bound = before
        return f"not {text}"

    def inner(self, scope: Sequence[str], depth: int) -> str:
        """A body with variables of its own."""
        return "; ".join([self.expr(list(scope), depth + 1) for _ in range(self.pick([1, 2]))])

    def every(self, scope: Sequence[str], depth: int) -> str:
        # No other variable has this name: OPA takes two of one name for one, here and there.
        test = self.pick(["e != 1", "is_number(e)", "e.a", "not e", "e[_]"])
        return f"every e in {self.reference(scope, depth + 1)} {{ {test} }}"

    def logic(self, scope: Sequence[str], depth: int) -> str:
        def operand() -> str:
            if self.chance() < 0.5:
                return f"{{ {self.inner(scope, depth)} }}"
            text = f"{self.pick(PATHS)} {self.pick(['==', '>='])} {self.call(scope, depth)}"
            text = f"not {text}" if self.chance() < 0.3 else text
            return f"({text}{self.modifier(scope)})" if self.chance() < 0.2 else text

        before, self.bound = self.bound, []
        text = f"{operand()} {self.pick(['and', 'or'])} {operand()}"
        self.bound = before
        return text

    def modifier(self, scope: Sequence[str]) -> str:
        value = self.term(scope, 2)
        functions = [name for name, count in self.rules if count == 1]
        documents = [name for name, count in self.rules if not count]
        return self.weighted(
            (2, lambda: f" with input{self.pick(REPLACED)} as {value}"),
            (1.5, lambda: f" with data.base{self.pick(REPLACED)} as {value}"),
            (1 if documents else 0, lambda: f" with {self.pick(documents)} as {value}"),
            (
                1 if functions else 0,
                lambda: f" with {self.pick(functions)} as {self.pick([*functions, 'type_name'])}",
            ),
            (0.5, lambda: f" with {self.pick(['lower', 'count'])} as type_name"),
        )

    # Rules

    def head_value(self, scope: Sequence[str]) -> str:
        return self.weighted(
            (1.5, lambda: f"[{', '.join(sorted(set(scope)))}]"),
            (1.5 if scope else 0, lambda: self.variable(scope)),
            (2, lambda: self.pick(CONSTANTS)),
            (0.7, lambda: self.term(scope, 1)),
        )

    def head_key(self, scope: Sequence[str]) -> str:
        return self.weighted(
            (3, lambda: f".{self.pick(PARTS)}"),
            (1, lambda: f"[{self.pick(KEYS[:8])}]"),
            (3, lambda: f"[{self.variable(scope)}]"),
            (0.5, lambda: f"[{self.term(scope, 2)}]"),
        )

    def definitions(self, name: str) -> list[str]:
        """The definitions of one name, which is known from then on."""
        kind = self.pick(["complete", "function", "function", "set", "deep", "deep", "deep"])
        path = name + (self.pick([".f", '["f g"]']) if self.chance() < 0.15 else "")
        path = path if kind in ("complete", "function") else name
        count = self.pick([1, 1, 2]) if kind == "function" else 0
        same = self.pick(CONSTANTS) if self.chance() < 0.4 else ""
        texts = [self.definition(kind, path, count, same) for _ in range(self.pick([1, 1, 2, 3]))]
        if kind in ("complete", "function") and self.chance() < 0.25:
            parameters = f"({', '.join('_' * count)})" if count else ""
            texts.append(f"default {path}{parameters} := {self.pick(CONSTANTS)}")
        self.rules.append((path, count))
        return texts

    def definition(self, kind: str, path: str, count: int, same: str) -> str:
        scope: list[str] = []
        parameters = [self.pattern((), 1, keys=self.chance() < 0.5) for _ in range(count)]
        scope += dict.fromkeys(self.bound)
        given, self.bound = list(scope), []
        body = self.body(scope)
        value = same or self.head_value(scope)
        match kind:
            case "set":
                return f"{path} contains {value}{body}"
            case "deep":
                keys = "".join([self.head_key(scope) for _ in range(self.pick([1, 1, 2, 3]))])
                form = self.pick([f" := {value}", f" := {value}", f" contains {value}", ""])
                return f"{path}{keys}{form}{body}"
        shown = f"({', '.join(parameters)})" if parameters else ""
        text = f"{path}{shown} := {value}{body}"
        while self.chance() < 0.25:
            inside = list(given)
            branch = self.body(inside)
            text += f" else := {self.head_value(inside)}{branch}"
        return text

    def body(self, scope: list[str]) -> str:
        lines = [self.expr(scope) for _ in range(self.pick([1, 1, 2, 2, 3]))]
        if self.chance() < 0.2:
            self.random.shuffle(lines)
        return " if {\n\t" + "\n\t".join(lines) + "\n}"

    def program(self) -> Program:
        words = ("and", "or", "not") if self.is_logical else ()
        head = "\n".join(["package t", "", *[f"import future.keywords.{word}" for word in words]])
        names = self.random.sample(NAMES, self.pick([1, 2, 2, 3, 4]))
        texts: list[str] = []
        for name in names:
            texts += self.compiling(head, texts, name)
        data: dict[str, Any] = {"base": self.pick(BASES)}
        if self.chance() < 0.3:
            data["t"] = {"only": self.pick([1, {"a": 1}, [1, {"a": 2}]])}
        queries = ["data.t"]
        for name in names[:2]:
            queries.append(f"data.t.{name}")
            if self.chance() < 0.6:
                key = self.pick(["[x]", "[x]", "[x][y]", "[x].a", ".a", "[1]"])
                queries.append(f"o = data.t.{name}{key}")
        module = "\n\n".join([head.rstrip(), *texts]) + "\n"
        return Program({"t.rego": module}, data, self.random.sample(INPUTS, 2), queries)

    def compiling(self, head: str, before: Sequence[str], name: str) -> list[str]:
        """Those definitions of a name that compile behind the rules before; seldom all of them."""
        for _ in range(ATTEMPTS):
            known = list(self.rules)
            texts = self.definitions(name)
            if self.chance() < 0.03:
                return texts
            kept: list[str] = []
            for text in texts:
                if _compiles("\n\n".join([head, *before, *kept, text])):
                    kept.append(text)
            if kept:
                return kept
            self.rules = known
        return []


def _compiles(module: str) -> bool:
    try:
        Engine({"t.rego": module})
    except RegoError:
        return False
    return True
