"""Which names exist: identifiers of the code, words of its strings, and paths of the repository."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.parsing import nodes_of

__all__ = ["docstrings", "known_names", "quoted_names"]

_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_QUOTED: Final = re.compile(r"`([^`\n]+)`")
_NAME: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?:\(\))?")


def known_names(root: Path) -> set[str]:
    """Identifiers, modules, and words of strings in code; docstrings do not count."""
    names: set[str] = set()
    for folder in ("src", "tests", "examples", "benchmarks", "scripts", "fuzz"):
        for path in (root / folder).rglob("*"):
            if path.suffix == ".py":
                names |= set(path.relative_to(root).with_suffix("").parts)
                names |= set(_words(nodes_of(path)))
            elif path.suffix in {".rego", ".toml", ".txt", ".proto", ".yaml", ".json"}:
                names |= set(_WORD.findall(path.read_text(encoding="utf-8")))
    return names


def _words(nodes: Iterable[ast.AST]) -> Iterator[str]:
    docs = {id(each) for each, _ in _docstring_nodes(nodes)}
    for node in nodes:
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.alias(name=name):
                yield from _WORD.findall(name)
            case ast.Constant(value=str(text)) if id(node) not in docs:
                yield from _WORD.findall(text)
            case _:
                pass


def _docstring_nodes(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.Constant, int]]:
    """Docstrings, and the strings below an assignment that document it."""
    for node in nodes:
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str()) as text):
                    yield text, text.lineno
                case _:
                    pass


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """The docstrings of a module with their lines."""
    for node, line in _docstring_nodes(nodes_of(path)):
        yield line, str(node.value)


def quoted_names(text: str) -> Iterator[str]:
    """What is in backticks and is written as a name of code: dotted, snake or camel case."""
    for quoted in _QUOTED.findall(text):
        telling = "_" in quoted.strip("_") or re.search(r"[a-z][A-Z]", quoted)
        if telling and _NAME.fullmatch(quoted):
            yield quoted.removesuffix("()")
