"""`doorward config`: what a configuration file says, before a server starts with it."""

from __future__ import annotations

import click

from doorward.cli import overrides
from doorward.cli.errors import warn
from doorward.config.configuration import ConfigError, read_config

__all__ = ["command"]


@click.group("config")
def command() -> None:
    """Look at configuration files."""


@command.command("check")
@click.argument("file", required=False)
@overrides.option
@overrides.file_option
def check(file: str | None, settings: tuple[str, ...], setting_files: tuple[str, ...]) -> int:
    """Read the configuration in FILE as `run` does, and say what is wrong with it.

    The exit code is 1 where the server would not start with it. Variables are those of this
    environment; certificates, services and sockets are not looked at.
    """
    # The adapter's own block is its own to read.
    from doorward.server.sidecar_options import StartupError, envoy_options, ext_proc_options

    try:
        config = read_config(file, overrides=settings, files=setting_files)
        envoy_options(config)
        ext_proc_options(config)
    except (ConfigError, StartupError) as error:
        click.echo(f"error: {error}", err=True)
        return 1
    warn(config.warnings)
    return 0
