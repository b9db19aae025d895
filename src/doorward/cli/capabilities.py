"""`doorward capabilities`: what policies may use, as JSON made from the registry."""

from __future__ import annotations

import json
from typing import Any, Final

import click

from doorward.base.os_errors import describe_os_error
from doorward.bundles.loader import LoadError
from doorward.cli import extensions
from doorward.rego.shared import Capabilities
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
    """Return the capabilities that --capabilities names; None without the option.

    Raise BadParameter if the file cannot be read or is malformed.
    """
    if path is None:
        return None
    try:
        return Capabilities.from_document(_document(path))
    except OSError as error:
        reason = describe_os_error(error)
        raise click.BadParameter(f"open {path}: {reason}") from None
    except ValueError as error:
        raise click.BadParameter(f"{path}: {error}") from None


def _document(path: str) -> Any:
    """Return the capabilities of a known version of OPA, such as v0.61.0, else those in the file
    `path`.

    Raise OSError or ValueError if the file cannot be read, exceeds `MAX_FILE` bytes or is not JSON.
    """
    if path.startswith("v"):
        from doorward.cli.opa_versions import capabilities_of  # every command has the option

        known = capabilities_of(path)
        if known is not None:
            return known
    with open(path, "rb") as file:
        content = file.read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        raise ValueError(f"the capabilities file is larger than {MAX_FILE} bytes")
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("the JSON in the capabilities file is nested too deeply") from None


option: Final = click.option(
    "--capabilities",
    callback=_read,
    metavar="FILE",
    help="Limit policies to the capabilities in this file, or of a version of OPA such as v0.61.0.",
)
"""The option of every command that compiles policies."""


def _choose(version: str | None, file: str | None) -> Any:
    """Return the capabilities of an OPA version, or of a file after checking them.

    Raise ClickException for an unknown version or a malformed file.
    """
    if version is not None:
        from doorward.cli.opa_versions import capabilities_of

        document = capabilities_of(version)
        if document is None:
            raise click.ClickException(f"no capabilities version found {version}")
        return document
    try:
        document = _document(file or "")
        Capabilities.from_document(document)
    except (OSError, ValueError) as error:
        reason = describe_os_error(error) if isinstance(error, OSError) else error
        raise click.ClickException(f"{file}: {reason}") from None
    return document


@click.command("capabilities")
@click.option("--names", is_flag=True, help="Print only the names of built-ins.")
@click.option(
    "--current", is_flag=True, help="Print the capabilities of this version (the default)."
)
@click.option("--v0-compatible", is_flag=True, help="Print the capabilities of Rego v0.")
@click.option(
    "--version", metavar="NAME", help="Print the capabilities of a version of OPA, such as v0.61.0."
)
@click.option("--file", metavar="FILE", help="Print the capabilities that this JSON file lists.")
@click.option("--versions", is_flag=True, help="Print the versions that --version accepts.")
@extensions.option
def command(
    names: bool,
    current: bool,
    v0_compatible: bool,
    version: str | None,
    file: str | None,
    versions: bool,
    builtins: tuple[str, ...],
) -> None:
    """Print what policies may use, in the format of OPA's capabilities file.

    Remove entries from the file and pass it to commands with --capabilities to limit policies.
    """
    if versions:
        from doorward.cli.opa_versions import VERSIONS

        click.echo("\n".join(f"v{each}" for each in VERSIONS))
        return
    if version is not None or file is not None:
        click.echo(json.dumps(_choose(version, file), indent=2))
        return
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
