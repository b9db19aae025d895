"""`doorward lsp`: the language server for editors, on standard input and output."""

from __future__ import annotations

import click

__all__ = ["command"]


@click.command(
    "lsp",
    epilog="""\b
Examples:
  doorward lsp            # what an editor starts for files of type rego
""",
)
@click.option("--stdio", is_flag=True, hidden=True, help="What editors add; there is no other way.")
def command(stdio: bool) -> int:
    """Answer an editor: diagnostics, hover, definitions, completion, formatting.

    Needs the extra `lsp`: pip install 'doorward[lsp]'.
    """
    # The others have no need of it.
    from doorward.lsp.server import make_server

    make_server().start_io()
    return 0
