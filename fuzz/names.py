"""Programs whose names shadow each other: what one kind of name is called, another one is too.

Names are changed in the text, by its tokens, so that nothing has to be known of what a name is: a
rule, a function, an import, an alias, a parameter, a declared variable, one of a comprehension, a
part of a package. It becomes another name of the program, `input`, `data`, or the first part of a
built-in's name: everywhere, in one statement, or in one place. Imports are added under such names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Final

from doorward.rego import RegoError
from doorward.rego.source import Source
from doorward.rego.syntax.lexer import IDENT, Lexer, loose_tokens
from doorward.rego.syntax.nodes import Module
from doorward.rego.syntax.parser import parse_module
from fuzz.grammar import generate
from fuzz.pools import RESERVED, Program

__all__ = ["generate_shadowed", "shadow"]

GLOBALS: Final = ("input", "data", "input", "data", "count", "lower", "json", "object", "plus")
"""Names that mean something without being declared."""
_KEPT: Final = RESERVED - {"input", "data"} | {"future", "keywords", "rego", "v1"}


def generate_shadowed(seed: str) -> Program:
    """A random program of the grammar, v0 or v1, whose names shadow each other."""
    return shadow(generate(seed), Random(seed))


def shadow(program: Program, random: Random, *, most: int = 3) -> Program:
    """`program` with up to `most` changes of names."""
    for _ in range(random.randrange(1, most + 1)):
        if not program.modules:
            break
        if random.random() < 0.35:
            program = _with_import(program, random)
        else:
            program = _renamed(program, random)
    return program


def _tokens(text: str) -> list[tuple[int, int, str]]:
    """The names in a text with their places."""
    lexer = Lexer(Source("", text))
    try:
        listed = [(t.start, t.end) for t in loose_tokens(lexer, lexer.first()) if t.kind == IDENT]
    except RegoError:
        return []
    return [(start, end, text[start:end]) for start, end in listed]


def _names(program: Program) -> list[str]:
    used = {name for text in program.modules.values() for _, _, name in _tokens(text)}
    return sorted(used - _KEPT)


def _renamed(program: Program, random: Random) -> Program:
    names = _names(program)
    if not names:
        return program
    old = random.choice(names)
    new = random.choice(GLOBALS if random.random() < 0.4 else names)
    file = random.choice(sorted(program.modules))
    how = random.random()
    if how < 0.15:
        # In all files, and in the queries: a package, or a rule that others read.
        modules = {name: _replaced(text, old, new) for name, text in program.modules.items()}
        queries = [_replaced(query, old, new) for query in program.queries]
        return replace(program, modules=modules, queries=queries)
    text = program.modules[file]
    if how < 0.45:
        changed = _replaced(text, old, new)
    else:
        places = [token for token in _tokens(text) if token[2] not in _KEPT]
        if not places:
            return program
        start, end, old = random.choice(places)
        if how < 0.8:
            statements = [s for s in _statements(file, text, v0=program.v0) if s[0] <= start < s[1]]
            start, end = statements[0] if statements else (start, end)
        changed = text[:start] + _replaced(text[start:end], old, new) + text[end:]
    return replace(program, modules={**program.modules, file: changed})


def _replaced(text: str, old: str, new: str) -> str:
    for start, end, name in reversed(_tokens(text)):
        if name == old:
            text = text[:start] + new + text[end:]
    return text


def _parsed(file: str, text: str, *, v0: bool) -> Module | None:
    try:
        return parse_module(Source(file, text), v0=v0)
    except RegoError:
        return None


def _statements(file: str, text: str, *, v0: bool) -> Iterator[tuple[int, int]]:
    module = _parsed(file, text, v0=v0)
    if module is not None:
        yield from ((rule.span.start, rule.span.end) for rule in module.rules)


def _with_import(program: Program, random: Random) -> Program:
    file = random.choice(sorted(program.modules))
    module = _parsed(file, program.modules[file], v0=program.v0)
    names = _names(program)
    if module is None or not names:
        return program
    paths = [[*path] for path in _paths(program)]
    path = random.choice(paths) if paths and random.random() < 0.6 else ["input"]
    while random.random() < 0.4 or path == ["input"]:
        path = [*path, random.choice([*names, "input", "data"])]
    written = path[0] + "".join([f'["{part}"]' for part in path[1:]])
    pool = [*names, *GLOBALS]
    alias = f" as {random.choice(pool)}" if random.random() < 0.6 else ""
    text = program.modules[file]
    at = module.package.span.end
    changed = f"{text[:at]}\nimport {written}{alias}\n{text[at:]}"
    return replace(program, modules={**program.modules, file: changed})


def _paths(program: Program) -> Iterator[tuple[str, ...]]:
    """The packages and rules of a program."""
    for file, text in sorted(program.modules.items()):
        module = _parsed(file, text, v0=program.v0)
        if module is not None:
            package = ("data", *module.package.path)
            yield package
            for rule in module.rules:
                yield (*package, rule.head.ref.head.name)  # type: ignore[union-attr]  # of a rule
