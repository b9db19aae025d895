"""`doorward completion`: the script that lets a shell complete commands, flags and files."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from doorward.cli.arguments import argument

__all__ = ["command"]

_HOW = {
    "bash": 'eval "$(doorward completion bash)"        # in ~/.bashrc',
    "zsh": 'eval "$(doorward completion zsh)"         # in ~/.zshrc',
    "fish": "doorward completion fish | source         # in ~/.config/fish/config.fish",
}


@click.command(
    "completion",
    epilog="\b\nExamples:\n" + "\n".join([f"  {line}" for line in _HOW.values()]),
)
@argument(
    "shell", type=click.Choice(sorted(_HOW)), help="Shell for which to print the completion script."
)
@click.pass_context
def command(ctx: click.Context, shell: str) -> int:
    """Print the script that completes `doorward` in SHELL."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "doorward", "_DOORWARD_COMPLETE").source())
    return 0
