"""`doorward emit`: the Python that policies, or a query, become."""

from __future__ import annotations

import click

from doorward.bundles.loader import LoadError
from doorward.bundles.sources import Sources
from doorward.cli import extensions
from doorward.cli.arguments import argument
from doorward.cli.errors import for_people
from doorward.rego import RegoError

__all__ = ["command"]


@click.command(
    "emit",
    epilog="""\b
Examples:
  doorward emit policy.rego
  doorward emit --query 'data.envoy.authz.allow' policy.rego
""",
)
@argument("paths", nargs=-1, help="Files and folders with policies.")
@click.option(
    "-q", "--query", default="", help="Show the code of this query instead of that of the policies."
)
@click.option(
    "--ignore",
    multiple=True,
    help="Skip files and folders with this name or pattern, such as '.*', in folders; repeatable.",
)
@extensions.option
@click.option("--v0-compatible", is_flag=True, help="Read policies as Rego v0.")
def command(
    paths: tuple[str, ...],
    query: str,
    ignore: tuple[str, ...],
    builtins: tuple[str, ...],
    v0_compatible: bool,
) -> int:
    """Print the generated Python of policies in files and folders, or of a query on them.

    The code is for reading. It cannot run outside the engine, which provides the names it uses.
    """
    if not paths and not query:
        raise click.UsageError("specify at least one file, or a query")
    try:
        sources = Sources(paths=paths, ignore=ignore, v0=v0_compatible)
        engine = extensions.engine_of(sources, builtins)
        texts = {query: engine.prepare(query).emit()} if query else engine.emit()
    except (LoadError, RegoError) as error:
        click.echo(for_people(error), err=True)
        return 1
    for name, text in texts.items():
        click.echo(f"# {name}\n{text.rstrip()}\n")
    return 0
