"""`doorward deps`: what a query reads: documents of the input and of data, and rules."""

from __future__ import annotations

from collections.abc import Sequence

import click

from doorward.bundles.loader import LoadError
from doorward.bundles.sources import Sources
from doorward.cli import extensions
from doorward.cli.arguments import argument, bundle_option, data_option, style_option
from doorward.cli.errors import for_people
from doorward.cli.results import table
from doorward.rego import RegoError
from doorward.rego.golang import indent, marshal, object_text
from doorward.rego.shared import from_key, kind_name
from doorward.rego.tools import Documents, Path, path_text

__all__ = ["command"]


@click.command(
    "deps",
    epilog="""\b
Examples:
  doorward deps -d policy.rego data.envoy.authz.allow
  doorward deps -f json -d policies/ 'data.docker.authz.allow'
""",
)
@argument("query", nargs=-1, help="Query to examine, such as data.authz.allow.")
@data_option
@bundle_option
@style_option("pretty", "json", default="pretty")
@click.option(
    "--ignore",
    multiple=True,
    help="Skip files and folders with this name or pattern, such as '.*', in folders; repeatable.",
)
@extensions.option
@click.option("--v0-compatible", is_flag=True, help="Read policies and query as Rego v0.")
@click.option("--v1-compatible", is_flag=True, hidden=True)
def command(
    query: tuple[str, ...],
    data: tuple[str, ...],
    bundle: tuple[str, ...],
    style: str,
    ignore: tuple[str, ...],
    builtins: tuple[str, ...],
    v0_compatible: bool,
    v1_compatible: bool,
) -> int:
    """Print what QUERY reads: base documents (input and data) and virtual documents (rules).

    This shows which input and data a policy needs.
    """
    if len(query) != 1:
        raise click.UsageError("specify exactly one query argument")
    try:
        sources = Sources(paths=data, bundles=bundle, ignore=ignore, v0=v0_compatible)
        documents = extensions.engine_of(sources, builtins).documents(query[0])
    except (LoadError, RegoError) as error:
        click.echo(str(error) if isinstance(error, LoadError) else for_people(error), err=True)
        return 1
    click.echo(_as_json(documents) if style == "json" else _as_table(documents), nl=style == "json")
    return 0


def _as_json(documents: Documents) -> str:
    """Return the base and virtual documents as indented JSON; an empty list is left out, as in
    OPA.
    """
    lists = {"base": documents.base, "virtual": documents.virtual}
    fields = {
        name: "[" + ",".join(map(_ref, paths)) + "]" for name, paths in lists.items() if paths
    }
    return indent(object_text(fields), "", "  ")


def _ref(path: Path) -> str:
    """Return a path in the JSON form of OPA's references: a list of objects with `type` and
    `value`. The first one has the type `var`; each other one has the type of its key, such as
    `string`.
    """
    terms = []
    for n, key in enumerate(path):
        value = from_key(key)
        kind = "var" if n == 0 else kind_name(value)
        terms.append(object_text({"type": marshal(kind), "value": marshal(value)}))
    return "[" + ",".join(terms) + "]"


def _as_table(documents: Documents) -> str:
    """Return the documents as a table with two columns; an empty column is left out, "" if both are
    empty.
    """
    columns: list[tuple[str, Sequence[str]]] = [
        ("BASE DOCUMENTS", [_text(path) for path in documents.base]),
        ("VIRTUAL DOCUMENTS", [_text(path) for path in documents.virtual]),
    ]
    columns = [(name, cells) for name, cells in columns if cells]
    if not columns:
        return ""
    height = max(len(cells) for _, cells in columns)
    rows = [[cells[n] if n < len(cells) else "" for _, cells in columns] for n in range(height)]
    return table([name for name, _ in columns], rows)


def _text(path: Path) -> str:
    return str(path[0]) + path_text(path[1:]).removeprefix("data")
