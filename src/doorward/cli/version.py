"""`doorward version`."""

from __future__ import annotations

import platform
import sys

import click

from doorward import __version__

__all__ = ["command"]


@click.command("version")
@click.option(
    "-c",
    "--check",
    is_flag=True,
    help="Accepted for compatibility with OPA: Doorward never checks for new releases.",
)
def command(check: bool) -> int:
    """Show the version of Doorward, of Python, and of the platform."""
    click.echo(f"Version: {__version__}")
    click.echo(f"Python Version: {platform.python_version()}")
    click.echo(f"Platform: {sys.platform}/{platform.machine()}")
    click.echo("Rego Version: v1")
    if check:
        # OPA asks a service of its project; this one has none, and calls nobody unasked.
        click.echo("Error: the newest release is not known; look it up in your package index")
    return int(check)
