"""Random programs whose documents are unknown in part, and documents for them.

Rules refer only to those before them, so that there is no recursion.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any, Final

__all__ = ["UNKNOWNS", "document", "program"]

UNKNOWNS: Final = (["input"], ["input.u"], ["input.u.a", "input.v"], ["input.u", "data.d"])
_PATHS: Final = ("input.u.a", "input.u.b", "input.v", "input.k", "input.u", "data.d.x", "data.e")
_VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    False,
    0,
    1,
    2,
    "a",
    "b",
    [],
    ["a"],
    [1, 2],
    {},
    {"a": 1},
    {"x": "a"},
)
_REPLACED: Final = ("data.g.h", "data.g.k", "data.g.k.m", "data.g", "input.u.a", "input.k")
"""What `with` replaces, beside other members that it leaves alone."""
_IMPORTS: Final = "import future.keywords.and\nimport future.keywords.or\n"
_OPERATORS: Final = ("==", "!=", "<", ">=", "=")


def program(draw: Random) -> str:
    """A module `a` with the rule `p`."""
    is_logical = draw.random() < 0.3
    head = f"package a\n\n{_IMPORTS if is_logical else ''}\n"
    return head + "\n\n".join(_Writer(draw, is_logical=is_logical).rules()) + "\n"


class _Writer:
    def __init__(self, draw: Random, *, is_logical: bool) -> None:
        self._draw = draw
        self._is_logical = is_logical
        """Whether `and` and `or` are imported."""
        self._before: set[str] = set()
        """The rules so far."""

    def rules(self) -> list[str]:
        draw = self._draw
        value = draw.choice(["x", "input.k", "1"])
        rules = [f"f(x) := y if {{\n\ty := {value}\n\tx {self._test()}\n}}"]
        if draw.random() < 0.5:
            rules.append(f"f(x) := {self._known()} if x == {self._known()}")
        self._before.add("f")
        path = draw.choice(_PATHS)
        rules.append(f"o[k] := v if {{\n\tsome k, v in {path}\n\tv {self._test()}\n}}")
        self._before.add("o")
        path = draw.choice(_PATHS)
        rules.append(f"s contains x if {{\n\tsome x in {path}\n\t{self._body(1)}\n}}")
        rules.append(f"s contains {self._known()}")
        self._before.add("s")
        rules.append(f"e := 1 if {self._expr()}\nelse := 2 if {self._expr()}")
        self._before.add("e")
        rules += self._odd_rules()
        rules += [f"q if {{\n\t{self._body(2)}\n}}" for _ in range(draw.randint(1, 2))]
        if draw.random() < 0.3:
            rules.append("default q := false")
        self._before.add("q")
        for _ in range(draw.randint(1, 3)):
            head = "p" if draw.random() < 0.7 else "p := 1"
            rules.append(f"{head} if {{\n\t{self._body(3)}\n}}")
        if draw.random() < 0.4:
            rules.append(f"default p := {json.dumps(draw.choice(_VALUES[:7]))}")
        return rules

    def _odd_rules(self) -> list[str]:
        """Default functions, comprehensions, objects with rules below them, `else` of functions."""
        draw = self._draw
        rules = [f"fm(x) := {self._known()}", f"default g(_) := {self._known()}"]
        value = draw.choice(["1", "x", draw.choice(_PATHS)])
        rules.append(f"g(x) := {value} if {{\n\tx {self._test()}\n}}")
        self._before.add("g")
        pairs = f"some k, v in {draw.choice(_PATHS)}; {self._expr()}"
        rules.append(f"h := {{k: v | {pairs}}}")
        self._before.add("h")
        each = f"some k, v in {draw.choice(_PATHS)}"
        rules.append(f"r[k].z := v if {{\n\t{each}\n\t{self._expr()}\n}}")
        rules.append(f"r.w.y := {self._known()} if {self._expr()}")
        self._before.add("r")
        tests = self._test(), self._test()
        rules.append(f"i(x) := 1 if {{\n\tx {tests[0]}\n}} else := 2 if {{\n\tx {tests[1]}\n}}")
        self._before.add("i")
        return rules

    def _known(self) -> str:
        return json.dumps(self._draw.choice(_VALUES))

    def _term(self) -> str:
        path = self._draw.choice(_PATHS)
        choices = [path, path, path, self._known(), self._known()]
        more = {
            "e": ["e"],
            "f": [f"f({path})"],
            "o": ["o.a", f"o[{path}]"],
            "s": ["count(s)"],
            "g": [f"g({path})", f"g({self._known()})"],
            "h": ["h", "h.a", f"h[{path}]", "count(h)"],
            "r": ["r", f"r[{path}].z", "r.a.z", "r.w.y", "count(r)"],
            "i": [f"i({path})"],
        }
        choices += [
            f"data.g[{path}]",
            f"data.g.k[{path}]",
            f'object.get({path}, "a", 1)',
            f"({path} + 1)",
            f"[{path}, 1]",
            f"count({path})",
            f'sprintf("%v", [{path}])',
            f"({path} - ({self._draw.randint(0, 2)} - {self._draw.choice(_PATHS)}))",
            f"(({path} in [1, {self._known()}]) == {self._draw.choice(['true', 'false'])})",
        ]
        for name in sorted(self._before & more.keys()):
            choices += more[name]
        return self._draw.choice(choices)

    def _test(self) -> str:
        return f"{self._draw.choice(_OPERATORS[:4])} {self._term()}"

    def _body(self, most: int) -> str:
        return "\n\t".join([self._expr() for _ in range(self._draw.randint(1, most))])

    def _expr(self) -> str:
        draw = self._draw
        simple = f"{self._term()} {draw.choice(_OPERATORS)} {self._term()}"
        chance = draw.random()
        if self._is_logical and draw.random() < 0.25:
            replaced = f" with {draw.choice(_REPLACED)} as {self._known()}"
            return self._logical() + draw.choice(["", replaced])
        if chance < 0.35:
            return simple
        if chance < 0.5:
            return f"not {simple}"
        path = draw.choice(_PATHS)
        replaced = f"with {draw.choice(_REPLACED)} as {self._known()}"
        read = draw.choice([*_REPLACED, "data.g[_]", 'object.get(data, ["g", "h"], 0)'])
        choices = [
            f"{read} {draw.choice(_OPERATORS)} {self._term()} {replaced}",
            f"not {read} == {self._term()} {replaced}",
            f"{read} == {self._term()} {replaced} with input.k as {self._known()}",
            f"count([1 | {read} {draw.choice(_OPERATORS)} {self._term()}]) > 0 {replaced}",
            f"some y{draw.randint(1, 9)}, 1 in {path}",
            f"some [_, w{draw.randint(1, 9)}] in {path}",
            f'{{"a": v{draw.randint(1, 9)}}} = {path}',
            f"walk({path}, [_, {self._known()}])",
            f"every k, v in {path} {{ {self._term()} != v; k != {self._term()} }}",
            f"count({path}) > 1 with count as {self._known()}",
            f"{path} = {{z | z := {path}[_]}}",
            path,
            f"not {path}",
            f"{self._term()} in {path}",
            f"some x{draw.randint(1, 9)} in {path}",
            f"every z in {path} {{ z {self._test()} }}",
            f"count([1 | some z in {path}; z {self._test()}]) > 0",
            f"startswith({path}, {json.dumps(draw.choice(['', 'a', 'b']))})",
            f"{{1, 2}} == {{z | some z in {path}}}",
        ]
        more = {
            "e": [f"e == 2 {replaced}", "not e", "not e == 1"],
            "f": [
                f"f({path}) == {self._known()}",
                f"not f({path})",
                f"f({path}) == 1 with f as fm",
                f"f({path}) with f as {self._known()}",
                f"f({path}) == {self._term()} {replaced}",
            ],
            "g": [f"not g({path})", f"g({path}) == {self._known()} {replaced}"],
            "h": [f"{path} in h", f"h[k8] == {self._term()}", f"h[{path}] {replaced}"],
            "i": [f"i({path}) == 2", f"not i({path}) == 1 {replaced}"],
            "r": [f"r[_].z == {self._term()}", f"not r[{path}]", "some k9 in r", "r.w"],
            "q": [
                "q",
                "not q",
                f"q with input.k as {self._known()}",
                f"q {replaced}",
                "q with f as fm",
                f"not q {replaced}",
                f"count([1 | q {replaced}]) == {self._known()}",
            ],
            "s": [f"not {path} in s", f"s[{path}]"],
        }
        for name in sorted(self._before & more.keys()):
            choices += more[name]
        return draw.choice(choices)

    def _logical(self) -> str:
        """Operands of `and` and `or`: expressions, negated ones, and bodies with variables of their
        own and `with`."""
        draw = self._draw
        word = draw.choice(["and", "or"])
        return f"{self._operand()} {word} {self._operand()}"

    def _operand(self) -> str:
        draw = self._draw
        path = draw.choice(_PATHS)
        # A brace would begin a body.
        simple = f"{path} {draw.choice(_OPERATORS[:4])} {self._term()}"
        replaced = f"with {draw.choice(_REPLACED)} as {self._known()}"
        return draw.choice(
            [
                simple,
                path,
                f"not {simple}",
                f"({simple} and not {path})",
                f"{{ some z in {path}; z {self._test()} }}",
                f"{{ z := {path}; z {self._test()} }}",
                f"{{ {simple} {replaced} }}",
                f"{{ {simple}; not {path} }}",
            ]
        )


def document(draw: Random, unknowns: list[str], known: Any) -> Any:
    """`known`, of the form `{"input": …, "data": …}`, with other values where it is unknown."""
    result = json.loads(json.dumps(known))
    for path in unknowns:
        root, *names = path.split(".")
        result[root] = _put(draw, result[root], names)
    return result


def _put(draw: Random, value: Any, names: list[str]) -> Any:
    if names:
        inner = dict(value) if isinstance(value, dict) else {}
        if len(names) == 1 and draw.random() < 0.15:
            inner.pop(names[0], None)
            return inner
        return inner | {names[0]: _put(draw, inner.get(names[0]), names[1:])}
    if draw.random() < 0.5:
        return {key: _member(draw, key) for key in draw.sample("uvkabxd", 4)}
    return draw.choice(_VALUES)


def _member(draw: Random, key: str) -> Any:
    if key == "u":
        return {"a": draw.choice(_VALUES), "b": draw.choice(_VALUES)}
    return draw.choice(_VALUES)
