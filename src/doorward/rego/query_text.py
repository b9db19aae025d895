"""The texts of a query: its body, and the package and imports whose names it sees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from doorward.rego.errors import COMPILE_ERROR, CompileError, Diagnostic, ParseError
from doorward.rego.source import Source
from doorward.rego.syntax.nodes import Body, Import
from doorward.rego.syntax.parser import parse_import, parse_module, parse_query

__all__ = ["parse_query_text", "parse_surroundings"]


def parse_query_text(text: str, *, v0: bool, imports: Iterable[Import] = ()) -> Body:
    """Parse a query, as Rego v0 if `v0`, with the keywords that `imports` name. CompileError if it
    is invalid or empty.
    """
    try:
        body = parse_query(Source("", text), v0=v0, imports=imports)
    except ParseError as error:
        raise CompileError(error.diagnostics) from None
    if not body:
        raise CompileError([Diagnostic(COMPILE_ERROR, "empty query cannot be compiled")])
    return body


def parse_surroundings(
    package: str, imports: Sequence[str], *, v0: bool
) -> tuple[tuple[str, ...], tuple[Import, ...]]:
    """Return the parsed package path and imports of a query, read as Rego v0 if `v0`; `data.`
    before the package is ignored. ParseError if one is invalid.
    """
    path: tuple[str, ...] = ()
    if package:
        text = f"package {package.removeprefix('data.')}"
        path = parse_module(Source("", text), v0=v0).package.path
    return path, tuple(parse_import(Source("", f"import {item}"), v0=v0) for item in imports)
