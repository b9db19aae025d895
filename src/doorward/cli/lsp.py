"""`doorward lsp`: the language server for editors, on standard input and output."""

from __future__ import annotations

import click

from doorward.bundles.loader import LoadError
from doorward.cli import capabilities, extensions
from doorward.rego.shared import Capabilities

__all__ = ["command"]


@click.command(
    "lsp",
    epilog="""\b
Examples:
  doorward lsp            # what an editor starts for files of type rego
  doorward lsp --data policies/data.json
  doorward lsp --builtins acme.policy_functions:registry
""",
)
@click.option(
    "--stdio",
    is_flag=True,
    hidden=True,
    help="Accepted for editors; the server always uses standard input and output.",
)
@click.option(
    "-d",
    "--data",
    multiple=True,
    metavar="PATH",
    help="Data file or folder for the verdicts on `never_` rules. Policies in it are not used. "
    "Repeatable.",
)
@capabilities.option
@extensions.option
def command(
    stdio: bool,
    data: tuple[str, ...],
    capabilities: Capabilities | None,
    builtins: tuple[str, ...],
) -> int:
    """Run the language server: diagnostics and their fixes, hover, definitions, references, rename,
    symbols, completion, signatures, formatting, verdicts on `never_` rules.

    It imports only what --builtins names; opening a folder never runs code. It needs the extra
    `lsp`: pip install 'doorward[lsp]'.
    """
    # The others have no need of it.
    from doorward.lsp.server import make_server

    try:
        # With `("",)` no project is asked for its built-ins: to open a folder must not import its
        # code.
        registry = extensions.registry_for(builtins or ("",), ())
    except LoadError as error:
        raise click.ClickException(str(error)) from None
    if capabilities is not None:
        registry = capabilities.registry(registry)
    make_server(registry, data).start_io()
    return 0
