"""Generated functions as text for people: a legend, and the policy's rows above their code.

The text is for reading, tests and docs; what runs is compiled from the tree itself. A comment
stands where the code of another row of the policy begins.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

from doorward.rego.codegen.sharing import Rows
from doorward.rego.conversion import is_value
from doorward.rego.errors import COMPILE_ERROR, CompileError, Diagnostic
from doorward.rego.runtime.evaluation import Site
from doorward.rego.source import Source, Span
from doorward.rego.values import to_rego

__all__ = ["listing"]

MAX_WIDTH: Final = 90
"""The most characters of a row or a value in a comment."""

_KINDS: Final = {
    "rt": "rt.*       what the runtime offers to generated code (runtime/exports.py)",
    "fn": "fn.*       built-in functions; they check their operands",
    "body": "body.*     built-in functions whose operands are checked here",
    "path": "path.*     paths of names, for lookups of another kind than Python's own",
    "table": "table.*    the definitions of a rule by the value of an input path or an operand",
    "data": "data.*     the rules at that path; with `#n` their definition n, from 0",
}
"""What the names in generated code mean that begin with these words and a dot."""

_CONTEXT: Final = (
    "ctx        the evaluation: input, data, answers, limits",
    "_name      a temporary, named by what it holds",
)


def listing(source: Source, tree: ast.Module, names: Mapping[str, Any]) -> str:
    """Return the functions in `tree`, generated from `source`, as text, after comments that explain
    the names they use; `names` are the objects with these names. CompileError if the functions nest
    too deeply to be printed.
    """
    try:
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        text = ast.unparse(_Rows(source).marked(tree))
    except RecursionError:
        message = "the code nests too deeply to be printed"
        raise CompileError([Diagnostic(COMPILE_ERROR, message)]) from None
    legend = [f"# {line}" for line in _legend(used, names)]
    return "\n".join([*legend, "", text])


class _Rows:
    """Writes a comment with the policy's row before the first statement of its code."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def marked(self, tree: ast.Module) -> ast.Module:
        """Return a copy of `tree` with the source lines as comments."""
        tree = copy.deepcopy(tree)
        for function in tree.body:
            self._mark_blocks(function, 0)
        return tree

    def _mark_blocks(self, item: ast.AST, row: int) -> int:
        """Insert comments before the statements in `item` that begin another row of the policy than
        `row`, the last row shown. Changes `item`; return the new last row.
        """
        for name in ("body", "handlers"):
            statements: list[ast.stmt] = []
            for inner in getattr(item, name, ()):
                if isinstance(inner, ast.stmt) and inner.lineno != row and not _is_end(inner):
                    row = inner.lineno
                    statements += self._mark(row)
                statements.append(inner)
                row = self._mark_blocks(inner, row)
            if statements:
                setattr(item, name, statements)
        return row

    def _mark(self, row: int) -> Iterator[ast.stmt]:
        """Yield a comment with the position and text of the policy's line at `row`, cut to
        `MAX_WIDTH`; nothing if the line is blank.
        """
        text = self.source.line(row)
        if text.strip():
            position = f"{self.source.name}:{row}: " if self.source.name else ""
            # Names are printed as they are, and no name of ours begins so.
            yield ast.Expr(ast.Name(id=f"# {_cut(position + text)}", ctx=ast.Load()))


def _is_end(statement: ast.stmt) -> bool:
    """Return True if a statement only ends a function: it belongs to no row by itself."""
    return isinstance(statement, (ast.Return, ast.Nonlocal))


def _legend(used: set[str], names: Mapping[str, Any]) -> Iterator[str]:
    """Yield the heading of a listing and the lines that explain its names: the context, always; the
    kinds of names in `used`; and each constant `k.N` or `at.N` among them, by number. `names` must
    have these constants.
    """
    yield "Generated from Rego, for reading only."
    yield from _CONTEXT
    kinds = {name.partition(".")[0] for name in used if "." in name}
    yield from (line for kind, line in _KINDS.items() if kind in kinds)
    constants = [name for name in used if name.startswith(("k.", "at."))]
    for name in sorted(constants, key=lambda name: int(name.partition(".")[2])):
        yield f"{name:10} {_describe(names[name])}"


def _describe(value: Any) -> str:
    """Return a phrase that describes an object which generated code uses: `the position p.rego:3`,
    `the path a.b`, or the value in Rego, cut to `MAX_WIDTH`.
    """
    match value:
        case Rows():
            return f"the constants of {len(value)} definitions"
        case Span():
            return f"the position {value}"
        case Site():
            return f"the call of {value.name} at {value.span}"
        case tuple():
            return _cut(f"the path {'.'.join(map(str, value))}") if value else "the empty path"
    span = getattr(value, "span", None)
    if isinstance(span, Span):
        return f"the policy's {type(value).__name__.lower()} at {span}"
    if not is_value(value):
        return f"computed when the policy was compiled: a {type(value).__name__}"
    return _cut(to_rego(value))


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_WIDTH else text[: MAX_WIDTH - 1] + "…"
