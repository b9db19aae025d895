"""`doorward eval --partial`: what is left of a query, in the formats of `opa eval`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from doorward.base.records import record
from doorward.bundles.loader import LoadError
from doorward.rego import Engine, Undefined, Value
from doorward.rego.golang import ordered_text

if TYPE_CHECKING:
    from doorward.rego import Partial
    from doorward.rego.shared import Profile
    from doorward.testing.coverage import Coverage
    from doorward.testing.tracers import BothPartial

__all__ = [
    "FORMATS",
    "Residual",
    "UnknownsError",
    "check",
    "document",
    "evaluate",
    "format_partial",
]

FORMATS: Final = ("json", "pretty", "source")


@record
class Residual:
    """The options of partial evaluation."""

    unknowns: Sequence[str]
    disable_inlining: Sequence[str]
    shallow: bool
    nondeterministic: bool


class UnknownsError(click.UsageError):
    """An unknown that is not a path; `hint`, a line below OPA's message, names it."""

    def __init__(self, path: str) -> None:
        super().__init__(
            "illegal argument with --unknowns, specify string with one or more --unknowns"
        )
        self.hint = f"`{path}` must begin with `input` or `data`"


def check(residual: Residual, style: str) -> None:
    """Raise UsageError, in OPA's words, for an output format or unknowns that --partial does not
    accept.
    """
    if style not in FORMATS:
        raise click.UsageError("invalid output format for partial evaluation")
    for path in residual.unknowns:
        if not path.startswith(("input", "data")):
            raise UnknownsError(path)


def evaluate(
    engine: Engine,
    residual: Residual,
    query: str,
    input: Value | Undefined,
    *,
    deadline: float | None,
    package: str,
    imports: Sequence[str],
    strict_builtin_errors: bool,
    tracer: BothPartial | Coverage | Profile | None = None,
) -> Partial:
    """Return the residual of the query.

    Raise LoadError if an unknown is not a path, RegoError if compiling or evaluating fails.
    `deadline` in seconds, None for no limit.
    """
    try:
        return engine.partial(
            query,
            residual.unknowns,
            input,
            disable_inlining=tuple(residual.disable_inlining),
            shallow=residual.shallow,
            nondeterministic=residual.nondeterministic,
            package=package,
            imports=tuple(imports),
            strict_builtin_errors=strict_builtin_errors,
            deadline=deadline,
            tracer=tracer,
        )
    except ValueError as error:
        raise LoadError([f"failed to parse ref: {error}"]) from None


def document(partial: Partial) -> str:
    """Return the residual as JSON on one line; empty parts are left out."""
    fields: dict[str, Any] = {"queries": partial.ast["queries"], "modules": partial.ast["support"]}
    return ordered_text({name: part for name, part in fields.items() if part})


def format_partial(partial: Partial, style: str) -> str:
    """Return the result of partial evaluation as text. The style `source` is plain Rego; any other
    style is a table, or the line `undefined` if no query remains.
    """
    from doorward.rego.tools import format_tree  # nothing else of `eval` formats

    queries = [format_tree(query) for query in partial.queries]
    support = [format_tree(module) for module in partial.support]
    if style == "source":
        return _source(queries, support)
    if not queries:
        return "undefined\n"
    return _table(
        [(f"Query {number}", text) for number, text in enumerate(queries, 1)]
        + [(f"Support {number}", text) for number, text in enumerate(support, 1)]
    )


def _source(queries: Sequence[str], support: Sequence[str]) -> str:
    """Return the residual queries and the support modules as one text, each below a comment with
    its number.
    """
    parts = [f"# Query {number}\n{text or chr(10)}\n" for number, text in enumerate(queries, 1)]
    parts += [f"# Module {number}\n{text}" for number, text in enumerate(support, 1)]
    return "".join(parts)


def _table(rows: Sequence[tuple[str, str]]) -> str:
    """Return a table of two columns whose cells may have several lines."""
    cells = [(name, text.replace("\t", "  ").strip("\n").split("\n")) for name, text in rows]
    widths = max(len(name) for name, _ in cells), max(len(line) for _, t in cells for line in t)
    rule = "+" + "+".join(["-" * (width + 2) for width in widths]) + "+\n"
    lines = [rule]
    for name, text in cells:
        for number, line in enumerate(text):
            first = "" if number else name
            lines.append(f"| {first.ljust(widths[0])} | {line.ljust(widths[1])} |\n")
        lines.append(rule)
    return "".join(lines)
