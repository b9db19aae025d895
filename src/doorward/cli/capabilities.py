"""`doorward capabilities`: what policies may use, as JSON made from the registry."""

from __future__ import annotations

import json
from typing import Final

import click

from doorward.cli import extensions
from doorward.pdp.loader import LoadError
from doorward.rego import Capabilities
from doorward.rego.tools import (
    FEATURES,
    V0_FEATURES,
    WASM_ABI_VERSIONS,
    future_keywords,
    to_declaration,
)

__all__ = ["command", "option"]

MAX_FILE: Final = 16 << 20


def _read(_ctx: click.Context, _param: click.Parameter, path: str | None) -> Capabilities | None:
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            return Capabilities.from_document(json.loads(file.read(MAX_FILE)))
    except OSError as error:
        what = (error.strerror or "failed").lower()
        raise click.BadParameter(f"open {path}: {what}") from None
    except ValueError as error:
        raise click.BadParameter(f"{path}: {error}") from None


option: Final = click.option(
    "--capabilities",
    callback=_read,
    metavar="FILE",
    help="Allow policies only what this file names: built-ins, keywords, features, hosts.",
)
"""The option of every command that compiles policies."""


@click.command("capabilities")
@click.option("--names", is_flag=True, help="Only the names of the built-ins.")
@click.option("--current", is_flag=True, help="Those of this version, as without the option.")
@click.option("--v0-compatible", is_flag=True, help="Those of Rego v0.")
@extensions.option
def command(names: bool, current: bool, v0_compatible: bool, builtins: tuple[str, ...]) -> None:
    """Print what policies may use, in the shape of OPA's capabilities file.

    The file can be cut down and given to the commands that take --capabilities.
    """
    try:
        registry = extensions.registry_for(builtins, ())
    except LoadError as error:
        raise click.ClickException(str(error)) from None
    if names:
        click.echo("\n".join(builtin.name for builtin in registry))
        return
    document = {
        "builtins": [to_declaration(builtin) for builtin in registry],
        "future_keywords": future_keywords(v0=v0_compatible),
        "wasm_abi_versions": [
            {"version": version, "minor_version": minor} for version, minor in WASM_ABI_VERSIONS
        ],
        "features": list(V0_FEATURES if v0_compatible else FEATURES),
    }
    click.echo(json.dumps(document, indent=2))
