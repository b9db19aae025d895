"""Every option and every argument of every command says what it is."""

from __future__ import annotations

from collections.abc import Iterator

import click

from doorward.cli.arguments import argument
from doorward.cli.main import cli


def commands(group: click.Group, context: click.Context) -> Iterator[click.Command]:
    """The commands that a help shows, at any depth."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        yield command
        if isinstance(command, click.Group):
            yield from commands(command, click.Context(command, info_name=name, parent=context))


def silent_parameters(command: click.Command) -> list[str]:
    """The options and arguments of a command that have no text in its help."""
    shown = [each for each in command.params if not getattr(each, "hidden", False)]
    return [each.opts[-1] for each in shown if not getattr(each, "help", None)]


def test_every_option_and_argument_has_a_text() -> None:
    context = click.Context(cli, info_name="doorward")
    silent = {
        f"{each.name} {name}" for each in commands(cli, context) for name in silent_parameters(each)
    }
    assert silent == set()


def test_an_option_or_argument_without_a_text_is_noticed() -> None:
    @click.command()
    @click.argument("name")
    @click.option("--days")
    @click.option("--secret", hidden=True)
    @argument("file", help="File to read.")
    def command() -> None:
        """Do nothing."""

    assert silent_parameters(command) == ["name", "--days"]


def test_the_help_shows_the_text_of_an_argument() -> None:
    @click.command()
    @argument("file", help="File to read.")
    def command() -> None:
        """Do nothing."""

    context = click.Context(command)
    assert ("FILE", "File to read.") in [each.get_help_record(context) for each in command.params]
