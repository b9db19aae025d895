"""Questions of an editor, answered from the texts of policies. No protocol, no file is known here.

Places are offsets in characters, as in `Span`. A text that cannot be parsed any more is answered by
the last tree that it had, so that names are found while somebody types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from doorward.rego import (
    REGISTRY,
    CompileError,
    Diagnostic,
    ParseError,
    RegoError,
    Source,
    Span,
)
from doorward.rego.analysis.passes import Options, check
from doorward.rego.analysis.tree import path_text
from doorward.rego.builtins.signature import signature_text
from doorward.rego.syntax.cursor import KEYWORDS, V1_KEYWORDS
from doorward.rego.syntax.format import format_source
from doorward.rego.syntax.nodes import Module, Ref, Rule, Scalar, Var
from doorward.rego.syntax.parser import parse_module
from doorward.rego.syntax.walk import walk
from doorward.rego.values import operand_text

__all__ = ["Completion", "Policies"]

MAX_ERRORS: Final = 100

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_BEFORE: Final = re.compile(r"(?<![A-Za-z0-9_.])[A-Za-z0-9_.]*+\Z")


class Completion(NamedTuple):
    """One way to go on: `kind` is builtin, keyword, rule or document."""

    text: str
    kind: str
    detail: str = ""


class Policies:
    """The policies of an editor's workspace, by file name."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.trees: dict[str, Module] = {}
        self._broken: dict[str, list[Diagnostic]] = {}

    def put(self, name: str, text: str) -> None:
        """A new or changed text."""
        self.texts[name] = text
        try:
            self.trees[name] = parse_module(Source(name, text), builtins=REGISTRY)
            self._broken.pop(name, None)
        except ParseError as error:
            self._broken[name] = list(error.diagnostics)

    def remove(self, name: str) -> None:
        """A text that is gone."""
        self.texts.pop(name, None)
        self.trees.pop(name, None)
        self._broken.pop(name, None)

    # What is wrong

    def diagnostics(self) -> dict[str, list[Diagnostic]]:
        """What is wrong in each file; [] for those in order.

        While one cannot be parsed the others are not checked: they would miss its rules.
        """
        found: dict[str, list[Diagnostic]] = {name: [] for name in self.texts}
        if self._broken:
            return found | self._broken
        try:
            check(list(self.trees.values()), REGISTRY, Options(max_errors=MAX_ERRORS))
        except CompileError as error:
            for diagnostic in error.diagnostics:
                found.setdefault(diagnostic.span.file, []).append(diagnostic)
        return {name: each for name, each in found.items() if name in self.texts}

    # What a name means

    def name_at(self, file: str, offset: int, *, whole: bool = False) -> str:
        """The dotted name around a place, up to the part that it stands in, or the whole."""
        for match in _NAME.finditer(self.texts.get(file, "")):
            if match.start() <= offset <= match.end():
                end = match[0].find(".", offset - match.start())
                return match[0] if whole or end < 0 else match[0][:end]
        return ""

    def hover(self, file: str, offset: int) -> str:
        """Markdown on the built-in or rule at a place; "" where there is nothing to say."""
        name = self.name_at(file, offset)
        builtin = REGISTRY.get(self.name_at(file, offset, whole=True))
        rules = list(self._rules(file, name))
        if rules:
            heads = "\n".join([rule.head.span.text or name for rule in rules])
            return f"```rego\n{heads}\n```\n{self._comment(rules[0])}".rstrip()
        if builtin is not None:
            return f"```rego\n{builtin.name}{signature_text(builtin.signature)}\n```\n{builtin.doc}"
        return ""

    def definition(self, file: str, offset: int) -> list[Span]:
        """Where the rule, import or variable at a place is defined."""
        name = self.name_at(file, offset)
        rules = [rule.head.ref.head.span for rule in self._rules(file, name)]
        if rules:
            return rules
        tree = self.trees.get(file)
        if tree is None or not name:
            return []
        first = name.partition(".")[0]
        imported = [f.span for f in tree.imports if _alias(f.alias, f.path) == first]
        return imported or list(self._local(tree, first, offset))

    def completions(self, file: str, offset: int) -> list[Completion]:
        """What can stand at a place, by what of it is written already."""
        before = _BEFORE.search(self.texts.get(file, "")[:offset])
        written = before[0] if before is not None else ""
        found = [
            Completion(builtin.name, "builtin", signature_text(builtin.signature))
            for builtin in REGISTRY
            if not builtin.name.startswith("internal.") and not builtin.infix
        ]
        if "." not in written:
            found += [Completion(word, "keyword") for word in sorted(KEYWORDS | V1_KEYWORDS)]
            found += [Completion(word, "document") for word in ("data", "input")]
        found += [Completion(name, "rule", detail) for name, detail in self._names(file)]
        matching = [each for each in found if each.text.startswith(written)]
        return sorted(dict.fromkeys(matching), key=lambda each: each.text)

    def formatted(self, file: str) -> str | None:
        """The text in its canonical layout; None where it cannot be parsed."""
        try:
            return format_source(Source(file, self.texts[file]))
        except RegoError:
            return None

    # Names

    def _names(self, file: str) -> Iterator[tuple[str, str]]:
        """Rules as they can be called in `file`: by name, by import, by path."""
        own = self.trees.get(file)
        for tree in self.trees.values():
            package = path_text(tree.package.path)
            for rule in tree.rules:
                name = rule.head.ref.head.span.text
                yield f"{package}.{name}", ""
                if own is None:
                    continue
                if tree.package.path == own.package.path:
                    yield name, package
                for found in own.imports:
                    if _path(found.path) == package:
                        yield f"{_alias(found.alias, found.path)}.{name}", package

    def _rules(self, file: str, name: str) -> Iterator[Rule]:
        """The rules that a name, as written in `file`, stands for."""
        tree = self.trees.get(file)
        if tree is None or not name:
            return
        path = self._full(tree, name)
        for other in self.trees.values():
            package = path_text(other.package.path)
            for rule in other.rules:
                full = f"{package}.{_rule_name(rule)}"
                if path == full or path.startswith(f"{full}."):
                    yield rule

    def _full(self, tree: Module, name: str) -> str:
        first, dot, rest = name.partition(".")
        if first in ("data", "input"):
            return name
        for found in tree.imports:
            if _alias(found.alias, found.path) == first:
                return f"{_path(found.path)}{dot}{rest}"
        return f"{path_text(tree.package.path)}.{name}"

    def _local(self, tree: Module, name: str, offset: int) -> Iterator[Span]:
        """Where a variable of the rule around `offset` stands first."""
        for rule in tree.rules:
            if not rule.span.start <= offset <= rule.span.end:
                continue
            uses = [n.span for n in walk(rule) if isinstance(n, Var) and n.name == name]
            own = rule.head.ref.head.span
            uses = [span for span in uses if span.start != own.start]
            if uses:
                yield min(uses, key=lambda span: span.start)

    def _comment(self, rule: Rule) -> str:
        """The comment right above a rule."""
        lines = rule.span.source.text.split("\n")[: rule.span.row - 1]
        said: list[str] = []
        while lines and lines[-1].startswith("#"):
            said.insert(0, lines.pop().lstrip("#").strip())
        return "\n".join(said)


def _rule_name(rule: Rule) -> str:
    name = rule.head.ref.head.span.text
    for arg in rule.head.ref.args:
        if not (isinstance(arg, Scalar) and isinstance(arg.value, str)):
            break
        name += operand_text(arg.value)
    return name


def _path(path: Ref | Var) -> str:
    if isinstance(path, Var):
        return path.name
    head = path.head.name if isinstance(path.head, Var) else ""
    return head + "".join([operand_text(arg.value) for arg in path.args if isinstance(arg, Scalar)])


def _alias(alias: str | None, path: Ref | Var) -> str:
    if alias is not None:
        return alias
    last = path.args[-1] if isinstance(path, Ref) else path
    return str(last.value) if isinstance(last, Scalar) else _path(path)
