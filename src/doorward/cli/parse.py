"""`doorward parse`: the tree of a policy, for people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Final

import click

from doorward.bundles.loader import Limits, LoadError, policy_text, read_file
from doorward.cli.arguments import argument, style_option
from doorward.cli.errors import documents_text
from doorward.cli.opa_tree import tree_lines
from doorward.rego import Number
from doorward.rego.golang import indent, object_text, ordered_text
from doorward.rego.shared import ParseError, Source, Span
from doorward.rego.tools import module_to_json, parse_module

__all__ = ["command", "tree"]

_MAX_BYTES: Final = Limits().policy_bytes


@click.command(
    "parse",
    epilog="""\b
Examples:
  doorward parse policy.rego                      # as `opa parse` prints it
  doorward parse --format json --json-include locations policy.rego
  doorward parse --places policy.rego             # our own tree, with the place of each node
""",
)
@argument("paths", nargs=-1, help="File with a policy.")
@style_option("pretty", "json", default="pretty")
@click.option(
    "--json-include",
    default="",
    metavar="LIST",
    help="Parts of the JSON: `locations,comments`; prefix a part with `-` to omit it.",
)
@click.option(
    "--places/--no-places",
    default=None,
    help="Print Doorward's own tree instead of OPA's, with positions or without.",
)
@click.option("--v0-compatible", is_flag=True, help="Read the policy as Rego v0.")
@click.option("--v1-compatible", is_flag=True, hidden=True)
def command(
    paths: tuple[str, ...],
    style: str,
    json_include: str,
    places: bool | None,
    v0_compatible: bool,
    v1_compatible: bool,
) -> int:
    """Print the syntax tree of the policy in a file."""
    if not paths:
        raise click.UsageError("no source file specified")
    try:
        module = parse_module(_source(paths[0]), v0=v0_compatible, annotations=True)
    except (LoadError, ParseError) as error:
        fields = {"errors": documents_text(error)}
        click.echo(indent(object_text(fields), "", "  "), err=True)
        return 1
    included = json_include.split(",")
    if "-comments" in included:
        module = replace(module, comments=())
    if style == "json":
        document = module_to_json(module, locations="locations" in included)
        click.echo(indent(ordered_text(document), "", "  "))
    elif places is None:
        click.echo("\n".join(tree_lines(module_to_json(module))))
    else:
        click.echo("\n".join(tree(module, positions=places)))
    return 0


def _source(path: str) -> Source:
    return Source(path, policy_text(path, read_file(path, _MAX_BYTES)))


def tree(node: object, *, positions: bool = True, label: str = "", depth: int = 0) -> Iterator[str]:
    """Yield the lines of a node and its children, each level two spaces deeper: kind, attributes
    and, with `positions`, row and column. A value that is not a node is one line. `label` stands
    before the first line, `depth` is its level.
    """
    lead = "  " * depth + (f"{label}: " if label else "")
    if not is_dataclass(node) or isinstance(node, type):
        yield f"{lead}{_text(node)}"
        return
    fields_of_node: list[str] = []
    below: list[tuple[str, object]] = []
    position = ""
    for each in fields(node):
        value = getattr(node, each.name)
        if isinstance(value, Span):
            position = f"  @{value.row}:{value.col}" if positions and value.row else ""
        elif is_dataclass(value) or (isinstance(value, tuple) and _nest(value)):
            below.append((each.name, value))
        elif each.name == "value" or value not in (None, False, ()):
            fields_of_node.append(f" {each.name}={_text(value)}")
    yield f"{lead}{type(node).__name__}{''.join(fields_of_node)}{position}"
    for name, value in below:
        for number, item in enumerate(value if isinstance(value, tuple) else (value,)):
            inner = f"{name}[{number}]" if isinstance(value, tuple) else name
            yield from _branch(item, inner, depth + 1, positions)


def _branch(item: object, label: str, depth: int, positions: bool) -> Iterator[str]:
    """Yield the lines of a node or a scalar, or of each item of a tuple (the pairs of an object,
    the body of `not`), labelled `label.0`, `label.1`, …; with rows and columns if `positions` is
    True.
    """
    if not isinstance(item, tuple):
        yield from tree(item, positions=positions, label=label, depth=depth)
        return
    for number, each in enumerate(item):
        yield from _branch(each, f"{label}.{number}", depth, positions)


def _nest(items: tuple[object, ...]) -> bool:
    """Return True if one of the items is a node or a tuple."""
    return any(is_dataclass(item) or isinstance(item, tuple) for item in items)


def _text(value: object) -> str:
    """Return a scalar attribute of a node as text: numbers as written, strings quoted."""
    if isinstance(value, Number):
        return value.text
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return repr(value)
