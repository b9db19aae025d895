"""`doorward version`."""

from __future__ import annotations

import platform
import sys

import click

from doorward import __version__

__all__ = ["command"]


@click.command("version")
def command() -> None:
    """Show the version of Doorward, of Python, and of the platform."""
    click.echo(f"Version: {__version__}")
    click.echo(f"Python Version: {platform.python_version()}")
    click.echo(f"Platform: {sys.platform}/{platform.machine()}")
    click.echo("Rego Version: v1")
