"""`doorward help`: the help of a command."""

from __future__ import annotations

import click

from doorward.cli.arguments import argument

__all__ = ["command"]


@click.command("help")
@argument("names", nargs=-1, help="Command, and its subcommand.")
@click.pass_context
def command(context: click.Context, names: tuple[str, ...]) -> None:
    """Show the help of a command, such as `doorward help envoy bootstrap`."""
    above = context.parent or context
    for name in names:
        group = above.command
        inner = group.get_command(above, name) if isinstance(group, click.Group) else None
        if inner is None:
            raise click.UsageError(f"No such command '{name}'.", above)
        above = click.Context(inner, parent=above, info_name=name)
    click.echo(above.get_help())
