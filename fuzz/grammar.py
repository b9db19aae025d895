"""Random programs of the whole language, with the data and inputs that they read.

A program is text from the start: what shrinks it cuts text. Names, keys and constants come from
small pools, chosen again for each program, so that one rule reads what another one writes, and so
that keys are often what other keys look like when they are joined (`a.b` beside `a` and `b`).
Rules only read rules before them: programs are rarely recursive.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from fuzz.pools import (
    CONSTANTS,
    MISSING,
    NAMES,
    ODD_NAMES,
    Program,
    Term,
    literal,
    put,
)
from fuzz.terms import Known, Scope, Terms

__all__ = ["generate"]

PACKAGES: Final[tuple[tuple[tuple[str, ...], ...], ...]] = (
    (("t",),),
    (("t",),),
    (("lib",), ("t",)),
    (("app", "lib"), ("app",)),
    (("app", "lib"), ("app", "lib", "deep"), ("t",)),
    (("t", "sub"), ("t",)),
    (("pol", "a"), ("pol", "b"), ("t",)),
)
IMPORTED: Final = "import future.keywords.{}"


def generate(seed: int | str) -> Program:
    """The program of a seed."""
    return _Grammar(Random(seed)).program()


class _Grammar(Terms):
    """Writes rules, modules and documents."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.packages = list(self.pick(PACKAGES))
        names = [key for key in self.keys if re.fullmatch(r"[a-z]\w*", key, re.ASCII)]
        if self.odd and names and self.chance() < 0.3:
            self.packages = [
                path if path == ("t",) else (*path, self.pick(names)) for path in self.packages
            ]
        self.base = self.pick([("base",), ("base", "sub"), (*self.packages[0], "base")])

    # Rules

    def rule_group(self) -> list[str]:
        """All definitions of one name."""
        names = [name for name in NAMES if not self._is_taken(name)]
        if self.odd and self.chance() < 0.15:
            names = [name for name in ODD_NAMES if not self._is_taken(name)] or names
        if not names:
            return []
        name = self.pick(names)
        group: list[str] = self.weighted(
            (4, lambda: self._complete(name)),
            (2, lambda: self._function(name)),
            (2, lambda: self._set(name)),
            (2.5, lambda: self._object(name)),
            (0.8, lambda: self._bare(name)),
            (0.5, lambda: self._alias(name)),
            (0.7, lambda: self._table(name)),
            (0.6, lambda: self._members(name)),
            (0.1, lambda: self._deep(name)),
        )
        return group

    def _is_taken(self, name: str) -> bool:
        if any(rule.package == self.package and rule.name == name for rule in self.rules):
            return True
        return any(path[:-1] == self.package and path[-1] == name for path in self.packages)

    def _know(self, name: str, kind: str, values: Sequence[str] = (), arity: int = 0) -> None:
        value = values[0] if len(set(values)) == 1 else "unknown" if values else "any"
        self.rules.append(Known(self.package, name, kind, arity, value))

    @property
    def _is_old(self) -> bool:
        return self.v0 and not self.future

    def _write(self, head: str, body: Sequence[str], *, value: str = "", member: str = "") -> str:
        """One definition; `member` is what a set gets."""
        lines = "{\n\t" + "\n\t".join(body) + "\n}"
        if self._is_old:
            head += f"[{member}]" if member else ""
            head += f" = {value}" if value else ""
            return f"{head} {lines}" if body else head
        head += f" contains {member}" if member else ""
        head += f" := {value}" if value else ""
        return f"{head} if {lines}" if body else head

    def _else(self, scope: Scope) -> tuple[str, str]:
        """An `else` branch, and the kind of its value."""
        inner = scope.inner()
        inner.depth = 0
        body = "{\n\t" + "\n\t".join(self.body(inner, self.pick([1, 1, 2]))) + "\n}"
        value = self._value_of(inner)
        word = f" else = {value} " if self._is_old else f" else := {value} if "
        return word + body, value.kind

    def _value_of(self, scope: Scope) -> Term:
        """The value of a head behind a body with this scope."""
        if scope.known and self.chance() < 0.4:
            name = self.pick(list(scope.known))
            return Term(name, scope.known[name])
        return self.constant() if self.chance() < 0.5 else self.term(Scope(dict(scope.known), 1))

    def _complete(self, name: str) -> list[str]:
        texts: list[str] = []
        kinds: list[str] = []
        count = self.pick([1, 1, 1, 2, 2, 3])
        same = self.constant() if count > 1 and self.chance() < 0.6 else None
        for _ in range(count):
            scope = Scope()
            body = self.body(scope, self.pick([1, 1, 2, 2, 3, 4]))
            value = same or self._value_of(scope)
            if count == 1 and self.chance() < 0.15:
                body, value = [], self.term(Scope())
            elif count == 1 and self.chance() < 0.3:
                value = Term("", "bool")
            kinds.append(value.kind)
            text = self._write(name, body, value=value)
            for _ in range(self.pick([0, 0, 0, 1, 2]) if body else 0):
                branch, kind = self._else(Scope())
                text, kinds = text + branch, [*kinds, kind]
            texts.append(text)
        if self.chance() < 0.3:
            value = self.constant()
            kinds.append(value.kind)
            default = f"default {name} {'=' if self._is_old else ':='} {value}"
            texts.insert(self.random.randrange(len(texts) + 1), default)
        self._know(name, "complete", kinds)
        return texts

    def _bare(self, name: str) -> list[str]:
        """Functions without parameters, which are rules."""
        texts, kinds = [], []
        for _ in range(self.pick([1, 1, 2])):
            scope = Scope()
            body = self.body(scope, self.pick([0, 1, 2]) if not self.v0 else 1)
            value = self._value_of(scope) if self.chance() < 0.7 or not body else Term("", "bool")
            kinds.append(value.kind)
            shown = name if self.chance() < 0.15 else f"{name}()"
            texts.append(self._write(shown, body, value=value))
        self._know(name, "bare", kinds)
        return texts

    def _alias(self, name: str) -> list[str]:
        path = self.weighted((3, self.input_path), (1, self.data_path))
        self._know(name, "alias")
        return [f"{name} {'=' if self._is_old else ':='} {path}"]

    def _function(self, name: str) -> list[str]:
        arity = self.pick([1, 1, 1, 2])
        texts, kinds = [], []
        same = self.constant() if self.chance() < 0.5 else None
        for _ in range(self.pick([1, 1, 2, 3])):
            scope = Scope()
            parameters = [self._parameter(scope) for _ in range(arity)]
            plain = [name for name in parameters if name in scope.known]
            body = self.body(scope, self.pick([0, 1, 1, 2, 3]))
            value = same or self._value_of(scope)
            if body and same is None and self.chance() < 0.2:
                value = Term("", "bool")
            kinds.append(value.kind)
            text = self._write(f"{name}({', '.join(parameters)})", body, value=value)
            if body and self.chance() < 0.25:
                branch, kind = self._else(Scope(dict.fromkeys(plain, "any")))
                text, kinds = text + branch, [*kinds, kind]
            texts.append(text)
        if self.chance() < 0.2 and not self.v0:
            value = self.constant()
            kinds.append(value.kind)
            texts.append(f"default {name}({', '.join('xyz'[:arity])}) := {value}")
        self._know(name, "function", kinds, arity)
        return texts

    def _parameter(self, scope: Scope) -> str:
        if self.chance() < 0.12:
            return self.constant()
        if self.chance() < 0.08:
            return "_"
        name = self.fresh(scope)
        scope.known[name] = "any"
        if self.chance() < 0.12:
            return self.pick([f"[{name}, _]", f'{{"a": {name}}}', f"[{name}]"])
        return name

    def _set(self, name: str) -> list[str]:
        texts = []
        for _ in range(self.pick([1, 1, 2, 3])):
            scope = Scope()
            body = self.body(scope, self.pick([1, 1, 2, 3]))
            texts.append(self._write(name, body, member=self._value_of(scope)))
        self._know(name, "set", ["set"])
        return texts

    def _object(self, name: str) -> list[str]:
        shape = self.random.randrange(8)
        texts = []
        clashes = self.chance() < 0.2
        for _ in range(self.pick([2, 3, 4]) if clashes else self.pick([1, 1, 2, 3])):
            scope = Scope()
            body = ["true"] if clashes else self.body(scope, self.pick([1, 2, 2, 3]))
            # Keys with several values: a conflict for those who read them, and for nobody else.
            key = literal(self.key()) if clashes else self._head_key(scope)
            if clashes and self.chance() < 0.5:
                key, body = "x", [f"x := {self.input_path()}[_]"]
            value = self.constant() if clashes else self._value_of(scope)
            ground = self.dotted([self.key()])
            if shape == 7 and not self.v0:
                texts.append(self._write(f"{name}[{key}]", body, member=value))
                continue
            head = f"{name}[{key}]"
            if not self.v0:
                match shape:
                    case 3:
                        head += ground
                    case 4:
                        head = f"{name}{ground}[{key}]"
                    case 5:
                        head = head if self.chance() < 0.5 else name + ground
                    case 6:
                        head += f"[{self._head_key(scope)}]"
            texts.append(self._write(head, body, value=value))
        self._know(name, "object", ["obj"])
        return texts

    def _head_key(self, scope: Scope) -> str:
        if scope.known and self.chance() < 0.6:
            return self.pick(list(scope.known))
        if self.chance() < 0.5:
            return literal(self.key())
        return self.term(Scope(dict(scope.known), 2))

    def _table(self, name: str) -> list[str]:
        """So many definitions that the engine looks for the right ones in a table."""
        kind = self.pick(["complete", "set", "function", "object"])
        path = self.pick(self.shared)
        read = "input" + self.dotted(path)
        self.read["input"] += [path, path]
        values = self.random.sample(CONSTANTS, 6)
        self.constants += values
        same = self.constant()
        texts = []
        for _ in range(self.random.randrange(7, 12)):
            scope = Scope()
            constant, other = (literal(self.pick(values)) for _ in range(2))
            if kind == "function" and self.chance() < 0.6:
                head, body = f"{name}({constant})", self.body(scope, self.pick([0, 0, 1]))
                texts.append(self._write(head, body, value=same))
                continue
            read_here = "x" if kind == "function" else read
            scope.known |= {"x": "any"} if kind == "function" else {}
            test = self._test(read_here, constant, other, scope)
            body = [test, *self.body(scope, self.pick([0, 0, 1]))]
            self.random.shuffle(body)
            match kind:
                case "set":
                    texts.append(self._write(name, body, member=self._value_of(scope)))
                case "object":
                    texts.append(self._write(f"{name}[{self.constant()}]", body, value=constant))
                case "function":
                    texts.append(self._write(f"{name}(x)", body, value=same))
                case _:
                    texts.append(self._write(name, body, value=same))
        if kind in ("complete", "function") and self.chance() < 0.3 and not self.v0:
            texts.append(
                f"default {name}{'(_)' if kind == 'function' else ''} := {self.constant()}"
            )
        shown = {"set": "set", "object": "obj"}.get(kind, "any")
        self._know(name, kind, [shown], 1 if kind == "function" else 0)
        return texts

    def _test(self, read: str, constant: str, other: str, scope: Scope) -> str:
        modern = 1 if self.has_in else 0
        return str(
            self.weighted(
                (3, lambda: f"{read} == {constant}"),
                (1, lambda: f"{constant} == {read}"),
                (1, lambda: f"{read} = {constant}"),
                (modern, lambda: f"{read} in {{{constant}, {other}}}"),
                (modern, lambda: f"{read} in [{constant}, {other}]"),
                (1, lambda: f"not {read} == {constant}"),
                (0.5, lambda: f"some x in {read}; x == {constant}" if modern else read),
                (1, lambda: self.expr(scope)),
            )
        )

    def _members(self, name: str) -> list[str]:
        """Many questions about one object, which the engine reads once."""
        path = self.pick(self.shared)
        base = "input" + self.dotted(path)
        texts = []
        for _ in range(self.random.randrange(2, 5)):
            scope = Scope()
            body = [self._question(base, path, scope) for _ in range(self.random.randrange(1, 4))]
            texts.append(self._write(name, body, member=self._value_of(scope)))
        self._know(name, "set", ["set"])
        return texts

    def _question(self, base: str, path: tuple[Any, ...], scope: Scope) -> str:
        key = self.key()
        self.read["input"].append((*path, key))
        member = base + self.dotted([key])
        text = literal(self.key())
        return str(
            self.weighted(
                (1, lambda: member),
                (1, lambda: f"not {member}"),
                (2, lambda: f"{member} == {self.constant()}"),
                (1, lambda: f"{member} != {self.constant()}"),
                (1, lambda: f"not {member} == {self.constant()}"),
                (1, lambda: f"startswith({member}, {text})"),
                (1, lambda: f"not startswith({member}, {text})"),
                (1, lambda: f"count({member}) > 0"),
                (1, lambda: f"{member}[_] == {self.constant()}"),
                (1, lambda: self.expr(scope)),
            )
        )

    def _deep(self, name: str) -> list[str]:
        """More walks inside each other than one Python function may have."""
        body = []
        for number in range(self.random.randrange(15, 24)):
            walked = "[1, 2]" if number % 6 == 0 else self.pick(["[1]", '["a"]'])
            body.append(f"d{number} := {walked}[_]")
        scope = Scope({"d0": "any", "d1": "any", "d14": "any"})
        body += self.body(scope, 2)
        self._know(name, "complete")
        return [self._write(name, body, value="" if self.chance() < 0.5 else self.constant())]

    # Programs

    def program(self) -> Program:
        texts: dict[str, list[str]] = {}
        for number, package in enumerate(self.packages):
            self.package = package
            count = self.random.randrange(1, 4 if len(self.packages) > 1 else 6)
            rules = [text for _ in range(count) for text in self.rule_group()]
            if self.chance() < 0.2:
                self.random.shuffle(rules)
            if self.chance() < 0.2 and len(rules) > 1:
                cut = self.random.randrange(1, len(rules))
                texts[f"m{number}b.rego"] = [self._header(package), *rules[cut:]]
                rules = rules[:cut]
            texts[f"m{number}.rego"] = [self._header(package), *rules]
        modules = {name: "\n\n".join(parts) + "\n" for name, parts in sorted(texts.items())}
        queries = self._queries()
        inputs = [self._document("input") for _ in range(3)]
        if self.chance() < 0.15:
            inputs[-1] = MISSING
        strict = self.chance() < 0.08
        data = self._document("data")
        if self.chance() < 0.1:
            queries.append(self._all_data())
            data = put(data, ("system", "a"), self._value(1))
            if self.chance() < 0.3:
                modules, queries = {}, queries[-1:]
        return Program(modules, data, inputs, queries, self.v0, strict)

    def _header(self, package: tuple[str, ...]) -> str:
        words: tuple[str, ...] = ()
        if self.future:
            words = ("contains", "every", "if", "in")
        if self.logical:
            words = ("and", "or", "not")
        lines = [f"package {'.'.join(package)}", "", *(IMPORTED.format(word) for word in words)]
        return "\n".join(lines).rstrip()

    def _queries(self) -> list[str]:
        queries = ["data." + ".".join(path) for path in dict.fromkeys(self.packages)]
        self.package, self.logical, self.future = (), False, False
        readable = [rule for rule in self.rules if rule.arity == 0]
        for rule in self.random.sample(readable, min(len(readable), 2)):
            tail = self.dotted([self.key()]) if rule.kind == "object" else ""
            queries.append(rule.path + (tail if self.chance() < 0.7 else ""))
        for _ in range(self.pick([0, 1, 1, 2])):
            queries.append("; ".join(self.body(Scope(), self.pick([1, 1, 2]))))
        return queries

    def _all_data(self) -> str:
        """What is listed of all data, where the server's own documents are hidden."""
        query = self.pick(["data", "{k | data[k]}", "{k: v | v := data[k]}", "{k | data[_][k]}"])
        if self.chance() < 0.5:
            return f"v := {query}"
        target = self.pick(["system", "system.a", "system.b", "base", "base.a"])
        value = self.pick(["1", "{}", '{"b": 2}'])
        return f"v := {query} with data.{target} as {value}"

    # Documents

    def _document(self, root: str) -> Any:
        """A document in which most of what the program reads is there."""
        document: Any = {}
        for path in self.random.sample(self.read[root], len(self.read[root])):
            if self.chance() < 0.8:
                document = put(document, path, self._value(2))
        if root == "data":
            if self.chance() < 0.2:
                document = put(document, (self.packages[-1][0], "only"), self._value(1))
            return document if isinstance(document, dict) else {}
        return self._value(2) if self.chance() < 0.05 else document

    def _value(self, depth: int) -> Any:
        shape = self.random.randrange(10)
        if depth == 0 or shape < 5:
            return self.pick(self.constants) if self.chance() < 0.8 else self.pick(CONSTANTS)
        if shape < 7:
            return [self._value(depth - 1) for _ in range(self.pick([0, 1, 2, 2, 3, 9]))]
        return {self.key(): self._value(depth - 1) for _ in range(self.pick([1, 2, 3]))}
