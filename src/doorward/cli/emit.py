"""`doorward emit`: the Python that policies, or a query, become."""

from __future__ import annotations

import click

from doorward.cli.errors import for_people
from doorward.pdp.loader import LoadError, load
from doorward.rego import Engine, RegoError

__all__ = ["command"]


@click.command(
    "emit",
    epilog="""\b
Examples:
  doorward emit policy.rego
""",
)
@click.argument("paths", nargs=-1, required=True)
@click.option("--ignore", multiple=True, help="Names to leave out of folders.")
@click.option("--v0-compatible", is_flag=True, help="Read policies as Rego v0.")
def command(paths: tuple[str, ...], ignore: tuple[str, ...], v0_compatible: bool) -> int:
    """Print the generated Python of policies in files and folders.

    It is for reading: it runs only with the names that the engine gives it.
    """
    try:
        loaded = load(paths, ignore=ignore)
        engine = Engine(modules=loaded.modules, data=loaded.data, v0=v0_compatible)
    except (LoadError, RegoError) as error:
        click.echo(for_people(error), err=True)
        return 1
    for name, text in engine.emit().items():
        click.echo(f"# {name}\n{text.rstrip()}\n")
    return 0
