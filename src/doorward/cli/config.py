"""`doorward config`: what a configuration file says, before a server starts with it."""

from __future__ import annotations

import json

import click

from doorward.cli import overrides
from doorward.cli.arguments import argument
from doorward.cli.errors import warn
from doorward.config.configuration import ConfigError, editor_schema, read_config

__all__ = ["command"]


@click.group("config")
def command() -> None:
    """Check configuration files."""


@command.command("check")
@argument(
    "file",
    required=False,
    help="Configuration file; without it, only the options are read.",
    # As the other commands name it.
    flags=("--config-file", "--file"),
)
@overrides.option
@overrides.file_option
def check(file: str | None, settings: tuple[str, ...], setting_files: tuple[str, ...]) -> int:
    """Read the configuration in FILE as `run` does, and report errors and warnings.

    The exit code is 1 if the server would not start with it, or if there is nothing to check.
    Variables are replaced from this environment. Addresses are read but not bound; services, and
    files that the configuration names besides, such as certificates, are not checked.
    """
    # The servers' blocks are theirs to read.
    from doorward.server.sidecar_options import plugin_warnings

    # A variable of a script that is empty must not look like a file that is right.
    if not (file or settings or setting_files):
        raise click.UsageError("there is nothing to check: name a file, or use --set or --set-file")
    try:
        config = read_config(file, overrides=settings, files=setting_files)
        warnings = (*config.warnings, *plugin_warnings(config))
    except ConfigError as error:
        click.echo(f"error: {error}", err=True)
        return 1
    warn(warnings)
    return 0


@command.command("schema")
def schema() -> int:
    """Print the JSON Schema of configuration files, so that editors can complete and check them.

    \b
    Example:
      doorward config schema > doorward.schema.json
      # yaml-language-server: $schema=doorward.schema.json      (first line of doorward.yaml)
    """
    from doorward.server.sidecar_options import plugin_sections

    click.echo(json.dumps(editor_schema(plugin_sections()), indent=2, ensure_ascii=False))
    return 0
