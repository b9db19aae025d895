"""Questions of an editor, answered from the texts of policies. No protocol and no file is known
here.

Positions are offsets in characters, as in `Span`. Of a text with errors all statements are parsed
except the broken ones; questions about a broken one are answered from its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from doorward.lsp.calls import CallAt, Signature, builtin_signature, call_at
from doorward.lsp.names import Occurrence, Symbol, occurrences, resolve_text, text_of
from doorward.rego import REGISTRY, Diagnostic, Registry, RegoError
from doorward.rego.shared import Fix, Source, Span
from doorward.rego.tools import (
    EOF,
    IDENT,
    KEYWORDS,
    V1_KEYWORDS,
    CheckOptions,
    Lexer,
    Module,
    Parsed,
    Rule,
    Token,
    Var,
    find_errors,
    format_source,
    import_name,
    loose_tokens,
    near_name,
    operand_text,
    parse_with_recovery,
    signature_text,
)

__all__ = ["NEAR_NAME", "Completion", "Policies", "RenameError", "Signature"]

MAX_ERRORS: Final = 1_000
"""The most diagnostics of all files together; further ones are not reported."""
MAX_SYMBOLS: Final = 1_000
"""The most rules that one search in the workspace returns."""

NEAR_NAME: Final = "doorward_near_name"
"""The code of the only diagnostic that is not an error: a path that no rule defines and that is
similar to a defined one.
"""

_DOTTED: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_BEFORE: Final = re.compile(r"(?<![A-Za-z0-9_.])[A-Za-z0-9_.]*+\Z")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_WORDS: Final = KEYWORDS | V1_KEYWORDS


class Completion(NamedTuple):
    """A completion. `kind` is builtin, keyword, rule, document, field or variable; `detail` is a
    signature or package, or "".
    """

    text: str
    kind: str
    detail: str = ""


class RenameError(ValueError):
    """A name cannot be changed, or not to the requested one; the message says why."""


class Policies:
    """The policies of an editor's workspace, by file name, with what was parsed of each. An offset
    that is not in a name, or a file that is not known, gives empty results, except where a method
    says otherwise.
    """

    def __init__(self, registry: Registry = REGISTRY) -> None:
        self.registry = registry
        self.texts: dict[str, str] = {}
        self.parsed: dict[str, Parsed] = {}
        self._occurrences: dict[str, list[Occurrence]] = {}

    def put(self, name: str, text: str) -> None:
        """Add or replace a text and parse it; never raises for invalid Rego."""
        self.texts[name] = text
        self.parsed[name] = parse_with_recovery(Source(name, text), builtins=self.registry)
        # Of all files: the rules of a package decide what a name stands for in each of its files.
        self._occurrences.clear()

    def remove(self, name: str) -> None:
        """Remove a file; does nothing if it is not known."""
        self.texts.pop(name, None)
        self.parsed.pop(name, None)
        self._occurrences.clear()

    # What is wrong

    def diagnostics(self) -> dict[str, list[Diagnostic]]:
        """Return the errors of all policies, checked together, and a finding for each path that is
        similar to that of a rule, by file; [] for a file without any. At most `MAX_ERRORS` in all.
        """
        by_file: dict[str, list[Diagnostic]] = {name: [] for name in self.texts}
        errors = find_errors(self.parsed, self.registry, CheckOptions(max_errors=0))
        for diagnostic in [*errors, *self._near_names()][:MAX_ERRORS]:
            by_file.setdefault(diagnostic.span.file, []).append(diagnostic)
        return {name: each for name, each in by_file.items() if name in self.texts}

    def _near_names(self) -> Iterator[Diagnostic]:
        """Yield a finding, with a fix, for each path below `data` that no rule defines but whose
        last name is similar to a defined one beside it.
        """
        children: dict[tuple[str, ...], dict[str, None]] = {}
        for occurrence in self._all():
            if occurrence.defines and occurrence.symbol.kind == "data":
                path = occurrence.symbol.path
                for n in range(len(path)):
                    children.setdefault(path[:n], {})[path[n]] = None
        for occurrence in self._all():
            symbol, span = occurrence.symbol, occurrence.span
            # `import data` names the root itself, which has no last name.
            is_below_data = symbol.kind == "data" and symbol.path
            siblings = children.get(symbol.path[:-1], {}) if is_below_data else {}
            if not siblings or symbol.path[-1] in siblings:
                continue
            near = near_name(symbol.path[-1], siblings)
            if near is not None:
                message = f"no rule defines data{''.join(map(operand_text, symbol.path))}"
                fix = Fix(*_offsets_of_name(span), near)
                yield Diagnostic(NEAR_NAME, message, span, f"did you mean `{near}`?", fix=fix)

    # What a name stands for

    def symbol_at(self, file: str, offset: int) -> tuple[Symbol, Span] | None:
        """Return the symbol at an offset, and the span of its name there; None if there is none."""
        at = [o for o in self._names(file) if o.span.start <= offset <= o.span.end]
        if at:
            # The shortest, and of two that meet here the later one.
            occurrence = min(at, key=lambda o: (o.span.end - o.span.start, -o.span.start))
            return occurrence.symbol, occurrence.span
        return self._symbol_in_text(file, offset)

    def hover(self, file: str, offset: int) -> str:
        """Return a Markdown description of the built-in or rule at an offset: its signature or
        heads, and its documentation or comment. "" if there is none.
        """
        at = self.symbol_at(file, offset)
        if at is None:
            return ""
        symbol = at[0]
        if symbol.kind == "builtin":
            builtin = self.registry[symbol.path[0]]
            return f"```rego\n{builtin.name}{signature_text(builtin.signature)}\n```\n{builtin.doc}"
        rules = self._rules(symbol)
        if not rules:
            return ""
        heads = "\n".join([rule.head.span.text or text_of(at[1]) for rule in rules])
        return f"```rego\n{heads}\n```\n{_comment(rules[0])}".rstrip()

    def definition(self, file: str, offset: int) -> list[Span]:
        """Return the spans that define the symbol at an offset: those of all rules with its path,
        those of the rule for a field of a rule's value, the first occurrence of a local variable.
        [] if there is none.
        """
        at = self.symbol_at(file, offset)
        if at is None:
            return []
        symbol = at[0]
        if symbol.kind == "local":
            return [min((o.span for o in self._of(symbol)), key=lambda span: span.start)]
        # A key of a rule's value is defined where the rule is.
        for length in range(len(symbol.path), 0, -1):
            outer = Symbol(symbol.kind, symbol.path[:length])
            spans = [o.span for o in self._of(outer) if o.defines]
            if spans:
                return spans
        return []

    def references(self, file: str, offset: int, *, definitions: bool = True) -> list[Span]:
        """Return all occurrences of the symbol at an offset, in all files, with or without those
        that define it. [] if there is no symbol.
        """
        at = self.symbol_at(file, offset)
        if at is None:
            return []
        spans = self._of(at[0])
        return [o.span for o in spans if definitions or not o.defines]

    # Names that change

    def renamable(self, file: str, offset: int) -> Span | None:
        """Return the span, without quotes, of the name at an offset; None if there is none or it
        cannot be renamed.
        """
        at = self.symbol_at(file, offset)
        if at is None or not self._may_rename(at[0]):
            return None
        start, end = _offsets_of_name(at[1])
        return Span(at[1].source, start, end, at[1].row, at[1].col)

    def renamed(self, file: str, offset: int, name: str) -> dict[str, list[Fix]]:
        """Return the edits, by file, that rename the symbol at an offset to `name`. RenameError if
        it cannot be renamed, if `name` is not valid or already has a meaning there, or if a policy
        has errors.
        """
        at = self.symbol_at(file, offset)
        if at is None or not self._may_rename(at[0]):
            raise RenameError("the symbol at this position cannot be renamed")
        if not _NAME.match(name) or name in _WORDS or name in ("data", "input", "_"):
            raise RenameError(
                f"`{name}` is not a valid name in Rego: use letters, digits and `_`, and no keyword"
            )
        symbol = at[0]
        # A use in a broken statement would keep the old name.
        if any(each.errors for each in self.parsed.values()):
            raise RenameError(
                "some policies have errors, so not all uses of the name are known: "
                "fix the errors first"
            )
        places = self._of(symbol)
        self._check_free(symbol, places, name)
        edits: dict[str, list[Fix]] = {}
        for occurrence in places:
            fix = Fix(*_offsets_of_name(occurrence.span), name)
            edits.setdefault(occurrence.span.file, []).append(fix)
        return edits

    def _may_rename(self, symbol: Symbol) -> bool:
        """Return True if a symbol can be renamed: a local variable, an alias, or a rule of these
        policies.
        """
        if symbol.kind in ("local", "alias"):
            return True
        packages = {each.module.package.path for each in self.parsed.values() if each.module}
        return (
            symbol.kind == "data"
            and any(o.defines for o in self._of(symbol))
            and symbol.path not in packages
        )

    def _check_free(self, symbol: Symbol, places: list[Occurrence], name: str) -> None:
        """Raise RenameError if `name` already has a meaning: beside the symbol, or in a file in
        which one of `places` is written without a path.
        """
        if symbol.kind == "data" and self._of(Symbol("data", (*symbol.path[:-1], name))):
            raise RenameError(
                f"`{name}` is already the name of something else: choose another name"
            )
        alone = {o.span.file for o in places if o.whole or symbol.kind in ("local", "alias")}
        for file in alone:
            if any(text_of(o.span) == name for o in self._names(file) if _stands_alone(o)):
                raise RenameError(
                    f"`{name}` is already the name of something else in {file}: choose another name"
                )

    # Completions

    def completions(self, file: str, offset: int) -> list[Completion]:
        """Return the completions for the name that ends at an offset, sorted and without
        duplicates: fields of `input` after `input.`, otherwise built-ins, keywords, rules and
        variables. [] in strings and comments.
        """
        text = self.texts.get(file, "")
        before = _BEFORE.search(text[:offset])
        written = before[0] if before is not None else ""
        if self._is_quoted(file, offset):
            return []
        if written.startswith("input."):
            names = list(self._fields(written, file, offset))
        else:
            names = [
                Completion(builtin.name, "builtin", signature_text(builtin.signature))
                for builtin in self.registry
                if not builtin.name.startswith("internal.") and not builtin.infix
            ]
            if "." not in written:
                names += [Completion(word, "keyword") for word in sorted(_WORDS)]
                names += [Completion(word, "document") for word in ("data", "input")]
                names += [Completion(n, "variable") for n in self._variables(file, offset)]
            names += [Completion(name, "rule", detail) for name, detail in self._reachable(file)]
        matching = [each for each in names if each.text.startswith(written)]
        # Reversed, so that of several with one text the first stays.
        unique = {each.text: each for each in reversed(matching)}
        return sorted(unique.values(), key=lambda each: each.text)

    def signatures(self, file: str, offset: int) -> tuple[list[Signature], int]:
        """Return the signatures of the function whose operands contain the offset, one for each
        definition, and the number of the present operand from 0. [] for an unknown function; [] and
        0 outside of calls.
        """
        call = call_at(self._tokens_before(file, offset))
        if call is None:
            return [], 0
        return self._signatures(file, call), call.operand

    def formatted(self, file: str) -> str | None:
        """Return the formatted text of a file; None if it is not known, or cannot be parsed or
        formatted.
        """
        text = self.texts.get(file)
        if text is None:
            return None
        try:
            return format_source(Source(file, text))
        except RegoError:
            return None

    # Symbols

    def rules(self, file: str) -> list[Rule]:
        """Return the rules of a file that can be parsed, in order; [] for a file without a package
        or one that is not known.
        """
        module = self._module(file)
        return list(module.rules) if module is not None else []

    def package(self, file: str) -> Span | None:
        """Return the span of the package statement of a file; None if there is none."""
        module = self._module(file)
        return module.package.span if module is not None else None

    def search(self, query: str) -> list[tuple[str, Rule]]:
        """Return the rules of all files, with their paths, whose path contains the characters of
        `query` in this order, in any case; at most `MAX_SYMBOLS`.
        """
        pattern = re.compile(".*?".join(map(re.escape, query.lower())))
        matches = []
        for parsed in self.parsed.values():
            module = parsed.module
            if module is None:
                continue
            package = "".join(map(operand_text, module.package.path))
            for rule in module.rules:
                path = f"data{package}.{rule.head.ref.span.text}"
                if pattern.search(path.lower()):
                    matches.append((path, rule))
        return matches[:MAX_SYMBOLS]

    # Names

    def _module(self, file: str) -> Module | None:
        """Return the module of the statements of a file that can be parsed; None without a package
        or if the file is not known.
        """
        parsed = self.parsed.get(file)
        return parsed.module if parsed is not None else None

    def _names(self, file: str) -> list[Occurrence]:
        """Return the names in a file with their symbols, cached until a text changes; [] for a file
        without a package.
        """
        names = self._occurrences.get(file)
        if names is None:
            module = self._module(file)
            names = []
            if module is not None:
                names = occurrences(module, self._exports(module), self.registry)
            self._occurrences[file] = names
        return names

    def _all(self) -> Iterator[Occurrence]:
        for file in self.parsed:
            yield from self._names(file)

    def _of(self, symbol: Symbol) -> list[Occurrence]:
        return [occurrence for occurrence in self._all() if occurrence.symbol == symbol]

    def _exports(self, module: Module) -> set[str]:
        """Return the names of all rules of the module's package, in all files."""
        modules = [each.module for each in self.parsed.values() if each.module is not None]
        heads = [
            rule.head.ref.head
            for each in modules
            if each.package.path == module.package.path
            for rule in each.rules
        ]
        return {head.name for head in heads if isinstance(head, Var)}

    def _symbol_in_text(self, file: str, offset: int) -> tuple[Symbol, Span] | None:
        """Return the symbol that a dotted name up to the part at the offset stands for, and the
        span of this much of the name, in a statement that cannot be parsed. None inside a string or
        a comment, and if there is no name or its meaning is unknown.
        """
        module = self._module(file)
        if module is None or self._is_quoted(file, offset):
            return None
        source = Source(file, self.texts[file])
        start = source.text.rfind("\n", 0, offset) + 1
        end = source.text.find("\n", offset)
        line = source.text[start : end if end >= 0 else len(source.text)]
        for match in _DOTTED.finditer(line):
            if match.start() <= offset - start <= match.end():
                text = match[0]
                cut = text.find(".", offset - start - match.start())
                name = text if cut < 0 else text[:cut]
                span = Lexer(source).span(start + match.start(), start + match.start() + len(name))
                if text in self.registry:
                    return Symbol("builtin", (text,)), span
                symbol = resolve_text(name, module, self._exports(module))
                return None if symbol is None else (symbol, span)
        return None

    def _rules(self, symbol: Symbol) -> list[Rule]:
        """Return the rules with the symbol's path; if there are none, the rules with the longest
        beginning of the path, of whose value the symbol is a field.
        """
        starts = {(o.span.file, o.span.start) for o in self._of(symbol) if o.defines and o.whole}
        length = len(symbol.path)
        while not starts and length > 1:
            length -= 1
            outer = Symbol(symbol.kind, symbol.path[:length])
            starts = {(o.span.file, o.span.start) for o in self._of(outer) if o.defines and o.whole}
        return [
            rule
            for file in self.parsed
            for rule in self.rules(file)
            if (file, rule.head.ref.head.span.start) in starts
        ]

    def _reachable(self, file: str) -> Iterator[tuple[str, str]]:
        """Yield the names by which `file` can refer to the rules of all files: the full path of
        each, and its name alone in the same package or behind an import of its package. Each has a
        detail for the editor: the package, "" for a full path.
        """
        module_of_file = self._module(file)
        imports: dict[tuple[str, ...], str] = {}
        for item in module_of_file.imports if module_of_file is not None else ():
            symbol = (
                resolve_text(import_name(item), module_of_file, ())
                if module_of_file is not None
                else None
            )
            if symbol is not None and symbol.kind == "data":
                imports[symbol.path] = import_name(item)
        for parsed in self.parsed.values():
            module = parsed.module
            if module is None:
                continue
            path = module.package.path
            package = f"data{''.join(map(operand_text, path))}"
            for rule in module.rules:
                name = rule.head.ref.head.span.text
                yield f"{package}.{name}", ""
                if module_of_file is not None and path == module_of_file.package.path:
                    yield name, package
                if path in imports:
                    yield f"{imports[path]}.{name}", package

    def _fields(self, written: str, file: str, offset: int) -> Iterator[Completion]:
        """Yield completions for `written`, which begins with `input.`: the next field of every path
        that some policy reads below it, if that can be written with a dot; some twice.
        """
        *above, _ = written.removeprefix("input.").split(".")
        outer = tuple(above)
        for path in chain(self._read_paths(file, offset), self._input_paths_in_text(file, offset)):
            if path[: len(outer)] == outer and len(path) > len(outer):
                name = path[len(outer)]
                if _NAME.match(name):
                    yield Completion(".".join(("input", *outer, name)), "field")

    def _read_paths(self, file: str, offset: int) -> Iterator[tuple[str, ...]]:
        """Yield the paths below `input` that all files read, except the one that ends at the
        offset, which is being typed.
        """
        for symbol, span, *_ in self._all():
            if symbol.kind == "input" and (span.end != offset or span.file != file):
                yield symbol.path

    def _input_paths_in_text(self, file: str, offset: int) -> Iterator[tuple[str, ...]]:
        """Yield the paths below `input` in the text of a file, which need not be valid, except the
        one that ends at `offset`.
        """
        for match in _DOTTED.finditer(self.texts.get(file, "")):
            first, *rest = match[0].split(".")
            if first == "input" and match.end() != offset:
                yield tuple(rest)

    def _variables(self, file: str, offset: int) -> Iterator[str]:
        """Yield the names in the statement at an offset that are not keywords or fields, except the
        one at the offset.
        """
        tokens = list(self._statement(file, offset))
        for before, token in zip([None, *tokens], tokens, strict=False):
            dotted = before is not None and before.kind == "." and before.end == token.start
            around = token.start < offset <= token.end
            if token.kind == IDENT and not dotted and not around and token.text not in _WORDS:
                yield token.text

    # Text that is being typed

    def _statement(self, file: str, offset: int) -> Iterator[Token]:
        """Yield the tokens of the statement that contains an offset; a statement begins with a
        letter or `_` at the start of a line. At its first character, those of the statement before
        come first.
        """
        text = self.texts.get(file, "")
        start = max((m.start() for m in _LINE.finditer(text, 0, offset)), default=0)
        lexer = Lexer(Source(file, text))
        for token in loose_tokens(lexer, lexer.after(start)):
            at_margin = token.start > offset and text[token.start - 1] == "\n"
            if token.kind == EOF or (at_margin and token.kind == IDENT):
                return
            yield token

    def _tokens_before(self, file: str, offset: int) -> list[Token]:
        """The tokens of the statement that begin before the offset."""
        return [token for token in self._statement(file, offset) if token.start < offset]

    def _is_quoted(self, file: str, offset: int) -> bool:
        """Return True if an offset is inside a string or a comment, as far as its own line tells;
        False inside the braces of a template string.
        """
        line = self.texts.get(file, "")[:offset].rpartition("\n")[2]
        outside = _QUOTED.sub("", line)
        return ('"' in outside or "#" in outside) and not _IN_TEMPLATE.search(outside)

    def _signatures(self, file: str, call: CallAt) -> list[Signature]:
        """Return the signature of the built-in that `call` names, or one for each definition of a
        function that `file` knows by this name; [] for an unknown name.
        """
        builtin = self.registry.get(call.name)
        if builtin is not None:
            return [builtin_signature(builtin)]
        module = self._module(file)
        symbol = resolve_text(call.name, module, self._exports(module)) if module else None
        rules = self._rules(symbol) if symbol is not None else []
        return [
            Signature(
                f"{call.name}({', '.join(arg.span.text for arg in rule.head.args)})",
                tuple([arg.span.text for arg in rule.head.args]),
                _comment(rule),
            )
            for rule in rules
            if rule.head.args is not None
        ]


_LINE: Final = re.compile(r"^[A-Za-z_]", re.MULTILINE)
_IN_TEMPLATE: Final = re.compile(r'\$"[^"]*\{[^}"]*\Z')
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|`[^`]*+`')


def _offsets_of_name(span: Span) -> tuple[int, int]:
    """The start and end offset of a name in the source, without quotes."""
    quoted = span.text[:1] in ('"', "`")
    return span.start + quoted, span.end - quoted


def _stands_alone(occurrence: Occurrence) -> bool:
    return occurrence.whole or occurrence.symbol.kind in ("local", "alias")


def _comment(rule: Rule) -> str:
    """Return the text of the comment lines directly above a rule, which begin in the first column,
    without `#`; "" if there are none.
    """
    lines = rule.span.source.text.split("\n")[: rule.span.row - 1]
    lines_above: list[str] = []
    while lines and lines[-1].startswith("#"):
        lines_above.insert(0, lines.pop().lstrip("#").strip())
    return "\n".join(lines_above)
