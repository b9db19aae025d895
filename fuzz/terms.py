"""Random terms, expressions and bodies.

Types are only guessed: a term knows the kind of its value, so that most programs pass the type
checker. Everything that comes from input, base data or a parameter is of any kind.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from fuzz.pools import (
    BUILTINS,
    CONSTANTS,
    JOINS,
    ODD_KEYS,
    ODD_VARIABLES,
    PLAIN_KEYS,
    RESERVED,
    VARIABLES,
    Choices,
    Term,
    fits,
    kind_of,
    literal,
)

__all__ = ["Known", "Scope", "Terms"]

COMPARISONS: Final = ("==", "==", "==", "!=", "<", "<=", ">", ">=", "=")
DEEPEST: Final = 3


@dataclass
class Known:
    """What others may know of a rule that was written before them."""

    package: tuple[str, ...]
    name: str
    kind: str
    arity: int = 0
    value: str = "any"
    """The kind of its value."""

    @property
    def path(self) -> str:
        return "data." + ".".join([*self.package, self.name])


@dataclass
class Scope:
    """The variables that a body may use where it stands, with their kinds."""

    known: dict[str, str] = field(default_factory=dict)
    depth: int = 0

    def inner(self) -> Scope:
        return Scope(dict(self.known), self.depth + 1)


class Terms(Choices):
    """Writes terms and expressions. An expression adds to its scope what it binds."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.odd = self.chance() < 0.5
        self.v0 = self.chance() < 0.12
        self.future = self.v0 and self.chance() < 0.5
        self.logical = not self.v0 and self.chance() < 0.12
        self.keys = self._keys()
        self.constants = [self.pick(CONSTANTS) for _ in range(7)]
        self.rules: list[Known] = []
        self.package: tuple[str, ...] = ()
        self.packages: list[tuple[str, ...]] = [("t",)]
        self.base: tuple[str, ...] = ("base",)
        self.read: dict[str, list[tuple[Any, ...]]] = {"input": [], "data": []}
        self.shared = [self.raw_path() for _ in range(self.random.randrange(1, 4))]
        """Paths below input that many rules read."""
        self.serial = 0

    @property
    def has_in(self) -> bool:
        return not self.v0 or self.future

    # Keys and paths

    def _keys(self) -> list[str]:
        keys: list[str] = self.random.sample(PLAIN_KEYS, self.random.randrange(2, 5))
        if self.odd:
            keys += self.random.sample(ODD_KEYS, self.random.randrange(0, 3))
            for _ in range(self.random.randrange(0, 3)):
                keys.append(self.pick(JOINS).join([self.pick(keys), self.pick(keys)]))
        return keys

    def key(self) -> str:
        return self.pick(self.keys)

    def dotted(self, keys: Sequence[Any]) -> str:
        """Keys as they are written behind a name."""
        out = ""
        for key in keys:
            plain = isinstance(key, str) and re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII)
            dot = plain and key not in RESERVED and self.chance() < 0.85
            out += f".{key}" if dot else f"[{literal(key)}]"
        return out

    def raw_path(self) -> tuple[Any, ...]:
        path: tuple[Any, ...] = tuple(self.key() for _ in range(self.pick([1, 1, 2, 2, 3, 4])))
        return (*path, self.pick([0, 1, 0, 2, True])) if self.chance() < 0.08 else path

    def input_path(self) -> Term:
        path = self.pick(self.shared) if self.chance() < 0.5 else self.raw_path()
        if self.chance() < 0.25:
            path = (*path, self.key())
        self.read["input"].append(path)
        return Term("input" + self.dotted(path))

    def data_path(self) -> Term:
        path = self.base + self.raw_path()
        self.read["data"].append(path)
        return Term("data" + self.dotted(path))

    def target(self, root: str) -> str:
        """A target of `with`: names only."""
        path = self.pick(self.shared) if self.chance() < 0.5 else self.raw_path()
        names = [key for key in path if isinstance(key, str)]
        return root + self.dotted([*(self.base if root == "data" else ()), *names])

    # Variables

    def fresh(self, scope: Scope, *others: str) -> str:
        taken = {*scope.known, *others, *(rule.name for rule in self.rules)}
        names = [name for name in VARIABLES if name not in taken]
        if self.odd and self.chance() < 0.15:
            names = [name for name in ODD_VARIABLES if name not in taken] or names
        if not names:
            self.serial += 1
            return f"x{self.serial}"
        return self.pick(names)

    def variable(self, scope: Scope, wanted: str = "any") -> Term | None:
        names = [name for name, kind in scope.known.items() if fits(kind, wanted)]
        if not names:
            return None
        name = self.pick(names)
        if scope.known[name] == "any" and self.chance() < 0.15:
            return Term(name + self.dotted([self.key()]))
        return Term(name, scope.known[name])

    # Terms

    def constant(self, wanted: str = "any") -> Term:
        if wanted == "unknown":
            return self.input_path()
        pool = self.constants if self.chance() < 0.7 else CONSTANTS
        values = [value for value in pool if fits(kind_of(value), wanted)]
        if wanted in ("any", "set", "sets") and (wanted != "any" or self.chance() < 0.06):
            text = self.pick(["set()", "{1, 2}", '{"a"}', '{"a", "b"}'])
            return Term(f"{{{text}, {{1}}}}" if wanted == "sets" else text, "set")
        if wanted == "num" and self.chance() < 0.2:
            return Term(self.pick(["1.0", "1e2", "0.5"]), "num")
        if not values:
            values = [value for value in CONSTANTS if fits(kind_of(value), wanted)] or [1]
        value = self.pick(values)
        return Term(literal(value), kind_of(value))

    def term(self, scope: Scope, wanted: str = "any") -> Term:
        """A term whose value may be of the kind that is `wanted`."""
        special = _SPECIAL.get(wanted)
        if special is not None:
            return self._special(scope, special)
        if wanted == "unknown":
            return self.weighted((2, self.input_path), (1, self.data_path))
        for _ in range(4):
            term = self._any_term(scope, wanted)
            if fits(term.kind, wanted):
                return term
        return self.input_path()

    def _special(self, scope: Scope, choices: Sequence[str]) -> Term:
        text = self.pick(choices)
        if "%" in text and "@" in text:
            return Term(text.replace("@", ""))
        while "@" in text:
            kind = {"s": "str", "n": "num", "a": "any"}[text[text.index("@") + 1]]
            before, _, after = text.partition(text[text.index("@") :][:2])
            text = f"{before}{self.term(scope.inner(), kind)}{after}"
        return Term(text)

    def _any_term(self, scope: Scope, wanted: str) -> Term:
        deep = scope.depth > DEEPEST
        return self.weighted(
            (5, lambda: self.leaf(scope, wanted)),
            (3, lambda: self.constant(wanted)),
            (0 if deep else 2.2, lambda: self.call(scope, wanted)),
            (0 if deep else 0.8, lambda: self.function(scope)),
            (0 if deep else 0.8, lambda: self.composite(scope)),
            (0 if deep else 0.9, lambda: self.comprehension(scope)),
            (0 if deep else 0.4, lambda: self.arithmetic(scope)),
            (0 if deep else 0.4, lambda: self.bracket(scope)),
            (0 if deep else 0.3, lambda: self.template(scope)),
            (0 if deep else 0.3, lambda: self.compared(scope)),
            (0 if deep else 0.1, lambda: self.below_term(scope)),
        )

    def leaf(self, scope: Scope, wanted: str = "any") -> Term:
        return self.weighted(
            (3 if scope.known else 0, lambda: self.variable(scope, wanted) or self.input_path()),
            (3, self.input_path),
            (1, self.data_path),
            (2.5 if self.rules else 0, lambda: self.rule(scope)),
            (0.1, lambda: Term("input")),
            (0.1, lambda: Term("data." + ".".join(self.base))),
        )

    def named(self, rule: Known) -> str:
        """How the current package writes a rule's name."""
        short = rule.package == self.package and self.chance() < 0.85
        return rule.name if short else rule.path

    def rule(self, scope: Scope) -> Term:
        readable = [rule for rule in self.rules if rule.arity == 0]
        if not readable:
            return self.input_path()
        rule = self.pick(readable)
        name = self.named(rule)
        if rule.kind == "bare" and self.chance() < 0.3:
            return Term(f"{name}()", rule.value)
        if rule.kind == "set" and self.chance() < 0.4:
            return Term(name + self.operand(scope))
        if rule.kind == "object" and self.chance() < 0.6:
            return Term(name + self.operand(scope))
        if rule.kind == "alias" and self.chance() < 0.8:
            return Term(name + self.dotted([self.key()]))
        return Term(name, rule.value)

    def operand(self, scope: Scope) -> str:
        """One step into a document."""
        name = self.pick(list(scope.known)) if scope.known and self.chance() < 0.4 else None
        if name is not None:
            return f"[{name}]"
        if self.chance() < 0.6:
            return self.dotted([self.key()])
        return f"[{self.weighted((1, self.constant), (1, self.input_path))}]"

    def call(self, scope: Scope, wanted: str = "any") -> Term:
        fitting = [b for b in BUILTINS if fits(b[2], wanted)] or BUILTINS
        name, kinds, result = self.pick(fitting)
        operands = [self.term(scope.inner(), kind) for kind in kinds]
        return Term(f"{name}({', '.join(operands)})", result)

    def function(self, scope: Scope) -> Term:
        functions = [rule for rule in self.rules if rule.arity]
        if not functions:
            return self.leaf(scope)
        rule = self.pick(functions)
        operands = [self.term(scope.inner()) for _ in range(rule.arity)]
        return Term(f"{self.named(rule)}({', '.join(operands)})", rule.value)

    def composite(self, scope: Scope) -> Term:
        inner = scope.inner()
        return self.weighted(
            (1, lambda: Term(f"{{{literal(self.key())}: {self.term(inner)}}}", "obj")),
            (1, lambda: Term(f"{{{self.term(inner)}, {self.term(inner)}}}", "set")),
            (1, lambda: Term(f"[{self.term(inner)}]", "arr")),
            (1, lambda: Term(f"[{self.term(inner)}, {self.term(inner)}]", "arr")),
        )

    def comprehension(self, scope: Scope) -> Term:
        inner = scope.inner()
        if not self.v0 and self.chance() < 0.12:
            return self._binding_head(inner)
        body = "; ".join(self.body(inner, self.pick([1, 1, 2])))
        head = self._in_parentheses(self._closing(inner))
        if self.chance() < 0.25:
            key = self.pick(list(inner.known)) if inner.known else literal(self.key())
            return Term(f"{{{key}: {head} | {body}}}", "obj")
        return self.weighted(
            (2, lambda: Term(f"[{head} | {body}]", "arr")),
            (1, lambda: Term(f"{{{head} | {body}}}", "set")),
        )

    def _closing(self, scope: Scope) -> Term:
        """What a body is written for: mostly one of its variables."""
        if scope.known and self.chance() < 0.6:
            name = self.pick(list(scope.known))
            return Term(name, scope.known[name])
        return self.term(scope)

    def _in_parentheses(self, term: str) -> str:
        return f"({term})" if " in " in term or "|" in term else term

    def _binding_head(self, scope: Scope) -> Term:
        """A comprehension whose head binds what the body needs."""
        walked = self.weighted((2, self.input_path), (1, self.data_path))
        name = self.fresh(scope)
        scope.known[name] = "any"
        body = self.weighted(
            (1, lambda: f"startswith({name}, {literal(self.key()[:1])})"),
            (1, lambda: "true"),
            (1, lambda: self.expr(scope)),
        )
        head = self.weighted(
            (3, lambda: f"{walked}[{name}]"), (1, lambda: f"[{name}, {walked}[{name}]]")
        )
        return self.weighted(
            (2, lambda: Term(f"[{head} | {body}]", "arr")),
            (1, lambda: Term(f"{{{head} | {body}}}", "set")),
            (1, lambda: Term(f"{{{head}: {name} | {body}}}", "obj")),
        )

    def arithmetic(self, scope: Scope) -> Term:
        inner = scope.inner()
        if self.chance() < 0.2:
            first, second = self.term(inner, "set"), self.term(inner, "set")
            return Term(f"({first} {self.pick('-&|')} {second})", "set")
        first, second = self.term(inner, "num"), self.term(inner, "num")
        return Term(f"({first} {self.pick('+-*/%')} {second})", "num")

    def bracket(self, scope: Scope) -> Term:
        """A reference with a reference, a call or a literal in its brackets."""
        base = self.weighted((2, self.input_path), (1, self.data_path))
        key = self.term(scope.inner())
        # OPA 1.14 finds what a template in brackets reads unsafe.
        return Term(f"{base}[{self.input_path() if '$' in key else key}]")

    def template(self, scope: Scope) -> Term:
        if self.v0:
            return self.constant("str")
        inner = scope.inner()
        parts = [self.pick(["", "x", "<", ": "])]
        parts += ["{" + self._hole(inner) + "}" for _ in range(self.pick([1, 1, 2]))]
        return Term('$"' + "".join(parts) + '"', "str")

    def _hole(self, scope: Scope) -> str:
        term = self.term(scope)
        return f"({term})" if term.startswith("{") else term

    def compared(self, scope: Scope) -> Term:
        inner = scope.inner()
        if self.chance() < 0.4 and self.has_in:
            return Term(f"({self.term(inner)} in {self.term(inner)})", "bool")
        operator = self.pick(COMPARISONS[:-1])
        left = self.term(inner)
        right = self.term(inner, _beside(left) if operator == "==" else "any")
        return Term(f"({left} {operator} {right})", "bool")

    def below_term(self, scope: Scope) -> Term:
        """A call or a comprehension that is looked into."""
        inner = scope.inner()
        if self.chance() < 0.5:
            return Term(
                f"split({self.term(inner, 'str')}, {literal(self.key())})[{self.pick('001')}]"
            )
        return Term(f"[{self.leaf(inner)} | true][0]" + self.dotted([self.key()]))

    # Bodies and expressions

    def body(self, scope: Scope, count: int) -> list[str]:
        return [self.expr(scope) for _ in range(count)]

    def expr(self, scope: Scope) -> str:
        if scope.depth > DEEPEST:
            return self.weighted(
                (1, lambda: self.comparison(scope)), (1, lambda: self.truth(scope))
            )
        modern = 1 if self.has_in else 0
        return self.weighted(
            (2, lambda: self.truth(scope)),
            (3, lambda: self.comparison(scope)),
            (2.5, lambda: self.negation(scope)),
            (3, lambda: self.assignment(scope)),
            (1.2, lambda: self.iteration(scope)),
            (2 * modern, lambda: self.some_in(scope)),
            (1 * modern, lambda: self.every(scope)),
            (1.2 * modern, lambda: self.membership(scope)),
            (1.5, lambda: self.predicate(scope)),
            (0.7, lambda: self.output(scope)),
            (0.8, lambda: self.pattern(scope)),
            (1.5, lambda: self.with_(scope)),
            (0.2, lambda: self.walk(scope)),
            (0.7 if self.rules else 0, lambda: self.replaced_folder(scope)),
            (0.3, lambda: self.backwards(scope)),
            (1.5 if self.logical else 0, lambda: self.logic(scope)),
        )

    def truth(self, scope: Scope) -> str:
        return self.weighted(
            (3, lambda: self.leaf(scope)),
            (1, lambda: self.function(scope)),
            (0.5, lambda: self.bracket(scope)),
        )

    def comparison(self, scope: Scope) -> str:
        inner, operator = scope.inner(), self.pick(COMPARISONS)
        left = self.leaf(scope) if self.chance() < 0.6 else self.term(inner)
        wanted = _beside(left) if operator in ("==", "=") else "any"
        right = self.constant(wanted) if self.chance() < 0.5 else self.term(inner, wanted)
        if self.chance() < 0.1:
            left, right = right, left
        return f"{left} {operator} {right}"

    def negation(self, scope: Scope) -> str:
        inner = scope.inner()
        expr = self.weighted(
            (2, lambda: self.truth(inner)),
            (3, lambda: self.comparison(inner)),
            (2, lambda: self.predicate(inner)),
            (1.5 if self.has_in else 0, lambda: self.membership(inner)),
            (1, lambda: self.term(inner)),
            (0.5, lambda: self.arithmetic(inner)),
        )
        if expr.startswith("{"):
            expr = f"[{self.term(inner)}] == {self.term(inner, 'arr')}"
        return f"not {expr}" + (self.modifiers(scope) if self.chance() < 0.12 else "")

    def assignment(self, scope: Scope) -> str:
        value = self.term(scope.inner())
        name = self.fresh(scope)
        scope.known[name] = value.kind
        return f"{name} {self.pick([':=', ':=', ':=', '='])} {value}"

    def iteration(self, scope: Scope) -> str:
        walked = self.collection(scope)
        value = self.fresh(scope)
        if self.chance() < 0.4:
            scope.known[value] = "any"
            return f"{value} := {walked}[_]"
        index = self.fresh(scope, value)
        declared = f"some {index}; " if self.chance() < 0.5 else ""
        scope.known[index] = "any"
        if self.chance() < 0.5:
            return f"{declared}{walked}[{index}]"
        scope.known[value] = "any"
        return f"{declared}{value} {self.pick([':=', '='])} {walked}[{index}]"

    def collection(self, scope: Scope) -> str:
        """Something that may well be walked."""
        return self.weighted(
            (3, self.input_path),
            (1, self.data_path),
            (1.5, lambda: self._walked_rule(scope)),
            (0.3, lambda: "input"),
        )

    def _walked_rule(self, scope: Scope) -> str:
        rules = [rule for rule in self.rules if rule.kind in ("set", "object")]
        if not rules:
            return self.input_path()
        rule = self.pick(rules)
        if rule.kind == "object" and self.chance() < 0.2:
            return f"{self.named(rule)}[_]"
        if self.chance() < 0.1 and rule.package != self.package:
            return rule.path.rpartition(".")[0]
        return self.named(rule)

    def some_in(self, scope: Scope) -> str:
        walked = self.weighted(
            (3, lambda: self.collection(scope)),
            (1, lambda: self.pick(["[1, 2]", '{"a", "b"}', '{"a": 1, "b": 2}', "[1, [2]]"])),
            (0.3, lambda: self.composite(scope)),
        )
        value = self.fresh(scope)
        other = self.fresh(scope, value)
        shape = self.random.randrange(10)
        scope.known[value] = "any"
        if shape < 5:
            return f"some {value} in {walked}"
        scope.known[other] = "any"
        if shape < 8:
            return f"some {other}, {value} in {walked}"
        pattern = self.pick([f"[{value}, {other}]", f'{{"a": {value}, "k": {other}}}'])
        return f"some {pattern} in {self.input_path()}"

    def every(self, scope: Scope) -> str:
        walked = self.collection(scope) if self.chance() < 0.8 else self.term(scope.inner(), "coll")
        inner = scope.inner()
        value = self.fresh(inner)
        inner.known[value] = "any"
        uses = [f"{value} {self.pick(COMPARISONS[:-1])} {self.term(inner)}"]
        names = value
        if self.chance() < 0.3:
            key = self.fresh(inner)
            inner.known[key] = "any"
            names = f"{key}, {value}"
            uses.append(f"{key} {self.pick(['!=', '==', 'in'])} {self.input_path()}")
        body = self.body(inner, self.pick([0, 0, 1])) + uses
        self.random.shuffle(body)
        return f"every {names} in {walked} {{ {'; '.join(body)} }}"

    def membership(self, scope: Scope) -> str:
        inner = scope.inner()
        item = self.constant() if self.chance() < 0.4 else self.term(inner)
        domain = self.collection(scope) if self.chance() < 0.6 else self.term(inner, "coll")
        if item.startswith("-"):
            item = Term(f"({item})")
        if self.chance() < 0.2:
            item = Term(f"{literal(self.key())}, {item}")
        return f"{item} in {domain}"

    def predicate(self, scope: Scope) -> str:
        if self.chance() < 0.3:
            return self.call(scope, "bool")
        inner = scope.inner()
        text = literal(self.key()) if self.chance() < 0.5 else self.term(inner, "str")
        subject = self.input_path() if self.chance() < 0.5 else self.term(inner, "str")
        return f"{self.pick(['startswith', 'endswith', 'contains'])}({subject}, {text})"

    def output(self, scope: Scope) -> str:
        """A call whose last operand takes its result."""
        inner = scope.inner()
        call = self.function(inner) if self.chance() < 0.4 else self.call(inner)
        if not call.endswith(")") or call.endswith("()") or call.startswith(("(", "[", "{")):
            return f"{call} == {self.term(inner, _beside(call))}"
        if self.chance() < 0.3:
            return f"{call[:-1]}, {self.constant(call.kind)})"
        name = self.fresh(scope)
        scope.known[name] = call.kind
        return f"{call[:-1]}, {name})"

    def pattern(self, scope: Scope) -> str:
        """Equations that take values apart."""
        inner = scope.inner()
        first = self.fresh(scope)
        second = self.fresh(scope, first)
        operator = self.pick([":=", "="])
        shape = self.random.randrange(7)
        one, two = self.constant(), self.constant()
        value = self.leaf(inner, "arr" if shape in (0, 2) else "obj")
        known = value.kind == "any"
        scope.known[first] = "any"
        match shape:
            case 0:
                source = value if known else f"[{self.term(inner)}, {one}]"
                return f"[{first}, {one}] = {source}"
            case 1:
                return f'{{"a": {first}}} {operator} ' + (value if known else f'{{"a": {two}}}')
            case 2:
                scope.known[second] = "any"
                return f"[{first}, {second}] {operator} " + (value if known else f"[{one}, {two}]")
            case 3:
                scope.known[second] = "any"
                return f"[{first}, {second}] = [{second}, {one}]"
            case 4:
                key = f"lower({literal(self.pick('AB'))})"
                return f'{{{key}: {one}, "b": {first}}} = {{"a": {one}, "b": {two}}}'
            case 5:
                return f"[{first}, [{one}]] = [{self.term(inner)}, [{one}]]"
            case _:
                call = self.call(inner, "arr")
                return f"[{first}, _] {operator} {call}"

    def backwards(self, scope: Scope) -> str:
        """A variable used before the expression that binds it."""
        name = self.fresh(scope)
        value = self.term(scope.inner())
        inner = scope.inner()
        inner.known[name] = value.kind
        use = self.weighted(
            (1, lambda: self.comparison(inner)),
            (1, lambda: self.predicate(inner)),
            (1, lambda: self.truth(inner)),
            (1, lambda: self.negation(inner)),
        )
        scope.known[name] = value.kind
        return f"{use}; {name} = {value}"

    def walk(self, scope: Scope) -> str:
        path = self.fresh(scope)
        value = self.fresh(scope, path)
        walked = self.collection(scope)
        scope.known |= {path: "arr", value: "any"}
        return f"walk({walked}, [{path}, {value}])"

    def with_(self, scope: Scope) -> str:
        inner = scope.inner()
        modifiers = self.modifiers(scope)
        if self.chance() < 0.5:
            value = self.weighted(
                (3, lambda: self.rule(inner)),
                (2, lambda: self.function(inner)),
                (1, lambda: self.term(inner)),
                (1, lambda: self.call(inner)),
            )
            name = self.fresh(scope)
            scope.known[name] = value.kind
            return f"{name} := {value}{modifiers}"
        expr = self.weighted(
            (2, lambda: self.truth(inner)),
            (1, lambda: self.comparison(inner)),
            (1, lambda: self.predicate(inner)),
            (1 if self.has_in else 0, lambda: self.membership(inner)),
        )
        return f"{expr}{modifiers}"

    def modifiers(self, scope: Scope) -> str:
        return "".join(self.modifier(scope) for _ in range(self.pick([1, 1, 1, 2])))

    def modifier(self, scope: Scope) -> str:
        value = str(self.constant() if self.chance() < 0.5 else self.term(scope.inner()))
        if self.chance() < 0.3:
            value = "{" + f"{literal(self.key())}: {value}" + "}"
        replaced = 1 if self.rules else 0
        mocked = self.pick(["count", "lower", "upper", "to_number", "startswith"])
        return self.weighted(
            (1, lambda: f" with input as {value}"),
            (2, lambda: f" with {self.target('input')} as {value}"),
            (1, lambda: f" with {self.target('data')} as {value}"),
            (0.3, lambda: f" with data.{'.'.join(self.base)} as {value}"),
            (0.4, lambda: f" with {mocked} as {value}"),
            (2 * replaced, lambda: self._replaced_rule(value)),
            (0.8 * replaced, lambda: self._replaced_package(value)),
        )

    def _replaced_rule(self, value: str) -> str:
        rule = self.pick(self.rules)
        if rule.arity:
            same = [r for r in self.rules if r.arity == rule.arity and r is not rule]
            if same and self.chance() < 0.4:
                value = self.pick(same).path
            elif rule.arity == 1 and self.chance() < 0.2:
                value = self.pick(["lower", "count", "to_number"])
        return f" with {rule.path} as {value}"

    def _replaced_package(self, value: str) -> str:
        packages = [path for path in self.packages if path != self.package[: len(path)]]
        if not packages:
            return f" with input as {value}"
        path = self.pick(packages)
        if len(path) > 1 and self.chance() < 0.3 and path[:1] != self.package[:1]:
            path = path[:1]
        return f" with data.{'.'.join(path)} as {value}"

    def replaced_folder(self, scope: Scope) -> str:
        """A package or a folder of base data read where it, or what holds it, is replaced."""
        rules = [r for r in self.rules if r.package[:1] != self.package[:1] and r.arity == 0]
        rule = self.pick(rules) if rules else None
        path = rule.package if rule is not None else self.base
        prefix = path[: self.random.randrange(len(path)) + 1]
        key = rule.name if rule is not None and self.chance() < 0.5 else self.key()
        value = self.weighted(
            (1, self.constant), (2, lambda: f"{{{literal(key)}: {self.constant()}}}")
        )
        whole, target = "data." + ".".join(path), "data." + ".".join(prefix)
        inside = rule.path if rule is not None else whole + self.dotted([key])
        name = self.fresh(scope)
        scope.known[name] = "unknown"
        return f"{name} := {self.pick([whole, target, inside])} with {target} as {value}"

    def logic(self, scope: Scope) -> str:
        """`and`, `or` and `not { … }`."""
        inner = scope.inner()

        def block() -> str:
            return "{ " + "; ".join(self.body(inner.inner(), self.pick([1, 2]))) + " }"

        def group() -> str:
            return f"{operand()} {self.pick(['and', 'or'])} {operand()}"

        def operand() -> str:
            if self.chance() < 0.4:
                return block()
            if self.chance() < 0.15:
                return f"({group()})"
            expr = self.weighted(
                (1, lambda: self.comparison(inner)),
                (1, lambda: self.truth(inner)),
                (1, lambda: self.predicate(inner)),
                (1, lambda: self.membership(inner)),
            )
            if expr.startswith("{"):
                expr = f"({expr})"
            return f"not {expr}" if self.chance() < 0.2 else str(expr)

        if self.chance() < 0.3:
            return f"not {block()}"
        return f"not ({group()})" if self.chance() < 0.1 else group()


