"""`doorward parse`: the tree of a policy, for people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import click

from doorward.cli.errors import OneOf, documents_text, for_people
from doorward.pdp.go_json import object_text
from doorward.pdp.loader import LoadError, load
from doorward.rego import ParseError, Source, Span
from doorward.rego.builtins.go_json import indent, marshal
from doorward.rego.numbers import Number
from doorward.rego.syntax.opa_json import module_to_json
from doorward.rego.syntax.parser import parse_module

__all__ = ["command", "json_text", "tree"]


@click.command(
    "parse",
    epilog="""\b
Examples:
  doorward parse policy.rego
  doorward parse --no-places policy.rego
  doorward parse --format json policy.rego        # as `opa parse` prints it
""",
)
@click.argument("paths", nargs=-1)
@click.option("-f", "--format", "style", type=OneOf("pretty", "json"), default="pretty")
@click.option("--places/--no-places", default=True, help="Show row and column of each node.")
@click.option("--v0-compatible", is_flag=True, help="Read the policy as Rego v0.")
@click.option("--v1-compatible", is_flag=True, hidden=True)
def command(
    paths: tuple[str, ...], style: str, places: bool, v0_compatible: bool, v1_compatible: bool
) -> int:
    """Print the tree that the policy in the file PATH is read as.

    The pretty format is our own tree; the JSON is OPA's.
    """
    if not paths:
        raise click.UsageError("no source file specified")
    try:
        modules = load(paths[:1]).modules
        if not modules:
            raise LoadError([f"{paths[0]}: not a policy"])
        for name, text in modules.items():
            module = parse_module(Source(name, text), v0=v0_compatible)
            if style == "json":
                click.echo(indent(json_text(module_to_json(module)), "", "  "))
            else:
                click.echo("\n".join(tree(module, places=places)))
    except (LoadError, ParseError) as error:
        if style == "json":
            fields = {"errors": documents_text(error)}
            click.echo(indent(object_text(fields), "", "  "), err=True)
        else:
            click.echo(for_people(error), err=True)
        return 1
    return 0


def json_text(value: Any) -> str:
    """JSON on one line, with the keys in the order they have."""
    if isinstance(value, dict):
        return object_text({key: json_text(each) for key, each in value.items()})
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(json_text, value)) + "]"
    return marshal(value)


def tree(node: object, *, places: bool = True, label: str = "", depth: int = 0) -> Iterator[str]:
    """The lines of a node and all below it: its kind, its own values, and its place."""
    lead = "  " * depth + (f"{label}: " if label else "")
    if not is_dataclass(node) or isinstance(node, type):
        yield f"{lead}{_text(node)}"
        return
    own: list[str] = []
    below: list[tuple[str, object]] = []
    place = ""
    for each in fields(node):
        value = getattr(node, each.name)
        if isinstance(value, Span):
            place = f"  @{value.row}:{value.col}" if places and value.row else ""
        elif is_dataclass(value) or (isinstance(value, tuple) and _nested(value)):
            below.append((each.name, value))
        elif each.name == "value" or value not in (None, False, ()):
            own.append(f" {each.name}={_text(value)}")
    yield f"{lead}{type(node).__name__}{''.join(own)}{place}"
    for name, value in below:
        for number, item in enumerate(value if isinstance(value, tuple) else (value,)):
            inner = f"{name}[{number}]" if isinstance(value, tuple) else name
            yield from _branch(item, inner, depth + 1, places)


def _branch(item: object, label: str, depth: int, places: bool) -> Iterator[str]:
    """A node; or a tuple of them (the key and value of an object's item, the body of `not`)."""
    if not isinstance(item, tuple):
        yield from tree(item, places=places, label=label, depth=depth)
        return
    for number, each in enumerate(item):
        yield from _branch(each, f"{label}.{number}", depth, places)


def _nested(items: tuple[object, ...]) -> bool:
    return any(is_dataclass(item) or isinstance(item, tuple) for item in items)


def _text(value: object) -> str:
    if isinstance(value, Number):
        return value.text
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return repr(value)