def _beside(term: Term) -> str:
    """What may stand on the other side of an equation; the types inside composites may differ."""
    return term.kind if term.kind in ("any", "num", "str", "bool", "null") else "unknown"


_SPECIAL: Final[dict[str, Sequence[str]]] = {
    "small": ("0", "1", "2", "3", "-1", "input.a"),
    "base": ("2", "10", "16"),
    "texts": ("[@s, @s]", "[@s]", '["a", "b"]', "@a"),
    "values": ("[@a, @a]", "[@a]"),
    "format": ('"%v/%v"@', '"%s-%d"@', '"%v"@'),
    "numbers": ("[@n, @n]", "[1, 2]", "{1, 2}"),
    "keys": ('["a"]', '["a", "b"]', '{"a"}', '["k", "a"]', "[@s]"),
    "key": ('"a"', '"b"', '"k"', "@s", "1"),
    "pattern": ('"^a"', '"[ab]+"', '"b$"', '"a|/x"', '"."'),
    "glob": ('"a*"', '"{a,b}"', '"*"', '"a.*"', '"[a-b]"', '"**"'),
    "delimiters": ("[]", "null", '["/"]', '["."]'),
    "sets": ("{{1}, {2}}", '{{"a"}}', "{set(), {1}}"),
}
"""Operands that are of one form."""
